"""What `allocate` returns: shares from noisy counts, how sure they are, and an estimate of their bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairpost.budgets import GroupBudgets
from fairpost.errors import ParameterError
from fairpost.noise import Mechanism, Neighbours
from fairpost.partition import Partition
from fairpost.results import documents
from fairpost.results.base import Columns, Numbers, Result, label, noise_words, number, with_kept
from fairpost.results.figures import Series, drawn

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]
ESTIMATED = "estimated from noisy counts"


@dataclass(frozen=True, eq=False)
class Interval:
    """For each entity an interval that contains its true share with chance `confidence` (at least)."""

    low: Floats
    high: Floats
    confidence: float
    simultaneous: bool
    """Whether the chance is for all entities together."""

    def scaled(self, part: Floats) -> Interval:
        """In shares of the whole, where those inside a group are known."""
        return Interval(self.low * part, self.high * part, self.confidence, self.simultaneous)


@dataclass(frozen=True, eq=False)
class PlugIn:
    """An estimate of the bias of each share, from noisy counts."""

    bias: Floats
    error: Floats
    """The root mean squared error of `bias` in the bootstrap."""
    deviation: Floats
    """The estimated standard deviation of each share."""
    method: str
    replicates: int
    mark: str = ESTIMATED

    def scaled(self, part: Floats) -> PlugIn:
        """In shares of the whole, where those inside a group are known."""
        return replace(self, bias=self.bias * part, error=self.error * part, deviation=self.deviation * part)


@dataclass(frozen=True, eq=False, repr=False)
class Allocation(Numbers, Result):
    """Shares of 1 by one rule, from noisy counts alone. As a sequence or an array it is its shares.

    Nothing true was looked at, so nothing here is confidential.
    """

    how: str
    """The rule: baseline, pos or pos-threshold."""
    noisy: Floats
    """The noisy counts, one vector or one row per draw."""
    shares: Floats
    """The shares, of the same shape."""
    weights: Floats
    """a, one per entity."""
    ids: tuple[str, ...]
    groups: tuple[str, ...] | None = None
    mechanism: Mechanism | None = None
    """The noise, where it was given."""
    budget: float | None = None
    """Money to share, in all."""
    budgets: GroupBudgets | None = None
    """By group with a budget: each group's part of it. Shares are then of the whole budget."""
    grouped: bool = False
    """Whether every group shares a budget of its own."""
    names: tuple[str, ...] | None = None
    """What people call each entity."""
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Columns that are carried along."""
    interval: Interval | None = None
    """Where the true share lies, if the law of the noise is known."""
    bias: PlugIn | None = None
    """An estimate of the bias of each share, if it was asked for and can be had."""
    missing: str | None = None
    """Why the estimate that was asked for is not there."""

    @property
    def _numbers(self) -> Floats:
        return self.shares

    @property
    def n(self) -> int:
        """The number of entities."""
        return int(self.shares.shape[-1])

    @property
    def money(self) -> Floats | None:
        """The shares of the budget."""
        return None if self.budget is None else np.asarray(self.shares * self.budget)

    def name(self, i: int) -> str:
        """What people call entity i."""
        return self.ids[i] if self.names is None else self.names[i]

    def by_group(self) -> dict[str, tuple[int, float, float]]:
        """For each group how many entities it has, its noisy sum, and the sum of its shares; empty without groups."""
        _one_draw(self)
        if self.groups is None:
            return {}
        parts = Partition.of(self.groups)
        sums = (parts.sums(parts.gather(values)).tolist() for values in (self.noisy, self.shares))
        return dict(zip(parts.labels, zip(parts.sizes.tolist(), *sums, strict=True), strict=True))

    def _columns(self) -> Columns:
        """One row per entity: the table of `fairpost allocate --csv` for this rule."""
        return allocation_columns([self])

    def to_dict(self, *, neighbours: Neighbours | None = None) -> dict[str, Any]:
        """The JSON of `fairpost allocate` for this rule."""
        return allocation_data([self], neighbours=neighbours)

    def plot(self) -> go.Figure:
        """The share of each entity (money, with a budget) against its noisy count, with the interval of the true one."""
        _one_draw(self)
        factor, unit = (1.0, "share") if self.budget is None else (self.budget, "money")
        found = self.interval
        ends = (None, None) if found is None else (found.low * factor, found.high * factor)
        shares = self.shares * factor
        if ends[0] is not None and ends[1] is not None:  # a rule's share may lie outside the interval of the true one
            ends = np.minimum(ends[0], shares), np.maximum(ends[1], shares)
        return drawn(self._head(), "noisy count", unit, [Series(self.how, self.noisy, shares, self.ids, *ends)])

    def _head(self) -> str:
        noise = "" if self.mechanism is None else f", {noise_words(self.mechanism)}"
        draws = "" if self.shares.ndim == 1 else f", {len(self.shares):,} draws"
        return f"Allocation by {self.how}: {self.n:,} entities{draws}{noise}"

    def _facts(self) -> list[tuple[str, str]]:
        facts = [] if self.budget is None else [("budget", number(self.budget))]
        if self.shares.ndim == 1:
            order = np.argsort(-self.shares, kind="stable")
            facts += [(f"largest {k + 1}", self._entry(int(i))) for k, i in enumerate(order[:5])]
        facts.append(("get nothing", f"{np.count_nonzero(self.shares == 0):,} of {self.shares.size:,}"))
        if self.interval is not None:
            together = ", all together" if self.interval.simultaneous else ""
            facts.append(("interval", f"of the true share, {100 * self.interval.confidence:g} %{together}"))
        if self.bias is not None:
            ends = (int(np.argmax(self.bias.bias)), int(np.argmin(self.bias.bias)))
            said = (
                f"{label(self.name(i))} {number(float(self.bias.bias[i]), signed=True)} +- {number(float(self.bias.error[i]))}"
                for i in ends
            )
            facts.append(("bias", f"{', '.join(said)}, {self.bias.mark}"))
        return facts + ([("no bias", self.missing)] if self.missing else [])

    def _entry(self, i: int) -> str:
        money = "" if self.money is None else f" = {number(float(self.money[i]))}"
        between = ""
        if self.interval is not None:
            between = f" ({number(float(self.interval.low[i]))} to {number(float(self.interval.high[i]))})"
        return f"{label(self.name(i))} {number(float(self.shares[i]))}{between}{money}"


def _one_draw(found: Allocation) -> None:
    if found.shares.ndim != 1:
        raise ParameterError(f"a table or figure is of one draw, got {len(found.shares)}; take the rows of `shares`")


def allocation_columns(found: Sequence[Allocation]) -> Columns:
    """One row per entity, with columns for each rule; all are about the same noisy counts."""
    first = found[0]
    for each in found:
        _one_draw(each)
        if not (np.array_equal(each.noisy, first.noisy) and each.ids == first.ids and each.budget == first.budget):
            raise ParameterError("the allocations of one table must be of the same noisy counts and budget, got others")
    budget, interval = first.budget, first.interval
    columns: Columns = {"id": list(first.ids), "noisy_count": first.noisy, "weight": first.weights}
    if first.groups is not None:
        columns["group"] = list(first.groups)
    if first.names is not None:
        columns["name"] = list(first.names)
    if interval is not None:
        columns |= {"true_share_low": interval.low, "true_share_high": interval.high}
        if budget is not None:
            columns |= {"true_money_low": interval.low * budget, "true_money_high": interval.high * budget}
    for each in found:
        columns |= _own_columns(each)
    return with_kept(first.kept, columns, HEADS)


HEADS = ("id", "noisy_count", "weight", "group", "name")
"""Columns that say what a row is about."""


def group_table(found: Sequence[Allocation]) -> Columns:
    """One row per group, with columns for each rule."""
    first = found[0].by_group()
    columns: Columns = {
        "group": list(first),
        "n": [n for n, _, _ in first.values()],
        "noisy_sum": [total for _, total, _ in first.values()],
    }
    for each in found:
        name, own = each.how.replace("-", "_"), [share for _, _, share in each.by_group().values()]
        columns[f"{name}_share"] = own
        if each.budget is not None:
            columns[f"{name}_money"] = [share * each.budget for share in own]
    return columns


def _own_columns(found: Allocation) -> Columns:
    name = found.how.replace("-", "_")
    columns: Columns = {f"{name}_share": found.shares}
    if found.money is not None:
        columns[f"{name}_money"] = found.money
    if found.bias is not None:
        columns[f"{name}_estimated_bias"] = found.bias.bias
        columns[f"{name}_estimated_bias_error"] = found.bias.error
        columns[f"{name}_estimated_standard_deviation"] = found.bias.deviation
    return columns


def allocation_data(
    found: Sequence[Allocation], *, neighbours: Neighbours | None = None, replicates: int | None = None
) -> dict[str, Any]:
    """The JSON of `fairpost allocate`: the rules together."""
    first, promised = found[0], Neighbours() if neighbours is None else neighbours
    interval, biases = first.interval, {a.how: a.bias for a in found if a.bias is not None}
    known = next((b.replicates for b in biases.values()), None)
    carried = {"kept": documents.rows(first.kept) if first.kept else None}
    return documents.document(
        "allocate",
        first,
        counts={"n": first.n, "noisy_total": float(np.sum(first.noisy))},
        mechanism=None if first.mechanism is None else promised.describe(first.mechanism),
        by_group=first.grouped,
        group_budgets=first.budgets,
        interval=None if interval is None else documents.told(documents.Interval, interval, of="the true share"),
        bias={
            "mark": ESTIMATED,
            "methods": {how: b.method for how, b in biases.items()},
            "replicates": known if replicates is None else replicates,
            "missing": {a.how: a.missing for a in found if a.missing is not None},
        },
        groups=None if first.groups is None else documents.rows(group_table(found)),
        entities=documents.rows(allocation_columns([replace(a, kept={}) for a in found]) | carried),
    )
