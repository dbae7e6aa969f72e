"""Closed formulas and one-dimensional integrals: every entity by itself, or shares of independent payments.

    releases    none, nonnegative, sum, sum-clipped: no quadrature at all
    baseline    shares of clipped counts: one integral over the factor of each entity
    programme   payments under a law, alone or shared pro rata: the same integral with the law's own factors
    method      the three as one `Method`

What lives here knows rules, noises and quadrature; nothing here simulates.
"""
