"""Where a mutant lives: a worker's own copy of the tree, its own cache of kernels, and the tests run on it."""

from __future__ import annotations

import ast
import contextlib
import hashlib
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


def module_of(path: Path) -> str:
    """The dotted name of a file below src."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers() -> dict[str, set[str]]:
    """For each module of the package those that import it, at the top or inside a function."""
    names = {module_of(p.relative_to(ROOT)): p for p in (ROOT / PACKAGE).rglob("*.py")}
    back: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text())):
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


def touched(file: str) -> set[Path]:
    """The file and all that import it, directly or not: their compiled kernels may hold what has changed."""
    back, seen = importers(), set()
    left = [module_of(Path(file))]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += back[one]
    return {p.relative_to(ROOT) for p in (ROOT / PACKAGE).rglob("*.py") if module_of(p.relative_to(ROOT)) in seen}


def cache_folder(folder: Path) -> str:
    """What Numba calls the cache of the sources in one folder, below NUMBA_CACHE_DIR (numba.core.caching)."""
    return f"{folder.name}_{hashlib.sha1(str(folder).encode()).hexdigest()}"


class Worker:
    """One copy of the tree, one cache of kernels, one test process at a time."""

    def __init__(self, number: int) -> None:
        self.tree, self.cache = WORK / f"worker-{number}" / "tree", WORK / f"worker-{number}" / "cache"
        self.process: subprocess.Popen[str] | None = None
        self.stopped = False
        self.cache.mkdir(parents=True, exist_ok=True)
        self._sync()

    def _sync(self) -> None:
        """The tree as it is now; an unchanged file keeps its time, which the cache looks at."""
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
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
        for old in [p for p in (self.tree / "src").rglob("*.py") if p.relative_to(self.tree) not in wanted]:
            old.unlink()
        for old in [p for p in (self.tree / "tests").rglob("*.py") if p.relative_to(self.tree) not in wanted]:
            old.unlink()

    def adopt(self, other: Worker) -> None:
        """Another worker's compiled kernels, under the names that this tree gives them."""
        for folder in {p.parent for p in (other.tree / "src").rglob("*.py")}:
            source = other.cache / cache_folder(folder)
            target = self.cache / cache_folder(self.tree / folder.relative_to(other.tree))
            if source.exists():
                shutil.copytree(source, target, dirs_exist_ok=True)

    def _cache_without(self, files: set[Path]) -> Path:
        """A copy of the cache without the kernels of these files."""
        copy = self.cache.with_name("cache-of-mutant")
        shutil.rmtree(copy, ignore_errors=True)
        gone = {(cache_folder(self.tree / f.parent), f.stem) for f in files}
        for path in self.cache.rglob("*"):
            if path.is_file() and (path.parent.name, path.name.partition(".")[0]) not in gone:
                place = copy / path.relative_to(self.cache)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, place)  # Numba replaces a file, it never writes into one
        copy.mkdir(exist_ok=True)
        return copy

    def pytest(self, tests: list[str], limit: float, cache: Path, *, keep: bool) -> tuple[str, str]:
        """passed, failed or late; and the test that failed. No bytecode of a mutant is kept."""
        env = os.environ | {
            "PYTHONPATH": str(self.tree / "src"),
            "NUMBA_CACHE_DIR": str(cache),
            "NUMBA_NUM_THREADS": "1",
            "COLUMNS": "120",
        }
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        if not keep:
            env["PYTHONDONTWRITEBYTECODE"] = "1"
        call = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "--tb=line",
            *tests,
        ]
        if self.stopped:
            raise KeyboardInterrupt
        self.process = subprocess.Popen(
            call,
            cwd=self.tree,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
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
        if self.process.returncode == 0:
            return "passed", ""
        lines = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return "failed", lines[0][:200] if lines else out[-300:]

    def kill(self) -> None:
        """End the tests and whatever they started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def judge(self, m: Mutation, tests: list[str], limit: float) -> tuple[str, str]:
        """Make the change, run the tests, undo it."""
        path, kept = self.tree / m.file, (ROOT / m.file).stat()
        text = (ROOT / m.file).read_text()
        cache = self._cache_without(touched(m.file))
        try:
            path.write_text(m.applied(text))
            return self.pytest(tests, limit, cache, keep=False)
        finally:
            path.write_text(text)
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            shutil.rmtree(cache, ignore_errors=True)
