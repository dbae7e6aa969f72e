"""Programmes on the command line: the commands, the words, the errors."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost.cli.main import main
from fairpost.problems.programme import NAMES, builtin_text


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    rng = np.random.default_rng(6)
    base = rng.integers(60, 3000, 60)
    poor = rng.binomial(base, rng.uniform(0.01, 0.4, 60))
    rows = [
        {
            "id": f"{i:03}",
            "poor": poor[i],
            "children": base[i],
            "sppe": 4000 + 10 * i,
            "state": "ABC"[i % 3],
            "last_year": 1e4,
        }
        for i in range(60)
    ]
    with (tmp_path / "d.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)

    def call(*words):
        return CliRunner().invoke(main, [str(w) for w in words])

    return call


FILE = ["d.csv", "--count", "poor", "--base", "children", "--weight", "sppe"]


def counts():
    with open("d.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    take = lambda name: [float(row[name]) for row in rows]  # noqa: E731
    return fp.Counts(take("poor"), ids=[r["id"] for r in rows], weights=take("sppe"), base=take("children"))


def test_programmes_lists_and_prints(run):
    said = run("programmes")
    assert said.exit_code == 0
    assert all(name in said.stdout for name in NAMES)
    assert run("programmes", "title1-targeted").stdout == builtin_text("title1-targeted")
    wrong = run("programmes", "title9")
    assert wrong.exit_code == 2
    assert "title9" in wrong.stderr


def test_audit_under_a_law_in_words_json_csv_and_page(run, tmp_path):
    words = ["--programme", "title1-targeted", "--mechanism", "discrete-laplace", "--epsilon", 0.1, "--budget", 1e6]
    both = ["--postprocess", "as-written", "--postprocess", "levelled"]
    files = ["--json", "a.json", "--csv", "a.csv", "--html", "a.html", "--entities", "--noun", "districts"]
    done = run("audit", *FILE, *words, *both, *files)
    assert done.exit_code == 0, done.stderr
    found = fp.audit(counts(), fp.DiscreteLaplace(10.0), "as-written", programme="title1-targeted", budget=1e6)
    wrong, due = found.overall.wrong, int(np.count_nonzero(found.truth))
    assert f"Of {due} eligible entities" in done.stdout
    assert "are expected to be left out by noise, and" in done.stdout
    assert f"errs less than {100 / (1 + np.exp(0.1)):.2f} % of the jump" in done.stdout.replace("\u00a0", " ")
    data = json.loads((tmp_path / "a.json").read_text())["results"][0]
    assert data["wrong"] == pytest.approx(wrong)
    assert data["problem"] == "title1-targeted"
    chances = {e["id"]: e["wrong"] for e in data["entities"]}
    assert sum(chances.values()) == pytest.approx(wrong["out"] + wrong["in"])
    page = (tmp_path / "a.html").read_text()
    assert f"Of {due} eligible districts" in page
    assert "levelled_bias" in (tmp_path / "a.csv").read_text().splitlines()[0]


def test_a_law_of_ones_own_and_its_errors(run, tmp_path):
    (tmp_path / "own.toml").write_text(run("programmes", "title1-basic").stdout.replace("count >= 10", "count >= 25"))
    done = run("audit", *FILE, "--programme", "own.toml", "--scale", 5, "--json", "-")
    assert json.loads(done.stdout)["results"][0]["wrong"]["out"] > 0
    (tmp_path / "bad.toml").write_text('name = "x"\neligible = ["count = 3"]\n')
    cases = {
        ("--programme", "bad.toml"): "bad.toml, line 2",
        ("--programme", "none.toml"): "no such file",
        ("--programme", "nothing"): "title1-basic",
        ("--postprocess", "as-written"): "--programme",
        ("--programme", "title1-basic", "--postprocess", "baseline"): "as-written, levelled",
    }
    for words, said in cases.items():
        done = run(
            "audit", *FILE[:1], "--count", "poor", *([] if "--base" in words else FILE[3:5]), *words, "--scale", 5
        )
        assert done.exit_code == 2, (words, done.stdout)
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    done = run("audit", *FILE, "--programme", "title1-basic", "--postprocess", "levelled", "--scale", 5)
    assert done.exit_code == 3
    assert "discrete-laplace" in done.stderr


def test_sweep_and_plan_take_a_law(run):
    words = ["--programme", "title1-targeted", "--budget", 1e6, "--epsilons", 0.1, 1, "--points", 3]
    sweep = json.loads(run("sweep", *FILE, *words, "--json", "-").stdout)
    assert len(sweep["points"]) == 3
    one = fp.audit(counts(), fp.Laplace(1.0), "as-written", programme="title1-targeted", budget=1e6)
    assert sweep["points"][0]["alpha"]["value"] == pytest.approx(one.alpha.value * 1e6, rel=1e-9)  # money
    plan = json.loads(run("plan", *FILE, *words, "--max-loss", 200, "--json", "-").stdout)
    assert plan["plans"][0]["found"]["largest_loss"]["value"] == pytest.approx(200, rel=1e-4)


def test_hold_harmless_reads_last_years_payments(run, tmp_path):
    text = builtin_text("title1-targeted").replace("# hold_harmless", "hold_harmless")
    (tmp_path / "held.toml").write_text(text)
    words = [*FILE, "--programme", "held.toml", "--scale", 5, "--runs", 200, "--json", "-"]
    done = run("audit", *words, "--budget", 1e6)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)["results"][0]
    assert found["method"] == "monte-carlo"
    assert "hold-harmless" in found["note"]
    assert "--budget" in run("audit", *words).stderr


def test_a_minimum_for_groups_says_whether_noise_changes_who_is_at_it(run, tmp_path):
    (tmp_path / "least.toml").write_text('name = "least"\nminimum = { percent = 33, average = 150 }\n')
    done = run("audit", *FILE, "--group", "state", "--programme", "least.toml", "--scale", 40, "--runs", 300)
    assert done.exit_code == 0, done.stderr
    assert "of 3 groups are at their minimum; with chance" in done.stdout
    assert "noise changes which (300 runs), most of all for" in done.stdout


def test_allocate_under_a_law_from_noisy_counts_alone(run):
    words = [*FILE, "--programme", "title1-targeted", "--budget", 1e6, "--mechanism", "discrete-laplace", "--scale", 3]
    done = run(
        "allocate", *words, "--postprocess", "as-written", "--postprocess", "no-loss", "--replicates", 2, "--json", "-"
    )
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)["entities"]
    known = counts()
    law = fp.Programme.named("title1-targeted").on(known)
    np.testing.assert_allclose([r["as_written_share"] for r in rows], law.truth(known), rtol=1e-12)
    assert all(r["true_share_low"] <= r["as_written_share"] <= r["true_share_high"] for r in rows)
    plain = fp.audit(known, fp.DiscreteLaplace(3.0), "no-loss", programme="title1-targeted")
    np.testing.assert_allclose([r["no_loss_estimated_bias"] for r in rows], plain.bias, rtol=1e-9, atol=1e-15)
    assert "needs the noise" in run("allocate", *words[:-4], "--postprocess", "levelled").stderr


def test_intervals_under_a_law_cover():
    from fairpost.estimate import law_interval

    rng = np.random.default_rng(9)
    known = fp.Counts(rng.integers(5, 200, 40), base=rng.integers(100, 900, 40))
    law = fp.Programme.named("title1-targeted").on(known)
    true, covered = law.truth(known), np.zeros(40)
    for _ in range(300):
        noisy = known.values + rng.laplace(0, 4.0, 40)
        found = law_interval(noisy, law, fp.Laplace(4.0), confidence=0.9)
        covered += (found.low <= true + 1e-15) & (true <= found.high + 1e-15)
    assert covered.min() >= 300 * 0.9 - 4 * np.sqrt(300 * 0.09)


def test_seats_say_whose_may_change(run, tmp_path):
    (tmp_path / "s.csv").write_text("id,count\n" + "\n".join(f"s{i},{30000 + 7919 * i}" for i in range(12)) + "\n")
    (tmp_path / "seats.toml").write_text('name = "seats"\nshare = "equal proportions"\nseats = 40\n')
    done = run("audit", "s.csv", "--programme", "seats.toml", "--scale", 800, "--runs", 500)
    assert done.exit_code == 0, done.stderr
    assert "some seat changes hands (500 runs)" in done.stdout


MEAGRE = {
    "nobody, one row": "a,0,50000,x,0",
    "nobody": "a,0,100,x,0\nb,0,200,y,0\nc,0,50000,y,0",
    "no base": "a,0,0,x,0\nb,0,0,y,0",
    "one row": "a,700,50000,x,5",
    "all alike": "a,20,100,x,1\nb,20,100,x,1\nc,20,100,y,1",
    "one base": "a,5,1000,x,1\nb,50,1000,x,0\nc,200,1000,y,0",
    "below every threshold": "a,0,50000,x,0\nb,9,50000,x,0\nc,1,400,y,0",
}


@pytest.mark.parametrize("rows", MEAGRE.values(), ids=MEAGRE)
@pytest.mark.parametrize("law", [*NAMES, "held.toml", "both.toml"])
def test_a_share_of_nothing_is_defined_or_refused_in_one_line(tmp_path, monkeypatch, law, rows):
    """Every law of the package, and its documented options, on next to nothing: no traceback, and shares that sum to 1."""
    monkeypatch.chdir(tmp_path)
    held = builtin_text("title1-basic").replace("# hold_harmless", "hold_harmless")
    (tmp_path / "held.toml").write_text(held)
    (tmp_path / "both.toml").write_text(held + "minimum = { percent = 0.35, average = 150 }\n")
    (tmp_path / "d.csv").write_text("id,count,base,group,last_year\n" + rows + "\n")
    for more in (["--sigma", "10", "--mechanism", "gaussian"], ["--scale", "0.05", "--mechanism", "discrete-laplace"]):
        words = ["audit", "d.csv", "--base", "base", "--programme", law, "--budget", "1e6", "--runs", "64", *more]
        words = [w for w in words if law not in ("section-203", "house-seats") or w not in ("--budget", "1e6")]
        done = CliRunner().invoke(main, [*words, "--json", "-", "--entities"])
        assert done.exit_code in (0, 2), done.exception
        if done.exit_code == 2:
            assert done.stderr.count("\n") == 1
        elif "--budget" in words:
            entities = json.loads(done.stdout)["results"][0]["entities"]
            assert sum(e["due"] for e in entities) == pytest.approx(1)
            assert abs(sum(e["bias"] for e in entities)) <= sum(e["half_width"] for e in entities) + 1e-12
            words = [w for w in words if w not in ("--runs", "64")]
            done = CliRunner().invoke(main, ["allocate", *words[1:], "--replicates", "2", "--json", "-"])
            assert done.exit_code == 0, done.stderr
            found = json.loads(done.stdout)
            assert sum(e["as_written_share"] for e in found["entities"]) == pytest.approx(1)
            if found["interval"] is not None:
                assert all(0 <= e["true_share_low"] <= e["true_share_high"] <= 1 for e in found["entities"])
