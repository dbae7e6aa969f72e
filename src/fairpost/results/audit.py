"""What `audit` returns: one frozen result with its uncertainty and its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.accuracy import Accuracy, Estimate
from fairpost.bounds.theorems import Bounds
from fairpost.budgets import GroupBudgets
from fairpost.counts import Counts
from fairpost.engines.base import Answer
from fairpost.errors import InputError, ToleranceError
from fairpost.noise import Mechanism
from fairpost.partition import Partition
from fairpost.problems import Problem
from fairpost.results.base import CONFIDENTIAL, Columns, Result, known, label, noise_words, number
from fairpost.results.columns import about, beside, or_none, reason, whole_numbers
from fairpost.results.cost import CostOfPrivacy
from fairpost.results.figures import Series, drawn
from fairpost.results.measures import Measures
from fairpost.results.reading import audit_fields, one_line
from fairpost.results.targets import NONE, TARGETS, UNITS, Targets
from fairpost.results.writing import audit_entry
from fairpost.rules import PostProcessing

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from fairpost.engines.montecarlo.estimates import Sampled

Floats = NDArray[np.float64]
__all__ = ["CONFIDENTIAL", "Audit", "CostOfPrivacy"]


def _refuse_nan(name: str, answer: Answer) -> None:
    """No number that is none leaves an engine: what it could not hold in a float is an error, by name and place."""
    for what, values in (("bias", answer.bias), ("mean squared error", answer.mse), ("probability of 0", answer.zero)):
        bad = ~np.isfinite(values)
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            raise ToleranceError(
                f"{name}: the {answer.method} engine cannot hold the {what} of entity {place} in a float, got "
                f"{values[place]} (magnitudes of counts and noise too far apart)"
            )
    if not np.isfinite([answer.alpha.value, answer.alpha.low, answer.alpha.high]).all():
        raise ToleranceError(f"{name}: the {answer.method} engine cannot hold alpha in a float, got {answer.alpha}")


def _kept(pi: PostProcessing, counts: Counts) -> tuple[float, ...] | None:
    """By how much totals are off by construction: for each group of the counts where those are the groups of the rule."""
    off = pi.total_off(counts)
    if off is None:
        return None
    if pi.partition is not None and (counts.groups is None or not pi.partition.same(Partition.of(counts.groups))):
        off = np.array([np.sum(off)])
    return tuple(off.tolist())


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Measures, Result):
    """The bias of one post-processing, entity by entity, and what follows from it.

    Biases are in counts for a release, in shares of the budget for an allocation (by group without a budget: in shares of
    each group's own). An audit looks at the true counts, so it is itself not private: every output carries `mark`.
    """

    counts: Counts
    mechanism: Mechanism
    postprocess: str
    """The name of pi."""
    problem: Problem
    """P, what the output is compared with."""
    method: str
    """How the biases were found: exact, expansion, conditional, monte-carlo."""
    truth: Floats
    """P(x): the true counts, or the true shares."""
    bias: Floats
    """B = E[pi(X)] - P(x), one entry per entity."""
    accuracy: Accuracy
    """How well each bias is known, and in which sense."""
    mse: Floats
    """The mean squared error of each output, E[(pi(X)_i - P(x)_i)^2]."""
    mse_accuracy: Accuracy
    zero: Floats
    """The probability that the entity receives 0."""
    zero_accuracy: Accuracy
    alpha: Estimate
    """The range of the biases (Definition 2), with an interval from their accuracy."""
    alpha_pair: tuple[str, str]
    """The ids of the entities with the largest and the smallest bias."""
    kept: tuple[float, ...] | None = None
    """By how much totals are off where that is known by construction: one number, or one for each group with its own problem.

    0 of a rule that keeps the true totals. None: `total_off` comes from the biases.
    """
    drawn_total: Estimate | None = None
    """Simulation: the sum of the biases, with an interval of its own."""
    bounds: Bounds | None = None
    """Theorem 1, where it applies (the projection onto the simplex)."""
    expected_T: Estimate | None = None
    """E[T] of Lemma 2, for the projection onto the simplex."""
    degenerate: float = 0.0
    """How often the documented convention was needed: the probability of a degenerate draw (simulated: the share of draws).

    By group: of a group and a draw, the mean over groups; not the chance that some group has one.
    """
    grouped: bool = False
    """Whether each group has its own problem: its own total, or its own budget to share."""
    budget: float | None = None
    """Money to share, in all."""
    budgets: GroupBudgets | None = None
    """Shares by group with a budget: each group's part of it. Biases are then in shares of the whole budget."""
    base_noise: Mechanism | None = None
    """The noise that base populations carry besides; None: they are public, or there are none."""
    title: str = ""
    """What pi does, in a few words."""
    signed: bool = False
    """Whether outputs can be below 0."""
    runs: int | None = None
    seed: int | None = None
    confidence: float | None = None
    """Simulation: the chance with which an interval covers."""
    standard_error: Floats | None = None
    """Simulation: of each bias."""
    variance_reduction: float | None = None
    """Simulation: by how much the control variate cut the variance of alpha."""
    interrupted: bool = False
    """Simulation: whether Ctrl-C ended it."""
    note: str | None = None
    """Why this engine and not another, and what the runs have shown."""
    sample: Sampled | None = None
    """Simulation: everything the engine found (plain estimator too); not part of the JSON."""
    targets: Targets = NONE
    """What must not be exceeded; `verdicts` says whether it is."""
    mark: str = CONFIDENTIAL

    @property
    def draws(self) -> str | None:
        """How often the noise was drawn, in words: runs, or points at which conditional means were taken."""
        if self.runs is None:
            return None
        return f"{self.runs:,} {'points' if self.method == 'conditional' else 'runs'}"

    @classmethod
    def of(
        cls,
        counts: Counts,
        mechanism: Mechanism,
        pi: PostProcessing,
        answer: Answer,
        truth: Floats,
        budget: float | None = None,
        budgets: GroupBudgets | None = None,
        targets: Targets = NONE,
    ) -> Audit:
        """The result of one answer; with budgets by group, `truth` and `answer` are already in shares of the whole."""
        s, drawn = answer.sample, answer.drawn
        _refuse_nan(pi.name, answer)
        ends = (counts.ids[answer.pair[0]], counts.ids[answer.pair[1]])
        return cls(
            counts=counts,
            mechanism=mechanism,
            postprocess=pi.name,
            problem=pi.problem,
            method=answer.method,
            truth=truth,
            bias=answer.bias,
            accuracy=answer.accuracy,
            mse=answer.mse,
            mse_accuracy=answer.mse_accuracy,
            zero=answer.zero,
            zero_accuracy=answer.zero_accuracy,
            alpha=answer.alpha,
            alpha_pair=ends,
            kept=_kept(pi, counts),
            drawn_total=answer.total_off,
            bounds=pi.bounds(counts, mechanism, None if answer.expected_T is None else answer.expected_T.value),
            expected_T=answer.expected_T,
            degenerate=answer.degenerate,
            grouped=pi.partition is not None,
            budget=budget,
            budgets=budgets,
            base_noise=getattr(pi.problem, "base_noise", None),
            title=pi.title,
            signed=pi.signed,
            runs=None if drawn is None else drawn.runs,
            seed=None if drawn is None else drawn.seed,
            confidence=None if drawn is None else drawn.confidence,
            standard_error=None if s is None or answer.accuracy.kind != "interval" else s.standard_error,
            variance_reduction=None if s is None else s.reduction,
            interrupted=s is not None and s.interrupted,
            note=answer.note,
            sample=s,
            targets=targets,
        )

    def to_dict(self, *, entities: bool = False) -> dict[str, Any]:
        """The entry of `results` in the JSON of `fairpost audit`; with every entity, `from_dict` reads it back."""
        return audit_entry(self, entities=entities)

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], counts: Counts, mechanism: Mechanism, *, budget: float | None = None
    ) -> Audit:
        """The inverse of `to_dict(entities=True)`; what the entry does not repeat is given: x, M and the whole budget."""
        with one_line("an entry of `results`"):
            if "entities" not in data:
                raise InputError(
                    f"the result of {data['postprocess']} cannot be read back: it was written without --entities"
                )
            return cls(**audit_fields(data, counts, mechanism, budget))

    def columns(self) -> Columns:
        """One row per entity: what it is, what it is due, its bias and how well that is known; in the unit of the bias."""
        said = {self.problem.column: whole_numbers(self.truth)} | self.own_columns()
        return beside(self.counts, about(self.counts) | said | {"confidential": [reason(self.mark)] * self.counts.n})

    def own_columns(self, prefix: str = "") -> Columns:
        """The columns that differ from one post-processing to the next."""
        found: Columns = {
            "bias": self.bias,
            "half_width": self.half_width,
            "accuracy": [self.accuracy.kind] * self.counts.n,
            "standard_error": self.standard_error,
            "standard_deviation": self.deviation,
            "zero": self.zero,
            "money": self.money,
            "relative_bias": or_none(self.relative),
            "relative_half_width": or_none(self.relative_half_width),
        }
        return {f"{prefix}{name}": values for name, values in found.items() if values is not None}

    def plot(self) -> go.Figure:
        """The bias of each entity against what it is due, with intervals where it was simulated."""
        factor, unit = (
            (1.0, f"bias ({self.problem.unit})") if self.money is None else (self.budget or 0.0, "bias (money)")
        )
        bias, half = self.bias * factor, self.half_width * factor
        ends = (bias - half, bias + half) if self.simulated else (None, None)
        names = [self.counts.name(i) for i in range(self.counts.n)]
        points = Series(self.postprocess, self.truth, bias, names, *ends)
        return drawn(f"{self._head()}; {self.mark}", self.problem.column.replace("_", " "), unit, [points])

    def _head(self) -> str:
        return f"Audit of {self.postprocess}: {self.counts.n:,} entities, {noise_words(self.mechanism)}"

    def _facts(self) -> list[tuple[str, str]]:
        a, cost, price = self.alpha, self.cost_of_privacy, self.price
        facts = [
            ("alpha", known(a, f" {self.problem.unit}")),
            ("total off", "0 by construction" if self.kept and not any(self.kept) else known(self.total_off)),
            ("gains most", self._end(0)),
            ("loses most", self._end(1)),
        ]
        if cost is not None:
            facts.append(("cost of privacy", str(cost)))
        facts += [
            (
                "price",
                f"RMSE {number(price['root_mean_squared_error'])}, P(0) {price['mean_probability_of_zero']:.3%} on average",
            ),
            ("found by", self.method if self.draws is None else f"{self.method}, {self.draws}, seed {self.seed}"),
        ]
        facts += [(v.outcome, f"{TARGETS[v.target]} {known(v.reached, UNITS.get(v.unit, ''))}") for v in self.verdicts]
        return facts + ([("note", self.note)] if self.note else [])

    def _end(self, which: int) -> str:
        i = self.counts.ids.index(self.alpha_pair[which])
        money = (
            ""
            if self.money is None
            else f" = {number(float(self.money[i]), signed=True)} of {number(self.budget or 0.0)}"
        )
        part = self.relative_of(i)
        due = "" if part is None else f", {number(100 * part.value, signed=True)} % of its due"
        return f"{label(self.counts.name(i))} {number(float(self.bias[i]), signed=True)}{money}{due}"
