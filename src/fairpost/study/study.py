"""A question as one object: a command with its parts, which can be run, saved and printed.

>>> import fairpost as fp
>>> study = fp.Study.of("audit", file="districts.csv", epsilon=0.1, rules=["pos"], budget=6.5e9)
>>> print(study.command())
fairpost audit districts.csv --epsilon 0.1 --postprocess pos --budget 6500000000
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from msgspec import structs

from fairpost.budgets import Budget, whole
from fairpost.documents import toml_of
from fairpost.errors import InputError, ParameterError, value
from fairpost.fields import Field, Part, all_fields, fields_of, parts_of, unknown
from fairpost.hierarchy.rules import RULES
from fairpost.study import parts as of

Progress = Callable[..., None]
"""Called with (done, most) and a label; most None: nobody knows."""
Say = Callable[[str], None]
Given = dict[str, Any]
S = TypeVar("S", bound="Study")
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


STUDIES = {
    "audit": "true.AuditStudy",
    "plan": "true.PlanStudy",
    "sweep": "true.SweepStudy",
    "allocate": "noisy.AllocateStudy",
    "project": "noisy.ProjectStudy",
    "check": "released.CheckStudy",
}
"""Each command, and the type of its studies; a module is loaded for what it answers."""


def kind_of(command: object) -> type[Study]:
    """The type of a command's studies."""
    if not isinstance(command, str) or command not in STUDIES:
        raise ParameterError(f"`command` must be one of {', '.join(STUDIES)}, got {value(command)}")
    module, _, name = STUDIES[command].partition(".")
    found: type[Study] = getattr(import_module(f"fairpost.study.{module}"), name)
    return found


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


def law_of(study: Any, budget: Budget | None, say: Say | None) -> Given:
    """The law, the noise of its base and, with hold-harmless, last year's payments, as arguments of the verbs; without a programme none."""
    asked = study.problem
    if asked.programme is None:
        return {}
    from fairpost.io.tables import read_column, read_programme

    law = read_programme(asked.programme)
    found: Given = {"programme": law}
    if asked.base_noise is not None:
        found["base_noise"] = asked.noise_of_base(study.noise.kind)
    if law.hold_harmless is None:
        return found
    if budget is None:
        raise ParameterError(
            f"{law.name}: hold-harmless compares money with last year's, so it needs `budget`, got none"
        )
    last = read_column(study.data.file, law.hold_harmless.last, "last year's payments", **study.columns, say=say)
    return found | {"last": last / whole(budget)}
