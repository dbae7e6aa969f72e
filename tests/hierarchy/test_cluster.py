"""The simulation of a hierarchy on a real Dask cluster: two processes, the same bits as on threads, also where one is killed."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from fairpost.cli import main
from fairpost.hierarchy import LevelNoise, audit_hierarchy
from fairpost.hierarchy.histogram import audit_histogram
from fairpost.hierarchy.nation import LEVELS, synthetic_nation

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed (extra: cluster)")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own threads and sockets

NATION = synthetic_nation(3, 0.0004)
TREE = NATION.tree()
NOISE = LevelNoise.census2020(TREE)
AREAS = [geoid.decode()[:7] for geoid in NATION.geoids]


def audited(rule: str, runs: int = 640, **how: Any) -> dict[str, Any]:
    return audit_hierarchy(NATION.counts, NOISE, rule, runs=runs, seed=5, areas=AREAS, **how).to_dict(entities=True)


@pytest.mark.parametrize("rule", ["top-down", "blue-down-threshold", "joint"])
def test_the_same_bits_by_address(cluster: Any, rule: str) -> None:
    assert audited(rule, cluster=cluster.scheduler_address) == audited(rule, threads=1)


def test_totals_first_has_the_same_bits(cluster: Any) -> None:
    cells = {"young": NATION.counts // 3, "old": NATION.counts - NATION.counts // 3}

    def found(**how: Any) -> dict[str, Any]:
        audit = audit_histogram(cells, NOISE, "top-down", totals=NOISE, runs=160, seed=5, areas=AREAS, **how)
        return audit.to_dict(entities=True)

    assert found(cluster=cluster.scheduler_address) == found(threads=1)


def test_the_same_bits_when_a_worker_is_killed(cluster: Any) -> None:
    """After the third block a worker process gets SIGKILL; its blocks are computed again elsewhere."""
    killed: list[int] = []

    def kill(done: int, most: int) -> None:
        if done == 192:
            killed.append(next(worker.process.pid for worker in cluster.workers.values() if worker.process is not None))
            os.kill(killed[0], signal.SIGKILL)

    with distributed.Client(cluster) as client:
        found = audited("top-down", 1280, cluster=client, progress=kill)
    assert len(killed) == 1
    assert found == audited("top-down", 1280)


def test_from_the_shell(cluster: Any, tmp_path: Any) -> None:
    ids = [geoid.decode() for geoid in NATION.geoids]
    pl.DataFrame({"id": ids, "count": NATION.counts}).write_csv(tmp_path / "nation.csv")
    levels = ",".join(f"{name}:{length}" for name, length in LEVELS.items())
    words = [
        "audit",
        str(tmp_path / "nation.csv"),
        "--levels",
        levels,
        "--level-sigma",
        "0,1.9,1.5,1.1,3.1",
        "--runs",
        "128",
    ]
    words += ["--postprocess", "top-down", "--json", "-"]
    here, there = (CliRunner().invoke(main, [*words, *more]) for more in ([], ["--cluster", cluster.scheduler_address]))
    assert there.exit_code == 0, there.output
    assert json.loads(here.stdout)["results"] == json.loads(there.stdout)["results"]
