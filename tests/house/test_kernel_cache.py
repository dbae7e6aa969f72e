"""Compiled kernels: never stale, never in the way, the same bits compiled or loaded; forks and interrupts do no harm.

Every test works in processes of its own, most of them with a cache of their own and two small kernels in a copy of the package.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fairpost as fp
from fairpost import compiled

PACKAGE = Path(fp.__file__).parent
INNER = """
from fairpost.compiled import kernel
STEP = 2.0
@kernel(fastmath={"reassoc"})
def inner(a):
    total = 0.0
    for i in range(a.size):
        total += STEP * a[i]
    return total
"""
OUTER = """
from fairpost.compiled import kernel
from fairpost.small.kernels.first import inner
@kernel
def outer(a):
    return inner(a) + 1.0
"""
MADE = """
import sys
import numpy as np
from fairpost.compiled import told
made = []
with told(lambda name: made.append(name) if name and name.startswith("fairpost.") else None):
    {}
print(len(made))
"""
CALL = MADE.format("from fairpost.small.kernels.second import outer; print(outer(np.arange(4.0)))")
TYPES = MADE.format(
    "from fairpost.small.kernels.second import outer; t = sys.argv[1].split(); print([outer(np.arange(4).astype(k)) for k in t])"
)
AUDITS = MADE.format("""
    import fairpost as fp
    x = fp.Counts(np.floor(np.exp(np.linspace(0.0, 9.0, 300))))
    for rule in ("simplex-threshold", "pos", "pos-threshold", "simplex")[:: 1 - 2 * len(sys.argv[1:])]:
        for engine in ("auto", fp.MonteCarlo(runs=200)):
            r = fp.audit(x, fp.Laplace(scale=10.0), rule, engine=engine)
            same = r.bias.tobytes().hex() if r.method == "monte-carlo" else " ".join(f"{b:.9e}" for b in r.bias)
            print(r.postprocess, r.method, same)""")
COMMANDS = MADE.format("""
    import contextlib, io
    from pathlib import Path
    from fairpost.cli import main
    rows = "".join(f"p{i},{3 * i * i % 101 + i},{'ab'[i % 2]}\\n" for i in range(40))
    Path("counts.csv").write_text("id,count,group\\n" + rows)
    noises = ["--scale 10", "--mechanism gaussian --sigma 10"]
    rules = "nonnegative sum sum-clipped simplex simplex-threshold baseline pos pos-threshold".split()
    lines = [f"audit counts.csv {noise} --postprocess {rule} {more}" for noise in noises for rule in rules
             for more in ("", "--method monte-carlo --runs 50", "--group group --by-group" if rule in rules[:5] else "")]
    lines += ["allocate counts.csv --scale 10", "project counts.csv", "project counts.csv --round", "demo --force",
              "sweep counts.csv --postprocess simplex --points 2", "audit counts.csv --levels group --level-sigma 3,4 --runs 64"]
    lines += [f"audit counts.csv --mechanism discrete-laplace --epsilon 0.1 --postprocess {rule} --programme title1-basic --base count"
              for rule in ("as-written", "levelled")]
    for line in lines:
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                main.main(line.split())
            except SystemExit as end:
                assert end.code in (0, 3), (line, said.getvalue())
    assert not made, made""")
BROKEN = """
import numpy as np
from fairpost.compiled import told
from fairpost.small.kernels.second import outer
def harm(name):
    raise KeyboardInterrupt
for _ in range(3):
    try:
        with told(harm):
            outer(np.arange(4.0))
    except KeyboardInterrupt:
        print("stopped")
print(outer(np.arange(4.0)))
"""
FORK = """
import os, signal
from fairpost.parallel import over_slices
def use():
    return over_slices(lambda part: part.stop - part.start, 300_000, threads=2)
want = use()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if use() == want else 1)
print(os.waitpid(child, 0)[1])
"""


def environment(cache=None, source=None, **more):
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "FAIRPOST_CACHE", "XDG_CACHE_HOME")}
    env |= {"PYTHONPATH": str(source or PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return env | ({} if cache is None else {"FAIRPOST_CACHE": str(cache)}) | more


def python(code, env, *words, cwd=None):
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def copy(tmp_path):
    """A copy of the package with two small kernels, one of which calls the other; its bytecode comes along."""
    package = tmp_path / "source" / "fairpost"
    shutil.copytree(PACKAGE, package)
    (package / "small" / "kernels").mkdir(parents=True)
    for place, text in (
        ("__init__", ""),
        ("kernels/__init__", ""),
        ("kernels/first", INNER),
        ("kernels/second", OUTER),
    ):
        (package / f"small/{place}.py").write_text(text)
    return package


@pytest.mark.timeout(1500)  # compiles every kernel where the cache is empty
def test_after_the_command_compile_no_command_compiles(tmp_path):
    env = environment(os.environ.get("FAIRPOST_CACHE"))
    python("from fairpost.cli import main; main(['compile'])", env)
    assert python(COMMANDS, env, cwd=tmp_path).stdout.split() == ["0"]


def test_a_changed_kernel_changes_its_callers_and_another_setting_makes_all_anew(copy, tmp_path):
    env = environment(tmp_path / "cache", copy.parent)
    assert [python(CALL, env).stdout.split() for _ in range(2)] == [["13.0", "2"], ["13.0", "0"]]
    assert python(CALL, env | {"NUMBA_OPT": "1"}).stdout.split() == ["13.0", "2"]
    (copy / "small/kernels/first.py").write_text(INNER.replace("STEP = 2.0", "STEP = 3.0"))
    assert [python(CALL, env).stdout.split() for _ in range(2)] == [["19.0", "2"], ["19.0", "0"]]
    assert not list(copy.rglob("*.nb?"))


def test_without_a_place_of_its_own_there_is_one_line_and_no_cache(copy, tmp_path):
    (tmp_path / "cache").mkdir()
    open_to_all = environment(tmp_path / "cache", copy.parent)
    python(CALL, open_to_all)
    for place in (tmp_path / "cache").iterdir():
        place.chmod(0o777)
    for path in copy.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o222)
    for env, why in ((open_to_all, "nobody else can write to"), (environment(None, copy.parent, HOME="/dev/null"), "")):
        done = python(CALL, env)
        assert done.stdout.split() == ["13.0", "2"]
        assert done.stderr.count("\n") == 1
        assert "not kept for the next run" in done.stderr
        assert why in done.stderr


def test_numba_without_its_compiler(copy, tmp_path):
    env = environment(tmp_path / "cache", copy.parent, NUMBA_DISABLE_JIT="1")
    assert python(CALL, env).stdout.split() == ["13.0", "0"]


def test_folders_of_other_versions_go_when_nobody_uses_them(copy, tmp_path):
    old, young, other = (tmp_path / "cache" / name for name in (f"kernels-{'0' * 24}", f"kernels-{'1' * 24}", "mine"))
    for folder in (old, young, other):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0) if folder is not young else None)
    python(CALL, environment(tmp_path / "cache", copy.parent))
    assert [folder.exists() for folder in (old, young, other)] == [False, True, True]


def test_the_usual_places(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    for name, value, place in (
        ("HOME", "/home/me", "/home/me/.cache/fairpost"),
        ("XDG_CACHE_HOME", "relative", "/home/me/.cache/fairpost"),  # the specification says: ignore it
        ("XDG_CACHE_HOME", "/x", "/x/fairpost"),
        ("NUMBA_CACHE_DIR", "/numba", "/numba"),
        ("FAIRPOST_CACHE", "/y", "/y"),
    ):
        if name == "HOME":
            for other in ("FAIRPOST_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
                monkeypatch.delenv(other, raising=False)
        monkeypatch.setenv(name, value)
        assert compiled.root() == Path(place)


def test_processes_that_fill_an_empty_cache_at_once_and_with_other_types(copy, tmp_path, start):
    env, kinds = environment(tmp_path / "cache", copy.parent), ("f8 f4 i8", "f4 i8 f8", "i8 f8 f4", "f8 i8 f4")
    some = [start([sys.executable, "-c", TYPES, k], env=env, stdout=subprocess.PIPE, text=True) for k in kinds]
    made = sum(int(p.communicate(timeout=300)[0].split("\n")[1]) for p in some)
    assert [p.returncode for p in some] == [0] * 4
    assert made == 6  # each compiled once, by whoever came first
    for k in kinds:
        assert python(TYPES, env, k).stdout.split("\n")[:2] == ["[13.0, 13.0, 13.0]", "0"]


def test_compiled_and_loaded_kernels_give_the_same_bits(tmp_path):
    """Of simulations; integrals agree to rounding (the contour of simplex has other last bits when it is loaded)."""
    env = environment(tmp_path / "cache")
    cold, warm, backwards = (sorted(python(AUDITS, env, *words).stdout.split("\n")) for words in ((), (), ("back",)))
    assert cold[2:] == warm[2:] == backwards[2:]
    assert int(cold[1]) > 25
    assert warm[1] == backwards[1] == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_threads_after_a_fork():
    assert python(FORK, environment()).stdout.split() == ["0"]


def test_after_an_interrupt_inside_a_compile_the_next_call_works(copy, tmp_path):
    done = python(BROKEN, environment(tmp_path / "cache", copy.parent))
    assert (done.stdout.split(), done.stderr) == (["stopped"] * 3 + ["13.0"], "")


@pytest.mark.parametrize("words", ["--method exact", "--method monte-carlo", "compile"])
def test_an_interrupt_while_a_command_compiles(tmp_path, words, start):
    (tmp_path / "counts.csv").write_text("id,count\na,3\nb,50\nc,7\n")
    line = words if words == "compile" else f"audit counts.csv --scale 10 --postprocess simplex {words}"
    process = start(
        [sys.executable, "-m", "fairpost", *line.split()], env=environment(tmp_path / "cache"), cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    limit = time.monotonic() + 100
    while not list(tmp_path.rglob("*.nbc")):
        assert time.monotonic() < limit
        time.sleep(0.05)
    began = time.perf_counter()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.perf_counter() - began < 5.0
    assert (out, err.splitlines()[-1]) == ("", "fairpost: interrupted, nothing was written")
