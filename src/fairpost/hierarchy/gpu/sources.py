"""Which kernels a simulation takes: whole numbers, real numbers or thresholds at the leaves, and what is known of their noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairpost.engines.montecarlo.backends.gpu.device import HERE as NOISE
from fairpost.engines.montecarlo.backends.gpu.laws import GUIDED
from fairpost.hierarchy.spec import Spec
from fairpost.noise.base import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE

HERE = Path(__file__).parent / "cuda"
SHARED = (NOISE / "noise.cu", NOISE / "teams.cu", HERE / "tree.cu", HERE / "leaves.cu")
REACH = 45.0
"""No noise is further out than so many times its parameter: see `noise.kernels.streams`."""
LARGEST = 2**29


def sources_of(spec: Spec) -> tuple[Path, ...]:
    """The files, the leaves' own last."""
    if spec.steeps[-1] != 1.0:
        return (*SHARED, HERE / "ramps.cu")
    return (*SHARED, HERE / ("whole.cu" if fits_ints(spec) else "plain.cu"))


def macros_of(spec: Spec) -> tuple[str, ...]:
    """KIND; whether the leaves' noise has a table; whether there is rounding or an area to follow."""
    guided = spec.kind == DISCRETE_GAUSSIAN and spec.spreads[-1] <= GUIDED
    extra = spec.whole or bool(spec.divisions)
    return (f"KIND={spec.kind}", f"GUIDED={int(guided)}", f"EXTRA={int(extra)}")


def fits_ints(spec: Spec) -> bool:
    """Whether the leaves are whole numbers with whole-number noise, and a family's sum of measurements is an int for sure."""
    if spec.kind not in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN):
        return False
    x = spec.x[spec.inner :]
    first = int(spec.offsets[-3])
    sizes = np.diff(spec.child[first : spec.inner + 1])
    most = float((spec.x[first : spec.inner] + sizes * (REACH * spec.spreads[-1] + 1.0)).max())
    return most < LARGEST and bool((x == np.floor(x)).all())
