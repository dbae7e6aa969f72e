"""A GPU: the same noise as the processor bit for bit, the same sums of lists and of trees to rounding, one line where it cannot.

The CUDA source runs on a GPU where there is one (skipped by name where there is none) and compiled for the processor everywhere else
(`gpu_emulated`); it is compared with the processor's own kernels, and these with plain NumPy in `test_by_definition`.

Tolerances. Backends add the same numbers in another order, and Newton's last step may differ by its rounding: a block of some hundred
runs of numbers of size s differs by less than 1e3 roundings of s, 1e-13 s. Sums here are compared within 1e-11 of their largest entry,
and differences of means within 1e-9 of the noise scale, the bar. Whether an output is exactly 0 is decided by rounding where a whole-number
measurement meets the threshold, so zeros are compared exactly for continuous noise alone.
"""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost.engines.montecarlo import backends
from fairpost.engines.montecarlo.backends import Asked, Block, backend_of
from fairpost.engines.montecarlo.backends.base import One
from fairpost.engines.montecarlo.backends.gpu import device as devices
from fairpost.engines.montecarlo.backends.gpu import flat, laws
from fairpost.engines.montecarlo.backends.gpu.device import NULL, Kernel, Launch
from fairpost.errors import UnsupportedError
from fairpost.hierarchy import Hierarchy, LevelNoise, TopDown, audit_hierarchy
from fairpost.hierarchy.gpu import layout, runner
from fairpost.hierarchy.simulation import Totals, run_blocks
from fairpost.hierarchy.spec import specify as specify_tree
from fairpost.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Mechanism, Stream
from fairpost.rules import (
    Baseline,
    Nonnegative,
    PoS,
    PosThreshold,
    Simplex,
    SimplexThreshold,
    Sum,
    SumClipped,
    Unchanged,
)
from support.gpu_emulated import Emulated

NOISES = [Laplace(3.0), Gaussian(4.0), DiscreteLaplace(3.0), DiscreteGaussian(2.5), DiscreteGaussian(9.0)]
IDS = ["laplace", "gaussian", "discrete-laplace", "discrete-gaussian", "discrete-gaussian-wide"]
GROUPED = [Sum, SumClipped, Simplex, Baseline, PoS, SimplexThreshold, PosThreshold]


def real_gpu():
    try:
        return devices.gpu()
    except UnsupportedError as error:
        pytest.skip(f"no GPU here: {error}")


@pytest.fixture(params=["emulated", "gpu"])
def device(request):
    return Emulated() if request.param == "emulated" else real_gpu()


# -- noise -----------------------------------------------------------------------------------------------------------


def drawn(device, mechanism, n, seed, first, runs, order=None, side_by_side=None):
    records = laws.Laws.of(device, mechanism.code, [mechanism.spread])
    rows = device.room((runs, n))
    where = NULL if order is None else device.put(np.asarray(order, dtype=np.int32))
    args = (records.records, np.uint64(seed), np.uint64(first), np.int32(runs), np.int64(n), where, rows)
    kernel = Kernel("draw_rows", (f"KIND={mechanism.code}",), flat.SOURCES)
    device.launch(Launch(kernel, ((n + 511) // 512, side_by_side or runs), 256, args))
    return device.get(rows)


@pytest.mark.parametrize("mechanism", NOISES, ids=IDS)
def test_a_gpu_draws_the_same_bits(device, mechanism):
    for seed, first, n in ((7, 0, 1001), (2**64 - 3, 2**33 + 5, 64), (0, 2**32 - 1, 1)):
        here = np.stack([mechanism.sample(n, Stream(seed, first + t)) for t in range(3)])
        for side_by_side in (3, 2, 1):  # the others are drawn by the same threads, one after the other
            there = drawn(device, mechanism, n, seed, first, 3, side_by_side=side_by_side)
            np.testing.assert_array_equal(there, here)
    order = np.random.default_rng(0).permutation(333)
    here = mechanism.sample(333, Stream(5, 9))[order]
    np.testing.assert_array_equal(drawn(device, mechanism, 333, 5, 9, 1, order)[0], here)


def test_constants_of_the_noise():
    """Draws hardly show the last of them: it moves a chance of 1 in 24 sigma^2 by some 1 / sigma^2 of itself."""
    assert laws.constants(3, 9.0) == (pytest.approx(np.sqrt(65536 / 24) / 81, rel=1e-15), 1 / 162)
    assert laws.constants(2, 3.0) == (pytest.approx(np.log(2 / (1 + np.exp(-1 / 3))), rel=1e-14), 0.0)
    assert laws.constants(0, 3.0) == laws.constants(1, 3.0) == laws.constants(3, 0.0) == (0.0, 0.0)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5, 3.117, 5.999, 6.0])
def test_tables_of_the_discrete_gaussian(sigma):
    """The cuts have the bits of the processor's; every bin's entry is what the cuts say at its two ends."""
    from fairpost.noise.kernels.guide import BINS, MOST, guide_of

    guide, cuts = np.zeros(BINS, dtype=np.uint8), np.zeros(MOST)
    guide_of(sigma, guide, cuts)
    fine, ours = laws.tables_of(3, sigma)
    np.testing.assert_array_equal(ours, cuts)
    for b in range(0, laws.BINS, 7):
        at_high = sum(c >= (b + 1) / laws.BINS for c in cuts[1:])
        at_low = sum(c >= b / laws.BINS for c in cuts[1:])
        assert fine[b] == at_high + (128 if at_low > at_high else 0)


# -- flat lists --------------------------------------------------------------------------------------------------------


def asked_of(n, mechanism, by_group, seed=0, weights=True):
    rng = np.random.default_rng(seed)
    x = np.floor(rng.lognormal(1.5, 1.5, n))
    groups = [str(k) for k in rng.integers(0, max(1, n // 9), n)]
    if by_group:
        x[[g == groups[0] for g in groups]] = 0.0  # a group without anyone
    counts = fp.Counts(x, weights=rng.uniform(0.5, 2.0, n) if weights else None, groups=groups)
    pis = [kind.from_counts(counts, by_group=by_group).for_mechanism(mechanism) for kind in GROUPED]
    pis += [] if by_group else [Unchanged(), Nonnegative()]
    controls = [replace(pi.control(counts, mechanism), coefficient=rng.uniform(0, 1, n)) for pi in pis]
    ones = [One(pi, pi.problem.truth(counts), control) for pi, control in zip(pis, controls, strict=True)]
    asked = Asked(counts, mechanism, tuple(ones))
    return replace(asked, ones=tuple(asked.ones[i] for i in backend_of("cpu").order(asked)))


def planes(part, p, n):
    return part.sums[p].reshape(-1, 5, 256).transpose(1, 0, 2).reshape(5, -1)[:, :n]


def compare(asked, here, there):
    n, spread = asked.counts.n, asked.mechanism.deviation
    for p, one in enumerate(asked.ones):
        a, b = planes(here, p, n), planes(there, p, n)
        unit = spread
        if one.pi.problem.shares:  # the noise of a share; in a group without anyone shares are of 1
            unit = max(1.0, spread * float(np.max(one.control.linear.w)))
        assert np.abs(a[[0, 2]] - b[[0, 2]]).max() <= 1e-12 * unit, one.pi.name
        assert np.abs(a[[1, 3]] - b[[1, 3]]).max() <= 1e-11 * max(np.abs(a[3]).max(), unit**2), one.pi.name
        if not asked.mechanism.discrete or one.pi.dust > 0:
            np.testing.assert_array_equal(a[4], b[4], err_msg=one.pi.name)
        else:
            assert np.abs(a[4] - b[4]).max() <= 0.15 * here.runs, one.pi.name
        assert np.abs(here.pairs[p] - there.pairs[p]).max() <= 1e-11 * max(np.abs(here.pairs[p]).max(), spread)
    np.testing.assert_array_equal(here.degenerate, there.degenerate)


@pytest.mark.parametrize("by_group", [False, True], ids=["together", "by-group"])
@pytest.mark.parametrize("mechanism", NOISES, ids=IDS)
def test_backends_agree_on_flat_lists(device, mechanism, by_group):
    for n in (40, 700) if by_group else (1, 5, 64, 65, 700):
        asked = asked_of(n, mechanism, by_group)
        cpu, block = backend_of("cpu"), Block(100, 71)
        here = cpu.run(cpu.specify(asked), 7, [block])[0]
        compare(asked, here, flat.run_blocks(flat.specify(asked), device, 7, [block])[0])


@pytest.mark.parametrize("by_group", [False, True], ids=["together", "by-group"])
def test_a_sum_that_is_rounding_is_0_on_both(device, by_group):
    """Whole numbers of tenths: many sums are 0, and hardly one of them in floats."""
    x = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    counts = fp.Counts(x, weights=[0.1, 0.1, 0.1, 0.1, 0.3, 0.3, 0.3], groups=list("aaabbbb"))
    mechanism = fp.DiscreteLaplace(1.1)
    pis = [kind.from_counts(counts, by_group=by_group).for_mechanism(mechanism) for kind in (PoS, PosThreshold)]
    ones = tuple(One(pi, pi.problem.truth(counts), pi.control(counts, mechanism)) for pi in pis)
    asked, cpu, block = Asked(counts, mechanism, ones), backend_of("cpu"), Block(0, 2000)
    here = cpu.run(cpu.specify(asked), 7, [block])[0]
    compare(asked, here, flat.run_blocks(flat.specify(asked), device, 7, [block])[0])
    noise = np.stack([mechanism.sample(7, fp.Stream(7, r)) for r in range(2000)])
    parts = [noise[:, :3] + x[:3], noise[:, 3:] + x[3:]] if by_group else [noise + x]
    tens = [np.round(10 * np.asarray(counts.weights))[:3], np.round(10 * np.asarray(counts.weights))[3:]]
    whole = [v @ w for v, w in zip(parts, tens if by_group else [np.concatenate(tens)], strict=True)]
    assert sum(int((w == 0).sum()) for w in whole) > 50
    assert here.degenerate.tolist() == [sum(int((w <= 0).sum()) for w in whole)] * 2


@pytest.mark.parametrize("name", ["baseline", "sum", "sum-clipped", "nonnegative", "none"])
def test_rules_without_a_search_have_the_same_bits(device, name):
    """The same operations in the same order: nothing is left to rounding."""
    asked = asked_of(1500, Laplace(3.0), False)
    cpu, block = backend_of("cpu"), Block(0, 130)
    here = cpu.run(cpu.specify(asked), 3, [block])[0]
    there = flat.run_blocks(flat.specify(asked), device, 3, [block])[0]
    p = next(k for k, one in enumerate(asked.ones) if one.pi.name == name)
    np.testing.assert_array_equal(planes(here, p, 1500), planes(there, p, 1500))
    np.testing.assert_array_equal(here.pairs[p], there.pairs[p])


def test_turned_and_lost_draws_are_counted(device):
    """Few counts and much noise: sums below 0 and draws without information, on both backends alike."""
    for mechanism in (Laplace(8.0), DiscreteGaussian(1.5)):
        counts = fp.Counts([1.0, 0.0, 2.0])
        pis = [
            Baseline.from_counts(counts),
            PoS.from_counts(counts),
            PosThreshold.from_counts(counts).for_mechanism(mechanism),
        ]
        asked = Asked(
            counts, mechanism, tuple(One(pi, pi.problem.truth(counts), pi.control(counts, mechanism)) for pi in pis)
        )
        cpu, block = backend_of("cpu"), Block(0, 400)
        here = cpu.run(cpu.specify(asked), 1, [block])[0]
        there = flat.run_blocks(flat.specify(asked), device, 1, [block])[0]
        assert (here.degenerate > 10).all()
        compare(asked, here, there)


def test_a_long_list_is_added_up_by_more_threads(device):
    n = flat.WIDE + 3
    counts = fp.Counts(np.floor(np.random.default_rng(0).lognormal(2, 1, n)))
    pis = [Simplex.from_counts(counts), PoS.from_counts(counts)]
    asked = Asked(
        counts, Laplace(3.0), tuple(One(p, p.problem.truth(counts), p.control(counts, Laplace(3.0))) for p in pis)
    )
    cpu, block = backend_of("cpu"), Block(0, 6)
    here = cpu.run(cpu.specify(asked), 1, [block])[0]
    compare(asked, here, flat.run_blocks(flat.specify(asked), device, 1, [block])[0])


def test_pieces_give_the_same_bits():
    """Rows that do not fit go in pieces, and nothing changes; where four do not fit, one line says so."""
    asked, block = asked_of(700, Laplace(3.0), False), Block(0, 71)
    whole = flat.run_blocks(flat.specify(asked), Emulated(), 7, [block])[0]
    small = Emulated(free=1_500_000)
    pieces = flat.run_blocks(flat.specify(asked), small, 7, [block])[0]
    drawn_in = [grid[1] for name, grid in small.launched if name == "draw_rows"]
    assert len(drawn_in) > 4
    assert all(rows % 4 == 0 for rows in drawn_in[:-2])
    np.testing.assert_array_equal(whole.sums, pieces.sums)
    np.testing.assert_array_equal(whole.pairs, pieces.pairs)
    np.testing.assert_array_equal(whole.degenerate, pieces.degenerate)
    with pytest.raises(UnsupportedError, match=r"^700 entities need \d+ MiB of the GPU's memory, 0 MiB are free$"):
        flat.run_blocks(flat.specify(asked), Emulated(free=1000), 7, [block])[0]


@pytest.mark.parametrize("by_group", [False, True])
def test_blocks_together_have_the_bits_of_blocks_alone(device, by_group):
    """Also the draws without information and the pairs that are followed, block by block."""
    asked = asked_of(700, DiscreteGaussian(9.0), by_group)
    spec, blocks = flat.specify(asked), [Block(first, 36) for first in (72, 108, 144)]
    together = flat.run_blocks(spec, device, 7, blocks)
    alone = [flat.run_blocks(spec, device, 7, [block])[0] for block in blocks]
    assert len(together) == 3
    assert by_group == bool(alone[0].degenerate.any())
    assert not np.array_equal(alone[0].sums, alone[1].sums)
    for one, other in zip(together, alone, strict=True):
        assert one.runs == other.runs == 36
        for name in ("sums", "pairs", "degenerate"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_how_many_blocks_go_together():
    """Rows of 2^29 bytes, and what fits; at least one."""
    spec = flat.specify(asked_of(700, Laplace(3.0), False))
    assert flat.blocks_at_once(spec, 64, 2**36) == 2**29 // (8 * 700) // 64
    assert flat.blocks_at_once(spec, 64, 2**24) == int(0.15 * (2**24 - 9 * 88 * 956)) // (8 * 700 + 64) // 4 * 4 // 64
    assert flat.blocks_at_once(spec, 2**20, 2**36) == 1


def test_a_repeat_has_the_same_bits(device):
    for by_group in (False, True):
        asked = asked_of(700, NOISES[0], by_group)
        once, twice = (flat.run_blocks(flat.specify(asked), device, 7, [Block(0, 71)])[0] for _ in range(2))
        np.testing.assert_array_equal(once.sums, twice.sums)


# -- trees ---------------------------------------------------------------------------------------------------------------

SIZES = (
    1, 1, 2, 3, 5, 7, 8, 15, 16, 17, 23, 24, 25, 33, 47, 60, 64, 90, 96, 120, 128, 150, 192, 200, 255, 256, 300, 600, 1100,
)  # fmt: skip
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


def compare_trees(here, there):
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
    spec = specify_tree(tree.sums(counts_of(tree, whole=whole)), noise, rule, None, masks)
    assert layout.sources_of(spec)[-1].name == file
    return spec


@pytest.mark.parametrize("case", CASES)
def test_backends_agree_on_hierarchies(device, case):
    spec = spec_of(case)
    blocks = [Block(0, spec.block), Block(spec.block, spec.block), Block(2 * spec.block, 5)]
    there = on_device(spec, device, [blocks[:2], blocks[2:]])
    compare_trees(on_cpu(spec, blocks), there)
    again = on_device(spec, device, [[block] for block in blocks])
    for name, a in there.state().items():  # however many blocks go at once, the bits are the same
        np.testing.assert_array_equal(a, again.state()[name], err_msg=name)


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
        assert layout.fits_ints(specify_tree(tree.sums(x), noise, TopDown(tree), None, None)) == fits
    real = LevelNoise(tree, sigmas=[0, 1.5, 1.1, 3.1], kind="gaussian")
    assert not layout.fits_ints(specify_tree(tree.sums(np.ones(7)), real, TopDown(tree), None, None))


# -- the engine ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pretended(device, monkeypatch):
    """What a simulation takes for its GPU: the processor in its place, or a real one."""
    monkeypatch.setattr(devices, "gpu", lambda: device)
    monkeypatch.setattr(runner, "gpu", lambda: device)
    return device


COUNTS = fp.Counts([3, 0, 60, 1000, 7, 0, 15], groups=["a", "a", "b", "b", "a", "b", "b"])
RULES = ["simplex", "pos", "baseline", "simplex-threshold", "pos-threshold"]
SMALL = tree_of((1, 2, 3, 5, 8, 13, 21, 4, 9, 40), seed=1)
LEVELS = LevelNoise(SMALL, sigmas=[0, 1.5, 1.1, 3.1])


def audits(backend, runs=2000, block=256, **more):
    engine = fp.MonteCarlo(runs=runs, block=block, backend=backend, **more)
    return fp.compare(COUNTS, fp.Laplace(3.0), RULES, engine=engine)


def tree_audit(backend, rule="top-down", runs=300):
    return audit_hierarchy(counts_of(SMALL), LEVELS, rule, runs=runs, backend=backend)


def test_the_results_are_the_same(pretended):
    for here, there in zip(audits("cpu"), audits("gpu"), strict=True):
        assert there.note.endswith("; simulated on the GPU")
        assert there.note.startswith(here.note)
        unit = 3.0 if here.problem == "release" else 1.0
        np.testing.assert_allclose(here.bias, there.bias, rtol=0, atol=1e-9 * unit)
        np.testing.assert_allclose(here.half_width, there.half_width, rtol=1e-9)
        assert here.alpha.value == pytest.approx(there.alpha.value, abs=1e-9 * unit)
    here, there = tree_audit("cpu"), tree_audit("gpu")
    assert there.note == here.note + " on the GPU"
    assert tree_audit("auto").note == there.note
    for a, b in zip((*here.levels, *here.sizes), (*there.levels, *there.sizes), strict=True):
        np.testing.assert_allclose(a.bias, b.bias, rtol=0, atol=1e-9 * 3.1)
        np.testing.assert_allclose(a.half_width, b.half_width, rtol=1e-6, atol=1e-12)


class Strange(Mechanism):
    variance = 1.0

    def sample(self, n, stream):
        return np.zeros(n)


def test_what_a_gpu_does_not_cover_is_refused_by_name(pretended):
    other = fp.Custom(lambda rows: np.maximum(rows, 0.0), problem=fp.Proportional())

    def asked(noise, rule, backend):
        return fp.audit(COUNTS, noise, rule, engine=fp.MonteCarlo(runs=64, backend=backend))

    with pytest.raises(UnsupportedError, match=r"^a GPU does not cover the post-processing '.*' here$"):
        asked(fp.Laplace(3.0), other, "gpu")
    with pytest.raises(UnsupportedError, match=r"^a GPU does not draw the noise 'Strange'"):
        asked(Strange(), "simplex", "gpu")
    with pytest.raises(UnsupportedError, match=r"^a GPU does not cover the rule 'joint'$"):
        tree_audit("gpu", "joint")
    assert "simulated on the CPU: a GPU does not cover" in asked(fp.Laplace(3.0), other, "auto").note
    assert asked(fp.Laplace(3.0), "pos", "auto").note.endswith("on the GPU")
    assert tree_audit("auto", "joint").note.endswith(" on the CPU: a GPU does not cover the rule 'joint'")


LIST = "id,count\na,3\nb,40\nc,5\nd,60\n", "--scale 5 --postprocess simplex --method monte-carlo", "exact"
LEVELLED = (
    "id,count\n" + "".join(f"{k // 4}{k:02d},{k}\n" for k in range(20)),
    "--levels group:1,leaf:3 --level-sigma 1,2 --postprocess top-down",
    "mean-field",
)


@pytest.mark.parametrize(("table", "words", "formula"), [LIST, LEVELLED], ids=["list", "levels"])
def test_the_option_device(pretended, tmp_path, monkeypatch, table, words, formula):
    pytest.importorskip("polars")  # a machine with a GPU may lack what files need
    from fairpost.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(table)
    asked = ["audit", "x.csv", *words.split(), "--runs", "500", "--json", "-", "--device"]
    for name in ("cpu", "gpu", "auto"):
        done = CliRunner().invoke(main, [*asked, name])
        assert done.exit_code == 0, done.output
        assert ("on the GPU" in done.output) == (name != "cpu")
    assert getattr(pretended, "launched", True)
    bad = CliRunner().invoke(main, [*asked, "gpu", "--method", formula])
    assert (bad.exit_code, "--device is for simulation" in bad.output) == (2, True)


def test_a_simulation_hands_blocks_over_together(pretended, monkeypatch):
    """Three at a time, a shorter last one alone; the result is that of one at a time, also where the stop rule looks in between."""
    from fairpost.engines.montecarlo.backends import gpu as room

    handed, real = [], room.run_blocks

    def seen(spec, device, seed, blocks):
        handed.append([block.runs for block in blocks])
        return real(spec, device, seed, blocks)

    monkeypatch.setattr(room, "run_blocks", seen)
    found = {}
    for together in (3 * 64 * 8 * COUNTS.n, 0):
        monkeypatch.setattr(flat, "TOGETHER", together)
        found[together] = [a.alpha.value for a in audits("gpu", threads=1, runs=500, block=64)]
    assert handed == [[64] * 3, [64] * 3, [64], [52], *[[64]] * 7, [52]]
    assert len({tuple(values) for values in found.values()}) == 1
    handed.clear()
    monkeypatch.setattr(flat, "TOGETHER", 3 * 64 * 8 * COUNTS.n)
    stopped = audits("gpu", threads=1, runs=3000, block=64, rtol=0.5)
    assert stopped[0].sample.runs == sum(map(sum, handed)) < 3000
    assert max(map(len, handed)) == 3


def test_no_gpu_is_one_line(monkeypatch):
    def none(name):
        raise ImportError(name)

    devices.gpu.cache_clear()
    monkeypatch.setattr(devices, "import_module", none)
    with pytest.raises(UnsupportedError, match=r"^a GPU needs CuPy: install fairpost\[gpu\]$"):
        audits("gpu")
    assert audits("auto")[0].note.endswith(r"; simulated on the CPU: a GPU needs CuPy: install fairpost[gpu]")

    class Runtime:
        @staticmethod
        def getDeviceCount():
            raise RuntimeError("cudaErrorNoDevice: no CUDA-capable\n device is detected")

    class Cuda:
        runtime = Runtime

    class Cupy:
        cuda = Cuda

    monkeypatch.setattr(devices, "import_module", lambda name: Cupy)
    with pytest.raises(
        UnsupportedError, match=r"^no GPU can be used: cudaErrorNoDevice: no CUDA-capable device is detected$"
    ):
        audits("gpu")
    devices.gpu.cache_clear()


def test_every_backend_has_a_name():
    assert set(backends.BACKENDS) == {"cpu", "gpu"}
    assert all(kind().name == name for name, kind in backends.BACKENDS.items())
