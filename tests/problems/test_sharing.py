"""Hold-harmless and a group minimum in one law: the payments by another algorithm, the mean field against simulation."""

from dataclasses import replace

import numpy as np
import pytest

import fairpost as fp
from fairpost.rules import PAYING

HELD = 'hold_harmless = { last = "last_year", rate = [["0 %", 0.85], ["15 %", 0.90], ["30 %", 0.95]] }\n'
LEAST = "minimum = { percent = 3, average = 150 }\n"
PLAIN = 'name = "p"\neligible = ["count >= 10", "count > 2 % of base"]\n'


def bisected(pay, target, high):
    """The factor at which `pay` is `target`, by plain bisection: no slopes, no sets."""
    low = 0.0
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if pay(middle) < target else (low, middle)
    return high


def by_hand(G, H, least, member):
    """max(H, lambda G) inside groups that get at least their minimum, entity by entity and group by group."""
    groups = range(int(member.max()) + 1)

    def spent(factor):
        return np.maximum(least, np.bincount(member, np.maximum(H, factor * G))).sum()

    out = np.empty(G.size)
    factor = 0.0 if spent(0.0) >= 1 else bisected(spent, 1.0, 2 / G.sum())
    for s in groups:
        g, h = G[member == s], H[member == s]
        own = factor
        if np.maximum(h, factor * g).sum() < least[s]:
            own = bisected(lambda k, g=g, h=h: np.maximum(h, k * g).sum(), least[s], 2 * least[s] / g.sum())
        out[member == s] = np.maximum(h, own * g)
    return out / max(spent(0.0), 1.0)


def some(n=240, seed=3):
    rng = np.random.default_rng(seed)
    base = rng.integers(80, 4000, n)
    x = rng.binomial(base, rng.uniform(0.03, 0.4, n))
    groups = [f"s{min(int(k), 14):02}" for k in rng.exponential(4.0, n)]
    counts = fp.Counts(x, base=base, groups=groups, weights=rng.uniform(1, 1.4, n))
    last = rng.uniform(0.3, 1.6, n) * x * counts.weights
    return counts, last / last.sum()


@pytest.mark.parametrize("seed", range(12))
def test_both_floors_by_newton_and_by_bisection(seed):
    """The payments of the law itself, against max(H, lambda G) group by group; the last seeds owe more than there is."""
    counts, last = some(30, seed)
    law = fp.Programme.from_toml(PLAIN + HELD + LEAST.replace("percent = 3", f"percent = {2 + seed % 3 * 2}"))
    last = last * (0.4 if seed < 9 else 3.0)
    applied = law.on(counts, last)
    G = applied.entitled(counts.values, counts.base) * counts.weights
    H = np.where(G > 0, last * law.hold_harmless.part(counts.values, counts.base), 0.0)
    member = np.unique(counts.groups, return_inverse=True)[1]
    paid = applied.truth(counts)
    least = minima(law, counts.values, G, member)
    np.testing.assert_allclose(paid, by_hand(G, H, least, member), rtol=1e-12, atol=1e-16)
    assert paid.sum() == pytest.approx(1, rel=1e-13)
    owed = np.maximum(least, np.bincount(member, H)).sum()
    assert (owed > 1) == (seed >= 9)
    if owed <= 1:
        assert (paid >= H * (1 - 1e-13)).all()
        assert (np.bincount(member, paid) >= least * (1 - 1e-13)).all()


def minima(law, x, G, member):
    """The least that each group gets: the percentage, or half of it and half of what its counts would give, times average."""
    m, average = law.minimum.percent, law.minimum.average
    m, average = (m / 100, average / 100) if m > 1 else (m, average)
    people = np.bincount(member, np.maximum(x, 0)) / np.maximum(x, 0).sum()
    return np.where(np.bincount(member, G) > 0, np.minimum(m, (m + average * people) / 2), 0.0)


def test_one_floor_is_the_case_of_none_of_the_other():
    counts, last = some()
    both = fp.Programme.from_toml(PLAIN + HELD + LEAST).on(counts, last)
    member = np.unique(counts.groups, return_inverse=True)[1]
    G = both.entitled(counts.values, counts.base) * counts.weights
    paid, least = both.truth(counts), minima(both, counts.values, G, member)
    H = np.where(G > 0, last * both.hold_harmless.part(counts.values, counts.base), 0.0)
    lifted = np.bincount(member, paid) < least * (1 + 1e-12)
    assert 3 <= lifted.sum() < member.max()  # some groups are at their minimum
    assert 20 < np.count_nonzero(paid == H) < 200  # and some entities at what they had
    for kept in (HELD, LEAST):
        single = fp.Programme.from_toml(PLAIN + kept).on(counts, last)
        none = replace(both.minimum, percent=0.0, average=0.0)
        other = replace(both, last=0 * last) if kept == LEAST else replace(both, minimum=none)
        np.testing.assert_allclose(other.truth(counts), single.truth(counts), rtol=1e-13)
    with pytest.raises(fp.InputError, match="one appropriation for all"):
        fp.audit(counts, fp.Laplace(3.0), "as-written", programme=single, last=last, by_group=True)


CASES = {"minimum": PLAIN + LEAST, "both": PLAIN + HELD + LEAST}


@pytest.mark.parametrize("noise", [fp.Laplace(6.0), fp.DiscreteGaussian(8.0)], ids=lambda n: n.name)
@pytest.mark.parametrize("which", CASES)
def test_floors_by_mean_field_and_by_simulation(which, noise):
    """An own simulation (other draws, payments by bisection) agrees with the engine's; the mean field is near both.

    400 own runs. z-scores of 240 entities have a deviation of 1 within 5 * sqrt(1/480) (neighbours share sums, so a little more).
    """
    counts, last = some()
    law = fp.Programme.from_toml(CASES[which])
    n, runs = counts.n, 400
    held = law.hold_harmless is not None
    asked = {"programme": law, "last": last if held else None}
    run = fp.audit(counts, noise, "as-written", engine=fp.MonteCarlo(runs=6000, seed=5), **asked)
    rng = np.random.default_rng(11)
    draws = rng.laplace(0, 6.0, (runs, n))
    if noise.discrete:
        points = np.arange(-80, 81)
        draws = rng.choice(points, (runs, n), p=noise.density(points) / noise.density(points).sum())
    member = np.unique(counts.groups, return_inverse=True)[1]
    applied, seen = law.on(counts, asked["last"]), []
    for row in counts.values + draws:
        G = applied.entitled(row, counts.base) * counts.weights
        people = np.bincount(member, np.maximum(row, 0)) / np.maximum(row, 0).sum()
        least = np.where(np.bincount(member, G) > 0, np.minimum(0.03, (0.03 + 1.5 * people) / 2), 0.0)
        H = np.where(G > 0, last * law.hold_harmless.part(row, counts.base), 0.0) if held else np.zeros(n)
        seen.append(by_hand(G, H, least, member) - run.truth)
    bias, error = np.mean(seen, axis=0), np.std(seen, axis=0) / np.sqrt(runs)
    moving = (np.abs(seen - np.median(seen, axis=0)) > 1e-12).sum(
        axis=0
    ) >= 20  # not those that are held in (almost) every run
    z = (run.bias - bias)[moving] / error[moving]
    assert moving.sum() > (80 if held else 230)
    assert 0.75 < z.std() < 1.25
    assert np.abs(z).max() < 5
    assert np.median((run.sample.plain_error / np.maximum(run.standard_error, 1e-18))[moving]) ** 2 > 3
    # the plug-in of exact counts is the mean field, near both
    field = PAYING["as-written"].from_counts(counts, **asked).for_mechanism(noise).mean_field(counts.values, noise)
    assert field.mean.sum() == pytest.approx(1, abs=1e-12)
    assert np.abs(field.bias - run.bias).max() < 0.05 * np.ptp(run.bias)  # of second order in the noise of a sum


@pytest.mark.parametrize("which", ["minimum", "both"])
def test_which_groups_are_at_their_minimum(which):
    """By bisection, run by run on the same draws; 300 runs. From inside: only a page and a screen show them."""
    from fairpost.engines.montecarlo.floors import minimum_changes

    counts, last = some()
    last = 0.4 * last  # floors that leave something to share
    law = fp.Programme.from_toml(CASES[which].replace("percent = 3", "percent = 6.5"))  # near the share of some groups
    held = law.hold_harmless is not None
    applied = law.on(counts, last if held else None)
    noise = fp.Laplace(12.0)
    found = minimum_changes(counts, noise, applied, runs=300, seed=4)
    labels, member = np.unique(counts.groups, return_inverse=True)

    def at_least(row):
        G = applied.entitled(row, counts.base) * counts.weights
        people = np.bincount(member, np.maximum(row, 0)) / np.maximum(row, 0).sum()
        least = np.minimum(0.065, (0.065 + 1.5 * people) / 2)
        H = np.where(G > 0, last * law.hold_harmless.part(row, counts.base), 0.0) if held else np.zeros(G.size)
        paid = by_hand(G, H, least, member)
        # lifted: somebody who is not held gets a larger part of their G than the least in the country
        part = np.where((G > 0) & (paid > H * (1 + 1e-9)), paid / np.where(G > 0, G, 1.0), np.nan)
        lowest = np.nanmin(part)
        return np.array([(part[member == s] > lowest * (1 + 1e-9)).any() for s in range(labels.size)])

    order = [list(labels).index(label) for label in found.labels]
    assert (found.true == at_least(counts.values)[order]).all()
    assert 2 < found.true.sum() < found.true.size
    seen = [at_least(counts.values + noise.sample(counts.n, fp.noise.Stream(4, r)))[order] for r in range(300)]
    np.testing.assert_allclose(found.chance, np.mean(seen, axis=0), atol=1e-12)
    assert found.any == np.mean([(one != found.true).any() for one in seen])
    assert 0 < found.any < 1
    with pytest.raises(fp.InputError, match="no minimum"):
        minimum_changes(counts, noise, fp.Programme.from_toml(PLAIN).on(counts))
