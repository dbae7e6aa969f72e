"""Whole powers of complex numbers."""

from fairpost.compiled import kernel


@kernel(error_model="numpy", inline="always")
def power(z: complex, k: int) -> complex:
    """z^k for k >= 0, by squaring."""
    out = 1.0 + 0.0j
    while k > 0:
        if k & 1:
            out *= z
        z *= z
        k >>= 1
    return out
