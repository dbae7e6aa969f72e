"""The paper, reproduced by one call: published beside ours, figures from the tables' results, a folder that is whole or absent."""

import csv
import io
import json
import re
import shlex
import sys
from dataclasses import replace
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest

import fairpost as fp
import fairpost.paper
from fairpost.accuracy import Estimate
from fairpost.datasets import synthetic_districts
from support.commands import call
from support.data import rows_or_skip
from support.mechanisms import saipe

reproduce = fairpost.paper.reproduce
HERE = sys.modules["fairpost.paper.reproduce"]


def few(patch, hawaii=2_000, shares=64):
    """Few runs, and figures of few dots for an inch, which take less."""
    pytest.importorskip("matplotlib")
    patch.setattr(HERE, "QUICK", type(HERE.QUICK)(hawaii, shares))
    patch.setattr(HERE.figures, "DPI", 30)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        few(patch, 20_000, 256)
        return reproduce(tmp_path_factory.mktemp("paper") / "out", quick=True, seed=3)


@pytest.fixture(scope="module")
def found(done):
    return done.findings


# -- published beside ours ----------------------------------------------------------------------------------------------


def test_every_published_value_has_its_place_and_every_disagreement_its_reason(done):
    records = {c.published.key: c.published for c in done.comparisons}
    for record in records.values():
        assert {"section", "item"} <= set(record.place), record.key
        assert (record.status == "differs") == (record.reason is not None), record.key
        assert record.reason is None or len(record.reason) > 80, record.key
    assert {f"table1.{m}.{q}" for m in ("laplace", "gaussian") for q in ("alpha", "lower", "upper")} <= set(records)
    which = [(e, w, q) for e in ("0.1", "0.01", "0.001") for w in ("baseline", "pos") for q in ("alpha", "cost")]
    assert {f"table2.{e}.{w}.{q}" for e, w, q in which} <= set(records)
    assert done.surprises == (), "a disagreement is new or has gone: change published.json only with a reason"
    assert {c.status for c in done.comparisons} == {"agrees", "differs"}


def title1(column: str) -> fp.Counts:
    rows = [r for r in rows_or_skip("title1_saipe2011_exp2010.csv") if r["exp_pp"]]
    return fp.Counts([float(r[column]) for r in rows], [r["leaid"] for r in rows], [float(r["exp_pp"]) for r in rows])


@pytest.mark.parametrize("data", [saipe, title1])
@pytest.mark.parametrize("column", ["poor_5_17", "pop_5_17"])
def test_the_papers_districts_agree_and_differ_as_recorded(tmp_path, monkeypatch, data, column):
    counts = data(column)
    few(monkeypatch)
    assert reproduce(tmp_path / "out", saipe=counts, quick=True).surprises == ()


AGREES = [  # published, half a unit of it, ours, our error
    (4.0, 0.5, 4.75, 0.25, True), (4.0, 0.5, 3.25, 0.25, True), (4.0, 0.5, 4.75 + 3e-12, 0.25, True),
    (4.0, 0.5, 4.75 + 9e-12, 0.25, False), (4.0, 0.5, 3.25 - 9e-12, 0.25, False), (4.0, 0.0, 4.0, 0.0, True),
    (0.0, 0.5, -0.5, 0.0, True), (4.0, 0.0, 4.25, 0.0, False), (0.0, 1e6, 1e6 + 5e-7, 0.0, False),
    ((1.0, -100.0, 0.0), 0.0, (1.0, -100.0, 9e-11), 0.0, True), ((1.0, -100.0, 0.0), 0.0, (1.0, -100.0, 2e-10), 0.0, False),
    ((1.0, -100.0), 0.0, (1.0,), 0.0, False), ((1.0,), 9.0, (1.0, 1.0), 0.0, False), (True, 0.0, True, 0.0, True),
    (False, 0.0, False, 0.0, True), (False, 9.0, True, 0.0, False), (True, 9.0, 1.0, 0.0, False), (1.0, 9.0, True, 0.0, False),
]  # fmt: skip


@pytest.mark.parametrize(("theirs", "half", "ours", "error", "agrees"), AGREES)
def test_a_published_value_agrees_to_the_edge(done, theirs, half, ours, error, agrees):
    """Of half a unit, our error, and 1e-12 of the published value; a vector in every entry, a statement with a statement alone."""
    some = done.comparisons[0]
    published = replace(some.published, value=theirs, half_unit=half, status="agrees")
    one = replace(some, published=published, computed=replace(some.computed, value=ours, error=error))
    assert (one.agrees, one.as_recorded, one.status) == (agrees, agrees, "agrees" if agrees else "differs")
    assert replace(one, published=replace(published, status="differs")).as_recorded is not agrees


def test_the_statements_about_districts_fail_where_one_budget_is_otherwise():
    """From inside: no data at hand make each of them false. An order of magnitude at one budget is enough."""
    from fairpost.paper.tables import EPSILONS, _statements

    def result(alpha, cost, bias=(0.5, -2e-6, -5e-6, 0.0)):
        part = SimpleNamespace(share=Estimate(cost, cost, cost))
        return SimpleNamespace(
            alpha=Estimate(alpha, alpha, alpha), cost_of_privacy=part, bias=np.array(bias),
            accuracy=SimpleNamespace(half_width=np.full(4, 3e-8)),
            truth=np.array([0.1, 0.2, 0.4, 0.3]), counts=SimpleNamespace(n=16_001),
        )  # fmt: skip

    usual = {(e, w): result(*v) for e in EPSILONS for w, v in (("baseline", (21.0, 8.5)), ("pos", (1.5, 4.0)))}
    said = _statements(usual)
    assert all(c.value for c in said.values() if isinstance(c.value, bool))
    assert (said["text.los_angeles"].value, said["text.los_angeles"].error) == pytest.approx(
        (5e-6 * 6.5e9, 3e-8 * 6.5e9)
    )
    for e in EPSILONS:
        for key, other in (
            ("table2.pos_fairer", {(e, "baseline"): result(1.0, 8.5)}),
            ("table2.pos_cheaper", {(e, "pos"): result(1.5, 9.0)}),
            ("text.largest_loses", {(e, "baseline"): result(21.0, 8.5, (0.5, -2e-6, -1e-6, 0.0))}),
        ):
            assert not _statements(usual | other)[key].value, (e, key)
        near = {key: result(2.0, 2.0) for key in usual}
        assert not _statements(near)["table2.order_of_magnitude"].value
        assert _statements(near | {(e, "baseline"): result(30.0, 9.0)})["table2.order_of_magnitude"].value


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
        assert HERE.tables.plain_half_width(row.mechanism, HERE.tables.RUNS[0]) > e["upper"].value - e["lower"].value
        for plain in row.plainly().values():
            assert plain.high - plain.value == pytest.approx(HERE.tables.plain_half_width(row.mechanism, 20_000))


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
    assert all(zeros[e, "pos-threshold"] > zeros[e, "pos"] for e in (0.1, 0.01, 0.001))


def test_counts_that_the_engines_refuse_are_simulated(tmp_path, monkeypatch):
    few(monkeypatch)
    monkeypatch.setattr(HERE.tables, "_computed", lambda *asked: (None, "refused"))
    counts = fp.Counts(np.linspace(0, 5e3, 8), weights=np.geomspace(1, 1e4, 8))
    made = reproduce(tmp_path / "out", saipe=counts, quick=True)
    assert None in made.tables[1].column("computed")
    assert all(c.refusal and c.best is c.simulated for c in made.findings.cells.values())


# -- statements ---------------------------------------------------------------------------------------------------------


def test_every_statement_is_demonstrated_and_holds(found):
    names = [d.name for d in found.theorems]
    lemmas = [f"Lemma {k}" for k in range(1, 11)]
    expected = {*lemmas, *(f"Proposition {k}" for k in range(1, 5)), *(f"Theorem {k}" for k in (1, 2, 3)),
                "Corollary 1", "Corollary 2"}  # fmt: skip
    assert set(names) == expected
    assert len(names) == len(expected)
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
    """From inside: what holds for the package as it is can be made false by a broken rule alone."""
    from fairpost.paper.theorems import STATEMENTS

    (statement,) = (make for make in STATEMENTS if make().name == name)
    module = sys.modules[statement.__module__]
    monkeypatch.setattr(module, part, BROKEN[name][part](getattr(module, part)))
    assert not statement().holds


# -- figures, the page and the folder -----------------------------------------------------------------------------------


def test_figure_3_shows_the_alphas_of_table_2(found):
    grid = next(d for d in HERE.drawings(found) if d.name == "figure3").figure.axes
    table = found.tables[1]
    alphas = [c for c, q in zip(table.column("computed"), table.column("quantity"), strict=True) if q == "alpha"]
    for axes, alpha in zip(grid, alphas, strict=True):
        y = next(line for line in axes.lines if line.get_gid() == "bias").get_ydata()
        assert float(y.max() - y.min()) == alpha.value


def test_figures_leave_the_users_settings_alone(tmp_path, monkeypatch):
    mpl = pytest.importorskip("matplotlib")
    few(monkeypatch)
    before = dict(mpl.rcParams)
    reproduce(tmp_path / "out", saipe=fp.Counts([1, 20, 300, 4000, 5]), quick=True)
    assert dict(mpl.rcParams) == before


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(fp.UnsupportedError, match=r"needs matplotlib: pip install 'fairpost\[paper\]'"):
        reproduce(tmp_path / "out", quick=True)
    assert not (tmp_path / "out").exists()


def test_the_folder_has_tables_figures_and_one_page_for_its_owner_alone(done, found):
    place = done.page.parent
    files = {p.relative_to(place).as_posix(): p.read_bytes() for p in place.rglob("*") if p.is_file()}
    names = ("table1", "table2", "table2-price", "comparisons")
    assert {f"tables/{t}.{end}" for t in names for end in ("csv", "md")} <= set(files)
    names = ("figure1-left", "figure1-right", "figure2-5", "figure3")
    assert {f"figures/{f}.{end}" for f in names for end in ("png", "pdf")} <= set(files)
    assert len(done.figures) == 8
    assert all(
        files[n].startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[n[-3:]]) for n in files if n[-3:] in ("png", "pdf")
    )
    about = json.loads(files["about.json"])
    assert set(about["files"]) == set(files)
    assert about["synthetic"] is True
    rows = list(csv.DictReader(io.StringIO(files["tables/table2.csv"].decode())))
    assert float(rows[0]["computed"]) == found.cells[0.1, "baseline"].best.alpha.value
    assert found.mark in files["tables/table2.md"].decode()
    for path in (place, *place.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_the_page_is_one_file_that_fetches_nothing(done, found):
    page = done.page.read_text()
    for never in ("http://", "https://", "<script"):
        assert never not in page
    assert 'src="data:image/png;base64,' in page
    assert found.mark in page
    assert "synthetic" in page
    for d in (*found.theorems, *found.examples):
        assert f"<h3>{d.name}." in page
    assert page.count('class="agrees">agrees') == sum(c.agrees for c in found.comparisons)
    assert page.count('class="differs">differs') == sum(not c.agrees for c in found.comparisons)


def test_places_that_are_refused_before_anything_is_computed(tmp_path, monkeypatch):
    """What is there is never lost: with `force` alone, and only a folder that this command has made."""
    few(monkeypatch)
    monkeypatch.setattr(HERE, "compute", lambda *given, **more: pytest.fail("it was computed"))
    ours = tmp_path / "ours"
    ours.mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(ours)
    (tmp_path / "loose").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link", "loose"):
        with pytest.raises(fp.InputError, match="must be a folder or not exist"):
            reproduce(tmp_path / name, quick=True, force=True)
    (ours / "a").write_text("")
    lists = ("", "[]", "{}", '{"made_by": "somebody", "files": ["about.json", "a"]}', '{"made_by": "fairpost paper"}')
    for text in lists:
        (ours / "about.json").write_text(text)
        with pytest.raises(fp.InputError, match="got 'a' in the folder"):
            reproduce(ours, quick=True, force=True)
    (ours / "about.json").write_text(json.dumps({"made_by": "fairpost paper", "files": ["about.json", "a"]}))
    with pytest.raises(fp.InputError, match="must be empty, it has 2 files"):
        reproduce(ours, quick=True)
    (ours / "z").write_text("")
    with pytest.raises(fp.InputError, match="got 'z' in the folder"):
        reproduce(ours, quick=True, force=True)
    assert sorted(p.name for p in ours.iterdir()) == ["a", "about.json", "z"]


def test_a_folder_of_before_comes_back_where_the_new_one_cannot_be_whole(tmp_path, monkeypatch):
    """From inside, because each call would compute anew: a signal or a full disk between the two renames."""
    from fairpost.paper import folder

    place, about = tmp_path / "out", json.dumps({"made_by": "fairpost paper", "files": ["about.json", "a"]}).encode()
    for text in (b"1", b"2"):
        folder.write(place, {"a": text, "about.json": about}, force=True)
    move, moved_to = folder.os.replace, []

    def once(source, target):
        moved_to.append(target)
        if len(moved_to) == 2:  # the new one into its place
            raise KeyboardInterrupt
        move(source, target)

    def late(source, target):
        move(source, target)
        if target == place:  # the new one is in its place
            raise KeyboardInterrupt

    def full(source, target):
        raise OSError(28, "No space left on device")

    for fault, kind, left in (
        (once, KeyboardInterrupt, b"2"),
        (late, KeyboardInterrupt, b"4"),
        (full, fp.InputError, b"4"),
    ):
        monkeypatch.setattr(folder.os, "replace", fault)
        with pytest.raises(kind):
            folder.write(place, {"a": b"4", "about.json": about}, force=True)
        assert (place / "a").read_bytes() == left
        assert [p.name for p in tmp_path.iterdir()] == ["out"]
    with pytest.raises(fp.InputError, match="cannot be written"):
        folder.write(tmp_path / "new", {"a": b"1", "a/b": b"2"}, force=False)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_progress_runs_from_start_to_end_and_the_page_says_how_to_make_it_again(tmp_path, monkeypatch):
    """The command and the lines of Python on the page, run: the same data, runs and seed. A name of the user's is no markup."""
    monkeypatch.chdir(tmp_path)
    few(monkeypatch)
    rows = "".join(f"{k}\t{int(v)}\t2\n" for k, v in enumerate(synthetic_districts().values[::60]))
    (tmp_path / "my <script>data.old").write_text(
        "key\tpoor\tw\n" + rows
    )  # the name does not tell: the format must be said
    asked = {"column": "poor", "weights": "w", "quick": True, "seed": 7, "id": "key", "format": "tsv"}
    heard = []
    done = reproduce("out put", saipe="my <script>data.old", **asked, progress=lambda step, part: heard.append(part))
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    assert not done.findings.data.synthetic
    assert set(done.findings.data.counts.weights) == {2.0}
    assert "<script" not in done.page.read_text()
    shown = [unescape(text) for text in re.findall(r"<pre [^>]*>(.*?)</pre>", done.page.read_text(), re.S)]
    assert len(shown) == 2
    seen = []
    monkeypatch.setattr(
        HERE, "compute", lambda data, runs, **how: seen.append((data.label, runs, how)) or done.findings
    )
    assert call(*shlex.split(shown[0])[1:], "--force").returncode == 0
    exec(shown[1].replace("seed=7", "seed=7, force=True"), {})
    for label, runs, how in seen:
        assert (label, runs) == (done.findings.data.label, HERE.QUICK)
        assert (how["quick"], how["seed"], how["device"]) == (True, 7, "cpu")
    assert len(seen) == 2
