"""Numba kernels of the conditional engine: arrays in, arrays out, no checks, no threads."""
