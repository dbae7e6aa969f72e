"""Powers of complex numbers."""

from typing import Any

import numpy as np

from fairpost.compiled import kernel


@kernel(error_model="numpy", inline="always")
def power(z: Any, k: Any) -> Any:
    """z^k: by squaring for whole k >= 0, else from the logarithm (z near the positive axis)."""
    left = int(k)
    if left != k or left < 0:
        return np.exp(k * np.log(z))
    out = 1.0 + 0.0j
    while left > 0:
        if left & 1:
            out *= z
        z *= z
        left >>= 1
    return out
