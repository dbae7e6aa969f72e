"""Where blocks of runs are computed: one folder per kind of device, behind one seam.

A backend turns what is asked into a specification (plain arrays, picklable) and runs blocks of it:

    specify(asked) -> Spec                     once
    run(spec, seed, blocks) -> [Partial]       pure: a block's result depends on the specification, the seed and the block alone

Run r of a seed draws the noise of stream (seed, r) on every backend, a block adds its runs up in order, and blocks are
merged in order (`totals`), so that the bits do not depend on who computes which block and when.
"""

from collections.abc import Callable
from dataclasses import replace

from fairpost.engines.montecarlo.backends.base import Asked, Backend, Block, Partial
from fairpost.engines.montecarlo.backends.cpu import Cpu
from fairpost.engines.montecarlo.simulation import DEVICES
from fairpost.errors import ParameterError, UnsupportedError


def _gpu() -> Backend:
    from fairpost.engines.montecarlo.backends.gpu import Gpu

    return Gpu()


BACKENDS: dict[str, Callable[[], Backend]] = {"cpu": Cpu, "gpu": _gpu}


def backend_of(name: str) -> Backend:
    """A backend by its name."""
    if name not in BACKENDS:
        raise ParameterError(f"`backend` must be one of {', '.join(DEVICES)}, got {name!r}")
    return BACKENDS[name]()


def chosen(name: str, asked: Asked) -> tuple[Backend, str | None]:
    """The backend of a name, and a word on where the runs are made: "auto" is the GPU where it covers what is asked."""
    if name != "auto":
        return backend_of(name), None if name == "cpu" else "simulated on the GPU"
    backend = _gpu()
    try:
        backend.specify(replace(asked, ones=tuple(asked.ones[i] for i in backend.order(asked))))
    except UnsupportedError as error:
        return Cpu(), f"simulated on the CPU: {error}"
    return backend, "simulated on the GPU"


__all__ = ["BACKENDS", "Asked", "Backend", "Block", "Partial", "backend_of", "chosen"]
