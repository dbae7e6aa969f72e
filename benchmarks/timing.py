"""Timing, and the data that the benchmarks share."""

import csv
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fairpost as fp
from fairpost.datasets import synthetic_districts

DATA = Path(os.environ.get("FAIRPOST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def best(call: Callable[[], object], repeats: int = 7) -> float:
    """The fastest of several calls, in seconds, after one that warms up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def cpu(call: Callable[[], object], repeats: int = 3) -> float:
    """Likewise in processor seconds, of all threads together."""
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def second_core(seconds: float = 0.3) -> float:
    """How much more noise two threads draw than one: what the second core adds to plain vector arithmetic.

    Two processors that share one core's arithmetic units (hyper-threads) give 1.0 to 1.3 here, two cores 2.0; nothing
    that is already vectorised can gain more than this from a second thread.
    """
    from concurrent.futures import ThreadPoolExecutor

    from fairpost.noise.kernels import streams

    def draw(run: int) -> int:
        out, done, end = np.empty(13184), 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            streams.fill_laplace(out, 0, 10.0, np.uint64(1), np.uint64(run))
            done += 1
        return done

    draw(0)
    with ThreadPoolExecutor(2) as pool:
        ratios = [sum(pool.map(draw, (1, 2))) / draw(0) for _ in range(5)]
    return float(np.median(ratios))


def line(what: str, figure: str, bar: str = "", met: bool | None = None) -> None:
    """One figure with its bar."""
    verdict = "" if met is None else ("met" if met else "MISSED")
    print(f"{what:<64} {figure:>22}  {bar:<18} {verdict}", flush=True)


def districts(column: str = "poor_5_17", groups: str | None = None, base: str | None = None) -> tuple[str, fp.Counts]:
    """SAIPE 2019 where it is, else the synthetic stand-in of the same size (its groups: 51 in turn; its base: random rates)."""
    path = DATA / "saipe_2019.csv"
    if not path.exists():
        made = synthetic_districts()
        states = None if groups is None else [f"g{k % 51}" for k in range(made.n)]
        public = None if base is None else np.round(made.values / np.random.default_rng(1).uniform(0.05, 0.4, made.n))
        return "synthetic stand-in", fp.Counts(made.values, ids=made.ids, groups=states, base=public)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    table = {name: [row[name] for row in rows] for name in rows[0]}
    states = None if groups is None else table[groups]
    public = None if base is None else np.array(table[base], dtype=float)
    values = np.array(table[column], dtype=float)
    return f"SAIPE 2019 {column}", fp.Counts(values, ids=table["leaid"], groups=states, base=public)
