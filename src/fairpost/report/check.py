"""The page of `check`: real releases against the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairpost import palette
from fairpost.report.entities import Column, Content, Drawing, Series, Summary, entities_page
from fairpost.report.findings import Finding
from fairpost.report.numbers import Html, Unit, html, joined, name, tagged
from fairpost.report.text import clean
from fairpost.results import Check
from fairpost.results.base import number
from fairpost.results.check import chance, parts_table
from fairpost.results.documents import Part

COUNTS = Unit(digits=5)


def check_page(
    found: Check,
    *,
    command: str | None = None,
    made: str | None = None,
    title: str | None = None,
    unit: str = "people",
    noun: str = "entities",
    source: str | None = None,
    lines: str | None = None,
) -> str:
    """One self-contained HTML file about a check.

    Parameters
    ----------
    found
        As `check` gives it.
    command, made, title, unit, noun, source, lines
        As for `audit_page`.

    """
    several = found.releases > 1
    content = Content(
        title=title or f"{'Releases' if several else 'A release'} against the truth",
        lead=_lead(found, noun, source),
        findings=_findings(found, unit, noun),
        drawings=[_drawing(found, unit)],
        columns=_columns(found, unit),
        ids=found.counts.ids,
        names=found.counts.names,
        groups=found.counts.groups,
        sort="difference",
        facts=_facts(found),
        across=("true", "true count"),
        between="bias",
        mark=found.mark,
        tables=_tables(found),
    )
    return entities_page(content, clean(noun), command, made, lines)


def _lead(found: Check, noun: str, source: str | None) -> Html:
    of = "1 release" if found.releases == 1 else f"{found.releases} releases"
    parts = [html("{n} {noun}", n=f"{found.n:,}", noun=noun), html("{of}", of=of)]
    if found.mechanism is not None:
        m = found.mechanism
        parts.append(html("stated: {m} noise, {p} {x}", m=m.name, p=m.parameter, x=f"{m.spread:g}"))
    return joined([source, *parts], " · ")


def _findings(found: Check, unit: str, noun: str) -> list[Finding]:
    out = []
    if found.noise is not None:
        t = found.noise
        said = html(
            "Noise of the stated size explains {e} of the {size}; p = {p}: {verdict}.",
            e=f"{100 * t.explained:.3g} %", size=t.size, p=chance(t.p_value), verdict=t.verdict,
        )  # fmt: skip
        out.append(Finding("Is it noise alone?", said))
    best, worst = found.ends()
    pieces = [_end(found, i, sign, unit) for i, sign in ((worst, -1), (best, 1)) if sign * found.difference[i] > 0]
    moved = (
        html("{who}.", who=joined(pieces, "; ")) if pieces else html("Nobody: every released value is the true count.")
    )
    out.append(Finding("Who gained and who lost", moved))
    out.append(Finding("Sum and signs", _sums(found, unit)))
    if found.unexplained is not None:
        far = html(
            "{k} of {n} {noun} lie where noise alone would put none, with chance {c}.",
            k=f"{len(found.unexplained):,}", n=f"{found.n:,}", noun=noun, c=f"{found.confidence:g}",
        )  # fmt: skip
        out.append(Finding("Beyond noise", far))
    return out


def _end(found: Check, i: int, sign: int, unit: str) -> Html:
    verb = "gained" if sign > 0 else "lost"
    mean = "" if found.releases == 1 else " on average"
    return html(
        "{who} {verb} {x} {unit}{mean}",
        who=name(found.counts.name(i)), verb=verb, x=tagged(COUNTS, abs(float(found.difference[i])), brief=True), unit=unit,
        mean=mean,
    )  # fmt: skip


def _sums(found: Check, unit: str) -> Html:
    kept = (
        html("The true sum was kept")
        if found.sum_kept
        else html("The sum moved by {x} {unit}", x=tagged(COUNTS, found.total.difference, signed=True), unit=unit)
    )
    expected = found.negative_expected
    alone = Html("") if expected is None else html(" (noise alone: {x})", x=number(expected))
    return html("{kept}; {k} values per release are below 0{alone}.", kept=kept, k=number(found.negative), alone=alone)


def _columns(found: Check, unit: str) -> list[Column]:
    """Keys that begin with low or error are not added up by group."""
    out = [
        Column("true", f"True count, {unit}", found.counts.values, None),
        Column(
            "released",
            "Released" if found.releases == 1 else "Mean released",
            found.counts.values + found.difference,
            None,
        ),
        Column("difference", "Difference", found.difference, COUNTS, signed=True),
    ]
    if found.p_adjusted is not None:
        out.append(Column("error_p", "p, all together", found.p_adjusted, Unit(digits=3)))
    if found.half_width is not None:
        out.append(Column("error_half", "Bias within ±", found.half_width, None))
        wide = np.where(np.isfinite(found.half_width), found.half_width, 0.0)
        out.append(Column("low", "Bias from", found.difference - wide, COUNTS, signed=True))
        out.append(Column("high", "Bias to", found.difference + wide, COUNTS, signed=True))
    return out


def _drawing(found: Check, unit: str) -> Drawing:
    place = palette.slots(["simplex"])[0]
    ends = {} if found.half_width is None else {"low": "low", "high": "high"}
    caption = "Released less true, by the true count."
    if ends:
        caption += " The interval of the bias holds for all together; where all releases agree there is none."
    return Drawing(
        "Differences", f"released less true, {clean(unit)}", COUNTS, True,
        (Series("difference", place, "difference", **ends),), caption,
    )  # fmt: skip


def _tables(found: Check) -> list[Summary]:
    out = [_table(found, "sizes", "By size", "true count", found.sizes)]
    if found.groups is not None:
        out.append(_table(found, "tested-groups", "By group, tested", "group", found.groups))
    return out


def _table(found: Check, key: str, title: str, first: str, parts: Sequence[Part]) -> Summary:
    tested, several = found.mechanism is not None, found.releases > 1
    heads, rows = parts_table(parts, first, tested=tested, several=several)
    text = "Sums over the entities of each row."
    if tested:
        text += (
            " Noise alone: its standard deviation. p: the chance that noise alone gives some row so large a difference."
        )
    if several:
        text += f" Bias within: the intervals of all rows hold together with chance {found.confidence:g}."
    return Summary(key, title, text, heads, [tuple(clean(c).replace("+-", "±") for c in row) for row in rows])


def _facts(found: Check) -> list[tuple[str, Html]]:
    facts = [("Releases", html("{names}", names=", ".join(found.names)))]
    if found.noise is not None:
        facts.append(("Null hypothesis", html("{h}", h=found.noise.hypothesis)))
        facts.append(("How to read p", html("{r}", r=found.noise.reading)))
    return facts
