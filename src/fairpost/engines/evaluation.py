"""From the integral of one post-processing to an engine: one road for `supports` and `evaluate`, group by group.

An evaluator is registered for a type of post-processing, beside its derivation, with a function that takes what is asked
(`Asked`) and returns the work as a function without arguments. Everything that can be refused before the work is refused
there. `supports` goes that far and stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost import cancel, fairness
from fairpost.accuracy import Accuracy, Estimate, Kind
from fairpost.counts import distinct_pairs
from fairpost.engines.base import REFUSALS, Answer, Question, Reached, Refusal, reached_by
from fairpost.engines.groups import together
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import Cancelled, ToleranceError, UnsupportedError
from fairpost.noise import Law, Mechanism
from fairpost.parallel import over_slices
from fairpost.partition import Partition
from fairpost.rules import PostProcessing

COARSE = 1e-2
"""The part of its own alpha to which each group is looked at first."""
LOOSE = 1e-3
"""What a second moment or a chance is good for where a rule does not say: refinement stops when they move less."""
ROUNDING = 1e-12
Work = Callable[[], Moments]


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct (count, weight) pairs, ascending: what each occurs how often, and which pair each entity has."""

    x: Floats
    a: Floats
    times: Counted
    inverse: NDArray[np.int64]
    truth: Floats
    """P(x) of each pair."""

    def entities(self, work: Work) -> Work:
        """The work on pairs as work on entities: each entity has the moments of its pair, also where it is refused."""

        def spread() -> Moments:
            try:
                return work().at(self.inverse)
            except ToleranceError as error:
                if error.reached is not None:
                    error.reached = tuple(values[self.inverse] for values in error.reached)
                raise

        return spread


@dataclass(frozen=True, eq=False)
class Asked:
    """One post-processing on one set of entities that share one problem."""

    x: Floats
    truth: Floats
    mechanism: Mechanism
    rtol: float

    def law(self) -> Law:
        """The noise, whose law must be known."""
        if not isinstance(self.mechanism, Law):
            raise UnsupportedError(f"the law of {self.mechanism.name} noise is not known; it can be simulated")
        return self.mechanism

    def distinct(self, weights: Floats | None = None) -> Distinct:
        """The distinct pairs; without weights, the distinct counts."""
        a = np.ones(self.x.size) if weights is None else weights
        x, a, times, inverse = distinct_pairs(self.x, a)
        truth = np.empty(x.size)
        truth[inverse] = self.truth
        return Distinct(x, a, times, inverse, truth)


@dataclass(frozen=True, eq=False)
class _Part:
    """The problem of one group, or of all entities."""

    pi: PostProcessing
    x: Floats
    truth: Floats
    mechanism: Mechanism
    ends: tuple[int, int] | None = None
    """Who attains alpha, where theory knows."""


class Evaluators:
    """The evaluators of one engine, by the type of post-processing."""

    def __init__(self, missing: str) -> None:
        self._missing, self._found = missing, dict[type[PostProcessing], Callable[[Any, Asked], Work]]()

    def register(self, kind: type[PostProcessing]) -> Callable[[Callable[[Any, Asked], Work]], Any]:
        """A decorator: this function prepares the evaluation of that type."""

        def add(prepare: Callable[[Any, Asked], Work]) -> Callable[[Any, Asked], Work]:
            self._found[kind] = prepare
            return prepare

        return add

    def prepare(self, pi: PostProcessing, asked: Asked) -> Work:
        """The work, or the error that refuses it."""
        for kind in type(pi).__mro__:
            if kind in self._found:
                with _in_floats(pi.name):
                    return _in_floats(pi.name)(self._found[kind](pi, asked))
        raise UnsupportedError(self._missing.format(name=pi.name))


@contextmanager
def _in_floats(name: str) -> Iterator[None]:
    """A division by a variance that is 0.0 in floats, or an overflow, is a refusal: another engine may try."""
    try:
        yield
    except ArithmeticError as error:
        raise ToleranceError(f"{name}: counts and noise are too far apart for floats ({error})") from error


@dataclass(frozen=True)
class Evaluation:
    """One engine's way through a question."""

    method: str
    kind: Kind
    evaluators: Evaluators
    rtol: float

    def supports(self, question: Question) -> str | None:
        """The reason of the first refusal before any work; None where there is none."""
        for i in range(len(question.pis)):
            try:
                for one in self._parts(question, i):
                    self._prepared(one, self.rtol)
            except REFUSALS as error:
                return str(error)
        return None

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """Every post-processing by itself."""
        found: list[Answer | Refusal] = []
        for i in range(len(question.pis)):
            try:
                cancel.check()
                parts, partition = self._parts(question, i), question.pis[i].partition
                found.append(self._one(parts[0], self.rtol) if partition is None else self._by_group(parts, partition))
            except REFUSALS as error:
                found.append(Refusal(error))
            except Cancelled as error:
                error.reaching(lambda _: reached_by(found, len(question.pis)))
                raise
        return tuple(found)

    def _parts(self, question: Question, i: int) -> list[_Part]:
        """The problem of each group, or the one of all entities."""
        counts, pi, truth = question.counts, question.pis[i], question.truths[i]
        if pi.partition is None:
            return [_Part(pi, counts.values, truth, question.mechanism, pi.extremes(counts, question.mechanism))]
        out = []
        for g in range(len(pi.partition.labels)):
            who = pi.partition.of_group(g)
            out.append(_Part(pi.alone(g), counts.values[who], truth[who], question.mechanism))
        return out

    def _prepared(self, part: _Part, rtol: float) -> Work:
        return self.evaluators.prepare(part.pi, Asked(part.x, part.truth, part.mechanism, rtol))

    def _one(self, part: _Part, rtol: float) -> Answer | Refusal:
        cancel.check()
        try:
            with np.errstate(all="ignore"):  # far tails under- and overflow; what is not finite is refused in `_answer`
                return self._answer(self._prepared(part, rtol)(), part.ends)
        except REFUSALS as error:
            return Refusal(error, self._reached(getattr(error, "reached", None), part.x.size))

    def _by_group(self, parts: list[_Part], partition: Partition) -> Answer | Refusal:
        """Groups are independent problems with one tolerance: `rtol` of the largest alpha of any group.

        A first look, to a percent of each alpha, says how large that is and is enough for many groups. The others follow with what of
        their own alpha they need, those that were refused first: where one stays so, the whole is refused, and no digit of the others
        is worth its time.
        """
        coarse = max(self.rtol, COARSE)
        found = self._each(parts, [coarse] * len(parts))
        most = self.rtol * max((a.low for a in map(_alpha, found) if a is not None), default=0.0)

        def finer(which: list[int]) -> None:
            alphas = [_alpha(found[g]) for g in which]
            needs = [self.rtol if a is None or a.high == 0 else max(most / a.high, self.rtol) for a in alphas]
            some = {g: need for g, need in zip(which, needs, strict=True) if need < coarse}
            again = self._each([parts[g] for g in some], list(some.values()))
            for g, new in zip(some, again, strict=True):
                found[g] = new if isinstance(new, Answer) else _nearer(found[g], new, parts[g].pi.name, most)

        finer([g for g, one in enumerate(found) if isinstance(one, Refusal) and isinstance(one.error, ToleranceError)])
        if not any(isinstance(one, Refusal) for one in found):
            finer([g for g, one in enumerate(found) if isinstance(one, Answer) and one.alpha.half_width > most])
        return together(found, partition)

    def _each(self, parts: list[_Part], rtols: list[float]) -> list[Answer | Refusal]:
        """Dealt to the threads in order; inside a thread the kernels do not split again."""
        if not parts:
            return []
        found = over_slices(lambda some: list(map(self._one, parts[some], rtols[some])), len(parts))
        return [one for part in found for one in part]

    def _answer(self, m: Moments, ends: tuple[int, int] | None) -> Answer:
        m = _stated(m)
        assert m.mse_error is not None
        assert m.zero_error is not None
        known = Accuracy(self.kind, m.error)
        found = fairness.alpha(m.bias)
        expected = None
        if m.threshold is not None:
            width = float(np.max(m.error)) if m.threshold_error is None else m.threshold_error
            expected = Estimate.around(m.threshold, width, self.kind)
        return Answer(
            method=self.method,
            bias=m.bias,
            accuracy=known,
            mse=m.mse,
            mse_accuracy=Accuracy(self.kind, m.mse_error),
            zero=m.zero,
            zero_accuracy=Accuracy(self.kind, m.zero_error),
            alpha=fairness.alpha_interval(m.bias, known),
            pair=ends or (found.most, found.least),
            expected_T=expected,
            degenerate=m.degenerate,
        )

    def _reached(self, found: tuple[Floats, Floats] | None, n: int) -> Reached | None:
        """What a refusal had in hand, if it is about all entities and finite."""
        if found is None or found[0].size != n or not np.isfinite(found).all():
            return None
        known = Accuracy(self.kind, found[1])
        ends = fairness.alpha(found[0])
        return Reached(self.method, found[0], known, fairness.alpha_interval(found[0], known), (ends.most, ends.least))


def _alpha(one: Answer | Refusal) -> Estimate | None:
    """Alpha as far as it is known."""
    if isinstance(one, Answer):
        return one.alpha
    return None if one.reached is None else one.reached.alpha


def _nearer(before: Answer | Refusal, new: Refusal, name: str, most: float) -> Refusal:
    """Where the finer way was refused: what had come nearest to `most`, and the sentence about it."""
    if isinstance(before, Refusal):
        found = [one for one in (new, before) if one.reached is not None]
        return min(found, key=lambda one: one.reached.alpha.half_width) if found else new  # type: ignore[union-attr]
    better = new.reached is not None and new.reached.alpha.half_width < before.alpha.half_width
    kept = before.with_biases_of(new.reached) if better and new.reached is not None else before
    a = kept.alpha
    said = f"{name}: alpha = {a.value:.6g} is known to {a.half_width:.2g} only, which misses {most:.2g}"
    return Refusal(ToleranceError(f"{said}, the relative tolerance of the largest alpha of any group"), kept)


def _stated(m: Moments) -> Moments:
    """The same with every error filled in; a moment that is no number is a refusal, so that another engine may try."""
    for what, values in (("bias", m.bias), ("mean squared error", m.mse), ("probability of 0", m.zero)):
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ToleranceError(f"a float cannot hold the {what} of every entity, got {values[bad]} at position {bad}")
    return replace(
        m,
        mse_error=LOOSE * m.mse if m.mse_error is None else m.mse_error,
        zero_error=np.minimum(LOOSE * m.zero + ROUNDING, 1.0) if m.zero_error is None else m.zero_error,
    )
