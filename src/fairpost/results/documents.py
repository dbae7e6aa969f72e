"""The JSON of the commands: one type per document, which writes it, reads it back and is its published schema.

A `Document` names its keys, what they mean and what they may hold. `told` fills one from a result, attribute by attribute;
`read` makes one of what a stranger wrote, or says in one line where it breaks; `schema` is the JSON Schema of a command. The number
of a schema grows when a reader must change: new keys may come at any time, what a key means and that it is there do not change.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, field
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Estimate, Kind
from fairpost.errors import FairpostError, InputError, ParameterError, UnsupportedError
from fairpost.noise import MECHANISMS, Mechanism, Stream
from fairpost.results import points
from fairpost.results.base import name_by_id
from fairpost.results.points import Extreme

if TYPE_CHECKING:
    from fairpost.results.audit import Audit as AnAudit

Floats = NDArray[np.float64]
VERSIONS: dict[str, int] = {"audit": 1, "sweep": 2, "plan": 2, "project": 1, "allocate": 1, "check": 1}
"""The commands with `--json`, and the number of the schema of each."""
LARGEST = 1.7976931348623157e308
"""The largest float."""


def said(text: str) -> Meta:
    """What a key means."""
    return Meta(description=text)


Real = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
NonNegative = Annotated[float, Meta(ge=0, le=LARGEST)]
Positive = Annotated[float, Meta(gt=0, le=LARGEST)]
Chance = Annotated[float, Meta(ge=0, le=1)]
Whole = Annotated[int, Meta(ge=0)]
Some = Annotated[int, Meta(ge=1)]
Task = Literal["release", "allocation"]
Method = Literal["exact", "expansion", "conditional", "mean-field", "monte-carlo"]
Unit = Literal["people", "share", "money", "decision", "seats"]
Target = Literal["alpha", "loss", "relative_loss", "cost", "rmse", "relative_rmse"]
Outcome = Literal["passes", "fails", "unsure"]
Mark = Annotated[str, said("what the numbers were computed from, so that nobody publishes them by mistake")]
Warnings = Annotated[
    list[str], said("what about the counts is probably not meant, such as a row that is the total of the others")
]
Budget = Annotated[Real | None, said("money to share, in all")]
Pair = Annotated[
    tuple[str, ...], Meta(min_length=2, max_length=2), said("the id that gains most and the id that loses most")
]


class Document(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A part of a document."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return told(type(self), self)


# ---- what several documents hold ----------------------------------------------------------------------------------


class Number(Document, kw_only=True, frozen=True):
    """A number with the interval that contains the true value."""

    value: Annotated[Real, said("the number")]
    low: Annotated[Real, said("the lower end of its interval")]
    high: Annotated[Real | None, said("the upper end; null where nobody knows it, as of one block of runs")]
    kind: Annotated[
        Kind,
        said(
            "what the interval is: a `bound` on the numerical error, an `estimate` of it from the last refinement, the error "
            "that an `expansion` states, or an `interval` of simulation"
        ),
    ] = field(name="accuracy")

    @property
    def ends(self) -> tuple[float, float, float, Kind]:
        """The number as `Estimate` takes it."""
        return self.value, self.low, math.inf if self.high is None else self.high, self.kind


class Attained(Number, kw_only=True, frozen=True):
    """A number with its interval, and the entity that attains it."""

    id: Annotated[str | None, said("whose it is; null where nobody is due anything")]


if TYPE_CHECKING:
    Known = Estimate
    Attains = Extreme
    Costs = points.CostOfPrivacy
else:  # msgspec would read data classes by their own fields: these stand for them, and SHAPES says what they are in JSON
    Known, Attains, Costs = (type(name, (ABC,), {}) for name in ("Known", "Attains", "Costs"))
    for stand_in, known in ((Known, Estimate), (Attains, Extreme), (Costs, points.CostOfPrivacy)):
        stand_in.register(known)


class NamedAttained(Attained, kw_only=True, frozen=True):
    """The same with a name."""

    name: Annotated[str | None, said("what people call it")]


class Noise(Document, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """The noise; noise of one's own has its own parameter in place of scale or sigma."""

    name: Annotated[str, said("its name")]
    scale: Annotated[NonNegative | UnsetType, said("b, of the Laplace pair")] = UNSET
    sigma: Annotated[NonNegative | UnsetType, said("of the Gaussian pair")] = UNSET
    variance: Annotated[NonNegative, said("of the noise on one count")]


class Promised(Noise, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """The noise, and what it promises."""

    epsilon: Annotated[Real | None, said("of one release; null where nobody knows it (Gaussian pair without a delta)")]
    delta: Annotated[Real | None, said("0 for a pure promise")]
    rho: Annotated[Real | None, said("zero-concentrated privacy loss, of the Gaussian pair")]
    sensitivity: Annotated[NonNegative, said("how much one person changes the counts")]


class CostOfPrivacy(Document, kw_only=True, frozen=True):
    """What must be added to the budget so that nobody expects less than their due."""

    share: Annotated[NonNegative, said("as a share of the budget")]
    amount: Annotated[Real | None, said("in money; null without a budget")]
    share_interval: Annotated[Known, said("the share with its interval")]
    amount_interval: Annotated[Known | None, said("the amount with its interval; null without a budget")]


class GroupBudgets(Document, kw_only=True, frozen=True):
    """Shares by group with a budget: each group's part; biases are then in shares of the whole budget."""

    rule: Annotated[str, said("where the amounts come from, in words")]
    amounts: Annotated[dict[str, NonNegative], said("the budget of each group")]


class Targets(Document, kw_only=True, frozen=True):
    """The limits that were given."""

    max_alpha: Annotated[Positive | UnsetType, said("on alpha")] = UNSET
    max_loss: Annotated[Positive | UnsetType, said("on the largest expected loss")] = UNSET
    max_relative_loss: Annotated[Positive | UnsetType, said("on the same in percent of what is due")] = UNSET
    max_cost: Annotated[Positive | UnsetType, said("on the cost of privacy")] = UNSET
    max_rmse: Annotated[Positive | UnsetType, said("on the root mean squared error")] = UNSET
    max_relative_rmse: Annotated[Positive | UnsetType, said("on the same in percent of the mean of what is due")] = (
        UNSET
    )


class Verdict(Document, kw_only=True, frozen=True):
    """Whether one quantity keeps to its limit."""

    target: Annotated[Target, said("what is limited")]
    limit: Annotated[Positive, said("at most this")]
    unit: Annotated[
        Literal["people", "share", "money", "decision", "seats", "percent"],
        said("of the limit and of what was reached; `percent` is of what is due"),
    ]
    outcome: Annotated[Outcome, said("`passes`: the upper end keeps to it; `fails`: the lower does not; else `unsure`")]
    reached: Annotated[Known, said("what was reached")]
    id: Annotated[str | None, said("the entity that attains it, where one does")]


class Labelled(Document, kw_only=True, frozen=True):
    """Whose numbers these are."""

    id: Annotated[str, said("of the entity, unique")]
    group: Annotated[str | UnsetType, said("its group")] = UNSET
    name: Annotated[str | UnsetType, said("with `--label`: what people call it")] = UNSET
    kept: Annotated[dict[str, str | Real | bool | None] | UnsetType, said("with `--keep`: columns carried along")] = (
        UNSET
    )


class Counted(Document, kw_only=True, frozen=True):
    """The true counts."""

    n: Annotated[Some, said("how many entities")]
    total: Annotated[NonNegative, said("the sum of the true counts")]


class Head(Document, kw_only=True, frozen=True):
    """How every document begins."""

    version: Annotated[str, said("of the package")]
    schema: Annotated[str, said("the name and number of this schema")]
    command: Annotated[str | UnsetType, said("what was typed; absent where Python wrote the document")] = UNSET


# ---- points of curves ---------------------------------------------------------------------------------------------


class Point(Document, kw_only=True, frozen=True):
    """One post-processing at one level of noise."""

    mechanism: Annotated[Mechanism, said("the noise at this point")]
    epsilon: Annotated[Real | None, said("what it promises; null where nothing is known")]
    postprocess: Annotated[str, said("the name of the post-processing")]
    task: Annotated[Task, said("whether the output is counts or shares of a budget")]
    method: Annotated[Method, said("how the biases were found")]
    accuracy: Annotated[Kind, said("how well alpha is known")]
    unit: Annotated[Unit, said("what alpha, total_off, largest_loss and rmse are in: money where there is a budget")]
    alpha: Annotated[Known, said("the largest difference between two entities' biases")]
    alpha_pair: Pair
    total_off: Annotated[Known | None, said("as in an audit, in `unit`; null where it is not said")] = None
    loss: Annotated[Attains, said("the largest expected loss")] = field(name="largest_loss")
    relative_loss: Annotated[Attains, said("the largest loss relative to what the entity is due: 0.01 is 1 %")] = field(
        name="largest_relative_loss"
    )
    cost: Annotated[Costs | None, said("for allocations")] = field(name="cost_of_privacy")
    rmse: Annotated[Known, said("root mean squared error, per entity")]
    relative_rmse: Annotated[Known | None, said("the same relative to the mean of what is due")] = None
    zero: Annotated[Known, said("the mean chance of receiving 0")]
    note: Annotated[str | None, said("why this method, and what the runs have shown")]
    names: Annotated[dict[str, str], said("what people call the entities that are named here, by id")]

    @classmethod
    def of(cls, result: AnAudit, epsilon: float | None = None, **more: Any) -> Self:
        """The point of one audit."""
        r, relative = result, result.relative.largest_loss
        said = dict.fromkeys(i for i in (*r.alpha_pair, r.largest_loss.id, relative.id) if i is not None)
        per = 1.0 if r.money is None or r.budget is None else r.budget
        rmse = r.moments.rmse
        return cls(
            mechanism=r.mechanism,
            epsilon=epsilon,
            postprocess=r.postprocess,
            task=r.problem.task,
            method=r.method,  # type: ignore[arg-type]
            accuracy=r.alpha.kind,
            unit=r.problem.measured_in(r.budget),  # type: ignore[arg-type]
            alpha=r.alpha.scaled(per),
            alpha_pair=r.alpha_pair,
            total_off=r.total_off.scaled(per),
            loss=r.largest_loss.scaled(per),
            relative_loss=relative,
            cost=r.cost_of_privacy,
            rmse=rmse.scaled(per),
            relative_rmse=fairness.relative_estimate(rmse, float(np.mean(r.truth)), r.counts.n),
            zero=r.moments.mean_zero,
            note=r.engine.note,
            names={i: name for i in said if (name := name_by_id(r.counts, i)) != i},
            **more,
        )

    @property
    def loser(self) -> str:
        """The id of the entity that loses most."""
        return str(self.loss.id)

    @property
    def relative_loser(self) -> str | None:
        """The id of the one that loses most relative to what it is due; None where nobody is due anything."""
        return self.relative_loss.id

    def name(self, label: str) -> str:
        """What people call the entity with this id."""
        return self.names.get(label, label)

    def quantity(self, target: str) -> Estimate | None:
        """One of `targets.TARGETS` in the unit of its limit (what is relative in percent); None where it has no meaning."""
        if target == "cost":
            return None if self.cost is None else self.cost.amount or self.cost.share
        found: Estimate | None = getattr(self, target)
        return found and Estimate.scaled(found, 100.0 if target.startswith("relative_") else 1.0)

    def whose(self, target: str) -> str | None:
        """The id of the entity that attains a quantity, where one does."""
        return getattr(getattr(self, target), "id", None)


class Refused(Document, frozen=True):
    """A level at which the engine refused."""

    mechanism: Annotated[Mechanism, said("the noise")]
    epsilon: Annotated[Real | None, said("what it promises")]
    postprocess: Annotated[str, said("the name of the post-processing")]
    reason: Annotated[str, said("why the engine refused")]


class Basis(Head, kw_only=True, frozen=True):
    """What a curve or a plan was computed from."""

    mark: Mark
    counts: Annotated[Counted, said("the true counts")]
    budget: Budget
    group_budgets: Annotated[GroupBudgets | None, said("with shares by group and a budget")]
    currency: Annotated[str, said("the sign of money in sentences")]
    warnings: Warnings


class Sweep(Basis, kw_only=True, frozen=True):
    """What `fairpost sweep --json` writes."""

    points: Annotated[list[Point], Meta(min_length=1), said("level by level, and in each the post-processings")]
    refused: Annotated[list[Refused], said("where the engine refused")]


class PlanEntry(Document, kw_only=True, frozen=True):
    """The answer for one post-processing."""

    postprocess: Annotated[str, said("the name of the post-processing")]
    found: Annotated[Point | None, said("the most noise that meets the targets; null where none in the range does")]
    stated: Annotated[Point | None, said("the same with epsilon rounded up (else noise rounded down) to few digits")]
    ending: Annotated[
        Literal["found", "none", "all", "edge", "refused"],
        said(
            "`found`: met here and not with a little more noise; `none`: by no noise in the range; `all`: by every noise in the "
            "range; `edge`: the engine refuses the next level; `refused`: it refused every level"
        ),
    ]
    again: Annotated[bool, said("whether more noise meets the targets again further on, which is left aside")]
    binding: Annotated[Target | None, said("the target that stops the noise, or that the least noise exceeds most")]
    verdicts: Annotated[list[Verdict], said("what is reached at the point that was found")]
    message: Annotated[str, said("one sentence")]
    plain: Annotated[bool, said("whether the sentence says only that targets are met here and not with more noise")]
    curve: Annotated[list[Point], said("from little noise to much")]
    refused: Annotated[list[Refused], said("where the engine refused")]


class Plan(Basis, kw_only=True, frozen=True):
    """What `fairpost plan --json` writes."""

    targets: Annotated[Targets, said("the limits, all of which must hold")]
    assumed: Annotated[
        list[str] | UnsetType, said("targets that nobody gave: without a limit on the error a usual one")
    ] = UNSET
    verdict: Annotated[str, said("the answer in one sentence: epsilons rounded up, which meet the targets")]
    plans: Annotated[list[PlanEntry], Meta(min_length=1), said("one entry per post-processing")]


class Tradeoff(Document, frozen=True):
    """The rule with one threshold."""

    threshold: Annotated[NonNegative, said("tau, in counts")]
    point: Annotated[Point, said("what an audit says there")]


class Frontier(Document, kw_only=True, frozen=True):
    """Alpha and the error as the threshold grows from 0 to the best one."""

    rule: Annotated[Literal["pos-threshold", "simplex-threshold"], said("the rule with the threshold")]
    unit: Annotated[Unit, said("what the numbers are in")]
    path: Annotated[list[Tradeoff], Meta(min_length=1), said("by growing threshold")]
    named: Annotated[list[Point], said("the rules to compare with")]
    refused: Annotated[list[str], said("thresholds that no engine could do, and why")]


# ---- audits -------------------------------------------------------------------------------------------------------


class Bounds(Document, kw_only=True, frozen=True):
    """Bounds on alpha that need no simulation."""

    lower: Annotated[Real, said("Theorem 1's lower bound")]
    upper: Annotated[Real, said("the smallest upper bound that is known")]
    first: Annotated[Real, said("the bias of clipping at the smallest count")]
    last: Annotated[Real, said("the bias of clipping at the largest count")]
    clipped: Annotated[Real, said("Proposition 1's bound on E[T]")]
    spread: Annotated[Real, said("the difference between the largest and the smallest count")]
    theorem: Annotated[Real, said("Theorem 1's upper bound alone")]
    sharper: Annotated[Real | None, said("Lemma 3's upper bound, where E[T] is known")]
    error: Annotated[NonNegative, said("a bound on the numerical error of these")]


class Worst(Number, kw_only=True, frozen=True):
    """The smallest bias of a group's entities."""

    id: Annotated[str, said("whose it is")]
    relative_bias: Annotated[Known | None, said("relative to what that entity is due; null where nothing is")]


class Group(Document, kw_only=True, frozen=True):
    """One group."""

    group: Annotated[str, said("its label")]
    n: Annotated[Some, said("how many entities")]
    due: Annotated[NonNegative, said("the sum of what its entities are due")]
    bias: Annotated[Real, said("what the group gains as a whole: the sum of its entities' biases")]
    half_width: Annotated[NonNegative, said("the group's bias lies within bias +- half_width")]
    relative_bias: Annotated[Real | None, said("the bias relative to `due`; null where nothing is due")]
    relative_half_width: Annotated[NonNegative | None, said("how well that is known")]
    alpha: Annotated[Known, said("the largest difference between the biases of two of its entities")]
    worst: Annotated[Worst, said("the smallest bias of its entities")]
    root_mean_squared_error: Annotated[NonNegative, said("per entity of the group")]
    rmse: Annotated[Known, said("the same with its interval")] = field(name="root_mean_squared_error_interval")


class Bias(Document, kw_only=True, frozen=True):
    """One entity under one post-processing, in counts or in shares of 1."""

    id: Annotated[str, said("of the entity")]
    due: Annotated[Real, said("P(x): what it is due")]
    bias: Annotated[Real, said("what it gains in expectation beyond that")]
    half_width: Annotated[NonNegative, said("the bias lies within bias +- half_width; simulated: all of them together")]
    relative_bias: Annotated[Real | None, said("as a part of what is due: 0.01 is 1 %; null where nothing is due")]
    relative_half_width: Annotated[NonNegative | None, said("how well that is known; null where nothing is due")]
    accuracy: Annotated[Kind, said("what the half-width is")]
    standard_error: Annotated[Real | None, said("of the bias; simulation only")]
    standard_deviation: Annotated[NonNegative, said("of the output")]
    mean_squared_error: Annotated[NonNegative, said("of the output")]
    mean_squared_error_half_width: Annotated[Real | None, said("null: not known")]
    zero: Annotated[Chance, said("the probability of receiving 0")]
    zero_half_width: Annotated[Real | None, said("null: not known")]
    wrong: Annotated[Chance | UnsetType, said("programmes: the chance of being wrongly left out or let in")] = UNSET


class Accuracies(Document, kw_only=True, frozen=True):
    """How well each moment is known."""

    bias: Annotated[Kind, said("the bias")]
    mean_squared_error: Annotated[Kind, said("the mean squared error")]
    zero: Annotated[Kind, said("the probability of receiving 0")]


class TotalOff(Number, kw_only=True, frozen=True):
    """By how much the sum of all outputs is off."""

    kept: Annotated[
        list[Real] | None,
        said(
            "where it is known by construction: its value, by group where each has its own problem; 0 where totals are kept"
        ),
    ]


class Wrong(Document, kw_only=True, frozen=True):
    """Expected numbers of wrong decisions."""

    out: Annotated[NonNegative, said("expected to be wrongly left out")]
    let_in: Annotated[NonNegative, said("expected to be wrongly let in")] = field(name="in")


class Price(Document, kw_only=True, frozen=True):
    """What fairness costs in accuracy."""

    root_mean_squared_error: Annotated[NonNegative, said("per entity")]
    mean_standard_deviation: Annotated[NonNegative, said("over entities")]
    mean_probability_of_zero: Annotated[Chance, said("over entities")]


class Result(Document, kw_only=True, frozen=True):
    """One post-processing."""

    postprocess: Annotated[str, said("the name of the post-processing")]
    title: Annotated[str, said("what it does, in a few words")]
    signed: Annotated[bool, said("whether outputs can be below 0")]
    problem: Annotated[str, said("what the output is compared with: `release`, `proportional`, or a name of one's own")]
    base_noise: Annotated[
        Mechanism | UnsetType | None, said("programmes: of base populations that carry noise too")
    ] = UNSET
    task: Annotated[Task, said("whether the output is counts or shares of a budget")]
    by_group: Annotated[bool, said("whether each group keeps its own total, or shares its own budget")]
    group_budgets: Annotated[GroupBudgets | None, said("with shares by group and a budget")]
    method: Annotated[Method, said("how the biases were found")]
    accuracy: Annotated[Kind, said("how well the biases are known")]
    accuracies: Annotated[Accuracies, said("how well each moment is known")]
    runs: Annotated[int | None, said("of the simulation")]
    seed: Annotated[int | None, said("of the simulation")]
    confidence: Annotated[Real | None, said("how surely the intervals of the simulation cover")]
    interrupted: Annotated[bool, said("whether Ctrl-C ended the simulation")]
    alpha: Annotated[Known, said("the largest difference between two entities' biases")]
    alpha_pair: Pair
    total_off: Annotated[
        TotalOff | UnsetType, said("what all outputs add up to, less what everybody is due: the sum of the biases")
    ] = UNSET
    bounds: Annotated[Bounds | None, said("Theorem 1, where it applies (`simplex`)")]
    cost_of_privacy: Annotated[Costs | None, said("for allocations")]
    wrong: Annotated[Wrong | None, said("programmes: expected numbers of entities that noise leaves out and lets in")]
    price: Annotated[Price, said("what fairness costs in accuracy")]
    rmse: Annotated[Known, said("the root mean squared error per entity, with its interval")]
    relative_rmse: Annotated[Known | UnsetType | None, said("the same relative to the mean of what is due")] = UNSET
    largest_loss: Annotated[NamedAttained, said("the largest expected loss, in counts or shares")]
    largest_relative_loss: Annotated[NamedAttained, said("the largest relative to what is due: 0.01 is 1 %")]
    outcome: Annotated[Outcome | None, said("all targets together; null without targets")]
    verdicts: Annotated[list[Verdict], said("one entry per target")]
    expected_T: Annotated[Known | None, said("E[T] of Lemma 2 (`simplex`, exact)")]
    degenerate: Annotated[
        Chance,
        said(
            "the probability (simulated: the share) of draws that take the documented convention; by group of a draw in one "
            "group, the mean over groups"
        ),
    ]
    variance_reduction: Annotated[Real | None, said("simulation: what the control variates gained")]
    note: Annotated[str | None, said("why this method, and what the runs have shown")]
    groups: Annotated[list[Group] | None, said("every group, where the counts have groups")]
    mark: Mark
    entities: Annotated[list[Bias] | UnsetType, said("with `--entities`: in the order of the top-level `entities`")] = (
        UNSET
    )


class Entity(Labelled, kw_only=True, frozen=True):
    """One entity."""

    count: Annotated[NonNegative, said("the true count")]
    weight: Annotated[Positive, said("the formula's factor")]
    base: Annotated[NonNegative | UnsetType, said("the population that the count is a part of")] = UNSET


class Audit(Head, kw_only=True, frozen=True):
    """What `fairpost audit --json` writes."""

    mark: Mark
    counts: Annotated[Counted, said("the true counts")]
    mechanism: Annotated[Promised, said("the noise, and what it promises")]
    budget: Budget
    targets: Annotated[Targets | None, said("what no post-processing should exceed; null where nothing was said")]
    warnings: Warnings
    results: Annotated[list[Result], Meta(min_length=1), said("one entry per post-processing, in the order asked for")]
    frontier: Annotated[Frontier | None, said("with `--frontier`: fairness against accuracy")]
    entities: Annotated[list[Entity] | UnsetType, said("with `--entities`: what the entries have in common, once")] = (
        UNSET
    )


# ---- from noisy counts --------------------------------------------------------------------------------------------


class Projected(Labelled, kw_only=True, frozen=True):
    """One entity."""

    noisy_count: Annotated[Real, said("as it came")]
    count: Annotated[Real, said("as it is now")]


class Moved(Document, kw_only=True, frozen=True):
    """The count that was moved farthest."""

    id: Annotated[str, said("whose it is")]
    change: Annotated[Real, said("before rounding")]


class Changes(Document, kw_only=True, frozen=True):
    """What was changed."""

    noisy_sum: Annotated[Real, said("before")]
    sum: Annotated[Real, said("now")]
    negative_before: Annotated[Whole, said("counts below 0 before")]
    negative_after: Annotated[Whole, said("counts below 0 now")]
    zero_after: Annotated[Whole, said("counts that are 0 now")]
    largest_change: Annotated[Moved, said("the count that was moved farthest")]


class Rounding(Document, kw_only=True, frozen=True):
    """How far rounding moved the counts."""

    seed: Annotated[Whole, said("of the rounding")]
    rounded_up: Annotated[Whole, said("how many")]
    rounded_down: Annotated[Whole, said("how many")]
    largest_change: Annotated[NonNegative, said("of any count")]
    root_mean_square_change: Annotated[NonNegative, said("over counts")]
    sum_change: Annotated[Real, said("0 but for rounding of floats")]


class NoisyCounts(Document, kw_only=True, frozen=True):
    """The noisy counts."""

    n: Annotated[Some, said("how many entities")]
    noisy_total: Annotated[Real | UnsetType, said("`allocate`: the sum of the noisy counts")] = UNSET


class Project(Head, kw_only=True, frozen=True):
    """What `fairpost project --json` writes."""

    postprocess: Annotated[str, said("the name of the post-processing")]
    counts: Annotated[NoisyCounts, said("the noisy counts")]
    totals: Annotated[
        dict[str, NonNegative] | None, said("that are kept, by group (`all`: of all entities); null: none")
    ]
    changes: Annotated[Changes, said("what was changed")]
    rounding: Annotated[Rounding | None, said("with `--round`: the seed, and how far counts were moved")]
    entities: Annotated[list[Projected], Meta(min_length=1), said("every entity")]


class ByRule(Document, kw_only=True, frozen=True):
    """What one rule gives: RULE stands for its name, with _ for -."""

    share: Annotated[Chance | UnsetType, said("the share")] = UNSET
    money: Annotated[NonNegative | UnsetType, said("the share of the budget")] = UNSET
    estimated_bias: Annotated[Real | UnsetType, said("the bias, estimated from noisy counts")] = UNSET
    estimated_bias_error: Annotated[NonNegative | UnsetType, said("the root mean squared error of that")] = UNSET
    estimated_standard_deviation: Annotated[NonNegative | UnsetType, said("of the share")] = UNSET


class Allocated(Labelled, kw_only=True, frozen=True):
    """One entity, with the keys of each rule (RULE is such as `baseline`, `pos` or `pos_threshold`)."""

    noisy_count: Annotated[Real, said("as it came")]
    weight: Annotated[Positive, said("the formula's factor")]
    true_share_low: Annotated[Chance | UnsetType, said("the lower end of the interval of the true share")] = UNSET
    true_share_high: Annotated[Chance | UnsetType, said("its upper end")] = UNSET
    true_money_low: Annotated[NonNegative | UnsetType, said("the same in money")] = UNSET
    true_money_high: Annotated[NonNegative | UnsetType, said("the same in money")] = UNSET


class Shared(Document, kw_only=True, frozen=True):
    """One group, with the keys of each rule (RULE is such as `baseline`, `pos` or `pos_threshold`)."""

    group: Annotated[str, said("its name")]
    n: Annotated[Some, said("how many entities")]
    noisy_sum: Annotated[Real, said("the sum of its noisy counts")]


class Interval(Document, kw_only=True, frozen=True):
    """How surely the intervals cover."""

    confidence: Annotated[Chance, said("how surely")]
    simultaneous: Annotated[bool, said("whether for all entities together")]
    of: Annotated[str, said("what the interval covers")]


class Estimated(Document, kw_only=True, frozen=True):
    """The estimates of bias."""

    mark: Annotated[str, said("how the biases were found")]
    methods: Annotated[dict[str, str], said("the method by rule")]
    replicates: Annotated[int | None, said("bootstrap draws")]
    missing: Annotated[dict[str, str], said("why an estimate is not there, by rule")]


class Allocate(Head, kw_only=True, frozen=True):
    """What `fairpost allocate --json` writes."""

    counts: Annotated[NoisyCounts, said("the noisy counts")]
    mechanism: Annotated[Promised | None, said("the noise, where it was given")]
    budget: Budget
    by_group: Annotated[
        bool, said("whether every group shares its own; shares are of the whole budget, where there is one")
    ]
    group_budgets: Annotated[GroupBudgets | None, said("with shares by group and a budget")]
    interval: Annotated[Interval | None, said("how surely the intervals cover, where the noise is known")]
    bias: Annotated[Estimated, said("the estimates of bias")]
    groups: Annotated[list[Shared] | None, said("every group, where there are groups")]
    entities: Annotated[list[Allocated], Meta(min_length=1), said("every entity")]


# ---- releases against the truth -----------------------------------------------------------------------------------


class NoiseTest(Document, kw_only=True, frozen=True):
    """Whether noise of the stated size explains the differences."""

    size: Annotated[
        Literal["mean absolute difference", "mean squared difference"],
        said("what is compared (Laplace pair: absolute, Gaussian pair: squared)"),
    ]
    expected: Annotated[NonNegative, said("what noise alone gives on average")]
    observed: Annotated[NonNegative, said("in the releases")]
    explained: Annotated[Chance, said("expected over observed, at most 1: the share that noise of this size explains")]
    p_value: Annotated[Chance, said("of the two-sided test; of whole-number noise no less than 1e-9")]
    level: Annotated[Chance, said("a p-value below this speaks against noise alone")]
    hypothesis: Annotated[str, said("the null hypothesis")]
    reading: Annotated[str, said("how to read the p-value")]

    @property
    def verdict(self) -> str:
        """The test in words."""
        if self.p_value >= self.level:
            return "the differences are such as noise of this size makes"
        side = "larger" if self.observed > self.expected else "smaller"
        return f"the differences are {side} than noise of this size makes"


class Part(Document, kw_only=True, frozen=True):
    """Some entities together: all, a group, or a size class."""

    name: Annotated[str, said("all")] = field(name="part")
    n: Annotated[Whole, said("how many entities")]
    count: Annotated[NonNegative, said("the sum of their true counts")]
    released: Annotated[Real, said("the sum of their released values, the mean over the releases")]
    difference: Annotated[Real, said("released less true")]
    relative: Annotated[Real | None, said("the difference as a part of the true sum; null where that is 0")]
    noise: Annotated[NonNegative | None, said("the standard deviation that noise alone gives it; null: none stated")]
    p_value: Annotated[Chance | None, said("the chance that noise alone gives such a difference or a larger one")]
    p_adjusted: Annotated[Chance | None, said("the same for all rows of the table together (Bonferroni)")]
    half_width: Annotated[
        NonNegative | None, said("several releases: of the bias, all rows together; null: no spread seen")
    ]
    kept: Annotated[Whole, said("the number of releases in which their sum is the true one")]


class GroupPart(Part, kw_only=True, frozen=True):
    """The entities of a group together."""

    name: Annotated[str, said("its label")] = field(name="group")


class SizePart(Part, kw_only=True, frozen=True):
    """The entities of a size class together."""

    name: Annotated[str, said("the class, such as 10 to below 100")] = field(name="size")


class Difference(Document, kw_only=True, frozen=True):
    """One entity."""

    id: Annotated[str, said("its id")]
    count: Annotated[NonNegative, said("its true count")]
    released: Annotated[Real, said("its released value, the mean over the releases")]
    difference: Annotated[Real, said("released less true; of several releases an estimate of the bias")]
    relative: Annotated[Real | None, said("the difference as a part of the true count; null where that is 0")]
    p_value: Annotated[Chance | None, said("the chance that noise alone gives such a difference or a larger one")]
    p_adjusted: Annotated[Chance | None, said("the same for all entities together (Bonferroni)")]
    half_width: Annotated[NonNegative | None, said("several releases: of the bias, all entities together; else null")]


class Released(Document, kw_only=True, frozen=True):
    """One release."""

    name: Annotated[str, said("the file, or the number of the release")]
    sum: Annotated[Real, said("of its values")]


class Negative(Document, kw_only=True, frozen=True):
    """Values below 0."""

    seen: Annotated[NonNegative, said("values below 0 per release")]
    expected: Annotated[NonNegative | None, said("what noise alone would give; null where none is stated")]


class Check(Head, kw_only=True, frozen=True):
    """What `fairpost check --json` writes."""

    mark: Mark
    counts: Annotated[Counted, said("the true counts")]
    releases: Annotated[list[Released], said("the releases, in the order given")]
    mechanism: Annotated[Mechanism | None, said("the noise that was stated; null where none was")]
    confidence: Annotated[Chance, said("of the intervals, and 1 less the level of the tests")]
    noise: Annotated[NoiseTest | None, said("whether noise of the stated size explains the differences")]
    unexplained: Annotated[list[str] | None, said("the ids that noise alone does not explain; null: none stated")]
    sum_kept: Annotated[bool, said("whether every release has the true sum")]
    negative: Annotated[Negative, said("values below 0")]
    fractional: Annotated[Whole, said("released values that are no whole numbers, in all releases")]
    total: Annotated[Part, said("all entities together")]
    groups: Annotated[list[GroupPart] | None, said("where there are groups: one entry per group")]
    sizes: Annotated[list[SizePart], said("one entry per size class of the true count that occurs")]
    entities: Annotated[list[Difference] | UnsetType, said("one entry per entity")] = UNSET


DOCUMENTS: dict[str, type[Head]] = {
    "audit": Audit, "sweep": Sweep, "plan": Plan, "project": Project, "allocate": Allocate, "check": Check,
}  # fmt: skip


# ---- writing ------------------------------------------------------------------------------------------------------


def told(kind: type[Document], *things: object, **others: Any) -> dict[str, Any]:
    """What a document says about a result, as plain data: `others` by field, the rest from the first thing that has its name."""
    out = {}
    for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
        value = others.get(name, UNSET)
        for thing in () if name in others else things:
            value = getattr(thing, name, UNSET)
            if value is not UNSET:
                break
        if value is not UNSET:
            out[key] = plain(value)
    return out


def document(command: str, thing: object = None, **others: Any) -> dict[str, Any]:
    """The JSON of a command."""
    from fairpost import __version__

    return told(DOCUMENTS[command], thing, version=__version__, schema=name_of(command), **others)


def plain(value: Any) -> Any:
    """Lists, dictionaries, texts and Python's numbers."""
    if isinstance(value, Mechanism):
        return value.describe()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    return [plain(v) for v in value] if isinstance(value, tuple) else value


def rows(columns: Mapping[str, Any], kind: type[Document] | None = None) -> list[dict[str, Any]]:
    """One dictionary per row of named columns of equal length; a column that is None is left out.

    Of a `kind` only its keys are taken, and one that must be there is null where its column is None.
    """
    if kind is not None:
        n = max(len(values) for values in columns.values() if values is not None)
        must = {f.name for f in msgspec.structs.fields(kind) if f.required}
        columns = {k: [None] * n if k in must and columns[k] is None else columns[k] for k in kind.__struct_fields__}
    there = {name: plain(values) for name, values in columns.items() if values is not None}
    return [dict(zip(there, row, strict=True)) for row in zip(*there.values(), strict=True)]


def columns(rows: Sequence[Document]) -> dict[str, Any]:
    """The inverse of `rows`: one list per key; None for a key that the first row leaves out."""
    names = rows[0].__struct_fields__
    return {name: None if getattr(rows[0], name) is UNSET else [getattr(r, name) for r in rows] for name in names}


# ---- reading ------------------------------------------------------------------------------------------------------

D = TypeVar("D", bound=Document)


def read(kind: type[D], data: Any, what: str) -> D:
    """A part of a document, typed and checked; what is not of this kind is refused in one line that names the place."""
    try:
        return msgspec.convert(data, kind, dec_hook=_shaped)
    except msgspec.ValidationError as error:
        raise InputError(f"{what} cannot be read back: {_place(str(error))}") from None


def read_document(command: str, data: Any) -> Any:
    """The document of a command; one of another command or number is refused."""
    got = data.get("schema") if isinstance(data, Mapping) else None
    if got != name_of(command):
        raise InputError(f"the JSON of `fairpost {command}` must say schema {name_of(command)!r}, got {got!r}")
    return read(DOCUMENTS[command], data, f"this {command}")


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Whatever does not fit together in a document of the right types becomes one line."""
    try:
        yield
    except FairpostError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{what} cannot be read back: {' '.join(str(error).split())[:120]}") from None


T = TypeVar("T")


def made(kind: type[T], data: Document, **others: Any) -> T:
    """A result of what was read, the inverse of `told`: `others` by field, the rest from the keys of its name."""
    found: dict[str, Any] = {}
    for f in fields(kind):  # type: ignore[arg-type]
        value = others[f.name] if f.name in others else getattr(data, f.name, UNSET)
        if value is not UNSET:
            found[f.name] = tuple(value) if isinstance(value, list) else value
    return kind(**found)


WORDS = {
    "Object missing required field": "it has no",
    "Object contains unknown field": "nobody knows",
    f"`float` >= {-LARGEST!r}": "a finite number",
    f"`float` <= {LARGEST!r}": "a finite number",
    "`": "'",
}


def _place(error: str) -> str:
    """The line of msgspec in our words, the place first."""
    says, *places = error.split(" - at `$")
    place = "".join(p.rstrip("`") for p in reversed(places)).lstrip(".")
    for theirs, ours in WORDS.items():
        says = says.replace(theirs, ours)
    return f"{place}: {says[0].lower()}{says[1:]}" if place else f"{says[0].lower()}{says[1:]}"


def mechanism(data: Mapping[str, Any]) -> Mechanism:
    """The noise that `describe` told, of which the known keys were checked; one that is not ours can be shown only."""
    if data["name"] in MECHANISMS:
        return MECHANISMS[data["name"]](data.get(MECHANISMS[data["name"]].parameter))  # type: ignore[call-arg]
    own = next((key for key in data if key not in Promised.__struct_fields__), "variance")
    return Described(data["name"], own, msgspec.convert(data[own], Real), data["variance"])


SHAPES: dict[Any, tuple[type[Document], Callable[[Any], Any]]] = {
    Known: (Number, lambda told: Estimate(*told.ends)),
    Attains: (Attained, lambda told: Extreme.of(Estimate(*told.ends), told.id)),
    Costs: (CostOfPrivacy, lambda told: points.CostOfPrivacy(told.share_interval, told.amount_interval)),
}
"""What is a number of its own in Python: its form in JSON, and how it is made of that."""


def _shaped(kind: Any, data: Any) -> Any:
    """What msgspec does not know by itself: the noise, and the numbers of results."""
    shape, make = SHAPES.get(kind, (Noise, lambda _: mechanism(data)))
    try:
        return make(msgspec.convert(data, shape, dec_hook=_shaped))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # so that the place where it stands is added to the place inside it


@dataclass(frozen=True)
class Described(Mechanism):
    """Noise of somebody's own, as a document describes it: it can be shown, not drawn."""

    name: str = ""  # type: ignore[misc]
    parameter: str = "deviation"  # type: ignore[misc]
    value: float = 0.0
    told_variance: float = 0.0

    @property
    def variance(self) -> float:
        """As the document says."""
        return self.told_variance

    @property
    def spread(self) -> float:
        """As the document says."""
        return self.value

    def sample(self, n: int, stream: Stream) -> Floats:
        """Nobody knows how."""
        raise UnsupportedError(f"the noise {self.name!r} was read from a document, which has no sampler")


# ---- schemas ------------------------------------------------------------------------------------------------------


def name_of(command: str) -> str:
    """What stands under `schema` in the JSON of a command."""
    return f"fairpost/{command}/{VERSIONS[command]}"


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `fairpost COMMAND --json` writes, as a dictionary.

    Keys that it does not name are welcome in it, for a later version may write some; `from_dict` takes none.
    """
    if command not in DOCUMENTS:
        raise ParameterError(f"a schema is of one of {', '.join(DOCUMENTS)}, got {command!r}")
    kind, form = DOCUMENTS[command], "#/$defs/{name}"
    shapes = {Mechanism: Noise} | {known: shape for known, (shape, _) in SHAPES.items()}
    kinds = [kind, ByRule, *shapes.values()]
    defs: dict[str, Any] = _tidy(
        msgspec.json.schema_components(
            kinds, ref_template=form, schema_hook=lambda known: {"$ref": form.format(name=shapes[known].__name__)}
        )[1]
    )
    own = defs.pop("ByRule")["properties"]
    own = {f"^(?!true_).+_{k}$": v | {"description": f"RULE_{k}: {v['description']}"} for k, v in own.items()}
    for name in {"Allocated", "Shared"} & set(defs):
        defs[name]["patternProperties"] = own
    top = defs.pop(kind.__name__)
    top["properties"]["schema"] = {"const": name_of(command), "description": "the name and number of this schema"}
    for name in ("CostOfPrivacy", "Attained", "Number", "Noise"):
        if f"'#/$defs/{name}'" not in str((top, defs)):
            del defs[name]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": top.pop("description").rstrip(".")}
    whole: dict[str, Any] = head | top | {"$defs": defs}
    return whole


def _tidy(part: Any) -> Any:
    """Without what only our reader needs: no bounds at the ends of a float, no key forbidden but among the targets."""
    if isinstance(part, list):
        return [_tidy(p) for p in part]
    if not isinstance(part, dict):
        return part
    drop = {key for key in ("minimum", "maximum") if abs(part.get(key, 0)) == LARGEST}
    if part.get("default", 0) is None:
        drop.add("default")
    if part.get("additionalProperties") is False and part.get("title") != "Targets":
        drop.add("additionalProperties")
    if isinstance(part.get("title"), str) and "type" in part:
        drop.add("title")  # the name of the type, which the definition has already
    return {key: _tidy(value) for key, value in part.items() if key not in drop}
