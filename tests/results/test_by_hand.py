"""What a result says about itself, and its files: results made by hand, so that every number has one place only."""

import csv
import dataclasses
import io
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

import fairpost as fp
from fairpost import fairness
from fairpost.accuracy import Accuracy
from fairpost.budgets import GroupBudgets
from fairpost.io import entities_csv
from fairpost.plan import Point
from fairpost.results.reading import counts_from
from fairpost.results.writing import counts_data
from support.results_by_hand import ALL, BASELINE, BUDGET, POS, SIMPLEX, THRESHOLD, simulated

MARK = "confidential: computed from true counts"


def estimate(e):
    return {"value": e.value, "low": e.low, "high": e.high, "accuracy": e.kind}


# ---- entities of results made by hand -----------------------------------------------------------------------------


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def relative_half(r):
    """A half-width over what is due, and the rounding of a quotient of sums of five: (2 * 5 + 4) eps."""
    return r.half_width / r.truth + 14 * np.finfo(float).eps * np.abs(r.bias / r.truth)


def loss_of(bias, half, who, kind):
    """The largest loss: at the value, at the nearer and at the farther end of every interval."""
    ends = [max(0.0, float(np.max(-(bias + s * half)))) for s in (0, 1, -1)]
    return dict(zip(("value", "low", "high"), map(about, ends), strict=True)) | {
        "accuracy": kind,
        "id": who,
        "name": who,
    }


def about(v):
    return pytest.approx(v, rel=1e-12, abs=1e-15)


def interval(value, half, kind):
    return {"value": about(value), "low": about(value - half), "high": about(value + half), "accuracy": kind}


def root(mse, half, kind):
    ends = {"value": mse.mean(), "low": mse.mean() - half.mean(), "high": mse.mean() + half.mean()}
    return {k: about(math.sqrt(v)) for k, v in ends.items()} | {"accuracy": kind}


def group_of(r, g, who):
    """One group from the vectors."""
    bias, half, due = r.bias[who], r.half_width[who], r.truth[who].sum()
    total = half.sum() + (len(who) - 1) * 2.0**-53 * np.abs(bias).sum()
    worst, kind = who[int(np.argmin(bias))], r.accuracy.kind
    low, high = bias - half, bias + half
    rounding = (2 * (5 + len(who)) + 4) * np.finfo(float).eps * abs(bias.sum() / due)
    return {
        "group": g,
        "n": len(who),
        "due": about(due),
        "bias": pytest.approx(bias.sum(), rel=1e-14),
        "half_width": pytest.approx(total, rel=1e-12),
        "relative_bias": about(bias.sum() / due),
        "relative_half_width": about(total / due + rounding),
        "alpha": {
            "value": about(np.ptp(bias)),
            "low": about(max(0.0, low.max() - high.min())),
            "high": about(high.max() - low.min()),
            "accuracy": kind,
        },
        "worst": interval(r.bias[worst], r.half_width[worst], kind)
        | {
            "id": r.counts.ids[worst],
            "relative_bias": interval(r.bias[worst] / r.truth[worst], relative_half(r)[worst], kind),
        },
        "root_mean_squared_error": pytest.approx(math.sqrt(r.mse[who].mean()), rel=1e-14),
        "root_mean_squared_error_interval": root(r.mse[who], r.mse_accuracy.half_width[who], "bound"),
    }


def test_the_table_of_results_made_by_hand():
    rows = read(entities_csv(ALL))
    wanted = {"id": list(BASELINE.counts.ids), "confidential": ["computed from true counts"] * 5}
    numbers = {
        "count": [7, 31, 128, 517, 2063],
        "weight": [1.3, 0.7, 1.1, 0.9, 1.7],
        "true_share": [0.06, 0.09, 0.16, 0.28, 0.41],
        "true_count": [7, 31, 128, 517, 2063],
    }
    for r in ALL:
        name = r.postprocess.replace("-", "_")
        numbers[f"{name}_bias"] = r.bias
        numbers[f"{name}_half_width"] = r.half_width
        if r.simulated:
            numbers[f"{name}_standard_error"] = r.standard_error
        wanted[f"{name}_accuracy"] = ["interval" if r.simulated else "bound"] * 5
        numbers[f"{name}_standard_deviation"] = r.deviation
        numbers[f"{name}_zero"] = r.zero
        if r.budget is not None:
            numbers[f"{name}_money"] = r.bias * BUDGET
        numbers[f"{name}_relative_bias"] = r.bias / r.truth
        numbers[f"{name}_relative_half_width"] = relative_half(r)
    assert set(rows[0]) == {*wanted, *numbers, "group"}
    for name, values in wanted.items():
        assert [row[name] for row in rows] == values
    for name, values in numbers.items():
        assert [float(row[name]) for row in rows] == list(values), name
    assert [row["group"] for row in rows] == ["north", "south", "north", "west", "south"]
    assert rows[0]["count"] == "7"  # whole numbers without a point
    flat = [float(row[name]) for row in rows for name in numbers if name.count("_") > 1 or name.endswith("bias")]
    assert len(set(flat)) > 0.9 * len(flat)


def test_a_rule_that_comes_twice_gets_a_number():
    rows = read(entities_csv((POS, BASELINE, POS, POS)))
    names = [c for c in rows[0] if c.endswith("_bias") and not c.endswith("relative_bias")]
    assert names == ["pos_bias", "baseline_bias", "pos_2_bias", "pos_3_bias"]
    assert [float(r["pos_3_bias"]) for r in rows] == POS.bias.tolist()


@pytest.mark.parametrize("result", ALL, ids=lambda r: r.postprocess)
def test_the_json_of_a_result_made_by_hand(result):
    data = result.to_dict(entities=True)
    cost = result.cost_of_privacy
    told = (
        None
        if cost is None
        else {
            "share": cost.share.value,
            "amount": cost.amount.value,
            "share_interval": estimate(cost.share),
            "amount_interval": estimate(cost.amount),
        }
    )
    drawn = result.simulated
    mean = {k: float(np.mean(getattr(result, k))) for k in ("mse", "deviation", "zero")}
    assert {k: v for k, v in data.items() if k != "entities"} == {
        "postprocess": result.postprocess,
        "title": result.title,
        "signed": False,
        "problem": "proportional" if result.task == "allocation" else "release",
        "task": "release" if "simplex" in result.postprocess else "allocation",
        "accuracies": {"bias": "interval" if drawn else "bound", "mean_squared_error": "bound", "zero": "bound"},
        "groups": [group_of(result, g, who) for g, who in (("north", [0, 2]), ("south", [1, 4]), ("west", [3]))],
        "accuracy": "interval" if drawn else "bound",
        "confidence": 0.9 if drawn else None,
        "interrupted": False,
        "by_group": False,
        "base_noise": None,
        "group_budgets": None,
        "method": "monte-carlo" if drawn else "exact",
        "runs": 1234 if drawn else None,
        "seed": 77 if drawn else None,
        "alpha": estimate(result.alpha),
        "total_off": {"value": 0.0, "low": 0.0, "high": 0.0, "accuracy": "bound", "kept": [0.0]},
        "alpha_pair": ["Ash", "Dogwood" if result is THRESHOLD else "Elm"],
        "bounds": asdict(result.bounds) if result is SIMPLEX else None,
        "cost_of_privacy": told,
        "price": {
            "root_mean_squared_error": math.sqrt(mean["mse"]),
            "mean_standard_deviation": mean["deviation"],
            "mean_probability_of_zero": mean["zero"],
        },
        "rmse": root(result.mse, result.mse_accuracy.half_width, "bound"),
        "relative_rmse": root(
            result.mse / result.truth.mean() ** 2, result.mse_accuracy.half_width / result.truth.mean() ** 2, "bound"
        ),
        "largest_loss": loss_of(
            result.bias, result.half_width, "Dogwood" if result is THRESHOLD else "Elm", result.accuracy.kind
        ),
        "largest_relative_loss": loss_of(
            result.bias / result.truth,
            relative_half(result),
            {SIMPLEX: "Cedar", THRESHOLD: "Birch"}.get(result, "Elm"),
            result.accuracy.kind,
        ),
        "outcome": None,
        "verdicts": [],
        "expected_T": {"value": 3.2, "low": 3.19, "high": 3.21, "accuracy": "bound"} if result is SIMPLEX else None,
        "degenerate": result.degenerate,
        "variance_reduction": {"pos": 5.5, "simplex-threshold": 1.75}.get(result.postprocess),
        "note": result.note,
        "wrong": None,
        "mark": MARK,
    }
    for k, entity in enumerate(data["entities"]):
        assert entity == {
            "id": result.counts.ids[k],
            "due": result.truth[k],
            "bias": result.bias[k],
            "half_width": result.half_width[k],
            "relative_bias": result.bias[k] / result.truth[k],
            "relative_half_width": relative_half(result)[k],
            "accuracy": "interval" if drawn else "bound",
            "standard_error": result.standard_error[k] if drawn else None,
            "standard_deviation": result.deviation[k],
            "mean_squared_error": result.mse[k],
            "mean_squared_error_half_width": result.mse_accuracy.half_width[k],
            "zero": result.zero[k],
            "zero_half_width": result.zero_accuracy.half_width[k],
        }
    assert "entities" not in result.to_dict()


def test_what_a_result_says_about_itself():
    assert BASELINE.money == pytest.approx([49200, 16400, -6800, -11600, -47200])
    assert SIMPLEX.money is None
    assert BASELINE.half_width is BASELINE.accuracy.half_width
    assert POS.half_width.tolist() == [0.00071, 0.00052, 0.00124, 0.00067, 0.00083]
    loss, who = POS.largest_loss
    assert who == "Elm"
    assert estimate(loss) == pytest.approx(
        {"value": 0.0031234, "low": 0.0022934, "high": 0.0039534, "accuracy": "interval"}
    )
    groups = [asdict(g) for g in BASELINE.by_group()]
    assert groups == [
        {"label": "north", "n": 2, "total": pytest.approx(0.0106), "mean": pytest.approx(0.0053), "least": -0.0017, "most": 0.0123},
        {"label": "south", "n": 2, "total": pytest.approx(-0.0077), "mean": pytest.approx(-0.00385), "least": -0.0118, "most": 0.0041},
        {"label": "west", "n": 1, "total": -0.0029, "mean": -0.0029, "least": -0.0029, "most": -0.0029},
    ]  # fmt: skip
    sizes = [(s.label, s.n, s.total) for s in BASELINE.by_size([0, 31, 517, 3000])]
    assert sizes == [
        ("[0, 31)", 1, 0.0123),
        ("[31, 517)", 2, pytest.approx(0.0024)),
        ("[517, 3000)", 2, pytest.approx(-0.0147)),
    ]
    labels = [s.label for s in BASELINE.by_size()]
    assert labels == ["[0, 1)", "[1, 10)", "[10, 100)", "[100, 1000)", "[1000, 10000)"]
    empty = BASELINE.by_size()[0]
    assert (empty.n, empty.total, empty.mean, empty.least, empty.most) == (0, 0.0, None, None, None)


def test_intervals_of_what_follows_from_the_biases():
    bias, width = np.array([0.5, -0.2, -0.05, 0.3]), np.array([0.01, 0.02, 0.07, 0.4])
    alpha = fairness.alpha_interval(bias, Accuracy("bound", width))
    # the highest the largest can be is 0.7 (the last), the lowest the smallest can be -0.22; the surest: 0.49 and -0.18
    assert estimate(alpha) == pytest.approx({"value": 0.7, "low": 0.67, "high": 0.92, "accuracy": "bound"})
    assert fairness.alpha_interval(bias, Accuracy("bound", np.ones(4))).low == 0.0
    cost = fairness.cost_interval(bias, Accuracy("bound", width))  # sums of losses at bias + width, bias, bias - width
    assert estimate(cost) == pytest.approx({"value": 0.25, "low": 0.18, "high": 0.22 + 0.12 + 0.1, "accuracy": "bound"})
    assert fairness.cost_interval(bias, Accuracy("bound", width), [1, 3, 2, 5]).value == pytest.approx(0.7)
    loss = fairness.loss_interval(bias, Accuracy("bound", width))
    assert estimate(loss) == pytest.approx({"value": 0.2, "low": 0.18, "high": 0.22, "accuracy": "bound"})
    assert fairness.loss_interval(np.array([0.5, 0.1]), Accuracy("bound", np.array([0.1, 0.3]))).low == 0.0
    assert fairness.loss_interval(np.array([0.5, 0.1]), Accuracy("bound", np.array([0.1, 0.3]))).high == pytest.approx(
        0.2
    )
    found = fairness.alpha(bias)
    assert (found.most, found.least, found.value) == (0, 1, pytest.approx(0.7))
    assert fairness.cost_of_privacy(bias, 40.0) == pytest.approx(10.0)
    assert fairness.cost_of_privacy_l1([0.3, -0.1, -0.2], 40.0) == pytest.approx(12.0)
    assert fairness.misallocation(bias, 40.0) == pytest.approx([20.0, -8.0, -2.0, 12.0])
    assert asdict(fairness.Estimate(2.0, 1.0, 5.0).scaled(3.0)) == {
        "value": 6.0,
        "low": 3.0,
        "high": 15.0,
        "kind": "bound",
    }


def test_widths_made_by_hand_reach_the_point():
    wide = simulated(POS, POS.half_width * 1.5, 5.5)
    assert Point.of(wide).loss.high == pytest.approx((0.0031234 + 1.5 * 0.00083) * BUDGET)


# ---- what only some results have ------------------------------------------------------------------------------------


def test_the_kinds_of_accuracy_keep_their_places():
    n = BASELINE.counts.n
    mixed = replace(
        BASELINE,
        mse_accuracy=Accuracy("expansion", np.full(n, 0.1)),
        zero_accuracy=Accuracy("interval", np.full(n, 0.2)),
    )
    assert mixed.to_dict()["accuracies"] == {"bias": "bound", "mean_squared_error": "expansion", "zero": "interval"}


def test_losses_name_the_entity_and_nobody_is_nobody():
    counts = fp.Counts(
        BASELINE.counts.values, ids=BASELINE.counts.ids, weights=BASELINE.counts.weights,
        names=["the ash", "the birch", "the cedar", "the dogwood", "the elm"],
    )  # fmt: skip
    named = replace(BASELINE, counts=counts)
    data = named.to_dict()
    assert (data["largest_loss"]["id"], data["largest_loss"]["name"]) == ("Elm", "the elm")
    assert data["groups"] is None
    assert BASELINE.to_dict()["groups"] is not None
    nobody = replace(named, truth=np.zeros(5)).to_dict()["largest_relative_loss"]
    assert (nobody["id"], nobody["name"]) == (None, None)


def test_budgets_of_groups_and_noise_on_the_base_are_told():
    plain = BASELINE.to_dict()
    assert (plain["group_budgets"], plain["base_noise"]) == (None, None)
    budgets = GroupBudgets({"north": 1.0, "south": 2.0, "west": 1.0}, np.ones(5), "as given")
    told = replace(BASELINE, budgets=budgets, base_noise=fp.Gaussian(3.0)).to_dict()
    assert told["group_budgets"] == {"rule": "as given", "amounts": {"north": 1.0, "south": 2.0, "west": 1.0}}
    assert told["base_noise"] == fp.Gaussian(3.0).describe()


def test_a_wrong_decision_stands_with_its_entity():
    class Deciding(type(BASELINE)):
        @property
        def wrong_chance(self):
            return np.array([0.1, 0.2, 0.3, 0.4, 0.5])

    fields = {f.name: getattr(BASELINE, f.name) for f in dataclasses.fields(BASELINE)}
    rows = Deciding(**fields).to_dict(entities=True)["entities"]
    assert [row["wrong"] for row in rows] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert "wrong" not in BASELINE.to_dict(entities=True)["entities"][0]


def test_counts_with_all_that_belongs_to_them():
    plain = fp.Counts([3, 4], ids=["a", "b"])
    assert counts_data(plain) == [{"id": "a", "count": 3.0, "weight": 1.0}, {"id": "b", "count": 4.0, "weight": 1.0}]
    full = fp.Counts(
        [3, 4], ids=["a", "b"], weights=[2.0, 5.0], groups=["g", "h"], names=["A", "B"], base=[9, 11],
        kept={"note": ["n", "m"], "year": [1, 2]},
    )  # fmt: skip
    assert counts_data(full) == [
        {
            "id": "a",
            "count": 3.0,
            "weight": 2.0,
            "group": "g",
            "name": "A",
            "base": 9.0,
            "kept": {"note": "n", "year": 1},
        },
        {
            "id": "b",
            "count": 4.0,
            "weight": 5.0,
            "group": "h",
            "name": "B",
            "base": 11.0,
            "kept": {"note": "m", "year": 2},
        },
    ]
    assert counts_from(counts_data(full)).kept == full.kept


def test_json_has_no_infinity():
    n = BASELINE.counts.n
    endless = Accuracy("bound", np.array([np.inf, 0.1, 0.2, np.inf, 0.3]))
    rows = replace(BASELINE, mse_accuracy=endless, zero_accuracy=Accuracy("bound", np.full(n, np.inf))).to_dict(
        entities=True
    )["entities"]
    assert [row["mean_squared_error_half_width"] for row in rows] == [None, 0.1, 0.2, None, 0.3]
    assert [row["zero_half_width"] for row in rows] == [None] * n
