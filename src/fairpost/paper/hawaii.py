"""Table 1: Hawaii's five counties, projected onto their total; exact, simulated, and by the plain mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairpost.accuracy import Estimate
from fairpost.audit import audit, compare
from fairpost.datasets import hawaii
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.noise import Gaussian, Laplace, Mechanism
from fairpost.paper.published import Computed, published
from fairpost.paper.table import Cell, Table, half_width
from fairpost.results.audit import Audit

MECHANISMS: tuple[Mechanism, ...] = (Laplace(scale=10.0), Gaussian(sigma=25.0))
RUNS = 1_000_000
"""As many as the paper made."""
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
        bounds = self.exact.bounds
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
    for k, mechanism in enumerate(MECHANISMS):

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


def values(rows: tuple[County, ...]) -> dict[str, Computed]:
    """What Table 1 and Example 3 print, from our exact results."""
    counts = rows[0].exact.counts
    out = {"hawaii.n": Computed(counts.n), "hawaii.total": Computed(counts.total)}
    ordered = []
    for row in rows:
        e, name = row.exactly(), row.mechanism.name
        out |= {f"table1.{name}.{q}": Computed(e[q].value, half_width(e[q])) for q in QUANTITIES}
        for q in ("alpha", "upper"):
            ratio = e[q].value / e["lower"].value
            error = ratio * (half_width(e[q]) / e[q].value + half_width(e["lower"]) / e["lower"].value)
            out[f"table1.{name}.{q}_over_lower"] = Computed(ratio, error)
        ordered.append(e["lower"].low <= e["alpha"].high and e["alpha"].low <= e["upper"].high)
    return out | {"table1.ordered": Computed(all(ordered))}
