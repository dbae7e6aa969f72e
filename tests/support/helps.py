"""Every command, and what its --help says at 80 columns."""

import click
from click.testing import CliRunner

from fairpost.cli import main
from fairpost.cli.main import COMMANDS


def every_command():
    yield ()
    for name in COMMANDS:
        yield (name,)
        made = main.get_command(click.Context(main), name)
        yield from ((name, sub) for sub in getattr(made, "commands", {}))


EVERY = list(every_command())


def help_of(words):
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, [*words, "--help"])
    assert done.exit_code == 0
    return done.output
