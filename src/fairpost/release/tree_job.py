"""A release of all levels of a hierarchy as a job of the protocol: one request, one charge, one kept file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairpost.errors import ParameterError
from fairpost.hierarchy.tree import Hierarchy
from fairpost.release import protocol, tree_rules
from fairpost.release.invariants import WHOLE, Claim, parts_of, parts_of_tree
from fairpost.release.ledger import Ledger
from fairpost.release.noise import Whole
from fairpost.release.request import EXACT, Publication, PublicTotal, Request, Sensitivity, chosen_of
from fairpost.release.source import Source, declared, name_of, undeclared
from fairpost.release.statement import About
from fairpost.release.tree_request import Split, check_neighbours, levels_of
from fairpost.release.tree_source import label_columns, read_tree, stored


def tree_job(
    book: Ledger,
    counts: Any,
    given: Mapping[str, Any],
    sensitivity: Sensitivity,
    *,
    out: str | os.PathLike[str] | None,
    again: str,
    name: str | None,
    about: About | None,
    columns: Mapping[str, Any] | None,
) -> protocol.Job:
    """Everything checked that can be checked without the noise."""
    words, total, noise = dict(columns or {}), given.get("total"), given.get("noise")
    refused = [k for k in ("weight", "group", "group_total") if words.get(k)] + (
        ["by_group"] * bool(given.get("by_group"))
    )
    if refused:
        raise ParameterError(f"a release of levels keeps every sum of its tree; `{refused[0]}` has no part, got it")
    if total == EXACT:
        raise ParameterError(
            f'the exact total of levels is asked for by `exact` ("{tree_rules.ROOT}" or a level), got `total`'
        )
    if not isinstance(total, PublicTotal | None):
        raise ParameterError(f"the total of levels must be None or a PublicTotal with its source, got {total!r}")
    said, levels = Split.of(given), given.get("levels")
    if noise is not None and levels is not None and levels is not noise.tree:
        raise ParameterError("the hierarchy is given by `noise` or by `levels`, got both")
    levels = noise.tree if noise is not None else levels
    used = declared(book.terms, words, label_columns(levels))
    words["where"] = used.get("where", ())
    source = read_tree(counts, levels, {k: v for k, v in words.items() if v is not None}).in_order()
    undeclared(book.terms, {k: v for k, v in source.columns.items() if k in ("id", "count")}, used)
    noisy, exact = levels_of(book.terms, sensitivity, source.tree, said)
    check_neighbours(noise, noisy)
    shape, labels = stored(source.tree, exact)
    label = name if name is not None else name_of(counts)
    request = Request(label, noisy, sensitivity, again, shape, columns=used)
    publication = Publication(
        str(given.get("postprocess") or tree_rules.USUAL),
        bool(given.get("round", False)),
        totals=None if total is None else tuple(total.of(None)),
        total_kind="noisy" if total is None else "public",
        source=stated_source(book, None if total is None else total.source),
        chosen=chosen_of(given.get("chosen_from")),
        csv_safe=bool(given.get("csv_safe")),
        columns=used,
    )
    tree_rules.check(publication, None)
    tree_rules.total_kind(request.public(), publication)
    nodes = source.nodes()
    kept = tuple(nodes[source.tree.level(n)] for n in ([] if exact is None else [exact]) + [lv.name for lv in noisy])
    empty = Source(np.empty(0, np.int64), (), None, None, None)
    place, words_about = protocol.place(out), about or About()
    tree = source.tree
    made = protocol.Job(request, publication, empty, kept, labels, place, words_about, nodes=tree.nodes)
    made.claim, made.weak = _claim(tree, publication, exact, kept), bool(given.get("accept_weak_protection"))
    return made


def _claim(tree: Hierarchy, p: Publication, exact: str | None, kept: tuple[Whole, ...]) -> Claim | None:
    """What is exact: the nodes of the deepest exact level, or the public total."""
    if exact is not None:
        parts = parts_of_tree(tree, exact)
        return Claim(parts, dict(zip(parts, kept[0].tolist(), strict=True)))
    if p.totals is not None:
        return Claim(parts_of(tree.ids(tree.depth), None), {WHOLE: p.totals[0]})
    return None


def stated_source(book: Ledger, given: str | None) -> str | None:
    """Where exact numbers are published, as the ledger says; other words are refused."""
    held = book.terms.invariants
    if held is not None and given is not None and given != held.source:
        raise ParameterError(f"the source of exact totals is the ledger's, {held.source!r}, got {given[:60]!r}")
    return None if held is None else held.source
