"""Programmes exactly: payments w_i f_i(x_i + eta_i), each by itself or shared pro rata.

f is linear between kinks. With H_i = w_i (f_i(x_i + eta_i) - g_i(x_i)) and the true shares P_i = w_i g_i(x_i) / sum_j w_j g_j(x_j), the
integrals of `baseline` hold word for word; only the factor E[e^{-tH}] changes, and on each piece it is an integral of a power times
an exponential (`kernels`). The share of one kink at 0 is the baseline. With noise on the base
too, the factor is averaged over it (`mixed`).

Without sharing a payment stands alone: its mean and its mean square are the factor's at t = 0. A decision is the case f = 1
from the threshold on: bias +-P(wrong), mean squared error P(wrong).
"""

from __future__ import annotations

import numpy as np

from fairpost.engines.base import Part
from fairpost.engines.closed.baseline import ROUNDING, shared
from fairpost.engines.closed.programme.factors import Paid
from fairpost.engines.closed.programme.mixed import Mixed
from fairpost.engines.moments import Floats, Moments, Work
from fairpost.noise import Law
from fairpost.rules.programme import Paying


def alone(paid: Paid | Mixed, due: Floats, decides: bool) -> Moments:
    """Payments that are not shared, compared with what is due to each."""
    finer = paid.refined(1)
    zero, before = (np.clip(one.zero(), 0.0, 1.0) for one in (finer, paid))
    moved_zero = np.abs(zero - before)
    if decides:
        wrong = np.where(due > 0, zero, 1 - zero)
        bias = np.where(due > 0, -zero, 1 - zero)
        error = moved_zero + ROUNDING * wrong + np.finfo(float).eps
        return Moments(bias, error, wrong, zero, mse_error=error, zero_error=error)
    centre = due / paid.w
    (_, mean, variance), (_, coarse, _) = (one.factors(np.zeros(1), centre) for one in (finer, paid))
    mse = variance[0] + mean[0] ** 2
    size = np.sqrt(mse)
    error = np.abs(mean[0] - coarse[0]) + ROUNDING * (size + np.abs(due))
    mse_error = 2 * size * np.abs(mean[0] - coarse[0]) + ROUNDING * mse
    return Moments(mean[0], error, mse, zero, mse_error=mse_error, zero_error=moved_zero + ROUNDING * zero + 1e-15)


def _tied(pi: Paying, law: Law) -> str | None:
    """Why payments have no integral: what ties them to each other, or a noise whose law is not known."""
    programme = pi.programme
    if programme.seats is not None:
        return f"{pi.name}: seats are ranks among all states and have no integral"
    if programme.hold_harmless is not None or programme.minimum is not None:
        what = "hold-harmless" if programme.hold_harmless is not None else "a minimum for groups"
        return f"{pi.name}: {what} ties every payment to all others and has no integral"
    for one in (law, programme.base_noise):
        if one is not None and (not isinstance(one, Law) or one.code is None):
            return f"{pi.name}: programmes have no closed form under {one.name} noise; it can be simulated"
    return None


def payments(pi: Paying, part: Part, law: Law) -> Work | str:
    """Each payment by itself, or shares of their sum."""
    programme, n, noise = pi.programme, part.x.size, pi.programme.base_noise
    if why := _tied(pi, law):
        return why
    assert programme.base is not None
    base, a = programme.base, programme.a(n)
    paid: Paid | Mixed = Paid(part.x, a, pi.kinks, law)
    if isinstance(noise, Law):
        paid = Mixed(part.x, a, base, programme, law, noise)
        if why := paid.refusal:
            return why
    if programme.share == "none":
        decides = programme.entitlement is None
        one = paid.weighted(np.ones(n)) if decides else paid
        return lambda rtol: alone(one, part.truth, decides and not pi.needs_noise)
    g = programme.entitled(part.x, base)
    if not (g > 0).any():
        return f"{pi.name}: no entity is eligible under {programme.name}, so there are no true shares"
    return lambda rtol: shared(paid, g, part.truth, rtol, pi.name, signed=pi.signed)
