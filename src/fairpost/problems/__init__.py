"""P: what the counts are used for, and so what a post-processed output is compared with."""

from fairpost.problems.base import Problem
from fairpost.problems.programme import Programme
from fairpost.problems.proportional import Proportional
from fairpost.problems.release import Release

__all__ = ["Problem", "Programme", "Proportional", "Release"]
