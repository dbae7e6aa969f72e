"""What the page draws and says about one choice: compact arrays for the script of the report, and words.

The part that does not depend on the noise (ids, names, groups, counts) is sent once; a page says by its number that it has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpost.accuracy import Estimate
from fairpost.counts import Counts
from fairpost.explore.between import Curve, Sweep
from fairpost.explore.choices import Choices
from fairpost.explore.session import Data
from fairpost.noise import Mechanism
from fairpost.report import payload
from fairpost.report.findings import findings
from fairpost.report.numbers import CHANCE, Unit, count, half, money
from fairpost.report.payload import Classes, Ints, Shown
from fairpost.report.text import clean
from fairpost.report.views import View, Words, by_unit
from fairpost.results.audit import CONFIDENTIAL, Audit
from fairpost.results.targets import TARGETS, Targets, unit_of

RELATIVE = Unit(100.0, "", "\u00a0%", 3)


def words_of(choices: Choices) -> Words:
    """The reader's nouns."""
    return Words(clean(choices.unit), clean(choices.noun), clean(choices.currency))


def exact(data: Data, choices: Choices, results: Sequence[Audit], have: str | None) -> dict[str, Any]:
    """The picture of computed results."""
    alike = list(by_unit(results, words_of(choices)).values())
    views = [v for group in alike for v in group]  # releases first, as everywhere
    found = payload.classes(data.x, results)
    kept = payload.chosen(results, found, data.x.values)
    shown = [(v, Shown.of(v, found.first[kept])) for v in views]
    return _picture(data, choices, shown, found, kept, have) | {
        "interpolated": False,
        "findings": [{"head": f.head, "html": str(f.text)} for group in alike for f in findings(group)],
        "notes": [clean(f"{r.postprocess}: {r.engine.note}") for r in results if r.engine.note],
        "interrupted": any(r.engine.interrupted for r in results),
    }


def interpolated(
    data: Data, choices: Choices, sweep: Sweep, found: Sequence[Curve], have: str | None
) -> dict[str, Any]:
    """The picture between two computed levels."""
    assert sweep.classes is not None
    curves = {r.postprocess: c for r, c in zip(sweep.first, found, strict=True)}
    rows = sweep.classes.first
    shown = []
    for group in by_unit(sweep.first, words_of(choices)).values():
        for view in group:
            c = curves[view.name]
            shown.append((view, Shown(view.result.truth[rows], c.bias, c.deviation, c.zero)))
    kept = np.arange(rows.size)
    return _picture(data, choices, shown, sweep.classes, kept, have) | {
        "interpolated": True, "findings": None, "notes": [], "interrupted": False
    }  # fmt: skip


def _picture(
    data: Data, choices: Choices, shown: Sequence[tuple[View, Shown]], found: Classes, kept: Ints, have: str | None
) -> dict[str, Any]:
    key = f"{data.number}.{found.first.size}.{kept.size}"
    base = None
    if have != key:
        who = payload.entities([v.result for v, _ in shown], found, kept)
        base = payload.base(data.x, words_of(choices), found, kept, who, CONFIDENTIAL)
    rows, times = found.first[kept], found.times[kept]
    noise = choices.noise
    return {
        "number": data.number,
        "key": key,
        "base": base,
        "results": [payload.result(v, s) for v, s in shown],
        "figures": [figures(v, s, times, rows, data.x, choices) for v, s in shown],
        "noise": noise_words(noise, choices),
        "sentence": sentence(data, choices, noise),
        "limits": limits(choices, [v for v, _ in shown]),
    }


def figures(view: View, s: Shown, times: Ints, rows: Ints, counts: Counts, choices: Choices) -> dict[str, Any]:
    """One line of the table of rules: who loses most, who gains most, the price; with the verdict."""
    per = view.per
    low, high = int(np.argmin(s.bias)), int(np.argmax(s.bias))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(s.truth > 0, s.bias / s.truth, 0.0)
    worst = int(np.argmin(part))
    rmse = float(np.sqrt(np.sum(times * (s.bias**2 + s.deviation**2)) / np.sum(times)))
    zero = float(np.sum(times * s.zero) / np.sum(times))
    alpha = float(s.bias[high] - s.bias[low])
    error = 0.0 if s.error is None else float(np.max(s.error))
    off = view.result.total_off
    if s.error is None:
        off = Estimate.around(float(np.sum(times * s.bias)) if view.result.rule.kept is None else off.value, 0.0)
    total = Unit() if view.about == "decision" else view.shown

    def amount(value: float, signed: bool = True) -> str:
        return view.shown.brief(value * per, error * per, signed=signed)

    def who(c: int) -> dict[str, Any]:
        return {
            "id": clean(counts.ids[int(rows[c])]),
            "name": clean(counts.name(int(rows[c]))),
            "alike": int(times[c]) - 1,
        }

    method = "interpolated" if s.error is None else view.result.method
    return {
        "rule": clean(view.name),
        "title": clean(view.title),
        "place": view.place,
        "task": view.result.problem.task,
        "method": method,
        "loss": {"text": amount(min(float(s.bias[low]), 0.0)), "value": -float(s.bias[low]) * per, **who(low)},
        "gain": {"text": amount(max(float(s.bias[high]), 0.0)), "value": float(s.bias[high]) * per, **who(high)},
        "relative": {"text": RELATIVE.show(min(float(part[worst]), 0.0), signed=True), "value": -float(part[worst]), **who(worst)},
        "alpha": {"text": amount(alpha, False), "value": alpha * per},
        "total": {"text": total.brief(off.value * per, half(off) * per, signed=True), "value": off.value * per},
        "rmse": {"text": amount(rmse, False), "value": rmse * per},
        "zero": {"text": CHANCE.show(zero), "value": zero},
        "verdict": _verdict(view, s, choices, {"loss": -float(s.bias[low]) * per, "relative_loss": -100 * float(part[worst]),
                                         "alpha": alpha * per, "rmse": rmse * per}),
    }  # fmt: skip


def _verdict(view: View, s: Shown, choices: Choices, reached: dict[str, float]) -> str | None:
    """Whether the limits hold: computed results are judged at the upper end of their intervals, interpolated ones as they are."""
    wanted = Targets.of(choices.targets)
    if not wanted:
        return None
    if s.error is not None and view.result.overall.verdicts:
        outcomes = {v.outcome for v in view.result.overall.verdicts}
        return "fails" if "fails" in outcomes else "unsure" if "unsure" in outcomes else "passes"
    known = [reached[name] <= limit for name, limit in wanted.limits.items() if name in reached]
    return ("passes" if all(known) else "fails") if known else None


def limits(choices: Choices, views: Sequence[View]) -> list[dict[str, Any]]:
    """The limits on losses, for the lines of the picture: in the unit of the measure they belong to."""
    out = []
    wanted = Targets.of(choices.targets).limits
    paid = any(v.cash is not None for v in views)
    if "loss" in wanted:
        unit = money(clean(choices.currency)) if paid else views[0].unit
        out.append(
            {"key": "money" if paid else "plain", "value": wanted["loss"], "text": f"limit {unit.show(wanted['loss'])}"}
        )
    if "relative_loss" in wanted:
        value = wanted["relative_loss"] / 100
        out.append({"key": "relative", "value": value, "text": f"limit {RELATIVE.show(value)}"})
    return out


def noise_words(noise: Mechanism, choices: Choices) -> dict[str, Any]:
    """What the noise does to a typical count, in words; its promise."""
    promise = choices.neighbours.promise(noise)
    moved = Unit(digits=2).show(noise.deviation)
    epsilon = None if promise.epsilon is None else float(promise.epsilon)
    return {
        "words": f"a typical count moves by {moved} {clean(choices.unit)}",
        "deviation": noise.deviation,
        "epsilon": epsilon,
        "parameter": noise.parameter,
        "spread": noise.spread,
    }


def sentence(data: Data, choices: Choices, noise: Mechanism) -> str:
    """Every choice, as one sentence."""
    x, said = data.x, noise_words(noise, choices)
    promise = "" if said["epsilon"] is None else f" at epsilon {said['epsilon']:.4g}"
    delta = "" if choices.delta is None else f", delta {choices.delta:g}"
    noisy = f"{choices.mechanism} noise{promise}{delta} ({said['words']})"
    what = f"{data.name}: {x.n:,} {choices.noun} with {count(x.total)} {choices.unit}, {noisy}"
    rules = f"post-processing by {', '.join(choices.rules)}"
    if choices.programme is not None:
        rules += f" under {choices.programme}"
    if choices.problem["budget"] is not None:
        rules += f", {money(choices.currency).brief(float(choices.budget or 0.0))} to share"
    if choices.by_group:
        rules += ", each group by itself"
    wanted = Targets.of(choices.targets).limits
    unit = "money" if choices.problem["budget"] is not None else "plain"
    told = [f"{TARGETS[k]} at most {_limit(k, v, unit, choices)}" for k, v in wanted.items()]
    parts = [what, rules, *(["wanted: " + " and ".join(told)] if told else [])]
    return clean("; ".join(parts) + ".")


def _limit(key: str, value: float, unit: str, choices: Choices) -> str:
    if unit_of(key, unit) == "percent":
        return f"{value:g} %"
    return money(choices.currency).brief(value) if unit == "money" else f"{value:g}"
