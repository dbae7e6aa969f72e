"""Tables 1 and 2: Hawaii's five counties, and school districts; published, computed, simulated and by the plain mean."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate
from fairpost.audit import audit, compare
from fairpost.counts import Counts
from fairpost.datasets import hawaii
from fairpost.engines import Conditional, Exact, Expansion, FirstOf, MonteCarlo
from fairpost.errors import ToleranceError, UnsupportedError
from fairpost.noise import Gaussian, Laplace, Mechanism
from fairpost.paper.published import Computed, published
from fairpost.results.audit import Audit

Cell = str | int | float | Estimate | None
CLOSE = 1e-4
"""An interval narrower than this, relative to its value, is written as value ± error."""


@dataclass(frozen=True)
class Table:
    """Rows under columns; `estimates` names the columns whose cells carry an interval."""

    name: str
    """The name of its files."""
    title: str
    caption: str
    columns: tuple[str, ...]
    estimates: frozenset[str]
    rows: tuple[tuple[Cell, ...], ...]
    powers: frozenset[str] = frozenset()
    """Columns whose numbers are all written by powers of ten, whatever their size: one notation per column."""

    def column(self, name: str) -> tuple[Cell, ...]:
        """One column, top to bottom."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def csv(self) -> str:
        """Full precision; an estimate takes three columns: value, low, high."""
        out = io.StringIO()
        write = csv.writer(out, lineterminator="\n")
        write.writerow([f for c in self.columns for f in _fields(c, c in self.estimates)])
        for row in self.rows:
            write.writerow([v for c, cell in zip(self.columns, row, strict=True) for v in self._values(c, cell)])
        return out.getvalue()

    def _values(self, column: str, cell: Cell) -> list[object]:
        if column not in self.estimates:
            return ["" if cell is None else cell]
        if not isinstance(cell, Estimate):
            return ["" if cell is None else cell, "", ""]
        return [cell.value, cell.low, cell.high]

    def markdown(self) -> str:
        """For reading: rounded to what the interval allows."""
        head = f"# {self.title}\n\n{self.caption}\n\n"
        lines = ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in self.shown()]
        return head + "\n".join(lines) + "\n"

    def shown(self) -> tuple[tuple[str, ...], ...]:
        """Every cell as text."""
        by = [c in self.powers for c in self.columns]
        return tuple(tuple(show(cell, power) for cell, power in zip(row, by, strict=True)) for row in self.rows)


def _fields(column: str, estimate: bool) -> list[str]:
    return [column, f"{column} low", f"{column} high"] if estimate else [column]


def show(cell: Cell, power: bool = False) -> str:
    """A cell for reading; `power`: mantissa and power of ten."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell.replace("E", "e") if power else cell
    if isinstance(cell, Estimate):
        return _interval(cell, power)
    if power:
        return _power(cell, 3)
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.4g}"


def _power(value: float, places: int) -> str:
    return f"{value:.{places}e}" if value else "0"


def _interval(e: Estimate, power: bool) -> str:
    half = e.half_width
    if half <= CLOSE * abs(e.value):
        digits = 8 if half == 0 else int(np.clip(np.ceil(-np.log10(half / abs(e.value))), 4, 8))
        value = _power(e.value, digits - 1) if power else f"{e.value:.{digits}g}"
        return value + (f" ± {half:.0e}" if half > 0 else "")
    value, low, high = (_power(v, 3) if power else f"{v:.4g}" for v in (e.value, e.low, e.high))
    return f"{value} [{low}, {high}]"


# ------------------------------------------------------------------ Table 1

HAWAII_NOISE: tuple[Mechanism, ...] = (Laplace(scale=10.0), Gaussian(sigma=25.0))
RUNS = 1_000_000, 200_000
"""As many as the paper made, for Table 1 and for Table 2."""
QUANTITIES = ("alpha", "lower", "upper")
Z95 = 1.959963984540054
"""The standard normal's 97.5 % point: two-sided 95 %."""


@dataclass(frozen=True, eq=False)
class County:
    """One row of Table 1: pi_S+ by the exact engine and by simulation, (pi_S)_+ on the same noise."""

    exact: Audit
    simulated: Audit
    clipped: Audit
    """(pi_S)_+, simulated: the bounds of Theorem 1 are built from its biases."""

    @property
    def mechanism(self) -> Mechanism:
        """The noise of this row."""
        return self.exact.mechanism

    def exactly(self) -> dict[str, Estimate]:
        """Alpha and Theorem 1's bounds, in households, with error bounds."""
        bounds = self.exact.rule.bounds
        assert bounds is not None
        around = {"lower": bounds.lower, "upper": bounds.theorem}
        found = {q: Estimate(v, v - bounds.error, v + bounds.error) for q, v in around.items()}
        return {"alpha": self.exact.alpha, **found}

    def by_simulation(self) -> dict[str, Estimate]:
        """The same from the runs, with control variates.

        Upper = lower + sum_i E[(y_i)_-], and E[(y_i)_-] is the bias of (pi_S)_+ (at least 0): the ends of the
        interval add up the ends of its parts.
        """
        lower, sample = self.clipped.alpha, self.clipped.engine.sample
        assert sample is not None
        parts = [np.sum(np.maximum(sample.bias + s * sample.half_width, 0.0)) for s in (-1.0, 0.0, 1.0)]
        ends = (lower.low + parts[0], lower.value + parts[1], lower.high + parts[2])
        upper = Estimate(float(ends[1]), float(ends[0]), float(ends[2]))
        return {"alpha": self.simulated.alpha, "lower": lower, "upper": upper}

    def plainly(self) -> dict[str, Estimate]:
        """The same from plain means, as the paper made them: means of pi(X) - x, smallest less largest county.

        The error of such a difference is that of eta_1 - eta_n, sqrt(2/R) times the noise's standard deviation;
        clipping changes it in the fourth digit. The sum of all biases of (pi_S)_+ has no such error.
        """
        plain, clipped = self.simulated.engine.sample, self.clipped.engine.sample
        assert plain is not None
        assert clipped is not None
        ends = [int(np.argmin(self.exact.counts.values)), int(np.argmax(self.exact.counts.values))]
        half = plain_half_width(self.mechanism, plain.runs)
        alpha, lower = (float(s.plain[ends[0]] - s.plain[ends[1]]) for s in (plain, clipped))
        values = {"alpha": alpha, "lower": lower, "upper": lower + float(np.sum(clipped.plain))}
        return {q: Estimate(v, v - half, v + half) for q, v in values.items()}


def plain_half_width(mechanism: Mechanism, runs: int) -> float:
    """Half of the 95 % interval of a plain mean of eta_1 - eta_n."""
    return float(Z95 * mechanism.deviation * np.sqrt(2 / runs))


def counties(runs: int, seed: int, tick: Callable[[float], None], device: str = "cpu") -> tuple[County, ...]:
    """Both rows of Table 1."""
    found = []
    for k, mechanism in enumerate(HAWAII_NOISE):

        def report(done: int, most: int, k: int = k) -> None:
            tick((k + done / most) / 2)

        engine = MonteCarlo(runs=runs, seed=seed, progress=report, backend=device)
        exact = audit(hawaii(), mechanism, "simplex", engine="exact")
        simulated, clipped = compare(hawaii(), mechanism, ["simplex", "sum-clipped"], engine=engine)
        found.append(County(exact, simulated, clipped))
    return tuple(found)


def table1(rows: tuple[County, ...]) -> Table:
    """Table 1 with our columns."""
    runs = rows[0].simulated.engine.runs
    caption = (
        "Households; pi_S+ on 5 counties. The counts are a stand-in (ACS 2013-2017, total 455,502): no release found has the paper's "
        f"total 453,558. Exact: quadrature with its error bound. Simulated: {runs:,} runs with control variates, 95 % interval. "
        f"Plain: the same {runs:,} runs without control variates, as in the paper, 95 % interval."
    )
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        exact, simulated, plain = row.exactly(), row.by_simulation(), row.plainly()
        name = row.mechanism.name
        for q in QUANTITIES:
            printed = published()[f"table1.{name}.{q}"].printed
            cells.append((_label(row.mechanism), q, printed, exact[q], simulated[q], plain[q]))
    return Table(
        "table1",
        "Table 1. Case study of Hawaii",
        caption,
        ("noise", "quantity", "published", "exact", "simulated", "plain"),
        frozenset({"exact", "simulated", "plain"}),
        tuple(cells),
    )


def _label(mechanism: Mechanism) -> str:
    return f"{mechanism.name.capitalize()}, {mechanism.parameter} {mechanism.spread:g}"


def values1(rows: tuple[County, ...]) -> dict[str, Computed]:
    """What Table 1 and Example 3 print, from our exact results."""
    counts = rows[0].exact.counts
    out = {"hawaii.n": Computed(counts.n), "hawaii.total": Computed(counts.total)}
    ordered = []
    for row in rows:
        e, name = row.exactly(), row.mechanism.name
        out |= {f"table1.{name}.{q}": Computed(e[q].value, e[q].half_width) for q in QUANTITIES}
        for q in ("alpha", "upper"):
            ratio = e[q].value / e["lower"].value
            error = ratio * (e[q].half_width / e[q].value + e["lower"].half_width / e["lower"].value)
            out[f"table1.{name}.{q}_over_lower"] = Computed(ratio, error)
        ordered.append(e["lower"].low <= e["alpha"].high and e["alpha"].low <= e["upper"].high)
    return out | {"table1.ordered": Computed(all(ordered))}


# ------------------------------------------------------------------ Table 2

EPSILONS = (0.1, 0.01, 0.001)
NAMES = {"baseline": "BL", "pos": "PoS", "pos-threshold": "PoS with threshold"}
BUDGET = 6.5e9
"""Title I basic grants, in dollars a year (section 5 of the paper)."""


@dataclass(frozen=True)
class Runs:
    """How many runs each kind of simulation makes."""

    hawaii: int
    shares: int


@dataclass(frozen=True, eq=False)
class Allocation:
    """One cell of Table 2: a mechanism at a budget."""

    epsilon: float
    computed: Audit | None
    """By quadrature, or by expansion for the threshold mechanism; None where both engines refuse these counts."""
    refusal: str | None
    simulated: Audit

    @property
    def which(self) -> str:
        """The post-processing's name."""
        return self.simulated.postprocess

    @property
    def best(self) -> Audit:
        """The computed result, or the simulated one where there is none: what figures and comparisons use."""
        return self.simulated if self.computed is None else self.computed


Cells = dict[tuple[float, str], Allocation]


def allocations(counts: Counts, runs: Runs, seed: int, tick: Callable[[float], None], device: str = "cpu") -> Cells:
    """Every cell of Table 2."""
    found: Cells = {}
    for k, epsilon in enumerate(EPSILONS):
        mechanism = Laplace.from_epsilon(epsilon)

        def report(done: int, most: int, k: int = k) -> None:
            tick((k + done / most) / len(EPSILONS))

        engine = MonteCarlo(runs=runs.shares, seed=seed, progress=report, backend=device)
        simulated = compare(counts, mechanism, list(NAMES), engine=engine, budget=BUDGET)
        for result in simulated:
            computed, refusal = _computed(counts, mechanism, result.postprocess)
            found[epsilon, result.postprocess] = Allocation(epsilon, computed, refusal, result)
    return found


def _computed(counts: Counts, mechanism: Laplace, which: str) -> tuple[Audit | None, str | None]:
    try:
        return audit(
            counts, mechanism, which, engine=FirstOf((Exact(), Expansion(), Conditional())), budget=BUDGET
        ), None
    except (UnsupportedError, ToleranceError) as refusal:
        return None, str(refusal)


def _cost(result: Audit) -> Estimate:
    assert result.cost_of_privacy is not None
    return result.cost_of_privacy.share


def _plain(result: Audit) -> dict[str, Estimate]:
    """From plain means: the biases lie within z times their standard errors together (Bonferroni, 95 %)."""
    from scipy.special import ndtri

    assert result.engine.sample is not None
    mean = result.engine.sample.plain
    known = Accuracy("interval", result.engine.sample.plain_error * -float(ndtri(0.025 / result.counts.n)))
    return {"alpha": fairness.alpha_interval(mean, known), "cost of privacy": fairness.cost_interval(mean, known)}


def table2(cells: Cells, data: str) -> Table:
    """Table 2 with our columns; shares of the budget."""
    caption = (
        f"Shares of the budget. Data: {data}; Laplace noise of scale 1/epsilon. Computed: by quadrature with its error bound (for the "
        "threshold mechanism by an expansion in 1/n, which states its error). Simulated: control variates, 95 % interval over all "
        "districts together. Plain: the same runs without control variates, as in the paper. A maximum over thousands of noisy biases "
        "is biased upwards: a plain alpha tends to lie above the computed one where the noise is not small beside it (PoS)."
    )
    rows: list[tuple[Cell, ...]] = []
    for (epsilon, which), cell in cells.items():
        computed, plain = cell.computed, _plain(cell.simulated)
        for name, key, of in (("alpha", "alpha", _alpha), ("cost of privacy", "cost", _cost)):
            record = published().get(f"table2.{epsilon:g}.{which}.{key}")
            rows.append(
                (
                    f"{epsilon:g}",
                    NAMES[which],
                    name,
                    None if record is None else record.printed,
                    None if computed is None else of(computed),
                    of(cell.simulated),
                    cell.simulated.engine.runs,
                    plain[name],
                )
            )
    return Table(
        "table2",
        "Table 2. Two fairness metrics of the allocation, by privacy budget",
        caption,
        ("epsilon", "mechanism", "quantity", "published", "computed", "simulated", "runs", "plain"),
        frozenset({"computed", "simulated", "plain"}),
        tuple(rows),
        powers=frozenset({"published", "computed", "simulated", "plain"}),
    )


def _alpha(result: Audit) -> Estimate:
    return result.alpha


def price(cells: Cells, data: str) -> Table:
    """What fairness costs: error, spread, and who receives nothing."""
    caption = (
        f"Data: {data}. alpha and cost as in Table 2, where their errors are. RMSE: the root of the summed mean squared errors of "
        "all shares. At the smallest count: the standard deviation of "
        "the share, and the chance of receiving nothing (simulated with a 95 % interval). Receiving 0: the expected number of districts. "
        "The computed columns are by quadrature for BL and PoS and of leading order in 1/n for the threshold mechanism; the simulated ones "
        "beside them are the check."
    )
    columns = (
        "epsilon", "mechanism", "alpha", "cost of privacy", "RMSE", "RMSE simulated", "sd at smallest", "sd simulated",
        "P(0) at smallest", "P(0) simulated", "receiving 0",
    )  # fmt: skip
    rows = tuple(_price(cell) for cell in cells.values())
    estimates = frozenset({"P(0) simulated"})
    powers = frozenset(columns[2:8])
    return Table("table2-price", "Table 2, the price beside the gain", caption, columns, estimates, rows, powers)


def _price(cell: Allocation) -> tuple[Cell, ...]:
    best, sim = cell.best, cell.simulated
    small: NDArray[np.bool_] = best.truth == best.truth.min()
    p, runs = float(sim.moments.zero[small].mean()), sim.engine.runs or 1
    half = 1.96 * np.sqrt(max(p * (1 - p), 1 / runs) / runs)
    return (
        f"{cell.epsilon:g}",
        NAMES[cell.which],
        best.alpha.value,
        _cost(best).value,
        float(np.sqrt(np.sum(best.moments.mse))),
        float(np.sqrt(np.sum(sim.moments.mse))),
        float(best.moments.deviation[small].mean()),
        float(sim.moments.deviation[small].mean()),
        float(best.moments.zero[small].mean()),
        Estimate(p, max(p - half, 0.0), min(p + half, 1.0)),
        float(np.sum(best.moments.zero)),
    )


def values2(cells: Cells) -> dict[str, Computed]:
    """What Table 2 and the text of sections 5 and 7 say, from our results."""
    best = {key: cell.best for key, cell in cells.items()}
    out: dict[str, Computed] = {}
    for (epsilon, which), result in best.items():
        if which in ("baseline", "pos"):
            for key, e in (("alpha", result.alpha), ("cost", _cost(result))):
                out[f"table2.{epsilon:g}.{which}.{key}"] = Computed(e.value, e.half_width)
    return out | _statements(best)


def _statements(best: dict[tuple[float, str], Audit]) -> dict[str, Computed]:
    pairs = [(best[e, "baseline"], best[e, "pos"]) for e in EPSILONS]
    at = best[0.01, "baseline"]
    lost = int(np.argmin(at.bias))
    table = published()
    gap = float(table["table2.0.01.baseline.alpha"].value) - float(table["table2.0.01.pos.alpha"].value)  # type: ignore[arg-type]
    return {
        "table2.pos_fairer": Computed(all(p.alpha.high < b.alpha.low for b, p in pairs)),
        "table2.pos_cheaper": Computed(all(_cost(p).high < _cost(b).low for b, p in pairs)),
        "table2.order_of_magnitude": Computed(max(b.alpha.low / p.alpha.high for b, p in pairs) >= 10),
        "text.districts": Computed(at.counts.n > 16_000),
        "text.los_angeles": Computed(-float(at.bias[lost]) * BUDGET, float(at.accuracy.half_width[lost]) * BUDGET),
        "text.los_angeles_from_table2": Computed(gap * BUDGET),
        "text.largest_loses": Computed(all(int(np.argmax(b.truth)) == int(np.argmin(b.bias)) for b, _ in pairs)),
    }
