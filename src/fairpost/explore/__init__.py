"""The live page: the pieces of the report made live, on this machine alone. Needs the extra `explore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairpost.lazy import lazily

if TYPE_CHECKING:
    from fairpost.explore.app import create
    from fairpost.explore.session import Session

__all__ = ["Session", "create"]

lazily(__name__, {"app": ("create",), "session": ("Session",)})
