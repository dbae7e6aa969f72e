"""What --help says: at most 80 columns, and an example at the end that runs as it stands."""

import importlib
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost.cli import exploring, main, warming
from fairpost.paper import figures
from fairpost.paper.tables import Runs
from support.helps import EVERY, help_of
from support.releases import with_selftest
from support.workbooks import saipe_text

TRUE = [(f"{k:02}{7 * k:05}", f"District {k}", 40 * k * k + 3, 9 * k * k + 1, 2 * k * k) for k in range(1, 25)]
FILES = {
    "districts.csv": "leaid,id,name,pop,pop_5_17,poor_5_17,count\n"
    + "".join(f"{i},{i},{name},{pop},{young},{poor},{poor}\n" for i, name, pop, young, poor in TRUE),
    "tracts.csv": "id,count,county,county_total\na,-3.5,x,40\nb,41.25,x,40\nc,7,y,20\nd,14.5,y,20\n",
    "noisy.csv": "id,count\na,-3.5\nb,41.25\nc,7\n",
    "list.csv": "id,state\na,x\nb,x\nc,x\n",
    "longer-list.csv": "id,state\na,x\nb,x\nc,x\nd,y\ne,y\nf,y\n",
    "second.csv": "id,count\nc,4\na,12\nb,38.5\n",
    "true.csv": "id,count\na,3\nb,40\nc,5\n",
    "ussd19.txt": saipe_text([(i[:2], i[2:], name, pop, young, poor) for i, name, pop, young, poor in TRUE]),
}


def example_of(words):
    """The commands of the example at the end of a help, as lines of a shell."""
    lines = help_of(words).rstrip("\n").split("\n")
    starts = [k for k, line in enumerate(lines) if line.startswith("  Example: ")]
    assert len(starts) == 1, f"{words}: one example"
    found = lines[starts[0] :]
    assert all(line.startswith("  ") for line in found), f"{words}: the example is at the end"
    text = "\n".join(line for line in found if line.startswith("    "))
    return [" ".join(line.split()) for line in re.sub(r"\\\n", " ", text).split("\n")]


@pytest.mark.parametrize("words", [(), ("budget",)], ids=" ".join)
def test_a_group_without_a_command_says_its_help(words):
    """All of it, line by line, to whoever reads stdout; the exit code is that of a command that is missing, as in click."""
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, list(words))
    assert (done.exit_code, done.stderr) == (2, "")
    assert done.stdout.rstrip("\n") == help_of(words).rstrip("\n")
    assert len(done.stdout.splitlines()) > 10


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_ends_with_an_example_of_this_command(words):
    lines = example_of(words)
    assert all(line.startswith("fairpost ") for line in lines)
    assert any(line.split()[1 : 1 + len(words)] == list(words) for line in lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the examples name, and the ledger that `budget` makes in its example."""
    place = tmp_path_factory.mktemp("examples")
    for name, content in FILES.items():
        (place / name).write_text(content)
    return place


def carried_out(line):
    """One line of a shell, with > at most."""
    command, _, target = line.partition(" > ")
    program, *words = shlex.split(command)
    assert program == "fairpost"
    done = CliRunner().invoke(main, words)
    if target:
        Path(target).write_bytes(done.stdout_bytes)
    return done


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_example_runs(words, folder, tmp_path, monkeypatch):
    for path in folder.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    if words[:1] in (("release",), ("budget",)):
        pytest.importorskip("opendp")
        if words != ("budget",):
            (line,) = example_of(("budget",))
            assert carried_out(line).exit_code == 0
            with_selftest(fp.Ledger.open(shlex.split(line)[3]))  # its seconds are in test_release_noise
    if words == ("paper",):
        pytest.importorskip("matplotlib")
        importlib.import_module("fairpost.paper.reproduce")
        monkeypatch.setattr(
            sys.modules["fairpost.paper.reproduce"], "QUICK", Runs(1000, 200)
        )  # all of them in test_paper, and the figures painted
        monkeypatch.setattr(
            figures.Drawing, "files", lambda self: {f"{self.name}.{e}": e.encode() for e in ("png", "pdf")}
        )
    if words == ("compile",):  # all kernels take minutes where none is kept; what each job does is in test_cache
        monkeypatch.setattr(warming, "questions", list)
    if words == ("explore",):  # it would serve until Ctrl-C; the page itself is in test_explore_page
        pytest.importorskip("starlette")
        monkeypatch.setattr(exploring, "_serve", lambda session, *_: print(session.mapped.name))
    before = {p.name for p in tmp_path.iterdir()}
    for line in example_of(words):
        done = carried_out(line)
        assert done.exit_code == 0, f"{line}\n{done.output}"
        named = re.findall(r"--(?:html|csv|json|out) (\S+)", line)
        assert all(Path(name).exists() for name in named)
    made = {p.name for p in tmp_path.iterdir()} - before
    assert made or done.stdout
