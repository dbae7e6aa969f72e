"""PoS among thousands of weights over orders: steps that see no ripples, and what they miss of narrow entities."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

import fairpost as fp
from fairpost.engines.exact.pos import ripples, separated
from fairpost.engines.exact.pos.inverse import inverse_of
from fairpost.engines.exact.pos.nodes import STAGES, threshold_rule
from fairpost.engines.exact.pos.problem import Problem

NOISES = [fp.Laplace(60.0), fp.Gaussian(60.0)]


@pytest.fixture(scope="module", params=NOISES, ids=["laplace", "gaussian"])
def risk(request):
    """The entities at risk, and 1/S."""
    problem = _problem(request.param)
    return separated._at_risk(problem, 1e-6), inverse_of(problem, 2e-8)


def _problem(noise):
    """Thousands of even ones make a bell; hundreds of narrow ones stand in it."""
    rng = np.random.default_rng(5)
    small = 10 ** rng.uniform(-4, -1, 300)
    a = np.append(np.exp(rng.uniform(0, 0.5, 400)), small)
    x = np.append(rng.exponential(40.0, 400), rng.uniform(0, 50, 300) / small)
    times = np.append(np.full(400, 10), np.ones(300, dtype=np.int64))
    return Problem.build(x, a, times, a * x / np.sum(times * a * x), noise)


def _tilts(risk, inverse):
    log, _, _ = risk.others.tilted(inverse.t)
    return inverse.t, inverse.omega, log @ risk.others.times - inverse.t * risk.others.mean


def _defect(risk, found):
    return float(found.common[0, 0] / -np.expm1(separated._log_none_clipped(risk.problem)) - 1)


def test_equal_steps_of_y_see_no_ripples(risk):
    """The chance that somebody is clipped has a closed form, which steps of r miss by 1e-5 and more, steps of y by a hundredth of that."""
    risk, inverse = risk
    off = []
    for stage in STAGES[:3]:
        rule = threshold_rule(risk.profile, lambda r: r, None, stage)
        plain = separated._accumulated(risk, (*rule, stage.step), _tilts(risk, inverse))
        found = separated._integrate(risk, inverse, stage)
        assert found.rippled
        off.append((abs(_defect(risk, plain)), abs(_defect(risk, found))))
    plain, even = np.max(off, axis=0)
    assert plain > 1e-5
    assert even < 0.02 * plain


def test_steps_are_equal_in_y(risk):
    risk, _ = risk
    p, far = risk.problem, float(risk.others.n)
    steps = ripples.even_steps(p, far, risk.profile, STAGES[0])
    n = float(p.n + risk.others.n)
    at = (steps.r[:, None] - p.c) / p.a
    short = [(p.times * p.a) @ p.mechanism.upper(-row, 0.0, 1) for row in at]  # E[(v - eta)_+] = E[(eta - (-v))_+]
    assert steps.y == pytest.approx(n * steps.r - np.array(short), rel=1e-9, abs=1e-9 * float(np.ptp(steps.y)))
    above = n - p.mechanism.cdf(at) @ p.times
    assert steps.weight == pytest.approx(np.diff(steps.y)[0] / above, rel=1e-9)


def test_narrow_entities_have_what_fine_steps_have(risk):
    """200 steps resolve ramps by themselves: of E[(r - z)_+] their squares are 1/150 of those of stage 1."""
    risk, inverse = risk
    low, high = risk.profile.window(27)
    many = replace(STAGES[1], spacing=(high - low) / 200 / risk.profile.bell(27), step=0.6)
    steps = ripples.even_steps(risk.problem, float(risk.others.n), risk.profile, many)
    fine = separated._accumulated(risk, (steps.r, steps.weight, 0.6), _tilts(risk, inverse))
    assert abs(_defect(risk, fine)) < 1e-7
    before, found = (separated._integrate(risk, inverse, stage) for stage in STAGES[:2])
    narrow = ripples.Narrow.of(risk.problem, risk.profile, 27).index
    assert narrow.size > 50
    even = ripples.even_steps(risk.problem, float(risk.others.n), risk.profile, STAGES[1])
    raw = separated._accumulated(risk, (even.r, even.weight, 0.88), _tilts(risk, inverse))
    missed, left = (np.abs(one.first - fine.first)[narrow] for one in (raw, found))
    assert np.max(left) < np.max(missed) / 40
    missed, left = (np.abs(one.square - fine.square)[narrow] for one in (raw, found))
    assert np.max(left) < np.max(missed)
    assert np.max(np.abs(found.first - fine.first)) < 5e-6 * np.max(fine.first)
    # P(z < r) of the narrowest is off by half a step of the fine ones, 0.015 at most
    assert np.max(np.abs(found.zero - fine.zero)) < 0.015 < np.max(np.abs(raw.zero - fine.zero))
    wider = narrow[risk.problem.scale[narrow] > (high - low) / 100]
    assert np.max(np.abs(found.zero - fine.zero)[wider]) < 3e-4
    assert np.max(np.abs(found.zero - before.zero)) < 2e-3


def test_the_larger_defect_of_two_stages_is_stated(monkeypatch, risk):
    """A second stage that has the chance by accident does not make the first one's defect go away."""
    risk, _ = risk
    given = _problem(risk.problem.mechanism)
    plain, calls = separated._integrate, []

    def off(some, inverse, stage):
        found = plain(some, inverse, stage)
        calls.append(stage)
        exact = -np.expm1(separated._log_none_clipped(some.problem))
        scale = exact * (1 + 5e-5 * (len(calls) == 1)) / found.common[0, 0]
        return replace(found, common=found.common * scale)

    fair = separated.separated(given, 1e-3)
    monkeypatch.setattr(separated, "_integrate", off)
    found = separated.separated(given, 1e-3)
    assert len(calls) == 2
    size = float(np.ptp(found.bias))
    assert np.max(found.error) > np.max(fair.error) + 1e-5 * size
    some = (found.zero > 1e-3) & (found.zero < 0.5)
    assert np.min(fair.zero_error[some]) > 0.8 * np.max(fair.zero_error)


def test_cells_have_the_moments_of_the_steps_and_a_bell_between():
    """A normal density from steps of a deviation: its first three moments, its parts below any place, and a ramp."""
    y = np.linspace(-6.5, 6.5, 14)
    part = np.exp(-0.5 * y**2) / np.sqrt(2 * np.pi)
    ends = np.linspace(-7.0, 7.0, 601)
    cells, bent = ripples._cells(ripples.Steps(y, np.ones(14), y), ends, part)
    middle, wide = 0.5 * (ends[1:] + ends[:-1]), ends[1] - ends[0]
    squares = cells @ (middle**2 + wide**2 / 12) + bent @ (2 * middle * wide)
    whole = [part.sum(), part @ y, part @ y**2]
    assert [cells.sum(), cells @ middle + wide * bent.sum(), squares] == pytest.approx(whole, abs=1e-12)
    for place in (-1.3, 0.2, 0.777):
        ramp = np.maximum(ends - place, 0.0)
        mean = np.diff(0.5 * ramp**2) / wide
        exact = np.exp(-0.5 * place**2) / np.sqrt(2 * np.pi) - place * ndtr(-place)
        assert cells @ mean + bent @ np.diff(ramp) == pytest.approx(exact, abs=1e-7)
        assert cells @ (np.diff(ramp) / wide) == pytest.approx(ndtr(-place), abs=3e-4)


def test_cells_are_of_the_fourth_order():
    """100 cells, a seventh of a deviation wide: the second order would be off by 3e-4."""
    y = np.linspace(-6.5, 6.5, 27)
    part = 0.5 * np.exp(-0.5 * y**2) / np.sqrt(2 * np.pi)
    ends = np.linspace(-7.0, 7.0, 101)
    cells, bent = ripples._cells(ripples.Steps(y, np.ones(27), y), ends, part)
    for place in (-1.3, 0.2, 0.777):
        short = (ends - place) * ndtr(4 * (ends - place)) + np.exp(-8 * (ends - place) ** 2) / np.sqrt(32 * np.pi)
        fine = np.linspace(-7, 7, 20001)
        smooth = (fine - place) * ndtr(4 * (fine - place)) + np.exp(-8 * (fine - place) ** 2) / np.sqrt(32 * np.pi)
        exact = np.trapezoid(smooth * np.exp(-0.5 * fine**2), fine) / np.sqrt(2 * np.pi)
        integral = np.concatenate([[0.0], np.cumsum(0.5 * (smooth[1:] + smooth[:-1]) * np.diff(fine))])[::200]
        got = cells @ (np.diff(integral) / (ends[1] - ends[0])) + bent @ np.diff(short)
        assert got == pytest.approx(exact, abs=1e-5)


def test_polynomials_through_neighbours():
    nodes = np.sort(np.random.default_rng(1).uniform(0, 5, 12))
    at = np.linspace(0.1, 4.9, 30)
    assert ripples._through(nodes, nodes**5 - 3 * nodes, at) == pytest.approx(at**5 - 3 * at, rel=1e-9, abs=1e-7)
