"""pi: the post-processings by name."""

from fairpost.postprocess.allocation import Baseline, PoS
from fairpost.postprocess.base import Outcome, PostProcessing
from fairpost.postprocess.partition import Partition
from fairpost.postprocess.release import Nonnegative, Simplex, Sum, SumClipped, Unchanged
from fairpost.postprocess.simplex import project_simplex

POSTPROCESSINGS: dict[str, type[PostProcessing]] = {
    kind.name: kind for kind in (Unchanged, Nonnegative, Sum, SumClipped, Simplex, Baseline, PoS)
}

__all__ = [
    "POSTPROCESSINGS", "Baseline", "Nonnegative", "Outcome", "Partition", "PoS", "PostProcessing", "Simplex",
    "Sum", "SumClipped", "Unchanged", "project_simplex",
]  # fmt: skip
