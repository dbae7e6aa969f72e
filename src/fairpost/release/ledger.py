"""The ledger: one population, one unit, one neighbouring relation, one limit, and every loss that was charged to it.

*Nothing is overspent.* (a) One writer at a time, and the test and the insert are one transaction: spent <= limit after
every commit. (b) UNIQUE(kind, key): a key has at most one fresh charge. (c) The commit is on the disk before `charge`
returns. (d) Entries are never changed or taken back, there is no refund. Sums with a limit fixed in advance are valid
filters for releases chosen adaptively, for pure DP and for zCDP (Rogers, Roth, Ullman, Vadhan 2016; Feldman, Zrnic
2021; Whitehouse, Ramdas, Rogers, Wu 2023).

`pure` adds up epsilon; `zcdp` adds up rho, where discrete Laplace noise costs epsilon^2 / 2.

*The file* is SQLite's. `journal_mode=TRUNCATE` with `synchronous=EXTRA`: a commit is the truncation of the journal, and EXTRA syncs
after it, so a charge that was reported is on the disk. DELETE with FULL does not sync the folder after the unlink that commits, and
a write-ahead log leaves charges beside the file, where a plain copy loses them. Sources: sqlite.org/pragma.html
(synchronous, journal_mode) and the order of system calls.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from fairpost.errors import BudgetError, FairpostError, InputError, LedgerError, ParameterError, UnsupportedError
from fairpost.noise.calibration import rho_of
from fairpost.release.amounts import amount, rounded
from fairpost.release.chain import (
    BROKEN,
    Entry,
    Findings,
    canonical,
    check_chain,
    check_published,
    check_statement,
    digest,
)
from fairpost.release.guard import create_private, private_folder, refuse_network, refuse_wide
from fairpost.release.invariants import SMALLEST, Invariants, Part, bound_rows, demand_sizes, named, total_of
from fairpost.whole import sync_folder

if TYPE_CHECKING:
    import sqlite3

NEIGHBOURS = ("add-remove", "replace")
MEASURES = ("pure", "zcdp")
NOT_STATED = "not stated"
NOISELESS = ("the list of rows", "the weights of the rows", "the hierarchy: ")
"""What a statement of an earlier version calls unprotected where no count is exact."""
LISTED = 8
"""At most this many entries are named in a refusal."""


@dataclass(frozen=True)
class Terms:
    """What a ledger is about: the body of its first entry."""

    dataset: str
    unit: str
    neighbours: str
    measure: str
    limit: Fraction
    limit_given: Mapping[str, str]
    """As it was typed: epsilon, rho, or epsilon and delta."""
    public: tuple[str, ...] = ()
    """The columns that a release may show, weigh, group or filter by, besides the ids."""
    others: str = NOT_STATED
    """Which other ledgers hold the same data."""
    invariants: Invariants | None = None
    """What is exact in the releases; None: nothing."""
    old: bool = False
    """Whether an earlier version made the ledger, which did not ask for the last three."""
    said: str = field(default="", compare=False)
    """The relation in the words of the ledger, once there is one."""

    @property
    def relation(self) -> str:
        """Which data sets are neighbours; the same words for every release of the ledger, for ever."""
        if self.said:
            return self.said
        if self.neighbours == "add-remove":
            return f"two data sets are neighbours if one of them has the records of one {self.unit} more"
        relation = f"two data sets are neighbours if they differ in the records of one {self.unit}"
        if self.invariants is None:
            return relation
        return f"{relation} and agree in every invariant of the ledger: {self.invariants.what}"

    @property
    def delta(self) -> Fraction | None:
        """The delta of a limit that was given as (epsilon, delta)."""
        return Fraction(self.limit_given["delta"]) if "delta" in self.limit_given else None

    @property
    def letter(self) -> str:
        """What is added up."""
        return "epsilon" if self.measure == "pure" else "rho"

    def body(self) -> dict[str, Any]:
        """For the first entry, and for whoever looks at the ledger."""
        return {
            "dataset": self.dataset,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "relation": self.relation,
            "invariants": None if self.invariants is None else dict(vars(self.invariants)),
            "public": list(self.public),
            "other_ledgers": self.others,
            "measure": self.measure,
            "limit": str(self.limit),
            "limit_given": dict(self.limit_given),
        }

    @classmethod
    def of(cls, b: Mapping[str, Any]) -> Terms:
        """The inverse of `body`."""
        texts = (str(b["dataset"]), str(b["unit"]), str(b["neighbours"]), str(b["measure"]))
        both = (Fraction(b["limit"]), dict(b["limit_given"]))
        if "relation" not in b:
            return cls(*texts, *both, old=True)
        held = b["invariants"]
        exact = None if held is None else Invariants(str(held["what"]), str(held["source"]), int(held["smallest"]))
        public = tuple(map(str, b["public"]))
        return cls(*texts, *both, public, str(b["other_ledgers"]), exact, said=str(b["relation"]))


class Charge(NamedTuple):
    """What a charge came to: the entry, and whether it was made now. Noise is drawn for a fresh one only."""

    entry: Entry
    fresh: bool


class Ask(NamedTuple):
    """One loss to charge: the key of the request, the loss, and the public part of the request."""

    key: str
    loss: Fraction
    request: Mapping[str, Any]


class Ledger:
    """A privacy budget on disk. `Ledger.create(...)` makes one, `Ledger.open(path)` opens it.

    Every verb opens the file, does one thing and closes it, so a ledger may be shared by processes and threads.
    """

    def __init__(self, path: Path, terms: Terms) -> None:
        self.path, self.terms = path, terms

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, {self.terms.measure}, limit {self.terms.limit})"

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        dataset: str,
        unit: str = "person",
        neighbours: str = "add-remove",
        measure: str = "pure",
        limit: str | int | Fraction,
        limit_delta: str | Fraction | None = None,
        public: Sequence[str] = (),
        other_ledgers: str = NOT_STATED,
        exact_total: bool = False,
        exact_by: str | None = None,
        levels: Any = None,
        exact: str | None = None,
        exact_source: str | None = None,
        rows: Any = None,
        id: str = "id",
        smallest_part: int = SMALLEST,
    ) -> Ledger:
        """Make a ledger, owner-only.

        Parameters
        ----------
        path
            The file; its kept noise will lie in the folder `path` + ".d".
        dataset, unit
            What the counts are about, and who is protected ("child"). Both are published in every statement.
        neighbours
            "add-remove": a unit is there or not; "replace": a unit becomes another one.
        measure, limit, limit_delta
            "pure": the limit is an epsilon. "zcdp": it is a rho, or with `limit_delta` an epsilon, which becomes the
            largest rho that is shown to imply (epsilon, delta). Texts such as "1" or "1/3"; floats are refused.
        public
            The columns that releases may use besides the ids: weights, groups, labels of levels, columns of conditions.
        other_ledgers
            Which other ledgers hold the same data ("none"); every statement repeats it.
        exact_total, exact_by, levels, exact
            What is exact in the releases, one of the three: the total of all rows; the totals of the parts of one column; the
            levels of a tree down to the one that `exact` names. It needs neighbours "replace", and nothing else can be exact afterwards.
        id
            The column of the ids, which every release shows.
        exact_source, rows, smallest_part
            With what is exact: where these numbers are published or why they are exact; the public list of rows without counts (a
            file, a data frame, a mapping of columns); the least number of rows of a part.

        """
        for name, value in (("dataset", dataset), ("unit", unit)):
            _line(name, value)
        for name, value, known in (("neighbours", neighbours, NEIGHBOURS), ("measure", measure, MEASURES)):
            if value not in known:
                raise ParameterError(f"`{name}` must be one of {', '.join(known)}, got {value!r}")
        most, given = _limit(measure, limit, limit_delta)
        columns, held = _columns([id, *_columns(public)]), None
        parts: dict[str, Part] = {}
        asked = {"exact_total": exact_total, "exact_by": exact_by, "levels": levels, "exact": exact}
        if _is_exact(asked, neighbours, exact_source, rows):
            what, parts, own = bound_rows(rows, id=id, public=columns, by=exact_by, levels=levels, exact=exact)
            demand_sizes(parts, smallest_part)
            held = Invariants(what, _line("exact_source", exact_source), smallest_part)
            columns = tuple(dict.fromkeys((*columns, *own)))
        others = _line("other_ledgers", other_ledgers)
        terms = Terms(dataset, unit, neighbours, measure, most, given, columns, others, held)
        place = Path(os.path.realpath(path))
        if not place.parent.is_dir():
            raise InputError(f"{path}: the folder of a ledger must exist, got {place.parent}")
        refuse_network(place.parent)
        _posix()
        try:
            os.close(create_private(place))
        except FileExistsError:
            raise InputError(f"{path}: a ledger is never overwritten, and the file exists") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be made: {error.strerror}") from None
        made = cls(place, terms)
        try:
            made._fill(parts)
            private_folder(made.folder)
            sync_folder(place.parent)
            return cls.open(place)  # whoever made it says the same as whoever opens it, to the order of the words
        except BaseException:
            for left in (place, place.with_name(place.name + "-journal")):
                with suppress(OSError):
                    left.unlink()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open a ledger; its first entry says what it is about."""
        _posix()
        place = Path(os.path.realpath(path))
        with opened(place) as link:
            first = _first(link, "ORDER BY seq LIMIT 1")
        try:
            if first is None:
                raise KeyError
            return cls(place, Terms.of(first.body))
        except BROKEN:
            raise LedgerError(f"{path}: the ledger fails its check: its first entry does not open it") from None

    def _fill(self, parts: Mapping[str, Part]) -> None:
        """The schema, the secret, the first entry and the bound rows, in one transaction."""
        secret = secrets.token_bytes(32)
        with told(self.path), closing(connect(self.path)) as link, writing(link):
            for statement in SCHEMA:
                link.execute(statement)
            link.execute("INSERT INTO secret (one, value) VALUES (1, ?)", (secret,))
            body = {**self.terms.body(), "secret": digest(secret)}
            _append(link, "open", secrets.token_hex(32), body)
            if parts:
                _append(link, "rows", digest(canonical(parts)), {"parts": dict(parts)})
            link.execute(f"PRAGMA application_id = {APPLICATION}")
            link.execute(f"PRAGMA user_version = {VERSION}")

    @property
    def folder(self) -> Path:
        """Where noisy counts are kept: beside the ledger."""
        return self.path.with_name(self.path.name + ".d")

    def entries(self) -> list[Entry]:
        """Every entry, in order."""
        with opened(self.path) as link:
            return _rows(link)

    def find(self, kind: str, key: str) -> Entry | None:
        """The entry of a kind with a key."""
        with opened(self.path) as link:
            return _first(link, "WHERE kind = ? AND key = ?", kind, key)

    @property
    def spent(self) -> Fraction:
        """The sum of all losses."""
        with opened(self.path) as link:
            last = _first(link, "WHERE kind = 'charge' ORDER BY seq DESC LIMIT 1")
        return Fraction(0) if last is None else last.spent

    @property
    def left(self) -> Fraction:
        """What may still be charged."""
        return self.terms.limit - self.spent

    def charge(self, asks: Sequence[Ask], values: Sequence[Mapping[str, int]] = ()) -> list[Charge]:
        """Charge every loss and fix the exact totals of every release, in one transaction, or nothing.

        A key that was charged before is not charged again, and a total that was fixed before must be the same.
        """
        with opened(self.path) as link, writing(link):
            for some in values:
                self._fix(link, some)
            charges: dict[str, Charge] = {}
            for ask in asks:
                if entry := _first(link, "WHERE kind = 'charge' AND key = ?", ask.key):
                    charges[ask.key] = Charge(entry, False)
            new = [ask for ask in asks if ask.key not in charges]
            charged = _first(link, "WHERE kind = 'charge' ORDER BY seq DESC LIMIT 1")
            for tail in (_first(link, LAST), charged):
                if tail and not tail.whole:
                    raise LedgerError(
                        f"{self.path}: entry {tail.seq} fails its check: its hash is not that of its content"
                    )
            spent = Fraction(0) if charged is None else charged.spent
            asked = sum((a.loss for a in new), Fraction(0))
            if any(a.loss <= 0 for a in new):
                raise ParameterError(f"a loss must be above 0, got {min(a.loss for a in new)}")
            if spent + asked > self.terms.limit:
                raise self._refusal(_rows(link, "WHERE kind = 'charge' ORDER BY seq"), spent, asked)
            for ask in new:
                spent += ask.loss
                body = {"loss": str(ask.loss), "spent": str(spent), "request": dict(ask.request)}
                charges[ask.key] = Charge(_append(link, "charge", ask.key, body), True)
        return [charges[ask.key] for ask in asks]

    def parts(self) -> dict[str, Part]:
        """The rows that are bound, part by part."""
        with opened(self.path) as link:
            return _bound(link)

    def append(
        self, rows: Any, *, id: str = "id", by: str | None = None, levels: Any = None, exact: str | None = None
    ) -> int:
        """Bind new parts; returns how many. `rows` is the whole list, in which every part that is bound stays as it is.

        A list has each row once, so a new part shares no row with another one: what is exact stays a partition.
        """
        held = self.terms.invariants
        if held is None:
            raise ParameterError(f"{self.path}: nothing is exact in this ledger, so it binds no rows")
        what, parts, _ = bound_rows(rows, id=id, public=self.terms.public, by=by, levels=levels, exact=exact)
        if what != held.what:
            raise ParameterError(f"{self.path}: exact in this ledger are {held.what}, got {what}")
        demand_sizes(parts, held.smallest)
        with opened(self.path) as link, writing(link):
            bound = _bound(link)
            other = [part for part in bound if parts.get(part) != bound[part]]
            if other:
                raise ParameterError(
                    f"{self.path}: the list must be the whole one and have {named(other[0])} with the rows that are bound "
                    f"({bound[other[0]][0]:,}); new rows go into parts of their own, because the total before and after would tell them"
                )
            new = {part: rows for part, rows in parts.items() if part not in bound}
            if new:
                _append(link, "rows", digest(canonical(new)), {"parts": new})
        return len(new)

    def fix(self, values: Mapping[str, int], *, only_check: bool = False) -> None:
        """The total of each part is what it was in the first release that used it, or is fixed now, under the secret."""
        with opened(self.path) as link, writing(link):
            self._fix(link, values, only_check=only_check)

    def _fix(self, link: sqlite3.Connection, values: Mapping[str, int], *, only_check: bool = False) -> None:
        known, secret = _merged(link, "values", "values"), _secret(link)
        tags = {part: _mac(secret, b"value", part.encode(), str(value).encode()) for part, value in values.items()}
        other = [part for part, tag in tags.items() if known.get(part, tag) != tag]
        if other:
            raise ParameterError(
                f"{self.path}: {total_of(other[0])} is not the one that was fixed by an earlier release (the "
                "values are not shown): published before and after, it would tell who came or went"
            )
        new = {part: tag for part, tag in tags.items() if part not in known}
        if new and not only_check:
            _append(link, "values", digest(canonical(new)), {"values": new})

    def record(self, kind: str, key: str, body: Mapping[str, Any]) -> None:
        """A `done`, what was published, or a `copy`, another place of it; once, and a copy not in a ledger of fairpost 0.1."""
        with opened(self.path) as link, writing(link):
            known = _first(link, "WHERE kind = ? AND key = ?", kind, key)
            if known is None and f"'{kind}'" in _schema(link)[0]:
                _append(link, kind, key, body)

    def fingerprint(self, *parts: bytes) -> str:
        """A keyed digest of the data: without the ledger's secret nobody can test a guess of the counts."""
        with opened(self.path) as link:
            return _mac(_secret(link), *parts)

    def verify(
        self, statements: Mapping[str, str] | None = None, published: Iterable[str | os.PathLike[str]] = ()
    ) -> Findings:
        """The chain, the sums, the schema, the kept noise, and what was published.

        Parameters
        ----------
        statements
            Statements, name to text: their charges and digests must be in the ledger.
        published
            Folders of releases, each of whose files must be as it was published; or files with statements, which are
            checked with the table beside them.

        """
        # kept noise first: whatever is kept before the entries are read was charged before
        kept = {p.name.removesuffix(".noisy") for p in self.folder.glob("*.noisy")}
        with opened(self.path) as link:
            problems, entries = _schema_problems(link), _rows(link)
            secret = link.execute("SELECT value FROM secret").fetchone()
        found = check_chain(entries)
        found.problems[:0] = problems
        if secret is None or not entries or digest(secret[0]) != entries[0].body.get("secret"):
            found.problems.append("the secret of the ledger is not the one that it was opened with")
        charged = {e.key: e for e in entries if e.kind == "charge"}
        found.problems += [
            f"noise is kept that was never charged ({key[:12]}): an old copy?" for key in sorted(kept - set(charged))
        ]
        finished = {e.body.get("of") for e in entries if e.kind == "done"}
        for key, entry in charged.items():
            if key not in finished:
                fate = "its noise is kept, the same command finishes it" if key in kept else "its noise is lost"
                found.notes.append(f"entry {entry.seq} was charged and is not finished: {fate}")
            elif key not in kept:
                found.notes.append(f"entry {entry.seq} is finished, but its noise is no longer kept")
        for name, statement in (statements or {}).items():
            found.problems += check_statement(name, statement, entries)
        for place in published:
            one = check_published(place, entries)
            found.problems += one.problems
            found.notes += one.notes
        return found

    def demand(self) -> Findings:
        """The ledger verifies, or an error says what is wrong."""
        found = self.verify()
        if found.problems:
            raise LedgerError(f"{self.path}: the ledger fails its check: {found.first}")
        return found

    def demand_new(self) -> None:
        """A ledger of an earlier version takes releases only if nothing exact was published from it.

        That version did not say in the ledger what was exact, so the statements must be where they were put.
        """
        for entry in self.entries() if self.terms.old else ():
            if entry.kind == "done" and not _only_noise(entry.body):
                raise UnsupportedError(
                    f"{self.path}: an earlier version made this ledger, and entry {entry.seq} published exact numbers (or its "
                    "statement is not where it was put, so nobody can say): no promise would hold for that and a new release "
                    "together. It can be shown and verified; make a new ledger with what is left of the budget"
                )

    def _refusal(self, charges: Sequence[Entry], spent: Fraction, asked: Fraction) -> BudgetError:
        listed = "; ".join(e.label for e in charges[-LISTED:]) or "no entry"
        earlier = f"; and {len(charges) - LISTED} earlier" if len(charges) > LISTED else ""
        limit, left = self.terms.limit, self.terms.limit - spent
        return BudgetError(
            f"{self.path}: the loss must fit into what is left of {self.terms.letter}: limit {limit}, spent {spent}, "
            f"left {left} (about {rounded(left, up=False)}), asked {asked}; nothing was "
            f"charged. Charged so far: {listed}{earlier}"
        )


def _only_noise(done: Mapping[str, Any]) -> bool:
    if "exact" in done:  # since version 2
        return not done["exact"]
    try:
        said = (Path(str(done["folder"])) / "statement.json").read_bytes()
        items = json.loads(said)["unprotected"]
        return digest(said) == done["statement"] and all(item["what"].startswith(NOISELESS) for item in items)
    except (OSError, *BROKEN):
        return False


def _line(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ParameterError(f"`{name}` must be a text on one line, got {value!r}")
    return value


def _columns(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ParameterError(f"`public` must be a list of names of columns, got the text {given!r}")
    return tuple(dict.fromkeys(_line("public", name) for name in given))


def _limit(measure: str, limit: Any, limit_delta: Any) -> tuple[Fraction, dict[str, str]]:
    """The limit in the ledger's measure, and as it was typed."""
    most = amount(limit, "limit")
    if limit_delta is None:
        return most, {"epsilon" if measure == "pure" else "rho": str(most)}
    if measure == "pure":
        raise ParameterError("`limit_delta` is for the measure zcdp; pure has no delta, got one")
    delta = amount(limit_delta, "limit_delta")
    return rho_of(most, delta), {"epsilon": str(most), "delta": str(delta)}


def _is_exact(asked: Mapping[str, Any], neighbours: str, source: str | None, rows: Any) -> bool:
    """Whether something is exact, in one way and with all that it needs."""
    ways = [name for name in ("exact_total", "exact_by", "levels") if asked[name]]
    if (asked["levels"] is None) != (asked["exact"] is None):
        raise ParameterError("exact levels are given by `levels` and `exact` together, got one of them")
    if len(ways) > 1:
        raise ParameterError(f"a ledger has one kind of exact numbers, got {' and '.join(f'`{w}`' for w in ways)}")
    if not ways and (rows is not None or source is not None):
        raise ParameterError(
            "`rows` and `exact_source` are for exact numbers (`exact_total`, `exact_by`, `levels`), got none"
        )
    if ways and neighbours != "replace":
        raise ParameterError(
            f"exact numbers are not hidden from anyone who adds or removes a unit: they need neighbours replace, got {neighbours}"
        )
    if ways and rows is None:
        raise ParameterError("exact numbers need `rows`, a public list of rows without counts, got none")
    if ways and source is None:
        raise ParameterError("exact numbers need `exact_source`, where they are published, got none")
    return bool(ways)


def _mac(secret: bytes, *parts: bytes) -> str:
    mac = hmac.new(secret, digestmod=hashlib.sha256)
    for part in parts:
        mac.update(len(part).to_bytes(8, "big"))
        mac.update(part)
    return mac.hexdigest()


def _posix() -> None:
    if os.name != "posix":
        raise UnsupportedError("releases need the locks and modes of a POSIX system (Linux, macOS), got another one")


# -- the file ----------------------------------------------------------------------------------------------------------

APPLICATION = 0x46505354
"""FPST, in the header of the file."""
VERSION = 2
OLD = 1
"""Ledgers of fairpost 0.1: no invariants, no public columns. They are shown, verified, and charged where `demand_new` allows it."""
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
LAST = "ORDER BY seq DESC LIMIT 1"


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
    """Errors of SQLite in one line: damage is the ledger's, the rest (a full disk, a lock) is the machine's."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        said, made = " ".join(str(error).split()), None
        if isinstance(error, sqlite3.OperationalError) and "database is locked" in said:
            made = FairpostError(
                f"{path}: {holder_of(path)} has the ledger, and did not let go within {PATIENCE:.0f} seconds; nothing was done here"
            )
        elif isinstance(error, sqlite3.OperationalError):
            made = FairpostError(f"{path}: the ledger could not be used: {said}")
        elif "not a database" in said:
            made = InputError(f"{path}: must be a ledger of fairpost, got another file")
        raise made or LedgerError(f"{path}: the ledger fails its check: {said}") from None


def holder_of(path: Path) -> str:
    """Who holds a lock of SQLite on a file, by the system's own list (Linux).

    The file itself must not be opened to ask: closing it again would drop the locks of this process's other connections.
    """
    try:
        found = path.stat()
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        held = [line.split() for line in locks if "->" not in line]
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


def _append(link: sqlite3.Connection, kind: str, key: str, body: Mapping[str, Any]) -> Entry:
    """The next entry, with the date: the hour of a release is nobody's business."""
    today = datetime.now(UTC).date().isoformat()
    entry = Entry.after(_first(link, LAST), kind, key, {**body, "time": today})
    insert(link, entry)
    return entry


def insert(link: sqlite3.Connection, entry: Entry) -> None:
    """Write an entry."""
    row = (entry.seq, entry.kind, entry.key, canonical(entry.body), entry.prev, entry.hash)
    link.execute("INSERT INTO ledger (seq, kind, key, body, prev, hash) VALUES (?, ?, ?, ?, ?, ?)", row)


def _rows(link: sqlite3.Connection, where: str = "ORDER BY seq", *given: str) -> list[Entry]:
    """The entries; a body that is no JSON in its one spelling stays text, and then no hash fits."""
    found = []
    for seq, kind, key, body, prev, hash_ in link.execute(
        f"SELECT seq, kind, key, body, prev, hash FROM ledger {where}", given
    ):
        try:
            data = json.loads(body)
            good = isinstance(data, dict) and canonical(data) == body
        except (ValueError, TypeError, RecursionError):
            good = False
        found.append(Entry(seq, kind, key, data if good else {"text": body}, prev, hash_))
    return found


def _first(link: sqlite3.Connection, where: str, *given: str) -> Entry | None:
    return next(iter(_rows(link, where, *given)), None)


def _merged(link: sqlite3.Connection, kind: str, name: str) -> dict[str, Any]:
    """What all entries of a kind hold together."""
    return {k: v for entry in _rows(link, "WHERE kind = ? ORDER BY seq", kind) for k, v in entry.body[name].items()}


def _bound(link: sqlite3.Connection) -> dict[str, Part]:
    return {part: (int(n), str(rows)) for part, (n, rows) in _merged(link, "rows", "parts").items()}


def _secret(link: sqlite3.Connection) -> bytes:
    (secret,) = link.execute("SELECT value FROM secret").fetchone()
    return bytes(secret)


def _schema(link: sqlite3.Connection) -> tuple[str, ...]:
    (version,) = link.execute("PRAGMA user_version").fetchone()
    return OLD_SCHEMA if version == OLD else SCHEMA


def _schema_problems(link: sqlite3.Connection) -> list[str]:
    """The tables and triggers must be those of the schema, and SQLite's own check must pass."""
    schema = _schema(link)
    there = {" ".join(sql.split()) for (sql,) in link.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    strange = [*(s for s in schema if s not in there), *sorted(there - set(schema))]
    problems = [f"the schema is not the one that was made: {sql.split('(')[0].strip()[:60]}" for sql in strange]
    (whole,) = link.execute("PRAGMA integrity_check(1)").fetchone()
    return problems if whole == "ok" else [*problems, f"SQLite finds damage: {' '.join(str(whole).split())[:120]}"]
