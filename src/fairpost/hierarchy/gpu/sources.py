"""The sources of the kernels: with a threshold at the leaves, and without."""

from __future__ import annotations

from pathlib import Path

from fairpost.engines.montecarlo.backends.gpu.device import HERE as NOISE

HERE = Path(__file__).parent / "cuda"
_SHARED = (NOISE / "noise.cu", NOISE / "teams.cu", HERE / "tree.cu", HERE / "leaves.cu")
SOURCES = {True: (*_SHARED, HERE / "plain.cu"), False: (*_SHARED, HERE / "ramps.cu")}
"""By whether leaves are projected without a threshold."""
