"""The formula: biases of all nodes without simulation, with the size of the term that it leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.errors import UnsupportedError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.rules import Pooling, TreeRule
from fairpost.noise import Law
from fairpost.parallel import over_slices

Floats = NDArray[np.float64]
Ramps = tuple[Floats, Floats]
GAUSSIAN = 1


@dataclass(frozen=True, eq=False)
class Field:
    """Mean field on every node, in tree order, a vector of all nodes unless said otherwise."""

    bias: Floats
    thresholds: Floats
    """m of each inner node; infinite where its target is 0 and for a parent of one child."""
    P: NDArray[np.float32]
    """The slope of psi for each leaf: the chance to be kept."""
    P_above: NDArray[np.float32]
    """The same for inner nodes (equal variances only)."""
    variance: Floats | None = None
    """Of the output, by the delta method."""
    remainder: Floats | None = None
    """The next term of the expansion: the stated error."""


def tails_of(mechanism: Law | None) -> Floats:
    """T_k(j) = E[eta^k; eta >= j] for k = 0, 1, 2 and j = -reach .. reach + 1; two zeros for continuous noise."""
    if mechanism is None or not mechanism.discrete:
        return np.zeros((3, 2))
    reach = int(
        np.ceil((15 if np.isinf(mechanism.strip) else 100) * mechanism.spread + 1)
    )  # e^-100 of the centre's mass
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    mass = mechanism.density(k)
    out = np.zeros((3, mass.size + 1))
    for power in range(3):
        out[power, :-1] = np.cumsum((mass * k**power)[::-1])[::-1]
    return out


def mean_field(x: Floats, noise: LevelNoise, rule: TreeRule, *, moments: bool = False) -> Field:
    """Mean field of a rule for the true counts x of all nodes; with `moments` also variances and the stated error.

    For a pooled rule the upper levels take Gaussian noise of the pooled variances. The joint optimum is no composition of
    families: it is refused.
    """
    if not noise.measured:
        raise UnsupportedError("an audit of levels needs a root that is known or measured, got one that is neither")
    if not rule.by_families:
        raise UnsupportedError(
            "mean-field follows families from the top down, which the joint optimum does not: simulate it"
        )
    tree, taus_steeps = noise.tree, rule.thresholds(noise)
    bias, m = np.zeros(tree.nodes), np.full(int(tree.offsets[-2]), np.inf)
    P, above = np.ones(tree.n, dtype=np.float32), np.ones(int(tree.offsets[-2]), dtype=np.float32)
    field = Field(bias, m, P, above)
    if not rule.clips:
        variance = Pooling.of(noise).unclipped(noise) if moments else None
        return Field(bias, m, P, above, variance, np.zeros(tree.nodes) if moments else None)
    pooled = Pooling.of(noise, leaves=False) if rule.pools else None
    _root(x, noise, pooled, bias)
    for level in range(max(noise.top, 0), tree.depth):
        cancel.check()
        _level(x, noise, level, taus_steeps, pooled, field)
    if not moments:
        return field
    variance, remainder = _moments(x, noise, taus_steeps, pooled, field)
    return Field(bias, m, P, above, variance, remainder)


def _root(x: Floats, noise: LevelNoise, pooled: Pooling | None, bias: Floats) -> None:
    """A root that is measured is clipped at 0: of its own noise, or of what is left of it when all below is pooled with it."""
    if noise.top >= 0:
        return
    from fairpost.hierarchy.kernels.meanfield import psi_of

    kind, spread, tails = noise.code, float(noise.spreads[0]), tails_of(noise.mechanisms[0])
    if pooled is not None:
        kind, spread, tails = GAUSSIAN, float(np.sqrt(pooled.V[0])), np.zeros((3, 2))
    bias[0] = psi_of(float(x[0]), kind, spread, tails, 0.0, 1.0)[0] - x[0]


def _over_level(
    kernel: Any,
    noise: LevelNoise,
    level: int,
    ramps: Ramps,
    pooled: Pooling | None,
    given: tuple[Any, ...],
    out: tuple[Any, ...],
) -> None:
    """The families whose parents lie on one level, over all cores: each is on its own."""
    tree, k = noise.tree, level + 1
    law: tuple[Any, ...] = noise.code, noise.spreads[k : k + 1], tails_of(noise.mechanisms[k]), np.ones(1)
    if pooled is not None and k < tree.depth:
        law = GAUSSIAN, noise.spreads[k : k + 1], np.zeros((3, 2)), pooled.V
    first, ramp = int(tree.offsets[level]), (float(ramps[0][k]), float(ramps[1][k]))

    def some(part: slice) -> None:
        kernel(tree.child, first + part.start, first + part.stop, *given, *law, *ramp, *out)

    over_slices(some, tree.size(level), None if tree.size(k) > 2**15 else 1)


def _level(x: Floats, noise: LevelNoise, level: int, ramps: Ramps, pooled: Pooling | None, field: Field) -> None:
    from fairpost.hierarchy.kernels.meanfield import level_field

    tree = noise.tree
    P, base = (field.P, int(tree.offsets[-2])) if level + 1 == tree.depth else (field.P_above, 0)
    _over_level(level_field, noise, level, ramps, pooled, (base, x), (field.bias, field.thresholds, P))


def _moments(x: Floats, noise: LevelNoise, ramps: Ramps, pooled: Pooling | None, field: Field) -> tuple[Floats, Floats]:
    from fairpost.hierarchy.kernels.meanfield import spread_out

    variance, remainder = np.zeros(noise.tree.nodes), np.zeros(noise.tree.nodes)
    variance[0] = noise.variances[0] if pooled is None else pooled.V[0]
    for level in range(max(noise.top, 0), noise.tree.depth):
        _over_level(spread_out, noise, level, ramps, pooled, (x,), (field.bias, field.thresholds, variance, remainder))
    return variance, remainder
