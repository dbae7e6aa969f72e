"""The page of an audit: what post-processing does to whom, for readers who have never heard of epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpost.counts import Counts
from fairpost.errors import ParameterError
from fairpost.noise import Neighbours
from fairpost.report import findings, tables, verdicts
from fairpost.report.numbers import CHANCE, count
from fairpost.report.page import render
from fairpost.report.payload import MOST, audit_data
from fairpost.report.shapes import Drawn
from fairpost.report.text import clean, clean_lines
from fairpost.report.views import View, Words, by_unit
from fairpost.results import Frontier
from fairpost.results.audit import Audit, warnings_of
from fairpost.results.comparison import Comparison
from fairpost.results.documents import Point


def audit_page(
    results: Sequence[Audit],
    *,
    command: str | None = None,
    made: str | None = None,
    title: str | None = None,
    unit: str = "people",
    currency: str = "$",
    noun: str = "entities",
    neighbours: Neighbours | None = None,
    source: str | None = None,
    lines: str | None = None,
    shapes: Drawn | None = None,
) -> str:
    """One self-contained HTML file about one or more post-processings of the same noisy counts.

    Parameters
    ----------
    results
        As `compare` gives them: the same counts and mechanism; releases and allocations may be mixed. A comparison that has
        its frontier shows it.
    command, made
        The command line and the date to print in the provenance, given by the caller.
    title, unit, noun, currency
        The headline; what is counted ("households"), what has a count ("districts"), both plural; the sign of money.
    neighbours
        What epsilon is about: sensitivity and delta. Default: sensitivity 1, no delta.
    source, lines
        What the data are called (a file's name), and the Python lines that find the same numbers.
    shapes
        The areas of the entities, for a map: `fairpost.report.shapes.Shapes.read(file).of(counts)`.

    """
    _same(results)
    alike = by_unit(results, Words(clean(unit), clean(noun), clean(currency)))
    views = [v for found in alike.values() for v in found]
    counts = results[0].counts
    frontier = results.frontier if isinstance(results, Comparison) else None
    tradeoff = tradeoff_data(views, frontier)
    marks = dict.fromkeys(clean(r.mark) for r in results)
    return render(
        "audit.html",
        audit_data(views)
        | {
            "page": "audit",
            "map": None if shapes is None else shapes.data(),
            "tradeoff": tradeoff,
            "limits": limits(views[-1]),
        },
        title=clean(title or "What post-processing does to whom"),
        mark="; ".join(marks),
        command=None if command is None else clean(command),
        made=None if made is None else clean(made),
        alike=alike,
        views=views,
        counts=counts,
        total=count(counts.total),
        lead=findings.lead(views, None if source is None else clean(source)),
        verdicts=[
            (v.result.overall.outcome, verdicts.verdict_lines(v.result, v.words.currency))
            for v in views
            if v.result.overall.outcome
        ],
        warnings=[clean(w) for w in warnings_of(counts)],
        tradeoff=tradeoff,
        lines=None if lines is None else clean_lines(lines),
        shapes=None if shapes is None else shapes.words(views[0].words.noun),
        first=next((k for k, v in enumerate(views) if v.result.alpha.value > 0), 0),
        most=MOST,
        say=findings,
        tables=tables,
        noise=tables.noise(views[0], neighbours or Neighbours()),
    )


def limits(view: View) -> list[dict[str, Any]]:
    """The targets that are about one entity's loss, as lines of the picture: in the unit shown, or relative."""
    kinds = {"loss": "money" if view.cash else "plain", "relative_loss": "relative"}
    found = []
    for v in view.result.overall.verdicts:
        if v.target in kinds:
            amount = verdicts.typed(verdicts.limit_unit(v, view.result, view.words.currency), v.limit)
            value = v.limit / 100 if v.target == "relative_loss" else v.limit
            found.append({"key": kinds[v.target], "value": value, "text": clean(f"largest loss allowed: {amount}")})
    return found


def _same(results: Sequence[Audit]) -> None:
    """One page is about one set of counts under one mechanism."""
    if not results:
        raise ParameterError("a page needs at least one result, got none")
    first = results[0]
    for r in results[1:]:
        if r.mechanism != first.mechanism or not (r.counts is first.counts or _alike(r.counts, first.counts)):
            raise ParameterError("the results of one page must have the same counts and the same mechanism")


def _alike(a: Counts, b: Counts) -> bool:
    same = np.array_equal(a.values, b.values) and np.array_equal(a.weights, b.weights)
    return same and a.ids == b.ids and a.groups == b.groups


def tradeoff_data(views: list[View], frontier: Frontier | None) -> dict[str, Any] | None:
    """For the script: the rules of one unit; None where there is nothing to compare."""
    path = [] if frontier is None else list(frontier.path)
    unit = path[0].point.unit if path else views[-1].result.overall.unit
    some = [v for v in views if v.result.overall.unit == unit and v.resolved]
    if not some or len(some) + len(path) < 2:
        return None
    first = some[0]

    def one(p: Point, extra: str = "") -> dict[str, Any]:
        """A point of the path is in the unit shown already."""
        said = [
            clean(p.postprocess) + extra,
            f"alpha {first.shown.show(p.alpha.value)}",
            f"typical error {first.shown.show(p.rmse.value)}",
            f"chance of 0: {CHANCE.show(p.zero.value)}",
        ]
        return {"x": p.rmse.value, "y": p.alpha.value, "text": said}

    return {
        "unit": first.shown.data(),
        "axis": first.shown.prefix or ("share of the budget" if unit == "share" else first.shown.suffix.strip()),
        "rule": None if frontier is None else clean(frontier.rule),
        "path": [one(t.point, f", threshold {t.threshold:.4g}") for t in path],
        "named": [one(Point.of(v.result)) | {"name": clean(v.name), "place": v.place} for v in some],
    }
