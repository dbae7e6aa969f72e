"""The verb of whoever publishes: project(noisy, "simplex", total) -> counts that are not negative and add up."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts, index_of
from fairpost.errors import CountsError, ParameterError
from fairpost.noise import Mechanism, as_mechanism
from fairpost.partition import Partition
from fairpost.results.projection import Projection
from fairpost.rules import POSTPROCESSINGS, PostProcessing, Simplex, SimplexThreshold
from fairpost.rules.base import finite_rows, nonnegative_total
from fairpost.rules.release import Releasing
from fairpost.rules.rounding import round_counts

Floats = NDArray[np.float64]
Total = float | Mapping[str, float] | Sequence[float]
RELEASES = tuple(name for name, kind in POSTPROCESSINGS.items() if issubclass(kind, Releasing))
"""The post-processings that give counts, by name."""
ROUNDED = (Simplex.name, SimplexThreshold.name)
"""Those whose totals rounding keeps: not negative, and exact."""


def project(
    noisy: ArrayLike,
    postprocess: str = "simplex",
    total: Total | None = None,
    groups: Iterable[Any] | None = None,
    mechanism: Mechanism | None = None,
    round: bool = False,
    seed: int | None = None,
    ids: Iterable[Any] | None = None,
    names: Iterable[Any] | None = None,
    kept: Mapping[str, Iterable[Any]] | None = None,
) -> Projection:
    """Noisy counts to counts that are not negative and add up. Nothing private is used, no privacy is spent.

    Parameters
    ----------
    noisy
        One vector of noisy counts.
    postprocess
        "simplex", "simplex-threshold" (which needs the mechanism), "sum", "sum-clipped", "nonnegative" or "none".
    total
        The public total to keep: one number, or one per group, by label or in the order of first appearance. Default: the
        sum of the noisy counts (of each group, where there are groups), which must be at least 0; with `round` to the
        nearest whole number.
    groups, ids
        Labels, one per entity. Default: no groups, and the positions.
    names, kept
        What people call each entity; columns that the tables carry along.
    mechanism
        The noise that was added, which is public.
    round
        Whether to round to whole numbers, without bias and with every total kept.
    seed
        Of the rounding. Default: fresh randomness.

    """
    if postprocess not in RELEASES:
        raise ParameterError(f"`postprocess` must be one of {', '.join(RELEASES)}, got {postprocess!r}")
    y = finite_rows(noisy)
    if y.ndim != 1:
        raise CountsError(f"noisy counts must be one vector, got {y.ndim} dimensions")
    ids = index_of(noisy, groups=groups, names=names) if ids is None else ids
    about = Counts(np.zeros(y.size), ids=ids, groups=groups, names=names, kept=kept)  # the labels, checked
    mechanism = None if mechanism is None else as_mechanism(mechanism)
    pi, parts, totals = _built(postprocess, y, total, about, round)
    if pi.needs_noise and mechanism is None:
        raise ParameterError(
            f"{postprocess} needs the noise: give `mechanism` (one of --epsilon, --scale, --sigma and --rho), got none"
        )
    values = (pi if mechanism is None else pi.for_mechanism(mechanism))(y)
    if seed is not None and not round:
        raise ParameterError(f"`seed` is of the rounding (`round`, --round), which was not asked for, got {seed}")
    rounded, seed = _rounded(postprocess, values, parts, totals, seed) if round else (None, None)
    for array in (y := y.copy(), values):
        array.flags.writeable = False
    return Projection(
        postprocess=postprocess,
        noisy=y,
        values=values,
        ids=about.ids,
        groups=about.groups,
        totals=totals,
        rounded=rounded,
        seed=seed,
        names=about.names,
        kept=about.kept,
    )


def _built(
    name: str, y: Floats, total: Total | None, about: Counts, whole: bool
) -> tuple[PostProcessing, Partition | None, dict[str, float] | None]:
    """pi, the groups whose totals it keeps, and these totals."""
    kind = POSTPROCESSINGS[name]
    if not kind.keeps_total:
        if total is not None:
            raise ParameterError(
                f"{name} keeps no total, got one; choose sum, sum-clipped, simplex or simplex-threshold"
            )
        return kind(), None, None
    parts, totals = _targets(y, total, about, whole)
    return kind(totals.tolist(), parts), parts, dict(zip(parts.labels, totals.tolist(), strict=True))  # type: ignore[call-arg]


def _targets(y: Floats, total: Total | None, about: Counts, whole: bool) -> tuple[Partition, Floats]:
    """Which totals are kept: of each group where there are several or none is given, else one."""
    if isinstance(total, (Mapping, Sequence, np.ndarray)):
        if about.groups is None:
            raise ParameterError("several totals need `groups` that say which entity has which, got none")
        parts = Partition.of(about.groups)
        return parts, parts.targets(total)
    if total is not None:
        return Partition.whole(y.size), np.array([nonnegative_total(total)])
    parts = Partition.whole(y.size) if about.groups is None else Partition.of(about.groups)
    return parts, _seen(y, parts, whole)


def _seen(y: Floats, parts: Partition, whole: bool) -> Floats:
    """The default totals: the sums of the noisy counts, to the nearest whole number where they are to be rounded."""
    gathered = parts.gather(y)
    sums = np.array([math.fsum(gathered[low:high]) for low, high in pairwise(parts.starts)])
    if (sums < 0).any():
        g = int(np.argmin(sums))
        of = "" if len(parts.labels) == 1 else f" for the group {parts.labels[g]!r}"
        raise CountsError(
            f"the default total is the sum of the noisy counts, which must be at least 0, got {sums[g]:g}{of}"
        )
    return np.round(sums) if whole else sums


def _rounded(
    name: str, values: Floats, parts: Partition | None, totals: Mapping[str, float] | None, seed: int | None
) -> tuple[Floats, int]:
    chosen = secrets.randbits(63) if seed is None else seed
    if name not in ROUNDED:
        raise ParameterError(f"rounding (`round`, --round) keeps totals and needs {' or '.join(ROUNDED)}, got {name}")
    if chosen < 0:
        raise ParameterError(f"`seed` must be a whole number from 0, got {chosen}")
    return round_counts(
        values, np.random.default_rng(chosen), parts, None if totals is None else list(totals.values())
    ), chosen
