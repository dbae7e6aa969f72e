"""`fairpost project FILE --levels ...`: measurements of all levels to a consistent release."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fairpost.cli import options as o
from fairpost.cli.hierarchies import levels_of, noise_of, read
from fairpost.cli.outputs import Outputs
from fairpost.errors import CountsError, ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.rules import RULES, Unclipped, rule_of
from fairpost.hierarchy.tree import ROOT, Hierarchy

if TYPE_CHECKING:
    from fairpost.io.tables import Leaves


def project_levels(file: str, given: o.Given) -> int:
    """`fairpost project FILE --levels ...`: measurements of all levels in one file, told apart by the length of their ids."""
    from fairpost.io.files import columns_csv

    levels = levels_of(given["levels"])
    if not isinstance(levels, dict):
        raise ParameterError("project reads levels from the length of ids: --levels must be NAME:LENGTH,...")
    name = given["postprocess"] or "blue-down"
    if name not in RULES:
        raise ParameterError(f"--postprocess with --levels must be one of {', '.join(RULES)}, got {name!r}")
    outputs = Outputs(given, [file])
    rows = read(file, given, least=None)
    tree, y = _measured(rows, levels, given)
    noise = noise_of(tree, given)
    if noise is None:
        if name != "top-down":
            raise ParameterError(f"{name} needs the noise of the levels: --level-sigma, or --rho and --split, got none")
        exact = [part.strip() for part in given["exact"].split(",")] if given["exact"] else [ROOT]
        noise = LevelNoise(tree, sigmas=[1.0] * len(tree.names), exact=exact)
    _check_exact(tree, noise, y)
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

    table = None if "csv" in outputs.paths else lambda: click.echo(columns_csv(columns), nl=False)
    outputs.write(table, json=data, csv=lambda: columns_csv(columns))
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
