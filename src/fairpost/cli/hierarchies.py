"""`audit`, `project` and `demo` on a hierarchy: what `--levels` and the options beside it mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import numpy as np

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import Outputs, as_json, now, to_stdout
from fairpost.cli.recipes import levels_lines
from fairpost.errors import ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.result import LIMITS, HierarchyAudit, Part
from fairpost.hierarchy.rules import RULES, rule_of
from fairpost.hierarchy.simulation import Simulation
from fairpost.hierarchy.tree import Hierarchy
from fairpost.io import write_whole
from fairpost.results.audit import CONFIDENTIAL

if TYPE_CHECKING:
    from fairpost.io.leaves import Leaves

RUNS = 1000
"""Where --runs is not given."""
KIND = "discrete-gaussian"
"""Where --mechanism is not given."""
LEVELS = o.together(
    click.option(
        "--levels",
        metavar="NAME:LENGTH,...",
        help="A hierarchy by prefixes of the id, top first, or NAME,...: by columns, the id below them. The root is implied.",
    ),
    click.option("--level-sigma", metavar="S,...", help="Levels: the noise of each, top first; 0: exact."),
    click.option("--split", metavar="P,...", help="Levels: each one's share of --rho, instead of --level-sigma."),
    click.option("--exact", metavar="NAME,...", help="Levels that are published without noise."),
)
AREAS = click.option("--areas", metavar="COL", help="Levels: column of unions of leaves (districts, places) to follow.")


def need_levels(given: o.Given) -> None:
    """Options and rules that mean nothing without --levels are refused by name."""
    for option in ("level_sigma", "split", "exact", "areas"):
        if given.get(option) is not None:
            raise ParameterError(f"--{option.replace('_', '-')} needs --levels, got {given[option]!r} without")
    names = given["postprocess"]
    for name in [names] if isinstance(names, str) else names:
        if name in RULES:
            raise ParameterError(f"--postprocess {name} needs --levels, got none")
    if given.get("method") == "mean-field":
        raise ParameterError("--method mean-field needs --levels, got none")


def levels_of(text: str) -> dict[str, int] | list[str]:
    """`state:2,county:5` as lengths of prefixes, `state,county` as columns."""
    parts = [part.strip() for part in text.split(",")]
    pairs = [part.rpartition(":") for part in parts]
    if all(not name for name, _, _ in pairs) and all(parts):
        return parts
    lengths: dict[str, int] = {}
    for part, (name, _, length) in zip(parts, pairs, strict=True):
        if not name.strip() or not length.strip().isdigit():
            raise ParameterError(f"--levels must be NAME:LENGTH,... (or NAME,... for columns), got {part!r}")
        if name.strip() in lengths:
            raise ParameterError(f"--levels must name each level once, got {name.strip()!r} twice")
        lengths[name.strip()] = int(length)
    return lengths


def numbers_of(text: str, option: str) -> list[float]:
    """Numbers separated by commas."""
    out = []
    for part in text.split(","):
        try:
            out.append(float(part))
        except ValueError:
            raise ParameterError(f"{option} must be numbers separated by commas, got {part.strip()!r}") from None
    return out


def is_default(name: str) -> bool:
    """Whether an option was not typed."""
    from click.core import ParameterSource

    context = click.get_current_context(silent=True)
    return context is None or context.get_parameter_source(name) in (ParameterSource.DEFAULT, None)


def noise_of(tree: Hierarchy, given: o.Given) -> LevelNoise | None:
    """The noise that the options describe; None where they describe none."""
    exact = [name.strip() for name in given["exact"].split(",")] if given.get("exact") else []
    kind = KIND if is_default("mechanism") else given["mechanism"]
    for other in ("epsilon", "scale", "sigma"):
        if given[other] is not None:
            raise ParameterError(f"--levels takes its noise from --level-sigma or --rho and --split, got --{other}")
    sigmas, rho, split = given["level_sigma"], given["rho"], given["split"]
    if sigmas is None and rho is None and split is None:
        return None
    if sigmas is not None and (rho is not None or split is not None):
        raise ParameterError("the noise of levels is given by --level-sigma, or by --rho and --split, got both")
    if sigmas is not None:
        return LevelNoise(tree, sigmas=numbers_of(sigmas, "--level-sigma"), exact=exact, kind=kind)
    if rho is None or split is None:
        raise ParameterError("--rho and --split go together, got one of them")
    shares = numbers_of(split, "--split")
    return LevelNoise(tree, rho=rho, split=shares, exact=exact, kind=kind, sensitivity=given["sensitivity"])


def tree_of(leaves: Leaves, levels: dict[str, int] | list[str], id: str) -> Hierarchy:
    """The hierarchy of the rows of a file; what is wrong is named with file, line and column."""
    if isinstance(levels, dict):
        width = list(levels.values())[-1]
        wrong = leaves.ids.str.len_chars() != width
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            last = list(levels)[-1]
            rule = f"every id must have the {width} characters of level {last!r}, got {leaves.ids[row]!r}"
            raise leaves.table.error([row], id, rule)
        return Hierarchy.from_geoids(leaves.ids, levels)
    for name in levels:
        gone = leaves.labels[name].is_null()
        if gone.any():
            rule = "every leaf must have a label on every level (all leaves lie equally deep), got none"
            raise leaves.table.error([int(gone.arg_max() or 0)], name, rule)
    return Hierarchy.from_labels([leaves.labels[name] for name in levels], [*levels, id], ids=leaves.ids)


def read(file: str, given: o.Given, *, least: float | None, labels: Iterable[str] = ()) -> Leaves:
    """The rows of the file, with the columns that the options name."""
    from fairpost.io.leaves import read_leaves

    group = given.get("group")
    return read_leaves(
        file,
        id=given["id"] or "id",
        count=given["count"] or "count",
        labels=[*labels, *([group] if group else [])],
        optional=() if group else ("group",),
        format=given["format"],
        least=least,
    )


def audit_levels(file: str, given: o.Given) -> int:
    """`fairpost audit FILE --levels ...`."""
    from fairpost.hierarchy.audit import METHODS, audit_hierarchy

    method = given["method"]
    if method not in METHODS:
        raise ParameterError(f"--method on a hierarchy must be one of {', '.join(METHODS)}, got {method!r}")
    for option in ("total", "budget"):
        if given.get(option) is not None:
            raise ParameterError(f"--{option} has no meaning with --levels, got {given[option]!r}")
    names = given["postprocess"] or ("top-down", "blue-down", "blue-down-threshold")
    for name in names:
        if name not in RULES:
            raise ParameterError(f"--postprocess with --levels must be one of {', '.join(RULES)}, got {name!r}")
    if given.get("checkpoint") is not None and len(names) > 1:
        raise ParameterError("a checkpoint with --levels holds one --postprocess, got several")
    levels = levels_of(given["levels"])
    outputs = Outputs(given, [file])
    columns = [*(levels if isinstance(levels, list) else ()), *([given["areas"]] if given["areas"] else ())]
    with screen.progress("simulating") as report:
        leaves = read(file, given, least=0.0, labels=columns)
        tree = tree_of(leaves, levels, given["id"] or "id")
        noise = noise_of(tree, given)
        if noise is None:
            raise ParameterError(
                "an audit with --levels needs its noise: --level-sigma, or --rho and --split, got none"
            )
        settings = ("runs", "seed", "confidence", "threads", "checkpoint", "cluster")
        typed = {name: given[name] for name in settings if given.get(name) is not None}
        how = Simulation(**({"runs": RUNS} | typed), progress=report)
        groups = leaves.labels.get(given["group"] or "group")
        areas = leaves.labels[given["areas"]] if given["areas"] else None
        results = []
        for name in names:
            rule = rule_of(name, tree)
            results.append(
                audit_hierarchy(leaves.values, noise, rule, method=method, groups=groups, areas=areas, simulation=how)
            )
            if results[-1].interrupted:
                break
    if not outputs.to_stdout:
        show(results)
    page = partial(_page, file, results, levels, given)
    if outputs.to_stdout == "html":
        to_stdout(page())
    elif outputs.to_stdout:
        click.echo(as_json(as_data(results, given)), nl=False)
    _write(outputs, results, leaves.ids, given, page)
    return 130 if any(r.interrupted for r in results) else 0


def as_data(results: list[HierarchyAudit], given: o.Given) -> dict[str, Any]:
    """The JSON of an audit."""
    first = results[0]
    return {
        "mark": CONFIDENTIAL,
        "counts": {"n": first.tree.n, "total": float(first.leaves.truth.sum())},
        "mechanism": first.noise.describe(),
        "results": [r.to_dict(entities=given["entities"]) for r in results],
    }


def _private(content: Callable[[BinaryIO], object]) -> Callable[[BinaryIO], object]:
    """What was computed from true counts is readable by its owner alone."""

    def write(file: BinaryIO) -> None:
        os.fchmod(file.fileno(), 0o600)
        content(file)

    return write


def _page(file: str, results: list[HierarchyAudit], levels: dict[str, int] | list[str], given: o.Given) -> str:
    from fairpost.report import levels_page

    return levels_page(
        results,
        command=o.command_line(),
        made=now(),
        title=given["title"],
        unit=given["unit"],
        source=o.source_of(file),
        lines=levels_lines(
            file, given, levels, results[0].noise.kind, [r.postprocess for r in results], given["runs"] or RUNS
        ),
    )


def _write(outputs: Outputs, results: list[HierarchyAudit], ids: Any, given: o.Given, page: Callable[[], str]) -> None:
    files: dict[Any, Any] = {}
    if "json" in outputs.paths:
        files[outputs.paths["json"]] = _private(lambda file: file.write(as_json(as_data(results, given)).encode()))
    if "csv" in outputs.paths:
        path = outputs.paths["csv"]
        files[path] = _private(lambda file: _table(results, ids, file, path.lower().endswith(".parquet")))
    if "html" in outputs.paths:
        files[outputs.paths["html"]] = _private(lambda file: file.write(page().encode()))
    if files:
        write_whole(files, outputs.force)
        click.echo(f"wrote {', '.join(str(path) for path in files)}", err=True)


def _table(results: list[HierarchyAudit], ids: Any, file: BinaryIO, parquet: bool) -> None:
    """One row a node, level after level: level, id, count, then three columns a rule; as CSV or as Parquet."""
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
