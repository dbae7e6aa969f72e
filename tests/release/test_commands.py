"""`fairpost budget` and `fairpost release` as processes: exit codes, one line for every error, and no true count anywhere."""

import hashlib
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost.cli import main
from fairpost.release import guard, protocol, rules
from fairpost.release.statement import schema
from support.commands import call
from support.releases import ledger, with_selftest

SENTINELS = (7391846, 8264917, 5938271, 6417283)
TABLE = "id,count\n" + "".join(f"town{k},{v}\n" for k, v in enumerate(SENTINELS))
TINY = "1/100000"
"""So much noise (b = 100,000) that a noisy count is a sentinel with a chance of 5e-6 each."""


@pytest.fixture
def run(forks):
    """A command as a process: what it says, writes and leaves behind."""

    def go(*words, cwd, limit=None):
        return forks.command(*words, cwd=cwd, limit=limit, env=os.environ | {"TMPDIR": str(cwd / "tmp")})

    return go


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


def test_budget_and_release_from_the_shell(place, run):
    made = run(
        "budget",
        "create",
        "b",
        "--dataset",
        "Towns",
        "--unit",
        "person",
        "--neighbours",
        "add-remove",
        "--measure",
        "pure",
        "--limit",
        "1",
        "--other-ledgers",
        "none",
        cwd=place,
    )
    assert made.returncode == 0, made.stderr
    with_selftest(fp.Ledger.open(place / "b"))
    words = (
        "release",
        "towns.csv",
        "--ledger",
        "b",
        "--epsilon",
        "0.1",
        "--round",
        "--chosen-from",
        "policy",
        "--out",
        "o",
    )
    dry = call(*words, "--dry-run", "--json", "-", cwd=place)
    assert dry.returncode == 0, dry.stderr
    assert json.loads(dry.stdout)["tables"][0]["loss"] == "1/10"
    assert not (place / "o").exists()
    first = run(*words, "--json", "-", cwd=place)
    assert first.returncode == 0, first.stderr
    data = json.loads(first.stdout)
    assert data["left"] == "9/10"
    assert data["tables"][0]["charged"]
    again = call(*words, cwd=place)
    assert again.returncode == 0
    assert "no charge" in again.stdout
    key = data["tables"][0]["key"]
    free = call("release", "--from-noisy", key[:12], "--ledger", "b", "--postprocess", "pos", "--out", "p", cwd=place)
    assert free.returncode == 0, free.stderr
    show = json.loads(call("budget", "show", "b", "--json", "-", cwd=place).stdout)
    assert (show["limit"], show["spent"], show["left_rounded_down"]) == ("1", "1/10", "0.9")
    history = call("budget", "history", "b", cwd=place).stdout.splitlines()
    assert [line.split()[2] for line in history] == ["open", "charge", "done", "done"]
    assert "secret" not in call("budget", "history", "b", "--json", "-", cwd=place).stdout
    checked = call("budget", "verify", "b", "o/statement.json", "p/statement.json", cwd=place)
    assert checked.returncode == 0, checked.stderr
    refused = call(*words[:5], "1", "--again", "x", "--out", "q", cwd=place)
    assert refused.returncode == 3
    assert "asked 1;" in refused.stderr
    audited = call("audit", "towns.csv", "--statement", "o/statement.json", "--runs", "200", "--json", "-", cwd=place)
    assert audited.returncode == 0, audited.stderr
    audit = json.loads(audited.stdout)
    assert (audit["mechanism"]["name"], audit["mechanism"]["scale"]) == ("discrete-laplace", 10.0)
    assert audit["results"][0]["postprocess"] == "simplex"
    assert "noisy sum" in audited.stderr
    (place / "b.d" / f"{key}.noisy").unlink()
    lost = run(*words[:-1], "elsewhere", cwd=place)
    assert lost.returncode == 4, lost.stderr
    text = (place / "o" / "statement.json").read_text()
    (place / "cut.json").write_text(text.replace('"rows": 4', '"rows": 5'))
    failed = run("budget", "verify", "b", "cut.json", cwd=place)
    assert failed.returncode == 5
    assert failed.stderr.count("\n") == 1


def test_ids_that_a_spreadsheet_would_take_for_formulas(place):
    """--csv-safe is a publication of its own, of kept noise too; the digests are of the bytes as they are published."""
    (place / "towns.csv").write_text("id,count\n=1+2,5\n@x,7\n-3,9\nplain,11\n")
    words = ("release", "towns.csv", "--ledger", "l", "--epsilon", "1/10", "--postprocess", "none")
    for more, ids in (([], ["-3", "=1+2", "@x", "plain"]), (["--csv-safe"], ["-3", "'=1+2", "'@x", "plain"])):
        out = f"o{len(more)}"
        done = call(*words, *more, "--out", out, "--json", "-", cwd=place)
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)["tables"][0]
        again = call(
            "release",
            "--from-noisy",
            made["key"],
            "--ledger",
            "l",
            "--postprocess",
            "none",
            *more,
            "--out",
            f"{out}x",
            cwd=place,
        )
        assert again.returncode == 0, again.stderr
        for name in (out, f"{out}x"):
            table = (place / name / "table.csv").read_bytes()
            assert [line.partition(",")[0] for line in table.decode().splitlines()[1:]] == ids
            stated = json.loads((place / name / "statement.json").read_text())["table"]
            assert stated["sha256"] == hashlib.sha256(table).hexdigest()
            assert ("formula" in stated.get("text", "")) == bool(more)
            jsonschema.validate(json.loads((place / name / "statement.json").read_text()), schema())
        checked = call("check", "towns.csv", f"{out}/table.csv", "--statement", f"{out}/statement.json", cwd=place)
        assert checked.returncode == 0, checked.stderr  # the ids are those of the true table again
    assert call("budget", "verify", "l", "o0", "o1", "o0x", "o1x", cwd=place).returncode == 0
    with pytest.raises(fp.InputError, match="`release` has no argument 'epsilom'; of a file it takes id, count"):
        fp.release(place / "towns.csv", place / "l", epsilon="1/10", epsilom="1")


NOTHING = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
"""As `ulimit -f` does, after the streams are there; what is said goes through a pipe."""


@pytest.mark.parametrize(
    ("limit", "words", "code", "says"),
    [
        (0, ("budget", "create", "new", "--dataset", "d", "--unit", "u", "--neighbours", "replace", "--measure", "pure",
             "--limit", "1", "--other-ledgers", "none"), 3, "new: the ledger could not be used: disk I/O error"),
        (0, ("release", "towns.csv", "--ledger", "l", "--epsilon", "1/9", "--out", "new"), 3,
         "there must be room for the noisy counts"),
        (0, ("release", "towns.csv", "--ledger", "l", "--epsilon", TINY, "--out", "new"), 4, "could not be written: File too large"),
        (8192, ("release", "towns.csv", "--ledger", "l", "--epsilon", TINY, "--out", "whole"), 4, "only its entry is missing"),
    ],
)  # fmt: skip
def test_a_limit_on_files_is_one_line_and_no_defect(place, limit, words, code, says):
    """`ulimit -f`: SQLite, the lock, the noisy file and the folder each end in the system's words, and nothing is half-written."""
    assert call("release", "towns.csv", "--ledger", "l", "--epsilon", TINY, "--out", "o", cwd=place).returncode == 0
    before, entries = fp.Ledger.open(place / "l").spent, len(fp.Ledger.open(place / "l").entries())
    program = f"{NOTHING.format(limit=limit)}from fairpost.__main__ import run\nrun()\n"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=place, capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
    assert says in done.stderr
    book = fp.Ledger.open(place / "l")
    assert (book.spent, len(book.entries()), book.verify().problems) == (before, entries, [])
    assert not list(place.glob("new*")) + list(place.rglob("*.lock")) + [p for p in place.rglob(".*") if p.is_file()]
    if code == 4:
        assert call(*words, cwd=place).returncode == 0
        assert [e.kind for e in book.entries()][entries:] == ["copy"]


def test_what_was_published_twice_or_changed_is_told(place):
    """`budget history` shows the second folder; `budget verify` finds the changed count, by folder and by statement."""
    words = ("release", "towns.csv", "--ledger", "l", "--epsilon", TINY, "--out")
    assert [call(*words, out, cwd=place).returncode for out in ("o", "p", "p")] == [0, 0, 0]
    history = call("budget", "history", "l", cwd=place).stdout.splitlines()
    assert [line.split()[2] for line in history] == ["open", "charge", "done", "copy"]
    assert history[-1].endswith(f"published again in {place / 'p'}")
    good = call("budget", "verify", "l", "o", "p/statement.json", cwd=place)
    assert (good.returncode, good.stderr) == (0, "")
    Path(os.fsdecode(b"%s/o/\xff\x1b[2J\n" % os.fsencode(place))).touch()
    good = call("budget", "verify", "l", "o", "p/statement.json", cwd=place)
    assert (good.returncode, good.stdout.count("\n")) == (0, 2)
    assert "\ufffd[2J\ufffd: is no file of the release" in good.stdout
    table = place / "p" / "table.csv"
    table.write_text(table.read_text().replace("town2,", "town2,9"))
    for given in ("p", "p/statement.json"):
        bad = call("budget", "verify", "l", "o", given, cwd=place)
        assert bad.returncode == 5
        assert (
            bad.stderr
            == "fairpost: l: the check fails: p/table.csv: must be as it was published (entry 3), and was changed\n"
        )


def test_a_plan_and_words_for_the_registry(place, run):
    (place / "plan.toml").write_text(
        'epsilon = 0.1\n[[table]]\nname = "all"\nfile = "towns.csv"\nround = true\nchosen-from = "policy"\n'
        '[[table]]\nname = "second"\nfile = "towns.csv"\nepsilon = "1/20"\npostprocess = "nonnegative"\n'
    )
    (place / "about.toml").write_text('title = "Towns"\ncurator = "Office"\nauthors = ["A. Clerk"]\n')
    done = run("release", "--plan", "plan.toml", "--about", "about.toml", "--ledger", "l", "--out", "o", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "charged 1/10" in done.stdout
    assert "left 0.85" in done.stdout
    assert 'name: "Towns"' in (place / "o" / "all" / "registry.yaml").read_text()
    (place / "about.toml").write_text("title = 3\n")
    bad = run("release", "--plan", "plan.toml", "--about", "about.toml", "--ledger", "l", "--out", "o", cwd=place)
    assert bad.returncode == 2
    assert "title must be a text" in bad.stderr


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
    path = place / "input.csv"
    path.write_bytes(BAD[name] if isinstance(BAD[name], bytes) else BAD[name].encode())
    done = CliRunner().invoke(
        main, ["release", str(path), "--ledger", str(place / "l"), "--epsilon", TINY, "--out", str(place / "o")]
    )
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not leaks(place, done.output, done.stderr)
    assert "8264917" not in repr(done.exception.__context__)
    assert fp.Ledger.open(place / "l").spent == 0


def test_the_message_still_names_rule_and_row(place, run):
    (place / "input.csv").write_text(BAD["text"])
    done = run("release", "input.csv", "--ledger", "l", "--epsilon", TINY, "--out", "o", cwd=place)
    assert done.stderr == "fairpost: input.csv, line 3: every count must be a number (the value is not shown)\n"
    done = run(
        "release", "towns.csv", "--count", "5938271", "--ledger", "l", "--epsilon", TINY, "--out", "o", cwd=place
    )
    assert "the count column is not there" in done.stderr


def test_no_true_count_leaves_on_any_path(place, run):
    """Working and failing, in messages, outputs, the ledger, its folder and temporary files."""
    words = ("release", "towns.csv", "--ledger", "l", "--epsilon", TINY)
    said, codes = [], []

    def note(*given, **extra):
        done = run(*given, cwd=place, **extra)
        said.extend((done.stdout, done.stderr))
        codes.append(done.returncode)

    note(*words, "--out", "o", "--dry-run")
    note(*words, "--out", "o", limit=20_000)  # no room: nothing is charged
    note(*words, "--out", "o", "--round")
    note(*words, "--out", "o", "--round")
    note(*words, "--out", "p", "--postprocess", "none", "--json", "-")
    note(*words[:-1], "1.05", "--out", "q")
    note(*words, "--out", "tmp/x/y")
    note(*words, "--out", "r", "--again", "two", "--postprocess", "sum", "--round")
    for given in (["show", "l"], ["history", "l", "--json", "-"], ["verify", "l", "o/statement.json"]):
        done = call("budget", *given, cwd=place)
        said.extend((done.stdout, done.stderr))
        codes.append(done.returncode)
    next((place / "l.d").glob("*.noisy")).unlink()
    note(*words, "--out", "s")
    (place / "l").chmod(0o644)
    note(*words, "--out", "s")
    assert codes == [0, 3, 0, 0, 0, 3, 2, 2, 0, 0, 0, 4, 2]
    assert not leaks(place, *said)


def test_a_defect_shows_its_place_and_no_message(place, monkeypatch):
    def broken(*given, **extra):
        raise ValueError(f"bad value {SENTINELS[0]}")

    monkeypatch.setattr(rules, "check", broken)
    words = [
        "release",
        str(place / "towns.csv"),
        "--ledger",
        str(place / "l"),
        "--epsilon",
        TINY,
        "--out",
        str(place / "o"),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 3
    assert "ValueError at test_commands.py" in done.stderr
    assert not leaks(place, done.output)
    monkeypatch.undo()
    monkeypatch.setattr(protocol, "add_noise", broken)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 4
    assert "noise is lost (ValueError)" in done.stderr
    assert not leaks(place, done.output)
    with pytest.raises(fp.FairpostError) as told:
        guard.silently(broken)
    assert told.value.__context__ is None


def test_the_process_leaves_no_core_and_cannot_be_read():
    code = (
        "import resource; from fairpost.release import guard; guard.harden(); "
        "print(resource.getrlimit(resource.RLIMIT_CORE)[0], guard._prctl(3))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.split() == ["0", "0" if sys.platform == "linux" else "None"]
    before = resource.getrlimit(resource.RLIMIT_CORE), guard._prctl(3)
    with guard.hardened():
        assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    assert (resource.getrlimit(resource.RLIMIT_CORE), guard._prctl(3)) == before


def test_sigterm_ends_a_release_in_order(place, run, start):
    """Sent while the process reads or draws: exit code 130 with nothing charged, or 4 with the noise kept, or 0."""
    command = [
        sys.executable,
        "-m",
        "fairpost",
        "release",
        "towns.csv",
        "--ledger",
        "l",
        "--epsilon",
        TINY,
        "--out",
        "o",
    ]
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
    done = run(*command[3:], cwd=place)
    assert done.returncode == 0, done.stderr
    assert str(book.spent) == TINY
    assert not list(book.folder.glob(".*.tmp"))


def test_the_self_test_from_the_shell(monkeypatch):
    from fairpost.release import selftest
    from support.releases import as_0_14_1, quick

    monkeypatch.setattr(selftest, "run", lambda draws, was=selftest.run: was(sampler=quick, draws=draws))
    good = CliRunner().invoke(main, ["release", "--self-test"])
    assert good.exit_code == 0
    assert good.stdout.count("discrete-laplace") == 7
    more = CliRunner().invoke(main, ["release", "--self-test", "--draws", "20000"])
    assert "20,000 draws of each law" in more.stdout
    assert more.stdout.splitlines()[1] != good.stdout.splitlines()[1]
    alone = CliRunner().invoke(main, ["release", "--draws", "20000"])
    assert alone.exit_code == 2
    assert "--draws is of the --self-test" in alone.stderr
    monkeypatch.undo()
    monkeypatch.setattr(selftest, "run", lambda draws, was=selftest.run: was(sampler=as_0_14_1, draws=draws))
    bad = CliRunner().invoke(main, ["release", "--self-test"])
    assert bad.exit_code == 3
    assert "ALARM" in bad.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "one of FILE, --from-noisy and --plan, got none"),
        (["towns.csv", "--from-noisy", "abcdef0123"], "got FILE and --from-noisy"),
        (["towns.csv"], "needs --ledger"),
        (["towns.csv", "--ledger", "l"], "needs --out"),
        (["towns.csv", "--ledger", "l", "--out", "o"], "one of epsilon and rho"),
        (["towns.csv", "--ledger", "l", "--out", "o", "--epsilon", "1", "--total", "5"], "nothing is exact"),
        (["towns.csv", "--ledger", "l", "--out", "o", "--epsilon", "1", "--total-source", "s"], "got it alone"),
        (["towns.csv", "--ledger", "l", "--out", "o", "--epsilon", "1", "--exact-total"], "nothing is exact"),
        (
            [
                "towns.csv",
                "--ledger",
                "l",
                "--out",
                "o",
                "--epsilon",
                "1",
                "--exact-total",
                "--total",
                "1",
                "--total-source",
                "s",
            ],
            "got both",
        ),
        (["towns.csv", "--ledger", "l", "--out", "o", "--epsilon", "1", "--group-total", "t"], "lists as public"),
        (["--from-noisy", "abcdef0123", "--ledger", "l", "--out", "o", "--epsilon", "1"], "have no part"),
        (["--plan", "none.toml", "--ledger", "l", "--out", "o"], "cannot be read as TOML"),
        (["towns.csv", "--ledger", "l", "--out", "o", "--epsilon", "1", "--seed", "1"], "No such option"),
    ],
)
def test_options_that_do_not_go_together(place, monkeypatch, words, says):
    monkeypatch.chdir(place)
    done = CliRunner().invoke(main, ["release", *words])
    assert done.exit_code == 2, done.output
    assert says.lower() in done.stderr.lower()
    assert done.stderr.count("\n") == 1


BLOCKS = "geoid,pop\n" + "".join(f"{k // 2}{k},{v}\n" for k, v in enumerate(SENTINELS))
TREE = ("--id", "geoid", "--count", "pop", "--levels", "county:1,block:2", "--ledger", "b")


def test_levels_from_the_shell_and_no_true_count_leaves(tmp_path, run):
    """Scales of 200,000 and 400,000: a noisy count of 7 nodes is one of 5 sentinels with a chance below 1e-4."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "towns.csv").write_text(BLOCKS)  # the name that the search leaves out
    with_selftest(
        fp.Ledger.create(tmp_path / "b", dataset="Blocks", limit="1", id="geoid"),
        *(("discrete-laplace", s) for s in (200000.0, 400000.0)),
    )
    words = ("release", "towns.csv", *TREE, "--epsilon", TINY, "--split", ".5,.25")
    said, codes, left = [], [], []

    def note(*given, way=run, **extra):
        done = way(*given, cwd=tmp_path, **extra)
        said.extend((done.stdout, done.stderr))
        codes.append(done.returncode)
        left.append(done)

    note(*words, "--out", "o", "--dry-run")
    assert "level block: discrete-laplace of scale 400000, loss 1/400000, sensitivity 1 (L1)" in left[-1].stdout
    note(*words, "--out", "o", limit=20_000)  # no room: nothing is charged
    note(*words, "--out", "o", "--round")
    assert "charged 3/400000" in left[-1].stdout
    assert "7 rows in" in left[-1].stdout
    note(*words, "--out", "o", "--round", "--json", "-")
    made = json.loads(left[-1].stdout)["tables"][0]
    assert not made["charged"]
    note("release", "--from-noisy", made["key"][:10], "--ledger", "b", "--postprocess", "joint", "--out", "p")
    note(
        "release", "--from-noisy", made["key"][:10], "--ledger", "b", "--postprocess", "simplex", "--out", "q", way=call
    )
    note("release", "--from-noisy", made["key"][:10], "--ledger", "b", "--levels", "a:1", "--out", "q", way=call)
    note(*words, "--exact", "county", "--out", "q", way=call)
    note(*words[:-1], ".5,0", "--out", "q", way=call)
    note(*words[:-1], ".5,.6", "--out", "q", way=call)
    note(*words, "--exact-total", "--out", "q", way=call)
    note("budget", "history", "b", "--json", "-", way=call)
    note("budget", "verify", "b", "o/statement.json", "p/statement.json", way=call)
    assert codes == [0, 3, 0, 0, 0, 2, 2, 2, 2, 2, 2, 0, 0], [d.stderr for d in left]
    assert all(d.stderr.count("\n") == 1 for d in left if d.returncode == 2)
    assert not leaks(tmp_path, *said)
    (tmp_path / "plan.toml").write_text(
        'epsilon = 0.1\nid = "geoid"\ncount = "pop"\n[[table]]\nname = "tree"\nfile = "towns.csv"\nlevels = "county:1,block:2"\n'
        'split = [0.5, "1/2"]\nround = true\n[[table]]\nname = "flat"\nfile = "towns.csv"\n'
        '[[table]]\nname = "scales"\nfile = "towns.csv"\nlevels = "county:1,block:2"\nlevel-sigma = "20,20"\nmechanism = "discrete-laplace"\n'
    )
    refused = call("release", "--plan", "plan.toml", "--ledger", "b", "--out", "o2", "--dry-run", cwd=tmp_path)
    assert refused.returncode == 2
    assert "by sigmas, or by a loss and its split" in refused.stderr
    text = (
        (tmp_path / "plan.toml").read_text().replace("epsilon = 0.1\n", "").replace("split =", "epsilon = 0.1\nsplit =")
    )
    (tmp_path / "plan.toml").write_text(text.replace('name = "flat"\n', 'name = "flat"\nepsilon = 0.1\n'))
    dry = call(
        "release", "--plan", "plan.toml", "--ledger", "b", "--out", "o2", "--dry-run", "--json", "-", cwd=tmp_path
    )
    assert dry.returncode == 0, dry.stderr
    assert [t["loss"] for t in json.loads(dry.stdout)["tables"]] == ["1/10", "1/10", "1/10"]
