"""One family with several cells, totals first: children's cells onto a transportation polytope.

Children c and cells k of one parent, measurements z_ck, variances w_c up to a factor. Given the children's totals T_c (the first
pass) and the parent's cells U_k, with the same sum,

    min sum_ck (v_ck - z_ck)^2 / 2 w_c    over    v >= 0,   sum_k v_ck = T_c,   sum_c v_ck = U_k.

There is such a v, T_c U_k / sum T, so the optimum exists, is unique, and with multipliers alpha_c and beta_k

    v_ck = (z_ck - w_c (alpha_c + beta_k))_+ .

A row or column whose sum is 0 is 0 and is left out; in the rest that v is positive, so that multipliers exist.

Below, rows i and columns j are children and cells or the other way round, the fewer ones being the columns, and the weight of an
entry is p_i q_j. *Rows are eliminated:* for given b each row is one family of `families`, (z_j - p q_j b_j - m q_j)_+ of sum T_i, m = p a,
solved exactly. The dual is then a function of b alone, concave, once differentiable, with gradient and (where it is twice differentiable)
Hessian -S,

    g_j = sum_i v_ij - U_j,      S = sum_i p_i (diag(q 1_i) - (q 1_i)(q 1_i)' / Q_i),   1_i the entries of row i above 0, Q_i = q' 1_i,

a weighted Laplacian of columns that share a row. Newton's step solves (S + ridge) d = g; the ridge falls with |g|, so that
the end is a Newton step on the right set, exact but for rounding. Along d the slope h(t) = g(b + t d)' d falls, piecewise linear, from
h(0) > 0, and a t with h(t) <= h(0)/2 on the near side of the top is taken: 1, or more (parts that share no row), or less. Slopes
and not values are compared, which rounding does not disturb near the optimum. After a shortened step the columns are solved as
families too, one by one for the rows' thresholds as they are, which only ascends as well, and the ridge grows. Where noise is a hundred
times what is to be shared, nearly every row keeps one entry, S says little, and hundreds of steps may be needed; five are usual.

The start is the optimum without v >= 0, closed: with sum_j q_j b_j = 0, m_i = (z_i. - T_i)/sum q and
b_j = ((z_.j - U_j)/q_j - sum_i m_i)/sum p. Where it is not negative it is the answer.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STEPS = 5000  # of Newton's method; five are usual
SEARCH = 60  # shorter or longer steps along one direction
CLOSE = 2e-15  # of the largest number in the family, times its rows and columns: what a column may be off
RIDGE = 1e-3
PAST = 0.01  # of the first slope: how far a step may go beyond the top of its line
FLOOR = 1e-14
P, Q, T, U, M, B, G, D, NEW, Y, TRIAL = range(11)  # the rows of `vec`


@kernel(error_model="numpy")
def _row(z: Floats, p: float, q: Floats, b: Floats, target: float, guess: float, y: Floats) -> Any:
    """m with sum_j (y_j - m q_j)_+ = target, y_j = z_j - p q_j b_j (left in `y`): Newton's steps, as in `families`."""
    total, weight = 0.0, 0.0
    for j in range(z.size):
        y[j] = z[j] - p * q[j] * b[j]
        total += y[j]
        weight += q[j]
    start = (total - target) / weight
    m, before = max(guess, start), -1
    for _ in range(z.size + 3):
        total, weight, count = 0.0, 0.0, 0
        for j in range(z.size):
            if y[j] > m * q[j]:
                total += y[j]
                weight += q[j]
                count += 1
        if count == 0:
            if before >= 0 or m == start:
                break  # a target that is lost in rounding: nothing is above m
            m = start
            continue
        new = (total - target) / weight
        done = count == before or (before >= 0 and new <= m)
        m, before = new, count
        if done:
            break
    return m


@kernel(error_model="numpy")
def _columns(Z: Floats, rows: int, many: int, vec: Floats, b: Floats, out: Floats) -> float:
    """Every row for the multipliers b; out = the sums of the columns less U; returns the largest of these."""
    q, y = vec[Q, :many], vec[Y, :many]
    for j in range(many):
        out[j] = -vec[U, j]
    for i in range(rows):
        m = _row(Z[i * many : (i + 1) * many], vec[P, i], q, b, vec[T, i], vec[M, i], y)
        vec[M, i] = m
        for j in range(many):
            d = y[j] - m * q[j]
            if d > 0.0:
                out[j] += d
    worst = 0.0
    for j in range(many):
        worst = max(worst, abs(out[j]))
    return worst


@kernel(error_model="numpy")
def _hessian(Z: Floats, rows: int, many: int, vec: Floats, ridge: float, S: Floats) -> None:
    """S + ridge (lower half) for the multipliers and thresholds in `vec`."""
    S[: many * many] = 0.0
    weight = 0.0
    for i in range(rows):
        p, m, share = vec[P, i], vec[M, i], 0.0
        weight += p
        for j in range(many):
            z, q = Z[i * many + j], vec[Q, j]
            on = z - p * q * vec[B, j] > m * q
            vec[Y, j] = q if on else 0.0
            share += vec[Y, j]
        if share == 0.0:
            continue
        for j in range(many):
            if vec[Y, j] > 0.0:
                S[j * many + j] += p * vec[Y, j]
                for k in range(j + 1):
                    S[j * many + k] -= p * vec[Y, j] * vec[Y, k] / share
    for j in range(many):
        S[j * many + j] += ridge * weight * vec[Q, j]


@kernel(error_model="numpy")
def _solve(S: Floats, many: int, g: Floats, d: Floats) -> None:
    """d = S^-1 g by Cholesky in place; a pivot that rounding made 0 leaves its entry at 0."""
    for j in range(many):
        for k in range(j + 1):
            left = S[j * many + k]
            for i in range(k):
                left -= S[j * many + i] * S[k * many + i]
            if k < j:
                pivot = S[k * many + k]
                S[j * many + k] = left / pivot if pivot > 0.0 else 0.0
            else:
                S[j * many + j] = np.sqrt(left) if left > 0.0 else 0.0
    for j in range(many):
        left = g[j]
        for i in range(j):
            left -= S[j * many + i] * d[i]
        pivot = S[j * many + j]
        d[j] = left / pivot if pivot > 0.0 else 0.0
    for j in range(many - 1, -1, -1):
        left = d[j]
        for i in range(j + 1, many):
            left -= S[i * many + j] * d[i]
        pivot = S[j * many + j]
        d[j] = left / pivot if pivot > 0.0 else 0.0


@kernel(error_model="numpy")
def _slope(Z: Floats, rows: int, many: int, vec: Floats, t: float, found: Floats) -> float:
    """h(t); the gradient at b + t d is left in NEW, the largest entry of it in `found`."""
    b, g = vec[TRIAL, :many], vec[NEW, :many]
    for j in range(many):
        b[j] = vec[B, j] + t * vec[D, j]
    found[0] = _columns(Z, rows, many, vec, b, g)
    h = 0.0
    for j in range(many):
        h += g[j] * vec[D, j]
    return h


@kernel(error_model="numpy")
def _along(Z: Floats, rows: int, many: int, vec: Floats, first: float, close: float, found: Floats) -> float:
    """The step along d: B and G are moved, its length returned; `found` = the largest entry of the gradient there."""
    t, low, high, h_low, h_high = 1.0, 0.0, np.inf, first, 0.0
    for _ in range(SEARCH):
        h = _slope(Z, rows, many, vec, t, found)
        if found[0] <= close or -PAST * first <= h <= 0.5 * first:
            break
        if h > 0.0:
            low, h_low = t, h
            if high == np.inf:
                t *= 4.0
                continue
        else:
            high, h_high = t, h
        t = low + (high - low) * min(max(h_low / (h_low - h_high), 0.1), 0.9)
    for j in range(many):
        vec[B, j] += t * vec[D, j]
        vec[G, j] = vec[NEW, j]
    return t


@kernel(error_model="numpy")
def _sweep(Z: Floats, rows: int, many: int, vec: Floats, found: Floats) -> None:
    """The best b for the thresholds as they are, column by column: each one is a family like a row."""
    z, b = vec[D, :rows], vec[TRIAL, :rows]
    for i in range(rows):
        b[i] = vec[M, i] / vec[P, i]
    for j in range(many):
        for i in range(rows):
            z[i] = Z[i * many + j]
        q = vec[Q, j]
        vec[B, j] = _row(z, q, vec[P, :rows], b, vec[U, j], -np.inf, vec[Y, :rows]) / q
    found[0] = _columns(Z, rows, many, vec, vec[B, :many], vec[G, :many])


@kernel(error_model="numpy")
def _start(Z: Floats, rows: int, many: int, vec: Floats, found: Floats) -> None:
    """The optimum without v >= 0."""
    all_q, all_p, total = 0.0, 0.0, 0.0
    for j in range(many):
        all_q += vec[Q, j]
        vec[G, j] = -vec[U, j]
    for i in range(rows):
        row = -vec[T, i]
        for j in range(many):
            row += Z[i * many + j]
            vec[G, j] += Z[i * many + j]
        vec[M, i] = row / all_q
        all_p += vec[P, i]
        total += vec[M, i]
    for j in range(many):
        vec[B, j] = (vec[G, j] / vec[Q, j] - total) / all_p
    found[0] = _columns(Z, rows, many, vec, vec[B, :many], vec[G, :many])


@kernel(error_model="numpy")
def _newton(Z: Floats, rows: int, many: int, vec: Floats, S: Floats, scale: float, found: Floats) -> int:
    """The multipliers of the optimum into B and M; returns the steps, `found` = what the worst column is off."""
    close = CLOSE * scale * (rows + many)
    _start(Z, rows, many, vec, found)
    steps, best, ridge = 0, np.inf, RIDGE
    while found[0] > close and steps < STEPS:
        if found[0] >= best and found[0] <= 1e3 * close:  # rounding decides: no step gains
            break
        best = min(best, found[0])
        _hessian(Z, rows, many, vec, ridge * min(1.0, found[0] / scale) + FLOOR, S)
        _solve(S, many, vec[G, :many], vec[D, :many])
        first = 0.0
        for j in range(many):
            first += vec[G, j] * vec[D, j]
        t = _along(Z, rows, many, vec, first, close, found)
        steps += 1
        if t < 1.0 and found[0] > close:
            ridge = min(4.0 * ridge, 1.0)
            _sweep(Z, rows, many, vec, found)
        else:
            ridge = max(0.25 * ridge, RIDGE)
    _columns(Z, rows, many, vec, vec[B, :many], vec[G, :many])
    return steps


@kernel(error_model="numpy")
def transport(
    z: Floats, w: Floats, totals: Floats, cells: Floats, out: Floats, multipliers: Floats, vec: Floats, Z: Floats, S: Floats,
    at: Ints, found: Floats,
) -> int:  # fmt: skip
    """One family: z and out (children x cells), w and totals by child, cells of the parent; returns Newton's steps.

    multipliers = w_c (alpha_c + beta_k), infinite in a row or column that is 0. `found` = what the worst column is off. vec has
    11 rows of max(children, cells) entries, Z an entry each, S the square of the smaller number, `at` their sum.
    """
    n, many = z.shape
    out[:], multipliers[:] = 0.0, np.inf
    found[0] = 0.0
    rows, columns, whole, parts = 0, 0, 0.0, 0.0
    for c in range(n):
        if totals[c] > 0.0:
            at[rows] = c
            rows += 1
            whole += totals[c]
    for k in range(many):
        if cells[k] > 0.0:
            at[n + columns] = k
            columns += 1
            parts += cells[k]
    if rows == 0 or columns == 0:
        return 0
    turned = rows < columns
    scale = whole
    for i in range(rows):
        c = at[i]
        side = (T, P) if not turned else (U, Q)
        vec[side[0], i], vec[side[1], i] = totals[c], w[c]
        for j in range(columns):
            value = z[c, at[n + j]]
            scale = max(scale, abs(value))
            Z[j * rows + i if turned else i * columns + j] = value
    for j in range(columns):
        side = (U, Q) if not turned else (T, P)
        vec[side[0], j], vec[side[1], j] = cells[at[n + j]] * (whole / parts), 1.0
    steps = _newton(Z, columns if turned else rows, rows if turned else columns, vec, S, scale, found)
    for i in range(rows):
        c = at[i]
        for j in range(columns):
            k = at[n + j]
            shift = w[c] * (vec[M, j] + vec[B, i]) if turned else vec[M, i] + w[c] * vec[B, j]
            multipliers[c, k] = shift
            d = z[c, k] - shift
            out[c, k] = d if d > 0.0 else 0.0
    return steps
