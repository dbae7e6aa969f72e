"""The parts of a question: data, noise, problem, levels, engine, words, outputs. Each field is declared here and nowhere else.

`--max-alpha` of a command, `max_alpha` of a TOML file and of JSON and `fp.Targets(max_alpha=...)` are one declaration.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from fairpost import engines
from fairpost.errors import ParameterError
from fairpost.fields import Part, one_of, said
from fairpost.hierarchy.rules import RULES
from fairpost.io.reading import DECIMALS, DELIMITERS, FORMATS
from fairpost.noise import MECHANISMS, Law, Neighbours, mechanism_of
from fairpost.plan import grid
from fairpost.results.targets import USUAL_ERROR, Targets
from fairpost.rules import PAYING, POSTPROCESSINGS

Text = str | None
Number = float | None
Whole = int | None
EPSILONS = (0.001, 10.0)
"""The range of a plan or a sweep that was given none."""
USUAL = "laplace"
"""The noise where none was chosen; of levels it is another one."""


# -- data -----------------------------------------------------------------------------------------------------------

Id = Annotated[Text, said("Column of ids, kept as text.  [default: id]", metavar="COL")]
Count = Annotated[Text, said("Column of counts.  [default: count]", metavar="COL")]
Group = Annotated[Text, said("Column of groups (states, say).  [default: group, if there]", metavar="COL")]
Label = Annotated[Text, said("Column of names for people, shown with the ids.", metavar="COL")]
Where = tuple[str, ...]


class Table(Part, frozen=True, kw_only=True):
    """A file of counts, and its columns."""

    file: Annotated[str, said("The file; -: the standard input.", path="file")] = ""
    id: Id = None
    count: Count = None
    weight: Annotated[
        Text, said("Column of weights (dollars per pupil, say).  [default: weight, if there]", metavar="COL")
    ] = None
    group: Group = None
    label: Label = None


class KeptTable(Table, frozen=True, kw_only=True):
    """The same, with columns that are carried along."""

    keep: Annotated[tuple[str, ...], said("A column carried into CSV and JSON. Repeatable.", metavar="COL")] = ()


class Compared(Part, frozen=True, kw_only=True):
    """A file of true counts, files of released ones, and their columns."""

    true: Annotated[str, said("The file of true counts.", path="file")] = ""
    released: Annotated[tuple[str, ...], said("Files of released counts.", path="file")] = ()
    id: Id = None
    count: Count = None
    group: Group = None
    label: Label = None
    released_id: Annotated[Text, said("Column of ids in RELEASED.  [default: as in TRUE, else id]", metavar="COL")] = (
        None
    )
    released_count: Annotated[
        Text, said("Column of values in RELEASED.  [default: as in TRUE, else count]", metavar="COL")
    ] = None
    released_where: Annotated[Where, said("Rows of RELEASED to use, as --where. Repeatable.", metavar="EXPR")] = ()


class Reading(Part, frozen=True, kw_only=True):
    """How the file is read."""

    format: Annotated[
        Text,
        said(
            "What FILE is; saipe: the Census Bureau's text or Excel file as it comes.  [default: by its name]",
            choices=FORMATS,
        ),
    ] = None
    delimiter: Annotated[
        Text, said("What stands between the fields of a text FILE.  [default: found in its header]", choices=DELIMITERS)
    ] = None
    decimal: Annotated[
        Text,
        said(
            "The mark before decimals.  [default: found in the numbers; refused where it is not clear]",
            choices=DECIMALS,
        ),
    ] = None
    sheet: Annotated[Text, said("The sheet of a workbook.  [default: the first]", metavar="NAME|NUMBER")] = None
    header: Annotated[
        Whole,
        said("The row of a workbook with the names of the columns.  [default: the one that has them]", metavar="ROW"),
    ] = None
    where: Annotated[
        Where,
        said(
            'Rows to use: "COLUMN = VALUE", !=, <, <=, >, >=, or "COLUMN is [not] missing". Repeatable: all must hold.',
            metavar="EXPR",
        ),
    ] = ()
    drop_missing: Annotated[bool, said("Skip rows that lack a count, an id or another entry, and name them.")] = False


# -- noise ----------------------------------------------------------------------------------------------------------

GIVEN = ("epsilon", "scale", "sigma", "rho")
"""What gives the amount of noise."""


class Kind(Part, frozen=True, kw_only=True):
    """The kind of noise, and what a promise about it is for."""

    mechanism: Annotated[Text, said(f"The noise.  [default: {USUAL}]", choices=MECHANISMS)] = None
    delta: Annotated[Number, said("For epsilon of the Gaussian pair.")] = None
    sensitivity: Annotated[
        float,
        said("How much one person changes the counts: L1 for the Laplace pair, L2 for the Gaussian pair.", shown=True),
    ] = 1.0

    @property
    def name(self) -> str:
        """Of the mechanism."""
        return self.mechanism or USUAL

    @property
    def kind(self) -> type[Law]:
        """The class of the mechanism."""
        return MECHANISMS[self.name]

    @property
    def neighbours(self) -> Neighbours:
        """Sensitivity and delta."""
        return Neighbours(self.sensitivity, self.delta)


class Noise(Kind, frozen=True, kw_only=True):
    """M: a mechanism and how much of it."""

    epsilon: Annotated[Number, said("The privacy loss; smaller is more private.")] = None
    scale: Annotated[Number, said("Instead of epsilon: b of the Laplace pair, in counts.")] = None
    sigma: Annotated[Number, said("Instead of epsilon: the Gaussian pair's parameter, in counts.")] = None
    rho: Annotated[Number, said("Instead of epsilon: zero-concentrated privacy loss.")] = None

    @property
    def given(self) -> tuple[str, ...]:
        """The fields that say how much noise there is."""
        return tuple(name for name in GIVEN if getattr(self, name) is not None)

    @property
    def law(self) -> Law:
        """The mechanism."""
        amount = {name: getattr(self, name) for name in GIVEN}
        return mechanism_of(self.name, **amount, neighbours=self.neighbours)

    def look(self) -> None:
        """What is wrong with it is an error now."""
        self.law  # noqa: B018

    @property
    def maybe(self) -> Law | None:
        """The mechanism, where the noise is known."""
        return self.law if self.given else None

    def refuse_beside(self, statement: str) -> None:
        """A statement has the noise."""
        if self.given:
            raise ParameterError(f"the noise is given by `{statement}` or by `{self.given[0]}`, got both")


class StatedNoise(Noise, frozen=True, kw_only=True):
    """The same, or what the statement of a release says."""

    statement: Annotated[
        Text,
        said("A finished release: its mechanism, rule and total, without retyping them.", metavar="FILE", path="file"),
    ] = None


class StatedNoises(Noise, frozen=True, kw_only=True):
    """The same, or what the statements of several releases say."""

    statements: Annotated[
        tuple[str, ...],
        said(
            "Instead: the statement of a release, with its noise; RELEASED must be its table, unchanged. Once for each RELEASED.",
            metavar="FILE",
            flags=("--statement",),
            path="file",
        ),
    ] = ()


class Range(Kind, frozen=True, kw_only=True):
    """Levels of noise, from little to much."""

    epsilons: Annotated[
        tuple[float, float] | None, said("The range of epsilon.  [default: 0.001 10]", metavar="LOW HIGH")
    ] = None
    spreads: Annotated[
        tuple[float, float] | None, said("Instead: the range of scale or sigma.", metavar="LOW HIGH")
    ] = None
    points: Annotated[int, said("Levels of noise on the curve.", shown=True)] = 25
    rho: Annotated[Number, said("Levels: zero-concentrated privacy loss, to be split between them.")] = None

    def check(self) -> None:
        """What is given twice, or for nothing."""
        if self.spreads is not None and self.epsilons is not None:
            raise ParameterError("a range is given by `epsilons` or by `spreads`, got both")
        low, high = self.epsilons or EPSILONS
        if not 0 < low < high < float("inf"):
            raise ParameterError(f"`epsilons` must ascend from above 0, got {low:g} {high:g}")

    def look(self) -> None:
        """What is wrong with it is an error now."""
        self.levels  # noqa: B018

    @property
    def levels(self) -> tuple[float, ...]:
        """The spreads of the levels."""
        if self.spreads is not None:
            return grid(*self.spreads, self.points)
        low, high = self.epsilons or EPSILONS
        about = self.neighbours
        ends = [mechanism_of(self.name, epsilon=e, neighbours=about).spread for e in (high, low)]
        return grid(ends[0], ends[1], self.points)


# -- the problem ----------------------------------------------------------------------------------------------------


class Sharing(Part, frozen=True, kw_only=True):
    """Money to share, by a law or in proportion, by group or in all."""

    programme: Annotated[
        Text,
        said(
            "A law, for as-written, levelled, signed and no-loss (see programmes).",
            metavar="NAME|FILE.toml",
            path="file or name",
        ),
    ] = None
    base: Annotated[Text, said("Column of the population that rates are of.", metavar="COL")] = None
    base_noise: Annotated[
        Text,
        said(
            "Noise on the base too: its scale (sigma), of the kind that the counts have, or same as on them.  [default: the base is public]",
            metavar="SPREAD|same",
        ),
    ] = None
    budget: Annotated[
        Number,
        said(
            "Money to share, for results in money; by group it is split in proportion to the groups' shares: the true ones, "
            "or of noisy counts those of their sums.",
            least=0,
        ),
    ] = None
    group_budget: Annotated[
        Text,
        said(
            "Instead: the budget of each group, as a CSV of group,budget or a column of FILE.",
            metavar="FILE|COL",
            path="file or name",
        ),
    ] = None
    by_group: Annotated[bool, said("Each group keeps its own total, or shares its own budget.")] = False

    def check(self) -> None:
        """Nothing about laws and money is left aside, or said twice."""
        if self.base is not None and self.programme is None:
            raise ParameterError("`base` is for the rates of a programme, got no `programme`")
        if self.base_noise is not None and self.base is None:
            raise ParameterError("`base_noise` is for the population of `base`, got no `base`")
        if self.group_budget is None:
            return
        if self.budget is not None:
            raise ParameterError("money is given by `budget` or by `group_budget`, got both")
        if not self.by_group:
            raise ParameterError("`group_budget` is for shares by group, got no `by_group`")

    def noise_of_base(self, kind: type[Law]) -> Law | str | None:
        """The noise of the base: a number is the parameter of the kind of noise that the counts have."""
        text = None if self.base_noise is None else self.base_noise.strip()
        if text is None or text == "same":
            return text
        try:
            spread = float(text)
        except ValueError:
            raise ParameterError(f"`base_noise` must be a number or same, got {text!r}") from None
        return kind(spread)  # type: ignore[call-arg]


class Problem(Sharing, frozen=True, kw_only=True):
    """P: the same, or a total to keep."""

    total: Annotated[Number, said("The public total that counts keep.  [default: the sum of the counts]", least=0)] = (
        None
    )


class Kept(Part, frozen=True, kw_only=True):
    """Totals that noisy counts are brought to."""

    total: Annotated[
        Number, said("The public total to keep.  [default: the sum of the noisy counts, at least 0]", least=0)
    ] = None
    group_total: Annotated[
        Text,
        said(
            "Column with the public total of each entity's group.  [default: with --group, the group's noisy sum]",
            metavar="COL",
        ),
    ] = None
    whole: Annotated[
        bool, said("Whole numbers with the totals kept exactly, without bias.", flags=("--round", "--whole"))
    ] = msgspec.field(default=False, name="round")
    seed: Annotated[Whole, said("Of the rounding.  [default: fresh randomness]")] = None


class PlanTargets(Targets, frozen=True, kw_only=True):
    """The limits of a plan."""

    any_error: Annotated[
        bool,
        said(
            f"No limit on the error. Without this, --max-rmse and --max-relative-rmse it is {USUAL_ERROR:g} % of the mean of what is due."
        ),
    ] = False


# -- levels ---------------------------------------------------------------------------------------------------------


class Levels(Part, frozen=True, kw_only=True):
    """A hierarchy, and the noise of its levels."""

    levels: Annotated[
        Text,
        said(
            "A hierarchy by prefixes of the id, top first, or NAME,...: by columns, the id below them. The root is implied.",
            metavar="NAME:LENGTH,...",
        ),
    ] = None
    level_sigma: Annotated[Text, said("Levels: the noise of each, top first; 0: exact.", metavar="S,...")] = None
    split: Annotated[Text, said("Levels: each one's share of --rho, instead of --level-sigma.", metavar="P,...")] = None
    exact: Annotated[Text, said("Levels that are published without noise.", metavar="NAME,...")] = None


class AuditLevels(Levels, frozen=True, kw_only=True):
    """The same, with what is followed across them."""

    areas: Annotated[Text, said("Levels: column of unions of leaves (districts, places) to follow.", metavar="COL")] = (
        None
    )
    cells: Annotated[
        Text, said("Levels: instead of --count, one column per cell (race, say): a tree each.", metavar="COL,...")
    ] = None
    total_sigma: Annotated[
        Text,
        said(
            "Cells: totals are measured too, with this noise, and fixed first; then cells, to fit both ways. 0: exact.",
            metavar="S,...",
        ),
    ] = None
    total_share: Annotated[
        Text, said("The same with --rho: the part of each level's share that totals get.", metavar="Q,...")
    ] = None


class PlanLevels(Levels, frozen=True, kw_only=True):
    """The same, with a plan's limits on the error of levels."""

    level_rmse: Annotated[
        Text, said("Levels: the error that each may have; target of a plan.", metavar="NAME:LIMIT,...")
    ] = None
    tries: Annotated[int, said("Levels: how many splits to try.", shown=True)] = 200


class SweepLevels(Levels, frozen=True, kw_only=True):
    """The same, with a sweep's range."""

    rhos: Annotated[
        tuple[float, float] | None, said("Levels: the range of rho, split as --split says.", metavar="LOW HIGH")
    ] = None


# -- the engine -----------------------------------------------------------------------------------------------------


class Engine(Part, frozen=True, kw_only=True):
    """How the answer is found."""

    engine: Annotated[
        str,
        said(
            "auto: exact where there is an integral, else an expansion, conditional means or simulation, and says which. "
            "mean-field: with --levels.",
            choices=(*engines.NAMES, "mean-field"),
            flags=("--method", "--engine"),
            shown=True,
        ),
    ] = msgspec.field(default="auto", name="name")
    runs: Annotated[Whole, said("Simulation: runs, with --rtol at most.  [default: 10000]")] = None
    seed: Annotated[Whole, said("Simulation, conditional: the same seed, the same bits.  [default: 0]")] = None
    confidence: Annotated[Number, said("Simulation, conditional: how surely intervals cover.  [default: 0.95]")] = None
    rtol: Annotated[
        Number, said("Relative tolerance on alpha.  [default: 1e-6 exact; 1e-3 conditional; simulation: none]")
    ] = None
    threads: Annotated[Whole, said("Simulation: threads.  [default: one per core]")] = None
    device: Annotated[
        Text,
        said(
            "Simulation: where runs are made. auto: on a GPU that covers them, else on the CPU, and says so.  [default: cpu]",
            choices=("cpu", "gpu", "auto"),
        ),
    ] = None

    def made(self, progress: Any = None) -> engines.Engine:
        """The engine; what was not chosen stays at its own default."""
        names = ("rtol", "runs", "seed", "confidence", "threads", "checkpoint", "cluster")
        settings = {name: getattr(self, name, None) for name in names}
        simulates = engines.MonteCarlo in engines.NAMES.get(self.engine, ())
        if self.device is not None and not simulates:
            raise ParameterError(f"`device` is for simulation, got `engine` {self.engine}")
        settings["backend"] = self.device
        return engines.engine_of(self.engine, **settings, progress=progress if simulates else None)


class LongEngine(Engine, frozen=True, kw_only=True):
    """The same, for work that takes long."""

    checkpoint: Annotated[
        Text, said("Simulation: a file for the state; the same command goes on from it, to the same bits.", path="file")
    ] = None
    cluster: Annotated[Text, said("Simulation: a Dask scheduler, such as tcp://host:8786.", metavar="ADDRESS")] = None


class Intervals(Part, frozen=True, kw_only=True):
    """How surely intervals cover."""

    confidence: Annotated[float, said("How surely the intervals of a table cover.", shown=True)] = 0.95


class ShareIntervals(Intervals, frozen=True, kw_only=True):
    """What noisy counts alone can say of the true shares."""

    simultaneous: Annotated[bool, said("Intervals that cover all entities together.")] = False
    replicates: Annotated[int, said("Bootstrap draws for the error of a bias.", shown=True)] = 10
    seed: Annotated[int, said("Of the bootstrap.", shown=True)] = 0


# -- words and outputs ----------------------------------------------------------------------------------------------


class Words(Part, frozen=True, kw_only=True):
    """What the report calls things."""

    title: Annotated[Text, said("The headline of the report.")] = None
    unit: Annotated[str, said("What is counted, for the report.", shown=True)] = "people"
    noun: Annotated[str, said("What has a count, for the report.", shown=True)] = "entities"


class MoneyWords(Words, frozen=True, kw_only=True):
    """The same, with money."""

    currency: Annotated[str, said("The sign of money.", shown=True)] = "$"


class Output(Part, frozen=True, kw_only=True):
    """The files that are written."""

    json: Annotated[Text, said("Results as JSON; -: to stdout.", metavar="PATH|-", path="file")] = None
    csv: Annotated[Text, said("One row per entity; -: to stdout.", metavar="PATH|-", path="file")] = None
    csv_safe: Annotated[bool, said("For spreadsheets: a ' before text in the CSV that begins like a formula.")] = False
    html: Annotated[Text, said("A report to read: one file; -: to stdout.", metavar="PATH|-", path="file")] = None
    force: Annotated[bool, said("Overwrite outputs that exist.")] = False


class AuditOutput(Output, frozen=True, kw_only=True):
    """The same, and what an audit can show besides."""

    entities: Annotated[bool, said("Every entity in the JSON.")] = False
    csv_groups: Annotated[Text, said("One row per group; -: to stdout.", metavar="PATH|-", path="file")] = None
    frontier: Annotated[bool, said("Alpha against RMSE as the threshold grows to its best: screen, JSON, report.")] = (
        False
    )
    explain: Annotated[bool, said("Which method answers each post-processing, and why those before it do not.")] = False
    map: Annotated[
        Text,
        said(
            "Areas of the entities: the report gets a map of the bias, drawn from this file alone.",
            metavar="FILE.geojson",
            path="file",
        ),
    ] = None
    map_key: Annotated[
        Text,
        said(
            "The property of an area that has the id.  [default: the area's own id, then id, GEOID, leaid]",
            metavar="PROPERTY",
        ),
    ] = None

    def check(self) -> None:
        """What is given twice, or for nothing."""
        if self.map is None and self.map_key is not None:
            raise ParameterError("`map_key` is for `map`, got no `map`")
        if self.map is not None and self.html is None:
            raise ParameterError("`map` is for the report, got no `html`")


def rules(help: str, known: Any, *, many: bool = True) -> msgspec.Meta:
    """A field of rules (of one), by name."""
    return said(help, metavar="NAME", choices=known, flags=("--postprocess", "--rule"), many=many)


RULES_OF_ALL = (*POSTPROCESSINGS, *RULES, *PAYING)
AnyRules = Annotated[
    tuple[Annotated[str, one_of(RULES_OF_ALL)], ...],
    rules(
        "Repeatable. Counts: none, nonnegative, sum, sum-clipped, simplex, simplex-threshold. "
        "Shares of a budget: baseline, pos, pos-threshold. "
        "With --levels: top-down, blue-down, joint, top-down-threshold, blue-down-threshold. "
        "With --programme: as-written, levelled, signed, no-loss.",
        RULES_OF_ALL,
    ),
]
"""The rules of an audit, a plan or a sweep."""
