"""The page of an audit of a hierarchy: level by level, who gains and who loses in expectation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import palette
from fairpost.errors import ParameterError
from fairpost.hierarchy.result import LIMITS, HierarchyAudit, LevelResult, Part
from fairpost.report.findings import Finding
from fairpost.report.numbers import RELATIVE, Html, Unit, certainty, html, joined, name, tagged
from fairpost.report.page import render
from fairpost.report.payload import MOST, pack, raised
from fairpost.report.text import clean, clean_lines

Ints = NDArray[np.int64]
BIAS = Unit(digits=4)
LISTED = 300
"""At most so many groups or areas are listed: those with the largest biases."""


@dataclass(frozen=True)
class Rows:
    """Size classes, groups or areas under one rule."""

    title: str
    rows: list[tuple[str, str, str, Html, Html, Html]]
    left: int


def levels_page(
    results: Sequence[HierarchyAudit],
    *,
    command: str | None = None,
    made: str | None = None,
    title: str | None = None,
    unit: str = "people",
    source: str | None = None,
    lines: str | None = None,
) -> str:
    """One self-contained HTML file about one or more rules on the same hierarchy.

    Parameters
    ----------
    results
        As `audit_hierarchy` gives them: the same counts and noise.
    command, made, title, unit, source, lines
        As for `audit_page`.

    """
    if not results:
        raise ParameterError("a page needs at least one result, got none")
    first = results[0]
    for r in results[1:]:
        if r.tree is not first.tree or not np.array_equal(r.leaves.truth, first.leaves.truth):
            raise ParameterError("the results of one page must be of the same hierarchy and counts")
    places = palette.slots([r.postprocess for r in results])
    sigmas = [
        f"{n} {s:g}" if s else f"{n} exact" for n, s in zip(first.tree.names[1:], first.noise.spreads[1:], strict=True)
    ]
    return render(
        "levels.html",
        {
            "page": "levels",
            "unit": clean(unit),
            "mark": first.mark.split(":")[0],
            "levels": [_level(results, k, places) for k in range(1, len(first.tree.names))],
        },
        title=clean(title or "What every level gains and loses"),
        mark=clean(first.mark),
        command=None if command is None else clean(command),
        lines=None if lines is None else clean_lines(lines),
        made=None if made is None else clean(made),
        lead=_lead(first, source, unit, sigmas),
        findings=[_pays(results, unit), _better(results, unit), _price(results, unit)],
        levels=[(k, clean(n), f"{first.tree.size(k):,}") for k, n in enumerate(first.tree.names) if k],
        table=[_compared(r, places[k], unit) for k, r in enumerate(results)],
        parts=[(clean(r.postprocess), places[k], _parts(r)) for k, r in enumerate(results)],
        unit=clean(unit),
        leaves=clean(first.tree.names[-1]),
        limits=LIMITS,
        most=MOST,
        facts=[
            ("Noise", html("{kind}, sigma by level: {s}", kind=first.noise.kind, s=", ".join(sigmas))),
            *((f"Method, {clean(r.postprocess)}", _method(r)) for r in results),
        ],
        notes=[clean(f"{r.postprocess}: {r.note}") for r in results if r.note],
    )


def _lead(first: HierarchyAudit, source: str | None, unit: str, sigmas: list[str]) -> Html:
    total = f"{float(first.leaves.truth.sum()):,.0f}"
    leaves = f"{first.tree.n:,} leaves ({first.tree.names[-1]}), {total} {unit}"
    return joined([source, leaves, f"noise by level: {', '.join(sigmas)}"], " · ")


def _method(r: HierarchyAudit) -> Html:
    if r.runs is None:
        return html("{m}", m=r.method)
    return html(
        "{m}, {runs} runs, seed {seed}, {c} % confidence",
        m=r.method,
        runs=f"{r.runs:,}",
        seed=r.seed,
        c=f"{100 * r.confidence:g}",
    )


def _chosen(found: list[LevelResult]) -> Ints:
    """The nodes that travel: all, or the most affected half of MOST and others evenly by size."""
    n = found[0].n
    if n <= MOST:
        return np.arange(n)
    score = np.max([np.abs(level.bias) / (np.max(np.abs(level.bias)) or 1.0) for level in found], axis=0)
    top = np.argsort(-score, kind="stable")[: MOST // 2]
    even = np.argsort(found[0].truth, kind="stable")[np.linspace(0, n - 1, MOST // 2).astype(np.int64)]
    return np.unique(np.concatenate([top, even])).astype(np.int64)


def _level(results: Sequence[HierarchyAudit], k: int, places: list[int]) -> dict[str, Any]:
    found = [r.level(k) for r in results]
    rows = _chosen(found)
    ids = found[0].ids
    return {
        "name": clean(found[0].name),
        "n": found[0].n,
        "ids": [clean(ids[i]) for i in rows],
        "count": pack(found[0].truth[rows], "f8"),
        "results": [
            {
                "name": clean(r.postprocess),
                "place": places[j],
                "kind": level.accuracy,
                "bias": pack(level.bias[rows], "f8"),
                "half": pack(raised(level.half_width[rows]), "f4"),
                "rmse": pack(np.sqrt(level.mse[rows]), "f4"),
            }
            for j, (r, level) in enumerate(zip(results, found, strict=True))
        ],
    }


def _ends(level: LevelResult) -> tuple[int, int]:
    bias = level.bias
    return int(np.argmin(bias)), int(np.argmax(bias))


def _who(level: LevelResult, i: int, unit: str) -> Html:
    """A node, its bias and the same relative to its count."""
    bias, half, x = float(level.bias[i]), float(level.half_width[i]), float(level.truth[i])
    verb = "gains" if bias > 0 else "loses"
    part = html(", {p} of its {x}", p=tagged(RELATIVE, abs(bias) / x, half / x), x=f"{x:,.0f}") if x > 0 else Html("")
    amount = tagged(BIAS, abs(bias), half, brief=True)
    return html(
        "{level} {id} {verb} {b} {unit}{part}",
        level=level.name,
        id=name(level.ids[i]),
        verb=verb,
        b=amount,
        unit=unit,
        part=part,
    )


def _worst(results: Sequence[HierarchyAudit]) -> HierarchyAudit:
    return max(results, key=lambda r: r.alpha.value)


def _pays(results: Sequence[HierarchyAudit], unit: str) -> Finding:
    r = _worst(results)
    low, high = _ends(r.leaves)
    a, b = _who(r.leaves, low, unit), _who(r.leaves, high, unit)
    return Finding("Who pays", html("Under {pp} {a}; {b}, in expectation.", pp=name(r.postprocess), a=a, b=b))


def _better(results: Sequence[HierarchyAudit], unit: str) -> Finding:
    """The fairest rule on the leaves, and where the biases of the worst one are largest."""
    best, worst = min(results, key=lambda r: r.alpha.value), _worst(results)
    up = max(worst.levels, key=lambda level: level.alpha.value)
    gap = tagged(BIAS, up.alpha.value, up.alpha.half_width, brief=True)
    where = html("the gap is widest on the level {level}: {gap} {unit}", level=up.name, gap=gap, unit=unit)
    if best is worst or best.alpha.high >= worst.alpha.low:
        return Finding("Which level", html("Under {pp} {where}.", pp=name(worst.postprocess), where=where))
    ratio = f"{worst.alpha.value / best.alpha.value:.2g}"
    return Finding(
        "What does better",
        html(
            "{pp} is {x} times less unfair on the level {leaf} than {w}, where {where}.",
            pp=name(best.postprocess),
            x=ratio,
            w=name(worst.postprocess),
            leaf=worst.leaves.name,
            where=where,
        ),
    )


def _price(results: Sequence[HierarchyAudit], unit: str) -> Finding:
    parts = [
        html("{e} {unit} under {pp}", e=tagged(BIAS, r.leaves.rmse, brief=True), unit=unit, pp=name(r.postprocess))
        for r in results
    ]
    leaf = results[0].leaves.name
    return Finding(
        "What it costs", html("A single {leaf} is typically off by {parts}.", leaf=leaf, parts=joined(parts, ", "))
    )


def _compared(r: HierarchyAudit, place: int, unit: str) -> tuple[str, int, list[list[Html]]]:
    """One row per level."""
    rows = []
    for level in r.levels:
        ends = [_end(level, i) for i in _ends(level)]
        alpha = tagged(BIAS, level.alpha.value, level.alpha.half_width)
        rows.append(
            [
                html("{n}", n=level.name), html("{n}", n=f"{level.n:,}"),
                html("{a}<small>{s}</small>", a=alpha, s=certainty(BIAS, level.alpha)), *ends,
                tagged(BIAS, level.bias_rms), tagged(BIAS, level.rmse), tagged(BIAS, level.unclipped_rmse),
            ]
        )  # fmt: skip
    return clean(r.postprocess), place, rows


def _end(level: LevelResult, i: int) -> Html:
    x, bias, half = float(level.truth[i]), float(level.bias[i]), float(level.half_width[i])
    part = html("{p} ", p=tagged(RELATIVE, bias / x, half / x, signed=True)) if x > 0 else Html("")
    return html(
        "{b}<small>{part}{who}</small>", b=tagged(BIAS, bias, half, signed=True), part=part, who=name(level.ids[i])
    )


def _parts(r: HierarchyAudit) -> list[Rows]:
    leaf = r.tree.names[-1]
    kinds = (
        (f"By true count of the {leaf}: the mean bias", r.sizes, False),
        (f"By group: the mean bias of a {leaf}", r.groups, False),
        ("By area: the bias of its total", r.areas, True),
    )
    return [_rows(clean(title), parts, whole) for title, parts, whole in kinds if parts]


def _rows(title: str, parts: Sequence[Part], whole: bool) -> Rows:
    some = [p for p in parts if p.n]
    kept = some if len(some) <= LISTED else sorted(some, key=lambda p: -abs(p.bias))[:LISTED]
    rows = []
    for p in kept:
        due = p.count if whole else p.count / p.n
        part = tagged(RELATIVE, p.bias / due, p.half_width / due, signed=True) if due > 0 else Html("–")
        rmse = Html("–") if p.rmse is None else tagged(BIAS, p.rmse)
        rows.append(
            (clean(p.name), f"{p.n:,}", f"{p.count:,.0f}", tagged(BIAS, p.bias, p.half_width, signed=True), part, rmse)
        )
    return Rows(title, rows, len(some) - len(kept))
