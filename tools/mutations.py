"""Which careless changes can be made to a source file: each as one replaced stretch of text, found in the syntax tree.

Left alone: docstrings, annotations, imports, `__all__`, asserts (they tell mypy), the words of exceptions and help texts,
blocks under TYPE_CHECKING, and decorators other than click's, which change how a function is compiled or compared but
not what it says.
"""

from __future__ import annotations

import ast
import itertools
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

COMPARE = {
    "<": ("<=", ">"),
    "<=": ("<", ">"),
    ">": (">=", "<"),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "is": ("is not",),
    "is not": ("is",),
    "in": ("not in",),
    "not in": ("in",),
}
BINARY = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "**": "*", "%": "*", "|": "&", "&": "|", "^": "|", "<<": ">>", ">>": "<<",
}  # fmt: skip
SYMBOLS: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Pow: "**", ast.Mod: "%", ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>", ast.And: "and", ast.Or: "or",
}  # fmt: skip
PAIRS = (
    ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("floor", "ceil"), ("any", "all"), ("low", "high"),
    ("lower", "upper"), ("error", "deviation"), ("exp", "expm1"), ("log", "log1p"), ("cdf", "sf"), ("least", "most"),
    ("value", "high"), ("variance", "deviation"), ("sum", "mean"), ("zeros", "ones"), ("first", "last"),
    ("zeros_like", "ones_like"), ("gains", "losses"), ("scale", "sigma"), ("share", "amount"), ("bias", "deviation"),
)  # fmt: skip
TWIN = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
QUIET = {
    "help",
    "metavar",
    "show_default",
    "dtype",
    "cache",
    "nogil",
    "fastmath",
    "error_model",
    "stacklevel",
    "strict",
}
"""Keywords that carry words or a way to compile, not a number."""
SYMMETRIC = {"min", "max", "minimum", "maximum", "hypot", "logaddexp"}
"""Functions whose arguments have no order: the same program either way."""
TYPES = {"Literal", "Mapping", "Callable"}
"""Subscripts of these are types in the place of a value (an alias): nothing runs."""
KEPT_DECORATORS = ("option", "argument", "click", "together")


@dataclass(frozen=True)
class Mutation:
    """One change: `old` at `start` becomes `new`; `kind` says what sort of change."""

    file: str
    line: int
    kind: str
    start: int
    old: str
    new: str
    text: str
    """The whole source line, stripped: with the change, it names the mutant when lines move."""
    tests: tuple[str, ...] = ()
    """Patterns of the test files that should notice; empty: those that run the line, or those of its area."""

    @property
    def change(self) -> str:
        """What the list of equivalents calls it."""
        return f"{self.kind}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"

    def compiles(self, source: str) -> bool:
        """Whether the change is Python and not the same program."""
        try:
            return ast.dump(ast.parse(self.applied(source))) != ast.dump(ast.parse(source))
        except (SyntaxError, ValueError):
            return False

    def applied(self, source: str) -> str:
        """The source with the change."""
        assert source[self.start : self.start + len(self.old)] == self.old
        return source[: self.start] + self.new + source[self.start + len(self.old) :]


class Finder:
    """All mutations of one file."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        self.lines = source.splitlines(keepends=True)
        self.offsets = [0]
        for line in self.lines:
            self.offsets.append(self.offsets[-1] + len(line))
        self.found: list[Mutation] = []
        tree = ast.parse(source)
        self.keys = sorted({k for node in ast.walk(tree) if (k := _key(node)) is not None})
        self.inside = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
        }
        self.sets = {id(part) for node in ast.walk(tree) for part in _membership(node)}
        self.visit(tree)

    def place(self, line: int, column: int) -> int:
        """From the tree's line and byte column to a place in the text."""
        before = self.lines[line - 1].encode()[:column].decode()
        return self.offsets[line - 1] + len(before)

    def span(self, node: ast.AST) -> tuple[int, int] | None:
        """Where a node stands; None where the tree does not know (inside some f-strings)."""
        try:
            start = self.place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
            end = self.place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
            if id(node) in self.inside:  # Python 3.11 does not always know where these stand
                seen = ast.parse(f"({self.source[start:end]})", mode="eval").body
                if ast.unparse(seen) != ast.unparse(node):
                    return None
        except (IndexError, SyntaxError, UnicodeDecodeError, AttributeError):
            return None
        return start, end

    def add(self, kind: str, span: tuple[int, int] | None, new: str) -> None:
        """Keep a change."""
        if span is None or self.source[span[0] : span[1]] == new:
            return
        start, end = span
        line = bisect_right(self.offsets, start)
        text = self.lines[line - 1].strip()
        self.found.append(Mutation(self.file, line, kind, start, self.source[start:end], new, text))

    def text(self, node: ast.AST) -> str | None:
        """The node's own text, in brackets where it needs them."""
        span = self.span(node)
        if span is None:
            return None
        text = self.source[span[0] : span[1]]
        return (
            text if isinstance(node, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)) else f"({text})"
        )

    def instead(self, kind: str, node: ast.AST, by: ast.AST) -> None:
        """`node` replaced by another one's text."""
        if (text := self.text(by)) is not None:
            self.add(kind, self.span(node), text)

    def swap(self, kind: str, one: ast.AST, two: ast.AST) -> None:
        """Two nodes change places."""
        a, b = self.span(one), self.span(two)
        if a is not None and b is not None and a[1] <= b[0]:
            text = self.source
            self.add(kind, (a[0], b[1]), text[b[0] : b[1]] + text[a[1] : b[0]] + text[a[0] : a[1]])

    def between(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """The operator between two nodes."""
        a, b = self.span(left), self.span(right)
        if a is None or b is None:
            return
        gap = self.source[a[1] : b[0]]
        if "#" not in gap and gap.count(old) == 1:
            start = a[1] + gap.index(old)
            self.add(kind, (start, start + len(old)), new)

    # -- the walk ------------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        """Mutations of a node and of what is below it."""
        getattr(self, f"on_{type(node).__name__}", lambda _: None)(node)
        for child in _children(node):
            self.visit(child)

    def on_Compare(self, node: ast.Compare) -> None:
        """Flip."""
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            old = SYMBOLS[type(op)]
            for new in COMPARE[old]:
                self.between("compare", left, right, old, new)

    def on_BinOp(self, node: ast.BinOp) -> None:
        """Another operator, or a side dropped."""
        old = SYMBOLS.get(type(node.op))
        if old is None:
            return
        self.between("operator", node.left, node.right, old, BINARY[old])
        if old in ("+", "-", "*", "/"):
            self.instead("drop", node, node.left)
        if old in ("+", "*"):
            self.instead("drop", node, node.right)

    def on_UnaryOp(self, node: ast.UnaryOp) -> None:
        """The sign or the `not` goes."""
        if isinstance(node.op, (ast.USub, ast.Not)):
            self.instead("sign", node, node.operand)

    def on_BoolOp(self, node: ast.BoolOp) -> None:
        """`and` for `or`; one condition dropped."""
        old = SYMBOLS[type(node.op)]
        new = "or" if old == "and" else "and"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between("logic", left, right, old, new)
        if len(node.values) == 2:
            for side in node.values:
                self.instead("drop", node, side)

    def on_If(self, node: ast.If) -> None:
        """Never, always."""
        for word in ("False", "True"):
            self.add("condition", self.span(node.test), word)

    def on_IfExp(self, node: ast.IfExp) -> None:
        """One branch for both."""
        self.instead("branch", node, node.body)
        self.instead("branch", node, node.orelse)

    def on_Call(self, node: ast.Call) -> None:
        """Two arguments swapped, a keyword dropped."""
        if any(isinstance(a, ast.Starred) for a in node.args):
            return
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for one, two in zip(node.args, node.args[1:], strict=False):
            if called not in SYMMETRIC:
                self.swap("arguments", one, two)
        if len(node.args) > 1 and not isinstance(node.args[-1], ast.Starred):
            one, last = self.span(node.args[-2]), self.span(node.args[-1])
            if one is not None and last is not None:
                self.add("ignore", (one[1], last[1]), "")
        loud = [k for k in node.keywords if k.arg is not None and k.arg not in QUIET]
        for one, two in itertools.pairwise(loud):
            self.swap("arguments", one.value, two.value)
        for word in loud:
            self._drop_keyword(node, word)

    def _drop_keyword(self, node: ast.Call, word: ast.keyword) -> None:
        span = self.span(word)
        if span is None:
            return
        start, end = span
        while self.source[end] in " \n" or self.source[end] == ",":
            end += 1
            if self.source[end - 1] == ",":
                break
        self.add("keyword", (start, end), "")

    def on_Name(self, node: ast.Name) -> None:
        """A function for its twin."""
        if node.id in ("min", "max", "any", "all"):
            self.add("twin", self.span(node), TWIN[node.id])

    def on_Attribute(self, node: ast.Attribute) -> None:
        """A column for its twin."""
        span = self.span(node)
        if span is not None and node.attr in TWIN:
            self.add("twin", (span[1] - len(node.attr), span[1]), TWIN[node.attr])

    def on_Constant(self, node: ast.Constant) -> None:
        """Another number, the other truth."""
        value = node.value
        if isinstance(value, bool):
            self.add("constant", self.span(node), str(not value))
        elif isinstance(value, int):
            self.add("constant", self.span(node), str(value + 1))
            self.add("constant", self.span(node), "0")
        elif isinstance(value, float):
            self.add("constant", self.span(node), repr(2 * value if value else 1.0))
            self.add("constant", self.span(node), "0.0")

    def on_Subscript(self, node: ast.Subscript) -> None:
        """Another key of the same file."""
        if isinstance(node.value, ast.Name) and node.value.id in TYPES:
            self.sets.update(id(n) for n in ast.walk(node.slice))
        key = _key(node)
        if key is not None and len(self.keys) > 1:
            other = self.keys[(self.keys.index(key) + 1) % len(self.keys)]
            self.add("key", self.span(node.slice), f'"{other}"')

    def on_Dict(self, node: ast.Dict) -> None:
        """Two values change places; an entry goes."""
        for one, two in zip(node.values, node.values[1:], strict=False):
            self.swap("values", one, two)

    def on_Tuple(self, node: ast.Tuple) -> None:
        """Two entries change places."""
        if id(node) in self.sets:
            return
        for one, two in zip(node.elts, node.elts[1:], strict=False):
            self.swap("entries", one, two)

    def on_Return(self, node: ast.Return) -> None:
        """Nothing is returned."""
        if node.value is not None and ast.unparse(node.value) != "None":
            self.add("return", self.span(node.value), "None")

    def on_Expr(self, node: ast.Expr) -> None:
        """A statement that acts does not."""
        if isinstance(node.value, ast.Call):
            self.add("statement", self.span(node), "pass")

    def on_Raise(self, node: ast.Raise) -> None:
        """No error."""
        self.add("statement", self.span(node), "pass")

    def on_AugAssign(self, node: ast.AugAssign) -> None:
        """Not updated; updated the other way."""
        self.add("statement", self.span(node), "pass")
        old = SYMBOLS.get(type(node.op))
        if old is not None:
            self.between("operator", node.target, node.value, f"{old}=", f"{BINARY[old]}=")


def _membership(node: ast.AST) -> Iterator[ast.AST]:
    """Tuples whose order says nothing: `in (...)`, `isinstance(x, (...))`, `except (...)`."""
    if isinstance(node, ast.Compare):
        yield from (c for op, c in zip(node.ops, node.comparators, strict=True) if isinstance(op, (ast.In, ast.NotIn)))
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass")
    ):
        yield from node.args[1:]
    elif isinstance(node, ast.ExceptHandler) and node.type is not None:
        yield node.type


def _key(node: ast.AST) -> str | None:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return None


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node and may change."""
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Assert)):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id.startswith("__") for t in node.targets):
        return
    if isinstance(node, ast.Raise):  # the words of an error; its class and its cause stay
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if name == "decorator_list" and not any(word in ast.unparse(child) for word in KEPT_DECORATORS):
                continue
            if isinstance(child, ast.keyword) and child.arg in QUIET:
                continue
            yield child


def mutations(file: str, source: str) -> list[Mutation]:
    """All changes that can be made to one file, in the order of the text, each once."""
    if not source.strip():
        return []
    unique = {(m.start, m.old, m.new): m for m in Finder(file, source).found if "TYPE_CHECKING" not in m.text}
    return sorted(unique.values(), key=lambda m: (m.start, len(m.old), m.new))
