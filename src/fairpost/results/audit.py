"""What `audit` returns: the biases of one post-processing, how well they are known, and what follows from them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate
from fairpost.budgets import GroupBudgets
from fairpost.counts import Counts
from fairpost.errors import InputError, ToleranceError
from fairpost.noise import Mechanism
from fairpost.partition import Partition
from fairpost.problems import Problem, Proportional, Release
from fairpost.problems.base import Unit
from fairpost.results import documents
from fairpost.results.base import (
    CONFIDENTIAL,
    Columns,
    Numbers,
    Result,
    about,
    known,
    label,
    name_by_id,
    noise_words,
    number,
    or_none,
    reason,
    with_kept,
)  # fmt: skip
from fairpost.results.documents import Point, columns, made, rows, told
from fairpost.results.figures import Series, drawn
from fairpost.results.points import CostOfPrivacy, Extreme, entry, spread
from fairpost.results.targets import NONE, TARGETS, UNITS, Outcome, Targets, Verdict, together

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from fairpost.bounds.theorems import Bounds
    from fairpost.engines.base import Answer
    from fairpost.engines.montecarlo.estimates import Sampled
    from fairpost.fairness import Summary
    from fairpost.rules import PostProcessing

Floats = NDArray[np.float64]
__all__ = [
    "CONFIDENTIAL",
    "Applied",
    "Audit",
    "CostOfPrivacy",
    "Found",
    "GroupOutcome",
    "Moments",
    "Overall",
    "Relative",
]


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of each output beside its bias, one entry per entity, in the unit of the bias."""

    mse: Floats
    """The mean squared error, E[(pi(X)_i - P(x)_i)^2]."""
    mse_accuracy: Accuracy
    zero: Floats
    """The probability that the entity receives 0."""
    zero_accuracy: Accuracy
    deviation: Floats
    """The standard deviation."""

    @property
    def rmse(self) -> Estimate:
        """The root of the mean over entities of the mean squared error."""
        return fairness.rmse_interval(self.mse, self.mse_accuracy)

    @property
    def mean_zero(self) -> Estimate:
        """The mean over entities of the probability of receiving 0."""
        return fairness.mean_interval(self.zero, self.zero_accuracy, 1.0)

    @property
    def price(self) -> dict[str, float]:
        """What fairness costs in accuracy, over all entities (the last one is a chance)."""
        return {
            "root_mean_squared_error": float(np.sqrt(np.mean(self.mse))),
            "mean_standard_deviation": float(np.mean(self.deviation)),
            "mean_probability_of_zero": float(np.mean(self.zero)),
        }


@dataclass(frozen=True, eq=False)
class Found:
    """How the engine has found the biases, and what its runs have shown."""

    note: str | None = None
    """Why this engine and not another, and what the runs have shown."""
    runs: int | None = None
    """Of the simulation, or points at which conditional means were taken; None where no chance was used."""
    seed: int | None = None
    confidence: float | None = None
    """The chance with which an interval covers."""
    interrupted: bool = False
    """Whether Ctrl-C ended the simulation."""
    standard_error: Floats | None = None
    """Of each bias."""
    variance_reduction: float | None = None
    """By how much the control variate cut the variance of alpha."""
    total: Estimate | None = None
    """The sum of the biases, with an interval of its own."""
    sample: Sampled | None = None
    """Everything that the simulation found (plain estimator too); not part of the JSON."""

    def draws(self, method: str) -> str | None:
        """How often the noise was drawn, in words."""
        return None if self.runs is None else f"{self.runs:,} {'points' if method == 'conditional' else 'runs'}"


@dataclass(frozen=True, eq=False)
class Applied:
    """The post-processing as it was applied to these counts."""

    title: str = ""
    """What it does, in a few words."""
    signed: bool = False
    """Whether outputs can be below 0."""
    grouped: bool = False
    """Whether each group has its own problem: its own total, or its own budget to share."""
    budgets: GroupBudgets | None = None
    """Shares by group with a budget: each group's part of it. Biases are then in shares of the whole budget."""
    base_noise: Mechanism | None = None
    """The noise that base populations carry besides; None: they are public, or there are none."""
    kept: tuple[float, ...] | None = None
    """By how much totals are off where that is known by construction: one number, or one for each group with its own problem.

    0 of a rule that keeps the true totals. None: the total comes from the biases.
    """
    degenerate: float = 0.0
    """How often the documented convention was needed: the probability of a degenerate draw (simulated: the share of draws).

    By group: of a group and a draw, the mean over groups; not the chance that some group has one.
    """
    expected_T: Estimate | None = None
    """E[T] of Lemma 2, for the projection onto the simplex."""
    bounds: Bounds | None = None
    """Theorem 1, where it applies (the projection onto the simplex)."""
    targets: Targets = NONE
    """What it must not exceed here; `Audit.overall.verdicts` says whether it does."""


@dataclass(frozen=True, eq=False)
class Relative(Numbers):
    """B_i / P(x)_i: the biases relative to what is due (0.01: 1 %); NaN where nothing is due. As an array it is `bias`."""

    bias: Floats
    accuracy: Accuracy
    """How well each is known; the half-width is NaN where nothing is due."""
    ids: tuple[str, ...]

    @property
    def _numbers(self) -> Floats:
        return self.bias

    @property
    def half_width(self) -> Floats:
        """Every relative bias lies within bias +- half_width, in the sense of `accuracy.kind`."""
        return self.accuracy.half_width

    def of(self, i: int) -> Estimate | None:
        """That of entity i with its interval; None where nothing is due."""
        return None if np.isnan(self.bias[i]) else entry(self.bias, self.accuracy, i)

    @property
    def largest_loss(self) -> Extreme:
        """The largest expected loss relative to what the entity is due, and whose it is.

        Entities that are due nothing have none; the id is None where that is everybody.
        """
        found, who = fairness.relative_loss_interval(self.bias, self.half_width, self.accuracy.kind)
        return Extreme.of(found, None if who is None else self.ids[who])


class Overall(Point, kw_only=True, frozen=True):
    """The numbers over all entities, in one unit (money where there is a budget), and the verdicts of the targets."""

    audit: Audit
    """What they are of."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Whether each target is met, with what was reached."""
        return self.audit.rule.targets.judge(self)

    @property
    def outcome(self) -> Outcome | None:
        """All targets together: passes, fails or unsure; None without targets."""
        return together(v.outcome for v in self.verdicts) if self.audit.rule.targets else None

    @property
    def wrong_chance(self) -> Floats | None:
        """The chance that noise leaves out an entity that is due something, or lets in one that is not; else None."""
        r = self.audit
        return np.where(r.truth != 0, r.moments.zero, 1.0 - r.moments.zero) if r.problem.decides else None

    @property
    def wrong(self) -> dict[str, float] | None:
        """How many entities are expected to be wrongly left out and let in; None where the problem decides nothing."""
        chance = self.wrong_chance
        if chance is None:
            return None
        due = self.audit.truth != 0
        return {"out": float(chance[due].sum()), "in": float(chance[~due].sum())}

    def by_group(self) -> tuple[Summary, ...]:
        """The biases by group, every group listed; empty where the counts have no groups."""
        r = self.audit
        return () if r.counts.groups is None else fairness.by_group(r.bias, r.counts.groups)

    def by_size(self, edges: list[float] | None = None) -> tuple[Summary, ...]:
        """The biases by size of the true count."""
        return fairness.by_size(self.audit.bias, self.audit.counts.values, edges)


PARTS = {
    "engine": ("note", "runs", "seed", "confidence", "interrupted", "standard_error", "variance_reduction", "sample"),
    "moments": ("mse", "mse_accuracy", "zero", "zero_accuracy", "deviation", "rmse", "mean_zero", "price"),
    "rule": (
        "title",
        "signed",
        "grouped",
        "budgets",
        "base_noise",
        "kept",
        "degenerate",
        "expected_T",
        "bounds",
        "targets",
    ),
    "overall": (
        *("unit", "relative_rmse", "verdicts", "outcome", "quantity", "whose"),
        *("wrong", "wrong_chance", "by_group", "by_size"),
    ),
    "accuracy": ("half_width",),
    "problem": ("task",),
}
MOVED = {name: f"{part}.{name}" for part, names in PARTS.items() for name in names} | {
    "relative_half_width": "relative.half_width",
    "relative_of": "relative.of",
    "largest_relative_loss": "relative.largest_loss",
}
"""Where the attributes of earlier versions are now."""


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
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
    moments: Moments
    """Beside the bias: mean squared error, standard deviation, the chance of 0."""
    alpha: Estimate
    """The range of the biases (Definition 2), with an interval from their accuracy."""
    alpha_pair: tuple[str, str]
    """The ids of the entities with the largest and the smallest bias."""
    budget: float | None = None
    """Money to share, in all."""
    rule: Applied = field(default_factory=Applied)
    """The post-processing as it was applied: what it does, by group or not, which totals it keeps."""
    engine: Found = field(default_factory=Found)
    """How the engine has found the biases: runs, seed, confidence, and a note."""
    mark: str = CONFIDENTIAL

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Attributes of earlier versions, with a warning."""
            if name not in MOVED:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(f"`Audit.{name}` is now `Audit.{MOVED[name]}`", FutureWarning, stacklevel=2)
            return attrgetter(MOVED[name])(self)

    @property
    def total_off(self) -> Estimate:
        """What all outputs add up to in expectation, less what everybody is due: the sum of the biases, in their unit."""
        if self.rule.kept is not None:
            return Estimate.around(math.fsum(self.rule.kept), 0.0)
        return self.engine.total or fairness.sum_interval(self.bias, self.accuracy)

    @property
    def largest_loss(self) -> Extreme:
        """The largest expected loss of any entity, in the unit of the bias and at least 0, and whose it is."""
        return Extreme.of(fairness.loss_interval(self.bias, self.accuracy), self.alpha_pair[1])

    @cached_property
    def relative(self) -> Relative:
        """The biases relative to what is due."""
        value, half_width = fairness.relative_to(self.bias, self.truth, self.accuracy, self.counts.n)
        return Relative(value, Accuracy(self.accuracy.kind, half_width), self.counts.ids)

    @property
    def money(self) -> Floats | None:
        """What each entity gains or loses in expectation, in the unit of the budget; None for a release of counts."""
        if self.budget is None or not self.problem.shares:
            return None
        return fairness.misallocation(self.bias, self.budget)

    @property
    def cost_of_privacy(self) -> CostOfPrivacy | None:
        """Definition 5, for an allocation."""
        if not self.problem.shares:
            return None
        share = fairness.cost_interval(self.bias, self.accuracy)
        return CostOfPrivacy(share, None if self.budget is None else share.scaled(self.budget))

    @cached_property
    def overall(self) -> Overall:
        """The numbers over all entities, in one unit (money where there is a budget), and the verdicts of the targets."""
        return Overall.of(self, audit=self)

    @property
    def groups(self) -> tuple[GroupOutcome, ...]:
        """What each group gains or loses as a whole, and who in it loses most; empty where the counts have no groups."""
        return group_outcomes(self)

    def to_dict(self, *, entities: bool = False) -> dict[str, Any]:
        """The entry of `results` in the JSON of `fairpost audit`; with every entity, `Comparison.from_dict` reads it back."""
        rule, moments, judged = self.rule, self.moments, self.overall
        return told(
            documents.Result,
            self.engine,
            rule,
            self,
            problem=self.problem.name,
            task=self.problem.task,
            by_group=rule.grouped,
            group_budgets=rule.budgets,
            accuracy=self.accuracy.kind,
            accuracies={
                "bias": self.accuracy.kind,
                "mean_squared_error": moments.mse_accuracy.kind,
                "zero": moments.zero_accuracy.kind,
            },
            total_off=self.total_off.to_dict() | {"kept": None if rule.kept is None else list(rule.kept)},
            wrong=judged.wrong,
            price=moments.price,
            rmse=moments.rmse,
            relative_rmse=judged.relative_rmse,
            largest_loss=self._named(self.largest_loss),
            largest_relative_loss=self._named(self.relative.largest_loss),
            outcome=judged.outcome,
            verdicts=judged.verdicts,
            groups=None if self.counts.groups is None else self.groups,
            entities=rows(self._of_entities(), documents.Bias) if entities else UNSET,
        )

    def _named(self, found: Extreme) -> dict[str, Any]:
        return found.to_dict() | {"name": None if found.id is None else name_by_id(self.counts, found.id)}

    def _of_entities(self) -> Columns:
        """What is known of each entity, by the names of keys and columns; None where it has no meaning."""
        m = self.moments
        return {
            "id": list(self.counts.ids),
            "due": self.truth,
            "bias": self.bias,
            "half_width": self.accuracy.half_width,
            "accuracy": [self.accuracy.kind] * self.counts.n,
            "standard_error": self.engine.standard_error,
            "standard_deviation": m.deviation,
            "mean_squared_error": m.mse,
            "mean_squared_error_half_width": or_none(m.mse_accuracy.half_width),
            "zero": m.zero,
            "zero_half_width": or_none(m.zero_accuracy.half_width),
            "bias_money": self.money,
            "relative_bias": or_none(self.relative.bias),
            "relative_half_width": or_none(self.relative.half_width),
            "wrong": self.overall.wrong_chance,
        }

    def _columns(self) -> Columns:
        """One row per entity: what it is, what it is due in `unit`, its bias in that unit and how well that is known."""
        n, head = self.counts.n, about(self.counts)
        said: Columns = {"rule": [self.postprocess] * n, "engine": [self.method] * n, "unit": [self.problem.unit] * n}
        said |= {"due": self.truth} | self._own_columns() | {"confidential": [reason(self.mark)] * n}
        return with_kept(self.counts.kept, head | said, list(head))

    def _own_columns(self, prefix: str = "") -> Columns:
        """The columns that differ from one post-processing to the next."""
        found = self._of_entities()
        return {f"{prefix}{name}": found[name] for name in OWN if found[name] is not None}

    def plot(self) -> go.Figure:
        """The bias of each entity against what it is due, with intervals where it was simulated."""
        factor, unit = (
            (1.0, f"bias ({self.problem.unit})") if self.money is None else (self.budget or 0.0, "bias (money)")
        )
        bias, half = self.bias * factor, self.accuracy.half_width * factor
        ends = (bias - half, bias + half) if self.accuracy.kind == "interval" else (None, None)
        names = [self.counts.name(i) for i in range(self.counts.n)]
        points = Series(self.postprocess, self.truth, bias, names, *ends)
        return drawn(f"{self._head()}; {self.mark}", self.problem.column.replace("_", " "), unit, [points])

    def _head(self) -> str:
        return f"Audit of {self.postprocess}: {self.counts.n:,} entities, {noise_words(self.mechanism)}"

    def _facts(self) -> list[tuple[str, str]]:
        cost, price, kept = self.cost_of_privacy, self.moments.price, self.rule.kept
        facts = [
            ("alpha", known(self.alpha, f" {self.problem.unit}")),
            ("total off", "0 by construction" if kept and not any(kept) else known(self.total_off)),
            ("gains most", self._end(0)),
            ("loses most", self._end(1)),
        ]
        if cost is not None:
            facts.append(("cost of privacy", str(cost)))
        root, zero = price["root_mean_squared_error"], price["mean_probability_of_zero"]
        draws = self.engine.draws(self.method)
        facts += [
            ("price", f"RMSE {number(root)}, P(0) {zero:.3%} on average"),
            ("found by", self.method if draws is None else f"{self.method}, {draws}, seed {self.engine.seed}"),
        ]
        facts += [
            (v.outcome, f"{TARGETS[v.target]} {known(v.reached, UNITS.get(v.unit, ''))}") for v in self.overall.verdicts
        ]
        return facts + ([("note", self.engine.note)] if self.engine.note else [])

    def _end(self, which: int) -> str:
        i = self.counts.ids.index(self.alpha_pair[which])
        money = (
            ""
            if self.money is None
            else f" = {number(float(self.money[i]), signed=True)} of {number(self.budget or 0.0)}"
        )
        part = self.relative.of(i)
        due = "" if part is None else f", {number(100 * part.value, signed=True)} % of its due"
        return f"{label(self.counts.name(i))} {number(float(self.bias[i]), signed=True)}{money}{due}"


OWN = (
    *("bias", "half_width", "accuracy", "standard_error", "standard_deviation", "zero", "bias_money"),
    *("relative_bias", "relative_half_width"),
)
"""The columns of tables that differ from one post-processing to the next."""

# ---- from an answer -----------------------------------------------------------------------------------------------


def audit_of(
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
    return Audit(
        counts=counts,
        mechanism=mechanism,
        postprocess=pi.name,
        problem=pi.problem,
        method=answer.method,
        truth=truth,
        bias=answer.bias,
        accuracy=answer.accuracy,
        moments=Moments(
            answer.mse,
            answer.mse_accuracy,
            answer.zero,
            answer.zero_accuracy,
            np.sqrt(np.maximum(answer.mse - answer.bias**2, 0.0)),
        ),
        alpha=answer.alpha,
        alpha_pair=(counts.ids[answer.pair[0]], counts.ids[answer.pair[1]]),
        budget=budget,
        rule=Applied(
            title=pi.title,
            signed=pi.signed,
            grouped=pi.partition is not None,
            budgets=budgets,
            base_noise=getattr(pi.problem, "base_noise", None),
            kept=_kept(pi, counts),
            degenerate=answer.degenerate,
            expected_T=answer.expected_T,
            bounds=pi.bounds(counts, mechanism, None if answer.expected_T is None else answer.expected_T.value),
            targets=targets,
        ),
        engine=Found(
            note=answer.note,
            runs=None if drawn is None else drawn.runs,
            seed=None if drawn is None else drawn.seed,
            confidence=None if drawn is None else drawn.confidence,
            interrupted=s is not None and s.interrupted,
            standard_error=None if s is None or answer.accuracy.kind != "interval" else s.standard_error,
            variance_reduction=None if s is None else s.reduction,
            total=answer.total_off,
            sample=s,
        ),
    )


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


# ---- from a document ----------------------------------------------------------------------------------------------


def audit_told(data: documents.Result, counts: Counts, mechanism: Mechanism, document: documents.Audit) -> Audit:
    """The inverse of `to_dict(entities=True)`; what an entry does not repeat stands in the document: x, M, budget, targets."""
    if not isinstance(data.entities, list):
        raise InputError(f"the result of {data.postprocess} cannot be read back: it was written without --entities")
    each = columns(data.entities)
    if each["id"] != list(counts.ids):
        raise InputError("the entities of a result must be those of the counts, in their order, got others")

    from fairpost.bounds.theorems import Bounds  # only here: it brings sums of lattice noise along

    def vector(name: str) -> Floats:
        return np.array([math.inf if v is None else v for v in each[name]], dtype=np.float64)

    kinds, truth, budgets = data.accuracies, vector("due"), data.group_budgets
    off = data.total_off if isinstance(data.total_off, documents.TotalOff) else None
    drawn = any(error is not None for error in each["standard_error"])
    return Audit(
        counts=counts,
        mechanism=mechanism,
        postprocess=data.postprocess,
        problem=_problem(data, counts, truth),
        method=data.method,
        truth=truth,
        bias=vector("bias"),
        accuracy=Accuracy(data.accuracy, vector("half_width")),
        moments=Moments(
            vector("mean_squared_error"),
            Accuracy(kinds.mean_squared_error, vector("mean_squared_error_half_width")),
            vector("zero"),
            Accuracy(kinds.zero, vector("zero_half_width")),
            vector("standard_deviation"),
        ),
        alpha=data.alpha,
        alpha_pair=(data.alpha_pair[0], data.alpha_pair[1]),
        budget=document.budget,
        rule=made(
            Applied,
            data,
            grouped=data.by_group,
            budgets=budgets and _budgets(budgets, counts),
            kept=None if off is None or off.kept is None else tuple(off.kept),
            bounds=data.bounds and Bounds(**told(documents.Bounds, data.bounds)),
            targets=Targets.of(None if document.targets is None else told(documents.Targets, document.targets)),
        ),
        engine=made(
            Found,
            data,
            standard_error=vector("standard_error") if drawn else None,
            total=Estimate(*off.ends) if off is not None and off.kind == "interval" else None,
        ),
        mark=data.mark,
    )


@dataclass(frozen=True, eq=False)
class Recorded(Problem):
    """A problem of somebody's own, as a document describes it: what each entity is due."""

    due: Floats
    name: str  # type: ignore[misc]
    task: Literal["release", "allocation"]  # type: ignore[misc]
    unit: Unit  # type: ignore[misc]
    column: str  # type: ignore[misc]
    words: str  # type: ignore[misc]
    decides: bool = False  # type: ignore[misc]

    def truth(self, counts: Counts) -> Floats:
        """As the document says."""
        return self.due


def _problem(data: documents.Result, counts: Counts, truth: Floats) -> Problem:
    """P of one entry of `results`."""
    parts = None if not data.by_group or counts.groups is None else Partition.of(counts.groups)
    if data.problem == Release.name:
        return Release()
    if data.problem == Proportional.name:
        return Proportional(counts.weights, parts)
    like: type[Problem] = Proportional if data.task == "allocation" else Release
    return Recorded(truth, data.problem, like.task, like.unit, like.column, data.problem, data.wrong is not None)


def _budgets(data: documents.GroupBudgets, counts: Counts) -> GroupBudgets | None:
    """Each group's part of the budget."""
    if counts.groups is None:
        return None
    total = sum(data.amounts.values())
    return GroupBudgets(data.amounts, np.array([data.amounts[g] / total for g in counts.groups]), data.rule)


def counts_of(entities: Sequence[documents.Entity]) -> Counts:
    """x with all that belongs to it."""
    x = columns(entities)
    kept = {} if x["kept"] is None else {name: [row[name] for row in x["kept"]] for name in x["kept"][0]}
    return Counts(x["count"], x["id"], x["weight"], x["group"], names=x["name"], base=x["base"], kept=kept)


def counts_data(counts: Counts) -> list[dict[str, Any]]:
    """The inverse of `counts_of`."""
    return rows(
        {
            "id": list(counts.ids),
            "count": counts.values,
            "weight": counts.weights,
            "group": counts.groups,
            "name": counts.names,
            "base": counts.base,
            "kept": rows(counts.kept) if counts.kept else None,
        }
    )


def warnings_of(counts: Counts) -> tuple[str, ...]:
    """One line for each thing about these counts that is probably not meant."""
    i = counts.sum_row
    if i is None:
        return ()
    return (
        f"{counts.called(i)} looks like a total: its count {number(float(counts.values[i]))} is the sum of the other "
        f"{counts.n - 1:,}; leave that row out, or everybody is counted twice",
    )


# ---- groups -------------------------------------------------------------------------------------------------------
#
# What a rule keeps for each group is known by construction. Else all biases lie in their intervals together (bounds and
# simultaneous intervals alike), so the sum over a group lies within the sum of the half-widths (and what its own rounding
# adds), and alpha inside a group within the range of its own intervals. What a group is due is the sum of what its entities
# are due.


@dataclass(frozen=True)
class GroupOutcome:
    """One group under one post-processing, in the unit of the bias (counts, or shares of the budget)."""

    group: str
    n: int
    """How many entities it has."""
    due: float
    """The sum of what they are due."""
    bias: Estimate
    """What the group as a whole gains in expectation: by how much its total is off."""
    relative: Estimate | None
    """The same relative to `due`; None where nothing is due."""
    alpha: Estimate
    """The largest difference between the biases of two of its entities."""
    worst_bias: Extreme
    """The smallest bias of an entity of this group, and whose it is."""
    worst_relative: Estimate | None
    """Relative to what this entity is due; None where nothing is."""
    rmse: Estimate
    """The root mean squared error per entity of this group."""

    @property
    def worst(self) -> str:
        """The id of the entity of this group with the smallest bias."""
        return str(self.worst_bias.id)

    def to_dict(self) -> dict[str, Any]:
        """The entry of `groups` in the JSON of an audit."""
        relative, worst = self.worst_relative, self.worst_bias.to_dict()
        return told(
            documents.Group,
            self,
            bias=self.bias.value,
            half_width=self.bias.half_width,
            relative_bias=None if self.relative is None else self.relative.value,
            relative_half_width=None if self.relative is None else self.relative.half_width,
            worst=worst | {"relative_bias": None if relative is None else relative.to_dict()},
            root_mean_squared_error=self.rmse.value,
        )


def group_outcomes(r: Audit) -> tuple[GroupOutcome, ...]:
    """Every group, in order of first appearance; empty where the counts have no groups."""
    if r.counts.groups is None:
        return ()
    parts, kept = Partition.of(r.counts.groups), r.rule.kept
    each = kept if kept is not None and len(kept) == len(parts.labels) else [None] * len(parts.labels)
    return tuple(_outcome(r, label, parts.of_group(g), each[g]) for g, label in enumerate(parts.labels))


def _outcome(r: Audit, label: str, who: NDArray[np.int64], kept: float | None) -> GroupOutcome:
    known, bias, truth = r.accuracy.at(who), r.bias[who], r.truth[who]
    due = float(np.sum(truth))
    total = fairness.sum_interval(bias, known) if kept is None else Estimate.around(kept, 0.0)
    worst = int(who[np.argmin(bias)])
    return GroupOutcome(
        group=label,
        n=int(who.size),
        due=due,
        bias=total,
        relative=fairness.relative_estimate(total, due, r.counts.n + who.size),
        alpha=fairness.alpha_interval(bias, known),
        worst_bias=Extreme.of(entry(r.bias, r.accuracy, worst), r.counts.ids[worst]),
        worst_relative=r.relative.of(worst),
        rmse=fairness.rmse_interval(r.moments.mse[who], r.moments.mse_accuracy.at(who)),
    )


def group_columns(results: Sequence[Audit], names: Sequence[str]) -> Columns:
    """One row per group, with columns for each post-processing: the table of `--csv-groups`."""
    found = [r.groups for r in results]
    first = found[0]
    columns: Columns = {"group": [g.group for g in first], "n": [g.n for g in first]}
    columns |= {f"{r.problem.column}_sum": [g.due for g in some] for r, some in zip(results, found, strict=True)}
    for r, name, some in zip(results, names, found, strict=True):
        columns |= {f"{name}_{key}": values for key, values in _group_columns(r, some).items() if values is not None}
    return columns


def _group_columns(r: Audit, some: Sequence[GroupOutcome]) -> Columns:
    budget = r.budget if r.money is not None else None
    return {
        "bias": [g.bias.value for g in some],
        "half_width": [g.bias.half_width for g in some],
        "accuracy": [g.bias.kind for g in some],
        "bias_money": None if budget is None else [g.bias.value * budget for g in some],
        "relative_bias": [None if g.relative is None else g.relative.value for g in some],
        "relative_half_width": [None if g.relative is None else g.relative.half_width for g in some],
        **spread("alpha", [g.alpha for g in some]),
        "alpha_accuracy": [g.alpha.kind for g in some],
        "loses_most": [g.worst for g in some],
        "loses_most_name": None if r.counts.names is None else [name_by_id(r.counts, g.worst) for g in some],
        "loses_most_bias": [g.worst_bias.value for g in some],
        "loses_most_relative_bias": [None if g.worst_relative is None else g.worst_relative.value for g in some],
        "rmse": [g.rmse.value for g in some],
    }
