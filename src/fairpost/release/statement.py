"""The statement that goes with a table: what was promised, to whom, by which noise, out of which budget.

Everything in it comes from the request, the ledger and the kept noise. Never in it: a true count or a sum of them
(unless an exact total was asked for, and then it is listed as unprotected), a bias, an interval that needs true counts,
the data's fingerprint, a path, a command line, a time of day, a duration. Amounts are texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from fairpost.noise.calibration import epsilon_of
from fairpost.release import tree_rules
from fairpost.release.amounts import decimal_of, text
from fairpost.release.chain import Entry
from fairpost.release.ledger import NOT_STATED, Terms
from fairpost.release.noise import WEAK, Law
from fairpost.release.request import Publication, Shape
from fairpost.release.rules import Outcome
from fairpost.release.seals import TABLE

KIND = "fairpost release statement 2"
OLD = "fairpost release statement 1"
"""Of fairpost 0.1, which is still read."""
SAFE = "a ' stands before text that a spreadsheet would take for a formula"
DEFINITIONS = {"pure": "epsilon-differential privacy", "zcdp": "rho-zero-concentrated differential privacy"}
COMPOSITION = {
    "pure": "sum of epsilon over all releases of the ledger, below a limit fixed in advance",
    "zcdp": "sum of rho over all releases of the ledger, below a limit fixed in advance",
}

LEVELS = {
    "pure": "levels are answers about the same people: their epsilons add up to the loss of the release",
    "zcdp": "levels are answers about the same people: their rhos add up to the loss of the release",
}
TOTALS = {"noisy": "the noisy sum", "public": "public", "exact": "exact", "measured": "measured"}
ROOT = tree_rules.ROOT
COMPUTED = "computed from the true counts, without noise; an invariant of the ledger"


@dataclass(frozen=True)
class About:
    """Words of the publisher for the registry's record and the dataset's description; all optional."""

    title: str = ""
    description: str = ""
    curator: str = ""
    region: str = ""
    intended_use: str = ""
    authors: tuple[str, ...] = ()
    url: str = ""
    license: str = ""

    def public(self) -> dict[str, Any]:
        """The words that were given."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items() if v}


@dataclass(frozen=True, eq=False)
class Facts:
    """What a statement is made from."""

    terms: Terms
    charge: Entry
    request: Mapping[str, Any]
    publication: Publication
    outcome: Outcome
    columns: Sequence[str]
    rows: int
    table_sha256: str
    software: Mapping[str, str]

    @property
    def law(self) -> Law:
        """The noise of the last level: of the table, or of the leaves of a hierarchy."""
        level = self.request["levels"][-1]
        return Law(level["mechanism"], float(level["scale"]))

    @property
    def used(self) -> Mapping[str, Any]:
        """Which column of the source played which part."""
        found = self.publication.columns
        return self.request.get("columns", {}) if found is None else found

    @property
    def shape(self) -> Shape | None:
        """The hierarchy, where the release is one of levels."""
        return Shape.of(self.request["hierarchy"]) if "hierarchy" in self.request else None

    @property
    def total_kind(self) -> str:
        """Where the total is from."""
        if self.shape is None:
            return self.publication.total_kind
        return tree_rules.total_kind(self.request, self.publication)


def statement(facts: Facts) -> dict[str, Any]:
    """The statement as data."""
    return {
        "statement": KIND,
        "date": facts.charge.body["time"],
        "table": {
            "file": TABLE,
            "sha256": facts.table_sha256,
            "rows": facts.rows,
            "columns": list(facts.columns),
            "entities": _entities(facts),
            **({"text": SAFE} if facts.publication.csv_safe else {}),
        },
        "privacy": _privacy(facts),
        "unprotected": unprotected(facts),
        "postprocessing": steps(facts),
        "parameters_chosen": _chosen(facts),
        "budget": {
            "name": facts.terms.dataset,
            "composition": COMPOSITION[facts.terms.measure],
            "limit": text(facts.terms.limit),
            "limit_given": dict(facts.terms.limit_given),
            "loss": facts.charge.body["loss"],
            "spent_after": facts.charge.body["spent"],
            "entry": facts.charge.seq,
            "hash": facts.charge.hash,
            "other_ledgers": facts.terms.others,
        },
        "software": dict(facts.software),
    }


def _privacy(facts: Facts) -> dict[str, Any]:
    terms, levels = facts.terms, facts.request["levels"]
    pure = all(level["epsilon"] is not None for level in levels)
    rho = sum((Fraction(level["rho"]) for level in levels), Fraction(0))
    epsilon, delta = None, None
    if pure:
        epsilon, delta = text(sum((Fraction(level["epsilon"]) for level in levels), Fraction(0))), "0"
    elif terms.delta is not None:
        epsilon, delta = text(epsilon_of(rho, terms.delta)), text(terms.delta)
    c = int(facts.request["entities_per_person"])
    doubled = facts.request["neighbours"] == "replace"
    gaussian = facts.law.mechanism == "discrete-gaussian"
    made: dict[str, Any] = {
        "definition": DEFINITIONS[terms.measure],
        "epsilon": epsilon,
        "delta": delta,
        "rho": None if terms.measure == "pure" else text(rho),
        "unit": terms.unit,
        "neighbours": str(facts.request["neighbours"]),
        "relation": facts.terms.relation,
        "weak_protection": _weak(levels),
        "entities_per_person": c,
        "sensitivity": {"norm": "L2 squared" if gaussian else "L1", "value": str(2 * c if doubled else c)},
        "mechanism": facts.law.mechanism,
        "scale": facts.law.text,
        "noise_standard_deviation": f"{facts.law.deviation:.6g}",
        "sampler": f"OpenDP {facts.software['opendp']}, exact in rational arithmetic, entropy of the operating system",
        "seed": None,
        "levels": [dict(level) for level in levels],
    }
    if facts.shape is None:
        return made
    for level in made["levels"]:
        law = Law(level["mechanism"], float(level["scale"]))
        level["noise_standard_deviation"] = f"{law.deviation:.6g}"
    return {**made, "hierarchy": facts.shape.public(), "composition": LEVELS[terms.measure]}


def _entities(facts: Facts) -> str:
    """The list of rows: public, and cut by public columns alone."""
    said = "the list of rows is public and does not depend on the counts; rows with a true count of 0 stay"
    conditions = facts.used.get("where", ())
    return f"{said}; rows used: {' and '.join(conditions)}" if conditions else said


def _chosen(facts: Facts) -> dict[str, str]:
    """What each choice was made from."""
    names = ["loss", "rule"]
    if facts.shape is not None:
        names += ["levels", "split"]
    if facts.publication.by_group:
        names.append("partition")
    return {name: facts.publication.chosen.get(name, NOT_STATED) for name in names}


def _weak(levels: Sequence[Mapping[str, Any]]) -> str | None:
    """Noise that is 0 more often than not."""
    chances = [Law(level["mechanism"], float(level["scale"])).chance_of_zero for level in levels]
    if max(chances) <= WEAK:
        return None
    return f"the noise of a count is 0 with probability {max(chances):.4g}: most counts are published as they are"


def unprotected(facts: Facts) -> list[dict[str, Any]]:
    """What the table shows without noise."""
    items: list[dict[str, Any]] = [
        {"what": "the list of rows", "value": str(facts.rows), "source": "taken to be public by the publisher"}
    ]
    p = facts.publication
    for role, name in facts.used.items():
        if role in ("id", "where") or (role == "weight" and facts.outcome.name != "share"):
            continue
        names = ", ".join(name) if isinstance(name, list) else name
        source = "listed as public when the ledger was made"
        items.append({"what": f"the {role.replace('_', ' ')} of the rows ({names})", "value": None, "source": source})
    if facts.shape is not None:
        items += _of_tree(facts, facts.shape)
    if p.totals is None:
        return items
    what, source = "a total that is public elsewhere", str(p.source)
    if p.total_kind == "exact":
        what, source = "the exact total of the true counts", f"{COMPUTED}; {p.source}"
    if not p.by_group:
        return [*items, {"what": what, "value": str(p.totals[0]), "source": source}]
    groups = zip(facts.outcome.labels, p.totals, strict=True)
    return [*items, *({"what": f"{what}, group {g}", "value": str(t), "source": source} for g, t in groups)]


def _of_tree(facts: Facts, shape: Shape) -> list[dict[str, Any]]:
    """What a release of levels shows without noise: the tree, and every level down to the exact one."""
    items = [
        {
            "what": "the hierarchy: which row lies below which",
            "value": None,
            "source": "taken to be public by the publisher",
        }
    ]
    if shape.exact is None:
        return items
    names = (ROOT, *shape.names)
    source = f"{COMPUTED}; {facts.publication.source}"
    total = decimal_of(facts.outcome.totals[0]) if facts.outcome.totals is not None else None
    items.append({"what": "the exact total of the true counts", "value": total, "source": source})
    for name in names[1 : names.index(shape.exact) + 1]:
        items.append({"what": f"the exact true counts of level {name}", "value": None, "source": source})
    return items


def steps(facts: Facts) -> list[dict[str, Any]]:
    """The post-processing, in order; all of it works on the noisy counts alone."""
    p, o = facts.publication, facts.outcome
    total = None if o.totals is None else TOTALS[facts.total_kind]
    first = {"rule": p.postprocess, "gives": o.name, "total": total, "by_group": p.by_group}
    totals = None if o.totals is None or p.by_group else decimal_of(float(o.totals[0]))
    made = [{**first, "total_value": totals}]
    if p.round:
        made.append(
            {"rule": "rounding", "gives": o.name, "total": total, "by_group": p.by_group, "total_value": totals}
        )
    return made


def as_text(data: Mapping[str, Any]) -> str:
    """The bytes that are published, and whose digest the ledger keeps."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON schema of a statement, as it is shipped and published."""
    found = json.loads(Path(__file__).with_name("statement.schema.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found
