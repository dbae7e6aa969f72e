"""What the routes compute, as plain data: the documents of `--json`, the picture of the page, a plan, a frontier, levels, shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from fairpost import __version__, cancel
from fairpost.allocate import ALLOCATIONS, allocate, by_law
from fairpost.audit import Asked
from fairpost.errors import Cancelled, ParameterError
from fairpost.explore import between, picture
from fairpost.explore.choices import Choices, Chosen, flag, keys, number, numbers, text, texts, whole
from fairpost.explore.jobs import STOPPED
from fairpost.explore.session import Session
from fairpost.hierarchy.audit import audit_hierarchy
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.result import HierarchyAudit
from fairpost.hierarchy.rules import RULES, rule_of
from fairpost.hierarchy.simulation import Simulation
from fairpost.noise import MECHANISMS, Law, Neighbours, mechanism_of
from fairpost.plan import NAMED, frontier, plan, sweep
from fairpost.problems.programme import NAMES, builtin
from fairpost.results.allocation import Allocation, allocation_data
from fairpost.results.audit import CONFIDENTIAL, Audit
from fairpost.results.comparison import Comparison
from fairpost.results.targets import Targets
from fairpost.rules import PAYING

Tell = Callable[[int, int], None]


def silent(done: int, of: int) -> None:
    """Nobody wants to know."""


def audits(session: Session, choices: Choices, tell: Tell = silent) -> tuple[Audit, ...]:
    """The audits; a simulation that the reader stops gives what it has."""
    try:
        return session.results(choices, tell)
    except Cancelled as error:
        return tuple(one for one in _stopped(error) if isinstance(one, Audit)) or _again(error)


def _stopped(error: Cancelled) -> tuple[Any, ...]:
    """What was reached, where the reader has stopped it; else the error goes on."""
    if str(error) != STOPPED:
        raise error
    with cancel.by(None):
        return tuple(error.reached or ())


def _again(error: Cancelled) -> Any:
    raise error


def audit_document(session: Session, choices: Choices, entities: bool, tell: Tell = silent) -> dict[str, Any]:
    """The JSON of `fairpost audit`."""
    found = audits(session, choices, tell)
    return Comparison(found, choices.neighbours).to_dict(entities=entities)


def check(session: Session, choices: Choices) -> None:
    """What is wrong is said before anything begins: no table, no noise, one limit for rules of different units."""
    x, problem, _ = session.mapped.x, choices.problem, choices.noise
    asked = Asked(**problem)
    Targets.of(choices.targets).refuse_mixed(asked.units(asked.rules(choices.rules, x)))


def picture_of(session: Session, choices: Choices, have: str | None, tell: Tell = silent) -> dict[str, Any]:
    """The picture, computed."""
    session.sweep(choices)
    return picture.exact(session.mapped, choices, audits(session, choices, tell), have) | {
        "prepared": prepared(session, choices)
    }


def prepared(session: Session, choices: Choices) -> dict[str, int]:
    """How far the sweep behind the slider has come."""
    return {"done": session.sweep(choices).done, "of": between.POINTS}


def quick_picture(session: Session, choices: Choices, have: str | None) -> dict[str, Any] | None:
    """The picture, interpolated, if the sweep has come that far."""
    found = session.sweep(choices)
    epsilon = choices.neighbours.epsilon(choices.noise)
    curves = None if epsilon is None else found.at(epsilon)
    if curves is None:
        return None
    return picture.interpolated(session.mapped, choices, found, curves, have) | {"prepared": prepared(session, choices)}


def spreads(choices: Choices) -> list[float]:
    """The levels of noise of a plan or a sweep, from little noise to much: every second one of those behind the slider."""
    about = choices.neighbours
    return sorted(mechanism_of(choices.mechanism, epsilon=e, neighbours=about).spread for e in between.levels()[::2])


def _same(session: Session, choices: Choices, tell: Tell) -> dict[str, Any]:
    return choices.problem | {
        "engine": session.engine(choices, behind=True), "epsilon": choices.neighbours.epsilon, "progress": tell, "currency": choices.currency
    }  # fmt: skip


def plan_document(session: Session, choices: Choices, tell: Tell = silent) -> dict[str, Any]:
    """The JSON of `fairpost plan`: the smallest epsilon that meets the targets, for each rule."""
    kind: Any = choices.kind
    targets: dict[str, Any] = Targets.of(choices.targets).to_dict()
    if not choices.targets:
        raise ParameterError('a plan needs `targets`, such as {"max_loss": 500}, got none')
    session.swept(choices, tell)
    found = plan(
        session.mapped.x,
        kind,
        list(choices.rules),
        spreads=spreads(choices),
        **_same(session, choices, tell),
        any_error=choices.any_error,
        **targets,
    )
    return found.to_dict()


def sweep_document(session: Session, choices: Choices, tell: Tell = silent) -> dict[str, Any]:
    """The JSON of `fairpost sweep`."""
    kind: Any = choices.kind
    levels = [kind(s) for s in spreads(choices)]
    found = sweep(session.mapped.x, levels, list(choices.rules), **_same(session, choices, tell))
    return found.to_dict()


def frontier_document(session: Session, choices: Choices) -> dict[str, Any]:
    """Fairness against accuracy: `frontier` in the JSON of `fairpost audit`."""
    if choices.programme is not None or choices.method != "auto":
        raise ParameterError(
            "fairness against accuracy is of threshold rules, with the usual engine and without a programme"
        )
    problem, noise = choices.problem, choices.noise
    rule = (
        "pos-threshold"
        if problem["budget"] is not None or any(r in NAMED["pos-threshold"] for r in choices.rules)
        else "simplex-threshold"
    )
    names = NAMED[rule]
    usual = {k: problem[k] for k in ("by_group",)} | (
        {"budget": problem["budget"]} if rule == "pos-threshold" else {"total": problem["total"]}
    )
    beside = Asked(**usual).outcomes(session.mapped.x, noise, names, session.engine(choices, behind=True))
    named = [one for one in beside if isinstance(one, Audit)]
    session.jobs.behind()
    with session.jobs.turn():
        found = frontier(session.mapped.x, noise, rule, points=11, beside=named or None, **usual)
    return found.to_dict()


# ---- levels
@dataclass(frozen=True)
class LevelChoices:
    """The noise and the rules of a hierarchy: rho and each level's share of it."""

    rho: float = 1.0
    split: tuple[float, ...] = ()
    mechanism: str = "discrete-gaussian"
    postprocess: tuple[str, ...] = ("top-down", "blue-down", "blue-down-threshold")
    runs: int = 500
    seed: int = 0

    @classmethod
    def of(cls, data: object) -> LevelChoices:
        """From JSON."""
        given = {k: v for k, v in keys(data, {f.name for f in fields(cls)}).items() if v is not None}
        kinds: dict[str, Any] = {"rho": number, "mechanism": text, "postprocess": texts, "runs": whole, "seed": whole}
        made = {k: kinds[k](k, v) for k, v in given.items() if k in kinds}
        if "split" in given:
            made["split"] = tuple(numbers("split", dict(enumerate_keys(given["split"]))).values())
        found = cls(**made)
        for name in found.postprocess:
            if name not in RULES:
                raise ParameterError(f"a post-processing of levels must be one of {', '.join(RULES)}, got {name!r}")
        return found


def enumerate_keys(values: object) -> list[tuple[str, Any]]:
    """A list as pairs of its places and entries."""
    if not isinstance(values, list) or len(values) > 16:
        raise ParameterError(f"`split` must be a list of at most 16 numbers, got {str(values)[:60]!r}")
    return [(str(k), v) for k, v in enumerate(values)]


def levels_document(
    session: Session, chosen: LevelChoices, entities: bool, most: int, tell: Tell = silent
) -> dict[str, Any]:
    """The JSON of `fairpost audit --levels`."""
    data, tree = session.mapped, session.mapped.tree
    names = tree.names[1:]
    split = chosen.split or tuple([1.0 / len(names)] * len(names))
    noise = LevelNoise(tree, rho=chosen.rho, split=list(split), kind=chosen.mechanism)
    done: list[HierarchyAudit] = []

    def progress(runs: int, of: int) -> None:
        tell(len(done) * of + runs, len(chosen.postprocess) * of)

    how = Simulation(runs=max(chosen.runs, 2), seed=chosen.seed, progress=progress)
    for name in dict.fromkeys(chosen.postprocess):
        try:
            done.append(
                audit_hierarchy(data.x.values, noise, rule_of(name, tree), groups=data.x.groups, simulation=how)
            )
        except Cancelled as error:
            if str(error) != STOPPED or (error.reached is None and not done):
                raise
            done += [] if error.reached is None else [error.reached]
            break
    first = done[0]
    return {
        "mark": CONFIDENTIAL,
        "counts": {"n": tree.n, "total": float(first.leaves.truth.sum())},
        "mechanism": first.noise.describe(),
        "results": [_trimmed(r.to_dict(entities=entities or most > 0), most) for r in done],
    }


def _trimmed(result: dict[str, Any], most: int) -> dict[str, Any]:
    """At most so many units per level, those with the largest biases; 0: all."""
    for level in result["levels"] if most else ():
        level["entities"] = sorted(level["entities"], key=lambda one: -abs(one["bias"]))[:most]
    return result


# ---- the analyst
@dataclass(frozen=True)
class ShareChoices(Chosen):
    """What an analyst chooses: the public noise, the rules, the money."""

    budget: float | None = None
    group_budget: tuple[tuple[str, float], ...] = ()
    programme: str | None = None
    confidence: float = 0.95
    simultaneous: bool = False
    estimate: bool = True
    seed: int = 0

    @classmethod
    def of(cls, data: object) -> ShareChoices:
        """From JSON."""
        given = {k: v for k, v in keys(data, {f.name for f in fields(cls)}).items() if v is not None}
        real = ("epsilon", "scale", "sigma", "rho", "delta", "sensitivity", "budget", "confidence")
        kinds: dict[str, Any] = dict.fromkeys(real, number) | {
            "mechanism": text, "programme": text, "postprocess": texts, "simultaneous": flag, "estimate": flag, "seed": whole,
            "group_budget": lambda name, value: tuple(numbers(name, value).items()),
        }  # fmt: skip
        found = cls(**{k: kinds[k](k, v) for k, v in given.items()})
        if found.mechanism not in MECHANISMS:
            raise ParameterError(f"`mechanism` must be one of {', '.join(MECHANISMS)}, got {found.mechanism!r}")
        if found.programme is not None and found.programme not in NAMES:
            raise ParameterError(f"`programme` must be one of {', '.join(NAMES)}, got {found.programme!r}")
        if found.group_budget and found.budget is not None:
            raise ParameterError("money is given by `budget` or by `group_budget`, got both")
        known = PAYING if found.programme is not None else ALLOCATIONS
        for name in found.postprocess:
            if name not in known:
                raise ParameterError(f"a rule must be one of {', '.join(known)}, got {name!r}")
        return found

    @property
    def neighbours(self) -> Neighbours:
        """Sensitivity and delta."""
        return Neighbours(self.sensitivity, self.delta)

    @property
    def noise(self) -> Law | None:
        """The public noise, where it is known."""
        given = {k: getattr(self, k) for k in ("epsilon", "rho", "scale", "sigma")}
        if all(v is None for v in given.values()):
            return None
        return mechanism_of(self.mechanism, **given, neighbours=self.neighbours)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules, each once; those of `fairpost allocate` where none was chosen."""
        if self.postprocess:
            return tuple(dict.fromkeys(self.postprocess))
        if self.programme is not None:
            return ("as-written",)
        return tuple(k for k in ALLOCATIONS if k != "pos-threshold" or self.noise is not None)


def shares(session: Session, chosen: ShareChoices, tell: Tell = silent) -> list[Allocation]:
    """One allocation per rule, from noisy counts alone."""
    y, noise = session.mapped.y, chosen.noise
    known: Any = (
        {"confidence": chosen.confidence, "simultaneous": chosen.simultaneous, "seed": chosen.seed}
        if noise is not None
        else {}
    )
    money: Any = (
        {"budget": dict(chosen.group_budget), "by_group": True} if chosen.group_budget else {"budget": chosen.budget}
    )
    out = []
    for k, how in enumerate(chosen.rules):
        cancel.check()
        if chosen.programme is not None:
            out.append(by_law(y, builtin(chosen.programme), how, noise, **money, **known))
        else:
            more = known | {"estimate_bias": noise is not None and chosen.estimate, "names": y.names}
            out.append(allocate(y.values, y.weights, how, noise, ids=y.ids, groups=y.groups, **money, **more))
        tell(k + 1, len(chosen.rules))
    return out


def shares_document(session: Session, chosen: ShareChoices, tell: Tell = silent) -> dict[str, Any]:
    """The JSON of `fairpost allocate`."""
    return allocation_data(shares(session, chosen, tell), neighbours=chosen.neighbours)


def state(session: Session) -> dict[str, Any]:
    """What the page needs to know at its start."""
    data = session.data
    out: dict[str, Any] = {
        "version": __version__,
        "mode": session.mode,
        "loaded": session.source is not None,
        "mapped": data is not None,
    }
    if data is not None:
        groups = data.x.groups if data.counts is not None else data.y.groups
        labels = [] if groups is None else list(dict.fromkeys(groups))
        out |= {
            "name": data.name,
            "number": data.number,
            "n": data.x.n if data.counts is not None else len(data.y),
            "total": None if data.counts is None else data.x.total,
            "columns": data.columns,
            "groups": len(labels),
            "group_names": labels[:200],
            "base": (data.x.base if data.counts is not None else data.y.base) is not None,
            "levels": None if data.levels is None else list(data.levels),
            "defaults": session.defaults,
            "prepared": None if session.latest is None else {"done": session.latest.done, "of": between.POINTS},
        }
    return out
