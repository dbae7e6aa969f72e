"""Files and data frames: the only place where fairpost meets them. Importing this loads no data-frame library."""

from fairpost.io.entities import entities_csv
from fairpost.io.files import check_free, write_whole
from fairpost.io.tables import Rows, read_counts, read_rows

__all__ = ["Rows", "check_free", "entities_csv", "read_counts", "read_rows", "write_whole"]
