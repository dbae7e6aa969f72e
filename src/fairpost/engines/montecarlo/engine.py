"""The Monte-Carlo engine: any mechanism, any post-processing, by simulation with intervals that cover."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fairpost.accuracy import Accuracy
from fairpost.engines.base import Answer, Drawn, Question, Refusal
from fairpost.engines.montecarlo.backends import Asked, Backend, chosen
from fairpost.engines.montecarlo.backends.base import One, Partial
from fairpost.engines.montecarlo.backends.cpu import Cpu
from fairpost.engines.montecarlo.estimates import Sampled, sampled
from fairpost.engines.montecarlo.executors import Results, within_memory
from fairpost.engines.montecarlo.pilot import fitted
from fairpost.engines.montecarlo.simulation import Job, Simulation, on, simulate, unless_withdrawn
from fairpost.engines.montecarlo.totals import Totals
from fairpost.errors import ParameterError
from fairpost.rules import PostProcessing

FEEDERS = 3
"""Threads that hand blocks to a GPU: enough that it never waits for one."""
LEAST = 1000
"""No relative tolerance is tested below so many runs."""


@dataclass(frozen=True)
class MonteCarlo(Simulation):
    """Simulation: run r draws its noise from stream (seed, r), for all post-processings the same.

    The result is the same bit for bit on any number of threads, on a cluster of like processors and after a resumption. The parameters
    are those of a `Simulation`, and:

    Parameters
    ----------
    runs
        The number of runs, or with `rtol` the most that may be made.
    rtol
        Stop as soon as the interval of every alpha lies within rtol of its value. Looked at after 1, 2, 3, 4, 6, 8, 12,
        ... blocks, so that the end is the same whoever computes.
    block
        Runs per block, the unit of work and of the merging order. Default: by the number of entities.

    """

    runs: int = 10_000
    rtol: float | None = None
    block: int | None = None
    name: ClassVar[str] = "monte-carlo"
    joint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rtol is not None and not 0 < self.rtol < 1:
            raise ParameterError(f"`rtol` must be above 0 and below 1, got {self.rtol!r}")

    def supports(self, question: Question) -> str | None:
        """None: every mechanism and every post-processing."""
        return None

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """The moments of each post-processing, all on the same noise.

        Ctrl-C ends the simulation with what the finished blocks have shown (`sample.interrupted`), if there is one. A
        question that is withdrawn (`cancel`) raises `Cancelled` between two blocks, with the same as `reached`.
        """
        made = zip(question.pis, question.truths, strict=True)
        ones = tuple(One(pi, truth, pi.control(question.counts, question.mechanism)) for pi, truth in made)
        asked = Asked(question.counts, question.mechanism, ones)
        local = self.backend if self.cluster is None or self.backend != "auto" else "cpu"  # workers may have none
        backend, where = chosen(local, asked)
        order = backend.order(asked)
        asked = fitted(asked, int(self.seed), self._threads(Cpu(), asked)[0])
        job = ListJob(self, backend, replace(asked, ones=tuple(asked.ones[i] for i in order)))
        interrupted = simulate(self, job, None if self.rtol is None else job.enough)
        notes = [word for word in (where, job.fewer) if word is not None]
        found = [_answer(job.result(p, interrupted), job.asked.ones[p].pi, notes) for p in range(len(ones))]
        return unless_withdrawn(tuple(found[order.index(i)] for i in range(len(ones))), interrupted)

    def _threads(self, backend: Backend, asked: Asked) -> tuple[int, str | None]:
        """How many threads compute, and a word where they are fewer than there should be.

        A block has six sums per entity and rule, and some rows of noise and of outputs.
        """
        if backend.name == "gpu":  # whose memory is planned where it is
            return FEEDERS if self.threads is None else self.threads, None
        return within_memory(self.threads, 8 * asked.counts.n * (6 * len(asked.ones) + 16))


def default_block(n: int) -> int:
    """Runs per block for n entities: about eight million draws, from 64 to 4096 runs, a power of two."""
    return int(2 ** np.clip(np.floor(np.log2(2**23 / n)), 6, 12))


def _answer(s: Sampled, pi: PostProcessing, notes: list[str]) -> Answer:
    groups = 1 if pi.partition is None else len(pi.partition.labels)
    return Answer(
        method=MonteCarlo.name,
        bias=s.bias,
        accuracy=Accuracy("interval", s.half_width),
        mse=s.mse,
        mse_accuracy=Accuracy("interval", s.mse_half_width),
        zero=s.zero,
        zero_accuracy=Accuracy("interval", s.zero_half_width),
        alpha=s.alpha,
        pair=s.pair,
        total_off=s.total_off,
        degenerate=s.degenerate / (s.runs * groups),
        note="; ".join([s.statement, *notes]),
        drawn=Drawn(s.runs, s.seed, s.confidence),
        sample=s,
    )


class ListJob(Job):
    """Some post-processings of a list, simulated on the same noise."""

    def __init__(self, engine: MonteCarlo, backend: Backend, asked: Asked) -> None:
        self.engine, self.backend, self.asked = engine, backend, asked
        self.spec = backend.specify(asked)
        self.totals = Totals(asked.counts.n, [one.control for one in asked.ones])
        self.block = default_block(asked.counts.n) if engine.block is None else int(engine.block)
        self.blocks_at_once = backend.at_once(self.spec, self.block)
        self.threads, fewer = engine._threads(backend, asked)
        self.fewer = fewer if engine.cluster is None else None
        """A word where memory allows fewer threads than there should be."""

    @property
    def tally(self) -> Any:
        """See `Job`."""
        return self.totals.tally

    def about(self) -> Iterable[Any]:
        """See `Job`; the device decides the last bits."""
        counts, pis = self.asked.counts, [one.pi for one in self.asked.ones]
        return self.backend.name, counts.values, counts.weights, self.asked.mechanism, pis

    def state(self) -> dict[str, Any]:
        """See `Job`."""
        return self.totals.state()

    def session(self) -> AbstractContextManager[Results]:
        """See `Job`."""
        return on(self.engine, self.threads, self.backend.run, self.spec)

    def add(self, part: Partial) -> None:
        """See `Job`."""
        self.totals.merge(part)

    def enough(self) -> bool:
        """Whether the interval of every alpha lies within rtol of its value."""
        rtol = self.engine.rtol or 0.0
        if self.runs < LEAST:
            return False
        alphas = [self.result(p, False).alpha for p in range(len(self.asked.ones))]
        return all(max(a.high - a.value, a.value - a.low) <= rtol * a.value for a in alphas)

    def result(self, p: int, interrupted: bool) -> Sampled:
        """What the merged blocks say about post-processing p; theory may know the pair that attains alpha."""
        engine, one, ends = self.engine, self.asked.ones[p], self.backend.followed(self.spec, p)
        known = ends is not None and one.pi.extremes(self.asked.counts, self.asked.mechanism) is not None
        return sampled(
            self.totals, p, one.control, known, ends or (0, 0), int(engine.seed), engine.confidence, interrupted
        )
