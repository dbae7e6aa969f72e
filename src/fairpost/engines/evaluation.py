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
from fairpost.counts import Counts, distinct_pairs
from fairpost.engines.base import REFUSALS, Answer, Question, Reached, Refusal, reached_by
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import Cancelled, ToleranceError, UnsupportedError
from fairpost.noise import Law, Mechanism
from fairpost.parallel import over_slices
from fairpost.partition import Partition
from fairpost.rules import PostProcessing

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
                self._works(question, i)
            except REFUSALS as error:
                return str(error)
        return None

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """Every post-processing by itself."""
        found: list[Answer | Refusal] = []
        for i in range(len(question.pis)):
            try:
                cancel.check()
                found.append(self._one(question, i))
            except Cancelled as error:
                error.reaching(lambda _: reached_by(found, len(question.pis)))
                raise
        return tuple(found)

    def _works(self, question: Question, i: int) -> list[tuple[NDArray[np.int64] | None, Work]]:
        """The work of each group (None: of all entities): groups are independent problems with one tolerance."""
        counts, pi, truth = question.counts, question.pis[i], question.truths[i]
        if pi.partition is None:
            return [(None, self._prepared(pi, counts.values, truth, question.mechanism))]
        parts: Partition = pi.partition
        out: list[tuple[NDArray[np.int64] | None, Work]] = []
        for g in range(len(parts.labels)):
            who = parts.of_group(g)
            out.append((who, self._prepared(pi.alone(g), counts.values[who], truth[who], question.mechanism)))
        return out

    def _prepared(self, pi: PostProcessing, x: Floats, truth: Floats, mechanism: Mechanism) -> Work:
        return self.evaluators.prepare(pi, Asked(x, truth, mechanism, self.rtol))

    def _one(self, question: Question, i: int) -> Answer | Refusal:
        counts, pi = question.counts, question.pis[i]
        try:
            works = self._works(question, i)
            with np.errstate(all="ignore"):  # far tails under- and overflow; what is not finite is refused in `_answer`
                found = works[0][1]() if works[0][0] is None else _joined(works, counts.n)
            return self._answer(found, counts, question.mechanism, pi)
        except REFUSALS as error:
            return Refusal(error, self._reached(getattr(error, "reached", None), counts, pi))

    def _answer(self, m: Moments, counts: Counts, mechanism: Mechanism, pi: PostProcessing) -> Answer:
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
            pair=pi.extremes(counts, mechanism) or (found.most, found.least),
            expected_T=expected,
            degenerate=m.degenerate,
        )

    def _reached(self, found: tuple[Floats, Floats] | None, counts: Counts, pi: PostProcessing) -> Reached | None:
        """What a refusal had in hand, if it is about all entities and finite."""
        if found is None or pi.partition is not None or found[0].size != counts.n or not np.isfinite(found).all():
            return None
        known = Accuracy(self.kind, found[1])
        ends = fairness.alpha(found[0])
        return Reached(self.method, found[0], known, fairness.alpha_interval(found[0], known), (ends.most, ends.least))


def _joined(works: list[tuple[NDArray[np.int64] | None, Work]], n: int) -> Moments:
    """The moments of all groups; the chance of a degenerate draw is the mean over groups, as simulation counts it.

    `rtol` of the largest alpha is reached because each group reaches its own.

    Groups are independent: they are dealt to the threads in order, and inside a thread the kernels do not split again. Where one is refused
    so are all, and the others are not gone on with.
    """
    arrays: dict[str, Any] = {name: np.empty(n) for name in ("bias", "error", "mse", "zero", "mse_error", "zero_error")}
    convention, nodes = 0.0, 0
    ours, refused = cancel.part(), list[Exception]()

    def some(part: slice) -> list[Moments]:
        found = []
        for _, work in works[part]:
            cancel.check()
            try:
                found.append(work())
            except REFUSALS as error:
                refused.append(error)
                ours.cancel()
                raise
        return found

    try:
        with cancel.by(ours):
            answers = [m for part in over_slices(some, len(works)) for m in part]
    except Cancelled:
        if not refused or cancel.requested():
            raise
        raise refused[0] from None
    for (who, _), answer in zip(works, answers, strict=True):
        found = _stated(answer)
        for name, values in arrays.items():
            values[who] = getattr(found, name)
        convention += found.degenerate / len(works)
        nodes = max(nodes, found.nodes)
    return Moments(**arrays, degenerate=convention, nodes=nodes)


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
