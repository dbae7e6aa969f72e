"""The live page: the pieces of the report made live, on this machine alone. Needs the extra `explore`."""

from fairpost.explore.app import create
from fairpost.explore.session import Session

__all__ = ["Session", "create"]
