"""`fairpost paper`: every table and figure of the paper, published value beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fairpost.cli import screen


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("paper"), show_default=True, help="The folder to make.")
@click.option("--saipe", type=click.Path(path_type=str), help="SAIPE data: the Census Bureau's file, or CSV.")
@click.option("--id", "id", metavar="COL", help="CSV: column of ids.  [default: leaid]")
@click.option("--column", default="poor_5_17", show_default=True, help="The count: poor_5_17, pop_5_17, ...")
@click.option("--weight", metavar="COL", help="Column of weights (expenditure).  [default: weights 1]")
@click.option("--quick", is_flag=True, help="Fewer simulated runs: at most 30 seconds instead of 5 minutes.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulations.")
@click.option("--force", is_flag=True, help="Replace the folder if it exists.")
def paper(**given: Any) -> int:
    """Reproduce the paper: tables, figures, examples, theorems, and where the published values differ and why.

    Without --saipe Table 2 uses the embedded SYNTHETIC districts, and says so.

    \b
    Example: with the Census Bureau's own file
      fairpost paper --saipe ussd19.txt --out paper
    """
    from fairpost.paper import reproduce

    raise NotImplementedError(reproduce, screen, given)
