"""Results as sequences, frames, one screen of text, a table in a notebook, a figure."""

import io
import json
import math
import re
import stat
import sys
from dataclasses import replace
from operator import attrgetter

import numpy as np
import polars as pl
import pytest
from python_calamine import CalamineWorkbook

import fairpost as fp
from fairpost.errors import InputError, ParameterError
from fairpost.io import entities_csv
from fairpost.noise import Neighbours
from fairpost.report import audit_page

MARK = "confidential: computed from true counts"
NASTY = ['<script>alert("1")</script>', "a\nb & c", "Ω" * 90, "007"]
X = fp.Counts([0, 47, 820, 3], ids=NASTY, weights=[1.3, 0.7, 1.1, 1.0], groups=["n", "s", "n", "s"])
NOISE = fp.Laplace(scale=8.0)
NOISY = [-4.25, 13.5, 824.0, 9.0]
SPREADS = np.geomspace(0.05, 30.0, 30)


@pytest.fixture(scope="module")
def found():
    rules = ["nonnegative", "simplex", "baseline", "pos"]
    exact = fp.compare(X, NOISE, rules, budget=54321.0)
    note = "".join(chr(33 + k % 90) for k in range(700))
    many = fp.compare(X, NOISE, ["none"] * 40)
    points = [fp.Laplace(float(s)) for s in SPREADS]
    return {
        "check": fp.check(X, [NOISY, NOISY[::-1]], NOISE),
        "audit": exact[1],
        "allocation audit": exact[3],
        "simulated": fp.audit(X, fp.DiscreteLaplace(3.9), "pos", engine="monte-carlo", runs=300),
        "noted": replace(exact[1], engine=replace(exact[1].engine, note=note)),
        "comparison": exact,
        "many": many,
        "empty": exact[:0],
        "curve": fp.sweep(X, points, ["nonnegative"], epsilon=lambda m: 1 / m.scale),
        "refused": fp.sweep(X, points[:3], ["simplex"], engine="expansion"),
        "plan": fp.plan(X, fp.Laplace, "pos", max_loss=60.0, spreads=[2.0, 9.0, 30.0], budget=54321.0),
        "projection": fp.project(NOISY, ids=NASTY, groups=list("nsns"), total={"n": 820, "s": 22}, round=True, seed=5),
        "allocation": fp.allocate(
            NOISY, X.weights, "pos", NOISE, ids=NASTY, budget=54321.0, estimate_bias=True, replicates=2
        ),
        "shares": fp.allocate(NOISY),
    }


KINDS = (
    "check", "audit", "allocation audit", "simulated", "noted", "comparison", "many", "curve", "refused", "plan", "projection",
    "allocation", "shares",
)  # fmt: skip
TRUE = KINDS[:10]


# ---- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "empty"])
def test_a_repr_fits_a_screen(found, kind):
    lines = repr(found[kind]).splitlines()
    assert 1 < len(lines) <= 20
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines)
    assert (MARK in repr(found[kind])) == (kind in TRUE or kind == "empty")


def test_what_does_not_fit_is_counted_and_errors_have_their_kind(found):
    shown, left = re.search(r"((?:^ +none .*\n)+).*\.\.\. and (\d+) more", repr(found["many"]), re.M).groups()
    assert shown.count("\n") + int(left) == 40
    assert re.search("^ +note +\\S", repr(found["noted"]), re.M)
    kinds = ("(interval)", "(bound)", "(estimate)")
    assert [[kind in repr(found[r]) for kind in kinds] for r in ("simulated", "audit")] == [
        [True, False, False], [False, False, True],
    ]  # fmt: skip


# ---- sequences ----------------------------------------------------------------------------------------------------


def test_a_comparison_is_a_sequence(found):
    c = found["comparison"]
    assert len(c) == 4
    assert [r.postprocess for r in c] == ["nonnegative", "simplex", "baseline", "pos"]
    assert c[-1] is c.audits[3]
    assert c[1] in c
    assert isinstance(c[1:3], fp.Comparison)
    assert [r.postprocess for r in c[::-2]] == ["pos", "simplex"]
    assert c.index(c[2]) == 2
    first, *_, last = c
    assert (first.postprocess, last.postprocess) == ("nonnegative", "pos")
    with pytest.raises(IndexError):
        c[4]
    with pytest.raises(AttributeError):
        c.audits = ()


def test_a_comparison_is_about_one_thing(found):
    other = fp.audit(X, fp.Laplace(9.0), "none")
    for wrong in (other, fp.audit([0, 47, 820, 1], NOISE, "none")):
        with pytest.raises(ParameterError, match="the same counts and the same mechanism"):
            fp.Comparison.of([found["audit"], wrong])
    same = fp.Counts(X.values, ids=X.ids, weights=X.weights, groups=X.groups)
    assert len(fp.Comparison.of([found["audit"], fp.audit(same, NOISE, "none")])) == 2
    assert fp.Comparison.of(found["comparison"]) is found["comparison"]
    for use in (lambda c: c.to_dict(), lambda c: c.to_frame(), lambda c: c.plot()):
        with pytest.raises(InputError, match="at least one result, got none"):
            use(found["empty"])


def test_the_json_of_a_comparison(found):
    c = found["comparison"]
    assert "entities" not in c.to_dict()["results"][0]
    twice = json.loads(json.dumps(c.to_dict(entities=True, neighbours=Neighbours(2.0))))
    assert (twice["counts"], twice["mechanism"]["epsilon"]) == ({"n": 4, "total": 870.0}, 2 / 8)
    assert twice["entities"][1] == {"id": NASTY[1], "count": 47.0, "weight": 0.7, "group": "s"}
    again = fp.Comparison.from_dict(twice)
    assert again.to_dict(entities=True) == twice  # the sensitivity too
    for one, other in zip(c, again, strict=True):
        for name in ("truth", "bias", "half_width", "moments.mse", "moments.zero", "moments.deviation", "money"):
            mine, theirs = attrgetter(name)(one), attrgetter(name)(other)
            assert (mine is None and theirs is None) or mine.tolist() == theirs.tolist(), name
        assert (other.alpha, other.rule.bounds, other.rule.expected_T) == (
            one.alpha,
            one.rule.bounds,
            one.rule.expected_T,
        )
        assert other.overall.by_group() == one.overall.by_group()
        assert repr(other) == repr(one)


def test_a_report_can_be_made_from_what_was_read_back(found):
    again = fp.Comparison.from_dict(found["comparison"].to_dict(entities=True))
    assert audit_page(again) == audit_page(found["comparison"])


# ---- frames -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_frames_and_files_hold_the_same(found, kind, tmp_path):
    """Polars, pandas, CSV, HTML: the same columns and numbers; a file of what true counts gave is its owner's alone."""
    result = found[kind]
    if kind == "refused":
        assert result.to_frame().height == 0
        return
    frame, pandas = result.to_frame(), result.to_pandas()
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == list(pandas.columns)
    for name in frame.columns:
        there = [None if isinstance(v, float) and math.isnan(v) else v for v in pandas[name].tolist()]
        assert there == frame[name].to_list(), name
    text = result.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == text == result.to_csv()
    if kind not in ("comparison", "many"):
        assert frame.write_csv() == text
    page = result.to_html(tmp_path / "t.html")
    assert (tmp_path / "t.html").read_text() == page
    assert "<script" not in page
    assert page.count("<tr>") >= frame.height if kind not in ("comparison", "many") else X.n
    private = kind in TRUE
    assert ("confidential" in frame.columns, MARK in page) == (private, private)
    for file in tmp_path.iterdir():
        assert (stat.S_IMODE(file.stat().st_mode) == 0o600) == private


def test_the_frame_of_a_comparison_is_long_and_its_table_is_that_of_the_command(found):
    c = found["comparison"]
    assert c.to_csv() == entities_csv(c)
    frame = c.to_frame()
    assert frame["id"].to_list() == NASTY * 4
    assert frame["rule"].to_list() == [r.postprocess for r in c for _ in range(X.n)]
    for r in c:
        one = frame.filter(pl.col("rule") == r.postprocess)
        assert one["due"].to_list() == r.truth.tolist()
        assert one["bias"].to_list() == r.bias.tolist()
        assert one["bias_money"].to_list() == ([None] * 4 if r.money is None else r.money.tolist())
        alone = r.to_frame()
        assert one.select(alone.columns).equals(alone)
    assert frame["unit"].unique(maintain_order=True).to_list() == ["people", "share"]
    wide = pl.read_csv(io.StringIO(c.to_csv()))
    assert wide["pos_bias_money"].to_list() == c[3].money.tolist()
    assert wide["true_count"].to_list() == [0, 47, 820, 3]
    assert "standard_error" in found["simulated"].to_frame().columns
    assert "standard_error" not in found["audit"].to_frame().columns


def test_one_entity_by_its_id(found):
    one = found["allocation audit"].loc["007"]
    r = found["allocation audit"]
    assert (one.count, one.due, one.bias, one["bias_money"]) == (3, r.truth[3], r.bias[3], r.money[3])
    assert set(one) == set(r.to_frame().columns)
    assert "bias_money" in repr(one)
    both = found["comparison"].loc["007"]
    assert both.rule == ["nonnegative", "simplex", "baseline", "pos"]
    assert both.bias == [r.bias[3] for r in found["comparison"]]
    assert (both.count, both["pos"].bias) == (3, r.bias[3])
    assert found["allocation"].loc["007"]["pos_share"] == found["allocation"].shares[3]
    for wrong in (3, "7", "008"):
        with pytest.raises(
            ParameterError, match=r"`loc` takes the id of an entity, as text: there is none with the id"
        ):
            found["comparison"].loc[wrong]
    with pytest.raises(ParameterError, match="a Curve has no entities"):
        found["curve"].loc["007"]
    with pytest.raises(AttributeError, match="this entity has no 'alpha', but id, count"):
        one.alpha  # noqa: B018


def test_a_workbook_keeps_texts_and_needs_a_library(found, tmp_path, monkeypatch):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "xlsxwriter", None)
        with pytest.raises(
            fp.UnsupportedError, match=r"to_excel\(\) needs xlsxwriter, .* \(pip install 'fairpost\[excel\]'\)"
        ):
            found["comparison"].to_excel(tmp_path / "t.xlsx")
    assert not list(tmp_path.iterdir())
    pytest.importorskip("xlsxwriter")
    found["comparison"].to_excel(tmp_path / "t.xlsx")
    assert stat.S_IMODE((tmp_path / "t.xlsx").stat().st_mode) == 0o600
    head, *rows = CalamineWorkbook.from_path(str(tmp_path / "t.xlsx")).get_sheet_by_name("confidential").to_python()
    assert ",".join(head) == found["comparison"].to_csv().partition("\n")[0]
    assert [row[0] for row in rows] == NASTY


def test_a_library_that_is_not_there_is_named(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(
        fp.UnsupportedError,
        match=r"^plot\(\) needs plotly, which is not installed \(pip install 'fairpost\[plots\]'\)$",
    ):
        found["audit"].plot()


MOVED = {
    "engine": "note runs seed confidence interrupted standard_error variance_reduction sample",
    "moments": "mse mse_accuracy zero zero_accuracy deviation rmse mean_zero price",
    "rule": "title signed grouped budgets base_noise kept degenerate expected_T bounds targets",
    "overall": "unit relative_rmse verdicts outcome quantity whose wrong wrong_chance by_group by_size",
    "relative": "of half_width largest_loss",
    "accuracy": "half_width",
    "problem": "task",
}
OLD = {("relative", "of"): "relative_of", ("relative", "half_width"): "relative_half_width",
       ("relative", "largest_loss"): "largest_relative_loss"}  # fmt: skip


def test_an_audit_has_few_attributes_and_those_of_earlier_versions_warn(found):
    r = found["simulated"]
    assert len([name for name in dir(r) if not name.startswith("_")]) <= 30
    for place, name in ((place, name) for place, names in MOVED.items() for name in names.split()):
        before = OLD.get((place, name), name)
        with pytest.warns(FutureWarning, match=rf"`Audit.{before}` is now `Audit.{place}.{name}`"):
            old = getattr(r, before)
        assert callable(old) or repr(old) == repr(getattr(getattr(r, place), name))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        r.nothing  # noqa: B018


# ---- figures ------------------------------------------------------------------------------------------------------


def placed(axis):
    """Where an axis puts a number, from its ticks: linear near 0, a unit for each decade far from it."""
    ticks = dict(zip(axis.ticktext, axis.tickvals, strict=True))
    last = next(text for text in reversed(axis.ticktext) if "-" not in text)
    threshold = float(last.replace(",", "")) / (10 ** ticks[last] - 1)
    return threshold, lambda v: np.sign(v) * np.log10(1 + np.abs(v) / threshold)


def test_an_axis_shows_both_signs_and_many_decades():
    off = np.array([-5e4, -30.0, -0.2, 0.0, 0.01, 7.0, 2e3])
    figure = fp.check(np.full(7, 1e5), 1e5 + off).plot()
    axis = figure.layout.yaxis
    threshold, place = placed(axis)
    assert threshold == pytest.approx(0.05)  # a millionth of the largest
    assert list(figure.data[0].y) == pytest.approx(place(off).tolist(), abs=1e-6)
    assert {"0", "-10,000", "1,000", "0.1", "-0.1"} <= set(axis.ticktext)
    for text, at in zip(axis.ticktext, axis.tickvals, strict=True):
        assert at == pytest.approx(place(float(text.replace(",", ""))))
    assert max(map(abs, axis.tickvals)) <= np.abs(place(off)).max() + 1
    narrow = fp.check([5, 5, 5], [4, 5, 95]).plot()
    assert narrow.layout.yaxis.tickvals is None
    assert list(narrow.data[0].y) == [-1.0, 0.0, 90.0]
    assert fp.check([5, 5], [6, -95]).plot().layout.yaxis.tickvals is not None


def test_the_figure_of_an_audit(found):
    r, simulated = found["audit"], found["simulated"]
    figure = r.plot()
    (trace,) = figure.data
    assert list(trace.x) == pytest.approx(placed(figure.layout.xaxis)[1](r.truth).tolist())
    assert trace.error_y.array is None
    assert MARK in figure.layout.title.text
    for bias, said in zip(r.bias, trace.hovertext, strict=True):
        assert float(re.search(r"(\S+)$", said)[1].replace(",", "")) == pytest.approx(bias, rel=1e-4)
    assert "<script" not in json.dumps(figure.to_plotly_json(), default=str)
    bars = simulated.plot()
    axis, (bars,) = bars.layout.yaxis, bars.data
    place = (lambda v: v) if axis.tickvals is None else placed(axis)[1]
    for sign, ends in ((1, bars.error_y.array), (-1, bars.error_y.arrayminus)):
        wanted = place(simulated.bias + sign * simulated.half_width)
        assert np.array(bars.y) + sign * np.array(ends) == pytest.approx(wanted)
    assert found["allocation audit"].plot().layout.yaxis.title.text == "bias (money)"


def test_the_figure_of_a_comparison_has_one_unit(found):
    c = found["comparison"]
    with pytest.raises(ParameterError, match=r"one unit, got .* in people and .* in money"):
        c.plot()
    figure = c[2:].plot()
    assert [t.name for t in figure.data] == ["baseline", "pos"]
    axis = figure.layout.yaxis
    place = (lambda v: v) if axis.tickvals is None else placed(axis)[1]
    assert list(figure.data[1].y) == pytest.approx(place(c[3].money).tolist(), abs=1e-9)


# ---- what only some results have ----------------------------------------------------------------------------------


def test_a_rule_that_comes_twice_gets_a_number():
    c = fp.compare(X, NOISE, ["pos", "baseline", "pos", "pos"])
    rows = pl.read_csv(io.StringIO(c.to_csv()))
    names = [n for n in rows.columns if n.endswith("_bias") and not n.endswith("relative_bias")]
    assert names == ["pos_bias", "baseline_bias", "pos_2_bias", "pos_3_bias"]
    assert rows["pos_3_bias"].to_list() == c[3].bias.tolist()


def test_the_kinds_of_accuracy_keep_their_places(found):
    r = found["audit"]
    few = replace(r.moments.mse_accuracy, kind="expansion"), replace(r.moments.zero_accuracy, kind="interval")
    mixed = replace(r, moments=replace(r.moments, mse_accuracy=few[0], zero_accuracy=few[1]))
    assert mixed.to_dict()["accuracies"] == {
        "bias": r.accuracy.kind, "mean_squared_error": "expansion", "zero": "interval",
    }  # fmt: skip


def test_a_wrong_decision_stands_with_its_entity():
    """Who is due something is wrong where the result is 0, who is due nothing where it is not."""
    law = fp.Programme.named("section-203")
    x = fp.Counts([40.0, 300.0, 12_000.0], base=[4000.0, 9000.0, 100_000.0])
    found = fp.audit(x, fp.DiscreteLaplace(30.0), "as-written", programme=law)
    zero, due = found.moments.zero, found.truth > 0
    assert 0 < due.sum() < 3
    wrong = np.where(due, zero, 1 - zero)
    assert [row["wrong"] for row in found.to_dict(entities=True)["entities"]] == wrong.tolist()
    assert found.to_dict()["wrong"] == {"out": wrong[due].sum(), "in": wrong[~due].sum()}
    assert "wrong" not in fp.audit(x, NOISE, "pos").to_dict(entities=True)["entities"][0]
