"""M: the noise mechanisms.

`base` says what a mechanism is, `continuous` and `discrete` have the four of the package, `calibration` goes between promises of
privacy and scales, `privacy` from names to noise, `threshold` has the best thresholds. `kernels` draw. Knows nothing of counts or rules.
"""

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
