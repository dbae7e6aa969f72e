"""What a run that has not been seen may add to an output, of a map that theory knows nothing about: found by trying.

The rare-event term of an interval (`engines.montecarlo.intervals`) is log(2/delta) s / R: an event of probability p that R runs
have not shown moves the mean of what is left of entity i by p s_i, p <= log(2/delta) / R. s_i is the larger of

    JUMPS standard deviations of d_i in RUNS runs: what the noise of all moves at once; and
    what d_i moved when i's own noise was pushed to +-2.5, +-5 and +-10 deviations, while the others had noise of a run: a part of
    the entities at a time, so that many are pushed in one run and yet each is seen by itself.

So the term covers whatever noise of up to ten deviations does to the count that it is added to (a threshold that is reached, a
payment that is lost), and ten deviations of what the others do to it; Laplace noise is larger once in 1.4 million draws, Gaussian
noise never. It does not cover what depends on a coincidence of several counts that is neither near nor common. A map that fails where it is
pushed is taken to move by its whole range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.noise import Mechanism, Stream
from fairpost.rules.control import JUMPS

if TYPE_CHECKING:
    from fairpost.rules.base import PostProcessing

Floats = NDArray[np.float64]
RUNS, PARTS, SEED = 32, 16, 2**63 + 7
PUSHES = (2.5, 5.0, JUMPS)
"""Deviations of the noise."""


def reach(
    pi: PostProcessing, counts: Counts, mechanism: Mechanism, linear: Callable[[Floats], Floats] | None = None
) -> Floats:
    """s of each entity; `linear`: what the simulation subtracts."""
    n, spread = counts.n, mechanism.deviation
    noise = np.stack([mechanism.sample(n, Stream(SEED, r)) for r in range(RUNS)])

    def left(rows: Floats) -> Floats:
        out = pi.simulated(counts.values + rows, SEED, 0).values
        return out if linear is None else np.asarray(out - linear(rows), dtype=np.float64)

    seen = left(noise)
    middle, found = seen.mean(axis=0), JUMPS * seen.std(axis=0)
    whole = 1.0 if pi.problem.shares else JUMPS * spread
    parts = min(PARTS, n)
    turn = np.where(np.arange(n) // parts % 2 == 0, 1.0, -1.0)  # half of a part up, half down: the sum hardly moves
    steps = np.array([k * spread for push in PUSHES for k in (push, -push)])
    steps = np.sign(steps) * np.maximum(np.round(np.abs(steps)), 1.0) if mechanism.discrete else steps
    for part in range(parts):
        who = np.arange(part, n, parts)
        rows = noise[: steps.size].copy()
        rows[:, who] = steps[:, None] * turn[who]
        try:
            moved = np.abs(left(rows) - middle)[:, who].max(axis=0)
        except Exception:  # a user's function, on counts that it may never see
            moved = np.full(who.size, whole)
        found[who] = np.maximum(found[who], moved)
    return np.asarray(found)
