"""Files and data frames: the only place where fairpost meets them. Importing this loads no data-frame library.

reading   what the user said about a source, the `Table` that a reader makes of it, names and places in messages
source    from a name to bytes; `decode` is the process of its own that takes Parquet files and workbooks apart
text      CSV and its kin
frames    data frames, Parquet, workbooks
saipe     school-district files of the Census Bureau
columns   text to numbers and labels, missing entries, rows to use
tables    the readers that users call
files     the writers
"""

from fairpost.counts import Rows
from fairpost.io.files import check_free, entities_csv, write_whole
from fairpost.io.tables import (
    read_column,
    read_counts,
    read_group_budgets,
    read_leaves,
    read_programme,
    read_row_budgets,
    read_rows,
)

__all__ = [
    "Rows",
    "check_free",
    "entities_csv",
    "read_column",
    "read_counts",
    "read_group_budgets",
    "read_leaves",
    "read_programme",
    "read_row_budgets",
    "read_rows",
    "write_whole",
]
