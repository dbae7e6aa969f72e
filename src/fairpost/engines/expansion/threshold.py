"""Moments of `pos-threshold` and `simplex-threshold` without simulation: mean field and its first correction.

Entity i outputs v_i = f_i(z_i - r), f_i(u) = a_i f(u / a_i) with the threshold f, z = a X, and r solves
F(r) = sum_j h_j = 0 where h_j = f_j(z_j - r) - z_j (allocation) or f_j(z_j - r) - C/n (release).

Mean field. r is replaced by the root rbar of E[F], and E[v_i] by m_i(rbar) = E[f_i(z_i - rbar)]: closed form.

First correction, of relative size 1/n. Let D = -E[F]'(rbar) = sum_j rate_j, V = sum_j Var[h_j] and h~ = h - E[h].
Given z_i, the root r has mean rbar + nu + h~_i/D and variance V/D^2, up to smaller terms: the other entities move
it, and so does i itself. Hence

    E[v_i] = E[m_i(rbar + N(0, V/D^2))] + nu m_i' - E[f_i' h~_i]/D.

In the last term, the entity's own effect, f' has mass tau at a jump, where h~ is taken half way: inside the jump
the entity gets the remainder, which is uniform between 0 and tau. The unknown nu, common to all, follows from the
exact total: the corrections sum to 0. So the law of r beyond its variance is not needed.

Allocation divides by S = sum z, of mean S_0 = sum a x. With e_i = v_i - P_i S, kappa^2 = Var[S]/S_0^2 and (e_i, S)
nearly normal, S_0 E[1/S] = 1 + kappa^2 + 3 kappa^4 + 15 kappa^6 + ... and

    E[e_i/S] = E[e_i] E[1/S] + Cov(e_i, S)/Var[S] (1 - S_0 E[1/S]),
    Cov(v_i, S) = Cov(f_i, z_i) + m_i' Gamma/D,    Gamma = sum_j Cov(h_j, z_j),

which sums to Var[S] over i, as it must.

The error of a bias. What is left out is smaller than the correction by about the deviation of r, in units of the
noise's, and 1/sqrt(D): the stated error is the sum of the absolute parts of the correction times these, times a margin
that tests against exact results and simulation set. The mean squared error is of leading order: its relative error is of the size 1/n, the
square of those two, and is stated with the same margin.

P(v_i = 0) = P(z_i <= r + a_i tau). At that edge entity i itself moves r by h~_i/D, and it gets nothing there, so that
h~_i = -(z_i + E[h_i]) = -a_i (E[f - u] + tau) (allocation) or -m_i (release). Its error is what a shift of the edge by w would change,
w = margin times small times (deviation of r + what i moves r by), at least LATTICE of a step where the noise is whole: where the edge may
lie on either side of a whole number, P(v_i = 0) is known no better than the mass there. And what the entity of the largest weight can do
alone: its noise has tails that are not those of a normal r.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fairpost.engines.mean_field import shift
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold

MARGIN, LATTICE_MARGIN = 2.0, 6.0
"""The stated error over the size of what is left out; whole-number noise has corners that the expansion smooths."""
LEAST = 16.0
"""The least D, the number of entities that share the shift."""
LARGEST = 0.35
"""The largest deviation of r, in units of the noise's, for which the expansion is used."""
SPREAD = 0.2
"""The largest relative deviation of the weighted sum S for which 1/S is expanded."""
LATTICE = 0.02
"""Of the step between whole numbers: the least uncertainty of an edge."""
ROUNDING = 1e-12
"""The relative accuracy of the partial transforms, with room for the arithmetic here."""


@dataclass(frozen=True)
class _Local:
    """Expectations over an entity's own noise at a fixed shift k, in counts: f is what is kept of u = X - k."""

    gain: Floats
    """E[f - u], so that m(x) - x = gain - k."""
    rate: Floats
    """-dm/dk = E[f']."""
    square: Floats
    """E[(f - u)^2]."""
    noise: Floats
    """E[eta (f - u)]."""
    down: Floats
    """E[f' (f - u)], a jump taken half way."""
    up: Floats
    """E[f' f] - m, a jump taken half way."""

    @property
    def variance(self) -> Floats:
        """Var[f - u]."""
        return np.maximum(self.square - self.gain**2, 0.0)


def _local(x: Floats, k: Floats, rule: Threshold, mechanism: Law) -> _Local:
    """At c = k + tau - x, with L_j = E[(eta - c)^j; eta <= c].

    Below the threshold f - u = -u = -(eta - c) - tau, above it 0. On a ramp (c, c'], c' = c + width, f' = s
    and f - u = (s - 1)(eta - c'); as it narrows into a jump (s - 1) P(ramp) tends to tau p(c).
    """
    tau, s, c = rule.level, rule.steepness, k + rule.level - x
    low = [mechanism.lower(c, 0.0, j) for j in range(3)]
    gain = -(low[1] + tau * low[0])
    square = low[2] + 2 * tau * low[1] + tau**2 * low[0]
    noise = -(low[2] + (c + tau) * low[1] + c * tau * low[0])
    if s == np.inf:
        mass = tau * mechanism.density(c)
        return _Local(gain, 1 - low[0] + mass, square, noise, -tau / 2 * mass, tau / 2 * mass)
    width = rule.width
    end = [mechanism.lower(c + width, 0.0, j) for j in range(3)]
    mass = end[0] - low[0]
    first = end[1] - low[1] + width * low[0]  # E[eta - c'; ramp]
    second = end[2] - low[2] + 2 * width * low[1] - width**2 * low[0]  # E[(eta - c')^2; ramp]
    return _Local(
        gain=gain + (s - 1) * first,
        rate=1 - low[0] + (s - 1) * mass,
        square=square + (s - 1) ** 2 * second,
        noise=noise + (s - 1) * (second + (c + width) * first),
        down=s * (s - 1) * first,
        up=s * (s - 1) * (first + width * mass),
    )


@dataclass(frozen=True)
class _Field:
    """The mean field at its shift, and the fluctuation of r around it; sums run over all entities."""

    local: _Local
    slope: float
    """D."""
    deviation: float
    """The standard deviation sqrt(V)/D of r."""
    bias: Floats
    """E[v_i] - a_i x_i, with the first correction, in units of z."""
    error: Floats
    """Of `bias`."""
    zero: Floats
    """P(v_i = 0)."""
    zero_error: Floats
    second: Floats
    """The relative error of a mean squared error."""


def _field(x: Floats, a: Floats, times: Floats, excess: float, rule: Threshold, mechanism: Law, fixed: bool) -> _Field:
    """Mean field and first correction; `fixed`: the total is a constant (release), not the noisy sum."""
    r = shift(x, a, times, excess, rule, mechanism)
    k = r / a
    local = _local(x, k, rule, mechanism)
    slope = float(np.sum(times * local.rate))
    variance = local.variance + (mechanism.variance + 2 * local.noise if fixed else 0.0)
    deviation = float(np.sqrt(max(float(np.sum(times * a**2 * variance)), 0.0))) / slope
    _trusted(deviation, slope, float(np.sum(times * a * local.rate)) / slope * mechanism.deviation, rule)

    def averaged(reach: float) -> Floats:
        """E[m(k + noise of r)] - m from nodes at +-reach deviations; what is linear in r cancels."""
        nodes = [rule.gain(mechanism, k + sign * reach * deviation / a + rule.level - x) for sign in (1, -1)]
        return np.asarray(a * (nodes[0] + nodes[1] - 2 * local.gain) / (2 * reach**2))

    curved = averaged(np.sqrt(3.0))
    mean = x - k + local.gain
    own = local.up + mean * (1 - local.rate) if fixed else local.down - local.gain * local.rate
    own = -a * own / slope
    common = float(np.sum(times * (curved + own))) / slope
    parts = (curved, own, -common * local.rate)
    small = deviation / (a * mechanism.deviation) + 1 / np.sqrt(slope)
    size = np.sum(np.abs(parts), axis=0)
    margin = LATTICE_MARGIN if mechanism.discrete else MARGIN
    error = margin * small * size + np.abs(curved - averaged(1.0))
    error += float(np.sum(times * error)) / slope * local.rate  # the common part follows from the total, errors and all
    error += ROUNDING * a * (np.abs(local.gain) + np.abs(k))
    bias = a * (local.gain - k) + np.sum(parts, axis=0)
    moved = common - a * (mean if fixed else local.gain + rule.level) / slope
    cut = (r + moved) / a + rule.level - x
    zero = _nothing(cut, deviation / a, mechanism)
    wide = margin * small * (deviation + np.abs(moved)) / a
    wide = np.maximum(wide, LATTICE) if mechanism.discrete else wide
    known = _nothing(cut + wide, deviation / a, mechanism) - _nothing(cut - wide, deviation / a, mechanism)
    known = known + _one_other(cut, float(np.max(a)) * mechanism.spread / (slope * a), mechanism)
    return _Field(local, slope, deviation, bias, error, zero, np.minimum(known + 1e-12, 1.0), margin * small**2)


def _nothing(c: Floats, deviation: Floats, mechanism: Law) -> Floats:
    """P(eta <= c) averaged over the fluctuation of r, which moves c past whole numbers; 33 quantiles of the normal."""
    nodes = [NormalDist().inv_cdf((k + 0.5) / 33) for k in range(33)]
    return np.asarray(np.mean([mechanism.cdf(c + node * deviation) for node in nodes], axis=0))


def _one_other(c: Floats, scale: Floats, mechanism: Law) -> Floats:
    """Twice what the entity of the largest weight alone can change, whose noise moves r by up to its own scale over D, with its own tails."""
    nodes, weights = np.polynomial.laguerre.laggauss(16)
    pairs = zip(nodes, weights, strict=True)
    spread = sum(w * (mechanism.cdf(c + u * scale) + mechanism.cdf(c - u * scale)) for u, w in pairs) / 2
    return np.asarray(2 * np.abs(spread - mechanism.cdf(c)))


def _trusted(deviation: float, slope: float, scale: float, rule: Threshold) -> None:
    ratio = deviation / scale if scale > 0 else float("inf")  # noise next to none has the deviation 0.0
    if slope < LEAST or not ratio <= LARGEST:
        raise ToleranceError(
            f"threshold {rule.level:g}: the expansion needs {LEAST:g} entities that share the shift, got {slope:.3g}, "
            f"and a shift within {LARGEST:g} noise deviations, got {ratio:.2g}"
        )


def simplex_threshold(x: Floats, times: Counted, mechanism: Law, total: float, rule: Threshold) -> Moments:
    """Moments of `simplex-threshold` for the distinct counts x, each `times` often, in counts."""
    if total == 0:
        nothing = np.zeros_like(x)
        return Moments(-x, nothing, x**2, np.ones_like(x))
    many = times.astype(np.float64)
    one = np.ones_like(x)
    field = _field(x, one, many, total - float(np.dot(many, x)), rule, mechanism, fixed=True)
    local = field.local
    alone = mechanism.variance + 2 * local.noise + local.variance
    variance = alone * (1 - 2 * local.rate / field.slope) + (field.deviation * local.rate) ** 2
    mse = np.maximum(variance, 0.0) + field.bias**2
    known = field.second * (alone + field.bias**2) + 2 * np.abs(field.bias) * field.error
    return Moments(field.bias, field.error, mse, field.zero, mse_error=known, zero_error=field.zero_error)


def pos_threshold(x: Floats, a: Floats, times: Counted, shares: Floats, mechanism: Law, rule: Threshold) -> Moments:
    """Moments of `pos-threshold` for the distinct pairs (x, a), each `times` often, in shares of 1."""
    many = times.astype(np.float64)
    whole = float(np.sum(many * a * x))
    spread = float(np.sqrt(np.sum(many * a**2) * mechanism.variance))
    if spread > SPREAD * whole:
        raise ToleranceError(
            f"pos-threshold: the weighted sum fluctuates by {spread:.3g} around {whole:.3g}, above the "
            f"part {SPREAD:g} up to which 1/S is expanded"
        )
    field = _field(x, a, many, 0.0, rule, mechanism, fixed=False)
    local, v2 = field.local, spread**2
    drift = float(np.sum(many * a**2 * local.noise)) / field.slope  # Cov(r, S)
    with_sum = a**2 * (mechanism.variance + local.noise) - local.rate * drift - shares * v2
    square = (spread / whole) ** 2
    series = square * (1 + square * (3 + 15 * square))
    bias = field.bias / whole * (1 + series) - with_sum / v2 * series
    left = 105 * square**4 + square / many.sum()
    error = field.error / whole + left * (np.abs(field.bias) / whole + np.abs(with_sum) / v2)
    error += 4e-16 * shares
    own = mechanism.variance + 2 * local.noise + local.variance
    cross = -2 * shares * (a**2 * (mechanism.variance + local.noise) - local.rate * drift)
    mse = (a**2 * own + (field.deviation * local.rate) ** 2 + field.bias**2 + cross + shares**2 * v2) / whole**2
    squares = (a**2 * own + field.bias**2 + shares**2 * v2) / whole**2
    known = np.minimum((field.second + 8 * square) * squares + 2 * np.abs(bias) * error, 1.0)
    return Moments(bias, error, np.maximum(mse, 0.0), field.zero, mse_error=known, zero_error=field.zero_error)
