"""Releases against the truth: every p-value in two ways (its law and simulation), every difference by hand."""

import csv
import hashlib
import html
import io
import json
import math
import re
import shutil
import stat
import sys
from fractions import Fraction
from unittest.mock import patch

import click
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import fairpost as fp
from fairpost.check import null
from fairpost.cli import main
from fairpost.errors import CountsError, ParameterError, UnsupportedError
from fairpost.io import read_rows
from fairpost.noise import Mechanism, Stream
from fairpost.release.statement import KIND
from support.releases import ledger
from support.workbooks import xlsx

NOISES = [fp.Laplace(7.0), fp.Gaussian(6.0), fp.DiscreteLaplace(3.0), fp.DiscreteGaussian(4.0)]
SMALL = [fp.DiscreteLaplace(0.4), fp.DiscreteLaplace(2.0), fp.DiscreteGaussian(0.5), fp.DiscreteGaussian(2.5)]
named = {"ids": lambda m: f"{m.name} {m.spread:g}"}
FLOOR = 1e-9
"""The least p-value of whole-number noise: a Fourier transform rounds at some 1e-10."""


def drawn(noise, runs, m, seed=5):
    """Draws of the noise: `runs` rows of m."""
    return noise.sample(runs * m, Stream(seed)).reshape(runs, m)


# ---- the laws under the null hypothesis ----


@pytest.mark.parametrize("m", [1, 2, 7, 60])
@pytest.mark.parametrize("noise", [*NOISES, fp.DiscreteLaplace(0.4), fp.DiscreteGaussian(0.5)], **named)
def test_the_size_has_the_law_that_simulation_shows(noise, m):
    """20,000 draws: a share of p has a standard error of at most 0.0036; 5 of them fail once in a million."""
    d = drawn(noise, 20_000, m)
    sizes = np.sum(np.abs(d) if "laplace" in noise.name else d**2, axis=1)
    for t in np.quantile(sizes, [0.03, 0.3, 0.7, 0.97]):
        tails = null.size_tails(noise, float(t), m)
        for share, tail in ((np.mean(sizes <= t), tails.below), (np.mean(sizes >= t), tails.above)):
            assert abs(share - tail) < 5 * math.sqrt(max(tail * (1 - tail), 1e-4) / 20_000)
    assert np.mean(sizes) / m == pytest.approx(null.expected_size(noise), rel=5 * np.std(sizes) / np.mean(sizes) / 141)


@pytest.mark.parametrize("m", [1, 2, 7, 60])
@pytest.mark.parametrize("noise", [*NOISES, fp.DiscreteLaplace(0.4), fp.DiscreteGaussian(0.5)], **named)
def test_the_sum_has_the_law_that_simulation_shows(noise, m):
    sums = np.sum(drawn(noise, 20_000, m), axis=1)
    for s in np.quantile(np.abs(sums), [0.03, 0.3, 0.7, 0.97]):
        p = float(null.sum_p_values(noise, [s], m)[0])
        share = np.mean(np.abs(sums) >= s - 1e-9)
        assert abs(share - p) < 5 * math.sqrt(max(p * (1 - p), 1e-4) / 20_000)
        assert null.sum_p_values(noise, [-s], m)[0] == p


@pytest.mark.parametrize("m", [1, 3, 5])
@pytest.mark.parametrize("noise", SMALL, **named)
def test_whole_numbers_by_convolution(noise, m):
    """The masses multiplied out one draw at a time, in place of a Fourier transform; both round at 1e-15."""
    k = np.arange(-60, 61)
    mass = noise.density(k.astype(float))
    of_sum = mass
    of_size = {0: 1.0}
    for draw in range(m):
        if draw:
            of_sum = np.convolve(of_sum, mass)
        fresh = {}
        for t, p in of_size.items():
            for value, q in zip(k.tolist(), mass.tolist(), strict=True):
                if q > 1e-17:
                    step = abs(value) if "laplace" in noise.name else value * value
                    fresh[t + step] = fresh.get(t + step, 0.0) + p * q
        of_size = fresh
    reach = (of_sum.size - 1) // 2
    for s in range(8):
        want = float(np.sum(of_sum[np.abs(np.arange(-reach, reach + 1)) >= s]))
        assert null.sum_p_values(noise, [s], m)[0] == pytest.approx(max(want, FLOOR), abs=1e-12)
    for t in range(0, 30, 3):
        tails = null.size_tails(noise, t, m)
        assert tails.above == pytest.approx(math.fsum(p for v, p in of_size.items() if v >= t), abs=1e-9)
        assert tails.below == pytest.approx(math.fsum(p for v, p in of_size.items() if v <= t), abs=1e-9)
        assert null.size_tails(noise, t + 0.5, m).above == null.size_tails(noise, t + 1, m).above


@pytest.mark.parametrize("m", [1, 2, 5])
def test_the_sum_of_laplace_draws_by_its_density(m):
    """The race of two streams against the integral of a product of gamma laws; quad promises 1e-10."""
    from scipy.integrate import quad

    b = 3.0
    for s in (0.0, 0.1, 2.0, 9.0, 40.0):
        want, _ = quad(lambda g: stats.gamma.pdf(g, m) * stats.gamma.sf(g + s / b, m), 0, np.inf, epsabs=1e-13)  # noqa: B023
        assert null.sum_p_values(fp.Laplace(b), [s], m)[0] == pytest.approx(min(1, 2 * want), rel=1e-8)


def test_the_race_has_probabilities_that_add_up():
    """In fractions: one of the streams has j events left with chance C(2m - j - 1, m - 1) / 2^(2m - j), j = 1, ..., m."""
    for m in (1, 2, 6, 11):
        chances = [Fraction(math.comb(2 * m - j - 1, m - 1), 2 ** (2 * m - j)) for j in range(1, m + 1)]
        assert sum(chances) == Fraction(1, 2)
        assert null.sum_p_values(fp.Laplace(1.0), [0.0], m)[0] == pytest.approx(1.0, abs=1e-12)


def test_many_whole_numbers_go_over_into_the_continuous_law():
    """Where a Fourier transform would be too long: the two ways agree next to the border to the step of the lattice."""
    for discrete, m in ((fp.DiscreteGaussian(60.0), 40), (fp.DiscreteLaplace(900.0), 4_000)):
        assert null._lattice(discrete, m, "size") is not None
        seen = [discrete.variance if "gauss" in discrete.name else null.expected_size(discrete)]
        sizes = [m * seen[0] * (1 + f / math.sqrt(m)) for f in (-1.5, -0.3, 0.4, 1.9)]
        sums = [f * math.sqrt(m * discrete.variance) for f in (0.2, 1.0, 2.5)]
        exact = [null.size_tails(discrete, round(t), m) for t in sizes]
        of_sums = null.sum_p_values(discrete, np.round(sums), m)
        with patch.object(null, "_lattice", lambda *_: None):
            other = [null.size_tails(discrete, round(t), m) for t in sizes]
            assert null.sum_p_values(discrete, np.round(sums), m) == pytest.approx(of_sums, abs=2e-6)
        for a, b in zip(exact, other, strict=True):
            assert (a.below, a.above) == pytest.approx((b.below, b.above), abs=1e-4)


def test_far_tails_of_whole_numbers_are_floors_and_not_zero():
    for noise in NOISES:
        p = float(null.sum_p_values(noise, [1e4], 3)[0])
        tails = null.size_tails(noise, 1e7, 3)
        least = FLOOR if noise.discrete else 0.0  # the others have closed forms, far below the smallest float here
        assert (p, tails.above, tails.p_value) == (least, least / 2, least)
        assert tails.below == pytest.approx(1.0, abs=1e-12)


# ---- tests that keep their level, intervals that cover ----


@pytest.mark.parametrize("noise", NOISES, **named)
def test_a_true_hypothesis_is_rejected_as_often_as_the_level_says(noise):
    """1,000 releases at level 0.1: 100 rejections with a standard deviation of 9.5, so within 5 of them once in a million.

    Whole numbers make the tests a little shy, never bold.
    """
    x = np.array([0.0, 3, 50, 900])
    rejected, by_sum = 0, 0
    for r in range(1000):
        found = fp.check(x, x + noise.sample(4, Stream(8, r)), noise)
        rejected += found.noise.p_value < 0.1
        by_sum += found.total.p_value < 0.1
    low = 0 if noise.discrete else 100 - 48
    assert low <= rejected <= 100 + 48
    assert low <= by_sum <= 100 + 48


@pytest.mark.parametrize("noise", [fp.Gaussian(6.0), fp.Laplace(7.0)], **named)
def test_the_intervals_of_all_entities_hold_together(noise):
    """Of 600 checks of 4 releases at confidence 0.8 at least 480 - 5 * 9.8 cover all five biases, which are 0 here."""
    x = np.array([10.0, 20, 300, 4000, 50000])
    covered = {"entities": 0, "sizes": 0}
    for r in range(600):
        found = fp.check(x, [x + noise.sample(5, Stream(3, 4 * r + k)) for k in range(4)], confidence=0.8)
        covered["entities"] += bool(np.all(np.abs(found.difference) <= found.half_width))
        covered["sizes"] += all(abs(part.difference) <= part.half_width for part in found.sizes)
    assert all(hit >= 431 for hit in covered.values())
    if isinstance(
        noise, fp.Gaussian
    ):  # and they are not needlessly wide: t is exact for normal noise but for Bonferroni
        assert all(hit <= 560 for hit in covered.values())


def test_a_bias_that_post_processing_makes_is_found():
    """Clipping at 0 lifts the small ones; the audit says by how much."""
    counts, noise = fp.Counts([0, 1, 2, 500]), fp.Laplace(10.0)
    rows = [np.maximum(counts.values + noise.sample(4, Stream(1, r)), 0) for r in range(400)]
    found = fp.check(counts, rows, noise)
    exact = fp.audit(counts, noise, "nonnegative")
    assert np.all(np.abs(found.difference - exact.bias) <= found.half_width)
    assert found.difference[0] - found.half_width[0] > 0
    assert found.noise.p_value <= 1e-9
    assert found.noise.observed < found.noise.expected
    assert found.noise.verdict == "the differences are smaller than noise of this size makes"
    assert (found.negative, found.negative_expected) == (0.0, pytest.approx(float(np.sum(noise.sf(counts.values)))))


def test_noise_that_is_too_small_a_claim_is_found():
    x = np.arange(0.0, 4000, 10)
    y = x + fp.Laplace(12.0).sample(400, Stream(4))
    found = fp.check(x, y, fp.Laplace(10.0))
    assert found.noise.explained == pytest.approx(10 * 400 / np.sum(np.abs(y - x)))
    assert found.noise.p_value < 0.01
    assert found.noise.verdict == "the differences are larger than noise of this size makes"
    assert fp.check(x, y, fp.Laplace(12.0)).noise.p_value > 0.05
    moved = y.copy()
    moved[17] += 400
    assert fp.check(x, moved, fp.Laplace(12.0)).unexplained == ("17",)


# ---- by hand ----

TRUE = fp.Counts([3, 40, 500, 6000, 0, 1000], ids=list("abcdef"), groups=["n", "n", "s", "s", "s", "n"])
FIRST = [-2, 41, 510, 5990, 4, 1000]
SECOND = [8, 35, 490, 6030, -4, 1001]


def test_the_differences_by_hand():
    one = fp.check(TRUE, FIRST)
    assert one.difference.tolist() == [-5, 1, 10, -10, 4, 0]
    assert (one.noise, one.p_value, one.half_width, one.unexplained) == (None, None, None, None)
    assert (one.total.count, one.total.released, one.total.difference, one.total.kept) == (7543, 7543, 0, 1)
    assert one.sum_kept
    assert [(p.name, p.n, p.count, p.difference, p.kept) for p in one.groups] == [
        ("n", 3, 1043, -4, 0),
        ("s", 3, 6500, 4, 0),
    ]
    assert [(p.name, p.n, p.difference) for p in one.sizes] == [
        ("0", 1, 4), ("1 to below 10", 1, -5), ("10 to below 100", 1, 1), ("100 to below 1,000", 1, 10),
        ("1,000 to below 10,000", 2, -10),
    ]  # fmt: skip
    assert (one.negative, one.fractional) == (1.0, 0)
    assert one.sizes[0].relative is None
    assert one.sizes[1].relative == -5 / 3


def test_two_releases_by_hand():
    two = fp.check(TRUE, [FIRST, SECOND], fp.Gaussian(6.0), names=["x", "y"], confidence=0.9)
    d = np.array([FIRST, SECOND]) - TRUE.values
    assert two.difference.tolist() == np.mean(d, axis=0).tolist() == [0, -2, 0, 10, 0, 0.5]
    t = stats.t.ppf(1 - 0.1 / 12, 1)
    assert two.half_width == pytest.approx(t * np.abs(d[0] - d[1]) / 2, rel=1e-12)
    group = d[:, [0, 1, 5]].sum(axis=1)
    assert two.groups[0].half_width == pytest.approx(
        stats.t.ppf(1 - 0.1 / 4, 1) * abs(group[0] - group[1]) / 2, rel=1e-12
    )
    assert two.groups[0].noise == pytest.approx(6 * math.sqrt(3 / 2))
    assert two.groups[0].p_value == pytest.approx(2 * stats.norm.sf(abs(group.sum()) / (6 * math.sqrt(6))), rel=1e-12)
    assert two.groups[0].p_adjusted == min(1, 2 * two.groups[0].p_value)
    assert two.p_value == pytest.approx(2 * stats.norm.sf(np.abs(d.sum(axis=0)) / (6 * math.sqrt(2))), rel=1e-12)
    assert two.noise.observed == np.mean(d**2)
    tail = stats.chi2.sf(np.sum(d**2) / 36, 12)
    assert two.noise.p_value == pytest.approx(2 * min(tail, 1 - tail), rel=1e-9)
    assert (two.total.kept, two.sum_kept, two.releases) == (1, False, 2)
    assert "release" in two.noise.hypothesis
    assert "below 0.1 speaks against" in two.noise.reading


def test_whether_the_sum_was_kept_in_words():
    def sum_of(*releases):
        return next(
            " ".join(line.split()) for line in str(fp.check(TRUE, list(releases))).splitlines() if "sum" in line
        )

    assert sum_of(FIRST) == "sum 7,543, the true sum"
    assert sum_of(SECOND) == "sum 7,560, +17 from the true sum"
    assert sum_of(FIRST, SECOND) == "sum 7,551.5, +8.5 from the true sum, kept in 1 of 2 releases"


def test_agreeing_releases_say_nothing_of_their_spread():
    found = fp.check([1, 2], [[1, 3], [1, 5]])
    assert np.isinf(found.half_width[0])
    assert np.isfinite(found.half_width[1])
    assert [e["half_width"] is None for e in found.to_dict()["entities"]] == [True, False]
    assert found.columns()["half_width"][0] is None


@pytest.mark.parametrize("x", [1e-3, 0.5, 1, 9.99, 10, 999.999999999, 1000, 999_999, 1e6, 1e15])
def test_size_classes_hold_their_counts(x):
    (part,) = fp.check([x], [x]).sizes
    if x < 1:
        assert part.name == "above 0 to below 1"
    else:
        low, high = (float(v.replace(",", "")) for v in part.name.split(" to below "))
        assert low <= x < high == 10 * low


def test_releases_are_brought_into_order_by_their_ids(tmp_path):
    (tmp_path / "r.csv").write_text("id,count\nf,1000\ne,4\nd,5990\nc,510\nb,41\na,-2\n")
    rows = read_rows(tmp_path / "r.csv")
    assert fp.check(TRUE, rows).difference.tolist() == [-5, 1, 10, -10, 4, 0]
    assert fp.check(TRUE, [rows, FIRST]).released.tolist() == [FIRST, FIRST]
    assert fp.check(TRUE, np.array([FIRST, SECOND])).releases == 2
    assert fp.check(TRUE, [FIRST, SECOND]).releases == 2
    assert fp.check(TRUE, tuple(FIRST)).releases == 1


def test_what_does_not_fit_is_refused(tmp_path):
    def put(text):
        (tmp_path / "r.csv").write_text(text)
        return read_rows(tmp_path / "r.csv")

    whole = "id,count\na,1\nb,1\nc,1\nd,1\ne,1\nf,1\n"
    with pytest.raises(
        CountsError, match=r"^1: every entity of the true counts must be released, got none for 'e' and 1 more"
    ):
        fp.check(TRUE, put("id,count\na,1\nb,1\nc,1\nd,1\n"))
    with pytest.raises(CountsError, match=r"^x: only entities of the true counts may be released, got 'g'$"):
        fp.check(TRUE, put(whole + "g,1\n"), names=["x"])
    with pytest.raises(CountsError, match="one value per true count \\(6\\), got 2"):
        fp.check(TRUE, [1, 2])
    with pytest.raises(CountsError, match="release 1: every value must be finite, got nan"):
        fp.check([1, 2], [1, math.nan])
    with pytest.raises(CountsError, match="at least one release, got none"):
        fp.check(TRUE, [])
    with pytest.raises(ParameterError, match="one name per release: 1 releases, 2 names"):
        fp.check(TRUE, FIRST, names=["a", "b"])
    for bad in (0, 1, 2, "x"):
        with pytest.raises(ParameterError, match="`confidence` must be between 0 and 1"):
            fp.check(TRUE, FIRST, confidence=bad)

    class Other(Mechanism):
        variance = 1.0

        def sample(self, n, stream):
            return np.zeros(n)

    with pytest.raises(UnsupportedError, match=r"a check knows the noises laplace, .*, got 'Other'"):
        fp.check(TRUE, FIRST, Other())


def test_a_check_is_a_result():
    found = fp.check(TRUE, [FIRST, SECOND], fp.DiscreteGaussian(6.0))
    text = repr(found)
    assert len(text.splitlines()) <= 20
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.endswith("confidential: computed from true counts")
    assert found.to_frame().shape == (6, 12)
    assert set(found.to_frame()["confidential"]) == {"computed from true counts"}
    assert json.loads(json.dumps(found.to_dict()))["schema"] == "fairpost/check/1"
    assert "entities" not in found.to_dict(entities=False)
    assert len(found.plot().data[0].x) == 6
    with pytest.raises(ValueError, match="read-only"):
        found.released[0, 0] = 1
    with pytest.raises(AttributeError):
        found.confidence = 0.5
    assert "<script" not in fp.check(fp.Counts([1], ids=["<script>"]), [2])._repr_html_()


# ---- the command ----


@pytest.fixture
def cli(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = zip(TRUE.ids, TRUE.values, TRUE.groups, strict=True)
    (tmp_path / "true.csv").write_text("id,count,group\n" + "".join(f"{i},{x:g},{g}\n" for i, x, g in rows))
    for name, values in (("one.csv", FIRST), ("two.csv", SECOND)):
        (tmp_path / name).write_text(
            "id,count\n" + "".join(f"{i},{y}\n" for i, y in zip(TRUE.ids, values, strict=True))
        )

    def run(*words):
        with patch.object(sys, "argv", ["fairpost", *map(str, words)]):
            return CliRunner(env={"COLUMNS": "80"}).invoke(main, [str(w) for w in words])

    return run


def test_the_command_says_what_the_library_finds(cli, tmp_path):
    done = cli(
        "check",
        "true.csv",
        "one.csv",
        "two.csv",
        "--scale",
        5,
        "--json",
        "o.json",
        "--csv",
        "o.csv",
        "--html",
        "o.html",
    )
    assert done.exit_code == 0, done.output
    want = fp.check(TRUE, [FIRST, SECOND], fp.Laplace(5.0), names=["one.csv", "two.csv"])
    got = json.loads((tmp_path / "o.json").read_text())
    assert got.pop("command").startswith("fairpost check true.csv one.csv")
    assert got == want.to_dict()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "o.csv").read_text())))
    assert [float(r["difference"]) for r in rows] == want.difference.tolist()
    assert [r["released_2"] for r in rows] == [str(y) for y in SECOND]
    assert [float(r["p_adjusted"]) for r in rows] == want.p_adjusted.tolist()
    page = (tmp_path / "o.html").read_text()
    for text in (done.stdout, page):
        assert "confidential: computed from true counts" in text
        assert want.noise.verdict in text
    for name in ("o.json", "o.csv", "o.html"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_columns_of_the_released_files(cli, tmp_path):
    (tmp_path / "long.csv").write_text(
        "place;kind;value\n" + "".join(f"{i};x;{y},5\n{i};z;1\n" for i, y in zip("abcdef", FIRST, strict=True))
    )
    words = ["--released-id", "place", "--released-count", "value", "--released-where", "kind=x", "--json", "-"]
    done = cli("check", "true.csv", "long.csv", *words)
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert [e["released"] for e in data["entities"]] == [y - 0.5 if y < 0 else y + 0.5 for y in FIRST]
    assert data["fractional"] == 6
    (tmp_path / "true.csv").write_text((tmp_path / "true.csv").read_text().replace("id,count", "lea,poor"))
    done = cli("check", "true.csv", "one.csv", "--id", "lea", "--count", "poor", "--json", "-")
    assert [e["difference"] for e in json.loads(done.stdout)["entities"]] == [-5, 1, 10, -10, 4, 0]


def test_errors_are_one_line_and_nothing_is_written(cli, tmp_path):
    (tmp_path / "short.csv").write_text("id,count\na,1\n")
    for words, says in (
        (["short.csv"], "short.csv: every entity of the true counts must be released, got none for 'b' and 4 more"),
        (["no.csv"], "no.csv: no such file"),
        (["one.csv", "--scale", "0"], "--scale must be > 0"),
        (["one.csv", "--confidence", "2"], "--confidence must be between 0 and 1, got 2.0"),
        (["one.csv", "--csv", "one.csv"], "an output must have a place of its own, got that of the input"),
        (["one.csv", "--released-count", "x"], "the count column must be one of 'id', 'count', got 'x'"),
        ([], "Missing argument 'RELEASED...'"),
    ):
        done = cli("check", "true.csv", *words, "--json", "o.json")
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
        assert says in done.stderr
        assert not (tmp_path / "o.json").exists()


CHANGED = {
    "a count": lambda text: text.replace("b,", "b,1"),
    "the order": lambda text: "".join([text.splitlines(True)[k] for k in (0, 2, 1, 3, 4, 5, 6)]),
    "saved anew": lambda text: text.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("how", CHANGED)
def test_a_table_that_its_statement_does_not_state_is_refused(cli, tmp_path, how):
    """Its name plays no part, its bytes do: a changed table is not checked by the promise of another one."""
    plain = fp.Counts(TRUE.values, ids=TRUE.ids)
    fp.release(plain, ledger(tmp_path), epsilon="0.1", postprocess="none", out=tmp_path / "o")
    (tmp_path / "renamed.csv").write_bytes((tmp_path / "o" / "table.csv").read_bytes())
    (tmp_path / "changed.csv").write_text(CHANGED[how]((tmp_path / "o" / "table.csv").read_text()), newline="")
    done = cli("check", "true.csv", "renamed.csv", "--statement", "o/statement.json", "--json", "-")
    assert json.loads(done.stdout)["mechanism"] == fp.DiscreteLaplace(10.0).describe()
    done = cli("check", "true.csv", "changed.csv", "--statement", "o/statement.json", "--json", "o.json")
    assert (done.exit_code, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert done.stderr.startswith("fairpost: changed.csv: must be the table of o/statement.json, byte by byte")
    assert "--mechanism discrete-laplace --scale" in done.stderr
    assert not (tmp_path / "o.json").exists()


def test_a_release_of_levels_is_checked_level_by_level(cli, tmp_path):
    """Each level has its own noise: the statement's scale for the level whose rows are there, b = 20 and 5."""
    blocks = fp.Counts([30, 4, 0, 900], ids=["a1", "a2", "b1", "b2"])
    book = ledger(tmp_path)
    fp.release(blocks, book, levels={"county": 1, "block": 2}, epsilon="1/4", split=["1/5", "4/5"], out=tmp_path / "o")
    (tmp_path / "counties.csv").write_text("id,count\na,34\nb,900\n")
    (tmp_path / "blocks.csv").write_text("id,count\na1,30\na2,4\nb1,0\nb2,900\n")
    words = ["o/table.csv", "--statement", "o/statement.json", "--json", "-", "--released-where"]
    for true, level, scale in (("counties.csv", "county", 20.0), ("blocks.csv", "block", 5.0)):
        done = cli("check", true, *words, f"level = {level}")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["mechanism"] == fp.DiscreteLaplace(scale).describe()
    (tmp_path / "all.csv").write_text("id,count\nall,934\n")
    for where, says in (("level != all", "one level is checked at a time"), ("level = all", "released without noise")):
        done = cli("check", "all.csv", *words, where)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert says in done.stderr


def test_a_kept_sum_under_noise_is_pointed_out(cli):
    done = cli("check", "true.csv", "one.csv", "--mechanism", "discrete-laplace", "--scale", 5)
    said = " ".join(done.stdout.split())
    assert "The released sum is 7,543: the true sum. Noise alone would have moved it by some" in said
    assert "so more than noise was done" in said


# ---- every option matters ----


def looked(cli, *words, true="true.csv", released=("one.csv",)):
    """The JSON of a check, None where it is refused."""
    done = cli("check", true, *released, *words, "--json", "-")
    assert done.exit_code in (0, 2), done.output
    return json.loads(done.stdout) if done.exit_code == 0 else None


def ids_of(data):
    return [e["id"] for e in data["entities"]]


OTHER = "lea,name,n,region\na,A,3,x\nb,B,41,y\nc,C,500,x\nd,D,6000,y\ne,E,0,x\nf,F,1000,y\n"
SHEET = [["lea", "n"], *([i, float(x)] for i, x in zip("abcdef", TRUE.values, strict=True))]


def text_of(path):
    return path.read_text()


def noise(words, mechanism):
    """These words state this noise."""

    def look(cli, tmp_path):
        assert looked(cli, *words)["mechanism"] == mechanism.describe()
        assert looked(cli)["mechanism"] is None

    return look


def columns(cli, tmp_path):
    (tmp_path / "o.csv").write_text(OTHER)
    named = ["--id", "lea", "--count", "n"]
    data = looked(cli, *named, "--group", "region", true="o.csv")
    assert data["counts"]["total"] == 7544
    assert [g["group"] for g in data["groups"]] == ["x", "y"]
    assert looked(cli, *named, true="o.csv")["groups"] is None
    (tmp_path / "half.csv").write_text(text_of(tmp_path / "one.csv").replace("id,", "lea,"))
    assert ids_of(looked(cli, *named, true="o.csv", released=["half.csv"])) == list("abcdef")
    assert looked(cli, "--id", "lea", true="o.csv") is None
    assert looked(cli, "--count", "n", true="o.csv") is None


def test_what_few_releases_show_and_who_lies_beyond_noise():
    from fairpost.cli.checking import sentences

    named = fp.Counts(TRUE.values, ids=TRUE.ids, names=[f"Place {i}" for i in TRUE.ids])
    far = np.array(TRUE.values) + np.array([0, 0, 0, 900, 0, 0])
    assert any(line.endswith("with chance 0.95: Place d.") for line in sentences(fp.check(named, far, fp.Laplace(5.0))))
    silent = "Every interval of an entity holds 0: so few releases show no entity's bias."
    assert silent in sentences(fp.check(named, [FIRST, SECOND]))
    steady = [np.array(TRUE.values) + 50 + np.arange(6) * s for s in (1e-6, 2e-6, 3e-6)]
    assert silent not in sentences(fp.check(named, steady))


MARKS = {f" {letter}" for letter in "abcdefABCDEF"}
"""How a row about an entity begins on the screen."""


def label(cli, tmp_path):
    (tmp_path / "o.csv").write_text(OTHER)
    assert (
        cli("check", "o.csv", "one.csv", "--id", "lea", "--count", "n", "--label", "name", "--csv", "x.csv").exit_code
        == 0
    )
    assert [r["name"] for r in csv.DictReader(io.StringIO(text_of(tmp_path / "x.csv")))] == list("ABCDEF")
    words = ("check", "o.csv", "one.csv", "--id", "lea", "--count", "n")
    first = [
        [line.split()[0] for line in cli(*words, *more).stdout.splitlines() if line[:2] in MARKS]
        for more in ((), ("--label", "name"))
    ]
    assert first[0] == [one.lower() for one in first[1]] != []
    assert set(first[1]) <= set("ABCDEF")


def reading(cli, tmp_path):
    (tmp_path / "t.csv").write_text(text_of(tmp_path / "true.csv").replace(",", "\t"))
    assert looked(cli, "--format", "tsv", true="t.csv") is not None
    assert looked(cli, "--format", "csv", true="t.csv") is None
    assert looked(cli, "--delimiter", "tab", true="t.csv") is not None
    assert looked(cli, "--delimiter", "pipe", true="t.csv") is None
    book = xlsx(one=[["lea"]], two=[["lea", "n"], *SHEET])
    (tmp_path / "b.xlsx").write_bytes(book)
    named = ["--id", "lea", "--count", "n"]
    assert looked(cli, *named, "--sheet", "two", "--header", 2, true="b.xlsx")["counts"]["total"] == 7543
    assert looked(cli, *named, "--sheet", "two", "--header", 1, true="b.xlsx") is None
    assert looked(cli, *named, "--header", 1, true="b.xlsx") is None


def decimal(cli, tmp_path):
    """Of TRUE and of RELEASED."""
    (tmp_path / "t.csv").write_text("id;count\na;1,234\n")
    (tmp_path / "r.csv").write_text("id;count\na;2,345\n")
    for mark, want in ((",", (1.234, 2.345)), (".", (1234, 2345))):
        (e,) = looked(cli, "--decimal", mark, true="t.csv", released=["r.csv"])["entities"]
        assert (e["count"], e["released"]) == want
    assert looked(cli, true="t.csv", released=["r.csv"]) is None


def rows(cli, tmp_path):
    (tmp_path / "t.csv").write_text("id,count,v\na,3,x\nb,40,x\nc,,x\nd,1,y\n")
    (tmp_path / "r.csv").write_text("id,count,v\na,3,x\nb,40,x\nc,9,z\n")
    words = ["--where", "v=x", "--drop-missing", "--released-where", "v=x"]
    assert ids_of(looked(cli, *words, true="t.csv", released=["r.csv"])) == ["a", "b"]
    for gone in (0, 2, 3):
        fewer = words[:gone] + words[gone + (1 if gone == 2 else 2) :]
        assert looked(cli, *fewer, true="t.csv", released=["r.csv"]) is None


def released(cli, tmp_path):
    (tmp_path / "r.csv").write_text("who,y,z\n" + "".join(f"{i},1,2\n" for i in "abcdef"))
    data = looked(cli, "--released-id", "who", "--released-count", "z", released=["r.csv"])
    assert {e["released"] for e in data["entities"]} == {2.0}
    assert looked(cli, "--released-id", "who", released=["r.csv"]) is None
    assert looked(cli, "--released-count", "z", released=["r.csv"]) is None


LEVEL = {"name": "table", "scale": "5"}


def statement(cli, tmp_path):
    (tmp_path / "no.json").write_text("{}")
    done = cli("check", "true.csv", "one.csv", "--statement", "no.json")
    assert (done.exit_code, "no.json: must be a statement" in done.stderr) == (2, True)
    privacy = {"mechanism": "discrete-laplace", "scale": "5", "levels": [LEVEL], "delta": "0"}
    privacy["sensitivity"] = {"value": "1", "norm": "L1"}
    rule = {"rule": "simplex", "total": None, "by_group": False}
    for name in ("one", "two"):
        table = {"sha256": hashlib.sha256((tmp_path / f"{name}.csv").read_bytes()).hexdigest()}
        said = {"statement": KIND, "table": table, "privacy": privacy, "postprocessing": [rule]}
        (tmp_path / f"{name}.json").write_text(json.dumps(said))
    assert looked(cli, "--statement", "one.json")["mechanism"] == fp.DiscreteLaplace(5.0).describe()
    assert looked(cli, "--statement", "one.json", "--scale", 3) is None
    both = ["--statement", "one.json", "--statement", "two.json"]
    assert looked(cli, *both, released=["one.csv", "two.csv"])["mechanism"] == fp.DiscreteLaplace(5.0).describe()
    assert looked(cli, *both, released=["two.csv", "one.csv"]) is None
    assert looked(cli, "--statement", "one.json", released=["one.csv", "two.csv"]) is None
    (tmp_path / "two.json").write_text(json.dumps(said | {"privacy": privacy | {"levels": [LEVEL | {"scale": "6"}]}}))
    assert looked(cli, *both, released=["one.csv", "two.csv"]) is None


def confidence(cli, tmp_path):
    both = ["one.csv", "two.csv"]
    wide, narrow = (looked(cli, "--confidence", c, released=both)["total"]["half_width"] for c in (0.99, 0.5))
    assert wide > narrow > 0


def page(cli, tmp_path):
    (tmp_path / "o.html").unlink(missing_ok=True)
    words = ["--title", "Zqa", "--unit", "zqb", "--noun", "zqc"]
    assert cli("check", "true.csv", "one.csv", *words, "--html", "o.html").exit_code == 0
    text = text_of(tmp_path / "o.html")
    assert all(f"{word}" in text.partition("To make this page again")[0] for word in ("Zqa", "zqb", "zqc"))
    assert "fairpost check true.csv" in text
    assert cli("check", "true.csv", "one.csv", "--html", "o.html").exit_code == 2
    assert cli("check", "true.csv", "one.csv", "--html", "o.html", "--force").exit_code == 0
    assert "Zqa" not in text_of(tmp_path / "o.html")


def safe(cli, tmp_path):
    for name in ("t.csv", "r.csv"):
        (tmp_path / name).write_text("id,count\n=1+2,3\n")
    for words, want in (([], "=1+2"), (["--csv-safe"], "'=1+2")):
        done = cli("check", "t.csv", "r.csv", *words, "--csv", "-")
        assert [r["id"] for r in csv.DictReader(io.StringIO(done.stdout))] == [want]


def saved(cli, tmp_path):
    """The question as a file, which `fairpost run` answers with the same numbers."""
    cli("check", "true.csv", "one.csv", "--scale", 3, "--json", "o.json", "--save", "q.toml")
    assert cli("run", "q.toml", "--json", "again.json").exit_code == 0
    one, two = (json.loads(text_of(tmp_path / name)) for name in ("o.json", "again.json"))
    assert one.pop("command") != two.pop("command")
    assert one == two


MATTERS = {
    "--id": columns, "--count": columns, "--group": columns, "--label": label, "--format": reading, "--delimiter": reading,
    "--sheet": reading, "--header": reading, "--decimal": decimal, "--where": rows, "--drop-missing": rows,
    "--released-where": rows, "--released-id": released, "--released-count": released, "--statement": statement,
    "--mechanism": noise(["--mechanism", "gaussian", "--sigma", 4], fp.Gaussian(4.0)),
    "--sigma": noise(["--mechanism", "gaussian", "--sigma", 4], fp.Gaussian(4.0)),
    "--epsilon": noise(["--epsilon", 0.5], fp.Laplace(2.0)),
    "--scale": noise(["--scale", 3], fp.Laplace(3.0)),
    "--sensitivity": noise(["--epsilon", 0.5, "--sensitivity", 3], fp.Laplace(6.0)),
    "--rho": noise(["--rho", 0.5], fp.Laplace.from_rho(0.5)),
    "--delta": noise(["--mechanism", "gaussian", "--epsilon", 0.5, "--delta", 0.3], fp.Gaussian.from_epsilon(0.5, 0.3)),
    "--confidence": confidence, "--json": columns, "--csv": label, "--csv-safe": safe, "--html": page, "--title": page,
    "--unit": page, "--noun": page, "--force": page, "--save": saved,
}  # fmt: skip


def test_every_option_of_the_command_has_an_entry():
    made = main.get_command(click.Context(main), "check")
    assert {p.opts[0] for p in made.params if isinstance(p, click.Option)} - {"--help"} == set(MATTERS)


@pytest.mark.parametrize("option", MATTERS)
def test_an_option_of_the_command_matters(cli, tmp_path, option):
    MATTERS[option](cli, tmp_path)


def test_the_python_lines_of_the_page_give_the_same_numbers(cli, tmp_path):
    done = cli(
        "check",
        "true.csv",
        "one.csv",
        "two.csv",
        "--scale",
        5,
        "--where",
        "count >= 0",
        "--html",
        "o.html",
        "--json",
        "o.json",
    )
    assert done.exit_code == 0
    lines = html.unescape(re.search(r'<pre id="python"[^>]*>(.*?)</pre>', text_of(tmp_path / "o.html"), re.DOTALL)[1])
    space = {}
    exec(lines, space)
    data = json.loads((tmp_path / "o.json").read_text())
    data.pop("command")
    assert space["found"].to_dict() == data


BROWSER = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


@pytest.mark.skipif(BROWSER is None, reason="no browser: chromium, chromium-browser or google-chrome")
@pytest.mark.parametrize("words", [["one.csv", "--scale", 5], ["one.csv", "two.csv"]])
def test_the_page_opens_finds_and_asks_for_nothing(cli, tmp_path, words):
    from playwright.sync_api import expect, sync_playwright

    assert cli("check", "true.csv", *words, "--html", "o.html").exit_code == 0
    with sync_playwright() as p:
        made = p.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        here, errors, asked = made.new_page(viewport={"width": 390, "height": 844}), [], []
        here.on("pageerror", lambda e: errors.append(str(e)))
        here.on("request", lambda r: asked.append(r.url))
        here.goto((tmp_path / "o.html").as_uri())
        here.wait_for_selector("html.ready")
        assert here.locator("#table tbody tr").count() == 6
        here.fill("#search", "c")
        expect(here.locator("#table tbody tr")).to_have_count(1)
        assert here.evaluate("document.documentElement.scrollWidth") <= 390
        assert "By size" in here.inner_text("main")
        made.close()
    assert not errors
    assert asked == [(tmp_path / "o.html").as_uri()]
