"""check(true, released, mechanism): who gained and who lost in real releases, beside what the noise alone explains.

With R files the mean difference of an entity (or of a part: the sum over its entities) estimates its bias. The files are
independent draws, so the R differences of a part are independent and alike, and Student's t with R - 1 degrees of freedom
gives the interval of their mean; the level is divided by the number of rows (Bonferroni), so that the intervals of one
table hold together. That rests on differences that are nearly normal: sums over many entities are, single Laplace draws have
heavier tails, for which t errs to the safe side; what is clipped at 0 is skewed, and for that small counts need many
files. Where all files agree nothing is known of the spread, and no interval is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost.check import null
from fairpost.counts import Counts, index_of
from fairpost.errors import CountsError, ParameterError
from fairpost.noise import Law, Mechanism, as_mechanism
from fairpost.results.base import noise_words
from fairpost.results.check import HYPOTHESIS, READING, Check
from fairpost.results.documents import NoiseTest, Part

Floats = NDArray[np.float64]
KEPT = 1e-12
"""A sum is kept where it is off by at most this part of the absolute values: the rounding of some thousand floats."""


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
    law = None if mechanism is None else null.known(as_mechanism(mechanism))
    d = rows - counts.values
    half = _half_widths(d, confidence)
    p = None if law is None else null.sum_p_values(law, np.sum(d, axis=0), len(rows))
    everything = np.zeros(counts.n, dtype=np.int64)
    for array in (rows, d):
        array.flags.writeable = False
    return Check(
        counts=counts,
        released=rows,
        names=called,
        mechanism=mechanism,
        confidence=float(confidence),
        difference=np.mean(d, axis=0),
        p_value=p,
        half_width=half,
        noise=None if law is None else _test(law, d, confidence),
        total=_parts(counts, rows, everything, ["all"], law, confidence)[0],
        groups=None if counts.groups is None else _by_group(counts, rows, law, confidence),
        sizes=_by_size(counts, rows, law, confidence),
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
    places = {label: k for k, label in enumerate(ids)}
    gone = [label for label in counts.ids if label not in places]
    known = set(counts.ids)
    strange = [label for label in places if label not in known]
    if gone:
        more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
        raise CountsError(f"{name}: every entity of the true counts must be released, got none for {gone[0]!r}{more}")
    if strange:
        more = f" and {len(strange) - 1:,} more" if len(strange) > 1 else ""
        raise CountsError(f"{name}: only entities of the true counts may be released, got {strange[0]!r}{more}")
    return values[[places[label] for label in counts.ids]]


def _test(law: Law, d: Floats, confidence: float) -> NoiseTest:
    seen = null.size(law, d)
    expected, observed = null.expected_size(law), seen / d.size
    return NoiseTest(
        size=null.describe(law)["size"],
        expected=expected,
        observed=observed,
        explained=1.0 if observed <= expected else expected / observed,
        p_value=null.size_tails(law, seen, d.size).p_value,
        level=round(1 - confidence, 12),
        hypothesis=HYPOTHESIS.format(noise=noise_words(law)),
        reading=READING.format(level=round(1 - confidence, 12)),
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


def _by_group(counts: Counts, rows: Floats, law: Law | None, confidence: float) -> tuple[Part, ...]:
    assert counts.groups is not None
    places: dict[str, int] = {}
    member = np.array([places.setdefault(g, len(places)) for g in counts.groups])
    return tuple(_parts(counts, rows, member, list(places), law, confidence))


def _by_size(counts: Counts, rows: Floats, law: Law | None, confidence: float) -> tuple[Part, ...]:
    """Size classes of the true count: 0, below 10, below 100, ..."""
    x = counts.values
    decade = np.where(x < 1, 0, np.floor(np.log10(np.maximum(x, 1.0))) + 1)
    decade = np.where(x >= 10.0**decade, decade + 1, decade)  # log10 of 1000 may round to below 3
    decade = np.where((x > 0) & (x < 1), 0.5, decade)
    there, member = np.unique(decade, return_inverse=True)
    return tuple(_parts(counts, rows, member, [_class(k) for k in there], law, confidence))


def _class(decade: float) -> str:
    if decade < 1:
        return "0" if decade == 0 else "above 0 to below 1"
    low, high = 10 ** int(decade - 1), 10 ** int(decade)
    return f"{low:,} to below {high:,}"


def _parts(
    counts: Counts, rows: Floats, member: NDArray[np.int64], labels: Sequence[str], law: Law | None, confidence: float
) -> list[Part]:
    """The entities summed part by part; every part has some."""

    def sums(values: Floats) -> Floats:
        return np.asarray(np.bincount(member, weights=values), dtype=np.float64)

    n, due = np.bincount(member), sums(counts.values)
    d = np.array([sums(row - counts.values) for row in rows])  # the differences, not the sums, are small
    mean, half = np.mean(d, axis=0), _half_widths(d, confidence)
    sizes = np.array([sums(np.abs(row)) for row in rows])
    kept = np.count_nonzero(np.abs(d) <= KEPT * (sizes + due), axis=0)
    out = []
    for g, label in enumerate(labels):
        m, p = len(rows) * int(n[g]), None
        if law is not None:
            p = float(null.sum_p_values(law, np.array([d[:, g].sum()]), m)[0])
        width = None if half is None or not np.isfinite(half[g]) else float(half[g])
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
                p_adjusted=None if p is None else min(1.0, len(labels) * p),
                half_width=width,
                kept=int(kept[g]),
            )
        )
    return out
