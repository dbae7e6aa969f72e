"""`audit --levels --cells`: the noise of the totals, the screen, the columns and the Python lines of a histogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.hierarchies import noise_of, numbers_of
from fairpost.errors import ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.tree import Hierarchy

if TYPE_CHECKING:
    from fairpost.hierarchy.histogram import HistogramAudit
    from fairpost.hierarchy.result import HierarchyAudit


def totals_of(tree: Hierarchy, given: o.Given) -> tuple[o.Given, o.Given | None]:
    """The options of the noise of the cells and of the totals; None where totals are not measured.

    --total-sigma stands beside --level-sigma; --total-share says which part of each level's share of --rho the totals get.
    """
    asked = [name for name in ("total_sigma", "total_share") if given[name] is not None]
    if not asked:
        return given, None
    option = f"--{asked[0].replace('_', '-')}"
    if given["cells"] is None:
        raise ParameterError(f"{option} needs --cells, got {given[asked[0]]!r} without")
    if len(asked) > 1:
        raise ParameterError("the noise of totals is given by --total-sigma or by --total-share, got both")
    beside, other = (
        ("level_sigma", "--total-share") if asked == ["total_sigma"] else ("split", "--total-sigma with --level-sigma")
    )
    if given[beside] is None:
        raise ParameterError(f"{option} goes with --{beside.replace('_', '-')}, got none: add it, or use {other}")
    numbers = numbers_of(given[asked[0]], option)
    if beside == "level_sigma":
        return given, given | {"level_sigma": given["total_sigma"]}
    bad = [q for q in numbers if not 0 <= q < 1]
    if bad:
        raise ParameterError(f"--total-share must be at least 0 (exact totals) and below 1, got {bad[0]:g}")
    whole, parts = _by_level(tree, numbers_of(given["split"], "--split")), _by_level(tree, numbers)
    if len(whole) != len(parts):
        raise ParameterError(
            f"--total-share must have one entry for each of {', '.join(tree.names[1:])} (or one more for the root), got {len(numbers)}"
        )
    cells, totals = whole * (1.0 - parts), whole * parts
    return given | {"split": _text(cells)}, given | {"split": _text(totals)}


def _by_level(tree: Hierarchy, numbers: list[float]) -> Any:
    """With an entry for the root, 0 where there is none."""
    return np.array([0.0, *numbers] if len(numbers) == tree.depth else numbers)


def _text(numbers: Any) -> str:
    return ",".join(repr(float(p)) for p in numbers)


def noise_of_totals(tree: Hierarchy, totals: o.Given | None) -> LevelNoise | None:
    """The noise of the totals, from the options that `totals_of` found."""
    return None if totals is None else noise_of(tree, totals)


def show_cells(histograms: Sequence[HistogramAudit]) -> None:
    """A table per rule: the leaves of every cell."""
    out = screen.console()
    heads = ("cell", "people", "alpha", "gains most", "loses most", "bias (rms)", "largest ±", "RMSE")
    for found in histograms:
        rows = []
        for name, cell in found.cells.items():
            leaf = cell.leaves
            alpha = f"{leaf.alpha.value:.3f} ({leaf.alpha.low:.3f} to {leaf.alpha.high:.3f})"
            ends = (*leaf.alpha_pair, f"{leaf.bias_rms:.4f}", f"{leaf.half_width.max():.4f}", f"{leaf.rmse:.3f}")
            rows.append((name, f"{leaf.truth.sum():,.0f}", alpha, *ends))
        by = "formula" if cell.runs is None else f"{cell.runs:,} runs"
        how = "totals first" if found.total_first else "a tree per cell"
        title = f"{found.total.postprocess}, {cell.noise.tree.names[-1]} by cell ({how}), by {by}"
        screen.show(out, screen.Grid(title, heads, rows))
        screen.say(out, f"{found.total.postprocess}: {found.total.note}.")


def cell_columns_of(histograms: Sequence[HistogramAudit], level: int) -> dict[str, Any]:
    """The columns of a level that cells add to the table: counts, then three columns per rule."""
    columns: dict[str, Any] = {}
    for found in histograms:
        rule = found.total.postprocess.replace("-", "_")
        for name, cell in found.cells.items():
            here = cell.level(level)
            columns[f"{name}_count"] = here.truth
            columns[f"{name}_{rule}_bias"] = here.bias
            columns[f"{name}_{rule}_half_width"] = here.half_width
            columns[f"{name}_{rule}_rmse"] = np.sqrt(here.mse)
    return columns


def lines_of(
    file: str,
    given: o.Given,
    levels: dict[str, int] | list[str],
    results: Sequence[HierarchyAudit],
    kind: str,
    cells: list[str],
    runs: int,
) -> str:
    """The Python lines of `audit --levels`, with --cells too."""
    rules = [r.postprocess for r in results]
    if not cells:
        return levels_lines(file, given, levels, kind, rules, runs)
    own, totals = totals_of(results[0].tree, given)
    lines = levels_lines(file, own | {"count": cells[0]}, levels, kind, rules, runs).split("\n")
    read, call = (next(t for t in lines if t.startswith(word)) for word in ("leaves = ", "results = "))
    column = read.removeprefix("leaves = ").replace(f"count={cells[0]!r}", "count=name")
    new = [f"counts = {{name: {column}.values for name in {cells!r}}}"]
    wanted = "audit_histogram(counts, noise, rule"
    if totals is not None:
        other = levels_lines(file, totals | {"count": cells[0]}, levels, kind, rules, runs).split("\n")
        line = next(t for t in other if t.startswith("noise = "))
        new.append(line.replace("noise = ", "totals = ", 1))
        wanted += ", totals=totals"
    new.append(call.replace("fp.audit_hierarchy(leaves.values, noise, rule", wanted))
    at = lines.index(call)
    lines[at : at + 2] = [*new, "print(*(r.total for r in results), sep='\\n')"]
    lines.insert(1, "from fairpost.hierarchy.histogram import audit_histogram")
    return "\n".join(lines)


def _call(name: str, *first: str, **more: Any) -> str:
    """A call as text; arguments that are None or empty are left out."""
    kept = [f"{k}={v!r}" for k, v in more.items() if v is not None and v != () and v is not False]
    return f"{name}({', '.join([*first, *kept])})"


def levels_lines(
    file: str, given: o.Given, levels: dict[str, int] | list[str], kind: str, rules: Sequence[str], runs: int
) -> str:
    """The lines of `fairpost audit --levels`; `kind` is the noise and `runs` the number of runs that it took."""
    group, areas = given["group"], given["areas"]
    labels = [*(levels if isinstance(levels, list) else ()), *(c for c in (areas, group) if c)]
    named = {"id": given["id"], "count": given["count"], "labels": labels}
    named |= {k: list(v) if isinstance(v, tuple) else v for k, v in o.reading(given).items() if k != "say"}
    read = _call("read_leaves", repr(file), **{k: v for k, v in named.items() if v})
    tree = f"fp.Hierarchy.from_geoids(leaves.ids, {levels!r})"
    if isinstance(levels, list):
        columns = f"[leaves.labels[name] for name in {levels!r}]"
        tree = f"fp.Hierarchy.from_labels({columns}, {[*levels, given['id'] or 'id']!r}, ids=leaves.ids)"
    numbers = {k: [float(v) for v in given[k].split(",")] for k in ("level_sigma", "split") if given[k] is not None}
    exact = [name.strip() for name in given["exact"].split(",")] if given["exact"] else None
    spent = None if given["rho"] is None else given["sensitivity"]
    noise = _call(
        "fp.LevelNoise", "tree", sigmas=numbers.get("level_sigma"), rho=given["rho"], split=numbers.get("split"),
        exact=exact, kind=kind, sensitivity=spent,
    )  # fmt: skip
    more = [f"{name}=leaves.labels[{column!r}]" for name, column in (("groups", group), ("areas", areas)) if column]
    settings = {"method": given["method"], "runs": runs, "seed": given["seed"], "confidence": given["confidence"]}
    call = _call("fp.audit_hierarchy", "leaves.values", "noise", "rule", *more, **settings)
    lines = [
        f"leaves = {read}",
        f"tree = {tree}",
        f"noise = {noise}",
        f"results = [{call} for rule in {list(rules)!r}]",
    ]
    imports = ["import fairpost as fp", "from fairpost.io import read_leaves", ""]
    return "\n".join([*imports, *lines, "print(*results, sep='\\n')"])
