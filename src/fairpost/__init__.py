"""fairpost: measure, bound and remove the unfairness that post-processing adds to private counts.

The paper's four letters are the code's words: counts x, a mechanism M that adds noise, a post-processing pi and a
problem P. The bias is B = E[pi(M(x))] - P(x); alpha-fairness and the cost of privacy are functions of B.

    >>> import fairpost as fp
    >>> hawaii = fp.Counts([53, 22563, 54381, 67054, 311451])
    >>> result = fp.audit(hawaii, fp.Laplace(scale=10.0), "simplex", engine="exact")
    >>> round(result.alpha.value, 8)
    0.00858784
"""

from fairpost.audit import allocate, audit, compare
from fairpost.bounds.theorems import Bounds, proposition2, theorem1
from fairpost.counts import Counts
from fairpost.engines.exact.engine import Exact
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.errors import FairpostError, InputError, ToleranceError, UnsupportedError
from fairpost.fairness import Estimate
from fairpost.hierarchy import Hierarchy, LevelNoise, TopDown, audit_hierarchy
from fairpost.io import read_counts
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Stream
from fairpost.plan import plan, sweep
from fairpost.results.audit import AuditResult
from fairpost.rules import Affine, AffineNonnegative, Baseline, PoS, Simplex, project_simplex

__version__ = "0.1.0"

__all__ = [
    "Affine",
    "AffineNonnegative",
    "AuditResult",
    "Baseline",
    "Bounds",
    "Counts",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Estimate",
    "Exact",
    "FairpostError",
    "Gaussian",
    "Hierarchy",
    "InputError",
    "Laplace",
    "LevelNoise",
    "MonteCarlo",
    "PoS",
    "Simplex",
    "Stream",
    "ToleranceError",
    "TopDown",
    "UnsupportedError",
    "allocate",
    "audit",
    "audit_hierarchy",
    "compare",
    "plan",
    "project_simplex",
    "proposition2",
    "read_counts",
    "sweep",
    "theorem1",
]
