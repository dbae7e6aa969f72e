"""Where an exact evaluator registers itself."""

import numpy as np
from numpy.typing import NDArray

from fairpost.engines.evaluation import Evaluators
from fairpost.errors import UnsupportedError
from fairpost.noise import Law
from fairpost.noise.base import GAUSSIAN, LAPLACE

EXACT = Evaluators()


def continuous(name: str, law: Law) -> Law:
    """The noise, which the contour kernels must know: Laplace or Gaussian."""
    if law.code not in (LAPLACE, GAUSSIAN):
        raise UnsupportedError(f"the exact engine covers {name!r} under continuous noise only, not under {law.name}")
    return law


def whole(name: str, law: Law, x: NDArray[np.float64]) -> None:
    """Refuse counts with fractions, which would put each entity of whole-number noise on a lattice of its own."""
    odd = x[x != np.floor(x)]
    if odd.size:
        raise UnsupportedError(
            f"the exact engine covers {name!r} under {law.name} noise for whole counts only, got the count {odd[0]:g}"
        )
