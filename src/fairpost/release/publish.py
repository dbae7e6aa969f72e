"""Step 4: table, statement, registry record and description, as a folder that appears whole or not at all.

The files are written into a folder with a fixed temporary name beside the place, brought to the disk, and the folder is
renamed: on POSIX a folder can take the place of nothing or of an empty folder, and of nothing else.

*The record* for the OpenDP deployments registry (tier 3, YAML) and the schema.org description (JSON-LD) are made from the statement.
Field names follow github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml (MIT licence; read in
July 2026). What only the publisher knows comes from `--about`, else it says that it is to be filled in.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairpost.errors import FairpostError, InputError, LedgerError, UnfinishedError
from fairpost.io.files import without_formula
from fairpost.release import rules
from fairpost.release.amounts import float_up
from fairpost.release.chain import DATASET, REGISTRY, STATEMENT, TABLE, Entry, canonical, digest
from fairpost.release.kept import Kept
from fairpost.release.ledger import Ledger
from fairpost.release.request import Publication
from fairpost.release.statement import Facts, as_text, statement
from fairpost.whole import sync_folder

if TYPE_CHECKING:
    import polars as pl

OPEN = "To be filled in by the publisher."
VARIANTS = {"pure": "Pure DP", "zcdp": "Zero-concentrated DP"}


@dataclass(frozen=True)
class About:
    """Words of the publisher for the registry's record and the dataset's description; all optional."""

    title: str = ""
    description: str = ""
    curator: str = ""
    region: str = ""
    intended_use: str = ""
    authors: tuple[str, ...] = ()
    url: str = ""
    license: str = ""

    def public(self) -> dict[str, Any]:
        """The words that were given."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items() if v}


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
    import polars as pl

    outcome, frame = rules.apply(publication, kept)
    safe = frame
    if publication.csv_safe:  # no spreadsheet takes its text for a formula
        safe = frame.with_columns(pl.col(pl.String).map_elements(without_formula, return_dtype=pl.String))
    table = safe.write_csv()
    made = statement(Facts(ledger.terms, charge, kept, publication, outcome, frame.columns, frame.height, table))
    described = {REGISTRY: yaml(record(made, ledger.terms.measure, about)), DATASET: as_text(dataset(made, about))}
    return Release(frame, made, kept.key, None, False), {TABLE: table, STATEMENT: as_text(made), **described}


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
            ledger.record(
                "done", publication, {**body, "statement": sealed[STATEMENT], "table": sealed[TABLE], "exact": exact}
            )
        elif out is not None and known.body["folder"] != str(out):
            ledger.record("copy", digest(canonical([publication, str(out)])), {**body, "publication": publication})
    except LedgerError:
        raise
    except FairpostError as error:
        raise UnfinishedError(
            f"{error}; the release is whole, and only its entry is missing: the same command makes it at no cost"
        ) from None
    return replace(release, folder=out)


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


# -- the record and the description ------------------------------------------------------------------------------------


def record(made: Mapping[str, Any], measure: str, about: About) -> dict[str, Any]:
    """The registry's record as data, out of a statement."""
    privacy, budget, rows = made["privacy"], made["budget"], made["table"]["rows"]
    title, sensitivity = about.title or budget["name"], privacy["sensitivity"]
    leaves, by_level, scales = "rows", "", privacy["scale"]
    if "hierarchy" in privacy:
        leaves, levels = f"leaves of level {privacy['hierarchy']['names'][-1]}", privacy["levels"]
        losses = (f"{v['name']} {v['loss']} (sensitivity {v['sensitivity']['value']})" for v in levels)
        by_level = f"; loss by level: {', '.join(losses)}; {privacy['composition']}"
        scales = ", ".join(f"{v['scale']} on level {v['name']}" for v in levels)
    stated = {name: privacy[name] for name in ("epsilon", "delta", "rho") if privacy[name] is not None}
    exactly = ", ".join(f"{name} {amount}" for name, amount in stated.items())
    limit = ", ".join(f"{name} {amount}" for name, amount in budget["limit_given"].items())
    # the registry asks for numbers: each float is at least the amount
    floats = {name: float_up(Fraction(v)) for name, v in stated.items() if measure == "zcdp" or name == "epsilon"}
    shown = (
        f"{item['what']}{'' if item['value'] is None else ' (' + item['value'] + ')'}: {item['source']}"
        for item in made["unprotected"]
    )
    steps = (step["rule"] + (f" (total: {step['total']})" if step["total"] else "") for step in made["postprocessing"])
    chosen = "; ".join(f"{name}: {word}" for name, word in made["parameters_chosen"].items())
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_") or "release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": title,
                "data_curators": [about.curator or OPEN],
                "intended_use": about.intended_use or OPEN,
                "data_product_type": "Summary statistics",
                "data_product_region": about.region or OPEN,
                "description": about.description or f"{rows} noisy counts: {budget['name']}.",
                "publication_date": made["date"],
            },
            "dp_variant": {
                "variant_name": VARIANTS[measure],
                "data_domain": f"Vectors of {rows} whole counts, one for each row of a public list.",
                "unprotected_quantities": "; ".join(shown) + ".",
            },
            "privacy_loss": {
                "privacy_unit": privacy["unit"],
                "privacy_unit_details": f"{privacy['relation'][0].upper()}{privacy['relation'][1:]}. One {privacy['unit']} is in "
                f"at most {privacy['entities_per_person']} of the {leaves}, by 1 in each: sensitivity {sensitivity['value']} "
                f"({sensitivity['norm']}){by_level}.",
                "privacy_parameters": {name: v for name, v in floats.items() if name != "delta" or v > 0},
                "privacy_parameters_details": f"Exactly: {exactly}. The limit for all releases of these data: {limit}.",
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The curator holds the true counts and adds the noise before anything is published.",
                "release_type": "One release",
                "release_type_details": f"Entry {budget['entry']} of a ledger; further releases of these data are charged to it.",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": f"{'; '.join(steps)}. All of it is a function of the noisy counts.",
                "composition": f"{budget['composition']}: limit {budget['limit']}, spent after this release "
                f"{budget['spent_after']}.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"Chosen from: {chosen}. Other ledgers of these data: "
                f"{budget['other_ledgers']}.",
                "mechanisms": f"{privacy['mechanism']} of scale {scales} for whole counts; {privacy['sampler']}. "
                f"No floating-point noise. Made by fairpost {made['software']['fairpost']}.",
                "justification": OPEN,
            },
            "administrative": {
                "sources": about.url or f"{TABLE} with {STATEMENT}",
                "registry_authors": list(about.authors) or [OPEN],
            },
        },
    }


def yaml(data: Any, indent: int = 0) -> str:
    """Nested mappings, lists of texts, texts, numbers: texts are quoted as in JSON, which is YAML too."""
    pad = "  " * indent
    lines = []
    for name, value in data.items():
        if isinstance(value, dict):
            lines.append(f"{pad}{name}:\n{yaml(value, indent + 1)}")
        elif isinstance(value, list):
            items = "".join(f"{pad}  - {_scalar(item)}\n" for item in value)
            lines.append(f"{pad}{name}:\n{items}")
        else:
            lines.append(f"{pad}{name}: {_scalar(value)}\n")
    return "".join(lines)


def _scalar(value: str | int | float) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        mantissa, e, exponent = repr(value).partition("e")  # 1e-10 is a text to YAML 1.1, 1.0e-10 a number
        return repr(value) if not e else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
    return str(value)


def dataset(made: Mapping[str, Any], about: About) -> dict[str, Any]:
    """schema.org Dataset, with the statement as its measurement technique."""
    table, definition = made["table"], made["privacy"]["definition"]
    file = {"@type": "DataDownload", "contentUrl": TABLE, "encodingFormat": "text/csv", "sha256": table["sha256"]}
    described = {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": about.title or made["budget"]["name"],
        "description": about.description or f"{table['rows']} counts with {definition}; see {STATEMENT}.",
        "datePublished": made["date"],
        "measurementTechnique": STATEMENT,
        "variableMeasured": [name for name in table["columns"] if name in ("count", "share")],
        "distribution": [file],
    }
    if about.curator:
        described["creator"] = {"@type": "Organization", "name": about.curator}
    words = {"url": about.url, "license": about.license, "spatialCoverage": about.region}
    return described | {name: value for name, value in words.items() if value}
