"""Noise on the base population too: enumeration on the lattice, quadrature and simulation elsewhere."""

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.closed.programme.mixed import Mixed
from fairpost.problems.programme import from_text
from fairpost.rules import PAYING
from support.mechanisms import MECHANISMS
from support.title1 import districts

OWN = from_text(
    'name = "own"\n'
    'eligible = ["count >= 4", { any = ["count > 40", "count >= 12 % of base"] }]\n'
    'entitlement.larger_of = [{ brackets = [[0, 1], [30, 1.5], [70, 0.5]] }, { brackets = [["0 %", 0.5], ["20 %", 2.25]] }]\n'
    'entitlement.floor = "3 %"\nentitlement.cap = "60 %"\n'
)
LAWS = {name: fp.Programme.named(f"title1-{name}") for name in ("basic", "concentration", "targeted")} | {"own": OWN}
DECISION = from_text('name = "d"\nshare = "none"\neligible = ["count > 15 % of base"]\n')
MONEY = from_text(
    'name = "m"\nshare = "none"\neligible = ["count >= 10 % of base"]\nentitlement.brackets = [["0 %", 1], ["20 %", 3]]\n'
)


def enumerated(law, x, base, weight, noise, other):
    """The payments w g(x + eta, max(N + xi, 0)) of one entity and their chances, by the words of the law."""
    far, wide = (
        int(k * (36 if np.isfinite(n.strip) else 9)) + 1 for k, n in ((noise.spread, noise), (other.spread, other))
    )
    eta, xi = np.arange(-far, far + 1.0), np.arange(-wide, wide + 1.0)
    z, y = (m.ravel() for m in np.meshgrid(x + eta, np.maximum(base + xi, 0.0), indexing="ij"))
    worth = weight * law.entitled(z, y)
    mass = np.outer(noise.density(eta), other.density(xi)).ravel()
    values, where = np.unique(np.round(worth, 12), return_inverse=True)
    return values, np.bincount(where, mass)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(
    ("noise", "other"),
    [
        (fp.DiscreteLaplace(0.7), fp.DiscreteLaplace(1.2)),
        (fp.DiscreteGaussian(2.0), fp.DiscreteLaplace(0.9)),
        (fp.DiscreteLaplace(0.8), fp.DiscreteGaussian(3.0)),
    ],
    ids=str,
)
def test_two_entities_by_enumeration(name, noise, other):
    """Every pair of payments with its chance. The sums leave out less than 1e-15 of the mass; payments are rounded to 1e-12."""
    law = LAWS[name]
    counts = fp.Counts([14, 33], base=[92, 110], weights=[1.0, 1.25])
    found = fp.audit(counts, noise, "as-written", programme=law, base_noise=other, engine=fp.Exact(rtol=1e-7))
    (g, p), (h, q) = (
        enumerated(law, x, N, w, noise, other)
        for x, N, w in zip(counts.values, counts.base, counts.weights, strict=True)
    )
    G, H, chance = g[:, None], h[None, :], np.outer(p, q)
    whole = G + H
    share = np.where(whole > 0, G / np.where(whole > 0, whole, 1.0), 1 / 2.25)
    truth = law.on(counts).truth(counts)
    np.testing.assert_allclose(found.truth, truth, rtol=1e-14)
    assert found.bias[0] == pytest.approx(float(np.sum(chance * share)) - truth[0], abs=3e-11)
    assert found.mse[0] == pytest.approx(float(np.sum(chance * (share - truth[0]) ** 2)), rel=1e-8, abs=1e-11)
    assert found.zero[0] == pytest.approx(float(p[g == 0].sum() - p[g == 0].sum() * q[h == 0].sum()), abs=1e-11)
    public = fp.audit(counts, noise, "as-written", programme=law, engine="exact")
    if name != "basic":  # whose threshold is far away
        assert abs(found.bias[0] - public.bias[0]) > 1e-6


def rate_chance(count, base, part, b, c):
    """P(count + eta_1 > part (base + eta_2)) under Laplace noise of the scales b and c, by partial fractions of both transforms."""
    u, c = count - part * base, part * c
    a = abs(u)
    close = abs(b - c) < 1e-9 * b
    tail = (2 + a / b) * np.exp(-a / b) / 4 if close else (b * b * np.exp(-a / b) - c * c * np.exp(-a / c)) / 2
    tail = tail if close else tail / (b * b - c * c)
    return 1 - tail if u >= 0 else tail


@pytest.mark.parametrize("scales", [(10.0, 10.0), (3.0, 20.0), (7.0, 90.0)])  # 3 = 15 % of 20: the double root
def test_a_rate_under_laplace_noise_is_closed(scales):
    counts = fp.Counts([920.0, 890.0], base=[6000.0, 6000.0])
    own, other = map(fp.Laplace, scales)
    found = fp.audit(counts, own, "as-written", programme=DECISION, base_noise=other, engine="exact")
    closed = [rate_chance(x, 6000, 0.15, *scales) for x in counts.values]
    np.testing.assert_allclose(1 - found.zero, closed, rtol=1e-10)


@pytest.mark.parametrize("noise", MECHANISMS)
def test_decisions_and_payments_that_are_not_shared(noise):
    """The chance of being eligible is a mean over the base; a payment's moments are a plain sum (lattice) or a simulation."""
    M = MECHANISMS[noise]
    counts = fp.Counts([98, 60, 12, 1], base=[600, 500, 300, 8])  # the last base may fall below 0
    other = M.scaled(2 * M.spread)
    found = fp.audit(counts, M, "as-written", programme=DECISION, base_noise=other, engine="exact")
    np.testing.assert_allclose(found.bias, 1 - found.zero - (found.truth > 0), rtol=1e-9, atol=1e-13)
    far = np.ceil(60 * M.deviation)
    k = np.arange(-far, far + 1, 1.0 if M.discrete else 0.02)
    weight = other.density(k) * (k[1] - k[0])
    for i, (x, N) in enumerate(zip(counts.values, counts.base, strict=True)):
        need = 0.15 * np.maximum(N + k, 0.0) - x
        above = M.sf(np.floor(need)) if M.discrete else M.sf(need)
        assert 1 - found.zero[i] == pytest.approx(weight @ above, rel=1e-10 if M.discrete else 1e-4)
    if noise == "laplace":
        closed = [
            rate_chance(x, N, 0.15, M.scale, other.scale)
            for x, N in zip(counts.values[:3], counts.base[:3], strict=True)
        ]
        np.testing.assert_allclose(1 - found.zero[:3], closed, rtol=1e-11, atol=1e-15)
    paid = fp.audit(counts, M, "as-written", programme=MONEY, base_noise="same", engine="exact")
    run = fp.audit(
        counts, M, "as-written", programme=MONEY, base_noise="same", engine=fp.MonteCarlo(runs=40_000, seed=1)
    )
    seen = 40_000 * np.minimum(paid.zero, 1 - paid.zero) > 20
    assert seen.any()
    assert (np.abs(run.bias - paid.bias) < 5 * run.standard_error)[seen].all()  # 12 comparisons: chance 7e-6
    np.testing.assert_allclose(run.mse[seen], paid.mse[seen], rtol=0.1)
    if M.discrete:
        values, mass = enumerated(MONEY, 98, 600, 1.0, M, M)
        assert paid.bias[0] == pytest.approx(float(np.sum(mass * values)) - paid.truth[0], abs=1e-8)
        assert paid.mse[0] == pytest.approx(float(np.sum(mass * (values - paid.truth[0]) ** 2)), rel=1e-8)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("other", [fp.Laplace(25.0), fp.Gaussian(30.0), fp.Laplace(4.0)], ids=str)
def test_factors_against_finer_panels(name, other, monkeypatch):
    """24 nodes on panels a tenth as wide. With events as their ends both rules have converged; without, the integrand has kinks inside.

    A kink inside a panel of width h costs h^2 times its jump in slope: 1e-5 of the factor's size here. An event that is missing or
    wrong shows in the first comparison.
    """
    from fairpost.engines.closed.programme import mixed

    rng = np.random.default_rng(4)
    n = 20
    base = rng.integers(0, 900, n).astype(float)
    x = np.round(base * rng.uniform(0.0, 0.5, n) + rng.integers(0, 15, n))
    t = np.array([0.0, 1e-3, 0.02])

    def factors(attempt):
        law = LAWS[name].on(fp.Counts(x, base=base))
        paid = Mixed(x, np.ones(n), base, law, fp.Laplace(10.0), other)
        return paid.refined(attempt).factors(t, law.entitled(x, base))

    found, coarse = factors(2), factors(0)
    fine = tuple(np.linspace(0, 37 if other.name == "laplace" else 8.5, 120))
    monkeypatch.setattr(mixed, "PURE", fine)
    monkeypatch.setattr(mixed, "CONCENTRATED", fine)
    finest = factors(3)
    monkeypatch.setattr(mixed, "events", lambda law, x, most: np.zeros((x.size, 1)))
    for one, two, rough, blind in zip(found, finest, coarse, factors(3), strict=True):
        size = np.abs(two).max(axis=1, keepdims=True)
        assert (np.abs(one - two) <= 2e-12 * size + 1e-14).all()
        assert (np.abs(rough - two) <= 1e-7 * size + 1e-14).all()
        assert (np.abs(one - blind) <= 1e-5 * size + 1e-14).all()


def test_few_entities_whatever_the_panels(monkeypatch):
    """Three entities, whose sum fluctuates: large t, the double-exponential rule. The finest panels move nothing beyond the bound."""
    from fairpost.engines.closed.programme import mixed

    counts = fp.Counts([14, 33, 60], base=[92, 110, 400])
    asked = {"programme": "title1-targeted", "base_noise": fp.Laplace(20.0), "engine": fp.Exact(rtol=1e-8)}
    found = fp.audit(counts, fp.Laplace(6.0), "as-written", **asked)
    monkeypatch.setattr(mixed, "PURE", tuple(np.linspace(0, 37, 150)))
    monkeypatch.setattr(mixed, "ORDERS", (16, 24))
    finest = fp.audit(counts, fp.Laplace(6.0), "as-written", **asked)
    assert (np.abs(found.bias - finest.bias) <= found.half_width + 1e-12).all()
    assert found.half_width.max() < 1e-8 * found.alpha.value


@pytest.mark.parametrize(
    ("name", "noise"),  # every law and every noise, and both that a law treats apart: on the lattice and off it
    [("concentration", "laplace"), ("targeted", "gaussian"), ("targeted", "discrete-laplace"), ("own", "laplace"),
     ("own", "discrete-laplace")],
)  # fmt: skip
def test_shares_against_simulation(name, noise):
    """30,000 runs of twelve entities: z-scores of payments that move in many runs, below 5 (60 of them: chance 4e-5)."""
    M = MECHANISMS[noise]
    rng = np.random.default_rng(5)
    base = rng.integers(60, 1500, 12)
    counts = fp.Counts(rng.binomial(base, rng.uniform(0.05, 0.4, 12)), base=base, weights=rng.uniform(1, 1.4, 12))
    other = M.scaled(3 * M.spread)
    exact, run = (
        fp.audit(counts, M, "as-written", programme=LAWS[name], base_noise=other, engine=e)
        for e in ("exact", fp.MonteCarlo(runs=30_000, seed=7))
    )
    assert exact.method == "exact"
    seen = exact.zero < 0.999
    z = (run.bias - exact.bias)[seen] / run.standard_error[seen]
    assert np.abs(z).max() < 5
    assert seen.sum() >= 6
    np.testing.assert_allclose(run.mse[seen], exact.mse[seen], rtol=0.12)
    assert (np.abs(run.zero - exact.zero) < 5 * np.sqrt(exact.zero * (1 - exact.zero) / 30_000) + 1e-4).all()


def test_a_base_with_hardly_any_noise_is_public():
    counts = fp.Counts([14, 33, 70], base=[92, 110, 333])
    for law in LAWS.values():
        public = fp.audit(counts, fp.Laplace(5.0), "as-written", programme=law, engine="exact")
        noisy = fp.audit(
            counts, fp.Laplace(5.0), "as-written", programme=law, base_noise=fp.Laplace(1e-6), engine="exact"
        )
        np.testing.assert_allclose(noisy.bias, public.bias, atol=1e-7)
        assert noisy.alpha.value != public.alpha.value


def test_hold_harmless_with_a_noisy_base_is_simulated():
    """Own draws, the law by its words: 4,000 runs each, five standard errors of the difference."""
    law = from_text(
        'name = "h"\neligible = ["count >= 5 % of base"]\nhold_harmless = { last = "l", rate = [["0 %", 0.5], ["20 %", 0.9]] }\n'
    )
    counts, last = fp.Counts([60, 110, 200], base=[310, 500, 4000]), np.array([0.3, 0.2, 0.5])
    run = fp.audit(counts, fp.Laplace(8.0), "as-written", programme=law, last=last, base_noise="same", runs=4000)
    assert "hold-harmless" in run.note
    rng = np.random.default_rng(3)
    applied, seen = law.on(counts, last), []
    for _ in range(4000):
        z, y = counts.values + rng.laplace(0, 8, 3), np.maximum(counts.base + rng.laplace(0, 8, 3), 0)
        seen.append(applied.shared(z[None, :], law.entitled(z, y)[None, :], y).values[0])
    error = np.std(seen, axis=0) / np.sqrt(4000)
    assert (np.abs(np.mean(seen, axis=0) - run.truth - run.bias) < 5 * np.hypot(error, run.standard_error)).all()
    assert error.min() > 1e-5


def test_what_noise_on_a_base_cannot_have_is_refused_by_name():
    counts = fp.Counts([14, 33], base=[92, 110])
    plain = from_text('name = "plain"\n')
    cases = [
        (fp.InputError, "no rates", fp.Laplace(2.0), {"programme": plain, "base_noise": "same"}),
        (fp.InputError, "mechanism or 'same'", fp.Laplace(2.0), {"programme": "title1-basic", "base_noise": "like"}),
        (fp.InputError, "no programme", fp.Laplace(2.0), {"base_noise": "same"}),
        (fp.UnsupportedError, "whole numbers and other noise", fp.DiscreteLaplace(2.0),
         {"programme": "title1-basic", "base_noise": fp.Laplace(2.0), "engine": "exact"}),
    ]  # fmt: skip
    for kind, said, noise, asked in cases:
        with pytest.raises(kind, match=said):
            fp.audit(counts, noise, "as-written" if "programme" in asked else "none", **asked)
    with pytest.raises(fp.UnsupportedError, match="levelled inverts the noise of the count at a public base"):
        fp.audit(counts, fp.DiscreteLaplace(2.0), "levelled", programme="title1-basic", base_noise="same")
    mixed = fp.audit(
        counts, fp.DiscreteLaplace(2.0), "as-written", programme="title1-basic", base_noise=fp.Laplace(2.0), runs=200
    )
    assert mixed.method == "monte-carlo"


def test_groups_of_their_own_and_curves_with_a_noisy_base():
    x, base = np.array([30.0, 80, 14, 60, 200]), np.array([100.0, 900, 90, 300, 400])
    whole = fp.Counts(x, base=base, groups=list("abaab"))
    asked = {"programme": "title1-targeted", "base_noise": "same"}
    found = fp.audit(whole, fp.Laplace(6.0), "as-written", by_group=True, **asked)
    for label in "ab":
        who = np.array([g == label for g in whole.groups])
        alone = fp.audit(fp.Counts(x[who], base=base[who]), fp.Laplace(6.0), "as-written", **asked)
        np.testing.assert_allclose(found.bias[who], alone.bias, rtol=1e-9, atol=1e-14)
    curve = fp.sweep(whole, [fp.Laplace(3.0), fp.Laplace(6.0)], ["as-written"], **asked)
    one = fp.audit(whole, fp.Laplace(6.0), "as-written", programme="title1-targeted", base_noise=fp.Laplace(6.0))
    assert curve.points[1].alpha.value == pytest.approx(one.alpha.value, rel=1e-12)  # "same" follows the curve


def test_districts_with_a_noisy_base():
    """Every sixth district under noise on both counts: the integral and 2,000 runs; z-scores with deviation 1 within 7 %."""
    all_of, who = districts(), slice(0, None, 6)
    counts = fp.Counts(all_of.values[who], weights=all_of.weights[who], base=all_of.base[who])
    asked = {"programme": "title1-targeted", "base_noise": "same"}
    exact, run = (
        fp.audit(counts, fp.Laplace(10.0), "as-written", engine=e, **asked)
        for e in ("exact", fp.MonteCarlo(runs=2000, seed=2))
    )
    seen = 2000 * np.minimum(exact.zero, 1 - exact.zero) >= 20
    seen |= (exact.zero < 1e-9) & (exact.truth > 0)
    assert seen.sum() > 1300
    plain = (run.sample.plain - exact.bias)[seen] / run.sample.plain_error[seen]
    assert 0.93 < plain.std() < 1.07
    ratio = run.standard_error / np.maximum(run.sample.plain_error, 1e-300)
    often = seen & (ratio > 0.05)  # what the control leaves is seen in many runs
    z = (run.bias - exact.bias)[often] / run.standard_error[often]
    assert often.sum() > 500
    assert 0.93 < z.std() < 1.07
    assert np.median(ratio[seen]) ** -2 > 3  # the base moves little of a payment
    assert (np.abs(run.bias - exact.bias) <= run.half_width).all()
    assert PAYING["as-written"].from_counts(counts, **asked).same_noise


@pytest.mark.parametrize("base_noise", [None, "same"])
def test_intervals_of_simulation_cover_who_is_hardly_ever_let_in(base_noise):
    """Every tenth district, 300 runs: hundreds that noise lets in with chances down to 1e-12, most of them in no run at all."""
    all_of, who = districts(), slice(0, None, 10)
    counts = fp.Counts(all_of.values[who], weights=all_of.weights[who], base=all_of.base[who])
    asked = {"programme": "title1-concentration", "base_noise": base_noise}
    exact, run = (
        fp.audit(counts, fp.Laplace(10.0), "as-written", engine=e, **asked)
        for e in ("exact", fp.MonteCarlo(runs=300, seed=2))
    )
    unseen = (exact.truth == 0) & (exact.zero < 1) & (run.zero == 1)
    assert unseen.sum() > 100
    assert exact.bias[unseen].max() > 1e-8
    assert (np.abs(run.bias - exact.bias) <= run.half_width).all()
    assert np.median(run.half_width) < 0.03 * exact.alpha.value
