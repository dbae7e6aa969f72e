"""The verb of whoever holds the truth and what was published: check(true, released, mechanism)."""

from fairpost.check.verb import check

__all__ = ["check"]
