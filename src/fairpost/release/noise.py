"""Noise that may be published: OpenDP's discrete Laplace and discrete Gaussian, and nothing of our own.

OpenDP samples exactly, in rational arithmetic, from the operating system's entropy (Canonne, Kamath, Steinke 2020). It
takes a float scale as the ratio that the float is, so a scale that was rounded up keeps its promise. At least 0.16:
versions before 0.14.2 (March 2026) drew from a wrong law (OpenDP issue 2638: a division of ratios in the library dashu).

Noise is drawn for zeros and then added to the counts here, because OpenDP's sum saturates at 64 bits without a word:
the noise must stay far inside, the counts are below 2^53, and so the sum is the true sum. The draws of a large table
are shared by processes; no true count goes to them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairpost.errors import FairpostError, ParameterError, UnsupportedError
from fairpost.release.amounts import decimal_of, gaussian_sigma, laplace_scale
from fairpost.release.guard import harden

Whole = NDArray[np.int64]
LAPLACE, GAUSSIAN = MECHANISMS = ("discrete-laplace", "discrete-gaussian")
LARGEST = 2.0**40
"""The largest scale: noise beyond 2^52 then has a chance below e^-4000."""
EDGE = 2**52
"""Noise and counts stay below this, so that sums are exact in 64 bits and in floats."""
ALONE = 150_000
"""Up to this many draws one process is as fast as several."""
BLOCK = 250_000
"""Draws of one call: bounds the memory of the lists that OpenDP takes and gives."""


@dataclass(frozen=True)
class Law:
    """A law of noise: the mechanism and its parameter, the float that the sampler gets."""

    mechanism: str
    scale: float
    """b of the discrete Laplace, sigma of the discrete Gaussian."""

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise ParameterError(f"`mechanism` must be one of {', '.join(MECHANISMS)}, got {self.mechanism!r}")
        if not 0 < self.scale <= LARGEST:
            raise ParameterError(f"the scale of the noise must be above 0 and at most 2^40, got {self.scale:g}")

    @classmethod
    def keeping(cls, mechanism: str, loss: Fraction, sensitivity: Fraction) -> Law:
        """The noise that keeps an epsilon (Laplace; the sensitivity is L1) or a rho (Gaussian; L2 squared)."""
        scale = laplace_scale if mechanism == LAPLACE else gaussian_sigma
        return cls(mechanism, scale(loss, sensitivity))

    @property
    def parameter(self) -> str:
        """What an audit calls the scale: the option, and the argument."""
        return "scale" if self.mechanism == LAPLACE else "sigma"

    @property
    def norm(self) -> str:
        """How its sensitivity is measured."""
        return "L1" if self.mechanism == LAPLACE else "L2 squared"

    @property
    def text(self) -> str:
        """The scale as the exact decimal that it is."""
        return decimal_of(self.scale)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise (of the Gaussian: sigma, which its own never exceeds)."""
        if self.mechanism == GAUSSIAN:
            return self.scale
        return float(1 / (np.sqrt(2.0) * np.sinh(0.5 / self.scale))) if self.scale > 1e-3 else 0.0

    @property
    def chance_of_zero(self) -> float:
        """P(noise = 0): tanh(1/(2b)) of the Laplace, 1 over the sum of e^{-k^2/(2 sigma^2)} of the Gaussian."""
        if self.mechanism == LAPLACE:
            return float(np.tanh(0.5 / self.scale))
        if self.scale > 10:
            return float(1 / (np.sqrt(2 * np.pi) * self.scale))
        k = np.arange(1, 200) / self.scale
        return float(1 / (1 + 2 * np.sum(np.exp(-k * k / 2))))


WEAK = 0.5
"""A chance of noise 0 above which most counts come out true."""
REACH = 60.0
"""Noise beyond so many scales has a chance of some e^-60."""


def demand_noise(law: Law, rows: int, what: str, *, accept_weak: bool) -> None:
    """The noise hides counts, unless the contrary is accepted, and stays in the range in which sums are exact."""
    if rows * REACH * law.scale >= EDGE:
        raise ParameterError(
            f"the noise of {what} must stay below 2^52 over all {rows:,} rows together, and scale {law.scale:g} would not"
        )
    if law.chance_of_zero > WEAK and not accept_weak:
        raise ParameterError(
            f"the noise of {what} is 0 with probability {law.chance_of_zero:.3g}, so most counts would come out true: spend less, "
            "or say --accept-weak-protection, and the statement says so"
        )


Sampler = Callable[[Law, int], Whole]
"""N draws from a law. The protocol uses `sample`; tests put another one in its place."""


def opendp_version() -> str:
    """The version of OpenDP, which must be there and be recent enough."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("opendp")
    except PackageNotFoundError:
        raise UnsupportedError(
            "a release draws its noise with OpenDP: install fairpost[release]; it is not here"
        ) from None
    if tuple(int(p) for p in found.split(".")[:2]) < (0, 16):
        raise UnsupportedError(
            f"a release needs OpenDP 0.16 or later (earlier ones drew from a wrong law), got {found}"
        )
    return found


def in_process(law: Law, n: int) -> Whole:
    """N draws in this process."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law.mechanism == LAPLACE:
        draw = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=law.scale)
    else:
        draw = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=law.scale)
    out = np.empty(n, dtype=np.int64)
    for low in range(0, n, BLOCK):
        size = min(BLOCK, n - low)
        out[low : low + size] = draw([0] * size)
    return out


def sample(law: Law, n: int) -> Whole:
    """N draws, by as many processes as there are cores where that is faster."""
    return sample_all([(law, n)])[0]


def sample_all(wanted: Sequence[tuple[Law, int]]) -> list[Whole]:
    """Draws of several laws: in this process where they are few, else each law's shared by worker processes."""
    opendp_version()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(cores, 8)
    if sum(n for _, n in wanted) <= ALONE or workers == 1:
        return [in_process(law, n) for law, n in wanted]
    out = [np.empty(n, dtype=np.int64) for _, n in wanted]
    shares = [[(law, slice(k * n // workers, (k + 1) * n // workers)) for law, n in wanted] for k in range(workers)]
    with ThreadPoolExecutor(workers) as pool:  # one reader a worker, or a full pipe would hold it up
        for done in [pool.submit(_work, share, out) for share in shares]:
            done.result()
    return out


def _work(share: Sequence[tuple[Law, slice]], out: Sequence[Whole]) -> None:
    """One worker process: it sends its numbers through a pipe; nothing touches the disk. It gets laws and numbers, and no count."""
    laws = [[law.mechanism, law.scale.hex(), some.stop - some.start] for law, some in share]
    task = json.dumps({"path": sys.path, "laws": laws})
    program = "import json, sys; task = json.loads(sys.argv[1]); sys.path[:] = task['path']; "
    program += "from fairpost.release.noise import draw; draw(task['laws'])"
    command, null = [sys.executable, "-P", "-c", program, task], subprocess.DEVNULL
    # its own process group: an interrupt at the terminal is for the parent to answer
    with subprocess.Popen(command, stdin=null, stdout=subprocess.PIPE, stderr=null, process_group=0) as worker:
        assert worker.stdout is not None
        try:
            for (_, some), numbers in zip(share, out, strict=True):
                _fill(worker.stdout, memoryview(numbers[some]).cast("B"))  # type: ignore[arg-type]
            if worker.stdout.read(1) or worker.wait() != 0:
                raise FairpostError("a process that draws noise must end well, and did not")
        except BaseException:
            worker.kill()
            raise


def draw(laws: Sequence[tuple[str, str, int]]) -> None:
    """What a worker process does, which leaves no core file: draw, and send the numbers to its standard output."""
    harden()
    for mechanism, scale, n in laws:
        law = Law(mechanism, float.fromhex(scale))
        for low in range(0, n, BLOCK):
            sys.stdout.buffer.write(in_process(law, min(BLOCK, n - low)).tobytes())
    sys.stdout.buffer.flush()


def _fill(stream: Any, view: memoryview) -> None:
    at = 0
    while at < len(view):
        got = stream.readinto(view[at : at + 2**20])
        if not got:
            raise FairpostError("a process that draws noise must send all of it, got less")
        at += got


def add_noise(x: Whole, law: Law, sampler: Sampler = sample) -> Whole:
    """x + noise, exactly; the noise is overwritten afterwards."""
    noise = np.array(sampler(law, x.size), dtype=np.int64)
    if noise.shape != x.shape:
        raise FairpostError("the sampler must give one number for each count, and gave another number of them")
    if noise.size and (int(noise.max()) >= EDGE or int(noise.min()) <= -EDGE):
        raise FairpostError("the noise must stay below 2^52, or a sum could saturate; it did not")
    noisy = x + noise
    noise[:] = 0
    return np.asarray(noisy)


def check_counts(values: Sequence[NDArray[Any]]) -> None:
    """Counts must be below 2^52, where sums with noise are exact. No value is named."""
    for x in values:
        far = np.flatnonzero(np.abs(x) >= EDGE)
        if far.size:
            raise ParameterError(f"every count must be below 2^52, and the one in row {int(far[0]) + 1} is not")
