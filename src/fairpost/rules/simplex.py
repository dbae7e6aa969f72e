"""pi_S+ as an array function: the projection onto {v >= 0, sum v = C} (Lemma 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import CountsError
from fairpost.parallel import over_slices
from fairpost.rules.base import finite_rows, nonnegative_total

Floats = NDArray[np.float64]
LARGE = 2**18
"""From this length on, one vector is worked on by all cores, from a start that a sample gives."""


def project_simplex(y: ArrayLike, total: float = 1.0, *, out: Floats | None = None) -> Floats:
    """The point of the simplex {v >= 0, sum v = total} nearest to y; for a matrix, of each row.

    Lemma 2: v = (y - m)_+ with the one m for which the sum is `total`. `out` may receive the result (same
    shape, C-contiguous float64, not y itself); the only memory used beside it is a sixteenth of y, and that
    for long vectors alone.
    """
    target = nonnegative_total(total)
    rows = np.ascontiguousarray(y, dtype=np.float64) if isinstance(y, np.ndarray) and y.ndim == 1 else finite_rows(y)
    if rows.size == 0:
        raise CountsError("a vector to project must have at least one entry, got none")
    result = np.empty_like(rows) if out is None else _checked(out, rows)
    if rows.ndim == 2:
        thresholds_of_rows(rows, np.array([0, rows.shape[1]]), np.full((len(rows), 1), target), result)
    elif not np.isfinite(_project_vector(rows, target, result)):
        finite_rows(rows)  # names the entry
        raise CountsError("the sum of the entries is too large for double precision")
    return result


def _checked(out: Floats, rows: Floats) -> Floats:
    if out.shape != rows.shape or out.dtype != np.float64 or not out.flags.c_contiguous or np.shares_memory(out, rows):
        raise CountsError(f"`out` must be a separate C-contiguous float64 array of shape {rows.shape}")
    return out


def _project_vector(y: Floats, target: float, out: Floats) -> float:
    from fairpost.rules.kernels import simplex as kernel

    if y.size < LARGE or target == 0.0:
        # (a read-only array has a type of its own, for which the kernel would be compiled again)
        return float(kernel.project(y if y.flags.writeable else y.copy(), target, out))
    return _project_large(y, target, out)


def _project_large(y: Floats, target: float, out: Floats) -> float:
    """The kernel's Newton steps with every pass split over the cores.

    The start comes from every sixteenth block of 512 entries: sum min(y, m) = sum y - C is estimated well
    by a sample even where a few giants carry the sum. A poor start costs passes, never correctness.
    """
    from fairpost.rules.kernels import simplex as kernel

    def excess(m: float) -> tuple[float, float]:
        parts = over_slices(lambda part: kernel.excess(y[part], m, 0.0, 1.0), y.size)
        return float(sum(h for h, _ in parts)), float(sum(active for _, active in parts))

    def write(m: float) -> float:
        return float(sum(over_slices(lambda part: kernel.write(y[part], m, out[part], 0.0, 1.0), y.size)))

    m = _start(y, target)
    if not np.isfinite(m):
        return m
    h, active = excess(m)
    m += (h - target) / active  # from either side a step lands at or left of the root; from there K only falls
    for settled in (0.5 * np.sqrt(y.size), 0.0):
        before = np.inf
        while True:
            h, active = excess(m)
            m += (h - target) / active
            if active >= before - settled:
                break
            before = active
        if abs(m) > 4.0 * target:
            return float(kernel.project(y, target, out))
        if write(m) == active:
            break
    return m


def _start(y: Floats, target: float) -> float:
    """A guess at the threshold, with at least one entry above it; not finite where y is not."""
    from fairpost.rules.kernels import simplex as kernel

    n = y.size
    whole = float(sum(over_slices(lambda part: kernel.total_of(y[part]), n)))
    left = (whole - target) / n
    sample = np.ascontiguousarray(y[: n // 8192 * 8192].reshape(-1, 8192)[:, :512]).reshape(-1)
    room = kernel.total_of(sample) - (whole - target) * (sample.size / n)
    if not np.isfinite(left) or room <= 0:
        return left
    return min(float(kernel.newton(sample, room, left, 0.0)[0]), float(np.max(sample)) - room / sample.size)


def thresholds_of_rows(rows: Floats, starts: NDArray[np.int64], targets: Floats, out: Floats) -> Floats:
    """Project each row (in it each segment g, onto the sum targets[row, g]) into `out`; the thresholds m likewise."""
    from fairpost.rules.kernels import simplex as kernel

    if targets.size == 1:
        return np.array([[_project_vector(rows[0], float(targets[0, 0]), out[0])]])
    targets = np.ascontiguousarray(targets)
    thresholds = np.empty(targets.shape)
    threads = None if rows.size >= 2**16 else 1

    def some(part: slice) -> None:
        kernel.project_rows(rows[part], starts, targets[part], out[part], thresholds[part])

    over_slices(some, len(rows), threads)
    return thresholds
