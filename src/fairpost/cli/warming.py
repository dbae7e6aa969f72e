"""Small questions that between them call every kernel with the types that commands use.

Kernels take their types from their callers, so the honest list of signatures is the callers themselves: all rules, all noises,
every engine, few and many entities, with groups and without. tests/house/test_kernel_cache.py checks that commands compile nothing after
them. An answer or a refusal: both have called their kernels, and nobody reads the numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import fairpost as fp

RULES = (
    *("none", "nonnegative", "sum", "sum-clipped", "simplex", "simplex-threshold"),
    *("baseline", "pos", "pos-threshold"),
)
MANY, LARGE = 300, 300_000
"""Entities enough for the ways that differ with their number; entries of a vector that threads share."""
ROUGH, SIMULATED = fp.Exact(rtol=1e-2), fp.MonteCarlo(runs=8)

Asked = tuple[str, Callable[[], object]]


def questions() -> list[Asked]:
    """What to ask, each with its label."""
    few = fp.Counts([53.0, 61.0, 54381.0, 67054.0, 311451.0], weights=[1.0, 2.0, 1.5, 1.0, 3.0])
    two = fp.Counts([1.0, 2.0, 300.0, 400.0, 500.0])  # whose shares may be clipped
    close = fp.Counts([3.0, 0.0, 5.0, 2.0, 8.0, 1.0])
    many = fp.Counts(np.floor(np.exp(np.linspace(0.0, 9.0, MANY))), weights=1.0 + np.arange(MANY) / MANY)
    unsure = fp.Counts(np.arange(20.0) / 20, weights=1.0 + np.arange(20) / 20)  # S may be negative
    grouped = fp.Counts([5.0, 80.0, 300.0, 12.0, 40.0, 1.0], groups=list("aabbcc"))
    conditional = fp.Conditional(rtol=0.3, points=2**14)
    noises = (
        *(fp.Laplace(scale=10.0), fp.Gaussian(sigma=10.0)),
        *(fp.DiscreteLaplace(scale=2.0), fp.DiscreteGaussian(sigma=2.0)),
    )
    found: list[Asked] = []
    for M in noises:
        for rule in RULES:
            each = [(x, ROUGH) for x in (few, many, close)] + [(x, conditional) for x in (many, unsure)]
            asked = [partial(_ask, x, M, rule, engine) for x, engine in (*each, (many, SIMULATED))]
            asked += [partial(_ask, grouped, M, rule, engine, by_group=True) for engine in (ROUGH, SIMULATED)]
            found += [(f"{rule}, {M.name}", ask) for ask in asked]
        found += [(f"laws, {M.name}", partial(_laws, M)), (f"trees, {M.name}", partial(_trees, M.name))]
    exact = (close, "simplex"), (two, "pos"), (two, "pos-threshold")
    found += [("few at risk", partial(_ask, x, M, rule, fp.Exact())) for x, rule in exact for M in noises[::2]]
    return [
        *found,
        ("projections", _projections),
        ("constraints", _constraints),
        ("samples", partial(_samples, noises)),
    ]


def _ask(counts: fp.Counts, M: Any, rule: Any, engine: Any, **more: Any) -> None:
    with contextlib.suppress(fp.FairpostError):
        fp.audit(counts, M, rule, engine=engine, **more)


def _laws(M: Any) -> None:
    """The laws that come with the package, as written and repaired, with what they leave to take up, both engines."""
    from fairpost.problems.programme import NAMES, builtin_text

    base, groups = np.linspace(200.0, 3000.0, MANY), ["ab"[i % 2] for i in range(MANY)]
    x = np.floor(base * np.linspace(0.02, 0.4, MANY))
    counts = fp.Counts(x, base=base, weights=4000.0 + np.arange(MANY), groups=groups)
    targeted = builtin_text("title1-targeted")
    held, floored = (fp.Programme.from_toml(targeted.replace(f"# {key}", key)) for key in ("hold_harmless", "minimum"))
    _ask(fp.Counts(x[-20:], base=base[-20:]), M, "as-written", ROUGH, programme="title1-targeted")
    for engine in (ROUGH, SIMULATED):
        for rule in ("as-written", "levelled", "signed", "no-loss"):
            for law in NAMES:
                _ask(counts, M, rule, engine, programme=law)
        _ask(counts, M, "as-written", engine, programme=held, last=np.full(MANY, 1.0 / MANY))
        _ask(counts, M, "as-written", engine, programme=floored)


def _trees(kind: str) -> None:
    """Every rule on a small tree, by prefixes, by the formula and by simulation, with areas and whole numbers."""
    from fairpost.hierarchy import Hierarchy, LevelNoise, Simulation, audit_hierarchy
    from fairpost.hierarchy.histogram import audit_histogram
    from fairpost.hierarchy.rules import RULES, Unclipped, rule_of
    from fairpost.hierarchy.total_first import TotalFirst

    tree = Hierarchy.from_geoids([f"{i // 20}{i // 5:02}{i:03}" for i in range(60)][::-1], {"a": 1, "b": 3, "c": 6})
    x, areas = np.floor(np.linspace(0.0, 90.0, 60)), ["xyz"[i % 3] for i in range(60)]
    y, about = tree.sums(x), {"areas": areas, "groups": areas, "simulation": Simulation(runs=64)}
    for sigmas in ([3.0, 4.0, 5.0], [2.0, 3.0, 4.0, 5.0]):
        noise = LevelNoise(tree, sigmas=sigmas, kind=kind)
        for name in (*RULES, Unclipped.name):
            for whole in (False, True)[: 1 + (name != Unclipped.name)]:
                rule = rule_of(name, tree, whole=whole)
                rule.apply(y, noise)
                for method in ("mean-field", "monte-carlo"):
                    with contextlib.suppress(fp.FairpostError):
                        audit_hierarchy(x, noise, rule, method=method, **about)  # type: ignore[arg-type]
        for name in ("top-down", "blue-down"):
            audit_histogram({"p": x, "q": x[::-1].copy()}, noise, name, totals=noise, **about)  # type: ignore[arg-type]
            TotalFirst.of(rule_of(name, tree), noise, noise).apply(2 * y, np.stack([y, y], axis=1))


def _projections() -> None:
    y = np.random.default_rng(0).normal(0.0, 10.0, LARGE)
    frozen = y[:50].copy()
    frozen.flags.writeable = False
    for given in (y, y[:50], y[:60].reshape(6, 10), frozen, frozen.reshape(5, 10)):
        fp.project_simplex(given, 1000.0)
    for how in ("baseline", "pos"):
        fp.allocate(frozen, np.ones(50), how=how)


def _constraints() -> None:
    A, x = np.vstack([np.ones(6), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]), np.array([5.0, 80.0, 300.0, 12.0, 40.0, 1.0])
    for made, wrong in ((fp.Affine, [[1.0, 1.0], [1.0, 1.0]]), (fp.AffineNonnegative, [[1.0, 1.0], [1.0, -1.0]])):
        for M in (fp.Laplace(scale=10.0), fp.DiscreteLaplace(scale=10.0)):
            _ask(fp.Counts(x), M, made(A, A @ x), SIMULATED)
        with contextlib.suppress(fp.FairpostError):  # the proof that nothing satisfies them has kernels of its own
            made(np.array(wrong), np.array([1.0, 2.0]))


def _samples(noises: tuple[Any, ...]) -> None:
    for M in noises:
        for n in (10, LARGE):
            M.sample(n, fp.Stream(0, 0))
