"""The two sides of a kernel as LLVM libraries (`dispatch` says why there are two)."""

# mypy: disable-error-code="no-untyped-call, attr-defined, call-arg, assignment, misc"
# Numba is typed in parts only, and these parts not at all.
from __future__ import annotations

from typing import Any

from llvmlite import binding as llvm
from numba.core.codegen import JITCodeLibrary

from fairpost.compiled import interrupts


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


class Name:
    """Stands for the address of inner code."""
