"""The rows of the tables that are written into the page: comparison, groups, sizes, provenance."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from fairpost import fairness
from fairpost.fairness import Summary
from fairpost.noise import Neighbours
from fairpost.report.numbers import CHANCE, Html, Unit, below, certainty, html, name, tagged
from fairpost.report.views import Extreme, View

LISTED = 300
"""At most so many groups are listed: those with the largest sums."""


@dataclass(frozen=True)
class Row:
    """One post-processing in the comparison."""

    view: View
    alpha: Html
    alpha_sure: Html
    cost: Html
    cost_sure: Html
    loss: Html
    gain: Html
    rmse: Html
    deviation: Html
    zero: Html
    degenerate: Html
    method: Html


def comparison(views: list[View]) -> list[Row]:
    """One row per post-processing."""
    return [_row(v) for v in views]


def _row(v: View) -> Row:
    r, cost = v.result, v.result.cost_of_privacy
    spread = (r.alpha.high - r.alpha.low) / 2
    alpha = v.cell(r.alpha.value, spread) if v.resolved else Html("not resolved")
    return Row(
        view=v,
        alpha=alpha,
        alpha_sure=v.certain(r.alpha, bare=True),
        cost=Html("–") if cost is None else v.cell(cost.share.value, (cost.share.high - cost.share.low) / 2),
        cost_sure=Html("") if cost is None else v.certain(cost.share, bare=True),
        loss=_end(v, v.least, -1),
        gain=_end(v, v.most, 1),
        rmse=v.cell(v.rmse),
        deviation=v.cell(v.deviation),
        zero=tagged(CHANCE, v.zero),
        degenerate=Html("none") if r.degenerate == 0 else tagged(CHANCE, r.degenerate),
        method=method(v),
    )


def _end(v: View, end: Extreme, sign: int) -> Html:
    if end.bias * sign <= 0:
        return Html("nobody")
    if not end.resolved:
        return Html("not resolved")
    return html("{x} <small>{who}</small>", x=v.cell(end.bias, end.error, signed=True), who=name(end.who))


def method(v: View) -> Html:
    """How the numbers came about, and how far they can be off."""
    r = v.result
    worst = float(np.max(r.half_width)) * v.per
    if not v.simulated:
        error = below(v.bare, worst) if worst else Html("no numerical error")
        return html('<a class="term" href="#g-exact">{method}</a>, {error} for each', method=r.method, error=error)
    return html(
        '<a class="term" href="#g-simulated">simulated</a>, {runs} runs, half-widths up to {e}',
        runs=f"{r.runs:,}",
        e=tagged(Unit(v.bare.factor, v.bare.prefix, v.bare.suffix, 2), worst, toward=1),
    )


@dataclass(frozen=True)
class Bin:
    """One group or size bin: the sum of its biases as a bar around zero, of half-width 50."""

    label: str
    n: int
    total: Html
    mean: Html
    least: Html
    most: Html
    bar: float


def groups(v: View) -> tuple[list[Bin], int]:
    """The groups with the largest sums first come in the order of the data; and how many are left out."""
    groups = v.result.counts.groups
    if groups is None:
        return [], 0
    found = v.result.by_group()
    errors = [s.total for s in fairness.by_group(v.result.half_width, groups)]
    return _bins(v, found, errors, [s.label for s in found])


def sizes(v: View) -> list[Bin]:
    """The size bins that are not empty."""
    found = v.result.by_size()
    errors = [s.total for s in fairness.by_size(v.result.half_width, v.result.counts.values)]
    whole = bool(np.all(v.result.counts.values == np.round(v.result.counts.values)))
    return _bins(v, found, errors, [between(s.label, whole) for s in found])[0]


def between(label: str, whole: bool) -> str:
    """A bin in words: "[100, 1000)" of whole counts is "100 to 999"."""
    low, high = (float(part) for part in re.findall(r"[-+.e\d]+", label))
    if whole and high - low >= 1 and high == round(high) and low == round(low):
        return f"{low:,.0f}" if high - low == 1 else f"{low:,.0f} to {high - 1:,.0f}"
    return f"{low:,.15g} to under {high:,.15g}"


def _bins(v: View, found: tuple[Summary, ...], errors: list[float], labels: list[str]) -> tuple[list[Bin], int]:
    full = [(s, e, label) for s, e, label in zip(found, errors, labels, strict=True) if s.n]
    top = max((abs(s.total) for s, _, _ in full), default=0.0) or 1.0
    cut = sorted((abs(s.total) for s, _, _ in full), reverse=True)[LISTED - 1 : LISTED]
    kept = [f for f in full if not cut or abs(f[0].total) >= cut[0]][:LISTED]
    return [_bin(v, s, e, label, top) for s, e, label in kept], len(full) - len(kept)


def _bin(v: View, s: Summary, error: float, label: str, top: float) -> Bin:
    each = error / s.n
    mean, least, most = (v.cell(x or 0.0, each, signed=True) for x in (s.mean, s.least, s.most))
    return Bin(label, s.n, v.cell(s.total, error, signed=True), mean, least, most, 50 * s.total / top)


def provenance(v: View) -> list[tuple[str, Html]]:
    """How this result came about, fact by fact."""
    r = v.result
    rows = [
        ("Task", Html(r.problem.words)),
        ("Engine", method(v)),
        ("Alpha", html("{}, between {} and {}".format(*(repr(x) for x in (r.alpha.value, r.alpha.low, r.alpha.high))))),
    ]
    if r.runs is not None:
        rows.append(("Runs, seed", html("{runs}, {seed}", runs=f"{r.runs:,}", seed=r.seed)))
        rows.append(("Intervals", html("simultaneous, {sure} confidence", sure=v.confidence)))
    if r.expected_T is not None:
        rows.append(("E[T]", tagged(Unit(digits=6), r.expected_T.value, r.expected_T.half_width)))
    if r.budget is not None and v.cash:
        rows.append(("Budget", tagged(v.cash, r.budget)))
        if r.budgets is not None:
            rows.append(("Budgets of groups", html("{words}", words=r.budgets.words)))
    return [*rows, ("Note", html("{note}", note=r.note))] if r.note else rows


def noise(v: View, neighbours: Neighbours) -> list[tuple[str, Html]]:
    """The mechanism and what it promises."""
    m = v.result.mechanism
    facts = neighbours.describe(m)
    rows = [
        ("Noise", html("{name}", name=m.name)),
        (m.parameter.capitalize(), html("{x} {unit}", x=tagged(Unit(digits=6), m.spread), unit=v.words.unit)),
        ("Standard deviation", html("{x} {unit}", x=tagged(Unit(digits=6), m.deviation), unit=v.words.unit)),
    ]
    if facts["epsilon"] is not None:
        rows.append(("Epsilon", tagged(Unit(digits=6), facts["epsilon"])))
    if facts["delta"]:
        rows.append(("Delta", tagged(Unit(digits=3), facts["delta"])))
    if facts["rho"] is not None:
        rows.append(("Rho (zCDP)", tagged(Unit(digits=6), facts["rho"])))
    return [*rows, ("Sensitivity", tagged(Unit(digits=6), facts["sensitivity"]))]


def cost_text(v: View) -> Html:
    """The cost of privacy as a share beside the money, and how sure it is."""
    cost = v.result.cost_of_privacy
    if cost is None:
        return Html("")
    sure = certainty(v.shown, cost.share.scaled(v.per))
    how = (
        html("simulated: {sure}, {c} confidence", sure=sure, c=v.confidence)
        if v.simulated
        else html("exact, {sure}", sure=sure)
    )
    if v.cash is None:
        return how
    part = tagged(v.unit, cost.share.value, (cost.share.high - cost.share.low) / 2)
    return html("{part} of the budget; {how}", part=part, how=how)


def chance(p: float) -> Html:
    """A probability in percent."""
    return tagged(CHANCE, p)
