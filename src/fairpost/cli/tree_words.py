"""What `--cells` and a statement say about a hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.cli import options as o
from fairpost.errors import ParameterError

if TYPE_CHECKING:
    from fairpost.release.statement import Stated


def with_statement(given: o.Given, found: Stated) -> o.Given:
    """The options with the levels, the noise and the rule of a finished release of levels."""
    for option in ("levels", "level_sigma", "split", "exact"):
        if given[option] is not None:
            raise ParameterError(
                f"the levels and their noise are given by --statement or by --{option.replace('_', '-')}, got both"
            )
    return given | {
        "levels": found.levels,
        "level_sigma": found.level_sigma,
        "kind": found.mechanism,
        "whole": found.whole,
        "postprocess": given["postprocess"] or (found.postprocess,),
    }


def cell_columns(given: o.Given) -> list[str]:
    """The columns of --cells; none without."""
    if given["cells"] is None:
        return []
    if given["count"] is not None:
        raise ParameterError(f"counts are given by --count or by --cells, got --count {given['count']!r} too")
    if given["checkpoint"] is not None:
        raise ParameterError(f"--checkpoint has no meaning with --cells, got {given['checkpoint']!r}")
    found = [part.strip() for part in given["cells"].split(",")]
    if not all(found) or len(set(found)) < len(found):
        raise ParameterError(f"--cells must be columns that differ, COL,..., got {given['cells']!r}")
    return found
