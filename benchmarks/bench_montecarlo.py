"""The Monte-Carlo engine: each bar of the project beside what was measured.

School districts (SAIPE 2019 where FAIRPOST_DATA names the folder with saipe_2019.csv, else a stand-in of the same size
drawn from its quantiles), BL and PoS together, with standard errors. Every time is the fastest of many short pieces,
because other work on the machine can only add to it; what is compared takes turns.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import fairpost as fp
from fairpost.engines.base import Question, answered
from fairpost.engines.montecarlo.backends import Asked, Block
from fairpost.engines.montecarlo.backends.base import One
from fairpost.engines.montecarlo.backends.cpu.blocks import run_block, specify
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.noise.kernels import streams
from timing import districts, second_core

MECHANISM = fp.Laplace(10.0)
HAWAII = fp.Counts([53, 22563, 54381, 67054, 311451])


def fastest(tasks: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds, the fastest of `rounds`, the tasks taking turns."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            begin = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def straightforward(counts: fp.Counts, rng: np.random.Generator) -> Callable[[], None]:
    """One run as one would write it: laplace, clip and normalise, projection by sorting, sums and squares."""
    x, n = counts.values, counts.n
    share = x / x.sum()
    sums = np.zeros((4, n))
    k = np.arange(1, n + 1)

    def run() -> None:
        noisy = x + rng.laplace(0.0, 10.0, n)
        clipped = np.maximum(noisy, 0.0)
        bl = clipped / clipped.sum() - share
        target = noisy / noisy.sum()
        down = np.sort(target)[::-1]
        over = np.cumsum(down) - 1.0
        last = np.flatnonzero(down - over / k > 0)[-1]
        pos = np.maximum(target - over[last] / (last + 1), 0.0) - share
        for row, value in ((0, bl), (2, pos)):
            sums[row] += value
            sums[row + 1] += value * value

    return run


def shares(counts: fp.Counts) -> Question:
    """BL and PoS on the same noise."""
    return Question.ask(counts, MECHANISM, [fp.Baseline.from_counts(counts), fp.PoS.from_counts(counts)])


def per_run(counts: fp.Counts) -> None:
    made = shares(counts)
    ones = [One(pi, truth, pi.control(counts, MECHANISM)) for pi, truth in zip(made.pis, made.truths, strict=True)]
    spec = specify(Asked(counts, MECHANISM, tuple(ones)))
    n, out = counts.n, np.empty(counts.n)
    numpy_noise = np.random.Generator(np.random.SFC64(1))
    block = 32
    times = fastest(
        {
            "straightforward NumPy": straightforward(counts, np.random.default_rng(1)),
            "fairpost": lambda: run_block(spec, 1, Block(0, block)),
            "our noise alone": lambda: streams.fill_laplace(out, 0, 10.0, np.uint64(1), np.uint64(1)),
            "NumPy's ziggurat exponential alone": lambda: numpy_noise.standard_exponential(out=out),
        },
        150,
    )
    times["fairpost"] /= block
    print(f"{n:,} districts, BL and PoS with standard errors, one thread, microseconds per run")
    for name, seconds in times.items():
        print(f"  {name:40}{1e6 * seconds:10.1f}")
    noise = min(times["our noise alone"], times["NumPy's ziggurat exponential alone"])
    report(
        "straightforward NumPy / fairpost, one thread",
        times["straightforward NumPy"] / times["fairpost"],
        20,
        "at least",
    )
    report("fairpost / fastest noise alone", times["fairpost"] / noise, 2.5, "at most")


def report(what: str, ratio: float, bar: float, sense: str) -> None:
    met = ratio >= bar if sense == "at least" else ratio <= bar
    print(f"  {what:56}{ratio:9.2f}   bar: {sense} {bar:g}   {'met' if met else 'MISSED'}")


def threads(counts: fp.Counts) -> None:
    asked = shares(counts)
    runs = 2**14
    jobs: dict[str, Callable[[], object]] = {
        str(k): lambda k=k: MonteCarlo(runs, threads=k).evaluate(asked) for k in (1, 2)
    }
    usual = straightforward(counts, np.random.default_rng(1))
    jobs["numpy"] = lambda: [usual() for _ in range(200)]
    times = fastest(jobs, 4)
    one, two, whole = times["1"] / runs, times["2"] / runs, times["numpy"] / 200
    print(
        f"{runs} runs, microseconds per run: one thread {1e6 * one:.1f}, two {1e6 * two:.1f}, NumPy {1e6 * whole:.1f}"
    )
    report("one thread / two threads", one / two, 1.8, "at least")
    print(f"  {'what a second thread gives vector arithmetic here':56}{second_core():9.2f}")
    report("straightforward NumPy / fairpost, two threads", whole / two, 20, "at least")


def workers(counts: fp.Counts) -> None:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        print("Dask: not installed (extra: cluster), not measured")
        return
    asked = shares(counts)
    best = {}
    for k in (1, 2):
        with (
            LocalCluster(n_workers=k, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
            Client(cluster) as client,
        ):
            engine = MonteCarlo(2**15, cluster=client)
            engine.evaluate(asked)  # each worker loads its kernels
            best[k] = fastest({"job": lambda engine=engine: engine.evaluate(asked)}, 3)["job"]
    print(f"Dask, {2**15} runs, seconds: one worker {best[1]:.2f}, two {best[2]:.2f}")
    report("one Dask worker / two", best[1] / best[2], 1.5, "at least")


def hawaii() -> None:
    asked = Question.ask(HAWAII, fp.Gaussian(25.0), [fp.Simplex.from_counts(HAWAII)])
    found = answered(MonteCarlo(1_000_000).evaluate(asked)[0]).sample
    assert found is not None
    assert found.reduction is not None
    # The half-width is t se + log(2 / 0.05) sigma / R; 1 % needs variance / (0.01 alpha)^2 runs.
    se = ((found.alpha.high - found.alpha.low) / 2 - np.log(40) * 25.0 / found.runs) / 1.96
    needed = found.runs * (se / (0.01 * found.alpha.value)) ** 2
    print(f"Hawaii, Gaussian 25, projection: {found.statement}")
    print(f"  runs for 1 %: {needed:,.0f}; plain estimator: {needed * found.reduction:,.0f}")
    report("plain variance / control-variate variance", found.reduction, 100, "at least")


MEMORY = """
import resource, numpy as np, fairpost as fp
n = 1_000_000
counts = fp.Counts(np.random.default_rng(1).pareto(1.2, n) * 50)
fp.compare(counts, fp.Laplace(10.0), ["baseline", "pos"], engine=fp.MonteCarlo(64, block=8, threads=2))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)
"""


def memory() -> None:
    peak = float(
        subprocess.run([sys.executable, "-c", MEMORY], check=True, capture_output=True, encoding="utf-8").stdout
    )
    print(f"1,000,000 entities, BL and PoS, two threads: {peak:.0f} MiB at most (it does not grow with runs)")
    report("peak memory in GiB", peak / 1024, 1, "at most")


def main() -> None:
    counts = districts()[1]
    for part in (per_run, threads, workers):
        part(counts)
    hawaii()
    memory()
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB")


if __name__ == "__main__":
    main()
