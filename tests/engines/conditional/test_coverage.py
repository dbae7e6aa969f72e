"""Whole answers over seeds: the interval of alpha and those of all biases together cover, and are not far too wide.

Ten regimes, rows of the table of cases, each against the exact engine or, where that refuses, a long run of its own. The plan asks for
0.935 over 1,000 seeds: `python tests/engines/conditional/test_coverage.py 1000` prints it. The test asks of `SEEDS` what a true 0.95
falls short of once in 3,000.
"""

import sys
import time

import numpy as np
import pytest
from scipy.stats import binom

import fairpost as fp
from support.cases import table

SEEDS = 40
REGIMES = (
    "simplex-threshold-DL-dense-1",
    "simplex-threshold-G-ties-1",
    "simplex-threshold-DG-tens-1",
    "simplex-threshold-DL-groups-1",
    "simplex-DL-dense-1",
    "pos-DG-weights-1",
    "pos-threshold-DL-dense-1",
    "pos-threshold-DG-zeros-1",
    "pos-threshold-G-hundred-1",
    "pos-threshold-G-either-sign-2",
)


def covered(name, seeds, rtol=3e-3):
    """How often alpha lies in its interval, and all biases in theirs, of how many answers; median half-width over rms error."""
    case = next(case for case in table() if case.name == name)
    try:
        true = case.asked("exact")
    except (fp.ToleranceError, fp.UnsupportedError):
        true = case.asked(fp.Conditional(rtol=2e-4, seed=2**40, points=2**24))
    alphas, joint, off, wide = 0, 0, [], []
    for seed in range(seeds):
        try:
            found = case.asked(fp.Conditional(rtol=rtol, seed=seed))
        except fp.ToleranceError:
            continue
        a, slack = found.alpha, true.alpha.half_width
        alphas += a.low - slack <= true.alpha.value <= a.high + slack
        joint += np.all(np.abs(found.bias - true.bias) <= found.half_width + true.half_width)
        off.append(a.value - true.alpha.value)
        wide.append(a.half_width)
    return alphas, joint, len(wide), float(np.median(wide) / np.sqrt(np.mean(np.square(off)))), true


@pytest.mark.long
@pytest.mark.parametrize("name", REGIMES)
def test_whole_answers_cover_over_seeds(name):
    alphas, joint, answers, ratio, _ = covered(name, SEEDS)
    assert answers >= 0.9 * SEEDS
    assert min(alphas, joint) >= binom.ppf(1 / 3000, answers, 0.95)
    assert ratio <= 8


if __name__ == "__main__":
    for regime in sys.argv[2:] or REGIMES:
        start, number = time.process_time(), int(sys.argv[1])
        alphas, joint, answers, ratio, true = covered(regime, number)
        said = f"of {answers} answers: alpha {alphas / answers:.3f}  joint {joint / answers:.3f}  median half-width over rms error {ratio:.1f}"
        print(
            f"{regime:32} {said}  against {true.method}, {(time.process_time() - start) / number:.2f} s a seed",
            flush=True,
        )
