"""`fairpost audit`: the bias, alpha-fairness and cost of privacy of one or more post-processings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from fairpost.audit import compare, method_for
from fairpost.budgets import Budget
from fairpost.cli import hierarchies, screen, tree_words
from fairpost.cli import options as o
from fairpost.cli.laws import law_of
from fairpost.cli.notes import note
from fairpost.cli.outputs import Outputs, now
from fairpost.cli.recipes import audit_lines
from fairpost.engines.choose import Choice
from fairpost.errors import ParameterError
from fairpost.io.rows import columns_csv
from fairpost.noise import Law
from fairpost.plan import frontier
from fairpost.problems import Programme
from fairpost.report.shapes import Shapes
from fairpost.results import CONFIDENTIAL, Audit, Comparison, Frontier
from fairpost.results.targets import LIMITS


@click.command()
@o.FILE
@o.COLUMNS
@o.LABEL
@o.KEEP
@o.NOISE
@click.option(
    "--statement",
    type=click.Path(path_type=str),
    metavar="FILE",
    help="A finished release: its mechanism, rule and total, without retyping them.",
)
@o.POSTPROCESS
@o.PROBLEM
@o.LIMITS
@hierarchies.LEVELS
@hierarchies.AREAS
@o.ENGINE
@o.LONG
@o.JSON
@click.option("--entities", is_flag=True, help="Every entity in the JSON.")
@o.CSV
@click.option(
    "--csv-groups",
    "csv_groups",
    type=click.Path(path_type=str),
    metavar="PATH|-",
    help="One row per group; -: to stdout.",
)
@click.option(
    "--frontier", is_flag=True, help="Alpha against RMSE as the threshold grows to its best: screen, JSON, report."
)
@o.HTML
@click.option(
    "--explain", is_flag=True, help="Which method answers each post-processing, and why those before it do not."
)
@click.option(
    "--map",
    "map_",
    type=click.Path(path_type=str),
    metavar="FILE.geojson",
    help="Areas of the entities: the report gets a map of the bias, drawn from this file alone.",
)
@click.option(
    "--map-key",
    metavar="PROPERTY",
    help="The property of an area that has the id.  [default: the area's own id, then id, GEOID, leaid]",
)
@o.WORDS
@o.NOUN
@o.FORCE
def audit(file: str, **given: Any) -> int:
    """Who gains and who loses from post-processing, from a FILE of true counts.

    FILE is CSV, TSV or other text with separators (any of them gzipped), an Excel workbook, Parquet, or a SAIPE file. The
    result is computed from true counts and is confidential: publishing it spends privacy. With targets (--max-loss, ...)
    every post-processing gets a verdict: it passes, fails, or is unsure where the error of its numbers leaves that open. The
    exit code does not depend on it.

    \b
    Example: how $6.5 billion are shared out by school district at epsilon 0.01
      fairpost audit districts.csv --id leaid --count poor_5_17 \\
          --epsilon 0.01 --postprocess baseline --postprocess pos \\
          --budget 6.5e9 --html report.html
    """
    given = with_statement(given)
    o.check_numbers(given)
    if given["levels"] is not None:
        _no_levels(given)
        from fairpost.cli.tree_audit import audit_levels

        return audit_levels(file, given)
    hierarchies.need_levels(given)
    targets = o.targets_of(given)
    mechanism = o.noise_of(given)
    outputs = Outputs(given, [file, *([] if given["map_"] is None else [given["map_"]])])
    shapes = _shapes(given)
    with screen.progress("reading") as report:
        engine = o.engine_of(given, lambda done, most: report(done, most, "simulating"))
        counts, budget = o.counts_of(file, given)
        law = law_of(file, given, budget)
        rules = given["postprocess"] or default_choice(budget, law)
        areas = None if shapes is None else shapes.of(counts)
        report(0, None, "simulating" if given["method"] == "monte-carlo" else "integrating")
        results = compare(
            counts,
            mechanism,
            rules,
            engine=engine,
            total=given["total"],
            budget=budget,
            by_group=given["by_group"],
            targets=targets,
            **law,
        )
        if given["frontier"]:
            report(0, None, "fairness against accuracy")
            results = replace(results, frontier=_frontier(results, given, budget))
    lines = audit_lines(file, given, mechanism, rules, law)
    asked = {"engine": engine, "budget": budget, "total": given["total"], "by_group": given["by_group"], **law}
    chosen = method_for(counts, mechanism, rules, **asked) if given["explain"] else ()
    write(outputs, results, given, chosen, source=o.source_of(file), lines=lines, shapes=areas)
    return 130 if any(r.interrupted for r in results) else 0


def _shapes(given: o.Given) -> Shapes | None:
    """The areas of --map, which is for the report alone."""
    if given["map_"] is None:
        if given["map_key"] is not None:
            raise ParameterError("--map-key is for --map, got no --map")
        return None
    if given["html"] is None:
        raise ParameterError("--map is for the report, got no --html")
    return Shapes.read(given["map_"], given["map_key"])


def _no_levels(given: o.Given) -> None:
    """What an audit of a hierarchy does not look at is refused, not left aside."""
    names = ("label", "keep", "frontier", "csv_groups", "map_", "map_key", *LIMITS)
    typed = [name for name in names if given[name]]
    if typed:
        raise ParameterError(f"--{typed[0].rstrip('_').replace('_', '-')} is for audits without --levels, got both")


def _frontier(results: Comparison, given: o.Given, budget: Budget | None) -> Frontier:
    """Of the task of the results, beside them."""
    if isinstance(results.first.problem, Programme) or not isinstance(results.first.mechanism, Law):
        raise ParameterError("--frontier is for shares in proportion and for counts, got a programme")
    task = results.first.task
    mine = [r for r in results if r.unit == results.first.unit]
    rule = "pos-threshold" if task == "allocation" else "simplex-threshold"
    return frontier(
        results.first.counts,
        results.first.mechanism,
        rule,
        beside=mine,
        total=given["total"],
        budget=budget if task == "allocation" else None,
        by_group=given["by_group"],
    )


def with_statement(given: o.Given) -> o.Given:
    """The options with the mechanism, the rule and the total of a finished release, where a statement is given."""
    if given["statement"] is None:
        return given
    from fairpost.release.reading import stated

    typed = [name for name in ("epsilon", "scale", "sigma", "rho") if given[name] is not None]
    if typed:
        raise ParameterError(f"the noise is given by --statement or by --{typed[0]}, got both")
    found = stated(given["statement"])
    if found.note:
        note(found.note)
    total = found.total if given["total"] is None else given["total"]
    if found.levels is not None:
        return tree_words.with_statement(given, found)
    return given | {
        "mechanism": found.mechanism,
        found.parameter: found.scale,
        "sensitivity": found.sensitivity,
        "delta": found.delta,
        "postprocess": given["postprocess"] or (found.postprocess,),
        "by_group": given["by_group"] or found.by_group,
        "total": total,
    }


def default_choice(budget: Budget | None, law: o.Given | None = None) -> tuple[str, ...]:
    """The usual candidates: for counts, for shares where there is a budget, or the law as it is written."""
    if law:
        return ("as-written",)
    return ("nonnegative", "simplex", "simplex-threshold") if budget is None else ("baseline", "pos", "pos-threshold")


def show(results: Comparison, currency: str, chosen: Sequence[Choice] = ()) -> None:
    """Tables and sentences on the screen; `chosen`: who was to answer what."""
    out = screen.console()
    for r in results:
        for line in screen.verdict_lines(r, currency):
            screen.say(out, line)
    for unit in dict.fromkeys(r.unit for r in results):
        some = tuple(r for r in results if r.unit == unit)
        screen.show(out, screen.comparison(some, currency))
        for r in some:
            for line in screen.sentences(r, currency):
                screen.say(out, line)
            for line in (*_seats(r), *_minimum(r)):
                screen.say(out, line)
        for grid in (screen.groups(r, currency) for r in some):
            if grid is not None:
                screen.show(out, grid)
        divided = next((r for r in some if r.budgets is not None), None)
        if divided is not None and divided.budgets is not None and divided.budget is not None:
            screen.say(out, screen.whose(divided.budgets, divided.budget, currency))
    if results.frontier is not None:
        screen.show(out, screen.path(results.frontier, currency))
        if results.frontier.refused:
            many = len(results.frontier.refused)
            screen.say(out, f"{many:,} thresholds have no point: {results.frontier.refused[0]}")
    for choice in chosen:
        screen.say(out, str(choice))
    screen.say(out, screen.explanation(all(r.money is not None for r in results)), style="dim")
    screen.say(out, CONFIDENTIAL, style="bold")


def _seats(r: Audit) -> list[str]:
    """Of an apportionment: whose seats are most likely to change."""
    if not isinstance(r.problem, Programme) or r.problem.seats is None:
        return []
    from fairpost.engines.montecarlo.seats import seat_changes
    from fairpost.report.numbers import PERCENT

    found = seat_changes(r.counts, r.mechanism, r.problem.seats, runs=r.runs or 20_000, seed=r.seed or 0)
    worst = sorted(range(r.counts.n), key=lambda i: -found.changed[i])[:3]
    named = ", ".join(
        f"{r.counts.name(i)} {PERCENT.show(float(found.changed[i]))}" for i in worst if found.changed[i] > 0
    )
    most = f"; most of all those of {named}" if named else ""
    return [f"  With chance {PERCENT.show(found.any)} some seat changes hands ({found.runs:,} runs){most}."]


def _minimum(r: Audit) -> list[str]:
    """Of a law with a minimum for groups: how many are at it, and whether noise changes which."""
    if not isinstance(r.problem, Programme) or r.problem.minimum is None or r.problem.base_noise is not None:
        return []
    from fairpost.engines.montecarlo.floors import minimum_changes
    from fairpost.report.numbers import PERCENT

    found = minimum_changes(r.counts, r.mechanism, r.problem, runs=min(r.runs or 1000, 1000), seed=r.seed or 0)
    worst = int(found.changed.argmax())
    most = f", most of all for {found.labels[worst]} ({PERCENT.show(float(found.changed[worst]))})" if found.any else ""
    return [
        f"  {int(found.true.sum()):,} of {found.true.size:,} groups are at their minimum; with chance {PERCENT.show(found.any)} "
        f"noise changes which ({found.runs:,} runs){most}."
    ]


def write(outputs: Outputs, results: Comparison, given: o.Given, chosen: Sequence[Choice] = (), **page: Any) -> None:
    """The files of an audit; `page`: what only the report shows."""
    from fairpost.io import entities_csv
    from fairpost.report import audit_page

    outputs.write(
        lambda: show(results, given["currency"], chosen),
        json=lambda: results.to_dict(entities=given["entities"], neighbours=o.neighbours_of(given)),
        csv=lambda: entities_csv(results),
        csv_groups=lambda: columns_csv(results.group_columns()),
        html=lambda: audit_page(
            results,
            command=o.command_line(),
            made=now(),
            title=given["title"],
            unit=given["unit"],
            noun=given["noun"],
            currency=given["currency"],
            neighbours=o.neighbours_of(given),
            **page,
        ),
    )
