"""What `audit` returns: one frozen result with its uncertainty and its provenance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.bounds import Bounds
from fairpost.budgets import GroupBudgets
from fairpost.counts import Counts
from fairpost.fairness import Estimate, Summary
from fairpost.mechanisms import Mechanism

if TYPE_CHECKING:
    from fairpost.engines.sampled import Sampled

Floats = NDArray[np.float64]
CONFIDENTIAL = "confidential: computed from true counts"


@dataclass(frozen=True)
class CostOfPrivacy:
    """Definition 5: what must be added to the budget so that nobody expects less than their due."""

    share: Estimate
    """As a share of the budget."""
    amount: Estimate | None
    """In money, where a budget was given."""

    def to_dict(self) -> dict[str, float | None]:
        """Plain data, for JSON."""
        return {"share": self.share.value, "amount": None if self.amount is None else self.amount.value}


@dataclass(frozen=True, eq=False)
class AuditResult:
    """The bias of one post-processing, entity by entity, and what follows from it.

    Biases are in counts for a release, in shares of the budget for an allocation (by group without a budget: in shares
    of each group's own). An audit looks at the true counts, so it is
    itself not private: every output carries `mark`.
    """

    counts: Counts
    mechanism: Mechanism
    postprocess: str
    task: str
    method: str
    truth: Floats
    """P(x): the true counts, or the true shares."""
    bias: Floats
    """B = E[pi(X)] - P(x), one entry an entity."""
    error: Floats
    """Exact: a bound on the numerical error of each bias. Monte-Carlo: the standard error of each bias."""
    deviation: Floats
    """The standard deviation of each output."""
    mse: Floats
    """The mean squared error of each output, E[(pi(X)_i - P(x)_i)^2]."""
    zero: Floats
    """The probability that the entity receives 0."""
    alpha: Estimate
    """The range of the biases (Definition 2), with an interval from the error."""
    alpha_pair: tuple[str, str]
    """The ids of the entities with the largest and the smallest bias."""
    bounds: Bounds | None
    """Theorem 1, where it applies (the projection onto the simplex)."""
    cost_of_privacy: CostOfPrivacy | None
    """Definition 5, for an allocation."""
    expected_T: float | None
    """E[T] of Lemma 2, for the projection onto the simplex."""
    degenerate: float
    """The share (exact: the probability) of degenerate draws."""
    grouped: bool = False
    """Whether each group has its own problem: its own total, or its own budget to share."""
    budget: float | None = None
    """Money to share, in all."""
    budgets: GroupBudgets | None = None
    """Shares by group with a budget: each group's part of it. Biases are then in shares of the whole budget."""
    accuracy: str = "bound"
    """What `half_width` is: "bound" on the numerical error, error of an "expansion", or simulated "interval"."""
    runs: int | None = None
    seed: int | None = None
    note: str | None = None
    """Simulation: what the runs have shown, and why the exact engine was not used."""
    sample: Sampled | None = None
    """Simulation: everything the engine returned (plain estimator, variance reduction, simultaneous intervals)."""
    mark: str = CONFIDENTIAL

    @property
    def money(self) -> Floats | None:
        """What each entity gains or loses in expectation, in the unit of the budget; None for a release of counts."""
        if self.budget is None or self.task != "allocation":
            return None
        return fairness.misallocation(self.bias, self.budget)

    @property
    def half_width(self) -> Floats:
        """Every bias lies within bias +- half_width: exact, by the error bound; simulated, all with `confidence`."""
        return self.error if self.sample is None else self.sample.half_width

    @property
    def largest_loss(self) -> tuple[Estimate, str]:
        """The largest expected loss of any entity, in the unit of the bias and at least 0, and whose it is."""
        return fairness.loss_interval(self.bias, self.half_width), self.alpha_pair[1]

    @property
    def price(self) -> dict[str, float]:
        """What fairness costs in accuracy, over all entities, in the unit of the bias (the last one is a chance)."""
        return {
            "root_mean_squared_error": float(np.sqrt(np.mean(self.mse))),
            "mean_standard_deviation": float(np.mean(self.deviation)),
            "mean_probability_of_zero": float(np.mean(self.zero)),
        }

    def by_group(self) -> tuple[Summary, ...]:
        """The biases by group, every group listed; empty where the counts have no groups."""
        return () if self.counts.groups is None else fairness.by_group(self.bias, self.counts.groups)

    def by_size(self, edges: list[float] | None = None) -> tuple[Summary, ...]:
        """The biases by size of the true count."""
        return fairness.by_size(self.bias, self.counts.values, edges)

    def to_dict(self, *, entities: bool = False) -> dict[str, Any]:
        """The entry of `results` in the JSON of `fairpost audit`."""
        cost = self.cost_of_privacy
        out: dict[str, Any] = {
            "postprocess": self.postprocess,
            "by_group": self.grouped,
            "group_budgets": None if self.budgets is None else self.budgets.to_dict(),
            "method": self.method,
            "runs": self.runs,
            "seed": self.seed,
            "alpha": asdict(self.alpha),
            "alpha_pair": list(self.alpha_pair),
            "bounds": None if self.bounds is None else {"lower": self.bounds.lower, "upper": self.bounds.upper},
            "cost_of_privacy": None if cost is None else cost.to_dict(),
            "price": self.price,
            "expected_T": self.expected_T,
            "degenerate": self.degenerate,
            "variance_reduction": None if self.sample is None else self.sample.reduction,
            "note": self.note,
            "mark": self.mark,
        }
        if entities:
            out["entities"] = [
                {
                    "id": label,
                    "bias": float(b),
                    "half_width": float(w),
                    "accuracy": self.accuracy,
                    "standard_error": None if self.sample is None else float(e),
                    "standard_deviation": float(s),
                    "zero": float(z),
                }
                for label, b, w, e, s, z in zip(
                    self.counts.ids, self.bias, self.half_width, self.error, self.deviation, self.zero, strict=True
                )
            ]
        return out
