"""`fairpost budget` and `fairpost release` as processes: exit codes, one line for every error, and no true count anywhere."""

import hashlib
import json
import os
import shlex
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import fairpost as fp
from support.commands import call
from support.releases import SCHEMA, as_0_14_1, ledger, quick, with_selftest

SENTINELS = (7391846, 8264917, 5938271, 6417283)
TABLE = "id,count\n" + "".join(f"town{k},{v}\n" for k, v in enumerate(SENTINELS))
TINY = "1/100000"
"""So much noise (b = 100,000) that a noisy count is a sentinel with a chance of 5e-6 each."""


@pytest.fixture
def run(forks):
    """A command as a process: what it says, writes and leaves behind."""

    def go(line, *, cwd, limit=None):
        return forks.command(*shlex.split(line), cwd=cwd, limit=limit, env=os.environ | {"TMPDIR": str(cwd / "tmp")})

    return go


def say(line, *, cwd, code=0):
    """A command in this process; what it says."""
    done = call(*shlex.split(line), cwd=cwd)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def place(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "towns.csv").write_text(TABLE)
    with_selftest(ledger(tmp_path), ("discrete-laplace", 100000.0))
    return tmp_path


def leaks(folder: Path, *texts: str) -> list[str]:
    """Where a sentinel stands: in a text, or in a file as digits, a 64-bit number, a float or a 32-bit number."""
    shapes = {}
    for v in (*SENTINELS, sum(SENTINELS)):
        shapes |= {str(v).encode(): v, f"{v:,}".encode(): v}
        shapes |= {struct.pack(f, v): v for f in ("<q", ">q", "<d", ">d")}
    found = [f"message: {v}" for t in texts for s, v in shapes.items() if s in t.encode()]
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("input") and path.name != "towns.csv":
            data = path.read_bytes()
            found += [f"{path}: {v}" for s, v in shapes.items() if s in data]
    return found


def test_the_search_finds_what_it_looks_for(tmp_path):
    (tmp_path / "a").write_text("x 7,391,846 y")
    (tmp_path / "b").write_bytes(np.array([1, 8264917]).tobytes())
    assert len(leaks(tmp_path, "got 5938271")) == 3


def test_ids_that_a_spreadsheet_would_take_for_formulas(place):
    """--csv-safe is a publication of its own, of kept noise too; the digests are of the bytes as they are published."""
    (place / "towns.csv").write_text("id,count\n=1+2,5\n@x,7\n-3,9\nplain,11\n")
    for out, more, ids in (
        ("o", "", ["-3", "=1+2", "@x", "plain"]),
        ("s", "--csv-safe", ["-3", "'=1+2", "'@x", "plain"]),
    ):
        words = f"--ledger l --postprocess none {more}"
        made = say(f"release towns.csv --epsilon 1/10 {words} --out {out} --json -", cwd=place)
        key = json.loads(made.stdout)["tables"][0]["key"]
        say(f"release --from-noisy {key} {words} --out {out}x", cwd=place)
        for name in (out, f"{out}x"):
            table = (place / name / "table.csv").read_bytes()
            assert [line.partition(",")[0] for line in table.decode().splitlines()[1:]] == ids
            stated = json.loads((place / name / "statement.json").read_text())
            assert stated["table"]["sha256"] == hashlib.sha256(table).hexdigest()
            assert ("formula" in stated["table"].get("text", "")) == bool(more)
            jsonschema.validate(stated, SCHEMA)
        say(
            f"check towns.csv {out}/table.csv --statement {out}/statement.json", cwd=place
        )  # the ids are the true ones again
    say("budget verify l o s ox sx", cwd=place)
    with pytest.raises(fp.InputError, match="`release` has no argument 'epsilom'; of a file it takes id, count"):
        fp.release(place / "towns.csv", place / "l", epsilon="1/10", epsilom="1")


NOTHING = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
"""As `ulimit -f` does, after the streams are there; what is said goes through a pipe."""


CREATE = "budget create new --dataset d --unit u --neighbours replace --measure pure --limit 1 --other-ledgers none"
RELEASE = "release towns.csv --ledger l --epsilon"


@pytest.mark.parametrize(
    ("limit", "words", "code", "says"),
    [
        (0, CREATE, 3, "new: the ledger could not be used: disk I/O error"),
        (0, f"{RELEASE} 1/9 --out new", 3, "there must be room for the noisy counts"),
        (0, f"{RELEASE} {TINY} --out new", 4, "could not be written: File too large"),
        (8192, f"{RELEASE} {TINY} --out whole", 4, "only its entry is missing"),
    ],
)
def test_a_limit_on_files_is_one_line_and_no_defect(place, limit, words, code, says):
    """`ulimit -f`: SQLite, the lock, the noisy file and the folder each end in the system's words, and nothing is half-written."""
    say(f"{RELEASE} {TINY} --out o", cwd=place)
    before, entries = fp.Ledger.open(place / "l").spent, len(fp.Ledger.open(place / "l").entries())
    program = f"{NOTHING.format(limit=limit)}from fairpost.__main__ import run\nrun()\n"
    command = [sys.executable, "-c", program, *words.split()]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
    assert says in done.stderr
    book = fp.Ledger.open(place / "l")
    assert (book.spent, len(book.entries()), book.verify().problems) == (before, entries, [])
    assert not list(place.glob("new*")) + list(place.rglob("*.lock")) + [p for p in place.rglob(".*") if p.is_file()]
    if code == 4:
        say(words, cwd=place)
        assert [e.kind for e in book.entries()][entries:] == ["copy"]


def test_what_was_published_twice_or_changed_is_told(place):
    """`budget history` shows the second folder; `budget verify` finds the changed count, by folder and by statement."""
    for out in ("o", "p", "p"):
        say(f"{RELEASE} {TINY} --out {out}", cwd=place)
    history = say("budget history l", cwd=place).stdout.splitlines()
    assert [line.split()[2] for line in history] == ["open", "charge", "done", "copy"]
    assert history[-1].endswith(f"published again in {place / 'p'}")
    assert say("budget verify l o p/statement.json", cwd=place).stderr == ""
    Path(os.fsdecode(b"%s/o/\xff\x1b[2J\n" % os.fsencode(place))).touch()
    good = say("budget verify l o p/statement.json", cwd=place).stdout
    assert good.count("\n") == 2
    assert "\ufffd[2J\ufffd: is no file of the release" in good
    table = place / "p" / "table.csv"
    table.write_text(table.read_text().replace("town2,", "town2,9"))
    line = "fairpost: l: the check fails: p/table.csv: must be as it was published (entry 3), and was changed\n"
    for given in ("p", "p/statement.json"):
        assert say(f"budget verify l o {given}", cwd=place, code=5).stderr == line


BAD = {
    "text": TABLE.replace("8264917", "8264917x"),
    "negative": TABLE.replace("8264917", "-8264917"),
    "fraction": TABLE.replace("8264917", "8264917.5"),
    "missing": TABLE.replace("5938271", ""),
    "twice": TABLE + "town1,6417283\n",
    "no header": TABLE.partition("\n")[2],
    "ragged": TABLE + "town9,1,2\n",
    "quote": TABLE + 'town9,"6417283\n',
    "infinite": TABLE.replace("8264917", "inf"),
    "far": TABLE.replace("8264917", "8264917e30"),
    "latin": TABLE.encode() + b"t\xff,6417283\n",
    "semicolons": TABLE.replace(",", ";"),
    "binary": b"PAR1" + TABLE.encode(),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_without_a_value(place, name):
    (place / "input.csv").write_bytes(BAD[name] if isinstance(BAD[name], bytes) else BAD[name].encode())
    done = say(f"release input.csv --ledger l --epsilon {TINY} --out o", cwd=place, code=2)
    assert (done.stderr.count("\n"), done.stdout) == (1, ""), done.stderr
    assert not leaks(place, done.stderr)
    with pytest.raises(fp.FairpostError) as told:
        fp.release(place / "input.csv", place / "l", epsilon=TINY)
    assert "8264917" not in repr((told.value, told.value.__cause__, told.value.__context__))
    assert fp.Ledger.open(place / "l").spent == 0


def test_the_message_still_names_rule_and_row(place):
    (place / "input.csv").write_text(BAD["text"])
    said = say(f"release input.csv --ledger l --epsilon {TINY} --out o", cwd=place, code=2).stderr
    assert said == "fairpost: input.csv, line 3: every count must be a number (the value is not shown)\n"
    said = say(f"{RELEASE} {TINY} --count 5938271 --out o", cwd=place, code=2).stderr
    assert "the count column is not there" in said


def test_no_true_count_leaves_on_any_path(place, run):
    """Working and failing, in messages, outputs, the ledger, its folder and temporary files."""
    words, said, codes = f"{RELEASE} {TINY}", [], []

    def note(line, **extra):
        done = run(line, cwd=place, **extra)
        said.extend((done.stdout, done.stderr))
        codes.append(done.returncode)

    note(f"{words} --out o --dry-run")
    note(f"{words} --out o", limit=20_000)  # no room: nothing is charged
    note(f"{words} --out o --round")
    note(f"{words} --out o --round")
    note(f"{words} --out p --postprocess none --json -")
    note(f"{RELEASE} 1.05 --out q")
    note(f"{words} --out tmp/x/y")
    note(f"{words} --out r --again two --postprocess sum --round")
    for given in ("show l", "history l --json -", "verify l o/statement.json"):
        note(f"budget {given}")
    assert not any("secret" in text for text in said)
    next((place / "l.d").glob("*.noisy")).unlink()
    note(f"{words} --out s")
    (place / "l").chmod(0o644)
    note(f"{words} --out s")
    assert codes == [0, 3, 0, 0, 0, 3, 2, 2, 0, 0, 0, 4, 2]
    assert not leaks(place, *said)


def test_a_defect_shows_its_place_and_no_message(place, monkeypatch):
    def broken(*given, **extra):
        raise ValueError(f"bad value {SENTINELS[0]}")

    words = f"{RELEASE} {TINY} --out o"
    for module, name, code, says in (
        ("rules", "check", 3, "ValueError at test_commands.py"),
        ("protocol", "add_noise", 4, "noise is lost (ValueError)"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[f"fairpost.release.{module}"], name, broken)
            if code == 3:
                with pytest.raises(fp.FairpostError) as told:
                    fp.release(place / "towns.csv", place / "l", epsilon=TINY)
                assert told.value.__context__ is None
            done = say(words, cwd=place, code=code)
        assert says in done.stderr
        assert not leaks(place, done.stdout, done.stderr)


def test_the_process_leaves_no_core_and_cannot_be_read():
    """While it is at a release, and no longer."""
    code = (
        "import resource; from fairpost.release import guard\n"
        "def now(): return resource.getrlimit(resource.RLIMIT_CORE), guard._prctl(3)\n"
        "before = now()\nwith guard.hardened(): print(now()[0][0], now()[1])\nprint(now() == before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.split() == ["0", "0" if sys.platform == "linux" else "None", "True"]


def test_sigterm_ends_a_release_in_order(place, run, start):
    """Sent while the process reads or draws: exit code 130 with nothing charged, or 4 with the noise kept, or 0."""
    words = f"{RELEASE} {TINY} --out o"
    command = [sys.executable, "-m", "fairpost", *words.split()]
    book = fp.Ledger.open(place / "l")
    for delay in (0.8, 1.5):
        worker = start(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=120)
        assert not leaks(place, out, err)
        assert worker.returncode in (0, 4, 130, -signal.SIGTERM), err  # the last: before the handler is there
        if worker.returncode in (130, -signal.SIGTERM):
            assert book.spent == 0 or list(book.folder.glob("*.noisy"))
    done = run(words, cwd=place)
    assert done.returncode == 0, done.stderr
    assert str(book.spent) == TINY
    assert not list(book.folder.glob(".*.tmp"))


def test_the_self_test_from_the_shell(tmp_path, monkeypatch):
    module = sys.modules["fairpost.release.selftest"]
    run, said = module.run, []
    for sampler, code in ((quick, 0), (as_0_14_1, 3)):
        monkeypatch.setattr(module, "run", lambda draws, sampler=sampler: run(sampler=sampler, draws=draws))
        said.append(say("release --self-test", cwd=tmp_path, code=code).stdout)
    assert said[0].count("discrete-laplace") == 7
    assert ["ALARM" in text for text in said] == [False, True]


ALL = "towns.csv --ledger l --out o --epsilon 1"
TOGETHER = {
    "": "one of FILE, --from-noisy and --plan, got none",
    "towns.csv --from-noisy abcdef0123": "got FILE and --from-noisy",
    "towns.csv": "needs --ledger",
    "towns.csv --ledger l": "needs --out",
    "towns.csv --ledger l --out o": "one of epsilon and rho",
    f"{ALL} --total 5": "nothing is exact",
    f"{ALL} --total-source s": "got it alone",
    f"{ALL} --exact-total": "nothing is exact",
    f"{ALL} --exact-total --total 1 --total-source s": "got both",
    f"{ALL} --group-total t": "lists as public",
    "--from-noisy abcdef0123 --ledger l --out o --epsilon 1": "have no part",
    "--plan none.toml --ledger l --out o": "cannot be read as TOML",
    f"{ALL} --seed 1": "No such option",
}


@pytest.mark.parametrize("words", TOGETHER)
def test_options_that_do_not_go_together(place, words):
    said = say(f"release {words}", cwd=place, code=2).stderr
    assert TOGETHER[words].lower() in said.lower()
    assert said.count("\n") == 1


BLOCKS = "geoid,pop\n" + "".join(f"{k // 2}{k},{v}\n" for k, v in enumerate(SENTINELS))
PLAN = """id = "geoid"
count = "pop"
[[table]]
name = "tree"
file = "towns.csv"
levels = "county:1,block:2"
epsilon = 0.1
split = [0.5, "1/2"]
round = true
[[table]]
name = "flat"
file = "towns.csv"
epsilon = 0.1
[[table]]
name = "scales"
file = "towns.csv"
levels = "county:1,block:2"
level-sigma = "20,20"
mechanism = "discrete-laplace"
"""


def test_levels_from_the_shell_and_no_true_count_leaves(tmp_path, run):
    """Scales of 200,000 and 400,000: a noisy count of 7 nodes is one of 5 sentinels with a chance below 1e-4."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "towns.csv").write_text(BLOCKS)  # the name that the search leaves out
    book = fp.Ledger.create(tmp_path / "b", dataset="Blocks", limit="1", id="geoid")
    with_selftest(book, *(("discrete-laplace", s) for s in (200000.0, 400000.0)))
    tree = f"release towns.csv --id geoid --count pop --levels county:1,block:2 --ledger b --epsilon {TINY} --split"
    words, said = f"{tree} .5,.25", []

    def note(line, code, **extra):
        done = run(line, cwd=tmp_path, **extra) if extra else call(*shlex.split(line), cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert code != 2 or done.stderr.count("\n") == 1
        said.extend((done.stdout, done.stderr))
        return done.stdout

    dry = note(f"{words} --out o --dry-run", 0)
    assert "level block: discrete-laplace of scale 400000, loss 1/400000, sensitivity 1 (L1)" in dry
    note(f"{words} --out o", 3, limit=20_000)  # no room: nothing is charged
    first = note(f"{words} --out o --round", 0)
    assert "charged 3/400000" in first
    assert "7 rows in" in first
    made = json.loads(note(f"{words} --out o --round --json -", 0))["tables"][0]
    assert not made["charged"]
    noisy = f"release --from-noisy {made['key'][:10]} --ledger b"
    note(f"{noisy} --postprocess joint --out p", 0)
    for line in (
        f"{noisy} --postprocess simplex", f"{noisy} --levels a:1", f"{words} --exact county", f"{tree} .5,0", f"{tree} .5,.6",
        f"{words} --exact-total",
    ):  # fmt: skip
        note(f"{line} --out q", 2)
    note("budget history b --json -", 0)
    note("budget verify b o/statement.json p/statement.json", 0)
    assert not leaks(tmp_path, *said)
    (tmp_path / "plan.toml").write_text("epsilon = 0.1\n" + PLAN.replace("epsilon = 0.1\n", ""))
    plan = "release --plan plan.toml --ledger b --out o2 --dry-run"
    assert "by sigmas, or by a loss and its split" in say(plan, cwd=tmp_path, code=2).stderr
    (tmp_path / "plan.toml").write_text(PLAN)
    dry = say(f"{plan} --json -", cwd=tmp_path)
    assert [t["loss"] for t in json.loads(dry.stdout)["tables"]] == ["1/10", "1/10", "1/10"]
