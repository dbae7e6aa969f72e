"""Releases against the truth: every p-value in two ways (its law and simulation), every difference by hand."""

import csv
import html
import io
import json
import math
import re
import stat
from importlib import import_module
from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats

import fairpost as fp
from fairpost.errors import CountsError, ParameterError, UnsupportedError
from fairpost.io import read_rows
from fairpost.noise import Mechanism, Stream
from support.commands import call
from support.helps import help_of
from support.releases import ledger, statement_of
from support.tables import put
from support.workbooks import xlsx

null = import_module("fairpost.check")  # `fp.check` is the verb
NOISES = [fp.Laplace(7.0), fp.Gaussian(6.0), fp.DiscreteLaplace(3.0), fp.DiscreteGaussian(4.0)]
SMALL = [fp.DiscreteLaplace(0.4), fp.DiscreteLaplace(2.0), fp.DiscreteGaussian(0.5), fp.DiscreteGaussian(2.5)]
named = {"ids": lambda m: f"{m.name} {m.spread:g}"}
FLOOR = 1e-9
"""The least p-value of whole-number noise: a Fourier transform rounds at some 1e-10."""


# ---- the laws under the null hypothesis ----


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
def test_sums_and_sizes_of_continuous_noise_by_their_densities(m):
    """The race of two streams against the integral of a product of gamma laws; quad promises 1e-10."""
    from scipy.integrate import quad

    b = 3.0
    for s in (0.0, 0.1, 2.0, 9.0, 40.0):
        want, _ = quad(lambda g: stats.gamma.pdf(g, m) * stats.gamma.sf(g + s / b, m), 0, np.inf, epsabs=1e-13)  # noqa: B023
        assert null.sum_p_values(fp.Laplace(b), [s, -s], m) == pytest.approx([min(1, 2 * want)] * 2, rel=1e-8)
        for noise, law in ((fp.Laplace(b), stats.gamma(m, scale=b)), (fp.Gaussian(b), stats.chi2(m, scale=b * b))):
            tails = null.size_tails(noise, s, m)
            assert (tails.below, tails.above) == pytest.approx((law.cdf(s), law.sf(s)), rel=1e-9)
            assert null.expected_size(noise) == pytest.approx(law.mean() / m)


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
    # and they are not needlessly wide: t is exact for normal noise but for Bonferroni
    assert noise.name == "laplace" or all(hit <= 560 for hit in covered.values())


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


def test_agreeing_releases_say_nothing_of_their_spread():
    found = fp.check([1, 2], [[1, 3], [1, 5]])
    assert np.isinf(found.half_width[0])
    assert np.isfinite(found.half_width[1])
    assert [e["half_width"] is None for e in found.to_dict()["entities"]] == [True, False]
    assert found.to_frame()["half_width"][0] is None


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


class Other(Mechanism):
    variance = 1.0

    def sample(self, n, stream):
        return np.zeros(n)


WHOLE = "id,count\n" + "".join(f"{i},1\n" for i in "abcdef")


@pytest.mark.parametrize(
    ("released", "more", "says"),
    [
        (WHOLE[:-8], {}, "^1: every entity of the true counts must be released, got none for 'e' and 1 more"),
        (WHOLE + "g,1\n", {"names": ["x"]}, "^x: only entities of the true counts may be released, got 'g'$"),
        ([1, 2], {}, r"one value per true count \(6\), got 2"),
        ([1, math.nan, 1, 1, 1, 1], {}, "release 1: every value must be finite, got nan"),
        ([], {}, "at least one release, got none"),
        (FIRST, {"names": ["a", "b"]}, "one name per release: 1 releases, 2 names"),
        *((FIRST, {"confidence": bad}, "`confidence` must be between 0 and 1") for bad in (0, 1, 2, "x")),
        (FIRST, {"mechanism": Other()}, r"a check knows the noises laplace, .*, got 'Other'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(tmp_path, released, more, says):
    if isinstance(released, str):
        (tmp_path / "r.csv").write_text(released)
        released = read_rows(tmp_path / "r.csv")
    with pytest.raises((CountsError, ParameterError, UnsupportedError), match=says):
        fp.check(TRUE, released, **more)


def test_a_check_is_a_result():
    found = fp.check(TRUE, [FIRST, SECOND], fp.DiscreteGaussian(6.0))
    assert "entities" not in found.to_dict(entities=False)
    assert len(found.plot().data[0].x) == 6
    with pytest.raises(ValueError, match="read-only"):
        found.released[0, 0] = 1
    with pytest.raises(AttributeError):
        found.confidence = 0.5


# ---- the command ----

SHEET = [["lea", "n"], *([i, float(x)] for i, x in zip(TRUE.ids, TRUE.values, strict=True))]
PLAIN = "id,count,group\n" + "".join(
    f"{i},{x:g},{g}\n" for i, x, g in zip(TRUE.ids, TRUE.values, TRUE.groups, strict=True)
)
ONE, TWO = (
    "id,count\n" + "".join(f"{i},{y}\n" for i, y in zip("abcdef", some, strict=True)) for some in (FIRST, SECOND)
)
FILES = {
    "true.csv": PLAIN,
    "one.csv": ONE,
    "two.csv": TWO,
    "half.csv": ONE.replace("id,", "lea,"),
    "other.csv": "lea,name,n,region\na,A,3,x\nb,B,41,y\nc,C,500,x\nd,D,6000,y\ne,E,0,x\nf,F,1000,y\n",
    "tabs.csv": PLAIN.replace(",", "\t"),
    "book.xlsx": xlsx(one=[["lea"]], two=[["lea", "n"], *SHEET]),
    "comma.csv": "id;count\na;1,234\n",
    "commas.csv": "id;count\na;2,345\n",
    "gaps.csv": "id,count,v\na,3,x\nb,40,x\nc,,x\nd,1,y\n",
    "kinds.csv": "id,count,v\na,3,x\nb,40,x\nc,9,z\n",
    "who.csv": "who,y,z\n" + "".join(f"{i},1,2\n" for i in "abcdef"),
    "long.csv": "place;kind;value\n" + "".join(f"{i};x;{y},5\n{i};z;1\n" for i, y in zip("abcdef", FIRST, strict=True)),
    "short.csv": "id,count\na,1\n",
    "formula.csv": "id,count\n=1+2,3\n",
}


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """`check` in a folder of its own, by its words."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        put(tmp_path, name, content)
    return lambda *words: call("check", *(part for word in words for part in str(word).split()), columns=80)


def test_the_command_says_what_the_library_finds(cli, tmp_path):
    done = cli("true.csv one.csv two.csv --scale 5 --where count>=0 --json o.json --csv o.csv --html o.html")
    assert done.returncode == 0, done.stderr
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
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("o.json", "o.csv", "o.html")} == {0o600}
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    space = {}
    exec(html.unescape(re.search(r'<pre id="python"[^>]*>(.*?)</pre>', page, re.DOTALL)[1]), space)
    assert space["found"].to_dict() == got


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("short.csv", "short.csv: every entity of the true counts must be released, got none for 'b' and 4 more"),
        ("no.csv", "no.csv: no such file"),
        ("one.csv --scale 0", "--scale must be > 0"),
        ("one.csv --confidence 2", "--confidence must be between 0 and 1, got 2.0"),
        ("one.csv --csv one.csv", "an output must have a place of its own, got that of the input"),
        ("one.csv --released-count x", "the count column must be one of 'id', 'count', got 'x'"),
        ("", "Missing argument 'RELEASED...'"),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(cli, tmp_path, words, says):
    done = cli("true.csv", words, "--json o.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert says in done.stderr
    assert not (tmp_path / "o.json").exists()


def ids(data):
    return "".join(e["id"] for e in data["entities"])


def total(data):
    return data["counts"]["total"]


def noise(data):
    return data["mechanism"]


def pairs(data):
    return [(e["count"], e["released"]) for e in data["entities"]]


def groups(data):
    return None if data["groups"] is None else "".join(g["group"] for g in data["groups"])


NAMED, PICKED = "--id lea --count n", "gaps.csv kinds.csv --where v=x --drop-missing --released-where v=x"
MATTERS = [  # the option, words, what is looked at (None: they are refused), what it must be
    ("--group", f"other.csv one.csv {NAMED} --group region", groups, "xy"),
    ("--group", f"other.csv one.csv {NAMED}", groups, None),
    ("--count", f"other.csv one.csv {NAMED}", total, 7544),
    ("--id", f"other.csv half.csv {NAMED}", ids, "abcdef"),
    ("--count", "other.csv one.csv --id lea", None, None),
    ("--id", "other.csv one.csv --count n", None, None),
    ("--format", "tabs.csv one.csv --format tsv", total, 7543),
    ("--format", "tabs.csv one.csv --format csv", None, None),
    ("--delimiter", "tabs.csv one.csv --delimiter tab", total, 7543),
    ("--delimiter", "tabs.csv one.csv --delimiter pipe", None, None),
    ("--sheet", f"book.xlsx one.csv {NAMED} --sheet two --header 2", total, 7543),
    ("--header", f"book.xlsx one.csv {NAMED} --sheet two --header 1", None, None),
    ("--sheet", f"book.xlsx one.csv {NAMED} --header 1", None, None),
    ("--decimal", "comma.csv commas.csv --decimal ,", pairs, [(1.234, 2.345)]),  # of the true counts and of the released
    ("--decimal", "comma.csv commas.csv --decimal .", pairs, [(1234, 2345)]),
    ("--decimal", "comma.csv commas.csv", None, None),
    ("--where", PICKED, ids, "ab"),
    ("--where", PICKED.replace("--where v=x", "", 1), None, None),
    ("--drop-missing", PICKED.replace("--drop-missing", ""), None, None),
    ("--released-where", PICKED.replace("--released-where v=x", ""), None, None),
    ("--released-id", "true.csv who.csv --released-id who --released-count z", lambda d: pairs(d)[0], (3, 2)),
    ("--released-count", "true.csv who.csv --released-id who", None, None),
    ("--released-id", "true.csv who.csv --released-count z", None, None),
    ("--released-where", "true.csv long.csv --released-id place --released-count value --released-where kind=x",
     lambda d: (pairs(d)[:2], d["fractional"]), ([(3, -2.5), (40, 41.5)], 6)),
    ("--mechanism", "true.csv one.csv", noise, None),
    ("--mechanism", "true.csv one.csv --mechanism gaussian --sigma 4", noise, fp.Gaussian(4.0).describe()),
    ("--sigma", "true.csv one.csv --mechanism gaussian --sigma 5", noise, fp.Gaussian(5.0).describe()),
    ("--epsilon", "true.csv one.csv --epsilon 0.5", noise, fp.Laplace(2.0).describe()),
    ("--scale", "true.csv one.csv --scale 3", noise, fp.Laplace(3.0).describe()),
    ("--sensitivity", "true.csv one.csv --epsilon 0.5 --sensitivity 3", noise, fp.Laplace(6.0).describe()),
    ("--rho", "true.csv one.csv --rho 0.5", noise, fp.Laplace.from_rho(0.5).describe()),
    ("--delta", "true.csv one.csv --mechanism gaussian --epsilon 0.5 --delta 0.3", noise,
     fp.Gaussian.from_epsilon(0.5, 0.3).describe()),
    *(("--confidence", f"true.csv one.csv two.csv --confidence {c}", lambda d: d["total"]["half_width"],
       pytest.approx(stats.t.ppf((1 + c) / 2, 1) * 17 / 2, rel=1e-9)) for c in (0.5, 0.99)),
]  # fmt: skip


@pytest.mark.parametrize(("option", "words", "look", "want"), MATTERS)
def test_an_option_of_the_command_matters(cli, option, words, look, want):
    done = cli(words, "--json -")
    assert done.returncode == (2 if look is None else 0), done.stderr
    assert look is None or look(json.loads(done.stdout)) == want


OTHERWISE = "--json --csv --html --title --unit --noun --force --label --csv-safe --statement --save"
"""Options that the tests below look at."""


def test_every_option_of_the_command_has_an_entry():
    declared = set(re.findall(r"^ +(--[a-z-]+)", help_of(["check"]), re.M))
    assert declared == {option for option, *_ in MATTERS} | set(OTHERWISE.split())


def test_names_on_the_screen_and_in_the_table_and_formulas_made_harmless(cli, tmp_path):
    assert cli(f"other.csv one.csv {NAMED} --label name --csv x.csv").returncode == 0
    assert [r["name"] for r in csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text()))] == list("ABCDEF")
    first = []
    for more in ("", "--label name"):
        lines = cli(f"other.csv one.csv {NAMED}", more).stdout.splitlines()
        rows = [line.split()[0] for line in lines if re.match(r" [a-fA-F]\b", line)]
        first.append("".join(rows))
    assert first[0].upper() == first[1] != ""
    assert first[0].islower()
    for words, want in (("", "=1+2"), ("--csv-safe", "'=1+2")):
        table = cli("formula.csv formula.csv --csv -", words).stdout
        assert [r["id"] for r in csv.DictReader(io.StringIO(table))] == [want]


def test_the_words_of_the_page_and_what_is_overwritten(cli, tmp_path):
    assert cli("true.csv one.csv --title Zqa --unit zqb --noun zqc --html o.html").returncode == 0
    text = (tmp_path / "o.html").read_text()
    assert all(word in text.partition("To make this page again")[0] for word in ("Zqa", "zqb", "zqc"))
    assert "fairpost check true.csv" in text
    assert cli("true.csv one.csv --html o.html").returncode == 2
    assert cli("true.csv one.csv --html o.html --force").returncode == 0
    assert "Zqa" not in (tmp_path / "o.html").read_text()


def test_what_few_releases_show_and_who_lies_beyond_noise(cli, tmp_path):
    def said(*releases, more=""):
        for k, released in enumerate(releases):
            put(
                tmp_path,
                f"r{k}.csv",
                "id,count\n" + "".join(f"{i},{y}\n" for i, y in zip("abcdef", released, strict=True)),
            )
        return " ".join(cli("other.csv", *(f"r{k}.csv" for k in range(len(releases))), NAMED, more).stdout.split())

    true = np.array([3, 41, 500, 6000, 0, 1000])
    far = said(true + np.array([0, 0, 0, 900, 0, 0]), more="--scale 5 --label name")
    assert "noise alone would put none, with chance 0.95: D." in far
    silent = "Every interval of an entity holds 0: so few releases show no entity's bias."
    assert silent in said(FIRST, SECOND)
    assert silent not in said(*(true + 50 + np.arange(6) * s for s in (1e-6, 2e-6, 3e-6)))


def test_a_kept_sum_under_noise_is_pointed_out(cli):
    said = " ".join(cli("true.csv one.csv --mechanism discrete-laplace --scale 5").stdout.split())
    assert "The released sum is 7,543: the true sum. Noise alone would have moved it by some" in said
    assert "so more than noise was done" in said


# ---- statements ----

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
    table = (tmp_path / "o" / "table.csv").read_bytes()
    put(tmp_path, "renamed.csv", table)
    put(tmp_path, "changed.csv", CHANGED[how](table.decode()))
    done = cli("true.csv renamed.csv --statement o/statement.json --json -")
    assert noise(json.loads(done.stdout)) == fp.DiscreteLaplace(10.0).describe()
    done = cli("true.csv changed.csv --statement o/statement.json --json o.json")
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert done.stderr.startswith("fairpost: changed.csv: must be the table of o/statement.json, byte by byte")
    assert "--mechanism discrete-laplace --scale" in done.stderr
    assert not (tmp_path / "o.json").exists()


def test_a_release_of_levels_is_checked_level_by_level(cli, tmp_path):
    """Each level has its own noise: the statement's scale for the level whose rows are there, b = 20 and 5."""
    blocks, book = fp.Counts([30, 4, 0, 900], ids=["a1", "a2", "b1", "b2"]), ledger(tmp_path)
    fp.release(blocks, book, levels={"county": 1, "block": 2}, epsilon="1/4", split=["1/5", "4/5"], out=tmp_path / "o")
    put(tmp_path, "counties.csv", "id,count\na,34\nb,900\n")
    put(tmp_path, "blocks.csv", "id,count\na1,30\na2,4\nb1,0\nb2,900\n")
    put(tmp_path, "all.csv", "id,count\nall,934\n")
    words = "o/table.csv --statement o/statement.json --json - --released-where"
    for true, level, scale in (("counties.csv", "county", 20.0), ("blocks.csv", "block", 5.0)):
        done = cli(true, words, f"level={level}")
        assert done.returncode == 0, done.stderr
        assert noise(json.loads(done.stdout)) == fp.DiscreteLaplace(scale).describe()
    for where, says in (("level!=all", "one level is checked at a time"), ("level=all", "released without noise")):
        done = cli("all.csv", words, where)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert says in done.stderr


def test_statements_go_with_the_tables_that_they_state(cli, tmp_path):
    def stated(name, table, scale):
        made = statement_of(FILES[table].encode())
        made["privacy"]["levels"][0]["scale"] = scale
        put(tmp_path, name, json.dumps(made))

    put(tmp_path, "no.json", "{}")
    stated("one.json", "one.csv", "5")
    stated("two.json", "two.csv", "5")
    stated("else.json", "two.csv", "6")
    for words, fits in (
        ("one.csv --statement one.json", True),
        ("one.csv two.csv --statement one.json --statement two.json", True),
        ("one.csv --statement no.json", False),
        ("one.csv --statement one.json --scale 3", False),
        ("two.csv one.csv --statement one.json --statement two.json", False),
        ("one.csv two.csv --statement one.json", False),
        ("one.csv two.csv --statement one.json --statement else.json", False),
    ):
        done = cli("true.csv", words, "--json -")
        assert done.returncode == (0 if fits else 2), words
        assert not fits or noise(json.loads(done.stdout)) == fp.DiscreteLaplace(5.0).describe()
    assert "no.json: must be a statement" in cli("true.csv one.csv --statement no.json").stderr
