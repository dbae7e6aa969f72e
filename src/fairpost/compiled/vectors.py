"""How wide LLVM's vectors may be in a kernel."""

from typing import Any

from numba import types
from numba.extending import intrinsic, overload


def wide_vectors() -> None:
    """Let LLVM use 512-bit vectors in the calling kernel, where the processor has them.

    LLVM stops at 256 bits on most AVX-512 processors unless a function asks for more; these kernels run
    nearly twice as fast with it. It changes no result, and elsewhere it does nothing.
    """


def _ask_for_512(_typing: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        attributes = builder.function.attributes
        if isinstance(attributes, set):  # llvmlite's own `add` knows only attributes without a value
            set.add(attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


_compiled_ask: Any = intrinsic(_ask_for_512)


@overload(wide_vectors, inline="always")
def _wide_vectors() -> Any:
    def compiled() -> None:
        _compiled_ask()

    return compiled
