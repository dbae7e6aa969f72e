"""Figures of results, by Plotly, with an axis that shows both signs and many decades.

Plotly has no symmetric logarithm, so values are placed by

    place(v) = sign(v) log10(1 + |v| / t),

linear below the threshold t and logarithmic above, and the ticks carry the true values. t is the smallest size that is not
0, but no less than a millionth of the largest. Values of less than two decades stay on a plain axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairpost import palette
from fairpost.palette import Look
from fairpost.results.base import needed, number, one_line

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]
DECADES = 2.0
"""From so many decades on an axis is symmetric-logarithmic."""
MOST = 6.0
"""Decades that it shows at most."""


@dataclass(frozen=True)
class Axis:
    """Where values stand on an axis."""

    title: str
    threshold: float | None
    """t; None: a plain axis."""
    low: float
    high: float

    @classmethod
    def of(cls, title: str, *values: ArrayLike) -> Axis:
        """The axis that all of these values fit on."""
        v = np.concatenate([np.atleast_1d(np.asarray(some, dtype=np.float64)) for some in values])
        v = v[np.isfinite(v)]
        sizes = np.abs(v[v != 0])
        ends = (float(v.min()), float(v.max())) if v.size else (0.0, 1.0)
        if sizes.size == 0 or sizes.max() < 10**DECADES * sizes.min():
            return cls(title, None, *ends)
        return cls(title, float(max(sizes.min(), sizes.max() / 10**MOST)), *ends)

    def place(self, values: ArrayLike) -> Floats:
        """Where the values stand."""
        v = np.asarray(values, dtype=np.float64)
        return v if self.threshold is None else np.asarray(np.sign(v) * np.log10(1 + np.abs(v) / self.threshold))

    def ticks(self) -> list[float]:
        """0 and powers of ten of either sign that the values reach."""
        assert self.threshold is not None
        first = int(np.ceil(np.log10(self.threshold)))
        sizes = [10.0**k for k in range(first, int(np.ceil(np.log10(max(-self.low, self.high)))) + 1)]
        return [-s for s in reversed(sizes) if -s >= 10 * self.low] + [0.0] + [s for s in sizes if s <= 10 * self.high]

    def layout(self) -> dict[str, Any]:
        """For Plotly."""
        if self.threshold is None:
            return {"title": {"text": self.title}, "zeroline": True}
        ticks = self.ticks()
        return {
            "title": {"text": self.title},
            "zeroline": True,
            "tickmode": "array",
            "tickvals": self.place(ticks).tolist(),
            "ticktext": tick_texts(ticks),
        }


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """0 and powers of ten in one notation: plain numbers, or powers for all of them where plain ones would be too long."""
    sizes = [abs(t) for t in ticks if t != 0]
    if not sizes or (min(sizes) >= 1e-5 and max(sizes) < 1e10):
        return [f"{t:,.10g}" if t == 0 or abs(t) >= 1 else f"{t:.5f}".rstrip("0") for t in ticks]
    return ["0" if t == 0 else f"{'-' if t < 0 else ''}10<sup>{round(np.log10(abs(t)))}</sup>" for t in ticks]


@dataclass(frozen=True, eq=False)
class Series:
    """One set of points with the same colour."""

    name: str
    x: ArrayLike
    y: ArrayLike
    labels: Sequence[str]
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    """The ends of an interval around y."""
    joined: bool = False
    """Whether a line joins the points."""


def drawn(title: str, x: str, y: str, series: Sequence[Series], *, limit: float | None = None) -> go.Figure:
    """All series in one figure; a pointed line at `limit`. Whoever points at a point sees the true values."""
    go = needed("plotly.graph_objects", "plot()", "plots")
    across = Axis.of(x, *(s.x for s in series))
    ends = [e for s in series for e in (s.y, s.low, s.high) if e is not None]
    up = Axis.of(y, *ends, *([] if limit is None else [limit]))
    marks = palette.looks([s.name for s in series])
    figure = go.Figure([_trace(go, s, across, up, look) for s, look in zip(series, marks, strict=True)])
    if limit is not None:
        figure.add_hline(y=float(up.place(limit)), line_dash="dot", annotation_text=f"at most {number(limit)}")
    figure.update_layout(
        title={"text": safe(title)}, xaxis=across.layout(), yaxis=up.layout(), showlegend=len(series) > 1
    )
    return figure


def _trace(go: Any, s: Series, across: Axis, up: Axis, look: Look) -> Any:
    x, y = np.asarray(s.x, dtype=np.float64), np.asarray(s.y, dtype=np.float64)
    said = [
        f"{safe(name)}<br>{across.title}: {number(float(a))}<br>{up.title}: {number(float(b))}"
        for name, a, b in zip(s.labels, x, y, strict=True)
    ]
    bars = None
    if s.low is not None and s.high is not None:
        above, below = up.place(s.high) - up.place(y), up.place(y) - up.place(s.low)
        bars = {"type": "data", "symmetric": False, "array": above.tolist(), "arrayminus": below.tolist()}
    return go.Scatter(
        name=safe(s.name),
        x=across.place(x).tolist(),
        y=up.place(y).tolist(),
        error_y=bars,
        mode="lines+markers" if s.joined else "markers",
        marker={"color": look.light, "symbol": look.mark},
        line={"color": look.light},
        hovertext=said,
        hoverinfo="text",
    )


def safe(text: str) -> str:
    """A user's text in a figure: Plotly reads some HTML in its texts."""
    return escape(one_line(text), quote=False)
