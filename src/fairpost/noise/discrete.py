"""The discrete Laplace (two-sided geometric) and the discrete Gaussian mechanism: noise in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from fairpost.errors import UnsupportedError
from fairpost.noise import calibration
from fairpost.noise.base import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, Floats, Law, Numbers, Stream, positive
from fairpost.noise.continuous import BEST
from fairpost.noise.families import ConcentratedNoise, PureNoise
from fairpost.noise.partial_theta import partial_sums
from fairpost.noise.threshold import Threshold

SMOOTH = 16.0
"""From this sigma on the discrete Gaussian's best ramp is the Gaussian's threshold, centred."""
MAX_TABLE = 2**25
"""The longest table of masses: a scale of 1.6e5 (discrete Laplace) or a sigma of 1.1e6 (discrete Gaussian)."""


def _table(reach: float, name: str) -> int:
    if 2 * reach + 1 > MAX_TABLE:
        raise UnsupportedError(
            f"{name}: sums over its masses need a table of {2 * reach:.3g} entries, the limit is {MAX_TABLE}"
        )
    return int(np.ceil(reach))


def _partial(mass: Floats, reach: int, c: ArrayLike, s: ArrayLike, k: int) -> Numbers:
    """`upper` from masses at -reach..reach, by sums from the top.

    With S_j(m) = sum_{i >= m} (i - m)^j e^{s (i - m)} p(i) the recurrence S_0(m) = p(m) + e^s S_0(m + 1),
    S_1(m) = e^s (S_1 + S_0)(m + 1), S_2(m) = e^s (S_2 + 2 S_1 + S_0)(m + 1) adds positive terms only (s real). The
    first whole number above c is m0; the offset m0 - c is put back binomially.
    """
    from fairpost.noise.kernels import lattice

    cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s))
    out = np.zeros(cut.shape, dtype=np.complex128 if np.iscomplexobj(s) else np.float64)
    first = np.floor(cut) + 1
    place = np.clip(first, -reach, reach + 1)
    offset = np.maximum(place - cut, 0.0)  # beyond the table the sums are 0
    for value in np.unique(s):
        here = s == value
        sums = lattice.partial_sums(mass, value)
        at = (place[here] + reach).astype(np.int64)
        gap = offset[here]
        binomial = ((1.0,), (1.0, 1.0), (1.0, 2.0, 1.0))[k]
        total = sum(binomial[j] * gap ** (k - j) * sums[j][at] for j in range(k + 1))
        out[here] = np.exp(value * gap) * total
    return out


def _geometric(rate: float, c: ArrayLike, s: ArrayLike, k: int) -> Numbers:
    """`upper` of discrete Laplace noise with masses t q^{|i|}, q = e^{-rate}, t = tanh(rate/2), by closed geometric sums.

    The first whole number above c is m0, i = m0 + l and gap = m0 - c: (i - c)^k e^{s(i-c)} = e^{s gap} (l + gap)^k e^{sl}.
    The tail from m0 >= 0 on has the ratio w = q e^s: t q^{m0} sum l^j w^l, with 1/(1-w), w/(1-w)^2, w(1+w)/(1-w)^3. For
    m0 = -N < 0 the tail starts at l = N (expanded in l - N), and before it there are N terms t q^N e^{(s + rate) l}, l < N.
    The sum exists for s < rate.
    """
    cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s))
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


def _finite(n: Floats, s: Numbers, rate: float) -> list[Numbers]:
    """q^n sum_{l < n} l^j z^l for j = 0, 1, 2, with z = e^{s + rate}; n whole and >= 0.

    By doubling along the binary digits of n, which adds positive terms only (s real), where the closed form cancels
    near z = 1: sum_{l < 2m} = sum_{l < m} + z^m sum_{l < m} (l + m)^j z^l, and one more term is m^j z^m. Every sum up to m
    carries the factor e^{-(m-1) log z}, where z > 1, so that nothing overflows: it is put back with q^n.
    """
    log = s + rate
    grows = log.real > 0
    h0, h1, h2 = (np.zeros(log.shape, dtype=log.dtype) for _ in range(3))
    m = np.zeros(n.shape)
    for place in reversed(range(int(np.max(n)).bit_length())):
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
        return float(0.5 / np.sinh(0.5 / self.scale) ** 2) if self.scale > 2e-3 else 0.0

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

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c]."""
        return _geometric(1 / self.scale, c, s, k)

    def lower(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta <= c], the mirror of `upper` (with the point c itself)."""
        return _mirror(self, c, s, k)

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
        """Sum k^2 p(k)."""
        mass, reach = self._masses()
        k = np.arange(-reach, reach + 1, dtype=np.float64)
        return float(np.sum(mass * k * k))

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
        """P(eta <= u)."""
        mass, reach = self._masses()
        below = np.concatenate([[0.0], np.cumsum(mass[: reach + 1])])  # below[i] = P(eta < i - reach), to the centre
        m = np.floor(np.asarray(u, dtype=np.float64))
        tail = below[np.clip(reach + 1 - np.abs(m + (m >= 0)), 0, reach + 1).astype(np.int64)]
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

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c]: many real s at once without a table, else from one."""
        tilt = np.asarray(s)
        return self.uppers(c, tilt)[k] if _many(tilt) else _partial(*self._masses(), c, s, k)

    def lower(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta <= c], the mirror of `upper` (with the point c itself)."""
        return _mirror(self, c, s, k)

    def uppers(self, c: ArrayLike, s: ArrayLike) -> tuple[Numbers, Numbers, Numbers]:
        """`upper` for k = 0, 1 and 2, by `partial_theta` where there are many s. Below -15 sigma there is no mass to speak of (e^-112)."""
        if not _many(np.asarray(s)):
            return super().uppers(c, s)
        cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s, dtype=np.float64))
        first = np.maximum(np.floor(cut) + 1, -np.ceil(15 * self.sigma + 1))
        gap = first - cut
        zeroth, one, two = partial_sums(self.sigma, self._log_norm(), first, s)
        lift = np.exp(s * gap)
        return lift * zeroth, lift * (one + gap * zeroth), lift * (two + gap * (2 * one + gap * zeroth))

    def lowers(self, c: ArrayLike, s: ArrayLike) -> tuple[Numbers, Numbers, Numbers]:
        """`lower` for k = 0, 1 and 2, the mirror of `uppers`."""
        cut = np.asarray(c, dtype=np.float64)
        zeroth, one, two = self.uppers(-cut, -np.asarray(s))
        return zeroth + self.density(cut), -one, two

    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation, as floats that are whole numbers."""
        from fairpost.noise.kernels import streams

        return streams.discrete_gaussian(n, self.sigma, stream.seed, stream.run)


def _many(s: Numbers) -> bool:
    """Whether there are so many real s that a table for each would cost more than `partial_theta`."""
    return s.size > 32 and not np.iscomplexobj(s)


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


def _mirror(mechanism: Law, c: ArrayLike, s: ArrayLike, k: int) -> Numbers:
    """`lower` by symmetry; eta <= c becomes -eta >= -c, so an atom at c itself is added (it matters for k = 0 only)."""
    cut = np.asarray(c, dtype=np.float64)
    value = mechanism.upper(-cut, -np.asarray(s), k)
    return np.asarray((-1) ** k * value + (mechanism.density(cut) if k == 0 else 0.0))


@lru_cache(maxsize=4)
def _gaussian_masses(sigma: float, log_norm: float) -> tuple[Floats, int]:
    """The masses out to e^-112 of the centre's (15 sigma)."""
    reach = _table(15 * sigma + 1, "discrete-gaussian")
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-((k / sigma) ** 2) / 2 - log_norm)
    mass.flags.writeable = False
    return mass, reach
