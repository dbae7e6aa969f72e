"""What the bars of the commands are told, what the bar makes of it, and what `fairpost paper` says when it is done."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from types import SimpleNamespace

import pytest
import rich.progress

from fairpost.cli import screen
from support.commands import call

COUNTS = "id,count,group\na,3,n\nb,50,n\nc,7,s\nd,900,s\n"
TREE = "id,count\n" + "".join(f"{i // 4}{i},{3 * i}\n" for i in range(8))
LEVELS = ["--levels", "top:1,leaf:2"]
LEVEL_AUDIT = ["audit", "t.csv", *LEVELS, "--method", "monte-carlo"]


@pytest.fixture
def told(monkeypatch):
    """Every bar of a command: its first label, and what it was told."""
    bars = []

    @contextlib.contextmanager
    def progress(what):
        said = []
        bars.append((what, said))
        yield lambda done, most, label=what: said.append((done, most, label))

    monkeypatch.setattr(screen, "progress", progress)
    return bars


def rising(said, most, label):
    """From some part to the whole, never back, always of the same and under one label."""
    done = [d for d, _, _ in said]
    assert done == sorted(done)
    assert done[0] > 0
    assert done[-1] == most
    assert {(m, l) for _, m, l in said} == {(most, label)}


def test_the_bar_of_an_audit_integrates_or_counts_runs(told, tmp_path):
    (tmp_path / "c.csv").write_text(COUNTS)
    words = ["audit", "c.csv", "--scale", 3, "--postprocess", "simplex"]
    call(*words, cwd=tmp_path)
    call(*words, "--method", "monte-carlo", "--runs", 5000, cwd=tmp_path)
    (tmp_path / "w.csv").write_text("id,count,weight\na,5,1\nb,8,2.5\nc,12,1\nd,9,3\ne,400,1\n")  # has no integral
    uneven = ["audit", "w.csv", "--scale", 3, "--mechanism", "discrete-laplace", "--postprocess", "pos"]
    call(*uneven, "--method", "auto", "--runs", 500, cwd=tmp_path)
    call("audit", "c.csv", "--scale", 3, "--postprocess", "pos", "--frontier", "--json", "-", cwd=tmp_path)
    exact, drawn, first, frontier = told
    assert exact == ("reading", [(0, None, "integrating")])
    assert (drawn[0], drawn[1][0]) == ("reading", (0, None, "simulating"))
    rising(drawn[1][1:], 5000, "simulating")
    assert first[1][0] == (0, None, "integrating")
    rising(first[1][1:], 500, "simulating")
    assert frontier[1] == [(0, None, "integrating"), (0, None, "fairness against accuracy")]


@pytest.mark.parametrize(
    ("words", "what", "most"),
    [
        (["allocate", "c.csv", "--scale", 3, "--replicates", 2], "estimating biases", 3),
        (["allocate", "c.csv", "--postprocess", "pos"], "estimating biases", 1),
        (["sweep", "c.csv", "--points", 3, "--postprocess", "simplex"], "levels of noise", 3),
        (["plan", "c.csv", "--points", 4, "--postprocess", "simplex", "--max-alpha", 9], "levels of noise", 4),
        ([*LEVEL_AUDIT, "--level-sigma", "2,3", "--postprocess", "top-down", "--runs", 640], "simulating", 640),
        (["sweep", "t.csv", *LEVELS, "--rhos", 0.1, 1, "--points", 3, "--postprocess", "top-down"], "levels of noise", 3),
    ],
)  # fmt: skip
def test_the_other_bars_end_at_the_whole(told, tmp_path, words, what, most):
    (tmp_path / "c.csv").write_text(COUNTS)
    (tmp_path / "t.csv").write_text(TREE)
    done = call(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ((label, said),) = told
    assert label == what
    rising(said, most, what)


def test_the_bar_of_a_plan_of_levels_counts_its_tries(told, tmp_path):
    (tmp_path / "t.csv").write_text(TREE)
    done = call("plan", "t.csv", *LEVELS, "--rho", 0.5, "--level-rmse", "top:9", "--tries", 30, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ((label, said),) = told
    assert label == "splits"
    assert {(m, l) for _, m, l in said} == {(30, "splits")}
    assert [d for d, _, _ in said] == list(range(1, len(said) + 1))


def test_a_bar_shows_done_most_and_the_newest_label_and_is_quiet_without_a_terminal(monkeypatch):
    seen = []

    class Kept(rich.progress.Progress):
        def __init__(self, *columns, **given):
            super().__init__(*columns, **given)
            seen.append((self, given))

    class Stream(io.StringIO):
        terminal = True

        def isatty(self):
            return self.terminal

    monkeypatch.setattr(rich.progress, "Progress", Kept)
    monkeypatch.setattr("sys.stderr", out := Stream())
    with screen.progress("waiting") as report:
        bar, given = seen[-1]
        (task,) = bar.tasks
        assert (task.description, task.total, task.completed) == ("waiting", None, 0)
        report(3, 7)
        assert (task.description, task.total, task.completed) == ("waiting", 7, 3)
        report(5, 9, "counting")
        assert (task.description, task.total, task.completed) == ("counting", 9, 5)
        bar.refresh()
    assert given["transient"]
    assert given["console"].stderr
    assert "5/9" in out.getvalue()
    assert "counting" in out.getvalue()
    for terminal, around in ((False, {}), (False, {"FORCE_COLOR": "1"}), (True, {"TERM": "dumb"})):
        monkeypatch.setattr(Stream, "terminal", terminal)
        monkeypatch.setattr("sys.stderr", out := Stream())
        with monkeypatch.context() as m:
            for name, value in around.items():
                m.setenv(name, value)
            with screen.progress("waiting") as report:
                report(3, 7)
                report(5, 9, "counting")
        assert len(seen) == 1
        assert out.getvalue() == ""


# -- fairpost paper ---------------------------------------------------------------------------------------------------


def table(title, rows):
    return SimpleNamespace(title=title, columns=("rule", "alpha"), shown=lambda: rows)


def value(where, agrees):
    return SimpleNamespace(
        agrees=agrees, published=SimpleNamespace(where=where, quantity=f"alpha of {where}", printed=f"9.{where[-1]}")
    )


@pytest.mark.parametrize("surprising", [0, 2])
def test_the_screen_of_the_paper_has_tables_agreement_differences_and_the_mark(told, monkeypatch, tmp_path, surprising):
    import fairpost.paper

    found = SimpleNamespace(
        tables=[table("Table 1", [("simplex", "0.1234"), ("pos", "0.5678")]), table("Table 2", [("baseline", "0.9012")])],
        comparisons=[value("Table 1", True), value("Table 7", False), value("Figure 3", True), value("Section 5", False), value("X 6", True)],
        surprises=[1] * surprising,
        page=Path("paper/index.html"),
        findings=SimpleNamespace(mark="SYNTHETIC: a mark"),
    )  # fmt: skip

    def reproduce(out, progress, **given):
        progress("tables", 0.126)
        progress("figures", 1.0)
        return found

    monkeypatch.setattr(fairpost.paper, "reproduce", reproduce)
    done = call("paper", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert told == [("reproducing", [(13, 100, "tables"), (100, 100, "figures")])]
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    order = [lines.index(one) for one in ("Table 1", "simplex 0.1234", "pos 0.5678", "Table 2", "baseline 0.9012")]
    assert order == sorted(order)
    said = "\n".join(lines)
    assert "rule alpha" in said
    assert "3 of 5 published values agree; the rest:" in said
    assert "\nTable 7: alpha of Table 7, printed 9.7\nSection 5: alpha of Section 5, printed 9.5\n" in said
    assert "alpha of Table 1" not in said
    assert ("2 of these findings are not the ones on record." in said) is bool(surprising)
    assert "The reasons, figures, examples and theorems: paper/index.html" in said
    assert lines[-1] == "SYNTHETIC: a mark"
