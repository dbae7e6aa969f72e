"""The page of `plan` and `sweep`: alpha, cost of privacy and largest loss against the noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairpost.accuracy import Estimate
from fairpost.errors import ParameterError
from fairpost.report.numbers import CHANCE, PERCENT, Html, Unit, certainty, clean, half, html, money, name, tagged
from fairpost.report.page import render
from fairpost.results import Point
from fairpost.results.audit import CONFIDENTIAL

QUANTITIES = {
    "alpha": ("Unfairness (alpha)", "The gap between the two ends of the biases. Lower is fairer."),
    "cost": ("Cost of privacy", "What must be added to the budget so that nobody expects less than their due."),
    "loss": ("Largest expected loss", "What the entity that loses most loses in expectation."),
}


@dataclass(frozen=True)
class Style:
    """How the quantities of these points are shown."""

    unit: str
    currency: str

    def of(self, key: str, p: Point) -> Unit:
        """The unit of a quantity: money where the points have some."""
        if key == "relative_loss":
            return Unit(1.0, "", PERCENT.suffix)
        if p.unit == "money":
            return money(self.currency)
        return PERCENT if p.task == "allocation" else Unit(suffix=f" {self.unit}")


@dataclass(frozen=True)
class Row:
    """One point in the table."""

    x: Html
    postprocess: str
    place: int
    cells: list[tuple[Html, Html]]
    loser: str
    rmse: Html
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
        What is counted, plural; the sign of money.
    budgets
        Whose budget it is, in words, where every group shares its own.

    """
    if not points:
        raise ParameterError("a page of curves needs at least one point, got none")
    style = Style(clean(unit), clean(currency))
    names = {n: k for k, n in enumerate(dict.fromkeys(p.postprocess for p in points))}
    keys = [k for k in QUANTITIES if any(p.quantity(k) is not None for p in points)]
    ordered = sorted(points, key=lambda p: (names[p.postprocess], at(p, x)))
    quantities = [_quantity(k, ordered, names, x, target, found, style) for k in keys]
    return render(
        "curves.html",
        {"page": "curves", "x": clean(x), "quantities": quantities},
        title=clean(title or f"Fairness against {x}"),
        mark=CONFIDENTIAL,
        command=None if command is None else clean(command),
        made=None if made is None else clean(made),
        message=None if message is None else _sentence(message),
        target=None if target is None else _sentence(f"Target: {target[2]}"),
        summary=_ends(ordered, x, style),
        found=[_found(p, x, keys, style) for p in found],
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


def _ends(points: list[Point], x: str, style: Style) -> list[Html]:
    """Who is fairest and who is not, at the most and at the least noise."""
    sentences = []
    for spread, word in sorted(zip(_limits(points), ("least", "most"), strict=True), reverse=True):
        here = sorted((p for p in points if p.mechanism.spread == spread), key=lambda p: p.alpha.value)
        parts = [html("{a} under {pp}", a=_cell("alpha", p, style)[0], pp=name(p.postprocess)) for p in here]
        sentences.append(
            html(
                "At {x} {at}, the {word} noise, alpha is {parts}.",
                x=x,
                at=f"{at(here[0], x):.4g}",
                word=word,
                parts=Html(", ".join(parts)),
            )
        )
    return sentences


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
        mine = [(p, q) for p in points if p.postprocess == label and (q := p.quantity(key)) is not None]
        if mine:
            lines.append(_line(key, label, place, mine, x, style))
    stars = [(p, q) for p in found if (q := p.quantity(key)) is not None]
    shown = style.of(key, points[0])
    suffix = {PERCENT: "share of the budget"}.get(shown, shown.prefix or shown.suffix.strip())
    return {
        "axis": f"{QUANTITIES[key][0].lower()}, {suffix}",
        "target": target[1] if target is not None and target[0] == key else None,
        "lines": lines,
        "found": [
            {
                "x": at(p, x),
                "y": q.value,
                "text": clean(f"{p.postprocess}: {x} {at(p, x):.6g}, {shown.show(q.value, half(q))}"),
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
            clean(f"{label}, {x} {at(p, x):.4g}: {style.of(key, p).show(q.value, half(q) / 5)} ({p.method})")
            for p, q in mine
        ],
    }


def _cell(key: str, p: Point, style: Style) -> tuple[Html, Html]:
    q = p.quantity(key)
    if q is None:
        return Html("–"), Html("")
    shown = style.of(key, p)
    return tagged(shown, q.value, (q.high - q.low) / 2), certainty(shown, q)


def _row(p: Point, names: dict[str, int], keys: list[str], x: str, found: Sequence[Point], style: Style) -> Row:
    return Row(
        x=tagged(Unit(digits=4), at(p, x)),
        postprocess=clean(p.postprocess),
        place=names[p.postprocess] % 8,
        cells=[_cell(k, p, style) for k in keys],
        loser=clean(p.loser) if p.loss.value > 0 else "nobody",
        rmse=tagged(style.of("rmse", p), p.rmse.value, half(p.rmse)),
        zero=tagged(CHANCE, p.zero.value, half(p.zero)),
        method=way(p),
        found=any(p is f for f in found),
    )


def _found(p: Point, x: str, keys: list[str], style: Style) -> Html:
    """The answer of a plan, in one sentence."""
    parts = [
        html("{what} {value}", what=QUANTITIES[k][0].lower(), value=_cell(k, p, style)[0])
        for k in keys
        if p.quantity(k) is not None
    ]
    return html(
        "At {x} {at} under {pp}: {parts}. {loser} loses most.",
        x=x, at=tagged(Unit(digits=6), at(p, x)), pp=name(p.postprocess), parts=Html("; ".join(parts)), loser=name(p.loser),
    )  # fmt: skip
