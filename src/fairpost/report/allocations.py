"""The page of `allocate`: what noisy counts give to whom, how sure that is, and what each rule itself does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairpost import palette
from fairpost.errors import ParameterError
from fairpost.report.entities import Column, Content, Drawing, Series, entities_page
from fairpost.report.findings import Finding
from fairpost.report.numbers import PERCENT, Html, Unit, html, joined, money, name, tagged
from fairpost.report.text import clean
from fairpost.results import Allocation
from fairpost.results.allocation import ESTIMATED


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
    return entities_page(content, clean(noun), command, made, lines)


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
        ranked = sorted(biased, key=_spread)
        ends = ranked if len(ranked) == 1 else [ranked[-1], ranked[0]]
        said = joined((_estimated(b, shown, per) for b in ends), "; ")
        out.append(Finding("What the rule itself does", html("{s} ({mark}).", s=said, mark=ESTIMATED)))
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
