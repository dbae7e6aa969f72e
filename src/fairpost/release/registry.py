"""The record for the OpenDP deployments registry (tier 3, YAML) and the schema.org description (JSON-LD).

Field names follow github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml (MIT licence; read in
July 2026). What only the publisher knows comes from `--about`, else it says that it is to be filled in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fairpost.release.seals import STATEMENT, TABLE
from fairpost.release.statement import About

OPEN = "To be filled in by the publisher."
VARIANTS = {"pure": "Pure DP", "zcdp": "Zero-concentrated DP"}


def record(made: Mapping[str, Any], measure: str, about: About) -> dict[str, Any]:
    """The registry's record as data, out of a statement."""
    privacy, budget = made["privacy"], made["budget"]
    title = about.title or budget["name"]
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
                "description": about.description or f"{made['table']['rows']} noisy counts: {budget['name']}.",
                "publication_date": made["date"],
            },
            "dp_variant": {
                "variant_name": VARIANTS[measure],
                "data_domain": f"Vectors of {made['table']['rows']} whole counts, one for each row of a public list.",
                "unprotected_quantities": "; ".join(map(_quantity, made["unprotected"])) + ".",
            },
            "privacy_loss": {
                "privacy_unit": privacy["unit"],
                "privacy_unit_details": f"{privacy['relation'][0].upper()}{privacy['relation'][1:]}. One {privacy['unit']} is in at most "
                f"{privacy['entities_per_person']} of the {_rows(privacy)}, by 1 in each: sensitivity "
                f"{privacy['sensitivity']['value']} ({privacy['sensitivity']['norm']}){_by_level(privacy)}.",
                "privacy_parameters": _parameters(privacy, measure),
                "privacy_parameters_details": _details(made),
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
                "post_processing": "; ".join(map(_step, made["postprocessing"]))
                + ". All of it is a function of the noisy counts.",
                "composition": f"{budget['composition']}: limit {budget['limit']}, spent after this release "
                f"{budget['spent_after']}.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Chosen from: "
                + "; ".join(f"{k}: {v}" for k, v in made["parameters_chosen"].items())
                + f". Other ledgers of these data: {budget['other_ledgers']}.",
                "mechanisms": f"{privacy['mechanism']} {_scales(privacy)} for whole counts; {privacy['sampler']}. "
                f"No floating-point noise. Made by fairpost {made['software']['fairpost']}.",
                "justification": OPEN,
            },
            "administrative": {
                "sources": about.url or f"{TABLE} with {STATEMENT}",
                "registry_authors": list(about.authors) or [OPEN],
            },
        },
    }


def _rows(privacy: Mapping[str, Any]) -> str:
    return f"leaves of level {privacy['hierarchy']['names'][-1]}" if "hierarchy" in privacy else "rows"


def _by_level(privacy: Mapping[str, Any]) -> str:
    """The loss of each level of a hierarchy, and its sensitivity where it is not that of the leaves."""
    if "hierarchy" not in privacy:
        return ""
    parts = (
        f"{level['name']} {level['loss']} (sensitivity {level['sensitivity']['value']})" for level in privacy["levels"]
    )
    return f"; loss by level: {', '.join(parts)}; {privacy['composition']}"


def _scales(privacy: Mapping[str, Any]) -> str:
    if "hierarchy" not in privacy:
        return f"of scale {privacy['scale']}"
    return "of scale " + ", ".join(f"{level['scale']} on level {level['name']}" for level in privacy["levels"])


def _quantity(item: Mapping[str, Any]) -> str:
    value = "" if item["value"] is None else f" ({item['value']})"
    return f"{item['what']}{value}: {item['source']}"


def _step(step: Mapping[str, Any]) -> str:
    return str(step["rule"]) + (f" (total: {step['total']})" if step["total"] else "")


def _parameters(privacy: Mapping[str, Any], measure: str) -> dict[str, float]:
    """Numbers, which the registry asks for; each float is at least the amount."""
    from fractions import Fraction

    from fairpost.release.amounts import float_up

    names = ("epsilon",) if measure == "pure" else ("epsilon", "delta", "rho")
    found = {name: float_up(Fraction(privacy[name])) for name in names if privacy[name] is not None}
    return {name: value for name, value in found.items() if name != "delta" or value > 0}


def _details(made: Mapping[str, Any]) -> str:
    privacy, budget = made["privacy"], made["budget"]
    exact = ", ".join(f"{n} {privacy[n]}" for n in ("epsilon", "delta", "rho") if privacy[n] is not None)
    limit = ", ".join(f"{name} {value}" for name, value in budget["limit_given"].items())
    return f"Exactly: {exact}. The limit for all releases of these data: {limit}."


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
    described = {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": about.title or made["budget"]["name"],
        "description": about.description
        or f"{made['table']['rows']} counts with {made['privacy']['definition']}; see {STATEMENT}.",
        "datePublished": made["date"],
        "measurementTechnique": STATEMENT,
        "variableMeasured": [name for name in made["table"]["columns"] if name in ("count", "share")],
        "distribution": [
            {
                "@type": "DataDownload",
                "contentUrl": TABLE,
                "encodingFormat": "text/csv",
                "sha256": made["table"]["sha256"],
            }
        ],
    }
    if about.curator:
        described["creator"] = {"@type": "Organization", "name": about.curator}
    for name, value in (("url", about.url), ("license", about.license), ("spatialCoverage", about.region)):
        if value:
            described[name] = value
    return described
