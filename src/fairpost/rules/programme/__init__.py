"""Post-processings that put noisy counts into a law."""

from fairpost.rules.programme.paying import AsWritten, Levelled, NoLoss, Paying, Signed

__all__ = ["AsWritten", "Levelled", "NoLoss", "Paying", "Signed"]
