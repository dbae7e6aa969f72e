"""What `project` returns: noisy counts, what they became, and the totals that hold now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.results import documents
from fairpost.results.base import Columns, Numbers, Result, label, number, with_kept
from fairpost.results.figures import Series, drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Projection(Numbers, Result):
    """Post-processed counts, from noisy counts alone. As a sequence or an array it is its `counts`.

    Nothing true was looked at, so nothing here is confidential.
    """

    postprocess: str
    """The name of pi."""
    noisy: Floats
    values: Floats
    """pi of the noisy counts, before rounding."""
    ids: tuple[str, ...]
    groups: tuple[str, ...] | None = None
    totals: dict[str, float] | None = None
    """The totals that are kept, by group ("all": of all entities); None where pi keeps none."""
    rounded: Floats | None = None
    """Whole numbers with the same totals, where they were asked for."""
    seed: int | None = None
    """Of the rounding."""
    names: tuple[str, ...] | None = None
    """What people call each entity."""
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Columns that the tables carry along."""

    def name(self, i: int) -> str:
        """What to call entity i: its name, or else its id."""
        return self.ids[i] if self.names is None else self.names[i]

    @property
    def counts(self) -> Floats:
        """The counts to use: whole where that was asked for."""
        return self.values if self.rounded is None else self.rounded

    @property
    def _numbers(self) -> Floats:
        return self.counts

    @property
    def n(self) -> int:
        """The number of entities."""
        return int(self.values.size)

    @property
    def changes(self) -> dict[str, Any]:
        """Sums, negatives and zeros before and after, and the largest change."""
        moved = self.values - self.noisy
        far = self.farthest
        return {
            "noisy_sum": float(np.sum(self.noisy)),
            "sum": float(np.sum(self.counts)),
            "negative_before": int(np.count_nonzero(self.noisy < 0)),
            "negative_after": int(np.count_nonzero(self.counts < 0)),
            "zero_after": int(np.count_nonzero(self.counts == 0)),
            "largest_change": {"id": self.ids[far], "change": float(moved[far])},
        }

    @property
    def farthest(self) -> int:
        """The entity whose count was moved most, before rounding."""
        return int(np.argmax(np.abs(self.values - self.noisy)))

    @property
    def rounding(self) -> dict[str, Any] | None:
        """How far rounding moved the counts; None where nothing was rounded."""
        if self.rounded is None:
            return None
        moved = self.rounded - self.values
        return {
            "seed": self.seed,
            "rounded_up": int(np.count_nonzero(moved > 0)),
            "rounded_down": int(np.count_nonzero(moved < 0)),
            "largest_change": float(np.max(np.abs(moved))),
            "root_mean_square_change": float(np.sqrt(np.mean(moved**2))),
            "sum_change": float(np.sum(self.rounded)) - float(np.sum(self.values)),
        }

    def _columns(self) -> Columns:
        """One row per entity: the table of `fairpost project --csv`."""
        columns = self._about
        columns |= {"noisy_count": self.noisy, "count": self.values}
        if self.rounded is not None:
            columns |= {"count": self.rounded.astype(np.int64), "before_rounding": self.values}
        return with_kept(self.kept, columns, list(self._about))

    @property
    def _about(self) -> Columns:
        """The columns that say what a row is about."""
        labels = {"id": self.ids, "group": self.groups, "name": self.names}
        return {name: list(values) for name, values in labels.items() if values is not None}

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `fairpost project`."""
        numbers: Columns = {"noisy_count": self.noisy, "count": self.counts}
        kept = {"kept": documents.rows(self.kept) if self.kept else None}
        return documents.document(
            "project", self, counts={"n": self.n}, entities=documents.rows(self._about | numbers | kept)
        )

    def plot(self) -> go.Figure:
        """How far each count was moved, against the noisy count."""
        points = Series(self.postprocess, self.noisy, self.counts - self.noisy, self.ids)
        return drawn(self._head(), "noisy count", "change", [points])

    def _head(self) -> str:
        return f"Projection by {self.postprocess}: {self.n:,} counts"

    def _facts(self) -> list[tuple[str, str]]:
        c, r = self.changes, self.rounding
        far = c["largest_change"]
        facts = [
            ("sum", f"{number(c['noisy_sum'])} became {number(c['sum'])}"),
            ("negative", f"{c['negative_before']:,} before, {c['negative_after']:,} now"),
            ("zero", f"{c['zero_after']:,} now"),
            ("largest change", f"{number(far['change'], signed=True)}, of {label(self.name(self.farthest))}"),
        ]
        if self.totals is not None and len(self.totals) > 1:
            facts.append(("groups", f"{len(self.totals):,} keep their totals"))
        if r is not None:
            moved = (
                f"{r['rounded_up']:,} up, {r['rounded_down']:,} down, none by more than {number(r['largest_change'])}"
            )
            facts.append(("rounding", f"{moved} (seed {r['seed']})"))
        return facts
