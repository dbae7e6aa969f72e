"""Draws docs/hierarchies.png from the published blocks of Rhode Island (needs matplotlib).

python docs/hierarchy_picture.py ri_blocks_2020.csv
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from fairpost.hierarchy import Hierarchy, LevelNoise, audit_hierarchy
from fairpost.palette import BLUE, LOOKS, VERMILION

LEVELS = {"state": 2, "county": 5, "tract": 11, "block group": 12, "block": 15}
CLEAN, BIASED = (LOOKS[slot].light for slot in (BLUE, VERMILION))


def main() -> None:
    table = pl.read_csv(sys.argv[1], infer_schema=False)
    tree = Hierarchy.from_geoids(table["geoid"], LEVELS)
    noise = LevelNoise(tree, sigmas=[0, 1.894, 1.528, 1.130, 3.117])
    people = table["pop"].cast(pl.Float64).to_numpy()
    found = audit_hierarchy(people, noise, "top-down", runs=4000, areas=table["vtd"])
    groups = found.level("block group")
    districts = np.array([(part.count, part.bias) for part in found.areas])
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
    axes[0].plot(groups.truth, groups.bias, "o", ms=3, color=CLEAN, alpha=0.7)
    axes[0].set_title(f"{groups.n} block groups: on the spine", fontsize=11)
    axes[1].plot(*districts.T, "o", ms=3, color=BIASED, alpha=0.7)
    axes[1].set_title(f"{len(districts)} voting districts: cutting it", fontsize=11)
    for panel in axes:
        panel.axhline(0, color="0.6", lw=0.8, zorder=0)
        panel.set_xlabel("people, as published")
    axes[0].set_ylabel("expected gain or loss (people)")
    figure.savefig(Path(__file__).with_name("hierarchies.png"), dpi=110)


if __name__ == "__main__":
    main()
