"""Between a promise of privacy and a mechanism: the one place where a name and numbers become noise, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairpost.errors import ParameterError
from fairpost.noise import calibration
from fairpost.noise.base import Mechanism, positive
from fairpost.noise.continuous import Gaussian, Laplace
from fairpost.noise.discrete import DiscreteGaussian, DiscreteLaplace

MECHANISMS: dict[str, type[Laplace] | type[Gaussian] | type[DiscreteLaplace] | type[DiscreteGaussian]] = {
    kind.name: kind for kind in (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian)
}


@dataclass(frozen=True)
class Neighbours:
    """What a promise is about: the sensitivity (L1 for the Laplace pair, L2 for the Gaussian pair) and delta."""

    sensitivity: float = 1.0
    delta: float | None = None

    def __post_init__(self) -> None:
        positive("sensitivity", self.sensitivity)
        if self.delta is not None and not 0 < positive("delta", self.delta) < 1:
            raise ParameterError(f"`delta` must be below 1, got {self.delta!r}")

    def epsilon(self, mechanism: Mechanism) -> float | None:
        """The epsilon that this noise promises; None for the Gaussian pair without a delta."""
        if isinstance(mechanism, (Laplace, DiscreteLaplace)):
            return mechanism.epsilon(self.sensitivity)
        if isinstance(mechanism, (Gaussian, DiscreteGaussian)) and self.delta is not None:
            return mechanism.epsilon(self.delta, self.sensitivity)
        return None

    def describe(self, mechanism: Mechanism) -> dict[str, Any]:
        """The mechanism and its promise as plain data: `mechanism` in the JSON of the commands."""
        pure = isinstance(mechanism, (Laplace, DiscreteLaplace))
        rho = None if pure else calibration.gaussian_rho(mechanism.spread, self.sensitivity)
        promise = {"epsilon": self.epsilon(mechanism), "delta": 0.0 if pure else self.delta, "rho": rho}
        return mechanism.describe() | promise | {"sensitivity": self.sensitivity}


def mechanism_of(
    name: str,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    scale: float | None = None,
    sigma: float | None = None,
    neighbours: Neighbours | None = None,
) -> Mechanism:
    """The mechanism `name` from exactly one of epsilon (with delta for the Gaussian pair), rho, scale and sigma."""
    if name not in MECHANISMS:
        raise ParameterError(f"`mechanism` must be one of {', '.join(MECHANISMS)}, got {name!r}")
    about = Neighbours() if neighbours is None else neighbours
    given = {k: v for k, v in (("epsilon", epsilon), ("rho", rho), ("scale", scale), ("sigma", sigma)) if v is not None}
    if len(given) != 1:
        raise ParameterError(
            f"the noise must be given by exactly one of epsilon, rho, scale and sigma, got {', '.join(given) or 'none'}"
        )
    (how, value), kind = next(iter(given.items())), MECHANISMS[name]
    if how in ("scale", "sigma"):
        if how != kind.parameter:
            raise ParameterError(
                f"the noise of {name} is given by `{kind.parameter}`, not by `{how}`, got {how} {value}"
            )
        return kind(value)
    if how == "rho":
        return kind.from_rho(value, about.sensitivity)
    if kind is Laplace or kind is DiscreteLaplace:
        return kind.from_epsilon(value, about.sensitivity)
    if about.delta is None:
        raise ParameterError(f"epsilon for {name} noise needs `delta` too, got epsilon {value} alone")
    assert kind is Gaussian or kind is DiscreteGaussian
    return kind.from_epsilon(value, about.delta, about.sensitivity)
