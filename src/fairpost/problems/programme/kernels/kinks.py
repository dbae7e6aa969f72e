"""Programmes compiled to kinks, and kinks applied to counts."""

import numpy as np
from numpy.typing import NDArray

from fairpost.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def evaluate(rows: Floats, start: Ints, at: Floats, value: Floats, slope: Floats, out: Floats) -> None:
    """The function of entity i at rows[r, i]."""
    for r in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            z, k = rows[r, i], start[i]
            last = start[i + 1] - 1
            if k > last or z < at[k]:
                out[r, i] = 0.0
                continue
            while k < last and z >= at[k + 1]:
                k += 1
            out[r, i] = value[k] if slope[k] == 0.0 else value[k] + slope[k] * (z - at[k])


@kernel
def _height(first: int, end: int, bounds: Floats, weight: Floats, p: float) -> tuple[float, float]:
    """Value and slope to the right of p of one alternative: sum over brackets of (weight - the one before) (p - bound)+."""
    value, slope = 0.0, 0.0
    for k in range(first, end):
        if p >= bounds[k]:
            value += (weight[k] - slope) * (p - bounds[k])
            slope = weight[k]
    return value, slope


@kernel
def envelope(
    threshold: Floats,
    alternative: Ints,
    bounds: Floats,
    weight: Floats,
    floor: Floats,
    cap: Floats,
    start: Ints,
    at: Floats,
    value: Floats,
    slope: Floats,
) -> int:
    """The largest of several bracket functions, at least floor and at most cap, from the threshold on; how many kinks.

    Alternative a has the brackets alternative[a] to alternative[a + 1]; bounds[i] are those of entity i, ascending within an
    alternative. Between two bounds all alternatives are lines, so their maximum turns upwards only: from p, where the highest
    (of equals the steepest) leads, the next leader is the steeper line that is met first.
    """
    used = 0
    many = alternative.size - 1
    ahead = np.empty(weight.size + 1)
    values, slopes = np.empty(many), np.empty(many)
    for i in range(threshold.size):
        start[i] = used
        p = threshold[i]
        inside = 0
        for k in range(weight.size):
            if bounds[i, k] > p:  # kept ascending by insertion
                j = inside
                while j > 0 and ahead[j - 1] > bounds[i, k]:
                    ahead[j] = ahead[j - 1]
                    j -= 1
                ahead[j] = bounds[i, k]
                inside += 1
        before = np.nan
        place = 0
        while True:
            while place < inside and ahead[place] <= p:
                place += 1
            end = ahead[place] if place < inside else np.inf
            v, s = floor[i], 0.0
            for a in range(many):
                va, sa = _height(alternative[a], alternative[a + 1], bounds[i], weight, p)
                values[a], slopes[a] = va, sa
                near = 1e-13 * abs(v)
                if va > v + near or (va >= v - near and sa > s):
                    v, s = va, sa
            for a in range(many):
                if slopes[a] > s:
                    meet = p + (v - values[a]) / (slopes[a] - s)
                    if p < meet < end:
                        end = meet
            if v >= cap[i] * (1.0 - 1e-13):
                v, s = cap[i], 0.0
            if s != before:
                at[used], value[used], slope[used] = p, v, s
                used += 1
                before = s
            if s > 0.0 and v + s * (end - p) > cap[i] and p + (cap[i] - v) / s > p:
                end = p + (cap[i] - v) / s
                at[used], value[used], slope[used] = end, cap[i], 0.0
                used += 1
                before = 0.0
            if end == np.inf:
                break
            p = end
    start[threshold.size] = used
    return used


@kernel
def larger(
    threshold: Floats,
    bounds: Floats,
    parts: Floats,
    last: Floats,
    start: Ints,
    at: Floats,
    value: Floats,
    slope: Floats,
    out_start: Ints,
    out_at: Floats,
    out_value: Floats,
    out_slope: Floats,
) -> int:
    """max(H, G) as kinks: G kinked, H = parts_k last from max(bounds_k, threshold) on and 0 below the threshold."""
    used = 0
    points = np.empty(0)
    for i in range(start.size - 1):
        out_start[i] = used
        first, end = start[i], start[i + 1]
        if points.size < end - first + parts.size + 1:
            points = np.empty(2 * (end - first + parts.size + 1))
        many = 0
        for k in range(first, end):
            points[many] = at[k]
            many += 1
        for k in range(parts.size):
            points[many] = max(bounds[i, k], threshold[i])
            many += 1
        order = np.sort(points[:many])
        k = first - 1
        for j in range(many):
            p = order[j]
            if j + 1 < many and p == order[j + 1]:
                continue
            while k + 1 < end and at[k + 1] <= p:
                k += 1
            h = 0.0
            if p >= threshold[i]:
                for m in range(parts.size):
                    if p >= bounds[i, m]:
                        h = parts[m] * last[i]
            v, s = 0.0, 0.0
            if k >= first:
                s = slope[k]
                v = value[k] if s == 0.0 else value[k] + s * (p - at[k])
            z = order[j + 1] if j + 1 < many else np.inf
            if v >= h:  # the law pays more; where it falls (signed payments) H takes over
                out_at[used], out_value[used], out_slope[used] = p, v, s
                used += 1
                if s < 0.0 and p + (h - v) / s < z:
                    out_at[used], out_value[used], out_slope[used] = p + (h - v) / s, h, 0.0
                    used += 1
            else:
                out_at[used], out_value[used], out_slope[used] = p, h, 0.0
                used += 1
                if s > 0.0 and p + (h - v) / s < z:
                    out_at[used], out_value[used], out_slope[used] = p + (h - v) / s, h, s
                    used += 1
    out_start[start.size - 1] = used
    return used
