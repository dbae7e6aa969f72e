"""check(true, released, mechanism): who gained and who lost in real releases, beside what the noise alone explains.

With R files the mean difference of an entity (or of a part: the sum over its entities) estimates its bias. The files are
independent draws, so the R differences of a part are independent and alike, and Student's t with R - 1 degrees of freedom
gives the interval of their mean; the level is divided by the number of rows (Bonferroni), so that the intervals of one
table hold together. That rests on differences that are nearly normal: sums over many entities are, single Laplace draws have
heavier tails, for which t errs to the safe side; what is clipped at 0 is skewed, and for that small counts need many
files. Where all files agree nothing is known of the spread, and no interval is given.

*The null hypothesis.* Released = true + independent noise of the stated kind, and nothing else. Two statistics of the
differences d = released - true have an exact law under it.

*Size.* For the Laplace pair T = sum |d|, for the Gaussian pair T = sum d^2 (each is sufficient for the size of its noise):

    Laplace        T / b is Gamma(N, 1), because |eta| / b is exponential
    Gaussian       T / sigma^2 is chi-squared with N degrees of freedom
    whole numbers  T is a sum of N independent whole numbers with known masses: a power of their discrete Fourier transform

*Sum.* S = sum d over some entities and all files, m differences in all:

    Gaussian       normal with variance m sigma^2
    Laplace        S is the difference of two Gamma(m, b) waits. Let two Poisson streams race to m events each: the loser of
                   the race still needs j events with probability C(2m - j - 1, m - 1) 2^-(2m - j), and its wait for them is
                   Gamma(j, b), so P(S > s) = sum_j C(2m - j - 1, m - 1) 2^-(2m - j) P(Gamma(j, b) > s): positive terms.
    whole numbers  as above

A Fourier transform of M points gives the masses modulo M; M is so large that what lies outside of a window of M whole
numbers has less than 1e-16 of the probability. Its rounding is N 1e-16, so a p-value below FLOOR is given as FLOOR. Where
the window would be longer than LONGEST points the whole numbers lie so close (2e-6 of the probability each, at most)
that the law of the continuous noise with the same mean (size) or variance (sum) is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.counts import Counts, index_of
from fairpost.errors import CountsError, ParameterError, UnsupportedError
from fairpost.noise import Law, Mechanism, as_mechanism
from fairpost.partition import Partition
from fairpost.results.base import noise_words
from fairpost.results.check import HYPOTHESIS, READING, Check
from fairpost.results.documents import NoiseTest, Part

Floats = NDArray[np.float64]
KEPT = 1e-12
"""A sum is kept where it is off by at most this part of the absolute values: the rounding of some thousand floats."""
FLOOR = 1e-9
"""A p-value from a Fourier transform that is smaller is given as this."""
LONGEST = 1 << 22
"""Points of a Fourier transform, at most."""
Size = Literal["mean absolute difference", "mean squared difference"]
SIZES: dict[str, Size] = {
    "laplace": "mean absolute difference",
    "discrete-laplace": "mean absolute difference",
    "gaussian": "mean squared difference",
    "discrete-gaussian": "mean squared difference",
}
"""Which size of the differences is compared with that of the noise."""


def check(
    true: Counts | ArrayLike,
    released: Any,
    mechanism: Mechanism | None = None,
    *,
    names: Iterable[str] | None = None,
    confidence: float = 0.95,
) -> Check:
    """Releases against the truth: differences per entity, group and size, and whether noise explains them.

    Parameters
    ----------
    true
        The true counts; groups, where they have any, are followed.
    released
        One release or several: vectors in the order of the true counts, or anything with `ids` and `values` (what
        `read_rows` gives), which is brought into that order.
    mechanism
        The noise that was stated. Without it there are no tests.
    names
        Of the releases. Default: "1", "2", ...
    confidence
        How surely the intervals of one table hold together, and the level of the tests.

    """
    counts = Counts.of(true)
    if not (isinstance(confidence, (int, float)) and 0 < confidence < 1):
        raise ParameterError(f"`confidence` must be between 0 and 1, got {confidence!r}")
    rows, called = _released(counts, released, names)
    law = None if mechanism is None else _known(as_mechanism(mechanism))
    d = rows - counts.values
    parts = partial(_parts, counts, rows, law, confidence)
    for array in (rows, d):
        array.flags.writeable = False
    return Check(
        counts=counts,
        released=rows,
        names=called,
        mechanism=mechanism,
        confidence=float(confidence),
        difference=np.mean(d, axis=0),
        p_value=None if law is None else sum_p_values(law, np.sum(d, axis=0), len(rows)),
        half_width=_half_widths(d, confidence),
        noise=None if law is None else _test(law, d, confidence),
        total=parts(Partition.whole(counts.n))[0],
        groups=None if counts.groups is None else parts(Partition.of(counts.groups)),
        sizes=parts(_sizes(counts.values)),
        negative=float(np.count_nonzero(rows < 0)) / len(rows),
        negative_expected=None if law is None else float(np.sum(law.sf(counts.values))),
        fractional=int(np.count_nonzero(rows != np.round(rows))),
    )


def _released(counts: Counts, given: Any, names: Iterable[str] | None) -> tuple[Floats, tuple[str, ...]]:
    """One row per release, in the order of the counts, and their names."""
    if not hasattr(given, "ids") and len(given) == 0:
        raise CountsError("there must be at least one release, got none")
    single = hasattr(given, "ids") or (not _several(given) and np.ndim(given) == 1)
    some = [given] if single else list(given)
    called = tuple(str(r + 1) for r in range(len(some))) if names is None else tuple(str(name) for name in names)
    if len(called) != len(some):
        raise ParameterError(f"there must be one name per release: {len(some)} releases, {len(called)} names")
    return np.array([_row(counts, one, name) for one, name in zip(some, called, strict=True)]), called


def _several(given: Any) -> bool:
    """Whether this is a sequence of releases."""
    return isinstance(given, Sequence) and bool(given) and (hasattr(given[0], "ids") or np.ndim(given[0]) == 1)


def _row(counts: Counts, given: Any, name: str) -> Floats:
    ids = given.ids if hasattr(given, "ids") else _index(counts, given)
    values = np.asarray(given.values if hasattr(given, "ids") else given, dtype=np.float64)
    if values.ndim != 1 or (ids is None and values.size != counts.n):
        raise CountsError(f"release {name}: there must be one value per true count ({counts.n}), got {values.size}")
    if not np.isfinite(values).all():
        raise CountsError(f"release {name}: every value must be finite, got {values[~np.isfinite(values)][0]}")
    return values if ids is None else _matched(counts, ids, values, name)


def _index(counts: Counts, given: Any) -> list[str] | None:
    """The ids of a pandas Series, where it and the counts have some and are not only numbered."""
    found, numbered = [str(label) for label in index_of(given) or ()], [str(k) for k in range(counts.n)]
    return None if not found or found == numbered or list(counts.ids) == numbered else found


def _matched(counts: Counts, ids: Sequence[str], values: Floats, name: str) -> Floats:
    """The values in the order of the counts, by their ids."""
    places, known = {label: k for k, label in enumerate(ids)}, set(counts.ids)
    for rule, got, off in (
        ("every entity of the true counts must be released", "none for ", [i for i in counts.ids if i not in places]),
        ("only entities of the true counts may be released", "", [i for i in places if i not in known]),
    ):
        if off:
            more = f" and {len(off) - 1:,} more" if len(off) > 1 else ""
            raise CountsError(f"{name}: {rule}, got {got}{off[0]!r}{more}")
    return values[[places[label] for label in counts.ids]]


def _test(law: Law, d: Floats, confidence: float) -> NoiseTest:
    seen, level = size(law, d), round(1 - confidence, 12)
    expected, observed = expected_size(law), seen / d.size
    return NoiseTest(
        size=SIZES[law.name],
        expected=expected,
        observed=observed,
        explained=1.0 if observed <= expected else expected / observed,
        p_value=size_tails(law, seen, d.size).p_value,
        level=level,
        hypothesis=HYPOTHESIS.format(noise=noise_words(law)),
        reading=READING.format(level=level),
    )


def _half_widths(d: Floats, confidence: float) -> Floats | None:
    """Of the mean of the rows, for all columns together; infinite where a column does not vary."""
    from scipy import special

    R, k = d.shape
    if R == 1:
        return None
    deviation = np.std(d, axis=0, ddof=1)
    t = float(special.stdtrit(R - 1, 1 - (1 - confidence) / (2 * k)))
    return np.where(deviation > 0, t * deviation / np.sqrt(R), np.inf)


def _sizes(x: Floats) -> Partition:
    """Size classes of the true count, in their order: 0, below 1, below 10, below 100, ..."""
    decade = np.where(x < 1, 0, np.floor(np.log10(np.maximum(x, 1.0))) + 1)
    decade = np.where(x >= 10.0**decade, decade + 1, decade)  # log10 of 1000 may round to below 3
    decade = np.where((x > 0) & (x < 1), 0.5, decade)
    there, member = np.unique(decade, return_inverse=True)
    return Partition.of_members(tuple(_class(k) for k in there), member)


def _class(decade: float) -> str:
    if decade < 1:
        return "0" if decade == 0 else "above 0 to below 1"
    low, high = 10 ** int(decade - 1), 10 ** int(decade)
    return f"{low:,} to below {high:,}"


def _parts(counts: Counts, rows: Floats, law: Law | None, confidence: float, parts: Partition) -> tuple[Part, ...]:
    """The entities summed part by part."""

    def sums(values: Floats) -> Floats:
        return np.asarray(np.bincount(parts.member, weights=values), dtype=np.float64)

    n, due = parts.sizes, sums(counts.values)
    d = np.array([sums(row - counts.values) for row in rows])  # the differences, not the sums, are small
    mean, half = np.mean(d, axis=0), _half_widths(d, confidence)
    sizes = np.array([sums(np.abs(row)) for row in rows])
    kept = np.count_nonzero(np.abs(d) <= KEPT * (sizes + due), axis=0)
    out = []
    for g, label in enumerate(parts.labels):
        p = None if law is None else float(sum_p_values(law, [d[:, g].sum()], len(rows) * int(n[g]))[0])
        out.append(
            Part(
                name=label,
                n=int(n[g]),
                count=float(due[g]),
                released=float(due[g] + mean[g]),
                difference=float(mean[g]),
                relative=None if due[g] == 0 else float(mean[g] / due[g]),
                noise=None if law is None else float(np.sqrt(law.variance * n[g] / len(rows))),
                p_value=p,
                p_adjusted=None if p is None else min(1.0, len(parts.labels) * p),
                half_width=None if half is None or not np.isfinite(half[g]) else float(half[g]),
                kept=int(kept[g]),
            )
        )
    return tuple(out)


# ---- the laws under the null hypothesis ----


@dataclass(frozen=True)
class Tails:
    """P(statistic <= seen) and P(statistic >= seen)."""

    below: float
    above: float

    @property
    def p_value(self) -> float:
        """Of the test against both sides: twice the smaller tail."""
        return min(1.0, 2 * min(self.below, self.above))


def _known(mechanism: Mechanism) -> Law:
    """One of the four noises, whose laws are here."""
    if not isinstance(mechanism, Law) or mechanism.code is None:
        raise UnsupportedError(f"a check knows the noises {', '.join(SIZES)}, got {mechanism.name!r}")
    return mechanism


def _absolute(mechanism: Mechanism) -> bool:
    return SIZES[mechanism.name] == "mean absolute difference"


def size(mechanism: Law, differences: ArrayLike) -> float:
    """T of some differences."""
    d = np.asarray(differences, dtype=np.float64)
    return float(np.sum(np.abs(d) if _absolute(mechanism) else d**2))


def expected_size(mechanism: Law) -> float:
    """E[|eta|] or E[eta^2]."""
    if not _absolute(mechanism):
        return mechanism.variance
    b = mechanism.spread
    return float(1 / np.sinh(1 / b)) if mechanism.discrete else b


def size_tails(mechanism: Law, t: float, N: int) -> Tails:
    """The tails of T for N differences at the value t that was seen."""
    from scipy import special

    if mechanism.discrete:
        lattice = _lattice(mechanism, N, "size")
        if lattice is not None:
            return Tails(float(lattice.below(t)), float(lattice.above(t)))
    unit = t / expected_size(mechanism)
    if _absolute(mechanism):
        return Tails(float(special.gammainc(N, unit)), float(special.gammaincc(N, unit)))
    return Tails(float(special.gammainc(N / 2, unit / 2)), float(special.gammaincc(N / 2, unit / 2)))


def sum_p_values(mechanism: Law, sums: ArrayLike, m: int) -> Floats:
    """P(|S| >= |s|) for each s, S the sum of m draws of the noise."""
    from scipy import special

    s = np.abs(np.asarray(sums, dtype=np.float64))
    if mechanism.discrete:
        lattice = _lattice(mechanism, m, "sum")
        if lattice is not None:
            return np.asarray(np.minimum(1.0, 2 * lattice.above(s) * (s > 0) + (s == 0)))
        s = np.maximum(s - 0.5, 0.0)  # half a step: the whole number s stands for s - 1/2 to s + 1/2
    if not _absolute(mechanism):
        return np.asarray(special.erfc(s / np.sqrt(2 * m * mechanism.variance)))
    return np.minimum(1.0, 2 * _race(s / np.sqrt(mechanism.variance / 2), m))


def _race(s: Floats, m: int) -> Floats:
    """P(S > s) for the sum of m Laplace draws with b = 1, by the race of two Poisson streams.

    The weights fall like e^{-j^2 / 4m}; past 14 sqrt(m) + 60 they are below 1e-20 together.
    """
    from scipy import special

    j = np.arange(1, min(m, int(14 * np.sqrt(m)) + 60) + 1, dtype=np.float64)
    log = special.gammaln(2 * m - j) - special.gammaln(m) - special.gammaln(m - j + 1) - (2 * m - j) * np.log(2)
    weights = np.exp(log)
    distinct, back = np.unique(s, return_inverse=True)
    tails = np.array([float(np.sum(weights * special.gammaincc(j, one))) for one in distinct])
    return np.asarray(tails[back].reshape(s.shape))


@dataclass(frozen=True, eq=False)
class Lattice:
    """The law of a statistic with whole values: their masses from `start` on."""

    start: int
    upper: Floats
    """P(value >= start + k)."""

    def above(self, t: ArrayLike) -> Floats:
        """P(value >= t), at least FLOOR / 2."""
        place = np.ceil(np.asarray(t, dtype=np.float64) - 1e-9) - self.start
        inside = np.clip(place, 0, self.upper.size - 1).astype(np.int64)
        return np.asarray(np.where(place >= self.upper.size, FLOOR / 2, np.maximum(self.upper[inside], FLOOR / 2)))

    def below(self, t: ArrayLike) -> Floats:
        """P(value <= t), at least FLOOR / 2."""
        place = np.floor(np.asarray(t, dtype=np.float64) + 1e-9) + 1 - self.start
        inside = np.clip(place, 0, self.upper.size - 1).astype(np.int64)
        under = np.where(place >= self.upper.size, 1.0, np.where(place <= 0, 0.0, 1 - self.upper[inside]))
        return np.asarray(np.maximum(under, FLOOR / 2))


@lru_cache(maxsize=64)
def _lattice(mechanism: Law, m: int, what: str) -> Lattice | None:
    """The law of the sum of m draws of eta (`what` sum), or of |eta| or eta^2 (size); None where it is too long.

    Under Laplace noise |eta| has an exponential tail, so 60 of its standard deviations lie beyond 10 of the sum's.
    """
    reach = int(np.ceil(45 * mechanism.spread + 45 if _absolute(mechanism) else 10 * mechanism.spread + 10))
    if reach > LONGEST:
        return None
    whole = np.arange(-reach, reach + 1)
    masses = mechanism.density(whole.astype(np.float64))
    if what == "size":
        whole = np.abs(whole) if _absolute(mechanism) else whole**2
    mean = float(np.sum(masses * whole))
    deviation = float(np.sqrt(np.sum(masses * (whole - mean) ** 2)))
    wide = 10 * np.sqrt(m) * deviation + 60 * deviation + 10
    start = int(np.floor(m * mean - wide))
    start = max(start, 0) if what == "size" else start
    points = 1 << int(np.ceil(np.log2(m * mean + wide - start + 1)))
    if points > LONGEST:
        return None
    folded = np.bincount(whole % points, weights=masses, minlength=points)
    power = np.fft.rfft(folded / folded.sum()) ** m
    found = np.maximum(np.fft.irfft(power, points), 0.0)
    found = np.roll(found, -(start % points))
    upper = np.cumsum(found[::-1])[::-1]
    return Lattice(start, np.asarray(upper / upper[0]))
