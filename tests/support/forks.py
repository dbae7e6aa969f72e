"""Processes without their start: one that has loaded what a release needs forks a child for every job.

A child is a process of its own: its own exit code, streams, folder, environment, limits and death; only the second of imports
is not paid again. It is for tests that start many processes and do not ask what a process loads; those take `commands.process`
or `subprocess`. Nothing that starts threads is called before the forks (polars and Numba load, and do not run).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

from support.commands import Done
from support.places import TESTS, TOOLS

LOADED = (
    "numpy", "polars", "opendp.prelude", "fairpost.cli.main", "fairpost.cli.releasing", "fairpost.cli.budgeting",
    "fairpost.cli.tree_release", "fairpost.release.protocol", "fairpost.release.publish", "fairpost.release.kept",
    "fairpost.release.rules", "fairpost.hierarchy", "fairpost.rules", "support.releases", "torture",
)  # fmt: skip
COMMAND = "from fairpost.__main__ import run\nrun()\n"


class Forks:
    """The process that forks, and the jobs that it is given."""

    def __init__(self, folder: Path) -> None:
        paths = [*sys.path, str(TESTS), str(TOOLS)]
        self._server = subprocess.Popen(
            [sys.executable, "-m", "support.forks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)},
        )  # fmt: skip
        self._folder, self._number = folder, 0

    def code(self, text: str, *words: object, cwd: Path | None = None, env: dict[str, str] | None = None,
             limit: int | None = None) -> Done:  # fmt: skip
        """Run lines of Python; `limit` is the largest file that the child may write, in bytes."""
        self._number += 1
        said = [self._folder / f"{self._number}.{name}" for name in ("out", "err")]
        job = {"code": text, "argv": ["fairpost", *map(str, words)], "cwd": str(cwd or Path.cwd()), "limit": limit,
               "env": dict(os.environ) if env is None else env, "said": [str(p) for p in said]}  # fmt: skip
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        if not select.select([self._server.stdout], [], [], 120)[0]:
            self.end()
            raise TimeoutError(f"a child has not ended after 120 s: {job['argv']}")
        code = int(self._server.stdout.readline())
        return Done(code, *(p.read_text() for p in said))

    def command(self, *words: object, **given: object) -> Done:
        """Run a command of fairpost."""
        return self.code(COMMAND, *words, **given)

    def end(self) -> None:
        """Nothing is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._server.pid, 9)
        self._server.wait(30)
        self._server.stdin.close()
        self._server.stdout.close()


def serve() -> None:
    """Fork for every line, and answer with the exit code (negative: the signal that ended the child)."""
    import importlib

    for name in LOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            be(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def be(job: dict) -> None:
    """The child: as an interpreter that was started for this, and does not come back."""
    import atexit
    import resource
    import signal
    import traceback

    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    tempfile.tempdir = None  # the environment says where
    null = os.open(os.devnull, os.O_RDONLY)
    for fd, place in enumerate((None, *job["said"])):
        os.dup2(null if place is None else os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), fd)
    if job["limit"] is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["limit"], job["limit"]))
    sys.argv, code = job["argv"], 0
    try:
        exec(compile(job["code"], "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
