"""`fairpost project`: noisy counts to counts that are not negative and add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from fairpost.cli import hierarchies
from fairpost.cli import options as o
from fairpost.cli.layout import remark
from fairpost.cli.outputs import Outputs, now, to_stdout
from fairpost.cli.recipes import project_lines
from fairpost.errors import ParameterError
from fairpost.hierarchy.rules import RULES
from fairpost.io import Rows, read_rows
from fairpost.io.files import without_formulas
from fairpost.project import RELEASES
from fairpost.project import project as projection_of
from fairpost.results import Projection


@click.command()
@o.FILE
@o.COLUMNS
@o.LABEL
@o.KEEP
@click.option(
    "--postprocess",
    type=click.Choice([*RELEASES, *RULES]),
    default="simplex",
    show_default=True,
    metavar="NAME",
    help=f"{', '.join(RELEASES)}; with --levels: {', '.join(RULES)}.",
)
@click.option(
    "--total", type=float, help="The public total to keep.  [default: the sum of the noisy counts, at least 0]"
)
@click.option(
    "--group-total",
    metavar="COL",
    help="Column with the public total of each entity's group.  [default: with --group, the group's noisy sum]",
)
@click.option(
    "--round", "--whole", "whole", is_flag=True, help="Whole numbers with the totals kept exactly, without bias."
)
@click.option("--seed", type=int, help="Of the rounding.  [default: fresh randomness]")
@hierarchies.LEVELS
@o.NOISE
@o.CSV
@o.JSON
@o.HTML
@click.option("--title", help="The headline of the report.")
@click.option("--unit", default="people", show_default=True, help="What is counted, for the report.")
@o.NOUN
@o.FORCE
def project(file: str, **given: Any) -> int:
    """Noisy counts to counts that are not negative and add up, from a FILE of noisy counts.

    Nothing private is used and no privacy is spent. The counts go to --csv, or to stdout. `simplex-threshold` needs
    the noise (--epsilon or --scale ...), which is public.

    \b
    Example: tracts that add up to their counties' totals, in whole numbers
      fairpost project tracts.csv --group county \\
          --group-total county_total --round --csv clean.csv
    """
    o.check_numbers(given)
    if given["levels"] is not None:
        from fairpost.cli.tree_release import project_levels

        for name in ("html", "label", "keep"):
            if given[name]:
                raise ParameterError(f"--{name} is for projections without --levels, got both")
        return project_levels(file, given)
    hierarchies.need_levels(given)
    outputs = Outputs(given, [file], public=True)
    noisy = read_rows(file, **o.columns(given), total=given["group_total"], **o.names(given))
    found = _project(noisy, given)
    if outputs.to_stdout != "json":
        _summary(found, given)

    def counts() -> None:
        text = found.to_csv()
        to_stdout(without_formulas(text) if outputs.safe else text)

    outputs.write(
        counts if "csv" not in outputs.paths else None,
        json=found.to_dict,
        csv=found.to_csv,
        html=lambda: _page(found, file, given),
    )
    return 0


def _page(found: Projection, file: str, given: o.Given) -> str:
    from fairpost.report import projection_page

    return projection_page(
        found,
        command=o.command_line(),
        made=now(),
        title=given["title"],
        unit=given["unit"],
        noun=given["noun"],
        source=o.source_of(file),
        lines=project_lines(file, given, o.maybe_noise(given), found.seed),
    )


def _project(noisy: Rows, given: o.Given) -> Projection:
    """Groups keep totals of their own where a column of them was named, or of their totals; else they are labels."""
    if noisy.totals is None:
        total = given["total"]
    elif given["total"] is not None:
        raise ParameterError("totals are given by --total or by --group-total, got both")
    elif noisy.groups is None:
        total = float(noisy.totals[0])
    else:
        total = dict(zip(noisy.groups, noisy.totals.tolist(), strict=True))
    keeps = given["group"] is not None or isinstance(total, dict)
    found = projection_of(
        noisy.values,
        given["postprocess"],
        total,
        noisy.groups if keeps else None,
        o.maybe_noise(given),
        round=given["whole"],
        seed=given["seed"],
        ids=noisy.ids,
        names=noisy.names,
        kept=noisy.kept,
    )
    return found if keeps else replace(found, groups=noisy.groups)


def _summary(found: Projection, given: o.Given) -> None:
    c, r = found.changes, found.rounding
    remark(
        f"{found.postprocess}: {found.n:,} counts; {c['negative_before']:,} were negative, "
        f"{c['negative_after']:,} are; {c['zero_after']:,} are 0; the sum went from {c['noisy_sum']:,.12g} to {c['sum']:,.12g}."
    )
    remark(f"The largest change is {c['largest_change']['change']:+,.6g}, of {found.name(found.farthest)}.")
    if found.totals is not None and len(found.totals) > 1:
        own = "the totals of the column" if given["group_total"] else "the sums of their noisy counts"
        remark(f"{len(found.totals):,} groups keep {own}{_nearest(found, given)}.")
    elif found.totals is not None and given["group"] is not None and given["total"] is not None:
        remark("The total is of all entities; groups are labels (--group-total gives them totals).")
    if r is not None:
        remark(
            f"Rounding moved {r['rounded_up']:,} counts up and {r['rounded_down']:,} down, none by more than "
            f"{r['largest_change']:.3g}, each without bias; every total is kept (seed {r['seed']})."
        )


def _nearest(found: Projection, given: o.Given) -> str:
    return ", to the nearest whole number" if found.rounded is not None and not given["group_total"] else ""
