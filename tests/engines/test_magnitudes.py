"""No NaN, and no magnitude without an answer or a refusal: giants, dust, and noise next to none."""

import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines import Exact
from fairpost.engines.base import Part, Question
from fairpost.engines.moments import Moments
from fairpost.errors import FairpostError, InputError, ToleranceError
from fairpost.noise import MECHANISMS, Threshold
from fairpost.results.audit import audit_of
from fairpost.rules import POSTPROCESSINGS, PosThreshold, Simplex, SimplexThreshold
from support.counts_csv import refused


@pytest.mark.parametrize("sigma", [0.1, 0.5**0.5, 20.0])
def test_the_sum_of_few_discrete_gaussian_noises_by_hand(sigma):
    """P(entry = 0) of groups of 2 and 3 against the sum over all noises; 1e-12 is the inversion's wrap-around and rounding."""
    noise = fp.DiscreteGaussian(sigma)
    reach = int(12 * sigma) + 6
    k = np.arange(-reach, reach + 1)
    p = noise.density(k)
    counts = fp.Counts([3, 40, 9, 500, 0], groups=list("nnssn"))
    with np.errstate(all="raise", under="ignore"):
        found = fp.audit(counts, noise, "sum", by_group=True)
    assert found.method == "exact"
    pair = np.add.outer(k, k)
    for i, x in enumerate(counts.values):
        if counts.groups[i] == "s":  # y = x + (eta_1 - eta_2) / 2
            inside = k[np.abs(k + 2 * x) <= reach]
            by_hand = float(np.sum(noise.density(inside) * noise.density(inside + 2 * x)))
        else:  # y = x + (2 eta_1 - eta_2 - eta_3) / 3 = 0 where eta_2 + eta_3 = 3 x + 2 eta_1
            of_sum = np.bincount((pair + 2 * reach).ravel(), np.outer(p, p).ravel())
            at = (3 * x + 2 * k + 2 * reach).astype(int)
            fits = (at >= 0) & (at < of_sum.size)
            by_hand = float(np.sum(p[fits] * of_sum[at[fits]]))
        assert found.zero[i] == pytest.approx(by_hand, rel=1e-9, abs=1e-12)
        assert found.zero[i] >= 0


def test_the_case_that_was_nan(cli):
    given = ("--mechanism", "discrete-gaussian", "--rho", 1, "--postprocess", "sum", "--by-group")
    code, out, err = cli("audit", "counts.csv", *given)
    assert (code, "nan" in out.lower(), err) == (0, False, "")
    code, out, err = cli("audit", "counts.csv", *given, "--json", "-")
    assert (code, err) == (0, "")
    assert json.loads(out)["results"][0]["alpha"]["value"] == 0


@pytest.mark.parametrize("what", ["bias", "mse", "zero"])
def test_no_nan_leaves_an_engine_or_a_result(what):
    counts, noise, pi = fp.Counts([1.0, 2.0]), fp.Laplace(1.0), POSTPROCESSINGS["nonnegative"]()
    good = fp.audit(counts, noise, pi)
    answer = Exact().evaluate(Question.ask(counts, noise, [pi]))[0]
    assert audit_of(counts, noise, pi, answer, good.truth).bias.tolist() == good.bias.tolist()
    broken = replace(answer, **{what: np.array([0.0, np.nan])})
    with pytest.raises(
        ToleranceError, match=r"nonnegative: the exact engine cannot hold .* of entity 1 in a float, got nan"
    ):
        audit_of(counts, noise, pi, broken, good.truth)
    moments = Moments(bias=np.zeros(2), error=np.zeros(2), mse=np.zeros(2), zero=np.zeros(2))
    bad = replace(moments, **{what: np.array([0.0, np.inf])})
    part = Part(fp.Simplex(3.0), moments.bias, moments.bias, fp.Laplace(1.0))
    assert "got inf at position 1" in bad.answer("exact", "bound", part).reason


def test_a_magnitude_that_is_not_meant_is_refused_by_name(cli):
    for make, rule in [
        (lambda: fp.Counts([1.0, 1e16]), r"every count must be from 0 to 2\*\*53, got 1e\+16 at position 1"),
        (lambda: fp.Counts([8e15, 8e15]), r"the sum of the counts must be from 0 to 2\*\*53, got 1.6e\+16"),
        (
            lambda: fp.Counts([1.0], weights=[1e200]),
            r"every weight must be from 1e-12 to 1e\+15, got 1e\+200 at position 0",
        ),
        (lambda: fp.Counts([1.0], weights=[1e-300]), "every weight must be from 1e-12"),
        (lambda: fp.Laplace(1e-300), r"`scale` must be from 1e-06 to 1e\+12"),
        (lambda: fp.DiscreteGaussian(1e13), "`sigma` must be from"),
        (lambda: fp.Laplace.from_epsilon(1e-200), "`epsilon` must be from"),
        (lambda: fp.Laplace.from_epsilon(1.0, 1e200), "`sensitivity` must be from"),
        (lambda: fp.Simplex(1e200), "`total` must be from"),
        (lambda: fp.audit([1.0, 2.0], fp.Laplace(1.0), "pos", budget=1e200), r"`budget` must be from 0 to 1e\+18"),
    ]:
        with pytest.raises(InputError, match=rule):
            make()
    Path("big.csv").write_text("id,count\na,1\nb,-1e16\n")
    assert refused(
        cli("project", "big.csv"), "big.csv, line 3, column 'count': every count must be from -2**53 to 2**53"
    )


def test_inside_the_meant_magnitudes_there_is_an_answer_or_a_refusal():
    """Counts over 27 orders of magnitude, noise over 18 (whole-number noise over 9: its tables grow with it)."""
    rng, said = np.random.default_rng(11), []
    for case in range(120):
        n = int(rng.integers(1, 5))
        x = 10.0 ** (rng.uniform(-12, 15, n) if case % 2 else np.full(n, rng.uniform(-3, 15)))
        x = np.round(x) if case % 3 else x
        x[rng.random(n) < 0.2] = 0.0
        weights = 10.0 ** rng.uniform(-12, 15, n) if case % 5 == 0 else None
        kind = list(MECHANISMS)[case % 4]
        noise = MECHANISMS[kind](10.0 ** rng.uniform(-6, 3 if "discrete" in kind else 12))
        which = list(POSTPROCESSINGS)[int(rng.integers(len(POSTPROCESSINGS)))]
        try:
            with np.errstate(divide="raise", invalid="raise", over="raise"):
                found = fp.audit(fp.Counts(x, weights=weights), noise, which, engine="exact")
        except FairpostError as error:
            said.append(str(error))
            continue
        json.dumps(found.to_dict(entities=True), allow_nan=False)
        assert np.isfinite(found.bias).all()
    assert not any("\n" in line for line in said)
    assert len(said) < 60, "most are answered"


APART = {
    "a chance below 0": ([0, 60, 70], fp.DiscreteLaplace(0.1), "simplex", {}),
    "a chance of 1e208": ([1, 2, 0], fp.DiscreteGaussian(0.03), "simplex-threshold", {"total": 1}),
    "no variance, shares": ([0, 2, 2], fp.DiscreteGaussian(0.00112), "pos", {}),
    "no variance, all clipped": ([0, 0, 0], fp.DiscreteLaplace(1e-6), "baseline", {}),
    "no variance, a shift": ([5, 2, 7], fp.DiscreteLaplace(1e-4), "simplex-threshold", {"total": 2}),
    "no variance, no slope": ([2], fp.DiscreteLaplace(1e-3), "pos-threshold", {}),
    "no sum, one distinct count": ([0, 0], fp.DiscreteGaussian(1e-4), "baseline", {}),
    "a variance that overflows": ([60, 3], fp.DiscreteLaplace(0.00115), "nonnegative", {}),
}
"""Whole-number noise next to none: what a float makes of it ended in a traceback, or never."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", APART)
@pytest.mark.parametrize("engine", ["auto", "exact", "expansion", "monte-carlo"])
def test_noise_next_to_none_has_an_answer_or_a_refusal(case, engine):
    """Against every vector of noises up to 4, by the rule itself."""
    x, noise, rule, more = APART[case]
    counts = fp.Counts(x)
    try:
        found = fp.audit(counts, noise, rule, engine=engine, **more)
    except (fp.UnsupportedError, ToleranceError):
        assert engine != "auto"
        return
    pi = POSTPROCESSINGS[rule].from_counts(counts, more.get("total")).for_mechanism(noise)
    eta = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(-4.0, 5.0)] * counts.n)], axis=1)
    chance = np.prod(noise.density(eta), axis=1)
    away = pi(counts.values + eta) - found.truth
    if engine == "monte-carlo":  # which sees none of it
        assert np.abs(found.bias - chance @ away).max() < 1e-4
    else:
        np.testing.assert_allclose(found.bias, chance @ away, rtol=1e-6, atol=1e-14 * max(1.0, max(x)))


@pytest.mark.parametrize(
    ("x", "noise", "rule"),
    [
        ([1e12, 1e12], fp.Laplace(1e-6), "simplex"),
        ([93, 93], fp.DiscreteLaplace(1e9), "simplex"),
        ([1e12, 1], fp.Gaussian(0.2), PosThreshold(threshold=Threshold(40.0, 1 + 1e-9))),
        ([1e6, 60, 0, 0, 0, 1e12], fp.Laplace(0.01), SimplexThreshold(1.0, threshold=Threshold(0.3))),
        ([1, 1e6, 1e6, 0, 1, 1e12, 70, 0], fp.Gaussian(0.0014), Simplex(5.0)),
    ],
)
def test_counts_and_noise_far_apart_take_no_time_and_no_memory(x, noise, rule):
    """They took 400 GB, or minutes."""
    for engine in (Exact(), fp.Expansion()):
        began = time.process_time()
        with contextlib.suppress(fp.UnsupportedError, ToleranceError):
            assert np.isfinite(fp.audit(x, noise, rule, engine=engine).bias).all()
        assert time.process_time() - began < 10


def test_a_degenerate_draw_is_one_whose_sum_is_0_too():
    """Noise that leaves 70 zeros alone but for once in 10^86."""
    alone = fp.audit(np.zeros(70), fp.DiscreteGaussian(0.05), "pos")
    assert alone.degenerate == pytest.approx(1.0)


def test_the_sentence_of_a_refusal_is_about_its_interval():
    engine = Exact()
    object.__setattr__(engine, "rtol", 1e-18)  # no rule gets there
    with pytest.raises(ToleranceError, match="is known to") as caught:
        fp.audit([60.0, 4.0, 0.0, 9.0, 4.0, 70.0], fp.Laplace(5.0), "simplex", engine=engine)
    bias, error = caught.value.reached
    slack = np.max(bias + error) - np.min(bias - error) - np.ptp(bias)
    assert f"is known to {slack:.2g} only" in str(caught.value)
