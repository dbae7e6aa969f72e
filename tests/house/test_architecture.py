"""The layers hold: who imports whom, what a cold import loads, what is public."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import fairpost as fp
from support import places

ROOT = Path(fp.__file__).parent
LAYERS = [
    "errors", "lazy", "magnitudes", "roots", "whole", "documents", "cancel", "palette", "fields",
    "accuracy", "parallel", "compiled", "counts", "partition", "noise", "problems", "fairness", "bounds", "budgets",
    "rules", "engines", "results", "hierarchy", "audit", "datasets", "plan", "estimate", "allocate", "project", "check",
    "io", "report", "release", "study", "explore", "paper", "__init__", "cli", "__main__",
]  # fmt: skip
HEAVY = (
    "numba",
    "scipy",
    "matplotlib",
    "plotly",
    "pandas",
    "polars",
    "dask",
    "distributed",
    "jinja2",
    "click",
    "rich",
    "opendp",
    "starlette",
    "uvicorn",
    "sqlite3",
)


def top(module: str) -> str:
    return module.split(".")[1] if module.startswith("fairpost.") else "__init__"


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Of a module, parsed once."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> set[str]:
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{a.name}" for a in node.names if (ROOT / f"{a.name}.py").exists()}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return found


def test_a_module_imports_only_from_the_layers_above_it():
    for path in ROOT.rglob("*.py"):
        layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert layer in LAYERS, f"{layer} has no place in the layers"
        for module in imports(path):
            if module.startswith("fairpost."):  # `from fairpost import x` is seen as fairpost.x
                below = LAYERS.index(top(module)) > LAYERS.index(layer)
                assert not below, f"{path.relative_to(ROOT)} imports {module}, which is below it"


KNOWN_RINGS = {"fairpost.hierarchy": "gpu simulation"}
"""Packages whose members import each other in a ring, and who they are. No ring grows, and one that is gone is struck off."""


def runtime_imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of ours that a module imports when it is loaded or a function of it is called; not what only type checkers read."""
    found, waiting = set(), [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):  # `from package import module` means the module
            inside = {f"{node.module}.{a.name}": node.module for a in node.names}
            found |= {name if {name, f"{name}.__init__"} & set(known) else module for name, module in inside.items()}
        waiting += ast.iter_child_nodes(node)
    return {name if name in known else f"{name}.__init__" for name in found} & set(known)


def rings(graph: dict[str, set[str]]) -> list[set[str]]:
    """The largest sets of nodes of which each reaches each."""
    reach = {node: set(others) for node, others in graph.items()}
    for middle in graph:
        for node in graph:
            if middle in reach[node]:
                reach[node] |= reach[middle]
    found = [frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]]
    return [set(ring) for ring in dict.fromkeys(found)]


def test_packages_form_a_graph_without_rings_at_any_depth():
    """For every package: its modules, its subpackages (each with all that is in it) and its own `__init__`, as one graph."""
    known = {".".join(("fairpost", *path.relative_to(ROOT).with_suffix("").parts)): path for path in ROOT.rglob("*.py")}
    modules = {name: runtime_imports(path, known) for name, path in known.items()}
    for package in (name.removesuffix(".__init__") for name in known if name.endswith(".__init__")):
        members = {name.removeprefix(f"{package}.").split(".")[0] for name in known if name.startswith(f"{package}.")}
        graph = {member: set() for member in members}
        for name, asked in modules.items():
            if name.startswith(f"{package}."):
                member = name.removeprefix(f"{package}.").split(".")[0]
                inside = (m.removeprefix(f"{package}.").split(".")[0] for m in asked if m.startswith(f"{package}."))
                graph[member] |= set(inside) - {member}
        allowed = set(KNOWN_RINGS.get(package, "").split())
        for ring in rings(graph):
            assert ring <= allowed, f"{package}: {', '.join(sorted(ring))} import each other in a ring"
        assert bool(rings(graph)) == bool(allowed), f"{package} has no ring any more: strike it off KNOWN_RINGS"


def test_the_page_lists_the_layers_in_their_order():
    page = (places.ROOT / "ARCHITECTURE.md").read_text()
    table = page.partition("| layer | what |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(rows)) == LAYERS


def test_kernels_are_numba_and_numpy_only():
    for path in ROOT.rglob("*.py"):
        here = imports(path)
        if path.parent.name == "kernels":
            outside = {m.split(".")[0] for m in here} - set(sys.stdlib_module_names) - {"numpy", "numba", "fairpost"}
            assert not outside, f"{path.name} imports {outside}"
            ours = {m for m in here if m.startswith("fairpost")}
            assert all(".kernels." in m or m.startswith("fairpost.compiled") for m in ours), f"{path} imports {ours}"
        elif path.parent.name != "compiled":
            assert "numba" not in {m.split(".")[0] for m in here}, path


def test_printing_files_and_clock_stay_out_of_the_mathematics():
    for path in ROOT.rglob("*.py"):
        layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if layer in (
            "cli",
            "io",
            "report",
            "explore",
            "release",
            "paper",
            "compiled",
            "whole",
            "__main__",
        ) or path.name in ("checkpoint.py", "executors.py"):
            continue
        calls = {n.func.id for n in nodes(path) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert not calls & {"print", "open", "input"}, path
        assert not imports(path) & {"time", "datetime", "click", "rich"}, path


def without_encoding(call):
    """Whether a call reads or writes text in whatever encoding the user's locale has."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    said = {k.arg for k in call.keywords}
    first, *_ = [*call.args, ast.Constant("r")]
    if "encoding" in said:
        return False
    if name in ("read_text", "write_text"):
        return len(call.args) == (name == "write_text")
    if name in ("run", "Popen", "check_output"):
        return bool(said & {"text", "universal_newlines"})
    if name == "fdopen" or ast.unparse(call.func) == "open":
        first = call.args[1] if len(call.args) > 1 else ast.Constant("r")
    elif name != "open":
        return False
    return isinstance(first, ast.Constant) and set(str(first.value)) <= set("rwxat+")


def test_whoever_reads_or_writes_text_names_its_encoding():
    home, found = places.ROOT, []
    for path in (p for part in ("src", "tools", "benchmarks", "docs", "examples") for p in (home / part).rglob("*.py")):
        calls = (n for n in nodes(path) if isinstance(n, ast.Call))
        found += [f"{path.relative_to(home)}:{n.lineno}" for n in calls if without_encoding(n)]
    assert not found


def test_a_cold_import_is_light():
    code = "import sys, fairpost; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    ).stdout.split()
    assert not set(loaded) & set(HEAVY)


def test_the_public_surface():
    assert len(fp.__all__) <= 58
    assert sorted(fp.__all__) == fp.__all__
    assert all(hasattr(fp, name) for name in fp.__all__)


def test_every_public_thing_says_what_it_is():
    for name in fp.__all__:
        assert (getattr(fp, name).__doc__ or "").strip(), name


def test_the_package_docstring_example_runs():
    import doctest

    assert doctest.testmod(fp).failed == 0
    assert doctest.testmod(fp).attempted >= 4


def test_a_submodule_does_not_take_the_place_of_a_verb():
    code = (
        "import fairpost.audit, fairpost.plan, fairpost.release.ledger, fairpost as fp\n"
        "print(fp.audit.__name__, fp.plan.__name__, fp.release.__name__, 'audit' in dir(fp))\n"
        "try: fp.nothing\n"
        "except AttributeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.splitlines() == ["audit plan release True", "module 'fairpost' has no attribute 'nothing'"]


def test_every_public_name_says_where_it_lives():
    places = {name: f"fairpost.{module}" for module, names in fp._HOME.items() for name in names}
    assert sorted(places) == fp.__all__
    for name, module in places.items():
        assert getattr(importlib.import_module(module), name) is getattr(fp, name)


def concrete_classes():
    """Mechanisms, post-processings (of lists and of trees) and engines, each with the folder that is its room."""
    import fairpost.hierarchy.rules as trees
    from fairpost.engines import Conditional, Exact, Expansion, FirstOf, MonteCarlo
    from fairpost.noise import Law, Mechanism
    from fairpost.rules import PostProcessing

    def below(kind):
        return {kind, *(one for sub in kind.__subclasses__() for one in below(sub))}

    rooms = {"noise": below(Mechanism) - {Mechanism, Law}, "rules": below(PostProcessing) - {PostProcessing}}
    rooms |= {
        "engines": {Conditional, Exact, Expansion, FirstOf, MonteCarlo},
        "hierarchy": below(trees.TreeRule) - {trees.TreeRule},
    }
    return {
        one.__name__: room for room, kinds in rooms.items() for one in kinds if one.__module__.startswith("fairpost.")
    }


ASKED = {
    ("bounds/theorems.py", "Gaussian"): "Proposition 2 is a theorem about Gaussian noise",
    ("engines/closed/programme/factors.py", "DiscreteGaussian"): "an assertion: the table of masses is its own",
    ("engines/conditional/method.py", "Simplex"): "what is shared in all, the total or 1",
    ("engines/conditional/method.py", "SimplexThreshold"): "the same",
    ("engines/montecarlo/backends/gpu/grouped.py", "Simplex"): "the kernels of lists and of groups share its code",
    ("engines/montecarlo/backends/gpu/grouped.py", "KeepsTotal"): "where its totals come from",
    ("engines/montecarlo/backends/gpu/grouped.py", "Allocating"): "where its weights come from",
    ("audit.py", "Paying"): "a programme needs a rule that pays by it",
    ("rules/programme/paying.py", "DiscreteLaplace"): "the repairs invert this noise and no other",
}
"""Who asks for a concrete class outside its room, and why."""


def test_few_places_ask_for_a_concrete_class():
    rooms, found, places = concrete_classes(), set(), 0
    assert len(rooms) > 25
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT)
        for node in nodes(path):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)} & set(rooms)
                outside = {(str(place), name) for name in names if place.parts[0] != rooms[name]}
                found, places = found | outside, places + bool(outside)
    assert found == set(ASKED)
    assert places <= 10


def test_every_test_has_a_time_limit_and_every_process_an_end():
    """No test hangs: pytest ends one after five minutes, calls wait for so long and no longer, and what is started is ended by a fixture."""
    settings = tomllib.loads((places.ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert 0 < settings["timeout"] <= 300
    started, endless = set(), []
    for path in sorted(places.TESTS.rglob("*.py")):
        for node in nodes(path):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called == "subprocess.Popen":
                started.add(path.name)
            elif called in ("subprocess.run", "subprocess.check_output", "subprocess.check_call"):
                endless += (
                    [] if any(k.arg in ("timeout", None) for k in node.keywords) else [f"{path.name}:{node.lineno}"]
                )
    assert started == {"conftest.py", "forks.py"}  # `start`, and the server that `forks` ends
    assert not endless
