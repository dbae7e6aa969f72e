"""What the tests of releases share: a quick sampler, ledgers whose self-test is on record, the torture's tools."""

import sys
from pathlib import Path

import numpy as np

import fairpost as fp
from fairpost.release import noise, selftest

sys.path.append(str(Path(__file__).parents[1] / "tools"))

TOWNS = fp.Counts([2, 8, 15, 40, 120, 900], ids=["Ashby", "Birk", "Corve", "Dunmere", "Elton", "Fairfield"])
YEARBOOK = "Yearbook of towns, 2019"
GROUPS = list("aabbba")
TOTAL = {"neighbours": "replace", "exact_total": True, "exact_source": YEARBOOK, "rows": {"id": list(TOWNS.ids)}}
"""Terms of a ledger whose releases keep the total exactly."""
PARTS = TOTAL | {"exact_total": False, "exact_by": "group", "rows": {"id": list(TOWNS.ids), "group": GROUPS}}
"""And of one whose releases keep the total of each group."""
RNG = np.random.default_rng(7)


def quick(law, n):
    """Draws of the right law, fast and not for releases: a difference of geometrics, or a table of masses."""
    if law.mechanism == "discrete-laplace":
        p = -np.expm1(-1 / law.scale)
        return RNG.geometric(p, n) - RNG.geometric(p, n)
    reach = int(12 * law.scale) + 1
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-((k / law.scale) ** 2) / 2)
    return RNG.choice(k, n, p=mass / mass.sum())


def with_selftest(ledger, *laws):
    """As after a self-test that passed for these laws (name, scale)."""
    here = {"opendp": noise.opendp_version(), "machine": selftest._machine()}
    known = [
        *selftest.LAWS,
        *(noise.Law(*law) for law in laws),
        *(noise.Law("discrete-laplace", b) for b in (5.0, 10.0, 20.0)),
    ]
    selftest._remember(ledger.folder / "selftest.json", here, [[law.mechanism, law.text] for law in known])
    return ledger


def ledger(folder, *laws, **terms):
    """A ledger of epsilon 1, or as said."""
    given = {"dataset": "Towns", "unit": "person", "limit": "1"} | terms
    return with_selftest(fp.Ledger.create(folder / "l", **given), *laws)
