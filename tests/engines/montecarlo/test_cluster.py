"""The Monte-Carlo engine on a Dask cluster: the same bits as on threads, also where a worker dies in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.errors import LostError, ParameterError
from fairpost.rules.custom import Custom
from support.engines import samples

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own threads and sockets

COUNTS = fp.Counts(np.floor(10 ** np.linspace(0, 3, 500)) - 1, groups=["a", "b"] * 250)


def pis() -> list[Any]:
    own = Custom(np.rint, name="rounded", linear=lambda noise: noise)
    return [fp.Simplex.from_counts(COUNTS), fp.Baseline.from_counts(COUNTS), fp.PoS.from_counts(COUNTS), own]


def same_bits(a: Any, b: Any) -> bool:
    arrays = ("bias", "standard_error", "half_width", "deviation", "mse", "zero", "plain", "plain_error")
    return a.alpha == b.alpha and all(getattr(a, k).tobytes() == getattr(b, k).tobytes() for k in arrays)


@pytest.fixture(scope="module")
def expected() -> Any:
    return samples(MonteCarlo(6000, seed=3, block=50, threads=1), COUNTS, fp.Laplace(5.0), pis())


def test_same_bits_by_address(cluster: Any, expected: Any) -> None:
    engine = MonteCarlo(6000, seed=3, block=50, cluster=cluster.scheduler_address)
    found = samples(engine, COUNTS, fp.Laplace(5.0), pis())
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.long
def test_same_bits_when_workers_are_killed(cluster: Any, expected: Any) -> None:
    """After 1000 runs one worker process gets SIGKILL, after 3000 both."""
    with distributed.Client(cluster) as client:
        killed: list[int] = []

        def kill(done: int, limit: int) -> None:
            if done in (1000, 3000):
                processes = [worker.process.pid for worker in cluster.workers.values() if worker.process is not None]
                for pid in processes[: 1 if done == 1000 else 2]:
                    _kill(pid)
                    killed.append(pid)

        engine = MonteCarlo(6000, seed=3, block=50, cluster=client, progress=kill)
        found = samples(engine, COUNTS, fp.Laplace(5.0), pis())
    assert len(killed) == 3
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


def _kill(pid: int) -> None:
    import os
    import signal

    os.kill(pid, signal.SIGKILL)


def test_interrupt_and_resume_on_threads(cluster: Any, expected: Any, tmp_path: Any) -> None:
    def stop(done: int, limit: int) -> None:
        if done == 2000:
            raise KeyboardInterrupt

    file = tmp_path / "job.npz"
    given: dict[str, Any] = {"runs": 6000, "seed": 3, "block": 50, "checkpoint": file}
    with distributed.Client(cluster) as client:
        begun = samples(MonteCarlo(**given, cluster=client, progress=stop), COUNTS, fp.Laplace(5.0), pis())
    assert begun[0].interrupted
    assert begun[0].runs == 2000
    found = samples(MonteCarlo(**given), COUNTS, fp.Laplace(5.0), pis())
    assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


def test_a_wrong_address_is_named() -> None:
    import dask

    message = "`cluster` must be the address of a Dask scheduler, got 'tcp://127"
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(ParameterError, match=message):
        samples(MonteCarlo(10, cluster="tcp://127.0.0.1:1"), COUNTS, fp.Laplace(5.0), pis()[:1])


ALONE = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    made = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50)
    print(made.scheduler_address, flush=True)
    time.sleep(600)
"""


def test_a_scheduler_that_dies_ends_the_job_with_one_line_and_its_checkpoint(
    start: Any, tmp_path: Any, capfd: Any
) -> None:
    import dask

    (tmp_path / "alone.py").write_text(ALONE)
    process = start(
        [sys.executable, tmp_path / "alone.py"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    address = process.stdout.readline().strip()

    def kill(done: int, limit: int) -> None:
        if done == 1000:
            os.killpg(process.pid, signal.SIGKILL)

    given: dict[str, Any] = {"seed": 3, "block": 50, "checkpoint": tmp_path / "job"}
    capfd.readouterr()
    short = dask.config.set({"distributed.comm.timeouts.connect": "2s"})
    with (
        short,
        pytest.raises(LostError, match=r"scheduler of the cluster at tcp\S+ is gone, after [\d,]+ of 6,000 runs$"),
    ):
        samples(MonteCarlo(6000, **given, cluster=address, progress=kill), COUNTS, fp.Laplace(5.0), pis())
    assert capfd.readouterr().err == ""
    done: list[int] = []
    found = samples(MonteCarlo(6000, **given, progress=lambda d, _: done.append(d)), COUNTS, fp.Laplace(5.0), pis())
    assert done[0] > 1000
    whole = samples(MonteCarlo(6000, seed=3, block=50, threads=1), COUNTS, fp.Laplace(5.0), pis())
    assert all(same_bits(a, b) for a, b in zip(found, whole, strict=True))


def test_a_client_may_notice_late_that_its_scheduler_is_gone(monkeypatch: Any) -> None:
    """The connection breaks under a result while the client still says that it runs."""
    from fairpost.engines.montecarlo import executors

    class Late:
        looks = 0

        @property
        def status(self) -> str:
            self.looks += 1
            return "running" if self.looks < 4 else "closed"

    assert executors._gone(Late())
    monkeypatch.setattr(executors, "NOTICE", 0.2)
    late = Late()
    late.looks = -1000
    assert not executors._gone(late)


def test_workers_that_do_not_come_back_end_the_job(monkeypatch: Any) -> None:
    from fairpost.engines.montecarlo import executors

    monkeypatch.setattr(executors, "LOOK", 0.2)
    monkeypatch.setattr(
        "fairpost.engines.montecarlo.simulation.Cluster", lambda address: executors.Cluster(address, patience=1.0)
    )
    workers: dict[str, Any] = dict(n_workers=1, threads_per_worker=1, processes=False)
    with (
        distributed.LocalCluster(**workers, dashboard_address=None, silence_logs=50) as made,
        distributed.Client(made) as client,
    ):
        engine = MonteCarlo(
            60_000, seed=3, block=50, cluster=client, progress=lambda done, _: made.scale(0) if done == 1000 else None
        )
        with pytest.raises(LostError, match=r"has had no workers for 1 s, after [\d,]+ of 60,000 runs$"):
            samples(engine, COUNTS, fp.Laplace(5.0), pis()[:1])


def test_a_lost_specification_is_handed_out_again_when_somebody_is_there_to_take_it() -> None:
    """A worker dies with the specification and the next one comes later: to scatter to nobody would block or fail."""
    from fairpost.engines.montecarlo.executors import Cluster

    class Client:
        status, scheduler, killed, handed = "running", type("S", (), {"address": "tcp://here"}), 0, 0
        left: tuple[int, ...] = (2,)

        def nthreads(self) -> dict[str, int]:
            now, self.left = self.left[0], self.left[1:] or self.left
            return {"worker": now} if now else {}

        def scatter(self, job: Any, **_: Any) -> Any:
            assert self.nthreads(), "scattered to nobody"
            self.handed += 1
            return job, self.handed

        def submit(self, function: Any, shared: Any, block: Any, **_: Any) -> Any:
            return Future(self, shared, block)

    class Future:
        def __init__(self, client: Client, shared: Any, block: Any) -> None:
            self.client, self.shared, self.block = client, shared, block

        def result(self, timeout: float) -> Any:
            if self.block == 2 and self.client.killed < 2:
                self.client.killed += 1
                self.client.left = (0, 0, 2)  # nobody, for two looks
                raise distributed.KilledWorker("block", None, 1)
            return self.shared[1], self.block

        def cancel(self) -> None:
            pass

    client = Client()
    results = Cluster(client)._results(distributed, client, object())  # type: ignore[arg-type]
    assert list(results(range(4))) == [(1, 0), (1, 1), (3, 2), (1, 3)]
    client.left = (0,)
    with pytest.raises(LostError, match=r"the cluster at tcp://here has had no workers for 0.3 s"):
        Cluster(client, patience=0.3)._peopled(client)
