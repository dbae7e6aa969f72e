"""The paper's figures, drawn from the same results as the tables. matplotlib is the extra `paper`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from fairpost import palette
from fairpost.audit import audit
from fairpost.counts import Counts
from fairpost.errors import UnsupportedError
from fairpost.noise import Laplace
from fairpost.paper.published import Computed
from fairpost.paper.tables import EPSILONS, NAMES
from fairpost.results.audit import Audit
from fairpost.rules import Simplex, Sum, SumClipped

COLOURS = {name: palette.look(name).light for name in ("baseline", "pos", "pos-threshold")}
BARS, DOTS, INK, FAINT = "#B8C4CE", palette.look("simplex").light, "#1A1A1A", "#8A8A8A"
STYLE: dict[str, Any] = {
    "font.family": "STIXGeneral", "mathtext.fontset": "stix", "font.size": 10, "axes.titlesize": 10.5,
    "axes.spines.top": False, "axes.linewidth": 0.7, "axes.edgecolor": INK, "xtick.major.width": 0.7,
    "ytick.major.width": 0.7, "xtick.minor.width": 0.4, "ytick.minor.width": 0.4, "legend.frameon": False,
    "figure.facecolor": "white", "savefig.facecolor": "white", "pdf.fonttype": 42,
}  # fmt: skip
DPI = 200
RELEASED = Counts(np.round(np.geomspace(1.0, 300.0, 30)))
"""SYNTHETIC counts for Figure 1, left (the paper's are synthetic too, and not printed)."""
RELEASE_NOISE = Laplace(scale=10.0)


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure, the name of its files, and its caption."""

    name: str
    title: str
    caption: str
    figure: Any

    def files(self) -> dict[str, bytes]:
        """NAME.png and NAME.pdf."""
        png, pdf = BytesIO(), BytesIO()
        with styled():
            self.figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
            nobody = {"CreationDate": None, "Producer": None, "Creator": None}
            self.figure.savefig(pdf, format="pdf", dpi=300, metadata=nobody)
        return {f"{self.name}.png": png.getvalue(), f"{self.name}.pdf": pdf.getvalue()}


def require_matplotlib() -> None:
    """One line where the extra is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UnsupportedError("`fairpost paper` needs matplotlib: pip install 'fairpost[paper]'") from None


def styled() -> AbstractContextManager[None]:
    """The one style of all figures, without touching the user's settings."""
    require_matplotlib()
    import matplotlib as mpl

    return mpl.rc_context(rc=STYLE)  # type: ignore[arg-type]


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def release_result() -> Audit:
    """The biases of pi_S+ on the synthetic counts."""
    return audit(RELEASED, RELEASE_NOISE, "simplex", engine="exact")


def figure1_left(result: Audit) -> Drawing:
    """True counts as bars, biases as dots; both axes have their 0 at the same height."""
    with styled():
        figure = _figure(5.2, 3.3)
        bars = figure.add_subplot()
        place = np.arange(1, result.counts.n + 1)
        bars.bar(place, result.truth, color=BARS, width=0.8)
        bars.set(xlabel="entity, in order of its true count", ylabel="true count (bars)", xlim=(0.2, place[-1] + 0.8))
        dots = bars.twinx()
        dots.plot(place, result.bias, "o", color=DOTS, ms=4, gid="bias")
        dots.axhline(0, color=FAINT, lw=0.6, zorder=0)
        dots.set_ylabel("bias of $\\pi_{S+}$, in counts (dots)", color=DOTS)
        dots.tick_params(axis="y", colors=DOTS)
        _same_zero(bars, dots, result)
    caption = (
        f"Data release. Bars: {result.counts.n} synthetic true counts. Dots: the bias of the projection pi_S+ under Laplace noise of "
        f"scale {result.mechanism.spread:g}, exact; alpha = {result.alpha.value:.4g} counts."
    )
    return Drawing("figure1-left", "Figure 1, left (fig:bias_of_post_processing)", caption, figure)


def _same_zero(bars: Any, dots: Any, result: Audit) -> None:
    top, low, high = 1.05 * float(result.truth.max()), float(result.bias.min()), float(result.bias.max())
    below = 1.25 * abs(low) / (1.1 * high) if high > 0 else 0.0
    bars.set_ylim(-below * top, top)
    bars.set_yticks([t for t in bars.get_yticks() if 0 <= t <= top])
    dots.set_ylim(-below * 1.1 * high, 1.1 * high) if high > 0 else None


def figure1_right(result: Audit, data: str) -> Drawing:
    """Bias, and the same as money, against districts in the order of their share."""
    assert result.budget is not None
    budget = result.budget
    with styled():
        figure = _figure(5.2, 3.3)
        axes = figure.add_subplot()
        order = np.argsort(result.truth, kind="stable")
        place = np.arange(1, order.size + 1)
        axes.plot(
            place, result.bias[order], "o", color=COLOURS["pos"], ms=2.6, mew=0, alpha=0.7, rasterized=True, gid="bias"
        )
        axes.axhline(0, color=FAINT, lw=0.6, zorder=0)
        axes.set(xlabel="district, in order of its true share", ylabel="bias (share of the budget)")
        axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)
        axes.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
        money = axes.secondary_yaxis("right", functions=(lambda b: b * budget / 1e3, lambda m: m * 1e3 / budget))
        money.set_ylabel("misallocated money (thousand \\$ a year)")
        money.yaxis.set_major_formatter(lambda v, _: f"{v:,.0f}".replace("-", "\N{MINUS SIGN}"))
    loss = -float(result.bias.min()) * budget
    caption = (
        f"Downstream decisions. {data}; {NAMES[result.postprocess]}, Laplace noise, epsilon = {1 / result.mechanism.spread:g}, "
        f"${budget / 1e9:g} billion a year. The largest loss is ${loss:,.0f} ({result.alpha_pair[1]})."
    )
    return Drawing("figure1-right", "Figure 1, right (fig:bias_of_post_processing)", caption, figure)


TRIANGLES: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "figure2": ((0.7, 0.3), (-0.5, 3.5)),
    "figure5": ((1.0, 0.8), (0.7, 3.7)),
}
"""The true point and the noisy point of the paper's two drawings."""


@dataclass(frozen=True)
class Triangle:
    """The projections in two dimensions: the points of a drawing, computed by the package."""

    truth: tuple[float, float]
    noisy: tuple[float, float]
    on_line: tuple[float, float]
    """pi_S(X)."""
    clipped: tuple[float, float]
    """(pi_S(X))_+."""
    shifted: tuple[float, float]
    """pi_S(X) - T 1."""
    projected: tuple[float, float]
    """pi_S+(X)."""
    T: float

    @classmethod
    def of(cls, name: str) -> Triangle:
        """The points of Figure 2 or Figure 5 from the true and the noisy one."""
        truth, noisy = TRIANGLES[name]
        total = sum(truth)
        y, T = Sum(total)(noisy), float(Simplex(total).T(noisy)[0])
        found = (y, SumClipped(total)(noisy), y - T, Simplex(total)(noisy))
        points = [(float(p[0]), float(p[1])) for p in found]
        return cls(truth, noisy, points[0], points[1], points[2], points[3], T)


def triangle_values() -> dict[str, Computed]:
    """The points that the paper's two drawings show."""
    two, five = Triangle.of("figure2"), Triangle.of("figure5")
    return {
        "figure2.pi_s": Computed(two.on_line),
        "figure2.pi_s_plus": Computed(two.projected),
        "figure2.T": Computed(two.T),
        "figure5.pi_s": Computed(five.on_line),
        "figure5.clipped": Computed(five.clipped),
        "figure5.shifted": Computed(five.shifted),
        "figure5.pi_s_plus": Computed(five.projected),
    }


def figure2() -> Drawing:
    """The geometry of pi_S, pi_S+ and T: the paper's Figure 2 and its complete version, Figure 5."""
    with styled():
        figure = _figure(8.0, 3.35)
        for k, name in enumerate(TRIANGLES):
            axes = figure.add_subplot(1, 2, k + 1)
            _triangle(axes, Triangle.of(name), complete=name == "figure5")
            axes.set_title(("Figure 2", "Figure 5, complete")[k], loc="left")
    caption = (
        "The projections in two dimensions, at the paper's points. The solid line is v1 + v2 = C, thick where both are at least 0. "
        "pi_S moves the noisy point onto the line; taking T from both entries and then the positive part gives pi_S+."
    )
    return Drawing("figure2-5", "Figure 2 (fig:err_sum_0) and Figure 5 (fig:full)", caption, figure)


def _triangle(axes: Any, g: Triangle, *, complete: bool) -> None:
    total = sum(g.truth)
    for line in (axes.axhline, axes.axvline):
        line(0, color=FAINT, lw=0.7, zorder=0)
    axes.plot([total - 4.2, total + 0.35], [4.2, -0.35], color=INK, lw=0.8, zorder=1)
    axes.plot([0, total], [total, 0], color=INK, lw=2.4, zorder=1)
    for ends in ([g.noisy, g.on_line], [g.on_line, g.shifted], [g.shifted, g.projected]):
        axes.plot(*zip(*ends, strict=True), "--", color=COLOURS["pos"], lw=1.0, zorder=2)
    marks = [
        (g.truth, "$x$", (7, 4), "left"),
        (g.noisy, "$\\tilde{x}$", (7, 2), "left"),
        (g.on_line, "$\\pi_S(\\tilde{x})$", (-20, 5), "right"),
        (g.projected, "$\\pi_{S+}(\\tilde{x})$", (8, 4), "left"),
        (g.shifted, "$\\pi_S(\\tilde{x}) - T\\,\\mathbf{1}$", (-2, -14), "center"),
    ]
    if complete:
        axes.plot(*zip(g.on_line, g.clipped, strict=True), "--", color=DOTS, lw=1.0, zorder=2)
        marks.append((g.clipped, "$(\\pi_S(\\tilde{x}))_{\\geq 0}$", (8, 0), "left"))
    for point, text, offset, side in marks:
        axes.plot(*point, "o", color=DOTS if point in (g.projected, g.clipped) else INK, ms=5, zorder=3)
        axes.annotate(text, point, offset, textcoords="offset points", ha=side, fontsize=11)
    _brace(axes, g)
    axes.set(xlabel="$v_1$ (drawing units)", ylabel="$v_2$ (drawing units)", xlim=(-4.75, 2.45), ylim=(-0.5, 4.3))
    axes.set_aspect("equal")
    axes.spines["right"].set_visible(False)


def _brace(axes: Any, g: Triangle) -> None:
    """T, as the height between pi_S and pi_S - T 1."""
    at = g.shifted[0] - 0.25
    axes.annotate("", (at, g.on_line[1]), (at, g.shifted[1]), arrowprops={"arrowstyle": "<->", "color": INK, "lw": 0.8})
    axes.plot([at, g.on_line[0]], [g.on_line[1]] * 2, ":", color=FAINT, lw=0.8, zorder=1)
    axes.text(at - 0.12, (g.on_line[1] + g.shifted[1]) / 2, f"$T = {g.T:g}$", ha="right", va="center", fontsize=11)


def figure3(results: Mapping[tuple[float, str], Audit], data: str) -> Drawing:
    """Bias against share: mechanisms in columns, budgets in rows, one scale per row."""
    with styled():
        figure = _figure(8.0, 7.4)
        grid = figure.subplots(len(EPSILONS), len(NAMES), sharex=True, sharey="row")
        for row, epsilon in zip(grid, EPSILONS, strict=True):
            _row(row, [results[epsilon, which] for which in NAMES], epsilon)
        for axes, title in zip(grid[0], NAMES.values(), strict=True):
            axes.set_title(title)
        for axes in grid[-1]:
            axes.set_xlabel("true share of the budget")
    caption = (
        f"{data}. Bias against true share, Laplace noise; columns are mechanisms, rows are privacy budgets. Both axes are linear near 0 and "
        "logarithmic beyond the dotted lines; districts without children stand at share 0. One vertical scale per row."
    )
    return Drawing("figure3", "Figure 3 (fig:bias), the grid of biases", caption, figure)


def _power(value: float) -> str:
    """A number as mantissa and power of ten, for mathtext."""
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa} \\times 10^{{{int(exponent)}}}"


def _row(row: Any, results: list[Audit], epsilon: float) -> None:
    linear = 10 ** np.floor(np.log10(min(r.alpha.value for r in results)))
    for axes, result in zip(row, results, strict=True):
        positive = result.truth[result.truth > 0]
        axes.plot(
            result.truth, result.bias, "o", color=COLOURS[result.postprocess], ms=2.2, mew=0, alpha=0.6,
            rasterized=True, gid="bias",
        )  # fmt: skip
        axes.set_xscale("symlog", linthresh=float(positive.min()), linscale=0.5)
        first = int(np.ceil(np.log10(8 * positive.min())))
        axes.set_xticks([0.0, *(10.0**k for k in range(first, 1, 2) if 10.0**k <= positive.max())])
        axes.set_yscale("symlog", linthresh=float(linear), linscale=0.8)
        for level in (-linear, linear):
            axes.axhline(level, color=FAINT, lw=0.6, ls=":", zorder=0)
        axes.axhline(0, color=FAINT, lw=0.6, zorder=0)
        axes.spines["right"].set_visible(False)
        axes.text(0.04, 0.05, f"$\\alpha = {_power(result.alpha.value)}$", transform=axes.transAxes)
    row[0].set_ylabel(f"$\\varepsilon$ = {epsilon:g}\nbias (share of the budget)")
