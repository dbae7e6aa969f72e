"""The JSON of every command against the schema that is shipped and published; wrong documents fail."""

import copy
import importlib.util
import json
import re

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

import fairpost as fp
from fairpost.accuracy import KINDS
from fairpost.errors import InputError, ParameterError
from fairpost.results import schema
from support.commands import call
from support.places import ROOT

TRUE = "id,count,weight,group\n007,3,1.3,north\nBirch,11,0.7,south\nCedar,47,1.1,north\nElm,820,1.7,south\n"
NOISY = "id,count,weight,group,total\n007,-4.25,1.3,north,45\nBirch,13.5,0.7,south,830\nCedar,49.75,1.1,north,45\nElm,824,1.7,south,830\n"
NAMED = """id,name,zip,note,count,group
007,Ash,00001,,3,north
008,Birch,00002,b,11,south
009,Cedar,00003,c,47,north
010,All,00004,d,61,south
"""
MONEY = ["--budget", "54321"]
RUNS = {
    "exact": "audit true.csv --scale 8 --postprocess nonnegative --postprocess simplex --postprocess pos --entities --budget 54321",
    "expansion": "audit wide.csv --scale 100 --postprocess pos-threshold --postprocess simplex-threshold --method expansion --entities",
    "simulated": "audit true.csv --scale 8 --postprocess pos --postprocess simplex --method monte-carlo --runs 300 --entities",
    "discrete": "audit true.csv --mechanism discrete-laplace --scale 8 --postprocess pos --runs 300 --sensitivity 2",
    "gaussian": "audit true.csv --mechanism gaussian --sigma 9 --delta 1e-6 --postprocess none --entities",
    "grouped": "audit true.csv --scale 8 --postprocess pos --by-group --budget 54321 --entities",
    "grouped counts": "audit true.csv --scale 8 --postprocess simplex --by-group --entities",
    "judged": "audit named.csv --label name --keep zip --keep note --scale 2 --postprocess pos --postprocess baseline --budget 54321 "
    "--max-loss 190 --max-relative-loss 3 --frontier --entities",
    "sweep": "sweep true.csv --spreads 4 9 --points 2 --postprocess baseline --postprocess pos --budget 54321",
    "sweep by group": "sweep true.csv --spreads 4 9 --points 2 --postprocess pos --budget 54321 --by-group",
    "sweep refused": "sweep true.csv --spreads 4 9 --points 2 --mechanism discrete-laplace --method exact "
    "--postprocess pos --postprocess baseline",
    "plan": "plan true.csv --max-loss 60 --budget 54321 --spreads 2 30 --points 3 --postprocess pos --postprocess baseline",
    "plan with targets": "plan named.csv --label name --max-loss 60 --max-relative-loss 5 --max-rmse 900 --max-alpha 400 --max-cost 500 "
    "--budget 54321 --spreads 2 30 --points 3 --postprocess pos",
    "plan without answer": "plan true.csv --max-alpha 1e-300 --spreads 2 30 --points 2 --postprocess simplex",
    "project": "project noisy.csv --total 900",
    "project rounded": "project noisy.csv --group-total total --round --seed 3",
    "project without total": "project noisy.csv --postprocess nonnegative",
    "allocate": "allocate noisy.csv --scale 8 --budget 54321 --replicates 2",
    "allocate without noise": "allocate noisy.csv",
    "allocate by group": "allocate noisy.csv --label id --keep total --scale 8 --by-group --budget 54321 --replicates 2",
    "allocate group budgets": "allocate noisy.csv --by-group --group-budget total",
    "check": "check true.csv noisy.csv second.csv --scale 8",
    "check of whole numbers": "check true.csv second.csv --mechanism discrete-gaussian --sigma 4",
    "check without noise": "check true.csv noisy.csv",
}


def written(folder, words):
    done = call(*words, "--json", "-", cwd=folder)
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "true.csv").write_text(TRUE)
    (folder / "noisy.csv").write_text(NOISY)
    (folder / "named.csv").write_text(NAMED)
    (folder / "second.csv").write_text("id,count\nElm,815\nBirch,11\n007,9\nCedar,44\n")
    many = "".join(f"d{k},{40 + 7 * k}\n" for k in range(400))  # enough entities for an expansion in 1/n
    (folder / "wide.csv").write_text(f"id,count\n{many}")
    made = {}

    def document(which):
        if which not in made:
            made[which] = written(folder, RUNS[which].split())
        return copy.deepcopy(made[which])

    return document


def validator(command):
    return Draft202012Validator(schema(command))


VERSIONS = {"audit": 1, "sweep": 2, "plan": 2, "project": 1, "allocate": 1, "check": 1}


@pytest.mark.parametrize(("command", "version"), VERSIONS.items())
def test_the_schemas_are_schemas(command, version):
    Draft202012Validator.check_schema(schema(command))
    assert schema(command)["properties"]["schema"]["const"] == f"fairpost/{command}/{version}"


def test_there_is_no_other_schema():
    with pytest.raises(ParameterError, match="audit, sweep, plan, project, allocate, check, got 'demo'"):
        schema("demo")


def closed(s):
    """A schema that takes no key beyond those it names."""
    if isinstance(s, list):
        return [closed(part) for part in s]
    if not isinstance(s, dict):
        return s
    named = "properties" in s and s.get("type") == "object"
    return {k: closed(v) for k, v in s.items()} | ({"additionalProperties": False} if named else {})


@pytest.mark.parametrize("which", RUNS)
def test_real_documents_pass_and_have_no_key_that_is_not_published(documents, which):
    command = RUNS[which].split()[0]
    Draft202012Validator(closed(schema(command))).validate(documents(which))


def test_the_runs_cover_what_can_come(documents):
    found = [r for way in ("exact", "expansion", "discrete", "simulated") for r in documents(way)["results"]]
    assert {r["method"] for r in found} == {"exact", "expansion", "conditional", "monte-carlo"}
    assert {"estimate", "expansion", "interval"} <= {r["accuracy"] for r in found} <= set(KINDS)
    assert documents("sweep refused")["refused"]
    assert documents("plan without answer")["plans"][0]["found"] is None


def change(data, path, value):
    *way, last = path
    for step in way:
        data = data[step]
    if value is KeyError:
        del data[last]
    else:
        data[last] = value


@pytest.mark.parametrize(
    ("which", "path", "value"),
    [
        ("exact", ["schema"], "fairpost/audit/2"),
        ("exact", ["mark"], KeyError),
        ("exact", ["results"], []),
        ("exact", ["results", 0, "accuracy"], "sure"),
        ("exact", ["results", 0, "entities", 0, "zero"], 1.5),
        ("exact", ["results", 2, "cost_of_privacy", "share"], None),
        ("sweep", ["points", 0, "rmse"], 3.0),
        ("plan", ["targets"], {"max_fairness": 1}),
        ("plan", ["plans", 0, "binding"], "fairness"),
        ("plan", ["plans", 0, "verdicts", 0, "outcome"], "perhaps"),
        ("judged", ["results", 0, "verdicts", 0, "unit"], "dollars"),
        ("project", ["changes", "negative_after"], 0.5),
        ("project rounded", ["rounding", "seed"], None),
        ("project rounded", ["totals", "north"], -1),
        ("allocate", ["entities", 0, "pos_share"], 1.5),
        ("allocate", ["bias", "missing"], None),
    ],
)
def test_wrong_documents_fail(documents, which, path, value):
    data = documents(which)
    change(data, path, value)
    with pytest.raises(ValidationError):
        validator(RUNS[which].split()[0]).validate(data)


@pytest.mark.parametrize(
    "which", ["exact", "expansion", "simulated", "gaussian", "grouped", "grouped counts", "judged"]
)
def test_an_audit_is_read_back_to_the_last_bit(documents, which):
    data = documents(which)
    again = json.loads(json.dumps(fp.Comparison.from_dict(data).to_dict(entities=True)))
    del data["command"]
    assert again == data


def test_an_audit_without_entities_says_what_is_missing(documents):
    with pytest.raises(InputError, match="--entities"):
        fp.Comparison.from_dict(documents("discrete"))
    with pytest.raises(InputError, match="schema 'fairpost/audit/1', got 'fairpost/sweep/2'"):
        fp.Comparison.from_dict(documents("sweep"))
    for broken in ({}, [], {"schema": "fairpost/audit/1", "entities": []}):
        with pytest.raises(InputError) as told:
            fp.Comparison.from_dict(broken)
        assert "\n" not in str(told.value)


def test_the_entities_of_a_rule_are_those_of_the_audit(documents):
    data = documents("exact")
    data["results"][0]["entities"].reverse()
    with pytest.raises(InputError, match="in their order"):
        fp.Comparison.from_dict(data)


WRONG = {
    "no alpha": (["results", 0, "alpha"], KeyError, "this audit cannot be read back: results[0]: it has no 'alpha'"),
    "no count": (["entities", 1, "count"], KeyError, "this audit cannot be read back: entities[1]: it has no 'count'"),
    "no due": (["results", 0, "entities", 0, "due"], KeyError, "cannot be read back: results[0].entities[0]: it has no 'due'"),
    "a text for a number": (["results", 0, "alpha", "value"], "0.5", "results[0].alpha.value: expected 'float', got 'str'"),
    "no number": (["results", 0, "alpha", "low"], float("nan"), "results[0].alpha.low: expected a finite number"),
    "infinity": (["results", 0, "entities", 1, "bias"], float("inf"), "results[0].entities[1].bias: expected a finite number"),
    "a number that no float holds": (["entities", 0, "count"], 10**400, "entities[0].count: number out of range"),
    "a negative count": (["entities", 0, "count"], -1.0, "entities[0].count: expected 'float' >= 0.0"),
    "a key that nobody knows": (["results", 0, "fairness"], 1, "results[0]: nobody knows 'fairness'"),
    "an unknown method": (["results", 0, "method"], "guess", "results[0].method: invalid enum value 'guess'"),
    "a nest": (["results", 0, "note"], [[]] * 1000, "results[0].note: expected 'str | null', got 'array'"),
    "a nest among what is kept": (["entities", 0, "kept"], {"a": [[]]}, "got 'array'"),
    "a list for a document": (["results", 0], [], "results[0]: expected 'object', got 'array'"),
    "noise of nobody": (["mechanism", "name"], 5, "mechanism.name: expected 'str', got 'int'"),
    "no noise": (["mechanism", "scale"], -3.0, "mechanism.scale: expected 'float' >= 0.0"),
    "an interval without its value": (["results", 0, "alpha", "low"], 1e9, "an interval must contain its value"),
    "a group too many": (["entities", 0, "weight"], 0.0, "entities[0].weight: expected 'float' > 0.0"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_document_of_a_stranger_is_refused_in_one_line_that_names_the_place(documents, case):
    path, value, says = WRONG[case]
    data = documents("exact")
    change(data, path, value)
    with pytest.raises(InputError) as told:
        fp.Comparison.from_dict(data)
    assert says in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["audit", "plan"])
def test_what_the_last_version_saved_is_read(name):
    """Written by 0.1.0 before the documents had types: the same numbers come back, and the same document goes out."""
    path = ROOT / "tests" / "results" / "saved" / f"{name}.json"
    read, data = (fp.Comparison if name == "audit" else fp.Plans).read(path), json.loads(path.read_text())
    again = json.loads(json.dumps(read.to_dict(entities=True) if name == "audit" else read.to_dict()))
    assert again == {key: value for key, value in data.items() if key != "command"}
    with pytest.raises(InputError, match=rf"must say schema 'fairpost/{name}/\d', got 'fairpost/{name}/0'"):
        type(read).from_dict(data | {"schema": f"fairpost/{name}/0"})


@pytest.mark.parametrize(
    "text", ["[" * 5000, "{}", "NaN", "\x00", "\udcff", '{"schema": "fairpost/audit/1"}', "{", None]
)
def test_a_file_that_is_no_document_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "a.json"
    if text is not None:
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=re.escape(str(path))) as told:
        fp.Comparison.read(path)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "which", ["sweep", "sweep by group", "sweep refused", "plan", "plan with targets", "plan without answer"]
)
def test_curves_and_plans_are_read_back(documents, which):
    data = documents(which)
    read = (fp.Plans if which.startswith("plan") else fp.Curve).from_dict(data)
    again = json.loads(json.dumps(read.to_dict()))
    del data["command"]
    assert again == data
    assert read.basis.n == 4
    if which == "plan":
        assert read[0].found.quantity("loss").high <= 60
        with pytest.raises(ParameterError, match=r"Plans\.from_dict"):
            fp.Plan.from_dict(data)
    if which == "plan without answer":
        assert fp.Plan.from_dict(data).message == read[0].message


def test_the_page_of_the_schemas_is_up_to_date():
    spec = importlib.util.spec_from_file_location("json_page", ROOT / "tools" / "json_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "json.md").read_text() == module.page(), "run python tools/json_page.py"
