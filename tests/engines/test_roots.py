"""The root finder against SciPy's and against roots that are known."""

import math

import pytest
from scipy.optimize import brentq

from fairpost.roots import root

CASES = {
    "line": (lambda x: 3 * x - 1, -5.0, 7.0),
    "cube": (lambda x: (x - 0.3) ** 3, -1.0, 2.0),
    "steep": (lambda x: math.expm1(40 * (x - 0.7)), -1.0, 2.0),
    "flat": (lambda x: math.atan(1e6 * (x - 0.123)), -3.0, 100.0),
    "jump": (lambda x: -1.0 if x < 0.25 else 1.0, -1.0, 3.0),
    "tail": (lambda x: math.erfc(x) - 1e-200, 0.0, 26.0),
    "far": (lambda x: x - 1e12, -1.0, 1e15),
    "falling": (lambda x: 2.0 - x * x, 0.0, 9.0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9, 1e-15])
def test_the_sign_changes_where_it_says(name, turned, tolerance):
    f, low, high = CASES[name]
    asked = []

    def counted(x):
        asked.append(x)
        return f(x)

    found = root(counted, *((high, low) if turned else (low, high)), xtol=tolerance, rtol=tolerance)
    room = tolerance * (1 + abs(found)) + 4 * 2.0**-52 * abs(found)
    assert f(found) == 0 or f(found - room) * f(found + room) <= 0
    assert low <= min(asked)
    assert max(asked) <= high
    assert abs(f(found)) == min(abs(f(x)) for x in asked)  # of the two ends of the last bracket the better one
    # bisection needs log2 of the bracket over the tolerance; the method at most some more than twice that
    assert len(asked) < 12 + 2.5 * math.log2((high - low) / tolerance)


def test_it_is_as_quick_as_brent_on_smooth_functions():
    for f, low, high in (CASES["line"], CASES["falling"], CASES["steep"]):
        asked = []
        root(lambda x, f=f, asked=asked: asked.append(x) or f(x), low, high, xtol=1e-14, rtol=1e-14)
        calls = brentq(f, low, high, xtol=1e-14, rtol=1e-14, full_output=True)[1].function_calls
        assert len(asked) <= calls + 6


def test_a_root_at_an_end_and_none_at_all():
    assert root(lambda x: x, 0.0, 1.0, xtol=1e-9, rtol=0.0) == 0.0
    assert root(lambda x: x - 1, 0.0, 1.0, xtol=1e-9, rtol=0.0) == 1.0
    for f in (lambda x: 1.0, lambda x: -2.0, lambda x: math.nan):
        with pytest.raises(ValueError, match="both signs"):
            root(f, 0.0, 1.0, xtol=1e-9, rtol=0.0)


@pytest.mark.parametrize("at", [1 / 3, 0.2718, 0.9, 1.7])
def test_a_jump_is_as_near_as_every_tolerance_says(at):
    """Nothing but signs to go by: the bracket ends below the tolerance, and not below half of it for nothing."""
    for k in range(60):
        tolerance = 0.2 * 0.8**k
        for xtol, rtol in ((tolerance, 0.0), (0.0, tolerance)):
            asked = []
            found = root(
                lambda x, asked=asked: asked.append(x) or math.copysign(1.0, x - at), -1.0, 3.0, xtol=xtol, rtol=rtol
            )
            assert abs(found - at) <= (xtol + rtol * abs(found)) * (1 + 1e-12)
            if xtol:
                assert len(asked) <= 2 + math.ceil(math.log2(4.0 / xtol))
