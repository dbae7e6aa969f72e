"""What an audit of a hierarchy returns: level by level, by size, by group, by area; frozen, with its provenance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.accuracy import Estimate, Kind
from fairpost.errors import CountsError, ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.spec import size_label
from fairpost.hierarchy.tree import Hierarchy
from fairpost.results.base import CONFIDENTIAL

Floats = NDArray[np.float64]
LIMITS = (
    "A model, not a release: one count a node, noise of one kind a level, families reconciled from the top down. The 2020 Census "
    "spends each level's share on many queries, reconciles 2,016 cells with bounds from housing units, and uses another spine."
)
"""Said in every report."""


@dataclass(frozen=True)
class Part:
    """Some leaves together: a size class, an exact value, a group or an area."""

    name: str
    n: int
    """Leaves."""
    count: float
    """People in truth."""
    bias: float
    """Area: of its total. Class and group: the mean over its leaves."""
    half_width: float
    rmse: float | None
    """Area: of its total (None where only runs can tell). Class and group: the root of the leaves' mean squared error."""

    def to_dict(self, key: str) -> dict[str, Any]:
        """Plain data; the name under `key`."""
        mean = self.count / self.n if key != "area" else self.count
        return {
            key: self.name,
            "n": self.n,
            "count": self.count,
            "bias": self.bias,
            "half_width": self.half_width,
            "relative": None if mean == 0 else self.bias / mean,
            "root_mean_squared_error": self.rmse,
        }


@dataclass(frozen=True, eq=False)
class LevelResult:
    """The biases of one level. Leaves come in the order of the input, other levels in that of `ids`."""

    tree: Hierarchy = field(repr=False)
    level: int
    accuracy: Kind
    """"interval": all biases of the level lie within half_width together, with the confidence asked for. "expansion": the
    formula's next term."""
    alpha: Estimate
    alpha_pair: tuple[str, str]
    """The ids with the largest and the smallest bias."""
    rmse: float
    """The root of the mean squared error over the nodes."""
    unclipped_rmse: float
    """The same of the unclipped least-squares estimate, which has no bias."""
    formula_error: float | None
    """Simulation: the root mean square of what the formula leaves out, less the noise of the runs."""
    _truth: Floats = field(repr=False)
    _bias: Floats = field(repr=False)
    _error: Floats = field(repr=False)
    _mse: Floats = field(repr=False)
    _factor: float = field(repr=False)
    _constant: float = field(repr=False)

    @property
    def name(self) -> str:
        """The level's name."""
        return self.tree.names[self.level]

    @property
    def n(self) -> int:
        """The number of nodes."""
        return self.tree.size(self.level)

    @property
    def _half(self) -> Floats:
        return np.asarray(self._factor * self._error + self._constant)

    def _given(self, values: Floats) -> Floats:
        return self.tree.from_tree(values) if self.level == self.tree.depth else values

    @property
    def ids(self) -> list[str]:
        """One id a node."""
        return self.tree.ids(self.level)

    @property
    def truth(self) -> Floats:
        """The true counts."""
        return self._given(self._truth)

    @property
    def bias(self) -> Floats:
        """B = E[v] - x."""
        return self._given(self._bias)

    @property
    def half_width(self) -> Floats:
        """How far each bias may be off; see `accuracy`."""
        return self._given(self._half)

    @property
    def error(self) -> Floats:
        """Simulation: the standard error of each bias. Formula: as `half_width`."""
        return self._given(self._error)

    @property
    def mse(self) -> Floats:
        """E[(v - x)^2] of each node."""
        return self._given(self._mse)

    @property
    def bias_rms(self) -> float:
        """The root mean square of the biases."""
        return float(np.sqrt(np.mean(self._bias**2)))

    def by_size(self, edges: int | Sequence[float] = (0, 1, 10, 50, 200)) -> tuple[Part, ...]:
        """Mean biases by size of the true count: ascending lower edges, or a number of classes of equal numbers of nodes.

        The half-widths add up those of the nodes, as if they all erred together: never too small. Narrower ones for the usual
        classes of leaves are in `HierarchyAudit.sizes`.
        """
        if isinstance(edges, int):
            if edges < 1:
                raise ParameterError(f"the number of size classes must be at least 1, got {edges}")
            cuts = np.unique(np.quantile(self._truth, np.linspace(0, 1, edges + 1)[:-1], method="lower"))
        else:
            cuts = np.asarray(edges, dtype=np.float64)
        if cuts.size == 0 or (np.diff(cuts) <= 0).any():
            raise ParameterError("size classes must have ascending lower edges")
        which = np.searchsorted(cuts, self._truth, side="right") - 1
        names = [_range(a, b) for a, b in pairwise([*cuts.tolist(), None])]
        return tuple(p for p in self._parts(which, names) if p.n)

    def by_group(self, groups: Sequence[Any]) -> tuple[Part, ...]:
        """Mean biases by group, one label a node, every group listed; half-widths as in `by_size`."""
        labels = [str(g) for g in groups]
        if len(labels) != self.n:
            raise CountsError(f"`groups` must have one label a node: {self.n} nodes, {len(labels)} labels")
        places: dict[str, int] = {}
        codes = np.fromiter((places.setdefault(g, len(places)) for g in labels), np.int64, self.n)
        which = self.tree.into_tree(codes) if self.level == self.tree.depth else codes
        return tuple(self._parts(which, list(places)))

    def _parts(self, which: NDArray[Any], names: Sequence[str]) -> Iterator[Part]:
        inside = which >= 0
        at = which[inside]

        def total(values: Floats) -> Floats:
            return np.bincount(at, values[inside], minlength=len(names)).astype(np.float64)

        n = np.bincount(at, minlength=len(names))
        rows = zip(names, n, total(self._truth), total(self._bias), total(self._half), total(self._mse), strict=True)
        for name, k, x, b, h, s in rows:
            safe = max(int(k), 1)
            yield Part(name, int(k), float(x), float(b) / safe, float(h) / safe, float(np.sqrt(s / safe)))

    def to_dict(self, *, entities: bool = False) -> dict[str, Any]:
        """The entry of `levels` in the JSON."""
        out: dict[str, Any] = {
            "name": self.name,
            "n": self.n,
            "accuracy": self.accuracy,
            "alpha": asdict(self.alpha),
            "alpha_pair": list(self.alpha_pair),
            "root_mean_squared_error": self.rmse,
            "bias_rms": self.bias_rms,
            "largest_half_width": float(self._half.max()),
            "unclipped_root_mean_squared_error": self.unclipped_rmse,
            "formula_error_rms": self.formula_error,
        }
        if entities:
            columns = (self.truth, self.bias, self.half_width, self.mse)
            out["entities"] = [
                {
                    "id": label,
                    "count": float(x),
                    "bias": float(b),
                    "half_width": float(h),
                    "relative": None if x == 0 else float(b / x),
                    "root_mean_squared_error": float(np.sqrt(s)),
                }
                for label, x, b, h, s in zip(self.ids, *columns, strict=True)
            ]
        return out


def _range(low: float, high: float | None) -> str:
    if float(low).is_integer() and (high is None or float(high).is_integer()):
        return size_label(int(low), None if high is None else int(high))
    return f"from {low:g}" if high is None else f"from {low:g} to below {high:g}"


@dataclass(frozen=True, eq=False)
class HierarchyAudit:
    """The bias of one rule on every node of a hierarchy, and what follows from it. Computed from true counts."""

    tree: Hierarchy = field(repr=False)
    noise: LevelNoise
    postprocess: str
    method: str
    """mean-field or monte-carlo."""
    accuracy: Kind
    levels: tuple[LevelResult, ...] = field(repr=False)
    """Top first, leaves last; the root is left out."""
    sizes: tuple[Part, ...]
    """Leaves by size class; half-widths from sums over blocks of runs, since leaves of a family err together."""
    values: tuple[Part, ...]
    """Leaves by exact small values, where classes would hide."""
    groups: tuple[Part, ...]
    areas: tuple[Part, ...] = field(repr=False)
    runs: int | None = None
    seed: int | None = None
    confidence: float = 0.95
    interrupted: bool = False
    note: str | None = None
    mark: str = CONFIDENTIAL

    def level(self, name: str | int) -> LevelResult:
        """One level by its name."""
        k = self.tree.level(name)
        if k == 0:
            raise ParameterError("the root is no level of a result; name one below it")
        return self.levels[k - 1]

    @property
    def leaves(self) -> LevelResult:
        """The last level."""
        return self.levels[-1]

    @property
    def alpha(self) -> Estimate:
        """The range of the biases of the leaves."""
        return self.leaves.alpha

    @property
    def alpha_pair(self) -> tuple[str, str]:
        """The leaves that attain it."""
        return self.leaves.alpha_pair

    @property
    def total_off(self) -> Estimate:
        """What all leaves add up to in expectation, less the true total: 0 where the root is known, for a rule keeps what is exact.

        Else from the level below the root, whose nodes are few: the levels of an output agree.
        """
        if self.noise.top >= 0:
            return Estimate(0.0, 0.0, 0.0)
        top = self.levels[0]
        return Estimate.around(float(np.sum(top.bias)), float(np.sum(top.half_width)), self.accuracy)

    def area(self, which: str | ArrayLike) -> Part:
        """An area by its name; or any mask of leaves, whose half-width then adds up those of its leaves (never too small)."""
        if isinstance(which, str):
            for part in self.areas:
                if part.name == which:
                    return part
            raise ParameterError(f"an area must be one of those that were named before the runs, got {which!r}")
        mask = np.asarray(which)
        if mask.shape != (self.tree.n,) or mask.dtype != np.bool_ or not mask.any():
            raise CountsError(f"an area must be a mask of {self.tree.n} leaves with at least one of them")
        leaf = self.leaves
        return Part(
            "area",
            int(mask.sum()),
            float(leaf.truth[mask].sum()),
            float(leaf.bias[mask].sum()),
            float(leaf.half_width[mask].sum()),
            None,
        )

    def to_dict(self, *, entities: bool = False) -> dict[str, Any]:
        """The entry of `results` in the JSON of `fairpost audit`."""
        return {
            "postprocess": self.postprocess,
            "method": self.method,
            "accuracy": self.accuracy,
            "runs": self.runs,
            "seed": self.seed,
            "confidence": self.confidence,
            "interrupted": self.interrupted,
            "alpha": asdict(self.alpha),
            "alpha_pair": list(self.alpha_pair),
            "total_off": asdict(self.total_off),
            "levels": [level.to_dict(entities=entities) for level in self.levels],
            "sizes": [part.to_dict("size") for part in self.sizes],
            "values": [part.to_dict("value") for part in self.values],
            "groups": [part.to_dict("group") for part in self.groups],
            "areas": [part.to_dict("area") for part in self.areas],
            "limits": LIMITS,
            "note": self.note,
            "mark": self.mark,
        }
