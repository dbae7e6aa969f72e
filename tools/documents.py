"""Four more attackers of `attack`: documents that a user writes or keeps (laws, maps, statements and plans of releases), mutated.

Each begins with a document that is read, and changes a few of its places: some mildly, so that a third of all is still read, some
to what nobody means (other types, nests of thousands, numbers that no float holds), some byte by byte.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import tomllib
from pathlib import Path
from typing import Any

from attackers import damaged

TABLE = b"id,count,base,weight,state,last,area\n" + b"".join(
    b"%02d%d,%d,%d,%s,%s,%d,z%d\n"
    % (k // 2, k % 2, x, 9 * x + k, b"1.5" if k % 3 else b"1", b"ns"[k % 2 : k % 2 + 1], 3 * x, k % 3)
    for k, x in enumerate((30, 4000, 9, 500, 0, 77, 250, 12))
)
NOISY = b"id,count,level\n" + b"".join(b"%02d%d,%d,place\n" % (k // 2, k % 2, 40 * k - 7) for k in range(8))
IDS = [f"{k // 2:02d}{k % 2}" for k in range(8)]
DEEP = "@deep"
"""A text that stands for a nest; how deep is chosen for each case."""
DATE = "@date"
"""A text that stands for a date of TOML."""
WILD = [
    None, True, False, -1, 0, 1, 2.5, 1e308, -1e308, 1e-320, 1e16, float("inf"), float("nan"), 10**25, 10**400, "", " ", "x",
    "0", "1/0", "1e308", "1e999999999", "-1", "0.1", "1/3", "nan", "\x1b[2J", "é" * 50, "a" * 300, "count", "id",
    "count >= 1e308", "count > " + "9" * 400, "9" * 400 + " %", [], {}, [[]], [None], ["x"], [1, [2, [3]]], {"a": {"b": 1}},
    {"": 0}, {"type": []}, DEEP, DATE,
]  # fmt: skip
"""What may stand in any place."""
MILD = [1, 2, 3, 5, 8, 10, 0.5, 1.5, 20, 100]
MINE = [
    """
name = "floors"
eligible = ["count >= 10"]
hold_harmless = { last = "last", rate = [["0 %", 0.85], ["15 %", 0.9]] }
""",
    """
name = "least"
entitlement.brackets = [[0, 1]]
minimum = { percent = 10, average = 150 }
note = "by state"
""",
    """
name = "money"
law = "a"
eligible = [{ any = ["count > 3", { all = ["count > 1", "count >= 2 % of base"] }] }]
share = "none"
[entitlement]
larger_of = [{ brackets = [[0, 1], [40, 2]] }, { brackets = [["0 %", 1], ["5.5 %", 3]] }]
floor = 3
cap = "20 %"
""",
    'name = "seats"\nshare = "equal proportions"\nseats = 20\n',
]
"""Laws beside those of the package: every key of a law is in one of them."""
PLAN = tomllib.loads("""
id = "id"
count = "count"
chosen-from = "policy"
[[table]]
name = "all"
file = "../in.csv"
epsilon = "0.1"
round = true
total = 5000
total-source = "a yearbook"
postprocess = "simplex"
[[table]]
name = "states"
file = "../in.csv"
epsilon = "1/20"
group = "state"
by-group = true
weight = "weight"
entities-per-person = 2
[[table]]
name = "tree"
file = "../in.csv"
epsilon = "0.1"
levels = { area = 2, place = 3 }
split = ["0.5", "0.5"]
postprocess = "blue-down"
[[table]]
name = "scales"
file = "../in.csv"
levels = "area:2,place:3"
level-sigma = "20,20"
mechanism = "discrete-laplace"
again = "b"
[[table]]
name = "named"
file = "../in.csv"
epsilon = "0.1"
levels = ["area"]
split = { area = "1/2", id = "1/2" }
""")
ABOUT = {"title": "Towns", "curator": "Office", "authors": ["A. Clerk", "B"]}


def toml(value: Any) -> str:
    """A value as TOML, tables in line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if value == DATE:
        return "1979-05-27"
    return json.dumps(value, ensure_ascii=False).replace("Infinity", "inf").replace("NaN", "nan").replace("\x7f", "")


def as_toml(document: Any) -> str:
    """A document of TOML."""
    return "".join(f"{json.dumps(str(key))} = {toml(value)}\n" for key, value in document.items())


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every place: what it is in, and its key or number there."""
    found: list[tuple[Any, Any]] = []
    keys = list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        found += [(document, key), *places(document[key])]
    return found


def mutated(rng: random.Random, document: Any, names: list[str]) -> Any:
    """A copy with up to three places changed."""
    made = copy.deepcopy(document)
    mild = rng.random() < 0.5
    for _ in range(rng.randint(0, 3) if mild else rng.randint(1, 3)):
        inside, key = rng.choice(places(made))
        old, how = inside[key], rng.randrange(6)
        if mild:
            if isinstance(old, list) and rng.random() < 0.3:
                rng.shuffle(old)
            elif isinstance(old, (int, float)) and not isinstance(old, bool):
                inside[key] = rng.choice([*MILD, old, old * 2, old + 1])
            continue
        if how < 3:
            inside[key] = copy.deepcopy(rng.choice(WILD))
        elif how == 3:
            del inside[key]
        elif how == 4:
            inside[key] = copy.deepcopy(rng.choice([old for old_in, k in places(made) for old in [old_in[k]]]))
        elif isinstance(inside, dict):
            inside[rng.choice(names)] = inside.pop(key) if rng.random() < 0.5 else copy.deepcopy(rng.choice(WILD))
        else:
            inside[key : key + 1] = [old] * rng.randint(2, 4)
        if not places(made):
            break
    return made


def written(rng: random.Random, name: str, text: str, nest: tuple[str, str, str]) -> None:
    """The text as a file, with its nests; now and then some bytes of it are damaged."""
    deep = rng.choice([1, 3, 40, 200, 2000, 100_000 if nest[0] == "[" else 5000])
    data = text.replace(f'"{DEEP}"', nest[0] * deep + nest[1] + nest[2] * deep).encode(errors="surrogatepass")
    Path(name).write_bytes(damaged(rng, data) if rng.random() < 0.1 else data)


def law(rng: random.Random) -> list[str]:
    """A law, and a command that follows it."""
    from fairpost.problems.programme import NAMES, builtin_text

    Path("in.csv").write_bytes(TABLE)
    text = rng.choice([*map(builtin_text, NAMES), *MINE, *MINE])
    keys = ["any", "all", "brackets", "larger_of", "floor", "cap", "seats", "share", "note", "percent", "rate"]
    made = mutated(rng, tomllib.loads(text), keys)
    written(rng, "law.toml", as_toml(made), ('{ "any" = [', '"count >= 3"', "] }"))
    words = ["in.csv", "--programme", "law.toml", "--base", "base", "--group", "state", "--json", "out.json"]
    words += rng.choice([[], ["--weight", "weight"]])
    words += ["--budget", "1e6"] if made.get("share", "pro rata") == "pro rata" else []
    if rng.random() < 0.2:
        return ["allocate", *words, *rng.choice([[], ["--scale", "3"], ["--epsilon", "1"]])]
    noise = [
        "--epsilon",
        "1",
        "--mechanism",
        "discrete-laplace",
        *rng.choice([[], [], ["--postprocess", "signed"], ["--postprocess", "levelled"]]),
    ]
    noises = [noise, ["--scale", "5"], ["--sigma", "2", "--mechanism", "discrete-gaussian"]]
    words += rng.choice(noises) + (["--base-noise", "same"] if "%" in text and rng.random() < 0.2 else [])
    return ["audit", *words, "--method", "monte-carlo", "--runs", "200", "--threads", "1"]


def area(k: int, label: str) -> dict[str, Any]:
    """A square, or two."""
    square = [[k, 0], [k + 1, 0], [k + 1, 1.5], [k, 1.5], [k, 0]]
    several = k % 2 == 1
    shape = {"type": "MultiPolygon", "coordinates": [[square], [[[k, 5], [k, 6], [k + 1, 6], [k, 5]]]]}
    return {
        "type": "Feature", "id": label, "properties": {"GEOID": label, "name": label},
        "geometry": shape if several else {"type": "Polygon", "coordinates": [square]},
    }  # fmt: skip


def drawn(rng: random.Random) -> list[str]:
    """A map, and the page that shows it."""
    Path("in.csv").write_bytes(TABLE)
    whole = {
        "type": "FeatureCollection",
        "features": [area(k, label) for k, label in enumerate(IDS[: rng.randint(1, 8)])],
    }
    made = mutated(rng, whole, ["id", "type", "geometry", "coordinates", "properties", "geometries"])
    written(rng, "map.geojson", json.dumps(made), ("[", "1", "]"))
    key = rng.choice([[], [], ["--map-key", "GEOID"], ["--map-key", "name"]])
    words = ["audit", "in.csv", "--epsilon", "1", "--postprocess", "nonnegative", "--map", "map.geojson", *key]
    return [*words, "--html", "out.html", "--json", "out.json"]


CREATED = [
    "--dataset", "D", "--unit", "child", "--neighbours", "replace", "--measure", "pure", "--limit", "1", "--other-ledgers", "none",
    "--public", "state", "--public", "weight", "--public", "area", "--exact-total", "--exact-source", "a yearbook",
    "--rows", "rows.csv",
]  # fmt: skip


def kept() -> list[Any]:
    """A ledger, and statements of what would be published from it: of a table, of groups, of levels."""
    from click.testing import CliRunner

    from fairpost.cli import main

    if not Path("../statements.json").exists():
        rows = b"".join(line.split(b",")[0] + b"\n" for line in TABLE.splitlines())
        for name, data in (("../in.csv", TABLE), ("rows.csv", rows), ("plan.toml", as_toml(PLAN).encode())):
            Path(name).write_bytes(data)
        made = CliRunner().invoke(main, ["budget", "create", "../ledger", *CREATED])
        assert made.exit_code == 0, made.output
        seen = CliRunner().invoke(
            main, ["release", "--plan", "plan.toml", "--ledger", "../ledger", "--dry-run", "--json", "-"]
        )
        assert seen.exit_code == 0, seen.output
        found = [table["statement"] for table in json.loads(seen.stdout)["tables"]]
        for statement in found:
            statement |= {"date": "2026-01-01", "budget": statement["budget"] | {"entry": 2, "hash": "0" * 64}}
            step = statement["postprocessing"][0]
            step["total_value"] = "5000" if step["total"] in ("exact", "public") else step["total_value"]
            statement["table"]["sha256"] = hashlib.sha256(NOISY).hexdigest()
        Path("../statements.json").write_text(json.dumps(found), encoding="utf-8")
        for name in ("rows.csv", "plan.toml"):
            os.unlink(name)
    statements: list[Any] = json.loads(Path("../statements.json").read_text(encoding="utf-8"))
    return statements


def statement(rng: random.Random) -> list[str]:
    """A statement, and who reads it."""
    made = mutated(rng, rng.choice(kept()), ["rho", "delta", "hierarchy", "levels", "scale", "mechanism", "value"])
    Path("in.csv").write_bytes(TABLE)
    Path("noisy.csv").write_bytes(NOISY)
    written(rng, "statement.json", json.dumps(made), ("[", "1", "]"))
    who = rng.random()
    if who < 0.3:
        return ["budget", "verify", "../ledger", "statement.json"]
    if who < 0.6:
        return ["check", "in.csv", "noisy.csv", "--statement", "statement.json", "--json", "out.json"]
    runs = ["--method", "monte-carlo", "--runs", "100", "--threads", "1"]
    return ["audit", "in.csv", "--statement", "statement.json", "--group", "state", *runs, "--json", "out.json"]


def plan(rng: random.Random) -> list[str]:
    """A plan of releases, and what it would charge."""
    kept()
    whole = copy.deepcopy(PLAN)
    tables: Any = whole["table"]
    whole["table"] = rng.sample(tables, rng.randint(1, 3))
    keys = [
        "levels",
        "split",
        "exact",
        "epsilon",
        "rho",
        "total",
        "total-source",
        "level-sigma",
        "group-total",
        "format",
    ]
    written(rng, "plan.toml", as_toml(mutated(rng, whole, keys)), ("[", "1", "]"))
    words = ["release", "--plan", "plan.toml", "--ledger", "../ledger", "--dry-run"]
    if rng.random() < 0.2:
        written(rng, "about.toml", as_toml(mutated(rng, ABOUT, ["title", "note"])), ("[", "1", "]"))
        words += ["--about", "about.toml"]
    return [*words, *rng.choice([[], ["--json", "-"]])]
