"""The exact engine: time for every bias, beside the straightforward NumPy simulation, in one run."""

import tracemalloc

import numpy as np

import fairpost as fp
from bench_simplex import usual
from timing import best, cpu, districts, line

EPSILONS = (0.1, 0.01, 0.001)


def simulate(x: np.ndarray, scale: float, runs: int) -> None:
    """What a user writes first: Laplace noise, clip and normalise (BL), sort-based projection (PoS)."""
    rng = np.random.default_rng(0)
    sums = np.zeros((2, x.size))
    for _ in range(runs):
        noisy = x + rng.laplace(0, scale, x.size)
        clipped = np.maximum(noisy, 0)
        sums[0] += clipped / clipped.sum()
        sums[1] += usual(noisy / noisy.sum())


def table_2() -> None:
    label, counts = districts()
    print(f"{label}: {counts.n:,} districts, {counts.distinct[0].size:,} distinct counts")

    def whole() -> None:
        for epsilon in EPSILONS:
            for which in ("baseline", "pos"):
                fp.audit(counts, fp.Laplace.from_epsilon(epsilon), which, engine="exact")

    for which, bar in (("baseline", 0.020), ("pos", 0.25)):
        for epsilon in EPSILONS:
            took = best(lambda w=which, e=epsilon: fp.audit(counts, fp.Laplace.from_epsilon(e), w, engine="exact"), 3)
            line(
                f"{which}, epsilon {epsilon:g}",
                f"{took * 1e3:.1f} ms",
                f"at most {bar * 1e3:g} ms",
                took <= bar,
            )
    exact = best(whole, 3)
    runs = 200
    simulated = sum(best(lambda e=e: simulate(counts.values, 1 / e, runs), 1) for e in EPSILONS) * 200_000 / runs
    line("Table 2 whole, exact", f"{exact:.3f} s", "at most 1 s", exact <= 1)
    line("Table 2 whole, NumPy, 200,000 runs (200 timed and scaled)", f"{simulated:,.0f} s")
    line("  times faster", f"{simulated / exact:,.0f}", "at least 500", simulated / exact >= 500)


def counties() -> None:
    rng = np.random.default_rng(4)
    x = np.round(np.exp(rng.normal(10.3, 1.5, 3142)))
    x[rng.choice(3142, 900, replace=False)] = rng.integers(0, 60, 900)  # sub-populations: many near zero
    for mechanism in (fp.Laplace(10.0), fp.Gaussian(25.0)):
        took = best(lambda m=mechanism: fp.audit(fp.Counts(x), m, "simplex", engine="exact"), 3)
        line(
            f"pi_S+ on 3,142 counties, {mechanism.name}",
            f"{took * 1e3:.0f} ms",
            "at most 500 ms",
            took <= 0.5,
        )


def growth() -> None:
    """A million entities: many small counts, and as good as 5,000 distinct ones."""
    rng = np.random.default_rng(5)
    values = np.concatenate([np.arange(4000.0), np.round(np.exp(rng.uniform(8.3, 12, 1000)))])
    counts = fp.Counts(rng.choice(values, 10**6, p=1 / (values + 20) / np.sum(1 / (values + 20))))
    distinct = counts.distinct[0].size
    for mechanism in (fp.Laplace(10.0), fp.Gaussian(15.0)):
        for which in ("baseline", "pos", "simplex"):

            def call(w: str = which, m: fp.Laplace | fp.Gaussian = mechanism) -> fp.Audit:
                return fp.audit(counts, m, w, engine="exact")

            took = best(call, 3)
            tracemalloc.start()
            call()
            peak = tracemalloc.get_traced_memory()[1] / counts.values.nbytes
            tracemalloc.stop()
            what = f"1,000,000 entities, {distinct:,} distinct: {which}, {mechanism.name}"
            line(what, f"{took:.2f} s", "at most 1 s", took <= 1)
            line("  peak memory, in multiples of the input", f"{peak:.1f}")


def whole_numbers() -> None:
    """pi_S+ under discrete Laplace noise, with Theorem 1's bounds."""
    _, counts = districts()
    for b, bar in ((1.0, 0.5), (2.0, 0.5), (4.0, 1.0), (10.0, 3.0)):
        took = best(lambda b=b: fp.audit(counts, fp.DiscreteLaplace(b), "simplex", engine="exact"), 3)
        line(f"pi_S+ on districts, discrete Laplace, b = {b:g}", f"{took:.3f} s", f"at most {bar:g} s", took <= bar)


def by_state() -> None:
    _, counts = districts(groups="state")
    for which in ("pos", "simplex"):
        took = cpu(lambda w=which: fp.audit(counts, fp.Laplace(10.0), w, engine="exact", by_group=True), 3)
        line(f"{which} by state, Laplace, b = 10, CPU", f"{took:.2f} s", "at most 1 s", took <= 1)


def sweeps() -> None:
    """25 levels of noise, three rules: those that `fairpost sweep` takes without and with a budget, and the paper's."""
    _, counts = districts()
    laws = [fp.Laplace.from_epsilon(e) for e in np.geomspace(0.001, 10, 25)]
    for rules in (
        ("nonnegative", "simplex", "simplex-threshold"),
        ("baseline", "pos", "simplex"),
        ("baseline", "pos", "pos-threshold"),
    ):
        took = best(lambda r=rules: fp.sweep(counts, laws, list(r)), 2)
        line(f"sweep of 75 points: {', '.join(rules)}", f"{took:.2f} s", "at most 1.5 s", took <= 1.5)


def weighted() -> None:
    """The baseline under whole-number noise with 10,000 distinct weights over three orders."""
    rng = np.random.default_rng(1)
    x, a = np.round(np.exp(rng.normal(5, 1.5, 10**4))), np.exp(rng.uniform(-3, 3, 10**4))
    counts = fp.Counts(x, weights=a)
    for noise in (fp.DiscreteLaplace(100.0), fp.DiscreteGaussian(10.0), fp.DiscreteGaussian(100.0)):
        took = best(lambda m=noise: fp.audit(counts, m, "baseline", engine="exact"), 3)
        line(f"baseline, 10,000 weights, {noise.name} {noise.spread:g}", f"{took:.2f} s", "at most 1 s", took <= 1)


def main() -> None:
    table_2()
    counties()
    whole_numbers()
    by_state()
    sweeps()
    weighted()
    growth()


if __name__ == "__main__":
    main()
