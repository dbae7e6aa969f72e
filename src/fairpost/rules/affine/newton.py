"""The programs (P) and (P_+) for one vector: closed form, and Newton's method on the dual, with SuperLU for the linear systems.

(P_+) has the solution v = (y - A' mu)_+ where mu minimises phi(mu) = |(y - A' mu)_+|^2 / 2 + b' mu: convex and piecewise quadratic
with the gradient b - A (y - A' mu)_+ and the Hessian A_F A_F', F = {y - A' mu > 0}.

A column that meets many rows would fill A_F A_F'; such columns are *kept* as extra unknowns u instead, which leaves

    [ A_S A_S' + ridge   A_K ] [mu]   [g]
    [ A_K'               -I  ] [ u] = [0]      (S: sparse columns, K: kept columns; eliminate u to see it),

quasi-definite, so that it is factored without pivoting in every order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Solve = Callable[[Floats], Floats]

RIDGE = 1e-11  # refinement removes its effect
SHORT, COARSER, COARSEST = 1e-3, 1e4, 1.0  # after a step below SHORT the ridge grows by COARSER
CLOSE, NEAR = 1e-15, 1e-13  # Newton ends at the relative error CLOSE, or below NEAR where no more is to be had
SNAP, ROUND = 1e-11, 1e-15  # zero: at most SNAP of its noisy count plus ROUND of what its rows add up
FAR = 1e-2  # how much of a rounding error reaches rows that are not neighbours


@dataclass(frozen=True, eq=False)
class Equalities:
    """A v = b: rows that are not empty, scaled to norms near 1, in an order with little fill."""

    A: Any
    b: Floats

    @cached_property
    def kept(self) -> Bools:
        """The few columns that would fill A A'. Where many meet many rows, A is dense and none is kept."""
        m, n = self.A.shape
        dense = np.bincount(self.A.indices, minlength=n) > 10.0 + 10.0 * np.sqrt(m)
        return dense if np.count_nonzero(dense) <= m / 10 else np.zeros(n, dtype=bool)

    @cached_property
    def _size(self) -> Any:
        return abs(self.A)

    @cached_property
    def _columns(self) -> Any:
        return self.A.T.tocsr()

    @cached_property
    def _exact(self) -> Any:
        return self.A.data.astype(np.longdouble)

    @cached_property
    def whole(self) -> Solve:
        """(A A' + ridge)^-1."""
        return self.factor(np.ones(self.A.shape[1], dtype=bool), RIDGE)

    def combine(self, mu: Floats) -> Floats:
        """A' mu."""
        return np.asarray(self._columns @ mu)

    def residual(self, v: Floats) -> Floats:
        """b - A v in extended precision, so that large totals hide no bits of v."""
        terms = self._exact * v[self.A.indices]
        return np.asarray(self.b - np.add.reduceat(terms, self.A.indptr[:-1]), dtype=np.float64)

    def normal(self, free: Bools, ridge: float) -> Any:
        """A_F A_F' + ridge, bordered by the kept columns; the ridge is relative to each diagonal entry."""
        from scipy import sparse

        def some(columns: Bools) -> Any:
            return sparse.csr_array(
                (self.A.data * columns[self.A.indices], self.A.indices, self.A.indptr), self.A.shape
            )

        thin = some(free & ~self.kept)
        found: Any = sparse.csc_array(thin @ thin.T)
        diagonal = found.diagonal()
        found = found + sparse.diags_array(ridge * np.where(diagonal > 0, diagonal, 1.0))
        if self.kept.any():
            border = some(free)[:, np.flatnonzero(self.kept)]
            corner: Any = -sparse.eye_array(border.shape[1])
            found = sparse.block_array([[found, border], [border.T, corner]])
        return sparse.csc_array(found)

    def factor(self, free: Bools, ridge: float) -> Solve:
        """(A_F A_F' + ridge)^-1, in the order of the rows."""
        from scipy.sparse.linalg import splu

        options, m = {"SymmetricMode": True}, self.b.size
        made = splu(self.normal(free, ridge), permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)
        more = np.zeros(made.shape[0] - m)
        return lambda g: np.asarray(made.solve(np.append(g, more))[:m])

    def scales(self, total: Floats) -> tuple[Floats, Floats]:
        """What rounding errors are relative to: one scale per row, one per variable.

        R_i = |b_i| + sum |A_ij| total_j is what row i adds up; a variable takes the largest R of its rows, a row the largest
        of its variables, because an error in one row moves the variables that it shares with others.
        """
        own = np.abs(self.b) + self._size @ total
        variables = np.full(total.size, FAR * np.max(own))
        np.maximum.at(variables, self.A.indices, np.repeat(own, np.diff(self.A.indptr)))
        return np.maximum.reduceat(variables[self.A.indices], self.A.indptr[:-1]), variables

    def size(self, mu: Floats) -> Floats:
        """|A|' |mu|."""
        return np.asarray(self._size.T @ np.abs(mu))


def _relative(left: Floats, scale: Floats) -> float:
    """The largest |left| / scale, where 0 / 0 is 0."""
    off = left != 0
    if not off.any():
        return 0.0
    return float(np.max(np.abs(left[off]) / scale[off]))


def _refined(e: Equalities, free: Bools, solve: Solve, v: Floats) -> tuple[Floats, Floats]:
    """Moves the free part of v along A_F' until A v = b to rounding; returns v and b - A v.

    v_F stays in y_F + range(A_F'), so that it converges to the projection of y_F onto A_F v_F = b.
    """
    left = e.residual(v)
    before = np.abs(left).max()
    for _ in range(8):
        trial = np.where(free, v + e.combine(solve(left)), 0.0)
        after = e.residual(trial)
        size = np.abs(after).max()
        if not size < before:
            break
        v, left = trial, after
        if size > 0.25 * before:
            break
        before = size
    return v, left


def _along(w: Floats, s: Floats, slope: float, t: float) -> tuple[float, float]:
    """The derivative and the change of phi at mu + t d, where s = A' d and slope = phi'(0) < 0.

    All terms but the first are positive: nothing cancels, however large the counts are.
    """
    step = t * s
    u, was = w - step, w > 0
    stays, leaves, enters = was & (u > 0), was & (u <= 0), ~was & (u > 0)
    derivative = slope + t * np.sum(s[stays] ** 2) + np.sum(s[leaves] * w[leaves]) - np.sum(s[enters] * u[enters])
    change = t * slope + 0.5 * (np.sum(step[stays] ** 2) + np.sum(u[enters] ** 2))
    return float(derivative), float(change + np.sum(w[leaves] * (step[leaves] - 0.5 * w[leaves])))


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


def _newton(e: Equalities, y: Floats, mu: Floats, limit: int) -> tuple[Floats, int]:
    """The minimiser of phi from mu on, and the steps, at most `limit`.

    A full step that stays in one piece ends there. Where A_F A_F' is singular the ridge turns the step into the flat
    directions, and the line search limits it.
    """
    ridge, settled, last, free = RIDGE, False, np.inf, np.zeros(y.size, dtype=bool)
    for step in range(limit):
        w = y - e.combine(mu)
        now = w > 0
        settled, free = settled and bool((now == free).all()), now
        g = e.residual(np.where(free, w, 0.0))
        # how large the gradient is beside the terms of y_F - A_F' mu, which is what rounding lets one see
        error = _relative(g, e.scales(np.where(free, 2 * np.abs(y) + e.size(mu), 0.0))[0])
        if error <= CLOSE or ((settled or error <= NEAR) and error > 0.25 * last):
            return mu, step
        last = error
        d = -e.factor(free, ridge)(g)
        t = _search(w, e.combine(d), float(g @ d))
        mu = mu + t * d
        settled = t == 1.0 and ridge == RIDGE
        if t < SHORT:
            ridge = min(ridge * COARSER, COARSEST)
        elif t >= 1.0:
            ridge = max(ridge / COARSER, RIDGE)
    return mu, limit


def _polished(e: Equalities, y: Floats, mu: Floats, snap: bool) -> tuple[Floats, float]:
    """The v on the free set that mu shows, A v = b to rounding, zeros elsewhere; and its relative residual.

    With `snap`, what rounding cannot tell from zero is zero. Entries that the refinement makes negative join
    the zeros, which happens at ties only. The scale leaves the multipliers out: where they grow without bound
    there is no solution, and the residual must show it.
    """
    v, floor = y - e.combine(mu), np.zeros(y.size)
    free = v > 0

    def scales() -> tuple[Floats, Floats]:
        return e.scales(np.where(free, np.abs(y) + np.abs(v), 0.0))

    if snap:
        floor = ROUND * scales()[1]
        free = np.where(v <= SNAP * np.abs(y), 0.0, v) > floor
    for _ in range(8):
        v, left = _refined(e, free, e.factor(free, RIDGE), np.where(free, v, 0.0))
        now = v > floor
        if (now == free).all():
            return v, _relative(left, scales()[0])
        free = now
    return v, np.inf


def equality(e: Equalities, y: Floats) -> tuple[Floats, float]:
    """(P): the projection of y onto A v = b with every variable free, and its relative residual."""
    with np.errstate(all="ignore"):  # counts too large for floats leave NaN, which no caller hands out
        v, left = _refined(e, np.ones(y.size, dtype=bool), e.whole, y)
        return v, _relative(left, e.scales(np.abs(y) + np.abs(v))[0])


def nonnegative(e: Equalities, y: Floats, limit: int) -> tuple[Floats, Floats, float, float, int]:
    """(P_+): v, mu, the relative errors of A v = b and of v = (y - A' mu)_+, and Newton's steps.

    Newton starts at the multipliers of (P): (P_+) has the same solution at y and at the solution of (P).
    """
    with np.errstate(all="ignore"):
        mu, steps = _newton(e, y, -e.whole(e.residual(y)), limit)
        v, left = _polished(e, y, mu, True)
        if not left <= NEAR:
            trial, after = _polished(e, y, mu, False)
            if after < left:
                v, left = trial, after
        gap = float(np.abs(v - np.maximum(y - e.combine(mu), 0.0)).max())
        return v, mu, left, gap / float(max(np.abs(y).max(), np.abs(v).max())) if gap > 0.0 else 0.0, steps
