"""Draws docs/bias.png, the README's picture, from the exact engine: python docs/picture.py (needs matplotlib).

Symmetric-logarithmic, as in the reports: 13,000 small districts and one giant are both to be seen; the colours are the rules' own.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import fairpost as fp
from fairpost import palette
from fairpost.datasets import synthetic_districts

BUDGET = 6.5e9
LABELS = {
    "baseline": "clip, then share (baseline)",
    "pos": "project the shares (pos)",
    "pos-threshold": "with a threshold (pos-threshold)",
}


def main() -> None:
    counts = synthetic_districts()
    results = fp.compare(counts, fp.Laplace.from_epsilon(0.01), list(LABELS), budget=BUDGET)
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for r in results:
        look = palette.look(r.postprocess)
        axes.plot(
            counts.values, r.money, look.marker, ms=3, mew=0, color=look.light, label=LABELS[r.postprocess], alpha=0.8
        )
    axes.axhline(0, color="0.4", lw=0.8, zorder=0)
    axes.set_xscale("symlog", linthresh=1, linscale=0.3)
    axes.set_yscale("symlog", linthresh=1e3, linscale=0.4)
    ticks = [-1e6, -1e5, -1e4, 0, 1e4]
    axes.set_yticks(ticks, [f"{'−' if t < 0 else '+' if t else ''}{'$' if t else ''}{abs(t):,.0f}" for t in ticks])
    axes.set_xticks([0, 1, 10, 100, 1000, 10_000, 100_000], ["0", "1", "10", "100", "1,000", "10,000", "100,000"])
    axes.set_xlim(-0.4, 5e5)
    axes.set_ylim(-1.2e7, 8e4)
    axes.minorticks_off()
    axes.grid(color="0.92", lw=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("children in poverty")
    axes.set_ylabel("expected gain or loss a year")
    axes.set_title("13,184 synthetic school districts share \\$6.5 billion; Laplace noise, ε = 0.01", fontsize=11)
    worst, money = int(np.argmin(results[0].money)), float(results[0].money.min())
    share = money / (float(results[0].truth[worst]) * BUDGET)
    axes.annotate(
        f"−\\${-money / 1e6:.1f} million, {100 * -share:.1f} % of what is due",
        (counts.values[worst], money), (-8, -4), textcoords="offset points", ha="right", fontsize=10,
    )  # fmt: skip
    axes.legend(frameon=False, loc="lower left", markerscale=2)
    figure.savefig(Path(__file__).with_name("bias.png"), dpi=130)


if __name__ == "__main__":
    main()
