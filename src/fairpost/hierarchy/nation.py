"""A SYNTHETIC nation: as many areas on each level as the United States had in 2020, made in seconds from a seed, never stored.

Real are the numbers of units (51 states with DC, 3,143 counties, 84,414 tracts, 239,780 block groups, 8,132,968 blocks: Census
Bureau, tallies of 2020) and the states' populations, rounded to thousands (2020 Census apportionment results). Everything below
the states is drawn: sizes of families are overdispersed, 35 % of the blocks are empty, more of them where a block group has many
blocks ("rural"), and the others are log-normal. No block is a real one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import ParameterError
from fairpost.hierarchy.tree import Hierarchy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVELS = {"state": 2, "county": 5, "tract": 11, "block group": 12, "block": 15}
UNITS = {"state": 51, "county": 3_143, "tract": 84_414, "block group": 239_780, "block": 8_132_968}
PEOPLE = 330.1e6
EMPTY = 0.349
RURAL = 60
"""Block groups of more blocks than this are called rural."""
STATES = {
    "01": 5024, "02": 733, "04": 7152, "05": 3012, "06": 39538, "08": 5774, "09": 3606, "10": 990, "11": 690, "12": 21538,
    "13": 10712, "15": 1455, "16": 1839, "17": 12813, "18": 6786, "19": 3190, "20": 2938, "21": 4506, "22": 4658, "23": 1362,
    "24": 6177, "25": 7030, "26": 10077, "27": 5706, "28": 2961, "29": 6155, "30": 1084, "31": 1962, "32": 3105, "33": 1378,
    "34": 9289, "35": 2118, "36": 20201, "37": 10439, "38": 779, "39": 11799, "40": 3959, "41": 4237, "42": 13003, "44": 1097,
    "45": 5118, "46": 887, "47": 6911, "48": 29146, "49": 3272, "50": 643, "51": 8631, "53": 7705, "54": 1794, "55": 5894,
    "56": 577,
}  # fmt: skip
"""FIPS code and population of 2020 in thousands."""


@dataclass(frozen=True, eq=False, repr=False)
class Nation:
    """Synthetic blocks, sorted by GEOID."""

    geoids: NDArray[np.bytes_]
    counts: Floats
    rural: NDArray[np.bool_]

    @property
    def groups(self) -> NDArray[np.str_]:
        """rural or urban."""
        return np.where(self.rural, "rural", "urban")

    def tree(self) -> Hierarchy:
        """The hierarchy of its GEOIDs."""
        return Hierarchy.from_geoids(self.geoids, LEVELS)


def synthetic_nation(seed: int = 0, scale: float = 1.0) -> Nation:
    """The nation, or with `scale` below 1 a smaller one of the same shape (as many states, fewer of everything below)."""
    if not 0 < scale <= 1:
        raise ParameterError(f"`scale` must be above 0 and at most 1, got {scale!r}")
    rng = np.random.default_rng(seed)
    units = {name: max(51, round(n * scale)) if name != "state" else n for name, n in UNITS.items()}
    people = np.array(list(STATES.values()), dtype=np.float64)
    county = _parts(rng, people**0.5, units["county"], 0.3, 499)
    tract = _parts(rng, np.repeat(people / county, county), units["tract"], 1.5, 100_000)
    group = _parts(rng, np.ones(tract.sum()), units["block group"], 0.3, 9)
    block = _parts(rng, np.ones(group.sum()), units["block"], 0.9, 999)
    counts, rural = _people(rng, block, PEOPLE * units["block"] / UNITS["block"])
    return Nation(_geoids(county, tract, group, block), counts, rural)


def _parts(rng: np.random.Generator, weights: Floats, total: int, spread: float, most: int) -> Ints:
    """`total` units over parents in proportion to noisy weights, each at least 1 and at most `most`."""
    noisy = weights * rng.lognormal(0.0, spread, weights.size)
    out = np.ones(weights.size, dtype=np.int64)
    left = total - out.sum()
    while left > 0:
        room = noisy * (out < most)
        more = np.floor(left * room / room.sum()).astype(np.int64)
        if more.sum() == 0:
            more = np.zeros_like(out)
            more[np.argsort(-room, kind="stable")[:left]] = 1
        more = np.minimum(more, most - out)
        out += more
        left -= int(more.sum())
    return out


def _people(rng: np.random.Generator, block: Ints, total: float) -> tuple[Floats, NDArray[np.bool_]]:
    """People in each block, whole numbers, and whether its block group is rural."""
    n, size = int(block.sum()), np.repeat(block, block)
    empty = np.zeros(n, dtype=bool)
    liking = rng.random(n) / size**0.25  # the smallest are empty: more of them in large block groups
    count = round(EMPTY * n)
    empty[np.argpartition(liking, count)[:count]] = True
    draws = rng.lognormal(0.0, 1.1, n)
    draws[empty] = 0.0
    starts = np.concatenate([[0], np.cumsum(block)[:-1]])
    sums = np.add.reduceat(draws, starts)
    wanted = rng.gamma(6.0, 1.0, block.size)
    draws *= np.repeat(np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0), block)
    populated = n - count
    draws *= (total - populated) / draws.sum()
    counts = np.floor(draws + rng.random(n))
    counts[~empty] += 1.0  # a block that is not empty has someone
    return counts, size > RURAL


def _geoids(county: Ints, tract: Ints, group: Ints, block: Ints) -> NDArray[np.bytes_]:
    """Fifteen digits: state 2, county 3 (odd), tract 6, block 4, whose first digit is the block group."""

    def numbers(parts: Ints) -> Ints:
        ends = np.cumsum(parts)
        return np.arange(ends[-1]) - np.repeat(ends - parts, parts)

    state = np.repeat([int(code) for code in STATES], county)
    above = state * 1000 + 2 * numbers(county) + 1
    above = np.repeat(above, tract) * 1_000_000 + 100 * (numbers(tract) + 1)
    above = np.repeat(above, group) * 10 + numbers(group) + 1
    whole = np.repeat(above, block) * 1000 + numbers(block)
    out = np.empty((whole.size, 15), dtype=np.uint8)
    for k in range(14, -1, -1):
        whole, digit = np.divmod(whole, 10)
        out[:, k] = digit + 48
    return out.view("S15").reshape(-1)
