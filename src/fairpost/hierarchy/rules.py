"""pi on a tree: measurements of every node in, counts out that are consistent and not negative.

`TopDown` (with `pool=True`: "blue-down") and `Joint` differ in what they do with measurements of lower levels; `Unclipped` is the
generalised least-squares estimate, unbiased, negative where it must be, to publish beside them. Each is applied to a vector of
all nodes, level by level from the root (`Hierarchy.join`), or to the rows of a matrix. No rule sees the true counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import CountsError, ParameterError, UnsupportedError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.tree import Hierarchy
from fairpost.noise import Threshold
from fairpost.parallel import over_slices

Floats = NDArray[np.float64]
Choice = None | Literal["best"] | float | Sequence[float]
WHOLE = 1e-6
"""How far an exact total may be from a whole number and still be one."""


@dataclass(frozen=True, eq=False)
class TreeRule(ABC):
    """A post-processing of the measurements of all nodes of `tree`."""

    tree: Hierarchy
    name: ClassVar[str]
    clips: ClassVar[bool] = True
    """Whether no output is negative. A rule that does not clip adds no bias."""
    by_families: ClassVar[bool] = True
    """Whether it works from the root down, a family at a time, so that mean field can follow it."""

    @property
    def pools(self) -> bool:
        """Whether measurements of lower levels have a say in those above."""
        return True

    @property
    def label(self) -> str:
        """The name on the command line and in JSON."""
        return self.name

    @property
    def whole(self) -> bool:
        """Whether the output is rounded to whole numbers."""
        return getattr(self, "rounding", None) == "whole"

    def thresholds(self, noise: LevelNoise) -> tuple[Floats, Floats]:
        """tau and steepness of each level; a steepness of 1 is no threshold."""
        return np.zeros(len(self.tree.names)), np.ones(len(self.tree.names))

    @abstractmethod
    def _rows(self, noise: LevelNoise, Y: Floats, out: Floats) -> None:
        """The outputs of the rows of Y into the rows of `out`."""

    def apply(self, measured: ArrayLike, noise: LevelNoise, *, seed: int = 0, run: int = 0) -> Floats:
        """The output for measurements of all nodes (one vector, or a row a draw), in the same layout.

        Rounding draws from stream (seed, run), row k from run + k.
        """
        if noise.tree is not self.tree:
            raise ParameterError("a rule and its noise must be about the same hierarchy, got two")
        y = _checked(self.tree, measured)
        rows = np.atleast_2d(y)
        out = np.empty_like(rows)
        finish = self._rounder(noise, seed) if self.whole else None

        def some(part: slice) -> None:
            self._rows(noise, rows[part], out[part])
            if finish is not None:
                for k in range(part.start, part.stop):
                    finish(out[k], run + k)

        over_slices(some, len(rows), None if rows.size >= 2**16 else 1)
        return out if y.ndim == 2 else out[0]

    def _rounder(self, noise: LevelNoise, seed: int) -> Callable[[Floats, int], None]:
        """Every node to whole numbers; exact totals must be whole numbers already."""
        from fairpost.hierarchy.kernels.rules import round_nodes

        tree, known = self.tree, int(self.tree.offsets[noise.top + 1])

        def finish(v: Floats, run: int) -> None:
            far = np.flatnonzero(np.abs(np.round(v[:known]) - v[:known]) > WHOLE)
            if far.size:
                level = int(np.searchsorted(tree.offsets, far[0], side="right")) - 1
                label = tree.id_of(level, int(far[0] - tree.offsets[level]))
                raise ParameterError(
                    f"rounding keeps an exact total only where it is a whole number, got {v[far[0]]:.12g} for {label!r}"
                )
            round_nodes(tree.child, tree.offsets, noise.top, v.copy(), v, np.uint64(seed), np.uint64(run))

        return finish


def _checked(tree: Hierarchy, measured: ArrayLike) -> Floats:
    try:
        y = np.ascontiguousarray(measured, dtype=np.float64)
    except (TypeError, ValueError):
        raise CountsError("measurements must be numbers, one a node") from None
    if y.ndim not in (1, 2) or y.shape[-1] != tree.nodes:
        raise CountsError(f"measurements must have one entry a node: {tree.nodes} nodes, got shape {y.shape}")
    if not np.isfinite(y).all():
        place = int(np.argwhere(~np.isfinite(np.atleast_2d(y)))[0][-1])
        raise CountsError(f"every measurement must be finite, got one that is not for node {place}")
    return y


@dataclass(frozen=True, eq=False)
class Pooling:
    """What pooled rules need of tree and noise: variances upwards."""

    V: Floats
    W: Floats

    @classmethod
    def of(cls, noise: LevelNoise, *, leaves: bool = True) -> Pooling:
        """From the tree and the noise alone; V without the leaves, whose variance is the level's, where memory counts."""
        from fairpost.hierarchy.kernels.rules import variances

        tree = noise.tree
        V, W = np.empty(tree.nodes if leaves else int(tree.offsets[-2])), np.empty(int(tree.offsets[-2]))
        variances(tree.child, tree.offsets, noise.variances, V, W)
        return cls(V, W)

    def unclipped(self, noise: LevelNoise, last: int | None = None) -> Floats:
        """The variance of the unclipped estimate u of every node, down to level `last`.

        u_c = z_c - (V_c/W) S + (V_c/W) u_p; the first two terms are uncorrelated with S, through which alone u_p knows
        the children, so Var u_c = V_c - V_c^2/W + (V_c/W)^2 Var u_p.
        """
        tree = noise.tree
        depth = tree.depth if last is None else last
        out = np.empty(int(tree.offsets[depth + 1]))
        out[0] = self.V[0]
        for level in range(depth):
            here, below = tree.span(level), tree.span(level + 1)
            parent = tree.parents(level + 1)
            W = self.W[here][parent]
            share = np.divide(self.V[below], W, out=np.zeros_like(W), where=W > 0)
            out[below] = self.V[below] * (1.0 - share) + share**2 * out[here][parent]
        return out

    def unclipped_rmse(self, noise: LevelNoise) -> list[float]:
        """The root mean square of the unclipped estimate's error, level by level.

        Leaves of a family have the same variance, so that of the last level follows from their parents.
        """
        tree, variance = noise.tree, self.unclipped(noise, noise.tree.depth - 1)
        out = [float(np.sqrt(np.mean(variance[tree.span(k)]))) for k in range(tree.depth)]
        parents = tree.span(tree.depth - 1)
        n, s2 = np.diff(tree.child[parents.start : parents.stop + 1]), noise.variances[-1]
        total = n * s2 * (1.0 - 1.0 / n) + variance[parents] / n
        return [*out, float(np.sqrt(total.sum() / tree.n))]


@final
@dataclass(frozen=True, eq=False)
class TopDown(TreeRule):
    """From the root down, each family projected onto its parent's value: v_c = (y_c - m)_+ of sum v_p.

    Parameters
    ----------
    tree
        The hierarchy.
    pool
        False: "top-down", a level's measurements alone. True: "blue-down", generalised least squares from the leaves up
        first, then down on the pooled estimates with their variances as weights.
    threshold
        None; "best", the best threshold for each level's noise; a number, in counts, for every level; or one a level, top
        first. Kept is min(u, s (u - tau)_+), u = y - m, as in `simplex-threshold`.
    rounding
        None, or "whole": whole numbers in the end, each without bias and moved by less than 1, all sums kept.

    """

    pool: bool = False
    threshold: Choice = None
    rounding: Literal["whole"] | None = None
    name: ClassVar[str] = "top-down"

    def __post_init__(self) -> None:
        _check_rounding(self.rounding)
        t = self.threshold
        if t is None or (isinstance(t, str) and t == "best"):
            return
        if isinstance(t, str):
            raise ParameterError(f"`threshold` must be None, 'best' or numbers, got {t!r}")
        levels = [float(t)] if isinstance(t, (int, float)) else [float(v) for v in t]
        if len(levels) not in (1, self.tree.depth):
            raise ParameterError(
                f"`threshold` must have one entry for each of {self.tree.depth} levels, got {len(levels)}"
            )
        for level in levels:
            Threshold(level)

    @property
    def pools(self) -> bool:
        """As `pool` says."""
        return self.pool

    @property
    def label(self) -> str:
        """top-down, blue-down, and these with -threshold."""
        return ("blue-down" if self.pool else "top-down") + ("" if self.threshold is None else "-threshold")

    def thresholds(self, noise: LevelNoise) -> tuple[Floats, Floats]:
        """tau and steepness of each level."""
        taus, steeps = super().thresholds(noise)
        for level, mechanism in enumerate(noise.mechanisms):
            if level == 0 or mechanism is None or self.threshold is None:
                continue
            if isinstance(self.threshold, str):
                t = Threshold.best(mechanism)
            else:
                tau = float(self.threshold if isinstance(self.threshold, (int, float)) else self.threshold[level - 1])
                t = Threshold.ramp(tau) if mechanism.discrete else Threshold(tau)
            if t.level > 0:
                taus[level], steeps[level] = t.level, t.steepness
        return taus, steeps

    def _rows(self, noise: LevelNoise, Y: Floats, out: Floats) -> None:
        from fairpost.hierarchy.kernels.rules import top_down_rows

        taus, steeps = self.thresholds(noise)
        if self.pool:
            _pooled(noise, Y, taus, steeps, True, out)
        else:
            top_down_rows(self.tree.child, self.tree.offsets, noise.top, Y, taus, steeps, out)


@final
@dataclass(frozen=True, eq=False)
class Joint(TreeRule):
    """The exact optimum of all measurements together: min sum (v_a - y_a)^2 / s_a^2 over consistent v >= 0."""

    rounding: Literal["whole"] | None = None
    name: ClassVar[str] = "joint"
    by_families: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_rounding(self.rounding)

    def _rows(self, noise: LevelNoise, Y: Floats, out: Floats) -> None:
        from fairpost.hierarchy.kernels.rules import joint_rows

        tree = self.tree
        work = np.empty((4, int(tree.offsets[-2])))
        K = np.empty(tree.size(tree.depth - 1), dtype=np.int64)
        joint_rows(tree.child, tree.offsets, noise.top, noise.variances, Y, out, work, K)


@final
@dataclass(frozen=True, eq=False)
class Unclipped(TreeRule):
    """Generalised least squares without v >= 0: consistent and unbiased, what to publish beside the others."""

    name: ClassVar[str] = "unclipped"
    clips: ClassVar[bool] = False

    def _rows(self, noise: LevelNoise, Y: Floats, out: Floats) -> None:
        _pooled(noise, Y, *self.thresholds(noise), False, out)


def _pooled(noise: LevelNoise, Y: Floats, taus: Floats, steeps: Floats, clip: bool, out: Floats) -> None:
    from fairpost.hierarchy.kernels.rules import pooled_rows

    tree, pooling = noise.tree, Pooling.of(noise)
    S, z = np.empty(pooling.W.size), np.empty(tree.nodes)
    pooled_rows(
        tree.child, tree.offsets, noise.top, noise.variances, pooling.V, pooling.W, Y, taus, steeps, clip, out, z, S
    )  # fmt: skip


def _check_rounding(rounding: Any) -> None:
    if rounding not in (None, "whole"):
        raise ParameterError(f"`rounding` must be None or 'whole', got {rounding!r}")


RULES: dict[str, Callable[..., TreeRule]] = {
    "top-down": TopDown,
    "blue-down": lambda tree, **more: TopDown(tree, pool=True, **more),
    "joint": Joint,
    "top-down-threshold": lambda tree, **more: TopDown(tree, threshold="best", **more),
    "blue-down-threshold": lambda tree, **more: TopDown(tree, pool=True, threshold="best", **more),
}
"""The rules of the command line."""


def rule_of(name: str, tree: Hierarchy, *, whole: bool = False) -> TreeRule:
    """A rule by its name."""
    if name == Unclipped.name:
        if whole:
            raise UnsupportedError("the unclipped estimate may be negative and is not rounded")
        return Unclipped(tree)
    if name not in RULES:
        raise ParameterError(f"a rule on a hierarchy must be one of {', '.join(RULES)}, got {name!r}")
    return RULES[name](tree, rounding="whole" if whole else None)
