"""Every option of `release` and `budget` matters; the table is compared with what click declares, and so is the list of all commands.

The noise is that of a generator that starts anew for each release, so two releases differ by what their options say and by nothing else.
"""

import csv
import io
import json
import sys
from functools import partial
from pathlib import Path

import click
import numpy as np
import pytest

import fairpost as fp
from fairpost.cli.main import COMMANDS, main
from support.commands import call
from support.releases import FILES, drawing
from support.workbooks import xlsx

TRUE = """id,name,count,other,weight,price,group,region,t
a,A,300,900,1,2,n,e,340
b,B,40,200,2,1,n,w,340
c,C,550,300,1,3,s,e,620
d,D,70,800,4,1,s,w,620
"""
ROWS = list(csv.DictReader(io.StringIO(TRUE)))
COUNT, OTHER = (np.array([float(r[k]) for r in ROWS]) for k in ("count", "other"))
PUBLIC = [w for name in ("weight", "price", "group", "region", "name", "t") for w in ("--public", name)]
TERMS = ["--dataset", "Towns", "--unit", "person", "--limit", "1", "--other-ledgers", "none"]
PURE = [*TERMS, "--neighbours", "add-remove", "--measure", "pure", *PUBLIC]
ZCDP = [*TERMS, "--neighbours", "add-remove", "--measure", "zcdp", *PUBLIC]
SOURCE = ["--exact-source", "Yearbook", "--rows", "rows.csv", "--smallest-part", 2]
TOTAL = [*TERMS, "--neighbours", "replace", "--measure", "pure", *PUBLIC, "--exact-total", *SOURCE]
PARTS = [*TERMS, "--neighbours", "replace", "--measure", "pure", *PUBLIC, "--exact-by", "group", *SOURCE]
LEVELS = "s:1,block:2"
TREE = [*TERMS, "--neighbours", "replace", "--measure", "pure", "--levels", LEVELS, "--exact", "s", *SOURCE[:2], "--rows", "nodes.csv",
        "--smallest-part", 2]  # fmt: skip


def columns_alone(*names):
    return "\n".join([",".join(names), *(",".join(r[k] for k in names) for r in ROWS)]) + "\n"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawing(monkeypatch)
    Path("true.csv").write_text(TRUE)
    Path("true.tsv").write_text(TRUE.replace(",", "\t"))
    Path("rows.csv").write_text(columns_alone("id", "group"))
    Path("names.csv").write_text(columns_alone("name", "group"))
    Path("more.csv").write_text(columns_alone("id", "group") + "e,w\nf,w\n")
    Path("blocks.csv").write_text("id,count\n" + "".join(f"{k // 3}{k},{50 * k + 7}\n" for k in range(6)))
    Path("nodes.csv").write_text("id\n" + "".join(f"{k // 3}{k}\n" for k in range(6)))
    Path("more_nodes.csv").write_text("id\n" + "".join(f"{k // 3}{k}\n" for k in range(9)))
    return monkeypatch


class Released:
    """One release from a ledger of its own: what it published."""

    made = 0

    def __init__(self, place, *words, terms=PURE, file="true.csv", loss=("--epsilon", "1/10"), code=0, before=()):
        Released.made += 1
        self.ledger, out = f"ledger{Released.made}", f"out{Released.made}"
        self.done = call("budget", "create", self.ledger, *terms)
        assert self.done.returncode == 0, self.done.stderr
        for line in [*before, ("release", *([file] if file else []), *loss, *words)]:
            place.setattr("support.releases.RNG", np.random.default_rng(11))
            self.done = call(*line, "--ledger", self.ledger, *([] if "--out" in line else ["--out", out]))
        assert self.done.returncode == code, self.done.stderr
        self.said, self.folder = self.done.stderr, Path(out)
        if (self.folder / "table.csv").exists():
            self.rows = list(csv.DictReader(io.StringIO((self.folder / "table.csv").read_text())))
            self.statement = json.loads((self.folder / "statement.json").read_text())

    def values(self, name="count"):
        return np.array([float(r[name]) for r in self.rows])

    @property
    def privacy(self):
        return self.statement["privacy"]

    @property
    def spent(self):
        return str(fp.Ledger.open(self.ledger).spent)


NONE = ("--postprocess", "none")


# -- release -----------------------------------------------------------------------------------------------------------


def ledger(go):
    assert call("budget", "create", "other", *PURE).returncode == 0
    assert go().spent == "1/10"
    assert str(fp.Ledger.open("other").spent) == "0"


def ids(go):
    made = go("--id", "name", terms=[*PURE, "--id", "name"])
    assert [r["id"] for r in made.rows] == ["A", "B", "C", "D"]
    assert "column that the ledger lists" in go("--id", "name", terms=TERMS + PURE[8:12], code=2).said


def count(go):
    one, two = go(*NONE), go(*NONE, "--count", "other")
    assert (two.values() - one.values()).tolist() == (OTHER - COUNT).tolist()


def weight(go):
    seen = go(*NONE).values()
    for column in ("weight", "price"):
        made = go("--weight", column, "--postprocess", "baseline")
        want = fp.allocate(np.maximum(seen, 0), [float(r[column]) for r in ROWS], "baseline")
        assert made.values("share") == pytest.approx(want, rel=1e-12)


def group(go):
    for column in ("group", "region"):
        made = go("--group", column, "--by-group", "--postprocess", "simplex")
        assert [r["group"] for r in made.rows] == [r[column] for r in ROWS]
        seen = go(*NONE).values()
        for g in {r[column] for r in ROWS}:
            mine = [r[column] == g for r in ROWS]
            assert made.values()[mine].sum() == pytest.approx(seen[mine].sum())  # the noisy sum of the group


def reads(go, *, file, content, words, without, rows=4):
    """A file that needs the option."""
    Path(file).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert len(go(*NONE, *words, file=file).rows) == rows
    done = go(*NONE, file=file, code=without)
    assert without or len(done.rows) != rows


SHEETS = [line.split(",") for line in TRUE.splitlines()]
NUMBERED = [SHEETS[0], *([float(c) if c.isdigit() else c for c in line] for line in SHEETS[1:])]
COMMAS = TRUE.replace(",", ";").replace("300;", "300,0;")
READING = {
    "--format": partial(reads, file="a.txt", content=TRUE.replace(",", "\t"), words=["--format", "tsv"], without=2),
    "--decimal": partial(reads, file="e.csv", content=COMMAS, words=["--decimal", ",", "--delimiter", "semicolon"], without=2),
    "--sheet": partial(reads, file="f.xlsx", content=xlsx(one=NUMBERED[:2], two=NUMBERED), words=["--sheet", "two"], without=2),
    "--header": partial(reads, file="g.xlsx", content=xlsx(one=[NUMBERED[0], *NUMBERED]), words=["--header", "2"], without=2),
    "--where": partial(reads, file="h.csv", content=TRUE, words=["--where", "group = n"], without=0, rows=2),
}  # fmt: skip


def delimiter(go):
    """Two marks could part these lines: the option says which one does."""
    Path("a.csv").write_text("id|count\n" + "".join(f"{r['id']},x|{r['count']}\n" for r in ROWS))
    assert [r["id"] for r in go(*NONE, "--delimiter", "pipe", file="a.csv").rows] == ["a,x", "b,x", "c,x", "d,x"]
    go(*NONE, "--delimiter", "comma", file="a.csv", code=2)


def drop_missing(go):
    """Rows of a release do not depend on the data: refused, whatever the file has."""
    assert "drops no row" in go("--drop-missing", code=2).said


def group_total(go):
    made = go("--group", "group", "--group-total", "t", "--total-source", "Yearbook", terms=PARTS)
    assert [made.values()[k : k + 2].sum() for k in (0, 2)] == pytest.approx([340, 620])
    Path("all.csv").write_text(TRUE.replace(",340", ",960").replace(",620", ",960").replace("group", "part"))
    whole = go("--group-total", "t", "--total-source", "Yearbook", terms=TOTAL, file="all.csv")  # no groups: one total
    assert whole.values().sum() == pytest.approx(960)
    assert whole.statement["postprocessing"][0]["by_group"] is False
    assert "nothing is exact" in go("--group", "group", "--group-total", "t", "--total-source", "s", code=2).said


def epsilon(go):
    for loss, scale in (("1/10", "10"), ("1/20", "20")):
        made = go(loss=("--epsilon", loss))
        assert (made.privacy["epsilon"], made.privacy["scale"], made.spent) == (loss, scale, loss)


def rho(go):
    for loss, sigma in (("1/50", 5.0), ("1/200", 10.0)):
        made = go(loss=("--rho", loss), terms=ZCDP)
        assert (made.privacy["rho"], made.privacy["mechanism"], made.spent) == (loss, "discrete-gaussian", loss)
        assert float(made.privacy["scale"]) == pytest.approx(sigma, rel=1e-9)


def mechanism(go):
    assert go("--mechanism", "discrete-laplace").privacy["mechanism"] == "discrete-laplace"
    go("--mechanism", "discrete-gaussian", code=2)


def entities_per_person(go):
    one, two = (go(*w).privacy for w in ([], ["--entities-per-person", 2]))
    said = [(p["entities_per_person"], p["sensitivity"]["value"], p["scale"]) for p in (one, two)]
    assert said == [(1, "1", "10"), (2, "2", "20")]


def levels(go, *, words, scales):
    """The nodes of the tree, and the noise of each level."""
    loss = () if "--level-sigma" in words else ("--epsilon", "1/10")
    made = go("--levels", LEVELS, *words, file="blocks.csv", loss=loss)
    assert len(made.rows) == 9
    assert {v["name"]: v["scale"] for v in made.privacy["levels"]} == scales


def exact(go):
    made = go("--levels", LEVELS, "--exact", "s", "--split", "0,1", file="blocks.csv", terms=TREE)
    sums = {r["id"]: float(r["count"]) for r in made.rows if len(r["id"]) == 1}
    assert sums == {"0": 171.0, "1": 621.0}
    assert go("--levels", LEVELS, "--split", "1/2,1/2", file="blocks.csv", terms=TREE).rows[0]["count"] != "171"


def postprocess(go):
    seen = go(*NONE).values()
    assert go("--postprocess", "nonnegative").values().tolist() == np.maximum(seen, 0).tolist()
    assert go().values() == pytest.approx(fp.project_simplex(seen, seen.sum()))
    assert go("--postprocess", "pos").values("share").sum() == pytest.approx(1)


def whole(go):
    words = ["--group", "group", "--by-group", "--weight", "weight", "--postprocess", "simplex"]
    one, two = (go(*words, *more, loss=("--epsilon", "1/100")) for more in ([], ["--round"]))
    assert (two.values() == np.floor(two.values())).all()
    assert np.abs(two.values() - one.values()).max() < 1
    assert two.values().sum() == pytest.approx(one.values().sum())
    assert json.dumps(two.statement["postprocessing"]) != json.dumps(one.statement["postprocessing"])


def total(go):
    made = go("--total", 960, "--total-source", "Yearbook", terms=TOTAL)
    assert made.values().sum() == pytest.approx(960)
    assert "960" in json.dumps(made.statement["postprocessing"])
    assert "not the one that was fixed" in go("--total", 961, terms=TOTAL, before=[first(go, TOTAL)], code=2).said


def first(go, terms):
    """A release before, which fixes the exact total of the ledger."""
    return ("release", "true.csv", "--epsilon", "1/100", "--exact-total", "--out", f"first{Released.made}")


def total_source(go):
    made = go("--total", 960, "--total-source", "Yearbook", terms=TOTAL)
    assert "Yearbook" in json.dumps(made.statement["unprotected"])
    assert "is the ledger's" in go("--total", 960, "--total-source", "elsewhere", terms=TOTAL, code=2).said


def exact_total(go):
    assert go("--exact-total", terms=TOTAL).values().sum() == pytest.approx(960)
    assert go(terms=TOTAL).values().sum() != 960


def by_group(go):
    made = go("--group", "group", "--by-group", "--exact-total", terms=PARTS)
    assert [made.values()[k : k + 2].sum() for k in (0, 2)] == pytest.approx([340, 620])
    assert made.statement["postprocessing"][0]["by_group"]
    assert not go("--group", "group").statement["postprocessing"][0]["by_group"]


def chosen_from(go):
    every, both, none = (
        go(*w).statement["parameters_chosen"]
        for w in (["--chosen-from", "policy"], ["--chosen-from", "loss=policy,rule=public-data"], [])
    )
    assert (set(every.values()), set(none.values())) == ({"policy"}, {"not stated"})
    assert both == {"loss": "policy", "rule": "public-data"}


def weak(go):
    many = [*PURE[:4], "--limit", "9", *PURE[6:]]
    assert "--accept-weak-protection" in go(loss=("--epsilon", "4"), terms=many, code=2).said
    assert go("--accept-weak-protection", loss=("--epsilon", "4"), terms=many).privacy["weak_protection"] is not None


def out(go):
    made = go("--out", "mine")
    assert {p.name for p in Path("mine").iterdir()} == set(FILES)
    assert not made.folder.exists()


def csv_safe(go):
    Path("f.csv").write_text(TRUE.replace("\na,", "\n=a,"))
    assert [go(*w, file="f.csv").rows[0]["id"] for w in ([], ["--csv-safe"])] == ["=a", "'=a"]


def again(go):
    for words, spent in (([], "1/10"), (["--again", "x"], "1/5")):
        before = [("release", "true.csv", "--epsilon", "1/10", "--out", f"before{Released.made}")]
        assert go(*words, before=before).spent == spent


def from_noisy(go):
    made = go(*NONE)
    key = json.loads(call("budget", "history", made.ledger, "--json", "-").stdout)["entries"][1]["key"]
    words = ["--from-noisy", key, "--ledger", made.ledger, "--postprocess", "nonnegative", "--out", "later"]
    assert call("release", *words).returncode == 0
    rows = list(csv.DictReader(io.StringIO(Path("later/table.csv").read_text())))
    assert [float(r["count"]) for r in rows] == np.maximum(made.values(), 0).tolist()
    assert made.spent == "1/10"


def plan(go):
    Path("p.toml").write_text(
        'epsilon = "1/10"\n[[table]]\nname = "one"\nfile = "true.csv"\n[[table]]\nname = "two"\nfile = "true.csv"\ncount = "other"\n'
    )
    made = go("--plan", "p.toml", "--out", "both", file=None, loss=())
    assert made.spent == "1/5"
    assert sorted(p.name for p in Path("both").iterdir()) == ["one", "two"]


def about(go):
    Path("a.toml").write_text('title = "Zqx of towns"\ncurator = "Office Zqy"\n')
    made = go("--about", "a.toml")
    text = (made.folder / "registry.yaml").read_text() + (made.folder / "dataset.jsonld").read_text()
    assert "Zqx of towns" in (made.folder / "dataset.jsonld").read_text()
    assert "Office Zqy" in text
    assert "Zq" not in (go().folder / "registry.yaml").read_text()
    Path("a.toml").write_text('titel = "x"\n')
    assert "'titel' is not known" in go("--about", "a.toml", code=2).said


def dry_run(go):
    made = go("--dry-run", "--out", "never")
    assert (made.spent, Path("never").exists()) == ("0", False)
    assert "would charge 1/10" in made.done.stdout


def self_test(go):
    """Asked in `release/test_noise.py`; here that it is asked for, and of how many draws."""
    seen = []
    go.place.setattr(sys.modules["fairpost.release.selftest"], "run", lambda draws: seen.append(draws) or [])
    assert call("release", "--self-test").returncode == 0
    assert call("release", "--self-test", "--draws", 20_000).returncode == 0
    assert seen == [200_000, 20_000]
    assert call("release", "--draws", 20_000).returncode == 2


def as_json(go):
    assert json.loads(go("--json", "-").done.stdout)["tables"][0]["charged"]
    assert go().done.stdout.startswith("charged 1/10")


RELEASE = READING | {
    "--ledger": ledger, "--id": ids, "--count": count, "--weight": weight, "--group": group, "--delimiter": delimiter,
    "--drop-missing": drop_missing,
    "--group-total": group_total, "--epsilon": epsilon, "--rho": rho, "--mechanism": mechanism,
    "--entities-per-person": entities_per_person,
    "--levels": partial(levels, words=["--split", "1/2,1/2"], scales={"s": "20", "block": "20"}),
    "--split": partial(levels, words=["--split", "1/5,4/5"], scales={"s": "50", "block": "12.5"}),
    "--level-sigma": partial(levels, words=["--level-sigma", "30,40", "--mechanism", "discrete-laplace"], scales={"s": "30", "block": "40"}),
    "--exact": exact, "--postprocess": postprocess, "--round": whole, "--total": total, "--total-source": total_source,
    "--exact-total": exact_total, "--by-group": by_group, "--chosen-from": chosen_from, "--accept-weak-protection": weak, "--out": out,
    "--csv-safe": csv_safe, "--again": again, "--from-noisy": from_noisy, "--plan": plan, "--about": about, "--dry-run": dry_run,
    "--self-test": self_test, "--draws": self_test, "--json": as_json,
}  # fmt: skip


# -- budget ------------------------------------------------------------------------------------------------------------


def terms_of(words):
    """A ledger of these terms, as `budget show` has it."""
    done = call("budget", "create", "made", *words)
    assert done.returncode == 0, done.stderr
    shown = json.loads(call("budget", "show", "made", "--json", "-").stdout)
    Path("made").unlink()
    return shown


def term(go, *, words, changed, key, values):
    """Two values of an option, and the key that says which it was."""
    seen = [terms_of(w) for w in (words, changed)]
    assert [shown[key] for shown in seen] == values


def replaced(words, option, value):
    at = words.index(option)
    return [*words[: at + 1], value, *words[at + 2 :]]


def invariants(go, *, words, refused):
    """What is exact is said; without the other words that it needs there is no ledger."""
    assert terms_of(words)["invariants"] is not None
    done = call("budget", "create", "none", *refused)
    assert done.returncode == 2, done.stdout
    assert not Path("none").exists()


def without(words, option, values=1):
    at = words.index(option)
    return [*words[:at], *words[at + 1 + values :]]


def smallest(go):
    assert call("budget", "create", "none", *replaced(PARTS, "--smallest-part", 3)).returncode == 2
    assert terms_of(PARTS)["invariants"] is not None


def limit_delta(go):
    shown = terms_of([*replaced(ZCDP, "--limit", "2"), "--limit-delta", "1e-6"])
    assert shown["limit_given"] == {"epsilon": "2", "delta": "1/1000000"}
    # rho promises epsilon = min over a > 1 of rho a + (log(1 / delta) - log a) / (a - 1) + log(1 - 1/a)  (Canonne, Kamath, Steinke 2020)
    rho_of, a = ratio(shown["limit"]), 1 + np.geomspace(1e-2, 1e3, 200_000)
    promised = np.min(rho_of * a + (np.log(1e6) - np.log(a)) / (a - 1) + np.log1p(-1 / a))
    assert 2 * (1 - 1e-4) <= promised <= 2 * (1 + 1e-8)
    assert shown["limit"] != terms_of(replaced(ZCDP, "--limit", "2"))["limit"]


def ratio(text):
    top, _, bottom = text.partition("/")
    return int(top) / int(bottom or 1)


def appended(go, *, words, terms, refused):
    """New parts, or one line that says what is missing."""
    assert call("budget", "create", "made", *terms).returncode == 0
    assert call("budget", "append", "made", *refused).returncode == 2
    done = call("budget", "append", "made", *words)
    assert done.returncode == 0, done.stderr
    assert "1 new parts" in done.stdout


ROWS_BY = ["--rows", "more.csv", "--exact-by", "group"]
NODES = ["--rows", "more_nodes.csv", "--levels", LEVELS, "--exact", "s"]


def said_as_json(go, *, verb):
    assert call("budget", "create", "made", *PURE).returncode == 0
    assert isinstance(json.loads(call("budget", verb, "made", "--json", "-").stdout), dict)
    assert not call("budget", verb, "made").stdout.startswith("{")


def rows_by_name(go):
    """--id of --rows: the names are ids there."""
    words = [w if w != "rows.csv" else "names.csv" for w in PARTS]
    assert call("budget", "create", "none", *words).returncode == 2
    assert terms_of([*words, "--id", "name"])["invariants"] is not None


def appended_by_name(go):
    words = [w if w != "rows.csv" else "names.csv" for w in PARTS]
    assert call("budget", "create", "made", *words, "--id", "name").returncode == 0
    Path("more_names.csv").write_text(columns_alone("name", "group") + "E,w\nF,w\n")
    given = ["budget", "append", "made", "--rows", "more_names.csv", "--exact-by", "group"]
    assert call(*given).returncode == 2
    assert call(*given, "--id", "name").returncode == 0


CREATE = {
    "--dataset": partial(term, words=PURE, changed=replaced(PURE, "--dataset", "Farms"), key="dataset", values=["Towns", "Farms"]),
    "--unit": partial(term, words=PURE, changed=replaced(PURE, "--unit", "cow"), key="unit", values=["person", "cow"]),
    "--neighbours": partial(term, words=PURE, changed=replaced(PURE, "--neighbours", "replace"), key="neighbours",
                            values=["add-remove", "replace"]),
    "--measure": partial(term, words=PURE, changed=ZCDP, key="measure", values=["pure", "zcdp"]),
    "--limit": partial(term, words=PURE, changed=replaced(PURE, "--limit", "1/3"), key="limit", values=["1", "1/3"]),
    "--limit-delta": limit_delta,
    "--other-ledgers": partial(term, words=PURE, changed=replaced(PURE, "--other-ledgers", "B"), key="other_ledgers", values=["none", "B"]),
    "--public": partial(term, words=PURE, changed=[*PURE, "--public", "zone"], key="public",
                        values=[["id", *PUBLIC[1::2]], ["id", *PUBLIC[1::2], "zone"]]),
    "--exact-total": partial(invariants, words=TOTAL, refused=without(TOTAL, "--exact-total", 0)),
    "--exact-by": partial(invariants, words=PARTS, refused=replaced(PARTS, "--exact-by", "region")),
    "--levels": partial(invariants, words=TREE, refused=without(TREE, "--levels")),
    "--exact": partial(invariants, words=TREE, refused=without(TREE, "--exact")),
    "--rows": partial(invariants, words=PARTS, refused=without(PARTS, "--rows")),
    "--exact-source": partial(invariants, words=PARTS, refused=without(PARTS, "--exact-source")),
    "--id": rows_by_name, "--smallest-part": smallest,
}  # fmt: skip
APPEND = {
    "--rows": partial(appended, words=ROWS_BY, terms=PARTS, refused=ROWS_BY[2:]),
    "--exact-by": partial(appended, words=ROWS_BY, terms=PARTS, refused=ROWS_BY[:2]),
    "--levels": partial(appended, words=NODES, terms=TREE, refused=without(NODES, "--levels")),
    "--exact": partial(appended, words=NODES, terms=TREE, refused=without(NODES, "--exact")),
    "--id": appended_by_name,
}
TABLE = {
    "release": RELEASE,
    "budget create": CREATE,
    "budget append": APPEND,
    "budget show": {"--json": partial(said_as_json, verb="show")},
    "budget history": {"--json": partial(said_as_json, verb="history")},
}
ELSEWHERE = {"audit", "plan", "sweep", "check", "project", "allocate", "paper", "demo", "explore", "run"}
"""Commands whose options have their table in `test_options.py` and, of `check`, in `results/test_check.py`."""


def commands():
    """Every command that click has, with its options."""
    for name in COMMANDS:
        made = main.get_command(click.Context(main), name)
        for sub, one in getattr(made, "commands", {"": made}).items():
            yield f"{name} {sub}".strip(), {p.opts[0] for p in one.params if isinstance(p, click.Option)} - {"--help"}


def test_every_option_has_an_entry():
    found = dict(commands())
    assert {name for name, options in found.items() if options} == set(TABLE) | ELSEWHERE
    assert {name: set(options) for name, options in TABLE.items()} == {name: found[name] for name in TABLE}


@pytest.mark.parametrize(("command", "option"), [(c, o) for c, table in TABLE.items() for o in table])
def test_an_option_matters(place, command, option):
    def go(*words, **given):
        return Released(place, *words, **given)

    go.place = place
    TABLE[command][option](go)
