"""The promise: what noise each statement of privacy gives, and what each noise promises, by the definition of privacy.

The definitions are evaluated here from the laws themselves (integrals in mpmath, sums over masses), not from the rules
that `calibration` implements. Neighbours differ by D: one count by 1 or 2, or two counts by 1 each (sqrt 2 in L2).
"""

import json
import math
import sys
from fractions import Fraction
from functools import partial

import mpmath as mp
import numpy as np
import pytest

import fairpost as fp
from fairpost.errors import ParameterError
from fairpost.noise import Neighbours, mechanism_of
from support.commands import call

SQRT2 = math.sqrt(2)
SENSITIVITIES = [1.0, 2.0, SQRT2]
LAPLACE = [fp.Laplace, fp.DiscreteLaplace]
GAUSSIAN = [fp.Gaussian, fp.DiscreteGaussian]
KINDS = {k.name: k for k in [*LAPLACE, *GAUSSIAN]}
K = np.arange(-3000, 3001)
near = partial(pytest.approx, abs=0.0)  # its default, 1e-12, would let any small delta pass


# -- what noise keeps, by definition ---------------------------------------------------------------------------------


def gaussian_delta(sigma, epsilon, shift):
    """int max(0, p(u) - e^eps q(u)) du for N(shift, sigma^2) and N(0, sigma^2): two tails, from where p = e^eps q on."""
    with mp.workdps(30):
        s, e, d = mp.mpf(sigma), mp.mpf(epsilon), mp.mpf(shift)
        cross = e * s**2 / d + d / 2
        tail, root = mp.erfc, mp.sqrt(2) * s
        return float((tail((cross - d) / root) - mp.exp(e) * tail(cross / root)) / 2)


def test_the_oracle_is_the_integral():
    for sigma, epsilon, shift in [(3.0, 0.7, 1.0), (1.2, 2.0, SQRT2)]:
        u = np.linspace(-60, 60, 2_000_001)  # the trapezium rule with a kink: h^2 = 4e-9
        p, q = (np.exp(-(((u - m) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi)) for m in (shift, 0.0))
        found = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * (u[1] - u[0]))
        assert gaussian_delta(sigma, epsilon, shift) == near(found, abs=1e-8)


def masses(mechanism):
    """The discrete law from its definition: e^{-|k|/b} or e^{-k^2/2 sigma^2}, divided by the sum."""
    spread = mechanism.spread
    w = np.exp(-np.abs(K) / spread if mechanism.name == "discrete-laplace" else -((K / spread) ** 2) / 2)
    return w / w.sum()


def discrete_delta(mechanism, epsilon, moves):
    """sum max(0, p - e^eps q) over all outcomes, for one or two counts that each move by whole numbers."""
    p = masses(mechanism)
    live = p > 1e-25  # what is cut off weighs less than 6001^2 * 1e-25
    pairs = [(np.roll(p, m)[live | np.roll(live, m)], p[live | np.roll(live, m)]) for m in moves]
    moved, still = pairs[0]
    for one, two in pairs[1:]:
        moved, still = np.outer(moved, one).ravel(), np.outer(still, two).ravel()
    return float(np.sum(np.maximum(moved - math.exp(epsilon) * still, 0.0)))


@pytest.mark.parametrize("sensitivity", SENSITIVITIES)
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("kind", LAPLACE)
def test_laplace_noise_loses_epsilon_and_no_less(kind, epsilon, sensitivity):
    made = kind.from_epsilon(epsilon, sensitivity)
    assert made.scale == near(sensitivity / epsilon, rel=1e-15)
    assert made.epsilon(sensitivity) == near(epsilon, rel=1e-15)
    # the largest log ratio of the densities of neighbours, at 3 to the left and to the right of both
    move = 2.0 if made.discrete and sensitivity == SQRT2 else sensitivity
    ratio = np.log(made.density(np.array([-3.0, 3.0 + move])) / made.density(np.array([-3.0, 3.0 + move]) - move))
    assert ratio == near([move / made.scale, -move / made.scale], rel=1e-10)
    assert made.epsilon() == near(epsilon / sensitivity, rel=1e-15)  # the default is 1
    assert kind.from_epsilon(epsilon).scale == 1 / epsilon


@pytest.mark.parametrize("moves", [(1,), (2,), (1, 1)])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_discrete_laplace_by_summation(epsilon, moves):
    """delta(epsilon) is 0 to rounding (6001^2 terms at 1e-16 of their size), and 1 % below epsilon it is not."""
    made = fp.DiscreteLaplace.from_epsilon(epsilon, float(sum(moves)))
    assert discrete_delta(made, epsilon, moves) <= 1e-14
    assert discrete_delta(made, 0.99 * epsilon, moves) > 1e-4


@pytest.mark.parametrize("sensitivity", SENSITIVITIES)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-2), (4.0, 1e-9), (60.0, 0.3), (1e-4, 1e-12)])
def test_gaussian_noise_reaches_its_delta_and_no_more(epsilon, delta, sensitivity):
    """brentq stops at 1e-14 in log sigma; the log of delta moves by less than 1e3 of that here."""
    made = fp.Gaussian.from_epsilon(epsilon, delta, sensitivity)
    assert gaussian_delta(made.sigma, epsilon, sensitivity) == near(delta, rel=1e-9)
    back = made.epsilon(delta, sensitivity)
    assert back == near(epsilon, rel=1e-9)
    assert gaussian_delta(made.sigma, back, sensitivity) == near(delta, rel=1e-9)
    # the default is 1
    assert fp.Gaussian.from_epsilon(epsilon, delta).sigma == near(made.sigma / sensitivity, rel=1e-12)
    assert made.epsilon(delta) == fp.Gaussian(made.sigma).epsilon(delta, 1.0)


def test_gaussian_noise_that_needs_no_epsilon():
    """Total variation 2 Phi(D / 2 sigma) - 1 at epsilon 0: below delta there is nothing to promise."""
    sigma = 50.0
    variation = math.erf(1.0 / (2 * sigma * SQRT2))
    assert fp.Gaussian(sigma).epsilon(variation * 1.01) == 0.0
    little = fp.Gaussian(sigma).epsilon(variation * 0.99)
    assert 0 < little < 0.01
    assert gaussian_delta(sigma, little, 1.0) == near(variation * 0.99, rel=1e-9)


@pytest.mark.parametrize("sensitivity", SENSITIVITIES)
def test_classic_gaussian(sensitivity):
    made = fp.Gaussian.from_classic(0.5, 1e-5, sensitivity)
    assert made.sigma == near(sensitivity * math.sqrt(2 * math.log(125_000)) / 0.5, rel=1e-14)
    assert gaussian_delta(made.sigma, 0.5, sensitivity) <= 1e-5
    assert fp.Gaussian.from_classic(0.5, 1e-5).sigma == near(made.sigma / sensitivity, rel=1e-14)
    assert fp.Gaussian.from_classic(1.0, 1e-5).sigma == near(math.sqrt(2 * math.log(125_000)), rel=1e-14)


@pytest.mark.parametrize("order", [1.5, 2.0, 5.0])
@pytest.mark.parametrize(("moves", "sensitivity"), [((1,), 1.0), ((2,), 2.0), ((1, 1), SQRT2)])
@pytest.mark.parametrize("rho", [0.02, 0.5])
def test_discrete_gaussian_is_concentrated_by_summation(rho, moves, sensitivity, order):
    """Renyi divergence of order a is at most rho a, and equal where a times each move is whole (Canonne et al. 2020)."""
    made = fp.DiscreteGaussian.from_rho(rho, sensitivity)
    assert made.sigma == near(sensitivity / math.sqrt(2 * rho), rel=1e-14)
    assert made.rho(sensitivity) == near(rho, rel=1e-14)
    log = -((K / made.sigma) ** 2) / 2
    norm = np.log(np.sum(np.exp(log)))
    found = 0.0
    for m in moves:
        terms = order * (-(((K - m) / made.sigma) ** 2) / 2) + (1 - order) * log - norm
        found += float(np.log(np.sum(np.exp(terms))) / (order - 1))
    if all((order * m).is_integer() for m in moves):
        assert found == near(rho * order, rel=1e-10)
    assert 0.9 * rho * order < found <= rho * order * (1 + 1e-10)


@pytest.mark.parametrize(("moves", "sensitivity"), [((1,), 1.0), ((2,), 2.0), ((1, 1), SQRT2)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (2.0, 1e-3)])
def test_discrete_gaussian_keeps_its_delta_by_summation(epsilon, delta, moves, sensitivity):
    made = fp.DiscreteGaussian.from_epsilon(epsilon, delta, sensitivity)
    # the sharp conversion has 12 digits of rho; sigma is as its root
    assert sharp_epsilon(sensitivity**2 / (2 * made.sigma**2), delta) == near(epsilon, rel=2e-11)
    assert made.epsilon(delta, sensitivity) == near(epsilon, rel=1e-11)
    assert made.epsilon(delta) == fp.DiscreteGaussian(made.sigma).epsilon(delta, 1.0)
    reached = discrete_delta(made, epsilon, moves)
    assert 0.03 * delta < reached <= delta  # valid, and not by more than this conversion gives away
    # half the noise, as for a sensitivity that was forgotten, breaks the promise
    assert discrete_delta(fp.DiscreteGaussian(made.sigma / 2), epsilon, moves) > delta


def sharp_epsilon(rho, delta):
    """Canonne, Kamath and Steinke 2020, Prop. 12 for the divergence a rho: the least epsilon over the orders a > 1.

    epsilon(a) = a rho + log((a - 1)/a) - log(a delta)/(a - 1) has the slope rho + log(a delta)/(a - 1)^2.
    """
    with mp.workdps(30):
        r, d = mp.mpf(rho), mp.mpf(delta)
        low, high = mp.mpf(1), 2 + mp.sqrt(mp.log(1 / d) / r)
        for _ in range(100):
            a = (low + high) / 2
            low, high = (a, high) if r * (a - 1) ** 2 + mp.log(a * d) < 0 else (low, a)
        return float(a * r + mp.log((a - 1) / a) - mp.log(a * d) / (a - 1))


@pytest.mark.parametrize(("rho", "delta"), [(0.005, 1e-6), (0.01, 1e-6), (2.0, 1e-2), (0.5, 1e-10), (20.0, 1e-5)])
def test_conversions_between_rho_and_epsilon(rho, delta):
    """To 12 digits, on the safe side: epsilon above the sharp one, the rho of that epsilon below what gives it."""
    made = fp.DiscreteGaussian.from_rho(rho)
    exact, sharp = made.rho(), sharp_epsilon(made.rho(), delta)
    found = made.epsilon(delta)
    assert sharp * (1 - 1e-15) <= found <= sharp * (1 + 1e-11)
    assert found < 0.97 * (rho + 2 * math.sqrt(rho * math.log(1 / delta)))  # Bun and Steinke 2016, Prop. 1.3
    back = fp.DiscreteGaussian.from_epsilon(sharp, delta).rho()
    assert exact * (1 - 2e-11) <= back
    assert sharp_epsilon(back, delta) <= sharp * (1 + 1e-14)


def test_the_conversion_that_is_known():
    assert round(fp.DiscreteGaussian(10.0).epsilon(1e-6), 3) == 0.430
    assert fp.DiscreteGaussian(3e4).epsilon(0.3) == 0.0  # a delta above the total variation: nothing to promise


def true_log_delta(sigma, epsilon, shift):
    """As `gaussian_delta`, with 60 digits, since the promise is tested to the last digit."""
    with mp.workdps(60):
        s, e, d = mp.mpf(sigma), mp.mpf(epsilon), mp.mpf(shift)
        return mp.log(mp.ncdf(d / (2 * s) - e * s / d) - mp.exp(e) * mp.ncdf(-d / (2 * s) - e * s / d))


def test_a_gaussian_promise_holds_to_the_last_digit_and_is_not_wasteful():
    """Sigma and epsilon are rounded up: delta is never exceeded, and is missed by less than 1e-10 of it."""
    rng = np.random.default_rng(13)
    for _ in range(150):
        epsilon, delta = 10 ** rng.uniform(-4, 1.8), 10 ** rng.uniform(-14, -0.05)
        sensitivity = float(rng.choice(SENSITIVITIES))
        sigma = fp.Gaussian.from_epsilon(epsilon, delta, sensitivity).sigma
        back = fp.Gaussian(sigma).epsilon(delta, sensitivity)
        for promised in (epsilon, back):
            short = mp.log(mp.mpf(delta)) - true_log_delta(sigma, promised, sensitivity)
            assert 0 <= short < 1e-10


def test_zcdp_is_rounded_up():
    """D^2 <= 2 rho sigma^2 for the numbers themselves, in ratios; what is exact stays exact."""
    rng = np.random.default_rng(14)
    for rho, d in zip(10 ** rng.uniform(-6, 2, 200), rng.choice(SENSITIVITIES, 200), strict=True):
        sigma = fp.Gaussian.from_rho(rho, d).sigma
        kept = fp.Gaussian(sigma).rho(d)
        assert Fraction(d) ** 2 <= 2 * Fraction(rho) * Fraction(sigma) ** 2
        assert kept <= rho
        assert Fraction(d) ** 2 <= 2 * Fraction(kept) * Fraction(sigma) ** 2
        assert sigma == near(d / math.sqrt(2 * rho), rel=4e-16)
    assert (fp.Gaussian.from_rho(0.5).sigma, fp.Gaussian(1.0).rho()) == (1.0, 0.5)


@pytest.mark.parametrize("sigma", [1e-3, 0.02])
def test_noise_that_hides_next_to_nothing_promises_next_to_nothing(sigma):
    """Epsilon of some D^2 / 2 sigma^2 and above, where e^epsilon is beyond doubles; the logarithm of delta in 60 digits."""
    found = fp.Gaussian(sigma).epsilon(1e-5)
    assert found > 1 / (2 * sigma**2)
    assert true_log_delta(sigma, found, 1.0) <= mp.log(1e-5) < true_log_delta(sigma, found * (1 - 1e-9), 1.0)


def test_a_tiny_epsilon_keeps_its_digits():
    """sigma 1e8: delta near 4e-9 is a difference of two halves, each right to some 1e-16, so to 1e-6 of itself.

    The epsilon, 8e-10, needs an absolute tolerance far below a solver's usual 2e-12, which would be off by 4e-5 here.
    """
    delta = 0.9 * math.erf(1 / (2e8 * SQRT2))
    epsilon = fp.Gaussian(1e8).epsilon(delta)
    assert gaussian_delta(1e8, epsilon, 1.0) == near(delta, rel=1e-6)


@pytest.mark.parametrize("name", ["epsilon", "delta", "sensitivity"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "much", 1.0, 1.5])
def test_no_promise_from_a_number_that_is_none(name, bad):
    if name != "delta" and bad in (1.0, 1.5):
        return  # these are too large for a delta alone
    given = {"epsilon": 0.5, "delta": 1e-5, "sensitivity": 1.0} | {name: bad}
    pure = {k: v for k, v in given.items() if k != "delta"}
    calls = [lambda kind=kind: kind.from_epsilon(**given) for kind in GAUSSIAN]
    calls += [lambda: fp.Gaussian.from_classic(**given)]
    back = {k: v for k, v in given.items() if k != "epsilon"}
    if name != "delta":
        calls += [lambda kind=kind: kind.from_epsilon(**pure) for kind in LAPLACE]
    if name != "epsilon":
        calls += [lambda kind=kind: kind(3.0).epsilon(**back) for kind in GAUSSIAN]
    if name == "sensitivity":
        calls += [lambda kind=kind: kind(3.0).epsilon(bad) for kind in LAPLACE]
        calls += [lambda kind=kind: kind(3.0).rho(bad) for kind in GAUSSIAN]
        calls += [lambda kind=kind: kind.from_rho(1.0, bad) for kind in KINDS.values()]
        calls += [lambda: Neighbours(bad)]
    if name == "delta":
        calls += [lambda: Neighbours(1.0, bad)]
    for make in calls:
        with pytest.raises(ParameterError, match=f"`{name}` must be"):
            make()


# -- from names and numbers to noise, in Python and by the command ---------------------------------------------------


def crossing(f, low, high):
    """Where a falling f is 0, by bisection in the logarithm."""
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if f(middle) <= 0 else (middle, high)
    return high


TIGHT = {(0.8, 1e-4): crossing(lambda sigma: gaussian_delta(sigma, 0.8, 1.0) - 1e-4, 0.01, 1e3)}


def through_rho(epsilon, delta):
    """The rho whose sharp epsilon is this one."""
    return crossing(lambda r: epsilon - sharp_epsilon(r, delta), 1e-6, 2.0)


def expected(name, how, value, delta, sensitivity):
    """The spread, epsilon and rho that a statement means, from the definitions above."""
    if how in ("scale", "sigma"):
        spread = value
    elif how == "rho":
        spread = sensitivity / math.sqrt(2 * value)
    elif "laplace" in name:
        spread = sensitivity / value
    elif name == "gaussian":
        spread = sensitivity * TIGHT[value, delta]
    else:
        spread = sensitivity / math.sqrt(2 * through_rho(value, delta))
    if "laplace" in name:
        return {"spread": spread, "epsilon": sensitivity / spread, "delta": 0.0, "rho": None}
    rho = (sensitivity / spread) ** 2 / 2
    if delta is None:
        epsilon = None
    elif name == "discrete-gaussian":
        epsilon = sharp_epsilon(rho, delta)
    else:
        epsilon = crossing(lambda e: gaussian_delta(spread, e, sensitivity) - delta, 1e-4, 20.0)
    return {"spread": spread, "epsilon": epsilon, "delta": delta, "rho": rho}


def ways(name):
    own = "scale" if "laplace" in name else "sigma"
    delta = None if "laplace" in name else 1e-4
    yield "epsilon", 0.8, delta
    yield "rho", 0.05, delta
    yield own, 7.0, delta
    if delta is not None:
        yield own, 7.0, None
        yield "rho", 0.05, None


STATED = [(name, *way, d) for name in KINDS for way in ways(name) for d in SENSITIVITIES]


def agrees(found, want, name, sensitivity):
    """brentq's 1e-14 and the oracle's 1e-9, on conversions that magnify by less than 100."""
    own = "scale" if "laplace" in name else "sigma"
    assert found["name"] == name
    assert found[own] == near(want["spread"], rel=1e-8)
    for key in ("epsilon", "delta", "rho"):
        if want[key] is None:
            assert found[key] is None
        else:
            assert found[key] == near(float(want[key]), rel=1e-7)
    assert found["sensitivity"] == sensitivity
    assert set(found) == {"name", own, "variance", "epsilon", "delta", "rho", "sensitivity"}
    assert found["variance"] == KINDS[name](found[own]).variance


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("privacy")
    (folder / "x.csv").write_text("id,count\na,3\nb,40\n")
    return folder


def said(folder, *words):
    out = folder / "out.json"
    done = call(*words, "--json", out, "--force")
    assert done.returncode in (0, 3), done.stderr
    return json.loads(out.read_text())


@pytest.mark.parametrize(("name", "how", "value", "delta", "sensitivity"), STATED)
def test_every_statement_of_a_promise(files, name, how, value, delta, sensitivity):
    want = expected(name, how, value, delta, sensitivity)
    about = Neighbours(sensitivity, delta)
    made = mechanism_of(name, **{how: value}, neighbours=about)
    assert type(made) is KINDS[name]
    agrees(about.describe(made), want, name, sensitivity)
    promise = about.epsilon(made)
    assert promise == (None if want["epsilon"] is None else near(float(want["epsilon"]), rel=1e-7))
    words = ["--mechanism", name, f"--{how}", value, "--sensitivity", sensitivity]
    words += [] if delta is None else ["--delta", delta]
    data = said(files, "audit", files / "x.csv", *words, "--postprocess", "nonnegative")
    agrees(data["mechanism"], want, name, sensitivity)
    bias = fp.audit(fp.Counts([3, 40]), made, "nonnegative").alpha.value
    assert data["results"][0]["alpha"]["value"] == bias  # the audit was of this noise


def test_statements_that_are_none():
    cases = [
        (
            dict(name="cauchy", scale=1.0),
            "`mechanism` must be one of laplace, gaussian, discrete-laplace, discrete-gaussian",
        ),
        (dict(name="laplace"), "exactly one of epsilon, rho, scale and sigma, got none"),
        (dict(name="laplace", epsilon=1.0, rho=1.0), "got epsilon, rho"),
        (dict(name="laplace", scale=1.0, sigma=1.0), "got scale, sigma"),
        (dict(name="laplace", sigma=1.0), "is given by `scale`, not by `sigma`, got sigma 1.0"),
        (dict(name="gaussian", scale=1.0), "is given by `sigma`, not by `scale`, got scale 1.0"),
        (dict(name="gaussian", epsilon=1.0), "epsilon for gaussian noise needs `delta` too"),
        (dict(name="discrete-gaussian", epsilon=1.0), "epsilon for discrete-gaussian noise needs `delta` too"),
    ]
    for given, says in cases:
        with pytest.raises(ParameterError, match=says):
            mechanism_of(given.pop("name"), **given)
    made = mechanism_of("laplace", epsilon=0.5)
    assert made == fp.Laplace(2.0)
    assert Neighbours().epsilon(fp.Laplace(4.0)) == 0.25
    assert Neighbours().epsilon(fp.Gaussian(4.0)) is None
    assert mechanism_of("gaussian", epsilon=0.8, neighbours=Neighbours(1.0, 1e-4)).sigma > 1


@pytest.mark.timeout(20)
def test_a_search_that_ends_at_0_goes_on_until_the_promise_is_shown(monkeypatch):
    """With delta a hair below the total variation the root may be 0 by rounding, from where steps in proportion lead nowhere."""
    monkeypatch.setattr(sys.modules["fairpost.noise.calibration"], "root", lambda *given, **more: 0.0)
    for delta in (math.erf(1 / (4 * SQRT2)) * (1 - 1e-14), 1e-5):
        found = fp.Gaussian(2.0).epsilon(delta)
        assert found > 0
        assert true_log_delta(2.0, found, 1.0) <= mp.log(delta)


@pytest.mark.parametrize("epsilon", [1.0000001, 1.5, 3.0])
def test_the_classic_rule_ends_at_1(epsilon):
    with pytest.raises(ParameterError) as refused:
        fp.Gaussian.from_classic(epsilon, 1e-5)
    assert str(refused.value) == f"the classic Gaussian rule is valid for `epsilon` <= 1 only, got {epsilon!r}"
