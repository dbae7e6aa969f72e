"""fairpost: measure, bound and remove the unfairness that post-processing adds to private counts.

The paper's four letters are the code's words: counts x, a mechanism M that adds noise, a post-processing pi and a
problem P. The bias is B = E[pi(M(x))] - P(x); alpha-fairness and the cost of privacy are functions of B.

    >>> import fairpost as fp
    >>> hawaii = fp.Counts([53, 22563, 54381, 67054, 311451])
    >>> result = fp.audit(hawaii, fp.Laplace(scale=10.0), "simplex", engine="exact")
    >>> round(result.alpha.value, 8)
    0.00858784
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.lazy import lazily

if TYPE_CHECKING:
    from fairpost.accuracy import Accuracy, Estimate
    from fairpost.allocate import allocate
    from fairpost.audit import audit, compare, method_for
    from fairpost.bounds.theorems import Bounds, proposition2, theorem1
    from fairpost.check import check
    from fairpost.counts import Counts
    from fairpost.engines import Conditional, Exact, Expansion, FirstOf, MonteCarlo
    from fairpost.errors import FairpostError, InputError, ToleranceError, UnsupportedError
    from fairpost.hierarchy import Hierarchy, LevelNoise, TopDown, audit_hierarchy
    from fairpost.io import read_counts
    from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Stream
    from fairpost.plan import frontier, plan, sweep
    from fairpost.problems import Programme, Proportional
    from fairpost.project import project
    from fairpost.release import Ledger, PublicTotal, Release, release
    from fairpost.results import Allocation, Audit, Comparison, Curve, Frontier, Plan, Plans, Projection, Targets
    from fairpost.rules import Affine, AffineNonnegative, Baseline, Custom, PoS, Simplex, project_simplex
    from fairpost.study import Study, read_study

__version__ = "0.1.0"

__all__ = [
    "Accuracy",
    "Affine",
    "AffineNonnegative",
    "Allocation",
    "Audit",
    "Baseline",
    "Bounds",
    "Comparison",
    "Conditional",
    "Counts",
    "Curve",
    "Custom",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Estimate",
    "Exact",
    "Expansion",
    "FairpostError",
    "FirstOf",
    "Frontier",
    "Gaussian",
    "Hierarchy",
    "InputError",
    "Laplace",
    "Ledger",
    "LevelNoise",
    "MonteCarlo",
    "Plan",
    "Plans",
    "PoS",
    "Programme",
    "Projection",
    "Proportional",
    "PublicTotal",
    "Release",
    "Simplex",
    "Stream",
    "Study",
    "Targets",
    "ToleranceError",
    "TopDown",
    "UnsupportedError",
    "allocate",
    "audit",
    "audit_hierarchy",
    "check",
    "compare",
    "frontier",
    "method_for",
    "plan",
    "project",
    "project_simplex",
    "proposition2",
    "read_counts",
    "read_study",
    "release",
    "sweep",
    "theorem1",
]

_HOME = {
    "accuracy": ("Accuracy", "Estimate"),
    "allocate": ("allocate",),
    "audit": ("audit", "compare", "method_for"),
    "bounds.theorems": ("Bounds", "proposition2", "theorem1"),
    "check": ("check",),
    "counts": ("Counts",),
    "engines": ("Conditional", "Exact", "Expansion", "FirstOf", "MonteCarlo"),
    "errors": ("FairpostError", "InputError", "ToleranceError", "UnsupportedError"),
    "hierarchy": ("Hierarchy", "LevelNoise", "TopDown", "audit_hierarchy"),
    "io": ("read_counts",),
    "noise": ("DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace", "Stream"),
    "plan": ("frontier", "plan", "sweep"),
    "problems": ("Programme", "Proportional"),
    "project": ("project",),
    "release": ("Ledger", "PublicTotal", "Release", "release"),
    "results": ("Allocation", "Audit", "Comparison", "Curve", "Frontier", "Plan", "Plans", "Projection", "Targets"),
    "rules": ("Affine", "AffineNonnegative", "Baseline", "Custom", "PoS", "Simplex", "project_simplex"),
    "study": ("Study", "read_study"),
}
"""Where each public name lives; a module is loaded when one of its names is first asked for."""
lazily(__name__, _HOME)
