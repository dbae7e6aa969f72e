"""An engine made of methods: for each part of a question the first that fits, and groups to one tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairpost import cancel
from fairpost.accuracy import Estimate
from fairpost.engines.base import Answer, Method, Part, Question, Refusal, reached_by
from fairpost.engines.groups import together
from fairpost.errors import Cancelled
from fairpost.parallel import over_slices
from fairpost.partition import Partition

COARSE = 1e-2
"""The part of its own alpha to which each group is looked at first."""


@dataclass(frozen=True)
class Analytic:
    """Methods in the order in which they are preferred."""

    methods: tuple[Method, ...]
    rtol: float
    missing: str = "there is no formula"
    """What is said of a rule that no method knows."""

    def choose(self, part: Part) -> tuple[Method | None, list[tuple[str, str]]]:
        """The first method that fits, and the name of each before it with the reason why it does not."""
        passed: list[tuple[str, str]] = []
        for method in self.methods:
            if not isinstance(part.pi, method.rules):
                continue
            why = method.fits(part, self.rtol)
            if why is None:
                return method, passed
            passed.append((method.name, why))
        return None, passed

    def unknown(self, part: Part) -> str:
        """The reason where no method knows the rule."""
        return f"{self.missing} for the post-processing {part.pi.name!r}"

    def supports(self, question: Question) -> str | None:
        """The reason of the first refusal before any work; None where there is none."""
        for i in range(len(question.pis)):
            for part in question.parts(i):
                method, passed = self.choose(part)
                if method is None:
                    return passed[-1][1] if passed else self.unknown(part)
        return None

    def evaluate(self, question: Question) -> tuple[Answer | Refusal, ...]:
        """Every post-processing by itself."""
        found: list[Answer | Refusal] = []
        try:
            for i, pi in enumerate(question.pis):
                cancel.check()
                parts = question.parts(i)
                one = (
                    self.answer(parts[0], self.rtol)
                    if pi.partition is None
                    else self._by_group(parts, pi.partition, max(question.only([i]).largest, default=0.0))
                )
                found.append(one)
        except Cancelled as error:
            error.reaching(lambda _: reached_by(found, len(question.pis)))
            raise
        return tuple(found)

    def answer(self, part: Part, rtol: float) -> Answer | Refusal:
        """Of the first method that fits; where it falls short, of the next."""
        refused: list[Refusal] = []
        for method in self.methods:
            cancel.check()
            if not isinstance(part.pi, method.rules):
                continue
            why = method.fits(part, rtol)
            found = Refusal(why) if why is not None else method.evaluate(part, rtol)
            if isinstance(found, Answer):
                return found
            refused.append(found)
        tried = [one for one in refused if one.tried]
        return min(tried, key=_width) if tried else refused[-1] if refused else Refusal(self.unknown(part))

    def _by_group(self, parts: Sequence[Part], partition: Partition, largest: float) -> Answer | Refusal:
        """Groups are independent problems with one tolerance: `rtol` of the largest alpha of any group, or of `largest` elsewhere.

        A first look, to a percent of each alpha, says how large that is and is enough for many groups. The others follow with what of
        their own alpha they need, those that were refused first: where one stays so, the whole is refused, and no digit of the others
        is worth its time.
        """
        coarse = max(self.rtol, COARSE)
        found = self._each(parts, [coarse] * len(parts))
        most = self.rtol * max((a.low for a in map(_alpha, found) if a is not None), default=0.0)
        most = max(most, self.rtol * largest)

        def finer(which: list[int]) -> None:
            alphas = [_alpha(found[g]) for g in which]
            needs = [self.rtol if a is None or a.high == 0 else max(most / a.high, self.rtol) for a in alphas]
            some = {g: need for g, need in zip(which, needs, strict=True) if need < coarse}
            again = self._each([parts[g] for g in some], list(some.values()))
            for g, new in zip(some, again, strict=True):
                found[g] = new if isinstance(new, Answer) else _nearer(found[g], new, parts[g].pi.name, most)

        finer([g for g, one in enumerate(found) if isinstance(one, Refusal) and one.tried])
        if not any(isinstance(one, Refusal) for one in found):
            finer([g for g, one in enumerate(found) if isinstance(one, Answer) and one.alpha.half_width > most])
        return together(found, partition)

    def _each(self, parts: Sequence[Part], rtols: list[float]) -> list[Answer | Refusal]:
        """Dealt to the threads in order; inside a thread the kernels do not split again."""
        if not parts:
            return []
        found = over_slices(lambda some: list(map(self.answer, parts[some], rtols[some])), len(parts))
        return [one for part in found for one in part]


def _width(one: Refusal) -> float:
    return np.inf if one.reached is None else one.reached.alpha.half_width


def _alpha(one: Answer | Refusal) -> Estimate | None:
    """Alpha as far as it is known."""
    if isinstance(one, Answer):
        return one.alpha
    return None if one.reached is None else one.reached.alpha


def _nearer(before: Answer | Refusal, new: Refusal, name: str, most: float) -> Refusal:
    """Where the finer way was refused: what had come nearest to `most`, and the sentence about it."""
    if isinstance(before, Refusal):
        return min((new, before), key=_width)
    better = new.reached is not None and new.reached.alpha.half_width < before.alpha.half_width
    kept = before.with_biases_of(new.reached) if better and new.reached is not None else before
    a = kept.alpha
    said = f"{name}: alpha = {a.value:.6g} is known to {a.half_width:.2g} only, which misses {most:.2g}"
    return replace(
        new, reason=f"{said}, the relative tolerance of the largest alpha of any group", tried=True, reached=kept
    )
