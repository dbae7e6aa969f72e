"""The numbers of the paper's reproduction, one by one: each recomputed here by other means, and each statement made to fail.

Rules, noise and the exact engine have tests of their own; here they are inputs. A demonstration that is handed a broken rule,
or a result made by hand, must say the numbers that follow from it, and that it does not hold.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import fairpost as fp
from fairpost.accuracy import Estimate
from fairpost.noise import Stream
from fairpost.paper import districts, examples, folder, published
from fairpost.paper import theorems_allocation as allocation
from fairpost.paper import theorems_appendix as appendix
from fairpost.paper import theorems_release as release
from fairpost.paper.demonstration import Demonstration, Number, rounding
from fairpost.paper.published import Comparison, Computed, Published
from support.rules import projected

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


def test_a_number_says_its_error():
    assert Number("a", 1 / 3) == Number("a", 1 / 3, None)
    assert str(Number("a", 1 / 3)) == "0.333333"
    assert str(Number("a", (1 / 3, 2e-9), 2.34e-5)) == "(0.333333, 2e-09) ± 2e-05"
    assert str(Number("a", 12345678.0, 0.0)) == "1.23457e+07 ± 0"
    assert Demonstration("n", "t", "s", "c", (), True).remark == ""


# -- section 6: release -------------------------------------------------------------------------------------------------


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


# -- the examples -------------------------------------------------------------------------------------------------------


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


# -- Table 1 ------------------------------------------------------------------------------------------------------------


def ends(e):
    return e.value, e.low, e.high


# -- Table 2 ------------------------------------------------------------------------------------------------------------


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


# -- the folder ---------------------------------------------------------------------------------------------------------


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


# -- all of it ----------------------------------------------------------------------------------------------------------
