"""Names and kept columns, and rows that are the sum of the others."""

import json

import numpy as np
import pytest

import fairpost as fp
from fairpost.errors import CountsError
from support.commands import call
from support.six_districts import NOISE, X


def test_names_and_kept_columns_travel(found, tmp_path):
    kept = {"zip": ["00001", *"bcdef"], "id": range(6), "share": [0.5, float("nan"), 1, 2, 3, np.float64(4.5)]}
    x = fp.Counts(X.values, X.ids, names=X.names, kept=kept)
    r = fp.compare(x, NOISE, ["nonnegative"])
    frame = r.to_frame()
    assert frame.columns[:7] == ["id", "count", "weight", "name", "zip", "kept_id", "share"]
    assert frame["zip"].to_list() == ["00001", *"bcdef"]
    assert frame["kept_id"].to_list() == list(range(6))
    assert frame["share"].to_list() == [0.5, None, 1.0, 2.0, 3.0, 4.5]
    again = fp.Comparison.from_dict(json.loads(json.dumps(r.to_dict(entities=True))))
    assert again[0].counts.kept == x.kept
    assert again[0].counts.names == x.names
    with pytest.raises(CountsError, match="kept column 'zip' must have one entry per count: 6 counts, 2 entries"):
        fp.Counts(X.values, kept={"zip": ["a", "b"]})
    table = tmp_path / "t.csv"
    table.write_text("id,label,count,code\n1,One,3,007\n2,Two,4,\n")
    read = fp.read_counts(table, label="label", keep=["code", "label"])
    assert read.names == ("One", "Two")
    assert read.kept == {"code": ("007", None), "label": ("One", "Two")}
    assert x.called(1) == "Birch (008)"
    assert fp.Counts([1], ids=["a"], names=["a"]).called(0) == "a"


@pytest.mark.parametrize(
    ("name", "value", "is_one"),
    [
        ("Total", 1133, True),
        ("UNITED STATES", 1133, True),
        ("U.S. total", 1133.4, True),
        ("Total, all districts", 1132, True),
        ("Grand Total", 1133, True),
        ("Total", 1130, False),  # 0.26 % off
        ("Totality Township", 1133, False),
        ("Elm", 1133, False),
    ],
)
def test_a_row_that_is_the_sum_of_the_others_is_pointed_out(tmp_path, name, value, is_one):
    x = fp.Counts([*X.values, value], ids=[*X.ids, "T"], names=[*X.names, name])
    assert x.sum_row == (6 if is_one else None)
    by_id = fp.Counts([value, *X.values], ids=[name, *X.ids])
    assert by_id.sum_row == (0 if is_one else None)
    compared = fp.compare(x, NOISE, ["nonnegative"])
    lines = compared.warnings
    assert len(lines) == is_one
    planned = fp.plan(x, fp.Laplace, "nonnegative", spreads=[1.0, 4.0, 16.0], max_alpha=1.0)
    for words in (str(compared), str(planned)):
        said = [" ".join(line.split()) for line in words.splitlines() if line.split()[0] == "warning"]
        assert len(said) == is_one
        assert all(f"{name} (T) looks like a total" in line for line in said)
    if is_one:
        assert lines[0].startswith(f"{name} (T) looks like a total: its count 1,13")
        assert "the sum of the other 6" in lines[0]
    table = tmp_path / "t.csv"
    rows = [*zip(X.ids, X.names, X.values.tolist(), strict=True), ("T", f'"{name}"', value)]
    table.write_text("id,name,count\n" + "".join(f"{i},{n},{v}\n" for i, n, v in rows))
    done = call("audit", table, "--label", "name", "--scale", 8, "--postprocess", "none")
    assert done.returncode == 0
    assert done.stderr.count("warning: ") == is_one


def test_no_row_is_a_total_of_one_or_of_nothing():
    assert fp.Counts([5, 5], ids=["a", "Total"]).sum_row is None
    assert fp.Counts([0, 0, 0], ids=["a", "b", "Total"]).sum_row is None
