"""What earlier versions left is read as it was: ledgers, kept noise, statements, byte for byte.

tests/support/files/before/1 and /2 were made by fairpost 0.1 and by the version before this one: two ledgers with their kept noise, and
the folders that they published.
"""

import json
import shutil
import sqlite3
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import fairpost as fp
from fairpost.errors import LedgerError, ParameterError, UnsupportedError
from fairpost.release import About, protocol, release_noisy
from fairpost.release import kept as keeping
from fairpost.release import ledger as store
from fairpost.release.chain import Entry, digest
from support.commands import call
from support.places import FILES
from support.releases import drawing

IDS = ["020102", "010101", "010102", "010201", "020101", "010202"]
X = [70, 0, 5, 10, 3, 41]
NAMES = ["Ashby", "Birk", "Corve", "Dunmere", "Elton", "=Fairfield"]
TOWNS = fp.Counts([2, 8, 15, 40, 120, 900], ids=NAMES, groups=list("aabbba"), weights=[1, 2, 3, 4, 5, 6])
BLOCKS = fp.Counts(X, ids=IDS)
FRAME = pl.DataFrame({"id": IDS, "count": X, "state": [i[:2] for i in IDS], "county": [i[2:4] for i in IDS]})
LEVELS = {
    "levels": {"state": 2, "county": 4, "block": 6},
    "rho": "1/5",
    "split": ["1/5", "2/5", "2/5"],
    "exact": "state",
}
ABOUT = About(title="Towns: a test", curator="Office of Towns", authors=("A. Clerk",))
EXACT = {"by_group": True, "total": "exact", "round": True, "chosen_from": "policy", "about": ABOUT}
SHARES = {"postprocess": "pos-threshold", "csv_safe": True, "chosen_from": {"loss": "public-data"}}
REQUESTS = {
    "groups": (TOWNS, {"epsilon": "1/10"}, EXACT),
    "groups-copy": (TOWNS, {"epsilon": "0.1"}, EXACT),
    "shares": (TOWNS, {"epsilon": "1/20", "again": "two"}, SHARES),
    "plain": (TOWNS, {"epsilon": "1/20", "again": "two"}, {"postprocess": "none"}),
    "levels": (BLOCKS, LEVELS, {"round": True}),
    "columns": (FRAME, {"levels": ["state", "county"], "sigmas": ["9"] * 3}, {"postprocess": "joint"}),
    "gaussian": (BLOCKS, {"rho": "1/200", "entities_per_person": 2}, {"postprocess": "simplex"}),
}  # fmt: skip
FLAT = ("groups", "groups-copy", "shares", "plain")


@pytest.fixture
def before(tmp_path, monkeypatch):
    """A copy of what a version left, owner-only again, which a checkout is not."""
    drawing(monkeypatch)
    monkeypatch.setattr(fp, "__version__", "0.1.0")  # a statement names the version that published it

    def copied(version):
        place = tmp_path / "before"
        shutil.copytree(FILES / "before" / version, place)
        for path in place.glob("*.ledger*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        return place, {name: fp.Ledger.open(place / f"{name}.ledger") for name in ("flat", "tree")}

    return copied


def book_of(books, name):
    return books["flat" if name in FLAT else "tree"]


@pytest.mark.parametrize("version", ["1", "2"])
def test_ledgers_of_before_verify_with_all_that_they_published(before, version):
    place, books = before(version)
    for name, folder in ((p.name, p) for p in place.iterdir() if (p / "statement.json").exists()):
        found = book_of(books, name).verify(published=[folder])
        assert not found.problems
        names = {note.partition(": is not compared, its digest")[0].rpartition("/")[2] for note in found.notes}
        assert names == ({"registry.yaml", "dataset.jsonld"} if version == "1" else set())
        edited = (folder / "table.csv").read_text()
        (folder / "table.csv").write_text(edited + "x")
        assert len(book_of(books, name).verify(published=[folder]).problems) == 1
    assert (books["flat"].spent, books["tree"].spent) == (
        Fraction(3, 20),
        {"1": Fraction(1, 5), "2": Fraction(4, 25)}[version] + Fraction(3, 81) + Fraction(1, 200),
    )
    assert [book.terms.old for book in books.values()] == [version == "1"] * 2
    if version == "1":
        counts, words, shape = REQUESTS["gaussian"]
        with pytest.raises(
            UnsupportedError, match=r"published exact numbers \(or its statement is not where it was put"
        ):
            fp.release(counts, books["tree"], **words, **shape)
        books["tree"].record("copy", "c" * 64, {"publication": ""})  # which that schema has not
        assert {e.kind for e in books["tree"].entries()} == {"open", "charge", "done"}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_of_before_is_the_same_request_and_publishes_the_same_bytes(before, tmp_path, name):
    place, books = before("2")
    book, (counts, words, shape) = book_of(books, name), REQUESTS[name]
    spent, old = book.spent, {p.name: p.read_bytes() for p in (place / name).iterdir()}
    if name == "columns":  # the variance of its noise is 81 now and was 80.99999999999997: other last digits
        with pytest.raises(LedgerError, match="was another version of fairpost at work"):
            fp.release(counts, book, **words, **shape, out=tmp_path / "again")
        assert (book.spent, (tmp_path / "again").exists()) == (spent, False)
        return
    again = fp.release(counts, book, **words, **shape, out=tmp_path / "again")
    assert not again.fresh
    made = [tmp_path / "again"]
    if "total" not in shape:
        release_noisy(again.key[:12], book, **shape, out=tmp_path / "noisy")
        made.append(tmp_path / "noisy")
    for folder in made:
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == old
    assert book.spent == spent
    assert not book.verify(published=[place / name, *made]).problems


def test_noise_that_was_kept_is_read(before):
    """What version 1 kept is what its unclipped, unrounded table says; from inside, because it is not published anew."""
    place, books = before("1")
    for name, column in (("plain", "count"), ("columns", "noisy_count")):
        book, folder = book_of(books, name), place / name
        seq = json.loads((folder / "statement.json").read_text())["budget"]["entry"]
        kept = protocol.kept_of(book, next(e.key for e in book.entries() if e.seq == seq))
        table = pl.read_csv(folder / "table.csv", schema_overrides={"id": pl.String})
        assert np.concatenate(kept.levels).tolist() == table[column].drop_nulls().to_list()


@pytest.mark.parametrize("version", ["1", "2"])
def test_statements_of_before_are_audited(before, version, tmp_path):
    place, _ = before(version)
    FRAME.with_columns(weight=1).write_csv(tmp_path / "blocks.csv")
    rows = zip(TOWNS.ids, TOWNS.values.astype(int), TOWNS.groups, TOWNS.weights, strict=True)
    (tmp_path / "towns.csv").write_text("id,count,group,weight\n" + "".join(",".join(map(str, r)) + "\n" for r in rows))
    seen = {}
    for name in (name for name in REQUESTS if (place / name).exists()):
        file, scale = ("towns.csv", "scale") if name in FLAT else ("blocks.csv", "sigma")
        words = ["--statement", place / name / "statement.json", "--runs", 100, "--json", "-"]
        done = call("audit", file, *words, cwd=tmp_path)
        assert done.returncode == 0, (name, done.stderr)
        data = json.loads(done.stdout)
        noise = data["mechanism"]
        spread = [v["sigma"] for v in noise["levels"]] if "levels" in noise else noise[scale]
        seen[name] = (noise["name"], data["results"][0]["postprocess"], spread)
    whole = version == "2"  # which had the level of states exact
    assert seen == {
        "groups": ("discrete-laplace", "simplex", 20.0),
        **({"groups-copy": ("discrete-laplace", "simplex", 20.0)} if whole else {}),
        "shares": ("discrete-laplace", "pos-threshold", 40.0),
        "plain": ("discrete-laplace", "none", 40.0),
        "levels": ("discrete-gaussian", "blue-down", pytest.approx([0, 0 if whole else 5, 12.5**0.5, 12.5**0.5])),
        "columns": ("discrete-gaussian", "joint", [0.0, 9.0, 9.0, 9.0]),
        "gaussian": ("discrete-gaussian", "simplex", 20.0),
    }


def test_a_statement_of_before_is_not_published_anew(before):
    """Version 2 says more than version 1 did; the published one stands."""
    _, books = before("1")
    key = next(e.key for e in books["tree"].entries() if e.kind == "charge")
    with pytest.raises((LedgerError, UnsupportedError)):
        release_noisy(key, books["tree"], round=True)


# ------------------------------------------------------------------------------------------------ ledgers of before


def earlier(path, unprotected, *, folder=True):
    """A ledger as version 0.1 made it, with one release whose statement lists these items."""
    out = path.parent / "out"
    out.mkdir()
    said = json.dumps({"unprotected": [{"what": what} for what in unprotected]})
    (out / "statement.json").write_text(said)
    body = {"dataset": "D", "unit": "person", "neighbours": "replace", "measure": "pure", "limit": "1"}
    first = Entry.after(
        None, "open", "0", body | {"limit_given": {"epsilon": "1"}, "secret": digest(b"s"), "time": "2026-07-01"}
    )
    request = {"name": "t", "again": ""}
    charge = Entry.after(
        first, "charge", "a" * 64, {"loss": "1/4", "spent": "1/4", "request": request, "time": "2026-07-01"}
    )
    done = {
        "of": charge.key,
        "statement": digest(said),
        "table": "",
        "folder": str(out) if folder else None,
        "time": "2026-07-01",
    }
    path.touch(0o600)
    with sqlite3.connect(path) as link:
        for statement in store.OLD_SCHEMA:
            link.execute(statement)
        link.execute("INSERT INTO secret (one, value) VALUES (1, ?)", (b"s",))
        for entry in (first, charge, Entry.after(charge, "done", "b", done)):
            store.insert(link, entry)
        link.execute(f"PRAGMA application_id = {store.APPLICATION}")
        link.execute(f"PRAGMA user_version = {store.OLD}")
    link.close()
    return fp.Ledger.open(path)


def test_a_ledger_of_before_is_read_and_takes_releases_where_nothing_was_exact(tmp_path, monkeypatch):
    drawing(monkeypatch)
    counts = fp.Counts([1, 0, 7], ids=["a", "b", "c"])
    noisy = ("the list of rows", "the weights of the rows")
    exact = (*noisy, "the exact total of the true counts")
    cases = {
        "noisy": (noisy, True),
        "exact": (exact, True),
        "typed": (("a total that is public elsewhere",), True),
        "gone": (noisy, False),
    }
    for name, (items, kept) in cases.items():
        (tmp_path / name).mkdir()
        book = earlier(tmp_path / name / "l", items, folder=kept)
        assert not book.verify().problems
        for verb in ("show", "history"):
            assert call("budget", verb, book.path).returncode == 0
        if name == "noisy":
            assert fp.release(counts, book, epsilon="1/10").fresh
            with pytest.raises(ParameterError, match="nothing is exact"):
                fp.release(counts, book, epsilon="1/10", total="exact")
            with pytest.raises(ParameterError, match="does not list as public"):
                fp.release(fp.Counts([1, 2], weights=[1, 2]), book, epsilon="1/10", postprocess="pos")
            continue
        with pytest.raises(UnsupportedError, match=r"entry 3 published exact numbers .* what is left of the budget"):
            fp.release(counts, book, epsilon="1/10")
        assert book.spent == book.terms.limit / 4


@pytest.mark.parametrize(
    ("exact", "by", "groups", "says"),
    [
        (None, None, True, "does not list as public"),
        ("s", "prefixes", False, "nothing is exact"),
        (None, "columns", False, "labels of 's', which the ledger does not list as public"),
    ],
)
def test_noise_that_an_earlier_version_kept_shows_no_column_and_no_level(tmp_path, exact, by, groups, says):
    """It was charged and not finished: no statement says what was exact in it, and no list what was public."""
    book = earlier(tmp_path / "l", ("the list of rows",))
    level = {
        "name": "id",
        "mechanism": "discrete-laplace",
        "scale": "9",
        "epsilon": "1/4",
        "rho": "1/32",
        "loss": "1/4",
        "rows": 3,
    }
    request = {"name": "t", "again": "", "levels": [level], "entities_per_person": 1, "neighbours": "replace"}
    counts, ids, groups = np.array([1, 2, 3]), ("a1", "a2", "b1"), ("x", "x", "y") if groups else None
    if by:
        request["hierarchy"] = {"names": ["s", "id"], "by": by, "lengths": [1, 2], "exact": exact}
    levels = (np.array([3, 3]), counts) if exact else (counts,)
    labels = [keeping.packed(ids), *([] if groups is None else [keeping.packed(groups)])]
    held = keeping.Kept("a" * 64, request, levels, (labels[0],), groups, None, bytes(32), protocol.software())
    book.folder.mkdir(mode=0o700)
    (book.folder / "t").touch(0o600)
    keeping.write(book.folder / "t", protocol.kept_path(book, held.key), held)
    with pytest.raises(ParameterError, match=says):
        release_noisy(held.key, book)
