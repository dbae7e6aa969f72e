"""Attack the engines with seeded cases: `make attack-numbers`, or python tools/attack_numbers.py --cases 600 --seed 1.

Every case draws counts (zeros, ties, one giant, fractions, 1e12, 1e-6), weights over six orders, a scale from 1e-3 to 1e5 times the
median, a total (below, above, 0, the true one), groups, one of eight rules and one of four noises. The answer is compared with
a simulation that shares no code with the engine: NumPy's own noise, and the rule applied to it, less a control whose mean is exactly
0. Bias, mean squared error, P(0) and E[T] must lie within the stated accuracy plus what the simulation itself cannot know. The exact engine is
asked first, then the expansion, then conditional means, whose intervals miss in 5 % of all cases: there a number counts as outside
beyond two half-widths. `--engines conditional` asks these alone. What nobody answers is refused. Refusals are counted, and
those that take more than a second. One table by rule; the exit code is 1 where a number is outside.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

import fairpost as fp
from fairpost.engines import Conditional, Exact, Expansion, FirstOf

RELEASES = ["nonnegative", "sum", "sum-clipped", "simplex", "simplex-threshold"]
SHARES = ["baseline", "pos", "pos-threshold"]
ENGINES = {"exact": Exact, "expansion": Expansion, "conditional": Conditional}
INTEGRALS = ["sum-clipped", "simplex", "simplex-threshold", "baseline", "pos", "pos-threshold"]
NOISES = ["laplace", "gaussian", "discrete-laplace", "discrete-gaussian"]
ALARM = 6.5
"""Standard errors: a false alarm once in 1e10 normal numbers, once in some 1e4 cases of 1e4 numbers with heavier tails."""
UNSEEN = 20.0
"""What happens less often than this divided by the runs may not have been seen: e^-20."""
DRAWS = 3e6
"""Of one simulation."""
ROUNDING = 1e-15
"""A share of this size may be 0."""
LATE = 1.0
"""Seconds of CPU after which a refusal comes too late."""


def counts_of(rng: np.random.Generator, whole: bool) -> np.ndarray:
    """Counts of one of nine kinds."""
    n = int(np.exp(rng.uniform(0, np.log(rng.choice([8, 60, 2000, 20_000])))))
    kind = rng.integers(0, 9)
    x = np.floor(rng.exponential(rng.choice([3.0, 40.0, 3000.0]), n))
    if kind == 1:
        x[rng.random(n) < 0.6] = 0.0
    elif kind == 2:
        x = rng.choice(x[: max(1, n // 5)], n)
    elif kind == 3:
        x[0] = 1e7 * (1 + x.max())
    elif kind == 4:
        x = np.full(n, x[0] + 1.0)
    elif kind == 5 and not whole:
        x = x + rng.random(n)
    elif kind == 6:
        x = np.floor(x * 1e12 / (1 + x.max()))
    elif kind == 7 and not whole:
        x = x * 1e-6
    elif kind == 8:
        x = np.floor(10 ** rng.uniform(0, 6, n))
    return x if x.sum() > 0 else x + 1.0


def case(rng: np.random.Generator) -> tuple[fp.Counts, object, str, dict, str]:
    """Counts, noise, rule, what else is asked, and all of it in words."""
    noise, rule = str(rng.choice(NOISES)), str(rng.choice(RELEASES + SHARES))
    x = counts_of(rng, noise.startswith("discrete"))
    n = x.size
    a = np.exp(rng.uniform(0, np.log(1e6), n)) if rule in SHARES and rng.random() < 0.4 else np.ones(n)
    middle = float(np.median(x)) or float(x.mean())
    # (noise a million times the counts leaves nothing to measure)
    scale = float(np.clip(middle * 10 ** rng.uniform(-3, 5), 1e-6, min(1e12, 1e6 * (1 + x.max()))))
    scale = min(max(scale, 0.05), 1e4) if noise.startswith("discrete") else scale
    made = {
        "laplace": fp.Laplace, "gaussian": fp.Gaussian, "discrete-laplace": fp.DiscreteLaplace,
        "discrete-gaussian": fp.DiscreteGaussian,
    }[noise](scale)  # fmt: skip
    more: dict = {}
    if rule not in SHARES and rule != "nonnegative" and rng.random() < 0.4:
        more["total"] = float(np.floor(x.sum() * rng.choice([0.0, 0.3, 0.9, 1.2, 5.0])))
    grouped = n >= 4 and rng.random() < 0.12 and not more
    groups = [f"g{i % 3}" for i in range(n)] if grouped else None
    if grouped:
        more["by_group"] = True
    words = f"{rule}, {noise} {scale:.6g}, n = {n}, x from {x.min():.6g} to {x.max():.6g}, {more}"
    return fp.Counts(x, weights=a, groups=groups), made, rule, more, words


def noise_of(rng: np.random.Generator, M, size: tuple[int, int]) -> np.ndarray:
    """By NumPy alone: discrete Laplace as a difference of geometrics, discrete Gaussian from its masses."""
    b = M.spread
    if M.name == "laplace":
        return rng.laplace(0, b, size)
    if M.name == "gaussian":
        return rng.normal(0, b, size)
    if M.name == "discrete-laplace":
        p = -np.expm1(-1 / b)
        return (rng.geometric(p, size) - rng.geometric(p, size)).astype(float)
    k = np.arange(-int(12 * b + 3), int(12 * b + 3) + 1)
    mass = np.exp(-(k**2) / (2 * b * b))
    return k[np.minimum(np.searchsorted(np.cumsum(mass) / mass.sum(), rng.random(size)), k.size - 1)].astype(float)


def simulated(rng: np.random.Generator, counts, M, pi, truth):
    """Mean and standard error of the bias, of the squared error, of {v = 0} and of {v = 0 or rounding}; the largest step of one run; runs."""
    x, n = counts.values, counts.n
    runs = int(np.clip(DRAWS / n, 200, 40_000))
    a = np.asarray(counts.weights)
    sums = [np.zeros((2, n)) for _ in range(4)]
    lifted = np.zeros(2)
    largest, done = np.zeros(n), 0
    while done < runs:
        rows = min(runs - done, max(1, int(4e5 / n)))
        eta = noise_of(rng, M, (rows, n))
        v = pi(x + eta)
        away = v - truth
        if pi.problem.shares and pi.partition is None:
            less = (a * eta - truth * np.sum(a * eta, axis=1, keepdims=True)) / np.sum(a * x)
        elif pi.problem.shares or pi.partition is not None:
            less = 0.0
        elif pi.name == "nonnegative":
            less = eta
        else:
            less = eta - eta.mean(axis=1, keepdims=True)
        # a control that outgrows what it explains would only add its own noise
        best = away - less
        best = np.where(np.var(best, axis=0) < np.var(away, axis=0), best, away) if rows > 50 else best
        # whole counts tie with the shift, where floats give their rounding instead of 0; what is not 0 is 1/n at the least
        none = np.abs(v) <= (1e-13 * np.max(np.abs(v)) if M.discrete and not pi.problem.shares else 0.0)
        # of shares it cannot be told from a small one: the chance of 0 lies between what is 0 and what may be
        perhaps = none | (np.abs(v) <= ROUNDING) if M.discrete and pi.problem.shares else none
        for held, part in zip(sums, (best, away**2, none.astype(float), perhaps.astype(float)), strict=True):
            held[0] += part.sum(axis=0)
            held[1] += (part**2).sum(axis=0)
        if pi.name == "simplex" and pi.partition is None:  # T of Lemma 2: y - v where v > 0, and y <= T elsewhere
            y = x + eta + (pi.C - np.sum(x + eta, axis=1, keepdims=True)) / n
            t = np.max(y - v, axis=1)
            lifted += t.sum(), (t**2).sum()
        largest = np.maximum(largest, np.abs(best).max(axis=0))
        done += rows
    found = []
    for total, squares in sums:
        mean = total / done
        found.append((mean, np.sqrt(np.maximum(squares / done - mean**2, 0) / done)))
    t = lifted[0] / done
    return found, largest, done, (t, np.sqrt(max(lifted[1] / done - t**2, 0) / done))


def outside(rng: np.random.Generator, result, counts, M, pi) -> str:
    """Which stated number lies where it cannot, "" where none does."""
    truth = result.truth
    (bias, mse, zero, perhaps), largest, runs, (lift, lift_error) = simulated(rng, counts, M, pi, truth)
    a = np.asarray(counts.weights)
    unit = max(M.deviation, 1.0 if M.discrete else 0.0)  # a noise that no run has had
    unit = min(unit * float(a.max()) / float(np.sum(a * counts.values)), 1.0) if pi.problem.shares else unit
    reach = max(float(largest.max()), unit)
    size = np.maximum(np.abs(truth), np.abs(counts.values).max() if not pi.problem.shares else 0.0)
    asked = {
        "bias": (result.bias, result.accuracy, *bias, reach * UNSEEN / runs + 1e-13 * size),
        "mse": (result.moments.mse, result.moments.mse_accuracy, *mse, reach**2 * UNSEEN / runs + 1e-12 * size**2),
        "P(0)": (
            result.moments.zero,
            result.moments.zero_accuracy,
            np.clip(result.moments.zero, zero[0], perhaps[0]),
            np.maximum(zero[1], perhaps[1]),
            UNSEEN / runs,
        ),
    }
    if result.rule.expected_T is not None and pi.name == "simplex" and pi.partition is None:
        t, width = result.rule.expected_T.value, result.rule.expected_T.half_width
        width *= 2 if result.accuracy.kind == "interval" else 1
        if not abs(t - lift) <= width + ALARM * lift_error + (reach + abs(lift)) * UNSEEN / runs + 1e-13 * float(
            size.max()
        ):
            return f"E[T] is {t:.9g} within {width:.3g}, simulated {lift:.9g} within {lift_error:.3g}"
    for name, (stated, accuracy, mean, error, slack) in asked.items():
        times = 2 if accuracy.kind == "interval" else 1
        room = times * np.asarray(accuracy.half_width) + ALARM * error + slack
        wrong = ~(np.abs(stated - mean) <= room)
        if wrong.any():
            i = int(np.argmax(np.abs(stated - mean) / room))
            return f"{name} of entity {i} is {stated[i]:.9g}, simulated {mean[i]:.9g} with room for {np.broadcast_to(room, mean.shape)[i]:.3g}"
    return ""


@dataclass(frozen=True)
class Judged:
    """What became of one case."""

    rule: str
    state: str
    """answered, refused, not meant or outside."""
    words: str
    """The case; where it was refused or is outside also why."""
    took: float = 0.0
    """Seconds of CPU that the engines had."""
    method: str = ""
    left: bool = False
    """Shares of uneven weights under whole-number noise: no integral was planned for them, though many have one."""

    @property
    def late(self) -> bool:
        """A refusal that came too late."""
        return self.state == "refused" and self.took > LATE


def judged(seed: int, number: int, dry: bool = False, engines: str = ",".join(ENGINES)) -> Judged:
    """One case: asked, and unless `dry` compared."""
    rng = np.random.default_rng([seed, number])
    counts, M, rule, more, words = case(rng)
    left = rule in ("pos", "pos-threshold") and M.discrete and bool(np.ptp(counts.weights) > 0)
    start = time.process_time()
    try:
        result = fp.audit(
            counts, M, rule, engine=FirstOf(tuple(ENGINES[name]() for name in engines.split(","))), **more
        )
    except (fp.UnsupportedError, fp.ToleranceError) as error:
        return Judged(rule, "refused", f"{words}: {error}", time.process_time() - start, left=left)
    except fp.InputError:
        return Judged(rule, "not meant", words, left=left)
    took = time.process_time() - start
    wrong = "" if dry else outside(rng, result, counts, M, result_rule(counts, M, rule, more))
    state, said = ("outside", f"{words}: {wrong}") if wrong else ("answered", words)
    return Judged(rule, state, said, took, result.method, left)


def main() -> None:
    """Cases until there are enough or the time is over, and a table by rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--dry", action="store_true", help="no simulation: which cases are refused and why, and how long each takes"
    )
    parser.add_argument("--engines", default=",".join(ENGINES), help="who is asked, in turn")
    parser.add_argument("--only", default="", help="the numbers of some cases, 6,29,101")
    given = parser.parse_args()
    only = {int(number) for number in given.only.split(",") if number}
    table: dict[str, Counter[str]] = defaultdict(Counter)
    slowest: dict[str, float] = defaultdict(float)
    said: list[str] = []
    begun = time.monotonic()
    for number in range(given.cases):
        if time.monotonic() - begun > given.seconds:
            break
        if only and number not in only:
            continue
        one = judged(given.seed, number, given.dry, given.engines)
        row = table[one.rule]
        row["cases"] += 1
        row[one.state] += 1
        row[one.method] += 1
        row["late"] += one.late
        row["left"] += one.left and one.state != "not meant"
        row["left, refused"] += one.left and one.state == "refused"
        slowest[one.rule] = max(slowest[one.rule], one.took)
        line = f"case {number} ({one.took:.2f} s): {one.words}"
        if given.dry and one.state == "refused":
            print(f"refused, {line}", flush=True)
        elif given.dry and one.took > LATE:
            print(f"slow, {line}", flush=True)
        if one.late or one.state == "outside":
            said.append(f"{'late' if one.late else 'OUTSIDE'}, {line}")
    heads = ("cases", "answered", "expansion", "conditional", "refused", "late", "not meant", "outside")
    print(f"{'rule':18}" + "".join(f"{head:>12}" for head in (*heads, "slowest")))
    for rule in [*RELEASES, *SHARES]:
        print(f"{rule:18}" + "".join(f"{table[rule][head]:12}" for head in heads) + f"{slowest[rule]:12.2f}")
    tried = sum(table[rule]["cases"] - table[rule]["not meant"] for rule in INTEGRALS)
    refused = sum(table[rule]["refused"] for rule in INTEGRALS)
    print(f"refused of those with an integral: {refused} of {tried} ({100 * refused / max(tried, 1):.1f} %)")
    less, fewer = (sum(table[rule][head] for rule in INTEGRALS) for head in ("left", "left, refused"))
    print(
        f"without shares of uneven weights under whole-number noise: {refused - fewer} of {tried - less} "
        f"({100 * (refused - fewer) / max(tried - less, 1):.1f} %)"
    )
    for line in said:
        print(line)
    sys.exit(1 if any(row["outside"] for row in table.values()) else 0)


def result_rule(counts, M, rule: str, more: dict):
    """The rule as the audit had it."""
    from fairpost.rules import POSTPROCESSINGS

    return POSTPROCESSINGS[rule].from_counts(counts, **more).for_mechanism(M)


if __name__ == "__main__":
    main()
