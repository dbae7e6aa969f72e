"""Scrambled points: even at every size, uniform at random, and the same bits whoever asks for them."""

import numpy as np
import pytest

from fairpost.engines.conditional.points import TABLE, Scramble

DIMENSION = TABLE + 40
"""Some coordinates of either kind."""


def test_blocks_of_a_scramble_are_the_scramble():
    """A pure function of (seed, look, scramble): any aligned blocks, in any order, give the same bits."""
    whole = Scramble(DIMENSION, 7, 3, 5).points(0, 512)
    for size in (1, 64, 256):
        again = Scramble(DIMENSION, 7, 3, 5)
        blocks = {first: again.points(first, size) for first in reversed(range(0, 512, size))}
        assert np.array_equal(np.vstack([blocks[first] for first in sorted(blocks)]), whole)
    for other in ((8, 3, 5), (7, 4, 5), (7, 3, 6)):
        assert not np.any(Scramble(DIMENSION, *other).points(0, 1) == whole[0])


@pytest.mark.parametrize("first", [0, 64, 448])
def test_aligned_points_fill_every_interval_of_every_coordinate_once(first):
    """A Latin hypercube in all coordinates; the first two fill boxes of every shape too."""
    u = Scramble(DIMENSION, 1, 0, 2).points(first, 64)
    assert np.all(np.sort(np.floor(64 * u), axis=0) == np.arange(64)[:, None])
    for k in range(7):
        boxes = np.floor(u[:, 0] * 2**k) * 2 ** (6 - k) + np.floor(u[:, 1] * 2 ** (6 - k))
        assert len(np.unique(boxes)) == 64, k


def test_every_point_of_every_coordinate_is_uniform_and_inside():
    """Over scrambles a given point has mean 1/2 and variance 1/12, and pairs of coordinates are not correlated."""
    r = 4000
    drawn = np.array(
        [Scramble(TABLE + 2, 11, 0, k).points(0, 4)[3, [0, 1, TABLE - 1, TABLE, TABLE + 1]] for k in range(r)]
    )
    assert np.all((drawn > 0) & (drawn < 1))
    assert np.all(np.abs(drawn.mean(axis=0) - 0.5) < 4 * np.sqrt(1 / 12 / r))
    assert np.all(np.abs(np.corrcoef(drawn.T) - np.eye(5)) < 4 / np.sqrt(r))
    assert np.all(np.abs(drawn.var(axis=0) - 1 / 12) < 4 * np.sqrt(1 / 180 / r))


def test_means_of_smooth_functions_err_by_less_than_independent_points_do():
    """Few coordinates: from 64 to 4,096 points by more than 50 times instead of 8. Thousands: what is additive is all but exact."""

    def scatter(f, dimension, n):
        return np.std([np.mean(f(Scramble(dimension, 0, 0, r).points(0, n))) for r in range(24)])

    def product(u):
        return np.prod(1 + 0.5 * (u - 0.5), axis=1)

    assert scatter(product, 4, 4096) < scatter(product, 4, 64) / 50
    for dimension in (TABLE // 2, 2 * TABLE):
        assert scatter(lambda u: np.exp(u).sum(axis=1), dimension, 256) < 0.01 * np.sqrt(dimension / 256) * 0.49
