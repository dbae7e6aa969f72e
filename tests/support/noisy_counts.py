"""Five noisy counts in two groups, some below 0."""

import fairpost as fp

NOISY = [-4.5, 7.25, 9.5, 3.5, -0.25]
GROUPS = list("aaabb")
NOISE = fp.Laplace(2.0)
