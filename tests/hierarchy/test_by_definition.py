"""Numbers of hierarchies, each computed again by plain NumPy on small trees: fields, runs, sums, intervals, labels, splits.

The oracle below shares no formula's code with the library: noise comes from the streams, expectations are sums over masses or
Gauss-Legendre integrals, families are solved by sorting or by a bracketing root finder, estimates by a dense system of equations.
"""

import hashlib
import json
import signal
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from scipy.stats import t as student_t

from fairpost import cancel
from fairpost.accuracy import Estimate
from fairpost.counts import Counts
from fairpost.errors import Cancelled, CountsError, LostError, ParameterError, UnsupportedError
from fairpost.hierarchy import (
    Hierarchy,
    Joint,
    LevelNoise,
    Simulation,
    TopDown,
    Unclipped,
    audit_hierarchy,
    blocks,
    cell_runs,
    mean_field,
    nation,
    plan,
    simulation,
    spec,
    total_first,
)
from fairpost.hierarchy import labels as labelling
from fairpost.hierarchy.checkpoint import fingerprint
from fairpost.hierarchy.histogram import audit_histogram
from fairpost.hierarchy.meanfield import tails_of
from fairpost.hierarchy.result import LIMITS, HierarchyAudit, LevelResult, Part, _range
from fairpost.hierarchy.rules import Pooling, rule_of
from fairpost.noise import MECHANISMS, DiscreteLaplace, Gaussian, Threshold, mechanism_of
from fairpost.noise.kernels import guide, streams
from fairpost.noise.privacy import Neighbours

# ---------------------------------------------------------------- the tree of most tests

ROWS = {  # county, group: leaves
    ("A", "a"): (0, 3, 12, 60), ("A", "b"): (0, 0, 0), ("A", "c"): (7,), ("B", "d"): (250, 1, 2, 0, 5), ("C", "e"): (4, 11),
    ("C", "f"): (0, 9, 55),
}  # fmt: skip
SORTED = [
    (county, group, f"{group}{k}", float(x)) for (county, group), part in ROWS.items() for k, x in enumerate(part)
]
ORDER = np.random.default_rng(7).permutation(len(SORTED))
GIVEN = [SORTED[i] for i in ORDER]
"""The leaves in another order than the tree's."""
X = np.array([row[3] for row in GIVEN])
GROUPS = ["rural" if i % 3 else "urban" for i in range(18)]
AREAS = ["north", "south", None, "north", "south", "", "south", "west", float("nan")] * 2
TREE = Hierarchy.from_labels(
    [[row[k] for row in GIVEN] for k in range(2)], ["county", "group", "leaf"], [row[2] for row in GIVEN]
)
TRUTH = TREE.sums(X)


def children(p):
    return np.arange(TREE.child[p], TREE.child[p + 1])


at_level = np.repeat(np.arange(4), [1, 3, 6, 18])
INNER = 10


# ---------------------------------------------------------------- the oracle


def kept(u, tau=0.0, steep=1.0):
    """What a threshold leaves of u."""
    if steep == 1.0:
        return np.maximum(u, 0.0)
    return np.where(u > tau, np.minimum(u, steep * (u - tau)), 0.0)


def slope(u, tau=0.0, steep=1.0):
    if steep == 1.0:
        return (u > 0) * 1.0
    return np.where(u > tau, np.where(u > tau + tau / (steep - 1), 1.0, steep), 0.0)


def law(kind, spread):
    """Points and masses; for Gaussian noise None and sigma."""
    k = np.arange(-200.0, 201.0)
    p = np.exp(-np.abs(k) / spread) if "laplace" in kind else np.exp(-0.5 * (k / spread) ** 2)
    return (None, spread) if kind == "gaussian" else (k, p / p.sum())


def expect(f, a, noise, breaks=(0.0,)):
    """E[f(a + eta)]; for Gaussian noise by Gauss-Legendre between the points where f has a kink."""
    k, p = noise
    if k is not None:
        return float((p * f(a + k)).sum())
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = sorted({a - 10 * p, a + 10 * p, a, *(b for b in breaks if abs(b - a) < 10 * p)})
    total = 0.0
    for low, high in pairwise(edges):
        u = 0.5 * (low + high) + 0.5 * (high - low) * nodes
        total += 0.5 * (high - low) * (weights * f(u) * norm.pdf(u, a, p)).sum()
    return float(total)


def first_above(a, noise):
    """The mass of the first point above 0 of a + eta; the density there."""
    k, p = noise
    if k is None:
        return float(norm.pdf(0.0, a, p))
    return float(p[np.argmax(a + k > 0)])


def pooled_variances(noise):
    """V of all nodes and W of inner ones, from the leaves up."""
    V, W = np.zeros(28), np.zeros(INNER)
    V[INNER:] = noise.variances[3]
    for p in range(INNER - 1, -1, -1):
        W[p] = V[children(p)].sum()
        s2 = noise.variances[at_level[p]]
        V[p] = 0.0 if s2 == 0 else 1 / (1 / s2 + 1 / W[p])
    return V, W


def field_of(noise, rule, x=TRUTH):
    """Mean field: bias, m, P, variance and remainder of all nodes."""
    taus, steeps = rule.thresholds(noise)
    V, _ = pooled_variances(noise)
    bias, m, P = np.zeros(28), np.full(28, np.inf), np.ones(28)
    variance, rest = np.zeros(28), np.zeros(28)
    variance[0] = V[0] if rule.pools else noise.variances[0]
    if noise.top < 0:
        own = (None, np.sqrt(V[0])) if rule.pools else law(noise.kind, noise.spreads[0])
        bias[0] = expect(kept, x[0], own) - x[0]
    for p in range(int(TREE.offsets[max(noise.top, 0)]), INNER):
        below, k = children(p), at_level[p] + 1
        if below.size == 1:
            bias[below], variance[below], rest[below] = bias[p], variance[p], rest[p]
            continue
        straight = not rule.pools or k == 3
        w = np.ones(below.size) if straight else V[below]
        laws = [law(noise.kind, noise.spreads[k]) if straight else (None, np.sqrt(V[c])) for c in below]
        tau, steep = taus[k], steeps[k]
        breaks = (0.0,) if steep == 1 else (tau, tau + tau / (steep - 1))
        target = x[p] + bias[p]
        if target <= 0:
            bias[below], P[below] = -x[below], 0.0
            continue

        def mean(f, c, at, w=w, laws=laws, below=below, breaks=breaks):
            return expect(f, x[below[c]] - at * w[c], laws[c], breaks)

        def f(u, tau=tau, steep=steep):
            return kept(u, tau, steep)

        many = range(below.size)
        m[p] = brentq(lambda at: sum(mean(f, c, at) for c in many) - target, -900, 900, xtol=1e-14, rtol=1e-14)  # noqa: B023
        values = np.array([mean(f, c, m[p]) for c in many])
        squares = np.array([mean(lambda u: f(u) ** 2, c, m[p]) for c in many])
        chance = np.array([mean(lambda u: slope(u, tau, steep), c, m[p]) for c in many])  # noqa: B023
        bend = np.array([first_above(x[below[c]] - m[p] * w[c] - tau, laws[c]) / 2 for c in many]) * steep
        own, K = squares - values**2, (chance * w).sum()
        shaking = (own.sum() + variance[p]) / K**2
        pull = chance * w / K
        variance[below] = own * (1 - 2 * pull) + pull**2 * (own.sum() + variance[p])
        some = bend * w**2 * shaking - values * np.maximum(1 - chance, 0) * w / K
        rest[below] = some - chance * w * (some.sum() - rest[p]) / K
        bias[below] = values - x[below]
        if straight:
            P[below] = chance
    return SimpleNamespace(bias=bias, m=m[:INNER], P=P, variance=variance, rest=rest)


def onto(y, target, w, tau=0.0, steep=1.0):
    """kept(y - m w) of the sum `target`."""
    if y.size == 1:
        return np.array([target])
    if target <= 0:
        return np.zeros(y.size)
    if steep == 1.0:
        order = np.argsort(-y / w)
        for n in range(1, y.size + 1):
            some = order[:n]
            m = (y[some].sum() - target) / w[some].sum()
            if n == y.size or y[order[n]] <= m * w[order[n]]:
                return np.maximum(y - m * w, 0.0)
    m = brentq(lambda at: kept(y - at * w, tau, steep).sum() - target, -1e4, 1e4, xtol=1e-13, rtol=1e-14)
    return kept(y - m * w, tau, steep)


def measured(noise, seed, runs, x=TRUTH):
    """Truth and noise of all nodes, a row a run, from the streams."""
    draw = getattr(streams, noise.kind.replace("-", "_"))
    y = np.tile(x, (runs, 1))
    for run in range(runs):
        for k in range(4):
            if noise.spreads[k] > 0:
                y[run, at_level == k] += draw(28, float(noise.spreads[k]), seed, run)[at_level == k]
    return y


def least_squares(noise):
    """The matrix from measurements to the unclipped estimate of all nodes: a dense system with the exact levels as constraints."""
    design = np.zeros((28, 18))
    design[INNER:] = np.eye(18)
    for p in range(INNER - 1, -1, -1):
        design[p] = design[children(p)].sum(axis=0)
    s2 = noise.variances[at_level]
    noisy, exact = np.flatnonzero(s2 > 0), np.flatnonzero(s2 == 0)
    N, E = design[noisy] / s2[noisy][:, None], design[exact]
    system = np.block([[N.T @ design[noisy], E.T], [E, np.zeros((exact.size, exact.size))]])
    right = np.zeros((18 + exact.size, 28))
    right[:18, noisy] = N.T
    right[18 + np.arange(exact.size), exact] = 1.0
    return design @ (np.linalg.pinv(system, rcond=1e-12) @ right)[:18]


def outputs(noise, rule, y):
    """v of the rule and the unclipped estimate beside it, a row a run."""
    taus, steeps = rule.thresholds(noise)
    V, W = pooled_variances(noise)
    u, z = y @ least_squares(noise).T, y.copy()
    if not rule.pools:
        u = y.copy()
        for p in range(INNER):
            if at_level[p] < noise.top:
                continue
            u[:, children(p)] -= ((y[:, children(p)].sum(axis=1) - u[:, p]) / children(p).size)[:, None]
    else:
        for p in range(INNER - 1, -1, -1):
            s2 = noise.variances[at_level[p]]
            if s2 > 0:
                z[:, p] = (y[:, p] / s2 + z[:, children(p)].sum(axis=1) / W[p]) / (1 / s2 + 1 / W[p])
    if not rule.by_families:
        return rule.apply(y, noise), u
    v = z.copy()
    v[:, 0] = np.maximum(v[:, 0], 0.0)
    for run in range(len(v)):
        for p in range(INNER):
            k, below = at_level[p] + 1, children(p)
            if k > noise.top:
                w = V[below] if rule.pools and k < 3 else np.ones(below.size)
                v[run, below] = onto(z[run, below], v[run, p], w, taus[k], steeps[k])
    return v, u


def remainders(noise, rule, y, v, u, field):
    """r of all nodes with B = offset + E[r], and the offset."""
    taus, steeps = rule.thresholds(noise)
    r, offset = v - u, np.zeros(28)
    first = INNER if rule.pools else 0
    if not rule.pools:
        offset[:] = field.bias
        r[:, 0] -= offset[0]
    else:
        offset[INNER:] = field.bias[INNER:]
    P = field.P.astype(np.float32).astype(float)
    for p in range(INNER):
        below, k = children(p), at_level[p] + 1
        if below[0] < first or k <= noise.top:
            continue
        if below.size == 1:
            r[:, below[0]] = v[:, p] - u[:, p] - offset[below[0]]
        elif np.isinf(field.m[p]):
            r[:, below] = v[:, below]
        else:
            q = (y[:, below].sum(axis=1) - u[:, p]) / below.size
            r[:, below] = v[:, below] - kept(y[:, below] - field.m[p], taus[k], steeps[k]) + P[below] * q[:, None]
    return r, offset


NOISES = {
    "plain": dict(sigmas=[2.0, 1.5, 2.5]),
    "noisy root": dict(sigmas=[1.2, 2.0, 1.5, 2.5], kind="gaussian"),
    "exact groups": dict(sigmas=[0.0, 0.0, 2.5]),
    "laplace": dict(sigmas=[2.0, 1.5, 2.5], kind="discrete-laplace"),
}
CASES = {
    "top-down": ("plain", dict()),
    "top-down, noisy root": ("noisy root", dict()),
    "top-down, exact groups": ("exact groups", dict()),
    "top-down, a number": ("plain", dict(threshold=1.5)),
    "top-down, whole": ("plain", dict(rounding="whole")),
    "blue-down": ("plain", dict(pool=True)),
    "blue-down, a list": ("laplace", dict(pool=True, threshold=[0.0, 1.0, 2.0])),
    "joint": ("plain", None),
}
RUNS, SEED = 150, 5


@cache
def case(name):
    """Noise and rule."""
    given, more = CASES[name]
    noise = LevelNoise(TREE, **NOISES[given])
    return noise, Joint(TREE) if more is None else TopDown(TREE, **more)


@cache
def field_for(name):
    """Mean field of a case; the joint rule takes that of blue-down."""
    noise, rule = case(name)
    return field_of(noise, TopDown(TREE, pool=True) if name == "joint" else rule)


# ---------------------------------------------------------------- labels and trees

IDS = ["1100", "1101", "1210", "2111", "2112", "2200"]
LENGTHS = {"s": 1, "c": 2, "leaf": 4}


@pytest.mark.parametrize(
    "given",
    [IDS, tuple(IDS), np.array(IDS), np.array(IDS, dtype=object), np.array(IDS, dtype="S4"), np.array(IDS, dtype="S9"),
     pl.Series(IDS), np.array([f"{i}xx" for i in IDS], dtype="S6")[::1].astype("S4")],
    ids=["list", "tuple", "U", "object", "S4", "S9", "polars", "cut"],
)  # fmt: skip
def test_ids_of_every_sort_are_the_same_bytes(given):
    codes = labelling.codes_of(given, "leaf", 4)
    assert codes.dtype == np.uint8
    assert codes.tolist() == [[ord(letter) for letter in i] for i in IDS]
    assert codes.flags.c_contiguous


def test_ids_may_be_any_iterable():
    assert labelling.codes_of(iter(IDS), "leaf", 4).shape == (6, 4)
    assert Hierarchy.from_geoids((i for i in IDS), LENGTHS).ids("leaf") == IDS


EVERY = "every id must have the 4 ASCII characters of level 'leaf', got "
TEXT = r"ids must be text \(leading zeros count\), got "


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["1100", "110"], f"^{EVERY}'110' at position 1; a leaf that ends .* pad its id to the full length$"),
        (["1100", "11000"], f"^{EVERY}'11000' at position 1$"),
        (["1100", "110\0"], f"^{EVERY}'110.x00' at position 1$"),
        (["110é", "1100"], f"^{EVERY}'110é' at position 0$"),
        (["1100", 1101], f"^{TEXT}1101 at position 1$"),
        (["1100", b"1101"], f"^{TEXT}b'1101' at position 1$"),
        (["1100", None], f"^{TEXT}None at position 1$"),
        (pl.Series(["1100", None]), f"^{TEXT}None at position 1$"),
        (pl.Series([1100, 1101]), f"^{TEXT}1100 at position 0$"),
        (pl.Series(["11000", "1100"]), f"^{EVERY}'11000' at position 0$"),
        (pl.Series(["1100", "110"]), f"^{EVERY}'110' at position 1; "),
        (pl.Series(["1100", "11é"]), f"^{EVERY}'11é' at position 1; "),
        (pl.Series([], dtype=pl.String), "^a hierarchy must have at least one leaf, got none$"),
        (np.array(["1100", "110"], dtype="S4"), f"^{EVERY}'110' at position 1; "),
        (np.array(["1100", "11001"], dtype="S5"), f"^{EVERY}'11001' at position 1$"),
        (np.array(["110", "110"], dtype="S3"), f"^{EVERY}'110' at position 0; "),
        ([], "^a hierarchy must have at least one leaf, got none$"),
        ("1100", "^ids must be a sequence with one entry a leaf, got the text '1100'$"),
        (b"1100", "^ids must be a sequence with one entry a leaf, got the text b'1100'$"),
        (["2200", "1100", "2200"], "^ids must be unique, got '2200' at positions 0 and 2$"),
        (["1100", "1100", "2200"], "^ids must be unique, got '1100' at positions 0 and 1$"),
        (["1100", "2200", "2200"], "^ids must be unique, got '2200' at positions 1 and 2$"),
        (["xy00", "ab00", "xy00"], "^ids must be unique, got 'xy00' at positions 0 and 2$"),
    ],
)
def test_what_is_wrong_with_ids_is_said_in_full(given, says):
    with pytest.raises(CountsError, match=says):
        Hierarchy.from_geoids(given, LENGTHS)


@pytest.mark.parametrize("width", [18, 19, 20])
@pytest.mark.parametrize("letter", ["", "b"])
def test_long_ids_are_sorted_as_text(width, letter):
    """18 digits fit into 64 bits, 19 nines do not; letters never do."""
    ids = [letter + d * (width - len(letter)) for d in "9031"]
    tree = Hierarchy.from_geoids(ids, {"a": 2, "b": width})
    assert tree.labels.texts(2) == sorted(ids)
    assert tree.order.tolist() == sorted(range(4), key=lambda k: ids[k])
    assert tree.ids("b") == ids


def test_prefixes_and_paths_name_every_node():
    order = [3, 0, 5, 4, 1, 2]
    ids = [IDS[k] for k in order]
    by_ids = Hierarchy.from_geoids(ids, LENGTHS)
    by_paths = Hierarchy.from_labels([[i[:1] for i in ids], [i[:2] for i in ids]], ["s", "c"], ids=ids)
    without = Hierarchy.from_labels([[i[:1] for i in ids], [i[:2] for i in ids], ids], ["s", "c", "leaf"])
    wanted = [["1", "2"], ["11", "12", "21", "22"], IDS]
    assert by_ids.labels.bytes_of(2).tolist() == [b"11", b"12", b"21", b"22"]
    assert by_ids.labels.bytes_of(3).tolist() == [i.encode() for i in IDS]
    for tree, join in ((by_ids, lambda i, k: i), (by_paths, lambda i, k: f"{i[0]}/{i}" if k == 2 else i)):
        for k in (1, 2, 3):
            names = [join(i, k) for i in wanted[k - 1]]
            assert tree.labels.texts(k) == names
            assert [tree.labels.text(k, place) for place in range(len(names))] == names
            assert tree.ids(k) == (ids if k == 3 else names)
            assert [tree.id_of(k, place) for place in range(len(names))] == tree.ids(k)
            assert all(type(name) is str for name in tree.ids(k))
        assert tree.ids("all") == tree.ids(0) == ["all"]
        assert tree.id_of(0, 0) == "all"
        assert tree.order.tolist() == [1, 4, 5, 0, 3, 2]
        assert tree.offsets.tolist() == [0, 1, 3, 7, 13]
        assert tree.child.tolist() == [1, 3, 5, 7, 9, 10, 12, 13]
        assert tree.labels.starts.tolist() == [0, 0, 3, 0, 2, 3, 5]
        assert not tree.offsets.flags.writeable
        assert not tree.child.flags.writeable
    assert without.ids("leaf") == [f"{i[0]}/{i[:2]}/{i}" for i in ids]
    assert without.id_of(3, 1) == "1/11/1100"
    in_order = Hierarchy.from_labels([[i[:1] for i in IDS], IDS])
    assert in_order.order is None
    assert in_order.names == ("all", "level 1", "level 2")
    assert in_order.id_of(2, 3) == "2/2111"
    assert Hierarchy.from_geoids(IDS, LENGTHS).order is None
    assert repr(by_ids) == "Hierarchy(2 s, 4 c, 6 leaf)"
    many = Hierarchy.from_labels([[f"{k:04}" for k in range(1234)]], ["leaf"])
    assert repr(many) == "Hierarchy(1,234 leaf)"
    assert (many.depth, many.n, many.nodes) == (1, 1234, 1235)


def test_labels_of_every_sort_are_text():
    whole = Hierarchy.from_labels([np.array([2, 1]), [1.5, 2.5]], ["a", "b"])
    assert whole.ids("b") == ["2/1.5", "1/2.5"]
    assert Hierarchy.from_labels([pl.Series([10, 9])], ["a"]).ids("a") == ["10", "9"]
    assert Hierarchy.from_labels([pl.Series(["10", "9"])], ["a"]).labels.texts(1) == ["10", "9"]
    assert Hierarchy.from_labels([(k for k in "ba")], ["a"]).labels.texts(1) == ["a", "b"]


NONE = r"^every leaf must have a label on every level \(all leaves lie equally deep\), got none of "


@pytest.mark.parametrize(
    ("columns", "ids", "says"),
    [
        (
            [["x", None, "x"]],
            list("abc"),
            f"{NONE}'one' at position 1; a leaf that ends .* repeat its last label there$",
        ),
        ([["x", "x", float("nan")]], list("abc"), f"{NONE}'one' at position 2; "),
        ([["x", "", "x"]], list("abc"), f"{NONE}'one' at position 1; "),
        ([pl.Series(["x", "x", None])], list("abc"), f"{NONE}'one' at position 2; "),
        ([pl.Series(["", "x", "x"])], list("abc"), f"{NONE}'one' at position 0; "),
        ([list("xyz")], ["a", "b", None], f"{NONE}'leaf' at position 2; "),
        (["xyz"], list("abc"), "^level 'one' must be a sequence with one label a leaf, got the text 'xyz'$"),
        ([b"xyz"], list("abc"), "^level 'one' must be a sequence with one label a leaf, got the text b'xyz'$"),
        ([list("xyz")], list("ab"), "^every level must have one label a leaf: 3 leaves, 2 labels of 'leaf'$"),
        ([[]], [], "^every level must have one label a leaf: 0 leaves, 0 labels of 'one'$"),
        ([list("xyz")], ["b", "a", "b"], "^ids must be unique, got 'b' a second time at position 2$"),
        ([list("xyx")], list("aaa"), "^ids must be unique, got 'a' a second time at position 1$"),
    ],
)
def test_what_is_wrong_with_labels_is_said_in_full(columns, ids, says):
    with pytest.raises(CountsError, match=says):
        Hierarchy.from_labels(columns, ["one"], ids)


def test_a_path_that_comes_twice_is_named():
    with pytest.raises(CountsError, match=r"^every leaf must have a path of its own, got 'x/2' at positions 1 and 3$"):
        Hierarchy.from_labels([list("xxxxy"), list("32121")[:5]], ["a", "b"])
    with pytest.raises(CountsError, match=r"got 'y' at positions 0 and 2$"):
        Hierarchy.from_labels([list("yxyz")], ["a"])
    twins = Hierarchy.from_labels([list("xy"), list("11")], ["a", "b"], ids=["p", "q"])  # the same county in two states
    assert twins.size(2) == 2


@pytest.mark.parametrize(
    ("names", "labels", "ids", "says"),
    [
        (["a"], ["x", "y"], None, "got 1 names for 2 levels"),
        (["a", "b", "c"], ["x", "y"], None, "got 3 names for 2 levels"),
        (["a", "b", "c"], ["x"], ["1"], "got 3 names for 2 levels"),
        (["a", "a"], ["x", "y"], None, "got 'a'"),
        (["a", ""], ["x", "y"], None, "got ''"),
        (["a", "all"], ["x", "y"], None, "got 'all'"),
        ([], [], None, "got 0 names for 0 levels"),
    ],
)
def test_names_of_levels_are_checked(names, labels, ids, says):
    with pytest.raises(ParameterError, match=says):
        Hierarchy.from_labels([[label] for label in labels], names, ids)


def test_two_names_and_ids_are_three_levels_or_two():
    assert Hierarchy.from_labels([["x"]], ["a"], ["1"]).names == ("all", "a", "leaf")
    assert Hierarchy.from_labels([["x"]], ["a", "b"], ["1"]).names == ("all", "a", "b")
    assert Hierarchy.from_labels([["x"]], None, ["1"]).names == ("all", "level 1", "level 2")


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ({}, "got 0 names for 0 levels"),
        ({"a": 0, "b": 4}, "the prefix of level 'a' must be a whole number from 1 to 9999, got 0"),
        ({"a": True, "b": 4}, "the prefix of level 'a' must be a whole number from 1 to 9999, got True"),
        ({"a": 1.0, "b": 4}, "the prefix of level 'a' must be a whole number from 1 to 9999, got 1.0"),
        ({"a": 2, "b": 2}, "prefixes must grow from level to level, got 2 for 'b' after 2"),
        ({"a": 3, "b": 2}, "prefixes must grow from level to level, got 2 for 'b' after 3"),
    ],
)
def test_lengths_of_prefixes_are_checked(levels, says):
    with pytest.raises(ParameterError, match=says):
        Hierarchy.from_geoids(IDS, levels)
    assert Hierarchy.from_geoids(IDS, {"a": np.int64(1), "b": 4}).size(1) == 2


def test_columns_of_a_table():
    table = {"s": ["1", "2"], "c": ["x", "y"], "id": ["p", "q"]}
    assert Hierarchy.from_columns(table, ["s", "c"]).ids("c") == ["1/x", "2/y"]
    with_ids = Hierarchy.from_columns(pl.DataFrame(table), ["s"], id="id")
    assert with_ids.names == ("all", "s", "id")
    assert with_ids.ids("id") == ["p", "q"]
    for kind in (dict, pl.DataFrame):
        for columns, own, missing in ((["s", "d"], None, "d"), (["s"], "e", "e")):
            with pytest.raises(ParameterError, match=f"a level must be a column of the table, got '{missing}'"):
                Hierarchy.from_columns(kind(table), columns, id=own)
    with pytest.raises(ParameterError, match="got None"):
        Hierarchy.from_columns(table, [None])


def test_levels_by_name_and_by_number():
    names = ["all", "county", "group", "leaf"]
    assert [TREE.level(name) for name in names] == [0, 1, 2, 3]
    assert [TREE.level(k) for k in range(-4, 4)] == [0, 1, 2, 3, 0, 1, 2, 3]
    for bad in (4, -5):
        with pytest.raises(ParameterError, match=f"a level must be from 0 to 3, got {bad}"):
            TREE.level(bad)
    with pytest.raises(ParameterError, match="a level must be one of all, county, group, leaf, got 'state'"):
        TREE.level("state")


def test_a_vector_of_nodes_and_its_levels():
    parts = TREE.split(TRUTH)
    assert [part.size for part in parts] == [1, 3, 6, 18]
    assert parts[3].tolist() == X.tolist()
    assert TREE.join(parts).tolist() == TRUTH.tolist()
    assert TREE.join(parts[1:]).tolist() == TRUTH.tolist()
    assert TREE.parents(1).tolist() == [0, 0, 0]
    assert TREE.parents(2).tolist() == [0, 0, 0, 1, 2, 2]
    assert TREE.parents(3).tolist() == [0] * 4 + [1] * 3 + [2] + [3] * 5 + [4] * 2 + [5] * 3
    assert TREE.from_tree(TREE.into_tree(X)).tolist() == X.tolist()
    assert TREE.into_tree(X).tolist() == [row[3] for row in SORTED]
    assert [TREE.span(k) for k in range(4)] == [slice(0, 1), slice(1, 4), slice(4, 10), slice(10, 28)]
    assert TREE.join([[1, 2, 3], np.full(6, 9), X]).tolist()[:4] == [
        6,
        1,
        2,
        3,
    ]  # without a root: the sum of the next level
    tidy = Hierarchy.from_geoids(IDS, LENGTHS)
    assert tidy.into_tree(np.arange(6)).shape == tidy.from_tree(np.arange(6)).shape == (6,)
    with pytest.raises(CountsError, match="there must be one array a level: 4 levels, 2 arrays"):
        TREE.join(parts[:2])
    with pytest.raises(CountsError, match=r"level 'group' has 6 nodes, got an array of shape \(5,\)"):
        TREE.join([parts[0], parts[1], parts[2][:5], parts[3]])
    with pytest.raises(CountsError, match=r"`some` must have one entry a leaf: 18 leaves, shape \(17,\)"):
        TREE.into_tree(X[:17], "some")
    with pytest.raises(CountsError, match="`values` must have one entry a leaf"):
        TREE.sums(X[:17])


# ---------------------------------------------------------------- noise by level


def test_shares_become_the_mechanisms_noise():
    """rho p = D^2 / (2 s^2) for the Gaussian pair."""
    noise = LevelNoise(TREE, rho="3/2", split=["1/2", 0.25, "0.25"], kind="gaussian", sensitivity=2.0)
    assert noise.spreads.tolist() == pytest.approx([0, *(2 / np.sqrt(2 * 1.5 * p) for p in (0.5, 0.25, 0.25))])
    assert (noise.rho, noise.split, noise.sensitivity) == (1.5, (0.0, 0.5, 0.25, 0.25), 2.0)
    assert noise.asked == {"sigmas": None, "rho": "3/2", "split": ["1/2", 0.25, "0.25"], "exact": ()}
    assert noise.spent == pytest.approx(1.5)
    assert noise.describe()["rho"] == 1.5
    by_name = LevelNoise(TREE, rho=1.5, split={"leaf": 0.5, "all": 0.25}, kind="gaussian")
    assert by_name.split == (0.25, 0.0, 0.0, 0.5)
    assert by_name.spreads.tolist()[:3] == [0, 0, 0]
    root = LevelNoise(TREE, rho=2.0, split=[0.1, 0.2, 0.3, 0.4], kind="gaussian")
    assert root.spreads.tolist() == pytest.approx([1 / np.sqrt(4 * p) for p in (0.1, 0.2, 0.3, 0.4)])
    assert LevelNoise(TREE, rho=1.0, split=[0.5, 0.25, 0.25 + 5e-10]).split[3] > 0.25  # rounding of shares is forgiven


def test_parameters_are_kept_as_they_are():
    noise = LevelNoise(TREE, sigmas={"leaf": "5/2", "group": 1.5}, exact="county", kind="laplace", sensitivity=2.0)
    assert noise.spreads.tolist() == [0, 0, 1.5, 2.5]
    assert not noise.spreads.flags.writeable
    assert noise.asked == {"sigmas": {"leaf": "5/2", "group": 1.5}, "rho": None, "split": None, "exact": ("county",)}
    assert (noise.rho, noise.split, noise.spent, noise.sensitivity) == (None, None, None, 2.0)
    assert [noise.top, noise.measured, noise.code] == [1, True, 0]
    assert noise.mechanisms == (None, None, *(mechanism_of("laplace", scale=s) for s in (1.5, 2.5)))
    assert noise.variances.tolist() == [0, 0, 2 * 1.5**2, 2 * 2.5**2]
    assert repr(noise) == "LevelNoise(laplace: all exact, county exact, group 1.5, leaf 2.5)"
    assert noise.describe() == {
        "name": "laplace", "rho": None, "sensitivity": 2.0,
        "levels": [
            {"name": name, "scale": s, "exact": s == 0}
            for name, s in (("all", 0.0), ("county", 0.0), ("group", 1.5), ("leaf", 2.5))
        ],
    }  # fmt: skip
    for code, kind in enumerate(("laplace", "gaussian", "discrete-laplace", "discrete-gaussian")):
        assert LevelNoise(TREE, sigmas=[1, 1, 1], kind=kind).code == code
        assert LevelNoise(TREE, sigmas=[1, 1, 1], kind=kind).mechanisms[1] == MECHANISMS[kind](1.0)
    spent = LevelNoise(TREE, sigmas=[1.0, 2.0, 4.0], sensitivity=3.0)
    assert spent.spent == pytest.approx(4.5 * (1 + 1 / 4 + 1 / 16))
    assert spent.describe()["rho"] == spent.spent
    assert LevelNoise(TREE, sigmas=[1, 0, 2, 3]).spreads.tolist() == [0, 0, 2, 3]


def test_a_root_that_is_not_measured_does_not_count():
    noise = LevelNoise(TREE, sigmas=[np.inf, 2.0, 1.5, 2.5], kind="gaussian")
    assert not noise.measured
    assert noise.top == -1
    assert noise.mechanisms[0] is None
    assert noise.variances.tolist() == [2.0**60 * 3 * 4, 4, 2.25, 6.25]
    assert noise.describe()["levels"][0] == {"name": "all", "sigma": None, "exact": False}
    assert repr(noise) == "LevelNoise(gaussian: all not measured, county 2, group 1.5, leaf 2.5)"
    assert "2.123," in repr(LevelNoise(TREE, sigmas=[2.12345, 1, 1]))
    y = measured(LevelNoise(TREE, sigmas=[2.0, 1.5, 2.5], kind="gaussian"), 1, 1)[0]
    found = Unclipped(TREE).apply(y, noise)
    without = Unclipped(TREE).apply(np.concatenate([[1e3], y[1:]]), noise)
    assert found == pytest.approx(without, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (dict(), "got neither or both"),
        (dict(sigmas=[1, 1, 1], rho=1.0, split=[1, 0, 0]), "got neither or both"),
        (dict(split=[0.2, 0.3, 0.5]), "got neither or both"),
        (dict(sigmas=[1, 1, 1], split=[0.2, 0.3, 0.5]), "got neither or both"),
        (dict(rho=1.0), "got neither or both"),
        (dict(rho="x", split=[0.2, 0.3, 0.5]), "`rho` must be > 0 and finite, got 'x'"),
        (dict(rho="1/0", split=[0.2, 0.3, 0.5]), "`rho` must be > 0 and finite, got '1/0'"),
        (dict(rho=[1], split=[0.2, 0.3, 0.5]), r"`rho` must be > 0 and finite, got \[1\]"),
        (dict(rho=0.0, split=[0.2, 0.3, 0.5]), r"`rho` must be > 0 and finite, got 0\.0"),
        (dict(rho=np.inf, split=[0.2, 0.3, 0.5]), "`rho` must be > 0 and finite, got inf"),
        (dict(rho=1.0, split=[0, 0, 0]), "the shares of rho must be above 0 and at most 1 together, got a sum of 0"),
        (dict(rho=1.0, split=[0.5, 0.5, 1e-8]), "got a sum of 1"),
        (dict(rho=1.0, split=[0.5, 0.5, -0.5]), r"`split` must be at least 0 and finite, got -0\.5 for level 'leaf'"),
        (dict(rho=1.0, split=[np.inf, 0, 0, 0]), "`split` must be at least 0 and finite, got inf for level 'all'"),
        (dict(sigmas=[1, np.inf, 1, 1]), "`sigmas` must be at least 0 and finite, got inf for level 'county'"),
        (dict(sigmas=[1, np.nan, 1]), "`sigmas` must be at least 0 and finite, got nan for level 'group'"),
        (dict(sigmas=[1, "1/0", 1]), "`sigmas` must be numbers, got '1/0' for level 'group'"),
        (dict(sigmas=[1, None, 1]), "`sigmas` must be numbers, got None for level 'group'"),
        (dict(sigmas=[1, 1]), r"one entry for each of county, group, leaf \(or one more for the root\), got 2"),
        (dict(sigmas=[1, 1, 1, 1, 1]), "got 5"),
        (dict(sigmas=[1, 1, 1], exact="leaf"), "the level of the leaves, 'leaf', must have noise, got 0"),
        (dict(sigmas=[1, 1, 1], kind="normal"), "`kind` must be one of laplace, gaussian, discrete-laplace, discrete"),
        (dict(sigmas=[1, 1, 1], sensitivity=0.0), "sensitivity"),
        (dict(sigmas={"town": 1.0}), "got 'town'"),
    ],
)
def test_bad_noise_by_level_is_named(given, says):
    with pytest.raises(ParameterError, match=says):
        LevelNoise(TREE, **given)


CENSUS = {"us": 104, "state": 1440, "county": 447, "tract": 687, "bg": 1256, "block": 165}


def test_the_shares_of_the_census():
    """The shares of `person_US.ini` over 4099 parts; rho p = 1 / sigma^2, which is D^2 / (2 sigma^2) with D^2 = 2."""
    rho = 293764 / 114921
    sigma = {name: 1 / np.sqrt(rho * part / 4099) for name, part in CENSUS.items()}
    named = Hierarchy.from_geoids(IDS, {"State": 1, "BG": 2, "block": 4})
    noise = LevelNoise.census2020(named)
    assert noise.spreads.tolist() == pytest.approx([0, 0, sigma["bg"], sigma["block"]])
    assert noise.split == pytest.approx([CENSUS[k] / 4099 for k in ("us", "state", "bg", "block")])
    assert (noise.sensitivity, noise.rho) == (pytest.approx(np.sqrt(2)), pytest.approx(rho))
    for word in ("bg", "blockgroup", "block_group", "block group"):
        other = LevelNoise.census2020(Hierarchy.from_geoids(IDS, {"county": 1, word: 2, "block": 4}))
        assert other.spreads.tolist() == pytest.approx([0, *(sigma[k] for k in ("county", "bg", "block"))])
    five = Hierarchy.from_geoids(["123456", "123457"], {"a": 1, "b": 2, "c": 3, "d": 4, "e": 6})
    wanted = [0, 0, *(sigma[k] for k in ("county", "tract", "bg", "block"))]
    assert LevelNoise.census2020(five).spreads.tolist() == pytest.approx(wanted)
    with pytest.raises(
        ParameterError, match="levels named state, county, tract, block group, block, got all, county, group"
    ):
        LevelNoise.census2020(TREE)
    turned = ("county", "state", "tract", "block group", "block")  # all names are there: each has its own share
    other = LevelNoise.census2020(
        Hierarchy.from_geoids(["123456", "123457"], dict(zip(turned, (1, 2, 3, 4, 6), strict=True)))
    )
    assert other.split == pytest.approx([CENSUS[{"block group": "bg"}.get(k, k)] / 4099 for k in ("us", *turned)])
    assert other.spreads.tolist() == pytest.approx([0, 0, 0, sigma["tract"], sigma["bg"], sigma["block"]])
    assert Neighbours(noise.sensitivity).promise(noise.mechanisms[3]).rho == pytest.approx(rho * 165 / 4099)


def test_the_verb_hands_everything_on():
    noise, rule = case("top-down")
    here = noise.audit(X, rule, engine="mean-field", groups=GROUPS)
    assert here.to_dict() == audit_hierarchy(X, noise, rule, method="mean-field", groups=GROUPS).to_dict()
    assert noise.audit(X, rule, runs=5).method == "monte-carlo"


# ---------------------------------------------------------------- rules


def test_thresholds_of_every_form():
    plain, smooth = (LevelNoise(TREE, sigmas=[0.0, 1.5, 2.5], kind=k) for k in ("discrete-gaussian", "laplace"))
    one = TopDown(TREE, threshold=2).thresholds(plain)
    assert [part.tolist() for part in one] == [[0, 0, 2, 2], [1, 1, 3, 3]]  # ramps of width 1; none on exact levels
    some = TopDown(TREE, threshold=[5.0, 0.0, 2.0]).thresholds(plain)
    assert [part.tolist() for part in some] == [[0, 0, 0, 2], [1, 1, 1, 3]]
    jumps = TopDown(TREE, threshold=(5.0, 0.5, 2.0)).thresholds(smooth)
    assert [part.tolist() for part in jumps] == [[0, 0, 0.5, 2], [1, 1, np.inf, np.inf]]
    best = TopDown(TREE, threshold="best").thresholds(plain)
    for k in (2, 3):
        wanted = Threshold.best(plain.mechanisms[k])
        assert (best[0][k], best[1][k]) == (wanted.level, wanted.steepness)
    root = LevelNoise(TREE, sigmas=[1.0, 1.0, 1.5, 2.5])
    assert TopDown(TREE, threshold=2.0).thresholds(root)[0].tolist() == [0, 2, 2, 2]
    for rule in (TopDown(TREE), Joint(TREE), Unclipped(TREE)):
        assert [part.tolist() for part in rule.thresholds(plain)] == [[0] * 4, [1] * 4]
    with pytest.raises(ParameterError, match="`threshold` must have one entry for each of 3 levels, got 2"):
        TopDown(TREE, threshold=[1.0, 2.0])
    with pytest.raises(ParameterError, match="at least 0"):
        TopDown(TREE, threshold=[1.0, -2.0, 1.0])
    with pytest.raises(ParameterError, match="must be None, 'best' or numbers, got 'worst'"):
        TopDown(TREE, threshold="worst")
    leaf = Hierarchy.from_labels([list("ab")])
    only = LevelNoise(leaf, sigmas=[1.0])
    assert TopDown(leaf, threshold=[2.0]).thresholds(only)[0].tolist() == [0, 2]


def test_rules_by_name():
    wanted = {
        "top-down": (False, None), "blue-down": (True, None), "top-down-threshold": (False, "best"),
        "blue-down-threshold": (True, "best"),
    }  # fmt: skip
    for name, (pool, threshold) in wanted.items():
        for whole in (False, True):
            rule = rule_of(name, TREE, whole=whole)
            assert (rule.label, rule.pool, rule.pools, rule.threshold) == (name, pool, pool, threshold)
            assert (rule.whole, rule.clips, rule.by_families, rule.tree) == (whole, True, True, TREE)
    joint = rule_of("joint", TREE, whole=True)
    assert (joint.label, joint.pools, joint.whole, joint.clips, joint.by_families) == ("joint", True, True, True, False)
    assert not rule_of("joint", TREE).whole
    beside = rule_of("unclipped", TREE)
    assert (beside.label, beside.pools, beside.whole, beside.clips, beside.by_families) == (
        "unclipped", True, False, False, True,
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="not rounded"):
        rule_of("unclipped", TREE, whole=True)
    with pytest.raises(
        ParameterError, match="top-down, blue-down, joint, top-down-threshold, blue-down-threshold, got 'x'"
    ):
        rule_of("x", TREE)
    for made in (TopDown, Joint):
        with pytest.raises(ParameterError, match="`rounding` must be None or 'whole', got 'up'"):
            made(TREE, rounding="up")
    assert TopDown(TREE, threshold=1.0).label == "top-down-threshold"


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("joint", "top-down, whole")])
def test_rules_on_one_vector_and_on_rows(name):
    noise, rule = case(name)
    y = measured(noise, 11, 4)
    wanted, u = outputs(noise, rule, y)
    rows = rule.apply(y, noise)
    assert rows == pytest.approx(wanted, abs=1e-9)
    assert [rule.apply(row, noise).tolist() for row in y] == rows.tolist()
    if rule.pools:
        assert Unclipped(TREE).apply(y, noise) == pytest.approx(u, abs=1e-9)
    many = np.tile(y, (600, 1))  # above 2^16 numbers: over all cores
    assert (rule.apply(many, noise) == np.tile(rows, (600, 1))).all()


def test_much_work_goes_over_all_cores_and_little_over_one(monkeypatch):
    """From 2^16 numbers on a rule, above 2^15 nodes of a level the formula."""
    from fairpost.hierarchy import meanfield, rules

    seen = []
    for module in (rules, meanfield):
        monkeypatch.setattr(
            module, "over_slices", lambda task, n, threads: seen.append((n, threads)) or task(slice(0, n))
        )
    small = Hierarchy.from_labels([list("abc")])
    for rows in (2**14 - 1, 2**14):
        TopDown(small).apply(np.ones((rows, 4)), LevelNoise(small, sigmas=[1.0]))
    assert seen == [(2**14 - 1, 1), (2**14, None)]
    for leaves, threads in ((2**15, 1), (2**15 + 1, None)):
        seen.clear()
        many = Hierarchy.from_geoids([f"{k:05}" for k in range(leaves)], {"leaf": 5})
        mean_field(many.sums(np.ones(leaves)), LevelNoise(many, sigmas=[1.0]), TopDown(many), moments=True)
        assert seen == [(1, threads)] * 2


def test_rounding_draws_by_seed_and_row():
    noise, rule = case("top-down, whole")
    y = measured(noise, 12, 5)
    rows = rule.apply(y, noise, seed=3, run=7)
    for k in range(5):
        assert rule.apply(y[k], noise, seed=3, run=7 + k).tolist() == rows[k].tolist()
    assert rule.apply(y, noise, seed=3).tolist() != rows.tolist()
    assert rule.apply(y, noise, seed=4, run=7).tolist() != rows.tolist()
    assert rule.apply(y, noise, seed=0, run=0).tolist() == rule.apply(y, noise).tolist()
    plain = TopDown(TREE).apply(y, noise)
    assert np.abs(rows - plain).max() < 1
    assert (rows == np.round(rows)).all()


def test_exact_totals_that_are_not_whole_are_named():
    noise = LevelNoise(TREE, sigmas=[0.0, 0.0, 2.5])
    rule = TopDown(TREE, rounding="whole")
    for node, says in ((0, "'all'"), (1, "'A'"), (3, "'C'"), (4, "'A/a'"), (9, "'C/f'")):
        y = TRUTH.copy()
        y[node] += 2e-6
        with pytest.raises(ParameterError, match=f"only where it is a whole number, got {y[node]:.12g} for {says}"):
            rule.apply(y, noise)
        y[node] = TRUTH[node] + 5e-7
        assert rule.apply(y, noise)[node] == TRUTH[node]
    y = TRUTH.copy()
    y[10] += 0.25  # a leaf is measured and may be anything
    assert (rule.apply(y, noise) == np.round(rule.apply(y, noise))).all()


def test_measurements_are_checked():
    noise, rule = case("top-down")
    for bad, says in (
        (np.zeros((2, 2, 28)), r"28 nodes, got shape \(2, 2, 28\)"),
        (np.zeros((28, 2)), r"28 nodes, got shape \(28, 2\)"),
        (["x"] * 28, "measurements must be numbers"),
        (None, "measurements must"),
        (np.where(np.arange(56).reshape(2, 28) == 33, np.inf, 0.0), "for node 5"),
    ):
        with pytest.raises(CountsError, match=says):
            rule.apply(bad, noise)


def test_variances_upwards_and_without_the_leaves():
    noise = LevelNoise(TREE, sigmas=[0.0, 1.5, 2.5])
    V, W = pooled_variances(noise)
    full, short = Pooling.of(noise), Pooling.of(noise, leaves=False)
    assert pytest.approx(V, rel=1e-12) == full.V
    assert pytest.approx(W, rel=1e-12) == full.W
    assert short.V.tolist() == full.V[:INNER].tolist()
    cover = (least_squares(noise) ** 2 * noise.variances[at_level]).sum(axis=1)
    assert full.unclipped(noise) == pytest.approx(cover, abs=1e-10)
    assert full.unclipped(noise, 2) == pytest.approx(cover[:INNER], abs=1e-10)
    wanted = [np.sqrt(cover[at_level == k].mean()) for k in range(4)]
    assert short.unclipped_rmse(noise) == pytest.approx(wanted, abs=1e-10)


# ---------------------------------------------------------------- what an audit returns


def by_hand(level=3, **more):
    """A level of a result with numbers that are easy to follow."""
    size = TREE.size(level)
    given = dict(
        tree=TREE, level=level, accuracy="interval", alpha=Estimate(5.0, 4.0, 7.0, "interval"), alpha_pair=("x", "y"),
        rmse=1.25, unclipped_rmse=1.5, formula_error=0.125, _truth=TRUTH[at_level == level],
        _bias=np.linspace(-1, 2, size), _error=np.linspace(0.1, 0.3, size), _mse=np.linspace(1, 9, size), _factor=3.0,
        _constant=0.5,
    )  # fmt: skip
    return LevelResult(**(given | more))


def audit_by_hand(**more):
    areas = (Part("one", 2, 8.0, 1.0, 0.25, 3.0), Part("two", 1, 0.0, -1.0, 0.5, None))
    given = dict(
        tree=TREE, noise=LevelNoise(TREE, sigmas=[2.0, 1.5, 2.5]), postprocess="p", method="m", accuracy="interval",
        levels=tuple(by_hand(k) for k in (1, 2, 3)), sizes=areas[:1], values=areas[1:], groups=areas, areas=areas, runs=7,
        seed=8, confidence=0.5, interrupted=True, note="n", mark="k",
    )  # fmt: skip
    return HierarchyAudit(**(given | more))


def test_columns_of_a_level():
    """Leaves come in the order of the input, other levels in their own."""
    leaf, group = by_hand(), by_hand(2)
    at = np.empty(18, dtype=int)
    at[ORDER] = np.arange(18)
    place = np.argsort(at)  # the leaf of row k is the sorted tree's leaf place[k]
    assert leaf.truth.tolist() == X.tolist()
    for column, values in (("bias", leaf._bias), ("error", leaf._error), ("mse", leaf._mse)):
        assert getattr(leaf, column).tolist() == values[place].tolist()
        assert getattr(group, column).tolist() == getattr(group, f"_{column}").tolist()
    half = 3.0 * np.linspace(0.1, 0.3, 18) + 0.5
    assert leaf.half_width == pytest.approx(half[place])
    assert leaf._half == pytest.approx(half)
    assert group.half_width == pytest.approx(3.0 * np.linspace(0.1, 0.3, 6) + 0.5)
    assert leaf.ids == [row[2] for row in GIVEN]
    assert group.ids == ["A/a", "A/b", "A/c", "B/d", "C/e", "C/f"]
    assert (leaf.name, leaf.n, group.name, group.n) == ("leaf", 18, "group", 6)
    assert leaf.bias_rms == pytest.approx(np.sqrt((np.linspace(-1, 2, 18) ** 2).mean()))


def part_of(level, some, name):
    return Part(
        name, int(some.sum()), level._truth[some].sum(), pytest.approx(level._bias[some].mean()),
        pytest.approx(level._half[some].mean()), pytest.approx(np.sqrt(level._mse[some].mean())),
    )  # fmt: skip


@pytest.mark.parametrize("k", [2, 3])
def test_parts_of_a_level_by_size(k):
    level, x = by_hand(k), TRUTH[at_level == k]
    classes = {name: (x >= low) & (x < high) for name, (low, high) in SIZE_CLASSES.items()}
    assert level.by_size() == tuple(part_of(level, some, name) for name, some in classes.items() if some.any())
    given = level.by_size([5, 60.5, 100])
    names = [("from 5 to below 60.5", 5, 60.5), ("from 60.5 to below 100", 60.5, 100), ("100+", 100, np.inf)]
    wanted = [part_of(level, (x >= a) & (x < b), name) for name, a, b in names if ((x >= a) & (x < b)).any()]
    assert list(given) == wanted  # those below the first edge are in none
    assert level.by_size([1.5])[0].name == "from 1.5"
    for many in (1, 2, 4):
        cuts = np.unique(np.sort(x)[[int(np.floor((x.size - 1) * j / many)) for j in range(many)]])
        parts = level.by_size(many)
        assert [part.n for part in parts] == [
            int(((x >= a) & (x < b)).sum()) for a, b in pairwise([*cuts.tolist(), np.inf])
        ]
    for bad in ([], [1, 1], [2, 1]):
        with pytest.raises(ParameterError, match="ascending lower edges"):
            level.by_size(bad)
    for bad in (0, -1):
        with pytest.raises(ParameterError, match=f"must be at least 1, got {bad}"):
            level.by_size(bad)


@pytest.mark.parametrize(
    ("ends", "name"),
    [((0.0, 1.0), "0"), ((1.0, 10.0), "1-9"), ((200.0, None), "200+"), ((0.5, 2.0), "from 0.5 to below 2"), ((0.5, None), "from 0.5"),
     ((1.0, 2.5), "from 1 to below 2.5")],
)  # fmt: skip
def test_names_of_ranges(ends, name):
    assert _range(*ends) == name


def test_parts_of_a_level_by_group():
    leaf, group = by_hand(), by_hand(2)
    in_tree = np.array([GROUPS[i] for i in TREE.order])
    assert leaf.by_group(GROUPS) == tuple(part_of(leaf, in_tree == name, name) for name in dict.fromkeys(GROUPS))
    numbers = np.array([3, 1, 3, 1, 1, 2])
    wanted = tuple(part_of(group, numbers == k, str(k)) for k in (3, 1, 2))
    assert group.by_group(numbers) == wanted
    with pytest.raises(CountsError, match="`groups` must have one label a node: 18 nodes, 17 labels"):
        leaf.by_group(GROUPS[:17])


def test_a_part_as_plain_data():
    part = Part("x", 4, 8.0, 0.5, 0.25, 3.0)
    assert part.to_dict("size") == {
        "size": "x", "n": 4, "count": 8.0, "bias": 0.5, "half_width": 0.25, "relative": 0.25, "root_mean_squared_error": 3.0
    }  # fmt: skip
    assert part.to_dict("area")["relative"] == 0.0625  # of its total, not of a leaf's
    assert replace(part, count=0.0).to_dict("group")["relative"] is None


def test_a_level_as_plain_data():
    leaf = by_hand()
    out = leaf.to_dict()
    assert out == {
        "name": "leaf", "n": 18, "accuracy": "interval", "alpha": {"value": 5.0, "low": 4.0, "high": 7.0, "kind": "interval"},
        "alpha_pair": ["x", "y"], "root_mean_squared_error": 1.25, "bias_rms": leaf.bias_rms,
        "largest_half_width": pytest.approx(1.4), "unclipped_root_mean_squared_error": 1.5, "formula_error_rms": 0.125,
    }  # fmt: skip
    entities = leaf.to_dict(entities=True)["entities"]
    for k, row in enumerate(GIVEN):
        assert entities[k] == {
            "id": row[2], "count": row[3], "bias": leaf.bias[k], "half_width": leaf.half_width[k],
            "relative": None if row[3] == 0 else leaf.bias[k] / row[3], "root_mean_squared_error": np.sqrt(leaf.mse[k]),
        }  # fmt: skip


def test_an_audit_as_plain_data():
    found = audit_by_hand()
    out = found.to_dict()
    assert out == {
        "postprocess": "p", "method": "m", "accuracy": "interval", "runs": 7, "seed": 8, "confidence": 0.5, "interrupted": True,
        "alpha": {"value": 5.0, "low": 4.0, "high": 7.0, "kind": "interval"}, "alpha_pair": ["x", "y"],
        "total_off": {"value": 0.0, "low": 0.0, "high": 0.0, "kind": "bound"},
        "levels": [level.to_dict() for level in found.levels], "sizes": [found.areas[0].to_dict("size")],
        "values": [found.areas[1].to_dict("value")], "groups": [part.to_dict("group") for part in found.areas],
        "areas": [part.to_dict("area") for part in found.areas], "limits": LIMITS, "note": "n", "mark": "k",
    }  # fmt: skip
    assert [len(level["entities"]) for level in found.to_dict(entities=True)["levels"]] == [3, 6, 18]
    assert json.dumps(out)
    names = {"tree", "noise", "postprocess", "method", "accuracy", "levels", "sizes", "values", "groups", "areas"}
    plain = HierarchyAudit(**{name: getattr(found, name) for name in names})
    assert (plain.runs, plain.seed, plain.confidence, plain.interrupted, plain.note) == (None, None, 0.95, False, None)
    assert plain.mark == audit_hierarchy(X, found.noise, "top-down", method="mean-field").mark
    shown = repr(found)
    assert "postprocess='p'" in shown
    assert "tree=" not in shown
    assert "levels=" not in shown
    assert "areas=" not in shown
    for name in ("tree", "_truth", "_bias", "_error", "_mse", "_factor", "_constant"):
        assert f" {name}=" not in repr(found.leaves).replace("(", " ")
    assert "rmse=1.25" in repr(found.leaves)


def test_levels_and_areas_of_an_audit():
    found = audit_by_hand()
    assert [found.level(k).name for k in ("county", "group", "leaf", 1, 2, 3, -1)] == [
        "county", "group", "leaf", "county", "group", "leaf", "leaf",
    ]  # fmt: skip
    for root in ("all", 0):
        with pytest.raises(ParameterError, match="the root is no level of a result"):
            found.level(root)
    assert found.leaves is found.levels[2]
    assert found.alpha is found.leaves.alpha
    assert found.alpha_pair == ("x", "y")
    assert found.area("two") is found.areas[1]
    mask = np.arange(18) % 4 == 1
    leaf = found.leaves
    assert found.area(mask) == Part(
        "area", 5, X[mask].sum(), pytest.approx(leaf.bias[mask].sum()), pytest.approx(leaf.half_width[mask].sum()), None
    )
    for bad in (mask[:17], mask.astype(int), np.zeros(18, dtype=bool)):
        with pytest.raises(CountsError, match="an area must be a mask of 18 leaves with at least one of them"):
            found.area(bad)
    with pytest.raises(ParameterError, match="named before the runs, got 'three'"):
        found.area("three")


# ---------------------------------------------------------------- what a block needs


def test_cells_of_leaves_and_their_unions(monkeypatch):
    edges = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 200, 1000, np.inf]
    x = np.array([0, 0, 1, 9, 10, 19, 20, 49, 50, 199, 200, 999, 1000, 5000, 3.5, 4])
    codes = np.array([0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 1], dtype=np.int32)
    size = [next(k for k in range(15) if edges[k] <= v < edges[k + 1]) for v in x]
    for chunk in (2**18, 5):
        monkeypatch.setattr(spec, "CHUNK", chunk)
        plain, grouped = spec.Cells.of(x, None, ()), spec.Cells.of(x, codes, ["p", "q"])
        assert plain.labels.tolist() == size
        assert plain.labels.dtype == grouped.labels.dtype == np.int32
        assert grouped.labels.tolist() == [a + 15 * g for a, g in zip(size, codes, strict=True)]
        assert plain.counts.tolist() == np.bincount(size, minlength=15).tolist()
        assert grouped.counts.tolist() == np.bincount(grouped.labels, minlength=30).tolist()
        values = [("value", str(k), (x >= k) & (x < k + 1)) for k in (0, 1, 3, 4, 9)]
        classes = [("size", name, (x >= low) & (x < high)) for name, (low, high) in SIZE_CLASSES.items()]
        groups = [("group", name, codes == k) for k, name in enumerate("pq")]
        for cells, wanted in ((plain, [*values, *classes]), (grouped, [*values, *classes, *groups])):
            assert [u[:2] for u in cells.unions] == [w[:2] for w in wanted]
            assert cells.sizes.tolist() == [w[2].sum() for w in wanted]
            weights = np.arange(1.0, x.size + 1)
            sums = np.bincount(cells.labels, weights, minlength=cells.counts.size)
            assert cells.sums(sums).tolist() == [weights[w[2]].sum() for w in wanted]


def test_areas_are_labels_or_masks():
    (found,) = spec.division_of(TREE, AREAS)
    names = ["north", "south", "west"]
    assert found.names == tuple(names)
    in_tree = [AREAS[i] for i in TREE.order]
    assert found.labels.tolist() == [names.index(a) if a in names else -1 for a in in_tree]
    assert found.labels.dtype == np.int32
    text = [a if isinstance(a, str) else None for a in AREAS]
    for other in (pl.Series(text), text, pl.Series("some", text, dtype=pl.Categorical)):
        (same,) = spec.division_of(TREE, other)
        assert (same.names, same.labels.tolist()) == (found.names, found.labels.tolist())
    assert spec.division_of(TREE, [3] * 17 + [2.5])[0].names == ("3", "2.5")
    masks = {"a": X > 5, 7: X == 0}
    one, two = spec.division_of(TREE, masks)
    assert (one.names, two.names) == (("a",), ("7",))
    assert one.labels.tolist() == [0 if x > 5 else -1 for x in TREE.into_tree(X)]
    assert two.labels.tolist() == [0 if x == 0 else -1 for x in TREE.into_tree(X)]
    assert two.labels.dtype == np.int32
    assert spec.division_of(TREE, None) == ()
    for bad, says in (
        (["x"] * 17, "`areas` must have one label a leaf: 18 leaves, 17 labels"),
        ([None, "", np.nan] * 6, "at least one leaf in an area, got none"),
        ({"a": np.zeros(18, dtype=bool)}, "the area 'a' must be a mask of leaves with at least one of them"),
        ({"a": np.ones(18)}, "the area 'a' must be a mask of leaves"),
        ({"a": np.ones(17, dtype=bool)}, r"`areas\['a'\]` must have one entry a leaf: 18 leaves, shape \(17,\)"),
    ):
        with pytest.raises(CountsError, match=says):
            spec.division_of(TREE, bad)


def test_runs_a_block_by_the_number_of_leaves():
    edges = {1: 64, 2**17: 64, 2**17 + 1: 32, 2**20: 32, 2**20 + 1: 16, 2**22: 16, 2**22 + 1: 8}
    assert {n: spec.block_runs(n) for n in edges} == edges


def test_tables_of_noise_where_there_is_something_to_look_up():
    noise = LevelNoise(TREE, sigmas=[0.0, 6.0, 7.0])
    guides, cuts = spec.guides_of(noise)
    assert guides.shape == (4, guide.BINS)
    assert cuts.shape == (4, guide.MOST)
    for k in (0, 1, 3):
        assert not guides[k].any()
        assert not cuts[k].any()
    row, cut = np.zeros(guide.BINS, np.uint8), np.zeros(guide.MOST)
    guide.guide_of(6.0, row, cut)
    assert guides[2].tolist() == row.tolist()
    assert cuts[2].tolist() == cut.tolist()
    assert not spec.guides_of(LevelNoise(TREE, sigmas=[1, 1, 1], kind="gaussian"))[0].any()


@pytest.mark.parametrize("name", CASES)
def test_a_specification_has_the_arrays_of_its_parts(name):
    noise, rule = case(name)
    made = spec.specify(TRUTH, noise, rule, None, AREAS)
    field = field_for(name)
    V, W = pooled_variances(noise)
    offset = np.where(np.arange(28) < INNER, 0.0, field.bias) if rule.pools else field.bias
    assert made.offset == pytest.approx(offset, abs=1e-9)
    assert made.formula == pytest.approx(field.bias[:INNER], abs=1e-9)
    assert made.m == pytest.approx(field.m, abs=1e-9)
    assert pytest.approx(field.P[INNER:], abs=1e-6) == made.P
    assert made.P_above == pytest.approx(field.P[:INNER], abs=1e-6)
    assert pytest.approx(V[:INNER] if rule.pools else np.zeros(1), abs=1e-12) == made.V
    assert pytest.approx(W if rule.pools else np.zeros(1), abs=1e-12) == made.W
    assert made.rule == ("joint" if name == "joint" else "pooled" if rule.pools else "top-down")
    assert (made.top, made.kind, made.block, made.whole) == (noise.top, noise.code, 64, rule.whole)
    assert (made.n, made.inner, made.x.tolist()) == (18, INNER, TRUTH.tolist())
    assert made.s2.tolist() == noise.variances.tolist()
    assert made.spreads.tolist() == noise.spreads.tolist()
    taus, steeps = rule.thresholds(noise)
    assert (made.taus.tolist(), made.steeps.tolist()) == (taus.tolist(), steeps.tolist())
    assert [d.names for d in made.divisions] == [("north", "south", "west")]
    assert made.cells.counts.sum() == 18


def test_stripes_cover_every_family_once(monkeypatch):
    noise, rule = case("top-down")
    areas = {"low": X < 5, "high": X > 50} | {"some": np.arange(18) % 2 == 0}
    made = spec.specify(TRUTH, noise, rule, None, AREAS)
    (whole,) = made.layout
    assert (whole.ends, whole.width) == ((4, 10), 3)
    assert whole.labels.tolist() == [made.divisions[0].labels.tolist()]
    assert [part.tolist() for part in whole.areas] == [[0, 1, 2]]
    monkeypatch.setattr(spec, "STRIPE", 4)
    for given in (AREAS, areas, None):
        made = spec.specify(TRUTH, noise, rule, None, given)
        parts = made.layout  # 18 leaves cut at 4, 9 and 13, each where the family there ends (4, 7, 8, 13, 15, 18)
        assert [part.ends for part in parts] == [(4, 5), (5, 8), (8, 10)]
        for part in parts:
            a, b = (int(TREE.child[p]) - INNER for p in part.ends)
            assert part.labels.shape == (len(made.divisions), b - a)
            assert part.width == max((names.size for names in part.areas), default=0)
            for d, row, names in zip(made.divisions, part.labels, part.areas, strict=True):
                back = np.where(row < 0, -1, np.append(names, -1)[row])
                assert back.tolist() == d.labels[a:b].tolist()
                assert sorted(set(d.labels[a:b].tolist()) - {-1}) == names.tolist()
    monkeypatch.setattr(spec, "MOST_STRIPES", 2)
    two = spec.specify(TRUTH, noise, rule, None, None).layout
    assert [part.ends for part in two] == [(4, 8), (8, 10)]  # 9 of 18 leaves lie in the family that ends at 13


@pytest.mark.parametrize("name", ["top-down", "blue-down, a list", "top-down, whole"])
def test_stripes_and_pieces_change_no_number(monkeypatch, name):
    """Sums are added in another order, so to rounding."""
    noise, rule = case(name)
    one = audit_hierarchy(X, noise, rule, runs=70, areas=AREAS, groups=GROUPS, threads=1).to_dict(entities=True)
    monkeypatch.setattr(spec, "STRIPE", 4)
    monkeypatch.setattr(blocks, "PIECE", 3)
    two = audit_hierarchy(X, noise, rule, runs=70, areas=AREAS, groups=GROUPS, threads=3).to_dict(entities=True)

    def compare(a, b):
        assert type(a) is type(b)
        if isinstance(a, dict):
            assert list(a) == list(b)
            for key in a:
                compare(a[key], b[key])
        elif isinstance(a, list):
            for left, right in zip(a, b, strict=True):
                compare(left, right)
        else:
            assert a == (pytest.approx(b, abs=1e-9) if isinstance(a, float) else b)

    compare(one, two)


# ---------------------------------------------------------------- blocks


def partial(rng, made, runs, whole=True):
    return blocks.Partial(
        runs, rng.normal(size=(3, INNER)) if whole else None, rng.normal(size=(3, 18)) if whole else None,
        rng.normal(size=made.cells.counts.size), tuple(rng.normal(size=(5, len(d.names))) for d in made.divisions),
    )  # fmt: skip


def test_totals_are_one_plain_pass_over_blocks():
    rng = np.random.default_rng(3)
    made = spec.specify(TRUTH, *case("top-down"), None, AREAS)
    totals = blocks.Totals(made)
    assert (totals.runs, totals.blocks) == (0, 0)
    sizes = [64, 64, 10, 30]
    parts = [partial(rng, made, n) for n in sizes]
    for part in parts:
        totals.add(made, part)
    assert totals.upper == pytest.approx(sum(part.upper for part in parts))
    assert totals.leaves == pytest.approx(sum(part.leaves for part in parts))
    assert totals.areas[0] == pytest.approx(sum(part.areas[0] for part in parts))
    sums = np.array([made.cells.sums(part.cells) for part in parts])
    n = np.array(sizes)[:, None]
    mean = sums.sum(axis=0) / n.sum()
    assert totals.unions[0] == pytest.approx(mean)
    assert totals.unions[1] == pytest.approx((n * (sums / n - mean) ** 2).sum(axis=0))
    assert (totals.runs, totals.blocks) == (168, 4)
    before = totals.upper.copy(), totals.leaves.copy()
    totals.add(made, partial(rng, made, 5, whole=False))
    assert (totals.upper == before[0]).all()
    assert (totals.leaves == before[1]).all()
    assert totals.runs == 173
    state = totals.state()
    assert list(state) == ["tally", "upper", "leaves", "unions", "areas0"]
    for name, array in (("upper", totals.upper), ("leaves", totals.leaves), ("unions", totals.unions)):
        assert state[name] is array
    assert state["areas0"] is totals.areas[0]
    assert state["tally"].tolist() == [173, 5]
    shapes = {
        "tally": (2,),
        "upper": (3, INNER),
        "leaves": (3, 18),
        "unions": (2, len(made.cells.unions)),
        "areas0": (5, 3),
    }
    assert {name: array.shape for name, array in state.items()} == shapes


@pytest.mark.parametrize("name", ["top-down", "blue-down", "joint"])
def test_a_block_on_its_own(name):
    """Runs 64 to 69: sums of r, r^2 and e^2 of all nodes, of r by cell, and five sums of each area."""
    noise, rule = case(name)
    made = spec.specify(TRUTH, noise, rule, None, AREAS)
    part = blocks.run_block(made, SEED, blocks.Block(64, 6))
    y = measured(noise, SEED, 70)[64:]
    v, u = outputs(noise, rule, y)
    field = field_for(name)
    r, _ = remainders(noise, rule, y, v, u, field)
    e = v - TRUTH
    planes = np.array([r.sum(axis=0), (r**2).sum(axis=0), (e**2).sum(axis=0)])
    assert part.runs == 6
    assert part.upper == pytest.approx(planes[:, :INNER], abs=1e-7)
    assert part.leaves == pytest.approx(planes[:, INNER:], abs=1e-7)
    cells = np.bincount(made.cells.labels, planes[0, INNER:], minlength=made.cells.counts.size)
    assert part.cells == pytest.approx(cells, abs=1e-7)
    at = made.divisions[0].labels
    R, E = (np.stack([q[:, INNER:][:, at == k].sum(axis=1) for k in range(3)], axis=1) for q in (r, e))
    wanted = [R.sum(axis=0), (R**2).sum(axis=0), E.sum(axis=0), (E**2).sum(axis=0), (R * E).sum(axis=0)]
    assert part.areas[0] == pytest.approx(np.array(wanted), abs=1e-7)


# ---------------------------------------------------------------- splits of rho


def judged(noise, rule):
    found = mean_field(TRUTH, noise, rule, moments=True)
    mse = found.variance + found.bias**2
    rmse = tuple(np.sqrt(mse[at_level == k].mean()) for k in range(4))
    return np.ptp(found.bias[INNER:]), rmse


def searched(tries=400, limit=1.0, progress=None, **given):
    noise = LevelNoise(TREE, **({"sigmas": [0.0, 1.5, 2.5], "kind": "gaussian", "sensitivity": 1.5} | given))
    limits = {2: limit * 1.5, 3: limit * 2.6}
    search = plan._Search(TRUTH, noise, TopDown(TREE), limits, tries, progress)
    return noise, limits, search, search.run()


def test_every_split_is_judged_by_the_formula():
    """rho is D^2 / (2 s^2) summed over the noisy levels; a share p of it buys s = D / sqrt(2 rho p)."""
    _, limits, search, found = searched()
    rho = 1.5**2 / 2 * (1 / 1.5**2 + 1 / 2.5**2)
    assert found.rho == pytest.approx(rho)
    assert found.tried == len(search.seen) < 400
    shares = np.array([(1 / 1.5**2), 1 / 2.5**2])
    assert found.given.shares == pytest.approx((0, 0, *(shares / shares.sum())))
    for split in search.seen.values():
        here = LevelNoise(
            TREE,
            sigmas=[0.0, *(1.5 / np.sqrt(2 * rho * p) for p in split.shares[2:])],
            kind="gaussian",
            sensitivity=1.5,
        )
        alpha, rmse = judged(here, TopDown(TREE))
        assert split.alpha == pytest.approx(alpha, abs=1e-9)
        assert split.rmse == pytest.approx(rmse, abs=1e-9)
        assert split.met == (rmse[2] <= limits[2] and rmse[3] <= limits[3])
        assert sum(split.shares) == pytest.approx(1)
    best = min((split for split in search.seen.values() if split.met), key=lambda split: split.alpha)
    assert found.best is best
    over = {key: max(s.rmse[2] / limits[2], s.rmse[3] / limits[3]) for key, s in search.seen.items()}
    beaten = {
        key for key, a in search.seen.items()
        if any((b.alpha < a.alpha and over[k] <= over[key]) or (b.alpha <= a.alpha and over[k] < over[key]) for k, b in search.seen.items())
    }  # fmt: skip
    alone = sorted((s.alpha, over[key]) for key, s in search.seen.items() if key not in beaten)
    assert [(s.alpha, max(s.rmse[2] / limits[2], s.rmse[3] / limits[3])) for s in found.frontier] == alone
    assert search.over(best) == max(best.rmse[2] / limits[2], best.rmse[3] / limits[3])


def test_the_grid_comes_first_and_then_smaller_and_smaller_steps():
    _, _, search, found = searched()
    keys = list(search.seen)
    grid = [(k / 8, 1 - k / 8) for k in range(1, 8)]
    assert keys[1:8] == grid
    assert [tuple(shares) for shares in search._grid()] == grid
    three = plan._Search(TRUTH, LevelNoise(TREE, sigmas=[1, 1, 1]), TopDown(TREE), {3: 9.0}, 9, None)
    wanted = {(a, b, 8 - a - b) for a in range(1, 8) for b in range(1, 8) if a + b < 8}
    assert sorted(tuple((8 * shares).astype(int)) for shares in three._grid()) == sorted(wanted)
    later = keys[8:]
    share = found.best.shares[2]
    if found.best is not found.given:
        for step in (1 / 64, -1 / 64):
            near = (round(share + step, 9), round(1 - share - step, 9))
            assert near in search.seen or not 0 < near[0] < 1
    assert later
    assert all(0 < key[0] < 1 for key in keys)


@pytest.mark.parametrize(("tries", "factor"), [(500, 1.0), (500, 0.9), (500, 0.4), (25, 1.0), (40, 1.0), (500, None)])
def test_a_search_step_by_step(tries, factor):
    """The noise as it is, 21 splits into eighths, then shares moved between two levels by 1/16, 1/32 and 1/64, each as long as it helps.

    Without a factor the limits are what the noise has: no split into eighths is better, and the steps begin at the noise itself.
    """
    noise = LevelNoise(TREE, sigmas=[2.0, 1.5, 2.5], kind="gaussian")
    met = judged(noise, TopDown(TREE))[1]
    limits = {1: 2.2 * factor, 2: 1.6 * factor} if factor else {1: 1.001 * met[1], 2: 1.001 * met[2]}
    spent = 1 / np.array([2.0, 1.5, 2.5]) ** 2
    seen = {}

    def rank(shares):
        key = tuple(round(float(p), 9) for p in shares)
        if key not in seen:
            here = LevelNoise(TREE, sigmas=[1 / np.sqrt(spent.sum() * p) for p in shares], kind="gaussian")
            alpha, rmse = judged(here, TopDown(TREE))
            over = max(rmse[k] / limit for k, limit in limits.items())
            seen[key] = (0, alpha) if over <= 1 else (1, over)
        return seen[key]

    best = spent / spent.sum()
    rank(best)
    for a in range(1, 7):
        for b in range(1, 8 - a):
            if len(seen) < tries and rank((a / 8, b / 8, (8 - a - b) / 8)) < rank(best):
                best = np.array([a / 8, b / 8, (8 - a - b) / 8])
    for step in (1 / 16, 1 / 32, 1 / 64):
        moved = True
        while moved and len(seen) < tries:
            moved, start = False, best
            for i, j in ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)):
                shares = start.copy()
                shares[i] -= step
                shares[j] += step
                if start[i] > step and len(seen) < tries and rank(shares) < rank(best):
                    best, moved = shares, True
    search = plan._Search(TRUTH, noise, TopDown(TREE), limits, tries, None)
    found = search.run()
    assert list(search.seen) == [pytest.approx(key, abs=2e-9) for key in seen]
    if rank(best)[0] == 0:
        assert found.best.shares[1:] == pytest.approx(best)
        assert found.best.alpha == pytest.approx(rank(best)[1], abs=1e-9)
    else:
        assert found.best is None
    assert found.tried == len(seen) <= tries


def test_a_search_stops_where_it_was_told_and_counts():
    seen = []
    *_, found = searched(tries=5, progress=lambda *given: seen.append(given))
    assert found.tried == 5
    assert seen == [(k, 5) for k in range(1, 6)]
    *_, later = searched(tries=10)
    assert later.tried == 10
    *_, none = searched(tries=30, limit=0.1)
    assert none.best is None
    least = min(none.frontier, key=lambda s: max(s.rmse[2] / 0.15, s.rmse[3] / 0.26))
    assert none.frontier[-1] is least


def test_a_split_that_meets_its_limits_comes_first():
    _, _, search, found = searched()
    met, not_met = replace(found.given, met=True), replace(found.given, met=False)
    assert search.better(met, not_met) is True
    assert search.better(not_met, met) is False
    less = replace(met, alpha=met.alpha - 0.1)
    assert search.better(less, met)
    assert not search.better(met, less)
    nearer = replace(not_met, rmse=tuple(r * 0.9 for r in not_met.rmse), alpha=9.0)
    assert search.better(nearer, not_met)
    assert not search.better(not_met, nearer)


def test_a_plan_as_plain_data_and_what_it_refuses():
    noise = LevelNoise(TREE, sigmas=[0.0, 1.5, 2.5], kind="gaussian")
    found = plan.plan_split(X, noise, max_rmse={"group": 1.5, "leaf": 2.6}, tries=12)
    named = plan.plan_split(X, noise, TopDown(TREE, pool=True), max_rmse={"group": 1.5, "leaf": 2.6}, tries=12)
    assert found.to_dict() == named.to_dict()
    names = ["all", "county", "group", "leaf"]
    given = found.given
    assert given.to_dict(TREE) == {
        "split": dict(zip(names, given.shares, strict=True)), "alpha": given.alpha,
        "root_mean_squared_error": dict(zip(names, given.rmse, strict=True)), "met": given.met,
    }  # fmt: skip
    assert found.to_dict() == {
        "rho": found.rho, "given": given.to_dict(TREE), "best": found.best.to_dict(TREE),
        "frontier": [split.to_dict(TREE) for split in found.frontier], "tried": 12,
    }  # fmt: skip
    assert replace(found, best=None).to_dict()["best"] is None
    limit = {"leaf": 2.6}
    for error, says, more in (
        (UnsupportedError, "which the joint optimum does not have", dict(rule="joint")),
        (UnsupportedError, "got laplace", dict(noise=LevelNoise(TREE, sigmas=[1, 1, 1], kind="laplace"))),
        (ParameterError, "at least one level", dict(max_rmse={})),
        (ParameterError, "at least 1, got 0", dict(tries=0)),
        (ParameterError, "at least 1, got True", dict(tries=True)),
        (ParameterError, "got 'x'", dict(max_rmse={"x": 1.0})),
    ):
        with pytest.raises(error, match=says):
            plan.plan_split(X, **({"noise": noise, "rule": "top-down", "max_rmse": limit} | more))
    assert plan.plan_split(X, noise, "top-down", max_rmse=limit, tries=1).tried == 1
    token = cancel.Token()
    token.cancel("enough")
    with cancel.by(token), pytest.raises(Cancelled):
        plan.plan_split(X, noise, "top-down", max_rmse=limit)


def test_a_noisy_root_has_a_share_too():
    noise = LevelNoise(TREE, sigmas=[3.0, 2.0, 1.5, 2.5], kind="gaussian")
    found = plan.plan_split(X, noise, "top-down", max_rmse={"leaf": 9.0}, tries=3)
    spent = 1 / np.array([3.0, 2.0, 1.5, 2.5]) ** 2
    assert found.given.shares == pytest.approx(spent / spent.sum())
    assert found.given.alpha == pytest.approx(judged(noise, TopDown(TREE))[0], abs=1e-9)


def test_more_or_less_rho_split_the_same():
    noise = LevelNoise(TREE, sigmas=[0.0, 1.5, 2.5], kind="gaussian", sensitivity=1.5)
    seen = []
    points = plan.sweep_levels(
        X, noise, ["top-down", TopDown(TREE, pool=True)], [0.5, 2], progress=lambda *given: seen.append(given)
    )
    assert seen == [(k, 4) for k in range(1, 5)]
    assert [(p.postprocess, p.rho) for p in points] == [
        (r, rho) for rho in (0.5, 2.0) for r in ("top-down", "blue-down")
    ]
    for point in points:
        here = LevelNoise(TREE, sigmas=list(point.spreads), kind="gaussian", sensitivity=1.5)
        assert here.spent == pytest.approx(point.rho)
        assert point.spreads[3] / point.spreads[2] == pytest.approx(2.5 / 1.5)
        alpha, rmse = judged(here, TopDown(TREE, pool=point.postprocess == "blue-down"))
        assert point.alpha == pytest.approx(alpha, abs=1e-9)
        assert point.rmse == pytest.approx(rmse, abs=1e-9)
        names = ["all", "county", "group", "leaf"]
        assert point.to_dict(TREE) == {
            "postprocess": point.postprocess, "rho": point.rho, "noise": dict(zip(names, point.spreads, strict=True)),
            "alpha": point.alpha, "root_mean_squared_error": dict(zip(names, point.rmse, strict=True)),
        }  # fmt: skip
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(ParameterError, match="`rhos` must be above 0 and finite"):
            plan.sweep_levels(X, noise, ["top-down"], [bad])
    with pytest.raises(UnsupportedError, match="got discrete-laplace"):
        plan.sweep_levels(X, LevelNoise(TREE, sigmas=[1, 1, 1], kind="discrete-laplace"), ["top-down"], [1.0])


# ---------------------------------------------------------------- the synthetic nation

CENSUS_2020 = {
    "Alabama": 5024279, "Alaska": 733391, "Arizona": 7151502, "Arkansas": 3011524, "California": 39538223, "Colorado": 5773714,
    "Connecticut": 3605944, "Delaware": 989948, "District of Columbia": 689545, "Florida": 21538187, "Georgia": 10711908,
    "Hawaii": 1455271, "Idaho": 1839106, "Illinois": 12812508, "Indiana": 6785528, "Iowa": 3190369, "Kansas": 2937880,
    "Kentucky": 4505836, "Louisiana": 4657757, "Maine": 1362359, "Maryland": 6177224, "Massachusetts": 7029917,
    "Michigan": 10077331, "Minnesota": 5706494, "Mississippi": 2961279, "Missouri": 6154913, "Montana": 1084225,
    "Nebraska": 1961504, "Nevada": 3104614, "New Hampshire": 1377529, "New Jersey": 9288994, "New Mexico": 2117522,
    "New York": 20201249, "North Carolina": 10439388, "North Dakota": 779094, "Ohio": 11799448, "Oklahoma": 3959353,
    "Oregon": 4237256, "Pennsylvania": 13002700, "Rhode Island": 1097379, "South Carolina": 5118425, "South Dakota": 886667,
    "Tennessee": 6910840, "Texas": 29145505, "Utah": 3271616, "Vermont": 643077, "Virginia": 8631393, "Washington": 7705281,
    "West Virginia": 1793716, "Wisconsin": 5893718, "Wyoming": 576851,
}  # fmt: skip
"""Resident population by the apportionment results of 2020, as published."""


def test_the_states_are_those_of_the_census():
    """331,449,281 people. Codes go by the alphabet and leave out 3, 7, 14, 43 and 52, once meant for territories."""
    assert sum(CENSUS_2020.values()) == 331_449_281
    assert list(CENSUS_2020) == sorted(CENSUS_2020)
    codes = [f"{k:02}" for k in range(1, 57) if k not in (3, 7, 14, 43, 52)]
    thousands = {code: round(n / 1000) for code, n in zip(codes, CENSUS_2020.values(), strict=True)}
    assert thousands == nation.STATES
    assert list(nation.UNITS.values()) == [51, 3143, 84414, 239780, 8132968]
    assert list(nation.LEVELS.items()) == [
        ("state", 2),
        ("county", 5),
        ("tract", 11),
        ("block group", 12),
        ("block", 15),
    ]
    assert list(nation.UNITS) == list(nation.LEVELS)
    assert (nation.PEOPLE, nation.EMPTY, nation.RURAL) == (330.1e6, 0.349, 60)


def shared_out(weights, total, most):
    """One each, then in proportion to the weights of those with room, rounded down; at last one each to the heaviest."""
    out = [1] * len(weights)
    while (left := total - sum(out)) > 0:
        room = [w if n < most else 0.0 for w, n in zip(weights, out, strict=True)]
        more = [int(left * w / sum(room)) for w in room]
        if sum(more) == 0:
            heaviest = sorted(range(len(room)), key=lambda k: (-room[k], k))[:left]
            more = [int(k in heaviest) for k in range(len(room))]
        out = [n + min(k, most - n) for n, k in zip(out, more, strict=True)]
    return out


@pytest.mark.parametrize(("total", "most"), [(40, 100), (40, 6), (7, 9), (5, 9), (35, 5)])
def test_units_over_parents(total, most):
    weights = np.array([1.0, 5.0, 2.0, 2.0, 0.5, 3.0, 1.5])
    for spread in (0.0, 0.8):
        noisy = weights * np.random.default_rng(4).lognormal(0.0, spread, 7)
        found = nation._parts(np.random.default_rng(4), weights, total, spread, most)
        assert found.tolist() == shared_out(noisy.tolist(), total, most)
        assert found.dtype == np.int64


def test_people_in_blocks():
    """The same draws in plain loops: emptiness, shares of a block group by its gamma, whole numbers, one more where there is anyone."""
    block = np.array([1, 1, 1, 2, 1, 4, 61, 60, 9])
    counts, rural = nation._people(np.random.default_rng(16), block, 4000.0)
    rng, n, size = np.random.default_rng(16), 140, np.repeat(block, block)
    assert rural.tolist() == (size == 61).tolist()
    liking = rng.random(n) / size**0.25
    empty = np.argsort(liking) < 0
    empty[np.argsort(liking)[: round(0.349 * n)]] = True
    draws = np.where(empty, 0.0, rng.lognormal(0.0, 1.1, n))
    wanted, start = rng.gamma(6.0, 1.0, 9), 0
    for k, many in enumerate(block):
        part = slice(start, start + many)
        if draws[part].sum() > 0:
            draws[part] *= wanted[k] / draws[part].sum()
        start += many
    assert (np.add.reduceat(draws, np.cumsum(block) - block) == 0).any()  # a group without anybody stays so
    draws *= (4000.0 - (~empty).sum()) / draws.sum()
    assert counts.tolist() == (np.floor(draws + rng.random(n)) + ~empty).tolist()
    assert ((counts > 0) == ~empty).all()


def test_geoids_of_blocks():
    """State, county 1, 3, 5, ..., tract 100, 200, ..., and a block whose first digit is its group from 1 on."""
    county, groups = np.ones(51, dtype=np.int64), np.ones(55, dtype=np.int64)
    county[1] = 3
    tract = np.ones(53, dtype=np.int64)
    tract[0], tract[2] = 2, 2
    groups[0], many = 2, np.ones(56, dtype=np.int64)
    many[1] = 11
    found = nation._geoids(county, tract, groups, many)
    wanted, c, t_, g = [], 0, 0, 0
    for k, state in enumerate(nation.STATES):
        for i in range(county[k]):
            for j in range(tract[c]):
                for h in range(groups[t_]):
                    wanted += [f"{state}{2 * i + 1:03}{100 * (j + 1):06}{h + 1}{b:03}" for b in range(many[g])]
                    g += 1
                t_ += 1
            c += 1
    assert [geoid.decode() for geoid in found] == wanted


def test_a_small_nation_is_made_of_these_parts():
    made = nation.synthetic_nation(5, 0.0003)
    rng, people = np.random.default_rng(5), np.array(list(nation.STATES.values()), dtype=float)
    units = [51, 51, 72, 2440]  # 0.9, 25, 72 and 2,440: at least one a state
    county = nation._parts(rng, people**0.5, units[0], 0.3, 499)
    tract = nation._parts(rng, np.repeat(people / county, county), units[1], 1.5, 100_000)
    group = nation._parts(rng, np.ones(tract.sum()), units[2], 0.3, 9)
    block = nation._parts(rng, np.ones(group.sum()), units[3], 0.9, 999)
    counts, rural = nation._people(rng, block, 330.1e6 * 2440 / 8132968)
    assert made.counts.tolist() == counts.tolist()
    assert made.rural.tolist() == rural.tolist()
    assert made.geoids.tolist() == nation._geoids(county, tract, group, block).tolist()
    assert made.groups.tolist() == ["rural" if r else "urban" for r in rural]
    tree = made.tree()
    assert [tree.size(k) for k in range(6)] == [1, 51, 51, 51, 72, 2440]
    assert tree.names == ("all", *nation.LEVELS)
    for bad in (0.0, 1.5, -1.0):
        with pytest.raises(ParameterError, match="`scale` must be above 0 and at most 1"):
            nation.synthetic_nation(0, bad)
    other = nation.synthetic_nation(0, 0.0003)
    assert other.counts.tolist() == nation.synthetic_nation(scale=0.0003).counts.tolist()


# ---------------------------------------------------------------- the formula


@pytest.mark.parametrize("name", [name for name in CASES if name != "joint"])
def test_mean_field_by_sums_and_integrals(name):
    """A family's target is met to 1e-13 of it and of the spread, so numbers agree to 1e-10 or so; slopes are single precision."""
    noise, rule = case(name)
    wanted = field_for(name)
    found = mean_field(TRUTH, noise, rule, moments=True)
    assert found.bias == pytest.approx(wanted.bias, abs=1e-9)
    assert found.thresholds == pytest.approx(wanted.m, abs=1e-9)
    assert pytest.approx(wanted.P[INNER:], abs=1e-6) == found.P
    assert found.P_above == pytest.approx(wanted.P[:INNER], abs=1e-6)
    assert found.variance == pytest.approx(wanted.variance, abs=1e-8)
    assert found.remainder == pytest.approx(wanted.rest, abs=1e-8)
    short = mean_field(TRUTH, noise, rule)
    assert short.variance is None
    assert short.remainder is None
    assert short.bias.tolist() == found.bias.tolist()


@pytest.mark.parametrize("name", ["top-down", "blue-down"])
def test_mean_field_of_a_small_noisy_root(name):
    """One person and noise of 3: the root is clipped itself, and everything below shares what it gains.

    Pooled with all below, the root has less noise than its own.
    """
    noise, x = LevelNoise(TREE, sigmas=[3.0, 2.0, 1.5, 2.5]), TREE.sums(np.eye(18)[4])
    wanted = field_of(noise, rule_of(name, TREE), x)
    found = mean_field(x, noise, rule_of(name, TREE), moments=True)
    assert found.bias[0] == pytest.approx(wanted.bias[0], abs=1e-12)
    assert found.bias[0] > (0.5 if name == "top-down" else 0.3)
    assert found.bias == pytest.approx(wanted.bias, abs=1e-9)
    assert found.variance == pytest.approx(wanted.variance, abs=1e-8)
    assert found.remainder == pytest.approx(wanted.rest, abs=1e-8)


def test_mean_field_of_the_unclipped_estimate_is_no_bias_and_its_variance():
    noise = LevelNoise(TREE, sigmas=[2.0, 1.5, 2.5])
    found = mean_field(TRUTH, noise, Unclipped(TREE), moments=True)
    L = least_squares(noise)
    assert not found.bias.any()
    assert not found.remainder.any()
    assert found.variance == pytest.approx(((L**2) * noise.variances[at_level]).sum(axis=1), abs=1e-10)
    plain = mean_field(TRUTH, noise, Unclipped(TREE))
    assert plain.variance is None
    assert plain.remainder is None
    for refused, says in ((Joint(TREE), "simulate it"), (TopDown(TREE), "got one that is neither")):
        here = noise if says == "simulate it" else LevelNoise(TREE, sigmas=[np.inf, 2.0, 1.5, 2.5])
        with pytest.raises(UnsupportedError, match=says):
            mean_field(TRUTH, here, refused)


@pytest.mark.parametrize(
    ("made", "reach"), [(DiscreteLaplace(0.7), 71), (mechanism_of("discrete-gaussian", sigma=2.3), 36)]
)
def test_tables_of_tails(made, reach):
    """E[eta^k; eta >= j] for j = -reach .. reach + 1, with a reach of 100 scales or 15 sigmas and one more, rounded up."""
    table = tails_of(made)
    points = np.arange(-300.0, 301.0)
    mass = np.exp(-np.abs(points) / 0.7) if reach == 71 else np.exp(-0.5 * (points / 2.3) ** 2)
    mass /= mass.sum()
    assert table.shape == (3, 2 * reach + 2)
    for k in range(3):
        wanted = [(mass * points**k)[points >= j].sum() for j in range(-reach, reach + 2)]
        assert table[k] == pytest.approx(wanted, abs=1e-12)
    assert tails_of(Gaussian(2.0)).tolist() == tails_of(None).tolist() == [[0.0, 0.0]] * 3


def test_mean_field_looks_whether_the_question_stands():
    token = cancel.Token()
    token.cancel("enough")
    with cancel.by(token), pytest.raises(Cancelled, match="enough"):
        mean_field(TRUTH, LevelNoise(TREE, sigmas=[2.0, 1.5, 2.5]), TopDown(TREE))


# ---------------------------------------------------------------- the audit


def split_by(names, labels):
    labels = np.array([str(label) for label in labels])
    return {name: np.flatnonzero(labels == name) for name in names}


SIZE_CLASSES = {"0": (0, 1), "1-9": (1, 10), "10-49": (10, 50), "50-199": (50, 200), "200+": (200, np.inf)}
DEGREES = 0.1
"""One less the confidence that is asked for below."""


def student(level, df):
    return float(student_t.ppf(1 - level / 2, df))


@pytest.fixture(scope="module", params=CASES)
def audited(request):
    """An audit, and what 150 runs of the oracle give."""
    noise, rule = case(request.param)
    y = measured(noise, SEED, RUNS)
    v, u = outputs(noise, rule, y)
    field = field_for(request.param)
    r, offset = remainders(noise, rule, y, v, u, field)
    e = v - TRUTH
    squares = (e**2).mean(axis=0)
    if rule.whole:
        squares = squares + ((v - np.floor(v)) * (1 - v + np.floor(v))).mean(axis=0)
    found = audit_hierarchy(
        X, noise, rule, runs=RUNS, seed=SEED, confidence=1 - DEGREES, groups=GROUPS, areas=AREAS, threads=2
    )
    return SimpleNamespace(
        name=request.param, noise=noise, rule=rule, found=found, field=field, r=r, e=e, offset=offset, squares=squares,
        bias=offset + r.mean(axis=0), error=r.std(axis=0, ddof=1) / np.sqrt(RUNS),
    )  # fmt: skip


def test_levels_of_an_audit_by_hand(audited):
    a, found = audited, audited.found
    cover = np.sqrt((least_squares(a.noise) ** 2 * a.noise.variances[at_level]).sum(axis=1))
    for k in (1, 2, 3):
        here, level = at_level == k, found.levels[k - 1]
        bias, error = a.bias[here], a.error[here]
        delta = DEGREES / here.sum()
        half = student(delta, RUNS - 1) * error + np.log(2 / delta) * np.sqrt(a.noise.variances[k]) / RUNS
        assert level._bias == pytest.approx(bias, abs=1e-8)
        assert level._error == pytest.approx(error, abs=1e-7)
        assert level._half == pytest.approx(half, abs=1e-6)
        assert level._mse == pytest.approx(a.squares[here], abs=1e-8)
        assert level._truth.tolist() == TRUTH[here].tolist()
        assert level.rmse == pytest.approx(np.sqrt(a.squares[here].mean()), abs=1e-9)
        assert level.unclipped_rmse == pytest.approx(np.sqrt((cover[here] ** 2).mean()), abs=1e-9)
        assert level.alpha.value == pytest.approx(np.ptp(bias), abs=1e-8)
        low, high = (bias - half).max() - (bias + half).min(), (bias + half).max() - (bias - half).min()
        assert level.alpha.low == pytest.approx(min(max(low, 0), np.ptp(bias)), abs=1e-6)
        assert level.alpha.high == pytest.approx(high, abs=1e-6)
        assert level.accuracy == level.alpha.kind == "interval"
        ids = TREE.labels.texts(k)
        if np.ptp(bias) > 1e-6:
            assert level.alpha_pair == (ids[int(bias.argmax())], ids[int(bias.argmin())])
        if a.name == "joint":
            assert level.formula_error is None
        else:
            gap = ((bias - a.field.bias[here]) ** 2 - error**2).mean()
            assert level.formula_error == pytest.approx(np.sqrt(max(gap, 0)), abs=1e-6)
    assert (found.runs, found.seed, found.confidence, found.interrupted) == (RUNS, SEED, 1 - DEGREES, False)
    assert (found.method, found.accuracy, found.postprocess) == ("monte-carlo", "interval", a.rule.label)
    first = (
        "simulated with the unclipped estimate as control"
        if a.name == "joint"
        else "the formula and its remainder, measured"
    )
    assert found.note == f"{first} in {RUNS} runs"
    assert found.tree is TREE
    assert found.noise is a.noise


def test_classes_and_groups_of_an_audit_by_hand(audited):
    """Half-widths from the three blocks of 64, 64 and 22 runs: their means about the mean of all, each with its runs as weight."""
    a, found, x = audited, audited.found, TRUTH[INNER:]
    in_tree = [GROUPS[i] for i in TREE.order]
    wanted = {
        "sizes": {name: np.flatnonzero((x >= low) & (x < high)) for name, (low, high) in SIZE_CLASSES.items()},
        "values": {str(k): np.flatnonzero(x == k) for k in range(10) if (x == k).any()},
        "groups": split_by(dict.fromkeys(GROUPS), in_tree),
    }
    for kind, parts in wanted.items():
        assert [part.name for part in getattr(found, kind)] == list(parts)
        for part, some in zip(getattr(found, kind), parts.values(), strict=True):
            sums = a.r[:, INNER + some].sum(axis=1)
            means = np.array([sums[:64].mean(), sums[64:128].mean(), sums[128:].mean()])
            between = (np.array([64, 64, 22]) * (means - sums.mean()) ** 2).sum()
            half = student(DEGREES, 2) * np.sqrt(between / 2 / RUNS) / some.size
            assert (part.n, part.count) == (some.size, x[some].sum())
            assert part.bias == pytest.approx(a.bias[INNER + some].mean(), abs=1e-8)
            assert part.rmse == pytest.approx(np.sqrt(a.squares[INNER + some].mean()), abs=1e-8)
            assert part.half_width == pytest.approx(half, abs=1e-7)


def test_areas_of_an_audit_by_hand(audited):
    """w r + (1 - w) e of the least variance in the sample, 0 <= w <= 1; Bonferroni over the three areas."""
    a, names = audited, ["north", "south", "west"]
    in_tree = [AREAS[i] for i in TREE.order]
    assert [part.name for part in a.found.areas] == names
    for part, some in zip(a.found.areas, split_by(names, in_tree).values(), strict=True):
        r, e = a.r[:, INNER + some].sum(axis=1), a.e[:, INNER + some].sum(axis=1)
        (rr, re), (_, ee) = np.cov(r, e)
        w = float(np.clip((ee - re) / (rr + ee - 2 * re), 0, 1))
        mixed = w * (r + a.offset[INNER + some].sum()) + (1 - w) * e
        assert part.bias == pytest.approx(mixed.mean(), abs=1e-6)
        assert part.half_width == pytest.approx(
            student(DEGREES / 3, RUNS - 1) * mixed.std(ddof=1) / np.sqrt(RUNS), abs=1e-6
        )
        assert part.rmse == pytest.approx(np.sqrt((e**2).mean()), abs=1e-8)
        assert (part.n, part.count) == (some.size, TRUTH[INNER + some].sum())


def test_one_block_has_the_mean_of_its_leaves_half_widths():
    noise, rule = case("top-down")
    found = audit_hierarchy(X, noise, rule, runs=60, seed=3, groups=GROUPS)
    for name, some in split_by(dict.fromkeys(GROUPS), GROUPS).items():
        part = next(p for p in found.groups if p.name == name)
        assert part.half_width == pytest.approx(found.leaves.half_width[some].mean(), rel=1e-12)


def test_one_node_alone_has_no_range_however_wide_its_interval():
    tree = Hierarchy.from_labels([list("aaa"), list("012")], ["whole", "leaf"])
    noise = LevelNoise(tree, sigmas=[1.0, 1.0, 1.0])
    level = audit_hierarchy([1.0, 0.0, 2.0], noise, "top-down", runs=70).level("whole")
    assert level.half_width[0] > 1e-3
    assert (level.alpha.value, level.alpha.low, level.alpha.high) == (0.0, 0.0, 0.0)


def test_one_leaf_alone_and_an_area_that_is_all():
    """A mask of every leaf below a known root: e is 0 in every run, so the bias is 0 without an error."""
    noise, rule = case("top-down")
    masks = {"all": np.ones(18, dtype=bool), "first": np.arange(18) == 0}
    found = audit_hierarchy(X, noise, rule, runs=80, seed=2, areas=masks)
    whole, first = found.areas
    assert whole.bias == pytest.approx(0, abs=1e-9)
    assert whole.half_width == pytest.approx(0, abs=1e-7)
    assert first.n == 1
    assert first.count == X[0]
    assert first.rmse == pytest.approx(np.sqrt(found.leaves.mse[0]), abs=1e-12)


@pytest.mark.parametrize("name", ["top-down", "blue-down, a list", "top-down, noisy root"])
def test_an_audit_by_the_formula_by_hand(name):
    noise, rule = case(name)
    field = field_for(name)
    found = audit_hierarchy(X, noise, rule, method="mean-field", groups=GROUPS, areas=AREAS, confidence=0.8)
    assert (found.method, found.accuracy, found.runs, found.seed) == ("mean-field", "expansion", None, None)
    assert found.confidence == 0.8
    assert found.note.startswith("by the formula alone")
    assert found.postprocess == rule.label
    mse = field.variance + field.bias**2
    cover = (least_squares(noise) ** 2 * noise.variances[at_level]).sum(axis=1)
    for k in (1, 2, 3):
        here, level = at_level == k, found.levels[k - 1]
        bias, half = field.bias[here], 2 * np.abs(field.rest[here])
        assert level._bias == pytest.approx(bias, abs=1e-9)
        assert level._half == pytest.approx(half, abs=1e-8)
        assert level._mse == pytest.approx(mse[here], abs=1e-8)
        assert level.rmse == pytest.approx(np.sqrt(mse[here].mean()), abs=1e-8)
        assert level.unclipped_rmse == pytest.approx(np.sqrt(cover[here].mean()), abs=1e-9)
        assert level.formula_error is None
        assert level.accuracy == "expansion"
        assert level.alpha.high == pytest.approx((bias + half).max() - (bias - half).min(), abs=1e-7)
        low = (bias - half).max() - (bias + half).min()
        assert level.alpha.low == pytest.approx(min(max(low, 0), np.ptp(bias)), abs=1e-7)
    x, bias, rest, mse = TRUTH[INNER:], field.bias[INNER:], field.rest[INNER:], mse[INNER:]
    groups = split_by(dict.fromkeys(GROUPS), [GROUPS[i] for i in TREE.order])
    sizes = {name: np.flatnonzero((x >= low) & (x < high)) for name, (low, high) in SIZE_CLASSES.items()}
    for parts, wanted in ((found.groups, groups), (found.sizes, sizes)):
        for part, some in zip(parts, wanted.values(), strict=True):
            assert (part.n, part.count) == (some.size, x[some].sum())
            assert part.bias == pytest.approx(bias[some].mean(), abs=1e-9)
            assert part.rmse == pytest.approx(np.sqrt(mse[some].mean()), abs=1e-8)
            assert part.half_width == pytest.approx(2 * abs(rest[some].sum()) / some.size, abs=1e-8)
    areas = split_by(["north", "south", "west"], [AREAS[i] for i in TREE.order])
    assert [part.name for part in found.values] == [str(k) for k in range(10) if (x == k).any()]
    for part, some in zip(found.areas, areas.values(), strict=True):
        assert (part.n, part.count, part.rmse) == (some.size, x[some].sum(), None)
        assert part.bias == pytest.approx(bias[some].sum(), abs=1e-9)
        assert part.half_width == pytest.approx(2 * abs(rest[some].sum()), abs=1e-8)


def test_groups_may_come_with_the_counts_or_as_a_series():
    noise, rule = case("top-down")
    how = dict(method="mean-field")
    given = audit_hierarchy(X, noise, rule, groups=GROUPS, **how).to_dict()
    counts = Counts(X, groups=GROUPS)
    assert audit_hierarchy(counts, noise, rule, **how).to_dict() == given
    assert audit_hierarchy(X, noise, rule, groups=pl.Series(GROUPS), **how).to_dict() == given
    other = audit_hierarchy(counts, noise, rule, groups=["one"] * 18, **how)
    assert [(part.name, part.n) for part in other.groups] == [("one", 18)]
    assert audit_hierarchy(X, noise, rule, **how).groups == ()
    numbered = audit_hierarchy(X, noise, rule, groups=pl.Series([k % 2 for k in range(18)]), **how)
    assert [(part.name, part.n) for part in numbered.groups] == [("0", 9), ("1", 9)]
    assert audit_hierarchy(X, noise, Unclipped(TREE)).method == "mean-field"
    assert audit_hierarchy(X, noise, "top-down", method="monte-carlo", runs=3).runs == 3
    assert audit_hierarchy(X, noise, method="mean-field").postprocess == "blue-down-threshold"
    for bad, says in (([np.inf] * 18, "got inf at position 0"), ([1.0] * 17 + [np.nan], "got nan at position 17")):
        with pytest.raises(CountsError, match=says):
            audit_hierarchy(bad, noise, rule)
    with pytest.raises(CountsError, match=r"18 leaves, shape \(18, 1\)"):
        audit_hierarchy(X[:, None], noise, rule)
    with pytest.raises(ParameterError, match="a rule to simulate must be top-down, blue-down or joint, got unclipped"):
        spec.specify(TRUTH, noise, Unclipped(TREE), None, None)


def test_a_withdrawn_question_keeps_what_it_has_reached():
    noise, rule = case("top-down")
    token = cancel.Token()

    def progress(done, most):
        if done == 128:
            token.cancel("enough")

    with cancel.by(token), pytest.raises(Cancelled, match="enough") as caught:
        audit_hierarchy(X, noise, rule, runs=640, seed=SEED, progress=progress)
    reached = caught.value.reached
    same = audit_hierarchy(X, noise, rule, runs=128, seed=SEED)
    assert (reached.runs, reached.interrupted) == (128, True)
    assert reached.note == "the formula and its remainder, measured in 128 runs, where it was interrupted"
    assert reached.leaves.bias.tolist() == same.leaves.bias.tolist()
    with cancel.by(token), pytest.raises(Cancelled, match="enough"):
        Simulation(runs=640).run(spec.specify(TRUTH, noise, rule, None, None))


# ---------------------------------------------------------------- who computes, and what is written


def test_a_simulation_as_it_comes():
    how = Simulation()
    assert (how.runs, how.seed, how.confidence, how.threads, how.progress) == (1000, 0, 0.95, None, None)
    assert (how.checkpoint, how.checkpoint_every, how.cluster, how.backend) == (None, 10.0, None, "cpu")
    assert Simulation(progress=print, cluster="x") == how  # who looks and who works is no part of the question
    for bad, says in (
        (dict(runs=1), "`runs` must be a whole number, at least 2, got 1"),
        (dict(runs=None), "`runs` must be a whole number, at least 2, got None"),
        (dict(runs=True), "`runs` must be a whole number, at least 2, got True"),
        (dict(runs=10.0), r"`runs` must be a whole number, at least 2, got 10\.0"),
        (dict(runs=2**62), "`runs` must be a whole number"),
        (dict(threads=0), "`threads` must be a whole number, at least 1, got 0"),
        (dict(threads=True), "`threads` must be a whole number, at least 1, got True"),
        (dict(seed=-1), "seed"),
        (dict(confidence=1.0), r"`confidence` must be above 0 and below 1, got 1\.0"),
        (dict(confidence=0.0), r"`confidence` must be above 0 and below 1, got 0\.0"),
        (dict(backend="tpu"), "`backend` must be one of cpu, gpu, auto, got 'tpu'"),
        (dict(backend="gpu", cluster="x"), "on a cluster or on this machine's GPU, got both"),
    ):
        with pytest.raises(ParameterError, match=says):
            Simulation(**bad)
    assert Simulation(runs=np.int64(2), threads=1).runs == 2
    assert Simulation(backend="auto", cluster="x").backend == "auto"


def test_where_runs_are_made(monkeypatch):
    from fairpost.hierarchy import gpu

    made = spec.specify(TRUTH, *case("top-down"), None, None)

    def refuse(given):
        raise UnsupportedError("no card")

    seen = []
    monkeypatch.setattr(gpu, "covers", refuse)
    assert Simulation(backend="cpu").where(made) == ("cpu", None)
    assert Simulation(backend="gpu").where(made) == ("gpu", "on the GPU")
    assert Simulation(backend="auto").where(made) == ("cpu", "on the CPU: no card")
    monkeypatch.setattr(gpu, "covers", seen.append)
    assert Simulation(backend="auto").where(made) == ("gpu", "on the GPU")
    assert seen == [made]
    assert Simulation(backend="auto", cluster="x").where(made) == ("cpu", "on the CPU: a cluster was asked for")
    assert len(seen) == 1
    monkeypatch.setattr(gpu, "covers", refuse)
    note = audit_hierarchy(X, *case("top-down"), runs=5, backend="auto").note
    assert note == "the formula and its remainder, measured in 5 runs on the CPU: no card"


def test_how_many_threads(monkeypatch):
    seen = []
    monkeypatch.setattr(simulation, "within_memory", lambda wanted, each: seen.append((wanted, each)) or (1, "few"))
    joint, plain = (spec.specify(TRUTH, *case(name), None, None) for name in ("joint", "top-down"))
    assert Simulation(threads=3).crew(joint) == (1, "few")
    Simulation(threads=3, cluster="x").crew(joint)
    Simulation(threads=4).crew(plain)
    assert seen == [(3, 8 * 14 * 28), (3, 1), (4, 1)]
    assert audit_hierarchy(X, *case("top-down"), runs=5).note.endswith("in 5 runs; few")


class Recorder:
    """A checkpoint that writes down what is asked of it."""

    made: list
    start = 0

    def __init__(self, path, mark, every):
        self.path, self.every, self.saved, self.due = path, every, [], False
        self.made.append(self)

    def restore(self, totals):
        totals.tally += (64 * self.start, self.start)

    def save(self, totals, *, now=False):
        self.saved.append((totals.runs, now))


@pytest.fixture
def recorded(monkeypatch):
    made = type("Recorded", (Recorder,), {"made": []})
    monkeypatch.setattr(simulation, "Checkpoint", made)
    return made


@pytest.mark.parametrize("name", ["top-down", "blue-down", "joint"])
def test_states_are_written_after_whole_blocks_and_before_a_short_one(recorded, name, tmp_path):
    seen = []
    how = dict(checkpoint=tmp_path / "c", checkpoint_every=7.0, threads=2, progress=lambda *given: seen.append(given))
    for runs, wanted in (
        (150, [(64, False), (128, False), (128, True)]),
        (128, [(64, False), (128, False), (128, True)]),
        (40, []),
    ):
        seen.clear()
        audit_hierarchy(X, *case(name), runs=runs, **how)
        assert recorded.made[-1].saved == wanted
        assert seen == [(min(done, runs), runs) for done in (64, 128, 192) if done - 64 < runs]
    assert (recorded.made[0].path, recorded.made[0].every) == (tmp_path / "c", 7.0)
    recorded.start = 1
    seen.clear()
    audit_hierarchy(X, *case(name), runs=192, **how)
    assert recorded.made[-1].saved == [(128, False), (192, False), (192, True)]
    assert seen == [(128, 192), (192, 192)]
    recorded.start = 3
    assert audit_hierarchy(X, *case(name), runs=192, **how).runs == 192
    assert recorded.made[-1].saved == [(192, True)]
    with pytest.raises(ParameterError, match="`runs` must be at least the 192 of the checkpoint, got 191"):
        audit_hierarchy(X, *case(name), runs=191, **how)


@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_a_file_goes_on_as_long_as_its_digest_is_made_the_same_way(where):
    """The words, the machine where it is not the processor, then arrays and areas: files of the same version stay readable."""
    noise, rule = case("top-down, a number")
    made = spec.specify(TRUTH, noise, rule, None, AREAS)
    digest = hashlib.sha256(f"1.2 3 7 {noise.top} 3 top-down False 64{'' if where == 'cpu' else where}".encode())
    taus, steeps = rule.thresholds(noise)
    sizes = spec.Cells.of(TRUTH[INNER:], None, ()).labels
    labels = np.array([["north", "south", "west"].index(a) if a in ("north", "south", "west") else -1 for a in AREAS])
    for array in (TREE.child, TREE.offsets, TRUTH, noise.spreads, taus, steeps, sizes):
        digest.update(array.tobytes())
    digest.update(b"('north', 'south', 'west')")
    digest.update(labels[TREE.order].astype(np.int32).tobytes())
    assert fingerprint(made, 7, "1.2", where) == digest.hexdigest()
    assert fingerprint(made, 7, "1.2") == fingerprint(made, 7, "1.2", "cpu")


def test_the_file_is_that_of_the_seed_and_of_the_machine(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(simulation, "fingerprint", lambda *given: seen.append(given[1:]) or "mark")
    audit_hierarchy(X, *case("top-down"), runs=64, seed=np.int64(9), checkpoint=str(tmp_path / "c"))
    from fairpost import __version__

    assert seen == [(9, __version__, "cpu")]
    assert (tmp_path / "c").exists()


class Elsewhere:
    """A cluster in this process; with `lose` it is lost after so many blocks."""

    lose = None

    def __init__(self, address):
        self.address = address

    def session(self, job):
        def results(given):
            for k, block in enumerate(given):
                if k == self.lose:
                    raise LostError("the scheduler is gone")
                yield job.run(block)

        return nullcontext(results)


@pytest.mark.parametrize("name", ["top-down", "joint"])
def test_a_cluster_gets_whole_blocks(monkeypatch, recorded, name, tmp_path):
    addresses = []
    monkeypatch.setattr(simulation, "Cluster", lambda address: addresses.append(address) or Elsewhere(address))
    here = audit_hierarchy(X, *case(name), runs=150, areas=AREAS)
    there = audit_hierarchy(X, *case(name), runs=150, areas=AREAS, cluster="tcp://x", checkpoint=tmp_path / "c")
    assert addresses == ["tcp://x"]
    assert there.to_dict(entities=True) == here.to_dict(entities=True)
    assert recorded.made[-1].saved == [(64, False), (128, False), (128, True)]
    monkeypatch.setattr(Elsewhere, "lose", 2)
    with pytest.raises(LostError, match=r"^the scheduler is gone, after 128 of 1,500 runs$"):
        audit_hierarchy(X, *case(name), runs=1500, cluster="tcp://x", checkpoint=tmp_path / "c")
    assert recorded.made[-1].saved == [(64, False), (128, False), (128, True)]


@pytest.mark.parametrize("name", ["top-down", "joint"])
def test_a_stop_comes_between_two_blocks(name):
    """Withdrawn while the second block runs: two are kept, on threads and on a cluster; before the first: nothing is."""
    made = spec.specify(TRUTH, *case(name), None, None)
    token = cancel.Token()
    how = Simulation(runs=640, seed=SEED, threads=1, progress=lambda done, most: done == 128 and token.cancel())
    with cancel.by(token):
        totals, stopped = how.run(made)
    assert (totals.runs, stopped) == (128, True)
    token = cancel.Token()
    token.cancel("before")
    with cancel.by(token):
        if name == "top-down":
            with pytest.raises(Cancelled, match="before"):
                how.run(made)
        else:  # a block that was handed out is kept
            assert how.run(made)[0].runs == 64
    assert Simulation(runs=70).run(made)[1] is False


@pytest.mark.parametrize("presses", [1, 2])
def test_the_first_interrupt_waits_for_the_block_and_the_second_does_not(presses):
    made = spec.specify(TRUTH, *case("top-down"), None, None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def progress(done, most):
        for _ in range(presses if done == 128 else 0):
            signal.raise_signal(signal.SIGINT)

    how = Simulation(runs=640, progress=progress)
    try:
        if presses == 2:
            with pytest.raises(KeyboardInterrupt):
                how.run(made)
        else:
            totals, stopped = how.run(made)
            assert (totals.runs, stopped) == (128, True)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


class Card:
    """What a GPU would hold: sums that reach the totals only when they are fetched."""

    blocks = 2

    def __init__(self, made, device, seed, totals):
        self.made, self.seed, self.log = made, seed, []
        self.upper, self.leaves = totals.upper.copy(), totals.leaves.copy()
        assert device == "card"

    def run(self, some):
        self.log.append([block.runs for block in some])
        for block in some:
            part = blocks.run_block(self.made, self.seed, block)
            self.upper += part.upper
            self.leaves += part.leaves
            yield replace(part, upper=None, leaves=None)

    def fetch(self, totals):
        self.log.append("fetch")
        totals.upper[:], totals.leaves[:] = self.upper, self.leaves


@pytest.mark.parametrize("due", [False, True])
def test_blocks_on_a_card(monkeypatch, recorded, tmp_path, due):
    """Two blocks at a time; the sums come back when a state is due, before a short block and at the end."""
    from fairpost.engines.montecarlo.backends.gpu import device
    from fairpost.hierarchy import gpu

    cards, seen = [], []
    monkeypatch.setattr(device, "gpu", lambda: "card")
    monkeypatch.setattr(gpu, "Runner", lambda *given: cards.append(Card(*given)) or cards[-1])
    monkeypatch.setattr(gpu, "covers", lambda made: None)
    here = audit_hierarchy(X, *case("top-down"), runs=210, seed=3)
    monkeypatch.setattr(recorded, "due", property(lambda self: due, lambda self, value: None), raising=False)
    there = audit_hierarchy(
        X,
        *case("top-down"),
        runs=210,
        seed=3,
        backend="gpu",
        checkpoint=tmp_path / "c",
        progress=lambda *g: seen.append(g),
    )
    assert there.leaves.bias.tolist() == here.leaves.bias.tolist()
    assert there.note == f"{here.note} on the GPU"
    assert seen == [(128, 210), (192, 210), (210, 210)]
    log, saved = cards[-1].log, recorded.made[-1].saved
    if due:
        assert log == [[64, 64], "fetch", [64], "fetch", "fetch", [18], "fetch", "fetch"]
        assert saved == [(128, True), (192, True), (192, True)]
    else:
        assert log == [[64, 64], [64], "fetch", [18], "fetch"]
        assert saved == [(192, True)]
    plain = audit_hierarchy(X, *case("top-down"), runs=128, seed=3, backend="auto")
    assert cards[-1].log == [[64, 64], "fetch"]
    assert plain.runs == 128
    token = cancel.Token()
    how = Simulation(runs=640, seed=3, backend="gpu", progress=lambda done, most: token.cancel())
    with cancel.by(token):
        totals, stopped = how.run(spec.specify(TRUTH, *case("top-down"), None, None))
    assert (totals.runs, stopped) == (128, True)


# ---------------------------------------------------------------- one tree per cell


@pytest.mark.parametrize("method", ["mean-field", "monte-carlo"])
def test_totals_over_cells_by_hand(method):
    noise, rule = case("top-down")
    apart = method == "monte-carlo"
    how = Simulation(runs=70, seed=6, confidence=0.9)
    found = audit_histogram(PEOPLE, noise, rule, method=method, groups=GROUPS, areas=AREAS, simulation=how)
    alone = [
        audit_hierarchy(
            x, noise, rule, method=method, groups=GROUPS, areas=AREAS, simulation=replace(how, seed=seed_of(6, k))
        )
        for k, x in enumerate(PEOPLE.values())
    ]
    assert [found.cells[name].to_dict() for name in PEOPLE] == [audit.to_dict() for audit in alone]
    for k, level in enumerate(found.total.levels):
        cells = [audit.levels[k] for audit in alone]
        bias = sum(cell._bias for cell in cells)
        errors = np.array([cell._error for cell in cells])
        error = np.sqrt((errors**2).sum(axis=0)) if apart else errors.sum(axis=0)
        half = cells[0]._factor * error + sum(cell._constant for cell in cells)
        mse = sum(np.maximum(cell._mse - cell._bias**2, 0) for cell in cells) + bias**2
        assert level._bias == pytest.approx(bias, abs=1e-12)
        assert level._half == pytest.approx(half, abs=1e-12)
        assert level._mse == pytest.approx(mse, abs=1e-9)
        assert level.rmse == pytest.approx(np.sqrt(mse.mean()), abs=1e-9)
        assert level._truth.tolist() == TRUTH[at_level == k + 1].tolist()
        assert level.unclipped_rmse == pytest.approx(np.sqrt(3) * cells[0].unclipped_rmse)
        assert level.alpha.value == pytest.approx(np.ptp(bias))
        assert level.alpha.high == pytest.approx((bias + half).max() - (bias - half).min())
        assert level.formula_error is None
    total = found.total
    assert total.sizes == total.leaves.by_size()
    assert total.groups == total.leaves.by_group(GROUPS)
    assert total.values == ()
    for part, parts in zip(total.areas, zip(*(audit.areas for audit in alone), strict=True), strict=True):
        half = [p.half_width for p in parts]
        assert (part.name, part.n) == (parts[0].name, parts[0].n)
        assert part.count == sum(p.count for p in parts)
        assert part.bias == pytest.approx(sum(p.bias for p in parts))
        assert part.half_width == pytest.approx(np.sqrt(np.sum(np.square(half))) if apart else sum(half))
        if apart:
            spread = sum(p.rmse**2 - p.bias**2 for p in parts)
            assert part.rmse == pytest.approx(np.sqrt(spread + part.bias**2))
        else:
            assert part.rmse is None
    assert total.seed is None
    assert total.note == f"totals over 3 cells, each a tree with noise of its own; {alone[0].note}"
    assert not found.total_first
    assert found.to_dict()["total_first"] is False
    assert audit_histogram(PEOPLE, noise, rule, method="mean-field").total.groups == ()
    one = audit_histogram({"all": X}, noise, rule, method=method, areas=AREAS, simulation=how)
    assert [part.to_dict("area") for part in one.total.areas] == [
        pytest.approx(part.to_dict("area")) for part in one.cells["all"].areas
    ]
    assert audit_histogram(PEOPLE, noise, method="mean-field").total.postprocess == "blue-down-threshold"


def test_every_cell_has_a_checkpoint_of_its_own_and_an_interrupt_goes_on(recorded, tmp_path):
    noise, rule = case("top-down")
    audit_histogram(PEOPLE, noise, rule, runs=64, checkpoint=tmp_path / "c")
    assert [str(one.path) for one in recorded.made] == [f"{tmp_path / 'c'}.{k}" for k in range(3)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
    try:
        for more in (dict(), dict(totals=noise)):
            with pytest.raises(KeyboardInterrupt):
                audit_histogram(
                    PEOPLE, noise, rule, runs=640, progress=lambda *_: signal.raise_signal(signal.SIGINT), **more
                )
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(CountsError, match="a histogram must have at least one cell, got none"):
        audit_histogram({}, noise)
    with pytest.raises(ParameterError, match="`method` must be one of auto, mean-field, monte-carlo, got 'x'"):
        audit_histogram(PEOPLE, noise, "top-down", totals=noise, method="x")


# ---------------------------------------------------------------- totals first

PEOPLE = {"young": np.floor(X / 3), "old": X - np.floor(X / 3) - (X > 4), "few": (X > 4) * 1.0}
OF_CELLS = LevelNoise(TREE, sigmas=[1.5, 2.0, 1.5, 2.5])  # the root's cells are measured too
OF_TOTALS = LevelNoise(TREE, sigmas=[0.0, 2.0, 5.0])  # county totals are known
NODES = np.array([TREE.sums(part) for part in [*PEOPLE.values(), X]])


def seed_of(seed, k):
    return int(np.random.SeedSequence([seed, k]).generate_state(1, np.uint64)[0])


def one_run(rule, seed, run):
    """z, v and u of the cells (nodes x cells), the measured totals and the unclipped ones."""
    many, pool = len(NODES) - 1, rule.pool

    def noisy(noise, k):
        draw, out = getattr(streams, noise.kind.replace("-", "_")), NODES[k].copy()
        for level in range(4):
            if noise.spreads[level] > 0:
                out[at_level == level] += draw(28, float(noise.spreads[level]), seed_of(seed, k), run)[
                    at_level == level
                ]
        return out

    y_total = noisy(rule.totals, many)
    T, t = (part[0] for part in outputs(rule.totals, TopDown(TREE, pool=pool), y_total[None]))
    y = np.array([noisy(rule.cells, k) for k in range(many)]).T
    given, v = rule.apply(y_total, y)
    assert given == pytest.approx(T, abs=1e-9)
    z, w = y.copy(), np.ones(28)
    if pool:
        w, W = pooled_variances(rule.cells)
        for p in range(INNER - 1, -1, -1):
            s2 = rule.cells.variances[at_level[p]]
            if s2 > 0:
                z[p] = (y[p] / s2 + z[children(p)].sum(axis=0) / W[p]) / (1 / s2 + 1 / W[p])
    u = z.copy()
    if rule.cells.top < 0:
        u[0] -= (z[0].sum() - t[0]) / many
    for p in range(INNER):
        below = children(p)
        if at_level[below[0]] <= rule.cells.top:
            continue
        n = below.size  # least squares with rows that add up to t and columns to the parent's cells
        A = np.vstack([np.kron(np.eye(n), np.ones(many)), np.kron(np.ones(n), np.eye(many))])
        weight = np.repeat(w[below], many)
        off = A @ z[below].ravel() - np.concatenate([t[below], u[p]])
        u[below] = z[below] - (weight * (A.T @ (np.linalg.pinv(A * weight @ A.T) @ off))).reshape(n, many)
    return z, v, u, y_total, t


def controls(runs, k, made):
    """e and the four controls of cell k, runs x nodes."""
    last = len(NODES) - 1
    e, c = [], []
    for z, v, u, y_total, t in runs:
        m, mt = made.m[k], made.m[last]
        first = np.where(np.isinf(m), 0.0, np.maximum(z[:, k] - np.where(np.isinf(m), 0, m), 0) - made.psi[k])
        clipped = np.maximum(y_total - np.where(np.isinf(mt), 0, mt), 0) - made.psi[last]
        fourth = np.where(mt == -np.inf, t - NODES[last], np.where(np.isinf(mt), 0.0, clipped))
        e.append(v[:, k] - NODES[k])
        c.append([first, z[:, k] - u[:, k], u[:, k] - NODES[k], fourth])
    return np.array(e), np.array(c)


def fitted(e, c, straight, ridge):
    """The coefficients of one node: ridge, shrinkage, or v - u where that varies less."""
    n = len(e)
    d, f = c - c.mean(axis=0), e - e.mean()
    G, b = d.T @ d + 2.0 * np.diag(ridge), d.T @ f
    beta = np.linalg.pinv(G, rcond=1e-13) @ b
    explained = float(beta @ b)
    rest = float(f @ f) - explained
    less = max(1 - 8 * rest / (n * explained), 0.0) if explained > 0 else 0.0
    left = rest + (1 - less) ** 2 * explained
    spread = float(((straight - straight.mean()) ** 2).sum())
    return np.array([0.0, 0, 1, 0]) if spread <= left else less * beta, spread - left


@pytest.fixture(scope="module", params=[False, True], ids=["top-down", "blue-down"])
def first(request):
    """A specification of cells and the runs of the oracle: 48 of the pilot, 70 of the audit."""
    rule = total_first.TotalFirst(OF_CELLS, OF_TOTALS, pool=request.param)
    codes = np.array([0 if GROUPS[i] == GROUPS[0] else 1 for i in TREE.order], dtype=np.int32)
    names = list(dict.fromkeys(GROUPS))
    made = cell_runs.specify_cells(rule, NODES, SEED, (codes, names), AREAS)
    pilot = [one_run(rule, SEED, 2**63 + 16 + k) for k in range(48)]
    runs = [one_run(rule, SEED, k) for k in range(70)]
    return SimpleNamespace(rule=rule, made=made, pilot=pilot, runs=runs)


def test_controls_of_cells_come_from_a_pilot(first):
    """Thresholds: mean multipliers of 16 runs, the formula's for the totals; means of what is clipped there: sums over masses."""
    rule, made, depth = first.rule, first.made, 3
    room = cell_runs._Room(rule, NODES)
    seen = []
    for k in range(16):
        room.run(SEED, 2**63 + k)
        seen.append(np.where(np.isfinite(room.mu), room.mu, np.nan))
    many = np.isfinite(seen).sum(axis=0)
    wanted = np.where(many > 0, np.nansum(seen, axis=0) / np.maximum(many, 1), np.inf).T
    field = field_of(OF_TOTALS, TopDown(TREE, pool=rule.pool), NODES[3])
    own = np.concatenate([[np.inf], np.repeat(field.m, np.diff(TREE.child))])
    for k in range(4):
        noise = OF_TOTALS if k == 3 else OF_CELLS
        top = depth if rule.pool else noise.top + 1
        m = np.where(at_level < top, -np.inf if k == 3 else np.inf, own if k == 3 else wanted[k])
        assert made.m[k] == pytest.approx(m, abs=1e-8)
        psi = [
            0.0
            if np.isinf(m[i])
            else expect(kept, NODES[k, i] - m[i], law("discrete-gaussian", noise.spreads[at_level[i]]))
            for i in range(28)
        ]
        assert made.psi[k] == pytest.approx(psi, abs=1e-8)
    assert np.isfinite(made.m[:3, INNER:]).any()
    assert (made.many, made.block, made.rule) == (3, 64, rule)
    assert made.x is NODES
    assert [d.names for d in made.divisions] == [("north", "south", "west")]
    for k, one in enumerate(made.each):
        assert one.x.tolist() == NODES[k].tolist()
        assert (one.top, one.kind, one.rule, one.whole, one.block) == (-1, 3, "total-first", False, 64)
        assert not one.offset.any()
        assert (
            one.cells.labels.tolist()
            == (
                spec.Cells.of(NODES[k, INNER:], None, ()).labels
                + 15 * np.array([GROUPS[i] != GROUPS[0] for i in TREE.order])
            ).tolist()
        )
        assert {u[1] for u in one.cells.unions if u[0] == "group"} == set(GROUPS)
        assert one.divisions is made.divisions


def test_coefficients_of_cells_are_least_squares(first):
    made = first.made
    sizes = np.array([OF_CELLS.variances[at_level]] * 3 + [OF_TOTALS.variances[at_level]])
    for k in range(3):
        e, c = controls(first.pilot, k, made)
        straight = np.array([run[1][:, k] - run[2][:, k] for run in first.pilot])
        for i in range(28):
            wanted, margin = fitted(e[:, i], c[:, :, i], straight[:, i], sizes[:, i])
            if abs(margin) > 1e-7:
                assert made.kappa[k][:, i] == pytest.approx(wanted, abs=1e-6), (k, i)


def remainder_of_cells(first, k):
    e, c = controls(first.runs, k, first.made)
    r = e - (first.made.kappa[k][None] * c).sum(axis=1)
    for p in range(INNER):
        if children(p).size == 1:
            r[:, children(p)[0]] = r[:, p]
    return e, r


def test_a_block_of_cells_by_hand(first):
    made = first.made
    parts = cell_runs.CellJob(made, SEED).run(blocks.Block(64, 6))
    assert len(parts) == 3
    at = made.divisions[0].labels
    for k, part in enumerate(parts):
        e, r = (q[64:70] for q in remainder_of_cells(first, k))
        planes = np.array([r.sum(axis=0), (r**2).sum(axis=0), (e**2).sum(axis=0)])
        assert part.runs == 6
        assert part.upper == pytest.approx(planes[:, :INNER], abs=1e-7)
        assert part.leaves == pytest.approx(planes[:, INNER:], abs=1e-7)
        cells = made.each[k].cells
        assert part.cells == pytest.approx(
            np.bincount(cells.labels, planes[0, INNER:], minlength=cells.counts.size), abs=1e-7
        )
        R, E = (np.stack([q[:, INNER:][:, at == a].sum(axis=1) for a in range(3)], axis=1) for q in (r, e))
        wanted = [R.sum(axis=0), (R**2).sum(axis=0), E.sum(axis=0), (E**2).sum(axis=0), (R * E).sum(axis=0)]
        assert part.areas[0] == pytest.approx(np.array(wanted), abs=1e-7)


def test_an_audit_of_cells_by_hand(first):
    """70 runs in two blocks. What has not happened: a cell moves with its own noise and with that of its total."""
    rule = "blue-down" if first.rule.pool else "top-down"
    seen = []
    found = audit_histogram(
        PEOPLE, OF_CELLS, rule, totals=OF_TOTALS, runs=70, seed=SEED, confidence=0.9, groups=GROUPS, areas=AREAS,
        progress=lambda *given: seen.append(given),
    )  # fmt: skip
    assert seen == [(64, 70), (70, 70)] * 2
    assert list(found.cells) == list(PEOPLE)
    for k, audit in enumerate(found.cells.values()):
        e, r = remainder_of_cells(first, k)
        for level in (1, 2, 3):
            here, got = at_level == level, audit.levels[level - 1]
            delta = 0.1 / here.sum()
            error = r[:, here].std(axis=0, ddof=1) / np.sqrt(70)
            moves = np.sqrt(OF_CELLS.variances[level] + OF_TOTALS.variances[level])
            assert got._bias == pytest.approx(r[:, here].mean(axis=0), abs=1e-8)
            assert got._error == pytest.approx(error, abs=1e-7)
            assert got._mse == pytest.approx((e[:, here] ** 2).mean(axis=0), abs=1e-8)
            assert got._half == pytest.approx(student(delta, 69) * error + np.log(2 / delta) * moves / 70, abs=1e-6)
            assert got._truth.tolist() == NODES[k][here].tolist()
            assert got.formula_error is None
            cover = (least_squares(OF_CELLS) ** 2 * OF_CELLS.variances[at_level]).sum(axis=1)
            assert got.unclipped_rmse == pytest.approx(np.sqrt(cover[here].mean()), abs=1e-9)
        for name, part in zip(dict.fromkeys(GROUPS), audit.groups, strict=True):
            some = INNER + np.flatnonzero([GROUPS[i] == name for i in TREE.order])
            sums = r[:, some].sum(axis=1)
            between = 64 * (sums[:64].mean() - sums.mean()) ** 2 + 6 * (sums[64:].mean() - sums.mean()) ** 2
            assert (part.name, part.n, part.count) == (name, some.size, NODES[k][some].sum())
            assert part.bias == pytest.approx(r[:, some].mean(), abs=1e-8)
            assert part.half_width == pytest.approx(student(0.1, 1) * np.sqrt(between / 70) / some.size, abs=1e-6)
        for a, part in enumerate(audit.areas):
            some = INNER + np.flatnonzero(first.made.divisions[0].labels == a)
            R, E = r[:, some].sum(axis=1), e[:, some].sum(axis=1)
            (rr, re), (_, ee) = np.cov(R, E)
            w = float(np.clip((ee - re) / (rr + ee - 2 * re), 0, 1))
            mixed = w * R + (1 - w) * E
            assert part.bias == pytest.approx(mixed.mean(), abs=1e-6)
            half = student(0.1 / 3, 69) * mixed.std(ddof=1) / np.sqrt(70)
            assert part.half_width == pytest.approx(half, abs=1e-6)
        assert (audit.runs, audit.seed, audit.confidence, audit.interrupted) == (70, SEED, 0.9, False)
        assert (audit.method, audit.accuracy, audit.postprocess) == ("monte-carlo", "interval", rule)
        assert audit.note == "totals first, then cells under both constraints, in 70 runs"
        assert audit.noise is OF_CELLS
        assert sum(part.n for part in audit.sizes) == 18
        assert [part.name for part in audit.values] == [str(j) for j in range(10) if (NODES[k][INNER:] == j).any()]
    alone = audit_hierarchy(
        X, OF_TOTALS, rule, runs=70, seed=seed_of(SEED, 3), confidence=0.9, groups=GROUPS, areas=AREAS
    )
    wanted = alone.to_dict(entities=True)
    wanted["note"] = f"totals over 3 cells, measured and reconciled first; {wanted['note']}"
    assert found.total.to_dict(entities=True) == wanted
    assert found.total_first
    data = found.to_dict()
    assert data["total_first"] is True
    assert data["cell_mechanism"] == OF_CELLS.describe()
    assert [cell["cell"] for cell in data["cells"]] == list(PEOPLE)
    assert "entities" not in data["cells"][0]["levels"][0]
    assert "entities" in found.to_dict(entities=True)["cells"][0]["levels"][0]
    assert "entities" in found.to_dict(entities=True)["levels"][0]


def test_seeds_of_cells_and_the_runs_of_the_pilot():
    assert [cell_runs.cell_seed(4, k) for k in range(3)] == [seed_of(4, k) for k in range(3)]
    assert (cell_runs.PILOT, cell_runs.ELSEWHERE) == ((16, 48), 2**63)


def test_exact_cells_do_not_move():
    """Cells and totals known down to the groups: no bias, no error and no term for what has not happened above the leaves."""
    exact = LevelNoise(TREE, sigmas=[0.0, 0.0, 2.5])
    found = audit_histogram(PEOPLE, exact, "top-down", totals=exact, runs=70, seed=2)
    for audit in found.cells.values():
        for level in audit.levels[:2]:
            assert not level._half.any()
            assert not level._bias.any()
            assert not level._mse.any()
        assert audit.leaves._half.min() > 0


def pilot_sums(e, c, straight):
    """The 22 sums over runs that the coefficients are made of."""
    pairs = [(p, q) for p in range(4) for q in range(p + 1)]
    rows = [e, *(c[:, p] for p in range(4)), *(c[:, p] * c[:, q] for p, q in pairs), *(e * c[:, p] for p in range(4))]
    return np.array([row.sum(axis=0) for row in (*rows, e**2, straight, straight**2)])


@pytest.mark.parametrize("seed", range(3))
def test_coefficients_of_a_pilot_by_linear_algebra(seed):
    """Pilots of 48 runs in which v - u varies about as much as what the controls leave: either may be taken."""
    from fairpost.hierarchy.kernels.cells import fit

    rng, nodes = np.random.default_rng(seed), 300
    c = rng.normal(size=(48, 4, nodes)) @ np.diag(rng.uniform(0.2, 2, nodes))
    c[:, 3, ::7] = 0.0
    e = (c * rng.normal(0, 0.3, (4, nodes))).sum(axis=1) + rng.normal(size=(48, nodes)) + 0.3
    ridge = rng.uniform(0.1, 2, (4, nodes))
    beta = np.array([fitted(e[:, i], c[:, :, i], e[:, i], ridge[:, i])[1] for i in range(nodes)])
    size = ((e - e.mean(axis=0)) ** 2).sum(axis=0) - beta  # what is left
    straight = rng.normal(size=(48, nodes)) + 0.5
    straight *= np.sqrt(size * rng.uniform(0.8, 1.25, nodes) / ((straight - straight.mean(axis=0)) ** 2).sum(axis=0))
    sums = pilot_sums(e, c, straight)
    kappa = np.empty((4, nodes))
    fit(sums, 48, ridge, kappa)
    wanted = [fitted(e[:, i], c[:, :, i], straight[:, i], ridge[:, i])[0] for i in range(nodes)]
    assert kappa == pytest.approx(np.array(wanted).T, abs=1e-9)
    taken = (kappa == np.array([0.0, 0, 1, 0])[:, None]).all(axis=0)
    assert 50 < taken.sum() < 250
    assert ((kappa != 0).any(axis=0) & ~taken).sum() > 20


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_controls_that_say_nothing_new_are_left_out(scale):
    """Without a ridge: the third control repeats the first but for a part of its variance of 0.5e-9 (left out: below 1e-9) or 1.5e-9
    (kept), the second is 0. Where nothing is explained no control is taken, and where v - u varies just as much it is."""
    from fairpost.hierarchy.kernels.cells import fit

    rng = np.random.default_rng(1)
    c = rng.normal(size=(48, 4, 4))
    c -= c.mean(axis=0)
    c[:, 1] = 0.0
    other = c[:, 2] - c[:, 0] * ((c[:, 2] * c[:, 0]).sum(axis=0) / (c[:, 0] ** 2).sum(axis=0))
    other *= np.sqrt((c[:, 0] ** 2).sum(axis=0) / (other**2).sum(axis=0))
    c[:, 2] = c[:, 0] + np.sqrt([0.5e-9, 1.5e-9, 0, 0]) * other
    c[:, 2:, 2:] = 0.0
    c[:, 0, 2:] = 0.0
    e = c[:, 0] + c[:, 3] + rng.normal(size=(48, 4)) / 9
    straight = np.stack([3 * e[:, 0], 3 * e[:, 1], 2 * e[:, 2], e[:, 3]], axis=1)
    kappa = np.empty((4, 4))
    fit(pilot_sums(scale * e, scale * c, scale * straight), 48, np.zeros((4, 4)), kappa)
    for i, some in ((0, [0, 3]), (1, [0, 2, 3])):
        beta = np.linalg.lstsq(np.column_stack([c[:, some, i], np.ones(48)]), e[:, i], rcond=None)[0][:-1]
        explained = float(((c[:, some, i] @ beta) ** 2).sum())
        less = 1 - 8 * (((e[:, i] - e[:, i].mean()) ** 2).sum() - explained) / (48 * explained)
        wanted = np.zeros(4)
        wanted[some] = less * beta
        assert kappa[:, i] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    assert kappa[:, 2].tolist() == [0, 0, 0, 0]
    assert kappa[:, 3].tolist() == [0, 0, 1, 0]


def test_what_two_passes_refuse():
    rule = total_first.TotalFirst(LevelNoise(TREE, sigmas=[0.0, 1.5, 2.5]), LevelNoise(TREE, sigmas=[0.0, 1.0, 1.0]))
    y = NODES[3].copy()
    z = NODES[:3].T.copy()
    for row, scale in ((0, y[0]), (2, y[2])):
        good, bad = z.copy(), z.copy()
        good[row, 1] += 0.9e-9 * scale
        bad[row, 1] += 1.2e-9 * scale
        rule.apply(y, good)
        with pytest.raises(CountsError, match=f"exact cells must add up to their total, got .* for node {row}$"):
            rule.apply(y, bad)
    small, cells = y / 1e4, z / 1e4
    cells[0, 0] += 0.9e-9
    rule.apply(small, cells)
    cells[0, 0] += 0.3e-9
    with pytest.raises(CountsError, match="for node 0"):
        rule.apply(small, cells)
    noisy = z.copy()
    noisy[5] += 3.0  # a group is measured
    rule.apply(y, noisy)
    for wrong in (z[:27], z[:, :0], z[:, 0], np.where(np.arange(28)[:, None] == 9, np.inf, z)):
        with pytest.raises(CountsError, match="a total and a row of cells for each of 28 nodes"):
            rule.apply(y, wrong)
    with pytest.raises(CountsError, match="a total and a row of cells"):
        rule.apply(np.stack([y, y]), z)
    other = Hierarchy.from_geoids(IDS, LENGTHS)
    with pytest.raises(ParameterError, match="a rule and its noise must be about the same hierarchy"):
        total_first.TotalFirst.of(TopDown(other), rule.cells, rule.totals)
    with pytest.raises(ParameterError, match="cells and their totals must be about the same hierarchy"):
        total_first.TotalFirst(rule.cells, LevelNoise(other, sigmas=[1.0, 1.0, 1.0]))
    for name in ("top-down", "blue-down"):
        made = total_first.TotalFirst.of(rule_of(name, TREE), rule.cells, rule.totals)
        assert (made.pool, made.cells, made.totals, made.tree) == (name == "blue-down", rule.cells, rule.totals, TREE)
        with pytest.raises(UnsupportedError, match=f"not {name} in whole numbers"):
            total_first.TotalFirst.of(rule_of(name, TREE, whole=True), rule.cells, rule.totals)
    with pytest.raises(UnsupportedError, match="covers top-down and blue-down, not joint: "):
        total_first.TotalFirst.of(Joint(TREE), rule.cells, rule.totals)
    unknown = [LevelNoise(TREE, sigmas=[np.inf, 2.0, 1.5, 2.5]), LevelNoise(TREE, sigmas=[1.0, 2.0, 1.5, 2.5])]
    for pair in (unknown, unknown[::-1]):
        with pytest.raises(UnsupportedError, match="known or measured"):
            total_first.TotalFirst(*pair)
    assert total_first.TotalFirst(unknown[1], rule.totals).pool is False


def test_cells_elsewhere_and_interrupted(monkeypatch):
    here = audit_histogram(PEOPLE, OF_CELLS, "top-down", totals=OF_TOTALS, runs=130, seed=1)
    monkeypatch.setattr(simulation, "Cluster", Elsewhere)
    monkeypatch.setattr(cell_runs, "Cluster", Elsewhere)
    asked = []
    monkeypatch.setattr(cell_runs, "within_memory", lambda *given: asked.append(given) or (1, "few"))
    there = audit_histogram(
        PEOPLE, OF_CELLS, "top-down", totals=OF_TOTALS, runs=130, seed=1, cluster="x", backend="auto"
    )
    assert there.to_dict(entities=True) == here.to_dict(entities=True)
    few = audit_histogram(PEOPLE, OF_CELLS, "top-down", totals=OF_TOTALS, runs=66, seed=1)
    assert asked == [(None, 8 * 28 * (9 * 3 + 16))] * 2  # nine numbers a cell and 16 for the totals, eight bytes each
    assert few.cells["old"].note == "totals first, then cells under both constraints, in 66 runs; few"
    rule = total_first.TotalFirst(OF_CELLS, OF_TOTALS)
    made = cell_runs.specify_cells(rule, NODES, 1, None, None)
    assert [u[0] for u in made.each[0].cells.unions if u[0] == "group"] == []
    for stop, wanted in ((64, (64, True)), (130, (130, False))):
        token = cancel.Token()
        how = Simulation(runs=130, seed=1, threads=1, progress=lambda done, most: done == stop and token.cancel())  # noqa: B023
        with cancel.by(token):
            sums, interrupted = cell_runs._CellRuns(how, made).finish()
        assert (sums[2].runs, interrupted) == wanted
    for method, how, says in (
        ("mean-field", Simulation(), "simulate it"),
        ("auto", Simulation(backend="gpu"), "not on the GPU"),
        ("auto", Simulation(checkpoint="c"), "leave it out"),
    ):
        with pytest.raises(UnsupportedError, match=says):
            cell_runs.check_simulation(how, method)
    cell_runs.check_simulation(Simulation(backend="auto"), "auto")


def test_a_family_whose_parent_has_nobody_has_no_shift() -> None:
    """Infinite: nothing is above it. So is the shift of a target that is lost in rounding, all of which goes to the largest."""
    from fairpost.hierarchy.kernels.families import project

    y, out = np.array([3.0, -1.0, 2.0]), np.full(3, 7.0)
    assert project(y, 0.0, out) == np.inf
    assert out.tolist() == [0.0, 0.0, 0.0]
    assert project(y * 1e17, 1e-3, out) == np.inf
    assert out.tolist() == [1e-3, 0.0, 0.0]
    assert project(y, 4.0, out) == pytest.approx(0.5)
    assert out == pytest.approx([2.5, 0.0, 1.5])


def test_ids_and_areas_that_can_be_read_once_are_refused_by_what_is_wrong_with_them():
    with pytest.raises(CountsError, match="got 'abc' at position 1"):
        Hierarchy.from_geoids((i for i in ("aa", "abc")), {"top": 1, "leaf": 2})
    with pytest.raises(CountsError, match="at least one leaf"):
        Hierarchy.from_geoids(np.array([], dtype="S2"), {"top": 1, "leaf": 2})
    tree = Hierarchy.from_geoids(["aa", "ab", "ba"], {"top": 1, "leaf": 2})
    asked = [division.names for division in spec.division_of(tree, iter(["x", "y", "x"]))]
    assert asked == [division.names for division in spec.division_of(tree, ["x", "y", "x"])]


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_limit_of_an_error_is_above_0(limit):
    noise = LevelNoise(TREE, sigmas=[3.0, 2.0, 1.5, 2.5])
    with pytest.raises(ParameterError, match="`max_rmse` must be above 0 for every level, got"):
        plan.plan_split(np.ones(18), noise, max_rmse={TREE.names[-1]: limit})


def test_the_formula_and_the_runs_agree_on_a_pooled_root_that_is_clipped():
    """One person under blue-down with noise on every level: the biases of each level add up to the root's, in both."""
    noise, x = LevelNoise(TREE, sigmas=[6.0, 2.0, 1.5, 1.0]), np.eye(18)[4]
    formula = audit_hierarchy(x, noise, "blue-down", method="mean-field")
    runs = audit_hierarchy(x, noise, "blue-down", method="monte-carlo", runs=6400, seed=1)
    for level in TREE.names[1:]:
        a, b = formula.level(level), runs.level(level)
        assert float(np.sum(a.bias)) == pytest.approx(float(np.sum(b.bias)), abs=0.1)
