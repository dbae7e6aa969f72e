"""Files and data frames in, whole files out: every error on one line with its place, and no byte string that crashes."""

import csv
import gzip
import io
import random
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xlwt
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpost as fp
from fairpost.accuracy import Accuracy
from fairpost.errors import CountsError, FairpostError, InputError, ParameterError
from fairpost.io import check_free, entities_csv, files, guarded, read_counts, read_rows, source, write_whole
from fairpost.problems import Release
from fairpost.results import Moments
from support.data import path_or_skip

IDS = ["0100", "02", "ä b"]
CSV = "id,count,weight,group\n0100,5,1.5,x\n02,0,2,x\nä b,7.25,1,y\n"


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def message(folder, name, content, read=read_counts, kind=InputError, **options):
    """The error's text after the file's name; it must be one line that begins with that name."""
    path = put(folder, name, content)
    with pytest.raises(kind) as caught:
        read(path, **options)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith(str(path))
    return text.removeprefix(str(path))


def same(counts):
    return (
        list(counts.ids) == IDS
        and counts.values.tolist() == [5.0, 0.0, 7.25]
        and counts.weights.tolist() == [1.5, 2.0, 1.0]
        and list(counts.groups) == ["x", "x", "y"]
    )


# ---- what is accepted ----


def test_every_kind_of_file_gives_the_same_counts(tmp_path):
    frame = pl.DataFrame({"id": IDS, "count": [5.0, 0.0, 7.25], "weight": [1.5, 2.0, 1.0], "group": ["x", "x", "y"]})
    parquet = io.BytesIO()
    frame.write_parquet(parquet)
    tsv = CSV.replace(",", "\t")
    written = {
        "a.csv": CSV.encode(),
        "a.CSV": CSV.encode(),
        "a.tsv": tsv.encode(),
        "a.tab": tsv.encode(),
        "a.csv.gz": gzip.compress(CSV.encode()),
        "a.tsv.gz": gzip.compress(tsv.encode()),
        "a.parquet": parquet.getvalue(),
        "a.parquet.gz": gzip.compress(parquet.getvalue()),
        "crlf.csv": CSV.replace("\n", "\r\n").encode(),
        "cr.csv": CSV.replace("\n", "\r").encode(),
        "bom.csv": b"\xef\xbb\xbf" + CSV.encode(),
        "utf16.csv": CSV.encode("utf-16"),
        "utf32.csv": CSV.encode("utf-32"),
        "open-end.csv": CSV.rstrip("\n").encode(),
        "blank-end.csv": (CSV + "\n \r\n\t\n\n").encode(),
        "quoted.csv": "\n".join(",".join(f'"{f}"' for f in line.split(",")) for line in CSV.splitlines()).encode(),
        "blanks.csv": "\n".join(",".join(f" {f} " for f in line.split(",")) for line in CSV.splitlines()).encode(),
        "more.csv": "\n".join(f"{i},{line},z" for i, line in enumerate(CSV.splitlines())).encode(),
    }
    for name, content in written.items():
        assert same(read_counts(put(tmp_path, name, content))), name
    assert same(read_counts(str(tmp_path / "a.csv")))
    assert same(read_counts(put(tmp_path, "plain", CSV), format="csv"))
    assert same(read_counts(put(tmp_path, "wrong.csv", tsv), format="tsv"))


@pytest.mark.parametrize("kind", ["polars", "lazy", "arrow", "batch", "pandas", "pandas objects", "categories"])
def test_every_kind_of_data_frame_gives_the_same_counts(kind):
    columns = {"id": IDS, "count": [5.0, 0.0, 7.25], "weight": [1.5, 2.0, 1.0], "group": ["x", "x", "y"]}
    frame = {
        "polars": lambda: pl.DataFrame(columns),
        "lazy": lambda: pl.LazyFrame(columns),
        "arrow": lambda: pa.table(columns),
        "batch": lambda: pa.record_batch(columns),
        "pandas": lambda: pd.DataFrame(columns),
        "pandas objects": lambda: pd.DataFrame(columns, dtype=object),
        "categories": lambda: pd.DataFrame(columns).astype({"id": "category", "group": "category"}),
    }[kind]()
    assert same(read_counts(frame))


def test_numbers_of_every_type_and_ids_that_are_numbers(tmp_path):
    for values in (
        [1, 2],
        np.array([1, 2], dtype=np.float16),
        pd.array([1, 2], dtype="Int64"),
        [Decimal(1), Decimal(2)],
    ):
        counts = read_counts(pd.DataFrame({"id": [7, 8], "count": values}))
        assert list(counts.ids) == ["7", "8"]
        assert counts.values.tolist() == [1.0, 2.0]
    for ids in (pl.Series([7, 8], dtype=pl.UInt64), pl.Series([7.0, 8.0]), pl.Series(["7", "8"], dtype=pl.Categorical)):
        path = tmp_path / "ids.parquet"
        pl.DataFrame({"id": ids, "count": pl.Series([1, 2], dtype=pl.Int8)}).write_parquet(path)
        assert list(read_counts(path).ids) == ["7", "8"]
    assert list(read_counts(pl.DataFrame({"id": [0.5, 8.0], "count": [1, 2]})).ids) == ["0.5", "8.0"]
    assert list(read_counts(pd.DataFrame({0: ["a"], "count": [1]}), id="0").ids) == ["a"]


def test_columns_by_name_by_default_and_row_numbers(tmp_path):
    path = put(tmp_path, "a.csv", "lea,n,w,st\n001,4,2,AL\n002,5,3,AK\n")
    counts = read_counts(path, id="lea", count="n", weight="w", group="st")
    assert (list(counts.ids), list(counts.groups)) == (["001", "002"], ["AL", "AK"])
    plain = read_counts(path, id=None, count="n")
    assert (list(plain.ids), plain.groups, plain.weights.tolist()) == (["1", "2"], None, [1.0, 1.0])
    assert list(read_counts(put(tmp_path, "b.csv", "count\n3\n4\n"), id=None).ids) == ["1", "2"]


def test_quotes_line_breaks_and_thousands(tmp_path):
    path = put(tmp_path, "a.csv", 'id,count\n"a ""b"", c","1,234"\n"d\ne"," 1,234,567.5 "\n')
    counts = read_counts(path)
    assert list(counts.ids) == ['a "b", c', "d\ne"]
    assert counts.values.tolist() == [1234.0, 1234567.5]
    path = put(tmp_path, "b.tsv", "id\tcount\na\t-1,234\n")
    assert read_rows(path, decimal=".").values.tolist() == [-1234.0]
    assert read_rows(path, decimal=",").values.tolist() == [-1.234]


def test_numbers_are_read_to_the_nearest_float(tmp_path):
    rng = random.Random(1)
    numbers = [repr(rng.random() * 10.0 ** rng.randint(-20, 12)) for _ in range(2000)]
    numbers += ["1e5", "+5", ".5", "5.", "-0", "900719925474099.3", "123456789012345.678901234567890"]
    path = put(tmp_path, "a.csv", "count\n" + "\n".join(numbers))
    assert read_counts(path, id=None).values.tolist() == [float(n) for n in numbers]


def test_noisy_counts_weights_and_totals(tmp_path):
    path = put(tmp_path, "n.csv", "id,count,group,weight,t\na,-3.5,x,2,10\nb,0,y,1,4\nc,8,x,1,10\n")
    noisy = read_rows(path, total="t")
    assert (noisy.ids, noisy.groups, len(noisy)) == (("a", "b", "c"), ("x", "y", "x"), 3)
    assert noisy.values.tolist() == [-3.5, 0.0, 8.0]
    assert noisy.totals.tolist() == [10.0, 4.0, 10.0]
    assert repr(noisy) == "Rows(n=3, sum=4.5)"
    bare = read_rows(pd.DataFrame({"id": ["a"], "count": [-1]}))
    assert (bare.groups, bare.totals, bare.weights.tolist()) == (None, None, [1.0])
    with pytest.raises(ValueError, match="read-only"):
        bare.values[0] = 2.0


def test_a_million_rows(tmp_path):
    n = 10**6
    path = tmp_path / "m.csv"
    pl.DataFrame(
        {"id": pl.int_range(n, eager=True).cast(pl.String).str.zfill(7), "count": np.arange(n) % 1000}
    ).write_csv(path)
    counts = read_counts(path)
    assert counts.n == n
    assert counts.total == 1000 * 999 / 2 * (n / 1000)
    assert (counts.ids[0], counts.ids[-1]) == ("0000000", "0999999")
    with path.open("a") as file:
        file.write("0000000,1\n")
    with pytest.raises(CountsError, match=r"lines 2 and 1000002, column 'id': ids must be unique, got '0000000' twice"):
        read_counts(path)


# ---- what is not ----

BAD_VALUES = {
    "-5": "every count must be at least 0, got '-5'",
    "": "every count must be present, got a missing one",
    "  ": "every count must be present, got a missing one",
    '""': "every count must be present, got a missing one",
    "NaN": "every count must be finite, got 'NaN'",
    "inf": "every count must be finite, got 'inf'",
    "1e400": "every count must be finite, got '1e400'",
    "abc": "every count must be a number, got 'abc'",
    "NA": "every count must be a number, got 'NA'",
    '"1,23"': "every count must be a number, got '1,23'",
    '"1234,567"': "every count must be a number, got '1234,567'",
    "1_000": "every count must be a number, got '1_000'",
    "x" * 99: "every count must be a number, got '" + "x" * 59 + "...",
}


@pytest.mark.parametrize("entry", BAD_VALUES)
def test_bad_counts_are_named_with_line_and_column(tmp_path, entry):
    content = f'id,count,name\na,1,"two\n\nlines"\n"b",{entry},z\nc,-1,z\n'
    expected = f", line 5, column 'count': {BAD_VALUES[entry]}"
    assert message(tmp_path, "a.csv", content, kind=CountsError) == expected
    assert message(tmp_path, "a.csv", content.replace("\n", "\r\n"), kind=CountsError) == expected


def test_bad_weights_ids_groups_and_totals(tmp_path):
    def bad(content, read=read_counts, **options):
        return message(tmp_path, "a.csv", content, read, CountsError, **options)

    assert bad("id,count,weight\na,1,0\n") == ", line 2, column 'weight': every weight must be above 0, got '0'"
    assert (
        bad("id,count,weight\na,1,1\nb,1,-2\n") == ", line 3, column 'weight': every weight must be above 0, got '-2'"
    )
    assert (
        bad("id,count,weight\na,1,\n") == ", line 2, column 'weight': every weight must be present, got a missing one"
    )
    assert bad("id,count\na,1\n ,2\n") == ", line 3, column 'id': every id must be present, got a missing one"
    assert bad("id,count\n01,1\n1,2\n 01 ,3\n") == ", lines 2 and 4, column 'id': ids must be unique, got '01' twice"
    quoted = 'id,count\n"a\nb",1\nc,2\n"a\nb",1\n'
    assert bad(quoted) == r", lines 2 and 5, column 'id': ids must be unique, got 'a\nb' twice"
    missing = "id,count,group\na,1,x\nb,2,\n"
    assert bad(missing) == ", line 3, column 'group': every group must be present, got a missing one"
    assert bad("id,count\na,nan\n", read_rows) == ", line 2, column 'count': every count must be finite, got 'nan'"
    totals = "id,count,group,t\na,-1,x,3\nb,1,y,5\nc,1,x,4\n"
    expected = ", line 4, column 't': the total must be the same in all of the group 'x', got 4.0 after 3.0"
    assert bad(totals, read_rows, total="t") == expected
    whole = "id,count,t\na,-1,3\nb,1,5\n"
    assert "line 3, column 't': the total must be the same in all of the table" in bad(whole, read_rows, total="t")
    assert "column 't': every total must be at least 0, got '-3'" in bad("id,count,t\na,1,-3\n", read_rows, total="t")


def test_bad_rows_of_data_frames_and_parquet(tmp_path):
    for frame in (pd.DataFrame, pl.DataFrame, pa.table):
        with pytest.raises(CountsError, match=r"^data frame, row 2, column 'count': .* at least 0, got -1$"):
            read_counts(frame({"id": ["a", "b"], "count": [1, -1]}))
        with pytest.raises(
            CountsError, match=r"^data frame, rows 1 and 3, column 'id': ids must be unique, got 'a' twice$"
        ):
            read_counts(frame({"id": ["a", "b", "a"], "count": [1, 1, 1]}))
        with pytest.raises(CountsError, match=r"row 2, column 'id': every id must be present"):
            read_counts(frame({"id": ["a", None], "count": [1, 1]}))
        with pytest.raises(CountsError, match=r"row 1, column 'count': every count must be finite, got nan"):
            read_counts(frame({"id": ["a"], "count": [float("nan")]}))
        with pytest.raises(CountsError, match=r"row 1, column 'count': every count must be a number, got '?True"):
            read_counts(frame({"id": ["a"], "count": [True]}))
        with pytest.raises(InputError, match=r"^data frame: there must be at least one row, got none$"):
            read_counts(frame({"id": [], "count": []}))
    with pytest.raises(InputError, match=r"column 'id': labels must be text or numbers, got List"):
        read_counts(pl.DataFrame({"id": [[1]], "count": [1]}))
    with pytest.raises(InputError, match="column names must be unique, got 'count' twice"):
        read_counts(pd.DataFrame([["a", 1, 2]], columns=["id", "count", "count"]))
    with pytest.raises(InputError, match=r"`source` must be a path or a data frame .* got int"):
        read_counts(5)
    with pytest.raises(InputError, match="`format` is for files, got 'csv' with a DataFrame"):
        read_counts(pl.DataFrame({"id": ["a"], "count": [1]}), format="csv")
    pl.DataFrame({"id": ["a", "b"], "count": [1, None]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(
        CountsError, match=r"a.parquet, row 2, column 'count': every count must be present, got a missing"
    ):
        read_counts(tmp_path / "a.parquet")


def test_columns_that_are_not_there(tmp_path):
    listed = "must be one of 'id', 'count', got"
    assert message(tmp_path, "a.csv", "id,count\na,1\n", count="n") == (
        f": the count column {listed} 'n' (name it with --count)"
    )
    for option in ("id", "weight", "group"):
        expected = f": the {option} column {listed} 'w' (name it with --{option})"
        assert message(tmp_path, "a.csv", "id,count\na,1\n", **{option: "w"}) == expected
    assert message(tmp_path, "a.csv", "lea,count\na,1\n") == (
        ": the id column must be one of 'lea', 'count', got 'id' (name it with --id)"
    )
    assert "and 10 more, got 'id'" in message(tmp_path, "a.csv", ",".join(f"c{i}" for i in range(30)) + "\n" + "," * 29)
    assert message(tmp_path, "a.csv", "id|count\na|1\n", format="csv").endswith(
        "the header has no comma but a pipe: give --delimiter pipe"
    )
    assert message(tmp_path, "a.csv", "id\tcount\na\t1\n", format="csv").endswith(
        "the header has no comma but a tab: give --format tsv"
    )
    assert message(tmp_path, "a.tsv", "id,count\na,1\n", format="tsv").endswith(
        "the header has no tab but a comma: give --format csv"
    )
    pl.DataFrame({"id": ["a"], "n": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="the count column must be one of 'id', 'n', got 'count'"):
        read_counts(tmp_path / "a.parquet")


def test_structure_of_text_files(tmp_path):
    def bad(content):
        return message(tmp_path, "a.csv", content)

    assert bad("") == ": the file must have a header and at least one row, got an empty file"
    assert bad(" \r\n\n") == ": the file must have a header and at least one row, got blanks only"
    assert bad(b"\xef\xbb\xbf") == ": the file must have a header and at least one row, got blanks only"
    for header in ("id,count", "id,count\n", "id,count\r\n\r\n"):
        assert bad(header) == ": there must be at least one row below the header, got none"
    ragged = "every row must have as many fields as the header has (2), got"
    assert bad("id,count\na,1\nb\n") == f", line 3: {ragged} 1"
    assert bad('id,count\n"a\n,\nb",1\nb,2,3\n') == f", line 5: {ragged} 3"
    assert bad("id,count\na,1,234\nb\n") == f", line 2: {ragged} 3"
    assert bad("id,count\na,1\n\nb,2\n") == ", line 3: a table must have no blank line inside, got one"
    assert bad("id,co\runt\na,1\n").startswith(": the count column must be one of 'id', 'co unt', got 'count'")
    assert bad("id,count,count\na,1,2\n") == ", line 1: column names must be unique, got 'count' twice"
    assert (
        bad('id,count\na,1\nb"c,2\n') == ", line 3: quotation marks must enclose a whole field, got one inside a field"
    )
    assert bad('id,count\n"b"c,2\n') == ", line 2: quotation marks must enclose a whole field, got one inside a field"
    assert (
        bad('id,count\na,1\n"b,2\nc,3\n') == ", line 3: a quoted field must be closed, got one that is open to the end"
    )
    assert bad(b"id,count\na,1\n\0b,2\n") == ", line 3: text must not hold the byte 0, got one (a binary file?)"
    assert bad(b"\xff\xfea\x00b").startswith(": must be UTF-16, as its first bytes say, got text that is not")


def test_files_that_are_not_what_their_names_say(tmp_path):
    packed = gzip.compress(CSV.encode() * 50)
    parquet = io.BytesIO()
    pl.DataFrame({"id": ["a"], "count": [1]}).write_parquet(parquet)
    assert (
        message(tmp_path, "a.parquet", CSV)
        == ": must be Parquet, as its name says, got a file that begins with b'id,c'"
    )
    assert (
        message(tmp_path, "a.parquet", parquet.getvalue()[:-9])
        == ": must be Parquet, as its name says, got a truncated file"
    )
    damaged = b"PAR1" + b"\xff" * 60 + b"\x20\0\0\0PAR1"
    assert message(tmp_path, "a.parquet", damaged).startswith(
        ": must be Parquet, as its name says, got a damaged or another file"
    )
    assert (
        message(tmp_path, "a.csv.gz", CSV)
        == ": must be gzip data, as its name says, got a file that begins with b'id,c'"
    )
    assert message(tmp_path, "a.csv.gz", packed[:40]) == ": the gzip data must be complete, got a truncated file"
    flipped = packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]
    assert message(tmp_path, "a.csv.gz", flipped).startswith(": the gzip data must be whole, got a damaged file")
    assert message(tmp_path, "a.csv.gz", b"").endswith("got an empty file")
    assert message(tmp_path, "a.csv", packed) == ": must be CSV text, got gzip data (its name should end in .gz)"
    assert message(tmp_path, "a.csv", parquet.getvalue()) == ": must be CSV text, got Parquet"
    assert message(tmp_path, "a.tsv", b"PK\x03\x04") == ": must be TSV text, got a zip archive or an Excel workbook"
    assert "the name must end in .csv, .tsv, .tab, .txt, .parquet, .pq, .xlsx" in message(tmp_path, "a.dat", CSV)
    with pytest.raises(ParameterError, match="`format` must be one of csv, tsv, txt, xlsx, parquet, saipe, got 'xml'"):
        read_counts(tmp_path / "a.csv", format="xml")


def test_a_file_that_kills_its_decoder_is_an_error(tmp_path, monkeypatch):
    """A native decoder that asks for 2^61 bytes ends its process; here it is stood in for by one that ends itself."""
    put(tmp_path, "decode.py", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(guarded, "__file__", str(tmp_path / "apart.py"))
    damaged = b"PAR1" + b"\xff" * 60 + b"\x20\0\0\0PAR1"
    assert message(tmp_path, "a.parquet", damaged) == (
        ": must be Parquet, as its name says, got a damaged or another file"
    )


def test_places_that_cannot_be_read(tmp_path):
    for path, expected in {
        tmp_path / "no.csv": "no such file",
        tmp_path / "no" / "no.csv": "no such file",
        put(tmp_path, "file", "x") / "a.csv": "cannot be read: Not a directory",
    }.items():
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: {expected}$"):
            read_counts(path)
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(InputError, match="must be a file, got a directory"):
        read_counts(tmp_path / "d.csv")
    with pytest.raises(InputError, match=r"cannot be read: .*null") as caught:
        read_counts("a\0b\n.csv")
    assert len(str(caught.value).splitlines()) == 1


def test_no_permission(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(source, "_regular", refuse)
    with pytest.raises(InputError, match=r"a.csv: no permission to read the file$"):
        read_counts(tmp_path / "a.csv")


# ---- any bytes ----

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


def test_damaged_parquet_and_workbooks(folder):
    parquet = io.BytesIO()
    pl.DataFrame({"id": [f"a{i}" for i in range(50)], "count": range(50)}).write_parquet(parquet)
    rng = random.Random(5)
    for good, name, kind in ((parquet.getvalue(), "p.parquet", None), (workbook(DISTRICTS), "p.xls", "saipe")):
        for _ in range(3):  # each starts two processes
            data = bytearray(good)
            for _ in range(rng.choice([1, 5, 50])):
                data[rng.randrange(8, len(data) - 8)] = rng.randrange(256)
            outcome(put(folder, name, bytes(data)), format=kind)


# ---- SAIPE ----

DISTRICTS = [
    ("01", "00190", "Alabaster City School District", 34669, 6710, 649),
    ("06", "22710", "Los Angeles Unified School District", 4621045, 701435, 149342),
    ("35", "00960", "Española Municipal Schools", 25000, 4000, 1000),
    ("30", "09120", "Dodson K-12 1 2 3", 300, 60, 0),
    ("20", "00001", "Republic County-Hillcrest Rural Schools Unified School District 10", 9, 1, 1),
]
TAG = "ussd19.txt  24NOV2020"


def fixed(districts, gap=1, width=72, encoding="latin-1", tag=TAG):
    """The text file in the layout of the Census Bureau: 1-2, 4-8, 10-81, 83-90, 92-99, 101-108, 110-130."""
    lines = [
        f"{state}{' ' * gap}{district} {name:<{width}.{width}} {pop:>8} {young:>8} {poor:>8} {tag}"
        for state, district, name, pop, young, poor in districts
    ]
    return ("\r\n".join(lines) + "\r\n").encode(encoding)


def workbook(districts, number_codes=False, note=True):
    """The .xls file: two rows of titles, the names of the columns in the third, then the districts."""
    book = xlwt.Workbook()
    sheet = book.add_sheet("ussd19")
    sheet.write(0, 0, "Table with column headers in row 3")
    sheet.write(1, 0, "Source: U.S. Census Bureau, Small Area Income and Poverty Estimates")
    names = ["State Postal Code", "State FIPS Code", "District ID", "Name", "Estimated Total Population"]
    names += ["Estimated Population 5-17"]
    names += ["Estimated number of relevant children 5 to 17 years old in poverty who are related to the householder"]
    for j, name in enumerate(names):
        sheet.write(2, j, name)
    for i, (state, district, *rest) in enumerate(districts, start=3):
        codes = [int(state), int(district)] if number_codes else [state, district]
        for j, cell in enumerate(["XX", *codes, *rest]):
            sheet.write(i, j, cell)
    if note:
        sheet.write(len(districts) + 4, 0, "A note below the table")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def check_saipe(counts, which=5):
    assert list(counts.ids) == [state + district for state, district, *_ in DISTRICTS]
    assert list(counts.groups) == [state for state, *_ in DISTRICTS]
    assert counts.values.tolist() == [row[which] for row in DISTRICTS]


def test_saipe_text(tmp_path):
    written = {
        "ussd19.txt": fixed(DISTRICTS),
        "utf8.txt": fixed(DISTRICTS, encoding="utf-8"),
        "bom.txt": fixed(DISTRICTS, encoding="utf-8-sig"),
        "lf.txt": fixed(DISTRICTS).replace(b"\r\n", b"\n"),
        "untagged.txt": fixed(DISTRICTS, tag="").replace(b" \r\n", b"\r\n"),
        "nation.txt": fixed([("00", "00000", "United States", 33000000, 53000000, 8500000), *DISTRICTS]),
        "sd07.txt": fixed(DISTRICTS, width=65),
        "USSD95.dat": fixed(DISTRICTS, gap=2, width=35),
        "ussd19.txt.gz": gzip.compress(fixed(DISTRICTS)),
    }
    for name, content in written.items():
        check_saipe(read_counts(put(tmp_path, name, content), format="saipe"))
    path = tmp_path / "ussd19.txt"
    check_saipe(read_counts(path, format="saipe", count="pop"), 3)
    check_saipe(read_counts(path, format="saipe", count="pop_5_17", id="leaid", group="state"), 4)
    assert read_counts(path, format="saipe", weight="pop").weights[0] == 34669.0
    assert list(read_counts(path, format="saipe", id="name").ids)[2] == "Española Municipal Schools"
    assert read_counts(path, format="saipe", id=None).ids[-1] == "5"


def test_saipe_text_that_breaks_the_layout(tmp_path):
    def bad(content, **options):
        return message(tmp_path, "a.txt", content, format="saipe", **options)

    lines = fixed(DISTRICTS).splitlines()
    layout = "every line must follow the SAIPE record layout"
    for change in (
        lines[2][:60],
        lines[2][:83] + b" " + lines[2][83:],
        b"x" + lines[2],
        fixed(DISTRICTS[2:3], width=65),
    ):
        assert bad(b"\n".join([*lines[:2], change.rstrip(), *lines[3:]])).startswith(f", line 3: {layout}")
    assert bad(CSV).startswith(f", line 1: {layout}")
    assert bad(b"\r\n") == ": there must be at least one school district, got none"
    assert (
        bad(fixed([("00", "00000", "United States", 1, 1, 1)]))
        == ": there must be at least one school district, got none"
    )
    dotted = b"\n".join([b"", lines[0], lines[1][:107] + b"." + lines[1][108:]]).replace(b"14934.", b"     .")
    assert bad(dotted) == ", line 3, column 'poor_5_17': every count must be a number, got '.'"
    assert bad(b"\n".join([*lines, lines[0]])) == (
        ", lines 1 and 6, column 'leaid': ids must be unique, got '0100190' twice"
    )
    assert bad(fixed(DISTRICTS), count="poor").startswith(
        ": the count column must be one of 'leaid', 'state', 'name', 'pop', 'pop_5_17', 'poor_5_17', got 'poor'"
    )
    assert bad(fixed(DISTRICTS), weight="weight").startswith(": the weight column must be one of 'leaid'")
    assert bad(workbook(DISTRICTS)).endswith("got an old Excel workbook")


def test_saipe_workbook(tmp_path):
    check_saipe(read_counts(put(tmp_path, "a.xls", workbook(DISTRICTS)), format="saipe"))
    check_saipe(read_counts(put(tmp_path, "b.xls.gz", gzip.compress(workbook(DISTRICTS, True))), format="saipe"))
    wrong = workbook([*DISTRICTS, ("99", "x", "Nowhere", 1, 1, 1)])
    assert message(tmp_path, "a.xls", wrong, format="saipe") == (
        ", row 9: every district must have a state code of 2 digits and an id of 5, got '99' and 'x'"
    )
    missing = workbook([*DISTRICTS, ("35", "00001", "Nowhere", 1, 1, "")])
    assert message(tmp_path, "a.xls", missing, format="saipe") == (
        ", row 9, column 'poor_5_17': every count must be present, got a missing one"
    )
    assert message(tmp_path, "a.xls", fixed(DISTRICTS), format="saipe").startswith(
        ": must be an Excel workbook, as its name says, got a damaged or another file"
    )
    book = xlwt.Workbook()
    book.add_sheet("a").write(0, 0, "x")
    out = io.BytesIO()
    book.save(out)
    assert ": one of the first rows must name the SAIPE columns" in message(
        tmp_path, "a.xls", out.getvalue(), format="saipe"
    )


def test_saipe_2019_in_every_form(tmp_path):
    path = path_or_skip("saipe_2019.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    plain = read_counts(path, id="leaid", count="poor_5_17", group="state_fips")
    assert (plain.n, plain.total, int((plain.values == 0).sum())) == (13184, 8507055.0, 32)
    keys = ("state_fips", "district_id", "name", "pop", "pop_5_17", "poor_5_17")
    districts = [tuple(int(row[k]) if k in keys[3:] else row[k] for k in keys) for row in rows]
    for name, content in {
        "ussd19.txt": fixed(districts),
        "utf8.txt": fixed(districts, encoding="utf-8"),
        "ussd19.xls": workbook(districts),
    }.items():
        counts = read_counts(put(tmp_path, name, content), format="saipe")
        assert counts.ids == plain.ids
        assert counts.groups == plain.groups
        assert np.array_equal(counts.values, plain.values)


# ---- outputs ----


def test_outputs_are_free(tmp_path):
    taken = put(tmp_path, "a.csv", "old")
    with pytest.raises(InputError, match=r"a.csv: nothing is overwritten without --force, and the file exists$"):
        check_free([taken])
    check_free([taken, tmp_path / "b.csv"], force=True)
    (tmp_path / "link.csv").symlink_to(taken)
    for outputs in ([tmp_path / "b", tmp_path / "." / "b"], [taken, tmp_path / "link.csv"]):
        with pytest.raises(InputError, match="an output must have a place of its own, got that of another output"):
            check_free(outputs, force=True)
    with pytest.raises(InputError, match="an output must have a place of its own, got that of the input"):
        check_free([tmp_path / "link.csv"], force=True, inputs=[taken])
    with pytest.raises(InputError, match="the folder of an output must exist"):
        check_free([tmp_path / "no" / "b.csv"])
    with pytest.raises(InputError, match="an output must be a file, got a directory"):
        check_free([tmp_path], force=True)
    with pytest.raises(InputError, match="an output must be a file, got a device or a pipe"):
        check_free(["/dev/null"], force=True)
    for strange in ("a\0b", str(taken / "x"), "x" * 5000):
        with pytest.raises(InputError) as caught:
            check_free([strange])
        assert len(str(caught.value).splitlines()) == 1


def test_outputs_are_written_whole(tmp_path):
    old = put(tmp_path, "old.csv", "old")
    old.chmod(0o640)
    (tmp_path / "link").symlink_to(old)
    outputs = {tmp_path / "a": b"\0\1", str(tmp_path / "b"): "é\n", tmp_path / "link": lambda file: file.write(b"new")}
    with pytest.raises(InputError, match="nothing is overwritten"):
        write_whole(outputs)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "old.csv"]
    write_whole(outputs, force=True, private=False)
    assert (tmp_path / "a").read_bytes() == b"\0\1"
    assert (tmp_path / "b").read_bytes() == "é\n".encode()
    assert (old.read_bytes(), (tmp_path / "link").is_symlink()) == (b"new", True)
    assert old.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "link", "old.csv"]


def full(file):
    file.write(b"half")
    raise OSError(28, "No space left on device")


def interrupt(file):
    file.write(b"half")
    raise KeyboardInterrupt


def broken(file):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("writer", "kind"), [(full, FairpostError), (interrupt, KeyboardInterrupt), (broken, ZeroDivisionError)]
)
def test_a_failure_half_way_leaves_nothing(tmp_path, writer, kind):
    old = put(tmp_path, "old", "old")
    with pytest.raises(kind) as caught:
        write_whole({tmp_path / "a": "first", old: "second", tmp_path / "c": writer}, force=True)
    assert kind is not FairpostError or str(caught.value).endswith("c: cannot be written: No space left on device")
    assert old.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("kind", [PermissionError, KeyboardInterrupt])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("links", [True, False])
def test_a_failure_between_two_renames_takes_the_first_back(tmp_path, monkeypatch, kind, when, links):
    old = put(tmp_path, "old", "old")
    done = []
    real = Path.replace

    def replace(self, target):
        done.append(self.suffix)
        if len(done) == 3:
            if when == "after":
                real(self, target)
            raise kind(13, "Permission denied")
        return real(self, target)

    def no_link(*_):
        raise OSError("no links here")

    monkeypatch.setattr(Path, "replace", replace)
    if not links:
        monkeypatch.setattr(files.os, "link", no_link)
    with pytest.raises(FairpostError if kind is PermissionError else kind):
        write_whole({tmp_path / "a": "first", old: "second", tmp_path / "c": "third"}, force=True)
    assert done == [".tmp", ".tmp", ".tmp", ".old"]
    assert old.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    place = tmp_path / "a"
    with pytest.raises(InputError, match="nothing is overwritten"):
        write_whole({place: lambda file: place.write_text("other")})
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "other")]


# ---- the table of an audit ----


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def result_of(counts, postprocess, task, seed, budget=None):
    """A result with arbitrary numbers: the table shows what a result holds, so no engine is needed."""
    numbers = np.random.default_rng(seed).standard_normal((5, counts.n)) * 10.0 ** np.arange(-9, 6, 3)[:, None]
    truth = counts.values if task == "release" else counts.values / counts.total
    bias, error, spread, mse, zero = numbers
    mse = bias**2 + spread**2
    problem = Release() if task == "release" else fp.Proportional(counts.weights)
    moments = Moments(mse, Accuracy("bound", 0 * mse), zero, Accuracy("bound", 0 * zero), np.abs(spread))
    return fp.Audit(
        counts, fp.Laplace(scale=2.0), postprocess, problem, "exact", truth, bias, Accuracy("bound", error), moments,
        alpha=fp.Estimate(1.0, 1.0, 1.0), alpha_pair=(counts.ids[0], counts.ids[1]), budget=budget,
    )  # fmt: skip


def test_the_table_of_an_audit():
    counts = fp.Counts([3, 40, 0.1], ids=["01", 'a,"b', "c"], weights=[1, 2, 1], groups=["x", "", "x"])
    results = [result_of(counts, "simplex", "release", 1, 1e6), result_of(counts, "pos", "allocation", 2, 1e6)]
    results += [result_of(counts, "pos-threshold", "allocation", 3)]
    rows = rows_of(entities_csv(results))
    head = ["id", "count", "weight", "group", "true_count", "true_share"]
    parts = ["bias", "half_width", "accuracy", "standard_deviation", "zero"]
    due = ["relative_bias", "relative_half_width"]
    tail = [f"simplex_{p}" for p in [*parts, *due]] + [f"pos_{p}" for p in [*parts, "bias_money", *due]]
    tail += [f"pos_threshold_{p}" for p in [*parts, *due]]
    assert list(rows[0]) == [*head, *tail, "confidential"]
    assert [row["id"] for row in rows] == list(counts.ids)
    assert [row["weight"] for row in rows] == ["1", "2", "1"]
    assert [row["group"] for row in rows] == ["x", "", "x"]
    assert {row["confidential"] for row in rows} == {"computed from true counts"}
    for name, result in zip(("simplex", "pos", "pos_threshold"), results, strict=True):
        assert {row[f"{name}_accuracy"] for row in rows} == {"bound"}
        numbers = {"bias": result.bias, "half_width": result.half_width, "standard_deviation": result.moments.deviation}
        for part, values in (numbers | {"zero": result.moments.zero}).items():
            assert [float(row[f"{name}_{part}"]) for row in rows] == values.tolist()
    assert [float(row["pos_bias_money"]) for row in rows] == results[1].money.tolist()
    assert [float(row["true_share"]) for row in rows] == results[1].truth.tolist()
    assert [float(row["count"]) for row in rows] == counts.values.tolist()


def test_the_table_of_one_release_and_its_limits():
    result = result_of(fp.Counts([3, 40]), "sum-clipped", "release", 4)
    rows = rows_of(entities_csv([result, result]))
    assert list(rows[0])[:5] == ["id", "count", "weight", "true_count", "sum_clipped_bias"]
    assert float(rows[0]["sum_clipped_bias"]) == float(rows[0]["sum_clipped_2_bias"]) == result.bias[0]
    assert (rows[1]["count"], rows[1]["true_count"]) == ("40", "40")
    with pytest.raises(InputError, match="about the same entities"):
        entities_csv([result, result_of(fp.Counts([3, 40], ids=["a", "b"]), "sum", "release", 5)])
    with pytest.raises(InputError, match="have the same true_counts"):
        entities_csv([result, result_of(fp.Counts([3, 41]), "sum", "release", 5)])
    with pytest.raises(InputError, match="at least one result"):
        entities_csv([])


def test_a_bound_is_not_called_a_standard_error():
    """Exact: a bound or an expansion's error, no standard error; simulated: both, and which is which."""
    counts = fp.Counts(np.tile([0.0, 5.0, 40.0], 20))
    ways = (("pos", fp.Exact()), ("pos-threshold", fp.Expansion()))
    exact = [fp.audit(counts, fp.Laplace(5.0), rule, engine=engine) for rule, engine in ways]
    drawn = fp.audit(counts, fp.Laplace(5.0), "simplex", engine="monte-carlo", runs=500)
    rows = rows_of(entities_csv([*exact, drawn]))
    kinds = {k: {row[k] for row in rows} for k in rows[0] if k.endswith("_accuracy")}
    assert kinds == {
        "pos_accuracy": {"estimate"},
        "pos_threshold_accuracy": {"expansion"},
        "simplex_accuracy": {"interval"},
    }
    assert [k for k in rows[0] if k.endswith("_standard_error")] == ["simplex_standard_error"]
    assert [float(row["simplex_standard_error"]) for row in rows] == drawn.engine.sample.standard_error.tolist()
    assert [float(row["simplex_half_width"]) for row in rows] == drawn.engine.sample.half_width.tolist()
    assert drawn.engine.sample.half_width.max() > 2 * drawn.engine.sample.standard_error.max()
    entities = [r.to_dict(entities=True)["entities"][3] for r in (exact[1], drawn)]
    assert [e["accuracy"] for e in entities] == ["expansion", "interval"]
    assert (entities[0]["standard_error"], entities[0]["half_width"]) == (None, exact[1].half_width[3])


@pytest.mark.parametrize("groups", [None, ["n", "s", "n"]])
def test_the_table_of_an_audit_can_be_read_back(tmp_path, groups):
    counts = fp.Counts([3, 40, 0.5], ids=["01", "b", "c"], weights=[1, 2, 1], groups=groups)
    (tmp_path / "a.csv").write_text(entities_csv([fp.audit(counts, fp.Laplace(2.0), "nonnegative")]))
    again = read_counts(tmp_path / "a.csv")
    assert (again.ids, again.groups) == (counts.ids, counts.groups)
    assert np.array_equal(again.values, counts.values)
    assert np.array_equal(again.weights, counts.weights)


def test_a_group_column_without_entries_is_absent_unless_it_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("id,count,group\na,1,\nb,2, \n")
    assert read_counts(tmp_path / "a.csv").groups is None
    with pytest.raises(CountsError, match="every group must be present"):
        read_counts(tmp_path / "a.csv", group="group")
    (tmp_path / "a.csv").write_text("id,count,group\na,1,\nb,2,x\n")
    with pytest.raises(CountsError, match="every group must be present"):
        read_counts(tmp_path / "a.csv")


def test_importing_the_package_loads_no_data_frames():
    code = "import sys, fairpost.io; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    ).stdout.split()
    assert not set(loaded) & {"polars", "pandas", "pyarrow", "python_calamine", "numba", "scipy"}
