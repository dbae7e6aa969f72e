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

SMALL, TIES = [0.0, 1.0, 3.0, 6.0], [4.0, 0.0, 4.0]
MIXED = [60.0, 4.0, 0.0, 9.0, 4.0, 70.0]
CASES = {
    "simplex, contours": ("simplex", MIXED, fp.Laplace(5.0), {}, None),
    "simplex, gaussian": ("simplex", MIXED, fp.Gaussian(5.0), {}, None),
    "simplex, small total": ("simplex", SMALL, fp.Laplace(5.0), {"total": 4.0}, None),
    "simplex, three": ("simplex", TIES, fp.Laplace(5.0), {"total": 4.0}, ("simplex.few", "ORDERS", (4, 6))),
    "simplex, lattice": ("simplex", MIXED * 9, fp.DiscreteLaplace(3.0), {}, ("lattice.release", "LEVELS", 2)),
    "simplex-threshold, few": ("simplex-threshold", MIXED, fp.Laplace(5.0), {}, None),
    "simplex-threshold, two": (
        "simplex-threshold",
        [0.0, 4.0],
        fp.Gaussian(5.0),
        {},
        ("threshold.two", "ORDERS", (4, 6)),
    ),
    "simplex-threshold, bell": (
        "simplex-threshold",
        MIXED * 30,
        fp.Laplace(5.0),
        {},
        ("threshold.release", "LEVELS", 2),
    ),
    "simplex-threshold, lattice": (
        "simplex-threshold",
        MIXED * 9,
        fp.DiscreteLaplace(3.0),
        {},
        ("lattice.release", "LEVELS", 2),
    ),
    "pos, two": ("pos", [0.0, 4.0], fp.Laplace(5.0), {}, None),
    "pos, any sign": ("pos", SMALL, fp.Laplace(5.0), {}, None),
    "pos, any sign and ties": ("pos", [2.0, 0.0, 0.0, 2.0, 2.0, 9.0], fp.Laplace(5.0), {}, None),
    "pos, positive": ("pos", MIXED * 20, fp.Gaussian(5.0), {}, None),
    "pos-threshold, two": ("pos-threshold", [0.0, 4.0], fp.Laplace(5.0), {}, None),
    "pos-threshold, lines": ("pos-threshold", SMALL, fp.Laplace(5.0), {}, None),
    "pos-threshold, bell": ("pos-threshold", MIXED * 20, fp.Laplace(5.0), {}, None),
    "baseline": ("baseline", SMALL, fp.Laplace(5.0), {}, None),
}


@pytest.mark.parametrize("unit", [1.0, 7.0], ids=["as it is", "seven times"])
@pytest.mark.parametrize("name", CASES)
def test_what_was_reached_is_the_answer_within_its_own_error(name, unit, monkeypatch) -> None:
    """Against the answer at a tolerance that it reaches, in counts or shares, entity by entity."""
    rule, x, noise, more, coarse = CASES[name]
    if noise.discrete:
        unit = 1.0  # whole numbers have no other unit
    counts, noise = fp.Counts(np.array(x) * unit), noise.scaled(noise.spread * unit)
    more = {k: v * unit for k, v in more.items()}
    known = fp.audit(counts, noise, rule, engine=fp.Exact(rtol=1e-4), **more)
    if coarse is not None:
        place, what, value = coarse
        module = __import__(f"fairpost.engines.exact.{place}", fromlist=[what])
        monkeypatch.setattr(module, what, getattr(module, what)[:value] if isinstance(value, int) else value)
    with pytest.raises(ToleranceError) as refused:
        fp.audit(counts, noise, rule, engine=NEVER, **more)
    bias, error = refused.value.reached
    assert bias.shape == counts.values.shape
    room = error + known.half_width
    assert np.all(np.abs(bias - known.bias) <= room)
    assert np.max(room) < 0.05 * known.alpha.value, "the case says nothing"
    assert f"alpha = {np.ptp(bias):.6g}" in str(refused.value)


def test_the_unfinished_exact_answer_of_auto_is_in_counts() -> None:
    """Nine counts and a small total: refused, kept beside the simulation, and as large as the simulation says."""
    counts, noise = fp.Counts(5.0 * np.arange(9)), fp.Laplace(25.0)
    found = fp.audit(counts, noise, "simplex", total=5.0)
    assert "still better than what came after it" in found.note
    drawn = fp.audit(counts, noise, "simplex", total=5.0, engine="monte-carlo", runs=100_000)
    assert np.all(np.abs(found.bias - drawn.bias) <= found.half_width + drawn.half_width)
    assert found.alpha.half_width < drawn.alpha.half_width


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
