"""`fairpost paper`: every table and figure of the paper, published value beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpost.cli import screen
from fairpost.io.reading import FORMATS

if TYPE_CHECKING:
    from fairpost.paper import Reproduction


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
