"""Does the budget hold when processes die? `make torture`, or `python tools/torture.py [--attempts N] [--kills N] ...`.

Sixteen processes charge one ledger, or go through the whole protocol, while they are killed (SIGKILL) at random
moments and replaced. Afterwards every log, ledger, kept file and folder is read and counted. Then a full disk, and
ledgers that somebody edited. Prints a table; ends with exit code 1 where a count that must be 0 is not.

Workers are forked from this process, which has loaded everything: a kill costs no start-up. What a worker did is in its
log, one write to a file before and after each thing that matters, which a kill of the process cannot take back.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import secrets
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairpost.counts import Counts
from fairpost.errors import BudgetError, FairpostError, LedgerError, UnfinishedError
from fairpost.release import api, noise, protocol, rules, selftest
from fairpost.release import kept as keeping
from fairpost.release.ledger import Ask, Ledger
from fairpost.release.request import Publication, PublicTotal

PROCESSES = 16
MUST_BE_ZERO = (
    "overspends", "noise without charge", "keys with two noises", "half-written releases", "ledgers that fail", "two fresh",
)  # fmt: skip


@dataclass
class Tally:
    """Counts of one test."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    @property
    def bad(self) -> int:
        return sum(self.counts.get(name, 0) for name in MUST_BE_ZERO)


class Log:
    """Lines that survive a kill: one write each, at the end of a file."""

    def __init__(self, folder: Path) -> None:
        self.fd = os.open(folder / f"{os.getpid()}-{secrets.token_hex(4)}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, *words: str) -> None:
        os.write(self.fd, (" ".join(words) + "\n").encode())


def lines(folder: Path) -> list[list[str]]:
    return [
        line.split(" ")
        for path in sorted(folder.glob("*.log"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def storm(
    work: Callable[[random.Random], None], attempts: Callable[[], int], goal: int, kills: int, pause: float
) -> int:
    """Sixteen workers until there are `goal` attempts and `kills` kills; how many were killed."""
    chance = random.Random(secrets.randbits(64))
    alive: set[int] = set()
    killed, last = 0, time.monotonic()

    def start() -> None:
        pid = os.fork()
        if pid == 0:
            die_with_parent()
            try:
                mine = random.Random(secrets.randbits(64))
                while True:
                    work(mine)
            except BaseException as error:  # a worker that ends by itself is a failure of the test
                os.write(2, f"worker: {type(error).__name__}: {error}\n".encode())
            finally:
                os._exit(9)
        alive.add(pid)

    for _ in range(PROCESSES):
        start()
    done = attempts()
    while done < goal or killed < kills:
        time.sleep(chance.random() * 2 * pause)
        victim = chance.choice(sorted(alive))
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        _, status = os.waitpid(victim, 0)
        if os.WIFEXITED(status):
            raise SystemExit("a worker ended by itself")
        alive.discard(victim)
        killed += 1
        start()
        if time.monotonic() - last > 0.5:
            done, last = attempts(), time.monotonic()
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return killed


def die_with_parent() -> None:
    """Workers go when this process goes (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def counted(folder: Path) -> int:
    """Attempts so far: lines that say `try`."""
    return sum(path.read_bytes().count(b"try ") for path in folder.glob("*.log"))


# ------------------------------------------------------------------------------------------------ the ledger alone


def ledger_storm(root: Path, attempts: int, kills: int, pause: float) -> Tally:
    """Charges of random size under few keys, to a limit of 5/2 that they reach: then a new ledger."""
    tally, rounds = Tally(), max(1, attempts // 2500)
    for r in range(rounds):
        folder = root / f"ledger-{r}"
        folder.mkdir()
        ledger = Ledger.create(folder / "l", dataset="torture", limit="5/2")

        def work(chance: random.Random, folder: Path = folder, ledger: Ledger = ledger) -> None:
            log = Log(folder)
            while True:
                key = hashlib.sha256(str(chance.randrange(400)).encode()).hexdigest()
                loss = Fraction(1, chance.choice((50, 100, 150, 300)))
                log.say("try", key)
                try:
                    charge = ledger.charge([Ask(key, loss, {"name": "t"})])[0]
                except BudgetError:
                    log.say("refused", key)
                    continue
                if charge.fresh:
                    log.say("noise", key, secrets.token_hex(8))

        killed = storm(work, lambda f=folder: counted(f), attempts // rounds, kills // rounds, pause)
        said = lines(folder)
        tally.add("attempts", sum(w[0] == "try" for w in said))
        tally.add("kills", killed)
        check_ledger(
            tally,
            ledger,
            {w[1]: [v[2] for v in said if v[0] == "noise" and v[1] == w[1]] for w in said if w[0] == "noise"},
        )
        tally.add("refusals", sum(w[0] == "refused" for w in said))
    return tally


def check_ledger(tally: Tally, ledger: Ledger, drawn: dict[str, list[str]]) -> None:
    """Nothing overspent, nothing drawn without a charge or twice; how many charges drew nothing."""
    found = ledger.verify()
    charges = [e for e in ledger.entries() if e.kind == "charge"]
    total = sum((e.loss for e in charges), Fraction(0))
    tally.add("ledgers that fail", len(found.problems))
    tally.add("overspends", int(total > ledger.terms.limit) + int(total != ledger.spent))
    tally.add("noise without charge", len(set(drawn) - {e.key for e in charges}))
    tally.add("keys with two noises", sum(len(tokens) > 1 for tokens in drawn.values()))
    tally.add("charges", len(charges))
    tally.add("charged, not drawn", len({e.key for e in charges} - set(drawn)))


# ------------------------------------------------------------------------------------------------ the whole protocol


def request_of(ledger: Ledger, x: np.ndarray, epsilon: str, out: Path | None, again: str = "") -> protocol.Job:
    """A release of one table, in whole numbers."""
    counts = Counts(x, ids=[f"row{i}" for i in range(x.size)])
    return api.job_of(ledger, counts, {"epsilon": epsilon, "round": True}, out=out, again=again, name="t")


def levels_of(ledger: Ledger, x: np.ndarray, epsilon: str, out: Path | None, again: str = "") -> protocol.Job:
    """A release of three levels (a root that is measured, places, leaves), in one charge."""
    ids = [f"{i % 2}{i:03d}" for i in range(x.size)]
    words = {"levels": {"place": 1, "leaf": 4}, "epsilon": epsilon, "split": ["1/4", "1/4", "1/2"], "round": True}
    return api.job_of(ledger, Counts(x, ids=ids), words, out=out, again=again, name="t")


LAWS = {"protocol": (10.0,), "levels": (40.0, 20.0)}
"""The scales of 1/10 in one level, and in three of shares 1/4, 1/4, 1/2."""


def tested(ledger: Ledger, *laws: noise.Law) -> None:
    """As after a self-test that passed: the torture is about the protocol."""
    selftest.remember(ledger.folder / "selftest.json", (*selftest.LAWS, *laws))


def preload(law: noise.Law) -> None:
    """What every worker needs, before the forks: OpenDP, the compiled rule, and Polars (imported, not used: it has threads)."""
    import polars  # noqa: F401

    from fairpost.hierarchy import Hierarchy, LevelNoise
    from fairpost.hierarchy.rules import Unclipped, rule_of

    y = noise.in_process(law, 5)
    levels = [{"mechanism": law.mechanism, "scale": law.text}]
    rules.outcome_of(
        Publication("simplex", round=True), keeping.Kept("", {"levels": levels}, (y,), (b"",), None, None, b"", {})
    )
    tree = Hierarchy.from_geoids(["0000", "1001"], {"place": 1, "leaf": 4})
    both = LevelNoise(tree, sigmas=[40.0, 40.0, 20.0], kind="discrete-laplace")
    for pi in (rule_of(rules.TREE_USUAL, tree, whole=True), Unclipped(tree)):
        pi.apply(np.ones(tree.nodes), both)


def protocol_storm(root: Path, attempts: int, kills: int, pause: float, which: str = "protocol") -> Tally:
    """Requests out of a pool, each to a folder of its own, through all steps with OpenDP's noise."""
    tally, rounds = Tally(), max(1, attempts // 1000)
    laws = [noise.Law("discrete-laplace", scale) for scale in LAWS[which]]
    make = {"protocol": request_of, "levels": levels_of}[which]
    preload(laws[0])
    for r in range(rounds):
        folder = root / f"{which}-{r}"
        (folder / "out").mkdir(parents=True)
        ledger = Ledger.create(folder / "l", dataset="torture", limit="10")
        tested(ledger, *laws)

        def work(chance: random.Random, folder: Path = folder, ledger: Ledger = ledger) -> None:
            log = Log(folder)
            while True:
                number = chance.randrange(120)
                x = np.arange(5, dtype=np.int64) * 10 + number
                job = make(ledger, x, "1/10", folder / "out" / str(number))
                drawn: list[noise.Law] = []

                def draw(
                    law: noise.Law, n: int, job: protocol.Job = job, drawn: list[noise.Law] = drawn
                ) -> noise.Whole:
                    if not drawn:  # the levels of one release are drawn one after the other, by one process
                        log.say("noise", job.key, secrets.token_hex(8))
                    drawn.append(law)
                    return noise.in_process(law, n)

                log.say("try", str(number))
                try:
                    done = protocol.run(ledger, [job], sampler=draw)[0]
                    log.say("fresh" if done.fresh else "again", done.key, done.statement["table"]["sha256"])
                except BudgetError:
                    log.say("refused", job.key)
                except UnfinishedError:
                    log.say("lost", job.key)

        killed = storm(work, lambda f=folder: counted(f), attempts // rounds, kills // rounds, pause)
        said = lines(folder)
        tally.add("attempts", sum(w[0] == "try" for w in said))
        tally.add("kills", killed)
        drawn: dict[str, list[str]] = {}
        tables: dict[str, set[str]] = {}
        for w in said:
            if w[0] == "noise":
                drawn.setdefault(w[1], []).append(w[2])
            if w[0] in ("fresh", "again"):
                tables.setdefault(w[1], set()).add(w[2])
            if w[0] in ("refused", "lost", "again"):
                tally.add(
                    {"refused": "refusals", "lost": "finds its noise lost", "again": "same request, same table"}[w[0]]
                )
        check_ledger(tally, ledger, drawn)
        kept = {path.name.removesuffix(".noisy") for path in ledger.folder.glob("*.noisy")}
        tally.add("drawn, not kept", len(set(drawn) - kept))
        tally.add("keys with two noises", sum(len(t) > 1 for t in tables.values()))
        check_folders(tally, ledger, folder / "out")
    return tally


def check_folders(tally: Tally, ledger: Ledger, out: Path) -> None:
    """Every folder that is there is whole, its statement is in the ledger or a re-run records it, every kept file is whole."""
    for place in sorted(p for p in out.iterdir() if not p.name.startswith(".")):
        try:
            stated = json.loads((place / "statement.json").read_text(encoding="utf-8"))
            same = hashlib.sha256((place / "table.csv").read_bytes()).hexdigest() == stated["table"]["sha256"]
            entry = ledger.entries()[stated["budget"]["entry"] - 1]
            whole = same and entry.hash == stated["budget"]["hash"] and len(list(place.iterdir())) == 4
        except (OSError, ValueError, KeyError, IndexError):
            whole = False
        tally.add("half-written releases", int(not whole))
        tally.add("releases", int(whole))
    for path in ledger.folder.glob("*.noisy"):
        try:
            keeping.read(path, path.name.removesuffix(".noisy"))
        except LedgerError:
            tally.add("half-written releases")


# ------------------------------------------------------------------------------------------------ a full disk


def apart(work: Callable[[], str]) -> str:
    """What a function says, in a process of its own: limits on files stay with it, and so do Polars' threads.

    (A library with threads must not be used before a fork and after it, so this process never releases by itself.)
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        said = file.read().decode()
    os.waitpid(pid, 0)
    return said


def full_disk(root: Path) -> list[tuple[str, bool]]:
    """No room before the charge, in the charge, and after it (for the noise, for the table)."""
    checks: list[tuple[str, bool]] = []
    law = noise.Law("discrete-laplace", 10.0)
    x = np.arange(2000, dtype=np.int64)

    def fresh(name: str) -> Ledger:
        (root / name).mkdir()
        ledger = Ledger.create(root / name / "l", dataset="torture", limit="1")
        tested(ledger, law)
        return ledger

    def limited(size: int, work: Callable[[], str]) -> Callable[[], str]:
        def inside() -> str:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            return work()

        return inside

    ledger = fresh("before")
    said = apart(limited(60_000, lambda: repr(protocol.run(ledger, [request_of(ledger, x, "1/10", None)]))))
    checks.append(("no room for the noise: refused before the charge", "room" in said and ledger.spent == 0))
    checks.append(("  and nothing is left lying", not list(ledger.folder.glob(".*.tmp"))))
    apart(lambda: repr(protocol.run(ledger, [request_of(ledger, x, "1/10", None)])))
    checks.append(("  with room it works", ledger.spent == Fraction(1, 10) and not ledger.verify().problems))

    ledger = fresh("charge")
    for k in range(5):
        ledger.charge([Ask(f"{k:064d}", Fraction(1, 100), {"name": "t" * 3000})])
    size = ledger.path.stat().st_size
    said = apart(limited(size, lambda: repr(ledger.charge([Ask("f" * 64, Fraction(1, 100), {"name": "t" * 9000})]))))
    whole = ledger.spent == Fraction(5, 100) and not ledger.verify().problems
    checks.append(("no room in the charge: refused whole, the chain holds", "Charge(" not in said and whole))
    ledger.charge([Ask("f" * 64, Fraction(1, 100), {"name": "t" * 9000})])
    checks.append(("  with room it works", ledger.spent == Fraction(6, 100) and not ledger.verify().problems))

    ledger = fresh("noise")

    def no_room(law: noise.Law, n: int) -> noise.Whole:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        return noise.in_process(law, n)

    def after() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        return repr(protocol.run(ledger, [request_of(ledger, x, "1/10", None)], sampler=no_room))

    said = apart(after)
    checks.append(
        ("no room after the charge: lost, and says so", "UnfinishedError" in said and ledger.spent == Fraction(1, 10))
    )

    def spy(law: noise.Law, n: int) -> noise.Whole:
        (root / "noise" / "drawn").touch()
        return noise.in_process(law, n)

    said = apart(lambda: repr(protocol.run(ledger, [request_of(ledger, x, "1/10", None)], sampler=spy)))
    still = "UnfinishedError" in said and not (root / "noise" / "drawn").exists() and ledger.spent == Fraction(1, 10)
    checks.append(("  never drawn again, never charged again", still))

    ledger = fresh("table")

    def table() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        publish = protocol.publish

        def tight(*given: object) -> object:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
            return publish(*given)  # type: ignore[arg-type]

        protocol.publish = tight  # type: ignore[assignment]
        return repr(protocol.run(ledger, [request_of(ledger, x, "1/10", root / "table" / "out")]))

    said = apart(table)
    clean = not (root / "table" / "out").exists() and not list((root / "table").glob(".out*"))
    checks.append(
        ("no room for the table: none of it, noise kept", "UnfinishedError" in said and "kept" in said and clean)
    )
    said = apart(lambda: str(protocol.run(ledger, [request_of(ledger, x, "1/10", root / "table" / "out")])[0].fresh))
    there = len(list((root / "table" / "out").glob("*"))) == 4
    checks.append(
        ("  the same command finishes it, at no cost", said == "False" and there and ledger.spent == Fraction(1, 10))
    )
    return checks


# ------------------------------------------------------------------------------------------------ tampering


def tampering(root: Path) -> list[tuple[str, bool]]:
    """An edited row, a deleted row, a cut tail, an old copy: each must be found."""
    law = noise.Law("discrete-laplace", 10.0)
    (root / "tamper").mkdir()
    path = root / "tamper" / "l"
    ledger = Ledger.create(path, dataset="torture", limit="1")
    tested(ledger, law)
    old = {}
    for k in range(4):
        old[k] = path.read_bytes()
        protocol.run(
            ledger, [request_of(ledger, np.arange(5, dtype=np.int64) + k, "1/10", root / "tamper" / f"out{k}")]
        )
    good = path.read_bytes()
    statements = {str(p): p.read_text(encoding="utf-8") for p in sorted((root / "tamper").glob("out*/statement.json"))}
    checks = [("an honest ledger passes, with its statements", not ledger.verify(statements).problems)]

    def broken(name: str, *script: str, chain_alone: bool = True) -> None:
        link = sqlite3.connect(path)
        triggers = [row[0] for row in link.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
        for (trigger,) in link.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            link.execute(f"DROP TRIGGER {trigger}")
        for line in script:
            link.execute(line)
        for trigger in triggers:
            link.execute(trigger)
        link.commit()
        link.close()
        found = bool(ledger.verify(statements).problems)
        alone = bool(ledger.verify().problems)
        checks.append((f"{name}: found with statements" + (", and by the chain alone" if alone else ""), found))
        if chain_alone and not alone:
            checks.append((f"{name}: must be found by the chain alone", False))
        path.write_bytes(good)

    broken("an edited loss", "UPDATE ledger SET body = replace(body, '\"1/10\"', '\"1/100\"') WHERE seq = 4")
    broken("an edited limit", 'UPDATE ledger SET body = replace(body, \'"limit":"1"\', \'"limit":"9"\') WHERE seq = 1')
    broken("a deleted row", "DELETE FROM ledger WHERE seq = 4")
    broken(
        "a deleted row, the rest renumbered",
        "DELETE FROM ledger WHERE seq = 4",
        "UPDATE ledger SET seq = seq - 1 WHERE seq > 4",
    )
    broken("a tail cut by one (a done)", "DELETE FROM ledger WHERE seq >= 9", chain_alone=False)
    broken("a tail cut by two (charge and done)", "DELETE FROM ledger WHERE seq >= 8", chain_alone=False)
    broken("a table added", "CREATE TABLE more (x)")
    link = sqlite3.connect(path)
    link.execute("DROP TRIGGER entries_stay")
    link.close()
    checks.append(("a dropped trigger", bool(ledger.verify().problems)))
    path.write_bytes(good)
    for k in (1, 3):
        path.write_bytes(old[k])
        checks.append(
            (f"an old copy ({4 - k} releases older): found with statements", bool(ledger.verify(statements).problems))
        )
        moved = root / "tamper" / "l.d.away"
        ledger.folder.rename(moved)
        checks.append(("  also without the kept noise", bool(ledger.verify(statements).problems)))
        moved.rename(ledger.folder)
        try:
            protocol.run(ledger, [request_of(ledger, np.arange(5, dtype=np.int64) + k, "1/10", None)])
            checks.append(("  and nothing is drawn with it", False))
        except LedgerError:
            checks.append(("  and nothing is drawn with it", True))
        path.write_bytes(good)
    text = next(iter(statements.values()))
    edited = text.replace('"rows": 5', '"rows": 6')
    checks.append(("an edited statement", edited != text and bool(ledger.verify({"s": edited}).problems)))
    return checks


# ------------------------------------------------------------------------------------------------ exact numbers


def exact_numbers(root: Path, ledgers: int, seed: int) -> dict[str, int]:
    """Random sequences of releases with random invariants: what do all published exact numbers of a ledger tell together?

    The numbers are taken from the published files alone (statements and tables), each with the rows that it is the sum of. The
    least and the largest value of every row, by integer programming, must be at least 2 apart.
    """
    chance = random.Random(seed)
    tally = dict.fromkeys(
        (
            "ledgers",
            "releases",
            "of them with exact numbers",
            "refused",
            "exact numbers",
            "rows told",
            "contradictions",
        ),
        0,
    )
    for r in range(ledgers):
        folder = root / f"exact-{r}"
        folder.mkdir()
        book = _any_ledger(chance, folder)
        if book is None:
            continue
        tally["ledgers"] += 1
        tested(book, *(noise.Law("discrete-laplace", float(b)) for b in (20, 40)))
        known: list[tuple[frozenset[str], int]] = []
        ids, world = _rows(chance)
        for k in range(6):
            if chance.random() < 0.4:  # somebody comes or goes
                world[chance.choice(ids)] += 1
            try:
                words = _any_release(chance, folder, ids, world, book.terms.public[-1])
                job = api.job_of(
                    book,
                    folder / "t.csv",
                    words["given"],
                    out=folder / f"out{k}",
                    again=str(k),
                    columns=words["columns"],
                )
                (done,) = protocol.run(book, [job], sampler=noise.in_process)
            except FairpostError:
                tally["refused"] += 1
                continue
            found = _told_by(done)
            tally["releases"] += 1
            tally["of them with exact numbers"] += bool(found)
            known += found
        tally["exact numbers"] += len(set(known))
        told = _determined(known)
        tally["contradictions"] += told is None
        tally["rows told"] += told or 0
    return tally


IDS = [f"{s}{c}{b}" for s in "12" for c in "12" for b in "1234"]
COLUMNS = ("s", "c", "odd", "one")


def _rows(chance: random.Random) -> tuple[list[str], dict[str, int]]:
    return list(IDS), {i: chance.choice((0, 0, 1, 2, 30)) for i in IDS}


def _labels(i: str) -> list[str]:
    return [i[:1], i[:2], str(int(i) % 2), i]


def _any_ledger(chance: random.Random, folder: Path) -> Ledger | None:
    rows = {"id": IDS, **dict(zip(COLUMNS, zip(*map(_labels, IDS), strict=True), strict=True))}
    exact: dict[str, Any] = chance.choice(
        [
            {},
            {"exact_total": True},
            *({"exact_by": c} for c in COLUMNS),
            {"levels": {"s": 1, "c": 2, "b": 3}, "exact": chance.choice("sc")},
        ]
    )
    if exact:
        exact |= {"rows": rows, "exact_source": "a table", "smallest_part": 2}
    try:
        return Ledger.create(
            folder / "l", dataset="t", neighbours="replace", limit="1e9", public=_own_last(exact), **exact
        )
    except FairpostError:
        return None


def _own_last(exact: dict[str, Any]) -> list[str]:
    own = exact.get("exact_by", "s")
    return ["tot", *(c for c in COLUMNS if c != own), own]


def _any_release(
    chance: random.Random, folder: Path, ids: list[str], world: dict[str, int], own: str
) -> dict[str, Any]:
    """A file and a request: any rows, any groups, totals that are typed or true, a tree; now and then two rows change places."""
    group = own if chance.random() < 0.5 else chance.choice(COLUMNS)
    place = dict(zip(ids, ids, strict=True))
    if chance.random() < 0.3:  # with equal counts no total changes
        one = chance.choice(ids)
        two = chance.choice([i for i in ids if world[i] == world[one]])
        place |= {one: two, two: one}
    of = {i: _labels(place[i])[COLUMNS.index(group)] for i in ids}
    lines = ["id,count,tot," + ",".join(COLUMNS)]
    for i in ids:
        total = sum(world[j] for j in ids if of[j] == of[i])
        lines.append(",".join([i, str(world[i]), str(total), *_labels(place[i])]))
    (folder / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    given: dict[str, Any] = {"epsilon": "1/10", "round": True}
    columns: dict[str, Any] = {}
    if chance.random() < 0.3:
        columns["where"] = [f"{chance.choice(COLUMNS)} = {chance.choice('12')}"]
    way = chance.choice(("total", "typed", "parts", "column", "tree", "noisy"))
    if way == "total":
        given["total"] = "exact"
    elif way == "typed":
        given["total"] = PublicTotal(sum(world.values()) + chance.choice((0, 0, 1)))
    elif way == "parts":
        given |= {"by_group": True, "total": "exact"}
        columns["group"] = group
    elif way == "column":
        columns |= {"group": group, "group_total": "tot"}
    elif way == "tree":
        given |= {
            "levels": {"s": 1, "c": 2, "b": 3},
            "split": ["1/4", "1/4", "1/2"],
            "exact": chance.choice(("all", "s", "c")),
        }
    return {"given": given, "columns": columns}


def _told_by(done: Any) -> list[tuple[frozenset[str], int]]:
    """Exact numbers of a release and their rows, out of its table and statement."""
    table = done.table.rows(named=True)
    hierarchy = done.statement["privacy"].get("hierarchy")
    if hierarchy is not None:
        names = ["all", *hierarchy["names"]]
        if hierarchy["exact"] is None:
            return []
        exact = names[: names.index(hierarchy["exact"]) + 1]
        leaves = [row["id"] for row in table if row["level"] == names[-1]]
        above = [row for row in table if row["level"] in exact]
        return [
            (frozenset(i for i in leaves if row["id"] == "all" or i.startswith(row["id"])), int(row["count"]))
            for row in above
        ]
    found = []
    for item in done.statement["unprotected"]:
        if item["value"] is not None and "total" in item["what"]:
            group = item["what"].partition(", group ")[2]
            found.append(
                (frozenset(row["id"] for row in table if not group or row["group"] == group), int(item["value"]))
            )
    return found


def _determined(known: list[tuple[frozenset[str], int]]) -> int | None:
    """How many rows the numbers tell: their values are less than 2 apart. None: no table has all these numbers."""
    from scipy.optimize import linprog

    ids = sorted(set().union(*(rows for rows, _ in known)))
    if not ids:
        return 0
    A = [[float(i in rows) for i in ids] for rows, _ in known]
    b = [total for _, total in known]
    told = 0
    for k in range(len(ids)):
        ends = []
        for sign in (1.0, -1.0):
            c = np.zeros(len(ids))
            c[k] = sign
            best = linprog(c, A_eq=A, b_eq=b, integrality=np.ones(len(ids)), method="highs")
            if best.status != 0:
                return None
            ends.append(sign * best.fun)
        told += round(ends[1]) - round(ends[0]) < 2
    return told


# ------------------------------------------------------------------------------------------------ the table


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--attempts", type=int, default=10_000)
    words.add_argument("--kills", type=int, default=400)
    words.add_argument("--pause", type=float, default=0.05, help="mean seconds between kills")
    words.add_argument("--ledgers", type=int, default=200, help="of the part exact")
    words.add_argument("--seed", type=int, default=0, help="of the part exact")
    words.add_argument("--folder", type=Path, help="where; default a new temporary folder")
    words.add_argument("parts", nargs="*", choices=["ledger", "protocol", "levels", "disk", "tamper", "exact", []])
    given = words.parse_args()
    parts = given.parts or ["ledger", "protocol", "levels", "disk", "tamper", "exact"]
    root = Path(tempfile.mkdtemp(prefix="torture-", dir=given.folder))
    bad = 0
    try:
        storms = {"ledger": ledger_storm, "protocol": protocol_storm, "levels": partial(protocol_storm, which="levels")}
        for name, test in storms.items():
            if name in parts:
                start = time.monotonic()
                tally = test(root, given.attempts, given.kills, given.pause)
                bad += tally.bad
                print(f"\n{name}: {PROCESSES} processes, SIGKILL ({time.monotonic() - start:.0f} s)", flush=True)
                for what, number in tally.counts.items():
                    must = "" if what not in MUST_BE_ZERO else ("must be 0" if number == 0 else "MUST BE 0")
                    print(f"  {what:<24} {number:>8,}  {must}", flush=True)
                if tally.counts["attempts"] < given.attempts or tally.counts["kills"] < given.kills:
                    bad += 1
        for name, table in (("disk", full_disk), ("tamper", tampering)):
            if name in parts:
                print(f"\n{name}", flush=True)
                for what, holds in table(root):
                    bad += not holds
                    print(f"  {what:<64} {'yes' if holds else 'NO'}", flush=True)
        if "exact" in parts:
            found = exact_numbers(root, given.ledgers, given.seed)
            bad += found["rows told"] + found["contradictions"] + (found["exact numbers"] == 0)
            print("\nexact numbers: random releases, what all of a ledger tell together", flush=True)
            for what, number in found.items():
                print(
                    f"  {what:<28} {number:>8,}  {'must be 0' if what in ('rows told', 'contradictions') else ''}",
                    flush=True,
                )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(f"\n{'all hold' if not bad else f'{bad} DO NOT HOLD'}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
