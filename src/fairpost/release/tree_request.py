"""From what a user says about levels to the levels of a request: amounts stay ratios, and nothing is exact by silence.

In an audit a level without noise is a model. In a release it is a disclosure of true counts, so here it must be named
(`exact`), must be an invariant of the ledger, and is listed as unprotected; a share of 0 or a sigma of 0 for any other
level is refused. The root alone may be left out: then it is not measured, and rules estimate it from the levels below, unless
a public total is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fairpost.errors import ParameterError
from fairpost.hierarchy.levels import LevelNoise
from fairpost.hierarchy.tree import ROOT, Hierarchy
from fairpost.release.amounts import amount, float_up, rho_of_pure, share, text
from fairpost.release.ledger import Terms
from fairpost.release.noise import MECHANISMS, Law
from fairpost.release.request import Level, Sensitivity, level_of

Amounts = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class Split:
    """What was said about the noise of the levels."""

    epsilon: Any = None
    rho: Any = None
    mechanism: str | None = None
    split: Amounts | None = None
    sigmas: Amounts | None = None
    exact: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Split:
        """Out of the arguments of a release; a `LevelNoise` whose amounts are texts says it all."""
        names = given.get("exact") or ()
        exact = tuple(part.strip() for part in names.split(",")) if isinstance(names, str) else tuple(names)
        kind = given.get("mechanism")
        noise = given.get("noise")
        if noise is None:
            words = {k: _listed(given.get(k)) for k in ("split", "sigmas")}
            return cls(given.get("epsilon"), given.get("rho"), kind, words["split"], words["sigmas"], exact)
        if not isinstance(noise, LevelNoise):
            raise ParameterError(f"`noise` must be a LevelNoise, got a {type(noise).__name__}")
        said = [k for k in ("epsilon", "rho", "split", "sigmas", "exact", "mechanism") if given.get(k)]
        if said:
            raise ParameterError(f"the noise of levels is given by `noise` or by `{said[0]}`, got both")
        asked = noise.asked
        return cls(None, asked["rho"], noise.kind, asked["split"], asked["sigmas"], tuple(asked["exact"]))


def _listed(given: Any) -> Any:
    """`.4,.6` as texts; anything else as it is."""
    if not isinstance(given, str):
        return given
    return [f"0{part.strip()}" if part.strip().startswith(".") else part.strip() for part in given.split(",")]


def levels_of(
    terms: Terms, sensitivity: Sensitivity, tree: Hierarchy, said: Split
) -> tuple[tuple[Level, ...], str | None]:
    """The noisy levels, top first, and the deepest exact one."""
    exact = max((tree.level(name) for name in said.exact), default=-1)
    if exact == tree.depth:
        raise ParameterError(f"the level of the leaves, {tree.names[-1]!r}, must have noise, got it as exact")
    found = (
        _by_loss(terms, sensitivity, tree, said) if said.sigmas is None else _by_scale(terms, sensitivity, tree, said)
    )
    levels = []
    for k, level in enumerate(found):
        if level is None and (k > exact and k > 0):
            raise ParameterError(
                f"level {tree.names[k]!r} would be published without noise, got 0 or nothing for it: give it noise, or name "
                "it in exact (--exact), which says so in the statement"
            )
        if level is not None and k > exact:
            levels.append(level)
    return tuple(levels), None if exact < 0 else tree.names[exact]


def _by_loss(terms: Terms, sensitivity: Sensitivity, tree: Hierarchy, said: Split) -> list[Level | None]:
    """Each level's share of epsilon or rho."""
    if said.split is None:
        raise ParameterError(
            f"a loss over levels needs its split: the share of each of {', '.join(tree.names[1:])} (--split), or the noise "
            "of each (--level-sigma), got neither"
        )
    level_of(
        terms, sensitivity, ROOT, 1, epsilon=said.epsilon, rho=said.rho, mechanism=said.mechanism
    )  # checks the words
    shares = _by_level(tree, said.split, "split")
    total = sum(shares, Fraction(0))
    if total > 1:
        raise ParameterError(f"the shares of a split must be at most 1 together, got a sum of {text(total)}")
    out: list[Level | None] = []
    for k, p in enumerate(shares):
        if p == 0:
            out.append(None)
            continue
        pure = said.epsilon is not None
        loss = amount(said.epsilon if pure else said.rho, "epsilon" if pure else "rho") * p
        kind = "discrete-laplace" if pure else "discrete-gaussian"
        D = _sensitivity(sensitivity, tree, k, kind)
        law = Law.laplace(loss, D) if pure else Law.gaussian(loss, D)
        out.append(_level(terms, tree, k, law, D, loss if pure else None, None if pure else loss))
    return out


def _by_scale(terms: Terms, sensitivity: Sensitivity, tree: Hierarchy, said: Split) -> list[Level | None]:
    """Each level's own sigma (or b): its loss is D^2 / (2 sigma^2) (or D / b), and the sampler's float is rounded up."""
    assert said.sigmas is not None
    if said.epsilon is not None or said.rho is not None or said.split is not None:
        raise ParameterError("the noise of levels is given by sigmas, or by a loss and its split, got both")
    kind = said.mechanism or "discrete-gaussian"
    if kind not in MECHANISMS:
        raise ParameterError(f"`mechanism` must be one of {', '.join(MECHANISMS)}, got {kind!r}")
    if terms.measure == "pure" and kind == "discrete-gaussian":
        raise ParameterError("a ledger of pure DP takes discrete-laplace noise (--mechanism), got discrete-gaussian")
    out: list[Level | None] = []
    for k, s in enumerate(_by_level(tree, said.sigmas, "sigmas")):
        if s == 0:
            out.append(None)
            continue
        D = _sensitivity(sensitivity, tree, k, kind)
        pure = kind == "discrete-laplace"
        epsilon, rho = (D / s, None) if pure else (None, D / (2 * s * s))
        out.append(_level(terms, tree, k, Law(kind, float_up(s)), D, epsilon, rho))
    return out


def _sensitivity(sensitivity: Sensitivity, tree: Hierarchy, k: int, kind: str) -> Fraction:
    return sensitivity.value if k == tree.depth else sensitivity.above(kind)


def _level(
    terms: Terms, tree: Hierarchy, k: int, law: Law, D: Fraction, epsilon: Fraction | None, rho: Fraction | None
) -> Level:
    """A level of the tree with its loss in the ledger's measure."""
    r = rho if rho is not None else rho_of_pure(epsilon or Fraction(0))
    loss = epsilon if terms.measure == "pure" and epsilon is not None else r
    return Level(tree.names[k], tree.size(k), law, loss, epsilon, r, sensitivity=D)


def _by_level(tree: Hierarchy, given: Amounts, what: str) -> list[Fraction]:
    """One ratio a level, root first; 0 where nothing was said."""
    names: Iterable[str] = tree.names
    if isinstance(given, Mapping):
        found = {tree.names[tree.level(name)]: value for name, value in given.items()}
        return [share(found.get(name, 0), f"{what} of {name}") for name in names]
    values = list(given)
    if len(values) == tree.depth:
        values = [0, *values]
    if len(values) != len(tree.names):
        raise ParameterError(
            f"`{what}` must have one entry for each of {', '.join(tree.names[1:])} (or one more for the root), "
            f"got {len(values)}"
        )
    return [share(value, f"{what} of {name}") for value, name in zip(values, names, strict=True)]


def check_neighbours(noise: LevelNoise | None, levels: Sequence[Level]) -> None:
    """A `LevelNoise` by rho was made for a sensitivity; what the ledger derives must be the same, or audit and release differ."""
    if noise is None or noise.rho is None:
        return
    for level in levels:
        squared = level.sensitivity or Fraction(0)
        if abs(noise.sensitivity**2 - float(squared)) > 1e-9 * float(squared):
            raise ParameterError(
                f"the noise was made for a sensitivity of {noise.sensitivity:.6g}, and the ledger gives level {level.name!r} "
                f"the square root of {text(squared)}: make it with that"
            )
