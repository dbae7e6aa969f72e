"""Make tests/cases: every value from an oracle of tests/support/oracles, with fairpost refused to the import system.

    python tests/support/make_cases.py            what is not in tests/cases yet (safe to end and to start again)
    python tests/support/make_cases.py --check    a drawn tenth anew with other seeds, compared within what both are known to
    python tests/support/make_cases.py --only NAME    some rows anew, whose names hold NAME
    python tests/support/make_cases.py --loose 3e-3   with ten times the points what is known worse than this

Rows whose file is not on this machine (FAIRPOST_DATA) are left as they are. One row takes from milliseconds to half a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


class Refuses:
    """A finder that refuses the package under test: an oracle that used it would be no oracle."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """None for everything else."""
        if name.partition(".")[0] == "fairpost":
            raise ImportError("the makers of cases run without fairpost")


if __name__ == "__main__":
    sys.meta_path.insert(0, Refuses())
    assert not any(name.partition(".")[0] == "fairpost" for name in sys.modules)

import numpy as np  # noqa: E402

from support.data import Missing  # noqa: E402
from support.draws import labels, numbers  # noqa: E402
from support.laws import Law, best_threshold  # noqa: E402
from support.oracles import Found  # noqa: E402
from support.oracles.closed import alone, at_risk, only_one_at_risk, shifted, two  # noqa: E402
from support.oracles.conditional import either_sign, simulated  # noqa: E402
from support.oracles.lattice import by_directions, enumerated  # noqa: E402
from support.oracles.transform import baseline  # noqa: E402
from support.questions import questions  # noqa: E402
from support.rules import SHARES, truth_of  # noqa: E402

FOLDER = ROOT / "cases"
FEW = 12
"""So many entities have all their biases in the table; of longer lists some are named."""
COMBINATIONS, TINY = 1e6, 1e-16
"""So many combinations of noises are listed, of any number of entities, and masses above this."""
WORK, EFFORTS, WANTED = 6e5, (1, 3), 1e-3
"""Entities times points of a simulation; how much more it takes, with fresh seeds, until alpha is known to this part of itself."""


def file_of(q: dict[str, Any]) -> Path:
    """One file for each rule."""
    return FOLDER / f"{q['rule']}.jsonl"


def threshold_of(q: dict[str, Any], law: Law) -> tuple[float, float] | None:
    """As given (null: a jump), else the best for the noise; None for rules without one."""
    if not q["rule"].endswith("threshold"):
        return None
    if "threshold" not in q:
        return best_threshold(law)
    level, steep = q["threshold"]
    return level, np.inf if steep is None else steep


def group_of(q: dict[str, Any], x: np.ndarray, a: np.ndarray, law: Law, total: float, seed: int, more: float) -> Found:
    """The oracle that knows one group best."""
    rule, n, threshold = q["rule"], x.size, threshold_of(q, law)
    if rule in ("none", "nonnegative"):
        return alone(rule, x, law)
    if n == 1 or (total == 0 and rule.startswith("simplex")):
        out = np.ones(1) if rule in SHARES else np.full(n, total / n)
        bias = out - truth_of(rule, x, a)
        if rule not in ("sum", "sum-clipped") or n == 1:
            zero = (out == 0).astype(float) if rule not in SHARES else np.zeros(1)
            return Found(bias, np.zeros(n), "definition", bias**2, 0.0, zero, 0.0)
    if rule in ("sum", "sum-clipped"):
        return shifted(rule, x, law, total)
    if rule == "baseline":
        return baseline(x, a, law)
    if rule == "simplex" and n == 2:
        return two(x, law, total)
    if rule == "simplex" and at_risk(x, law, total) <= 1:
        return only_one_at_risk(x, law, total)
    shares = rule in SHARES
    whole, deviation = float(np.sum(a * x)), float(np.sqrt(np.sum(a**2) * law.variance))
    sure = not shares or (whole > 8.5 * deviation and whole > 30 * float(a.max()) * law.scale)
    if law.discrete and (n <= 4 or n * np.log(np.count_nonzero(law.table[1] > TINY)) < np.log(COMBINATIONS)):
        found = enumerated(rule, x, a, law, total, threshold, 1e6 if n < 3 else 2e6)
        if found.error.max() < 1e-6 * np.ptp(found.bias) or not sure:
            return found
    if not law.discrete and rule == "pos" and n <= 3:
        found = by_directions(x, a, law)
        if found.error.max() < 1e-5 * np.ptp(found.bias):
            return found
    if sure:
        return simulated(rule, x, a, law, total, threshold, seed, more * WORK)
    return either_sign(rule, x, a, law, total, threshold, seed, more * 2e6)


def answered(q: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """The row, with more points where fewer leave alpha too little known."""
    for effort in EFFORTS:
        row = answered_by(q, seed + effort, effort)
        if "simulation" not in row["source"] or row["known"]["alpha"] <= WANTED * row["value"]["alpha"]:
            break
    return row


def answered_by(q: dict[str, Any], seed: int, more: float) -> dict[str, Any]:
    """The row: the question with its values, what they are known to (absolute), and where they come from."""
    law = Law(q["noise"], q["scale"])
    x = numbers(q["counts"])
    a = numbers(q["weights"]) if "weights" in q else np.ones(x.size)
    groups = labels(q.get("groups"), x.size)
    seed = zlib.crc32(q["name"].encode()) + seed
    parts = (
        [np.arange(x.size)]
        if groups is None
        else [np.flatnonzero(np.array(groups) == g) for g in dict.fromkeys(groups)]
    )
    bias, error, mse, zero = np.empty(x.size), np.empty(x.size), np.full(x.size, np.nan), np.full(x.size, np.nan)
    found = []
    for g, who in enumerate(parts):
        total = float(q.get("total", x[who].sum()))
        # groups share the work by their sizes, small ones have some of their own
        part = more if groups is None else more * max(who.size / x.size, 0.05)
        one = group_of(q, x[who], a[who], law, total, seed + 1000 * g, part)
        bias[who], error[who] = one.bias, one.error
        if one.mse is not None:
            mse[who] = one.mse
        if one.zero is not None:
            zero[who] = one.zero
        found.append(one)
    if law.kind == "discrete-gaussian" and q["rule"].endswith("threshold") and "threshold" not in q and law.scale < 16:
        # the best level is where a flat curve is least, and known to some 3e-6
        unit = float(a.max() / np.sum(a * x)) if q["rule"] in SHARES else 1.0
        error, zero[:] = error + 3e-6 * unit, np.nan
        for one in found:
            one.mse_error += 3e-6 * law.scale * unit**2
    i, j = int(np.argmax(bias)), int(np.argmin(bias))
    apart = float(error[i] + error[j])
    if groups is None and found[0].apart is not None:
        apart = found[0].apart + float(error[i] + error[j]) - float(found[0].error[i] + found[0].error[j])
    value: dict[str, Any] = {"alpha": number(bias[i] - bias[j])}
    known: dict[str, Any] = {"alpha": short(apart), "bias": short(error.max())}
    named = (
        list(range(x.size))
        if x.size <= FEW
        else sorted({i, j, int(np.argmin(x)), int(np.argmax(x)), *[int(v) for v in np.linspace(0, x.size - 1, 5)]})
    )
    if x.size > FEW:
        value["who"] = named
    value["bias"] = [number(bias[k]) for k in named]
    if not np.isnan(mse).any():
        value["mse"], known["mse"] = [number(mse[k]) for k in named], short(max(one.mse_error for one in found))
    if not np.isnan(zero).any():
        value["zero"], known["zero"] = [number(zero[k]) for k in named], short(max(one.zero_error for one in found))
    if groups is None and found[0].T is not None:
        value["T"], known["T"] = number(found[0].T), short(found[0].T_error)
    if groups is None and q["rule"] in SHARES:
        value["cost"], known["cost"] = number(-np.sum(bias[bias < 0])), short(float(error.sum()))
    if "table 1" in q["tags"]:  # Theorem 1's bounds, from the biases of clipping alone
        clipped = shifted("sum-clipped", x, law, float(x.sum())).bias
        lower = float(clipped[np.argmin(x)] - clipped[np.argmax(x)])
        value["lower"], value["upper"] = number(lower), number(min(float(np.ptp(x)), lower + float(clipped.sum())))
    sources = list(dict.fromkeys(one.source for one in found))
    return {**q, "value": value, "known": known, "source": ", ".join(sources)}


def number(v: float) -> float:
    """To 11 digits."""
    return float(f"{v:.11g}")


def short(v: float) -> float:
    """An error, rounded up to two digits."""
    v = float(v)
    return float(f"{v * 1.05:.1e}") if v > 0 else 0.0


def table() -> dict[str, dict[str, Any]]:
    """What is there, by name."""
    rows = [
        json.loads(line)
        for path in sorted(FOLDER.glob("*.jsonl"))
        if not path.name.startswith("known")
        for line in path.read_text().splitlines()
    ]
    return {row["name"]: row for row in rows}


def write(rows: dict[str, dict[str, Any]], order: list[str]) -> None:
    """One line for each row, in the order of the questions."""
    files: dict[Path, list[str]] = {}
    for name in order:
        if name in rows:
            files.setdefault(file_of(rows[name]), []).append(json.dumps(rows[name], separators=(", ", ": ")))
    for path, lines in files.items():
        path.write_text("\n".join(lines) + "\n")


def same(row: dict[str, Any], q: dict[str, Any]) -> bool:
    """Whether a row answers this question."""
    return all(row.get(k) == json.loads(json.dumps(v)) for k, v in q.items())


def checked(rows: dict[str, dict[str, Any]], part: int) -> int:
    """A drawn tenth anew, with other seeds; how many differ by more than both are known to."""
    wrong = 0
    for q in questions():
        if zlib.crc32(("check" + q["name"]).encode()) % 10 != part or q["name"] not in rows:
            continue
        try:
            new = answered(q, seed=77)
        except Missing as error:
            print(f"left out: {error}")
            continue
        old = rows[q["name"]]
        off = {}
        for key, known in old["known"].items():
            gap = np.max(np.abs(np.subtract(*(_at_both(row, old, new, key) for row in (old, new)))))
            room = known + new["known"][key] + 1e-10 * np.max(np.abs(old["value"][key]))
            if gap > room:
                off[key] = (float(gap), float(room))
        wrong += bool(off)
        print(f"{'OFF ' + str(off) if off else 'ok'}  {q['name']}", flush=True)
    return wrong


def _at_both(row: dict[str, Any], old: dict[str, Any], new: dict[str, Any], key: str) -> Any:
    """A value, of entities that both rows name: which has the largest bias may be a matter of chance."""
    value = row["value"]
    if "who" not in value or not isinstance(value[key], list):
        return value[key]
    both = set(old["value"]["who"]) & set(new["value"]["who"])
    return [v for i, v in zip(value["who"], value[key], strict=True) if i in both]


def main() -> None:
    """Make, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--part", type=int, default=0, help="which tenth is checked")
    parser.add_argument("--only", default=None)
    parser.add_argument(
        "--loose",
        type=float,
        default=None,
        help="simulated rows that are known worse than this, with ten times the points",
    )
    given = parser.parse_args()
    rows = table()
    if given.check:
        sys.exit(checked(rows, given.part) > 0)
    asked = questions()
    order = [q["name"] for q in asked]
    rows = {name: row for name, row in rows.items() if name in order}
    for number_, q in enumerate(asked):
        old = rows.get(q["name"])
        known = (
            None if old is None or "simulation" not in old["source"] else old["known"]["alpha"] / old["value"]["alpha"]
        )
        poor = given.loose is not None and known is not None and known > given.loose
        if old is not None and same(old, q) and not poor and not (given.only and given.only in q["name"]):
            continue
        start = time.process_time()
        try:
            rows[q["name"]] = answered_by(q, 10, 10) if poor else answered(q)
        except Missing as error:
            print(f"left out: {q['name']}: {error}")
            continue
        row = rows[q["name"]]
        assert np.isfinite(row["value"]["bias"] + list(row["known"].values())).all(), q["name"]
        alpha = row["value"]["alpha"]
        print(f"{number_ + 1}/{len(asked)} {q['name']}: alpha {alpha:.6g}, known to {row['known']['alpha'] / max(alpha, 1e-300):.1e}, "
              f"{row['source']}, {time.process_time() - start:.1f} s", flush=True)  # fmt: skip
        write(rows, order)
    write(rows, order)


if __name__ == "__main__":
    main()
