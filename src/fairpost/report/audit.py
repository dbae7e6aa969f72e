"""The page of an audit: what post-processing does to whom, for readers who have never heard of epsilon."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairpost.counts import Counts
from fairpost.errors import ParameterError
from fairpost.noise import Neighbours
from fairpost.report import sentences, tables
from fairpost.report.findings import findings, lead
from fairpost.report.numbers import clean, clean_lines, count
from fairpost.report.page import render
from fairpost.report.payload import MOST, audit_data
from fairpost.report.shapes import Shapes
from fairpost.report.views import Words, by_task
from fairpost.results.audit import Audit


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
    shapes: Shapes | None = None,
) -> str:
    """One self-contained HTML file about one or more post-processings of the same noisy counts.

    Parameters
    ----------
    results
        As `compare` gives them: the same counts and mechanism; releases and allocations may be mixed.
    command, made
        The command line and the date to print in the provenance, given by the caller.
    title, unit, noun, currency
        The headline; what is counted ("households"), what has a count ("districts"), both plural; the sign of money.
    neighbours
        What epsilon is about: sensitivity and delta. Default: sensitivity 1, no delta.
    source, lines
        What the data are called (a file's name), and the Python lines that find the same numbers.
    shapes
        The areas of the entities, for a map (`fairpost.report.shapes.Shapes`).

    """
    _same(results)
    tasks = by_task(results, Words(clean(unit), clean(noun), clean(currency)))
    views = [v for found in tasks.values() for v in found]
    drawn = None if shapes is None else shapes.of(results[0].counts)
    marks = dict.fromkeys(clean(r.mark) for r in results)
    return render(
        "audit.html",
        audit_data(views) | {"page": "audit", "map": None if drawn is None else drawn.data()},
        title=clean(title or "What post-processing does to whom"),
        mark="; ".join(marks),
        command=None if command is None else clean(command),
        made=None if made is None else clean(made),
        tasks=tasks,
        views=views,
        counts=results[0].counts,
        total=count(results[0].counts.total),
        lead=lead(views, None if source is None else clean(source)),
        findings=findings,
        verdicts=[],
        lines=None if lines is None else clean_lines(lines),
        shapes=None if drawn is None else drawn.words(views[0].words.noun),
        first=next((k for k, v in enumerate(views) if v.result.alpha.value > 0), 0),
        most=MOST,
        say=sentences,
        tables=tables,
        noise=tables.noise(views[0], neighbours or Neighbours()),
    )


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
