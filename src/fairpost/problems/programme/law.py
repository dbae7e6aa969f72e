"""P for money that follows a law: who is eligible, for how much, and how an appropriation is shared; and the law compiled to kinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts, positive_weights
from fairpost.errors import CountsError
from fairpost.noise import Mechanism
from fairpost.partition import Partition
from fairpost.problems.base import Problem, Unit
from fairpost.problems.programme.sharing import Shared, share_out
from fairpost.problems.programme.words import Entitlement, HoldHarmless, Minimum, Nest, builtin_text, read, write

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Kinks:
    """A programme compiled: for each entity a function of its count that is linear between kinks, with jumps.

    g(z) = 0 below the first kink, then value_k + slope_k (z - at_k) from at_k up to the next kink. A first kink at minus
    infinity (slope 0) is a payment below all others, which only signed payments have. Entity i has the kinks from start[i]
    to start[i + 1].
    """

    start: Ints
    at: Floats
    value: Floats
    slope: Floats

    @property
    def n(self) -> int:
        """The number of entities."""
        return int(self.start.size - 1)

    @property
    def owner(self) -> Ints:
        """The entity of each kink."""
        return np.repeat(np.arange(self.n), np.diff(self.start))

    def __call__(self, z: Floats) -> Floats:
        """g of one vector (one entry per entity), or of the rows of a matrix."""
        from fairpost.problems.programme.kernels.kinks import evaluate

        rows = np.ascontiguousarray(np.atleast_2d(z), dtype=np.float64)
        out = np.empty_like(rows)
        evaluate(rows, self.start, self.at, self.value, self.slope, out)
        return out if np.ndim(z) == 2 else out[0]

    def of(self, who: Ints) -> Kinks:
        """The kinks of some entities."""
        many = np.diff(self.start)[who]
        start = np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
        place = np.arange(start[-1]) - np.repeat(start[:-1], many) + np.repeat(self.start[:-1][who], many)
        return Kinks(start, self.at[place], self.value[place], self.slope[place])

    def scaled(self, factor: Floats) -> Kinks:
        """factor_i g_i."""
        by = factor[self.owner]
        return Kinks(self.start, self.at, self.value * by, self.slope * by)

    def from_noise(self, x: Floats, discrete: bool) -> Floats:
        """For each kink the least noise eta with x + eta >= at; on the lattice x + Z a whole number.

        A kink that excludes its own place lies one ulp above it. The difference at - x would round that ulp away, so the
        whole part of x is taken off after rounding up.
        """
        own = x[self.owner]
        if not discrete:
            return np.asarray(self.at - own)
        whole = np.floor(own)
        return np.asarray(np.ceil(self.at - (own - whole)) - whole)


@dataclass(frozen=True, eq=False)
class Programme(Problem):
    """A law: eligibility, entitlement, sharing, hold-harmless; and the public numbers it is applied to.

    P(x)_i is entity i's share of the appropriation ("pro rata"), or, where nothing is shared ("none"), a decision (1: eligible)
    or, with an entitlement, the weighted count itself.
    """

    name: str  # type: ignore[misc]
    eligible: Nest = field(default_factory=lambda: Nest(()))
    entitlement: Entitlement | None = None
    share: Literal["pro rata", "none", "equal proportions"] = "pro rata"
    hold_harmless: HoldHarmless | None = None
    minimum: Minimum | None = None
    law: str = ""
    note: str = ""
    seats: int | None = None
    """How many seats are apportioned by the method of equal proportions."""
    base: Floats | None = None
    """The base population of each entity, once the law is applied to entities."""
    base_noise: Mechanism | None = None
    """The noise that the base is published with; None: it is public."""
    weights: Floats | None = None
    """Money per weighted count; None: 1."""
    last: Floats | None = None
    """Last year's payments, for hold-harmless, as shares of this year's appropriation."""
    states: Partition | None = None
    """The groups of a group minimum."""
    partition: Partition | None = None
    """Groups that share appropriations of their own."""

    @classmethod
    def named(cls, name: str) -> Programme:
        """A law that comes with the package: title1-basic, title1-concentration, title1-targeted, section-203, house-seats."""
        return cls.from_toml(builtin_text(name), f"{name}.toml")

    @classmethod
    def from_toml(cls, text: str, where: str = "programme") -> Programme:
        """A law from its TOML (`fairpost programmes NAME` prints one to start from); `where` is its name in errors."""
        return cls(**read(text, where))

    def to_toml(self) -> str:
        """The TOML of the law; reading it gives the same law."""
        return write(self)

    @property
    def task(self) -> Literal["release", "allocation"]:  # type: ignore[override]
        """Shares of an appropriation, or what is not shared."""
        return "allocation" if self.share == "pro rata" else "release"

    @property
    def unit(self) -> Unit:  # type: ignore[override]
        """A share, a decision, or money."""
        if self.seats is not None:
            return "seats"
        return "share" if self.share == "pro rata" else "decision" if self.entitlement is None else "money"

    @property
    def column(self) -> str:  # type: ignore[override]
        """The name of the truth in tables."""
        return {"share": "true_share", "decision": "eligible", "seats": "true_seats"}.get(self.unit, "true_entitlement")

    @property
    def words(self) -> str:  # type: ignore[override]
        """The name, and where the law stands."""
        return f"{self.name} ({self.law})" if self.law else self.name

    @property
    def decides(self) -> bool:  # type: ignore[override]
        """Whether noise can leave an entity out or let one in."""
        return self.seats is None

    @property
    def rates(self) -> bool:
        """Whether the law asks for a base population."""
        held = self.hold_harmless is not None
        return held or self.eligible.rates or (self.entitlement is not None and self.entitlement.rates)

    def on(
        self,
        counts: Counts,
        last: Floats | None = None,
        *,
        by_group: bool = False,
        base_noise: Mechanism | None = None,
    ) -> Programme:
        """The law applied to the base, the weights and the groups of these counts."""
        if by_group and counts.groups is None:
            raise CountsError(f"{self.name}: shares by group need counts with groups, got counts without")
        if self.seats is not None and self.seats < counts.n:
            raise CountsError(f"{self.name}: there must be a seat for every entity, got {self.seats} for {counts.n}")
        if self.minimum is not None and counts.groups is None:
            raise CountsError(f"{self.name}: a minimum for each group needs counts with groups (states), got none")
        if self.minimum is not None and by_group:
            raise CountsError(
                f"{self.name}: a minimum for each group is of one appropriation for all, got appropriations by group"
            )
        wanted = by_group or self.minimum is not None
        groups = Partition.of(counts.groups) if wanted and counts.groups is not None else None
        found = replace(
            self,
            base=self._base(counts.base, counts.n),
            weights=counts.weights,
            last=last if last is not None else self.last,
            states=groups if self.minimum is not None else None,
            partition=groups if by_group else None,
        )
        if self.hold_harmless is not None:
            found._last(counts.n)
        return found if base_noise is None else found.published(base_noise)

    def published(self, base_noise: Mechanism) -> Programme:
        """The same with noise on the base."""
        if not self.rates:
            raise CountsError(f"{self.name} has no rates, so noise on a base population plays no part, got some")
        return replace(self, base_noise=base_noise)

    def _base(self, base: Floats | None, n: int) -> Floats:
        if base is None:
            if self.rates:
                raise CountsError(f"{self.name} has rates and needs a base population (--base), got none")
            return np.zeros(n)
        if base.size != n:
            raise CountsError(f"there must be one base population per entity: {n} entities, {base.size} in the base")
        return base

    def _last(self, n: int) -> Floats:
        if self.last is None:
            what = "" if self.hold_harmless is None else f" (the column {self.hold_harmless.last!r})"
            raise CountsError(f"{self.name}: hold-harmless needs last year's payments{what}, got none")
        last = np.asarray(self.last, dtype=np.float64)
        if last.size != n or not np.isfinite(last).all() or (last < 0).any():
            raise CountsError(f"{self.name}: last year's payments must be one per entity, finite and at least 0")
        return last

    def a(self, n: int) -> Floats:
        """The weights of n entities."""
        return np.ones(n) if self.weights is None else positive_weights(self.weights, n)

    def check(self, counts: Counts, asker: str) -> None:
        """The law is applied to as many entities as there are."""
        if self._base(self.base, counts.n).size != counts.n or self.a(counts.n).size != counts.n:
            raise CountsError(f"{asker}: the programme {self.name} is for other entities")

    def threshold(self, base: Floats) -> Floats:
        """The least eligible count of each entity, at least 0."""
        if not self.eligible.parts:
            return np.zeros(base.size)
        return np.maximum(self.eligible.threshold(base), 0.0)

    def entitled(self, count: Floats, base: Floats) -> Floats:
        """The weighted count (a decision: 1) of each entity, by the words of the law; the other way is `compile`."""
        worth = np.ones(count.size) if self.entitlement is None else self._worth(count, base)
        return np.asarray(np.where(count >= self.threshold(base), worth, 0.0))

    def entitled_rows(self, rows: Floats, bases: Floats) -> Floats:
        """The same for rows of counts with rows of bases; a noisy base below 0 counts as 0."""
        return self.entitled(rows.ravel(), np.maximum(bases, 0.0).ravel()).reshape(rows.shape)

    def _worth(self, count: Floats, base: Floats) -> Floats:
        assert self.entitlement is not None
        return self.entitlement.worth(count, base)

    def compile(self, base: Floats | None = None) -> Kinks:
        """The law as kinks, for these base populations (default: the programme's own)."""
        from fairpost.problems.programme.kernels.kinks import envelope

        where = self.base if base is None else np.asarray(base, dtype=np.float64)
        if where is None:
            raise CountsError(f"{self.name} needs base populations to compile, got none")
        n, threshold = where.size, self.threshold(where)
        if self.entitlement is None:
            return Kinks(np.arange(n + 1), threshold, np.ones(n), np.zeros(n))
        rows = [row for brackets in self.entitlement.larger_of for row in brackets.rows]
        ends = np.cumsum([0, *(len(brackets.rows) for brackets in self.entitlement.larger_of)]).astype(np.int64)
        bounds = np.ascontiguousarray(np.stack([bound.of(where) for bound, _ in rows], axis=1))
        start, room = np.empty(n + 1, dtype=np.int64), n * (4 * len(rows) + 4)
        at, value, slope = np.empty(room), np.empty(room), np.empty(room)
        weight = np.array([w for _, w in rows])
        used = envelope(threshold, ends, bounds, weight, *self.entitlement.ends(where), start, at, value, slope)
        return Kinks(start, at[:used].copy(), value[:used].copy(), slope[:used].copy())

    def truth(self, counts: Counts) -> Floats:
        """What the law gives to the true counts."""
        base = self._base(self.base if self.base is not None else counts.base, counts.n)
        worth = self.entitled(counts.values, base)
        paid: Floats = self.shared(counts.values[None, :], worth[None, :], base).values[0]
        return paid

    def shared(self, rows: Floats, worth: Floats, base: Floats) -> Shared:
        """From weighted counts to payments, row by row; `rows` are the counts themselves (for rates and minima).

        `base`: one per entity, or with noise on it one per row and entity.
        """
        if self.seats is not None:
            from fairpost.problems.programme.kernels.sharing import equal_proportions

            out = np.empty_like(rows)
            equal_proportions(np.ascontiguousarray(rows), self.seats, out)
            return Shared(out, 0)
        if self.share == "none":
            factor = 1.0 if self.entitlement is None else self.a(worth.shape[1])
            return Shared(worth * factor, 0)
        return share_out(self, rows, worth * self.a(worth.shape[1]), base)

    def as_one(self) -> Programme:
        """The same with one appropriation for all groups."""
        return replace(self, partition=None)

    def in_parts(self, part: Floats) -> Programme:
        """With last year's payments, known as shares of the whole, as shares of the parts that the groups share out."""
        if self.last is None:
            return self
        return replace(self, last=np.where(part > 0, self.last / np.where(part > 0, part, 1.0), 0.0))

    def alone(self, g: int) -> Programme:
        """The programme of group g alone, where groups share appropriations of their own."""
        assert self.partition is not None
        return self._of(self.partition.of_group(g), None)

    def of_groups(self, groups: Sequence[int]) -> Programme:
        """The programme of some groups."""
        assert self.partition is not None
        return self._of(self.partition.members(groups), self.partition.of_groups(groups))

    def _of(self, who: NDArray[np.int64], partition: Partition | None) -> Programme:

        def part(values: Floats | None) -> Floats | None:
            return None if values is None else np.asarray(values)[who]

        return replace(
            self, partition=partition, base=part(self.base), weights=part(self.weights), last=part(self.last)
        )
