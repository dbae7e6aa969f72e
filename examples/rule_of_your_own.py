"""A rule of your own: a function, a class, and noise that fairpost does not know.

A function is enough; say which problem it answers. A class can do more, such as work on many draws at once. Noise needs
its variance and a sampler. All three are simulated, with intervals that cover.
"""

from dataclasses import dataclass

import numpy as np

import fairpost as fp
from fairpost.noise import Mechanism
from fairpost.problems import Problem, Release
from fairpost.rules import Outcome, PostProcessing

counts = fp.Counts([3, 40, 500], ids=["small", "middle", "large"])
floor = fp.Custom(lambda noisy: np.maximum(noisy, 1) / np.maximum(noisy, 1).sum(), fp.Proportional(), "at least one")


class Suppress(PostProcessing):
    name = "suppress"  # counts below 10 are not published
    problem: Problem = Release()

    def _apply(self, rows):
        return Outcome(np.where(rows < 10, 0.0, rows), degenerate=0)


@dataclass(frozen=True)
class Triangle(Mechanism):
    width: float

    variance = property(lambda self: self.width**2 / 6)

    def sample(self, n, stream):
        return np.random.default_rng((stream.seed, stream.run)).triangular(-self.width, 0.0, self.width, n)


for noise in (fp.Laplace(5.0), Triangle(12.0)):
    print(fp.compare(counts, noise, [Suppress(), floor], engine="monte-carlo", runs=4000, seed=1))
