"""Which post-processings have an expansion, and which one is asked first."""

from __future__ import annotations

from collections.abc import Callable

from fairpost.engines.evaluation import REFUSALS, Asked, Evaluators, Work
from fairpost.engines.expansion import whole
from fairpost.engines.expansion.threshold import pos_threshold, simplex_threshold
from fairpost.engines.moments import Moments
from fairpost.errors import ToleranceError, UnsupportedError
from fairpost.rules import PoS, PosThreshold, Simplex, SimplexThreshold

EXPANSION = Evaluators()


def _in_turn(*ways: Callable[[], Work]) -> Work:
    """The work of the first way that is not refused, before or in it; where all are, the first refusal that says what was reached.

    One that can be prepared is found here, so that what none covers is refused before the work.
    """
    refused: list[UnsupportedError | ToleranceError] = []
    left = list(ways)

    def prepared() -> Work:
        while left:
            try:
                return left.pop(0)()
            except REFUSALS as error:
                refused.append(error)
        raise next((error for error in refused if isinstance(error, ToleranceError)), refused[0])

    first = prepared()

    def work() -> Moments:
        now = first
        while True:
            try:
                return now()
            except REFUSALS as error:
                refused.append(error)
            now = prepared()

    return work


def _whole_only(name: str, asked: Asked) -> None:
    """Refuse continuous noise, for which the exact engine is meant."""
    if not asked.law().discrete:
        raise UnsupportedError(
            f"{name}: the expansion in 1/scale^2 is for whole-number noise, not for {asked.law().name}"
        )


@EXPANSION.register(Simplex)
def _simplex(pi: Simplex, asked: Asked) -> Work:
    _whole_only(pi.name, asked)
    return whole.release(pi, asked)


@EXPANSION.register(PoS)
def _pos(pi: PoS, asked: Asked) -> Work:
    _whole_only(pi.name, asked)
    a = pi.problem.a(asked.x.size)
    return _in_turn(lambda: whole.allocation(pi, asked, a), lambda: whole.coarse(pi, asked, a))


@EXPANSION.register(SimplexThreshold)
def _simplex_threshold(pi: SimplexThreshold, asked: Asked) -> Work:
    d, law, rule = asked.distinct(), asked.law(), pi.rule
    many = d.entities(lambda: simplex_threshold(d.x, d.times, law, pi.C, rule))
    return _in_turn(lambda: whole.release(pi, asked), lambda: many) if law.discrete else many


@EXPANSION.register(PosThreshold)
def _pos_threshold(pi: PosThreshold, asked: Asked) -> Work:
    a = pi.problem.a(asked.x.size)
    d, law, rule = asked.distinct(a), asked.law(), pi.rule
    many = d.entities(lambda: pos_threshold(d.x, d.a, d.times, d.truth, law, rule))
    if not law.discrete:
        return many
    return _in_turn(lambda: whole.allocation(pi, asked, a), lambda: many, lambda: whole.coarse(pi, asked, a))
