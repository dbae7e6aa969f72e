"""Attack the command line with seeded nonsense: `make attack`, or python tools/attack.py --seconds 60 --seed 1.

Five attackers in turn. Four work in this process so that thousands of cases fit into a minute: damaged text files, damaged binary
files (Parquet, xlsx, xls), option sets, damaged checkpoints. A violation is anything but a documented exit code: an exception,
several lines of error, a warning, a left-over or half-written output, 30 s. The fifth sends signals to commands of their own at
random times: a Ctrl-C must end with 130 within five seconds, without a traceback; after a SIGKILL the same command goes on from its
checkpoint to the same bits and leaves nothing lying about. One table at the end; the exit code is 1 where there is a violation.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

GOOD = b"id,count,weight,group\na,3,1,n\nb,40,2,n\nc,9,1,s\nd,500,1.5,s\ne,0,1,n\n"
PARTS = [
    b"\x00",
    b"\xff\xfe",
    b'"',
    b"\r",
    b"\n",
    b",",
    b"\t",
    b"1e309",
    b"-0",
    b"nan",
    b"1e16",
    b"=1",
    b"\x1b[2J",
    "é".encode(),
    b" ",
]
NUMBERS = ["0", "-1", "1", "0.1", "1e-300", "1e300", "nan", "inf", "1e16", "3", "x", ""]
CODES = {0, 2, 3, 130}


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes cut, flipped, doubled, or with something strange put in."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(found) + 1)
        how = rng.randrange(4)
        if how == 0:
            del found[place : place + rng.randint(1, 20)]
        elif how == 1 and place < len(found):
            found[place] ^= 1 << rng.randrange(8)
        elif how == 2:
            found[place:place] = rng.choice(PARTS)
        else:
            found[place:place] = found[: rng.randrange(len(found) + 1)]
    return bytes(found)


def run(words: list[str]) -> tuple[int | str, str]:
    """The exit code (or the exception) and what was said on stderr."""
    from fairpost.cli import main

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        try:
            main(args=words)
            code: int | str = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        except BaseException:
            code = traceback.format_exc()
    return code, err.getvalue()


def text_file(rng: random.Random) -> list[str]:
    """A damaged CSV, plain or gzipped."""
    data, name = damaged(rng, GOOD), "in.csv"
    if rng.random() < 0.3:
        data, name = gzip.compress(data), "in.csv.gz"
        data = damaged(rng, data) if rng.random() < 0.5 else data
    Path(name).write_bytes(data)
    verb = rng.choice([["audit", "--epsilon", "1", "--postprocess", "nonnegative"], ["project"], ["allocate"]])
    return [verb[0], name, *verb[1:], "--json", "out.json"]


def binary_file(rng: random.Random) -> list[str]:
    """A damaged Parquet file or workbook; a workbook also inside its compressed parts."""
    import polars as pl

    kind, held = rng.choice(["parquet", "xlsx", "xls"]), io.BytesIO()
    if kind == "parquet":
        pl.read_csv(GOOD).write_parquet(held)
        data = damaged(rng, held.getvalue())
    elif kind == "xlsx":
        data = _workbook(rng)
    else:
        import xlwt

        book = xlwt.Workbook()
        sheet = book.add_sheet("counts")
        for i, line in enumerate(GOOD.decode().splitlines()):
            for j, cell in enumerate(line.split(",")):
                sheet.write(i, j, cell if i == 0 or j in (0, 3) else float(cell))
        book.save(held)
        data = damaged(rng, held.getvalue())
    Path(f"in.{kind}").write_bytes(data)
    return ["project", f"in.{kind}", "--json", "out.json"]


TYPES = b"""<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml"
ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>"""
RELS = b"""<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship
Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/%s" Target="%s"/></Relationships>"""
BOOK = b"""<?xml version="1.0"?><workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"
xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="counts" sheetId="1" r:id="r1"/>
</sheets></workbook>"""
CELLS = b"""<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>%s</sheetData>
</worksheet>"""


def _workbook(rng: random.Random) -> bytes:
    """A small workbook with one of its parts damaged, or the whole file."""
    rows = []
    for i, line in enumerate(GOOD.decode().splitlines(), 1):
        cells = "".join(
            f'<c r="{"ABCD"[j]}{i}" t="inlineStr"><is><t>{cell}</t></is></c>'
            if i == 1 or j in (0, 3)
            else f'<c r="{"ABCD"[j]}{i}"><v>{cell}</v></c>'
            for j, cell in enumerate(line.split(","))
        )
        rows.append(f'<row r="{i}">{cells}</row>')
    parts = {
        "[Content_Types].xml": TYPES,
        "_rels/.rels": RELS % (b"officeDocument", b"xl/workbook.xml"),
        "xl/workbook.xml": BOOK,
        "xl/_rels/workbook.xml.rels": RELS % (b"worksheet", b"worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": CELLS % "".join(rows).encode(),
    }
    if rng.random() < 0.7:
        name = rng.choice(list(parts))
        parts[name] = damaged(rng, parts[name])
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return damaged(rng, held.getvalue()) if rng.random() < 0.3 else held.getvalue()


def options(rng: random.Random) -> list[str]:
    """Numbers that are none, too large, too small; outputs that clash."""
    Path("in.csv").write_bytes(GOOD)
    words = ["audit", "in.csv", "--postprocess", rng.choice(["nonnegative", "sum", "none", "baseline"])]
    words += ["--mechanism", rng.choice(["laplace", "gaussian", "discrete-laplace", "discrete-gaussian"])]
    words += rng.choice([[], ["--epsilon", "0.5"], ["--rho", "0.1"], ["--epsilon", "1", "--delta", "1e-6"]])
    for name in rng.sample(
        ["epsilon", "scale", "sigma", "rho", "delta", "sensitivity", "total", "budget", "rtol"], rng.randint(0, 3)
    ):
        words += [f"--{name}", rng.choice(NUMBERS)]
    return [*words, *rng.choice([[], ["--by-group"], ["--json", "in.csv"], ["--csv", "no/x"]]), "--json", "out.json"]


def checkpoint(rng: random.Random) -> list[str]:
    """A damaged state of a short simulation."""
    words = ["audit", "in.csv", "--epsilon", "1", "--postprocess", "nonnegative", "--method", "monte-carlo"]
    words += ["--runs", "8192", "--checkpoint", "state", "--json", "out.json"]
    Path("in.csv").write_bytes(GOOD)
    if not Path("../state").exists():
        run(words)
        os.replace("state", "../state")
        Path("out.json").unlink()
    Path("state").write_bytes(damaged(rng, Path("../state").read_bytes()))
    return words


def signals(seed: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Ctrl-C and SIGKILL at random times, in processes of their own."""
    rng, counts, bad = random.Random(f"{seed} signals"), Counter[str](), []
    Path("in.csv").write_bytes(GOOD)
    words = [
        "audit",
        "in.csv",
        "--epsilon",
        "1",
        "--postprocess",
        "simplex",
        "--method",
        "monte-carlo",
        "--threads",
        "1",
    ]
    words += ["--runs", "300000", "--json", "out.json", "--checkpoint", "state", "--force"]
    command = [sys.executable, "-m", "fairpost", *words]
    subprocess.run(command, check=True, capture_output=True)
    whole = json.loads(Path("out.json").read_text())["results"]
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for path in (Path("out.json"), Path("state")):
            path.unlink(missing_ok=True)
        number = rng.choice([signal.SIGINT, signal.SIGKILL])
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(rng.uniform(0.1, 3.0))
        process.send_signal(number)
        start = time.monotonic()
        said = process.communicate(timeout=120)[1]
        late, code = time.monotonic() - start > 5.0, process.returncode
        counts["cases"] += 1
        counts[f"exit {code}"] += 1
        wrong = ""
        if "Traceback" in said and "fairpost" in said:
            wrong = f"a traceback: {said!r}"
        elif number == signal.SIGINT and (late or code not in (0, 130, -signal.SIGINT)):
            wrong = f"Ctrl-C ended with {code}" + (" after more than 5 s" if late else "")
        elif number == signal.SIGKILL:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            same = done.returncode == 0 and json.loads(Path("out.json").read_text())["results"] == whole
            left = {p.name for p in Path().iterdir()} - {"in.csv", "out.json", "state"}
            wrong = f"after SIGKILL: {done.stderr!r}" if not same else f"left behind: {left}" if left else ""
        if wrong:
            counts["violations"] += 1
            bad.append(f"signals, case {counts['cases']}: {number.name}: {wrong}")
    return counts, bad


ATTACKS = {"text files": text_file, "binary files": binary_file, "options": options, "checkpoints": checkpoint}


def judged(code: int | str, said: str) -> str:
    """What is wrong with an end, "" where nothing is."""
    if code not in CODES:
        return f"ended with {code}"
    if code in (2, 3) and said.count("\n") != 1:
        return f"{said.count(chr(10))} lines of error: {said!r}"
    if "Warning" in said:
        return f"a warning: {said!r}"
    whole = Path("out.json").exists() and Path("out.json").read_text().endswith("}\n")
    if code == 0 and not whole:
        return "no whole output"
    left = [p.name for p in Path().iterdir() if p.name.startswith(".fairpost-") or (code != 0 and p.name == "out.json")]
    return f"left behind: {left}" if left else ""


def attack(name: str, seed: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Cases of one attacker until its time is over."""
    rng, counts, bad = random.Random(f"{seed} {name}"), Counter[str](), []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for path in Path().iterdir():
            path.unlink()
        words = ATTACKS[name](rng)
        start = time.monotonic()
        code, said = run(words)
        wrong = judged(code, said) or ("more than 30 s" if time.monotonic() - start > 30.0 else "")
        counts["cases"] += 1
        counts[f"exit {code}" if isinstance(code, int) else "exception"] += 1
        if wrong:
            counts["violations"] += 1
            bad.append(f"{name}, case {counts['cases']}: {' '.join(words)}: {wrong}")
    return counts, bad


def main() -> None:
    """Every attacker for its part of the time, and one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    violations: list[str] = []
    print(f"{'attack':14} {'cases':>7} {'exit 0':>7} {'exit 2':>7} {'exit 3':>7} {'violations':>11}")
    for name in [*ATTACKS, "signals"]:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "work").mkdir()
            os.chdir(Path(folder, "work"))
            part = given.seconds / (len(ATTACKS) + 1)
            counts, bad = signals(given.seed, part) if name == "signals" else attack(name, given.seed, part)
            os.chdir("/")
        violations += bad
        cells = [counts[k] for k in ("cases", "exit 0", "exit 2", "exit 3")]
        print(f"{name:14} {''.join(f'{c:8}' for c in cells)[1:]} {counts['violations']:11}")
    for line in violations[:20]:
        print(line)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
