"""Attack the command line with seeded nonsense: `make attack`, or python tools/attack.py --seconds 60 --seed 1.

Four attackers in turn, each in this process so that thousands of cases fit into a minute: damaged text files, damaged binary
files, option sets, damaged checkpoints. A violation is anything but a documented exit code: an exception, several lines of
error, a warning, a left-over or half-written output. One table at the end; the exit code is 1 where there is a violation.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

GOOD = b"id,count,weight,group\na,3,1,n\nb,40,2,n\nc,9,1,s\nd,500,1.5,s\ne,0,1,n\n"
PARTS = [
    b"\x00",
    b"\xff\xfe",
    b'"',
    b"\r",
    b"\n",
    b",",
    b"\t",
    b"1e309",
    b"-0",
    b"nan",
    b"1e16",
    b"=1",
    b"\x1b[2J",
    "é".encode(),
    b" ",
]
NUMBERS = ["0", "-1", "1", "0.1", "1e-300", "1e300", "nan", "inf", "1e16", "3", "x", ""]
CODES = {0, 2, 3, 130}


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes cut, flipped, doubled, or with something strange put in."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(found) + 1)
        how = rng.randrange(4)
        if how == 0:
            del found[place : place + rng.randint(1, 20)]
        elif how == 1 and place < len(found):
            found[place] ^= 1 << rng.randrange(8)
        elif how == 2:
            found[place:place] = rng.choice(PARTS)
        else:
            found[place:place] = found[: rng.randrange(len(found) + 1)]
    return bytes(found)


def run(words: list[str]) -> tuple[int | str, str]:
    """The exit code (or the exception) and what was said on stderr."""
    from fairpost.cli import main

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        try:
            main(args=words)
            code: int | str = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        except BaseException:
            code = traceback.format_exc()
    return code, err.getvalue()


def text_file(rng: random.Random) -> list[str]:
    """A damaged CSV, plain or gzipped."""
    data, name = damaged(rng, GOOD), "in.csv"
    if rng.random() < 0.3:
        data, name = gzip.compress(data), "in.csv.gz"
        data = damaged(rng, data) if rng.random() < 0.5 else data
    Path(name).write_bytes(data)
    verb = rng.choice([["audit", "--epsilon", "1", "--postprocess", "nonnegative"], ["project"], ["allocate"]])
    return [verb[0], name, *verb[1:], "--json", "out.json"]


def binary_file(rng: random.Random) -> list[str]:
    """A damaged Parquet file."""
    import polars as pl

    held = io.BytesIO()
    pl.read_csv(GOOD).write_parquet(held)
    Path("in.parquet").write_bytes(damaged(rng, held.getvalue()))
    return ["project", "in.parquet", "--json", "out.json"]


def options(rng: random.Random) -> list[str]:
    """Numbers that are none, too large, too small; outputs that clash."""
    Path("in.csv").write_bytes(GOOD)
    words = ["audit", "in.csv", "--postprocess", rng.choice(["nonnegative", "sum", "none", "baseline"])]
    words += ["--mechanism", rng.choice(["laplace", "gaussian", "discrete-laplace", "discrete-gaussian"])]
    words += rng.choice([[], ["--epsilon", "0.5"], ["--rho", "0.1"], ["--epsilon", "1", "--delta", "1e-6"]])
    for name in rng.sample(
        ["epsilon", "scale", "sigma", "rho", "delta", "sensitivity", "total", "budget", "rtol"], rng.randint(0, 3)
    ):
        words += [f"--{name}", rng.choice(NUMBERS)]
    return [*words, *rng.choice([[], ["--by-group"], ["--json", "in.csv"], ["--csv", "no/x"]]), "--json", "out.json"]


def checkpoint(rng: random.Random) -> list[str]:
    """A damaged state of a short simulation."""
    words = ["audit", "in.csv", "--epsilon", "1", "--postprocess", "nonnegative", "--method", "monte-carlo"]
    words += ["--runs", "8192", "--checkpoint", "state", "--json", "out.json"]
    Path("in.csv").write_bytes(GOOD)
    if not Path("../state").exists():
        run(words)
        os.replace("state", "../state")
        Path("out.json").unlink()
    Path("state").write_bytes(damaged(rng, Path("../state").read_bytes()))
    return words


ATTACKS = {"text files": text_file, "binary files": binary_file, "options": options, "checkpoints": checkpoint}


def judged(code: int | str, said: str) -> str:
    """What is wrong with an end, "" where nothing is."""
    if code not in CODES:
        return f"ended with {code}"
    if code in (2, 3) and said.count("\n") != 1:
        return f"{said.count(chr(10))} lines of error: {said!r}"
    if "Warning" in said:
        return f"a warning: {said!r}"
    whole = Path("out.json").exists() and Path("out.json").read_text().endswith("}\n")
    if code == 0 and not whole:
        return "no whole output"
    left = [p.name for p in Path().iterdir() if p.name.startswith(".fairpost-") or (code != 0 and p.name == "out.json")]
    return f"left behind: {left}" if left else ""


def attack(name: str, seed: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Cases of one attacker until its time is over."""
    rng, counts, bad = random.Random(f"{seed} {name}"), Counter[str](), []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for path in Path().iterdir():
            path.unlink()
        words = ATTACKS[name](rng)
        code, said = run(words)
        wrong = judged(code, said)
        counts["cases"] += 1
        counts[f"exit {code}" if isinstance(code, int) else "exception"] += 1
        if wrong:
            counts["violations"] += 1
            bad.append(f"{name}, case {counts['cases']}: {' '.join(words)}: {wrong}")
    return counts, bad


def main() -> None:
    """Every attacker for its part of the time, and one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    violations: list[str] = []
    print(f"{'attack':14} {'cases':>7} {'exit 0':>7} {'exit 2':>7} {'exit 3':>7} {'violations':>11}")
    for name in ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "work").mkdir()
            os.chdir(Path(folder, "work"))
            counts, bad = attack(name, given.seed, given.seconds / len(ATTACKS))
            os.chdir("/")
        violations += bad
        cells = [counts[k] for k in ("cases", "exit 0", "exit 2", "exit 3")]
        print(f"{name:14} {''.join(f'{c:8}' for c in cells)[1:]} {counts['violations']:11}")
    for line in violations[:20]:
        print(line)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
