"""Pages for people: one self-contained HTML file each, which opens offline."""

from fairpost.report.audit import audit_page
from fairpost.report.curves import curves_page
from fairpost.report.entities import allocation_page, projection_page

__all__ = ["allocation_page", "audit_page", "curves_page", "projection_page"]
