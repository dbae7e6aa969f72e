"""Escapes, formulas, clashing outputs, full disks, closed pipes, narrow terminals and interrupts: one line each."""

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairpost.cli import main
from support.commands import call
from support.counts_csv import COUNTS, refused

FAIRPOST = [sys.executable, "-m", "fairpost"]
QUICK = ("--epsilon", "1", "--postprocess", "nonnegative")


def test_escapes_in_ids_do_not_reach_the_terminal(cli):
    for bad in ("\x1b[2J", "\x9b31m", "\x07", "\x7f", "\u2028"):
        Path("bad.csv").write_text(f"id,count\nx{bad}y,3\nb,40\n")
        for words in (
            ["audit", "bad.csv", *QUICK],
            ["allocate", "bad.csv"],
            ["audit", "bad.csv", "--id", f"x{bad}", *QUICK],
        ):
            _, out, err = cli(*words)
            assert out + err
            assert bad not in out + err, words


def test_formulas_are_marked_on_request_alone(cli):
    Path("f.csv").write_text("id,count\n=cmd|' /C calc'!A0,-3\n+x,40\n-5,8\nplain,1\n")
    names = ["=cmd|' /C calc'!A0", "+x", "-5", "plain"]
    for words, want in (([], names), (["--csv-safe"], ["'=cmd|' /C calc'!A0", "'+x", "-5", "plain"])):
        code, out, _ = cli("project", "f.csv", *words)
        rows = list(csv.DictReader(io.StringIO(out)))
        assert (code, [r["id"] for r in rows]) == (0, want)
        assert [float(r["noisy_count"]) for r in rows] == [-3, 40, 8, 1]


def test_outputs_that_clash_are_refused_before_the_work(cli, monkeypatch):
    from fairpost.study import true

    monkeypatch.setattr(true, "compare", lambda *_, **__: pytest.fail("the work began"))
    sim = ("--method", "monte-carlo", *QUICK)
    assert refused(
        cli("audit", "counts.csv", *sim, "--checkpoint", "x", "--json", "x"), "a place of its own", "another output"
    )
    assert refused(
        cli("audit", "counts.csv", *sim, "--checkpoint", "counts.csv"), "a place of its own", "the input counts.csv"
    )
    assert refused(cli("audit", "counts.csv", *sim, "--checkpoint", "no/x"), "the folder of an output must exist")
    assert refused(cli("audit", "counts.csv", *sim, "--checkpoint", "."), "must be a file, got a directory")
    assert refused(cli("audit", "counts.csv", *QUICK, "--json", "no/x"), "the folder of an output must exist")
    assert sorted(p.name for p in Path().iterdir()) == ["counts.csv"]


def spawn(words, **given):
    return subprocess.run([*FAIRPOST, *words], stderr=subprocess.PIPE, check=False, timeout=100, **given)


def test_a_full_disk_behind_stdout_is_one_line(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    (tmp_path / "c.csv").write_text(COUNTS)
    with open("/dev/full", "wb") as full:
        done = spawn(["project", "c.csv"], stdout=full, cwd=tmp_path)
    last = done.stderr.decode().splitlines()[-1]
    assert (done.returncode, last) == (3, "fairpost: the system refuses to read or write: No space left on device")
    assert b"Traceback" not in done.stderr
    assert b"ignored" not in done.stderr


def test_a_closed_pipe_ends_with_141(tmp_path):
    (tmp_path / "c.csv").write_text(COUNTS)
    read, write = os.pipe()
    os.close(read)
    done = spawn(["project", "c.csv"], stdout=write, cwd=tmp_path)
    os.close(write)
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr
    assert b"ignored" not in done.stderr


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (
            [
                "sweep",
                "c.csv",
                "--epsilons",
                "0.1",
                "1",
                "--points",
                "2",
                "--postprocess",
                "simplex",
                "--html",
                "a.html",
                "--csv",
                "a.csv",
            ],
            ["a.html", "a.csv"],
        ),
        (["audit", "c.csv", *QUICK, "--json", "a.json", "--csv", "-"], ["a.json"]),
        (["project", "c.csv", "--json", "a.json"], ["a.json"]),
        (["demo", "--html", "a.html"], ["a.html"]),
        (
            ["audit", "t.csv", "--levels", "s:1,b:2", "--level-sigma", "0,1", "--runs", "50", "--csv", "a.csv"],
            ["a.csv"],
        ),
    ],
)
def test_a_closed_stdout_stops_no_file(tmp_path, monkeypatch, words, files):
    """`fairpost ... | head`: whoever reads the screen may leave; what was asked for as files is there, as without a screen."""
    (tmp_path / "c.csv").write_text(COUNTS)
    (tmp_path / "t.csv").write_text("id,count\naa,3\nab,40\nba,9\n")
    monkeypatch.chdir(tmp_path)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone, contextlib.redirect_stdout(gone), pytest.raises(SystemExit) as ended:
        main(args=words, prog_name="fairpost")
    assert ended.value.code == 141
    made = {name: Path(name).read_text(encoding="utf-8") for name in files}
    assert call(*words, "--force").returncode == 0
    for name, text in made.items():
        assert len(text.splitlines()) == len(Path(name).read_text(encoding="utf-8").splitlines()) > 1


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_narrow_terminal_gets_question_marks(tmp_path, encoding):
    (tmp_path / "c.csv").write_text("id,count\nЛондон,3\nb,40\n", encoding="utf-8")
    done = spawn(
        ["audit", "c.csv", *QUICK],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    assert "??????" in done.stdout.decode(encoding)


def test_arguments_that_are_not_utf8(tmp_path):
    (tmp_path / "c.csv").write_text(COUNTS)
    words = [b"audit", b"c.csv", *(w.encode() for w in QUICK), b"--title", b"\xff\xfe", b"--json", b"\xffo.json"]
    done = subprocess.run(
        [*map(os.fsencode, FAIRPOST), *words], capture_output=True, check=False, timeout=100, cwd=os.fsencode(tmp_path)
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    made = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xffo.json"))
    assert "udcff" in json.loads(made.read_text(encoding="utf-8"))["command"]
    done = subprocess.run(
        [*map(os.fsencode, FAIRPOST), b"audit", b"\xff.csv", b"--epsilon", b"1"],
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


PRESSED = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    pass
whole = True
"""


WAITED = """
import sys, time
from fairpost.cli import interrupts
begun = time.monotonic()
try:
    with interrupts.noticed():
        import quick
        time.sleep(30)
except KeyboardInterrupt:
    print("interrupted", sys.modules["quick"].whole, time.monotonic() - begun < 20)
interrupts.PATIENCE = 0.3
begun = time.monotonic()
try:
    with interrupts.noticed():
        import slow
except KeyboardInterrupt:
    print("interrupted", "slow" in sys.modules, 0.3 <= time.monotonic() - begun < 20)
"""


def test_an_interrupt_waits_for_the_import_under_way(tmp_path):
    """A half-made module may turn it into another error, or never be imported again; but no import is waited for without end."""
    (tmp_path / "quick.py").write_text(PRESSED.format(seconds=0.2))
    (tmp_path / "slow.py").write_text(PRESSED.format(seconds=60))
    done = subprocess.run(
        [sys.executable, "-c", WAITED], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert done.stderr == ""
    assert done.stdout == "interrupted True True\ninterrupted False True\n"


def test_an_interrupt_that_breaks_an_import_ends_with_the_same_line():
    """Numpy cannot be imported a second time in a process; the last line needs none of it."""
    hidden = (
        "import sys\n"
        "from fairpost.cli import main\n"
        "assert 'numpy' not in sys.modules\n"
        "class Once:\n"
        "    asked = False\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy' and Once.asked:\n"
        "            raise ImportError('cannot load module more than once per process')\n"
        "        if name == 'numpy':\n"
        "            Once.asked = True\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Once())\n"
        "main(['audit', 'in.csv', '--epsilon', '1'])\n"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (130, "fairpost: interrupted, nothing was written\n")
