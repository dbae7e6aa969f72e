"""The entries of a ledger, what must hold among them, and published files against them; no database here.

    hash = SHA-256(canonical JSON of seq, kind, key, body, prev)        prev = the hash of the entry before, "" for the first

The first entry opens the ledger. A charge carries its loss and the sum of all losses so far, so the next charge needs
one row only. A done says what was published from which charge: the digest of every file, and where; a copy, where else.
(A done of fairpost 0.1 holds the digests of the statement and the table only.)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from fairpost.errors import InputError

KINDS = ("open", "rows", "values", "charge", "done", "copy")
"""rows: parts that were appended to the list of rows; values: of invariants, fixed; copy: another place of what is done."""
SAID = {"rows": "parts", "values": "values"}
"""Entries that fix something for each part, and where; it is said once."""
TABLE, STATEMENT, REGISTRY, DATASET = "table.csv", "statement.json", "registry.yaml", "dataset.jsonld"
FILES = (TABLE, STATEMENT, REGISTRY, DATASET)
BROKEN = (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, OverflowError, RecursionError)
"""What an entry or a statement raises that is none."""


def canonical(data: Any) -> str:
    """JSON with one spelling: sorted keys, no blanks, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(data: bytes | str) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One row of the ledger."""

    seq: int
    kind: str
    key: str
    body: Mapping[str, Any]
    prev: str
    hash: str

    @classmethod
    def after(cls, last: Entry | None, kind: str, key: str, body: Mapping[str, Any]) -> Entry:
        """The next entry."""
        seq, prev = (1, "") if last is None else (last.seq + 1, last.hash)
        return cls(seq, kind, key, body, prev, digest(canonical([seq, kind, key, body, prev])))

    @property
    def whole(self) -> bool:
        """Whether the hash is that of the content."""
        return self.hash == digest(canonical([self.seq, self.kind, self.key, self.body, self.prev]))

    @property
    def loss(self) -> Fraction:
        """Of a charge."""
        return Fraction(self.body["loss"])

    @property
    def spent(self) -> Fraction:
        """The losses up to and with this charge."""
        return Fraction(self.body["spent"])

    @property
    def label(self) -> str:
        """How a refusal names the entry: its number, its loss and what it was for."""
        what = self.body.get("request", {}).get("name", "")
        return f"entry {self.seq}: {self.body['loss']}{f' for {what}' if what else ''}"


@dataclass
class Findings:
    """What a check of a ledger found."""

    entries: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def first(self) -> str:
        """The first problem, and how many more there are."""
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        return f"{self.problems[0]}{more}"


def check_chain(entries: Iterable[Entry]) -> Findings:
    """Every rule that the rows alone must keep; the first broken one of each entry is named."""
    found, last = Findings(), None
    limit = spent = Fraction(0)
    known: defaultdict[str, set[str]] = defaultdict(set)
    said: defaultdict[str, set[str]] = defaultdict(set)
    for entry in entries:
        found.entries += 1
        before, prev = (0, "") if last is None else (last.seq, last.hash)
        rules = [
            (entry.seq == before + 1, f"entries must be numbered without a gap, the one before is {before}"),
            (entry.prev == prev, "it does not continue the entry before it"),
            (entry.whole, "its hash is not that of its content"),
            ((entry.kind == "open") == (last is None), "the first entry, and no other, opens a ledger"),
            (entry.kind in KINDS, "its kind is not known"),
        ]
        try:
            if entry.kind == "open":
                limit = Fraction(entry.body["limit"])
            elif entry.kind == "charge":
                spent += entry.loss
                rules += [
                    (entry.loss > 0, "a loss must be above 0"),
                    (entry.spent == spent, "its running sum is not the sum of the losses"),
                    (spent <= limit, f"the sum of the losses is above the limit of {limit}"),
                ]
            elif entry.kind in SAID:
                here = set(entry.body[SAID[entry.kind]])
                bound = entry.kind == "rows" or here <= said["rows"]
                rules += [
                    (not here & said[entry.kind], "it says again what an earlier entry has fixed"),
                    (bound, "it has the value of a part that is not bound"),
                ]
                said[entry.kind] |= here
            elif entry.kind == "done":
                charged = entry.body["of"] in known["charge"]
                rules.append((charged, "it finishes a release that was never charged"))
            elif entry.kind == "copy":
                done = entry.body["publication"] in known["done"]
                rules.append((done, "it is a copy of what was never published"))
            known[entry.kind].add(entry.key)
        except BROKEN:
            rules.insert(0, (False, "its body does not have the form of an entry"))
        found.problems += [f"entry {entry.seq}: {rule}" for holds, rule in rules if not holds][:1]
        last = entry
    if last is None:
        found.problems.append("the ledger has no entry")
    return found


# -- published files against the entries -------------------------------------------------------------------------------


def digest_of(path: Path) -> str:
    """The digest of a file, which need not fit into memory."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def check_published(place: str | os.PathLike[str], entries: Sequence[Entry]) -> Findings:
    """The folder of a release as a whole; or a statement, with the table beside it where one is."""
    path, found = Path(place), Findings()
    if whole := path.is_dir():
        there = {p.name: p for p in sorted(path.iterdir())}
    else:
        table = path.with_name(TABLE)
        there = {STATEMENT: path, TABLE: table} if table.is_file() else {STATEMENT: path}
    digests = {name: digest_of(there[name]) for name in FILES if name in there}
    entry = _entry(digests, entries)
    if entry is not None:
        wanted, rule = _sealed(entry), f"must be as it was published (entry {entry.seq}), and was changed"
    else:
        wanted, rule = _stated(there.get(STATEMENT)), "must have the digest that its statement gives, and has another"
    for name in FILES if whole else there:
        if name not in there:
            found.problems.append(f"{path / name}: is missing")
        elif name == STATEMENT:
            found.problems += check_statement(str(there[name]), there[name].read_bytes(), entries)
        elif name not in wanted:
            found.notes.append(f"{there[name]}: is not compared, its digest is not in the ledger")
        elif digests[name] != wanted[name]:
            found.problems.append(f"{there[name]}: {rule}")
    found.notes += [f"{there[name]}: is no file of the release" for name in there if name not in FILES]
    return found


def _sealed(entry: Entry) -> Mapping[str, Any]:
    """The digests that an entry keeps, by the names of the files."""
    old = {STATEMENT: entry.body.get("statement"), TABLE: entry.body.get("table")}
    files = entry.body.get("files")
    return files if isinstance(files, dict) else {name: value for name, value in old.items() if value}


def _entry(digests: Mapping[str, str], entries: Sequence[Entry]) -> Entry | None:
    """The entry that published these files: the one of the statement, where it is unchanged; else the one most files are of."""

    def same(entry: Entry) -> tuple[bool, int]:
        kept = _sealed(entry)
        found = [name for name in digests if kept.get(name) == digests[name]]
        return STATEMENT in found, len(found)

    best = max((e for e in entries if e.kind in ("done", "copy")), key=same, default=None)
    return best if best is not None and any(same(best)) else None


def _stated(path: Path | None) -> Mapping[str, Any]:
    """What a statement itself says of the table."""
    try:
        return {} if path is None else {TABLE: json.loads(path.read_bytes())["table"]["sha256"]}
    except BROKEN:
        return {}


def check_statement(name: str, text: str | bytes, entries: Sequence[Entry]) -> list[str]:
    """A published statement must be in the chain: its charge by number and hash, its digest in a done."""
    try:
        budget = json.loads(text)["budget"]
        seq, known, spent = int(budget["entry"]), str(budget["hash"]), str(budget["spent_after"])
    except BROKEN:
        return [f"{name}: is no statement of a release"]
    charge = entries[seq - 1] if 1 <= seq <= len(entries) else None
    if charge is None or charge.kind != "charge" or charge.hash != known:
        return [f"{name}: its charge (entry {seq}) is not in the ledger: cut, rewritten or an old copy"]
    if charge.body.get("spent") != spent:
        return [f"{name}: says that {spent[:60]!r} was spent after it, the ledger says {charge.body.get('spent')}"]
    wanted = digest(text)
    if not any(e.kind == "done" and e.body.get("statement") == wanted for e in entries):
        return [
            f"{name}: its charge is there, but no entry says that this statement was published: the statement was "
            "edited, the ledger was cut, or a crash came between (then the same release command records it)"
        ]
    return []
