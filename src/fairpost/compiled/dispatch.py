"""Every touch of Numba's inner parts, in one place (written for 0.60 to 0.68).

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
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core import compiler, config, registry, sigutils
from numba.core.caching import _Cache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

from fairpost.compiled import interrupts, store

SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "ENABLE_AVX", "USING_SVML")
"""Numba's settings that change machine code; they belong to the key of the cache."""


def made(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The kernel of a function; the function itself where NUMBA_DISABLE_JIT is set."""
    if config.DISABLE_JIT:
        return function
    if options.get("inline") == "always":  # in LLVM, which types and lowers the function once, not once a call
        options = {**options, "inline": "never", "forceinline": True}
    return Kernel(function, targetoptions={"nopython": True, "nogil": True, "boundscheck": None, **options})


class InnerLibrary(JITCodeLibrary):
    """LLVM code to link into others: nothing is optimised, there is no machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Link in what it calls."""
        self._raise_if_finalized()
        _link(self)
        self._finalize_dynamic_globals()
        for f in self._final_module.functions:
            if not f.is_declaration and f.linkage == llvm.Linkage.external:
                f.linkage = "linkonce_odr"
        self.take(self._final_module.as_bitcode())

    def take(self, bitcode: bytes) -> None:
        """The code as it comes back from bitcode."""
        self.bitcode = bitcode
        self._final_module = self._shared_module = llvm.parse_bitcode(bitcode)
        self._finalized = True


class HelperLibrary(InnerLibrary):
    """What Numba compiles on the way: an ordinary library where it wants an address, else as an inner one."""

    def get_pointer_to_function(self, name: str) -> Any:
        """Numba wants the address of its own jitted helpers."""
        assert not self._finalized
        self.__class__ = JITCodeLibrary
        return self.get_pointer_to_function(name)


class OuterLibrary(JITCodeLibrary):
    """One kernel with all that it calls, as machine code."""

    def finalize(self) -> None:
        """Link, make everything else private, optimise, generate the machine code."""
        interrupts.check()
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        self.own = {f.name for f in self._final_module.functions if not f.is_declaration}
        _link(self)
        for f in self._final_module.functions:
            if not f.is_declaration and f.name not in self.own:
                f.linkage = "internal"
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()


def _link(library: Any) -> None:
    for other in dict.fromkeys(library._linking_libraries):
        if hasattr(other, "_reload_init"):  # from Numba 0.61 on
            library._reload_init.update(other._reload_init)
        library._final_module.link_in(other._get_module_for_linking(), preserve=True)


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


class Name:
    """Stands for the address of inner code."""


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


class Kept(_Cache):
    """One kernel's part of the store, one side of it."""

    def __init__(self, function: Any, side: str) -> None:
        self.name, self.side = f"{function.__module__}.{function.__qualname__}", side

    @property
    def cache_path(self) -> str | None:
        """The folder, for Numba's statistics."""
        folder = store.folder(machine())
        return None if folder is None else str(folder)

    def _key(self, sig: Any, codegen: Any) -> str:
        args, returns = sigutils.normalize_signature(sig)
        return "\n".join([self.name, self.side, *map(_spelled, args), str(returns), str(codegen.magic_tuple())])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled side from the store, or None."""
        target_context.refresh()
        payload = store.load(machine(), f"{self.name}-{self.side}", self._key(sig, target_context.codegen()))
        if payload is None:
            interrupts.compiling(self.name)
            return None
        return (_outer if self.side == "outer" else _inner)(target_context, *payload)

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Into the store; code that holds addresses of this process is left out."""
        library = cres.library
        if cres.lifted or library._dynamic_globals:
            return
        cres.fndesc.typemap = cres.fndesc.calltypes = None  # neither needed nor picklable
        about = (cres.fndesc, cres.environment, cres.signature, cres.reload_init)
        if self.side == "inner":
            payload: tuple[Any, ...] = (library.bitcode, *about)
        else:
            payload = (
                library._get_compiled_object(),
                sorted(library.own),
                *about,
                cres._find_referenced_environments(),
            )
        store.save(machine(), f"{self.name}-{self.side}", self._key(sig, cres.codegen), dumps(payload))

    def enable(self) -> None:
        """It always is."""

    def disable(self) -> None:
        """It cannot be."""

    def flush(self) -> None:
        """Nothing is held back."""


def _spelled(type_: Any) -> str:
    """A type in full: an array's name leaves nothing out, literal values keep theirs."""
    return f"{type_!r} {type_.key!r}"


def _inner(context: Any, bitcode: bytes, fndesc: Any, env: Any, signature: Any, reload_init: Any) -> Any:
    library = InnerLibrary(context.codegen(), fndesc.qualname)
    library.take(bitcode)
    return _result(context, library, Name(), fndesc, env, signature, reload_init, ())


def _outer(
    context: Any, code: bytes, own: Any, fndesc: Any, env: Any, signature: Any, reload_init: Any, envs: Any
) -> Any:
    for again in reload_init:
        again()
    library = OuterLibrary(context.codegen(), fndesc.qualname)
    library.enable_object_caching()
    library._set_compiled_object(code)
    library._finalize_final_module()
    library._codegen._engine._defined_symbols.update(own)
    entry = context.get_executable(library, fndesc, env)
    for other in envs:
        library.codegen.set_env(other.env_name, other)
    return _result(context, library, entry, fndesc, env, signature, reload_init, envs)


def _result(
    context: Any, library: Any, entry: Any, fndesc: Any, env: Any, signature: Any, reload_init: Any, envs: Any
) -> Any:
    return compiler.CompileResult(
        typing_context=context.typing_context, target_context=context, entry_point=entry, typing_error=None,
        type_annotation="", signature=signature, objectmode=False, lifted=(), fndesc=fndesc, library=library,
        call_helper=None, environment=env, metadata=None, reload_init=reload_init, referenced_envs=envs,
    )  # fmt: skip


def machine() -> str:
    """What machine code depends on besides the sources of the kernels."""
    return _MACHINE


def _described() -> str:
    import llvmlite
    import numpy as np

    parts = [numba.__version__, llvmlite.__version__, np.__version__, sys.version, sys.implementation.cache_tag]
    parts += [f"{name}={getattr(config, name, None)}" for name in SETTINGS]
    parts += [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    return "\n".join(map(str, parts))


_MACHINE = _described()


# A fork waits until nobody compiles: a child has no thread that would ever release these locks.


def _hold() -> None:
    global_compiler_lock._lock.acquire()


def _release() -> None:
    global_compiler_lock._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
