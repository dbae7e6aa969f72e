"""Walks over whole numbers: noises in a ball, and laws that are folded."""
