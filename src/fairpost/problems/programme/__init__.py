"""Laws as problems: eligibility thresholds, weighted brackets, pro-rata cuts, hold-harmless."""

from fairpost.problems.programme.conditions import (
    Amount,
    Brackets,
    Condition,
    Entitlement,
    HoldHarmless,
    Minimum,
    Nest,
)
from fairpost.problems.programme.kinks import Kinks
from fairpost.problems.programme.law import Programme
from fairpost.problems.programme.text import NAMES, builtin, builtin_text, from_text, to_text

__all__ = [
    "NAMES",
    "Amount",
    "Brackets",
    "Condition",
    "Entitlement",
    "HoldHarmless",
    "Kinks",
    "Minimum",
    "Nest",
    "Programme",
    "builtin",
    "builtin_text",
    "from_text",
    "to_text",
]
