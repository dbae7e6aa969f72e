"""(P_+) on hierarchies: time per draw, optimality, exact zeros, and PIQP beside it on the same draw.

Two forms of one tree (root, 50 states, counties, leaves): every node's total public, equalities over the leaves
alone, which depend on each other; and noise on every node, with nodes as variables and only the root's total public.
"""

import time

import numpy as np
from scipy import sparse

from fairpost.rules.affine.projection import Affine, AffineNonnegative
from fairpost.rules.affine.tree import Tree
from timing import best, line

NOISE = 10.0
DRAWS = 5


def hierarchy(leaves: int, counties: int, seed: int = 1) -> tuple[Tree, np.ndarray]:
    rng = np.random.default_rng(seed)
    county = np.concatenate([np.arange(counties), rng.integers(0, counties, leaves - counties)])
    state = rng.integers(0, 50, counties)
    state[:50] = np.arange(50)
    tree = Tree.from_labels([state[county].astype(str), county.astype(str)])
    return tree, np.floor(rng.lognormal(3.0, 1.5, leaves))


def kkt(A: sparse.csr_array, b: np.ndarray, y: np.ndarray, v: np.ndarray, mu: np.ndarray) -> float:
    """The largest violation of A v = b (summed in extended precision) and of v = (y - A' mu)_+, in counts."""
    terms = A.data.astype(np.longdouble) * v[A.indices]
    left = np.add.reduceat(terms, A.indptr[:-1]) - b
    return float(max(np.abs(left).max(), np.abs(v - np.maximum(y - A.T @ mu, 0.0)).max()))


def piqp_solution(A: sparse.csr_array, b: np.ndarray, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, float] | None:
    """PIQP in d = v - x at a tight tolerance, as its accuracy near zero needs, and its seconds."""
    try:
        import piqp
    except ImportError:
        return None
    solver = piqp.SparseSolver()
    for name in ("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"):
        setattr(solver.settings, name, 1e-14)
    n, matrix = y.size, sparse.csc_matrix(A)
    solver.setup(sparse.eye(n, format="csc"), x - y, matrix, b - matrix @ x, x_l=-x, x_u=np.full(n, np.inf))
    start = time.perf_counter()
    solver.solve()
    return x + solver.result.x, time.perf_counter() - start


def beside_piqp(A: sparse.csr_array, b: np.ndarray, y: np.ndarray, x: np.ndarray, v: np.ndarray, ours: float) -> None:
    theirs = piqp_solution(A, b, y, x)
    if theirs is None:
        line("  PIQP", "not installed")
        return
    u, seconds = theirs
    line("  PIQP, the same draw", f"{seconds * 1e3:.0f} ms")
    line("    times faster", f"{seconds / ours:.1f}")
    line("    largest difference, in counts", f"{np.abs(u - v).max():.1e}", "at most 1e-4", np.abs(u - v).max() <= 1e-4)
    line("    objective, ours minus PIQP's, relative", f"{np.sum((v - y) ** 2) / np.sum((u - y) ** 2) - 1:.1e}")
    off = u[v == 0]
    line("    largest value of PIQP where ours is 0", f"{np.abs(off).max():.1e}")


def measure(what: str, A: sparse.csr_array, b: np.ndarray, x: np.ndarray, bar: float, check: bool) -> None:
    start = time.perf_counter()
    pi = AffineNonnegative(A, b)
    line(f"{what}: {A.shape[1]:,} variables, {A.shape[0]:,} equalities: set-up", f"{time.perf_counter() - start:.2f} s")
    rng = np.random.default_rng(2)
    rows = [x + rng.laplace(0.0, NOISE, x.size) for _ in range(DRAWS)]
    seconds = [best(lambda row=row: pi.solve(row), 5) for row in rows]
    line(
        "  (P_+), slowest of five draws",
        f"{max(seconds) * 1e3:.1f} ms",
        f"at most {bar * 1e3:.0f} ms",
        max(seconds) <= bar,
    )
    found = [pi.solve(row) for row in rows]
    worst = max(kkt(A, b, y, s.values, s.multipliers) for y, s in zip(rows, found, strict=True))
    line("  KKT residual, in counts", f"{worst:.1e}")
    line("  KKT residual / noise scale", f"{worst / NOISE:.1e}", "below 1e-9", worst / NOISE < 1e-9)
    line("  KKT residual / largest count", f"{worst / x.max():.1e}", "below 1e-9", worst / x.max() < 1e-9)
    v = found[0].values
    active = rows[0] - A.T @ found[0].multipliers <= 0
    exact = bool((v[active] == 0).all() and v.min() >= 0)
    line("  zeros on the active set", f"{active.sum():,} of {v.size:,}", "all exact", exact)
    line("  Newton steps, most of five draws", f"{max(s.steps for s in found)}")
    plane = Affine(A, b)
    line("  (P), closed form", f"{best(lambda: plane(rows[0]), 5) * 1e3:.1f} ms")
    if check:
        beside_piqp(A, b, rows[0], x, v, seconds[0])


def main() -> None:
    for leaves, counties, bar in ((20_000, 3_200, 0.05), (200_000, 32_000, 0.5)):
        tree, x = hierarchy(leaves, counties)
        measure(f"{leaves:,} leaves, totals public", *tree.over_leaves(x), x, bar, leaves <= 20_000)
        measure(f"{leaves:,} leaves, noisy nodes", *tree.over_nodes(x.sum()), tree.expand(x), bar, leaves <= 20_000)


if __name__ == "__main__":
    main()
