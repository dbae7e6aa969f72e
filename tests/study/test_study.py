"""A question as one object: each of its fields through every door, one line for every mistake, the same answer from a file."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import click
import msgspec
import pytest
import tomli_w

import fairpost as fp
from fairpost.cli import main
from fairpost.cli.options import typed
from fairpost.errors import InputError, ParameterError, UnsupportedError
from fairpost.fields import all_fields, fields_of, parts_of
from fairpost.study.parts import Output
from fairpost.study.study import NOT_IN_PYTHON, STUDIES, kind_of
from support.commands import call

TABLE = "id,count,group\na,3,n\nb,40,n\nc,500,s\nd,60,s\n"
FILES = {"check": {"true": "t.csv", "released": ["r.csv", "s.csv"]}}
LEVELS = {"levels": "s:1,c:2"}
NEEDS = {
    "base": {"programme": "law.toml"},
    "base_noise": {"programme": "law.toml", "base": "pop"},
    "group_budget": {"by_group": True},
    "map": {"html": "a.html"},
    "map_key": {"html": "a.html", "map": "m.json"},
    **dict.fromkeys(("level_sigma", "split", "exact", "areas", "cells", "total_sigma", "total_share"), LEVELS),
    **dict.fromkeys(("level_rmse", "rhos"), LEVELS),
}
"""Fields that mean something beside others."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def a_value(field):
    """A value that is not the default."""
    one = {str: "x y", int: 3, float: 0.5, bool: True}[field.kind] if not field.choices else field.choices[1]
    return one if field.size is None else [one] if field.size == 0 else [0.25, 2.0]


def a_study(command, field):
    given = {"max_alpha": 2.0} if command == "plan" else {}
    given |= FILES.get(command, {"file": "t.csv"}) | NEEDS.get(field.name, {})
    given |= LEVELS if field.name == "rho" and command in ("plan", "sweep") else {}
    return fp.Study.of(command, **given | {field.name: a_value(field)})


@pytest.mark.parametrize(("command", "field"), [(c, f) for c in STUDIES for f in all_fields(kind_of(c))])
def test_a_field_is_the_same_through_every_door(command, field):
    study = a_study(command, field)
    assert study.flat()[field.name] != field.default
    words = shlex.split(study.command())[2:]
    made = main.get_command(click.Context(main), command)
    with made.make_context(command, words) as context:
        assert type(study).from_flat(typed({k: v for k, v in context.params.items() if k != "save"})) == study
    Path("q.toml").write_text(study.save("q.toml"), encoding="utf-8")
    assert fp.read_study("q.toml") == study
    if field in fields_of(Output) or field.name in NOT_IN_PYTHON:
        assert f"    {field.name}=" not in study.python()
        return
    space = {}
    exec(study.python().partition(".run()")[0], space)
    left_out = {f.name for f in fields_of(Output)} | {*NOT_IN_PYTHON}
    found = space[study.answer].flat()
    assert {k: v for k, v in found.items() if k not in left_out} == {
        k: v for k, v in study.flat().items() if k not in left_out
    }


WRONG = [
    ("audit", {"max_alpha": 0.0}, "`max_alpha` must be > 0 and finite, got 0.0"),
    ("audit", {"total": -1.0}, "`total` must be at least 0 and finite, got -1.0"),
    ("audit", {"base": "pop"}, "`base` is for the rates of a programme, got no `programme`"),
    ("audit", {"budget": 1.0, "group_budget": "g", "by_group": True}, "money is given by `budget` or by `group_budget`, got both"),
    ("audit", {"level_sigma": "1"}, "`level_sigma` needs `levels`, got '1' without"),
    ("audit", {"map": "m.json"}, "`map` is for the report, got no `html`"),
    ("plan", {}, "a plan must have a target of `max_alpha`, `max_loss`, "),
    ("sweep", {"epsilons": [1.0, 0.5]}, "`epsilons` must ascend from above 0, got 1 0.5"),
    ("project", {"levels": "s:1", "label": "name"}, "`label` is for projections without `levels`, got both"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "given", "rule"), WRONG)
def test_a_wrong_value_gets_the_same_line_from_every_door(command, given, rule):
    kind = kind_of(command)
    with pytest.raises(ParameterError) as refused:
        fp.Study.of(command, file="t.csv", **given)
    assert str(refused.value).startswith(rule)
    words = [command, "t.csv"]
    options = {field.name: field.option for field in all_fields(kind)}
    for name, value in given.items():
        words += [
            options[name],
            *([] if value is True else map(str, value) if isinstance(value, list) else [str(value)]),
        ]
    for name, option in options.items():
        rule = rule.replace(f"`{name}`", option)
    done = call(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fairpost: {rule}")
    text = toml(command, given)
    Path("q.toml").write_text(text, encoding="utf-8")
    done = call("run", "q.toml")
    assert (done.returncode, done.stderr) == (2, f"fairpost: q.toml: {refused.value}\n")


def toml(command, given):
    """The options in the tables of a file."""
    kind, tables = kind_of(command), {"data": {"file": "t.csv"}}
    for name, value in given.items():
        section = next(s for s, part in parts_of(kind).items() if name in {f.name for f in fields_of(part)})
        tables.setdefault(section, {})[name] = value
    return tomli_w.dumps({"command": command, **tables})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('command = "audit"\n[noise]\nepsilom = 1\n', "q.toml: noise.epsilom: a key must be one of mechanism, delta, sensitivity, epsilon,"),
        ('command = "audit"\n[noise]\nepsilom = 1\n', "got 'epsilom' (did you mean epsilon?)"),
        ('command = "audit"\n[noise]\nepsilon = "much"\n', "q.toml: `epsilon` must be a number, got 'much'"),
        ('command = "audit"\n[engine]\nruns = 2.5\n', "q.toml: `runs` must be a whole number, got 2.5"),
        ('command = "audit"\n[problem]\nby_group = 1\n', "q.toml: `by_group` must be true or false, got 1"),
        ('command = "audit"\nrules = ["simplx"]\n', "q.toml: `rules` must be one of none, nonnegative, sum,"),
        ('command = "audit"\nrules = "simplex"\n', "q.toml: `rules` must be a list of values, got 'simplex'"),
        ('command = "audit"\nnoise = 3\n', "q.toml: noise must be a table of keys, got 3"),
        ('command = "sweep"\n[noise]\nspreads = [1]\n', "q.toml: `spreads` must be a list of 2 values, got (1.0,)"),
        ('command = "dance"\n', "q.toml: `command` must be one of audit, plan, sweep, allocate, project, check, got 'dance'"),
        ('rules = ["pos"]\n', "q.toml: `command` must be one of audit, plan, sweep, allocate, project, check, got none"),
        ('command = "audit"\n[noise]\nscale = 1\n', "q.toml: `file` must name a file, got none"),
        ("command = audit\n", "q.toml: cannot be read as TOML"),
        ('command = "audit"\n[noise]\nepsilon = inf\n', "q.toml: cannot be read as TOML: numbers must be finite"),
        ('command = "audit"\n[noise]\nepsilon = 0.0\n[data]\nfile = "t.csv"\n', "`epsilon` must be > 0"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused_in_one_line_with_its_key(text, says):
    Path("q.toml").write_text(text, encoding="utf-8")
    done = call("run", "q.toml", "--json", "o.json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr
    assert not Path("o.json").exists()


def test_a_file_that_cannot_be_read_is_named():
    Path("latin.toml").write_bytes(b'command = "\xe9"\n')
    for name, says in (("none.toml", "No such file"), ("latin.toml", "must be text in UTF-8")):
        with pytest.raises(InputError, match=f"{name}: .*{says}"):
            fp.read_study(name)


def test_names_of_files_are_as_seen_from_the_study():
    """A study in another folder reads the files beside it and writes there; what was typed is as seen from here."""
    inside = Path("sub")
    inside.mkdir()
    (inside / "t.csv").write_text(TABLE, encoding="utf-8")
    Path("t.csv").unlink()
    text = '[data]\nfile = "t.csv"\n[noise]\nscale = 3\n[output]\njson = "o.json"\n'
    (inside / "q.toml").write_text(f'command = "audit"\nrules = ["sum"]\n{text}', encoding="utf-8")
    assert call("run", "sub/q.toml").returncode == 0
    assert call("run", "sub/q.toml", "--json", "here.json").returncode == 0
    assert (
        json.loads((inside / "o.json").read_text())["results"] == json.loads(Path("here.json").read_text())["results"]
    )
    done = call(
        "audit", "sub/t.csv", "--scale", 3, "--rule", "sum", "--json", "here.json", "--force", "--save",
        "sub/again.toml",
    )  # fmt: skip
    assert done.returncode == 0
    assert '\nfile = "t.csv"\n' in (inside / "again.toml").read_text(encoding="utf-8")
    assert fp.read_study("sub/again.toml").run().first.alpha == fp.read_study("sub/q.toml").run().first.alpha


def test_a_name_that_is_no_file_stays_a_name():
    """A column of budgets, and a law that comes with the package."""
    text = '[data]\nfile = "t.csv"\n[problem]\nprogramme = "title1-basic"\nbase = "pop"\ngroup_budget = "money"\nby_group = true\n'
    Path("sub").mkdir()
    Path("sub/q.toml").write_text(f'command = "audit"\n{text}', encoding="utf-8")
    found = fp.read_study("sub/q.toml")
    assert (found.problem.programme, found.problem.group_budget) == ("title1-basic", "money")
    Path("sub/money").write_text("group,budget\n", encoding="utf-8")
    assert fp.read_study("sub/q.toml").problem.group_budget == str(Path("sub/money"))


def test_outputs_that_a_command_does_not_have_are_refused():
    study = fp.Study.of("project", file="t.csv")
    Path("q.toml").write_text(study.save("q.toml"), encoding="utf-8")
    done = call("run", "q.toml", "--entities")
    assert (done.returncode, done.stderr) == (2, "fairpost: --entities is no output of `project`, got True\n")


def test_levels_are_run_by_the_command_and_refused_in_python():
    Path("b.csv").write_text(
        "id,count\n" + "".join(f"{k // 4}{k % 4},{k * k % 7}\n" for k in range(12)), encoding="utf-8"
    )
    words = ["--levels", "a:1,b:2", "--level-sigma", "0,2", "--runs", 40, "--rule", "top-down", "--json", "o.json"]
    assert call("audit", "b.csv", *words, "--save", "q.toml").returncode == 0
    assert call("run", "q.toml", "--json", "again.json").returncode == 0
    one, two = (json.loads(Path(name).read_text()) for name in ("o.json", "again.json"))
    assert {k: v for k, v in one.items() if k != "command"} == {k: v for k, v in two.items() if k != "command"}
    with pytest.raises(UnsupportedError, match="fairpost run"):
        fp.read_study("q.toml").run()


def test_a_study_is_kept_whole_or_not_at_all():
    Path("q.toml").write_text("mine", encoding="utf-8")
    done = call("audit", "t.csv", "--scale", 3, "--save", "q.toml")
    assert (done.returncode, Path("q.toml").read_text(encoding="utf-8")) == (2, "mine")
    assert call("audit", "t.csv", "--scale", 3, "--save", "-").returncode == 2


def test_the_answer_is_that_of_the_verb():
    counts = fp.read_counts("t.csv")
    (found,) = fp.Study.of("audit", file="t.csv", scale=5, rule=["simplex"], engine="exact").run()
    assert found.alpha == fp.audit(counts, fp.Laplace(5.0), "simplex", engine="exact").alpha
    with pytest.raises(ParameterError, match=r"a key must be one of file, .*did you mean scale"):
        fp.Study.of("audit", scal=3)


def test_the_types_have_a_schema_with_their_choices():
    _, found = msgspec.json.schema_components(list(map(kind_of, STUDIES)), ref_template="#/components/schemas/{name}")
    assert {kind_of(name).__name__ for name in STUDIES} <= set(found)
    assert found["Range"]["properties"]["mechanism"]["enum"] == [
        "laplace",
        "gaussian",
        "discrete-laplace",
        "discrete-gaussian",
    ]
    assert found["AuditStudy"]["properties"]["rules"]["items"]["enum"][:2] == ["none", "nonnegative"]
    assert found["Targets"]["properties"]["max_loss"]["description"].startswith("Target: no entity")
    assert all(part["additionalProperties"] is False for name, part in found.items())


def test_help_and_import_load_no_study():
    for code in ("import fairpost", "from fairpost.cli import main; main(['--help'])"):
        said = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint([m for m in sys.modules if 'msgspec' in m])"
        done = subprocess.run(
            [sys.executable, "-c", said], capture_output=True, text=True, check=True, timeout=60, encoding="utf-8"
        )
        assert done.stdout.splitlines()[-1] == "[]"
