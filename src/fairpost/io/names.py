"""Which column a name means: case does not matter where no name is exact, and what is not there is answered by what is like it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from fairpost.errors import InputError, value
from fairpost.io.table import Table, listed


def folded(name: str) -> str:
    """A name without case and surrounding blanks."""
    return name.strip().casefold()


def picked(columns: Sequence[str], wanted: Iterable[str]) -> list[str]:
    """The columns that any of the wanted names could mean."""
    names = {folded(name) for name in wanted}
    return [column for column in columns if folded(column) in names]


def meant(table: Table, name: str) -> str | None:
    """The column of a name: the one spelled so, else the only one that differs in case alone; None where there is none."""
    if name in table.data:
        return name
    alike = [column for column in table.data if folded(column) == folded(name)]
    if len(alike) > 1:
        raise InputError(
            f"{table.name}: a column must be named as it is spelled, got {value(name)} for {listed(alike)}"
        )
    return alike[0] if alike else None


def suggested(name: str, known: Sequence[str]) -> str:
    """Names that are like this one, as the beginning of an advice; "" where none is."""
    spelled = {folded(one): one for one in reversed(known)}
    near = get_close_matches(folded(name), list(spelled), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(value(spelled[one]) for one in near)}? " if near else ""


def absent(table: Table, role: str, name: str, option: str | None) -> InputError:
    """The error for a column that is not there."""
    near = suggested(name, table.columns)
    how = "" if option is None else f"name it with --{option}"
    advice = f" ({near}{how})".replace("? )", "?)") if near or how else ""
    rule = f"{role} must be one of {listed(table.columns)}"
    return InputError(f"{table.name}: {rule}, got {value(name)}{advice}{table.hint}")
