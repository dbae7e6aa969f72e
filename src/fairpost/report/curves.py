"""The page of `plan` and `sweep`: fairness, accuracy and money against the noise, the verdict first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairpost import palette
from fairpost.accuracy import Estimate
from fairpost.errors import ParameterError
from fairpost.report.numbers import (
    CHANCE,
    PERCENT,
    Html,
    Unit,
    certainty,
    half,
    html,
    joined,
    money,
    name,
    tagged,
    unit_of,
)
from fairpost.report.page import render
from fairpost.report.text import clean, clean_lines
from fairpost.report.views import way
from fairpost.results import Plan, Plans, Point
from fairpost.results.base import CONFIDENTIAL
from fairpost.results.curves import Basis
from fairpost.results.targets import one_unit

QUANTITIES = {
    "alpha": ("Unfairness (alpha)", "The gap between the two ends of the biases. Lower is fairer."),
    "rmse": ("Typical error", "How far a single result is off, for an average entity. Lower is more accurate."),
    "relative_rmse": (
        "Typical error in % of the mean due",
        "The same relative to the mean of what is due. Above some 30 % statistical offices call an estimate unreliable.",
    ),
    "loss": ("Largest expected loss", "What the entity that loses most loses in expectation."),
    "relative_loss": (
        "Largest loss in % of what is due",
        "The largest expected loss relative to what the entity is due, among those that are due something.",
    ),
    "cost": ("Cost of privacy", "What must be added to the budget so that nobody expects less than their due."),
}
"""Fairness and accuracy stand side by side, then the losses."""
TERM = {"relative_loss": "relative", "relative_rmse": "rmse"}
"""Where the glossary has another key."""


@dataclass(frozen=True)
class Style:
    """How the quantities of points are shown."""

    unit: str
    currency: str

    def of(self, key: str, p: Point) -> Unit:
        """The unit of a quantity: money where the points have some."""
        if key.startswith("relative_"):
            return Unit(1.0, "", PERCENT.suffix, 3)
        if key == "cost" and p.cost is not None and p.cost.amount is None:
            return PERCENT
        return unit_of(p.unit, self.unit, self.currency)


@dataclass(frozen=True)
class Row:
    """One point in the table."""

    x: Html
    postprocess: str
    place: int
    total: tuple[Html, Html]
    cells: list[tuple[Html, Html]]
    loser: str
    zero: Html
    method: str
    found: bool


def curves_page(
    points: Sequence[Point],
    *,
    x: str,
    plans: Plans | None = None,
    command: str | None = None,
    made: str | None = None,
    title: str | None = None,
    unit: str = "people",
    currency: str = "$",
    noun: str = "entities",
    budgets: str | None = None,
    basis: Basis | None = None,
    source: str | None = None,
    lines: str | None = None,
) -> str:
    """One self-contained HTML file with one curve per post-processing.

    Parameters
    ----------
    points
        What `sweep` or `plan` found, in any order.
    x
        "epsilon", or the parameter of the mechanism ("scale", "sigma").
    plans
        The answers of `plan`: the page then begins with them.
    command, made, title
        The command line and the date for the provenance, and the headline.
    unit, currency, noun
        What is counted, plural, the sign of money, and what has a count, plural.
    budgets
        How groups share the budget, as a sentence.
    basis, source, lines
        What the curve was computed from, what the data are called (a file's name), and the Python lines that find the
        same numbers.

    """
    if not points:
        raise ParameterError("a page needs at least one point, got none")
    one_unit([(p.postprocess, p.unit) for p in points], "the rules of a page")
    style = Style(clean(unit), clean(currency))
    rules = list(dict.fromkeys(p.postprocess for p in points))
    ordered = sorted(points, key=lambda p: (rules.index(p.postprocess), at(p, x)))
    names = dict(zip(rules, palette.slots(rules), strict=True))
    keys = [k for k in QUANTITIES if any(p.quantity(k) is not None for p in points)]
    found = [p.found for p in plans or () if p.found is not None]
    limits = {} if plans is None else plans.targets.limits
    quantities = [_quantity(k, ordered, names, x, limits.get(k), found, style) for k in keys]
    known = basis or (None if plans is None else plans.basis)
    return render(
        "curves.html",
        {"page": "curves", "x": clean(x), "quantities": quantities},
        title=clean(title or ("How much noise is fair enough" if plans else f"Fairness and accuracy against {x}")),
        mark=CONFIDENTIAL,
        command=None if command is None else clean(command),
        lines=None if lines is None else clean_lines(lines),
        made=None if made is None else clean(made),
        lead=_lead(known, source, noun, style),
        warnings=[] if known is None else [_sentence(w) for w in known.warnings],
        verdict=None if plans is None else _sentence(plans.verdict),
        answers=[] if plans is None else [_answer(p, x, keys, style) for p in _ranked(plans)],
        summary=_ends(ordered, x, style) if plans is None else [],
        quantities=[(TERM.get(k, k), *QUANTITIES[k]) for k in keys],
        x=clean(x),
        rows=[_row(p, names, keys, x, found, style) for p in ordered],
        budgets=None if budgets is None else _sentence(budgets),
        mechanisms=sorted({p.mechanism.name for p in points}),
        notes=list(dict.fromkeys(clean(f"{p.postprocess}: {p.note}") for p in ordered if p.note)),
    )


def _lead(basis: Basis | None, source: str | None, noun: str, style: Style) -> Html:
    """The data in one line."""
    parts = [] if source is None else [html("{source}", source=source)]
    if basis is not None and basis.n:
        about = html(
            "{n} {noun}, {total} {unit}", n=f"{basis.n:,}", noun=noun, total=f"{basis.total:,.10g}", unit=style.unit
        )
        parts.append(about)
        if basis.budget is not None:
            parts.append(tagged(money(style.currency), basis.budget, brief=True))
    return joined(parts, " · ")


def _sentence(text: str) -> str:
    """With a capital and a full stop, unless it begins with the name of a rule."""
    kept = clean(text).strip()
    first = kept if kept.partition(" ")[0] in palette.SLOTS else kept[:1].upper() + kept[1:]
    return first + ("" if kept.endswith(".") else ".")


def _ranked(plans: Plans) -> list[Plan]:
    """The rule that allows the most noise first, those that meet the targets nowhere last."""
    return sorted(plans, key=lambda p: -(0.0 if p.stated is None else p.stated.mechanism.spread))


def _answer(plan: Plan, x: str, keys: list[str], style: Style) -> tuple[bool, Html]:
    """Whether a rule meets the targets, where, and what it reaches there: the epsilon stated meets them too."""
    p = plan.stated
    if p is None:
        return False, html("{pp}: {why}.", pp=name(plan.postprocess), why=plan.message)
    extra = Html("") if plan.plain else html(" ({why})", why=plan.message)
    parts = [
        html("{what} {value}", what=QUANTITIES[k][0].lower(), value=_cell(k, p, style)[0])
        for k in keys
        if p.quantity(k) is not None
    ]
    loser = html("; {loser} loses most", loser=name(p.name(p.loser))) if p.loss.value > 0 else Html("")
    return True, html(
        "{pp}: {x} {at}{extra}. <small>There: {parts}{loser}.</small>",
        pp=name(plan.postprocess), x=x, at=f"{at(p, x):.12g}", extra=extra, parts=joined(parts, "; "), loser=loser,
    )  # fmt: skip


def _ends(points: list[Point], x: str, style: Style) -> list[tuple[str, Html]]:
    """Who is fairest and who is not, at the most and at the least noise: a heading and a sentence each."""
    said = []
    for spread, word in sorted(zip(_limits(points), ("least", "most"), strict=True), reverse=True):
        here = sorted((p for p in points if p.mechanism.spread == spread), key=lambda p: p.alpha.value)
        parts = [html("{a} under {pp}", a=_cell("alpha", p, style)[0], pp=name(p.postprocess)) for p in here]
        head = f"The {word} noise, {x} {at(here[0], x):.4g}"
        said.append((head, html("alpha is {parts}.", parts=joined(parts, ", "))))
    return said


def _limits(points: list[Point]) -> tuple[float, float]:
    spreads = [p.mechanism.spread for p in points]
    return min(spreads), max(spreads)


def at(p: Point, x: str) -> float:
    """Where a point stands: its epsilon, or the parameter of its mechanism."""
    if x == "epsilon":
        if p.epsilon is None:
            raise ParameterError("a curve against epsilon needs points that know theirs, got one without")
        return p.epsilon
    return p.mechanism.spread


def _quantity(
    key: str,
    points: list[Point],
    names: dict[str, int],
    x: str,
    limit: float | None,
    found: Sequence[Point],
    style: Style,
) -> dict[str, Any]:
    """One plot: a line for every post-processing that has the quantity."""
    lines = []
    for label, place in names.items():
        mine = [(p, q) for p in points if p.postprocess == label and (q := p.quantity(key)) is not None]
        if mine:
            lines.append(_line(key, label, place, mine, x, style))
    stars = [(p, q) for p in found if (q := p.quantity(key)) is not None]
    shown = style.of(key, next(p for p in points if p.quantity(key) is not None))
    word = "" if key.startswith("relative_") else shown.prefix or shown.suffix.strip()
    return {
        "axis": QUANTITIES[key][0].lower() + (f", {word}" if word else ""),
        "unit": shown.data(),
        "target": limit,
        "lines": lines,
        "found": [
            {
                "x": at(p, x),
                "y": q.value,
                "text": [clean(p.postprocess), f"{x} {at(p, x):.6g}", shown.show(q.value, half(q))],
            }
            for p, q in stars
        ],
    }


def _line(key: str, label: str, place: int, mine: list[tuple[Point, Estimate]], x: str, style: Style) -> dict[str, Any]:
    return {
        "name": clean(label),
        "place": place,
        "simulated": any(p.alpha.kind == "interval" for p, _ in mine),
        "x": [at(p, x) for p, _ in mine],
        "value": [q.value for _, q in mine],
        "low": [q.low for _, q in mine],
        "high": [q.high if math.isfinite(q.high) else q.value for _, q in mine],  # too few runs to say: no band
        "text": [
            [clean(label), f"{x} {at(p, x):.4g}", f"{style.of(key, p).show(q.value, half(q) / 5)} ({p.method})"]
            for p, q in mine
        ],
    }


def _cell(key: str, p: Point, style: Style) -> tuple[Html, Html]:
    q = p.quantity(key)
    if q is None:
        return Html("–"), Html("")
    shown = style.of(key, p)
    return tagged(shown, q.value, (q.high - q.low) / 2), certainty(shown, q)


def _total(p: Point, style: Style) -> tuple[Html, Html]:
    """By how much the total is off; of decisions a number of entities."""
    if p.total_off is None:
        return Html("–"), Html("")
    shown = Unit() if p.unit == "decision" else style.of("alpha", p)
    return tagged(shown, p.total_off.value, half(p.total_off), signed=True), certainty(shown, p.total_off)


def _row(p: Point, names: dict[str, int], keys: list[str], x: str, found: Sequence[Point], style: Style) -> Row:
    return Row(
        x=tagged(Unit(digits=4), at(p, x)),
        postprocess=clean(p.postprocess),
        place=names[p.postprocess],
        total=_total(p, style),
        cells=[_cell(k, p, style) for k in keys],
        loser=clean(p.name(p.loser)) if p.loss.value > 0 else "nobody",
        zero=tagged(CHANCE, p.zero.value, half(p.zero)),
        method=way(p.method),
        found=any(p is f for f in found),
    )
