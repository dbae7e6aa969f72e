"""What a programme's audit means, in plain sentences: wrong decisions, the wall at a threshold, losses in money and percent."""

from __future__ import annotations

import math

import numpy as np

from fairpost.noise.base import DISCRETE_LAPLACE, LAPLACE
from fairpost.report.numbers import PERCENT, money
from fairpost.results.audit import Audit


def programme_lines(result: Audit, currency: str, noun: str = "entities") -> list[str]:
    """The sentences; none where the problem decides nothing."""
    if not result.problem.decides:
        return []
    lines = [decisions(result, noun), losses(result, currency), wall(result), base(result)]
    if result.postprocess == "levelled":
        lines.append(
            "Nobody's payment is negative; what the bends pay too much is taken off the first payments above them."
        )
    if result.rule.signed:
        lines.append("Payments can be negative, so this serves as a yardstick or where money can be taken back.")
    return [line for line in lines if line]


def whole(number: float) -> str:
    """An expected number of entities: whole from ten on, else with one or two digits."""
    return f"{number:,.0f}" if number >= 9.5 else f"{number:.2g}"


def decisions(result: Audit, noun: str) -> str:
    """How many the noise is expected to leave out and to let in."""
    wrong = result.loc.wrong
    assert wrong is not None
    due = int(np.count_nonzero(result.truth != 0))
    out = "is" if whole(wrong["out"]) == "1" else "are"
    return (
        f"Of {due:,} eligible {noun} {whole(wrong['out'])} {out} expected to be left out by noise, and {whole(wrong['in'])} of "
        f"the {result.counts.n - due:,} others let in."
    )


def losses(result: Audit, currency: str) -> str:
    """The largest expected loss, in money where there is some and in percent of what is due, and the largest in percent."""
    if not result.problem.shares:
        return ""
    estimate, who = result.loc.largest_loss
    at = result.counts.ids.index(who)
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


def base(result: Audit) -> str:
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
