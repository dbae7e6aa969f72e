"""Every command that writes, ended in the middle of its writing: by Ctrl-C, by a kill, by a full disk.

Three outputs that exist already (`--force`). Whatever happens between the first rename and the last: no output is half-written, an
interrupt or an error leaves the old files as they were, and what a kill leaves behind is gone after the next run.
"""

import errno
import signal

import pytest
from click import Context

from fairpost.cli import main

TRUE = "id,count,weight,group\n007,3,1.3,north\nBirch,11,0.7,south\nCedar,47,1.1,north\nElm,820,1.7,south\n"
NOISY = "id,count\n007,-4\nBirch,13\nCedar,49\nElm,824\n"
ONE = "--postprocess nonnegative"
WRITERS = {
    "audit": f"audit true.csv --epsilon 1 {ONE}", "plan": f"plan true.csv --max-alpha 99 --points 2 {ONE}",
    "sweep": f"sweep true.csv --points 2 {ONE}", "check": "check true.csv noisy.csv --scale 4",
    "project": "project noisy.csv --total 880", "allocate": "allocate noisy.csv", "demo": "demo", "paper": "folder",
}  # fmt: skip
ELSEWHERE = {"release", "run"}
"""A release has a protocol of its own, and a crash at every point of it (tests/release/test_protocol.py); a study is run by these commands."""
FAULT = """
import os, pathlib, signal, sys
plain, calls, fault, at = os.replace, [0], sys.argv.pop(1), int(sys.argv.pop(1))
def replace(fresh, target):
    if pathlib.Path(target).parent.resolve() == pathlib.Path.cwd() and pathlib.Path(target).name.startswith("out"):
        calls[0] += 1
        if calls[0] == at:
            if fault == "ENOSPC":
                raise OSError({full}, "No space left on device")
            if fault != "none":
                os.kill(os.getpid(), getattr(signal, fault))
    return plain(fresh, target)
os.replace = replace
{run}
"""
COMMAND = "from fairpost.__main__ import run\nrun()"
FOLDER = """
from pathlib import Path
from fairpost.paper import folder
about = b'{"made_by": "fairpost paper", "files": ["index.html", "about.json", "tables/one.csv"]}'
pages = {"index.html": b"page" * 400, "tables/one.csv": b"1", "about.json": about}
folder.write(folder.check(Path("out"), force=True), pages, force=True)
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "true.csv").write_text(TRUE)
    (tmp_path / "noisy.csv").write_text(NOISY)
    return tmp_path


def asked(name):
    """The words of a command with all the outputs that it has."""
    command = main.get_command(Context(main), name)
    ends = [end for end in ("json", "csv", "html") if f"--{end}" in {p.opts[-1] for p in command.params}]
    words = WRITERS[name].split()
    return [*words, *(w for end in ends for w in (f"--{end}", f"out.{end}")), "--force"], [f"out.{end}" for end in ends]


def test_no_writer_is_left_out():
    context = Context(main)
    found = {
        name
        for name in main.list_commands(context)
        for p in main.get_command(context, name).params
        if p.opts[-1] in ("--json", "--csv", "--html", "--out")
    }
    assert found == set(WRITERS) | ELSEWHERE


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "paper"])
def test_a_command_that_is_ended_while_it_writes(name, place, forks):
    words, outputs = asked(name)
    code = FAULT.format(full=errno.ENOSPC, run=COMMAND)

    def run(fault, at):
        return forks.code(code, fault, at, *words, cwd=place)

    def files():
        return {p.name: p.read_bytes() for p in place.iterdir() if p.name not in ("true.csv", "noisy.csv")}

    for output in outputs:
        (place / output).write_bytes(b"before")
    old = files()
    last = len(outputs)  # all but one are in their places
    done = run("SIGINT", last)
    assert done.returncode == 130, done
    assert "Traceback" not in done.stderr
    assert files() == old
    done = run("ENOSPC", last)
    assert done.returncode == 3, done
    assert done.stderr.count("cannot be written: No space left on device\n") == 1
    assert done.stderr.endswith("device\n")
    assert "Traceback" not in done.stderr
    assert files() == old
    assert run("SIGKILL", last).returncode == -signal.SIGKILL
    left = files()
    assert len(left) > len(old), "the kill came too late to leave anything"
    whole = {output: left[output] for output in outputs}
    assert run("none", 0).returncode == 0
    new = files()
    assert set(new) == set(outputs)
    for output in outputs:
        assert new[output] != b"before"
        assert whole[output] == b"before" or len(whole[output]) == len(new[output])


def test_the_folder_of_the_paper_is_never_lost(tmp_path, forks):
    """Between its two renames: an interrupt or an error puts the old folder back; a kill leaves it whole under another name."""
    code, out = FAULT.format(full=errno.ENOSPC, run=FOLDER), tmp_path / "out"

    def pages(folder):
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    assert forks.code(code, "none", 0, cwd=tmp_path).returncode == 0
    new = pages(out)
    (out / "index.html").write_bytes(b"mine")
    mine = pages(out)
    for fault in ("ENOSPC", "SIGINT"):
        assert forks.code(code, fault, 1, cwd=tmp_path).returncode != 0
        assert [p.name for p in tmp_path.iterdir()] == ["out"]
        assert pages(out) == mine
    assert forks.code(code, "SIGKILL", 1, cwd=tmp_path).returncode == -signal.SIGKILL
    assert not out.exists()
    assert mine in [pages(p) for p in tmp_path.iterdir()]
    assert forks.code(code, "none", 0, cwd=tmp_path).returncode == 0
    assert pages(out) == new
    assert [pages(p) for p in tmp_path.iterdir() if p != out] == [mine]  # the only copy: nobody removes it
