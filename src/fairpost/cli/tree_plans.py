"""`fairpost plan FILE --levels ...`: one rho split differently; `fairpost sweep FILE --levels ...`: more or less rho, split the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.hierarchies import levels_of, noise_of, read, tree_of
from fairpost.cli.outputs import Outputs
from fairpost.errors import ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.plan import LevelPoint, Split, SplitPlan, plan_split, sweep_levels
from fairpost.hierarchy.result import LIMITS
from fairpost.hierarchy.rules import RULES
from fairpost.hierarchy.tree import Hierarchy
from fairpost.io.files import columns_csv
from fairpost.results.base import CONFIDENTIAL

UNUSED = (
    "total",
    "budget",
    "group_budget",
    "by_group",
    "programme",
    "base",
    "epsilons",
    "spreads",
    "html",
    "runs",
    "seed",
    "rtol",
)
"""Options of plan and sweep that say nothing about a hierarchy."""


def _refuse(given: o.Given, *more: str) -> None:
    for option in (*UNUSED, *more):
        if given.get(option):
            raise ParameterError(f"--{option.replace('_', '-')} has no meaning with --levels, got {given[option]!r}")
    if given["method"] not in ("auto", "mean-field"):
        raise ParameterError(
            f"--method of a plan or sweep with --levels must be auto or mean-field, got {given['method']!r}"
        )


def _rules(given: o.Given, usual: Sequence[str]) -> list[str]:
    names = list(given["postprocess"] or usual)
    for name in names:
        if name not in RULES or name == "joint":
            known = ", ".join(rule for rule in RULES if rule != "joint")
            raise ParameterError(f"--postprocess with --levels must be one of {known} here, got {name!r}")
    return names


def _read(file: str, given: o.Given) -> tuple[Any, Hierarchy]:
    levels = levels_of(given["levels"])
    leaves = read(file, given, least=0.0, labels=levels if isinstance(levels, list) else ())
    return leaves, tree_of(leaves, levels, given["id"] or "id")


def _noise(tree: Hierarchy, given: o.Given) -> LevelNoise:
    """As in an audit; a rho without a split is split equally between the levels that are not exact."""
    if given["rho"] is not None and given["split"] is None and given["level_sigma"] is None:
        exact = [tree.level(name.strip()) for name in given["exact"].split(",")] if given["exact"] else [0]
        noisy = tree.depth - max(exact)
        given = given | {"split": ",".join(repr(1 / noisy) if k > max(exact) else "0" for k in range(len(tree.names)))}
    found = noise_of(tree, given)
    if found is None:
        raise ParameterError("levels need their noise: --rho (and --split), or --level-sigma, got none")
    return found


def limits_of(text: str | None) -> dict[str, float]:
    """`county:2,tract:1.5` as limits by level."""
    out: dict[str, float] = {}
    for part in (text or "").split(","):
        name, _, limit = part.rpartition(":")
        try:
            out[name.strip()] = float(limit)
        except ValueError:
            out[""] = 0.0
        if not name.strip() or not 0 < out.get(name.strip(), 0.0) < np.inf:
            raise ParameterError(
                f"a plan with --levels needs --level-rmse NAME:LIMIT,... with limits above 0, got {(text or 'none')!r}"
            )
    return out


def plan_levels(file: str, given: o.Given) -> int:
    """The split of rho with the least alpha of the leaves among those that keep the limits; exit code 3 where none does."""
    _refuse(given, *(name for name in given if name.startswith("max_")), "any_error")
    limits, names = limits_of(given["level_rmse"]), _rules(given, ("blue-down",))
    outputs = Outputs(given, [file])
    with screen.progress("splits") as report:
        leaves, tree = _read(file, given)
        noise = _noise(tree, given)
        plans = {
            name: plan_split(leaves.values, noise, name, max_rmse=limits, tries=given["tries"], progress=report)
            for name in names
        }
    rows = [(name, split, found) for name, found in plans.items() for split in found.frontier]
    outputs.write(
        lambda: _show_plans(plans, limits),
        json=lambda: {
            "mark": CONFIDENTIAL,
            "counts": {"n": tree.n, "total": float(leaves.values.sum())},
            "mechanism": noise.describe(),
            "limits": limits,
            "plans": [{"postprocess": name, **found.to_dict()} for name, found in plans.items()],
        },
        csv=lambda: columns_csv(
            {"postprocess": [name for name, _, _ in rows]}
            | {f"share_{n}": [s.shares[k] for _, s, _ in rows] for k, n in enumerate(tree.names)}
            | {"alpha": [s.alpha for _, s, _ in rows]}
            | {f"rmse_{n}": [s.rmse[k] for _, s, _ in rows] for k, n in enumerate(tree.names)}
            | {"met": [s.met for _, s, _ in rows], "best": [s is found.best for _, s, found in rows]}
        ),
    )
    return 0 if any(found.best is not None for found in plans.values()) else 3


def _show_plans(plans: dict[str, SplitPlan], limits: dict[str, float]) -> None:
    for name, found in plans.items():
        _show_plan(name, found, limits)
    _end()


def _show_plan(name: str, found: SplitPlan, limits: dict[str, float]) -> None:
    out, tree = screen.console(), found.tree
    noisy = [k for k in range(len(tree.names)) if found.given.shares[k] > 0]

    def row(what: str, split: Split) -> tuple[str, ...]:
        shares = (f"{split.shares[k]:.4g}" for k in noisy)
        errors = (f"{split.rmse[k]:.3f}" for k in noisy)
        return (what, *shares, f"{split.alpha:.3f}", *errors, "yes" if split.met else "no")

    heads = (
        "split", *(f"{tree.names[k]} share" for k in noisy), "alpha", *(f"{tree.names[k]} RMSE" for k in noisy), "limits",
    )  # fmt: skip
    rows = [row("as given", found.given)]
    rows += [row("best" if split is found.best else "frontier", split) for split in found.frontier]
    if found.best is not None and not any(split is found.best for split in found.frontier):
        rows.append(row("best", found.best))
    wanted = ", ".join(f"{level} {limit:g}" for level, limit in limits.items())
    title = f"{name}: rho {found.rho:.4g} over {len(noisy)} levels, {found.tried} splits tried; RMSE at most {wanted}"
    screen.show(out, screen.Grid(title, heads, rows))
    if found.best is None:
        screen.say(out, f"{name}: no split that was tried keeps the limits; the frontier shows what each costs.")
    else:
        less = 100 * (1 - found.best.alpha / found.given.alpha)
        screen.say(
            out, f"{name}: alpha {found.given.alpha:.3f} as given, {found.best.alpha:.3f} at best ({less:.0f} % less)."
        )


def sweep_levels_of(file: str, given: o.Given) -> int:
    """Alpha of the leaves and the error of each level against rho."""
    _refuse(given)
    if given["rhos"] is None:
        raise ParameterError("a sweep with --levels needs --rhos LOW HIGH, got none")
    low, high = given["rhos"]
    if not 0 < low < high < float("inf"):
        raise ParameterError(f"--rhos must ascend from above 0, got {low:g} {high:g}")
    if given["points"] < 2:
        raise ParameterError(f"--points must be at least 2, got {given['points']}")
    names = _rules(given, ("top-down", "blue-down", "blue-down-threshold"))
    outputs = Outputs(given, [file])
    with screen.progress("levels of noise") as report:
        leaves, tree = _read(file, given)
        noise = _noise(tree, given | ({"rho": high} if given["rho"] is None and given["level_sigma"] is None else {}))
        points = sweep_levels(
            leaves.values, noise, names, np.geomspace(low, high, given["points"]).tolist(), progress=report
        )
    outputs.write(
        lambda: _show_sweep(tree, points),
        json=lambda: {
            "mark": CONFIDENTIAL,
            "counts": {"n": tree.n, "total": float(leaves.values.sum())},
            "mechanism": noise.describe(),
            "points": [point.to_dict(tree) for point in points],
        },
        csv=lambda: columns_csv(
            {"postprocess": [p.postprocess for p in points], "rho": [p.rho for p in points]}
            | {f"noise_{n}": [p.spreads[k] for p in points] for k, n in enumerate(tree.names)}
            | {"alpha": [p.alpha for p in points]}
            | {f"rmse_{n}": [p.rmse[k] for p in points] for k, n in enumerate(tree.names)}
        ),
    )
    return 0


def _show_sweep(tree: Hierarchy, points: Sequence[LevelPoint]) -> None:
    noisy = [k for k in range(len(tree.names)) if points[0].spreads[k] > 0]
    heads = ("post-processing", "rho", "alpha", *(f"{tree.names[k]} RMSE" for k in noisy))
    rows = [
        (p.postprocess, f"{p.rho:.4g}", f"{p.alpha:.3f}", *(f"{p.rmse[k]:.3f}" for k in noisy))
        for p in sorted(points, key=lambda p: p.postprocess)
    ]
    title = f"{tree.n:,} leaves, one split of rho, by the formula (mean field)"
    screen.show(screen.console(), screen.Grid(title, heads, rows, keys=2))
    _end()


def _end() -> None:
    out = screen.console()
    screen.say(out, LIMITS, style="dim")
    screen.say(out, CONFIDENTIAL, style="bold")
