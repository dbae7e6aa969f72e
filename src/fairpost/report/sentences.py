"""Plain sentences made from the numbers: nothing is assumed about who gains and who loses."""

from __future__ import annotations

import numpy as np

from fairpost.report.numbers import CHANCE, Html, Unit, count, html, joined, name, tagged, times
from fairpost.report.programme import programme_lines
from fairpost.report.verdicts import total_line
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
NOBODY = {
    ("allocation", 1): "nobody loses",
    ("allocation", -1): "nobody gains",
    ("release", 1): "nobody is undercounted",
    ("release", -1): "nobody is overcounted",
    ("decision", 1): "nobody is left out",
    ("decision", -1): "nobody is let in",
}


def listed(parts: list[Html]) -> Html:
    """Names in a row, with "and" before the last."""
    return joined([joined(parts[:-1], ", "), parts[-1]], " and ")


def code(view: View) -> Html:
    """The name of a post-processing, linked to its explanation where there is one."""
    linked = html('<a class="term" href="#g-{key}">{key}</a>', key=view.name) if view.title else name(view.name)
    return html('<span class="pp">{linked}</span>', linked=linked)


def opening(views: list[View]) -> Html:
    """What was looked at."""
    first = views[0]
    r, w = first.result, first.words
    n = f"{r.counts.n:,}"
    noise = html(
        "noise with a standard deviation of {sd} {unit}",
        sd=tagged(Unit(digits=3), r.mechanism.deviation),
        unit=w.unit,
    )
    if view_is_law(first):
        return _law(first, noise)
    if r.problem.task == "release":
        return html(
            "The counts of {n} {noun} are published with {noise} and then post-processed.",
            n=n,
            noun=w.noun,
            noise=noise,
        )
    if first.grouped and r.rule.budgets is not None and first.cash and r.budget is not None:
        what: Html | str = html(
            "{x}, group by group ({words}),", x=tagged(first.cash, r.budget, brief=True), words=r.rule.budgets.words
        )
    elif first.grouped:
        what = "the budgets of their groups"
    else:
        what = "a budget" if first.cash is None or r.budget is None else tagged(first.cash, r.budget, brief=True)
    return html(
        "{n} {noun} share {what} in proportion to their counts, which carry {noise}.",
        n=n,
        noun=w.noun,
        what=what,
        noise=noise,
    )


def view_is_law(view: View) -> bool:
    """Whether the result is about a programme."""
    return view.result.problem.decides


def _law(view: View, noise: Html) -> Html:
    """What was looked at, under a programme."""
    r = view.result
    said = {"law": r.problem.words, "n": f"{r.counts.n:,}", "noun": view.words.noun, "noise": noise}
    if not r.problem.shares:
        return html("{law} decides about {n} {noun} by counts which carry {noise}.", **said)
    what = "an appropriation" if view.cash is None or r.budget is None else tagged(view.cash, r.budget, brief=True)
    return html("{law} shares out {what} among {n} {noun} by counts which carry {noise}.", what=what, **said)


def by_law(views: list[View]) -> Html:
    """What the noise does to decisions and payments under a programme."""
    parts = []
    for v in views:
        lines = programme_lines(v.result, v.words.currency, v.words.noun)
        parts += [html("{pp}: {lines}", pp=code(v), lines=" ".join(lines))] if lines else []
    return joined(parts)


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
    known = np.where(np.abs(r.bias) > r.half_width, np.abs(r.bias), 0.0)
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
    ends = split(r.counts.values, r.bias, r.half_width)
    if ends is None or r.counts.n < TOO_FEW:
        return Html("")
    gains, losses = int(np.sum(r.bias > r.half_width)), int(np.sum(r.bias < -r.half_width))
    return html(
        "All {g} {noun} that gain have at most {low} {unit}, all {l} that lose have at least {high}.",
        g=f"{gains:,}", l=f"{losses:,}", low=count(ends[0]), high=count(ends[1]),
        noun=view.words.noun, unit=view.words.unit,
    )  # fmt: skip


def ends(view: View) -> Html:
    """What the two ends lose and gain."""
    if view.direction in ("still", "unresolved"):
        return Html("") if view.direction == "still" else limit(view)
    lost, won = _end(view, view.least, -1), _end(view, view.most, 1)
    if lost and won:
        return html("{lost}, more than any other; {won}.", lost=lost, won=won)
    if not lost and not won:
        return limit(view)
    return html("{one}; {nobody}.", one=lost or won, nobody=NOBODY[view.about, -1 if lost else 1])


def _end(view: View, end: Extreme, sign: int) -> Html:
    """One end as a clause; empty where its bias has not this sign or is not resolved."""
    if not end.resolved or end.bias * sign <= 0:
        return Html("")
    verb = VERBS[view.about, sign][0 if not end.alike else 1]
    each = " each" if end.alike else ""
    amount = view.amount(abs(end.bias), end.error, brief=True)
    return html("{who} {verb} {amount}{each} in expectation", who=view.label(end), verb=verb, amount=amount, each=each)


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


def compared(worst: View, others: list[View]) -> Html:
    """How many times less unfair the others are."""
    parts = [html("{pp} {how}", pp=code(v), how=_less(worst, v)) for v in others]
    if not parts or worst.result.alpha.value == 0:
        return Html("")
    return html("Set against {worst}: {parts}.", worst=code(worst), parts=joined(parts, "; "))


def _less(worst: View, view: View) -> Html:
    a, b = worst.result.alpha, view.result.alpha
    if not view.resolved:
        high = view.amount(b.high, b.high / 10, brief=True, toward=1)
        return html("is not resolved (alpha at most {high})", high=high)
    if b.value == 0:
        return Html("has no unfairness at all")
    if a.low > b.high:
        return html("is {times} less unfair ({loss})", times=ratio(worst, view), loss=_loss(view))
    return Html("cannot be told apart from it") if a.high > a.low or b.high > b.low else Html("is as unfair")


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


def _loss(view: View) -> Html:
    end = view.least
    if end.bias >= 0:
        return html("{nobody}", nobody=NOBODY[view.about, 1])
    if not end.resolved:
        return Html("its largest loss is not resolved")
    return html("largest loss {x}", x=view.amount(-end.bias, end.error, brief=True))


def totals(views: list[View]) -> Html:
    """Whose results do not add up to what is due."""
    said = [(v, total_line(v.result, v.words.currency)) for v in views]
    return joined([html("Under {pp} {off}.", pp=code(v), off=off) for v, off in said if off])


def extra(views: list[View]) -> Html:
    """The cost of privacy of each."""
    parts = []
    for v in views:
        cost = v.result.cost_of_privacy
        if cost is None:
            continue
        spread = cost.share.high - cost.share.low
        parts.append(html("{x} under {pp}", x=v.amount(cost.share.value, spread / 2, brief=True), pp=code(v)))
    if not any(v.result.cost_of_privacy and v.result.cost_of_privacy.share.high for v in views):
        return Html("")
    what = "an extra" if views[0].cash else "a budget larger by"
    return html(
        "So that nobody expects less than their due, it would take {what} {parts}.", what=what, parts=listed(parts)
    )


def price(views: list[View]) -> Html:
    """What the fairest costs in accuracy and in zeros, against the most accurate one."""
    usable = [v for v in views if not v.signed and v.resolved]
    if len(usable) < 2 or not any(v.result.alpha.value for v in usable):
        return Html("")
    fairest = min(usable, key=lambda v: v.result.alpha.value)
    rest = [v for v in usable if v is not fairest]
    other = min(rest, key=lambda v: v.rmse)
    return html(
        "The price: among those that never go below zero, {a} is the fairest; a single result under it is typically off by "
        "{ea} and is 0 with a chance of {za} on average, against {eb} and {zb} under {b}.",
        a=code(fairest), b=code(other),
        ea=fairest.amount(fairest.rmse, brief=True), eb=other.amount(other.rmse, brief=True),
        za=tagged(CHANCE, fairest.zero), zb=tagged(CHANCE, other.zero),
    )  # fmt: skip


def summary(views: list[View]) -> Html:
    """One paragraph for one task: the most unfair post-processing in full, the others beside it."""
    known = [v for v in views if v.resolved] or views
    worst = max(known, key=lambda v: v.result.alpha.value)
    others = [v for v in views if v is not worst]
    parts = [opening(views), movement(worst), crossing(worst), ends(worst), compared(worst, others), extra(views)]
    return joined([*parts, totals(views), price(views), by_law(views)])


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
    b, a = view.result.bounds, view.result.alpha
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
    b, a = view.result.bounds, view.result.alpha
    if b is None or not b.says_little(a.value):
        return Html("")
    why = "far above alpha" if a.value == 0 else f"{b.theorem / a.value:,.0f} times alpha"
    if b.theorem >= b.spread:
        why = "the difference between the largest and the smallest count"
    alpha = view.amount(a.value, (a.high - a.low) / 2) if view.resolved else Html("not resolved")
    return html(" Theorem 1 says little here: its upper bound is {why}; alpha is {alpha}.", why=why, alpha=alpha)
