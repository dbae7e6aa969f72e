"""The table of an audit: one row per entity, for `--csv`."""

from __future__ import annotations

from collections.abc import Sequence

from fairpost.io.rows import columns_csv
from fairpost.results.audit import Audit
from fairpost.results.comparison import wide


def entities_csv(results: Sequence[Audit]) -> str:
    """The columns of `results.comparison.wide` as CSV.

    Numbers have as many digits as give the same float again. The table can be read back as counts.
    """
    return columns_csv(wide(results))
