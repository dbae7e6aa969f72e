"""The baseline BL_i = a_i (X_i)_+ / sum_j a_j (X_j)_+, exactly.

With Y_j = a_j (X_j)_+, S = sum Y_j and 1/S = int_0^inf e^{-tS} dt, every expectation is one integral over t
of a product over entities. Let M_j(t) = E[e^{-t Y_j}], and let l_j, v_j be mean and variance of Y_j under the
tilt e^{-t Y_j} / M_j. Under the tilt the entities stay independent, so for S > 0

    E[Y_i/S - P_i]         = int   prod M  (l_i - P_i sum l)                                          dt
    E[(Y_i/S - P_i)^2]     = int t prod M ((l_i - P_i sum l)^2 + (1 - P_i)^2 v_i + P_i^2 (sum v - v_i)) dt.

Since P_i sum_j a_j x_j = a_i x_i, the true values drop out of l_i - P_i sum l: only e_i = l_i - a_i x_i enters, which
is of the size of the noise. So a bias of 1e-8 of a share is as accurate as one of 0.1.
When S = 0 (all clipped) the output is a_i / sum a.

Two rules. S concentrated (standard deviation below a tenth of the mean): Gauss-Laguerre in t E[S]; n nodes are
exact for 1/S expanded to degree 2n - 1 about E[S]. Otherwise the double-exponential rule. Either is refined until
two successive ones agree; their difference is the error estimate.

The baseline is a payment with one kink at 0 (`programme`), of which pairs (x, a) that occur often are evaluated once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import Rule, exp_sinh, laguerre
from fairpost.engines.closed.shares import SAFETY, moved, reached
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.noise import Law

SIZES = (3, 5, 8, 12, 18, 27, 40)
"""Gauss-Laguerre rules in the order of refinement."""
STEPS = (0.125, 0.08, 0.05, 0.03, 0.02)
"""Steps of the double-exponential rule in the order of refinement."""
ROUNDING = 1e-12
"""Relative accuracy of chances and of second moments in closed form, measured against mpmath (tests)."""
FACTOR = 1e-12
"""The same of a factor and its tilted mean."""


class Payments(Protocol):
    """Independent payments of n entities, less centres whose shares are the true ones: they drop out of l_i - P_i sum l."""

    @property
    def w(self) -> Floats:
        """Weights."""

    def weighted(self, w: Floats) -> Payments:
        """The same with other weights."""

    def refined(self, attempt: int) -> Payments:
        """The same with the nodes of this attempt."""

    def factors(self, t: Floats, centre: Floats | None) -> tuple[Floats, Floats, Floats]:
        """log E[e^{-tH}], tilted mean and variance of H, nodes by entities; centre None: 0."""

    def zero(self) -> Floats:
        """P(nothing is paid)."""


@dataclass(frozen=True)
class Clipped:
    """Payments w (x + eta)_+ of n entities, by the partial transforms of the noise: for laws whose table would be long."""

    x: Floats
    w: Floats
    law: Law

    def weighted(self, w: Floats) -> Clipped:
        """The same with other weights."""
        return replace(self, w=w)

    def refined(self, attempt: int) -> Clipped:
        """Itself: the factors are closed."""
        return self

    def zero(self) -> Floats:
        """P(x + eta <= 0)."""
        return self.law.cdf(-self.x)

    def factors(self, t: Floats, centre: Floats | None) -> tuple[Floats, Floats, Floats]:
        """See `Payments`; a centre is x itself."""
        s = np.multiply.outer(t, self.w)
        log, mean, variance = _tilts(self.law, self.x, s, centre is not None)
        return log if centre is None else log + s * self.x, mean * self.w, variance * self.w**2


def _tilts(mechanism: Law, x: Floats, s: Floats, centred: bool) -> tuple[Floats, Floats, Floats]:
    """Y = (x + eta)_+ under the tilt e^{-sY}: log E[e^{-sY}], the mean (less x where `centred`), the variance.

    `x` has the shape of the last axis of `s`. Three forms, each where it does not cancel:
    deep (x beyond 60 b or 13 sigma, s not large): clipping is below 1e-26, so the cumulants of the noise serve;
    mild (x > 3 spreads, s not large): the whole line plus what clipping adds, e^{sx} times partial transforms below 0;
    else: partial transforms above 0.
    """
    x, s = np.broadcast_arrays(x, s)
    log, mean, variance = np.empty(s.shape), np.empty(s.shape), np.empty(s.shape)
    depth = np.where(s * mechanism.spread <= 0.5, x / mechanism.spread, 0.0)
    deep = depth > (13.0 if np.isinf(mechanism.strip) else 60.0)
    mild = (depth > 3) & ~deep
    for where, form in ((deep, _whole), (mild, _whole_and_clipped), (~deep & ~mild, _kept)):
        if where.any():
            log[where], mean[where], variance[where] = form(mechanism, x[where], s[where], centred)
    return log, mean, variance


Triple = tuple[Floats, Floats, Floats]


def _whole(mechanism: Law, x: Floats, s: Floats, centred: bool) -> Triple:
    """No clipping: log = K(-s) - s x, mean = x + K'(-s), variance = K''(-s)."""
    log, first, second = mechanism.cumulants(-s)
    return log - s * x, first if centred else first + x, second


def _whole_and_clipped(mechanism: Law, x: Floats, s: Floats, centred: bool) -> Triple:
    """E[(Y - x)^k e^{-s(Y - x)}] as the whole line plus the difference that clipping makes below 0."""
    log, first, second = mechanism.cumulants(-s)
    mass, lift = mechanism.cdf(-x), np.exp(s * x)
    l0, l1, l2 = mechanism.lowers(-x, -s)
    whole = np.exp(log)
    m0 = whole + lift * (mass - l0)
    m1 = (whole * first + lift * (x * (l0 - mass) - l1)) / m0
    m2 = (whole * (second + first**2) + lift * (x * x * (mass - l0) + 2 * x * l1 - l2)) / m0
    return np.log(m0) - s * x, m1 if centred else m1 + x, m2 - m1**2


def _kept(mechanism: Law, x: Floats, s: Floats, centred: bool) -> Triple:
    """E[Y^k e^{-sY}] from the part above 0, with the mass at Y = 0."""
    u0, u1, u2 = mechanism.uppers(-x, -s)
    m0 = mechanism.cdf(-x) + u0
    with np.errstate(divide="ignore"):
        log = np.log(m0)
    m0 = np.maximum(m0, np.finfo(float).tiny)
    mean = u1 / m0
    return log, mean - x if centred else mean, np.maximum(u2 / m0 - mean**2, 0.0)


@dataclass(frozen=True)
class Summed:
    """Bias and mean squared error of each share, and the rounding that the sums of the bias carry."""

    bias: Floats
    mse: Floats
    rounding: Floats


def attempts(ratio: float, *, signed: bool) -> Iterator[tuple[bool, Rule]]:
    """Rules in the order of refinement, for S with standard deviation / mean = ratio; whether they are about the centre.

    Gauss-Laguerre with n nodes misses E[1/S] by about (4 ratio)^{2n}: start where that is small. It is exact for 1/S
    expanded to degree 2n - 1 about E S, so it serves signed payments too; the double-exponential rule needs Y >= 0.
    """
    if ratio < 0.1:
        enough = np.log(1e-9) / (2 * np.log(max(4 * ratio, 1e-3)))
        yield from ((True, laguerre(n)) for n in SIZES if n >= enough - 1)
    if not signed:
        yield from ((False, exp_sinh(step)) for step in STEPS)


def integrate(rule: Rule, log_product: Floats, mean: Floats, variance: Floats, p: Floats, times: Floats) -> Summed:
    """Both integrals from the factors at the nodes t: sum of log M, tilted means and variances (nodes by entities)."""
    t, weight = rule[0], rule[1] * np.exp(log_product)
    gap = mean - np.multiply.outer(mean @ times, p)
    scatter = (1 - p) ** 2 * variance + p**2 * ((variance @ times)[:, None] - variance)
    size = weight @ np.abs(mean) + p * (weight @ (np.abs(mean) @ times))
    return Summed(weight @ gap, (weight * t) @ (gap**2 + scatter), FACTOR * size)


def _nothing(below: Floats, times: Floats) -> tuple[float, Floats]:
    """P(nobody is paid), and P(i is not, somebody else is)."""
    logs = np.log(below)
    every = float(np.sum(times * logs))
    others = np.subtract(every, logs, out=np.full_like(logs, -np.inf), where=below > 0)
    return float(np.exp(every)), below * -np.expm1(others)


def shared(
    paid: Payments, g: Floats, shares: Floats, rtol: float, name: str, *, signed: bool = False, times: Counted | None = None
) -> Moments:  # fmt: skip
    """Payments shared pro rata; g are the true weighted counts f would be at without noise, P their shares; `times` each occurs."""
    many = np.ones(g.size) if times is None else times.astype(np.float64)
    empty, zero = _nothing(np.clip(paid.refined(1).zero(), 0.0, 1.0), many)
    if many.sum() == 1:
        none = np.zeros(1)
        return Moments(none, none, none, none, degenerate=empty, mse_error=none, zero_error=none, kind="bound")
    w = paid.w / paid.w.max()
    unit = paid.weighted(w)
    fallback = w / (w @ many) - shares
    _, m, v = unit.factors(np.zeros(1), None)
    total, deviation = float(m[0] @ many), float(np.sqrt(v[0] @ many))
    if not total > 0:
        return Moments.unknown(g.size, f"{name}: nothing is expected to be paid, so there are no shares to evaluate")
    due = float(np.sum(many * w * g))
    previous: Summed | None = None
    bias = error = np.full(g.size, np.inf)
    for k, (centred, (nodes, weights)) in enumerate(attempts(deviation / total, signed=signed)):
        cancel.check()
        unit = unit.refined(k)
        t = nodes / total
        log, mean, variance = unit.factors(t, g if centred else None)
        product = log @ many - (t * due if centred else 0.0)
        found = integrate((t, weights / total), product, mean, variance, shares, many)
        bias = found.bias + empty * fallback
        if previous is not None:
            error = moved(found.bias, previous.bias, bias) + found.rounding
            if reached(bias, error, shares, rtol):
                mse = found.mse + empty * fallback**2
                spread = SAFETY * moved(found.mse, previous.mse, mse) + ROUNDING * mse
                chance = ROUNDING * zero + np.finfo(float).eps
                stated = {"mse_error": spread, "zero_error": chance}
                return Moments(bias, error, mse, zero, degenerate=empty, nodes=nodes.size, **stated)
        previous = found
    if signed:
        why = "shares of payments that can be negative are known only where their sum hardly fluctuates"
        return Moments.unknown(
            g.size, f"{name}: the sum of payments has standard deviation {deviation / total:.3g} of its mean; {why}"
        )
    return Moments.missed(name, bias, error, rtol)
