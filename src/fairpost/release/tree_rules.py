"""From kept noise of all levels to what is published: a rule of the hierarchies, rounding that keeps every sum.

A function of the kept file and of the publication, like `rules`: the tree is rebuilt from what is kept, the rounding's stream has a
key that was drawn with the noise. Beside the counts stand the measurements themselves and the unclipped estimate: whoever adds up
areas of their own is better served by numbers without a bias.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import FairpostError, ParameterError
from fairpost.release.kept import Kept
from fairpost.release.noise import Whole
from fairpost.release.request import Publication, Shape
from fairpost.release.rules import Outcome

if TYPE_CHECKING:
    import polars as pl

    from fairpost.hierarchy.levels import LevelNoise
    from fairpost.hierarchy.tree import Hierarchy

Floats = NDArray[np.float64]
RULES = ("top-down", "blue-down", "joint", "top-down-threshold", "blue-down-threshold")
USUAL = "blue-down"
ROOT = "all"
COLUMNS = ["level", "id", "count", "noisy_count", "unclipped"]


def check(publication: Publication, groups: tuple[str, ...] | None) -> None:
    """Rules on the publication that need no noise; to be called before anything is charged."""
    name = publication.postprocess
    if name not in RULES:
        raise ParameterError(f"`postprocess` of levels must be one of {', '.join(RULES)}, got {name!r}")
    if publication.by_group or groups is not None:
        raise ParameterError("a release of levels keeps every sum of its tree and takes no groups, got some")


def total_kind(request: Mapping[str, Any], publication: Publication) -> str:
    """Where the root's total is from: exact, public, measured (noise of its own) or noisy (estimated from below)."""
    if request["hierarchy"]["exact"] is not None:
        if publication.totals is not None:
            exact = request["hierarchy"]["exact"]
            raise ParameterError(f"level {exact!r} is exact, so the total is known; a public one has no part, got one")
        return "exact"
    if publication.totals is not None:
        return "public"
    return "measured" if request["levels"][0]["name"] == ROOT else "noisy"


@dataclass(frozen=True, eq=False)
class Measured:
    """The kept numbers on their tree."""

    tree: Hierarchy
    noise: LevelNoise
    y: Floats
    """Of all nodes; a root that was not measured has the sum of the level below, or the public total."""
    seen: int
    """The first level whose numbers are measurements, or exact."""


def measured(kept: Kept, publication: Publication) -> Measured:
    """The tree, its noise and its measurements, out of a kept file."""
    from fairpost.hierarchy.levels import LevelNoise
    from fairpost.release.tree_source import rebuilt

    shape = Shape.of(kept.request["hierarchy"])
    tree = rebuilt(shape, kept.labels, kept.levels[-1].size)
    scales = {level["name"]: float(level["scale"]) for level in kept.request["levels"]}
    kind = total_kind(kept.request, publication)
    sigmas = [scales.get(name, 0.0) for name in tree.names]
    if kind in ("public", "noisy"):
        sigmas[0] = 0.0 if kind == "public" else np.inf
    first = len(tree.names) - len(kept.levels)
    parts: list[Any] = [np.empty(0)] * first + [level.astype(np.float64) for level in kept.levels]
    for k in range(
        first - 1, -1, -1
    ):  # sums of an exact level are exact; of the first noisy one they are the noisy sum
        below = tree.span(k + 1)
        parts[k] = np.add.reduceat(parts[k + 1], tree.child[tree.span(k)] - below.start)
    if publication.totals is not None:
        parts[0] = np.array([float(publication.totals[0])])
    seen = {"exact": 0, "public": max(first, 1)}.get(kind, first)
    noise = LevelNoise(tree, sigmas=sigmas, kind=kept.request["levels"][-1]["mechanism"])
    return Measured(tree, noise, tree.join(parts), seen)


def apply(publication: Publication, kept: Kept) -> tuple[Outcome, pl.DataFrame]:
    """The rule, the rounding where it is asked for, and the table: one row a node, level after level."""
    from fairpost.hierarchy.rules import Unclipped, rule_of

    check(publication, kept.groups)
    found = measured(kept, publication)
    tree, noise, y = found.tree, found.noise, found.y
    rule = rule_of(publication.postprocess, tree, whole=publication.round)
    v = rule.apply(y, noise, seed=stream(kept.rounding))
    if publication.round:
        demand_sums(tree, v)
    u = Unclipped(tree).apply(y, noise)
    return Outcome("count", v, (float(v[0]),), (ROOT,)), _table(found, kept, v, u, publication.round)


def stream(key: bytes) -> int:
    """The seed of the rounding's stream: 64 bits of SHA-256 of the key that lies in the kept file."""
    return int.from_bytes(hashlib.sha256(key + b"levels").digest()[:8], "big")


def demand_sums(tree: Hierarchy, v: Floats) -> None:
    """Whole numbers, none negative, every parent the sum of its children: exactly, or nothing is published."""
    whole = v.astype(np.int64)
    held = bool((whole == v).all()) and int(whole.min()) >= 0
    for k in range(tree.depth):
        below = tree.span(k + 1)
        sums = np.add.reduceat(whole[below], tree.child[tree.span(k)] - below.start)
        held = held and bool((sums == whole[tree.span(k)]).all())
    if not held:
        raise FairpostError("rounding must keep every sum of the tree in whole numbers, and did not")


def _table(found: Measured, kept: Kept, v: Floats, u: Floats, whole: bool) -> pl.DataFrame:
    import polars as pl

    tree, frames = found.tree, []
    for k, (noisy, count, plain) in enumerate(zip(*map(tree.split, (found.y, v, u)), strict=True)):
        ids = kept.column() if k == tree.depth else pl.Series("id", tree.ids(k), dtype=pl.String)
        own: Whole | list[None] = noisy.astype(np.int64) if k >= found.seen else [None] * noisy.size
        frames.append(
            pl.DataFrame(
                {
                    "level": pl.repeat(tree.names[k], noisy.size, dtype=pl.String, eager=True),
                    "id": ids,
                    "count": pl.Series(count.astype(np.int64) if whole else count),
                    "noisy_count": pl.Series(own, dtype=pl.Int64),
                    "unclipped": pl.Series(plain),
                }
            )
        )
    return pl.concat(frames)
