"""Tiny jobs that between them call every kernel with every signature that the package uses.

Kernels take their types from their callers, so the honest list of signatures is the callers themselves: all rules, all
noises, both engines, few and many entities, with groups and without. `tests/house/test_kernel_cache.py` checks that commands compile
nothing after them and that no kernel is left out.

Numba compiles in one thread, so processes share the work (`together`). Jobs of one part call much the same kernels and stay in one
process; what two processes compile at once is the same code, and the later one replaces the file of the first.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import wait
from typing import Any, NamedTuple

import numpy as np

import fairpost as fp
from fairpost.compiled import interrupts


class Job(NamedTuple):
    """One call of many kernels."""

    part: str
    """What stays in one process."""
    label: str
    run: Callable[[], object]


RELEASES = ("none", "nonnegative", "sum", "sum-clipped", "simplex", "simplex-threshold")
SHARES = ("baseline", "pos", "pos-threshold")
MANY = 300
"""Entities enough for the ways that differ with their number."""
LARGE = 300_000
"""Entries of a vector that threads share."""
ROUGH = 1e-2
"""The tolerance of the exact engine: the kernels are the same at every one, and here nobody reads the numbers."""


def jobs() -> list[Job]:
    """What to run, each with its label."""
    few = fp.Counts([53.0, 61.0, 54381.0, 67054.0, 311451.0], weights=[1.0, 2.0, 1.5, 1.0, 3.0])
    spread = np.floor(np.exp(np.linspace(0.0, 9.0, MANY)))
    many = fp.Counts(spread, weights=1.0 + np.arange(MANY) / MANY)
    close = fp.Counts([3.0, 0.0, 5.0, 2.0, 8.0, 1.0])
    unsure = fp.Counts(np.arange(20.0) / 20, weights=1.0 + np.arange(20) / 20)  # S may be negative
    noises = (
        fp.Laplace(scale=10.0),
        fp.Gaussian(sigma=10.0),
        fp.DiscreteLaplace(scale=2.0),
        fp.DiscreteGaussian(sigma=2.0),
    )
    exact, simulated = fp.Exact(rtol=ROUGH), fp.MonteCarlo(runs=8)
    conditional = fp.Conditional(rtol=0.3, points=2**14)
    found: list[Job] = []
    for mechanism in noises:
        for rule in RELEASES + SHARES:
            part, label = "releases" if rule in RELEASES else "shares", f"{rule}, {mechanism.name}"
            for counts in (few, many, close):
                found.append(Job(part, label, partial(_audit, counts, mechanism, rule, exact)))
            found.append(Job(part, f"{label}, in groups", partial(_grouped, mechanism, rule, exact)))
            if rule.startswith(("simplex", "pos")):
                for counts in (many, unsure):
                    found.append(
                        Job(
                            "conditional",
                            f"{label}, conditional",
                            partial(_audit, counts, mechanism, rule, conditional),
                        )
                    )
            label = f"{label}, simulated"
            found.append(Job("simulations", label, partial(_audit, many, mechanism, rule, simulated)))
            found.append(Job("simulations", f"{label}, in groups", partial(_grouped, mechanism, rule, simulated)))
        found.append(Job("laws", f"laws, {mechanism.name}", partial(_laws, mechanism)))
        found.append(Job("hierarchies", f"hierarchy, {mechanism.name}", partial(_levels, mechanism.name)))
    for label, job in (("projection", _projections), ("constraints", _constraints)):
        found.append(Job("simulations", label, job))
    found.append(Job("releases", "a small total", partial(_audit, close, noises[0], "simplex", fp.Exact(), total=6.0)))
    two = fp.Counts([1.0, 2.0, 300.0, 400.0, 500.0])  # whose shares may be clipped
    for rule in ("pos", "pos-threshold"):
        found.append(
            Job("shares", f"{rule}, two at risk", partial(_audit, two, fp.DiscreteLaplace(scale=1.0), rule, fp.Exact()))
        )
    found.append(Job("simulations", "sampling", partial(_samples, noises)))
    longest = ("hierarchies", "conditional", "shares", "releases", "laws", "simulations")
    return sorted(found, key=lambda job: longest.index(job.part))


def together(
    processes: int, report: Callable[[int, int, str], None], made: Callable[[], list[Job]] = jobs
) -> list[str]:
    """All jobs, by so many processes; the names of the kernels that were compiled."""
    some, compiled, done = made(), list[str](), 0
    waiting = list(dict.fromkeys(job.part for job in some))
    left, alive = set(waiting), dict[Any, Any]()
    context = multiprocessing.get_context("spawn")
    try:
        for _ in range(min(processes, len(waiting))):
            ours, theirs = context.Pipe()
            process = context.Process(target=_share, args=(theirs, made))
            process.start()
            theirs.close()
            alive[ours] = process
        while alive:
            ready: list[Any] = wait(list(alive))
            for pipe in ready:
                try:
                    part, label, names = pipe.recv()
                except EOFError:
                    alive.pop(pipe).join()
                    continue
                if label is None:
                    left.discard(part)
                    pipe.send(waiting.pop(0) if waiting else None)
                    continue
                done, compiled = done + 1, compiled + names
                report(done, len(some), label)
    finally:
        for process in alive.values():
            process.kill()
            process.join()
    with interrupts.told(compiled.append):  # what a process left that ended before its time
        for job in some:
            if job.part in left:
                report(done, len(some), job.label)
                job.run()
    return compiled


def _share(pipe: Any, made: Callable[[], list[Job]]) -> None:
    """One process: asks for a part, runs it and tells of every job, until there is none. At Ctrl-C whoever started it ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    some = made()
    pipe.send(("", None, []))
    while (part := pipe.recv()) is not None:
        for job in some:
            if job.part == part:
                names: list[str] = []
                with interrupts.told(names.append):
                    job.run()
                pipe.send((part, job.label, names))
        pipe.send((part, None, []))


def _audit(counts: fp.Counts, mechanism: Any, rule: Any, engine: Any, **more: Any) -> None:
    """An answer or a refusal: both have called their kernels."""
    with contextlib.suppress(fp.FairpostError):
        fp.audit(counts, mechanism, rule, engine=engine, **more)


def _grouped(mechanism: Any, rule: str, engine: Any) -> None:
    counts = fp.Counts([5.0, 80.0, 300.0, 12.0, 40.0, 1.0], groups=list("aabbcc"))
    _audit(counts, mechanism, rule, engine, by_group=True)


def _laws(mechanism: Any) -> None:
    """The laws that come with the package, as written and repaired, with what they leave to take up, both engines."""
    from fairpost.problems.programme import NAMES, builtin_text

    base = np.linspace(200.0, 3000.0, MANY)
    given: dict[str, Any] = {
        "base": base,
        "weights": 4000.0 + np.arange(MANY),
        "groups": ["ab"[i % 2] for i in range(MANY)],
    }
    counts = fp.Counts(np.floor(base * np.linspace(0.02, 0.4, MANY)), **given)
    last = {"last": np.full(MANY, 1.0 / MANY)}
    targeted = builtin_text("title1-targeted")
    held, floored = (fp.Programme.from_toml(targeted.replace(f"# {key}", key)) for key in ("hold_harmless", "minimum"))
    few = fp.Counts(counts.values[-20:], base=base[-20:])
    _audit(few, mechanism, "as-written", fp.Exact(rtol=ROUGH), programme="title1-targeted")
    for engine in (fp.Exact(rtol=ROUGH), fp.MonteCarlo(runs=8)):
        for law in NAMES:
            for rule in ("as-written", "levelled", "signed", "no-loss"):
                _audit(counts, mechanism, rule, engine, programme=law)
        _audit(counts, mechanism, "as-written", engine, programme=held, **last)
        _audit(counts, mechanism, "as-written", engine, programme=floored)


def _levels(kind: str) -> None:
    """Every rule on a small tree, by prefixes, by the formula and by simulation, with areas and whole numbers."""
    from fairpost.hierarchy import Hierarchy, LevelNoise, Simulation, audit_hierarchy
    from fairpost.hierarchy.histogram import audit_histogram
    from fairpost.hierarchy.rules import RULES, Unclipped, rule_of
    from fairpost.hierarchy.total_first import TotalFirst

    ids = [f"{i // 20}{i // 5:02}{i:03}" for i in range(60)]
    tree = Hierarchy.from_geoids(ids[::-1], {"a": 1, "b": 3, "c": 6})
    x = np.floor(np.linspace(0.0, 90.0, 60))
    areas = ["xyz"[i % 3] for i in range(60)]
    about: dict[str, Any] = {"areas": areas, "groups": areas, "simulation": Simulation(runs=64)}
    for sigmas in ([3.0, 4.0, 5.0], [2.0, 3.0, 4.0, 5.0]):
        noise = LevelNoise(tree, sigmas=sigmas, kind=kind)
        for name in (*RULES, Unclipped.name):
            rule = rule_of(name, tree)
            for method in ("mean-field", "monte-carlo"):
                with contextlib.suppress(fp.FairpostError):
                    audit_hierarchy(x, noise, rule, method=method, **about)
            rule.apply(tree.sums(x), noise)
            if name != Unclipped.name:
                whole = rule_of(name, tree, whole=True)
                whole.apply(tree.sums(x), noise)
                audit_hierarchy(x, noise, whole, method="monte-carlo", **about)
        for name in ("top-down", "blue-down"):
            audit_histogram({"p": x, "q": x[::-1].copy()}, noise, name, totals=noise, **about)
            y = tree.sums(x)
            TotalFirst.of(rule_of(name, tree), noise, noise).apply(2 * y, np.stack([y, y], axis=1))


def _projections() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(0.0, 10.0, LARGE)
    fp.project_simplex(y, 1000.0)
    fp.project_simplex(y[:50], 1000.0)
    fp.project_simplex(y[:60].reshape(6, 10), 1000.0)
    frozen = y[:50].copy()
    frozen.flags.writeable = False
    fp.project_simplex(frozen, 1000.0)
    fp.project_simplex(frozen.reshape(5, 10), 1000.0)
    for how in SHARES:
        if how != "pos-threshold":
            fp.allocate(frozen, np.ones(50), how=how)


def _constraints() -> None:
    A = np.vstack([np.ones(6), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    counts = fp.Counts([5.0, 80.0, 300.0, 12.0, 40.0, 1.0])
    b = A @ counts.values
    for made in (fp.Affine, fp.AffineNonnegative):
        for mechanism in (fp.Laplace(scale=10.0), fp.DiscreteLaplace(scale=10.0)):
            _audit(counts, mechanism, made(A, b), fp.MonteCarlo(runs=8))
    for made, wrong in ((fp.Affine, [[1.0, 1.0], [1.0, 1.0]]), (fp.AffineNonnegative, [[1.0, 1.0], [1.0, -1.0]])):
        with contextlib.suppress(fp.FairpostError):  # the proof that nothing satisfies them has kernels of its own
            made(np.array(wrong), np.array([1.0, 2.0]))


def _samples(noises: tuple[Any, ...]) -> None:
    for mechanism in noises:
        mechanism.sample(10, fp.Stream(0, 0))
        mechanism.sample(LARGE, fp.Stream(0, 0))
