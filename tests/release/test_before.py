"""What earlier versions left is read as it was: ledgers, kept noise, statements, byte for byte.

tests/support/files/before/1 and /2 were made by fairpost 0.1 and by the version before this one: two ledgers with their kept noise, and
the folders that they published.
"""

import json
import shutil
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import fairpost as fp
from fairpost.errors import LedgerError, UnsupportedError
from fairpost.release import About, protocol, release_noisy, selftest
from fairpost.release.statement import stated
from support.places import FILES

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
    monkeypatch.setattr(selftest, "demand", lambda *given: False)
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


@pytest.mark.parametrize("version", ["1", "2"])
def test_noise_that_was_kept_is_read(before, version):
    """Once more from each kept file: what the unclipped, unrounded table says is what was drawn then."""
    place, books = before(version)
    for name in ("plain", "columns"):
        book, folder = book_of(books, name), place / name
        seq = json.loads((folder / "statement.json").read_text())["budget"]["entry"]
        kept = protocol.kept_of(book, next(e.key for e in book.entries() if e.seq == seq))
        table = pl.read_csv(folder / "table.csv", schema_overrides={"id": pl.String})
        column = "count" if name == "plain" else "noisy_count"
        seen = table[column].drop_nulls().to_list()
        assert np.concatenate(kept.levels).tolist() == seen


@pytest.mark.parametrize("version", ["1", "2"])
def test_statements_of_before_are_read(before, version):
    place, _ = before(version)
    seen = {name: stated(place / name / "statement.json") for name in REQUESTS if (place / name).exists()}
    assert {name: (s.mechanism, s.postprocess, s.by_group, s.total, s.whole, s.safe) for name, s in seen.items()} == {
        "groups": ("discrete-laplace", "simplex", True, None, True, False),
        "shares": ("discrete-laplace", "pos-threshold", False, None, False, version == "2"),
        "plain": ("discrete-laplace", "none", False, None, False, False),
        "levels": ("discrete-gaussian", "blue-down", False, None if version == "1" else 129, True, False),
        "columns": ("discrete-gaussian", "joint", False, None, False, False),
        "gaussian": ("discrete-gaussian", "simplex", False, None, False, False),
    } | ({"groups-copy": ("discrete-laplace", "simplex", True, None, True, False)} if version == "2" else {})
    assert seen["levels"].levels == "state:2,county:4,block:6"
    assert seen["columns"].levels == "state,county"
    assert seen["columns"].level_sigma == "0,9,9,9"
    assert seen["gaussian"].sensitivity == 2.0
    assert seen["levels"].delta == 1e-10


def test_a_statement_of_before_is_not_published_anew(before):
    """Version 2 says more than version 1 did; the published one stands."""
    _, books = before("1")
    key = next(e.key for e in books["tree"].entries() if e.kind == "charge")
    with pytest.raises((LedgerError, UnsupportedError)):
        release_noisy(key, books["tree"], round=True)
