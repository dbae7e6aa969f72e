"""What an audit's page says, as HTML: three findings on its first screen, and what each rule does below them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpost.report.numbers import CHANCE, Html, count, html, joined, name, tagged, times
from fairpost.report.verdicts import decisions, programme_lines
from fairpost.report.views import Extreme, View, split

NEAR_ONE = 1.5
"""Ratios below this are told in percent."""
TOO_FEW = 20
"""Below so many entities the summary names the two ends only."""
VERBS = {
    ("allocation", 1): ("gains", "gain"),
    ("allocation", -1): ("loses", "lose"),
    ("release", 1): ("is overcounted by", "are overcounted by"),
    ("release", -1): ("is undercounted by", "are undercounted by"),
    ("decision", 1): ("is let in too often, by", "are let in too often, by"),
    ("decision", -1): ("is left out too often, by", "are left out too often, by"),
}


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
        end, word = (v.least, "loses") if won else (v.most, "gains")
        other = f"nobody {word}" if end.resolved or end.bias == 0 or not v.simulated else f"who {word} is not resolved"
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


def about(v: View) -> Html:
    """What one rule does: where it moves things, where gains end, who pays, and what a law's audit adds."""
    said = [movement(v), crossing(v)]
    if v.direction == "unresolved":
        said.append(limit(v))
    elif v.direction != "still":
        said.append(pays(v).text)
    said += [
        html("{line}", line=line) for line in programme_lines(v.result, v.words.currency, v.words.noun, loss=False)
    ]
    return joined(said)


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
    if v.result.problem.decides:
        parts.append(html("{law}", law=v.result.problem.words))
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


def code(view: View) -> Html:
    """The name of a post-processing, linked to its explanation where there is one."""
    linked = html('<a class="term" href="#g-{key}">{key}</a>', key=view.name) if view.title else name(view.name)
    return html('<span class="pp">{linked}</span>', linked=linked)


def movement(view: View) -> Html:
    """Who pays and who gains, by size."""
    plain = {"allocation": "shares of the budget", "decision": "chances"}.get(view.about, "expected counts")
    thing = "money" if view.cash else plain
    return html(
        {
            "down": "Post-processing by {pp} moves {thing} from the largest {noun} to the smallest.",
            "up": "Post-processing by {pp} moves {thing} from the smallest {noun} to the largest.",
            "none": "Post-processing by {pp} moves {thing} between {noun} with no systematic direction by size.",
            "still": "Under {pp} everybody gets their due in expectation.",
            "unresolved": "For {pp} {draws} do not resolve who gains and who loses."
            if view.simulated
            else "Under {pp} everybody gets their due in expectation, up to the numerical error.",
            "raise": "Post-processing by {pp} raises {thing}, {where}, and lowers none.",
            "lower": "Post-processing by {pp} lowers {thing}, {where}, and raises none.",
        }[view.direction],
        pp=code(view), thing=thing, noun=view.words.noun, draws=view.result.engine.draws(view.result.method) or "", where=_where(view),
    )  # fmt: skip


def _where(view: View) -> str:
    """At which sizes a one-sided change lies: the mean rank of size, weighted by the change."""
    r = view.result
    known = np.where(np.abs(r.bias) > r.accuracy.half_width, np.abs(r.bias), 0.0)
    if not known.any():
        return ""
    _, member, many = np.unique(view.size, return_inverse=True, return_counts=True)
    rank = (np.cumsum(many) - many / 2)[member] / view.size.size
    mean = float(np.sum(rank * (known / known.sum())))
    if mean <= 0.35:
        return "mostly those of the smallest"
    return "mostly those of the largest" if mean >= 0.65 else "at no size much more than at another"


def crossing(view: View) -> Html:
    """Where gains end and losses begin, if there is one such place by count."""
    r = view.result
    ends = split(r.counts.values, r.bias, r.accuracy.half_width)
    if ends is None or r.counts.n < TOO_FEW:
        return Html("")
    gains, losses = int(np.sum(r.bias > r.accuracy.half_width)), int(np.sum(r.bias < -r.accuracy.half_width))
    return html(
        "All {g} {noun} that gain have at most {low} {unit}, all {l} that lose have at least {high}.",
        g=f"{gains:,}", l=f"{losses:,}", low=count(ends[0]), high=count(ends[1]),
        noun=view.words.noun, unit=view.words.unit,
    )  # fmt: skip


def limit(view: View) -> Html:
    """What an unresolved simulation does show."""
    if view.resolved:
        return Html("")
    high = view.amount(view.result.alpha.high, view.result.alpha.high / 10, brief=True, toward=1)
    return html(
        'Unfairness is <a class="term" href="#g-unresolved">not resolved</a>: it is at most {high}, with {sure} confidence.',
        high=high,
        sure=view.confidence,
    )


def ratio(worst: View, view: View) -> str:
    """The ratio of the alphas; "at least" its certain part where the intervals leave more than 10 % open.

    Near 1 it is told in percent: "at least 1 times less" says nothing.
    """
    a, b = worst.result.alpha, view.result.alpha
    sure, about = a.low / b.high, a.value / b.value
    if sure < NEAR_ONE:
        known = 1 - 1 / sure >= 0.9 * (1 - 1 / about)
        less = CHANCE.show(1 - 1 / (about if known else sure), toward=0 if known else -1)
        return less if known else f"at least {less}"
    return times(about) if sure >= 0.9 * about else f"at least {times(sure, -1)}"


def alpha_text(view: View) -> Html:
    """The meaning of alpha for this result: the pair and what each gains or loses."""
    if view.result.counts.n == 1:
        return Html("With one entity there is nobody to compare with.")
    if view.direction == "still":
        return Html("Nobody gains or loses in expectation.")
    pair = [
        html("{who} expects {x}", who=name(e.who), x=view.amount(e.bias, e.error, signed=True))
        for e in (view.most, view.least)
    ]
    what = "their true counts" if view.about == "release" else "what they are due"
    return html("The gap between the two ends: against {what}, {a} and {b}.", what=what, a=pair[0], b=pair[1])


def sureness(view: View) -> Html:
    """The interval of alpha in words."""
    if not view.simulated:
        return html('<a class="term" href="#g-{way}">{way}</a>, {c}', way=view.way, c=view.certain(view.result.alpha))
    if not view.resolved:
        return html(
            '<a class="term" href="#g-unresolved">not resolved</a> at {draws}: 0 to {high} with {sure} confidence',
            draws=view.result.engine.draws(view.result.method), sure=view.confidence,
            high=view.amount(view.result.alpha.high, view.result.alpha.high / 10, toward=1),
        )  # fmt: skip
    return html(
        '<a class="term" href="#g-interval">{c}</a> with {sure} confidence, {way}',
        c=view.certain(view.result.alpha),
        sure=view.confidence,
        way=view.way,
    )


def bound_text(view: View) -> Html:
    """Theorem 1 and Lemma 3 beside the value."""
    b, a = view.result.rule.bounds, view.result.alpha
    if b is None:
        return Html("")
    low, high = view.amount(b.lower, b.error, toward=-1), view.amount(b.theorem, b.error, toward=1)
    inside = b.lower - b.error <= a.high and a.low <= b.theorem + b.error
    verdict = (
        "The value lies between them, as it must." if inside else "THE VALUE LIES OUTSIDE: report this as a defect."
    )
    sharper = (
        html("; Lemma 3 lowers the upper one to {x}", x=view.amount(b.sharper, b.error, toward=1))
        if b.sharper is not None
        else ""
    )
    return html(
        'Alpha is at least {low} and at most {high} (<a class="term" href="#g-bounds">Theorem 1</a>){sharper}. {verdict}{little}',
        low=low, high=high, sharper=sharper or Html(""), verdict=verdict, little=_little(view),
    )  # fmt: skip


def _little(view: View) -> Html:
    """That Theorem 1's upper bound says little, and why, where it does."""
    b, a = view.result.rule.bounds, view.result.alpha
    if b is None or not b.says_little(a.value):
        return Html("")
    why = "far above alpha" if a.value == 0 else f"{b.theorem / a.value:,.0f} times alpha"
    if b.theorem >= b.spread:
        why = "the difference between the largest and the smallest count"
    alpha = view.amount(a.value, (a.high - a.low) / 2) if view.resolved else Html("not resolved")
    return html(" Theorem 1 says little here: its upper bound is {why}; alpha is {alpha}.", why=why, alpha=alpha)
