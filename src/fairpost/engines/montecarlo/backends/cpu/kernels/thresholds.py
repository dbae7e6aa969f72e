"""A block of runs of the threshold mechanisms (`rules.kernels.threshold`): the same noise, control and sums as the others.

    release   out = kept of X, of sum C                     d = out - base - (eta - mean eta)        base = x + shift
    share     out = kept of z = w X, of sum |S|, over |S|   d = out - w x - w (eta - x u)            u = S - 1, S = sum z

Where S < 0 every z changes sign, where S = 0 the shares are w / sum w, as for PoS; both are counted.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.engines.montecarlo.backends.cpu.kernels.solve import draw, total_of, weighted
from fairpost.engines.montecarlo.backends.cpu.kernels.sums import CENTRE, M2_D, M2_E, MEAN_D, MEAN_E, PIECE, ZEROS
from fairpost.rules.kernels.threshold import keep

Floats = NDArray[np.float64]


@kernel
def _outcome(
    kind: int, spread: float, seed: Any, run: int, x: Floats, w: Floats, levels: Floats, steepness: float,
    total: float, eta: Floats, z: Floats, out: Floats,
) -> tuple[float, float, int]:  # fmt: skip
    """One run into eta and out: the factor that `out` still needs, mean eta or u, and 1 for a degenerate draw.

    total < 0: shares.
    """
    draw(kind, eta, spread, seed, np.uint64(run))
    weighted(eta, x, w, z)
    if total >= 0.0:
        keep(z, levels, steepness, total, out)
        return 1.0, total_of(eta) / eta.size, 0
    S = total_of(z)
    if S == 0.0:
        for i in range(out.size):
            out[i] = w[i]
        return 1.0 / total_of(w), -1.0, 1
    if S < 0.0:
        for i in range(z.size):
            z[i] = -z[i]
    keep(z, levels, steepness, abs(S), out)
    return 1.0 / abs(S), S - 1.0, 1 if S < 0.0 else 0


@kernel
def _add(
    eta: Floats,
    out: Floats,
    factor: float,
    slope: float,
    lift: float,
    one: float,
    base: Floats,
    w: Floats,
    piece: Floats,
) -> None:
    """One run's d and e of one piece of entities, less the centre, into its sums; `one` is 1, not known to LLVM."""
    wide_vectors()
    for i in range(base.size):
        e = out[i] * factor - base[i]
        d = e - (w[i] * eta[i] - base[i] * slope - lift)  # a release has w = 1
        u, v = d - piece[i + CENTRE], e - piece[i + CENTRE]
        piece[i + MEAN_D] += u
        piece[i + M2_D] += u * u
        piece[i + MEAN_E] += v
        piece[i + M2_E] += v * v
        piece[i + ZEROS] += one if out[i] == 0.0 else 0.0


@kernel
def _centre(
    eta: Floats, out: Floats, factor: float, common: float, share: bool, base: Floats, w: Floats, sums: Floats
) -> None:
    """The first run's d as the centre."""
    for j in range(base.size):
        linear = w[j] * eta[j] - base[j] * common if share else eta[j] - common
        sums[j // PIECE, j % PIECE + CENTRE] = out[j] * factor - base[j] - linear


@kernel
def simulate_kept(
    kind: int, spread: float, seed: Any, first: int, runs: int, x: Floats, w: Floats, base: Floats, levels: Floats,
    steepness: float, total: float, eta: Floats, z: Floats, out: Floats, sums: Floats,
) -> int:  # fmt: skip
    """Runs first, ... into `sums`; eta and out are work space for a few rows. Returns the number of degenerate draws."""
    share, degenerate = total < 0.0, 0
    factors, common = np.empty(eta.shape[0]), np.empty(eta.shape[0])
    for begin in range(0, runs, eta.shape[0]):
        rows = min(eta.shape[0], runs - begin)
        for t in range(rows):
            factors[t], common[t], odd = _outcome(
                kind, spread, seed, first + begin + t, x, w, levels, steepness, total, eta[t], z, out[t]
            )
            degenerate += odd
        if begin == 0:
            _centre(eta[0], out[0], factors[0], common[0], share, base, w, sums)
        for k in range(sums.shape[0]):
            lo, hi = k * PIECE, min((k + 1) * PIECE, x.size)
            here, weight, piece = base[lo:hi], w[lo:hi], sums[k]
            for t in range(rows):
                slope, lift = (common[t], 0.0) if share else (0.0, common[t])
                _add(eta[t, lo:hi], out[t, lo:hi], factors[t], slope, lift, 1.0, here, weight, piece)
    return degenerate
