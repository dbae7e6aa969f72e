"""Pages for people: one self-contained HTML file each, which opens offline. A page loads its modules when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpost.report.allocations import allocation_page
    from fairpost.report.audit import audit_page
    from fairpost.report.curves import curves_page
    from fairpost.report.levels import levels_page
    from fairpost.report.projections import projection_page

__all__ = ["allocation_page", "audit_page", "curves_page", "levels_page", "projection_page"]
_HOME = {
    "allocation_page": "allocations",
    "audit_page": "audit",
    "curves_page": "curves",
    "levels_page": "levels",
    "projection_page": "projections",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fairpost.report' has no attribute {name!r}")
    return getattr(import_module(f"fairpost.report.{_HOME[name]}"), name)
