"""docs/json.md from the types of the documents: `python tools/json_page.py` writes it, a test compares it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fairpost.results.documents import DOCUMENTS, schema

PAGE = Path(__file__).parents[1] / "docs" / "json.md"
HEAD = """# JSON

What the commands write with `--json`, key by key. Each document names its schema under `schema`, such as `fairpost/audit/1`. The
number grows when a key changes its meaning or goes away; new keys may come under the same number, so a reader should ignore those
that it does not know. Numbers have all their digits, and there is no NaN and no infinity.

The types that write and read the documents give their schemas (JSON Schema, draft 2020-12); the tests hold every command to them:

```python
>>> from fairpost.results import schema
>>> schema("audit")["properties"]["schema"]["const"]
'fairpost/audit/1'
```

`sweep` and `plan` are at number 2: alpha, losses and errors of a point are in one unit, which `unit` names (money where there is a
budget), each with its interval, and a plan has several `targets` in place of `target` and `limit`. In an audit `degenerate` by group is
now the mean over groups for every engine. Losses relative to what is due, targets, verdicts and warnings came as new keys.

With `--entities` an audit can be read back, to the last bit, as the result that Python gives:

```python
>>> import json
>>> import fairpost as fp
>>> found = fp.compare([2, 8, 15, 40, 120, 900], fp.Laplace(scale=10.0), ["simplex", "pos"])
>>> text = json.dumps(found.to_dict(entities=True))
>>> again = fp.Comparison.from_dict(json.loads(text))
>>> again.to_dict(entities=True) == found.to_dict(entities=True), len(again), again[0].alpha == found[0].alpha
(True, 2, True)
```
"""


def words_of(name: str) -> str:
    """The name of a type in words."""
    return re.sub(r"(?<!^)([A-Z])", r" \1", name).lower()


def kind(s: dict[str, Any]) -> str:
    """The type of a value in words."""
    if "const" in s:
        return f"`{s['const']}`"
    if "enum" in s:
        return " or ".join("null" if v is None else f"`{v}`" for v in s["enum"])
    if "$ref" in s:
        name = s["$ref"].rpartition("/")[2]
        return f"[{words_of(name)}](#{{command}}-{words_of(name).replace(' ', '-')})"
    if "anyOf" in s:
        return " or ".join(kind(some) for some in s["anyOf"])
    if s.get("type") == "array":
        return f"list of {kind(s['items'])}"
    types = s["type"] if isinstance(s["type"], list) else [s["type"]]
    return " or ".join(types)


def rows(s: dict[str, Any], path: str = "") -> list[str]:
    """One row per key; objects that have no name of their own are opened on the spot."""
    out = []
    for key, value in s.get("properties", {}).items():
        optional = "" if key in s["required"] else " (optional)"
        out.append(f"| `{path}{key}`{optional} | {kind(value)} | {value.get('description', '')} |")
        inner = next((some for some in [value, *value.get("anyOf", [])] if "properties" in some), None)
        if inner is not None:
            out += rows(inner, f"{path}{key}.")
    for value in s.get("patternProperties", {}).values():
        key, _, meaning = value["description"].partition(": ")
        out.append(f"| `{path}{key}` (optional) | {kind(value)} | {meaning} |")
    return out


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for command in DOCUMENTS:
        s = schema(command)
        tables = [(f"## {command}", s)]
        tables += [(f"### {command} {words_of(name)}", part) for name, part in s["$defs"].items()]
        for title, part in tables:
            words = part.get("description", f"{s['title']}.")
            table = "\n".join(["| key | type | meaning |", "|---|---|---|", *rows(part)])
            parts.append(f"{title}\n\n{words[0].upper()}{words[1:]}\n\n{table}\n".replace("{command}", command))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
