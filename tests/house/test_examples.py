"""The gallery runs, as a reader would run it, and prints what the text around it says."""

import os
import re
import subprocess
import sys

import pytest

from support.places import ROOT

GALLERY = sorted((ROOT / "examples").glob("*.py"))
SAYS = {
    "county_release": [
        "simplex: alpha is 0.008588 households, Kalawao gains most",
        "adds up to 455,502",
        "confidential",
    ],
    "title_one_shares": [
        "baseline: district synthetic-02000 expects to lose",
        "the cost of privacy is $",
        "would give it $",
    ],
    "choosing_epsilon": [
        "simplex: epsilon 0.04147 keeps alpha at 1.00000",
        "this is the most noise",
        "Curve of simplex",
    ],
    "rule_of_your_own": ["suppress", "at least one", "interval", "Triangle noise"],
    "result_as_frame": ["bias_money", "bytes of JSON, read back: True"],
}


def test_the_gallery_is_short_and_linked():
    assert {e.stem for e in GALLERY} == set(SAYS)
    page = (ROOT / "docs" / "examples.md").read_text()
    for example in GALLERY:
        text = example.read_text()
        assert len(text.splitlines()) < 40, example.name
        assert text.startswith('"""'), example.name
        assert f"examples/{example.name}" in page
        assert text in page, f"docs/examples.md does not show {example.name} as it is"


@pytest.fixture(scope="module")
def said_by():
    """What an example printed, by its name."""
    return {}


@pytest.mark.parametrize("example", GALLERY, ids=lambda e: e.stem)
def test_an_example_runs_and_says_what_it_should(example, tmp_path, said_by):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, str(example)],
        capture_output=True, encoding="utf-8", cwd=tmp_path, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said_by[example.stem] = done.stdout
    for said in SAYS[example.stem]:
        assert said in done.stdout, done.stdout
    assert not list(tmp_path.iterdir())  # nothing is written


def test_the_money_of_the_districts_is_right(said_by):
    """pos costs less than baseline, and the interval holds the share that the true counts give."""
    from fairpost.datasets import synthetic_districts

    if "title_one_shares" not in said_by:
        pytest.skip("the example has not run")
    money = [int(m.replace(",", "")) for m in re.findall(r"\$([\d,]*\d)", said_by["title_one_shares"])]
    loss, cost, other_loss, other_cost, _, low, high = money
    assert other_loss < loss
    assert other_cost < cost
    districts = synthetic_districts(2000)
    due = districts.weights * districts.values
    assert low <= 6.5e9 * due.max() / due.sum() <= high
