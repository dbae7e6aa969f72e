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
    said = str(refused.value)
    for part in (
        "limit 1",
        "spent 1",
        "left 0",
        "asked 1/1000000000000000000000",
        "nothing was charged",
        "entry 11: 1/10 for t",
    ):
        assert part in said
    assert book.spent == 1
    assert len(book.entries()) == 11


def test_the_same_key_is_charged_once(tmp_path):
    book = ledger(tmp_path)
    first, second = book.charge([ask(1)])[0], book.charge([ask(1)])[0]
    assert (first.fresh, second.fresh) == (True, False)
    assert first.entry == second.entry
    assert book.spent == Fraction(1, 10)


def test_several_charges_are_one_transaction(tmp_path):
    book = ledger(tmp_path)
    with pytest.raises(BudgetError, match="asked 6/5"):
        book.charge([ask(1, "3/5"), ask(2, "3/5")])
    assert book.spent == 0
    assert [c.fresh for c in book.charge([ask(1, "3/5"), ask(2, "2/5")])] == [True, True]
    assert book.spent == 1


def test_a_loss_of_nothing_or_less_is_refused(tmp_path):
    book = ledger(tmp_path)
    for loss in ("0", "-1/10"):
        with pytest.raises(ParameterError, match="above 0"):
            book.charge([ask(1, loss)])


def test_limits_in_each_measure(tmp_path):
    assert ledger(tmp_path).terms.limit == 1
    terms = {"dataset": "d", "measure": "zcdp"}
    assert fp.Ledger.create(tmp_path / "r", limit="1/3", **terms).terms.limit == Fraction(1, 3)
    both = fp.Ledger.create(tmp_path / "e", limit="1", limit_delta="1e-10", **terms)
    assert 0 < both.terms.limit < Fraction(1, 50)
    assert fp.Ledger.open(tmp_path / "e").terms == both.terms
    with pytest.raises(ParameterError, match="pure has no delta"):
        fp.Ledger.create(tmp_path / "x", dataset="d", limit="1", limit_delta="1e-10")
    with pytest.raises(ParameterError, match="must be exact"):
        fp.Ledger.create(tmp_path / "x", dataset="d", limit=1.0)
    with pytest.raises(ParameterError, match="neighbours"):
        fp.Ledger.create(tmp_path / "x", dataset="d", limit="1", neighbours="swap")
    assert not (tmp_path / "x").exists()


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


@pytest.mark.parametrize("script", ["DELETE FROM ledger", "UPDATE ledger SET body = '{}' WHERE seq = 1"])
def test_a_ledger_that_nothing_opens_is_refused_in_one_line(tmp_path, script):
    book = ledger(tmp_path)
    change_without_guards(book, script)
    with pytest.raises(LedgerError, match="its first entry does not open it"):
        fp.Ledger.open(book.path)


def test_a_charge_looks_at_the_tail_before_it_believes_the_sum(tmp_path):
    book = ledger(tmp_path)
    book.charge([ask(1, "9/10")])
    link = sqlite3.connect(book.path)
    link.execute("DROP TRIGGER entries_stay")
    link.execute("""UPDATE ledger SET body = replace(body, '"spent":"9/10"', '"spent":"1/10"') WHERE seq = 2""")
    link.commit()
    link.close()
    with pytest.raises(LedgerError, match="entry 2"):
        book.charge([ask(2, "1/2")])


def test_the_fingerprint_needs_the_secret(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    one, two = ledger(tmp_path / "a"), ledger(tmp_path / "b")
    assert one.fingerprint(b"x") == one.fingerprint(b"x") != two.fingerprint(b"x")
    assert one.fingerprint(b"xy", b"") != one.fingerprint(b"x", b"y")


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


def test_a_ledger_needs_a_folder_and_texts_of_one_line(tmp_path):
    given = {"dataset": "d", "unit": "child", "neighbours": "add-remove", "measure": "pure", "limit": "1"}
    away = tmp_path / "away" / "l.db"
    with pytest.raises(InputError) as refused:
        Ledger.create(away, **given)
    assert str(refused.value) == f"{away}: the folder of a ledger must exist, got {away.parent}"
    for name in ("dataset", "unit"):
        for value in ("", "  ", "two\nlines", "a\x07bell", 5, None):
            with pytest.raises(ParameterError) as refused:
                Ledger.create(tmp_path / "l.db", **given | {name: value})
            assert str(refused.value) == f"`{name}` must be a text on one line, got {value!r}"
    assert not (tmp_path / "l.db").exists()


def test_the_secret_has_32_bytes_and_no_two_ledgers_share_one(tmp_path):
    secrets = []
    for name in ("a.db", "b.db"):
        Ledger.create(tmp_path / name, dataset="d", unit="child", neighbours="replace", measure="zcdp", limit="1")
        with closing(sqlite3.connect(tmp_path / name)) as link:
            secrets += [row[0] for row in link.execute("SELECT value FROM secret")]
    assert [len(s) for s in secrets] == [32, 32]
    assert secrets[0] != secrets[1]


# -- every verb by itself ----------------------------------------------------------------------------------------

KEYS = ["a" * 64, "b" * 64, "c" * 64]


def test_terms_say_what_is_added_up(tmp_path):
    made = {
        "p": fp.Ledger.create(tmp_path / "p", dataset="d", limit="2"),
        "r": fp.Ledger.create(tmp_path / "r", dataset="d", measure="zcdp", limit="1/3"),
        "e": fp.Ledger.create(tmp_path / "e", dataset="d", measure="zcdp", limit="1", limit_delta="1e-10"),
    }
    assert [(m.terms.letter, m.terms.delta) for m in made.values()] == [
        ("epsilon", None),
        ("rho", None),
        ("rho", Fraction(1, 10**10)),
    ]
    assert [dict(m.terms.limit_given) for m in made.values()] == [
        {"epsilon": "2"},
        {"rho": "1/3"},
        {"epsilon": "1", "delta": "1/10000000000"},
    ]
    assert repr(made["r"]) == f"Ledger({str(tmp_path / 'r')!r}, zcdp, limit 1/3)"
    assert made["p"].folder == tmp_path / "p.d"
    for name, (wrong, known) in {
        "neighbours": ("swap", "add-remove, replace"),
        "measure": ("renyi", "pure, zcdp"),
    }.items():
        with pytest.raises(ParameterError) as refused:
            fp.Ledger.create(tmp_path / "x", dataset="d", limit="1", **{name: wrong})
        assert str(refused.value) == f"`{name}` must be one of {known}, got '{wrong}'"


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


def test_what_was_charged_is_found_and_what_is_left_falls(tmp_path):
    book = fp.Ledger.create(tmp_path / "l", dataset="d", limit="1")
    assert (book.spent, book.left) == (0, 1)
    book.charge([Ask(KEYS[0], Fraction(1, 10), {"name": "t"}), Ask(KEYS[1], Fraction(1, 5), {"name": "u"})])
    assert (book.spent, book.left) == (Fraction(3, 10), Fraction(7, 10))
    assert book.find("charge", KEYS[1]).body["request"] == {"name": "u"}
    assert book.find("charge", KEYS[2]) is None
    assert book.find("done", KEYS[1]) is None
    assert [e.kind for e in book.entries()] == ["open", "charge", "charge"]


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


def test_the_fingerprint_by_hand(tmp_path):
    """HMAC-SHA256 with the ledger's secret over every part behind its length, so that parts cannot be cut elsewhere."""
    book = fp.Ledger.create(tmp_path / "l", dataset="d", limit="1")
    with closing(sqlite3.connect(tmp_path / "l")) as link:
        ((secret,),) = link.execute("SELECT value FROM secret").fetchall()
    text = b"\0\0\0\0\0\0\0\2ab\0\0\0\0\0\0\0\1c"
    assert book.fingerprint(b"ab", b"c") == hmac.new(secret, text, hashlib.sha256).hexdigest()
    assert book.fingerprint(b"a", b"bc") != book.fingerprint(b"ab", b"c")


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
    for key in keys[4:]:
        (book.folder / f"{key}.noisy").unlink()
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


def test_terms_are_as_given_and_the_first_that_is_wrong_is_named(tmp_path):
    given = {"dataset": "Towns", "unit": "child", "neighbours": "replace", "measure": "zcdp", "limit": "1"}
    for more in ({}, {"limit_delta": "1e-10"}):
        terms = fp.Ledger.create(tmp_path / f"l{len(more)}", **given, **more).terms
        assert [terms.dataset, terms.unit, terms.neighbours, terms.measure] == ["Towns", "child", "replace", "zcdp"]
    for wrong, first in (({"dataset": "", "unit": ""}, "dataset"), ({"neighbours": "x", "measure": "y"}, "neighbours")):
        with pytest.raises(ParameterError, match=f"^`{first}` must be"):
            fp.Ledger.create(tmp_path / "x", **given | wrong)


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


def test_one_problem_has_no_more_behind_it(tmp_path):
    book = fp.Ledger.create(tmp_path / "l", dataset="d", limit="1")
    (book.folder / f"{KEYS[0]}.noisy").write_bytes(b"")
    with pytest.raises(LedgerError) as refused:
        book.demand()
    line = f"noise is kept that was never charged ({KEYS[0][:12]}): an old copy?"
    assert str(refused.value) == f"{book.path}: the ledger fails its check: {line}"
