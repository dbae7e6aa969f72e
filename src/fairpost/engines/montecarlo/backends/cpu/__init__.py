"""The processor of the machine: Numba kernels, one block per call."""

from __future__ import annotations

from collections.abc import Sequence

from fairpost.engines.montecarlo.backends.base import Asked, Block, Partial
from fairpost.engines.montecarlo.backends.cpu.blocks import Spec, compiled, run_block, specify


class Cpu:
    """The compiled post-processings together, on the same noise; then the others."""

    name = "cpu"

    def order(self, asked: Asked) -> list[int]:
        """The compiled ones first."""
        return sorted(range(len(asked.ones)), key=lambda i: not compiled(asked.ones[i].pi, asked))

    def specify(self, asked: Asked) -> Spec:
        """See `Backend`."""
        return specify(asked)

    def followed(self, spec: Spec, p: int) -> tuple[int, int] | None:
        """An entity of the smallest and one of the largest count, for the compiled ones."""
        fast = spec.fast
        if p >= fast.codes.size or fast.who.size == 0:
            return None
        return int(fast.who[0]), int(fast.who[fast.split])

    def at_once(self, spec: Spec, runs: int) -> int:
        """One: a thread has enough to do with it."""
        return 1

    def run(self, spec: Spec, seed: int, blocks: Sequence[Block]) -> list[Partial]:
        """See `Backend`."""
        return [run_block(spec, seed, block) for block in blocks]
