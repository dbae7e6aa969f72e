"""Hypothesis without deadlines (a first call compiles) and with the same examples on every run; processes that end."""

import contextlib
import os
import signal
import subprocess

import pytest
from hypothesis import settings

settings.register_profile("fairpost", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fairpost")


@pytest.fixture
def start():
    """Start a process in a group of its own; whatever the test does, the whole group is gone when it ends."""
    begun = []

    def popen(command, **given):
        process = subprocess.Popen(command, start_new_session=True, **given)
        begun.append(process)
        return process

    yield popen
    for process in begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


os.environ.pop("COLUMNS", None)  # screens are as wide as they are without a terminal, whatever runs the tests
