"""`audit`, `project` and `demo` on a hierarchy: what `--levels` and the options beside it mean."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

import click

from fairpost.cli import options as o
from fairpost.errors import ParameterError
from fairpost.hierarchy.labels import SHALLOW, SHORT
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.tree import Hierarchy, length_of

if TYPE_CHECKING:
    from fairpost.io.tables import Leaves

KIND = "discrete-gaussian"
"""Where --mechanism is not given."""


def levels_of(text: str) -> dict[str, int] | list[str]:
    """`state:2,county:5` as lengths of prefixes, `state,county` as columns."""
    parts = [part.strip() for part in text.split(",")]
    pairs = [part.rpartition(":") for part in parts]
    if all(not name for name, _, _ in pairs) and all(parts):
        return parts
    lengths: dict[str, int] = {}
    for part, (name, _, length) in zip(parts, pairs, strict=True):
        if not name.strip() or length_of(length) is None:
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


def typed_beside(names: Set[str]) -> str | None:
    """An option that was typed and is none of these."""
    context = click.get_current_context(silent=True)
    options = [] if context is None else context.command.params
    return next((p.opts[-1] for p in options if p.name not in names and not is_default(str(p.name))), None)


def noise_of(tree: Hierarchy, given: o.Given) -> LevelNoise | None:
    """The noise that the options describe; None where they describe none."""
    exact = [name.strip() for name in given["exact"].split(",")] if given.get("exact") else []
    kind = given.get("kind") or KIND
    for other in ("epsilon", "scale", "sigma"):
        if given.get(other) is not None:
            raise ParameterError(f"--levels takes its noise from --level-sigma or --rho and --split, got --{other}")
    sigmas, rho, split = given["level_sigma"], given["rho"], given["split"]
    if sigmas is None and rho is None and split is None:
        return None
    if sigmas is not None and (rho is not None or split is not None):
        raise ParameterError("the noise of levels is given by --level-sigma, or by --rho and --split, got both")
    if sigmas is not None:
        spreads = numbers_of(sigmas, "--level-sigma")
        return LevelNoise(tree, sigmas=spreads, exact=exact, kind=kind, sensitivity=given["sensitivity"])
    if rho is None:
        raise ParameterError("--rho and --split go together, got --split alone: add --rho, the loss that it splits")
    if split is None:
        equal = ",".join([f"{100 // tree.depth / 100:g}"] * tree.depth)
        raise ParameterError(
            f"--rho and --split go together, got --rho alone: add the share of each of {', '.join(tree.names[1:])}, such as "
            f"--split {equal} (with one entry more, first, for a root that is measured)"
        )
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
            out = SHORT if len(leaves.ids[row]) < width else ""
            rule = f"every id must have the {width} characters of level {last!r}, got {leaves.ids[row]!r}{out}"
            raise leaves.table.error([row], id, rule)
        return Hierarchy.from_geoids(leaves.ids, levels)
    for name in levels:
        gone = leaves.labels[name].is_null()
        if gone.any():
            rule = f"every leaf must have a label on every level (all leaves lie equally deep), got none{SHALLOW}"
            raise leaves.table.error([int(gone.arg_max() or 0)], name, rule)
    return Hierarchy.from_labels([leaves.labels[name] for name in levels], [*levels, id], ids=leaves.ids)


def read(file: str, given: o.Given, *, least: float | None, labels: Iterable[str] = ()) -> Leaves:
    """The rows of the file, with the columns that the options name."""
    from fairpost.io.tables import read_leaves

    group = given.get("group")
    return read_leaves(
        file,
        id=given["id"] or "id",
        count=given["count"] or "count",
        labels=[*labels, *([group] if group else [])],
        optional=() if group else ("group",),
        least=least,
        **o.reading(given),
    )
