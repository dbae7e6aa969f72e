"""`fairpost programmes`: the laws that come with the package."""

from __future__ import annotations

import click

from fairpost.cli import screen
from fairpost.cli.outputs import to_stdout
from fairpost.problems.programme import NAMES, builtin, builtin_text


@click.command()
@click.argument("name", required=False)
def programmes(name: str | None) -> int:
    """The laws that come with the package; with NAME its TOML, to start a law of one's own from.

    \b
    Example: a law of one's own
      fairpost programmes title1-targeted > mine.toml
      fairpost audit districts.csv --count poor_5_17 --base pop_5_17 \\
          --programme mine.toml --epsilon 0.1 --budget 4.2e9
    """
    if name is not None:
        to_stdout(builtin_text(name))
        return 0
    out = screen.console()
    rows = []
    for known in NAMES:
        law = builtin(known)
        pays = {"decision": "a decision", "seats": f"{law.seats} seats"}.get(law.unit, "shares of an appropriation")
        rows.append((known, law.law, pays, "count, base" if law.rates else "count"))
    screen.show(out, screen.Grid("Laws", ("name", "law", "what it gives", "columns"), rows))
    screen.say(
        out, "`fairpost programmes NAME` prints one as TOML; --programme takes a name or a TOML file.", style="dim"
    )
    return 0
