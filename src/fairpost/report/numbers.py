"""Numbers for people: thousands separators, percent, money, and never more digits than the error supports.

`Unit.show` has a twin in files/report.js (`show`), so that a number reads the same in a sentence and in the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from fairpost.accuracy import Estimate, Kind
from fairpost.report.text import clean

MINUS = "−"
ENDLESS = {math.inf: "∞", -math.inf: f"{MINUS}∞"}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SCALES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
DUST = 2.0**-50
"""Rounding with a direction takes a number this close to a round one, in relation to itself, for the round one: 0.29 in
percent is 28.999999999999996. That is the rounding of one product and one quotient, and no more."""
SHARP = 1e-3
"""An interval narrower than this share of its value is told as one error, not as two ends."""


class Html(str):
    """Text that is already safe HTML: made by `html` and `joined`, or written where it is used. All else is escaped in a page."""

    __slots__ = ()

    def __html__(self) -> str:
        """Let jinja2 pass it as it is."""
        return str(self)


def html(pattern: str, **values: object) -> Html:
    """`pattern` (ours, written where it is used) with its values escaped, unless they are Html already."""
    return Html(pattern.format(**{k: _escaped(v) for k, v in values.items()}))


def joined(parts: Iterable[object], between: str = " ") -> Html:
    """Parts in a row, without the empty ones; escaped like the values of `html`."""
    return Html(between.join(_escaped(part) for part in parts if part))


def _escaped(value: object) -> str:
    return value if isinstance(value, Html) else escape(clean(value))


def name(text: str) -> Html:
    """A label of the user's, isolated so that its writing direction cannot reach the text around it."""
    return html("<bdi>{text}</bdi>", text=text)


@dataclass(frozen=True)
class Unit:
    """How one kind of number is shown: value * factor, with so many significant digits at most."""

    factor: float = 1.0
    prefix: str = ""
    suffix: str = ""
    digits: int = 4
    whole: bool = False
    """Money: whole units from 100 on."""

    def place(self, x: float, error: float) -> int:
        """The power of ten of the last digit: the leading digit of the error, or as `digits` says."""
        want = 0 if self.whole and abs(x) >= 100 else math.floor(math.log10(abs(x))) - self.digits + 1
        return max(want, math.floor(math.log10(error))) if 0 < error < math.inf else want

    def show(self, value: float, error: float = 0.0, *, signed: bool = False, toward: int = 0) -> str:
        """The number as text: "+$1,234", "−0.0076 %".

        Bounds are rounded to the side on which they still hold: `toward` 1 never shows less than the number, -1 never
        more, 0 the nearest.
        """
        x = value * self.factor
        if not math.isfinite(x):
            return f"{self.prefix}{ENDLESS.get(x, '?')}{self.suffix}"
        if x == 0:
            return f"{self.prefix}0{self.suffix}"
        place = self.place(x, error * self.factor)
        x = directed(x, place, toward)
        body = digits(abs(x), place) if x else "0"
        some = body.strip("0.,") != ""
        sign = (MINUS if x < 0 else "+" if signed else "") if some else ""
        return f"{sign}{self.prefix}{body}{self.suffix}"

    def brief(self, value: float, error: float = 0.0, *, signed: bool = False, toward: int = 0) -> str:
        """For sentences: three digits, and millions in words."""
        for size, word in SCALES if self.whole else ():
            if abs(value) >= size:
                return Unit(1 / size, self.prefix, f" {word}", 3).show(value, error, signed=signed, toward=toward)
        kept = Unit(self.factor, self.prefix, self.suffix, 3, self.whole)
        return kept.show(value, error, signed=signed, toward=toward)

    def data(self) -> dict[str, Any]:
        """For the script of the page."""
        return asdict(self)


def directed(x: float, place: int, toward: int) -> float:
    """x at 10^place, rounded up (`toward` 1), down (-1) or left to the nearest (0)."""
    step = 10.0**place
    if toward == 0 or step == 0:
        return x
    steps = x / step
    dust = DUST * abs(steps)
    return (math.ceil(steps - dust) if toward == 1 else math.floor(steps + dust)) * step


def digits(x: float, place: int) -> str:
    """A number x >= 0 rounded at 10^place; by powers of ten where that reads better."""
    if x < 1e-6 or x >= 1e15:
        kept = math.floor(math.log10(x)) - place
        mantissa, power = f"{x:.{max(kept, 0)}e}".split("e")
        return f"{mantissa} × 10{str(int(power)).translate(SUPERSCRIPTS)}" if kept >= 0 else "0"
    return f"{round(x, -place):,.{max(0, -place)}f}"


PERCENT = Unit(100.0, "", "\u00a0%")
RELATIVE = Unit(100.0, "", "\u00a0%", 3)
"""Relative to what is due."""
CHANCE = Unit(100.0, "", "\u00a0%", 3)


def money(currency: str) -> Unit:
    """Whole units from 100 on."""
    return Unit(1.0, clean(currency), "", 3, True)


def unit_of(unit: str, people: str, currency: str) -> Unit:
    """How what is measured in `unit` is shown: people by their own word ("households"), shares and chances in percent."""
    if unit in ("share", "decision"):
        return PERCENT
    return money(currency) if unit == "money" else Unit(suffix=f" {people if unit == 'people' else unit}")


def tagged(
    unit: Unit, value: float, error: float = 0.0, *, signed: bool = False, brief: bool = False, toward: int = 0
) -> Html:
    """The number with its full precision in the title."""
    text = (unit.brief if brief else unit.show)(value, error, signed=signed, toward=toward)
    kind = Html(' class="key"') if brief else Html("")
    return html(
        '<data{kind} value="{full}" title="{full}">{text}</data>', kind=kind, full=repr(float(value)), text=text
    )


def count(x: float) -> str:
    """A true count: every digit it has, no zeros behind."""
    return f"{x:,.0f}" if x == round(x) else f"{x:,.15g}"


def half(estimate: Estimate) -> float:
    """The larger distance from the value to an end of its interval."""
    return max(estimate.high - estimate.value, estimate.value - estimate.low)


def certainty(unit: Unit, estimate: Estimate) -> Html:
    """How sure a number is: "error below $0.01", or "$10 to $12"; of an expansion "error about $0.01"."""
    error = half(estimate)
    if error == 0:
        return Html("no numerical error")
    if error <= SHARP * abs(estimate.value):
        return below(unit, error, estimate.kind)
    width = (estimate.high - estimate.low) / 10
    ends = [tagged(unit, v, width, toward=to) for v, to in ((estimate.low, -1), (estimate.high, 1))]
    return html("{low} to {high}", low=ends[0], high=ends[1])


def below(unit: Unit, error: float, kind: Kind = "bound") -> Html:
    """An error, rounded up to one digit; of money no less than a hundredth. An expansion states its error and bounds none."""
    word = "about" if kind == "expansion" else "below"
    if unit.whole and error < 0.01:
        return html("error {word} {cent}", word=word, cent=f"{unit.prefix}0.01")
    x = max(error * unit.factor, 1e-300)  # below, steps of ten underflow
    top = directed(x, math.floor(math.log10(x)), 1) / unit.factor
    return html("error {word} {e}", word=word, e=tagged(Unit(unit.factor, unit.prefix, unit.suffix, 1), top))


def times(ratio: float, toward: int = 0) -> str:
    """A factor in words: "12 times"; `toward` as in `Unit.show`."""
    x = directed(ratio, min(math.floor(math.log10(ratio)) - 1, 0), toward)
    return f"{x:,.0f} times" if x >= 10 else f"{x:.2g} times"
