"""`fairpost audit` and `project` with --levels: what they write, what they refuse, and who may read it."""

import csv
import io
import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from fairpost.cli import main
from fairpost.cli.hierarchies import levels_of
from fairpost.hierarchy import Hierarchy, LevelNoise, TopDown
from fairpost.hierarchy.plan import plan_split

ROWS = ["id,count,group,zone"] + [
    f"{a}{b}{c},{(7 * a + 3 * b + 5 * c) % 9},{'east' if b else 'west'},{'' if c == 4 else f'z{c % 2}'}"
    for a in range(2)
    for b in range(3)
    for c in range(5)
]
NOISE = ["--levels", "s:1,c:2,block:3", "--level-sigma", "0,1.5,2"]


def run(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "blocks.csv"
    path.write_text("\n".join(ROWS) + "\n")
    return path


def test_the_formula_alone_and_parquet(file, tmp_path):
    frame = pl.read_csv(file, infer_schema=False).with_columns(pl.col("count").cast(pl.Int64))
    frame.write_parquet(tmp_path / "blocks.parquet")
    out = tmp_path / "out.parquet"
    given = ["--postprocess", "top-down", "--method", "mean-field", "--csv", out, "--json", "-"]
    done = run("audit", tmp_path / "blocks.parquet", *NOISE, *given)
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["results"]
    assert (result["method"], result["accuracy"], result["runs"]) == ("mean-field", "expansion", None)
    assert pl.read_parquet(out).height == 38
    tree = Hierarchy.from_geoids(frame["id"], {"s": 1, "c": 2, "block": 3})
    from fairpost.hierarchy import mean_field

    noise = LevelNoise(tree, sigmas=[0, 1.5, 2])
    wanted = mean_field(tree.sums(frame["count"].to_numpy()), noise, TopDown(tree)).bias[-30:]
    assert np.array_equal(pl.read_parquet(out)["top_down_bias"].to_numpy()[-30:], wanted)


def test_levels_by_columns_and_rho(file, tmp_path):
    rows = [["s", "c", "id", "count"], *([r[0], r[:2], *r.split(",")[:2]] for r in ROWS[1:])]
    path = tmp_path / "columns.csv"
    path.write_text("\n".join(",".join(r) for r in rows))
    split = ["--rho", "1", "--split", "0.2,0.3,0.5", "--exact", "s", "--method", "mean-field", "--json", "-"]
    one = run("audit", path, "--levels", "s,c", *split, "--postprocess", "blue-down")
    other = run("audit", file, "--levels", "s:1,c:2,id:3", *split, "--postprocess", "blue-down")
    assert one.exit_code == other.exit_code == 0, one.output + other.output
    a, b = (json.loads(done.stdout)["results"][0] for done in (one, other))
    assert a["levels"][-1]["alpha"] == b["levels"][-1]["alpha"]
    assert json.loads(one.stdout)["mechanism"]["levels"][3]["sigma"] == pytest.approx(1.0)


def test_names_and_lengths():
    assert levels_of("state:2, county:5") == {"state": 2, "county": 5}
    assert levels_of("state,county") == ["state", "county"]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["--levels", "s:1,c"], "got 'c'"),
        (["--levels", "s:1,s:2"], "twice"),
        (["--levels", "s:1,c:2,block:4", "--level-sigma", "0,1,1"], "line 2, column 'id'"),
        (["--levels", "s:1,c:2,block:3"], "needs its noise"),
        ([*NOISE, "--rho", "1"], "got both"),
        ([*NOISE[:2], "--rho", "1"], "add the share of each of s, c, block, such as --split 0.33,0.33,0.33 "),
        ([*NOISE[:2], "--split", "1,0,0"], "add --rho"),
        (
            ["--levels", "s:1,c:2,block:4", "--level-sigma", "0,1,1"],
            "got '000'; a leaf that ends on a higher level is given as",
        ),
        (
            ["--levels", "zone", "--level-sigma", "1,1"],
            "line 6, column 'zone': every leaf must have a label on every level",
        ),
        ([*NOISE[:2], "--level-sigma", "0,x,2"], "got 'x'"),
        ([*NOISE[:2], "--level-sigma", "0,1"], "got 2"),
        ([*NOISE, "--epsilon", "1"], "got --epsilon"),
        ([*NOISE, "--postprocess", "simplex"], "--postprocess with --levels must be one of top-down"),
        ([*NOISE, "--method", "exact"], "got 'exact'"),
        ([*NOISE, "--areas", "nowhere"], "'nowhere'"),
        ([*NOISE, "--exact", "town"], "got 'town'"),
        ([*NOISE, "--budget", "5"], "--budget"),
        (["--level-sigma", "1", "--scale", "1"], "--level-sigma needs --levels"),
        (["--areas", "zone", "--scale", "1"], "--areas needs --levels"),
        (["--postprocess", "joint", "--scale", "1"], "joint needs --levels"),
        (["--method", "mean-field", "--scale", "1"], "mean-field needs --levels"),
        (["--levels", "where,c", "--level-sigma", "1,1,1"], "'where'"),
    ],
)
def test_what_an_audit_refuses(file, given, word, tmp_path):
    done = run("audit", file, *given)
    assert done.exit_code == 2, done.output
    assert word in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["blocks.csv"]


# ---------------------------------------------------------------- project


@pytest.fixture
def noisy(tmp_path):
    """Measurements of all levels, rows in any order, the root's among them."""
    rng = np.random.default_rng(0)
    ids = [r.split(",")[0] for r in ROWS[1:]]
    tree = Hierarchy.from_geoids(ids, {"s": 1, "c": 2, "block": 3})
    x = tree.sums([float(r.split(",")[1]) for r in ROWS[1:]])
    y = np.round(x + 3 * rng.normal(size=x.size))
    y[:3] = x[:3]
    rows = [
        (label, value) for k, part in enumerate(tree.split(y)) for label, value in zip(tree.ids(k), part, strict=True)
    ]
    path = tmp_path / "noisy.csv"
    path.write_text("id,count\n" + "\n".join(f"{a},{b:g}" for a, b in [rows[i] for i in rng.permutation(len(rows))]))
    return path, tree, y


def test_project_is_the_rule_of_the_library(noisy):
    path, tree, y = noisy
    done = run("project", path, *NOISE[:2], "--exact", "s", "--postprocess", "top-down", "--json", "-")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    wanted = TopDown(tree).apply(y, LevelNoise(tree, sigmas=[0, 1, 1]))
    got = {e["id"]: e["count"] for e in data["entities"]}
    assert [got[i] for i in tree.ids(3)] == wanted[-30:].tolist()


@pytest.mark.parametrize(
    ("change", "given", "word"),
    [
        (lambda t: t + "\n00,5", [], "ids must be unique"),
        (lambda t: t + "\n55,5", [], "got '55' without"),
        (lambda t: t + "\n9999,5", [], "got '9999'"),
        (lambda t: "\n".join(r for r in t.splitlines() if not r.startswith("01,")), [], "none for '01' of level 'c'"),
        (lambda t: t.replace("all,", "all,1"), [], "exact counts must add up"),
        (lambda t: t, ["--postprocess", "simplex"], "got 'simplex'"),
        (lambda t: t, ["--levels", "s,c"], "length of ids"),
    ],
)
def test_what_project_refuses(noisy, change, given, word):
    path = noisy[0]
    path.write_text(change(path.read_text()))
    done = run("project", path, *NOISE[:2], "--level-sigma", "0,3,3", *given)
    assert done.exit_code == 2, done.output
    assert word in done.stderr
    assert done.stdout == ""


def test_blue_down_without_noise_is_refused(noisy):
    done = run("project", noisy[0], *NOISE[:2])
    assert done.exit_code == 2
    assert "blue-down needs the noise" in done.stderr


def test_the_demo_of_a_nation(monkeypatch):
    """On a small one: the command makes the whole nation."""
    from fairpost.hierarchy import nation

    small = nation.synthetic_nation(0, 0.002)
    monkeypatch.setattr(nation, "synthetic_nation", lambda: small)
    done = run("demo", "--nation")
    assert done.exit_code == 0, done.output
    assert "SYNTHETIC: 16,266 blocks" in done.stdout
    assert "rural" in done.stdout
    assert "A model, not a release" in done.stdout


# ---------------------------------------------------------------- plan and sweep


def test_a_plan_finds_a_better_split_of_the_same_rho(file, tmp_path):
    words = [
        "plan", file, *NOISE[:2], "--rho", 2, "--exact", "s", "--level-rmse", "c:1.2", "--tries", 40,
        "--postprocess", "top-down",
    ]  # fmt: skip
    done = run(*words, "--json", tmp_path / "p.json", "--csv", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    assert "confidential" in done.output
    assert (tmp_path / "p.json").stat().st_mode & 0o077 == 0
    data = json.loads((tmp_path / "p.json").read_text())
    found = data["plans"][0]
    assert data["limits"] == {"c": 1.2}
    tree = Hierarchy.from_geoids([r.split(",")[0] for r in ROWS[1:]], {"s": 1, "c": 2, "block": 3})
    counts = [float(r.split(",")[1]) for r in ROWS[1:]]
    equal = LevelNoise(tree, rho=2, split=[0, 0.5, 0.5], exact=["s"])
    ours = plan_split(counts, equal, "top-down", max_rmse={"c": 1.2}, tries=40)
    assert found == {"postprocess": "top-down", **json.loads(json.dumps(ours.to_dict()))}
    assert found["given"]["split"] == {"all": 0, "s": 0, "c": 0.5, "block": 0.5}
    assert found["best"]["met"]
    assert found["best"]["alpha"] < found["given"]["alpha"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "p.csv").read_text())))
    assert [float(r["alpha"]) for r in rows] == [s["alpha"] for s in found["frontier"]]
    assert [r["best"] for r in rows].count("True") <= 1
    assert run(*words[:9], "c:0.001", "--tries", 3).exit_code == 3  # no split keeps that


def test_a_sweep_goes_through_rho_with_one_split(file, tmp_path):
    words = ["sweep", file, *NOISE[:2], "--exact", "s", "--split", "0,.25,.75", "--rhos", 0.1, 10, "--points", 3]
    done = run(*words, "--json", tmp_path / "s.json", "--csv", tmp_path / "s.csv", "--postprocess", "blue-down")
    assert done.exit_code == 0, done.output
    points = json.loads((tmp_path / "s.json").read_text())["points"]
    assert [p["rho"] for p in points] == pytest.approx([0.1, 1, 10])
    for p in points:
        audit = run(
            "audit", file, *NOISE[:2], "--level-sigma", f"0,{p['noise']['c']!r},{p['noise']['block']!r}", "--method", "mean-field",
            "--postprocess", "blue-down", "--json", "-",
        )  # fmt: skip
        data = json.loads(audit.stdout)
        assert data["results"][0]["alpha"]["value"] == pytest.approx(p["alpha"], rel=1e-9)
        assert data["mechanism"]["rho"] == pytest.approx(p["rho"], rel=1e-9)
        assert data["results"][0]["levels"][-1]["root_mean_squared_error"] == pytest.approx(
            p["root_mean_squared_error"]["block"]
        )
        assert (p["noise"]["c"] / p["noise"]["block"]) ** 2 == pytest.approx(3)
    assert [p["alpha"] for p in points] == sorted((p["alpha"] for p in points), reverse=True)
    assert len(list(csv.DictReader(io.StringIO((tmp_path / "s.csv").read_text())))) == 3
    usual = run("sweep", file, *NOISE[:2], "--rhos", 1, 2, "--points", 2, "--json", "-")  # equal shares, three rules
    assert [p["postprocess"] for p in json.loads(usual.stdout)["points"]] == [
        "top-down",
        "blue-down",
        "blue-down-threshold",
    ] * 2


@pytest.mark.parametrize(
    ("command", "given", "word"),
    [
        ("plan", [*NOISE], "needs --level-rmse NAME:LIMIT"),
        ("plan", [*NOISE, "--level-rmse", "c"], "got 'c'"),
        ("plan", [*NOISE, "--level-rmse", "c:0"], "limits above 0"),
        ("plan", [*NOISE, "--level-rmse", "d:1"], "must be one of all, s, c, block, got 'd'"),
        ("plan", [*NOISE[:2], "--level-rmse", "c:1"], "levels need their noise"),
        ("plan", [*NOISE, "--level-rmse", "c:1", "--postprocess", "joint"], "got 'joint'"),
        ("plan", [*NOISE, "--level-rmse", "c:1", "--max-alpha", "1"], "--max-alpha has no meaning with --levels"),
        ("plan", [*NOISE, "--level-rmse", "c:1", "--method", "exact"], "got 'exact'"),
        ("plan", [*NOISE, "--level-rmse", "c:1", "--mechanism", "laplace"], "Gaussian noise, got laplace"),
        ("plan", ["--level-rmse", "c:1", "--max-alpha", "1"], "--level-rmse needs --levels"),
        ("sweep", [*NOISE], "needs --rhos LOW HIGH"),
        ("sweep", [*NOISE, "--rhos", "2", "1"], "must ascend"),
        ("sweep", [*NOISE, "--rhos", "1", "2", "--points", "1"], "--points must be at least 2"),
        ("sweep", [*NOISE, "--rhos", "1", "2", "--epsilons", "1", "2"], "--epsilons has no meaning"),
        ("sweep", ["--rhos", "1", "2"], "--rhos needs --levels"),
    ],
)
def test_what_plan_and_sweep_refuse(file, command, given, word):
    done = run(command, file, *given)
    assert done.exit_code in (2, 3), done.output
    assert word in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
