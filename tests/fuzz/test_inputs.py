"""A short, seeded part of `make attack`."""

import math
import os
from pathlib import Path

import pytest

from support.places import with_tools

with_tools()


@pytest.fixture
def attacked(tmp_path, monkeypatch):
    import attack

    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return attack


@pytest.mark.parametrize(
    ("name", "cases"),
    [("text files", 150), ("binary files", 12), ("workbooks", 6), ("checkpoints", 40), ("option sets", 16)],
)
def test_nothing_breaks(attacked, name, cases):
    counts, bad = attacked.attack(name, 11, 0, cases, math.inf)  # kernels may have to be compiled first
    assert bad == []
    assert counts["cases"] == cases
    assert counts["exit 2"] > cases / 3


@pytest.mark.parametrize(("name", "cases"), [("laws", 60), ("maps", 25), ("statements", 60), ("plans", 55)])
def test_a_document_is_read_or_refused_in_one_line(attacked, name, cases):
    counts, bad = attacked.attack(name, 11, 0, cases, math.inf)
    assert bad == []
    assert counts["read"] >= cases / 3
    assert counts["exit 2"] >= cases / 6


def test_what_is_wrong_is_seen(attacked):
    """Each kind of violation, made by hand."""
    Path("in.csv").write_text("id,count\na,1\n")
    before = {"in.csv": Path("in.csv").read_bytes()}
    words = ["audit", "in.csv", "--json", "out.json"]
    judged = attacked.judged
    assert judged(words, 2, "fairpost: no\n", before) == ""
    assert "ended with" in judged(words, "Traceback ...", "", before)
    assert "2 lines" in judged(words, 2, "one\ntwo\n", before)
    assert "stderr" in judged(words, 0, "RuntimeWarning: x", before)
    Path("out.json").write_text("{}\n")
    assert judged(words, 0, "", before) == ""
    assert "left behind" in judged(words, 2, "fairpost: no\n", before)
    unmet = ["plan", *words[1:]]  # the curves are written, and no noise meets the target
    assert judged(unmet, 3, "wrote out.json\n", before) == ""
    assert "left behind" in judged(unmet, 3, "fairpost: no\n", before)
    assert "left behind" in judged(words, 3, "wrote out.json\n", before)
    Path("out.json").write_text("{")
    assert "no whole output" in judged(unmet, 3, "wrote out.json\n", before)
    assert "no whole output" in judged(words, 0, "", before)
    os.unlink("out.json")
    Path(".fairpost-x").touch()
    assert "left behind" in judged(["audit", "in.csv"], 0, "", before)
    os.unlink(".fairpost-x")
    Path("in.csv").write_text("else")
    assert "changed" in judged(words, 2, "fairpost: no\n", before)
