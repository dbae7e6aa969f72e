"""The Census Bureau's files of school districts, in every layout."""

import csv
import gzip

import numpy as np

from fairpost.io import read_counts
from support.data import path_or_skip
from support.tables import DISTRICTS, fixed, put, xls


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


def test_saipe_workbook(tmp_path):
    check_saipe(read_counts(put(tmp_path, "a.xls", xls(DISTRICTS)), format="saipe"))
    check_saipe(read_counts(put(tmp_path, "b.xls.gz", gzip.compress(xls(DISTRICTS, True))), format="saipe"))


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
        "ussd19.xls": xls(districts),
    }.items():
        counts = read_counts(put(tmp_path, name, content), format="saipe")
        assert counts.ids == plain.ids
        assert counts.groups == plain.groups
        assert np.array_equal(counts.values, plain.values)
