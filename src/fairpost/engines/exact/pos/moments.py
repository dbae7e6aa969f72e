"""PoS, the projection of a_i X_i / sum a_j X_j onto the probability simplex, exactly.

The projection. With z_j = a_j X_j and S = sum z_j > 0 it is PoS_i = (z_i - r)_+ / S, where r >= 0 solves

    sum_j min(z_j, r) = 0,   that is   W(r) = sum_j (r - z_j)_+ = n r,   and then   S = sum_j (z_j - r)_+.

At r = 0 there is an atom, the event that nothing is clipped. For S < 0 all this holds for -z.

The expectation. The left side rises in r with the slope K = #{j : z_j > r}. By the change of variables
for a root of a monotone function, with delta(u) = (1/2 pi i) int e^{su} ds along a vertical line and
1/S = int_0^inf e^{-tS} dt,

    E[f / S] = int dr int dt (1/2 pi i) int ds e^{snr} E[f K prod_j e^{-s (r - z_j)_+ - t (z_j - r)_+}].

This is the integral of a product over entities, with the factors psi_j = D_j(s) + U_j(t):

    D_j(s) = E[e^{-s(r - z_j)}; z_j < r],    U_j(t) = E[e^{-t(z_j - r)}; z_j > r],    K -> sum_k U_k/psi_k.

For f = f_i(z_i) the integrand is prod psi times (F_i/psi_i)(K - U_i/psi_i) + F_i^above/psi_i.

The contour. The line in s goes through the saddle point of the integrand and then turns left, where e^{snr}
decays: the trapezoidal rule along it converges geometrically whether thousands are clipped (a bell) or one in
a million (an exponential). So one method serves dense and rare clipping.

What remains are six ways of taking 1/S and the sign of S:

    one         one entity alone may be clipped: a sum over its own law
    lattice     whole-number noise: equal weights and many entities that may be clipped (`lattice.shares`), or n = 2 (`lattice.two`)
    separated   P(S <= 0) is negligible (Chernoff): biases of any size to full relative accuracy; few nodes t
    pair        n = 2: integrals of one dimension
    sets        few Gaussian values, either sign of S: a sum over who is clipped
    general     the rest: both signs of S, all nodes t; and where that fails, the lines of `pos-threshold` without a threshold
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpost.engines.closed.shares import otherwise, symmetric
from fairpost.engines.evaluation import Asked, Distinct, Work
from fairpost.engines.exact.lattice import shares as lattice
from fairpost.engines.exact.lattice import signed
from fairpost.engines.exact.lattice.listed import Listing, listed, listing
from fairpost.engines.exact.lattice.two import two
from fairpost.engines.exact.pos import sets
from fairpost.engines.exact.pos.general import general
from fairpost.engines.exact.pos.one import one
from fairpost.engines.exact.pos.pair import pair
from fairpost.engines.exact.pos.problem import Problem, chance_negative
from fairpost.engines.exact.pos.separated import separated
from fairpost.engines.exact.pos.uncut import uncut
from fairpost.engines.exact.registry import EXACT, continuous
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law, Threshold
from fairpost.rules import PoS, PosThreshold

FEW = 6
"""So many entities are listed before a lattice is tried."""


def pos(x: Floats, a: Floats, times: Counted, shares: Floats, mechanism: Law, rtol: float = 1e-6) -> Moments:
    """Moments of PoS for the distinct pairs (x, a) with multiplicities `times` and true shares P; in shares of 1.

    Raises ToleranceError where the error of alpha = max bias - min bias
    stays above rtol * alpha or a rule would take too long.
    """
    problem = Problem.build(x, a, times, shares, mechanism)
    if problem.n == 1:
        none = np.zeros(1)
        return Moments(none, none, none, none, degenerate=float(mechanism.cdf(-x)[0]), mse_error=none, zero_error=none)
    found = one(problem, Threshold(0.0), rtol)
    if found is not None:
        return found
    found = separated(problem, rtol)
    if found is not None:
        return symmetric(replace(found, degenerate=chance_negative(problem)))
    if problem.n == 2:
        return pair(problem, rtol)
    try:
        return symmetric(sets.shares(problem, rtol) if sets.served(problem) else general(problem, rtol))
    except ToleranceError as error:
        if not problem.alike:
            raise
        from fairpost.engines.exact.threshold import lines

        return otherwise(error, lambda: lines.shares(problem, 0.0, rtol))


@EXACT.register(PoS)
def _pos(pi: PoS, asked: Asked) -> Work:
    d, law = asked.distinct(pi.problem.a(asked.x.size)), asked.law()
    if law.discrete and asked.x.size > 1:
        return whole_shares(pi, asked, d, Threshold(0.0), smooth=True)
    return d.entities(lambda: pos(d.x, d.a, d.times, d.truth, law, asked.rtol))


def whole_shares(pi: PoS | PosThreshold, asked: Asked, d: Distinct, rule: Threshold, *, smooth: bool) -> Work:
    """Whole-number noise: nobody is dropped, or one entity alone; many entities on one lattice; few noises; or no integral."""
    law = asked.law()
    with np.errstate(all="ignore"):
        problem = Problem.build(d.x, d.a, d.times, d.truth, law)
        found = uncut(problem, rule.level + rule.width, asked.rtol) or one(problem, rule, asked.rtol)
    if found is not None:
        return lambda: found.at(d.inverse)
    plan = listing(d, asked.x.size, law, asked.rtol)
    whole = rule.level == np.floor(rule.level) and rule.for_whole_numbers and lattice.on_a_lattice(problem)
    ways: list[Work] = []
    if whole:
        ways.append(d.entities(lambda: _on_a_lattice(problem, rule.level, asked.rtol)))
    if plan is not None:
        few = plan.ball is None or asked.x.size <= FEW
        ways.insert(0 if few else len(ways), lambda: _listed(pi, asked, d, plan, smooth))
    if problem.n == 2 and smooth and (asked.x == np.floor(asked.x)).all():
        ways.insert(0, d.entities(lambda: two(problem, asked.rtol)))
    if not ways:
        continuous(pi.name, law)
    return ways[0] if len(ways) == 1 else lambda: _in_turn(*ways)


def _in_turn(first: Work, *more: Work) -> Moments:
    try:
        return first()
    except ToleranceError as error:
        return otherwise(error, *more)


def _listed(pi: PoS | PosThreshold, asked: Asked, d: Distinct, plan: Listing, smooth: bool) -> Moments:
    law, a = asked.law(), pi.problem.a(asked.x.size)
    found = listed(pi, plan, d, asked.x, asked.truth, a, law, asked.rtol, smooth)
    if found is None:
        raise ToleranceError(f"{pi.name}: more {law.name} noises matter than can be listed")
    return found if d.x.size > 1 else replace(found, bias=0 * found.bias, error=0 * found.error)


def _on_a_lattice(problem: Problem, level: float, rtol: float) -> Moments:
    """Equal weights and whole counts: by exponentials for 1/S, or by a sum over S itself."""
    if level > 0:
        return signed.shares(problem, level, rtol)
    try:
        return lattice.shares(problem, rtol)
    except ToleranceError as error:
        return otherwise(error, lambda: signed.shares(problem, 0.0, rtol))
