"""Pages for people: one self-contained HTML file each, which opens offline."""

from fairpost.report.audit import audit_page
from fairpost.report.check import check_page
from fairpost.report.curves import curves_page
from fairpost.report.entities import allocation_page, projection_page
from fairpost.report.levels import levels_page

__all__ = ["allocation_page", "audit_page", "check_page", "curves_page", "levels_page", "projection_page"]
