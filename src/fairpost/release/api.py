"""`fp.release` and its relatives: from what a user says to jobs of the protocol."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairpost.errors import ParameterError
from fairpost.release import protocol, rules
from fairpost.release.guard import hardened, refuse_dask, silently, stoppable
from fairpost.release.invariants import Claim, parts_of
from fairpost.release.ledger import Ledger
from fairpost.release.noise import Sampler, sample
from fairpost.release.preview import Preview, preview
from fairpost.release.publish import Release
from fairpost.release.request import EXACT, Publication, PublicTotal, Request, Sensitivity, chosen_of, level_of
from fairpost.release.source import Source, declared, name_of, read_source, undeclared
from fairpost.release.statement import About
from fairpost.release.tree_job import stated_source, tree_job

__all__ = ["COLUMNS", "EXACT", "REQUEST", "Preview", "job_of", "preview", "release", "release_noisy", "release_plan"]
Total = PublicTotal | str | None


def release(
    counts: Any,
    ledger: Ledger | str | os.PathLike[str],
    *,
    epsilon: Any = None,
    rho: Any = None,
    mechanism: str | None = None,
    entities_per_person: int = 1,
    levels: Any = None,
    split: Any = None,
    sigmas: Any = None,
    exact: Any = (),
    noise: Any = None,
    postprocess: str | None = None,
    round: bool = False,
    total: Total = None,
    by_group: bool = False,
    chosen_from: str | Mapping[str, str] | None = None,
    accept_weak_protection: bool = False,
    out: str | os.PathLike[str] | None = None,
    csv_safe: bool = False,
    again: str = "",
    name: str | None = None,
    about: About | None = None,
    **columns: Any,
) -> Release:
    """Charge the ledger, draw the noise, post-process, and publish with a statement.

    The same call again is the same request: it finishes what was begun, or gives the same table; it never draws again.

    Parameters
    ----------
    counts
        `Counts`, or a file or data frame with true counts; then `columns` are those of `read_rows`.
    ledger
        A `Ledger`, or the path of one.
    epsilon, rho, mechanism
        The loss: epsilon with discrete Laplace or rho with discrete Gaussian noise; texts such as "0.1", floats are refused.
    entities_per_person
        In how many entities one unit is counted at most; the sensitivity follows.
    levels, split, sigmas, exact, noise
        A release of all levels of a hierarchy, in one charge. `levels`: prefixes of the ids (`{"state": 2, "county": 5}`),
        columns (names), or a `Hierarchy`. Its noise: each level's share of epsilon or rho (`split`), or its sigma or b
        (`sigmas`), top first, with one entry more where the root is measured too; texts. `exact`: the level down to which
        the ledger lets the counts be published without noise. Instead of all of these `noise`, a
        `LevelNoise` whose amounts are texts.
    postprocess, round
        The rule, by its name in an audit ("simplex"; of levels "blue-down"), and whether to round to whole numbers (totals
        and all sums of a hierarchy kept, no bias).
    total, by_group
        None: the sum of the noisy counts. A `PublicTotal`, a total that is typed. Or "exact", the true total. Both only where
        the ledger was made with that total (by group: with those groups) as an invariant.
    chosen_from
        What was chosen from what: "policy", "public-data" or "these-data" for all of loss, rule, levels, split and partition,
        or a mapping from some of these to one of the words.
    accept_weak_protection
        Release although the noise is 0 more often than not, so that most counts come out true; the statement says so.
    out, csv_safe
        The folder to make, with table.csv, statement.json, registry.yaml and dataset.jsonld. None: no files. `csv_safe`: in
        table.csv a ' stands before text that a spreadsheet would take for a formula.
    again
        The label of a second, independent draw of the same request, which is charged again.
    name, about
        The name of the table in the ledger, and words for the registry.
    **columns
        `id`, `count`, `weight`, `group`, `format`, `where` of a file, and `group_total`, a column of totals of the groups. All
        but the ids and counts must be columns that the ledger lists as public.

    """
    book = opened(ledger)
    given = {"epsilon": epsilon, "rho": rho, "mechanism": mechanism, "entities_per_person": entities_per_person}
    given |= {"levels": levels, "split": split, "sigmas": sigmas, "exact": exact, "noise": noise}
    wanted = {
        "postprocess": postprocess,
        "round": round,
        "total": total,
        "by_group": by_group,
        "chosen_from": chosen_from,
        "accept_weak_protection": accept_weak_protection,
        "csv_safe": csv_safe,
    }

    def work() -> Release:
        job = job_of(book, counts, given | wanted, out=out, again=again, name=name, about=about, columns=columns)
        return protocol.run(book, [job])[0]

    with hardened():
        return silently(work)


def release_noisy(
    key: str,
    ledger: Ledger | str | os.PathLike[str],
    *,
    postprocess: str | None = None,
    round: bool = False,
    total: PublicTotal | None = None,
    by_group: bool = False,
    chosen_from: str | Mapping[str, str] | None = None,
    out: str | os.PathLike[str] | None = None,
    csv_safe: bool = False,
    about: About | None = None,
) -> Release:
    """Publish noise that is kept once more, with another rule. Post-processing is free: nothing is charged."""
    book = opened(ledger)
    if not isinstance(total, PublicTotal | None):
        raise ParameterError("the total of noise that is kept is a PublicTotal or None, got something else")

    def work() -> Release:
        usual = "simplex" if postprocess is not None else protocol.usual_rule(book, key)
        shape = Publication(postprocess or usual, round, by_group, chosen=chosen_of(chosen_from), csv_safe=csv_safe)
        if total is None:
            return protocol.from_noisy(book, key, shape, protocol.place(out), about)
        kept = protocol.kept_of(book, key)
        totals = tuple(total.of(rules.labels_of(kept.groups, True) if by_group else None))
        source = stated_source(book, total.source)
        shape = replace(shape, totals=totals, total_kind="public", source=source)
        claim = claim_of(shape, kept.ids[0], kept.groups)
        return protocol.from_noisy(book, key, shape, protocol.place(out), about, claim)

    with hardened():
        return silently(work)


def release_plan(
    tables: Sequence[Mapping[str, Any]],
    ledger: Ledger | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    about: About | None = None,
    sampler: Sampler = sample,
    say: Callable[[str], None] | None = None,
) -> list[Release]:
    """Several tables, charged in one transaction: all of them or none. Each goes to a folder of its name in `out`.

    A table is a mapping with `name`, `file` and the arguments of `release`.
    """
    book = opened(ledger)
    with hardened(), stoppable():
        return silently(lambda: protocol.run(book, plan_jobs(book, tables, out, about), sampler=sampler, say=say))


def plan_jobs(
    book: Ledger, tables: Sequence[Mapping[str, Any]], out: str | os.PathLike[str] | None, about: About | None
) -> list[protocol.Job]:
    """The jobs of a plan."""
    root = protocol.place(out)
    if root is not None:
        root.mkdir(exist_ok=True)
    jobs = []
    for table in tables:
        words = dict(table)
        name, file = str(words.pop("name", "")), words.pop("file", None)
        if not name or not name.isprintable() or "/" in name or name.startswith(".") or file is None:
            raise ParameterError(f"a table of a plan must have a file, and a name that can be a folder's, got {name!r}")
        extra = {k: words.pop(k) for k in COLUMNS if k in words}
        again = str(words.pop("again", ""))
        unknown = sorted(set(words) - set(REQUEST))
        if unknown:
            raise ParameterError(f"the table {name!r} of the plan has {unknown[0]!r}; known are {', '.join(REQUEST)}")
        place = None if root is None else root / name
        jobs.append(job_of(book, file, words, out=place, again=again, name=name, about=about, columns=extra))
    if not jobs:
        raise ParameterError("a plan must have at least one [[table]], got none")
    return jobs


COLUMNS = ("id", "count", "weight", "group", "format", "group_total")
REQUEST = (
    "epsilon", "rho", "mechanism", "entities_per_person", "postprocess", "round", "total", "by_group", "chosen_from",
    "levels", "split", "sigmas", "exact", "accept_weak_protection", "csv_safe",
)  # fmt: skip


def job_of(
    book: Ledger,
    counts: Any,
    given: Mapping[str, Any],
    *,
    out: str | os.PathLike[str] | None,
    again: str = "",
    name: str | None = None,
    about: About | None = None,
    columns: Mapping[str, Any] | None = None,
) -> protocol.Job:
    """Everything checked that can be checked without the noise."""
    refuse_dask(counts)
    sensitivity = Sensitivity(given.get("entities_per_person", 1), book.terms.neighbours)
    for word, value in (("again", again), ("name", name or "")):
        if not isinstance(value, str) or not (value == "" or value.isprintable()) or len(value) > 200:
            raise ParameterError(f"`{word}` must be a text on one line, got {value!r}")
    if given.get("levels") is not None or given.get("noise") is not None:
        return tree_job(book, counts, given, sensitivity, out=out, again=again, name=name, about=about, columns=columns)
    lone = next((k for k in ("split", "sigmas", "exact") if given.get(k)), None)
    if lone is not None:
        raise ParameterError(f"`{lone}` is about the levels of a hierarchy and needs `levels`, got none")
    # amounts and columns first, so that what is refused is refused before the file is read
    losses = {k: given.get(k) for k in ("epsilon", "rho", "mechanism")}
    level_of(book.terms, sensitivity, "table", 1, **losses)
    columns = dict(columns or {})
    used = declared(book.terms, columns)
    columns["where"] = used.get("where", ())
    column_of_totals = columns.pop("group_total", None)
    if column_of_totals is not None:
        columns["total"] = column_of_totals
    source = read_source(counts, **columns).in_order()
    undeclared(book.terms, source.columns, used)
    shape = replace(_publication(book, given, source), columns=used)
    rules.check(shape, source.groups)
    level = level_of(book.terms, sensitivity, "table", int(source.x.size), **losses)
    label = name if name is not None else name_of(counts)
    request = Request(label, (level,), sensitivity, again, columns=used)
    job = protocol.job_of(
        request, shape, source, protocol.place(out), about, claim_of(shape, source.ids, source.groups)
    )
    return replace(job, weak=bool(given.get("accept_weak_protection")))


def claim_of(p: Publication, ids: Sequence[str], groups: Sequence[str] | None) -> Claim | None:
    """What a publication keeps exactly: its totals, and the rows that they are totals of."""
    if p.totals is None:
        return None
    parts = parts_of(ids, groups if p.by_group else None)
    return Claim(parts, dict(zip(parts, p.totals, strict=True)))


def _publication(book: Ledger, given: Mapping[str, Any], source: Source) -> Publication:
    by_group, total = bool(given.get("by_group", False)), given.get("total")
    base: dict[str, Any] = {"round": bool(given.get("round", False)), "chosen": chosen_of(given.get("chosen_from"))}
    base["csv_safe"] = bool(given.get("csv_safe"))
    name = str(given.get("postprocess") or "simplex")
    if source.totals is not None:
        if not isinstance(total, str | None) or total == EXACT:
            raise ParameterError("totals out of a column need their source, as a text")
        return _from_column(book, name, base, source, total)
    if total is None:
        return Publication(name, by_group=by_group, **base)
    if isinstance(total, PublicTotal):
        values = tuple(total.of(rules.labels_of(source.groups, by_group)))
        why = stated_source(book, total.source)
        return Publication(name, by_group=by_group, totals=values, total_kind="public", source=why, **base)
    if total != EXACT:
        raise ParameterError(f'`total` must be None, a PublicTotal, or "exact", got {total!r}')
    values = rules.group_sums(source.x, source.groups, by_group)
    why = stated_source(book, None)
    return Publication(name, by_group=by_group, totals=values, total_kind="exact", source=why, **base)


def _from_column(book: Ledger, name: str, base: Mapping[str, Any], source: Source, why: str | None) -> Publication:
    """Public totals out of a column: whole, the same in each group."""
    assert source.totals is not None
    if not np.all(source.totals == np.floor(source.totals)):
        raise ParameterError("public totals must be whole numbers, and the column has others")
    by_group = source.groups is not None
    firsts = dict.fromkeys(source.groups) if source.groups is not None else {"all": None}
    seen: dict[str, int] = {}
    for label, value in zip(source.groups or ("all",) * len(source.ids), source.totals, strict=True):
        seen.setdefault(label, int(value))
    shown = PublicTotal({g: seen[g] for g in firsts} if by_group else seen["all"])
    values = tuple(shown.of(tuple(firsts) if by_group else None))
    stated = stated_source(book, why)
    return Publication(name, by_group=by_group, totals=values, total_kind="public", source=stated, **base)


def opened(ledger: Ledger | str | os.PathLike[str]) -> Ledger:
    """A ledger, or the one at a path."""
    return ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
