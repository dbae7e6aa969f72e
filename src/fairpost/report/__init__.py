"""Pages for people: one self-contained HTML file each, which opens offline. A page loads its modules when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.lazy import lazily

if TYPE_CHECKING:
    from fairpost.report.allocations import allocation_page
    from fairpost.report.audit import audit_page
    from fairpost.report.check import check_page
    from fairpost.report.curves import curves_page
    from fairpost.report.levels import levels_page
    from fairpost.report.projections import projection_page

__all__ = ["allocation_page", "audit_page", "check_page", "curves_page", "levels_page", "projection_page"]

lazily(
    __name__,
    {
        "allocations": ("allocation_page",),
        "audit": ("audit_page",),
        "check": ("check_page",),
        "curves": ("curves_page",),
        "levels": ("levels_page",),
        "projections": ("projection_page",),
    },
)
