"""Walks over whole numbers: noises in a ball."""
