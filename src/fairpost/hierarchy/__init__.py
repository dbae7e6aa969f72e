"""Hierarchies: noise on every level of a tree, rules that make its counts consistent, and the bias that they add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.lazy import lazily

if TYPE_CHECKING:
    from fairpost.hierarchy.audit import audit_hierarchy
    from fairpost.hierarchy.levels import LevelNoise
    from fairpost.hierarchy.meanfield import mean_field
    from fairpost.hierarchy.result import HierarchyAudit
    from fairpost.hierarchy.rules import Joint, TopDown, Unclipped
    from fairpost.hierarchy.simulation import Simulation
    from fairpost.hierarchy.tree import Hierarchy

__all__ = [
    "Hierarchy",
    "HierarchyAudit",
    "Joint",
    "LevelNoise",
    "Simulation",
    "TopDown",
    "Unclipped",
    "audit_hierarchy",
    "mean_field",
]

lazily(
    __name__,
    {
        "audit": ("audit_hierarchy",),
        "levels": ("LevelNoise",),
        "meanfield": ("mean_field",),
        "result": ("HierarchyAudit",),
        "rules": ("Joint", "TopDown", "Unclipped"),
        "simulation": ("Simulation",),
        "tree": ("Hierarchy",),
    },
)
