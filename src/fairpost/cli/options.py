"""Options that several commands share, and what they mean to the package."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairpost.audit import ENGINES, Auto
from fairpost.audit import engine_of as audit_engine_of
from fairpost.counts import Counts
from fairpost.engines.exact.engine import Exact
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.fairness import checked_budget
from fairpost.hierarchy.rules import RULES
from fairpost.noise import MECHANISMS, Mechanism, Neighbours, mechanism_of
from fairpost.rules import POSTPROCESSINGS
from fairpost.rules.base import nonnegative_total

F = TypeVar("F", bound=Callable[..., Any])
Given = dict[str, Any]


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order of the help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


FILE = click.argument("file", type=click.Path(path_type=str))

COLUMNS = together(
    click.option("--id", "id", default=None, metavar="COL", help="Column of ids, kept as text.  [default: id]"),
    click.option("--count", default=None, metavar="COL", help="Column of counts.  [default: count]"),
    click.option(
        "--weight", metavar="COL", help="Column of weights (dollars a pupil, say).  [default: weight, if there]"
    ),
    click.option("--group", metavar="COL", help="Column of groups (states, say).  [default: group, if there]"),
    click.option(
        "--format",
        type=click.Choice(["csv", "tsv", "parquet", "saipe"]),
        help="What FILE is; saipe: the Census Bureau's text or Excel file as it comes.  [default: by its name]",
    ),
)
MECHANISM = click.option(
    "--mechanism", type=click.Choice(list(MECHANISMS)), default="laplace", show_default=True, help="The noise."
)
PROMISE = together(
    click.option("--delta", type=float, help="For epsilon of the Gaussian pair."),
    click.option(
        "--sensitivity",
        type=float,
        default=1.0,
        show_default=True,
        help="How much one person changes the counts: L1 for the Laplace pair, L2 for the Gaussian pair.",
    ),
)
NOISE = together(
    MECHANISM,
    click.option("--epsilon", type=float, help="The privacy loss; smaller is more private."),
    PROMISE,
    click.option("--scale", type=float, help="Instead of epsilon: b of the Laplace pair, in counts."),
    click.option("--sigma", type=float, help="Instead of epsilon: the Gaussian pair's parameter, in counts."),
    click.option("--rho", type=float, help="Instead of epsilon: zero-concentrated privacy loss."),
)
POSTPROCESS = click.option(
    "--postprocess",
    multiple=True,
    type=click.Choice([*POSTPROCESSINGS, *RULES]),
    help="Repeatable. Counts: none, nonnegative, sum, sum-clipped, simplex, simplex-threshold. "
    "Shares of a budget: baseline, pos, pos-threshold. "
    "With --levels: top-down, blue-down, joint, top-down-threshold, blue-down-threshold.",
)
PROBLEM = together(
    click.option("--total", type=float, help="The public total that counts keep.  [default: the sum of the counts]"),
    click.option("--budget", type=float, help="Money to share, for results in money."),
    click.option("--by-group", is_flag=True, help="Each group keeps its own total, or shares its own budget."),
)
ENGINE = together(
    click.option(
        "--method",
        type=click.Choice([*ENGINES, "mean-field"]),
        default="auto",
        show_default=True,
        help="auto: exact where there is an integral, else simulation, and says which. mean-field: with --levels.",
    ),
    click.option("--runs", type=int, default=10_000, show_default=True, help="Simulation: runs, with --rtol at most."),
    click.option("--seed", type=int, default=0, show_default=True, help="Simulation: the same seed, the same bits."),
    click.option("--confidence", type=float, default=0.95, show_default=True, help="How surely intervals cover."),
    click.option("--rtol", type=float, help="Relative tolerance on alpha.  [default: 1e-6 exact; simulation: none]"),
    click.option("--threads", type=int, help="Simulation: threads.  [default: one a core]"),
)
LONG = together(
    click.option(
        "--checkpoint",
        type=click.Path(path_type=str),
        help="Simulation: a file for the state; the same command goes on from it, to the same bits.",
    ),
    click.option("--cluster", metavar="ADDRESS", help="Simulation: a Dask scheduler, such as tcp://host:8786."),
)
FORCE = click.option("--force", is_flag=True, help="Overwrite outputs that exist.")
JSON = click.option(
    "--json", "json_", type=click.Path(path_type=str), metavar="PATH|-", help="Results as JSON; -: to stdout."
)
CSV = click.option("--csv", "csv_", type=click.Path(path_type=str), metavar="PATH", help="One row an entity.")
HTML = click.option(
    "--html", type=click.Path(path_type=str), metavar="PATH", help="A report to read and to send: one file."
)
WORDS = together(
    click.option("--title", help="The headline of the report."),
    click.option("--unit", default="people", show_default=True, help="What is counted, for the report."),
    click.option("--noun", default="entities", show_default=True, help="What has a count, for the report."),
    click.option("--currency", default="$", show_default=True, help="The sign of money."),
)


def columns(given: Given) -> dict[str, Any]:
    """The keyword arguments of the readers."""
    named = {"id": given["id"], "count": given["count"], "weight": given["weight"], "group": given["group"]}
    return {k: v for k, v in named.items() if v is not None} | {"format": given["format"]}


def counts_of(file: str, given: Given) -> Counts:
    """The true counts of a file."""
    from fairpost.io import read_counts

    return read_counts(file, **columns(given))


def neighbours_of(given: Given) -> Neighbours:
    """Sensitivity and delta."""
    return Neighbours(given["sensitivity"], given["delta"])


def noise_of(given: Given) -> Mechanism:
    """The mechanism that the options describe."""
    return mechanism_of(
        given["mechanism"],
        epsilon=given["epsilon"],
        rho=given["rho"],
        scale=given["scale"],
        sigma=given["sigma"],
        neighbours=neighbours_of(given),
    )


def maybe_noise(given: Given) -> Mechanism | None:
    """The mechanism, where the options describe one."""
    known = any(given[k] is not None for k in ("epsilon", "scale", "sigma", "rho"))
    return noise_of(given) if known else None


def engine_of(given: Given, progress: Callable[[int, int], None] | None = None) -> Exact | MonteCarlo | Auto:
    """The engine that the options describe."""
    rtol = given["rtol"]
    simulation = MonteCarlo(
        runs=given["runs"],
        seed=given["seed"],
        rtol=rtol,
        confidence=given["confidence"],
        threads=given["threads"],
        checkpoint=given.get("checkpoint"),
        cluster=given.get("cluster"),
        progress=progress,
    )
    return audit_engine_of(given["method"], rtol, lambda: simulation)


def check_numbers(given: Given) -> None:
    """Rules on numbers that the chosen post-processing may never look at."""
    if given.get("total") is not None:
        nonnegative_total(given["total"])
    if given.get("budget") is not None:
        checked_budget(given["budget"])


def command_line() -> str:
    """What was typed, for the provenance."""
    return shlex.join(["fairpost", *sys.argv[1:]])
