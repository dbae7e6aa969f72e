"""The command line: `fairpost audit`, `plan`, `sweep`, `project`, `allocate`, `paper`, `demo`."""

from fairpost.cli.main import main

__all__ = ["main"]
