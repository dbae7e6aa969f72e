"""The table of tests/cases: reading it, asking fairpost its questions through the public door, and judging the answers.

A row's value is from an oracle (tests/support/make_cases.py) and known to `known`, an absolute error. What is judged of an answer:

- right: |answer - value| <= stated error + known, for alpha, every bias of the table, mean squares, P(0), E[T] and the cost of privacy;
- tight: the stated half-width of alpha is at most `need` of alpha (a user's three digits; 1e-6 where closed formulas answer).

An interval of simulation covers all entities together with 95 %, so a single row may miss it once in twenty. Its half-width is
at least 1.96 standard errors (more where entities share the chance). 2.2 of them are at least 4.3 standard errors: once in 60,000
normal numbers, a false alarm of all rows together in some hundred seeds, and the seed is fixed.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fairpost as fp
from fairpost.noise import Threshold
from fairpost.rules import PosThreshold, SimplexThreshold
from support.draws import labels, numbers

FOLDER = Path(__file__).resolve().parents[1] / "cases"
WIDER = {"bound": 1.0, "estimate": 1.0, "expansion": 1.0, "interval": 2.2}
ROUNDING = 1e-10
"""Values are kept to 11 digits."""
SMALL = 1e-12
"""Half-widths of alpha below this part of the noise are no news to anybody."""
NOISES = {
    "laplace": fp.Laplace, "gaussian": fp.Gaussian, "discrete-laplace": fp.DiscreteLaplace, "discrete-gaussian": fp.DiscreteGaussian,
}  # fmt: skip
ENGINES = ("exact", "expansion", "conditional", "monte-carlo", "auto")
SHARED = ("simplex", "simplex-threshold", "pos", "pos-threshold")
SIMULATED = 300
"""Simulation is asked where no more entities than these are to be drawn."""


COARSE = (1e-1, 1e-2)
"""Tolerances at which the exact engine states errors far above what values are known to."""


@dataclass(frozen=True)
class Case:
    """One row."""

    row: dict[str, Any]

    @property
    def name(self) -> str:
        """Unique."""
        return str(self.row["name"])

    @property
    def shares(self) -> bool:
        """Whether its unit is shares."""
        return self.row["rule"] in ("baseline", "pos", "pos-threshold")

    def counts(self) -> fp.Counts:
        """With weights and groups; `Missing` where a file is not here."""
        x = numbers(self.row["counts"])
        weights = numbers(self.row["weights"]) if "weights" in self.row else None
        return fp.Counts(x, weights=weights, groups=labels(self.row.get("groups"), x.size))

    def mechanism(self) -> Any:
        """The noise."""
        return NOISES[self.row["noise"]](self.row["scale"])

    def asked(self, engine: Any, **more: Any) -> fp.Audit:
        """`fp.audit`, as a user asks it."""
        counts, row = self.counts(), self.row
        if "total" in row:
            more["total"] = row["total"]
        if "threshold" in row:
            level, steep = row["threshold"]
            kind = {"simplex-threshold": SimplexThreshold, "pos-threshold": PosThreshold}[row["rule"]]
            given = Threshold(level, np.inf if steep is None else steep)
            rule = replace(kind.from_counts(counts, more.pop("total", None)), threshold=given)
            return fp.audit(counts, self.mechanism(), rule, engine=engine, **more)
        if "groups" in row:
            more["by_group"] = True
        return fp.audit(counts, self.mechanism(), row["rule"], engine=engine, **more)

    def drawn(self, parts: int) -> int:
        """Which of so many parts the row falls into, by its name alone."""
        return zlib.crc32(self.name.encode()) % parts


@cache
def table() -> tuple[Case, ...]:
    """Every row."""
    paths = [path for path in sorted(FOLDER.glob("*.jsonl")) if not path.name.startswith("known_")]
    return tuple(Case(json.loads(line)) for path in paths for line in path.read_text().splitlines())


@cache
def known(what: str) -> dict[tuple[str, str], str]:
    """KNOWN_REFUSED, KNOWN_LOOSE, KNOWN_WRONG: why, by case and engine."""
    path = FOLDER / f"known_{what}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(row["case"], row["engine"]): row["why"] for row in rows}


def covers(case: Case, engine: str) -> bool:
    """What is drawn takes time: simulation is asked about some of the short lists, and wherever its runs see nothing, conditional means about
    some; `auto` asks them wherever nobody else knows enough.
    """
    if engine == "conditional":
        return case.row["rule"] in SHARED and case.drawn(5) == 0
    if engine != "monte-carlo" or "unseen" in case.row["tags"]:
        return True
    return numbers(case.row["counts"]).size <= SIMULATED and case.drawn(4) == 0


def answer_of(case: Case, engine: str) -> fp.Audit | str | None:
    """The answer; the line of a refusal that came after work; None where the engine says that it does not cover the question."""
    more = {"runs": 4000} if engine == "monte-carlo" else {}
    try:
        return case.asked(engine, **more)
    except fp.ToleranceError as error:
        return str(error)
    except fp.UnsupportedError as error:
        return str(error) if engine == "auto" else None


def compared(case: Case, result: fp.Audit) -> dict[str, tuple[float, float]]:
    """For each quantity of the row the largest deviation from its value, and the stated error there (before what the value is known to)."""
    value, known_to = case.row["value"], case.row["known"]
    who = value.get("who", slice(None))
    found: dict[str, tuple[float, float, float]] = {}

    def one(key: str, got: Any, error: Any, kind: str) -> None:
        off = np.abs(np.asarray(got) - np.asarray(value[key]))
        stated = WIDER[kind] * np.broadcast_to(error, off.shape)
        room = stated + known_to[key] + ROUNDING * np.max(np.abs(value[key]))
        i = int(np.argmax(off - room))
        found[key] = (float(off.ravel()[i]), float(stated.ravel()[i]), float(room.ravel()[i]))

    one("alpha", result.alpha.value, result.alpha.half_width, result.alpha.kind)
    for key, got, accuracy in (
        ("bias", result.bias, result.accuracy),
        ("mse", result.moments.mse, result.moments.mse_accuracy),
        ("zero", result.moments.zero, result.moments.zero_accuracy),
    ):
        if key in value:
            one(key, got[who], np.broadcast_to(accuracy.half_width, got.shape)[who], accuracy.kind)
    if "T" in value and result.rule.expected_T is not None:
        one("T", result.rule.expected_T.value, result.rule.expected_T.half_width, result.rule.expected_T.kind)
    if "cost" in value and result.cost_of_privacy is not None:
        share = result.cost_of_privacy.share
        one("cost", share.value, share.half_width, share.kind)
    for key in ("lower", "upper"):
        if key in value and result.rule.bounds is not None:
            known_to = {**known_to, key: 1e-10 * value[key]}
            bound = result.rule.bounds.lower if key == "lower" else result.rule.bounds.theorem
            one(key, bound, result.rule.bounds.error, "bound")
    return {key: (off, room) for key, (off, _, room) in found.items()}


def wrong(case: Case, result: fp.Audit) -> str:
    """Which number lies outside its stated error, "" where none does."""
    off = [
        f"{key} is off by {gap:.3g}, stated and known together {room:.3g}"
        for key, (gap, room) in compared(case, result).items()
        if not gap <= room
    ]
    return f"{case.name}, {result.method}: {'; '.join(off)} (value from {case.row['source']})" if off else ""


def loose(case: Case, result: fp.Audit) -> bool:
    """Whether alpha is known less well than a user needs; what is far below the noise is as good as 0."""
    counts, deviation = case.counts(), case.mechanism().deviation
    a = np.asarray(counts.weights)
    unit = deviation * float(a.max()) / float(np.sum(a * counts.values)) if case.shares else deviation
    return bool(result.alpha.half_width > max(case.row["need"] * abs(result.alpha.value), SMALL * unit))


def coarse(case: Case) -> bool:
    """Whether the row is asked for one digit and two: a list of some hundred at most, by a rule that is integrated."""
    rule, said = case.row["rule"], case.row["counts"]
    return (
        rule not in ("none", "nonnegative", "sum", "sum-clipped")
        and "file" not in str(said)
        and numbers(said).size <= 150
    )
