"""The GPU as four verbs: put an array there, make room, launch a kernel, take an array back; and what runs a job on it.

This is the only module that imports CuPy, and only when a GPU is asked for. The kernels are CUDA C++ in the folders `cuda`,
compiled for the device at hand by NVRTC when first used (CuPy keeps the result on disk). Who wants to run them elsewhere gives
another class with the methods of `Device`: the tests compile the same source for the processor, one thread a team.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import UnsupportedError

HERE = Path(__file__).parent / "cuda"
PINNED = 2**16
"""Bytes from which on a copy goes to pinned memory, which is faster."""
BESIDE = 6
"""Streams for launches side by side."""
NULL = np.uint64(0)
"""The pointer to nothing, as an argument of a kernel."""
OPTIONS = ("--std=c++17", "--fmad=false")
"""Nothing is fused but where the source says so: the bits of the noise are those of the processor."""


class Kernel:
    """A kernel by its name, of some sources compiled with some macros (KIND=0: for Laplace noise)."""

    def __init__(self, name: str, macros: tuple[str, ...], sources: tuple[Path, ...]) -> None:
        self.name, self.macros, self.sources = name, macros, sources

    @property
    def text(self) -> str:
        """The sources, one after the other."""
        return "\n".join(path.read_text(encoding="utf-8") for path in self.sources)


class Launch(NamedTuple):
    """Grid x block threads of a kernel."""

    kernel: Kernel
    grid: tuple[int, int]
    block: int
    args: tuple[Any, ...]
    room: int = 0
    """Bytes that the threads of a block share."""
    together: bool = False
    """Whether these add up together."""


class Device:
    """A CUDA device by CuPy; every thread of this process works in a stream of its own."""

    def __init__(self, cupy: Any) -> None:
        self.cupy, self.cupyx = cupy, import_module("cupyx")
        self._mine, self._lock = threading.local(), threading.Lock()
        self._modules: dict[tuple[tuple[str, ...], tuple[Path, ...]], Any] = {}
        self._functions: dict[tuple[str, tuple[str, ...], tuple[Path, ...]], Any] = {}
        self.name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    @property
    def stream(self) -> Any:
        """The stream of this thread."""
        if not hasattr(self._mine, "stream"):
            self._mine.stream = self.cupy.cuda.Stream(non_blocking=True)
        return self._mine.stream

    def free(self) -> int:
        """Bytes of memory that can still be had: what the driver has left, and what CuPy holds unused."""
        return int(self.cupy.cuda.runtime.memGetInfo()[0]) + int(self.cupy.get_default_memory_pool().free_bytes())

    def put(self, array: NDArray[Any], *, wait: bool = True) -> Any:
        """A copy of an array, there; without `wait` for this thread's own kernels alone. Who waits may hand it to every stream."""
        with self.stream, _clear(self):
            out = self.cupy.asarray(array)
            if wait:
                self.stream.synchronize()
        return out

    def room(self, shape: tuple[int, ...], dtype: Any = np.float64, *, zero: bool = False) -> Any:
        """An array there, with zeros or with anything."""
        with self.stream, _clear(self):
            return (self.cupy.zeros if zero else self.cupy.empty)(shape, dtype)

    def get(self, array: Any) -> NDArray[Any]:
        """A copy of an array, here. Waits for what was launched before."""
        with self.stream:
            if array.nbytes < PINNED:
                return np.asarray(array.get())
            out: NDArray[Any] = self.cupyx.empty_pinned(array.shape, array.dtype)
            array.get(out=out)
            return out

    def address(self, array: Any) -> int:
        """Where an array is, for a structure that holds a pointer to it."""
        return int(array.data.ptr)

    def launch(self, one: Launch) -> None:
        """Grid x block threads of a kernel, after all that was launched before."""
        with self.stream:
            self._started(one)

    def launch_all(self, launches: list[Launch]) -> None:
        """Launches that do not need each other, side by side: no one waits for the last threads of another.

        They are in some streams beside this thread's own, which goes on when all are done.
        """
        if not hasattr(self._mine, "beside"):
            self._mine.beside = [self.cupy.cuda.Stream(non_blocking=True) for _ in range(BESIDE)]
        beside, begun = self._mine.beside[: len(launches)], self.stream.record()
        for stream in beside:
            stream.wait_event(begun)
        for k, one in enumerate(launches):
            with beside[k % len(beside)]:
                self._started(one)
        for stream in beside:
            self.stream.wait_event(stream.record())

    def wait(self) -> None:
        """Until everything launched so far is done."""
        self.stream.synchronize()

    def _started(self, one: Launch) -> None:
        self._function(one.kernel)((*one.grid, 1), (one.block, 1, 1), one.args, shared_mem=one.room)

    def _function(self, kernel: Kernel) -> Any:
        key = (kernel.name, kernel.macros, kernel.sources)
        with self._lock:
            if key not in self._functions:
                module = self._modules.get(key[1:])
                if module is None:
                    options = (*OPTIONS, *(f"-D{macro}" for macro in kernel.macros))
                    module = self._modules[key[1:]] = self.cupy.RawModule(code=kernel.text, options=options)
                self._functions[key] = module.get_function(kernel.name)
            return self._functions[key]


class Runner:
    """A job on a device: kernels of some sources, compiled with some macros."""

    def __init__(self, device: Device, macros: tuple[str, ...], sources: tuple[Path, ...]) -> None:
        self.device, self.macros, self.sources = device, macros, sources

    def of(
        self, name: str, grid: tuple[int, int], block: int, args: tuple[Any, ...], room: int = 0, together: bool = False
    ) -> Launch:
        """A launch of a kernel by its name."""
        return Launch(Kernel(name, self.macros, self.sources), grid, block, args, room, together)

    def each(self, name: str, threads: int, args: tuple[Any, ...], rows: int = 1, block: int = 128) -> None:
        """At least so many threads of a kernel, for each of some rows."""
        self.device.launch(self.of(name, (ceil_div(threads, block), rows), block, args))


class _clear:
    """An allocation that fails as one line."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and issubclass(kind, self.device.cupy.cuda.memory.OutOfMemoryError):
            raise UnsupportedError(
                f"the GPU {self.device.name} has too little memory: {self.device.free() // 2**20} MiB are free"
            ) from None


@cache
def gpu() -> Device:
    """The GPU of this machine, or one line on why there is none."""
    try:
        cupy = import_module("cupy")
    except ImportError:
        raise UnsupportedError("a GPU needs CuPy: install fairpost[gpu]") from None
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:  # the driver is missing, too old or denies access; CuPy has an exception for each
        raise UnsupportedError(f"no GPU can be used: {_line(error)}") from None
    if count == 0:
        raise UnsupportedError("no GPU can be used: CUDA finds none")
    return Device(cupy)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def packed(device: Device, *fields: Any) -> Any:
    """A structure of ints (two of 4 bytes at a time), floats and addresses, there: what a kernel takes as one pointer."""
    kinds = [("i4" if isinstance(f, np.int32) else "f8" if isinstance(f, float) else "u8") for f in fields]
    record = np.array([tuple(fields)], dtype=[(f"f{k}", kind) for k, kind in enumerate(kinds)])
    return device.put(np.frombuffer(record.tobytes(), dtype=np.uint8).copy(), wait=False)


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)
