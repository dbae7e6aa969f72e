"""`fairpost budget`: make a privacy budget, look at it, check it."""

from __future__ import annotations

import json
from typing import Any

import click

from fairpost.errors import LedgerError
from fairpost.release import Ledger
from fairpost.release.amounts import rounded, text
from fairpost.release.ledger import MEASURES, NEIGHBOURS
from fairpost.release.reading import text_of

LEDGER = click.argument("ledger", type=click.Path(path_type=str))
TO_STDOUT = click.option("--json", "json_", type=click.Choice(["-"]), help="As JSON, to stdout.")


@click.group()
def budget() -> None:
    """A privacy budget on disk: create it once, then every release is charged to it.

    \b
    Example: all releases of one year's counts together keep epsilon 1
      fairpost budget create poverty.ledger --unit child \\
          --dataset "Poor children by district, 2019" \\
          --neighbours add-remove --measure pure --limit 1
    """


@budget.command()
@LEDGER
@click.option("--dataset", required=True, metavar="NAME", help="What the counts are about; published.")
@click.option("--unit", required=True, help="Who is protected, such as child or household; published.")
@click.option(
    "--neighbours", type=click.Choice(NEIGHBOURS), required=True, help="A unit is there or not, or is another."
)
@click.option("--measure", type=click.Choice(MEASURES), required=True, help="pure adds up epsilon, zcdp adds up rho.")
@click.option("--limit", required=True, help="Epsilon (pure), rho (zcdp) or, with --limit-delta, epsilon: 1, 0.5, 1/3.")
@click.option("--limit-delta", metavar="DELTA", help="zcdp: the limit is (epsilon, delta), turned into rho.")
def create(ledger: str, **given: Any) -> int:
    """Make LEDGER, readable by its owner only.

    \b
    Example: all releases of one year's counts together keep epsilon 1
      fairpost budget create other.ledger --unit child \\
          --dataset "Poor children by district, 2020" \\
          --neighbours add-remove --measure pure --limit 1
    """
    made = Ledger.create(ledger, **given)
    t = made.terms
    click.echo(f"{ledger}: a budget of {t.letter} {text(t.limit)} for {t.dataset} ({t.unit}, {t.neighbours})")
    return 0


def overview(ledger: Ledger) -> dict[str, Any]:
    """What `show` says."""
    t, found = ledger.terms, ledger.verify()
    _fail(str(ledger.path), found.problems)
    spent = ledger.spent
    return {
        "dataset": t.dataset,
        "unit": t.unit,
        "neighbours": t.neighbours,
        "measure": t.measure,
        "limit": text(t.limit),
        "limit_given": dict(t.limit_given),
        "spent": text(spent),
        "spent_rounded_up": rounded(spent, up=True),
        "left": text(t.limit - spent),
        "left_rounded_down": rounded(t.limit - spent, up=False),
        "entries": found.entries,
        "notes": found.notes,
    }


@budget.command()
@LEDGER
@TO_STDOUT
def show(ledger: str, json_: str | None) -> int:
    """Limit, spent (rounded up), left (rounded down), and what was charged and is not finished.

    \b
    Example: what is left
      fairpost budget show poverty.ledger
    """
    book = Ledger.open(ledger)
    data = overview(book)
    if json_:
        click.echo(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        letter = book.terms.letter
        click.echo(f"{data['dataset']}: {data['unit']}, {data['neighbours']}, {data['measure']}")
        click.echo(f"limit  {letter} {data['limit']}" + _given(data["limit_given"], letter))
        click.echo(f"spent  {data['spent_rounded_up']}" + _exact(data["spent"], data["spent_rounded_up"]))
        click.echo(f"left   {data['left_rounded_down']}" + _exact(data["left"], data["left_rounded_down"]))
        for note in data["notes"]:
            click.echo(note)
    return 0


def _given(limit: dict[str, str], letter: str) -> str:
    words = ", ".join(f"{k} {v}" for k, v in limit.items())
    return "" if set(limit) == {letter} else f"  (from {words})"


def _exact(ratio: str, shown: str) -> str:
    return "" if ratio == shown else f"  (exactly {ratio})"


def _fail(ledger: str, problems: list[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise LedgerError(f"{ledger}: the ledger fails its check: {problems[0]}{more}")


@budget.command()
@LEDGER
@TO_STDOUT
def history(ledger: str, json_: str | None) -> int:
    """Every entry, oldest first.

    \b
    Example: who was charged what
      fairpost budget history poverty.ledger
    """
    book = Ledger.open(ledger)
    book.demand()
    entries = book.entries()
    if json_:
        rows = [{**vars(e), "body": {k: v for k, v in e.body.items() if k != "secret"}} for e in entries]
        click.echo(json.dumps({"entries": rows}, indent=1, ensure_ascii=False))
        return 0
    for e in entries:
        b = e.body
        what = {
            "open": lambda b=b: f"limit {b['limit']}, {b['dataset']}",
            "charge": lambda b=b: f"{b['loss']} for {b['request']['name'] or 'a table'}, spent {b['spent']}",
            "done": lambda b=b: f"published{'' if b['folder'] is None else ' in ' + b['folder']}",
        }[e.kind]()
        again = f" (again: {b['request']['again']})" if e.kind == "charge" and b["request"]["again"] else ""
        key = e.key[:12] if e.kind == "charge" else b.get("of", "")[:12]
        click.echo(f"{e.seq:>5}  {b['time']}  {e.kind:<6}  {key:<12}  {what}{again}")
    return 0


@budget.command()
@LEDGER
@click.argument("statements", nargs=-1, type=click.Path(path_type=str))
def verify(ledger: str, statements: tuple[str, ...]) -> int:
    """Check the chain and the sums, and that every published STATEMENT is in it.

    Statements find what a chain alone cannot: a tail that was cut, an old copy that was restored.

    \b
    Example: the ledger alone
      fairpost budget verify poverty.ledger
    """
    texts = {name: text_of(name) for name in statements}
    found = Ledger.open(ledger).verify(texts)
    for line in (*found.problems[1:], *found.notes):
        click.echo(line)
    _fail(ledger, found.problems)
    said = f" and {len(texts)} statements" if texts else ""
    click.echo(f"{ledger}: {found.entries} entries{said}: the chain and the sums hold")
    return 0
