"""The null hypothesis of a check: released = true + independent noise of the stated kind, and nothing else.

Two statistics of the differences d = released - true have an exact law under it.

*Size.* For the Laplace pair T = sum |d|, for the Gaussian pair T = sum d^2 (each is sufficient for the size of its noise):

    Laplace        T / b is Gamma(N, 1), because |eta| / b is exponential
    Gaussian       T / sigma^2 is chi-squared with N degrees of freedom
    whole numbers  T is a sum of N independent whole numbers with known masses: a power of their discrete Fourier transform

*Sum.* S = sum d over some entities and all files, m differences in all:

    Gaussian       normal with variance m sigma^2
    Laplace        S is the difference of two Gamma(m, b) waits. Let two Poisson streams race to m events each: the loser of
                   the race still needs j events with probability C(2m - j - 1, m - 1) 2^-(2m - j), and its wait for them is
                   Gamma(j, b), so P(S > s) = sum_j C(2m - j - 1, m - 1) 2^-(2m - j) P(Gamma(j, b) > s): positive terms.
    whole numbers  as above

A Fourier transform of M points gives the masses modulo M; M is so large that what lies outside of a window of M whole
numbers has less than 1e-16 of the probability. Its rounding is N 1e-16, so a p-value below FLOOR is given as FLOOR. Where
the window would be longer than LONGEST points the whole numbers lie so close (2e-6 of the probability each, at most)
that the law of the continuous noise with the same mean (size) or variance (sum) is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import UnsupportedError
from fairpost.noise import Law, Mechanism

Floats = NDArray[np.float64]
FLOOR = 1e-9
"""A p-value from a Fourier transform that is smaller is given as this."""
LONGEST = 1 << 22
"""Points of a Fourier transform, at most."""
SIZES = {"laplace": "absolute", "discrete-laplace": "absolute", "gaussian": "squared", "discrete-gaussian": "squared"}
"""Which size of the differences is compared with that of the noise."""


@dataclass(frozen=True)
class Tails:
    """P(statistic <= seen) and P(statistic >= seen)."""

    below: float
    above: float

    @property
    def p_value(self) -> float:
        """Of the test against both sides: twice the smaller tail."""
        return min(1.0, 2 * min(self.below, self.above))


def known(mechanism: Mechanism) -> Law:
    """One of the four noises, whose laws are here."""
    if not isinstance(mechanism, Law) or mechanism.code is None:
        raise UnsupportedError(f"a check knows the noises {', '.join(SIZES)}, got {mechanism.name!r}")
    return mechanism


def size(mechanism: Law, differences: ArrayLike) -> float:
    """T of some differences."""
    d = np.asarray(differences, dtype=np.float64)
    return float(np.sum(np.abs(d) if SIZES[mechanism.name] == "absolute" else d**2))


def expected_size(mechanism: Law) -> float:
    """E[|eta|] or E[eta^2]."""
    if SIZES[mechanism.name] == "squared":
        return mechanism.variance
    b = mechanism.spread
    return float(1 / np.sinh(1 / b)) if mechanism.discrete else b


def size_tails(mechanism: Law, t: float, N: int) -> Tails:
    """The tails of T for N differences at the value t that was seen."""
    from scipy import special

    if mechanism.discrete:
        lattice = _lattice(mechanism, N, "size")
        if lattice is not None:
            return Tails(float(lattice.below(t)), float(lattice.above(t)))
    unit = t / expected_size(mechanism)
    if SIZES[mechanism.name] == "absolute":
        return Tails(float(special.gammainc(N, unit)), float(special.gammaincc(N, unit)))
    return Tails(float(special.gammainc(N / 2, unit / 2)), float(special.gammaincc(N / 2, unit / 2)))


def sum_p_values(mechanism: Law, sums: ArrayLike, m: int) -> Floats:
    """P(|S| >= |s|) for each s, S the sum of m draws of the noise."""
    from scipy import special

    s = np.abs(np.asarray(sums, dtype=np.float64))
    if mechanism.discrete:
        lattice = _lattice(mechanism, m, "sum")
        if lattice is not None:
            return np.asarray(np.minimum(1.0, 2 * lattice.above(s) * (s > 0) + (s == 0)))
        s = np.maximum(s - 0.5, 0.0)  # half a step: the whole number s stands for s - 1/2 to s + 1/2
    if SIZES[mechanism.name] == "squared":
        return np.asarray(special.erfc(s / np.sqrt(2 * m * mechanism.variance)))
    return np.minimum(1.0, 2 * _race(s / np.sqrt(mechanism.variance / 2), m))


def _race(s: Floats, m: int) -> Floats:
    """P(S > s) for the sum of m Laplace draws with b = 1, by the race of two Poisson streams.

    The weights fall like e^{-j^2 / 4m}; past 14 sqrt(m) + 60 they are below 1e-20 together.
    """
    from scipy import special

    j = np.arange(1, min(m, int(14 * np.sqrt(m)) + 60) + 1, dtype=np.float64)
    log = special.gammaln(2 * m - j) - special.gammaln(m) - special.gammaln(m - j + 1) - (2 * m - j) * np.log(2)
    weights = np.exp(log)
    distinct, back = np.unique(s, return_inverse=True)
    tails = np.array([float(np.sum(weights * special.gammaincc(j, one))) for one in distinct])
    return np.asarray(tails[back].reshape(s.shape))


@dataclass(frozen=True, eq=False)
class Lattice:
    """The law of a statistic with whole values: their masses from `start` on."""

    start: int
    upper: Floats
    """P(value >= start + k)."""

    def above(self, t: ArrayLike) -> Floats:
        """P(value >= t), at least FLOOR / 2."""
        place = np.ceil(np.asarray(t, dtype=np.float64) - 1e-9) - self.start
        inside = np.clip(place, 0, self.upper.size - 1).astype(np.int64)
        return np.asarray(np.where(place >= self.upper.size, FLOOR / 2, np.maximum(self.upper[inside], FLOOR / 2)))

    def below(self, t: ArrayLike) -> Floats:
        """P(value <= t), at least FLOOR / 2."""
        place = np.floor(np.asarray(t, dtype=np.float64) + 1e-9) + 1 - self.start
        inside = np.clip(place, 0, self.upper.size - 1).astype(np.int64)
        under = np.where(place >= self.upper.size, 1.0, np.where(place <= 0, 0.0, 1 - self.upper[inside]))
        return np.asarray(np.maximum(under, FLOOR / 2))


@lru_cache(maxsize=64)
def _lattice(mechanism: Law, m: int, what: str) -> Lattice | None:
    """The law of the sum of m draws of eta (`what` sum), or of |eta| or eta^2 (size); None where it is too long.

    Under Laplace noise |eta| has an exponential tail, so 60 of its standard deviations lie beyond 10 of the sum's.
    """
    reach = int(
        np.ceil(45 * mechanism.spread + 45 if SIZES[mechanism.name] == "absolute" else 10 * mechanism.spread + 10)
    )
    if reach > LONGEST:
        return None
    whole = np.arange(-reach, reach + 1)
    masses = mechanism.density(whole.astype(np.float64))
    if what == "size":
        whole = np.abs(whole) if SIZES[mechanism.name] == "absolute" else whole**2
    mean = float(np.sum(masses * whole))
    deviation = float(np.sqrt(np.sum(masses * (whole - mean) ** 2)))
    wide = 10 * np.sqrt(m) * deviation + 60 * deviation + 10
    start = int(np.floor(m * mean - wide))
    start = max(start, 0) if what == "size" else start
    points = 1 << int(np.ceil(np.log2(m * mean + wide - start + 1)))
    if points > LONGEST:
        return None
    folded = np.bincount(whole % points, weights=masses, minlength=points)
    power = np.fft.rfft(folded / folded.sum()) ** m
    found = np.maximum(np.fft.irfft(power, points), 0.0)
    found = np.roll(found, -(start % points))
    upper = np.cumsum(found[::-1])[::-1]
    return Lattice(start, np.asarray(upper / upper[0]))


def describe(mechanism: Law) -> dict[str, Any]:
    """What is compared, in words."""
    absolute = SIZES[mechanism.name] == "absolute"
    return {"size": "mean absolute difference" if absolute else "mean squared difference"}
