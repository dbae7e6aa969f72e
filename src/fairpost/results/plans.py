"""What `plan` returns: the most noise that meets all targets, for one post-processing or for several."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING, Any, Literal, overload

from fairpost.accuracy import Estimate
from fairpost.errors import ParameterError
from fairpost.results import documents
from fairpost.results.base import CONFIDENTIAL, Columns, Grid, Result, Saved, known, label, noise_words, number
from fairpost.results.curves import Basis, figure
from fairpost.results.documents import Point, Refused, made, one_line, told
from fairpost.results.points import curve_columns, point_grid
from fairpost.results.targets import TARGETS, UNITS, Targets, Verdict, one_unit, unit_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

Ending = Literal["found", "none", "all", "edge", "refused"]
"""found: the targets are met here and not with a little more noise; none: by no noise in the range; all: by every noise in the
range; edge: the engine refuses the next level; refused: the engine refused every level."""
SHORT = 3
"""Digits of the epsilon that sentences state."""


def rounded(value: float, digits: int, *, up: bool) -> float:
    """`digits` significant digits, rounded one way; what is short already stays: 0.2 is 0.2, whatever its last bits."""
    way = ROUND_CEILING if up else ROUND_FLOOR
    return float(Context(prec=digits, rounding=way).create_decimal(repr(value)))


@dataclass(frozen=True, repr=False)
class Plan(Saved, Result):
    """The most noise at which one post-processing meets all targets, with the curve that shows it."""

    targets: Targets
    found: Point | None
    """The point with the most noise; None where no noise in the range meets the targets."""
    stated: Point | None
    """The same with epsilon rounded up (without one: noise rounded down) to `SHORT` digits, or to more where only those meet
    the targets: evaluated there, so that what a sentence states meets them too."""
    curve: tuple[Point, ...]
    """From little noise to much."""
    refused: tuple[Refused, ...]
    ending: Ending
    again: bool = False
    """Whether more noise meets the targets again further on, which is left aside."""
    basis: Basis = field(default_factory=Basis)
    mark: str = CONFIDENTIAL
    assumed: bool = False
    """Whether nobody gave a limit on the error, so that `max_relative_rmse` is `USUAL_ERROR`."""

    @property
    def postprocess(self) -> str:
        """The name of pi."""
        return self.curve[0].postprocess if self.curve else self.refused[0].postprocess

    @property
    def unit(self) -> str:
        """What limits are in: people, share, money, ..."""
        return self.curve[0].unit if self.curve else "share"

    @property
    def binding(self) -> str | None:
        """The target that stops the noise from growing; None where none does (every noise will do, or the engine stops it).

        Where no noise meets the targets: the one that the least noise exceeds most.
        """
        if self.ending == "none" and self.curve:
            return self.targets.binding(self.curve[0])
        return None if self.found is None or self.ending != "found" else self.targets.binding(self.found)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What is reached at the point that was found, target by target."""
        return () if self.found is None else self.targets.judge(self.found)

    @property
    def plain(self) -> bool:
        """Whether the sentence says no more than that the targets are met here and not with more noise."""
        return self.ending == "found" and not self.again

    def wanted(self, only: str | None = None) -> str:
        """The targets in words: "the largest expected loss at or below $500"."""
        parts = [
            f"{TARGETS[target]} at or below {self.basis.amount(limit, unit_of(target, self.unit))}"
            + (" (the default)" if self.assumed and target == "relative_rmse" else "")
            for target, limit in self.targets.limits.items()
            if only in (None, target)
        ]
        return " and ".join(parts)

    @property
    def message(self) -> str:
        """One sentence, with money in the currency of `basis`."""
        keeps = f"keeps {self.wanted()}"
        aside = "; more noise meets it again further on, which is left aside" if self.again else ""
        if self.ending == "refused":
            return f"the engine refused every level of noise: {self.refused[0].reason}"
        if self.ending == "none":
            why = f": the least noise already exceeds {self._which()}" if self.binding else ""
            return f"no noise in the range {keeps}{why}"
        if self.ending == "all":
            return f"every noise in the range {keeps}; more may be possible"
        if self.ending == "edge":
            return f"the engine refuses the next level of noise, so this is the most that is known{aside}"
        binds = f"; {self._which()} binds" if len(self.targets.limits) > 1 else ""
        return f"this is the most noise, and the smallest epsilon, that {keeps}{binds}{aside}"

    def _which(self) -> str:
        binding = self.binding
        return "it" if binding is None or len(self.targets.limits) == 1 else f"the limit on {TARGETS[binding]}"

    def _columns(self) -> Columns:
        """One row per point of the curve: the table of `--csv`."""
        return curve_columns(self.curve, self.mark)

    def entry(self) -> dict[str, Any]:
        """The entry of `plans` in the JSON of `fairpost plan`."""
        return told(documents.PlanEntry, self)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `fairpost plan` for this rule alone."""
        return Plans((self,)).to_dict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse of `to_dict`; a document with several plans is read by `Plans`."""
        plans = Plans.from_dict(data)
        if len(plans) != 1:
            raise ParameterError(f"this document has {len(plans)} plans: read it with Plans.from_dict")
        return plans[0]

    def plot(self, target: str | None = None) -> go.Figure:
        """A target (by default the one that binds) against epsilon or the noise, with its limit."""
        shown = target or self.binding or next(iter(self.targets.limits))
        return figure(f"{self._head()}; {self.mark}", shown, self.curve, self.targets.limits.get(shown))

    def _head(self) -> str:
        return f"Plan for {self.postprocess}: {self.wanted().replace(' at or below ', ' at most ')}"

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("answer", self.message)]
        if self.found is not None:
            p = self.found
            epsilon = "" if p.epsilon is None else f", epsilon {rounded(p.epsilon, 5, up=True):.5g}"
            facts.append(("most noise", f"{noise_words(p.mechanism)}{epsilon}"))
            facts += [
                ("reached", f"{TARGETS[v.target]} {known(v.reached, UNITS.get(v.unit, ''))}") for v in self.verdicts
            ]
            facts.append(("loses most", f"{label(p.name(p.loser))} {self.basis.amount(p.loss.value, p.unit)}"))
        return facts + [("warning", line) for line in self.basis.warnings]

    def _grid(self) -> Grid:
        return point_grid(self.curve)


@dataclass(frozen=True, repr=False)
class Plans(Saved, Result, Sequence[Plan]):
    """Plans of several post-processings for the same targets: a sequence, in the order asked for."""

    plans: tuple[Plan, ...]
    mark: str = CONFIDENTIAL

    def __post_init__(self) -> None:
        if not self.plans:
            raise ParameterError("there must be at least one plan, got none")
        if any(p.targets != self.plans[0].targets for p in self.plans):
            raise ParameterError("the plans of one answer must have the same targets, got others")
        one_unit([(p.postprocess, p.unit) for p in self.plans if p.curve], "the rules of a plan")

    def __len__(self) -> int:
        return len(self.plans)

    @overload
    def __getitem__(self, place: int) -> Plan: ...

    @overload
    def __getitem__(self, place: slice) -> Plans: ...

    def __getitem__(self, place: int | slice) -> Plan | Plans:
        return Plans(self.plans[place], self.mark) if isinstance(place, slice) else self.plans[place]

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)

    @property
    def targets(self) -> Targets:
        """What all of them must meet."""
        return self.plans[0].targets

    @property
    def basis(self) -> Basis:
        """What they were computed from."""
        return self.plans[0].basis

    @property
    def verdict(self) -> str:
        """The answer in one sentence: "pos-threshold meets $500 at epsilon 0.0331, baseline needs 1.32".

        What is stated is rounded up (noise: down) and meets the targets. The rule that needs least comes first, with the
        error that a single result then has: little bias does not make it accurate.
        """
        ranked = sorted((p for p in self.plans if p.stated is not None), key=_need)
        rest = [p.postprocess for p in self.plans if p.stated is None]
        if not ranked:
            limit = " (the default)" if self.assumed else ""
            return f"no rule meets {self._wanted(every=True)}{limit} in the range: {', '.join(rest)}"
        first = ranked[0]
        parts = [f"{first.postprocess} meets {self._wanted()} {_at(first)}"]
        parts += [f"{p.postprocess} needs {_short(p)}" for p in ranked[1:]]
        aside = f"; not in the range: {', '.join(rest)}" if rest else ""
        return f"{', '.join(parts)}{aside}; {self._error(first)}"

    def _error(self, first: Plan) -> str:
        """The typical error of the rule that comes first, where the verdict states it; and the limit that nobody gave."""
        p = first.stated
        assert p is not None
        part = p.quantity("relative_rmse")
        of = "" if part is None else f", {number(float(f'{part.value:.3g}'))} % of the mean of what is due"
        binds = ", which binds" if first.binding == "relative_rmse" else ""
        limit = f" (at most {self.targets.max_relative_rmse:g} % by default{binds})" if self.assumed else ""
        off = "" if p.total_off is None or p.unit != "people" else self._total(p.total_off)
        return f"the typical error of {first.postprocess} is {self.basis.amount(p.rmse.value, p.unit)}{of}{limit}{off}"

    def _total(self, off: Estimate) -> str:
        """A total that the rule breaks, where it is known to."""
        if off.low <= 0 <= off.high:
            return ""
        return f"; all results together miss the true total by {self.basis.amount(abs(off.value), 'people')}"

    @property
    def assumed(self) -> bool:
        """Whether nobody gave a limit on the error, so that a usual one holds."""
        return self.plans[0].assumed

    def _wanted(self, *, every: bool = False) -> str:
        """The targets in a word or two each; a limit that nobody gave only where `every` one is wanted."""
        limits, basis = dict(self.targets.limits), self.basis
        if self.assumed and not every:
            del limits["relative_rmse"]
        unit = next((p.unit for p in self.plans if p.curve), "share")
        if list(limits) == ["loss"]:
            return basis.amount(limits["loss"], unit)
        amounts = (f"{SHORTLY[t]} {basis.amount(v, unit_of(t, unit))}" for t, v in limits.items())
        return " and ".join(amounts)

    def _columns(self) -> Columns:
        """One row per point of every curve: the table of `--csv`."""
        return curve_columns(tuple(p for plan in self.plans for p in plan.curve), self.mark)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `fairpost plan`."""
        assumed = ["max_relative_rmse"] if self.assumed else []
        plans = [p.entry() for p in self.plans]
        return documents.document("plan", self, assumed=assumed, plans=plans, **self.basis.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plans:
        """The inverse of `to_dict`: everything that `fairpost plan --json` writes."""
        read: documents.Plan = documents.read_document("plan", data)
        with one_line("this plan"):
            return cls(tuple(_plan(p, read) for p in read.plans), read.mark)

    def plot(self, target: str | None = None) -> go.Figure:
        """A target (by default the first) against epsilon or the noise, one line per rule, with its limit."""
        shown = target or next(iter(self.targets.limits))
        points = [p for plan in self.plans for p in plan.curve]
        return figure(f"{self._head()}; {self.mark}", shown, points, self.targets.limits.get(shown))

    def _head(self) -> str:
        return f"Plans: {self.verdict}"

    def _facts(self) -> list[tuple[str, str]]:
        return [(p.postprocess, p.message) for p in self.plans[:6]]

    def _grid(self) -> Grid:
        return point_grid([p.found for p in self.plans if p.found is not None])


SHORTLY = {
    "alpha": "alpha", "loss": "loss", "relative_loss": "relative loss", "cost": "cost of privacy", "rmse": "RMSE",
    "relative_rmse": "relative RMSE",
}  # fmt: skip
"""What is limited, in a word or two."""


def _need(p: Plan) -> tuple[float, float]:
    """What a plan needs: its epsilon; without one the less noise, the more it needs."""
    assert p.stated is not None
    epsilon = math.inf if p.stated.epsilon is None else p.stated.epsilon
    return epsilon, -p.stated.mechanism.spread


def _short(p: Plan) -> str:
    """The number that a sentence states: of `stated`, in as many digits as it was rounded to."""
    assert p.stated is not None
    s = p.stated
    return f"{s.mechanism.parameter} {s.mechanism.spread:.12g}" if s.epsilon is None else f"{s.epsilon:.12g}"


def _at(p: Plan) -> str:
    assert p.stated is not None
    more = " (the least in the range)" if p.ending == "all" else ""
    return f"at {'' if p.stated.epsilon is None else 'epsilon '}{_short(p)}{more}"


def _plan(data: documents.PlanEntry, document: documents.Plan) -> Plan:
    return made(
        Plan,
        data,
        targets=Targets.of(told(documents.Targets, document.targets)),
        assumed=bool(document.assumed),
        basis=Basis.told(document),
        mark=document.mark,
    )
