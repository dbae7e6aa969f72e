"""`fairpost release`: noise that may be published, a charge to the ledger, a table with its statement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fairpost.cli import options as o
from fairpost.cli.hierarchies import typed_beside
from fairpost.cli.outputs import to_stdout
from fairpost.cli.plan_words import check_words
from fairpost.documents import toml_of
from fairpost.errors import BudgetError, FairpostError, InputError, ParameterError
from fairpost.release import About, Ledger, PublicTotal, Release, api, guard, protocol, release_noisy
from fairpost.release.amounts import rounded
from fairpost.release.ledger import NOT_STATED
from fairpost.release.request import CHOICES, CHOSEN
from fairpost.release.rules import RULES, TREE_RULES

PLAN_WORDS = {word.replace("_", "-"): word for word in (*api.REQUEST, *api.COLUMNS, "name", "file", "again")}
PLAN_WORDS["level-sigma"] = PLAN_WORDS.pop("sigmas")
ALWAYS = {"ledger", "out", "about", "json_"}
TAKES = {
    "from_noisy": (
        ALWAYS | {"from_noisy", "postprocess", "whole", "total", "total_source", "by_group", "chosen_from", "csv_safe"},
        "what was drawn is drawn, from the rows and columns of then",
    ),
    "plan": (ALWAYS | {"plan", "dry_run"}, "each table of the plan says what it is"),
}
"""The options beside --from-noisy and --plan; any other one would be left aside in silence."""


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=str))
@click.option("--ledger", type=click.Path(path_type=str), help="The budget; `fairpost budget create` makes one.")
@o.COLUMNS
@click.option(
    "--group-total", metavar="COL", help="Column with the exact total of each group, an invariant of the ledger."
)
@click.option("--epsilon", help="The loss, kept by discrete Laplace noise: 0.1, 1/3.")
@click.option("--rho", help="The loss, kept by discrete Gaussian noise; for a ledger of zcdp.")
@click.option(
    "--mechanism", type=click.Choice(["discrete-laplace", "discrete-gaussian"]), help="Follows from the loss."
)
@click.option(
    "--entities-per-person", type=int, default=1, show_default=True, help="In how many entities one unit is at most."
)
@o.LEVELS
@click.option(
    "--postprocess",
    type=click.Choice([*RULES, *TREE_RULES]),
    metavar="NAME",
    help=f"The rule: {', '.join(RULES)}; with --levels {', '.join(TREE_RULES)}.  [default: simplex; blue-down]",
)
@click.option("--round", "whole", is_flag=True, help="Whole numbers with all totals kept exactly, without bias.")
@click.option("--total", help="The total, typed; an invariant of the ledger.  [default: the noisy sum]")
@click.option("--total-source", metavar="TEXT", help="Where the total is published: the words of the ledger, if any.")
@click.option("--exact-total", is_flag=True, help="The true total (--by-group: totals), an invariant of the ledger.")
@click.option("--by-group", is_flag=True, help="Each group keeps its own total, or shares 1.")
@click.option(
    "--chosen-from",
    metavar="WORD|NAME=WORD,...",
    help=f"What was chosen from what, published: {', '.join(CHOSEN)}; names: {', '.join(CHOICES)}.",
)
@click.option("--accept-weak-protection", is_flag=True, help="Release although most counts come out true.")
@click.option(
    "--out", type=click.Path(path_type=str), metavar="DIR", help="The folder to make, with table and statement."
)
@o.CSV_SAFE
@click.option("--again", default="", metavar="LABEL", help="A second, independent draw; it has its own charge.")
@click.option("--from-noisy", metavar="KEY", help="Publish noise that is kept with another rule; no charge, no FILE.")
@click.option(
    "--plan", type=click.Path(path_type=str), metavar="TOML", help="Several tables, charged in one transaction."
)
@click.option(
    "--about", type=click.Path(path_type=str), metavar="TOML", help="Words for the registry: title, curator, ..."
)
@click.option("--dry-run", is_flag=True, help="Show the charge and what would be published; charge and draw nothing.")
@click.option("--self-test", is_flag=True, help="Test OpenDP's sampler: seven laws, 200,000 draws each or --draws.")
@click.option("--draws", type=click.IntRange(10_000, 100_000_000), help="Of each law in the self-test.")
@click.option("--json", "json_", type=click.Choice(["-"]), help="What was done, as JSON, to stdout.")
def release(file: str | None, **given: Any) -> int:
    """Publish a table of counts with differential privacy, from a FILE of true counts.

    The ledger is charged first, then OpenDP draws the noise; the same command again never draws again. DIR gets
    table.csv, statement.json, registry.yaml and dataset.jsonld, and nothing in them is computed from true counts, but for
    what the ledger lists as exact.

    \b
    Example: districts with a noisy total, in whole numbers
      fairpost release districts.csv --id leaid --count poor_5_17 \\
          --ledger poverty.ledger --epsilon 0.1 --round \\
          --chosen-from policy --out release
    """
    guard.harden()
    if given["self_test"]:
        return _self_test(given["draws"])
    if given["draws"] is not None:
        raise ParameterError(f"--draws is of the --self-test, got {given['draws']} without")
    try:
        with guard.stoppable():
            lines, data = guard.silently(lambda: _released(file, given))
    except guard.Stopped:
        raise KeyboardInterrupt from None
    if given["json_"]:
        to_stdout(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    else:
        for line in lines:
            click.echo(line)
    if given["dry_run"] and not all(table["fits"] for table in data["tables"]):
        raise BudgetError(f"{given['ledger']}: the loss does not fit into what is left; nothing was charged")
    return 0


def _released(file: str | None, given: o.Given) -> tuple[list[str], dict[str, Any]]:
    """The work; what to say about it."""
    asked = {"FILE": file, "--from-noisy": given["from_noisy"], "--plan": given["plan"]}
    ways = [name for name, value in asked.items() if value]
    if len(ways) != 1:
        raise ParameterError(
            f"a release is of one of FILE, --from-noisy and --plan, got {' and '.join(ways) or 'none'}"
        )
    for name in ("ledger", "out"):
        if given[name] is None and not (name == "out" and given["dry_run"]):
            raise ParameterError(f"a release needs --{name}, got none")
    for way, (takes, why) in TAKES.items():
        if given[way] and (typed := typed_beside(takes)):
            raise ParameterError(f"--{way.replace('_', '-')}: {why}, and options such as {typed} have no part")
    book = Ledger.open(given["ledger"])
    about = _about(given["about"])
    if given["from_noisy"]:
        words = {k: given[k] for k in ("postprocess", "by_group", "chosen_from", "out", "csv_safe")}
        words |= {"round": given["whole"], "total": _public(given), "about": about}
        return _said(book, [release_noisy(given["from_noisy"], book, **words)])
    if given["plan"]:
        jobs = api.plan_jobs(book, _tables(given["plan"]), None if given["dry_run"] else given["out"], about)
    else:
        jobs = [_job(book, file, given, about)]
    if given["dry_run"]:
        return _foreseen(book, jobs)
    return _said(book, protocol.run(book, jobs, say=lambda line: click.echo(line, err=True)))


def _job(book: Ledger, file: str | None, given: o.Given, about: About) -> protocol.Job:
    total: Any = given["total_source"] if given["group_total"] else _public(given)
    if given["exact_total"]:
        if given["total"] is not None or given["group_total"] is not None:
            raise ParameterError("a total is public or exact, got both")
        total = api.EXACT
    words = {k: given[k] for k in api.REQUEST if k in given}
    words |= {"round": given["whole"], "total": total, "sigmas": given["level_sigma"]}
    columns = o.columns(given) | ({"group_total": given["group_total"]} if given["group_total"] else {})
    return api.job_of(book, file, words, out=given["out"], again=given["again"], about=about, columns=columns)


def _public(given: o.Given) -> PublicTotal | None:
    if given["total_source"] is not None and given["total"] is None and not given["group_total"]:
        raise ParameterError("--total-source is of --total or --group-total, got it alone")
    return None if given["total"] is None else PublicTotal(given["total"], given["total_source"])


def _toml(path: str) -> dict[str, Any]:
    try:
        return toml_of(Path(path).read_text(encoding="utf-8"), parse_float=str)  # amounts stay texts
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {' '.join(str(error).split())[:200]}") from None


def _about(path: str | None) -> About:
    given = {} if path is None else _toml(path)
    for name, value in given.items():
        if name not in (known := vars(About())):
            raise InputError(f"{path}: {name!r} is not known; known are {', '.join(sorted(known))}")
        many = name == "authors"
        if not (isinstance(value, list) and all(isinstance(v, str) for v in value) if many else isinstance(value, str)):
            raise InputError(f"{path}: {name} must be {'a list of texts' if many else 'a text'}, got another thing")
    words: dict[str, Any] = {k: tuple(v) if k == "authors" else v for k, v in given.items()}
    return About(**words)


def _tables(path: str) -> list[dict[str, Any]]:
    """The tables of a plan: the file's own words hold for every [[table]] that does not say otherwise."""
    data = _toml(path)
    tables = data.pop("table", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise InputError(f"{path}: tables are written [[table]]")
    made = []
    for table in tables:
        words = {**data, **table}
        unknown = sorted(set(words) - set(PLAN_WORDS) - {"total-source"})
        if unknown:
            raise InputError(
                f"{path}: {unknown[0]!r} is not known; known are {', '.join(sorted(PLAN_WORDS))}, total-source"
            )
        check_words(path, words)
        source = words.pop("total-source", None)
        if "total" in words:
            words["total"] = words["total"] if words["total"] == api.EXACT else PublicTotal(words["total"], source)
        elif source is not None:
            words["total"] = source
        if "file" in words:
            words["file"] = str(Path(path).parent / str(words["file"]))
        made.append({PLAN_WORDS[k]: v for k, v in words.items()})
    return made


def _said(book: Ledger, done: list[Release]) -> tuple[list[str], dict[str, Any]]:
    """What was done, in lines and as data."""
    left, lines, tables = book.left, [], []
    for r in done:
        budget, folder = r.statement["budget"], None if r.folder is None else str(r.folder)
        charged = f"charged {budget['loss']} (entry {budget['entry']}); left {rounded(left, up=False)}"
        lines += [
            charged if r.fresh else f"no charge: the noise of entry {budget['entry']} was drawn before",
            f"{r.statement['table']['rows']:,} rows in {r.folder}; key {r.key}",
            *_unsaid(r.statement),
        ]
        tables.append({"key": r.key, "folder": folder, "charged": r.fresh, "statement": r.statement})
    return lines, {"left": str(left), "tables": tables}


def _unsaid(statement: dict[str, Any]) -> list[str]:
    """The choices of which nobody said what they were made from."""
    names = [name for name, word in statement["parameters_chosen"].items() if word == NOT_STATED]
    return [f"the statement says 'not stated' of: {', '.join(names)} (--chosen-from)"] if names else []


def _foreseen(book: Ledger, jobs: list[protocol.Job]) -> tuple[list[str], dict[str, Any]]:
    """What a dry run says."""
    lines, tables, asked = [], [], book.spent
    for job in jobs:
        seen = api.preview(book, job)
        asked += 0 if seen.charged_before else job.request.loss
        fits = asked <= book.terms.limit
        p = seen.statement["privacy"]
        charge = "nothing (the noise was drawn before)" if seen.charged_before else seen.loss
        lines += [
            f"would charge {charge}: limit {seen.limit}, spent {seen.spent}, left {seen.left}"
            + ("" if fits else "; it does not fit"),
            *(
                f"  {'noise' if 'hierarchy' not in p else 'level ' + v['name']}: {v['mechanism']} of scale {v['scale']}, "
                f"loss {v['loss']}, sensitivity {s['value']} ({s['norm']})"
                for v in p["levels"]
                for s in [v.get("sensitivity", p["sensitivity"])]
            ),
            f"  would publish {', '.join(seen.files)}: {seen.statement['table']['rows']:,} rows of "
            f"{', '.join(seen.statement['table']['columns'])}",
            *(
                f"  rule {s['rule']}{', total: ' + s['total'] if s['total'] else ''}"
                for s in seen.statement["postprocessing"]
            ),
            *(f"  unprotected: {u['what']}: {u['source']}" for u in seen.statement["unprotected"]),
            *_unsaid(seen.statement),
        ]
        tables.append({**vars(seen), "fits": fits})
    return [*lines, "dry run: nothing was charged, drawn or written"], {"tables": tables}


def _self_test(draws: int | None) -> int:
    from fairpost.release import noise, selftest

    many = selftest.DRAWS if draws is None else draws
    click.echo(f"OpenDP {noise.opendp_version()}: {many:,} draws of each law; an alarm is p < {selftest.ALARM:g}")
    tests = selftest.run(draws=many)
    for t in tests:
        law = f"{t.law.mechanism} {t.law.scale:.6g}"
        click.echo(
            f"{law:<26} {t.what:<17} chi2 {t.chi2:8.1f} of {t.freedom:>3}  p = {t.p:.2g}  {'' if t.passed else 'ALARM'}".rstrip()
        )
    if not all(t.passed for t in tests):
        raise FairpostError("the self-test of the sampler failed: do not release with it")
    return 0
