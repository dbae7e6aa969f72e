"""No argument is dropped in silence; what is no mechanism is named; numbers and pandas Series are counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fairpost as fp
from fairpost.errors import CountsError, ParameterError
from support.noisy_counts import NOISE, NOISY


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(engine=fp.MonteCarlo(runs=100), runs=5), "`runs` is a setting of an engine by name"),
        (dict(engine=fp.Exact(), rtol=1e-3), "`rtol` is a setting of an engine by name"),
        (dict(engine="exact", runs=5), "`runs` is no setting of the engine 'exact'"),
        (dict(engine="expansion", rtol=1e-3), "`rtol` is no setting of the engine 'expansion'"),
        (dict(engine="magic"), "`engine` must be one of auto, exact, expansion, conditional, monte-carlo"),
        (dict(total=5.0), "`total` is for post-processings that keep one, got baseline"),
    ],
)
def test_a_setting_that_nobody_would_look_at_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        fp.audit([1, 2], fp.Laplace(1.0), "baseline", **given)


def test_the_keywords_of_the_last_version_are_taken_with_one_line_of_warning() -> None:
    wanted = fp.audit([1, 20], fp.Laplace(1.0), "simplex", engine="exact").alpha
    with pytest.warns(FutureWarning, match="`postprocess` is called `rule` now"):
        assert fp.audit([1, 20], fp.Laplace(1.0), postprocess="simplex").alpha == wanted
    with pytest.warns(FutureWarning, match="`method` is called `engine` now"):
        (found,) = fp.compare([1, 20], fp.Laplace(1.0), ["simplex"], method="exact")
    assert found.alpha == wanted
    with pytest.raises(TypeError, match="speed"):
        fp.audit([1, 20], fp.Laplace(1.0), "simplex", speed=3)


def test_an_object_has_its_own_total_and_groups() -> None:
    counts = fp.Counts([1, 2], groups=["a", "b"])
    for given, word in ((dict(by_group=True), "by_group"), (dict(total=3.0), "total")):
        with pytest.raises(ParameterError, match=f"`{word}` is for a post-processing chosen by name"):
            fp.audit(counts, fp.Laplace(1.0), fp.Simplex(3.0), **given)
    with pytest.raises(ParameterError, match="`budget` is for allocations, got simplex"):
        fp.audit(counts, fp.Laplace(1.0), "simplex", budget=5.0)
    mixed = fp.compare(counts, fp.Laplace(1.0), ["nonnegative", "simplex", "pos"], total=4.0, budget=5.0)
    assert [r.money is not None for r in mixed] == [False, False, True]
    assert mixed[1].bias.sum() == pytest.approx(1.0)


def test_numbers_alone_are_counts() -> None:
    for given in ([1, 2, 30], (1, 2, 30), np.array([1, 2, 30])):
        assert (
            fp.audit(given, fp.Laplace(2.0), "simplex").alpha
            == fp.audit(fp.Counts([1, 2, 30]), fp.Laplace(2.0), "simplex").alpha
        )
    with pytest.raises(CountsError, match="at least 0, got -1"):
        fp.audit([-1, 2], fp.Laplace(2.0), "simplex")


# ---- what a mechanism is ------------------------------------------------------------------------------------------

LAW = fp.Programme.named("title1-basic")
TREE = fp.Hierarchy.from_geoids(["aa", "ab", "ba"], {"s": 1, "b": 2})
WITH_BASE = fp.Counts([30, 400], base=[300, 900])
TAKES = {
    "audit": lambda m: fp.audit([3, 40], m, "simplex"),
    "compare": lambda m: fp.compare([3, 40], m, ["simplex"]),
    "sweep": lambda m: fp.sweep([3, 40], [m], ["simplex"]),
    "sweep of one": lambda m: fp.sweep([3, 40], m, ["simplex"]),
    "plan": lambda m: fp.plan([3, 40], m, "simplex", spreads=[1, 2], max_loss=1),
    "frontier": lambda m: fp.frontier([3, 40], m, "simplex-threshold"),
    "allocate": lambda m: fp.allocate(NOISY, None, "pos", m),
    "project": lambda m: fp.project(NOISY, "simplex", mechanism=m),
    "check": lambda m: fp.check(fp.Counts([3, 40]), [4, 39], m),
    "theorem1": lambda m: fp.theorem1(fp.Counts([3, 40]), m),
    "proposition2": lambda m: fp.proposition2(fp.Counts([3, 40]), m),
    "base_noise": lambda m: fp.audit(WITH_BASE, NOISE, "as-written", programme=LAW, base_noise=m),
    "audit_hierarchy": lambda m: fp.audit_hierarchy([1, 2, 3], m, fp.TopDown(TREE)),
}


@pytest.mark.parametrize(("given", "shown"), [("laplace", "'laplace'"), (0.1, "0.1"), (fp.Stream, "the class Stream")])
@pytest.mark.parametrize("verb", TAKES)
def test_what_is_no_mechanism_is_named_with_what_was_expected(verb, given, shown):
    with pytest.raises(ParameterError) as refused:
        TAKES[verb](given)
    said = str(refused.value)
    assert any(name in said for name in ("fp.Laplace", "list of noises", "fp.LevelNoise", "a mechanism or 'same'"))
    assert said.endswith(f"got {shown}")


# ---- the index of a pandas Series ---------------------------------------------------------------------------------


def test_the_index_of_a_series_has_the_ids():
    pandas = pytest.importorskip("pandas")
    x = pandas.Series([3, 40, 9], index=["Ash", "Birk", "Corve"])
    assert fp.audit(x, NOISE, "simplex").counts.ids == ("Ash", "Birk", "Corve")
    assert fp.Counts(x, ids=["a", "b", "c"]).ids == ("a", "b", "c")
    assert fp.Counts(pandas.Series([3, 40])).ids == fp.Counts([3, 40]).ids
    assert fp.project(x - 5).ids == fp.allocate(x, weights=2 * x).ids == ("Ash", "Birk", "Corve")
    kept = x[x > 5]  # filtered: the labels stay with their rows
    assert dict(zip(fp.Counts(kept).ids, fp.Counts(kept).values, strict=True)) == {"Birk": 40, "Corve": 9}
    released = pandas.Series([10, 4, 41], index=["Corve", "Ash", "Birk"])  # another order
    assert fp.check(fp.Counts(x), released).difference.tolist() == [1, 1, 1]
    assert fp.check(fp.Counts(x), [released, released]).difference.tolist() == [1, 1, 1]
    assert fp.check(fp.Counts([3, 40, 9]), released).difference.tolist() == [
        7,
        -36,
        32,
    ]  # counts without ids: place by place
    with pytest.raises(CountsError, match="`weights` must have the index of the counts"):
        fp.Counts(x, weights=released)
    with pytest.raises(CountsError, match=r"must be unique.*reset_index"):
        fp.Counts(pandas.concat([x, x]))
