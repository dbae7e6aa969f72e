"""`simplex` and `pos` under Laplace and Gaussian noise, against integrals over the noise itself and simulation with the rule written anew."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

import fairpost as fp
from fairpost.engines.base import Question, Refusal
from fairpost.engines.contour.method import Contour
from fairpost.engines.exact import Exact
from fairpost.rules import PoS, Simplex

LAWS = {"laplace": (fp.Laplace, stats.laplace), "gaussian": (fp.Gaussian, stats.norm)}


def projected(z, total):
    """The nearest v >= 0 with that sum, by bisection of the threshold: rows are draws."""
    low, high = np.min(z, axis=1) - np.abs(total) - 1.0, np.max(z, axis=1)
    for _ in range(80):
        middle = (low + high) / 2
        more = np.maximum(z - middle[:, None], 0).sum(axis=1) > total
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.maximum(z - low[:, None], 0)


def answered(x, noise, rule, rtol=1e-6, weights=None, **more):
    """By contours, or in closed form where at most one may be clipped."""
    result = fp.audit(fp.Counts(x, weights=weights), noise, rule, engine=Exact(rtol=rtol), **more)
    assert result.alpha.kind in ("bound", "estimate")
    return result


def off_by(result, who, **values):
    """Each within what is stated of it, and rounding of the reference."""
    for name, value in values.items():
        known = getattr(result, "accuracy" if name == "bias" else f"{name}_accuracy").half_width
        assert np.all(np.abs(getattr(result, name)[who] - value) <= known[who] + 2e-11), name


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("x", "total"), [((1.0, 4.0), 5.0), ((0.0, 2.5), 2.5), ((3.0, 4.0), 9.0), ((6.0, 9.0), 12.0)])
def test_two_entities_are_an_integral_over_a_difference(law, x, total):
    """v_1 = clip(C/2 + (x_1 - x_2 + d)/2, 0, C), d the difference of the two noises."""
    b = 2.0

    def density(d):
        return (
            stats.norm.pdf(d, scale=b * np.sqrt(2))
            if law == "gaussian"
            else (1 + abs(d) / b) * np.exp(-abs(d) / b) / (4 * b)
        )

    def mean(f):
        marks = [-200.0, *sorted({x[1] - x[0] - total, 0.0, x[1] - x[0] + total}), 200.0]
        return sum(integrate.quad(lambda d: f(d) * density(d), *p, epsabs=1e-14)[0] for p in pairwise(marks))

    def off(d):
        return np.clip((total + x[0] - x[1] + d) / 2, 0, total) - x[0]

    result = answered(list(x), LAWS[law][0](b), "simplex", total=total)
    off_by(result, 0, bias=mean(off), mse=mean(lambda d: off(d) ** 2), zero=mean(lambda d: off(d) == -x[0]))
    assert result.alpha.half_width <= 1e-6 * result.alpha.value


@pytest.mark.parametrize("law", LAWS)
def test_two_shares_are_an_integral_over_the_plane(law):
    """PoS_1 = clip(z_1/(z_1 + z_2), 0, 1): Gauss-Legendre on panels with breaks where a noise or a count is 0."""
    x, a, (u, w) = (2.0, 40.0), (1.0, 1.5), np.polynomial.legendre.leggauss(24)
    z, mass = [], []
    for count, weight in zip(x, a, strict=True):
        edges = np.unique(np.append(np.arange(-44.0, 45.0, 2.0), -count))
        eta = (edges[:-1, None] + np.diff(edges)[:, None] * (u + 1) / 2).ravel()
        z.append(weight * (count + eta))
        mass.append((np.diff(edges)[:, None] * w / 2).ravel() * LAWS[law][1].pdf(eta))
    total = np.add.outer(*z)
    off = np.clip(z[0][:, None] / np.where(total > 0, total, np.inf), 0, 1) - a[0] * x[0] / np.dot(a, x)
    result = answered(list(x), LAWS[law][0](1.0), "pos", weights=list(a))
    off_by(result, 0, bias=mass[0] @ off @ mass[1], mse=mass[0] @ off**2 @ mass[1], zero=LAWS[law][1].cdf(-x[0]))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rule", ["simplex", "pos"])
def test_many_entities_agree_with_simulation(law, rule):
    """61 entities; shares are the projection of z/S onto the sum 1. Four standard errors and a half: one false alarm in some thousand."""
    x = np.concatenate([np.arange(30.0) / 2, np.arange(10.0, 40.0), [800.0]])
    a = np.where(np.arange(x.size) % 3 == 0, 2.0, 1.0) if rule == "pos" else np.ones(x.size)
    result = answered(x, LAWS[law][0](3.0), rule, weights=a if rule == "pos" else None)
    rng, runs = np.random.default_rng(7), 20_000
    z = a * (x + getattr(rng, "laplace" if law == "laplace" else "normal")(0, 3.0, (runs, x.size)))
    shares = projected(z / z.sum(axis=1)[:, None], 1.0) - a * x / np.sum(a * x) if rule == "pos" else None
    off = projected(z, x.sum()) - x if shares is None else shares
    assert np.max(np.abs(result.bias - off.mean(axis=0)) / off.std(axis=0)) < 4.5 / np.sqrt(runs)
    assert np.max(np.abs(result.mse - (off**2).mean(axis=0)) / (off**2).std(axis=0)) < 4.5 / np.sqrt(runs)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rule", ["simplex", "pos"])
def test_stated_errors_hold_at_every_tolerance(law, rule):
    """Coarse answers lie within what they state of fine ones, and fine ones reach 1e-9."""
    for x in ([3.0, 5.0, 8.0, 40.0, 41.0], [0.0, 1.0, 1.0, 2.0, 30.0] * 12, np.append(np.arange(300.0), 5e4)):
        fine, *coarse = (answered(x, LAWS[law][0](1.3), rule, rtol=rtol) for rtol in (1e-9, 1e-1, 1e-3, 1e-6))
        assert fine.alpha.half_width <= 1e-9 * fine.alpha.value
        for one in coarse:
            off_by(one, slice(None), bias=fine.bias, mse=fine.mse, zero=fine.zero)


def test_what_is_not_covered_is_refused_before_the_work():
    """Whole numbers, sums that may be negative, and few Laplace entities with a total that clips them anyway."""
    for x, noise, rule, more, why in (
        ([5.0, 9.0, 30.0], fp.DiscreteLaplace(1.0), PoS, {}, "continuous noise only"),
        ([1.0, 1.0, 2.0], fp.Laplace(9.0), PoS, {}, "may be negative"),
        ([1.0, 20.0, 30.0], fp.Laplace(1.0), Simplex, {"total": 20.0}, "clips them even without noise"),
    ):
        part = Question.ask(fp.Counts(x), noise, [rule.from_counts(fp.Counts(x), **more)]).parts(0)[0]
        assert why in (Contour().fits(part, 1e-6) or "")
        found = Contour().evaluate(part, 1e-6)
        assert isinstance(found, Refusal)
        assert not found.tried


def test_who_is_certain_to_be_clipped_is_not_taken_for_never():
    """Two of 34 counts are below the shift by 27 deviations: they get nothing, the others a 32nd of the total each."""
    x, total = [8.2, 22.3] + [6848.7] * 32, 153432.23
    alpha = (6848.7 - total / 32) - 8.2
    with pytest.raises((fp.ToleranceError, fp.UnsupportedError)):
        fp.audit(x, fp.Gaussian(75.9), "simplex", engine="exact", total=total)
    found = fp.audit(x, fp.Gaussian(75.9), "simplex", total=total)
    assert found.alpha.value == pytest.approx(alpha, rel=1e-9)
    assert found.zero[:2] == pytest.approx([1.0, 1.0])
