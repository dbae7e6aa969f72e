"""The protocol: charge, draw, keep, publish; what a crash leaves; what is published."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import jsonschema
import numpy as np
import polars as pl
import pytest
import yaml

import fairpost as fp
from fairpost.errors import (
    BudgetError,
    CountsError,
    FairpostError,
    InputError,
    LedgerError,
    ParameterError,
    UnfinishedError,
    UnsupportedError,
)
from fairpost.release import About, release_noisy, release_plan
from support.places import FILES as HERE
from support.places import ROOT, TESTS, TOOLS
from support.releases import (
    FILES,
    GROUPS,
    PARTS,
    SCHEMA,
    TOTAL,
    TOWNS,
    YEARBOOK,
    drawing,
    impatient,
    ledger,
    quick,
    released,
    with_selftest,
)

PUBLIC = fp.PublicTotal(1085, YEARBOOK)


def test_a_release_from_start_to_statement(tmp_path):
    book = ledger(tmp_path, **TOTAL, other_ledgers="none")
    done = fp.release(
        TOWNS,
        book,
        epsilon="0.1",
        postprocess="simplex",
        round=True,
        total=PUBLIC,
        chosen_from="policy",
        out=tmp_path / "o",
    )
    assert done.fresh
    assert repr(done) == "Release(rows=6, loss=1/10, entry=4)"
    assert done.table["count"].sum() == 1085
    assert done.table["count"].min() >= 0
    assert done.table["id"].to_list() == list(TOWNS.ids)
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == sorted(FILES)
    text = (tmp_path / "o" / "statement.json").read_text()
    assert json.loads(text) == done.statement
    about = done.statement["table"]
    data = (tmp_path / "o" / about["file"]).read_bytes()
    assert about["sha256"] == hashlib.sha256(data).hexdigest()
    assert (about["rows"], about["columns"]) == (6, data.partition(b"\n")[0].decode().strip().split(","))
    assert about["entities"].startswith("the list of rows is public")
    assert done.statement["budget"]["spent_after"] == "1/10"
    assert done.statement["privacy"]["scale"] == "20"
    assert float(done.statement["privacy"]["noise_standard_deviation"]) == pytest.approx(20 * 2**0.5, rel=1e-3)
    assert done.statement["privacy"]["relation"] == (
        "two data sets are neighbours if they differ in the records of one person and agree in every invariant of the ledger: "
        "the total of all rows"
    )
    assert done.statement["parameters_chosen"] == {"loss": "policy", "rule": "policy"}
    assert done.statement["budget"]["other_ledgers"] == "none"
    assert {"what": "a total that is public elsewhere", "value": "1085", "source": YEARBOOK} in done.statement[
        "unprotected"
    ]
    assert book.spent == Fraction(1, 10)
    assert not book.verify({"s": text}).problems
    assert not book.verify({"s": text}).notes
    assert pl.read_csv(tmp_path / "o" / "table.csv").equals(done.table)
    kept_file = next(book.folder.glob("*.noisy"))
    assert oct(kept_file.stat().st_mode)[-3:] == "600"


def test_the_same_request_never_draws_again(tmp_path):
    book, words = ledger(tmp_path, **TOTAL), {"epsilon": "0.1", "round": True, "total": PUBLIC}
    first = fp.release(TOWNS, book, out=tmp_path / "o", **words)
    for out in (tmp_path / "o", tmp_path / "elsewhere", None):
        again = fp.release(TOWNS, str(book.path), out=out, name="renamed", **words | {"epsilon": "1/10"})
        assert not again.fresh
        assert again.table.equals(first.table)
        assert again.statement == first.statement
    assert book.spent == Fraction(1, 10)
    assert (tmp_path / "elsewhere" / "statement.json").read_bytes() == (tmp_path / "o" / "statement.json").read_bytes()


def test_another_rule_on_the_same_noise_is_free(tmp_path):
    book = ledger(tmp_path)
    first = fp.release(TOWNS, book, epsilon="0.1", postprocess="none", out=tmp_path / "a")
    second = fp.release(TOWNS, book, epsilon="0.1", postprocess="nonnegative", out=tmp_path / "b")
    assert not second.fresh
    assert second.table["count"].to_list() == [max(y, 0) for y in first.table["count"]]
    third = release_noisy(first.key[:10], book, postprocess="pos", out=tmp_path / "c")
    assert third.table["share"].sum() == pytest.approx(1)
    assert book.spent == Fraction(1, 10)
    texts = {n: (tmp_path / n / "statement.json").read_text() for n in "abc"}
    assert not book.verify(texts).problems
    with pytest.raises(InputError, match="0 begin with"):
        release_noisy("0123456789abcdef", book)
    with pytest.raises(ParameterError, match="PublicTotal or None"):
        release_noisy(first.key, book, total="exact")
    with pytest.raises(InputError, match="hexadecimal"):
        release_noisy("../../etc", book)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"epsilon": 0.1}, "must be exact"),
        ({}, "one of epsilon and rho"),
        ({"epsilon": "1", "rho": "1"}, "one of epsilon and rho"),
        ({"rho": "1"}, "pure DP takes losses in epsilon"),
        ({"epsilon": "1", "mechanism": "discrete-gaussian"}, "kept by discrete-laplace"),
        ({"epsilon": "1", "mechanism": "laplace"}, "kept by discrete-laplace"),
        ({"epsilon": "0.1", "entities_per_person": 0}, "entities_per_person"),
        ({"epsilon": "0.1", "postprocess": "magic"}, "`postprocess` must be one of"),
        ({"epsilon": "0.1", "postprocess": "pos", "total": PUBLIC}, "keeps no total"),
        ({"epsilon": "0.1", "postprocess": "sum", "round": True}, "rounding"),
        ({"epsilon": "0.1", "total": 1085}, "a PublicTotal, or"),
        ({"epsilon": "0.1", "total": "exact"}, "nothing is exact"),
        ({"epsilon": "0.1", "total": PUBLIC}, "nothing is exact"),
        ({"epsilon": "0.1", "by_group": True}, "has none"),
        ({"epsilon": "0.1", "chosen_from": "hearsay"}, "`chosen_from`"),
        ({"epsilon": "0.1", "chosen_from": {"colour": "policy"}}, "is about loss, rule, levels, split, partition"),
        ({"epsilon": "1e-20"}, r"at most 2\^40"),
    ],
)
def test_rules_are_checked_before_anything_is_charged(tmp_path, words, says):
    book = ledger(tmp_path)
    with pytest.raises(ParameterError, match=says):
        fp.release(TOWNS, book, **words)
    assert book.spent == 0


def test_a_public_total_is_whole_and_its_source_a_text():
    for value, source in ((1, ""), (1, 7), (1.5, "s"), (1.0, "s"), (-1, "s"), ("x", "s"), (2**60, "s"), (True, "s")):
        with pytest.raises(ParameterError):
            fp.PublicTotal(value, source)


def test_totals_by_group(tmp_path):
    towns = fp.Counts(TOWNS.values, ids=TOWNS.ids, groups=GROUPS)
    book = ledger(tmp_path, **PARTS)
    total = fp.PublicTotal({"a": 910, "b": 175}, YEARBOOK)
    done = fp.release(towns, book, epsilon="0.1", by_group=True, total=total, round=True)
    assert dict(done.table.group_by("group").agg(pl.col("count").sum()).iter_rows()) == {"a": 910, "b": 175}
    assert [u["what"] for u in done.statement["unprotected"][1:]] == [
        "the group of the rows (group)",
        "a total that is public elsewhere, group a",
        "a total that is public elsewhere, group b",
    ]
    again = release_noisy(done.key, book, by_group=True, total=total, round=True)
    assert again.table.equals(done.table)
    other = fp.release(towns, book, epsilon="0.1", by_group=True)  # each group keeps its noisy sum
    raw = fp.release(towns, book, epsilon="0.1", postprocess="none")
    sums = [dict(t.table.group_by("group").agg(pl.col("count").sum()).iter_rows()) for t in (other, raw)]
    assert sums[0] == pytest.approx({g: max(s, 0) for g, s in sums[1].items()})


def test_several_tables_are_charged_together_or_not_at_all(tmp_path):
    (tmp_path / "t.csv").write_text("id,count\nA,5\nB,70\n")
    (tmp_path / "u.csv").write_text("id,count\nC,50\nD,7\n")
    tables = [{"name": n, "file": tmp_path / f"{n}.csv", "epsilon": "1/10"} for n in "tu"]
    book = ledger(tmp_path, limit="3/20")
    with pytest.raises(BudgetError, match="asked 1/5"):
        release_plan(tables, book, tmp_path / "o")
    assert book.spent == 0
    tables[1]["epsilon"] = "1/20"
    done = release_plan(tables, book, tmp_path / "o")
    assert [d.fresh for d in done] == [True, True]
    assert book.spent == Fraction(3, 20)
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == ["t", "u"]
    with pytest.raises(ParameterError, match="two are the same"):
        release_plan([tables[0], {**tables[0], "name": "copy"}], book, tmp_path / "p")
    with pytest.raises(ParameterError, match="'epsilom'"):
        release_plan([{"name": "t", "file": tmp_path / "t.csv", "epsilom": "1"}], book, tmp_path / "p")


# ------------------------------------------------------------------------------------------------ seals


def edited(folder, name, old, new):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))


def forged(folder):
    """Another table, and a statement that gives its digest."""
    before = hashlib.sha256((folder / "table.csv").read_bytes()).hexdigest()
    edited(folder, "table.csv", "Birk,", "Birk,1")
    edited(folder, "statement.json", before, hashlib.sha256((folder / "table.csv").read_bytes()).hexdigest())


def mixed(folder):
    """The statement of this release beside the files of another one."""
    for name in set(FILES) - {"statement.json"}:
        (folder / name).write_bytes((folder.parent / "other" / name).read_bytes())


TAMPERED = {
    "a count": (lambda o: edited(o, "table.csv", "Birk,", "Birk,1"), ["table.csv"]),
    "a count and its digest": (forged, ["table.csv", "statement.json"]),
    "the promise": (lambda o: edited(o, "statement.json", '"epsilon": "1/10"', '"epsilon": "1/99"'), ["statement.json"]),
    "no statement": (lambda o: (o / "statement.json").write_bytes(b"\xff[" * 9), ["statement.json"]),
    "a deep statement": (lambda o: (o / "statement.json").write_text("[" * 99_999), ["statement.json"]),
    "an endless statement": (lambda o: edited(o, "statement.json", '"entry": 2', '"entry": Infinity'), ["statement.json"]),
    "the record": (lambda o: edited(o, "registry.yaml", "Towns", "Villages"), ["registry.yaml"]),
    "the description": (lambda o: edited(o, "dataset.jsonld", "Towns", "Villages"), ["dataset.jsonld"]),
    "files of another release": (mixed, ["table.csv", "registry.yaml", "dataset.jsonld"]),
    **{f"no {name}": (lambda o, name=name: (o / name).unlink(), [name]) for name in FILES},
}  # fmt: skip


@pytest.mark.parametrize("how", TAMPERED)
def test_a_release_is_verified_as_a_whole(tmp_path, how):
    """Each file that was changed or is missing is named, and no other."""
    book, place = ledger(tmp_path), tmp_path / "o"
    fp.release(TOWNS, book, epsilon="0.1", round=True, out=place)
    fp.release(TOWNS, book, epsilon="0.05", round=True, out=tmp_path / "other")
    tamper, named = TAMPERED[how]
    places = [place, tmp_path / "other"]
    assert not book.verify(published=places).problems + book.verify(published=places).notes
    tamper(place)
    assert [p.partition(":")[0] for p in book.verify(published=places).problems] == [str(place / n) for n in named]


def test_a_statement_is_verified_with_the_table_beside_it(tmp_path):
    book, place = ledger(tmp_path), tmp_path / "o"
    fp.release(TOWNS, book, epsilon="0.1", out=place)
    path = place / "statement.json"
    assert not book.verify(published=[path]).problems
    (place / "notes.txt").touch()
    assert book.verify(published=[place]).notes == [f"{place / 'notes.txt'}: is no file of the release"]
    edited(place, "table.csv", "Birk,", "Birk,1")
    (problem,) = book.verify(published=[path]).problems
    assert problem == f"{place / 'table.csv'}: must be as it was published (entry 3), and was changed"
    (tmp_path / "lone.json").write_bytes(path.read_bytes())
    assert not book.verify(published=[tmp_path / "lone.json"]).problems
    with pytest.raises(InputError, match=r"nowhere: cannot be read"):
        book.verify(published=[tmp_path / "nowhere"])


def test_every_place_of_a_release_is_in_the_ledger_once(tmp_path):
    book = ledger(tmp_path)
    for name in ("a", "b", "a", "b", "c"):
        fp.release(TOWNS, book, epsilon="0.1", out=tmp_path / name)
    fp.release(TOWNS, book, epsilon="0.1", postprocess="none", out=tmp_path / "none")
    found = book.entries()[1:]
    assert [e.kind for e in found] == ["charge", "done", "copy", "copy", "done"]
    assert [e.body["folder"] for e in found[1:]] == [str(tmp_path / n) for n in ("a", "b", "c", "none")]
    assert {e.body["publication"] for e in found[2:4]} == {found[1].key}
    for entry in found[1:]:
        written = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in Path(entry.body["folder"]).iterdir()}
        assert entry.body["files"] == written
        assert entry.body["of"] == found[0].key
    assert not book.verify(published=[tmp_path / n for n in ("a", "b", "c", "none")]).problems


# ------------------------------------------------------------------------------------------------ crashes

CRASH = """
import os
import numpy as np
from pathlib import Path
from fairpost.release import kept, protocol, publish, selftest
from fairpost.release.ledger import Ledger
from support.releases import quick
import torture

selftest.demand = lambda *given: False
drawn = []
def drawing(law, n):
    drawn.append(law)
    Path({folder!r}, "drawn").open("a").write("x")
    if len(drawn) == {die}:
        os._exit(9)
    return quick(law, n)
def before(owner, name):
    setattr(owner, name, lambda *a, **k: os._exit(9))
def after(owner, name):
    was = getattr(owner, name)
    def call(*a, **k):
        was(*a, **k)
        os._exit(9)
    setattr(owner, name, call)
{point}
book = Ledger.open({book!r})
job = torture.{make}(book, np.array([0, 3, 70, 8]), "1/10", Path({folder!r}, "o"))
done = protocol.run(book, [job], sampler=drawing)[0]
print(done.fresh, done.statement["table"]["sha256"])
"""
POINTS = {
    "before the charge": ("before(Ledger, 'charge')", 0, "unused"),
    "after the charge": ("after(Ledger, 'charge')", 0, "lost"),
    "in the last draw": ("", "last", "lost"),
    "after the draw": ("before(kept, 'write')", 0, "lost"),
    "before the rename of the noise": ("before(Path, 'rename')", 0, "lost"),
    "after the noise is kept": ("after(kept, 'write')", 0, "kept"),
    "inside the publication": ("publish.os = type('o', (), dict(vars(os), fsync=lambda fd: os._exit(9)))", 0, "kept"),
    "after the publication": ("before(Ledger, 'record')", 0, "kept"),
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(("make", "levels"), [("request_of", 1), ("levels_of", 3)])
def test_a_crash_wastes_at_most_one_charge_and_never_draws_twice(tmp_path, make, levels, point, forks):
    book = ledger(tmp_path)
    (patch, die, fate), marks = POINTS[point], tmp_path / "drawn"
    words = {"folder": str(tmp_path), "book": str(book.path), "make": make}

    def run(patch="", die=0):
        return forks.code(CRASH.format(point=patch, die=die, **words))

    def drawn():
        return len(marks.read_text()) if marks.exists() else 0

    crashed = run(patch, levels if die == "last" else die)
    assert crashed.returncode == 9, crashed.stderr
    many = drawn()
    assert many == (0 if point.endswith("the charge") else levels)
    assert book.spent == (0 if fate == "unused" else Fraction(1, 10))
    assert not book.verify().problems
    assert (tmp_path / "o").exists() == (point == "after the publication")
    second = run()
    if fate == "lost":
        assert "UnfinishedError" in second.stderr
        assert "never drawn again" in second.stderr
        assert not (tmp_path / "o").exists()
        assert not list(book.folder.glob("*.noisy"))
    else:
        assert second.returncode == 0, second.stderr
        assert second.stdout.startswith("True" if fate == "unused" else "False")
        text = (tmp_path / "o" / "statement.json").read_text()
        assert not book.verify({"s": text}).problems + book.verify().notes
        assert run().stdout.split()[1] == second.stdout.split()[1]
    assert book.spent == Fraction(1, 10)
    assert drawn() == many + levels * (fate == "unused")
    assert not list(book.folder.glob(".*.tmp")) + list(book.folder.glob("*.lock")) + list(tmp_path.glob(".o*"))


TREE = {"levels": {"place": 1, "leaf": 2}, "epsilon": "1/10", "split": ["1/4", "1/4", "1/2"]}


@pytest.mark.parametrize("words", [{"epsilon": "1/10"}, TREE], ids=["table", "levels"])
def test_a_sampler_that_fails_loses_the_charge_once_and_says_no_number(tmp_path, words):
    book, x = ledger(tmp_path, ("discrete-laplace", 40.0)), fp.Counts([0, 3, 70, 8], ids=["a1", "a2", "b1", "b2"])

    def fails(law, n):
        if n > 2:
            raise ValueError("7391846")
        return quick(law, n)

    with pytest.raises(UnfinishedError, match=r"noise is lost \(ValueError\)"):
        released(book, x, sampler=fails, **words)
    with pytest.raises(UnfinishedError, match="never drawn again"):
        released(book, x, **words)
    assert book.spent == Fraction(1, 10)


def test_a_signal_waits_until_the_noise_is_kept_and_a_second_one_does_not(tmp_path):
    book, heard = ledger(tmp_path), []

    def told(times):
        def draw(law, n):
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGTERM)
            return quick(law, n)

        return draw

    with pytest.raises(UnfinishedError, match=r"stopped by SIGTERM .* the noise is kept"):
        released(book, sampler=told(1), say=heard.append, epsilon="1/10", out=tmp_path / "o")
    assert "once more stops now" in heard[0]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert not released(book, epsilon="1/10", out=tmp_path / "o").fresh
    assert book.spent == Fraction(1, 10)
    with pytest.raises(UnfinishedError, match=r"noise is lost \(stopped by SIGTERM\)"):
        released(book, sampler=told(2), epsilon="1/5")
    with pytest.raises(UnfinishedError, match="never drawn again"):
        released(book, epsilon="1/5")


def test_what_is_charged_and_cannot_be_published_is_unfinished(tmp_path):
    book = ledger(tmp_path)

    def meddle(law, n):
        (tmp_path / "o" / "t").mkdir()
        (tmp_path / "o" / "t" / "x").touch()
        return quick(law, n)

    with pytest.raises(UnfinishedError, match=r"entry 2 is charged and its noise is kept, but .* new, empty"):
        released(book, sampler=meddle, epsilon="1/10", out=tmp_path / "o")
    assert not released(book, epsilon="1/10", out=tmp_path / "p").fresh
    assert book.spent == Fraction(1, 10)


@pytest.mark.long
def test_the_storm_in_small(tmp_path):
    """`make torture` in little: 16 processes, killed at random, ledger and protocol, a full disk, tampering."""
    command = [sys.executable, str(TOOLS / "torture.py"), "--folder", str(tmp_path)]
    for words in (
        ["--attempts", "50", "--kills", "8", "--pause", "0.02", "ledger", "protocol", "levels"],
        ["--ledgers", "15", "disk", "tamper", "exact"],
    ):
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "all hold" in done.stdout


# ------------------------------------------------------------------------------------------------ places and files


def test_outputs_have_a_place_of_their_own(tmp_path):
    book = ledger(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file").touch()
    for out, says in (("full", "new or empty"), ("file", "must be a folder"), ("no/where", "must exist")):
        with pytest.raises(InputError, match=says):
            fp.release(TOWNS, book, epsilon="0.1", out=tmp_path / out)
    assert book.spent == 0
    (tmp_path / "empty").mkdir()
    fp.release(TOWNS, book, epsilon="0.1", out=tmp_path / "empty")
    (tmp_path / "empty" / "table.csv").write_text("other")
    with pytest.raises(InputError, match=r"table\.csv is not its"):
        fp.release(TOWNS, book, epsilon="0.1", out=tmp_path / "empty")


def test_a_damaged_kept_file_is_found(tmp_path):
    book = ledger(tmp_path)
    done = fp.release(TOWNS, book, epsilon="0.1")
    path = book.folder / f"{done.key}.noisy"
    good = path.read_bytes()
    fewer = good.replace(b'"rows":[6]', b'"rows":[5]')  # the header is not in the digest, but it must fit
    for bad in (good[:-1], good[:-9] + b"\0" + good[-8:], good.replace(b"fairpost", b"fairpast", 1), fewer, b""):
        path.write_bytes(bad)
        with pytest.raises(LedgerError, match="kept noise must be whole"):
            fp.release(TOWNS, book, epsilon="0.1")
    path.write_bytes(good)
    assert fp.release(TOWNS, book, epsilon="0.1").table.equals(done.table)


def test_counts_must_be_whole_and_are_not_told(tmp_path):
    book = ledger(tmp_path)
    for counts, says in (([1, 2.25], "row 2: every count must be a whole number"), ([1, 2.0**53], r"below 2\^52")):
        with pytest.raises(CountsError, match=says) as refused:
            fp.release(fp.Counts(counts), book, epsilon="0.1")
        assert "2.25" not in str(refused.value)
    assert book.spent == 0


def test_dask_is_refused_as_a_source_and_as_a_place(tmp_path, monkeypatch):
    """Inside a worker `get_worker` answers; elsewhere it raises, and nothing is refused."""
    book = ledger(tmp_path)
    for home in ("dask.dataframe.core", "distributed.client", "dask_expr._collection"):
        with pytest.raises(UnsupportedError, match="Dask is refused"):
            fp.release(type("Frame", (), {"__module__": home})(), book, epsilon="0.1")

    class Module:
        inside = False

        def get_worker(self):
            if self.inside:
                return self
            raise ValueError("no worker found")

    monkeypatch.setitem(sys.modules, "distributed", there := Module())
    assert fp.release(TOWNS, book, epsilon="0.1").fresh
    there.inside = True
    with pytest.raises(UnsupportedError, match="Dask is refused"):
        fp.release(TOWNS, book, epsilon="0.1")
    assert book.spent == Fraction(1, 10)


# ------------------------------------------------------------------------------------------------ what is published

REGISTRY = yaml.safe_load((HERE / "registry_schema.yaml").read_text())


ABOUT = About(title="Towns: a test", curator="Office of Towns", region="Nowhere", authors=("A. Clerk",), license="CC0")
BOTH = {"public": ["group", "weight"]}
KINDS = {
    "pure": (TOTAL, {"epsilon": "1/10", "round": True, "total": PUBLIC, "chosen_from": "these-data"}),
    "zcdp": ({"measure": "zcdp", "limit_delta": "1e-10"}, {"rho": "1/200", "postprocess": "simplex-threshold"}),
    "groups": (BOTH, {"epsilon": "1/10", "by_group": True}),
    "exact": (TOTAL, {"epsilon": "1/10", "total": "exact", "round": True}),
    "share": (BOTH, {"epsilon": "1/10", "postprocess": "pos-threshold"}),
}


@pytest.mark.parametrize("case", KINDS)
def test_the_statement_and_the_registry_record_keep_their_schemas(tmp_path, case):
    terms, words = KINDS[case]
    book, towns = ledger(tmp_path, ("discrete-gaussian", 10.0), **terms), TOWNS
    if terms is BOTH:
        towns = fp.Counts(TOWNS.values, ids=TOWNS.ids, groups=list("aabbba"), weights=[1, 2, 3, 4, 5, 6])
    done = fp.release(towns, book, out=tmp_path / "o", about=ABOUT, **words)
    checker = jsonschema.Draft202012Validator(SCHEMA)
    checker.check_schema(SCHEMA)
    checker.validate(done.statement)
    for path in (
        "table.sha256",
        "privacy.scale",
        "budget.hash",
        "unprotected",
        "privacy.more",
        "parameters_chosen.loss",
    ):
        broken = json.loads(json.dumps(done.statement))
        *way, last = path.split(".")
        inner = broken
        for step in way:
            inner = inner[step]
        inner[last] = 7
        assert not checker.is_valid(broken), path
    record = yaml.safe_load((tmp_path / "o" / "registry.yaml").read_text())
    jsonschema.Draft7Validator(REGISTRY, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER).validate(record)
    assert record["deployment"]["basic"]["data_curators"] == ["Office of Towns"]
    loss = (
        {"epsilon": pytest.approx(0.585, abs=0.1), "delta": 1e-10, "rho": 0.005} if case == "zcdp" else {"epsilon": 0.1}
    )
    assert record["deployment"]["privacy_loss"]["privacy_parameters"] == loss
    linked = json.loads((tmp_path / "o" / "dataset.jsonld").read_text())
    assert (linked["@type"], linked["measurementTechnique"]) == ("Dataset", "statement.json")
    assert linked["distribution"][0]["sha256"] == done.statement["table"]["sha256"]


def test_the_published_schema_is_that_of_the_type(request):
    """From inside: the type has no other door."""
    from fairpost.release.statement import schema

    docs = ROOT / "docs" / "statement.schema.json"
    made = json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
    if request.config.getoption("--update"):
        docs.write_text(made, encoding="utf-8")
    assert docs.read_text(encoding="utf-8") == made


def test_rounding_is_drawn_with_the_noise_kept_with_it_and_without_bias(tmp_path, monkeypatch):
    """40 releases of the same noisy counts: each is a coin between two neighbours, sd at most 1/2, so 5 sigma is 0.4."""
    moved = np.array([3, -9, 1, 0, 7, -2])
    drawing(monkeypatch, add=lambda x, law, sampler: x + moved)
    book = ledger(tmp_path, limit="9")
    made = [fp.release(TOWNS, book, epsilon="1/10", round=True, again=str(k)) for k in range(40)]
    rounded = np.array([done.table["count"].to_list() for done in made])
    exact = fp.project_simplex(TOWNS.values + moved, 1085)
    assert (rounded.sum(axis=1) == 1085).all()
    assert np.abs(rounded - exact).max() < 1
    assert np.abs(rounded.mean(axis=0) - exact).max() < 0.4
    assert len(np.unique(rounded, axis=0)) > 3
    assert release_noisy(made[0].key, book, round=True).table.equals(made[0].table)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks the system which descriptors are open")
def test_a_lock_leaves_no_descriptor_open(tmp_path, monkeypatch):
    """Had, taken by another, waited for in vain, and found under another file's name. From inside: a process lives on after it."""
    from fairpost.release import guard

    path, opened = tmp_path / "x.lock", lambda: len(list(Path("/proc/self/fd").iterdir()))
    before = opened()
    with guard.locked(path) as had:
        assert had
        held = opened()
        assert held == before + 1
        with guard.locked(path, wait=False) as second:
            assert not second
        assert opened() == held
        impatient(monkeypatch, 0.02)
        with pytest.raises(fp.FairpostError, match="is at work on the same request"), guard.locked(path):
            pass
        assert opened() == held
    answers = iter([False, True])
    monkeypatch.setattr(guard, "_same", lambda fd, path: next(answers))
    with guard.locked(path):
        assert opened() == before + 1
    assert opened() == before


def test_whoever_waits_for_a_lock_ends_with_one_line_that_names_the_holder(tmp_path, monkeypatch, start):
    """Another process is at its self-test of the same request and does not let go; a dead one holds nothing."""
    book = ledger(tmp_path)
    code = (
        "import time; from support.releases import TOWNS, released\n"
        "def slow(law, n):\n    print('held', flush=True)\n    time.sleep(60)\n"
        f"released({str(book.path)!r}, sampler=slow, epsilon='1/7')\n"
    )
    paths = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{TESTS}"}
    holder = start([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=paths)
    assert holder.stdout.readline() == "held\n"
    impatient(monkeypatch, 1.5)
    heard = []
    with pytest.raises(FairpostError, match=f"process {holder.pid} is at work on the same request") as told:
        released(book, epsilon="1/7", say=heard.append)
    assert "\n" not in str(told.value)
    assert heard == [f"waits for process {holder.pid}, which is at work on the same request"]
    assert book.spent == 0
    holder.kill()
    holder.wait(10)
    assert released(with_selftest(book, ("discrete-laplace", 7.0)), epsilon="1/7").fresh
    assert not list(book.folder.glob("*.lock"))
