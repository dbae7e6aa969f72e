"""project_simplex beside the usual NumPy code and jaxopt's, in one run.

The floor is what cannot be avoided: reading the vector once (a sum) and reading and writing it once more.
"""

import numpy as np

import fairpost as fp
from fairpost import parallel
from fairpost.rules.kernels import simplex as kernel
from timing import best, districts, line, second_core


def usual(v: np.ndarray, total: float = 1.0) -> np.ndarray:
    """The sort-based NumPy code that is copied everywhere (Duchi et al. 2008)."""
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - total
    index = np.arange(v.size) + 1
    active = u - excess / index > 0
    return np.maximum(v - excess[active][-1] / index[active][-1], 0)


def noisy_shares(n: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = districts()[1].values
    z = (x if n == x.size else rng.choice(x, n)) + rng.laplace(0, 100, n)
    return z / z.sum()


def floor(y: np.ndarray) -> float:
    out = np.empty_like(y)
    return best(lambda: (kernel.total_of(y), kernel.write(y, 0.0, out, 0.0, 1.0)), 30 if y.size < 1e6 else 5)


def one_vector(n: int) -> None:
    y = noisy_shares(n)
    repeats = 400 if n < 1e5 else (20 if n < 5e6 else 7)
    numpy_time = best(lambda: usual(y), repeats)
    ours = best(lambda: fp.project_simplex(y), repeats)
    difference = np.max(np.abs(fp.project_simplex(y) - usual(y))) / np.max(y)
    line(f"n = {n:,}: NumPy sort-based", f"{numpy_time * 1e6:,.1f} us")
    line(f"n = {n:,}: project_simplex", f"{ours * 1e6:,.1f} us")
    line("  times faster", f"{numpy_time / ours:.1f}", "at least 40", numpy_time / ours >= 40)
    line("  times faster than NumPy that the floor alone would be (1 core)", f"{numpy_time / floor(y):.1f}")
    line(
        "  largest difference, relative to the largest share",
        f"{difference:.1e}",
        "at most 1e-14",
        difference <= 1e-14,
    )


def against_jaxopt() -> None:
    try:
        import jax
        from jaxopt.projection import projection_simplex
    except ImportError:
        line("jaxopt", "not installed")
        return
    jax.config.update("jax_enable_x64", True)
    y = noisy_shares(13184)
    on_device, run = jax.numpy.asarray(y), jax.jit(projection_simplex)
    theirs = best(lambda: run(on_device).block_until_ready(), 50)
    ours = best(lambda: fp.project_simplex(y), 400)
    line("n = 13,184: jaxopt projection_simplex (jit, CPU)", f"{theirs * 1e6:,.1f} us")
    line("  times faster", f"{theirs / ours:.0f}", "at least 200", theirs / ours >= 200)
    line("  largest difference", f"{np.max(np.abs(np.asarray(run(on_device)) - fp.project_simplex(y))):.1e}")


def batch() -> None:
    rng = np.random.default_rng(3)
    x = districts()[1].values
    rows = np.ascontiguousarray(
        np.broadcast_to(x / x.sum(), (1000, x.size)) + rng.laplace(0, 100 / x.sum(), (1000, x.size))
    )
    out = np.empty_like(rows)
    both = best(lambda: fp.project_simplex(rows, out=out), 5)
    cores = parallel.cores
    parallel.cores = lambda: 1
    alone = best(lambda: fp.project_simplex(rows, out=out), 5)
    parallel.cores = cores
    line("1,000 rows x 13,184, one core", f"{alone * 1e3:.1f} ms")
    line(f"1,000 rows x 13,184, {cores()} cores", f"{both * 1e3:.1f} ms")
    line("  times one core", f"{alone / both:.2f}", "at least 1.7", alone / both >= 1.7)
    line("  what a second thread gives vector arithmetic on this machine", f"{second_core():.2f}")


def main() -> None:
    for n in (13184, 10**6, 10**7):
        one_vector(n)
    against_jaxopt()
    batch()


if __name__ == "__main__":
    main()
