"""Noise on every level of a tree: which, how much, and which levels are published exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import ParameterError, value
from fairpost.hierarchy.tree import ROOT, Hierarchy
from fairpost.noise import MECHANISMS, Law, mechanism_of
from fairpost.noise.privacy import Neighbours

Floats = NDArray[np.float64]
KINDS = ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian")
"""The numbers of `kernels.draw`."""
SLACK = 1e-9
"""Shares may add up to 1 and so much."""
FAR = 2.0**60
"""A root that is not measured enters estimates with so many times the variance of the sum below it: it does not count."""
LEAST = 1e-100
"""Noise of a variance below this (where a float is 0) has this one: a level with noise must never be taken for an exact one."""
Number = float | str | Fraction
"""Amounts may be texts such as "0.4" or "1/3", which a release needs: they stay exact there, and are floats here."""

# The 2020 Census, redistricting data, persons. Shares of rho by level: DAS configuration `person_US.ini` and the production
# certificate; rho = 293764/114921 = s^-2 with s = 339/542, and the noise of a query with share p has sigma^2 = s^2 / p,
# that is rho p = 1 / sigma^2: the zCDP rule D^2 / (2 sigma^2) with D^2 = 2, since the Bureau's neighbours differ by one
# record changed, which moves one person from one cell to another.
CENSUS_RHO = 293764 / 114921
CENSUS_SHARES = {"all": 104, "state": 1440, "county": 447, "tract": 687, "block group": 1256, "block": 165}
CENSUS_WHOLE = 4099
CENSUS_SENSITIVITY = float(np.sqrt(2.0))
SYNONYMS = {"bg": "block group", "blockgroup": "block group", "block_group": "block group", "us": "all"}


@dataclass(frozen=True, eq=False, repr=False)
class LevelNoise:
    """Independent noise of one kind on the count of every node, with one parameter a level.

    Give either the parameters or a rho and how it is split. A level that is exact (0) makes every level above it exact,
    because its sums are. The root's total is known unless it gets a parameter or a share of its own, that is where there
    is one entry more than named levels.

    Parameters
    ----------
    tree
        The hierarchy.
    sigmas
        The parameter of each level, top first, in counts: sigma of the Gaussian pair, the scale b of the Laplace pair;
        0: exact. A mapping by name may leave out exact levels. Of the root it may be infinite: not measured and not
        known, so that rules estimate it from below (an audit needs a root that is known or measured).
    rho, split
        Zero-concentrated privacy loss, and each level's share of it: at least 0, together at most 1.
    exact
        Names of levels that are published without noise.
    kind
        "discrete-gaussian", "gaussian", "discrete-laplace" or "laplace".
    sensitivity
        How much one person changes the counts of a level: 1 where a person is added or removed, sqrt 2 (Gaussian pair) or
        2 (Laplace pair) where a person moves.

    """

    tree: Hierarchy
    spreads: Floats
    """The parameter of each level, root first; 0: exact."""
    kind: str
    rho: float | None
    """What was asked for; None where parameters were given."""
    split: tuple[float, ...] | None
    """The shares of rho, root first."""
    sensitivity: float
    asked: Mapping[str, Any]
    """Amounts and exact levels as they were given, for a release, which takes texts."""

    def __init__(
        self,
        tree: Hierarchy,
        *,
        sigmas: Sequence[Number] | Mapping[str, Number] | None = None,
        rho: Number | None = None,
        split: Sequence[Number] | Mapping[str, Number] | None = None,
        exact: Iterable[str] = (),
        kind: str = "discrete-gaussian",
        sensitivity: float = 1.0,
    ) -> None:
        if kind not in MECHANISMS:
            raise ParameterError(f"`kind` must be one of {', '.join(MECHANISMS)}, got {kind!r}")
        if (sigmas is None) == (rho is None) or (rho is None) != (split is None):
            raise ParameterError(
                "noise by level must be given by `sigmas`, or by `rho` and `split`, got neither or both"
            )
        shares, rho_asked = None, rho
        if sigmas is not None:
            spreads = _by_level(tree, sigmas, "sigmas")
        else:
            assert rho is not None
            assert split is not None
            shares = _by_level(tree, split, "split")
            try:
                rho = _amount(rho)
            except (TypeError, ValueError, ZeroDivisionError):
                raise ParameterError(f"`rho` must be > 0 and finite, got {rho!r}") from None
            spreads = _from_shares(shares, rho, kind, sensitivity)
        without = (exact,) if isinstance(exact, str) else tuple(exact)
        for name in without:
            spreads[tree.level(name)] = 0.0
        known = np.flatnonzero(spreads == 0.0)
        if known.size:
            spreads[: int(known[-1])] = 0.0
        if spreads[-1] == 0.0:
            raise ParameterError(f"the level of the leaves, {tree.names[-1]!r}, must have noise, got 0")
        spreads.flags.writeable = False
        for name, held in (
            ("tree", tree),
            ("spreads", spreads),
            ("kind", kind),
            ("rho", rho),
            ("split", None if shares is None else tuple(float(s) for s in shares)),
            ("sensitivity", Neighbours(sensitivity).sensitivity),
            ("asked", {"sigmas": sigmas, "rho": rho_asked, "split": split, "exact": without}),
        ):
            object.__setattr__(self, name, held)
        _ = self.mechanisms  # each parameter is checked by its mechanism

    @classmethod
    def census2020(cls, tree: Hierarchy) -> LevelNoise:
        """The 2020 Census's rho and shares, as if each level's share went to its one count; state totals exact.

        The levels of the tree must be five (state, county, tract, block group, block), or have these names. The Bureau
        spends a level's share on many queries (the count of a block alone has sigma 89) and reconciles 2,016 cells: this is
        a model of its system, not its release.
        """
        names = [SYNONYMS.get(name.lower(), name.lower()) for name in tree.names]
        wanted = list(CENSUS_SHARES)
        if not set(names) <= set(wanted):
            if len(names) != len(wanted):
                raise ParameterError(
                    f"census2020 needs levels named {', '.join(wanted[1:])}, got {', '.join(tree.names)}"
                )
            names = wanted
        split = [CENSUS_SHARES[name] / CENSUS_WHOLE for name in names]
        exact = [tree.names[names.index("state")]] if "state" in names else [tree.names[0]]
        return cls(tree, rho=CENSUS_RHO, split=split, exact=exact, sensitivity=CENSUS_SENSITIVITY)

    def __repr__(self) -> str:
        parts = (
            f"{name} {'exact' if s == 0 else 'not measured' if np.isinf(s) else f'{s:.4g}'}"
            for name, s in zip(self.tree.names, self.spreads, strict=True)
        )
        return f"LevelNoise({self.kind}: {', '.join(parts)})"

    @cached_property
    def mechanisms(self) -> tuple[Law | None, ...]:
        """The mechanism of each level, root first; None: exact, or not measured."""
        kind = MECHANISMS[self.kind]
        return tuple(None if s == 0.0 or np.isinf(s) else kind(float(s)) for s in self.spreads)  # type: ignore[call-arg]

    @cached_property
    def variances(self) -> Floats:
        """Var[eta] of each level; of a root that is not measured FAR times that of the sum of the level below."""
        found = np.array([0.0 if m is None else max(m.variance, LEAST) for m in self.mechanisms])
        if not self.measured:
            found[0] = FAR * self.tree.size(1) * found[1]
        return found

    @property
    def measured(self) -> bool:
        """Whether the root is known or has a measurement of its own."""
        return bool(np.isfinite(self.spreads[0]))

    @property
    def code(self) -> int:
        """The number of the kind in the kernels."""
        return KINDS.index(self.kind)

    @property
    def top(self) -> int:
        """The deepest exact level; -1 where not even the root is known."""
        known = np.flatnonzero(self.spreads == 0.0)
        return int(known[-1]) if known.size else -1

    @property
    def spent(self) -> float | None:
        """The rho that the noise spends, over noisy levels; None for the Laplace pair."""
        if "gaussian" not in self.kind:
            return None
        noisy = self.spreads[self.spreads > 0]
        return float(np.sum(self.sensitivity**2 / (2.0 * noisy**2)))

    def describe(self) -> dict[str, Any]:
        """Plain data, for JSON: `mechanism` of an audit with levels."""
        parameter = MECHANISMS[self.kind].parameter
        return {
            "name": self.kind,
            "rho": self.spent if self.rho is None else self.rho,
            "sensitivity": self.sensitivity,
            "levels": [
                {"name": name, parameter: float(s) if np.isfinite(s) else None, "exact": bool(s == 0.0)}
                for name, s in zip(self.tree.names, self.spreads, strict=True)
            ],
        }


def _by_level(tree: Hierarchy, given: Sequence[Number] | Mapping[str, Number], what: str) -> Floats:
    """One number a level, root first; without one for the root that is 0."""
    if isinstance(given, Mapping):
        out = np.zeros(len(tree.names))
        for name, value in given.items():
            out[tree.level(name)] = _number(value, what, name)
        return out
    values: list[Number] = list(given)
    if len(values) == tree.depth:
        values = [0.0, *values]
    if len(values) != len(tree.names):
        raise ParameterError(
            f"`{what}` must have one entry for each of {', '.join(tree.names[1:])} (or one more for the root), "
            f"got {len(values)}"
        )
    return np.array([_number(v, what, name) for v, name in zip(values, tree.names, strict=True)])


def _amount(given: Number) -> float:
    """A number, or a text such as "0.4" or "1/3"."""
    return float(Fraction(given) if isinstance(given, str) and "/" in given else given)


def _number(value: Any, what: str, level: str) -> float:
    try:
        number = _amount(value)
    except (TypeError, ValueError, ZeroDivisionError):
        raise ParameterError(f"`{what}` must be numbers, got {value!r} for level {level!r}") from None
    known = what == "sigmas" and level == ROOT and number == np.inf
    if not (0 <= number < np.inf or known):
        raise ParameterError(f"`{what}` must be at least 0 and finite, got {value!r} for level {level!r}")
    return number


def _from_shares(shares: Floats, rho: float, kind: str, sensitivity: float) -> Floats:
    total = float(shares.sum())
    if total > 1.0 + SLACK or total == 0.0:
        raise ParameterError(f"the shares of rho must be above 0 and at most 1 together, got a sum of {total:.6g}")
    about = Neighbours(sensitivity)
    if not 0 < rho < np.inf:
        raise ParameterError(f"`rho` must be > 0 and finite, got {rho!r}")
    return np.array([0.0 if p == 0 else mechanism_of(kind, rho=rho * p, neighbours=about).spread for p in shares])


def as_level_noise(given: object) -> LevelNoise:
    """`given`, where it is the noise of a hierarchy."""
    if isinstance(given, LevelNoise):
        return given
    raise ParameterError(
        f"`noise` must be an fp.LevelNoise, the noise on every level of a hierarchy, got {value(given)}"
    )
