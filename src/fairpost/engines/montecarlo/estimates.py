"""What simulation has shown about one post-processing: estimates, their intervals and how they came about."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate
from fairpost.engines.montecarlo import intervals
from fairpost.engines.montecarlo.totals import Totals
from fairpost.rules.control import Control

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sampled:
    """Moments of a post-processed release from simulation, one entry per entity.

    The unit is that of the output: counts for a release, shares of 1 for an allocation.
    """

    bias: Floats
    """B_i = E[pi(X)_i] - P(x)_i, with the control variate; entities that must have the same bias share one estimate."""
    standard_error: Floats
    """The standard error of each bias, from the sample."""
    half_width: Floats
    """All biases lie within bias +- half_width together, with chance `confidence`."""
    deviation: Floats
    """The standard deviation of each output."""
    mse: Floats
    """E[(pi(X)_i - P(x)_i)^2]: the plain mean of the squares, which bias and variance with a control each would not add up to."""
    mse_half_width: Floats
    """Likewise for `mse`, from the scatter of the blocks' own means and what may not have been seen; infinite below two blocks."""
    zero: Floats
    """The share of runs in which the entity receives 0."""
    zero_half_width: Floats
    """Likewise for `zero`."""
    plain: Floats
    """The plain mean of pi(X)_i - P(x)_i, entity by entity: the oracle that the control variate is tested against."""
    plain_error: Floats
    """The standard error of `plain`."""
    alpha: Estimate
    """max B - min B with an interval that covers it with chance `confidence`."""
    pair: tuple[int, int]
    """The positions of the entities with the largest and the smallest bias."""
    reduction: float | None
    """Plain variance over control-variate variance, for alpha's two entities; None where the latter is 0."""
    degenerate: int
    """How many (run, group) problems took the documented convention."""
    runs: int
    seed: int
    confidence: float
    interrupted: bool
    total_off: Estimate | None = None
    """The sum of the biases, with an interval of its own; None in units that differ from entity to entity."""

    def rescaled(self, part: Floats) -> Sampled:
        """The same in another unit per entity (part >= 0). All biases lie within their half-widths together still."""
        powers = dict.fromkeys(("bias", "standard_error", "half_width", "deviation", "plain", "plain_error"), 1)
        powers |= {"mse": 2, "mse_half_width": 2}
        scaled = {name: np.where(part > 0, getattr(self, name), 0.0) * part**k for name, k in powers.items()}
        return self._with(scaled, total_off=None)

    def at(self, who: NDArray[np.int64]) -> Sampled:
        """The same about some entities."""
        return self._with(
            {f.name: getattr(self, f.name)[who] for f in fields(self) if f.type == "Floats"}, reduction=None
        )

    def _with(self, entries: Any, **more: Any) -> Sampled:
        """With other numbers for each entity, and what follows from them."""
        ends = fairness.alpha(entries["bias"])
        alpha = fairness.alpha_interval(entries["bias"], Accuracy("interval", entries["half_width"]))
        return replace(self, **entries, alpha=alpha, pair=(ends.most, ends.least), **more)

    @property
    def resolved(self) -> bool:
        """Whether the interval of alpha tells it from 0 (or alpha is exactly 0)."""
        return self.alpha.low > 0 or self.alpha.high == 0

    @property
    def statement(self) -> str:
        """One sentence on what the runs have shown about alpha."""
        a, share = self.alpha, f"{100 * self.confidence:g} %"
        at = f"at {self.runs} runs{', where it was interrupted' if self.interrupted else ''}"
        if self.resolved:
            return f"alpha is {a.value:.6g}, from {a.low:.6g} to {a.high:.6g} with {share} confidence, {at}"
        return f"not resolved {at}: alpha is at most {a.high:.6g} with {share} confidence"


def sampled(
    totals: Totals,
    p: int,
    split: Control,
    known: bool,
    ends: tuple[int, int],
    seed: int,
    confidence: float,
    interrupted: bool,
) -> Sampled:
    """The result of post-processing p; `known`: Theorem 1 names the pair `ends`."""
    runs, level = totals.runs, 1 - confidence
    mean_d, squares_d, mean_e, squares_e, zeros = (totals.plane(p, k) for k in range(5))
    labels = split.labels if totals.members.size else None
    found = intervals.classes(
        mean_d, squares_d, split.scale, labels, totals.ties[p], runs, totals.blocks, level, split.chance
    )
    if split.kept is not None:
        found = intervals.with_sums(found, mean_e, squares_d, split.kept)
    alpha, most, least = intervals.alpha_of_classes(found)
    pair = totals.pairs[p]
    if known:
        most, least = ends
        scale = float(max(split.scale[most], split.scale[least]))
        alpha = intervals.alpha_of_pair(float(pair[0]), float(pair[1]), scale, runs, level, split.chance)
    squares = (pair[4], pair[1]) if known else (squares_e[[most, least]].sum(), squares_d[[most, least]].sum())
    inverse = found.inverse
    bias = found.bias[inverse] + split.offset
    mse = _shared(totals.squares[p, 0], labels)
    each = np.sqrt(squares_d / max(runs - 1, 1) / runs)
    off = intervals.of_total(each, totals.between(p), split.scale, runs, totals.blocks, level, split.chance)
    zero = _shared(zeros, labels) / runs
    return Sampled(
        bias=bias,
        standard_error=found.standard_error[inverse],
        half_width=found.half_width[inverse],
        deviation=np.sqrt(_shared(squares_e, labels) / max(runs - 1, 1)),
        mse=mse,
        mse_half_width=_shared(
            intervals.of_squares(mse, totals.squares[p, 1], split.scale, runs, totals.blocks, level, split.chance),
            labels,
        ),
        zero=zero,
        zero_half_width=intervals.of_chances(zero, runs, level),
        plain=mean_e + split.offset,
        plain_error=np.sqrt(squares_e / max(runs - 1, 1) / runs),
        alpha=alpha,
        pair=(most, least),
        total_off=Estimate.around(float(np.sum(bias)), off, "interval"),
        reduction=float(squares[0] / squares[1]) if squares[1] > 0 else None,
        degenerate=int(totals.degenerate[p]),
        runs=runs,
        seed=seed,
        confidence=confidence,
        interrupted=interrupted,
    )


def _shared(values: Floats, labels: NDArray[np.int64] | None) -> Floats:
    """Averages over the entities with the same law."""
    if labels is None:
        return values
    return np.asarray((np.bincount(labels, values) / np.bincount(labels))[labels])
