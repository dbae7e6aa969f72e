"""`fairpost project`: noisy counts to counts that are not negative and add up."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from fairpost.cli import options as o
from fairpost.cli.layout import remark
from fairpost.cli.outputs import Outputs, to_stdout, without_formulas
from fairpost.errors import CountsError, ParameterError
from fairpost.io import Noisy, read_noisy
from fairpost.io.rows import columns_csv
from fairpost.partition import Partition
from fairpost.rules import POSTPROCESSINGS, PostProcessing
from fairpost.rules.base import nonnegative_total
from fairpost.rules.release import Releasing
from fairpost.rules.rounding import round_counts

Floats = NDArray[np.float64]
RELEASES = tuple(name for name, kind in POSTPROCESSINGS.items() if issubclass(kind, Releasing))


@dataclass(frozen=True, eq=False)
class Projected:
    """Noisy counts, what they became, and the rules that hold now."""

    noisy: Noisy
    postprocess: str
    values: Floats
    rounded: Floats | None
    seed: int | None
    labels: tuple[str, ...]
    totals: Floats | None
    """The totals that are kept, one a label; None where the post-processing keeps none."""

    @property
    def final(self) -> Floats:
        """The counts to use."""
        return self.values if self.rounded is None else self.rounded


@click.command()
@o.FILE
@o.COLUMNS
@click.option(
    "--postprocess",
    type=click.Choice(RELEASES),
    default="simplex",
    show_default=True,
    help="How; see `fairpost audit`.",
)
@click.option(
    "--total", type=float, help="The public total to keep.  [default: the sum of the noisy counts, at least 0]"
)
@click.option("--group-total", metavar="COL", help="Column with the public total of each entity's group.")
@click.option("--round", "whole", is_flag=True, help="Whole numbers with the totals kept exactly, without bias.")
@click.option("--seed", type=int, help="Of the rounding.  [default: fresh randomness]")
@o.NOISE
@o.CSV
@o.JSON
@o.FORCE
def project(file: str, **given: Any) -> int:
    """Noisy counts to counts that are not negative and add up, from a FILE of noisy counts.

    Nothing private is used and no privacy is spent. The counts go to --csv, or to stdout. `simplex-threshold` needs
    the noise (--epsilon or --scale ...), which is public.

    \b
    Example: tracts that add up to each county's published total, in whole numbers
      fairpost project tracts.csv --group county --group-total county_total --round --csv clean.csv
    """
    o.check_numbers(given)
    outputs = Outputs(given, [file], public=True)
    noisy = read_noisy(file, **o.columns(given), total=given["group_total"])
    found = _project(noisy, given)
    if outputs.to_stdout != "json":
        _summary(found)
    if "csv" not in outputs.paths and not outputs.to_stdout:
        text = _projected_csv(found)
        to_stdout(without_formulas(text) if outputs.safe else text)
    outputs.write(json=lambda: _projected_data(found), csv=lambda: _projected_csv(found))
    return 0


def _project(noisy: Noisy, given: o.Given) -> Projected:
    name, kind = given["postprocess"], POSTPROCESSINGS[given["postprocess"]]
    parts: Partition | None = None
    totals: Floats | None = None
    if name in ("none", "nonnegative"):
        if given["total"] is not None or noisy.totals is not None:
            raise ParameterError(
                f"{name} keeps no total, got one; choose sum, sum-clipped, simplex or simplex-threshold"
            )
        pi: PostProcessing = kind()
    else:
        parts, totals = _targets(noisy, given["total"])
        pi = kind(totals.tolist(), parts)  # type: ignore[call-arg]
    mechanism = o.maybe_noise(given)
    if name == "simplex-threshold" and mechanism is None:
        raise ParameterError(
            "simplex-threshold needs the noise: one of --epsilon, --scale, --sigma and --rho, got none"
        )
    values = (pi if mechanism is None else pi.for_mechanism(mechanism))(noisy.values)
    rounded, seed = None, None
    if given["whole"]:
        seed = secrets.randbits(63) if given["seed"] is None else given["seed"]
        if name not in ("simplex", "simplex-threshold"):
            raise ParameterError(f"--round keeps totals and needs simplex or simplex-threshold, got {name}")
        if seed < 0:
            raise ParameterError(f"`seed` must be a whole number from 0, got {seed}")
        rounded = round_counts(values, np.random.default_rng(seed), parts, totals)
    labels = ("all",) if parts is None else parts.labels
    return Projected(noisy, name, values, rounded, seed, labels, totals)


def _targets(noisy: Noisy, total: float | None) -> tuple[Partition, Floats]:
    """Which totals are kept: of each group where a column has them, else one."""
    n = noisy.values.size
    if noisy.totals is not None:
        if total is not None:
            raise ParameterError("totals are given by --total or by --group-total, got both")
        parts = Partition.whole(n) if noisy.groups is None else Partition.of(noisy.groups)
        return parts, noisy.totals[parts.order[parts.starts[:-1]]]
    seen = float(np.sum(noisy.values))
    if total is None and seen < 0:
        raise CountsError(f"the default total is the sum of the noisy counts, which must be at least 0, got {seen:g}")
    return Partition.whole(n), np.array([nonnegative_total(seen if total is None else total)])


def _changes(found: Projected) -> dict[str, Any]:
    moved = found.values - found.noisy.values
    far = int(np.argmax(np.abs(moved)))
    return {
        "noisy_sum": float(np.sum(found.noisy.values)),
        "sum": float(np.sum(found.final)),
        "negative_before": int(np.count_nonzero(found.noisy.values < 0)),
        "negative_after": int(np.count_nonzero(found.final < 0)),
        "zero_after": int(np.count_nonzero(found.final == 0)),
        "largest_change": {"id": found.noisy.ids[far], "change": float(moved[far])},
    }


def _rounding(found: Projected) -> dict[str, Any] | None:
    if found.rounded is None:
        return None
    moved = found.rounded - found.values
    return {
        "seed": found.seed,
        "rounded_up": int(np.count_nonzero(moved > 0)),
        "rounded_down": int(np.count_nonzero(moved < 0)),
        "largest_change": float(np.max(np.abs(moved))),
        "root_mean_square_change": float(np.sqrt(np.mean(moved**2))),
        "sum_change": float(np.sum(found.rounded)) - float(np.sum(found.values)),
    }


def _summary(found: Projected) -> None:
    c, r = _changes(found), _rounding(found)
    remark(
        f"{found.postprocess}: {found.noisy.values.size:,} counts; {c['negative_before']:,} were negative, "
        f"{c['negative_after']:,} are; {c['zero_after']:,} are 0; the sum went from {c['noisy_sum']:,.10g} to {c['sum']:,.10g}."
    )
    remark(f"The largest change is {c['largest_change']['change']:+,.6g}, of {c['largest_change']['id']}.")
    if found.totals is not None and len(found.labels) > 1:
        remark(f"{len(found.labels):,} groups keep their totals.")
    if r is not None:
        remark(
            f"Rounding moved {r['rounded_up']:,} counts up and {r['rounded_down']:,} down, none by more than "
            f"{r['largest_change']:.3g}, each without bias; every total is kept (seed {r['seed']})."
        )


def _projected_csv(found: Projected) -> str:
    noisy = found.noisy
    columns: dict[str, Any] = {"id": list(noisy.ids)}
    if noisy.groups is not None:
        columns["group"] = list(noisy.groups)
    columns |= {"noisy_count": noisy.values, "count": found.values}
    if found.rounded is not None:
        columns |= {"count": found.rounded.astype(np.int64), "before_rounding": found.values}
    return columns_csv(columns)


def _projected_data(found: Projected) -> dict[str, Any]:
    totals = None if found.totals is None else dict(zip(found.labels, found.totals.tolist(), strict=True))
    return {
        "postprocess": found.postprocess,
        "counts": {"n": int(found.noisy.values.size)},
        "totals": totals,
        "changes": _changes(found),
        "rounding": _rounding(found),
        "entities": [
            {"id": i, "noisy_count": float(y), "count": float(v)}
            for i, y, v in zip(found.noisy.ids, found.noisy.values, found.final, strict=True)
        ],
    }
