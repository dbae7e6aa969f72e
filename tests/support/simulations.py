"""One small question for every job of the simulator, asked with any settings: a list, trees by each way of working, cells."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

import fairpost as fp
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.hierarchy import LevelNoise, audit_hierarchy
from fairpost.hierarchy.histogram import audit_histogram
from fairpost.rules import POSTPROCESSINGS
from fairpost.rules.custom import Custom
from support.engines import samples
from support.hierarchies import bushy

COUNTS = fp.Counts([0, 0, 3, 7, 7, 20, 55, 90], weights=[1, 1, 2, 1, 1, 0.5, 3, 1], groups=list("ababaabb"))
TREE, LEAVES = bushy(np.random.default_rng(5), families=9)
NOISE = LevelNoise(TREE, sigmas=[2.0, 2.0, 1.5, 2.5])
AREAS = [str(k % 3) for k in range(TREE.n)]
CELLS = {"young": LEAVES // 3, "old": LEAVES - LEAVES // 3}
COMPILED = [name for name in POSTPROCESSINGS if not name.startswith("affine")]


def rules(names: list[str] = COMPILED) -> list[Any]:
    """Every rule by name; by group; one of a user's own."""
    own = Custom(np.rint, name="rounded", linear=lambda noise: noise)
    made = [POSTPROCESSINGS[name].from_counts(COUNTS) for name in names]
    return [*made, POSTPROCESSINGS["simplex"].from_counts(COUNTS, by_group=True)] + ([own] if names is COMPILED else [])


def of_list(names: list[str] = COMPILED, block: int = 64, **how: Any) -> Any:
    return samples(MonteCarlo(block=block, **how), COUNTS, fp.Laplace(6.0), rules(names))


def of_tree(rule: str, **how: Any) -> Any:
    return audit_hierarchy(LEAVES, NOISE, rule, areas=AREAS, groups=AREAS, **how)


def of_cells(**how: Any) -> Any:
    return audit_histogram(CELLS, NOISE, "blue-down", totals=NOISE, areas=AREAS, **how)


ON_GPU = ["nonnegative", "simplex", "baseline", "pos", "pos-threshold"]
ASKED: dict[str, Callable[..., Any]] = {
    "list": of_list,
    "top-down": lambda **how: of_tree("top-down", **how),
    "blue-down": lambda **how: of_tree("blue-down-threshold", **how),
    "joint": lambda **how: of_tree("joint", **how),
    "cells": of_cells,
    "list on a GPU": lambda **how: of_list(ON_GPU, **({"backend": "gpu"} | how)),
    "tree on a GPU": lambda **how: of_tree("blue-down", **({"backend": "gpu"} | how)),
}
"""Blocks have 64 runs in all of them."""


def bits(found: Any) -> Any:
    """Every number of a result, to be compared with ==."""
    if not isinstance(found, tuple):
        return found.to_dict(entities=True)
    values = [getattr(sample, field.name) for sample in found for field in fields(sample)]
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]


def ended(found: Any) -> tuple[bool, int]:
    """Whether it was interrupted, and after how many runs."""
    one = found[0] if isinstance(found, tuple) else found
    one = getattr(one, "total", one)
    return one.interrupted, one.runs
