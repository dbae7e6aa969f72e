"""Several cells per node (race by age, say): one tree per cell, with noise and rule of its own, and the totals over cells.

The cells of a node get independent noise and are reconciled apart, so for the total T = sum_k v_k of a node

    B_T = sum_k B_k,    Var T = sum_k Var v_k,    E[(T - x)^2] = sum_k (E[(v_k - x_k)^2] - B_k^2) + B_T^2,

exactly, and estimates of the B_k from streams of their own are independent: their standard errors add up in squares. The formula's next
terms may all have one sign, and add up as they are. A person is in one cell, so all cells of a level together have the sensitivity of one.

With `totals`, noise for measurements of the totals, these are reconciled first, and then the cells of all children of a parent under both
constraints: each child's cells add up to its total, each cell's children to the parent's cell (`total_first`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts
from fairpost.engines.montecarlo.simulation import unless_withdrawn
from fairpost.errors import CountsError, ParameterError
from fairpost.hierarchy.audit import METHODS, _Known, _leaves, _levels, audit_hierarchy
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.result import HierarchyAudit, LevelResult, Part
from fairpost.hierarchy.rules import TreeRule, rule_of
from fairpost.hierarchy.simulation import Simulation
from fairpost.hierarchy.total_first import TotalFirst, audit_cells, cell_seed, check_simulation

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HistogramAudit:
    """The biases of every cell, and of the totals over cells. Computed from true counts."""

    total: HierarchyAudit
    """Of the sums over cells. Half-widths of classes and groups add up those of their leaves: never too small.

    With totals first: of the tree of totals, with its own noise.
    """
    cells: Mapping[str, HierarchyAudit]
    total_first: bool = False

    def to_dict(self, *, entities: bool = False) -> dict[str, Any]:
        """The entry of `results` in the JSON of `fairpost audit`: that of the totals, with `cells` beside it."""
        cells = [{"cell": name, **found.to_dict(entities=entities)} for name, found in self.cells.items()]
        noise = next(iter(self.cells.values())).noise.describe()
        both = {"total_first": self.total_first, "cell_mechanism": noise, "cells": cells}
        return {**self.total.to_dict(entities=entities), **both}


def audit_histogram(
    counts: Mapping[str, ArrayLike | Counts],
    noise: LevelNoise,
    rule: TreeRule | str = "blue-down-threshold",
    *,
    totals: LevelNoise | None = None,
    method: str = "auto",
    groups: Any = None,
    areas: Any = None,
    simulation: Simulation | None = None,
    **more: Any,
) -> HistogramAudit:
    """Audit the same noise and rule on each cell's tree, and the totals; arguments are those of `audit_hierarchy`.

    counts: for each cell its counts, one per leaf. Cell k of seed s draws from a stream of its own. totals: the noise of the totals
    over cells; with it totals come first, and cells follow under both constraints (top-down and blue-down, simulated).
    """
    if not counts:
        raise CountsError("a histogram must have at least one cell, got none")
    how = Simulation(**more) if simulation is None else simulation
    tree = noise.tree
    pi = rule_of(rule, tree) if isinstance(rule, str) else rule
    values = {name: _leaves(tree, part) for name, part in counts.items()}
    if totals is not None:
        return _totals_first(values, TotalFirst.of(pi, noise, totals), pi, method, groups, areas, how)
    cells = {}
    for k, (name, x) in enumerate(values.items()):
        own = _own(how, k)
        cells[name] = audit_hierarchy(x, noise, pi, method=method, groups=groups, areas=areas, simulation=own)
        if cells[name].interrupted:
            raise KeyboardInterrupt
    return HistogramAudit(_total(noise, list(cells.values()), groups), cells)


def _own(how: Simulation, k: int) -> Simulation:
    """The streams and the checkpoint of tree k."""
    file = None if how.checkpoint is None else f"{how.checkpoint}.{k}"
    return replace(how, seed=cell_seed(int(how.seed), k), checkpoint=file)


def _totals_first(
    values: Mapping[str, Floats],
    first: TotalFirst,
    pi: TreeRule,
    method: str,
    groups: Any,
    areas: Any,
    how: Simulation,
) -> HistogramAudit:
    """The tree of totals by itself, then the cells in runs with the same totals."""
    if method not in METHODS:
        raise ParameterError(f"`method` must be one of {', '.join(METHODS)}, got {method!r}")
    check_simulation(how, method)
    tree = first.tree
    x = np.array([tree.sums(part) for part in [*values.values(), np.sum(list(values.values()), axis=0)]])
    own = replace(_own(how, len(values)), backend="cpu")
    leaves = tree.from_tree(x[-1, tree.span(tree.depth)])
    total = audit_hierarchy(leaves, first.totals, pi, method=method, groups=groups, areas=areas, simulation=own)
    if total.interrupted:
        raise KeyboardInterrupt
    cells = audit_cells(list(values), first, pi.label, x, groups, areas, how)
    interrupted = any(found.interrupted for found in cells.values())
    note = f"totals over {len(values)} cells, measured and reconciled first; {total.note}"
    both = HistogramAudit(replace(total, interrupted=interrupted, note=note), cells, total_first=True)
    return unless_withdrawn(both, interrupted)


def _total(noise: LevelNoise, cells: list[HierarchyAudit], groups: Any) -> HierarchyAudit:
    first, tree = cells[0], noise.tree
    known = [_sum([cell.levels[k] for cell in cells]) for k in range(len(first.levels))]
    x = np.concatenate([[0.0], *(np.sum([cell.levels[k]._truth for cell in cells], axis=0) for k in range(tree.depth))])
    levels = tuple(
        replace(level, unclipped_rmse=level.unclipped_rmse * float(np.sqrt(len(cells))))
        for level in _levels(noise, x, known, first.accuracy)
    )
    leaf = levels[-1]
    return replace(
        first,
        levels=levels,
        sizes=leaf.by_size(),
        values=(),
        groups=() if groups is None else leaf.by_group(list(groups)),
        areas=tuple(
            _area(parts, first.accuracy == "interval") for parts in zip(*(c.areas for c in cells), strict=True)
        ),
        seed=None,
        note=f"totals over {len(cells)} cells, each a tree with noise of its own; {first.note}",
    )


def _sum(levels: list[LevelResult]) -> _Known:
    """What is known of the totals of one level."""
    bias = np.sum([level._bias for level in levels], axis=0)
    apart = levels[0].accuracy == "interval"
    errors = np.array([level._error for level in levels])
    error = np.sqrt(np.sum(errors**2, axis=0)) if apart else errors.sum(axis=0)
    variance = np.sum([level._mse - level._bias**2 for level in levels], axis=0)
    constant = sum(level._constant for level in levels)
    return _Known(bias, error, np.maximum(variance, 0.0) + bias**2, levels[0]._factor, constant, None)


def _area(parts: tuple[Part, ...], apart: bool) -> Part:
    half, bias = np.array([part.half_width for part in parts]), float(sum(part.bias for part in parts))
    rmse = None
    if all(part.rmse is not None for part in parts):
        variance = sum((part.rmse or 0.0) ** 2 - part.bias**2 for part in parts)
        rmse = float(np.sqrt(max(variance, 0.0) + bias**2))
    width = float(np.sqrt(np.sum(half**2)) if apart else half.sum())
    return Part(parts[0].name, parts[0].n, float(sum(part.count for part in parts)), bias, width, rmse)
