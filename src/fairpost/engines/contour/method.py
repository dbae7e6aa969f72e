"""Who answers `simplex` and `pos` under Laplace and Gaussian noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairpost.engines.base import Answer, Part, Refusal
from fairpost.engines.closed.total import Total
from fairpost.engines.contour import release
from fairpost.engines.contour.few import FEW
from fairpost.engines.contour.law import Root
from fairpost.engines.contour.shares import Shares, pos
from fairpost.engines.moments import Moments, Work, distinct
from fairpost.noise import Law
from fairpost.noise.base import GAUSSIAN, LAPLACE
from fairpost.rules import PoS, PostProcessing, Simplex

COARSEST = 1e-9
"""The noise has to be at least this part of the counts: floats tell r from them to 2e-16 of themselves."""


def _simplex(pi: Simplex, part: Part, law: Law, rtol: float) -> Work | str:
    d = distinct(part)
    if pi.C == 0 or part.x.size == 1:
        return lambda rtol: d.entities(release.certain(d.x, d.times, pi.C))
    root = release.root_of(d.x, d.times, law, pi.C)
    if law.code == LAPLACE and root.n <= FEW and root.noiseless > root.c[0]:
        return "simplex: few entities, and a total that clips them even without noise, leave contours that do not decay"
    return lambda rtol: d.entities(release.in_counts(release.simplex(root, rtol), law.spread, rtol))


def _pos(pi: PoS, part: Part, law: Law, rtol: float) -> Work | str:
    d = distinct(part, pi.problem.a(part.x.size))
    a = d.a / np.max(d.a)
    if part.x.size == 1:  # it has the whole
        none = np.zeros(1)
        sure = Moments(
            none, none, none, none, degenerate=float(law.cdf(-d.x)[0]), mse_error=none, zero_error=none, kind="bound"
        )
        return lambda rtol: sure
    root = Root(a * d.x / law.spread, a, d.times, law.scaled(1.0), None)
    problem = Shares(root, Total(root.c, a, d.times, d.truth, root.noise))
    inverse = problem.total.inverse(0.02 * rtol)
    # a share is off by about this root mean square at most, and alpha by twice as much
    spread = np.max(root.scale + d.truth * np.sqrt(d.times @ root.scale**2)) * root.noise.deviation / problem.total.mean
    if inverse is None or inverse.tail > rtol * spread:
        return f"{pi.name}: the weighted sum of the noisy counts may be negative"
    return lambda rtol: d.entities(pos(problem, inverse, rtol))


PREPARE: dict[type[PostProcessing], Callable[[Any, Part, Law, float], Work | str]] = {Simplex: _simplex, PoS: _pos}
"""For each kind of rule the work, or the reason why there is none."""


@dataclass(frozen=True)
class Contour:
    """Contour integrals, refined until two levels agree: errors are estimates."""

    name: ClassVar[str] = "contour"
    rules: ClassVar[tuple[type[PostProcessing], ...]] = tuple(PREPARE)

    def fits(self, part: Part, rtol: float) -> str | None:
        """Why not, by the noise, the total and how near S may come to 0."""
        work = self._work(part, rtol)
        return work if isinstance(work, str) else None

    def evaluate(self, part: Part, rtol: float) -> Answer | Refusal:
        """Its moments."""
        work = self._work(part, rtol)
        if isinstance(work, str):
            return Refusal(work)
        with np.errstate(all="ignore"):  # far tails under- and overflow; what is not finite is refused in `answer`
            found = work(rtol)
            return found.answer("exact", found.kind, part)

    def _work(self, part: Part, rtol: float) -> Work | str:
        law, pi = part.mechanism, part.pi
        if not isinstance(law, Law) or law.code not in (LAPLACE, GAUSSIAN):
            return f"contours cover {pi.name!r} under continuous noise only, not under {law.name}"
        if law.spread < COARSEST * float(np.max(part.x)):
            return f"{pi.name}: counts and noise are too far apart for floats"
        prepare = next(PREPARE[kind] for kind in type(pi).__mro__ if kind in PREPARE)
        return prepare(pi, part, law, rtol)
