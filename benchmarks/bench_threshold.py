"""pos-threshold beside PoS: SAIPE 2019 (the table of docs/threshold.md), kernel times, and a million hard vectors.

Where saipe_2019.csv is not found (FAIRPOST_DATA names its folder) the synthetic districts stand in, and it says so.
"""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import fairpost as fp
from fairpost.rules.allocation import PoS
from fairpost.rules.kernels import simplex, threshold
from fairpost.rules.threshold import PosThreshold, SimplexThreshold, Threshold
from timing import districts

Floats = NDArray[np.float64]
RUNS, SEED, BLOCK = 4000, 20190, 50


def simulate(x: Floats, scale: float, rules: list[Callable[[Floats], Floats]]) -> list[tuple[Floats, float, Floats]]:
    """Bias of the shares (control variates), root of the mean total squared error, P(0); the same noise for all."""
    rng, whole = np.random.default_rng(SEED), x.sum()
    shares = x / whole
    bias, squares, nothing = np.zeros((len(rules), x.size)), np.zeros(len(rules)), np.zeros((len(rules), x.size))
    for _ in range(RUNS // BLOCK):
        noise = rng.laplace(scale=scale, size=(BLOCK, x.size))
        linear = (noise - shares * noise.sum(axis=1, keepdims=True)) / whole
        for j, rule in enumerate(rules):
            out = rule(x + noise)
            bias[j] += (out - shares - linear).sum(axis=0)
            squares[j] += ((out - shares) ** 2).sum()
            nothing[j] += (out == 0).sum(axis=0)
    return [(bias[j] / RUNS, float(np.sqrt(squares[j] / RUNS)), nothing[j] / RUNS) for j in range(len(rules))]


def measured_alpha(bias: Floats, model: Floats) -> float:
    """The range between the entities that attain it in the model (within 0.2 % of its range), each end averaged.

    The plain range of 13,184 simulated biases would take the noise of its extremes for unfairness.
    """
    near = 0.002 * np.ptp(model)
    return float(bias[model >= model.max() - near].mean() - bias[model <= model.min() + near].mean())


def cost(bias: Floats) -> float:
    """The cost of privacy, as a share of the budget."""
    return float(np.maximum(-bias, 0.0).sum())


def table() -> None:
    print(
        f"{districts()[0].split(' poor')[0]}, weights 1, Laplace, {RUNS} runs; model: the expansion (costs too), bound: the theorem's"
    )
    print("column     epsilon | alpha PoS  new        ratio  model      bound      bound/new | cost PoS   new        "
          "| RMSE PoS   new       ratio | P(0) at count 0: PoS  new | sd there: PoS  new")  # fmt: skip
    for column in ("poor_5_17", "pop_5_17"):
        x = districts(column)[1].values
        counts = fp.Counts(x)
        for epsilon in (0.1, 0.01, 0.001):
            noise = fp.Laplace.from_epsilon(epsilon)
            best = Threshold.best(noise)
            rules: list[Callable[[Floats], Floats]] = [PoS(), PosThreshold(threshold=best)]
            old, new = simulate(x, noise.scale, rules)
            models = [fp.audit(counts, noise, rule, engine="expansion") for rule in ("pos", "pos-threshold")]
            before, after = (measured_alpha(run[0], m.bias) for run, m in zip((old, new), models, strict=True))
            costs = [cost(m.bias) for m in models]
            b = noise.scale
            shift = -float((models[1].bias.min()) * x.sum())
            bound = (shift + b * np.exp(-1 - shift / b)) / x.sum()
            small = x == x.min()
            zeros = [float(run[2][small].mean()) for run in (old, new)]
            deviations = [float(np.sqrt(m.moments.mse[0] - m.bias[0] ** 2)) for m in models]
            print(
                f"{column:10} {epsilon:7g} | {before:.3e}  {after:.3e}  {before / after:.3f}  "
                f"{np.ptp(models[1].bias):.3e}  "
                f"{bound:.3e}  {bound / after:9.4f} | {costs[0]:.3e}  {costs[1]:.3e}  | {old[1]:.3e}  {new[1]:.3e} "
                f"{new[1] / old[1]:.3f} | {zeros[0]:19.3f} {zeros[1]:5.3f} | {deviations[0]:.3e} {deviations[1]:.3e}",
                flush=True,
            )


def microseconds(calls: list[Callable[[], object]], rows: int, repeats: int = 200) -> list[float]:
    """Per row, the fastest of `repeats` calls, taken in turns."""
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - begin)
    return [1e6 * seconds / rows for seconds in best]


def keeper(z: Floats, levels: Floats, steepness: float | None) -> Callable[[], object]:
    """One call of a kernel on these rows; no steepness: PoS's."""
    targets, starts = z.sum(axis=1, keepdims=True), np.array([0, z.shape[1]])
    out, shifts = np.empty_like(z), np.empty_like(targets)
    if steepness is None:
        return lambda: simplex.project_rows(z, starts, targets, out, shifts)
    return lambda: threshold.keep_rows(z, levels, steepness, starts, targets, out, shifts)


def speed() -> None:
    print("\nmicroseconds per row of 13,184, one thread, fastest of 200; in brackets the ratio to PoS on the same rows")
    print(f"{'':19}{'PoS':>8}{'jump, weights 1':>20}{'jump, weights':>20}{'ramp, weights 1':>20}{'ramp, weights':>20}")
    rng, rows, none = np.random.default_rng(SEED), 8, np.zeros(1)
    for column in ("poor_5_17", "pop_5_17"):
        x = districts(column)[1].values
        a = rng.uniform(0.5, 2.0, x.size)
        for epsilon in (0.1, 0.01, 0.001):
            b = 1 / epsilon
            z = x + rng.laplace(scale=b, size=(rows, x.size))
            ramp = Threshold.best(fp.DiscreteLaplace(b))
            level, s, whole = ramp.level, ramp.steepness, np.round(z)
            one = np.ones(1)
            calls = [keeper(z, none, None), keeper(a * z, none, None), keeper(z, b * one, np.inf)]
            calls += [keeper(a * z, b * a, np.inf), keeper(whole, level * one, s), keeper(a * whole, level * a, s)]
            plain, weighted, *rest = microseconds(calls, rows)
            pairs = zip(rest, (plain, weighted, plain, weighted), strict=True)
            text = "".join(f"{value:12.1f} ({value / base:4.2f}) " for value, base in pairs)
            print(f"{column:10} {epsilon:7g} {plain:8.1f}{text}", flush=True)


def hard_rows(rng: np.random.Generator, rows: int, n: int) -> tuple[Floats, Floats]:
    """Ties, zeros, negative sums, giants, tiny sums; and weights."""
    kind = rng.integers(0, 6, size=(rows, 1))
    z = rng.laplace(scale=3.0, size=(rows, n)) + rng.integers(0, 4, size=(rows, n))
    z = np.where(kind == 1, np.round(z), z)
    z = np.where(kind == 2, np.where(rng.random((rows, n)) < 0.5, 0.0, np.round(z)), z)
    z = np.where(kind == 3, -np.abs(z), z)
    z[:, 0] = np.where(kind[:, 0] == 4, 10.0 ** rng.uniform(3, 15, rows), z[:, 0])
    z[:, -1] = np.where(kind[:, 0] == 5, z[:, -1] - z.sum(axis=1) * (1 - 10.0 ** rng.uniform(-12, -1, rows)), z[:, -1])
    weights = np.ones(n) if rng.random() < 0.5 else rng.choice([0.01, 0.5, 1.0, 1.0, 30.0], n)
    return z, weights


def broken(values: Floats, totals: Floats) -> int:
    """Rows with a negative entry, an entry that is not finite, or a sum off by more than 1e-12 of the total."""
    off = np.abs(values.sum(axis=-1) - totals) > 1e-12 * totals
    return int(np.count_nonzero(off | (values < 0).any(axis=-1) | ~np.isfinite(values).all(axis=-1)))


def million(goal: int = 1_000_000, block: int = 5000) -> tuple[int, int]:
    """(vectors, broken ones): jump and ramp, allocation and release."""
    rng = np.random.default_rng(SEED)
    done = bad = 0
    while done < goal:
        n = int(rng.choice([1, 2, 3, 4, 5, 7, 12, 40, 120]))
        z, weights = hard_rows(rng, block, n)
        level = float(rng.choice([0.0, 0.5, 3.0, 100.0]))
        rule = Threshold(level) if rng.random() < 0.5 else Threshold.ramp(level)
        shares = PosThreshold(weights, threshold=rule)(z)
        bad += broken(shares, np.ones(block))
        total = float(rng.choice([0.0, 1e-9, 1.0, 10.0, 1e6]))
        counts = SimplexThreshold(total, threshold=rule)(z)
        bad += broken(counts, np.full(block, total))
        done += 2 * block
    return done, bad


def main() -> None:
    table()
    speed()
    begin = time.perf_counter()
    done, bad = million()
    print(
        f"\n{done:,} hard vectors: {bad} break non-negativity or the total (1e-12); {time.perf_counter() - begin:.0f} s"
    )


if __name__ == "__main__":
    main()
