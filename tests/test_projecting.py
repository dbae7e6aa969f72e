"""`project` with the totals that it finds itself: of all, of groups, rounded, and large."""

import csv
import io
import math

import numpy as np
import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost.cli import main
from fairpost.errors import CountsError, ParameterError

BIG = "id,count,st\na,-3.25,n\nb,40.5,n\nc,7.125,s\nd,9e9,s\ne,1e9,n\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big.csv").write_text(BIG)

    def go(*words, file="big.csv"):
        done = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["project", file, *map(str, words)])
        rows = list(csv.DictReader(io.StringIO(done.stdout))) if done.exit_code == 0 else []
        return done, rows

    return go


def sums(rows, column="count"):
    found = {}
    for row in rows:
        found[row.get("group", "all")] = found.get(row.get("group", "all"), 0) + float(row[column])
    return found


def test_rounding_keeps_the_default_total_to_the_nearest_whole_number(run):
    done, rows = run("--round", "--seed", 1)
    assert done.exit_code == 0, done.output
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


def test_a_column_that_was_not_named_is_a_label(run, tmp_path):
    (tmp_path / "named.csv").write_text(BIG.replace("st\n", "group\n"))
    done, rows = run(file="named.csv")
    assert [row["group"] for row in rows] == ["n", "n", "s", "s", "n"]
    assert [float(r["count"]) for r in rows] == fp.project([-3.25, 40.5, 7.125, 9e9, 1e9]).counts.tolist()
    assert "groups" not in done.stderr
    done, _ = run("--group", "st", "--total", 10_000_000_000)
    assert "The total is of all entities; groups are labels" in done.stderr


def test_the_same_in_python():
    found = fp.project([-3.0, 8, 5, 7.5], groups=["n", "n", "s", "s"])
    assert found.totals == {"n": 5.0, "s": 12.5}
    assert found.values.tolist() == [0, 5, 5, 7.5]
    assert fp.project([-3.0, 8, 5, 7.5], groups=["n", "n", "s", "s"], round=True, seed=1).totals == {
        "n": 5.0,
        "s": 12.0,
    }
    assert fp.project([-3.0, 8, 5, 7.5], total=17.0, groups=["n", "n", "s", "s"]).totals == {"all": 17.0}
    with pytest.raises(CountsError, match=r"which must be at least 0, got -2 for the group 'n'$"):
        fp.project([-3.0, 1, 5], groups=["n", "n", "s"])
    with pytest.raises(CountsError, match=r"which must be at least 0, got -2$"):
        fp.project([-3.0, 1])
    with pytest.raises(ParameterError, match=r"a whole number, got 17\.5"):
        fp.project([-3.0, 8, 5, 7.5], total=17.5, round=True)


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
