"""Which test runs which line of the source, and how long it takes: a plugin of pytest for `mutate.py`, two ways.

With `FAIRPOST_LINES=FILE` every process of a run (`-n 2` has two) writes what its tests ran to FILE.PROCESS.json. A line
that is compiled, or run by another process or at import alone, has no tests there; for those the area's files are run.
With `FAIRPOST_PICKED=FILE` only the tests named in FILE are run, in its order.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "src/fairpost"


class Lines:
    """Writes the lines of each test."""

    def __init__(self, out: str) -> None:
        import coverage

        self.out = f"{out}.{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json"
        self.root = Path.cwd()
        self.cov = coverage.Coverage(
            data_file=None, source=[str(self.root / PACKAGE)], config_file=False, messages=False
        )
        self.seconds: dict[str, float] = {}
        self.cov.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """One context per test."""
        begun = time.process_time() + sum(os.times()[2:4])
        self.cov.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.cov.switch_context("")
            self.seconds[item.nodeid] = round(time.process_time() + sum(os.times()[2:4]) - begun, 2)

    def pytest_sessionfinish(self) -> None:
        """What was seen, to the file."""
        self.cov.stop()
        data, tests = self.cov.get_data(), list(self.seconds)
        number = {name: k for k, name in enumerate(tests)}
        lines = {
            Path(file).relative_to(self.root).as_posix(): {
                line: sorted({number[c] for c in contexts if c in number})
                for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        Path(self.out).write_text(
            json.dumps({"tests": tests, "seconds": self.seconds, "lines": lines}), encoding="utf-8"
        )


def pytest_configure(config: pytest.Config) -> None:
    """Where lines are asked for; the process that only hands out work has none."""
    out = os.environ.get("FAIRPOST_LINES")
    if out and not (getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")):
        config.pluginmanager.register(Lines(out))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only the picked ones."""
    picked = os.environ.get("FAIRPOST_PICKED")
    if picked:
        order = {name: k for k, name in enumerate(Path(picked).read_text(encoding="utf-8").splitlines())}
        items[:] = sorted((i for i in items if i.nodeid in order), key=lambda i: order[i.nodeid])
