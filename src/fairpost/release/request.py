"""What is asked for: the noise (which is charged) and the publication (which is free). Pure data.

The key of a request is SHA-256 of what the noise depends on: mechanism, amounts, sensitivity, the keyed fingerprint of
the data, and the label of a second draw. The post-processing is not in it, so another rule on the same counts at the
same epsilon uses the noise that is there. A request has one level or, for a hierarchy, several; its loss is their sum,
and it is one charge.

Levels of a hierarchy are vectors of counts of the same people, so their losses add up: epsilon for pure DP, rho for zCDP
(Bun and Steinke 2016, Lemma 1.7), both as ratios. A unit that is in c leaves changes c of them by 1 each. The nodes above hold
several of those leaves, at worst all c of them in one node: L1 stays c, and L2^2, at most the square of L1, becomes c^2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fairpost.errors import ParameterError
from fairpost.release.amounts import amount, rho_of_pure, text
from fairpost.release.chain import canonical, digest
from fairpost.release.ledger import Terms
from fairpost.release.noise import Law

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

    def above(self, mechanism: str) -> Fraction:
        """The same for a level above the leaves, where c changes may meet in one node: L2 squared is c^2 each way."""
        return self.value * (self.entities_per_person if mechanism == "discrete-gaussian" else 1)


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

    def public(self) -> dict[str, Any]:
        """For the ledger and the statement."""
        made = self._public()
        if self.sensitivity is not None:
            norm = "L2 squared" if self.law.mechanism == "discrete-gaussian" else "L1"
            made["sensitivity"] = {"norm": norm, "value": text(self.sensitivity)}
        return made

    def _public(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rows": self.rows,
            "mechanism": self.law.mechanism,
            "scale": self.law.text,
            "epsilon": None if self.epsilon is None else text(self.epsilon),
            "rho": text(self.rho),
            "loss": text(self.loss),
        }


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


def level_of(
    terms: Terms, sensitivity: Sensitivity, name: str, rows: int, *, epsilon: Any, rho: Any, mechanism: str | None
) -> Level:
    """A level from the amounts that were typed: epsilon with discrete Laplace, rho with discrete Gaussian noise."""
    if (epsilon is None) == (rho is None):
        raise ParameterError(f"a loss is given by one of epsilon and rho, got {'both' if rho is not None else 'none'}")
    usual = "discrete-laplace" if epsilon is not None else "discrete-gaussian"
    if mechanism not in (None, usual):
        raise ParameterError(
            f"a loss in {'epsilon' if rho is None else 'rho'} is kept by {usual} noise, got {mechanism!r}"
        )
    if rho is not None:
        if terms.measure == "pure":
            raise ParameterError("a ledger of pure DP takes losses in epsilon, got one in rho")
        r = amount(rho, "rho")
        return Level(name, rows, Law.gaussian(r, sensitivity.value), r, None, r)
    e = amount(epsilon, "epsilon")
    r = rho_of_pure(e)
    return Level(name, rows, Law.laplace(e, sensitivity.value), e if terms.measure == "pure" else r, e, r)


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
        later = {"csv_safe": True} if self.csv_safe else {}
        return later | {
            "postprocess": self.postprocess,
            "round": self.round,
            "by_group": self.by_group,
            "totals": None if self.totals is None else list(self.totals),
            "total": self.total_kind,
            "source": self.source,
            "chosen": dict(self.chosen),
            "columns": None if self.columns is None else dict(self.columns),
            "weights": self.weights,
        }

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
