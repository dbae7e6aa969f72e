"""Whose budget a share is a share of, when every group shares out a part of its own.

Let G_1, ..., G_k be the groups and q_i = a_i x_i / sum_{j in G(i)} a_j x_j the share of entity i inside its group. With the
budget B_g of group g the entity is due B_g q_i, and an allocation that works group by group, with bias b_i inside the group,
moves B_g b_i of money. Everything is put on one scale, shares of the whole budget B = sum_g B_g:

    P_i = (B_g / B) q_i,     bias_i = (B_g / B) b_i,     money_i = B bias_i.

Then sum_i P_i = 1, as without groups. One number B is split in proportion to the groups' true shares,

    B_g = B s_g,   s_g = sum_{i in G_g} a_i x_i / sum_j a_j x_j,   so that   P_i = s_g q_i = a_i x_i / sum_j a_j x_j:

everybody is due what they are due without groups. In either case the cost of privacy is at most B: shares are not negative, so
nobody loses more than P_i, and

    B sum_i max(0, -bias_i) <= B sum_i P_i = B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.counts import Counts
from fairpost.errors import ParameterError
from fairpost.fairness import checked_budget
from fairpost.partition import Partition
from fairpost.problems import Proportional

Floats = NDArray[np.float64]
Budget = float | Mapping[str, float] | Sequence[float] | Floats
"""Money to share: one number, or one per group, by label or in the order of first appearance."""
SPLIT = "one budget, split among the groups in proportion to their true shares"
NOISY = "one budget, split among the groups in proportion to their noisy sums"
BY_LAW = "one budget, split among the groups by what the law pays them on the noisy counts"
GIVEN = "every group has a budget of its own, as given"


@dataclass(frozen=True, eq=False)
class GroupBudgets:
    """The budget of every group, and the part of the whole that each entity's group has."""

    amounts: dict[str, float]
    """B_g by label, in order of first appearance."""
    part: Floats
    """B_g / B of the group of each entity."""
    words: str
    """Where the amounts come from."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"rule": self.words, "amounts": self.amounts}


def several(budget: Budget) -> bool:
    """Whether there is one budget per group, not one in all."""
    return isinstance(budget, (Mapping, Sequence, np.ndarray)) and not isinstance(budget, (str, bytes))


def whole(budget: Budget) -> float:
    """B: the budget, or the sum of the groups' budgets."""
    if not several(budget):
        return checked_budget(budget)  # type: ignore[arg-type]
    each = list(budget.values() if isinstance(budget, Mapping) else budget)  # type: ignore[arg-type]
    total = checked_budget(sum(checked_budget(b) for b in each))
    if total == 0:
        raise ParameterError("the budgets of the groups must have a sum above 0, got 0")
    return total


def among_groups(budget: Budget, counts: Counts, partition: Partition, due: Floats | None = None) -> GroupBudgets:
    """B_g and B_g / B as derived above, for these counts in these groups; `due`: shares of another law than proportion."""
    total, labels = whole(budget), partition.labels
    given = np.array(_given(budget, labels)) / total if several(budget) else None
    due = Proportional(counts.weights).truth(counts) if due is None else due
    share = partition.sums(partition.gather(due)) if given is None else given
    amounts = dict(zip(labels, (total * share).tolist(), strict=True))
    part = partition.scatter(np.asarray(partition.spread(share), dtype=np.float64))
    return GroupBudgets(amounts, part, GIVEN if several(budget) else SPLIT)


def _given(budget: Any, labels: Sequence[str]) -> list[float]:
    """The budgets in the order of the labels: every group has one, and every one has a group."""
    if not isinstance(budget, Mapping):
        if len(budget) != len(labels):
            raise ParameterError(f"there must be one budget per group: {len(labels)} groups, {len(budget)} budgets")
        return [float(b) for b in budget]
    named = {str(label): float(b) for label, b in budget.items()}
    missing = [label for label in labels if label not in named]
    if missing:
        raise ParameterError(f"every group must have a budget, got none for {missing[0]!r}")
    extra = sorted(named.keys() - set(labels))
    if extra:
        raise ParameterError(f"every budget must be of a group that there is, got one for {extra[0]!r}")
    return [named[label] for label in labels]
