"""Timing, and the data that the benchmarks share."""

import csv
import os
import time
from collections.abc import Callable
from pathlib import Path

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


def line(what: str, figure: str, bar: str = "", met: bool | None = None) -> None:
    """One figure with its bar."""
    verdict = "" if met is None else ("met" if met else "MISSED")
    print(f"{what:<64} {figure:>22}  {bar:<18} {verdict}", flush=True)


def districts(column: str = "poor_5_17") -> tuple[str, fp.Counts]:
    """SAIPE 2019 where it is, else the synthetic stand-in of the same size."""
    path = DATA / "saipe_2019.csv"
    if not path.exists():
        return "synthetic stand-in", synthetic_districts()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return f"SAIPE 2019 {column}", fp.Counts([float(row[column]) for row in rows], ids=[row["leaid"] for row in rows])
