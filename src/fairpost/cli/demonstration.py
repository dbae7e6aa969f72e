"""`fairpost demo`: the main job on the embedded data."""

from __future__ import annotations

import time
from typing import Any

import click

import fairpost as fp
from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.auditing import show
from fairpost.cli.outputs import STDOUT, now, to_stdout
from fairpost.datasets import hawaii, synthetic_districts
from fairpost.io import check_free, write_whole

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
