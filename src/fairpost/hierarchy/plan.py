"""The same rho split differently: a small search for the split with the least unfairness among leaves; and more or less rho, split the same.

Every candidate is judged by mean field: alpha of the leaves, and the root mean squared error of each level. Limits on named levels
must hold. First a coarse grid of splits, then from the best one shares are moved between pairs of levels, by smaller and smaller
steps, as long as that helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost import cancel
from fairpost.counts import Counts
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.hierarchy.audit import _leaves
from fairpost.hierarchy.levels import LevelNoise, as_level_noise
from fairpost.hierarchy.meanfield import mean_field
from fairpost.hierarchy.rules import TreeRule, rule_of
from fairpost.hierarchy.tree import Hierarchy

Floats = NDArray[np.float64]
PARTS = 8
"""The grid has steps of 1/PARTS."""
FINEST = 1 / 64
"""The smallest share that is moved."""


@dataclass(frozen=True)
class Split:
    """One way to split rho, and what it costs."""

    shares: tuple[float, ...]
    """Of rho, root first; exact levels have 0."""
    alpha: float
    """The range of the biases of the leaves."""
    rmse: tuple[float, ...]
    """Of each level, root first."""
    met: bool
    """Whether the limits hold."""

    def to_dict(self, tree: Hierarchy) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "split": dict(zip(tree.names, self.shares, strict=True)),
            "alpha": self.alpha,
            "root_mean_squared_error": dict(zip(tree.names, self.rmse, strict=True)),
            "met": self.met,
        }


@dataclass(frozen=True, eq=False)
class SplitPlan:
    """What the search has found."""

    tree: Hierarchy
    rho: float
    given: Split
    best: Split | None
    """The smallest alpha that meets the limits; None where no split that was tried does."""
    frontier: tuple[Split, ...]
    """Splits that no other one beats on both alpha and the named levels' error, alpha ascending."""
    tried: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "rho": self.rho,
            "given": self.given.to_dict(self.tree),
            "best": None if self.best is None else self.best.to_dict(self.tree),
            "frontier": [split.to_dict(self.tree) for split in self.frontier],
            "tried": self.tried,
        }


def plan_split(
    counts: ArrayLike | Counts,
    noise: LevelNoise,
    rule: TreeRule | str = "blue-down",
    *,
    max_rmse: Mapping[str, float],
    tries: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> SplitPlan:
    """The split of the rho that `noise` spends, over its noisy levels, with the least alpha of the leaves.

    max_rmse: the largest root mean squared error that each named level may have. At most `tries` splits are judged.
    """
    tree = as_level_noise(noise).tree
    pi = rule_of(rule, tree) if isinstance(rule, str) else rule
    if not pi.by_families:
        raise UnsupportedError("splits are judged by mean-field, which the joint optimum does not have")
    if noise.spent is None:
        raise UnsupportedError(f"a rho is split between levels of Gaussian noise, got {noise.kind}")
    if not max_rmse:
        raise ParameterError("`max_rmse` must name at least one level: without a limit all of rho goes to the leaves")
    limits = {tree.level(name): float(limit) for name, limit in max_rmse.items()}
    for name, limit in max_rmse.items():
        if not float(limit) > 0:
            raise ParameterError(f"`max_rmse` must be above 0 for every level, got {limit!r} for {name!r}")
    if isinstance(tries, bool) or tries < 1:
        raise ParameterError(f"`tries` must be a whole number, at least 1, got {tries!r}")
    return _Search(tree.sums(_leaves(tree, counts)), noise, pi, limits, tries, progress).run()


def _judged(x: Floats, noise: LevelNoise, pi: TreeRule) -> tuple[float, tuple[float, ...]]:
    """Alpha of the leaves and the error of each level, by mean field."""
    tree, field = noise.tree, mean_field(x, noise, pi, moments=True)
    assert field.variance is not None
    leaf = field.bias[tree.span(tree.depth)]
    mse = field.variance + field.bias**2
    rmse = tuple(float(np.sqrt(np.mean(mse[tree.span(k)]))) for k in range(len(tree.names)))
    return float(leaf.max() - leaf.min()), rmse


class _Search:
    """One search under way."""

    def __init__(
        self,
        x: Floats,
        noise: LevelNoise,
        pi: TreeRule,
        limits: dict[int, float],
        tries: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.x, self.noise, self.pi, self.limits, self.tries, self.progress = x, noise, pi, limits, tries, progress
        self.levels = np.flatnonzero(noise.spreads > 0)
        self.rho = float(noise.spent or 0.0)
        self.seen: dict[tuple[float, ...], Split] = {}

    def judge(self, shares: Floats) -> Split:
        """Alpha and errors of one split (shares of the noisy levels); each is computed once."""
        key = tuple(np.round(shares, 9).tolist())
        if key not in self.seen:
            cancel.check()
            self.seen[key] = self._computed(shares)
            if self.progress is not None:
                self.progress(len(self.seen), self.tries)
        return self.seen[key]

    def _computed(self, shares: Floats) -> Split:
        tree, given = self.noise.tree, self.noise
        whole = np.zeros(len(tree.names))
        whole[self.levels] = shares
        noise = LevelNoise(
            tree,
            rho=self.rho,
            split=whole.tolist(),
            exact=() if given.top < 0 else [tree.names[given.top]],
            kind=given.kind,
            sensitivity=given.sensitivity,
        )
        alpha, rmse = _judged(self.x, noise, self.pi)
        met = all(rmse[k] <= limit for k, limit in self.limits.items())
        return Split(tuple(float(s) for s in whole), alpha, rmse, met)

    def over(self, split: Split) -> float:
        """How far a split is over its limits: the largest ratio."""
        return max(split.rmse[k] / limit for k, limit in self.limits.items())

    def better(self, a: Split, b: Split) -> bool:
        """First the limits, then alpha."""
        if a.met != b.met:
            return a.met
        return a.alpha < b.alpha if a.met else self.over(a) < self.over(b)

    def run(self) -> SplitPlan:
        spent = self.noise.sensitivity**2 / (2.0 * self.noise.spreads[self.levels] ** 2)
        given = self.judge(spent / spent.sum())
        best = given
        for shares in self._grid():
            if len(self.seen) >= self.tries:
                break
            split = self.judge(shares)
            best = split if self.better(split, best) else best
        step = 1 / (2 * PARTS)
        while step >= FINEST and len(self.seen) < self.tries:
            found = best
            for i, j in permutations(range(self.levels.size), 2):
                shares = np.array(best.shares)[self.levels]
                if shares[i] <= step or len(self.seen) >= self.tries:
                    continue
                shares[i] -= step
                shares[j] += step
                split = self.judge(shares)
                found = split if self.better(split, found) else found
            step = step / 2 if found is best else step
            best = found
        frontier = _frontier(list(self.seen.values()), self.over)
        return SplitPlan(self.noise.tree, self.rho, given, best if best.met else None, frontier, len(self.seen))

    def _grid(self) -> Iterator[Floats]:
        """Every split into whole parts, each level at least one."""
        k = self.levels.size
        for cuts in combinations(range(1, PARTS), k - 1):
            edges = np.array([0, *cuts, PARTS])
            yield np.diff(edges) / PARTS


def _frontier(splits: list[Split], over: Callable[[Split], float]) -> tuple[Split, ...]:
    """Ascending alpha, falling error."""
    out: list[Split] = []
    for split in sorted(splits, key=lambda s: (s.alpha, over(s))):
        if not out or over(split) < over(out[-1]):
            out.append(split)
    return tuple(out)


@dataclass(frozen=True)
class LevelPoint:
    """One rule at one rho."""

    postprocess: str
    rho: float
    """What the noisy levels spend."""
    spreads: tuple[float, ...]
    """The noise of each level, root first; 0: exact."""
    alpha: float
    rmse: tuple[float, ...]

    def to_dict(self, tree: Hierarchy) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "postprocess": self.postprocess,
            "rho": self.rho,
            "noise": dict(zip(tree.names, self.spreads, strict=True)),
            "alpha": self.alpha,
            "root_mean_squared_error": dict(zip(tree.names, self.rmse, strict=True)),
        }


def sweep_levels(
    counts: ArrayLike | Counts,
    noise: LevelNoise,
    rules: Sequence[TreeRule | str],
    rhos: Sequence[float],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[LevelPoint, ...]:
    """Alpha of the leaves and the error of each level against rho, split between levels as `noise` splits it."""
    tree = as_level_noise(noise).tree
    if noise.spent is None:
        raise UnsupportedError(f"a rho is split between levels of Gaussian noise, got {noise.kind}")
    chosen = [rule_of(rule, tree) if isinstance(rule, str) else rule for rule in rules]
    x, out = tree.sums(_leaves(tree, counts)), []
    for rho in rhos:
        if not 0 < rho < np.inf:
            raise ParameterError(f"`rhos` must be above 0 and finite, got {rho!r}")
        # rho is the sum of D^2 / (2 s^2): all of them by one factor
        spreads = noise.spreads * np.sqrt(noise.spent / rho)
        here = LevelNoise(tree, sigmas=spreads.tolist(), kind=noise.kind, sensitivity=noise.sensitivity)
        for pi in chosen:
            out.append(LevelPoint(pi.label, float(rho), tuple(float(s) for s in spreads), *_judged(x, here, pi)))
            if progress is not None:
                progress(len(out), len(rhos) * len(chosen))
    return tuple(out)
