"""The screen at 80 columns: no line is longer, no number is broken, and the groups that move most are shown."""

import re

import numpy as np
import pytest
from click.testing import CliRunner
from rich.cells import cell_len

import fairpost as fp
from fairpost.cli import main, screen
from support.six_districts import NOISE, X

NUMBER = re.compile(r"\d[\d,]*\.?\d*")


@pytest.mark.parametrize("command", ["audit", "plan", "allocate"])
def test_at_80_columns_no_line_is_longer_and_no_number_is_broken(tmp_path, command):
    names = [
        "The Unified School District of Somewhere Very Far Away From Everything Else",
        "Birch",
        "Cedar",
        "Dogwood",
        "Elm",
        "Fir",
    ]
    rows = zip(X.ids, names, (X.values * 1234.0).tolist(), X.groups, strict=True)
    table = tmp_path / "t.csv"
    table.write_text("id,name,count,group\n" + "".join(f"{i},{n},{v},{g}\n" for i, n, v, g in rows))
    words = {
        "audit": ["--scale", "900", "--max-loss", "1e6", "--max-relative-loss", "0.5", "--max-rmse", "1", "--frontier"],
        "plan": ["--max-loss", "1e6", "--max-relative-loss", "0.5", "--spreads", "1", "900", "--points", "3"],
        "allocate": ["--scale", "900", "--replicates", "2", "--by-group"],
    }[command]
    words = [
        command, str(table), "--label", "name", "--budget", "6.5e9", "--postprocess", "pos", "--postprocess",
        "baseline", *words,
    ]  # fmt: skip
    narrow, wide = (CliRunner().invoke(main, words, env={"COLUMNS": str(w)}) for w in (80, 400))
    assert narrow.exit_code == wide.exit_code == 0, narrow.output
    assert max(cell_len(line) for line in narrow.stdout.splitlines()) <= 80
    whole = set(NUMBER.findall(wide.stdout))
    assert set(NUMBER.findall(narrow.stdout)) <= whole
    assert any(name in narrow.stdout for name in names[1:])


def test_the_groups_on_the_screen_are_those_that_move_most():
    n = 16
    x = fp.Counts(np.arange(n) * 7.0, groups=[f"g{k // 2}" for k in range(n)])
    r = fp.audit(x, NOISE, "baseline", budget=1e6)
    grid = screen.groups(r, "$")
    assert grid.title == "baseline, the 5 of 8 groups that gain or lose most"
    sums = {g.group: abs(g.bias.value) for g in r.groups}
    assert [row[0] for row in grid.rows] == sorted(sums, key=lambda g: -sums[g])[:5]
    assert grid.rows[0][4].endswith(" %")
    assert screen.groups(fp.audit([1, 2], NOISE, "pos"), "$") is None
