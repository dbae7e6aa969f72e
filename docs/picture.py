"""Draws docs/bias.png, the README's picture, from the exact engine: python docs/picture.py (needs matplotlib)."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import fairpost as fp
from fairpost.datasets import synthetic_districts

BUDGET = 6.5e9
COLOURS = {"baseline": "#D55E00", "pos": "#0072B2"}  # colour-blind safe (Okabe and Ito)
LABELS = {"baseline": "clip, then share (BL)", "pos": "project the shares (PoS)"}


def main() -> None:
    counts = synthetic_districts()
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for which, colour in COLOURS.items():
        result = fp.audit(counts, fp.Laplace.from_epsilon(0.01), which, engine="exact", budget=BUDGET)
        axes.plot(result.truth * 100, result.money / 1e6, "o", ms=3.5, color=colour, label=LABELS[which], alpha=0.8)
    axes.axhline(0, color="0.6", lw=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_xlabel("true share of the budget (%)")
    axes.set_ylabel("expected gain or loss\n(million $ a year)")
    axes.set_title("13,184 synthetic school districts share \\$6.5 billion; Laplace noise, ε = 0.01", fontsize=11)
    axes.legend(frameon=False, loc="lower left")
    figure.savefig(Path(__file__).with_name("bias.png"), dpi=130)


if __name__ == "__main__":
    main()
