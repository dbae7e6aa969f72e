"""Files and data frames: the only place where fairpost meets them. Importing this loads no data-frame library."""

from fairpost.io.entities import entities_csv
from fairpost.io.files import check_free, write_whole
from fairpost.io.tables import Noisy, read_counts, read_group_budgets, read_noisy

__all__ = ["Noisy", "check_free", "entities_csv", "read_counts", "read_group_budgets", "read_noisy", "write_whole"]
