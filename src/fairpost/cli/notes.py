"""Notes about how a file was read, kept with the command and said at its end."""

from __future__ import annotations

import click

NOTES = "fairpost.notes"
"""Where the context of a command keeps its notes."""


def note(line: str) -> None:
    """A note about how a file was read; said at the end of a command that succeeds, since a failure is one line."""
    click.get_current_context().find_root().meta.setdefault(NOTES, []).append(line)


def say_notes(ctx: click.Context) -> None:
    """The notes of a command, each once, on stderr."""
    from fairpost.cli.layout import remark

    for line in dict.fromkeys(ctx.find_root().meta.pop(NOTES, [])):
        remark(f"note: {line}")
