"""Between a promise of privacy and a mechanism: the one place where a name and numbers become noise, and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fairpost.errors import ParameterError
from fairpost.noise.base import Law, Mechanism, Promise, positive
from fairpost.noise.continuous import Gaussian, Laplace
from fairpost.noise.discrete import DiscreteGaussian, DiscreteLaplace

MECHANISMS: dict[str, type[Law]] = {kind.name: kind for kind in (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian)}


@dataclass(frozen=True)
class Neighbours:
    """What a promise is about: the sensitivity (L1 for the Laplace pair, L2 for the Gaussian pair) and delta."""

    sensitivity: float = 1.0
    delta: float | None = None

    def __post_init__(self) -> None:
        positive("sensitivity", self.sensitivity)
        if self.delta is not None and not positive("delta", self.delta) < 1:
            raise ParameterError(f"`delta` must be below 1, got {self.delta!r}")

    def promise(self, mechanism: Mechanism) -> Promise:
        """What this noise promises to such neighbours."""
        return mechanism.promise(self.sensitivity, self.delta)

    def epsilon(self, mechanism: Mechanism) -> float | None:
        """The epsilon that this noise promises; None for the Gaussian pair without a delta."""
        return self.promise(mechanism).epsilon

    def describe(self, mechanism: Mechanism) -> dict[str, Any]:
        """The mechanism and its promise as plain data: `mechanism` in the JSON of the commands."""
        return mechanism.describe() | asdict(self.promise(mechanism)) | {"sensitivity": self.sensitivity}


def mechanism_of(
    name: str,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    scale: float | None = None,
    sigma: float | None = None,
    neighbours: Neighbours | None = None,
) -> Law:
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
        return kind(value)  # type: ignore[call-arg]
    return kind.from_promise(**{how: value}, delta=about.delta, sensitivity=about.sensitivity)
