"""Rows to use: `--where "state == AL"`. A condition is taken apart by a fixed grammar; no code is evaluated.

    COLUMN = VALUE      (or ==)   the entry is this text; of a column of numbers, this number
    COLUMN != VALUE               it is there and is another one
    COLUMN < NUMBER     (<= > >=) it is a number on this side
    COLUMN is missing, COLUMN is not missing

Column and value may stand in quotation marks of any kind; several conditions must all hold.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairpost.errors import InputError, ParameterError, value
from fairpost.io.columns import missing, words
from fairpost.io.decimals import decided, parsed
from fairpost.io.names import absent, meant, suggested
from fairpost.io.table import Table, kept, listed

if TYPE_CHECKING:
    import polars as pl

QUOTED = r"\"[^\"]*\"|'[^']*'|`[^`]*`"
IS = re.compile(rf"\s*({QUOTED}|.*?\S)\s+is\s+(not\s+)?missing\s*", re.IGNORECASE | re.DOTALL)
COMPARED = re.compile(rf"\s*({QUOTED}|[^=!<>]*[^=!<>\s])\s*(==|=|!=|<=|>=|<|>)\s*(.*?)\s*", re.DOTALL)
ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
GRAMMAR = "COLUMN = VALUE, COLUMN != VALUE, COLUMN < NUMBER (<=, >, >=), COLUMN is missing, COLUMN is not missing"


@dataclass(frozen=True)
class Condition:
    """One condition, as it was written and taken apart."""

    text: str
    column: str
    sign: str
    """=, !=, <, <=, >, >=, missing or present."""
    value: str = ""


def condition(text: str) -> Condition:
    """A condition from its text."""
    found = COMPARED.fullmatch(text)
    if found is not None:
        column, sign, wanted = found.groups()
        return Condition(text, _bare(column), "=" if sign == "==" else sign, _bare(wanted))
    found = IS.fullmatch(text)
    if found is not None:
        return Condition(text, _bare(found[1]), "present" if found[2] else "missing")
    raise ParameterError(f"`where` must be {GRAMMAR}, got {value(text)}")


def _bare(text: str) -> str:
    """Without the quotation marks around it."""
    return text[1:-1] if re.fullmatch(QUOTED, text) else text


def selected(table: Table, conditions: Sequence[Condition]) -> Table:
    """The rows for which all conditions hold; at least one."""
    for one in conditions:
        column = meant(table, one.column)
        if column is None:
            raise absent(table, "the column of `where`", one.column, None)
        mask = _mask(table, column, one)
        if not mask.any():
            raise InputError(
                f"{table.name}: some row must fulfil --where {value(one.text)}, got none of "
                f"{table.height:,}{_offered(table, column, one)}"
            )
        table = kept(table, mask)
    return table


def _mask(table: Table, column: str, one: Condition) -> pl.Series:
    series = table.data[column]
    gone = missing(series)
    if one.sign in ("missing", "present"):
        return gone if one.sign == "missing" else ~gone
    if one.sign in ORDER:
        numbers = parsed(series, decided(replace(table, say=lambda _: None), [(column, "value")]).decimal or ".")
        inside: pl.Series = ORDER[one.sign](numbers, _number(one)).fill_null(False)
        return inside
    text = None if series.dtype.is_numeric() else words(table, column, series).str.strip_chars()
    same = series == _number(one) if text is None else text == one.value.strip()
    return (same if one.sign == "=" else ~same).fill_null(False) & ~gone


def _number(one: Condition) -> float:
    try:
        return float(one.value)
    except ValueError:
        raise ParameterError(f"`where` compares numbers in {value(one.text)}, got {value(one.value)}") from None


def _offered(table: Table, column: str, one: Condition) -> str:
    """What the column holds instead."""
    if one.sign != "=" or table.data[column].dtype.is_numeric():
        return ""
    held = words(table, column, table.data[column]).str.strip_chars().drop_nulls().unique(maintain_order=True).to_list()
    near = suggested(one.value, held)
    return f" ({near}the column has {listed(held)})" if held else ""
