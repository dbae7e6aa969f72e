"""Slow oracles, written from the definitions and not from the code that they check."""

import numpy as np

from support.rules import projected


def simplex(y: np.ndarray, total: float) -> np.ndarray:
    """Projection of one vector onto {v >= 0, sum v = total}, in extended precision."""
    return projected(np.asarray(y, dtype=np.longdouble)[None], total)[0].astype(np.float64)


def shares(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """P^F."""
    return a * x / np.sum(a * x)


def spread(v: np.ndarray) -> float:
    """The paper's ||v||: largest minus smallest."""
    return float(np.max(v) - np.min(v))


def nearest_in_range(target: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Program P_alpha by linear programming (HiGHS): the optimal value, and the lowest and highest optimal v_i.

    Variables (v, top, bottom): minimise top - bottom with bottom <= v_i - target_i <= top, v in the simplex. The optimal
    face is then searched for the least and the greatest value of each v_i: equal everywhere iff the minimiser is unique.
    """
    from scipy.optimize import linprog

    n = target.size
    eye, one = np.eye(n), np.ones((n, 1))
    a_ub = np.block([[eye, -one, np.zeros((n, 1))], [-eye, np.zeros((n, 1)), one]])
    b_ub = np.concatenate([target, -target])
    a_eq = np.concatenate([np.ones(n), [0.0, 0.0]])[None, :]
    limits = [(0, None)] * n + [(None, None)] * 2
    cost = np.concatenate([np.zeros(n), [1.0, -1.0]])
    best = linprog(cost, a_ub, b_ub, a_eq, [1.0], limits, method="highs")
    assert best.status == 0
    a_face = np.vstack([a_ub, cost])
    b_face = np.concatenate([b_ub, [best.fun + 1e-12]])
    low, high = np.empty(n), np.empty(n)
    for i in range(n):
        pick = np.zeros(n + 2)
        pick[i] = 1.0
        low[i] = linprog(pick, a_face, b_face, a_eq, [1.0], limits, method="highs").fun
        high[i] = -linprog(-pick, a_face, b_face, a_eq, [1.0], limits, method="highs").fun
    return float(best.fun), low, high


def nearest_in_l1(target: np.ndarray) -> float:
    """The optimal value of ||v - target||_1 over the probability simplex, by linear programming."""
    from scipy.optimize import linprog

    n = target.size
    eye = np.eye(n)
    a_ub = np.block([[eye, -eye], [-eye, -eye]])
    b_ub = np.concatenate([target, -target])
    cost = np.concatenate([np.zeros(n), np.ones(n)])
    a_eq = np.concatenate([np.ones(n), np.zeros(n)])[None, :]
    best = linprog(cost, a_ub, b_ub, a_eq, [1.0], [(0, None)] * (2 * n), method="highs")
    assert best.status == 0
    return float(best.fun)
