"""The pages say what the program does: examples run, commands print what is shown, options and links exist."""

import doctest
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import fairpost as fp
import fairpost.io
from fairpost.cli.main import COMMANDS, main
from support.places import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
OPTION = re.compile(r"`(--[a-z-]+)`")


def blocks(page: Path) -> list[tuple[str, str]]:
    """(info, body) of every fenced block."""
    return [(m[1], m[2]) for m in FENCE.finditer(page.read_text())]


def write_files(page: Path) -> None:
    """The files that a page shows with a title, in this folder."""
    for info, body in blocks(page):
        if found := re.search(r'title="([^"/]+)"', info):
            Path(found[1]).write_text(body)


def section(text: str, title: str) -> str:
    """From a heading to the next one of its level or above."""
    level, rest = re.search(rf"^(#+) {re.escape(title)}$(.*)", text, re.MULTILINE | re.DOTALL).groups()
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


# ---------------------------------------------------------------- examples


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda p: p.name)
def test_python_examples_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(page)
    source = "\n".join(body for info, body in blocks(page) if info.startswith("python") and ">>>" in body)
    examples = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(examples, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def test_the_pages_that_promise_examples_have_them():
    for name in (
        "index",
        "quickstart",
        "files",
        "check",
        "letters",
        "choosing",
        "report",
        "theory",
        "monte-carlo",
        "api",
    ):
        assert ">>>" in (DOCS / f"{name}.md").read_text(), name


@pytest.mark.parametrize("name", ["quickstart", "cli", "files", "check"])
def test_commands_print_what_is_shown(name, tmp_path, monkeypatch):
    """What a shell shows, stdout and stderr as they come; a line `exit code N` stands for the code, and its absence for 0."""
    monkeypatch.chdir(tmp_path)
    for page in ("quickstart", name):
        write_files(DOCS / f"{page}.md")
    shown = "".join(body for info, body in blocks(DOCS / f"{name}.md") if info.startswith("console"))
    commands = re.findall(r"^\$ fairpost (.*)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)
    assert commands
    for line, wanted in commands:
        monkeypatch.setattr(sys, "argv", ["fairpost", *line.split()])
        done = CliRunner().invoke(main, line.split(), prog_name="fairpost")
        code = f"exit code {done.exit_code}\n" if done.exit_code else ""
        got = re.sub(r"(?m)^compiling kernels .*\n", "", done.output) + code  # the first time on a machine
        assert doctest.OutputChecker().check_output(wanted, got, FLAGS), f"fairpost {line}\n{got}"


def test_money_in_the_text_of_the_quickstart_is_money_that_a_command_printed():
    page = DOCS / "quickstart.md"
    printed = "".join(body for info, body in blocks(page) if info.startswith("console"))
    said = re.findall(r"\$[\d,]*\d", FENCE.sub("", page.read_text()))
    assert len(said) >= 3
    assert not [amount for amount in said if amount not in printed]


# ---------------------------------------------------------------- reference


def public() -> list[tuple[str, object]]:
    """Every public name: of the package, of io and results, and what plan and estimate define."""
    names = [(n, getattr(owner, n)) for owner in (fp, fp.io, fp.results) for n in owner.__all__ if n != "CONFIDENTIAL"]
    for name in ("plan", "estimate"):  # fp.plan is the function
        module = importlib.import_module(f"fairpost.{name}")
        own = inspect.getmembers(module, lambda o: inspect.isfunction(o) or inspect.isclass(o))
        names += [(n, o) for n, o in own if not n.startswith("_") and o.__module__ == module.__name__]
    return names


def test_every_public_name_has_an_entry_and_every_function_an_example():
    text = (DOCS / "api.md").read_text()
    entries = set(re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE))
    code = "\n".join(body for info, body in blocks(DOCS / "api.md") if info.startswith("python"))
    for name, thing in public():
        assert f"{thing.__module__}.{thing.__qualname__}" in entries, name
        if inspect.isfunction(thing):
            assert re.search(rf"\b{name}\(", code), f"{name} has no example"
    for entry in entries:
        module, _, name = entry.rpartition(".")
        assert hasattr(importlib.import_module(module), name), entry


def options_of(command: str) -> set[str]:
    made = main.get_command(None, command)
    some = [made, *getattr(made, "commands", {}).values()]
    return {o for c in some for p in c.params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")}


@pytest.mark.parametrize("command", COMMANDS)
def test_cli_page_lists_every_option_and_no_other(command):
    text = (DOCS / "cli.md").read_text()
    own = section(text, command)
    listed = {o for row in re.findall(r"^\| (`--[^|]*) \|", own, re.MULTILINE) for o in OPTION.findall(row)}
    for shared in re.findall(r"\]\(#(\w+)\)[,. (]", own.partition("Options:")[2].partition("| option")[0]):
        rows = re.findall(r"^\| (`--[^|]*) \|", section(text, shared.capitalize()), re.MULTILINE)
        assert rows, f"{command} names the group {shared}, which lists nothing"
        listed |= {o for row in rows for o in OPTION.findall(row)}
    assert listed == options_of(command)


JSON = {
    "audit": "towns.csv --epsilon 0.1 --postprocess simplex --postprocess pos --budget 1e6 --entities",
    "sweep": "towns.csv --epsilons 0.2 1 --points 2 --budget 1e6 --postprocess baseline",
    "plan": "towns.csv --max-loss 900 --budget 1e6 --postprocess baseline --epsilons 0.1 1 --points 2",
    "project": "noisy.csv --total 1085 --round --seed 1",
    "allocate": "noisy.csv --budget 1e6 --epsilon 0.1 --postprocess baseline --replicates 2",
    "check": "towns.csv noisy.csv noisy.csv --epsilon 0.1",
}


def leaves(data: object, path: str = "") -> set[str]:
    if isinstance(data, dict) and data:
        return {p for k, v in data.items() for p in leaves(v, f"{path}.{k}" if path else k)}
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return {p for item in data for p in leaves(item, f"{path}[]")}
    return {path}


@pytest.mark.parametrize("command", JSON)
def test_cli_page_lists_every_json_key_and_no_other(command, tmp_path, monkeypatch):
    """A row stands for a key and all below it."""
    monkeypatch.chdir(tmp_path)
    write_files(DOCS / "quickstart.md")
    done = CliRunner().invoke(main, [command, *JSON[command].split(), "--json", "-"])
    assert done.exit_code == 0, done.output
    found = leaves(json.loads(done.stdout))
    rows = re.findall(r"^\| (`[^|]*) \|", section((DOCS / "cli.md").read_text(), f"JSON of {command}"), re.MULTILINE)
    keys = {k for row in rows for k in re.findall(r"`([^`]+)`", row)}
    covered = {leaf: [k for k in keys if re.match(rf"{re.escape(k)}(?![\w])", leaf)] for leaf in found}
    assert not [leaf for leaf, by in covered.items() if not by]
    assert not keys - {k for by in covered.values() for k in by}


def test_cli_page_has_the_exit_codes_of_the_program():
    said = set(re.findall(r"^\| (\d+) \|", section((DOCS / "cli.md").read_text(), "Exit codes"), re.MULTILINE))
    source = inspect.getsource(sys.modules["fairpost.cli.main"])
    assert said == {"0"} | set(re.findall(r"_end\((\d+)", source))


def test_the_report_page_goes_through_every_part_of_a_report():
    from fairpost.report import audit_page

    counts = fp.Counts([2, 8, 900], groups=["a", "a", "b"])
    page = audit_page(
        [fp.audit(counts, fp.Laplace(10.0), "simplex"), fp.audit(counts, fp.Laplace(10.0), "nonnegative")]
    )
    parts = re.findall(r"<h2[^>]*>([^<]+)</h2>", page)
    text = (DOCS / "report.md").read_text()
    assert len(parts) >= 7
    places = [text.find(f"\n## {part}\n") for part in parts]
    assert -1 not in places, [part for part, place in zip(parts, places, strict=True) if place < 0]
    assert places == sorted(places)


def test_choosing_names_every_post_processing():
    from fairpost.rules import POSTPROCESSINGS

    text = (DOCS / "choosing.md").read_text()
    for name in (*POSTPROCESSINGS, "Affine", "AffineNonnegative"):
        assert f"| `{name}` |" in text, name


def test_theory_has_every_statement_of_the_paper():
    text = (DOCS / "theory.md").read_text()
    heads = " ".join(re.findall(r"^### (.*)$", text, re.MULTILINE))
    wanted = {"Definition": 5, "Lemma": 10, "Proposition": 4, "Theorem": 3, "Corollary": 2}
    for kind, most in wanted.items():
        for k in range(1, most + 1):
            assert re.search(rf"\b{kind} {k}\b", heads), f"{kind} {k}"
    assert text.count("*Proof.*") + text.count("\n*Proof.*") >= text.count("$\\square$") >= 15


# ---------------------------------------------------------------- links and the site


def slug(heading: str) -> str:
    """As Python-Markdown's table of contents makes them."""
    text = re.sub(r"[`*$\\{}]", "", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text())
    return {slug(h) for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "ARCHITECTURE.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        assert not target.startswith("http"), f"{target}: the pages work without a network"
        path, _, anchor = target.partition("#")
        there = page if not path else page.parent / path
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text()
    assert {p.name for p in PAGES} == set(re.findall(r": ([\w-]+\.md)$", nav, re.MULTILINE))


NEEDED = ("mkdocs", "material", "mkdocstrings", "latex2mathml")


@pytest.mark.long
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED), reason=f"the site needs {', '.join(NEEDED)}"
)
def test_the_site_builds_without_warnings_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        built = (tmp_path / "site" / f"{page.stem}.html").read_text()
        assert not re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//', built), page.name
        assert "arithmatex" not in built, f"{page.name}: a formula was not turned into MathML"
        body = re.sub(r"<(script|pre|code|style)\b.*?</\1>", "", built, flags=re.DOTALL)
        assert not re.search(r"\$[^$<\n]*\\[a-z]+", body), f"{page.name}: TeX is left in the text"
    assert (tmp_path / "site" / "bias.png").exists()
