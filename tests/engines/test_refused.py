"""What a refused answer had reached: in the unit of the answer, for every entity, and near enough to be kept beside a simulation."""

import numpy as np
import pytest

import fairpost as fp
from fairpost.accuracy import Accuracy, Estimate
from fairpost.engines.base import Question, Reached, Refusal
from fairpost.errors import ToleranceError
from support.engines import Fixed

NEVER = fp.Exact()
object.__setattr__(NEVER, "rtol", 1e-18)  # no rule gets there, so every one refuses at the end of its road

SMALL, MIXED = [0.0, 1.0, 3.0, 6.0], [60.0, 4.0, 0.0, 9.0, 4.0, 70.0]
CASES = {
    "simplex, Laplace": ("simplex", MIXED, fp.Laplace(5.0), {}),
    "simplex, Gaussian": ("simplex", MIXED, fp.Gaussian(5.0), {}),
    "baseline": ("baseline", SMALL, fp.Laplace(5.0), {}),
}


@pytest.mark.parametrize("unit", [1.0, 7.0], ids=["as it is", "seven times"])
@pytest.mark.parametrize("name", CASES)
def test_what_was_reached_is_the_answer_within_its_own_error(name, unit) -> None:
    """Against the answer at a tolerance that it reaches, in counts or shares, entity by entity."""
    rule, x, noise, more = CASES[name]
    counts, noise = fp.Counts(np.array(x) * unit), noise.scaled(noise.spread * unit)
    more = {k: v * unit for k, v in more.items()}
    known = fp.audit(counts, noise, rule, engine=fp.Exact(rtol=1e-4), **more)
    with pytest.raises(ToleranceError) as refused:
        fp.audit(counts, noise, rule, engine=NEVER, **more)
    bias, error = refused.value.reached
    assert bias.shape == counts.values.shape
    room = error + known.half_width
    assert np.all(np.abs(bias - known.bias) <= room)
    assert np.max(room) < 0.05 * known.alpha.value, "the case says nothing"
    assert f"alpha = {np.ptp(bias):.6g}" in str(refused.value)


def test_a_refused_answer_that_the_simulation_contradicts_is_dropped() -> None:
    """As that one was, once: in units of the noise instead of counts."""
    counts, noise = fp.Counts([0.0, 5.0, 10.0, 15.0]), fp.Laplace(25.0)
    question = Question.ask(counts, noise, [fp.Simplex(10.0)])
    (drawn,) = fp.MonteCarlo(runs=20_000).evaluate(question)
    width = drawn.accuracy.half_width

    def joined(bias):
        known = Accuracy("bound", 0.001 * width)
        ends = (int(np.argmax(bias)), int(np.argmin(bias)))
        reached = Reached("exact", bias, known, Estimate.around(float(np.ptp(bias)), 1e-6), ends)
        first = Fixed((Refusal("simplex: too hard", True, reached),))
        return fp.FirstOf((first, Fixed((drawn,)))).evaluate(question)[0]

    kept, dropped = joined(drawn.bias + 1.9 * width), joined(drawn.bias / 25.0)
    assert kept.method == "exact"
    assert dropped.method == "monte-carlo"
    assert dropped.bias is drawn.bias
    assert dropped.alpha == drawn.alpha
    assert dropped.note == (
        "simulated, because simplex: too hard; what had been reached lies far outside what came after it, and is dropped; "
        + drawn.note
    )
