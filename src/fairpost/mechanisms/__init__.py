"""M: the noise mechanisms by name."""

from fairpost.mechanisms.base import Mechanism, Stream
from fairpost.mechanisms.continuous import Gaussian, Laplace
from fairpost.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind for kind in (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian)
}

__all__ = ["MECHANISMS", "DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace", "Mechanism", "Stream"]
