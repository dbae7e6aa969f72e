"""Markup in every text that a user can give, on every page: it is read as text, and nothing of it becomes an element."""

import ast
import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import fairpost as fp
from support.commands import call

ROOT = Path(fp.__file__).parent


def evil(word):
    """Ends an attribute, an element, a script, a title; a template's and a format's braces."""
    return f"""{word}"'><hurt-me hurt onload="x()"></script></title></style>&lt;{{{{7*7}}}}{{x}}%(x)s"""


FILE = "file\"'><hurt-me hurt>{x}"
"""As a file can be called."""
GIVEN = {
    w: evil(w) for w in ("title", "unit", "noun", "currency", "id", "group", "label", "count", "base", "law", "text")
}
PART = evil("part").replace(",", "").replace(":", "")
"""As a level can be called."""


class Elements(HTMLParser):
    """The names of elements and attributes, and all text: between the elements, in attributes, in scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = [], set(), []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {key for key, _ in attrs}
        self.text += [value for _, value in attrs if value]

    def handle_data(self, data):
        self.text.append(data)


def harmless(page, words, scripts=2, styles=1):
    """No element is the user's, and every text of the user's is there."""
    seen = Elements(page)
    assert "hurt-me" not in seen.tags
    assert not {"hurt", "onload"} & seen.attributes
    assert [seen.tags.count(tag) for tag in ("title", "style", "script")] == [1, styles, scripts]
    text = "\n".join(seen.text)
    data = text.encode().decode().replace("\\u003c", "<").replace("\\u003e", ">").replace('\\"', '"')
    for word in words:
        assert f"{word}\"'><hurt-me hurt" in data, word


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables with markup in the names of files, columns, entities and groups; a law; a map; two releases."""
    made = tmp_path_factory.mktemp("markup")
    x, g = np.array([3, 40, 9, 500, 0, 77]), GIVEN
    head = [g["id"], g["count"], g["group"], g["label"], g["base"]]
    ids = [evil(f"entity{i}") for i in range(6)]
    rows = [
        [a, int(v), evil(f"g{i % 2}"), evil(f"name{i}"), int(9 * v + 10)]
        for i, (a, v) in enumerate(zip(ids, x, strict=True))
    ]
    for name, add in ((FILE, 0), (f"1{FILE}", 2), (f"2{FILE}", -3)):
        with (made / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([head, *([r[0], r[1] + add, *r[2:]] for r in rows)])
    law = {"name": g["law"], "law": g["text"], "note": evil("note"), "eligible": ["count >= 5", "count > 2 % of base"]}
    (made / "law.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in law.items()))
    square = [[[0, 0], [0, 1], [1, 1], [0, 0]]]
    areas = [
        {"type": "Feature", "properties": {g["id"]: label}, "geometry": {"type": "Polygon", "coordinates": square}}
        for label in [*ids[:4], "else"]
    ]
    (made / f"{FILE}.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": areas}))
    deep = [
        ["id", g["count"], g["group"]],
        *([f"{a}{b}", 7 * i, f"{g['group']}{i % 2}"] for i, (a, b) in enumerate(zip("<<>>", "&\"'<", strict=True))),
    ]
    with (made / f"tree{FILE}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(deep)
    return made


WORDS = ["--unit", GIVEN["unit"], "--noun", GIVEN["noun"], "--title", GIVEN["title"]]
MONEY = ["--currency", GIVEN["currency"], "--budget", "1e6"]
COLUMNS = ["--id", GIVEN["id"], "--count", GIVEN["count"], "--group", GIVEN["group"], "--label", GIVEN["label"]]
LAW = ["--programme", "law.toml", "--base", GIVEN["base"]]
TABLE, NOISE = f"{FILE}.csv", ["--scale", "5"]
NAMED = ("file", "title", "unit", "noun", "entity0", "name0", "g0")
PAGES = {
    "audit": (
        ["audit", TABLE, *COLUMNS, *NOISE, *WORDS, *MONEY, "--postprocess", "nonnegative", "--postprocess", "pos",
         "--map", f"{FILE}.geojson", "--map-key", GIVEN["id"], "--max-relative-loss", "5"],
        (*NAMED, "currency"),
    ),
    "by group": (["audit", TABLE, *COLUMNS, *NOISE, *WORDS, *MONEY, "--by-group"], (*NAMED, "currency")),
    "law": (["audit", TABLE, *COLUMNS, *NOISE, *WORDS, *MONEY, *LAW], (*NAMED, "currency", "law", "text")),
    "allocate": (["allocate", TABLE, *COLUMNS, *NOISE, *WORDS, *MONEY, "--replicates", "20"], (*NAMED, "currency")),
    "allocate by law": (["allocate", TABLE, *COLUMNS, *WORDS, *MONEY, *LAW], (*NAMED, "currency")),
    "project": (["project", TABLE, *COLUMNS, *WORDS, "--round"], NAMED),
    "check": (["check", TABLE, f"1{TABLE}", f"2{TABLE}", *COLUMNS, *NOISE, *WORDS], NAMED),
    "plan": (
        ["plan", TABLE, *COLUMNS, *WORDS, *MONEY, "--max-loss", "1e5", "--postprocess", "pos", "--epsilons", "0.1", "1", "--points", "2"],
        ("file", "title", "noun", "currency"),
    ),
    "sweep": (
        ["sweep", TABLE, *COLUMNS, *WORDS, *LAW, *MONEY, "--epsilons", "0.1", "1", "--points", "2", "--runs", "200"],
        ("file", "title", "noun", "currency"),
    ),
    "levels": (
        ["audit", f"tree{TABLE}", "--count", GIVEN["count"], "--group", GIVEN["group"], "--levels", f"{PART}:1,leaf{PART}:2",
         "--level-sigma", "0,1", "--runs", "50", *WORDS[:2], *WORDS[4:]],
        ("file", "title", "unit", "part"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def pages(folder):
    """Each page by its kind, made once."""
    made = {}

    def page(kind):
        if kind not in made:
            done = call(*PAGES[kind][0], "--html", "-", cwd=folder)
            assert done.returncode == 0, done.stderr
            made[kind] = done.stdout
        return made[kind]

    return page


@pytest.mark.parametrize("kind", PAGES)
def test_text_of_a_user_stays_text(pages, kind):
    harmless(pages(kind), PAGES[kind][1])


@pytest.mark.parametrize("kind", PAGES)
def test_it_stays_text_when_the_script_has_drawn(visit, pages, kind):
    opened = visit[0](pages(kind))
    assert opened.evaluate("document.querySelectorAll('hurt-me, [hurt], [onload]').length") == 0
    assert visit[1] == []


@pytest.mark.parametrize("mode", ["officer", "analyst"])
def test_text_stays_text_on_the_live_page(mode):
    Live = pytest.importorskip("test_explore", reason="the extra `explore` is not installed").Live
    made, g, table = Live(), GIVEN, io.StringIO()
    rows = [[evil(f"entity{i}"), v, evil(f"g{i % 2}"), evil(f"name{i}")] for i, v in enumerate([3, 40, 9, 500])]
    csv.writer(table).writerows([[g["id"], g["count"], g["group"], g["label"]], *rows])

    def page(path="/"):
        return made.client.get(path, headers={"accept": "text/html"}).text

    try:
        assert made.upload(f"{FILE}.csv", table.getvalue().encode(), mode).status_code == 303
        harmless(page(), ("id", "count", "group", "label", "entity0", "name0", "g0"), scripts=0, styles=0)
        words = {w: g[w][:60] for w in ("unit", "noun", "currency")}
        chosen = {role: g[role] for role in ("id", "count", "group", "label")}
        assert made.post("columns", chosen | words).status_code == 200
        harmless(page(), (*(("unit", "noun") if mode == "officer" else ()), "currency"), scripts=1, styles=0)
        given = {"epsilon": 0.2, "postprocess": ["pos"], "budget": 1e6} | (words if mode == "officer" else {})
        kept = made.post("export/report", given)
        assert kept.status_code == 200
        harmless(kept.text, ("unit", "noun", "currency", "entity0", "name0", "g0"))
        harmless(page(f"/{evil('nowhere')}"), (), scripts=0, styles=0)
    finally:
        made.close()


def test_what_becomes_html_is_written_where_it_becomes_it():
    """`Html(...)` and the pattern of `html(...)` are literals; `numbers` makes both, and `page` puts the package's own files together."""
    package = [
        path
        for path in ROOT.rglob("*.py")
        if (path.parent.name, path.name) not in {("report", "numbers.py"), ("report", "page.py")}
    ]
    calls = [
        (path.name, node)
        for path in package
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("html", "Html")
    ]
    assert len(calls) > 100
    assert [(name, node.lineno) for name, node in calls if not literal(node.args[0])] == []


def literal(node):
    if isinstance(node, ast.IfExp):
        return literal(node.body) and literal(node.orelse)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
        return all(map(literal, node.value.values))
    return isinstance(node, ast.Constant)
