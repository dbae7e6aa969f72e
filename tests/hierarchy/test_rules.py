"""Trees, noise by level and the rules: against enumeration, other solvers, and what must hold for every draw."""

import numpy as np
import polars as pl
import pytest

import fairpost as fp
from fairpost.errors import CountsError, ParameterError
from fairpost.hierarchy import Hierarchy, Joint, LevelNoise, TopDown, Unclipped
from fairpost.hierarchy.kernels import draw, families
from fairpost.hierarchy.nation import UNITS, _parts, synthetic_nation
from fairpost.hierarchy.rules import Pooling, rule_of
from fairpost.noise.kernels import guide as guides
from fairpost.noise.kernels import streams
from fairpost.rules import AffineNonnegative
from fairpost.rules.threshold import SimplexThreshold, Threshold
from support.hierarchies import GEOIDS, TABLES, bushy, consistent, constraints, enumeration, rules, seven

# ---------------------------------------------------------------- trees

IDS = ["1100", "1101", "1210", "2111", "2112", "2200"]
PREFIXES = {"s": 1, "c": 2, "leaf": 4}


def test_a_tree_by_prefixes_has_the_nodes_and_sums_it_should():
    tree = Hierarchy.from_geoids(IDS, PREFIXES)
    assert [tree.size(k) for k in range(4)] == [1, 2, 4, 6]
    assert tree.ids("s") == ["1", "2"]
    assert tree.ids("c") == ["11", "12", "21", "22"]
    assert tree.ids("leaf") == IDS
    sums = tree.split(tree.sums([1, 2, 4, 8, 16, 32]))
    assert [s.tolist() for s in sums] == [[63.0], [7.0, 56.0], [3.0, 4.0, 24.0, 32.0], [1, 2, 4, 8, 16, 32]]
    assert tree.parents(3).tolist() == [0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize("digits", [True, False], ids=["digits", "letters"])
@pytest.mark.parametrize(
    "kind", [list, np.array, lambda i: np.array(i, dtype="S4"), pl.Series], ids=["list", "U", "S", "pl"]
)
def test_any_order_of_rows_gives_the_same_tree_and_keeps_its_order(kind, digits):
    ids = IDS if digits else [i.replace("1", "x") for i in IDS]
    order = [3, 0, 5, 4, 1, 2]
    tree, shuffled = (
        Hierarchy.from_geoids(kind(ids), PREFIXES),
        Hierarchy.from_geoids(kind([ids[i] for i in order]), PREFIXES),
    )
    assert (tree.child == shuffled.child).all()
    assert shuffled.ids("leaf") == [ids[i] for i in order]
    assert [shuffled.id_of(3, k) for k in range(6)] == [ids[i] for i in order]
    x = np.arange(6.0)
    assert (shuffled.sums(x[order]) == tree.sums(x)).all()
    parts = shuffled.split(shuffled.sums(x[order]))
    assert (parts[-1] == x[order]).all()
    assert (shuffled.join(parts) == shuffled.sums(x[order])).all()


def test_labels_give_the_tree_of_the_prefixes():
    columns = [[i[:1] for i in IDS], [i[:2] for i in IDS]]
    by_labels = Hierarchy.from_labels(columns, ["s", "c"], ids=IDS)
    assert by_labels.names == ("all", "s", "c", "leaf")
    assert (by_labels.child == Hierarchy.from_geoids(IDS, PREFIXES).child).all()
    assert by_labels.ids("c") == ["1/11", "1/12", "2/21", "2/22"]
    assert by_labels.ids("leaf") == IDS
    frame = pl.DataFrame({"s": columns[0], "c": columns[1], "id": IDS})
    assert (Hierarchy.from_columns(frame, ["s", "c"], id="id").child == by_labels.child).all()
    with pytest.raises(ParameterError, match="got 'nowhere'"):
        Hierarchy.from_columns({"a": ["1"]}, ["nowhere"])
    own = Hierarchy.from_labels([["NY", "NY", "MA"], ["1", "2", "1"]], ["state", "county"])
    assert own.ids("county") == ["NY/1", "NY/2", "MA/1"]


def test_a_nation_has_its_shape_and_the_same_seed_the_same_people():
    nation, again = synthetic_nation(3, 0.002), synthetic_nation(3, 0.002)
    assert (nation.counts == again.counts).all()
    assert (nation.geoids == again.geoids).all()
    assert abs(np.mean(nation.counts == 0) - 0.349) < 1e-3
    assert abs(nation.counts.sum() / (0.002 * 330.1e6) - 1) < 0.01
    tree = nation.tree()
    assert tree.size(1) == 51
    assert tree.order is None
    assert _parts(np.random.default_rng(0), np.ones(1000), UNITS["county"], 0.5, 40).sum() == UNITS["county"]
    with pytest.raises(ParameterError, match="scale"):
        synthetic_nation(0, 2.0)


# ---------------------------------------------------------------- noise


def test_the_census_of_2020():
    tree = Hierarchy.from_geoids(["440010301001000"], GEOIDS)
    noise = LevelNoise.census2020(tree)
    assert np.round(noise.spreads, 3).tolist() == [0, 0, 1.894, 1.528, 1.130, 3.117]
    assert noise.top == 1
    by_sigma = LevelNoise(tree, sigmas=noise.spreads[1:])
    assert by_sigma.spreads.tolist() == noise.spreads.tolist()
    shares = 2555 / 4099  # of county, tract, block group and block
    assert noise.spent == pytest.approx(noise.rho * shares, rel=1e-12)


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "discrete-laplace", "discrete-gaussian"])
def test_noise_by_rho_is_that_of_the_mechanism(kind):
    tree = seven()[0]
    noise = LevelNoise(tree, rho=0.5, split=[0.25, 0.75], kind=kind, sensitivity=2.0)
    for k, share in ((1, 0.25), (2, 0.75)):
        made = fp.noise.mechanism_of(kind, rho=0.5 * share, neighbours=fp.noise.Neighbours(2.0))
        assert noise.mechanisms[k] == made
        assert noise.variances[k] == made.variance
    assert noise.mechanisms[0] is None


def test_exact_levels_make_the_levels_above_exact():
    tree = Hierarchy.from_geoids(IDS, PREFIXES)
    noise = LevelNoise(tree, sigmas=[2.0, 3.0, 4.0, 5.0], exact=["c"])
    assert noise.spreads.tolist() == [0, 0, 0, 5]
    assert LevelNoise(tree, sigmas=[2.0, 3.0, 4.0, 5.0]).top == -1
    assert LevelNoise(tree, sigmas={"leaf": 5.0}).spreads.tolist() == [0, 0, 0, 5]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (dict(sigmas=[1.0]), "got 1"),
        (dict(sigmas=[1.0, -1.0, 1.0]), "got -1.0 for level 'c'"),
        (dict(sigmas=[1.0, 1.0, 0.0]), "'leaf', must have noise"),
        (dict(rho=1.0), "neither or both"),
        (dict(rho=1.0, split=[0.5, 0.5, 0.5]), "sum of 1.5"),
        (dict(rho=-1.0, split=[0.2, 0.2, 0.2]), "`rho`"),
        (dict(sigmas=[1, 1, 1], kind="normal"), "`kind`"),
        (dict(sigmas=[1, 1, 1], exact=["town"]), "got 'town'"),
        (dict(sigmas=[1, "a", 1]), "got 'a'"),
    ],
)
def test_bad_noise_is_named(given, word):
    with pytest.raises(ParameterError, match=word):
        LevelNoise(Hierarchy.from_geoids(IDS, PREFIXES), **given)


@pytest.mark.parametrize("sigma", [0.05, 0.7, 1.13, 3.117, 6.0, 8.0])
def test_the_guide_table_draws_the_bits_of_the_stream(sigma):
    guide, cuts = np.zeros(guides.BINS, np.uint8), np.zeros(guides.MOST)
    if sigma <= guides.GUIDED:
        guides.guide_of(sigma, guide, cuts)
    out = np.empty(40_001)
    draw.draw(draw.DISCRETE_GAUSSIAN, out, 0, sigma, guide, cuts, np.uint64(5), np.uint64(9))
    assert out.tobytes() == streams.discrete_gaussian(40_001, sigma, 5, 9).tobytes()
    part = np.empty(1000)
    draw.draw(draw.DISCRETE_GAUSSIAN, part, 333, sigma, guide, cuts, np.uint64(5), np.uint64(9))
    assert (part == out[333:1333]).all()


# ---------------------------------------------------------------- rules against enumeration and other solvers


def test_seven_nodes_by_enumeration():
    """Every draw of probability above 1e-15; the tables have 9 decimals, and 1e-8 is the bar."""
    tree, noise = seven()
    eta, weight = enumeration()
    assert abs(weight.sum() - 1) < 2e-9
    y = np.full((len(eta), 7), 10.0)
    y[:, 1:] = np.array([3.0, 7.0, 0.0, 3.0, 1.0, 6.0]) + eta
    for name, rule in rules(tree).items():
        found = (weight / weight.sum()) @ rule.apply(y, noise)
        assert np.abs(found[1:] - TABLES[name]).max() < 1e-8, name


@pytest.mark.parametrize("top", [-1, 0, 1])
def test_joint_is_the_optimum_of_an_independent_solver(top):
    piqp = pytest.importorskip("piqp")
    from scipy import sparse

    rng = np.random.default_rng(10 + top)
    tree, x = bushy(rng)
    sigmas = np.array([2.0, 1.5, 3.0, 0.8, 2.5])
    sigmas[: top + 1] = 0.0
    noise = LevelNoise(tree, sigmas=sigmas, kind="gaussian")
    level = np.repeat(np.arange(5), np.diff(tree.offsets))
    y = tree.sums(x) + sigmas[level] * rng.normal(size=tree.nodes)
    v = Joint(tree).apply(y, noise)
    precision = np.array([1e-30 if s == 0 else 1 / s**2 for s in sigmas])[level]
    A, b = constraints(tree), np.zeros(int(tree.offsets[-2]))
    fixed = np.flatnonzero(level <= top)
    A = sparse.vstack([A, sparse.eye_array(tree.nodes, format="csr")[fixed]])
    b = np.concatenate([b, y[fixed]])
    solver = piqp.SparseSolver()
    for setting in ("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"):
        setattr(solver.settings, setting, 1e-12)
    solver.setup(
        sparse.csc_matrix(sparse.diags_array(precision)), -precision * y, sparse.csc_matrix(A), b,
        x_l=np.zeros(tree.nodes), x_u=np.full(tree.nodes, np.inf),
    )  # fmt: skip
    solver.solve()
    # an interior-point solution at 1e-12 is within its square root, times the scale, of the vertex of active bounds
    assert np.abs(v - solver.result.x).max() < 1e-5 * max(1.0, y[0])
    assert kkt(tree, noise, y, v) < 1e-9 * max(1.0, np.abs(y).max())


def kkt(tree: Hierarchy, noise: LevelNoise, y: np.ndarray, v: np.ndarray) -> float:
    """The largest violation of optimality over leaves: gradient 0 on free ones, >= 0 on zeros, both up to the multiplier of
    the deepest exact node above; sums and exact levels included."""
    g = np.zeros(tree.nodes)
    owner = np.zeros(tree.nodes, dtype=int)
    for level in range(tree.depth + 1):
        here = tree.span(level)
        s2 = noise.variances[level]
        own = (v[here] - y[here]) / s2 if s2 > 0 else np.zeros(tree.size(level))
        if level:
            above = tree.offsets[level - 1] + tree.parents(level)
            own = own + g[above]
            owner[here] = owner[above]
        if level <= noise.top:
            own, owner[here] = np.zeros(tree.size(level)), np.arange(here.start, here.stop)
        g[here] = own
    leaves = tree.span(tree.depth)
    g, owner, value = g[leaves], owner[leaves], v[leaves]
    worst = consistent(tree, v) * max(1.0, v[0])
    if noise.top >= 0:
        worst = max(worst, np.abs(v[: tree.offsets[noise.top + 1]] - y[: tree.offsets[noise.top + 1]]).max())
    for k in np.unique(owner):
        mine = owner == k
        free = mine & (value > 0)
        if noise.top >= 0 and not free.any():
            continue
        base = g[free].mean() if noise.top >= 0 else 0.0
        if free.any():
            worst = max(worst, np.abs(g[free] - base).max() * noise.variances[-1])
        zero = mine & (value == 0)
        if zero.any():
            worst = max(worst, (base - g[zero]).max() * noise.variances[-1])
    return float(worst)


def test_joint_with_equal_variances_is_the_affine_projection():
    rng = np.random.default_rng(5)
    tree, x = bushy(rng)
    noise = LevelNoise(tree, sigmas=[2.0] * 4, kind="gaussian")
    A = constraints(tree)
    root = np.zeros((1, tree.nodes))
    root[0, 0] = 1.0
    from scipy import sparse

    b = np.concatenate([np.zeros(A.shape[0]), [x.sum()]])
    pi = AffineNonnegative(sparse.vstack([A, sparse.csr_array(root)]), b)
    y = tree.sums(x) + 2.0 * rng.normal(size=(20, tree.nodes))
    y[:, 0] = x.sum()
    assert np.abs(Joint(tree).apply(y, noise) - pi(y)).max() < 1e-8


def test_joint_meets_its_conditions_on_a_large_tree():
    nation = synthetic_nation(1, 0.01)
    tree = nation.tree()
    noise = LevelNoise.census2020(tree)
    rng = np.random.default_rng(0)
    y = tree.sums(nation.counts)
    y += np.repeat(noise.spreads, np.diff(tree.offsets)) * rng.normal(size=tree.nodes)
    v = Joint(tree).apply(y, noise)
    # sums of up to 1e5 terms of up to 4e5 people each, rounded to 2^-53: 1e-9 of a person is ten times that
    assert kkt(tree, noise, y, v) < 1e-9 * 10


def test_a_tree_of_one_level_is_the_simplex():
    rng = np.random.default_rng(2)
    tree = Hierarchy.from_labels([[f"{i:03}" for i in range(200)]])
    noise = LevelNoise(tree, sigmas=[3.0])
    y = np.round(rng.normal(0, 6, (30, 201)))
    y[:, 0] = 150.0
    y[:, 1:5] += 40
    for rule in (TopDown(tree), TopDown(tree, pool=True), Joint(tree)):
        v = rule.apply(y, noise)
        assert np.abs(v[:, 1:] - fp.project_simplex(y[:, 1:], 150.0)).max() < 1e-10, rule.label
    best = Threshold.best(fp.DiscreteGaussian(3.0))
    kept = TopDown(tree, threshold="best").apply(y, noise)
    assert np.abs(kept[:, 1:] - SimplexThreshold(150.0, threshold=best)(y[:, 1:])).max() < 1e-9
    given = TopDown(tree, threshold=best.level).apply(y, noise)
    assert (given == kept).all()
    assert TopDown(tree, threshold=0.0).apply(y, noise).tobytes() == TopDown(tree).apply(y, noise).tobytes()


def test_the_unclipped_estimate_is_least_squares():
    """Against a dense solve of the normal equations over the leaves, and its variances against theirs."""
    rng = np.random.default_rng(3)
    tree, x = bushy(rng, families=6, most=5)
    sigmas = np.array([2.0, 1.5, 3.0, 0.8, 2.5])
    noise = LevelNoise(tree, sigmas=sigmas, kind="gaussian")
    level = np.repeat(np.arange(5), np.diff(tree.offsets))
    design = np.stack([tree.sums(tree.from_tree(row)) for row in np.eye(tree.n)], axis=1)
    weighted = design / sigmas[level][:, None]
    y = tree.sums(x) + sigmas[level] * rng.normal(size=tree.nodes)
    leaves = np.linalg.lstsq(weighted, y / sigmas[level], rcond=None)[0]
    assert np.abs(Unclipped(tree).apply(y, noise) - design @ leaves).max() < 1e-8
    cover = design @ np.linalg.inv(weighted.T @ weighted) @ design.T
    assert np.abs(Pooling.of(noise).unclipped(noise) - np.diag(cover)).max() < 1e-10


# ---------------------------------------------------------------- what holds for every draw

KINDS = ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian")
ALL = ("top-down", "blue-down", "joint", "top-down-threshold", "blue-down-threshold")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("root", [True, False], ids=["root known", "root noisy"])
def test_every_node_of_every_draw_is_consistent_and_not_negative(name, root):
    rng = np.random.default_rng(7)
    tree, x = bushy(rng)
    x[: tree.n // 3] = 0
    for kind in KINDS:
        sigmas = [0.0 if root else 4.0, 4.0, 2.0, 3.0, 5.0]
        noise = LevelNoise(tree, sigmas=sigmas, kind=kind)
        level = np.repeat(np.arange(5), np.diff(tree.offsets))
        y = tree.sums(x) + np.array(sigmas)[level] * rng.normal(size=(40, tree.nodes))
        y = np.round(y) if "discrete" in kind else y
        y[:, 0] = x.sum() if root else y[:, 0]
        y[0, 1:] -= 1000.0  # everything negative
        v = rule_of(name, tree).apply(y, noise)
        assert (v >= 0).all(), kind
        # a family's sum is right to some units in the last place of the largest measurement in it
        assert consistent(tree, v) < 1e-12 * 1000, kind
        if root:
            assert np.abs(v[:, 0] - x.sum()).max() < 1e-12 * x.sum()


def test_a_target_below_the_rounding_of_the_largest_entry_ends():
    for target in (5e-324, 1e-300, 1e-12, 1.0):
        y, out = np.array([1e9, 1e9 - 3, -5.0, 2.0]), np.empty(4)
        families.project(y, target, out)
        assert (out >= 0).all()
        assert out.sum() == pytest.approx(target, rel=1e-6, abs=0) or target == 1e-12
        V = np.array([1.0, 2.0, 3.0, 4.0])
        families.weighted_family(y, V, target, np.zeros(1), 1.0, out)
        assert (out >= 0).all()
        families.weighted_family(y, V, target, np.array([2.0]), 3.0, out)
        assert (out >= 0).all()
    families.project(y, 0.0, out)
    assert (out == 0).all()


def test_weighted_families_are_projections():
    """v minimises sum (v - z)^2 / V: compared with a long bisection on m, also with a threshold where it is a ramp."""
    rng = np.random.default_rng(4)
    for steep, tau in ((1.0, 0.0), (3.0, 2.0), (np.inf, 1.5)):
        z, V, target = rng.normal(2, 5, (50, 7)), rng.uniform(0.5, 3, (50, 7)), rng.uniform(0.1, 30, 50)
        out = np.empty((50, 7))
        for row in range(50):
            families.weighted_family(z[row], V[row], float(target[row]), np.array([tau]), steep, out[row])
        assert out.sum(axis=1) == pytest.approx(target, rel=1e-9)
        low, high = np.full(50, -200.0), np.full(50, 200.0)
        for _ in range(200):
            m = (low + high) / 2
            u = z - m[:, None] * V
            kept = np.where(u > tau, np.minimum(u, steep * (u - tau)) if steep < np.inf else u, 0.0)
            more = kept.sum(axis=1) > target
            low, high = np.where(more, m, low), np.where(more, high, m)
        same = (np.abs(out - kept) < 1e-6).sum(axis=1)
        assert (same >= (6 if steep == np.inf else 7)).all()  # in a jump one entry takes the remainder


@pytest.mark.parametrize("name", ALL)
def test_rounding_keeps_every_sum_and_moves_nothing_by_one(name):
    rng = np.random.default_rng(8)
    tree, x = bushy(rng)
    noise = LevelNoise(tree, sigmas=[0.0, 2.0, 2.0, 3.0])
    y = np.round(tree.sums(x) + 3 * rng.normal(size=(50, tree.nodes)))
    y[:, : tree.offsets[2]] = tree.sums(x)[: tree.offsets[2]]
    real = rule_of(name, tree).apply(y, noise)
    whole = rule_of(name, tree, whole=True).apply(y, noise, seed=3)
    assert (whole == np.round(whole)).all()
    assert (whole >= 0).all()
    assert consistent(tree, whole) == 0
    assert np.abs(whole - real).max() < 1
    assert (whole[:, : tree.offsets[2]] == y[:, : tree.offsets[2]]).all()


def test_rounding_has_no_bias():
    """Each leaf's mean error over its own standard error has mean 0 and deviation 1 (2,000 leaves: 1 +- 4/sqrt(4000))."""
    rng = np.random.default_rng(9)
    tree = Hierarchy.from_labels([[f"{i // 20:03}" for i in range(2000)], [f"{i:04}" for i in range(2000)]])
    noise = LevelNoise(tree, sigmas=[1.0, 1.0], kind="gaussian")
    y = tree.sums(rng.uniform(0, 9, 2000))
    y[0] = np.round(y[0])
    v = TopDown(tree).apply(y, noise)
    rounds = TopDown(tree, rounding="whole").apply(np.tile(y, (400, 1)), noise, seed=1)
    for here in (tree.span(2), tree.span(1)):
        f = v[here] - np.floor(v[here])
        z = (rounds[:, here].mean(axis=0) - v[here]) / np.sqrt(np.maximum(f * (1 - f), 1e-12) / 400)
        assert np.abs(z).max() < 5.5
        if here == tree.span(2):  # 100 parents, a variable each; the parents themselves share one
            assert abs(z.mean()) < 4.5 / np.sqrt(z.size)
            assert abs(z.std() - 1) < 4.5 / np.sqrt(2 * z.size)


REFUSED = [
    (lambda tree, noise: TopDown(seven()[0]).apply(np.zeros(7), noise), "same hierarchy"),
    (lambda tree, noise: TopDown(tree).apply(np.zeros(6), noise), "7 nodes"),
    (lambda tree, noise: TopDown(tree).apply([10, 3, 7, np.nan, 1, 1, 1], noise), "for node 3"),
    (lambda tree, noise: TopDown(tree, rounding="up"), "rounding"),
    (lambda tree, noise: TopDown(tree, threshold="worst"), "threshold"),
    (lambda tree, noise: TopDown(tree, threshold=-1.0), "at least 0"),
    (lambda tree, noise: rule_of("simplex", tree), "got 'simplex'"),
    (
        lambda tree, noise: TopDown(tree, rounding="whole").apply([10.5, 3, 7, 0, 3, 1, 6], noise),
        r"whole number, got 10\.5",
    ),
]


@pytest.mark.parametrize(("asked", "says"), REFUSED)
def test_what_a_rule_refuses(asked, says):
    with pytest.raises((CountsError, ParameterError), match=says):
        asked(*seven())
