"""Simulations on a real Dask cluster of two processes: the same bits as on threads, also where a worker dies in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost.cli import main
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.errors import LostError, ParameterError
from support.engines import samples
from support.simulations import ASKED, COUNTS, bits, ended

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own threads and sockets
HERE = [name for name in ASKED if "GPU" not in name]
LAPLACE, POS = fp.Laplace(5.0), [fp.PoS.from_counts(COUNTS)]


@pytest.mark.parametrize("name", HERE)
def test_same_bits_by_address(cluster: Any, name: str) -> None:
    assert bits(ASKED[name](runs=640, seed=5, cluster=cluster.scheduler_address)) == bits(ASKED[name](runs=640, seed=5))


@pytest.mark.long
@pytest.mark.parametrize(("name", "kills"), [("list", (1, 2)), ("top-down", (1,))])
def test_same_bits_when_workers_are_killed(cluster: Any, name: str, kills: tuple[int, ...]) -> None:
    """After ten blocks one worker process gets SIGKILL, after thirty both; their blocks are computed again elsewhere."""
    left = dict(zip((640, 1920), kills, strict=False))
    killed: list[int] = []

    def kill(done: int, limit: int) -> None:
        if done in left:
            processes = [worker.process.pid for worker in cluster.workers.values() if worker.process is not None]
            for pid in processes[: left[done]]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    with distributed.Client(cluster) as client:
        found = ASKED[name](runs=4000, seed=3, cluster=client, progress=kill)
    assert len(killed) == sum(kills)
    assert bits(found) == bits(ASKED[name](runs=4000, seed=3))


@pytest.mark.parametrize("name", ["list", "top-down"])
def test_interrupt_and_resume_on_threads(cluster: Any, name: str, tmp_path: Any) -> None:
    def stop(done: int, limit: int) -> None:
        if done == 640:
            os.kill(os.getpid(), signal.SIGINT)

    given: dict[str, Any] = {"runs": 2000, "seed": 3, "checkpoint": tmp_path / "state"}
    with distributed.Client(cluster) as client:
        assert ended(ASKED[name](**given, cluster=client, progress=stop)) == (True, 640)
    assert bits(ASKED[name](**given)) == bits(ASKED[name](runs=2000, seed=3))


def test_a_hierarchy_from_the_shell(cluster: Any, tmp_path: Any) -> None:
    rows = "".join(f"{k // 20}{k // 5:02}{k:03},{k * k % 23}\n" for k in range(60))
    (tmp_path / "x.csv").write_text("id,count\n" + rows)
    words = ["audit", str(tmp_path / "x.csv"), "--levels", "a:1,b:3,c:6", "--level-sigma", "0,1.9,3.1", "--runs", "128"]
    words += ["--postprocess", "top-down", "--json", "-"]
    here, there = (CliRunner().invoke(main, [*words, *more]) for more in ([], ["--cluster", cluster.scheduler_address]))
    assert there.exit_code == 0, there.output
    assert json.loads(here.stdout)["results"] == json.loads(there.stdout)["results"]


def test_a_wrong_address_is_named() -> None:
    import dask

    message = "`cluster` must be the address of a Dask scheduler, got 'tcp://127"
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(ParameterError, match=message):
        samples(MonteCarlo(10, cluster="tcp://127.0.0.1:1"), COUNTS, LAPLACE, POS)


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
        samples(MonteCarlo(6000, **given, cluster=address, progress=kill), COUNTS, LAPLACE, POS)
    assert capfd.readouterr().err == ""
    done: list[int] = []
    found = samples(MonteCarlo(6000, **given, progress=lambda d, _: done.append(d)), COUNTS, LAPLACE, POS)
    assert done[0] > 1000
    assert bits(found) == bits(samples(MonteCarlo(6000, seed=3, block=50), COUNTS, LAPLACE, POS))


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
            samples(engine, COUNTS, LAPLACE, POS)


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
