"""The commands: results, exit codes, one line for every error, nothing half-written.

They are called in this process, except where the process is the question: signals, pipes, terminals, and once for each way to
end, where a process must say, write and end the same (`test_a_process_says_writes_and_ends_as_a_call_does`).
"""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost.datasets import hawaii
from support.commands import call as run
from support.commands import process
from support.data import path_or_skip
from support.references import REFERENCES

HAWAII = hawaii()
TABLE = "id,count\n" + "".join(f"{i},{v:g}\n" for i, v in zip(HAWAII.ids, HAWAII.values, strict=True))

SMALL = "id,count,weight\na,5,1\nb,8,2.5\nc,12,1\nd,9,3\ne,400,1\n"
"""Several that may be dropped: under whole-number noise the exact engine has no integral for their shares."""


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


NOISY = "id,count,group,t\n001,-4.5,a,10\n002,7.25,a,10\n003,9.5,a,10\n004,3.5,b,4\n005,-0.25,b,4\n"


@pytest.mark.parametrize(
    ("words", "stdin", "code"),
    [
        (["audit", "counts.csv", "--scale", 10, "--postprocess", "pos", "--csv", "o.csv"], None, 0),
        (["audit", "-", "--scale", 10, "--postprocess", "simplex", "--csv", "-"], TABLE, 0),
        (["project", "-", "--round", "--seed", 4], NOISY, 0),
        (["audit", "counts.csv", "--epsilon", "0", "--json", "o.json"], None, 2),
        (["audit", "counts.csv", "--wrong"], None, 2),
        (["audit", "-", "--scale", 1], "id,count\na,-1\n", 2),
        (
            ["audit", "-", "--mechanism", "discrete-laplace", "--scale", 3, "--postprocess", "pos", "--method", "exact"],
            SMALL, 3,
        ),
        (["budget", "show", "counts.csv"], None, 2),
        (["--help"], None, 0),
    ],
)  # fmt: skip
def test_a_process_says_writes_and_ends_as_a_call_does(tmp_path, words, stdin, code):
    found = []
    for k, way in enumerate((run, process)):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "counts.csv").write_text(TABLE)
        done = way(*words, cwd=folder, stdin=stdin, columns=100)
        said = [
            re.sub(r"\s+", " ", text.replace("python -m fairpost", "fairpost").replace(str(folder), "HERE"))
            for text in (done.stdout, done.stderr)
        ]
        found.append((done.returncode, *said, {p.name: p.read_bytes() for p in folder.iterdir()}))
    assert found[0] == found[1]
    assert found[1][0] == code


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
    assert set(first["bounds"]) == {
        "lower", "upper", "first", "last", "clipped", "spread", "theorem", "sharper", "error",
    }  # fmt: skip
    assert first["cost_of_privacy"] is None
    assert set(second["cost_of_privacy"]) == {"share", "amount", "share_interval", "amount_interval"}
    assert [e["id"] for e in first["entities"]] == list(HAWAII.ids)
    assert {"id", "bias", "half_width", "accuracy", "standard_error"} <= set(first["entities"][0])


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
    assert [float(r["pos_bias_money"]) for r in rows] == (result.bias * 1e6).tolist()
    for path in out:
        assert "computed from true counts" in path.read_text()
    assert "Hawaii &lt;b&gt;" in out[2].read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--epsilon", "0"], ["--epsilon must be > 0", "0.0"]),
        (["--epsilon", "-0.1"], ["--epsilon must be > 0", "-0.1"]),
        (["--epsilon", "nan"], ["--epsilon", "nan"]),
        (["--epsilon", "inf"], ["--epsilon", "inf"]),
        (["--epsilon", "many"], ["--epsilon", "many"]),
        (["--scale", "10", "--total", "-1"], ["--total must be at least 0", "-1"]),
        (["--scale", "10", "--budget", "-1"], ["--budget", "-1"]),
        (["--scale", "10", "--epsilon", "1"], ["exactly one", "epsilon, scale"]),
        ([], ["exactly one", "none"]),
        (["--sigma", "10"], ["--scale", "sigma"]),
        (["--mechanism", "gaussian", "--epsilon", "1"], ["delta"]),
        (["--mechanism", "gaussian", "--epsilon", "1", "--delta", "2"], ["--delta", "2.0"]),
        (["--mechanism", "cauchy", "--scale", "1"], ["--mechanism", "cauchy"]),
        (["--scale", "10", "--postprocess", "magic"], ["--postprocess", "magic"]),
        (["--scale", "10", "--count", "people"], ["people", "id", "count"]),
        (["--scale", "10", "--id", "name"], ["name"]),
        (["--scale", "10", "--method", "monte-carlo", "--runs", "1"], ["--runs", "1"]),
        (["--scale", "10", "--confidence", "2"], ["--confidence", "2.0"]),
        (["--scale", "10", "--rtol", "0"], ["--rtol"]),
        (["--scale", "10", "--by-group"], ["group"]),
        (["--scale", "10", "--csv", "no/such/folder.csv"], ["folder"]),
        (["--scale", "10", "--wrong"], ["--wrong"]),
        (["--scale", "10", "--sensitivity", "0"], ["--sensitivity"]),
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
        ("a.csv", "id;count\nx;1,234\n", ["a.csv, line 2, column 'count'", "a clear decimal mark", "'1,234'"]),
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


def test_auto_falls_to_simulation_and_says_so(table):
    table.write_text(SMALL)
    done = run(
        "audit", table, "--mechanism", "discrete-laplace", "--scale", 3, "--postprocess", "pos", "--runs", 500,
        "--json", "-",
    )  # fmt: skip
    (result,) = json.loads(done.stdout)["results"]
    assert result["method"] == "monte-carlo"
    assert result["runs"] == 500
    assert "simulated, because" in result["note"]


def test_saipe_by_command_gives_the_reference_values():
    path = path_or_skip("saipe_2019.csv")
    for epsilon in (0.1, 0.01, 0.001):
        done = run(
            "audit", path, "--id", "leaid", "--count", "poor_5_17", "--epsilon", epsilon,
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


LOADING = """
import os, signal, sys
how = sys.argv[1]
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "fairpost.cli.main" and how != "none":
            try:
                os.kill(os.getpid(), signal.SIGINT)  # in the middle of an import, some of which turn it into another error
            except KeyboardInterrupt:
                raise ImportError("half made") from None
sys.meta_path.insert(0, Pressed())
if how == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from fairpost.__main__ import run
sys.argv = ["fairpost", "--version"]
try:
    run()
finally:
    print(signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN))
"""


@pytest.mark.parametrize(
    ("how", "code", "out", "err"),
    [
        ("pressed", 130, "", "fairpost: interrupted, nothing was written\n"),
        ("ignored", 0, f"fairpost, version {fp.__version__}\nTrue\n", ""),
        ("none", 0, f"fairpost, version {fp.__version__}\nTrue\n", ""),
    ],
)
def test_ctrl_c_while_the_command_is_being_loaded(how, code, out, err):
    """The process presses Ctrl-C itself when the command line is imported: no clock is involved."""
    done = subprocess.run(
        [sys.executable, "-c", LOADING, how], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_a_note_is_said_once_however_often_it_was_made():
    """On stderr, in the order in which they first came; nothing is said where there was none."""
    import click

    from fairpost.cli.options import note, say_notes

    @click.command()
    @click.pass_context
    def command(ctx):
        for line in ("second line", "first line", "second line", "third"):
            note(line)
        say_notes(ctx)
        say_notes(ctx)

    done = CliRunner().invoke(command)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines() == ["note: second line", "note: first line", "note: third"]


def test_a_saipe_file_as_it_comes(tmp_path):
    """The fixed-width layout of the Census Bureau: state, district, name, three numbers, tag."""
    rows = [
        ("15", "00030", "Hawaii Department of Education", 1_415_872, 218_283, 22_001),
        ("15", "00031", "Other", 900, 70, 4),
    ]
    text = "".join(f"{s} {d} {n:<72} {a:>8} {b:>8} {c:>8} ussd19.txt 04OCT2020\n" for s, d, n, a, b, c in rows)
    (tmp_path / "ussd19.txt").write_text(text)
    done = run(
        "audit", "ussd19.txt", "--format", "saipe", "--epsilon", 1, "--postprocess", "nonnegative", "--json", "-",
        "--entities", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["counts"]["total"] == 22_005
    assert [e["id"] for e in data["results"][0]["entities"]] == ["1500030", "1500031"]
    piped = run(
        "audit", "-", "--format", "saipe", "--epsilon", 1, "--postprocess", "nonnegative", "--json", "-", stdin=text
    )
    assert json.loads(piped.stdout)["counts"] == data["counts"]


GROUPED = "id,count,group,money\na,5,n,100\nb,500,n,100\nc,9,s,300\nd,400,s,300\n"


def test_one_budget_by_group_is_said_in_words_and_never_exceeded(tmp_path):
    (tmp_path / "g.csv").write_text(GROUPED)
    words = ["g.csv", "--scale", 500, "--by-group", "--postprocess", "baseline", "--budget", 1000]
    done = run("audit", *words, "--json", "a.json", "--html", "a.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "$1,000 in all, one budget, split among the groups in proportion to their true shares" in done.stdout
    (result,) = json.loads((tmp_path / "a.json").read_text())["results"]
    assert result["group_budgets"]["amounts"] == pytest.approx({"n": 1000 * 505 / 914, "s": 1000 * 409 / 914})
    assert 0 < result["cost_of_privacy"]["amount"] <= 1000
    assert "split among the groups in proportion to their true shares" in (tmp_path / "a.html").read_text()
    counts = fp.Counts([5, 500, 9, 400], groups=list("nnss"))
    by_hand = fp.audit(counts, fp.Laplace(500.0), "baseline", by_group=True, budget=1000)
    assert result["cost_of_privacy"]["amount"] == by_hand.cost_of_privacy.amount.value


@pytest.mark.parametrize("given", ["money", "budgets.csv"])
@pytest.mark.parametrize("command", [["audit"], ["sweep"], ["plan", "--max-loss", 50]])
def test_every_group_has_its_own_budget_by_column_or_file(tmp_path, given, command):
    (tmp_path / "g.csv").write_text(GROUPED)
    (tmp_path / "budgets.csv").write_text("group,budget\ns,300\nn,100\n")
    words = ["--by-group", "--group-budget", given, "--postprocess", "baseline", "--html", "a.html", "--json", "a.json"]
    noise = ["--scale", 3] if command == ["audit"] else ["--spreads", 3, 300, "--points", 2]
    done = run(command[0], "g.csv", *command[1:], *noise, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "$400 in all, every group has a budget of its own, as given" in " ".join(done.stdout.split())
    assert "every group has a budget of its own" in (tmp_path / "a.html").read_text().lower()
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["budget"] == 400
    counts = fp.Counts([5, 500, 9, 400], groups=list("nnss"))
    by_hand = fp.audit(counts, fp.Laplace(3.0), "baseline", by_group=True, budget={"n": 100, "s": 300})
    first = {"audit": "results", "sweep": "points", "plan": "plans"}[command[0]]
    found = data[first][0]["curve"][0] if command[0] == "plan" else data[first][0]
    groups = found if command[0] == "audit" else data
    assert groups["group_budgets"]["amounts"] == {"n": 100.0, "s": 300.0}
    assert found["cost_of_privacy"]["amount"] == by_hand.cost_of_privacy.amount.value
    if command[0] != "audit":
        assert found["largest_loss"]["value"] == pytest.approx(-by_hand.money.min(), rel=1e-12)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--group-budget", "money"], ["no --by-group"]),
        (["--group-budget", "money", "--by-group", "--budget", "5"], ["--budget", "--group-budget", "both"]),
        (["--group-budget", "none", "--by-group"], ["'none'", "'money'"]),
        (["--group-budget", "count", "--by-group"], ["line 3", "the same in all of the group 'n'"]),
        (["--group-budget", "short.csv", "--by-group"], ["every group must have a budget", "'s'"]),
        (["--group-budget", "twice.csv", "--by-group"], ["lines 2 and 3", "groups must be unique"]),
        (["--group-budget", "other.csv", "--by-group"], ["the columns group and budget", "no budget"]),
    ],
)
def test_bad_group_budgets_are_refused(tmp_path, words, says):
    (tmp_path / "g.csv").write_text(GROUPED)
    (tmp_path / "short.csv").write_text("group,budget\nn,100\n")
    (tmp_path / "twice.csv").write_text("group,budget\nn,100\nn,100\n")
    (tmp_path / "other.csv").write_text("group,amount\nn,100\n")
    refused(run("audit", "g.csv", "--scale", 3, "--postprocess", "pos", *words, cwd=tmp_path), *says)


# --- stdin and stdout ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [["audit", "--scale", 10], ["sweep", "--points", 2], ["plan", "--points", 2, "--max-alpha", 9]]
)
@pytest.mark.parametrize("kind", ["csv", "html", "json"])
def test_one_output_goes_to_stdout_and_nothing_else_does(table, tmp_path, command, kind):
    place = tmp_path / f"a.{kind}"
    words = [command[0], table, *command[1:], "--postprocess", "nonnegative"]
    piped, filed = run(*words, f"--{kind}", "-"), run(*words, f"--{kind}", place)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "post-processing  " not in piped.stdout
    if kind == "csv":
        assert piped.stdout == place.read_text()
    assert filed.returncode == 0
    begin = {"csv": ("id,", "rule,"), "html": "<!DOCTYPE html>", "json": "{"}[kind]
    assert piped.stdout.startswith(begin)
    assert abs(len(piped.stdout) - len(place.read_text())) < 300  # the command that is printed inside differs


def test_allocate_project_and_demo_write_to_stdout_too(tmp_path):
    (tmp_path / "n.csv").write_text(NOISY)
    shares = run("allocate", "n.csv", "--csv", "-", cwd=tmp_path)
    assert shares.stdout.startswith("id,noisy_count")
    assert len(shares.stdout.splitlines()) == 6
    assert run("project", "n.csv", "--csv", "-", cwd=tmp_path).stdout == run("project", "n.csv", cwd=tmp_path).stdout
    page = run("demo", "--html", "-", cwd=tmp_path)
    assert page.stdout.startswith("<!DOCTYPE html>")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n.csv"]


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "t.csv", "--scale", "3", "--csv", "out.xlsx"],
        ["audit", "t.csv", "--scale", "3", "--csv-groups", "out.XLS"],
        ["project", "t.csv", "--csv", "out.parquet"],
        ["allocate", "t.csv", "--html", "out.pdf"],
        ["check", "t.csv", "t.csv", "--json", "out.json.gz"],
        ["sweep", "t.csv", "--csv", "out.ods"],
        ["audit", "t.csv", "--levels", "s:1,b:2", "--level-sigma", "0,1", "--csv", "out.xlsx"],
    ],
    ids=lambda words: words[-1],
)
def test_a_name_of_another_format_is_refused(tmp_path, words):
    (tmp_path / "t.csv").write_text("id,count\naa,3\nab,40\n")
    done = run(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"got {words[-1]!r}" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_levels_go_to_stdout_as_the_table_that_was_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("id,count\naa,3\nab,40\nba,9\n")
    words = ["audit", "t.csv", "--levels", "s:1,b:2", "--level-sigma", "0,1", "--runs", "50", "--csv"]
    done = run(*words, "-", cwd=tmp_path)
    assert run(*words, "out.csv", cwd=tmp_path).returncode == 0
    assert done.stdout == (tmp_path / "out.csv").read_text(encoding="utf-8")


def test_two_outputs_to_stdout_are_refused(table):
    refused(run("audit", table, "--scale", 10, "--csv", "-", "--html", "-"), "one output", "--csv - and --html -")
    refused(run("sweep", table, "--json", "-", "--csv", "-"), "--json - and --csv -")


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_counts_can_come_from_stdin(table, form):
    text = TABLE if form == "csv" else TABLE.replace(",", "\t")
    words = ["--scale", 10, "--postprocess", "simplex", "--csv", "-"]
    assert run("audit", "-", *words, stdin=text).stdout == run("audit", table, *words).stdout
    noisy = run("project", "-", stdin=NOISY if form == "csv" else NOISY.replace(",", "\t"))
    assert len(noisy.stdout.splitlines()) == 6


def test_stdin_that_is_bad_is_named(tmp_path):
    refused(run("audit", "-", "--scale", 1, stdin=""), "standard input", "empty")
    refused(run("audit", "-", "--scale", 1, stdin="id,count\na,-1\n"), "standard input, line 2")


# --- narrow screens ------------------------------------------------------------------------------------------------

NAMES = ["Los Angeles Unified School District, California", "New York City Department of Education", "Kalawao"]
WIDE = "id,count,group\n" + "".join(
    f'"{n}",{v},{g}\n' for n, v, g in zip(NAMES, (1_043_350, 2_147_600, 3), ("CA", "NY", "HI"), strict=True)
)


# --- plan and sweep ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], ["must have a target", "--max-relative-loss", "none"]),
        (["--max-alpha", "-1"], ["--max-alpha must be > 0 and finite, got -1"]),
        (["--max-rmse", "nan"], ["--max-rmse must be > 0 and finite, got nan"]),
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
    table.write_text(SMALL)
    words = [
        "--mechanism", "discrete-laplace", "--postprocess", "pos", "--method", "exact", "--spreads", 2, 3,
        "--points", 2,
    ]  # fmt: skip
    done = run(command[0], table, *command[1:], *words, "--html", tmp_path / "x.html", "--json", tmp_path / "x.json")
    refused(done, "refused every level of noise", "continuous noise only", code=3)
    assert not list(tmp_path.glob("x.*"))


# --- project and allocate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--total", "-3"], ["--total"]),
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


# --- demo, paper, pipes --------------------------------------------------------------------------------------------


def on_a_terminal(words, start):
    """What a pseudo-terminal of 80 columns gets; COLUMNS is not set."""
    import fcntl
    import pty
    import struct
    import termios

    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    process = start(
        [sys.executable, "-m", "fairpost", *map(str, words)], stdin=side, stdout=side, stderr=side,
        env={k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "xterm-256color"},
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
    assert process.wait(timeout=120) == 0
    return seen


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_is_colour_and_progress(table, start):
    seen = on_a_terminal(["audit", table, "--scale", 10, "--method", "monte-carlo", "--runs", 200_000], start)
    assert b"\x1b[" in seen
    assert b"simulating" in seen
    assert b"integrating" not in seen


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_exact_work_is_not_called_simulation_and_a_terminal_of_80_columns_is_kept(tmp_path, start):
    (tmp_path / "w.csv").write_text(WIDE)
    seen = on_a_terminal(["audit", tmp_path / "w.csv", "--scale", 10, "--budget", 6.5e9, "--postprocess", "pos"], start)
    assert b"integrating" in seen
    assert b"simulating" not in seen
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).replace("\r\n", "\n")
    lines = [line.rsplit("\r", 1)[-1] for line in shown.splitlines()]
    assert max(map(len, lines)) <= 80
    result = fp.audit(fp.Counts([1_043_350, 2_147_600, 3], weights=None), fp.Laplace(10.0), "pos", budget=6.5e9)
    assert any(f"${result.cost_of_privacy.amount.value:,.0f}" in line for line in lines)
