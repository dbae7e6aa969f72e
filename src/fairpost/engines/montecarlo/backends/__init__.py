"""Where blocks of runs are computed: one file per kind of device, behind one seam.

A backend turns what is asked into a specification (plain arrays, picklable) and runs a block of it:

    specify(asked) -> Spec                 once
    run(spec, seed, block) -> Partial      for each block, pure: the result depends on its three arguments alone

Run r of a seed draws the noise of stream (seed, r) on every backend, a block adds its runs up in order, and blocks are
merged in order (`totals`), so that the bits do not depend on who computes which block and when.
"""

from fairpost.engines.montecarlo.backends.base import Asked, Backend, Block, Partial
from fairpost.engines.montecarlo.backends.cpu import Cpu
from fairpost.errors import ParameterError

BACKENDS: dict[str, type[Backend]] = {"cpu": Cpu}


def backend_of(name: str) -> Backend:
    """A backend by its name."""
    if name not in BACKENDS:
        raise ParameterError(f"`backend` must be one of {', '.join(BACKENDS)}, got {name!r}")
    return BACKENDS[name]()


__all__ = ["BACKENDS", "Asked", "Backend", "Block", "Partial", "backend_of"]
