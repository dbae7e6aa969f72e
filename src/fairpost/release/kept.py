r"""The kept noise: KEY.noisy beside the ledger, owner-only, whole or absent.

    fairpost noisy 1\n      8 bytes: length of the header      header (JSON)      payload

The payload holds, one after the other, the noisy counts of each level (64-bit), the ids, the groups and the weights, as
the header says; the header has the payload's SHA-256. No true count is in it: noisy counts are what the charge paid for.
(Of a hierarchy with an exact level the file holds that level too, first: it is published as it is, and said to be.)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import LedgerError
from fairpost.release.chain import canonical
from fairpost.release.noise import Whole
from fairpost.whole import sync, sync_folder

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
MAGIC = b"fairpost noisy 1\n"
HEADER = 1 << 16
"""More than any header needs, for the reservation."""


@dataclass(frozen=True, eq=False, repr=False)
class Kept:
    """What is in a kept file."""

    key: str
    request: Mapping[str, Any]
    levels: tuple[Whole, ...]
    """The noisy counts, level by level."""
    labels: tuple[bytes, ...]
    """The packed ids of the last level; of a hierarchy by columns or paths, the packed labels of each level beside them."""
    groups: tuple[str, ...] | None
    """Of the last level."""
    weights: Floats | None
    rounding: bytes
    """The random key of the rounding."""
    software: Mapping[str, str]

    @property
    def ids(self) -> tuple[tuple[str, ...], ...]:
        """The labels, each with one entry a row of the last level."""
        return tuple(unpacked(blob, self.levels[-1].size) for blob in self.labels)

    @property
    def columns(self) -> dict[str, str]:
        """What rows have besides ids and counts, by role."""
        return {role: role for role, there in (("group", self.groups), ("weight", self.weights)) if there is not None}

    def column(self) -> pl.Series:
        """The ids of the last level as a column; millions of them never become Python's objects."""
        return series(self.labels[0], "id", self.levels[-1].size)


def packed(labels: Sequence[str]) -> bytes:
    """Labels as lines of JSON where one holds a line break or begins like JSON, else as plain lines."""
    plain = "\n".join(labels)
    if plain.count("\n") == len(labels) - 1 and not plain.startswith('"'):
        return plain.encode()
    return "\n".join(map(json.dumps, labels)).encode()


def unpacked(blob: bytes, n: int) -> tuple[str, ...]:
    """The inverse of `packed`."""
    lines = blob.decode().split("\n")
    if len(lines) != n:
        raise ValueError("labels")
    return tuple(json.loads(line) for line in lines) if lines[0].startswith('"') else tuple(lines)


def series(blob: bytes, name: str, n: int) -> pl.Series:
    """Packed labels as a column."""
    import polars as pl

    if blob.startswith(b'"'):
        return pl.Series(name, unpacked(blob, n), dtype=pl.String)
    return pl.Series(name, [blob.decode()], dtype=pl.String).str.split("\n").explode()


def size_of(parts: Iterable[bytes], rows: int) -> int:
    """An upper bound on the file, for the reservation: labels, and 8 bytes for each noisy count and weight."""
    return len(MAGIC) + 8 + HEADER + 16 * rows + sum(map(len, parts))


def write(temporary: Path, final: Path, kept: Kept, labels: Sequence[bytes]) -> None:
    """Into the reserved temporary file, to the disk, and under its name; then the folder to the disk.

    `labels` are those of `kept` and, where there are groups, the packed groups.
    """
    parts: list[Any] = [np.ascontiguousarray(level, dtype="<i8").data for level in kept.levels]
    parts += labels
    if kept.weights is not None:
        parts.append(np.ascontiguousarray(kept.weights, dtype="<f8").data)
    mac = hashlib.sha256()
    for part in parts:
        mac.update(part)
    header = {
        "key": kept.key,
        "request": kept.request,
        "rows": [int(level.size) for level in kept.levels],
        "labels": [len(blob) for blob in labels],
        "groups": kept.groups is not None,
        "weights": kept.weights is not None,
        "rounding": kept.rounding.hex(),
        "software": dict(kept.software),
        "sha256": mac.hexdigest(),
    }
    head = canonical(header).encode()
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CLOEXEC), "wb") as file:
        for part in (MAGIC, len(head).to_bytes(8, "big"), head, *parts):
            file.write(part)
        file.flush()
        file.truncate()
        sync(file.fileno())
    temporary.rename(final)
    sync_folder(final.parent)


def read(path: Path, key: str) -> Kept:
    """A kept file, checked."""
    try:
        data = memoryview(path.read_bytes())
        start = len(MAGIC) + 8
        if bytes(data[: len(MAGIC)]) != MAGIC:
            raise ValueError("magic")
        body = start + int.from_bytes(data[len(MAGIC) : start], "big")
        head = json.loads(bytes(data[start:body]))
        payload = data[body:]
        if head["key"] != key or hashlib.sha256(payload).hexdigest() != head["sha256"]:
            raise ValueError("digest")
        return _parsed(head, payload)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        pass
    raise LedgerError(f"{path}: the kept noise must be whole and belong to its key, and does not")


def _parsed(head: Mapping[str, Any], payload: memoryview) -> Kept:
    at = 0

    def take(size: int) -> memoryview:
        nonlocal at
        at += size
        if at > len(payload):
            raise ValueError("short")
        return payload[at - size : at]

    rows: list[int] = head["rows"]
    levels = tuple(np.frombuffer(take(8 * n), dtype="<i8") for n in rows)
    blobs = [bytes(take(size)) for size in head["labels"]]
    groups = unpacked(blobs[-1], rows[-1]) if head["groups"] else None
    weights = np.frombuffer(take(8 * rows[-1]), dtype="<f8") if head["weights"] else None
    return Kept(
        head["key"],
        head["request"],
        levels,
        tuple(blobs[:-1] if head["groups"] else blobs),
        groups,
        weights,
        bytes.fromhex(head["rounding"]),
        head["software"],
    )
