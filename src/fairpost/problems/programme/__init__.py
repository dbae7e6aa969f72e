"""Laws as problems: eligibility thresholds, weighted brackets, pro-rata cuts, hold-harmless."""

from fairpost.problems.programme.law import Kinks, Programme
from fairpost.problems.programme.words import (
    NAMES,
    Amount,
    Brackets,
    Condition,
    Entitlement,
    HoldHarmless,
    Minimum,
    Nest,
    builtin_text,
)

builtin, from_text, to_text = Programme.named, Programme.from_toml, Programme.to_toml

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
