"""Numbers of hierarchies, each computed again by plain NumPy on small trees: fields, runs, sums, intervals, labels, splits.

The oracle below shares no formula's code with the library: noise comes from the streams, expectations are sums over masses or
Gauss-Legendre integrals, families are solved by sorting or by a bracketing root finder, estimates by a dense system of equations.
"""

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
from fairpost.errors import Cancelled, CountsError, ParameterError, UnsupportedError
from fairpost.hierarchy import (
    Hierarchy,
    Joint,
    LevelNoise,
    TopDown,
    Unclipped,
    audit_hierarchy,
    histogram,
    mean_field,
    plan,
    spec,
    total_first,
)
from fairpost.hierarchy import labels as labelling
from fairpost.hierarchy.rules import rule_of
from fairpost.noise.kernels import streams
from fairpost.noise.privacy import Neighbours
from support.rules import kept as jumped

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
    return np.where(u > tau, u if np.isinf(steep) else np.minimum(u, steep * (u - tau)), 0.0)


def slope(u, tau=0.0, steep=1.0):
    """Beside a jump, whose height times the density there comes on top."""
    if steep == 1.0 or np.isinf(steep):
        return (u > tau) * 1.0
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
        breaks = (0.0,) if steep == 1 else (tau,) if np.isinf(steep) else (tau, tau + tau / (steep - 1))
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
        there = np.array([first_above(x[below[c]] - m[p] * w[c] - tau, laws[c]) for c in many])
        chance, bend = (chance + tau * there, there / 2) if np.isinf(steep) else (chance, there / 2 * steep)
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
    if np.isinf(steep) and (w == 1).all():
        return jumped(y[None], np.full((1, y.size), tau), steep, target)[0]
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
    "top-down, a jump": ("noisy root", dict(threshold=1.5)),
    "blue-down, noisy root": ("noisy root", dict(pool=True)),
    "blue-down, best, whole": ("plain", dict(pool=True, threshold="best", rounding="whole")),
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


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize("name", [name for name in CASES if name != "joint" and "whole" not in name])
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


def check_level(noise, level, k, bias, half, squares):
    """Alpha, its pair and its interval, and the summaries, from each node's bias, half-width and mean square."""
    here = at_level == k
    cover = (least_squares(noise) ** 2 * noise.variances[at_level]).sum(axis=1)[here]
    assert level._bias == pytest.approx(bias, abs=1e-8)
    assert level._half == pytest.approx(half, abs=1e-6)
    assert level._mse == pytest.approx(squares, abs=1e-8)
    assert level._truth.tolist() == TRUTH[here].tolist()
    assert level.rmse == pytest.approx(np.sqrt(squares.mean()), abs=1e-8)
    assert level.unclipped_rmse == pytest.approx(np.sqrt(cover.mean()), abs=1e-9)
    low, high = (bias - half).max() - (bias + half).min(), (bias + half).max() - (bias - half).min()
    assert level.alpha.value == pytest.approx(np.ptp(bias), abs=1e-8)
    assert level.alpha.low == pytest.approx(min(max(low, 0), np.ptp(bias)), abs=1e-6)
    assert level.alpha.high == pytest.approx(high, abs=1e-6)
    assert level.accuracy == level.alpha.kind
    ids = TREE.labels.texts(k)
    if np.ptp(bias) > 1e-6:
        assert level.alpha_pair == (ids[int(bias.argmax())], ids[int(bias.argmin())])


def test_levels_of_an_audit_by_hand(audited):
    a, found = audited, audited.found
    for k in (1, 2, 3):
        here, level = at_level == k, found.levels[k - 1]
        bias, error = a.bias[here], a.error[here]
        delta = DEGREES / here.sum()
        half = student(delta, RUNS - 1) * error + np.log(2 / delta) * np.sqrt(a.noise.variances[k]) / RUNS
        check_level(a.noise, level, k, bias, half, a.squares[here])
        assert level._error == pytest.approx(error, abs=1e-7)
        assert level.accuracy == "interval"
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
    for k in (1, 2, 3):
        here, level = at_level == k, found.levels[k - 1]
        check_level(noise, level, k, field.bias[here], 2 * np.abs(field.rest[here]), mse[here])
        assert level.formula_error is None
        assert level.accuracy == "expansion"
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


# ---------------------------------------------------------------- totals first

PEOPLE = {"young": np.floor(X / 3), "old": X - np.floor(X / 3) - (X > 4), "few": (X > 4) * 1.0}
OF_CELLS = LevelNoise(TREE, sigmas=[1.5, 2.0, 1.5, 2.5])  # the root's cells are measured too
OF_TOTALS = LevelNoise(TREE, sigmas=[0.0, 2.0, 5.0])  # county totals are known
NODES = np.array([TREE.sums(part) for part in [*PEOPLE.values(), X]])


@pytest.mark.parametrize("pool", [False, True], ids=["top-down", "blue-down"])
def test_squares_of_cells_are_those_of_the_rule_on_the_same_draws(pool):
    """Cell k of seed s draws from streams of its own, and so do the totals: squares need no control."""
    rule = total_first.TotalFirst(OF_CELLS, OF_TOTALS, pool=pool)
    errors = np.empty((70, 28, 3))
    seeds = [int(np.random.SeedSequence([SEED, k]).generate_state(1, np.uint64)[0]) for k in range(4)]
    laws = [OF_CELLS] * 3 + [OF_TOTALS]
    y = [measured(noise, seed, 70, x) for noise, seed, x in zip(laws, seeds, NODES, strict=True)]
    for run in range(70):
        errors[run] = rule.apply(y[3][run], np.stack([part[run] for part in y[:3]], axis=1))[1] - NODES[:3].T
    name = "blue-down" if pool else "top-down"
    found = histogram.audit_histogram(PEOPLE, OF_CELLS, name, totals=OF_TOTALS, runs=70, seed=SEED, areas=AREAS)
    for k, cell in enumerate(found.cells.values()):
        for level in cell.levels:
            assert level._mse == pytest.approx((errors[:, at_level == level.level, k] ** 2).mean(axis=0), abs=1e-9)
        for part, some in zip(
            cell.areas, split_by(["north", "south", "west"], [AREAS[i] for i in TREE.order]).values(), strict=True
        ):
            assert part.rmse == pytest.approx(np.sqrt((errors[:, INNER + some, k].sum(axis=1) ** 2).mean()), abs=1e-9)


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
