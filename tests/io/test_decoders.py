"""Decoders are held to their limits: far cells, time, memory, gzip, and what is no regular file."""

import gzip
import os
import sys
import time
import zipfile
from pathlib import Path

import pytest

from fairpost.errors import InputError
from fairpost.io import read_counts
from support.counts_csv import COUNTS, refused
from support.tables import put
from support.workbooks import xlsx

source = sys.modules["fairpost.io.source"]
"""Its limits are made small here; what is asked is a reader or a command."""


def far_cell(path, ref="XFD1048576", folder="worksheets"):
    """A small workbook with one cell far away; a sheet may lie anywhere in the archive."""
    sheet = f'<worksheet><sheetData><row r="{ref[3:]}"><c r="{ref}"><v>1</v></c></row></sheetData></worksheet>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("[Content_Types].xml", "<Types/>")
        book.writestr("xl/workbook.xml", '<workbook><sheets><sheet name="a" sheetId="1"/></sheets></workbook>')
        book.writestr(f"xl/{folder}/sheet1.xml", sheet)


@pytest.mark.parametrize("folder", ["worksheets", "elsewhere"])
@pytest.mark.parametrize("format", ["saipe", "xlsx"])
def test_a_far_cell_is_refused_before_the_sheet_is_laid_out(cli, tmp_path, folder, format):
    far_cell(tmp_path / "far.xlsx", folder=folder)
    started = time.perf_counter()
    assert refused(
        cli("audit", "far.xlsx", "--format", format, "--epsilon", 1),
        "at most 10,000,000 cells, got 1,048,576 rows of 16,384",
    )
    assert time.perf_counter() - started < 10


def test_a_decoder_is_held_to_its_time_and_memory(tmp_path, monkeypatch):
    fake, real = tmp_path / "decode.py", Path(source.__file__).with_name("decode.py").read_text()
    monkeypatch.setattr(source, "__file__", str(tmp_path / "apart.py"))
    monkeypatch.setattr(source, "SECONDS", 0.5)
    fake.write_text("import time\ntime.sleep(30)\n")
    book = put(tmp_path, "book.xlsx", xlsx(data=[["id", "count"], ["a", 1]]))
    with pytest.raises(InputError, match=r"book.xlsx: must be read within 0.5 s, got a file that takes longer"):
        read_counts(book)
    monkeypatch.setattr(source, "SECONDS", 30.0)
    fake.write_text(real.replace('"workbook": workbook}', '"workbook": lambda *_: ({}, bytes(1 << 34))}'))
    with pytest.raises(InputError, match=r"book.xlsx: must be decoded in 8,589,934,592 bytes of memory, and is not"):
        read_counts(book)


def test_gzip_has_a_limit(cli, monkeypatch):
    monkeypatch.setattr(source, "FREE", 1 << 16)
    Path("bomb.csv.gz").write_bytes(gzip.compress(b"id,count\na," + b"1" * (1 << 22)))
    assert refused(cli("audit", "bomb.csv.gz", "--epsilon", 1), "bomb.csv.gz: gzip data must unpack to at most")
    Path("good.csv.gz").write_bytes(gzip.compress(COUNTS.encode()))
    assert cli("audit", "good.csv.gz", "--epsilon", 1, "--postprocess", "nonnegative")[0] == 0
    monkeypatch.setattr(source, "MOST", 10)
    assert refused(
        cli("audit", "counts.csv", "--epsilon", 1), "counts.csv: an input must have at most 10 bytes, got more"
    )


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero", "folder"])
def test_an_input_is_a_regular_file(cli, kind):
    name = kind
    if kind == "fifo":
        os.mkfifo("fifo.csv")
        name = "fifo.csv"
    elif kind == "folder":
        Path("folder.csv").mkdir()
        name = "folder.csv"
    said = "must be a file, got a directory" if kind == "folder" else "must be a regular file, got a pipe or a device"
    assert refused(cli("audit", name, "--format", "csv", "--epsilon", 1), said)


def test_a_file_that_kills_its_decoder_is_an_error(tmp_path, monkeypatch):
    """A native decoder that asks for 2^61 bytes ends its process; here it is stood in for by one that ends itself."""
    (tmp_path / "decode.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(source, "__file__", str(tmp_path / "apart.py"))
    with pytest.raises(
        InputError, match=r"a.parquet: must be Parquet, as its name says, got a damaged or another file$"
    ):
        read_counts(put(tmp_path, "a.parquet", b"PAR1" + b"\xff" * 60 + b"\x20\0\0\0PAR1"))


def test_no_permission(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(source, "_regular", refuse)
    with pytest.raises(InputError, match=r"a.csv: no permission to read the file$"):
        read_counts(tmp_path / "a.csv")
