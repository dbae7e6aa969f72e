"""Choosing epsilon: the most privacy at which the harm of post-processing stays below a limit.

Every level of noise between two ends is looked at, and the place where the limit is met is found between them. The limit
is checked against the upper end of each interval, so the numerical error is on the safe side.
"""

import fairpost as fp
from fairpost.datasets import hawaii

counts = hawaii()
for rule in ("nonnegative", "simplex"):
    plan = fp.plan(
        counts,
        fp.Laplace,
        rule,
        max_alpha=1.0,  # no two counties may differ by more than one household in what they gain
        spreads=[1.0, 5.0, 25.0, 125.0],
        epsilon=lambda noise: noise.epsilon(),
    )
    print(f"{rule}: epsilon {plan.found.epsilon:.5f} keeps alpha at {plan.found.alpha.value:.5f} households")
    print(f"    {plan.message}")

curve = fp.sweep(counts, [fp.Laplace.from_epsilon(e) for e in (0.01, 0.1, 1.0)], ["simplex"])
print(curve)
