"""Attack the command line with seeded nonsense: `make attack`, or python tools/attack.py --seconds 60 --seed 1.

Seven attackers in turn: damaged text files, damaged Parquet files, damaged workbooks, option sets and damaged checkpoints in
this process, so that thousands of cases fit into a minute, and signals sent to processes of their own at random times, to readers
and to simulations: a Ctrl-C ends with 130 within five seconds, and after a SIGKILL the same command goes on to the same bits. A
violation is anything but a documented exit code: an exception, several lines of error, a warning, a left-over or
half-written output, more than 30 seconds. One table at the end; the exit code is 1 where there is a violation.
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
READING = [
    [], [], ["--drop-missing"], ["--decimal", ","], ["--decimal", "."], ["--delimiter", "semicolon"], ["--where", "count > 3"],
    ["--where", "group = n"], ["--where", "id is not missing"], ["--where", "\x1b[2J"], ["--format", "txt"], ["--id", "ID"],
]  # fmt: skip
"""Options of reading."""
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml"
ROWS = [("id", "count"), *((f"e{k}", 7.5 * k - 4) for k in range(12))]
CELLS = "".join(
    f'<row r="{r}">'
    + "".join(
        f'<c r="{"AB"[c]}{r}" t="inlineStr"><is><t>{v}</t></is></c>'
        if isinstance(v, str)
        else f'<c r="{"AB"[c]}{r}"><v>{v}</v></c>'
        for c, v in enumerate(row)
    )
    + "</row>"
    for r, row in enumerate(ROWS, 1)
)
BOOK = {
    "[Content_Types].xml": f'<Types xmlns="{TYPES}"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{SHEET}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{SHEET}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{LINKS}"><Relationship Id="r1" Type="{OFFICE}/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{LINKS}"><Relationship Id="r1" Type="{OFFICE}/worksheet" '
    'Target="worksheets/sheet1.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets><sheet name="data" sheetId="1" r:id="r1"/>'
    "</sheets></workbook>",
    "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{CELLS}</sheetData></worksheet>',
}
"""The parts of a small workbook."""


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
    """A damaged CSV with any separator, in any encoding, plain or gzipped."""
    good = GOOD.replace(b",", rng.choice([b",", b";", b"\t", b"|"]))
    if rng.random() < 0.3:
        good = good.replace(b"1.5", rng.choice([b"1,5", b"1,234", b"1.234", b"NA", b""])).replace(b"d", b"\xe9")
    data, name = damaged(rng, good), rng.choice(["in.csv", "in.txt", "in.tsv"])
    if rng.random() < 0.3:
        data, name = gzip.compress(data), f"{name}.gz"
        data = damaged(rng, data) if rng.random() < 0.5 else data
    Path(name).write_bytes(data)
    verb = rng.choice([["audit", "--epsilon", "1", "--postprocess", "nonnegative"], ["project"], ["allocate"]])
    return [verb[0], name, *verb[1:], *rng.choice(READING), "--json", "out.json"]


def binary_file(rng: random.Random) -> list[str]:
    """A damaged Parquet file."""
    import polars as pl

    held = io.BytesIO()
    pl.read_csv(GOOD).write_parquet(held)
    Path("in.parquet").write_bytes(damaged(rng, held.getvalue()))
    return ["project", "in.parquet", "--json", "out.json"]


def workbook(rng: random.Random) -> list[str]:
    """A workbook with damaged bytes, or with damaged parts in a whole archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as parts:
        for name, text in BOOK.items():
            part = text.encode()
            if rng.random() < 0.3:
                part = damaged(rng, part)
            if rng.random() < 0.05:
                part = part.replace(
                    b"</sheetData>", b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
                )
            parts.writestr(name, part)
    data = out.getvalue()
    Path("in.xlsx").write_bytes(damaged(rng, data) if rng.random() < 0.3 else data)
    more = rng.choice([[], ["--sheet", rng.choice(["1", "2", "data", "x", ""])], ["--header", rng.choice(NUMBERS)]])
    return ["project", "in.xlsx", *more, *rng.choice(READING), "--json", "out.json"]


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


def signals(rng: random.Random) -> tuple[int | str, str]:
    """A process that gets SIGINT or SIGKILL at a random time; the next run must end well and leave nothing behind."""
    Path("in.xlsx").write_bytes(whole_book())
    words = [sys.executable, "-m", "fairpost", "project", "in.xlsx", "--json", "out.json", "--force"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, **quiet)  # type: ignore[call-overload]
    time.sleep(rng.uniform(0, 3))
    which = rng.choice([signal.SIGINT, signal.SIGKILL])
    process.send_signal(which)
    try:
        said = process.communicate(timeout=30)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"still there 30 s after {which.name}", ""
    if which == signal.SIGINT and process.returncode not in (0, 130):
        return f"ended with {process.returncode} after SIGINT: {said!r}", ""
    if Path("out.json").exists() and not Path("out.json").read_text().endswith("}\n"):
        return f"a half-written output after {which.name}", ""
    done = subprocess.run(words, check=False, timeout=60, **quiet)  # type: ignore[call-overload]
    return done.returncode, done.stderr if done.returncode else ""


def resumed(rng: random.Random) -> tuple[int | str, str]:
    """A simulation that gets a signal; it ends in time without a traceback, and goes on from its checkpoint to the same bits."""
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
    if not Path("../whole").exists():
        subprocess.run(command, check=True, capture_output=True)
        os.replace("out.json", "../whole")
        Path("state").unlink()
    which = rng.choice([signal.SIGINT, signal.SIGKILL])
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(rng.uniform(0.1, 3.0))
    process.send_signal(which)
    begun = time.monotonic()
    said = process.communicate(timeout=120)[1]
    # Python itself ends by the signal where it comes before our first line, or inside code that C runs: shells say 130 too
    if which == signal.SIGINT and process.returncode not in (0, 130, -signal.SIGINT):
        return f"ended with {process.returncode} after SIGINT: {said!r}", ""
    if "Traceback" in said and "fairpost" in said:
        return f"a traceback after {which.name}: {said!r}", ""
    if time.monotonic() - begun > 5.0:
        return f"{time.monotonic() - begun:.1f} s after {which.name}", ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    results = (
        [json.loads(Path(p).read_text())["results"] for p in ("out.json", "../whole")] if done.returncode == 0 else []
    )
    left = {p.name for p in Path().iterdir()} - {"in.csv", "out.json", "state"}
    if left or (results and results[0] != results[1]):
        return f"left behind: {left}" if left else "other bits after resuming", ""
    return done.returncode, done.stderr if done.returncode else ""


def whole_book() -> bytes:
    """The workbook as it should be."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as parts:
        for name, text in BOOK.items():
            parts.writestr(name, text)
    return out.getvalue()


ATTACKS = {
    "text files": text_file,
    "binary files": binary_file,
    "workbooks": workbook,
    "options": options,
    "checkpoints": checkpoint,
    "signals": signals,
    "resumed": resumed,
}
LONGEST = 30.0
"""Seconds that a case may take."""


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
        begun = time.monotonic()
        made = ATTACKS[name](rng)
        words, (code, said) = (["a signal"], made) if isinstance(made, tuple) else (made, run(made))
        wrong = judged(code, said)
        took = time.monotonic() - begun
        if not wrong and took > (3 if name in ("signals", "resumed") else 1) * LONGEST:  # three processes and a wait
            wrong = f"took {took:.0f} s"
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
    for name in ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "work").mkdir()
            os.chdir(Path(folder, "work"))
            counts, bad = attack(name, given.seed, given.seconds / len(ATTACKS))
            os.chdir("/")
        violations += bad
        cells = [counts[k] for k in ("cases", "exit 0", "exit 2", "exit 3")]
        print(f"{name:14} {''.join(f'{c:8}' for c in cells)[1:]} {counts['violations']:11}")
    for line in violations[:20]:
        print(line)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
