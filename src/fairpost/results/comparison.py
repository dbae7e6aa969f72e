"""What `compare` returns: several audits of the same noisy counts, and the JSON of `fairpost audit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import InputError, ParameterError
from fairpost.noise import Neighbours
from fairpost.results import documents
from fairpost.results.audit import Audit, audit_told, counts_data, counts_of, group_columns, warnings_of
from fairpost.results.base import (
    CONFIDENTIAL,
    Columns,
    Grid,
    Result,
    Saved,
    about,
    label,
    noise_words,
    number,
    reason,
    whole_numbers,
    with_kept,
)  # fmt: skip
from fairpost.results.curves import Frontier
from fairpost.results.documents import one_line
from fairpost.results.figures import Series, drawn
from fairpost.results.targets import Targets, one_unit

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Saved, Result, Sequence[Audit]):
    """Audits of several post-processings under the same mechanism, in the order asked for.

    It is a sequence: `len`, indices, iteration; a slice is a comparison of some of them.
    """

    audits: tuple[Audit, ...]
    neighbours: Neighbours = field(default_factory=Neighbours)
    """What the promise of the noise is about: sensitivity 1 and no delta, where nobody says otherwise."""
    frontier: Frontier | None = None
    """Fairness against accuracy as the threshold grows, where it was asked for."""
    mark: str = CONFIDENTIAL

    def __post_init__(self) -> None:
        for r in self.audits[1:]:
            if r.mechanism != self.audits[0].mechanism or not alike(r.counts, self.audits[0].counts):
                raise ParameterError("the results of one comparison must have the same counts and the same mechanism")

    @classmethod
    def of(cls, audits: Iterable[Audit]) -> Comparison:
        """A comparison as it is; audits together."""
        return audits if isinstance(audits, Comparison) else cls(tuple(audits))

    def __len__(self) -> int:
        return len(self.audits)

    @overload
    def __getitem__(self, place: int) -> Audit: ...

    @overload
    def __getitem__(self, place: slice) -> Comparison: ...

    def __getitem__(self, place: int | slice) -> Audit | Comparison:
        return replace(self, audits=self.audits[place]) if isinstance(place, slice) else self.audits[place]

    def __iter__(self) -> Iterator[Audit]:
        return iter(self.audits)

    @property
    def first(self) -> Audit:
        """The first audit, which there must be."""
        if not self.audits:
            raise ParameterError("there must be at least one result, got none")
        return self.audits[0]

    @property
    def budget(self) -> float | None:
        """Money to share, in all."""
        return self.first.budget

    @property
    def targets(self) -> Targets:
        """What no post-processing should exceed."""
        return self.first.rule.targets

    @property
    def warnings(self) -> tuple[str, ...]:
        """What about the counts themselves a reader should look at, one line each."""
        return warnings_of(self.first.counts)

    def group_columns(self) -> Columns:
        """One row per group, columns per post-processing: the table of `--csv-groups`."""
        if self.first.counts.groups is None:
            raise InputError("a table of groups needs counts with groups, got counts without")
        columns = group_columns(self.audits, names_of(self.audits))
        return columns | {"confidential": [reason(self.mark)] * len(columns["group"])}

    def to_dict(self, *, entities: bool = False, neighbours: Neighbours | None = None) -> dict[str, Any]:
        """The JSON of `fairpost audit`. With every entity, `from_dict` reads it back to the last bit."""
        counts, promised = self.first.counts, self.neighbours if neighbours is None else neighbours
        return documents.document(
            "audit",
            self,
            counts={"n": counts.n, "total": counts.total},
            mechanism=promised.describe(self.first.mechanism),
            targets=self.targets.to_dict() or None,
            results=[r.to_dict(entities=entities) for r in self.audits],
            entities=counts_data(counts) if entities else UNSET,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """The inverse of `to_dict(entities=True)`, which is what `fairpost audit --json --entities` writes."""
        read: documents.Audit = documents.read_document("audit", data)
        if not isinstance(read.entities, list) or not read.entities:
            raise InputError("this audit cannot be read back: it has no entities, write it with --entities")
        with one_line("this audit"):
            counts, promise = counts_of(read.entities), data["mechanism"]
            noise = documents.mechanism(promise)
            audits = tuple(audit_told(r, counts, noise, read) for r in read.results)
            path = None if read.frontier is None else Frontier.told(read.frontier)
            # a pure promise has delta 0, which is none
            return cls(audits, Neighbours(promise["sensitivity"], promise["delta"] or None), path, read.mark)

    def _columns(self) -> Columns:
        """The table of `--csv`: one row per entity, columns per post-processing."""
        return wide(self.audits)

    def _long(self) -> Columns:
        """The table of `to_frame`: one row per entity and post-processing."""
        _same_entities(self.audits)
        each = [r._columns() for r in self.audits]
        names = list(dict.fromkeys(name for columns in sorted(each, key=len, reverse=True) for name in columns))
        empty = [None] * self.first.counts.n
        return {name: [v for columns in each for v in list(columns.get(name, empty))] for name in names}

    def plot(self) -> go.Figure:
        """The bias of each entity against its true count, one colour per post-processing; one unit per figure."""
        one_unit([(r.postprocess, r.overall.unit) for r in self.audits], "the rules of a figure")
        counts = self.first.counts
        names = [counts.name(i) for i in range(counts.n)]
        series = [
            Series(name, counts.values, r.bias if r.money is None else r.money, names)
            for name, r in zip(names_of(self.audits), self.audits, strict=True)
        ]
        return drawn(f"{self._head()}; {self.mark}", "true count", f"bias ({self.first.overall.unit})", series)

    def _head(self) -> str:
        if not self.audits:
            return "Comparison of nothing"
        return f"Comparison: {self.first.counts.n:,} entities, {noise_words(self.first.mechanism)}"

    def _facts(self) -> list[tuple[str, str]]:
        if not self.audits:
            return []
        facts = [] if self.budget is None else [("budget", number(self.budget))]
        if self.targets:
            facts.append(("targets", ", ".join(f"{r.postprocess} {r.overall.outcome}" for r in self.audits)))
        return facts + [("warning", line) for line in self.warnings]

    def _grid(self) -> Grid:
        heads = ("post-processing", "alpha", "in", "total off", "known by", "gains most", "loses most", "cost", "RMSE")
        return heads, [_row(r) for r in self.audits]


def _row(r: Audit) -> tuple[str, ...]:
    cost = r.cost_of_privacy
    return (
        r.postprocess,
        number(r.alpha.value),
        r.problem.unit,
        number(r.total_off.value, signed=True),
        r.alpha.kind,
        *(label(r.counts.name(r.counts.ids.index(i)))[:14] for i in r.alpha_pair),
        "-" if cost is None else f"{number(100 * cost.share.value)} %",
        number(r.moments.price["root_mean_squared_error"]),
    )


def alike(a: Counts, b: Counts) -> bool:
    """Whether two sets of counts say the same."""
    if a is b:
        return True
    same = np.array_equal(a.values, b.values) and np.array_equal(a.weights, b.weights)
    return same and a.ids == b.ids and a.groups == b.groups


def wide(results: Sequence[Audit]) -> Columns:
    """One row per entity: id, count, weight, group (where there are groups), the true values, then columns per result.

    These are, after the name of the post-processing (with _ for -): _bias; _half_width (every bias lies within bias +-
    half_width; for simulation all of them together, with the stated confidence); _accuracy, what the half-width is:
    "bound" on the numerical error, error that an "expansion" states, or simulated "interval"; _standard_error, for
    simulation only; _standard_deviation; _zero (the probability of receiving 0); and, for an allocation with a budget,
    _bias_money; _relative_bias and _relative_half_width, the bias relative to what the entity is due (empty where nothing is).
    Columns that were kept stand behind those of the counts. Biases are in counts for a release and in shares of 1 for an
    allocation. The last column, `confidential`, says in every row that the table was computed from true counts.
    """
    _same_entities(results)
    counts = results[0].counts
    columns = about(counts) | {r.problem.column: whole_numbers(r.truth) for r in results}
    for name, result in zip(names_of(results), results, strict=True):
        columns |= result._own_columns(f"{name}_")
    return with_kept(counts.kept, columns | {"confidential": [reason(results[0].mark)] * counts.n}, list(about(counts)))


def _same_entities(results: Sequence[Audit]) -> None:
    if not results:
        raise InputError("there must be at least one result, got none")
    truths: dict[str, Floats] = {}
    for result in results:
        if result.counts is not results[0].counts and result.counts.ids != results[0].counts.ids:
            raise InputError("the results of one table must be about the same entities, got others")
        if not np.array_equal(truths.setdefault(result.problem.column, result.truth), result.truth):
            raise InputError(f"the results of one table must have the same {result.problem.column}s, got others")


def names_of(results: Sequence[Audit]) -> list[str]:
    """The post-processings; one that comes again gets a number: pos, pos_2."""
    names: list[str] = []
    for result in results:
        base = name = result.postprocess.replace("-", "_")
        number = 1
        while name in names:
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names
