"""Published files against a ledger: what was changed, what is missing, what does not belong there.

A `done` holds the digest of every file as it was published, and so does a `copy`, which is the same in another folder.
A `done` of fairpost 0.1 holds those of the statement and the table only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairpost.errors import InputError
from fairpost.release.chain import Entry, Findings, digest

TABLE, STATEMENT, REGISTRY, DATASET = "table.csv", "statement.json", "registry.yaml", "dataset.jsonld"
FILES = (TABLE, STATEMENT, REGISTRY, DATASET)
BROKEN = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What a statement raises that is none."""


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
        wanted, rule = sealed(entry), f"must be as it was published (entry {entry.seq}), and was changed"
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


def sealed(entry: Entry) -> Mapping[str, Any]:
    """The digests that an entry keeps, by the names of the files."""
    old = {STATEMENT: entry.body.get("statement"), TABLE: entry.body.get("table")}
    files = entry.body.get("files")
    return files if isinstance(files, dict) else {name: value for name, value in old.items() if value}


def _entry(digests: Mapping[str, str], entries: Sequence[Entry]) -> Entry | None:
    """The entry that published these files: the one of the statement, where it is unchanged; else the one most files are of."""

    def same(entry: Entry) -> tuple[bool, int]:
        kept = sealed(entry)
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
