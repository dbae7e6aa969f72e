"""How much of the control is subtracted from each entity: the coefficient that leaves the least variance, from a pilot.

    d = e - beta L,     E d = E e for every beta that the runs of the simulation did not choose,     beta* = Cov(e, L) / Var L.

Where nothing is clipped e = L and beta* is 1; where an entity is clipped in every run e does not move, and all of L would be
added variance: beta* is 0. A pilot of other runs of the same seed (from LATER on, which no simulation reaches) tells beta*, so the
mean of d has no bias, and its standard error is that of the simulation's own runs. A pilot of R runs misses beta* by O(R^-1/2), which
costs a part of some 1 / R of the variance, unless a rare run decides. So each half of the pilot finds a beta, held to [0, 1],
and the other half tries it: where both together leave less variance than 0 and than 1 do the beta of all runs is taken, else
the better of these two. An event that only one half has seen changes nothing.

Blocks sum e and e - beta L with their squares. With beta = 1 and beta = 1/2, e - L / 2 being half of e + d,

    Var L = 2 Var e + 2 Var d - 4 Var(e - L / 2),     Cov(e, L) = (Var e + Var L - Var d) / 2.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from fairpost import cancel
from fairpost.engines.montecarlo.backends import Asked, Block
from fairpost.engines.montecarlo.backends.base import Floats, Ints
from fairpost.engines.montecarlo.backends.cpu import Cpu
from fairpost.engines.montecarlo.executors import Threads
from fairpost.engines.montecarlo.totals import Totals

BLOCK, LATER = 16, 2**62
"""How many runs of a pilot are done together, and the number of the first."""
LESS = 1.0 - 1e-9
"""A variance is less than another by more than rounding."""


def size(n: int) -> int:
    """The runs of a pilot for n entities: about two million draws, from 64 to 256 runs, a power of two."""
    return int(2 ** np.clip(np.floor(np.log2(2**21 / n)), 6, 8))


def fitted(asked: Asked, seed: int, threads: int) -> Asked:
    """With the coefficient of every control that does not know its own. The processor computes it, whoever makes the runs."""
    open_ = [
        i for i, one in enumerate(asked.ones) if one.control.linear is not None and one.control.coefficient is None
    ]
    if not open_:
        return asked
    order = [open_[k] for k in Cpu().order(replace(asked, ones=tuple(asked.ones[i] for i in open_)))]
    seen = _seen(asked, order, 1.0, (1, 3), seed, threads), _seen(asked, order, 0.5, (1,), seed, threads)
    ones = list(asked.ones)
    for i, (d, e), (between,) in zip(order, *seen, strict=True):
        control = ones[i].control
        ones[i] = replace(ones[i], control=replace(control, coefficient=_coefficient(control.labels, d, e, between)))
    return replace(asked, ones=tuple(ones))


def _seen(asked: Asked, order: list[int], beta: float, planes: tuple[int, ...], seed: int, threads: int) -> Floats:
    """Sums over the two halves of the pilot (`Totals.plane`), with one coefficient for all."""
    n = asked.counts.n
    controls = [replace(asked.ones[i].control, coefficient=np.full(n, beta)) for i in order]
    ones = tuple(replace(asked.ones[i], control=control) for i, control in zip(order, controls, strict=True))
    work = partial(Cpu().run, Cpu().specify(replace(asked, ones=ones)), seed)
    found = np.empty((len(order), len(planes), 2, n))
    runs = size(n)
    with Threads(threads).session(work) as results:
        parts = iter(results((Block(LATER + k, BLOCK),) for k in range(0, runs, BLOCK)))
        for half in (0, 1):
            totals = Totals(n, controls)
            for _ in range(runs // BLOCK // 2):
                totals.merge(next(parts)[0])
                cancel.check()
            for p in range(len(order)):
                found[p, :, half] = [totals.plane(p, k) for k in planes]
    return found


def _coefficient(labels: Ints | None, d: Floats, e: Floats, between: Floats) -> Floats:
    """beta from two halves' sums of squares of d, e and e - L / 2; entities with the same law have one together."""
    if labels is not None:
        d, e, between = (
            np.stack([np.bincount(labels, v)[labels] for v in two]).astype(float) for two in (d, e, between)
        )
    linear = np.maximum(2.0 * (e + d) - 4.0 * between, 0.0)
    mixed = 0.5 * (e + linear - d)

    def best(cov: Floats, var: Floats) -> Floats:
        return np.clip(cov / np.where(var > 0.0, var, 1.0), 0.0, 1.0)

    other = best(mixed, linear)[::-1]
    left = np.sum(e - 2.0 * other * mixed + other**2 * linear, axis=0)
    ends = e.sum(axis=0), d.sum(axis=0)
    whole = best(mixed.sum(axis=0), linear.sum(axis=0))
    return np.where(left < LESS * np.minimum(*ends), whole, np.where(ends[1] <= ends[0], 1.0, 0.0))
