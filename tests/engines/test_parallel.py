"""Threads over slices."""

import pytest

from fairpost.parallel import over_slices, slices


@pytest.mark.parametrize(("n", "parts"), [(0, 2), (1, 4), (7, 3), (8, 2), (5, 1)])
def test_slices_cover_everything_once(n, parts):
    found = slices(n, parts)
    assert [i for part in found for i in range(n)[part]] == list(range(n))
    assert 1 <= len(found) <= parts


def test_results_come_in_order():
    assert over_slices(lambda part: list(range(10))[part], 10, threads=3) == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]


def test_a_nested_call_does_not_wait_for_itself():
    inner = lambda part: over_slices(lambda small: small.stop - small.start, part.stop - part.start, threads=2)  # noqa: E731
    assert over_slices(inner, 8, threads=2) == [[2, 2], [2, 2]]


def test_errors_come_through():
    with pytest.raises(ZeroDivisionError):
        over_slices(lambda part: 1 / (part.start - 5), 10, threads=2)
