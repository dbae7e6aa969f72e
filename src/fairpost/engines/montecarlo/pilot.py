"""How much of the control is subtracted from each entity: the coefficient that leaves the least variance, from a pilot.

    d = e - beta L,     E d = E e for every beta that the runs of the simulation did not choose,     beta* = Cov(e, L) / Var L.

Where nothing is clipped e = L and beta* is 1; where an entity is clipped in every run e does not move, and all of L would be
added variance: beta* is 0. A pilot of RUNS other runs of the same seed (from LATER on, which no simulation reaches) tells
beta*, so the mean of d has no bias, and its standard error is that of the simulation's own runs. The pilot misses beta* by
O(RUNS^-1/2), which costs a part of some 1 / RUNS of the variance. beta is held to [0, 1]. Where the pilot saw d = 0 alone beta is 1,
as L captures all that it saw; else, where it saw e stand still, 0.

Blocks sum e and e - beta L with their squares. With beta = 1 and beta = 1/2, e - L / 2 being half of e + d,

    Var L = 2 Var e + 2 Var d - 4 Var(e - L / 2),     Cov(e, L) = (Var e + Var L - Var d) / 2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpost import cancel
from fairpost.engines.montecarlo.backends import Asked, Block
from fairpost.engines.montecarlo.backends.base import Floats
from fairpost.engines.montecarlo.backends.cpu import Cpu
from fairpost.engines.montecarlo.executors import Job, Threads
from fairpost.engines.montecarlo.totals import Totals
from fairpost.rules.control import Control

RUNS, BLOCK, LATER = 64, 16, 2**62
"""How many runs a pilot has, how many are done together, and the number of the first."""
NEAR = 1e-9
"""A coefficient as near to 1 as this is 1: the difference is rounding."""


def fitted(asked: Asked, seed: int, threads: int) -> Asked:
    """With the coefficient of every control that does not know its own. The processor computes it, whoever makes the runs."""
    open_ = [
        i for i, one in enumerate(asked.ones) if one.control.linear is not None and one.control.coefficient is None
    ]
    if not open_:
        return asked
    order = [open_[k] for k in Cpu().order(replace(asked, ones=tuple(asked.ones[i] for i in open_)))]
    whole, half = (_seen(asked, order, beta, seed, threads) for beta in (1.0, 0.5))
    ones = list(asked.ones)
    for i, (d, e), (between, _) in zip(order, whole, half, strict=True):
        control = ones[i].control
        ones[i] = replace(ones[i], control=replace(control, coefficient=_coefficient(control, d, e, between)))
    return replace(asked, ones=tuple(ones))


def _seen(asked: Asked, order: list[int], beta: float, seed: int, threads: int) -> list[tuple[Floats, Floats]]:
    """The sums of squared deviations of d and of e over the pilot's runs, with one coefficient for all."""
    n = asked.counts.n
    controls = [replace(asked.ones[i].control, coefficient=np.full(n, beta)) for i in order]
    ones = tuple(replace(asked.ones[i], control=control) for i, control in zip(order, controls, strict=True))
    job = Job(Cpu.name, Cpu().specify(replace(asked, ones=ones)), seed)
    totals = Totals(n, controls)
    with Threads(min(threads, RUNS // BLOCK)).session(job) as results:
        for parts in results((Block(LATER + k, BLOCK),) for k in range(0, RUNS, BLOCK)):
            totals.merge(parts[0])
            cancel.check()
    return [(totals.plane(p, 1), totals.plane(p, 3)) for p in range(len(ones))]


def _coefficient(control: Control, d: Floats, e: Floats, between: Floats) -> Floats:
    """beta from the sums of squares of d, e and e - L / 2; entities with the same law have one together."""
    if control.labels is not None:
        law = control.labels
        d, e, between = (np.bincount(law, values).astype(np.float64)[law] for values in (d, e, between))
    linear = 2.0 * (e + d) - 4.0 * between
    beta = 0.5 * (e + linear - d) / np.where(linear > 0.0, linear, 1.0)
    beta = np.where((d == 0.0) | (linear <= 0.0) | (np.abs(beta - 1.0) < NEAR), 1.0, np.clip(beta, 0.0, 1.0))
    return np.where((e == 0.0) & (d > 0.0), 0.0, beta)
