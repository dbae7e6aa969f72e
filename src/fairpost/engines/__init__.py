"""How B is found: exact integrals, expansions, conditional means, simulation; `FirstOf` asks them in turn.

Heavy libraries are imported by the engine that needs them, when it works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fairpost.engines.base import Answer, Engine, Question, Refusal
from fairpost.engines.conditional.engine import Conditional
from fairpost.engines.exact import Exact
from fairpost.engines.expansion.engine import Expansion
from fairpost.engines.first_of import FirstOf
from fairpost.engines.montecarlo.engine import MonteCarlo
from fairpost.errors import ParameterError

NAMES: Mapping[str, tuple[type[Any], ...]] = {
    "auto": (Exact, Expansion, Conditional, MonteCarlo),
    "exact": (Exact,),
    "expansion": (Expansion,),
    "conditional": (Conditional,),
    "monte-carlo": (MonteCarlo,),
}
"""Each name and the engines that are asked, in this order."""


def engine_of(engine: str | Engine = "auto", **settings: Any) -> Engine:
    """An engine by its name, made with these settings (those that are None are not given); an object has its own.

    Every setting must belong to one of the engines of that name: none is dropped in silence.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if not isinstance(engine, str):
        if given:
            raise ParameterError(
                f"`{next(iter(given))}` is a setting of an engine by name; an engine object has its own"
            )
        return engine
    if engine not in NAMES:
        raise ParameterError(f"`engine` must be one of {', '.join(NAMES)} or an engine object, got {engine!r}")
    known = [{f.name for f in fields(kind) if f.init} for kind in NAMES[engine]]
    for name in given:
        if not any(name in some for some in known):
            raise ParameterError(f"`{name}` is no setting of the engine {engine!r}")
    made = [
        kind(**{name: value for name, value in given.items() if name in some})
        for kind, some in zip(NAMES[engine], known, strict=True)
    ]
    return made[0] if len(made) == 1 else FirstOf(tuple(made))


__all__ = [
    "NAMES",
    "Answer",
    "Conditional",
    "Engine",
    "Exact",
    "Expansion",
    "FirstOf",
    "MonteCarlo",
    "Question",
    "Refusal",
    "engine_of",
]
