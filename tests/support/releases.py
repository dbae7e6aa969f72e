"""What the tests of releases share: a quick sampler, ledgers whose self-test is on record, the torture's tools."""

import hashlib
import json
import math

import numpy as np

import fairpost as fp
from fairpost.release import guard, noise, protocol, release_plan, selftest
from fairpost.release import ledger as store
from support.places import ROOT, with_tools

with_tools()

TOWNS = fp.Counts([2, 8, 15, 40, 120, 900], ids=["Ashby", "Birk", "Corve", "Dunmere", "Elton", "Fairfield"])
YEARBOOK = "Yearbook of towns, 2019"
GROUPS = list("aabbba")
TOTAL = {"neighbours": "replace", "exact_total": True, "exact_source": YEARBOOK, "rows": {"id": list(TOWNS.ids)}}
"""Terms of a ledger whose releases keep the total exactly."""
PARTS = TOTAL | {"exact_total": False, "exact_by": "group", "rows": {"id": list(TOWNS.ids), "group": GROUPS}}
"""And of one whose releases keep the total of each group."""
RULES = (
    "none",
    "nonnegative",
    "sum",
    "sum-clipped",
    "simplex",
    "simplex-threshold",
    "baseline",
    "pos",
    "pos-threshold",
)
TREE_RULES = ("top-down", "blue-down", "joint", "top-down-threshold", "blue-down-threshold")
FILES = ("dataset.jsonld", "registry.yaml", "statement.json", "table.csv")
"""What a release publishes."""
SCHEMA = json.loads((ROOT / "docs" / "statement.schema.json").read_text(encoding="utf-8"))
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
    usual = (("discrete-laplace", b) for b in (5.0, 10.0, 20.0))
    known = [noise.Law(*law) for law in (*laws, *usual)]
    selftest.remember(ledger.folder / "selftest.json", [*selftest.LAWS, *known])
    return ledger


def ledger(folder, *laws, **terms):
    """A ledger of epsilon 1, or as said."""
    given = {"dataset": "Towns", "unit": "person", "limit": "1"} | terms
    return with_selftest(fp.Ledger.create(folder / "l", **given), *laws)


def released(book, counts=TOWNS, *, sampler=quick, out=None, say=None, **words):
    """One release, named t, with the noise of this sampler: a plan takes one, and charges as every release does."""
    return release_plan([{"name": "t", "file": counts, **words}], book, out, sampler=sampler, say=say)[0]


def drawing(monkeypatch, draw=quick, *, add=None):
    """Every release draws by `draw` (or adds noise by `add`), whoever asks; no self-test, which has tests of its own."""
    monkeypatch.setattr(selftest, "demand", lambda *given: False)
    added = add or (lambda x, law, sampler: noise.add_noise(x, law, draw))
    monkeypatch.setattr(protocol, "add_noise", added)


def impatient(monkeypatch, seconds):
    """Whoever waits for a lock or for the ledger gives up soon."""
    monkeypatch.setattr(guard, "PATIENCE", seconds)
    monkeypatch.setattr(store, "PATIENCE", seconds)


def accepted(a, b):
    """P(accept) of OpenDP 0.14.1's Bernoulli(e^{-a/b}): its a/b divided by k was (a/g) / (floor(b/g) k), g = gcd(a, k).

    (github.com/opendp/opendp issue 2638, github.com/cmpute/dashu issue 57; 200,000 draws of 0.14.1 at b = 10 agree with
    the law below, p = 0.77, and not with the discrete Laplace law, p = 4e-30.)
    """
    a, b = a // math.gcd(a, b), b // math.gcd(a, b)
    total, alive = 0.0, 1.0
    for k in range(1, 60):
        g = math.gcd(a, k)
        p = 0.0 if a == 0 else min(1.0, (a // g) / ((b // g) * k))
        total += alive * (1 - p) if k % 2 else 0.0
        alive *= p
    return total


OLD = np.random.default_rng(14)


def as_0_14_1(law, n, rng=OLD):
    """Draws from the law of OpenDP 0.14.1, for a whole scale; elsewhere from the right law."""
    if law.mechanism != "discrete-laplace" or law.scale != int(law.scale):
        return quick(law, n)
    t = int(law.scale)
    weights = np.array([accepted(u, t) for u in range(t)])
    size = 3 * n + 100
    magnitude = rng.choice(t, size, p=weights / weights.sum()) + t * (rng.geometric(1 - math.exp(-1), size) - 1)
    sign = rng.integers(0, 2, size)
    keep = (sign == 1) | (magnitude > 0)
    return np.where(sign == 1, magnitude, -magnitude)[keep][:n]


STATEMENT = {
    "statement": "fairpost release statement 2",
    "date": "2026-11-19",
    "table": {"file": "table.csv", "sha256": "0" * 64, "rows": 3, "columns": ["id", "count"], "entities": "public"},
    "privacy": {
        "definition": "epsilon-differential privacy", "epsilon": "1/5", "delta": "0", "rho": None, "unit": "person",
        "neighbours": "add-remove", "relation": "one more", "weak_protection": None, "entities_per_person": 1,
        "sensitivity": {"norm": "L1", "value": "1"}, "mechanism": "discrete-laplace", "scale": "5",
        "noise_standard_deviation": "7", "sampler": "OpenDP", "seed": None,
        "levels": [{
            "epsilon": "1/5", "loss": "1/5", "mechanism": "discrete-laplace", "name": "table", "rho": "1/50", "rows": 3, "scale": "5",
        }],
    },
    "unprotected": [],
    "postprocessing": [{"rule": "simplex", "gives": "count", "total": None, "by_group": False, "total_value": None}],
    "parameters_chosen": {"loss": "policy", "rule": "policy"},
    "budget": {
        "name": "t", "composition": "sum", "limit": "1", "limit_given": {"epsilon": "1"}, "loss": "1/5", "spent_after": "1/5",
        "entry": 2, "hash": "0" * 64, "other_ledgers": "none",
    },
    "software": {"fairpost": "0", "opendp": "0", "published_with": "0"},
}  # fmt: skip
"""A whole statement, as a release of a table of three rows has it."""


def statement_of(table, *, step=None, **privacy):
    """A statement of these bytes, with another rule or promise."""
    made = json.loads(json.dumps(STATEMENT))
    made["table"]["sha256"] = hashlib.sha256(table).hexdigest()
    made["privacy"] |= privacy
    made["postprocessing"][0] |= step or {}
    return made
