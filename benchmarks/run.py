"""Every benchmark, one after the other: python benchmarks/run.py [name ...]. Each figure is printed beside its bar."""

import importlib
import sys
from pathlib import Path

NAMES = (
    "imports",
    "cold",
    "commands",
    "simplex",
    "noise",
    "affine",
    "exact",
    "montecarlo",
    "threshold",
    "programmes",
    "release",
    "report",
)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    for name in sys.argv[1:] or NAMES:
        print(f"\n=== {name} ===", flush=True)
        importlib.import_module(f"bench_{name}").main()


if __name__ == "__main__":
    main()
