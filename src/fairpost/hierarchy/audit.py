"""The verb on a hierarchy: counts of the leaves, noise by level, a rule; the bias of every node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.accuracy import Estimate, Kind
from fairpost.counts import Counts
from fairpost.engines.montecarlo.intervals import student
from fairpost.engines.montecarlo.simulation import simulate, unless_withdrawn
from fairpost.errors import CountsError, ParameterError
from fairpost.hierarchy.levels import LevelNoise, as_level_noise
from fairpost.hierarchy.meanfield import Field, mean_field
from fairpost.hierarchy.result import HierarchyAudit, LevelResult, Part
from fairpost.hierarchy.rules import Pooling, TreeRule, rule_of
from fairpost.hierarchy.simulation import Simulation, Totals, TreeJob
from fairpost.hierarchy.spec import Cells, Division, Spec, Summed, division_of, specify
from fairpost.hierarchy.tree import Hierarchy

Floats = NDArray[np.float64]
MARGIN = 2.0
"""The stated error of the formula: so many times its next term."""
METHODS = ("auto", "mean-field", "monte-carlo")


def audit_hierarchy(
    counts: ArrayLike | Counts,
    noise: LevelNoise,
    rule: TreeRule | str = "blue-down-threshold",
    *,
    method: str = "auto",
    groups: Any = None,
    areas: Any = None,
    simulation: Simulation | None = None,
    **more: Any,
) -> HierarchyAudit:
    """The bias of one rule on every node of a hierarchy.

    Parameters
    ----------
    counts
        The true counts of the leaves, in the order in which the tree was given them.
    noise
        The noise of each level.
    rule
        A rule, or its name: top-down, blue-down, joint, top-down-threshold, blue-down-threshold.
    method
        "mean-field": the formula, at once, with its next term as the stated error. "monte-carlo" and "auto": runs that
        measure what the formula leaves out, with intervals; the formula is their control.
    groups
        One label a leaf: mean biases by group.
    areas
        Unions of leaves that cut the tree: one label a leaf (None: in no area), or a mapping from names to masks, which may
        overlap. They are followed in the same runs, because leaves of a family are not independent.
    simulation
        How to simulate.
    **more
        Or the parameters of a `Simulation`: `runs`, `seed`, `threads`, `checkpoint`, ...

    """
    if method not in METHODS:
        raise ParameterError(f"`method` must be one of {', '.join(METHODS)}, got {method!r}")
    tree = as_level_noise(noise).tree
    pi = rule_of(rule, tree) if isinstance(rule, str) else rule
    if pi.tree is not tree:
        raise ParameterError("a rule and its noise must be about the same hierarchy, got two")
    how = Simulation(**more) if simulation is None else simulation
    labels = counts.groups if groups is None and isinstance(counts, Counts) else groups
    coded = _groups(tree, labels)
    x = tree.sums(_leaves(tree, counts))
    if method == "mean-field" or not pi.clips:
        return _by_formula(x, noise, pi, coded, division_of(tree, areas), how)
    return _by_runs(x, noise, pi, coded, areas, how)


def _leaves(tree: Hierarchy, counts: ArrayLike | Counts) -> Floats:
    x = counts.values if isinstance(counts, Counts) else np.asarray(counts, dtype=np.float64)
    if x.shape != (tree.n,):
        raise CountsError(f"there must be one count a leaf: {tree.n} leaves, shape {x.shape}")
    bad = np.flatnonzero(~(x >= 0) | ~np.isfinite(x))
    if bad.size:
        raise CountsError(f"every count must be finite and at least 0, got {x[bad[0]]} at position {int(bad[0])}")
    return x


def _groups(tree: Hierarchy, groups: Any) -> tuple[NDArray[np.int32], list[str]] | None:
    """Codes in tree order and names."""
    if groups is None:
        return None
    import polars as pl

    series = groups if isinstance(groups, pl.Series) else pl.Series([str(g) for g in groups], dtype=pl.String)
    if series.len() != tree.n:
        raise CountsError(f"`groups` must have one label a leaf: {tree.n} leaves, {series.len()} labels")
    names = series.unique(maintain_order=True)
    codes = series.replace_strict(names, np.arange(names.len(), dtype=np.int32), return_dtype=pl.Int32).to_numpy()
    return np.ascontiguousarray(tree.into_tree(codes)), [str(name) for name in names.to_list()]


@dataclass(frozen=True, eq=False)
class _Known:
    """What is known of the nodes of one level, in tree order."""

    bias: Floats
    error: Floats
    mse: Floats
    factor: float
    """half_width = factor * error + constant."""
    constant: float
    formula: Floats | None

    @property
    def half(self) -> Floats:
        """How far each bias may be off."""
        return np.asarray(self.factor * self.error + self.constant)


def _by_formula(
    x: Floats, noise: LevelNoise, pi: TreeRule, groups: Any, divisions: tuple[Division, ...], how: Simulation
) -> HierarchyAudit:
    field = mean_field(x, noise, pi, moments=True)
    assert field.variance is not None
    assert field.remainder is not None
    tree, next_term = noise.tree, np.abs(field.remainder)
    mse = field.variance + field.bias**2
    spans = [tree.span(k) for k in range(1, len(tree.names))]
    known = [_Known(field.bias[s], next_term[s], mse[s], MARGIN, 0.0, None) for s in spans]
    inner = int(tree.offsets[-2])
    cells = Cells.of(x[inner:], None if groups is None else groups[0], () if groups is None else groups[1])
    half = MARGIN * np.abs(cells.sums(_cell_sums(field.remainder[inner:], cells))) / np.maximum(cells.sizes, 1.0)
    areas = tuple(
        Part(name, n, truth, bias, MARGIN * abs(rest), None)
        for d in divisions
        for name, n, truth, bias, rest in _over_areas(d, x[inner:], field.bias[inner:], field.remainder[inner:])
    )
    note = "by the formula alone: a half-width is twice the size of its next term, not a bound; runs measure the rest"
    about = {"method": "mean-field", "accuracy": "expansion", "confidence": how.confidence, "note": note}
    return _found(noise, pi.label, x, known, cells, half, areas, **about)


def _by_runs(x: Floats, noise: LevelNoise, pi: TreeRule, groups: Any, areas: Any, how: Simulation) -> HierarchyAudit:
    spec = specify(x, noise, pi, groups, areas)
    job = TreeJob(how, spec)
    interrupted = simulate(how, job)
    known = _known(spec, job.totals, noise, how.confidence, pi.by_families)
    formula, control = "the formula and its remainder, measured", "simulated with the unclipped estimate as control"
    note = note_of(formula if pi.by_families else control, job.runs, interrupted, job.where, job.fewer)
    return unless_withdrawn(
        by_simulation(noise, pi.label, spec, job.totals, known, how, interrupted, note), interrupted
    )


def by_simulation(
    noise: LevelNoise,
    label: str,
    spec: Summed,
    totals: Totals,
    known: list[_Known],
    how: Simulation,
    interrupted: bool,
    note: str,
) -> HierarchyAudit:
    """What the sums of some runs say about one tree."""
    level = 1.0 - how.confidence
    half = _union_half_widths(spec.cells, totals, known[-1], level)
    ran = {
        "runs": int(totals.tally[0]),
        "seed": int(how.seed),
        "confidence": how.confidence,
        "interrupted": interrupted,
    }
    about = {"method": "monte-carlo", "accuracy": "interval", "note": note} | ran
    return _found(noise, label, spec.x, known, spec.cells, half, _areas(spec, totals, level), **about)


def note_of(what: str, runs: int, interrupted: bool, where: str | None, fewer: str | None) -> str:
    """How many runs showed it, and where they were made."""
    made = "" if where is None else f" {where}"
    less = "" if fewer is None else f"; {fewer}"
    return f"{what} in {runs} runs{', where it was interrupted' if interrupted else ''}{made}{less}"


def _found(
    noise: LevelNoise, label: str, x: Floats, known: list[_Known], cells: Cells, half: Floats, areas: Any, **about: Any
) -> HierarchyAudit:
    parts = _unions(cells, x[int(noise.tree.offsets[-2]) :], known[-1], half)
    return HierarchyAudit(
        tree=noise.tree,
        noise=noise,
        postprocess=label,
        levels=_levels(noise, x, known, about["accuracy"]),
        sizes=parts["size"],
        values=parts["value"],
        groups=parts["group"],
        areas=areas,
        **about,
    )


def _union_half_widths(cells: Cells, totals: Totals, leaves: _Known, level: float) -> Floats:
    """Of means over classes and groups, from sums over blocks of runs; with one block the mean of the leaves' (never too small)."""
    sizes, (runs, blocks) = np.maximum(cells.sizes, 1.0), totals.tally.tolist()
    if blocks < 2:
        return cells.sums(_cell_sums(leaves.half, cells)) / sizes
    return np.asarray(student(level, blocks - 1) * (np.sqrt(totals.unions[1] / (blocks - 1) / runs) / sizes))


def _known(spec: Spec, totals: Totals, noise: LevelNoise, confidence: float, by_families: bool) -> list[_Known]:
    """Sums to estimates, beside mean field where there is one."""
    out = estimates(spec, totals, noise.tree, confidence, np.sqrt(noise.variances))
    if not by_families:
        return out
    tree, formulas = noise.tree, []
    for k in range(1, len(tree.names)):
        here = tree.span(k)
        formulas.append(spec.offset[here] if k == tree.depth or spec.rule == "top-down" else spec.formula[here])
    return [replace(known, formula=formula) for known, formula in zip(out, formulas, strict=True)]


def estimates(spec: Summed, totals: Totals, tree: Hierarchy, confidence: float, moves: Floats) -> list[_Known]:
    """Sums to estimates, level by level, in place: the sums are used up.

    The half-widths of a level hold together with the confidence asked for (Bonferroni): t se + log(2/delta) s/R, the second term
    for what has not happened in R runs (see `engines.montecarlo.intervals`), which moves a node of level k by s = moves[k].
    """
    from fairpost.hierarchy.kernels.runs import finish

    runs, out = int(totals.tally[0]), []
    finish(totals.upper, spec.offset[: spec.inner], runs)
    finish(totals.leaves, spec.offset[spec.inner :], runs)
    for k in range(1, len(tree.names)):
        bias, error, mse = totals.leaves if k == tree.depth else totals.upper[:, tree.span(k)]
        delta = (1.0 - confidence) / tree.size(k)
        rare = float(np.log(2 / delta) * moves[k] / runs)
        out.append(_Known(bias, error, mse, float(student(delta, runs - 1)), rare, None))
    return out


def _levels(noise: LevelNoise, x: Floats, known: list[_Known], accuracy: Kind) -> tuple[LevelResult, ...]:
    from fairpost.hierarchy.kernels.runs import extremes

    tree, unclipped = noise.tree, Pooling.of(noise, leaves=False).unclipped_rmse(noise)
    out = []
    for k, level in enumerate(known, 1):
        b, ends = level.bias, np.empty(5)
        formula = np.empty(0) if level.formula is None else level.formula
        most, least = extremes(b, level.error, level.factor, level.constant, formula, ends)
        value, low, high = float(b[most] - b[least]), 0.0, 0.0
        if b.size > 1:
            low, high = float(ends[2] - ends[1]), float(ends[0] - ends[3])
        gap = None if level.formula is None else float(np.sqrt(max(ends[4], 0.0)))
        out.append(
            LevelResult(
                tree=tree,
                level=k,
                accuracy=accuracy,
                alpha=Estimate(value, min(max(low, 0.0), value), max(high, value), accuracy),
                alpha_pair=(tree.labels.text(k, most), tree.labels.text(k, least)),
                rmse=float(np.sqrt(np.mean(level.mse))),
                unclipped_rmse=unclipped[k],
                formula_error=gap,
                _truth=x[tree.span(k)],
                _bias=b,
                _error=level.error,
                _mse=level.mse,
                _factor=level.factor,
                _constant=level.constant,
            )
        )
    return tuple(out)


def _unions(cells: Cells, x: Floats, leaves: _Known, half: Floats) -> dict[str, tuple[Part, ...]]:
    """The leaves by size, by exact value and by group."""
    sums = [cells.sums(_cell_sums(values, cells)) for values in (x, leaves.bias, leaves.mse)]
    out: dict[str, list[Part]] = {"size": [], "value": [], "group": []}
    for k, (kind, name, _) in enumerate(cells.unions):
        n = int(cells.sizes[k])
        truth, b, s = (float(values[k]) for values in sums)
        out[kind].append(Part(name, n, truth, b / n, float(half[k]), float(np.sqrt(s / n))))
    return {kind: tuple(found) for kind, found in out.items()}


def _cell_sums(values: Floats, cells: Cells) -> Floats:
    from fairpost.hierarchy.kernels.runs import sum_cells

    out = np.zeros(cells.counts.size)
    sum_cells(values, cells.labels, out)
    return out


def _over_areas(d: Division, *values: Floats) -> Any:
    """(name, leaves, sums of the values) of each area."""
    inside = d.labels >= 0
    at, many = d.labels[inside], len(d.names)
    n = np.bincount(at, minlength=many)
    sums = [np.bincount(at, v[inside], minlength=many) for v in values]
    return [(name, int(n[k]), *(float(s[k]) for s in sums)) for k, name in enumerate(d.names)]


def _areas(spec: Summed, totals: Totals, level: float) -> tuple[Part, ...]:
    """Areas from their own sums run by run: leaves of a family share a threshold and err together.

    The mean of the plain errors e and offset + the mean of r both estimate the bias. r is better where an area cuts families, e
    where it is made of whole ones, whose sums are their parents'. Taken is w r + (1 - w) e with the w of least variance in the
    sample, clipped to [0, 1]; being estimated from R runs it moves the mean by an order of 1/R of a standard error.
    """
    runs, inner = int(totals.tally[0]), spec.inner
    many = sum(len(d.names) for d in spec.divisions)
    out = []
    for d, held in zip(spec.divisions, totals.areas, strict=True):
        r, rr, e, ee, re = held / runs
        var_r, var_e, cov = rr - r * r, ee - e * e, re - r * e
        spread = var_r + var_e - 2.0 * cov
        w = np.clip(np.divide(var_e - cov, spread, out=np.ones_like(spread), where=spread > 0), 0.0, 1.0)
        variance = np.maximum(w * w * var_r + (1 - w) ** 2 * var_e + 2 * w * (1 - w) * cov, 0.0) * (runs / (runs - 1))
        half = student(level / many, runs - 1) * np.sqrt(variance / runs)
        for k, (name, n, truth, offset) in enumerate(_over_areas(d, spec.x[inner:], spec.offset[inner:])):
            bias = w[k] * (offset + r[k]) + (1.0 - w[k]) * e[k]
            out.append(Part(name, n, truth, float(bias), float(half[k]), float(np.sqrt(ee[k]))))
    return tuple(out)


__all__ = ["Field", "audit_hierarchy"]
