"""Which colour and which mark a rule has, everywhere: reports, figures of results, documentation, paper, terminal.

The colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with a colour-blindness tell apart,
with lighter ones for dark screens. Kin have the same colour, since no picture shows two of them: what simply clips is
vermilion, what projects is blue, what keeps a threshold is green, whether it makes counts, shares or payments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """One colour: on light paper, on a dark screen, and the mark that goes with it (Plotly's and matplotlib's name)."""

    light: str
    dark: str
    mark: str
    marker: str


LOOKS = (
    Look("#0072b2", "#56b4e9", "circle", "o"),
    Look("#d55e00", "#e8752a", "square", "s"),
    Look("#009e73", "#17b98b", "diamond", "D"),
    Look("#cc79a7", "#dd94bb", "triangle-up", "^"),
    Look("#56b4e9", "#8fa8ff", "cross", "P"),
    Look("#e69f00", "#e6b23c", "x", "X"),
    Look("#6b6b6b", "#b0b0b0", "triangle-down", "v"),
    Look("#a28500", "#f0e442", "line-ew", "_"),
)
BLUE, VERMILION, GREEN, PINK, SKY, AMBER, GREY, OLIVE = range(8)
SLOTS = {
    "nonnegative": VERMILION, "baseline": VERMILION, "as-written": VERMILION, "top-down": VERMILION,
    "simplex": BLUE, "pos": BLUE, "levelled": BLUE, "blue-down": BLUE,
    "simplex-threshold": GREEN, "pos-threshold": GREEN, "no-loss": GREEN, "blue-down-threshold": GREEN,
    "sum-clipped": PINK, "joint": PINK, "sum": AMBER, "top-down-threshold": AMBER, "none": GREY, "signed": GREY,
}  # fmt: skip
SPARE = (SKY, OLIVE, AMBER, PINK, GREY, GREEN, BLUE, VERMILION)
"""For rules of one's own, and for one that comes twice, in this order."""


def slots(names: Sequence[str]) -> list[int]:
    """The place in LOOKS of each rule of one page or figure."""
    taken = {SLOTS[name] for name in names if name in SLOTS}
    spare = [s for s in SPARE if s not in taken] + [s for s in SPARE if s in taken]
    seen: set[str] = set()
    found, used = [], 0
    for name in names:
        if name in SLOTS and name not in seen:
            found.append(SLOTS[name])
        else:
            found.append(spare[used % len(spare)])
            used += 1
        seen.add(name)
    return found


def looks(names: Sequence[str]) -> list[Look]:
    """The look of each rule of one page or figure."""
    return [LOOKS[s] for s in slots(names)]


def look(name: str) -> Look:
    """The look of a rule alone."""
    return looks([name])[0]


def sheet() -> str:
    """The colours as style of a page: --s0 to --s7 and the classes s0 to s7, for light and for dark."""
    light = " ".join(f"--s{k}: {c.light};" for k, c in enumerate(LOOKS))
    dark = " ".join(f"--s{k}: {c.dark};" for k, c in enumerate(LOOKS))
    classes = " ".join(f".s{k} {{ --c: var(--s{k}); }}" for k in range(len(LOOKS)))
    return (
        f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root:not(.printing) {{ {dark} }} }}\n"
        f"{classes}\n"
    )
