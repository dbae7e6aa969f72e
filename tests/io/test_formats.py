"""Files as people have them: other separators and decimal marks, Latin-1, workbooks, long tables, missing entries."""

import gzip
import io
import logging
import re
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpost as fp
from fairpost.errors import CountsError, InputError, ParameterError
from fairpost.io import read_rows
from fairpost.io.reading import Reading
from fairpost.io.tables import read_column, read_group_budgets, read_leaves
from fairpost.io.text import separator_of
from support.workbooks import xlsx


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def notes():
    """What a reader says, and the list that it says it to."""
    return []


def read(folder, content, name="a.csv", notes=None, **options):
    """Ids and values; the notes without the file's name."""
    path = put(folder, name, content)
    said = [] if notes is None else notes
    rows = read_rows(path, say=lambda note: said.append(note.removeprefix(f"{path}: ")), **options)
    return list(rows.ids), rows.values.tolist()


def refused(folder, content, name="a.csv", kind=InputError, **options):
    """The error's text after the file's name."""
    path = put(folder, name, content)
    with pytest.raises(kind) as caught:
        read_rows(path, say=lambda note: None, **options)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text.removeprefix(str(path))


# ---- separators ----

BETWEEN = "stand between the fields (--delimiter says otherwise)"


@pytest.mark.parametrize(("mark", "word"), [(";", "semicolon"), ("\t", "tab"), ("|", "pipe"), (",", "comma")])
def test_separators_are_found_and_said(tmp_path, mark, word):
    text = f"id{mark}count\n01{mark}3\nb{mark}40\n"
    for name, usual in (("a.csv", ","), ("a.tsv", "\t"), ("a.txt", None)):
        said = []
        assert read(tmp_path, text, name, said) == (["01", "b"], [3.0, 40.0])
        assert said == ([] if mark == usual else [f"{word}s {BETWEEN}"])
        said = []
        assert read(tmp_path, text, name, said, delimiter=word) == (["01", "b"], [3.0, 40.0])
        assert said == []


def test_the_last_record_of_a_short_file_is_looked_at_too():
    """It alone tells: by commas it would have a field more than the header."""
    assert separator_of("t", b"id,a;b\n1,2;3,4", "txt", [], Reading()) == ";"
    with pytest.raises(InputError, match="it must be clear what stands between the fields"):
        separator_of("t", b"id,a;b\n1,2;3", "txt", [], Reading())


def test_a_separator_inside_a_field_does_not_mislead(tmp_path, notes):
    text = 'id;count;"name, place"\na;1;"x, y"\nb;2;z\n'
    assert read(tmp_path, text, notes=notes) == (["a", "b"], [1.0, 2.0])
    plain = "id;count;name, place\na;1;x, y\nb;2;z\n"
    assert read(tmp_path, plain, notes=notes) == (["a", "b"], [1.0, 2.0])
    both = "id,n;id,m\na,1;b,2\n"
    assert read(tmp_path, both, count="m", delimiter="comma") == (["a"], [2.0])
    assert refused(tmp_path, "id,count|x\na,1|2\n", "a.csv", count="count").startswith(
        ": the count column must be one of"
    )
    unclear = "id|n;id,n\na|1;b,2\n"
    assert refused(tmp_path, unclear, "a.txt", count="n") == (
        ", line 1: it must be clear what stands between the fields, got comma and pipe "
        "(--delimiter comma|pipe; columns: 'id|n;id', 'n')"
    )


def test_a_given_format_is_taken_at_its_word(tmp_path, notes):
    assert read(tmp_path, "id;count\na;1\n", notes=notes, format="csv") == (["a"], [1.0])
    assert notes == [f"semicolons {BETWEEN}"]
    assert "must be one of 'id\\tcount', got 'id'" in refused(tmp_path, "id\tcount\na\t1\n", format="csv")
    assert "must be one of 'id;count', got 'id'" in refused(tmp_path, "id;count\na;1\n", format="tsv")
    assert refused(
        tmp_path, "01 00190 Alabaster City School District      34669     6710      649\nx\n", "a.txt"
    ).endswith("; the header has one column (a SAIPE file? --format saipe)")


# ---- decimal marks ----


def test_decimal_commas_are_found_and_said(tmp_path, notes):
    text = "id;count;weight\na;1,5;0,25\nb;1.234,5;2\nc;12;1,125\nd;1.234;10\n"
    path = put(tmp_path, "a.csv", text)
    rows = read_rows(path, say=notes.append)
    assert rows.values.tolist() == [1.5, 1234.5, 12.0, 1234.0]
    assert rows.weights.tolist() == [0.25, 2.0, 1.125, 10.0]
    assert notes[1:] == [f"{path}: numbers have decimal commas"]


UNCLEAR = [
    ("id;count\na;1,234\n", "1,234"),
    ("id;count\na;12\nb;-123,456\n", "-123,456"),
    ("id;count\na;1.234\n", "1.234"),
    ("id\tcount\na\t1,234\n", "1,234"),
]


@pytest.mark.parametrize(("text", "entry"), UNCLEAR)
def test_what_can_be_read_in_two_ways_is_refused_by_name(tmp_path, text, entry):
    said = refused(tmp_path, text, kind=CountsError)
    line = text[: text.index(entry)].count("\n") + 1
    assert said == (
        f", line {line}, column 'count': every count must have a clear decimal mark, got '{entry}' "
        "(thousands or decimals? --decimal . or --decimal , says which mark stands before decimals)"
    )
    for mark in ".,":
        other = "," if mark == "." else "."
        wanted = float(entry.replace(other, "").replace(mark, "."))
        assert read(tmp_path, text, decimal=mark)[1][-1] == wanted


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        (["1,234", "0,5"], [1.234, 0.5]),
        (["1,234", "0,123"], [1.234, 0.123]),
        (["1,234", "1234,5"], [1.234, 1234.5]),
        (["1,234", "1.234.567"], [1.234, 1234567.0]),
        (["1,234", "1,5e3"], [1.234, 1500.0]),
        (["1,234", "12 345,678"], [1.234, 12345.678]),
        (["1,234", "12\u00a0345,6"], [1.234, 12345.6]),
        (["1,234", "1.5"], [1234.0, 1.5]),
        (["1,234", "1,234.5"], [1234.0, 1234.5]),
        (["1,234", "1,234,567"], [1234.0, 1234567.0]),
        (["1,234", "1e-3", "2.5"], [1234.0, 0.001, 2.5]),
        (["1.234", "1.5"], [1.234, 1.5]),
        (["1.234", "0.001"], [1.234, 0.001]),
        (["1.234", "1,5"], [1234.0, 1.5]),
        (["12 345", "7"], [12345.0, 7.0]),
        (["12'345", "-7"], [12345.0, -7.0]),
        (["+1,5", ",5", "5,"], [1.5, 0.5, 5.0]),
    ],
)
def test_one_clear_entry_decides_for_the_file(tmp_path, entries, values):
    text = "id;count\n" + "".join(f"{k};{e}\n" for k, e in enumerate(entries))
    assert read(tmp_path, text)[1] == values
    assert read(tmp_path, text.replace(";", "\t"), "a.tsv")[1] == values


def test_two_marks_in_one_file_are_refused(tmp_path):
    said = refused(tmp_path, "id;count;weight\na;1,5;1\nb;2;0.5\n", kind=CountsError)
    assert said == (
        ", line 3, column 'weight': numbers must have one decimal mark in the whole table, "
        "got '0.5' beside '1,5' (line 2, column 'count'); --decimal . or --decimal ,"
    )


@pytest.mark.parametrize("entry", ["1.5", "1.23,4", "12.34", "1,5,6", "1,2.3", "a,5", "1..234"])
def test_with_a_decimal_comma_other_numbers_are_none(tmp_path, entry):
    said = refused(tmp_path, f"id;count\na;{entry}\n", kind=CountsError, decimal=",")
    assert said.endswith(f"must be a number, got '{entry}' (the decimal mark is a comma)")


def test_commas_between_fields_leave_the_point_for_decimals(tmp_path, notes):
    assert read(tmp_path, 'id,count\na,"1,234"\n', notes=notes) == (["a"], [1234.0])
    assert notes == ["commas inside numbers separate thousands (--decimal , where they do not)"]
    assert read(tmp_path, 'id,count\na,"1,234"\n', decimal=",") == (["a"], [1.234])
    assert read(tmp_path, 'id,count\na,"1,5"\n', decimal=",") == (["a"], [1.5])
    assert "every count must be a number, got '1,5'" in refused(tmp_path, 'id,count\na,"1,5"\n')


def test_text_in_data_frames_is_no_guess_either():
    with pytest.raises(
        CountsError, match="row 1, column 'count': every count must have a clear decimal mark, got '1,234'"
    ):
        fp.read_counts(pd.DataFrame({"id": ["a"], "count": ["1,234"]}))
    assert fp.read_counts(pd.DataFrame({"id": ["a"], "count": ["1,234"]}), decimal=".").total == 1234.0
    assert fp.read_counts(pl.DataFrame({"id": ["a", "b"], "count": ["1,234", "1,5"]}), say=print).total == 2.734


@settings(max_examples=100)
@given(st.lists(st.floats(-1e9, 1e9).map(lambda x: round(x, 4)), min_size=1, max_size=6))
def test_numbers_written_in_german_are_read_back(numbers):
    german = [f"{x:,.4f}".translate(str.maketrans(",.", ".,")) for x in numbers]
    frame = pl.DataFrame({"id": [str(k) for k in range(len(german))], "count": german})
    assert read_rows(frame, say=lambda note: None).values.tolist() == [x + 0.0 for x in numbers]


# ---- encodings ----


def test_latin_1_is_read_and_said(tmp_path, notes):
    assert read(tmp_path, "id,count\nKönigs Wüste,1\nÉvry,2\n".encode("latin-1"), notes=notes) == (
        ["Königs Wüste", "Évry"],
        [1.0, 2.0],
    )
    assert notes == ["the text is not UTF-8 and was read as Latin-1"]
    assert read(tmp_path, "id,count\n“Évry”,2\n".encode("cp1252"), notes=notes)[0] == ["“Évry”"]
    assert notes[1:] == ["the text is not UTF-8 and was read as Windows-1252"]
    assert read(tmp_path, gzip.compress("id;count\nÉvry;2\n".encode("latin-1")), "a.csv.gz")[0] == ["Évry"]


def test_a_damaged_utf_8_file_is_not_taken_for_latin_1(tmp_path):
    broken = "id,count\nÉvry,1\n".encode() + b"\xe9x,2\n"
    assert refused(tmp_path, broken) == (
        ", line 3: text must be UTF-8 or Latin-1 throughout, got the byte 0xe9 beside UTF-8 in line 2"
    )
    assert refused(tmp_path, b"id,count\na,1\n\x81\xe9,2\n") == (
        ", line 3: text must be UTF-8 or Latin-1 (save the file as UTF-8), got the byte 0x81"
    )


def test_the_notes_go_to_the_log_by_default(tmp_path, caplog):
    path = put(tmp_path, "a.csv", "id;count\na;1,5\n")
    with caplog.at_level(logging.WARNING, logger="fairpost"):
        fp.read_counts(path)
    assert [r.getMessage() for r in caplog.records] == [
        f"{path}: semicolons {BETWEEN}",
        f"{path}: numbers have decimal commas",
    ]


# ---- names of columns ----


def test_case_does_not_matter_and_exact_names_win(tmp_path, notes):
    assert read(tmp_path, "ID, Count \na,1\n") == (["a"], [1.0])
    assert read(tmp_path, "Id,COUNT,count\na,1,2\n") == (["a"], [2.0])
    assert read(tmp_path, "lea,Poor\na,1\n", id="LEA", count="pOOR") == (["a"], [1.0])
    said = refused(tmp_path, "id,Count,COUNT\na,1,2\n")
    assert said == ": a column must be named as it is spelled, got 'count' for 'Count', 'COUNT'"
    path = put(tmp_path, "a.csv", "id,count,Weight,GROUP\na,1,2,x\n")
    rows = read_rows(path, say=notes.append)
    assert (rows.weights.tolist(), rows.groups) == ([2.0], ("x",))
    assert notes == [f"{path}: the column 'Weight' gives the weights", f"{path}: the column 'GROUP' gives the groups"]
    for frame in (pl.DataFrame({"ID": ["a"], "Count": [1]}), pd.DataFrame({"ID": ["a"], "Count": [1]})):
        assert read_rows(frame).values.tolist() == [1.0]
    pl.DataFrame({"ID": ["a"], "Count": [1]}).write_parquet(tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet").ids == ("a",)


def test_a_name_that_is_nearly_there_is_offered(tmp_path):
    text = "leaid,poor_5_17,pop_5_17\na,1,2\n"
    assert refused(tmp_path, text, id="leaid", count="poor_5-17").endswith(
        "got 'poor_5-17' (did you mean 'poor_5_17' or 'pop_5_17'? name it with --count)"
    )
    assert refused(tmp_path, text, id="xyz", count="poor_5_17").endswith("got 'xyz' (name it with --id)")


# ---- workbooks ----

TITLED = [
    ["Poor children, by district"], [], [None, "ID", "Name", "Count", "weight"], [None, "01", "A", 3, 1.5],
    [None, 2, "B", 40, 2], [], [None, "c", "C", 5.5, 1],
]  # fmt: skip


def test_a_workbook_is_read_from_the_row_that_has_the_names(tmp_path, notes):
    path = put(tmp_path, "a.xlsx", xlsx(data=TITLED))
    rows = read_rows(path, say=notes.append)
    assert (rows.ids, rows.values.tolist(), rows.weights.tolist()) == (("01", "2", "c"), [3, 40, 5.5], [1.5, 2, 1])
    assert notes == [f"{path}: the names of the columns are in row 3 (--header)"]
    assert read_rows(path, header=3, say=notes.append).ids == rows.ids
    assert len(notes) == 1
    assert read_rows(put(tmp_path, "a.xlsx.gz", gzip.compress(xlsx(data=TITLED[2:])))).ids == rows.ids


def test_rows_of_a_workbook_keep_their_numbers(tmp_path):
    bad = [*TITLED[:5], [], [None, "c", "C", -1, "x"]]
    path = put(tmp_path, "a.xlsx", xlsx(data=bad))
    with pytest.raises(CountsError, match=r"a\.xlsx, row 7, column 'Count': every count must be at least 0, got -1"):
        fp.read_counts(path, say=lambda note: None)


def test_the_sheet_by_name_number_and_default(tmp_path, notes):
    book = xlsx(
        first=[["id", "count"], ["a", 1]], Second=[["id", "count"], ["b", 2]], **{"3": [["id", "count"], ["c", 3]]}
    )
    path = put(tmp_path, "a.xlsx", book)
    assert read_rows(path, say=notes.append).ids == ("a",)
    assert notes == [f"{path}: the first of 3 sheets is read, 'first' (--sheet)"]
    for sheet, wanted in (("Second", "b"), ("second", "b"), ("2", "b"), (2, "b"), ("3", "c"), (1, "a")):
        assert read_rows(path, sheet=sheet).ids == (wanted,)
    for sheet in ("fourth", "4", 0):
        with pytest.raises(InputError, match=rf"the sheet must be one of 'first', 'Second', '3' .*, got '{sheet}'"):
            read_rows(path, sheet=sheet)


def test_workbooks_that_lack_something(tmp_path):
    def bad(rows, **options):
        return refused(tmp_path, xlsx(data=rows), "a.xlsx", **options)

    assert bad([]) == ": the sheet must have a header and at least one row, got blank cells only"
    assert bad([["id", "count"]]) == ": there must be at least one row below row 1 with the names, got none"
    assert bad([["id", "count", "count"], ["a", 1, 1]]) == ", row 1: column names must be unique, got 'count' twice"
    assert "the count column must be one of 'id', 'n', got 'count'" in bad([["id", "n"], ["a", 1]])
    assert bad([["id", "count"], ["a", 1]], header=9).endswith("must be a row of the sheet (2 rows), got 9")
    assert ", row 2, column 'count': every count must be present" in bad(
        [["id", "count"], ["a", None]], kind=CountsError
    )
    assert "must be a number, got 'n/a'" in bad([["id", "count"], ["a", "n/a"], ["b", 2]], kind=CountsError)
    assert refused(tmp_path, b"id,count\na,1\n", "a.xlsx").startswith(": must be an Excel workbook, as its name says")
    assert bad([["id", "count"], ["a", "1,234"]], kind=CountsError).startswith(
        ", row 2, column 'count': every count must have a clear decimal mark"
    )


def test_nothing_that_is_given_is_left_aside(tmp_path):
    csv, book = (
        put(tmp_path, "a.csv", "id,count\na,1\n"),
        put(tmp_path, "a.xlsx", xlsx(data=[["id", "count"], ["a", 1]])),
    )
    pl.DataFrame({"id": ["a"], "count": [1]}).write_parquet(tmp_path / "a.parquet")
    for source, options in (
        (csv, {"sheet": "x"}), (csv, {"header": 2}), (book, {"delimiter": "tab"}),
        (tmp_path / "a.parquet", {"delimiter": "tab"}), (tmp_path / "a.parquet", {"sheet": 1}),
        (pl.DataFrame({"id": ["a"], "count": [1]}), {"sheet": 1}),
    ):  # fmt: skip
        (name,) = options
        with pytest.raises(ParameterError, match=f"`{name}` is for "):
            read_rows(source, **options)
    for options in ({"header": 0}, {"header": True}, {"decimal": "x"}, {"delimiter": "x"}):
        (name,) = options
        with pytest.raises(ParameterError, match=f"`{name}` must be"):
            read_rows(csv, **options)
    with pytest.raises(TypeError, match="nonsense"):
        read_rows(csv, nonsense=1)


# ---- where ----

LONG = (
    "id,variable,year,count\na,poor,2019,3\na,all,2019,30\nb,poor,2019,4\nb,all,2019,\nc,poor,2018,9\nc,all,2018,90\n"
)


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
    path = put(tmp_path, "long.csv", LONG)
    assert "".join(read_rows(path, where=where).ids) == ids
    frame = pl.read_csv(path)
    assert "".join(read_rows(frame, where=where).ids) == ids
    assert "".join(read_rows(frame.to_pandas(), where=where).ids) == ids
    frame.write_parquet(tmp_path / "long.parquet")
    assert "".join(read_rows(tmp_path / "long.parquet", where=where).ids) == ids
    leaves = read_leaves(path, where=where)
    assert "".join(leaves.ids.to_list()) == ids


def test_rows_that_are_left_keep_their_lines(tmp_path):
    said = refused(tmp_path, LONG, where="variable = all", kind=CountsError)
    assert said == ", line 5, column 'count': every count must be present, got a missing one"


def test_conditions_that_cannot_be(tmp_path):
    for text in ("variable", "= poor", "", "is missing", "a ~ b"):
        with pytest.raises(ParameterError, match=re.escape(f"COLUMN is not missing, got {text!r}")):
            read_rows(put(tmp_path, "long.csv", LONG), where=text)
    assert refused(tmp_path, LONG, where="varable=poor").endswith("got 'varable' (did you mean 'variable'?)")
    assert refused(tmp_path, LONG, where="variable=pour") == (
        ": some row must fulfil --where 'variable=pour', got none of 6 (did you mean 'poor'? the column has 'poor', 'all')"
    )
    with pytest.raises(ParameterError, match="`where` compares numbers in 'year < x', got 'x'"):
        read_rows(put(tmp_path, "long.csv", LONG), where="year < x")
    assert "__import__" in refused(tmp_path, LONG, where="variable=__import__('os')")


def test_budgets_and_other_columns_follow_the_same_rows(tmp_path):
    text = "id,v,count,group,pot,last\na,x,1,n,5,7\na,y,9,n,6,8\nb,x,,n,5,1\nc,x,3,s,2,4\n"
    path = put(tmp_path, "a.csv", text)
    options = {"where": "v=x", "drop_missing": True, "say": lambda note: None}
    counts, budgets = read_group_budgets(path, "POT", **options)
    assert (list(counts.ids), counts.values.tolist(), budgets) == (["a", "c"], [1.0, 3.0], {"n": 5.0, "s": 2.0})
    assert read_column(path, "last", "last year's payments", **options).tolist() == [7.0, 4.0]


# ---- missing entries ----


def test_missing_entries_are_skipped_named_and_counted(tmp_path, notes):
    text = "id,count,weight\na,1,1\nb,,1\nc,NA,1\n,4,1\ne,5,.\nf,-,1\ng,7,2\n"
    path = put(tmp_path, "a.csv", text)
    rows = read_rows(path, drop_missing=True, say=notes.append)
    assert (rows.ids, rows.values.tolist()) == (("a", "g"), [1.0, 7.0])
    assert notes == [
        f"{path}: 5 of 7 rows are skipped, with entries missing (id in 1, count in 3, weight in 1): "
        "lines 3 ('b'), 4 ('c'), 5, 6 ('e'), 7 ('f')"
    ]
    assert (
        refused(tmp_path, text, kind=CountsError)
        == ", line 3, column 'count': every count must be present, got a missing one"
    )


def test_what_is_no_number_is_not_missing(tmp_path):
    assert "line 3, column 'count': every count must be a number, got 'x'" in refused(
        tmp_path, "id,count\na,\nb,x\n", kind=CountsError, drop_missing=True
    )
    assert refused(tmp_path, "id,count\na,\n", drop_missing=True) == (
        ": some row must have all it needs (id, count), got none of 1"
    )


def test_missing_entries_of_frames(notes):
    frame = pl.DataFrame({"id": ["a", "b", None, "d"], "count": [1.0, float("nan"), 3.0, None]})
    assert read_rows(frame, drop_missing=True, say=notes.append).ids == ("a",)
    assert notes == [
        "data frame: 3 of 4 rows are skipped, with entries missing (id in 1, count in 2): rows 2 ('b'), 3, 4 ('d')"
    ]
    many = pl.DataFrame({"id": [str(k) for k in range(40)], "count": [None] * 39 + [1]})
    read_rows(many, drop_missing=True, say=notes.append)
    assert notes[-1].endswith("10 ('9') and 29 more")


# ---- any bytes ----


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from("id;count,|\t\n\"'1.2 -eNA\u00a0é"), max_size=60),
    st.sampled_from(["utf-8", "latin-1"]),
    st.sampled_from([{}, {"drop_missing": True}, {"where": "count is not missing"}, {"decimal": ","}]),
)
def test_any_text_is_read_or_refused_in_one_line(tmp_path_factory, text, encoding, options):
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(("id;count\n" + text).encode(encoding))
    try:
        rows = read_rows(path, say=lambda note: None, **options)
    except InputError as error:
        said = str(error)
    else:
        said = "read"
        assert len(rows.ids) == len(set(rows.ids)) == rows.values.size > 0
        assert np.isfinite(rows.values).all()
    assert len(said.splitlines()) == 1


def test_damaged_workbooks_are_refused_in_one_line(tmp_path):
    good = bytearray(xlsx(data=TITLED))
    rng = np.random.default_rng(7)
    for _ in range(6):
        data = bytearray(good)
        for place in rng.integers(4, len(data), rng.choice([1, 8, 60])):
            data[place] = rng.integers(256)
        path = put(tmp_path, "a.xlsx", bytes(data))
        said = f"{path}: read"
        try:
            read_rows(path, say=lambda note: None)
        except InputError as error:
            said = str(error)
        assert said.startswith(str(path))
        assert len(said.splitlines()) == 1
    assert refused(tmp_path, bytes(good[: len(good) // 2]), "a.xlsx").startswith(": must be an Excel workbook")


def test_a_sheet_wider_than_the_limit_is_refused_before_it_is_laid_out(tmp_path):
    rows = io.BytesIO(xlsx(data=[["id", "count"], ["a", 1]]))
    out = io.BytesIO()
    with zipfile.ZipFile(rows) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.infolist():
            body = old.read(part)
            if part.filename.endswith("sheet1.xml"):
                far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
                body = body.replace(b"</sheetData>", far)
            name = part.filename.replace("worksheets/", "elsewhere/")  # a sheet may lie anywhere in the archive
            new.writestr(name, body.replace(b"worksheets/", b"elsewhere/"))
    assert "a sheet must have at most 10,000,000 cells" in refused(tmp_path, out.getvalue(), "a.xlsx")
