"""Numba in one place: the decorator that makes a kernel, and where compiled kernels are kept.

A kernel takes arrays and numbers and checks nothing; it lives in a folder `kernels` beside the derivation that it serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])


@overload
def kernel(function: F, /) -> F: ...
@overload
def kernel(**options: Any) -> Callable[[F], F]: ...
def kernel(function: Any = None, /, **options: Any) -> Any:
    """Compile `function` on its first call and keep the machine code; it holds no interpreter lock while it runs."""
    from fairpost.compiled.dispatch import made

    return (lambda f: made(f, options)) if function is None else made(function, options)
