"""`reproduce`: every table, figure, example and theorem of the paper, published value beside ours, into one folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fairpost.counts import Counts
from fairpost.datasets import synthetic_districts
from fairpost.paper import figures, folder, tables
from fairpost.paper.page import Recipe
from fairpost.paper.published import Comparison, compare_all
from fairpost.paper.tables import Cells, County, Runs, Table
from fairpost.paper.theorems import Demonstration, example_values, examples, theorems
from fairpost.results.base import CONFIDENTIAL

Progress = Callable[[str, float], None]
FULL = Runs(*tables.RUNS)
QUICK = Runs(tables.RUNS[0], 2_000)
STEPS = (("Hawaii", 0.1), ("school districts", 0.75), ("theorems", 0.1), ("figures and page", 0.05))
"""What is done in which order, and about which part of the time it takes."""


@dataclass(frozen=True)
class Data:
    """The school districts of Table 2, and what to call them."""

    counts: Counts
    label: str
    synthetic: bool


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that was computed; nothing here has touched a file."""

    data: Data
    runs: Runs
    seed: int
    quick: bool
    counties: tuple[County, ...]
    cells: Cells
    tables: tuple[Table, ...]
    comparisons: tuple[Comparison, ...]
    examples: tuple[Demonstration, ...]
    theorems: tuple[Demonstration, ...]
    mark: str = CONFIDENTIAL
    recipe: Recipe | None = None
    """How to make it again; none for counts that came from no file."""


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What `reproduce` found and where it wrote it."""

    findings: Findings
    page: Path
    """The HTML page."""
    figures: tuple[Path, ...]
    """PNG and PDF."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Table 1, Table 2 and the price."""
        return self.findings.tables

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every published value beside ours."""
        return self.findings.comparisons

    @property
    def surprises(self) -> tuple[Comparison, ...]:
        """Values whose agreement is not what is on record."""
        return tuple(c for c in self.comparisons if not c.as_recorded)


def _silent(step: str, done: float) -> None:
    """No progress is reported."""


def _within(report: Progress, step: str) -> Callable[[float], None]:
    """Progress inside one step, as a part of the whole."""
    names = [name for name, _ in STEPS]
    before = sum(part for _, part in STEPS[: names.index(step)])
    length = dict(STEPS)[step]
    return lambda done: report(step, min(before + length * done, 1.0))


def district_data(
    saipe: Path | Counts | None, column: str, weights: str, id: str = "leaid", format: str | None = None
) -> Data:
    """The districts: a file, counts, or the embedded synthetic set."""
    if saipe is None:
        counts = synthetic_districts()
        return Data(
            counts, f"SYNTHETIC, {counts.n:,} districts that follow the quantiles of SAIPE 2019; weights 1", True
        )
    if isinstance(saipe, Counts):
        return Data(saipe, f"{saipe.n:,} districts, {column}, weights {weights}", False)
    from fairpost.io import read_counts

    counts = read_counts(saipe, id=id, count=column, weight=None if weights == "1" else weights, format=format)
    if weights == "1":
        counts = Counts(counts.values, ids=counts.ids, groups=counts.groups)
    return Data(counts, f"{Path(saipe).name}, {counts.n:,} districts, column {column}, weights {weights}", False)


def compute(
    data: Data, runs: Runs, *, quick: bool, seed: int = 0, progress: Progress | None = None, device: str = "cpu"
) -> Findings:
    """Everything but the files."""
    report = _silent if progress is None else progress
    rows = tables.counties(runs.hawaii, seed, _within(report, "Hawaii"), device)
    cells = tables.allocations(data.counts, runs, seed, _within(report, "school districts"), device)
    numbered = examples(rows)
    computed = tables.values1(rows) | tables.values2(cells) | figures.triangle_values() | example_values(numbered)
    return Findings(
        data,
        runs,
        seed,
        quick,
        rows,
        cells,
        (tables.table1(rows), tables.table2(cells, data.label), tables.price(cells, data.label)),
        compare_all(computed),
        numbered,
        theorems(_within(report, "theorems")),
    )


def drawings(found: Findings) -> tuple[figures.Drawing, ...]:
    """All figures, from the results of the tables."""
    best = {key: cell.best for key, cell in found.cells.items()}
    label = found.data.label
    return (
        figures.figure1_left(figures.release_result()),
        figures.figure1_right(best[0.01, "baseline"], label),
        figures.figure2(),
        figures.figure3(best, label),
    )


def reproduce(
    target: Path | str,
    *,
    saipe: Path | Counts | None = None,
    column: str = "poor_5_17",
    weights: str = "1",
    quick: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    force: bool = False,
    id: str = "leaid",
    format: str | None = None,
    device: str = "cpu",
) -> Reproduction:
    """The paper, into the folder `target`, which is written whole or not at all.

    Parameters
    ----------
    target
        A folder that does not exist or is empty; with `force`, one that an earlier run has written.
    saipe
        A file of school districts, or counts; without it the embedded synthetic set, labelled so.
    column, weights, id, format
        For a file: the column of the counts, "1" or the column of the weights, the column of the ids, the file's format
        where its name does not tell (see `fairpost.io.read_counts`).
    quick
        Fewer simulated runs: seconds instead of minutes. Exact values are the same.
    seed
        Of the simulations.
    progress
        Called as progress(step, part of the whole that is done).
    force
        Whether to replace what an earlier run has written.
    device
        Where the simulations run: cpu, gpu or auto.

    """
    figures.require_matplotlib()
    place = folder.check(Path(target), force=force)
    data = district_data(saipe, column, weights, id, format)
    found = compute(data, QUICK if quick else FULL, quick=quick, seed=seed, progress=progress, device=device)
    if not isinstance(saipe, Counts):
        file = None if saipe is None else str(saipe)
        asked = {"column": column, "weights": weights, "quick": quick, "seed": seed, "id": id, "format": format}
        found = replace(found, recipe=Recipe.of(str(target), file, **asked, device=device))
    report = _silent if progress is None else progress
    report(STEPS[-1][0], 1 - STEPS[-1][1])
    drawn = drawings(found)
    folder.write(place, folder.contents(found, drawn), force=force)
    report(STEPS[-1][0], 1.0)
    paths = tuple(place / "figures" / f"{d.name}.{end}" for d in drawn for end in ("png", "pdf"))
    return Reproduction(found, place / "index.html", paths)
