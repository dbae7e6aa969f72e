"""The cost of privacy of one allocation, in shares of the budget and in money."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairpost.accuracy import Estimate
from fairpost.results.base import number


@dataclass(frozen=True)
class CostOfPrivacy:
    """Definition 5: what must be added to the budget so that nobody expects less than their due."""

    share: Estimate
    """As a share of the budget."""
    amount: Estimate | None
    """In money, where a budget was given."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: the values, and the intervals around them."""
        amount = self.amount
        return {
            "share": self.share.value,
            "amount": None if amount is None else amount.value,
            "share_interval": self.share.to_dict(),
            "amount_interval": None if amount is None else amount.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CostOfPrivacy:
        """The inverse of `to_dict`."""
        amount = data["amount_interval"]
        return cls(Estimate.from_dict(data["share_interval"]), None if amount is None else Estimate.from_dict(amount))

    def __str__(self) -> str:
        """The share of the budget, and the money where there is some."""
        amount = "" if self.amount is None else f" = {number(self.amount.value)}"
        return f"{number(100 * self.share.value)} % of the budget{amount} ({self.share.kind})"
