"""`fairpost audit`: the bias, alpha-fairness and cost of privacy of one or more rules."""

from __future__ import annotations

from collections.abc import Sequence

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import Outputs, page_words
from fairpost.engines.choose import Choice
from fairpost.io.files import columns_csv
from fairpost.report.numbers import PERCENT
from fairpost.report.shapes import Shapes
from fairpost.results import CONFIDENTIAL, Audit, Comparison
from fairpost.results.changes import minimum_of, seats_of
from fairpost.study.true import AuditStudy


@o.asks(AuditStudy)
def audit(study: AuditStudy, given: o.Given) -> int:
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
    lines, (study, found) = study.python, study.stated(o.note)
    if found is not None and found.levels is not None:
        from fairpost.cli.tree_words import with_statement

        given = with_statement(given, found)
    if given["levels"] is not None:
        from fairpost.cli.tree_audit import audit_levels

        return audit_levels(study.data.file, given)
    study.noise.look()
    out = study.output
    outputs = Outputs(given, [study.data.file, *([] if out.map is None else [out.map])])
    shapes = None if out.map is None else Shapes.read(out.map, out.map_key)
    with screen.progress("reading") as report:
        loaded = study.load(o.note)
        o.warn(loaded.counts)
        areas = None if shapes is None else shapes.of(loaded.counts)
        results = study.find(loaded, report)
    chosen = study.explain(loaded)
    neighbours = study.noise.neighbours

    def page() -> str:
        from fairpost.report import audit_page

        words = page_words(study.words, study.data.file, lines())
        return audit_page(results, neighbours=neighbours, shapes=areas, **words)

    def csv() -> str:
        from fairpost.io import entities_csv

        return entities_csv(results)

    outputs.write(
        lambda: show(results, study.words.currency, chosen),
        json=lambda: results.to_dict(entities=out.entities, neighbours=neighbours),
        csv=csv,
        csv_groups=lambda: columns_csv(results.group_columns()),
        html=page,
    )
    return 130 if any(r.engine.interrupted for r in results) else 0


def show(results: Comparison, currency: str, chosen: Sequence[Choice] = ()) -> None:
    """Tables and sentences on the screen; `chosen`: who was to answer what."""
    out = screen.console()
    for r in results:
        for line in screen.verdict_lines(r, currency):
            screen.say(out, line)
    for unit in dict.fromkeys(r.overall.unit for r in results):
        some = tuple(r for r in results if r.overall.unit == unit)
        screen.show(out, screen.comparison(some, currency))
        for r in some:
            for line in (*screen.sentences(r, currency), *_changes(r)):
                screen.say(out, line)
        for grid in (screen.groups(r, currency) for r in some):
            if grid is not None:
                screen.show(out, grid)
        divided = next((r for r in some if r.rule.budgets is not None), None)
        if divided is not None and divided.rule.budgets is not None and divided.budget is not None:
            screen.say(out, screen.whose(divided.rule.budgets.to_dict(), divided.budget, currency))
    if results.frontier is not None:
        screen.show(out, screen.path(results.frontier, currency))
        if results.frontier.refused:
            many = len(results.frontier.refused)
            screen.say(out, f"{many:,} thresholds have no point: {results.frontier.refused[0]}")
    for choice in chosen:
        screen.say(out, str(choice))
    screen.say(out, screen.explanation(all(r.money is not None for r in results)), style="dim")
    screen.say(out, CONFIDENTIAL, style="bold")


def _changes(r: Audit) -> list[str]:
    """Of a law: whose seats are most likely to change, and how many groups are at their minimum."""
    lines = []
    if (seats := seats_of(r)) is not None:
        worst = sorted(range(r.counts.n), key=lambda i: -seats.changed[i])[:3]
        named = ", ".join(
            f"{r.counts.name(i)} {PERCENT.show(float(seats.changed[i]))}" for i in worst if seats.changed[i] > 0
        )
        most = f"; most of all those of {named}" if named else ""
        lines.append(f"  With chance {PERCENT.show(seats.any)} some seat changes hands ({seats.runs:,} runs){most}.")
    if (least := minimum_of(r)) is not None:
        first = int(least.changed.argmax())
        chance = PERCENT.show(float(least.changed[first]))
        most = f", most of all for {least.labels[first]} ({chance})" if least.any else ""
        lines.append(
            f"  {int(least.true.sum()):,} of {least.true.size:,} groups are at their minimum; with chance {PERCENT.show(least.any)} "
            f"noise changes which ({least.runs:,} runs){most}."
        )
    return lines
