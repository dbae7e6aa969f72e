"""The areas of entities from a GeoJSON file, small enough to travel inside a page.

Coordinates become whole numbers on a grid of GRID cells across, and points that repeat or lie on a line between their
neighbours are left out. Neighbouring areas share their border points, so they are moved alike and no gap opens between
them, which simplifying each area by itself would do. Degrees are scaled by the cosine of the middle latitude, so that an area
keeps its look (RFC 7946: positions are longitude, latitude); other coordinates are taken as they are.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpost.counts import Counts
from fairpost.errors import InputError
from fairpost.report.text import clean

GRID = 2400
"""Cells across the longer side of a map: twice the pixels of the page."""
KEYS = ("id", "GEOID", "geoid", "GEOID20", "GEOID10", "leaid", "LEAID")
"""Properties that are tried, after the feature's own id, where no key is given."""

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
            data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
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
        rings: dict[str, list[Ring]] = {}
        for place, feature in enumerate(data.get("features") or []):
            found = list(_rings(feature, place, source))
            label = _label(feature, key, place, source)
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
    return repr(data.get("type")) if isinstance(data, dict) else type(data).__name__


def _label(feature: Any, key: str | None, place: int, source: str) -> str | None:
    properties = feature.get("properties") or {}
    if key is not None:
        if key not in properties:
            known = ", ".join(list(properties)[:8]) or "none"
            raise InputError(f"{source}: feature {place} has no property {key!r}, it has {known}")
        return _text(properties[key])
    if feature.get("id") is not None:
        return _text(feature["id"])
    return next((_text(properties[k]) for k in KEYS if properties.get(k) is not None), None)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _rings(feature: Any, place: int, source: str) -> Iterator[Ring]:
    if not isinstance(feature, dict):
        raise InputError(f"{source}: feature {place} must be an object, got {type(feature).__name__}")
    shape = feature.get("geometry") or {}
    kind = shape.get("type")
    if kind not in ("Polygon", "MultiPolygon"):
        return
    try:
        for polygon in [shape["coordinates"]] if kind == "Polygon" else shape["coordinates"]:
            for ring in polygon:
                points = [(float(p[0]), float(p[1])) for p in ring]
                if not all(math.isfinite(a) and math.isfinite(b) for a, b in points):
                    raise ValueError("a position that is not finite")
                yield points
    except (TypeError, ValueError, KeyError, IndexError) as bad:
        raise InputError(f"{source}: feature {place} has bad coordinates: {bad}") from None


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
        span = max((max(wide) - min(wide)) * squeeze, max(high) - min(high)) or 1.0
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
