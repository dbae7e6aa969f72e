"""The questions of tests/cases: rule by noise by regime. Every list of counts is drawn from a seed of its own; none is a rescaled copy.

A question is data: `rule`, `noise`, `scale`, `counts` and where they are given `weights`, `total`, `threshold` [level, steepness or null for a
jump], `groups`, and the tags of its regime. `need` is what a user needs of alpha, relative to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from support.draws import numbers
from support.laws import KINDS

INTEGRALS = ("sum-clipped", "simplex", "simplex-threshold", "baseline", "pos", "pos-threshold")
ALL = ("none", "nonnegative", "sum", *INTEGRALS)
SHARED = ("simplex", "simplex-threshold", "pos", "pos-threshold")
HAWAII = [53, 22563, 54381, 67054, 311451]
EXTRACT = {"file": "saipe_2019_extract.csv", "column": "poor_5_17"}
SHORT = {"laplace": "L", "gaussian": "G", "discrete-laplace": "DL", "discrete-gaussian": "DG"}


def scaled(kind: str, deviation: float) -> float:
    """The scale of a noise whose standard deviation is about this."""
    return float(f"{deviation / np.sqrt(2) if 'laplace' in kind else deviation:.3g}")


def _drawn(rng: np.random.Generator, low: float, high: float, n: int) -> list[float]:
    return [float(v) for v in np.floor(np.exp(rng.uniform(np.log(low + 1), np.log(high + 1), n))) - 1]


def regimes(rng: np.random.Generator, which: str, shares: bool) -> tuple[list[float], list[float] | None, float]:
    """Counts, weights and the deviation of the noise, n from 4 to 12. Shares have a sum far above the noise."""
    n = int(rng.integers(5, 10))
    sd = float(np.exp(rng.uniform(np.log(1.5), np.log(9))))
    big = 40 * sd if shares else 6 * sd
    weights = None
    if which == "dense":
        x = [*list(np.floor(rng.uniform(0, 3 * sd, n - 1))), float(int(big * (1 + rng.random())))]
    elif which == "ties":
        of = np.floor(rng.uniform(0, 3 * sd, 2))
        x = [float(of[i % 2]) for i in range(n - 2)] + [float(int(big + 3))] * 2
    elif which == "zeros":
        x = [0.0] * (n // 2) + _drawn(rng, 1, 4 * sd, n - n // 2 - 1) + [float(int(big * (1 + rng.random())))]
    elif which == "giants":
        x = [float(int(rng.uniform(0.2, 2.5) * sd)), *np.floor(rng.uniform(1e4, 1e8, n - 1))]
    elif which == "weights":
        x = [*list(np.floor(rng.uniform(0, 4 * sd, n - 2))), float(int(big * 1.7)), float(int(big * 2.9))]
        weights = [float(f"{w:.4g}") for w in np.exp(rng.uniform(0, np.log(30), n - 2))] + [31.0, 17.5]
    elif which == "orders":
        x = [*list(np.floor(rng.uniform(0, 30 * sd, n - 2))), float(int(big * 1.3)), float(int(big * 3.1))]
        weights = [float(f"{w:.4g}") for w in 10 ** rng.uniform(0, 5.5, n - 2)] + [1e6, 7.3e5]
    else:
        raise ValueError(which)
    return [float(v) for v in x], weights, sd


def questions() -> list[dict[str, Any]]:
    """All, in a fixed order."""
    found: list[dict[str, Any]] = []
    used: dict[str, int] = {}

    def ask(rule: str, kind: str, scale: float, counts: Any, tags: list[str], **more: Any) -> None:
        stem = f"{rule}-{SHORT[kind]}-{tags[0].replace(' ', '-')}"
        used[stem] = used.get(stem, 0) + 1
        more = {k: v for k, v in more.items() if v is not None}
        needs = 1e-6 if rule in ("none", "nonnegative", "sum") else more.pop("need", 1e-3)
        found.append(
            {
                "name": f"{stem}-{used[stem]}",
                "rule": rule,
                "noise": kind,
                "scale": scale,
                "counts": counts,
                **more,
                "tags": tags,
                "need": needs,
            }
        )

    # one entity, two, three
    for r, rule in enumerate(ALL):
        for k, kind in enumerate(KINDS):
            rng = np.random.default_rng([1, r, k])
            if k == r % 4:
                ask(rule, kind, scaled(kind, 2.5 + r), [float(3 + r)], ["one entity"], need=1e-6)
            shares = rule in ("pos", "pos-threshold")
            for n in (2, 3):
                sd = float(np.exp(rng.uniform(0, 1.5)))
                x = [
                    *_drawn(rng, 0, (1.5 if rule in SHARED else 5) * sd, n - 1),
                    float(int((30 if shares else 6) * sd * (1 + rng.random()))),
                ]
                weights = None
                if rule in ("baseline", "pos", "pos-threshold") and n == 3:
                    weights = [float(f"{w:.3g}") for w in np.exp(rng.uniform(-1, 1, 2))] + [1.0]
                ask(rule, kind, scaled(kind, sd), x, ["two" if n == 2 else "three"], weights=weights)
    # a few entities, regime by regime
    for t, which in enumerate(("dense", "ties", "zeros", "giants", "weights", "orders")):
        for r, rule in enumerate(INTEGRALS):
            if which in ("weights", "orders") and rule not in ("baseline", "pos", "pos-threshold"):
                continue
            for k, kind in enumerate(KINDS):
                if which in ("ties", "zeros") and (k + r + t) % 2:
                    continue
                x, a, sd = regimes(np.random.default_rng([2, t, r, k]), which, rule in ("pos", "pos-threshold"))
                ask(rule, kind, scaled(kind, sd), x, [which, "few"], weights=a)
    # tens and hundreds
    for r, rule in enumerate(INTEGRALS):
        for k, kind in enumerate(KINDS):
            for j, n in enumerate((20 + 7 * r + 3 * k, 90 + 31 * r + 11 * k, 330 + 45 * k)):
                if j == 2 and (r + k) % 2:
                    continue
                mean = (14.0, 60.0, 400.0)[(r + k + j) % 3]
                sd = mean * (0.15, 0.5, 1.1)[(r + 2 * k + j) % 3]
                draw = {
                    "draw": ("pareto", "exponential")[(k + j) % 2],
                    "n": n,
                    "seed": 100 * r + 10 * k + j,
                    "mean": mean,
                }
                if rule in ("pos", "pos-threshold"):
                    draw["mean"] = mean = mean * 2
                a = (
                    {"draw": "orders", "n": n, "seed": r + k, "orders": 1}
                    if rule in ("baseline", "pos", "pos-threshold") and k == j
                    else None
                )
                ask(rule, kind, scaled(kind, sd), draw, [("tens", "hundred", "hundreds")[j]], weights=a)
    # thousands
    for r, rule in enumerate(INTEGRALS):
        for k, kind in enumerate(KINDS):
            if (r + k) % 2 and rule not in SHARED:
                continue
            n = (1200, 3000, 7000, 20000)[(r + k) % 4]
            draw = {"draw": "pareto", "n": n, "seed": 7 + 10 * r + k, "mean": 40.0 + 9 * k + 5 * r}
            a = (
                {"draw": "orders", "n": n, "seed": 3 + r, "orders": 1}
                if rule in ("pos", "pos-threshold") and k % 2
                else None
            )
            ask(rule, kind, scaled(kind, (4.0, 12.0, 30.0)[(r + k) % 3]), draw, ["thousands"], weights=a)
    # totals below and above, and none
    for r, rule in enumerate(("sum", "sum-clipped", "simplex", "simplex-threshold")):
        for k, kind in enumerate(KINDS):
            rng = np.random.default_rng([5, r, k])
            n, sd = int(rng.integers(4, 14)), 2.0 + 1.5 * k + r
            x = [float(v) for v in np.floor(rng.exponential(3 * sd, n))]
            low, high = float(int(0.4 * sum(x))), float(int(1.9 * sum(x) + 3 * n))
            ask(rule, kind, scaled(kind, sd), x, ["total below"], total=low)
            ask(rule, kind, scaled(kind, sd + 0.7), [v + i for i, v in enumerate(x)], ["total above"], total=high)
            if k == r:
                ask(rule, kind, scaled(kind, sd), x, ["total zero"], total=0.0)
    # thresholds of a user: jumps and ramps of other widths
    for r, rule in enumerate(("simplex-threshold", "pos-threshold")):
        for k, kind in enumerate(KINDS):
            for j, (level, width) in enumerate(((0.6, 0.0), (1.3, 0.0), (0.9, 0.35), (1.1, 2.4), (0.4, 7.0))):
                rng = np.random.default_rng([6, r, k, j])
                sd = float(rng.uniform(2, 7))
                n = int(rng.choice([3, 6, 12, 25]))
                x = [float(v) for v in np.floor(rng.exponential((9 if r else 3) * sd, n - 1))] + [
                    float(int((60 if r else 9) * sd))
                ]
                tau = round(level * sd, 2)
                # a ramp is the whole amount from s tau / (s - 1) on, so that tau / (s - 1) is its width
                steep = None if width == 0 else round(1 + tau / width, 4)
                a = [float(f"{w:.3g}") for w in rng.uniform(0.5, 3, n)] if r and j in (1, 3) else None
                ask(
                    rule,
                    kind,
                    scaled(kind, sd),
                    x,
                    ["jump" if steep is None else "ramp"],
                    threshold=[tau, steep],
                    weights=a,
                )
    # by group
    for r, rule in enumerate(INTEGRALS):
        for k, kind in enumerate(KINDS):
            if (r + k) % 2 and rule not in ("simplex", "pos"):
                continue
            rng = np.random.default_rng([7, r, k])
            n, groups, sd = 12 + 5 * k + r, 2 + (r + k) % 3, 3.0 + k
            x = [float(v) for v in np.floor(rng.exponential(4 * sd, n))]
            for g in range(groups):
                x[g] = float(int((60 + 10 * rng.random()) * sd))
            ask(rule, kind, scaled(kind, sd), x, ["groups"], groups={"cycle": groups})
    for k, kind in enumerate(KINDS):
        x = {"draw": "pareto", "n": 240 + 30 * k, "seed": 70 + k, "mean": 45.0}
        ask(
            ("simplex", "pos", "simplex-threshold", "pos-threshold")[k],
            kind,
            scaled(kind, 7.0 + k),
            x,
            ["groups", "hundreds"],
            groups={"cycle": 4},
        )
    # a sum of either sign
    for r, rule in enumerate(("pos", "pos-threshold")):
        for k, kind in enumerate(KINDS):
            for n in (2, 3, 7):
                rng = np.random.default_rng([8, r, k, n])
                sd = float(rng.uniform(3, 6))
                x = [float(v) for v in np.floor(rng.uniform(0, 2 * sd, n - 1))] + [float(int(1 + 1.5 * sd))]
                a = [float(f"{w:.3g}") for w in rng.uniform(0.4, 2.5, n)] if n == 3 else None
                ask(rule, kind, scaled(kind, sd), x, ["either sign"], weights=a)
    # tiny and huge scales
    for r, rule in enumerate(("nonnegative", "sum-clipped", "simplex", "baseline", "pos")):
        rng = np.random.default_rng([9, r])
        small = [round(float(v), 7) for v in rng.uniform(0, 1e-4, 5)] + [3e-3]
        large = [float(v) for v in np.floor(rng.exponential(4e7, 6))] + [9e8]
        ask(rule, "laplace", 2.3e-5, small, ["tiny"])
        ask(rule, "gaussian", 1.7e7, large, ["huge"])
    for r, rule in enumerate(("simplex", "baseline", "pos", "simplex-threshold", "pos-threshold")):
        rng = np.random.default_rng([10, r])
        ask(rule, "discrete-laplace", 0.25 + 0.03 * r, [float(v) for v in rng.integers(0, 3, 5)] + [25.0], ["tiny"])
        ask(
            rule, "discrete-gaussian", 0.45 + 0.04 * r, [float(v) for v in rng.integers(0, 3, 4)] + [18.0 + r], ["tiny"]
        )
        wide = [float(v) for v in np.floor(rng.exponential(900, 9))] + [40000.0 + r]
        ask(rule, KINDS[2 + r % 2], 300.0 + 7 * r, wide, ["huge"])
    # the only one at risk, tails far out
    for k, kind in enumerate(KINDS):
        rng = np.random.default_rng([11, k])
        x = [float(14 + 5 * k), *[float(v) for v in rng.integers(5000, 90000, 6 + k)]]
        for rule in ("simplex", "sum-clipped", "baseline", "pos"):
            ask(rule, kind, scaled(kind, 3.5), [x[0] + INTEGRALS.index(rule), *x[1:]], ["rare"])
    # whole-number noise that hardly ever moves anybody: no run of a simulation sees it
    for r, rule in enumerate(("simplex", "simplex-threshold", "baseline", "pos", "pos-threshold")):
        for kind, scale in (("discrete-laplace", 0.085 + 0.004 * r), ("discrete-gaussian", 0.19 + 0.01 * r)):
            rng = np.random.default_rng([12, r, KINDS.index(kind)])
            x = [0.0, *[float(v) for v in rng.integers(0, 4, 5)], float(20 + 3 * r)]
            a = [float(f"{w:.4g}") for w in 10 ** rng.uniform(0, 3.5, 7)] if r > 1 else None
            level = [1.5, 3.0] if "threshold" in rule else None
            ask(rule, kind, round(scale, 3), x, ["unseen", "few"], weights=a, threshold=level)
    # real data: Table 1 and its neighbours, the extract, Table 2
    for kind, scale in (("laplace", 10.0), ("gaussian", 25.0), ("discrete-laplace", 10.0), ("discrete-gaussian", 25.0)):
        ask(
            "simplex",
            kind,
            scale,
            HAWAII,
            ["hawaii", "table 1"] if "discrete" not in kind else ["hawaii"],
            need=1e-6 if "discrete" not in kind else 1e-3,
        )
    for r, rule in enumerate(("baseline", *SHARED)):
        for k, kind in enumerate(KINDS):
            ask(rule, kind, (10.0, 14.0, 10.0, 30.0)[k] + r, EXTRACT, ["extract"])
    for k, kind in enumerate(KINDS):
        ask(
            "pos",
            kind,
            3.0 + k,
            EXTRACT,
            ["extract", "groups"],
            groups={"file": EXTRACT["file"], "column": "state"},
            weights=None,
        )
        ask(
            "simplex",
            kind,
            4.0 + k,
            EXTRACT,
            ["extract", "groups"],
            groups={"file": EXTRACT["file"], "column": "state"},
        )
    whole = [("saipe_2019.csv", c) for c in ("poor_5_17", "pop_5_17")]
    for rule in ("baseline", "pos", "pos-threshold"):
        for eps in (0.1, 0.01, 0.001):
            for name, column in whole:
                ask(rule, "laplace", round(1 / eps), {"file": name, "column": column}, ["districts", "table 2"])
            ask(rule, "laplace", round(1 / eps), {"draw": "quantiles", "n": 13184}, ["synthetic", "table 2"])
    file = {"file": "title1_saipe2011_exp2010.csv", "needs": "exp_pp"}
    for rule in ("baseline", "pos"):
        for eps in (0.1, 0.01, 0.001):
            counts, weights = {**file, "column": "poor_5_17"}, {**file, "column": "exp_pp"}
            ask(rule, "laplace", round(1 / eps), counts, ["title1", "table 2"], weights=weights)
    for kind, scale in (
        ("discrete-laplace", 1.0),
        ("discrete-laplace", 3.0),
        ("discrete-laplace", 10.0),
        ("discrete-gaussian", 3.0),
    ):
        ask("pos", kind, scale, {**file, "column": "poor_5_17"}, ["title1"], weights={**file, "column": "exp_pp"})
    _distinct(found)
    return found


def _distinct(found: list[dict[str, Any]]) -> None:
    """No two questions about the same rule and noise are copies of each other up to a factor."""
    seen: dict[Any, str] = {}
    for q in found:
        if isinstance(q["counts"], dict):
            continue
        x = numbers(q["counts"])
        sign = (
            q["rule"],
            q["noise"],
            tuple(np.round(x / q["scale"], 6)),
            str(q.get("weights")),
            str(q.get("total")),
            str(q.get("threshold")),
        )
        assert sign not in seen or len(x) == 1, (q["name"], seen.get(sign))
        seen[sign] = q["name"]
    assert len({q["name"] for q in found}) == len(found)
