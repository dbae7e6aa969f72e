"""`audit` and `demo` on a hierarchy: the simulation, the screen, the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import Outputs, as_json, now, to_stdout
from fairpost.cli.tree_cells import cell_columns_of, lines_of, noise_of_totals, show_cells, totals_of
from fairpost.cli.tree_words import cell_columns
from fairpost.errors import ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.result import LIMITS, HierarchyAudit, Part
from fairpost.hierarchy.rules import RULES, TreeRule, rule_of
from fairpost.hierarchy.simulation import Simulation
from fairpost.hierarchy.total_first import COVERED
from fairpost.results.base import CONFIDENTIAL

if TYPE_CHECKING:
    from fairpost.hierarchy.histogram import HistogramAudit
from fairpost.cli.hierarchies import levels_of, noise_of, read, tree_of

RUNS = 1000
"""Where --runs is not given."""


def _asked(given: o.Given, methods: Sequence[str]) -> Sequence[str]:
    """The rules by name; options that mean nothing here are refused."""
    method = given["method"]
    if method not in methods:
        raise ParameterError(f"--method on a hierarchy must be one of {', '.join(methods)}, got {method!r}")
    for option in ("total", "budget"):
        if given.get(option) is not None:
            raise ParameterError(f"--{option} has no meaning with --levels, got {given[option]!r}")
    first = given.get("total_sigma") is not None or given.get("total_share") is not None
    names = given["postprocess"] or (tuple(COVERED) if first else ("top-down", "blue-down", "blue-down-threshold"))
    for name in names:
        if name not in RULES:
            raise ParameterError(f"--postprocess with --levels must be one of {', '.join(RULES)}, got {name!r}")
    if given.get("checkpoint") is not None and len(names) > 1:
        raise ParameterError("a checkpoint with --levels holds one --postprocess, got several")
    return tuple(names)


def audit_levels(file: str, given: o.Given) -> int:
    """`fairpost audit FILE --levels ...`."""
    from fairpost.hierarchy.audit import METHODS, audit_hierarchy

    names, method = _asked(given, METHODS), given["method"]
    levels = levels_of(given["levels"])
    outputs = Outputs(given, [file], parquet=True)
    columns = [*(levels if isinstance(levels, list) else ()), *([given["areas"]] if given["areas"] else ())]
    cells = cell_columns(given)
    with screen.progress("simulating") as report:
        leaves = read(file, given | ({"count": cells[0]} if cells else {}), least=0.0, labels=columns)
        tree = tree_of(leaves, levels, given["id"] or "id")
        own, of_totals = totals_of(tree, given)
        noise = noise_of(tree, own)
        if noise is None:
            raise ParameterError(
                "an audit with --levels needs its noise: --level-sigma, or --rho and --split, got none"
            )
        how = _simulation(given, method, report)
        groups = leaves.labels.get(given["group"] or "group")
        areas = leaves.labels[given["areas"]] if given["areas"] else None
        same: dict[str, Any] = {"method": method, "groups": groups, "areas": areas, "simulation": how}
        rules = [rule_of(name, tree, whole=given.get("whole", False)) for name in names]
        totals = {"totals": noise_of_totals(tree, of_totals)}
        histograms = _histograms(file, cells, given, noise, rules, same | totals) if cells else []
        results = [h.total for h in histograms]
        for rule in rules if not cells else ():
            results.append(audit_hierarchy(leaves.values, noise, rule, **same))
            if results[-1].interrupted:
                break

    def data() -> dict[str, Any]:
        return as_data(results, histograms or results, given)

    page = partial(_page, file, results, levels, given, cells)
    parquet = outputs.paths.get("csv", "").lower().endswith(".parquet")
    made: dict[str, Callable[[BinaryIO], object]] = {
        "json": lambda file: file.write(as_json(data()).encode()),
        "csv": lambda file: _table(results, histograms, leaves.ids, file, parquet),
        "html": lambda file: file.write(page().encode()),
    }

    def said() -> None:
        if outputs.to_stdout is None:
            show(results)
            show_cells(histograms)
        else:
            made[outputs.to_stdout](whole := BytesIO())
            to_stdout(whole.getvalue().decode())

    outputs.deliver(said, {kind: write for kind, write in made.items() if kind in outputs.paths})
    return 130 if any(r.interrupted for r in results) else 0


def _simulation(given: o.Given, method: str, report: Callable[[int, int], None]) -> Simulation:
    """How to simulate; what was not typed stays at its default."""
    names = ("runs", "seed", "confidence", "threads", "checkpoint", "cluster")
    typed = {name: given[name] for name in names if given.get(name) is not None}
    if given.get("device") is not None:
        if method == "mean-field":
            raise ParameterError(f"--device is for simulation, got --method {method}")
        typed["backend"] = given["device"]
    return Simulation(**({"runs": RUNS} | typed), progress=report)


def _histograms(
    file: str, cells: list[str], given: o.Given, noise: LevelNoise, rules: list[TreeRule], same: dict[str, Any]
) -> list[HistogramAudit]:
    """With --cells: a column of counts for each of them."""
    from fairpost.hierarchy.histogram import audit_histogram

    counts: dict[str, Any] = {c: read(file, given | {"count": c}, least=0.0).values for c in cells}
    found: list[HistogramAudit] = []
    for rule in rules:
        found.append(audit_histogram(counts, noise, rule, **same))
        if found[-1].total.interrupted:
            break
    return found


def as_data(
    results: list[HierarchyAudit], shown: Sequence[HierarchyAudit | HistogramAudit], given: o.Given
) -> dict[str, Any]:
    """The JSON of an audit; `shown` are the results, or with --cells the histograms that they are the totals of."""
    first = results[0]
    return {
        "mark": CONFIDENTIAL,
        "counts": {"n": first.tree.n, "total": float(first.leaves.truth.sum())},
        "mechanism": first.noise.describe(),
        "results": [r.to_dict(entities=given["entities"]) for r in shown],
    }


def _page(
    file: str,
    results: list[HierarchyAudit],
    levels: dict[str, int] | list[str],
    given: o.Given,
    cells: list[str],
) -> str:
    from fairpost.report import levels_page

    return levels_page(
        results,
        command=o.command_line(),
        made=now(),
        title=given["title"],
        unit=given["unit"],
        source=o.source_of(file),
        lines=lines_of(file, given, levels, results, results[0].noise.kind, cells, given["runs"] or RUNS),
    )


def _table(
    results: list[HierarchyAudit], histograms: list[HistogramAudit], ids: Any, file: BinaryIO, parquet: bool
) -> None:
    """One row a node, level after level: level, id, count, then three columns a rule, then cells; as CSV or as Parquet."""
    import polars as pl

    frames = []
    tree = results[0].tree
    for k in range(1, len(tree.names)):
        columns: dict[str, Any] = {"id": ids if k == tree.depth else pl.Series(tree.ids(k), dtype=pl.String)}
        columns["count"] = results[0].level(k).truth
        for r in results:
            name, level = r.postprocess.replace("-", "_"), r.level(k)
            columns[f"{name}_bias"] = level.bias
            columns[f"{name}_half_width"] = level.half_width
            columns[f"{name}_rmse"] = np.sqrt(level.mse)
        columns |= cell_columns_of(histograms, k)
        frames.append(pl.DataFrame(columns).select(pl.lit(tree.names[k]).alias("level"), pl.all()))
    mark = pl.lit(CONFIDENTIAL.partition(": ")[2]).alias("confidential")
    whole = pl.concat(frames).with_columns(mark)
    if parquet:
        whole.write_parquet(file)
    else:
        whole.write_csv(file)


def show(results: list[HierarchyAudit]) -> None:
    """A table per rule: levels, then leaves by size, groups and the areas at both ends."""
    out = screen.console()
    for r in results:
        by = "formula" if r.runs is None else f"{r.runs:,} runs"
        heads = ("level", "nodes", "alpha", "gains most", "loses most", "bias (rms)", "RMSE", "unclipped RMSE")
        rows = [
            (
                level.name,
                f"{level.n:,}",
                f"{level.alpha.value:.3f} ({level.alpha.low:.3f} to {level.alpha.high:.3f})",
                *level.alpha_pair,
                f"{level.bias_rms:.4f}",
                f"{level.rmse:.3f}",
                f"{level.unclipped_rmse:.3f}",
            )
            for level in r.levels
        ]
        screen.show(out, screen.Grid(f"{r.postprocess}, {r.noise.kind} noise, by {by}", heads, rows))
        screen.show(out, _parts(f"{r.tree.names[-1]}: mean bias by true count", r.sizes))
        if r.groups:
            screen.show(out, _parts(f"{r.tree.names[-1]}: mean bias by group", r.groups))
        if r.areas:
            ordered = sorted(r.areas, key=lambda part: part.bias)
            ends = [*ordered[:3], *ordered[3:][-3:]]
            rms = float(np.sqrt(np.mean([part.bias**2 for part in r.areas])))
            title = f"{len(r.areas):,} areas, bias {rms:.3g} (rms): the largest losses and gains"
            screen.show(out, _parts(title, ends))
    screen.say(out, LIMITS, style="dim")
    screen.say(out, CONFIDENTIAL, style="bold")


def _parts(title: str, parts: Iterable[Part]) -> screen.Grid:
    rows = [
        (
            part.name,
            f"{part.n:,}",
            f"{part.count:,.0f}",
            f"{part.bias:+.4f}",
            f"{part.half_width:.4f}",
            "-" if part.rmse is None else f"{part.rmse:.3f}",
        )
        for part in parts
    ]
    return screen.Grid(title, ("", "leaves", "people", "bias", "±", "RMSE"), rows)


def demo_nation(out: Any) -> None:
    """The synthetic nation by the formula: who gains and loses, level by level."""
    from fairpost.hierarchy.audit import audit_hierarchy
    from fairpost.hierarchy.nation import synthetic_nation

    nation = synthetic_nation()
    tree = nation.tree()
    out.print(
        f"SYNTHETIC: {tree.n:,} blocks with {nation.counts.sum() / 1e6:.1f} million people, the 2020 numbers of units, "
        "noise as if each level's share of the 2020 budget went to its one count:"
    )
    noise = LevelNoise.census2020(tree)
    show([audit_hierarchy(nation.counts, noise, "blue-down", method="mean-field", groups=nation.groups)])
