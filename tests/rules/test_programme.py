"""The repairs: signed is unbiased, levelled and no-loss are not negative, no-loss is the linear program's, the wall stands."""

import numpy as np
import pytest

import fairpost as fp
from fairpost.rules import PAYING
from support.title1 import districts

LAWS = {
    "jump": 'name = "a"\nshare = "none"\neligible = ["count >= 7"]\n',
    "basic": 'name = "b"\neligible = ["count >= 10"]\n',
    "brackets": 'name = "c"\neligible = ["count > 5"]\nentitlement.brackets = [[0, 1], [14.5, 2.5], [22, 4]]\n',
    "capped": 'name = "d"\nentitlement.brackets = [[0, 1], [20, 3]]\nentitlement.cap = 50\nentitlement.floor = 2\n',
    "line": 'name = "e"\n',
}


def pieces(name, how, scale):
    """g and f on whole numbers 0, 1, ...; f also at -1 for all below 0."""
    law = fp.Programme.from_toml(LAWS[name])
    counts = fp.Counts([1.0])
    pi = PAYING[how](law.on(counts)).for_mechanism(fp.DiscreteLaplace(scale))
    z = np.arange(0, 400.0)[:, None]
    low = pi.kinks(np.array([[-3.0], [-700.0]]))
    assert low[0] == low[1]
    return law.compile(np.zeros(1))(z)[:, 0], pi.kinks(z)[:, 0], float(low[0, 0])


def expected(f, low, scale, top=200):
    """E f(x + eta) for x = 0, ..., top - 1: the plain sum over the lattice."""
    q = np.exp(-1 / scale)
    z = np.arange(f.size)
    mass = (1 - q) / (1 + q) * q ** np.abs(z[None, :] - np.arange(top)[:, None])
    below = q ** (np.arange(top) + 1.0) / (1 + q)
    return mass @ f + below * low


@pytest.mark.parametrize("scale", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("name", LAWS)
def test_signed_is_unbiased_at_every_whole_count(name, scale):
    """The sum is cut at 400: what is beyond has mass q^200 < 2e-11 at b = 8, so only x < 100 is looked at (q^300 < 1e-16)."""
    g, f, low = pieces(name, "signed", scale)
    np.testing.assert_allclose(expected(f, low, scale, 100), g[:100], rtol=1e-12, atol=1e-12 * np.abs(f[:120]).max())


@pytest.mark.parametrize("scale", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("how", ["levelled", "no-loss"])
def test_no_payment_is_negative(how, name, scale):
    _, f, low = pieces(name, how, scale)
    assert f.min() >= 0
    assert low == 0


@pytest.mark.parametrize("scale", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("name", LAWS)
def test_no_loss_equals_the_linear_program_whatever_the_objective(name, scale):
    """min c E f over f >= 0 with E f >= g. Beyond 140 f is the law's own; 60 counts are compared, q^80 < 5e-5 of a bend's gap."""
    from scipy.optimize import linprog

    g, f, low = pieces(name, "no-loss", scale)
    m = expected(f, low, scale, 200)
    assert (m[:150] >= g[:150] * (1 - 1e-12) - 1e-12).all()
    free, seen, q = 140, 130, np.exp(-1 / scale)
    z = np.arange(f.size)
    mass = (1 - q) / (1 + q) * q ** np.abs(z[None, :] - np.arange(seen)[:, None])
    mass[:, 0] += q ** (np.arange(seen) + 1.0) / (1 + q)
    fixed = mass[:, free:] @ g[free:]
    for seed in range(2):
        weight = np.random.default_rng(seed).uniform(0.1, 1, seen)
        found = linprog(weight @ mass[:, :free], A_ub=-mass[:, :free], b_ub=fixed - g[:seen], method="highs")
        assert found.status == 0
        best = mass[:, :free] @ found.x + fixed
        np.testing.assert_allclose(best[:60], m[:60], rtol=1e-6, atol=1e-6)


def test_no_loss_of_a_line_is_the_threshold_mechanism():
    """g = x: the hull leaves the origin where q^z z is largest, near b."""
    _, f, _ = pieces("line", "no-loss", 8.0)
    first = int(np.flatnonzero(f)[0])
    assert first == np.argmax(np.exp(-np.arange(100) / 8.0) * np.arange(100))
    np.testing.assert_allclose(f[first + 1 : 300], np.arange(first + 1, 300), rtol=1e-9)


@pytest.mark.parametrize("scale", [0.5, 3.0, 8.0])
def test_levelled_leaves_jumps_and_repairs_bends(scale):
    """Flat beyond the jump: as written. A bend with room above it is unbiased there; large counts are right in the end."""
    g, f, _ = pieces("jump", "levelled", scale)
    assert (f == g).all()
    g, f, low = pieces("brackets", "levelled", scale)
    as_written = expected(g, 0.0, scale) - g[:200]
    repaired = expected(f, low, scale) - g[:200]
    assert np.abs(repaired[60:120]).max() < 1e-6 + 1e-3 * np.abs(as_written).max()
    assert np.abs(repaired[14:]).max() < np.abs(as_written[14:]).max()


@pytest.mark.parametrize("scale", [0.5, 3.0, 10.0])
def test_the_wall_at_a_jump_is_attained_as_written(scale):
    """No f >= 0 errs less than 1/(1 + e^eps) on both sides of a jump; the linear program attains it, and so does the law."""
    from scipy.optimize import linprog

    wall = 1 / (1 + np.exp(1 / scale))
    law = fp.Programme.from_toml(LAWS["jump"])
    found = fp.audit(fp.Counts([6.0, 7.0]), fp.DiscreteLaplace(scale), "as-written", programme=law, engine="exact")
    assert max(abs(found.bias)) == pytest.approx(wall, rel=1e-12)
    q, reach = np.exp(-1 / scale), int(6 * scale) + 3  # further out masses are below the solver's tolerance
    z = np.arange(6 - reach, 8 + reach)
    below, at = ((1 - q) / (1 + q) * q ** np.abs(z - x) for x in (6, 7))
    rows = np.vstack([np.append(below, -1), np.append(-at, -1)])  # E_6 f <= e and 1 - E_7 f <= e
    best = linprog(np.append(np.zeros(z.size), 1.0), A_ub=rows, b_ub=[0.0, -1.0], method="highs")
    assert best.fun == pytest.approx(wall, rel=1e-9)


def test_repairs_refuse_other_noise_and_broken_counts_by_name():
    counts = fp.Counts([12.0, 30.0], base=[90.0, 90.0])
    for how in ("levelled", "signed", "no-loss"):
        for noise in (fp.Laplace(3.0), fp.Gaussian(3.0), fp.DiscreteGaussian(3.0)):
            with pytest.raises(fp.UnsupportedError, match=f"{how} is for discrete-laplace noise.*{noise.name}"):
                fp.audit(counts, noise, how, programme="title1-basic")
        with pytest.raises(fp.InputError, match="whole noisy counts"):
            PAYING[how].from_counts(counts, programme="title1-basic").for_mechanism(fp.DiscreteLaplace(3.0))(
                [12.5, 30.0]
            )
    with pytest.raises(fp.InputError, match="needs a programme"):
        fp.audit(counts, fp.Laplace(3.0), "as-written")


@pytest.mark.parametrize(
    "noise", [fp.Laplace(10.0), fp.Gaussian(14.0), fp.DiscreteLaplace(10.0), fp.DiscreteGaussian(14.0)]
)
@pytest.mark.parametrize("how", PAYING)
def test_simulation_agrees_with_the_integral(how, noise):
    """20,000 runs; with 8 entities and 14 cases a z-score beyond 5 has chance 6e-5."""
    if how != "as-written" and noise.name != "discrete-laplace":
        return
    x, base = [9, 12, 98, 700, 30, 55, 210, 4000], [300, 150, 640, 2500, 200, 300, 2000, 15000]
    if how == "signed":  # the sum must hardly fluctuate
        x, base = [*x, 60_000, 90_000, 120_000], [*base, 200_000, 250_000, 500_000]
    counts = fp.Counts(x, weights=np.linspace(1.0, 1.4, len(x)), base=base)
    exact, run = (
        fp.audit(counts, noise, how, programme="title1-targeted", engine=e)
        for e in ("exact", fp.MonteCarlo(runs=20_000, seed=4))
    )
    plain = (run.sample.plain - exact.bias) / run.sample.plain_error
    sharp = (run.bias - exact.bias) / np.maximum(run.standard_error, 1e-15)
    assert np.abs(plain).max() < 5
    assert np.abs(sharp).max() < 5
    assert run.variance_reduction > 50
    assert (np.abs(run.zero - exact.zero) <= run.zero_accuracy.half_width + 1e-12).all()
    if how != "signed":  # whose payments are rare and large
        np.testing.assert_allclose(run.mse, exact.mse, rtol=0.35)
    assert run.wrong["out"] == pytest.approx(exact.wrong["out"], abs=0.05)


BARS = [(name, b) for name in ("basic", "concentration", "targeted") for b in (1, 10, 100)]
LEVELLED = {  # alpha, cost; the design's own for one bend, ours for brackets (deficits of every bend are carried on)
    ("basic", 10): (1.52359935e-5, 5.83658274e-4),
    ("concentration", 10): (1.74391945e-4, 6.82205275e-3),
    ("basic", 100): (2.74634e-4, 9.82244e-3),
    ("concentration", 100): (2.12206e-3, 6.39457e-2),
}
NO_LOSS = {("basic", 10): 4.30953988e-5, ("concentration", 10): 8.71666380e-4, ("targeted", 10): 1.57336532e-4}
SIGNED = {("basic", 1): 3.39900e-10, ("basic", 10): 5.94149781e-7, ("targeted", 10): 4.08619079e-6}


@pytest.mark.parametrize(("name", "b"), BARS)
def test_levelled_against_as_written_on_districts(name, b):
    rules = [
        "as-written",
        "levelled",
        *(["no-loss"] if (name, b) in NO_LOSS else []),
        *(["signed"] if (name, b) in SIGNED else []),
    ]
    noise = fp.DiscreteLaplace(float(b))
    found = dict(
        zip(rules, fp.compare(districts(), noise, rules, programme=f"title1-{name}", engine="exact"), strict=True)
    )
    law, level = found["as-written"], found["levelled"]
    assert level.alpha.value <= 1.01 * law.alpha.value
    assert level.cost_of_privacy.share.value <= law.cost_of_privacy.share.value
    assert level.price["root_mean_squared_error"] <= 1.01 * law.price["root_mean_squared_error"]
    if (name, b) == ("targeted", 10):
        assert law.alpha.value == pytest.approx(1.27019527e-4, rel=1e-7)
        assert law.alpha.value > 3.5 * level.alpha.value
    if (name, b) in LEVELLED:
        alpha, cost = LEVELLED[name, b]
        digits = 1e-7 if b == 10 else 1e-5
        assert level.alpha.value == pytest.approx(alpha, rel=digits)
        assert level.cost_of_privacy.share.value == pytest.approx(cost, rel=digits)
    if "no-loss" in found:
        assert found["no-loss"].alpha.value == pytest.approx(NO_LOSS[name, b], rel=1e-7)
    if "signed" in found:
        assert found["signed"].alpha.value == pytest.approx(SIGNED[name, b], rel=1e-5)
