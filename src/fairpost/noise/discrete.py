"""The discrete Laplace (two-sided geometric) and the discrete Gaussian mechanism: noise in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from fairpost.errors import UnsupportedError
from fairpost.noise import calibration
from fairpost.noise.base import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, Floats, Numbers, Stream, positive
from fairpost.noise.continuous import BEST, ConcentratedNoise, Gaussian, PureNoise
from fairpost.noise.threshold import Threshold

SMOOTH = 16.0
"""From this sigma on the discrete Gaussian's best ramp is the Gaussian's threshold, centred."""
LISTED = 4096.0
"""Up to this sigma sums without a tilt are kept in a list."""
MAX_TABLE = 2**25
"""The longest table of masses: a sigma of 1.1e6."""
LARGE = 4.0
STEEP = 0.9
LONGEST = 45
"""e^{-45 * 0.9} = 3e-18."""
FAR = 9.5
"""e^{-9.5^2/2} = 3e-20."""
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip
"""B_2, B_4, ..., B_20."""


def _geometric(rate: float, c: ArrayLike, s: ArrayLike, k: int) -> Floats:
    """`upper` of discrete Laplace noise with masses t q^{|i|}, q = e^{-rate}, t = tanh(rate/2), by closed geometric sums.

    The first whole number above c is m0, i = m0 + l and gap = m0 - c: (i - c)^k e^{s(i-c)} = e^{s gap} (l + gap)^k e^{sl}.
    The tail from m0 >= 0 on has the ratio w = q e^s: t q^{m0} sum l^j w^l, with 1/(1-w), w/(1-w)^2, w(1+w)/(1-w)^3. For
    m0 = -N < 0 the tail starts at l = N (expanded in l - N), and before it there are N terms t q^N e^{(s + rate) l}, l < N.
    The sum exists for s < rate.
    """
    cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s, dtype=np.float64))
    first = np.floor(cut) + 1
    gap, below = first - cut, np.maximum(-first, 0.0)
    w, rest = np.exp(s - rate), -np.expm1(s - rate)
    tail = (1 / rest, w / rest**2, w * (1 + w) / rest**3)
    lead = np.exp(np.where(first >= 0, -rate * first, s * below))
    sums = [lead * v for v in (tail[0], tail[1] + below * tail[0], tail[2] + below * (2 * tail[1] + below * tail[0]))]
    if below.any():
        sums = [a + b for a, b in zip(sums, _finite(below, s, rate), strict=True)]
    total = (sums[0], sums[1] + gap * sums[0], sums[2] + gap * (2 * sums[1] + gap * sums[0]))[k]
    return np.asarray(np.tanh(rate / 2) * np.exp(s * gap) * total)


def _finite(n: Floats, s: Floats, rate: float) -> list[Floats]:
    """q^n sum_{l < n} l^j z^l for j = 0, 1, 2, with z = e^{s + rate}; n whole and >= 0.

    By doubling along the binary digits of n, which adds positive terms only, where the closed form cancels
    near z = 1: sum_{l < 2m} = sum_{l < m} + z^m sum_{l < m} (l + m)^j z^l, and one more term is m^j z^m. Every sum up to m
    carries the factor e^{-(m-1) log z}, where z > 1, so that nothing overflows: it is put back with q^n.
    """
    log = s + rate
    grows = log > 0
    h0, h1, h2 = (np.zeros(log.shape) for _ in range(3))
    m = np.zeros(n.shape)
    most = np.max(n, initial=0.0, where=np.isfinite(n))  # what is no number stays none
    for place in reversed(range(int(most).bit_length())):
        # what the two halves are multiplied by: z^m for the later one, or z^-m for the earlier one
        turn = np.exp(np.where(grows, -log, log) * m)
        early, late = np.where(grows, turn, 1.0), np.where(grows, 1.0, turn)
        h2 = early * h2 + late * (h2 + m * (2 * h1 + m * h0))
        h1 = early * h1 + late * (h1 + m * h0)
        h0 = (early + late) * h0
        m = 2 * m
        one = np.floor(n / 2.0**place) % 2 == 1
        back, term = np.exp(np.where(grows, -log, 0.0)), np.exp(np.where(grows, 0.0, log) * m)
        h2 = np.where(one, back * h2 + m * m * term, h2)
        h1 = np.where(one, back * h1 + m * term, h1)
        h0 = np.where(one, back * h0 + term, h0)
        m = m + one
    lead = np.where(n > 0, np.exp(np.where(grows, s * (n - 1) - rate, -rate * n)), 0.0)  # no large terms that cancel
    return [lead * h for h in (h0, h1, h2)]


@final
@dataclass(frozen=True)
class DiscreteLaplace(PureNoise):
    """Two-sided geometric noise: mass (1 - q)/(1 + q) q^{|k|} with q = e^{-1/b} at each whole number k.

    Ghosh, Roughgarden and Sundararajan 2009; epsilon-DP with epsilon = D / b for whole-number counts of L1
    sensitivity D.
    """

    scale: float
    name: ClassVar[str] = "discrete-laplace"
    discrete: ClassVar[bool] = True
    code: ClassVar[int | None] = DISCRETE_LAPLACE

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @property
    def variance(self) -> float:
        """2 q / (1 - q)^2 = 1 / (2 sinh^2(1 / 2b))."""
        return float(0.5 / np.sinh(0.5 / self.scale) ** 2) if self.scale > 1.5e-3 else 0.0  # below it 1e-289 and less

    def density(self, u: ArrayLike) -> Floats:
        """The mass at u: tanh(1 / 2b) e^{-|u|/b} on whole numbers, 0 elsewhere."""
        point = np.asarray(u, dtype=np.float64)
        mass = np.tanh(0.5 / self.scale) * np.exp(-np.abs(point) / self.scale)
        return np.asarray(np.where(point == np.floor(point), mass, 0.0))

    def cdf(self, u: ArrayLike) -> Floats:
        """P(eta <= u) = q^{-floor u} / (1 + q) for u < 0."""
        m = np.floor(np.asarray(u, dtype=np.float64))
        q = np.exp(-1 / self.scale)
        far = np.exp(-(np.abs(m) + (m >= 0)) / self.scale) / (1 + q)
        return np.asarray(np.where(m < 0, far, 1.0 - far))

    def cgf(self, s: ArrayLike) -> Numbers:
        """log((1 - q)^2 / ((1 - q e^s)(1 - q e^{-s})))."""
        s = np.asarray(s)
        rate = 1 / self.scale
        return np.asarray(2 * np.log(-np.expm1(-rate)) - np.log(-np.expm1(s - rate)) - np.log(-np.expm1(-s - rate)))

    def cumulants(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """K, 2 q sinh(s) / (u d) and q e^s / u^2 + q e^{-s} / d^2 with u = 1 - q e^s and d = 1 - q e^{-s}."""
        up, down = -np.expm1(s - 1 / self.scale), -np.expm1(-s - 1 / self.scale)
        q = np.exp(-1 / self.scale)
        second = q * np.exp(s) / up**2 + q * np.exp(-s) / down**2
        return np.asarray(self.cgf(s)), 2 * q * np.sinh(s) / (up * down), second

    def best_threshold(self) -> Threshold:
        """A ramp from q / (1 - q) on, q = e^{-1/b}: optimal in the same sense as for Laplace noise."""
        return Threshold.ramp(float(np.exp(-1 / self.scale) / -np.expm1(-1 / self.scale)))

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Floats:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c]."""
        return _geometric(1 / self.scale, c, s, k)

    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation, as floats that are whole numbers."""
        from fairpost.noise.kernels import streams

        return streams.discrete_laplace(n, self.scale, stream.seed, stream.run)


@final
@dataclass(frozen=True)
class DiscreteGaussian(ConcentratedNoise):
    """Discrete Gaussian noise: mass proportional to e^{-k^2 / 2 sigma^2} at each whole number k.

    Canonne, Kamath and Steinke 2020; rho-zCDP with rho = D^2 / (2 sigma^2) for whole-number counts of L2
    sensitivity D. Its variance is below sigma^2, by less than 1e-15 of it for sigma >= 1.5.
    """

    sigma: float
    name: ClassVar[str] = "discrete-gaussian"
    discrete: ClassVar[bool] = True
    code: ClassVar[int | None] = DISCRETE_GAUSSIAN

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, sensitivity: float = 1.0) -> DiscreteGaussian:
        """A sigma with (epsilon, delta)-DP, through zCDP (Canonne, Kamath and Steinke 2020, Prop. 12): valid, not tight."""
        return cls.from_rho(calibration.rho_from_epsilon(epsilon, delta), sensitivity)

    def epsilon(self, delta: float, sensitivity: float = 1.0) -> float:
        """An epsilon with (epsilon, delta)-DP, through zCDP: valid, not tight."""
        return calibration.epsilon_from_rho(self.rho(sensitivity), delta)

    @property
    def variance(self) -> float:
        """K''(0)."""
        return float(self.cumulants(np.zeros(1))[2][0])

    def density(self, u: ArrayLike) -> Floats:
        """The mass at u (0 off the whole numbers)."""
        point = np.asarray(u, dtype=np.float64)
        mass = np.exp(-((point / self.sigma) ** 2) / 2 - self._log_norm())
        return np.where(point == np.floor(point), mass, 0.0)

    def _log_norm(self) -> float:
        """Log sum_k e^{-k^2/2 sigma^2}, by the masses or (Poisson summation) by the dual sum, whichever is short."""
        if self.sigma < 1:
            k = np.arange(1, 40)
            return float(np.log1p(2 * np.sum(np.exp(-((k / self.sigma) ** 2) / 2))))
        dual = 2 * np.sum(np.exp(-2 * (np.pi * self.sigma * np.arange(1, 5)) ** 2))
        return float(np.log(self.sigma * np.sqrt(2 * np.pi)) + np.log1p(dual))

    def cdf(self, u: ArrayLike) -> Floats:
        """P(eta <= u): by symmetry P(eta >= -m) for m = floor u < 0, else 1 - P(eta >= m + 1)."""
        m = np.floor(np.asarray(u, dtype=np.float64))
        start = np.abs(m + (m >= 0))
        tail = self._sums(start, np.zeros(m.shape), 0)[0]
        return np.asarray(np.where(m < 0, tail, 1.0 - tail))

    def cgf(self, s: ArrayLike) -> Numbers:
        """Log E[e^{s eta}].

        Completing the square moves the centre of the lattice sum to s sigma^2; the sum around the nearest whole
        number (sigma < 1) or, by Poisson summation, its dual (sigma >= 1) converges in a few terms.
        """
        s = np.asarray(s)
        if self.sigma < 1:
            centre = np.round(s.real * self.sigma**2)
            j = centre[..., None] + np.arange(-40, 41)
            exponent = s[..., None] * j - (j / self.sigma) ** 2 / 2
            peak = exponent.real.max(axis=-1)
            whole = np.sum(np.exp(exponent - peak[..., None]), axis=-1)
            return np.asarray(peak + np.log(whole) - self._log_norm())
        # sum_k e^{sk - k^2/2v} = sigma sqrt(2 pi) sum_m e^{v (s + 2 pi i m)^2 / 2}
        v = self.sigma**2
        turn = np.round(s.imag / (2 * np.pi)) if np.iscomplexobj(s) else np.zeros(s.shape)
        base = s - 2j * np.pi * turn
        dual = sum(np.exp(v * ((2j * np.pi * m) ** 2 / 2 + 2j * np.pi * m * base)) for m in (-3, -2, -1, 1, 2, 3))
        value = v * base**2 / 2 + np.log1p(dual) + np.log(self.sigma * np.sqrt(2 * np.pi)) - self._log_norm()
        return np.asarray(value if np.iscomplexobj(s) else value.real)

    def cumulants(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """Of the tilted discrete Gaussian.

        sigma >= 1: by Poisson summation E[e^{s eta}] is e^{v s^2/2} (1 + d(s)) / (1 + d(0)) with v = sigma^2 and
        d(s) = 2 sum_m e^{-2 pi^2 m^2 v} cos(2 pi m v s). Below 1 the masses themselves, paired about 0.
        """
        log, v = np.asarray(self.cgf(s)), self.sigma**2
        if self.sigma >= 1:
            m = np.arange(1, 4)
            weight, rate = 2 * np.exp(-2 * np.pi**2 * m**2 * v), 2 * np.pi * m * v
            angle = np.multiply.outer(s, rate)
            d0, d1 = np.cos(angle) @ weight, -np.sin(angle) @ (weight * rate)
            d2 = -np.cos(angle) @ (weight * rate**2)
            return log, v * s + d1 / (1 + d0), v + d2 / (1 + d0) - (d1 / (1 + d0)) ** 2
        k = np.arange(1, 41)
        mass = 2 * self.density(k)
        lift = np.multiply.outer(s, k)
        whole = self.density(0.0) + np.cosh(lift) @ mass
        first, second = np.sinh(lift) @ (mass * k) / whole, np.cosh(lift) @ (mass * k * k) / whole
        return log, first, second - first**2

    def best_threshold(self) -> Threshold:
        """A ramp: from sigma = 16 on the Gaussian's threshold, centred; below, the level with the least range."""
        return Threshold.ramp(BEST * self.sigma - 0.5 if self.sigma >= SMOOTH else _least_range(self.sigma))

    def _masses(self) -> tuple[Floats, int]:
        return _gaussian_masses(self.sigma, self._log_norm())

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Floats:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c]."""
        return self._uppers_to(c, s, k)[k]

    def uppers(self, c: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """`upper` for k = 0, 1 and 2, which have their sums in common."""
        zeroth, one, two = self._uppers_to(c, s, 2)
        return zeroth, one, two

    def _uppers_to(self, c: ArrayLike, s: ArrayLike, last: int) -> list[Floats]:
        """For k = 0 to `last`. Below -15 sigma there is no mass to speak of (e^-112)."""
        cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s, dtype=np.float64))
        first = np.maximum(np.floor(cut) + 1, -np.ceil(15 * self.sigma + 1))
        sums, gap = self._sums(first, s, last), first - cut
        lift = np.exp(s * gap)
        return [lift * sum(comb(k, j) * gap ** (k - j) * sums[j] for j in range(k + 1)) for k in range(last + 1)]

    def _sums(self, first: Floats, s: Floats, last: int) -> list[Floats]:
        """sum_{l >= 0} l^j e^{sl} P(eta = first + l) for j = 0 to `last`; without a tilt from a list, where one is short."""
        if self.sigma <= LISTED and not np.any(s):
            reach, sums = _untilted(self.sigma, self._log_norm())
            place = np.minimum(first + reach, sums.shape[1] - 1).astype(np.int64)
            return [sums[j][place] for j in range(last + 1)]
        found = partial_sums(self.sigma, self._log_norm(), first.ravel(), s.ravel(), last)
        return [part.reshape(first.shape) for part in found]

    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation, as floats that are whole numbers."""
        from fairpost.noise.kernels import streams

        return streams.discrete_gaussian(n, self.sigma, stream.seed, stream.run)


@lru_cache(maxsize=64)
def _least_range(sigma: float) -> float:
    """The level whose ramp has the least range of biases, searched for."""
    from scipy.optimize import minimize_scalar

    noise = DiscreteGaussian(sigma)

    def cost(level: float) -> float:
        return Threshold.ramp(level).bias_range(noise)

    levels = np.arange(0.0, sigma + 1.0, 0.05)
    best = float(levels[np.argmin([cost(level) for level in levels])])
    found = minimize_scalar(cost, bounds=(max(best - 0.05, 0.0), best + 0.05), method="bounded")
    return float(found.x) if found.fun < cost(best) else best


@lru_cache(maxsize=4)
def _untilted(sigma: float, log_norm: float) -> tuple[int, Floats]:
    """S_j(m) = sum_{i >= m} (i - m)^j P(eta = i) for j = 0, 1, 2 and m = -reach, ..., reach + 1, where they are 0.

    S_1(m) = (S_1 + S_0)(m + 1) and S_2(m) = (S_2 + 2 S_1 + S_0)(m + 1): positive terms only, added from the smallest up.
    """
    mass, reach = _gaussian_masses(sigma, log_norm)

    def added(terms: Floats) -> Floats:
        return np.append(np.cumsum(terms[::-1])[::-1], 0.0)

    zeroth = added(mass)
    one = added(zeroth[1:])
    sums = np.stack([zeroth, one, added((2 * one + zeroth)[1:])])
    sums.flags.writeable = False
    return reach, sums


@lru_cache(maxsize=4)
def _gaussian_masses(sigma: float, log_norm: float) -> tuple[Floats, int]:
    """The masses out to e^-112 of the centre's (15 sigma)."""
    reach = int(np.ceil(15 * sigma + 1))
    if 2 * reach + 1 > MAX_TABLE:
        raise UnsupportedError(
            f"discrete-gaussian: sums over its masses need a table of {2 * reach:.3g} entries, the limit is {MAX_TABLE}"
        )
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-((k / sigma) ** 2) / 2 - log_norm)
    mass.flags.writeable = False
    return mass, reach


# ------------------------------------------------------------------ partial transforms of discrete Gaussian noise
# S_j = sum_{l >= 0} l^j e^{sl} P(eta = m + l) for j = 0, 1, 2, without a table.
#
# With v = sigma^2 and alpha = m/v - s the terms are P(eta = m) l^j w(l), w(l) = e^{-alpha l - l^2/2v}, and there are two ways.
#
# **A sum of few terms.** Where alpha > STEEP each term is below e^-STEEP of the one before: l up to LONGEST is all. Likewise for sigma below
# LARGE, where l runs to 15 sigma past the peak.
#
# **Euler and Maclaurin.** Elsewhere the sum is the integral with what its end adds,
#
#     S_j = c E[(eta' - m)^j e^{s (eta' - m)}; eta' > m] + P(eta = m) (1{j = 0}/2 - sum_{r=1}^{R} B_{2r}/(2r) w_{2r-1-j}),
#
# eta' normal, c = sigma sqrt(2 pi) / sum_k e^{-k^2/2v}, B the Bernoulli numbers, and w_k the Taylor coefficients of w:
# (k + 1) w_{k+1} = -alpha w_k - w_{k-1}/v, since the (2r-1)-th derivative of l^j w at 0 is (2r-1)! w_{2r-1-j}. What is left out is about
# 2 (|alpha|/2 pi)^{2R} P(eta = m) for large |alpha| sigma and 2 sqrt((2R)!) (2 pi sigma)^{-2R} P(eta = m) for small: with R = 10,
# |alpha| <= STEEP and sigma >= LARGE at most 1e-17. alpha below -STEEP has the peak above m: there P(eta = m) is e^{-(alpha sigma)^2/2}
# of it, which makes up for (|alpha|/2 pi)^{2R} (at sigma = 4, alpha = -2: 1e-24), and from alpha sigma = -FAR on the end adds nothing.


def partial_sums(sigma: float, log_norm: float, m: Floats, s: Floats, last: int = 2) -> list[Floats]:
    """S_0 to S_last for each whole m and s; log_norm = log sum_k e^{-k^2/2 sigma^2}."""
    alpha = m / sigma**2 - s
    first = np.exp(-((m / sigma) ** 2) / 2 - log_norm)
    out = [np.empty(m.shape) for _ in range(last + 1)]
    summed = (alpha > STEEP) if sigma >= LARGE else np.ones(m.shape, dtype=bool)
    for where, form in ((summed, _by_terms), (~summed, _by_ends)):
        if where.any():
            found = form(sigma, log_norm, m[where], s[where], alpha[where], first[where], last)
            for whole, part in zip(out, found, strict=True):
                whole[where] = part
    return out


def _by_terms(
    sigma: float, log_norm: float, m: Floats, s: Floats, alpha: Floats, first: Floats, last: int
) -> list[Floats]:
    """All terms, two products each: w(l + 1)/w(l) = e^{-alpha - (2l + 1)/2v} falls by e^{-1/v} from one to the next."""
    many = LONGEST if sigma >= LARGE else int(np.ceil(15 * sigma + max(0.0, -float(np.min(alpha)) * sigma**2))) + 1
    term, ratio, fall = first.copy(), np.exp(-alpha - 0.5 / sigma**2), float(np.exp(-1 / sigma**2))
    sums = [term.copy(), *(np.zeros_like(term) for _ in range(last))]
    for l in range(1, many + 1):
        term *= ratio
        ratio *= fall
        for j in range(last + 1):
            sums[j] += l**j * term
    return sums


def _by_ends(
    sigma: float, log_norm: float, m: Floats, s: Floats, alpha: Floats, first: Floats, last: int
) -> list[Floats]:
    """The integral and its end."""
    scale = sigma * np.sqrt(2 * np.pi) * np.exp(-log_norm)
    end = np.where(alpha * sigma < -FAR, 0.0, first)
    taylor = _taylor(sigma, np.maximum(alpha, -FAR / sigma))
    out = []
    for j, integral in enumerate(Gaussian(sigma).uppers_to(m, s, last)):
        add = sum(b / (2 * r) * taylor[2 * r - 1 - j] for r, b in enumerate(BERNOULLI, start=1) if 2 * r - 1 >= j)
        out.append(scale * integral + end * ((0.5 if j == 0 else 0.0) - add))
    return out


def _taylor(sigma: float, alpha: Floats) -> list[Floats]:
    found = [np.ones_like(alpha), -alpha]
    for k in range(1, 2 * len(BERNOULLI) - 1):
        found.append(-(alpha * found[k] + found[k - 1] / sigma**2) / (k + 1))
    return found
