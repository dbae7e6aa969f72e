"""Pages for people: one self-contained HTML file each, which opens offline. A page loads its modules when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.lazy import lazily

if TYPE_CHECKING:
    from fairpost.report.audit import audit_page
    from fairpost.report.curves import curves_page
    from fairpost.report.entities import allocation_page, check_page, projection_page
    from fairpost.report.levels import levels_page

__all__ = ["allocation_page", "audit_page", "check_page", "curves_page", "levels_page", "projection_page"]

lazily(
    __name__,
    {
        "audit": ("audit_page",),
        "curves": ("curves_page",),
        "levels": ("levels_page",),
        "entities": ("allocation_page", "check_page", "projection_page"),
    },
)
