"""The words of a law (amounts, conditions on a count, brackets, floors), read from TOML and written back.

Every condition asks that the count be large ("count >= 10", "count > 2 % of base"), so all or any of them ask that it reach
one threshold: the largest or the smallest of theirs. `>` is resolved by moving the threshold up to the next number that can be
represented: for the reals a part in 1e16, on whole numbers (which a comparison rounds up to) one whole count.

An error in a file is one line with its place.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairpost.documents import toml_of
from fairpost.errors import InputError, ParameterError, value
from fairpost.magnitudes import outside

if TYPE_CHECKING:
    from fairpost.problems.programme.law import Programme

Floats = NDArray[np.float64]
NAMES = ("title1-basic", "title1-concentration", "title1-targeted", "section-203", "house-seats")
"""The laws that come with the package."""
_KEYS = ("name", "law", "note", "eligible", "entitlement", "share", "seats", "hold_harmless", "minimum")
_CONDITION = re.compile(r"^\s*count\s*(>=|>)\s*([0-9]+(?:\.[0-9]+)?)\s*(?:(%)\s*of\s+base)?\s*$")
_SEATS = 100_000
"""Seats are given one by one: more would take hours."""
_PERCENT = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*$")


@dataclass(frozen=True)
class Amount:
    """A number of people, or a percentage of the base."""

    number: float
    percent: bool = False

    def of(self, base: Floats) -> Floats:
        """In people. A percentage is a ratio of whole numbers, so that 15 % of 600 is 90 and not 90.00000000000001."""
        if not self.percent:
            return np.full(base.size, self.number)
        part = Fraction(repr(self.number)) / 100
        return np.asarray(float(part.numerator) * base / float(part.denominator))

    def __str__(self) -> str:
        return f"{self.number:.15g}" + (" %" if self.percent else "")


@dataclass(frozen=True)
class Condition:
    """The count is above (`strict`), or at or above, an amount."""

    amount: Amount
    strict: bool

    def threshold(self, base: Floats) -> Floats:
        """The least count that meets it."""
        t = self.amount.of(base)
        return np.asarray(np.nextafter(t, np.inf)) if self.strict else t

    def __str__(self) -> str:
        return f"count {'>' if self.strict else '>='} {self.amount}" + (" of base" if self.amount.percent else "")


@dataclass(frozen=True)
class Nest:
    """All, or any, of several conditions; they nest."""

    parts: tuple[Condition | Nest, ...]
    every: bool = True

    def threshold(self, base: Floats) -> Floats:
        """The least count that meets all (any) of them."""
        each = [part.threshold(base) for part in self.parts]
        return np.asarray(np.max(each, axis=0) if self.every else np.min(each, axis=0))

    @property
    def rates(self) -> bool:
        """Whether a base population is needed."""
        return any(p.rates if isinstance(p, Nest) else p.amount.percent for p in self.parts)


@dataclass(frozen=True)
class Brackets:
    """Marginal weights: a count is worth `weight` for each person above `bound`, up to the next bound."""

    rows: tuple[tuple[Amount, float], ...]

    @property
    def rates(self) -> bool:
        """Whether a base population is needed."""
        return any(bound.percent for bound, _ in self.rows)

    def worth(self, count: Floats, base: Floats) -> Floats:
        """sum over brackets of (weight - the one before) (count - bound)+."""
        total, before = np.zeros(count.size), 0.0
        for bound, weight in self.rows:
            total += (weight - before) * np.maximum(count - bound.of(base), 0.0)
            before = weight
        return total


@dataclass(frozen=True)
class Entitlement:
    """The larger of several bracket functions, at least `floor` and at most `cap`: the weighted count that money follows."""

    larger_of: tuple[Brackets, ...] = (Brackets(((Amount(0.0), 1.0),)),)
    floor: Amount | None = None
    cap: Amount | None = None

    @property
    def rates(self) -> bool:
        """Whether a base population is needed."""
        ends = any(end is not None and end.percent for end in (self.floor, self.cap))
        return ends or any(b.rates for b in self.larger_of)

    def ends(self, base: Floats) -> tuple[Floats, Floats]:
        """Floor and cap, 0 and infinity where there is none."""
        low = np.zeros(base.size) if self.floor is None else self.floor.of(base)
        return low, np.full(base.size, np.inf) if self.cap is None else self.cap.of(base)

    def worth(self, count: Floats, base: Floats) -> Floats:
        """The weighted count of an eligible entity."""
        low, high = self.ends(base)
        most = np.max([b.worth(count, base) for b in self.larger_of], axis=0)
        return np.asarray(np.minimum(np.maximum(most, low), high))


@dataclass(frozen=True)
class HoldHarmless:
    """Nobody eligible is paid less than a part of last year's payment; the part follows the percentage of the base."""

    last: str
    """The column with last year's payments."""
    rate: tuple[tuple[Amount, float], ...]
    """From which percentage on which part holds, ascending; the first is from 0 on."""

    def part(self, count: Floats, base: Floats) -> Floats:
        """The part that holds at this count."""
        out = np.full(count.size, self.rate[0][1])
        for bound, part in self.rate[1:]:
            out = np.where(count >= bound.of(base), part, out)
        return out


@dataclass(frozen=True)
class Minimum:
    """Each group (state) receives at least the lesser of m, and the average of m and `average` percent of the mean payment.

    m = `percent` of the appropriation; the mean payment is that of one counted person in the whole country, times those of
    the group.
    """

    percent: float
    average: float


def builtin_text(name: str) -> str:
    """The TOML of a law that comes with the package."""
    if name not in NAMES:
        raise ParameterError(f"a programme must be one of {', '.join(NAMES)} or a TOML file, got {name!r}")
    return (files("fairpost.problems.programme") / "builtin" / f"{name}.toml").read_text(encoding="utf-8")


def read(text: str, where: str) -> dict[str, Any]:
    """The fields of a `Programme` from its TOML; an error names `where`, the line and the rule."""
    return _Reader(text, where).fields()


class _Reader:
    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        try:
            self.data = toml_of(text)
        except ValueError as error:
            what, _, place = str(error).rstrip(")").rpartition(" (at ")
            raise InputError(f"{where}, {place if what else 'line 1'}: this is no TOML: {what or place}") from None

    def fail(self, key: str, rule: str, given: Any = None) -> NoReturn:
        """The error, with the line where `given` (else `key`) stands."""
        raise InputError(f"{self.where}, line {self._line(key, given)}: {rule}")

    def _line(self, key: str, given: Any) -> int:
        lines = self.text.splitlines() or [""]
        first = next((i for i, line in enumerate(lines) if re.search(rf"(^|[.\[\s{{,]){re.escape(key)}\b", line)), 0)
        if isinstance(given, (str, int, float)) and not isinstance(given, bool):
            for i in range(first, len(lines)):
                if str(given) in lines[i].partition("#")[0]:
                    return i + 1
        return first + 1

    def fields(self) -> dict[str, Any]:
        data = self.data
        for key in data:
            if key not in _KEYS:
                self.fail(key, f"a programme has the keys {', '.join(_KEYS)}, got {value(key)}")
        name = self._text("name", required=True)
        share = data.get("share", "pro rata")
        if share not in ("pro rata", "none", "equal proportions"):
            self.fail("share", f'`share` must be "pro rata", "none" or "equal proportions", got {value(share)}')
        seats = self._seats(share)
        held, least = self._hold(), self._minimum()
        if share != "pro rata" and (held is not None or least is not None):
            self.fail(
                "share",
                f"hold-harmless and a minimum need payments that are shared pro rata, got share = {value(share)}",
            )
        entitled = self._entitlement()
        if entitled is None and share == "pro rata":
            entitled = Entitlement()
        return {
            "name": name,
            "eligible": self._nest(data.get("eligible", []), every=True),
            "entitlement": entitled,
            "share": share,
            "hold_harmless": held,
            "minimum": least,
            "law": self._text("law"),
            "note": self._text("note"),
            "seats": seats,
        }

    def _seats(self, share: str) -> int | None:
        seats = self.data.get("seats")
        if (seats is not None) != (share == "equal proportions"):
            self.fail(
                "share",
                f'`seats` goes with share = "equal proportions", got share = {value(share)} and seats = {value(seats)}',
            )
        if seats is None:
            return None
        if not isinstance(seats, int) or isinstance(seats, bool) or not 1 <= seats <= _SEATS:
            self.fail("seats", f"`seats` must be a whole number from 1 to {_SEATS:,}, got {value(seats)}")
        if "eligible" in self.data or "entitlement" in self.data:
            self.fail("share", "seats go by the counts themselves, without conditions or brackets")
        return seats

    def _text(self, key: str, *, required: bool = False) -> str:
        given = self.data.get(key, "")
        line = key == "note" or (isinstance(given, str) and given.isprintable())
        if not isinstance(given, str) or not line or (required and not given.strip()):
            what = "a text" if key == "note" else f"a text on one line{' that is not empty' if required else ''}"
            self.fail(key, f"`{key}` must be {what}, got {value(given)}")
        return given

    def _nest(self, given: Any, *, every: bool) -> Nest:
        if not isinstance(given, list):
            self.fail("eligible", f"conditions must be a list, got {value(given)}", given)
        return Nest(tuple(self._part(part) for part in given), every)

    def _part(self, part: Any) -> Condition | Nest:
        if isinstance(part, dict):
            if list(part) not in (["any"], ["all"]):
                self.fail("eligible", f"conditions nest as {{ any = [...] }} or {{ all = [...] }}, got {value(part)}")
            (key,) = part
            if not part[key]:
                self.fail("eligible", f"`{key}` must have at least one condition, got none")
            return self._nest(part[key], every=key == "all")
        found = _CONDITION.match(part) if isinstance(part, str) else None
        if found is None:
            rule = 'a condition reads "count >= 10" or "count > 2 % of base"'
            self.fail("eligible", f"{rule}, got {value(part)}", part)
        return Condition(self._amount("eligible", f"{found[2]} %" if found[3] else float(found[2])), found[1] == ">")

    def _amount(self, key: str, given: Any) -> Amount:
        percent = _PERCENT.match(given) if isinstance(given, str) else None
        number = given if percent is None else float(percent[1])
        if not self._number(number):
            rule = 'an amount is a number from 0 to 2**53 or a percentage such as "15.58 %"'
            self.fail(key, f"{rule}, got {value(given)}", given)
        return Amount(float(number), percent=percent is not None)

    @staticmethod
    def _number(given: Any) -> bool:
        return isinstance(given, (int, float)) and not isinstance(given, bool) and not outside("amount", given)

    def _steps(self, key: str, given: Any) -> tuple[tuple[Amount, float], ...]:
        """Pairs [from, number], ascending."""
        if not isinstance(given, list) or not given or any(not isinstance(r, list) or len(r) != 2 for r in given):
            self.fail(key, f"`{key}` must be a list of pairs [from, number], got {value(given)}")
        rows = []
        for bound, number in given:
            if not self._number(number):
                self.fail(
                    key, f"the number of `{key}` must be at least 0 and at most 2**53, got {value(number)}", number
                )
            rows.append((self._amount(key, bound), float(number)))
        for (low, _), (high, _) in pairwise(rows):
            if low.percent != high.percent and low.number > 0:
                self.fail(key, f"`{key}` must be in people or in percent, got {low} and {high}", high.number)
            if high.number <= low.number:
                self.fail(key, f"`{key}` must ascend, got {high} after {low}", f"{high.number:g}")
        return tuple(rows)

    def _table(self, key: str, keys: tuple[str, ...]) -> dict[str, Any] | None:
        given = self.data.get(key)
        if given is None:
            return None
        if not isinstance(given, dict) or any(k not in keys for k in given):
            self.fail(key, f"`{key}` has the keys {', '.join(keys)}, got {value(given)}")
        return given

    def _entitlement(self) -> Entitlement | None:
        given = self._table("entitlement", ("brackets", "larger_of", "floor", "cap"))
        if given is None:
            return None
        if "brackets" in given and "larger_of" in given:
            self.fail("entitlement", "an entitlement has `brackets` or `larger_of`, got both")
        several = given.get("larger_of", [{"brackets": given["brackets"]}] if "brackets" in given else None)
        if several is None:
            options: tuple[Brackets, ...] = Entitlement().larger_of
        else:
            if (
                not isinstance(several, list)
                or not several
                or any(not isinstance(s, dict) or list(s) != ["brackets"] for s in several)
            ):
                self.fail("larger_of", f"`larger_of` is a list of {{ brackets = [...] }}, got {value(several)}")
            options = tuple(Brackets(self._steps("brackets", s["brackets"])) for s in several)
        ends = {k: self._amount(k, given[k]) if k in given else None for k in ("floor", "cap")}
        return Entitlement(options, ends["floor"], ends["cap"])

    def _hold(self) -> HoldHarmless | None:
        given = self._table("hold_harmless", ("last", "rate"))
        if given is None:
            return None
        last = given.get("last")
        if not isinstance(last, str) or not last:
            self.fail("hold_harmless", f"`last` must name the column of last year's payments, got {value(last)}")
        rate = self._steps("rate", given.get("rate"))
        if rate[0][0].number != 0 or any(not bound.percent for bound, _ in rate):
            self.fail(
                "rate", f'`rate` goes by percentages of the base, the first from "0 %" on, got {value(given["rate"])}'
            )
        return HoldHarmless(last, rate)

    def _minimum(self) -> Minimum | None:
        given = self._table("minimum", ("percent", "average"))
        if given is None:
            return None
        for key in ("percent", "average"):
            if not self._number(given.get(key)) or (key == "percent" and given[key] > 100):
                self.fail(key, f"`{key}` of a minimum must be a percentage, got {value(given.get(key))}")
        return Minimum(float(given["percent"]), float(given["average"]))


def write(law: Programme) -> str:
    """The TOML of a programme; reading it gives the same law."""
    lines = [f"name = {_quoted(law.name)}"]
    lines += [f"{key} = {_quoted(value)}" for key, value in (("law", law.law), ("note", law.note)) if value]
    if law.eligible.parts:
        lines.append(f"eligible = [{_listed(law.eligible)}]")
    e = law.entitlement
    if e is not None:
        options = [f"{{ brackets = {_pairs(b.rows)} }}" for b in e.larger_of]
        lines.append(f"entitlement.larger_of = [{', '.join(options)}]")
        lines += [f"entitlement.{k} = {_toml(v)}" for k, v in (("floor", e.floor), ("cap", e.cap)) if v is not None]
    lines.append(f"share = {_quoted(law.share)}")
    if law.seats is not None:
        lines.append(f"seats = {law.seats}")
    if law.hold_harmless is not None:
        h = law.hold_harmless
        lines.append(f"hold_harmless = {{ last = {_quoted(h.last)}, rate = {_pairs(h.rate)} }}")
    if law.minimum is not None:
        lines.append(f"minimum = {{ percent = {law.minimum.percent!r}, average = {law.minimum.average!r} }}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _toml(amount: Amount) -> str:
    return _quoted(f"{amount.number!r} %") if amount.percent else repr(amount.number)


def _pairs(rows: tuple[tuple[Amount, float], ...]) -> str:
    return "[" + ", ".join(f"[{_toml(bound)}, {number!r}]" for bound, number in rows) + "]"


def _listed(nest: Nest) -> str:
    parts = []
    for part in nest.parts:
        if isinstance(part, Nest):
            parts.append(f"{{ {'all' if part.every else 'any'} = [{_listed(part)}] }}")
        else:
            sign, of = ">" if part.strict else ">=", " % of base" if part.amount.percent else ""
            parts.append(_quoted(f"count {sign} {part.amount.number!r}{of}"))
    return ", ".join(parts)
