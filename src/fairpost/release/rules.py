"""From kept noise to what is published: the post-processings and the rounding of the package, by name.

Everything here is a function of the kept file and the publication: a crash after the noise is kept costs nothing, and the same
publication comes out again to the bit. The rounding needs uniform numbers that nobody picked: they come from a random key that was
drawn with the noise and lies in the kept file.

A hierarchy is rebuilt from what is kept. Beside its counts stand the measurements themselves and the unclipped estimate: whoever adds up
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
from fairpost.release.kept import Kept, rebuilt
from fairpost.release.noise import Law, Whole
from fairpost.release.request import Publication, Shape

if TYPE_CHECKING:
    import polars as pl

    from fairpost.hierarchy.levels import LevelNoise
    from fairpost.hierarchy.tree import Hierarchy

Floats = NDArray[np.float64]
COUNTS = ("none", "nonnegative", "sum", "sum-clipped", "simplex", "simplex-threshold")
SHARES = ("baseline", "pos", "pos-threshold")
RULES = (*COUNTS, *SHARES)
KEEP = ("sum", "sum-clipped", "simplex", "simplex-threshold")
"""Rules with a total."""
ROUNDED = ("simplex", "simplex-threshold")
"""Rules whose output has a total and no negative entry, so that rounding keeps both."""
WHOLE = ("none", "nonnegative")
"""Rules whose output of whole numbers is whole."""
TREE_RULES = ("top-down", "blue-down", "joint", "top-down-threshold", "blue-down-threshold")
USUAL, TREE_USUAL = "simplex", "blue-down"
ROOT = "all"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a rule made of the noisy counts."""

    name: str
    """The column: count or share."""
    values: NDArray[Any]
    totals: tuple[float, ...] | None
    """The totals that hold now."""
    labels: tuple[str, ...]


def check(publication: Publication, *, groups: bool, levels: bool) -> None:
    """Rules on the publication that need no noise; to be called before anything is charged."""
    name = publication.postprocess
    if levels:
        if name not in TREE_RULES:
            raise ParameterError(f"`postprocess` of levels must be one of {', '.join(TREE_RULES)}, got {name!r}")
        if publication.by_group or groups:
            raise ParameterError("a release of levels keeps every sum of its tree and takes no groups, got some")
        return
    if name not in RULES:
        raise ParameterError(f"`postprocess` must be one of {', '.join(RULES)}, got {name!r}")
    if publication.total_kind != "noisy" and name not in KEEP:
        raise ParameterError(f"{name} keeps no total, got one; {', '.join(KEEP)} do")
    if publication.round and name not in (*ROUNDED, *WHOLE):
        raise ParameterError(f"rounding keeps totals and needs {' or '.join(ROUNDED)}, got {name}")
    if publication.by_group and not groups:
        raise ParameterError("totals by group need groups, and the source has none")


def apply(publication: Publication, kept: Kept) -> tuple[Outcome, pl.DataFrame]:
    """The rule, the rounding where it is asked for, and the table."""
    check(publication, groups=kept.groups is not None, levels=kept.shape is not None)
    return (_table if kept.shape is None else _tree)(publication, kept)


# -- one table ---------------------------------------------------------------------------------------------------------


def labels_of(groups: tuple[str, ...] | None, by_group: bool) -> tuple[str, ...] | None:
    """The groups in order of first appearance; None where they play no part."""
    return tuple(dict.fromkeys(groups)) if by_group and groups is not None else None


def group_sums(x: Whole, groups: tuple[str, ...] | None, by_group: bool) -> tuple[int, ...]:
    """Sums of whole numbers: of each group, or of all."""
    if not by_group or groups is None:
        return (int(x.sum()),)
    place = {label: k for k, label in enumerate(dict.fromkeys(groups))}
    sums = np.zeros(len(place), dtype=np.int64)
    np.add.at(sums, np.fromiter((place[g] for g in groups), np.int64, len(groups)), x)
    return tuple(int(s) for s in sums)


class Uniforms:
    """Uniform numbers on [0, 1) out of a key: number k is the first 53 bits of SHA-256(key, purpose, k)."""

    def __init__(self, key: bytes, purpose: str) -> None:
        self.key, self.purpose, self.k = key, purpose, 0

    def random(self) -> float:
        """The next one."""
        word = hashlib.sha256(self.key + f"{self.purpose} {self.k}".encode()).digest()
        self.k += 1
        return (int.from_bytes(word[:8], "big") >> 11) / 2**53


def _table(publication: Publication, kept: Kept) -> tuple[Outcome, pl.DataFrame]:
    import polars as pl

    outcome = outcome_of(publication, kept)
    columns: dict[str, pl.Series] = {"id": kept.column()}
    if kept.groups is not None:
        columns["group"] = pl.Series("group", kept.groups, dtype=pl.String)
    values = outcome.values
    if values.dtype.kind == "f" and bool(np.all((values == np.floor(values)) & (np.abs(values) < 2.0**52))):
        values = values.astype(np.int64)  # whole numbers as such, where all of them are
    columns[outcome.name] = pl.Series(outcome.name, values)
    return outcome, pl.DataFrame(columns)


def outcome_of(publication: Publication, kept: Kept) -> Outcome:
    """The rule on one table of counts."""
    from fairpost.noise import mechanism_of  # the one place where this room meets the rules and their noise
    from fairpost.partition import Partition
    from fairpost.rules import POSTPROCESSINGS
    from fairpost.rules.rounding import round_counts

    name, noisy, level = publication.postprocess, kept.levels[-1], kept.request["levels"][-1]
    labels = labels_of(kept.groups, publication.by_group)
    parts = Partition.whole(noisy.size) if labels is None else Partition.of(kept.groups or ())
    law = Law(level["mechanism"], float(level["scale"]))
    noise = mechanism_of(law.mechanism, **{law.parameter: law.scale})  # type: ignore[arg-type]
    if name in SHARES:
        pi: Any = POSTPROCESSINGS[name](kept.weights, parts).for_mechanism(noise)  # type: ignore[call-arg]
        return Outcome("share", pi(noisy.astype(np.float64)), None, parts.labels)
    if name in WHOLE:
        return Outcome("count", np.maximum(noisy, 0) if name == "nonnegative" else noisy, None, parts.labels)
    sums = group_sums(noisy, kept.groups, publication.by_group)
    totals = tuple(max(s, 0) for s in sums) if publication.totals is None else publication.totals
    pi = POSTPROCESSINGS[name]([float(t) for t in totals], parts).for_mechanism(noise)  # type: ignore[call-arg]
    values = pi(noisy.astype(np.float64))
    if publication.round:
        uniforms: Any = Uniforms(kept.rounding, name)
        values = round_counts(values, uniforms, parts, totals).astype(np.int64)
    return Outcome("count", values, totals, parts.labels)


# -- a hierarchy -------------------------------------------------------------------------------------------------------


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

    shape = Shape.of(kept.request["hierarchy"])
    tree = rebuilt(shape, kept.labels, kept.levels[-1].size)
    scales = {level["name"]: float(level["scale"]) for level in kept.request["levels"]}
    kind = total_kind(kept.request, publication)
    sigmas = [scales.get(name, 0.0) for name in tree.names]
    if kind in ("public", "noisy"):
        sigmas[0] = 0.0 if kind == "public" else np.inf
    first = len(tree.names) - len(kept.levels)
    parts: list[Any] = [np.empty(0)] * first + [level.astype(np.float64) for level in kept.levels]
    for k in reversed(range(first)):  # sums of an exact level are exact; of the first noisy one they are the noisy sum
        below = tree.span(k + 1)
        parts[k] = np.add.reduceat(parts[k + 1], tree.child[tree.span(k)] - below.start)
    if publication.totals is not None:
        parts[0] = np.array([float(publication.totals[0])])
    seen = {"exact": 0, "public": max(first, 1)}.get(kind, first)
    noise = LevelNoise(tree, sigmas=sigmas, kind=kept.request["levels"][-1]["mechanism"])
    return Measured(tree, noise, tree.join(parts), seen)


def _tree(publication: Publication, kept: Kept) -> tuple[Outcome, pl.DataFrame]:
    """One row a node, level after level."""
    import polars as pl

    from fairpost.hierarchy.rules import Unclipped, rule_of

    found = measured(kept, publication)
    tree, noise, y, frames = found.tree, found.noise, found.y, []
    rule = rule_of(publication.postprocess, tree, whole=publication.round)
    v = rule.apply(y, noise, seed=stream(kept.rounding))
    if publication.round:
        demand_sums(tree, v)
    u = Unclipped(tree).apply(y, noise)
    for k, (noisy, count, plain) in enumerate(zip(*map(tree.split, (y, v, u)), strict=True)):
        columns = {
            "level": pl.repeat(tree.names[k], noisy.size, dtype=pl.String, eager=True),
            "id": kept.column() if k == tree.depth else pl.Series("id", tree.ids(k), dtype=pl.String),
            "count": pl.Series(count.astype(np.int64) if publication.round else count),
            "noisy_count": pl.Series(
                noisy.astype(np.int64) if k >= found.seen else [None] * noisy.size, dtype=pl.Int64
            ),
            "unclipped": pl.Series(plain),
        }
        frames.append(pl.DataFrame(columns))
    return Outcome("count", v, (float(v[0]),), (ROOT,)), pl.concat(frames)


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
