"""Sections 7 and 8 of the paper, statement by statement: shares of a budget."""

from __future__ import annotations

import numpy as np

from fairpost import fairness
from fairpost.audit import audit
from fairpost.noise import Laplace
from fairpost.paper.cases import SEVEN, noisy
from fairpost.paper.demonstration import Demonstration, Floats, Number, vector
from fairpost.rules import Baseline, PoS

NOISE = Laplace(scale=6.0)
SOLVER = 1e-8
"""What the linear solver is trusted to, in shares (its feasibility tolerance is 1e-9, relative)."""
HERE = "Seven districts with weights; one draw of Laplace noise of scale 6 in which shares are negative"


def _draw() -> tuple[Floats, Floats]:
    """Noisy counts whose formula gives negative shares, and those shares P^F(X)."""
    for run in range(50):
        X = noisy(SEVEN, NOISE, run)
        need = SEVEN.weights * X
        if need.sum() > 0 and need.min() < 0:
            break
    return X, np.asarray(need / need.sum())


def _range(v: Floats) -> float:
    return float(v.max() - v.min())


def _minimum(*program: object) -> float:
    """The value of a linear program (HiGHS)."""
    from scipy.optimize import linprog

    return float(linprog(*program).fun)  # type: ignore[call-overload]


def _least_range(target: Floats) -> tuple[float, float]:
    """Program P_alpha by linear programming: its value, and how wide the set of its minimisers is in any entry.

    Variables (v, top, bottom): minimise top - bottom with bottom <= v_i - target_i <= top, v in the simplex.
    """
    n = target.size
    one = np.ones((n, 1))
    a_ub = np.block([[np.eye(n), -one, 0 * one], [-np.eye(n), 0 * one, one]])
    b_ub = np.concatenate([target, -target])
    a_eq = np.append(np.ones(n), [0.0, 0.0])[None, :]
    limits = [(0, None)] * n + [(None, None)] * 2
    cost = np.append(np.zeros(n), [1.0, -1.0])
    best = _minimum(cost, a_ub, b_ub, a_eq, [1.0], limits)
    face, level = np.vstack([a_ub, cost]), np.append(b_ub, best + 1e-12)
    ends = [[_minimum(s * row, face, level, a_eq, [1.0], limits) for s in (1, -1)] for row in np.eye(n + 2)[:n]]
    return best, float(-np.sum(ends, axis=1).min())


def _least_l1(target: Floats) -> float:
    """The least ||v - target||_1 over the simplex, by linear programming."""
    n = target.size
    eye = np.eye(n)
    a_ub, b_ub = np.block([[eye, -eye], [-eye, -eye]]), np.concatenate([target, -target])
    a_eq = np.append(np.ones(n), np.zeros(n))[None, :]
    return _minimum(np.append(np.zeros(n), np.ones(n)), a_ub, b_ub, a_eq, [1.0])


def theorem2() -> Demonstration:
    """PoS minimises the range."""
    X, target = _draw()
    best, width = _least_range(target)
    pos, bl = PoS(SEVEN.weights)(X), Baseline(SEVEN.weights)(X)
    gap = abs(_range(pos - target) - best)
    return Demonstration(
        "Theorem 2",
        "PoS is the fairest allocation for each draw",
        "Among all allocations, the projection of the noisy shares P^F(X) onto the simplex is the only one for which the range of the "
        "changes v - P^F(X) is least.",
        HERE + "; the program solved by linear programming, and the set of all its minimisers searched entry by entry.",
        (
            Number("noisy shares P^F(X)", vector(target)),
            Number("range for PoS", _range(pos - target), 1e-15),
            Number("least range (linear program)", best, SOLVER),
            Number("width of the set of minimisers", max(width, 0.0), 1e-6),
            Number("range for BL", _range(bl - target), 1e-15),
        ),
        gap <= SOLVER and abs(width) <= 1e-6 and _range(bl - target) >= best - SOLVER,
        "The printed proof shows that nothing is better; that nothing else is as good, it does not. The last but one number bears it out here. "
        "The draw-by-draw optimum is a proxy: it is not the least alpha (see the threshold mechanism in Table 2).",
    )


def proposition3() -> Demonstration:
    """The cost of privacy is half the l1 norm."""
    numbers, holds = [], True
    for which in ("baseline", "pos"):
        result = audit(SEVEN, NOISE, which)
        cost, l1 = fairness.cost_of_privacy(result.bias), fairness.cost_of_privacy_l1(result.bias)
        error = float(result.half_width.sum())
        numbers += [Number(f"{which}: sum of the losses", cost, error), Number(f"{which}: half the l1 norm", l1, error)]
        holds &= abs(cost - l1) <= error
    return Demonstration(
        "Proposition 3",
        "The cost of privacy is half the l1 norm of the bias",
        "Where shares always sum to 1, gains and losses cancel, so the sum of the losses is half the sum of all absolute biases "
        "(times the budget).",
        "Seven districts with weights, Laplace noise of scale 6, budget 1; biases exact for baseline, by conditional means for pos.",
        tuple(numbers),
        holds,
    )


def theorem3() -> Demonstration:
    """PoS and BL minimise the cost proxy."""
    X, target = _draw()
    best = _least_l1(target)
    numbers = [Number("least l1 distance (linear program)", best, SOLVER)]
    holds = True
    for pi in (PoS(SEVEN.weights), Baseline(SEVEN.weights)):
        found = float(np.abs(pi(X) - target).sum())
        numbers.append(Number(f"l1 distance of {pi.name}", found, 1e-15))
        holds &= abs(found - best) <= SOLVER
    numbers.append(Number("||P^F(X)||_1 - 1", float(np.abs(target).sum() - 1), 1e-15))
    return Demonstration(
        "Theorem 3",
        "PoS and BL both minimise the proxy of the cost of privacy",
        "For each draw PoS is a nearest allocation to P^F(X) in the l1 distance, and so is BL where the weighted noisy sum is positive. "
        "The distance is then ||P^F(X)||_1 - 1.",
        HERE + ".",
        tuple(numbers),
        holds,
        "There are many minimisers: their biases, and so their costs of privacy, differ.",
    )


ALLOCATION = (theorem2, proposition3, theorem3)
