"""Several cells per node: totals over cells, by the formula, by runs and by a plain simulation."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from fairpost.cli import main
from fairpost.errors import CountsError
from fairpost.hierarchy import LevelNoise, Simulation, audit_hierarchy
from fairpost.hierarchy.histogram import audit_histogram
from fairpost.hierarchy.nation import synthetic_nation
from fairpost.hierarchy.rules import rule_of
from fairpost.hierarchy.tree import Hierarchy

IDS = [f"{a}{b}{c}" for a in range(2) for b in range(2) for c in range(5)]
TREE = Hierarchy.from_geoids(IDS, {"county": 1, "group": 2, "block": 3})
RNG = np.random.default_rng(11)
X = {"young": RNG.integers(0, 4, 20).astype(float), "old": RNG.poisson(6, 20).astype(float), "none": np.zeros(20)}
NOISE = LevelNoise(TREE, sigmas=[0, 2, 1.5, 2.5])
AREAS = [i[2] for i in IDS]


@pytest.fixture(scope="module")
def plain():
    """20,000 runs of the rule itself, cell by cell, with NumPy's draws from the discrete law."""
    rng, rule = np.random.default_rng(5), rule_of("top-down", TREE)
    total, truth = np.zeros((20_000, TREE.nodes)), np.zeros(TREE.nodes)
    k = np.arange(-40, 41)
    for x in X.values():
        nodes = TREE.sums(x)
        y = np.tile(nodes, (len(total), 1))
        for level in (1, 2, 3):
            mass = np.exp(-((k / NOISE.spreads[level]) ** 2) / 2)
            y[:, TREE.span(level)] += rng.choice(k, (len(total), TREE.size(level)), p=mass / mass.sum())
        total += rule.apply(y, NOISE)
        truth += nodes
    return total - truth


def test_totals_over_cells_are_what_a_plain_simulation_shows(plain):
    """Biases within 5 standard errors of both, mean squared errors within 5 of the plain one (fourth moments from the sample)."""
    found = audit_histogram(X, NOISE, "top-down", runs=16_000, seed=3, areas=AREAS)
    for level in found.total.levels:
        e = plain[:, TREE.span(level.level)]
        se = np.hypot(e.std(axis=0) / np.sqrt(len(e)), level._error)
        assert (np.abs(level._bias - e.mean(axis=0)) < 5 * se).all()
        spread = (e**2).std(axis=0) * np.hypot(1 / np.sqrt(len(e)), 1 / np.sqrt(16_000))
        assert (np.abs(level._mse - (e**2).mean(axis=0)) < 5 * spread).all()
        together = (e**2).mean(axis=1)  # the mean over nodes, whose error is smaller
        assert np.mean(level._mse) == pytest.approx(
            together.mean(), abs=5 * together.std() * np.hypot(1 / 141, 1 / 126)
        )
    leaf = plain[:, TREE.span(3)]
    for part in found.total.areas:
        inside = leaf[:, [a == part.name for a in AREAS]].sum(axis=1)
        assert part.bias == pytest.approx(inside.mean(), abs=5 * inside.std() / 141 + part.half_width)
        assert part.rmse == pytest.approx(np.sqrt(np.mean(inside**2)), rel=0.06)
    assert found.total.leaves.truth.tolist() == sum(X.values()).tolist()
    assert sum(part.n for part in found.total.sizes) == 20


def test_standard_errors_of_totals_are_what_other_seeds_show():
    """60 seeds: the spread of a total's bias over its stated error, root mean square over 20 leaves, within 0.2 of 1 (sd 0.03)."""
    many = [audit_histogram(X, NOISE, "top-down", runs=128, seed=s).total.leaves for s in range(60)]
    seen = np.std([level._bias for level in many], axis=0, ddof=1)
    stated = np.sqrt(np.mean([level._error**2 for level in many], axis=0))
    assert np.sqrt(np.mean((seen / stated) ** 2)) == pytest.approx(1, abs=0.2)


def test_cells_draw_from_streams_of_their_own_and_one_cell_is_an_audit():
    same = audit_histogram({"a": X["old"], "b": X["old"]}, NOISE, "top-down", runs=128, seed=3)
    a, b = same.cells["a"].leaves, same.cells["b"].leaves
    assert a._bias.tolist() != b._bias.tolist()
    assert same.total.leaves._error == pytest.approx(np.hypot(a._error, b._error))
    assert same.total.leaves.unclipped_rmse == pytest.approx(np.sqrt(2) * a.unclipped_rmse)
    one = audit_histogram({"a": X["old"]}, NOISE, "blue-down", method="mean-field", groups=AREAS)
    plain = audit_hierarchy(X["old"], NOISE, "blue-down", method="mean-field", groups=AREAS)
    assert one.total.leaves.bias.tolist() == plain.leaves.bias.tolist()
    assert one.total.leaves.rmse == pytest.approx(plain.leaves.rmse)
    assert [g.bias for g in one.total.groups] == pytest.approx([g.bias for g in plain.groups])
    assert one.total.leaves.unclipped_rmse == plain.leaves.unclipped_rmse
    with pytest.raises(CountsError, match="at least one cell"):
        audit_histogram({}, NOISE)
    with pytest.raises(CountsError, match="20 leaves"):
        audit_histogram({"a": [1.0]}, NOISE)


def test_places_of_one_cell_gain_and_mixed_places_lose():
    """The published direction (mixed places are undercounted), from clipping alone: half the tracts mix four cells, half have one."""
    nation = synthetic_nation(1, 0.0015)
    tree = nation.tree()
    rng = np.random.default_rng(2)
    tract = tree.parents(4)[tree.parents(5)]
    mixed = tract % 2 == 0
    shares = np.where(mixed[:, None], 0.25, np.array([1.0, 0, 0, 0]))
    people = rng.multinomial(tree.into_tree(nation.counts).astype(int), shares)
    cells = {str(k): tree.from_tree(people[:, k].astype(float)) for k in range(4)}
    found = audit_histogram(cells, LevelNoise.census2020(tree), "top-down", method="mean-field")
    level = found.total.level("tract")
    pure, mix = level._bias[1::2].mean(), level._bias[0::2].mean()
    assert pure > 0 > mix


def test_cells_from_the_shell(tmp_path):
    rows = zip(IDS, X["young"], X["old"], AREAS, strict=True)
    (tmp_path / "b.csv").write_text(
        "id,young,old,zone\n" + "".join(f"{i},{a:.0f},{b:.0f},z{z}\n" for i, a, b, z in rows)
    )
    more = "--levels county:1,group:2,block:3 --level-sigma 2,1.5,2.5 --runs 128 --postprocess top-down --areas zone"
    words = ["audit", str(tmp_path / "b.csv"), *more.split(), "--cells", "young,old"]
    done = CliRunner().invoke(main, [*words, "--seed", "3", "--json", "-"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    two = {k: X[k] for k in ("young", "old")}
    ours = audit_histogram(
        two, NOISE, "top-down", areas=[f"z{a}" for a in AREAS], simulation=Simulation(runs=128, seed=3)
    )
    assert data["results"][0] == json.loads(json.dumps(ours.to_dict()))
    assert [c["cell"] for c in data["results"][0]["cells"]] == ["young", "old"]
    assert data["counts"]["total"] == X["young"].sum() + X["old"].sum()
    screen = CliRunner().invoke(main, [*words, "--csv", str(tmp_path / "o.csv")])
    assert screen.exit_code == 0
    assert "totals over 2 cells" in screen.output
    assert (tmp_path / "o.csv").read_text().count("\n") == 1 + 2 + 4 + 20
    for more, says in (
        (["--count", "old"], "by --count or by --cells"),
        (["--checkpoint", str(tmp_path / "c")], "--checkpoint has no meaning with --cells"),
        (["--cells", "young,nowhere"], "nowhere"),
    ):
        bad = CliRunner().invoke(main, [*words, *more])
        assert bad.exit_code == 2
        assert says in bad.stderr
    alone = CliRunner().invoke(main, ["audit", str(tmp_path / "b.csv"), "--cells", "young", "--scale", "1"])
    assert "--cells needs --levels" in alone.stderr
