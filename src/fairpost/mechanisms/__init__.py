"""M: the noise mechanisms by name."""

from fairpost.mechanisms.base import Mechanism, Stream
from fairpost.mechanisms.continuous import Gaussian, Laplace
from fairpost.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from fairpost.mechanisms.promise import MECHANISMS, Neighbours, mechanism_of

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
