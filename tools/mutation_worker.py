"""Where a mutant lives: a worker's own copy of the tree, one cache of kernels for all, and the tests run on it."""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from mutations import Mutation

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/fairpost")
WORK = ROOT / ".mutate"
TOOLS = Path(__file__).resolve().parent
CACHE = WORK / "kernels"
"""FAIRPOST_CACHE of all workers: its folders are named by the text of the kernels, wherever a tree lies."""

PATIENCE = "90"
"""Seconds for one test that is known to run a changed line: a mutant that never ends is seen sooner than by the suite's own limit."""


def module_of(path: Path) -> str:
    """The dotted name of a file below src."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers() -> dict[str, set[str]]:
    """For each module of the package those that import it, at the top or inside a function."""
    names = {module_of(p.relative_to(ROOT)): p for p in (ROOT / PACKAGE).rglob("*.py")}
    back: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            heard: list[str] = []
            if isinstance(node, ast.Import):
                heard = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = name if path.name == "__init__.py" else name.rpartition(".")[0]
                for _ in range(node.level - 1):
                    base = base.rpartition(".")[0]
                stem = ".".join(filter(None, [base if node.level else "", node.module or ""]))
                heard = [stem, *(f"{stem}.{a.name}" for a in node.names)]
            for one in heard:
                if one in back:
                    back[one].add(name)
    return back


def touched(file: str) -> set[str]:
    """The module and all that import it, directly or not: their compiled kernels may hold what has changed."""
    back, seen = importers(), set()
    left = [module_of(Path(file))]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += back[one]
    return seen


def makes_kernels(file: str) -> bool:
    """Whether the text of a file belongs to the key of the kernels' cache."""
    return Path(file).parent.name in ("kernels", "compiled")


class Worker:
    """One copy of the tree, one test process at a time."""

    def __init__(self, number: int) -> None:
        self.home = WORK / f"worker-{number}"
        self.tree = self.home / "tree"
        self.process: subprocess.Popen[str] | None = None
        self.stopped = False
        CACHE.mkdir(parents=True, exist_ok=True)
        self._sync()

    def _sync(self) -> None:
        """The tree as it is now."""
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        wanted = {Path(p) for p in listed.stdout.splitlines() if (ROOT / p).is_file()}
        for path in wanted:
            here, there = ROOT / path, self.tree / path
            if (
                not there.exists()
                or there.read_bytes() != here.read_bytes()
                or there.stat().st_mtime != here.stat().st_mtime
            ):
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(here, there)
        for part in ("src", "tests"):
            for old in [p for p in (self.tree / part).rglob("*.py") if p.relative_to(self.tree) not in wanted]:
                old.unlink()

    def _cache_for(self, file: str) -> Path:
        """The kernels for a mutant of a file: all of them, or, where the file makes kernels, those that cannot hold it.

        The changed text gives the cache's folder another name; what is the same machine code is linked into it, so that
        only the changed kernels and their callers are compiled.
        """
        if not makes_kernels(file):
            return CACHE
        mine = self.home / "kernels"
        shutil.rmtree(mine, ignore_errors=True)
        before, after = (self._folder(cache) for cache in (CACHE, mine))
        gone = touched(file)
        if before is not None and after is not None and "compiled" not in Path(file).parts:
            for path in before.glob("*.kernel"):
                module = f"fairpost.{path.name.partition('-')[0]}".rpartition(".")[0]
                if module not in gone:
                    os.link(path, after / path.name)  # the store replaces a file, it never writes into one
        mine.mkdir(parents=True, exist_ok=True)
        return mine

    def _folder(self, cache: Path) -> Path | None:
        """Where the tree's kernels lie below a cache: the unchanged tree's, or the mutant's where the change is made."""
        tree = ROOT if cache == CACHE else self.tree
        code = "from fairpost.compiled import kept, store; print(store.folder(kept.machine()))"
        env = os.environ | {"PYTHONPATH": str(tree / "src"), "FAIRPOST_CACHE": str(cache)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", timeout=120, check=False
        )
        if done.returncode and cache == CACHE:
            raise RuntimeError(f"where the kernels lie cannot be asked: {done.stderr}")
        if done.returncode:  # the change itself is in the way: the tests will see it
            return None
        found = Path(done.stdout.strip() or "/nowhere")
        return found if found.is_dir() else None

    def pytest(
        self, tests: list[str], limit: float, cache: Path, *, keep: bool = False, picked: list[str] | None = None
    ) -> tuple[str, str]:
        """passed, failed, late or none (of the picked tests is there); and the test that failed. No bytecode of a mutant is kept."""
        env = os.environ | {"FAIRPOST_CACHE": str(cache), "COLUMNS": "120"}
        env["PYTHONPATH"] = os.pathsep.join([str(self.tree / "src"), str(TOOLS)])
        env["PYTHONDONTWRITEBYTECODE"] = "" if keep else "1"
        call = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line"]
        if picked is not None:
            (self.home / "picked.txt").write_text("\n".join(picked), encoding="utf-8")
            env["FAIRPOST_PICKED"] = str(self.home / "picked.txt")
            call += ["-p", "mutation_lines", "--timeout", PATIENCE]
        if self.stopped:
            raise KeyboardInterrupt
        self.process = subprocess.Popen(
            [*call, *tests],
            cwd=self.tree,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        try:
            out, _ = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return "late", f"no answer in {limit:.0f} s"
        finally:
            self.kill()
        if self.stopped:
            raise KeyboardInterrupt
        if self.process.returncode in (0, 5):
            return ("passed", "") if self.process.returncode == 0 else ("none", "")
        lines = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return "failed", lines[0][:200] if lines else out[-300:]

    def kill(self) -> None:
        """End the tests and whatever they started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def judge(self, m: Mutation, rounds: list[tuple[list[str], list[str] | None]], limit: float) -> tuple[str, str]:
        """Make the change, run the rounds of tests until one fails, undo it."""
        path, kept = self.tree / m.file, (ROOT / m.file).stat()
        text = (ROOT / m.file).read_text(encoding="utf-8")
        try:
            path.write_text(m.applied(text), encoding="utf-8")
            cache = self._cache_for(m.file)
            state, by = "none", ""
            for tests, picked in rounds:
                state, by = self.pytest(tests, limit, cache, picked=picked)
                if state not in ("passed", "none"):
                    break
            return state, by
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            shutil.rmtree(self.home / "kernels", ignore_errors=True)
