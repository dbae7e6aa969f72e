"""The first screen of an audit's page: three short findings. Who pays, what does better, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpost.report.numbers import CHANCE, Html, html, joined, name, tagged
from fairpost.report.programme import decisions
from fairpost.report.sentences import VERBS, code, limit, ratio
from fairpost.report.views import Extreme, View


@dataclass(frozen=True)
class Finding:
    """A heading of a few words, and one or two sentences."""

    head: str
    text: Html


def findings(views: list[View]) -> list[Finding]:
    """About the rules of one task: the most unfair one first, the fairest beside it."""
    known = [v for v in views if v.resolved] or views
    worst = max(known, key=lambda v: v.result.alpha.value)
    usable = [v for v in known if not v.signed] or known
    best = min(usable, key=lambda v: v.result.alpha.value)
    said = [pays(worst), better(worst, best, len(views)), costs(worst, best)]
    if not worst.result.problem.decides:
        return said
    wrong = Finding(
        "Wrong decisions", html("{pp}: {said}", pp=code(worst), said=decisions(worst.result, worst.words.noun))
    )
    return [said[0], wrong, *(said[1:2] if worst.about == "decision" else said[1:])]


def pays(v: View) -> Finding:
    """Who loses most, in the unit shown and relative to what is due, and who gains."""
    if v.direction == "still":
        return Finding("Who pays", html("Under {pp} nobody: everybody gets their due in expectation.", pp=code(v)))
    if v.direction == "unresolved":
        return Finding("Who pays", limit(v) or html("Under {pp} nobody, up to the numerical error.", pp=code(v)))
    lost, won = clause(v, v.least, -1), clause(v, v.most, 1)
    if lost and won:
        text = html("Under {pp} {lost}; {won}.", pp=code(v), lost=lost, won=won)
    else:
        other = "nobody loses" if won else "nobody gains"
        text = html("Under {pp} {one}; {other}.", pp=code(v), one=lost or won, other=other)
    return Finding("Who pays" if lost else "Who gains", text)


def clause(v: View, end: Extreme, sign: int) -> Html:
    """One end: "Elm loses $47,200, 2.5 % of the $1.9 million due"; empty where it has not this sign or is not resolved."""
    if not end.resolved or end.bias * sign <= 0:
        return Html("")
    several = end.alike > 0
    verb = VERBS[v.about, sign][1 if several else 0]
    many = html(" and {k} like it", k=f"{end.alike:,}") if several else Html("")
    return html(
        "{who}{many} {verb} {amount}{each}{part}",
        who=name(end.who), many=many, verb=verb, each=" each" if several else "",
        amount=v.amount(abs(end.bias), end.error, brief=True), part=of_due(v, end),
    )  # fmt: skip


def of_due(v: View, end: Extreme) -> Html:
    """The same relative to what is due, with the money due where there is a budget."""
    if end.relative is None:
        return Html(" with nothing due") if v.about == "allocation" else Html("")
    if v.about == "allocation" and v.cash is not None:
        return html(", {part} of the {due} due", part=v.part(end), due=v.amount(end.due, brief=True))
    what = {"allocation": "what is due", "release": "the true count"}.get(v.about)
    return html(", {part} of {what}", part=v.part(end), what=what) if what else Html("")


def better(worst: View, best: View, rules: int) -> Finding:
    """How much less the fairest rule takes from whoever loses most under it."""
    a, b = worst.result.alpha, best.result.alpha
    if best is worst or a.low <= b.high:
        what = "No other rule was looked at" if rules == 1 else "No rule that was looked at is told to be fairer"
        return Finding("What does better", html("{what}.", what=what))
    if b.value == 0:
        return Finding("What does better", html("{pp}: everybody gets their due in expectation.", pp=code(best)))
    lost = clause(best, best.least, -1)
    said = html("There {lost}, more than any other", lost=lost) if lost else Html("There nobody loses")
    fairer = html("{pp} is {times} less unfair. {said}.", pp=code(best), times=ratio(worst, best), said=said)
    return Finding("What does better", fairer)


def costs(worst: View, best: View) -> Finding:
    """What being fair costs: accuracy of one result and chances of 0, or an extra budget."""
    parts = []
    if best is not worst and best.resolved:
        parts.append(
            html(
                "A single result under {b} is typically off by {eb} (under {w}: {ew}) and is 0 with a chance of {zb} ({zw}).",
                b=code(best),
                w=code(worst),
                eb=best.amount(best.rmse, brief=True),
                ew=worst.amount(worst.rmse, brief=True),
                zb=tagged(CHANCE, best.zero),
                zw=tagged(CHANCE, worst.zero),
            )
        )
    else:
        off = worst.amount(worst.rmse, brief=True)
        parts.append(html("A single result under {w} is typically off by {ew}.", w=code(worst), ew=off))
    cost = worst.result.cost_of_privacy
    if cost is not None and cost.share.high > 0:
        extra = worst.amount(cost.share.value, (cost.share.high - cost.share.low) / 2, brief=True)
        what = "" if worst.cash else " of the budget"
        text = html("Or {x}{what} more, so that nobody loses under {w}.", x=extra, what=what, w=code(worst))
        parts.append(text)
    return Finding("What it costs", joined(parts))


def lead(views: list[View], source: str | None) -> Html:
    """What was looked at, in one line: data, money, noise."""
    v = views[-1]
    counts, mechanism = v.result.counts, v.result.mechanism
    total = f"{counts.total:,.0f}" if counts.total == np.round(counts.total) else f"{counts.total:,.6g}"
    parts = [html("{n} {noun}, {total} {unit}", n=f"{counts.n:,}", noun=v.words.noun, total=total, unit=v.words.unit)]
    if source:
        parts.insert(0, html("{source}", source=source))
    if v.cash is not None and v.result.budget is not None:
        parts.append(tagged(v.cash, v.result.budget, brief=True))
    parts.append(
        html(
            "{name} noise: a typical count moves by {sd} {unit}",
            name=mechanism.name,
            sd=f"{mechanism.deviation:,.3g}",
            unit=v.words.unit,
        )
    )
    return joined(parts, " · ")
