"""The verb: audit(counts, mechanism, postprocessing, engine=...) -> one frozen result."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost import fairness
from fairpost.bounds import Bounds, theorem1
from fairpost.counts import Counts
from fairpost.engines.exact.engine import Exact
from fairpost.engines.moments import Moments
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.mechanisms import Mechanism
from fairpost.postprocess import ALLOCATIONS, POSTPROCESSINGS, Partition, PostProcessing, Simplex
from fairpost.problems import PROBLEMS
from fairpost.result import AuditResult, CostOfPrivacy

Floats = NDArray[np.float64]
ENGINES = ("auto", "exact")


def postprocessing(
    which: str | PostProcessing, counts: Counts, total: float | None = None, *, by_group: bool = False
) -> PostProcessing:
    """A post-processing by name, for these counts; an object passes through as it is."""
    if isinstance(which, PostProcessing):
        return which
    if which not in POSTPROCESSINGS:
        raise ParameterError(f"a post-processing must be one of {', '.join(POSTPROCESSINGS)}, got {which!r}")
    return POSTPROCESSINGS[which].from_counts(counts, total, by_group=by_group)


def audit(
    counts: Counts,
    mechanism: Mechanism,
    postprocess: str | PostProcessing,
    *,
    engine: str | Exact = "auto",
    total: float | None = None,
    budget: float | None = None,
    by_group: bool = False,
) -> AuditResult:
    """The bias B = E[pi(M(x))] - P(x), alpha, the cost of privacy and the bounds of one post-processing.

    Parameters
    ----------
    counts, mechanism
        x with its weights, and M.
    postprocess
        pi, by name ("simplex", "pos", ...) or as an object.
    engine
        "exact" or "auto" (exact where it covers the case), or an engine object such as Exact(rtol=1e-8).
    total
        C, for the post-processings that keep a total; default: the sum of the counts.
    budget
        Money to allocate, for results in money.
    by_group
        Whether each group of `counts.groups` keeps its own total (release) or shares its own budget (allocation).

    """
    pi = postprocessing(postprocess, counts, total, by_group=by_group).for_mechanism(mechanism)
    rule = _engine(engine)
    moments = rule.moments(counts, mechanism, pi)
    truth = _truth(counts, pi)
    cost = None
    if pi.task == "allocation":
        share = fairness.cost_interval(moments.bias, moments.error)
        cost = CostOfPrivacy(share, None if budget is None else share.scaled(fairness._budget(budget)))
    return AuditResult(
        counts=counts,
        mechanism=mechanism,
        postprocess=pi.name,
        task=pi.task,
        method=rule.name,
        truth=truth,
        bias=moments.bias,
        error=moments.error,
        deviation=np.sqrt(np.maximum(moments.mse - moments.bias**2, 0.0)),
        mse=moments.mse,
        zero=moments.zero,
        alpha=fairness.alpha_interval(moments.bias, moments.error),
        alpha_pair=_pair(counts, pi, moments),
        bounds=_bounds(counts, mechanism, pi, moments),
        cost_of_privacy=cost,
        expected_T=moments.threshold,
        degenerate=moments.degenerate,
        budget=budget,
    )


def _engine(engine: str | Exact) -> Exact:
    if isinstance(engine, Exact):
        return engine
    if engine not in ENGINES:
        raise ParameterError(f"`engine` must be one of {', '.join(ENGINES)} or an engine object, got {engine!r}")
    return Exact()


def _truth(counts: Counts, pi: PostProcessing) -> Floats:
    """P(x); by group, the shares inside each group."""
    problem = PROBLEMS[pi.task]
    partition: Partition | None = getattr(pi, "partition", None)
    if pi.task == "release" or partition is None:
        return problem(counts)
    out = np.empty(counts.n)
    for g in range(len(partition.labels)):
        who = partition.order[partition.starts[g] : partition.starts[g + 1]]
        out[who] = problem(Counts(counts.values[who], weights=counts.weights[who]))
    return out


def _pair(counts: Counts, pi: PostProcessing, moments: Moments) -> tuple[str, str]:
    """The ids of the largest and the smallest bias.

    For the projection onto one simplex Lemma 3 names them: the smallest and the largest count. Biases of large counts differ by
    less than any error, so the numbers alone would pick one of them by rounding.
    """
    if isinstance(pi, Simplex) and pi.partition is None:
        return counts.ids[int(np.argmin(counts.values))], counts.ids[int(np.argmax(counts.values))]
    found = fairness.alpha(moments.bias)
    return counts.ids[found.most], counts.ids[found.least]


def _bounds(counts: Counts, mechanism: Mechanism, pi: PostProcessing, moments: Moments) -> Bounds | None:
    """Theorem 1 where it applies: the projection onto one simplex with a positive total."""
    if not isinstance(pi, Simplex) or pi.partition is not None or pi.total == 0:
        return None
    try:
        return theorem1(counts, mechanism, float(pi.total), moments.threshold)  # type: ignore[arg-type]
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
