"""The exact engine over every regime: one seeded table of cases against an independent simulation.

Stated errors have a file of their own, tests/engines/exact/test_stated_errors.py.

The simulation shares no code with the engine: NumPy's noise, the oracles' formulas, control variates with mean exactly 0.
"""

import numpy as np
import pytest

import fairpost as fp
from fairpost.rules import POSTPROCESSINGS
from support.mechanisms import HAWAII

SIX = ["nonnegative", "sum", "sum-clipped", "simplex", "baseline", "pos"]
FALSE_ALARM = 1e-4  # for the whole table, split over cases and entities (Bonferroni)


def _regimes() -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Counts, weights and the standard deviation of the noise."""
    rng = np.random.default_rng(20221)
    ones = np.ones
    heavy = np.exp(rng.uniform(0, np.log(1000), 25))
    return {
        "dense": (np.round(rng.exponential(12, 60)), ones(60), 15.0),
        "rare": (np.concatenate([[40.0, 55.0], rng.integers(300, 900, 28)]), ones(30), 14.0),
        "hawaii": (np.array(HAWAII), ones(5), 25.0),
        "two": (np.array([3.0, 20.0]), ones(2), 5.0),
        "three": (np.array([0.0, 6.0, 25.0]), np.array([1.0, 2.0, 0.7]), 6.0),
        "ties and zeros": (np.repeat([0.0, 0.0, 4.0, 30.0], 10), ones(40), 6.0),
        "weights": (np.round(rng.exponential(400, 25)), heavy, 12.0),
        "giants": (np.concatenate([rng.integers(0, 40, 12), [4e8, 6e8]]).astype(float), ones(14), 10.0),
    }


REGIMES = _regimes()
CASES = [(regime, noise, which) for regime in REGIMES for noise in ("laplace", "gaussian") for which in SIX]


def built(regime: str, noise: str) -> tuple[fp.Counts, fp.Laplace | fp.Gaussian]:
    x, a, deviation = REGIMES[regime]
    return fp.Counts(x, weights=a), fp.Laplace(deviation / np.sqrt(2)) if noise == "laplace" else fp.Gaussian(deviation)


def simulated(counts, mechanism, which: str, runs: int, seed: int):
    """Mean and standard error of pi(X) - P(x) less a control variate of mean 0, batch by batch."""
    rng = np.random.default_rng(seed)
    x, a = counts.values, counts.weights
    pi = POSTPROCESSINGS[which].from_counts(counts)
    total, squares, done = 0.0, 0.0, 0
    while done < runs:
        size = (5000, counts.n)
        eta = (
            rng.laplace(0, mechanism.spread, size)
            if mechanism.name == "laplace"
            else rng.normal(0, mechanism.spread, size)
        )
        v = pi(x + eta)
        if pi.problem.shares:
            truth = a * x / np.sum(a * x)
            control = (a * eta - truth * np.sum(a * eta, axis=1, keepdims=True)) / np.sum(a * x)
            away = v - truth - control
        elif which == "nonnegative":
            away = v - x - eta
        else:
            away = v - x - (eta - eta.mean(axis=1, keepdims=True))
        total = total + away.sum(axis=0)
        squares = squares + (away**2).sum(axis=0)
        done += len(v)
    mean = total / done
    return mean, np.sqrt(np.maximum(squares / done - mean**2, 0) / done)


@pytest.mark.parametrize(("regime", "noise", "which"), CASES)
def test_every_regime_against_simulation(regime, noise, which):
    from scipy.special import ndtri

    counts, mechanism = built(regime, noise)
    result = fp.audit(counts, mechanism, which, engine="exact")
    mean, se = simulated(counts, mechanism, which, 20_000, seed=CASES.index((regime, noise, which)))
    z = -ndtri(FALSE_ALARM / len(CASES) / counts.n / 2)
    # a run without a single clipped draw has se = 0: what one such draw could add is bounded by the deviation / runs
    unseen = 30 * result.deviation / 20_000
    rounding = 1e-15 * np.abs(result.truth).max() * 1e2
    assert (np.abs(mean - result.bias) <= z * se + result.half_width + unseen + rounding).all()


@pytest.mark.parametrize(("regime", "noise", "which"), CASES)
def test_consistency(regime, noise, which):
    """Sums of biases are 0 where the total is kept; Lemma 3's order; the tolerance is reached; scaling scales alpha."""
    counts, mechanism = built(regime, noise)
    result = fp.audit(counts, mechanism, which, engine="exact")
    width = result.alpha.high - result.alpha.low
    assert width <= 2 * 1e-6 * result.alpha.value + 4e-300
    if which in ("sum", "simplex", "baseline", "pos"):
        slack = result.half_width.sum() + 1e-13 * np.abs(result.bias).sum() + 1e-16 * np.abs(result.truth).sum()
        assert abs(result.bias.sum()) <= slack
    if which in ("nonnegative", "sum-clipped", "simplex"):
        order = np.argsort(counts.values, kind="stable")
        slack = result.half_width[order][1:] + result.half_width[order][:-1]
        assert (np.diff(result.bias[order]) <= slack + 1e-300).all()
    if which == "simplex":
        assert result.bounds.lower - result.bounds.error <= result.alpha.high
        assert result.alpha.low <= result.bounds.theorem + result.bounds.error
    kind = type(mechanism)
    scaled = fp.audit(
        fp.Counts(counts.values * 3, weights=counts.weights),
        kind(mechanism.spread * 3),
        which,
        engine="exact",
    )
    factor = 3.0 if result.task == "release" else 1.0
    assert scaled.alpha.value == pytest.approx(result.alpha.value * factor, rel=2.1e-6, abs=1e-300)


def test_what_is_out_of_reach_is_refused_by_name_and_simulated_by_auto():
    counts, mechanism = built("three", "gaussian")  # a sum of either sign, the hardest and with three the quickest
    with pytest.raises(fp.ToleranceError, match=r"pos: alpha = .* misses the relative tolerance 1e-12"):
        fp.audit(counts, mechanism, "pos", engine=fp.Exact(rtol=1e-12))
    result = fp.audit(counts, mechanism, "pos", rtol=1e-12, runs=2000)
    assert (result.method, result.accuracy.kind, result.mse_accuracy.kind) == ("exact", "bound", "interval")
    assert "misses the relative tolerance 1e-12; that is still better than what came after it" in result.note
    drawn = fp.audit(counts, mechanism, "pos", engine="monte-carlo", runs=2000)
    assert result.alpha.half_width < 1e-3 * drawn.alpha.half_width
    assert np.array_equal(result.mse, drawn.mse)
