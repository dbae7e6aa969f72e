"""Hypothesis without deadlines (a first call compiles) and with the same examples on every run."""

from hypothesis import settings

settings.register_profile("fairpost", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fairpost")
