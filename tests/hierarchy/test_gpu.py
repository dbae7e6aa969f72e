"""Hierarchies on a GPU: every rule, noise and family size against the processor and against plain NumPy.

Tolerances as in `engines/montecarlo/test_gpu.py`: sums over some hundred runs within 1e-11 of their largest entry.
"""

import numpy as np
import pytest
from click.testing import CliRunner

from fairpost.engines.montecarlo.backends.gpu import device as devices
from fairpost.engines.montecarlo.checkpoint import HEAD
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.hierarchy import Hierarchy, Joint, LevelNoise, Simulation, TopDown, audit_hierarchy
from fairpost.hierarchy.gpu import layout, runner
from fairpost.hierarchy.simulation import Block, Totals, run_blocks
from fairpost.hierarchy.spec import specify
from support import gpu_reference as reference
from support.gpu_emulated import Emulated

SIZES = (
    1,
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    17,
    23,
    24,
    25,
    33,
    47,
    60,
    64,
    90,
    96,
    120,
    128,
    150,
    192,
    200,
    255,
    256,
    300,
    600,
    1100,
)
"""Families of leaves of every team, at both ends, one leaf and more than any team holds."""


def tree_of(sizes, seed=3):
    """Three states, counties of one group and of up to 20, and groups of the given sizes."""
    rng, ids, county = np.random.default_rng(seed), [], 0
    left = list(sizes)
    while left:
        many = 1 if county % 3 == 0 else int(rng.integers(2, 21))
        for group in range(min(len(left), many)):
            ids += [f"{county % 3}{county:02d}{group:02d}{leaf:04d}" for leaf in range(left.pop())]
        county += 1
    return Hierarchy.from_geoids(np.array(sorted(ids), dtype="S9"), {"state": 1, "county": 3, "group": 5, "block": 9})


def counts_of(tree, seed=0, whole=True):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(tree.n) < 0.4, 0.0, np.floor(rng.lognormal(2, 1, tree.n)))
    return x if whole else x + np.where(x > 0, 0.25, 0.0)


TREE = tree_of(SIZES * 2)
MASKS = {"some": np.random.default_rng(1).random(TREE.n) < 0.3, "few": np.random.default_rng(2).random(TREE.n) < 0.01}


@pytest.fixture(params=["emulated", "gpu"])
def device(request):
    if request.param == "emulated":
        return Emulated()
    try:
        return devices.gpu()
    except UnsupportedError as error:
        pytest.skip(f"no GPU here: {error}")


def on_cpu(spec, blocks, seed=5):
    out = Totals(spec)
    for block in blocks:
        out.add(run_blocks(spec, seed, [block])[0])
    return out


def on_device(spec, device, batches, seed=5):
    out = Totals(spec)
    there = runner.TreeRunner(spec, device, seed, out)
    for blocks in batches:
        for part in there.run(blocks):
            out.add(part)
    there.fetch(out)
    return out


def compare(here, there):
    for name, a in here.state().items():
        b = there.state()[name]
        assert np.isfinite(b).all(), name
        assert np.abs(a - b).max() <= 1e-11 * max(np.abs(a).max(), 1.0), name


CASES = {  # kind, noise by level, pooled, threshold, rounding, areas, whole counts -> the kernels of the leaves
    "top-down": ("discrete-gaussian", [0, 1.5, 1.1, 3.1], False, None, None, None, True, "whole.cu"),
    "blue-down": ("discrete-gaussian", [0, 1.5, 1.1, 3.1], True, None, None, None, True, "whole.cu"),
    "counts that are not whole": ("discrete-gaussian", [0, 1.5, 1.1, 3.1], False, None, None, None, False, "plain.cu"),
    "rounded, areas, wide noise": (
        "discrete-gaussian",
        [2.0, 7.0, 1.1, 7.5],
        True,
        None,
        "whole",
        MASKS,
        True,
        "whole.cu",
    ),
    "ramp": ("discrete-gaussian", [0, 1.5, 1.1, 3.1], False, "best", None, None, True, "ramps.cu"),
    "pooled ramp": ("discrete-gaussian", [0, 1.5, 1.1, 3.1], True, "best", None, None, True, "ramps.cu"),
    "laplace": ("laplace", [0, 1.5, 2.0, 3.1], False, None, None, None, True, "plain.cu"),
    "laplace, noisy root, pooled": ("laplace", [0.5, 1.5, 1.1, 3.1, 2.0], True, None, None, None, True, "plain.cu"),
    "jump": ("laplace", [0, 1.5, 2.0, 3.1], False, "best", None, None, True, "ramps.cu"),
    "pooled jump, areas": ("laplace", [0, 0, 2.0, 3.1], True, 2.0, "whole", MASKS, True, "ramps.cu"),
    "noisy root": ("laplace", [0.5, 1.5, 1.1, 3.1, 2.0], False, None, None, None, True, "plain.cu"),
}


def spec_of(case, tree=TREE):
    kind, sigmas, pool, threshold, rounding, areas, whole, file = CASES[case]
    noise = LevelNoise(tree, sigmas=sigmas, kind=kind)
    rule = TopDown(tree, pool=pool, threshold=threshold, rounding=rounding)
    masks = areas if tree is TREE else None
    spec = specify(tree.sums(counts_of(tree, whole=whole)), noise, rule, None, masks)
    assert layout.sources_of(spec)[-1].name == file
    return spec


@pytest.mark.parametrize("case", CASES)
def test_backends_agree_on_hierarchies(device, case):
    spec = spec_of(case)
    blocks = [Block(0, spec.block), Block(spec.block, spec.block), Block(2 * spec.block, 5)]
    there = on_device(spec, device, [blocks[:2], blocks[2:]])
    compare(on_cpu(spec, blocks), there)
    again = on_device(spec, device, [[block] for block in blocks])
    for name, a in there.state().items():  # however many blocks go at once, the bits are the same
        np.testing.assert_array_equal(a, again.state()[name], err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_hierarchies_by_definition(case):
    """A small tree, a few runs: the processor's sums against NumPy's, node by node."""
    tree = tree_of((1, 2, 3, 5, 8, 13, 1, 4, 9), seed=1)
    spec = spec_of(case, tree)
    here = on_cpu(spec, [Block(0, 12)], seed=9)
    there = reference.tree_runs(spec, 9, 12)
    for a, b in ((here.upper, there[:, : spec.inner]), (here.leaves, there[:, spec.inner :])):
        assert np.abs(a - b).max() <= 1e-9 * max(np.abs(a).max(), 1.0)


def test_teams_hold_every_family_once():
    first, last = int(TREE.offsets[-3]), int(TREE.offsets[-2])
    for whole in (True, False):
        teams = layout.leaf_teams(TREE.child, first, last, whole)
        assert sorted(np.concatenate([team.families for team in teams])) == list(range(last - first))
        names = {team.kernel for team in teams}
        assert {"only_children", "large_family", "leaves_4_2", "leaves_32_8"} <= names
        assert ("crowd_128_8" in names) == whole
        for team in teams:
            if team.kernel.startswith(("leaves", "crowd")):
                lanes, each = (int(k) for k in team.kernel.split("_")[1:])
                for p in team.families + first:
                    a, b = TREE.child[p], TREE.child[p + 1]
                    assert b - (a - a % 2) <= lanes * each
                    assert b - a > 1


def test_chunks_add_every_entry_once():
    labels = np.random.default_rng(0).integers(-1, 5, 30_000).astype(np.int32)
    labels[labels == 3] = 4
    chunks = layout.Chunks.of(labels)
    assert np.diff(chunks.starts).max() <= layout.CHUNK
    values = np.arange(30_000.0)
    rows = np.array(
        [[values[chunks.order[a:b]].sum() for a, b in zip(chunks.starts[:-1], chunks.starts[1:], strict=True)]]
    )
    wanted = [values[labels == k].sum() for k in range(5)]
    np.testing.assert_array_equal(chunks.sums(rows, 5)[0], wanted)


def test_memory_is_planned_and_too_little_is_one_line():
    spec = spec_of("top-down")
    assert runner.plan(spec, 2**40) == runner.MOST_BLOCKS
    fewer = runner.plan(spec, 12_000_000)
    assert 1 <= fewer < runner.MOST_BLOCKS
    with pytest.raises(
        UnsupportedError, match=r"^a tree of \d+ nodes needs \d+ MiB of the GPU's memory, 0 MiB are free$"
    ):
        runner.plan(spec, 2**18)
    with_areas = spec_of("rounded, areas, wide noise")
    assert runner._bytes(with_areas, 3) > 3 * runner._bytes(spec, 1)


def test_whole_numbers_are_ints_only_where_they_fit():
    tree = tree_of((3, 4), seed=1)
    noise = LevelNoise(tree, sigmas=[0, 1.5, 1.1, 3.1])
    for x, fits in ((np.ones(7), True), (np.full(7, 0.5), False), (np.full(7, 2.0**28), False)):
        assert layout.fits_ints(specify(tree.sums(x), noise, TopDown(tree), None, None)) == fits
    real = LevelNoise(tree, sigmas=[0, 1.5, 1.1, 3.1], kind="gaussian")
    assert not layout.fits_ints(specify(tree.sums(np.ones(7)), real, TopDown(tree), None, None))


# -- the audit ---------------------------------------------------------------------------------------------------------

SMALL = tree_of((1, 2, 3, 5, 8, 13, 21, 4, 9, 40), seed=1)
NOISE = LevelNoise(SMALL, sigmas=[0, 1.5, 1.1, 3.1])


@pytest.fixture
def pretended(device, monkeypatch):
    """What the simulation takes for its GPU: the processor in its place, or a real one."""
    monkeypatch.setattr(devices, "gpu", lambda: device)
    monkeypatch.setattr(runner, "gpu", lambda: device)
    return device


def audit(rule="top-down", **how):
    return audit_hierarchy(counts_of(SMALL), NOISE, rule, simulation=Simulation(runs=300, **how))


def test_the_audit_gives_the_same_results(pretended):
    here, there = audit(), audit(backend="gpu")
    assert there.note == here.note + " on the GPU"
    assert audit(backend="auto").note == there.note
    for a, b in zip(here.levels, there.levels, strict=True):
        np.testing.assert_allclose(a.bias, b.bias, rtol=0, atol=1e-9 * 3.1)
        np.testing.assert_allclose(a.half_width, b.half_width, rtol=1e-9, atol=1e-12)
    for a, b in zip(here.sizes, there.sizes, strict=True):
        assert a.bias == pytest.approx(b.bias, abs=3e-9)
        assert a.half_width == pytest.approx(b.half_width, rel=1e-6)


def test_a_checkpoint_goes_on_and_ctrl_c_stops_between_blocks(pretended, tmp_path):
    whole, file = audit(backend="gpu"), tmp_path / "state.npz"
    how = dict(backend="gpu", checkpoint=file, checkpoint_every=0.0)
    audit_hierarchy(counts_of(SMALL), NOISE, "top-down", simulation=Simulation(runs=128, **how))
    resumed = audit(**how)
    np.testing.assert_array_equal(whole.leaves._bias, resumed.leaves._bias)
    np.testing.assert_array_equal(whole.leaves._error, resumed.leaves._error)
    with pytest.raises(ParameterError, match="belongs to another job"):
        audit(checkpoint=file)
    rarely = dict(backend="gpu", checkpoint=tmp_path / "other.npz", checkpoint_every=1e9)
    audit(**rarely)
    body = (tmp_path / "other.npz").read_bytes()[len(HEAD) + 64 :]
    assert np.frombuffer(body, np.int64, 2).tolist() == [
        256,
        4,
    ]  # the last block was a short one: the whole ones are kept
    longer = [
        audit_hierarchy(counts_of(SMALL), NOISE, "top-down", simulation=Simulation(runs=600, **how))
        for how in (rarely, {"backend": "gpu"})
    ]
    np.testing.assert_array_equal(longer[0].leaves._bias, longer[1].leaves._bias)
    seen = []
    audit(backend="gpu", progress=lambda done, most: seen.append((done, most)))
    assert seen[-1] == (300, 300)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_an_interrupt_keeps_what_is_done(pretended, monkeypatch):
    import signal

    monkeypatch.setattr(runner, "plan", lambda spec, free: 1)
    seen = []

    def progress(done, most):
        seen.append(done)
        if len(seen) == 2:
            signal.raise_signal(signal.SIGINT)

    found = audit(backend="gpu", progress=progress)
    assert found.interrupted
    assert found.runs == seen[-1] == 128


def test_what_is_not_covered_is_refused_by_name(pretended):
    with pytest.raises(UnsupportedError, match=r"^a GPU does not cover the rule 'joint'$"):
        audit(Joint(SMALL), backend="gpu")
    assert audit(Joint(SMALL), backend="auto").note.endswith(" on the CPU: a GPU does not cover the rule 'joint'")
    with pytest.raises(
        ParameterError, match=r"^a hierarchy is simulated on a cluster or on this machine's GPU, got both$"
    ):
        audit(backend="gpu", cluster="tcp://here:1")
    with pytest.raises(ParameterError, match="`backend` must be one of cpu, gpu, auto, got 'tpu'"):
        Simulation(backend="tpu")


def test_the_option_device_with_levels(pretended, tmp_path, monkeypatch):
    pytest.importorskip("polars")  # a machine with a GPU may lack what files need
    from fairpost.cli import main

    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{k // 4}{k:02d},{k}" for k in range(20))
    (tmp_path / "x.csv").write_text(f"id,count\n{rows}\n")
    words = [
        "audit", "x.csv", "--levels", "group:1,leaf:3", "--level-sigma", "1,2", "--postprocess", "top-down", "--runs", "100",
        "--json", "-", "--device",
    ]  # fmt: skip
    seen = {name: CliRunner().invoke(main, [*words, name]) for name in ("cpu", "gpu")}
    assert [done.exit_code for done in seen.values()] == [0, 0], seen["gpu"].output
    assert "on the GPU" in seen["gpu"].output
    assert "on the GPU" not in seen["cpu"].output
    bad = CliRunner().invoke(main, [*words, "gpu", "--method", "mean-field"])
    assert (bad.exit_code, "--device is for simulation" in bad.output) == (2, True)
