"""The rows of the tables that are written into the page: comparison, groups, sizes, provenance."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import numpy as np

from fairpost import fairness
from fairpost.fairness import Summary
from fairpost.noise import Neighbours
from fairpost.report.numbers import CHANCE, RELATIVE, Html, Unit, below, certainty, half, html, name, tagged
from fairpost.report.views import Extreme, View

LISTED = 300
"""At most so many groups are listed: those with the largest sums."""


@dataclass(frozen=True)
class Row:
    """One post-processing in the comparison."""

    view: View
    alpha: Html
    alpha_sure: Html
    total: Html
    total_sure: Html
    cost: Html
    cost_sure: Html
    loss: Html
    relative: Html
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
    total, off = (Unit() if v.about == "decision" else v.bare), r.total_off.scaled(v.per)
    alpha = v.cell(r.alpha.value, spread) if v.resolved else Html("not resolved")
    return Row(
        view=v,
        alpha=alpha,
        alpha_sure=v.certain(r.alpha, bare=True),
        total=tagged(total, off.value, half(off), signed=True),
        total_sure=Html("by construction") if r.rule.kept is not None else certainty(total, off),
        cost=Html("–") if cost is None else v.cell(cost.share.value, (cost.share.high - cost.share.low) / 2),
        cost_sure=Html("") if cost is None else v.certain(cost.share, bare=True),
        loss=_end(v, v.least, -1),
        relative=_relative(v),
        gain=_end(v, v.most, 1),
        rmse=v.cell(v.rmse),
        deviation=v.cell(v.deviation),
        zero=tagged(CHANCE, v.zero),
        degenerate=Html("none") if r.rule.degenerate == 0 else tagged(CHANCE, r.rule.degenerate),
        method=method(v),
    )


def _end(v: View, end: Extreme, sign: int) -> Html:
    if end.bias * sign <= 0:
        return Html("nobody")
    if not end.resolved:
        return Html("not resolved")
    part = v.part(end, signed=True)
    return html(
        "{x}{part} <small>{who}</small>",
        x=v.cell(end.bias, end.error, signed=True),
        part=html(" <small>{part}</small>", part=part) if part else "",
        who=name(end.who),
    )


def _relative(v: View) -> Html:
    """Whoever loses most in relation to what is due."""
    end = v.hardest
    if end is None or end.relative is None or end.relative >= 0:
        return Html("nobody")
    if not end.resolved:
        return Html("not resolved")
    return html("{x} <small>{who}</small>", x=v.part(end, signed=True), who=name(end.who))


def method(v: View) -> Html:
    """How the numbers came about, and how far they can be off."""
    r = v.result
    worst = float(np.max(r.accuracy.half_width)) * v.per
    if not v.simulated:
        error = below(v.bare, worst, v.kind) if worst else Html("no numerical error")
        return html('<a class="term" href="#g-{way}">{way}</a>, {error} for each', way=v.way, error=error)
    return html(
        '<a class="term" href="#g-{way}">{way}</a>, {draws}, half-widths up to {e}',
        way=v.way,
        draws=r.engine.draws(r.method),
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
    relative: Html
    """The sum relative to what all of them are due."""
    place: int | None = None
    """Of a group: its place among the groups of the page."""


def groups(v: View) -> tuple[list[Bin], int]:
    """The groups with the largest sums first come in the order of the data; and how many are left out."""
    groups = v.result.counts.groups
    if groups is None:
        return [], 0
    found = v.result.overall.by_group()
    place = {label: k for k, label in enumerate(dict.fromkeys(groups))}
    of = np.fromiter((place[g] for g in groups), np.int64, len(groups))
    errors, due = (
        [float(sums[place[s.label]]) for s in found]
        for sums in (np.bincount(of, w) for w in (v.result.accuracy.half_width, v.result.truth))
    )
    rows, more = _bins(v, found, errors, due, [s.label for s in found])
    return [replace(b, place=place[b.label]) for b in rows], more


def sizes(v: View) -> list[Bin]:
    """The size bins that are not empty."""
    found = v.result.overall.by_size()
    size = v.result.counts.values
    errors, due = ([s.total for s in fairness.by_size(w, size)] for w in (v.result.accuracy.half_width, v.result.truth))
    whole = bool(np.all(size == np.round(size)))
    return _bins(v, found, errors, due, [between(s.label, whole) for s in found])[0]


def between(label: str, whole: bool) -> str:
    """A bin in words: "[100, 1000)" of whole counts is "100 to 999"."""
    low, high = (float(part) for part in re.findall(r"[-+.e\d]+", label))
    if whole and high - low >= 1 and high == round(high) and low == round(low):
        return f"{low:,.0f}" if high - low == 1 else f"{low:,.0f} to {high - 1:,.0f}"
    return f"{low:,.15g} to under {high:,.15g}"


def _bins(
    v: View, found: tuple[Summary, ...], errors: list[float], due: list[float], labels: list[str]
) -> tuple[list[Bin], int]:
    full = [(s, e, d, label) for s, e, d, label in zip(found, errors, due, labels, strict=True) if s.n]
    top = max((abs(s.total) for s, *_ in full), default=0.0) or 1.0
    cut = sorted((abs(s.total) for s, *_ in full), reverse=True)[LISTED - 1 : LISTED]
    kept = [f for f in full if not cut or abs(f[0].total) >= cut[0]][:LISTED]
    return [_bin(v, s, e, d, label, top) for s, e, d, label in kept], len(full) - len(kept)


def _bin(v: View, s: Summary, error: float, due: float, label: str, top: float) -> Bin:
    each = error / s.n
    mean, least, most = (v.cell(x or 0.0, each, signed=True) for x in (s.mean, s.least, s.most))
    part = tagged(RELATIVE, s.total / due, error / due, signed=True) if due > 0 else Html("nothing due")
    return Bin(label, s.n, v.cell(s.total, error, signed=True), mean, least, most, 50 * s.total / top, part)


def provenance(v: View) -> list[tuple[str, Html]]:
    """How this result came about, fact by fact."""
    r, a = v.result, v.result.alpha
    rows = [
        ("Task", html("{words}", words=r.problem.words)),
        ("Engine", method(v)),
        ("Alpha", html("{x}, between {low} and {high}", x=repr(a.value), low=repr(a.low), high=repr(a.high))),
    ]
    if r.engine.runs is not None:
        rows.append(("Drawn", html("{draws}, seed {seed}", draws=r.engine.draws(r.method), seed=r.engine.seed)))
        rows.append(("Intervals", html("simultaneous, {sure} confidence", sure=v.confidence)))
    if r.rule.expected_T is not None:
        rows.append(("E[T]", tagged(Unit(digits=6), r.rule.expected_T.value, r.rule.expected_T.half_width)))
    if r.budget is not None and v.cash:
        rows.append(("Budget", tagged(v.cash, r.budget)))
        if r.rule.budgets is not None:
            rows.append(("Budgets of groups", html("{words}", words=r.rule.budgets.words)))
    return [*rows, ("Note", html("{note}", note=r.engine.note))] if r.engine.note else rows


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
        html("{way}: {sure}, {c} confidence", way=v.way, sure=sure, c=v.confidence)
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


def positions(view: View) -> dict[str, float] | None:
    """Where lower bound, alpha and upper bound stand on a line from 0 to 100; logarithmic where they lie far apart."""
    b = view.result.rule.bounds
    if b is None:
        return None
    marks = {"lower": b.lower, "alpha": view.result.alpha.value, "upper": b.upper, "theorem": b.theorem}
    low, high = min(marks.values()), max(marks.values())
    if high <= low:
        return dict.fromkeys(marks, 50.0)
    f = math.log if low > 0 and high > 20 * low else float
    return {k: 6 + 88 * (f(v) - f(low)) / (f(high) - f(low)) for k, v in marks.items()}
