"""What a release would charge and publish, for `--dry-run`: nothing is charged, drawn or written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpost.release import protocol, rules, tree_rules
from fairpost.release.amounts import rounded, text
from fairpost.release.chain import Entry
from fairpost.release.ledger import Ledger
from fairpost.release.request import EXACT
from fairpost.release.seals import FILES
from fairpost.release.statement import TOTALS, Facts, statement


@dataclass(frozen=True)
class Preview:
    """What a release would charge and publish. Nothing was charged, drawn or written."""

    key: str
    loss: str
    limit: str
    spent: str
    left: str
    fits: bool
    charged_before: bool
    """The request is known: no charge, the same noise."""
    statement: dict[str, Any]
    """The statement as far as it is known before the draw."""
    files: tuple[str, ...]


def preview(book: Ledger, job: protocol.Job) -> Preview:
    """For `--dry-run`. An exact total is not shown."""
    book.demand()
    protocol.demand(book, job)
    key = protocol.key_of(book, job)
    known = book.find("charge", key)
    spent, loss = book.spent, job.request.loss
    body = {"loss": text(loss), "spent": text(spent + loss), "time": "the day of the charge"}
    entry = known or Entry(0, "charge", key, body, "", "known after the charge")
    p = job.publication
    hidden = p.total_kind == EXACT
    labels = rules.labels_of(job.source.groups, p.by_group) or ("all",)
    column = "share" if p.postprocess in rules.SHARES else "count"
    outcome = rules.Outcome(column, np.empty(0), None, labels)
    groups = [] if job.source.groups is None else ["group"]
    columns, rows = ["id", *groups, column], int(job.source.x.size)
    if job.request.shape is not None:
        columns, rows = tree_rules.COLUMNS, job.nodes
    facts = Facts(
        terms=book.terms,
        charge=entry,
        request=job.request.public(),
        publication=p,
        outcome=outcome,
        columns=columns,
        rows=rows,
        table_sha256="known after the draw",
        software=protocol.software(),
    )
    made = statement(facts)
    if p.postprocess in (*rules.KEEP, *tree_rules.RULES):
        for step in made["postprocessing"]:
            step["total"] = TOTALS[facts.total_kind]
    for item in made["unprotected"] if hidden else ():
        if item["what"].startswith("the exact total"):
            item["value"] = "shown when it is published"
    left = book.terms.limit - spent
    fits = known is not None or loss <= left
    shown = rounded(left, up=False)
    return Preview(key, text(loss), text(book.terms.limit), text(spent), shown, fits, known is not None, made, FILES)
