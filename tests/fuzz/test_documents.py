"""Laws, maps, statements and plans that are wrong: one line that names the file, exit code 2, nothing written."""

import json

import pytest

from fairpost import documents
from support.commands import call
from support.releases import statement_of

TABLE = "id,count,base\na,30,300\nb,400,900\nc,5,80\n"
DEEP = 5000


def law(text):
    return {"law.toml": text}, [
        "audit",
        "t.csv",
        "--base",
        "base",
        "--scale",
        "3",
        "--budget",
        "1e6",
        "--programme",
        "law.toml",
    ]


def nested(depth):
    return law('name = "x"\neligible = [' + "{ any = [" * depth + '"count >= 3"' + "] }" * depth + "]\n")


def drawn(*features, **more):
    whole = {"type": "FeatureCollection", "features": list(features)} | more
    text = json.dumps(whole)
    return {"m.geojson": text}, ["audit", "t.csv", "--scale", "3", "--map", "m.geojson", "--html", "out.html"]


def area(coordinates=None, kind="Polygon", **more):
    square = [[[0, 0], [0, 1], [1, 1], [0, 0]]] if coordinates is None else coordinates
    return {"type": "Feature", "id": "a", "geometry": {"type": kind, "coordinates": square}} | more


def stated(command="audit", text=None, **privacy):
    data = statement_of(TABLE.encode(), step={"total": "public", "total_value": "435"}, **privacy)
    words = {"audit": ["t.csv"], "check": ["t.csv", "t.csv"]}[command]
    return {"s.json": json.dumps(data) if text is None else text}, [command, *words, "--statement", "s.json"]


def planned(**table):
    whole = {"name": '"x"', "file": '"t.csv"', "epsilon": '"0.1"'} | {k.replace("_", "-"): v for k, v in table.items()}
    text = "[[table]]\n" + "".join(f"{key} = {value}\n" for key, value in whole.items())
    return {"plan.toml": text}, ["release", "--plan", "plan.toml", "--ledger", "l", "--dry-run"]


CASES = {
    "a law of 200 nests": (nested(200), "law.toml, line 1: this is no TOML: lists and tables nest at most 100 deep"),
    "a law of 5000 nests": (nested(DEEP), "nest at most 100 deep"),
    "a law with a number of 400 digits": (law(f'name = "x"\neligible = ["count >= {"9" * 400}"]'), "law.toml, line 2: an amount"),
    "a law with 1e308": (law('name = "x"\nentitlement.cap = 1e308'), "an amount is a number from 0 to 2**53"),
    "a law with a weight of 1e308": (law('name = "x"\nentitlement.brackets = [[0, 1e308]]'), "at most 2**53, got 1e+308"),
    "a law with inf": (law('name = "x"\nentitlement.floor = inf'), "numbers must be finite"),
    "a law of numbers": (law('name = "x"\nentitlement.larger_of = [3]'), "`larger_of` is a list"),
    "a law with 1e15 seats": (law('name = "x"\nshare = "equal proportions"\nseats = 1000000000000000'), "from 1 to 100,000"),
    "a law that steers a terminal": (law('name = "\\u001b[2J"'), "`name` must be a text on one line"),
    "a geometry that is a text": (drawn(area(geometry="x")), "feature 0: geometry must be an object, got str"),
    "properties that are a list": (drawn(area(properties=[1])), "feature 0: properties must be an object, got list"),
    "features that are a table": (drawn(features={"a": 1}), "features must be a list"),
    "an id that is a list": (drawn(area(id=[1])), "an id must be a text or a number, got list"),
    "a ring without positions": (drawn(area([[]])), "feature 0 has bad coordinates"),
    "positions of one number": (drawn(area([[[1], [2]]])), "feature 0 has bad coordinates"),
    "positions of texts": (drawn(area([[["1", "2"]]])), "feature 0 has bad coordinates"),
    "a position at 1e308": (drawn(area([[[1e308, 0], [-1e308, 0], [0, 1]]])), "two numbers or more, up to 1e+15"),
    "a position of 400 digits": (drawn(area([[[10**400, 0]]])), "numbers must be finite"),
    "no position": (drawn(area([[[float("nan"), 0]]])), "numbers must be finite"),
    "polygons that are a number": (drawn(area(7, "MultiPolygon")), "feature 0 has bad coordinates"),
    "a deep map": (({"m.geojson": "[" * DEEP + "]" * DEEP}, drawn()[1]), "nest at most 100 deep"),
    "a deep statement": (stated(text="[" * DEEP), "s.json: must be a statement of a release"),
    "a statement of an unknown mechanism": (stated(mechanism="laplace"), "Invalid enum value 'laplace' - at `$.privacy.mechanism`"),
    "a check of an unknown mechanism": (stated("check", mechanism="staircase"), "at `$.privacy.mechanism`"),
    "a scale that is infinite": (stated(scale="inf"), "at `$.privacy.scale`"),
    "a scale that is Infinity": (stated("check", scale=float("inf")), "s.json: must be a statement"),
    "a scale of 1e308": (stated(scale="1e308"), "`scale` must be an amount above 0"),
    "a sensitivity of 10^999999999": (stated(sensitivity={"norm": "L1", "value": "1e999999999"}), "at `$.privacy.sensitivity.value`"),
    "levels that are a number": (stated(levels=3), "s.json: must be a statement"),
    "a plan with no levels": (planned(levels="{}"), "levels must be prefixes (name to length)"),
    "a plan with levels of texts": (planned(levels='{ a = "x" }'), "plan.toml: levels must be"),
    "a plan with lengths beyond a machine's": (planned(levels="{ a = 10000000000000000000000000 }"), "from 1 to 9999, got 1000000"),
    "a plan with a total of 5,000 digits": (planned(total=f'"{"9" * 5000}"', total_source='"x"'), "must be a whole number from 0"),
    "levels of 5,000 digits": (({}, ["audit", "t.csv", "--levels", f"a:{'9' * 5000}", "--level-sigma", "1"]), "--levels must be"),
    "a plan with exact = 5": (planned(exact="5"), "plan.toml: exact must be a text or a list"),
    "a plan with a list of losses": (planned(epsilon="[1]"), "plan.toml: epsilon must be an amount"),
    "a plan with a date": (planned(epsilon="1979-05-27"), "plan.toml: epsilon must be an amount"),
    "a plan with by-group = 1": (planned(by_group="1"), "plan.toml: by-group must be true or false"),
    "a plan with a source that is a number": (planned(total="5", total_source="5"), "total-source must be a text"),
    "a deep plan": (({"plan.toml": "a = " + "[" * DEEP}, planned()[1]), "nest at most 100 deep"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("documents")
    (made / "t.csv").write_text(TABLE)
    terms = [
        "--dataset",
        "D",
        "--unit",
        "child",
        "--neighbours",
        "add-remove",
        "--measure",
        "pure",
        "--limit",
        "1",
        "--other-ledgers",
        "none",
    ]
    assert call("budget", "create", "l", *terms, cwd=made).returncode == 0
    return made


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_document_is_one_line(folder, case):
    (files, words), says = CASES[case]
    for name, text in files.items():
        (folder / name).write_text(text)
    done = call(*words, cwd=folder)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert says in done.stderr
    assert not (folder / "out.html").exists()


@pytest.mark.parametrize("text", ["[" * DEEP, "{}", '{"budget": {"entry": "x"}}', "NaN", "\x00"])
def test_a_ledger_is_checked_against_statements(folder, text):
    (folder / "s.json").write_text(text)
    done = call("budget", "verify", "l", "s.json", cwd=folder)
    assert (done.returncode, done.stderr.count("\n")) == (5, 1), done.stderr
    assert "s.json: is no statement of a release" in done.stderr


def test_what_is_meant_is_read(folder):
    """The documents of the cases, before they were made wrong."""
    for made in (
        nested(20),
        drawn(area(), area([[[0, 0, 7], [2, 0, None], [1, 1, 0]]], id="b")),
        stated(),
        stated("check"),
        planned(),
    ):
        files, words = made
        for name, text in files.items():
            (folder / name).write_text(text)
        done = call(*words, cwd=folder)
        (folder / "out.html").unlink(missing_ok=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("depth", [documents.DEEPEST, documents.DEEPEST + 1])
def test_the_depth_is_counted_exactly(depth):
    text = "[" * depth + "]" * depth
    if depth <= documents.DEEPEST:
        assert json.loads(text) == documents.json_of(text)
    else:
        with pytest.raises(ValueError, match="at most 100 deep"):
            documents.json_of(text)
