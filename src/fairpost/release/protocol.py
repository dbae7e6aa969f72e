"""Charge, then draw: the steps of a release, in the one order in which nothing can be overspent.

    0 check     the ledger verifies; outputs are free; room for the noisy file is reserved; the sampler's self-test passed
    1 charge    one transaction: key known? -> not fresh; does not fit, or another exact total than before? -> refuse; insert;
                commit, on the disk
    2 draw      only where the charge was fresh; the noise lives in memory
    3 keep      LEDGER.d/KEY.noisy: fixed temporary name, sync, rename, sync of the folder: whole or absent
    4 publish   a function of the kept file; table and statement, whole or none; then `done` with the statement's digest

*Proof.* By the ledger, spent <= limit after every commit, a key is charged freshly at most once, and the charge is on the
disk before `charge` returns. Noise is drawn only after a fresh charge, once; a charge without a kept file is never drawn
again; entries are never changed. So at every instant each noise vector that exists has its own durable charge, and the
losses of all of them add up to at most the limit. A crash in 1 to 3 wastes at most one loss, after 3 it costs nothing.

Processes with the same request take turns: a lock with the request's key is held from step 0 to 4, so whoever finds a
charge without a kept file knows that the noise is lost, and may sweep what a crash left under the fixed names.
"""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpost.errors import BudgetError, FairpostError, InputError, LedgerError, ParameterError, UnfinishedError
from fairpost.release import kept as keeping
from fairpost.release import rules, selftest
from fairpost.release.amounts import rounded
from fairpost.release.chain import FILES, Entry, digest
from fairpost.release.guard import Stopped, locked, place_of, private_folder, reserve, undisturbed
from fairpost.release.invariants import Claim, demand_claim
from fairpost.release.kept import Floats, Kept, packed
from fairpost.release.ledger import Ask, Ledger
from fairpost.release.noise import REACH, Sampler, Whole, add_noise, check_counts, demand_noise, opendp_version, sample
from fairpost.release.publish import About, Release, check_place, prepare, publish
from fairpost.release.request import Publication, Request
from fairpost.release.source import undeclared

Say = Callable[[str], None]


@dataclass(eq=False)
class Job:
    """One release on its way."""

    request: Request
    publication: Publication
    x: tuple[Whole, ...]
    """The true counts of each level that is kept; of a hierarchy, an exact one first (`Request.laws`)."""
    labels: list[bytes]
    """The packed ids, and the labels of a hierarchy."""
    groups: tuple[str, ...] | None = None
    weights: Floats | None = None
    """Those of the source: the same noise may be published with others."""
    out: Path | None = None
    about: About = field(default_factory=About)
    claim: Claim | None = None
    """What is kept exactly."""
    weak: bool = False
    """Whether noise that is mostly 0 is accepted."""
    key: str = ""
    charge: Entry | None = None
    fresh: bool = False

    @property
    def packed(self) -> list[bytes]:
        """The labels, and the groups where there are groups."""
        return [*self.labels, *([] if self.groups is None else [packed(self.groups)])]

    @property
    def asked(self) -> Ask:
        """The charge that it asks for."""
        return Ask(self.key, self.request.loss, self.request.public())

    def kept(self, levels: tuple[Whole, ...], rounding: bytes) -> Kept:
        """What is kept of it."""
        words = (self.key, self.request.public(), levels, tuple(self.labels), self.groups, self.weights)
        return Kept(*words, rounding, software())


def weighed(publication: Publication, weights: Floats | None) -> Publication:
    """The publication with the digest of its weights, which tells it from one with others."""
    return publication if weights is None else replace(publication, weights=digest(weights.tobytes()))


def key_of(ledger: Ledger, job: Job) -> str:
    """The request's key: the data enter through the keyed fingerprint only."""
    return job.request.key(ledger.fingerprint(*(x.tobytes() for x in job.x), *job.packed))


def run(ledger: Ledger, jobs: Sequence[Job], *, sampler: Sampler = sample, say: Say | None = None) -> list[Release]:
    """Steps 0 to 4 for one release, or for several that are charged in one transaction."""
    with ExitStack() as locks:
        _check(ledger, jobs, locks, sampler, say)
        try:
            _charge_draw_keep(ledger, jobs, sampler, say)
            for job in jobs:  # what is published comes from the kept file: the true counts go
                job.x = ()
            return [_finished(ledger, job) for job in jobs]
        except (Stopped, KeyboardInterrupt) as stopped:
            raise _stopped(ledger, jobs, str(stopped) or "an interrupt") from None
        finally:
            _unreserve(ledger, jobs)


def _check(ledger: Ledger, jobs: Sequence[Job], locks: ExitStack, sampler: Sampler, say: Say | None) -> None:
    """Step 0."""
    opendp_version()
    private_folder(ledger.folder)
    ledger.demand()
    for job in jobs:
        demand(ledger, job)
        check_counts(job.x)
        job.key = key_of(ledger, job)
    keys, places = [job.key for job in jobs], [job.out for job in jobs if job.out is not None]
    if len(set(keys)) < len(keys) or len(set(places)) < len(places):
        raise ParameterError(
            "the tables of a plan must be different requests with places of their own, and two are the same"
        )
    for job in sorted(jobs, key=lambda j: j.key):
        locks.enter_context(locked(ledger.folder / f"{job.key}.lock", say=say))
    _sweep(ledger, set(keys))
    for job in jobs:
        job.charge = ledger.find("charge", job.key)
        there = kept_path(ledger, job.key).exists()
        if job.charge is not None and not there:
            raise _lost(ledger, job, "a process ended between the charge and the file")
        if job.charge is None and there:
            raise _uncharged(ledger, job.key)
        if job.out is not None:
            check_place(job.out, again=job.charge is not None)
    if new := [job for job in jobs if job.charge is None]:
        _make_ready(ledger, new, sampler, say)


def _make_ready(ledger: Ledger, new: Sequence[Job], sampler: Sampler, say: Say | None) -> None:
    """The rest of step 0, for what is to be charged: it fits, it can be published, there is room, the sampler is right."""
    if ledger.spent + sum(job.request.loss for job in new) > ledger.terms.limit:
        ledger.charge([job.asked for job in new])
        raise BudgetError("unreachable: the charge refuses")
    for job in new:
        rehearse(ledger, job)
    try:
        for job in new:
            reserve(_temporary(ledger, job.key), keeping.size_of(job.packed, sum(x.size for x in job.x)))
        laws = [level.law for job in new for level in job.request.levels]
        selftest.demand(ledger.folder / "selftest.json", laws, sampler, say)
    except BaseException:
        _unreserve(ledger, new)
        raise


def _unreserve(ledger: Ledger, jobs: Sequence[Job]) -> None:
    for job in jobs:
        with suppress(OSError):
            _temporary(ledger, job.key).unlink()


def demand(ledger: Ledger, job: Job) -> None:
    """What a release must keep whatever the noise will be: the rule's own conditions, and those of the ledger."""
    rules.check(job.publication, groups=job.groups is not None, levels=job.request.shape is not None)
    ledger.demand_new()
    if job.claim is not None:
        demand_claim(str(ledger.path), job.claim, ledger.terms.invariants, ledger.parts())
        ledger.fix(job.claim.values, only_check=True)
    for level in job.request.levels:
        what = "the counts" if job.request.shape is None else f"level {level.name!r}"
        demand_noise(level.law, level.rows, what, accept_weak=job.weak)


def rehearse(ledger: Ledger, job: Job) -> Release:
    """The rule, the statement and the record on made-up counts: what fails fails before the charge."""
    made_up = []
    for x, law in zip(job.x, job.request.laws, strict=True):
        far = 0 if law is None else int(REACH * law.scale) + 1
        made_up.append(x if law is None else np.resize(np.array([far, 0, 1, -far], dtype=np.int64), x.size))
    loss = job.request.loss
    body = {"loss": str(loss), "spent": str(ledger.spent + loss), "time": "2000-01-01"}
    entry = job.charge or Entry(2, "charge", job.key, body, "", "0" * 64)
    release, files = prepare(ledger, job.kept(tuple(made_up), bytes(32)), entry, job.publication, job.about)
    try:
        "".join(files.values()).encode()
    except UnicodeEncodeError:
        raise ParameterError(
            "the words about a release must be text that a file in UTF-8 can have, got other ones"
        ) from None
    return release


def _charge_draw_keep(ledger: Ledger, jobs: Sequence[Job], sampler: Sampler, say: Say | None) -> None:
    """Steps 1 to 3. A signal waits until what is charged is kept."""
    new = [job for job in jobs if job.charge is None]
    values = [job.claim.values for job in jobs if job.claim is not None]
    with undisturbed(say):
        charges = ledger.charge([job.asked for job in new], values)
        for job, charge in zip(new, charges, strict=True):
            job.charge, job.fresh = charge.entry, charge.fresh
        for job in new:
            if not job.fresh:  # cannot happen while its lock is held; then it must not draw
                raise _lost(ledger, job, "another process charged it")
        failed = [(job, reason) for job in new if (reason := _draw_keep(ledger, job, sampler))]
        if failed:
            raise _lost(ledger, *failed[0])


def _draw_keep(ledger: Ledger, job: Job, sampler: Sampler) -> str:
    """Steps 2 and 3 of a fresh charge; the reason where they fail, without any message that could hold a number."""
    try:
        laws = job.request.laws
        noisy = tuple(x if law is None else add_noise(x, law, sampler) for x, law in zip(job.x, laws, strict=True))
        made = job.kept(noisy, secrets.token_bytes(32))
        keeping.write(_temporary(ledger, job.key), kept_path(ledger, job.key), made)
    except Exception as error:
        what = error.strerror if isinstance(error, OSError) else None
        return what or type(error).__name__
    return ""


def _finished(ledger: Ledger, job: Job) -> Release:
    """Step 4; what was charged just now and cannot be published is unfinished, whatever the reason."""
    try:
        kept = replace(kept_of(ledger, job.key), weights=job.weights)
        return replace(_published(ledger, kept, job.publication, job.out, job.about), fresh=job.fresh)
    except (UnfinishedError, LedgerError):
        raise
    except Exception as error:
        if not job.fresh or job.charge is None:
            raise
        why = str(error) if isinstance(error, FairpostError) else place_of(error)
        number = job.charge.seq
    raise UnfinishedError(
        f"{ledger.path}: entry {number} is charged and its noise is kept, but it is not published: {why}; noise that is "
        f"kept is published at no cost, by the same command or by --from-noisy {job.key[:12]}"
    )


def _published(ledger: Ledger, kept: Kept, publication: Publication, out: Path | None, about: About) -> Release:
    """Step 4, out of the kept noise; also all of `from_noisy`. The caller holds the key's lock."""
    charge = ledger.find("charge", kept.key)
    if charge is None:
        raise _uncharged(ledger, kept.key)
    release, files = prepare(ledger, kept, charge, publication, about)
    return publish(ledger, release, files, publication.key(kept.key, about.public()), out)


def from_noisy(
    ledger: Ledger, kept: Kept, publication: Publication, out: Path | None, about: About, claim: Claim | None
) -> Release:
    """Another publication of noise that is kept: post-processing, so no charge."""
    ledger.demand()
    ledger.demand_new()
    shape, public = kept.shape, ledger.terms.public
    if claim is not None or (shape is not None and shape.exact is not None):
        # an exact level is the ledger's, or an earlier version kept it
        demand_claim(str(ledger.path), claim or Claim({}, {}), ledger.terms.invariants, ledger.parts())
    undeclared(ledger.terms, kept.columns, dict(kept.request.get("columns", {})))
    labels = () if shape is None or shape.by == "prefixes" else shape.names[:-1]
    if strange := [name for name in labels if name not in public]:
        raise ParameterError(
            f"the kept levels have the labels of {strange[0]!r}, which the ledger does not list as public"
        )
    prepared = weighed(publication, kept.weights)
    rules.check(prepared, groups=kept.groups is not None, levels=shape is not None)
    if out is not None:
        check_place(out, again=True)
    with locked(ledger.folder / f"{kept.key}.lock"):
        if claim is not None:
            ledger.fix(claim.values)
        return _published(ledger, kept, prepared, out, about)


def kept_of(ledger: Ledger, given: str) -> Kept:
    """The noise that is kept under a key, or under the one key that begins so; 8 digits are enough."""
    if len(given) < 8 or not all(c in "0123456789abcdef" for c in given):
        raise InputError(f"a key is at least 8 hexadecimal digits, got {given[:80]!r}")
    found = sorted(p.name.removesuffix(".noisy") for p in ledger.folder.glob(f"{given}*.noisy"))
    if len(found) != 1:
        raise InputError(f"a key must name one kept noise of {ledger.path}, and {len(found)} begin with {given[:80]}")
    return keeping.read(kept_path(ledger, found[0]), found[0])


def kept_path(ledger: Ledger, key: str) -> Path:
    """Where the noise of a key is kept."""
    return ledger.folder / f"{key}.noisy"


def _temporary(ledger: Ledger, key: str) -> Path:
    return ledger.folder / f".{key}.tmp"


def _sweep(ledger: Ledger, mine: set[str]) -> None:
    """Temporaries that a crash left: those whose lock nobody holds."""
    for path in ledger.folder.glob(".*.tmp"):
        key = path.name[1:-4]
        if key in mine:
            path.unlink(missing_ok=True)
        elif len(key) == 64:
            with locked(ledger.folder / f"{key}.lock", wait=False) as free:
                if free:
                    path.unlink(missing_ok=True)


def _uncharged(ledger: Ledger, key: str) -> LedgerError:
    return LedgerError(f"{ledger.path}: noise is kept that was never charged ({key[:12]}): an old copy of the ledger?")


def _lost(ledger: Ledger, job: Job, why: str) -> UnfinishedError:
    assert job.charge is not None
    return UnfinishedError(
        f"{ledger.path}: entry {job.charge.seq} was charged {job.charge.body['loss']} and its noise is lost ({why}); it is "
        "never drawn again and the charge stays; a new draw needs its own charge (--again LABEL)"
    )


def _stopped(ledger: Ledger, jobs: Sequence[Job], name: str) -> BaseException:
    charged = [job for job in jobs if job.charge is not None]
    if not charged:
        return KeyboardInterrupt()
    lost = [job for job in charged if not kept_path(ledger, job.key).exists()]
    if lost:
        return _lost(ledger, lost[0], f"stopped by {name}")
    numbers = ", ".join(str(job.charge.seq) for job in charged if job.charge is not None)
    return UnfinishedError(
        f"{ledger.path}: stopped by {name} after the charge (entry {numbers}); the noise is kept, and the same command "
        "publishes it at no cost"
    )


def software() -> dict[str, str]:
    """Versions, for the statement."""
    import fairpost

    return {
        "fairpost": fairpost.__version__,
        "opendp": opendp_version(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def place(out: str | os.PathLike[str] | None) -> Path | None:
    """The folder that a name means."""
    return None if out is None else Path(os.path.abspath(out))


# -- a dry run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preview:
    """What a release would charge and publish. Nothing was charged, drawn or written."""

    key: str
    loss: str
    limit: str
    spent: str
    left: str
    fits: bool
    charged_before: bool
    """The request is known: no charge, the same noise."""
    statement: dict[str, Any]
    """The statement as far as it is known before the draw."""
    files: tuple[str, ...]


def preview(ledger: Ledger, job: Job) -> Preview:
    """For `--dry-run`. Of the rehearsal nothing is shown that comes from made-up counts, and no exact total."""
    ledger.demand()
    demand(ledger, job)
    job.key = key_of(ledger, job)
    job.charge = ledger.find("charge", job.key)
    made = rehearse(ledger, job).statement
    made["table"]["sha256"] = "known after the draw"
    for step in made["postprocessing"]:
        step["total_value"] = None
    for item in made["unprotected"]:
        if item["what"].startswith("the exact total"):
            item["value"] = "shown when it is published"
    if job.charge is None:
        made["date"] = "the day of the charge"
        made["budget"] |= {"entry": 0, "hash": "known after the charge"}
    spent, loss, limit, known = ledger.spent, job.request.loss, ledger.terms.limit, job.charge is not None
    fits, left = known or spent + loss <= limit, rounded(limit - spent, up=False)
    return Preview(job.key, str(loss), str(limit), str(spent), left, fits, known, made, FILES)
