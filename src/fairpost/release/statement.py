"""The statement that goes with a table: what was promised, to whom, by which noise, out of which budget; its type, and how it is read.

Everything in it comes from the request, the ledger and the kept noise. Never in it: a true count or a sum of them
(unless an exact total was asked for, and then it is listed as unprotected), a bias, an interval that needs true counts,
the data's fingerprint, a path, a command line, a time of day, a duration. Amounts are texts.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fairpost.documents import json_of
from fairpost.errors import InputError, ParameterError
from fairpost.noise.calibration import epsilon_of
from fairpost.release import rules
from fairpost.release.amounts import amount, decimal_of, share
from fairpost.release.chain import TABLE, Entry, digest
from fairpost.release.kept import Kept
from fairpost.release.ledger import NOT_STATED, Terms
from fairpost.release.noise import WEAK, Law
from fairpost.release.request import EXACT, Publication, Shape
from fairpost.release.rules import ROOT, Outcome

KIND = "fairpost release statement 2"
OLD = "fairpost release statement 1"
"""Of fairpost 0.1, which is still read."""
SAFE = "a ' stands before text that a spreadsheet would take for a formula"
DEFINITIONS = {"pure": "epsilon-differential privacy", "zcdp": "rho-zero-concentrated differential privacy"}
COMPOSITION = "sum of {} over all releases of the ledger, below a limit fixed in advance"
LEVELS = "levels are answers about the same people: their {}s add up to the loss of the release"
TOTALS = {"noisy": "the noisy sum", "public": "public", "exact": "exact", "measured": "measured"}
COMPUTED = "computed from the true counts, without noise; an invariant of the ledger"

# -- the type ----------------------------------------------------------------------------------------------------------

Text = Annotated[str, Meta(min_length=1)]
Positive = Annotated[int, Meta(ge=1)]
Amount = Annotated[str, Meta(pattern="^[0-9]+(/[1-9][0-9]*)?$")]
Decimal = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$")]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Mechanism = Literal["discrete-laplace", "discrete-gaussian"]
Choice = Literal["policy", "public-data", "these-data", "not stated"]


def said(description: str, **rules: Any) -> Meta:
    """What the schema says of a field."""
    return Meta(description=description, **rules)


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a statement: nothing else may be in it."""


class Table(Part, frozen=True):
    """The table, beside the statement."""

    file: Text
    sha256: Sha256
    rows: Positive
    columns: Annotated[list[Text], Meta(min_length=2)]
    entities: Annotated[Text, said("Why the list of rows says nothing about the counts.")]
    text: Annotated[Text, said("How text in it differs from the ids and groups, where it does.")] | UnsetType = UNSET


class Sensitivity(Part, frozen=True):
    """How much one unit changes the counts."""

    norm: Literal["L1", "L2 squared"]
    value: Amount


class Level(Part, frozen=True):
    """One vector of counts that has noise; the last two of a hierarchy alone."""

    epsilon: Amount | None
    loss: Amount
    mechanism: Mechanism
    name: Text
    rho: Amount
    rows: Positive
    scale: Decimal
    sensitivity: Sensitivity | UnsetType = UNSET
    noise_standard_deviation: Decimal | UnsetType = UNSET

    @property
    def law(self) -> Law:
        """Its noise."""
        return Law(self.mechanism, float(self.scale))


class Hierarchy(Part, frozen=True):
    """How the tree is read from the ids, and the deepest level that has no noise."""

    names: Annotated[list[Text], said("Levels below the root, top first.", min_length=1)]
    by: Literal["prefixes", "columns", "paths"]
    lengths: list[Positive]
    exact: Text | None


class Privacy(Part, frozen=True):
    """What is promised."""

    definition: Literal["epsilon-differential privacy", "rho-zero-concentrated differential privacy"]
    epsilon: Annotated[Amount | None, said("Of this release; with a delta above 0 it follows from rho, rounded up.")]
    delta: Amount | None
    rho: Amount | None
    unit: Annotated[Text, said("Who is protected: neighbours differ in one of them.")]
    neighbours: Literal["add-remove", "replace"]
    relation: Annotated[Text, said("Which data sets are neighbours: the same for all releases of the ledger.")]
    weak_protection: Annotated[str | None, said("Says so where the noise is 0 more often than not.")]
    entities_per_person: Positive
    sensitivity: Sensitivity
    mechanism: Mechanism
    scale: Annotated[Decimal, said("b or sigma, as the sampler got it. Of a hierarchy: that of its leaves.")]
    noise_standard_deviation: Annotated[Decimal, said("Of one count, before post-processing; from the scale alone.")]
    sampler: Text
    seed: Annotated[None, said("There is none: the entropy is the operating system's.")]
    levels: Annotated[list[Level], said("Those of a hierarchy top first, exact ones left out.", min_length=1)]
    hierarchy: Hierarchy | UnsetType = UNSET
    composition: Annotated[Text, said("How the losses of the levels make that of the release.")] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if (self.hierarchy is UNSET) != (self.composition is UNSET):
            raise ValueError("a hierarchy must have its composition, got one of them")
        if self.hierarchy is UNSET and len(self.levels) != 1:
            raise ValueError(f"without a hierarchy there must be one level, got {len(self.levels)}")


class Item(Part, frozen=True):
    """Something that the table shows without noise."""

    what: Text
    value: str | None
    source: Text


class Step(Part, frozen=True):
    """A function of the noisy counts."""

    rule: Text
    gives: Literal["count", "share"]
    total: Literal["public", "exact", "the noisy sum", "measured"] | None
    by_group: bool
    total_value: Decimal | None


class Chosen(Part, frozen=True):
    """What each choice was made from. these-data: it depends on the true counts, and nobody charged for that."""

    loss: Choice
    rule: Choice
    levels: Choice | UnsetType = UNSET
    split: Choice | UnsetType = UNSET
    partition: Choice | UnsetType = UNSET


class Budget(Part, frozen=True):
    """The ledger, and the charge in it."""

    name: Text
    composition: Text
    limit: Amount
    limit_given: Annotated[dict[str, Amount], Meta(min_length=1)]
    loss: Amount
    spent_after: Amount
    entry: Annotated[int, said("The charge's number in the ledger.", ge=2)]
    hash: Annotated[Sha256, said("The charge's hash: `fairpost budget verify` finds it in the chain.")]
    other_ledgers: Annotated[Text, said("Which other ledgers hold the same data, as the publisher says.")]


class Statement(Part, frozen=True):
    """What was promised, to whom, by which noise, out of which budget.

    Amounts are texts: ratios such as 1/10, or decimals. Nothing in a statement is computed from true counts, except exact numbers
    that are listed under `unprotected`.
    """

    statement: Literal["fairpost release statement 2"]
    date: Annotated[str, said("The day of the charge (UTC).", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    table: Table
    privacy: Annotated[Privacy, Meta(extra_json_schema={"dependentRequired": {"hierarchy": ["composition"]}})]
    unprotected: Annotated[list[Item], said("What the table shows without noise.")]
    postprocessing: Annotated[list[Step], said("Functions of the noisy counts, in order.", min_length=1)]
    parameters_chosen: Chosen
    budget: Budget
    software: Annotated[dict[str, Text], Meta(extra_json_schema={"required": ["fairpost", "opendp", "published_with"]})]


def schema() -> dict[str, Any]:
    """The JSON schema of a statement, as it is published (docs/statement.schema.json)."""
    made = msgspec.json.schema(Statement)
    title = "Statement of a release with differential privacy, version 2"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **made}


def as_text(data: Mapping[str, Any]) -> str:
    """The bytes that are published, and whose digest the ledger keeps."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# -- from a release to its statement -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Facts:
    """What a statement is made from."""

    terms: Terms
    charge: Entry
    kept: Kept
    publication: Publication
    outcome: Outcome
    columns: Sequence[str]
    rows: int
    table: str
    """The table as it is published."""

    @property
    def shape(self) -> Shape | None:
        """The hierarchy, where the release is one of levels."""
        return self.kept.shape

    @property
    def used(self) -> Mapping[str, Any]:
        """Which column of the source played which part."""
        found = self.publication.columns
        return self.kept.request.get("columns", {}) if found is None else found


def statement(facts: Facts) -> dict[str, Any]:
    """The statement as data."""
    import fairpost

    body, terms, p = facts.charge.body, facts.terms, facts.publication
    safe: str | UnsetType = SAFE if p.csv_safe else UNSET
    made = Statement(
        statement="fairpost release statement 2",
        date=body["time"],
        table=Table(TABLE, digest(facts.table), facts.rows, list(facts.columns), _entities(facts), safe),
        privacy=_privacy(facts),
        unprotected=_unprotected(facts),
        postprocessing=_steps(facts),
        parameters_chosen=_chosen(facts),
        budget=Budget(
            name=terms.dataset,
            composition=COMPOSITION.format(terms.letter),
            limit=str(terms.limit),
            limit_given=dict(terms.limit_given),
            loss=body["loss"],
            spent_after=body["spent"],
            entry=facts.charge.seq,
            hash=facts.charge.hash,
            other_ledgers=terms.others,
        ),
        software={**facts.kept.software, "published_with": f"fairpost {fairpost.__version__}"},
    )
    found: dict[str, Any] = msgspec.to_builtins(made)
    try:
        msgspec.convert(found, Statement)  # before anything is charged, or nothing is
    except msgspec.ValidationError as error:
        raise ParameterError(f"the statement of a release must keep its schema, and would not: {error}") from None
    return found


def _privacy(facts: Facts) -> Privacy:
    terms, request, shape = facts.terms, facts.kept.request, facts.shape
    levels = [msgspec.convert(dict(level), Level) for level in request["levels"]]
    rho = sum((Fraction(level.rho) for level in levels), Fraction(0))
    epsilons = [Fraction(level.epsilon) for level in levels if level.epsilon is not None]
    epsilon, delta = None, None
    if len(epsilons) == len(levels):
        epsilon, delta = str(sum(epsilons)), "0"
    elif terms.delta is not None:
        epsilon, delta = str(epsilon_of(rho, terms.delta)), str(terms.delta)
    c, neighbours, law = int(request["entities_per_person"]), request["neighbours"], levels[-1].law
    weakest = max(level.law.chance_of_zero for level in levels)
    weak = f"the noise of a count is 0 with probability {weakest:.4g}: most counts are published as they are"
    if shape is not None:
        levels = [
            msgspec.structs.replace(level, noise_standard_deviation=f"{level.law.deviation:.6g}") for level in levels
        ]
    return Privacy(
        definition=DEFINITIONS[terms.measure],  # type: ignore[arg-type]
        epsilon=epsilon,
        delta=delta,
        rho=None if terms.measure == "pure" else str(rho),
        unit=terms.unit,
        neighbours=neighbours,
        relation=terms.relation,
        weak_protection=weak if weakest > WEAK else None,
        entities_per_person=c,
        sensitivity=Sensitivity(law.norm, str(2 * c if neighbours == "replace" else c)),  # type: ignore[arg-type]
        mechanism=law.mechanism,  # type: ignore[arg-type]
        scale=law.text,
        noise_standard_deviation=f"{law.deviation:.6g}",
        sampler=f"OpenDP {facts.kept.software['opendp']}, exact in rational arithmetic, entropy of the operating system",
        seed=None,
        levels=levels,
        hierarchy=UNSET if shape is None else msgspec.convert(shape.public(), Hierarchy),
        composition=UNSET if shape is None else LEVELS.format(terms.letter),
    )


def _entities(facts: Facts) -> str:
    """The list of rows: public, and cut by public columns alone."""
    said = "the list of rows is public and does not depend on the counts; rows with a true count of 0 stay"
    conditions = facts.used.get("where", ())
    return f"{said}; rows used: {' and '.join(conditions)}" if conditions else said


def _chosen(facts: Facts) -> Chosen:
    """What each choice was made from."""
    names = ["loss", "rule"] + (["levels", "split"] if facts.shape is not None else [])
    names += ["partition"] if facts.publication.by_group else []
    return Chosen(**{name: facts.publication.chosen.get(name, NOT_STATED) for name in names})  # type: ignore[arg-type]


def _unprotected(facts: Facts) -> list[Item]:
    """What the table shows without noise."""
    taken, p, shape = "taken to be public by the publisher", facts.publication, facts.shape
    items = [Item("the list of rows", str(facts.rows), taken)]
    for role, name in facts.used.items():
        if role in ("id", "where") or (role == "weight" and facts.outcome.name != "share"):
            continue
        names = ", ".join(name) if isinstance(name, list) else name
        what = f"the {role.replace('_', ' ')} of the rows ({names})"
        items.append(Item(what, None, "listed as public when the ledger was made"))
    if shape is not None:
        items.append(Item("the hierarchy: which row lies below which", None, taken))
    computed = f"{COMPUTED}; {p.source}"
    if shape is not None and shape.exact is not None:
        names_ = (ROOT, *shape.names)
        total = None if facts.outcome.totals is None else decimal_of(facts.outcome.totals[0])
        items.append(Item("the exact total of the true counts", total, computed))
        for name in names_[1 : names_.index(shape.exact) + 1]:
            items.append(Item(f"the exact true counts of level {name}", None, computed))
    if p.totals is None:
        return items
    what, source = "a total that is public elsewhere", str(p.source)
    if p.total_kind == EXACT:
        what, source = "the exact total of the true counts", computed
    if not p.by_group:
        return [*items, Item(what, str(p.totals[0]), source)]
    groups = zip(facts.outcome.labels, p.totals, strict=True)
    return [*items, *(Item(f"{what}, group {g}", str(t), source) for g, t in groups)]


def _steps(facts: Facts) -> list[Step]:
    """The post-processing, in order; all of it works on the noisy counts alone."""
    p, o, total = facts.publication, facts.outcome, None
    if o.totals is not None:
        total = TOTALS[p.total_kind if facts.shape is None else rules.total_kind(facts.kept.request, p)]
    value = None if o.totals is None or p.by_group else decimal_of(float(o.totals[0]))
    names = [p.postprocess, *(["rounding"] if p.round else [])]
    return [Step(name, o.name, total, p.by_group, value) for name in names]  # type: ignore[arg-type]


# -- a statement read back ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stated:
    """What an audit or a check needs of the statement of a finished release."""

    mechanism: str
    scale: float
    """b of the discrete Laplace, sigma of the discrete Gaussian."""
    parameter: str
    """The option that gives the scale."""
    sensitivity: float
    delta: float | None
    postprocess: str
    by_group: bool
    total: float | None
    """The public or exact total; None: the rule kept the noisy sum, or group totals."""
    note: str
    table_sha256: str
    scales: Mapping[str, float]
    """Of each level that has noise; of a single table the one above."""
    levels: str | None
    """Of a release of levels: the option --levels."""
    level_sigma: str | None
    """And the noise of each level, root first; 0: exact, or public."""
    whole: bool
    """Whether the counts were rounded."""
    safe: bool
    """Whether a ' stands in the table before text like a formula."""


def stated(path: str | os.PathLike[str]) -> Stated:
    """The mechanism and the rule of a statement, for an audit or a check without retyping."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: must be a statement of a release ({KIND}), got no text in UTF-8") from None
    try:
        data = json_of(text)
        return _read(msgspec.convert(_of_before(data) if data.get("statement") == OLD else data, Statement))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        wrong = "".join(c if c.isprintable() else "?" for c in str(error)[:200])  # it may quote what is in the file
        said = wrong if isinstance(error, msgspec.ValidationError) else "got another file"
        raise InputError(f"{path}: must be a statement of a release ({KIND}): {said}") from None


def _of_before(data: dict[str, Any]) -> dict[str, Any]:
    """A statement of fairpost 0.1, which did not say the relation, and chose all from one thing."""
    privacy, chosen = data["privacy"], data["parameters_chosen"]
    related = {"neighbours": privacy["neighbours"].partition(",")[0], "relation": NOT_STATED, "weak_protection": None}
    return data | {
        "statement": KIND,
        "privacy": privacy | related,
        "parameters_chosen": {"loss": chosen, "rule": chosen},
        "budget": data["budget"] | {"other_ledgers": NOT_STATED},
    }


def _read(made: Statement) -> Stated:
    privacy, rule = made.privacy, made.postprocessing[0]
    scales = {level.name: level.scale for level in privacy.levels}
    sensitivity = amount(privacy.sensitivity.value, "sensitivity")
    known, note = rule.total in ("public", "exact") and not rule.by_group, ""
    if rule.total == "the noisy sum":
        note = "the release kept the noisy sum as its total; the audit takes the true sum in its place"
    elif rule.total is not None and rule.by_group:
        note = "the release kept totals by group; the audit takes the true sums in their place"
    levels, sigmas = None, None
    if isinstance(shape := privacy.hierarchy, Hierarchy):
        levels, sigmas = _levels(shape), ",".join(scales.get(name, "0") for name in (ROOT, *shape.names))
    return Stated(
        mechanism=privacy.mechanism,
        scale=float(amount(privacy.scale, "scale")),
        parameter=privacy.levels[-1].law.parameter,
        sensitivity=math.sqrt(sensitivity) if privacy.sensitivity.norm == "L2 squared" else float(sensitivity),
        delta=float(amount(privacy.delta, "delta")) if privacy.delta not in (None, "0") else None,
        postprocess=rule.rule,
        by_group=rule.by_group,
        total=float(share(rule.total_value, "total_value")) if known else None,
        note=note,
        table_sha256=made.table.sha256,
        scales={name: float(amount(scale, "scale")) for name, scale in scales.items()},
        levels=levels,
        level_sigma=sigmas,
        whole=any(step.rule == "rounding" for step in made.postprocessing),
        safe=made.table.text is not UNSET,
    )


def _levels(shape: Hierarchy) -> str:
    """The option: prefixes as they are; columns, the last of which is the id's."""
    if shape.by == "prefixes":
        return ",".join(f"{name}:{length}" for name, length in zip(shape.names, shape.lengths, strict=True))
    if shape.by != "columns":
        raise InputError("a hierarchy by paths of labels is audited in Python (fairpost.audit), got its statement")
    return ",".join(shape.names[:-1])
