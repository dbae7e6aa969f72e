"""The commands as a user meets them, each in a process of its own: demo (nothing compiled, and warm), a million rows."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from timing import line

ROWS = 1_000_000


def timed(*words: str, cwd: str, cache: str | None = None) -> tuple[float, float]:
    """Seconds and the peak memory in GiB of all children so far."""
    env = {**os.environ, **({} if cache is None else {"FAIRPOST_CACHE": cache})}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "fairpost", *words], cwd=cwd, env=env, capture_output=True, encoding="utf-8", check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stderr)
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def million(path: Path) -> None:
    counts = np.floor(np.random.default_rng(0).pareto(1.2, ROWS) * 50).astype(int)
    path.write_text("id,count\n" + "".join(f"{i:07d},{v}\n" for i, v in enumerate(counts.tolist())), encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cold, _ = timed("demo", cwd=folder, cache=f"{folder}/cache")
        line("fairpost demo, nothing compiled", f"{cold:.1f} s", "at most 30 s", cold <= 30)
        warm = min(timed("demo", cwd=folder)[0] for _ in range(3))
        line("fairpost demo, warm", f"{warm:.1f} s", "at most 5 s", warm <= 5)
        million(Path(folder, "million.csv"))
        words = ("audit", "million.csv", "--epsilon", "0.1", "--postprocess", "nonnegative", "--postprocess", "simplex")
        runs = [timed(*words, cwd=folder) for _ in range(2)]
        seconds, memory = min(r[0] for r in runs), runs[-1][1]
        line(
            f"fairpost audit, {ROWS:,} rows, nonnegative and simplex", f"{seconds:.1f} s", "at most 10 s", seconds <= 10
        )
        line("  peak memory", f"{memory:.2f} GiB", "at most 2 GiB", memory <= 2)


if __name__ == "__main__":
    main()
