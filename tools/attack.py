"""Attack the command line with seeded nonsense: `make attack-inputs`, part of `make attack`, or python tools/attack.py --seconds 60 --seed 1.

Eleven attackers in turn (`attackers`, `documents`): damaged text files, damaged Parquet files, damaged workbooks, option sets of every
command that reads a table, damaged checkpoints, and mutated laws, maps, statements and plans of releases in this
process, so that thousands of cases fit into a minute, and signals sent to processes
of their own at random times, cold (nothing compiled) and warm, to readers and to simulations: a Ctrl-C ends with 130 within five
seconds, and after a SIGKILL the same command goes on to the same bits. A violation is anything but a documented exit code: an
exception, several lines of error, a warning, a left-over or half-written output, more than 30 seconds, more than 4 GB. One table at the
end; the exit code is 1 where there is a violation. `--full` makes the numbers of cases of `FULL` instead of going by the clock,
`--cases N` so many, split evenly. "read" counts the cases that no rule for the input or an option has ended.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import documents
from attackers import binary_file, checkpoint, option_set, resumed, run, signals, text_file, workbook

CODES = {0, 2, 3, 5, 130}
ATTACKS = {
    "text files": text_file,
    "binary files": binary_file,
    "workbooks": workbook,
    "checkpoints": checkpoint,
    "option sets": option_set,
    "laws": documents.law,
    "maps": documents.drawn,
    "statements": documents.statement,
    "plans": documents.plan,
    "Ctrl-C, reader": partial(signals, which=signal.SIGINT),
    "kill, reader": partial(signals, which=signal.SIGKILL),
    "Ctrl-C, runs": partial(resumed, which=signal.SIGINT),
    "kill, runs": partial(resumed, which=signal.SIGKILL),
}
FULL = dict(zip(ATTACKS, (90_000, 500, 1_500, 8_000, 10_000, *[5_000] * 4, 50, 50, 50, 50), strict=True))
"""100,000 damaged inputs, 10,000 option sets, 20,000 documents, 100 of each signal."""
LONGEST, LARGEST = 30.0, 4 << 30
"""Seconds that a case may take; bytes of memory."""


def judged(words: list[str], code: int | str, said: str, before: dict[str, bytes]) -> str:
    """What is wrong with an end, "" where nothing is."""
    if code not in CODES:
        return f"ended with {code}"
    if code in (2, 3, 5) and said.count("\n") != 1:
        return f"{said.count(chr(10))} lines of error: {said!r}"
    if any(word in said for word in ("Warning", "Traceback", "a defect of fairpost")):
        return f"on stderr: {said!r}"
    asked = [words[k + 1] for k, word in enumerate(words[:-1]) if word == "--json"]
    unmet = words[0] == "plan" and code == 3 and said.startswith("wrote ")  # the curves are written, no noise will do
    if (
        (code == 0 or unmet)
        and asked == ["out.json"]
        and not Path("out.json").read_text(encoding="utf-8").endswith("}\n")
    ):
        return "no whole output"
    if words[1] in before and Path(words[1]).read_bytes() != before[words[1]]:
        return "the input was changed"
    kept = set(words) if unmet else {words[k + 1] for k, word in enumerate(words[:-1]) if word == "--checkpoint"}
    new = {p.name for p in Path().iterdir()} - set(before)
    left = [name for name in new if name.startswith(".fairpost-") or (code != 0 and before and name not in kept)]
    return f"left behind: {left}" if left else ""


def clear() -> None:
    """An empty working folder."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def attack(
    name: str, seed: int, seconds: float, cases: int | None = None, longest: float = LONGEST
) -> tuple[Counter[str], list[str]]:
    """Cases of one attacker until its time is over, or so many."""
    rng, counts, bad = random.Random(f"{seed} {name}"), Counter[str](), []
    ends = time.monotonic() + seconds
    while counts["cases"] < cases if cases is not None else time.monotonic() < ends:
        clear()
        begun = time.monotonic()
        made = ATTACKS[name](rng)
        before = {} if isinstance(made, tuple) else {p.name: p.read_bytes() for p in Path().iterdir()}
        words, (code, said) = (["a signal"], made) if isinstance(made, tuple) else (made, run(made))
        wrong = judged(words, code, said, before)
        took = time.monotonic() - begun
        if not wrong and took > (1 if before else 3) * longest:  # of a signal: three processes and a wait
            wrong = f"took {took:.0f} s"
        counts["cases"] += 1
        counts["slowest"] = max(counts["slowest"], round(1000 * took))
        counts[f"exit {code}" if isinstance(code, int) else "exception"] += 1
        counts["read"] += code in (0, 3, 5) and "is no statement" not in said
        if wrong:
            counts["violations"] += 1
            bad.append(f"{name}, case {counts['cases']}: {' '.join(words)}: {wrong}")
    return counts, bad


def memory() -> int:
    """The most bytes that this process or one of its children has held."""
    return 1024 * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> None:
    """Every attacker for its part of the time, or for its number of cases, and one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="the numbers of cases of FULL")
    parser.add_argument("--cases", type=int, help="so many in all, in place of a time")
    parser.add_argument("--only", choices=list(ATTACKS), nargs="*", default=list(ATTACKS))
    given = parser.parse_args()
    violations: list[str] = []
    run(["compile"])  # what takes long is not the compiler
    print(
        f"{'attack':14} {'cases':>7} {'exit 0':>7} {'exit 2':>7} {'exit 3':>7} {'exit 5':>7} {'read':>7} {'slowest':>9} {'violations':>11}",
        flush=True,
    )
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "work").mkdir()
            os.chdir(Path(folder, "work"))
            cases = FULL[name] if given.full else None if given.cases is None else -(-given.cases // len(given.only))
            counts, bad = attack(name, given.seed, given.seconds / len(given.only), cases)
            os.chdir("/")
        violations += bad
        cells = [counts[k] for k in ("cases", "exit 0", "exit 2", "exit 3", "exit 5", "read")]
        slowest = f"{counts['slowest'] / 1000:.1f} s"
        print(f"{name:14} {''.join(f'{c:8}' for c in cells)[1:]} {slowest:>9} {counts['violations']:11}", flush=True)
    print(f"most memory: {memory() / 2**30:.2f} GiB")
    if memory() > LARGEST:
        violations.append("a process took more than 4 GiB")
    for line in violations[:20]:
        print(line)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
