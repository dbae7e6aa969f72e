"""What the readers take and what they refuse: every format, separator, mark, encoding, frame; each error on one line with its place."""

import gzip
import io
import logging
import random
import re
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fairpost as fp
from fairpost.errors import CountsError, InputError, ParameterError
from fairpost.io import read_column, read_counts, read_group_budgets, read_leaves, read_programme, read_rows
from fairpost.io.tables import read_labels
from support.tables import DISTRICTS, fixed, parquet, put, xls
from support.workbooks import xlsx

CSV = "id,count,weight,group\n0100,5,1.5,x\n02,0,2,x\nä b,7.25,1,y\n"
COLUMNS = {"id": ["0100", "02", "ä b"], "count": [5.0, 0.0, 7.25], "weight": [1.5, 2.0, 1.0], "group": ["x", "x", "y"]}
TITLED = [
    ["Poor children, by district"], [], [None, "ID", "Name", "Count", "weight"], [None, "01", "A", 3, 1.5],
    [None, 2, "B", 40, 2], [], [None, "c", "C", 5.5, 1],
]  # fmt: skip
LONG = (
    "id,variable,year,count\na,poor,2019,3\na,all,2019,30\nb,poor,2019,4\nb,all,2019,\nc,poor,2018,9\nc,all,2018,90\n"
)


def sheet(*rows):
    """A workbook of ids and counts."""
    return xlsx(data=[["id", "count"], *rows])


def same(counts):
    columns = counts.ids, counts.values, counts.weights, counts.groups
    return all(list(got) == wanted for got, wanted in zip(columns, COLUMNS.values(), strict=True))


# ---- every kind of file and frame gives the same counts ----

TSV = CSV.replace(",", "\t")
FILES = {
    "a.csv": CSV,
    "a.CSV": CSV,
    "a.tsv": TSV,
    "a.tab": TSV,
    "a.txt": CSV.replace(",", ";").replace("7.25", "7,25").replace("1.5", "1,5"),
    "pipes.txt": CSV.replace(",", "|"),
    "a.csv.gz": gzip.compress(CSV.encode()),
    "a.tsv.gz": gzip.compress(TSV.encode()),
    "a.parquet": parquet(COLUMNS),
    "a.parquet.gz": gzip.compress(parquet(COLUMNS)),
    "a.xlsx": xlsx(data=[list(COLUMNS), *zip(*COLUMNS.values(), strict=True)]),
    "crlf.csv": CSV.replace("\n", "\r\n"),
    "cr.csv": CSV.replace("\n", "\r"),
    "bom.csv": CSV.encode("utf-8-sig"),
    "utf16.csv": CSV.encode("utf-16"),
    "utf32.csv": CSV.encode("utf-32"),
    "latin.csv": CSV.encode("latin-1"),
    "open-end.csv": CSV.rstrip("\n"),
    "blank-end.csv": CSV + "\n \r\n\t\n\n",
    "quoted.csv": "\n".join(",".join(f'"{f}"' for f in line.split(",")) for line in CSV.splitlines()),
    "blanks.csv": "\n".join(",".join(f" {f} " for f in line.split(",")) for line in CSV.splitlines()),
    "more.csv": "\n".join(f"{i},{line},z" for i, line in enumerate(CSV.splitlines())),
    "cases.csv": CSV.replace("id,count,weight,group", "ID, Count ,Weight,GROUP"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_counts(tmp_path, name):
    path = put(tmp_path, name, FILES[name])
    assert same(read_counts(path, say=lambda note: None))
    assert same(read_counts(str(path), say=lambda note: None))
    leaves = read_leaves(path, labels=["group"], say=lambda note: None)
    assert (leaves.ids.to_list(), leaves.values.tolist(), leaves.labels["group"].to_list()) == (
        COLUMNS["id"], COLUMNS["count"], COLUMNS["group"],
    )  # fmt: skip
    data = path.read_bytes()
    given = "tsv" if name.startswith("a.t") and "\t" in str(FILES[name]) else "csv"
    if name.endswith(".csv") or given == "tsv":
        assert same(read_counts(put(tmp_path, "plain", data), format=given, say=lambda note: None))


class Handed:
    """A frame that only hands itself over, as Arrow says."""

    def __init__(self, held):
        self.__arrow_c_stream__ = held.__arrow_c_stream__


INDEXED = pd.DataFrame(COLUMNS).set_index("id")
FRAMES = {
    "polars": pl.DataFrame(COLUMNS),
    "lazy": pl.LazyFrame(COLUMNS),
    "arrow": pa.table(COLUMNS),
    "batch": pa.record_batch(COLUMNS),
    "arrow's interface": Handed(pa.table(COLUMNS)),
    "pandas": pd.DataFrame(COLUMNS),
    "pandas objects": pd.DataFrame(COLUMNS, dtype=object),
    "categories": pd.DataFrame(COLUMNS).astype({"id": "category", "group": "category"}),
    "pandas of Arrow": pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "an index called id": INDEXED,
    "an index with another name": INDEXED.rename_axis("lea"),
    "an index without a name": INDEXED.rename_axis(None),
    "levels of an index": pd.DataFrame(COLUMNS).set_index(["group", "id"]),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_data_frame_gives_the_same_counts(kind):
    assert same(read_counts(FRAMES[kind]))


def test_a_relation_of_duckdb_gives_the_same_counts():
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    rows = ", ".join(map(str, zip(*COLUMNS.values(), strict=True)))
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    assert same(read_counts(duckdb.sql(f"select * from (values {rows}) t({columns})")))


def test_an_index_gives_ids_where_no_column_does_and_a_series_brings_its_own():
    counts = read_counts(INDEXED.rename_axis("lea"), id="LEA")
    assert counts.ids == tuple(COLUMNS["id"])
    assert read_counts(INDEXED.reset_index().set_axis([7, 8, 9]), id="id").ids == tuple(COLUMNS["id"])
    assert read_counts(INDEXED, id=None).ids == ("1", "2", "3")
    left = pd.DataFrame({"count": [1, 20, 30]}).query("count > 5")
    assert read_counts(left).ids == ("1", "2")
    assert [read_counts(s).ids for s in (INDEXED["count"], pl.Series("n", [1, 2]))] == [counts.ids, ("1", "2")]
    assert read_counts(pd.Series([3, 4], ["007", "7"], name="poor")).ids == ("007", "7")
    for bad, says in (
        (pd.DataFrame({"count": [1]}), r"^data frame: the id column must be one of 'count', got 'id'"),
        (pd.Series([1, -2], name="poor"), r"^series 'poor', row 2, column 'count': every count must be at least 0"),
        (
            INDEXED.set_axis(["a", "b", "a"]),
            r"^data frame, rows 1 and 3, column 'id': ids must be unique, got 'a' twice",
        ),
    ):
        with pytest.raises(InputError, match=says):
            read_counts(bad)


def test_pandas_is_read_without_pyarrow():
    code = (
        "import sys; sys.modules['pyarrow'] = None\nimport pandas as pd\nfrom fairpost import read_counts\n"
        "frame = pd.DataFrame({'id': ['01', '02'], 'count': [3, 4], 'group': pd.Categorical(['x', 'y'])})\n"
        "print(*read_counts(frame).ids, *read_counts(frame.set_index('id')).groups)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == "01 02 x y\n"


def test_importing_the_package_loads_no_data_frames():
    code = "import sys, fairpost.io; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert not set(done.stdout.split()) & {
        "polars",
        "pandas",
        "pyarrow",
        "narwhals",
        "python_calamine",
        "numba",
        "scipy",
    }


def test_numbers_of_every_type_and_ids_that_are_numbers(tmp_path):
    for values in ([1, 2], np.array([1, 2], np.float16), pd.array([1, 2], "Int64"), [Decimal(1), Decimal(2)]):
        counts = read_counts(pd.DataFrame({"id": [7, 8], "count": values}))
        assert (counts.ids, counts.values.tolist()) == (("7", "8"), [1.0, 2.0])
    for ids in (pl.Series([7, 8], dtype=pl.UInt64), pl.Series([7.0, 8.0]), pl.Series(["7", "8"], dtype=pl.Categorical)):
        path = put(tmp_path, "ids.parquet", parquet({"id": ids, "count": pl.Series([1, 2], dtype=pl.Int8)}))
        assert read_counts(path).ids == ("7", "8")
        assert read_leaves(path, labels=["id"]).labels["id"].to_list() == ["7", "8"]
    assert read_counts(pl.DataFrame({"id": [0.5, 8.0], "count": [1, 2]})).ids == ("0.5", "8.0")
    assert read_counts(pd.DataFrame({0: ["a"], "count": [1]}), id="0").ids == ("a",)


def test_numbers_are_read_to_the_nearest_float(tmp_path):
    rng = random.Random(1)
    numbers = [repr(rng.random() * 10.0 ** rng.randint(-20, 12)) for _ in range(2000)]
    numbers += ["1e5", "+5", ".5", "5.", "-0", "900719925474099.3", "123456789012345.678901234567890"]
    path = put(tmp_path, "a.csv", "count\n" + "\n".join(numbers))
    assert read_counts(path, id=None).values.tolist() == [float(n) for n in numbers]


# ---- what is found, and what is said about it ----

BETWEEN = "stand between the fields (--delimiter says otherwise)"
THOUSANDS = "commas inside numbers separate thousands (--decimal , where they do not)"
ROW_3 = "the names of the columns are in row 3 (--header)"
FIRST = "the first of 3 sheets is read, 'first' (--sheet)"
SHEETS = xlsx(
    first=[["id", "count"], ["a", 1]], Second=[["id", "count"], ["b", 2]], **{"3": [["id", "count"], ["c", 3]]}
)
GAPS = "id,count,weight\na,1,1\nb,,1\nc,NA,1\n,4,1\ne,5,.\nf,-,1\ng,7,2\n"
LACKING = "5 of 7 rows are skipped, with entries missing (id in 1, count in 3, weight in 1): lines 3 ('b'), 4 ('c'), 5, 6 ('e'), 7 ('f')"
FOUND = [  # file, content, options, ids, counts, what is said
    ("a.csv", "id;count\n01;3\nb;40\n", {}, "01 b", [3, 40], [f"semicolons {BETWEEN}"]),
    ("a.csv", "id\tcount\n01\t3\n", {}, "01", [3], [f"tabs {BETWEEN}"]),
    ("a.txt", "id|count\n01|3\n", {}, "01", [3], [f"pipes {BETWEEN}"]),
    ("a.tsv", "id,count\n01,3\n", {}, "01", [3], [f"commas {BETWEEN}"]),
    ("a.csv", "id;count\na;1\n", {"format": "csv"}, "a", [1], [f"semicolons {BETWEEN}"]),
    ("a.tsv", "id|count\n01|3\n", {"delimiter": "pipe"}, "01", [3], []),
    ("a.csv", "id\tcount\n01\t3\n", {"delimiter": "\t"}, "01", [3], []),
    ("a.csv", 'id;count;"name, place"\na;1;"x, y"\nb;2;z\n', {}, "a b", [1, 2], [f"semicolons {BETWEEN}"]),
    ("a.csv", "id;count;name, place\na;1;x, y\nb;2;z\n", {}, "a b", [1, 2], [f"semicolons {BETWEEN}"]),
    ("a.csv", "id,n;id,m\na,1;b,2\n", {"count": "m", "delimiter": "comma"}, "a", [2], []),
    ("a.csv", 'id,count\na,"1,234"\n', {}, "a", [1234], [THOUSANDS]),
    ("a.csv", 'id,count\na,"1,234"\n', {"decimal": ","}, "a", [1.234], []),
    ("a.csv", 'id,count\na,"1,5"\n', {"decimal": ","}, "a", [1.5], []),
    ("a.csv", 'id,count\n"a ""b"", c","1,234"\n"d\ne"," 1,234,567.5 "\n', {}, None, [1234, 1234567.5], [THOUSANDS]),
    ("b.tsv", "id\tcount\na\t-1,234\n", {"decimal": "."}, "a", [-1234], []),
    ("b.tsv", "id\tcount\na\t-1,234\n", {"decimal": ","}, "a", [-1.234], []),
    (
        "a.csv",
        "id,count\nÉvry,2\n".encode("latin-1"),
        {},
        "Évry",
        [2],
        ["the text is not UTF-8 and was read as Latin-1"],
    ),
    (
        "a.csv",
        "id,count\n“Évry”,2\n".encode("cp1252"),
        {},
        "“Évry”",
        [2],
        ["the text is not UTF-8 and was read as Windows-1252"],
    ),
    ("a.csv", "ID, Count \na,1\n", {}, "a", [1], []),
    ("a.csv", "Id,COUNT,count\na,1,2\n", {}, "a", [2], []),
    ("a.csv", "lea,Poor\na,1\n", {"id": "LEA", "count": "pOOR"}, "a", [1], []),
    ("a.csv", "n,count\n3,4\n5,6\n", {"id": None}, "1 2", [4, 6], []),
    ("a.csv", "id,count,Weight\na,1,2\n", {}, "a", [1], ["the column 'Weight' gives the weights"]),
    ("a.xlsx", xlsx(data=TITLED), {}, "01 2 c", [3, 40, 5.5], [ROW_3]),
    ("a.xlsx", xlsx(data=TITLED), {"header": 3}, "01 2 c", [3, 40, 5.5], []),
    ("a.xlsx.gz", gzip.compress(xlsx(data=TITLED[2:])), {}, "01 2 c", [3, 40, 5.5], []),
    ("a.xlsx", SHEETS, {}, "a", [1], [FIRST]),
    *(("a.xlsx", SHEETS, {"sheet": s}, "b", [2], []) for s in ("Second", "second", "2", 2)),
    *(("a.xlsx", SHEETS, {"sheet": s}, i, [x], []) for s, i, x in (("3", "c", 3), (1, "a", 1))),
    ("a.csv", GAPS, {"drop_missing": True}, "a g", [1, 7], [LACKING]),
]


@pytest.mark.parametrize(("name", "content", "options", "ids", "values", "said"), FOUND)
def test_what_is_found_is_said(tmp_path, name, content, options, ids, values, said):
    notes, path = [], put(tmp_path, name, content)
    rows = read_rows(path, say=lambda note: notes.append(note.removeprefix(f"{path}: ")), **options)
    assert ids is None or " ".join(rows.ids) == ids
    assert rows.values.tolist() == values
    assert notes == said


def test_notes_go_to_the_log_by_default(tmp_path, caplog):
    path = put(tmp_path, "a.csv", "id;count\na;1,5\n")
    with caplog.at_level(logging.WARNING, logger="fairpost"):
        fp.read_counts(path)
    assert caplog.messages == [f"{path}: semicolons {BETWEEN}", f"{path}: numbers have decimal commas"]


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        ("1,234 0,5", [1.234, 0.5]),
        ("1,234 0,123", [1.234, 0.123]),
        ("1,234 1234,5", [1.234, 1234.5]),
        ("1,234 1.234.567", [1.234, 1234567.0]),
        ("1,234 1,5e3", [1.234, 1500.0]),
        ("1,234 12_345,678", [1.234, 12345.678]),
        ("1,234 12\u00a0345,6", [1.234, 12345.6]),
        ("1,234 1.5", [1234.0, 1.5]),
        ("1,234 1,234.5", [1234.0, 1234.5]),
        ("1,234 1,234,567", [1234.0, 1234567.0]),
        ("1,234 1e-3 2.5", [1234.0, 0.001, 2.5]),
        ("1.234 1.5", [1.234, 1.5]),
        ("1.234 0.001", [1.234, 0.001]),
        ("1.234 1,5", [1234.0, 1.5]),
        ("1,5 1.234,5 12", [1.5, 1234.5, 12.0]),
        ("12_345 7", [12345.0, 7.0]),
        ("12'345 -7", [12345.0, -7.0]),
        ("+1,5 ,5 5,", [1.5, 0.5, 5.0]),
    ],
)
def test_one_clear_entry_decides_the_decimal_mark_of_a_file(tmp_path, entries, values):
    text = "id;count\n" + "".join(f"{k};{e.replace('_', ' ')}\n" for k, e in enumerate(entries.split(" ")))
    for name, content in (("a.csv", text), ("a.tsv", text.replace(";", "\t"))):
        assert read_rows(put(tmp_path, name, content), say=lambda note: None).values.tolist() == values


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (["variable=poor"], "abc"),
        ("variable == 'poor'", "abc"),
        (['"variable" = "poor"', "year=2019"], "ab"),
        (["Variable=poor", "year != 2019"], "c"),
        (["variable=poor", "year<2019"], "c"),
        (["variable=poor", "year >= 2019"], "ab"),
        (["variable=poor", "count > 3"], "bc"),
        (["variable=poor", "count <= 4"], "ab"),
        (["variable=all", "count is not missing"], "ac"),
        (["`variable` != poor", "count IS NOT MISSING"], "ac"),
    ],
)
def test_rows_to_use(tmp_path, where, ids):
    path, frame = put(tmp_path, "long.csv", LONG), pl.read_csv(io.StringIO(LONG))
    for source in (path, put(tmp_path, "long.parquet", parquet(frame)), frame, frame.to_pandas()):
        assert "".join(read_rows(source, where=where).ids) == ids
        assert "".join(read_leaves(source, where=where).ids.to_list()) == ids


def test_missing_entries_of_frames():
    notes = []
    frame = pl.DataFrame({"id": ["a", "b", None, "d"], "count": [1.0, float("nan"), 3.0, None]})
    assert read_rows(frame, drop_missing=True, say=notes.append).ids == ("a",)
    skipped = (
        "data frame: 3 of 4 rows are skipped, with entries missing (id in 1, count in 2): rows 2 ('b'), 3, 4 ('d')"
    )
    assert notes == [skipped]
    many = pl.DataFrame({"id": [str(k) for k in range(40)], "count": [None] * 39 + [1]})
    read_rows(many, drop_missing=True, say=notes.append)
    assert notes[-1].endswith("10 ('9') and 29 more")


def test_columns_by_name_totals_and_columns_carried_along(tmp_path):
    path = put(
        tmp_path, "n.csv", "lea,n,g,w,t,b,who,more\n001,-3.5,x,2,10,9,Ash,u\n002,0,y,1,4,8,Elm,\n003,8,x,1,10,7,Fir,v\n"
    )
    named = {"id": "lea", "count": "n", "weight": "w", "group": "g", "base": "b", "label": "who", "keep": ["more"]}
    rows = read_rows(path, total="t", **named)
    assert (rows.ids, rows.groups, rows.names, len(rows)) == (
        ("001", "002", "003"),
        ("x", "y", "x"),
        ("Ash", "Elm", "Fir"),
        3,
    )
    assert (rows.values.tolist(), rows.totals.tolist(), rows.base.tolist()) == ([-3.5, 0, 8], [10, 4, 10], [9, 8, 7])
    assert (rows.kept, rows.weights.tolist()) == ({"more": ["u", None, "v"]}, [2, 1, 1])
    assert repr(rows) == "Rows(n=3, sum=4.5)"
    counts = read_counts(path, **named, where="n >= 0")
    assert (counts.names, counts.groups, counts.base.tolist()) == (("Elm", "Fir"), ("y", "x"), [8, 7])
    assert counts.kept == {"more": (None, "v")}
    bare = read_rows(pd.DataFrame({"id": ["a"], "count": [-1]}))
    assert (bare.groups, bare.totals, bare.weights.tolist()) == (None, None, [1.0])
    with pytest.raises(ValueError, match="read-only"):
        bare.values[0] = 2.0


def test_budgets_and_other_columns_follow_the_same_rows(tmp_path):
    path = put(tmp_path, "a.csv", "id,v,count,group,pot,last\na,x,1,n,5,7\na,y,9,n,6,8\nb,x,,n,5,1\nc,x,3,s,2,4\n")
    options = {"where": "v=x", "drop_missing": True, "say": lambda note: None}
    counts, budgets = read_group_budgets(path, "POT", **options)
    assert (counts.ids, counts.values.tolist(), budgets) == (("a", "c"), [1.0, 3.0], {"n": 5.0, "s": 2.0})
    assert read_column(path, "last", "last year's payments", **options).tolist() == [7.0, 4.0]
    apart = put(tmp_path, "b.csv", "group,budget\ns,20\nn,50\n")
    assert read_group_budgets(path, str(apart), **options)[1] == {"s": 20.0, "n": 50.0}
    for given, says in (
        (
            "no",
            f"budgets by group must be a column of {path} ('id', 'v', 'count', 'group', 'pot', 'last') or a file, got 'no'",
        ),
        (
            str(put(tmp_path, "c.csv", "group,money\ns,1\n")),
            "a file of budgets has the columns group and budget, got no budget",
        ),
        (
            str(put(tmp_path, "d.csv", "group,budget\ns,1\ns,2\n")),
            "lines 2 and 3, column 'group': groups must be unique, got 's'",
        ),
    ):
        with pytest.raises(InputError, match=re.escape(says)):
            read_group_budgets(path, given, **options)
    with pytest.raises(
        InputError, match=r"budgets by group need a column of groups \(name it with --group\), got none"
    ):
        read_group_budgets(put(tmp_path, "e.csv", "id,count,pot\na,1,2\n"), "pot")


def test_a_group_column_without_entries_is_absent_unless_it_is_named(tmp_path):
    path = put(tmp_path, "a.csv", "id,count,group\na,1,\nb,2, \n")
    assert read_counts(path).groups is None
    for content, named in (
        ("id,count,group\na,1,\nb,2, \n", {"group": "group"}),
        ("id,count,group\na,1,\nb,2,x\n", {}),
    ):
        with pytest.raises(CountsError, match="every group must be present"):
            read_counts(put(tmp_path, "a.csv", content), **named)


def test_labels_and_laws(tmp_path):
    found = read_labels({"id": ["a", "b"], "county": [1, 2]}, columns=["county"])
    assert (found.ids, found.labels, found.columns) == (("a", "b"), {"county": ("1", "2")}, ("id", "county"))
    assert read_programme("title1-basic").name == fp.Programme.named("title1-basic").name
    for given, says in (
        ("no.toml", "no.toml: there is no such file"),
        ("x", "a programme must be one of .* or a file that ends in .toml, got 'x'"),
        (str(put(tmp_path, "a.toml", b"\xff")), r"a.toml: could not be read as text \(UnicodeDecodeError\)"),
    ):
        with pytest.raises(InputError, match=says):
            read_programme(given)


# ---- what is refused ----

BAD = {
    "-5": "at least 0, got '-5'",
    "": "present, got a missing one",
    "  ": "present, got a missing one",
    '""': "present, got a missing one",
    "NaN": "finite, got 'NaN'",
    "inf": "finite, got 'inf'",
    "1e400": "finite, got '1e400'",
    "abc": "a number, got 'abc'",
    "NA": "a number, got 'NA'",
    '"1,23"': "a number, got '1,23'",
    '"1234,567"': "a number, got '1234,567'",
    "1_000": "a number, got '1_000'",
    "x" * 99: "a number, got '" + "x" * 59 + "...",
}
NO_ROW = ": there must be at least one row below the header, got none"
RAGGED = "every row must have as many fields as the header has (2), got"
QUOTES = "quotation marks must enclose a whole field, got one inside a field"
LISTED = "column must be one of 'id', 'count', got"
TOTALS = "the total must be the same in all of"
UNCLEAR = "must have a clear decimal mark, got '{}' (thousands or decimals? --decimal . or --decimal , says which mark stands before decimals)"
LAYOUT = ": every line must follow the SAIPE record layout..."
LINES = fixed(DISTRICTS).splitlines()
BOOK = ": must be an Excel workbook, as its name says, got a damaged or another file..."
PACKED = gzip.compress(CSV.encode() * 50)
ONE = parquet({"id": ["a"], "count": [1]})
S, N = {"format": "saipe"}, {"noisy": True}
TABS, TXT, XLSX, PARQUET, GZ = ({"file": f"a.{end}"} for end in ("tsv", "txt", "xlsx", "parquet", "csv.gz"))
REFUSED = [  # content, the error after the file's name (... stands for more), how it is read
    *(
        (
            f'id,count,name\na,1,"two\n\nlines"\n"b",{e},z\nc,-1,z\n',
            f", line 5, column 'count': every count must be {r}",
        )
        for e, r in BAD.items()
    ),
    (
        'id,count,name\r\na,1,"two\r\n\r\nlines"\r\n"b",-5,z\r\n',
        ", line 5, column 'count': every count must be at least 0, got '-5'",
    ),
    # other columns
    ("id,count\na,1e16\n", ", line 2, column 'count': every count must be from 0 to 2**53, got '1e16'"),
    ("id,count,weight\na,1,0\n", ", line 2, column 'weight': every weight must be above 0, got '0'"),
    ("id,count,weight\na,1,\n", ", line 2, column 'weight': every weight must be present, got a missing one"),
    ("id,count\na,1\n ,2\n", ", line 3, column 'id': every id must be present, got a missing one"),
    ('id,count\n"a\nb",1\nc,2\n"a\nb",1\n', r", lines 2 and 5, column 'id': ids must be unique, got 'a\nb' twice"),
    ("id,count,group\na,1,x\nb,2,\n", ", line 3, column 'group': every group must be present, got a missing one"),
    (
        "id,count,group,t\na,-1,x,3\nb,1,y,5\nc,1,x,4\n",
        f", line 4, column 't': {TOTALS} the group 'x', got 4.0 after 3.0",
        {"total": "t"},
    ),
    ("id,count,t\na,-1,3\nb,1,5\n", f", line 3, column 't': {TOTALS} the table, got 5.0 after 3.0", {"total": "t"}),
    ("id,count,t\na,1,-3\n", ", line 2, column 't': every total must be at least 0, got '-3'", {"total": "t"}),
    # columns that are not there
    *(
        ("id,count\na,1\n", f": the {o} {LISTED} 'w' (name it with --{o})", {o: "w"})
        for o in ("id", "count", "weight", "group")
    ),
    ("lea,count\na,1\n", ": the id column must be one of 'lea', 'count', got 'id' (name it with --id)"),
    (",".join(f"c{i}" for i in range(30)) + "\n" + "," * 29, "...'c19' and 10 more, got 'id'..."),
    (
        "id\tcount\na\t1\n",
        "...got 'id' (name it with --id); the header has no comma but a tab: give --format tsv",
        {"format": "csv"},
    ),
    ("id,count\na,1\n", "...the header has no tab but a comma: give --format csv", TABS | {"format": "tsv"}),
    (
        "leaid,poor_5_17,pop_5_17\na,1,2\n",
        "...got 'poor_5-17' (did you mean 'poor_5_17' or 'pop_5_17'? name it with --count)",
        {"id": "leaid", "count": "poor_5-17"},
    ),
    (LINES[0] + b"\nx\n", "...; the header has one column (a SAIPE file? --format saipe)", TXT),
    (
        parquet({"id": ["a", "b"], "count": [1, None]}),
        ", row 2, column 'count': every count must be present, got a missing one",
        PARQUET,
    ),
    # structure of text
    ("", ": the file must have a header and at least one row, got an empty file"),
    (" \r\n\n", ": the file must have a header and at least one row, got blanks only"),
    (b"\xef\xbb\xbf", ": the file must have a header and at least one row, got blanks only"),
    *((header, NO_ROW) for header in ("id,count", "id,count\n", "id,count\r\n\r\n")),
    ("id,count\na,1\nb\n", f", line 3: {RAGGED} 1"),
    ('id,count\n"a\n,\nb",1\nb,2,3\n', f", line 5: {RAGGED} 3"),
    ("id,count\na,1\n\nb,2\n", ", line 3: a table must have no blank line inside, got one"),
    ("id,co\runt\na,1\n", ": the count column must be one of 'id', 'co unt', got 'count'..."),
    ("id,count,count\na,1,2\n", ", line 1: column names must be unique, got 'count' twice"),
    ('id,count\na,1\nb"c,2\n', f", line 3: {QUOTES}"),
    ('id,count\na,1\n"b,2\nc,3\n', ", line 3: a quoted field must be closed, got one that is open to the end"),
    (b"id,count\na,1\n\0b,2\n", ", line 3: text must not hold the byte 0, got one (a binary file?)"),
    (
        "id,count\nÉvry,1\n".encode() + b"\xe9x,2\n",
        ", line 3: text must be UTF-8 or Latin-1 throughout, got the byte 0xe9 beside UTF-8 in line 2",
    ),
    (
        b"id,count\na,1\n\x81\xe9,2\n",
        ", line 3: text must be UTF-8 or Latin-1 (save the file as UTF-8), got the byte 0x81",
    ),
    (
        "id|n;id,n\na|1;b,2\n",
        ", line 1: it must be clear what stands between the fields, got comma and pipe (--delimiter comma|pipe; columns: 'id|n;id', 'n')",
        TXT | {"count": "n"},
    ),
    # decimal marks
    ("id;count\na;1,234\n", ", line 2, column 'count': every count " + UNCLEAR.format("1,234"), N),
    (
        "id;count;weight\na;1,5;1\nb;2;0.5\n",
        ", line 3, column 'weight': numbers must have one decimal mark in the whole table, "
        "got '0.5' beside '1,5' (line 2, column 'count'); --decimal . or --decimal ,",
    ),
    *(
        (f"id;count\na;{e}\n", f"...must be a number, got '{e}' (the decimal mark is a comma)", {"decimal": ","})
        for e in ("1.5", "1.23,4", "12.34", "1,5,6", "1,2.3", "a,5", "1..234")
    ),
    ('id,count\na,"1,5"\n', "...every count must be a number, got '1,5'"),
    # files that are not what their names say
    (CSV, ": must be Parquet, as its name says, got a file that begins with b'id,c'", PARQUET),
    (ONE[:-9], ": must be Parquet, as its name says, got a truncated file", PARQUET),
    (
        b"PAR1" + b"\xff" * 60 + b"\x20\0\0\0PAR1",
        ": must be Parquet, as its name says, got a damaged or another file...",
        PARQUET,
    ),
    (CSV, ": must be gzip data, as its name says, got a file that begins with b'id,c'", GZ),
    (PACKED[:40], ": the gzip data must be complete, got a truncated file", GZ),
    (PACKED[:-6] + bytes([PACKED[-6] ^ 1]) + PACKED[-5:], ": the gzip data must be whole, got a damaged file...", GZ),
    (PACKED, ": must be CSV text, got gzip data (its name should end in .gz)"),
    (ONE, ": must be CSV text, got Parquet"),
    (b"PK\x03\x04", ": must be TSV text, got a zip archive or an Excel workbook", TABS),
    (CSV, ": the name must end in .csv, .tsv, .tab, .txt, .parquet, .pq, .xlsx...", {"file": "a.dat"}),
    # workbooks
    (xlsx(data=[]), ": the sheet must have a header and at least one row, got blank cells only", XLSX),
    (sheet(), ": there must be at least one row below row 1 with the names, got none", XLSX),
    (sheet(["a", 1]), ": the header must be a row of the sheet (2 rows), got 9", XLSX | {"header": 9}),
    (
        xlsx(data=[*TITLED[:5], [], [None, "c", "C", -1, "x"]]),
        ", row 7, column 'Count': every count must be at least 0, got -1.0",
        XLSX,
    ),
    *(
        (
            SHEETS,
            f": the sheet must be one of 'first', 'Second', '3' (or its number, from 1), got '{s}'",
            XLSX | {"sheet": s},
        )
        for s in ("fourth", "4", 0)
    ),
    (CSV, BOOK, XLSX),
    (xlsx(data=TITLED)[:600], BOOK, XLSX),
    # rows to use, missing entries
    (LONG, ", line 5, column 'count': every count must be present, got a missing one", {"where": "variable = all"}),
    (LONG, "...got 'varable' (did you mean 'variable'?)", {"where": "varable=poor"}),
    (
        LONG,
        ": some row must fulfil --where 'variable=pour', got none of 6 (did you mean 'poor'? the column has 'poor', 'all')",
        {"where": "variable=pour"},
    ),
    ("id,count\na,\nb,x\n", ", line 3, column 'count': every count must be a number, got 'x'", {"drop_missing": True}),
    # SAIPE
    *(
        (b"\n".join([*LINES[:2], change.rstrip(), *LINES[3:]]), f", line 3{LAYOUT}", TXT | S)
        for change in (
            LINES[2][:60],
            LINES[2][:83] + b" " + LINES[2][83:],
            b"x" + LINES[2],
            fixed(DISTRICTS[2:3], width=65),
        )
    ),
    (CSV, f", line 1{LAYOUT}", TXT | S),
    (b"\r\n", ": there must be at least one school district, got none", TXT | S),
    (
        b"\n".join([b"", LINES[0], LINES[1][:107] + b"." + LINES[1][108:]]).replace(b"14934.", b"     ."),
        ", line 3, column 'poor_5_17': every count must be a number, got '.'",
        TXT | S,
    ),
    (
        b"\n".join([*LINES, LINES[0]]),
        ", lines 1 and 6, column 'leaid': ids must be unique, got '0100190' twice",
        TXT | S,
    ),
    (xls(DISTRICTS), "...got an old Excel workbook", TXT | S),
    (
        xls([*DISTRICTS, ("99", "x", "Nowhere", 1, 1, 1)]),
        ", row 9: every district must have a state code of 2 digits and an id of 5, got '99' and 'x'",
        {"file": "a.xls"} | S,
    ),
    (fixed(DISTRICTS), BOOK, {"file": "a.xls"} | S),
    (xlsx(a=[["x"]]), ": one of the first rows must name the SAIPE columns...", XLSX | S),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: str(row[1])[:60])
def test_what_is_refused_is_named_with_its_place(tmp_path, row):
    content, said, options = row[0], row[1], dict(row[2]) if len(row) == 3 else {}
    path = put(tmp_path, options.pop("file", "a.csv"), content)
    read = read_rows if options.pop("noisy", False) or "total" in options else read_counts
    with pytest.raises(InputError) as caught:
        read(path, say=lambda note: None, **options)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith(str(path))
    text = text.removeprefix(str(path))
    core = said.removeprefix("...").removesuffix("...") if said not in BAD_ENDS else said
    assert core in text
    assert said.startswith("...") or text.startswith(core)
    assert said in BAD_ENDS or said.endswith("...") or text.endswith(core)
    assert isinstance(caught.value, CountsError) == bool(re.match(r", (line|row)s? [0-9 and]+, column '", text))


BAD_ENDS = [f", line 5, column 'count': every count must be {BAD['x' * 99]}"]
"""The error itself ends in three dots."""


def test_bad_rows_of_data_frames():
    for frame in (pd.DataFrame, pl.DataFrame, pa.table):
        for columns, says in (
            ({"id": ["a", "b"], "count": [1, -1]}, r"^data frame, row 2, column 'count': .* at least 0, got -1$"),
            (
                {"id": ["a", "b", "a"], "count": [1, 1, 1]},
                r"^data frame, rows 1 and 3, column 'id': ids must be unique",
            ),
            ({"id": ["a", None], "count": [1, 1]}, "row 2, column 'id': every id must be present"),
            ({"id": ["a"], "count": [float("nan")]}, "row 1, column 'count': every count must be finite, got nan"),
            ({"id": ["a"], "count": [True]}, "row 1, column 'count': every count must be a number, got '?True"),
            ({"id": ["a"], "count": ["1,234"]}, "row 1, column 'count': every count must have a clear decimal mark"),
            ({"id": [], "count": []}, "^data frame: there must be at least one row, got none$"),
        ):
            with pytest.raises(InputError, match=says):
                read_counts(frame(columns))
    for source, says in (
        (pl.DataFrame({"id": [[1]], "count": [1]}), "column 'id': labels must be text or numbers, got List"),
        (
            pd.DataFrame([["a", 1, 2]], columns=["id", "count", "count"]),
            "column names must be unique, got 'count' twice",
        ),
        (5, r"`source` must be a path or a data frame .* got int"),
        ({"id": ["a"]}, r"`source` must be a path or a data frame .* got dict"),
    ):
        with pytest.raises(InputError, match=says):
            read_counts(source)
    assert read_counts(pl.DataFrame({"id": ["a", "b"], "count": ["1,234", "1,5"]}), say=print).total == 2.734
    assert read_counts(pd.DataFrame({"id": ["a"], "count": ["1,234"]}), decimal=".").total == 1234.0


def test_nothing_that_is_given_is_left_aside(tmp_path):
    text, book = (put(tmp_path, "a.csv", "id,count\na,1\n"), put(tmp_path, "a.xlsx", sheet(["a", 1])))
    columns, frame = put(tmp_path, "a.parquet", ONE), pl.DataFrame({"id": ["a"], "count": [1]})
    saipe = {"format": "saipe"}
    for source, name, options in (
        (text, "sheet", {"sheet": "x"}), (text, "header", {"header": 2}), (book, "delimiter", {"delimiter": "tab"}),
        (columns, "delimiter", {"delimiter": "tab"}), (columns, "sheet", {"sheet": 1}), (frame, "sheet", {"sheet": 1}),
        (frame, "format", {"format": "csv"}), (text, "decimal", saipe | {"decimal": "."}), (book, "sheet", saipe | {"sheet": 1}),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=f"`{name}` is for "):
            read_rows(source, **options)
    for name, given in (("header", 0), ("header", True), ("decimal", "x"), ("delimiter", "x"), ("format", "xml")):
        with pytest.raises(ParameterError, match=f"`{name}` must be"):
            read_rows(text, **{name: given})
    with pytest.raises(ParameterError, match="a hierarchy is read from CSV, TSV, Excel or Parquet, got a SAIPE file"):
        read_leaves(text, format="saipe")
    with pytest.raises(TypeError, match="nonsense"):
        read_rows(text, nonsense=1)


def test_conditions_that_cannot_be(tmp_path):
    path = put(tmp_path, "long.csv", LONG)
    for text in ("variable", "= poor", "", "is missing", "a ~ b"):
        with pytest.raises(ParameterError, match=re.escape(f"COLUMN is not missing, got {text!r}")):
            read_rows(path, where=text)
    with pytest.raises(ParameterError, match="`where` compares numbers in 'year < x', got 'x'"):
        read_rows(path, where="year < x")


def test_places_that_cannot_be_read(tmp_path):
    (tmp_path / "d.csv").mkdir()
    for path, said in {
        tmp_path / "no.csv": "no such file",
        tmp_path / "no" / "no.csv": "no such file",
        put(tmp_path, "file", "x") / "a.csv": "cannot be read: Not a directory",
        tmp_path / "d.csv": "must be a file, got a directory",
    }.items():
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: {said}$"):
            read_counts(path)
    with pytest.raises(InputError, match=r"cannot be read: .*null") as caught:
        read_counts("a\0b\n.csv")
    assert len(str(caught.value).splitlines()) == 1
