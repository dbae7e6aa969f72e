"""What can be asked, field by field, each declared once: a type, a default, choices, bounds and one line of help.

A part of a question is a `Part`: frozen, with named fields alone. From its declaration come the options of a command, the keys
of a TOML file and of JSON, their schema (`msgspec.json.schema_components`) and the checks, so that a wrong value is refused with
the same line at every door. A message names a field in backquotes; a command says the option instead, as it was typed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from fairpost.errors import ParameterError, value

KINDS: dict[type, tuple[str, type | tuple[type, ...]]] = {
    float: ("a number", (int, float)),
    int: ("a whole number", int),
    str: ("text", str),
    bool: ("true or false", bool),
}
"""What a value must be, in words and in types; true and false are no numbers."""


def said(
    help: str,
    *,
    metavar: str | None = None,
    choices: Any = (),
    flags: tuple[str, ...] = (),
    path: str = "",
    shown: bool = False,
    above: float | None = None,
    least: float | None = None,
    many: bool = False,
) -> msgspec.Meta:
    """What is said of a field.

    `flags`: the names of its option, where they are others than the name of the field; `path`: "file" where the value names one,
    "file or name" where it may; `shown`: the help shows the default; `above`, `least`: a number must be more than this, or this
    at least; `many`: the choices are those of each entry (whose type says so in the schema, by `one_of`).
    """
    chosen = tuple(choices)
    own = {"metavar": metavar, "choices": chosen, "flags": flags, "path": path, "shown": shown, "above": above}
    schema = one_of(chosen).extra_json_schema if chosen and not many else None
    return msgspec.Meta(description=help, extra=own | {"least": least}, extra_json_schema=schema)


def one_of(choices: Any) -> msgspec.Meta:
    """The schema of a text that is one of these."""
    return msgspec.Meta(extra_json_schema={"type": "string", "enum": list(choices)})


@dataclass(frozen=True)
class Field:
    """A field as the doors see it."""

    name: str
    key: str
    """Its name in TOML."""
    kind: type
    """str, int, float or bool; of each entry, where there are several."""
    size: int | None
    """None: one value; 0: any number of them; else so many."""
    default: Any
    help: str
    metavar: str | None
    choices: tuple[str, ...]
    flags: tuple[str, ...]
    path: str
    shown: bool
    above: float | None
    least: float | None

    @property
    def names(self) -> set[str]:
        """The names of the field: its own and those of its options."""
        return {self.name, *(flag.strip("-").replace("-", "_") for flag in self.flags)}

    @property
    def option(self) -> str:
        """The option of a command."""
        return self.flags[0] if self.flags else f"--{self.name.replace('_', '-')}"

    def taken(self, given: Any) -> Any:
        """A value as JSON, TOML and Python may write it: a list for several, a whole number where any number may stand."""
        if isinstance(given, (list, tuple)):
            return tuple(map(self.taken_one, given))
        return self.taken_one(given)

    def taken_one(self, given: Any) -> Any:
        """One entry."""
        return float(given) if self.kind is float and type(given) is int and abs(given) < 2**1000 else given

    def check(self, given: Any) -> None:
        """The first rule that a value breaks is an error."""
        if self.size is None:
            self._check_one(given)
            return
        if not isinstance(given, tuple) or (self.size and len(given) != self.size):
            many = f"{self.size} values" if self.size else "values"
            raise ParameterError(f"`{self.name}` must be a list of {many}, got {value(given)}")
        for one in given:
            self._check_one(one)

    def _check_one(self, given: Any) -> None:
        what, types = KINDS[self.kind]
        if not isinstance(given, types) or (self.kind is not bool and isinstance(given, bool)):
            raise ParameterError(f"`{self.name}` must be {what}, got {value(given)}")
        if self.choices and given not in self.choices:
            raise ParameterError(f"`{self.name}` must be one of {', '.join(self.choices)}, got {value(given)}")
        number: Any = given
        if self.above is not None and not self.above < number < math.inf:
            raise ParameterError(f"`{self.name}` must be > {self.above:g} and finite, got {value(given)}")
        if self.least is not None and not self.least <= number < math.inf:
            raise ParameterError(f"`{self.name}` must be at least {self.least:g} and finite, got {value(given)}")


P = TypeVar("P", bound="Part")


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a question: fields, and parts with fields."""

    def __post_init__(self) -> None:
        for field in fields_of(type(self)):
            given = getattr(self, field.name)
            if given is not field.default and given != field.default:
                field.check(given)
        self.check()

    def check(self) -> None:
        """Rules between fields."""

    @classmethod
    def from_dict(cls: type[P], data: object, place: str = "") -> P:
        """From JSON or TOML; `place` is where the data are, for messages. What is no key, or no value of its key, is named."""
        if not isinstance(data, Mapping):
            raise ParameterError(f"{place or 'the body'} must be a table of keys, got {value(data)}")
        fields = {field.key: field for field in fields_of(cls)}
        inside = {**parts_of(cls)}
        given: dict[str, Any] = {}
        for key, one in data.items():
            within = f"{place}.{key}" if place else str(key)
            if key in inside:
                given[key] = inside[key].from_dict(one, within)
            elif key in fields:
                given[fields[key].name] = fields[key].taken(one)
            else:
                raise ParameterError(unknown(within, str(key), [*fields, *inside]))
        return cls(**given)

    @classmethod
    def from_flat(cls: type[P], given: Mapping[str, Any]) -> P:
        """From values by the names of fields, whatever part they are in; other names are left aside."""
        own = {field.name: field.taken(given[field.name]) for field in fields_of(cls) if field.name in given}
        return cls(**own, **{name: part.from_flat(given) for name, part in parts_of(cls).items()})

    def to_dict(self) -> dict[str, Any]:
        """What was chosen, as plain data: defaults and empty parts are left out."""
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {key: one for key, one in found.items() if one != {}}

    def chosen(self) -> Iterator[tuple[Field, Any]]:
        """Every field that is not at its default, in the order of their declaration."""
        given = self.flat()
        for field in all_fields(type(self)):
            if given[field.name] != field.default:
                yield field, given[field.name]

    def flat(self) -> dict[str, Any]:
        """The value of every field by its name, whatever part it is in."""
        inside = parts_of(type(self))
        found = {name: getattr(self, name) for name in self.__struct_fields__ if name not in inside}
        for name in inside:
            found |= getattr(self, name).flat()
        return found


def unknown(place: str, key: str, known: list[str]) -> str:
    """A key that is not known, with what may have been meant."""
    near = difflib.get_close_matches(key, known, 1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"{place}: a key must be one of {', '.join(known)}, got {value(key)}{meant}"


@cache
def parts_of(kind: type[Part]) -> dict[str, type[Part]]:
    """The fields that are parts themselves."""
    hints = get_type_hints(kind)
    return {name: one for name, one in hints.items() if isinstance(one, type) and issubclass(one, Part)}


@cache
def fields_of(kind: type[Part]) -> tuple[Field, ...]:
    """The other fields, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        _field(one.name, one.encode_name, hints[one.name], one.default)
        for one in msgspec.structs.fields(kind)
        if one.name not in parts_of(kind)
    )


@cache
def all_fields(kind: type[Part]) -> tuple[Field, ...]:
    """Its fields and those of its parts, in the order of their declaration."""
    own, inside = {field.name: field for field in fields_of(kind)}, parts_of(kind)
    found: list[Field] = []
    for one in msgspec.structs.fields(kind):
        found += [own[one.name]] if one.name in own else all_fields(inside[one.name])
    return tuple(found)


def _field(name: str, key: str, hint: Any, default: Any) -> Field:
    meta: msgspec.Meta | None = None
    size = None
    while (origin := get_origin(hint)) is not None:
        if origin is Annotated:
            hint, meta = get_args(hint)[0], meta or hint.__metadata__[0]
        elif origin is tuple:
            inside = get_args(hint)
            size, hint = 0 if inside[-1] is ... else len(inside), inside[0]
        elif origin is Union or origin.__name__ == "UnionType":
            hint = next(one for one in get_args(hint) if one is not type(None))
    meta = meta or said("")
    extra: Any = meta.extra
    return Field(name, key, hint, size, default, meta.description or "", **extra)
