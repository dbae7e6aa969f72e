"""The verb: audit(counts, mechanism, postprocessing, engine=...) -> one frozen result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.budgets import Budget, GroupBudgets, among_groups, several, whole
from fairpost.counts import Counts
from fairpost.engines import engine_of
from fairpost.engines.base import Answer, Engine, Question, Refusal
from fairpost.errors import Cancelled, ParameterError
from fairpost.noise import Mechanism, as_mechanism
from fairpost.problems.programme import Programme
from fairpost.results.audit import Audit, audit_of
from fairpost.results.comparison import Comparison
from fairpost.results.targets import Targets
from fairpost.rules import PAYING, POSTPROCESSINGS, Custom, PostProcessing
from fairpost.rules.programme import Paying

if TYPE_CHECKING:
    from fairpost.engines.choose import Choice
    from fairpost.hierarchy.levels import LevelNoise
    from fairpost.hierarchy.result import HierarchyAudit
    from fairpost.hierarchy.rules import TreeRule

Floats = NDArray[np.float64]
Chosen = str | PostProcessing | Callable[[Floats], Floats]


class Problem(TypedDict, total=False):
    """What a named post-processing is built for."""

    total: float | None
    by_group: bool
    programme: Programme | str | None
    last: ArrayLike | None
    base_noise: Mechanism | str | None


class Asked(TypedDict, total=False):
    """What `audit`, `compare`, `sweep` and `plan` take beside x, M and pi; for the meaning see `audit`."""

    engine: str | Engine
    total: float | None
    budget: Budget | None
    by_group: bool
    programme: Programme | str | None
    last: ArrayLike | None
    base_noise: Mechanism | str | None
    runs: int
    seed: int
    rtol: float | None
    confidence: float


class Judged(Asked, total=False):
    """What `audit` and `compare` take in addition."""

    targets: Targets | Mapping[str, float] | None


@overload
def audit(counts: Any, mechanism: LevelNoise, postprocess: TreeRule | str, **asked: Any) -> HierarchyAudit: ...
@overload
def audit(counts: Counts | ArrayLike, mechanism: Mechanism, postprocess: Chosen, **asked: Unpack[Judged]) -> Audit: ...
def audit(counts: Any, mechanism: Any, postprocess: Any, **asked: Any) -> Any:  # noqa: D417
    """The bias B = E[pi(M(x))] - P(x), alpha, the cost of privacy and the bounds of one post-processing.

    Parameters
    ----------
    counts, mechanism
        x with its weights (numbers alone become `Counts`), and M; a `LevelNoise`, with a rule for all levels of a
        hierarchy, gives a `HierarchyAudit`.
    postprocess
        pi: a name ("simplex", "pos", ...), an object, or a function from noisy counts to counts.
    engine
        "exact"; "expansion"; "conditional"; "monte-carlo"; "auto": exact where that covers the case and reaches its tolerance,
        else an expansion where there is one that is narrow enough, else conditional means, else simulation, each group by itself
        with `by_group`, and `result.engine.note` says which and why; or an engine object such as Exact(rtol=1e-8) or
        MonteCarlo(runs=10**6), which has its own settings.
    runs, seed, confidence
        For simulation: how many runs (with `rtol`: at most; 10,000 by default). For simulation and conditional means: from
        which seed, and how surely intervals cover.
    rtol
        The relative tolerance on alpha (by group: on the largest alpha of any group): 1e-6 for the exact engine by default,
        1e-3 for conditional means; none for simulation.
    total
        C, for the post-processings that keep a total; default: the sum of the counts.
    budget
        Money to allocate, for results in money. With `by_group` one number is split among the groups in proportion to
        their true shares; a mapping from group to amount (or a sequence in the order of first appearance) gives each
        group its own. All results are then in shares of the whole, the sum.
    by_group
        Whether each group of `counts.groups` keeps its own total (release) or shares its own budget (allocation).
    programme
        For "as-written", "levelled", "signed" and "no-loss": the law, a `Programme` or the name of one that comes with the
        package. Its rates are of `counts.base`.
    last
        With hold-harmless: last year's payments, as shares of this year's appropriation.
    base_noise
        The noise that `counts.base` is published with, a mechanism or "same" as the counts; default: the base is public.
    targets
        What must not be exceeded, a `Targets` or a mapping such as {"max_loss": 500}; `result.overall.verdicts` says whether it is.

    """
    if hasattr(mechanism, "audit"):  # noise on every level of a hierarchy
        return mechanism.audit(counts, postprocess, **asked)
    return compare(counts, mechanism, [postprocess], **asked)[0]


def compare(
    counts: Counts | ArrayLike, mechanism: Mechanism, postprocesses: Sequence[Chosen], **asked: Unpack[Judged]
) -> Comparison:
    """`audit` for several post-processings; those that are simulated see the same noise (common random numbers)."""
    found = outcomes(counts, mechanism, postprocesses, **asked)
    for one in found:
        if isinstance(one, Refusal):
            raise one.error
    return Comparison(tuple(one for one in found if isinstance(one, Audit)))


def outcomes(
    counts: Counts | ArrayLike,
    mechanism: Mechanism,
    postprocesses: Sequence[Chosen],
    *,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    targets: Targets | Mapping[str, float] | None = None,
    **settings: Any,
) -> tuple[Audit | Refusal, ...]:
    """A result for each post-processing, or the engine's refusal."""
    finder, wanted = engine_of(engine, **settings), Targets.of(targets)
    given: Problem = {
        "total": total, "by_group": by_group, "programme": programme, "last": last, "base_noise": base_noise,
    }  # fmt: skip
    question, money = _question(counts, mechanism, postprocesses, budget, given)
    pis = question.pis
    if wanted.max_cost is not None and not all(pi.problem.shares for pi in pis):
        name = next(pi.name for pi in pis if not pi.problem.shares)
        raise ParameterError(f"`max_cost` limits the cost of privacy, which is for allocations, got {name}")
    wanted.refuse_mixed(units_of(pis, budget))

    def results(found: Sequence[Answer | Refusal | None]) -> tuple[Any, ...]:
        return tuple(
            _result(question, i, one, *money[i], wanted) if isinstance(one, Answer) else one
            for i, one in enumerate(found)
        )

    answers: tuple[Answer | Refusal, ...] | None = None
    try:
        answers = finder.evaluate(question)
        return results(answers)
    except Cancelled as error:
        error.reaching(lambda some: results([*map(_complete, some or answers or ())]) or None)
        raise


def _complete(found: Answer | Refusal | None) -> Answer | None:
    """Of a withdrawn question: a refusal says only that the next engine was not asked any more."""
    return found if isinstance(found, Answer) else None


def method_for(
    counts: Counts | ArrayLike,
    mechanism: Mechanism,
    postprocess: Chosen | Sequence[Chosen],
    *,
    engine: str | Engine = "auto",
    budget: Budget | None = None,
    rtol: float | None = None,
    **problem: Unpack[Problem],
) -> tuple[Choice, ...]:
    """Who would answer: for each post-processing and group the method, and why those before it do not. No work is done.

    For the arguments see `audit`; the ladder is described in `engines.choose`.
    """
    from fairpost.engines.choose import method_for as choices

    many: list[Any] = list(postprocess) if isinstance(postprocess, (list, tuple)) else [postprocess]
    question, _ = _question(counts, mechanism, many, budget, problem)
    return choices(question, engine_of(engine, rtol=rtol))


def _question(
    counts: Counts | ArrayLike,
    mechanism: Mechanism,
    postprocesses: Sequence[Chosen],
    budget: Budget | None,
    given: Problem,
) -> tuple[Question, list[tuple[float | None, GroupBudgets | None]]]:
    """What the engines are asked, and the money of each post-processing."""
    x = Counts.of(counts)
    pis = [postprocessing(which, x, **given) for which in postprocesses]
    _all_used(pis, postprocesses, given.get("total"), budget)
    programme = given.get("programme")
    if programme is not None and not any(isinstance(pi, Paying) for pi in pis):
        raise ParameterError(f"a programme is for as-written, levelled, signed and no-loss, got {pis[0].name}")
    if given.get("base_noise") is not None and programme is None:
        raise ParameterError("`base_noise` is for the rates of a programme, got no programme")
    money = [_money(pi, x, budget) for pi in pis]
    parts = [_in_parts(pi, budgets) for pi, (_, budgets) in zip(pis, money, strict=True)]
    return Question.ask(x, as_mechanism(mechanism), parts), money


def asked_for(postprocesses: Sequence[Chosen], counts: Counts, asked: Mapping[str, Any]) -> list[PostProcessing]:
    """The post-processings of a question; what was asked is for those by name."""
    given: Any = {name: asked[name] for name in Problem.__annotations__ if asked.get(name) is not None}
    return [postprocessing(one, counts, **(given if isinstance(one, str) else {})) for one in postprocesses]


def postprocessing(which: Chosen, counts: Counts, **given: Unpack[Problem]) -> PostProcessing:
    """A post-processing by name, for these counts; an object passes as it is, a bare function becomes `Custom`."""
    if isinstance(which, str) and which in PAYING:
        last, by_group = given.get("last"), given.get("by_group", False)
        known = None if last is None else np.asarray(last, dtype=np.float64)
        about = {"programme": given.get("programme"), "last": known, "base_noise": given.get("base_noise")}
        return PAYING[which].from_counts(counts, by_group=by_group, **about)  # type: ignore[arg-type]
    if isinstance(which, str) and which in POSTPROCESSINGS:
        return POSTPROCESSINGS[which].from_counts(counts, given.get("total"), by_group=given.get("by_group", False))
    if not isinstance(which, PostProcessing) and not callable(which):
        raise ParameterError(
            f"a post-processing must be one of {', '.join((*POSTPROCESSINGS, *PAYING))}, got {which!r}"
        )
    if given.get("total") is not None or given.get("by_group"):
        what = "total" if given.get("total") is not None else "by_group"
        raise ParameterError(
            f"`{what}` is for a post-processing chosen by name; an object or a function has its own, got {which!r:.60}"
        )
    return which if isinstance(which, PostProcessing) else Custom(which)


def units_of(pis: Sequence[PostProcessing], budget: Budget | None) -> list[tuple[str, str]]:
    """Each post-processing with what it is measured in; a share of its group's own budget is no share of the whole."""
    whole_of = None if budget is None else whole(budget)
    units = [(pi, pi.problem.measured_in(whole_of)) for pi in pis]
    return [
        (pi.name, "share of each group" if unit == "share" and pi.partition is not None else unit) for pi, unit in units
    ]


def _all_used(
    pis: Sequence[PostProcessing], given: Sequence[Chosen], total: float | None, budget: Budget | None
) -> None:
    """No argument is dropped in silence: a total is kept by some pi, a budget is shared by some, groups matter."""
    if total is not None and not any(pi.keeps_total for pi in pis):
        raise ParameterError(f"`total` is for post-processings that keep one, got {', '.join(pi.name for pi in pis)}")
    if budget is None:
        return
    bare = [which for which in given if not isinstance(which, (str, PostProcessing))]
    if bare:
        raise ParameterError(
            f"a function given a budget must say which problem it answers: Custom(f, problem=...), got {bare[0]!r:.60}"
        )
    if not any(pi.problem.shares for pi in pis):
        raise ParameterError(f"`budget` is for allocations, got {', '.join(pi.name for pi in pis)}")


def _money(pi: PostProcessing, counts: Counts, budget: Budget | None) -> tuple[float | None, GroupBudgets | None]:
    """The whole budget, if there is one, and its parts where every group shares out its own."""
    if budget is None or not pi.problem.shares:
        return (None if budget is None else whole(budget)), None
    if pi.partition is None and several(budget):
        raise ParameterError(f"budgets by group need an allocation by group, got {pi.name} over all entities")
    due = pi.problem.as_one().truth(counts) if isinstance(pi, Paying) and pi.partition is not None else None
    return whole(budget), None if pi.partition is None else among_groups(budget, counts, pi.partition, due)


def _in_parts(pi: PostProcessing, budgets: GroupBudgets | None) -> PostProcessing:
    """Last year's payments are shares of the whole appropriation; a group that shares its own part needs them as shares of that."""
    if budgets is None or not isinstance(pi, Paying) or pi.programme.last is None:
        return pi
    return replace(pi, programme=pi.programme.in_parts(budgets.part))


def _result(
    question: Question,
    i: int,
    answer: Answer,
    budget: float | None,
    budgets: GroupBudgets | None,
    targets: Targets,
) -> Audit:
    truth = question.truths[i]
    if budgets is not None:
        answer, truth = answer.rescaled(budgets.part), truth * budgets.part
    return audit_of(question.counts, question.mechanism, question.pis[i], answer, truth, budget, budgets, targets)
