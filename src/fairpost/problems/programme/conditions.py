"""The words of a law: amounts, conditions on a count, brackets.

Every condition asks that the count be large ("count >= 10", "count > 2 % of base"), so all or any of them ask that it reach
one threshold: the largest or the smallest of theirs. `>` is resolved by moving the threshold up to the next number that can be
represented: for the reals a part in 1e16, on whole numbers (which a comparison rounds up to) one whole count.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Amount:
    """A number of people, or a percentage of the base."""

    number: float
    percent: bool = False

    def of(self, base: Floats) -> Floats:
        """In people. A percentage is a ratio of whole numbers, so that 15 % of 600 is 90 and not 90.00000000000001."""
        if not self.percent:
            return np.full(base.size, self.number)
        part = Fraction(repr(self.number)) / 100
        return np.asarray(float(part.numerator) * base / float(part.denominator))

    def __str__(self) -> str:
        return f"{self.number:.15g}" + (" %" if self.percent else "")


@dataclass(frozen=True)
class Condition:
    """The count is above (`strict`), or at or above, an amount."""

    amount: Amount
    strict: bool

    def threshold(self, base: Floats) -> Floats:
        """The least count that meets it."""
        t = self.amount.of(base)
        return np.asarray(np.nextafter(t, np.inf)) if self.strict else t

    def __str__(self) -> str:
        return f"count {'>' if self.strict else '>='} {self.amount}" + (" of base" if self.amount.percent else "")


@dataclass(frozen=True)
class Nest:
    """All, or any, of several conditions; they nest."""

    parts: tuple[Condition | Nest, ...]
    every: bool = True

    def threshold(self, base: Floats) -> Floats:
        """The least count that meets all (any) of them."""
        each = [part.threshold(base) for part in self.parts]
        return np.asarray(np.max(each, axis=0) if self.every else np.min(each, axis=0))

    @property
    def rates(self) -> bool:
        """Whether a base population is needed."""
        return any(p.rates if isinstance(p, Nest) else p.amount.percent for p in self.parts)


@dataclass(frozen=True)
class Brackets:
    """Marginal weights: a count is worth `weight` for each person above `bound`, up to the next bound."""

    rows: tuple[tuple[Amount, float], ...]

    @property
    def rates(self) -> bool:
        """Whether a base population is needed."""
        return any(bound.percent for bound, _ in self.rows)

    def worth(self, count: Floats, base: Floats) -> Floats:
        """sum over brackets of (weight - the one before) (count - bound)+."""
        total, before = np.zeros(count.size), 0.0
        for bound, weight in self.rows:
            total += (weight - before) * np.maximum(count - bound.of(base), 0.0)
            before = weight
        return total


@dataclass(frozen=True)
class Entitlement:
    """The larger of several bracket functions, at least `floor` and at most `cap`: the weighted count that money follows."""

    larger_of: tuple[Brackets, ...] = (Brackets(((Amount(0.0), 1.0),)),)
    floor: Amount | None = None
    cap: Amount | None = None

    @property
    def rates(self) -> bool:
        """Whether a base population is needed."""
        ends = any(end is not None and end.percent for end in (self.floor, self.cap))
        return ends or any(b.rates for b in self.larger_of)

    def ends(self, base: Floats) -> tuple[Floats, Floats]:
        """Floor and cap, 0 and infinity where there is none."""
        low = np.zeros(base.size) if self.floor is None else self.floor.of(base)
        return low, np.full(base.size, np.inf) if self.cap is None else self.cap.of(base)

    def worth(self, count: Floats, base: Floats) -> Floats:
        """The weighted count of an eligible entity."""
        low, high = self.ends(base)
        most = np.max([b.worth(count, base) for b in self.larger_of], axis=0)
        return np.asarray(np.minimum(np.maximum(most, low), high))


@dataclass(frozen=True)
class HoldHarmless:
    """Nobody eligible is paid less than a part of last year's payment; the part follows the percentage of the base."""

    last: str
    """The column with last year's payments."""
    rate: tuple[tuple[Amount, float], ...]
    """From which percentage on which part holds, ascending; the first is from 0 on."""

    def part(self, count: Floats, base: Floats) -> Floats:
        """The part that holds at this count."""
        out = np.full(count.size, self.rate[0][1])
        for bound, part in self.rate[1:]:
            out = np.where(count >= bound.of(base), part, out)
        return out


@dataclass(frozen=True)
class Minimum:
    """Each group (state) receives at least the lesser of m, and the average of m and `average` percent of the mean payment.

    m = `percent` of the appropriation; the mean payment is that of one counted person in the whole country, times those of
    the group.
    """

    percent: float
    average: float
