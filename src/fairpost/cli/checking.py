"""`fairpost check`: real releases against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fairpost.check import check as checked
from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.notes import note
from fairpost.cli.outputs import Outputs, now
from fairpost.cli.recipes import check_lines
from fairpost.errors import InputError, ParameterError
from fairpost.io import Rows, read_counts, read_rows
from fairpost.noise import Law
from fairpost.results import Check
from fairpost.results.base import number
from fairpost.results.check import chance, expected_words, kept_words, parts_table

if TYPE_CHECKING:
    from fairpost.release.statement import Stated

TOP = 5
"""Entities on the screen, of those that gained and of those that lost."""
MOST_GROUPS = 15
"""Groups on the screen."""
LEVEL = "level"
"""The column of a release of levels that says of which one a row is."""


@click.command()
@click.argument("true", type=click.Path(path_type=str, allow_dash=True))
@click.argument("released", nargs=-1, required=True, type=click.Path(path_type=str))
@o.ID
@o.COUNT
@o.GROUP
@o.LABEL
@o.READING
@click.option("--released-id", metavar="COL", help="Column of ids in RELEASED.  [default: as in TRUE, else id]")
@click.option(
    "--released-count", metavar="COL", help="Column of values in RELEASED.  [default: as in TRUE, else count]"
)
@click.option(
    "--released-where", multiple=True, metavar="EXPR", help="Rows of RELEASED to use, as --where. Repeatable."
)
@o.NOISE
@click.option(
    "--statement",
    "statements",
    multiple=True,
    type=click.Path(path_type=str),
    metavar="FILE",
    help="Instead: the statement of a release, with its noise; RELEASED must be its table, unchanged. Once for each RELEASED.",
)
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="Of intervals, all rows of a table together."
)
@o.JSON
@o.CSV
@o.HTML
@click.option("--title", help="The headline of the report.")
@click.option("--unit", default="people", show_default=True, help="What is counted, for the report.")
@o.NOUN
@o.FORCE
def check(**given: Any) -> int:
    """Released counts against the TRUE ones: who gained and who lost.

    Differences per entity, group and size; whether the sum was kept; values below 0. With the noise that was stated
    (--scale, --epsilon, ... or --statement): the share of the differences that it explains, with a p-value. Several
    RELEASED files are independent draws: their mean estimates the bias, with intervals. The result is confidential.

    \b
    Example: two releases of the same table, which say that they have
    Laplace noise of scale 10
      fairpost check true.csv noisy.csv second.csv --scale 10
    """
    true, released, stated = given["true"], given["released"], _stated(given)
    outputs = Outputs(given, [true, *released, *given["statements"]])
    keep = () if stated is None or stated.levels is None else (LEVEL,)
    mechanism = o.maybe_noise(given)
    counts = read_counts(true, **o.columns(given), label=given["label"])
    rows, columns = zip(*(_released(path, given, keep) for path in released), strict=True)
    if stated is not None and stated.safe:
        rows = tuple(replace(one, ids=_as_published(one.ids, set(counts.ids))) for one in rows)
    if stated is not None:
        mechanism = _noise_of(stated, rows, given)
    found = checked(counts, rows, mechanism, names=released, confidence=given["confidence"])
    outputs.write(
        lambda: _show(found),
        json=found.to_dict,
        csv=found.to_csv,
        html=lambda: _page(found, given, columns),
    )
    return 0


def _stated(given: o.Given) -> Stated | None:
    """What the statements say of the noise, all of them the same; each RELEASED must be the table of its own, byte by byte."""
    paths, released = given["statements"], given["released"]
    if not paths:
        return None
    from fairpost.release.chain import digest_of
    from fairpost.release.statement import stated

    typed = [name for name in ("epsilon", "scale", "sigma", "rho") if given[name] is not None]
    if typed:
        raise ParameterError(f"the noise is given by --statement or by --{typed[0]}, got both")
    if len(paths) != len(released):
        raise ParameterError(
            f"--statement must be given once for each RELEASED, in their order, got {len(paths)} for {len(released)}"
        )
    found = [stated(path) for path in paths]
    for path, file, one in zip(paths, released, found, strict=True):
        if digest_of(Path(file)) != one.table_sha256:
            raise InputError(
                f"{file}: must be the table of {path}, byte by byte, and is another or was changed; take the file as it was "
                f"published (for one that was only saved anew, state the noise: --mechanism {one.mechanism} --{one.parameter})"
            )
        if (one.mechanism, one.scales) != (found[0].mechanism, found[0].scales):
            raise InputError(
                f"{path}: the releases of one check must have the same noise, got other noise than in {paths[0]}"
            )
    return found[0]


def _noise_of(stated: Stated, rows: Sequence[Rows], given: o.Given) -> Law:
    """The noise that a statement gives; of a release of levels that of the one level whose rows are checked."""
    scale = stated.scale
    if stated.levels is not None:
        there = list(dict.fromkeys(label for one in rows for label in one.kept[LEVEL]))
        if len(there) != 1:
            names = ", ".join(stated.scales)
            raise InputError(
                f'one level is checked at a time, with --released-where "{LEVEL} = NAME" (of {names}), got {len(there)}'
            )
        if there[0] not in stated.scales:
            raise InputError(
                f"level {there[0]!r} was released without noise, so no statement explains differences in it"
            )
        scale = stated.scales[there[0]]
    return o.noise_of(given | {"mechanism": stated.mechanism, stated.parameter: scale})


def _as_published(ids: Sequence[str], known: set[str]) -> tuple[str, ...]:
    """The ids of a table made with --csv-safe, without the ' that was put before some."""
    return tuple(one[1:] if one not in known and one.startswith("'") and one[1:] in known else one for one in ids)


def _released(path: str, given: o.Given, keep: Sequence[str]) -> tuple[Rows, dict[str, Any]]:
    """The rows of a release and how they were read: its columns are named as in TRUE, or as a release names them."""
    how = {"decimal": given["decimal"], "where": given["released_where"]}
    ids = [given["released_id"]] if given["released_id"] else [given["id"] or "id", "id"]
    counts = [given["released_count"]] if given["released_count"] else [given["count"] or "count", "count"]
    first: InputError | None = None
    for id, count in dict.fromkeys(product(ids, counts)):
        said: list[str] = []
        try:
            found = read_rows(path, id=id, count=count, keep=keep, say=said.append, **how)
        except InputError as error:
            first = first or error
            continue
        for line in said:
            note(line)
        return found, {"id": id, "count": count, **how}
    assert first is not None
    raise first


def _show(found: Check) -> None:
    out = screen.console()
    screen.say(out, f"{found._head()}.")
    for line in sentences(found):
        screen.say(out, line)
    for title, sign in (("Gained most", 1.0), ("Lost most", -1.0)):
        some = [
            int(i) for i in np.argsort(-sign * found.difference, kind="stable")[:TOP] if sign * found.difference[i] > 0
        ]
        if some:
            screen.show(out, _entities(found, title, some))
    tested, several = found.mechanism is not None, found.releases > 1
    heads, rows = parts_table(found.sizes, "true count", tested=tested, several=several)
    screen.show(out, screen.Grid("By size", heads, rows))
    if found.groups is not None:
        ordered = sorted(found.groups, key=lambda part: -abs(part.difference))[:MOST_GROUPS]
        heads, rows = parts_table(ordered, "group", tested=tested, several=several)
        screen.show(out, screen.Grid(_groups(found), heads, rows))
    screen.say(out, found.mark, style="bold")


def _groups(found: Check) -> str:
    assert found.groups is not None
    n = len(found.groups)
    return f"By group ({n:,}{f', the {MOST_GROUPS} with the largest differences' if n > MOST_GROUPS else ''})"


def _entities(found: Check, title: str, places: list[int]) -> screen.Grid:
    heads = [
        "id" if found.counts.names is None else "name",
        "true count",
        "released" if found.releases == 1 else "mean released",
        "difference",
    ]
    adjusted, half = found.p_adjusted, found.half_width
    heads += [] if adjusted is None else ["p, all entities"]
    heads += [] if half is None else ["bias within"]
    rows = []
    for i in places:
        x, d = float(found.counts.values[i]), float(found.difference[i])
        cells = [
            screen.cut(found.counts.name(i), found.counts.ids[i]),
            number(x),
            number(x + d),
            number(d, signed=True),
        ]
        cells += [] if adjusted is None else [chance(float(adjusted[i]))]
        cells += [] if half is None else [f"+-{number(float(half[i]))}" if np.isfinite(half[i]) else "?"]
        rows.append(tuple(cells))
    return screen.Grid(title, tuple(heads), rows)


def sentences(found: Check) -> list[str]:
    """What the numbers of a check mean."""
    lines = []
    if found.noise is not None:
        t = found.noise
        lines += [
            f"Noise alone explains {100 * t.explained:.3g} % of the {t.size}: {number(t.observed)} was seen, "
            f"{number(t.expected)} is expected.",
            f"p = {chance(t.p_value)}: {t.verdict}. The hypothesis: {t.hypothesis}. {t.reading}",
        ]
        far = found.unexplained or ()
        named = [found.counts.name(found.counts.ids.index(one)) for one in far[:TOP]]
        some = "" if not far else f": {', '.join(named)}{', ...' if len(far) > TOP else ''}"
        lines.append(
            f"{len(far):,} of {found.n:,} entities lie where noise alone would put none, with chance {found.confidence:g}{some}."
        )
    lines.append(f"The released sum is {number(found.total.released)}: {kept_words(found)}.{_moved(found)}")
    lines.append(f"{number(found.negative)} of {found.n:,} values are below 0{_each(found)}{expected_words(found)}.")
    if found.mechanism is not None and found.mechanism.discrete and found.fractional:
        lines.append(f"{found.fractional:,} values are no whole numbers, which this noise cannot give.")
    if found.releases > 1:
        lines.append(
            f"The mean of {found.releases} releases estimates the bias; the intervals of one table hold together with "
            f"chance {found.confidence:g} (Student's t, for independent releases)."
        )
        half = found.half_width
        if half is not None and not (np.abs(found.difference) > half).any():
            lines.append("Every interval of an entity holds 0: so few releases show no entity's bias.")
    return lines


def _each(found: Check) -> str:
    return "" if found.releases == 1 else " on average"


def _moved(found: Check) -> str:
    if found.total.noise is None or not found.sum_kept:
        return ""
    alone = found.total.noise * np.sqrt(found.releases)
    return f" Noise alone would have moved it by some {number(float(alone))}, so more than noise was done."


def _page(found: Check, given: o.Given, columns: Sequence[dict[str, Any]]) -> str:
    from fairpost.report import check_page

    return check_page(
        found,
        command=o.command_line(),
        made=now(),
        title=given["title"],
        unit=given["unit"],
        noun=given["noun"],
        source=o.source_of(given["true"]),
        lines=check_lines(given, columns, found.mechanism),
    )
