"""pi: the post-processings. Those that need nothing but counts have a name; the affine ones need A and b."""

from fairpost.postprocess.affine import Affine, AffineNonnegative
from fairpost.postprocess.allocation import Baseline, PoS
from fairpost.postprocess.base import Outcome, PostProcessing
from fairpost.postprocess.custom import Custom
from fairpost.postprocess.partition import Partition
from fairpost.postprocess.release import Nonnegative, Simplex, Sum, SumClipped, Unchanged
from fairpost.postprocess.simplex import project_simplex
from fairpost.postprocess.threshold import PosThreshold, SimplexThreshold, Threshold
from fairpost.postprocess.tree import Tree, tree_constraints

POSTPROCESSINGS: dict[str, type[PostProcessing]] = {
    kind.name: kind
    for kind in (Unchanged, Nonnegative, Sum, SumClipped, Simplex, SimplexThreshold, Baseline, PoS, PosThreshold)
}
ALLOCATIONS: dict[str, type[Baseline] | type[PoS] | type[PosThreshold]] = {
    kind.name: kind for kind in (Baseline, PoS, PosThreshold)
}

__all__ = [
    "ALLOCATIONS",
    "POSTPROCESSINGS",
    "Affine",
    "AffineNonnegative",
    "Baseline",
    "Custom",
    "Nonnegative",
    "Outcome",
    "Partition",
    "PoS",
    "PosThreshold",
    "PostProcessing",
    "Simplex",
    "SimplexThreshold",
    "Sum",
    "SumClipped",
    "Threshold",
    "Tree",
    "Unchanged",
    "project_simplex",
    "tree_constraints",
]
