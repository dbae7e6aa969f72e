"""What noise changes in an audit of a law beside the payments: seats that change hands, groups at their minimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.problems import Programme
from fairpost.results.audit import Audit

if TYPE_CHECKING:
    from fairpost.engines.montecarlo.floors import MinimumChanges
    from fairpost.engines.montecarlo.seats import SeatChanges


def seats_of(r: Audit) -> SeatChanges | None:
    """Of an apportionment: the chance that each one's seats change."""
    if not isinstance(r.problem, Programme) or r.problem.seats is None:
        return None
    from fairpost.engines.montecarlo.seats import seat_changes

    return seat_changes(r.counts, r.mechanism, r.problem.seats, runs=r.engine.runs or 20_000, seed=r.engine.seed or 0)


def minimum_of(r: Audit) -> MinimumChanges | None:
    """Of a law with a minimum for groups: which are at it, and the chance that noise changes that."""
    if not isinstance(r.problem, Programme) or r.problem.minimum is None or r.problem.base_noise is not None:
        return None
    from fairpost.engines.montecarlo.floors import minimum_changes

    return minimum_changes(
        r.counts, r.mechanism, r.problem, runs=min(r.engine.runs or 1000, 1000), seed=r.engine.seed or 0
    )
