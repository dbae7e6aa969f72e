"""A kernel's machine code on its way into the store and back."""

# mypy: disable-error-code="no-untyped-call, attr-defined, call-arg, assignment, misc"
# Numba is typed in parts only, and these parts not at all.
from __future__ import annotations

import sys
from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core import compiler, config, sigutils
from numba.core.caching import _Cache
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from fairpost.compiled import interrupts, store
from fairpost.compiled.libraries import InnerLibrary, Name, OuterLibrary

SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "ENABLE_AVX", "USING_SVML")
"""Numba's settings that change machine code; they belong to the key of the cache."""


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
        """The compiled side from the store, or None.

        Machine code needs Numba's runtime and nothing else. Numba itself would first load all that a compiler needs, which
        takes a third of a second; a compile does that when there is one.
        """
        rtsys.initialize(target_context)
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
                [
                    (env.globals["__name__"], list(env.consts), env.env_name)
                    for env in cres._find_referenced_environments()
                ],
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
    others = [_environment(*other) for other in envs]
    for other in others:
        library.codegen.set_env(other.env_name, other)
    return _result(context, library, entry, fndesc, env, signature, reload_init, others)


def _environment(module: str, consts: list[Any], name: str) -> Any:
    """The constants of a function that was compiled into a kernel.

    Numba would import the function's module for its globals, which compiled code never looks at: for a sum or a power that is
    a part of Numba which imports SciPy's linear algebra.
    """
    found = lookup_environment(name)
    if found is None:
        loaded = sys.modules.get(module)
        found = Environment({"__name__": module} if loaded is None else loaded.__dict__)
        found.consts[:] = consts
        found.env_name = name
        Environment._memo[name] = found
    return found


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
