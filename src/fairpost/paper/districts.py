"""Table 2: school districts; alpha and the cost of privacy of BL, PoS and the threshold mechanism, and its price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate
from fairpost.audit import audit, compare
from fairpost.counts import Counts
from fairpost.engines import Conditional, Exact, Expansion, FirstOf, MonteCarlo
from fairpost.errors import ToleranceError, UnsupportedError
from fairpost.noise import Laplace
from fairpost.paper.published import Computed, published
from fairpost.paper.table import Cell, Table, half_width
from fairpost.results.audit import Audit

EPSILONS = (0.1, 0.01, 0.001)
NAMES = {"baseline": "BL", "pos": "PoS", "pos-threshold": "PoS with threshold"}
BUDGET = 6.5e9
"""Title I basic grants, in dollars a year (section 5 of the paper)."""
RUNS = 200_000
"""As many as the paper made."""


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


def values(cells: Cells) -> dict[str, Computed]:
    """What Table 2 and the text of sections 5 and 7 say, from our results."""
    best = {key: cell.best for key, cell in cells.items()}
    out: dict[str, Computed] = {}
    for (epsilon, which), result in best.items():
        if which in ("baseline", "pos"):
            for key, e in (("alpha", result.alpha), ("cost", _cost(result))):
                out[f"table2.{epsilon:g}.{which}.{key}"] = Computed(e.value, half_width(e))
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
        "text.los_angeles": Computed(-float(at.bias[lost]) * BUDGET, float(at.half_width[lost]) * BUDGET),
        "text.los_angeles_from_table2": Computed(gap * BUDGET),
        "text.largest_loses": Computed(all(int(np.argmax(b.truth)) == int(np.argmin(b.bias)) for b, _ in pairs)),
    }
