"""`simplex-threshold` under Gaussian noise with a total of a few thresholds: the law of H for each number that is kept.

Who is kept gets tau at the least, so that H(t) = k tau + Y where k are kept, Y >= 0 the sum of what they have above the cut, and H <= C asks
for k < C/tau. With F_j the chance of falling below the cut and g_j(s) = E[e^{sp}; p > 0] the terms of prod_j (F_j + z g_j(s)) in z^k, c_k(s),
are the transforms of Y where k are kept. `release` needs P(H > c) and integrals of it over c, hence with w = C - k tau

    N_r(w) = (1/2 pi i) int e^{-sw} c_k(s) s^{-r-1} ds = -(-1)^r E[(w - Y)_+^r; k]/r!        (w > 0, Re s < 0; 0 for w <= 0),

    P(H > C) - 1                      = sum_k N_0(w),
    int_0^tau P(H > C - v) - 1 dv     = sum_k N_1(w - tau) - N_1(w),
    int_0^tau v (P(H > C - v) - 1) dv = sum_k tau N_1(w - tau) - N_2(w - tau) + N_2(w).

All k together have jumps at every k tau, and their transform does not die out (`release` refuses that). One k by itself has w > 0, so that
the contour may bend to the right: c_k falls as s^-k where Y begins and as e^{s^2/2} beyond 45 degrees, and e^{-sw} falls to the right. On

    s(u) = A (-1 + i sinh u + B (cosh u - 1)),   B = tan 22.5 degrees,   A = LIFT/C,

which leaves at 67.5 degrees, everything falls doubly exponentially in u, however small w is. The strip in which u may move is 22.5 degrees
wide on either side: equal steps h are off by e^{-2 pi 0.39/h}; s = 0 is farther away. e^{-sw} is at most e^LIFT on the contour, which is what
rounding is scaled by. Where t is so low that H > C is all but sure, e^{s (Y - w)} would grow on the way to the right; with the saddle point
of H, which is then below -LIFT/C, in the place of -A the bell dies out before.

The sums over k are sums over L points of a circle |z| = rho, sum_k c_k h(k) = sum_l prod_j (F_j + z_l g_j) sum_k h(k) z_l^-k / L, exact but
for the terms from k + L on. With lambda the expected number that is kept and m the largest k, rho = q min(1, m/lambda): at q = 1 the terms in
z^m are the largest, and rounding is that of the result; q^m = 1/LOSS makes it LOSS times as much and leaves few points, as many as Poisson's
bound asks for (`lattice.period.most`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairpost import cancel
from fairpost.engines.closed.quadrature import on_panels
from fairpost.engines.closed.shares import range_error, refusal
from fairpost.engines.exact.lattice.period import Circle, most, whole
from fairpost.engines.exact.sums.contours import Values
from fairpost.engines.exact.sums.factors import Complexes
from fairpost.engines.exact.sums.population import Entities, Places
from fairpost.engines.exact.sums.window import Family, Window, find_window
from fairpost.engines.exact.threshold.release import gathered, panels
from fairpost.engines.exact.threshold.settled import EPS, Found, biases, moments
from fairpost.engines.moments import Counted, Floats, Moments
from fairpost.errors import ToleranceError
from fairpost.noise import Law
from fairpost.noise.base import GAUSSIAN
from fairpost.parallel import over_slices

LIFT, LOSS = 4.0, 300.0
BEND = math.tan(math.pi / 8)
KEPT = 40
"""The most that may be kept."""
QUIET = 36.0
"""A contour ends where e^{-sw} is e^-QUIET."""
WORK = (1.1e7, 2.7e7, 6e7, 6e7)
"""The most (t, s, count, point) at each level, some 30 ns each; most answers come from the second."""
GAIN = 1e3
"""What a further level gains at the least."""
NONE = 1e-12
"""A w below this part of C is 0: k >= 2 have P(Y <= w) like w^2 at most."""
BLOCK = 300_000


@dataclass(frozen=True)
class Level:
    """One refinement: nodes on a panel of t, the step along a contour, Chebyshev nodes for a cell of counts, what the circle leaves out."""

    order: int
    step: float
    nodes: int
    left: float


LEVELS = (Level(10, 0.16, 14, 26.0), Level(14, 0.11, 18, 31.0), Level(20, 0.08, 22, 36.0), Level(28, 0.06, 26, 38.0))


def release(x: Floats, times: Counted, noise: Law, total: float, tau: float, rtol: float) -> Moments:
    """Moments for the distinct counts x, each `times` often, in counts; Gaussian noise, a total above tau > 0."""
    b, many, name = noise.spread, times.astype(np.float64), "simplex-threshold"
    if noise.code != GAUSSIAN or not total <= KEPT * tau:
        raise ToleranceError(f"{name}: more may be kept than can be counted")
    n, level = float(np.sum(many)), tau / b
    drift = math.fsum([total, *(-x * times).tolist()]) / b / n

    def places(t: Floats) -> Places:
        return Places(t, np.full(t.size, level), None)

    family = Family(noise.scaled(1.0), x / b - level, many, (drift + level) * n, places)
    win = find_window(family)
    before: Found | None = None
    for at, (rule, most_work) in enumerate(zip(LEVELS, WORK, strict=True)):
        now = _level(family, win, total / b, level, rule, most_work)
        if before is not None:
            found = moments(now, before, x, many, (b, drift, tau), rtol)
            if found is not None:
                return found
            bias, error = biases(now, before, many, drift)
            alpha, slack = range_error(bias, error)
            if slack > rtol * alpha * GAIN ** (len(LEVELS) - 1 - at):
                break
        before = now
    raise refusal(name, bias * b, error * b, rtol)


def _level(family: Family, win: Window, total: float, tau: float, level: Level, most_work: float) -> Found:
    e = family.entities(win.low, win.high, level.nodes)
    if e.giants > 0:
        raise ToleranceError("simplex-threshold: counts that are never cut are not counted")
    edges = panels(win, e)
    t, weight = on_panels(edges, level.order)
    law = _Kept.of(family.noise, e, t, np.maximum(-win.tilts(t)[0], LIFT / total), total, tau, level)
    if law.work > most_work:
        raise ToleranceError(
            f"simplex-threshold: few entities share the shift, and {law.work:.2g} values or more would take too long"
        )
    values, size = law.values(win.centre)
    found = gathered(family, win, e, t, weight, edges, values, tau)
    c = t[:, None] - family.y
    unit = family.noise
    lost = 16 * EPS * (weight @ ((unit.cdf(c) + (1 + tau) * unit.density(c)) * size[:, None]))
    # below the first t, without a count that lies far above the others, H_{-i} <= C need not be rare; it rises with t
    left = np.abs(values.without[0][0]) if e.reduced is None else np.max(np.abs(values.without[0][0]))
    lost += left * (-unit.lower(c[0], 0.0, 1) + (1 + 2 * tau) * unit.cdf(c[0]))
    return Found(found.deficit, found.zero, found.mse, lost, found.root)


@dataclass(frozen=True)
class _Kept:
    """The rule at all t: nodes s and their weights (rows: t), the circle, and its rho at every t."""

    noise: Law
    e: Entities
    t: Floats
    tau: float
    w: Floats
    """C - k tau > 0 for k = 0, 1, ..."""
    s: Complexes
    ds: Complexes
    circle: Circle
    rho: Floats

    @classmethod
    def of(cls, noise: Law, e: Entities, t: Floats, scale: Floats, total: float, tau: float, level: Level) -> _Kept:
        """`scale` is A."""
        w = total - tau * np.arange(math.ceil(total / tau) + 1.0)
        w = w[w > NONE * total]
        end = math.acosh(1 + QUIET / (float(np.min(scale)) * BEND * float(w[-1])))
        u = level.step * np.arange(math.ceil(end / level.step) + 1.0)
        s = np.multiply.outer(scale, -1 + 1j * np.sinh(u) + BEND * (np.cosh(u) - 1))
        ds = np.multiply.outer(scale, 1j * np.cosh(u) + BEND * np.sinh(u)) * (level.step / math.pi)
        ds[:, 0] *= 0.5
        above = noise.sf(t[:, None] - e.y)
        last = w.size - 1
        rho = LOSS ** (-1 / last) * np.minimum(1.0, last / np.maximum(above @ e.weight, 1e-300))
        share = rho[:, None] * above / (1 - above + rho[:, None] * above)
        mean, spread = (np.maximum(v @ e.weight, 0.0) for v in (share, share * (1 - share)))
        points = float(np.max(most(mean, spread, np.full(t.size, level.left))))
        points = min(math.ceil(points), math.ceil(float(np.sum(e.weight)) - 1e-6))
        circle = Circle.around(np.zeros(1), np.array([max(points, last)]))
        return cls(noise, e, t, tau, w, s, ds, circle, rho)

    @property
    def work(self) -> int:
        """How many values make it up."""
        return self.s.size * self.e.y.size * self.circle.size

    def values(self, centre: float) -> tuple[Values, Floats]:
        """What `gathered` sums up, and how large the terms are that make up a chance."""
        e, t = self.e, self.t
        rows = max(1, BLOCK // (self.s.shape[1] * e.y.size * self.circle.size))
        blocks = [slice(a, min(a + rows, t.size)) for a in range(0, t.size, rows)]
        without = [np.empty((t.size, e.y.size)) for _ in range(3)]
        own, chance, size = np.empty((t.size, e.y.size)), np.empty((t.size, 1)), np.empty(t.size)

        def some(which: slice) -> None:
            for at in range(which.start, which.stop):
                cancel.check()
                b = blocks[at]
                self._block(b, [v[b] for v in without], own[b], chance[b], size[b])

        over_slices(some, len(blocks), None if len(blocks) > 1 else 1)
        late = t > centre
        c = t[late][:, None] - e.y
        for value, all_of_it in zip(without, (1.0, self.tau, self.tau**2 / 2), strict=True):
            value[late] += all_of_it
        own[late] += self.noise.upper(c, 0.0, 1) - e.y * self.noise.upper(c, 0.0, 0)
        chance[late] += 1.0
        return Values(without, [own, chance, np.zeros((t.size, 1))], self.s.size), size

    def _kernels(self, b: slice) -> list[Complexes]:
        """sum_k h(k) z_l^-k / L ds for the three sums over k: axes t, s, point."""
        s, w, tau = self.s[b][:, :, None], self.w, self.tau
        here = np.exp(-s * w)
        late = np.zeros_like(here)
        late[..., :-1] = here[..., 1:]  # w - tau is the next w
        forms = (here / s, (late - here) / s**2, tau * late / s**2 - (late - here) / s**3)
        back = np.exp(-np.multiply.outer(np.log(self.rho[b]), self.circle.k[: w.size]))
        out = []
        for h in forms:
            full = np.zeros((*s.shape[:2], self.circle.size), dtype=np.complex128)  # 0 beyond the last k
            full[:, :, : w.size] = h * self.ds[b][:, :, None] * back[:, None, :]
            out.append(self.circle.weights(full))
        return out

    def _block(self, b: slice, without: list[Floats], own: Floats, chance: Floats, size: Floats) -> None:
        e = self.e
        c = (self.t[b][:, None] - e.y)[:, None, :]
        kept, first = above_cut(c, self.s[b][:, :, None])
        z = np.multiply.outer(self.rho[b], self.circle.w)
        psi = self.noise.cdf(c)[..., None] + kept[..., None] * z[:, None, None, :]
        product = whole(psi, e.weight, np.zeros(psi.shape[:2]))
        one = 1 / psi
        for out, kernel in zip(without, forms := self._kernels(b), strict=True):
            out[:] = np.einsum("tsl,tsil->ti", kernel * product, one).imag
        q = forms[0] * product
        inside = np.einsum("tsl,tsil->tsi", q * z[:, None, :], one)
        own[:] = np.einsum("tsi,tsi->ti", inside, first - e.y * kept).imag
        chance[:, 0] = np.sum(q, axis=(1, 2)).imag
        size[:] = np.sum(np.abs(q), axis=(1, 2))


def above_cut(c: Floats, s: Complexes) -> tuple[Complexes, Complexes]:
    """E[e^{sp}; p > 0] and E[p e^{sp}; p > 0], p = eta - c, by Mills' ratio as in `sums.factors`; beyond 45 degrees neither grows."""
    from scipy.special import wofz

    q, edge = c - s, np.exp(-0.5 * c * c) / math.sqrt(2 * math.pi)
    turned = q.real < 0
    mills = math.sqrt(math.pi / 2) * edge * wofz(1j * np.where(turned, -q, q) / math.sqrt(2.0))
    kept = np.where(turned, np.exp(np.where(turned, 0.5 * s * s - s * c, 0.0)) - mills, mills)
    return kept, edge - q * kept
