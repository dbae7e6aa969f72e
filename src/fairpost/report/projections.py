"""The page of `project`: noisy counts, what they became, and how far each was moved."""

from __future__ import annotations

import numpy as np

from fairpost import palette
from fairpost.report.entities import Column, Content, Drawing, Series, entities_page
from fairpost.report.findings import Finding
from fairpost.report.numbers import Unit, html, joined, name
from fairpost.report.text import clean
from fairpost.results import Projection


def projection_page(
    found: Projection,
    *,
    command: str | None = None,
    made: str | None = None,
    title: str | None = None,
    unit: str = "people",
    noun: str = "entities",
    source: str | None = None,
    lines: str | None = None,
) -> str:
    """One self-contained HTML file about noisy counts and what they became; parameters as for `allocation_page`."""
    c, r = found.changes, found.rounding
    moved = found.counts - found.noisy
    change = Column("change", "Change", moved, Unit(digits=4), signed=True)
    columns = [
        Column("noisy", "Noisy count", found.noisy, None),
        Column("count", "Count", found.counts, None),
        change,
    ]
    if found.rounded is not None:
        columns.append(Column("before", "Before rounding", found.values, None))
    far = int(np.argmax(np.abs(moved)))
    before, after = (f"{c[name]:,.10g}" for name in ("noisy_sum", "sum"))
    findings = [
        Finding(
            "The sum",
            html("It went from {a} to {b} {unit}.", a=before, b=after, unit=unit)
            if before != after
            else html("It is {a} {unit}, as before.", a=after, unit=unit),
        ),
        Finding(
            "Below zero",
            html(
                "{before} counts were negative, {after} are; {zero} are 0.",
                before=f"{c['negative_before']:,}", after=f"{c['negative_after']:,}", zero=f"{c['zero_after']:,}",
            ),
        ),
        Finding(
            "The largest change",
            html("{x} {unit}, of {who}.", x=change.show(float(moved[far])), unit=unit,
                 who=name(found.name(far))),
        ),
    ]  # fmt: skip
    if found.totals is not None and len(found.totals) > 1:
        findings.append(Finding("Totals", html("{k} groups keep their totals.", k=f"{len(found.totals):,}")))
    if r is not None:
        said = html(
            "{up} counts went up and {down} down, none by more than {most}, each without bias (seed {seed}).",
            up=f"{r['rounded_up']:,}",
            down=f"{r['rounded_down']:,}",
            most=f"{r['largest_change']:.3g}",
            seed=r["seed"],
        )
        findings.append(Finding("Rounding", said))
    place = palette.slots([found.postprocess])[0]
    content = Content(
        title=title or "Noisy counts made usable",
        lead=joined(
            [source, f"{found.n:,} {noun}", found.postprocess, "from noisy counts alone: not confidential"], " · "
        ),
        findings=findings,
        drawings=[
            Drawing(
                "What changed", f"change, {clean(unit)}", Unit(digits=4), True,
                (Series(found.postprocess, place, "change"),), "How far each count was moved, by its noisy count.",
            )
        ],
        columns=columns,
        ids=found.ids,
        names=found.names,
        groups=found.groups,
        sort="change",
        facts=[("Rule", html("{how}", how=found.postprocess))],
    )  # fmt: skip
    return entities_page(content, clean(noun), command, made, lines)
