"""A smoke alarm before the first release: does this OpenDP, on this machine, draw from the laws that it promises?

Draws are sorted into cells and compared with the exact probabilities by chi-squared: each whole number where the scale
is small, runs of them where it is large, and then also the remainders modulo 16 and 15, because a sampler can be wrong
in the low digits alone. (OpenDP before 0.14.2 divided a ratio a/b by k as (a/g) / (floor(b/g) k), g = gcd(a, k), in
the series for e^-x: at b = 10 the eighth number had 15 percent too much mass.) Seven laws, 200,000 draws each, and
whichever law is to be used. An alarm at p < 1e-6: of a correct sampler, 15 tests raise a false one less than twice in
100,000 times. It is no proof: a bias below about one percent of a cell is not seen.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairpost import whole
from fairpost.errors import FairpostError
from fairpost.release.noise import Law, Sampler, Whole, opendp_version, sample, sample_all

Floats = NDArray[np.float64]
LAWS = (
    Law("discrete-laplace", 0.5),
    Law("discrete-laplace", 2.0),
    Law("discrete-laplace", 10.0),
    Law("discrete-laplace", 10 / 3),
    Law("discrete-laplace", 60.0),
    Law("discrete-gaussian", 1.5),
    Law("discrete-gaussian", 12.5),
)
DRAWS = 200_000
ALARM = 1e-6
FULLEST = 25.0
"""Cells expect at least this many draws, for the chi-squared law to hold this far out."""
CELLS = 400
"""At most about this many cells."""
FINE = 50.0
"""From this scale on remainders are tested too; below, the cells are single numbers."""
TABLE = 20_000.0
"""Up to this sigma the Gaussian's masses are summed; above, the normal law at m + 1/2 is within 1e-9 of the sum."""


@dataclass(frozen=True)
class Test:
    """One comparison: the law, what was compared, chi-squared, its degrees of freedom and its tail probability."""

    law: Law
    what: str
    chi2: float
    freedom: int
    p: float

    @property
    def passed(self) -> bool:
        """No alarm."""
        return self.p >= ALARM


def cdf(law: Law, m: Floats) -> Floats:
    """P(noise <= m) for whole m."""
    if law.mechanism == "discrete-laplace":
        q = 1 / law.scale  # P(noise <= m) = e^{m/b} / (1 + e^{-1/b}) for m < 0, and by symmetry 1 - P(noise <= -m - 1)
        far = np.exp(-np.where(m < 0, -m, m + 1) * q) / (1 + np.exp(-q))
        return np.asarray(np.where(m < 0, far, 1 - far))
    if law.scale > TABLE:
        from scipy.special import ndtr

        return np.asarray(ndtr((m + 0.5) / law.scale))
    reach = int(np.ceil(12 * law.scale)) + 1
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-((k / law.scale) ** 2) / 2)
    below = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])
    return np.asarray(below[np.clip(m + reach + 1, 0, 2 * reach + 1).astype(np.int64)])


def edges(law: Law, n: int) -> Floats:
    """Upper ends of the cells: single numbers where they are full enough, else runs; the ends of the line are open."""
    spread = law.scale * (8 if law.mechanism == "discrete-gaussian" else 25)
    step = max(1, int(2 * spread / (8 * CELLS)))
    grid = np.arange(-int(spread) - step, int(spread) + 2 * step, step, dtype=np.float64)
    below = cdf(law, grid)
    least = max(FULLEST / n, 1 / CELLS if step > 1 else 0.0)
    kept, last = [], 0.0
    for m, mass in zip(grid, below, strict=True):
        if mass - last >= least and 1 - mass >= least:
            kept.append(m)
            last = float(mass)
    return np.array(kept)


def remainders(law: Law, modulus: int) -> Floats:
    """P(noise = r modulo m) for r = 0..m-1: by the masses, or for a large scale by Poisson summation (uniform)."""
    if law.mechanism == "discrete-laplace":
        # sum over j of q^{|r + jm|}: (q^r + q^{m-r}) / (1 - q^m) for 0 < r < m, and (1 + q^m) / (1 - q^m) for r = 0
        r = np.arange(modulus, dtype=np.float64)
        q = 1 / law.scale
        mass = np.exp(-r * q) + np.exp(-(modulus - r) * q)
        return np.asarray(mass / mass.sum())
    return np.full(modulus, 1 / modulus)  # the dual sum's first term is e^{-2 (pi sigma / m)^2} < 1e-80 for sigma >= 50


def compare(law: Law, draws: Whole) -> list[Test]:
    """Chi-squared of draws against their law."""
    tops = edges(law, draws.size)
    seen = np.bincount(np.searchsorted(tops, draws, side="left"), minlength=tops.size + 1)
    masses = np.diff(np.concatenate([[0.0], cdf(law, tops), [1.0]]))
    tests = [_chi2(law, "values", seen, masses * draws.size)]
    if law.scale >= FINE:
        for modulus in (16, 15):
            seen = np.bincount(np.mod(draws, modulus), minlength=modulus)
            tests.append(_chi2(law, f"remainders of {modulus}", seen, remainders(law, modulus) * draws.size))
    return tests


def _chi2(law: Law, what: str, seen: NDArray[np.int64], wanted: Floats) -> Test:
    from scipy.special import gammaincc

    some = wanted > 0
    value = float(np.sum((seen[some] - wanted[some]) ** 2 / wanted[some])) + (np.inf if seen[~some].any() else 0.0)
    freedom = int(np.count_nonzero(some)) - 1
    p = 1.0 if freedom == 0 else float(gammaincc(freedom / 2, value / 2))
    return Test(law, what, value, freedom, p)


def run(laws: Iterable[Law] = LAWS, sampler: Sampler = sample, draws: int = DRAWS) -> list[Test]:
    """Draw and compare."""
    chosen = list(laws)
    drawn = (
        sample_all([(law, draws) for law in chosen]) if sampler is sample else [sampler(law, draws) for law in chosen]
    )
    return [test for law, some in zip(chosen, drawn, strict=True) for test in compare(law, some)]


def demand(
    record: Path, laws: Iterable[Law], sampler: Sampler = sample, say: Callable[[str], None] | None = None
) -> bool:
    """The self-test has passed for this OpenDP, this machine and these laws; run now what has not. True where it ran.

    A failure is an error, and nothing may be drawn for a release.
    """
    passed = _passed(record)
    missing = list(dict.fromkeys(law for law in (*LAWS, *laws) if [law.mechanism, law.text] not in passed))
    if not missing:
        return False
    if say is not None:
        say(f"testing the sampler of OpenDP {opendp_version()} at {len(missing)} scales, once on this machine")
    failed = [t for t in run(missing, sampler) if not t.passed]
    if failed:
        t = failed[0]
        raise FairpostError(
            f"the self-test of the sampler must pass before a release: OpenDP {opendp_version()}, {t.law.mechanism} of scale "
            f"{t.law.scale:g}, {t.what}: p = {t.p:.1e}, below {ALARM:g}; nothing was charged"
        )
    remember(record, missing)
    return True


def remember(record: Path, laws: Iterable[Law]) -> None:
    """These laws have passed, of this OpenDP on this machine, beside those that had."""
    known = [*_passed(record), *([law.mechanism, law.text] for law in laws)]
    said = {**_here(), "laws": [list(law) for law in dict.fromkeys(map(tuple, known))]}
    whole.write(record, json.dumps(said))


def _here() -> dict[str, str]:
    return {"opendp": opendp_version(), "machine": f"{platform.node()} {platform.machine()} {platform.system()}"}


def _passed(record: Path) -> list[list[str]]:
    try:
        data, here = json.loads(record.read_text(encoding="utf-8")), _here()
        return list(data["laws"]) if {k: data[k] for k in here} == here else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
