"""What a page asks: one JSON object, checked key by key, and the question that it makes.

The keys are the options of the commands under the same names, so that a choice on the page can be written as a command.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from fairpost.errors import ParameterError
from fairpost.noise import MECHANISMS, Law, Neighbours, mechanism_of
from fairpost.problems.programme import NAMES
from fairpost.results.targets import Targets
from fairpost.rules import PAYING, POSTPROCESSINGS

METHODS = ("auto", "exact", "expansion", "conditional", "monte-carlo")
MOST_RUNS = 10_000_000
LONGEST = 200


@dataclass(frozen=True)
class Chosen:
    """What officers and analysts both choose: the noise, and the rules."""

    mechanism: str = "laplace"
    epsilon: float | None = None
    scale: float | None = None
    sigma: float | None = None
    rho: float | None = None
    delta: float | None = None
    sensitivity: float = 1.0
    postprocess: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choices(Chosen):
    """Everything that can be chosen for an audit of true counts; defaults are those of the commands."""

    total: float | None = None
    budget: float | None = None
    by_group: bool = False
    programme: str | None = None
    method: str = "auto"
    runs: int | None = None
    seed: int | None = None
    confidence: float | None = None
    targets: Mapping[str, float] = field(default_factory=dict)
    any_error: bool = False
    """Of a plan: no limit on the error by default."""
    unit: str = "people"
    noun: str = "entities"
    currency: str = "$"

    @classmethod
    def of(cls, data: object) -> Choices:
        """From JSON; what is not a key, not of its kind or out of its range is named."""
        given = keys(data, {f.name for f in fields(cls)})
        made = {name: _KINDS[name](name, value) for name, value in given.items() if value is not None}
        found = cls(**made)
        if found.method not in METHODS:
            raise ParameterError(f"`method` must be one of {', '.join(METHODS)}, got {found.method!r}")
        if found.programme is not None and found.programme not in NAMES:
            raise ParameterError(f"`programme` must be one of {', '.join(NAMES)}, got {found.programme!r}")
        Targets.of(found.targets)
        for name in found.postprocess:
            if name not in POSTPROCESSINGS and name not in PAYING:
                known = ", ".join((*POSTPROCESSINGS, *PAYING))
                raise ParameterError(f"a post-processing must be one of {known}, got {name!r}")
        return found

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules, each once; those of the commands where none was chosen."""
        if self.postprocess:
            return tuple(dict.fromkeys(self.postprocess))
        if self.programme is not None:
            return ("as-written",)
        return (
            ("baseline", "pos", "pos-threshold")
            if self.budget is not None
            else ("nonnegative", "simplex", "simplex-threshold")
        )

    @property
    def neighbours(self) -> Neighbours:
        """Sensitivity and delta."""
        return Neighbours(self.sensitivity, self.delta)

    @property
    def kind(self) -> type[Law]:
        """The class of the mechanism."""
        if self.mechanism not in MECHANISMS:
            raise ParameterError(f"`mechanism` must be one of {', '.join(MECHANISMS)}, got {self.mechanism!r}")
        return MECHANISMS[self.mechanism]

    @property
    def noise(self) -> Law:
        """M."""
        given = {k: getattr(self, k) for k in ("epsilon", "rho", "scale", "sigma")}
        return mechanism_of(self.mechanism, **given, neighbours=self.neighbours)

    def at(self, epsilon: float) -> Choices:
        """The same at another epsilon."""
        return replace(self, epsilon=epsilon, scale=None, sigma=None, rho=None)

    @property
    def settings(self) -> dict[str, Any]:
        """Of the engine."""
        drawn = ("seed", "confidence")
        names = {"auto": ("runs", *drawn), "monte-carlo": ("runs", *drawn), "conditional": drawn}.get(self.method, ())
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def problem(self) -> dict[str, Any]:
        """What all rules are asked about, as `audit` takes it; a total or budget that no rule looks at is left out."""
        known = {**POSTPROCESSINGS, **PAYING}
        kinds = [known[name] for name in self.rules]
        shares = any(name in PAYING or kind.name in SHARING for name, kind in zip(self.rules, kinds, strict=True))
        return {
            "total": self.total if any(kind.keeps_total for kind in kinds) else None,
            "budget": self.budget if shares else None,
            "by_group": self.by_group,
            "programme": self.programme,
        }

    @property
    def key(self) -> tuple[Any, ...]:
        """Everything that decides the numbers but the amount of noise: what a sweep over the noise belongs to."""
        problem = tuple(self.problem.items())
        return (
            self.mechanism,
            self.sensitivity,
            self.delta,
            self.rules,
            problem,
            self.method,
            tuple(self.settings.items()),
        )

    @property
    def answers(self) -> tuple[Any, ...]:
        """What an engine's answer for one rule depends on beside the counts and the noise; money comes after it."""
        return (self.total, self.by_group, self.programme, self.method, tuple(self.settings.items()))


SHARING = ("baseline", "pos", "pos-threshold")


def keys(data: object, known: set[str]) -> dict[str, Any]:
    """A JSON object with these keys and no others."""
    if not isinstance(data, dict):
        raise ParameterError(f"the body must be a JSON object, got {type(data).__name__}")
    for name in data:
        if name not in known:
            raise ParameterError(f"a key must be one of {', '.join(sorted(known))}, got {str(name)[:60]!r}")
    return data


def number(name: str, value: object) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParameterError(f"`{name}` must be a number, got {str(value)[:60]!r}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ParameterError(f"`{name}` must be finite, got {str(value)[:60]}")
    return found


def whole(name: str, value: object) -> int:
    """A whole number from 0 on, not beyond all bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise ParameterError(f"`{name}` must be a whole number of at least 0, got {str(value)[:60]!r}")
    if name == "runs" and value > MOST_RUNS:
        raise ParameterError(f"`runs` must be at most {MOST_RUNS:,} on the page, got {value}")
    return value


def text(name: str, value: object) -> str:
    """Text, not too long."""
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ParameterError(f"`{name}` must be text of at most {LONGEST} characters, got {str(value)[:60]!r}")
    return value


def flag(name: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ParameterError(f"`{name}` must be true or false, got {str(value)[:60]!r}")
    return value


def texts(name: str, value: object) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list) or len(value) > 32:
        raise ParameterError(f"`{name}` must be a list of at most 32 names, got {str(value)[:60]!r}")
    return tuple(text(name, one) for one in value)


def numbers(name: str, value: object) -> dict[str, float]:
    """An object of numbers; those that are null are left out."""
    if not isinstance(value, dict) or len(value) > 32:
        raise ParameterError(f"`{name}` must be an object of numbers, got {str(value)[:60]!r}")
    return {text(name, k): number(f"{name}.{str(k)[:40]}", v) for k, v in value.items() if v is not None}


_KINDS: dict[str, Any] = (
    dict.fromkeys(("mechanism", "programme", "method", "unit", "noun", "currency"), text)
    | dict.fromkeys(
        ("epsilon", "scale", "sigma", "rho", "delta", "sensitivity", "total", "budget", "confidence"), number
    )
    | {"postprocess": texts, "by_group": flag, "any_error": flag, "runs": whole, "seed": whole, "targets": numbers}
)
