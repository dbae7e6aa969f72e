"""The paper, reproduced: published beside ours, figures from the tables' results, a folder that is whole or absent."""

import csv
import io
import json
import re
import shlex
import sys
from dataclasses import replace

import numpy as np
import pytest

import fairpost as fp
from fairpost.accuracy import Estimate
from fairpost.datasets import synthetic_districts
from fairpost.paper import figures, folder, reproduce, tables
from fairpost.paper import reproduce as command
from fairpost.paper.page import ours, pretty
from fairpost.paper.published import compare_all, published
from fairpost.paper.reproduce import Data, compute, district_data, drawings
from fairpost.paper.tables import Runs, show
from fairpost.paper.theorems import STATEMENTS, theorems
from support.data import rows_or_skip
from support.mechanisms import saipe

RUNS = Runs(hawaii=20_000, shares=256)


@pytest.fixture(scope="module")
def found():
    data = district_data(None, "poor_5_17", "1")
    return compute(data, RUNS, quick=True, seed=3)


@pytest.fixture(scope="module")
def drawn(found):
    pytest.importorskip("matplotlib")
    return drawings(found)


@pytest.fixture(scope="module")
def files(found, drawn):
    """Painted with few dots for an inch, which takes less."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "DPI", 30)
        return folder.contents(found, drawn)


# -- published beside ours ----------------------------------------------------------------------------------------------


def test_every_published_value_has_its_place_and_every_disagreement_its_reason():
    for record in published().values():
        assert {"section", "item"} <= set(record.place), record.key
        assert record.status in ("agrees", "differs"), record.key
        assert (record.status == "differs") == (record.reason is not None), record.key
        assert record.reason is None or len(record.reason) > 80, record.key
        assert record.half_unit >= 0


def test_tables_1_and_2_are_whole():
    keys = set(published())
    assert {f"table1.{m}.{q}" for m in ("laplace", "gaussian") for q in ("alpha", "lower", "upper")} <= keys
    which = [(e, w, q) for e in ("0.1", "0.01", "0.001") for w in ("baseline", "pos") for q in ("alpha", "cost")]
    assert {f"table2.{e}.{w}.{q}" for e, w, q in which} <= keys


def as_recorded(comparisons):
    surprises = {
        c.published.key: (c.published.printed, ours(c.computed), c.status) for c in comparisons if not c.as_recorded
    }
    assert surprises == {}, "a disagreement is new or has gone: change published.json only with a reason"


def test_embedded_data_agree_and_differ_as_recorded(found):
    as_recorded(found.comparisons)
    with pytest.raises(KeyError, match="hawaii"):  # a value that nobody computed
        compare_all({})
    assert {c.status for c in found.comparisons} == {"agrees", "differs"}


@pytest.fixture(scope="module")
def rest(found):
    """What does not depend on the tables."""
    return {c.published.key: c.computed for c in found.comparisons}


def exact_cells(counts):
    cells = {}
    for epsilon in tables.EPSILONS:
        for which in ("baseline", "pos"):
            result = fp.audit(counts, fp.Laplace.from_epsilon(epsilon), which, engine="exact", budget=tables.BUDGET)
            cells[epsilon, which] = tables.Allocation(epsilon, result, None, result)
    return cells


@pytest.mark.parametrize("column", ["poor_5_17", "pop_5_17"])
def test_saipe_2019_agrees_and_differs_as_recorded(rest, column):
    as_recorded(compare_all(rest | tables.values2(exact_cells(saipe(column)))))


def title1(column: str, without: tuple[str, ...] = ()) -> fp.Counts:
    rows = [r for r in rows_or_skip("title1_saipe2011_exp2010.csv") if r["exp_pp"] and r["leaid"] not in without]
    return fp.Counts([float(r[column]) for r in rows], [r["leaid"] for r in rows], [float(r["exp_pp"]) for r in rows])


@pytest.mark.parametrize("column", ["poor_5_17", "pop_5_17"])
def test_saipe_2011_with_expenditures_agrees_and_differs_as_recorded(rest, column):
    as_recorded(compare_all(rest | tables.values2(exact_cells(title1(column)))))


def test_one_county_at_risk_fixes_the_ratios(found):
    for row in found.counties:
        e = row.exactly()
        assert e["alpha"].value == pytest.approx(1.25 * e["lower"].value, rel=1e-8)
        assert e["upper"].value == pytest.approx(2 * e["lower"].value, rel=1e-12)


# -- the tables ---------------------------------------------------------------------------------------------------------


def test_exact_and_simulated_values_of_table_1_fit(found):
    """20,000 runs, six intervals of 95 %, two of them nearly one: within twice the half-width (z about 4)."""
    table = found.tables[0]
    for exact, simulated in zip(table.column("exact"), table.column("simulated"), strict=True):
        reach = 2 * max(simulated.high - simulated.value, simulated.value - simulated.low)
        assert abs(exact.value - simulated.value) <= reach


def test_the_plain_estimate_of_table_1_cannot_resolve_it(found):
    """With the paper's 1,000,000 runs its interval is wider than the bracket of Theorem 1."""
    for row in found.counties:
        e = row.exactly()
        assert tables.plain_half_width(row.mechanism, tables.RUNS[0]) > e["upper"].value - e["lower"].value
        for plain in row.plainly().values():
            assert plain.high - plain.value == pytest.approx(tables.plain_half_width(row.mechanism, RUNS.hawaii))


def test_computed_values_of_table_2_lie_in_the_simultaneous_intervals(found):
    table = found.tables[1]
    assert len(table.rows) == 18
    for computed, simulated in zip(table.column("computed"), table.column("simulated"), strict=True):
        assert simulated.low <= computed.value <= simulated.high
    for computed, simulated in zip(table.column("computed"), table.column("simulated"), strict=True):
        assert computed.half_width < simulated.half_width


def test_the_price_is_the_results_own(found):
    table = found.tables[2]
    for row, c in zip(table.rows, found.cells.values(), strict=True):
        assert row[4] == float(np.sqrt(np.sum(c.computed.mse)))
        assert row[8] == pytest.approx(c.computed.zero[np.argmin(c.computed.truth)], rel=1e-12)
    zeros = dict(zip(found.cells, table.column("P(0) at smallest"), strict=True))
    assert all(zeros[e, "pos-threshold"] > zeros[e, "pos"] for e in tables.EPSILONS)


def test_numbers_are_shown_to_what_their_interval_allows():
    assert show(Estimate(0.00858784008, 0.00858784007, 0.00858784009)) == "0.0085878401 ± 1e-11"
    assert show(Estimate(2.0, 2.0, 2.0)) == "2"
    assert show(Estimate(1.0, 0.5, 1.5)) == "1 [0.5, 1.5]"
    assert show(200_000) == "200,000"
    assert show(10_632.4) == "10,632"
    assert show(None) == "–"
    # by powers of ten: one notation, whatever the size
    assert show(Estimate(0.283, 0.259, 0.319), True) == "2.830e-01 [2.590e-01, 3.190e-01]"
    assert show(Estimate(0.00858784008, 0.00858784007, 0.00858784009), True) == "8.5878401e-03 ± 1e-11"
    assert show(Estimate(0.5, 0.0, 1.0), True) == "5.000e-01 [0, 1.000e+00]"
    assert show("3.00E-07", True) == "3.00e-07"
    assert show("3.00E-07") == "3.00E-07"
    assert str(pretty("3.00e-07 ± 1e-12, 2.5e+03")) == "3.00 × 10<sup>−7</sup> ± 10<sup>−12</sup>, 2.5 × 10<sup>3</sup>"


def test_counts_that_the_engines_refuse_are_simulated(monkeypatch):
    monkeypatch.setattr(tables, "_computed", lambda *asked: (None, "refused"))
    counts = fp.Counts(np.linspace(0, 5e3, 8), weights=np.geomspace(1, 1e4, 8))
    cells = tables.allocations(counts, Runs(2, 64), 0, lambda done: None)
    refused = [c for c in cells.values() if c.computed is None]
    assert refused
    assert all(c.refusal and c.best is c.simulated for c in refused)
    assert None in tables.table2(cells, "eight").column("computed")


def test_the_data_are_named(tmp_path):
    assert district_data(None, "poor_5_17", "1").label.startswith("SYNTHETIC")
    given = district_data(fp.Counts([1, 2], weights=[1, 3]), "pop", "cost")
    assert (given.synthetic, given.label) == (False, "2 districts, pop, weights cost")
    path = tmp_path / "d.csv"
    path.write_text("leaid,poor_5_17,exp\n01,3,2.5\n02,4,1.5\n")
    pytest.importorskip("polars")
    plain, weighted = district_data(path, "poor_5_17", "1"), district_data(path, "poor_5_17", "exp")
    assert plain.counts.ids == ("01", "02")
    assert plain.counts.weights.tolist() == [1.0, 1.0]
    assert weighted.counts.weights.tolist() == [2.5, 1.5]
    assert "d.csv" in plain.label


# -- statements ---------------------------------------------------------------------------------------------------------


def test_every_statement_is_demonstrated_and_holds(found):
    names = [d.name for d in found.theorems]
    lemmas = [f"Lemma {k}" for k in range(1, 11)]
    expected = {*lemmas, *(f"Proposition {k}" for k in range(1, 5)), *(f"Theorem {k}" for k in (1, 2, 3)),
                "Corollary 1", "Corollary 2"}  # fmt: skip
    assert set(names) == expected
    assert len(names) == len(STATEMENTS) == len(expected)
    for d in (*found.theorems, *found.examples):
        assert isinstance(d.holds, bool | np.bool_), d.name
        assert d.holds, d.name
        assert d.numbers, d.name
        assert d.remark == "" or d.remark.endswith("."), d.name
    assert [d.name for d in found.examples] == ["Example 1", "Example 2", "Example 3"]


def moved(rule):
    """The rule, but that the first gets 1 more and the last 1 less."""

    class Moved(rule):
        def __call__(self, X):
            out = np.array(super().__call__(X), dtype=float)
            out[..., 0] += 1.0
            out[..., -1] -= 1.0
            return out

    return Moved


def another_bias(audit):
    def told(*args, **given):
        found = audit(*args, **given)
        return replace(found, bias=100 * found.bias[::-1] + np.arange(found.bias.size))

    return told


BROKEN = {
    "Lemma 1": {"Sum": moved}, "Lemma 2": {"Simplex": moved, "Sum": moved}, "Proposition 1": {"Sum": moved},
    "Lemma 3": {"audit": another_bias, "clipped": lambda was: lambda *given: 7.0 + 0.0 * was(*given)},
    "Theorem 1": {"theorem1": lambda was: lambda *args, **given: replace(was(*args, **given), lower=1e3)},
    "Theorem 2": {"PoS": moved, "_range": lambda was: lambda v: 7.0, "_minimum": lambda was: lambda *given: 7.0},
    "Proposition 3": {"audit": another_bias}, "Theorem 3": {"Baseline": moved, "PoS": moved, "_least_l1": lambda was: lambda v: 7.0},
    "Lemma 5": {"Affine": moved}, "Lemma 6": {"Affine": moved}, "Corollary 1": {"Sum": moved}, "Lemma 7": {"Affine": moved, "Sum": moved},
    "Lemma 8": {"Simplex": moved, "Sum": moved}, "Lemma 9": {"_density": lambda was: lambda *given: 7.0},
}  # fmt: skip


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in BROKEN.items() for part in parts])
def test_a_demonstration_fails_where_what_it_is_about_is_broken(monkeypatch, name, part):
    (statement,) = (make for make in STATEMENTS if make().name == name)
    module = sys.modules[statement.__module__]
    monkeypatch.setattr(module, part, BROKEN[name][part](getattr(module, part)))
    assert not statement().holds


def test_progress_runs_from_start_to_end():
    seen = []
    theorems(seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


# -- figures ------------------------------------------------------------------------------------------------------------


def plotted(axes):
    return next(line for line in axes.lines if line.get_gid() == "bias")


def test_table_2_shows_the_alpha_of_the_plotted_biases(found, drawn):
    grid = next(d for d in drawn if d.name == "figure3").figure.axes
    alphas = [
        c
        for c, q in zip(found.tables[1].column("computed"), found.tables[1].column("quantity"), strict=True)
        if q == "alpha"
    ]
    for axes, alpha in zip(grid, alphas, strict=True):
        y = plotted(axes).get_ydata()
        assert float(y.max() - y.min()) == alpha.value


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(fp.UnsupportedError, match=r"needs matplotlib: pip install 'fairpost\[paper\]'"):
        reproduce(tmp_path / "out", quick=True)
    assert not (tmp_path / "out").exists()


def test_figures_leave_the_users_settings_alone(drawn):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    drawn[2].files()
    assert dict(mpl.rcParams) == before


# -- the page and the folder --------------------------------------------------------------------------------------------


def test_the_folder_has_tables_figures_and_one_page(files, found):
    assert {
        f"tables/{t}.{end}" for t in ("table1", "table2", "table2-price", "comparisons") for end in ("csv", "md")
    } <= set(files)
    assert {
        f"figures/{f}.{end}"
        for f in ("figure1-left", "figure1-right", "figure2-5", "figure3")
        for end in ("png", "pdf")
    } <= set(files)
    assert all(files[n].startswith(b"\x89PNG") for n in files if n.endswith(".png"))
    assert all(files[n].startswith(b"%PDF") for n in files if n.endswith(".pdf"))
    about = json.loads(files["about.json"])
    assert set(about["files"]) == set(files)
    assert about["synthetic"] is True
    rows = list(csv.DictReader(io.StringIO(files["tables/table2.csv"].decode())))
    assert float(rows[0]["computed"]) == found.cells[0.1, "baseline"].best.alpha.value
    assert found.mark in files["tables/table2.md"].decode()


def test_the_page_is_one_file_that_fetches_nothing(files, found):
    page = files["index.html"].decode()
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert 'src="data:image/png;base64,' in page
    assert found.mark in page
    assert "synthetic" in page
    for d in (*found.theorems, *found.examples):
        assert f"<h3>{d.name}." in page
    assert page.count('class="agrees">agrees') == sum(c.agrees for c in found.comparisons)
    assert page.count('class="differs">differs') == sum(not c.agrees for c in found.comparisons)


def test_names_of_the_users_cannot_become_markup(found, drawn, monkeypatch):
    from dataclasses import replace

    from fairpost.paper.page import page

    evil = replace(found, data=Data(found.data.counts, "<script>alert(1)</script>", False))
    pictures = {f"figures/{d.name}.png": b"" for d in drawn}
    assert "<script" not in page(evil, drawn, pictures)


def test_a_failed_write_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(fp.InputError, match="cannot be written"):
        folder.write(tmp_path / "file" / "out", {"index.html": b"a"}, force=False)
    with pytest.raises(fp.InputError, match="cannot be written"):
        folder.write(tmp_path / "out", {"a": b"1", "a/b": b"2"}, force=False)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def unpainted(monkeypatch):
    """Figures are drawn and not painted, which takes seconds: `files` has looked at painted ones."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(figures.Drawing, "files", lambda self: {f"{self.name}.{e}": e.encode() for e in ("png", "pdf")})


def test_reproduce_in_one_call(tmp_path, monkeypatch, unpainted):
    monkeypatch.setattr(sys.modules[command.__module__], "QUICK", Runs(2_000, 64))
    seen = []
    small = fp.Counts(synthetic_districts().values[::40])
    done = reproduce(tmp_path / "out", saipe=small, quick=True, progress=lambda step, part: seen.append((step, part)))
    assert done.page.exists()
    assert len(done.figures) == 8
    assert all(path.exists() for path in done.figures)
    assert [part for _, part in seen] == sorted(part for _, part in seen)
    assert seen[-1][1] == 1.0
    assert len(done.comparisons) == len(published())
    with pytest.raises(fp.InputError, match="must be empty"):
        reproduce(tmp_path / "out", saipe=small, quick=True)


def test_the_page_says_how_to_make_it_again(tmp_path, monkeypatch, unpainted):
    from html import unescape

    from fairpost.cli import main

    place = sys.modules[command.__module__]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(place, "QUICK", Runs(2_000, 64))
    rows = "".join(f"{k}\t{int(v)}\t2\n" for k, v in enumerate(synthetic_districts().values[::60]))
    (tmp_path / "my data.old").write_text("key\tpoor\tw\n" + rows)  # a name that does not tell: the format must be said
    asked = {"column": "poor", "weights": "w", "quick": True, "seed": 7, "id": "key", "format": "tsv"}
    done = reproduce("out put", saipe=tmp_path / "my data.old", **asked)
    shown = [unescape(text) for text in re.findall(r"<pre [^>]*>(.*?)</pre>", done.page.read_text(), re.S)]
    assert len(shown) == 2
    seen = []
    monkeypatch.setattr(
        place, "compute", lambda data, runs, **given: seen.append((data.label, runs, given)) or done.findings
    )
    from click.testing import CliRunner

    words = shlex.split(shown[0])
    assert CliRunner().invoke(main, [*words[1:], "--force"]).exit_code == 0
    exec(shown[1].replace("seed=7", "seed=7, force=True"), {})
    for label, runs, given in seen:
        assert label == done.findings.data.label
        assert runs == Runs(2_000, 64)
        assert (given["quick"], given["seed"], given["device"]) == (True, 7, "cpu")
    assert len(seen) == 2
