"""(P) and (P_+), A v = b without and with v >= 0: the appendix, optimality, systems without a solution."""

import itertools
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

import fairpost as fp
from fairpost import errors
from fairpost.rules import Affine, AffineNonnegative, Tree, tree_constraints
from support.oracles import definitions


def nested_tree(rng, n=300):
    """Two levels of labels over n leaves with skewed counts, a fifth of them 0."""
    county = rng.integers(0, n // 8, n)
    labels = [[f"s{c % 7}" for c in county], [f"c{c}" for c in county]]
    x = np.floor(rng.lognormal(2, 1.5, n)) * (rng.random(n) > 0.2)
    return labels, x


def random_sparse(rng, m, n, density=0.2, dependent=0):
    A = (rng.random((m, n)) < density) * rng.choice([-2.0, -1.0, 1.0, 1.0, 3.0], (m, n))
    return np.vstack([A, rng.integers(-1, 2, (dependent, m)) @ A])


def dense_column_system(m=120):
    """Each group is a fixed share of a total that is itself a variable: one column meets every row."""
    A = sparse.hstack([sparse.kron(sparse.eye_array(m), np.ones((1, 4))), -np.full((m, 1), 1.0 / m)])
    return sparse.csr_array(A), np.append(np.full(4 * m, 2.0), 8.0 * m)


def systems():
    """Name -> (A, a feasible x >= 0)."""
    rng = np.random.default_rng(1)
    labels, x = nested_tree(rng)
    tree = Tree.from_labels(labels)
    dense, at = dense_column_system()
    return {
        "one entity": (np.array([[2.0]]), np.array([3.0])),
        "one sum": (np.ones((1, 6)), np.array([0.0, 0.0, 1.0, 2.0, 7.0, 40.0])),
        "no rows": (np.zeros((0, 4)), np.array([1.0, 0.0, 2.0, 3.0])),
        "empty rows": (np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), np.array([4.0, 1.0, 2.0])),
        "duplicate rows": (np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [2.0, 2.0, 0.0]]), np.array([4.0, 0.0, 2.0])),
        "pinned": (np.eye(4), np.array([1.0, 0.0, 2.0, 3.0])),
        "nested levels": (tree.membership(), x),
        "measured nodes": (tree.over_nodes(x.sum())[0], tree.expand(x)),
        "signed": (random_sparse(rng, 12, 40), np.floor(rng.exponential(5, 40))),
        "rank-deficient": (random_sparse(rng, 15, 50, dependent=6), np.floor(rng.exponential(5, 50))),
        "thin": (random_sparse(rng, 15, 30), np.floor(rng.exponential(9, 30)) * (rng.random(30) < 0.3)),
        "more rows than columns": (random_sparse(rng, 30, 9, density=0.5), np.arange(9.0)),
        "dense column": (dense, at),
    }


SYSTEMS = systems()


def draws(name, count=4, scale=10.0):
    x = SYSTEMS[name][1]
    return x + np.random.default_rng(7).laplace(0, scale, (count, x.size))


def right_sides(name):
    A, x = SYSTEMS[name]
    return A, A @ x


def nearest_by_enumeration(A, b, y):
    """(P_+) from its definition: the nearest feasible point among the projections onto every face."""
    best, nearest = np.inf, None
    for size in range(y.size + 1):
        for free in map(list, itertools.combinations(range(y.size), size)):
            v = np.zeros(y.size)
            v[free] = y[free] + np.linalg.pinv(A[:, free]) @ (b - A[:, free] @ y[free])
            tolerance = 1e-9 * (1 + np.abs(y).max() + np.abs(b).max())
            if v.min() >= -tolerance and np.abs(A @ v - b).max() <= tolerance and np.sum((v - y) ** 2) < best:
                best, nearest = np.sum((v - y) ** 2), v
    return nearest


def exact_residual(A, b, v):
    """b - A v without rounding."""
    A = np.asarray(A.todense()) if sparse.issparse(A) else A
    out = []
    for row, right in zip(A, b, strict=True):
        used = np.flatnonzero(row)
        out.append(float(Fraction(right) - sum(Fraction(row[j]) * Fraction(v[j]) for j in used)))
    return np.array(out)


# ------------------------------------------------------------------ the appendix


@pytest.mark.parametrize("name", SYSTEMS)
def test_lemma_kkt_closed_form_of_P(name):
    A, b = right_sides(name)
    x = SYSTEMS[name][1]
    dense = np.asarray(sparse.csr_array(A).todense())
    project = np.eye(x.size) - np.linalg.pinv(dense, rcond=1e-10) @ dense
    for y in draws(name):
        expected = x + project @ (y - x)
        # the pseudo-inverse loses the condition number of A, below 1e3 for every system here
        assert Affine(A, b)(y) == pytest.approx(expected, abs=1e-12 * (1 + np.abs(y).max()))


@pytest.mark.parametrize("total", [0.0, 1.0, 100.0, 1e9])
@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_one_row_of_ones_gives_pi_S_and_pi_S_plus(n, total):
    rng = np.random.default_rng(n)
    counts = fp.Counts(rng.exponential(20, n))
    y = counts.values + rng.laplace(0, 30, (5, n))
    scale = max(np.abs(y).max(), total)
    shifted = y + (total - y.sum(axis=1, keepdims=True)) / n
    assert Affine.from_counts(counts, total)(y) == pytest.approx(shifted, abs=1e-14 * n * scale)
    nearest = np.array([definitions.simplex(row, total) for row in y])
    got = AffineNonnegative.from_counts(counts, total)(y)
    assert got == pytest.approx(nearest, abs=1e-13 * scale)
    if total == 0:
        assert not got.any()


def test_from_counts_takes_the_sum_of_the_counts_or_of_each_group():
    counts = fp.Counts([5, 0, 1, 4], groups=["a", "b", "a", "b"])
    y = np.array([-3.0, 2.0, 9.0, 1.0])
    assert AffineNonnegative.from_counts(counts)(y).sum() == pytest.approx(10, abs=1e-14)
    grouped = AffineNonnegative.from_counts(counts, by_group=True)(y)
    assert grouped == pytest.approx([0.0, 2.5, 6.0, 1.5], abs=1e-14)
    with pytest.raises(errors.CountsError, match="counts with groups"):
        Affine.from_counts(fp.Counts([1]), by_group=True)
    with pytest.raises(errors.CountsError, match="own sums"):
        Affine.from_counts(counts, 10.0, by_group=True)


# ------------------------------------------------------------------ optimality


@pytest.mark.parametrize("name", SYSTEMS)
def test_P_plus_satisfies_the_KKT_conditions(name):
    A, b = right_sides(name)
    matrix = sparse.csr_array(A)
    pi = AffineNonnegative(A, b)
    for y in draws(name):
        found = pi.solve(y)
        v, w = found.values, y - matrix.T @ found.multipliers
        scale = max(np.abs(y).max(), np.abs(b).max(initial=0.0))
        assert v.min() >= 0
        # half an ulp of every entry of a row, and no more: the residual is computed without rounding
        assert (np.abs(exact_residual(A, b, v)) <= 2e-16 * (abs(matrix) @ v + np.abs(b))).all()
        assert np.abs(v - w)[v > 0].max(initial=0.0) <= 1e-12 * scale
        assert w[v == 0].max(initial=0.0) <= 1e-12 * scale
        assert found.accurate
        assert pi(y).tobytes() == v.tobytes()


@given(
    st.integers(1, 4).flatmap(
        lambda m: st.integers(1, 6).flatmap(
            lambda n: st.tuples(
                st.lists(st.lists(st.integers(-2, 3), min_size=n, max_size=n), min_size=m, max_size=m),
                st.lists(st.integers(0, 4), min_size=n, max_size=n),
                st.lists(st.integers(-8, 8), min_size=n, max_size=n),
            )
        )
    )
)
def test_P_plus_is_the_nearest_feasible_point(problem):
    A, x, y = (np.array(part, dtype=float) for part in problem)
    b = A @ x
    # small whole numbers: ties and forced zeros are common; both sides are good to about 1e-12
    assert AffineNonnegative(A, b)(y) == pytest.approx(nearest_by_enumeration(A, b, y), abs=1e-9)


def test_hundreds_of_ill_behaved_systems_are_solved_to_their_own_certificate():
    """Dependent rows, thin feasible sets, ties, noise far above and far below the counts."""
    steps = []
    for seed in range(160):
        rng = np.random.default_rng(seed)
        m, n = rng.integers(1, 40), rng.integers(1, 120)
        A = random_sparse(rng, m, n, rng.uniform(0.03, 0.5), int(rng.integers(0, 5)))
        x = np.floor(rng.lognormal(1, 2, n)) * (rng.random(n) < rng.choice([1.0, 0.7, 0.2, 0.05]))
        y = x + rng.laplace(0, 10 ** rng.uniform(-2, 3), n)
        y = np.round(y) if seed % 5 == 0 else y
        found = AffineNonnegative(A, A @ x).solve(y)
        assert found.residual <= 1e-14
        assert found.gap <= 1e-9
        assert found.values.min() >= 0
        steps.append(found.steps)
    assert np.median(steps) <= 10


# ------------------------------------------------------------------ numbers


def test_totals_of_1e9_are_met_to_the_last_bits():
    rng = np.random.default_rng(5)
    labels, _ = nested_tree(rng, 400)
    tree = Tree.from_labels(labels)
    x = np.floor(rng.lognormal(9, 3, 400))
    x[0] += 1e9
    for A, b, at in ((*tree.over_leaves(x), x), (*tree.over_nodes(x.sum()), tree.expand(x))):
        y = at + rng.laplace(0, 10, at.size)
        found = AffineNonnegative(A, b).solve(y)
        assert (np.abs(exact_residual(A, b, found.values)) <= 2e-16 * (abs(A) @ found.values + b)).all()
        # the noise has size 10: the multipliers are as good as if the counts were small
        w = y - A.T @ found.multipliers
        assert np.abs(found.values - np.maximum(w, 0)).max() <= 4 * np.spacing(y.max())


def test_zeros_that_the_totals_force_are_exact():
    A = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])
    y = np.array([3.3, 4.1, 2.7, 9.9, 0.3])
    by_zero_row = AffineNonnegative(A, [10.0, 0.0, 3.0])(y)
    assert by_zero_row[:2].tolist() == [0.0, 0.0]
    by_difference = AffineNonnegative(A, [10.0, 7.0, 3.0])(y)
    assert by_difference[3:].tolist() == [0.0, 0.0]
    assert by_difference[2] == 3.0


def test_a_feasible_vector_comes_back_as_it_is():
    for name in ("one sum", "nested levels", "duplicate rows", "pinned"):
        A, b = right_sides(name)
        x = SYSTEMS[name][1]
        assert AffineNonnegative(A, b)(x).tolist() == x.tolist()
        assert Affine(A, b)(x).tolist() == x.tolist()


def test_units_of_a_row_do_not_matter():
    A, b = right_sides("rank-deficient")
    y = draws("rank-deficient", 1)[0]
    v = AffineNonnegative(A, b)(y)
    by_two = np.ldexp(1.0, np.arange(len(b)) * 7 - 70)
    assert AffineNonnegative(A * by_two[:, None], b * by_two)(y).tobytes() == v.tobytes()
    by_ten = 10.0 ** (np.arange(len(b)) - 10)
    assert AffineNonnegative(A * by_ten[:, None], b * by_ten)(y) == pytest.approx(v, abs=1e-11)


def test_totals_that_carry_rounding_are_consistent():
    A = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert 0.1 + 0.2 != 0.3
    assert AffineNonnegative(A, [0.3, 0.1, 0.2])([5.0, -5.0]) == pytest.approx([0.1, 0.2], abs=1e-15)


# ------------------------------------------------------------------ one and many


@pytest.mark.parametrize("kind", [Affine, AffineNonnegative])
def test_a_batch_has_the_bits_of_its_draws_however_it_is_split(kind):
    A, b = right_sides("measured nodes")
    pi, rows = kind(A, b), draws("measured nodes", 9)
    whole = pi.apply(rows)
    assert whole.degenerate == 0
    assert whole.values.tobytes() == np.array([pi(row) for row in rows]).tobytes()
    assert whole.values[::-1].tobytes() == pi(rows[::-1]).tobytes()
    assert whole.values.tobytes() == pickle.loads(pickle.dumps(pi))(rows).tobytes()


def test_sparse_and_dense_matrices_say_the_same():
    A, b = right_sides("signed")
    y = draws("signed", 1)[0]
    expected = AffineNonnegative(A, b)(y)
    rows, columns = np.nonzero(A)
    twice = sparse.coo_matrix((np.tile(A[rows, columns] / 2, 2), (np.tile(rows, 2), np.tile(columns, 2))), A.shape)
    for form in (sparse.csc_matrix(A), sparse.csr_array(A), sparse.lil_matrix(A), twice, A.tolist()):
        assert AffineNonnegative(form, b)(y).tobytes() == expected.tobytes()


# ------------------------------------------------------------------ no solution

CONTRADICTIONS = {
    "empty row": ([[1, 1], [0, 0]], [1, 2], r"no v satisfies .* row 1 of A is empty, b\[1\] must be 0, got 2"),
    "duplicate": ([[1, 1], [1, 1]], [1, 2], r"no v satisfies .* row 0 .* row 1 gives coefficients 0 .* and -1 "),
    "levels": (
        [[1, 1, 1], [1, 0, 0], [0, 1, 1]],
        [9, 2, 8],
        r"no v satisfies .* row 0 .* row 1 .* row 2 gives coefficients 0 ",
    ),
    "sign": ([[1, 1]], [-2], r"no v >= 0 satisfies .*: 1 x row 0 gives coefficients >= 0 on the left and -2 "),
    "part above whole": ([[1, 1, 1], [1, 1, 0]], [5, 6], r"no v >= 0 .* 1 x row 0 \+ -1 x row 1 .* and -1 on"),
    "difference": ([[1, 1], [1, -1]], [1, 2], r"no v >= 0 .* 1 x row 0 \+ -1 x row 1 .* and -1 on"),
    "combination": ([[1, 1, 1], [1, 1, 0], [1, 0, 1]], [5, 4, 0], r"-1 x row 0 \+ 1 x row 1 \+ 1 x row 2 .* and -1 on"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_named_with_its_rows(name):
    A, b, message = CONTRADICTIONS[name]
    with pytest.raises(errors.InfeasibleError, match=message) as caught:
        AffineNonnegative(A, b)
    assert "\n" not in str(caught.value)
    if "v >= 0" in message or name == "combination":
        assert Affine(A, b)(np.zeros(len(A[0]))) is not None  # a v of any sign exists
    else:
        with pytest.raises(errors.InfeasibleError, match=message):
            Affine(A, b)


def test_feasible_and_infeasible_systems_are_told_apart_as_by_linear_programming():
    verdicts = {True: 0, False: 0}
    for seed in range(150):
        rng = np.random.default_rng(seed)
        m, n = rng.integers(1, 20), rng.integers(1, 50)
        A = random_sparse(rng, m, n, rng.uniform(0.05, 0.5), int(rng.integers(0, 4)))
        x = np.floor(rng.lognormal(1, 2, n)) * (rng.random(n) < 0.5)
        x[rng.integers(0, n, max(1, n // 6))] -= np.floor(10 ** rng.uniform(0, 2))
        b = A @ x
        exists = linprog(np.zeros(n), A_eq=A, b_eq=b, bounds=(0, None)).status == 0
        verdicts[exists] += 1
        if exists:
            assert AffineNonnegative(A, b).solve(x).accurate
        else:
            with pytest.raises(errors.InfeasibleError, match="v >= 0"):
                AffineNonnegative(A, b)
    assert min(verdicts.values()) >= 30


def test_a_contradiction_inside_a_large_tree_is_found_and_named_shortly():
    labels, x = nested_tree(np.random.default_rng(6), 3000)
    tree = Tree.from_labels(labels)
    A, b = tree.over_leaves(x)
    b[-1] += 1
    with pytest.raises(errors.InfeasibleError, match=r"more rows gives coefficients 0") as caught:
        AffineNonnegative(A, b)
    assert len(str(caught.value)) < 250
    state = tree.nodes.index(("s3",))
    county = next(i for i, parent in enumerate(tree.parent) if parent == state)
    with pytest.raises(errors.InfeasibleError, match=r"no v >= 0") as caught:
        AffineNonnegative(A[[state, county]], [10.0, 11.0])
    assert re.search(r"1 x row 0 \+ -1 x row 1 .* -1 on the right", str(caught.value))


def test_rows_too_nearly_dependent_to_decide_are_refused():
    with pytest.raises(fp.ToleranceError, match="nearly dependent"):
        Affine([[1.0, 1.0], [1.0, 1.0 + 1e-9]], [1.0, 2.0])


# ------------------------------------------------------------------ what may be given


@pytest.mark.parametrize(
    ("A", "b", "message"),
    [
        ([1.0, 2.0], [1.0], r"`A` must have a row .* got shape \(2,\)"),
        (np.zeros((2, 0)), [0.0, 0.0], r"`A` must have a row .* got shape \(2, 0\)"),
        ([[1.0, 2.0]], [1.0, 2.0], r"`b` must have one entry per row of A: 1 rows, b has shape \(2,\)"),
        ([[1.0, np.nan]], [1.0], "every entry of `A` must be finite, got nan"),
        ([[1.0, 2.0]], [np.inf], "every entry of `b` must be finite, got inf"),
        ([["a", "b"]], [1.0], "must be real numbers"),
        ([[1.0 + 2.0j, 1.0]], [1.0], "must be real numbers"),
    ],
)
def test_bad_systems_are_named(A, b, message):
    with pytest.raises(errors.ParameterError, match=message):
        Affine(A, b)


def test_bad_draws_are_named():
    pi = AffineNonnegative([[1.0, 1.0]], [3.0])
    with pytest.raises(errors.CountsError, match="2 entities, 3 entries"):
        pi([1.0, 2.0, 3.0])
    with pytest.raises(errors.CountsError, match="must be finite, got nan"):
        pi([1.0, np.nan])
    with pytest.raises(errors.CountsError, match="one vector"):
        pi.solve([[1.0, 2.0]])
    with pytest.raises(fp.ToleranceError, match="draw 0"):
        pi([1e200, -1e200])


# ------------------------------------------------------------------ hierarchies


def test_a_tree_names_its_nodes_by_path_and_sums_them():
    tree = Tree.from_labels([["NY", "NJ", "NY", "NY"], ["001", "001", "002", "001"]])
    assert tree.nodes == ((), ("NY",), ("NJ",), ("NY", "001"), ("NJ", "001"), ("NY", "002"))
    assert tree.parent.tolist() == [-1, 0, 0, 1, 2, 1]
    assert tree.totals([1, 2, 4, 8]).tolist() == [15, 13, 2, 9, 2, 4]
    A, b = tree.over_leaves([1, 2, 4, 8])
    assert (A @ np.array([1, 2, 4, 8])).tolist() == b.tolist()
    again, right = tree_constraints([["NY", "NJ", "NY", "NY"], ["001", "001", "002", "001"]], [1, 2, 4, 8])
    assert (again != A).nnz == 0
    assert right.tolist() == b.tolist()
    assert repr(tree) == "Tree(6 nodes above 4 leaves)"


@pytest.mark.parametrize(
    ("levels", "n", "message"),
    [
        ([["a"], ["b", "c"]], None, r"got \[1, 2\] labels per level"),
        ([["a"]], 3, r"got \[1\] labels per level, n = 3"),
        ([], None, "n = None"),
        ([[]], None, r"got \[0\] labels"),
        (["abc"], None, "got the text 'abc'"),
        ([["a", None]], None, "got None at position 1 of level 0"),
        ([["a", float("nan")]], None, "got nan at position 1 of level 0"),
    ],
)
def test_bad_labels_are_named(levels, n, message):
    with pytest.raises(errors.CountsError, match=message):
        Tree.from_labels(levels, n)


@pytest.mark.parametrize("made", [fp.Affine, fp.AffineNonnegative])
def test_a_projection_is_a_release_of_counts(made):
    pi = made([[1.0, 1.0, 1.0]], [9.0])
    assert pi.problem == fp.Simplex(9.0).problem
    found = fp.audit([2.0, 3.0, 4.0], fp.Laplace(1.0), pi, runs=64)
    assert found.task == "release"
    assert found.truth.tolist() == [2.0, 3.0, 4.0]
