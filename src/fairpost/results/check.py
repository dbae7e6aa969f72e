"""What `check` returns: releases against the truth, part by part, beside what noise alone would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.noise import Mechanism
from fairpost.results import documents
from fairpost.results.base import (
    CONFIDENTIAL,
    Columns,
    Grid,
    Result,
    about,
    label,
    noise_words,
    number,
    or_none,
    reason,
    whole_numbers,
)  # fmt: skip
from fairpost.results.documents import NoiseTest, Part, told
from fairpost.results.figures import Series, drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]
SMALLEST = 1e-9
"""Chances below this are not told apart in words."""
HYPOTHESIS = "every released value is the true count plus independent {noise}, and nothing else was done"
READING = (
    "If that hypothesis holds, a size of the differences as far from the expected one as that seen comes about with chance p: "
    "a p below {level:g} speaks against noise alone; a larger p does not prove it."
)


@dataclass(frozen=True, eq=False, repr=False)
class Check(Result):
    """Releases against the truth. Confidential: every difference tells the true count."""

    counts: Counts
    released: Floats
    """One row per release."""
    names: tuple[str, ...]
    """Of the releases."""
    mechanism: Mechanism | None
    """The noise that was stated."""
    confidence: float
    difference: Floats
    """Per entity, released less true, the mean over the releases; of several releases an estimate of the bias."""
    p_value: Floats | None
    """Per entity, the chance that noise alone gives a difference of this size or a larger one."""
    half_width: Floats | None
    """Several releases: every bias lies within difference +- half_width, all together with chance `confidence`; infinite
    where all releases agree, which tells nothing of their spread."""
    noise: NoiseTest | None
    total: Part
    groups: tuple[Part, ...] | None
    sizes: tuple[Part, ...]
    negative: float
    """Values below 0 per release."""
    negative_expected: float | None
    """What noise alone would give."""
    fractional: int
    """Released values that are no whole numbers, in all releases."""
    mark: str = CONFIDENTIAL

    @property
    def n(self) -> int:
        """The number of entities."""
        return self.counts.n

    @property
    def releases(self) -> int:
        """The number of releases."""
        return int(self.released.shape[0])

    @property
    def p_adjusted(self) -> Floats | None:
        """Per entity, for all entities together (Bonferroni)."""
        return None if self.p_value is None else np.minimum(1.0, self.n * self.p_value)

    @property
    def unexplained(self) -> tuple[str, ...] | None:
        """The entities whose difference noise alone does not explain, all together with chance `confidence`."""
        adjusted = self.p_adjusted
        if adjusted is None:
            return None
        far = [int(i) for i in np.argsort(adjusted, kind="stable") if adjusted[i] < 1 - self.confidence]
        return tuple(self.counts.ids[i] for i in far)

    @property
    def sum_kept(self) -> bool:
        """Whether every release has the true sum."""
        return self.total.kept == self.releases

    def _columns(self) -> Columns:
        """One row per entity: the table of `fairpost check --csv`."""
        found: Columns = {k: v for k, v in about(self.counts).items() if k != "weight"}
        if self.releases > 1:
            found |= {f"released_{r + 1}": whole_numbers(row) for r, row in enumerate(self.released)}
        own = {name: values for name, values in self._of_entities().items() if values is not None}
        own["released"] = whole_numbers(self.released[0] if self.releases == 1 else own["released"])
        return found | own | {"confidential": [reason(self.mark)] * self.n}

    def _of_entities(self) -> Columns:
        """What is known of each entity, by the names of keys and columns."""
        pairs = zip(self.difference.tolist(), self.counts.values.tolist(), strict=True)
        return {
            "released": self.counts.values + self.difference,
            "difference": self.difference,
            "relative": [None if x == 0 else d / x for d, x in pairs],
            "p_value": self.p_value,
            "p_adjusted": self.p_adjusted,
            "half_width": None if self.half_width is None else or_none(self.half_width),
        }

    def to_dict(self, *, entities: bool = True) -> dict[str, Any]:
        """The JSON of `fairpost check`."""
        who: Columns = {"id": list(self.counts.ids), "count": self.counts.values}
        groups = self.groups and [told(documents.GroupPart, part) for part in self.groups]
        return documents.document(
            "check",
            self,
            counts={"n": self.n, "total": self.counts.total},
            releases=[{"name": k, "sum": float(np.sum(y))} for k, y in zip(self.names, self.released, strict=True)],
            negative={"seen": self.negative, "expected": self.negative_expected},
            groups=groups,
            sizes=[told(documents.SizePart, part) for part in self.sizes],
            entities=documents.rows(who | self._of_entities(), documents.Difference) if entities else UNSET,
        )

    def plot(self) -> go.Figure:
        """The difference of each entity against its true count."""
        low = high = None
        if self.half_width is not None:
            wide = np.where(np.isfinite(self.half_width), self.half_width, 0.0)
            low, high = self.difference - wide, self.difference + wide
        points = Series("difference", self.counts.values, self.difference, self.counts.ids, low, high)
        return drawn(self._head(), "true count", "released less true", [points])

    def ends(self) -> tuple[int, int]:
        """Who gained most, and who lost most."""
        return int(np.argmax(self.difference)), int(np.argmin(self.difference))

    def _head(self) -> str:
        of = "1 release" if self.releases == 1 else f"{self.releases} releases"
        return f"Check of {of} against {self.n:,} true counts"

    def _facts(self) -> list[tuple[str, str]]:
        best, worst = self.ends()
        facts = [] if self.mechanism is None else [("stated noise", noise_words(self.mechanism))]
        if self.noise is not None:
            t = self.noise
            facts += [
                (
                    "explained",
                    f"{100 * t.explained:.3g} % of the {t.size} ({number(t.expected)} of {number(t.observed)})",
                ),
                ("p-value", f"{chance(t.p_value)}: {t.verdict}"),
            ]
        facts += [
            ("sum", f"{number(self.total.released)}, {kept_words(self)}"),
            ("negative", f"{number(self.negative)} per release" + expected_words(self)),
            ("gained most", f"{label(self.counts.ids[best])} {number(float(self.difference[best]), signed=True)}"),
            ("lost most", f"{label(self.counts.ids[worst])} {number(float(self.difference[worst]), signed=True)}"),
        ]
        if self.unexplained is not None:
            facts.append(("unexplained", f"{len(self.unexplained):,} entities"))
        return facts

    def _grid(self) -> Grid | None:
        heads, rows = parts_table(
            self.sizes, "true count", tested=self.mechanism is not None, several=self.releases > 1
        )
        return heads, rows


def kept_words(check: Check) -> str:
    """Whether the true sum was kept."""
    if check.sum_kept:
        return "the true sum"
    moved = number(check.total.difference, signed=True)
    some = "" if check.total.kept == 0 else f", kept in {check.total.kept} of {check.releases} releases"
    return f"{moved} from the true sum{some}"


def expected_words(check: Check) -> str:
    """How many negatives noise alone makes."""
    return "" if check.negative_expected is None else f" (noise alone: {number(check.negative_expected)})"


def chance(p: float) -> str:
    """A p-value in words."""
    return f"below {SMALLEST:g}" if p <= SMALLEST else f"{p:.3g}"


def parts_table(parts: Sequence[Part], first: str, *, tested: bool, several: bool) -> Grid:
    """One row per part."""
    heads = [first, "entities", "true sum", "difference", "relative"]
    heads += ["noise alone", "p, all rows"] if tested else []
    heads += ["bias within"] if several else []
    rows = []
    for part in parts:
        cells = [part.name, f"{part.n:,}", number(part.count), number(part.difference, signed=True)]
        cells.append("-" if part.relative is None else f"{100 * part.relative:+.3g} %")
        if tested:
            assert part.noise is not None
            assert part.p_adjusted is not None
            cells += [f"+-{number(part.noise)}", chance(part.p_adjusted)]
        if several:
            cells.append("?" if part.half_width is None else f"+-{number(part.half_width)}")
        rows.append(tuple(cells))
    return tuple(heads), rows
