"""From kept noise to what is published: the post-processings and the rounding of the package, by name.

Everything here is a function of the kept file: a crash after the noise is kept costs nothing, and the same publication
comes out again to the bit. The rounding needs uniform numbers that nobody picked: they come from a random key that was
drawn with the noise and lies in the kept file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import ParameterError
from fairpost.release.noise import Law, Whole
from fairpost.release.request import Publication

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


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a rule made of the noisy counts."""

    name: str
    """The column: count or share."""
    values: NDArray[Any]
    totals: tuple[float, ...] | None
    """The totals that hold now."""
    labels: tuple[str, ...]


def check(publication: Publication, groups: tuple[str, ...] | None) -> None:
    """Rules on the publication that need no noise; to be called before anything is charged."""
    name = publication.postprocess
    if name not in RULES:
        raise ParameterError(f"`postprocess` must be one of {', '.join(RULES)}, got {name!r}")
    if publication.total_kind != "noisy" and name not in KEEP:
        raise ParameterError(f"{name} keeps no total, got one; {', '.join(KEEP)} do")
    if publication.round and name not in (*ROUNDED, *WHOLE):
        raise ParameterError(f"rounding keeps totals and needs {' or '.join(ROUNDED)}, got {name}")
    if publication.by_group and groups is None:
        raise ParameterError("totals by group need groups, and the source has none")


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


def apply(
    publication: Publication,
    noisy: Whole,
    law: Law,
    *,
    groups: tuple[str, ...] | None,
    weights: Floats | None,
    key: bytes,
) -> Outcome:
    """The rule, and the rounding where it is asked for."""
    from fairpost.noise import mechanism_of  # the one place where this room meets the rules and their noise
    from fairpost.partition import Partition
    from fairpost.rules import POSTPROCESSINGS
    from fairpost.rules.rounding import round_counts

    check(publication, groups)
    name = publication.postprocess
    labels = labels_of(groups, publication.by_group)
    whole = Partition.whole(noisy.size)
    parts = whole if labels is None else Partition.of(groups or ())
    parameter = {"discrete-laplace": "scale", "discrete-gaussian": "sigma"}[law.mechanism]
    noise = mechanism_of(law.mechanism, **{parameter: law.scale})  # type: ignore[arg-type]
    if name in SHARES:
        pi: Any = POSTPROCESSINGS[name](weights, parts).for_mechanism(noise)  # type: ignore[call-arg]
        return Outcome("share", pi(noisy.astype(np.float64)), None, parts.labels)
    if name in WHOLE:
        return Outcome("count", np.maximum(noisy, 0) if name == "nonnegative" else noisy, None, parts.labels)
    sums = group_sums(noisy, groups, publication.by_group)
    totals = tuple(max(s, 0) for s in sums) if publication.totals is None else publication.totals
    pi = POSTPROCESSINGS[name]([float(t) for t in totals], parts).for_mechanism(noise)  # type: ignore[call-arg]
    values = pi(noisy.astype(np.float64))
    if publication.round:
        uniforms: Any = Uniforms(key, name)
        values = round_counts(values, uniforms, parts, totals).astype(np.int64)
    return Outcome("count", values, totals, parts.labels)
