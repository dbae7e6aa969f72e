r"""The kept noise: KEY.noisy beside the ledger, owner-only, whole or absent.

    fairpost noisy 1\n      8 bytes: length of the header      header (JSON)      payload

The payload holds, one after the other, the noisy counts of each level (64-bit), the ids, the groups and the weights, as
the header says; the header has the payload's SHA-256. No true count is in it: noisy counts are what the charge paid for.
(Of a hierarchy with an exact level the file holds that level too, first: it is published as it is, and said to be.)

What is kept of a hierarchy is what it was made from: the leaves' ids, and beside them the labels of each level where it has columns.
Ids of prefixes stay bytes from file to file, so that millions of them never become Python's objects.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import LedgerError
from fairpost.release.chain import BROKEN, canonical
from fairpost.release.noise import Whole
from fairpost.release.request import Shape
from fairpost.whole import sync, sync_folder

if TYPE_CHECKING:
    import polars as pl

    from fairpost.hierarchy.tree import Hierarchy

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
    def shape(self) -> Shape | None:
        """Of a hierarchy."""
        return Shape.of(self.request["hierarchy"]) if "hierarchy" in self.request else None

    @property
    def ids(self) -> tuple[str, ...]:
        """Those of the last level."""
        return unpacked(self.labels[0], self.levels[-1].size)

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


def write(temporary: Path, final: Path, kept: Kept) -> None:
    """Into the reserved temporary file, to the disk, and under its name; then the folder to the disk."""
    labels = [*kept.labels, *([] if kept.groups is None else [packed(kept.groups)])]
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
        rows, many = head["rows"], len(head["rows"])
        sizes = [*(8 * n for n in rows), *head["labels"], *([8 * rows[-1]] if head["weights"] else [])]
        ends = np.cumsum([0, *sizes])
        if ends[-1] != len(payload):
            raise ValueError("size")
        parts = [payload[low:high] for low, high in pairwise(ends)]
        levels = tuple(np.frombuffer(part, dtype="<i8") for part in parts[:many])
        labels = tuple(map(bytes, parts[many : many + len(head["labels"])]))
        groups = unpacked(labels[-1], rows[-1]) if head["groups"] else None
        weights = np.frombuffer(parts[-1], dtype="<f8") if head["weights"] else None
        ids, rounding = labels[:-1] if head["groups"] else labels, bytes.fromhex(head["rounding"])
        return Kept(key, head["request"], levels, ids, groups, weights, rounding, head["software"])
    except (OSError, IndexError, *BROKEN):
        pass
    raise LedgerError(f"{path}: the kept noise must be whole and belong to its key, and does not")


# -- hierarchies -------------------------------------------------------------------------------------------------------

NEWLINE = ord("\n")


def stored(tree: Hierarchy, exact: str | None) -> tuple[Shape, list[bytes]]:
    """How the tree is rebuilt: its shape, and packed labels in the order of the input, the leaves' ids first."""
    from fairpost.hierarchy.labels import Prefixes

    names, kept = tree.names[1:], tree.labels
    if isinstance(kept, Prefixes):
        lengths = tuple(int(n) for n in kept.lengths)
        return Shape(names, "prefixes", lengths, exact), [_packed_codes(tree.from_tree(kept.codes))]
    columns = [packed(list(tree.from_tree(np.array(c.to_list(), dtype=object)))) for c in kept.columns]
    if kept.own_ids:
        return Shape(names, "columns", (), exact), [columns[-1], *columns[:-1]]
    return Shape(names, "paths", (), exact), [packed(tree.ids(tree.depth)), *columns]


def _packed_codes(codes: Any) -> bytes:
    """What `packed` makes of these ids, without a Python object for each."""
    n, width = codes.shape
    if (codes == NEWLINE).any() or codes[0, 0] == ord('"'):
        return packed([row.tobytes().decode("ascii") for row in codes])
    lines = np.full((n, width + 1), NEWLINE, dtype=np.uint8)
    lines[:, :width] = codes
    return lines.tobytes()[:-1]


def rebuilt(shape: Shape, labels: Sequence[bytes], n: int) -> Hierarchy:
    """The tree of a kept file with n leaves."""
    from fairpost.hierarchy.tree import Hierarchy

    if shape.by != "prefixes":
        found = [series(blob, str(k), n) for k, blob in enumerate(labels)]
        return Hierarchy.from_labels(found[1:], shape.names, ids=found[0] if shape.by == "columns" else None)
    levels = dict(zip(shape.names, shape.lengths, strict=True))
    blob, width = labels[0], shape.lengths[-1]
    if blob.startswith(b'"'):
        return Hierarchy.from_geoids(list(unpacked(blob, n)), levels)
    lines = np.frombuffer(blob + b"\n", dtype=np.uint8).reshape(n, width + 1)
    return Hierarchy.from_geoids(np.ascontiguousarray(lines[:, :width]).view(f"S{width}").reshape(n), levels)
