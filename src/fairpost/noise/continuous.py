"""The Laplace and the Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from fairpost.noise import calibration
from fairpost.noise.base import GAUSSIAN, LAPLACE, Floats, Numbers, Stream, positive
from fairpost.noise.families import ConcentratedNoise, PureNoise
from fairpost.noise.threshold import Threshold

BEST = 0.7517915247
"""The tau that maximises tau P(eta > tau) for the standard normal; the range of biases is twice that maximum, 0.33994."""


def _growth(z: Numbers, head: Numbers, tail: Numbers, k: int) -> Numbers:
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

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c].

        c > 0: the excess over c is exponential, (e^{-c/b}/2) k! b^k / (1 - s b)^{k+1}.
        c <= 0, d = -c: the part eta <= 0 gives (e^{-d/b} d^{k+1} / 2b) int_0^1 u^k e^{(s + 1/b) d u} du, the
        part eta > 0 gives (e^{s d} / 2b) sum_j (k!/j!) d^j / (1/b - s)^{k-j+1}; for real s every term is
        positive, so nothing cancels.
        """
        b = self.scale
        if isinstance(s, float) and s == 0:
            return self._untilted(np.asarray(c, dtype=np.float64), k)
        cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s))
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

    def lower(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta <= c], the mirror of `upper`."""
        turned = -s if isinstance(s, float) else -np.asarray(s)
        return np.asarray((-1) ** k * self.upper(-np.asarray(c, dtype=np.float64), turned, k))

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

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c].

        With t = c/sigma and q = t - s sigma it is sigma^k e^{-t^2/2} I_k(q) / sqrt(2 pi), where
        I_k(q) = int_0^inf v^k e^{-v^2/2 - q v} dv: the Faddeeva function for k = 0 and, by parts,
        I_1 = 1 - q I_0, I_2 = I_0 - q I_1. Those cancel for large q, where the asymptotic series is used.
        For Re q < 0 the transform of the whole line minus the mirror image avoids overflow.
        """
        from scipy.special import wofz

        sigma = self.sigma
        cut, s = np.broadcast_arrays(np.asarray(c, dtype=np.float64), np.asarray(s))
        real = not np.iscomplexobj(s)
        t = cut / sigma
        q = t - s * sigma
        flip = q.real < 0
        p = np.where(flip, -q, q)
        i0 = np.sqrt(np.pi / 2) * wofz(1j * p / np.sqrt(2))
        forms = [i0, 1 - p * i0]
        forms.append(i0 - p * forms[1])
        far = np.abs(p) > 10
        value = np.where(far, _tail_series(np.where(far, p, 10.0), k), forms[k])
        part = np.exp(-t * t / 2) / np.sqrt(2 * np.pi) * value
        # the whole line: E[(eta - c)^k e^{s(eta - c)}] = e^{s^2 sigma^2/2 - s c} E[(N - q)^k] in units of sigma
        exponent = np.where(flip, (s * sigma) ** 2 / 2 - s * cut, 0.0)
        whole = np.exp(exponent) * (1.0, -q, q * q + 1)[k]
        out = sigma**k * np.where(flip, whole - (-1) ** k * part, part)
        return np.asarray(out.real if real else out)

    def lower(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta <= c], the mirror of `upper`."""
        return np.asarray((-1) ** k * self.upper(-np.asarray(c, dtype=np.float64), -np.asarray(s), k))

    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation."""
        from fairpost.noise.kernels import streams

        return streams.gaussian(n, self.sigma, stream.seed, stream.run)


def _tail_series(q: Numbers, k: int) -> Numbers:
    """I_k(q) for |q| > 10: sum_m (-1/2)^m (k + 2m)! / (m! q^{k+2m+1}); 25 terms reach 1e-16."""
    inverse = 1 / q
    term = (1.0, 1.0, 2.0)[k] * inverse ** (k + 1)
    total = np.zeros_like(term)
    for m in range(25):
        total = total + term
        term = -term * ((k + 2 * m + 1) * (k + 2 * m + 2) / (2.0 * (m + 1))) * inverse * inverse
    return total
