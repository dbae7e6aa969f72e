"""Hierarchies: noise on every level of a tree, rules that make its counts consistent, and the bias that they add."""

from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.rules import Joint, TopDown, Unclipped
from fairpost.hierarchy.tree import Hierarchy

__all__ = ["Hierarchy", "Joint", "LevelNoise", "TopDown", "Unclipped"]
