"""The exact engine: every bias by closed form or quadrature, each with its own error bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts, distinct_pairs
from fairpost.engines.moments import Moments
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.mechanisms import Mechanism
from fairpost.postprocess import (
    Baseline,
    Nonnegative,
    Partition,
    PoS,
    PosThreshold,
    PostProcessing,
    Simplex,
    SimplexThreshold,
    Sum,
    SumClipped,
    Unchanged,
)

Floats = NDArray[np.float64]
Evaluate = Callable[[Counts, Mechanism, PostProcessing, float], Moments]


@dataclass(frozen=True)
class Exact:
    """No simulation: integrals over the noise, refined until alpha is known to the relative tolerance `rtol`.

    Distinct (count, weight) pairs are evaluated once. What the engine cannot do it refuses by name
    (`UnsupportedError`), and where its own error bound stays above the tolerance it says so (`ToleranceError`).
    """

    rtol: float = 1e-6
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        if not 1e-12 <= self.rtol < 1:
            raise ParameterError(f"`rtol` must be from 1e-12 to below 1, got {self.rtol!r}")

    def supports(self, mechanism: Mechanism, pi: PostProcessing) -> str | None:
        """None where the engine covers this pair, else the reason why it does not."""
        if type(pi) not in EVALUATORS:
            return f"the exact engine has no integral for the post-processing {pi.name!r}"
        if mechanism.discrete and type(pi) in (Simplex, PoS):
            return f"the exact engine covers {pi.name!r} under continuous noise only, not under {mechanism.name}"
        return None

    def moments(self, counts: Counts, mechanism: Mechanism, pi: PostProcessing) -> Moments:
        """The moments of pi(X), one entry an entity; groups that keep their own totals are independent problems."""
        reason = self.supports(mechanism, pi)
        if reason is not None:
            raise UnsupportedError(reason)
        partition: Partition | None = getattr(pi, "partition", None)
        if partition is None:
            return EVALUATORS[type(pi)](counts, mechanism, pi, self.rtol)
        return _by_group(counts, mechanism, pi, partition, self.rtol)


def _spread(moments: Moments, inverse: NDArray[np.int64]) -> Moments:
    """From one entry a distinct pair to one entry an entity."""
    return replace(
        moments,
        bias=moments.bias[inverse],
        error=moments.error[inverse],
        mse=moments.mse[inverse],
        zero=moments.zero[inverse],
    )


def _release(counts: Counts, mechanism: Mechanism, pi: PostProcessing, rtol: float) -> Moments:
    from fairpost.engines.exact import closed
    from fairpost.engines.exact.simplex import simplex

    x, _, times, inverse = distinct_pairs(counts.values, np.ones(counts.n))  # a release does not look at weights
    n = counts.n
    if isinstance(pi, Unchanged):
        found = closed.unchanged(x, mechanism)
    elif isinstance(pi, Nonnegative):
        found = closed.nonnegative(x, mechanism)
    else:
        assert isinstance(pi, (Sum, SumClipped, Simplex))
        total = float(pi.total)  # type: ignore[arg-type]
        shift = (total - float(np.dot(times, x))) / n
        if isinstance(pi, Sum):
            found = closed.keeps_sum(x, n, shift, mechanism)
        elif isinstance(pi, SumClipped):
            found = closed.sum_clipped(x, n, shift, mechanism)
        else:
            found = simplex(x, times, mechanism, total, rtol)
    return _spread(found, inverse)


def _weights(pi: Baseline | PoS | PosThreshold, n: int) -> Floats:
    return np.ones(n) if pi.weights is None else np.asarray(pi.weights)


def _allocation(counts: Counts, mechanism: Mechanism, pi: PostProcessing, rtol: float) -> Moments:
    from fairpost.engines.exact.baseline import baseline
    from fairpost.engines.exact.pos import pos

    assert isinstance(pi, (Baseline, PoS))
    x, a, times, inverse = distinct_pairs(counts.values, _weights(pi, counts.n))
    rule = baseline if isinstance(pi, Baseline) else pos
    return _spread(rule(x, a, times, mechanism, rtol), inverse)


def _threshold(counts: Counts, mechanism: Mechanism, pi: PostProcessing, rtol: float) -> Moments:
    """An expansion in 1/n, which states its error; `rtol` plays no part."""
    from fairpost.engines.exact.threshold import pos_threshold, simplex_threshold

    assert isinstance(pi, (PosThreshold, SimplexThreshold))
    rule = pi.for_mechanism(mechanism).threshold
    assert rule is not None
    if isinstance(pi, SimplexThreshold):
        x, _, times, inverse = distinct_pairs(counts.values, np.ones(counts.n))
        found = simplex_threshold(x, times, mechanism, float(pi.total), rule)  # type: ignore[arg-type]
        return replace(_spread(found, inverse), accuracy="expansion")
    x, a, times, inverse = distinct_pairs(counts.values, _weights(pi, counts.n))
    return replace(_spread(pos_threshold(x, a, times, mechanism, rule), inverse), accuracy="expansion")


EVALUATORS: dict[type[PostProcessing], Evaluate] = {
    **dict.fromkeys((Unchanged, Nonnegative, Sum, SumClipped, Simplex), _release),
    **dict.fromkeys((Baseline, PoS), _allocation),
    **dict.fromkeys((SimplexThreshold, PosThreshold), _threshold),
}


def _by_group(counts: Counts, mechanism: Mechanism, pi: PostProcessing, partition: Partition, rtol: float) -> Moments:
    """Each group is a problem of its own: the noise is independent and each keeps its own total.

    One tolerance for all: `rtol` of the largest alpha in any group is reached because each group reaches its own.
    """
    fields: dict[str, Floats] = {name: np.empty(counts.n) for name in ("bias", "error", "mse", "zero")}
    regular, nodes, accuracy = 1.0, 0, "bound"
    for g in range(len(partition.labels)):
        who = partition.order[partition.starts[g] : partition.starts[g + 1]]
        part = Counts(counts.values[who], weights=counts.weights[who])
        alone = _for_group(pi, partition, g, who)
        found = EVALUATORS[type(pi)](part, mechanism, alone, rtol)
        for name, values in fields.items():
            values[who] = getattr(found, name)
        regular *= 1 - found.degenerate
        nodes, accuracy = max(nodes, found.nodes), found.accuracy
    bias, error, mse, zero = fields.values()
    return Moments(bias, error, mse, zero, degenerate=1 - regular, accuracy=accuracy, nodes=nodes)


def _for_group(pi: PostProcessing, partition: Partition, g: int, who: NDArray[np.int64]) -> PostProcessing:
    if isinstance(pi, PosThreshold):
        return replace(pi, weights=None if pi.weights is None else np.asarray(pi.weights)[who], partition=None)
    if isinstance(pi, SimplexThreshold):
        return replace(pi, total=np.asarray(pi.total)[g].item(), partition=None)
    if isinstance(pi, (Baseline, PoS)):
        return type(pi)(None if pi.weights is None else np.asarray(pi.weights)[who])
    assert isinstance(pi, (Sum, SumClipped, Simplex))
    return type(pi)(np.asarray(pi.total)[g].item())
