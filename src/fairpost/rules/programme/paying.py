"""pi for programmes: noisy counts put into a law, as it is written or with payments that repair the bias.

What the four share: a programme applied to entities, its kinks, and how its payments are shared. They differ in the payment
f_i(z) that a noisy count z earns; as written it is the law's own g_i(z).

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.noise import DiscreteLaplace, Mechanism, Stream, as_mechanism
from fairpost.noise.base import Law
from fairpost.partition import Partition
from fairpost.problems.programme import Kinks, Programme, builtin
from fairpost.rules.base import Outcome, PostProcessing, same_length
from fairpost.rules.control import JUMPS, Control, change_of

if TYPE_CHECKING:
    from fairpost.rules.programme.meanfield import MeanField

Floats = NDArray[np.float64]
SAME = "same"
"""Noise on the base like that on the counts."""
BASE_SEED = 0x6A09E667F3BCC908
"""Added to the seed of a simulation for the noise of the base: streams apart from those of the counts."""


@dataclass(frozen=True, eq=False)
class Paying(PostProcessing):
    """A programme and the payments that noisy counts earn under it."""

    programme: Programme
    """The law with its base, weights and last year's payments."""
    paid: Kinks | None = None
    """f: what a noisy count earns; None: not yet compiled, or it waits for the noise."""
    same_noise: bool = False
    """Whether the base is published with noise like that of the counts, which `for_mechanism` tells."""
    needs_programme: ClassVar[bool] = True

    @classmethod
    def from_counts(
        cls,
        counts: Counts,
        total: float | None = None,
        *,
        by_group: bool = False,
        programme: Programme | str | None = None,
        last: Floats | None = None,
        base_noise: Mechanism | str | None = None,
    ) -> Self:
        """The programme (or the name of one that comes with the package) applied to these counts; a total plays no part."""
        if programme is None:
            raise ParameterError(f"{cls.name} needs a programme (--programme), got none")
        law = builtin(programme) if isinstance(programme, str) else programme
        if isinstance(base_noise, str) and base_noise != SAME:
            raise ParameterError(f"noise on the base must be a mechanism or {SAME!r}, got {base_noise!r}")
        own = None if base_noise is None or isinstance(base_noise, str) else as_mechanism(base_noise, "`base_noise`")
        return cls(law.on(counts, last, by_group=by_group, base_noise=own), same_noise=base_noise == SAME)

    @property
    def problem(self) -> Programme:
        """The law."""
        return self.programme

    @property
    def partition(self) -> Partition | None:  # type: ignore[override]
        """The groups that share appropriations of their own."""
        return self.programme.partition

    def alone(self, g: int) -> Self:
        """The same for group g."""
        assert self.programme.partition is not None
        paid = None if self.paid is None else self.paid.of(self.programme.partition.of_group(g))
        return replace(self, programme=self.programme.alone(g), paid=paid)

    def of_groups(self, groups: Sequence[int]) -> Self:
        """The same for some groups."""
        assert self.programme.partition is not None
        paid = None if self.paid is None else self.paid.of(self.programme.partition.members(groups))
        return replace(self, programme=self.programme.of_groups(groups), paid=paid)

    def for_mechanism(self, mechanism: Mechanism) -> Self:
        """With the payments compiled for this noise."""
        if self.same_noise:
            return replace(self, programme=self.programme.published(mechanism), same_noise=False).for_mechanism(
                mechanism
            )
        return self if self.paid is not None else replace(self, paid=self._payments(mechanism))

    def _payments(self, mechanism: Mechanism) -> Kinks:
        return self.programme.compile()

    @property
    def kinks(self) -> Kinks:
        """The payments: the law's own, unless they are made for a noise."""
        return self.programme.compile() if self.paid is None else self.paid

    def total_off(self, counts: Counts) -> Floats | None:
        """An appropriation is shared out whole, and every seat is given to somebody; what is not shared has no total to keep."""
        parts = self.programme.partition
        return None if self.programme.share == "none" else np.zeros(1 if parts is None else len(parts.labels))

    def control(self, counts: Counts, mechanism: Mechanism) -> Control:
        """What a fixed factor of reduction in place of the noisy one would pay, less its mean, which is known.

        With noise on the base it is what the law would pay at the base itself: a function of the noise of the counts alone.
        """
        if not isinstance(mechanism, Law) or self.programme.share != "pro rata" or self.programme.partition is not None:
            return self._without(counts, mechanism)
        public = replace(self, programme=replace(self.programme, base_noise=None))
        known = public.mean_field(counts.values, mechanism).control(self)
        return self._without(counts, mechanism) if known is None else known

    def _without(self, counts: Counts, mechanism: Mechanism) -> Control:
        """No control."""
        if self.programme.unit not in ("decision", "money", "seats"):
            return super().control(counts, mechanism)
        scale = np.ones(counts.n)  # one run moves a decision or a number of seats by one
        if self.programme.unit == "money":
            kinks = self.kinks
            step = np.zeros(counts.n)
            np.maximum.at(step, kinks.owner, JUMPS * change_of(mechanism) * np.abs(kinks.slope))
            scale = self.programme.a(counts.n) * (step + np.abs(kinks.value[kinks.start[:-1]]))
        return Control(np.zeros(counts.n), None, scale, None)

    def simulated(self, noisy: Floats, seed: int, first: int) -> Outcome:
        """Where the base is noisy, its noise is drawn from a seed of its own, run by run."""
        law = self.programme
        if law.base_noise is None:
            return self.apply(noisy)
        assert law.base is not None
        own = (seed + BASE_SEED) % 2**64
        draws = np.stack([law.base_noise.sample(noisy.shape[1], Stream(own, first + r)) for r in range(len(noisy))])
        bases = np.maximum(law.base + draws, 0.0)
        shared = law.shared(noisy, law.entitled_rows(noisy, bases), bases)
        return Outcome(shared.values, shared.degenerate)

    def mean_field(self, x: Floats, law: Law) -> MeanField:
        """The payments as if the factor of reduction did not fluctuate."""
        from fairpost.rules.programme.meanfield import mean_field

        return mean_field(self, x, law)

    def _apply(self, rows: Floats) -> Outcome:
        law, base = self.programme, self.programme.base
        assert base is not None
        same_length(rows, base.size)
        self._check_rows(rows)
        shared = law.shared(rows, self.kinks(rows), base)
        return Outcome(shared.values, shared.degenerate)

    def _check_rows(self, rows: Floats) -> None:
        return


@dataclass(frozen=True, eq=False)
class Geometric(Paying):
    """What the three repairs share: they invert two-sided geometric noise on whole numbers, and no other."""

    needs_noise: ClassVar[bool] = True
    kernel: ClassVar[str]
    """The function of `kernels.repair` that makes the payments."""

    def _payments(self, mechanism: Mechanism) -> Kinks:
        if not isinstance(mechanism, DiscreteLaplace):
            raise UnsupportedError(
                f"{self.name} is for discrete-laplace noise (two-sided geometric), got {mechanism.name or 'other'} noise"
            )
        if self.programme.base_noise is not None:
            raise UnsupportedError(
                f"{self.name} inverts the noise of the count at a public base, got noise on the base of {self.programme.name}"
            )
        if self.programme.seats is not None:
            raise UnsupportedError(
                f"{self.name} is for payments that follow one count each, got the seats of {self.programme.name}"
            )
        from fairpost.rules.programme.kernels import repair

        law, make = self.programme.compile(), getattr(repair, self.kernel)
        room = 12 * law.at.size + 8 * law.n
        while True:  # the kernel says how many kinks there are, and is called again where the room was short
            start = np.empty(law.n + 1, dtype=np.int64)
            at, value, slope = np.empty(room), np.empty(room), np.empty(room)
            used = make(law.start, law.at, law.value, law.slope, float(mechanism.scale), start, at, value, slope)
            if used <= room:
                return Kinks(start, at[:used].copy(), value[:used].copy(), slope[:used].copy())
            room = used

    @property
    def kinks(self) -> Kinks:
        """The payments, which the noise has to be known for."""
        if self.paid is None:
            raise ParameterError(f"{self.name} needs the noise: for_mechanism(mechanism), got none")
        return self.paid

    def _check_rows(self, rows: Floats) -> None:
        if (rows != np.floor(rows)).any():
            place = tuple(int(i) for i in np.argwhere(rows != np.floor(rows))[0])
            raise ParameterError(f"{self.name} is for whole noisy counts, got {rows[place]:g} at position {place[-1]}")


@final
@dataclass(frozen=True, eq=False)
class AsWritten(Paying):
    """The law with noisy counts in place of the true ones, under any noise."""

    name: ClassVar[str] = "as-written"
    title: ClassVar[str] = "noisy counts put into the law as it is written"


@final
@dataclass(frozen=True, eq=False)
class Levelled(Geometric):
    """Bends de-biased, jumps as written, never negative."""

    name: ClassVar[str] = "levelled"
    title: ClassVar[str] = "the law with its bends de-biased and its jumps as written"
    kernel: ClassVar[str] = "levelled"


@final
@dataclass(frozen=True, eq=False)
class Signed(Geometric):
    """Unbiased before the appropriation is shared; payments can be negative."""

    name: ClassVar[str] = "signed"
    title: ClassVar[str] = "the unbiased payment, which can be negative"
    signed: ClassVar[bool] = True
    kernel: ClassVar[str] = "signed"


@final
@dataclass(frozen=True, eq=False)
class NoLoss(Geometric):
    """The cheapest payment by which nobody expects less than the law gives (before the appropriation is shared)."""

    name: ClassVar[str] = "no-loss"
    title: ClassVar[str] = "the cheapest payment by which nobody expects less than the law gives"
    kernel: ClassVar[str] = "no_loss"
