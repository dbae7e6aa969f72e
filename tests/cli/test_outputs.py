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
from fairpost.io import write_whole
from fairpost.io.rows import columns_csv
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
        "accuracies": dict.fromkeys(
            ("bias", "mean_squared_error", "zero"), "bound" if r.sample is None else "interval"
        ),
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


# ---- allocate -----------------------------------------------------------------------------------------------------


def entity_rows(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


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
