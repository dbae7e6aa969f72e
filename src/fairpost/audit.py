"""The verb: audit(counts, mechanism, rule, engine=...) -> one frozen result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.budgets import Budget, GroupBudgets, among_groups, several, whole
from fairpost.counts import Counts
from fairpost.engines import engine_of
from fairpost.engines.base import Answer, Engine, Question, Refusal
from fairpost.errors import Cancelled, ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.noise import Mechanism, as_mechanism
from fairpost.problems.programme import Programme
from fairpost.results.audit import Audit, audit_of
from fairpost.results.comparison import Comparison
from fairpost.results.targets import Targets
from fairpost.rules import PAYING, POSTPROCESSINGS, Custom, PostProcessing
from fairpost.rules.programme import Paying

if TYPE_CHECKING:
    from fairpost.engines.choose import Choice
    from fairpost.hierarchy.result import HierarchyAudit
    from fairpost.hierarchy.rules import TreeRule

Floats = NDArray[np.float64]
Chosen = str | PostProcessing | Callable[[Floats], Floats]
"""A rule: its name, an object, or a function from noisy counts to counts."""
P = ParamSpec("P")
R = TypeVar("R")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The keywords of the last version, each with its name of today: taken in this version, with one line of warning."""

    def decorate(verb: Callable[P, R]) -> Callable[P, R]:
        @wraps(verb)
        def called(*args: P.args, **given: P.kwargs) -> R:
            for old, new in names.items():
                if old in given:
                    warnings.warn(f"`{old}` is called `{new}` now", FutureWarning, stacklevel=2)
                    given[new] = given.pop(old)
            return verb(*args, **given)

        return called

    return decorate


@overload
def audit(
    counts: Counts | ArrayLike,
    mechanism: LevelNoise,
    rule: TreeRule | str,
    *,
    engine: str = "auto",
    runs: int | None = None,
    seed: int | None = None,
    confidence: float | None = None,
) -> HierarchyAudit: ...
@overload
def audit(
    counts: Counts | ArrayLike,
    mechanism: Mechanism,
    rule: Chosen,
    *,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    targets: Targets | Mapping[str, float] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    confidence: float | None = None,
) -> Audit: ...
@renamed(postprocess="rule", method="engine")
def audit(
    counts: Counts | ArrayLike,
    mechanism: Mechanism | LevelNoise,
    rule: Chosen | TreeRule,
    *,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    targets: Targets | Mapping[str, float] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    confidence: float | None = None,
) -> Audit | HierarchyAudit:
    """The bias B = E[pi(M(x))] - P(x), alpha, the cost of privacy and the bounds of one rule.

    Parameters
    ----------
    counts, mechanism
        x with its weights (numbers alone become `Counts`), and M; a `LevelNoise`, with a rule for all levels of a
        hierarchy, gives a `HierarchyAudit`.
    rule
        pi: a name ("simplex", "pos", ...), an object, or a function from noisy counts to counts.
    engine
        "exact"; "expansion"; "conditional"; "monte-carlo"; "auto": exact where that covers the case and reaches its tolerance,
        else an expansion where there is one that is narrow enough, else conditional means, else simulation, each group by itself
        with `by_group`, and `result.engine.note` says which and why; or an engine object such as Exact(rtol=1e-8) or
        MonteCarlo(runs=10**6), which has its own settings.
    total
        C, for the rules that keep a total; default: the sum of the counts.
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
    runs, seed, confidence
        For simulation: how many runs (with `rtol`: at most; 10,000 by default). For simulation and conditional means: from
        which seed, and how surely intervals cover.
    rtol
        The relative tolerance on alpha (by group: on the largest alpha of any group): 1e-6 for the exact engine by default,
        1e-3 for conditional means; none for simulation.

    """
    settings = {"runs": runs, "seed": seed, "rtol": rtol, "confidence": confidence}
    asked = Asked(total, budget, by_group, programme, last, base_noise)
    if isinstance(mechanism, LevelNoise):  # noise on every level of a hierarchy
        given = {name: value for name, value in settings.items() if value is not None}
        strange = next(iter([*asked.said(), *(["targets"] if targets is not None else [])]), None)
        if strange is not None:
            raise ParameterError(f"`{strange}` is for noise on one level, got a LevelNoise")
        from fairpost.hierarchy.audit import audit_hierarchy

        levels: dict[str, Any] = {"method": engine, **given}
        return audit_hierarchy(counts, mechanism, cast("TreeRule | str", rule), **levels)
    pi = cast("Chosen", rule)
    return _all_answered(asked.outcomes(counts, mechanism, [pi], engine_of(engine, **settings), targets))[0]


@renamed(postprocesses="rules", method="engine")
def compare(
    counts: Counts | ArrayLike,
    mechanism: Mechanism,
    rules: Sequence[Chosen],
    *,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    targets: Targets | Mapping[str, float] | None = None,
    runs: int | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    confidence: float | None = None,
) -> Comparison:
    """`audit` for several rules; those that are simulated see the same noise (common random numbers).

    Parameters
    ----------
    rules
        Names, objects or functions, as the `rule` of `audit`; the other arguments are those of `audit` too.
    counts, mechanism, engine, total, budget, by_group, programme, last, base_noise, targets, runs, seed, rtol, confidence
        As in `audit`. A total is for the rules that keep one and a budget for those that share one.

    """
    asked = Asked(total, budget, by_group, programme, last, base_noise)
    finder = engine_of(engine, runs=runs, seed=seed, rtol=rtol, confidence=confidence)
    return _all_answered(asked.outcomes(counts, mechanism, rules, finder, targets))


@renamed(postprocess="rule", method="engine")
def method_for(
    counts: Counts | ArrayLike,
    mechanism: Mechanism,
    rule: Chosen | Sequence[Chosen],
    *,
    engine: str | Engine = "auto",
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
    programme: Programme | str | None = None,
    last: ArrayLike | None = None,
    base_noise: Mechanism | str | None = None,
    rtol: float | None = None,
) -> tuple[Choice, ...]:
    """Who would answer: for each rule and group the method, and why those before it do not. No work is done.

    Parameters
    ----------
    rule
        One rule as in `audit`, or a list of them.
    counts, mechanism, engine, total, budget, by_group, programme, last, base_noise, rtol
        As in `audit`; the ladder is described in `engines.choose`.

    """
    from fairpost.engines.choose import method_for as choices

    many: list[Any] = list(rule) if isinstance(rule, (list, tuple)) else [rule]
    asked = Asked(total, budget, by_group, programme, last, base_noise)
    question, _ = asked.question(Counts.of(counts), mechanism, many)
    return choices(question, engine_of(engine, rtol=rtol))


def _all_answered(found: Sequence[Audit | Refusal]) -> Comparison:
    """The results; the first refusal is an error."""
    for one in found:
        if isinstance(one, Refusal):
            raise one.error
    return Comparison(tuple(one for one in found if isinstance(one, Audit)))


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of every rule beside x, M and the engine; for the meaning see `audit`."""

    total: float | None = None
    budget: Budget | None = None
    by_group: bool = False
    programme: Programme | str | None = None
    last: ArrayLike | None = None
    base_noise: Mechanism | str | None = None

    def said(self) -> list[str]:
        """The names of what was given."""
        return [name for name, given in vars(self).items() if given is not None and given is not False]

    @property
    def whole(self) -> float | None:
        """B, where there is money."""
        return None if self.budget is None else whole(self.budget)

    def rules(self, rules: Sequence[Chosen], counts: Counts) -> list[PostProcessing]:
        """The rules for these counts; what was asked is for those by name."""
        return [self.rule(one, counts) if isinstance(one, str) else Asked().rule(one, counts) for one in rules]

    def rule(self, which: Chosen, counts: Counts) -> PostProcessing:
        """A rule by name, for these counts; an object passes as it is, a bare function becomes `Custom`."""
        if isinstance(which, str) and which in PAYING:
            known = None if self.last is None else np.asarray(self.last, dtype=np.float64)
            about: dict[str, Any] = {"programme": self.programme, "last": known, "base_noise": self.base_noise}
            return PAYING[which].from_counts(counts, by_group=self.by_group, **about)
        if isinstance(which, str) and which in POSTPROCESSINGS:
            return POSTPROCESSINGS[which].from_counts(counts, self.total, by_group=self.by_group)
        if not isinstance(which, PostProcessing) and not callable(which):
            known_names = ", ".join((*POSTPROCESSINGS, *PAYING))
            raise ParameterError(f"a post-processing must be one of {known_names}, got {which!r}")
        if self.total is not None or self.by_group:
            what = "total" if self.total is not None else "by_group"
            raise ParameterError(
                f"`{what}` is for a post-processing chosen by name; an object or a function has its own, got {which!r:.60}"
            )
        return which if isinstance(which, PostProcessing) else Custom(which)

    def question(
        self, x: Counts, mechanism: Mechanism, rules: Sequence[Chosen]
    ) -> tuple[Question, list[tuple[float | None, GroupBudgets | None]]]:
        """What the engines are asked, and the money of each rule."""
        pis = [self.rule(which, x) for which in rules]
        self._refuse_unused(pis, rules)
        money = [_money(pi, x, self.budget) for pi in pis]
        parts = [_in_parts(pi, budgets) for pi, (_, budgets) in zip(pis, money, strict=True)]
        return Question.ask(x, as_mechanism(mechanism), parts), money

    def outcomes(
        self,
        counts: Counts | ArrayLike,
        mechanism: Mechanism,
        rules: Sequence[Chosen],
        engine: Engine,
        targets: Targets | Mapping[str, float] | None = None,
    ) -> tuple[Audit | Refusal, ...]:
        """A result for each rule, or the engine's refusal."""
        wanted = Targets.of(targets)
        question, money = self.question(Counts.of(counts), mechanism, rules)
        pis = question.pis
        if wanted.max_cost is not None and not all(pi.problem.shares for pi in pis):
            name = next(pi.name for pi in pis if not pi.problem.shares)
            raise ParameterError(f"`max_cost` limits the cost of privacy, which is for allocations, got {name}")
        wanted.refuse_mixed(self.units(pis))

        def results(found: Sequence[Answer | Refusal | None]) -> tuple[Any, ...]:
            return tuple(
                _result(question, i, one, *money[i], wanted) if isinstance(one, Answer) else one
                for i, one in enumerate(found)
            )

        answers: tuple[Answer | Refusal, ...] | None = None
        try:
            answers = engine.evaluate(question)
            return results(answers)
        except Cancelled as error:
            error.reaching(lambda some: results([*map(_complete, some or answers or ())]) or None)
            raise

    def units(self, pis: Sequence[PostProcessing]) -> list[tuple[str, str]]:
        """Each rule with what it is measured in; a share of its group's own budget is no share of the whole."""
        units = [(pi, pi.problem.measured_in(self.whole)) for pi in pis]
        return [
            (pi.name, "share of each group" if unit == "share" and pi.partition is not None else unit)
            for pi, unit in units
        ]

    def _refuse_unused(self, pis: Sequence[PostProcessing], given: Sequence[Chosen]) -> None:
        """No argument is dropped in silence: a total is kept by some pi, a budget is shared by some, a law pays by some."""
        if self.total is not None and not any(pi.keeps_total for pi in pis):
            names = ", ".join(pi.name for pi in pis)
            raise ParameterError(f"`total` is for post-processings that keep one, got {names}")
        if self.programme is not None and not any(isinstance(pi, Paying) for pi in pis):
            raise ParameterError(f"a programme is for as-written, levelled, signed and no-loss, got {pis[0].name}")
        if self.base_noise is not None and self.programme is None:
            raise ParameterError("`base_noise` is for the rates of a programme, got no programme")
        if self.budget is None:
            return
        bare = [which for which in given if not isinstance(which, (str, PostProcessing))]
        if bare:
            raise ParameterError(
                f"a function given a budget must say which problem it answers: Custom(f, problem=...), got {bare[0]!r:.60}"
            )
        if not any(pi.problem.shares for pi in pis):
            raise ParameterError(f"`budget` is for allocations, got {', '.join(pi.name for pi in pis)}")


def _complete(found: Answer | Refusal | None) -> Answer | None:
    """Of a withdrawn question: a refusal says only that the next engine was not asked any more."""
    return found if isinstance(found, Answer) else None


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
    question: Question, i: int, answer: Answer, budget: float | None, budgets: GroupBudgets | None, targets: Targets
) -> Audit:
    truth = question.truths[i]
    if budgets is not None:
        answer, truth = answer.rescaled(budgets.part), truth * budgets.part
    return audit_of(question.counts, question.mechanism, question.pis[i], answer, truth, budget, budgets, targets)
