"""`fairpost budget`: make a privacy budget, look at it, check it."""

from __future__ import annotations

import json
from typing import Any

import click

from fairpost.cli.options import together
from fairpost.cli.outputs import to_stdout
from fairpost.errors import LedgerError, ParameterError
from fairpost.release import Ledger
from fairpost.release.amounts import rounded
from fairpost.release.invariants import SMALLEST
from fairpost.release.ledger import MEASURES, NEIGHBOURS
from fairpost.report.text import clean

LEDGER = click.argument("ledger", type=click.Path(path_type=str))
TO_STDOUT = click.option("--json", "json_", type=click.Choice(["-"]), help="As JSON, to stdout.")
PARTS = together(
    click.option("--exact-by", metavar="COL", help="The totals of the parts of this column of --rows are exact."),
    click.option(
        "--levels", metavar="NAME:LENGTH,...|COL,...", help="With --exact: the tree, as in `fairpost release`."
    ),
    click.option("--exact", metavar="LEVEL", help="The levels of the tree down to this one are exact."),
    click.option(
        "--rows", type=click.Path(path_type=str), metavar="FILE", help="The list of rows: ids and public columns."
    ),
    click.option("--id", default="id", show_default=True, metavar="COL", help="The ids, in releases and in --rows."),
)


@click.group()
def budget() -> None:
    """A privacy budget on disk: create it once, then every release is charged to it.

    \b
    Example: all releases of one year's counts together keep epsilon 1
      fairpost budget create poverty.ledger --unit child \\
          --dataset "Poor children by district, 2019" \\
          --neighbours add-remove --measure pure --limit 1 \\
          --other-ledgers none --id leaid
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
@click.option(
    "--other-ledgers", required=True, metavar="TEXT", help="Which other ledgers hold the same data, or none; published."
)
@click.option(
    "--public",
    multiple=True,
    metavar="COL",
    help="A column that releases may use: weights, groups, labels, conditions.",
)
@click.option("--exact-total", is_flag=True, help="The total of all rows is exact in the releases.")
@PARTS
@click.option("--exact-source", metavar="TEXT", help="Where what is exact is published, or why it is exact; published.")
@click.option("--smallest-part", type=int, default=SMALLEST, show_default=True, help="Rows of a part, at least.")
def create(ledger: str, **given: Any) -> int:
    """Make LEDGER, readable by its owner only.

    What is exact in the releases is said here, once: the total of all rows, the totals of the parts of one column, or the levels
    of one tree. It needs --neighbours replace, --exact-source and --rows, a public list of rows without counts.

    \b
    Example: all releases of one year's counts together keep epsilon 1
      fairpost budget create other.ledger --unit child \\
          --dataset "Poor children by district, 2020" \\
          --neighbours add-remove --measure pure --limit 1 \\
          --other-ledgers none --id leaid
    """
    made = Ledger.create(ledger, **given)
    t = made.terms
    click.echo(f"{ledger}: a budget of {t.letter} {t.limit} for {t.dataset} ({t.unit}, {t.neighbours})")
    if t.invariants is not None:
        parts = made.parts()
        click.echo(f"exact: {t.invariants.what}: {len(parts):,} parts, {sum(n for n, _ in parts.values()):,} rows")
    return 0


@budget.command()
@LEDGER
@PARTS
def append(ledger: str, **given: Any) -> int:
    """Bind new rows to LEDGER, in parts of their own. --rows is the whole list, in which rows that are bound stay in their parts.

    \b
    Example: a ledger with exact totals of states, and a new state
      fairpost budget create states.ledger --unit child \\
          --dataset "Poor children by district, 2020" \\
          --neighbours replace --measure pure --limit 1 \\
          --other-ledgers none --exact-by state --rows list.csv \\
          --exact-source "SAIPE 2020, state estimates"
      fairpost budget append states.ledger --rows longer-list.csv --exact-by state
    """
    rows, by = given.pop("rows"), given.pop("exact_by")
    if rows is None:
        raise ParameterError("new parts need --rows, the whole public list of rows without counts, got none")
    many = Ledger.open(ledger).append(rows, by=by, **given)
    click.echo(f"{ledger}: {many:,} new parts")
    return 0


def overview(ledger: Ledger) -> dict[str, Any]:
    """What `show` says."""
    found, spent = ledger.demand(), ledger.spent
    left = ledger.terms.limit - spent
    return ledger.terms.body() | {
        "spent": str(spent),
        "spent_rounded_up": rounded(spent, up=True),
        "left": str(left),
        "left_rounded_down": rounded(left, up=False),
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
        to_stdout(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    else:
        letter = book.terms.letter
        click.echo(f"{data['dataset']}: {data['unit']}, {data['neighbours']}, {data['measure']}")
        click.echo(f"limit  {letter} {data['limit']}" + _given(data["limit_given"], letter))
        click.echo(f"spent  {data['spent_rounded_up']}" + _exact(data["spent"], data["spent_rounded_up"]))
        click.echo(f"left   {data['left_rounded_down']}" + _exact(data["left"], data["left_rounded_down"]))
        click.echo(f"exact  {'nothing' if book.terms.invariants is None else book.terms.invariants.what}")
        click.echo(f"public columns  {', '.join(data['public']) or 'the ids alone'}")
        click.echo(f"other ledgers   {data['other_ledgers']}")
        for note in data["notes"]:
            click.echo(note)
    return 0


def _given(limit: dict[str, str], letter: str) -> str:
    words = ", ".join(f"{k} {v}" for k, v in limit.items())
    return "" if set(limit) == {letter} else f"  (from {words})"


def _exact(ratio: str, shown: str) -> str:
    return "" if ratio == shown else f"  (exactly {ratio})"


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
        to_stdout(json.dumps({"entries": rows}, indent=1, ensure_ascii=False) + "\n")
        return 0
    for e in entries:
        b = e.body
        match e.kind:
            case "open":
                what = f"limit {b['limit']}, {b['dataset']}"
            case "rows":
                what = f"{len(b['parts']):,} parts bound, {sum(n for n, _ in b['parts'].values()):,} rows"
            case "values":
                what = f"exact totals of {len(b['values']):,} parts fixed"
            case "charge":
                what = f"{b['loss']} for {b['request']['name'] or 'a table'}, spent {b['spent']}"
            case "done":
                what = f"published{'' if b['folder'] is None else ' in ' + b['folder']}"
            case _:
                what = f"published again in {b['folder']}"
        again = f" (again: {b['request']['again']})" if e.kind == "charge" and b["request"]["again"] else ""
        key = e.key[:12] if e.kind == "charge" else b.get("of", "")[:12]
        click.echo(clean(f"{e.seq:>5}  {b['time']}  {e.kind:<6}  {key:<12}  {what}{again}"))
    return 0


@budget.command()
@LEDGER
@click.argument("published", nargs=-1, type=click.Path(path_type=str), metavar="[FOLDER|STATEMENT]...")
def verify(ledger: str, published: tuple[str, ...]) -> int:
    """Check the chain and the sums, and that all that was published is as it was.

    Of the FOLDER of a release every file is checked, of a STATEMENT itself and the table beside it. They also find what a
    chain alone cannot: a tail that was cut, an old copy that was restored.

    \b
    Example: the ledger alone
      fairpost budget verify poverty.ledger
    """
    found = Ledger.open(ledger).verify(published=published)
    for line in (*found.problems[1:], *found.notes):
        click.echo(clean(line))  # the names of files that anybody may have put there
    if found.problems:
        raise LedgerError(f"{ledger}: the check fails: {found.first}")
    said = f"; what was published is as it was ({len(published)})" if published else ""
    click.echo(f"{ledger}: {found.entries} entries: the chain and the sums hold{said}")
    return 0
