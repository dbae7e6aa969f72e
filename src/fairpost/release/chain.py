"""The entries of a ledger and what must hold among them: pure functions of rows, no files.

    hash = SHA-256(canonical JSON of seq, kind, key, body, prev)        prev = the hash of the entry before, "" for the first

The first entry opens the ledger. A charge carries its loss and the sum of all losses so far, so the next charge needs
one row only. A done says what was published from which charge: the digest of every file, and where; a copy, where else.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

KINDS = ("open", "rows", "values", "charge", "done", "copy")
"""rows: parts that were appended to the list of rows; values: of invariants, fixed; copy: another place of what is done."""

SAID = {"rows": "parts", "values": "values"}
"""Entries that fix something for each part, and where; it is said once."""


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
        return cls(seq, kind, key, body, prev, hash_of(seq, kind, key, body, prev))

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


def hash_of(seq: int, kind: str, key: str, body: Mapping[str, Any], prev: str) -> str:
    """The hash that an entry must have."""
    return digest(canonical([seq, kind, key, body, prev]))


@dataclass
class Findings:
    """What a check of a ledger found."""

    entries: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_chain(entries: Iterable[Entry]) -> Findings:
    """Every rule that the rows alone must keep; the first broken one of each entry is named."""
    found = Findings()
    last: Entry | None = None
    limit, spent = Fraction(0), Fraction(0)
    known: defaultdict[str, set[str]] = defaultdict(set)
    said: dict[str, set[str]] = {"rows": set(), "values": set()}
    for entry in entries:
        found.entries += 1
        try:
            problem = _broken(entry, last, limit, spent, known, said)
            if entry.kind == "open":
                limit = Fraction(entry.body["limit"])
            elif entry.kind == "charge":
                spent += entry.loss
            elif entry.kind in SAID:
                said[entry.kind] |= set(entry.body[SAID[entry.kind]])
            known[entry.kind].add(entry.key)
        except (KeyError, ValueError, TypeError, ZeroDivisionError, AttributeError):
            problem = "its body does not have the form of an entry"
        if problem:
            found.problems.append(f"entry {entry.seq}: {problem}")
        last = entry
    if last is None:
        found.problems.append("the ledger has no entry")
    return found


def _broken(
    entry: Entry,
    last: Entry | None,
    limit: Fraction,
    spent: Fraction,
    known: Mapping[str, set[str]],
    said: Mapping[str, set[str]],
) -> str:
    """The rule that an entry breaks, or an empty text."""
    before, prev = (0, "") if last is None else (last.seq, last.hash)
    rules = [
        (entry.seq == before + 1, f"entries must be numbered without a gap, the one before is {before}"),
        (entry.prev == prev, "it does not continue the entry before it"),
        (
            entry.hash == hash_of(entry.seq, entry.kind, entry.key, entry.body, entry.prev),
            "its hash is not that of its content",
        ),
        ((entry.kind == "open") == (last is None), "the first entry, and no other, opens a ledger"),
        (entry.kind in KINDS, "its kind is not known"),
    ]
    if entry.kind == "charge":
        rules += [
            (entry.loss > 0, "a loss must be above 0"),
            (entry.spent == spent + entry.loss, "its running sum is not the sum of the losses"),
            (spent + entry.loss <= limit, f"the sum of the losses is above the limit of {limit}"),
        ]
    if entry.kind in SAID:
        here = set(entry.body[SAID[entry.kind]])
        rules += [
            (not here & said[entry.kind], "it says again what an earlier entry has fixed"),
            (entry.kind == "rows" or here <= said["rows"], "it has the value of a part that is not bound"),
        ]
    if entry.kind == "done":
        rules.append((entry.body["of"] in known["charge"], "it finishes a release that was never charged"))
    if entry.kind == "copy":
        rules.append((entry.body["publication"] in known["done"], "it is a copy of what was never published"))
    return next((text for holds, text in rules if not holds), "")
