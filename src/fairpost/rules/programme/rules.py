"""The four ways to put noisy counts into a law.

Let g be the law's payment on whole counts, q = e^{-1/b} and c = q/(1 - q)^2. The noise has mass (1 - q)/(1 + q) q^{|k|}, and
q^{|k|} solves u - c D^2 u = (a multiple of) the unit mass at 0, D^2 u(z) = u(z + 1) - 2 u(z) + u(z - 1). So for any bounded-growth
function m the payment f = m - c D^2 m has E f(x + eta) = m(x).

Signed. f = g - c D^2 g is unbiased; known for Laplace noise as f - b^2 f'' (Calmon et al., FORC 2025) and for discrete
noise (Hillebrand, Imola, Pagh and Sejer, arXiv 2605.06502). Counts are not negative, so m below 0 is free: with
m(z) = m(0) q^{-z} + (whatever keeps m on x >= 0) the payment for all z <= 0 is (g(0) - q g(1))/(1 - q), and max(z, 0) being complete
and sufficient this is the unbiased payment of least variance (Lehmann and Scheffe). Payments go down to -c J at a jump J.

No-loss. A payment f >= 0 attains m = E f(. + eta) exactly where m - c D^2 m >= 0 (m is excessive). The least excessive m >= g is
the Snell envelope: since A q^z + B q^{-z} are the functions with m = c D^2 m, it is q^z times the concave hull of q^{-z} g against
q^{-2z}, the origin included (z to minus infinity). f = m - c D^2 m vanishes off the contact set {m = g}. Nobody expects less than
the law gives, and no cheaper payment f >= 0 does that, for any entity at any count.

Levelled. At a jump nothing non-negative is fairer than the law as written (docs/programmes.md, the wall), so the jump stays. The bends
are de-biased: c times the second difference of what remains is taken off, the bend at the threshold included (whoever is
eligible because the noise was up earns too much), as far as payments stay >= 0; what cannot be taken off at z is taken off at z + 1
times q, which leaves the expectation at every larger count as it should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fairpost.problems.programme import Kinks
from fairpost.rules.programme.base import Geometric, Paying

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class AsWritten(Paying):
    """The law with noisy counts in place of the true ones, under any noise."""

    name: ClassVar[str] = "as-written"
    title: ClassVar[str] = "noisy counts put into the law as it is written"

    def _apply(self, rows: Floats):  # type: ignore[no-untyped-def]
        if self.paid is None:
            return AsWritten(self.programme, self.programme.compile())._apply(rows)
        return super()._apply(rows)


@final
@dataclass(frozen=True, eq=False)
class Levelled(Geometric):
    """Bends de-biased, jumps as written, never negative."""

    name: ClassVar[str] = "levelled"
    title: ClassVar[str] = "the law with its bends de-biased and its jumps as written"

    def _repaired(self, scale: float) -> Kinks:
        from fairpost.rules.programme.kernels.repair import levelled

        return _built(levelled, self.programme.compile(), scale)


@final
@dataclass(frozen=True, eq=False)
class Signed(Geometric):
    """Unbiased before the appropriation is shared; payments can be negative."""

    name: ClassVar[str] = "signed"
    title: ClassVar[str] = "the unbiased payment, which can be negative"
    signed: ClassVar[bool] = True

    def _repaired(self, scale: float) -> Kinks:
        from fairpost.rules.programme.kernels.repair import signed

        return _built(signed, self.programme.compile(), scale)


@final
@dataclass(frozen=True, eq=False)
class NoLoss(Geometric):
    """The cheapest payment by which nobody expects less than the law gives (before the appropriation is shared)."""

    name: ClassVar[str] = "no-loss"
    title: ClassVar[str] = "the cheapest payment by which nobody expects less than the law gives"

    def _repaired(self, scale: float) -> Kinks:
        from fairpost.rules.programme.kernels.repair import no_loss

        return _built(no_loss, self.programme.compile(), scale)


def _built(kernel, law: Kinks, scale: float) -> Kinks:  # type: ignore[no-untyped-def]
    """The kernel's kinks; it says how many there are, and is called again where the room was short."""
    room = 12 * law.at.size + 8 * law.n
    while True:
        start = np.empty(law.n + 1, dtype=np.int64)
        at, value, slope = np.empty(room), np.empty(room), np.empty(room)
        used = kernel(law.start, law.at, law.value, law.slope, scale, start, at, value, slope)
        if used <= room:
            return Kinks(start, at[:used].copy(), value[:used].copy(), slope[:used].copy())
        room = used
