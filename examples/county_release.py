"""A county release: who gains and who loses when noisy counts are cleaned up before publication.

Hawaii has five counties; Kalawao has 53 households. Noise makes a small count negative now and then. Clipping it at 0
lifts the expected count of the small county; projecting onto the known total lifts it less, and takes it from the others.
"""

import fairpost as fp
from fairpost.datasets import hawaii

counts = hawaii()
noise = fp.Laplace.from_epsilon(0.1)  # scale 10: one household more or less changes one count by 1

found = fp.compare(counts, noise, ["nonnegative", "simplex"])
print(found)

for result in found:
    gains, loses = result.alpha_pair
    print(f"{result.postprocess}: alpha is {result.alpha.value:.6f} households, {gains} gains most, {loses} loses most")

clean = fp.project(
    [49.5, 22570.25, 54371.0, 67060.75, 311449.5], total=counts.total, ids=counts.ids, round=True, seed=1
)
print(f"A clean release: {clean.astype(int).tolist()}, which adds up to {clean.sum():,.0f}")
