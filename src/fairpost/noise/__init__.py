"""M: the noise mechanisms by name."""

from fairpost.noise.base import Mechanism, Stream
from fairpost.noise.continuous import Gaussian, Laplace
from fairpost.noise.discrete import DiscreteGaussian, DiscreteLaplace
from fairpost.noise.privacy import MECHANISMS, Neighbours, mechanism_of

__all__ = [
    "MECHANISMS",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "Neighbours",
    "Stream",
    "mechanism_of",
]
