"""Few entities that may be clipped, at most one at a time or a list of noises: against all noises, enumerated with the rule written anew."""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.base import Question
from fairpost.engines.closed.few import Few
from fairpost.noise import Threshold
from fairpost.rules import PoS, PosThreshold, Simplex, SimplexThreshold

DUST = 1e-9
NOISES = {"L": fp.DiscreteLaplace, "G": fp.DiscreteGaussian}


def kept(z, level, s, total):
    """What a rule keeps of each row of z, summing to `total`: halving for the shift; who stands at the edge of a jump shares what is left."""

    def phi(u):
        on = u if np.isinf(s) else np.minimum(u, s * (u - level))
        return np.where(u > level, np.maximum(on, 0.0), 0.0)

    high = z.max(axis=1)
    low = np.minimum(high, z.sum(axis=1)) - np.abs(total) - 3 * z.shape[1] * (1 + np.max(level)) - np.abs(z).sum(axis=1)
    for _ in range(100):
        r = (low + high) / 2
        more = phi(z - r[:, None]).sum(axis=1) > total
        low, high = np.where(more, r, low), np.where(more, high, r)
    out = phi(z - high[:, None])
    edge = (np.abs(z - level - high[:, None]) < DUST) * level * np.isinf(s)
    out = np.where(edge > 0, 0.0, out)
    return out + edge * ((total - out.sum(axis=1)) / np.maximum(edge.sum(axis=1), 1e-300))[:, None]


def enumerated(x, a, kind, scale, threshold, total, least=1e-15):
    """Bias, mean square and P(0) from all noises above `least`, and the chance that is left out."""
    k = np.arange(-60.0, 61.0)
    p = np.exp(-np.abs(k) / scale) if kind == "L" else np.exp(-0.5 * (k / scale) ** 2)
    p /= p.sum()
    k, p = k[p > least], p[p > least]
    at = np.indices((k.size,) * x.size).reshape(x.size, -1).T
    weight = np.prod(p[at], axis=1)
    at, weight = at[weight > least], weight[weight > least]
    z = a * (x + k[at])
    sums = z.sum(axis=1) if total is None else np.full(len(z), total)
    v = kept(z, a * threshold.level, threshold.steepness, sums)
    v, truth = (v / sums[:, None], a * x / (a @ x)) if total is None else (v, x)
    return weight @ (v - truth), weight @ (v - truth) ** 2, weight @ (v < DUST * sums[:, None]), 1 - weight.sum()


CASES = [  # counts, weights (None: a release), noise, scale, total less the sum of the counts
    ([3, 90, 80], None, "L", 1.0, 0),
    ([2, 5, 90], None, "G", 2.0, 0),
    ([1, 1, 4, 60], None, "L", 0.5, -4),
    ([0, 2, 7], None, "G", 1.0, 0),
    ([0, 6], None, "L", 1.5, 2.5),
    ([1, 0, 3, 2], None, "G", 0.3, 0),
    ([4, 120, 70], [1.0, 0.5, 2.0], "G", 2.0, 0),
    ([0, 6, 150], [1.0, 1.0, 1.0], "L", 1.0, 0),
    ([1, 4, 60], [1.3, 0.4, 2.0], "G", 1.5, 0),
    ([2, 1, 0, 90], [1.0, 1.0, 1.0, 1.0], "G", 0.5, 0),
]
THRESHOLDS = [Threshold(0.0), Threshold.ramp(1.3), Threshold(2.0, 1.5), Threshold(2.0), Threshold(1.7)]


@pytest.mark.parametrize("threshold", THRESHOLDS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_biases_squares_and_chances_are_those_of_all_noises(case, threshold):
    x, weights, kind, scale, off = case
    x, a = np.array(x, float), np.ones(len(x)) if weights is None else np.array(weights)
    total = None if weights is not None else float(x.sum()) + off
    counts, noise = fp.Counts(x, weights=a), NOISES[kind](scale)
    kinds = (PoS, PosThreshold) if total is None else (Simplex, SimplexThreshold)
    rule = kinds[threshold.level > 0].from_counts(counts, *([] if total is None else [total]))
    rule = replace(rule, threshold=threshold) if threshold.level else rule
    assert Few().fits(Question.ask(counts, noise, [rule]).parts(0)[0], 1e-6) is None
    got = fp.audit(counts, noise, rule, engine="exact")
    bias, mse, zero, left = enumerated(x, a, kind, scale, threshold, total)
    size = 1.0 if weights is not None else 3 * float(x.sum())
    assert got.alpha.kind == "bound"
    assert got.alpha.half_width <= 1e-6 * got.alpha.value
    for value, found, accuracy, room in (
        (bias, got.bias, got.accuracy, size), (mse, got.mse, got.mse_accuracy, size**2), (zero, got.zero, got.zero_accuracy, 1.0),
    ):  # fmt: skip
        assert np.all(np.abs(found - value) <= accuracy.half_width + room * (left + 1e-13))


def test_one_at_risk_keeps_its_digits_among_giants():
    """Laplace noise: below 0 the law of y = x + eta (n - 1)/n - (sum of the others)/n is one exponential; alpha = n/(n - 1) E[y_-]."""
    x, b, n = 60, 2, 4
    got = fp.audit([x, 4e5, 5e5, 6e5], fp.Laplace(b), "simplex", engine="exact")
    own, other = mp.mpf(b) * (n - 1) / n, mp.mpf(b) / n
    alpha = float(own / 2 * (1 - (other / own) ** 2) ** -(n - 1) * mp.exp(-x / own) * n / (n - 1))
    assert got.alpha.value == pytest.approx(alpha, rel=1e-11)
    assert got.alpha.half_width <= 1e-6 * alpha


@pytest.mark.parametrize("rule", ["simplex", "simplex-threshold"])
def test_what_is_below_the_noise_is_said_to_be_so(rule):
    """Two of three small counts must fall by 60 deviations together: by convolution 8.3e-100 for `simplex`."""
    noise = fp.DiscreteGaussian(3)
    got = fp.audit([60, 63, 66, *range(200, 501, 50)], noise, rule, engine="exact")
    assert got.alpha.low <= 8.3e-100 <= got.alpha.high <= 1e-12 * noise.deviation
