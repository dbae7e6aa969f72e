"""The kernels' cache: never stale, never in the way; compiling that forks and interrupts do not harm.

Every test works in processes of its own with a cache folder of its own. Where the cost of compiling matters two small kernels
are put into a copy of the package: they go through the same decorator and store as all others.
"""

import ast
import importlib
import multiprocessing
import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import fairpost as fp
from fairpost.cli.warming import Job, together
from fairpost.compiled import store

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
CALL = """
import numpy as np
from fairpost.compiled import interrupts
made = []
with interrupts.told(made.append):
    from fairpost.small.kernels.second import outer
    print(outer(np.arange(4.0)), len(made))
"""
BITS = """
import numpy as np
from fairpost.compiled import interrupts
made = []
with interrupts.told(made.append):
    from fairpost.small.kernels.second import outer
    print(outer(np.random.default_rng(0).normal(0.0, 1e3, 1001)).hex(), len(made))
"""
AUDITS = """
import hashlib, sys
import numpy as np
import fairpost as fp
x = np.floor(np.exp(np.linspace(0.0, 9.0, 300)))
counts, y = fp.Counts(x), np.random.default_rng(0).normal(0.0, 10.0, 100_000)
jobs = {
    "projection": lambda: fp.project_simplex(y, 1000.0),
    "simplex": lambda: fp.audit(counts, fp.Laplace(scale=10.0), "simplex", engine="exact").bias,
    "pos": lambda: fp.audit(counts, fp.Laplace(scale=10.0), "pos", engine="exact").bias,
    "simulated": lambda: fp.audit(counts, fp.Gaussian(sigma=9.0), "simplex", engine=fp.MonteCarlo(runs=200)).bias,
    "kept": lambda: fp.audit(counts, fp.Laplace(scale=9.0), "pos-threshold", engine=fp.MonteCarlo(runs=200)).bias,
}
jobs = {k: jobs[k] for k in sys.argv[1].split(",")}
from fairpost.compiled import interrupts
made = []
with interrupts.told(made.append):
    found = {k: hashlib.sha256(jobs[k]().tobytes()).hexdigest() for k in (list(jobs)[::-1] if sys.argv[2:] else jobs)}
print(len(made), *(found[k] for k in jobs))
"""


EXACT, SIMULATED = "projection,pos", "simplex,simulated,kept"


def environment(cache, source=None, **more):
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "FAIRPOST_CACHE", "XDG_CACHE_HOME")}
    env |= {"PYTHONPATH": str(source or PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return env | ({} if cache is None else {"FAIRPOST_CACHE": str(cache)}) | more


def python(code, env, *words, limit=600, cwd=None):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def copy(tmp_path):
    """A copy of the package with two small kernels, one of which calls the other.

    Its bytecode comes along: the times of the files are kept, so it stays valid and no process compiles the sources again.
    """
    package = tmp_path / "source" / "fairpost"
    shutil.copytree(PACKAGE, package)
    (package / "small" / "kernels").mkdir(parents=True)
    for place in ("small", "small/kernels"):
        (package / place / "__init__.py").touch()
    (package / "small/kernels/first.py").write_text(INNER)
    (package / "small/kernels/second.py").write_text(OUTER)
    return package


def kernels(cache):
    return sorted(Path(cache).glob("kernels-*/*.kernel"))


COMMANDS = """
import contextlib, io
from fairpost.cli import main
Path("counts.csv").write_text("id,count,group\\n" + "".join(f"p{i},{3 * i * i % 101 + i},{'ab'[i % 2]}\\n" for i in range(40)))
noises = [["--scale", "10"], ["--mechanism", "gaussian", "--sigma", "10"]]
rules = ["nonnegative", "sum", "sum-clipped", "simplex", "simplex-threshold", "baseline", "pos", "pos-threshold"]
commands = [["audit", "counts.csv", *noise, "--postprocess", rule, *more]
            for noise in noises for rule in rules for more in ([], ["--method", "monte-carlo", "--runs", "50"])]
commands += [["audit", "counts.csv", "--scale", "10", "--postprocess", rule, "--group", "group", "--by-group"] for rule in rules[:6]]
commands += [["allocate", "counts.csv", "--scale", "10"], ["project", "counts.csv"], ["project", "counts.csv", "--round"],
             ["sweep", "counts.csv", "--postprocess", "simplex", "--points", "2"], ["demo"]]
commands += [["audit", "counts.csv", "--levels", "group", "--level-sigma", "3,4", "--runs", "64"]]
commands += [["audit", "counts.csv", "--mechanism", "discrete-laplace", "--epsilon", "0.1", "--postprocess", rule,
              "--programme", "title1-basic", "--base", "count"] for rule in ("as-written", "levelled")]
for words in commands:
    out = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            main.main(words)
        except SystemExit as end:
            assert end.code in (0, 3), (words, said.getvalue())
"""
RECORDED = """
import sys
from pathlib import Path
from fairpost.compiled import store
met, load = set(), store.load
store.load = lambda machine, name, key: (met.add(f"{name} {key!r}"), load(machine, name, key))[1]
try:
    exec(Path(sys.argv[1]).read_text())
finally:
    Path(sys.argv[2]).write_text("\\n".join(sorted(met)))
"""


def recorded(code, folder):
    """What the store was asked for while code ran, kernel by kernel and signature by signature: compiled or loaded, no matter.

    So the folder that everybody uses will do, and nothing has to be compiled for the question alone.
    """
    (folder / "code.py").write_text(code)
    python(
        RECORDED,
        environment(os.environ.get("FAIRPOST_CACHE")),
        folder / "code.py",
        folder / "met",
        limit=1500,
        cwd=folder,
    )
    return {line for line in (folder / "met").read_text().splitlines() if line.partition(" ")[0].endswith("-outer")}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """What the jobs of `fairpost compile` compile or find compiled."""
    code = "from fairpost.cli.warming import jobs\nfor job in jobs():\n    job.run()\n"
    return recorded(code, tmp_path_factory.mktemp("filled"))


def called_from_python():
    """The kernels that modules outside the folders `kernels` name, as module.function."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name in ("kernels", "compiled"):
            continue
        tree, modules = ast.parse(path.read_text()), {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and "kernels" in node.module.split("."):
                for alias in node.names:
                    inside = node.module.endswith(".kernels")
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    found |= set() if inside else {f"{node.module}.{alias.name}"}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                found.add(f"{modules[node.value.id]}.{node.attr}")
    return {name for name in found if hasattr(_object(name), "py_func")}


def _object(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute, None)


@pytest.mark.timeout(900)  # compiles every kernel where the cache is empty: 240 s were seen on a busy machine
def test_after_the_command_compile_no_command_compiles(filled, tmp_path):
    met = recorded(COMMANDS, tmp_path)
    assert len(met) > 30
    missing = {line.split(" Array")[0][:150] for line in met - filled}
    assert not missing, sorted(missing)


@pytest.mark.timeout(900)
def test_the_command_compile_leaves_no_kernel_out(filled):
    names = {line.partition(" ")[0] for line in filled}
    wanted = {f"{name}-outer" for name in called_from_python()}
    assert len(wanted) > 20
    missing = wanted - names
    assert not missing, sorted(missing)


def made_up():
    """Jobs of three parts that write down who ran them; in a process of its own the second part never ends well."""
    return [
        Job(part, f"{part} {k}", partial(_written, part, k)) for part in ("first", "second", "third") for k in range(2)
    ]


def _written(part, k):
    if part == "second" and k == 1 and multiprocessing.parent_process() is not None:
        os._exit(3)
    with (Path(os.environ["FAIRPOST_WRITTEN"]) / f"{part}-{k}").open("a") as file:
        file.write(f"{os.getpid()}\n")


def test_processes_share_the_jobs_and_what_one_leaves_is_done(tmp_path, monkeypatch):
    """One of two dies in the second part: the other goes on with the third, and the caller does what was left."""
    monkeypatch.setenv("FAIRPOST_WRITTEN", str(tmp_path))
    seen = []
    assert together(2, lambda done, most, label: seen.append((done, most, label)), made_up) == []
    ran = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert set(ran) == {f"{part}-{k}" for part in ("first", "second", "third") for k in range(2)}
    assert len({*ran["first-0"], *ran["first-1"]}) == 1  # a part stays in one process
    assert str(os.getpid()) not in ran["first-0"] + ran["third-0"]
    assert ran["second-0"][-1:] == ran["second-1"] == [str(os.getpid())]
    assert {most for _, most, _ in seen} == {6}
    assert {label for _, _, label in seen} == {f"{part} {k}" for part in ("first", "second", "third") for k in range(2)}
    assert not multiprocessing.active_children()


def _gone(group, seconds):
    """Whether nobody is left of a group of processes."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_an_interrupt_of_the_command_compile_ends_its_processes(start, tmp_path):
    process = start(
        [sys.executable, "-m", "fairpost", "compile"], env=environment(tmp_path / "cache"), cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    limit = time.monotonic() + 100
    while not list(tmp_path.rglob("*.kernel")):
        assert time.monotonic() < limit
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert (out, err.strip()) == ("", "fairpost: interrupted, nothing was written")
    assert _gone(process.pid, seconds=10.0)  # Python's own tracker of resources ends a moment after its process


def test_a_changed_kernel_changes_its_callers(copy, tmp_path):
    env = environment(tmp_path / "cache", copy.parent, NUMBA_CACHE_DIR=str(tmp_path / "numba"))
    assert python(CALL, env).stdout.split() == ["13.0", "2"]
    assert python(CALL, env).stdout.split() == ["13.0", "0"]
    (copy / "small/kernels/first.py").write_text(INNER.replace("STEP = 2.0", "STEP = 3.0"))
    assert python(CALL, env).stdout.split() == ["19.0", "2"]
    assert python(CALL, env).stdout.split() == ["19.0", "0"]
    assert not list(tmp_path.glob("numba/*"))
    assert not list(copy.rglob("*.nb?"))


def test_another_machine_or_setting_has_another_folder(copy, tmp_path):
    cache = tmp_path / "cache"
    python(CALL, environment(cache, copy.parent))
    python(CALL, environment(cache, copy.parent, NUMBA_OPT="1"))
    assert python(
        CALL, environment(cache, copy.parent, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    ).stdout.split() == [
        "13.0",
        "2",
    ]
    assert len(list(cache.glob("kernels-*"))) >= 2


def test_what_is_kept_is_the_users_alone(copy, tmp_path):
    cache = tmp_path / "a" / "cache"
    python(CALL, environment(cache, copy.parent))
    assert len(kernels(cache)) == 2
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in kernels(cache))
    assert stat.S_IMODE(kernels(cache)[0].parent.stat().st_mode) == 0o700
    kernels(cache)[0].parent.chmod(0o777)
    done = python(CALL, environment(cache, copy.parent))
    assert done.stdout.split() == ["13.0", "2"]
    assert done.stderr.count("\n") == 1
    assert "nobody else can write to" in done.stderr


HARMS = {
    "cut": lambda b: b[:-9],
    "a bit turned": lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:],
    "empty": lambda b: b"",
    "less than a head": lambda b: b[:7],
}


def test_a_damaged_file_is_passed_over_and_written_anew(copy, tmp_path):
    env = environment(tmp_path / "cache", copy.parent)
    python(CALL, env)
    for path, harm in zip(kernels(tmp_path / "cache"), ("cut", "a bit turned"), strict=True):
        path.write_bytes(HARMS[harm](path.read_bytes()))
    done = python(CALL, env)
    assert done.stdout.split() == ["13.0", "2"]
    assert done.stderr == ""
    assert python(CALL, env).stdout.split() == ["13.0", "0"]


@pytest.mark.parametrize("harm", HARMS)
def test_the_store_gives_back_what_was_saved_and_nothing_else(tmp_path, monkeypatch, harm):
    monkeypatch.setenv("FAIRPOST_CACHE", str(tmp_path))
    machine, body = f"a machine of {tmp_path}", pickle.dumps(("code", [1, 2.5] * 40))
    assert store.load(machine, "a.b-outer", "key") is None
    store.save(machine, "a.b-outer", "key", body)
    assert store.load(machine, "a.b-outer", "key") == ("code", [1, 2.5] * 40)
    assert store.load(machine, "a.b-outer", "other") is None
    assert store.load(machine, "a.c-outer", "key") is None
    (path,) = kernels(tmp_path)
    path.write_bytes(HARMS[harm](path.read_bytes()))
    assert store.load(machine, "a.b-outer", "key") is None
    store.save(machine, "a.b-outer", "key", body)
    other = path.with_name(store._path(path.parent, "a.b-outer", "other").name)
    shutil.copy(path, other)  # whole, and in the wrong place
    assert store.load(machine, "a.b-outer", "other") is None
    assert store.load(machine, "a.b-outer", "key") == ("code", [1, 2.5] * 40)
    path.chmod(0o666)
    assert store.load(machine, "a.b-outer", "key") is None


def test_without_a_place_there_is_one_line_and_no_cache(copy, tmp_path):
    for path in copy.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o222)
    env = environment(None, copy.parent, HOME="/dev/null")
    done = python(CALL, env)
    assert done.stdout.split() == ["13.0", "2"]
    assert done.stderr.count("\n") == 1
    assert "not kept for the next run" in done.stderr


def test_numba_without_its_compiler(copy, tmp_path):
    env = environment(tmp_path / "cache", copy.parent, NUMBA_DISABLE_JIT="1")
    assert python(CALL, env).stdout.split() == ["13.0", "0"]
    assert not kernels(tmp_path / "cache")


def test_folders_of_other_versions_go_when_nobody_uses_them(copy, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    old, young, other = cache / f"kernels-{'0' * 24}", cache / f"kernels-{'1' * 24}", cache / "mine"
    for folder in (old, young, other):
        folder.mkdir()
        (folder / "a.kernel").touch()
        os.utime(folder, (0, 0) if folder is not young else None)
    python(CALL, environment(cache, copy.parent))
    assert not old.exists()
    assert (young / "a.kernel").exists()
    assert (other / "a.kernel").exists()


def test_the_usual_places(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("FAIRPOST_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert store.root() == Path("/x/cache/fairpost")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification says: ignore it
    monkeypatch.setenv("HOME", "/home/me")
    assert store.root() == Path("/home/me/.cache/fairpost")
    monkeypatch.setenv("FAIRPOST_CACHE", "/y")
    assert store.root() == Path("/y")


def test_every_kernel_source_is_in_the_key():
    found = {p.relative_to(PACKAGE).as_posix() for p in store.sources()}
    made = {
        p.relative_to(PACKAGE).as_posix()
        for p in PACKAGE.rglob("*.py")
        if "@kernel" in p.read_text() or p.parent.name == "compiled"
    }
    assert made <= found
    assert len(made) > 20


def test_processes_that_fill_an_empty_cache_at_once(copy, tmp_path, start):
    env = environment(tmp_path / "cache", copy.parent)
    some = [
        start([sys.executable, "-c", CALL], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    ends = [p.communicate(timeout=300) for p in some]
    assert {p.returncode for p in some} == {0}
    assert {e for _, e in ends} == {""}
    assert {o.split()[0] for o, _ in ends} == {"13.0"}
    assert [p.suffix for p in (tmp_path / "cache").glob("kernels-*/*")] == [".kernel"] * 2


def test_the_bits_of_a_sum_do_not_depend_on_what_was_compiled_and_what_was_loaded(copy, tmp_path):
    """1,001 terms whose sum may be reordered: all compiled, all loaded, the caller compiled beside a loaded part. (Long: real ones.)"""
    env, found = environment(tmp_path / "cache", copy.parent), []
    for gone in ("nothing", "nothing", "second"):
        for path in kernels(tmp_path / "cache"):
            if gone in path.name:
                path.unlink()
        found.append(python(BITS, env).stdout.split())
    assert [int(made) for _, made in found] == [2, 0, 1]
    assert len({bits for bits, _ in found}) == 1


# Slow: these compile what they look at.


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """A cache, and what the process that filled it has computed."""
    cache = tmp_path_factory.mktemp("cold")
    return cache, python(AUDITS, environment(cache), EXACT).stdout.split()


@pytest.mark.long
def test_compiled_and_loaded_kernels_give_the_same_bits(cold):
    cache, first = cold
    assert int(first[0]) > 25
    assert python(AUDITS, environment(cache), EXACT).stdout.split() == ["0", *first[1:]]
    assert python(AUDITS, environment(cache), EXACT, "backwards").stdout.split() == ["0", *first[1:]]


@pytest.mark.long
def test_bits_do_not_depend_on_what_was_there_before(cold, tmp_path):
    """Some inner parts loaded, the rest compiled: remove every other file and go the other way round."""
    cache, first = cold
    mixed = tmp_path / "mixed"
    shutil.copytree(cache, mixed)
    for path in kernels(mixed)[::2]:
        path.unlink()
    again = python(AUDITS, environment(mixed), EXACT, "backwards").stdout.split()
    assert 5 < int(again[0]) < int(first[0])
    assert again[1:] == first[1:]


def test_the_bits_of_a_simulation_do_not_depend_on_the_order():
    """In the folder that everybody uses: whichever process was the first has compiled."""
    env = environment(os.environ.get("FAIRPOST_CACHE"))
    found = [python(AUDITS, env, SIMULATED, *order).stdout.split()[1:] for order in ([], ["backwards"])]
    assert found[0] == found[1]
    assert len(set(found[0])) == 3


FORK = """
import os, multiprocessing, signal
import numpy as np
import fairpost as fp
counts = fp.Counts(np.floor(np.random.default_rng(0).pareto(1.2, 300_000) * 50))
def job():
    return fp.audit(counts, fp.Laplace(scale=10.0), "simplex", engine="exact").alpha.value
from fairpost.parallel import over_slices
def use():  # whatever the number of cores
    return over_slices(lambda part: part.stop - part.start, 300_000, threads=2)
want = job(), use()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if (job(), use()) == want else 1)
print(os.waitpid(child, 0)[1])
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.apply_async(job).get(60) == want[0], pool.apply_async(use).get(60) == want[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_audits():
    """A plain fork, then one by multiprocessing."""
    done = python(FORK, environment(os.environ.get("FAIRPOST_CACHE")), limit=300)
    assert done.stdout.split() == ["0", "True", "True"]


FORK_WHILE_COMPILING = """
import os, signal, threading
import numpy as np
from fairpost.compiled import interrupts
from fairpost.small.kernels.second import outer
begun = threading.Event()
with interrupts.told(lambda _: begun.set()):
    thread = threading.Thread(target=outer, args=(np.arange(4.0),))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if outer(np.arange(5.0, dtype=np.float32)) == 21.0 else 1)
    thread.join()
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_another_thread_compiles(copy, tmp_path):
    assert python(FORK_WHILE_COMPILING, environment(tmp_path / "cache", copy.parent)).stdout.split() == ["0"]


INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
from fairpost.compiled import interrupts
from fairpost.small.kernels.second import outer
def harm(name):
    if sys.argv[1] == "error":
        raise ValueError(name)
    if threading.current_thread() is threading.main_thread():
        os.kill(os.getpid(), signal.SIGINT)
for _ in range(3):
    try:
        with interrupts.told(harm):
            outer(np.arange(4.0))
    except (ValueError, KeyboardInterrupt) as found:
        print(type(found).__name__)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
found = []
thread = threading.Thread(target=lambda: found.append(outer(np.arange(4.0))), daemon=True)
thread.start()
thread.join(60)
print(found, outer(np.arange(4.0)))
"""


@pytest.mark.parametrize(("how", "name"), [("error", "ValueError"), ("signal", "KeyboardInterrupt")])
def test_after_an_exception_inside_a_compile_the_next_call_works(copy, tmp_path, how, name):
    done = python(INTERRUPTED, environment(tmp_path / "cache", copy.parent), how)
    words = done.stdout.split()
    assert words[0] == name
    assert set(words[:-2]) == {name}
    assert words[-2:] == ["[13.0]", "13.0"]
    assert done.stderr == ""


@pytest.mark.parametrize("method", ["exact", "monte-carlo"])
def test_an_interrupt_while_a_command_compiles(tmp_path, method, start):
    Path(tmp_path, "counts.csv").write_text("id,count\na,3\nb,50\nc,7\n")
    words = ["audit", "counts.csv", "--scale", "10", "--postprocess", "simplex", "--method", method]
    process = start(
        [sys.executable, "-m", "fairpost", *words], env=environment(tmp_path / "cache"), cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr.readline() == "compiling kernels (first use on this machine) ...\n"
    began = time.perf_counter()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.perf_counter() - began < 5.0
    assert err.strip() == "fairpost: interrupted, nothing was written"
    assert out == ""
