"""pi: the post-processings. Those that need nothing but counts have a name; the affine ones need A and b, the paying ones a law.

`base` says what a rule is, `control` what simulation may subtract. May import noise, problems and bounds, never an engine.
"""

from fairpost.rules.affine.projection import Affine, AffineNonnegative
from fairpost.rules.affine.tree import Tree, tree_constraints
from fairpost.rules.allocation import Baseline, PoS
from fairpost.rules.base import Outcome, PostProcessing
from fairpost.rules.custom import Custom
from fairpost.rules.programme import AsWritten, Levelled, NoLoss, Paying, Signed
from fairpost.rules.release import Nonnegative, Simplex, Sum, SumClipped, Unchanged
from fairpost.rules.simplex import project_simplex
from fairpost.rules.threshold import PosThreshold, SimplexThreshold

POSTPROCESSINGS: dict[str, type[PostProcessing]] = {
    kind.name: kind
    for kind in (Unchanged, Nonnegative, Sum, SumClipped, Simplex, SimplexThreshold, Baseline, PoS, PosThreshold)
}
PAYING: dict[str, type[Paying]] = {kind.name: kind for kind in (AsWritten, Levelled, Signed, NoLoss)}
"""Those that need a programme beside the counts."""

__all__ = [
    "PAYING",
    "POSTPROCESSINGS",
    "Affine",
    "AffineNonnegative",
    "AsWritten",
    "Baseline",
    "Custom",
    "Levelled",
    "NoLoss",
    "Nonnegative",
    "Outcome",
    "PoS",
    "PosThreshold",
    "PostProcessing",
    "Signed",
    "Simplex",
    "SimplexThreshold",
    "Sum",
    "SumClipped",
    "Tree",
    "Unchanged",
    "project_simplex",
    "tree_constraints",
]
