"""Options that several commands share, and what they mean to the package."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fairpost import engines
from fairpost.budgets import Budget, GroupBudgets, among_groups
from fairpost.cli.notes import note
from fairpost.counts import Counts
from fairpost.engines import Engine
from fairpost.errors import ParameterError
from fairpost.fairness import checked_budget
from fairpost.hierarchy.rules import RULES
from fairpost.io.reading import DECIMALS, DELIMITERS, FORMATS
from fairpost.noise import MECHANISMS, Law, Neighbours, mechanism_of
from fairpost.partition import Partition
from fairpost.results.comparison import warnings_of
from fairpost.results.targets import LIMITS, Targets
from fairpost.rules import PAYING, POSTPROCESSINGS
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


LAW = together(
    click.option(
        "--programme",
        metavar="NAME|FILE.toml",
        help="A law, for as-written, levelled, signed and no-loss (see programmes).",
    ),
    click.option("--base", metavar="COL", help="Column of the population that rates are of."),
    click.option(
        "--base-noise",
        metavar="SPREAD|same",
        help="Noise on the base too: its scale (sigma), of the kind that the counts have, or same as on them.  [default: the base is public]",
    ),
)
FILE = click.argument("file", type=click.Path(path_type=str, allow_dash=True))

FORMAT = click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="What FILE is; saipe: the Census Bureau's text or Excel file as it comes.  [default: by its name]",
)
READING = together(
    FORMAT,
    click.option(
        "--delimiter",
        type=click.Choice(list(DELIMITERS)),
        help="What stands between the fields of a text FILE.  [default: found in its header]",
    ),
    click.option(
        "--decimal",
        type=click.Choice(DECIMALS),
        help="The mark before decimals.  [default: found in the numbers; refused where it is not clear]",
    ),
    click.option("--sheet", metavar="NAME|NUMBER", help="The sheet of a workbook.  [default: the first]"),
    click.option(
        "--header",
        type=int,
        metavar="ROW",
        help="The row of a workbook with the names of the columns.  [default: the one that has them]",
    ),
    click.option(
        "--where",
        multiple=True,
        metavar="EXPR",
        help='Rows to use: "COLUMN = VALUE", !=, <, <=, >, >=, or "COLUMN is [not] missing". Repeatable: all must hold.',
    ),
    click.option(
        "--drop-missing", is_flag=True, help="Skip rows that lack a count, an id or another entry, and name them."
    ),
)
ID = click.option("--id", "id", default=None, metavar="COL", help="Column of ids, kept as text.  [default: id]")
COUNT = click.option("--count", default=None, metavar="COL", help="Column of counts.  [default: count]")
WEIGHT = click.option(
    "--weight", metavar="COL", help="Column of weights (dollars per pupil, say).  [default: weight, if there]"
)
GROUP = click.option("--group", metavar="COL", help="Column of groups (states, say).  [default: group, if there]")
COLUMNS = together(ID, COUNT, WEIGHT, GROUP, READING)
LABEL = click.option("--label", metavar="COL", help="Column of names for people, shown with the ids.")
KEEP = click.option("--keep", metavar="COL", multiple=True, help="A column carried into CSV and JSON. Repeatable.")
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
    type=click.Choice([*POSTPROCESSINGS, *RULES, *PAYING]),
    metavar="NAME",
    help="Repeatable. Counts: none, nonnegative, sum, sum-clipped, simplex, simplex-threshold. "
    "Shares of a budget: baseline, pos, pos-threshold. "
    "With --levels: top-down, blue-down, joint, top-down-threshold, blue-down-threshold. "
    "With --programme: as-written, levelled, signed, no-loss.",
)
PROBLEM = together(
    LAW,
    click.option("--total", type=float, help="The public total that counts keep.  [default: the sum of the counts]"),
    click.option(
        "--budget",
        type=float,
        help="Money to share, for results in money; by group it is split in proportion to the groups' true shares.",
    ),
    click.option(
        "--group-budget",
        metavar="FILE|COL",
        help="Instead: the budget of each group, as a CSV of group,budget or a column of FILE.",
    ),
    click.option("--by-group", is_flag=True, help="Each group keeps its own total, or shares its own budget."),
)
LIMITS = together(
    click.option(
        "--max-alpha", type=float, help="Target: alpha at most this; in money with a budget, else in counts or shares."
    ),
    click.option("--max-loss", type=float, help="Target: no entity expects to lose more; in the same unit."),
    click.option(
        "--max-relative-loss",
        type=float,
        metavar="PERCENT",
        help="Target: no entity expects to lose more than so many percent of what it is due.",
    ),
    click.option("--max-cost", type=float, help="Target: cost of privacy at most this; in money, else a share."),
    click.option("--max-rmse", type=float, help="Target: root mean squared error per entity; in the unit of alpha."),
    click.option(
        "--max-relative-rmse",
        type=float,
        metavar="PERCENT",
        help="Target: the same in percent of the mean of what is due.",
    ),
)
ENGINE = together(
    click.option(
        "--method",
        type=click.Choice([*engines.NAMES, "mean-field"]),
        default="auto",
        show_default=True,
        help="auto: exact where there is an integral, else an expansion, conditional means or simulation, and says which. "
        "mean-field: with --levels.",
    ),
    click.option("--runs", type=int, help="Simulation: runs, with --rtol at most.  [default: 10000]"),
    click.option("--seed", type=int, help="Simulation, conditional: the same seed, the same bits.  [default: 0]"),
    click.option(
        "--confidence", type=float, help="Simulation, conditional: how surely intervals cover.  [default: 0.95]"
    ),
    click.option(
        "--rtol",
        type=float,
        help="Relative tolerance on alpha.  [default: 1e-6 exact; 1e-3 conditional; simulation: none]",
    ),
    click.option("--threads", type=int, help="Simulation: threads.  [default: one per core]"),
    click.option(
        "--device",
        type=click.Choice(["cpu", "gpu", "auto"]),
        help="Simulation: where runs are made. auto: on a GPU that covers them, else on the CPU, and says so.  [default: cpu]",
    ),
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
CSV_SAFE = click.option(
    "--csv-safe", is_flag=True, help="For spreadsheets: a ' before text in the CSV that begins like a formula."
)
CSV = together(
    click.option(
        "--csv", "csv_", type=click.Path(path_type=str), metavar="PATH|-", help="One row per entity; -: to stdout."
    ),
    CSV_SAFE,
)
HTML = click.option(
    "--html", type=click.Path(path_type=str), metavar="PATH|-", help="A report to read: one file; -: to stdout."
)
WORDS = together(
    click.option("--title", help="The headline of the report."),
    click.option("--unit", default="people", show_default=True, help="What is counted, for the report."),
    click.option("--currency", default="$", show_default=True, help="The sign of money."),
)
NOUN = click.option("--noun", default="entities", show_default=True, help="What has a count, for the report.")


def source_of(file: str) -> str:
    """What a page calls the data: the file's name."""
    return "standard input" if file == "-" else Path(file).name


def columns(given: Given) -> dict[str, Any]:
    """The keyword arguments of the readers."""
    named = {name: given.get(name) for name in ("id", "count", "weight", "group", "base")}
    return {k: v for k, v in named.items() if v is not None} | reading(given)


def reading(given: Given) -> dict[str, Any]:
    """How FILE is to be read; notes go to stderr."""
    names = ("format", "delimiter", "decimal", "sheet", "header", "where", "drop_missing")
    return {name: given[name] for name in names} | {"say": note}


def names(given: Given) -> dict[str, Any]:
    """The keyword arguments of the readers for what people call the entities, and for what is carried along."""
    return {"label": given.get("label"), "keep": given.get("keep") or ()}


def targets_of(given: Given) -> Targets:
    """The limits that were typed."""
    limits = {name: given[name] for name in LIMITS if given.get(name) is not None}
    for name, limit in limits.items():
        if not 0 < limit < float("inf"):
            raise ParameterError(f"--{name.replace('_', '-')} must be > 0 and finite, got {limit:g}")
    return Targets(**limits)


def counts_of(file: str, given: Given) -> tuple[Counts, Budget | None]:
    """The true counts of a file, and the money to share: one budget, or one per group."""
    from fairpost.io import read_counts
    from fairpost.io.tables import read_group_budgets

    if given["group_budget"] is None:
        counts, budget = read_counts(file, **columns(given), **names(given)), given["budget"]
    else:
        counts, budget = read_group_budgets(file, given["group_budget"], **columns(given), **names(given))
    warn(counts)
    return counts, budget


def warn(counts: Counts) -> None:
    """One line on stderr for each thing about the counts that is probably not meant."""
    from fairpost.cli.layout import remark

    for line in warnings_of(counts):
        remark(f"warning: {line}.")


def group_budgets(
    counts: Counts, budget: Budget | None, given: Given, law: dict[str, Any] | None = None
) -> GroupBudgets | None:
    """The part of the budget that each group has, where there are groups with one."""
    if budget is None or not given["by_group"] or counts.groups is None:
        return None
    due = law["programme"].on(counts, law.get("last")).truth(counts) if law else None
    return among_groups(budget, counts, Partition.of(counts.groups), due)


def neighbours_of(given: Given) -> Neighbours:
    """Sensitivity and delta."""
    return Neighbours(given["sensitivity"], given["delta"])


def noise_of(given: Given) -> Law:
    """The mechanism that the options describe."""
    return mechanism_of(
        given["mechanism"],
        epsilon=given["epsilon"],
        rho=given["rho"],
        scale=given["scale"],
        sigma=given["sigma"],
        neighbours=neighbours_of(given),
    )


def maybe_noise(given: Given) -> Law | None:
    """The mechanism, where the options describe one."""
    known = any(given[k] is not None for k in ("epsilon", "scale", "sigma", "rho"))
    return noise_of(given) if known else None


def engine_of(given: Given, progress: Callable[[int, int], None] | None = None) -> Engine:
    """The engine that the options describe; what was not typed stays at the engine's own default."""
    names = ("rtol", "runs", "seed", "confidence", "threads", "checkpoint", "cluster")
    settings = {name: given.get(name) for name in names}
    simulates = engines.MonteCarlo in engines.NAMES[given["method"]]
    if given.get("device") is not None and not simulates:
        raise ParameterError(f"--device is for simulation, got --method {given['method']}")
    settings["backend"] = given.get("device")
    return engines.engine_of(given["method"], **settings, progress=progress if simulates else None)


def check_numbers(given: Given) -> None:
    """Rules on numbers that the chosen post-processing may never look at."""
    if given.get("total") is not None:
        nonnegative_total(given["total"])
    if given.get("budget") is not None:
        checked_budget(given["budget"])
    if given.get("base") is not None and given.get("programme") is None:
        raise ParameterError("--base is for the rates of a programme, got no --programme")
    if given.get("base_noise") is not None and given.get("base") is None:
        raise ParameterError("--base-noise is for the population of --base, got no --base")
    if given.get("group_budget") is None:
        return
    if given["budget"] is not None:
        raise ParameterError("money is given by --budget or by --group-budget, got both")
    if not given["by_group"]:
        raise ParameterError("--group-budget is for shares by group, got no --by-group")


def command_line() -> str:
    """What was typed, for the provenance."""
    return shlex.join(["fairpost", *sys.argv[1:]]).encode(errors="backslashreplace").decode()
