"""What is asked for: the noise (which is charged) and the publication (which is free). Pure data.

The key of a request is SHA-256 of what the noise depends on: mechanism, amounts, sensitivity, the keyed fingerprint of
the data, and the label of a second draw. The post-processing is not in it, so another rule on the same counts at the
same epsilon uses the noise that is there. A request has one level or, for a hierarchy, several; its loss is their sum,
and it is one charge.

Levels of a hierarchy are vectors of counts of the same people, so their losses add up: epsilon for pure DP, rho for zCDP
(Bun and Steinke 2016, Lemma 1.7), both as ratios. A unit that is in c leaves changes c of them by 1 each. The nodes above hold
several of those leaves, at worst all c of them in one node: L1 stays c, and L2^2, at most the square of L1, becomes c^2.

*Nothing is exact by silence.* In an audit a level without noise is a model. In a release it is a disclosure of true counts, so here it
must be named (`exact`), must be an invariant of the ledger, and is listed as unprotected; a share of 0 or a sigma of 0 for any other
level is refused. The root alone may be left out: then it is not measured, and rules estimate it from the levels below, unless
a public total is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fairpost.errors import ParameterError
from fairpost.release.amounts import amount, float_up, rho_of_pure, share
from fairpost.release.chain import canonical, digest
from fairpost.release.ledger import Terms
from fairpost.release.noise import GAUSSIAN, LAPLACE, MECHANISMS, Law

if TYPE_CHECKING:
    from fairpost.hierarchy.levels import LevelNoise
    from fairpost.hierarchy.tree import Hierarchy

Amounts = Sequence[Any] | Mapping[str, Any]
CHOSEN = ("policy", "public-data", "these-data")
CHOICES = ("loss", "rule", "levels", "split", "partition")
"""What a release chooses, and may have chosen by looking at the true counts."""
EXACT = "exact"


@dataclass(frozen=True)
class Sensitivity:
    """How much one unit changes the counts: c entities of a unit, by 1 each.

    add-remove: L1 = c and L2^2 = c. replace: a unit leaves c entities and enters c others, so both are 2c.
    """

    entities_per_person: int
    neighbours: str

    def __post_init__(self) -> None:
        c = self.entities_per_person
        if isinstance(c, bool) or not isinstance(c, int) or not 1 <= c <= 10**9:
            raise ParameterError(f"`entities_per_person` must be a whole number from 1, got {c!r}")

    @property
    def value(self) -> Fraction:
        """L1, and L2 squared: for entries that change by 1 they are the same number."""
        return Fraction(self.entities_per_person * (2 if self.neighbours == "replace" else 1))

    def of(self, mechanism: str, *, leaves: bool = True) -> Fraction:
        """The same, or above the leaves, where c changes may meet in one node: L2 squared is c^2 each way."""
        return self.value * (self.entities_per_person if mechanism == GAUSSIAN and not leaves else 1)


@dataclass(frozen=True)
class Level:
    """One vector of counts of a request: its law of noise, and its loss in the ledger's measure."""

    name: str
    rows: int
    law: Law
    loss: Fraction
    epsilon: Fraction | None
    """Of discrete Laplace noise."""
    rho: Fraction
    sensitivity: Fraction | None = None
    """Of a level of a hierarchy: L1, or L2 squared; a single table's is that of its request."""

    @classmethod
    def of(cls, terms: Terms, name: str, rows: int, law: Law, spent: Fraction, own: Fraction | None = None) -> Level:
        """`spent` is an epsilon of Laplace noise, a rho of Gaussian noise."""
        epsilon = spent if law.mechanism == LAPLACE else None
        rho = spent if epsilon is None else rho_of_pure(epsilon)
        return cls(name, rows, law, spent if terms.measure == "pure" else rho, epsilon, rho, own)

    def public(self) -> dict[str, Any]:
        """For the ledger and the statement."""
        made: dict[str, Any] = {
            "name": self.name,
            "rows": self.rows,
            "mechanism": self.law.mechanism,
            "scale": self.law.text,
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "rho": str(self.rho),
            "loss": str(self.loss),
        }
        if self.sensitivity is not None:
            made["sensitivity"] = {"norm": self.law.norm, "value": str(self.sensitivity)}
        return made


@dataclass(frozen=True)
class Shape:
    """The hierarchy of a request with levels: how it is read, and down to which level it is published exactly."""

    names: tuple[str, ...]
    """The levels below the root, top first, leaves last."""
    by: str
    """prefixes: of the leaves' ids; columns: labels above the ids; paths: labels alone."""
    lengths: tuple[int, ...] = ()
    """Of the prefixes."""
    exact: str | None = None
    """The deepest level without noise, the root's "all" included; None: every level that is measured has noise."""

    def public(self) -> dict[str, Any]:
        """For the ledger and the statement."""
        return {"names": list(self.names), "by": self.by, "lengths": list(self.lengths), "exact": self.exact}

    @classmethod
    def of(cls, public: Mapping[str, Any]) -> Shape:
        """The inverse of `public`."""
        return cls(tuple(public["names"]), public["by"], tuple(public["lengths"]), public["exact"])


@dataclass(frozen=True)
class Request:
    """The noise of one release: one charge, one key, one kept file."""

    name: str
    levels: tuple[Level, ...]
    """The levels with noise, top first."""
    sensitivity: Sensitivity
    again: str = ""
    shape: Shape | None = None
    """Of a hierarchy."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Which columns of the source play which part, and the conditions on rows."""

    @property
    def laws(self) -> tuple[Law | None, ...]:
        """The noise of each vector that is kept: the deepest exact level (None), where there is one, then the noisy ones."""
        exact: tuple[Law | None, ...] = (None,) if self.shape is not None and self.shape.exact is not None else ()
        return exact + tuple(level.law for level in self.levels)

    @property
    def loss(self) -> Fraction:
        """The charge."""
        return sum((level.loss for level in self.levels), Fraction(0))

    def public(self) -> dict[str, Any]:
        """What the ledger keeps of it."""
        made = {
            "name": self.name,
            "levels": [level.public() for level in self.levels],
            "entities_per_person": self.sensitivity.entities_per_person,
            "neighbours": self.sensitivity.neighbours,
            "again": self.again,
            "columns": dict(self.columns),
        }
        return made if self.shape is None else {**made, "hierarchy": self.shape.public()}

    def key(self, fingerprint: str) -> str:
        """The request's name in the ledger; names of the table and of columns are not part of it."""
        asked = {k: v for k, v in self.public().items() if k not in ("name", "columns")}
        return digest(canonical([asked, fingerprint]))


# -- amounts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What was said about the noise, of a table or of the levels of a hierarchy."""

    epsilon: Any = None
    rho: Any = None
    mechanism: str | None = None
    split: Amounts | None = None
    sigmas: Amounts | None = None
    exact: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Asked:
        """Out of the arguments of a release; a `LevelNoise` whose amounts are texts says it all."""
        from fairpost.hierarchy.levels import LevelNoise

        names, noise = given.get("exact") or (), given.get("noise")
        exact = tuple(part.strip() for part in names.split(",")) if isinstance(names, str) else tuple(names)
        if noise is None:
            parts = (_listed(given.get("split")), _listed(given.get("sigmas")))
            return cls(given.get("epsilon"), given.get("rho"), given.get("mechanism"), *parts, exact)
        if not isinstance(noise, LevelNoise):
            raise ParameterError(f"`noise` must be a LevelNoise, got a {type(noise).__name__}")
        said = [k for k in ("epsilon", "rho", "split", "sigmas", "exact", "mechanism") if given.get(k)]
        if said:
            raise ParameterError(f"the noise of levels is given by `noise` or by `{said[0]}`, got both")
        asked = noise.asked
        return cls(None, asked["rho"], noise.kind, asked["split"], asked["sigmas"], tuple(asked["exact"]))

    def loss(self, terms: Terms) -> tuple[str, Fraction]:
        """The mechanism and the loss that were typed: epsilon with discrete Laplace, rho with discrete Gaussian noise."""
        if (self.epsilon is None) == (self.rho is None):
            both = "both" if self.rho is not None else "none"
            raise ParameterError(f"a loss is given by one of epsilon and rho, got {both}")
        name, usual = ("epsilon", LAPLACE) if self.rho is None else ("rho", GAUSSIAN)
        if self.mechanism not in (None, usual):
            raise ParameterError(f"a loss in {name} is kept by {usual} noise, got {self.mechanism!r}")
        if usual == GAUSSIAN and terms.measure == "pure":
            raise ParameterError("a ledger of pure DP takes losses in epsilon, got one in rho")
        return usual, amount(getattr(self, name), name)


def _listed(given: Any) -> Any:
    """`.4,.6` as texts; anything else as it is."""
    if not isinstance(given, str):
        return given
    return [f"0{part.strip()}" if part.strip().startswith(".") else part.strip() for part in given.split(",")]


def level_of(terms: Terms, sensitivity: Sensitivity, rows: int, asked: Asked) -> Level:
    """The one level of a table."""
    kind, loss = asked.loss(terms)
    return Level.of(terms, "table", rows, Law.keeping(kind, loss, sensitivity.of(kind)), loss)


def levels_of(
    terms: Terms, sensitivity: Sensitivity, tree: Hierarchy, asked: Asked
) -> tuple[tuple[Level, ...], str | None]:
    """The noisy levels of a hierarchy, top first, and the deepest exact one."""
    exact = max((tree.level(name) for name in asked.exact), default=-1)
    if exact == tree.depth:
        raise ParameterError(f"the level of the leaves, {tree.names[-1]!r}, must have noise, got it as exact")
    scaled = asked.sigmas is not None
    kind, loss, parts = (_scales if scaled else _shares)(terms, tree, asked)
    levels = []
    for k, (name, part) in enumerate(zip(tree.names, parts, strict=True)):
        if part == 0 and (k > exact and k > 0):
            raise ParameterError(
                f"level {name!r} would be published without noise, got 0 or nothing for it: give it noise, or name "
                "it in exact (--exact), which says so in the statement"
            )
        if part == 0 or k <= exact:
            continue
        D = sensitivity.of(kind, leaves=k == tree.depth)
        if scaled:  # its loss is D / b, or D^2 / (2 sigma^2), and the sampler's float is rounded up
            law, spent = Law(kind, float_up(part)), D / part if kind == LAPLACE else D / (2 * part * part)
        else:
            law, spent = Law.keeping(kind, loss * part, D), loss * part
        levels.append(Level.of(terms, name, tree.size(k), law, spent, D))
    return tuple(levels), None if exact < 0 else tree.names[exact]


def _shares(terms: Terms, tree: Hierarchy, asked: Asked) -> tuple[str, Fraction, list[Fraction]]:
    """Each level's share of epsilon or rho."""
    if asked.split is None:
        raise ParameterError(
            f"a loss over levels needs its split: the share of each of {', '.join(tree.names[1:])} (--split), or the noise "
            "of each (--level-sigma), got neither"
        )
    kind, loss = asked.loss(terms)
    shares = _by_level(tree, asked.split, "split")
    if sum(shares) > 1:
        raise ParameterError(f"the shares of a split must be at most 1 together, got a sum of {sum(shares)}")
    return kind, loss, shares


def _scales(terms: Terms, tree: Hierarchy, asked: Asked) -> tuple[str, Fraction, list[Fraction]]:
    """Each level's own sigma (or b)."""
    assert asked.sigmas is not None
    if asked.epsilon is not None or asked.rho is not None or asked.split is not None:
        raise ParameterError("the noise of levels is given by sigmas, or by a loss and its split, got both")
    kind = asked.mechanism or GAUSSIAN
    if kind not in MECHANISMS:
        raise ParameterError(f"`mechanism` must be one of {', '.join(MECHANISMS)}, got {kind!r}")
    if terms.measure == "pure" and kind == GAUSSIAN:
        raise ParameterError("a ledger of pure DP takes discrete-laplace noise (--mechanism), got discrete-gaussian")
    return kind, Fraction(0), _by_level(tree, asked.sigmas, "sigmas")


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
                f"the square root of {squared}: make it with that"
            )


# -- the publication ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PublicTotal:
    """A total that is public elsewhere, and where: one number, or one for each group.

    `fp.PublicTotal(8507055, "Census Bureau, table S1701, 2019")`; by group `fp.PublicTotal({"AL": 120, ...}, "...")`.
    """

    value: int | str | Mapping[str, int | str]
    source: str | None = None
    """The ledger says where its exact numbers are published; what is given here must be the same words."""

    def __post_init__(self) -> None:
        said = self.source
        if said is not None and (not isinstance(said, str) or not said.strip() or not said.isprintable()):
            raise ParameterError(f"a public total must have its source, a text on one line, got {self.source!r}")
        for value in self.value.values() if isinstance(self.value, Mapping) else (self.value,):
            _total(value)

    def of(self, labels: Sequence[str] | None) -> list[int]:
        """The totals, in the order of the labels; None: the one total."""
        if not isinstance(self.value, Mapping):
            if labels is not None:
                raise ParameterError("totals by group must be one for each group, got one number")
            return [_total(self.value)]
        if labels is None:
            raise ParameterError("a release without groups has one total, got one for each group")
        missing = [label for label in labels if label not in self.value]
        if missing:
            raise ParameterError(f"every group must have a total, got none for {missing[0]!r}")
        return [_total(self.value[label]) for label in labels]


def _total(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ParameterError(f"a public total must be a whole number, got the {type(value).__name__} {value!r}")
    if isinstance(value, str) and not (value.isdecimal() and value.isascii() and len(value) <= 60):
        raise ParameterError(f"a public total must be a whole number from 0, got {value[:60]!r}")
    if not 0 <= int(value) < 2**52:
        raise ParameterError(f"a public total must be from 0 to below 2^52, got {value}")
    return int(value)


@dataclass(frozen=True)
class Publication:
    """What is made of the kept noise: the rule, the totals that it keeps, rounding. Costs nothing."""

    postprocess: str
    round: bool = False
    by_group: bool = False
    totals: tuple[int, ...] | None = None
    """The totals that are kept, one for each group in order; None: the sums of the noisy counts."""
    total_kind: str = "noisy"
    """public, exact or noisy."""
    source: str | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)
    """What each choice was made from."""
    columns: Mapping[str, Any] | None = None
    """Which columns play which part; None: those of the request."""
    weights: str = ""
    """The digest of the weights: they are applied anew to noise that is kept."""
    csv_safe: bool = False
    """Whether text in the table that a spreadsheet would take for a formula has a ' in front."""

    def public(self) -> dict[str, Any]:
        """What tells two publications apart; what came later is named only where it is asked for, so that old names stay."""
        made = dict(vars(self))
        made["total"] = made.pop("total_kind")
        return made if self.csv_safe else {name: said for name, said in made.items() if name != "csv_safe"}

    def key(self, request: str, about: Mapping[str, Any]) -> str:
        """The publication's name in the ledger."""
        return digest(canonical([request, self.public(), dict(about)]))


def chosen_of(given: str | Mapping[str, str] | None) -> dict[str, str]:
    """What was chosen from what, for the statement: one word for all choices, or NAME=WORD for some of them."""
    if given is None:
        return {}
    if isinstance(given, str) and "=" not in given:
        given = dict.fromkeys(CHOICES, given)
    elif isinstance(given, str):
        given = {name.strip(): word.strip() for name, _, word in (part.partition("=") for part in given.split(","))}
    if not isinstance(given, Mapping):
        raise ParameterError(f"`chosen_from` must be a word or one for each choice, got the {type(given).__name__}")
    for name, word in given.items():
        if name not in CHOICES:
            raise ParameterError(f"`chosen_from` is about {', '.join(CHOICES)}, got {name!r}")
        if word not in CHOSEN:
            raise ParameterError(f"`chosen_from` must be one of {', '.join(CHOSEN)}, got {word!r}")
    return dict(given)
