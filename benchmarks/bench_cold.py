"""Processor seconds of the first command on a machine, with an empty kernel cache, and beside them those of the second.

python benchmarks/bench_cold.py [--compile]; with it `fairpost compile` as well, which takes minutes. PYTHONPATH chooses the source.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import line

ROWS = 13_000
AUDIT = ("audit", "counts.csv", "--scale", "10", "--postprocess")
NATION = ("audit", "nation.csv", "--scale", "10", "--postprocess", "simplex", "--html", "nation.html", "--force")
SIMULATED = ("--method", "monte-carlo", "--runs", "2000")
COMMANDS = {
    "audit, simplex": (*AUDIT, "simplex"),
    "audit, PoS": (*AUDIT, "pos"),
    "audit, simplex-threshold": (*AUDIT, "simplex-threshold"),
    "audit, pos-threshold": (*AUDIT, "pos-threshold"),
    "audit, simplex, discrete Laplace": (*AUDIT, "simplex", "--mechanism", "discrete-laplace"),
    "audit, simplex by Monte-Carlo": (*AUDIT, "simplex", *SIMULATED),
    "audit, PoS by Monte-Carlo": (*AUDIT, "pos", *SIMULATED),
    "audit, a law": (*AUDIT, "as-written", "--programme", "title1-basic", "--base", "base"),
    "audit, a tree": ("audit", "counts.csv", "--levels", "group", "--level-sigma", "3,4"),
    "allocate with noise": ("allocate", "counts.csv", "--scale", "10"),
    f"audit of {ROWS:,} rows with its page": NATION,
    "demo": ("demo",),
}
COLD, WARM, IMPORT = 6.0, 1.5, 0.05


def once(words: tuple[str, ...], cwd: str, cache: str) -> tuple[float, float, int]:
    """Processor seconds (user and system, of its children too), seconds on the clock, and kernels in the cache."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd, env={**os.environ, "FAIRPOST_CACHE": cache}, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    kept = sum(1 for p in Path(cache).rglob("*") if re.fullmatch(r"\.nbc|\.kernel", p.suffix))
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took, kept


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"p{i},{3 * i * i % 1009 + i % 7},{2000 + i},{'ab'[i % 2]}\n" for i in range(ROWS)]
        for name, n in (("counts.csv", 40), ("nation.csv", ROWS)):
            Path(folder, name).write_text("id,count,base,group\n" + "".join(rows[:n]), encoding="utf-8")
        empty = min(once(("-c", "pass"), folder, folder)[0] for _ in range(5))
        bare = min(once(("-c", "import fairpost"), folder, folder)[0] for _ in range(5)) - empty
        line("import fairpost, CPU beyond Python's own", f"{bare:.3f} s", f"at most {IMPORT:g} s", bare <= IMPORT)
        for k, (what, words) in enumerate(COMMANDS.items()):
            cold, clock, kept = once(("-m", "fairpost", *words), folder, f"{folder}/cache{k}")
            line(f"{what}, cold ({kept} kept), CPU", f"{cold:.1f} s", f"at most {COLD:g} s", cold <= COLD)
            warm, clock, _ = min(once(("-m", "fairpost", *words), folder, f"{folder}/cache{k}") for _ in range(2))
            bar = ("", None) if words is not NATION else (f"at most {WARM:g} s", clock <= WARM)
            line("  warm, CPU and clock", f"{warm:.2f} s, {clock:.2f} s", *bar)
        if "--compile" in sys.argv:
            took, clock, kept = once(("-m", "fairpost", "compile"), folder, f"{folder}/all")
            line(f"fairpost compile ({kept} kept), CPU and clock", f"{took:.0f} s, {clock:.0f} s")


if __name__ == "__main__":
    main()
