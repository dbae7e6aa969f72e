"""CPU seconds of the first command on a machine, with an empty kernel cache; beside them those of the second."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import line

HAWAII = "id,count\nKalawao,53\nKauai,22563\nMaui,54381\nHawaii,67054\nHonolulu,311451\n"
AUDIT = ("audit", "hawaii.csv", "--scale", "10", "--postprocess")
COMMANDS = (
    ("audit, simplex", (*AUDIT, "simplex"), 4.0),
    ("audit, PoS", (*AUDIT, "pos"), 4.0),
    ("audit, simplex by Monte-Carlo", (*AUDIT, "simplex", "--method", "monte-carlo", "--runs", "2000"), 8.0),
    ("allocate with noise", ("allocate", "hawaii.csv", "--scale", "10"), 10.0),
    ("demo", ("demo",), 8.0),
)


def cpu(words: tuple[str, ...], cwd: str, cache: str) -> float:
    """User and system seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "fairpost", *words],
        cwd=cwd, env={**os.environ, "FAIRPOST_CACHE": cache}, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "hawaii.csv").write_text(HAWAII, encoding="utf-8")
        for k, (what, words, bar) in enumerate(COMMANDS):
            cold, warm = (cpu(words, folder, f"{folder}/cache{k}") for _ in range(2))
            line(f"{what}, CPU of the first run", f"{cold:.1f} s", f"at most {bar:g} s", cold <= bar)
            line("  and of the second", f"{warm:.1f} s")


if __name__ == "__main__":
    main()
