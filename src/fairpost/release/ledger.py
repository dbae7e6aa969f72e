"""The ledger: one population, one unit, one neighbouring relation, one limit, and every loss that was charged to it.

*Nothing is overspent.* (a) One writer at a time, and the test and the insert are one transaction: spent <= limit after
every commit. (b) UNIQUE(kind, key): a key has at most one fresh charge. (c) The commit is on the disk before `charge`
returns. (d) Entries are never changed or taken back, there is no refund. Sums with a limit fixed in advance are valid
filters for releases chosen adaptively, for pure DP and for zCDP (Rogers, Roth, Ullman, Vadhan 2016; Feldman, Zrnic
2021; Whitehouse, Ramdas, Rogers, Wu 2023).

`pure` adds up epsilon; `zcdp` adds up rho, where discrete Laplace noise costs epsilon^2 / 2.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from fairpost.errors import BudgetError, InputError, LedgerError, ParameterError, UnsupportedError
from fairpost.noise.calibration import rho_of
from fairpost.release import store
from fairpost.release.amounts import amount, rounded, text
from fairpost.release.chain import Entry, Findings, canonical, check_chain, digest, hash_of
from fairpost.release.invariants import SMALLEST, Invariants, Part, bound_rows, demand_sizes, named, total_of
from fairpost.release.places import create_private, private_folder, refuse_network
from fairpost.release.seals import check_published, check_statement
from fairpost.whole import sync_folder

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


@dataclass(frozen=True)
class Charge:
    """What a charge came to: the entry, and whether it was made now. Noise is drawn for a fresh one only."""

    entry: Entry
    fresh: bool


@dataclass(frozen=True)
class Ask:
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
        return f"Ledger({str(self.path)!r}, {self.terms.measure}, limit {text(self.terms.limit)})"

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
        terms = _terms(dataset, unit, neighbours, measure, limit, limit_delta)
        asked = {"exact_total": exact_total, "exact_by": exact_by, "levels": levels, "exact": exact}
        terms, parts = _exact(terms, asked, exact_source, rows, id, _columns([id, *_columns(public)]), smallest_part)
        terms = replace(terms, others=_line("other_ledgers", other_ledgers))
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
        try:
            _fill(place, terms, parts)
            private_folder(cls(place, terms).folder)
            sync_folder(place.parent)
        except BaseException:
            for left in (place, place.with_name(place.name + "-journal")):
                with suppress(OSError):
                    left.unlink()
            raise
        return cls(place, terms)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open a ledger; its first entry says what it is about."""
        _posix()
        place = Path(os.path.realpath(path))
        with store.opened(place) as link:
            first = next(store.rows(link, "ORDER BY seq LIMIT 1"), None)
        try:
            assert first is not None
            b = first.body
            texts = (str(b["dataset"]), str(b["unit"]), str(b["neighbours"]), str(b["measure"]))
            terms = Terms(*texts, Fraction(b["limit"]), dict(b["limit_given"]), old="relation" not in b)
            if not terms.old:
                held = None if b["invariants"] is None else Invariants.of(b["invariants"])
                public = tuple(map(str, b["public"]))
                terms = replace(terms, public=public, others=str(b["other_ledgers"]), invariants=held)
                terms = replace(terms, said=str(b["relation"]))
        except (AssertionError, KeyError, ValueError, TypeError):
            raise LedgerError(f"{path}: the ledger fails its check: its first entry does not open it") from None
        return cls(place, terms)

    @property
    def folder(self) -> Path:
        """Where noisy counts are kept: beside the ledger."""
        return self.path.with_name(self.path.name + ".d")

    def entries(self) -> list[Entry]:
        """Every entry, in order."""
        with store.opened(self.path) as link:
            return list(store.rows(link, "ORDER BY seq"))

    def find(self, kind: str, key: str) -> Entry | None:
        """The entry of a kind with a key."""
        with store.opened(self.path) as link:
            return next(store.rows(link, "WHERE kind = ? AND key = ?", (kind, key)), None)

    @property
    def spent(self) -> Fraction:
        """The sum of all losses."""
        with store.opened(self.path) as link:
            last = _last(link, "WHERE kind = 'charge'")
        return Fraction(0) if last is None else last.spent

    @property
    def left(self) -> Fraction:
        """What may still be charged."""
        return self.terms.limit - self.spent

    def charge(self, asks: Sequence[Ask], values: Sequence[Mapping[str, int]] = ()) -> list[Charge]:
        """Charge every loss and fix the exact totals of every release, in one transaction, or nothing.

        A key that was charged before is not charged again, and a total that was fixed before must be the same.
        """
        with store.opened(self.path) as link, store.writing(link):
            for some in values:
                self._fix(link, some)
            known = {a.key: next(store.rows(link, "WHERE kind = 'charge' AND key = ?", (a.key,)), None) for a in asks}
            new = [a for a in asks if known[a.key] is None]
            last, charged = _last(link), _last(link, "WHERE kind = 'charge'")
            for tail in (last, charged):
                if tail and tail.hash != hash_of(tail.seq, tail.kind, tail.key, tail.body, tail.prev):
                    raise LedgerError(
                        f"{self.path}: entry {tail.seq} fails its check: its hash is not that of its content"
                    )
            spent = Fraction(0) if charged is None else charged.spent
            asked = sum((a.loss for a in new), Fraction(0))
            if any(a.loss <= 0 for a in new):
                raise ParameterError(f"a loss must be above 0, got {min(a.loss for a in new)}")
            if spent + asked > self.terms.limit:
                raise self._refusal(list(store.rows(link, "WHERE kind = 'charge' ORDER BY seq")), spent, asked)
            made: dict[str, Entry] = {}
            for ask in new:
                spent += ask.loss
                body = {"loss": text(ask.loss), "spent": text(spent), "request": dict(ask.request), "time": _now()}
                last = made[ask.key] = Entry.after(last, "charge", ask.key, body)
                store.insert(link, last)
        return [Charge(made.get(a.key) or _there(known[a.key]), a.key in made) for a in asks]

    def parts(self) -> dict[str, Part]:
        """The rows that are bound, part by part."""
        with store.opened(self.path) as link:
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
        with store.opened(self.path) as link, store.writing(link):
            bound = _bound(link)
            other = [part for part in bound if parts.get(part) != bound[part]]
            if other:
                raise ParameterError(
                    f"{self.path}: the list must be the whole one and have {named(other[0])} with the rows that are bound "
                    f"({bound[other[0]][0]:,}); new rows go into parts of their own, because the total before and after would tell them"
                )
            new = {part: rows for part, rows in parts.items() if part not in bound}
            if new:
                body = {"parts": new, "time": _now()}
                store.insert(link, Entry.after(_last(link), "rows", digest(canonical(new)), body))
        return len(new)

    def fix(self, values: Mapping[str, int], *, only_check: bool = False) -> None:
        """The total of each part is what it was in the first release that used it, or is fixed now, under the secret."""
        with store.opened(self.path) as link, store.writing(link):
            self._fix(link, values, only_check=only_check)

    def _fix(self, link: Any, values: Mapping[str, int], *, only_check: bool = False) -> None:
        known = _merged(link, "values", "values")
        (secret,) = link.execute("SELECT value FROM secret").fetchone()
        tags = {part: _mac(secret, b"value", part.encode(), str(value).encode()) for part, value in values.items()}
        other = [part for part, tag in tags.items() if known.get(part, tag) != tag]
        if other:
            raise ParameterError(
                f"{self.path}: {total_of(other[0])} is not the one that was fixed by an earlier release (the "
                "values are not shown): published before and after, it would tell who came or went"
            )
        new = {part: tag for part, tag in tags.items() if part not in known}
        if new and not only_check:
            body = {"values": new, "time": _now()}
            store.insert(link, Entry.after(_last(link), "values", digest(canonical(new)), body))

    def done(self, key: str, body: Mapping[str, Any]) -> None:
        """Record what was published; once."""
        self._record("done", key, body)

    def copied(self, key: str, body: Mapping[str, Any]) -> None:
        """Record another place of what was published; once, and not in a ledger of fairpost 0.1, which has no such entries."""
        self._record("copy", key, body)

    def _record(self, kind: str, key: str, body: Mapping[str, Any]) -> None:
        with store.opened(self.path) as link, store.writing(link):
            known = next(store.rows(link, "WHERE kind = ? AND key = ?", (kind, key)), None)
            if known is None and store.takes(link, kind):
                store.insert(link, Entry.after(_last(link), kind, key, {**body, "time": _now()}))

    def fingerprint(self, *parts: bytes) -> str:
        """A keyed digest of the data: without the ledger's secret nobody can test a guess of the counts."""
        with store.opened(self.path) as link:
            (secret,) = link.execute("SELECT value FROM secret").fetchone()
        return _mac(secret, *parts)

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
        with store.opened(self.path) as link:
            problems = store.schema_problems(link)
            entries = list(store.rows(link, "ORDER BY seq"))
            found = check_chain(entries)
            secret = link.execute("SELECT value FROM secret").fetchone()
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
            more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
            raise LedgerError(f"{self.path}: the ledger fails its check: {found.problems[0]}{more}")
        return found

    def _refusal(self, charges: Sequence[Entry], spent: Fraction, asked: Fraction) -> BudgetError:
        listed = "; ".join(e.label for e in charges[-LISTED:]) or "no entry"
        earlier = f"; and {len(charges) - LISTED} earlier" if len(charges) > LISTED else ""
        t = self.terms
        return BudgetError(
            f"{self.path}: the loss must fit into what is left of {t.letter}: limit {text(t.limit)}, spent {text(spent)}, "
            f"left {text(t.limit - spent)} (about {rounded(t.limit - spent, up=False)}), asked {text(asked)}; nothing was "
            f"charged. Charged so far: {listed}{earlier}"
        )


def demand_new(ledger: Ledger) -> None:
    """A ledger of an earlier version takes releases only if nothing exact was published from it.

    That version did not say in the ledger what was exact, so the statements must be where they were put.
    """
    if not ledger.terms.old:
        return
    for entry in ledger.entries():
        if entry.kind == "done" and not _only_noise(entry.body):
            raise UnsupportedError(
                f"{ledger.path}: an earlier version made this ledger, and entry {entry.seq} published exact numbers (or its "
                "statement is not where it was put, so nobody can say): no promise would hold for that and a new release "
                "together. It can be shown and verified; make a new ledger with what is left of the budget"
            )


def _only_noise(done: Mapping[str, Any]) -> bool:
    if "exact" in done:  # since version 2
        return not done["exact"]
    try:
        said = (Path(str(done["folder"])) / "statement.json").read_bytes()
        items = json.loads(said)["unprotected"]
        return digest(said) == done["statement"] and all(item["what"].startswith(NOISELESS) for item in items)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _mac(secret: bytes, *parts: bytes) -> str:
    mac = hmac.new(secret, digestmod=hashlib.sha256)
    for part in parts:
        mac.update(len(part).to_bytes(8, "big"))
        mac.update(part)
    return mac.hexdigest()


def _merged(link: Any, kind: str, name: str) -> dict[str, Any]:
    """What all entries of a kind hold together."""
    return {
        k: v for entry in store.rows(link, "WHERE kind = ? ORDER BY seq", (kind,)) for k, v in entry.body[name].items()
    }


def _bound(link: Any) -> dict[str, Part]:
    return {part: (int(n), str(rows)) for part, (n, rows) in _merged(link, "rows", "parts").items()}


def _line(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ParameterError(f"`{name}` must be a text on one line, got {value!r}")
    return value


def _columns(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ParameterError(f"`public` must be a list of names of columns, got the text {given!r}")
    return tuple(dict.fromkeys(_line("public", name) for name in given))


def _exact(
    terms: Terms,
    asked: Mapping[str, Any],
    source: str | None,
    rows: Any,
    id: str,
    public: tuple[str, ...],
    smallest: int,
) -> tuple[Terms, dict[str, Part]]:
    """The terms with their invariants and public columns, and the parts that are bound."""
    ways = [name for name in ("exact_total", "exact_by", "levels") if asked[name]]
    if (asked["levels"] is None) != (asked["exact"] is None):
        raise ParameterError("exact levels are given by `levels` and `exact` together, got one of them")
    if len(ways) > 1:
        raise ParameterError(f"a ledger has one kind of exact numbers, got {' and '.join(f'`{w}`' for w in ways)}")
    if not ways:
        if rows is not None or source is not None:
            raise ParameterError(
                "`rows` and `exact_source` are for exact numbers (`exact_total`, `exact_by`, `levels`), got none"
            )
        return replace(terms, public=public), {}
    if terms.neighbours != "replace":
        raise ParameterError(
            "exact numbers are not hidden from anyone who adds or removes a unit: they need neighbours replace, got "
            f"{terms.neighbours}"
        )
    if rows is None or source is None:
        missing = (
            "`rows`, a public list of rows without counts"
            if rows is None
            else "`exact_source`, where they are published"
        )
        raise ParameterError(f"exact numbers need {missing}, got none")
    by, levels, exact = asked["exact_by"], asked["levels"], asked["exact"]
    what, parts, columns = bound_rows(rows, id=id, public=public, by=by, levels=levels, exact=exact)
    demand_sizes(parts, smallest)
    held = Invariants(what, _line("exact_source", source), smallest)
    return replace(terms, public=tuple(dict.fromkeys((*public, *columns))), invariants=held), parts


def _terms(dataset: str, unit: str, neighbours: str, measure: str, limit: Any, limit_delta: Any) -> Terms:
    for name, value in (("dataset", dataset), ("unit", unit)):
        _line(name, value)
    for name, value, known in (("neighbours", neighbours, NEIGHBOURS), ("measure", measure, MEASURES)):
        if value not in known:
            raise ParameterError(f"`{name}` must be one of {', '.join(known)}, got {value!r}")
    most = amount(limit, "limit")
    if limit_delta is None:
        return Terms(dataset, unit, neighbours, measure, most, {"epsilon" if measure == "pure" else "rho": text(most)})
    if measure == "pure":
        raise ParameterError("`limit_delta` is for the measure zcdp; pure has no delta, got one")
    delta = amount(limit_delta, "limit_delta")
    given = {"epsilon": text(most), "delta": text(delta)}
    return Terms(dataset, unit, neighbours, measure, rho_of(most, delta), given)


def _fill(path: Path, terms: Terms, parts: Mapping[str, Part]) -> None:
    """The schema, the secret, the first entry and the bound rows, in one transaction."""
    secret = secrets.token_bytes(32)
    body = {
        "dataset": terms.dataset,
        "unit": terms.unit,
        "neighbours": terms.neighbours,
        "measure": terms.measure,
        "limit": text(terms.limit),
        "limit_given": dict(terms.limit_given),
        "relation": terms.relation,
        "invariants": None if terms.invariants is None else terms.invariants.public(),
        "public": list(terms.public),
        "other_ledgers": terms.others,
        "secret": digest(secret),
        "time": _now(),
    }
    with store.told(path), closing(store.connect(path)) as link, store.writing(link):
        for statement in store.SCHEMA:
            link.execute(statement)
        link.execute("INSERT INTO secret (one, value) VALUES (1, ?)", (secret,))
        first = Entry.after(None, "open", secrets.token_hex(32), body)
        store.insert(link, first)
        if parts:
            bound = {"parts": dict(parts), "time": _now()}
            store.insert(link, Entry.after(first, "rows", digest(canonical(parts)), bound))
        link.execute(f"PRAGMA application_id = {store.APPLICATION}")
        link.execute(f"PRAGMA user_version = {store.VERSION}")


def _last(link: Any, where: str = "") -> Entry | None:
    return next(store.rows(link, f"{where} ORDER BY seq DESC LIMIT 1"), None)


def _there(entry: Entry | None) -> Entry:
    assert entry is not None
    return entry


def _now() -> str:
    """The date: the hour of a release is nobody's business."""
    return datetime.now(UTC).date().isoformat()


def _posix() -> None:
    if os.name != "posix":
        raise UnsupportedError("releases need the locks and modes of a POSIX system (Linux, macOS), got another one")
