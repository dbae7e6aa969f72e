"""What follows from the biases of one audit: pure functions of its fields, each with its accuracy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate
from fairpost.counts import Counts
from fairpost.fairness import Summary
from fairpost.problems import Problem
from fairpost.results.cost import CostOfPrivacy
from fairpost.results.groups import GroupOutcome, group_outcomes
from fairpost.results.targets import Outcome, Targets, Verdict, together

Floats = NDArray[np.float64]


class Measures:
    """The derived half of `Audit`, which has these fields."""

    counts: Counts
    postprocess: str
    problem: Problem
    truth: Floats
    bias: Floats
    accuracy: Accuracy
    mse: Floats
    mse_accuracy: Accuracy
    zero: Floats
    zero_accuracy: Accuracy
    alpha: Estimate
    kept: tuple[float, ...] | None
    drawn_total: Estimate | None
    alpha_pair: tuple[str, str]
    budget: float | None
    targets: Targets

    @property
    def task(self) -> str:
        """Whether the output is counts ("release") or shares of a budget ("allocation")."""
        return self.problem.task

    @property
    def simulated(self) -> bool:
        """Whether chance was used, so that the biases have intervals."""
        return self.accuracy.kind == "interval"

    @property
    def half_width(self) -> Floats:
        """Every bias lies within bias +- half_width, in the sense of `accuracy.kind`; simulated: all together."""
        return self.accuracy.half_width

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each output."""
        return np.sqrt(np.maximum(self.mse - self.bias**2, 0.0))

    @property
    def money(self) -> Floats | None:
        """What each entity gains or loses in expectation, in the unit of the budget; None for a release of counts."""
        if self.budget is None or not self.problem.shares:
            return None
        return fairness.misallocation(self.bias, self.budget)

    @property
    def per(self) -> float:
        """From the unit of the bias to `unit`: the budget where there is money, else 1."""
        return 1.0 if self.money is None or self.budget is None else self.budget

    @property
    def unit(self) -> str:
        """What limits, curves and plans are in: money where there is a budget, else people, share, ..."""
        return self.problem.measured_in(self.budget)

    @property
    def relative(self) -> Floats:
        """B_i / P(x)_i: the bias relative to what is due (0.01: 1 %); NaN where nothing is due."""
        return self._relative()[0]

    @property
    def relative_half_width(self) -> Floats:
        """How well each is known, in the sense of `accuracy.kind`; NaN where nothing is due."""
        return self._relative()[1]

    def _relative(self) -> tuple[Floats, Floats]:
        return fairness.relative_to(self.bias, self.truth, self.accuracy, self.counts.n)

    def bias_of(self, i: int) -> Estimate:
        """The bias of entity i with its interval."""
        return Estimate.around(float(self.bias[i]), float(self.half_width[i]), self.accuracy.kind)

    def relative_of(self, i: int) -> Estimate | None:
        """The bias of entity i relative to what it is due, with its interval; None where nothing is due."""
        one = slice(i, i + 1)
        value, half = fairness.relative_to(self.bias[one], self.truth[one], self.accuracy.at(one), self.counts.n)
        return None if np.isnan(value[0]) else Estimate.around(float(value[0]), float(half[0]), self.accuracy.kind)

    def name_of(self, label: str) -> str:
        """What people call the entity with this id."""
        return label if self.counts.names is None else self.counts.name(self.counts.ids.index(label))

    @property
    def total_off(self) -> Estimate:
        """What all outputs add up to in expectation, less what everybody is due: the sum of the biases, in their unit."""
        if self.kept is not None:
            return Estimate.around(math.fsum(self.kept), 0.0)
        return self.drawn_total or fairness.sum_interval(self.bias, self.accuracy)

    @property
    def cost_of_privacy(self) -> CostOfPrivacy | None:
        """Definition 5, for an allocation."""
        if not self.problem.shares:
            return None
        share = fairness.cost_interval(self.bias, self.accuracy)
        return CostOfPrivacy(share, None if self.budget is None else share.scaled(self.budget))

    @property
    def largest_loss(self) -> tuple[Estimate, str]:
        """The largest expected loss of any entity, in the unit of the bias and at least 0, and whose it is."""
        return fairness.loss_interval(self.bias, self.accuracy), self.alpha_pair[1]

    @property
    def largest_relative_loss(self) -> tuple[Estimate, str | None]:
        """The largest expected loss relative to what the entity is due (0.01: 1 %), and whose it is.

        Entities that are due nothing have none; None where that is everybody.
        """
        found, who = fairness.relative_loss_interval(*self._relative(), self.accuracy.kind)
        return found, None if who is None else self.counts.ids[who]

    @property
    def rmse(self) -> Estimate:
        """The root of the mean over entities of the mean squared error, in the unit of the bias."""
        return fairness.rmse_interval(self.mse, self.mse_accuracy)

    @property
    def relative_rmse(self) -> Estimate | None:
        """The same relative to the mean of what is due (0.01: 1 %); None where nobody is due anything."""
        return fairness.relative_estimate(self.rmse, float(np.mean(self.truth)), self.counts.n)

    @property
    def mean_zero(self) -> Estimate:
        """The mean over entities of the probability of receiving 0."""
        return fairness.mean_interval(self.zero, self.zero_accuracy, 1.0)

    def quantity(self, target: str) -> Estimate | None:
        """One of `targets.TARGETS` in the unit of its limit (`unit`; what is relative in percent); None without a meaning."""
        if target == "relative_loss":
            return self.largest_relative_loss[0].scaled(100.0)
        if target == "relative_rmse":
            return None if self.relative_rmse is None else self.relative_rmse.scaled(100.0)
        if target == "cost":
            cost = self.cost_of_privacy
            return None if cost is None else cost.amount or cost.share
        return {"alpha": self.alpha, "loss": self.largest_loss[0], "rmse": self.rmse}[target].scaled(self.per)

    def whose(self, target: str) -> str | None:
        """The id of the entity that attains a quantity, where one does."""
        return {"loss": self.largest_loss[1], "relative_loss": self.largest_relative_loss[1]}.get(target)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Whether each of `targets` is met, with what was reached."""
        return self.targets.judge(self)

    @property
    def outcome(self) -> Outcome | None:
        """All targets together: passes, fails or unsure; None without targets."""
        return together(v.outcome for v in self.verdicts) if self.targets else None

    @property
    def groups(self) -> tuple[GroupOutcome, ...]:
        """What each group gains or loses as a whole, and who in it loses most; empty where the counts have no groups."""
        return group_outcomes(self)

    @property
    def price(self) -> dict[str, float]:
        """What fairness costs in accuracy, over all entities, in the unit of the bias (the last one is a chance)."""
        return {
            "root_mean_squared_error": float(np.sqrt(np.mean(self.mse))),
            "mean_standard_deviation": float(np.mean(self.deviation)),
            "mean_probability_of_zero": float(np.mean(self.zero)),
        }

    @property
    def wrong_chance(self) -> Floats | None:
        """The chance that noise leaves out an entity that is due something, or lets in one that is not; else None."""
        return np.where(self.truth != 0, self.zero, 1.0 - self.zero) if self.problem.decides else None

    @property
    def wrong(self) -> dict[str, float] | None:
        """How many entities are expected to be wrongly left out and let in; None where the problem decides nothing."""
        chance = self.wrong_chance
        if chance is None:
            return None
        due = self.truth != 0
        return {"out": float(chance[due].sum()), "in": float(chance[~due].sum())}

    def by_group(self) -> tuple[Summary, ...]:
        """The biases by group, every group listed; empty where the counts have no groups."""
        return () if self.counts.groups is None else fairness.by_group(self.bias, self.counts.groups)

    def by_size(self, edges: list[float] | None = None) -> tuple[Summary, ...]:
        """The biases by size of the true count."""
        return fairness.by_size(self.bias, self.counts.values, edges)
