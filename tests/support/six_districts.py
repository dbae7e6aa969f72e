"""Six districts, their money and noise."""

import fairpost as fp

MONEY = 54321.0
X = fp.Counts(
    [0, 11, 47, 190, 820, 65],
    ids=["007", "008", "009", "010", "011", "012"],
    names=["Ash", "Birch", "Cedar", "Dogwood", "Elm", "Fir"],
    weights=[1.3, 0.7, 1.1, 0.9, 1.7, 0.5],
    groups=["n", "s", "n", "s", "s", "n"],
)
NOISE = fp.Laplace(8.0)
