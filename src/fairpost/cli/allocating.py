"""`fairpost allocate`: shares of a budget from noisy counts alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import Outputs
from fairpost.errors import CountsError, ParameterError
from fairpost.estimate import ALLOCATIONS, ESTIMATED, Interval, PlugIn, plug_in, share_interval
from fairpost.estimate import allocate as shares_of
from fairpost.io import Noisy, read_noisy
from fairpost.io.rows import columns_csv
from fairpost.noise import Law
from fairpost.report.numbers import PERCENT, money

Floats = NDArray[np.float64]
TOP = 10
"""Rows on the screen."""


@dataclass(frozen=True, eq=False)
class Allocated:
    """Shares from noisy counts by several rules, the interval of the true shares, and estimates of the biases."""

    noisy: Noisy
    shares: dict[str, Floats]
    interval: Interval | None
    bias: dict[str, PlugIn]
    missing: dict[str, str]
    """Why an estimate is not there."""
    budget: float | None


@click.command()
@o.FILE
@o.COLUMNS
@o.NOISE
@click.option(
    "--postprocess",
    multiple=True,
    type=click.Choice(list(ALLOCATIONS)),
    help="Repeatable.  [default: all, pos-threshold only where the noise is given]",
)
@click.option("--budget", type=float, help="Money to share.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="How surely an interval covers.")
@click.option("--simultaneous", is_flag=True, help="Intervals that cover all entities together.")
@click.option("--replicates", type=int, default=10, show_default=True, help="Bootstrap draws for the error of a bias.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the bootstrap.")
@o.JSON
@o.CSV
@click.option("--currency", default="$", show_default=True, help="The sign of money.")
@o.FORCE
def allocate(file: str, **given: Any) -> int:
    """Shares of a budget from a FILE of noisy counts: all that an outside analyst has.

    With the noise (public: --epsilon or --scale ...) each entity also gets an interval for the share that the true
    counts would give it, and an estimate of the bias of each rule. Both are made from noisy counts only.

    \b
    Example: $6.5 billion by published noisy counts, which had Laplace noise at epsilon 0.1
      fairpost allocate noisy.csv --budget 6.5e9 --epsilon 0.1 --csv shares.csv
    """
    o.check_numbers(given)
    mechanism = o.maybe_noise(given)
    outputs = Outputs(given, [file], public=True)
    noisy = read_noisy(file, **o.columns(given))
    found = _allocate(noisy, mechanism, given)
    if not outputs.to_stdout:
        _show(found, given["currency"])
    outputs.write(json=lambda: _allocated_data(found, mechanism, given), csv=lambda: _allocated_csv(found))
    return 0


def _allocate(noisy: Noisy, mechanism: Law | None, given: o.Given) -> Allocated:
    rules = given["postprocess"] or tuple(k for k in ALLOCATIONS if k != "pos-threshold" or mechanism is not None)
    if "pos-threshold" in rules and mechanism is None:
        raise ParameterError("pos-threshold needs the noise: one of --epsilon, --scale, --sigma and --rho, got none")
    y, a = noisy.values, noisy.weights
    shares = {how: shares_of(y, a, how, mechanism) for how in rules}
    found = Allocated(noisy, shares, None, {}, {}, given["budget"])
    if mechanism is None:
        return found
    interval = share_interval(y, mechanism, a, confidence=given["confidence"], simultaneous=given["simultaneous"])
    bias, missing = {}, {}
    with screen.progress("estimating biases") as report:
        for k, how in enumerate(rules):
            try:
                bias[how] = plug_in(y, mechanism, a, how, replicates=given["replicates"], seed=given["seed"])
            except CountsError as reason:
                missing[how] = str(reason)
            report(k + 1, len(rules))
    return replace(found, interval=interval, bias=bias, missing=missing)


def _show(found: Allocated, currency: str) -> None:
    out, unit = screen.console(), screen.SHARES if found.budget is None else money(currency)
    factor = 1.0 if found.budget is None else found.budget
    heads = ["id", "noisy count", *found.shares]
    if found.interval is not None:
        heads.append(f"{100 * found.interval.confidence:g} % interval of the true value")
    rows = []
    first = next(iter(found.shares.values()))
    for i in np.argsort(-first, kind="stable")[:TOP]:
        cells = [found.noisy.ids[i], f"{found.noisy.values[i]:,.6g}"]
        cells += [unit.show(float(s[i]) * factor) for s in found.shares.values()]
        if found.interval is not None:
            sides = ((found.interval.low, -1), (found.interval.high, 1))
            cells.append(" to ".join(unit.show(float(e[i]) * factor, toward=side) for e, side in sides))
        rows.append(tuple(cells))
    title = f"The {min(TOP, len(found.noisy.ids))} largest of {len(found.noisy.ids):,}"
    screen.show(out, screen.Grid(title, tuple(heads), rows))
    for how, p in found.bias.items():
        worst, best = int(np.argmin(p.bias)), int(np.argmax(p.bias))
        ends = (
            f"{found.noisy.ids[i]} {unit.show(float(p.bias[i]) * factor, float(p.error[i]) * factor, signed=True)} "
            f"± {unit.show(float(p.error[i]) * factor, toward=1)}"
            for i in (best, worst)
        )
        screen.say(out, f"{how}: the largest and smallest bias, {ESTIMATED}: {', '.join(ends)}.")
    for how, reason in found.missing.items():
        screen.say(out, f"{how}: no estimate of the bias: {reason}.")
    if found.interval is None:
        screen.say(
            out,
            "No intervals and no estimates of bias: the noise was not given (--epsilon, --scale, --sigma or --rho).",
        )
    negative = int(np.count_nonzero(found.noisy.values < 0))
    part = PERCENT.show(negative / len(found.noisy.ids), 1e-5)
    screen.say(out, f"{negative:,} of {len(found.noisy.ids):,} noisy counts are negative ({part}).")


def _entity_columns(found: Allocated) -> dict[str, Any]:
    noisy, budget = found.noisy, found.budget
    columns: dict[str, Any] = {"id": list(noisy.ids), "noisy_count": noisy.values, "weight": noisy.weights}
    if noisy.groups is not None:
        columns["group"] = list(noisy.groups)
    if found.interval is not None:
        columns |= {"true_share_low": found.interval.low, "true_share_high": found.interval.high}
        if budget is not None:
            columns |= {"true_money_low": found.interval.low * budget, "true_money_high": found.interval.high * budget}
    for how, shares in found.shares.items():
        name = how.replace("-", "_")
        columns[f"{name}_share"] = shares
        if budget is not None:
            columns[f"{name}_money"] = shares * budget
        if how in found.bias:
            columns[f"{name}_estimated_bias"] = found.bias[how].bias
            columns[f"{name}_estimated_bias_error"] = found.bias[how].error
            columns[f"{name}_estimated_standard_deviation"] = found.bias[how].deviation
    return columns


def _allocated_csv(found: Allocated) -> str:
    return columns_csv(_entity_columns(found))


def _allocated_data(found: Allocated, mechanism: Law | None, given: o.Given) -> dict[str, Any]:
    columns = {k: (v.tolist() if isinstance(v, np.ndarray) else v) for k, v in _entity_columns(found).items()}
    interval = found.interval
    return {
        "counts": {"n": len(found.noisy.ids), "noisy_total": float(np.sum(found.noisy.values))},
        "mechanism": None if mechanism is None else o.neighbours_of(given).describe(mechanism),
        "budget": found.budget,
        "interval": None
        if interval is None
        else {"confidence": interval.confidence, "simultaneous": interval.simultaneous, "of": "the true share"},
        "bias": {
            "mark": ESTIMATED,
            "methods": {how: p.method for how, p in found.bias.items()},
            "replicates": given["replicates"],
            "missing": found.missing,
        },
        "entities": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    }
