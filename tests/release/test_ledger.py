"""The ledger: what it refuses, what it finds, and that it cannot be overspent."""

import hashlib
import hmac
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing, nullcontext, suppress
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

import fairpost as fp
from fairpost.errors import BudgetError, InputError, LedgerError, ParameterError, UnfinishedError, UnsupportedError
from fairpost.release.chain import Entry, check_chain
from support.releases import impatient, ledger, released, with_selftest


def charged(book, loss="1/10", label="", **more):
    """A charge of this loss, by a release."""
    return released(book, epsilon=loss, again=label, **more)


def test_ten_charges_of_a_tenth_fit_into_one_and_nothing_more(tmp_path):
    book = ledger(tmp_path)
    for k in range(10):
        assert charged(book, label=str(k)).fresh
    assert (book.spent, book.left) == (1, 0)
    with pytest.raises(BudgetError) as refused:
        charged(book, "1/1000000")
    for part in ("limit 1", "spent 1", "left 0", "asked 1/1000000", "nothing was charged", "entry 20: 1/10 for t"):
        assert part in str(refused.value)
    assert book.spent == 1
    assert [e.kind for e in book.entries()] == ["open", *(["charge", "done"] * 10)]


TERMS = {
    "pure": ({"limit": "2"}, "epsilon", None, {"epsilon": "2"}),
    "zcdp": ({"limit": "1/3", "measure": "zcdp"}, "rho", None, {"rho": "1/3"}),
    "both": ({"limit": "1", "limit_delta": "1e-10", "measure": "zcdp"}, "rho", Fraction(1, 10**10), {"epsilon": "1", "delta": f"1/{10**10}"}),
}  # fmt: skip


@pytest.mark.parametrize("case", TERMS)
def test_terms_are_as_given_and_say_what_is_added_up(tmp_path, case):
    given, letter, delta, limit = TERMS[case]
    made = fp.Ledger.create(tmp_path / "l", dataset="Towns", unit="child", neighbours="replace", **given)
    terms = made.terms
    assert [terms.dataset, terms.unit, terms.neighbours] == ["Towns", "child", "replace"]
    assert (terms.letter, terms.delta, dict(terms.limit_given)) == (letter, delta, limit)
    assert terms.limit == Fraction(given["limit"]) or 0 < terms.limit < Fraction(1, 50)
    assert fp.Ledger.open(tmp_path / "l").terms == terms
    assert list(terms.limit_given) == sorted(limit)  # as whoever opens it reads it: statements say it in this order
    assert repr(made) == f"Ledger({str(tmp_path / 'l')!r}, {terms.measure}, limit {terms.limit})"
    assert made.folder == tmp_path / "l.d"
    with closing(sqlite3.connect(tmp_path / "l")) as link:
        ((secret,),) = link.execute("SELECT value FROM secret").fetchall()
    assert len(secret) == 32


WRONG = {
    "`neighbours` must be one of add-remove, replace, got 'swap'": {"neighbours": "swap"},
    "`measure` must be one of pure, zcdp, got 'renyi'": {"measure": "renyi"},
    "pure has no delta": {"limit_delta": "1e-10"},
    "`limit` must be exact": {"limit": 1.0},
    "^`dataset` must be": {"dataset": "", "unit": ""},
    "^`neighbours` must be": {"neighbours": "x", "measure": "y"},
    **{f"`unit` must be a text on one line, got {re.escape(repr(v))}": {"unit": v} for v in ("", "  ", "two\nlines", "a\x07bell", 5, None)},
}  # fmt: skip


@pytest.mark.parametrize("says", WRONG)
def test_terms_that_are_wrong_are_named_and_leave_nothing(tmp_path, says):
    with pytest.raises(ParameterError, match=says):
        fp.Ledger.create(tmp_path / "x", **{"dataset": "d", "limit": "1"} | WRONG[says])
    assert not list(tmp_path.iterdir())


def test_files_are_the_owners_alone_and_wider_ones_are_refused(tmp_path):
    book = ledger(tmp_path)
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(book.folder.stat().st_mode) == 0o700
    for mode in (0o640, 0o604, 0o660):
        book.path.chmod(mode)
        with pytest.raises(InputError, match=f"got {mode:04o}"):
            fp.Ledger.open(book.path)
    book.path.chmod(0o400)
    os.link(book.path, tmp_path / "second")
    with pytest.raises(InputError, match="only name"):
        fp.Ledger.open(book.path)


def test_nothing_is_overwritten_and_other_files_are_no_ledger(tmp_path):
    book = ledger(tmp_path)
    with pytest.raises(InputError, match="never overwritten"):
        fp.Ledger.create(book.path, dataset="d", limit="1")
    other = tmp_path / "other"
    other.write_bytes(b"not a database at all, but long enough to be read as one" * 20)
    other.chmod(0o600)
    with pytest.raises(InputError, match="must be a ledger of fairpost"):
        fp.Ledger.open(other)
    empty = tmp_path / "empty"
    sqlite3.connect(empty).close()
    empty.touch()
    empty.chmod(0o600)
    with pytest.raises(InputError, match="must be a ledger of fairpost"):
        fp.Ledger.open(empty)
    with pytest.raises(InputError, match="no such ledger"):
        fp.Ledger.open(tmp_path / "nowhere")


MOUNTS = """22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /home rw - nfs4 server:/home rw
31 30 8:2 / /home/local rw - xfs /dev/sdb rw
32 22 0:41 / /mnt/with\\040space rw - cifs //server/share rw
33 22 0:42 / /mnt/ssh rw - fuse.sshfs me@there:/ rw
34 22 0:43 / /mnt/usb rw - fuseblk /dev/sdc rw
"""


def test_a_ledger_on_a_network_is_refused_where_it_matters(tmp_path, monkeypatch):
    """From inside, because this machine has no such disk: what the system's table of mounts says of a path."""
    from fairpost.release import guard

    for path, kind in (
        ("/home/me/l", "nfs4"),
        ("/home/local/l", None),
        ("/srv/l", None),
        ("/mnt/with space/l", "cifs"),
        ("/mnt/ssh/l", "fuse.sshfs"),
        ("/mnt/usb/l", None),
    ):
        found = guard.kind_by(Path(path), guard.mounts(MOUNTS))
        with pytest.raises(InputError, match="on a disk of this machine") if kind else nullcontext():
            guard.refuse_network(Path(path), found)
    book = ledger(tmp_path)
    monkeypatch.setattr(guard, "kind_of", lambda path: "nfs4")
    for call in (lambda: fp.Ledger.open(book.path), lambda: charged(book), lambda: ledger(tmp_path / "..")):
        with pytest.raises(InputError, match="nfs4"):
            call()


def test_commits_are_synced_and_no_write_ahead_log_is_used(tmp_path):
    """From inside: what a connection is told leaves no trace in the file."""
    from fairpost.release import ledger as store

    book = ledger(tmp_path)
    with store.opened(book.path) as link:
        assert link.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
        assert link.execute("PRAGMA synchronous").fetchone() == (3,)
    turned = sqlite3.connect(book.path)
    turned.execute("PRAGMA journal_mode = WAL")
    turned.close()
    with store.opened(book.path) as link:  # somebody turned it: it is turned back
        assert link.execute("PRAGMA journal_mode").fetchone() == ("truncate",)


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE ledger SET key = 'x'",
        "DELETE FROM ledger WHERE seq = 2",
        "INSERT OR REPLACE INTO ledger SELECT 3, kind, key, body, hash, 'x' FROM ledger WHERE seq = 2",
        "INSERT INTO ledger VALUES (9, 'charge', 'k', '{}', 'p', 'h')",
        "INSERT INTO ledger VALUES (3, 'charge', 'k', '{}', 'p', 'h')",
        "REPLACE INTO ledger VALUES (1, 'open', 'k', '{}', '', 'h')",
        "UPDATE secret SET value = x'00'",
        "DELETE FROM secret",
        "INSERT INTO ledger VALUES (3, 'refund', 'k', '{}', (SELECT hash FROM ledger WHERE seq = 2), 'h')",
    ],
)
def test_plain_sql_cannot_change_an_entry(tmp_path, script):
    book = ledger(tmp_path)
    charged(book)
    before = book.entries()
    link = sqlite3.connect(book.path)
    with pytest.raises(sqlite3.IntegrityError):
        link.execute(script)
    link.close()
    assert book.entries() == before
    assert not book.verify().problems


def change_without_guards(book, script):
    """As somebody would who takes the triggers away first."""
    link = sqlite3.connect(book.path)
    for (name,) in link.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        link.execute(f"DROP TRIGGER {name}")
    link.execute(script)
    link.commit()
    link.close()


@pytest.mark.parametrize("script", ["UPDATE secret SET value = x'00'", "DELETE FROM secret", "DELETE FROM ledger"])
def test_a_secret_that_is_another_or_gone_is_found(tmp_path, script):
    """By whoever takes the guards away first; so is a ledger without entries, whose secret nobody vouches for."""
    book = ledger(tmp_path)
    charged(book)
    change_without_guards(book, script)
    assert "the secret of the ledger is not the one that it was opened with" in book.verify().problems


@pytest.mark.parametrize("body", [None, "{}", '{"a":NaN}', "[" * 5000])
def test_a_ledger_that_nothing_opens_is_refused_in_one_line(tmp_path, body):
    book = ledger(tmp_path)
    change_without_guards(
        book, "DELETE FROM ledger" if body is None else f"UPDATE ledger SET body = '{body}' WHERE seq = 1"
    )
    with pytest.raises(LedgerError, match="its first entry does not open it"):
        fp.Ledger.open(book.path)


def test_a_charge_looks_at_the_entries_before_it_believes_the_sum(tmp_path):
    book = ledger(tmp_path, ("discrete-laplace", 2.0), ("discrete-laplace", 10 / 9))
    charged(book, "9/10")
    change_without_guards(
        book, """UPDATE ledger SET body = replace(body, '"spent":"9/10"', '"spent":"1/10"') WHERE seq = 2"""
    )
    with pytest.raises(LedgerError, match="the ledger fails its check"):
        charged(book, "1/2", "x")
    assert book.entries()[-1].kind == "done"


def test_the_fingerprint_by_hand_and_under_a_secret(tmp_path):
    """HMAC-SHA256 with the ledger's secret over every part behind its length, so that parts cannot be cut elsewhere."""
    book, other = (fp.Ledger.create(tmp_path / name, dataset="d", limit="1") for name in "ab")
    with closing(sqlite3.connect(book.path)) as link:
        ((secret,),) = link.execute("SELECT value FROM secret").fetchall()
    text = b"\0\0\0\0\0\0\0\2ab\0\0\0\0\0\0\0\1c"
    assert book.fingerprint(b"ab", b"c") == hmac.new(secret, text, hashlib.sha256).hexdigest()
    assert book.fingerprint(b"ab", b"c") != other.fingerprint(b"ab", b"c")
    assert book.fingerprint(b"a", b"bc") != book.fingerprint(b"ab", b"c") != book.fingerprint(b"abc", b"")


def test_threads_do_not_overspend(tmp_path):
    book, fresh = ledger(tmp_path), []

    def work(start):
        for k in range(start, start + 8):
            with suppress(BudgetError):
                made = charged(book, label=str(k % 20))
                fresh.extend([made] if made.fresh else [])

    threads = [threading.Thread(target=work, args=(4 * t,)) for t in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({made.key for made in fresh}) == len(fresh) == 10
    assert book.spent == 1
    assert not book.verify().problems


def chain(*more, limit="1"):
    """A chain whose hashes all hold, with these entries; (loss, spent) is a charge."""
    entries = [Entry.after(None, "open", "o", {"limit": limit})]
    for k, (kind, body) in enumerate(more):
        said = body if isinstance(body, dict) else {"loss": kind, "spent": body}
        entries.append(Entry.after(entries[-1], kind if isinstance(body, dict) else "charge", str(k), said))
    return entries


FIXED = (("rows", {"parts": {"a": [3, "x"], "b": [3, "y"]}}), ("values", {"values": {"a": "tag"}}))
AGAIN = "entry 4: it says again what an earlier entry has fixed"
CHAINS = {
    "sound": (chain(("1/2", "1/2"), ("1/2", "1"), ("done", {"of": "0"})), None),
    "a sum that stays": (chain(("1/2", "1/2"), ("1/2", "1/2")), "running sum"),
    "a sum above the limit": (chain(("1/2", "1/2"), ("2/3", "7/6")), "above the limit"),
    "a loss below 0": (chain(("1/2", "1/2"), ("-1/2", "0")), "above 0"),
    "no number": (chain(("x", "1/2")), "form of an entry"),
    "no first entry": (chain(("1/2", "1/2"))[1:], "without a gap"),
    "nothing": ([], "no entry"),
    "done without a charge": (chain(("1/2", "1/2"), ("done", {"of": "9"})), "never charged"),
    "opened twice": (chain(("open", {"limit": "9"})), "opens"),
    "rows again": (chain(*FIXED, ("rows", {"parts": {"a": [3, "x"]}})), AGAIN),
    "values again": (chain(*FIXED, ("values", {"values": {"a": "tag"}})), AGAIN),
    "values of no part": (chain(*FIXED, ("values", {"values": {"c": "t"}})), "it has the value of a part that is not bound"),
    "a copy of nothing": (chain(*FIXED, ("copy", {"publication": "d"})), "it is a copy of what was never published"),
    "another kind": (chain(*FIXED, ("refund", {"loss": "1"})), "its kind is not known"),
    "new rows": (chain(*FIXED, ("rows", {"parts": {"c": [3, "x"]}})), None),
    "another value": (chain(*FIXED, ("values", {"values": {"b": "tag"}})), None),
}  # fmt: skip


@pytest.mark.parametrize("case", CHAINS)
def test_what_was_rewritten_is_found_even_where_every_hash_holds(case):
    """From inside: whoever forges such a chain makes its hashes as the ledger does."""
    entries, says = CHAINS[case]
    found = check_chain(entries).problems
    assert not found if says is None else says in found[0]


def test_whoever_waits_for_the_ledger_ends_with_one_line_that_names_the_holder(tmp_path, monkeypatch, start):
    book = ledger(tmp_path)
    code = (
        "import sqlite3, time\n"
        f"link = sqlite3.connect({str(book.path)!r}, isolation_level=None)\n"
        "link.execute('BEGIN EXCLUSIVE')\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    holder = start([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    impatient(monkeypatch, 0.3)
    who = f"process {holder.pid}" if sys.platform == "linux" else "another process"
    with pytest.raises(fp.FairpostError, match=f"{who} has the ledger, and did not let go") as told:
        charged(book)
    assert "\n" not in str(told.value)
    assert not isinstance(told.value, LedgerError)
    holder.kill()
    holder.wait(10)
    assert charged(book).fresh


def test_another_system_than_posix_is_refused_by_name(tmp_path, monkeypatch):
    book = ledger(tmp_path)
    monkeypatch.setattr(sys.modules["fairpost.release.ledger"], "os", SimpleNamespace(name="nt"))
    with pytest.raises(UnsupportedError, match="POSIX"):
        fp.Ledger.open(str(book.path))


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()], ids=["full", "interrupted"])
def test_a_ledger_that_could_not_be_finished_leaves_nothing_behind(tmp_path, monkeypatch, error):
    """Not even the journal of its own transaction."""

    def fails(folder):
        assert any(made.name.endswith("-journal") for made in tmp_path.iterdir())
        raise error

    monkeypatch.setattr(sys.modules["fairpost.release.ledger"], "private_folder", fails)
    with pytest.raises(type(error)):
        ledger(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_needs_a_folder_and_a_name_that_can_be(tmp_path, monkeypatch):
    away, seen = tmp_path / "away" / "l.db", []
    for path, says in (
        (away, f"{away}: the folder of a ledger must exist, got {away.parent}"),
        (tmp_path / ("x" * 300), f"{tmp_path / ('x' * 300)}: cannot be made: File name too long"),
    ):
        with pytest.raises(InputError) as refused:
            fp.Ledger.create(path, dataset="d", limit="1")
        assert str(refused.value) == says
    monkeypatch.setattr(sys.modules["fairpost.release.ledger"], "sync_folder", seen.append)
    ledger(tmp_path)
    assert seen == [tmp_path]


def test_the_check_says_what_became_of_every_charge(tmp_path):
    """Noise that is lost, noise that is kept and not published, noise that is gone, noise that was never charged."""
    book, keys = ledger(tmp_path), [f"{k:x}" * 64 for k in (6, 5)]

    def lost(law, n):
        raise ValueError

    for label, more in (("a", {"sampler": lost}), ("b", {"out": tmp_path / "o"})):
        (tmp_path / "o" / "t").mkdir(parents=True, exist_ok=True)
        with suppress(UnfinishedError, InputError):
            charged(book, label=label, **more)
    done = charged(book, label="c")
    (book.folder / f"{done.key}.noisy").unlink()
    for key in keys:
        (book.folder / f"{key}.noisy").write_bytes(b"")
    found = book.verify()
    assert "entry 2 was charged and is not finished: its noise is lost" in found.notes
    assert f"entry {done.statement['budget']['entry']} is finished, but its noise is no longer kept" in found.notes
    assert sorted(found.problems) == [
        f"noise is kept that was never charged ({k[:12]}): an old copy?" for k in keys[::-1]
    ]
    with pytest.raises(LedgerError) as refused:
        charged(book, label="d")
    assert str(refused.value) == f"{book.path}: the ledger fails its check: {found.problems[0]} (and 1 more)"
    for key in keys:
        (book.folder / f"{key}.noisy").unlink()
    assert charged(book, label="d").fresh
    shutil.rmtree(book.folder)
    assert all("its noise is lost" in note or "no longer kept" in note for note in book.verify().notes)


def test_a_refusal_lists_the_last_eight_charges(tmp_path):
    book = with_selftest(fp.Ledger.create(tmp_path / "l", dataset="d", limit="1"), ("discrete-laplace", 30.0))
    line = (
        f"{book.path}: the loss must fit into what is left of epsilon: limit 1, spent {{}}, left {{}} (about {{}}), "
        "asked 2; nothing was charged. Charged so far: {}"
    )

    def said():
        with pytest.raises(BudgetError) as refused:
            charged(book, "2", accept_weak_protection=True)
        return str(refused.value)

    assert said() == line.format("0", "1", "1", "no entry")
    entries = [f"entry {charged(book, '1/30', str(k)).statement['budget']['entry']}: 1/30 for t" for k in range(9)]
    assert said() == line.format("3/10", "7/10", "0.7", "; ".join(entries[1:]) + "; and 1 earlier")


def test_the_check_lists_the_schema_first_and_statements_last(tmp_path):
    book = with_selftest(fp.Ledger.create(tmp_path / "l", dataset="d", limit="1"), ("discrete-laplace", 3.0))
    charged(book, "1/3")
    assert book.verify({"s.json": "{}"}).problems == ["s.json: is no statement of a release"]
    assert book.verify({}).problems == []
    away = '{"budget": {"entry": 9, "hash": "x", "spent_after": "1"}}'
    assert book.verify({"s.json": away}).problems == [
        "s.json: its charge (entry 9) is not in the ledger: cut, rewritten or an old copy"
    ]
    with pytest.raises(BudgetError, match=r"left 2/3 \(about 0.666666666666\)"):  # what is left is rounded down
        charged(book, "1")
    change_without_guards(book, "UPDATE ledger SET body = '{}' WHERE seq = 2")
    found = book.verify({"s.json": "{}"}).problems
    kinds = ["schema" if "schema" in p else "statement" if "s.json" in p else "chain" for p in found]
    assert sorted(set(kinds)) == ["chain", "schema", "statement"]
    assert kinds == sorted(kinds, key=["schema", "chain", "statement"].index)
