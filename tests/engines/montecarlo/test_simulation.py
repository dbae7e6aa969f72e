"""What holds for every job of the simulator: the same bits whoever computes, whatever interrupts, and files that are whole."""

import os
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

import fairpost as fp
from fairpost.engines.montecarlo import executors, simulation
from fairpost.engines.montecarlo.backends.gpu import device as devices
from fairpost.engines.montecarlo.backends.gpu import flat
from fairpost.engines.montecarlo.checkpoint import HEAD
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.errors import ParameterError
from fairpost.hierarchy import Simulation
from fairpost.hierarchy.gpu import runner
from support.engines import samples
from support.gpu_emulated import Emulated
from support.simulations import ASKED, COUNTS, NOISE, TREE, bits, ended, of_list, rules


@pytest.fixture(params=ASKED)
def ask(request, monkeypatch):
    """A job, asked with any settings; a GPU is played by the processor, a block at a time."""
    if "GPU" in request.param:
        device = Emulated()
        monkeypatch.setattr(devices, "gpu", lambda: device)
        monkeypatch.setattr(runner, "gpu", lambda: device)
        monkeypatch.setattr(runner, "plan", lambda spec, free: 1)
        monkeypatch.setattr(flat, "TOGETHER", 0)
    return ASKED[request.param]


def test_the_same_bits_on_any_number_of_threads(ask):
    found = [bits(ask(runs=200, seed=7, threads=k)) for k in (1, 2, 5)]
    assert found[0] == found[1] == found[2]
    assert bits(ask(runs=200, seed=8)) != found[0]


def tally(file):
    """Runs and blocks in a checkpoint: the first array behind the head."""
    return np.frombuffer(file.read_bytes(), np.int64, 2, len(HEAD) + 64).tolist()


def test_a_checkpoint_goes_on_to_the_same_bits(ask, tmp_path, request):
    """1,000 runs end with a shorter block, which no file holds at any moment; a resumed job begins with the next whole one."""
    file, kept = tmp_path / "state", []
    given = {"seed": 1, "checkpoint": file, "checkpoint_every": 0.0, "threads": 1}
    ask(runs=150, **given, progress=lambda done, _: kept.append(tally(file) if file.exists() else None))
    assert [one for one in kept if one is not None] == [[64, 1], [128, 2], [128, 2]]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    seen = []
    longer = ask(runs=300, **given, progress=lambda done, _: seen.append(done))
    assert seen[-3:] == [192, 256, 300]
    assert bits(longer) == bits(ask(runs=300, seed=1))
    for wrong, says in (
        ({"seed": 2}, "belongs to another job"),
        *([({"backend": "cpu"}, "belongs to another job")] if "GPU" in request.node.name else []),
        ({"runs": 100}, "`runs` must be at least the 256 of the checkpoint, got 100"),
    ):
        with pytest.raises(ParameterError, match=says):
            ask(**({"runs": 300} | given | wrong))
    good = file.read_bytes()
    for content, says in (
        (good[:-1], "is damaged"),
        (good + b"0", "is damaged"),
        (good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], "is damaged"),
        (b"fairpost checkpoint\n" + good[len(HEAD) :], "was written by another version of fairpost"),
        (good.replace(fp.__version__.encode(), b"0.0.1", 1), "was written by another version of fairpost"),
        (b"", "is not a checkpoint"),
        (b"nothing", "is not a checkpoint"),
    ):
        file.write_bytes(content)
        with pytest.raises(ParameterError, match=says):
            ask(runs=300, **given)
    for path in tmp_path.iterdir():
        path.unlink()
    ask(runs=150, **(given | {"checkpoint_every": 1e6}))
    assert tally(file) == [128, 2]  # what was whole is kept although no time has passed since the last state
    with pytest.raises(ParameterError, match="cannot be written"):
        ask(runs=64, checkpoint=tmp_path / "no" / "state")


def test_ctrl_c_leaves_what_is_known(ask, tmp_path, request):
    if request.node.callspec.params["ask"] == "cells":
        pytest.skip("two simulations: see hierarchy/test_total_first")
    for threads in (1, 2):
        seen, file = [], tmp_path / f"state{threads}"

        def progress(done, most, seen=seen):
            seen.append((done, most))
            if done == 192:
                os.kill(os.getpid(), signal.SIGINT)

        given = {"seed": 3, "threads": threads, "checkpoint": file}
        found = ask(runs=1000, progress=progress, **given)
        assert seen == [(64, 1000), (128, 1000), (192, 1000)]
        assert ended(found) == (True, 192)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        whole = ask(runs=192, seed=3)
        if isinstance(found, tuple):
            assert [one.bias.tobytes() for one in found] == [one.bias.tobytes() for one in whole]
        else:
            assert "interrupted" in found.note
            assert [one.bias.tobytes() for one in found.levels] == [one.bias.tobytes() for one in whole.levels]
        assert bits(ask(runs=320, **given)) == bits(ask(runs=320, seed=3))


@pytest.mark.parametrize(
    ("name", "each"),
    [
        ("list", COUNTS.n * (6 * len(rules()) + 16)),
        ("joint", 14 * TREE.nodes),
        ("cells", TREE.nodes * (9 * 2 + 16)),
    ],
)
def test_threads_stay_within_the_memory_that_is_stated(name, each, monkeypatch):
    """Fewer threads than asked for where what each has of its own (`each` numbers) would not fit: the same bits."""
    seen, real = [], simulation.Threads
    monkeypatch.setattr(simulation, "Threads", lambda count: seen.append(count) or real(count))
    whole = ASKED[name](runs=130, threads=9)
    assert seen[-1] == 9
    monkeypatch.setattr(executors, "MEMORY", 4 * 8 * each - 1)  # not quite four
    few = ASKED[name](runs=130, threads=9)
    assert seen[-1] == 3
    for one, other in zip(*(found if name == "list" else [found] for found in (whole, few)), strict=True):
        parts = (next(iter(x.cells.values())) if name == "cells" else x for x in (one, other))
        a, b = (part.bias if name == "list" else part.leaves.bias for part in parts)
        assert a.tobytes() == b.tobytes()
    monkeypatch.setattr(executors, "MEMORY", 1)
    ASKED[name](runs=100, threads=9)
    assert seen[-1] == 1


def test_fewer_threads_are_said(monkeypatch):
    monkeypatch.setattr(executors, "MEMORY", 8)
    word = "1 of 5 threads, to stay within 0 GiB"
    engine = MonteCarlo(100, threads=5)
    assert word in fp.compare(COUNTS, fp.Laplace(6.0), ["simplex"], engine=engine)[0].note
    assert ASKED["joint"](runs=70, threads=5).note.endswith(f"in 70 runs; {word}")
    assert ASKED["cells"](runs=70, threads=5).cells["old"].note.endswith(f"in 70 runs; {word}")
    assert "threads" not in ASKED["top-down"](runs=70, threads=5).note


def test_a_checkpoint_belongs_to_its_question(tmp_path):
    pos, laplace, file = fp.PoS.from_counts(COUNTS), fp.Laplace(6.0), tmp_path / "state"
    hawaii = fp.Counts([53, 22563, 54381, 67054, 311451])

    def ask(counts=COUNTS, noise=laplace, pi=pos, block=64):
        samples(MonteCarlo(640, block=block, checkpoint=file), counts, noise, [pi])

    ask()
    for other in (
        {"block": 32},
        {"counts": hawaii, "pi": fp.PoS.from_counts(hawaii)},
        {"noise": fp.Laplace(7.0)},
        {"noise": fp.Gaussian(6.0)},
        {"pi": fp.Baseline.from_counts(COUNTS)},
    ):
        with pytest.raises(ParameterError, match="belongs to another job"):
            ask(**other)


KILLED = """
import sys, fairpost as fp
from fairpost.engines.montecarlo.engine import MonteCarlo
def tell(done, limit):
    print(done, flush=True)
counts = fp.Counts(range(400))
engine = MonteCarlo(10**8, block=64, checkpoint=sys.argv[1], checkpoint_every=0.0, progress=tell)
fp.audit(counts, fp.Laplace(3.0), "simplex", engine=engine)
"""


def test_survives_a_kill(tmp_path, start):
    file = tmp_path / "state"
    process = start([sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if int(line) >= 640:
            break
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(timeout=30) == -signal.SIGKILL
    counts, done = fp.Counts(range(400)), tally(file)[0]
    assert done >= 640
    both = [
        samples(
            MonteCarlo(done + 128, block=64, checkpoint=at), counts, fp.Laplace(3.0), [fp.Simplex.from_counts(counts)]
        )
        for at in (file, None)
    ]
    assert bits(both[0]) == bits(both[1])


@pytest.mark.parametrize(
    "given",
    [
        {"runs": 1}, {"runs": 2.5}, {"runs": True}, {"seed": -1}, {"seed": 2**64}, {"confidence": 1.0}, {"threads": 0},
        {"confidence": float("nan")}, {"checkpoint_every": -1.0}, {"rtol": 0.0}, {"rtol": 1.0}, {"block": 0}, {"backend": "tpu"},
    ],
)  # fmt: skip
def test_settings_are_checked(given):
    for kind in (MonteCarlo,) if {"rtol", "block"} & set(given) else (MonteCarlo, Simulation):
        with pytest.raises(ParameterError, match=f"`{next(iter(given))}` must be"):
            kind(**{"runs": 10, **given})


def test_a_tree_is_simulated_on_a_cluster_or_on_a_gpu():
    with pytest.raises(
        ParameterError, match=r"^a hierarchy is simulated on a cluster or on this machine's GPU, got both$"
    ):
        fp.audit_hierarchy(np.ones(TREE.n), NOISE, "top-down", backend="gpu", cluster="tcp://here:1")


def test_common_noise_whoever_is_compared():
    together = of_list(runs=300, block=32)
    for pi, result in zip(rules(), together, strict=True):
        alone = samples(MonteCarlo(300, block=32), COUNTS, fp.Laplace(6.0), [pi])
        assert bits((result,)) == bits(alone)
