"""Drawing noise: nanoseconds per draw on one core beside NumPy's generators, and the first call's seconds."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from fairpost.noise.kernels import streams

N = 13_184  # the school districts of the paper's allocation
SEED = 7


def nanoseconds(draws: dict[str, Callable[[int], object]], repeats: int = 400) -> dict[str, float]:
    """Per draw, the fastest of `repeats` calls (the argument is the run), in turns and warmed up."""
    best = dict.fromkeys(draws, float("inf"))
    for run in range(repeats):
        for name, draw in draws.items():
            draw(run)
            begin = time.perf_counter()
            draw(run)
            best[name] = min(best[name], time.perf_counter() - begin)
    return {name: 1e9 * seconds / N for name, seconds in best.items()}


def ours() -> dict[str, Callable[[int], object]]:
    out, seed = np.empty(N), np.uint64(SEED)
    cases = [
        ("laplace", streams.fill_laplace, (25.0,)),
        ("gaussian", streams.fill_gaussian, (25.0,)),
        ("discrete laplace", streams.fill_discrete_laplace, (25.0,)),
        ("discrete gaussian", streams.fill_discrete_gaussian, (0.7, 3.0, 6.0, 10.0, 25.0, 1000.0)),
    ]
    return {
        f"fairpost {name}, {spread:g}": lambda run, fill=fill, spread=spread: fill(out, 0, spread, seed, np.uint64(run))
        for name, fill, spreads in cases
        for spread in spreads
    }


def theirs() -> dict[str, Callable[[int], object]]:
    out, q = np.empty(N), -np.expm1(-1 / 25.0)
    philox, sfc, pcg = (
        np.random.Generator(kind(SEED)) for kind in (np.random.Philox, np.random.SFC64, np.random.PCG64)
    )
    return {
        "NumPy Philox laplace": lambda run: philox.laplace(scale=25.0, size=N),
        "NumPy SFC64 laplace": lambda run: sfc.laplace(scale=25.0, size=N),
        "NumPy SFC64 standard_exponential": lambda run: sfc.standard_exponential(out=out),
        "NumPy Philox standard_normal": lambda run: philox.standard_normal(out=out),
        "NumPy PCG64 standard_normal": lambda run: pcg.standard_normal(out=out),
        "NumPy SFC64 geometric - geometric": lambda run: sfc.geometric(q, N) - sfc.geometric(q, N),
    }


FIRST_CALL = """
import time
from numba import njit
njit(lambda: 0)()
begin = time.perf_counter()
from fairpost.noise.kernels import streams
streams.{name}(10, 25.0, 1, 1)
print(time.perf_counter() - begin)
"""


def first_calls(name: str) -> tuple[float, float]:
    """Seconds from importing the kernels to the first draws in a fresh process: compiling, then cached."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FIRST_CALL.format(name=name)]
        settings = {**os.environ, "FAIRPOST_CACHE": folder}
        cold, warm = (
            float(subprocess.run(command, env=settings, check=True, capture_output=True, encoding="utf-8").stdout)
            for _ in range(2)
        )
    return cold, warm


def main() -> None:
    reference = "NumPy SFC64 standard_exponential"
    times = nanoseconds({**ours(), **theirs()})
    print(f"noise, {N:,} draws per call, one core, fastest of 400 calls")
    print(f"{'':36}{'ns per draw':>10}{'times as fast as the ziggurat exponential':>44}")
    for name, value in times.items():
        print(f"{name:36}{value:10.2f}{times[reference] / value:44.2f}")
    print(f"{'first call':36}{'compiling':>10}{'from the cache':>17}")
    for name in ("laplace", "gaussian", "discrete_laplace", "discrete_gaussian"):
        cold, warm = first_calls(name)
        print(f"{name:36}{cold:8.2f} s{warm:15.2f} s")


if __name__ == "__main__":
    main()
