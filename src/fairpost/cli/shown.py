"""What needs no counts of one's own: `fairpost demo`, `fairpost paper` and `fairpost programmes`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fairpost as fp
from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import STDOUT, now, to_stdout
from fairpost.datasets import hawaii, synthetic_districts
from fairpost.io import check_free, write_whole
from fairpost.io.reading import FORMATS
from fairpost.problems.programme import NAMES, builtin, builtin_text

if TYPE_CHECKING:
    from fairpost.paper import Reproduction

BUDGET = 6.5e9
EPSILON = 0.01
LINES = f"""import fairpost as fp
from fairpost.datasets import synthetic_districts

noise = fp.Laplace.from_epsilon({EPSILON!r})
results = fp.compare(synthetic_districts(), noise, ['baseline', 'pos', 'pos-threshold'], budget={BUDGET!r})
print(results)"""
"""What the report of the demo offers beside its command."""


@click.command()
@click.option(
    "--html", type=click.Path(path_type=str), default="report.html", show_default=True, help="The report; -: to stdout."
)
@click.option("--force/--no-force", default=True, show_default=True, help="Overwrite the report of an earlier demo.")
@click.option(
    "--nation", is_flag=True, help="Instead: a SYNTHETIC nation of 8.1 million blocks, level by level, on the screen."
)
def demo(**given: Any) -> int:
    """Audit the embedded data: Hawaii's counties and a SYNTHETIC national set of school districts.

    Prints both tables and writes a report about the districts. Nothing is asked for and nothing is opened.

    \b
    Example: the report under another name
      fairpost demo --html demo.html
    """
    from fairpost.cli.auditing import show
    from fairpost.report import audit_page

    if given["nation"]:
        from fairpost.cli.tree_audit import demo_nation

        demo_nation(screen.console())
        return 0
    piped = given["html"] == STDOUT
    check_free([] if piped else [given["html"]], given["force"])
    started = time.perf_counter()
    counts = synthetic_districts()
    mechanism = fp.Laplace.from_epsilon(EPSILON)
    results = fp.compare(counts, mechanism, ["baseline", "pos", "pos-threshold"], budget=BUDGET)
    page = audit_page(
        results,
        command=o.command_line(),
        made=now(),
        title=f"Synthetic school districts at epsilon {EPSILON:g}",
        unit="children",
        noun="districts",
        source="SYNTHETIC",
        lines=LINES,
    )
    if piped:
        to_stdout(page)
        return 0
    write_whole({given["html"]: page}, given["force"])  # before the screen, whose reader may leave
    out = screen.console()
    screen.say(out, "Households of Hawaii's five counties (ACS 2013-2017), counts projected onto their total:")
    show(fp.compare(hawaii(), fp.Laplace(scale=10.0), ["nonnegative", "simplex"]), "$")
    out.print()
    screen.say(out, f"SYNTHETIC: {counts.n:,} school districts share ${BUDGET / 1e9:g} billion at epsilon {EPSILON:g}:")
    show(results, "$")
    screen.say(out, f"Wrote {given['html']}: open it in a browser. Done in {time.perf_counter() - started:.1f} s.")
    screen.say(
        out, "Live, with a slider for epsilon: pip install fairpost[explore], then fairpost explore FILE.", style="dim"
    )
    return 0


@click.command()
@click.option("--out", default="paper", show_default=True, type=click.Path(path_type=Path), help="The folder to make.")
@click.option("--saipe", type=click.Path(path_type=Path), help="School districts: the Census Bureau's file, or CSV.")
@click.option("--format", type=click.Choice(FORMATS), help="What --saipe is.  [default: by its name]")
@click.option("--id", default="leaid", show_default=True, metavar="COL", help="Column of ids.")
@click.option("--column", default="poor_5_17", show_default=True, metavar="COL", help="The count: poor_5_17, pop_5_17.")
@click.option("--weights", default="1", show_default=True, metavar="1|COL", help="1, or a column (expenditure).")
@click.option("--quick", is_flag=True, help="Fewer simulated runs: half a minute instead of minutes.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulations.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "gpu", "auto"]),
    default="cpu",
    show_default=True,
    help="Where simulations run.",
)
@click.option("--force", is_flag=True, help="Replace what an earlier run has written.")
def paper(**given: Any) -> int:
    """Reproduce the paper: tables, figures, examples, theorems, and where published values differ and why.

    Without --saipe Table 2 uses the embedded SYNTHETIC districts, and says so. Needs matplotlib: install
    fairpost[paper].

    \b
    Example: with the Census Bureau's own file, in half a minute
      fairpost paper --saipe ussd19.txt --format saipe --quick --out paper
    """
    from fairpost.paper import reproduce

    with screen.progress("reproducing") as report:
        found = reproduce(
            given["out"],
            saipe=given["saipe"],
            column=given["column"],
            weights=given["weights"],
            quick=given["quick"],
            seed=given["seed"],
            progress=lambda step, part: report(round(100 * part), 100, step),
            force=given["force"],
            id=given["id"],
            format=given["format"],
            device=given["device"],
        )
    _show(found)
    return 0


def _show(found: Reproduction) -> None:
    out = screen.console()
    for t in found.tables:
        screen.show(out, screen.Grid(t.title, tuple(t.columns), [tuple(row) for row in t.shown()]))
    differing = [c for c in found.comparisons if not c.agrees]
    agree = len(found.comparisons) - len(differing)
    screen.say(out, f"{agree} of {len(found.comparisons)} published values agree; the rest:")
    for c in differing:
        screen.say(out, f"  {c.published.where}: {c.published.quantity}, printed {c.published.printed}")
    if found.surprises:
        screen.say(out, f"{len(found.surprises)} of these findings are not the ones on record.")
    screen.say(out, f"The reasons, figures, examples and theorems: {found.page}")
    screen.say(out, found.findings.mark, style="bold")


@click.command()
@click.argument("name", required=False)
def programmes(name: str | None) -> int:
    """The laws that come with the package; with NAME its TOML, to start a law of one's own from.

    \b
    Example: a law of one's own
      fairpost programmes title1-targeted > mine.toml
      fairpost audit districts.csv --count poor_5_17 --base pop_5_17 \\
          --programme mine.toml --epsilon 0.1 --budget 4.2e9
    """
    if name is not None:
        to_stdout(builtin_text(name))
        return 0
    out = screen.console()
    rows = []
    for known in NAMES:
        law = builtin(known)
        pays = {"decision": "a decision", "seats": f"{law.seats} seats"}.get(law.unit, "shares of an appropriation")
        rows.append((known, law.law, pays, "count, base" if law.rates else "count"))
    screen.show(out, screen.Grid("Laws", ("name", "law", "what it gives", "columns"), rows))
    screen.say(
        out, "`fairpost programmes NAME` prints one as TOML; --programme takes a name or a TOML file.", style="dim"
    )
    return 0
