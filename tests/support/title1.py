"""Title I on SAIPE 2019, for the tests of programmes; a test is skipped by name where the files are absent."""

from functools import lru_cache

import numpy as np

import fairpost as fp
from support.data import rows_or_skip

AVERAGE = 13120.83
"""Dollars per pupil, the mean over the 51 states of the 2010 file."""


@lru_cache(maxsize=1)
def districts() -> fp.Counts:
    """Poor children, all children as base, 40 % of the state's expenditure within 32 % and 48 % of the average, in cents."""
    rows = rows_or_skip("saipe_2019.csv")
    spent = expenditure()
    weights = [weight(spent, row["state"]) for row in rows]
    return fp.Counts(
        [float(row["poor_5_17"]) for row in rows],
        ids=[row["leaid"] for row in rows],
        weights=weights,
        groups=[row["state"] for row in rows],
        base=[float(row["pop_5_17"]) for row in rows],
    )


def expenditure() -> dict[str, float]:
    return {row["state"]: float(row["exp_pp"]) for row in rows_or_skip("title1_saipe2011_exp2010.csv") if row["exp_pp"]}


def weight(spent: dict[str, float], state: str) -> float:
    return round(0.4 * min(max(spent.get(state, 0.0), 0.8 * AVERAGE), 1.2 * AVERAGE), 2)


def last_year(law: fp.Programme) -> np.ndarray:
    """What the law pays on the 2011 counts, as shares of what it pays to all districts of that year; 0 where there is none."""
    rows, spent = rows_or_skip("title1_saipe2011_exp2010.csv"), expenditure()
    x, base = (np.array([float(row[name]) for row in rows]) for name in ("poor_5_17", "pop_5_17"))
    paid = np.array([weight(spent, row["state"]) for row in rows]) * law.entitled(x, base)
    shares = dict(zip([row["leaid"] for row in rows], paid / paid.sum(), strict=True))
    return np.array([shares.get(label, 0.0) for label in districts().ids])
