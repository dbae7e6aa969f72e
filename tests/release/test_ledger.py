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
from contextlib import closing, suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

import fairpost as fp
from fairpost.errors import BudgetError, InputError, LedgerError, ParameterError, UnsupportedError
from fairpost.release import guard
from fairpost.release import ledger as store
from fairpost.release.chain import Entry, check_chain
from fairpost.release.ledger import Ask, Ledger
from support.releases import ledger


def ask(number, loss="1/10", name="t"):
    return Ask(f"{number:064x}", Fraction(loss), {"name": name})


def test_ten_charges_of_a_tenth_fit_into_one_and_nothing_more(tmp_path):
    book = ledger(tmp_path)
    for k in range(10):
        assert book.charge([ask(k)])[0].fresh
    assert book.spent == 1
    with pytest.raises(BudgetError) as refused:
        book.charge([ask(99, "1/1000000000000000000000", "small")])
    for part in ("limit 1", "spent 1", "left 0", f"asked 1/{10**21}", "nothing was charged", "entry 11: 1/10 for t"):
        assert part in str(refused.value)
    assert book.spent == 1
    assert len(book.entries()) == 11


def test_the_same_key_is_charged_once(tmp_path):
    book = ledger(tmp_path)
    first, second = book.charge([ask(1)])[0], book.charge([ask(1)])[0]
    assert (first.fresh, second.fresh) == (True, False)
    assert first.entry == second.entry == book.find("charge", ask(1).key)
    assert (book.spent, book.left) == (Fraction(1, 10), Fraction(9, 10))
    assert book.find("charge", ask(2).key) is book.find("done", ask(1).key) is None
    for loss in ("0", "-1/10"):
        with pytest.raises(ParameterError, match="above 0"):
            book.charge([ask(2, loss)])


def test_several_charges_are_one_transaction(tmp_path):
    book = ledger(tmp_path)
    with pytest.raises(BudgetError, match="asked 6/5"):
        book.charge([ask(1, "3/5"), ask(2, "3/5")])
    assert book.spent == 0
    assert [c.fresh for c in book.charge([ask(1, "3/5"), ask(2, "2/5")])] == [True, True]
    assert book.spent == 1


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


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/home/me/l", True),
        ("/home/local/l", False),
        ("/srv/l", False),
        ("/mnt/with space/l", True),
        ("/mnt/ssh/l", True),
        ("/mnt/usb/l", False),
    ],
)
def test_network_file_systems_are_refused(path, refused):
    kind = guard.kind_by(Path(path), guard.mounts(MOUNTS))
    if refused:
        with pytest.raises(InputError, match="on a disk of this machine"):
            guard.refuse_network(Path(path), kind)
    else:
        guard.refuse_network(Path(path), kind)


def test_a_ledger_on_a_network_is_refused_where_it_matters(tmp_path, monkeypatch):
    book = ledger(tmp_path)
    monkeypatch.setattr(guard, "kind_of", lambda path: "nfs4")
    for call in (lambda: fp.Ledger.open(book.path), lambda: book.charge([ask(1)]), lambda: ledger(tmp_path / "..")):
        with pytest.raises(InputError, match="nfs4"):
            call()


def test_commits_are_synced_and_no_write_ahead_log_is_used(tmp_path):
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
    book.charge([ask(1)])
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
    book.charge([ask(1)])
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


def test_a_charge_looks_at_the_tail_before_it_believes_the_sum(tmp_path):
    book = ledger(tmp_path)
    book.charge([ask(1, "9/10")])
    change_without_guards(
        book, """UPDATE ledger SET body = replace(body, '"spent":"9/10"', '"spent":"1/10"') WHERE seq = 2"""
    )
    with pytest.raises(LedgerError, match="entry 2"):
        book.charge([ask(2, "1/2")])


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
                fresh.extend(c for c in book.charge([ask(k % 20)]) if c.fresh)

    threads = [threading.Thread(target=work, args=(4 * t,)) for t in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({c.entry.key for c in fresh}) == len(fresh) == 10
    assert book.spent == 1
    assert not book.verify().problems


def chain(*charges, limit="1"):
    """A chain whose hashes all hold, with these (loss, spent)."""
    entries = [Entry.after(None, "open", "o", {"limit": limit})]
    for k, (loss, spent) in enumerate(charges):
        entries.append(Entry.after(entries[-1], "charge", str(k), {"loss": loss, "spent": spent}))
    return entries


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (chain(("1/2", "1/2"), ("1/2", "1/2")), "running sum"),
        (chain(("1/2", "1/2"), ("2/3", "7/6")), "above the limit"),
        (chain(("1/2", "1/2"), ("-1/2", "0")), "above 0"),
        (chain(("x", "1/2")), "form of an entry"),
        (chain(("1/2", "1/2"))[1:], "without a gap"),
        ([], "no entry"),
    ],
)
def test_rewritten_sums_are_found_even_where_every_hash_holds(entries, says):
    assert not check_chain(chain(("1/2", "1/2"), ("1/2", "1"))).problems
    found = check_chain(entries).problems
    assert found
    assert says in found[0]


FOLLOWS = {
    "rows again": ("rows", {"parts": {"a": [3, "x"]}}, "it says again what an earlier entry has fixed"),
    "values again": ("values", {"values": {"a": "tag"}}, "it says again what an earlier entry has fixed"),
    "values of no part": ("values", {"values": {"c": "tag"}}, "it has the value of a part that is not bound"),
    "a copy of nothing": ("copy", {"publication": "d"}, "it is a copy of what was never published"),
    "another kind": ("refund", {"loss": "1"}, "its kind is not known"),
    "new rows": ("rows", {"parts": {"c": [3, "x"]}}, None),
    "another value": ("values", {"values": {"b": "tag"}}, None),
}


@pytest.mark.parametrize("case", FOLLOWS)
def test_what_is_exact_is_said_once_even_where_every_hash_holds(case):
    kind, body, says = FOLLOWS[case]
    entries = chain()
    for k, (name, said) in enumerate(
        (("rows", {"parts": {"a": [3, "x"], "b": [3, "y"]}}), ("values", {"values": {"a": "tag"}}))
    ):
        entries.append(Entry.after(entries[-1], name, str(k), said))
    entries.append(Entry.after(entries[-1], kind, "z", body))
    assert check_chain(entries).problems == ([] if says is None else [f"entry 4: {says}"])


def test_a_done_needs_its_charge_and_a_ledger_opens_once():
    entries = chain(("1/2", "1/2"))
    good = [*entries, Entry.after(entries[-1], "done", "d", {"of": "0"})]
    assert not check_chain(good).problems
    bad = [*entries, Entry.after(entries[-1], "done", "d", {"of": "9"})]
    assert "never charged" in check_chain(bad).problems[0]
    assert "opens" in check_chain([*entries, Entry.after(entries[-1], "open", "p", {"limit": "9"})]).problems[0]


def test_whoever_waits_for_the_ledger_ends_with_one_line_that_names_the_holder(tmp_path, monkeypatch, start):
    book = ledger(tmp_path)
    code = (
        "import sqlite3, time\n"
        f"link = sqlite3.connect({str(book.path)!r}, isolation_level=None)\n"
        "link.execute('BEGIN EXCLUSIVE')\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    holder = start([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    monkeypatch.setattr(store, "PATIENCE", 0.3)
    who = f"process {holder.pid}" if sys.platform == "linux" else "another process"
    with pytest.raises(fp.FairpostError, match=f"{who} has the ledger, and did not let go") as told:
        book.charge([Ask("a" * 64, Fraction(1, 10), {"name": "t"})])
    assert "\n" not in str(told.value)
    assert not isinstance(told.value, LedgerError)
    holder.kill()
    holder.wait(10)
    assert book.charge([Ask("a" * 64, Fraction(1, 10), {"name": "t"})])[0].fresh
    assert store.holder_of(tmp_path / "nowhere") == "another process"


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


def test_a_ledger_needs_a_folder(tmp_path):
    away = tmp_path / "away" / "l.db"
    with pytest.raises(InputError) as refused:
        Ledger.create(away, dataset="d", limit="1")
    assert str(refused.value) == f"{away}: the folder of a ledger must exist, got {away.parent}"


# -- every verb by itself ----------------------------------------------------------------------------------------

KEYS = ["a" * 64, "b" * 64, "c" * 64]


def test_a_ledger_is_synced_with_its_folder_and_refused_where_it_cannot_be_made(tmp_path, monkeypatch):
    module, seen = sys.modules["fairpost.release.ledger"], []
    monkeypatch.setattr(module, "sync_folder", seen.append)
    fp.Ledger.create(tmp_path / "l", dataset="d", limit="1")
    assert seen == [tmp_path]
    with pytest.raises(InputError) as refused:
        fp.Ledger.create(tmp_path / ("x" * 300), dataset="d", limit="1")
    assert str(refused.value) == f"{tmp_path / ('x' * 300)}: cannot be made: File name too long"
    monkeypatch.setattr(module, "_posix", lambda: (_ for _ in ()).throw(UnsupportedError("POSIX")))
    with pytest.raises(UnsupportedError):
        fp.Ledger.create(tmp_path / "m", dataset="d", limit="1")
    assert not (tmp_path / "m").exists()


def test_what_is_done_is_recorded_once(tmp_path):
    book = fp.Ledger.create(tmp_path / "l", dataset="d", limit="1")
    book.charge([Ask(KEYS[0], Fraction(1, 10), {"name": "t"})])
    book.record("done", KEYS[1], {"of": KEYS[0], "statement": "s"})
    book.record("done", KEYS[1], {"of": KEYS[0], "statement": "another"})
    book.record("done", KEYS[2], {"of": KEYS[0], "statement": "of another key"})
    found = [e for e in book.entries() if e.kind == "done"]
    assert [(e.key, e.body["of"], e.body["statement"]) for e in found] == [
        (KEYS[1], KEYS[0], "s"),
        (KEYS[2], KEYS[0], "of another key"),
    ]
    assert [set(e.body) for e in found] == [{"of", "statement", "time"}] * 2
    assert found[0].body["time"] == datetime.now(UTC).date().isoformat()
    assert check_chain(book.entries()).problems == []


def test_the_check_says_what_became_of_every_charge(tmp_path):
    book = fp.Ledger.create(tmp_path / "l", dataset="d", limit="1")
    keys = [f"{k:x}" * 64 for k in range(1, 7)]
    book.charge([Ask(key, Fraction(1, 100), {"name": "t"}) for key in keys[:4]])
    book.record("done", "d" * 64, {"of": keys[2]})
    book.record("done", "e" * 64, {"of": keys[3]})
    for key in (keys[0], keys[2], keys[5], keys[4]):  # two of them were never charged
        (book.folder / f"{key}.noisy").write_bytes(b"")
    found = book.verify()
    assert found.notes == [
        "entry 2 was charged and is not finished: its noise is kept, the same command finishes it",
        "entry 3 was charged and is not finished: its noise is lost",
        "entry 5 is finished, but its noise is no longer kept",
    ]
    assert found.problems == [f"noise is kept that was never charged ({key[:12]}): an old copy?" for key in keys[4:]]
    with pytest.raises(LedgerError) as refused:
        book.demand()
    assert str(refused.value) == f"{book.path}: the ledger fails its check: {found.problems[0]} (and 1 more)"
    (book.folder / f"{keys[4]}.noisy").unlink()
    with pytest.raises(LedgerError, match=r"\(666666666666\): an old copy\?$"):  # one problem has no more behind it
        book.demand()
    (book.folder / f"{keys[5]}.noisy").unlink()
    book.demand()
    shutil.rmtree(book.folder)
    assert [note.rpartition(": ")[2] for note in book.verify().notes[:2]] == ["its noise is lost"] * 2


def test_a_refusal_lists_the_last_eight_charges(tmp_path):
    book = fp.Ledger.create(tmp_path / "l", dataset="d", limit="1")
    line = (
        f"{book.path}: the loss must fit into what is left of epsilon: limit 1, spent {{spent}}, left {{left}} (about {{about}}), "
        "asked 2; nothing was charged. Charged so far: {listed}"
    )

    def said():
        with pytest.raises(BudgetError) as refused:
            book.charge([Ask("f" * 64, Fraction(2), {"name": "much"})])
        return str(refused.value)

    assert said() == line.format(spent="0", left="1", about="1", listed="no entry")
    entries = []
    for k in range(9):
        book.charge([Ask(f"{k:064x}", Fraction(1, 30), {"name": "t"})])
        entries.append(f"entry {k + 2}: 1/30 for t")
        if k == 7:
            assert said().endswith("Charged so far: " + "; ".join(entries))
    assert said() == line.format(
        spent="3/10", left="7/10", about="0.7", listed="; ".join(entries[1:]) + "; and 1 earlier"
    )


def test_the_check_lists_the_schema_first_and_statements_last(tmp_path):
    book = fp.Ledger.create(tmp_path / "l", dataset="d", limit="1")
    book.charge([Ask(KEYS[0], Fraction(1, 3), {"name": "t"})])
    assert book.verify({"s.json": "{}"}).problems == ["s.json: is no statement of a release"]
    assert book.verify({}).problems == []
    away = '{"budget": {"entry": 9, "hash": "x", "spent_after": "1"}}'
    assert book.verify({"s.json": away}).problems == [
        "s.json: its charge (entry 9) is not in the ledger: cut, rewritten or an old copy"
    ]
    assert re.fullmatch("[0-9a-f]{64}", book.entries()[0].key)
    with pytest.raises(BudgetError, match=r"left 2/3 \(about 0.666666666666\)"):  # what is left is rounded down
        book.charge([Ask(KEYS[1], Fraction(1), {"name": "u"})])
    change_without_guards(book, "UPDATE ledger SET body = '{}' WHERE seq = 2")
    found = book.verify({"s.json": "{}"}).problems
    kinds = ["schema" if "schema" in p else "statement" if "s.json" in p else "chain" for p in found]
    assert sorted(set(kinds)) == ["chain", "schema", "statement"]
    assert kinds == sorted(kinds, key=["schema", "chain", "statement"].index)
