"""The OpenAPI document of the API, by hand; a test compares it with the routes."""

from __future__ import annotations

from typing import Any

from fairpost import __version__
from fairpost.explore.export import KINDS
from fairpost.hierarchy.rules import RULES
from fairpost.noise import MECHANISMS
from fairpost.problems.programme import NAMES
from fairpost.results.targets import LIMITS
from fairpost.rules import PAYING, POSTPROCESSINGS

NUMBER, FLAG, TEXT, WHOLE = (
    {"type": "number"},
    {"type": "boolean"},
    {"type": "string", "maxLength": 200},
    {"type": "integer", "minimum": 0},
)
NOISE = {
    "mechanism": {"enum": list(MECHANISMS), "default": "laplace"},
    "epsilon": NUMBER, "scale": NUMBER, "sigma": NUMBER, "rho": NUMBER, "delta": NUMBER, "sensitivity": NUMBER | {"default": 1.0},
}  # fmt: skip
ABOUT = (
    "JSON under the live page of `fairpost explore`, on 127.0.0.1 alone. Requests need the cookie that the printed link sets; the Host "
    "must be this server's and an Origin, if sent, too. Results have the schemas of `--json` (see json.md). With `Accept: "
    "application/x-ndjson` a long request answers with one JSON object per line: `interpolated`, `progress`, then `done`, `cancelled` or "
    "`error`. A request cancels the one before it of the same tab (header X-Fairpost-Tab) in the same route."
)


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def schemas() -> dict[str, Any]:
    """What is sent."""
    audit = NOISE | {
        "postprocess": {"type": "array", "items": {"enum": [*POSTPROCESSINGS, *PAYING]}, "maxItems": 32},
        "total": NUMBER, "budget": NUMBER, "by_group": FLAG, "programme": {"enum": list(NAMES)},
        "method": {"enum": ["auto", "exact", "expansion", "conditional", "monte-carlo"], "default": "auto"},
        "runs": WHOLE, "seed": WHOLE, "confidence": NUMBER,
        "targets": _object(dict.fromkeys(LIMITS, NUMBER)), "any_error": FLAG,
        "unit": TEXT, "noun": TEXT, "currency": TEXT,
    }  # fmt: skip
    shares = NOISE | {
        "postprocess": {"type": "array", "items": {"enum": ["baseline", "pos", "pos-threshold", *PAYING]}},
        "budget": NUMBER, "group_budget": {"type": "object", "additionalProperties": NUMBER}, "programme": {"enum": list(NAMES)},
        "confidence": NUMBER, "simultaneous": FLAG, "estimate": FLAG, "seed": WHOLE,
    }  # fmt: skip
    levels = {
        "rho": NUMBER, "split": {"type": "array", "items": NUMBER, "maxItems": 16}, "mechanism": NOISE["mechanism"],
        "postprocess": {"type": "array", "items": {"enum": list(RULES)}}, "runs": WHOLE, "seed": WHOLE, "entities": FLAG, "most": WHOLE,
    }  # fmt: skip
    columns = dict.fromkeys(
        ("id", "count", "weight", "group", "label", "base", "levels", "unit", "noun", "currency"), TEXT
    )
    return {
        "Choices": _object(audit),
        "AuditChoices": _object(audit | {"entities": FLAG}),
        "PictureChoices": _object(audit | {"have": TEXT, "quick": FLAG}),
        "ShareChoices": _object(shares),
        "LevelChoices": _object(levels),
        "Columns": _object(columns),
        "Stop": _object({"lane": TEXT}),
        "Error": _object({"error": {"type": "string"}}, required=["error"]),
    }


def _post(said: str, given: str | None, result: str, *, streams: bool = True) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": {"description": result, "type": "object"}}}
    if streams:
        content["application/x-ndjson"] = {
            "schema": {"description": f"Lines; the last has {result} as `result`.", "type": "string"}
        }
    out: dict[str, Any] = {"summary": said, "responses": _responses({"description": result, "content": content})}
    if given is not None:
        schema = {"$ref": f"#/components/schemas/{given}"}
        out["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return out


def _responses(good: dict[str, Any], status: str = "200") -> dict[str, Any]:
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    refused: dict[str, Any] = {"content": {"text/plain": {}}}
    return {
        status: good,
        "400": {"description": "The input breaks a rule: one line.", **error},
        "401": {"description": "No valid cookie.", **refused},
        "403": {"description": "From another site.", **refused},
        "409": {"description": "Withdrawn: a newer request, a stop, or the data were forgotten.", **error},
        "413": {"description": "Too long.", **refused},
        "421": {"description": "Another host.", **refused},
        "422": {"description": "No engine answers: one line.", **error},
    }


def _get(said: str, result: str) -> dict[str, Any]:
    return {"summary": said, "responses": _responses({"description": result, "content": {"application/json": {}}})}


def document() -> dict[str, Any]:
    """The whole document."""
    file = {
        "type": "object",
        "required": ["file"],
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "mode": {"enum": ["officer", "analyst"]},
            "format": TEXT,
        },
    }
    upload = {
        "summary": "A table, kept in memory", "responses": _responses({"description": "To the page."}, "303"),
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": file}}},
    }  # fmt: skip
    kind = {"name": "kind", "in": "path", "required": True, "schema": {"enum": list(KINDS)}}
    paths = {
        "/api/state": {"get": _get("What is held", "mode, file, columns, groups, levels, defaults")},
        "/api/openapi.json": {"get": _get("This document", "OpenAPI 3.1")},
        "/api/preview": {"get": _get("The columns and ten rows", "columns, rows, height, guess")},
        "/api/upload": {"post": upload},
        "/api/columns": {"post": _post("What the columns mean", "Columns", "the state", streams=False)},
        "/api/forget": {"post": _post("Drop everything now", None, "forgotten", streams=False)},
        "/api/stop": {"post": _post("End what this tab has under way", "Stop", "stopped: how many", streams=False)},
        "/api/audit": {"post": _post("Biases, alpha, cost of privacy", "AuditChoices", "fairpost/audit/1")},
        "/api/picture": {"post": _post("The same, packed for the page", "PictureChoices", "arrays and words")},
        "/api/plan": {"post": _post("The smallest epsilon that meets the targets", "Choices", "fairpost/plan/1")},
        "/api/sweep": {"post": _post("The same quantities against epsilon", "Choices", "fairpost/sweep/1")},
        "/api/frontier": {"post": _post("Fairness against accuracy", "Choices", "`frontier` of fairpost/audit/1")},
        "/api/levels": {"post": _post("Every level of a hierarchy", "LevelChoices", "fairpost audit --levels --json")},
        "/api/allocate": {"post": _post("Shares from noisy counts", "ShareChoices", "fairpost/allocate/1")},
        "/api/export/{kind}": {
            "post": _post("A file to keep", "Choices", "the file", streams=False) | {"parameters": [kind]}
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "fairpost explore", "version": __version__, "description": ABOUT},
        "paths": paths,
        "components": {"schemas": schemas()},
    }
