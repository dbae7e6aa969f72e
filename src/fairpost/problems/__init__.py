"""P: what the counts are used for, and so what a post-processed output is compared with.

`base` has the counts themselves and shares in proportion, `programme` laws. Knows noise only as what a base is published with.
"""

from fairpost.problems.base import Problem, Proportional, Release
from fairpost.problems.programme import Programme

__all__ = ["Problem", "Programme", "Proportional", "Release"]
