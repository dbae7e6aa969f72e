"""Equal counts of different weights, groups as if alone, and the share of degenerate draws, by two engines."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.rules import POSTPROCESSINGS
from support.engines import NO_SIMULATION, samples

SURE = 1 - 1e-7


@pytest.mark.parametrize("which", ["baseline", "pos", "pos-threshold"])
def test_equal_counts_with_different_weights_have_biases_of_their_own(which: str) -> None:
    """An average over the two kinds would lie between them, outside both intervals."""
    counts = fp.Counts([0.0] * 12 + [9.0] * 12 + [60.0] * 12, weights=[1.0, 5.0] * 18)
    (sample,) = samples(
        MonteCarlo(20_000, confidence=SURE, seed=4),
        counts,
        fp.Laplace(4.0),
        [POSTPROCESSINGS[which].from_counts(counts)],
    )
    exact = fp.audit(counts, fp.Laplace(4.0), which, engine=NO_SIMULATION)
    assert (np.abs(sample.bias - exact.bias) <= sample.half_width + exact.half_width).all()
    assert np.abs(exact.bias[0] - exact.bias[1]) > 4 * sample.half_width.max()


@pytest.mark.parametrize("which", ["pos-threshold", "simplex-threshold", "pos", "baseline", "simplex"])
def test_a_group_is_audited_as_if_it_were_alone(which: str) -> None:
    """With weights, all moments: each group has its own counts, weights, total and law of the shift."""
    rng = np.random.default_rng(6)
    x = np.round(rng.exponential(20.0, 80))
    a, groups = np.exp(rng.uniform(0, 1.5, 80)), ["north", "south", "south", "east"] * 20
    whole = fp.audit(fp.Counts(x, weights=a, groups=groups), fp.Laplace(2.0), which, by_group=True)
    for g in ("north", "south", "east"):
        here = np.array(groups) == g
        alone = fp.audit(fp.Counts(x[here], weights=a[here]), fp.Laplace(2.0), which)
        # The true shares of a group are sums in another order: 27 numbers, 27 eps.
        np.testing.assert_allclose(whole.truth[here], alone.truth, rtol=1e-14)
        for name in ("accuracy", "mse_accuracy", "zero_accuracy"):
            what = {"accuracy": "bias"}.get(name, name.removesuffix("_accuracy"))
            room = getattr(whole, name).half_width[here] + getattr(alone, name).half_width
            assert (np.abs(getattr(whole, what)[here] - getattr(alone, what)) <= room).all(), what
        need = 1e-2 if whole.alpha.kind == "interval" else 1e-6
        assert whole.half_width[here].max() <= max(alone.half_width.max(), need * whole.alpha.value)
    if whole.task == "allocation":
        plain = fp.audit(fp.Counts(x, groups=groups), fp.Laplace(2.0), which, engine=NO_SIMULATION, by_group=True)
        assert np.abs(plain.bias - whole.bias).max() > 3 * (plain.half_width + whole.half_width).max()


@pytest.mark.parametrize("which", ["baseline", "pos"])
def test_the_degenerate_rate_is_a_share_of_all_problems(which: str) -> None:
    """By group a run is one problem for each group: P(all clipped), or P(sum <= 0), averaged over the groups."""
    counts = fp.Counts([1.0, 2.0, 0.0, 30.0], groups=["a", "a", "b", "b"])
    noise, runs = fp.Laplace(9.0), 20_000
    found = fp.audit(counts, noise, which, engine=MonteCarlo(runs, seed=2), by_group=True)
    alone = [fp.audit(fp.Counts(v), noise, which, engine=NO_SIMULATION).degenerate for v in ([1.0, 2.0], [0.0, 30.0])]
    if which == "baseline":
        below = noise.cdf(-counts.values)
        assert alone == pytest.approx([below[0] * below[1], below[2] * below[3]], rel=1e-12)
    chance = np.mean(alone)
    assert found.degenerate == found.sample.degenerate / (2 * runs)
    assert abs(found.degenerate - chance) <= 6 * np.sqrt(chance / (2 * runs))  # 6 standard errors or more
    exact = fp.audit(counts, noise, which, engine=NO_SIMULATION, by_group=True).degenerate
    assert exact == pytest.approx(chance, rel=1e-12 if which == "baseline" else 1e-3)  # the same meaning
