"""A synthetic nation of 8.1 million blocks: tree, formula, runs, joint optimum, a file through the command line; each beside its bar.

Times are processor time (the sum over threads) unless they say "wall"; the load of the machine is printed, since a busy one makes
even processor time longer. FAIRPOST_NATION_RUNS sets the runs of the audit (1,000), FAIRPOST_NATION_SCALE the part of the nation.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scipy import sparse

from fairpost.hierarchy import Hierarchy, Joint, LevelNoise, Simulation, TopDown, audit_hierarchy, mean_field
from fairpost.hierarchy.kernels.draw import draw_nodes
from fairpost.hierarchy.labels import Prefixes
from fairpost.hierarchy.nation import LEVELS, synthetic_nation
from fairpost.hierarchy.simulation import Block, leaf_part, upper_part
from fairpost.hierarchy.spec import guides_of, specify
from timing import cpu, line

RUNS = int(os.environ.get("FAIRPOST_NATION_RUNS", "1000"))
SCALE = float(os.environ.get("FAIRPOST_NATION_SCALE", "1"))


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(tree: Hierarchy, noise: LevelNoise, x: np.ndarray) -> np.ndarray:
    y = np.empty(tree.nodes)
    draw_nodes(noise.code, noise.spreads, *guides_of(noise), tree.offsets, np.uint64(1), np.uint64(0), y)
    return x + y


def trees(nation) -> Hierarchy:
    series = pl.Series(nation.geoids.astype(f"U{nation.geoids.dtype.itemsize}"), dtype=pl.String)
    seconds = cpu(lambda: Hierarchy.from_geoids(series, LEVELS), 2)
    line(
        f"GEOIDs of {len(series):,} rows (Polars text, sorted) to a tree",
        f"{seconds:.2f} s",
        "at most 1 s",
        seconds <= 1,
    )
    mixed = series.gather(np.random.default_rng(0).permutation(len(series)))
    line("  the same in random order", f"{cpu(lambda: Hierarchy.from_geoids(mixed, LEVELS), 1):.2f} s")
    return nation.tree()


def runs(tree: Hierarchy, noise: LevelNoise, x: np.ndarray, counts: np.ndarray) -> None:
    seconds = cpu(lambda: mean_field(x, noise, TopDown(tree)))
    line("mean field of all nodes", f"{seconds:.2f} s", "at most 1 s", seconds <= 1)
    line(
        "  with variances and the stated error",
        f"{cpu(lambda: mean_field(x, noise, TopDown(tree), moments=True), 1):.2f} s",
    )
    spec = specify(x, noise, TopDown(tree), None, None)
    planes, block = np.zeros((3, spec.n)), Block(0, spec.block)

    def one_block() -> None:
        leaf_part(spec, 0, block, upper_part(spec, 0, block), planes)

    ms = cpu(one_block) / spec.block * 1e3
    line("a top-down run: noise, projection, moments", f"{ms:.1f} ms", "at most 80 ms", ms <= 80)
    line("  a node", f"{ms / tree.nodes * 1e6:.2f} ns")
    memory(counts, tree)
    start, wall = time.process_time(), time.perf_counter()
    found = audit_hierarchy(counts, noise, "top-down", simulation=Simulation(runs=RUNS))
    wall, spent = time.perf_counter() - wall, time.process_time() - start
    line(
        f"audit of {RUNS:,} runs, wall (load {os.getloadavg()[0]:.1f})",
        f"{wall:.1f} s",
        "at most 60 s",
        wall <= 60 * RUNS / 1000,
    )
    line("  processor time; by two cores, wall at best", f"{spent:.1f} s; {spent / 2:.1f} s")
    leaf = found.leaves
    se = np.sqrt(RUNS / 1000) * leaf._error
    median, most = float(np.median(se)), float(np.quantile(se, 0.99))
    line("  standard error of a block, median (at 1,000 runs)", f"{median:.4f}", "at most 0.007", median <= 0.007)
    line("    99 %", f"{most:.4f}", "at most 0.015", most <= 0.015)
    gap = float(leaf.formula_error)
    line("  mean field against it, root mean square", f"{gap:.4f}", "at most 0.005", gap <= 0.005)
    line("  alpha over blocks", f"{leaf.alpha.value:.3f} ({leaf.alpha.low:.3f} to {leaf.alpha.high:.3f})")
    line("  people moved into empty blocks", f"{leaf._bias[leaf._truth == 0].sum():,.0f}")
    groups = found.level("block group")
    cuts = [
        ("empty blocks", leaf, leaf._truth == 0, 25),
        ("blocks of 1-9", leaf, (leaf._truth > 0) & (leaf._truth < 10), 100),
        ("blocks of 10 and more", leaf, leaf._truth >= 10, 100),
        ("block groups of 100 and more", groups, groups._truth >= 100, 1000),
    ]
    for what, level, some, bar in cuts:
        plain = (level._mse - level._bias**2)[some].mean()
        ratio = plain / max((level._error[some] ** 2).mean() * RUNS, 1e-300)
        line(f"  control: variance below plain, {what}", f"{ratio:,.0f} times", f"at least {bar:,}", ratio >= bar)
    line("  peak memory", f"{peak():,.0f} MiB")


ALONE = """
import sys
from pathlib import Path
import numpy as np
from fairpost.hierarchy import Hierarchy, LevelNoise, Simulation, TopDown, audit_hierarchy
from fairpost.hierarchy.nation import LEVELS
geoids, counts = np.load(sys.argv[1]), np.load(sys.argv[2])
tree = Hierarchy.from_geoids(geoids, LEVELS)
audit_hierarchy(counts, LevelNoise.census2020(tree), TopDown(tree), simulation=Simulation(runs=8))
print(next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")) / 1024)
"""
"""The peak is VmHWM: ru_maxrss keeps that of the process which started this one (getrusage(2): kept across execve)."""


def memory(counts: np.ndarray, tree: Hierarchy) -> None:
    """The peak of a process that only has the counts and GEOIDs, makes the tree and audits it in a block of runs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "geoids.npy", Path(folder) / "counts.npy"]
        assert isinstance(tree.labels, Prefixes)
        np.save(paths[0], tree.labels.bytes_of(tree.depth))
        np.save(paths[1], counts)
        done = subprocess.run([sys.executable, "-c", ALONE, *paths], check=True, capture_output=True, encoding="utf-8")
        used = float(done.stdout)
        line("  peak memory of an audit, input and all", f"{used:,.0f} MiB", "below 1 GB", used < 953)


def kkt(tree: Hierarchy, noise: LevelNoise, y: np.ndarray, v: np.ndarray) -> float:
    """Gradient over the leaves, less the multiplier of the state: 0 on free leaves, at least 0 on zeros."""
    g = np.zeros(tree.size(noise.top))
    owner = np.arange(g.size)
    for level in range(noise.top + 1, tree.depth + 1):
        here, parent = tree.span(level), tree.parents(level)
        g = g[parent] + (v[here] - y[here]) / noise.variances[level]
        owner = owner[parent]
    free = v[tree.span(tree.depth)] > 0
    base = np.bincount(owner, g * free) / np.maximum(np.bincount(owner, free), 1)
    return float(max(np.abs(g - base[owner])[free].max(), (base[owner] - g)[~free].max()))


def joint(tree: Hierarchy, noise: LevelNoise, x: np.ndarray) -> None:
    y, rule = measured(tree, noise, x), Joint(tree)
    from fairpost.hierarchy.kernels.rules import joint as kernel

    out, work = np.empty(tree.nodes), np.empty((4, int(tree.offsets[-2])))
    K = np.empty(tree.size(tree.depth - 1), dtype=np.int64)
    passes = kernel(tree.child, tree.offsets, noise.top, noise.variances, y, out, work, K)
    seconds = cpu(lambda: kernel(tree.child, tree.offsets, noise.top, noise.variances, y, out, work, K))
    line(f"joint optimum, {tree.n:,} leaves, {passes} passes", f"{seconds:.3f} s", "at most 0.2 s", seconds <= 0.2)
    worst = kkt(tree, noise, y, rule.apply(y, noise))
    line("  optimality, largest violation", f"{worst:.1e}", "at most 1e-9", worst <= 1e-9)


def beside_piqp() -> None:
    try:
        import piqp
    except ImportError:
        line("PIQP", "not installed")
        return
    nation = synthetic_nation(0, 200_000 / 8_132_968)
    tree = nation.tree()
    noise = LevelNoise.census2020(tree)
    y = measured(tree, noise, tree.sums(nation.counts))
    v = Joint(tree).apply(y, noise)
    ours = cpu(lambda: Joint(tree).apply(y, noise), 5)
    inner = int(tree.offsets[-2])
    rows = np.concatenate([np.repeat(np.arange(inner), np.diff(tree.child)), np.arange(inner)])
    columns = np.concatenate([np.arange(1, tree.nodes), np.arange(inner)])
    entries = np.concatenate([np.ones(tree.nodes - 1), -np.ones(inner)])
    A = sparse.csr_array((entries, (rows, columns)), shape=(inner, tree.nodes))
    fixed = int(tree.offsets[2])
    A = sparse.vstack([A, sparse.eye_array(tree.nodes, format="csr")[:fixed]])
    level = np.repeat(np.arange(len(tree.names)), np.diff(tree.offsets))
    weight = np.array([0.0 if s == 0 else 1 / s for s in noise.variances])[level]
    solver = piqp.SparseSolver()
    start = time.process_time()
    solver.setup(
        sparse.csc_matrix(sparse.diags_array(weight)), -weight * y, sparse.csc_matrix(A),
        np.concatenate([np.zeros(inner), y[:fixed]]), x_l=np.zeros(tree.nodes), x_u=np.full(tree.nodes, np.inf),
    )  # fmt: skip
    solver.solve()
    theirs = time.process_time() - start
    line(
        f"joint optimum, {tree.n:,} leaves: ours; PIQP at its default tolerance", f"{ours * 1e3:.1f} ms; {theirs:.2f} s"
    )
    line("  times faster", f"{theirs / ours:,.0f}", "at least 100", theirs / ours >= 100)
    line("  largest difference, in people", f"{np.abs(solver.result.x - v).max():.1e}")


def through_a_file(nation) -> None:
    """Parquet in, mean field, Parquet out, as a command."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "nation.parquet", Path(folder) / "audit.parquet"
        ids = nation.geoids.astype(f"U{nation.geoids.dtype.itemsize}")
        pl.DataFrame({"id": ids, "count": nation.counts.astype(np.int64)}).write_parquet(path)
        del ids
        command = [
            sys.executable, "-m", "fairpost", "audit", path, "--method", "mean-field", "--postprocess", "top-down", "--levels",
            ",".join(f"{k}:{v}" for k, v in LEVELS.items()), "--level-sigma", "0,1.894,1.528,1.130,3.117", "--csv", out,
        ]  # fmt: skip
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        wall = time.perf_counter() - wall
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        line(
            f"Parquet to audit to Parquet, wall (load {os.getloadavg()[0]:.1f})",
            f"{wall:.1f} s",
            "at most 20 s",
            wall <= 20,
        )
        line("  processor time", f"{spent:.1f} s")
        line("  peak memory", f"{after.ru_maxrss / 1024:,.0f} MiB", "at most 3 GB", after.ru_maxrss / 1024 <= 2861)


def main() -> None:
    line("load of the machine, cores", f"{os.getloadavg()[0]:.1f}, {os.cpu_count()}")
    start = time.process_time()
    nation = synthetic_nation(0, SCALE)
    line(f"a synthetic nation of {nation.counts.size:,} blocks", f"{time.process_time() - start:.1f} s")
    tree = trees(nation)
    noise, x = LevelNoise.census2020(tree), tree.sums(nation.counts)
    which = sys.argv[1:] if sys.argv[0].endswith("bench_nation.py") else []
    if not which or "runs" in which:
        runs(tree, noise, x, nation.counts)
    if not which or "joint" in which:
        joint(tree, noise, x)
        beside_piqp()
    if not which or "file" in which:
        del tree, noise, x
        through_a_file(nation)


if __name__ == "__main__":
    main()
