"""The answer about a partition and the answers about its groups: one taken apart, or several put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpost import fairness
from fairpost.accuracy import KINDS, Accuracy, Estimate, weakest
from fairpost.engines.base import Answer, Floats, Refusal
from fairpost.partition import Partition

if TYPE_CHECKING:
    from fairpost.engines.montecarlo.estimates import Sampled


def apart(answer: Answer, partition: Partition) -> list[Answer]:
    """What an answer says about each group; its intervals hold for all groups together."""
    out = []
    for g in range(len(partition.labels)):
        who = partition.of_group(g)
        bias, known, ends = answer.bias[who], answer.accuracy.at(who), fairness.alpha(answer.bias[who])
        s = answer.sample
        out.append(
            replace(
                answer,
                bias=bias,
                accuracy=known,
                mse=answer.mse[who],
                mse_accuracy=answer.mse_accuracy.at(who),
                zero=answer.zero[who],
                zero_accuracy=answer.zero_accuracy.at(who),
                alpha=fairness.alpha_interval(bias, known),
                pair=(ends.most, ends.least),
                note=answer.note if s is None else f"at {s.runs} runs with {100 * s.confidence:g} % confidence",
                sample=None if s is None else s.at(who),
            )
        )
    return out


def together(found: Sequence[Answer | Refusal], partition: Partition) -> Answer | Refusal:
    """What is found about all groups: the answer, or the first group's refusal, by name, with the others in hand."""
    for g, one in enumerate(found):
        if isinstance(one, Refusal):
            named = f"{one.reason} (group {partition.name(g)})" if one.tried else one.reason
            return Refusal(named, one.tried, groups=tuple(found))
    return _joined([one for one in found if isinstance(one, Answer)], partition)


def _joined(answers: Sequence[Answer], partition: Partition) -> Answer:
    """The answer about all groups. Every number of it is known in the weakest sense of any group, to the half-width of its own.

    The chance of a degenerate draw is the mean over groups, as simulation counts it.
    """

    def whole(values: Sequence[Floats]) -> Floats:
        out = np.empty(partition.n)
        out[partition.order] = np.concatenate(values)
        return out

    def known(each: Sequence[Accuracy]) -> Accuracy:
        return Accuracy(weakest(*(a.kind for a in each)), whole([a.half_width for a in each]))

    bias, accuracy = whole([a.bias for a in answers]), known([a.accuracy for a in answers])
    ends = fairness.alpha(bias)
    found = Answer(
        method=max(answers, key=lambda a: KINDS.index(a.accuracy.kind)).method,
        bias=bias,
        accuracy=accuracy,
        mse=whole([a.mse for a in answers]),
        mse_accuracy=known([a.mse_accuracy for a in answers]),
        zero=whole([a.zero for a in answers]),
        zero_accuracy=known([a.zero_accuracy for a in answers]),
        alpha=_alpha(answers, fairness.alpha_interval(bias, accuracy)),
        pair=(ends.most, ends.least),
        degenerate=sum(a.degenerate / len(answers) for a in answers),
        drawn=max((a.drawn for a in answers if a.drawn is not None), key=lambda d: d.runs, default=None),
    )
    some = next((a.sample for a in answers if a.sample is not None), None)
    if some is None:
        return found
    fields: Any = {name: whole([_shown(a)[name] for a in answers]) for name in _shown(answers[0])}
    return replace(found, sample=replace(some, **fields, alpha=found.alpha, pair=found.pair, reduction=None))


def _alpha(answers: Sequence[Answer], joint: Estimate) -> Estimate:
    """alpha over all groups: inside one the difference may be known better than its two ends; of two groups each end is known by itself."""
    tops = np.array([np.max(a.bias + a.accuracy.half_width) for a in answers])
    lows = np.array([np.min(a.bias - a.accuracy.half_width) for a in answers])
    low = max(joint.low, *(a.alpha.low for a in answers))
    high = max(low, *(a.alpha.high for a in answers))
    for g in range(len(answers)):
        high = max(high, float(np.max(tops[g] - np.delete(lows, g), initial=0.0)))
    high = min(high, joint.high)
    return Estimate(min(max(joint.value, low), high), low, high, joint.kind)


def _shown(answer: Answer) -> dict[str, Floats]:
    """What simulation has shown about a group, or, where another engine answered, what it would have shown without scatter."""
    s: Sampled | None = answer.sample
    none = np.zeros_like(answer.bias)
    return {
        "bias": answer.bias,
        "standard_error": none if s is None or answer.accuracy.kind != "interval" else s.standard_error,
        "half_width": answer.accuracy.half_width,
        "deviation": np.sqrt(np.maximum(answer.mse - answer.bias**2, 0.0)) if s is None else s.deviation,
        "mse": answer.mse,
        "mse_half_width": answer.mse_accuracy.half_width,
        "zero": answer.zero,
        "zero_half_width": answer.zero_accuracy.half_width,
        "plain": answer.bias if s is None else s.plain,
        "plain_error": none if s is None else s.plain_error,
    }
