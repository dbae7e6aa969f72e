"""Own simulation, each entity's own noise integrated by a sample of the part of it that matters.

z = a (x + eta), phi what a rule keeps: u_+, a ramp min(u, s (u - tau_i)_+), or a jump, which here is a ramp of steepness 1e6.
r solves sum phi_j(z_j - r) = C for a release, = S = sum z for shares. With g_i = phi_i(z_i - r) - (z_i - r), 0 where i is kept in
full, outputs are z_i - r + g_i and sum to C or S, so that r = (sum z - C + sum g) / n or r = sum g / n:

    release   B_i = (C - sum x)/n + E g_i - mean_j E g_j
    shares    B_i = E[z_i / S] - P_i + E[g_i / S] - mean_j E[g_j / S]       (S > 0)

So, given the others, i is not kept in full only below one crossing c_i of its own z_i, and E[g_i | others] is P(z_i < c_i) times
the mean over own noise below c_i, of which Q stratified points are taken. With D = S / E S - 1 and N_i = (z_i - P_i S) / E S, a sum of
independent symmetric noises, E[N_i / (1 + D)] = -E[N_i D] - E[N_i D^3] - E[N_i D^5 / (1 + D)]: the first two are known, the last is
simulated.

Where all others are kept in full g_i is (c - z_i)_+ with c linear in their noise, and its mean is that of clipping alone: for
`simplex` it is taken away, with its known mean put in its place, where that makes the scrambles agree better.

Points are scrambled Sobol points (Latin hypercubes above 1,000 entities), each with its mirror image; errors come from independent scrambles.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from scipy.stats import qmc

from support.laws import Law
from support.oracles import Found
from support.oracles.closed import shifted
from support.rules import SHARES, truth_of

STEEP = 1e6
SIGMAS = 6.0
"""Standard errors of 32 scrambles that a value is said to be known to: once in some 1e6 numbers beyond."""
SQRT2 = math.sqrt(2.0)


@numba.njit(cache=True)
def _phi(u, tau, s):
    if u <= tau:
        return 0.0
    if s == 0.0:  # no threshold
        return u
    return min(u, s * (u - tau))


@numba.njit(cache=True)
def _below(kind, b, low, cum, c):
    """P(eta <= c)."""
    if kind == 0:
        return 0.5 * math.exp(c / b) if c < 0 else 1.0 - 0.5 * math.exp(-c / b)
    if kind == 1:
        return 0.5 * math.erfc(-c / (b * SQRT2))
    k = int(math.floor(c + 1e-9) - low)
    return 0.0 if k < 0 else cum[min(k, cum.size - 1)]


@numba.njit(cache=True)
def _short(kind, b, low, cum, ones, c):
    """E (c - eta)_+."""
    if kind == 0:
        return 0.5 * b * math.exp(c / b) if c < 0 else c + 0.5 * b * math.exp(-c / b)
    if kind == 1:
        t = c / b
        if t > -25:
            p = 0.5 * math.erfc(-t / SQRT2)
            d = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
            return b * (t * p + d) if t > -4 else b * d * _small(-t)
        return 0.0
    k = int(math.floor(c + 1e-9) - low)
    if k < 0:
        return 0.0
    k = min(k, cum.size - 1)
    return ones[k] + (c - low - k) * cum[k]


@numba.njit(cache=True)
def _square(kind, b, low, cum, ones, c):
    """E (c - eta)_+^2, to a part of 1e-12 of b^2."""
    if kind == 0:
        return b * b * math.exp(c / b) if c < 0 else c * c + 2 * b * b - b * b * math.exp(-c / b)
    if kind == 1:
        t = c / b
        p, d = 0.5 * math.erfc(-t / SQRT2), math.exp(-min(t * t, 1400.0) / 2) / math.sqrt(2 * math.pi)
        return max(b * b * ((1 + t * t) * p + t * d), 0.0)
    k = int(math.floor(c + 1e-9) - low)
    k = min(max(k, 0), cum.size - 1)
    whole = 0.0  # sum over j < k of (2 (k - j) - 1) P(eta <= j) = sum over j <= k of 2 E(j - eta)_+, less E(k - eta)_+
    for j in range(k, 0, -1):
        whole += 2 * ones[j]
        if ones[j] < 1e-13 * b:
            break
    u = c - low - k
    return whole - ones[k] + 2 * u * ones[k] + u * u * cum[k]


@numba.njit(cache=True)
def _small(t):
    """1 - t m(t), m Mills' ratio by its continued fraction from far below: m = 1/(t + 1/(t + 2/(t + ...))), so 1 - t m = m r."""
    r = 0.0
    for k in range(60, 1, -1):
        r = k / (t + r)
    r = 1.0 / (t + r)
    return r / (t + r)


@numba.njit(cache=True)
def _normal_quantile(u):
    """Acklam's approximation with one step of Halley's rule; u in (0, 1), relative accuracy in the lower tail."""
    if u > 0.5:
        return -_normal_quantile(1.0 - u)
    if u < 0.02425:
        q = math.sqrt(-2 * math.log(u))
        x = (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e00) * q - 2.549732539343734e00) * q
              + 4.374664141464968e00) * q + 2.938163982698783e00) / ((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q
              + 2.445134137142996e00) * q + 3.754408661907416e00) * q + 1)  # fmt: skip
    else:
        q = u - 0.5
        r = q * q
        x = (((((-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02) * r + 1.383577518672690e02) * r
              - 3.066479806614716e01) * r + 2.506628277459239e00) * q / (((((-5.447609879822406e01 * r + 1.615858368580409e02) * r
              - 1.556989798598866e02) * r + 6.680131188771972e01) * r - 1.328068155288572e01) * r + 1)  # fmt: skip
    d = 0.5 * math.erfc(-x / SQRT2)
    if d > 0.0:
        e = (d / u - 1.0) * u * math.sqrt(2 * math.pi) * math.exp(min(x * x / 2, 700.0))
        x -= e / (1 + x * e / 2)
    return x


@numba.njit(cache=True)
def _quantile(kind, b, low, cum, u):
    if kind == 0:
        return b * math.log(2 * u) if u < 0.5 else -b * math.log(2 * (1 - u))
    if kind == 1:
        return b * _normal_quantile(u)
    return low + min(np.searchsorted(cum, u), cum.size - 1)


@numba.njit(cache=True)
def _tops(tau, s):
    return 0.0 if s == 0.0 else s * tau / (s - 1.0)


@numba.njit(cache=True)
def _value(r, h, zi, tau, s, own, keeps, lam, T):
    """H(r) without i, and with its own value where `keeps`, less lam r + T."""
    v = h - _phi(zi - r, tau, s) - lam * r - T
    return v + _phi(own - r, tau, s) if keeps else v


@numba.njit(cache=True)
def _at(k, r, count, total, on, foot, s):
    """H(r) between event k - 1 and event k."""
    h = total[k] - count[k] * r
    return h + s * (foot[k] - on[k] * r) if s > 0 else h


@numba.njit(cache=True)
def _root(E, count, total, on, foot, s, zi, tau, own, keeps, lam, T):
    """r with H(r) - phi_i(z_i - r) [+ phi_i(own - r)] = lam r + T; events E fall; NaN where there is none."""
    m = E.size
    lo, hi = 0, m  # the first event where the value is at least 0
    while lo < hi:
        mid = (lo + hi) // 2
        r = E[mid]
        if _value(r, _at(mid, r, count, total, on, foot, s), zi, tau, s, own, keeps, lam, T) >= 0:
            hi = mid
        else:
            lo = mid + 1
    k = lo
    top = _tops(tau, s)
    if k == 0:
        right = E[0] + 1.0
        while _value(right, 0.0, zi, tau, s, own, keeps, lam, T) > 0:
            right = right + 2 * (right - E[0])
            if right - E[0] > 1e18:
                return np.nan
        left = E[0]
    elif k == m:
        right = E[m - 1]
        left = min(right, own - top if keeps else right)
        v = _value(left, _at(m, left, count, total, on, foot, s), zi, tau, s, own, keeps, lam, T)
        left -= abs(v) + 1.0
    else:
        left, right = E[k], E[k - 1]
    vl = _value(left, _at(k, left, count, total, on, foot, s), zi, tau, s, own, keeps, lam, T)
    vr = _value(right, _at(k, right, count, total, on, foot, s), zi, tau, s, own, keeps, lam, T)
    if keeps:
        for corner in (own - tau, own - top):
            if left < corner < right:
                v = _value(corner, _at(k, corner, count, total, on, foot, s), zi, tau, s, own, keeps, lam, T)
                if v >= 0:
                    left, vl = corner, v
                else:
                    right, vr = corner, v
    if vl <= vr:
        return left
    return left + (right - left) * vl / (vl - vr)


@numba.njit(cache=True)
def points(U, x, a, level, s, shares, C, kind, b, low, cum, ones, Q, many, truth, bias, zero, square, extra):
    """Sums over points: of g_i (over S), of P(out_i = 0), of squared errors, and of what is left of z_i / S; T."""
    m, n = U.shape
    eta, z = np.empty(n), np.empty(n)
    size = 2 * n if s > 0 else n
    E, kinds = np.empty(size), np.empty(size, dtype=np.int64)
    count, total, on, foot = np.empty(size + 1), np.empty(size + 1), np.empty(size + 1), np.empty(size + 1)
    whole = np.sum(a * x)
    for p in range(m):
        for i in range(n):
            eta[i] = _quantile(kind, b, low, cum, U[p, i])
            z[i] = a[i] * (x[i] + eta[i])
        S = np.sum(z)
        for i in range(n):
            tau = a[i] * level
            E[i], kinds[i] = z[i] - tau, i
            if s > 0:
                E[n + i], kinds[n + i] = z[i] - _tops(tau, s), n + i
        order = np.argsort(-E)
        E[:] = E[order]
        count[0], total[0], on[0], foot[0] = 0.0, 0.0, 0.0, 0.0
        for k in range(size):
            e = kinds[order[k]]
            count[k + 1], total[k + 1], on[k + 1], foot[k + 1] = count[k], total[k], on[k], foot[k]
            i = e % n
            if s > 0 and e < n:
                on[k + 1] += 1
                foot[k + 1] += z[i] - a[i] * level
            else:
                count[k + 1] += 1
                total[k + 1] += z[i]
                if s > 0:
                    on[k + 1] -= 1
                    foot[k + 1] = 0.0 if on[k + 1] == 0 else foot[k + 1] - (z[i] - a[i] * level)
        # the point itself
        r = _root(E, count, total, on, foot, s, z[0], a[0] * level, z[0], True, 0.0, S if shares else C)
        for i in range(n):
            out = _phi(z[i] - r, a[i] * level, s)
            square[i] += (out / S if shares else out - x[i]) ** 2 if not shares else (out / S - truth[i]) ** 2
        extra[0] += r - (S - C) / n
        if shares:
            D = max(S / whole - 1, -0.999)
            for i in range(n):
                bias[1, i] -= (z[i] - truth[i] * S) / whole * D**5 / (1 + D)
        for i in range(n):
            tau = a[i] * level
            top = _tops(tau, s)
            rest = S - z[i]
            if not shares and level == 0:  # all others in full
                bias[1, i] += _short(kind, b, low, cum, ones, (rest - C) / (n - 1) - x[i])
            # the crossing below which i is not kept in full, and the one below which it has nothing
            lam = 1.0 if shares else 0.0
            full = rest if shares else C - top
            c = np.inf
            if shares or full > 0:
                c = _root(E, count, total, on, foot, s, z[i], tau, 0.0, False, lam, full) + top
                if np.isnan(c):
                    c = np.inf
            P = 1.0 if c == np.inf else _below(kind, b, low, cum, c / a[i] - x[i])
            if P < 1e-280:
                continue
            none = _root(E, count, total, on, foot, s, z[i], tau, 0.0, False, lam, rest + tau if shares else C) + tau
            gone = _below(kind, b, low, cum, none / a[i] - x[i] + 1e-9 * (kind > 1))
            zero[i] += gone
            first = 0.0
            if not shares:  # without i, r does not depend on its noise: g_i = r - z_i in closed form, none = r + tau
                bias[0, i] += _short(kind, b, low, cum, ones, none - x[i]) - tau * gone
                first = gone
                if level == 0:
                    continue
            elif many:
                # H(r) = S falls B times as fast as z_i: g_i = (1 + 1/B) (none - z_i) - tau, and S = S0 - (none - z_i) hardly moves
                lo, hi = 0, E.size
                while lo < hi:
                    mid = (lo + hi) // 2
                    if E[mid] >= none - tau:
                        lo = mid + 1
                    else:
                        hi = mid
                B = count[lo] + s * on[lo]
                S0 = rest + none
                one = a[i] * _short(kind, b, low, cum, ones, none / a[i] - x[i])
                two = a[i] ** 2 * _square(kind, b, low, cum, ones, none / a[i] - x[i])
                bias[0, i] += ((1 + 1 / B) * (one + two / S0) - tau * (gone + one / S0)) / S0
                first = gone
                if level == 0:
                    continue
            P -= first
            if 1e-16 * first >= P:
                continue
            for q in range(Q):
                u = U[p, i] + q / Q
                u = first + min(max(u - math.floor(u), 1e-13), 1 - 1e-13) * P
                own = a[i] * (x[i] + _quantile(kind, b, low, cum, max(u, 1e-290)))
                target = rest + own if shares else C
                if shares and target <= 0:  # once in 1e13
                    continue
                r = _root(E, count, total, on, foot, s, z[i], tau, own, True, 0.0, target)
                g = _phi(own - r, tau, s) - (own - r)
                bias[0, i] += P / Q * (g / target if shares else g)


def simulated(
    rule: str, x, a, law: Law, total: float, threshold, seed: int, work: float = 3e6, scrambles: int = 32
) -> Found:
    """simplex, pos and their thresholds; shares where S > 0 is sure. `work`: entities times points."""
    n, shares = x.size, rule in SHARES
    level, s = (0.0, 0.0) if threshold is None else (threshold[0], min(threshold[1], STEEP))
    if level == 0:
        s = 0.0
    truth = truth_of(rule, x, a)
    kind = {"laplace": 0, "gaussian": 1}.get(law.kind, 2)
    low, cum = (law.table[0][0], law.below) if law.discrete else (0.0, np.zeros(1))
    ones = np.concatenate([[0.0], np.cumsum(cum)[:-1]])  # E (k - eta)_+ on the table
    many = max(2.0, work / n / scrambles / 2)
    # where hundreds share the shift and S is thousands of times the noise, what the closed form of shares leaves out is below 1e-5 of g_i
    thick = shares and n >= 250 and float(np.sum(a * x)) > 3e3 * float(a.max()) * law.scale
    Q = 4 if n <= 200 else 2 if n <= 2000 else 1
    rng = np.random.Generator(np.random.PCG64([seed, n]))
    biases, zeros, squares, lifts = [], [], [], []
    for _ in range(scrambles):
        if n <= 1000:
            half = 2 ** max(3, round(math.log2(many)))
            U = qmc.Sobol(n, scramble=True, rng=rng).random(half)
        else:
            half = max(2, int(many))
            U = (np.argsort(rng.random((half, n)), axis=0) + rng.random((half, n))) / half
        U = np.clip(np.concatenate([U, 1 - U]), 1e-15, 1 - 1e-15)
        parts, zero, square, extra = np.zeros((2, n)), np.zeros(n), np.zeros(n), np.zeros(1)
        points(
            U,
            x,
            a,
            level,
            s,
            shares,
            float(total),
            kind,
            law.scale,
            low,
            cum,
            ones,
            Q,
            thick,
            truth,
            parts,
            zero,
            square,
            extra,
        )
        biases.append(parts / len(U))
        zeros.append(zero / len(U))
        squares.append(square / len(U))
        lifts.append(extra[0] / len(U))
    _, back, times = np.unique(np.stack([x, a], axis=1), axis=0, return_inverse=True, return_counts=True)
    back = back.ravel()

    def pooled(rows):
        """Equal entities have equal moments: their mean."""
        sums = np.zeros((len(rows), times.size))
        np.add.at(sums, (slice(None), back), rows)
        return (sums / times)[:, back]

    drawn, root = np.array(biases), math.sqrt(scrambles)
    drawn[:, 0], drawn[:, 1] = pooled(drawn[:, 0]), pooled(drawn[:, 1])
    g = drawn[:, 0]
    if not shares and level == 0:  # with all others in full g_i is n / (n - 1) times what clipping alone lifts
        lifted = n / (n - 1) * shifted("sum-clipped", x, law, total).bias - (total - x.sum()) / (n - 1)
        less = g - drawn[:, 1] + lifted
        g = np.where(less.std(axis=0) < g.std(axis=0), less, g)
    B = g - g.mean(axis=1, keepdims=True) + (drawn[:, 1] if shares else 0.0)
    if shares:
        whole, v, m4 = float(np.sum(a * x)), law.variance, law.moments[1]
        d = a / whole  # D = sum d eta, N_i = sum (a_i delta_ij - P_i a_j) eta_j / whole
        dv, d4 = v * float(d @ d), float(np.sum(d**4))
        ND = v * d**2 - truth * dv
        # E[N D^3] = 3 E[N D] E[D^2] + (m4 - 3 v^2) sum c d^3
        N3 = 3 * ND * dv + (m4 - 3 * v**2) * (d**4 - truth * d4)
        known = -ND - N3
    else:
        known = np.full(n, (total - x.sum()) / n)
    bias = known + B.mean(axis=0)
    error = SIGMAS * B.std(axis=0, ddof=1) / root + 1e-14 * (np.abs(truth).max() if not shares else 1e-3 * truth.max())
    i, j = int(np.argmax(bias)), int(np.argmin(bias))
    apart = SIGMAS * float((B[:, i] - B[:, j]).std(ddof=1)) / root
    sq, ze = pooled(np.array(squares)), pooled(np.array(zeros))
    steep = 2e-6 * law.scale * (1 / float(np.sum(a * x)) * a.max() if shares else 1.0) if s == STEEP else 0.0
    steep += 1e-5 * float(np.ptp(bias)) if thick else 0.0
    # whole numbers tie now and then: P(0) may hold an event that no point has met
    unseen = 10 / (scrambles * len(U)) if law.discrete else 0.0
    found = Found(
        bias, error + steep, "own simulation, own noise conditioned on", sq.mean(axis=0), SIGMAS * float((sq.std(axis=0, ddof=1) / root).max()),
        ze.mean(axis=0), SIGMAS * float((ze.std(axis=0, ddof=1) / root).max()) + (1e-5 if s == STEEP else 1e-12) + unseen, apart=apart + steep,
    )  # fmt: skip
    if rule == "simplex":
        found.T, found.T_error = float(np.mean(lifts)), SIGMAS * float(np.std(lifts, ddof=1)) / root
    return found


def either_sign(
    rule: str, x, a, law: Law, total: float, threshold, seed: int, work: float = 4e7, scrambles: int = 32
) -> Found:
    """Any rule, a sum of either sign included: plain means over scrambled points and their mirror images."""
    from support.rules import outputs

    n = x.size
    truth = truth_of(rule, x, a)
    rng = np.random.Generator(np.random.PCG64([seed, n, 7]))
    half = 2 ** max(4, round(math.log2(work / n / scrambles / 2)))
    found = []
    for _ in range(scrambles):
        sums, done = np.zeros((3, n)), 0
        source = qmc.Sobol(n, scramble=True, rng=rng)
        while done < half:
            step = min(half - done, 2**15)
            U = np.clip(source.random(step), 1e-15, 1 - 1e-15)
            for u in (U, 1 - U):
                out = outputs(rule, x + law.quantile(u), a, total, threshold)
                sums += np.stack(
                    [(out - truth).sum(axis=0), ((out - truth) ** 2).sum(axis=0), (np.abs(out) <= 1e-12).sum(axis=0)]
                )
            done += step
        found.append(sums / (2 * half))
    every = np.array(found)
    mean, error = every.mean(axis=0), SIGMAS * every.std(axis=0, ddof=1) / math.sqrt(scrambles)
    i, j = int(np.argmax(mean[0])), int(np.argmin(mean[0]))
    apart = SIGMAS * float((every[:, 0, i] - every[:, 0, j]).std(ddof=1)) / math.sqrt(scrambles)
    return Found(
        mean[0],
        error[0],
        "own simulation",
        mean[1],
        float(error[1].max()),
        mean[2],
        float(error[2].max()) + 1e-9,
        apart=apart,
    )
