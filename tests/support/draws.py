"""Counts and weights as data: a list, a draw with a seed, a column of a file. NumPy alone, the same on every machine.

Draws use random() alone, by the inverse of the law, and are rounded, so that they do not depend on NumPy's samplers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from support.data import rows_of

QUANTILES = (0, 2, 10, 19, 52, 147, 411, 1129, 8127, 259012)
LEVELS = (0.0, 0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.99, 1.0)


def numbers(said: Any) -> np.ndarray:
    """A list as it is; {"file", "column"}; {"draw", "n", "seed", ...}."""
    if not isinstance(said, dict):
        return np.asarray(said, dtype=float)
    if "file" in said:
        return np.array([float(row[said["column"]] or "nan") for row in chosen(said)])
    n, kind = said["n"], said["draw"]
    if (
        kind == "quantiles"
    ):  # the package's synthetic districts, written anew: a Pareto piece between the quantiles of SAIPE 2019
        u, levels = (np.arange(n) + 0.5) / n, np.array(LEVELS)
        tail = -np.log1p(-np.minimum(levels, 1 - 0.5 / n))
        return np.round(np.expm1(np.interp(-np.log1p(-u), tail, np.log1p(np.array(QUANTILES, dtype=float)))))
    u = np.random.Generator(np.random.PCG64(said["seed"])).random(n)
    if kind == "pareto":  # P(x > t) = (1 + t / mean)^-shape
        return np.floor(said["mean"] * ((1 - u) ** (-1 / said.get("shape", 1.5)) - 1))
    if kind == "exponential":
        return np.floor(-said["mean"] * np.log1p(-u))
    if kind == "uniform":
        return np.floor(said["low"] + (said["high"] - said["low"]) * u)
    if kind == "values":  # ties: one of a few values each
        return np.asarray(said["of"], dtype=float)[(u * len(said["of"])).astype(int)]
    if kind == "orders":  # weights: uniform in the logarithm over so many orders of ten
        return np.round(10.0 ** (said["orders"] * u), 4)
    raise ValueError(kind)


def chosen(said: dict[str, Any]) -> list[dict[str, str]]:
    """The rows of a file: all, or those whose `state` is `only`, or for which `needs` is not empty."""
    rows = rows_of(said["file"])
    return [
        r for r in rows if (said.get("only") in (None, r.get("state"))) and (not said.get("needs") or r[said["needs"]])
    ]


def labels(said: Any, n: int) -> list[str] | None:
    """Groups: a list, {"cycle": k}, or a column of a file."""
    if said is None:
        return None
    if isinstance(said, dict) and "cycle" in said:
        return [f"g{i % said['cycle']}" for i in range(n)]
    if isinstance(said, dict):
        return [r[said["column"]] for r in chosen(said)]
    return list(said)
