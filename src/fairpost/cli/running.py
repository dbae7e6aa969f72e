"""`fairpost run`: a question that was kept in a file, asked again."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from msgspec import structs

from fairpost.cli import options as o
from fairpost.cli.main import COMMANDS
from fairpost.study import parts, read_study


@click.command()
@click.argument("study", type=click.Path(path_type=str))
@o.options(parts.AuditOutput)
def run(study: str, **given: Any) -> int:
    """Ask the question of a STUDY, a TOML file that --save has written, or an office by hand.

    Names of files in it are as seen from the file. What is typed here about outputs comes before what its [output] says.

    \b
    Example: the same audit every year
      fairpost audit districts.csv --epsilon 0.1 --budget 6.5e9 --save study.toml
      fairpost run study.toml --html report.html
    """
    asked: Any = read_study(study)
    typed = o.typed(given)
    o.refuse_unknown(asked, typed)
    asked = structs.replace(asked, output=structs.replace(asked.output, **typed))
    command = getattr(import_module(f"fairpost.cli.{COMMANDS[asked.name]}"), asked.name)
    return int(command.answers(asked, o.flat(asked)))
