"""What is asked and answered: Question, Part, Answer, Refusal, and the two who answer, Engine and Method.

A `Question` is x, M and one or more pi. Where groups have problems of their own it falls into `Part`s: one rule on entities that
share one problem. A `Method` answers a part and says beforehand whether it fits; an `Engine` answers a whole question, with methods
(`analytic`) or by simulation. Neither knows the others: `choose.method_for` says who answers, `FirstOf` asks engines in turn.
What is not answered is a `Refusal`, a value: it says why, what to do about it, and what was reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fairpost import fairness
from fairpost.accuracy import Accuracy, Estimate
from fairpost.counts import Counts
from fairpost.errors import FairpostError, ParameterError, ToleranceError, UnsupportedError
from fairpost.noise import Mechanism
from fairpost.rules import PostProcessing

if TYPE_CHECKING:
    from fairpost.engines.montecarlo.estimates import Sampled

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Question:
    """x, M and the post-processings, each tuned to the noise and checked against the counts."""

    counts: Counts
    mechanism: Mechanism
    pis: tuple[PostProcessing, ...]
    largest: tuple[float, ...] = ()
    """Of each post-processing the largest alpha that other groups are known to have: a tolerance by group is a part of the largest of all."""

    @classmethod
    def ask(cls, counts: Counts, mechanism: Mechanism, pis: Sequence[PostProcessing]) -> Question:
        """The question, once every problem has been checked against the counts."""
        if not pis:
            raise ParameterError("there must be at least one post-processing, got none")
        for pi in pis:
            pi.check(counts)
        return cls(counts, mechanism, tuple(pi.for_mechanism(mechanism) for pi in pis))

    @cached_property
    def truths(self) -> tuple[Floats, ...]:
        """P(x) for each post-processing: computed here, once."""
        return tuple(pi.problem.truth(self.counts) for pi in self.pis)

    def parts(self, i: int) -> tuple[Part, ...]:
        """The problem of each group that post-processing i has, or the one of all entities."""
        x, pi, truth, m = self.counts.values, self.pis[i], self.truths[i], self.mechanism
        if pi.partition is None:
            return (Part(pi, x, truth, m, pi.extremes(self.counts, m)),)
        members = [pi.partition.of_group(g) for g in range(len(pi.partition.labels))]
        return tuple(Part(pi.alone(g), x[who], truth[who], m) for g, who in enumerate(members))

    def only(self, places: Sequence[int]) -> Question:
        """The same about some of the post-processings."""
        return replace(
            self, pis=tuple(self.pis[i] for i in places), largest=tuple(self.largest[i] for i in places if self.largest)
        )

    def of_groups(self, groups: Sequence[int], largest: Sequence[float] = ()) -> Question:
        """The same about some groups of the partition that all post-processings have; `largest` is what the others' alphas are known to be."""
        assert self.pis[0].partition is not None
        who = self.pis[0].partition.members(groups)
        pis = tuple(pi.of_groups(groups) for pi in self.pis)
        return Question(self.counts.at(who), self.mechanism, pis, tuple(largest))


@dataclass(frozen=True, eq=False)
class Part:
    """One post-processing on entities that share one problem: all of them, or those of one group."""

    pi: PostProcessing
    x: Floats
    truth: Floats
    """P(x)."""
    mechanism: Mechanism
    ends: tuple[int, int] | None = None
    """Who attains alpha, where theory knows."""


@dataclass(frozen=True)
class Drawn:
    """What stands behind intervals."""

    runs: int
    """Runs of a simulation, or points at which conditional means were taken."""
    seed: int
    confidence: float
    """All biases lie within their half-widths together, and alpha within its interval, with this chance."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The moments of one post-processing, one entry per entity, in the unit of its problem (chances in 1)."""

    method: str
    """How it was found: exact, expansion, conditional, monte-carlo, mean-field."""
    bias: Floats
    """B_i = E[pi(X)_i] - P(x)_i."""
    accuracy: Accuracy
    """Of `bias`."""
    mse: Floats
    """E[(pi(X)_i - P(x)_i)^2]."""
    mse_accuracy: Accuracy
    zero: Floats
    """P(pi(X)_i = 0), the chance of receiving nothing."""
    zero_accuracy: Accuracy
    alpha: Estimate
    """max B - min B."""
    pair: tuple[int, int]
    """The positions of the entities with the largest and the smallest bias."""
    total_off: Estimate | None = None
    """The sum of the biases, where it is known better than they are together."""
    expected_T: Estimate | None = None
    """E[T] of Lemma 2, for the projection onto the simplex."""
    degenerate: float = 0.0
    """The probability that a draw takes the documented convention; by group of a draw in one group, the mean over groups.

    Simulation counts the same: the share of (draw, group) pairs.
    """
    note: str | None = None
    drawn: Drawn | None = None
    """Where chance was used."""
    sample: Sampled | None = None
    """Simulation: everything else that it has shown."""

    def with_biases_of(self, reached: Reached | Answer) -> Answer:
        """The same with biases that are known better."""
        return replace(
            self,
            method=reached.method,
            bias=reached.bias,
            accuracy=reached.accuracy,
            alpha=reached.alpha,
            pair=reached.pair,
        )

    def rescaled(self, part: Floats) -> Answer:
        """The answer in another unit per entity (part >= 0), as when shares of a group become shares of the whole.

        A sum of n positive numbers has a relative rounding error of at most n eps, so `part`, a ratio of two such
        sums, adds (2n + 4) eps of a bias to its error.
        """
        bias = self.bias * part
        rounding = (2 * part.size + 4) * np.finfo(np.float64).eps * np.abs(bias)
        known = Accuracy(self.accuracy.kind, self.accuracy.scaled(part).half_width + rounding)
        ends = fairness.alpha(bias)
        return replace(
            self,
            bias=bias,
            accuracy=known,
            mse=self.mse * part**2,
            mse_accuracy=self.mse_accuracy.scaled(part**2),
            alpha=fairness.alpha_interval(bias, known),
            pair=(ends.most, ends.least),
            total_off=None,
            sample=None if self.sample is None else self.sample.rescaled(part),
        )


@dataclass(frozen=True, eq=False)
class Reached:
    """What an engine had found when it gave up: biases whose error stays above the tolerance."""

    method: str
    bias: Floats
    accuracy: Accuracy
    alpha: Estimate
    pair: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Refusal:
    """Why there is no answer, in one line, and what was reached."""

    reason: str
    tried: bool = False
    """Whether there was work, which fell short of the tolerance; else the case is not covered."""
    reached: Reached | Answer | None = None
    """An answer where it is complete, but short of the tolerance."""
    groups: tuple[Answer | Refusal, ...] | None = None
    """By group: what was found about each."""

    @property
    def error(self) -> FairpostError:
        """The same for callers who want an exception."""
        if not self.tried:
            return UnsupportedError(self.reason)
        reached = None if self.reached is None else (self.reached.bias, self.reached.accuracy.half_width)
        return ToleranceError(self.reason, reached)


class Engine(Protocol):
    """Answers a question.

    One with `joint = True` sees more in one question about several post-processings than in one about each: the same noise.
    """

    name: ClassVar[str]

    def supports(self, question: Question) -> str | None:
        """None where every post-processing of the question will be tried, else the reason why one will not."""

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """An answer or a refusal for each post-processing."""


class Method(Protocol):
    """Answers parts of one regime."""

    @property
    def name(self) -> str:
        """Who answers, in one word."""

    @property
    def rules(self) -> tuple[type[PostProcessing], ...]:
        """The kinds of rules that it knows."""

    def fits(self, part: Part, rtol: float) -> str | None:
        """None where it answers this part to the relative tolerance `rtol` on alpha, else why not. Cheap, and before any work."""

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """The moments, one entry per entity of the part; a refusal where what `fits` foresaw did not come true."""


def answered(found: Answer | Refusal) -> Answer:
    """The answer; a refusal is raised as an error."""
    if isinstance(found, Refusal):
        raise found.error
    return found


def reached_by(found: Sequence[Answer | Refusal], size: int) -> tuple[Answer | Refusal | None, ...] | None:
    """What a withdrawn question had found: one entry for each of `size` post-processings; None where nothing was."""
    return (*found, *([None] * (size - len(found)))) if found else None
