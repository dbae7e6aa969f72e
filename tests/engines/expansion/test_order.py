"""The expansion improves with n as it says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import fairpost as fp
from fairpost.rules import POSTPROCESSINGS
from support.engines import NO_SIMULATION


@pytest.mark.parametrize("name", ["pos-threshold", "simplex-threshold"])
@pytest.mark.parametrize("noise", [fp.Laplace(3.0), fp.Gaussian(4.0)], ids=["laplace", "gaussian"])
def test_the_expansion_improves_with_n_as_it_says(name: str, noise) -> None:
    """Against simulation of its own map the chance of 0 is off by far less than the size 1/n of its correction."""
    gaps = []
    for copies in (8, 32):
        x = np.round(np.repeat([0.0, 0.5, 1.0, 2.0, 20.0], copies) * noise.deviation)
        counts = fp.Counts(x)
        result = fp.audit(counts, noise, name, engine=NO_SIMULATION)
        rng = np.random.default_rng(copies)
        runs = 320_000 // copies
        draw = rng.laplace(0, 3.0, (runs, x.size)) if noise.name == "laplace" else rng.normal(0, 4.0, (runs, x.size))
        out = POSTPROCESSINGS[name].from_counts(counts).for_mechanism(noise)(x + draw)
        share = (out == 0).mean(axis=0)
        for low, high in pairwise([*range(0, x.size, copies), x.size]):
            gaps.append((share[low:high].mean() - result.zero[low]) * x.size)
            # a count's 8 or 32 entities in `runs` runs: 320,000 draws, nearly independent
            assert abs(gaps[-1]) <= 0.08 + 5 * 0.5 / np.sqrt(320_000) * x.size
    assert np.abs(gaps[:5]).max() < 0.3  # its correction is 0.4 to 0.7 here
