"""Careless changes, drawn blind over the lines of code, one at a time, each shown to the tests that mirror its file.

    python tools/mutants.py --seed 5 --count 30 src/fairpost/cli src/fairpost/io/saipe.py

A line is drawn first, then one change of it. A change is caught where a test fails; where pytest ends in another way (2 to 5: nothing was
collected, say), is ended by a signal, or a test runs out of time, it is not judged. What survives is printed with its line.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in", "is": "is not", "is not": "is",
         "and": "or", "or": "and", "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "**": "*", "%": "*", "|": "&", "&": "|"}  # fmt: skip
OPERATOR = re.compile(r"not\s+in\b|is\s+not\b|\bin\b|\bis\b|\band\b|\bor\b|<<|>>|<=|>=|==|!=|//|\*\*|[<>+\-*/%|&]")
TWINS = {"min": "max", "argmin": "argmax", "floor": "ceil", "any": "all", "low": "high", "first": "last"}
TWINS |= {b: a for a, b in TWINS.items()}
WORDS = {"help", "metavar", "hint", "cache", "nogil", "error_model"}  # for people, or a way to compile
BESIDE = {"counts": "problems", "partition": "problems", "bounds": "engines", "whole": "io", "documents": "io"}
"""Tests of what has no folder of its own; all else is in `results`."""
Change = tuple[int, int, int, str]  # the line, the stretch of text, what comes in its place


def changes(source: str) -> Iterator[Change]:
    """Every change of a file."""
    starts, lines = [0], source.splitlines(keepends=True)
    for line in lines:
        starts.append(starts[-1] + len(line))

    def span(node) -> tuple[int, int]:
        ends = ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        a, b = (starts[line - 1] + len(lines[line - 1].encode()[:column].decode()) for line, column in ends)
        return a, b

    def visit(node: ast.AST) -> Iterator[Change]:
        said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        typed = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if said or typed or isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr):
            return
        if isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp):
            first, second, *_ = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
            found = OPERATOR.search(source, span(first)[1], span(second)[0])
            new = found and SWAPS.get(" ".join(found[0].split()))
            yield from [(first.end_lineno, *found.span(), new)] if new else []
        elif isinstance(node, ast.UnaryOp):
            a = span(node)[0]
            yield node.lineno, a, a + (3 if isinstance(node.op, ast.Not) else 1), ""
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            a, b = span(node.test)
            yield node.test.lineno, a, b, f"(not ({source[a:b]}))"
        elif isinstance(node, ast.Constant) and isinstance(value := node.value, bool | int | float | str):
            other = not value if isinstance(value, bool) else f"{value}x" if isinstance(value, str) else value + 1
            yield node.lineno, *span(node), repr(other)
        elif isinstance(node, ast.Name | ast.Attribute):
            name, end = ast.unparse(node).rpartition(".")[2], span(node)[1]
            yield from [(node.lineno, end - len(name), end, TWINS[name])] if name in TWINS else []
        elif isinstance(node, ast.Call) and node.keywords and node.keywords[-1].arg not in WORDS:
            before = [node.func, *node.args, *node.keywords][-2]
            if before is not node.func and span(before)[1] < span(node.keywords[-1])[0]:
                yield node.keywords[-1].lineno, span(before)[1], span(node.keywords[-1])[1], ""
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node.lineno, *span(node.value), "None"
        elif isinstance(node, ast.Expr | ast.AugAssign):
            yield node.lineno, *span(node), "pass"
        for name, field in ast.iter_fields(node):
            for child in field if isinstance(field, list) else [field]:
                quiet = name in ("annotation", "returns", "decorator_list") or getattr(child, "arg", None) in WORDS
                if isinstance(child, ast.AST) and not quiet:
                    yield from visit(child)

    yield from visit(ast.parse(source))


def drawn(files: list[Path], count: int, seed: int) -> list[tuple[Path, Change]]:
    """Lines that can be changed, each at most once, and a change of each."""
    by_line = defaultdict(list)
    for file in files:
        for change in changes(file.read_text(encoding="utf-8")):
            by_line[file, change[0]].append(change)
    dice = random.Random(seed)
    lines = dice.sample(sorted(by_line), min(count, len(by_line)))
    return [(file, dice.choice(by_line[file, line])) for file, line in lines]


def judged(copy: Path, file: Path, marks: str) -> str:
    """What the tests of its folder, and what people see, say of a copy of the source."""
    room = file.relative_to(ROOT / "src" / "fairpost").parts[0].removesuffix(".py")
    folder = room if (ROOT / "tests" / room).is_dir() else BESIDE.get(room, "results")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-qxp",
        "no:cacheprovider",
        "-m",
        marks,
        "tests/golden",
        f"tests/{folder}",
    ]
    told = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=told, capture_output=True, encoding="utf-8", timeout=900, check=False
        )
    except subprocess.TimeoutExpired:
        return "not judged (time)"
    if done.returncode == 1 and "Timeout >" not in done.stdout:
        found = re.search(r"^(FAILED|ERROR) (\S+)", done.stdout, re.M)
        return f"caught by {found[2] if found else '?'}"
    return "survived" if done.returncode == 0 else f"not judged (exit {done.returncode})"


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("under", nargs="*", type=Path, default=[ROOT / "src"], help="files and folders of the source")
    ask.add_argument("--count", type=int, default=20)
    ask.add_argument("--seed", type=int, required=True)
    ask.add_argument("--marks", default="not long", help="which tests, as `pytest -m` takes it")
    given = ask.parse_args()
    files = sorted({f.resolve() for u in given.under for f in ([u] if u.is_file() else u.rglob("*.py"))})
    count = Counter()
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(ROOT / "src", Path(place, "src"), ignore=shutil.ignore_patterns("__pycache__"))
        for file, (line, start, end, new) in drawn(files, given.count, given.seed):
            source, copy = file.read_text(encoding="utf-8"), Path(place, file.relative_to(ROOT))
            copy.write_text(source[:start] + new + source[end:], encoding="utf-8")
            said = judged(Path(place), file, given.marks)
            copy.write_text(source, encoding="utf-8")
            count[said.split(" by")[0]] += 1
            where = f"{file.relative_to(ROOT)}:{line}: {source.splitlines()[line - 1].strip()}"
            print(f"{said}: {source[start:end]!r} -> {new!r} in {where}", flush=True)
    print(", ".join(f"{many} {said}" for said, many in count.items()))


if __name__ == "__main__":
    main()
