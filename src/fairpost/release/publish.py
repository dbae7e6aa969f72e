"""Step 4: table, statement, registry record and description, as a folder that appears whole or not at all.

The files are written into a folder with a fixed temporary name beside the place, brought to the disk, and the folder is
renamed: on POSIX a folder can take the place of nothing or of an empty folder, and of nothing else.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpost.errors import FairpostError, InputError, LedgerError, UnfinishedError
from fairpost.io.files import without_formula
from fairpost.release import registry, rules, tree_rules
from fairpost.release.chain import Entry, canonical, digest
from fairpost.release.kept import Kept
from fairpost.release.ledger import Ledger
from fairpost.release.noise import Law
from fairpost.release.request import Publication
from fairpost.release.seals import DATASET, REGISTRY, STATEMENT, TABLE
from fairpost.release.statement import About, Facts, as_text, statement
from fairpost.whole import sync_folder

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A finished release: the table, its statement, and the key of its noise."""

    table: pl.DataFrame
    """One row per entity: id, group where there are groups, count (or share). Of levels: one row per node, with its level,
    count, measurement and unclipped estimate."""
    statement: dict[str, Any]
    key: str
    """For `from_noisy`: the name of the kept noise."""
    folder: Path | None
    """Where the files are, where they were asked for."""
    fresh: bool
    """Whether this call charged the ledger."""

    def __repr__(self) -> str:
        budget = self.statement["budget"]
        return f"Release(rows={self.statement['table']['rows']}, loss={budget['loss']}, entry={budget['entry']})"


def prepare(
    ledger: Ledger, kept: Kept, charge: Entry, publication: Publication, about: About
) -> tuple[Release, dict[str, str]]:
    """The release and the text of its files: a function of the kept noise, its charge and what is asked for."""
    import fairpost

    outcome, frame = (_one if "hierarchy" not in kept.request else tree_rules.apply)(publication, kept)
    table = (_safe(frame) if publication.csv_safe else frame).write_csv()
    software = {**kept.software, "published_with": f"fairpost {fairpost.__version__}"}
    facts = Facts(
        terms=ledger.terms,
        charge=charge,
        request=kept.request,
        publication=publication,
        outcome=outcome,
        columns=frame.columns,
        rows=frame.height,
        table_sha256=digest(table),
        software=software,
    )
    made = statement(facts)
    files = {
        TABLE: table,
        STATEMENT: as_text(made),
        REGISTRY: registry.yaml(registry.record(made, ledger.terms.measure, about)),
        DATASET: as_text(registry.dataset(made, about)),
    }
    return Release(frame, made, kept.key, None, False), files


def _one(publication: Publication, kept: Kept) -> tuple[rules.Outcome, pl.DataFrame]:
    """One level of counts: the rule's outcome and its table."""
    import polars as pl

    level = kept.request["levels"][-1]
    law = Law(level["mechanism"], float(level["scale"]))
    outcome = rules.apply(
        publication, kept.levels[-1], law, groups=kept.groups, weights=kept.weights, key=kept.rounding
    )
    columns: dict[str, pl.Series] = {"id": kept.column()}
    if kept.groups is not None:
        columns["group"] = pl.Series("group", kept.groups, dtype=pl.String)
    columns[outcome.name] = pl.Series(outcome.name, _whole(outcome.values))
    return outcome, pl.DataFrame(columns)


def _safe(frame: pl.DataFrame) -> pl.DataFrame:
    """The table whose text no spreadsheet takes for a formula."""
    import polars as pl

    return frame.with_columns(pl.col(pl.String).map_elements(without_formula, return_dtype=pl.String))


def _whole(values: Any) -> Any:
    """Whole numbers as such, where all of them are."""
    if values.dtype.kind == "f" and bool(np.all((values == np.floor(values)) & (np.abs(values) < 2.0**52))):
        return values.astype(np.int64)
    return values


def check_place(out: Path, *, again: bool) -> None:
    """The folder must be free, or (again: the request was charged before) may hold this very release."""
    if out.is_dir():
        if not again and any(out.iterdir()):
            raise InputError(f"{out}: the folder of a release must be new or empty, and it is not")
    elif out.exists() or out.is_symlink():
        raise InputError(f"{out}: the place of a release must be a folder, got something else")
    elif not out.parent.is_dir():
        raise InputError(f"{out}: the folder above a release must exist, got {out.parent}")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise InputError(f"{out}: no permission to write in {out.parent}")


def publish(ledger: Ledger, release: Release, files: Mapping[str, str], publication: str, out: Path | None) -> Release:
    """Write the files, whole or none, and record their digests; the second time find them there, or record another place."""
    sealed = {name: digest(content) for name, content in files.items()}
    known = ledger.find("done", publication)
    if known is not None and known.body["statement"] != sealed[STATEMENT]:
        raise LedgerError(
            f"{ledger.path}: this release was published with another statement (entry {known.seq}); the published one "
            "stands (was another version of fairpost at work?)"
        )
    if out is not None:
        _place(out, files, publication)
    body = {"of": release.key, "files": sealed, "folder": None if out is None else str(out)}
    try:
        if known is None:
            exact = release.statement["postprocessing"][0]["total"] in ("public", "exact")
            ledger.done(publication, {**body, "statement": sealed[STATEMENT], "table": sealed[TABLE], "exact": exact})
        elif out is not None and known.body["folder"] != str(out):
            ledger.copied(digest(canonical([publication, str(out)])), {**body, "publication": publication})
    except LedgerError:
        raise
    except FairpostError as error:
        raise UnfinishedError(
            f"{error}; the release is whole, and only its entry is missing: the same command makes it at no cost"
        ) from None
    return Release(release.table, release.statement, release.key, out, release.fresh)


def _place(out: Path, files: Mapping[str, str], publication: str) -> None:
    temporary = out.with_name(f".{out.name}.{publication[:16]}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # left over from a crash of this very publication, whose lock is held
    if _there(out, files):
        return
    try:
        temporary.mkdir()
        for name, content in files.items():
            with (temporary / name).open("wb") as file:
                file.write(content.encode())
                file.flush()
                os.fsync(file.fileno())
        sync_folder(temporary)
        temporary.rename(out)
        sync_folder(out.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and _there(out, files):
            return
        raise UnfinishedError(
            f"{out}: the release is charged and its noise is kept, but it could not be written: "
            f"{error.strerror or type(error).__name__}; the same command finishes it at no cost"
        ) from None
    finally:
        with suppress(OSError):
            shutil.rmtree(temporary, ignore_errors=True)


def _there(out: Path, files: Mapping[str, str]) -> bool:
    """Whether the folder holds exactly these files; an error where it holds others."""
    if not out.is_dir() or not any(out.iterdir()):
        return False
    for name, content in files.items():
        try:
            same = (out / name).read_bytes() == content.encode()
        except OSError:
            same = False
        if not same:
            raise InputError(f"{out}: the folder must be new, empty or hold this very release, and {name} is not its")
    return True
