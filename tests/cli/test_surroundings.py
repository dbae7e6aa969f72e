"""What surrounds the program, set on purpose: colours that are asked for, locales without UTF-8, closed streams, ignored signals.

`conftest.settle` takes all of that away from the other tests.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from fairpost.cli import main
from support.commands import call

FAIRPOST = (sys.executable, "-m", "fairpost")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
QUICK = ("--epsilon", "1", "--postprocess", "simplex")
NARROW = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""What is left where nobody has set a locale and Python must not help itself: ASCII."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two tables with letters that ASCII lacks."""
    (tmp_path / "c.csv").write_text("id,count\nÉvreux,5\nb,50\nc,500\nd,5000\ne,0\n", encoding="utf-8")
    (tmp_path / "levels.csv").write_text("s,id,count\nÉ,a1,5\nÉ,a2,50\nß,b1,500\nß,b2,5000\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "screen"),
    [
        (("audit", "c.csv", *QUICK), True),
        (("audit", "c.csv", *QUICK, "--json", "-"), False),
        (("audit", "c.csv", *QUICK, "--csv", "-"), False),
        (("project", "c.csv"), False),
        (("sweep", "c.csv", "--points", "2", "--postprocess", "simplex", "--csv", "-"), False),
    ],
)
def test_colours_that_are_asked_for_reach_the_screen_and_nothing_else(forks, here, words, screen):
    plain, forced = (
        forks.command(*words, cwd=here, env=os.environ | more)
        for more in ({}, {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"})
    )
    assert (plain.returncode, forced.returncode) == (0, 0), forced.stderr
    assert ("\x1b" in forced.stdout) == screen
    assert ESCAPE.sub("", forced.stdout) == plain.stdout  # as wide as without, and no bar
    assert ESCAPE.sub("", forced.stderr) == plain.stderr
    assert "\x1b" not in plain.stdout + plain.stderr


@pytest.mark.parametrize("around", [NARROW, {"PYTHONIOENCODING": "cp1252"}], ids=["C", "cp1252"])
def test_where_signs_are_lacking_the_screen_has_what_is_near_and_files_have_all(here, around):
    said = (*FAIRPOST, "audit", "c.csv", *QUICK, "--json", "a.json", "--csv", "a.csv", "--html", "a.html")
    done = subprocess.run(said, capture_output=True, cwd=here, env=os.environ | around, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, b"wrote a.json, a.csv, a.html\n")
    screen = done.stdout.decode(around.get("PYTHONIOENCODING", "ascii"))
    (found,) = json.loads((here / "a.json").read_text(encoding="utf-8"))["results"]
    assert f"gets +0.47021 and d -{found['largest_loss']['value']:.5f}," in screen  # with its sign
    assert {"É" if around is not NARROW else "E"} == set(re.findall(r"(.)vreux is under", screen))
    assert "?" not in screen
    assert "Évreux" in (here / "a.csv").read_text(encoding="utf-8")
    assert "Évreux" in (here / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "c.csv", *QUICK, "--json", "-"),
        ("audit", "levels.csv", "--levels", "s", "--level-sigma", "2,3", "--postprocess", "top-down", "--json", "-"),
        ("budget", "show", "l.ledger", "--json", "-"),
        ("budget", "history", "l.ledger", "--json", "-"),
        ("release", "c.csv", "--ledger", "l.ledger", "--epsilon", "1", "--chosen-from", "policy", "--dry-run", "--json", "-"),
    ],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_data_on_stdout_are_utf_8_whatever_the_terminal_speaks(here, words):
    if "l.ledger" in words:
        about = (
            "--dataset", "Été", "--unit", "Einwohner", "--other-ledgers", "none", "--neighbours", "add-remove",
            "--measure", "pure",
        )  # fmt: skip
        assert call("budget", "create", "l.ledger", *about, "--limit", "1").returncode == 0
    wide, narrow = (CliRunner(charset=c).invoke(main, words, prog_name="fairpost") for c in ("utf-8", "cp1252"))
    assert wide.exit_code == 0, wide.output
    assert wide.stdout_bytes.decode("utf-8") == narrow.stdout_bytes.decode("utf-8")


@pytest.mark.parametrize("number", ["1.3 × 10⁻⁵", "−0.25", "4.1 × 10⁹", "±3", "10.03\u00a0%"])
def test_a_number_stays_the_same_number(number):
    from fairpost.report.text import plain

    near = plain(number)
    assert near.isascii()
    assert float(re.sub(r"\s*x 10\^|\s*%|\+-", lambda m: "e" if "x" in m[0] else "", near)) == pytest.approx(
        float(number.replace(" × 10", "e").translate(str.maketrans("−⁻⁵⁹", "--59", "±\u00a0%")))
    )


@pytest.mark.parametrize("columns", ["²", "many", "-3", ""])
def test_a_width_that_is_no_number_is_as_good_as_none(here, columns):
    said = (*FAIRPOST, "audit", "c.csv", *QUICK)
    usual, odd = (
        subprocess.run(said, capture_output=True, cwd=here, env=env, timeout=100, check=True)
        for env in ({k: v for k, v in os.environ.items() if k != "COLUMNS"}, os.environ | {"COLUMNS": columns})
    )
    assert odd.stdout == usual.stdout


def test_a_stdout_that_is_closed_fails_as_a_full_disk_does(here):
    closed = ("sh", "-c", 'exec "$@" >&-', "sh", *FAIRPOST, "project", "c.csv")
    done = subprocess.run(closed, stderr=subprocess.PIPE, cwd=here, timeout=100, check=False)
    last = done.stderr.decode().splitlines()[-1]
    assert (done.returncode, last) == (3, "fairpost: the system refuses to read or write: Bad file descriptor")
    assert b"Traceback" not in done.stderr


def test_a_live_page_in_the_background_of_a_script_outlives_ctrl_c(start, here):
    """Such a job has SIGINT ignored, and a Ctrl-C at the terminal reaches it."""
    ignoring = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh", *FAIRPOST, "explore", "--no-open")
    page = start(ignoring, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=here)
    port = int(re.search(r"127\.0\.0\.1:(\d+)", page.stdout.readline().decode())[1])
    end, answers = time.monotonic() + 20, False
    while not answers:  # once it does, it handles signals too
        assert time.monotonic() < end
        time.sleep(0.05)
        with socket.socket() as asking:
            answers = asking.connect_ex(("127.0.0.1", port)) == 0
    page.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        page.wait(timeout=1.5)
    page.terminate()
    assert page.wait(timeout=20) == -signal.SIGTERM
