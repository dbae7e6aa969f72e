"""What the script of the page needs, compact: distinct points, and the entities that refer to them.

Entities with the same count and weight have the same exact bias, so their numbers are sent once (a *class*) and each
entity names its class. That loses nothing; where it would (simulation without ties, budgets by group) every entity is
its own class. Arrays of numbers travel as base64 of little-endian floats: shorter than text, and to the last bit.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.report.text import clean
from fairpost.report.views import View, Words
from fairpost.results.audit import Audit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST = 20_000
"""At most so many points and so many entities travel; of more, the most affected."""


def pack(values: NDArray[Any], kind: str) -> str:
    """An array as base64: "f8", "f4" or "i4", little-endian."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<" + kind).tobytes()).decode("ascii")


def raised(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Errors in single precision, never below what they were."""
    near = values.astype(np.float32)
    return np.where(near < values, np.nextafter(near, np.float32(np.inf)), near)


def embed(data: object) -> str:
    """JSON that is safe inside a script element: no "<", ">" or "&" remains, so nothing can close or open one."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@dataclass(frozen=True, eq=False)
class Classes:
    """Entities with the same numbers: one of each class, how many there are, and the class of each entity."""

    first: Ints
    times: Ints
    of: Ints


def classes(counts: Counts, results: Sequence[Audit]) -> Classes:
    """By distinct (count, weight) where every result agrees on them, else everybody alone."""
    _, _, times, of = counts.distinct
    first = np.empty(times.size, dtype=np.int64)
    first[of[::-1]] = np.arange(counts.n)[::-1]
    vectors = (
        v
        for r in results
        for v in (r.truth, r.bias, r.accuracy.half_width, r.engine.standard_error, r.moments.deviation, r.moments.zero)
    )
    if all(v is None or np.array_equal(v[first][of], v) for v in vectors):
        return Classes(first, times, of)
    everyone = np.arange(counts.n)
    return Classes(everyone, np.ones(counts.n, dtype=np.int64), everyone)


def affected(results: Sequence[Audit], who: Ints) -> NDArray[np.float64]:
    """How affected entities are: the largest |bias| over results, each in units of its own largest."""
    score = np.zeros(who.size)
    for r in results:
        top = float(np.max(np.abs(r.bias)))
        if top > 0:
            score = np.maximum(score, np.abs(r.bias[who]) / top)
    return score


def chosen(results: Sequence[Audit], found: Classes, size: NDArray[np.float64]) -> Ints:
    """The classes that travel: all, or the most affected half of MOST and the rest evenly over sizes."""
    count = found.first.size
    if count <= MOST:
        return np.arange(count)
    top = np.argsort(-affected(results, found.first), kind="stable")[: MOST // 2]
    even = np.argsort(size[found.first], kind="stable")[np.linspace(0, count - 1, MOST // 2).astype(np.int64)]
    return np.unique(np.concatenate([top, even]))


def entities(results: Sequence[Audit], found: Classes, kept: Ints) -> Ints:
    """The entities that travel, in the order given: all, or the most affected."""
    n = found.of.size
    if n <= MOST:
        return np.arange(n)
    who = np.flatnonzero(np.isin(found.of, kept))
    best = np.argsort(-affected(results, who), kind="stable")[:MOST]
    return np.sort(who[best])


def audit_data(views: Sequence[View]) -> dict[str, Any]:
    """Everything that plots, table and search use."""
    results = [v.result for v in views]
    counts = results[0].counts
    found = classes(counts, results)
    kept = chosen(results, found, counts.values)
    who = entities(results, found, kept)
    rows = found.first[kept]
    return base(counts, views[0].words, found, kept, who, results[0].mark) | {
        "which": None if who.size == counts.n else who.tolist(),
        "results": [result(v, Shown.of(v, rows)) for v in views],
    }


def base(counts: Counts, words: Words, found: Classes, kept: Ints, who: Ints, mark: str | None) -> dict[str, Any]:
    """What does not depend on the noise."""
    place = np.full(found.first.size, -1)
    place[kept] = np.arange(kept.size)
    rows = found.first[kept]
    weighted = bool(np.any(counts.weights != counts.weights[0]))
    return {
        "n": counts.n,
        "points": int(found.first.size),
        "unit": clean(words.unit),
        "noun": clean(words.noun),
        "ids": [clean(counts.ids[i]) for i in who],
        "names": None if counts.names is None else [clean(counts.names[i]) for i in who],
        "mark": clean((mark or "").split(":")[0]),
        "groups": None if counts.groups is None else _groups(counts.groups, who),
        "of": pack(place[found.of[who]], "i4"),
        "example": [clean(counts.name(i)) for i in rows],
        "times": pack(found.times[kept], "i4"),
        "count": pack(counts.values[rows], "f8"),
        "weight": pack(counts.weights[rows], "f8") if weighted else None,
    }


def _groups(groups: Sequence[str], who: Ints) -> dict[str, Any]:
    names = {g: k for k, g in enumerate(dict.fromkeys(groups))}  # of all entities, as in the table of groups
    of = np.fromiter((names[groups[i]] for i in who), np.int64, who.size)
    return {"names": [clean(g) for g in names], "of": pack(of, "i4")}


@dataclass(frozen=True, eq=False)
class Shown:
    """The numbers of one rule, one entry per class."""

    truth: Floats
    bias: Floats
    deviation: Floats
    zero: Floats
    error: Floats | None = None
    """None: interpolated, without a bound."""
    half: Floats | None = None
    """Simulated: the half-widths of intervals."""

    @classmethod
    def of(cls, view: View, rows: Ints) -> Shown:
        """Those of a result."""
        r = view.result
        error = r.accuracy.half_width if r.engine.standard_error is None else r.engine.standard_error
        half = r.accuracy.half_width[rows] if view.simulated else None
        return cls(r.truth[rows], r.bias[rows], r.moments.deviation[rows], r.moments.zero[rows], error[rows], half)


def result(view: View, shown: Shown) -> dict[str, Any]:
    """One rule."""
    r, guess = view.result, shown.error is None
    kind = "half" if view.kind == "interval" and r.engine.standard_error is None else view.kind
    return {
        "name": clean(view.name),
        "place": view.place,
        "task": r.problem.task,
        "measured": r.overall.unit,
        "about": view.about,
        "simulated": view.simulated and not guess,
        "kind": "bound" if guess else kind,
        "unit": view.unit.data(),
        "money": None if view.cash is None else view.cash.data(),
        "budget": r.budget if view.cash else None,
        "truth": pack(shown.truth, "f8"),
        "bias": pack(shown.bias, "f8"),
        "error": pack(raised(np.zeros(shown.bias.size) if shown.error is None else shown.error), "f4"),
        "half": None if shown.half is None else pack(raised(shown.half), "f4"),
        "deviation": pack(shown.deviation, "f4"),
        "zero": pack(shown.zero, "f4"),
    }
