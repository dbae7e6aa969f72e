"""The group of commands, and the one place where an error becomes one line and an exit code."""

from __future__ import annotations

import codecs
import difflib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import cleandoc
from typing import Any

import click

import fairpost as fp
from fairpost.cli import interrupts
from fairpost.errors import LedgerError, UnfinishedError

COMMANDS = {
    "audit": "auditing",
    "plan": "planning",
    "sweep": "planning",
    "check": "checking",
    "project": "noisy",
    "allocate": "noisy",
    "run": "running",
    "programmes": "shown",
    "release": "releasing",
    "budget": "budgeting",
    "paper": "shown",
    "demo": "shown",
    "explore": "exploring",
    "compile": "compiling",
}
"""Each command and the module that has it; a module is loaded when its command is called."""

HELP = """Measure, bound and remove the unfairness that post-processing adds to private counts.

\b
With the true counts (confidential), before a release:
  audit     who gains and who loses from a post-processing, and how much
  plan      the smallest epsilon that keeps the harm below a limit
  sweep     the harm against epsilon
With the true counts and what was published:
  check     who gained and lost in real releases, and what noise explains
To publish:
  budget    make a privacy budget, look at it, check it
  release   charge the budget, draw the noise, post-process, publish
With noisy counts alone:
  project   noisy counts to counts that are not negative and add up
  allocate  noisy counts to shares of a budget, with intervals
Again, from a file:
  run       a question that was kept with --save, asked again
Laws with thresholds and brackets:
  programmes  the laws in the package, or one as TOML to start from
Live, on this machine:
  explore   a page to move epsilon on and see who pays
To see it work:
  demo      the main job on embedded data, with a report to open
  paper     every table and figure of the paper, published value beside ours
Once on a machine:
  compile   every kernel at once, so that no later command waits for it

\b
Exit codes: 0 done; 2 the input or an option breaks a rule, which one line
on stderr names, or no command was given; 3 no answer (an engine refuses, no
epsilon meets the target, a release does not fit its budget); 4 a release is
charged and not finished; 5 a ledger or its release fails its check;
130 interrupted; 141 nobody reads stdout.
"""


EXAMPLE = "\b\nExample"
"""How the example begins that ends the text of a command."""


def _example_last(command: click.Command) -> click.Command:
    """The command with its example below the options, where help ends, and -h as well as --help; the same for its commands."""
    command.context_settings.setdefault("help_option_names", ["-h", "--help"])
    text, mark, example = cleandoc(command.help or "").partition(EXAMPLE)
    if mark and command.epilog is None:
        command.help, command.epilog = text.rstrip(), f"{mark}{example}"
    for one in command.commands.values() if isinstance(command, click.Group) else ():
        _example_last(one)
    return command


class ClosedPipe(Exception):
    """Nobody reads stdout any more."""


class Commands(click.Group):
    """The commands, loaded when called; every error of the package ends in one line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the module that has it."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"fairpost.cli.{COMMANDS[cmd_name]}")
        command = getattr(module, "compile_" if cmd_name == "compile" else cmd_name)
        assert isinstance(command, click.Command)
        return _example_last(command)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """A command that is not there is named with the one that may have been meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help text lists them already."""

    def invoke(self, ctx: click.Context) -> Any:
        """Notes come last; a message names options as they were typed. A closed pipe passes under another name: click would end it with 1."""
        try:
            code = super().invoke(ctx)
            if ctx.meta.get("fairpost.notes"):
                from fairpost.cli.options import say_notes

                say_notes(ctx)
        except BrokenPipeError:
            raise ClosedPipe from None
        except fp.InputError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            if command is not None and hasattr(command, "answers"):
                from fairpost.cli.options import as_typed

                error.args = (as_typed(str(error), command),)
            raise
        return code

    def _done(self, *args: Any, **extra: Any) -> Any:
        """The exit code. A group without a command says its help on stdout, with click's code for a command that is missing."""
        try:
            return super().main(*args, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            return 2

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, and end with the exit code that the help documents."""
        extra["standalone_mode"] = False
        _speak_as_the_terminal()
        try:
            with interrupts.noticed(), _compiling(args, extra):
                code = self._done(*args, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            place = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fairpost"
            _end(2, f"{place}: {' '.join(error.format_message().split())}")
        except fp.InputError as error:
            _end(2, f"fairpost: {error}")
        except UnfinishedError as error:
            _end(4, f"fairpost: {error}")
        except LedgerError as error:
            _end(5, f"fairpost: {error}")
        except fp.FairpostError as error:
            _end(3, f"fairpost: {error}")
        except (KeyboardInterrupt, click.Abort):
            _end(130, "fairpost: interrupted, nothing was written")
        except (BrokenPipeError, ClosedPipe):
            _give_up_stdout()
            _end(141, "")
        except OSError as error:
            _give_up_stdout()
            place = f" ({error.filename})" if error.filename else ""
            _end(3, f"fairpost: the system refuses to read or write: {error.strerror or type(error).__name__}{place}")
        except MemoryError:
            _end(2, "fairpost: the input must fit into the memory of this machine, and does not")
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _compiling(args: Any, extra: Any) -> Iterator[None]:
    """Commands say that they compile; `compile` has a bar of its own, and help has nothing to say it of."""
    words = (args[0] if args else extra.get("args")) or sys.argv[1:]
    if not words or words[0] in ("compile", "-h", "--help", "--version"):
        yield
        return
    from fairpost.cli.compiling import said

    with said():
        yield


def _speak_as_the_terminal() -> None:
    """What the encoding of stdout or stderr lacks is shown by what is near to it (a minus stays one), and is no error."""
    codecs.register_error("fairpost.plain", _plain)
    if sys.stdout is None:  # closed by whoever started us: what is written there fails as on a full disk
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="fairpost.plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    from fairpost.report.text import plain

    return plain(error.object[error.start : error.end]), error.end


def _give_up_stdout() -> None:
    """Nobody reads it, or it is full: what is still buffered goes nowhere, so that the end of the process is silent."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(code: int, line: str) -> None:
    if line:
        from fairpost.report.text import clean

        with suppress(OSError):
            click.echo(clean(line), err=True)
    sys.exit(code)


@click.group(
    cls=Commands,
    help=HELP,
    epilog="\b\nExample: the main job on embedded data\n  fairpost demo",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(fp.__version__, prog_name="fairpost")
def main() -> None:
    """See HELP."""
