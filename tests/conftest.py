"""Hypothesis without deadlines (a first call compiles) and with the same examples on every run; processes that end."""

import contextlib
import os
import signal
import subprocess

import pytest
from hypothesis import settings

settings.register_profile("fairpost", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fairpost")

ORDER = [
    # the first worker: `fairpost compile`, so that nobody compiles a kernel twice, and what else test_cache does
    "test_cache",
    # the second one meanwhile: files that need no kernels, or few
    "test_release_protocol", "test_io", "test_bounds", "test_mechanisms", "test_release_noise", "test_io_reading", "test_sentences",
    "test_release_ledger", "test_release_amounts", "test_privacy", "test_exact_baseline", "test_release_cli", "test_schemas",
    # then the longest ones, so that none of them is left for the end
    "test_explore_page", "test_options", "test_report_pages", "test_cli", "test_paper", "test_programme_allocate",
    "test_hierarchy_total_first", "test_montecarlo", "test_exact_simplex", "test_gpu_hierarchy", "test_explore", "test_house",
    "test_honesty", "test_programme_base", "test_check", "test_docs", "test_montecarlo_cluster", "test_outputs", "test_report",
    "test_hard", "test_estimate", "test_exact_pos", "test_affine", "test_plan", "test_threshold", "test_gpu", "test_programme_sharing",
    "test_help", "test_examples", "test_hierarchy_cluster", "test_postprocess", "test_release_levels", "test_audit",
]  # fmt: skip
"""Which files come first; all others follow in the order of their names. By processor seconds, see CONTRIBUTING.md."""


def pytest_collection_modifyitems(items):
    """The order of the files; inside a file nothing moves."""
    place = {name: k for k, name in enumerate(ORDER)}
    items.sort(key=lambda item: place.get(item.path.stem, len(ORDER)))


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
    from forks import Forks

    made = Forks(tmp_path_factory.mktemp("forks"))
    yield made
    made.end()


os.environ.pop("COLUMNS", None)  # screens are as wide as they are without a terminal, whatever runs the tests


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
