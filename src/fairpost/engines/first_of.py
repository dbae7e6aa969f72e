"""Several engines in turn: each is asked for what those before it left open, group by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from fairpost.accuracy import Accuracy, Estimate, weakest
from fairpost.engines.base import Answer, Engine, Floats, Question, Reached, Refusal
from fairpost.engines.groups import apart, together
from fairpost.errors import Cancelled
from fairpost.partition import Partition

ENOUGH = 1e-3
"""An expansion that knows alpha to this part of it needs no second opinion: it is what conditional means are asked for by default."""
SURE = 4.0
"""Two engines contradict each other where they differ by their errors and this many standard errors of what was simulated."""


@dataclass(frozen=True)
class FirstOf:
    """The first engine that answers well enough, for each group by itself where groups are problems of their own.

    An expansion that is wider than `ENOUGH` of the largest alpha in the question, and a refusal with a result in hand, are compared with what
    the next engine says: the narrower one is given; where two answers contradict each other, intervals that hold both; a refused result that
    is contradicted is dropped. The answer's note says who answered what, and why.
    """

    engines: tuple[Engine, ...]
    name: ClassVar[str] = "auto"

    def supports(self, question: Question) -> str | None:
        """None where some engine will be tried for each post-processing, else the last reason."""
        for i in range(len(question.pis)):
            reasons = [engine.supports(question.only([i])) for engine in self.engines]
            if all(reason is not None for reason in reasons):
                return reasons[-1]
        return None

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """Each engine in turn, for all that is still open at once."""
        kept = [_Kept.of(question, i) for i in range(len(question.pis))]
        for engine in self.engines:
            for places, groups in _open(kept, getattr(engine, "joint", False)):
                asked = question.only(places)
                if groups is not None:
                    asked = asked.of_groups(groups, [kept[i].largest for i in places])
                try:
                    answers = engine.evaluate(asked)
                except Cancelled as error:
                    error.reaching(partial(_withdrawn, kept, places, groups))
                    raise
                for i, answer in zip(places, answers, strict=True):
                    kept[i] = kept[i].then(answer, groups)
        return tuple(one.found() for one in kept)


@dataclass(frozen=True)
class _One:
    """What there is of one group, or of all entities where they are one problem."""

    found: Answer | Refusal | None = None
    how: str = ""
    """Who answered, in words."""
    reason: str | None = None
    """Why nobody before did."""
    more: str | None = None
    """What came of several results."""
    good: bool = False
    """Whether it is as its engine promises, however wide."""

    def settled(self, largest: float) -> bool:
        """Whether nobody else is asked, alpha being `largest` in the group where it is largest."""
        if not isinstance(self.found, Answer):
            return False
        return self.good or self.found.alpha.half_width <= ENOUGH * largest

    def then(self, new: Answer | Refusal) -> _One:
        """With what the next engine says."""
        before = self.found
        if isinstance(new, Answer):
            return self._answered(new, _how(new), new.accuracy.kind != "expansion")
        if isinstance(new.reached, Answer):  # complete, but short of the tolerance
            return self._answered(new.reached, f"{_how(new.reached)}, short of the tolerance", False)
        return self if isinstance(before, Answer) else replace(self, found=_told(before, new))

    def _answered(self, new: Answer, how: str, good: bool) -> _One:
        before = self.found
        if isinstance(before, Answer):
            return self._compared(before, new, how)
        if before is None:
            return _One(new, how, good=good)
        reached = before.reached
        if reached is None or reached.alpha.half_width > new.alpha.half_width:
            return _One(new, how, before.reason, good=good)
        if not _agree(reached, new):
            more = "what had been reached lies far outside what came after it, and is dropped"
            return _One(new, how, before.reason, more, good)
        more = f"that is still better than what came after it, so the biases stand, and the other moments are {how}"
        return _One(replace(new.with_biases_of(reached), note=None), "", before.reason, more)

    def _compared(self, before: Answer, new: Answer, how: str) -> _One:
        """Of two answers the narrower one, or what holds both."""
        wide, narrow = _wide(before), _wide(new)
        if not _agree(before, new):
            more = f"{before.method} and {new.method} differ by more than their errors: the intervals hold both"
            return _One(_both(before, new), how, self.reason, more, good=True)
        if wide <= narrow:
            return replace(
                self, more=_line(self.more, f"{new.method} agrees and knows alpha to {narrow:.2g} only"), good=True
            )
        return _One(new, how, self.reason, f"{before.method} agrees and knows alpha to {wide:.2g} only", good=True)

    @property
    def words(self) -> str | None:
        """Who answered and why, where the first engine that was asked did not."""
        why = ", because ".join(part for part in (self.how, self.reason) if part) if self.reason else None
        return _line(why or (self.how if self.more else None), self.more)

    @property
    def said(self) -> str | None:
        """The engine's own word."""
        return self.found.note if isinstance(self.found, Answer) else None


def _how(new: Answer) -> str:
    return {"monte-carlo": "simulated", "conditional": "by conditional means"}.get(new.method, f"by {new.method}")


@dataclass(frozen=True)
class _Kept:
    """What there is of one post-processing, group by group."""

    ones: tuple[_One, ...]
    partition: Partition | None
    whole: Answer | None = None
    """The answer about all groups, where one engine gave it and nothing was kept of another."""

    @classmethod
    def of(cls, question: Question, i: int) -> _Kept:
        partition = question.pis[i].partition
        return cls((_One(),) * (1 if partition is None else len(partition.labels)), partition)

    @property
    def largest(self) -> float:
        """What alpha is at least in the group where it is largest."""
        reached = [r for one in self.ones if (r := _reached(one.found)) is not None]
        return max((r.alpha.low for r in reached), default=0.0)

    @property
    def open(self) -> tuple[int, ...]:
        """The groups that are not answered well enough."""
        largest = self.largest
        return tuple(g for g, one in enumerate(self.ones) if not one.settled(largest))

    def then(self, new: Answer | Refusal, groups: Sequence[int] | None) -> _Kept:
        """With what the next engine says about these groups (None: about all)."""
        which = range(len(self.ones)) if groups is None else groups
        if self.partition is None:
            return replace(self, ones=(self.ones[0].then(new),))
        parts: Sequence[Answer | Refusal]
        if isinstance(new, Answer):
            parts = apart(new, self.partition if groups is None else self.partition.of_groups(groups))
        else:
            parts = new.groups or [replace(new, reached=None)] * len(which)
        ones, still = list(self.ones), self.open
        for g, part in zip(which, parts, strict=True):
            if g in still:
                ones[g] = ones[g].then(part)
        plain = len(parts) == len(ones) and all(one.found is part for one, part in zip(ones, parts, strict=True))
        return replace(self, ones=tuple(ones), whole=new if plain and isinstance(new, Answer) else None)

    def found(self) -> Answer | Refusal:
        """The answer, or the first refusal."""
        first, found = self.ones[0], [one.found for one in self.ones if one.found is not None]
        joined = found[0] if self.partition is None else self.whole or together(found, self.partition)
        if isinstance(joined, Refusal):
            return joined
        plain = self.partition is None or self.whole is not None
        said = joined.note if self.whole is not None else first.said
        return replace(joined, note=_line(first.words, said) if plain else self._by_whom())

    def _by_whom(self) -> str | None:
        """Who answered which groups; where they are several, the words are about the first of them."""
        assert self.partition is not None
        name, by = self.partition.name, dict[str, list[int]]()
        for g, one in enumerate(self.ones):
            by.setdefault(one.how, []).append(g)
        words = []
        for how, some in by.items():
            first = next((g for g in some if self.ones[g].words), some[0])
            one = self.ones[first]
            names = f"{len(some)} groups" if len(some) > SHOWN else ", ".join(map(name, some))
            names += f" (as {name(first)})" if len(some) > 1 and one.words else ""
            words.append(f"{names}: {_line(one.words or how.removeprefix('by '), one.said)}")
        kinds = weakest(*(one.found.accuracy.kind for one in self.ones if isinstance(one.found, Answer)))
        return f"{'; '.join(words)}; together of the weakest kind, {kinds}"


SHOWN = 6
"""So many groups are named."""


def _open(kept: Sequence[_Kept], joint: bool) -> Iterator[tuple[list[int], tuple[int, ...] | None]]:
    """What is asked next: which post-processings, about which groups (None: about all).

    Those with the same groups open are asked together; `joint`: all of them, so that they see the same noise.
    """
    still = {i: one.open for i, one in enumerate(kept) if one.open}
    parts = {i: None if len(some) == len(kept[i].ones) else some for i, some in still.items()}
    if joint and parts:
        some = [groups for groups in parts.values() if groups is not None]
        alike = len(some) == len(parts) and all(_alike(kept[i], kept[next(iter(parts))]) for i in parts)
        yield list(parts), tuple(sorted(set().union(*some))) if alike else None
        return
    while parts:
        first = next(iter(parts))
        places = [i for i in parts if parts[i] == parts[first] and (parts[i] is None or _alike(kept[i], kept[first]))]
        yield places, parts[first]
        parts = {i: groups for i, groups in parts.items() if i not in places}


def _alike(one: _Kept, other: _Kept) -> bool:
    """Whether both have the same groups."""
    p, q = one.partition, other.partition
    return p is q or (
        p is not None and q is not None and np.array_equal(p.order, q.order) and np.array_equal(p.starts, q.starts)
    )


def _withdrawn(
    kept: Sequence[_Kept],
    places: Sequence[int],
    groups: Sequence[int] | None,
    new: Sequence[Answer | Refusal | None] | None,
) -> tuple[Answer | Refusal | None, ...] | None:
    """What there is of a withdrawn question, the last engine's part of it included."""
    last = dict(zip(places, new or (), strict=False))
    known = [one if (part := last.get(i)) is None else one.then(part, groups) for i, one in enumerate(kept)]
    found = [None if any(part.found is None for part in one.ones) else one.found() for one in known]
    return tuple(found) if any(one is not None for one in found) else None


def _reached(found: Answer | Refusal | None) -> Answer | Reached | None:
    return found.reached if isinstance(found, Refusal) else found


def _told(before: Refusal | None, new: Refusal) -> Refusal:
    """Of two refusals the one that says more, with what was reached last."""
    if before is None:
        return new
    told = new if new.tried and not before.tried else before
    return replace(told, reached=new.reached or before.reached)


def _agree(before: Answer | Reached, new: Answer) -> bool:
    """Whether no bias of the one lies beyond its error and that of the other.

    An interval with the confidence c covers all entries together, so it is at least z standard errors wide, z the two-sided quantile
    of the normal law: SURE/z times as wide, chance parts two right answers with 1 in 16,000 at the most.
    """
    room = _room(before) + _room(new)
    return bool(np.all(np.abs(before.bias - new.bias) <= room))


def _room(one: Answer | Reached) -> Floats:
    drawn = one.drawn if isinstance(one, Answer) else None
    if one.accuracy.kind != "interval" or drawn is None:
        return one.accuracy.half_width
    return one.accuracy.half_width * max(SURE / NormalDist().inv_cdf(0.5 + drawn.confidence / 2), 1.0)


def _wide(one: Answer) -> float:
    """How well it is known: alpha, and each bias."""
    return max(one.alpha.half_width, float(np.max(one.accuracy.half_width)))


def _both(before: Answer, new: Answer) -> Answer:
    """The newer answer with intervals that hold the older one's too."""

    def wider(here: Floats, known: Accuracy, other: Floats, its: Accuracy) -> Accuracy:
        return Accuracy(
            weakest(known.kind, its.kind), np.maximum(known.half_width, np.abs(here - other) + its.half_width)
        )

    a, b = before.alpha, new.alpha
    return replace(
        new,
        accuracy=wider(new.bias, new.accuracy, before.bias, before.accuracy),
        mse_accuracy=wider(new.mse, new.mse_accuracy, before.mse, before.mse_accuracy),
        zero_accuracy=wider(new.zero, new.zero_accuracy, before.zero, before.zero_accuracy),
        alpha=Estimate(b.value, min(a.low, b.low), max(a.high, b.high), weakest(a.kind, b.kind)),
        total_off=None,
    )


def _line(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None
