"""What a computed demonstration of a statement holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """A computed number, or a small vector, with a bound on its error (None: exact by construction)."""

    label: str
    value: float | tuple[float, ...]
    error: float | None = None

    def __str__(self) -> str:
        entries = self.value if isinstance(self.value, tuple) else (self.value,)
        text = ", ".join(f"{v:.6g}" for v in entries)
        text = f"({text})" if isinstance(self.value, tuple) else text
        return text if self.error is None else f"{text} ± {self.error:.1g}"


@dataclass(frozen=True)
class Demonstration:
    """One statement of the paper, in our own words, computed on a small case."""

    name: str
    """Its number in the paper: "Lemma 2"."""
    title: str
    statement: str
    setting: str
    """What was computed."""
    numbers: tuple[Number, ...]
    holds: bool
    """Whether the computed case bears the statement out, to within the numbers' own errors."""
    remark: str = ""


def vector(values: Floats) -> tuple[float, ...]:
    """A vector as plain numbers; -0 becomes 0."""
    return tuple(float(v) + 0.0 for v in values)


def rounding(*arrays: Floats) -> float:
    """64 units in the last place of the sizes involved: a bound for a few dozen sums of such numbers."""
    return 64 * float(np.finfo(float).eps) * (1.0 + sum(float(np.abs(a).sum()) for a in arrays))
