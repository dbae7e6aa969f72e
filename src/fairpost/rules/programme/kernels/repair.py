"""Payments that invert two-sided geometric noise, as kinks on whole numbers. The derivations stand in `rules.programme.paying`.

Each kernel writes at most as many kinks as there is room for and returns how many there are.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WINDOW = 8.0
"""The hull of the Snell envelope is first looked for within so many b of a kink; wider where it reaches the edge."""


@kernel
def _g(first: int, end: int, at: Floats, value: Floats, slope: Floats, z: float) -> tuple[float, float]:
    """The law at z, and its slope there."""
    k = first - 1
    while k + 1 < end and z >= at[k + 1]:
        k += 1
    if k < first:
        return 0.0, 0.0
    return value[k] + slope[k] * (z - at[k]), slope[k]


@kernel
def _near(first: int, end: int, at: Floats, value: Floats, slope: Floats, z: float) -> tuple[float, float, float]:
    """The law at z, above it and below it."""
    here, _ = _g(first, end, at, value, slope, z)
    up, _ = _g(first, end, at, value, slope, z + 1.0)
    down, _ = _g(first, end, at, value, slope, z - 1.0)
    return here, up, down


@kernel
def _put(
    used: int, room: int, out_at: Floats, out_value: Floats, out_slope: Floats, z: float, v: float, s: float
) -> int:
    if used < room:
        out_at[used], out_value[used], out_slope[used] = z, v, s
    return used + 1


@kernel
def signed(
    start: Ints, at: Floats, value: Floats, slope: Floats, b: float, out_start: Ints, out_at: Floats, out_value: Floats,
    out_slope: Floats,
) -> int:  # fmt: skip
    """f = g - c D^2 g for z >= 1, (g(0) - q g(1)) / (1 - q) below."""
    q = math.exp(-1.0 / b)
    c = q / math.expm1(-1.0 / b) ** 2
    used, room = 0, out_at.size
    for i in range(start.size - 1):
        out_start[i] = used
        first, end = start[i], start[i + 1]
        g0, _ = _g(first, end, at, value, slope, 0.0)
        g1, _ = _g(first, end, at, value, slope, 1.0)
        low = (g0 - q * g1) / -math.expm1(-1.0 / b)
        if low != 0.0:
            used = _put(used, room, out_at, out_value, out_slope, -np.inf, low, 0.0)
        pos = 1.0
        for k in range(first, end):
            m = math.ceil(at[k])
            for z in (m - 1.0, m * 1.0):
                if z < pos:
                    continue
                if z > pos:
                    v, s = _g(first, end, at, value, slope, pos)
                    if v != 0.0 or s != 0.0 or low != 0.0 or k > first:
                        used = _put(used, room, out_at, out_value, out_slope, pos, v, s)
                here, up, down = _near(first, end, at, value, slope, z)
                used = _put(used, room, out_at, out_value, out_slope, z, here - c * ((up - here) - (here - down)), 0.0)
                pos = z + 1.0
        v, s = _g(first, end, at, value, slope, pos)
        used = _put(used, room, out_at, out_value, out_slope, pos, v, s)
    out_start[start.size - 1] = used
    return used


@kernel
def levelled(
    start: Ints, at: Floats, value: Floats, slope: Floats, b: float, out_start: Ints, out_at: Floats, out_value: Floats,
    out_slope: Floats,
) -> int:  # fmt: skip
    """Upwards from the threshold: g - c D^2 (g less its jump), what would be negative carried on with factor q."""
    q = math.exp(-1.0 / b)
    c = q / math.expm1(-1.0 / b) ** 2
    used, room = 0, out_at.size
    for i in range(start.size - 1):
        out_start[i] = used
        first, end = start[i], start[i + 1]
        low = math.ceil(at[first]) * 1.0
        jump, _ = _g(first, end, at, value, slope, low)
        carry, pos, z, silent = 0.0, low, low, True  # silent: nothing but zeros so far
        k, zero_run = first + 1, False
        while True:
            here, up, down = _near(first, end, at, value, slope, z)
            if z == low:
                down = jump  # the jump stays: g less the jump is 0 at the threshold and below
            f = here - c * ((up - here) - (here - down)) - carry
            carry = 0.0
            if f < 0.0:
                carry, f = -q * f, 0.0
                if carry < 1e-300:
                    carry = 0.0
            if z > pos:  # a stretch of the law itself, from pos to here
                v, t = _g(first, end, at, value, slope, pos)
                used = _put(used, room, out_at, out_value, out_slope, pos, v, t)
                silent, zero_run = silent and v == 0.0 and t == 0.0, False
            if f != 0.0 or (not silent and not zero_run):
                used = _put(used, room, out_at, out_value, out_slope, z, f, 0.0)
                silent = False
            zero_run = f == 0.0
            pos = z + 1.0
            if carry > 0.0:
                z = pos
                continue
            while k < end and math.ceil(at[k]) < pos:
                k += 1
            if k == end:
                break
            z = max(pos, math.ceil(at[k]) - 1.0)
        v, s = _g(first, end, at, value, slope, pos)
        used = _put(used, room, out_at, out_value, out_slope, pos, v, s)
    out_start[start.size - 1] = used
    return used


@kernel
def _contact(first: int, end: int, at: Floats, value: Floats, slope: Floats, b: float) -> float:
    """The whole z >= 0 with the largest q^z g(z): where the hull leaves the origin. Per piece the ends and b - v/s."""
    best, where = 0.0, -1.0
    low = max(math.ceil(at[first]) * 1.0, 0.0)
    for k in range(first, end):
        a = max(math.ceil(at[k]) * 1.0, 0.0)
        z = math.ceil(at[k + 1]) - 1.0 if k + 1 < end else np.inf
        if z < a:
            continue
        top = math.floor(at[k] - value[k] / slope[k] + b) * 1.0 if slope[k] > 0.0 else a
        for candidate in (a, z, top, top + 1.0):
            if a <= candidate <= z and candidate < np.inf:
                worth = math.exp(-(candidate - low) / b) * (value[k] + slope[k] * (candidate - at[k]))
                if worth > best:
                    best, where = worth, candidate
    return where


@kernel
def _rise(power: Floats, g1: float, g2: float, gap: int, ahead: int) -> float:
    """The slope from z1 to z2 = z1 + gap of q^{-z} g against q^{-2z}, times q^{-(z2 + ahead)}."""
    fall: float = power[gap]
    return (g2 - fall * g1) / (1.0 - fall * fall) / float(power[ahead])


@kernel
def _chords(
    lo: int, hi: int, first: int, end: int, at: Floats, value: Floats, slope: Floats, power: Floats, stack: Ints,
    heights: Floats,
) -> int:  # fmt: skip
    """The hull of the whole numbers from lo to hi: how many of `stack` are on it."""
    top = 0
    for z in range(lo, hi + 1):
        g, _ = _g(first, end, at, value, slope, z * 1.0)
        while top >= 2:
            low, m = stack[top - 2], stack[top - 1]
            back = _rise(power, heights[top - 2], heights[top - 1], m - low, z - m)
            if back > _rise(power, heights[top - 1], g, z - m, 0):
                break
            top -= 1
        stack[top], heights[top] = z, g
        top += 1
    return top


@kernel
def no_loss(
    start: Ints, at: Floats, value: Floats, slope: Floats, b: float, out_start: Ints, out_at: Floats, out_value: Floats,
    out_slope: Floats,
) -> int:  # fmt: skip
    """f = m - c D^2 m of the Snell envelope m: concave hull of q^{-z} g against q^{-2z}, with the origin."""
    q = math.exp(-1.0 / b)
    c = q / math.expm1(-1.0 / b) ** 2
    used, room = 0, out_at.size
    many = 1
    for i in range(start.size - 1):
        many = max(many, start[i + 1] - start[i])
    left, right = np.empty(4 * many, dtype=np.int64), np.empty(4 * many, dtype=np.int64)
    special = np.empty(16 * many + 2)
    stack, heights, power = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
    for i in range(start.size - 1):
        out_start[i] = used
        first, end = start[i], start[i + 1]
        z0 = _contact(first, end, at, value, slope, b)
        if z0 < 0.0:  # nothing is ever paid
            used = _put(used, room, out_at, out_value, out_slope, at[first], 0.0, 0.0)
            continue
        width = int(WINDOW * b) + 4
        while True:  # chords: where m > g, between two points of contact
            found, wide, k = 0, True, first
            while k < end:
                m = math.ceil(at[k])
                bent = False
                for z in (m - 1, m):
                    if z > z0:
                        here, up, down = _near(first, end, at, value, slope, z * 1.0)
                        bent = bent or here < c * ((up - here) - (here - down))
                if not bent:
                    k += 1
                    continue
                lo, hi = max(int(z0), m - 1 - width), m + width
                k += 1
                while k < end and math.ceil(at[k]) - 1 - width <= hi:
                    hi = math.ceil(at[k]) + width
                    k += 1
                size = hi - lo + 1
                if stack.size < size:
                    stack, heights = np.empty(2 * size, dtype=np.int64), np.empty(2 * size)
                    power = np.exp(-np.arange(2 * size + 2) / b)
                top = _chords(lo, hi, first, end, at, value, slope, power, stack, heights)
                for j in range(top - 1):
                    if stack[j + 1] - stack[j] > 1:
                        left[found], right[found] = stack[j], stack[j + 1]
                        found += 1
                        if (j == 0 and lo > z0) or j == top - 2:
                            wide = False
            if wide:
                break
            width *= 2
        some = 1
        special[0] = z0
        for j in range(found):
            special[some], special[some + 1] = left[j], right[j]
            some += 2
        for k in range(first, end):
            m = math.ceil(at[k])
            for z in (m - 1.0, m * 1.0):
                inside = z < z0
                for j in range(found):
                    inside = inside or left[j] < z < right[j]
                if not inside:
                    special[some] = z
                    some += 1
        pos = z0
        for z in np.sort(special[:some]):
            if z < pos:
                continue
            if z > pos:
                v, s = _g(first, end, at, value, slope, pos)
                used = _put(used, room, out_at, out_value, out_slope, pos, v, s)
            here, up, down = _near(first, end, at, value, slope, z)
            if z == z0:
                down = q * here
            ahead = -1
            for j in range(found):
                gap = (right[j] - left[j]) * 1.0
                flat = -math.expm1(-2.0 * gap / b)
                near, far = math.exp(-1.0 / b), math.exp(-(gap - 1.0) / b)
                own, other = near * -math.expm1(-2.0 * (gap - 1.0) / b) / flat, far * -math.expm1(-2.0 / b) / flat
                if left[j] == z:
                    end_g, _ = _g(first, end, at, value, slope, right[j] * 1.0)
                    up = own * here + other * end_g
                    ahead = right[j]
                if right[j] == z:
                    end_g, _ = _g(first, end, at, value, slope, left[j] * 1.0)
                    down = own * here + other * end_g
            f = max(here - c * ((up - here) - (here - down)), 0.0)
            used = _put(used, room, out_at, out_value, out_slope, z, f, 0.0)
            pos = z + 1.0
            if ahead >= 0:
                used = _put(used, room, out_at, out_value, out_slope, z + 1.0, 0.0, 0.0)
                pos = ahead * 1.0
        v, s = _g(first, end, at, value, slope, pos)
        used = _put(used, room, out_at, out_value, out_slope, pos, v, s)
    out_start[start.size - 1] = used
    return used
