"""A CUDA device: noise, Table 2 by simulation, a synthetic nation; each beside its bar and beside the processor.

Says by name why not where there is no GPU. FAIRPOST_NATION_SCALE sets the part of the nation, FAIRPOST_GPU_RUNS the runs of its
audit (10,000). With "agree" as an argument the backends are compared on the nation too.
"""

import os
import sys
import time

import numpy as np

import fairpost as fp
from fairpost.engines.montecarlo.backends.gpu.device import Kernel, Launch, ceil_div, gpu
from fairpost.engines.montecarlo.backends.gpu.flat import SOURCES
from fairpost.engines.montecarlo.backends.gpu.laws import Laws
from fairpost.errors import UnsupportedError
from fairpost.hierarchy import LevelNoise, Simulation, TopDown, audit_hierarchy
from fairpost.hierarchy.gpu.runner import TreeRunner
from fairpost.hierarchy.nation import synthetic_nation
from fairpost.hierarchy.rules import rule_of
from fairpost.hierarchy.simulation import Block, Totals, leaf_part, upper_part
from fairpost.hierarchy.spec import specify
from timing import districts, line

RUNS = int(os.environ.get("FAIRPOST_GPU_RUNS", "10000"))
SCALE = float(os.environ.get("FAIRPOST_NATION_SCALE", "1"))
NOISES = (("Laplace", 0, 10.0), ("Gaussian", 1, 10.0), ("discrete Laplace", 2, 10.0),
          *((f"discrete Gaussian, sigma {sigma:g}", 3, sigma) for sigma in (3.117, 6.1, 10.0, 1000.0)))  # fmt: skip


def seconds(device, call, repeats=3) -> float:
    call()
    device.wait()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        device.wait()
        times.append(time.perf_counter() - start)
    return min(times)


def noise(device) -> None:
    n, runs = 2**24, 64
    out = device.room((n // 2,))
    for name, kind, spread in NOISES:
        laws = Laws.of(device, kind, [spread])
        kernel = Kernel("draw_only", (f"KIND={kind}",), SOURCES)
        args = (laws.records, np.uint64(1), np.uint64(0), np.int32(runs), np.int64(n), out)
        took = seconds(device, lambda k=kernel, a=args: device.launch(Launch(k, (ceil_div(n // 2, 256), 1), 256, a)))
        rate = n * runs / took
        line(f"noise alone, {name}", f"{rate:.2e} draws/s", "at least 1.5e11", rate >= 1.5e11)
    rows = device.room((64, 2**21))
    laws = Laws.of(device, 0, [10.0])
    given = (laws.records, np.uint64(1), np.uint64(0), np.int32(64), np.int64(2**21), np.uint64(0), rows)
    took = seconds(
        device, lambda: device.launch(Launch(Kernel("draw_rows", ("KIND=0",), SOURCES), (2**20 // 256, 64), 256, given))
    )
    line("  Laplace, written to memory", f"{64 * 2**21 / took:.2e} draws/s")


def table2(device) -> None:
    what, counts = districts()
    rules = ["baseline", "pos"]

    def simulate(runs: int, backend: str, epsilon: float):
        engine = fp.MonteCarlo(runs=runs, backend=backend)
        return fp.compare(counts, fp.Laplace.from_epsilon(epsilon), rules, engine=engine)

    for epsilon in (0.1, 0.01, 0.001):
        simulate(1024, "gpu", epsilon)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        found = [simulate(200_000, "gpu", epsilon) for epsilon in (0.1, 0.01, 0.001)]
        taken.append(time.perf_counter() - start)
    took = max(taken)  # the slowest: the machine is not ours alone
    line(f"Table 2, {what}, 200,000 runs x 3 epsilons", f"{min(taken):.2f} to {took:.2f} s", "at most 1 s", took <= 1)
    start = time.perf_counter()
    simulate(4096, "cpu", 0.1)
    simulate(4096, "cpu", 0.1)
    beside = (time.perf_counter() - start) / 8192 * 600_000
    line("  the processor, all its cores, from 8,192 runs", f"{beside:.0f} s")
    for epsilon, results in zip((0.1, 0.01, 0.001), found, strict=True):
        for result in results:
            a = result.alpha
            line(f"  alpha, epsilon {epsilon}, {result.postprocess}", f"{a.value:.4e}", f"{a.low:.3e} {a.high:.3e}")


def lists(device) -> None:
    """Thresholds and groups: microseconds a run of all rules together, beside the processor's on all its cores."""
    _, counts = districts()
    states = [f"state {k}" for k in np.sort(np.random.default_rng(0).integers(0, 51, counts.n))]
    cases = (
        ("both thresholds", None, ["simplex-threshold", "pos-threshold"]),
        ("51 groups: sum-clipped, simplex, baseline, pos", states, ["sum-clipped", "simplex", "baseline", "pos"]),
        ("51 groups: both thresholds", states, ["simplex-threshold", "pos-threshold"]),
    )
    for name, groups, rules in cases:
        x, took = fp.Counts(counts.values, groups=groups), {}
        for backend, runs in (("gpu", 16384), ("cpu", 1024)):
            for many in (64, runs):
                engine = fp.MonteCarlo(runs=many, backend=backend)
                start = time.perf_counter()
                fp.compare(x, fp.Laplace(10.0), rules, by_group=groups is not None, engine=engine)
                took[backend] = (time.perf_counter() - start) / many * 1e6
        line(f"13,184 districts, {name}", f"{took['gpu']:.1f} us a run", f"CPU {took['cpu']:.0f} us")


def nation(device) -> None:
    start = time.perf_counter()
    made = synthetic_nation(0, SCALE)
    tree = made.tree()
    levels, x = LevelNoise.census2020(tree), tree.sums(made.counts)
    line(f"a synthetic nation of {tree.n:,} blocks, {tree.nodes:,} nodes", f"{time.perf_counter() - start:.1f} s")
    audit_hierarchy(made.counts, levels, "top-down", simulation=Simulation(runs=8, backend="gpu"))
    spec = specify(x, levels, TopDown(tree), None, None)
    rates(spec, device)
    blocks = [Block(k * spec.block, spec.block) for k in range(3)]
    runs = 3 * spec.block
    for name, rule in (("blue-down", "blue-down"), ("with thresholds", "blue-down-threshold")):
        other = specify(x, levels, rule_of(rule, tree), None, None)
        third = TreeRunner(other, device, 0, Totals(other))
        took = seconds(device, lambda r=third: r.run(blocks), 2) / runs
        line(f"a run of {name}, all levels", f"{took * 1e3:.3f} ms")
    start = time.perf_counter()
    found = audit_hierarchy(made.counts, levels, "top-down", simulation=Simulation(runs=RUNS, backend="gpu"))
    took = time.perf_counter() - start
    line(f"audit of {RUNS:,} runs, end to end", f"{took:.2f} s", "at most 6 s", took <= 6)
    line("  standard error of a block, median", f"{np.median(found.leaves._error):.5f}")
    if "agree" in sys.argv:
        agree(spec, device)


def rates(spec, device) -> None:
    runner = TreeRunner(spec, device, 0, Totals(spec))
    many = runner.blocks
    blocks = [Block(k * spec.block, spec.block) for k in range(many)]
    runs = many * spec.block
    whole = seconds(device, lambda: runner.run(blocks)) / runs
    line(f"a top-down run, all levels, {runs} at once", f"{whole * 1e3:.3f} ms", "at most 0.4 ms", whole <= 4e-4)
    v, lin, _ = runner._inner(0, runs)
    sums = device.room((many, spec.n))
    inner = seconds(device, lambda: runner._inner(0, runs)) / runs
    leaf = seconds(device, lambda: runner._leaves(0, many, spec.block, v, lin, sums, np.uint64(0))) / runs
    line("  nodes above the leaves", f"{inner * 1e3:.4f} ms")
    line("  leaves: noise, projection, moments", f"{leaf * 1e3:.4f} ms")
    line("  leaves a second", f"{spec.n / leaf:.2e}")
    planes, block = np.zeros((3, spec.n)), Block(0, spec.block)
    upper = upper_part(spec, 0, block)
    leaf_part(spec, 0, block, upper, planes)
    start = time.process_time()
    leaf_part(spec, 0, block, upper, planes)
    core = (time.process_time() - start) / spec.block
    line("  one core of the processor, leaves", f"{core * 1e3:.1f} ms")
    line("  times one core", f"{core / leaf:.0f}", "300 (aim 1,000)", core / leaf >= 300)


def agree(spec, device) -> None:
    """Sixteen runs on both, largest difference of the sums over the scale of the noise."""
    blocks = [Block(0, spec.block), Block(spec.block, spec.block)]
    here, there = Totals(spec), Totals(spec)
    for block in blocks:
        here.add(leaf_part(spec, 0, block, upper_part(spec, 0, block), here.leaves))
    runner = TreeRunner(spec, device, 0, there)
    for part in runner.run(blocks):
        there.add(part)
    runner.fetch(there)
    scale = float(spec.spreads[-1])
    worst = max(np.abs(here.leaves[0] - there.leaves[0]).max(), np.abs(here.upper[0] - there.upper[0]).max()) / scale
    line("backends on the nation, largest difference of a sum", f"{worst:.1e}", "at most 1e-9", worst <= 1e-9)


def main() -> None:
    try:
        device = gpu()
    except UnsupportedError as error:
        line("GPU", f"none: {error}")
        return
    line("device", device.name)
    line("date; load of the machine, cores", f"{time.strftime('%Y-%m-%d')}; {os.getloadavg()[0]:.1f}, {os.cpu_count()}")
    which = [a for a in sys.argv[1:] if a != "agree"]
    for name, part in (("noise", noise), ("table2", table2), ("lists", lists), ("nation", nation)):
        if not which or name in which:
            part(device)


if __name__ == "__main__":
    main()
