"""The areas of entities from a GeoJSON file, small enough to travel inside a page.

Coordinates become whole numbers on a grid of GRID cells across, and points that repeat or lie on a line between their
neighbours are left out. Neighbouring areas share their border points, so they are moved alike and no gap opens between
them, which simplifying each area by itself would do. Degrees are scaled by the cosine of the middle latitude, so that an area
keeps its look (RFC 7946: positions are longitude, latitude); other coordinates are taken as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpost.counts import Counts
from fairpost.documents import json_of
from fairpost.errors import InputError
from fairpost.report.text import clean

GRID = 2400
"""Cells across the longer side of a map: twice the pixels of the page."""
KEYS = ("id", "GEOID", "geoid", "GEOID20", "GEOID10", "leaid", "LEAID")
"""Properties that are tried, after the feature's own id, where no key is given."""

FAR, NEAR = 1e15, 1e-9
"""The largest coordinate that is meant; a map of less across is a point."""
Ring = list[tuple[float, float]]


@dataclass(frozen=True)
class Shapes:
    """Rings by id, in the coordinates of the file."""

    rings: dict[str, list[Ring]]
    source: str

    @classmethod
    def read(cls, path: str, key: str | None = None) -> Shapes:
        """A GeoJSON file; `key` is the property that has the ids."""
        try:
            data = json_of(Path(path).read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise InputError(f"no such file: {path}") from None
        except (OSError, UnicodeDecodeError, ValueError) as bad:
            raise InputError(f"{path} must be GeoJSON, got {bad}") from None
        return cls.of_data(data, key, Path(path).name)

    @classmethod
    def of_data(cls, data: Any, key: str | None = None, source: str = "map") -> Shapes:
        """The polygons of a FeatureCollection."""
        if not isinstance(data, dict) or data.get("type") != "FeatureCollection":
            raise InputError(f"{source} must be a GeoJSON FeatureCollection, got {_kind(data)}")
        features = data.get("features")
        if not isinstance(features, list):
            raise InputError(f"{source}: features must be a list, got {_kind(features)}")
        rings: dict[str, list[Ring]] = {}
        for k, feature in enumerate(features):
            place = f"{source}: feature {k}"
            found = _rings(_object(feature, place), place)
            label = _label(feature, key, place)
            if found and label is not None:
                rings.setdefault(label, []).extend(found)
        if not rings:
            raise InputError(f"{source} must have polygons with ids, got none")
        return cls(rings, source)

    def of(self, counts: Counts) -> Drawn:
        """The areas of these entities; at least one must be there."""
        place = {label: i for i, label in enumerate(counts.ids)}
        both = {place[label]: rings for label, rings in self.rings.items() if label in place}
        if not both:
            theirs, ours = next(iter(self.rings)), counts.ids[0]
            raise InputError(
                f"the ids of {self.source} must be those of the counts, got {theirs!r} for such as {ours!r} "
                "(--map-key names the property)"
            )
        return Drawn(both, counts.n, len(self.rings) - len(both), self.source)


def _kind(data: Any) -> str:
    kind = data.get("type") if isinstance(data, dict) else None
    return repr(kind[:60]) if isinstance(kind, str) else type(data).__name__


def _object(given: Any, place: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InputError(f"{place} must be an object, got {_kind(given)}")
    return given


def _label(feature: dict[str, Any], key: str | None, place: str) -> str | None:
    properties = _object(feature.get("properties") or {}, f"{place}: properties")
    if key is not None:
        if key not in properties:
            known = ", ".join(k[:60] for k in list(properties)[:8]) or "none"
            raise InputError(f"{place} has no property {key!r}, it has {known}")
        found = properties[key]
    else:
        found = next((v for v in (feature.get("id"), *map(properties.get, KEYS)) if v is not None), None)
    if found is not None and not isinstance(found, (str, int, float)):
        raise InputError(f"{place}: an id must be a text or a number, got {_kind(found)}")
    return None if found is None else str(int(found)) if isinstance(found, float) and found.is_integer() else str(found)


def _rings(feature: dict[str, Any], place: str) -> list[Ring]:
    """Of polygons; nothing of other geometries."""
    shape = _object(feature.get("geometry") or {}, f"{place}: geometry")
    kind, inside = shape.get("type"), shape.get("coordinates")
    if kind not in ("Polygon", "MultiPolygon"):
        return []
    return [
        _ring(r, place)
        for polygon in ([inside] if kind == "Polygon" else _list(inside, place))
        for r in _list(polygon, place)
    ]


def _list(given: Any, place: str) -> Sequence[Any]:
    if not isinstance(given, (list, tuple)):
        raise InputError(f"{place} has bad coordinates: lists of rings of positions, got {_kind(given)}")
    return given


def _ring(given: Any, place: str) -> Ring:
    """A ring as pairs of floats; more than FAR away nothing is drawn any more, and differences would overflow."""
    points = [(p[0], p[1]) for p in _list(given, place) if isinstance(p, (list, tuple)) and len(p) >= 2]
    good = [isinstance(c, (int, float)) and not isinstance(c, bool) and abs(c) <= FAR for p in points for c in p]
    if not points or len(points) < len(given) or not all(good):
        raise InputError(f"{place} has bad coordinates: a ring is positions of two numbers or more, up to {FAR:g}")
    return [(float(a), float(b)) for a, b in points]


@dataclass(frozen=True)
class Drawn:
    """The areas of some counts, by place of the entity."""

    rings: dict[int, list[Ring]]
    n: int
    strange: int
    """Areas of nobody in the counts."""
    source: str

    def words(self, noun: str) -> str:
        """What is not on the map."""
        parts = [f"Areas: {clean(self.source)}."]
        if len(self.rings) < self.n:
            parts.append(f"{self.n - len(self.rings):,} of {self.n:,} {noun} have no area in it.")
        if self.strange:
            parts.append(f"{self.strange:,} of its areas belong to none of them and are not drawn.")
        return " ".join(parts)

    def data(self) -> dict[str, Any]:
        """For the script: width, height, and for each entity's place the outline as an SVG path."""
        points = [p for rings in self.rings.values() for ring in rings for p in ring]
        degrees = all(abs(a) <= 180.0001 and abs(b) <= 90.0001 for a, b in points)
        lows = [a for a, _ in points]
        turn = degrees and max(lows) - min(lows) > 300  # across the date line: the far east lies further west
        wide = [a - 360 if turn and a > 0 else a for a in lows]
        high = [b for _, b in points]
        squeeze = max(math.cos(math.radians((min(high) + max(high)) / 2)), 0.1) if degrees else 1.0
        span = max((max(wide) - min(wide)) * squeeze, max(high) - min(high), NEAR)
        scale, left, top = GRID / span, min(wide), max(high)

        def cell(p: tuple[float, float]) -> tuple[int, int]:
            a = p[0] - 360 if turn and p[0] > 0 else p[0]
            return round((a - left) * squeeze * scale), round((top - p[1]) * scale)

        paths = {i: "".join(_path([cell(p) for p in ring]) for ring in rings) for i, rings in self.rings.items()}
        return {
            "width": round((max(wide) - left) * squeeze * scale) + 1,
            "height": round((top - min(high)) * scale) + 1,
            "of": list(paths),
            "paths": list(paths.values()),
        }


def _path(cells: list[tuple[int, int]]) -> str:
    """One ring, by steps; a ring within one cell stays visible as that cell."""
    kept: list[tuple[int, int]] = []
    for c in cells:
        if kept and c == kept[-1]:
            continue
        while len(kept) >= 2 and _straight(kept[-2], kept[-1], c):
            kept.pop()
        kept.append(c)
    if len(kept) > 1 and kept[0] == kept[-1]:
        kept.pop()
    if len(kept) < 3:
        x, y = kept[0]
        return f"M{x} {y}h1v1h-1z"
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(kept)]
    return f"M{kept[0][0]} {kept[0][1]}l" + " ".join(f"{a} {b}" for a, b in steps) + "z"


def _straight(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Whether b lies on the way from a to c."""
    u, v = (b[0] - a[0], b[1] - a[1]), (c[0] - b[0], c[1] - b[1])
    return u[0] * v[1] == u[1] * v[0] and u[0] * v[0] + u[1] * v[1] > 0
