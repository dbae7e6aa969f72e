"""A few runs of the threshold mechanisms (`rules.kernels.threshold`): the same noise, control and sums as the others.

    release   out = kept of X, of sum C                     d = out - base - (eta - mean eta)        base = x + shift
    share     out = kept of z = w X, of sum |S|, over |S|   d = out - w x - w (eta - x u)            u = S - 1, S = sum z

Where S < 0 every z changes sign, where S = 0 the shares are w / sum w, as for PoS; both are counted.
"""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel
from fairpost.compiled.vectors import wide_vectors
from fairpost.engines.montecarlo.backends.cpu.kernels.forms import fma
from fairpost.engines.montecarlo.backends.cpu.kernels.solve import nothing, total_of, weighted
from fairpost.engines.montecarlo.backends.cpu.kernels.sums import CENTRE, M2_D, M2_E, MEAN_D, MEAN_E, PIECE, ZEROS
from fairpost.rules.kernels.threshold import keep

Floats = NDArray[np.float64]


@kernel
def _outcome(
    eta: Floats, x: Floats, w: Floats, levels: Floats, steepness: float, total: float, z: Floats, out: Floats
) -> tuple[float, float, int]:
    """One run into out: the factor that `out` still needs, mean eta or u, and 1 for a degenerate draw.

    total < 0: shares.
    """
    weighted(eta, x, w, z)
    if total >= 0.0:
        keep(z, levels, steepness, total, out)
        return 1.0, total_of(eta) / eta.size, 0
    S = total_of(z)
    if nothing(z, S):
        for i in range(out.size):
            out[i] = w[i]
        return 1.0 / total_of(w), S - 1.0, 1
    if S < 0.0:
        for i in range(z.size):
            z[i] = -z[i]
    keep(z, levels, steepness, abs(S), out)
    return 1.0 / abs(S), S - 1.0, 1 if S < 0.0 else 0


@kernel
def _add(
    eta: Floats, out: Floats, factor: float, slope: float, lift: float, one: float, base: Floats, w: Floats,
    g: Floats, dust: float, piece: Floats,
) -> None:  # fmt: skip
    """One run's d and e of one piece of entities, less the centre, into its sums; `one` is 1, not known to LLVM."""
    wide_vectors()
    for i in range(base.size):
        v = out[i] * factor
        e = v - base[i]
        linear = w[i] * eta[i] - base[i] * slope - lift  # a release has w = 1
        u, away = fma(g[i], linear, e - linear) - piece[i + CENTRE], e - piece[i + CENTRE]
        piece[i + MEAN_D] += u
        piece[i + M2_D] += u * u
        piece[i + MEAN_E] += away
        piece[i + M2_E] += away * away
        piece[i + ZEROS] += one if v <= dust else 0.0


@kernel
def _centre(
    eta: Floats, out: Floats, factor: float, common: float, share: bool, base: Floats, w: Floats, g: Floats,
    sums: Floats,
) -> None:  # fmt: skip
    """The first run's d as the centre."""
    for j in range(base.size):
        linear = w[j] * eta[j] - base[j] * common if share else eta[j] - common
        sums[j // PIECE, j % PIECE + CENTRE] = fma(g[j], linear, out[j] * factor - base[j] - linear)


@kernel
def add_kept(
    first: bool, runs: int, rows: Floats, x: Floats, w: Floats, left: Floats, base: Floats, levels: Floats, steepness: float,
    total: float, dust: float, z: Floats, out: Floats, sums: Floats,
) -> int:  # fmt: skip
    """The first `runs` of the rows of noise into `sums`; `first` where they begin a block. Returns the number of degenerate draws.

    `left` is the part of L that is left in, z is work space for one row, and out for a few.
    """
    share, degenerate = total < 0.0, 0
    factors, common = np.empty(out.shape[0]), np.empty(out.shape[0])
    for begin in range(0, runs, out.shape[0]):
        here = rows[begin : min(begin + out.shape[0], runs)]
        for t in range(here.shape[0]):
            factors[t], common[t], odd = _outcome(here[t], x, w, levels, steepness, total, z, out[t])
            degenerate += odd
        if first and begin == 0:
            _centre(here[0], out[0], factors[0], common[0], share, base, w, left, sums)
        for k in range(sums.shape[0]):
            lo, hi = k * PIECE, min((k + 1) * PIECE, x.size)
            piece, weight, g = sums[k], w[lo:hi], left[lo:hi]
            for t in range(here.shape[0]):
                slope, lift = (common[t], 0.0) if share else (0.0, common[t])
                _add(here[t, lo:hi], out[t, lo:hi], factors[t], slope, lift, 1.0, base[lo:hi], weight, g, dust, piece)
    return degenerate
