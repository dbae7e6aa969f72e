"""What a page says about one result, computed once: units, the most affected, the direction, the price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairpost import palette
from fairpost.accuracy import Estimate, Kind
from fairpost.report.numbers import RELATIVE, Html, Unit, certainty, money, tagged, unit_of
from fairpost.results.audit import Audit

Floats = NDArray[np.float64]
CLEAR = 0.75
"""From this chance on that what is lost comes from a larger entity than what is gained goes to, a direction is named."""


def way(method: str) -> str:
    """How numbers came about, a term of the glossary."""
    return "simulated" if method == "monte-carlo" else method


@dataclass(frozen=True)
class Words:
    """The user's nouns."""

    unit: str = "people"
    """What is counted, plural."""
    noun: str = "entities"
    """What has a count, plural."""
    currency: str = "$"


@dataclass(frozen=True)
class Extreme:
    """The entity that gains or loses most in expectation."""

    who: str
    """Its name, or its id where it has none."""
    id: str
    count: float
    due: float
    """P(x): the true count, or the true share."""
    bias: float
    error: float
    alike: int
    """How many others have the same count, weight and bias."""

    @property
    def resolved(self) -> bool:
        """Whether the bias is told from zero."""
        return abs(self.bias) > self.error

    @property
    def relative(self) -> float | None:
        """The bias relative to what is due; None where nothing is."""
        return self.bias / self.due if self.due > 0 else None


@dataclass(frozen=True)
class View:
    """One result with what the page says about it."""

    result: Audit
    place: int
    """Its colour: the place in the palette."""
    words: Words

    @property
    def name(self) -> str:
        """The name of the post-processing."""
        return self.result.postprocess

    @property
    def title(self) -> str:
        """What it does, in a few words; empty where nothing is known about it."""
        return self.result.rule.title

    @property
    def signed(self) -> bool:
        """Whether outputs can be below zero."""
        return self.result.rule.signed

    @cached_property
    def unit(self) -> Unit:
        """The unit of the biases: counts, percent, ..."""
        return unit_of(self.result.problem.unit, self.words.unit, self.words.currency)

    @property
    def about(self) -> str:
        """What the result is about, for the choice of words: a release, an allocation or a decision."""
        return "decision" if self.result.problem.unit == "decision" else self.result.problem.task

    @property
    def measured(self) -> str:
        """What the numbers are, for the caption of a table."""
        people = f"Published counts, in {self.words.unit}"
        known = {
            "people": people,
            "money": "Money",
            "share": "Shares of the budget",
            "decision": "Chances to be let in",
        }
        return known.get(self.result.overall.unit, self.result.overall.unit.capitalize())

    @cached_property
    def cash(self) -> Unit | None:
        """The unit of money, for an allocation with a budget."""
        return None if self.result.money is None else money(self.words.currency)

    @property
    def shown(self) -> Unit:
        """The unit of sentences and headlines: money where there is some."""
        return self.cash or self.unit

    @property
    def per(self) -> float:
        """From the unit of the bias to the one shown."""
        return 1.0 if self.cash is None or self.result.budget is None else self.result.budget

    def amount(
        self, value: float, error: float = 0.0, *, signed: bool = False, brief: bool = False, toward: int = 0
    ) -> Html:
        """A bias in the unit shown."""
        return tagged(self.shown, value * self.per, error * self.per, signed=signed, brief=brief, toward=toward)

    @property
    def bare(self) -> Unit:
        """The unit shown without its name, for tables whose caption says it."""
        return self.shown if self.about != "release" else Unit()

    def cell(self, value: float, error: float = 0.0, *, signed: bool = False) -> Html:
        """A bias in a table."""
        return tagged(self.bare, value * self.per, error * self.per, signed=signed)

    def certain(self, estimate: Estimate, *, bare: bool = False) -> Html:
        """How sure an estimate of a bias is, in the unit shown."""
        return certainty(self.bare if bare else self.shown, estimate.scaled(self.per))

    @property
    def kind(self) -> Kind:
        """The sense in which the biases are known."""
        return self.result.accuracy.kind

    @property
    def way(self) -> str:
        """How the numbers came about, a term of the glossary."""
        return way(self.result.method)

    @property
    def simulated(self) -> bool:
        """Whether chance was used."""
        return self.result.accuracy.kind == "interval"

    @property
    def resolved(self) -> bool:
        """Whether alpha is told from zero."""
        alpha = self.result.alpha
        return not self.simulated or alpha.low > 0 or alpha.high == 0

    @property
    def confidence(self) -> str:
        """How surely the intervals cover, where chance was used."""
        sure = self.result.engine.confidence
        return "" if sure is None else f"{100 * sure:g} %"

    def _extreme(self, which: int) -> Extreme:
        r = self.result
        i = r.counts.ids.index(r.alpha_pair[which])
        same = (r.counts.values == r.counts.values[i]) & (r.counts.weights == r.counts.weights[i])
        alike = int(np.sum(same & (r.bias == r.bias[i]))) - 1
        return self._one(i, alike)

    def _one(self, i: int, alike: int = 0) -> Extreme:
        r, x = self.result, float(self.result.counts.values[i])
        bias, half, due = (float(v[i]) for v in (r.bias, r.accuracy.half_width, r.truth))
        return Extreme(r.counts.name(i), r.counts.ids[i], x, due, bias, half, alike)

    def part(self, extreme: Extreme, *, signed: bool = False) -> Html:
        """Its bias relative to what is due, without a sign unless `signed`; empty where nothing is due."""
        if extreme.relative is None:
            return Html("")
        value = extreme.relative if signed else abs(extreme.relative)
        return tagged(RELATIVE, value, extreme.error / extreme.due, signed=signed)

    @cached_property
    def most(self) -> Extreme:
        """Who has the largest bias."""
        return self._extreme(0)

    @cached_property
    def least(self) -> Extreme:
        """Who has the smallest bias."""
        return self._extreme(1)

    @cached_property
    def hardest(self) -> Extreme | None:
        """Who has the smallest bias relative to what is due; None where nobody is due anything."""
        r = self.result
        due = r.truth > 0
        if not due.any():
            return None
        return self._one(int(np.argmin(np.where(due, r.bias / np.where(due, r.truth, 1.0), np.inf))))

    @cached_property
    def size(self) -> Floats:
        """What "large" means: the true count, or the true share."""
        return self.result.truth if self.result.problem.task == "allocation" else self.result.counts.values

    @cached_property
    def direction(self) -> str:
        """`direction` of the biases that are told from zero."""
        return direction(self.size, self.result.bias, self.result.accuracy.half_width)

    @property
    def rmse(self) -> float:
        """The root of the mean over entities of the mean squared error."""
        return self.result.moments.price["root_mean_squared_error"]

    @property
    def deviation(self) -> float:
        """The mean standard deviation."""
        return self.result.moments.price["mean_standard_deviation"]

    @property
    def zero(self) -> float:
        """The mean probability of receiving 0."""
        return self.result.moments.price["mean_probability_of_zero"]

    @property
    def grouped(self) -> bool:
        """Whether every group shares a budget of its own (without amounts true shares then add up to more than 1)."""
        return self.result.problem.task == "allocation" and self.result.rule.grouped


def direction(size: Floats, bias: Floats, half_width: Floats) -> str:
    """Where expectation moves, among the biases that are told from zero.

    "down": from large to small. Take a unit of what is lost and a unit of what is gained, both at random; the chance
    that the loser is the larger entity (ties count half) is the Mann-Whitney statistic of size between losses and gains,
    weighted by amounts. It is at least CLEAR for "down", at most 1 - CLEAR for "up", and "none" lies between.
    "raise" and "lower": all on one side; "still": every bias is 0; "unresolved": nothing is told from zero.
    """
    if not np.any(bias):
        return "still" if not np.any(half_width) else "unresolved"
    known = np.where(np.abs(bias) > half_width, bias, 0.0)
    gain, loss = np.maximum(known, 0.0), np.maximum(-known, 0.0)
    if not loss.any() and not gain.any():
        return "unresolved"
    if not loss.any():
        return "raise"
    if not gain.any():
        return "lower"
    _, member = np.unique(size, return_inverse=True)
    won, lost = np.bincount(member, gain), np.bincount(member, loss)
    below = np.cumsum(won) - won / 2
    chance = float(np.sum(lost / lost.sum() * (below / won.sum())))
    return "down" if chance >= CLEAR else "up" if chance <= 1 - CLEAR else "none"


def split(size: Floats, bias: Floats, half_width: Floats) -> tuple[float, float] | None:
    """The largest size that gains and the smallest that loses, where all gains lie below all losses; else None."""
    gains, losses = size[bias > half_width], size[bias < -half_width]
    if gains.size == 0 or losses.size == 0 or gains.max() >= losses.min():
        return None
    return float(gains.max()), float(losses.min())


def by_unit(results: Sequence[Audit], words: Words) -> dict[str, list[View]]:
    """The views by what they are measured in, release first: what is compared has one unit. Each in the order given."""
    ordered = sorted(results, key=lambda r: r.problem.task != "release")
    places = palette.slots([r.postprocess for r in ordered])
    views = [View(r, place, words) for r, place in zip(ordered, places, strict=True)]
    units = dict.fromkeys(v.result.overall.unit for v in views)
    return {unit: [v for v in views if v.result.overall.unit == unit] for unit in units}
