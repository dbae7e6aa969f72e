"""Every column and every key of every file, recomputed.

The commands run on small tables whose numbers all differ. What they write is compared, cell by cell and key by key, with
the library's own results or with arithmetic done here; the set of columns and keys must be exactly the one that stands
here, so a new one has to be added here too. Where an option matters, two values of it must give two results.
"""

import csv
import io
import json
import math
import os
import sys
from dataclasses import asdict
from unittest.mock import patch

import numpy as np
import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost import errors
from fairpost.cli import main
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.estimate import plug_in, share_interval
from fairpost.io import write_whole
from fairpost.io.rows import columns_csv
from fairpost.plan import Point, grid, plan, sweep
from fairpost.results.columns import whole_numbers
from fairpost.rules import POSTPROCESSINGS

MARK = "confidential: computed from true counts"
IDS = ["007", "Birch", "Cedar, upper", "Dogwood", "Elm", "Fir"]
VALUES = [3, 11, 47, 190, 820, 65]
WEIGHTS = [1.3, 0.7, 1.1, 0.9, 1.7, 0.5]
GROUPS = ["north", "south", "north", "south", "south", "north"]
COUNTS = fp.Counts(VALUES, ids=IDS, weights=WEIGHTS, groups=GROUPS)
MONEY = 54321.0
RELEASES, SHARES = ("nonnegative", "sum-clipped"), ("baseline", "pos")
QUICK = ("--runs", 400, "--method", "monte-carlo")
HEAD = {"version", "command", "schema"}


def table(**columns):
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("columns")
    (made / "true.csv").write_text(table(id=IDS, count=VALUES, weight=WEIGHTS, group=GROUPS))
    (made / "noisy.csv").write_text(table(id=IDS, count=NOISY, weight=WEIGHTS, group=GROUPS, total=TOTALS))
    return made


class Ran:
    """One command: what it wrote."""

    def __init__(self, folder, command, file, *options, code=0):
        self.words = [command, str(folder / file), *map(str, options)]
        paths = [folder / f"out.{kind}" for kind in ("json", "csv")]
        words = [*self.words, "--json", str(paths[0]), "--csv", str(paths[1]), "--force"]
        with patch.object(sys, "argv", ["fairpost", *words]):
            done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        self.screen, self.said = done.stdout, done.stderr
        self.data = json.loads(paths[0].read_text())
        self.rows = list(csv.DictReader(io.StringIO(paths[1].read_text())))
        self.columns = list(next(csv.reader(io.StringIO(paths[1].read_text()))))
        assert self.data["version"] == fp.__version__
        assert self.data["schema"] == f"fairpost/{command}/{2 if command in ('sweep', 'plan') else 1}"
        assert self.data["command"].startswith(f"fairpost {command} ")

    def column(self, name):
        return [row[name] for row in self.rows]

    def numbers(self, name):
        return [None if cell == "" else float(cell) for cell in self.column(name)]

    def holds(self, columns):
        """The table has these columns, in this order, and no others; text as text, numbers to the last bit."""
        assert self.columns == list(columns)
        for name, wanted in columns.items():
            as_text = any(isinstance(w, str) for w in wanted)
            assert (self.column(name) if as_text else self.numbers(name)) == list(wanted), name


def estimate(e):
    return {"value": e.value, "low": e.low, "high": e.high, "accuracy": e.kind}


def noise_of(mechanism):
    """The mechanism alone, with the variance from its law."""
    s = mechanism.spread
    q = math.exp(-1 / s)
    variance = {"laplace": 2 * s * s, "gaussian": s * s, "discrete-laplace": 2 * q / (1 - q) ** 2}[mechanism.name]
    named = {"laplace": "scale", "gaussian": "sigma", "discrete-laplace": "scale"}[mechanism.name]
    return {"name": mechanism.name, named: s, "variance": pytest.approx(variance, rel=1e-12)}


def promise_of(mechanism, epsilon, delta=0.0, rho=None, sensitivity=1.0):
    promise = {"epsilon": epsilon, "delta": delta, "rho": rho, "sensitivity": sensitivity}
    return noise_of(mechanism) | {k: None if v is None else pytest.approx(v, rel=1e-12) for k, v in promise.items()}


def cost_of(result):
    """The cost of privacy from the biases: what all who lose lose together."""
    if result.task != "allocation":
        return None
    share = result.cost_of_privacy.share.value
    assert share == pytest.approx(-sum(b for b in result.bias if b < 0), rel=1e-12, abs=1e-18)
    amount = result.cost_of_privacy.amount
    if result.budget is not None:
        assert amount.value == pytest.approx(share * result.budget, rel=1e-15)
    return cost_entry(result.cost_of_privacy)


def cost_entry(cost):
    """A cost of privacy in the JSON."""
    amount = cost.amount
    return {
        "share": cost.share.value,
        "amount": None if amount is None else amount.value,
        "share_interval": estimate(cost.share),
        "amount_interval": None if amount is None else estimate(amount),
    }


# ---- audit --------------------------------------------------------------------------------------------------------


def audit_columns(results):
    first = results[0]
    columns = {"id": IDS, "count": VALUES, "weight": WEIGHTS, "group": GROUPS}
    columns |= {{"release": "true_count", "allocation": "true_share"}[r.task]: r.truth for r in results}
    for r in results:
        name = r.postprocess.replace("-", "_")
        columns |= {
            f"{name}_bias": r.bias,
            f"{name}_half_width": r.half_width,
            f"{name}_accuracy": [r.accuracy.kind] * first.counts.n,
        }
        columns |= {} if r.sample is None else {f"{name}_standard_error": r.sample.standard_error}
        columns |= {f"{name}_standard_deviation": r.deviation, f"{name}_zero": r.zero}
        if r.task == "allocation" and r.budget is not None:
            columns[f"{name}_money"] = r.bias * r.budget
        columns |= {f"{name}_relative_bias": r.bias / r.truth, f"{name}_relative_half_width": relative_half(r)}
    return columns | {"confidential": ["computed from true counts"] * first.counts.n}


def relative_half(r):
    """The error of a bias over what is due, and the rounding of a quotient of sums of six: (2 * 6 + 4) eps."""
    return r.half_width / r.truth + 16 * np.finfo(float).eps * np.abs(r.bias / r.truth)


def near(e, rel=1e-12):
    """An estimate, to rounding."""
    return {k: pytest.approx(v, rel=rel, abs=1e-300) if isinstance(v, float) else v for k, v in e.items()}


def interval(value, half, kind):
    return {"value": value, "low": value - half, "high": value + half, "accuracy": kind}


def rmse_entry(mse, half, kind):
    """The root of the mean of squared errors; the ends from the mean half-width; null where nothing is known."""
    mean, width = mse.mean(), half.mean()
    high = math.sqrt(mean + width) if np.isfinite(width) else None
    return near(
        {"value": math.sqrt(mean), "low": math.sqrt(max(mean - width, 0.0)), "high": high, "accuracy": kind}, 1e-9
    )


def total_entry(r, total=None):
    """By how much the total is off: known of rules that keep one, else the sum of the biases."""
    if r.postprocess in ("nonnegative", "sum-clipped"):
        rounding = 5 * 2.0**-53 * np.abs(r.bias).sum()
        entry = near(interval(r.bias.sum(), r.half_width.sum() + rounding, r.accuracy.kind)) | {"kept": None}
        return entry if r.sample is None else estimate(r.sample.total_off) | {"kept": None}
    off = 0.0 if total is None else total - sum(VALUES)
    return interval(off, 0.0, "bound") | {"kept": [off] * (2 if r.grouped else 1)}


def groups_of(r):
    """The groups of a result: sums (to the rounding of three terms), the root of the mean over entities of the squared error."""
    known = 0.0 if r.grouped and r.postprocess != "sum-clipped" else 1.0  # a rule by group keeps each group's total
    out = []
    for g in ("north", "south"):
        mine = np.array([h == g for h in GROUPS])
        rounding = 2 * 2.0**-53 * np.abs(r.bias[mine]).sum()  # of a sum of three
        sums = {
            "bias": known * r.bias[mine].sum(),
            "half_width": known * (r.half_width[mine].sum() + rounding),
            "due": r.truth[mine].sum(),
        }
        rmse = math.sqrt(r.mse[mine].sum() / 3)
        numbers = sums | {"root_mean_squared_error": rmse}
        worst = int(np.flatnonzero(mine)[np.argmin(r.bias[mine])])
        kind, low, high = r.accuracy.kind, r.bias[mine] - r.half_width[mine], r.bias[mine] + r.half_width[mine]
        relative = interval(r.bias[worst] / r.truth[worst], relative_half(r)[worst], kind)
        out.append(
            {"group": g, "n": 3}
            | {k: pytest.approx(v, rel=1e-14, abs=4e-16 * np.abs(r.bias).max()) for k, v in numbers.items()}
            | {
                "relative_bias": pytest.approx(sums["bias"] / sums["due"], rel=1e-9, abs=1e-15),
                # the rounding of sums over 3 of 6 entities: (2 * 9 + 4) eps
                "relative_half_width": pytest.approx(
                    sums["half_width"] / sums["due"] + 22 * 2.3e-16 * abs(sums["bias"] / sums["due"]), rel=1e-2
                ),
                "alpha": near(
                    {
                        "value": np.ptp(r.bias[mine]),
                        "low": max(0.0, low.max() - high.min()),
                        "high": high.max() - low.min(),
                        "accuracy": kind,
                    }
                ),
                "worst": near(interval(r.bias[worst], r.half_width[worst], kind), 1e-9)
                | {"id": IDS[worst], "relative_bias": near(relative, 1e-9)},
                "root_mean_squared_error_interval": rmse_entry(
                    r.mse[mine], r.mse_accuracy.half_width[mine], r.mse_accuracy.kind
                ),
            }
        )
    return out


def loss_entry(bias, half, kind):
    """The largest loss, and whose it is."""
    value, low, high = (max(0.0, float(np.max(-(bias + s * half)))) for s in (0, 1, -1))
    who = IDS[int(np.argmin(bias))]
    return near({"value": value, "low": low, "high": high, "accuracy": kind}, 1e-9) | {"id": who, "name": who}


def audit_entry(r, entities=True, total=None):
    """The JSON of one result, from its fields."""
    bounds = None if r.bounds is None else asdict(r.bounds)
    entry = {
        "postprocess": r.postprocess,
        "title": POSTPROCESSINGS[r.postprocess].title,
        "signed": POSTPROCESSINGS[r.postprocess].signed,
        "problem": {"release": "release", "allocation": "proportional"}[r.task],
        "task": "release" if r.postprocess in ("nonnegative", "sum-clipped", "simplex") else "allocation",
        "accuracy": r.accuracy.kind,
        "accuracies": {
            "bias": r.accuracy.kind,
            "mean_squared_error": r.mse_accuracy.kind,
            "zero": r.zero_accuracy.kind,
        },
        "groups": groups_of(r),
        "confidence": None if r.sample is None else r.sample.confidence,
        "interrupted": False,
        "by_group": r.grouped,
        "base_noise": None,
        "group_budgets": None if r.budgets is None else {"rule": r.budgets.words, "amounts": r.budgets.amounts},
        "method": r.method,
        "runs": r.runs,
        "seed": r.seed,
        "alpha": estimate(r.alpha),
        "alpha_pair": list(r.alpha_pair),
        "total_off": total_entry(r, total),
        "bounds": bounds,
        "cost_of_privacy": cost_of(r),
        "price": {
            "root_mean_squared_error": pytest.approx(math.sqrt(sum(r.mse) / len(r.mse)), rel=1e-14),
            "mean_standard_deviation": pytest.approx(sum(r.deviation) / len(r.mse), rel=1e-14),
            "mean_probability_of_zero": pytest.approx(sum(r.zero) / len(r.mse), rel=1e-14),
        },
        "rmse": rmse_entry(r.mse, r.mse_accuracy.half_width, r.mse_accuracy.kind),
        "relative_rmse": rmse_entry(
            r.mse / r.truth.mean() ** 2, r.mse_accuracy.half_width / r.truth.mean() ** 2, r.mse_accuracy.kind
        ),
        "largest_loss": loss_entry(r.bias, r.half_width, r.accuracy.kind)
        | {"id": r.alpha_pair[1], "name": r.alpha_pair[1]},  # theory may know it where all gain alike
        "largest_relative_loss": loss_entry(r.bias / r.truth, relative_half(r), r.accuracy.kind),
        "outcome": None,
        "verdicts": [],
        "expected_T": None if r.expected_T is None else estimate(r.expected_T),
        "degenerate": r.degenerate,
        "variance_reduction": None if r.sample is None else r.sample.reduction,
        "note": r.note,
        "mark": MARK,
        "wrong": None,
    }
    if entities:
        keys = (
            "id",
            "due",
            "bias",
            "half_width",
            "relative_bias",
            "relative_half_width",
            "accuracy",
            "standard_error",
            "standard_deviation",
            "mean_squared_error",
        )
        keys += ("mean_squared_error_half_width", "zero", "zero_half_width")
        n, s = r.counts.n, r.sample
        errors = [None] * n if s is None else s.standard_error
        squares = (r.mse, [w if np.isfinite(w) else None for w in r.mse_accuracy.half_width])
        known = (r.half_width, r.bias / r.truth, relative_half(r), [r.accuracy.kind] * n, errors)
        vectors = (r.counts.ids, r.truth, r.bias, *known, r.deviation, *squares, r.zero, r.zero_accuracy.half_width)
        entry["entities"] = [dict(zip(keys, row, strict=True)) for row in zip(*vectors, strict=True)]
    return entry


def same_audit(ran, results, mechanism, budget):
    ran.holds(audit_columns(results))
    rest = {k: v for k, v in ran.data.items() if k not in HEAD}
    columns = {"id": IDS, "count": VALUES, "weight": WEIGHTS, "group": GROUPS}
    shared = {"entities": entity_rows(columns)}
    assert rest == {
        "mark": MARK,
        "counts": {"n": 6, "total": sum(VALUES)},
        "mechanism": mechanism,
        "budget": budget,
        "targets": None,
        "warnings": [],
        "results": [audit_entry(r, "--entities" in ran.words) for r in results],
        "frontier": None,
    } | (shared if "--entities" in ran.words else {})


def test_the_files_of_an_exact_audit(folder):
    rules = [w for rule in (*RELEASES, *SHARES) for w in ("--postprocess", rule)]
    ran = Ran(folder, "audit", "true.csv", "--scale", 8, "--sensitivity", 2, "--budget", MONEY, "--entities", *rules)
    results = fp.compare(COUNTS, fp.Laplace(scale=8.0), [*RELEASES, *SHARES], budget=MONEY)
    assert {r.method for r in results} == {"exact"}
    promise = promise_of(fp.Laplace(8.0), 2 / 8, sensitivity=2.0)
    same_audit(ran, results, promise, MONEY)
    for r in results:  # no two vectors of a result can stand for each other
        vectors = [r.bias, r.half_width, r.deviation, r.zero, r.mse]
        assert all(np.abs(a - b).max() > 0 for k, a in enumerate(vectors) for b in vectors[:k])


def test_what_the_columns_of_clipping_mean(folder):
    # Laplace noise of scale b on a count x, clipped at 0: P(0) = e^(-x/b) / 2, bias = b e^(-x/b) / 2, and
    # E[(max(x + eta, 0) - x)^2] = 2 b^2 - (2 b^2 + 2 b x + x^2) e^(-x/b) / 2 + x^2 e^(-x/b) / 2 = 2 b^2 - (b^2 + b x) e^(-x/b)
    ran = Ran(
        folder, "audit", "true.csv", "--epsilon", 0.5, "--sensitivity", 3, "--postprocess", "nonnegative", "--entities"
    )
    b, x = 3 / 0.5, np.array(VALUES, dtype=float)
    tail = np.exp(-x / b)
    bias, mse = b * tail / 2, 2 * b**2 - (b**2 + b * x) * tail
    wanted = {"bias": bias, "zero": tail / 2, "standard_deviation": np.sqrt(mse - bias**2)}
    for name, values in wanted.items():
        assert ran.numbers(f"nonnegative_{name}") == pytest.approx(values, rel=1e-9), name
        assert [e[name] for e in ran.data["results"][0]["entities"]] == pytest.approx(values, rel=1e-9), name
    found = ran.data["results"][0]
    assert found["alpha"]["value"] == pytest.approx(bias[0] - bias[4], rel=1e-9)
    assert found["alpha_pair"] == ["007", "Elm"]
    assert found["price"]["root_mean_squared_error"] == pytest.approx(math.sqrt(mse.mean()), rel=1e-9)
    assert ran.data["mechanism"]["epsilon"] == pytest.approx(0.5)
    assert ran.data["mechanism"]["scale"] == pytest.approx(6.0)


def test_the_files_of_a_simulated_audit(folder):
    words = ("--postprocess", "simplex", "--postprocess", "pos", "--scale", 8, "--budget", MONEY, "--entities", *QUICK)
    base = dict(engine="monte-carlo", runs=400, budget=MONEY)
    promise = promise_of(fp.Laplace(8.0), 1 / 8)
    seen = []
    for seed, confidence in ((4, 0.95), (4, 0.6), (5, 0.95)):
        ran = Ran(folder, "audit", "true.csv", *words, "--seed", seed, "--confidence", confidence)
        results = fp.compare(
            COUNTS, fp.Laplace(scale=8.0), ["simplex", "pos"], seed=seed, confidence=confidence, **base
        )
        same_audit(ran, results, promise, MONEY)
        seen.append(ran.data["results"])
    for one, sure, other in zip(*seen, strict=True):
        width = [r["alpha"]["high"] - r["alpha"]["low"] for r in (one, sure)]
        assert width[1] < width[0]  # less sure, narrower
        assert one["alpha"]["value"] == sure["alpha"]["value"]  # the same noise
        assert "60 % confidence" in sure["note"]
        assert [e["bias"] for e in one["entities"]] != [e["bias"] for e in other["entities"]]
        assert (one["seed"], other["seed"], one["runs"]) == (4, 5, 400)
    short = Ran(folder, "audit", "true.csv", *words[:4], "--scale", 8, *QUICK)
    assert all("entities" not in r for r in short.data["results"])
    assert short.data["budget"] is None


def test_groups_with_their_own_totals(folder):
    ran = Ran(folder, "audit", "true.csv", "--scale", 8, "--postprocess", "pos", "--by-group", "--entities")
    result = fp.audit(COUNTS, fp.Laplace(scale=8.0), "pos", by_group=True)
    promise = promise_of(fp.Laplace(8.0), 1 / 8)
    same_audit(ran, [result], promise, None)
    weighted = np.array(VALUES) * np.array(WEIGHTS)
    for group in ("north", "south"):  # shares inside each group
        mine = np.array([g == group for g in GROUPS])
        assert np.array(ran.numbers("true_share"))[mine] == pytest.approx(weighted[mine] / weighted[mine].sum())
    assert ran.data["results"][0]["by_group"] is True
    whole = fp.audit(COUNTS, fp.Laplace(scale=8.0), "pos")
    assert not np.allclose(whole.bias, result.bias)


def test_groups_with_their_own_budgets(folder):
    weighted = np.array(VALUES) * np.array(WEIGHTS)
    north = np.array([g == "north" for g in GROUPS])
    part = weighted[north].sum() / weighted.sum()
    promise = promise_of(fp.Laplace(8.0), 1 / 8)
    words = ("--scale", 8, "--postprocess", "pos", "--by-group", "--entities")
    inside = fp.audit(COUNTS, fp.Laplace(scale=8.0), "pos", by_group=True)
    split = Ran(folder, "audit", "true.csv", *words, "--budget", MONEY)
    same_audit(split, [fp.audit(COUNTS, fp.Laplace(8.0), "pos", by_group=True, budget=MONEY)], promise, MONEY)
    told = split.data["results"][0]["group_budgets"]
    assert told["rule"] == "one budget, split among the groups in proportion to their true shares"
    assert told["amounts"] == pytest.approx({"north": MONEY * part, "south": MONEY * (1 - part)})
    assert split.numbers("true_share") == pytest.approx(weighted / weighted.sum())
    bias = np.where(north, part, 1 - part) * inside.bias
    assert split.numbers("pos_bias") == pytest.approx(bias, rel=1e-12)
    assert split.numbers("pos_money") == pytest.approx(bias * MONEY, rel=1e-12)
    (folder / "budgets.csv").write_text(table(group=["south", "north"], budget=[700, 1900]))
    given_budgets = {"south": 700.0, "north": 1900.0}
    each = Ran(folder, "audit", "true.csv", *words, "--group-budget", folder / "budgets.csv")
    same_audit(each, [fp.audit(COUNTS, fp.Laplace(8.0), "pos", by_group=True, budget=given_budgets)], promise, 2600.0)
    told = each.data["results"][0]["group_budgets"]
    assert told == {
        "rule": "every group has a budget of its own, as given",
        "amounts": {"north": 1900.0, "south": 700.0},
    }
    money = np.where(north, 1900.0, 700.0) * inside.bias
    assert each.numbers("pos_money") == pytest.approx(money, rel=1e-12)
    assert each.data["results"][0]["cost_of_privacy"]["amount"] == pytest.approx(-money[money < 0].sum(), rel=1e-12)
    curve = Ran(
        folder,
        "sweep",
        "true.csv",
        *words[2:5],
        "--spreads",
        8,
        9,
        "--points",
        2,
        "--group-budget",
        folder / "budgets.csv",
    )
    assert curve.data["budget"] == 2600.0
    assert curve.data["group_budgets"] == told
    assert curve.numbers("largest_loss")[0] == pytest.approx(-money.min(), rel=1e-9)


def test_a_total_of_their_own(folder):
    words = ("--scale", 8, "--postprocess", "simplex", "--entities")
    found = [Ran(folder, "audit", "true.csv", *words, *more).data["results"][0] for more in ((), ("--total", 1500))]
    result = fp.audit(COUNTS, fp.Laplace(scale=8.0), "simplex", total=1500)
    assert found[1] == audit_entry(result, total=1500)
    assert found[0]["alpha"] != found[1]["alpha"]
    assert found[0]["bounds"] == asdict(result_bounds(None))
    assert found[0]["expected_T"] is not None
    total = sum(e["bias"] for e in found[1]["entities"])
    assert total == pytest.approx(1500 - sum(VALUES), abs=1e-6)  # the projection keeps 1500


def result_bounds(total):
    return fp.audit(COUNTS, fp.Laplace(scale=8.0), "simplex", total=total).bounds


@pytest.mark.parametrize(
    ("words", "promise"),
    [
        (
            ("--mechanism", "gaussian", "--sigma", 9, "--sensitivity", 3),
            promise_of(fp.Gaussian(9.0), None, None, 9 / 162, 3.0),
        ),
        (
            ("--mechanism", "gaussian", "--sigma", 9, "--delta", 1e-6),
            promise_of(fp.Gaussian(9.0), fp.Gaussian(9.0).epsilon(1e-6), 1e-6, 1 / 162),
        ),
        (
            ("--mechanism", "discrete-laplace", "--scale", 9, "--sensitivity", 2),
            promise_of(fp.DiscreteLaplace(9.0), 2 / 9, sensitivity=2.0),
        ),
    ],
)
def test_the_promise_in_the_json(folder, words, promise):
    assert Ran(folder, "audit", "true.csv", *words, "--postprocess", "nonnegative").data["mechanism"] == promise


# ---- sweep and plan -----------------------------------------------------------------------------------------------

CURVE = (
    "postprocess", "epsilon", "spread", "method", "unit", "alpha", "alpha_low", "alpha_high", "total_off", "total_off_low",
    "total_off_high", "largest_loss", "largest_loss_low",
    "largest_loss_high", "largest_relative_loss", "largest_relative_loss_low", "largest_relative_loss_high", "rmse", "rmse_low",
    "rmse_high", "relative_rmse", "relative_rmse_low", "relative_rmse_high",
    "loses_most", "loses_most_relatively", "cost_share", "cost_amount", "zero", "confidential",
)  # fmt: skip


def curve_columns(points):
    cost = [p.cost for p in points]
    ends = ("value", "low", "high")
    cells = (
        [p.postprocess for p in points],
        [p.epsilon for p in points],
        [p.mechanism.spread for p in points],
        [p.method for p in points],
        [p.unit for p in points],
        *([getattr(p.alpha, end) for p in points] for end in ends),
        *([getattr(p.total_off, end) for p in points] for end in ends),
        *([getattr(p.loss, end) for p in points] for end in ends),
        *([getattr(p.relative_loss, end) for p in points] for end in ends),
        *([v if math.isfinite(v := getattr(p.rmse, end)) else None for p in points] for end in ends),
        *([v if math.isfinite(v := getattr(p.relative_rmse, end)) else None for p in points] for end in ends),
        [p.loser for p in points],
        [p.relative_loser for p in points],
        [None if c is None else c.share.value for c in cost],
        [None if c is None or c.amount is None else c.amount.value for c in cost],
        [p.zero.value for p in points],
        ["computed from true counts"] * len(points),
    )
    return dict(zip(CURVE, cells, strict=True))


def point_entry(p):
    cost = p.cost
    told = None if cost is None else cost_entry(cost)
    return {
        "mechanism": noise_of(p.mechanism),
        "epsilon": p.epsilon,
        "postprocess": p.postprocess,
        "task": "release" if p.postprocess == "nonnegative" else "allocation",
        "method": p.method,
        "accuracy": p.alpha.kind,
        "unit": p.unit,
        "alpha": estimate(p.alpha),
        "alpha_pair": list(p.alpha_pair),
        "total_off": estimate(p.total_off),
        "largest_loss": estimate(p.loss) | {"id": p.loser},
        "largest_relative_loss": estimate(p.relative_loss) | {"id": p.relative_loser},
        "cost_of_privacy": told,
        "rmse": estimate(p.rmse) | ({} if math.isfinite(p.rmse.high) else {"high": None}),
        "relative_rmse": estimate(p.relative_rmse) | ({} if math.isfinite(p.rmse.high) else {"high": None}),
        "zero": estimate(p.zero),
        "note": p.note,
        "names": {},
    }


def point_from_audit(result, epsilon):
    """A point from the vectors of an audit, by arithmetic of our own."""
    factor = 1.0 if result.budget is None or result.task == "release" else result.budget
    ends = [max(0.0, float(np.max(-(result.bias + s * result.half_width)))) * factor for s in (0, 1, -1)]
    found = Point.of(result, epsilon)
    assert [found.loss.value, found.loss.low, found.loss.high] == pytest.approx(ends, rel=1e-14, abs=1e-300)
    assert found.alpha.value == pytest.approx(np.ptp(result.bias) * factor, rel=1e-9)
    assert found.rmse.value == pytest.approx(math.sqrt(np.mean(result.mse)) * factor, rel=1e-14)
    assert found.relative_rmse.value == pytest.approx(math.sqrt(np.mean(result.mse)) / np.mean(result.truth), rel=1e-13)
    assert found.total_off.value == pytest.approx(result.bias.sum() * factor, rel=1e-6, abs=1e-6 * found.alpha.value)
    assert found.zero.value == pytest.approx(np.mean(result.zero), rel=1e-14)
    assert found.relative_loss.value == pytest.approx(max(0.0, np.max(-result.bias / result.truth)), rel=1e-14)
    assert found.relative_loser == result.counts.ids[int(np.argmin(result.bias / result.truth))]
    assert found.unit == ("people" if result.task == "release" else "share" if result.budget is None else "money")
    assert found.loser == result.counts.ids[int(np.argmin(result.bias))]
    return found


def money_for(rule):
    return MONEY if rule in SHARES else None


def test_the_files_of_a_sweep(folder):
    rules = ("baseline", "pos")
    words = [w for rule in rules for w in ("--postprocess", rule)]
    ran = Ran(
        folder,
        "sweep",
        "true.csv",
        "--epsilons",
        0.1,
        0.5,
        "--points",
        3,
        "--sensitivity",
        2,
        "--budget",
        MONEY,
        *words,
    )
    spreads = np.geomspace(2 / 0.5, 2 / 0.1, 3)
    assert ran.numbers("spread")[::2] == pytest.approx(spreads)
    assert ran.numbers("epsilon") == pytest.approx(2 / np.array(ran.numbers("spread")))
    points = [
        point_from_audit(fp.audit(COUNTS, fp.Laplace(s), rule, budget=money_for(rule)), 2 / s)
        for s in grid(4.0, 20.0, 3)
        for rule in rules
    ]
    ran.holds(curve_columns(points))
    assert {k: v for k, v in ran.data.items() if k not in HEAD} == {
        "mark": MARK,
        "counts": {"n": 6, "total": sum(VALUES)},
        "budget": MONEY,
        "group_budgets": None,
        "currency": "$",
        "warnings": [],
        "points": [point_entry(p) for p in points],
        "refused": [],
    }
    assert all(p.cost.amount.value == pytest.approx(p.cost.share.value * MONEY) for p in points)
    assert len({p.loss.value for p in points}) == len(points)


def test_a_sweep_that_is_simulated_keeps_seed_and_confidence(folder):
    words = ("--spreads", 5, 9, "--points", 2, "--postprocess", "pos", *QUICK)
    seen = []
    for seed, confidence in ((1, 0.9), (2, 0.9), (1, 0.5)):
        ran = Ran(folder, "sweep", "true.csv", *words, "--seed", seed, "--confidence", confidence)
        engine = MonteCarlo(runs=400, seed=seed, confidence=confidence)
        points = sweep(
            COUNTS, [fp.Laplace(5.0), fp.Laplace(9.0)], ["pos"], engine=engine, epsilon=lambda m: 1 / m.spread
        ).points
        ran.holds(curve_columns(points))
        assert ran.data["points"] == [point_entry(p) for p in points]
        assert ran.data["budget"] is None
        seen.append(ran)
    assert seen[0].numbers("alpha") != seen[1].numbers("alpha")
    assert seen[0].numbers("alpha") == seen[2].numbers("alpha")
    wide, narrow = (
        [h - l for h, l in zip(r.numbers("largest_loss_high"), r.numbers("largest_loss_low"), strict=True)]
        for r in (seen[0], seen[2])
    )
    assert all(a > b for a, b in zip(wide, narrow, strict=True))


def test_a_sweep_names_what_was_refused(folder):
    ran = Ran(
        folder, "sweep", "true.csv", "--spreads", 5, 9, "--points", 2, "--method", "exact", "--mechanism", "discrete-laplace",
        "--postprocess", "pos", "--postprocess", "baseline",
    )  # fmt: skip
    assert ran.column("postprocess") == ["baseline"] * 2
    assert [set(r) for r in ran.data["refused"]] == [{"mechanism", "epsilon", "postprocess", "reason"}] * 2
    for r, spread in zip(ran.data["refused"], (5.0, 9.0), strict=True):
        assert r["mechanism"] == noise_of(fp.DiscreteLaplace(spread))
        assert r["epsilon"] == pytest.approx(1 / spread)
        assert r["postprocess"] == "pos"
        assert r["reason"] in ran.screen.replace("\n", " ") or "pos at scale" in ran.screen


@pytest.mark.parametrize(
    ("option", "target", "limit", "budget"),
    [
        ("--max-loss", "loss", 60.0, MONEY),
        ("--max-cost", "cost", 0.002, None),
        ("--max-alpha", "alpha", 0.002 * MONEY, MONEY),
        ("--max-alpha", "alpha", 0.002, None),
        ("--max-relative-loss", "relative_loss", 1.5, MONEY),
        ("--max-rmse", "rmse", 300.0, MONEY),
    ],
)
def test_the_files_of_a_plan(folder, option, target, limit, budget):
    words = (*(("--budget", budget) if budget else ()), *(() if target == "rmse" else ("--any-error",)))
    ran = Ran(
        folder, "plan", "true.csv", option, limit, "--spreads", 2, 30, "--points", 4, "--postprocess", "pos",
        "--sensitivity", 2, *words,
    )  # fmt: skip
    found = plan(
        COUNTS, fp.Laplace, "pos", **{f"max_{target}": limit}, spreads=grid(2.0, 30.0, 4), budget=budget,
        epsilon=lambda m: 2 / m.spread, any_error=target != "rmse",
    )  # fmt: skip
    ran.holds(curve_columns(found.curve))
    assert {k: v for k, v in ran.data.items() if k not in HEAD} == {
        "mark": MARK,
        "counts": {"n": 6, "total": sum(VALUES)},
        "budget": budget,
        "group_budgets": None,
        "currency": "$",
        "warnings": [],
        "targets": {f"max_{target}": limit},
        "assumed": [],
        "verdict": fp.Plans((found,)).verdict,
        "plans": [
            {
                "postprocess": "pos",
                "found": point_entry(found.found),
                "stated": point_entry(found.stated),
                "ending": "found",
                "again": False,
                "binding": target,
                "verdicts": [
                    {
                        "target": target,
                        "limit": limit,
                        "unit": "percent" if target == "relative_loss" else found.found.unit,
                        "outcome": "passes",
                        "reached": estimate(found.found.quantity(target)),
                        "id": {"loss": found.found.loser, "relative_loss": found.found.relative_loser}.get(target),
                    }
                ],
                "message": found.message,
                "plain": True,
                "curve": [point_entry(p) for p in found.curve],
                "refused": [],
            }
        ],
    }
    audit = fp.audit(COUNTS, found.found.mechanism, "pos", budget=budget)
    point_from_audit(audit, found.found.epsilon)
    cash = budget or 1.0
    reached = {
        "loss": -audit.bias.min() * cash,
        "cost": -audit.bias[audit.bias < 0].sum() * cash,
        "alpha": np.ptp(audit.bias) * cash,
        "relative_loss": 100 * np.max(-audit.bias / audit.truth),
        "rmse": math.sqrt(np.mean(audit.mse)) * cash,
    }[target]
    assert 0.999 * limit < reached <= limit  # the most noise that keeps it


# ---- project ------------------------------------------------------------------------------------------------------

NOISY = [-4.25, 13.5, 49.75, 187.125, 824.0, -1.5]
TOTALS = [45, 1020, 45, 1020, 1020, 45]


def projected(values, total):
    """Onto {v >= 0, sum v = total}, by bisection on the shift."""
    y = np.array(values)
    low, high = y.min() - total, y.max()
    for _ in range(200):
        t = (low + high) / 2
        low, high = (t, high) if np.maximum(y - t, 0).sum() > total else (low, t)
    return np.maximum(y - (low + high) / 2, 0.0)


def by_group(values, groups, totals):
    out = np.empty(len(values))
    for g in dict.fromkeys(groups):
        mine = np.array([h == g for h in groups])
        out[mine] = projected(np.array(values)[mine], np.array(totals)[mine][0])
    return out


def test_the_files_of_a_projection(folder):
    ran = Ran(folder, "project", "noisy.csv", "--total", 1070)
    values = projected(NOISY, 1070.0)
    assert ran.columns == ["id", "group", "noisy_count", "count"]
    assert (ran.column("id"), ran.column("group")) == (IDS, GROUPS)
    assert ran.numbers("noisy_count") == NOISY
    assert ran.numbers("count") == pytest.approx(values, abs=1e-10)
    moved = values - NOISY
    far = int(np.argmax(np.abs(moved)))
    assert {k: v for k, v in ran.data.items() if k not in HEAD} == {
        "postprocess": "simplex",
        "counts": {"n": 6},
        "totals": {"all": 1070.0},
        "changes": {
            "noisy_sum": sum(NOISY),
            "sum": pytest.approx(1070.0),
            "negative_before": 2,
            "negative_after": 0,
            "zero_after": int(np.sum(values == 0)),
            "largest_change": {"id": IDS[far], "change": pytest.approx(moved[far])},
        },
        "rounding": None,
        "entities": [
            {"id": i, "group": g, "noisy_count": y, "count": pytest.approx(v, abs=1e-10)}
            for i, g, y, v in zip(IDS, GROUPS, NOISY, values, strict=True)
        ],
    }
    zeros = int(np.sum(values == 0))
    assert (
        f"simplex: 6 counts; 2 were negative, 0 are; {zeros} are 0; the sum went from 1,068.625 to 1,070." in ran.said
    )
    assert f"The largest change is {moved[far]:+,.6g}, of {IDS[far]}." in ran.said
    default = Ran(folder, "project", "noisy.csv")
    assert sum(default.numbers("count")) == pytest.approx(sum(NOISY))
    assert default.data["totals"] == {"all": sum(NOISY)}


def test_the_files_of_a_projection_by_group_in_whole_numbers(folder):
    words = ("--group-total", "total", "--round", "--seed", 11)
    ran = Ran(folder, "project", "noisy.csv", *words)
    before = by_group(NOISY, GROUPS, TOTALS)
    assert ran.columns == ["id", "group", "noisy_count", "count", "before_rounding"]
    assert ran.numbers("noisy_count") == NOISY
    assert ran.numbers("before_rounding") == pytest.approx(before, abs=1e-10)
    whole = [int(cell) for cell in ran.column("count")]  # no decimal point
    moved = np.array(whole) - before
    for g, total in (("north", 45), ("south", 1020)):
        assert sum(v for v, h in zip(whole, GROUPS, strict=True) if h == g) == total
    up, down = int(np.sum(moved > 1e-9)), int(np.sum(moved < -1e-9))
    assert up != down
    data = ran.data
    assert set(data) == HEAD | {"postprocess", "counts", "totals", "changes", "rounding", "entities"}
    assert data["totals"] == {"north": 45.0, "south": 1020.0}
    assert data["rounding"] == {
        "seed": 11,
        "rounded_up": up,
        "rounded_down": down,
        "largest_change": pytest.approx(np.abs(moved).max(), abs=1e-9),
        "root_mean_square_change": pytest.approx(math.sqrt(np.mean(moved**2)), abs=1e-9),
        "sum_change": pytest.approx(0.0, abs=1e-9),
    }
    assert [e["count"] for e in data["entities"]] == whole
    assert data["changes"]["sum"] == 1065.0
    assert data["changes"]["zero_after"] == whole.count(0)
    far = int(np.argmax(np.abs(before - NOISY)))
    assert data["changes"]["largest_change"] == {"id": IDS[far], "change": pytest.approx(before[far] - NOISY[far])}
    assert "2 groups keep the totals of the column." in ran.said
    assert f"Rounding moved {up} counts up and {down} down" in ran.said
    again = {tuple(Ran(folder, "project", "noisy.csv", *words[:3], "--seed", s).column("count")) for s in range(8)}
    assert len(again) > 1  # another seed, other whole numbers
    assert Ran(folder, "project", "noisy.csv", *words).column("count") == ran.column("count")


@pytest.mark.parametrize("rule", ["none", "nonnegative", "sum", "sum-clipped"])
def test_the_other_projections(folder, rule):
    words = ("--total", 1100) if rule.startswith("sum") else ()
    ran = Ran(folder, "project", "noisy.csv", "--postprocess", rule, *words)
    y = np.array(NOISY)
    shifted = y + (1100 - y.sum()) / 6
    values = {"none": y, "nonnegative": np.maximum(y, 0), "sum": shifted, "sum-clipped": np.maximum(shifted, 0)}[rule]
    assert ran.numbers("count") == pytest.approx(values)
    assert ran.data["postprocess"] == rule
    assert ran.data["totals"] == ({"all": 1100.0} if words else None)
    assert ran.data["changes"]["negative_after"] == int(np.sum(values < 0))
    assert ran.data["changes"]["sum"] == pytest.approx(values.sum())


# ---- allocate -----------------------------------------------------------------------------------------------------


def allocation_columns(how, budget, mechanism, confidence=0.95, simultaneous=False, seed=0, replicates=3):
    y, a = np.array(NOISY), np.array(WEIGHTS)
    interval = share_interval(y, mechanism, a, confidence=confidence, simultaneous=simultaneous)
    columns = {"id": IDS, "noisy_count": NOISY, "weight": WEIGHTS, "group": GROUPS}
    columns |= {"true_share_low": interval.low, "true_share_high": interval.high}
    if budget is not None:
        columns |= {"true_money_low": interval.low * budget, "true_money_high": interval.high * budget}
    for rule in how:
        name = rule.replace("-", "_")
        columns[f"{name}_share"] = shares = fp.allocate(y, a, rule, mechanism)
        if budget is not None:
            columns[f"{name}_money"] = shares * budget
        estimate = plug_in(y, mechanism, a, rule, replicates=replicates, seed=seed)
        columns[f"{name}_estimated_bias"] = estimate.bias
        columns[f"{name}_estimated_bias_error"] = estimate.error
        columns[f"{name}_estimated_standard_deviation"] = estimate.deviation
    return columns


def entity_rows(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def shared_groups(columns, rules):
    """Sums over each group, to the rounding of three terms."""
    out = []
    for g in ("north", "south"):
        mine = [i for i, h in enumerate(GROUPS) if h == g]
        total = {"noisy_sum": sum(NOISY[i] for i in mine)}
        for rule in rules:
            total |= {f"{rule}_{k}": sum(columns[f"{rule}_{k}"][i] for i in mine) for k in ("share", "money")}
        out.append({"group": g, "n": 3} | {k: pytest.approx(v, rel=1e-12, abs=1e-9) for k, v in total.items()})
    return out


def test_the_files_of_an_allocation(folder):
    rules = ("baseline", "pos")
    words = ["--scale", 8, "--sensitivity", 2, "--replicates", 3, *(w for r in rules for w in ("--postprocess", r))]
    ran = Ran(folder, "allocate", "noisy.csv", *words, "--budget", MONEY, "--seed", 6, "--confidence", 0.8)
    columns = allocation_columns(rules, MONEY, fp.Laplace(8.0), 0.8, seed=6)
    ran.holds(columns)
    assert {k: v for k, v in ran.data.items() if k not in HEAD} == {
        "counts": {"n": 6, "noisy_total": sum(NOISY)},
        "mechanism": promise_of(fp.Laplace(8.0), 0.25, sensitivity=2.0),
        "budget": MONEY,
        "interval": {"confidence": 0.8, "simultaneous": False, "of": "the true share"},
        "bias": {
            "mark": "estimated from noisy counts",
            "methods": {"baseline": "exact", "pos": "exact"},
            "replicates": 3,
            "missing": {},
        },
        "by_group": False,
        "group_budgets": None,
        "groups": shared_groups(columns, rules),
        "entities": entity_rows(columns),
    }
    y, a = np.array(NOISY), np.array(WEIGHTS)
    clipped = a * np.maximum(y, 0)
    assert ran.numbers("baseline_share") == pytest.approx(clipped / clipped.sum())
    assert ran.numbers("pos_share") == pytest.approx(projected(a * y / (a * y).sum(), 1.0), abs=1e-12)
    numbers = [float(row[c]) for row in ran.rows for c in ran.columns if c not in ("id", "group", "weight")]
    assert len({n for n in numbers if n}) == len([n for n in numbers if n])  # all that is not 0 differs
    for low, high in (("true_share_low", "true_share_high"), ("true_money_low", "true_money_high")):
        assert all(l < h for l, h in zip(ran.numbers(low), ran.numbers(high), strict=True))

    def again(*more):
        return Ran(folder, "allocate", "noisy.csv", *words, "--seed", 6, "--confidence", 0.8, *more)

    plain = again()
    plain.holds(allocation_columns(rules, None, fp.Laplace(8.0), 0.8, seed=6))
    assert plain.data["budget"] is None
    together = again("--simultaneous")
    together.holds(allocation_columns(rules, None, fp.Laplace(8.0), 0.8, simultaneous=True, seed=6))
    assert together.data["interval"]["simultaneous"] is True
    assert together.numbers("true_share_high") != plain.numbers("true_share_high")
    surer = again("--confidence", 0.99)
    surer.holds(allocation_columns(rules, None, fp.Laplace(8.0), 0.99, seed=6))
    assert all(a > b for a, b in zip(surer.numbers("true_share_high"), plain.numbers("true_share_high"), strict=True))
    other = again("--seed", 7)
    assert other.numbers("pos_estimated_bias") == plain.numbers("pos_estimated_bias")
    assert other.numbers("pos_estimated_bias_error") != plain.numbers("pos_estimated_bias_error")


def test_the_screen_of_an_allocation(folder):
    ran = Ran(
        folder, "allocate", "noisy.csv", "--scale", 8, "--replicates", 3, "--budget", MONEY, "--postprocess", "pos",
        "--currency", "€",
    )  # fmt: skip
    columns = allocation_columns(("pos",), MONEY, fp.Laplace(8.0))
    seen = " ".join(ran.screen.split())
    low, high = columns["true_money_low"], columns["true_money_high"]
    order = np.argsort(-columns["pos_share"], kind="stable")
    assert [
        line.split()[0]
        for line in ran.screen.splitlines()
        if line.split()[:1] and line.split()[0] in ("Elm", "Dogwood", "Birch")
    ] == [IDS[i] for i in order if IDS[i] in ("Elm", "Dogwood", "Birch")]
    elm = IDS.index("Elm")
    ends = f"€{math.floor(low[elm]):,} to €{math.ceil(high[elm]):,}"
    assert f"Elm 824 €{columns['pos_money'][elm]:,.0f} {ends}" in seen
    bias, error = columns["pos_estimated_bias"] * MONEY, columns["pos_estimated_bias_error"] * MONEY
    told = seen.partition("pos: the largest and smallest bias, estimated from noisy counts: ")[2]
    most, least = int(np.argmax(bias)), int(np.argmin(bias))
    first, _, second = told.partition(", ")
    for said, who, sign in ((first, most, "+"), (second, least, "−")):
        assert said.startswith(f"{IDS[who]} {sign}€")
        shown = float(said.partition("± €")[2].split()[0].rstrip(".").replace(",", ""))
        assert error[who] * (1 - 1e-12) <= shown <= 1.01 * error[who] + 1e-9  # rounded up, to three digits
    assert "2 of 6 noisy counts are negative (33.33 %)." in seen
    assert "95 % interval" in seen


def test_an_allocation_without_the_noise(folder):
    ran = Ran(folder, "allocate", "noisy.csv", "--budget", MONEY)
    y, a = np.array(NOISY), np.array(WEIGHTS)
    columns = {"id": IDS, "noisy_count": NOISY, "weight": WEIGHTS, "group": GROUPS}
    for rule in ("baseline", "pos"):
        shares = fp.allocate(y, a, rule)
        columns |= {f"{rule}_share": shares, f"{rule}_money": shares * MONEY}
    ran.holds(columns)
    assert {k: v for k, v in ran.data.items() if k not in HEAD} == {
        "counts": {"n": 6, "noisy_total": sum(NOISY)},
        "mechanism": None,
        "budget": MONEY,
        "interval": None,
        "bias": {"mark": "estimated from noisy counts", "methods": {}, "replicates": 10, "missing": {}},
        "by_group": False,
        "group_budgets": None,
        "groups": shared_groups(columns, ("baseline", "pos")),
        "entities": entity_rows(columns),
    }


def test_an_estimate_that_is_missing_says_why(folder):
    (folder / "low.csv").write_text(table(id=["a", "b", "c"], count=[-9, 2, 3], weight=[1.5, 0.5, 2.5]))
    ran = Ran(folder, "allocate", "low.csv", "--scale", 8, "--postprocess", "baseline", "--replicates", 2)
    assert set(ran.data["bias"]["missing"]) == {"baseline"}
    assert "sum above 0" in ran.data["bias"]["missing"]["baseline"]
    assert ran.columns == ["id", "noisy_count", "weight", "true_share_low", "true_share_high", "baseline_share"]
    assert "baseline: no estimate of the bias:" in ran.screen


# ---- tables ------------------------------------------------------------------------------------------------------


def test_a_table_of_columns_keeps_order_bits_and_gaps():
    text = columns_csv(
        {"b": ["x,y", 'a"b'], "a": np.array([0.1 + 0.2, 1e-300]), "c": [None, 2.5], "n": np.array([3, 4])}
    )
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["b", "a", "c", "n"]
    assert [row[0] for row in rows[1:]] == ["x,y", 'a"b']
    assert [float(row[1]) for row in rows[1:]] == [0.1 + 0.2, 1e-300]
    assert [row[2] for row in rows[1:]] == ["", "2.5"]
    assert [row[3] for row in rows[1:]] == ["3", "4"]


def test_a_file_that_could_not_be_begun_leaves_the_old_one(tmp_path, monkeypatch):
    old = tmp_path / "old.csv"
    old.write_text("mine")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(errors.FairpostError, match="No space left"):
        write_whole({old: "new"}, force=True)
    assert old.read_text() == "mine"


def test_the_first_of_two_stray_quotes_is_named(tmp_path):
    path = tmp_path / "stray.csv"
    path.write_text('id,count\na,1\nb"x"y,2\nc,3\nd"z"w,4\n')
    with pytest.raises(errors.InputError, match="line 3: quotation marks"):
        fp.read_counts(path)


def test_whole_numbers_are_integers_while_every_one_of_them_is_a_float():
    """From 2^53 on not every whole number is one, and from 2^63 on an integer of 64 bits overflows."""
    assert whole_numbers(np.array([3.0, -(2.0**53) + 1])).tolist() == [3, -(2**53) + 1]
    assert whole_numbers(np.array([3.0])).dtype == np.int64
    for values in ([3.0, 2.0**53], [3.0, -(2.0**60)], [3.0, 1e30], [3.0, 0.5]):
        assert whole_numbers(np.array(values)).tolist() == values
        assert whole_numbers(np.array(values)).dtype == np.float64
