"""Laws: their TOML, their kinks, thresholds on the lattice, sharing."""

from dataclasses import replace

import numpy as np
import pytest

import fairpost as fp
from fairpost import Programme

RNG = np.random.default_rng(5)
BASE = RNG.integers(0, 4000, 400).astype(float)
OWN = """
name = "own"
eligible = ["count >= 4", { any = ["count > 40", { all = ["count >= 2.5 % of base", "count > 9"] }] }]
entitlement.larger_of = [{ brackets = [[0, 1], [30, 1.5], [100, 0.5]] }, { brackets = [["0 %", 0.5], ["3 %", 2.25]] }]
entitlement.floor = 25
entitlement.cap = "9 %"
"""
HELD = 'hold_harmless = { last = "l", rate = [["0 %", 0.5], ["20 %", 0.9]] }\n'
LEAST = "minimum = { percent = 20, average = 150 }\n"


def laws():
    named = ("title1-basic", "title1-concentration", "title1-targeted", "section-203")
    return [*map(Programme.named, named), Programme.from_toml(OWN), Programme.from_toml(OWN + HELD + LEAST)]


@pytest.mark.parametrize("law", laws(), ids=lambda law: law.name)
def test_kinks_say_what_the_words_of_the_law_say(law):
    kinks = law.compile(BASE)
    assert (np.diff(kinks.start) >= 1).all()
    inside = kinks.owner[1:] == kinks.owner[:-1]
    assert (np.diff(kinks.at)[inside] > 0).all()
    for z in (*RNG.integers(-5, 600, (40, BASE.size)).astype(float), *RNG.uniform(-5, 600, (40, BASE.size))):
        by_words = law.entitled(z, BASE)
        np.testing.assert_allclose(kinks(z), by_words, rtol=1e-12, atol=1e-9)  # values up to 2400 in a few roundings
    assert (kinks.of(np.array([7, 3]))(np.array([50.0, 60.0])) == kinks(np.full(400, 50.0))[[7]][0]).any()


@pytest.mark.parametrize("law", [*laws(), Programme.named("house-seats")], ids=lambda law: law.name)
def test_a_law_survives_its_toml(law):
    again = Programme.from_toml(law.to_toml())
    for name in ("name", "eligible", "entitlement", "share", "hold_harmless", "minimum", "law", "note", "seats"):
        assert getattr(again, name) == getattr(law, name), name


ERRORS = [
    ('name = "a"\neligible = ["count >= 10", "count => 3"]\n', "line 2", "count => 3"),
    ('name = "a"\n\neligible = [{ some = [] }]\n', "line 3", "nest"),
    ('name = "a"\nshare = "half"\n', "line 2", "share"),
    ('name = "a"\nshare = pro rata\n', "line 2", "TOML"),
    ('name = "a"\nentitlement.brackets = [[0, 1], [0, 2]]\n', "line 2", "ascend"),
    ('name = "a"\nentitlement.brackets = [[0, 1],\n [50, -2]]\n', "line 3", "at least 0"),
    ('name = "a"\nhold_harmless = { last = "l", rate = [["5 %", 0.9]] }\n', "line 2", "0 %"),
    ('eligible = ["count >= 10"]\n', "line 1", "name"),
    ('name = "a"\ncolour = 3\n', "line 2", "colour"),
    ('name = "a"\nseats = 4\n', "line 1", "seats"),
]


@pytest.mark.parametrize(("text", "line", "word"), ERRORS, ids=[w for _, _, w in ERRORS])
def test_a_bad_law_names_file_line_and_rule(text, line, word):
    with pytest.raises(fp.InputError) as error:
        Programme.from_toml(text, "mine.toml")
    said = str(error.value)
    assert said.startswith(f"mine.toml, {line}")
    assert word in said
    assert "\n" not in said


@pytest.mark.parametrize("sign", [">", ">="])
@pytest.mark.parametrize(("rate", "base", "edge"), [("", 0.0, 30), ("% of base", 600.0, 180), ("% of base", 17.0, 5.1)])
def test_above_and_at_least_differ_exactly_at_the_threshold_on_the_lattice(sign, rate, base, edge):
    """30 % of 17 is 5.1: between whole numbers both signs ask for 6."""
    law = Programme.from_toml(f'name = "t"\nshare = "none"\neligible = ["count {sign} 30 {rate}"]\n')
    first = (np.floor(edge) + 1 if sign == ">" else np.ceil(edge)) if edge == round(edge) else 6
    counts = fp.Counts([first - 1, first, 3000.0, 100000.0], base=np.full(4, base))
    assert law.entitled(counts.values, np.full(4, base)).tolist() == [0, 1, 1, 1]
    for noise in (fp.DiscreteLaplace(3.0), fp.DiscreteGaussian(4.0)):
        found = fp.audit(counts, noise, "as-written", programme=law, engine="exact")
        mass = [noise.density(k) for k in range(-60, 61)]
        by_hand = [
            sum(m for k, m in zip(range(-60, 61), mass, strict=True) if x + k >= first) for x in counts.values[:2]
        ]
        np.testing.assert_allclose(1 - found.zero[:2], by_hand, rtol=1e-8)
        assert found.zero[3] < 1e-15


def test_truth_is_shares_of_weighted_counts():
    counts = fp.Counts([9, 12, 98, 700], weights=[2.0, 3.0, 1.0, 1.0], base=[300, 150, 640, 2500])
    law = Programme.named("title1-basic").on(counts)
    np.testing.assert_allclose(law.truth(counts), np.array([0, 36, 98, 700]) / 834, rtol=1e-15)
    with pytest.raises(fp.InputError, match="base"):
        Programme.named("title1-basic").on(fp.Counts([9, 12]))


def test_hold_harmless_pays_the_larger_of_last_years_part_and_the_reduced_entitlement():
    law = Programme.from_toml('name = "h"\nhold_harmless = { last = "l", rate = [["0 %", 0.5], ["20 %", 0.9]] }\n')
    counts = fp.Counts([10.0, 10.0, 20.0], base=[20.0, 100.0, 50.0])
    last = np.array([0.6, 0.2, 0.2])
    paid = law.on(counts, last).truth(counts)
    # H = 0.54, 0.1, 0.18: the first is held, the others share 0.46 by 10 and 20, above their H
    np.testing.assert_allclose(paid, [0.54, 0.46 / 3, 0.92 / 3], rtol=1e-14)
    all_held = law.on(counts, last * 2).truth(counts)  # H sums to 1.64: reduced ratably
    np.testing.assert_allclose(all_held, np.array([1.08, 0.2, 0.36]) / 1.64, rtol=1e-14)


def test_a_group_minimum_raises_small_states_and_reduces_the_others_ratably():
    law = Programme.from_toml('name = "m"\nminimum = { percent = 20, average = 150 }\n')
    counts = fp.Counts([3.0, 3.0, 47.0, 47.0], groups=["s", "s", "a", "b"])
    paid = law.on(counts).truth(counts)
    least = min(0.2, (0.2 + 1.5 * 0.06) / 2)
    np.testing.assert_allclose(paid, [least / 2, least / 2, (1 - least) / 2, (1 - least) / 2], rtol=1e-14)


def test_seats_by_priorities_one_by_one():
    """From inside, because only a page and a screen show them: how often seats change."""
    from fairpost.engines.montecarlo.seats import seat_changes

    def one_by_one(x, seats):
        given = np.ones(len(x))
        for _ in range(seats - len(x)):
            given[np.argmax(x / np.sqrt(given * (given + 1)))] += 1
        return given

    law = replace(Programme.named("house-seats"), seats=60)
    for k in range(20):
        x = np.round(np.exp(np.random.default_rng(k).normal(12, 1.5, 12)))
        counts = fp.Counts(x)
        assert law.on(counts).truth(counts).tolist() == one_by_one(x, 60).tolist()
    found = seat_changes(counts, fp.Laplace(5000.0), 60, runs=2000, seed=3)
    noisy = np.random.default_rng(1).laplace(0, 5000.0, (2000, 12)) + x
    changed = np.array([one_by_one(np.maximum(row, 1e-9), 60) != found.seats for row in noisy]).mean(axis=0)
    assert (np.abs(changed - found.changed) < 5 * np.sqrt((changed * (1 - changed) + 1e-3) * 2 / 2000)).all()
    assert found.changed.max() > 0.05
    assert found.any <= 1
    with pytest.raises(fp.InputError, match="seat for every entity"):
        seat_changes(counts, fp.Laplace(1.0), 5)
