"""The attackers of `attack`: each makes one case in the working folder, from a seeded generator."""

from __future__ import annotations

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
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

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


TREE = b"id,count,area\n" + b"".join(
    b"%02d%02d,%d,d%d\n" % (s, b, 7 * b * s, b % 2) for s in range(3) for b in range(5)
)
"""Two levels by prefixes of the id."""
LAWS = [
    "",
    "name = 1",
    '[[eligible]]\nwhen = "count > 3"\n',
    "\x00",
    'name = "x"\nshare = "none"\n[eligibility]\nall = [{ count = ">= 5" }]\n',
]
"""Texts that are no laws, or hardly."""
LEFT_OUT = {"--cluster", "--device", "--threads", "--draws", "--self-test", "--help"}
"""Options that wait for somebody else, or for minutes."""
USUAL = {
    "audit": [[], ["--epsilon", "1"], ["--scale", "3", "--postprocess", "simplex"], ["--sigma", "2", "--mechanism", "gaussian"],
              ["--levels", "state:2,block:4", "--level-sigma", "0,1.5", "--mechanism", "discrete-gaussian"]],
    "plan": [["--max-loss", "3"], ["--max-alpha", "2", "--epsilons", "0.1", "1", "--points", "3"], []],
    "sweep": [["--epsilons", "0.1", "1", "--points", "3"], ["--epsilons", "1", "2"], []],
    "check": [[], ["--scale", "3"]],
    "project": [[], ["--round"], ["--total", "500"]],
    "allocate": [[], ["--budget", "100"], ["--epsilon", "1", "--replicates", "3"]],
    "release": [["--ledger", "none.db"], ["--dry-run"], []],
}  # fmt: skip
"""What a command usually gets."""
STRANGE = ["", " ", "-", "--", "\x1b[2J", "é", "a" * 300, "=1", "../x", "nan", "1e309", "0x10", "1_000", "١"]
PATHS = ["out2.json", "in.csv", "no/x", "law.toml", ".", "/dev/null", "out.json"]
WORDS = ["id", "count", "weight", "group", "n", "area", "law.toml", "title1-basic", "count > 3", "state:2,block:4", "0,1", "1/2,1/2",
         "x", "nothing", "1", "0.5", "state", "a,b"]  # fmt: skip


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
            code = traceback.format_exc(limit=-3)
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


def option_set(rng: random.Random) -> list[str]:
    """Any command that reads a table, with up to six of its options: values of the right kind, of another, or none."""
    Path("in.csv").write_bytes(GOOD)
    Path("tree.csv").write_bytes(TREE)
    Path("law.toml").write_text(rng.choice(LAWS), encoding="utf-8")
    verb = rng.choice(["audit", "audit", "plan", "sweep", "check", "project", "allocate", "release"])
    known = {p.opts[-1]: p for p in commands()[verb].params if p.opts[-1].startswith("--")}
    names = [name for name in known if name not in LEFT_OUT]
    file = "tree.csv" if rng.random() < 0.2 else "in.csv"
    words = [verb, file, *([file] if verb == "check" else []), *rng.choice(USUAL[verb])]
    for name in rng.sample(names, rng.randint(0, 6)):
        words += [name, *given(rng, known[name])]
    return [*words, *([] if verb == "release" or "--json" in words else ["--json", "out.json"])]


def given(rng: random.Random, option: Any) -> list[str]:
    """Values of an option: mostly of its kind."""
    if option.is_flag:
        return []
    kind = type(option.type).__name__
    if rng.random() < 0.1:
        return [rng.choice(STRANGE)] * option.nargs
    if kind == "Choice":
        return [rng.choice(list(option.type.choices))]
    if kind in ("FloatParamType", "IntParamType", "IntRange"):
        return [rng.choice(NUMBERS if rng.random() < 0.4 else ["0.5", "1", "2", "7"]) for _ in range(option.nargs)]
    if kind == "Path":
        return [rng.choice(PATHS)]
    return [rng.choice(WORDS) for _ in range(option.nargs)]


@cache
def commands() -> dict[str, Any]:
    """Every command by its name."""
    from click import Context

    from fairpost.cli import main

    context = Context(main)
    return {name: main.get_command(context, name) for name in main.list_commands(context)}


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


def signals(rng: random.Random, which: signal.Signals) -> tuple[int | str, str]:
    """A process that gets SIGINT or SIGKILL at a random time; the next run must end well and leave nothing behind."""
    Path("in.xlsx").write_bytes(whole_book())
    words = [sys.executable, "-m", "fairpost", "project", "in.xlsx", "--json", "out.json", "--force"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, env=cold_or_warm(rng), **quiet)  # type: ignore[call-overload]
    time.sleep(rng.uniform(0, 3))
    process.send_signal(which)
    try:
        said = process.communicate(timeout=30)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"still there 30 s after {which.name}", ""
    if which == signal.SIGINT and process.returncode not in (0, 130, -signal.SIGINT):
        return f"ended with {process.returncode} after SIGINT: {said!r}", ""
    if Path("out.json").exists() and not Path("out.json").read_text(encoding="utf-8").endswith("}\n"):
        return f"a half-written output after {which.name}", ""
    done = subprocess.run(words, check=False, timeout=60, **quiet)  # type: ignore[call-overload]
    return done.returncode, done.stderr if done.returncode else ""


def resumed(rng: random.Random, which: signal.Signals) -> tuple[int | str, str]:
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
    process = subprocess.Popen(
        command, env=cold_or_warm(rng), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
    )
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
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=120)
    results = (
        [json.loads(Path(p).read_text(encoding="utf-8"))["results"] for p in ("out.json", "../whole")]
        if done.returncode == 0
        else []
    )
    left = {p.name for p in Path().iterdir()} - {"in.csv", "out.json", "state"}
    if left or (results and results[0] != results[1]):
        return f"left behind: {left}" if left else "other bits after resuming", ""
    return done.returncode, done.stderr if done.returncode else ""


def cold_or_warm(rng: random.Random) -> dict[str, str]:
    """The environment, half the time with an empty store of kernels."""
    return os.environ | ({"FAIRPOST_CACHE": tempfile.mkdtemp(dir="..")} if rng.random() < 0.5 else {})


def whole_book() -> bytes:
    """The workbook as it should be."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as parts:
        for name, text in BOOK.items():
            parts.writestr(name, text)
    return out.getvalue()
