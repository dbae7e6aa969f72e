"""pi for programmes: noisy counts put into a law, as it is written or with payments that repair the bias.

What the four share: a programme applied to entities, its kinks, and how its payments are shared. They differ in the payment
f_i(z) that a noisy count z earns; as written it is the law's own g_i(z).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

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
        """The payments, which the noise may have to be known for."""
        if self.paid is None:
            raise ParameterError(f"{self.name} needs the noise: for_mechanism(mechanism), got none")
        return self.paid

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
        return self._repaired(float(mechanism.scale))

    def _repaired(self, scale: float) -> Kinks:
        raise NotImplementedError

    def _check_rows(self, rows: Floats) -> None:
        if (rows != np.floor(rows)).any():
            place = tuple(int(i) for i in np.argwhere(rows != np.floor(rows))[0])
            raise ParameterError(f"{self.name} is for whole noisy counts, got {rows[place]:g} at position {place[-1]}")
