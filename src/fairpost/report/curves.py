"""The page of `plan` and `sweep`: fairness, accuracy and money against the noise, the verdict first."""

from __future__ import annotations

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
    clean,
    clean_lines,
    half,
    html,
    money,
    name,
    tagged,
)
from fairpost.report.page import render
from fairpost.results import Point
from fairpost.results.audit import CONFIDENTIAL

QUANTITIES = {
    "alpha": ("Unfairness (alpha)", "The gap between the two ends of the biases. Lower is fairer."),
    "rmse": ("Typical error", "How far a single result is off, for an average entity. Lower is more accurate."),
    "loss": ("Largest expected loss", "What the entity that loses most loses in expectation."),
    "cost": ("Cost of privacy", "What must be added to the budget so that nobody expects less than their due."),
}
"""Fairness and accuracy stand side by side, then the two losses."""


@dataclass(frozen=True)
class Style:
    """How the quantities of these points are shown: in money where there is a budget."""

    unit: str
    currency: str
    budget: float | None = None

    def of(self, key: str, p: Point) -> Unit:
        """The unit of a quantity: money where the points have some."""
        if key == "relative_loss":
            return Unit(1.0, "", PERCENT.suffix)
        if p.unit == "money":
            return money(self.currency)
        return PERCENT if p.task == "allocation" else Unit(suffix=f" {self.unit}")

    def per(self, key: str, p: Point) -> float:
        """From a quantity as a point has it to the unit shown: losses and costs are in money already."""
        scaled = key in ("alpha", "rmse") and p.task == "allocation" and self.budget is not None
        return self.budget if scaled and self.budget is not None else 1.0

    def quantity(self, key: str, p: Point) -> Estimate | None:
        """The quantity of a point in the unit shown."""
        found = p.quantity(key)
        return None if found is None else found.scaled(self.per(key, p))


@dataclass(frozen=True)
class Row:
    """One point in the table."""

    x: Html
    postprocess: str
    place: int
    cells: list[tuple[Html, Html]]
    loser: str
    zero: Html
    method: str
    found: bool


def curves_page(
    points: Sequence[Point],
    *,
    x: str,
    target: tuple[str, float, str] | None = None,
    found: Sequence[Point] = (),
    message: str | None = None,
    command: str | None = None,
    made: str | None = None,
    title: str | None = None,
    unit: str = "people",
    currency: str = "$",
    budgets: str | None = None,
    budget: float | None = None,
    data: str | None = None,
    lines: str | None = None,
) -> str:
    """One self-contained HTML file with one curve per post-processing.

    Parameters
    ----------
    points
        What `sweep` or `plan` found, in any order.
    x
        "epsilon", or the parameter of the mechanism ("scale", "sigma").
    target
        The quantity ("alpha", "cost", "loss"), its limit, and the sentence to show.
    found, message
        The points that meet the target, one per post-processing, and what `plan` says about them.
    command, made, title
        The command line and the date for the provenance, and the headline.
    unit, currency
        What is counted, plural, and the sign of money.
    budgets, budget
        How groups share the budget, as a sentence, and the whole of it: with it everything is shown in money.
    data, lines
        What was looked at, in one line, and the Python lines that find the same numbers.

    """
    if not points:
        raise ParameterError("a page needs at least one point, got none")
    style = Style(clean(unit), clean(currency), budget)
    ordered = sorted(points, key=lambda p: (at(p, x), p.postprocess))
    rules = list(dict.fromkeys(p.postprocess for p in points))
    names = dict(zip(rules, palette.slots(rules), strict=True))
    keys = [k for k in QUANTITIES if any(style.quantity(k, p) is not None for p in points)]
    quantities = [_quantity(k, ordered, names, x, target, found, style) for k in keys]
    return render(
        "curves.html",
        {"page": "curves", "x": clean(x), "quantities": quantities},
        title=clean(title or ("How much noise is fair enough" if target else f"Fairness and accuracy against {x}")),
        mark=CONFIDENTIAL,
        command=None if command is None else clean(command),
        lines=None if lines is None else clean_lines(lines),
        made=None if made is None else clean(made),
        data_words=None if data is None else clean(data),
        message=None if message is None else _sentence(message),
        verdicts=[] if target is None else _verdicts(rules, found, x, clean(target[2]), keys, style),
        summary=_ends(ordered, x, style) if target is None else [],
        quantities=[(k, *QUANTITIES[k]) for k in keys],
        x=clean(x),
        rows=[_row(p, names, keys, x, found, style) for p in ordered],
        budgets=None if budgets is None else _sentence(budgets),
        mechanisms=sorted({p.mechanism.name for p in points}),
        notes=list(dict.fromkeys(clean(f"{p.postprocess}: {p.note}") for p in ordered if p.note)),
    )


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    kept = clean(text).strip()
    return kept[:1].upper() + kept[1:] + ("" if kept.endswith(".") else ".")


def _verdicts(
    rules: list[str], found: Sequence[Point], x: str, target: str, keys: list[str], style: Style
) -> list[tuple[bool, Html]]:
    """One line per rule: where it meets the target, the one that allows the most noise first.

    Epsilon is rounded up and noise down, so that what is printed meets the target too.
    """
    toward = 1 if x == "epsilon" else -1
    said = []
    for k, p in enumerate(sorted(found, key=lambda p: -p.mechanism.spread)):
        pattern = "{pp} meets it at {x} {at}" if k else "{pp} meets the target at {x} {at}: {target}"
        value = tagged(Unit(digits=3), at(p, x), toward=toward)
        said.append(
            (
                True,
                html(
                    pattern + ". {there}",
                    pp=name(p.postprocess),
                    x=x,
                    at=value,
                    target=target,
                    there=_there(p, keys, style),
                ),
            )
        )
    met = {p.postprocess for p in found}
    for rule in rules:
        if rule not in met:
            pattern = "{pp} is not known to meet it in this range{target}."
            tail = "" if said else f": {target}"
            said.append((False, html(pattern, pp=name(rule), target=tail)))
    return said


def _ends(points: list[Point], x: str, style: Style) -> list[tuple[str, Html]]:
    """Who is fairest and who is not, at the most and at the least noise: a heading and a sentence each."""
    said = []
    for spread, word in sorted(zip(_limits(points), ("least", "most"), strict=True), reverse=True):
        here = sorted((p for p in points if p.mechanism.spread == spread), key=lambda p: p.alpha.value)
        parts = [html("{a} under {pp}", a=_cell("alpha", p, style)[0], pp=name(p.postprocess)) for p in here]
        head = f"The {word} noise, {x} {at(here[0], x):.4g}"
        said.append((head, html("alpha is {parts}.", parts=Html(", ".join(parts)))))
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
    target: tuple[str, float, str] | None,
    found: Sequence[Point],
    style: Style,
) -> dict[str, Any]:
    """One plot: a line for every post-processing that has the quantity."""
    lines = []
    for label, place in names.items():
        mine = [(p, q) for p in points if p.postprocess == label and (q := style.quantity(key, p)) is not None]
        if mine:
            lines.append(_line(key, label, place, mine, x, style))
    stars = [(p, q) for p in found if (q := style.quantity(key, p)) is not None]
    shown = style.of(key, points[0])
    suffix = "share of the budget" if shown is PERCENT else shown.prefix or shown.suffix.strip()
    limit = target[1] * style.per(key, points[0]) if target is not None and target[0] == key else None
    return {
        "axis": f"{QUANTITIES[key][0].lower()}, {suffix}",
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


def way(p: Point) -> str:
    """How a point was found."""
    return p.method if p.method in ("exact", "expansion") else "simulated"


def _line(key: str, label: str, place: int, mine: list[tuple[Point, Estimate]], x: str, style: Style) -> dict[str, Any]:
    return {
        "name": clean(label),
        "place": place,
        "simulated": any(way(p) == "simulated" for p, _ in mine),
        "x": [at(p, x) for p, _ in mine],
        "value": [q.value for _, q in mine],
        "low": [q.low for _, q in mine],
        "high": [q.high for _, q in mine],
        "text": [
            [clean(label), f"{x} {at(p, x):.4g}", f"{style.of(key, p).show(q.value, half(q) / 5)} ({p.method})"]
            for p, q in mine
        ],
    }


def _cell(key: str, p: Point, style: Style) -> tuple[Html, Html]:
    q = style.quantity(key, p)
    if q is None:
        return Html("–"), Html("")
    shown = style.of(key, p)
    return tagged(shown, q.value, (q.high - q.low) / 2), Html("") if key == "rmse" else certainty(shown, q)


def _row(p: Point, names: dict[str, int], keys: list[str], x: str, found: Sequence[Point], style: Style) -> Row:
    return Row(
        x=tagged(Unit(digits=4), at(p, x)),
        postprocess=clean(p.postprocess),
        place=names[p.postprocess],
        cells=[_cell(k, p, style) for k in keys],
        loser=clean(p.loser) if p.loss.value > 0 else "nobody",
        zero=tagged(CHANCE, p.zero.value, half(p.zero)),
        method=way(p),
        found=any(p is f for f in found),
    )


def _there(p: Point, keys: list[str], style: Style) -> Html:
    """What a plan's answer brings with it, in one line."""
    parts = [
        html("{what} {value}", what=QUANTITIES[k][0].lower(), value=_cell(k, p, style)[0])
        for k in keys
        if style.quantity(k, p) is not None
    ]
    loser = html("; {loser} loses most", loser=name(p.loser)) if p.loss.value > 0 else Html("")
    return html("<small>There: {parts}{loser}.</small>", parts=Html("; ".join(parts)), loser=loser)
