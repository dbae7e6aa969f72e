"""The programs (P) and (P_+) for one vector: closed form, and Newton's method on the dual."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairpost.kernels.ldl import Factor, Matrix, combine, factorise, new_factor, residual, solve

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RIDGE = 1e-11  # refinement removes its effect
SHORT, COARSER, COARSEST = 1e-3, 1e4, 1.0  # after a step below SHORT the ridge grows by COARSER
CLOSE, NEAR = 1e-15, 1e-13  # Newton ends at the relative error CLOSE, or below NEAR where it falls no further
SNAP, ROUND = 1e-11, 1e-15  # zero: at most SNAP of its noisy count plus ROUND of what its rows add up
FAR = 1e-2  # how much of a rounding error reaches rows that are not neighbours


@njit(cache=True, nogil=True)
def _largest(x: Floats) -> float:
    """The largest |x_i|; NaN where there is one."""
    out = 0.0
    for entry in x:
        if not abs(entry) <= out:
            out = abs(entry)
    return out


@njit(cache=True, nogil=True)
def _above(w: Floats, floor: Floats, free: Bools) -> bool:
    """Puts w > floor into `free`; whether anything changed."""
    changed = False
    for j in range(w.size):
        now = w[j] > floor[j]
        changed = changed or now != free[j]
        free[j] = now
    return changed


@njit(cache=True, nogil=True)
def _only(w: Floats, free: Bools) -> Floats:
    """The free entries of w, zeros elsewhere."""
    out = np.zeros(w.size)
    for j in range(w.size):
        if free[j]:
            out[j] = w[j]
    return out


@njit(cache=True, nogil=True)
def _scales(A: Matrix, b: Floats, free: Bools, size: Floats) -> tuple[Floats, Floats]:
    """What rounding errors are relative to: one scale a row, one a column.

    R_i = |b_i| + |A_iF| size_F is what row i adds up; a column takes the largest R of its rows, a row the
    largest of its columns, because an error in one row moves the variables that it shares with others.
    """
    own, rows, columns, largest = np.zeros(b.size), np.zeros(b.size), np.zeros(size.size), 0.0
    for k in range(b.size):
        own[k] = abs(b[k])
        for p in range(A.row_start[k], A.row_start[k + 1]):
            j = A.row_column[p]
            if free[j]:
                own[k] += abs(A.row_value[p]) * size[j]
        largest = max(largest, own[k])
    for j in range(size.size):
        for q in range(A.column_start[j], A.column_start[j + 1]):
            columns[j] = max(columns[j], own[A.column_row[q]], FAR * largest)
    for k in range(b.size):
        for p in range(A.row_start[k], A.row_start[k + 1]):
            rows[k] = max(rows[k], columns[A.row_column[p]])
    return rows, columns


@njit(cache=True, nogil=True)
def _relative(left: Floats, scale: Floats) -> float:
    """The largest |left| / scale, where 0 / 0 is 0."""
    worst = 0.0
    for k in range(left.size):
        if left[k] != 0.0:
            worst = max(worst, abs(left[k]) / scale[k]) if scale[k] > 0.0 else np.inf
    return worst


@njit(cache=True, nogil=True)
def _refine(A: Matrix, b: Floats, free: Bools, L: Factor, v: Floats) -> Floats:
    """Moves the free part of v along A_F' until A v = b to rounding, in place; returns b - A v.

    v_F stays in y_F + range(A_F'), so that it converges to the projection of y_F onto A_F v_F = b.
    """
    left = residual(A, b, v)
    before = _largest(left)
    for _ in range(8):
        change = combine(A, solve(L, left))
        trial = v.copy()
        for j in range(v.size):
            if free[j]:
                trial[j] += change[j]
        after = residual(A, b, trial)
        size = _largest(after)
        if not size < before:
            break
        for j in range(v.size):
            v[j] = trial[j]
        left = after
        if size > 0.25 * before:
            break
        before = size
    return left


@njit(cache=True, nogil=True)
def _slack(A: Matrix, y: Floats, mu: Floats) -> tuple[Floats, Floats]:
    """The differences w = y - A' mu, and the sizes of the terms in each."""
    w, size = y.copy(), np.empty(y.size)
    for j in range(y.size):
        size[j] = abs(y[j])
        for q in range(A.column_start[j], A.column_start[j + 1]):
            term = A.column_value[q] * mu[A.column_row[q]]
            w[j] -= term
            size[j] += abs(term)
    return w, size


@njit(cache=True, nogil=True)
def _sizes(y: Floats, v: Floats) -> Floats:
    """The sizes |y| + |v|."""
    out = np.empty(y.size)
    for j in range(y.size):
        out[j] = abs(y[j]) + abs(v[j])
    return out


@njit(cache=True, nogil=True)
def _along(w: Floats, s: Floats, slope: float, t: float) -> tuple[float, float]:
    """The derivative and the change of phi at mu + t d, where s = A' d and slope = phi'(0) < 0.

    All terms but the first are positive: nothing cancels, however large the counts are.
    """
    derivative, change = slope, t * slope
    for j in range(w.size):
        u = w[j] - t * s[j]
        if w[j] > 0.0 and u > 0.0:
            derivative += t * s[j] * s[j]
            change += 0.5 * (t * s[j]) ** 2
        elif w[j] > 0.0:
            derivative += s[j] * w[j]
            change += w[j] * (t * s[j] - 0.5 * w[j])
        elif u > 0.0:
            derivative -= s[j] * u
            change += 0.5 * u * u
    return derivative, change


@njit(cache=True, nogil=True)
def _search(w: Floats, s: Floats, slope: float) -> float:
    """A step: 1 where that is good enough, else where phi' has lost nine tenths of its size."""
    t, low, low_value, high, high_value = 1.0, 0.0, slope, np.inf, 0.0
    for trial in range(100):
        derivative, change = _along(w, s, slope, t)
        if abs(derivative) <= -0.1 * slope:
            break
        if t == 1.0 and abs(derivative) <= -0.9 * slope and change <= 1e-4 * slope:
            break
        if derivative < 0.0:
            low, low_value = t, derivative
        else:
            high, high_value = t, derivative
        if high == np.inf:
            t *= 4.0
        elif trial % 3 == 2:
            t = 0.5 * (low + high) if low > 0.0 else 0.01 * high
        else:
            t = low + (high - low) * min(max(-low_value / (high_value - low_value), 0.05), 0.95)
    return t


@njit(cache=True, nogil=True)
def _newton(A: Matrix, b: Floats, y: Floats, mu: Floats, L: Factor, limit: int) -> int:
    """Minimises phi(mu) = |(y - A' mu)_+|^2 / 2 + b' mu in place; returns the steps, at most `limit`.

    phi is convex and piecewise quadratic with the gradient b - A (y - A' mu)_+; its Hessian is A_F A_F' with
    F = {y - A' mu > 0}. A full step that stays in one piece ends there. Where A_F A_F' is singular the ridge
    turns the step into the flat directions, and the line search limits it.
    """
    ridge, settled, last = RIDGE, False, np.inf
    free, zero = np.zeros(y.size, np.bool_), np.zeros(y.size)
    for step in range(limit):
        w, size = _slack(A, y, mu)
        settled = not _above(w, zero, free) and settled
        g = residual(A, b, _only(w, free))
        error = _relative(g, _scales(A, b, free, size)[0])
        if error <= CLOSE or ((settled or error <= NEAR) and error > 0.25 * last):
            return step
        last = error
        factorise(A, free, ridge, L)
        d = solve(L, g)  # downhill is -d, because g is the gradient
        slope = 0.0
        for k in range(b.size):
            slope -= g[k] * d[k]
        s = combine(A, d)
        for j in range(y.size):
            s[j] = -s[j]
        t = _search(w, s, slope)
        for k in range(b.size):
            mu[k] -= t * d[k]
        settled = t == 1.0 and ridge == RIDGE
        if t < SHORT:
            ridge = min(ridge * COARSER, COARSEST)
        elif t >= 1.0:
            ridge = max(ridge / COARSER, RIDGE)
    return limit


@njit(cache=True, nogil=True)
def _polish(A: Matrix, b: Floats, y: Floats, mu: Floats, L: Factor, snap: bool) -> tuple[Floats, float]:
    """The v on the free set that mu shows, A v = b to rounding, zeros elsewhere; and its relative residual.

    With `snap`, what rounding cannot tell from zero is zero. Entries that the refinement makes negative join
    the zeros, which happens at ties only. The scale leaves the multipliers out: where they grow without bound
    there is no solution, and the residual must show it.
    """
    w, _ = _slack(A, y, mu)
    free, floor = np.zeros(y.size, np.bool_), np.zeros(y.size)
    _above(w, floor, free)
    if snap:
        columns = _scales(A, b, free, _sizes(y, w))[1]
        for j in range(y.size):
            floor[j] = SNAP * abs(y[j]) + ROUND * columns[j]
        _above(w, floor, free)
        for j in range(y.size):
            floor[j] = ROUND * columns[j]
    v = _only(w, free)
    for _ in range(8):
        factorise(A, free, RIDGE, L)
        left = _refine(A, b, free, L, v)
        if not _above(v, floor, free):
            return v, _relative(left, _scales(A, b, free, _sizes(y, v))[0])
        v = _only(v, free)
    return v, np.inf


@njit(cache=True, nogil=True)
def equality(A: Matrix, b: Floats, y: Floats, whole: Factor) -> tuple[Floats, float]:
    """(P): the projection of y onto A v = b with every variable free, and its relative residual."""
    v, free = y.copy(), np.ones(y.size, np.bool_)
    left = _refine(A, b, free, whole, v)
    return v, _relative(left, _scales(A, b, free, _sizes(y, v))[0])


@njit(cache=True, nogil=True)
def nonnegative(A: Matrix, b: Floats, y: Floats, whole: Factor, limit: int) -> tuple[Floats, Floats, float, float, int]:
    """(P_+): v, mu, the relative errors of A v = b and of v = (y - A' mu)_+, and Newton's steps.

    Newton starts at the multipliers of (P): (P_+) has the same solution at y and at the solution of (P).
    """
    mu, L = solve(whole, residual(A, b, y)), new_factor(whole.start, whole.parent)
    for k in range(b.size):
        mu[k] = -mu[k]
    steps = _newton(A, b, y, mu, L, limit)
    v, left = y, np.inf
    for snap in (True, False):
        if not left <= NEAR:
            trial, after = _polish(A, b, y, mu, L, snap)
            if after < left or snap:
                v, left = trial, after
    w, _ = _slack(A, y, mu)
    for j in range(y.size):
        w[j] = v[j] - max(w[j], 0.0)
    gap = _largest(w)
    return v, mu, left, gap / max(_largest(y), _largest(v)) if gap > 0.0 else 0.0, steps
