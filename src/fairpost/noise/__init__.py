"""M: the noise mechanisms by name."""

from fairpost.noise.base import Law, Mechanism, Promise, Stream, as_kind, as_mechanism, as_mechanisms
from fairpost.noise.continuous import Gaussian, Laplace
from fairpost.noise.discrete import DiscreteGaussian, DiscreteLaplace
from fairpost.noise.privacy import MECHANISMS, Neighbours, mechanism_of
from fairpost.noise.threshold import Threshold

__all__ = [
    "MECHANISMS",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "Law",
    "Mechanism",
    "Neighbours",
    "Promise",
    "Stream",
    "Threshold",
    "as_kind",
    "as_mechanism",
    "as_mechanisms",
    "mechanism_of",
]
