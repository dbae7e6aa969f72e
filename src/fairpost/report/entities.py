"""Pages about noisy counts alone, for `allocate` and `project`: what each entity gets, how sure that is, what changed.

Nothing true was looked at, so these pages carry no mark.
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
from fairpost.report.numbers import PERCENT, Html, Unit, clean, clean_lines, count, html, money, name, tagged
from fairpost.report.page import render
from fairpost.report.payload import MOST, pack
from fairpost.results import Allocation, Projection
from fairpost.results.allocation import ESTIMATED

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


def _page(content: Content, noun: str, command: str | None, made: str | None, lines: str | None) -> str:
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
        "drawings": [d.data() for d in content.drawings],
    }
    return render(
        "entities.html",
        data,
        title=clean(content.title),
        mark=None,
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
        lead=_lead(first.n, noun, source, first, shown, unit),
        findings=_allocation_findings(found, shown, per, noun),
        drawings=drawings,
        columns=columns,
        ids=first.ids,
        names=first.names,
        groups=first.groups,
        sort="v0",
        facts=_allocation_facts(found),
    )
    return _page(content, clean(noun), command, made, lines)


def _lead(n: int, noun: str, source: str | None, found: Allocation, shown: Unit, unit: str) -> Html:
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
    parts.append(Html("from noisy counts alone: not confidential"))
    return Html(" · ".join(parts))


def _called(ids: Sequence[str], names: Sequence[str] | None, i: int) -> Html:
    return name(ids[i] if names is None else names[i])


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
    out.append(Finding("Who gets nothing", Html(" ".join(parts))))
    biased = [b for b in found if b.bias is not None]
    if biased:
        ends = [max(biased, key=_spread), min(biased, key=_spread)]
        said = "; ".join(_estimated(b, shown, per) for b in dict.fromkeys(ends))
        out.append(Finding("What the rule itself does", html("{s} ({mark}).", s=Html(said), mark=ESTIMATED)))
    elif len(found) > 1:
        out.append(Finding("If the rule changes", _switch(a, found[1], shown, per)))
    else:
        out.append(Finding("How sure", Html("The noise was not given, so nothing is said about the true values.")))
    return out


def _spread(a: Allocation) -> float:
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
    names: Sequence[str] | None = None,
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
    findings = [
        Finding(
            "The sum",
            html("It went from {a} to {b} {unit}.", a=f"{c['noisy_sum']:,.10g}", b=f"{c['sum']:,.10g}", unit=unit),
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
            html("{x} {unit}, of {who}.", x=tagged(change.unit, float(moved[far]), signed=True), unit=unit,
                 who=_called(found.ids, names, far)),
        ),
    ]  # fmt: skip
    if found.totals is not None and len(found.totals) > 1:
        findings.append(Finding("Totals", html("{k} groups keep their totals.", k=f"{len(found.totals):,}")))
    if r is not None:
        text = "{up} counts went up and {down} down, none by more than {most}, each without bias (seed {seed})."
        said = html(
            text,
            up=f"{r['rounded_up']:,}",
            down=f"{r['rounded_down']:,}",
            most=f"{r['largest_change']:.3g}",
            seed=r["seed"],
        )
        findings.append(Finding("Rounding", said))
    place = palette.slots([found.postprocess])[0]
    content = Content(
        title=title or "Noisy counts made usable",
        lead=Html(
            " · ".join(
                [*([html("{s}", s=source)] if source else []), html("{n} {noun}", n=f"{found.n:,}", noun=noun),
                 html("{how}", how=found.postprocess), Html("from noisy counts alone: not confidential")]
            )
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
        names=names,
        groups=found.groups,
        sort="change",
        facts=[("Rule", html("{how}", how=found.postprocess))],
    )  # fmt: skip
    return _page(content, clean(noun), command, made, lines)
