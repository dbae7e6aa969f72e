"""Pages for people: one self-contained HTML file each, which opens offline."""

from fairpost.report.audit import audit_page
from fairpost.report.curves import curves_page

__all__ = ["audit_page", "curves_page"]
