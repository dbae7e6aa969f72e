"""Release: noise that may be published, and a budget that cannot be overspent.

`protocol` has the steps and the proof, `ledger` the budget with its `chain`, `invariants` what is exact, `noise` the sampler (OpenDP's)
with its `selftest`, `source` the true counts, `kept` the noisy ones, `rules` and `publish` what is made of them, `statement` what is
promised. True counts enter by `source`, and nothing but `kept` goes on to what is published. Nothing here is imported by a room
above; importing it loads neither OpenDP nor SQLite.
"""

from fairpost.release.api import Preview, preview, release, release_noisy, release_plan
from fairpost.release.ledger import Ledger
from fairpost.release.publish import About, Release
from fairpost.release.request import PublicTotal

__all__ = [
    "About",
    "Ledger",
    "Preview",
    "PublicTotal",
    "Release",
    "preview",
    "release",
    "release_noisy",
    "release_plan",
]
