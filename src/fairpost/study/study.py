"""A question as one object: a command with its parts, which can be run, saved and printed.

>>> import fairpost as fp
>>> study = fp.Study.of("audit", file="districts.csv", epsilon=0.1, rules=["pos"], budget=6.5e9)
>>> print(study.command())
fairpost audit districts.csv --epsilon 0.1 --postprocess pos --budget 6500000000
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast

from msgspec import structs

from fairpost.allocate import ALLOCATIONS, by_law
from fairpost.allocate import allocate as shares_of
from fairpost.audit import compare, method_for
from fairpost.budgets import Budget, whole
from fairpost.check import check as checked
from fairpost.counts import Counts
from fairpost.documents import toml_of
from fairpost.errors import InputError, ParameterError, UnsupportedError, value
from fairpost.fields import Field, Part, all_fields, fields_of, one_of, parts_of, unknown
from fairpost.hierarchy.rules import RULES
from fairpost.io import Rows, read_counts, read_rows
from fairpost.noise import MECHANISMS, Law
from fairpost.plan import frontier, plan, sweep
from fairpost.problems import Programme
from fairpost.project import RELEASES
from fairpost.project import project as projection_of
from fairpost.results import Allocation, Audit, Check, Comparison, Curve, Frontier, Plans, Projection
from fairpost.results.targets import LIMITS, Targets
from fairpost.rules import PAYING
from fairpost.study import parts as of

if TYPE_CHECKING:
    from fairpost.engines.choose import Choice
    from fairpost.release.reading import Stated

Progress = Callable[..., None]
"""Called with (done, most) and a label; most None: nobody knows."""
Say = Callable[[str], None]
Given = dict[str, Any]
S = TypeVar("S", bound="Study")
LEVEL = "level"
"""The column of a release of levels that says of which one a row is."""


LEVELS_ARE_COMMANDS = "a study of levels is answered by the command (fairpost run STUDY.toml), or by fp.audit_hierarchy"


def silent(done: int, most: int | None, label: str = "") -> None:
    """Nobody wants to know how far the work is."""


class Study(Part, frozen=True, kw_only=True):
    """What is asked: a command and its parts. `Study.of` makes one, `run` answers it; it prints itself as a command, as TOML and as Python."""

    answer: ClassVar[str] = "results"
    """What the Python lines call the answer."""
    several: ClassVar[bool] = False
    """Whether there is an answer for each rule."""

    @property
    def name(self) -> str:
        """The command."""
        return str(self.__struct_config__.tag)

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in all_fields(type(self)):
            if field.name in ARGUMENTS and self.flat()[field.name] == field.default:
                raise ParameterError(f"`{field.name}` must name a file, got none")

    @staticmethod
    def of(command: str, /, **given: Any) -> Study:
        """A study from options by name: `Study.of("audit", file="t.csv", epsilon=0.1)`. Lists are welcome for tuples.

        Parameters
        ----------
        command
            audit, plan, sweep, allocate, project or check.
        **given
            The options of that command, with underscores; what is no option of it, or no value of one, is named.

        """
        kind = kind_of(command)
        known = {name: field.name for field in all_fields(kind) for name in field.names}
        for name in given:
            if name not in known:
                raise ParameterError(unknown(command, name, [field.name for field in all_fields(kind)]))
        return kind.from_flat({known[name]: one for name, one in given.items() if one is not None})

    @classmethod
    def from_dict(cls: type[S], data: object, place: str = "") -> S:
        """From the tables of a TOML file, or from JSON of that shape: `command`, and the parts by their names."""
        if cls.__struct_config__.tag is not None:
            return super().from_dict(data, place)
        if not isinstance(data, Mapping):
            raise ParameterError(f"{place or 'the body'} must be a table of keys, got {value(data)}")
        where = f"{place}: " if place else ""
        if "command" not in data:
            raise ParameterError(f"{where}`command` must be one of {', '.join(STUDIES)}, got none")
        rest = {key: one for key, one in data.items() if key != "command"}
        try:
            kind = kind_of(data["command"])
            return cast(S, kind.from_dict(rest))
        except InputError as error:
            raise type(error)(f"{where}{error}") from None

    # -- printing

    def command(self) -> str:
        """The command that asks this."""
        arguments, options = [], []
        for field, given in self.chosen():
            if field.name in ARGUMENTS:
                arguments += [_word(one) for one in _each(given)]
            elif given is True:
                options += [field.option]
            else:
                many = field.size == 0
                for one in given if many else [given]:
                    options += [field.option, *(_word(word) for word in _each(one))]
        return shlex.join(["fairpost", self.name, *arguments, *options])

    def toml(self) -> str:
        """The study as a file for `fairpost run`. It has the question alone, no count."""
        import tomli_w

        found = {"command": self.name} | {k: v for k, v in self.to_dict().items() if k != "command"}
        return f"# fairpost run THIS FILE: a question, without any counts.\n{tomli_w.dumps(found)}"

    def python(self) -> str:
        """The Python lines that find the same numbers."""
        lines = [
            f"    {field.name}={list(given) if isinstance(given, tuple) else given!r},"
            for field, given in self.chosen()
            if field not in fields_of(of.Output) and field.name not in NOT_IN_PYTHON
        ]
        call = "\n".join([f"{self.answer} = fp.Study.of(", f"    {self.name!r},", *lines, ").run()"])
        shown = f"*{self.answer}, sep='\\n'" if self.several else self.answer
        return f"import fairpost as fp\n\n{call}\nprint({shown})"

    def save(self, path: str) -> str:
        """The text of a file at this path: names of files are as seen from there."""
        folder = Path(path).parent

        def near(given: str, field: Field) -> str:
            named = field.path == "file" or Path(given).exists()
            return os.path.relpath(given, folder) if named and given != "-" and not Path(given).is_absolute() else given

        text = self.with_paths(near).toml()
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ParameterError(f"a study is written in UTF-8, which has no {error.object[error.start]!r}") from None
        return text

    def with_paths(self: S, change: Callable[[str, Field], str]) -> S:
        """The same with other names of files."""
        moved: S = _with_paths(self, change)
        return moved

    # -- running

    def run(self, *, progress: Progress = silent, say: Say | None = None) -> Any:
        """The answer, as the function of that name gives it: a `Comparison`, `Plans`, a `Curve`, `Allocation`s, ...

        Parameters
        ----------
        progress
            Called with (done, most) and a label.
        say
            Called with each note about how the file was read; default: the log.

        """
        study = self.resolved(say)
        return study.find(study.load(say), progress)

    def resolved(self: S, say: Say | None = None) -> S:
        """With what another file says of the question."""
        return self

    def load(self, say: Say | None = None) -> Any:
        """What the files have."""
        raise NotImplementedError

    def find(self, loaded: Any, progress: Progress = silent) -> Any:
        """The answer from what the files have."""
        raise NotImplementedError

    @property
    def columns(self) -> Given:
        """The keyword arguments of the readers: columns, and how the file is read."""
        given = self.flat()
        named = {name: given.get(name) for name in ("id", "count", "weight", "group", "base")}
        how = {field.name: given[field.name] for field in fields_of(of.Reading)}
        return {name: one for name, one in named.items() if one is not None} | how


ARGUMENTS = ("file", "true", "released")
"""Fields that a command takes without an option."""
NOT_IN_PYTHON = ("title", "unit", "noun", "csv_groups", "map", "map_key", "entities", "explain")
"""Fields that are about the report and the files alone."""


def _each(given: Any) -> Sequence[Any]:
    return given if isinstance(given, tuple) else (given,)


def _word(given: Any) -> str:
    return f"{given:.17g}" if isinstance(given, float) and given == round(given) else str(given)


def _with_paths(part: Any, change: Callable[[str, Field], str]) -> Any:
    kind: type[Part] = type(part)
    new: Given = {name: _with_paths(getattr(part, name), change) for name in parts_of(kind)}
    for field in fields_of(kind):
        given = getattr(part, field.name)
        if field.path and given != field.default:
            moved = tuple(change(one, field) for one in _each(given))
            new[field.name] = moved if field.size == 0 else moved[0]
    return structs.replace(part, **new)


def read_study(path: str | os.PathLike[str]) -> Study:
    """A study from its TOML file; names of files in it are relative to that file. What is wrong is named with its key."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: must be text in UTF-8, got other bytes") from None
    try:
        data = toml_of(text)
    except ValueError as error:
        raise InputError(f"{path}: cannot be read as TOML: {' '.join(str(error).split())[:200]}") from None
    study, folder = Study.from_dict(data, str(path)), Path(path).parent

    def there(given: str, field: Field) -> str:
        place = folder / given
        return given if given == "-" or (field.path != "file" and not place.exists()) else str(place)

    return study.with_paths(there)


def need_levels(part: of.Levels, rules: Sequence[str], engine: str = "auto") -> None:
    """Fields and rules that mean nothing without levels are refused by name."""
    for field, given in part.chosen():
        if field.name != "tries":
            raise ParameterError(f"`{field.name}` needs `levels`, got {given!r} without")
    for name in rules:
        if name in RULES:
            raise ParameterError(f"the rule {name} needs `levels`, got none")
    if engine == "mean-field":
        raise ParameterError("the engine mean-field needs `levels`, got none")


# -- questions about true counts ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Loaded:
    """Counts, the money to share (one budget, or one per group), and the law."""

    counts: Any
    budget: Budget | None
    law: Given

    def usual(self) -> tuple[str, ...]:
        """The rules where none was chosen: for counts, for shares where there is a budget, or the law as it is written."""
        if self.law:
            return ("as-written",)
        counts, shares = ("nonnegative", "simplex", "simplex-threshold"), ("baseline", "pos", "pos-threshold")
        return counts if self.budget is None else shares


class _OfTrueCounts(Study, frozen=True, kw_only=True):
    """What an audit, a plan and a sweep have in common."""

    if TYPE_CHECKING:  # each type has them in the order of its help
        data: of.Table = of.Table()
        noise: Any = None
        rules: tuple[str, ...] = ()
        problem: of.Problem = of.Problem()
        engine: of.Engine = of.Engine()
        levels: of.Levels = of.Levels()
        words: of.MoneyWords = of.MoneyWords()

    def load(self, say: Say | None = None) -> Loaded:
        """The true counts of the file, the budget and the law."""
        from fairpost.io.tables import read_group_budgets

        if self.levels.levels is not None:
            raise UnsupportedError(LEVELS_ARE_COMMANDS)
        self.noise.look()  # what is wrong with noise or engine is said before a file is read
        self.engine.made()
        read = self.columns | {"label": self.data.label, "keep": getattr(self.data, "keep", ()), "say": say}
        budget: Budget | None
        if self.problem.group_budget is None:
            counts, budget = read_counts(self.data.file, **read), self.problem.budget
        else:
            counts, budget = read_group_budgets(self.data.file, self.problem.group_budget, **read)
        return Loaded(counts, budget, law_of(self, budget, say))

    def asked(self, loaded: Loaded, progress: Any = None) -> Given:
        """What the verbs take beside counts, noise and rules."""
        return loaded.law | {
            "engine": self.engine.made(progress),
            "total": self.problem.total,
            "budget": loaded.budget,
            "by_group": self.problem.by_group,
        }


def law_of(study: Any, budget: Budget | None, say: Say | None) -> Given:
    """The law, the noise of its base and, with hold-harmless, last year's payments, as arguments of the verbs; without a programme none."""
    asked = study.problem
    if asked.programme is None:
        return {}
    from fairpost.io.programmes import read_programme
    from fairpost.io.tables import read_column

    law = read_programme(asked.programme)
    found: Given = {"programme": law}
    if asked.base_noise is not None:
        found["base_noise"] = of.base_noise_of(asked, study.noise.name)
    if law.hold_harmless is None:
        return found
    if budget is None:
        raise ParameterError(
            f"{law.name}: hold-harmless compares money with last year's, so it needs `budget`, got none"
        )
    last = read_column(study.data.file, law.hold_harmless.last, "last year's payments", **study.columns, say=say)
    return found | {"last": last / whole(budget)}


class AuditStudy(_OfTrueCounts, frozen=True, kw_only=True, tag_field="command", tag="audit"):
    """Who gains and who loses from post-processing."""

    data: of.KeptTable = of.KeptTable()
    reading: of.Reading = of.Reading()
    noise: of.StatedNoise = of.StatedNoise()
    rules: of.AnyRules = ()
    problem: of.Problem = of.Problem()
    targets: Targets = Targets()
    levels: of.AuditLevels = of.AuditLevels()
    engine: of.LongEngine = of.LongEngine()
    output: of.AuditOutput = of.AuditOutput()
    words: of.MoneyWords = of.MoneyWords()

    def check(self) -> None:
        """An audit of a hierarchy does not look at everything, and leaves nothing aside."""
        if self.levels.levels is None and self.noise.statement is None:
            need_levels(self.levels, self.rules, self.engine.engine)
        elif self.levels.levels is not None:
            given = self.flat()
            typed = [name for name in OF_TABLES if given[name]]
            if typed:
                raise ParameterError(f"`{typed[0]}` is for audits without `levels`, got both")

    def stated(self, say: Say | None = None) -> tuple[AuditStudy, Stated | None]:
        """With the mechanism, the rule and the total of a finished release, where a statement is given; and the statement."""
        if self.noise.statement is None:
            return self, None
        from fairpost.release.reading import stated

        self.noise.refuse_beside("statement")
        found = stated(self.noise.statement)
        if found.note and say is not None:
            say(found.note)
        if found.levels is not None:
            return self, found
        amount: Given = {found.parameter: found.scale, "sensitivity": found.sensitivity, "delta": found.delta}
        noise = of.StatedNoise(mechanism=found.mechanism, **amount)
        total = found.total if self.problem.total is None else self.problem.total
        problem = structs.replace(self.problem, by_group=self.problem.by_group or found.by_group, total=total)
        rules = self.rules or (found.postprocess,)
        return structs.replace(self, noise=noise, problem=problem, rules=rules), found

    def resolved(self, say: Say | None = None) -> AuditStudy:
        """With what a statement says; a release of levels is for the command."""
        study, found = self.stated(say)
        if found is not None and found.levels is not None:
            raise UnsupportedError(LEVELS_ARE_COMMANDS)
        return study

    def find(self, loaded: Loaded, progress: Progress = silent) -> Comparison:
        """`fp.compare`, with the frontier where it was asked for."""
        asked = self.asked(loaded, lambda done, most: progress(done, most, "simulating"))
        progress(0, None, "simulating" if self.engine.engine == "monte-carlo" else "integrating")
        rules = self.rules or loaded.usual()
        results = compare(loaded.counts, self.noise.law, rules, targets=self.targets, **asked)
        if self.output.frontier:
            progress(0, None, "fairness against accuracy")
            results = replace(results, frontier=self.frontier(results, loaded))
        return results

    def explain(self, loaded: Loaded) -> tuple[Choice, ...]:
        """Who answers each rule, where that was asked for."""
        if not self.output.explain:
            return ()
        rules = self.rules or loaded.usual()
        return method_for(loaded.counts, self.noise.law, rules, **self.asked(loaded))

    def frontier(self, results: Comparison, loaded: Loaded) -> Frontier:
        """Of the task of the results, beside them."""
        first = results.first
        if isinstance(first.problem, Programme) or not isinstance(first.mechanism, Law):
            raise ParameterError("`frontier` is for shares in proportion and for counts, got a programme")
        allocation = first.task == "allocation"
        mine: list[Audit] = [r for r in results if r.unit == first.unit]
        return frontier(
            first.counts,
            first.mechanism,
            "pos-threshold" if allocation else "simplex-threshold",
            beside=mine,
            total=self.problem.total,
            budget=loaded.budget if allocation else None,
            by_group=self.problem.by_group,
        )


OF_TABLES = ("label", "keep", "frontier", "csv_groups", "map", "map_key", *LIMITS)
"""Fields of an audit that mean nothing for a hierarchy."""


class _AgainstNoise(_OfTrueCounts, frozen=True, kw_only=True):
    """What a plan and a sweep have in common."""

    if TYPE_CHECKING:
        noise: of.Range = of.Range()

    def check(self) -> None:
        """What is for levels has them."""
        if self.levels.levels is None:
            need_levels(self.levels, self.rules, self.engine.engine)
            if self.noise.rho is not None:
                raise ParameterError(f"`rho` needs `levels`, got {self.noise.rho!r} without")

    def along(self, loaded: Loaded) -> Given:
        """What both hand on."""
        return self.asked(loaded) | {"epsilon": self.noise.neighbours.epsilon, "currency": self.words.currency}


class PlanStudy(_AgainstNoise, frozen=True, kw_only=True, tag_field="command", tag="plan"):
    """The most noise that keeps the harm below limits."""

    answer: ClassVar[str] = "plans"
    data: of.Table = of.Table()
    reading: of.Reading = of.Reading()
    noise: of.Range = of.Range()
    targets: of.PlanTargets = of.PlanTargets()
    rules: of.AnyRules = ()
    problem: of.Problem = of.Problem()
    engine: of.Engine = of.Engine()
    output: of.Output = of.Output()
    words: of.MoneyWords = of.MoneyWords()
    levels: of.PlanLevels = of.PlanLevels()

    def check(self) -> None:
        """A plan has a target; of levels it is another one."""
        super().check()
        if self.levels.levels is None and not self.targets:
            raise ParameterError(f"a plan must have a target of {', '.join(f'`{name}`' for name in LIMITS)}, got none")

    def find(self, loaded: Loaded, progress: Progress = silent) -> Plans:
        """`fp.plan`."""
        return plan(
            loaded.counts,
            self.noise.kind,
            list(self.rules or loaded.usual()),
            spreads=self.noise.levels,
            progress=progress,
            any_error=self.targets.any_error,
            **self.targets.to_dict(),
            **self.along(loaded),
        )


class SweepStudy(_AgainstNoise, frozen=True, kw_only=True, tag_field="command", tag="sweep"):
    """The harm against the noise."""

    answer: ClassVar[str] = "curve"
    data: of.Table = of.Table()
    reading: of.Reading = of.Reading()
    noise: of.Range = of.Range()
    rules: of.AnyRules = ()
    problem: of.Problem = of.Problem()
    engine: of.Engine = of.Engine()
    output: of.Output = of.Output()
    words: of.MoneyWords = of.MoneyWords()
    levels: of.SweepLevels = of.SweepLevels()

    def find(self, loaded: Loaded, progress: Progress = silent) -> Curve:
        """`fp.sweep`."""
        made = [MECHANISMS[self.noise.name](s) for s in self.noise.levels]  # type: ignore[call-arg]
        rules = self.rules or loaded.usual()
        return sweep(loaded.counts, made, rules, progress=progress, **self.along(loaded))


# -- questions about noisy counts -----------------------------------------------------------------------------------


class AllocateStudy(Study, frozen=True, kw_only=True, tag_field="command", tag="allocate"):
    """Shares of a budget from noisy counts."""

    answer: ClassVar[str] = "found"
    several: ClassVar[bool] = True
    data: of.KeptTable = of.KeptTable()
    reading: of.Reading = of.Reading()
    noise: of.Noise = of.Noise()
    rules: Annotated[
        tuple[Annotated[str, one_of((*ALLOCATIONS, *PAYING))], ...],
        of.rules(
            f"{', '.join(ALLOCATIONS)}; with --programme: {', '.join(PAYING)}. Repeatable.  "
            "[default: all three, pos-threshold only where the noise is given; with --programme: as-written]",
            (*ALLOCATIONS, *PAYING),
        ),
    ] = ()
    problem: of.Sharing = of.Sharing()
    intervals: of.Intervals = of.Intervals()
    output: of.Output = of.Output()
    words: of.MoneyWords = of.MoneyWords()

    def load(self, say: Say | None = None) -> Loaded:
        """The noisy counts, the budget and the law."""
        from fairpost.io.tables import read_row_budgets

        if self.noise.given:
            self.noise.look()
        read = self.columns | {"label": self.data.label, "keep": self.data.keep, "say": say}
        budget: Budget | None
        if self.problem.group_budget is None:
            noisy, budget = read_rows(self.data.file, **read), self.problem.budget
        else:
            noisy, budget = read_row_budgets(self.data.file, self.problem.group_budget, **read)
        return Loaded(noisy, budget, law_of(self, budget, say))

    def find(self, loaded: Loaded, progress: Progress = silent) -> tuple[Allocation, ...]:
        """`fp.allocate` for every rule, or the law: its weights are public, its counts are noisy, its base is either."""
        noisy, law, noise = loaded.counts, dict(loaded.law), self.noise.maybe
        settings = {} if noise is None else structs.asdict(self.intervals)
        same: Given = {"budget": loaded.budget, "by_group": self.problem.by_group, **settings}
        if law:
            programme = law.pop("programme")
            return tuple(by_law(noisy, programme, how, noise, **same, **law) for how in self.rules or loaded.usual())
        names = {"ids": noisy.ids, "groups": noisy.groups, "names": noisy.names, "kept": noisy.kept}
        rules = self.rules or tuple(k for k in ALLOCATIONS if k != "pos-threshold" or noise is not None)
        found = []
        for k, how in enumerate(rules):
            one = shares_of(
                noisy.values, noisy.weights, how, noise, **names, **same, estimate_bias=noise is not None
            )  # fmt: skip
            found.append(one)
            progress(k + 1, len(rules), "estimating biases")
        return tuple(found)


class ProjectStudy(Study, frozen=True, kw_only=True, tag_field="command", tag="project"):
    """Noisy counts to counts that are not negative and add up."""

    answer: ClassVar[str] = "found"
    data: of.KeptTable = of.KeptTable()
    reading: of.Reading = of.Reading()
    rule: Annotated[
        str | None,
        of.rules(
            f"{', '.join(RELEASES)}; with --levels: {', '.join(RULES)}.  [default: simplex]",
            (*RELEASES, *RULES),
            many=False,
        ),
    ] = None
    problem: of.Kept = of.Kept()
    levels: of.Levels = of.Levels()
    noise: of.Noise = of.Noise()
    output: of.Output = of.Output()
    words: of.Words = of.Words()

    def check(self) -> None:
        """Levels come with a table of their own."""
        if self.levels.levels is None:
            need_levels(self.levels, () if self.rule is None else (self.rule,))
            return
        for name, given in (("html", self.output.html), ("label", self.data.label), ("keep", self.data.keep)):
            if given:
                raise ParameterError(f"`{name}` is for projections without `levels`, got both")

    def load(self, say: Say | None = None) -> Rows:
        """The noisy counts."""
        if self.levels.levels is not None:
            raise UnsupportedError(LEVELS_ARE_COMMANDS)
        more: Given = {"label": self.data.label, "keep": self.data.keep, "total": self.problem.group_total, "say": say}
        return read_rows(self.data.file, **self.columns, **more)

    def find(self, loaded: Rows, progress: Progress = silent) -> Projection:
        """`fp.project`. Groups keep totals of their own where a column of them was named, or of their totals; else they are labels."""
        noisy, asked = loaded, self.problem
        total: Any = asked.total
        if noisy.totals is not None:
            if asked.total is not None:
                raise ParameterError("totals are given by `total` or by `group_total`, got both")
            each = noisy.totals.tolist()
            total = each[0] if noisy.groups is None else dict(zip(noisy.groups, each, strict=True))
        keeps = self.data.group is not None or isinstance(total, dict)
        found = projection_of(
            noisy.values,
            self.rule or "simplex",
            total,
            noisy.groups if keeps else None,
            self.noise.maybe,
            round=asked.whole,
            seed=asked.seed,
            ids=noisy.ids,
            names=noisy.names,
            kept=noisy.kept,
        )
        return found if keeps else replace(found, groups=noisy.groups)


# -- releases against the truth -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LoadedReleases:
    """True counts, the rows of each release, and the noise that they are said to have."""

    counts: Counts
    rows: tuple[Rows, ...]
    mechanism: Law | None


class CheckStudy(Study, frozen=True, kw_only=True, tag_field="command", tag="check"):
    """Released counts against the true ones."""

    answer: ClassVar[str] = "found"
    data: of.Compared = of.Compared()
    reading: of.Reading = of.Reading()
    noise: of.StatedNoises = of.StatedNoises()
    intervals: of.TableIntervals = of.TableIntervals()
    output: of.Output = of.Output()
    words: of.Words = of.Words()

    def load(self, say: Say | None = None) -> LoadedReleases:
        """The true counts and the releases; with statements the noise is theirs."""
        stated = self._stated()
        keep = () if stated is None or stated.levels is None else (LEVEL,)
        mechanism = self.noise.maybe
        counts = read_counts(self.data.true, **self.columns, label=self.data.label, say=say)
        rows = tuple(self._released(path, keep, say) for path in self.data.released)
        if stated is not None:
            known = set(counts.ids)
            rows = tuple(replace(one, ids=_as_published(one.ids, known)) for one in rows) if stated.safe else rows
            mechanism = self._noise_of(stated, rows)
        return LoadedReleases(counts, rows, mechanism)

    def find(self, loaded: LoadedReleases, progress: Progress = silent) -> Check:
        """`fp.check`."""
        names, confidence = self.data.released, self.intervals.confidence
        return checked(loaded.counts, loaded.rows, loaded.mechanism, names=names, confidence=confidence)

    def _stated(self) -> Stated | None:
        """What the statements say of the noise, all of them the same; each RELEASED must be the table of its own, byte by byte."""
        paths, released = self.noise.statements, self.data.released
        if not paths:
            return None
        from fairpost.release.reading import stated
        from fairpost.release.seals import digest_of

        self.noise.refuse_beside("statements")
        if len(paths) != len(released):
            raise ParameterError(
                f"`statements` must be given once for each RELEASED, in their order, got {len(paths)} for {len(released)}"
            )
        found = [stated(path) for path in paths]
        for path, file, one in zip(paths, released, found, strict=True):
            if digest_of(Path(file)) != one.table_sha256:
                raise InputError(
                    f"{file}: must be the table of {path}, byte by byte, and is another or was changed; take the file as it was "
                    f"published (for one that was only saved anew, state the noise: --mechanism {one.mechanism} --{one.parameter})"
                )
            if (one.mechanism, one.scales) != (found[0].mechanism, found[0].scales):
                raise InputError(
                    f"{path}: the releases of one check must have the same noise, got other noise than in {paths[0]}"
                )
        return found[0]

    def _noise_of(self, stated: Stated, rows: Sequence[Rows]) -> Law:
        """The noise that a statement gives; of a release of levels that of the one level whose rows are checked."""
        scale = stated.scale
        if stated.levels is not None:
            there = list(dict.fromkeys(label for one in rows for label in one.kept[LEVEL]))
            if len(there) != 1:
                names = ", ".join(stated.scales)
                raise InputError(
                    f'one level is checked at a time, with --released-where "{LEVEL} = NAME" (of {names}), got {len(there)}'
                )
            if there[0] not in stated.scales:
                raise InputError(
                    f"level {there[0]!r} was released without noise, so no statement explains differences in it"
                )
            scale = stated.scales[there[0]]
        amount: Given = {"mechanism": stated.mechanism, stated.parameter: scale}
        return structs.replace(self.noise, **amount).law

    def _released(self, path: str, keep: Sequence[str], say: Say | None) -> Rows:
        """The rows of a release: its columns are named as in TRUE, or as a release names them."""
        data, first = self.data, None
        for id, count in self._columns_of_a_release():
            said: list[str] = []
            how: Given = {"decimal": self.reading.decimal, "where": data.released_where}
            try:
                found = read_rows(path, id=id, count=count, keep=keep, say=said.append, **how)
            except InputError as error:
                first = first or error
                continue
            for line in said if say is not None else ():
                say(line)  # type: ignore[misc]
            return found
        assert first is not None
        raise first

    def _columns_of_a_release(self) -> Iterator[tuple[str, str]]:
        data = self.data
        ids = [data.released_id] if data.released_id else [data.id or "id", "id"]
        counts = [data.released_count] if data.released_count else [data.count or "count", "count"]
        yield from dict.fromkeys(product(ids, counts))


def _as_published(ids: Sequence[str], known: set[str]) -> tuple[str, ...]:
    """The ids of a table made with --csv-safe, without the ' that was put before some."""
    return tuple(one[1:] if one not in known and one.startswith("'") and one[1:] in known else one for one in ids)


STUDIES: dict[str, type[Study]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (AuditStudy, PlanStudy, SweepStudy, AllocateStudy, ProjectStudy, CheckStudy)
}


def kind_of(command: object) -> type[Study]:
    """The type of a command's studies."""
    if not isinstance(command, str) or command not in STUDIES:
        raise ParameterError(f"`command` must be one of {', '.join(STUDIES)}, got {value(command)}")
    return STUDIES[command]
