"""Any bytes are read or refused in one line, long and damaged files too; what other programs write is read back."""

import csv
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.errors import CountsError, InputError
from fairpost.io import read_counts, read_rows
from support.tables import put


def outcome(path, **options):
    """A valid result or an InputError of one line; anything else fails the test."""
    for read in (read_counts, read_rows):
        problem = None
        try:
            result = read(path, **options)
        except InputError as error:
            problem = str(error)
        if problem is None:
            assert len(result.ids) == len(result.values) == len(set(result.ids)) > 0
            assert np.isfinite(result.values).all()
        else:
            assert len(problem.splitlines()) == 1
            assert path.name in problem


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.text(max_size=8), st.floats(0, 1e9)), min_size=1, max_size=8))
def test_what_the_csv_module_writes_is_read_back(folder, rows):
    labels = [f"{i} {label}.".replace("\0", "") for i, (label, _) in enumerate(rows)]
    labels = [label.replace("\r\n", "\n").encode(errors="ignore").decode() for label in labels]
    with (folder / "w.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "count", "last"])
        writer.writerows([label, repr(x), "-"] for label, (_, x) in zip(labels, rows, strict=True))
    counts = read_counts(folder / "w.csv")
    assert list(counts.ids) == labels
    assert counts.values.tolist() == [x for _, x in rows]


def test_many_line_breaks_inside_fields(tmp_path):
    """Long enough (7 MB) that Polars splits the text among threads, which must not cut a quoted field."""
    rng = random.Random(2)
    labels = [
        f"{i}" + rng.choice(["", "\n", ",\n", '"\n"', "\n\n,,"]) * rng.randint(0, 6) + "." for i in range(200_000)
    ]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "count", "x"], *([label, len(label), "-" * 9] for label in labels)])
    counts = read_counts(tmp_path / "a.csv")
    assert list(counts.ids) == labels
    assert counts.values.tolist() == [float(len(label)) for label in labels]
    with (tmp_path / "a.csv").open("a", newline="", encoding="utf-8") as file:
        file.write("last,-1,z\n")
    line = sum(label.count("\n") + 1 for label in labels) + 2
    with pytest.raises(
        CountsError, match=rf"a.csv, line {line}, column 'count': every count must be at least 0, got '-1'"
    ):
        read_counts(tmp_path / "a.csv")


@settings(max_examples=100)
@given(st.lists(st.floats(-1e9, 1e9).map(lambda x: round(x, 4)), min_size=1, max_size=6))
def test_numbers_written_in_german_are_read_back(numbers):
    german = [f"{x:,.4f}".translate(str.maketrans(",.", ".,")) for x in numbers]
    frame = pl.DataFrame({"id": [str(k) for k in range(len(german))], "count": german})
    assert read_rows(frame, say=lambda note: None).values.tolist() == [x + 0.0 for x in numbers]


@settings(max_examples=200)
@given(
    st.text(st.sampled_from("id;count,|\t\n\"'1.2 -eNA\u00a0é"), max_size=60),
    st.sampled_from(["utf-8", "latin-1"]),
    st.sampled_from([{}, {"drop_missing": True}, {"where": "count is not missing"}, {"decimal": ","}]),
)
def test_any_text_is_read_or_refused_in_one_line(folder, text, encoding, options):
    outcome(put(folder, "any.txt", ("id;count\n" + text).encode(encoding)), say=lambda note: None, **options)


def test_a_million_rows(tmp_path):
    n = 10**6
    path, ids = tmp_path / "m.csv", pl.int_range(n, eager=True).cast(pl.String).str.zfill(7)
    pl.DataFrame({"id": ids, "count": np.arange(n) % 1000}).write_csv(path)
    counts = read_counts(path)
    assert counts.n == n
    assert counts.total == 1000 * 999 / 2 * (n / 1000)
    assert (counts.ids[0], counts.ids[-1]) == ("0000000", "0999999")
    with path.open("a") as file:
        file.write("0000000,1\n")
    with pytest.raises(CountsError, match=r"lines 2 and 1000002, column 'id': ids must be unique, got '0000000' twice"):
        read_counts(path)
