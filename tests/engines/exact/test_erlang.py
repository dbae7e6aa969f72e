"""Sums of exponential variables: their tails, and the releases under Laplace noise that few share."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.exact.simplex.few import few as differences
from fairpost.engines.exact.simplex.moments import simplex
from fairpost.engines.exact.sums.one import one
from fairpost.engines.exact.sums.population import Places
from fairpost.engines.exact.sums.window import Family, find_window
from fairpost.engines.exact.threshold import erlang, gammas, multiplied
from fairpost.engines.exact.threshold import few as lines
from fairpost.engines.exact.threshold import release as bell
from fairpost.engines.exact.threshold.erlang import release
from fairpost.engines.exact.threshold.largest import largest
from fairpost.errors import ToleranceError
from fairpost.noise import Gaussian, Laplace, Threshold
from fairpost.rules import SimplexThreshold


def within(a, b, more=0.0):
    """Whether every number of two answers is the same within both errors."""
    assert (np.abs(a.bias - b.bias) <= a.error + b.error + more).all()
    assert (np.abs(a.mse - b.mse) <= a.mse_error + b.mse_error + more).all()
    assert (np.abs(a.zero - b.zero) <= a.zero_error + b.zero_error + more).all()
    if a.threshold is not None and b.threshold is not None:
        assert abs(a.threshold - b.threshold) <= a.threshold_error + b.threshold_error + more


@pytest.mark.parametrize(("p", "q"), [(1, 0), (3, 0), (0, 2), (2, 3), (5, 1)])
def test_tails_of_a_difference_of_two_sums(p: int, q: int) -> None:
    """By integrating one gamma density against the other's incomplete gamma function; and each side of y less the other is known."""
    from scipy.integrate import quad
    from scipy.special import gammaincc

    many, less = np.array([p]), np.array([q])
    for y in (-2.3, -0.4, 0.0, 0.7, 3.1):
        place = np.full((1, 1), y)
        up = [float(gammas.upper(many, less, place, r)[0, 0]) for r in range(3)]
        down = [float(gammas.lower(many, less, place, r)[0, 0]) for r in range(3)]

        def above(u: float, y: float = y) -> float:
            return float(gammaincc(p, y + u)) if p > 0 and y + u > 0 else float(y + u < 0 if p == 0 else True)

        if q > 0:
            chance = quad(
                lambda u: math.exp(-u) * u ** (q - 1) / math.gamma(q) * above(u),
                0,
                60,
                points=[max(-y, 0.0)],
                epsabs=1e-13,
            )[0]
        else:
            chance = above(0.0)
        assert up[0] == pytest.approx(chance, abs=1e-11)
        assert up[0] + down[0] == pytest.approx(1, abs=1e-14)
        assert up[1] - down[1] == pytest.approx(p - q - y, abs=1e-12)
        assert up[2] + down[2] == pytest.approx(((p - q - y) ** 2 + p + q) / 2, abs=1e-12)
        # the integral of each is the next
        step = 1e-4
        for r in (0, 1):
            for form, sign in ((gammas.upper, -1.0), (gammas.lower, 1.0)):
                a, b = (float(form(many, less, place + 0.3 + d, r + 1)[0, 0]) for d in (-step, step))
                assert sign * (b - a) / (2 * step) == pytest.approx(
                    float(form(many, less, place + 0.3, r)[0, 0]), abs=1e-7
                )


def test_far_tails_and_small_heights_keep_their_digits() -> None:
    from scipy.special import gammainc, gammaincc

    p, q = np.array([3, 3, 4]), np.array([0, 0, 0])
    assert gammas.upper(p, q, np.full((1, 3), 200.0), 0)[0] == pytest.approx(gammaincc(p, 200.0), rel=1e-12)
    assert gammas.lower(p, q, np.full((1, 3), 1e-6), 0)[0] == pytest.approx(gammainc(p, 1e-6), rel=1e-12)
    # E[(y - G_p)_+] is the integral of that: y^(p+1)/(p+1)!
    first = gammas.lower(p, q, np.full((1, 3), 1e-6), 1)[0]
    assert first == pytest.approx(1e-6 ** (p + 1.0) / np.array([24.0, 24.0, 120.0]), rel=1e-5)


def test_the_terms_multiply_out_to_the_product() -> None:
    """At a real s inside the strip: the sum over the terms is the product of the factors, with their signs and numbers of ways."""
    y, tau, giants, t, s = np.array([0.4, 0.4, 1.7]), 0.6, 2, -0.3, 0.35
    terms = multiplied.Terms.of(y, tau, giants)
    h = 0.5 * np.exp(t - y)
    factors = np.exp(s * (y + tau - t)) / (1 - s * s) - h * math.exp(s * tau) / (1 + s) + h
    each = terms.sign * np.exp(terms.log + terms.cut * t + s * (terms.shift - (terms.p - giants) * t))
    each /= (1 - s) ** terms.p * (1 + s) ** terms.q
    assert float(np.sum(each)) == pytest.approx(float(np.prod(factors)) * (1 - s * s) ** -giants, rel=1e-13)


def test_the_number_kept_by_folding_and_on_a_circle() -> None:
    q = np.array([[0.2, 0.5, 0.01], [1e-9, 2e-9, 1e-12]])
    folded = multiplied.kept(q)
    assert folded.sum(axis=1) == pytest.approx([1, 1], abs=1e-15)
    assert folded[1, 3] == pytest.approx(2e-30, rel=1e-9)
    assert folded[0, 3] == pytest.approx(0.001, rel=1e-13)


@pytest.mark.parametrize("n", [3, 4, 7])
@pytest.mark.parametrize("smallest", [3.0, 12.0, 40.0])
@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_one_that_may_be_cut(n: int, smallest: float, tau: float) -> None:
    """Its own law is closed (`sums.one`): a bias of 1e-27 has its digits."""
    x, times = np.array([smallest, 400.0]), np.array([1, n - 1])
    total = float(x @ times)
    known = one(x, times, Laplace(1.0), total, Threshold(tau), 1e-6)
    found = release(x, times, Laplace(1.0), total, tau, 1e-6)
    assert np.ptp(found.bias) == pytest.approx(np.ptp(known.bias), rel=1e-7)
    assert 2 * found.error.max() < 1e-6 * np.ptp(found.bias)
    within(found, known, 1e-12)


@pytest.mark.parametrize("total", [0.05, 0.9, 2.3])
def test_three_by_integration_over_differences_of_noises(total: float) -> None:
    x, times = np.array([0.1, 0.7, 1.9]), np.array([1, 1, 1])
    within(release(x, times, Laplace(1.0), total, 0.0, 1e-6), differences(x, times, total, 1e-6, 1.0))


@pytest.mark.parametrize(
    ("x", "times", "total"),
    [
        ([0.0, 0.4, 1.3], [1, 1, 1], 1.8),
        ([0.1, 0.4, 2.0, 3.0], [2, 1, 1, 1], 6.0),
        ([0.0, 2.0, 300.0], [2, 2, 1], 303.0),
    ],
)
def test_few_against_upright_lines(x: list[float], times: list[int], total: float) -> None:
    """Another formula, other contours: an integral over (r, s) with a smooth cut-off."""
    found = release(np.array(x), np.array(times), Laplace(1.0), total, 1.0, 1e-6)
    other = lines.release(np.array(x), np.array(times), Laplace(1.0), total, 1.0, 1e-3)
    assert (np.abs(found.bias - other.bias) <= found.error + 2 * other.error).all()
    assert (np.abs(found.mse - other.mse) <= found.mse_error + 2 * other.mse_error).all()
    assert (np.abs(found.zero - other.zero) <= found.zero_error + 2 * other.zero_error).all()


@pytest.mark.parametrize("total", [1.2, 1.9])
def test_many_against_the_two_largest(total: float) -> None:
    """Up to twice the threshold two share the total, and integrals of one dimension know how."""
    x, times = np.array([0.0, 0.05, 0.2]), np.array([120, 90, 60])
    within(release(x, times, Laplace(1.0), total, 1.0, 1e-6), largest(x, times * 1.0, Laplace(1.0), total, 1.0, 1e-6))


def test_many_against_the_bell() -> None:
    """Giants make the bell serve too: another law of H. Many distinct counts are carried by few."""
    x, times = np.concatenate([np.linspace(0.0, 0.3, 90), [80.0]]), np.concatenate([np.full(90, 6), [20]])
    total = float(x @ times) - 60.0
    found, other = (way.release(x, times, Laplace(1.0), total, 1.0, 1e-6) for way in (erlang, bell))
    within(found, other, 1e-9)
    assert np.ptp(found.bias) > 0.1


def test_many_against_leaning_contours() -> None:
    x, times = np.concatenate([np.linspace(0.0, 0.3, 90), [80.0]]), np.concatenate([np.full(90, 6), [1]])
    found = release(x, times, Laplace(1.0), 100.0, 0.0, 1e-6)
    within(found, simplex(x, times, Laplace(1.0), 100.0), 1e-9)


def test_few_of_many_share_the_total() -> None:
    """Refused before. Against simulation."""
    x, times, total = np.array([0.0, 1.0, 40.0]), np.array([100, 60, 3]), 180.0 * 8
    counts = fp.Counts(np.repeat(x, times))
    pi = SimplexThreshold(total)
    exact = fp.audit(counts, Laplace(300.0), pi, engine="exact")
    drawn = fp.audit(counts, Laplace(300.0), pi, engine="monte-carlo", runs=20_000)
    assert exact.method == "exact"
    assert (np.abs(exact.bias - drawn.bias) <= drawn.half_width * 1.3 + exact.half_width).all()
    assert exact.alpha.half_width < 1e-6 * exact.alpha.value


def level(x: np.ndarray, times: np.ndarray, total: float) -> erlang._Level:
    """The finest, of Laplace noise of scale 1 and a threshold of 1."""
    many = times.astype(np.float64)

    def places(t: np.ndarray) -> Places:
        return Places(t, np.ones(t.size), None)

    family = Family(Laplace(1.0), x - 1.0, many, total - float(many @ x) + float(many.sum()), places)
    return erlang._Level(family, find_window(family), 1.0, erlang.LEVELS[-1], erlang.ABOVE, "simplex-threshold")


def test_what_lies_before_the_first_place_is_bounded(monkeypatch) -> None:
    """A first place that comes too late: what is missed is most of the stated error, and no more than it."""
    x, times = np.array([0.0, 0.2]), np.array([150, 100])
    whole, late = level(x, times, 5.0), level(x, times, 5.0)
    late.low = whole.win.centre - 0.9
    late.parts = late._parts(erlang.LEVELS[-1][0])
    monkeypatch.setattr(erlang, "EDGE", 0.1)
    known, found = whole.found(), late.found()
    missed = np.abs(found.deficit - known.deficit)
    assert (missed <= found.lost).all()
    assert (missed > 0.02 * found.lost).all()
    assert (missed > 1e4 * known.lost).all()
    assert (np.abs(found.zero - known.zero) <= found.lost).all()
    monkeypatch.setattr(erlang, "EDGE", 1e-9)
    with pytest.raises(ToleranceError, match="above the cut"):
        late.found()


def test_what_lies_beyond_the_last_place_is_bounded() -> None:
    x, times = np.array([0.0, 0.4, 1.1]), np.array([1, 1, 2])
    whole, short = level(x, times, 2.5), level(x, times, 2.5)
    short.high = 12.0
    short.parts = short._parts(erlang.LEVELS[-1][0])
    known, found = whole.found(), short.found()
    missed = np.abs(found.deficit - known.deficit)
    assert (missed <= found.lost).all()
    assert (missed > 1e4 * known.lost).all()


def test_rounding_of_terms_that_cancel_is_stated(monkeypatch) -> None:
    """With an epsilon of 1e-6 every tail is off by as much: the error that is stated grows with it."""
    x, times = np.array([0.0, 0.4, 1.1]), np.array([1, 1, 2])
    plain = level(x, times, 2.5).found()
    tail = multiplied.upper
    rng = np.random.default_rng(2)
    monkeypatch.setattr(
        multiplied, "upper", lambda *given: tail(*given) * (1 + 1e-6 * rng.uniform(-1, 1, given[2].shape))
    )
    monkeypatch.setattr(erlang, "EPS", 1e-6)
    rough = level(x, times, 2.5).found()
    assert (np.abs(rough.deficit - plain.deficit) <= rough.lost).all()
    assert (np.abs(rough.deficit - plain.deficit) > 1e-10).all()


def test_too_many_above_the_cut_are_refused() -> None:
    with pytest.raises(ToleranceError, match="above the cut"):
        release(np.array([0.0, 0.9]), np.array([40, 4]), Laplace(1.0), 20.0, 1.0, 1e-3)


def test_what_is_not_meant_is_refused() -> None:
    x, times = np.array([0.0, 0.5]), np.array([5, 5])
    with pytest.raises(ToleranceError, match="Laplace"):
        release(x, times, Gaussian(1.0), 2.0, 0.0, 1e-6)
    with pytest.raises(ToleranceError, match="never cut"):
        release(np.array([0.0, 500.0]), np.array([1, 60]), Laplace(1.0), 30_000.0, 1.0, 1e-6)
    with pytest.raises(ToleranceError, match="share the total"):
        release(np.array([0.0, 1e-3]), np.array([5000, 5000]), Laplace(1.0), 900.0, 1.0, 1e-6)


def _levels(lost=0.0, root=None):
    """Two levels of made-up deficits that agree; `root` by default as they say."""
    from fairpost.engines.exact.threshold.settled import Found

    deficit = np.array([0.5, 0.1, 0.3])
    mean = float(np.mean(deficit))
    parts = (deficit, np.array([0.2, 0.1, 0.05]), np.array([1.0, 2.0, 3.0]), np.full(3, lost))
    return Found(*parts, mean - 0.25 if root is None else root)


def test_what_was_left_out_is_part_of_every_stated_error():
    """1e-4 of each deficit: twice that of a bias (its own and the mean's), of the chance once, of a square four times its distance."""
    from fairpost.engines.exact.threshold import settled

    times, x, b = np.ones(3), np.array([0.0, 4.0, 12.0]), 2.0
    whole, without = _levels(1e-4), _levels()
    (bias, error), (same, less) = (settled.biases(now, now, times, 0.25) for now in (whole, without))
    assert bias.tolist() == same.tolist()
    assert error - less == pytest.approx(np.full(3, 2e-4), rel=1e-9)
    more, none = (settled.moments(now, now, x, times, (b, 0.25, 1.0), 0.1) for now in (whole, without))
    assert more.error - none.error == pytest.approx(np.full(3, 2e-4 * b), rel=1e-9)
    assert more.zero_error - none.zero_error == pytest.approx(np.full(3, 1e-4), rel=1e-6)
    assert more.mse_error - none.mse_error == pytest.approx(4 * (1 + x / b) * 1e-4 * b * b, rel=1e-6)


def test_a_root_that_is_not_the_mean_of_the_deficits_is_an_error():
    """E[r] by two ways, 1e-3 apart, beside a mean deficit of 0.3: its part of every deficit."""
    from fairpost.engines.exact.threshold import settled

    fine, off = _levels(), _levels(root=0.3 - 0.25 + 1e-3)
    error, less = (settled.biases(now, now, np.ones(3), 0.25)[1] for now in (off, fine))
    assert error - less == pytest.approx(1e-3 / 0.3 * (fine.deficit + 0.3), rel=1e-6)
