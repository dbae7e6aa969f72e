"""The Laplace and the Gaussian mechanism, and the families of noise by what they promise.

The Laplace pair (continuous and discrete) promises pure differential privacy, the Gaussian pair zCDP.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike

from fairpost.errors import ParameterError
from fairpost.noise import calibration
from fairpost.noise.base import GAUSSIAN, LAPLACE, Floats, Law, Numbers, Promise, Stream, positive
from fairpost.noise.threshold import Threshold

BEST = 0.7517915247
"""The tau that maximises tau P(eta > tau) for the standard normal; the range of biases is twice that maximum, 0.33994."""


class PureNoise(Law):
    """Noise with tails like e^{-|u|/b}: pure epsilon-DP with epsilon = D / b, D the L1 sensitivity."""

    scale: float
    parameter: ClassVar[str] = "scale"

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: float = 1.0) -> Self:
        """The scale for pure epsilon-DP: b = sensitivity / epsilon, sensitivity in L1."""
        return cls(calibration.laplace_scale(epsilon, sensitivity))  # type: ignore[call-arg]

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float = 1.0) -> Self:
        """The scale for rho-zCDP: epsilon-DP implies epsilon^2/2-zCDP (Bun and Steinke 2016, Prop. 1.4)."""
        return cls.from_epsilon(calibration.pure_from_rho(rho), sensitivity)

    @classmethod
    def from_promise(
        cls,
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        delta: float | None = None,
        sensitivity: float = 1.0,
    ) -> Self:
        """From epsilon or rho; a delta plays no part, the promise is pure."""
        return (
            cls.from_rho(rho, sensitivity)
            if epsilon is None and rho is not None
            else cls.from_epsilon(_given("epsilon", epsilon), sensitivity)
        )

    def epsilon(self, sensitivity: float = 1.0) -> float:
        """The privacy loss of one release: sensitivity / b."""
        return positive("sensitivity", sensitivity) / self.scale

    def promise(self, sensitivity: float = 1.0, delta: float | None = None) -> Promise:
        """Pure: delta is 0."""
        return Promise(self.epsilon(sensitivity), 0.0, None)

    @property
    def strip(self) -> float:
        """1 / b."""
        return 1.0 / self.scale


class ConcentratedNoise(Law):
    """Noise with tails like e^{-u^2/2 sigma^2}: rho-zCDP with rho = D^2 / (2 sigma^2), D the L2 sensitivity."""

    sigma: float
    parameter: ClassVar[str] = "sigma"

    @classmethod
    @abstractmethod
    def from_epsilon(cls, epsilon: float, delta: float, sensitivity: float = 1.0) -> Self:
        """A sigma with (epsilon, delta)-DP; sensitivity in L2."""

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float = 1.0) -> Self:
        """The sigma for rho-zCDP (Bun and Steinke 2016, Prop. 1.6; Canonne, Kamath and Steinke 2020, Theorem 4)."""
        return cls(calibration.gaussian_sigma_zcdp(rho, sensitivity))  # type: ignore[call-arg]

    @classmethod
    def from_promise(
        cls,
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        delta: float | None = None,
        sensitivity: float = 1.0,
    ) -> Self:
        """From rho, or from epsilon and delta."""
        if epsilon is None and rho is not None:
            return cls.from_rho(rho, sensitivity)
        if delta is None:
            raise ParameterError(f"epsilon for {cls.name} noise needs `delta` too, got epsilon {epsilon} alone")
        return cls.from_epsilon(_given("epsilon", epsilon), delta, sensitivity)

    @abstractmethod
    def epsilon(self, delta: float, sensitivity: float = 1.0) -> float:
        """An epsilon with (epsilon, delta)-DP."""

    def rho(self, sensitivity: float = 1.0) -> float:
        """The zCDP parameter D^2 / (2 sigma^2)."""
        return calibration.gaussian_rho(self.sigma, sensitivity)

    def promise(self, sensitivity: float = 1.0, delta: float | None = None) -> Promise:
        """rho, and with a delta the epsilon that goes with it."""
        epsilon = None if delta is None else self.epsilon(delta, sensitivity)
        return Promise(epsilon, delta, self.rho(sensitivity))

    @property
    def strip(self) -> float:
        """Infinity: every exponential moment exists."""
        return float("inf")


def _given(name: str, value: float | None) -> float:
    if value is None:
        raise ParameterError(f"a promise needs `{name}` or `rho`, got neither")
    return value


@final
@dataclass(frozen=True)
class Laplace(PureNoise):
    """Laplace noise with scale b (the paper's lambda): density e^{-|u|/b} / (2b).

    Adding it to counts of L1 sensitivity D is epsilon-differentially private with epsilon = D / b
    (Dwork, McSherry, Nissim and Smith 2006).
    """

    scale: float
    name: ClassVar[str] = "laplace"
    code: ClassVar[int | None] = LAPLACE

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @property
    def variance(self) -> float:
        """2 b^2."""
        return 2.0 * self.scale**2

    def density(self, u: ArrayLike) -> Floats:
        """e^{-|u|/b} / (2b)."""
        return np.exp(-np.abs(np.asarray(u, dtype=np.float64)) / self.scale) / (2.0 * self.scale)

    def cdf(self, u: ArrayLike) -> Floats:
        """P(eta <= u)."""
        t = np.asarray(u, dtype=np.float64) / self.scale
        half = 0.5 * np.exp(-np.abs(t))
        return np.where(t <= 0, half, 1.0 - half)

    def cgf(self, s: ArrayLike) -> Numbers:
        """-log(1 - b^2 s^2)."""
        t = np.asarray(s) * self.scale
        return -np.log1p(-t) - np.log1p(t)

    def cumulants(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """K, 2 b^2 s f and 2 b^2 (1 + b^2 s^2) f^2 with f = 1 / (1 - b^2 s^2)."""
        b = self.scale
        f = 1 / ((1 - b * s) * (1 + b * s))
        return np.asarray(self.cgf(s)), 2 * b * b * s * f, 2 * b * b * (1 + (b * s) ** 2) * f * f

    def best_threshold(self) -> Threshold:
        """tau = b, a jump: optimal among all non-negative outputs, for every shift at once."""
        return Threshold(self.scale)

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Floats:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c].

        c > 0: the excess over c is exponential, (e^{-c/b}/2) k! b^k / (1 - s b)^{k+1}.
        c <= 0, d = -c: the part eta <= 0 gives (e^{-d/b} d^{k+1} / 2b) int_0^1 u^k e^{(s + 1/b) d u} du, the
        part eta > 0 gives (e^{s d} / 2b) sum_j (k!/j!) d^j / (1/b - s)^{k-j+1}; every term is positive, so nothing
        cancels.
        """
        b = self.scale
        if not np.any(s):
            return self._untilted(np.asarray(c, dtype=np.float64), k)
        cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s, dtype=np.float64))
        d = np.maximum(-cut, 0.0)
        factorial = (1.0, 1.0, 2.0)
        right = (factorial[k] * b**k / 2) * np.exp(-np.maximum(cut, 0.0) / b) / (1 - s * b) ** (k + 1)
        head, tail = np.exp(-d / b), np.exp(s * d)
        below = d ** (k + 1) / (2 * b) * _growth((s + 1 / b) * d, head, tail, k)
        above = sum(factorial[k] / factorial[j] * d**j / (1 / b - s) ** (k - j + 1) for j in range(k + 1))
        return np.asarray(np.where(cut > 0, right, below + tail * above / (2 * b)))

    def _untilted(self, c: Floats, k: int) -> Floats:
        """E[(eta - c)^k; eta > c]: the excess over c > 0; below 0 the whole line, (1, d, d^2 + 2 b^2) for d = -c, less its mirror image.

        The image is at most half of the whole: nothing cancels.
        """
        b, d = self.scale, np.maximum(-c, 0.0)
        tail = np.exp(-np.abs(c) / b) * (0.5, 0.5 * b, b * b)[k]
        whole = (1.0, d, d * d + 2 * b * b)[k]
        return np.where(c > 0, tail, whole - tail if k != 1 else whole + tail)

    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation."""
        from fairpost.noise.kernels import streams

        return streams.laplace(n, self.scale, stream.seed, stream.run)


@final
@dataclass(frozen=True)
class Gaussian(ConcentratedNoise):
    """Normal noise N(0, sigma^2) on each count; calibrate from the L2 sensitivity.

    `from_epsilon` is the analytic Gaussian mechanism (tight); `from_classic` the paper's rule.
    """

    sigma: float
    name: ClassVar[str] = "gaussian"
    code: ClassVar[int | None] = GAUSSIAN

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, sensitivity: float = 1.0) -> Gaussian:
        """The smallest sigma that is (epsilon, delta)-DP (Balle and Wang 2018); sensitivity in L2."""
        return cls(calibration.gaussian_sigma(epsilon, delta, sensitivity))

    @classmethod
    def from_classic(cls, epsilon: float, delta: float, sensitivity: float = 1.0) -> Gaussian:
        """The paper's rule sigma = c D / epsilon, c^2 = 2 ln(1.25/delta), proved for epsilon <= 1 only."""
        return cls(calibration.gaussian_sigma_classic(epsilon, delta, sensitivity))

    def epsilon(self, delta: float, sensitivity: float = 1.0) -> float:
        """The smallest epsilon with (epsilon, delta)-DP (Balle and Wang 2018)."""
        return calibration.gaussian_epsilon(self.sigma, delta, sensitivity)

    @property
    def variance(self) -> float:
        """sigma^2."""
        return self.sigma**2

    def density(self, u: ArrayLike) -> Floats:
        """e^{-u^2 / 2 sigma^2} / (sigma sqrt(2 pi))."""
        t = np.asarray(u, dtype=np.float64) / self.sigma
        return np.asarray(np.exp(-t * t / 2) / (self.sigma * np.sqrt(2 * np.pi)))

    def cdf(self, u: ArrayLike) -> Floats:
        """P(eta <= u)."""
        from scipy.special import ndtr

        return np.asarray(ndtr(np.asarray(u, dtype=np.float64) / self.sigma))

    def cgf(self, s: ArrayLike) -> Numbers:
        """sigma^2 s^2 / 2."""
        return (self.sigma * np.asarray(s)) ** 2 / 2

    def cumulants(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """sigma^2 s^2 / 2, sigma^2 s and sigma^2."""
        return np.asarray(self.cgf(s)), self.sigma**2 * s, np.full_like(s, self.sigma**2)

    def best_threshold(self) -> Threshold:
        """tau = 0.7518 sigma, a jump: the root of tau = P(eta > tau) / p(tau), optimal in this family."""
        return Threshold(BEST * self.sigma)

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Floats:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c]."""
        return self.uppers_to(c, s, k)[k]

    def uppers(self, c: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """`upper` for k = 0, 1 and 2."""
        zeroth, one, two = self.uppers_to(c, s, 2)
        return zeroth, one, two

    def uppers_to(self, c: ArrayLike, s: ArrayLike, last: int) -> list[Floats]:
        """`upper` for k = 0 to `last`.

        With t = c/sigma and q = t - s sigma it is sigma^k e^{-t^2/2} I_k(q) / sqrt(2 pi), where
        I_k(q) = int_0^inf v^k e^{-v^2/2 - q v} dv. For q < 0 it is the transform of the whole line, E[(N - q)^k] with the
        exponent s^2 sigma^2/2 - s c, less the mirror image, which is at most half of it.
        """
        sigma = self.sigma
        cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s, dtype=np.float64))
        t = cut / sigma
        q = t - s * sigma
        flip, density = q < 0, np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
        line = np.exp(np.where(flip, (s * sigma) ** 2 / 2 - s * cut, 0.0))
        out = []
        for k, tail in enumerate(_tails(np.abs(q), last)):
            part, whole = density * tail, line * (1.0, -q, q * q + 1)[k]
            out.append(np.asarray(sigma**k * np.where(flip, whole - (-1) ** k * part, part)))
        return out

    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation."""
        from fairpost.noise.kernels import streams

        return streams.gaussian(n, self.sigma, stream.seed, stream.run)


def _tails(q: Floats, last: int) -> list[Floats]:
    """I_k(q) = int_0^inf v^k e^{-v^2/2 - q v} dv for q >= 0 and k = 0 to `last`.

    By parts k I_{k-1} = I_{k+1} + q I_k, so that r_k = I_k / I_{k-1} = k / (q + r_{k+1}): taken from r_80 = 0 downwards nothing
    cancels, and from q = 3 on what is cut off is below 1e-16 (1e-11 at q = 2 from r_60). Below 3, I_1 = 1 - q I_0 and
    I_2 = I_0 - q I_1 lose q^4 = 81 units in the last place at most.
    """
    from scipy.special import erfcx

    zeroth = np.sqrt(np.pi / 2) * erfcx(q / np.sqrt(2))
    if last == 0:
        return [zeroth]
    large = np.maximum(q, 3.0)
    second, ratio = np.zeros_like(q), np.zeros_like(q)
    for j in range(80, 0, -1):
        second, ratio = ratio, j / (large + ratio)
    first = np.where(q < 3, 1 - q * zeroth, zeroth * ratio)
    return [zeroth, first, np.where(q < 3, zeroth - q * first, first * second)][: last + 1]


def _growth(z: Floats, head: Floats, tail: Floats, k: int) -> Floats:
    """Head * integral_0^1 u^k e^{z u} du, given tail = head * e^z.

    Integration by parts gives the recurrence; where |z| < 1 it would cancel, and the series is used.
    """
    small = np.abs(z) < 1
    safe = np.where(small, 1.0, z)
    value = (tail - head) / safe
    for j in range(1, k + 1):
        value = (tail - j * value) / safe
    near = np.where(small, z, 0.0)
    term, series = np.ones_like(near), np.zeros_like(near)
    for m in range(20):  # 1/20! < 1e-18
        series = series + term / (m + k + 1)
        term = term * near / (m + 1)
    return np.where(small, head * series, value)
