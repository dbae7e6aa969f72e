"""One engine protocol: dry runs, the order of engines, what a refusal leaves, and the seam for backends."""

from __future__ import annotations

import numpy as np
import pytest

import fairpost as fp
from fairpost import engines, rules
from fairpost.accuracy import Accuracy, Estimate
from fairpost.engines.base import Answer, Question, Reached, Refusal
from fairpost.engines.montecarlo.backends import BACKENDS, Block, backend_of
from fairpost.engines.montecarlo.backends.base import Asked, One
from fairpost.errors import ParameterError
from fairpost.rules import POSTPROCESSINGS
from support.engines import Fixed

NOISES = [fp.Laplace(6.0), fp.Gaussian(9.0), fp.DiscreteLaplace(6.0), fp.DiscreteGaussian(9.0)]


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


def test_an_alpha_far_below_the_noise_has_a_formula() -> None:
    """Two counts far from each other at epsilon 1: nothing is ever clipped in a run, and alpha is 2.5e-45.

    With d = eta_1 - eta_2 of density (1 + |d|) e^{-|d|} / 4 and y_1 = 53 + d/2 the bias of the first is
    E[(y_1)_-] = int_0^inf (u/2) (107 + u) e^{-106 - u} / 4 du = e^-106 (107 + 2) / 8.
    """
    counts, bias = fp.Counts([53, 22563]), np.exp(-106.0) * 109 / 8
    result = fp.audit(counts, fp.Laplace(1.0), "simplex", runs=1000)
    assert (result.method, result.accuracy.kind) == ("exact", "bound")
    assert np.abs(result.bias - [bias, -bias]).max() <= result.half_width.max() <= 1e-6 * bias


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
    assert set(engines.NAMES) == {"auto", "exact", "expansion", "conditional", "monte-carlo"}


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
