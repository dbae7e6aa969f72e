"""x: the true counts, with weights a, base populations, ids, groups and names, validated once, here; rows that may be noisy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import CountsError
from fairpost.magnitudes import COUNTED, RANGES, meant

Floats = NDArray[np.float64]
SUMS = 1e-3
"""A row that is called a total is one where it agrees with the sum of the others to this part."""
SUM_NAMES = frozenset(
    ["all", "all entities", "everything", "grand totals", "nation", "national", "overall", "sum", "totals",
     "us", "usa", "united states", "united states of america"]
)  # fmt: skip
"""What rows are called that are the sum of the others, in lower case and without punctuation."""


def _numbers(name: str, given: ArrayLike) -> Floats:
    """A read-only, private, one-dimensional float64 copy of `given`; every entry finite."""
    raw = np.ma.getdata(given) if np.ma.isMaskedArray(given) else given
    if np.ma.isMaskedArray(given) and np.ma.getmaskarray(given).any():
        place = int(np.flatnonzero(np.ma.getmaskarray(given))[0])
        raise CountsError(f"every entry of `{name}` must be present, got a missing one at position {place}")
    array = np.asarray(raw)
    if array.ndim != 1:
        raise CountsError(f"`{name}` must be one-dimensional, got {array.ndim} dimensions")
    if array.dtype.kind not in "iufb":
        array = _parsed(name, array)
    values = np.array(array, dtype=np.float64)
    _refuse(f"entry of `{name}` must be finite", values, ~np.isfinite(values))
    values.flags.writeable = False
    return values


def _parsed(name: str, array: NDArray[Any]) -> Floats:
    """Object arrays entry by entry, so that the first bad one can be named. Text is never a number."""
    out = np.empty(array.size)
    for i, entry in enumerate(array.tolist()):
        if entry is None or isinstance(entry, (str, bytes)):
            raise CountsError(f"every entry of `{name}` must be a number, got {entry!r} at position {i}")
        try:
            out[i] = float(entry)
        except (TypeError, ValueError, OverflowError):
            raise CountsError(f"every entry of `{name}` must be a number, got {entry!r} at position {i}") from None
    return out


def index_of(given: Any, **beside: Any) -> list[Any] | None:
    """The index of a pandas Series, which are its ids; a Series `beside` it must have the same. None of anything else."""
    if not _indexed(given):
        return None
    found: list[Any] = given.index.tolist()
    if not given.index.is_unique:
        raise CountsError(
            "the index of a Series has the ids, which must be unique: give `ids`, or number it (reset_index(drop=True))"
        )
    for name, other in beside.items():
        if _indexed(other) and other.index.tolist() != found:
            raise CountsError(f"`{name}` must have the index of the counts, in its order, and has another (reindex it)")
    return found


def _indexed(given: Any) -> bool:
    return type(given).__module__.partition(".")[0] == "pandas" and type(given).__name__ == "Series"


def _text(name: str, given: Iterable[Any], n: int) -> tuple[str, ...]:
    if isinstance(given, (str, bytes)):
        raise CountsError(f"`{name}` must be a sequence with one entry per entity, got the text {given!r}")
    labels = list(given)
    if len(labels) != n:
        raise CountsError(f"`{name}` must have one entry per count: {n} counts, {len(labels)} {name}")
    if set(map(type, labels)) == {str}:
        return tuple(labels)
    for i, label in enumerate(labels):
        if label is None or (isinstance(label, float) and np.isnan(label)):
            raise CountsError(f"every entry of `{name}` must be present, got {label!r} at position {i}")
    return tuple(label if type(label) is str else str(label) for label in labels)


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """The true counts x of n entities, and what belongs to them.

    The arrays are private read-only copies; a `Counts` never changes.

    Parameters
    ----------
    values
        x, in persons (or households, ...): finite and at least 0. Fractions are allowed.
    ids
        One label per entity, kept as text (leading zeros stay), no duplicates. Default: the index of `values` where they are
        a pandas Series, else "0", "1", ...
    weights
        a, the allocation formula's factors (dollars per pupil, say): finite and above 0. Default: 1.
    groups
        One label per entity (a state, a size class), text. Default: no groups.
    names
        What people call each entity, text; two may have the same. Default: the ids.
    base
        The population that each count is a part of (all children, where the counts are poor children), for programmes with
        rates: finite and at least 0. Default: none.
    kept
        Columns by name, one entry per entity, that tables and JSON carry along and nothing is computed from.

    """

    values: Floats
    ids: tuple[str, ...]
    weights: Floats
    groups: tuple[str, ...] | None
    names: tuple[str, ...] | None
    base: Floats | None
    kept: Mapping[str, tuple[Any, ...]]

    def __init__(
        self,
        values: ArrayLike,
        ids: Iterable[Any] | None = None,
        weights: ArrayLike | None = None,
        groups: Iterable[Any] | None = None,
        *,
        names: Iterable[Any] | None = None,
        base: ArrayLike | None = None,
        kept: Mapping[str, Iterable[Any]] | None = None,
    ) -> None:
        x = _numbers("values", values)
        if x.size == 0:
            raise CountsError("there must be at least one count, got none")
        _refuse("count must be at least 0", x, x < 0)
        _in_range("count", x)
        if not np.sum(x) <= COUNTED:
            raise CountsError(f"the sum of the counts {meant('total')}, got {np.sum(x):g}")
        n = x.size
        if ids is None:
            ids = index_of(values, weights=weights, groups=groups, names=names, base=base)
        a = positive_weights(np.ones(n) if weights is None else weights, n)
        labels = tuple(map(str, range(n))) if ids is None else _text("ids", ids, n)
        if len(set(labels)) < n:
            raise _twice(labels)
        found = {
            "values": x,
            "ids": labels,
            "weights": a,
            "groups": None if groups is None else _text("groups", groups, n),
            "names": None if names is None else _text("names", names, n),
            "base": None if base is None else _measured("base", "base population", base, n),
            "kept": {str(name): _carried(str(name), some, n) for name, some in (kept or {}).items()},
        }
        for name, some in found.items():
            object.__setattr__(self, name, some)

    @classmethod
    def of(cls, given: Counts | ArrayLike) -> Counts:
        """Counts as they are; numbers alone become counts."""
        return given if isinstance(given, Counts) else cls(given)

    def name(self, i: int) -> str:
        """What people call entity i."""
        return self.ids[i] if self.names is None else self.names[i]

    def called(self, i: int) -> str:
        """The name with the id behind it, where they differ: "New York City (3620580)"."""
        name, label = self.name(i), self.ids[i]
        return label if name == label else f"{name} ({label})"

    @property
    def sum_row(self) -> int | None:
        """The position of a row that is called a total and is the sum of the others; None where there is none.

        Such a row counts everybody twice, and is the largest entity of all. Published sums may be rounded, so they need
        agree to `SUMS` only; the name decides as well.
        """
        if self.n <= 2:
            return None
        close = np.flatnonzero(
            (np.abs(2 * self.values - self.total) <= SUMS * self.values) & (self.values > 0)
        ).tolist()
        return next((i for i in close if _sum_name(self.ids[i]) or _sum_name(self.name(i))), None)

    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:
        extra = "" if self.groups is None else f", {len(set(self.groups))} groups"
        return f"Counts(n={len(self)}, total={self.total:g}{extra})"

    @property
    def n(self) -> int:
        """The number of entities."""
        return len(self)

    def at(self, who: NDArray[np.int64]) -> Counts:
        """Some of the entities, without what is only carried along."""

        def some(given: Sequence[str] | None) -> list[str] | None:
            return None if given is None else [given[i] for i in who.tolist()]

        base = None if self.base is None else self.base[who]
        ids, groups, names = some(self.ids), some(self.groups), some(self.names)
        return Counts(self.values[who], ids, self.weights[who], groups, names=names, base=base)

    @cached_property
    def total(self) -> float:
        """C, the sum of the counts."""
        return float(np.sum(self.values))

    @cached_property
    def distinct(self) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
        """The distinct (count, weight) pairs: x, a, how often each occurs, and which pair each entity has.

        Entities with the same count and weight have the same bias, so an engine evaluates each pair once.
        Sorted by count, then by weight.
        """
        return distinct_pairs(self.values, self.weights)


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Counts as a reader found and checked them: whether they are true or noisy, confidential or public, only the caller knows."""

    ids: tuple[str, ...]
    values: Floats
    """The counts: finite, below 0 only where the caller allows it."""
    weights: Floats
    """a, above 0; ones where the file has none."""
    groups: tuple[str, ...] | None
    totals: Floats | None
    """For each entity the total of its group (of the file, without groups), at least 0."""
    base: Floats | None = None
    """The public population that each count is a part of."""
    names: tuple[str, ...] | None = None
    """What people call each entity."""
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Columns that outputs carry along."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The column that plays each role, as the source spells it."""

    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:
        return f"Rows(n={len(self)}, sum={float(np.sum(self.values)):g})"

    def counts(self) -> Counts:
        """As true counts."""
        return Counts(
            self.values, self.ids, self.weights, self.groups, base=self.base, names=self.names, kept=self.kept
        )


def _carried(name: str, given: Iterable[Any], n: int) -> tuple[Any, ...]:
    """A column that is carried along: text, numbers, or None where an entry is missing; NaN is missing."""
    plain = (e.item() if isinstance(e, np.generic) else e for e in given)
    entries = tuple(None if isinstance(e, float) and np.isnan(e) else e for e in plain)
    if isinstance(given, (str, bytes)) or len(entries) != n:
        raise CountsError(f"the kept column {name!r} must have one entry per count: {n} counts, {len(entries)} entries")
    return entries


def _sum_name(text: str) -> bool:
    """Whether a row is called a total: "Total", "United States", "US total", "All districts", ..."""
    words = "".join(c if c.isalnum() else " " for c in text.casefold().replace(".", "")).split()
    return (
        " ".join(words) in SUM_NAMES or words[:1] == ["total"] or words[-1:] == ["total"] or words[:2] == ["sum", "of"]
    )


def _measured(name: str, what: str, given: ArrayLike, n: int, *, positive: bool = False) -> Floats:
    """Numbers beside the counts, one per entity: finite, at least (or above) 0, in the range that is meant."""
    values = _numbers(name, given)
    if values.size != n:
        entries = "weights" if name == "weights" else "entries"
        raise CountsError(f"`{name}` must have one entry per count: {n} counts, {values.size} {entries}")
    _refuse(f"{what} must be {'above' if positive else 'at least'} 0", values, values <= 0 if positive else values < 0)
    _in_range(what, values)
    return values


def _refuse(rule: str, values: Floats, bad: NDArray[np.bool_]) -> None:
    """The first entry that breaks a rule."""
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise CountsError(f"every {rule}, got {values[place]} at position {place}")


def _in_range(what: str, values: Floats) -> None:
    low, high = RANGES[what]
    _refuse(f"{what} {meant(what)}", values, (values < low) | (values > high))


def positive_weights(given: ArrayLike, n: int) -> Floats:
    """Weights a, one per entity, finite and above 0."""
    return _measured("weights", "weight", given, n, positive=True)


def distinct_pairs(x: Floats, a: Floats) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    """The distinct pairs (x, a): both, how often each occurs, and which pair each entity has."""
    pairs = np.empty(x.size, dtype=np.complex128)  # complex numbers sort by real, then imaginary part
    pairs.real, pairs.imag = x, a
    unique, inverse, times = np.unique(pairs, return_inverse=True, return_counts=True)
    return unique.real.copy(), unique.imag.copy(), times.astype(np.int64), inverse.astype(np.int64)


def _twice(labels: Sequence[str]) -> CountsError:
    """The error for the first label that comes again."""
    seen: dict[str, int] = {}
    i = next(i for i, label in enumerate(labels) if seen.setdefault(label, i) != i)
    return CountsError(f"ids must be unique, got {labels[i]!r} at positions {seen[labels[i]]} and {i}")
