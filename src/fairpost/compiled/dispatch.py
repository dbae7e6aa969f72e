"""Every touch of Numba's inner parts is in this folder (written for 0.60 to 0.68).

Numba compiles a function for its callers and for Python at once: each one is optimised, turned into machine code and
wrapped, and then optimised and turned into machine code again inside every function that calls it. A tree of small kernels
pays for its depth. Here a kernel has two sides:

- **inner**, what other kernels call: types and unoptimised LLVM code alone, with the code of what it calls;
- **outer**, what Python calls: the inner parts linked into one module, optimised and turned into machine code once.

In the outer module all but the kernel itself is private. So nothing is shared between machine codes, and the bits of a
result do not depend on which kernels were compiled or loaded before: a copy of a function whose sums the compiler may
reorder is never taken from elsewhere. Inner parts are linked as they come back from bitcode, whether they were
just compiled or loaded: LLVM then sees the same module both times.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, call-arg, assignment, misc"
# Numba is typed in parts only, and these parts not at all.
from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import compiler, config, registry
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from fairpost.compiled import interrupts
from fairpost.compiled.kept import Kept
from fairpost.compiled.libraries import HelperLibrary, InnerLibrary, Name, OuterLibrary


def made(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The kernel of a function; the function itself where NUMBA_DISABLE_JIT is set."""
    if config.DISABLE_JIT:
        return function
    if options.get("inline") == "always":  # in LLVM, which types and lowers the function once, not once a call
        options = {**options, "inline": "never", "forceinline": True}
    return Kernel(function, targetoptions={"nopython": True, "nogil": True, "boundscheck": None, **options})


class InnerPipeline(compiler.Compiler):
    """Types and LLVM code, without wrappers and machine code."""

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, returns: Any, flags: Any, names: Any) -> None:
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        super().__init__(typing, target, library, args, returns, flags, names)

    def compile_extra(self, function: Any) -> Any:
        """As Numba does, into a library of our own."""
        self.state.library = InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


class OuterPipeline(compiler.Compiler):
    """Machine code for Python alone: no wrapper for C."""

    def __init__(self, typing: Any, target: Any, library: Any, args: Any, returns: Any, flags: Any, names: Any) -> None:
        flags.no_cfunc_wrapper = True
        super().__init__(typing, target, library, args, returns, flags, names)

    def compile_extra(self, function: Any) -> Any:
        """As Numba does, into a library of our own."""
        self.state.library = OuterLibrary(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(function)


class Inner(CPUDispatcher):
    """What other kernels call."""

    def __init__(self, function: Any, targetoptions: Any) -> None:
        super().__init__(function, {}, targetoptions, pipeline_class=InnerPipeline)
        self._cache = Kept(function, "inner")

    def add_overload(self, cres: Any) -> None:
        """Callers find the code by a name of its own, since there is no address."""
        cres.library._ensure_finalized()
        if cres.entry_point is None:
            cres = cres._replace(entry_point=Name())
            self.targetctx.insert_user_function(cres.entry_point, cres.fndesc, [cres.library])
        self.overloads[tuple(cres.signature.args)] = cres


class Kernel(CPUDispatcher):
    """What Python calls."""

    def __init__(self, function: Any, locals: Any = None, targetoptions: Any = None, **_: Any) -> None:
        super().__init__(function, locals or {}, targetoptions, pipeline_class=OuterPipeline)
        self._cache = Kept(function, "outer")
        self._inner: Inner | None = None

    @property
    def inner(self) -> Inner:
        """The side that other kernels call."""
        if self._inner is None:
            self._inner = Inner(self.py_func, self.targetoptions)
        return self._inner

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """A call from another kernel."""
        return self.inner.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """The code that another kernel calls."""
        return self.inner.get_overload(sig)

    def add_overload(self, cres: Any) -> None:
        """Numba gives each function's environment its address when it makes machine code; inner parts have none."""
        for env in cres._find_referenced_environments():
            cres.codegen.set_env(env.env_name, env)
        super().add_overload(cres)

    def compile(self, sig: Any) -> Any:
        """Load or compile, whole: an interrupt waits for the next kernel, and nothing is collected meanwhile."""
        with interrupts.whole(), _lean():
            return super().compile(sig)


@contextmanager
def _lean() -> Iterator[None]:
    """Spare what a compile does for nothing: collecting garbage, and optimising by themselves the helpers
    that Numba compiles on the way (complex arithmetic).
    """
    codegen = registry.cpu_target.target_context.codegen()
    collecting, library = gc.isenabled(), codegen._library_class
    with global_compiler_lock:
        gc.disable()
        codegen._library_class = HelperLibrary
        try:
            yield
        finally:
            codegen._library_class = library
            if collecting:
                gc.enable()


# A fork waits until nobody compiles: a child has no thread that would ever release these locks.


def _hold() -> None:
    global_compiler_lock._lock.acquire()


def _release() -> None:
    global_compiler_lock._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
