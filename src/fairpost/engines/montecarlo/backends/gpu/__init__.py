"""A CUDA device: the same noise words as the processor, the same controls and moments, agreement to rounding."""

from __future__ import annotations

from collections.abc import Sequence

from fairpost.engines.montecarlo.backends.base import Asked, Backend, Block, Partial
from fairpost.engines.montecarlo.backends.cpu.blocks import order
from fairpost.engines.montecarlo.backends.gpu import device
from fairpost.engines.montecarlo.backends.gpu.flat import (
    Spec,
    blocks_at_once,
    refusal,
    rows_at_once,
    run_blocks,
    specify,
)


class Gpu(Backend):
    """The rules of all entities together first; then those by group and with a threshold."""

    name = "gpu"

    def order(self, asked: Asked) -> list[int]:
        """See `Backend`."""
        return order(asked)

    def specify(self, asked: Asked) -> Spec:
        """See `Backend`; an error where there is no GPU, or it does not cover what is asked."""
        there, spec = device.gpu(), specify(asked)
        groups = max((one.starts.size - 1 for one in spec.grouped), default=0)
        rows_at_once(asked.counts.n, 4, there.free(), spec.count, groups)
        return spec

    def at_once(self, spec: Spec, runs: int) -> int:
        """See `Backend`: handing over a small block takes longer than the block."""
        return blocks_at_once(spec, runs, device.gpu().free())

    def run(self, spec: Spec, seed: int, blocks: Sequence[Block]) -> list[Partial]:
        """See `Backend`."""
        return run_blocks(spec, device.gpu(), seed, blocks)


__all__ = ["Gpu", "refusal"]
