"""Who gains and who loses, relative to what is due, and who meets the targets: plain sentences for screens and pages.

Text without markup; a page escapes it. Numbers have no more digits than their error supports, and a number that is set
against a limit is rounded away from what is claimed: what passes is at most what is shown, what fails is at least that.
"""

from __future__ import annotations

import math

import numpy as np

from fairpost import fairness
from fairpost.accuracy import Estimate
from fairpost.noise.base import DISCRETE_LAPLACE, LAPLACE
from fairpost.report.numbers import PERCENT, Unit, count, half, money
from fairpost.results.audit import Audit
from fairpost.results.base import name_by_id
from fairpost.results.points import entry
from fairpost.results.targets import TARGETS, Verdict

COUNTS = Unit(digits=5)
SHARES = Unit(100.0, "", " %", 5)
PARTS = Unit(100.0, "", " %", 3)
"""Relative to what is due."""
STRAIGHT = Unit(1.0, "", " %", 3)
"""A number that is in percent already."""


def unit_of(result: Audit, currency: str = "$") -> tuple[Unit, float]:
    """How the biases of a result are shown, and the factor from bias to that unit."""
    if result.overall.unit == "money":
        return money(currency), result.budget or 0.0
    if result.problem.unit == "decision":
        return PERCENT, 1.0
    return (SHARES if result.problem.task == "allocation" else COUNTS), 1.0


def named(result: Audit, label: str) -> str:
    """What people call an entity, with its id behind it where that is something else."""
    return result.counts.called(result.counts.ids.index(label))


def part(estimate: Estimate, *, signed: bool = False) -> str:
    """A bias relative to what is due: "2.46 %"."""
    return PARTS.show(estimate.value, half(estimate), signed=signed)


def against_due(result: Audit, label: str, currency: str = "$", *, who: str | None = None) -> str:
    """What an entity gains or loses, in percent of what it is due.

    "New York City loses $4.87 million, 2.46 % of the $198 million it is due"; of one that is due nothing the gain alone.
    """
    i = result.counts.ids.index(label)
    unit, factor = unit_of(result, currency)
    bias, relative = entry(result.bias, result.accuracy, i), result.relative.of(i)
    amount = unit.brief(abs(bias.value) * factor, half(bias) * factor)
    verb = _verb(result, bias.value)
    of = ""
    if result.problem.task == "allocation" and result.overall.unit != "money":
        of = " of its group's budget" if result.rule.grouped else " of the budget"
    start = f"{result.counts.name(i) if who is None else who} {verb} {amount}{of}"
    if relative is None:
        nothing = "its true count is 0" if result.problem.task == "release" else "it is due nothing"
        return f"{start} ({nothing})"
    due = unit.brief(float(result.truth[i]) * factor)
    whole = (
        f"its count of {count(float(result.truth[i]))}" if result.problem.task == "release" else f"the {due} it is due"
    )
    return f"{start}, {part(Estimate(abs(relative.value), *_ends(relative), relative.kind))} of {whole}"


def _ends(e: Estimate) -> tuple[float, float]:
    """The interval of |value|: wide enough for either sign."""
    return min(abs(e.value), max(0.0, abs(e.value) - half(e))), abs(e.value) + half(e)


def _verb(result: Audit, bias: float) -> str:
    if result.problem.task == "release":
        return "is overcounted by" if bias > 0 else "is undercounted by"
    return "gains" if bias > 0 else "loses"


def relative_lines(result: Audit, currency: str = "$") -> list[str]:
    """The two ends relative to what they are due, and who loses most in percent where that is somebody else."""
    if result.problem.decides or result.problem.unit == "decision":
        return []  # programmes have sentences of their own
    gainer, loser = result.alpha_pair
    places = {label: result.counts.ids.index(label) for label in (loser, gainer)}
    told = [label for label, i in places.items() if abs(result.bias[i]) > result.accuracy.half_width[i]]
    lines = ["; ".join(against_due(result, label, currency) for label in told) + "."] if told else []
    worst = result.relative.largest_loss
    who = worst.id
    if who is not None and who != loser and worst.low > 0 and _more(result, who, loser):
        lines.append(f"The largest loss in percent: {against_due(result, who, currency, who=named(result, who))}.")
    return lines


def _more(result: Audit, who: str, loser: str) -> bool:
    """Whether two relative losses differ in what is shown of them."""
    shown = [result.relative.of(result.counts.ids.index(label)) for label in (who, loser)]
    return len({None if e is None else part(e) for e in shown}) > 1


def total_unit(result: Audit, currency: str = "$") -> tuple[Unit, float]:
    """How a sum of biases is shown: of decisions it is a number of entities."""
    return (COUNTS, 1.0) if result.problem.unit == "decision" else unit_of(result, currency)


def total_line(result: Audit, currency: str = "$") -> str:
    """By how much the total is off, where it is: "all results add up to 3,359 more than the true total, 0.0456 % of it"."""
    off, (unit, factor) = result.total_off, total_unit(result, currency)
    if off.low <= 0 <= off.high:
        return ""
    amount = unit.show(abs(off.value) * factor, half(off) * factor)
    relative = fairness.relative_estimate(off, float(result.truth.sum()), result.counts.n)
    of = "" if relative is None else f", {part(Estimate(abs(relative.value), *_ends(relative), relative.kind))} of it"
    return (
        f"in expectation all results add up to {amount} {'more' if off.value > 0 else 'less'} than the true total{of}"
    )


def limit_unit(verdict: Verdict, result: Audit, currency: str = "$") -> Unit:
    """How the limit and what was reached are shown: both are in the unit of the verdict already."""
    if verdict.unit == "percent":
        return STRAIGHT
    return money(currency) if verdict.unit == "money" else unit_of(result, currency)[0]


def typed(unit: Unit, limit: float) -> str:
    """A limit as it was given: no digit more, none less."""
    return f"{unit.prefix}{limit * unit.factor:,.12g}{unit.suffix}"


def verdict_line(verdict: Verdict, result: Audit, currency: str = "$") -> str:
    """One target: "fails: the largest expected loss is at least $4,869,102 (New York City), over the limit of $500"."""
    unit = limit_unit(verdict, result, currency)
    limit = typed(unit, verdict.limit)
    who = "" if verdict.who is None or verdict.reached.high == 0 else f" ({name_by_id(result.counts, verdict.who)})"
    what, e = TARGETS[verdict.target], verdict.reached
    if verdict.outcome == "passes":
        return f"passes: {what} is at most {unit.show(e.high, toward=1)}{who}, within the limit of {limit}"
    if verdict.outcome == "fails":
        return f"fails: {what} is at least {_apart(unit, e.low, limit)}{who}, over the limit of {limit}"
    low, high = unit.show(e.low, toward=-1), unit.show(e.high, toward=1)
    return f"unsure: {what} is between {low} and {high}{who}, and the limit of {limit} lies between"


def _apart(unit: Unit, value: float, limit: str) -> str:
    """A number above a limit, rounded down, in as many digits as tell the two apart."""
    text = unit.show(value, toward=-1)
    for digits in range(unit.digits, 16):
        if text.rstrip("0.") not in (limit, limit.rstrip("0.")):
            break
        text = Unit(unit.factor, unit.prefix, unit.suffix, digits).show(value, toward=-1)
    return text


def verdict_lines(result: Audit, currency: str = "$") -> list[str]:
    """The verdict on one rule: in one line where there is one target, else a line for all and one for each."""
    found = result.overall.verdicts
    if not found:
        return []
    if len(found) == 1:
        return [f"{result.postprocess} {verdict_line(found[0], result, currency)}."]
    return [
        f"{result.postprocess} {_all(result)}",
        *(f"  {verdict_line(v, result, currency)}." for v in found),
    ]


def _all(result: Audit) -> str:
    found = result.overall.verdicts
    failed = sum(v.outcome == "fails" for v in found)
    if result.overall.outcome == "fails":
        return f"fails {failed} of {len(found)} targets:"
    return "passes all targets:" if result.overall.outcome == "passes" else "is unsure: an interval holds its limit:"


def programme_lines(result: Audit, currency: str, noun: str = "entities", *, loss: bool = True) -> list[str]:
    """What a programme's audit means: wrong decisions, losses, the wall at a threshold. Nothing where no law decides."""
    if not result.problem.decides:
        return []
    lines = [decisions(result, noun), losses(result, currency) if loss else "", wall(result), noisy_base(result)]
    if result.postprocess == "levelled":
        lines.append(
            "Nobody's payment is negative; what the bends pay too much is taken off the first payments above them."
        )
    if result.rule.signed:
        lines.append("Payments can be negative, so this serves as a yardstick or where money can be taken back.")
    return [line for line in lines if line]


def roughly(number: float) -> str:
    """An expected number of entities: whole from ten on, else with one or two digits."""
    return f"{number:,.0f}" if number >= 9.5 else f"{number:.2g}"


def decisions(result: Audit, noun: str) -> str:
    """How many the noise is expected to leave out and to let in."""
    wrong = result.overall.wrong
    assert wrong is not None
    due = int(np.count_nonzero(result.truth != 0))
    out = "is" if roughly(wrong["out"]) == "1" else "are"
    return (
        f"Of {due:,} eligible {noun} {roughly(wrong['out'])} {out} expected to be left out by noise, and {roughly(wrong['in'])} of "
        f"the {result.counts.n - due:,} others let in."
    )


def losses(result: Audit, currency: str) -> str:
    """The largest expected loss, in money where there is some and in percent of what is due, and the largest in percent."""
    if not result.problem.shares:
        return ""
    estimate = result.largest_loss
    at = result.counts.ids.index(str(estimate.id))
    if estimate.value <= 0 or result.truth[at] <= 0:
        return "Nobody expects less than their due."
    due = result.truth != 0
    relative = np.where(due, result.bias / np.where(due, result.truth, 1.0), np.inf)
    worst = int(np.argmin(relative))
    part = PERCENT.show(estimate.value / float(result.truth[at]))
    if result.budget is not None:
        unit = money(currency)
        amount = f"{unit.show(estimate.value * result.budget)} less, {part} of the {unit.show(float(result.truth[at]) * result.budget)} due"
    else:
        amount = f"{PERCENT.show(estimate.value)} of the budget less, {part} of what is due"
    names = result.counts
    first = f"{names.name(at)} expects {amount}"
    if worst == at:
        return f"{first}: the largest loss in money and in percent."
    return f"{first}; in percent {names.name(worst)} expects the largest loss, {PERCENT.show(-float(relative[worst]))} of what is due."


def noisy_base(result: Audit) -> str:
    """That base populations are noisy too."""
    noise = result.rule.base_noise
    if noise is None:
        return ""
    return f"The base populations carry noise too ({noise.name}, {noise.parameter} {noise.spread:g})."


def wall(result: Audit) -> str:
    """J / (1 + e^eps): what no epsilon-private rule with payments >= 0 can undercut at a jump."""
    if result.mechanism.code not in (LAPLACE, DISCRETE_LAPLACE):
        return ""
    bound = 1 / (1 + math.exp(1 / result.mechanism.spread))
    return (
        f"At a threshold no private rule with payments of at least 0 errs less than {PERCENT.show(bound)} of the jump, "
        "for one of the two counts beside it."
    )
