"""The commands as processes: results, exit codes, one line for every error, nothing half-written."""

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fairpost as fp
from cases import DATA, saipe
from fairpost.datasets import hawaii
from test_references import TABLE as REFERENCES

HAWAII = hawaii()
TABLE = "id,count\n" + "".join(f"{i},{v:g}\n" for i, v in zip(HAWAII.ids, HAWAII.values, strict=True))


def run(*words, cwd=None, stdin=None):
    command = [sys.executable, "-m", "fairpost", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=stdin, timeout=100, check=False)


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(TABLE)
    return path


def refused(done, *says, code=2):
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    for text in says:
        assert text in done.stderr


# --- audit ---------------------------------------------------------------------------------------------------------


def test_the_json_of_an_audit_has_the_fixed_keys_and_the_reference_value(table):
    done = run(
        "audit", table, "--scale", 10, "--postprocess", "simplex", "--postprocess", "pos", "--json", "-", "--entities"
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["version"] == fp.__version__
    assert data["counts"] == {"n": 5, "total": 455502.0}
    assert data["mechanism"]["name"] == "laplace"
    assert data["mechanism"]["scale"] == 10.0
    assert data["mechanism"]["epsilon"] == 0.1
    assert data["mark"] == "confidential: computed from true counts"
    first, second = data["results"]
    assert {"postprocess", "method", "runs", "seed", "alpha", "alpha_pair", "bounds", "cost_of_privacy"} <= set(first)
    assert first["method"] == "exact"
    assert first["alpha"]["value"] == pytest.approx(0.00858784004, rel=1e-8)
    assert first["alpha"]["low"] <= first["alpha"]["value"] <= first["alpha"]["high"]
    assert first["alpha_pair"] == ["Kalawao", "Honolulu"]
    assert set(first["bounds"]) == {"lower", "upper"}
    assert first["cost_of_privacy"] is None
    assert set(second["cost_of_privacy"]) == {"share", "amount"}
    assert [e["id"] for e in first["entities"]] == list(HAWAII.ids)
    assert {"id", "bias", "standard_error"} <= set(first["entities"][0])


def test_an_audit_writes_all_its_files_and_says_that_it_is_confidential(table, tmp_path):
    out = [tmp_path / name for name in ("a.json", "a.csv", "a.html")]
    done = run(
        "audit", table, "--scale", 10, "--budget", 1e6, "--json", out[0], "--csv", out[1], "--html", out[2],
        "--title", "Hawaii <b>",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "confidential: computed from true counts" in done.stdout
    assert "\x1b[" not in done.stdout  # no colour when piped
    rows = rows_of(out[1])
    result = fp.audit(HAWAII, fp.Laplace(10.0), "pos")
    assert [float(r["pos_bias"]) for r in rows] == result.bias.tolist()
    assert [float(r["pos_money"]) for r in rows] == (result.bias * 1e6).tolist()
    for path in out:
        assert "computed from true counts" in path.read_text()
    assert "Hawaii &lt;b&gt;" in out[2].read_text()


def test_nothing_is_overwritten_without_force(table, tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.csv"
    old.write_text("mine")
    refused(run("audit", table, "--scale", 10, "--json", old, "--csv", new), "old.json", "--force")
    assert old.read_text() == "mine"
    assert not new.exists()
    assert run("audit", table, "--scale", 10, "--json", old, "--force").returncode == 0
    assert json.loads(old.read_text())["counts"]["n"] == 5


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--epsilon", "0"], ["`epsilon` must be > 0", "0.0"]),
        (["--epsilon", "-0.1"], ["`epsilon` must be > 0", "-0.1"]),
        (["--epsilon", "nan"], ["`epsilon`", "nan"]),
        (["--epsilon", "inf"], ["`epsilon`", "inf"]),
        (["--epsilon", "many"], ["--epsilon", "many"]),
        (["--scale", "10", "--total", "-1"], ["`total` must be at least 0", "-1"]),
        (["--scale", "10", "--budget", "-1"], ["`budget`", "-1"]),
        (["--scale", "10", "--epsilon", "1"], ["exactly one", "epsilon, scale"]),
        ([], ["exactly one", "none"]),
        (["--sigma", "10"], ["`scale`", "sigma"]),
        (["--mechanism", "gaussian", "--epsilon", "1"], ["delta"]),
        (["--mechanism", "gaussian", "--epsilon", "1", "--delta", "2"], ["`delta`", "2.0"]),
        (["--mechanism", "cauchy", "--scale", "1"], ["--mechanism", "cauchy"]),
        (["--scale", "10", "--postprocess", "magic"], ["--postprocess", "magic"]),
        (["--scale", "10", "--count", "people"], ["people", "id", "count"]),
        (["--scale", "10", "--id", "name"], ["name"]),
        (["--scale", "10", "--method", "monte-carlo", "--runs", "1"], ["`runs`", "1"]),
        (["--scale", "10", "--confidence", "2"], ["`confidence`", "2.0"]),
        (["--scale", "10", "--rtol", "0"], ["`rtol`"]),
        (["--scale", "10", "--by-group"], ["group"]),
        (["--scale", "10", "--csv", "no/such/folder.csv"], ["folder"]),
        (["--scale", "10", "--wrong"], ["--wrong"]),
        (["--scale", "10", "--sensitivity", "0"], ["`sensitivity`"]),
    ],
)
def test_a_bad_option_ends_with_one_line_and_exit_code_2(table, words, says):
    refused(run("audit", table, *words), *says)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "id,count\nx,-3\n", ["line 2", "count", "-3"]),
        ("a.csv", "id,count\nx,1\ny,\n", ["line 3", "count"]),
        ("a.csv", "id,count\nx,1\nx,2\n", ["lines 2 and 3", "'x'"]),
        ("a.csv", "id,count,weight\nx,1,0\n", ["line 2", "weight"]),
        ("a.csv", "id,count\nx,nan\n", ["line 2", "nan"]),
        ("a.csv", "id,count\nx,inf\n", ["line 2", "inf"]),
        ("a.csv", "id,count\nx,many\n", ["line 2", "many"]),
        ("a.csv", "", ["empty"]),
        ("a.csv", "id,count\n", ["a.csv"]),
        ("a.csv", "id;count\nx;1\n", ["a.csv"]),
        ("a.parquet", "id,count\nx,1\n", ["a.parquet"]),
        ("a.csv.gz", "id,count\nx,1\n", ["a.csv.gz"]),
    ],
)
def test_a_bad_file_ends_with_one_line_that_names_the_place(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    refused(run("audit", name, "--scale", 1, "--json", "out.json", cwd=tmp_path), *says)
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_no_file_and_a_folder(tmp_path):
    refused(run("audit", "none.csv", "--scale", 1, cwd=tmp_path), "none.csv")
    refused(run("audit", ".", "--scale", 1, cwd=tmp_path))


def test_an_engine_that_refuses_ends_with_exit_code_3(table):
    done = run(
        "audit",
        table,
        "--mechanism",
        "discrete-laplace",
        "--scale",
        10,
        "--postprocess",
        "simplex",
        "--method",
        "exact",
    )
    refused(done, "discrete-laplace", code=3)


def test_auto_falls_to_simulation_and_says_so(table):
    done = run(
        "audit", table, "--mechanism", "discrete-laplace", "--scale", 10, "--postprocess", "simplex", "--runs", 500,
        "--json", "-",
    )  # fmt: skip
    (result,) = json.loads(done.stdout)["results"]
    assert result["method"] == "monte-carlo"
    assert result["runs"] == 500
    assert "simulated, because" in result["note"]


def test_help_teaches_and_is_quick_to_read():
    assert "audit" in run("--help").stdout
    for command in ("audit", "plan", "sweep", "project", "allocate", "demo", "paper"):
        done = run(command, "--help")
        assert done.returncode == 0
        if command != "demo":
            assert "Example:" in done.stdout
            assert f"fairpost {command}" in done.stdout


def test_saipe_by_command_gives_the_reference_values():
    saipe()  # skips by name where the data is absent
    for epsilon in (0.1, 0.01, 0.001):
        done = run(
            "audit", DATA / "saipe_2019.csv", "--id", "leaid", "--count", "poor_5_17", "--epsilon", epsilon,
            "--postprocess", "baseline", "--postprocess", "pos", "--json", "-",
        )  # fmt: skip
        results = {r["postprocess"]: r for r in json.loads(done.stdout)["results"]}
        for column, level, which, alpha, cost in REFERENCES:
            if (column, level) == ("poor_5_17", epsilon):  # the engine's default tolerance is 1e-6
                assert results[which]["alpha"]["value"] == pytest.approx(alpha, rel=1.1e-6)
                assert results[which]["cost_of_privacy"]["share"] == pytest.approx(cost, rel=1.1e-6)


def interrupted(start, words, after):
    """The exit code of a command that gets Ctrl-C after so many seconds."""
    process = start(
        [sys.executable, "-m", "fairpost", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=60)


@pytest.mark.timeout(300)  # four attempts, at most 133 s before the signals and 60 s after one
def test_ctrl_c_ends_with_the_intervals_reached_and_the_same_command_goes_on(table, tmp_path, start):
    out, endless = tmp_path / "a.json", 2**50
    words = [
        "audit", table, "--scale", 10, "--postprocess", "simplex", "--method", "monte-carlo", "--runs", endless,
        "--checkpoint", tmp_path / "state", "--json", out, "--force",
    ]  # fmt: skip
    for after in (3, 10, 30, 90):  # an interrupt before the first block leaves nothing, and says so
        assert interrupted(start, words, after) == 130
        if out.exists():
            break
    (part,) = json.loads(out.read_text())["results"]
    assert 0 < part["runs"] < endless
    assert "interrupted" in part["note"]
    words[words.index(endless)] = more = part["runs"] + 10_000
    assert run(*words).returncode == 0
    (resumed,) = json.loads(out.read_text())["results"]
    whole = fp.audit(HAWAII, fp.Laplace(10.0), "simplex", engine=fp.MonteCarlo(runs=more))
    assert resumed["alpha"]["value"] == whole.alpha.value  # the same bits


def test_a_saipe_file_as_it_comes(tmp_path):
    """The fixed-width layout of the Census Bureau: state, district, name, three numbers, tag."""
    rows = [
        ("15", "00030", "Hawaii Department of Education", 1_415_872, 218_283, 22_001),
        ("15", "00031", "Other", 900, 70, 4),
    ]
    text = "".join(f"{s} {d} {n:<72} {a:>8} {b:>8} {c:>8} ussd19.txt 04OCT2020\n" for s, d, n, a, b, c in rows)
    (tmp_path / "ussd19.txt").write_text(text)
    done = run(
        "audit",
        "ussd19.txt",
        "--format",
        "saipe",
        "--epsilon",
        1,
        "--postprocess",
        "nonnegative",
        "--json",
        "-",
        "--entities",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["counts"]["total"] == 22_005
    assert [e["id"] for e in data["results"][0]["entities"]] == ["1500030", "1500031"]


def test_shares_by_group_say_whose_budget(tmp_path):
    (tmp_path / "g.csv").write_text("id,count,group\na,5,n\nb,500,n\nc,9,s\nd,400,s\n")
    done = run("audit", "g.csv", "--scale", 3, "--by-group", "--postprocess", "baseline", cwd=tmp_path)
    assert "of one group's budget, over all groups" in done.stdout


# --- plan and sweep ------------------------------------------------------------------------------------------------


def test_plan_finds_the_smallest_epsilon(table, tmp_path):
    page = tmp_path / "plan.html"
    done = run(
        "plan", table, "--postprocess", "simplex", "--max-alpha", 0.5, "--epsilons", 0.01, 1, "--points", 9,
        "--json", tmp_path / "p.json", "--html", page, "--csv", tmp_path / "p.csv",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "p.json").read_text())["plans"]
    epsilon = found["found"]["epsilon"]
    assert found["found"]["alpha"]["high"] <= 0.5
    assert fp.audit(HAWAII, fp.Laplace.from_epsilon(epsilon * (1 - 1e-5)), "simplex").alpha.value > 0.5
    assert len(found["curve"]) == 9
    assert len(rows_of(tmp_path / "p.csv")) == 9
    assert "confidential" in page.read_text()


def test_a_plan_that_cannot_be_met_says_so(table):
    done = run("plan", table, "--postprocess", "simplex", "--max-alpha", 1e-300, "--points", 2)
    assert done.returncode == 3
    assert "no noise in the range" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], ["exactly one target", "none"]),
        (["--max-alpha", "1", "--max-loss", "1"], ["exactly one target"]),
        (["--max-alpha", "-1"], ["limit"]),
        (["--max-cost", "1", "--postprocess", "simplex"], ["cost of privacy is for allocations"]),
        (["--max-alpha", "1", "--epsilons", "1", "0.1"], ["--epsilons"]),
        (["--max-alpha", "1", "--epsilons", "0.1", "1", "--spreads", "1", "2"], ["both"]),
        (["--max-alpha", "1", "--mechanism", "gaussian"], ["delta"]),
    ],
)
def test_bad_plans_are_refused(table, words, says):
    refused(run("plan", table, *words), *says)


@pytest.mark.parametrize("command", [["sweep"], ["plan", "--max-alpha", 1]])
def test_where_every_level_is_refused_nothing_is_written(table, tmp_path, command):
    words = ["--mechanism", "discrete-laplace", "--postprocess", "simplex", "--method", "exact", "--points", 2]
    done = run(command[0], table, *command[1:], *words, "--html", tmp_path / "x.html", "--json", tmp_path / "x.json")
    refused(done, "refused every level of noise", "continuous noise only", code=3)
    assert not list(tmp_path.glob("x.*"))


def test_sweep_gives_every_post_processing_at_every_level(table, tmp_path):
    done = run(
        "sweep", table, "--mechanism", "gaussian", "--spreads", 5, 50, "--points", 3, "--postprocess", "simplex",
        "--postprocess", "nonnegative", "--json", "-", "--html", tmp_path / "s.html",
    )  # fmt: skip
    points = json.loads(done.stdout)["points"]
    assert len(points) == 6
    assert sorted({p["mechanism"]["sigma"] for p in points}) == pytest.approx([5.0, np.sqrt(250), 50.0])
    by_hand = fp.audit(HAWAII, fp.Gaussian(50.0), "simplex").alpha.value
    assert points[4]["alpha"]["value"] == by_hand
    assert (tmp_path / "s.html").exists()


# --- project and allocate ------------------------------------------------------------------------------------------

NOISY = "id,count,group,t\n001,-4.5,a,10\n002,7.25,a,10\n003,9.5,a,10\n004,3.5,b,4\n005,-0.25,b,4\n"


def test_project_keeps_totals_by_group_and_rounds_without_loss(tmp_path):
    (tmp_path / "n.csv").write_text(NOISY)
    done = run(
        "project",
        "n.csv",
        "--group-total",
        "t",
        "--round",
        "--seed",
        1,
        "--json",
        "r.json",
        "--csv",
        "o.csv",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "Rounding moved" in done.stderr
    rows = rows_of(tmp_path / "o.csv")
    assert [r["id"] for r in rows] == ["001", "002", "003", "004", "005"]
    v = np.array([int(r["count"]) for r in rows])
    assert v.min() >= 0
    assert (v[:3].sum(), v[3:].sum()) == (10, 4)
    before = np.array([float(r["before_rounding"]) for r in rows])
    assert before[:3] == pytest.approx(fp.project_simplex(np.array([-4.5, 7.25, 9.5]), 10.0))
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["totals"] == {"a": 10.0, "b": 4.0}
    assert data["rounding"]["sum_change"] == pytest.approx(0, abs=1e-9)
    assert data["changes"]["negative_before"] == 2


def test_project_to_stdout_with_one_total(tmp_path):
    (tmp_path / "n.csv").write_text(NOISY)
    done = run("project", "n.csv", "--total", 20, cwd=tmp_path)
    v = [float(r["count"]) for r in csv.DictReader(io.StringIO(done.stdout))]
    assert sum(v) == pytest.approx(20)
    assert min(v) >= 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--total", "-3"], ["`total`"]),
        (["--total", "3", "--group-total", "t"], ["both"]),
        (["--postprocess", "nonnegative", "--total", "3"], ["keeps no total"]),
        (["--postprocess", "simplex-threshold"], ["needs the noise"]),
        (["--round", "--total", "1.5"], ["whole number"]),
        (["--round", "--postprocess", "sum", "--total", "3"], ["--round"]),
        (["--group-total", "none"], ["none"]),
    ],
)
def test_bad_projections_are_refused(tmp_path, words, says):
    (tmp_path / "n.csv").write_text(NOISY)
    refused(run("project", "n.csv", *words, cwd=tmp_path), *says)


def test_allocate_gives_shares_intervals_and_labelled_estimates(tmp_path):
    with gzip.open(tmp_path / "n.csv.gz", "wt") as file:
        file.write(NOISY)
    done = run(
        "allocate", "n.csv.gz", "--scale", 1, "--budget", 1000, "--json", "a.json", "--csv", "a.csv", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "estimated from noisy counts" in done.stdout
    rows = rows_of(tmp_path / "a.csv")
    y = np.array([-4.5, 7.25, 9.5, 3.5, -0.25])
    for how in ("baseline", "pos", "pos_threshold"):
        shares = np.array([float(r[f"{how}_share"]) for r in rows])
        assert shares.sum() == pytest.approx(1)
        assert shares == pytest.approx(fp.allocate(y, how=how.replace("_", "-"), mechanism=fp.Laplace(1.0)))
    assert all(float(r["true_share_low"]) <= float(r["true_share_high"]) for r in rows)
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["bias"]["mark"] == "estimated from noisy counts"
    assert "confidential" not in json.dumps(data)


def test_allocate_without_the_noise_gives_shares_alone(tmp_path):
    (tmp_path / "n.csv").write_text(NOISY)
    done = run("allocate", "n.csv", "--csv", "a.csv", cwd=tmp_path)
    assert done.returncode == 0
    assert "noise was not given" in done.stdout
    assert "true_share_low" not in (tmp_path / "a.csv").read_text()
    refused(run("allocate", "n.csv", "--postprocess", "pos-threshold", cwd=tmp_path), "needs the noise")


# --- demo, paper, pipes --------------------------------------------------------------------------------------------


def test_demo_prints_tables_and_writes_a_report(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SYNTHETIC" in done.stdout
    assert "0.0085878" in done.stdout
    assert "confidential" in (tmp_path / "report.html").read_text()


def test_a_closed_pipe_is_no_traceback(table, start):
    process = start(
        [sys.executable, "-m", "fairpost", "audit", str(table), "--scale", "10"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    with process.stderr:
        errors = process.stderr.read()
    process.wait(timeout=60)
    assert "Traceback" not in errors
    assert process.returncode in (0, 1, 141)


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_is_colour_and_progress(table, start):
    import pty

    main, side = pty.openpty()
    process = start(
        [sys.executable, "-m", "fairpost", "audit", str(table), "--scale", "10", "--method", "monte-carlo", "--runs", "200000"],
        stdout=side, stderr=side, env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "140"},
    )  # fmt: skip
    os.close(side)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    assert process.wait(timeout=60) == 0
    assert b"\x1b[" in seen
    assert b"simulating" in seen
