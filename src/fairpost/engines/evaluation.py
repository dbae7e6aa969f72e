"""One formula for each type of post-processing, as a method.

An evaluator is registered for a type of post-processing, beside its derivation, with a function that takes what is asked
(`Asked`) and returns the work as a function without arguments. Everything that can be refused before the work is refused
there: `fits` goes that far and stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.accuracy import Kind
from fairpost.counts import distinct_pairs
from fairpost.engines.base import Answer, Part, Refusal
from fairpost.engines.moments import Counted, Floats, Moments, reached
from fairpost.errors import ToleranceError, UnsupportedError
from fairpost.noise import Law, Mechanism
from fairpost.rules import PostProcessing

Work = Callable[[], Moments]
REFUSALS = (UnsupportedError, ToleranceError)
"""The errors by which an evaluator refuses; any other error is not its own."""


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

    def __init__(self) -> None:
        self._found = dict[type[PostProcessing], Callable[[Any, Asked], Work]]()

    @property
    def kinds(self) -> tuple[type[PostProcessing], ...]:
        """The types of post-processings that are registered."""
        return tuple(self._found)

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
        raise AssertionError(f"{pi.name} is not registered")


@dataclass(frozen=True)
class Registered:
    """The evaluators of one engine as a method. Here, and nowhere further in, an exception becomes a value."""

    name: str
    kind: Kind
    evaluators: Evaluators

    @property
    def rules(self) -> tuple[type[PostProcessing], ...]:
        """Those with an evaluator."""
        return self.evaluators.kinds

    def _work(self, part: Part, rtol: float) -> Work:
        return self.evaluators.prepare(part.pi, Asked(part.x, part.truth, part.mechanism, rtol))

    def fits(self, part: Part, rtol: float) -> str | None:
        """Why it is refused before the work, None where it is not."""
        try:
            self._work(part, rtol)
        except REFUSALS as error:
            return str(error)
        return None

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """What the evaluator finds, or how far it came."""
        try:
            with np.errstate(all="ignore"):  # far tails under- and overflow; what is not finite is refused in `answer`
                return self._work(part, rtol)().answer(self.name, self.kind, part)
        except REFUSALS as error:
            some = getattr(error, "reached", None)
            had = None if some is None or some[0].size != part.x.size else reached(self.name, self.kind, *some)
            return Refusal(str(error), isinstance(error, ToleranceError), had)


@contextmanager
def _in_floats(name: str) -> Iterator[None]:
    """A division by a variance that is 0.0 in floats, or an overflow, is a refusal: another engine may try."""
    try:
        yield
    except ArithmeticError as error:
        raise ToleranceError(f"{name}: counts and noise are too far apart for floats ({error})") from error
