"""The processor of the machine: Numba kernels, one block per call."""

from __future__ import annotations

from collections.abc import Sequence

from fairpost.engines.montecarlo.backends.base import Asked, Backend, Block, Partial
from fairpost.engines.montecarlo.backends.cpu.blocks import Spec, order, run_block, specify


class Cpu(Backend):
    """The compiled post-processings together, on the same noise; then the others."""

    name = "cpu"

    def order(self, asked: Asked) -> list[int]:
        """See `Backend`."""
        return order(asked)

    def specify(self, asked: Asked) -> Spec:
        """See `Backend`."""
        return specify(asked)

    def run(self, spec: Spec, seed: int, blocks: Sequence[Block]) -> list[Partial]:
        """See `Backend`."""
        return [run_block(spec, seed, block) for block in blocks]
