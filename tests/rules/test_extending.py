"""A rule of ones own, from outside the package: a subclass with `name`, `problem` and `_apply`, or a plain function."""

import numpy as np
import pytest

import fairpost as fp
from fairpost.problems import Problem, Release
from fairpost.rules import Outcome, PostProcessing

X = fp.Counts([0.5, 3.0, 12.0, 90.0], ids=["a", "b", "c", "d"])


class Suppress(PostProcessing):
    """Counts below a floor are not published."""

    name = "suppress"
    problem: Problem = Release()
    floor = 2.0

    def _apply(self, rows):
        return Outcome(np.where(rows < self.floor, 0.0, rows), 0)


def suppressed_bias(x, b, floor=2.0):
    """-E[x + eta; x + eta < floor] for Laplace noise: -(x P(eta < c) + E[eta; eta < c]), c = floor - x."""
    c = floor - x
    tail = np.exp(-np.abs(c) / b) / 2
    return -(x * np.where(c < 0, tail, 1 - tail) - tail * (b + np.abs(c)))


@pytest.mark.parametrize(
    "rule", [Suppress(), lambda noisy: np.where(noisy < 2.0, 0.0, noisy)], ids=["subclass", "function"]
)
def test_a_rule_is_simulated_and_compared(rule):
    found = fp.audit(X, fp.Laplace(3.0), rule, runs=20_000, confidence=0.9999)
    assert (found.method, found.task) == ("monte-carlo", "release")
    assert (np.abs(found.bias - suppressed_bias(X.values, 3.0)) <= found.half_width + 1e-12).all()
    both = fp.compare(X, fp.Laplace(3.0), [rule, "simplex"], runs=2000)
    assert [r.method for r in both] == ["monte-carlo", "exact"]
    with pytest.raises(fp.UnsupportedError, match=f"no integral for the post-processing '{both[0].postprocess}'"):
        fp.audit(X, fp.Laplace(3.0), rule, engine="exact")


def test_a_rule_that_counts_do_not_make_says_so():
    for kind in (Suppress, fp.Custom):
        with pytest.raises(
            fp.UnsupportedError, match=f"{kind.__name__} is not built from counts alone; give the object"
        ):
            kind.from_counts(fp.Counts([1, 2]), 3.0, by_group=True)
