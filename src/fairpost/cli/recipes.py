"""The Python lines that find the same numbers as a command: what a page offers beside the command itself.

They are made from the same options that the command was run with, and a test runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairpost.cli import options as o
from fairpost.noise import Law, Mechanism

ENGINE = ("rtol", "runs", "seed", "confidence", "threads", "checkpoint", "cluster")


def _call(name: str, *first: str, **more: Any) -> str:
    """A call as text; arguments that are None or empty are left out."""
    kept = [f"{k}={v!r}" for k, v in more.items() if v is not None and v != () and v is not False]
    return f"{name}({', '.join([*first, *kept])})"


def _reader(name: str, file: str, given: o.Given, *more: str) -> str:
    read = {k: v for k, v in o.columns(given).items() if k != "say" and v != ()}
    named = read | {k: v for k, v in o.names(given).items() if v}
    return _call(name, repr(file), *more, **{k: list(v) if isinstance(v, tuple) else v for k, v in named.items()})


def _counts(file: str, given: o.Given) -> tuple[list[str], list[str]]:
    """The lines that import and that read the true counts."""
    if given["group_budget"] is None:
        return [], [f"counts = {_reader('fp.read_counts', file, given)}"]
    read = _reader("read_group_budgets", file, given, repr(given["group_budget"]))
    return ["from fairpost.io import read_group_budgets"], [f"counts, budget = {read}"]


def _asked(file: str, given: o.Given, law: dict[str, Any]) -> tuple[list[str], list[str], str]:
    """What `compare`, `sweep` and `plan` take beside counts, noise and rules: imports, lines before the call, arguments."""
    imports: list[str] = []
    lines: list[str] = []
    parts: list[str] = []
    settings = {k: given.get(k) for k in ENGINE}
    if any(v is not None for v in settings.values()):
        imports.append("from fairpost.engines import engine_of")
        parts.append(f"engine={_call('engine_of', repr(given['method']), **settings)}")
    elif given["method"] != "auto":
        parts.append(f"engine={given['method']!r}")
    if given["total"] is not None:
        parts.append(f"total={given['total']!r}")
    if given["group_budget"] is not None:
        parts.append("budget=budget")
    elif given["budget"] is not None:
        parts.append(f"budget={given['budget']!r}")
    if given["by_group"]:
        parts.append("by_group=True")
    if law:
        more = _law(file, given, law)
        imports, lines, parts = imports + more[0], lines + more[1], [*parts, "programme=law", *more[2]]
    return imports, lines, ", ".join(parts)


def _law(file: str, given: o.Given, law: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """A law, last year's payments where it holds them, and noise on its base: imports, lines, arguments."""
    imports = ["from fairpost.io import read_programme"]
    lines, parts = [f"law = read_programme({given['programme']!r})"], []
    if law.get("last") is not None:
        read = {
            k: list(v) if isinstance(v, tuple) else v for k, v in o.columns(given).items() if k != "say" and v != ()
        }
        column = _call("read_column", repr(file), "law.hold_harmless.last", '"last year\'s payments"', **read)
        imports.append("from fairpost.io import read_column")
        own = given["group_budget"] is not None
        imports += ["from fairpost.budgets import whole"] if own else []
        lines.append(f"last = {column} / {'whole(budget)' if own else repr(given['budget'])}")
        parts.append("last=last")
    if law.get("base_noise") is not None:
        noise = law["base_noise"]
        parts.append(f"base_noise={noise!r}" if isinstance(noise, str) else f"base_noise=fp.{noise!r}")
    return imports, lines, parts


def _joined(imports: list[str], lines: list[str]) -> str:
    return "\n".join(["import fairpost as fp", *dict.fromkeys(imports), "", *lines])


def audit_lines(
    file: str, given: o.Given, mechanism: Law, rules: Sequence[str], law: dict[str, Any] | None = None
) -> str:
    """The lines of `fairpost audit`."""
    more, before, asked = _asked(file, given, law or {})
    imports, lines = _counts(file, given)
    lines += before
    targets = o.targets_of(given).to_dict()
    rest = [p for p in (asked, f"targets={targets!r}" if targets else "") if p]
    lines.append(f"noise = fp.{mechanism!r}")
    lines.append(f"results = fp.compare({', '.join(['counts', 'noise', repr(list(rules)), *rest])})")
    lines.append("print(results)")
    return _joined(imports + more, lines)


def sweep_lines(file: str, given: o.Given, spreads: Sequence[float], rules: Sequence[str], law: dict[str, Any]) -> str:
    """The lines of `fairpost sweep`."""
    more, before, asked = _asked(file, given, law)
    imports, lines = _counts(file, given)
    lines += before
    levels = f"grid({spreads[0]!r}, {spreads[-1]!r}, {len(spreads)})"
    kind = "MECHANISMS[" + repr(given["mechanism"]) + "]"
    rest = [p for p in (asked,) if p]
    lines.append(f"noises = [{kind}(s) for s in {levels}]")
    lines.append(f"curve = fp.sweep({', '.join(['counts', 'noises', repr(list(rules)), *rest])})")
    lines.append("print(curve)")
    imports += ["from fairpost.noise import MECHANISMS", "from fairpost.plan import grid", *more]
    return _joined(imports, lines)


def plan_lines(file: str, given: o.Given, spreads: Sequence[float], rules: Sequence[str], law: dict[str, Any]) -> str:
    """The lines of `fairpost plan`."""
    more, before, asked = _asked(file, given, law)
    imports, lines = _counts(file, given)
    lines += before
    targets = ", ".join(f"{k}={v!r}" for k, v in o.targets_of(given).to_dict().items())
    targets += ", any_error=True" if given["any_error"] else ""
    levels = f"spreads=grid({spreads[0]!r}, {spreads[-1]!r}, {len(spreads)})"
    kind = f"MECHANISMS[{given['mechanism']!r}]"
    rest = [p for p in (levels, targets, asked) if p]
    lines.append(f"plans = fp.plan({', '.join(['counts', kind, repr(list(rules)), *rest])})")
    lines.append("print(plans)")
    imports += ["from fairpost.noise import MECHANISMS", "from fairpost.plan import grid", *more]
    return _joined(imports, lines)


def allocate_lines(
    file: str, given: o.Given, mechanism: Law | None, rules: Sequence[str], law: dict[str, Any] | None = None
) -> str:
    """The lines of `fairpost allocate`."""
    own = given["group_budget"] is not None
    settings: dict[str, Any] = {"budget": None if own else given["budget"], "by_group": given["by_group"]}
    if mechanism is not None:
        settings |= {k: given[k] for k in ("confidence", "simultaneous", "replicates", "seed")}
    noise, purse = "None" if mechanism is None else f"fp.{mechanism!r}", ["budget=budget"] if own else []
    reader = _reader("read_rows", file, given)
    if own:
        reader = _reader("read_row_budgets", file, given, repr(given["group_budget"]))
    imports = ["from fairpost.io import read_row_budgets" if own else "from fairpost.io import read_rows"]
    lines = [f"noisy{', budget' if own else ''} = {reader}"]
    if law:
        more, before, parts = _law(file, given, law)
        imports, lines = ["from fairpost.allocate import by_law", *imports, *more], lines + before
        call = _call("by_law", "noisy", "law", "how", noise, *purse, *parts, **settings)
    else:
        labels = ["ids=noisy.ids", "groups=noisy.groups", "names=noisy.names", *purse]
        settings |= {} if mechanism is None else {"estimate_bias": True}
        call = _call("fp.allocate", "noisy.values", "noisy.weights", "how", noise, *labels, **settings)
    lines += [f"found = [{call} for how in {list(rules)!r}]", "print(*found, sep='\\n')"]
    return _joined(imports, lines)


def project_lines(file: str, given: o.Given, mechanism: Law | None, seed: int | None) -> str:
    """The lines of `fairpost project`; the seed of the rounding is the one that was drawn."""
    more = [] if given["group_total"] is None else [f"total={given['group_total']!r}"]
    lines = [f"noisy = {_reader('read_rows', file, given, *more)}"]
    total = repr(given["total"])
    if given["group_total"] is not None:
        lines.append("totals = noisy.totals.tolist()")
        lines.append("total = totals[0] if noisy.groups is None else dict(zip(noisy.groups, totals))")
        total = "total"
    noise = "None" if mechanism is None else f"fp.{mechanism!r}"
    keeps = given["group"] is not None or given["group_total"] is not None  # else groups are labels
    first = ["noisy.values", repr(given["postprocess"]), total, "noisy.groups" if keeps else "None", noise]
    labels = ["ids=noisy.ids", "names=noisy.names", "kept=noisy.kept"]
    settings = {"round": given["whole"], "seed": seed if given["whole"] else None}
    lines.append(f"found = {_call('fp.project', *first, *labels, **settings)}")
    return _joined(["from fairpost.io import read_rows"], [*lines, "print(found)"])


def check_lines(given: o.Given, columns: Sequence[dict[str, Any]], mechanism: Mechanism | None) -> str:
    """The lines of `fairpost check`; `columns`: how each release was read."""
    read = [
        _call("read_rows", repr(file), **{k: list(v) if isinstance(v, tuple) else v for k, v in how.items() if v})
        for file, how in zip(given["released"], columns, strict=True)
    ]
    noise = [] if mechanism is None else [f"fp.{mechanism!r}"]
    settings = {"names": list(given["released"]), "confidence": given["confidence"]}
    lines = [
        f"true = {_reader('fp.read_counts', given['true'], given)}",
        f"released = [{', '.join(read)}]",
        f"found = {_call('fp.check', 'true', 'released', *noise, **settings)}",
        "print(found)",
    ]
    return _joined(["from fairpost.io import read_rows"], lines)


def levels_lines(
    file: str, given: o.Given, levels: dict[str, int] | list[str], kind: str, rules: Sequence[str], runs: int
) -> str:
    """The lines of `fairpost audit --levels`; `kind` is the noise and `runs` the number of runs that it took."""
    group, areas = given["group"], given["areas"]
    labels = [*(levels if isinstance(levels, list) else ()), *(c for c in (areas, group) if c)]
    named = {"id": given["id"], "count": given["count"], "labels": labels}
    named |= {k: list(v) if isinstance(v, tuple) else v for k, v in o.reading(given).items() if k != "say"}
    read = _call("read_leaves", repr(file), **{k: v for k, v in named.items() if v})
    tree = f"fp.Hierarchy.from_geoids(leaves.ids, {levels!r})"
    if isinstance(levels, list):
        columns = f"[leaves.labels[name] for name in {levels!r}]"
        tree = f"fp.Hierarchy.from_labels({columns}, {[*levels, given['id'] or 'id']!r}, ids=leaves.ids)"
    numbers = {k: [float(v) for v in given[k].split(",")] for k in ("level_sigma", "split") if given[k] is not None}
    exact = [name.strip() for name in given["exact"].split(",")] if given["exact"] else None
    spent = None if given["rho"] is None else given["sensitivity"]
    noise = _call(
        "fp.LevelNoise", "tree", sigmas=numbers.get("level_sigma"), rho=given["rho"], split=numbers.get("split"),
        exact=exact, kind=kind, sensitivity=spent,
    )  # fmt: skip
    more = [f"{name}=leaves.labels[{column!r}]" for name, column in (("groups", group), ("areas", areas)) if column]
    settings = {"method": given["method"], "runs": runs, "seed": given["seed"], "confidence": given["confidence"]}
    call = _call("fp.audit_hierarchy", "leaves.values", "noise", "rule", *more, **settings)
    lines = [
        f"leaves = {read}",
        f"tree = {tree}",
        f"noise = {noise}",
        f"results = [{call} for rule in {list(rules)!r}]",
    ]
    return _joined(["from fairpost.io import read_leaves"], [*lines, "print(*results, sep='\\n')"])
