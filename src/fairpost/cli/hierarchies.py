"""`audit`, `project` and `demo` on a hierarchy: what `--levels` and the options beside it mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import numpy as np

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import Outputs, as_json
from fairpost.errors import CountsError, ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.result import LIMITS, HierarchyAudit, Part
from fairpost.hierarchy.rules import RULES, Unclipped, rule_of
from fairpost.hierarchy.simulation import Simulation
from fairpost.hierarchy.tree import ROOT, Hierarchy
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


def _is_default(name: str) -> bool:
    from click.core import ParameterSource

    context = click.get_current_context(silent=True)
    return context is None or context.get_parameter_source(name) in (ParameterSource.DEFAULT, None)


def noise_of(tree: Hierarchy, given: o.Given) -> LevelNoise | None:
    """The noise that the options describe; None where they describe none."""
    exact = [name.strip() for name in given["exact"].split(",")] if given.get("exact") else []
    kind = KIND if _is_default("mechanism") else given["mechanism"]
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


def _read(file: str, given: o.Given, *, least: float | None, labels: Iterable[str] = ()) -> Leaves:
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
    for option in ("total", "budget", "html"):
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
        leaves = _read(file, given, least=0.0, labels=columns)
        tree = tree_of(leaves, levels, given["id"] or "id")
        noise = noise_of(tree, given)
        if noise is None:
            raise ParameterError(
                "an audit with --levels needs its noise: --level-sigma, or --rho and --split, got none"
            )
        how = Simulation(
            runs=RUNS if _is_default("runs") else given["runs"],
            seed=given["seed"],
            confidence=given["confidence"],
            threads=given["threads"],
            checkpoint=given.get("checkpoint"),
            cluster=given.get("cluster"),
            progress=report,
        )
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
    if outputs.to_stdout:
        click.echo(as_json(as_data(results, given)), nl=False)
    _write(outputs, results, leaves.ids, given)
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


def _write(outputs: Outputs, results: list[HierarchyAudit], ids: Any, given: o.Given) -> None:
    files: dict[Any, Any] = {}
    if "json" in outputs.paths:
        files[outputs.paths["json"]] = _private(lambda file: file.write(as_json(as_data(results, given)).encode()))
    if "csv" in outputs.paths:
        path = outputs.paths["csv"]
        files[path] = _private(lambda file: _table(results, ids, file, path.lower().endswith(".parquet")))
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
    """A table a rule: levels, then leaves by size, groups and the areas at both ends."""
    out = screen.console()
    for r in results:
        by = "formula" if r.runs is None else f"{r.runs:,} runs"
        heads = ("level", "nodes", "alpha", "gains most", "loses most", "bias (rms)", "RMSE", "unclipped RMSE")
        made = screen.table(f"{r.postprocess}, {r.noise.kind} noise, by {by}", *heads)
        for level in r.levels:
            made.add_row(
                screen.plain(level.name),
                f"{level.n:,}",
                f"{level.alpha.value:.3f} ({level.alpha.low:.3f} to {level.alpha.high:.3f})",
                screen.plain(level.alpha_pair[0]),
                screen.plain(level.alpha_pair[1]),
                f"{level.bias_rms:.4f}",
                f"{level.rmse:.3f}",
                f"{level.unclipped_rmse:.3f}",
            )
        out.print(made)
        out.print(_parts(f"{r.tree.names[-1]}: mean bias by true count", r.sizes))
        if r.groups:
            out.print(_parts(f"{r.tree.names[-1]}: mean bias by group", r.groups))
        if r.areas:
            ordered = sorted(r.areas, key=lambda part: part.bias)
            ends = [*ordered[:3], *ordered[3:][-3:]]
            rms = float(np.sqrt(np.mean([part.bias**2 for part in r.areas])))
            out.print(_parts(f"{len(r.areas):,} areas, bias {rms:.3g} (rms): the largest losses and gains", ends))
    out.print(LIMITS, style="dim")
    out.print(CONFIDENTIAL, style="bold")


def _parts(title: str, parts: Iterable[Part]) -> Any:
    made = screen.table(screen.plain(title), "", "leaves", "people", "bias", "±", "RMSE")
    for part in parts:
        made.add_row(
            screen.plain(part.name),
            f"{part.n:,}",
            f"{part.count:,.0f}",
            f"{part.bias:+.4f}",
            f"{part.half_width:.4f}",
            "-" if part.rmse is None else f"{part.rmse:.3f}",
        )
    return made


def project_levels(file: str, given: o.Given) -> int:
    """`fairpost project FILE --levels ...`: measurements of all levels in one file, told apart by the length of their ids."""
    from fairpost.io.rows import columns_csv

    levels = levels_of(given["levels"])
    if not isinstance(levels, dict):
        raise ParameterError("project reads levels from the length of ids: --levels must be NAME:LENGTH,...")
    name = given["postprocess"]
    if _is_default("postprocess"):
        name = "blue-down"
    if name not in RULES:
        raise ParameterError(f"--postprocess with --levels must be one of {', '.join(RULES)}, got {name!r}")
    outputs = Outputs(given, [file])
    rows = _read(file, given, least=None)
    tree, y = _measured(rows, levels, given)
    noise = noise_of(tree, given)
    if noise is None:
        if name != "top-down":
            raise ParameterError(f"{name} needs the noise of the levels: --level-sigma, or --rho and --split, got none")
        exact = [part.strip() for part in given["exact"].split(",")] if given["exact"] else [ROOT]
        noise = LevelNoise(tree, sigmas=[1.0] * len(tree.names), exact=exact)
    _check_exact(tree, noise, y)
    import secrets

    seed = secrets.randbits(63) if given["seed"] is None else given["seed"]
    v = rule_of(name, tree, whole=given["whole"]).apply(y, noise, seed=seed)
    u = Unclipped(tree).apply(y, noise)
    columns: dict[str, list[Any]] = {"level": [], "id": [], "noisy_count": [], "count": [], "unclipped": []}
    parts = zip(tree.names, tree.split(y), tree.split(v), tree.split(u), strict=True)
    for k, (level, noisy, count, plain) in enumerate(parts):
        columns["level"] += [level] * noisy.size
        columns["id"] += tree.ids(k)
        columns["noisy_count"] += noisy.tolist()
        columns["count"] += (count.astype(np.int64) if given["whole"] else count).tolist()
        columns["unclipped"] += plain.tolist()

    def data() -> dict[str, Any]:
        return {
            "postprocess": name,
            "counts": {"n": tree.n},
            "mechanism": noise.describe(),
            "rounding": {"seed": seed} if given["whole"] else None,
            "entities": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        }

    if "csv" not in outputs.paths and not outputs.to_stdout:
        click.echo(columns_csv(columns), nl=False)
    outputs.write(json=data, csv=lambda: columns_csv(columns))
    negative = int(np.count_nonzero(y < 0))
    click.echo(
        f"{name}: {tree.nodes:,} nodes on {len(tree.names)} levels; {negative:,} measurements were negative, no count is; "
        f"every parent is the sum of its children{', in whole numbers' if given['whole'] else ''}.",
        err=True,
    )
    return 0


def _measured(rows: Leaves, levels: dict[str, int], given: o.Given) -> tuple[Hierarchy, Any]:
    """The tree of the longest ids and the measurement of every node; each must be there."""
    width = list(levels.values())[-1]
    root = (rows.ids == ROOT).to_numpy()
    lengths = np.where(root, 0, rows.ids.str.len_chars().to_numpy())
    strange = np.flatnonzero(~np.isin(lengths, [0, *levels.values()]))
    if strange.size:
        wrong = int(strange[0])
        rule = f"the length of an id must be that of a level ({', '.join(map(str, levels.values()))}), got {rows.ids[wrong]!r}"
        raise rows.table.error([wrong], given["id"] or "id", rule)
    leaf = np.flatnonzero(lengths == width)
    if not leaf.size:
        raise CountsError(f"{rows.name}: there must be at least one id of {width} characters, got none")
    tree = Hierarchy.from_geoids(rows.ids.gather(leaf), levels)
    parts = [np.array([float("nan")])]
    for k, (name, length) in enumerate(levels.items(), 1):
        here: Any = np.flatnonzero(lengths == length)
        places = {label: i for i, label in enumerate(tree.ids(k))}
        part = np.full(tree.size(k), np.nan)
        for row, label, value in zip(here, rows.ids.gather(here).to_list(), rows.values[here], strict=True):
            if label not in places:
                rule = f"a node of level {name!r} must have leaves below it, got {label!r} without"
                raise rows.table.error([int(row)], given["id"] or "id", rule)
            part[places[label]] = value
        gone = np.flatnonzero(np.isnan(part))
        if gone.size:
            missing = tree.ids(k)[int(gone[0])]
            raise CountsError(
                f"{rows.name}: every node needs a measurement, got none for {missing!r} of level {name!r}"
            )
        parts.append(part)
    stated = rows.values[root]
    total = given["total"] if given["total"] is not None else float(stated[0]) if stated.size else float(parts[1].sum())
    parts[0] = np.array([total])
    return tree, tree.join(parts)


def _check_exact(tree: Hierarchy, noise: LevelNoise, y: Any) -> None:
    """Exact levels must agree with each other and not be negative."""
    for k in range(noise.top + 1):
        here = tree.span(k)
        if (y[here] < 0).any():
            place = int(np.flatnonzero(y[here] < 0)[0])
            raise CountsError(f"an exact count must be at least 0, got {y[here][place]:g} for {tree.id_of(k, place)!r}")
        if k == noise.top:
            break
        below = tree.span(k + 1)
        sums = np.add.reduceat(y[below], tree.child[here] - below.start)
        off = np.flatnonzero(np.abs(sums - y[here]) > 1e-6 * np.maximum(1.0, np.abs(sums)))
        if off.size:
            place = int(off[0])
            raise CountsError(
                f"exact counts must add up, got {y[here][place]:g} for {tree.id_of(k, place)!r} and {sums[place]:g} below it"
            )


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
