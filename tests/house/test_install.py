"""The library part runs with NumPy, SciPy and Numba alone: everything else is hidden from a process of its own."""

import os
import re
import subprocess
import sys
import textwrap
import tomllib

from support.places import ROOT

HIDE = """
import sys
ALLOWED = {"numpy", "scipy", "numba", "llvmlite", "msgspec", "fairpost"}

class Hide:
    "Whatever is neither ours, nor in the standard library, nor allowed cannot be imported."
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in ALLOWED or top in sys.stdlib_module_names or top.startswith("_"):
            return None
        raise ImportError(f"{top} is hidden")

sys.meta_path.insert(0, Hide())
for name in list(sys.modules):
    top = name.partition(".")[0]
    if top in ("polars", "pandas", "plotly", "click", "rich", "jinja2"):
        del sys.modules[name]
"""
WORK = """
import numpy as np
import fairpost as fp
from fairpost.plan import grid

towns = fp.Counts([2, 8, 15, 40, 120, 900], groups=list("aabbcc"))
noise = fp.Laplace(scale=10.0)
exact = fp.compare(towns, noise, ["none", "nonnegative", "sum", "sum-clipped", "simplex", "baseline", "pos"])
assert {r.method for r in exact} == {"exact"}
drawn = fp.audit(towns, fp.DiscreteGaussian(3.0), "pos", runs=200, engine="monte-carlo")
assert drawn.method == "monte-carlo"
groups = fp.audit(towns, noise, "pos", by_group=True, budget=1e6)
assert groups.cost_of_privacy.amount.value > 0
threshold = fp.audit(towns, noise, "pos-threshold", runs=200)
tree = fp.AffineNonnegative([[1, 1, 1, 1, 1, 1]], [1085.0])([-9.5, 21.0, 3.5, 31.0, 126.0, 893.0])
assert abs(tree.sum() - 1085) < 1e-6
plan = fp.plan(towns, fp.Laplace, "simplex", max_alpha=1.0, spreads=grid(0.5, 20.0, 3))
assert plan.found.alpha.high <= 1
curve = fp.sweep(towns, [noise], ["simplex"])
noisy = [-9.5, 21.0, 3.5, 31.0, 126.0, 893.0]
clean = fp.project(noisy, total=1085, round=True, seed=1)
assert clean.sum() == 1085
shares = fp.allocate(noisy, mechanism=noise, budget=1e6, estimate_bias=True, replicates=2)
assert abs(shares.sum() - 1) < 1e-12 and shares.bias is not None
again = fp.Comparison.from_dict(exact.to_dict(entities=True))
assert again.to_dict(entities=True) == exact.to_dict(entities=True)
for result in (exact[:4], exact[0], plan, curve, clean, shares):
    assert len(repr(result).splitlines()) <= 20 and "<table>" in result._repr_html_()
    for way, library in (("to_frame", "polars"), ("to_pandas", "pandas"), ("plot", "plotly")):
        try:
            getattr(result, way)()
        except fp.UnsupportedError as error:
            get = "'fairpost[plots]'" if way == "plot" else library
            assert str(error) == f"{way}() needs {library}, which is not installed (pip install {get})", error
        else:
            raise AssertionError(f"{way} was to be refused")
loaded = {name.partition(".")[0] for name in sys.modules}
print(*sorted(loaded & {"numpy", "scipy", "numba", "polars", "pandas", "plotly", "click", "rich", "jinja2"}))
"""


def run(code):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
        check=False,
    )


def test_the_library_runs_with_numpy_scipy_and_numba_alone():
    done = run(HIDE + WORK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["numba", "numpy", "scipy"]


def test_the_others_are_hidden_in_that_process():
    for name in ("polars", "click", "rich", "jinja2", "plotly", "pandas", "python_calamine"):
        done = run(f"{HIDE}\nimport {name}")
        assert done.returncode == 1, name
        assert f"ImportError: {name} is hidden" in done.stderr


def test_a_plain_installation_still_gives_the_command_and_plotly_is_bounded():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"]
    named = {re.match(r"[\w-]+", one)[0]: one for one in wanted}
    assert {"numpy", "scipy", "numba", "click", "rich", "polars", "jinja2", "msgspec"} <= named.keys()
    assert re.fullmatch(r"plotly>=[\d.]+,<\d+", *project["optional-dependencies"]["plots"])
    assert all(">=" in one for one in wanted)  # a lower bound for each, tested by make test-lowest
