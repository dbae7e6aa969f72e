"""Several engines in one answer: group by group, the narrower of two that agree, and both where they do not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from jsonschema import Draft202012Validator

import fairpost as fp
from fairpost import cancel
from fairpost.accuracy import Accuracy, Estimate
from fairpost.engines.base import Answer, Question, answered
from fairpost.results.documents import schema
from support.commands import call
from support.engines import Fixed

SMALL, BIG = [3, 0, 1, 6, 2, 9, 4, 0, 5, 7, 12, 1, 2, 8, 3], [4000, 5000, 900, 2500]
"""No closed formula and no expansion under noise of scale 3; nobody is ever dropped."""
WEIGHTS = np.append(np.linspace(1.0, 2.0, 15), [1.0, 2.0, 1.0, 1.0])
BOTH = fp.Counts(SMALL + BIG, weights=WEIGHTS, groups=["small"] * 15 + ["big"] * 4)
NOISE = fp.DiscreteLaplace(3.0)


# ---- group by group -------------------------------------------------------------------------------------------------


def test_each_group_is_answered_by_the_first_engine_that_can() -> None:
    both = fp.audit(BOTH, NOISE, "pos-threshold", by_group=True)
    big = fp.audit(fp.Counts(BIG, weights=WEIGHTS[15:]), NOISE, "pos-threshold", engine="exact")
    small = fp.audit(fp.Counts(SMALL, weights=WEIGHTS[:15]), NOISE, "pos-threshold", engine="conditional")
    assert (np.abs(both.bias[15:] - big.bias) <= both.half_width[15:] + big.half_width).all()
    assert (np.abs(both.bias[:15] - small.bias) <= both.half_width[:15] + small.half_width).all()
    assert both.half_width[15:].max() < 1e-6 * big.alpha.value
    assert both.alpha.half_width <= 2e-3 * both.alpha.value
    # together they are known in the weaker sense
    assert both.alpha.kind == both.accuracy.kind == "interval"
    assert both.note is not None
    assert both.note.startswith("small: by conditional means, because ")
    assert both.note.endswith("big: exact; together of the weakest kind, interval")


def test_every_output_copes_with_a_mix(tmp_path) -> None:
    rows = [
        f"{i},{x},{w!r},{g}"
        for i, (x, w, g) in enumerate(zip(BOTH.values.astype(int), BOTH.weights.tolist(), BOTH.groups, strict=True))
    ]
    (tmp_path / "c.csv").write_text("\n".join(["id,count,a,g", *rows]) + "\n")
    words = ["audit", "c.csv", "--weight", "a", "--group", "g", "--by-group", "--mechanism", "discrete-laplace"]
    files = ["--json", "a.json", "--entities", "--csv", "a.csv", "--csv-groups", "g.csv", "--html", "a.html"]
    done = call(*words, "--scale", 3, "--postprocess", "pos-threshold", *files, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "small: by conditional means" in " ".join(done.stdout.split())
    found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert list(Draft202012Validator(schema("audit")).iter_errors(found)) == []
    (one,) = fp.Comparison.from_dict(found)
    again = fp.audit(BOTH, NOISE, "pos-threshold", by_group=True)
    assert (one.alpha, one.note, one.runs) == (again.alpha, again.note, again.runs)
    assert np.array_equal(one.half_width, again.half_width)
    assert "big: exact" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8").count("interval") >= 2
    groups = pl.read_csv(tmp_path / "g.csv")
    assert set(groups["pos_threshold_accuracy"]) == {"bound"}  # the shares of a group add up to 1, by construction
    assert groups["pos_threshold_alpha_accuracy"].to_list() == [g.alpha.kind for g in again.groups]
    assert "interval" in set(groups["pos_threshold_alpha_accuracy"])


def test_the_tolerance_is_of_the_largest_alpha_of_any_group() -> None:
    """The second group has an alpha of 2.5e-45, closed form e^-106 (107 + 2)/4; the first one has an alpha near 1."""
    counts = fp.Counts([0, 3, 9, 53, 22563], groups=list("aaabb"))
    found = fp.audit(counts, fp.Laplace(1.0), "simplex", by_group=True, engine=fp.Exact(rtol=1e-9))
    assert found.alpha.half_width <= 1e-9 * found.alpha.value
    assert found.groups[1].alpha.low <= np.exp(-106.0) * 109 / 4 <= found.groups[1].alpha.high


def test_a_refusal_by_group_names_the_group() -> None:
    counts = fp.Counts([0, 3, 9, 1, 2, 5], groups=["a"] * 3 + ["two\nlines"] * 3)
    engine = fp.Exact()
    object.__setattr__(engine, "rtol", 1e-18)  # no rule gets there
    with pytest.raises(fp.ToleranceError, match=r"\(group two lines\)$|\(group a\)$"):
        fp.audit(counts, fp.Gaussian(3.0), "simplex", by_group=True, engine=engine)


def test_a_mix_that_is_withdrawn_keeps_what_there_is() -> None:
    token = cancel.Token()
    engine = fp.FirstOf((fp.Exact(), fp.MonteCarlo(runs=10**6, progress=lambda done, most: token.cancel(), threads=1)))
    with cancel.by(token), pytest.raises(fp.errors.Cancelled) as caught:
        fp.compare(BOTH, NOISE, ["pos-threshold"], by_group=True, engine=engine)
    (found,) = caught.value.reached
    assert 0 < found.runs < 10**6
    assert found.half_width[15:].max() < 1e-12 < found.half_width[:15].min()


# ---- two answers about one thing --------------------------------------------------------------------------------------


CLIPPED = Question.ask(fp.Counts([0.0, 2.0, 5.0, 30.0]), fp.Laplace(4.0), [fp.rules.Nonnegative()])
EXACT = answered(fp.Exact().evaluate(CLIPPED)[0])


def expanded(bias: np.ndarray, width: float) -> Answer:
    """An expansion that says this, so wide that simulation is asked as well."""
    known = Accuracy("expansion", np.full(4, width))
    return replace(
        EXACT,
        method="expansion",
        bias=bias,
        accuracy=known,
        alpha=Estimate.around(float(np.ptp(bias)), 2 * width, "expansion"),
    )


@pytest.mark.parametrize("runs", [100, 10_000])
def test_of_two_that_agree_the_narrower_is_given(runs: int) -> None:
    width = 0.03 * EXACT.alpha.value
    (found,) = fp.FirstOf((Fixed((expanded(EXACT.bias + width / 2, width),)), fp.MonteCarlo(runs=runs))).evaluate(
        CLIPPED
    )
    (drawn,) = fp.MonteCarlo(runs=runs).evaluate(CLIPPED)
    narrow = drawn.alpha.half_width < 2 * width
    assert narrow == (runs == 10_000)
    assert found.method == ("monte-carlo" if narrow else "expansion")
    assert found.alpha.half_width == pytest.approx(min(drawn.alpha.half_width, 2 * width))
    assert "agrees and knows alpha to" in found.note


def test_alpha_alone_does_not_make_an_answer_the_better_one() -> None:
    """Alpha to 0.2 % beside biases that nobody knows: the simulation, which knows both to some percent, is given."""
    alpha = EXACT.alpha.value
    loose = replace(expanded(EXACT.bias, alpha), alpha=Estimate.around(alpha, 0.002 * alpha, "expansion"))
    (found,) = fp.FirstOf((Fixed((loose,)), fp.MonteCarlo(runs=1000))).evaluate(CLIPPED)
    assert found.method == "monte-carlo"
    assert np.max(found.accuracy.half_width) < 0.5 * alpha


def test_where_two_contradict_each_other_the_intervals_hold_both() -> None:
    wrong = expanded(EXACT.bias * 2, 0.05 * EXACT.alpha.value)
    (drawn,) = fp.MonteCarlo().evaluate(CLIPPED)
    (found,) = fp.FirstOf((Fixed((wrong,)), fp.MonteCarlo())).evaluate(CLIPPED)
    for one in (wrong, drawn):
        assert (
            np.abs(found.bias - one.bias) + one.accuracy.half_width <= found.accuracy.half_width * (1 + 1e-12)
        ).all()
        assert found.alpha.low <= one.alpha.low <= one.alpha.high <= found.alpha.high
    assert found.accuracy.kind == "interval"
    assert found.note.startswith(
        "simulated; expansion and monte-carlo differ by more than their errors: the intervals hold both; "
    )


def test_chance_does_not_part_two_right_answers() -> None:
    """The truth itself against 400 simulations whose intervals are to cover in half of the cases."""
    right = replace(expanded(EXACT.bias, 0.0), alpha=replace(EXACT.alpha, low=0.0, kind="expansion"))
    outside = parted = 0
    for seed in range(400):
        simulation = fp.MonteCarlo(runs=300, seed=seed, confidence=0.5, threads=1)
        (drawn,) = simulation.evaluate(CLIPPED)
        (found,) = fp.FirstOf((Fixed((right,)), simulation)).evaluate(CLIPPED)
        outside += bool((np.abs(drawn.bias - EXACT.bias) > drawn.accuracy.half_width).any())
        parted += "differ by more" in found.note
    assert (outside > 40, parted) == (True, 0)


def test_who_will_answer_is_said_before_the_work() -> None:
    """By group and rule, as the audit then does; nobody at all where an engine was named that cannot."""
    counts = fp.Counts([0, 3, 9, 40, 2, 7], groups=list("aabbbb"))
    noise = fp.DiscreteLaplace(2.0)
    asked = {"by_group": True}
    chosen = fp.method_for(counts, noise, ["simplex", "pos"], **asked)
    assert [(one.rule, one.group) for one in chosen] == [(rule, g) for rule in ("simplex", "pos") for g in "ab"]
    for one in chosen:
        found = fp.audit(counts, noise, one.rule, **asked)
        assert one.method in ("few", found.method)  # closed formulas may fall short of their tolerance in the work
    (own,) = fp.method_for(counts, noise, lambda noisy: noisy / 2)
    assert (own.method, [name for name, _ in own.passed]) == ("monte-carlo", ["exact", "expansion", "conditional"])
    (none,) = fp.method_for(counts, noise, lambda noisy: noisy / 2, engine="exact")
    assert none.method is None
    assert str(none) == "custom: nobody (not exact: the exact engine has no integral for the post-processing 'custom')"


def test_a_tolerance_by_group_is_a_part_of_the_largest_alpha_known_elsewhere() -> None:
    """Who is told that another group has a large alpha is done with the points of a first look, and has wider intervals."""
    counts = fp.Counts([float(k) for k in range(0, 120, 9)], groups=["a", "b"] * 7)
    pi = fp.rules.POSTPROCESSINGS["simplex-threshold"].from_counts(counts, by_group=True)
    question, engine = Question.ask(counts, fp.DiscreteLaplace(8.0), [pi]), fp.Conditional(rtol=3e-4)
    plain, told = (answered(engine.evaluate(one)[0]) for one in (question, replace(question, largest=(1e6,))))
    assert told.drawn is not None
    assert plain.drawn is not None
    assert told.drawn.runs < plain.drawn.runs
    assert np.all(np.abs(told.bias - plain.bias) <= told.accuracy.half_width + plain.accuracy.half_width)
