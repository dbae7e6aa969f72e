"""`project` in the library and as a command: numbers by hand, totals given and found, rounded and large, every refusal in one line."""

import csv
import io
import math

import numpy as np
import pytest

import fairpost as fp
from fairpost.errors import CountsError, ParameterError
from support.commands import call
from support.noisy_counts import GROUPS, NOISE, NOISY

BIG = "id,count,st\na,-3.25,n\nb,40.5,n\nc,7.125,s\nd,9e9,s\ne,1e9,n\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big.csv").write_text(BIG)

    def go(*words, file="big.csv"):
        done = call("project", file, *words, columns=80)
        rows = list(csv.DictReader(io.StringIO(done.stdout))) if done.returncode == 0 else []
        return done, rows

    return go


def sums(rows, column="count"):
    found = {}
    for row in rows:
        found[row.get("group", "all")] = found.get(row.get("group", "all"), 0) + float(row[column])
    return found


def test_rounding_keeps_the_default_total_to_the_nearest_whole_number(run):
    done, rows = run("--round", "--seed", 1)
    assert done.returncode == 0, done.stderr
    assert sums(rows) == {"all": 10_000_000_044}
    assert all(row["count"].lstrip("-").isdecimal() for row in rows)
    assert "the sum went from 10,000,000,044.4 to 10,000,000,044." in " ".join(done.stderr.split())


def test_a_named_column_of_groups_keeps_each_group_s_own_sum(run):
    done, rows = run("--group", "st", "--round", "--seed", 2)
    assert sums(rows) == {"n": 1_000_000_037, "s": 9_000_000_007}
    assert "2 groups keep the sums of their noisy counts, to the nearest whole number." in " ".join(done.stderr.split())
    _, rows = run("--group", "st")
    assert sums(rows) == pytest.approx({"n": 1_000_000_037.25, "s": 9_000_000_007.125}, rel=1e-15)
    assert min(float(row["count"]) for row in rows) >= 0
    want = fp.project_simplex(np.array([-3.25, 40.5, 1e9]), 1e9 + 37.25)
    assert [float(row["count"]) for row in rows if row["group"] == "n"] == want.tolist()


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e10, 1e12])
def test_rounding_accepts_its_own_projection_at_every_size(size):
    """1,000 entries of random size: the whole numbers add up to the total exactly, none is moved by 1 or more."""
    rng = np.random.default_rng(5)
    noisy = rng.exponential(size / 1000, 1000) - size / 5000
    found = fp.project(noisy, round=True, seed=3)
    (total,) = found.totals.values()
    assert total == round(float(np.sum(noisy)))
    assert sum(map(int, found.rounded.tolist())) == total
    assert np.max(np.abs(found.rounded - found.values)) < 1


def test_a_rounded_projection_adds_up_where_floats_do_not():
    """Near 2**53 the float sum of a projection misses its total by whole numbers; the rounded counts do not, alone or in groups."""
    missed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 40))
        part = rng.uniform(size=n)
        y = part / part.sum() * 8.5e15
        total = int(y.sum() * rng.uniform(0.3, 1.0)) | 1
        missed += math.fsum(fp.project(y, total=total).counts) != total
        found = fp.project(y, total=total, round=True, seed=3)
        assert sum(int(v) for v in found.counts) == total
    assert missed > 8
    wanted = {"a": 2_454_893_670_907_771, "b": 2_454_893_670_907_769}
    groups = ["ab"[k % 2] for k in range(12)]
    y = np.random.default_rng(293).uniform(size=12) * 1e15
    found = fp.project(y, total=wanted, groups=groups, round=True, seed=3)
    for name, total in wanted.items():
        assert sum(int(v) for v, g in zip(found.counts, groups, strict=True) if g == name) == total


# ---- project ------------------------------------------------------------------------------------------------------


def test_one_total():
    found = fp.project(NOISY, total=20.0)
    assert found.values == pytest.approx(fp.project_simplex(NOISY, 20.0))
    assert found.totals == {"all": 20.0}
    assert found.counts is found.values
    assert np.array_equal(np.asarray(found), found.values)
    assert found.changes["negative_before"] == 2
    assert found.changes["zero_after"] == 2
    assert found.rounding is None
    assert fp.project(NOISY).sum() == pytest.approx(sum(NOISY))
    assert fp.project(NOISY).totals == {"all": sum(NOISY)}
    labels = fp.project(NOISY, total=20.0, groups=GROUPS)  # with one total, groups are labels
    assert labels.values.tolist() == found.values.tolist()
    assert labels.groups == tuple(GROUPS)
    own = fp.project(NOISY, groups=GROUPS)  # without any, each group keeps its own sum
    assert own.totals == {"a": sum(NOISY[:3]), "b": sum(NOISY[3:])}


@pytest.mark.parametrize("totals", [{"a": 10, "b": 4}, [10, 4], np.array([10.0, 4.0]), {"b": 4, "a": 10}])
def test_totals_by_group(totals):
    found = fp.project(NOISY, "simplex", totals, GROUPS)
    assert found[:3] == pytest.approx(fp.project_simplex(NOISY[:3], 10.0))
    assert found[3:] == pytest.approx(fp.project_simplex(NOISY[3:], 4.0))
    assert found.totals == {"a": 10.0, "b": 4.0}


def test_rounding():
    found = fp.project(NOISY, "simplex", {"a": 10, "b": 4}, GROUPS, round=True, seed=8)
    assert (found.rounded[:3].sum(), found.rounded[3:].sum()) == (10, 4)
    assert found.rounded.tolist() == fp.project(NOISY, "simplex", [10, 4], GROUPS, round=True, seed=8).rounded.tolist()
    assert found.counts is found.rounded
    assert np.asarray(found).tolist() == found.rounded.tolist()
    assert found.seed == 8
    assert found.rounding["largest_change"] == np.abs(found.rounded - found.values).max() < 1
    assert len({fp.project(NOISY, total=20, round=True).seed for _ in range(4)}) == 4  # fresh randomness
    assert found.to_frame()["count"].to_list() == found.rounded.astype(int).tolist()
    assert found.to_frame()["before_rounding"].to_list() == found.values.tolist()


@pytest.mark.parametrize("rule", ["none", "nonnegative", "sum", "sum-clipped", "simplex-threshold"])
def test_the_other_rules(rule):
    keeps = rule.startswith("s")
    found = fp.project(NOISY, rule, 20.0 if keeps else None, mechanism=NOISE)
    y = np.array(NOISY)
    shifted = y + (20 - y.sum()) / 5
    wanted = {"none": y, "nonnegative": np.maximum(y, 0), "sum": shifted, "sum-clipped": np.maximum(shifted, 0)}
    if rule in wanted:
        assert found.counts == pytest.approx(wanted[rule])
    else:
        assert found.sum() == pytest.approx(20)
        assert found.counts.tolist() != fp.project(NOISY, "simplex", 20.0).counts.tolist()
    assert (found.totals is None) == (not keeps)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (dict(postprocess="pos"), "`postprocess` must be one of none, nonnegative, sum, sum-clipped, simplex, simplex-threshold, got 'pos'"),
        (dict(postprocess="nonnegative", total=3), "nonnegative keeps no total, got one"),
        (dict(postprocess="simplex-threshold"), "simplex-threshold needs the noise"),
        (dict(postprocess="sum", total=3, round=True), "--round.* needs simplex or simplex-threshold, got sum"),
        (dict(total=-1), "`total` must be at least 0"),
        (dict(total=1.5, round=True), "whole number, got 1.5"),
        (dict(total=[1, 2]), "several totals need `groups`"),
        (dict(total={"a": 1}, groups=GROUPS), "every group must have a total, got none for 'b'"),
        (dict(seed=3), "`seed` is of the rounding"),
        (dict(seed=-3, round=True, total=20), "`seed` must be a whole number from 0, got -3"),
        (dict(ids=list("aabcd")), "ids must be unique"),
        (dict(groups=list("ab")), "`groups` must have one entry per count"),
        (dict(noisy=[[1.0, 2.0]]), "one vector, got 2 dimensions"),
        (dict(noisy=[-3.0, 1.0]), "sum of the noisy counts, which must be at least 0, got -2$"),
        (dict(noisy=[-3.0, 1.0, 5.0], groups=list("nns")), "which must be at least 0, got -2 for the group 'n'$"),
        (dict(noisy=[np.nan, 1.0]), "every noisy count must be finite"),
    ],
)  # fmt: skip
def test_projections_that_are_refused(given, says):
    given = {"noisy": NOISY} | given
    with pytest.raises((ParameterError, CountsError), match=says) as told:
        fp.project(**given)
    assert "\n" not in str(told.value)


def test_what_was_given_is_not_touched():
    y = np.array(NOISY)
    found = fp.project(y, "none")
    y[0] = 99
    assert found.noisy[0] == -4.5
    assert found.values[0] == -4.5
    with pytest.raises(ValueError, match="read-only"):
        found.noisy[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        fp.allocate(NOISY).noisy[0] = 1


@pytest.mark.parametrize(
    ("groups", "end"), [(None, "+2, of 1"), (list("aaa"), "+2, of 1"), (list("aab"), "-2, of 0 groups 2 keep their totals")]
)  # fmt: skip
def test_a_projection_in_words(groups, end):
    """Groups are mentioned where there are several."""
    said = " ".join(str(fp.project([10.0, -2.0, 31.0], groups=groups)).split())
    assert (
        said
        == f"Projection by simplex: 3 counts sum 39 became 39 negative 1 before, 0 now zero 1 now largest change {end}"
    )
    assert "sum 39 became 41 " in " ".join(str(fp.project([10.0, -2.0, 31.0], "nonnegative")).split())


def test_rows_of_a_matrix():
    rows = np.array([[1.0, 1.0], [1.0, 3.0], [-1.0, 4.0]])
    a = fp.allocate(rows, [3.0, 1.0], "baseline", mechanism=NOISE)
    assert a.shape == (3, 2)
    assert a[0].tolist() == [0.75, 0.25]
    assert a.interval is None
    assert "3 draws" in repr(a)
    for use in (a.to_frame, a.plot, a.to_dict):
        with pytest.raises(ParameterError, match="one draw, got 3"):
            use()
