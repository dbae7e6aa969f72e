"""The command line. Files, the clock and the screen live here."""

from __future__ import annotations

import sys
import time

import click

import fairpost as fp
from fairpost.datasets import hawaii, synthetic_districts
from fairpost.result import CONFIDENTIAL


class _Commands(click.Group):
    """Every error of the package ends in one line on stderr and exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except fp.FairpostError as error:
            click.echo(f"fairpost: {error}", err=True)
            sys.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(fp.__version__, prog_name="fairpost")
def main() -> None:
    """Measure, bound and remove the unfairness that post-processing adds to private counts."""


@main.command()
def demo() -> None:
    """Audit the embedded data: Hawaii's counties and a synthetic national set of school districts."""
    from rich.console import Console

    console = Console(highlight=False)
    started = time.perf_counter()
    console.print("Compiling kernels on the first run (cached afterwards) ...", style="dim")
    _hawaii(console)
    _districts(console)
    console.print(f"\n{CONFIDENTIAL}. Done in {time.perf_counter() - started:.1f} s.", style="dim")


def _hawaii(console: object) -> None:
    from rich.console import Console
    from rich.table import Table

    assert isinstance(console, Console)
    counts = hawaii()
    table = Table(title="Households of Hawaii's 5 counties, projected onto their total (pi_S+)")
    for column in ("noise", "lower bound", "alpha (exact)", "upper bound", "gains most", "loses most"):
        table.add_column(column, justify="right")
    for mechanism in (fp.Laplace(scale=10.0), fp.Gaussian(sigma=25.0)):
        result = fp.audit(counts, mechanism, "simplex", engine="exact")
        assert result.bounds is not None
        table.add_row(
            f"{mechanism.name} {mechanism.spread:g}",
            f"{result.bounds.lower:.6f}",
            f"{result.alpha.value:.6f}",
            f"{result.bounds.theorem:.6f}",
            *result.alpha_pair,
        )
    console.print(table)
    console.print(
        "alpha is the expected advantage, in households, of the county that gains most over the one that loses most."
    )


def _districts(console: object) -> None:
    from rich.console import Console
    from rich.table import Table

    assert isinstance(console, Console)
    counts, budget = synthetic_districts(), 6.5e9
    table = Table(title=f"SYNTHETIC: {counts.n:,} school districts share $6.5 billion; Laplace noise")
    for column in ("epsilon", "shares by", "alpha", "cost of privacy", "largest", "smallest"):
        table.add_column(column, justify="right", no_wrap=True)
    for epsilon in (0.1, 0.01, 0.001):
        for which in ("baseline", "pos"):
            result = fp.audit(counts, fp.Laplace.from_epsilon(epsilon), which, engine="exact", budget=budget)
            assert result.cost_of_privacy is not None
            assert result.cost_of_privacy.amount is not None
            assert result.money is not None
            table.add_row(
                f"{epsilon:g}",
                which,
                f"{result.alpha.value:.3e}",
                f"${result.cost_of_privacy.amount.value:,.0f}",
                _signed(result.money[-1]),
                _signed(result.money[0]),
            )
    console.print(table)
    console.print("largest, smallest: what the largest and the smallest district gain or lose a year in expectation.")
    console.print(
        "Clipping negative counts moves money from large districts to small ones; pos (PoS) moves far less of it."
    )


def _signed(amount: float) -> str:
    return f"{'-' if amount < 0 else '+'}${abs(amount):,.0f}"
