"""Which post-processings the exact engine evaluates; each registers itself beside its derivation."""

from importlib import import_module

from fairpost.engines.exact.registry import EXACT

for _module in (
    "simplex.moments",
    "pos.moments",
    "threshold.moments",
):
    import_module(f"fairpost.engines.exact.{_module}")

__all__ = ["EXACT"]
