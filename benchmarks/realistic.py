"""Realistic questions: how well alpha is known, how long it takes, and who answers.

    python benchmarks/realistic.py --part 1/20                         every twentieth question, from the first on
    python benchmarks/realistic.py --csv new.csv --against old.csv     all, one row each, and what an earlier run said of them
    python benchmarks/realistic.py --engine expansion                  one engine in place of the choice among all

The list is drawn by a seed from the grid below, once; nothing is taken out of it after it was asked. Data: the extract of SAIPE 2019
that comes with the tests, the package's own counts, and where FAIRPOST_DATA has them SAIPE 2019, Title I districts with expenditures per
pupil as weights, Rhode Island blocks and New York tracts, in the pieces that offices publish: a nation, a state, a county, a block group.
Questions whose rule has a closed formula are not on it. The bar is the half-width of alpha over max(1e-3 of alpha, 1e-12 of the noise):
at most 1 in 98 %, above 10 in none; by group alpha is the largest. 95 % within 1 s of processor time, none above 5 s.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

import fairpost as fp
from fairpost.datasets import hawaii, synthetic_districts
from fairpost.engines import NAMES
from fairpost.noise import Mechanism

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.data import Missing, rows_of

SEED, QUESTIONS = 20260, 440
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
RULES = {"simplex": 0.27, "simplex-threshold": 0.24, "pos": 0.26, "pos-threshold": 0.23}
NOISES = {"discrete-laplace": 0.4, "discrete-gaussian": 0.34, "laplace": 0.15, "gaussian": 0.11}
SCALED: dict[str, Callable[[float], Mechanism]] = {
    "laplace": fp.Laplace,
    "gaussian": fp.Gaussian,
    "discrete-laplace": fp.DiscreteLaplace,
    "discrete-gaussian": fp.DiscreteGaussian,
}
STATES = (
    "AL",
    "CA",
    "CO",
    "DE",
    "FL",
    "GA",
    "IL",
    "IN",
    "LA",
    "MA",
    "MD",
    "ME",
    "MT",
    "ND",
    "NV",
    "NY",
    "OH",
    "RI",
    "TX",
    "VT",
    "WA",
    "WY",
)
PLACES = {
    # data, how often: with the whole files beside, most questions are about them
    "extract": 0.22, "extract by state": 0.17, "synthetic": 0.04, "hawaii": 0.03, "saipe nation": 0.04, "saipe state": 0.16,
    "saipe by state": 0.09, "title1 nation": 0.04, "title1 state": 0.06, "title1 by state": 0.03, "blocks of a tract": 0.06,
    "blocks by block group": 0.03, "tracts of a county": 0.03, "tracts by county": 0.02,
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One question."""

    number: int
    place: str
    which: str
    """The state, county, tract or column."""
    rule: str
    noise: str
    epsilon: float

    @property
    def by_group(self) -> bool:
        """Whether each group has a problem of its own."""
        return " by " in self.place

    @property
    def words(self) -> str:
        """In one line."""
        return f"{self.place} {self.which}, {self.rule}, {self.noise}, epsilon {self.epsilon:g}"

    def mechanism(self) -> Mechanism:
        """Scale 1/epsilon; Gaussian noise of the same deviation as Laplace noise of that scale."""
        laplace = self.noise.endswith("laplace")
        return SCALED[self.noise](1 / self.epsilon if laplace else float(f"{2**0.5 / self.epsilon:.4g}"))


@dataclass(frozen=True)
class Answered:
    """What became of it."""

    by: str
    """The engine that answered, or engines (by group), or "refused"."""
    kind: str
    """What the half-width is: a bound, an estimate, an interval."""
    n: int
    alpha: float
    half_width: float
    ratio: float
    """The half-width over the bar."""
    seconds: float
    """Of the processor, all threads together."""
    said: str

    @property
    def answered(self) -> bool:
        """Whether there is a number."""
        return self.by != "refused"

    @property
    def way(self) -> str:
        """Engine and kind of error."""
        return f"{self.by}, {self.kind}" if self.answered else "refused"


def questions() -> list[Asked]:
    """The list, the same on every machine, whatever data it has."""
    rng = np.random.Generator(np.random.PCG64(SEED))

    def pick(table: dict[str, float]) -> str:
        at = np.cumsum(list(table.values()))
        return list(table)[int(np.searchsorted(at / at[-1], rng.random()))]

    found: list[Asked] = []
    while len(found) < QUESTIONS:
        place, rule, noise = pick(PLACES), pick(RULES), pick(NOISES)
        which, epsilon = rng.random(), EPSILONS[int(rng.random() * len(EPSILONS))]
        asked = Asked(len(found), place, _within(place, which), rule, noise, epsilon)
        if asked.words not in {q.words for q in found}:  # Hawaii comes up more often than it has questions
            found.append(asked)
    return found


def _within(place: str, u: float) -> str:
    """Which piece: a state, or a quantile of the pieces of a file."""
    if place.endswith(" state") and " by " not in place:
        return STATES[int(u * len(STATES))]
    if place.startswith(("saipe", "extract")):
        return ("poor_5_17", "pop_5_17")[u < 0.3]
    return f"{u:.3f}" if " of a " in place or place.startswith("blocks") else ""


@cache
def counts_of(place: str, which: str, rule: str) -> fp.Counts:  # noqa: PLR0911 - one for each kind of data
    """The counts of a question; `Missing` where the file is not here."""
    shares = rule.startswith("pos")
    if place == "hawaii":
        return hawaii()
    if place == "synthetic":
        return synthetic_districts()
    kind, by = place.split(maxsplit=1)[0], " by " in place
    if kind in ("extract", "saipe"):
        column = which if which.startswith("po") else "poor_5_17"
        rows = rows_of("saipe_2019_extract.csv" if kind == "extract" else "saipe_2019.csv")
        rows = tuple(r for r in rows if len(which) > 2 or r["state"] == which)
        return fp.Counts([float(r[column]) for r in rows], groups=[r["state"] for r in rows] if by else None)
    if kind == "title1":
        rows = tuple(
            r
            for r in rows_of("title1_saipe2011_exp2010.csv")
            if r["exp_pp"] and (len(which) != 2 or r["state"] == which)
        )
        weights = [float(r["exp_pp"]) for r in rows] if shares else None
        return fp.Counts(
            [float(r["poor_5_17"]) for r in rows], weights=weights, groups=[r["state"] for r in rows] if by else None
        )
    if kind == "blocks":
        blocks = [r for r in rows_of("ri_blocks_2020.csv") if int(r["pop"]) >= 0]
        if not by:
            tract = _piece(sorted({r["geoid"][:11] for r in blocks}), which)
            return fp.Counts([float(r["pop"]) for r in blocks if r["geoid"].startswith(tract)])
        county = _piece(sorted({r["geoid"][:5] for r in blocks}), which)
        blocks = [r for r in blocks if r["geoid"].startswith(county)][:1200]
        return fp.Counts([float(r["pop"]) for r in blocks], groups=[r["geoid"][:12] for r in blocks])
    tracts = rows_of("ny_tracts_poverty.csv")
    if by:
        return fp.Counts([float(r["pov_fam_5_17"]) for r in tracts], groups=[r["COUNTYFP"] for r in tracts])
    county = _piece(sorted({r["COUNTYFP"] for r in tracts}), which)
    return fp.Counts([float(r["pov_fam_5_17"]) for r in tracts if r["COUNTYFP"] == county])


def _piece(names: list[str], u: str) -> str:
    return names[int(float(u) * len(names))]


def answered(asked: Asked, engine: str) -> Answered:
    """Ask it."""
    counts, noise = counts_of(asked.place, asked.which, asked.rule), asked.mechanism()
    start = time.process_time()
    try:
        result = fp.audit(counts, noise, asked.rule, engine=engine, by_group=asked.by_group)
    except (fp.UnsupportedError, fp.ToleranceError, fp.InputError) as error:
        took = time.process_time() - start
        return Answered("refused", "", counts.n, np.nan, np.nan, np.nan, took, str(error)[:140])
    took = time.process_time() - start
    a, x = np.asarray(counts.weights), counts.values
    unit = noise.deviation * (float(a.max()) / max(float(np.sum(a * x)), 1.0) if asked.rule.startswith("pos") else 1.0)
    half = result.alpha.half_width
    ratio = half / max(1e-3 * result.alpha.value, 1e-12 * unit)
    return Answered(
        result.method, result.alpha.kind, counts.n, result.alpha.value, half, ratio, took, result.engine.note or ""
    )


def shown(rows: list[tuple[Asked, Answered]]) -> None:
    """The table: by rule and noise, then in all, then what misses the bar."""
    head = f"{'':38}{'asked':>6}{'refused':>8}{'over 1':>7}{'over 10':>8}{'median':>9}{'98 %':>9}{'cpu 50 %':>9}{'95 %':>7}{'most':>7}"
    kinds: dict[str, list[tuple[Asked, Answered]]] = defaultdict(list)
    for q, a in rows:
        kinds[
            f"{q.rule}, {'whole' if q.noise.startswith('discrete') else 'real'} numbers{', by group' if q.by_group else ''}"
        ].append((q, a))
    print(head)
    for name, some in [*sorted(kinds.items()), ("all", rows)]:
        ratio = np.array([a.ratio for _, a in some if a.answered])
        cpu = np.array([a.seconds for _, a in some])
        wide = f"{np.median(ratio):9.1e}{np.quantile(ratio, 0.98):9.1e}" if ratio.size else f"{'-':>9}{'-':>9}"
        print(
            f"{name:38}{len(some):6}{len(some) - ratio.size:8}{int(np.sum(ratio > 1)):7}{int(np.sum(ratio > 10)):8}{wide}"
            f"{np.median(cpu):9.2f}{np.quantile(cpu, 0.95):7.2f}{cpu.max():7.2f}"
        )
    print("answered by:", "; ".join(f"{way} {times}" for way, times in Counter(a.way for _, a in rows).most_common()))
    shares = [a.ratio <= 1 for _, a in rows], [not a.ratio <= 10 for _, a in rows], [a.seconds <= 1 for _, a in rows]
    tight, over, quick = (float(np.mean(some)) for some in shares)
    print(
        f"half-width within the bar {tight:.1%}, above ten times it or refused {over:.1%}; within 1 s of CPU {quick:.1%}"
    )
    print("above ten times the bar, refused, or above 5 s:")
    for q, a in sorted(rows, key=lambda row: -np.nan_to_num(row[1].ratio, nan=1e300)):
        if not a.ratio <= 10 or a.seconds > 5:
            print(
                f"  {q.number:4} {a.ratio:9.2g} {a.seconds:6.2f} s  {a.by:12} n = {a.n:6}  alpha {a.alpha:.3g}  {q.words}"
            )


def compared(rows: list[tuple[Asked, Answered]], path: Path) -> None:
    """Beside an earlier run: who differs by more than both errors together, who is answered or refused now, widths and times.

    Two intervals of 95 % are apart once in some hundred pairs by chance.
    """
    with path.open(newline="", encoding="utf-8") as file:
        earlier = {line["words"]: line for line in csv.DictReader(file)}
    pairs = [(q, a, earlier[q.words]) for q, a in rows if q.words in earlier]
    both = [(q, a, old) for q, a, old in pairs if a.answered and old["by"] != "refused"]
    print(f"against {path}: {len(pairs)} of {len(rows)} questions are in both, {len(both)} with two answers")
    apart = []
    for q, a, old in both:
        value, half = float(old["alpha"]), float(old["half_width"])
        room = a.half_width + half + 1e-12 * abs(value)
        if not abs(a.alpha - value) <= room:
            apart.append(
                f"  {q.number:4} {abs(a.alpha - value) / room:8.2g} times  {a.alpha:.6g} +- {a.half_width:.1e} ({a.way}), "
                f"was {value:.6g} +- {half:.1e} ({old['by']}, {old['kind']})  {q.words}"
            )
    print(f"apart by more than both errors together: {len(apart)}", *apart, sep="\n")
    for q, a, old in pairs:
        if a.answered != (old["by"] != "refused"):
            print(f"  {q.number:4} {'answered now' if a.answered else 'refused now'}: {q.words}")
    if both:
        narrower = np.array([max(float(old["half_width"]), 1e-300) / max(a.half_width, 1e-300) for _, a, old in both])
        print(
            f"narrower than before by more than a tenth {int(np.sum(narrower > 1.1))}, wider {int(np.sum(narrower < 1 / 1.1))}; "
            f"CPU {sum(a.seconds for _, a, _ in both):.1f} s, was {sum(float(old['seconds']) for _, _, old in both):.1f} s"
        )


def main() -> None:
    """Ask all, or a part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", help="1/20: the first twentieth, every twentieth question")
    parser.add_argument("--engine", default="auto", choices=list(NAMES))
    parser.add_argument("--csv", type=Path, default=None, help="a file for one line of each question")
    parser.add_argument("--against", type=Path, default=None, help="such a file of an earlier run")
    parser.add_argument("--only", default="", help="words that a question must hold")
    given = parser.parse_args()
    which, parts = (int(word) for word in given.part.split("/"))
    asked = [q for q in questions() if q.number % parts == which - 1 and given.only in q.words]
    fp.audit([3, 1, 40], fp.Laplace(2.0), "pos", runs=100)  # kernels are loaded before the clock runs
    rows, absent = [], 0
    for q in asked:
        try:
            rows.append((q, answered(q, given.engine)))
        except Missing:
            absent += 1
    if absent:
        print(f"{absent} of {len(asked)} questions left out: their files are not here (FAIRPOST_DATA)")
    if not rows:
        return
    shown(rows)
    if given.csv:
        with given.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["words", *asdict(rows[0][0]), *asdict(rows[0][1])])
            writer.writerows([q.words, *asdict(q).values(), *asdict(a).values()] for q, a in rows)
    if given.against:
        compared(rows, given.against)


if __name__ == "__main__":
    main()
