"""Pages whose heart is a table of entities: what `allocate`, `project` and `check` found.

The first two look at noisy counts alone, nothing true, so they carry no mark; a check does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import palette
from fairpost.errors import ParameterError
from fairpost.report.findings import Finding
from fairpost.report.numbers import PERCENT, Html, Unit, count, html, joined, money, name, tagged
from fairpost.report.page import render
from fairpost.report.payload import MOST, pack
from fairpost.report.text import clean, clean_lines
from fairpost.results import Allocation, Check, Projection
from fairpost.results.allocation import ESTIMATED
from fairpost.results.base import number
from fairpost.results.check import chance, parts_table
from fairpost.results.documents import Part

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Column:
    """One column of the table, one number per entity."""

    key: str
    name: str
    values: Floats
    unit: Unit | None
    """None: a count, with every digit that it has."""
    signed: bool = False

    def show(self, value: float) -> Html:
        """One number, or a sum of them."""
        return html("{x}", x=count(value)) if self.unit is None else tagged(self.unit, value, signed=self.signed)

    def data(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """For the script."""
        return {
            "key": self.key,
            "name": clean(self.name),
            "unit": None if self.unit is None else self.unit.data(),
            "signed": self.signed,
            "values": pack(self.values[rows], "f8"),
        }


@dataclass(frozen=True)
class Series:
    """One rule in a picture: the keys of its columns."""

    name: str
    place: int
    y: str
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True)
class Drawing:
    """A picture against the noisy count."""

    title: str
    axis: str
    unit: Unit
    signed: bool
    series: tuple[Series, ...]
    caption: str

    def data(self) -> dict[str, Any]:
        """For the script."""
        return {
            "axis": clean(self.axis),
            "unit": self.unit.data(),
            "signed": self.signed,
            "series": [vars(s) | {"name": clean(s.name)} for s in self.series],
        }


@dataclass(frozen=True)
class Summary:
    """A small table of its own, as text."""

    key: str
    title: str
    text: str
    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Content:
    """What one page is made of."""

    title: str
    lead: Html
    findings: list[Finding]
    drawings: list[Drawing]
    columns: list[Column]
    ids: Sequence[str]
    names: Sequence[str] | None
    groups: Sequence[str] | None
    sort: str
    facts: list[tuple[str, Html]]
    across: tuple[str, str] = ("noisy", "noisy count")
    """The column that pictures have on their horizontal axis, and its title there."""
    between: str = "true"
    """What lies between the low and the high end of a series."""
    mark: str | None = None
    """What the page was computed from, where that must be said."""
    tables: Sequence[Summary] = ()


def entities_page(content: Content, noun: str, command: str | None, made: str | None, lines: str | None) -> str:
    """One self-contained HTML file about these entities."""
    sorted_by = next(c for c in content.columns if c.key == content.sort)
    order = np.argsort(-np.abs(sorted_by.values), kind="stable")[:MOST]
    rows = np.sort(order).astype(np.int64)
    groups = None
    if content.groups is not None:
        places = {g: k for k, g in enumerate(dict.fromkeys(content.groups))}
        of = np.array([places[content.groups[i]] for i in rows])
        groups = {"names": [clean(g) for g in places], "of": pack(of, "i4")}
    data = {
        "page": "entities",
        "noun": noun,
        "ids": [clean(content.ids[i]) for i in rows],
        "names": None if content.names is None else [clean(content.names[i]) for i in rows],
        "groups": groups,
        "columns": [c.data(rows) for c in content.columns],
        "sort": content.sort,
        "between": content.between,
        "across": {"key": content.across[0], "name": clean(content.across[1])},
        "drawings": [d.data() for d in content.drawings],
    }
    return render(
        "entities.html",
        data,
        title=clean(content.title),
        mark=content.mark,
        lead=content.lead,
        made=None if made is None else clean(made),
        command=None if command is None else clean(command),
        lines=None if lines is None else clean_lines(lines),
        findings=content.findings,
        drawings=content.drawings,
        left=len(content.ids) - rows.size,
        noun=noun,
        named=content.names is not None,
        grouped=_sums(content),
        tables=content.tables,
        facts=content.facts,
    )


def _sums(content: Content) -> dict[str, Any] | None:
    """The sums of each group; None without groups."""
    if content.groups is None:
        return None
    places = {g: k for k, g in enumerate(dict.fromkeys(content.groups))}
    of = np.fromiter((places[g] for g in content.groups), np.int64, len(content.groups))
    some = [c for c in content.columns if not c.key.startswith(("low", "high", "error"))]
    sums = [np.bincount(of, c.values) for c in some]
    number = np.bincount(of)
    rows = [
        (
            clean(g),
            k,
            f"{number[k]:,}",
            [c.show(float(s[k])) for c, s in zip(some, sums, strict=True)],
        )
        for g, k in places.items()
    ]
    return {"heads": [clean(c.name) for c in some], "rows": rows}


def allocation_page(
    found: Sequence[Allocation],
    *,
    command: str | None = None,
    made: str | None = None,
    title: str | None = None,
    unit: str = "people",
    currency: str = "$",
    noun: str = "entities",
    source: str | None = None,
    lines: str | None = None,
) -> str:
    """One self-contained HTML file about shares of the same noisy counts by one or more rules.

    Parameters
    ----------
    found
        As `allocate` gives them: one draw each, of the same noisy counts and budget.
    command, made, title, unit, currency, noun, source, lines
        As for `audit_page`.

    """
    if not found:
        raise ParameterError("a page needs at least one result, got none")
    first = found[0]
    same = all(np.array_equal(a.noisy, first.noisy) and a.ids == first.ids and a.budget == first.budget for a in found)
    if not same or first.shares.ndim != 1:
        raise ParameterError("the allocations of one page must be one draw of the same noisy counts and budget")
    per, shown = (1.0, PERCENT) if first.budget is None else (first.budget, money(clean(currency)))
    what = "share" if first.budget is None else "money"
    places = palette.slots([a.how for a in found])
    columns = [Column("noisy", f"Noisy count, {unit}", first.noisy, None)]
    columns += [Column(f"v{k}", f"{a.how}", a.shares * per, shown) for k, a in enumerate(found)]
    interval = first.interval
    if interval is not None:
        sure = f"{100 * interval.confidence:g} %"
        columns.append(Column("low", f"True {what}, at least ({sure})", interval.low * per, shown))
        columns.append(Column("high", f"True {what}, at most ({sure})", interval.high * per, shown))
    for k, a in enumerate(found):
        if a.bias is not None:
            columns.append(Column(f"bias{k}", f"{a.how}: estimated bias", a.bias.bias * per, shown, signed=True))
            columns.append(Column(f"error{k}", f"{a.how}: its error", a.bias.error * per, shown))
    ends = ("low", "high") if interval is not None else (None, None)
    axis = f"{what}, {shown.prefix or shown.suffix.strip()}"
    drawings = [
        Drawing(
            "What each receives",
            axis,
            shown,
            False,
            tuple(Series(a.how, places[k], f"v{k}", *(ends if k == 0 else (None, None))) for k, a in enumerate(found)),
            f"The {what} of each by its noisy count."
            + (" Bars: where the true value lies, where there are at most 500." if interval is not None else ""),
        )
    ]
    if any(a.bias is not None for a in found):
        some = tuple(Series(a.how, places[k], f"bias{k}") for k, a in enumerate(found) if a.bias is not None)
        caption = f"What each rule adds or takes in expectation, {ESTIMATED}."
        drawings.append(Drawing("Estimated bias", f"estimated bias, {axis}", shown, True, some, caption))
    elif len(found) > 1:
        for k, a in enumerate(found[1:], 1):
            columns.append(
                Column(f"d{k}", f"{a.how} less {first.how}", (a.shares - first.shares) * per, shown, signed=True)
            )
        some = tuple(Series(f"{a.how} less {first.how}", places[k], f"d{k}") for k, a in enumerate(found[1:], 1))
        drawings.append(
            Drawing("What changes with the rule", f"change, {axis}", shown, True, some, "Who gains and who loses.")
        )
    content = Content(
        title=title or "What noisy counts give to whom",
        lead=_allocation_lead(first.n, noun, source, first, shown, unit),
        findings=_allocation_findings(found, shown, per, noun),
        drawings=drawings,
        columns=columns,
        ids=first.ids,
        names=first.names,
        groups=first.groups,
        sort="v0",
        facts=_allocation_facts(found),
    )
    return entities_page(content, clean(noun), command, made, lines)


def _allocation_lead(n: int, noun: str, source: str | None, found: Allocation, shown: Unit, unit: str) -> Html:
    parts = [html("{n} {noun}", n=f"{n:,}", noun=noun)]
    if source:
        parts.insert(0, html("{source}", source=source))
    if found.budget is not None:
        parts.append(tagged(shown, found.budget, brief=True))
    m = found.mechanism
    if m is not None:
        parts.append(
            html("{name} noise: a typical count moved by {sd} {unit}", name=m.name, sd=f"{m.deviation:,.3g}", unit=unit)
        )
    return joined([*parts, "from noisy counts alone: not confidential"], " · ")


def _allocation_findings(found: Sequence[Allocation], shown: Unit, per: float, noun: str) -> list[Finding]:
    a = found[0]
    top = int(np.argmax(a.shares))
    said = html(
        "Under {how} {who} gets {x}",
        how=a.how, who=name(a.name(top)), x=tagged(shown, float(a.shares[top]) * per, brief=True),
    )  # fmt: skip
    if a.interval is not None:
        low, high = float(a.interval.low[top]) * per, float(a.interval.high[top]) * per
        said = html(
            "{said}; the true counts would give it {low} to {high} ({c:} % sure)",
            said=said, low=tagged(shown, low, brief=True, toward=-1), high=tagged(shown, high, brief=True, toward=1),
            c=f"{100 * a.interval.confidence:g}",
        )  # fmt: skip
    out = [Finding("Who gets most", html("{said}.", said=said))]
    below = int(np.count_nonzero(a.noisy < 0))
    parts = [html("{k} of {n} noisy counts are negative.", k=f"{below:,}", n=f"{a.n:,}")]
    parts += [
        html("{z} {noun} get nothing under {how}.", z=f"{np.count_nonzero(b.shares == 0):,}", noun=noun, how=b.how)
        for b in found
    ]
    out.append(Finding("Who gets nothing", joined(parts)))
    biased = [b for b in found if b.bias is not None]
    if biased:
        ranked = sorted(biased, key=_alpha_of)
        ends = ranked if len(ranked) == 1 else [ranked[-1], ranked[0]]
        said = joined((_estimated(b, shown, per) for b in ends), "; ")
        out.append(Finding("What the rule itself does", html("{s} ({mark}).", s=said, mark=ESTIMATED)))
    elif len(found) > 1:
        out.append(Finding("If the rule changes", _switch(a, found[1], shown, per)))
    else:
        out.append(Finding("How sure", Html("The noise was not given, so nothing is said about the true values.")))
    return out


def _alpha_of(a: Allocation) -> float:
    """The estimated alpha."""
    assert a.bias is not None
    return float(np.ptp(a.bias.bias))


def _estimated(a: Allocation, shown: Unit, per: float) -> Html:
    assert a.bias is not None
    worst = int(np.argmin(a.bias.bias))
    bias, error = float(a.bias.bias[worst]) * per, float(a.bias.error[worst]) * per
    return html(
        "{how} takes {x} from {who}, give or take {e}",
        how=a.how, x=tagged(shown, -bias, error, brief=True), who=name(a.name(worst)),
        e=tagged(shown, error, brief=True, toward=1),
    )  # fmt: skip


def _switch(a: Allocation, b: Allocation, shown: Unit, per: float) -> Html:
    moved = (b.shares - a.shares) * per
    far = int(np.argmax(np.abs(moved)))
    return html(
        "{b} in place of {a} moves {sum} in all, most of all for {who}: {x}.",
        a=a.how, b=b.how, sum=tagged(shown, float(np.abs(moved).sum()) / 2, brief=True), who=name(a.name(far)),
        x=tagged(shown, float(moved[far]), brief=True, signed=True),
    )  # fmt: skip


def _allocation_facts(found: Sequence[Allocation]) -> list[tuple[str, Html]]:
    a = found[0]
    facts = [("Rules", html("{rules}", rules=", ".join(b.how for b in found)))]
    if a.mechanism is not None:
        m = a.mechanism
        facts.append(("Noise", html("{name}, {p} {x}", name=m.name, p=m.parameter, x=f"{m.spread:g}")))
    if a.budgets is not None:
        facts.append(("Budgets of groups", html("{words}", words=a.budgets.words)))
    if a.interval is not None:
        together = "all entities together" if a.interval.simultaneous else "each entity by itself"
        facts.append(("Intervals", html("{c} %, {t}", c=f"{100 * a.interval.confidence:g}", t=together)))
    for b in found:
        if b.bias is not None:
            how = html("{m}, {k} replicates", m=b.bias.method, k=b.bias.replicates)
            facts.append((f"Estimated bias, {b.how}", how))
        if b.missing is not None:
            facts.append((f"No estimate, {b.how}", html("{why}", why=b.missing)))
    return facts


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
        lead=_check_lead(found, noun, source),
        findings=_check_findings(found, unit, noun),
        drawings=[_check_drawing(found, unit)],
        columns=_check_columns(found, unit),
        ids=found.counts.ids,
        names=found.counts.names,
        groups=found.counts.groups,
        sort="difference",
        facts=_check_facts(found),
        across=("true", "true count"),
        between="bias",
        mark=found.mark,
        tables=_check_tables(found),
    )
    return entities_page(content, clean(noun), command, made, lines)


def _check_lead(found: Check, noun: str, source: str | None) -> Html:
    of = "1 release" if found.releases == 1 else f"{found.releases} releases"
    parts = [html("{n} {noun}", n=f"{found.n:,}", noun=noun), html("{of}", of=of)]
    if found.mechanism is not None:
        m = found.mechanism
        parts.append(html("stated: {m} noise, {p} {x}", m=m.name, p=m.parameter, x=f"{m.spread:g}"))
    return joined([source, *parts], " · ")


def _check_findings(found: Check, unit: str, noun: str) -> list[Finding]:
    out = []
    if found.noise is not None:
        t = found.noise
        said = html(
            "Noise of the stated size explains {e} of the {size}; p = {p}: {verdict}.",
            e=f"{100 * t.explained:.3g} %", size=t.size, p=chance(t.p_value), verdict=t.verdict,
        )  # fmt: skip
        out.append(Finding("Is it noise alone?", said))
    best, worst = found.ends()
    pieces = [_moved(found, i, sign, unit) for i, sign in ((worst, -1), (best, 1)) if sign * found.difference[i] > 0]
    moved = (
        html("{who}.", who=joined(pieces, "; ")) if pieces else html("Nobody: every released value is the true count.")
    )
    out.append(Finding("Who gained and who lost", moved))
    out.append(Finding("Sum and signs", _check_sums(found, unit)))
    if found.unexplained is not None:
        far = html(
            "{k} of {n} {noun} lie where noise alone would put none, with chance {c}.",
            k=f"{len(found.unexplained):,}", n=f"{found.n:,}", noun=noun, c=f"{found.confidence:g}",
        )  # fmt: skip
        out.append(Finding("Beyond noise", far))
    return out


def _moved(found: Check, i: int, sign: int, unit: str) -> Html:
    verb = "gained" if sign > 0 else "lost"
    mean = "" if found.releases == 1 else " on average"
    return html(
        "{who} {verb} {x} {unit}{mean}",
        who=name(found.counts.name(i)), verb=verb, x=tagged(COUNTS, abs(float(found.difference[i])), brief=True), unit=unit,
        mean=mean,
    )  # fmt: skip


def _check_sums(found: Check, unit: str) -> Html:
    kept = (
        html("The true sum was kept")
        if found.sum_kept
        else html("The sum moved by {x} {unit}", x=tagged(COUNTS, found.total.difference, signed=True), unit=unit)
    )
    expected = found.negative_expected
    alone = Html("") if expected is None else html(" (noise alone: {x})", x=number(expected))
    return html("{kept}; {k} values per release are below 0{alone}.", kept=kept, k=number(found.negative), alone=alone)


def _check_columns(found: Check, unit: str) -> list[Column]:
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


def _check_drawing(found: Check, unit: str) -> Drawing:
    place = palette.slots(["simplex"])[0]
    ends = {} if found.half_width is None else {"low": "low", "high": "high"}
    caption = "Released less true, by the true count."
    if ends:
        caption += " The interval of the bias holds for all together; where all releases agree there is none."
    return Drawing(
        "Differences", f"released less true, {clean(unit)}", COUNTS, True,
        (Series("difference", place, "difference", **ends),), caption,
    )  # fmt: skip


def _check_tables(found: Check) -> list[Summary]:
    out = [_check_table(found, "sizes", "By size", "true count", found.sizes)]
    if found.groups is not None:
        out.append(_check_table(found, "tested-groups", "By group, tested", "group", found.groups))
    return out


def _check_table(found: Check, key: str, title: str, first: str, parts: Sequence[Part]) -> Summary:
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


def _check_facts(found: Check) -> list[tuple[str, Html]]:
    facts = [("Releases", html("{names}", names=", ".join(found.names)))]
    if found.noise is not None:
        facts.append(("Null hypothesis", html("{h}", h=found.noise.hypothesis)))
        facts.append(("How to read p", html("{r}", r=found.noise.reading)))
    return facts
