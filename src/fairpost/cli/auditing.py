"""`fairpost audit`: the bias, alpha-fairness and cost of privacy of one or more post-processings."""

from __future__ import annotations

from typing import Any

import click

from fairpost.audit import compare
from fairpost.cli import hierarchies, screen
from fairpost.cli import options as o
from fairpost.cli.outputs import Outputs, now
from fairpost.counts import Counts
from fairpost.results.audit import CONFIDENTIAL, AuditResult


@click.command()
@o.FILE
@o.COLUMNS
@o.NOISE
@o.POSTPROCESS
@o.PROBLEM
@hierarchies.LEVELS
@hierarchies.AREAS
@o.ENGINE
@o.LONG
@o.JSON
@click.option("--entities", is_flag=True, help="Every entity in the JSON.")
@o.CSV
@o.HTML
@o.WORDS
@o.FORCE
def audit(file: str, **given: Any) -> int:
    """Who gains and who loses from post-processing, from a FILE of true counts.

    FILE is CSV, TSV, either gzipped, Parquet, or a SAIPE file. The result is computed from true counts and is
    confidential: publishing it spends privacy.

    \b
    Example: how a $6.5 billion programme shares out by school district at epsilon 0.01
      fairpost audit districts.csv --id leaid --count poor_5_17 --epsilon 0.01 \\
          --postprocess baseline --postprocess pos --budget 6.5e9 --html report.html
    """
    o.check_numbers(given)
    if given["levels"] is not None:
        return hierarchies.audit_levels(file, given)
    hierarchies.need_levels(given)
    mechanism = o.noise_of(given)
    outputs = Outputs(given, [file])
    with screen.progress("simulating") as report:
        engine = o.engine_of(given, report)
        counts = o.counts_of(file, given)
        results = compare(
            counts,
            mechanism,
            given["postprocess"] or default_choice(given["budget"]),
            engine=engine,
            total=given["total"],
            budget=given["budget"],
            by_group=given["by_group"],
        )
    if not outputs.to_stdout:
        show(results, given["currency"])
    write(outputs, counts, results, given)
    return 130 if any(r.sample is not None and r.sample.interrupted for r in results) else 0


def default_choice(budget: float | None) -> tuple[str, ...]:
    """The usual candidates: for counts, or for shares where there is a budget."""
    return ("nonnegative", "simplex", "simplex-threshold") if budget is None else ("baseline", "pos", "pos-threshold")


def show(results: tuple[AuditResult, ...], currency: str) -> None:
    """Tables and sentences on the screen."""
    out = screen.console()
    for task in dict.fromkeys(r.task for r in results):
        some = tuple(r for r in results if r.task == task)
        out.print(screen.comparison(some, currency))
        for r in some:
            for line in screen.sentences(r, currency):
                out.print(screen.plain(line))
    out.print(screen.EXPLANATION, style="dim")
    out.print(CONFIDENTIAL, style="bold")


def as_data(counts: Counts, results: tuple[AuditResult, ...], given: o.Given) -> dict[str, Any]:
    """The JSON of an audit."""
    return {
        "mark": CONFIDENTIAL,
        "counts": {"n": counts.n, "total": counts.total},
        "mechanism": o.neighbours_of(given).describe(results[0].mechanism),
        "budget": given["budget"],
        "results": [r.to_dict(entities=given["entities"]) for r in results],
    }


def write(outputs: Outputs, counts: Counts, results: tuple[AuditResult, ...], given: o.Given) -> None:
    """The files of an audit."""
    from fairpost.io import entities_csv
    from fairpost.report import audit_page

    outputs.write(
        json=lambda: as_data(counts, results, given),
        csv=lambda: entities_csv(results),
        html=lambda: audit_page(
            results,
            command=o.command_line(),
            made=now(),
            title=given["title"],
            unit=given["unit"],
            noun=given["noun"],
            currency=given["currency"],
            neighbours=o.neighbours_of(given),
        ),
    )
