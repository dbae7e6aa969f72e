"""Numba in one place: the decorator that makes a kernel, where compiled kernels are kept, and who is told that one compiles.

A kernel takes arrays and numbers and checks nothing; it lives in a folder `kernels` beside the derivation that it serves. Numba
itself is imported with the first of them (`events`).

Numba keeps machine code in files and looks whether a kernel's own file has changed. But a kernel is compiled into its callers,
so that one changed line has to make others anew: the folder's name is a hash of every kernel's source, of the versions and
settings that make machine code and of the processor. Files are read back with pickle, which runs what it reads: the folder
must be the user's alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from fairpost.compiled.store import folder, root, sources, tell, told

F = TypeVar("F", bound=Callable[..., Any])
__all__ = ["folder", "kernel", "root", "sources", "tell", "told"]


@overload
def kernel(function: F, /) -> F: ...
@overload
def kernel(**options: Any) -> Callable[[F], F]: ...
def kernel(function: Any = None, /, **options: Any) -> Any:
    """Compile `function` on its first call and keep the machine code; it holds no interpreter lock while it runs."""
    from fairpost.compiled.events import made

    if options.get("inline") == "always":  # by LLVM, which has typed and lowered the function once, not once a call
        options = {**options, "inline": "never", "forceinline": True}
    return (lambda f: made(f, folder(), options)) if function is None else made(function, folder(), options)
