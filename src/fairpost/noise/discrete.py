"""The discrete Laplace (two-sided geometric) and the discrete Gaussian mechanism: noise in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from fairpost.errors import UnsupportedError
from fairpost.noise import calibration
from fairpost.noise.base import Floats, Mechanism, Numbers, Stream, positive

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


@final
@dataclass(frozen=True)
class DiscreteLaplace(Mechanism):
    """Two-sided geometric noise: mass (1 - q)/(1 + q) q^{|k|} with q = e^{-1/b} at each whole number k.

    Ghosh, Roughgarden and Sundararajan 2009; epsilon-DP with epsilon = D / b for whole-number counts of L1
    sensitivity D.
    """

    scale: float
    name: ClassVar[str] = "discrete-laplace"
    parameter: ClassVar[str] = "scale"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("scale", self.scale))

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: float = 1.0) -> DiscreteLaplace:
        """The scale for pure epsilon-DP: b = sensitivity / epsilon, sensitivity in L1."""
        return cls(calibration.laplace_scale(epsilon, sensitivity))

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float = 1.0) -> DiscreteLaplace:
        """The scale for rho-zCDP through pure DP (Bun and Steinke 2016, Prop. 1.4)."""
        return cls.from_epsilon(calibration.pure_from_rho(rho), sensitivity)

    def epsilon(self, sensitivity: float = 1.0) -> float:
        """The privacy loss of one release: sensitivity / b."""
        return positive("sensitivity", sensitivity) / self.scale

    @property
    def variance(self) -> float:
        """2 q / (1 - q)^2 = 1 / (2 sinh^2(1 / 2b))."""
        return float(0.5 / np.sinh(0.5 / self.scale) ** 2) if self.scale > 1e-3 else 0.0

    @property
    def strip(self) -> float:
        """1 / b."""
        return 1.0 / self.scale

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

    def _masses(self) -> tuple[Floats, int]:
        return _laplace_masses(self.scale)

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c]."""
        return _partial(*self._masses(), c, s, k)

    def lower(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta <= c], the mirror of `upper` (with the point c itself)."""
        return _mirror(self, c, s, k)

    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation, as floats that are whole numbers."""
        from fairpost.noise.kernels import streams

        return streams.discrete_laplace(n, self.scale, stream.seed, stream.run)


@final
@dataclass(frozen=True)
class DiscreteGaussian(Mechanism):
    """Discrete Gaussian noise: mass proportional to e^{-k^2 / 2 sigma^2} at each whole number k.

    Canonne, Kamath and Steinke 2020; rho-zCDP with rho = D^2 / (2 sigma^2) for whole-number counts of L2
    sensitivity D. Its variance is below sigma^2, by less than 1e-15 of it for sigma >= 1.5.
    """

    sigma: float
    name: ClassVar[str] = "discrete-gaussian"
    parameter: ClassVar[str] = "sigma"
    discrete: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float = 1.0) -> DiscreteGaussian:
        """The sigma for rho-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4)."""
        return cls(calibration.gaussian_sigma_zcdp(rho, sensitivity))

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, sensitivity: float = 1.0) -> DiscreteGaussian:
        """A sigma with (epsilon, delta)-DP, through zCDP (Bun and Steinke 2016, Prop. 1.3): valid, not tight."""
        return cls.from_rho(calibration.rho_from_epsilon(epsilon, delta), sensitivity)

    def epsilon(self, delta: float, sensitivity: float = 1.0) -> float:
        """An epsilon with (epsilon, delta)-DP, through zCDP: valid, not tight."""
        return calibration.epsilon_from_rho(self.rho(sensitivity), delta)

    def rho(self, sensitivity: float = 1.0) -> float:
        """The zCDP parameter D^2 / (2 sigma^2)."""
        return calibration.gaussian_rho(self.sigma, sensitivity)

    @property
    def variance(self) -> float:
        """Sum k^2 p(k)."""
        mass, reach = self._masses()
        k = np.arange(-reach, reach + 1, dtype=np.float64)
        return float(np.sum(mass * k * k))

    @property
    def strip(self) -> float:
        """Infinity: every exponential moment exists."""
        return np.inf

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

    def _masses(self) -> tuple[Floats, int]:
        return _gaussian_masses(self.sigma, self._log_norm())

    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c]."""
        return _partial(*self._masses(), c, s, k)

    def lower(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Numbers:
        """E[(eta - c)^k e^{s (eta - c)}; eta <= c], the mirror of `upper` (with the point c itself)."""
        return _mirror(self, c, s, k)

    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation, as floats that are whole numbers."""
        from fairpost.noise.kernels import streams

        return streams.discrete_gaussian(n, self.sigma, stream.seed, stream.run)


def _mirror(mechanism: DiscreteLaplace | DiscreteGaussian, c: ArrayLike, s: ArrayLike, k: int) -> Numbers:
    """`lower` by symmetry; eta <= c becomes -eta >= -c, so an atom at c itself is added (it matters for k = 0 only)."""
    cut = np.asarray(c, dtype=np.float64)
    value = mechanism.upper(-cut, -np.asarray(s), k)
    return np.asarray((-1) ** k * value + (mechanism.density(cut) if k == 0 else 0.0))


@lru_cache(maxsize=4)
def _laplace_masses(scale: float) -> tuple[Floats, int]:
    """The masses out to e^-100 of the centre's."""
    reach = _table(100 * scale + 1, "discrete-laplace")
    k = np.arange(-reach, reach + 1)
    mass = np.tanh(0.5 / scale) * np.exp(-np.abs(k) / scale)
    mass.flags.writeable = False
    return mass, reach


@lru_cache(maxsize=4)
def _gaussian_masses(sigma: float, log_norm: float) -> tuple[Floats, int]:
    """The masses out to e^-112 of the centre's (15 sigma)."""
    reach = _table(15 * sigma + 1, "discrete-gaussian")
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-((k / sigma) ** 2) / 2 - log_norm)
    mass.flags.writeable = False
    return mass, reach
