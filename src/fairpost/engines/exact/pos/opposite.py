"""PoS where S < 0 under Laplace noise, for few entities of any weights: a sum over who is kept and one integral for all.

Mirrored, the values are z_j = -g_j + beta_j L_j with g_j = a_j x_j >= 0. All centres are at or below 0, so that above r > 0 there are
exponential tails alone. With A the entities that are kept and D the others, symbols as in `pos`,

    E[f; A] = int dr |A| (1/2 pi i) int ds e^{snr} prod_D D_j(s) E[f(z - r); z > r on A],
    D_j(s) = e^{-s (r + g_j)}/(1 - s^2 beta_j^2) - h_j e^{-r/beta_j}/(1 - s beta_j),     h_j = e^{-g_j/beta_j}/2.

For f = 1 the last factor is prod_A h_j e^{-r/beta_j}; for shares and their squares it is that times q_A,i, which does not depend on r.
Multiplied out, with B the entities of D whose first term is taken and C those with the second one, r is in e^{-r kappa(s)} alone,

    kappa(s) = sum over A and C of (1/beta_j - s),

and is integrated in closed form, along Re s = 0, left of every zero of kappa. What remains is

    E[1; A] = |A| prod_A h_j (1/2 pi i) int ds W_D(s),     E[1; all] = prod h_j,
    W_D(s) = sum over B in D of F_B(s) prod_C (-h_j/(1 - s beta_j)),     F_B(s) = e^{-s sum_B g} / kappa(s) prod_B 1/(1 - s^2 beta_j^2).

kappa depends on B alone, and so does F; then the sums over B for all D at once take n steps, W_{D + j} += W_D (-h_j/(1 - s beta_j)). Closed
to the left the integral is 0 for empty B. The path

    s = w (i sinh(v - i pi/4) - sin(pi/4)),   w = 1/max(beta_j, sum g/4),

goes through 0 and turns right by 45 degrees: e^{-s g} falls, and the poles +-1/beta_j, all on the real axis, are pi/4 or more away in v.
Equal steps h in v miss e^{-pi^2/2h} (times e^{4 sin(pi/4)}, by which e^{-s g} grows on the way), and the integrand falls from
|s| = 1/min beta on as s^-3 or sooner. With E[p e^{-tp}] and E[e^{-tp}] of exponential p = z - r

    q_A,i = int dt beta_i/(1 + t beta_i)^2 prod_{A - i} 1/(1 + t beta_j),
    squares: int t dt 2 beta_i^2/(1 + t beta_i)^3 prod_{A - i} 1/(1 + t beta_j).

Shares sum to P(S < 0), which is known. All terms are below 1: nothing but rounding is lost, and two steps h differ by the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel
from fairpost.engines.closed.quadrature import exp_sinh
from fairpost.engines.closed.shares import SAFETY
from fairpost.engines.exact.pos.problem import Problem
from fairpost.engines.exact.pos.side import Sums
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.moments import Floats

Sets = NDArray[np.bool_]
"""Rows: sets of entities, by number; columns: who is in it."""

MOST = 12
"""The most entities: their 2^12 sets take a fifth of a second, and `pos.turned` serves more."""
BLOCK = 1 << 18
"""(s, set) values at a time."""
STEPS = ((0.16, 0.07), (0.13, 0.05))
"""Of v, where e^{-pi^2/2h} is 4e-14 and 3e-17, and of the double-exponential rule in t."""
LAST = 19.0
"""v ends where |s| is e^LAST/min beta: what follows is e^{-2 LAST} of the whole."""
REACH = 4.2
"""t from 1e-22 to 1e22, in units of the middle scale."""
ROUNDING = 1e-14


@dataclass(frozen=True)
class Opposite:
    """The side S < 0, as far as it can be known: what `general` asks of a side."""

    sums: Sums
    error: Floats
    second_error: Floats
    zero_error: Floats
    mass: float
    stage: int = 2

    def improve(self, need: float) -> bool:
        """Nothing is left to refine."""
        return False


def served(problem: Problem) -> bool:
    """Few Laplace values, none of them centred below 0."""
    return not problem.gaussian and problem.n <= MOST and bool(np.all(problem.c >= 0))


def opposite(problem: Problem, chance: float) -> Opposite:
    """E[PoS_i; S < 0] and its companions; `chance` is P(S < 0)."""
    index = np.repeat(np.arange(problem.c.size), problem.times)
    g, beta = problem.c[index], problem.scale[index]
    before, now = (_values(g, beta, *step) for step in STEPS)
    each = [np.array([np.mean(row[index == i]) for i in range(problem.c.size)]) for row in now]
    change = [np.array([np.max(row[index == i]) for i in range(problem.c.size)]) for row in np.abs(now - before)]
    lost = abs(float(np.sum(now[0])) - chance) + ROUNDING
    first, second, zero = (SAFETY * moved + lost for moved in change)
    return Opposite(Sums(each[0], each[1], each[2], 0), first, second, zero, float(np.sum(now[0])))


def _values(g: Floats, beta: Floats, step: float, tilt_step: float) -> Floats:
    """E[share], E[share^2] and P(share = 0) over S < 0, one column per entity."""
    n = g.size
    member = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    chance = _chances(g, beta, member, step)
    out = np.zeros((3, n))
    t, omega = exp_sinh(tilt_step, REACH)
    middle = math.sqrt(float(np.min(beta) * np.max(beta)))
    t, omega = t / middle, omega / middle
    for b in _blocks(t.size, n):
        fall = 1 / (1 + np.multiply.outer(t[b], beta))
        kept = _products(fall)
        for i in range(n):
            whole = kept[:, ~member[:, i]] @ chance[member[:, i]]  # A without i, in the same order as A
            u = omega[b] * beta[i] * fall[:, i] ** 2
            out[0, i] += u @ whole
            out[1, i] += (u * t[b] * 2 * beta[i] * fall[:, i]) @ whole
    out[2] = chance @ ~member
    return out


def _chances(g: Floats, beta: Floats, member: Sets, step: float) -> Floats:
    """P(A is kept, S < 0) for every set A (bits of its number); 0 for the empty one."""
    h, kept = 0.5 * np.exp(-g / beta), np.sum(member, axis=1)
    dropped = _integrals(g, beta, h, member, step)
    chance = _products(h[None])[0] * kept * dropped[::-1]  # the set that is dropped with A has A's bits turned round
    chance[-1] = np.prod(h)
    return np.asarray(chance)


def _integrals(g: Floats, beta: Floats, h: Floats, member: Sets, step: float) -> Floats:
    """(1/2 pi i) int W_D ds for every set D; B is neither empty nor all."""
    w = 1 / max(float(np.max(beta)), float(np.sum(g)) / 4)
    v = step * np.arange(math.ceil((LAST - math.log(w * float(np.min(beta)))) / step))
    turn = math.sqrt(0.5)
    path = w * turn * (1j * np.sinh(v) + np.cosh(v) - 1)
    speed = (
        w * turn * (np.cosh(v) - 1j * np.sinh(v)) * (step / math.pi)
    )  # ds/(i dv); the lower half is its mirror image
    speed[0] *= 0.5
    rates, number = ~member @ (1 / beta), np.sum(~member, axis=1)
    rates[-1] = 1.0  # (not used)
    out = np.zeros(len(member))
    for b in _blocks(v.size, g.size):
        cancel.check()
        s = path[b][:, None]
        w_d = _products(np.exp(-s * g) / ((1 - s * beta) * (1 + s * beta)))
        w_d *= speed[b][:, None] / (rates - s * number)
        w_d[:, [0, -1]] = 0.0
        for j in range(g.size):
            halves = w_d.reshape(s.size, -1, 2, 1 << j)  # without j, with j
            halves[:, :, 1] += halves[:, :, 0] * (-h[j] / (1 - s * beta[j]))[:, :, None]
        out += np.sum(w_d.real, axis=0)
    return out


def _products(factors: Complexes | Floats) -> Any:
    """Products of the columns in each set, rows nodes."""
    out = np.ones((factors.shape[0], 1 << factors.shape[1]), dtype=factors.dtype)
    for j in range(factors.shape[1]):
        out[:, 1 << j : 2 << j] = out[:, : 1 << j] * factors[:, j : j + 1]
    return out


def _blocks(nodes: int, n: int) -> list[slice]:
    """Nodes at a time, so that one value for each set takes some megabytes."""
    rows = max(1, BLOCK >> n)
    return [slice(i, min(i + rows, nodes)) for i in range(0, nodes, rows)]
