"""Two families of noise by what they promise: pure differential privacy (the Laplace pair), zCDP (the Gaussian pair)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

from fairpost.errors import ParameterError
from fairpost.noise import calibration
from fairpost.noise.base import Law, Promise, positive


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
