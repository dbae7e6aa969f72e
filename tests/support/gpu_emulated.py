"""The CUDA source on the processor: compiled by the C++ compiler at hand, one thread a team, kernel by kernel.

A team of one has nothing to shuffle and nothing to wait for, so the same lines run here; what is left to a real GPU is that its
teams of many add up the same numbers.
"""

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

_ONE_AT_A_TIME = threading.Lock()
COMPILER = shutil.which("g++") or shutil.which("clang++")
SHIM = """
#include <cmath>
#include <cstring>
#define WARP 1
#define EMULATED 1
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define ROOM(name) double* name = shared_room
struct Dim3 { unsigned x = 1, y = 1, z = 1; };
static Dim3 threadIdx, blockIdx, blockDim, gridDim;
static double shared_room[1 << 16];
inline void __syncthreads() {}
inline int __double2int_rd(double x) { return (int)std::floor(x); }
template <class V> inline V __shfl_xor_sync(unsigned, V v, int) { return v; }
inline double __longlong_as_double(long long b) { double x; std::memcpy(&x, &b, 8); return x; }
inline long long __double_as_longlong(double x) { long long b; std::memcpy(&b, &x, 8); return b; }
using std::fma; using std::fabs; using std::ceil; using std::floor; using std::sqrt; using std::copysign;
"""
HEAD = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^{]*?)\)\s*\{', re.S)


def _wrappers(source: str) -> str:
    out = []
    for name, params in HEAD.findall(source):
        names = ", ".join(re.findall(r"(\w+)\s*(?:,|$)", params))
        out.append(
            f'extern "C" void run_{name}(unsigned gx, unsigned gy, unsigned bx, {params}) {{'
            " gridDim.x = gx; gridDim.y = gy; blockDim.x = bx;"
            " for (unsigned j_ = 0; j_ < gy; j_++) for (unsigned i_ = 0; i_ < gx; i_++) for (unsigned t_ = 0; t_ < bx; t_++) {"
            f" blockIdx.x = i_; blockIdx.y = j_; threadIdx.x = t_; {name}({names}); }} }}"
        )
    return "\n".join(out)


@functools.cache
def _library(macros: tuple[str, ...], sources: tuple[Path, ...]) -> ctypes.CDLL:
    text = "\n".join(path.read_text() for path in sources)
    defines = [f"-D{macro}" for macro in macros]
    folder = Path(tempfile.mkdtemp(prefix="fairpost-gpu-"))
    (folder / "k.cpp").write_text(text)
    expand = [COMPILER, "-E", "-P", *defines, "-DEMULATED=1", "-DWARP=1", "k.cpp"]
    expanded = subprocess.run(expand, cwd=folder, check=True, capture_output=True, text=True, timeout=100).stdout
    (folder / "k.cpp").write_text(SHIM + text + _wrappers(expanded))
    command = [
        COMPILER, "-O1", "-std=c++17", "-ffp-contract=off", "-shared", "-fPIC", "-w", *defines, "k.cpp", "-o", "k.so",
    ]  # fmt: skip
    made = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=250)
    assert made.returncode == 0, made.stderr[:2000]
    library = ctypes.CDLL(str(folder / "k.so"))
    shutil.rmtree(folder)
    return library


def _argument(value):
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    kinds = {"i4": ctypes.c_int32, "i8": ctypes.c_int64, "u8": ctypes.c_uint64, "f8": ctypes.c_double}
    return kinds[value.dtype.str[1:]](value.item())


class Emulated:
    """A `Device` that is the processor."""

    name = "emulated"

    def __init__(self, free: int = 2**34) -> None:
        if COMPILER is None:
            pytest.skip("no C++ compiler to run the CUDA source on the processor")
        self.memory, self.launched = free, []

    def free(self) -> int:
        return self.memory

    def put(self, array, *, wait=True):
        return np.array(array, order="C")

    def room(self, shape, dtype=np.float64, *, zero=False):
        out = np.zeros(shape, dtype)
        if not zero:
            out.view(np.uint8).reshape(-1)[:] = 0xAB  # nothing that a kernel may rely on
        return out

    def get(self, array):
        return array.copy()

    def address(self, array):
        return array.ctypes.data

    def launch(self, one):
        kernel, grid, block, args, room, together = one
        self.launched.append((kernel.name, grid))
        with _ONE_AT_A_TIME:
            call = getattr(_library(kernel.macros, kernel.sources), f"run_{kernel.name}")
        assert room <= 8 << 16
        numbers = (*grid, 1 if together else block)
        with _ONE_AT_A_TIME:  # blockIdx and its like are one set of globals
            call(*(ctypes.c_uint32(k) for k in numbers), *(_argument(a) for a in args))

    def launch_all(self, launches):
        for one in reversed(launches):  # in any order
            self.launch(one)

    def wait(self):
        pass
