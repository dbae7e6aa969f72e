"""Release: noise that may be published, and a budget that cannot be overspent.

`protocol` has the steps and the proof, `ledger` the budget, `noise` the sampler (OpenDP's), `statement` what is published
with a table. Importing this loads neither OpenDP nor SQLite.
"""

from fairpost.release.api import Preview, preview, release, release_noisy, release_plan
from fairpost.release.ledger import Ledger
from fairpost.release.publish import Release
from fairpost.release.request import PublicTotal
from fairpost.release.statement import About

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
