"""Any bytes are read or refused in one line, long and damaged files too; what other programs write is read back."""

import csv
import gzip
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpost.errors import CountsError, InputError
from fairpost.io import read_counts, read_rows
from support.tables import DISTRICTS, parquet, put, xls
from support.workbooks import xlsx

CSV = "id,count,weight,group\n0100,5,1.5,x\n02,0,2,x\nä b,7.25,1,y\n"
NAMES = ["f.csv", "f.tsv", "f.csv.gz", "f.txt", "f.dat.gz"]
PIECES = ["id", "count", "group", "weight", ",", "\t", ";", "\n", "\r\n", "\r", '"', '""', "\ufeff", "1", "-2", "1,234"]
pieces = st.sampled_from([*PIECES, "é", "\0", " ", "nan", "\u2028"])


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


@settings(max_examples=80)
@given(st.binary(max_size=200), st.sampled_from(NAMES))
def test_random_bytes(folder, data, name):
    outcome(put(folder, name, data), format="saipe" if "." + name.split(".")[1] in (".txt", ".dat") else None)


@settings(max_examples=150)
@given(st.lists(pieces, max_size=30).map("".join), st.booleans(), st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
def test_random_text(folder, text, headed, encoding):
    data = (("id,count\n" if headed else "") + text).encode(encoding)
    outcome(put(folder, "t.csv", data))
    outcome(put(folder, "t.tsv", data.replace(b",", b"\t")), id=None)


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


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_gzip(folder, cut, place, byte):
    packed = bytearray(gzip.compress(CSV.encode() + b"z,1,1,q\n" * 3))
    packed[place % len(packed)] = byte
    outcome(put(folder, "g.csv.gz", bytes(packed)))
    outcome(put(folder, "g.csv.gz", bytes(packed[: cut % len(packed)])))


@pytest.mark.parametrize("name", ["p.parquet", "p.xls", "p.xlsx"])
def test_damaged_parquet_and_workbooks(folder, name):
    rng, rows = random.Random(5), [["id", "count"], *([f"a{i}", i] for i in range(50))]
    good = {
        "p.parquet": parquet({"id": [f"a{i}" for i in range(50)], "count": range(50)}),
        "p.xls": xls(DISTRICTS),
        "p.xlsx": xlsx(data=rows),
    }[name]
    for changes in (1, 5, 50):  # each starts two processes
        data = bytearray(good)
        for _ in range(changes):
            data[rng.randrange(8, len(data) - 8)] = rng.randrange(256)
        outcome(put(folder, name, bytes(data)), format="saipe" if name == "p.xls" else None)


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
