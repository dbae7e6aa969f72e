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
from unittest.mock import patch

import numpy as np
import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost import errors
from fairpost.cli import main
from fairpost.io import write_whole
from fairpost.io.files import columns_csv
from fairpost.results.base import whole_numbers

IDS = ["007", "Birch", "Cedar, upper", "Dogwood", "Elm", "Fir"]
VALUES = [3, 11, 47, 190, 820, 65]
WEIGHTS = [1.3, 0.7, 1.1, 0.9, 1.7, 0.5]
GROUPS = ["north", "south", "north", "south", "south", "north"]


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


# ---- audit --------------------------------------------------------------------------------------------------------


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
    assert ran.column("rule") == ["baseline"] * 2
    assert [set(r) for r in ran.data["refused"]] == [{"mechanism", "epsilon", "postprocess", "reason"}] * 2
    for r, spread in zip(ran.data["refused"], (5.0, 9.0), strict=True):
        assert r["mechanism"] == noise_of(fp.DiscreteLaplace(spread))
        assert r["epsilon"] == pytest.approx(1 / spread)
        assert r["postprocess"] == "pos"
        assert r["reason"] in ran.screen.replace("\n", " ") or "pos at scale" in ran.screen


# ---- project ------------------------------------------------------------------------------------------------------

NOISY = [-4.25, 13.5, 49.75, 187.125, 824.0, -1.5]
TOTALS = [45, 1020, 45, 1020, 1020, 45]


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
