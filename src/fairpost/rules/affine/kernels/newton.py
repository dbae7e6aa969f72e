"""The programs (P) and (P_+) for one vector: closed form, and Newton's method on the dual."""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.rules.affine.kernels.ldl import Factor, Matrix, combine, factorise, new_factor, residual, solve

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RIDGE = 1e-11  # refinement removes its effect
SHORT, COARSER, COARSEST = 1e-3, 1e4, 1.0  # after a step below SHORT the ridge grows by COARSER
CLOSE, NEAR = 1e-15, 1e-13  # Newton ends at the relative error CLOSE, or below NEAR where no more is to be had
SNAP, ROUND = 1e-11, 1e-15  # zero: at most SNAP of its noisy count plus ROUND of what its rows add up
FAR = 1e-2  # how much of a rounding error reaches rows that are not neighbours


@kernel
def _largest(x: Floats) -> float:
    """The largest |x_i|; NaN where there is one."""
    out = 0.0
    for entry in x:
        if not abs(entry) <= out:
            out = abs(entry)
    return out


@kernel
def _only(w: Floats, free: Bools) -> Floats:
    """The free entries of w, zeros elsewhere."""
    out = np.zeros(w.size)
    for j in range(w.size):
        if free[j]:
            out[j] = w[j]
    return out


@kernel
def _above(A: Matrix, w: Floats, floor: Floats, free: Bools, weight: Floats) -> bool:
    """Puts w > floor (one floor per class) into `free` and its counts into `weight`; whether anything changed."""
    changed = False
    for c in range(weight.size):
        weight[c] = 0.0
        for j in range(A.first[c], A.first[c + 1]):
            now = w[j] > floor[c]
            changed = changed or now != free[j]
            free[j] = now
            weight[c] += now
    return changed


@kernel
def _scales(A: Matrix, b: Floats, total: Floats) -> tuple[Floats, Floats]:
    """What rounding errors are relative to: one scale per row, one per class.

    R_i = |b_i| + sum |A_ic| total_c is what row i adds up; a class takes the largest R of its rows, a row the
    largest of its classes, because an error in one row moves the variables that it shares with others.
    """
    own, rows, classes, largest = np.zeros(b.size), np.zeros(b.size), np.zeros(total.size), 0.0
    for k in range(b.size):
        own[k] = abs(b[k])
        for p in range(A.row_start[k], A.row_start[k + 1]):
            own[k] += abs(A.row_value[p]) * total[A.row_column[p]]
        largest = max(largest, own[k])
    for c in range(total.size):
        for q in range(A.column_start[c], A.column_start[c + 1]):
            classes[c] = max(classes[c], own[A.column_row[q]], FAR * largest)
    for k in range(b.size):
        for p in range(A.row_start[k], A.row_start[k + 1]):
            rows[k] = max(rows[k], classes[A.row_column[p]])
    return rows, classes


@kernel
def _totals(A: Matrix, y: Floats, v: Floats, free: Bools) -> Floats:
    """The sum of |y| + |v| over the free variables of each class."""
    out = np.zeros(A.is_kept.size)
    for c in range(out.size):
        for j in range(A.first[c], A.first[c + 1]):
            if free[j]:
                out[c] += abs(y[j]) + abs(v[j])
    return out


@kernel
def _relative(left: Floats, scale: Floats) -> float:
    """The largest |left| / scale, where 0 / 0 is 0."""
    worst = 0.0
    for k in range(left.size):
        if left[k] != 0.0:
            worst = max(worst, abs(left[k]) / scale[k]) if scale[k] > 0.0 else np.inf
    return worst


@kernel
def _shifted(A: Matrix, y: Floats, shift: Floats) -> Floats:
    """The differences y - shift, one shift per class."""
    out = np.empty(y.size)
    for c in range(shift.size):
        for j in range(A.first[c], A.first[c + 1]):
            out[j] = y[j] - shift[c]
    return out


@kernel
def _refine(A: Matrix, b: Floats, free: Bools, L: Factor, v: Floats) -> tuple[Floats, Floats]:
    """Moves the free part of v along A_F' until A v = b to rounding; returns v and b - A v.

    v_F stays in y_F + range(A_F'), so that it converges to the projection of y_F onto A_F v_F = b.
    """
    left = residual(A, b, v)
    before = _largest(left)
    for _ in range(8):
        change = combine(A, solve(L, left))
        for c in range(change.size):
            change[c] = -change[c]
        trial = _only(_shifted(A, v, change), free)
        after = residual(A, b, trial)
        size = _largest(after)
        if not size < before:
            break
        v, left = trial, after
        if size > 0.25 * before:
            break
        before = size
    return v, left


@kernel
def _along(A: Matrix, w: Floats, s: Floats, slope: float, t: float) -> tuple[float, float]:
    """The derivative and the change of phi at mu + t d, where s = A' d and slope = phi'(0) < 0.

    All terms but the first are positive: nothing cancels, however large the counts are.
    """
    derivative, change = slope, t * slope
    for c in range(s.size):
        step = t * s[c]
        for j in range(A.first[c], A.first[c + 1]):
            u = w[j] - step
            if w[j] > 0.0 and u > 0.0:
                derivative += step * s[c]
                change += 0.5 * step * step
            elif w[j] > 0.0:
                derivative += s[c] * w[j]
                change += w[j] * (step - 0.5 * w[j])
            elif u > 0.0:
                derivative -= s[c] * u
                change += 0.5 * u * u
    return derivative, change


@kernel
def _search(A: Matrix, w: Floats, s: Floats, slope: float) -> float:
    """A step: 1 where that is good enough, else where phi' has lost nine tenths of its size."""
    t, low, low_value, high, high_value = 1.0, 0.0, slope, np.inf, 0.0
    for trial in range(100):
        derivative, change = _along(A, w, s, slope, t)
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


@kernel
def _error(A: Matrix, b: Floats, y: Floats, mu: Floats, free: Bools, g: Floats) -> float:
    """How large the gradient is beside the terms of y_F - A_F' mu, which is what rounding lets one see."""
    total = _totals(A, y, y, free)
    for c in range(total.size):
        size = 0.0
        for q in range(A.column_start[c], A.column_start[c + 1]):
            size += abs(A.column_value[q] * mu[A.column_row[q]])
        for j in range(A.first[c], A.first[c + 1]):
            total[c] += size * free[j]
    return _relative(g, _scales(A, b, total)[0])


@kernel
def _newton(A: Matrix, b: Floats, y: Floats, mu: Floats, L: Factor, limit: int) -> int:
    """Minimises phi(mu) = |(y - A' mu)_+|^2 / 2 + b' mu in place; returns the steps, at most `limit`.

    phi is convex and piecewise quadratic with the gradient b - A (y - A' mu)_+; its Hessian is A_F A_F' with
    F = {y - A' mu > 0}. A full step that stays in one piece ends there. Where A_F A_F' is singular the ridge
    turns the step into the flat directions, and the line search limits it.
    """
    ridge, settled, last = RIDGE, False, np.inf
    zero, weight, free = np.zeros(A.is_kept.size), np.zeros(A.is_kept.size), np.zeros(y.size, np.bool_)
    for step in range(limit):
        w = _shifted(A, y, combine(A, mu))
        settled = not _above(A, w, zero, free, weight) and settled
        g = residual(A, b, _only(w, free))
        error = _error(A, b, y, mu, free, g)
        if error <= CLOSE or ((settled or error <= NEAR) and error > 0.25 * last):
            return step
        last = error
        factorise(A, weight, ridge, L)
        d = solve(L, g)
        slope = 0.0
        for k in range(b.size):
            slope -= g[k] * d[k]
            d[k] = -d[k]
        t = _search(A, w, combine(A, d), slope)
        for k in range(b.size):
            mu[k] += t * d[k]
        settled = t == 1.0 and ridge == RIDGE
        if t < SHORT:
            ridge = min(ridge * COARSER, COARSEST)
        elif t >= 1.0:
            ridge = max(ridge / COARSER, RIDGE)
    return limit


@kernel
def _polish(A: Matrix, b: Floats, y: Floats, mu: Floats, L: Factor, snap: bool) -> tuple[Floats, float]:
    """The v on the free set that mu shows, A v = b to rounding, zeros elsewhere; and its relative residual.

    With `snap`, what rounding cannot tell from zero is zero. Entries that the refinement makes negative join
    the zeros, which happens at ties only. The scale leaves the multipliers out: where they grow without bound
    there is no solution, and the residual must show it.
    """
    v = _shifted(A, y, combine(A, mu))
    floor, weight, free = np.zeros(A.is_kept.size), np.zeros(A.is_kept.size), np.zeros(y.size, np.bool_)
    _above(A, v, floor, free, weight)
    if snap:
        scale = _scales(A, b, _totals(A, y, v, free))[1]
        for c in range(floor.size):
            floor[c] = ROUND * scale[c]
        for j in range(y.size):
            if v[j] <= SNAP * abs(y[j]):
                v[j] = 0.0
        _above(A, v, floor, free, weight)
    for _ in range(8):
        factorise(A, weight, RIDGE, L)
        v, left = _refine(A, b, free, L, _only(v, free))
        if not _above(A, v, floor, free, weight):
            return v, _relative(left, _scales(A, b, _totals(A, y, v, free))[0])
    return v, np.inf


@kernel
def equality(A: Matrix, b: Floats, y: Floats, whole: Factor) -> tuple[Floats, float]:
    """(P): the projection of y onto A v = b with every variable free, and its relative residual."""
    free = np.ones(y.size, np.bool_)
    v, left = _refine(A, b, free, whole, y)
    return v, _relative(left, _scales(A, b, _totals(A, y, v, free))[0])


@kernel
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
    w = _shifted(A, y, combine(A, mu))
    for j in range(y.size):
        w[j] = v[j] - max(w[j], 0.0)
    gap = _largest(w)
    return v, mu, left, gap / max(_largest(y), _largest(v)) if gap > 0.0 else 0.0, steps
