"""`fp.release` and its relatives: from what a user says to jobs of the protocol."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairpost.errors import ParameterError
from fairpost.release import protocol, rules
from fairpost.release.guard import hardened, silently, stoppable
from fairpost.release.invariants import WHOLE, Claim, parts_of, parts_of_tree
from fairpost.release.kept import packed, stored
from fairpost.release.ledger import Ledger
from fairpost.release.noise import Sampler, sample
from fairpost.release.protocol import Job, Preview, preview
from fairpost.release.publish import About, Release
from fairpost.release.request import (
    EXACT,
    Asked,
    Publication,
    PublicTotal,
    Request,
    Sensitivity,
    check_neighbours,
    chosen_of,
    level_of,
    levels_of,
)
from fairpost.release.source import Source, declared, label_columns, name_of, read_source, undeclared

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
    given = {name: said for name, said in locals().items() if name in (*REQUEST, "noise")}
    book = opened(ledger)

    def work() -> Release:
        job = job_of(book, counts, given, out=out, again=again, name=name, about=about, columns=columns)
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
        kept = protocol.kept_of(book, key)
        usual = rules.USUAL if kept.shape is None else rules.TREE_USUAL
        exact = kept.shape is not None and kept.shape.exact is not None
        shape = Publication(
            postprocess or usual,
            round,
            by_group,
            totals=None if total is None else tuple(total.of(rules.labels_of(kept.groups, True) if by_group else None)),
            total_kind="noisy" if total is None else "public",
            source=stated_source(book, None if total is None else total.source) if exact or total is not None else None,
            chosen=chosen_of(chosen_from),
            csv_safe=csv_safe,
        )
        claim = None if total is None else claim_of(shape, kept.ids, kept.groups)
        return protocol.from_noisy(book, kept, shape, protocol.place(out), about or About(), claim)

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
) -> Job:
    """Everything checked that can be checked without the noise: amounts and columns before the file is read."""
    for word, value in (("again", again), ("name", name or "")):
        if not isinstance(value, str) or not (value == "" or value.isprintable()) or len(value) > 200:
            raise ParameterError(f"`{word}` must be a text on one line, got {value!r}")
    words = dict(columns or {})
    sensitivity, asked = Sensitivity(given.get("entities_per_person", 1), book.terms.neighbours), Asked.of(given)
    levels = _levels(given, words)
    if levels is None:
        asked.loss(book.terms)
    used = declared(book.terms, words, label_columns(levels))
    words["where"] = used.get("where", ())
    if (totals := words.pop("group_total", None)) is not None:
        words["total"] = totals
    source = read_source(counts, levels, **words).in_order()
    undeclared(book.terms, source.columns, used)
    publication = replace(_publication(book, given, source), columns=used)
    rules.check(publication, groups=source.groups is not None, levels=source.tree is not None)
    label = name if name is not None else name_of(counts)
    rest: dict[str, Any] = {"out": protocol.place(out), "about": about or About()}
    rest["weak"] = bool(given.get("accept_weak_protection"))
    if source.tree is None:
        level = level_of(book.terms, sensitivity, int(source.x.size), asked)
        request = Request(label, (level,), sensitivity, again, columns=used)
        rest |= {"groups": source.groups, "weights": source.weights}
        rest["claim"] = claim_of(publication, source.ids, source.groups)
        publication = protocol.weighed(publication, source.weights)
        return Job(request, publication, (source.x,), [packed(source.ids)], **rest)
    tree, nodes = source.tree, source.nodes()
    noisy, exact = levels_of(book.terms, sensitivity, tree, asked)
    check_neighbours(given.get("noise"), noisy)
    hierarchy, labels = stored(tree, exact)
    request = Request(label, noisy, sensitivity, again, hierarchy, columns=used)
    rules.total_kind(request.public(), publication)
    kept = tuple(nodes[tree.level(n)] for n in ([] if exact is None else [exact]) + [lv.name for lv in noisy])
    claim = claim_of(publication, tree.ids(tree.depth) if publication.totals else (), None)
    if exact is not None:
        parts = parts_of_tree(tree, exact)
        claim = Claim(parts, dict(zip(parts, kept[0].tolist(), strict=True)))
    return Job(request, publication, kept, labels, claim=claim, **rest)


def _levels(given: Mapping[str, Any], columns: Mapping[str, Any]) -> Any:
    """What the hierarchy is made from; None of a table. What has no part is refused."""
    levels, noise, total = given.get("levels"), given.get("noise"), given.get("total")
    if levels is None and noise is None:
        lone = next((k for k in ("split", "sigmas", "exact") if given.get(k)), None)
        if lone is not None:
            raise ParameterError(f"`{lone}` is about the levels of a hierarchy and needs `levels`, got none")
        return None
    refused = [k for k in ("weight", "group", "group_total") if columns.get(k)]
    refused += ["by_group"] * bool(given.get("by_group"))
    if refused:
        raise ParameterError(f"a release of levels keeps every sum of its tree; `{refused[0]}` has no part, got it")
    if total == EXACT:
        raise ParameterError(
            f'the exact total of levels is asked for by `exact` ("{rules.ROOT}" or a level), got `total`'
        )
    if not isinstance(total, PublicTotal | None):
        raise ParameterError(f"the total of levels must be None or a PublicTotal with its source, got {total!r}")
    if noise is not None and levels is not None and levels is not noise.tree:
        raise ParameterError("the hierarchy is given by `noise` or by `levels`, got both")
    return levels if noise is None else noise.tree


def claim_of(p: Publication, ids: Sequence[str], groups: Sequence[str] | None) -> Claim | None:
    """What a publication keeps exactly: its totals, and the rows that they are totals of."""
    if p.totals is None:
        return None
    parts = parts_of(ids, groups if p.by_group else None)
    return Claim(parts, dict(zip(parts, p.totals, strict=True)))


def _publication(book: Ledger, given: Mapping[str, Any], source: Source) -> Publication:
    """The rule and the totals that it keeps: none, public ones (typed, or out of a column), or the true ones."""
    by_group, total, why = bool(given.get("by_group", False)), given.get("total"), None
    totals: Sequence[int] | None = None
    kind = "noisy" if total is None and source.totals is None else EXACT if total == EXACT else "public"
    if source.totals is not None:
        if not isinstance(total, str | None) or total == EXACT:
            raise ParameterError("totals out of a column need their source, as a text")
        by_group, why = source.groups is not None, total
        totals = _from_column(source.totals, source.groups)
    elif isinstance(total, PublicTotal):
        totals, why = total.of(rules.labels_of(source.groups, by_group)), total.source
    elif total == EXACT:
        totals = rules.group_sums(source.x, source.groups, by_group)
    elif total is not None:
        raise ParameterError(f'`total` must be None, a PublicTotal, or "exact", got {total!r}')
    return Publication(
        str(given.get("postprocess") or (rules.USUAL if source.tree is None else rules.TREE_USUAL)),
        bool(given.get("round", False)),
        by_group,
        totals=None if totals is None else tuple(totals),
        total_kind=kind,
        source=stated_source(book, why) if totals is not None or source.tree is not None else None,
        chosen=chosen_of(given.get("chosen_from")),
        csv_safe=bool(given.get("csv_safe")),
    )


def _from_column(column: Any, groups: Sequence[str] | None) -> list[int]:
    """Public totals out of a column: whole, the same in each group."""
    if not np.all(column == np.floor(column)):
        raise ParameterError("public totals must be whole numbers, and the column has others")
    seen: dict[str, int] = {}
    for label, value in zip(groups or (WHOLE,) * len(column), column, strict=True):
        seen.setdefault(label, int(value))
    return PublicTotal(seen).of(tuple(seen)) if groups is not None else PublicTotal(seen[WHOLE]).of(None)


def stated_source(book: Ledger, given: str | None) -> str | None:
    """Where exact numbers are published, as the ledger says; other words are refused."""
    held = book.terms.invariants
    if held is not None and given is not None and given != held.source:
        raise ParameterError(f"the source of exact totals is the ledger's, {held.source!r}, got {given[:60]!r}")
    return None if held is None else held.source


def opened(ledger: Ledger | str | os.PathLike[str]) -> Ledger:
    """A ledger, or the one at a path."""
    return ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
