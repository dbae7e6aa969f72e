"""Everything that a simulation states, recomputed from the runs themselves by the definitions in the documentation.

The runs are drawn once more from their streams and post-processed row by row; from there on only NumPy and
scipy.stats are used. Two computations of the same sums differ by rounding, about 1e-13 of the largest number on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
import pytest
from scipy import stats

import fairpost as fp
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.noise import Mechanism
from fairpost.rules import POSTPROCESSINGS
from fairpost.rules.affine.projection import Affine, AffineNonnegative
from fairpost.rules.custom import Custom
from support.engines import samples

GROUPS = list("aabbabababbaab")
X = [3, 3, 3, 0, 0, 3, 7, 7, 20, 20, 55, 55, 90, 3]
A = [1, 5, 1, 2, 2, 5, 1, 4, 1, 1, 0.5, 3, 1, 5]
COUNTS = fp.Counts(X, weights=A, groups=GROUPS)
NOISE = fp.Laplace(6.0)
SEED, BLOCK, CONFIDENCE = 5, 8, 0.9
RUNS = {"many blocks": 37 * BLOCK, "few blocks": 20 * BLOCK + 3}  # ties are told by blocks from 32 blocks on
RELEASES = ["none", "nonnegative", "sum", "sum-clipped", "simplex", "simplex-threshold"]
ALLOCATIONS = ["baseline", "pos", "pos-threshold"]
KEEPS_TOTAL = ["sum", "sum-clipped", "simplex", "simplex-threshold"]


@dataclass(frozen=True)
class Split:
    """pi(X) - P(x) = offset + L(noise) + d, with what a run that was not seen may add to d, and who is alike."""

    truth: np.ndarray
    offset: np.ndarray
    linear: np.ndarray
    unseen: np.ndarray
    alike: list[Any]


def split(name: str, by_group: bool, noise: np.ndarray, total: float | None = None) -> Split:
    """From the documentation of the controls: deviation of the noise times 1 (clipping) or 10 (a threshold's jump)."""
    x, a, n = COUNTS.values, COUNTS.weights, COUNTS.n
    label = np.array(GROUPS if by_group else ["all"] * n)
    deviation = np.sqrt(2.0) * 6.0
    jump = 10.0 if name.endswith("threshold") else 1.0
    truth, offset, linear, unseen = x.copy(), np.zeros(n), noise.copy(), np.full(n, jump * deviation)
    if name in ("none", "sum"):
        unseen = np.zeros(n)
    for g in np.unique(label):
        here = label == g
        if name in KEEPS_TOTAL:
            linear[:, here] -= noise[:, here].mean(axis=1, keepdims=True)
            offset[here] = 0.0 if total is None else (total - x.sum()) / n
        if name in ALLOCATIONS:
            need = np.sum(a[here] * x[here])
            w, p = a[here] / need, a[here] * x[here] / need
            truth[here] = p
            linear[:, here] = w * noise[:, here] - p * (noise[:, here] @ w)[:, None]
            unseen[here] = jump * deviation * np.sqrt(w**2 * (1 - 2 * p) + p**2 * np.sum(w**2))
    keys = [x.tolist(), a.tolist() if name in ALLOCATIONS else [0] * n, label.tolist()]
    return Split(truth, offset, linear, unseen, list(zip(*keys, strict=True)))


def noise_of(runs: int, first: int = 0) -> np.ndarray:
    return np.stack([NOISE.sample(COUNTS.n, fp.Stream(SEED, first + r)) for r in range(runs)])


def pilot() -> np.ndarray:
    """256 runs that no simulation reaches."""
    return noise_of(256, 2**62)


def coefficients(e: np.ndarray, linear: np.ndarray, alike: list[Any], unit: float) -> np.ndarray:
    """How much of L is subtracted, in [0, 1]: where what each half of the pilot finds beats 0 and 1 in the other; those alike together."""
    out = np.empty(len(alike))
    for key in dict.fromkeys(alike):
        who = np.array([k == key for k in alike])
        halves = [(e[a : a + 128, who], linear[a : a + 128, who]) for a in (0, 128)]
        E, L, d = (
            [v - v.mean(axis=0) for v in values]
            for values in zip(*((x, y, np.where(np.abs(x - y) < unit, 0.0, x - y)) for x, y in halves), strict=True)
        )
        slope = [np.clip(np.sum(x * y) / np.sum(y * y), 0, 1) for x, y in zip(E, L, strict=True)]
        ends = sum(np.sum(v**2) for v in d), sum(np.sum(v**2) for v in E)
        tried = np.sum((E[0] - slope[1] * L[0]) ** 2) + np.sum((E[1] - slope[0] * L[1]) ** 2)
        better = tried < min(ends) * (1 - 1e-9)
        both = sum(np.sum(x * y) for x, y in zip(E, L, strict=True)) / sum(np.sum(y * y) for y in L)
        out[who] = np.clip(both, 0, 1) if better else float(ends[0] <= ends[1])
    return out


def with_sums(
    bias: np.ndarray, half: np.ndarray, e: np.ndarray, d: np.ndarray, alike: list[Any], label: np.ndarray
) -> Any:
    """What the sum of a group lacks goes to its members in proportion to their variances, and into their widths."""
    squares = ((d - d.mean(axis=0)) ** 2).sum(axis=0)
    squares = np.array([np.mean([v for v, other in zip(squares, alike, strict=True) if other == k]) for k in alike])
    moved = np.zeros(bias.size)
    for g in np.unique(label):
        here = label == g
        if squares[here].sum() > 0:
            moved[here] = squares[here] / squares[here].sum() * (e.mean(axis=0) - bias)[here].sum()
    return bias + moved, half + np.abs(moved)


def width(error: Any, unseen: Any, runs: int, delta: float, freedom: Any) -> Any:
    """t(1 - delta/2) se + log(2/delta) s/R."""
    return stats.t.ppf(1 - delta / 2, freedom) * error + np.log(2 / delta) * unseen / runs


def classes_of(d: np.ndarray, unseen: np.ndarray, alike: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bias (less its offset), standard error and simultaneous half width of each entity."""
    runs, n = d.shape
    found, delta = list(dict.fromkeys(alike)), 1 - CONFIDENCE
    cuts = [*range(0, runs, BLOCK), runs]
    bias, error, half = np.empty(n), np.empty(n), np.empty(n)
    for key in found:
        who = np.array([k == key for k in alike])
        mean = d[:, who].mean(axis=1)
        freedom = runs - 1
        se = np.mean(d[:, who].std(axis=0, ddof=1)) / np.sqrt(runs)
        if who.sum() > 1 and len(cuts) - 1 >= 32:
            parts = [(b - a, mean[a:b].mean()) for a, b in pairwise(cuts)]
            between = sum(size * (m - mean.mean()) ** 2 for size, m in parts)
            freedom = len(parts) - 1
            se = np.sqrt(between / freedom / runs)
        bias[who], error[who] = mean.mean(), se
        half[who] = width(se, unseen[who].mean(), runs, delta / len(found), freedom)
    return bias, error, half


def width_of_squares(squares: np.ndarray, mse: np.ndarray, unseen: np.ndarray) -> Any:
    """All mean squared errors together: t se with the scatter of the blocks' own, blocks - 1 degrees of freedom; unseen 2 |e| s + s^2."""
    runs, n = squares.shape
    parts = [(b - a, squares[a:b].mean(axis=0)) for a, b in pairwise([*range(0, runs, BLOCK), runs])]
    between = sum(size * (own - squares.mean(axis=0)) ** 2 for size, own in parts)
    freedom = len(parts) - 1
    moved = unseen**2 + 2 * np.sqrt(mse) * unseen
    return width(np.sqrt(between / freedom / runs), moved, runs, (1 - CONFIDENCE) / n, freedom)


CASES = [(which, False, None) for which in RELEASES + ALLOCATIONS]
CASES += [(which, True, None) for which in KEEPS_TOTAL + ALLOCATIONS]
CASES += [(which, False, 400.0) for which in KEEPS_TOTAL]


@pytest.mark.parametrize(("which", "by_group", "total"), CASES)
@pytest.mark.parametrize("amount", list(RUNS))
def test_every_number_of_a_simulation(which: str, by_group: bool, total: float | None, amount: str) -> None:
    runs = RUNS[amount]
    given = {} if which in ("none", "nonnegative") else {"by_group": by_group}
    if total is not None:
        given["total"] = total
    pi = POSTPROCESSINGS[which].from_counts(COUNTS, **given)
    engine = MonteCarlo(runs, seed=SEED, block=BLOCK, confidence=CONFIDENCE, threads=1)
    (found,) = samples(engine, COUNTS, NOISE, [pi])
    noise = noise_of(runs)
    out = pi.for_mechanism(NOISE).apply(COUNTS.values + noise)
    parts = split(which, by_group, noise, total)
    unit = 1e-12 * (np.abs(COUNTS.values + noise).max() if not pi.problem.shares else 1.0)
    e = out.values - parts.truth - parts.offset
    before = split(which, by_group, pilot(), total)
    first = pi.for_mechanism(NOISE).apply(COUNTS.values + pilot()).values - before.truth - before.offset
    d = e - coefficients(first, before.linear, before.alike, unit) * parts.linear
    d[np.abs(d) < unit] = 0.0
    bias, error, half = classes_of(d, parts.unseen, parts.alike)
    if which in KEEPS_TOTAL + ALLOCATIONS and which != "sum-clipped":
        label = np.array(GROUPS if by_group else ["all"] * COUNTS.n)
        bias, half = with_sums(bias, half, e, d, parts.alike, label)
    assert found.bias == pytest.approx(bias + parts.offset, rel=0, abs=unit)
    assert found.standard_error == pytest.approx(error, rel=1e-9, abs=unit)
    assert found.half_width == pytest.approx(half, rel=1e-9, abs=unit)
    assert found.plain == pytest.approx(e.mean(axis=0) + parts.offset, abs=unit)
    assert found.plain_error == pytest.approx(e.std(axis=0, ddof=1) / np.sqrt(runs), rel=1e-9)
    shared = np.array([[k == other for other in parts.alike] for k in parts.alike], dtype=float)
    shared /= shared.sum(axis=1, keepdims=True)
    variance = shared @ e.var(axis=0, ddof=1)
    assert found.deviation == pytest.approx(np.sqrt(variance), rel=1e-9)
    mse = shared @ ((e + parts.offset) ** 2).mean(axis=0)
    assert found.mse == pytest.approx(mse, rel=1e-9)
    assert found.zero == pytest.approx(shared @ (np.abs(out.values) <= unit).mean(axis=0), abs=1e-12)
    assert found.degenerate == out.degenerate
    assert (found.runs, found.seed, found.confidence) == (runs, SEED, CONFIDENCE)
    around = width_of_squares((e + parts.offset) ** 2, mse, parts.unseen)
    assert found.mse_half_width == pytest.approx(shared @ around, rel=1e-9)
    spread = np.sqrt(found.zero * (1 - found.zero) / (runs - 1))
    wide = np.minimum(width(spread, 1.0, runs, (1 - CONFIDENCE) / COUNTS.n, runs - 1), 1.0)
    assert found.zero_half_width == pytest.approx(wide, rel=1e-9)
    _alpha_is_the_definition(found, which, by_group, (d, e, bias, half, parts), unit)


def _alpha_is_the_definition(found: Any, which: str, by_group: bool, sums: tuple[Any, ...], unit: float) -> None:
    d, e, bias, half, parts = sums
    runs = len(d)
    if which in ("nonnegative", "sum-clipped", "simplex") and not by_group:  # a theorem names the pair
        ends = [COUNTS.values == v for v in (COUNTS.values.min(), COUNTS.values.max())]
        gap, plain = (v[:, ends[0]].mean(axis=1) - v[:, ends[1]].mean(axis=1) for v in (d, e))
        h = width(gap.std(ddof=1) / np.sqrt(runs), parts.unseen.max(), runs, 1 - CONFIDENCE, runs - 1)
        wanted = (gap.mean(), max(gap.mean() - h, 0.0), gap.mean() + h)
        assert found.pair == (3, 12)
        assert found.reduction == pytest.approx(plain.var() / gap.var(), rel=1e-9)
    else:
        low, high = np.max(bias - half) - np.min(bias + half), np.max(bias + half) - np.min(bias - half)
        wanted = (np.ptp(bias), max(0.0, low), high)
        most, least = found.pair
        assert bias[most] == pytest.approx(bias.max(), abs=unit)
        assert bias[least] == pytest.approx(bias.min(), abs=unit)
        ratio = e[:, [most, least]].var(axis=0).sum() / max(d[:, [most, least]].var(axis=0).sum(), 1e-300)
        if which in ("none", "sum"):  # nothing is left of d, or rounding
            assert found.reduction is None or found.reduction > 1e20
        else:
            assert found.reduction == pytest.approx(ratio, rel=1e-9)
    assert (found.alpha.value, found.alpha.low, found.alpha.high) == pytest.approx(wanted, rel=1e-9, abs=4 * unit)


def test_linear_constraints_have_their_projection_as_control() -> None:
    """(P_+) against d by the pseudo-inverse; (P) leaves nothing; nothing is tied."""
    rows = np.array([[1.0] * 14, [1.0, 1.0] + [0.0] * 12])
    right = rows @ COUNTS.values + np.array([9.0, 3.0])
    runs, noise = 200, noise_of(200)
    engine = MonteCarlo(runs, seed=SEED, block=BLOCK, confidence=CONFIDENCE, threads=1)
    linear, clipped = samples(engine, COUNTS, NOISE, [Affine(rows, right), AffineNonnegative(rows, right)])
    lift = np.linalg.pinv(rows)
    keep = np.eye(14) - lift @ rows
    offset = lift @ (right - rows @ COUNTS.values)
    rule = AffineNonnegative(rows, right)
    first, e = (rule(COUNTS.values + z) - COUNTS.values - offset for z in (pilot(), noise))
    d = e - coefficients(first, pilot() @ keep.T, list(range(14)), 1e-10) * (noise @ keep.T)
    half = width(d.std(axis=0, ddof=1) / np.sqrt(runs), np.sqrt(2) * 6, runs, (1 - CONFIDENCE) / 14, runs - 1)
    assert clipped.bias == pytest.approx(d.mean(axis=0) + offset, abs=1e-10)
    assert clipped.half_width == pytest.approx(half, rel=1e-7)
    assert linear.bias == pytest.approx(offset, abs=1e-10)
    assert linear.half_width.max() < 1e-9


def pushed(pi: Custom) -> np.ndarray:
    """Ten deviations in 32 runs, or what each output does when its own noise alone is 2.5, 5 or 10 deviations, up or down."""
    noise = np.stack([NOISE.sample(14, fp.Stream(2**63 + 7, r)) for r in range(32)])
    seen = pi(COUNTS.values + noise)
    out = 10 * seen.std(axis=0)
    for i in range(14):
        for k, push in enumerate((2.5, -2.5, 5, -5, 10, -10)):
            z = noise[k].copy()
            z[i] = push * np.sqrt(2) * 6
            out[i] = max(out[i], abs(pi(COUNTS.values + z)[i] - seen[:, i].mean()))
    return out


def test_a_function_of_ones_own_is_measured_by_its_plain_mean() -> None:
    """An event not seen adds what noise of up to ten deviations was seen to do. Nothing is known to be tied."""
    own = Custom(lambda noisy: np.maximum(noisy, 1.0))
    share = Custom(
        lambda noisy: np.maximum(noisy, 0.5) / np.maximum(noisy, 0.5).sum(), problem=fp.Proportional(COUNTS.weights)
    )
    runs, noise = 200, noise_of(200)
    found = samples(MonteCarlo(runs, seed=SEED, block=BLOCK, confidence=CONFIDENCE), COUNTS, NOISE, [own, share])
    need = COUNTS.weights * COUNTS.values
    for sample, truth, pi in zip(found, (COUNTS.values, need / need.sum()), (own, share), strict=True):
        unseen = pushed(pi)
        d = pi(COUNTS.values + noise) - truth
        half = width(d.std(axis=0, ddof=1) / np.sqrt(runs), unseen, runs, (1 - CONFIDENCE) / 14, runs - 1)
        assert sample.bias == pytest.approx(d.mean(axis=0), abs=1e-11)
        assert sample.half_width == pytest.approx(half, rel=1e-9)


@final
@dataclass(frozen=True)
class Own(Mechanism):
    """A mechanism that the kernels do not know: Laplace noise through the general way."""

    scale: float

    @property
    def variance(self) -> float:
        return fp.Laplace(self.scale).variance

    def sample(self, n: int, stream: fp.Stream) -> Any:
        return fp.Laplace(self.scale).sample(n, stream)


@pytest.mark.parametrize("which", ["nonnegative", "simplex", "baseline", "pos"])
@pytest.mark.parametrize("block", [7, 64, 500])
def test_a_mechanism_of_ones_own_draws_new_noise_in_every_block(which: str, block: int) -> None:
    """The same streams as Laplace noise, whatever the blocks: the same numbers but for rounding."""
    pi = POSTPROCESSINGS[which].from_counts(COUNTS)
    a, b = (samples(MonteCarlo(500, seed=3, block=block), COUNTS, m, [pi])[0] for m in (Own(6.0), NOISE))
    for name in ("plain", "plain_error", "mse", "zero"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-9, abs=1e-11)
    assert a.plain_error.min() > 0


def test_the_stop_rule_looks_at_both_sides_of_alpha() -> None:
    """Biases 1 and 0 without noise and 0.2 with much: alpha may be far above 1 and not far below.

    The rule looks after 1, 2, 3, 4, 6, 8, 12, ... blocks and at 1000 runs or more, and ends where both sides are narrow.
    """
    counts = fp.Counts([10.0, 100.0, 10.0])
    pi = Custom(lambda noisy: np.array([11.0, noisy[1] + 0.2, 10.0]))
    for rtol in (0.5, 0.3):
        (found,) = samples(MonteCarlo(10**6, rtol=rtol, block=100, seed=1), counts, fp.Laplace(12.0), [pi])
        sides = found.alpha.high - found.alpha.value, found.alpha.value - found.alpha.low
        assert max(sides) <= rtol * found.alpha.value
        assert max(sides) > 2 * min(sides)  # so that one side alone would not do
        looks = [1, *(2**k + half for k in range(1, 20) for half in (0, 2 ** (k - 1)))]
        assert found.runs // 100 in looks
        before = max(k for k in looks if k < found.runs // 100)
        (sooner,) = samples(MonteCarlo(before * 100, block=100, seed=1), counts, fp.Laplace(12.0), [pi])
        wide = max(sooner.alpha.high - sooner.alpha.value, sooner.alpha.value - sooner.alpha.low)
        assert before * 100 >= 1000
        assert wide > rtol * sooner.alpha.value
