"""M: what a noise mechanism knows. A mechanism is data; engines evaluate it.

Every mechanism adds independent noise eta_i, symmetric about 0, to each count: X_i = x_i + eta_i. There are two steps:

`Mechanism` can be simulated. A frozen dataclass with `variance` and `sample` is one.
`Law` can be integrated as well. It adds `density`, `cdf` and its *partial transforms*

    upper(c, s, k) = E[(eta - c)^k e^{s (eta - c)} ; eta > c]        k = 0, 1, 2;  s <= 0 or small beside the tails
    lower(c, s, k) = E[(eta - c)^k e^{s (eta - c)} ; eta <= c]       the mirror image of `upper`

since clipping at the point c leaves the excess eta - c on one side and nothing on the other, and every quantity of the
paper is an integral of products of these two. That is enough for rules of one count each; rules that share a total or a
budget ask for the law of a sum too, `strip`, `cgf` and `cumulants`, which the four noises of the package have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.errors import ParameterError, UnsupportedError, value
from fairpost.magnitudes import RANGES, refuse
from fairpost.noise.threshold import Threshold

Floats = NDArray[np.float64]
LAPLACE, GAUSSIAN, DISCRETE_LAPLACE, DISCRETE_GAUSSIAN = 0, 1, 2, 3
"""The kernels' numbers of the noises."""
Numbers = NDArray[Any]  # float64 or complex128, as `s` is


@dataclass(frozen=True)
class Stream:
    """One run's random stream: a pure function of (seed, run), whoever draws it and in which order.

    For simulation only. Noise for a release must come from a secure generator, never from a seed.
    """

    seed: int
    run: int = 0

    def __post_init__(self) -> None:
        for name in ("seed", "run"):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or not 0 <= given < 2**64:
                raise ParameterError(f"`{name}` must be a whole number from 0 to 2**64 - 1, got {given!r}")


def positive(name: str, given: float) -> float:
    """`given` as a float, or an error that names the rule."""
    try:
        number = float(given)
    except (TypeError, ValueError):
        raise ParameterError(f"`{name}` must be a number, got {given!r}") from None
    if not (0 < number < np.inf):
        raise ParameterError(f"`{name}` must be > 0 and finite, got {given!r}")
    if name in RANGES:
        refuse(name, number, ParameterError)
    return number


class Mechanism(ABC):
    """Independent additive noise, symmetric about 0. To be simulated it needs `variance` and `sample` alone."""

    name: ClassVar[str] = ""
    """The name on the command line and in JSON; default: the name of the class."""
    parameter: ClassVar[str] = "deviation"
    """The name of the one number that sets the noise: "scale" (b, the paper's lambda) or "sigma"."""
    discrete: ClassVar[bool] = False
    """Whether the noise takes whole numbers only."""
    code: ClassVar[int | None] = None
    """The kernels' number of this noise; None: no kernel knows it."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @property
    @abstractmethod
    def variance(self) -> float:
        """Var[eta], in squared counts."""

    @abstractmethod
    def sample(self, n: int, stream: Stream) -> Floats:
        """N draws for simulation; entry i depends on (seed, run, i) alone."""

    @property
    def deviation(self) -> float:
        """The standard deviation of eta."""
        return float(np.sqrt(self.variance))

    @property
    def spread(self) -> float:
        """The one parameter, in the unit of the counts: b for the Laplace pair, sigma for the Gaussian pair."""
        return float(getattr(self, self.parameter))

    def promise(self, sensitivity: float = 1.0, delta: float | None = None) -> Promise:
        """What one release with this noise promises; nothing that is known, for noise of one's own."""
        return Promise(None, None, None)

    def best_threshold(self) -> Threshold:
        """The best data-independent threshold for this noise (`noise.threshold`, docs/threshold.md)."""
        raise UnsupportedError(f"no threshold is known for the noise {self.name!r}; give one")

    def describe(self) -> dict[str, Any]:
        """The mechanism as plain data, for JSON and reports."""
        return {"name": self.name, self.parameter: self.spread, "variance": self.variance}


@dataclass(frozen=True)
class Promise:
    """What a release promises: epsilon with delta, or rho (zCDP); None where it says nothing of the kind."""

    epsilon: float | None
    delta: float | None
    rho: float | None


class Law(Mechanism):
    """Noise whose law is known: what exact engines evaluate. Subclasses are frozen dataclasses with one number, and final."""

    @abstractmethod
    def density(self, u: ArrayLike) -> Floats:
        """The density at u; for discrete noise the mass at u (0 off the whole numbers)."""

    @abstractmethod
    def cdf(self, u: ArrayLike) -> Floats:
        """P(eta <= u), with full relative accuracy in the left tail."""

    @abstractmethod
    def upper(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Floats:
        """E[(eta - c)^k e^{s (eta - c)}; eta > c] for k = 0, 1, 2 and real s <= 0."""

    def sf(self, u: ArrayLike) -> Floats:
        """P(eta > u), with full relative accuracy in the right tail."""
        point = np.asarray(u, dtype=np.float64)
        return self.cdf(np.ceil(-point) - 1 if self.discrete else -point)

    def lower(self, c: ArrayLike, s: ArrayLike, k: int = 0) -> Floats:
        """E[(eta - c)^k e^{s (eta - c)}; eta <= c] for k = 0, 1, 2 and real s >= 0.

        The mirror image of `upper`: eta <= c becomes -eta >= -c, so an atom at c itself is added (it matters for k = 0 only).
        """
        cut = np.asarray(c, dtype=np.float64)
        mirrored = self.upper(-cut, -np.asarray(s), k)
        return np.asarray((-1) ** k * mirrored + (self.density(cut) if self.discrete and k == 0 else 0.0))

    def uppers(self, c: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """`upper` for k = 0, 1 and 2."""
        return self.upper(c, s, 0), self.upper(c, s, 1), self.upper(c, s, 2)

    def lowers(self, c: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """`lower` for k = 0, 1 and 2."""
        cut = np.asarray(c, dtype=np.float64)
        zeroth, one, two = self.uppers(-cut, -np.asarray(s))
        return zeroth + self.density(cut) if self.discrete else zeroth, -one, two

    @property
    def strip(self) -> float:
        """E[e^{s eta}] is finite for |Re s| < strip (infinity for the Gaussian pair)."""
        raise self._unknown("exponential moments")

    def cgf(self, s: ArrayLike) -> Numbers:
        """Log E[e^{s eta}], real or complex s inside the strip."""
        raise self._unknown("exponential moments")

    def cumulants(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """K(s) = cgf(s), K'(s) and K''(s) for real s: the mean and the variance of the noise tilted by e^{s eta}.

        K' vanishes at 0 and keeps its relative accuracy there.
        """
        raise self._unknown("exponential moments")

    def scaled(self, spread: float) -> Self:
        """Noise of the same kind with another parameter."""
        return type(self)(spread)  # type: ignore[call-arg]

    @classmethod
    def from_promise(
        cls,
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        delta: float | None = None,
        sensitivity: float = 1.0,
    ) -> Self:
        """The least noise that keeps a promise: epsilon (with a delta, for the Gaussian pair) or rho."""
        raise UnsupportedError(f"how much {cls.name} noise a promise needs is not known; give its {cls.parameter}")

    def _unknown(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"the {what} of {self.name} noise are not known; it can be simulated")


def as_mechanism(given: object, what: str = "`mechanism`") -> Mechanism:
    """`given`, where it is a mechanism: every verb that takes one asks here."""
    if isinstance(given, Mechanism):
        return given
    raise ParameterError(
        f"{what} must be a noise such as fp.Laplace(scale=10) or fp.Laplace.from_epsilon(0.1), got {value(given)}"
    )


def as_mechanisms(given: object) -> list[Mechanism]:
    """`given`, where it is a list of mechanisms."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ParameterError(f"`mechanisms` must be a list of noises, got {value(given)}")
    return [as_mechanism(one, "each of `mechanisms`") for one in given]


def as_kind(given: object) -> type[Mechanism]:
    """`given`, where it is a class of mechanisms."""
    if isinstance(given, type) and issubclass(given, Mechanism):
        return given
    raise ParameterError(f"`kind` must be a class of noise such as fp.Laplace, got {value(given)}")
