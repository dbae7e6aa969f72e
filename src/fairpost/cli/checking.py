"""`fairpost check`: real releases against the truth."""

from __future__ import annotations

import numpy as np

from fairpost.cli import options as o
from fairpost.cli import screen
from fairpost.cli.outputs import Outputs, page_words
from fairpost.results import Check
from fairpost.results.base import number
from fairpost.results.check import chance, expected_words, kept_words, parts_table
from fairpost.study.released import CheckStudy

TOP = 5
"""Entities on the screen, of those that gained and of those that lost."""
MOST_GROUPS = 15
"""Groups on the screen."""


@o.asks(CheckStudy)
def check(study: CheckStudy, given: o.Given) -> int:
    """Released counts against the TRUE ones: who gained and who lost.

    Differences per entity, group and size; whether the sum was kept; values below 0. With the noise that was stated
    (--scale, --epsilon, ... or --statement): the share of the differences that it explains, with a p-value. Several
    RELEASED files are independent draws: their mean estimates the bias, with intervals. The result is confidential.

    \b
    Example: two releases of the same table, which say that they have
    Laplace noise of scale 10
      fairpost check true.csv noisy.csv second.csv --scale 10
    """
    data = study.data
    outputs = Outputs(given, [data.true, *data.released, *study.noise.statements])
    found = study.find(study.load(o.note))

    def page() -> str:
        from fairpost.report import check_page

        return check_page(found, **page_words(study.words, data.true, study.python()))

    outputs.write(lambda: _show(found), json=found.to_dict, csv=found.to_csv, html=page)
    return 0


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
