"""The same surroundings, whoever runs the tests; Hypothesis without deadlines (a first call compiles) and with the same
examples on every run; processes that end.
"""

import collections
import contextlib
import locale
import os
import random
import signal
import subprocess
import time

import pytest
from hypothesis import settings

from support.browser import browser, visit  # noqa: F401 (fixtures of everybody)
from support.counts_csv import cli  # noqa: F401
from support.long_tests import is_long, unknown
from support.places import key

settings.register_profile("fairpost", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fairpost")

SCREEN = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
WORDS = (
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LANGUAGE",
    "PYTHONUTF8",
    "PYTHONIOENCODING",
    "PYTHONCOERCECLOCALE",
)
ROUNDABOUT = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def settle():
    """This process and those that it starts: no terminal's wishes, UTF-8, UTC, no proxy, signals and modes as at a login.

    Tests that ask what another locale or an ignored signal does say so to a process of their own.
    """
    for name in (*SCREEN, *WORDS, *ROUNDABOUT):
        os.environ.pop(name, None)
    os.environ |= {"LANG": "C.UTF-8", "TERM": "xterm", "TZ": "UTC"}
    os.umask(0o022)
    if os.name == "posix":
        time.tzset()
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_CTYPE, "")
        for name in ("SIGHUP", "SIGTERM", "SIGCHLD"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)


settle()


def pytest_addoption(parser):
    """No test may need another one before it: `pytest --shuffle 3`. What people see is kept in files: `pytest tests/golden --update`."""
    parser.addoption("--update", action="store_true", help="Write the files of tests/golden anew.")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="Run the tests in another order, the same for a seed.")


def pytest_collection_modifyitems(config, items):
    """The mark of the long ones; the largest files first, so that none of them is left for the end. Inside a file nothing moves."""
    names = collections.defaultdict(set)
    for item in items:
        names[key(item.path)] |= {item.originalname, item.name}
        if is_long(key(item.path), item.originalname, item.name, frozenset(item.fixturenames)):
            item.add_marker(pytest.mark.long)
    if not any("::" in word for word in config.args):  # whole files
        missing = [f"{file}::{name}" for file in names for name in unknown(file, frozenset(names[file]))]
        if missing:
            raise pytest.UsageError(f"tests/support/long_tests.py names a test that is not there: {missing[0]}")
    items.sort(key=lambda item: (-item.path.stat().st_size, key(item.path)))
    seed = config.getoption("--shuffle")
    if seed is not None:  # files, and what is in them; a file stays together, because its fixtures do
        dice = random.Random(seed)
        files = {file: dice.random() for file in sorted(names)}
        dice.shuffle(items)
        items.sort(key=lambda item: files[key(item.path)])


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


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    """Children of a process that has loaded what a release needs."""
    from support.forks import Forks

    made = Forks(tmp_path_factory.mktemp("forks"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster of two processes, whose workers may be killed."""
    import dask
    import distributed

    settings = {"distributed.scheduler.allowed-failures": 20, "distributed.worker.daemon": False}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as made,
    ):
        yield made
