"""The root of a function between two points with different signs.

Chandrupatla's method (Advances in Engineering Software 28, 1997): inverse quadratic interpolation where three points allow
it, else the middle. The bracket stays a bracket, and the work is bounded as for bisection. SciPy has the like; importing `scipy.optimize`
for one root takes longer than most audits.
"""

from __future__ import annotations

from collections.abc import Callable

STEPS = 2000
"""More than bisection needs from one end of the floats to the other."""
EPS = 2.0**-52


def root(f: Callable[[float], float], low: float, high: float, *, xtol: float, rtol: float) -> float:
    """A point within xtol + rtol |x| of a change of sign of f between `low` and `high`."""
    a, b = float(low), float(high)
    fa, fb = f(a), f(b)
    if fa == 0.0 or fb == 0.0:
        return a if fa == 0.0 else b
    if not (fa < 0.0 < fb or fb < 0.0 < fa):
        raise ValueError(f"a root needs values of both signs at its ends, got {fa!r} and {fb!r}")
    t = 0.5
    for _ in range(STEPS):
        x = a + t * (b - a)
        fx = f(x)
        if (fx > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx
        best, least = (a, fa) if abs(fa) < abs(fb) else (b, fb)
        near = (2.0 * EPS * abs(best) + 0.5 * (xtol + rtol * abs(best))) / abs(b - a) if b != a else 1.0
        if near > 0.5 or least == 0.0:
            return best
        t = min(max(_step(a, b, c, fa, fb, fc), near), 1.0 - near)
    return best


def _step(a: float, b: float, c: float, fa: float, fb: float, fc: float) -> float:
    """The next point as a part of the way from a to b; a is the newest point, c the one that left the bracket."""
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if not (phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi):
        return 0.5
    return fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
