"""fairpost: measure, bound and remove the unfairness that post-processing adds to private counts.

The paper's four letters are the code's words: counts x, a mechanism M that adds noise, a post-processing pi and a
problem P. The bias is B = E[pi(M(x))] - P(x); alpha-fairness and the cost of privacy are functions of B.

    >>> import fairpost as fp
    >>> hawaii = fp.Counts([53, 22563, 54381, 67054, 311451])
    >>> result = fp.audit(hawaii, fp.Laplace(scale=10.0), "simplex", engine="exact")
    >>> round(result.alpha.value, 8)
    0.00858784
"""

from fairpost.accuracy import Estimate
from fairpost.audit import audit, compare
from fairpost.bounds.theorems import Bounds, proposition2, theorem1
from fairpost.counts import Counts
from fairpost.engines import Exact, Expansion, FirstOf, MonteCarlo
from fairpost.errors import FairpostError, InputError, ToleranceError, UnsupportedError
from fairpost.estimate import allocate
from fairpost.io import read_counts
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Stream
from fairpost.plan import plan, sweep
from fairpost.problems import Programme, Proportional
from fairpost.results import Audit
from fairpost.rules import Affine, AffineNonnegative, Baseline, Custom, PoS, Simplex, project_simplex

__version__ = "0.1.0"

__all__ = [
    "Affine",
    "AffineNonnegative",
    "Audit",
    "Baseline",
    "Bounds",
    "Counts",
    "Custom",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Estimate",
    "Exact",
    "Expansion",
    "FairpostError",
    "FirstOf",
    "Gaussian",
    "InputError",
    "Laplace",
    "MonteCarlo",
    "PoS",
    "Programme",
    "Proportional",
    "Simplex",
    "Stream",
    "ToleranceError",
    "UnsupportedError",
    "allocate",
    "audit",
    "compare",
    "plan",
    "project_simplex",
    "proposition2",
    "read_counts",
    "sweep",
    "theorem1",
]
