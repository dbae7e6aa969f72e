"""The walls of the house: one owner for P, one engine protocol, no argument dropped in silence, a seam for backends."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import fairpost as fp
from asking import Fixed
from fairpost import engines, problems, rules
from fairpost.accuracy import KINDS, Accuracy, Estimate, weakest
from fairpost.engines.base import Answer, Question, Reached, Refusal
from fairpost.engines.montecarlo.backends import BACKENDS, Block, backend_of
from fairpost.engines.montecarlo.backends.base import Asked, One
from fairpost.errors import CountsError, ParameterError, ToleranceError
from fairpost.partition import Partition
from fairpost.rules import POSTPROCESSINGS

NOISES = [fp.Laplace(6.0), fp.Gaussian(9.0), fp.DiscreteLaplace(6.0), fp.DiscreteGaussian(9.0)]
WEIGHTED = fp.Counts([3.0, 8.0, 20.0, 55.0], weights=[5, 1, 1, 2], groups=["a", "b", "a", "b"])


# ---- P has one owner ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [fp.Baseline, fp.PoS, rules.PosThreshold])
def test_a_rule_whose_weights_are_not_those_of_the_counts_is_refused(rule: Any) -> None:
    said = r"must share by the weights of the counts, got weights 1 and 1 where the counts have 5 and 1"
    for engine in ("auto", "monte-carlo"):
        with pytest.raises(CountsError, match=said):
            fp.audit(WEIGHTED, fp.Laplace(10.0), rule(), engine=engine)
    with pytest.raises(CountsError, match="positions 0 and 3"):
        fp.audit(WEIGHTED, fp.Laplace(10.0), rule(weights=[5, 1, 1, 2.0001]))
    by_name = fp.audit(WEIGHTED, fp.Laplace(10.0), rule.name, runs=50)
    by_object = fp.audit(WEIGHTED, fp.Laplace(10.0), rule(weights=[10, 2, 2, 4]), runs=50)  # a common factor is none
    assert by_object.bias == pytest.approx(by_name.bias, rel=1e-12, abs=1e-15)
    assert by_object.truth == pytest.approx(np.array([15, 8, 20, 110]) / 153)


def test_the_truth_is_the_definition_everywhere_also_by_group_and_for_empty_groups() -> None:
    counts = fp.Counts([0, 0, 6, 10], weights=[1, 3, 2, 1], groups=["n", "n", "s", "s"])
    whole = problems.Proportional(counts.weights)
    assert whole.truth(counts) == pytest.approx([0, 0, 12 / 22, 10 / 22])
    parts = problems.Proportional(counts.weights, Partition.of(counts.groups))
    assert parts.truth(counts) == pytest.approx([1 / 4, 3 / 4, 12 / 22, 10 / 22])
    assert problems.Release().truth(counts) is counts.values
    assert (whole.shares, problems.Release().shares) == (True, False)
    for name, kind in POSTPROCESSINGS.items():
        pi = kind.from_counts(counts)
        assert pi.problem.shares == (name in ("baseline", "pos", "pos-threshold"))
    with pytest.raises(CountsError, match="one weight per entity: 4 entities, 2 weights"):
        fp.audit(counts, fp.Laplace(1.0), fp.PoS([1, 2]))
    with pytest.raises(CountsError, match="4 entities, 3 in the partition"):
        fp.audit(counts, fp.Laplace(1.0), fp.PoS(counts.weights, Partition.of("abc")))


def test_a_function_says_which_problem_it_answers() -> None:
    def shares(noisy: Any) -> Any:
        return np.maximum(noisy, 0.5) / np.maximum(noisy, 0.5).sum()

    with pytest.raises(ParameterError, match="a function given a budget must say which problem it answers"):
        fp.audit([1, 2, 3], fp.Laplace(1.0), shares, budget=100.0, runs=10)
    with pytest.raises(ParameterError, match="adds up to 1 where the counts add up to 6"):
        fp.audit([1, 2, 3], fp.Laplace(1.0), shares, runs=10)
    with pytest.raises(ParameterError, match="`problem` must be a problem"):
        fp.Custom(shares, problem="shares")  # type: ignore[arg-type]
    stated = fp.Custom(shares, problem=fp.Proportional())
    result = fp.audit([1, 2, 3], fp.Laplace(1.0), stated, budget=100.0, runs=50)
    assert result.truth == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert result.money == pytest.approx(result.bias * 100)
    as_counts = fp.audit([1, 2, 3], fp.Laplace(1.0), fp.Custom(shares, problem=problems.Release()), runs=50)
    assert as_counts.truth.tolist() == [1, 2, 3]
    with pytest.raises(CountsError, match="must share by the weights"):
        fp.audit(WEIGHTED, fp.Laplace(1.0), stated, runs=10)
    plain = fp.audit([1, 2, 3], fp.Laplace(1.0), lambda noisy: np.maximum(noisy, 0), runs=50)
    assert plain.task == "release"


@pytest.mark.parametrize(("off", "refused"), [(0.8e-9, True), (-0.8e-9, True), (1.5e-9, False), (-1.5e-9, False)])
def test_how_near_to_1_a_sum_is_taken_for_shares(off: float, refused: bool) -> None:
    """By 1e-9, whoever may have rounded it; a function that comes no nearer makes counts."""
    near = fp.Custom(lambda noisy: np.full(2, (1 + off) / 2))
    with pytest.raises(ParameterError, match="adds up to 1") if refused else contextlib.nullcontext():
        near.check(fp.Counts([4, 9]))
    near.check(fp.Counts([0.5, 0.5 + 0.8e-9]))  # counts that add up to 1 themselves


# ---- one protocol -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POSTPROCESSINGS)
@pytest.mark.parametrize("by_group", [False, True])
def test_supports_is_a_dry_run_of_the_evaluation(name: str, by_group: bool) -> None:
    """What is refused before the work is what `supports` says, word for word; the rest is tried (little noise: it takes less)."""
    counts = fp.Counts([0, 3, 9, 40], groups=list("abab")) if by_group else fp.Counts([0, 3, 9, 40, 41, 90])
    for noise in (fp.Laplace(2.0), fp.Gaussian(3.0), fp.DiscreteLaplace(2.0), fp.DiscreteGaussian(3.0)):
        question = Question.ask(counts, noise, [POSTPROCESSINGS[name].from_counts(counts, by_group=by_group)])
        for engine in (fp.Exact(rtol=0.5), fp.Expansion()):
            said, (found,) = engine.supports(question), engine.evaluate(question)
            if said is not None:
                assert isinstance(found, Refusal)
                assert not found.tried
                assert found.reason == said
            else:
                assert isinstance(found, Answer) or found.tried


def answer(width: float, method: str = "monte-carlo", value: float = 1.0) -> Answer:
    zero, known = np.zeros(2), Accuracy("interval", np.full(2, width / 2))
    ends = np.array([value, 0.0])
    return Answer(
        method,
        ends,
        known,
        zero + 7,
        known,
        zero,
        known,
        Estimate.around(value, width, "interval"),
        (0, 1),
        note="seen",
    )


def refusal(width: float | None, text: str = "too hard", tried: bool = True) -> Refusal:
    if width is None:
        return Refusal(text, tried)
    known = Accuracy("bound", np.full(2, width / 2))
    return Refusal(text, tried, Reached("exact", np.array([1.05, 0.0]), known, Estimate.around(1.05, width), (1, 0)))


def test_the_better_of_a_refused_answer_and_the_next_is_kept_and_said() -> None:
    question = Question.ask(fp.Counts([1, 2]), fp.Laplace(1.0), [rules.Unchanged()])
    (worse,) = fp.FirstOf((Fixed((refusal(0.5),)), Fixed((answer(0.1),)))).evaluate(question)
    assert (worse.method, worse.alpha.value, worse.note) == ("monte-carlo", 1.0, "simulated, because too hard; seen")
    (better,) = fp.FirstOf((Fixed((refusal(0.01),)), Fixed((answer(0.1),)))).evaluate(question)
    assert (better.method, better.alpha.value, better.accuracy.kind, better.pair) == ("exact", 1.05, "bound", (1, 0))
    assert better.bias.tolist() == [1.05, 0.0]
    assert better.mse.tolist() == [7.0, 7.0]  # what was not reached comes from the next engine
    assert better.note == (
        "too hard; that is still better than what came after it, so the biases stand, and the other moments are simulated"
    )
    (without,) = fp.FirstOf((Fixed((refusal(None),)), Fixed((answer(0.1),)))).evaluate(question)
    assert without.method == "monte-carlo"


def test_engines_are_asked_in_turn_and_only_for_what_is_open() -> None:
    two = Question.ask(fp.Counts([1, 2]), fp.Laplace(1.0), [rules.Unchanged(), rules.Nonnegative()])
    first, second, third = Fixed((answer(1, "exact"), refusal(None))), Fixed((answer(2, "expansion"),)), Fixed(())
    found = fp.FirstOf((first, second, third)).evaluate(two)
    assert [a.method for a in found] == ["exact", "expansion"]
    assert (first.asked, second.asked, third.asked) == ([2], [1], [])
    assert found[1].note == "by expansion, because too hard; seen"
    hard = refusal(None, "no integral", False), refusal(0.3, "not reached")
    (last,) = fp.FirstOf((Fixed(hard[:1]), Fixed(hard[1:]))).evaluate(two.only([0]))
    assert (last.reason, last.reached is not None) == (
        "not reached",
        True,
    )  # what was tried says more than what was not
    (kept,) = fp.FirstOf((Fixed(hard[1:]), Fixed(hard[:1]))).evaluate(two.only([0]))
    assert (kept.reason, kept.reached is not None) == ("not reached", True)


def test_a_refusal_at_nine_digits_is_better_than_a_simulation_of_nothing() -> None:
    """Two counts far from each other at epsilon 1: nothing is ever clipped in a run, and alpha is 2.5e-45.

    With d = eta_1 - eta_2 of density (1 + |d|) e^{-|d|} / 4 and y_1 = 53 + d/2 the bias of the first is
    E[(y_1)_-] = int_0^inf (u/2) (107 + u) e^{-106 - u} / 4 du = e^-106 (107 + 2) / 8.
    """
    counts, bias = fp.Counts([53, 22563]), np.exp(-106.0) * 109 / 8
    with pytest.raises(ToleranceError, match="misses the relative tolerance 1e-12") as caught:
        fp.audit(counts, fp.Laplace(1.0), "simplex", engine=fp.Exact(rtol=1e-12))
    assert caught.value.reached is not None
    result = fp.audit(counts, fp.Laplace(1.0), "simplex", rtol=1e-12, runs=1000)
    assert (result.method, result.accuracy.kind, result.mse_accuracy.kind) == ("exact", "bound", "interval")
    assert (
        np.abs(result.bias - [bias, -bias]).max() <= result.half_width.max() <= 1e-4 * bias
    )  # ten times the last refinement's change


def test_every_number_has_an_accuracy_of_its_kind() -> None:
    counts = fp.Counts(np.arange(60.0) * 3)
    kinds = {
        "exact": (fp.audit(counts, fp.Laplace(4.0), "pos", engine="exact"), "bound"),
        "expansion": (fp.audit(counts, fp.Laplace(4.0), "pos-threshold", engine="expansion"), "expansion"),
        "monte-carlo": (
            fp.audit(counts, fp.Laplace(4.0), "pos", engine="monte-carlo", runs=4000, seed=1, rtol=None),
            "interval",
        ),
    }
    for method, (result, kind) in kinds.items():
        assert result.method == method
        assert {result.accuracy.kind, result.mse_accuracy.kind, result.zero_accuracy.kind, result.alpha.kind} == {kind}
        assert result.cost_of_privacy.share.kind == kind
        assert result.largest_loss[0].kind == kind
        for known in (result.accuracy, result.mse_accuracy, result.zero_accuracy):
            assert known.half_width.shape == (60,)
            assert (known.half_width >= 0).all()
    exact, drawn = kinds["exact"][0], kinds["monte-carlo"][0]
    # 95 % intervals for all entities together, one seed: they hold the exact values.
    assert (np.abs(drawn.mse - exact.mse) <= drawn.mse_accuracy.half_width + exact.mse_accuracy.half_width).all()
    assert (np.abs(drawn.zero - exact.zero) <= drawn.zero_accuracy.half_width + exact.zero_accuracy.half_width).all()
    assert drawn.zero_accuracy.half_width.max() < 0.06
    assert weakest("bound", "interval", "expansion") == "interval"
    assert KINDS == ("bound", "estimate", "expansion", "interval")
    with pytest.raises(ParameterError, match="one of bound, estimate, expansion, interval, got 'guess'"):
        Estimate(1.0, 0.0, 2.0, "guess")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="must contain its value"):
        Estimate(3.0, 0.0, 2.0)


def test_the_interval_of_a_mean_squared_error_comes_from_its_blocks() -> None:
    """By definition: the mean squared error of each block, Student's t over blocks, and a run that moves e by a deviation, not seen."""
    from scipy import stats

    counts, noise, runs, block = fp.Counts([0.0, 2.0, 30.0]), fp.Laplace(5.0), 400, 40
    result = fp.audit(counts, noise, "nonnegative", engine=fp.MonteCarlo(runs, seed=3, block=block, confidence=0.9))
    X = counts.values + np.stack([noise.sample(3, fp.Stream(3, r)) for r in range(runs)])
    each = ((np.maximum(X, 0) - counts.values) ** 2).reshape(runs // block, block, 3).mean(axis=1)
    t = stats.t.ppf(1 - 0.1 / 3 / 2, runs // block - 1)
    s, mse = noise.deviation, each.mean(axis=0)
    unseen = np.log(2 * 3 / 0.1) * (s**2 + 2 * s * np.sqrt(mse)) / runs
    assert result.mse == pytest.approx(mse, rel=1e-12)
    assert result.mse_accuracy.half_width == pytest.approx(
        t * each.std(axis=0, ddof=1) / np.sqrt(runs // block) + unseen, rel=1e-9
    )
    one = fp.audit(counts, noise, "nonnegative", engine=fp.MonteCarlo(30, block=40))
    assert np.isinf(one.mse_accuracy.half_width).all()  # one block says nothing about its own scatter
    assert one.to_dict(entities=True)["entities"][0]["mean_squared_error_half_width"] is None


# ---- no silent argument -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(engine=fp.MonteCarlo(runs=100), runs=5), "`runs` is a setting of an engine by name"),
        (dict(engine=fp.Exact(), rtol=1e-3), "`rtol` is a setting of an engine by name"),
        (dict(engine="exact", runs=5), "`runs` is no setting of the engine 'exact'"),
        (dict(engine="expansion", rtol=1e-3), "`rtol` is no setting of the engine 'expansion'"),
        (dict(engine="monte-carlo", speed=3), "`speed` is no setting of the engine 'monte-carlo'"),
        (dict(engine="magic"), "`engine` must be one of auto, exact, expansion, monte-carlo"),
        (dict(total=5.0), "`total` is for post-processings that keep one, got baseline"),
    ],
)
def test_a_setting_that_nobody_would_look_at_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        fp.audit([1, 2], fp.Laplace(1.0), "baseline", **given)


def test_an_object_has_its_own_total_and_groups() -> None:
    counts = fp.Counts([1, 2], groups=["a", "b"])
    for given, word in ((dict(by_group=True), "by_group"), (dict(total=3.0), "total")):
        with pytest.raises(ParameterError, match=f"`{word}` is for a post-processing chosen by name"):
            fp.audit(counts, fp.Laplace(1.0), fp.Simplex(3.0), **given)
    with pytest.raises(ParameterError, match="`budget` is for allocations, got simplex"):
        fp.audit(counts, fp.Laplace(1.0), "simplex", budget=5.0)
    mixed = fp.compare(counts, fp.Laplace(1.0), ["nonnegative", "simplex", "pos"], total=4.0, budget=5.0)
    assert [r.money is not None for r in mixed] == [False, False, True]
    assert mixed[1].bias.sum() == pytest.approx(1.0)


def test_numbers_alone_are_counts() -> None:
    for given in ([1, 2, 30], (1, 2, 30), np.array([1, 2, 30])):
        assert (
            fp.audit(given, fp.Laplace(2.0), "simplex").alpha
            == fp.audit(fp.Counts([1, 2, 30]), fp.Laplace(2.0), "simplex").alpha
        )
    with pytest.raises(CountsError, match="at least 0, got -1"):
        fp.audit([-1, 2], fp.Laplace(2.0), "simplex")


# ---- the seam -----------------------------------------------------------------------------------------------------


def test_a_backend_is_a_pure_function_of_specification_seed_and_block() -> None:
    counts, noise = fp.Counts([0.0, 4.0, 9.0, 60.0]), fp.Laplace(5.0)
    pis = [fp.PoS(), rules.Nonnegative(), rules.SimplexThreshold(73.0).for_mechanism(noise)]
    asked = Asked(counts, noise, tuple(One(pi, pi.problem.truth(counts), pi.control(counts, noise)) for pi in pis))
    backend = backend_of("cpu")
    order = backend.order(asked)
    assert sorted(order) == [0, 1, 2]
    asked = Asked(counts, noise, tuple(asked.ones[i] for i in order))
    spec = backend.specify(asked)
    a, b, other = (backend.run(spec, seed, [Block(64, 32)])[0] for seed in (5, 5, 6))
    assert a.sums.tobytes() == b.sums.tobytes()
    assert a.sums.tobytes() != other.sums.tobytes()
    assert a.runs == 32
    with pytest.raises(ParameterError, match="`backend` must be one of cpu"):
        fp.audit(counts, noise, "pos", engine=fp.MonteCarlo(10, backend="abacus"))
    assert list(BACKENDS) == ["cpu", "gpu"]
    assert set(engines.NAMES) == {"auto", "exact", "expansion", "monte-carlo"}


def test_the_first_that_covers_it_is_enough() -> None:
    """`auto` tries what any of its engines covers; where none does it gives the last one's reason."""
    weighted = fp.Counts(range(9), weights=range(1, 10))
    question = Question.ask(weighted, fp.DiscreteLaplace(2.0), [POSTPROCESSINGS["pos"].from_counts(weighted)])
    exact, expansion, runs = fp.Exact(), fp.Expansion(), fp.MonteCarlo(runs=10)
    assert "continuous noise only" in str(exact.supports(question))
    assert runs.supports(question) is None
    assert fp.FirstOf((exact, runs)).supports(question) is None
    assert fp.FirstOf((exact, expansion)).supports(question) == expansion.supports(question)
    assert expansion.supports(question) not in (None, exact.supports(question))
