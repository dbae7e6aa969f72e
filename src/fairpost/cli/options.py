"""The options of a command, made from the fields of what it asks (`study/parts.py`), and what a command keeps while it runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from fairpost.counts import Counts
from fairpost.errors import ParameterError
from fairpost.fields import Field, Part, all_fields
from fairpost.results.audit import warnings_of
from fairpost.study import Study, parts
from fairpost.study.study import ARGUMENTS

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=Study)
Given = dict[str, Any]
NOTES = "fairpost.notes"
"""Where the context of a command keeps its notes."""
TYPES: dict[type, click.ParamType[Any]] = {float: click.FLOAT, int: click.INT, str: click.STRING}
SAVE = click.option("--save", metavar="FILE.toml", help="The question as a file for `fairpost run`; no count is in it.")


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order of the help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option(field: Field) -> Callable[[F], F]:
    """The option of a field; what is not typed stays at the default of the field."""
    help = field.help + (f"  [default: {field.default}]" if field.shown else "")
    flags = [*(field.flags or [field.option]), field.name]
    if field.kind is bool:
        return click.option(*flags, is_flag=True, help=help)
    kind = click.Choice(field.choices) if field.choices else TYPES[field.kind]
    metavar = field.metavar or ("PATH" if field.path else None)
    several = {"multiple": True} if field.size == 0 else {"nargs": field.size or 1, "default": None}
    return click.option(*flags, type=kind, metavar=metavar, help=help, **several)


def options(kind: type[Part], *names: str) -> Callable[[F], F]:
    """The options of a part (of these fields), in the order of their declaration."""
    chosen = [field for field in all_fields(kind) if field.name not in ARGUMENTS]
    return together(*(option(field) for field in chosen if not names or field.name in names))


COLUMNS = together(options(parts.Table, "id", "count", "weight", "group"), options(parts.Reading))
LEVELS = options(parts.Levels)
CSV_SAFE = options(parts.Output, "csv_safe")


def typed(given: Mapping[str, Any]) -> Given:
    """What was typed."""
    return {name: one for name, one in given.items() if one is not None and one is not False and one != ()}


def asks(kind: type[S]) -> Callable[[Callable[[S, Given], int]], click.Command]:
    """A command whose options are the fields of a study, and which gets that study, with what is about files as a table."""

    def decorate(work: Callable[[S, Given], int]) -> click.Command:
        def called(save: str | None, **given: Any) -> int:
            study = kind.from_flat(typed(given))
            return work(study, flat(study, save))

        called.__doc__ = work.__doc__
        command = click.command(str(kind.__struct_config__.tag))(together(options(kind), SAVE)(called))
        command.params[:0] = [_argument(field) for field in all_fields(kind) if field.name in ARGUMENTS]
        command.answers = work  # type: ignore[attr-defined]
        return command

    return decorate


def _argument(field: Field) -> click.Argument:
    several = field.size == 0
    kind = click.Path(path_type=str, allow_dash=not several)
    return click.Argument([field.name], nargs=-1 if several else 1, required=True, type=kind)


def flat(study: Study, save: str | None = None) -> Given:
    """The fields of a study by name, as code takes them that knows options; `save`: where the study itself is to be written."""
    found = study.flat()
    rule = found.get("rule", found.get("rules", ()))
    old = {"method": found.get("engine"), "postprocess": rule, "kind": found.get("mechanism")}
    return found | old | {"save": save, "study": study}


def as_typed(message: str, command: click.Command) -> str:
    """A message of a field, in which the option stands as it was typed; one that begins with a file is about a key in it."""
    if message.partition("`")[0].endswith(": "):
        return message
    for one in command.params:
        if isinstance(one, click.Option):
            flag = next((flag for flag in one.opts if flag in sys.argv), one.opts[0])
            message = message.replace(f"`{one.name}`", flag)
    return message


# -- notes, and what is said of the data ----------------------------------------------------------------------------


def note(line: str) -> None:
    """A note about how a file was read; said at the end of a command that succeeds, since a failure is one line."""
    click.get_current_context().find_root().meta.setdefault(NOTES, []).append(line)


def say_notes(ctx: click.Context) -> None:
    """The notes of a command, each once, on stderr."""
    from fairpost.cli.screen import remark

    for line in dict.fromkeys(ctx.find_root().meta.pop(NOTES, [])):
        remark(f"note: {line}")


def warn(counts: Counts) -> None:
    """One line on stderr for each thing about the counts that is probably not meant."""
    from fairpost.cli.screen import remark

    for line in warnings_of(counts):
        remark(f"warning: {line}.")


def source_of(file: str) -> str:
    """What a page calls the data: the file's name."""
    return "standard input" if file == "-" else Path(file).name


def reading(given: Given) -> Given:
    """How FILE is to be read; notes go to stderr."""
    return {field.name: given[field.name] for field in all_fields(parts.Reading)} | {"say": note}


def columns(given: Given) -> Given:
    """The keyword arguments of the readers."""
    named = {name: given.get(name) for name in ("id", "count", "weight", "group", "base")}
    return {k: v for k, v in named.items() if v is not None} | reading(given)


def command_line() -> str:
    """What was typed, for the provenance."""
    return shlex.join(["fairpost", *sys.argv[1:]]).encode(errors="backslashreplace").decode()


def refuse_unknown(study: Study, given: Given) -> None:
    """An output that the study's command does not have is refused by name."""
    known = {field.name for field in all_fields(type(study))}
    for name in given:
        if name not in known:
            raise ParameterError(f"--{name.replace('_', '-')} is no output of `{study.name}`, got {given[name]!r}")
