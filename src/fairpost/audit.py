"""The verb: audit(counts, mechanism, postprocessing, engine=...) -> one frozen result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost import fairness
from fairpost.bounds import Bounds, theorem1
from fairpost.budgets import Budget, GroupBudgets, among_groups, several, whole
from fairpost.counts import Counts
from fairpost.engines.exact.engine import Exact
from fairpost.engines.moments import Moments
from fairpost.engines.montecarlo import MonteCarlo
from fairpost.engines.sampled import Sampled
from fairpost.errors import ParameterError, ToleranceError, UnsupportedError
from fairpost.mechanisms import Mechanism
from fairpost.postprocess import ALLOCATIONS, POSTPROCESSINGS, Custom, Partition, PostProcessing, Simplex
from fairpost.problems import PROBLEMS
from fairpost.result import AuditResult, CostOfPrivacy

Floats = NDArray[np.float64]
Chosen = str | PostProcessing | Callable[[Floats], Floats]
ENGINES = ("auto", "exact", "monte-carlo")
RTOL = 1e-6
"""The exact engine's relative tolerance on alpha."""


@dataclass(frozen=True)
class Auto:
    """Exact where that engine covers the case and reaches its tolerance, else simulation; `result.note` says which."""

    exact: Exact = field(default_factory=Exact)
    simulation: MonteCarlo = field(default_factory=MonteCarlo)


Engine = str | Exact | MonteCarlo | Auto


def postprocessing(
    which: Chosen, counts: Counts, total: float | None = None, *, by_group: bool = False
) -> PostProcessing:
    """A post-processing by name, for these counts; an object passes as it is, a bare function becomes `Custom`."""
    if isinstance(which, PostProcessing):
        return which
    if isinstance(which, str) and which in POSTPROCESSINGS:
        return POSTPROCESSINGS[which].from_counts(counts, total, by_group=by_group)
    if callable(which):
        return Custom(which)
    raise ParameterError(f"a post-processing must be one of {', '.join(POSTPROCESSINGS)}, got {which!r}")


def audit(
    counts: Counts,
    mechanism: Mechanism,
    postprocess: Chosen,
    *,
    engine: Engine = "auto",
    runs: int = 10_000,
    seed: int = 0,
    rtol: float | None = None,
    confidence: float = 0.95,
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
) -> AuditResult:
    """The bias B = E[pi(M(x))] - P(x), alpha, the cost of privacy and the bounds of one post-processing.

    Parameters
    ----------
    counts, mechanism
        x with its weights, and M.
    postprocess
        pi: a name ("simplex", "pos", ...), an object, or a function from noisy counts to counts.
    engine
        "exact"; "monte-carlo"; "auto": exact where it covers the case and reaches its tolerance, else simulation, and
        `result.note` says which and why; or an engine object such as Exact(rtol=1e-8) or MonteCarlo(runs=10**6).
    runs, seed, confidence
        For simulation: how many runs (with `rtol`: at most), from which seed, and how surely intervals cover.
    rtol
        The relative tolerance on alpha: 1e-6 for the exact engine by default; none for simulation.
    total
        C, for the post-processings that keep a total; default: the sum of the counts.
    budget
        Money to allocate, for results in money. With `by_group` one number is split among the groups in proportion to
        their true shares; a mapping from group to amount (or a sequence in the order of first appearance) gives each
        group its own. All results are then in shares of the whole, the sum.
    by_group
        Whether each group of `counts.groups` keeps its own total (release) or shares its own budget (allocation).

    """
    return compare(
        counts,
        mechanism,
        [postprocess],
        engine=engine,
        runs=runs,
        seed=seed,
        rtol=rtol,
        confidence=confidence,
        total=total,
        budget=budget,
        by_group=by_group,
    )[0]


def compare(
    counts: Counts,
    mechanism: Mechanism,
    postprocesses: Sequence[Chosen],
    *,
    engine: Engine = "auto",
    runs: int = 10_000,
    seed: int = 0,
    rtol: float | None = None,
    confidence: float = 0.95,
    total: float | None = None,
    budget: Budget | None = None,
    by_group: bool = False,
) -> tuple[AuditResult, ...]:
    """`audit` for several post-processings; those that are simulated see the same noise (common random numbers)."""
    pis = [postprocessing(p, counts, total, by_group=by_group).for_mechanism(mechanism) for p in postprocesses]
    money = [_money(pi, counts, budget) for pi in pis]
    made = engine_of(engine, rtol, lambda: MonteCarlo(runs=runs, seed=seed, rtol=rtol, confidence=confidence))
    exact, simulation = _pair_of_engines(made)
    found: dict[int, AuditResult] = {}
    notes: dict[int, str | None] = {}
    for i, pi in enumerate(pis):
        notes[i] = None
        if exact is None:
            continue
        try:
            found[i] = _from_moments(counts, mechanism, pi, exact.moments(counts, mechanism, pi), money[i])
        except (UnsupportedError, ToleranceError) as refusal:
            if simulation is None:
                raise
            notes[i] = f"simulated, because {refusal}"
    rest = [i for i in range(len(pis)) if i not in found]
    if rest:
        assert simulation is not None
        for i, s in zip(rest, simulation.moments(counts, mechanism, [pis[i] for i in rest]), strict=True):
            found[i] = _from_sample(counts, mechanism, pis[i], s, money[i], notes[i])
    return tuple(found[i] for i in range(len(pis)))


def engine_of(engine: Engine, rtol: float | None, simulation: Callable[[], MonteCarlo]) -> Exact | MonteCarlo | Auto:
    """An engine by its name, made where it is needed; an object passes as it is."""
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise ParameterError(f"`engine` must be one of {', '.join(ENGINES)} or an engine object, got {engine!r}")
    if engine == "monte-carlo":
        return simulation()
    exact = Exact(RTOL if rtol is None else rtol)
    return exact if engine == "exact" else Auto(exact, simulation())


def _pair_of_engines(engine: Exact | MonteCarlo | Auto) -> tuple[Exact | None, MonteCarlo | None]:
    """The engine to ask first, and the one for what it refuses (None: nobody)."""
    if isinstance(engine, Auto):
        return engine.exact, engine.simulation
    return (engine, None) if isinstance(engine, Exact) else (None, engine)


@dataclass(frozen=True)
class _Money:
    """The whole budget, if there is one, and its parts where every group shares out its own."""

    total: float | None = None
    budgets: GroupBudgets | None = None


def _money(pi: PostProcessing, counts: Counts, budget: Budget | None) -> _Money:
    if budget is None:
        return _Money()
    partition: Partition | None = getattr(pi, "partition", None)
    if pi.task != "allocation":
        return _Money(whole(budget))
    if partition is None and several(budget):
        raise ParameterError(f"budgets by group need an allocation by group, got {pi.name} over all entities")
    return _Money(whole(budget), None if partition is None else among_groups(budget, counts, partition))


def _from_moments(
    counts: Counts, mechanism: Mechanism, pi: PostProcessing, moments: Moments, money: _Money
) -> AuditResult:
    if money.budgets is not None:
        moments = _parts_of_moments(moments, money.budgets.part)
    return AuditResult(
        counts=counts,
        mechanism=mechanism,
        postprocess=pi.name,
        task=pi.task,
        method=Exact.name,
        truth=_truth(counts, pi, money.budgets),
        bias=moments.bias,
        error=moments.error,
        deviation=np.sqrt(np.maximum(moments.mse - moments.bias**2, 0.0)),
        mse=moments.mse,
        zero=moments.zero,
        alpha=fairness.alpha_interval(moments.bias, moments.error),
        alpha_pair=_pair(counts, pi, moments),
        bounds=_bounds(counts, mechanism, pi, moments.threshold),
        cost_of_privacy=_cost(pi, moments.bias, moments.error, money.total),
        expected_T=moments.threshold,
        degenerate=moments.degenerate,
        grouped=getattr(pi, "partition", None) is not None,
        budget=money.total,
        budgets=money.budgets,
        accuracy=moments.accuracy,
    )


def _parts_of_moments(moments: Moments, part: Floats) -> Moments:
    """From shares of each group's budget to shares of the whole.

    A sum of n positive numbers has a relative rounding error of at most n eps, so `part`, a ratio of two such sums,
    adds (2n + 4) eps of the bias to its error.
    """
    bias = moments.bias * part
    rounding = (2 * part.size + 4) * np.finfo(np.float64).eps * np.abs(bias)
    return replace(moments, bias=bias, error=moments.error * part + rounding, mse=moments.mse * part**2)


def _parts_of_sample(s: Sampled, part: Floats) -> Sampled:
    """The same for a simulation. All biases lie within their half-widths together, and so alpha in what follows."""
    names = ("bias", "standard_error", "half_width", "deviation", "plain", "plain_error")
    scaled = {name: getattr(s, name) * part for name in names}
    ends = fairness.alpha(scaled["bias"])
    alpha = fairness.alpha_interval(scaled["bias"], scaled["half_width"])
    return replace(s, **scaled, mse=s.mse * part**2, alpha=alpha, pair=(ends.most, ends.least))


def _from_sample(
    counts: Counts, mechanism: Mechanism, pi: PostProcessing, s: Sampled, money: _Money, note: str | None
) -> AuditResult:
    if money.budgets is not None:
        s = _parts_of_sample(s, money.budgets.part)
    partition: Partition | None = getattr(pi, "partition", None)
    problems = s.runs * (1 if partition is None else len(partition.labels))
    return AuditResult(
        counts=counts,
        mechanism=mechanism,
        postprocess=pi.name,
        task=pi.task,
        method="monte-carlo",
        truth=_truth(counts, pi, money.budgets),
        bias=s.bias,
        error=s.standard_error,
        deviation=s.deviation,
        mse=s.mse,
        zero=s.zero,
        alpha=s.alpha,
        alpha_pair=(counts.ids[s.pair[0]], counts.ids[s.pair[1]]),
        bounds=_bounds(counts, mechanism, pi, None),
        cost_of_privacy=_cost(pi, s.bias, s.half_width, money.total),
        expected_T=None,
        degenerate=s.degenerate / problems,
        grouped=partition is not None,
        budget=money.total,
        budgets=money.budgets,
        accuracy="interval",
        runs=s.runs,
        seed=s.seed,
        note="; ".join(part for part in (note, s.statement) if part),
        sample=s,
    )


def _cost(pi: PostProcessing, bias: Floats, error: Floats, budget: float | None) -> CostOfPrivacy | None:
    if pi.task != "allocation":
        return None
    share = fairness.cost_interval(bias, error)
    return CostOfPrivacy(share, None if budget is None else share.scaled(budget))


def _truth(counts: Counts, pi: PostProcessing, budgets: GroupBudgets | None) -> Floats:
    """P(x); by group, the shares of each group's budget, or of the whole where the groups' budgets are known."""
    problem = PROBLEMS[pi.task]
    partition: Partition | None = getattr(pi, "partition", None)
    if pi.task == "release" or partition is None:
        return problem(counts)
    out = np.empty(counts.n)
    for g in range(len(partition.labels)):
        who = partition.order[partition.starts[g] : partition.starts[g + 1]]
        out[who] = problem(Counts(counts.values[who], weights=counts.weights[who]))
    return out if budgets is None else out * budgets.part


def _pair(counts: Counts, pi: PostProcessing, moments: Moments) -> tuple[str, str]:
    """The ids of the largest and the smallest bias.

    For the projection onto one simplex Lemma 3 names them: the smallest and the largest count. Biases of large counts
    differ by less than any error, so the numbers alone would pick one of them by rounding.
    """
    if isinstance(pi, Simplex) and pi.partition is None:
        return counts.ids[int(np.argmin(counts.values))], counts.ids[int(np.argmax(counts.values))]
    found = fairness.alpha(moments.bias)
    return counts.ids[found.most], counts.ids[found.least]


def _bounds(counts: Counts, mechanism: Mechanism, pi: PostProcessing, expected_T: float | None) -> Bounds | None:
    """Theorem 1 where it applies: the projection onto one simplex with a positive total."""
    if not isinstance(pi, Simplex) or pi.partition is not None or pi.total == 0:
        return None
    try:
        return theorem1(counts, mechanism, float(pi.total), expected_T)  # type: ignore[arg-type]
    except UnsupportedError:
        return None


def allocate(
    noisy: ArrayLike, weights: ArrayLike | None = None, how: str = "pos", mechanism: Mechanism | None = None
) -> Floats:
    """Shares of 1 from noisy counts alone: "pos" (the paper's projection), "baseline" or "pos-threshold".

    One vector, or the rows of a matrix. Nothing true is needed, so nothing private is spent; "pos-threshold" needs to
    know the mechanism that made the noise, which is public.
    """
    if how not in ALLOCATIONS:
        raise ParameterError(f"`how` must be one of {', '.join(ALLOCATIONS)}, got {how!r}")
    pi = ALLOCATIONS[how](weights)
    return (pi if mechanism is None else pi.for_mechanism(mechanism))(noisy)
