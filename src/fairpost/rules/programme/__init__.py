"""Post-processings that put noisy counts into a law."""

from fairpost.rules.programme.base import Paying
from fairpost.rules.programme.rules import AsWritten, Levelled, NoLoss, Signed

__all__ = ["AsWritten", "Levelled", "NoLoss", "Paying", "Signed"]
