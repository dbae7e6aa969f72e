"""Careless changes to the source, one at a time, and which of them the tests notice: `make mutate`, or

    python tools/mutate.py --area noise --count 20 --seed 3

Lines are drawn by a seeded draw over all lines of an area that have something to change, one mutation each (see
`mutations.py` for the sorts). A mutant is caught when a test fails or runs out of time. Which tests: after `--lines`, which runs
the suite once under coverage, those that run the changed line, the quick ones first; for a line that no test runs in its own
process (kernels, constants, other processes), and without such a map, the files of its area. `--whole` shows a survivor to
the rest of the suite as well. The table says how many were drawn, caught, survived and are equivalent, and
`.mutate/survivors.json` has the survivors with their diffs. What is the same program in other words stands in
`tools/equivalent_mutants.toml`, with a reason each, by file name, source line and change, so that it survives moves.

`--named` makes the changes of `tools/named_mutants.toml` instead of a draw: those that once passed the suite, each with the test
files that should notice. One whose text is no longer in the source, just once, is an error: who moves the line moves the entry.

Why not mutmut or cosmic-ray: fairpost keeps compiled kernels on disk under a hash of all their sources. mutmut (3.x) puts all
mutants of a function into one module behind a switch (a "trampoline") read at run time, which a compiled kernel cannot
call; cosmic-ray changes the tree in place and would compile every kernel anew for a change to one. Here each worker has its
own copy of the tree, and a mutant of a kernel starts with the machine code of all kernels that cannot hold the changed file:
those of the modules that do not import it, directly or not. So what runs is the changed code, and nothing of it outlives
the mutant.

A run that was stopped goes on where it was: results are kept in `.mutate/results.jsonl` by mutant and by the state of
source and tests. Nothing is ever changed outside `.mutate`.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from mutation_worker import CACHE, PACKAGE, ROOT, TOOLS, WORK, Worker
from mutations import Mutation, mutations

EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
NAMED = ROOT / "tools" / "named_mutants.toml"

AREAS: dict[str, tuple[str, ...]] = {
    "exact": ("engines/exact/*", "engines/expansion/*", "engines/evaluation.py", "engines/moments.py", "bounds/sum_*"),
    "monte-carlo": ("engines/*", "noise/kernels/*", "parallel.py", "compiled/*"),
    "rules": ("rules/*", "partition.py"),
    "noise": ("noise/*",),
    "fairness": ("problems/*", "fairness.py", "accuracy.py", "budgets.py", "bounds/*"),
    "results": ("audit.py", "plan.py", "estimate.py", "allocate.py", "project.py", "results/*"),
    "check": ("check/*",),
    "counts": ("counts.py", "datasets.py", "errors.py", "roots.py", "whole.py", "magnitudes.py", "cancel.py", "palette.py"),
    "hierarchy": ("hierarchy/*",),
    "release": ("release/*",),
    "io": ("io/*",),
    "report": ("report/*",),
    "explore": ("explore/*",),
    "cli": ("cli/*", "__main__.py"),
    "paper": ("paper/*",),
}  # fmt: skip
"""Which files an area has, as patterns below src/fairpost; the first that fits is the area."""

TESTS: dict[str, tuple[str, ...]] = {
    "exact": (
        "engines/exact/test_*", "engines/test_bounds", "engines/test_ramps", "engines/test_weights_and_groups", "engines/expansion/test_*",
        "results/test_intervals", "rules/test_threshold", "rules/test_programme", "problems/test_*", "laws/test_statements",
    ),
    "monte-carlo": (
        "engines/test_parallel", "engines/montecarlo/test_by_definition", "engines/montecarlo/test_*", "noise/test_streams",
        "house/test_kernel_cache", "hierarchy/test_gpu", "results/test_audit", "engines/test_cancel", "engines/test_protocol",
        "results/test_accuracy",
    ),
    "rules": (
        "rules/test_pi", "rules/test_*", "results/test_project", "problems/test_*", "results/test_estimate", "results/test_audit",
        "house/test_extending",
    ),
    "noise": ("noise/test_privacy", "noise/test_mechanisms", "rules/test_threshold", "noise/test_streams"),
    "fairness": (
        "results/test_fairness", "results/test_by_hand", "engines/test_bounds", "engines/test_weights_and_groups", "results/test_intervals",
        "results/test_audit", "problems/test_*", "rules/test_programme", "engines/exact/test_programme*", "cli/test_programmes",
        "engines/test_school_districts",
    ),
    "results": ("results/test_by_hand", "results/test_*", "cli/test_outputs", "cli/test_options", "cli/test_screen", "report/test_*"),
    "check": ("results/test_check",),
    "counts": (
        "problems/test_counts", "engines/test_roots", "engines/test_cancel", "engines/test_protocol", "results/test_arguments",
        "results/test_audit", "io/test_files", "results/test_plan", "engines/test_magnitudes", "cli/test_commands",
    ),
    "hierarchy": ("hierarchy/test_*", "cli/test_levels"),
    "release": ("release/test_*",),
    "io": ("io/test_*", "cli/test_outputs", "results/test_by_hand", "cli/test_commands"),
    "report": ("report/test_sentences", "report/test_*", "cli/test_outputs"),
    "explore": ("explore/test_*", "fuzz/test_requests"),
    "cli": (
        "cli/test_options", "report/test_sentences", "cli/test_outputs", "results/test_arguments", "cli/test_help", "cli/test_*",
        "release/test_*",
    ),
    "paper": ("paper/test_*", "laws/test_statements"),
}  # fmt: skip
"""The tests of an area, the quick ones first, as patterns; what does not exist (yet) is left out."""

LINES = WORK / "lines.json"
"""Which test runs which line: made by `--lines`, by file and its text."""
QUICK = 60.0
"""Seconds of tests in the first round; what is left of those that run the line comes after them."""


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    area: str
    state: str
    """caught, survived or equivalent."""
    by: str
    """The test that noticed, or the reason of an equivalent."""
    seconds: float


# -- what to change ----------------------------------------------------------------------------------------------


def area_of(path: Path) -> str | None:
    """The area of a file of the package; the front door has nothing to change."""
    inner = path.relative_to(PACKAGE).as_posix()
    return next((area for area, globs in AREAS.items() if any(fnmatch(inner, g) for g in globs)), None)


def sources(area: str) -> dict[str, str]:
    """The files of an area and their text."""
    found = sorted(p.relative_to(ROOT) for p in (ROOT / PACKAGE).rglob("*.py"))
    return {p.as_posix(): (ROOT / p).read_text(encoding="utf-8") for p in found if area_of(p) == area}


def draw(area: str, count: int, seed: int) -> list[Mutation]:
    """`count` lines of an area, and one mutation of each: first the sort, then the change."""
    rng = random.Random(f"{seed}:{area}")
    texts = sources(area)
    lines: dict[tuple[str, int], list[Mutation]] = {}
    for file, text in texts.items():
        for m in mutations(file, text):
            lines.setdefault((file, m.line), []).append(m)
    chosen: list[Mutation] = []
    for place in rng.sample(sorted(lines), len(lines)):
        if len(chosen) == count:
            break
        left = lines[place]
        while left:
            kind = rng.choice(sorted({m.kind for m in left}))
            one = rng.choice([m for m in left if m.kind == kind])
            if one.compiles(texts[one.file]):
                chosen.append(one)
                break
            left = [m for m in left if m is not one]
    return chosen


def at(place: str) -> list[tuple[str, Mutation]]:
    """Every mutation of FILE:LINE, or of FILE."""
    name, _, line = place.partition(":")
    found = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        area = area_of(path.relative_to(ROOT))
        if area is not None and (file == name or file.endswith(f"/{name}")):
            text = path.read_text(encoding="utf-8")
            some = [m for m in mutations(file, text) if not line or m.line == int(line)]
            found += [(area, m) for m in some if m.compiles(text)]
    return found


def named() -> list[tuple[str, Mutation]]:
    """The changes that once passed, in the order of the file; all that cannot be made any more are told at once."""
    drawn, wrong = [], []
    for one in tomllib.loads(NAMED.read_text(encoding="utf-8"))["mutant"]:
        file = PACKAGE / one["file"]
        source = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
        start, area = source.find(one["old"]), area_of(file)
        if source.count(one["old"]) != 1 or area is None:
            wrong.append(f"{one['words']}: {one['file']} has this text {source.count(one['old'])} times: {one['old']}")
            continue
        line = source.count("\n", 0, start) + 1
        text = source.splitlines()[line - 1].strip()
        tests = tuple(one.get("tests", ()))
        m = Mutation(file.as_posix(), line, one["words"], start, one["old"], one["new"], text, tests)
        if not m.compiles(source):
            wrong.append(f"{one['words']}: not a change, or not Python: {one['new']}")
        elif not files_of(tests or TESTS[area]):
            wrong.append(f"{one['words']}: there are no tests {', '.join(tests)}")
        drawn.append((area, m))
    if wrong:
        sys.exit("\n".join([f"{NAMED.name}: {len(wrong)} entries must follow the source", *wrong]))
    return drawn


def accepted() -> dict[tuple[str, str, str], str]:
    """The equivalents, by file name, line and change: their reasons."""
    if not EQUIVALENT.exists():
        return {}
    data = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(m["file"], m["line"], m["change"]): m["reason"] for m in data.get("mutant", [])}


def name_of(m: Mutation) -> tuple[str, str, str]:
    """How the list of equivalents names a mutant."""
    return Path(m.file).name, m.text, m.change


def diff(m: Mutation) -> str:
    """The change as a diff without context."""
    text = (ROOT / m.file).read_text(encoding="utf-8")
    lines = difflib.unified_diff(text.splitlines(), m.applied(text).splitlines(), m.file, m.file, lineterm="", n=0)
    return "\n".join(lines)


# -- the run -----------------------------------------------------------------------------------------------------


def files_of(patterns: Iterable[str]) -> list[str]:
    """The test files that exist, in the order of the patterns, each once; with `::` and a name that test of the file."""
    parts = [pattern.partition("::") for pattern in patterns]
    found = [(p, sep + name) for stem, sep, name in parts for p in sorted((ROOT / "tests").glob(f"{stem}.py"))]
    return list(dict.fromkeys(p.relative_to(ROOT).as_posix() + test for p, test in found))


def tests_of(area: str) -> list[str]:
    """The test files of an area."""
    return files_of(TESTS[area])


def rest_of(area: str) -> list[str]:
    """All other test files."""
    every = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("test_*.py"))
    return [t for t in every if t not in tests_of(area)]


def state_of_tree() -> str:
    """A hash of source and tests: results hold for one state."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def hash_of(file: str) -> str:
    """Of one file's text."""
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]


def make_lines(jobs: int, patterns: list[str] | None) -> None:
    """Run the suite once, or some files of it, and keep which test runs which line, beside what is known of other files."""
    WORK.mkdir(exist_ok=True)
    for old in WORK.glob("seen.*.json"):
        old.unlink()
    env = os.environ | {"FAIRPOST_LINES": str(WORK / "seen"), "FAIRPOST_CACHE": str(CACHE)}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(TOOLS)])
    call = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "mutation_lines",
        "-p",
        "no:cacheprovider",
        "-n",
        str(jobs),
        "--tb=line",
    ]
    files = [p for one in patterns or ["*/**/test_*"] for p in sorted((ROOT / "tests").glob(f"{one}.py"))]
    subprocess.run([*call, *map(str, files)], cwd=ROOT, env=env, check=False)
    merge_lines()


def merge_lines() -> None:
    """What every process of a run has seen, beside what is known already of other tests and unchanged sources."""
    known = known_lines()
    seen = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(WORK.glob("seen.*.json"))]
    again = {t.partition("::")[0] for one in seen for t in one["tests"]}
    seconds = {t: s for t, s in known["seconds"].items() if t.partition("::")[0] not in again}
    lines: dict[str, dict[str, list[str]]] = {}
    for file, some in known["lines"].items():
        if (ROOT / file).exists() and known["hashes"][file] == hash_of(file):
            lines[file] = {line: [t for t in tests if t in seconds] for line, tests in some.items()}
    for one in seen:
        seconds |= one["seconds"]
        for file, some in one["lines"].items():
            into = lines.setdefault(file, {})
            for line, tests in some.items():
                into.setdefault(line, []).extend(one["tests"][k] for k in tests)
    hashes = {file: hash_of(file) for file in lines}
    whole = LINES.with_suffix(".new")
    whole.write_text(json.dumps({"hashes": hashes, "seconds": seconds, "lines": lines}), encoding="utf-8")
    whole.replace(LINES)


def known_lines() -> dict[str, Any]:
    """The map, or an empty one."""
    return (
        json.loads(LINES.read_text(encoding="utf-8")) if LINES.exists() else {"hashes": {}, "seconds": {}, "lines": {}}
    )


def rounds_of(m: Mutation, area: str, known: dict[str, Any]) -> list[tuple[list[str], list[str] | None]]:
    """Test files, and the tests in them to run in this order: those it names; those that run the line, in two rounds; the area's.

    What a fixture of a module computes is run by the first test that asks for it and looked at by the others, so the files of the
    area that hold a test that runs the line come last, whole.
    """
    if m.tests:
        return [(files_of(m.tests), None)]
    last = m.line + m.old.count("\n")
    lines = known["lines"].get(m.file, {}) if known["hashes"].get(m.file) == hash_of(m.file) else {}
    hit = {t for k in range(m.line, last + 1) for t in lines.get(str(k), [])}
    hit = {t for t in hit if (ROOT / t.partition("::")[0]).exists()}
    if not hit:
        return [(tests_of(area), None)]
    mine, seconds = set(tests_of(area)), known["seconds"]
    order = sorted(hit, key=lambda t: (t.partition("::")[0] not in mine and seconds[t] > 0.5, seconds[t], t))
    spent, first, second = 0.0, [], []
    for test in order:
        spent += seconds[test]
        (first if spent <= QUICK or not first else second).append(test)
    rounds = [(list(dict.fromkeys(t.partition("::")[0] for t in some)), some) for some in (first, second) if some]
    shared = [file for file in tests_of(area) if file in {t.partition("::")[0] for t in hit}]
    return [*rounds, (shared, None)] if shared else rounds


class Run:
    """The queue of mutants and what is known of them."""

    def __init__(self, given: argparse.Namespace, drawn: list[tuple[str, Mutation]]) -> None:
        self.given, self.drawn, self.tree = given, drawn, state_of_tree()
        self.lock, self.file = threading.Lock(), WORK / "results.jsonl"
        self.known: dict[str, Any] = {}
        if self.file.exists():
            for line in self.file.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):  # a line cut short by a kill
                    row = json.loads(line)
                    self.known[row["key"]] = row
        self.outcomes: dict[Mutation, Outcome] = {}
        self.usual: dict[str, float] = {}
        self.lines, self.seen = known_lines(), LINES.stat().st_mtime_ns if LINES.exists() else 0
        self.drawn.sort(key=lambda one: rounds_of(one[1], one[0], self.lines)[0][1] is None)  # those without a map last

    def key(self, what: str) -> str:
        """Of one result in the file."""
        return hashlib.sha256(f"{self.tree}:{self.given.whole}:{self.given.tests}:{what}".encode()).hexdigest()[:24]

    def remember(self, what: str, row: dict[str, Any]) -> None:
        """One line, at once."""
        with self.lock:
            self.known[self.key(what)] = row
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": self.key(what)} | row) + "\n")

    def baseline(self, area: str, worker: Worker) -> None:
        """The tests must pass as they are; how long they take sets the limit. Fills the cache of kernels."""
        mine = [m.tests for a, m in self.drawn if a == area]
        tests = files_of(t for some in mine for t in some or TESTS[area])
        seen = self.known.get(self.key(f"baseline {area} {tests}"))
        if seen is None:
            print(f"{area}: the tests without a change ...", flush=True)
            started = time.monotonic()
            state, by = worker.pytest(tests, 1800, CACHE, keep=True)
            if state != "passed":
                sys.exit(f"{area}: the tests fail without a change: {by}")
            seen = {"seconds": time.monotonic() - started}
            self.remember(f"baseline {area} {tests}", seen)
        self.usual[area] = seen["seconds"]
        print(f"{area}: {len(tests)} test files or tests, {seen['seconds']:.0f} s", flush=True)

    def one(self, worker: Worker, area: str, m: Mutation) -> Outcome:
        """What becomes of one mutant."""
        reason = accepted().get(name_of(m))
        if reason is not None:
            return Outcome(area, "equivalent", reason, 0.0)
        what = json.dumps(asdict(m))
        seen = self.known.get(self.key(what))
        if seen is None:
            started = time.monotonic()
            limit = self.given.limit or 120 + 3 * self.usual[area]
            with self.lock:
                if (
                    LINES.exists() and LINES.stat().st_mtime_ns != self.seen
                ):  # a map that another run has made meanwhile
                    self.seen, self.lines = LINES.stat().st_mtime_ns, known_lines()
            rounds = rounds_of(m, area, self.lines)
            state, by = worker.judge(m, rounds, limit)
            if state == "none":  # tests have moved since the map was made
                state, by = worker.judge(m, [(tests_of(area), None)], limit)
            if state == "passed" and self.given.whole:
                state, by = worker.judge(m, [(rest_of(area), None)], 1800)
            seen = {
                "state": "survived" if state == "passed" else "caught",
                "by": by,
                "seconds": time.monotonic() - started,
            }
            self.remember(what, seen)
        return Outcome(area, seen["state"], seen["by"], seen["seconds"])

    def work(self, worker: Worker, left: queue.SimpleQueue[tuple[str, Mutation]]) -> None:
        """One worker's loop."""
        with contextlib.suppress(queue.Empty, KeyboardInterrupt):
            while not worker.stopped:
                area, m = left.get_nowait()
                found = self.one(worker, area, m)
                with self.lock:
                    self.outcomes[m] = found
                    done = f"[{len(self.outcomes)}/{len(self.drawn)}]"
                    print(
                        f"{done} {found.state:10s} {found.seconds:5.0f} s  {m.file}:{m.line}  {m.change[:90]}",
                        flush=True,
                    )

    def go(self) -> bool:
        """All of it; False where it was interrupted."""
        workers = [Worker(k) for k in range(min(self.given.jobs, max(1, len(self.drawn))))]
        left: queue.SimpleQueue[tuple[str, Mutation]] = queue.SimpleQueue()
        threads = [threading.Thread(target=self.work, args=(w, left), daemon=True) for w in workers]
        try:
            for area in dict.fromkeys(a for a, _ in self.drawn):
                if self.lines["lines"] and not self.given.baseline and not self.given.named:
                    self.usual[area] = sum(self.lines["seconds"].values())  # the map's run was the baseline
                else:
                    self.baseline(area, workers[0])
            for item in self.drawn:
                left.put(item)
            for t in threads:
                t.start()
            while any(t.is_alive() for t in threads):
                time.sleep(0.2)
        except KeyboardInterrupt:
            for w in workers:
                w.stopped = True
                w.kill()
            for t in threads:
                if t.ident is not None:
                    t.join(20)
            return False
        return True


def show(run: Run) -> None:
    """The table, and the survivors to a file."""
    print(
        f"\n{'area':12s} {'drawn':>6s} {'caught':>7s} {'survived':>9s} {'equivalent':>11s} {'caught of the rest':>19s}"
    )
    areas = list(dict.fromkeys(a for a, _ in run.drawn))
    for label, some in [*((a, [a]) for a in areas), ("all", areas)]:
        states = [o.state for o in run.outcomes.values() if o.area in some]
        caught, survived = states.count("caught"), states.count("survived")
        rate = f"{100 * caught / (caught + survived):.0f} %" if caught + survived else "-"
        print(f"{label:12s} {len(states):6d} {caught:7d} {survived:9d} {states.count('equivalent'):11d} {rate:>19s}")
    alive = [(m, o) for m, o in run.outcomes.items() if o.state == "survived"]
    rows = [asdict(m) | {"area": o.area, "change": m.change, "diff": diff(m)} for m, o in alive]
    (WORK / "survivors.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for m, o in alive:
        print(f"\n{o.area}  {m.file}:{m.line}  {m.change}\n{diff(m)}")


def main() -> int:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--area", action="append", choices=list(AREAS), help="repeatable; all by default")
    parser.add_argument("--count", type=int, help="mutants per area (20); with --only: mutants in all (every one)")
    parser.add_argument("--tests", action="append", metavar="PATTERN", help="these test files instead of the area's")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--jobs", type=int, default=2, help="workers (2)")
    parser.add_argument("--limit", type=float, help="seconds per mutant (two minutes and three times the usual)")
    parser.add_argument("--list", action="store_true", help="say what would be changed, and stop")
    parser.add_argument(
        "--only",
        metavar="FILE[:LINE]",
        action="append",
        help="every mutation of a line or file instead of a draw; repeatable",
    )
    parser.add_argument("--named", action="store_true", help="the changes of named_mutants.toml instead of a draw")
    parser.add_argument("--again", action="store_true", help="the survivors of the last run instead of a draw")
    parser.add_argument(
        "--whole", action="store_true", help="show survivors to the rest of the suite too (minutes each)"
    )
    parser.add_argument(
        "--lines", action="store_true", help="run the suite once, or --tests, keep which test runs which line, and stop"
    )
    parser.add_argument(
        "--baseline", action="store_true", help="run an area's tests without a change first, map or not"
    )
    given = parser.parse_args()
    if given.lines:
        make_lines(given.jobs, given.tests)
        return 0
    areas = given.area or list(AREAS)
    if given.tests:
        TESTS.update({area: tuple(given.tests) for area in AREAS})
    if given.only:
        drawn = [(a, m) for place in given.only for a, m in at(place) if given.area is None or a in areas]
        if given.count and given.count < len(drawn):
            drawn = random.Random(given.seed).sample(drawn, given.count)
    elif given.named:
        drawn = [(a, m) for a, m in named() if a in areas]
    elif given.again:
        names = {
            (r["file"], r["text"], r["change"])
            for r in json.loads((WORK / "survivors.json").read_text(encoding="utf-8"))
        }
        drawn = [
            (a, m) for file in sorted({n[0] for n in names}) for a, m in at(file) if (m.file, m.text, m.change) in names
        ]
    else:
        drawn = [(area, m) for area in areas for m in draw(area, given.count or 20, given.seed)]
    if given.list:
        for area, m in drawn:
            print(f"{area:12s} {m.file}:{m.line}  {m.change}")
        return 0
    WORK.mkdir(exist_ok=True)
    for ending in (signal.SIGINT, signal.SIGTERM):  # also where a shell started this with Ctrl-C ignored
        signal.signal(ending, signal.default_int_handler)
    run = Run(given, drawn)
    whole = run.go()
    show(run)
    return 0 if whole else 130


if __name__ == "__main__":
    sys.exit(main())
