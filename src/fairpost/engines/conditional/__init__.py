"""Conditional means: `law` and `integrand` say what is averaged, `points` where, `intervals` how well the averages are known.

The integrand knows rules and noises and nothing of points; points and intervals know nothing of rules.
"""
