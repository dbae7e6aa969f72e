"""Packages whose modules are loaded when one of their names is first asked for: a command loads what it uses."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> None:
    """Give a package public names by demand: the names by the module of the package that has them.

    A submodule with the name of a verb does not take the verb's place.
    """
    places = {name: f"{package}.{home}" for home, names in homes.items() for name in names}

    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name not in places:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            value = getattr(import_module(places[name]), name)
            self.__dict__[name] = value
            return value

        def __setattr__(self, name: str, value: Any) -> None:
            if not (name in places and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *places})

    sys.modules[package].__class__ = Lazy
