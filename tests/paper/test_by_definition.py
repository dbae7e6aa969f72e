"""The numbers of the paper's reproduction, one by one: each recomputed here by other means, and each statement made to fail.

Rules, noise and the exact engine have tests of their own; here they are inputs. A demonstration that is handed a broken rule,
or a result made by hand, must say the numbers that follow from it, and that it does not hold.
"""

import json
import math
import sys
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import fairpost as fp
from fairpost.accuracy import Estimate
from fairpost.noise import Stream
from fairpost.paper import districts, examples, figures, folder, geometry, hawaii, published, table
from fairpost.paper import page as pages
from fairpost.paper import theorems_allocation as allocation
from fairpost.paper import theorems_appendix as appendix
from fairpost.paper import theorems_release as release
from fairpost.paper.demonstration import Demonstration, Number, rounding, vector
from fairpost.paper.published import Comparison, Computed, Published
from fairpost.paper.recipe import Recipe
from fairpost.paper.table import Table, half_width, show
from fairpost.paper.theorems import STATEMENTS, theorems
from support.results_by_hand import BASELINE, IDS, POS, SIMPLEX, simulated
from support.rules import projected

main = sys.modules["fairpost.paper.reproduce"]
EPS = 2.0**-52
X5 = np.array([1.0, 2.0, 5.0, 12.0, 30.0])
X7 = np.array([0.0, 1.0, 3.0, 8.0, 20.0, 45.0, 120.0])
W7 = np.array([2.0, 1.0, 1.5, 1.0, 2.0, 1.0, 1.2])
LAPLACE, GAUSSIAN = fp.Laplace(scale=3.0), fp.Gaussian(sigma=4.0)


def draw(x, noise, run=0):
    return x + noise.sample(x.size, Stream(1, run))


def size(*arrays):
    """64 units in the last place of 1 and of all these numbers."""
    return 64 * EPS * (1 + sum(np.abs(a).sum() for a in arrays))


def onto_total(X, total):
    return X + (total - X.sum()) / X.size


def onto_simplex(X, total):
    return projected(X[None], total)[0]


def shift(X, total):
    """T: how much further than onto the total a positive entry is lowered."""
    most = int(np.argmax(X))
    return float(onto_total(X, total)[most] - onto_simplex(X, total)[most])


def shares(X):
    """Of seven districts: noisy shares, the nearest allocation, and that of clipping first."""
    target = W7 * X / np.sum(W7 * X)
    kept = np.maximum(W7 * X, 0.0)
    return target, onto_simplex(target, 1.0), kept / kept.sum()


def near(value, wanted):
    """Equal to nine digits; 0 to 13 places."""
    a, b = np.atleast_1d(value), np.atleast_1d(wanted)
    assert a.shape == b.shape
    assert (np.abs(a - b) <= 1e-9 * np.abs(b) + 1e-13 * (b == 0)).all(), (value, wanted)


def says(d, *wanted):
    """Every number of a demonstration: label, value and error, in this order and no other."""
    assert [n.label for n in d.numbers] == [label for label, _, _ in wanted]
    for n, (_, value, error) in zip(d.numbers, wanted, strict=True):
        assert isinstance(n.value, tuple) == isinstance(value, tuple), n.label
        assert isinstance(n.value if isinstance(n.value, float) else n.value[0], float), n.label
        near(n.value, value)
        assert (n.error is None) == (error is None), n.label
        if error is not None:
            near(n.error, error)


class Rule:
    """In the place of a rule of the package: what it does, and its T."""

    def __init__(self, call, T=None):
        self.call, self.T = call, T

    def __call__(self, X):
        return self.call(X)


def result(bias, half_width=0.0, **given):
    """What an audit has to say, by hand."""
    bias = np.asarray(bias, float)
    return SimpleNamespace(bias=bias, half_width=np.broadcast_to(half_width, bias.shape), **given)


# -- words --------------------------------------------------------------------------------------------------------------

HERE = "Counts 1, 2, 5, 12, 30 with C = 50; Laplace noise of scale 3 and Gaussian noise of sigma 4"
SEVEN = "Seven districts with weights; one draw of Laplace noise of scale 6 in which shares are negative"
TWO = "Counts 1, 2, 5, 12, 30 with two constraints: the total, and the sum of the first two"
BEFORE = "If x_i <= x_j and y_i <= y_j, the projection is at least as likely"
AFTER = "nine points y, entries 1 and 3 exchanged; densities by integration."
WORDS = {
    release.lemma1: (
        "Lemma 1",
        "The projection onto a total, in closed form",
        "The nearest vector with sum C adds the same number",
        "One Laplace draw on counts 1, 2, 5, 12, 30; compared with least squares on the constraint.",
        "",
    ),
    release.lemma2: (
        "Lemma 2",
        "One number T links the two projections",
        "pi_S+(X) is the positive part of pi_S(X) - T",
        "One Laplace draw on counts 1, 2, 5, 12, 30 in which something is clipped.",
        "The printed proof has the sign of (C - sum X)/n turned round",
    ),
    release.lemma3: (
        "Lemma 3",
        "A bias difference lies between two bounds",
        "For x_i <= x_j the projection favours i over j by at least",
        HERE + ", all ten pairs, by the exact engine.",
        "",
    ),
    release.proposition1: (
        "Proposition 1",
        "T is at most the sum of the negative parts",
        "The threshold T never exceeds what pi_S(X) has below 0",
        "2,000 Laplace draws on counts 1, 2, 5, 12, 30.",
        "Where k entries stay positive",
    ),
    release.lemma4: (
        "Lemma 4",
        "A bias difference is at most the difference of the counts",
        "However strong the noise, for x_i <= x_j",
        "Counts 1, 2, 5, 12, 30, so x_n - x_1 = 29; Gaussian noise of sigma 4 and 400.",
        "Under overwhelming noise everybody expects C/n",
    ),
    release.theorem_1: (
        "Theorem 1",
        "Two bounds on the unfairness of the projection",
        "alpha of pi_S+ is at least the difference of the clipping biases",
        HERE + ".",
        "",
    ),
    release.proposition_2: (
        "Proposition 2",
        "Under Gaussian noise the lower bound is one integral",
        "The key component of Theorem 1 is the integral of Phi(a t)",
        "Counts 1, 2, 5, 12, 30; sigma = 4. The package's closed form against adaptive quadrature of the integral.",
        "The printed proof places the mean value x_c",
    ),
    allocation.theorem2: (
        "Theorem 2",
        "PoS is the fairest allocation for each draw",
        "Among all allocations, the projection of the noisy shares",
        SEVEN
        + "; the program solved by linear programming, and the set of all its minimisers searched entry by entry.",
        "The printed proof shows that nothing is better",
    ),
    allocation.proposition3: (
        "Proposition 3",
        "The cost of privacy is half the l1 norm of the bias",
        "Where shares always sum to 1, gains and losses cancel",
        "Seven districts with weights, Laplace noise of scale 6, budget 1; biases by the exact engine.",
        "",
    ),
    allocation.theorem3: (
        "Theorem 3",
        "PoS and BL both minimise the proxy of the cost of privacy",
        "For each draw PoS is a nearest allocation to P^F(X)",
        SEVEN + ".",
        "There are many minimisers",
    ),
    appendix.lemma5: (
        "Lemma 5",
        "The projection onto linear constraints, in closed form",
        "For any full-rank A with A x = b the nearest v",
        TWO + "; one Laplace draw; the package's solver against the formula.",
        "",
    ),
    appendix.lemma6: (
        "Lemma 6",
        "Who is projected onto y",
        "The points that are projected onto y are y plus the row space",
        TWO + ". A point y of the set, moved along the row space, and once more off it.",
        "",
    ),
    appendix.corollary1: (
        "Corollary 1",
        "For a total, the same number added to every entry",
        "pi_S(X) = y just where X is y plus one number k",
        "y = (1, 2, 5, 12, 30) and k = -20, 0.5, 300.",
        "",
    ),
    appendix.lemma7: (
        "Lemma 7",
        "First the equalities, then all constraints: the same",
        "Projecting onto A v = b, v >= 0 gives the same",
        TWO + "; one Laplace draw.",
        "",
    ),
    appendix.lemma8: (
        "Lemma 8",
        "Swapping two entries commutes with projecting",
        "Exchanging two noisy counts exchanges the two outputs",
        "One Laplace draw on counts 1, 2, 5, 12, 30; the first and the fourth entry exchanged.",
        "",
    ),
    appendix.lemma9: (
        "Lemma 9",
        "The density of the projection under Gaussian noise",
        "On a set of dimension n' the density of the projection at y",
        "x = (1, 2, 6), y = (2, 0.5, 6.5), sigma = 2, n' = 2; against the joint density integrated along y + k 1.",
        "The formula as printed has no sigma",
    ),
    appendix.corollary2: (
        "Corollary 2",
        "Under Gaussian noise the right order is the likelier",
        BEFORE,
        "x = (1, 2, 6), gaussian noise of sigma 2, " + AFTER,
        "The ratio is exp((x_j - x_i)(y_j - y_i)/sigma^2).",
    ),
    appendix.lemma10: (
        "Lemma 10",
        "Under Laplace noise too",
        BEFORE,
        "x = (1, 2, 6), laplace noise of scale 2, " + AFTER,
        "The printed proof uses lambda as a rate",
    ),
    appendix.proposition4: (
        "Proposition 4",
        "What a further shift takes from an entry",
        "d(y, t) = (y - t)_+ - (y)_+ never rises in y",
        "y from -5 to 10 in 300 steps; t = 0, 1, 4.",
        "The print says decreasing",
    ),
    examples.centroid: (
        "Example 1",
        "Centroid",
        "Where all true counts are equal, the projection treats everybody alike",
        "Five counts of 10; Laplace noise of scale 3 and Gaussian noise of sigma 4.",
        "Equal counts share one evaluation",
    ),
    examples.non_centroid: (
        "Example 2",
        "Non-centroid",
        "Where the true counts are not all equal the projection is unfair",
        "Counts 1, 2, 5, 12, 30; Laplace noise of scale 3 and Gaussian noise of sigma 4.",
        "",
    ),
}


def area(make):
    return {release: "release", allocation: "allocation", appendix: "appendix"}.get(
        sys.modules[make.__module__], "example"
    )


@pytest.mark.parametrize("make", WORDS, ids=lambda make: f"{area(make)}-{make.__name__}")
def test_words_stand_in_their_own_field(make):
    d, (name, title, statement, setting, remark) = make(), WORDS[make]
    assert (d.name, d.title, d.setting) == (name, title, setting)
    assert d.statement.startswith(statement)
    assert d.remark.startswith(remark)
    assert (d.remark == "") == (remark == "")
    assert d.holds is True or d.holds is np.True_
    assert isinstance(d.numbers, tuple)


def test_statements_of_release_allocation_and_appendix_are_in_the_order_of_the_paper():
    assert list(STATEMENTS) == [make for make in WORDS if area(make) != "example"]
    assert STATEMENTS[:7] == release.RELEASE
    assert STATEMENTS[7:10] == allocation.ALLOCATION
    assert STATEMENTS[10:] == appendix.APPENDIX


def test_every_statement_makes_the_same_step(monkeypatch):
    place = sys.modules[theorems.__module__]
    monkeypatch.setattr(place, "STATEMENTS", (lambda: "a", lambda: "b", lambda: "c", lambda: "d"))
    seen = []
    assert theorems(seen.append) == ("a", "b", "c", "d")
    assert seen == [0.25, 0.5, 0.75, 1.0]


def test_a_number_says_its_error():
    assert Number("a", 1 / 3) == Number("a", 1 / 3, None)
    assert str(Number("a", 1 / 3)) == "0.333333"
    assert str(Number("a", (1 / 3, 2e-9), 2.34e-5)) == "(0.333333, 2e-09) ± 2e-05"
    assert str(Number("a", 12345678.0, 0.0)) == "1.23457e+07 ± 0"
    assert Demonstration("n", "t", "s", "c", (), True).remark == ""


def test_a_vector_has_no_minus_0():
    found = vector(np.array([-0.0, -1.5, 2.0]))
    assert found == (0.0, -1.5, 2.0)
    assert math.copysign(1.0, found[0]) == 1.0
    assert all(type(v) is float for v in found)


def test_rounding_is_64_units_of_the_sizes():
    assert rounding() == 64 * EPS
    assert rounding(np.array([1.0, -3.0]), np.array([4.0])) == 64 * EPS * 9


# -- section 6: release -------------------------------------------------------------------------------------------------


def test_release_lemma_1_numbers():
    X = draw(X5, LAPLACE)
    slack = size(X, X5)
    says(
        release.lemma1(),
        ("pi_S(X)", tuple(onto_total(X, 50.0)), slack),
        ("largest gap to least squares", 0.0, slack),
        ("largest gap to x + eta - mean(eta)", 0.0, slack),
    )


def test_release_lemma_1_can_fail(monkeypatch):
    off = np.array([0.125, -0.5, 0.25, 0.0, 0.375])
    X = X5 + np.array([1.0, -1.0, 2.0, -2.0, 0.0])
    monkeypatch.setattr(release, "noisy", lambda counts, noise: X)
    monkeypatch.setattr(release, "Sum", lambda total: lambda given: given + (total - 50.0) / 5 + off)
    d = release.lemma1()
    assert not d.holds
    slack = size(X, X5)
    says(
        d,
        ("pi_S(X)", tuple(X + off), slack),
        ("largest gap to least squares", 0.5, slack),
        ("largest gap to x + eta - mean(eta)", 0.5, slack),
    )
    for most, holds in ((0.5, True), (0.4999, False)):  # a gap as large as the slack is none
        monkeypatch.setattr(release, "rounding", lambda *arrays, most=most: most)
        assert release.lemma1().holds == holds
    off *= 0
    assert release.lemma1().holds
    monkeypatch.setattr(release, "TOTAL", 55.0)  # least squares agree, the true total does not
    assert release.lemma1().numbers[1].value == 0.0
    assert release.lemma1().numbers[2].value == 1.0
    assert not release.lemma1().holds
    monkeypatch.setattr(release, "TOTAL", 50.0)
    monkeypatch.setattr(np.linalg, "lstsq", lambda a, b, rcond: (np.array([0.0, 0.0, 3.0, 0.0, 0.0]), None))
    assert release.lemma1().numbers[1].value == 3.0
    assert release.lemma1().numbers[2].value == 0.0
    assert not release.lemma1().holds


def risky():
    return next(X for X in (draw(X5, LAPLACE, run) for run in range(50)) if shift(X, 50.0) > 1e-9)


def test_release_lemma_2_numbers():
    X = risky()
    y, T, slack = onto_total(X, 50.0), shift(X, 50.0), size(X)
    sums = tuple(float(np.sum(y[y > t] - t)) for t in (0.9 * T, T, 1.1 * T))
    assert sums[1] == pytest.approx(50.0)
    says(
        release.lemma2(),
        ("pi_S(X)", tuple(y), slack),
        ("pi_S+(X)", tuple(onto_simplex(X, 50.0)), slack),
        ("T", T, slack),
        ("sum of positive parts at 0.9 T, T, 1.1 T", sums, slack),
    )


def test_release_lemma_2_can_fail(monkeypatch):
    X = risky()
    y = onto_total(X, 50.0)

    monkeypatch.setattr(release, "_risky", lambda: X)
    for T, off, most, holds in (
        (0.25, 0.0, None, True),
        (0.25, 0.01, None, False),  # another projection
        (0.25, 0.01, 0.02, True),
        (0.25, 0.03, 0.02, False),
        (0.0, 0.0, None, False),  # no T is the only one
        (-0.25, 0.0, None, False),
        (4.1, 0.0, 1.0, True),  # the sums fall by 1.64, then by 1.19
        (4.1, 0.0, 1.4, False),
        (4.1, 0.0, 1.8, False),
    ):
        away = np.array([0.0, 0.0, -off, 0.0, off / 2])
        broken = Rule(lambda X, T=T, away=away: np.maximum(y - T, 0.0) + away, lambda X, T=T: np.array([T]))
        monkeypatch.setattr(release, "Simplex", lambda total, broken=broken: broken)
        monkeypatch.setattr(release, "rounding", rounding if most is None else lambda *arrays, most=most: most)
        assert bool(release.lemma2().holds) == holds, (T, off, most)


def clipping(noise):
    """E[(pi_S(X)_i)_-]: the bias of clipping alone."""
    found = fp.audit(fp.Counts(X5), noise, "sum-clipped", engine="exact").bias
    if noise is GAUSSIAN:
        s = 4.0 * np.sqrt(4 / 5)
        closed = s * np.exp(-((X5 / s) ** 2) / 2) / np.sqrt(2 * np.pi) - X5 * ndtr(-X5 / s)
        assert found == pytest.approx(closed, rel=1e-9, abs=1e-14)
    return found


def test_release_lemma_3_numbers():
    wanted = []
    for noise in (LAPLACE, GAUSSIAN):
        r, part = fp.audit(fp.Counts(X5), noise, "simplex", engine="exact"), clipping(noise)
        margins = [r.bias[i] - r.bias[j] - (part[i] - part[j]) for j in range(5) for i in range(j)]
        T, error = r.expected_T.value, 2 * r.half_width.max() + 1e-11
        wanted += [
            (f"{noise.name}: smallest margin above the lower side, 10 pairs", min(margins), error),
            (f"{noise.name}: smallest margin below the upper side", T - max(margins), error),
            (f"{noise.name}: E[T]", T, error),
        ]
    d = release.lemma3()
    assert [(n.label, n.error) for n in d.numbers] == [(label, pytest.approx(error)) for label, _, error in wanted]
    assert [n.value for n in d.numbers] == pytest.approx([value for _, value, _ in wanted], rel=1e-6, abs=1e-11)


@pytest.mark.parametrize("who", ["laplace", "gaussian"])
def test_release_lemma_3_can_fail(monkeypatch, who):
    """Errors of 1e-3: 2 of them and 1e-11 may be missing at either side, in either row."""
    fine = result([4.0, 3.0, 2.0, 1.0, 0.0], [0, 1e-3, 0, 0, 0], expected_T=Estimate(0.5, 0.5, 0.5))
    parts = {"laplace": np.array([4.0, 3.0, 2.0, 1.0, 0.0]), "gaussian": np.array([4.0, 3.0, 2.0, 1.0, 0.0])}
    found = {"laplace": fine, "gaussian": fine}
    monkeypatch.setattr(release, "_exact", lambda noise: found[noise.name])
    monkeypatch.setattr(release, "clipped", lambda x, n, noise: parts[noise.name] if n == 5 else None)
    at = 0 if who == "laplace" else 3
    assert release.lemma3().holds
    for step, holds in ((0.0019, True), (0.0021, False), (-0.5019, True), (-0.5021, False)):
        parts[who] = np.array([4.0, 3.0, 2.0, 1.0, 0.0]) + np.array([0.0, 0.0, 0.0, 0.0, -step])
        d = release.lemma3()
        assert bool(d.holds) == holds, step
        assert d.numbers[at].value == pytest.approx(min(-step, 0.0))
        assert d.numbers[at + 1].value == pytest.approx(min(0.5, 0.5 + step))
        assert d.numbers[at].error == pytest.approx(0.002 + 1e-11, rel=1e-12)
    parts[who] = np.array([4.0, 3.0, 2.0, 1.0, 0.0])
    found[who] = result([4.0, 3.0, 2.0, 1.0, 0.0], expected_T=None)  # without a T it is 0
    assert [n.value for n in release.lemma3().numbers[at : at + 3]] == [0.0, 0.0, 0.0]
    assert release.lemma3().numbers[at].error == 1e-11
    assert release.lemma3().holds
    found[who] = result([4.5, 3.0, 2.0, 1.0, 0.0], expected_T=None)
    assert not release.lemma3().holds
    for step in (1e-11, -1e-11):  # just as much as is allowed
        parts[who] = np.array([step, 0.0, 0.0, 0.0, 0.0])
        found[who] = result(np.zeros(5), expected_T=None)
        assert release.lemma3().holds


def test_release_proposition_1_numbers():
    rows = [draw(X5, LAPLACE, run) for run in range(2000)]
    T = np.array([shift(X, 50.0) for X in rows])
    negative = np.array([-np.minimum(onto_total(X, 50.0), 0.0).sum() for X in rows])
    assert (T - negative).max() == pytest.approx(0.0, abs=1e-12)
    d = release.proposition1()
    assert [n.label for n in d.numbers] == ["largest T - sum of negative parts", "draws with T > 0"]
    assert d.numbers[0].value == pytest.approx(0.0, abs=1e-12)
    near(d.numbers[0].error, 10 * size(rows[0]))
    assert (d.numbers[1].value, d.numbers[1].error) == (float((T > 1e-9).sum()), None)


def test_release_proposition_1_can_fail(monkeypatch):
    rows = np.stack([X5, [20.0, -10.0, 20.0, 10.0, 10.0], [-1.0, -2.0, 30.0, 13.0, 10.0]])
    monkeypatch.setattr(release, "draws", lambda counts, noise, runs: rows)
    monkeypatch.setattr(release, "rounding", lambda X: 0.025 if X.ndim == 1 else None)
    for T, most, count, holds in (
        ((0.0, 2.5, 3.25), 0.25, 2, True),  # as much as ten roundings above 3
        ((0.0, 2.5, 3.5), 0.5, 2, False),
        ((0.25, 2.5, 0.0), 0.25, 1, True),
        ((0.375, 2.5, 0.0), 0.375, 2, False),
    ):
        monkeypatch.setattr(
            release, "Simplex", lambda total, T=T: SimpleNamespace(T=lambda rows: np.array(T)[:, None] + 0 * rows)
        )
        d = release.proposition1()
        assert (d.numbers[0].value, d.numbers[0].error, d.numbers[1].value) == (most, 0.25, count)
        assert d.holds == holds


def test_release_lemma_4_numbers():
    wanted = []
    for sigma in (4.0, 400.0):
        r = fp.audit(fp.Counts(X5), fp.Gaussian(sigma), "simplex", engine="exact")
        wanted.append((f"sigma = {sigma:.0f}: B_1 - B_n", float(r.bias[0] - r.bias[4]), 2 * r.half_width.max()))
    says(release.lemma4(), *wanted)


@pytest.mark.parametrize("sigma", [4.0, 400.0])
def test_release_lemma_4_can_fail(monkeypatch, sigma):
    for over, holds in ((0.5, True), (0.50001, False)):  # two errors of 0.25
        monkeypatch.setattr(
            release,
            "audit",
            lambda counts, noise, rule, engine, over=over: result(
                [29.0 + over * (noise.sigma == sigma), 0.0, 0.0], [0.0, 0.25, 0.0]
            ),
        )
        assert release.lemma4().holds == holds


def test_release_theorem_1_numbers():
    wanted = []
    for noise in (LAPLACE, GAUSSIAN):
        r, part = fp.audit(fp.Counts(X5), noise, "simplex", engine="exact"), clipping(noise)
        lower, error = part[0] - part[4], 5e-12 * (part[0] + part[4] + part.sum())
        alpha = r.bias.max() - r.bias.min()
        half = 2 * r.half_width.max()
        assert r.alpha.high - r.alpha.value <= half
        wanted += [
            (f"{noise.name}: lower", lower, error),
            (f"{noise.name}: alpha", alpha, r.alpha.high - r.alpha.value),
            (f"{noise.name}: upper", min(29.0, lower + part.sum()), error),
        ]
    says(release.theorem_1(), *wanted)


@pytest.mark.parametrize("who", ["laplace", "gaussian"])
def test_release_theorem_1_can_fail(monkeypatch, who):
    """Alpha 2 in [1.75, 2.5], bounds known to within 0.5: only what lies further off contradicts."""
    fine = (1.0, 3.0)

    def bounds(lower, theorem):
        return SimpleNamespace(lower=lower, theorem=theorem, error=0.5, upper=99.0)

    monkeypatch.setattr(release, "_exact", lambda noise: SimpleNamespace(alpha=Estimate(2.0, 1.75, 2.5)))
    for ends, holds in (
        (fine, True),
        ((3.0, 9.0), True),
        ((3.001, 9.0), False),
        ((1.0, 1.25), True),
        ((1.0, 1.249), False),
    ):
        monkeypatch.setattr(
            release, "theorem1", lambda counts, noise, ends=ends: bounds(*(ends if noise.name == who else fine))
        )
        d = release.theorem_1()
        assert d.holds == holds, ends
        at = 0 if who == "laplace" else 3
        assert [(n.value, n.error) for n in d.numbers[at : at + 3]] == [(ends[0], 0.5), (2.0, 0.5), (ends[1], 0.5)]


def test_release_proposition_2_numbers(monkeypatch):
    import scipy.integrate

    quad, seen = scipy.integrate.quad, []
    monkeypatch.setattr(
        scipy.integrate, "quad", lambda f, a, b, **given: seen.append((a, b, given)) or quad(f, a, b, **given)
    )
    d = release.proposition_2()
    assert seen == [(-30.0, -1.0, {"epsabs": 0, "epsrel": 1e-11, "limit": 200})]
    part = clipping(GAUSSIAN)
    lower, a = part[0] - part[4], math.sqrt(5 / 4) / 4.0
    error = quad(lambda t: 0.5 * math.erfc(-a * t / math.sqrt(2)), -30.0, -1.0, epsabs=0, epsrel=1e-11, limit=200)[1]
    assert [n.label for n in d.numbers] == ["closed form", "quadrature", "bracket"]
    near([d.numbers[0].value, d.numbers[1].value], [lower, lower])
    near(d.numbers[0].error, 5e-12 * lower)
    assert d.numbers[1].error == pytest.approx(error + 1e-11 * lower, rel=0.01)
    near(d.numbers[2].value, [29 * ndtr(-30 * a), 29 * ndtr(-a)])
    assert d.numbers[2].error is None


def test_release_proposition_2_can_fail(monkeypatch):
    import scipy.integrate

    def found(counts, noise):
        assert noise.sigma == 4.0
        return SimpleNamespace(integral=value, low=low, high=high, a=2.0)

    monkeypatch.setattr(release, "proposition2", found)
    monkeypatch.setattr(scipy.integrate, "quad", lambda f, a, b, **given: (1e6 * f(0.0), 5.0))
    slack = 5.0 + 1e-11 * 5e5
    for value, low, high, holds in (
        (5e5, 5e5, 5e5, True),
        (5e5 + 5.0, 0.0, 1e9, True),
        (5e5 - 5.0, 0.0, 1e9, True),
        (5e5 + slack + 1e-3, 0.0, 1e9, False),
        (5e5 - slack - 1e-3, 0.0, 1e9, False),
        (5e5, 5e5 + 1, 1e9, False),
        (5e5, 0.0, 5e5 - 1, False),
    ):
        d = release.proposition_2()
        assert d.holds == holds, (value, low, high)
        assert d.numbers[0].value == value
        near(d.numbers[1].error, slack)
        assert abs(d.numbers[1].error - slack) < 1e-9
        assert d.numbers[2].value == (low, high)


# -- sections 7 and 8: shares -------------------------------------------------------------------------------------------


def seven():
    noise = fp.Laplace(scale=6.0)
    for run in range(50):
        X = draw(X7, noise, run)
        if (W7 * X).sum() > 0 and X.min() < 0:
            return X, *shares(X)
    raise AssertionError("no draw")


def test_allocation_looks_for_a_draw_with_a_negative_share(monkeypatch):
    rows = {
        0: np.array([-9.0, 0, 0, 0, 0, 0, 1.0]),  # a sum below 0
        1: np.array([0.0, 1, 1, 1, 1, 1, 1]),  # nothing below 0
        2: np.array([-1.0, 2, 0, 0, 0, 0, 0]),  # a sum of 0
        3: np.array([-1.0, 8, 0, 0, 0, 0, 0]),
        4: np.array([-1.0, 9, 0, 0, 0, 0, 0]),
    }
    monkeypatch.setattr(allocation, "noisy", lambda counts, noise, run: rows[run])
    X, target = allocation._draw()
    assert X is rows[3]
    near(target, np.array([-2.0, 8, 0, 0, 0, 0, 0]) / 6)
    seen = []
    monkeypatch.setattr(allocation, "noisy", lambda counts, noise, run: seen.append(run) or np.ones(7))
    allocation._draw()
    assert seen == list(range(50))


def test_allocation_least_range_is_that_of_the_projection():
    for target in ([0.5, -0.25, 0.75], [0.9, 0.4, -0.1, -0.2], [1.5, -0.5], list(seven()[1])):
        t = np.array(target)
        best, width = allocation._least_range(t)
        assert best == pytest.approx(np.ptp(onto_simplex(t, 1.0) - t), abs=1e-9)
        assert abs(width) <= 1e-9
        assert allocation._least_l1(t) == pytest.approx(np.abs(onto_simplex(t, 1.0) - t).sum(), abs=1e-9)


def test_allocation_width_is_the_widest_entry(monkeypatch):
    """Handed ends in turn: entries between 1 and 1.5, 0 and 4, 2 and 2; every program is the whole one."""
    ends = iter([7.0, 1.0, -1.5, 0.0, -4.0, 2.0, -2.0])
    seen = []
    monkeypatch.setattr(allocation, "_minimum", lambda *program: seen.append(program) or next(ends))
    assert allocation._least_range(np.array([0.5, -0.25, 0.75])) == (7.0, 4.0)
    costs = [[0, 0, 0, 1, -1], *([s * float(k == i) for k in range(5)] for i in range(3) for s in (1, -1))]
    assert np.array_equal([p[0] for p in seen], costs)
    upper = [[1, 0, 0, -1, 0], [0, 1, 0, -1, 0], [0, 0, 1, -1, 0]]
    lower = [[-1, 0, 0, 0, 1], [0, -1, 0, 0, 1], [0, 0, -1, 0, 1]]
    right = [0.5, -0.25, 0.75, -0.5, 0.25, -0.75]
    for k, (_, a_ub, b_ub, a_eq, b_eq, limits) in enumerate(seen):
        assert np.array_equal(a_ub, upper + lower + ([[0, 0, 0, 1, -1]] if k else []))
        assert np.array_equal(b_ub, right + ([7.0 + 1e-12] if k else []))
        assert np.array_equal(a_eq, [[1, 1, 1, 0, 0]])
        assert list(b_eq) == [1.0]
        assert limits == [(0, None)] * 3 + [(None, None)] * 2


def test_allocation_theorem_2_numbers():
    _, target, nearest, clipped = seven()
    d = allocation.theorem2()
    least = np.ptp(nearest - target)
    assert [n.label for n in d.numbers] == [
        "noisy shares P^F(X)",
        "range for PoS",
        "least range (linear program)",
        "width of the set of minimisers",
        "range for BL",
    ]
    assert [n.error for n in d.numbers] == [None, 1e-15, 1e-8, 1e-6, 1e-15]
    near(d.numbers[0].value, target)
    near(d.numbers[1].value, least)
    assert d.numbers[2].value == pytest.approx(least, abs=1e-9)
    assert 0 <= d.numbers[3].value <= 1e-9
    near(d.numbers[4].value, np.ptp(clipped - target))


def test_allocation_theorem_2_can_fail(monkeypatch):
    _, target, nearest, _ = seven()
    least = float(np.ptp(nearest - target))
    up = np.eye(7)[0]

    def hand(best=least, width=0.0, pos=least, bl=least):
        monkeypatch.setattr(allocation, "_least_range", lambda given: (best, width))
        monkeypatch.setattr(allocation, "PoS", lambda weights: lambda X: target + pos * up)
        monkeypatch.setattr(allocation, "Baseline", lambda weights: lambda X: target - bl * up)
        return allocation.theorem2()

    assert hand().holds
    assert hand(best=least + 0.9e-8).holds
    assert hand(best=least - 0.9e-8).holds
    assert not hand(best=least + 1.1e-8, bl=1.0).holds
    assert not hand(best=least - 1.1e-8).holds
    assert hand(bl=least - 0.9e-8).holds
    assert not hand(bl=least - 1.1e-8).holds
    assert hand(width=1e-6).holds
    assert hand(width=-1e-6).holds
    assert not hand(width=1.1e-6).holds
    assert not hand(width=-1.1e-6).holds
    assert hand(width=-5e-7).numbers[3].value == 0.0
    assert hand(width=5e-7).numbers[3].value == 5e-7
    assert not hand(pos=2.0, bl=3.0).holds
    near([n.value for n in hand(best=5.0, pos=2.0, bl=3.0).numbers[1:]], [2.0, 5.0, 0.0, 3.0])


def test_allocation_proposition_3_numbers():
    wanted = []
    for which in ("baseline", "pos"):
        r = fp.audit(fp.Counts(X7, weights=W7), fp.Laplace(6.0), which, engine="exact")
        losses = -r.bias[r.bias < 0].sum()
        assert losses == pytest.approx(r.bias[r.bias > 0].sum(), abs=1e-7)
        wanted += [
            (f"{which}: sum of the losses", losses, r.half_width.sum()),
            (f"{which}: half the l1 norm", np.abs(r.bias).sum() / 2, r.half_width.sum()),
        ]
    says(allocation.proposition3(), *wanted)


@pytest.mark.parametrize("who", ["baseline", "pos"])
def test_allocation_proposition_3_can_fail(monkeypatch, who):
    """Gains are 2 more than losses or 2 less, so the two numbers are 1 apart; the errors add up to 1, or nearly."""
    for bias, losses in (([-1.0, -2.0, 5.0], 3.0), ([-1.0, -4.0, 3.0], 5.0)):
        for last, holds in ((0.5, True), (0.49, False)):
            monkeypatch.setattr(
                allocation,
                "audit",
                lambda counts, noise, which, engine, bias=bias, last=last: (
                    result(bias, [0.25, 0.25, last]) if which == who else result([-1.0, 1.0, 0.0])
                ),
            )
            d = allocation.proposition3()
            assert d.holds == holds
            found = [n for n in d.numbers if n.label.startswith(who)]
            assert [n.value for n in found] == [losses, 4.0]
            assert [n.error for n in found] == [0.5 + last, 0.5 + last]


def test_allocation_theorem_3_numbers():
    _, target, nearest, clipped = seven()
    least = np.abs(target).sum() - 1
    near([np.abs(nearest - target).sum(), np.abs(clipped - target).sum()], [least, least])
    d = allocation.theorem3()
    assert d.numbers[0].value == pytest.approx(least, abs=1e-9)
    assert [(n.label, n.error) for n in d.numbers] == [
        ("least l1 distance (linear program)", 1e-8),
        ("l1 distance of pos", 1e-15),
        ("l1 distance of baseline", 1e-15),
        ("||P^F(X)||_1 - 1", 1e-15),
    ]
    near([n.value for n in d.numbers[1:]], [least] * 3)


@pytest.mark.parametrize("who", ["PoS", "Baseline"])
def test_allocation_theorem_3_can_fail(monkeypatch, who):
    _, target, _, _ = seven()
    monkeypatch.setattr(allocation, "_least_l1", lambda given: 2.0 if given == pytest.approx(target) else None)

    class Off:
        def __init__(self, name, far):
            self.name, self.far = name, far

        def __call__(self, X):
            return target + self.far * np.array([0.5, -0.5, 0, 0, 0, 0, 0])

    for far, holds in ((2.0, True), (2.0 + 0.9e-8, True), (2.0 - 0.9e-8, True), (2.0 + 1.1e-8, False), (1.9, False)):
        for name in ("PoS", "Baseline"):
            monkeypatch.setattr(
                allocation, name, lambda weights, n=name, far=far: Off(n.lower(), far if n == who else 2.0)
            )
        d = allocation.theorem3()
        assert d.holds == holds, far
        found = {n.label: n.value for n in d.numbers}
        assert found[f"l1 distance of {who.lower()}"] == pytest.approx(far, abs=1e-12)


# -- the appendix -------------------------------------------------------------------------------------------------------


def in_two_blocks(X, project):
    """The two constraints are those of two blocks: the first two counts, and the other three."""
    return np.concatenate([project(X[:2], 3.0), project(X[2:], 47.0)])


def test_appendix_constraints_are_those_of_two_blocks():
    assert np.array_equal(appendix.A, [[1] * 5, [1, 1, 0, 0, 0]])
    assert appendix.B.tolist() == [50.0, 3.0]


def test_appendix_lemma_5_numbers():
    X = draw(X5, LAPLACE)
    slack = 10 * size(X, X5)
    says(
        appendix.lemma5(),
        ("pi(X)", tuple(in_two_blocks(X, onto_total)), slack),
        ("largest gap", 0.0, slack),
    )


def test_appendix_lemma_5_can_fail(monkeypatch):
    X = X5 + np.array([1.0, -1.0, 2.0, -1.0, -1.0])
    made = []
    monkeypatch.setattr(appendix, "noisy", lambda counts, noise: X)
    off = np.array([0.25, -0.5, 0.125, 0.0, 0.0])
    monkeypatch.setattr(
        appendix, "Affine", lambda a, b: made.append((a, b)) or (lambda given: in_two_blocks(given, onto_total) + off)
    )
    d = appendix.lemma5()
    assert (made[0][0] is appendix.A, made[0][1] is appendix.B) == (True, True)
    assert d.numbers[1].value == pytest.approx(0.5, abs=1e-12)
    near(d.numbers[0].value, X)
    assert not d.holds
    found = d.numbers[1].value
    monkeypatch.setattr(appendix, "rounding", lambda *arrays: found / 10 * (1 + 1e-12))
    assert appendix.lemma5().holds
    monkeypatch.setattr(appendix, "rounding", lambda *arrays: found / 10 * (1 - 1e-12))
    assert not appendix.lemma5().holds


def test_appendix_lemma_6_numbers():
    y, along = X5 + np.array([1.0, -1.0, 2.0, -3.0, 1.0]), np.array([-4.0, -4.0, 3.0, 3.0, 3.0])
    slack = 10 * size(y, along)
    says(
        appendix.lemma6(),
        ("gap after a move in the row space", 0.0, slack),
        ("gap after a move off it", 1.0, slack),
    )


def test_appendix_lemma_6_can_fail(monkeypatch):
    y, along = X5 + np.array([1.0, -1.0, 2.0, -3.0, 1.0]), np.array([-4.0, -4.0, 3.0, 3.0, 3.0])
    monkeypatch.setattr(appendix, "rounding", lambda *arrays: 0.0625)  # a slack of 0.625
    for back, away, holds in (
        (0.0, 1.0, True),
        (0.625, 1.0, True),
        (0.75, 1.0, False),
        (0.0, 0.75, True),
        (0.0, 0.625, False),
        (0.0, 0.0, False),
    ):
        seen, found = [], iter([y - np.array([0, 0, back, 0, 0]), y + np.array([0, 0, 0, away, 0])])
        monkeypatch.setattr(appendix, "Affine", lambda a, b, s=seen, f=found: lambda X: s.append(X) or next(f))
        d = appendix.lemma6()
        assert np.array_equal(seen, [y + along, y + along + [1, -1, 0, 0, 0]])
        assert [n.value for n in d.numbers] == [back, away]
        assert [n.error for n in d.numbers] == [0.625, 0.625]
        assert bool(d.holds) == holds, (back, away)


def test_appendix_corollary_1_numbers(monkeypatch):
    slack = 10 * size(X5)
    says(appendix.corollary1(), ("gaps to y", (0.0, 0.0, 0.0), slack))
    totals = []
    for off, holds in (((0.25, 0.5, 0.625), True), ((0.25, 0.5, 0.75), False), ((0.875, 0.0, 0.0), False)):
        ks = dict(zip((-20.0, 0.5, 300.0), off, strict=True))
        monkeypatch.setattr(appendix, "rounding", lambda given: 0.0625 if given.tolist() == X5.tolist() else None)
        monkeypatch.setattr(
            appendix,
            "Sum",
            lambda total, ks=ks: totals.append(total) or (lambda X: X5 - np.array([0, 0, ks[X[0] - 1.0], 0, 0])),
        )
        d = appendix.corollary1()
        assert d.numbers[0].value == off
        assert d.numbers[0].error == 0.625
        assert d.holds == holds
    assert set(totals) == {50.0}


def test_appendix_lemma_7_numbers():
    X = draw(X5, LAPLACE, 3)
    says(
        appendix.lemma7(),
        ("pi_+(X)", tuple(in_two_blocks(X, onto_simplex)), 1e-9),
        ("largest gap", 0.0, 1e-9),
        ("gap for one total", 0.0, 1e-12),
    )


def test_appendix_lemma_7_can_fail(monkeypatch):
    X = np.array([1.0, 2.0, 5.0, 12.0, 31.0])
    made = []
    monkeypatch.setattr(appendix, "noisy", lambda counts, noise, run: X if run == 3 else None)
    monkeypatch.setattr(appendix, "Affine", lambda a, b: made.append((a, b)) or (lambda given: given + 10.0))
    monkeypatch.setattr(appendix, "Sum", lambda total: made.append(total) or (lambda given: given + 20.0))
    for first, second, holds in (
        (0.0, 0.0, True),
        (1e-9, 0.0, True),
        (1.1e-9, 0.0, False),
        (0.0, 1e-12, True),
        (0.0, 2e-12, False),
        (-0.25, 0.0, False),
        (0.0, -0.5, False),
    ):
        twice = np.array([0.0, 0.0, first, 0.0, first / 2])
        simple = np.array([0.0, second / 2, 0.0, second, 0.0])
        monkeypatch.setattr(
            appendix,
            "AffineNonnegative",
            lambda a, b, t=twice: made.append((a, b)) or (lambda g: t if g[0] == 11.0 else 0 * t),
        )
        monkeypatch.setattr(
            appendix, "Simplex", lambda total, s=simple: made.append(total) or (lambda g: s if g[0] == 21.0 else 0 * s)
        )
        d = appendix.lemma7()
        assert d.numbers[0].value == (0.0,) * 5
        assert d.numbers[1].value == abs(first)
        assert d.numbers[2].value == abs(second)
        assert d.holds == holds, (first, second)
    assert all(m == 50.0 if isinstance(m, float) else m[0] is appendix.A and m[1] is appendix.B for m in made)


def test_appendix_lemma_8_numbers():
    slack = size(draw(X5, LAPLACE, 3))
    says(
        appendix.lemma8(),
        ("gap for pi_S", 0.0, slack),
        ("gap for pi_S+", 0.0, slack),
        ("change of T", 0.0, slack),
    )


def test_appendix_lemma_8_can_fail(monkeypatch):
    """Rules that see the place of an entry do not commute: by how much, follows from the first and the fourth entry."""
    X = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    monkeypatch.setattr(appendix, "noisy", lambda counts, noise, run: X if run == 3 else None)
    monkeypatch.setattr(appendix, "rounding", lambda given: 7.0 if given is X else None)

    def hand(s, p, t):
        """Each adds to, or takes from, the first entry; the swapped draw has 8 there and 1 at the fourth."""
        monkeypatch.setattr(
            appendix, "Sum", lambda total: lambda g: g * np.array([1 + s, 1, 1, 1, 1]) if total == 50.0 else None
        )
        broken = Rule(lambda g: g * np.array([1, 1, 1, 1 + p, 1]), lambda g: np.array([t * g[0], 0.0]))
        monkeypatch.setattr(appendix, "Simplex", lambda total: broken if total == 50.0 else None)
        d = appendix.lemma8()
        # entry 1: 8 against 8 (1 + s); entry 4: 1 (1 + s) against 1
        assert [n.value for n in d.numbers] == [8 * abs(s), 8 * abs(p), 7 * abs(t)]
        assert [n.error for n in d.numbers] == [7.0] * 3
        return bool(d.holds)

    assert hand(0.0, 0.0, 0.0)
    assert hand(0.5, -0.5, 1.0)
    assert not hand(1.0, 0.0, 0.0)
    assert not hand(0.0, 1.0, 0.0)
    assert not hand(0.0, 0.0, 2.0)
    assert not hand(0.0, 0.0, -2.0)


def gaussian_density(x, y, sigma):
    """On the plane of the same sum; closed."""
    return math.exp(-np.sum((y - x) ** 2) / (2 * sigma**2)) / (2 * math.pi * sigma**2) ** ((x.size - 1) / 2)


def laplace_density(x, y, scale):
    """The exponential of a piecewise linear function, integrated piece by piece; closed."""
    c = np.sort(x - y)
    ends = [-np.inf, *c, np.inf]
    total = 0.0
    for below in range(x.size + 1):
        slope = (2 * below - x.size) / scale
        level = (c[below:].sum() - c[:below].sum()) / scale
        at = [0.0 if np.isinf(k) else math.exp(-(slope * k + level)) for k in ends[below : below + 2]]
        total += (at[0] - at[1]) / slope
    return math.sqrt(x.size) * total / (2 * scale) ** x.size


def test_appendix_density_of_the_projection(monkeypatch):
    import scipy.integrate

    x = np.array([1.0, 2.0, 6.0])
    for y in (np.array([2.0, 0.5, 6.5]), np.array([-4.0, 9.0, 4.0]), x):
        near(appendix._density(fp.Gaussian(2.0), x, y), gaussian_density(x, y, 2.0))
        near(appendix._density(fp.Laplace(2.0), x, y), laplace_density(x, y, 2.0))
        near(appendix._density(fp.Laplace(0.5), x, y), laplace_density(x, y, 0.5))
    quad, seen = scipy.integrate.quad, []
    monkeypatch.setattr(
        scipy.integrate, "quad", lambda f, a, b, **given: seen.append((a, b, given)) or quad(f, a, b, **given)
    )
    appendix._density(fp.Laplace(2.0), x, np.array([2.0, 0.5, 6.5]))
    reach = 40 * 2 * math.sqrt(2)
    places = [-1.0 - reach, -1.0, -0.5, 1.5, 1.5 + reach]
    assert [(a, b) for a, b, _ in seen] == [pytest.approx(pair) for pair in pairwise(places)]
    assert all(given == {"epsabs": 0, "epsrel": 1e-10, "limit": 200} for _, _, given in seen)


def test_appendix_lemma_9_numbers(monkeypatch):
    x, y = np.array([1.0, 2.0, 6.0]), np.array([2.0, 0.5, 6.5])
    right = gaussian_density(x, y, 2.0)
    printed = math.exp(-(1 + 2.25 + 0.25) / 2) / math.sqrt((2 * math.pi) ** 2 * 2)
    says(
        appendix.lemma9(),
        ("by integration", right, 1e-9 * right),
        ("formula", right, 1e-15),
        ("formula as printed", printed, 1e-15),
    )
    for part, holds in ((0.9e-9, True), (-0.9e-9, True), (1.1e-9, False), (-1.1e-9, False), (3.0, False)):
        found = right * (1 + part)
        seen = []
        monkeypatch.setattr(appendix, "_density", lambda *given, s=seen, f=found: s.append(given) or f)
        d = appendix.lemma9()
        assert d.holds == holds, part
        assert (d.numbers[0].value, d.numbers[0].error) == (found, 1e-9 * found)
        ((noise, *points),) = seen
        assert noise == fp.Gaussian(2.0)
        assert np.array_equal(points, [x, y])


def ratios(density):
    """Of the two orders of the first and the third entry, at nine points of the plane."""
    x, found = np.array([1.0, 2.0, 6.0]), []
    for a in (-2.0, 0.0, 1.5):
        for b in (-1.0, 2.0, 4.0):
            low, high = sorted((a, 9.0 - a - b))
            found.append(density(x, np.array([low, b, high]), 2.0) / density(x, np.array([high, b, low]), 2.0))
    return min(found), max(found)


def test_appendix_corollary_2_and_lemma_10_numbers():
    label = "ratios of the densities, smallest and largest"
    closed = [math.exp(5 * abs(9.0 - 2 * a - b) / 4) for a in (-2.0, 0.0, 1.5) for b in (-1.0, 2.0, 4.0)]
    near(ratios(gaussian_density), (min(closed), max(closed)))
    for make, density in ((appendix.corollary2, gaussian_density), (appendix.lemma10, laplace_density)):
        low, high = ratios(density)
        says(make(), (label, (low, high), 1e-8 * high))


def test_appendix_swapped_can_fail(monkeypatch):
    x = np.array([1.0, 2.0, 6.0])
    places = [(a, b, 9.0 - a - b) for a in (-2.0, 0.0, 1.5) for b in (-1.0, 2.0, 4.0)]
    pairs = [y for a, b, c in places for y in ((min(a, c), b, max(a, c)), (max(a, c), b, min(a, c)))]
    for part, holds in ((1.0, True), (1 - 1e-8, True), (1 - 1.1e-8, False), (0.5, False), (2.0, True)):
        seen = []

        def density(noise, given, y, part=part, seen=seen):
            seen.append(tuple(y))
            return (part if len(seen) % 2 else 1.0) if np.array_equal(given, x) else None

        monkeypatch.setattr(appendix, "_density", density)
        d = appendix._swapped("n", "t", fp.Laplace(2.5))
        assert (d.name, d.title, d.remark) == ("n", "t", "")
        assert d.setting.startswith("x = (1, 2, 6), laplace noise of scale 2.5, nine points y")
        assert d.numbers[0].value == (part, part)
        assert d.numbers[0].error == pytest.approx(1e-8 * part)
        assert seen == pairs
        assert d.holds == holds, part


def test_appendix_proposition_4_numbers(monkeypatch):
    label = "largest step of d, for each t"
    says(appendix.proposition4(), (label, (0.0, 0.0, 0.0), 1e-14))

    class Other:
        """NumPy with another positive part."""

        def __init__(self, maximum):
            self.maximum = maximum

        def __getattr__(self, name):
            return getattr(np, name)

    y = np.linspace(-5.0, 10.0, 301)
    monkeypatch.setattr(appendix, "np", Other(lambda v, least: np.sin(v) + least * v))
    d = appendix.proposition4()
    says(d, (label, tuple(np.diff(np.sin(y - t) - np.sin(y)).max() for t in (0.0, 1.0, 4.0)), 1e-14))
    assert not d.holds
    for last, holds in ((1e-14, True), (2e-14, False)):
        # nothing rises but from the last point but one to the last, where it is looked at without a shift
        monkeypatch.setattr(appendix, "np", Other(lambda v, least, last=last: np.where(v == 10.0, -last, 0.0)))
        d = appendix.proposition4()
        assert d.numbers[0].value == (0.0, last, last)
        assert d.holds == holds


# -- the examples -------------------------------------------------------------------------------------------------------


def test_example_1_numbers():
    says(
        examples.centroid(),
        ("laplace: alpha, lower, upper", (0.0, 0.0, 0.0), 0.0),
        ("gaussian: alpha, lower, upper", (0.0, 0.0, 0.0), 0.0),
    )
    assert examples.CENTROID.values.tolist() == [10.0] * 5


@pytest.mark.parametrize("who", ["laplace", "gaussian"])
def test_example_1_can_fail(monkeypatch, who):
    for found in ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0)):

        def audit(counts, noise, rule, engine, found=found):
            a, lower, upper = found if noise.name == who else (0.0, 0.0, 0.0)
            assert (counts, rule, engine) == (examples.CENTROID, "simplex", "exact")
            return SimpleNamespace(
                alpha=Estimate(a, 0.0, 9.0), bounds=SimpleNamespace(lower=lower, theorem=upper, upper=8.0)
            )

        monkeypatch.setattr(examples, "audit", audit)
        d = examples.centroid()
        assert not d.holds
        assert [n.value for n in d.numbers if n.label.startswith(who)] == [found]


def test_example_2_numbers():
    wanted = []
    for noise in (LAPLACE, GAUSSIAN):
        r, part = fp.audit(fp.Counts(X5), noise, "simplex", engine="exact"), clipping(noise)
        wanted += [
            (f"{noise.name}: lower bound", part[0] - part[4], 5e-12 * (part[0] + part[4] + part.sum())),
            (f"{noise.name}: alpha", np.ptp(r.bias), r.alpha.high - r.alpha.value),
        ]
    says(examples.non_centroid(), *wanted)


@pytest.mark.parametrize("who", ["laplace", "gaussian"])
def test_example_2_can_fail(monkeypatch, who):
    for lower, error, low, holds in (
        (1.0, 0.25, 0.75, True),
        (1.0, 0.25, 0.74, False),
        (1.0, 1.0, 0.75, False),
        (1.0, 1.25, 0.75, False),
    ):

        def audit(counts, noise, rule, engine, given=(lower, error, low)):
            lower, error, low = given if noise.name == who else (1.0, 0.25, 1.5)
            assert (counts.values.tolist(), rule, engine) == (X5.tolist(), "simplex", "exact")
            return SimpleNamespace(alpha=Estimate(2.0, low, 2.5), bounds=SimpleNamespace(lower=lower, error=error))

        monkeypatch.setattr(examples, "audit", audit)
        d = examples.non_centroid()
        assert d.holds == holds, (lower, error, low)
        at = 0 if who == "laplace" else 2
        assert [(n.value, n.error) for n in d.numbers[at : at + 2]] == [(lower, error), (2.0, 0.5)]


def county(name, alpha, lower, upper):
    found = {q: Estimate(v, v - 0.5, v + 0.5) for q, v in (("alpha", alpha), ("lower", lower), ("upper", upper))}
    return SimpleNamespace(
        mechanism=SimpleNamespace(name=name),
        exactly=lambda: found,
        exact=result([0.3, -0.1, 0.0], [1e-9, 4e-9, 2e-9]),
    )


def test_example_3_numbers():
    d = examples.hawaii_example((county("one", 2.5, 2.0, 4.0), county("two", 5.0, 4.0, 8.0)))
    assert (d.name, d.title) == ("Example 3", "Hawaii")
    assert d.statement.startswith("Five counties, of which only Kalawao (53 households) can fall below 0.")
    assert d.setting.startswith("Households 53, 22,563, 54,381, 67,054, 311,451")
    assert d.remark.startswith("So alpha = n/(n-1) x lower")
    assert d.holds
    wanted = [
        [
            (f"{name}: bias by county", (0.3, -0.1, 0.0), 4e-9),
            (f"{name}: alpha / lower", 1.25, 1e-8),
            (f"{name}: upper / lower", 2.0, 1e-8),
        ]
        for name in ("one", "two")
    ]
    says(d, *wanted[0], *wanted[1])


@pytest.mark.parametrize("first", [True, False])
def test_example_3_can_fail(first):
    fine = county("fine", 2.5, 2.0, 4.0)
    for a, u, holds in (
        (0.9e-8, 0.0, True),
        (1.1e-8, 0.0, False),
        (-1.1e-8, 0.0, False),
        (0.0, 0.9e-8, True),
        (0.0, 1.1e-8, False),
        (0.0, -1.1e-8, False),
    ):
        other = county("other", 2.5 * (1 + a), 2.0, 4.0 * (1 + u))
        d = examples.hawaii_example((other, fine) if first else (fine, other))
        assert d.holds == holds, (a, u)
    d = examples.hawaii_example((county("off", 3.0, 1.0, 7.0),))
    assert [n.value for n in d.numbers[1:]] == [3.0, 7.0]
    assert not d.holds


def test_examples_in_their_order():
    rows = (county("one", 2.5, 2.0, 4.0),)
    found = examples.examples(rows)
    assert [d.name for d in found] == ["Example 1", "Example 2", "Example 3"]
    assert found[2].numbers[0].label == "one: bias by county"
    assert examples.values(found) == {"example1.alpha": Computed((0.0, 0.0, 0.0)), "example2.positive": Computed(True)}
    off = (
        replace(found[0], numbers=(Number("a", (1.0, 2.0)), Number("b", (3.0, 4.0)))),
        replace(found[1], holds=False),
    )
    assert examples.values(off) == {"example1.alpha": Computed((1.0, 2.0)), "example2.positive": Computed(False)}


# -- Table 1 ------------------------------------------------------------------------------------------------------------

MIXED = fp.Counts([31, 7, 2063, 128, 517], ids=IDS)
"""Neither end stands at an end."""


def sampled(base, **changed):
    """A simulated result with some of its sample's numbers made by hand."""
    made = simulated(base, np.array([0.1, 0.2, 0.002, 0.125, 0.3]), 2.0)
    return replace(made, sample=replace(made.sample, **changed))


def row(mechanism=None):
    base = replace(SIMPLEX, counts=MIXED, mechanism=mechanism or SIMPLEX.mechanism)
    plain = sampled(base, plain=np.array([0.5, 3.0, -0.25, 0.125, 9.0]))
    bias = np.array([2.0, -0.3, 0.001, -0.1, 0.0])
    half = np.array([0.1, 0.2, 0.002, 0.125, 0.3])
    clipped = sampled(
        replace(base, alpha=Estimate(5.0, 4.75, 5.5)),
        bias=bias,
        half_width=half,
        plain=np.array([0.25, 2.0, -0.5, 0.75, 16.0]),
    )
    return hawaii.County(base, plain, clipped)


def ends(e):
    return e.value, e.low, e.high


def test_hawaii_row_by_every_way():
    one = row()
    assert one.mechanism is SIMPLEX.mechanism
    exact = one.exactly()
    assert list(exact) == ["alpha", "lower", "upper"]
    assert exact["alpha"] is SIMPLEX.alpha
    assert ends(exact["lower"]) == (5.2, 5.2 - 2e-9, 5.2 + 2e-9)
    assert ends(exact["upper"]) == (9.8, 9.8 - 2e-9, 9.8 + 2e-9)
    found = one.by_simulation()
    assert list(found) == ["alpha", "lower", "upper"]
    assert found["alpha"] is one.simulated.alpha
    assert found["lower"] is one.clipped.alpha
    # biases 2, -0.3, 0.001, -0.1, 0: below 0 nothing is added, whichever end is taken
    low, middle, high = 1.9, 2.001, 2.1 + 0.003 + 0.025 + 0.3
    assert ends(found["upper"]) == pytest.approx((5.0 + middle, 4.75 + low, 5.5 + high), rel=1e-14)


def test_hawaii_plain_means_of_the_smallest_and_the_largest_county():
    one = row()
    found = one.plainly()
    half = float(ndtri(0.975)) * math.sqrt(2) * 12.5 * math.sqrt(2 / 1234)  # Laplace: sqrt(2) times the scale
    wanted = {"alpha": 3.25, "lower": 2.5, "upper": 2.5 + 18.5}
    assert {q: e.value for q, e in found.items()} == wanted
    for e in found.values():
        assert (e.value - e.low, e.high - e.value) == pytest.approx((half, half))
    assert hawaii.plain_half_width(fp.Gaussian(25.0), 50) == pytest.approx(float(ndtri(0.975)) * 25 / 5, rel=1e-12)


def test_hawaii_counties_are_asked_for_with_this_noise_seed_and_device(monkeypatch):
    seen, ticks = [], []
    data = fp.datasets.hawaii()
    assert (fp.Laplace(scale=10.0), fp.Gaussian(sigma=25.0)) == hawaii.MECHANISMS
    assert hawaii.RUNS == 1_000_000
    monkeypatch.setattr(hawaii, "MonteCarlo", SimpleNamespace)
    monkeypatch.setattr(
        hawaii,
        "audit",
        lambda counts, noise, rule, engine: seen.append((counts, noise, rule, engine)) or f"e{len(seen)}",
    )

    def compare(counts, noise, rules, engine):
        engine.progress(1, 4)
        seen.append((counts, noise, rules, (engine.runs, engine.seed, engine.backend)))
        return [f"{noise.name} {rule}" for rule in rules]

    monkeypatch.setattr(hawaii, "compare", compare)
    found = hawaii.counties(77, 5, ticks.append, "gpu")
    assert [(r.exact, r.simulated, r.clipped) for r in found] == [
        ("e1", "laplace simplex", "laplace sum-clipped"),
        ("e3", "gaussian simplex", "gaussian sum-clipped"),
    ]
    assert ticks == [0.125, 0.625]
    assert all(np.array_equal(counts.values, data.values) for counts, *_ in seen)
    assert [(noise, rule, engine) for _, noise, rule, engine in seen] == [
        (fp.Laplace(10.0), "simplex", "exact"),
        (fp.Laplace(10.0), ["simplex", "sum-clipped"], (77, 5, "gpu")),
        (fp.Gaussian(25.0), "simplex", "exact"),
        (fp.Gaussian(25.0), ["simplex", "sum-clipped"], (77, 5, "gpu")),
    ]
    hawaii.counties(77, 5, ticks.append)
    assert seen[-1][3] == (77, 5, "cpu")


def test_hawaii_table_1_has_every_way_in_its_column():
    rows = (row(), row(fp.Gaussian(sigma=25.0)))
    found = hawaii.table1(rows)
    assert (found.name, found.title) == ("table1", "Table 1. Case study of Hawaii")
    assert found.caption.startswith("Households; pi_S+ on 5 counties.")
    assert found.caption.count("1,234 runs") == 2
    assert found.columns == ("noise", "quantity", "published", "exact", "simulated", "plain")
    assert found.estimates == {"exact", "simulated", "plain"}
    assert found.powers == frozenset()
    assert found.column("noise") == ("Laplace, scale 12.5",) * 3 + ("Gaussian, sigma 25",) * 3
    assert found.column("quantity") == ("alpha", "lower", "upper") * 2
    assert found.column("published") == ("0.0245", "0.0242", "0.0288", "0.0910", "0.0897", "0.1085")
    for name, ways in (("exact", "exactly"), ("simulated", "by_simulation"), ("plain", "plainly")):
        wanted = [ends(e) for r in rows for e in getattr(r, ways)().values()]
        assert [ends(e) for e in found.column(name)] == wanted


def test_hawaii_values_and_their_errors():
    found = hawaii.values((row(), row(fp.Gaussian(sigma=25.0))))
    assert found["hawaii.n"] == Computed(5)
    assert found["hawaii.total"] == Computed(2746.0)
    assert len(found) == 3 + 2 * 5
    halves = {"alpha": 7.300000083 - 7.3, "lower": 2e-9, "upper": 2e-9}
    values = {"alpha": 7.3, "lower": 5.2, "upper": 9.8}
    for name in ("laplace", "gaussian"):
        for q, value in values.items():
            assert found[f"table1.{name}.{q}"].value == value
            assert found[f"table1.{name}.{q}"].error == pytest.approx(halves[q], rel=1e-5)
        for q in ("alpha", "upper"):
            ratio = found[f"table1.{name}.{q}_over_lower"]
            assert ratio.value == pytest.approx(values[q] / 5.2, rel=1e-14)
            wanted = values[q] / 5.2 * (halves[q] / values[q] + 2e-9 / 5.2)
            assert ratio.error == pytest.approx(wanted, rel=1e-5)
    assert found["table1.ordered"] == Computed(True)


def test_hawaii_ratios_are_known_as_well_as_their_parts():
    bounds = replace(SIMPLEX.bounds, lower=4.0, theorem=16.0, error=0.5)
    exact = replace(SIMPLEX, alpha=Estimate(8.0, 7.0, 9.5), bounds=bounds)
    found = hawaii.values((hawaii.County(exact, exact, exact),))
    assert found["table1.laplace.alpha"] == Computed(8.0, 1.5)
    assert found["table1.laplace.alpha_over_lower"] == Computed(2.0, 2 * (1.5 / 8 + 0.5 / 4))
    assert found["table1.laplace.upper_over_lower"] == Computed(4.0, 4 * (0.5 / 16 + 0.5 / 4))


def test_hawaii_order_is_denied_only_beyond_the_errors():
    def ordered(*rows):
        made = []
        for alpha, lower, theorem in rows:
            bounds = replace(SIMPLEX.bounds, lower=lower, theorem=theorem, error=0.5)
            exact = replace(SIMPLEX, alpha=Estimate(4.0, 4.0 - alpha, 4.0 + alpha), bounds=bounds)
            made.append(hawaii.County(exact, exact, exact))
        return hawaii.values(tuple(made))["table1.ordered"]

    fine = (0.25, 4.0, 4.0)
    for other, holds in (
        ((0.25, 4.75, 9.0), True),
        ((0.25, 4.76, 9.0), False),
        ((0.25, 1.0, 3.25), True),
        ((0.25, 1.0, 3.24), False),
    ):
        assert ordered(other) == Computed(holds)
        assert ordered(fine, other) == ordered(other, fine) == Computed(holds)


# -- Table 2 ------------------------------------------------------------------------------------------------------------


def test_districts_as_the_paper_has_them():
    assert districts.EPSILONS == (0.1, 0.01, 0.001)
    assert list(districts.NAMES.items()) == [
        ("baseline", "BL"),
        ("pos", "PoS"),
        ("pos-threshold", "PoS with threshold"),
    ]
    assert (districts.BUDGET, districts.RUNS) == (6.5e9, 200_000)


def test_districts_are_asked_for_cell_by_cell(monkeypatch):
    seen, ticks, counts = [], [], fp.Counts([1.0, 2.0])
    monkeypatch.setattr(districts, "MonteCarlo", SimpleNamespace)
    monkeypatch.setattr(districts, "_computed", lambda *given: (("computed", *given), "why"))

    def compare(given, noise, rules, engine, budget):
        engine.progress(1, 2)
        seen.append((given, noise, rules, engine.runs, engine.seed, engine.backend, budget))
        return [SimpleNamespace(postprocess=rule) for rule in rules]

    monkeypatch.setattr(districts, "compare", compare)
    found = districts.allocations(counts, districts.Runs(hawaii=3, shares=9), 4, ticks.append, "gpu")
    names = ["baseline", "pos", "pos-threshold"]
    assert list(found) == [(e, which) for e in (0.1, 0.01, 0.001) for which in names]
    scales = {0.1: fp.Laplace(10.0), 0.01: fp.Laplace(100.0), 0.001: fp.Laplace(1000.0)}
    for (epsilon, which), cell in found.items():
        assert (cell.epsilon, cell.which, cell.refusal) == (epsilon, which, "why")
        assert cell.computed == ("computed", counts, scales[epsilon], which)
        assert cell.best is cell.computed
        assert replace(cell, computed=None).best is cell.simulated
    assert ticks == pytest.approx([0.5 / 3, 1.5 / 3, 2.5 / 3])
    assert seen == [(counts, noise, names, 9, 4, "gpu", 6.5e9) for noise in scales.values()]
    districts.allocations(counts, districts.Runs(hawaii=3, shares=9), 4, ticks.append)
    assert seen[-1][5] == "cpu"


def test_districts_that_no_engine_takes_say_why(monkeypatch):
    seen, counts, noise = [], fp.Counts([1.0, 2.0]), fp.Laplace(2.0)
    monkeypatch.setattr(
        districts, "audit", lambda *given, engine, budget: seen.append((given, engine, budget)) or "found"
    )
    assert districts._computed(counts, noise, "pos") == ("found", None)
    ((given, engine, budget),) = seen
    assert (given, budget) == ((counts, noise, "pos"), 6.5e9)
    assert engine == districts.FirstOf((districts.Exact(), districts.Expansion()))
    for error in (fp.UnsupportedError, fp.ToleranceError):

        def refuse(*given, error=error, **more):
            raise error("too far apart")

        monkeypatch.setattr(districts, "audit", refuse)
        assert districts._computed(counts, noise, "pos") == (None, "too far apart")


def test_districts_plain_means_lie_in_intervals_together():
    plain, error = np.array([0.02, -0.01, 0.003, -0.004, 0.0]), np.array([1e-3, 2e-3, 3e-3, 1e-4, 5e-3])
    found = districts._plain(sampled(POS, plain=plain, plain_error=error))
    half = error * -ndtri(0.025 / 5)
    assert list(found) == ["alpha", "cost of privacy"]
    low, high = plain - half, plain + half
    assert ends(found["alpha"]) == pytest.approx((0.03, low.max() - high.min(), high.max() - low.min()))
    losses = [-np.minimum(v, 0.0).sum() for v in (plain, high, low)]
    assert ends(found["cost of privacy"]) == pytest.approx(losses)
    assert {e.kind for e in found.values()} == {"interval"}


def test_districts_table_2_has_every_number_in_its_column():
    sim = replace(POS, sample=replace(POS.sample, plain=np.array([0.02, -0.01, 0.003, -0.004, 0.0])))
    cells = {
        (0.1, "baseline"): districts.Allocation(0.1, BASELINE, None, sim),
        (0.01, "pos-threshold"): districts.Allocation(0.01, None, "why", sim),
    }
    found = districts.table2(cells, "five trees")
    assert (found.name, found.title) == ("table2", "Table 2. Two fairness metrics of the allocation, by privacy budget")
    assert found.caption.startswith("Shares of the budget. Data: five trees; Laplace noise of scale 1/epsilon.")
    assert found.columns == ("epsilon", "mechanism", "quantity", "published", "computed", "simulated", "runs", "plain")
    assert found.estimates == {"computed", "simulated", "plain"}
    assert found.powers == {"published", "computed", "simulated", "plain"}
    plain = districts._plain(sim)
    cost = POS.cost_of_privacy.share
    one = [plain["alpha"], plain["cost of privacy"]]
    assert found.rows == (
        ("0.1", "BL", "alpha", "3.00E-07", BASELINE.alpha, POS.alpha, 1234, one[0]),
        ("0.1", "BL", "cost of privacy", "1.62E-05", BASELINE.cost_of_privacy.share, cost, 1234, one[1]),
        ("0.01", "PoS with threshold", "alpha", None, None, POS.alpha, 1234, one[0]),
        ("0.01", "PoS with threshold", "cost of privacy", None, None, cost, 1234, one[1]),
    )


def test_districts_price_row_by_row():
    best = replace(BASELINE, truth=np.array([0.3, 0.06, 0.2, 0.06, 0.38]))
    sim = replace(POS, zero=np.array([0.47, 0.125, 0.061, 0.25, 0.0017]))
    found = districts.price({(0.1, "baseline"): districts.Allocation(0.1, best, None, sim)}, "five trees")
    assert (found.name, found.title) == ("table2-price", "Table 2, the price beside the gain")
    assert found.caption.startswith("Data: five trees. alpha and cost as in Table 2")
    head = (
        "epsilon",
        "mechanism",
        "alpha",
        "cost of privacy",
        "RMSE",
        "RMSE simulated",
        "sd at smallest",
        "sd simulated",
    )
    assert found.columns == (*head, "P(0) at smallest", "P(0) simulated", "receiving 0")
    assert found.estimates == {"P(0) simulated"}
    assert found.powers == set(head[2:])
    ((*cells, chance, nothing),) = found.rows
    assert cells[:2] == ["0.1", "PoS"]
    mse, simulated_mse = (
        0.00061 + 0.00053 + 0.00074 + 0.00112 + 0.00168,
        0.00051 + 0.00059 + 0.00086 + 0.00117 + 0.00181,
    )
    wanted = [0.0241, 0.0164, math.sqrt(mse), math.sqrt(simulated_mse), 0.028, 0.029, (0.11 + 0.019) / 2]
    assert cells[2:] == pytest.approx(wanted)
    half = 1.96 * math.sqrt(0.1875 * 0.8125 / 1234)
    assert ends(chance) == pytest.approx((0.1875, 0.1875 - half, 0.1875 + half))
    assert nothing == pytest.approx(0.37 + 0.11 + 0.053 + 0.019 + 0.0013)


def test_districts_chance_of_nothing_stays_between_0_and_1():
    def chance(zero, runs):
        sim = replace(POS, zero=np.array([zero, 0.5, 0.5, 0.5, 0.5]), runs=runs)
        return ends(districts._price(districts.Allocation(0.1, BASELINE, None, sim))[9])

    assert chance(0.0, 100) == pytest.approx((0.0, 0.0, 1.96 / 100))  # never seen: once in as many runs, about
    assert chance(1.0, 100) == pytest.approx((1.0, 1 - 1.96 / 100, 1.0))
    assert chance(0.5, 100) == pytest.approx((0.5, 0.5 - 0.098, 0.5 + 0.098))
    assert chance(0.5, None) == (0.5, 0.0, 1.0)


def share(bl, pos, **given):
    """Results for every budget: alpha and cost of BL and PoS as [low, value, high]."""
    made = {}
    for epsilon in (0.1, 0.01, 0.001):
        for which, (alpha, cost) in (("baseline", bl), ("pos", pos)):
            made[epsilon, which] = SimpleNamespace(
                alpha=Estimate(alpha[1], alpha[0], alpha[2]),
                cost_of_privacy=SimpleNamespace(share=Estimate(cost[1], cost[0], cost[2])),
                bias=np.array([0.5, -2e-6, -5e-6, 0.0]),
                half_width=np.array([1.0, 2e-8, 3e-8, 5e-8]),
                truth=np.array([0.1, 0.2, 0.4, 0.3]),
                counts=SimpleNamespace(n=16_001),
                **given,
            )
    return made


FAR = share(((20.0, 21.0, 22.0), (8.0, 8.5, 9.0)), ((1.0, 1.5, 2.0), (3.0, 4.0, 5.0)))


def test_districts_statements_of_the_text():
    found = districts._statements(FAR)
    assert {key: c for key, c in found.items() if isinstance(c.value, bool)} == {
        "table2.pos_fairer": Computed(True),
        "table2.pos_cheaper": Computed(True),
        "table2.order_of_magnitude": Computed(True),
        "text.districts": Computed(True),
        "text.largest_loses": Computed(True),
    }
    assert found["text.los_angeles"].value == pytest.approx(5e-6 * 6.5e9)
    assert found["text.los_angeles"].error == pytest.approx(3e-8 * 6.5e9)
    assert found["text.los_angeles_from_table2"].value == pytest.approx((1.70e-05 - 1.75e-06) * 6.5e9)
    assert found["text.los_angeles_from_table2"].error == 0.0


def changed(epsilon, which, **given):
    other = dict(FAR)
    other[epsilon, which] = SimpleNamespace(**{**vars(FAR[epsilon, which]), **given})
    return districts._statements(other)


def costs(low, high):
    return SimpleNamespace(share=Estimate(low, low, high))


@pytest.mark.parametrize("epsilon", districts.EPSILONS)
def test_districts_statements_can_fail_at_every_budget(epsilon):
    assert not changed(epsilon, "baseline", alpha=Estimate(9.0, 2.0, 9.0))["table2.pos_fairer"].value
    assert changed(epsilon, "baseline", alpha=Estimate(9.0, 2.01, 9.0))["table2.pos_fairer"].value
    assert not changed(epsilon, "pos", cost_of_privacy=costs(3.0, 8.0))["table2.pos_cheaper"].value
    assert changed(epsilon, "pos", cost_of_privacy=costs(3.0, 7.9))["table2.pos_cheaper"].value
    last = changed(epsilon, "baseline", bias=np.array([0.5, -2e-6, -1e-6, 0.0]))
    assert not last["text.largest_loses"].value
    # an order of magnitude at one budget is enough
    near_by = {key: SimpleNamespace(**{**vars(r), "alpha": Estimate(2.0, 2.0, 2.0)}) for key, r in FAR.items()}
    near_by[epsilon, "baseline"].alpha = Estimate(30.0, 20.0, 40.0)
    near_by[epsilon, "pos"].alpha = Estimate(1.0, 1.0, 2.0)
    assert districts._statements(near_by)["table2.order_of_magnitude"].value
    near_by[epsilon, "pos"].alpha = Estimate(1.0, 1.0, 2.01)
    assert not districts._statements(near_by)["table2.order_of_magnitude"].value


def test_districts_statements_look_at_bl_and_0_01():
    assert not changed(0.01, "baseline", counts=SimpleNamespace(n=16_000))["text.districts"].value
    moved = changed(0.01, "baseline", bias=np.array([0.5, -7e-6, -5e-6, 0.0]))
    assert moved["text.los_angeles"].value == pytest.approx(7e-6 * 6.5e9)
    assert moved["text.los_angeles"].error == pytest.approx(2e-8 * 6.5e9)
    for place in ((0.1, "baseline"), (0.001, "baseline"), (0.01, "pos")):
        same = changed(*place, bias=np.array([-1.0, 0.0, 0.0, 0.0]), counts=SimpleNamespace(n=1))
        assert same["text.los_angeles"] == districts._statements(FAR)["text.los_angeles"]
        assert same["text.districts"].value


def test_districts_values_of_table_2():
    cells = {key: districts.Allocation(key[0], r, None, None) for key, r in FAR.items()}
    cells[0.1, "pos-threshold"] = districts.Allocation(0.1, SimpleNamespace(), None, None)
    found = districts.values(cells)
    table2 = {key: c for key, c in found.items() if key.count(".") > 2 or key.endswith((".alpha", ".cost"))}
    wanted = {}
    for e in ("0.1", "0.01", "0.001"):
        wanted |= {
            f"table2.{e}.baseline.alpha": Computed(21.0, 1.0),
            f"table2.{e}.baseline.cost": Computed(8.5, 0.5),
            f"table2.{e}.pos.alpha": Computed(1.5, 0.5),
            f"table2.{e}.pos.cost": Computed(4.0, 1.0),
        }
    assert table2 == wanted
    assert set(found) == set(wanted) | set(districts._statements(FAR))


# -- published beside ours ----------------------------------------------------------------------------------------------


def record(value=4.0, half=0.5, status="agrees", reason=None, **place):
    given = {"section": "6", "item": "Table 9", **place}
    return Published("k", given, "q", "u", "4.0", value, half, status, reason)


def test_published_value_agrees_to_the_edge():
    """Half a unit 0.5, our error 0.25, and 1e-12 of the published value."""
    for ours, agrees in (
        (4.75, True),
        (3.25, True),
        (4.75 + 3e-12, True),
        (3.25 - 3e-12, True),
        (4.75 + 9e-12, False),
        (3.25 - 9e-12, False),
    ):
        one = Comparison(record(), Computed(ours, 0.25))
        assert one.agrees is agrees
        assert one.status == ("agrees" if agrees else "differs")
        assert one.as_recorded is agrees
        assert Comparison(record(status="differs"), Computed(ours, 0.25)).as_recorded is not agrees
    assert Comparison(record(0.0, 0.5), Computed(-0.5)).agrees
    assert not Comparison(record(0.0, 1e6), Computed(1e6 + 5e-7)).agrees  # of the published value, which is 0
    assert Comparison(record(half=0.0), Computed(4.0)).agrees
    assert not Comparison(record(half=0.0), Computed(4.25)).agrees
    assert Computed(4.0) == Computed(4.0, 0.0)
    assert published.ROUNDING == 1e-12


def test_published_vector_agrees_in_every_entry():
    theirs = record((1.0, -100.0, 0.0), 0.0)
    assert Comparison(theirs, Computed((1.0, -100.0, 9e-11))).agrees
    assert not Comparison(theirs, Computed((1.0, -100.0, 2e-10))).agrees
    assert not Comparison(theirs, Computed((1.0, -100.0))).agrees
    assert not Comparison(record((1.0,), 9.0), Computed((1.0, 1.0))).agrees


def test_published_statement_agrees_with_a_statement_alone():
    assert Comparison(record(True, 0.0), Computed(True)).agrees
    assert Comparison(record(False, 0.0), Computed(False)).agrees
    assert not Comparison(record(False, 9.0), Computed(True)).agrees
    assert not Comparison(record(True, 9.0), Computed(1.0)).agrees
    assert not Comparison(record(1.0, 9.0), Computed(True)).agrees


def test_published_place_in_words():
    assert record().where == "Table 9"
    assert record(column="c", row="r").where == "Table 9, r, c"
    assert record(column="c").where == "Table 9, c"


def test_published_entries_are_those_of_the_file():
    from importlib.resources import files

    raw = json.loads(files("fairpost.paper").joinpath("published.json").read_text(encoding="utf-8"))
    known = published.published()
    assert list(known) == [v["key"] for v in raw["values"]]
    assert published.citation() == raw["paper"]
    assert published.citation().startswith("K. Zhu, F. Fioretto")
    for v in raw["values"]:
        one = known[v["key"]]
        assert (one.key, one.place, one.quantity, one.unit) == (v["key"], v["place"], v["quantity"], v["unit"])
        assert (one.printed, one.half_unit, one.status) == (v["printed"], v["half_unit"], v["status"])
        assert one.value == (tuple(v["value"]) if isinstance(v["value"], list) else v["value"])
        assert one.reason == (None if v["reason"] is None else raw["reasons"][v["reason"]])


def test_published_values_are_compared_in_their_order(monkeypatch):
    known = {"b": record(1.0), "a": record(2.0)}
    monkeypatch.setattr(published, "published", lambda: known)
    found = published.compare_all({"a": Computed(5.0), "b": Computed(6.0)})
    assert found == (Comparison(known["b"], Computed(6.0)), Comparison(known["a"], Computed(5.0)))
    for given in ({"a": Computed(5.0)}, {"a": Computed(5.0), "b": Computed(6.0), "c": Computed(7.0)}):
        with pytest.raises(KeyError, match=r"differ in \['[bc]'\]"):
            published.compare_all(given)


# -- tables -------------------------------------------------------------------------------------------------------------


def test_table_cells_as_text():
    assert [show(v) for v in (None, "3E-07", 7, 1234567, -1234.5, 1000.0, 999.96, 0.000123456, -0.5)] == [
        "–", "3E-07", "7", "1,234,567", "-1,234", "1,000", "1000", "0.0001235", "-0.5",
    ]  # fmt: skip
    assert [show(v, True) for v in (None, "3E-07", 7, 0.0, 0, -1234.5, 0.000123456)] == [
        "–", "3e-07", "7.000e+00", "0", "0", "-1.234e+03", "1.235e-04",
    ]  # fmt: skip


def test_table_intervals_as_text():
    assert half_width(Estimate(1.0, 0.5, 3.0)) == 2.0
    assert half_width(Estimate(1.0, -2.0, 3.0)) == 3.0
    v = 1.23456789
    for half, text in (
        (0.0, "1.2345679"),
        (1e-12, "1.2345679 ± 1e-12"),
        (3e-7, "1.234568 ± 3e-07"),
        (3e-6, "1.23457 ± 3e-06"),
        (1.2e-4, "1.2346 ± 1e-04"),
        (1.3e-4, "1.235 [1.234, 1.235]"),
    ):
        assert show(Estimate(v, v - half, v)) == text
        assert show(Estimate(-v, -v, half - v)) == "-" + text.replace("[1.234, 1.235]", "[-1.235, -1.234]")
    assert show(Estimate(1e4, 9999.0, 1e4)) == "1e+04 ± 1e+00"
    assert show(Estimate(0.0, 0.0, 0.0)) == "0"
    assert show(Estimate(v, v - 1e-12, v), True) == "1.2345679e+00 ± 1e-12"
    assert show(Estimate(v, v - 3e-6, v), True) == "1.23457e+00 ± 3e-06"
    assert show(Estimate(v, v - 1.0, v + 1.0), True) == "1.235e+00 [2.346e-01, 2.235e+00]"
    assert show(Estimate(v, v, v), True) == "1.2345679e+00"


def test_table_in_every_form():
    e = Estimate(0.5, 0.25, 1.0)
    rows = (("x|y", 0.125, e), ("z", None, None), ("w", "2E3", "text"))
    one = Table("name", "Title", "Caption.", ("a", "p", "e"), frozenset({"e"}), rows, frozenset({"p"}))
    assert one.column("p") == (0.125, None, "2E3")
    assert one.csv() == "a,p,e,e low,e high\nx|y,0.125,0.5,0.25,1.0\nz,,,,\nw,2E3,text,,\n"
    assert one.shown() == (("x|y", "1.250e-01", "0.5 [0.25, 1]"), ("z", "–", "–"), ("w", "2e3", "text"))
    assert one.markdown() == (
        "# Title\n\nCaption.\n\n| a | p | e |\n|---|---|---|\n"
        "| x\\|y | 1.250e-01 | 0.5 [0.25, 1] |\n| z | – | – |\n| w | 2e3 | text |\n"
    )
    assert replace(one, powers=frozenset()).shown()[0] == ("x|y", "0.125", "0.5 [0.25, 1]")
    assert Table("n", "t", "c", (), frozenset(), ()).powers == frozenset()
    assert table.CLOSE == 1e-4


# -- the page -----------------------------------------------------------------------------------------------------------


def test_page_plain_notation_becomes_html():
    for plain, html in (
        ("pi_S and pi_S+ and pi_+(X), pi", "π<sub>S</sub> and π<sub>S+</sub> and π<sub>+</sub>(X), π"),
        ("P^F(X) (P^F)", "P<sup>F</sup>(X) P<sup>F</sup>"),
        ("(y - t)_+ - (y)_-", "(y - t)<sub>+</sub> - (y)<sub>−</sub>"),
        ("x_i B_n v_12 poor_5_17", "x<sub>i</sub> B<sub>n</sub> v<sub>12</sub> poor_5_17"),
        ("||v||_1, ||v||", "‖v‖<sub>1</sub>, ‖v‖"),
        ("s^2 2^(-n'/2) 3^22", "s² 2<sup>−n&#39;/2</sup> 3^22"),
        ("a <= b >= c & d", "a ≤ b ≥ c &amp; d"),
        ("1.25 x lower, 2 x 3, a x b", "1.25 × lower, 2 × 3, a x b"),
        ("3.5e-07 2E+03 1e-12 4e0", "3.5 × 10<sup>−7</sup> 2 × 10<sup>3</sup> 10<sup>−12</sup> 4 × 10<sup>0</sup>"),
        ("11e3 2.1e5", "11 × 10<sup>3</sup> 2.1 × 10<sup>5</sup>"),
        ("-1 (-2) a-3 4-5", "−1 (−2) a-3 4-5"),
        ("alpha epsilon sigma lambda eta Phi alphabet", "α ε σ λ η Φ alphabet"),
    ):
        assert str(pages.pretty(plain)) == html, plain
    assert str(pages.pretty(3)) == "3"
    assert str(pages.cell("1 ± 2e-05")) == "1<br><small>± 2 × 10<sup>−5</sup></small>"
    assert str(pages.cell("1 [0, 2]")) == "1<br><small>[0, 2]</small>"
    assert str(pages.cell("1 [0, 2] a")) == "1 [0, 2] a"


def test_page_our_values():
    for computed, text in (
        (Computed(True), "holds"),
        (Computed(False), "does not hold"),
        (Computed((-0.0, 1 / 3, 12345678.0)), "(0, 0.333333, 1.23457e+07)"),
        (Computed(999.9996), "1000"),
        (Computed(1000.0), "1,000"),
        (Computed(-12345.6), "-12,346"),
        (Computed(1 / 3, 2.6e-9), "0.333333 ± 3e-09"),
        (Computed(5000.0, 0.5), "5,000 ± 5e-01"),
        (Computed(1.5, 0.0), "1.5"),
    ):
        assert pages.ours(computed) == text


SIDES = (
    Comparison(record(column="c"), Computed(4.0)),
    Comparison(replace(record(status="differs", reason="Because."), key="l"), Computed(9.0)),
    Comparison(replace(record(reason=None), key="m"), Computed(8.0)),
    Comparison(replace(record(status="differs", reason="Because."), key="n"), Computed(7.0, 0.5)),
)


def test_page_comparisons_row_by_row():
    found = pages.comparison_table(SIDES)
    assert (found.name, found.title) == ("comparisons", "Every published value beside ours")
    assert found.caption.startswith("A value agrees where it lies within the paper's rounding plus our own error")
    assert found.columns == ("key", "section", "place", "quantity", "unit", "published", "ours", "status", "reason")
    assert (found.estimates, found.powers) == (frozenset(), frozenset())
    assert found.rows == (
        ("k", "6", "Table 9, c", "q", "u", "4.0", "4", "agrees", ""),
        ("l", "6", "Table 9", "q", "u", "4.0", "9", "differs", "Because."),
        ("m", "6", "Table 9", "q", "u", "4.0", "8", "differs", ""),
        ("n", "6", "Table 9", "q", "u", "4.0", "7 ± 5e-01", "differs", "Because."),
    )
    agreeing = Comparison(record(reason="Because."), Computed(4.0))
    assert pages.comparison_table((agreeing,)).rows[0][-1] == ""


def test_page_groups_what_differs_by_reason():
    none = "No reason is on record: with other data this value agrees or differs."
    assert pages._reasons(SIDES) == [("Because.", [SIDES[1], SIDES[3]]), (none, [SIDES[2]])]


def small_findings(**given):
    demos = [
        Demonstration(f"Lemma {k}", "Title", "Statement.", "Setting.", (Number("a", 1.0),), k != 2, "")
        for k in (1, 2, 3)
    ]
    tables = tuple(
        Table(name, f"Title of {name}", f"Caption of {name}", ("a",), frozenset(), ((f"cell of {name}",),))
        for name in ("table1", "table2", "table2-price")
    )
    data = main.Data(fp.Counts([1.0, 2.0]), "two trees", True)
    found = main.Findings(
        data, districts.Runs(12_345, 678), 9, True, (row(),), {}, tables, SIDES, (demos[0],), tuple(demos)
    )
    return replace(found, **given)


class Painted:
    """In the place of a drawing."""

    def __init__(self, name):
        self.name, self.title, self.caption = name, f"Figure {name}", f"What {name} shows"

    def files(self):
        return {f"{self.name}.{end}": f"{end} of {self.name}".encode() for end in ("png", "pdf")}


PAINTED = tuple(Painted(name) for name in ("figure1-left", "figure1-right", "figure2-5", "figure3"))


def test_page_has_everything_in_its_place():
    import base64
    from importlib.resources import files

    pictures = {f"figures/{d.name}.png": d.name.encode() for d in PAINTED}
    text = pages.page(small_findings(), PAINTED, pictures)
    assert f'<p class="by">{published.citation()}</p>' in text
    assert f"Districts: two trees. fairpost {fp.__version__}, seed 9; simulated runs: 12,345 (Table 1)" in text
    assert "Of 4 published values" in text
    assert '<b class="agrees">1 agree</b>' in text
    assert '<b class="differs">3 differ</b>' in text
    assert "2 of 3 lemmas" in text
    assert files("fairpost.paper").joinpath("page.css").read_text(encoding="utf-8") in text
    for d in PAINTED:
        coded = base64.b64encode(d.name.encode()).decode()
        assert f'<img alt="{d.title}. {d.caption}" src="data:image/png;base64,{coded}">' in text
    for name in ("table1", "table2", "table2-price"):
        assert f"<b>Title of {name}.</b> Caption of {name}</p>" in text
        assert f"<td>cell of {name}</td>" in text
    assert "<p>Because.</p>" in text
    assert '<td class="n">7 ± 5 × 10<sup>−1</sup></td><td class="differs">differs</td>' in text
    assert "To make this page again" not in text
    assert text.startswith("<!doctype html>\n")  # no line is left of the macros before it
    again = pages.page(small_findings(recipe=Recipe("the <command>", "the lines")), PAINTED, pictures)
    assert ">the &lt;command&gt;</pre>" in again
    with pytest.raises(Exception, match="figure3"):
        pages.page(small_findings(), PAINTED[:3], pictures)


# -- how to make it again -----------------------------------------------------------------------------------------------


def test_recipe_says_what_is_not_usual():
    usual = {
        "column": "poor_5_17",
        "weights": "1",
        "quick": False,
        "seed": 0,
        "id": "leaid",
        "format": None,
        "device": "cpu",
    }
    assert Recipe.of("out", None, **usual) == Recipe(
        "fairpost paper --out out",
        "from fairpost.paper import reproduce\n\nfound = reproduce('out')\nprint(found.page)\n",
    )
    given = {"column": "c", "weights": "w", "quick": True, "seed": 3, "id": "i", "format": "tsv", "device": "gpu"}
    said = Recipe.of("my out", "a b.csv", **given)
    assert said.command == (
        "fairpost paper --out 'my out' --saipe 'a b.csv' --column c --weights w --quick --seed 3 --id i --format tsv --device gpu"
    )
    assert "reproduce('my out', saipe='a b.csv', column='c', weights='w', quick=True, seed=3, id='i'" in said.lines
    assert "format='tsv', device='gpu')" in said.lines
    for name in usual:  # one at a time
        one = Recipe.of("out", None, **{**usual, name: given[name]})
        assert one.command == f"fairpost paper --out out --{name}" + ("" if name == "quick" else f" {given[name]}")


# -- the folder ---------------------------------------------------------------------------------------------------------


def test_folder_has_every_file():
    found = small_findings(mark="secret", quick=False)
    made = folder.contents(found, PAINTED)
    names = [f"tables/{t}.{end}" for t in ("table1", "table2", "table2-price", "comparisons") for end in ("csv", "md")]
    names += [f"figures/{d.name}.{end}" for d in PAINTED for end in ("png", "pdf")]
    assert list(made) == ["index.html", *names, "about.json"]
    assert made["figures/figure3.pdf"] == b"pdf of figure3"
    assert made["tables/table1.csv"] == b"a\ncell of table1\n"
    assert made["tables/table1.md"] == f"{found.tables[0].markdown()}\nsecret\n".encode()
    assert made["tables/comparisons.csv"].decode() == pages.comparison_table(SIDES).csv()
    assert made["index.html"].startswith(b"<!doctype html>")
    about = made["about.json"].decode()
    wanted = {
        "made_by": "fairpost paper",
        "version": fp.__version__,
        "data": "two trees",
        "synthetic": True,
        "quick": False,
        "seed": 9,
        "runs": {"hawaii": 12_345, "shares": 678},
        "mark": "secret",
        "files": sorted(["index.html", "about.json", *names]),
    }
    assert about == json.dumps(wanted, indent=1) + "\n"


ABOUT = json.dumps({"made_by": "fairpost paper", "files": ["about.json", "a"]}).encode()


def test_folder_is_for_the_owner_alone(tmp_path, monkeypatch):
    place, swept = folder.check(tmp_path / "deep" / "down" / "out", force=False), []
    monkeypatch.setattr(folder.whole, "sweep", swept.append)
    folder.write(place, {"a": b"1", "t/b": b"2", "t/c": b"3"}, force=False)
    assert swept == [place.parent]
    assert {p.relative_to(place).as_posix(): p.read_bytes() for p in place.rglob("*") if p.is_file()} == {
        "a": b"1",
        "t/b": b"2",
        "t/c": b"3",
    }
    for path in (place, place / "t"):
        assert path.stat().st_mode & 0o777 == 0o700
    assert (place / "a").stat().st_mode & 0o777 == 0o600
    (place / "a").unlink()
    with pytest.raises(fp.InputError, match="must be empty, it has 2 files"):
        folder.write(place, {"a": b"1"}, force=False)  # looked at again when everything is there
    assert sorted(p.name for p in place.parent.iterdir()) == ["out"]


def test_folder_check(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from pathlib import Path

    assert folder.check(Path("new"), force=False) == tmp_path / "new"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder.check(Path("~/new"), force=True) == tmp_path / "new"
    (tmp_path / "empty" / "within").mkdir(parents=True)
    assert folder.check(tmp_path / "empty", force=False) == tmp_path / "empty"
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "loose").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link", "loose"):
        with pytest.raises(fp.InputError, match="must be a folder or not exist"):
            folder.check(tmp_path / name, force=True)
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "a").write_text("")
    for text in (
        "",
        "[]",
        "{}",
        '{"made_by": "somebody", "files": ["about.json", "a"]}',
        '{"made_by": "fairpost paper"}',
    ):
        (ours / "about.json").write_text(text)
        with pytest.raises(fp.InputError, match="got 'a' in the folder"):
            folder.check(ours, force=True)
    (ours / "about.json").write_bytes(ABOUT)
    assert folder.check(ours, force=True) == ours
    with pytest.raises(fp.InputError, match="it has 2 files"):
        folder.check(ours, force=False)
    (ours / "z").write_text("")
    with pytest.raises(fp.InputError, match="got 'z' in the folder"):
        folder.check(ours, force=True)


def test_folder_of_before_comes_back(tmp_path, monkeypatch):
    place = tmp_path / "out"
    folder.write(place, {"a": b"1", "about.json": ABOUT}, force=False)
    folder.write(place, {"a": b"2", "about.json": ABOUT}, force=True)
    assert (place / "a").read_bytes() == b"2"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    move, done = folder.os.replace, []

    def once(source, target):
        done.append(target)
        if len(done) == 2:  # the new one into its place
            raise KeyboardInterrupt
        move(source, target)

    monkeypatch.setattr(folder.os, "replace", once)
    with pytest.raises(KeyboardInterrupt):
        folder.write(place, {"a": b"3", "about.json": ABOUT}, force=True)
    assert (place / "a").read_bytes() == b"2"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]

    done[:] = ["before"]
    with pytest.raises(KeyboardInterrupt):  # nothing was there before
        folder.write(tmp_path / "new", {"a": b"3"}, force=False)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def late(source, target):
        move(source, target)
        if target == place:  # the new one is in its place
            raise KeyboardInterrupt

    monkeypatch.setattr(folder.os, "replace", late)
    with pytest.raises(KeyboardInterrupt):
        folder.write(place, {"a": b"4", "about.json": ABOUT}, force=True)
    assert (place / "a").read_bytes() == b"4"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder.os, "replace", full)
    with pytest.raises(fp.InputError, match=r"out: cannot be written: No space left on device$"):
        folder.write(place, {"a": b"3", "about.json": ABOUT}, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


# -- geometry -----------------------------------------------------------------------------------------------------------


def test_geometry_of_both_drawings():
    two, five = geometry.geometry("figure2"), geometry.geometry("figure5")
    for g, truth, noisy in ((two, (0.7, 0.3), (-0.5, 3.5)), (five, (1.0, 0.8), (0.7, 3.7))):
        total, X = sum(truth), np.array(noisy)
        y, T = onto_total(X, total), shift(X, total)
        assert (g.truth, g.noisy) == (truth, noisy)
        for found, wanted in (
            (g.on_line, y),
            (g.clipped, np.maximum(y, 0.0)),
            (g.shifted, y - T),
            (g.projected, onto_simplex(X, total)),
            ((g.T,), [T]),
        ):
            assert found == pytest.approx(tuple(wanted), abs=1e-14)
    assert list(geometry.TRIANGLES) == ["figure2", "figure5"]
    assert geometry.values() == {
        "figure2.pi_s": Computed(two.on_line),
        "figure2.pi_s_plus": Computed(two.projected),
        "figure2.T": Computed(two.T),
        "figure5.pi_s": Computed(five.on_line),
        "figure5.clipped": Computed(five.clipped),
        "figure5.shifted": Computed(five.shifted),
        "figure5.pi_s_plus": Computed(five.projected),
    }


# -- figures ------------------------------------------------------------------------------------------------------------

INK, FAINT, BLUE, VERMILION, GREEN = "#1A1A1A", "#8A8A8A", "#0072b2", "#d55e00", "#009e73"


def drawn(line):
    """Where a line is, and how it looks."""
    x, y = ([float(v) for v in data] for data in (line.get_xdata(), line.get_ydata()))
    dots = line.get_marker() != "None"
    how = (line.get_marker(), line.get_markersize()) if dots else (line.get_linestyle(), line.get_linewidth())
    return x, y, line.get_color(), *how, line.get_zorder()


def same_lines(axes, wanted):
    assert len(axes.lines) == len(wanted)
    for line, (x, y, *how) in zip(axes.lines, wanted, strict=True):
        found_x, found_y, *found = drawn(line)
        assert found_x == pytest.approx(x, abs=1e-12)
        assert found_y == pytest.approx(y, abs=1e-12)
        assert found == how


def level(y, width=0.6, style="-"):
    return [0.0, 1.0], [y, y], FAINT, style, width, 0


def test_figures_have_one_style():
    mpl = pytest.importorskip("matplotlib")
    wanted = {
        "font.family": ["STIXGeneral"],
        "mathtext.fontset": "stix",
        "font.size": 10.0,
        "axes.titlesize": 10.5,
        "axes.spines.top": False,
        "axes.linewidth": 0.7,
        "axes.edgecolor": INK,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "xtick.minor.width": 0.4,
        "ytick.minor.width": 0.4,
        "legend.frameon": False,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "pdf.fonttype": 42,
    }
    before = dict(mpl.rcParams)
    with figures.styled():
        assert {name: mpl.rcParams[name] for name in wanted} == wanted
        assert {n for n in before if mpl.rcParams[n] != before[n]} <= set(wanted)
    assert dict(mpl.rcParams) == before
    assert set(figures.STYLE) == set(wanted)
    assert figures.COLOURS == {"baseline": VERMILION, "pos": BLUE, "pos-threshold": GREEN}
    assert (figures.BARS, figures.DOTS, figures.INK, figures.FAINT) == ("#B8C4CE", BLUE, INK, FAINT)
    assert figures.DPI == 200


def test_figures_are_saved_twice_without_a_date():
    mpl = pytest.importorskip("matplotlib")
    seen = []

    def savefig(file, **given):
        seen.append((given, mpl.rcParams["pdf.fonttype"]))
        file.write(given["format"].encode())

    made = figures.Drawing("name", "Title", "Caption.", SimpleNamespace(savefig=savefig)).files()
    assert made == {"name.png": b"png", "name.pdf": b"pdf"}
    nobody = {"CreationDate": None, "Producer": None, "Creator": None}
    assert seen == [
        ({"format": "png", "dpi": 200, "metadata": {"Software": None}}, 42),
        ({"format": "pdf", "dpi": 300, "metadata": nobody}, 42),
    ]


def test_figures_need_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for ask in (figures.require_matplotlib, figures.styled):
        with pytest.raises(fp.UnsupportedError, match="needs matplotlib"):
            ask()


def test_figure_1_left_is_of_synthetic_counts(monkeypatch):
    assert figures.RELEASED.n == 30
    near(figures.RELEASED.values, np.round(300.0 ** (np.arange(30) / 29)))
    assert fp.Laplace(scale=10.0) == figures.RELEASE_NOISE
    monkeypatch.setattr(figures, "audit", lambda *given, **more: (given, more))
    wanted = ((figures.RELEASED, figures.RELEASE_NOISE, "simplex"), {"engine": "exact"})
    assert figures.release_result() == wanted


def test_figure_1_left_bars_and_dots():
    pytest.importorskip("matplotlib")
    made = figures.figure1_left(SIMPLEX)
    assert (made.name, made.title) == ("figure1-left", "Figure 1, left (fig:bias_of_post_processing)")
    assert made.caption == (
        "Data release. Bars: 5 synthetic true counts. Dots: the bias of the projection pi_S+ under Laplace noise of scale 12.5, "
        "exact; alpha = 7.3 counts."
    )
    assert tuple(made.figure.get_size_inches()) == (5.2, 3.3)
    assert made.figure.get_layout_engine().__class__.__name__ == "ConstrainedLayoutEngine"
    bars, dots = made.figure.axes
    assert [b.get_x() + b.get_width() / 2 for b in bars.patches] == pytest.approx([1, 2, 3, 4, 5])
    assert [b.get_height() for b in bars.patches] == [7.0, 31.0, 128.0, 517.0, 2063.0]
    assert {(round(b.get_width(), 9), b.get_facecolor()) for b in bars.patches} == {
        (0.8, (0xB8 / 255, 0xC4 / 255, 0xCE / 255, 1.0))
    }
    assert (bars.get_xlabel(), bars.get_ylabel()) == ("entity, in order of its true count", "true count (bars)")
    assert bars.get_xlim() == pytest.approx((0.2, 5.8))
    same_lines(dots, [([1, 2, 3, 4, 5], [3.7, 1.9, -0.6, -1.4, -3.6], BLUE, "o", 4, 2), level(0.0)])
    assert dots.lines[0].get_gid() == "bias"
    assert dots.get_ylabel() == "bias of $\\pi_{S+}$, in counts (dots)"
    assert dots.yaxis.label.get_color() == BLUE
    assert {t.get_color() for t in dots.yaxis.get_ticklabels()} == {BLUE}
    top, below = 1.05 * 2063, 1.25 * 3.6 / (1.1 * 3.7)
    assert bars.get_ylim() == pytest.approx((-below * top, top))
    assert dots.get_ylim() == pytest.approx((-1.25 * 3.6, 1.1 * 3.7))
    ticks = bars.get_yticks()
    assert len(ticks) > 2
    assert ticks.min() == 0.0
    assert ticks.max() <= top


def test_figure_1_left_without_any_gain():
    pytest.importorskip("matplotlib")
    none = replace(SIMPLEX, bias=np.zeros(5), truth=np.array([1.0, 2.0, 3.0, 4.0, 20.0]))
    bars, dots = figures.figure1_left(none).figure.axes
    assert bars.get_ylim() == pytest.approx((0.0, 21.0))
    assert bars.get_yticks()[0] == 0.0
    assert dots.get_ylim()[0] < 0 < dots.get_ylim()[1]


def test_figure_1_left_ticks_stay_inside():
    class Bars:
        def __init__(self):
            self.ticks = None

        def set_ylim(self, low, high):
            self.limits = low, high

        def get_yticks(self):
            return [-5.0, -0.001, 0.0, 5.0, 10.5, 10.6, 15.0]

        def set_yticks(self, ticks):
            self.ticks = ticks

    bars, dots = Bars(), Bars()
    figures._same_zero(bars, dots, result([0.5, -0.25, 0.1], truth=np.array([1.0, 10.0, 3.0])))
    assert bars.ticks == [0.0, 5.0, 10.5]
    assert bars.limits == pytest.approx((-10.5 * 0.3125 / 0.55, 10.5))
    assert dots.limits == pytest.approx((-0.3125, 0.55))


def test_figure_1_right_in_shares_and_in_money():
    pytest.importorskip("matplotlib")
    shown = replace(
        BASELINE,
        truth=np.array([0.3, 0.06, 0.2, 0.06, 0.38]),
        mechanism=fp.Laplace(scale=100.0),
        budget=2.5e9,
    )
    made = figures.figure1_right(shown, "Five trees")
    assert (made.name, made.title) == ("figure1-right", "Figure 1, right (fig:bias_of_post_processing)")
    assert made.caption == (
        "Downstream decisions. Five trees; BL, Laplace noise, epsilon = 0.01, $2.5 billion a year. "
        "The largest loss is $29,500,000 (Elm)."
    )
    assert tuple(made.figure.get_size_inches()) == (5.2, 3.3)
    (axes,) = made.figure.axes
    same_lines(
        axes,
        [([1, 2, 3, 4, 5], [0.0041, -0.0029, -0.0017, 0.0123, -0.0118], BLUE, "o", 2.6, 2), level(0.0)],
    )
    dots = axes.lines[0]
    assert (dots.get_gid(), dots.get_alpha(), dots.get_rasterized(), dots.get_markeredgewidth()) == (
        "bias",
        0.7,
        True,
        0,
    )
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "district, in order of its true share",
        "bias (share of the budget)",
    )
    y = axes.yaxis.get_major_formatter()
    assert (y._scientific, y._powerlimits, y._useMathText) == (True, (0, 0), True)
    assert axes.xaxis.get_major_formatter()(12345.2, None) == "12,345"
    (money,) = axes.child_axes
    there, back = money._functions
    assert (there(0.002), back(5000.0)) == pytest.approx((5000.0, 0.002))
    assert money._pos == 1.0  # on the right
    assert money.get_ylabel() == "misallocated money (thousand \\$ a year)"
    assert money.yaxis.get_major_formatter()(-12345.2, None) == "\N{MINUS SIGN}12,345"


def triangle(complete):
    """Points of no drawing of the paper: each tells from each other."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    g = geometry.Geometry((0.75, 0.5), (-0.5, 3.5), (-1.5, 2.75), (0.0, 2.5), (-3.0, 1.25), (0.125, 1.0), 1.5)
    figures._triangle(axes, g, complete=complete)
    return axes


def note(text):
    return text.get_text(), text.xy, text.xyann, text.get_horizontalalignment(), text.get_fontsize()


@pytest.mark.parametrize("complete", [False, True])
def test_figure_2_every_line_and_mark(complete):
    pytest.importorskip("matplotlib")
    axes = triangle(complete)
    dash = (BLUE, "--", 1.0, 2)
    lines = [
        ([0.0, 1.0], [0.0, 0.0], FAINT, "-", 0.7, 0),
        ([0.0, 0.0], [0.0, 1.0], FAINT, "-", 0.7, 0),
        ([1.25 - 4.2, 1.6], [4.2, -0.35], INK, "-", 0.8, 1),
        ([0.0, 1.25], [1.25, 0.0], INK, "-", 2.4, 1),
        ([-0.5, -1.5], [3.5, 2.75], *dash),
        ([-1.5, -3.0], [2.75, 1.25], *dash),
        ([-3.0, 0.125], [1.25, 1.0], *dash),
    ]
    points = [((0.75, 0.5), INK), ((-0.5, 3.5), INK), ((-1.5, 2.75), INK), ((0.125, 1.0), BLUE), ((-3.0, 1.25), INK)]
    words = [
        ("$x$", (0.75, 0.5), (7, 4), "left", 11.0),
        ("$\\tilde{x}$", (-0.5, 3.5), (7, 2), "left", 11.0),
        ("$\\pi_S(\\tilde{x})$", (-1.5, 2.75), (-20, 5), "right", 11.0),
        ("$\\pi_{S+}(\\tilde{x})$", (0.125, 1.0), (8, 4), "left", 11.0),
        ("$\\pi_S(\\tilde{x}) - T\\,\\mathbf{1}$", (-3.0, 1.25), (-2, -14), "center", 11.0),
    ]
    if complete:
        lines.append(([-1.5, 0.0], [2.75, 2.5], *dash))
        points.append(((0.0, 2.5), BLUE))
        words.append(("$(\\pi_S(\\tilde{x}))_{\\geq 0}$", (0.0, 2.5), (8, 0), "left", 11.0))
    lines += [([x], [y], colour, "o", 5, 3) for (x, y), colour in points]
    lines.append(([-3.25, -1.5], [2.75, 2.75], FAINT, ":", 0.8, 1))
    same_lines(axes, lines)
    *marks, arrow, brace = axes.texts
    assert [note(t) for t in marks] == words
    assert {t.anncoords for t in marks} == {"offset points"}
    assert note(arrow)[:3] == ("", (-3.25, 2.75), (-3.25, 1.25))
    assert arrow.arrowprops == {"arrowstyle": "<->", "color": INK, "lw": 0.8}
    assert brace.get_text() == "$T = 1.5$"
    assert brace.get_position() == pytest.approx((-3.37, 2.0))
    assert (brace.get_ha(), brace.get_va(), brace.get_fontsize()) == ("right", "center", 11.0)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("$v_1$ (drawing units)", "$v_2$ (drawing units)")
    assert (axes.get_xlim(), axes.get_ylim()) == ((-4.75, 2.45), (-0.5, 4.3))
    assert axes.get_aspect() == 1.0
    assert not axes.spines["right"].get_visible()
    assert axes.spines["left"].get_visible()


def test_figure_2_both_drawings_beside_each_other(monkeypatch):
    pytest.importorskip("matplotlib")
    seen, draw_one = [], figures._triangle
    monkeypatch.setattr(
        figures,
        "_triangle",
        lambda axes, g, complete: seen.append((g, complete)) or draw_one(axes, g, complete=complete),
    )
    made = figures.figure2()
    assert (made.name, made.title) == ("figure2-5", "Figure 2 (fig:err_sum_0) and Figure 5 (fig:full)")
    assert made.caption.startswith("The projections in two dimensions, at the paper's points.")
    assert tuple(made.figure.get_size_inches()) == (8.0, 3.35)
    assert seen == [(geometry.geometry("figure2"), False), (geometry.geometry("figure5"), True)]
    left, right = made.figure.axes
    assert [a.get_title(loc="left") for a in (left, right)] == ["Figure 2", "Figure 5, complete"]
    assert [a.get_subplotspec().get_geometry() for a in (left, right)] == [(1, 2, 0, 0), (1, 2, 1, 1)]


def biases(which, truth, alpha):
    return replace(BASELINE, postprocess=which, truth=np.array(truth), alpha=Estimate(alpha, alpha, alpha))


def test_figure_3_is_a_grid_of_budgets_and_mechanisms():
    pytest.importorskip("matplotlib")
    truth = [0.0, 2e-6, 1e-4, 0.03, 0.97]
    alphas = {"baseline": 0.0241, "pos": 0.0074451, "pos-threshold": 0.012}
    results = {
        (e, which): biases(which, truth, alpha * e) for e in districts.EPSILONS for which, alpha in alphas.items()
    }
    made = figures.figure3(results, "Five trees")
    assert (made.name, made.title) == ("figure3", "Figure 3 (fig:bias), the grid of biases")
    assert made.caption.startswith("Five trees. Bias against true share, Laplace noise; columns are mechanisms")
    assert tuple(made.figure.get_size_inches()) == (8.0, 7.4)
    grid = np.array(made.figure.axes).reshape(3, 3)
    assert [a.get_title() for a in grid.flat] == ["BL", "PoS", "PoS with threshold"] + [""] * 6
    assert [a.get_xlabel() for a in grid.flat] == [""] * 6 + ["true share of the budget"] * 3
    assert [a.get_ylabel() for a in grid.flat] == [
        text for e in ("0.1", "0.01", "0.001") for text in (f"$\\varepsilon$ = {e}\nbias (share of the budget)", "", "")
    ]
    colours = (VERMILION, BLUE, GREEN)
    for axes_row, linear, e in zip(grid, (1e-4, 1e-5, 1e-6), (0.1, 0.01, 0.001), strict=True):
        for axes, colour, alpha in zip(axes_row, colours, alphas.values(), strict=True):
            dots = axes.lines[0]
            assert dots.get_xdata().tolist() == truth
            assert dots.get_ydata().tolist() == BASELINE.bias.tolist()
            assert (dots.get_color(), dots.get_marker(), dots.get_markersize()) == (colour, "o", 2.2)
            assert (dots.get_markeredgewidth(), dots.get_alpha()) == (0, 0.6)
            assert (dots.get_rasterized(), dots.get_gid()) == (True, "bias")
            for line, wanted in zip(
                axes.lines[1:], (level(-linear, style=":"), level(linear, style=":"), level(0.0)), strict=True
            ):
                assert drawn(line)[1] == pytest.approx(wanted[1], rel=1e-9)
                assert drawn(line)[2:] == wanted[2:]
            x, y = axes.xaxis.get_transform(), axes.yaxis.get_transform()
            assert (axes.get_xscale(), axes.get_yscale()) == ("symlog", "symlog")
            assert (x.linthresh, x.linscale) == (2e-6, 0.5)
            assert (y.linthresh, y.linscale) == (pytest.approx(linear), 0.8)
            assert axes.get_xticks() == pytest.approx([0.0, 1e-4, 1e-2])
            assert not axes.spines["right"].get_visible()
            (text,) = axes.texts
            mantissa, exponent = f"{alpha * e:.2e}".split("e-0")
            assert text.get_text() == f"$\\alpha = {mantissa} \\times 10^{{-{exponent}}}$"
            assert text.get_position() == (0.04, 0.05)
            assert text.get_transform() == axes.transAxes
    for line in grid:
        assert len({a.get_ylim() for a in line}) == 1
        assert all(a.get_shared_y_axes().joined(line[0], a) for a in line)
    assert not grid[0, 0].get_shared_y_axes().joined(grid[0, 0], grid[1, 0])
    assert grid[0, 0].get_shared_x_axes().joined(grid[0, 0], grid[2, 2])


def test_figure_3_ticks_are_every_second_power_of_ten_up_to_the_largest():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    for truth, ticks in (
        ([0.0, 1e-5, 0.01, 1.0], [0.0, 1e-4, 1e-2, 1.0]),
        ([0.0, 1e-5, 0.01, 0.99], [0.0, 1e-4, 1e-2]),
        ([0.0, 1.3e-5, 0.01, 0.5], [0.0, 1e-3, 1e-1]),
        ([0.2, 2.0, 90.0], [0.0]),
        ([0.1, 2.0, 90.0], [0.0, 1.0]),
        ([0.012, 2.0, 90.0], [0.0, 0.1]),
    ):
        axes = Figure().add_subplot()
        shown = replace(biases("pos", truth, 1.0), bias=np.zeros(len(truth)))
        figures._row([axes], [shown], 0.5)
        assert axes.get_xticks() == pytest.approx(ticks), truth


# -- all of it ----------------------------------------------------------------------------------------------------------


def test_reproduce_steps_are_parts_of_the_whole():
    assert main.STEPS == (("Hawaii", 0.1), ("school districts", 0.75), ("theorems", 0.1), ("figures and page", 0.05))
    assert sum(part for _, part in main.STEPS) == pytest.approx(1.0)
    seen = []
    for step, _ in main.STEPS:
        tick = main._within(lambda name, done: seen.append((name, done)), step)
        tick(0.0)
        tick(0.5)
        tick(1.0)
    assert [name for name, _ in seen] == [name for name, _ in main.STEPS for _ in range(3)]
    parts = [0.0, 0.05, 0.1, 0.1, 0.475, 0.85, 0.85, 0.9, 0.95, 0.95, 0.975, 1.0]
    assert [done for _, done in seen] == pytest.approx(parts)
    main._within(lambda name, done: seen.append((name, done)), "figures and page")(1.5)
    assert seen[-1] == ("figures and page", 1.0)


def test_reproduce_runs():
    assert districts.Runs(1_000_000, 200_000) == main.FULL
    assert districts.Runs(1_000_000, 2_000) == main.QUICK


def test_reproduce_data_are_read_and_named(tmp_path):
    one = main.district_data(None, "c", "w")
    assert one.synthetic
    assert one.label == f"SYNTHETIC, {one.counts.n:,} districts that follow the quantiles of SAIPE 2019; weights 1"
    given = fp.Counts([1.0, 2.0], weights=[1.0, 3.0])
    assert main.district_data(given, "c", "w") == main.Data(given, "2 districts, c, weights w", False)
    path = tmp_path / "d.old"
    path.write_text("key\tother\tpoor\tw\n07\t1\t3\t2.5\n08\t2\t4\t1.5\n")
    read = main.district_data(path, "poor", "w", "key", "tsv")
    assert (read.counts.ids, read.counts.values.tolist()) == (("07", "08"), [3.0, 4.0])
    assert read.counts.weights.tolist() == [2.5, 1.5]
    assert (read.label, read.synthetic) == ("d.old, 2 districts, column poor, weights w", False)
    plain = main.district_data(path, "poor", "1", "key", "tsv")
    assert plain.counts.weights.tolist() == [1.0, 1.0]
    assert (plain.counts.ids, plain.counts.values.tolist()) == (("07", "08"), [3.0, 4.0])
    usual = tmp_path / "d.csv"
    usual.write_text("leaid,poor,weight,group\n07,3,2.5,n\n08,4,1.5,s\n")
    alike = main.district_data(usual, "poor", "1").counts  # a column that has the name of weights is not asked for
    assert (alike.ids, alike.weights.tolist(), alike.groups) == (("07", "08"), [1.0, 1.0], ("n", "s"))


def test_reproduce_computes_everything_once(monkeypatch):
    seen, ticks = [], []
    monkeypatch.setattr(
        hawaii, "counties", lambda runs, seed, tick, device: seen.append((runs, seed, device)) or tick(1) or "rows"
    )
    monkeypatch.setattr(
        districts,
        "allocations",
        lambda counts, runs, seed, tick, device: seen.append((counts, runs, seed, device)) or tick(1) or "cells",
    )
    monkeypatch.setattr(hawaii, "values", lambda rows: {"h": rows})
    monkeypatch.setattr(districts, "values", lambda cells: {"d": cells})
    monkeypatch.setattr(geometry, "values", lambda: {"g": 1})
    monkeypatch.setattr(examples, "examples", lambda rows: ("examples", rows))
    monkeypatch.setattr(examples, "values", lambda found: {"e": found})
    monkeypatch.setattr(hawaii, "table1", lambda rows: ("table1", rows))
    monkeypatch.setattr(districts, "table2", lambda cells, label: ("table2", cells, label))
    monkeypatch.setattr(districts, "price", lambda cells, label: ("price", cells, label))
    monkeypatch.setattr(main, "compare_all", lambda computed: ("compared", computed))
    monkeypatch.setattr(main, "theorems", lambda tick: tick(1) or "theorems")
    data, runs = main.Data(fp.Counts([1.0, 2.0]), "two trees", False), districts.Runs(5, 6)
    found = main.compute(data, runs, quick=True, seed=7, progress=lambda *done: ticks.append(done), device="gpu")
    assert seen == [(5, 7, "gpu"), (data.counts, runs, 7, "gpu")]
    assert ticks == [("Hawaii", 0.1), ("school districts", pytest.approx(0.85)), ("theorems", pytest.approx(0.95))]
    named = ("examples", "rows")
    assert (found.data, found.runs, found.seed, found.quick) == (data, runs, 7, True)
    assert (found.counties, found.cells, found.examples, found.theorems) == ("rows", "cells", named, "theorems")
    assert found.tables == (("table1", "rows"), ("table2", "cells", "two trees"), ("price", "cells", "two trees"))
    assert found.comparisons == ("compared", {"h": "rows", "d": "cells", "g": 1, "e": named})
    assert found.mark == main.CONFIDENTIAL
    assert found.recipe is None
    usual = main.compute(data, runs, quick=False)
    assert (usual.seed, usual.quick) == (0, False)
    assert seen[2:] == [(5, 0, "cpu"), (data.counts, runs, 0, "cpu")]


def test_reproduce_draws_from_the_tables_results(monkeypatch):
    monkeypatch.setattr(figures, "release_result", lambda: "release")
    monkeypatch.setattr(figures, "figure1_left", lambda shown: ("left", shown))
    monkeypatch.setattr(figures, "figure1_right", lambda shown, label: ("right", shown, label))
    monkeypatch.setattr(figures, "figure2", lambda: "two")
    monkeypatch.setattr(figures, "figure3", lambda best, label: ("three", best, label))
    keys = [(e, which) for e in districts.EPSILONS for which in districts.NAMES]
    cells = {key: SimpleNamespace(best=f"best {key}") for key in keys}
    best = {key: f"best {key}" for key in keys}
    assert main.drawings(small_findings(cells=cells)) == (
        ("left", "release"),
        ("right", best[0.01, "baseline"], "two trees"),
        "two",
        ("three", best, "two trees"),
    )


@pytest.fixture
def asked(monkeypatch):
    """`reproduce` without its computing and painting: what it was asked for."""
    pytest.importorskip("matplotlib")
    seen = {}

    def compute(data, runs, **given):
        seen.update(data=data, runs=runs, given=given)
        return small_findings(data=data)

    monkeypatch.setattr(main, "compute", compute)
    monkeypatch.setattr(main, "drawings", lambda found: PAINTED)
    return seen


def test_reproduce_as_usual(tmp_path, asked):
    done = main.reproduce(tmp_path / "out")
    assert done.page == tmp_path / "out" / "index.html"
    assert done.figures == tuple(
        tmp_path / "out" / "figures" / f"{d.name}.{end}" for d in PAINTED for end in ("png", "pdf")
    )
    assert all(path.exists() for path in (done.page, *done.figures))
    assert asked["data"].synthetic
    assert asked["runs"] == main.FULL
    assert asked["given"] == {"quick": False, "seed": 0, "progress": None, "device": "cpu"}
    assert done.findings.recipe == Recipe.of(str(tmp_path / "out"), None)
    assert done.tables == done.findings.tables
    assert done.comparisons == SIDES
    assert [c.published.key for c in done.surprises] == ["m"]
    with pytest.raises(fp.InputError, match="must be empty"):
        main.reproduce(tmp_path / "out")
    main.reproduce(tmp_path / "out", force=True)


def test_reproduce_with_everything_said(tmp_path, asked, monkeypatch):
    path = tmp_path / "d.old"
    path.write_text("key\tpoor\tw\n07\t3\t2.5\n08\t4\t1.5\n")
    ticks = []

    def progress(step, done):
        ticks.append((step, done))

    given = {"column": "poor", "weights": "w", "quick": True, "seed": 4, "id": "key", "format": "tsv", "device": "auto"}
    done = main.reproduce(str(tmp_path / "out"), saipe=path, progress=progress, **given)
    assert asked["data"].label == "d.old, 2 districts, column poor, weights w"
    assert asked["runs"] == main.QUICK
    assert asked["given"] == {"quick": True, "seed": 4, "progress": progress, "device": "auto"}
    assert done.findings.recipe == Recipe.of(str(tmp_path / "out"), str(path), **given)
    assert ticks == [("figures and page", pytest.approx(0.95)), ("figures and page", 1.0)]
    counts = fp.Counts([1.0, 2.0])
    done = main.reproduce(tmp_path / "other", saipe=counts)
    assert done.findings.recipe is None
    assert asked["data"].label == "2 districts, poor_5_17, weights 1"
    usual = tmp_path / "d.csv"
    usual.write_text("leaid,poor_5_17\n07,3\n08,4\n")
    main.reproduce(tmp_path / "third", saipe=usual)
    assert asked["data"].label == "d.csv, 2 districts, column poor_5_17, weights 1"
