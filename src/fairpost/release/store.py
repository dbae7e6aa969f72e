"""The SQLite file under a ledger: how it is opened, its schema, one row in and out.

`journal_mode=TRUNCATE` with `synchronous=EXTRA`: a commit is the truncation of the journal, and EXTRA syncs after it, so
a charge that was reported is on the disk. DELETE with FULL does not sync the folder after the unlink that commits, and
a write-ahead log leaves charges beside the file, where a plain copy loses them. Sources: sqlite.org/pragma.html
(synchronous, journal_mode) and the order of system calls.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fairpost.errors import FairpostError, InputError, LedgerError
from fairpost.release.chain import Entry, canonical
from fairpost.release.places import refuse_network, refuse_wide

if TYPE_CHECKING:
    import sqlite3

APPLICATION = 0x46505354
"""FPST, in the header of the file."""
VERSION = 2
OLD = 1
"""Ledgers of fairpost 0.1: no invariants, no public columns. They are shown, verified, and charged where `ledger` allows it."""
PATIENCE = 120.0
"""Seconds to wait for the lock: SQLite is not fair, and one of many writers may wait long."""
SCHEMA = (
    "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL "
    "CHECK (kind IN ('open', 'rows', 'values', 'charge', 'done', 'copy')), "
    "key TEXT NOT NULL, body TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, UNIQUE (kind, key))",
    "CREATE TABLE secret (one INTEGER PRIMARY KEY CHECK (one = 1), value BLOB NOT NULL)",
    "CREATE TRIGGER entries_stay BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
    "CREATE TRIGGER entries_remain BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END",
    "CREATE TRIGGER entries_follow BEFORE INSERT ON ledger WHEN NEW.seq IS NOT (SELECT COALESCE(MAX(seq), 0) + 1 FROM ledger) "
    "OR NEW.prev IS NOT COALESCE((SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1), '') "
    "OR EXISTS (SELECT 1 FROM ledger WHERE (kind = NEW.kind AND key = NEW.key) OR hash = NEW.hash) "
    "BEGIN SELECT RAISE(ABORT, 'an entry must continue the chain'); END",
    "CREATE TRIGGER secret_stays BEFORE UPDATE ON secret BEGIN SELECT RAISE(ABORT, 'the secret is never changed'); END",
    "CREATE TRIGGER secret_remains BEFORE DELETE ON secret BEGIN SELECT RAISE(ABORT, 'the secret is never deleted'); END",
)
"""The insert trigger also refuses INSERT OR REPLACE, which would delete a row without firing the trigger on deletes."""
OLD_SCHEMA = (
    SCHEMA[0].replace("'open', 'rows', 'values', 'charge', 'done', 'copy'", "'open', 'charge', 'done'"),
    *SCHEMA[1:],
)


def connect(path: Path) -> sqlite3.Connection:
    """A connection whose commits are on the disk when they return."""
    import sqlite3

    link = sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None)
    try:
        link.execute("PRAGMA trusted_schema = OFF")
        mode = link.execute("PRAGMA journal_mode = TRUNCATE").fetchone()[0]
        link.execute("PRAGMA synchronous = EXTRA")
        if sys.platform == "darwin":
            link.execute("PRAGMA fullfsync = ON")
        if mode != "truncate" or link.execute("PRAGMA synchronous").fetchone()[0] != 3:
            raise FairpostError(
                f"{path}: this SQLite must offer journal_mode=TRUNCATE and synchronous=EXTRA, got {mode}"
            )
    except BaseException:
        link.close()
        raise
    return link


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The ledger, checked to be one, owner-only and on a local disk; errors of SQLite in one line."""
    if not path.is_file():
        raise InputError(f"{path}: no such ledger (`fairpost budget create` makes one)")
    refuse_network(path)
    refuse_wide(path)
    with told(path), closing(connect(path)) as link:
        marks = tuple(link.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if marks not in ((APPLICATION, VERSION), (APPLICATION, OLD)):
            raise InputError(f"{path}: must be a ledger of fairpost, got another file")
        yield link


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Errors of SQLite in one line."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise failed(path, error) from None


def failed(path: Path, error: sqlite3.Error) -> FairpostError:
    """An error of SQLite in one line: damage is the ledger's, the rest (a full disk, a lock) is the machine's."""
    import sqlite3

    said = " ".join(str(error).split())
    if isinstance(error, sqlite3.OperationalError) and "database is locked" in said:
        return FairpostError(
            f"{path}: {holder_of(path)} has the ledger, and did not let go within {PATIENCE:.0f} seconds; nothing was done here"
        )
    if isinstance(error, sqlite3.OperationalError):
        return FairpostError(f"{path}: the ledger could not be used: {said}")
    if "not a database" in said:
        return InputError(f"{path}: must be a ledger of fairpost, got another file")
    return LedgerError(f"{path}: the ledger fails its check: {said}")


def holder_of(path: Path) -> str:
    """Who holds a lock of SQLite on a file, by the system's own list (Linux).

    The file itself must not be opened to ask: closing it again would drop the locks of this process's other connections.
    """
    try:
        found = path.stat()
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        held = [
            line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines() if "->" not in line
        ]
        others = {int(line[4]) for line in held if line[5] == place and line[4].isdecimal()} - {0, os.getpid()}
    except (OSError, IndexError, ValueError):
        others = set()
    return f"process {min(others)}" if others else "another process"


@contextmanager
def writing(link: sqlite3.Connection) -> Iterator[None]:
    """One transaction of the only writer: all of it on the disk, or none."""
    link.execute("BEGIN IMMEDIATE")
    try:
        yield
        link.execute("COMMIT")
    except BaseException:
        if link.in_transaction:
            link.execute("ROLLBACK")
        raise


def insert(link: sqlite3.Connection, entry: Entry) -> None:
    """Append an entry."""
    row = (entry.seq, entry.kind, entry.key, canonical(entry.body), entry.prev, entry.hash)
    link.execute("INSERT INTO ledger (seq, kind, key, body, prev, hash) VALUES (?, ?, ?, ?, ?, ?)", row)


def entry_of(row: tuple[int, str, str, str, str, str]) -> Entry:
    """A row as an entry; a body that is no JSON stays text, and then no hash fits."""
    seq, kind, key, body, prev, hash_ = row
    try:
        data = json.loads(body)
    except (ValueError, TypeError):
        data = {"text": body}
    if not isinstance(data, dict) or canonical(data) != body:
        data = {"text": body}
    return Entry(seq, kind, key, data, prev, hash_)


def rows(link: sqlite3.Connection, where: str = "", given: tuple[str, ...] = ()) -> Iterator[Entry]:
    """The entries, in order."""
    for row in link.execute(f"SELECT seq, kind, key, body, prev, hash FROM ledger {where}", given):
        yield entry_of(row)


def takes(link: sqlite3.Connection, kind: str) -> bool:
    """Whether the schema of this ledger knows entries of a kind."""
    (version,) = link.execute("PRAGMA user_version").fetchone()
    return f"'{kind}'" in (OLD_SCHEMA if version == OLD else SCHEMA)[0]


def schema_problems(link: sqlite3.Connection) -> list[str]:
    """The tables and triggers must be those of the schema, and SQLite's own check must pass."""
    (version,) = link.execute("PRAGMA user_version").fetchone()
    schema = OLD_SCHEMA if version == OLD else SCHEMA
    there = {" ".join(sql.split()) for (sql,) in link.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    problems = [f"the schema is not the one that was made: {sql.split('(')[0].strip()[:60]}" for sql in
                (*(s for s in schema if s not in there), *sorted(there - set(schema)))]  # fmt: skip
    (whole,) = link.execute("PRAGMA integrity_check(1)").fetchone()
    return problems if whole == "ok" else [*problems, f"SQLite finds damage: {' '.join(str(whole).split())[:120]}"]
