"""What people see, as files in this folder: screens at 80 and 120 columns, JSON, pages and published tables as text.

`pytest tests/golden --update` writes the files anew; read what has changed before it is committed. So that two machines agree, numbers
have 4 digits, errors of rounding are `~0`, and what differs from run to run (dates, keys, paths, versions) stands in brackets.
"""

import importlib
import json
import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import fairpost as fp
from fairpost.cli import exploring, warming
from fairpost.release import noise, protocol, selftest
from support.commands import call
from support.releases import quick

HERE = Path(__file__).parent
FILES = {
    "true.csv": "id,name,count,pop,weight,group\na,Ash,3,30,1,n\nb,Birch,40,400,2,n\nc,Cedar,5,900,1,s\nd,Dogwood,60,650,4,s\n",
    "noisy.csv": "id,count,group,t\na,-3.5,n,30\nb,40.25,n,30\nc,5,s,70\nd,60.5,s,70\n",
    "new.csv": "id,count\na,7\nb,38\nc,0\nd,61\n",
    "sevens.csv": "id,count\na,31\nb,24\nc,7\n",
    "wide.csv": 'id,count,group\n"Los Angeles Unified School District, California",1043350,CA\n'
    "New York City Department of Education,2147600,NY\nKalawao,3,HI\n",
    "rows.csv": "id,group\na,n\nb,n\nc,s\nd,s\n",
    "more.csv": "id,group\na,n\nb,n\nc,s\nd,s\ne,w\nf,w\n",
    "money.csv": "group,budget\nn,100\ns,300\n",
    "blocks.csv": "id,count,zone\n" + "".join(f"{k // 6}{k % 6 // 2}{k % 2},{7 * k * k % 11},z{k % 3}\n" for k in range(12)),
    "law.toml": 'name = "mine"\neligible = ["count >= 10", "count > 2 % of base"]\n',
    "study.toml": 'command = "audit"\nrules = ["baseline"]\n[data]\nfile = "true.csv"\n[noise]\nscale = 10\n[problem]\nbudget = 1000\n',
    "about.toml": 'title = "Towns"\ncurator = "The office"\n',
    "tables.toml": '[[table]]\nname = "a"\nfile = "true.csv"\nepsilon = "1/10"\n[[table]]\nname = "b"\nfile = "new.csv"\nepsilon = "1/5"\n',
}  # fmt: skip
LEVELS = "--levels s:1,c:2,block:3 --level-sigma 0,1.5,2"
CREATE = "--dataset Towns --unit person --measure pure --limit 1 --other-ledgers none"


@dataclass(frozen=True)
class Shown:
    """One question: the commands, of which the last is shown, and which of its outputs exist."""

    words: str
    makes: str = "json html"
    before: tuple[str, ...] = ()
    published: tuple[str, ...] = field(default=())
    code: int = 0


BOOK = (f"budget create l {CREATE} --neighbours add-remove --public group --public weight",)
OUT = ("release true.csv --ledger l --epsilon 1/10 --group group --out o --chosen-from policy --about about.toml",)
PARTS = (
    f"budget create p {CREATE} --neighbours replace --public weight --exact-by group --exact-source Yearbook --rows rows.csv --smallest-part 2",
)
PAPER = (
    "index.html", *(f"tables/{name}.csv" for name in ("table1", "table2", "table2-price", "comparisons")),
    *(f"figures/figure{k}.png" for k in ("1-left", "1-right", "2-5", "3")),
)  # fmt: skip
SHOWN = {
    "audit": Shown("audit true.csv --scale 10 --postprocess nonnegative --postprocess simplex --entities"),
    "audit-shares": Shown("audit true.csv --scale 10 --postprocess baseline --label name"),
    "audit-money": Shown("audit true.csv --scale 10 --postprocess baseline --budget 1000 --entities --explain --frontier"),
    "audit-simulated": Shown("audit true.csv --scale 10 --postprocess nonnegative --method monte-carlo --runs 400 --entities"),
    "audit-by-group": Shown("audit true.csv --scale 10 --postprocess baseline --by-group --group-budget money.csv --label name"),
    "audit-targets": Shown("audit true.csv --scale 10 --postprocess nonnegative --postprocess simplex --max-alpha 4 --max-relative-loss 5"),
    "audit-programme": Shown("audit true.csv --scale 10 --postprocess as-written --programme law.toml --base pop --budget 1000"),
    "audit-levels": Shown(f"audit blocks.csv {LEVELS} --postprocess top-down --postprocess blue-down --runs 64 --areas zone --entities"),
    "audit-wide": Shown("audit wide.csv --scale 30 --budget 6.5e9 --by-group --postprocess baseline --postprocess pos", makes=""),
    "allocate-wide": Shown("allocate wide.csv --scale 30 --budget 6.5e9 --replicates 2", makes=""),
    "plan": Shown("plan true.csv --spreads 5 10 --points 2 --postprocess nonnegative --postprocess simplex --any-error --max-relative-loss 1"),
    "plan-usual-error": Shown("plan true.csv --spreads 5 10 --points 2 --postprocess nonnegative --max-alpha 2"),
    "plan-nothing": Shown("plan true.csv --spreads 5 10 --points 2 --postprocess nonnegative --max-alpha 1e-9", code=3),
    "plan-levels": Shown("plan blocks.csv --levels s:1,c:2,block:3 --rho 1 --level-rmse c:9 --tries 4", makes="json"),
    "sweep": Shown("sweep true.csv --spreads 5 10 --points 2 --postprocess baseline --budget 1000 --label name"),
    "sweep-counts": Shown("sweep true.csv --spreads 5 10 --points 2 --postprocess nonnegative --postprocess simplex"),
    "sweep-levels": Shown("sweep blocks.csv --levels s:1,c:2,block:3 --rhos 0.1 1 --points 2", makes="json"),
    "check": Shown("check true.csv new.csv --scale 4 --label name"),
    "project": Shown("project noisy.csv --group-total t --round --seed 1 --csv -", makes="html"),
    "project-json": Shown("project noisy.csv --total 100", makes="json"),
    "allocate": Shown("allocate noisy.csv --scale 2 --replicates 2 --postprocess baseline --postprocess pos --budget 1000"),
    "allocate-by-group": Shown("allocate noisy.csv --scale 2 --replicates 2 --by-group --group-budget money.csv --postprocess baseline"),
    "run": Shown("run study.toml --entities"),
    "allocate-plain": Shown("allocate noisy.csv --postprocess pos"),
    "programmes": Shown("programmes", makes=""),
    "release": Shown(*OUT, makes="json", before=BOOK, published=("table.csv", "statement.json", "registry.yaml", "dataset.jsonld")),
    "release-dry-run": Shown(f"{OUT[0]} --dry-run", makes="json", before=BOOK),
    "release-levels": Shown(
        "release blocks.csv --ledger l --epsilon 1 --levels s:1,c:2,block:3 --split .2,.3,.5 --out o", makes="json",
        before=BOOK, published=("table.csv", "statement.json"),
    ),
    "release-exact": Shown(
        "release true.csv --ledger p --epsilon 1/10 --group group --by-group --exact-total --out o", makes="", before=PARTS,
        published=("table.csv", "statement.json"),
    ),
    "release-again": Shown("release --plan tables.toml --ledger l --out o", makes="json", before=BOOK),
    "release-too-much": Shown("release true.csv --ledger l --epsilon 3/2 --accept-weak-protection --out q", makes="", before=BOOK, code=3),
    "budget-create": Shown(PARTS[0], makes=""),
    "budget-append": Shown("budget append p --rows more.csv --exact-by group", makes="", before=PARTS),
    "budget-show": Shown("budget show l", makes="json", before=(*BOOK, *OUT)),
    "budget-history": Shown("budget history l", makes="json", before=(*BOOK, *OUT)),
    "budget-verify": Shown("budget verify l o", makes="", before=(*BOOK, *OUT)),
    "demo": Shown("demo", makes="html"),
    "explore": Shown("explore true.csv --no-open --scale 10 --label name", makes=""),
    "compile": Shown("compile", makes=""),
    "paper": Shown("paper --quick --out paper", makes="", published=PAPER),
}  # fmt: skip
AS_THEY_ARE = ("release", "budget", "explore")
"""Commands whose lines are for programs too, which no width breaks."""
TABLES = ("audit", "plan", "sweep", "check", "project", "allocate")
ONE_WIDTH = {"demo", "paper", "compile"}

# -- the same on every machine -----------------------------------------------------------------------------------------

NUMBER = re.compile(
    r"(?P<pad> {2,})?(?P<n>(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?P<ten>[ \u00a0]×[ \u00a0]10[⁻⁰¹²³⁴-⁹]+)?)(?![\w.]?\d)"
)
TENS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
CHANGES = (
    (r"(?<![.\d])\b[0-9a-f]{12,64}\b", "[key]"),
    (r"^(?=.*[A-Z])[A-Za-z0-9+/]{10,}=*$", "[packed]"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?", "[time]"),
    (r"\d{4}-\d\d-\d\d", "[day]"),
    (r"Done in [\d.]+ s", "Done in [some] s"),
    (r"http://127\.0\.0\.1:\d+/start\?token=\S+", "[link]"),
    (re.escape(fp.__version__) + r"(\+\w+)?", "[version]"),
    (r"(?i)(opendp[^\d\n]{0,12})\d+\.\d+\.\d+", r"\1[version]"),
    (r"(\d[\d.]*[ \u00a0]×[ \u00a0])?\b10[−-]1\d", "~0"),
    (r"(error below )[^\s,;)]+([ \u00a0]×[ \u00a0]\S+)?", r"\1[some]"),
)


def four(value: float) -> float:
    """4 digits; what is far below any count or share is rounding."""
    return 0.0 if abs(value) < 1e-6 else float(f"{value:.4g}")


def plain(text: str, folder: Path) -> str:
    """A text without what differs from run to run and from machine to machine."""
    page = f"{folder}/paper/index.html"  # where a long name is broken depends on how long it is
    text = re.sub(r"(\n *)?".join(map(re.escape, page)), page, text).replace(str(folder), "[folder]")
    for pattern, instead in CHANGES:
        text = re.sub(pattern, instead, text)

    def rounded(found):
        written = found["n"]
        if "." not in written and not found["ten"] and "e" not in written:
            return found[0]
        mantissa, _, tens = written.replace(",", "").partition("×")
        value = float(mantissa) * 10.0 ** int(tens.strip()[2:].translate(TENS) if tens else 0)
        if abs(value) < 1e-6:
            short = "~0" if value else written
        else:
            short = f"{four(value):{',' if ',' in mantissa else ''}.{4 if 'e' in written else 15}g}"
            short = written if len(re.sub(r"\D", "", mantissa).lstrip("0")) <= 4 else short
        return (found["pad"] or "") + (" " * (len(written) - len(short)) if found["pad"] else "") + short

    lines = (re.sub(NUMBER, rounded, line).rstrip() for line in text.splitlines())
    return "\n".join(lines).rstrip() + "\n"


def plain_json(data, folder: Path):
    """The same of JSON."""
    if isinstance(data, dict):
        return {
            k: "[any]" if k in ("secret", "machine", "host", "user", "software") else plain_json(v, folder)
            for k, v in data.items()
        }
    if isinstance(data, list):
        return [plain_json(v, folder) for v in data]
    if isinstance(data, float):
        return four(data) if np.isfinite(data) else data
    return plain(data, folder).rstrip("\n") if isinstance(data, str) else data


def plain_csv(text: str) -> str:
    """The same of a table: cell by cell, because a comma is no part of a number there."""

    def short(cell: str) -> str:
        try:
            return f"{four(float(cell)):.15g}" if "." in cell or "e" in cell else cell
        except ValueError:
            return cell

    return "\n".join(",".join(map(short, line.split(","))) for line in text.splitlines()) + "\n"


class Text(HTMLParser):
    """A page as a reader sees it: a line for each block, cells of a row side by side; in braces labels, and numbers in full."""

    BLOCKS = frozenset(
        {"p", "div", "section", "h1", "h2", "h3", "h4", "li", "tr", "dt", "dd", "figcaption", "summary", "caption"}
        | {"header", "footer", "main", "title", "option", "label"}
    )

    def __init__(self, page: str):
        super().__init__()
        self.out, self.hidden = [], 0
        self.feed(page)
        lines = (re.sub(r"[ \n\t]+", " ", line).strip(" |") for line in "".join(self.out).split("\r"))
        self.text = "\n".join(line for line in lines if line)

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("script", "style", "template")
        self.out.append("\r" if tag in self.BLOCKS else " | " if tag in ("td", "th") else "")
        self.out += [
            f"{{{v}}}" for k, v in attrs if v and (k in ("aria-label", "placeholder") or (tag, k) == ("data", "value"))
        ]

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style", "template")
        self.out.append("\r" if tag in self.BLOCKS else "")

    def handle_data(self, data):
        self.out.append("" if self.hidden else data)


# -- the files ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def same(request, tmp_path):
    """Compare with the file of this name, or write it."""

    def compare(name: str, text: str):
        path = HERE / name
        if request.config.getoption("--update"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{name} is not there: pytest tests/golden --update writes it"
        assert text == path.read_text(encoding="utf-8"), (
            f"{name}: pytest tests/golden --update, and read the difference"
        )

    return compare


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A new folder with the tables; noise of releases that is the same each time; no kernel compiled, no figure painted, no server."""
    monkeypatch.setattr(selftest, "demand", lambda *given: False)
    monkeypatch.setattr(protocol, "add_noise", lambda x, law, sampler: noise.add_noise(x, law, quick))
    monkeypatch.setattr(warming, "questions", list)
    monkeypatch.setattr(exploring, "_serve", lambda session, *_: print(session.mapped.name, session.defaults))

    def make(*before: str) -> Path:
        folder = tmp_path / f"f{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name, text in FILES.items():
            (folder / name).write_text(text)
        monkeypatch.chdir(folder)
        monkeypatch.setattr("support.releases.RNG", np.random.default_rng(7))
        for line in before:
            done = call(*line.split())
            assert done.returncode == 0, done.stderr
        return folder

    return make


@pytest.fixture
def small_paper(monkeypatch):
    """The paper from few runs; of its pictures what is drawn, not how it is painted."""
    importlib.import_module("fairpost.paper.reproduce")
    from fairpost.paper import figures, tables

    monkeypatch.setattr(sys.modules["fairpost.paper.reproduce"], "QUICK", tables.Runs(1000, 200))
    monkeypatch.setattr(
        figures.Drawing, "files", lambda self: {f"{self.name}.{e}": drawn(self).encode() for e in ("png", "pdf")}
    )


def some(points: np.ndarray) -> str:
    """How many points, and a dozen of them."""
    return f"{len(points)} points, {points[:: max(1, len(points) // 12)].tolist()}"


def drawn(drawing) -> str:
    """A picture as text: axes, words, lines and bars."""
    lines = [drawing.title, drawing.caption]
    for axes in drawing.figure.axes:
        lines += [
            f"axes {axes.get_title()} | {axes.get_xlabel()} | {axes.get_ylabel()} | {axes.get_xscale()} {axes.get_yscale()}"
        ]
        lines += [f"text {text.get_text()} at {text.get_position()}" for text in axes.texts]
        lines += [
            f"line {line.get_color()} {line.get_linestyle()}{line.get_marker()} {some(np.column_stack(line.get_data()))}"
            for line in axes.lines
        ]
        lines += [f"bar {bar.get_xy()} {bar.get_height()}" for bar in axes.patches if hasattr(bar, "get_height")]
        lines += [f"dots {some(np.asarray(dots.get_offsets()))}" for dots in axes.collections]
        lines += [f"legend {[text.get_text() for text in axes.get_legend().get_texts()]}"] if axes.get_legend() else []
    return "\n".join(lines)


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.usefixtures("small_paper")
def test_what_is_shown(name, fresh, same):
    shown = SHOWN[name]
    words = shown.words.split()
    for width in (80,) if name in ONE_WIDTH else (80, 120):
        folder = fresh(*shown.before)
        done = call(*words, columns=width)
        assert done.returncode == shown.code, done.stderr
        assert max(map(len, done.stdout.splitlines()), default=0) <= width or name.startswith(AS_THEY_ARE)
        same(f"{name}-{width}.txt", plain(done.stdout + done.stderr, folder))
    for file in shown.published:
        text = (Path("paper" if name == "paper" else "o") / file).read_text()
        if file.endswith("json"):
            text = json.dumps(plain_json(json.loads(text), folder), indent=1, ensure_ascii=False)
        elif file.endswith("html"):
            text = Text(text).text
        same(f"{name}.{Path(file).stem}.txt", plain(text, folder))
    if "json" in shown.makes:
        folder = fresh(*shown.before)
        said = json.loads(call(*words, "--json", "-").stdout)
        said.pop("command", None)
        same(f"{name}.json", json.dumps(plain_json(said, folder), indent=1, ensure_ascii=False) + "\n")
    if "json" in shown.makes and words[0] in TABLES:
        folder = fresh(*shown.before)
        call(*words, "--csv", "table.csv")
        same(f"{name}.table.txt", plain_csv(Path("table.csv").read_text()))
    if "html" in shown.makes:
        folder = fresh(*shown.before)
        done = call(*(w for w in words if w not in ("--csv", "-")), "--html", "page.html")
        assert done.returncode == shown.code, done.stderr
        page = Path("page.html").read_text()
        glossary = page[page.index('<dl class="terms">') : page.index("</dl>", page.index('<dl class="terms">'))]
        same("glossary.txt", plain(Text(glossary).text, folder))
        data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
        same(f"{name}.data.json", json.dumps(plain_json(data, folder), indent=1, ensure_ascii=False) + "\n")
        same(f"{name}.page.txt", plain(Text(page.replace(glossary, "<p>[glossary.txt]</p>")).text, folder))


def test_the_live_page(fresh, same):
    from support.live_page import Live

    folder = fresh()
    live = Live(data=FILES["true.csv"].encode())
    try:
        same("explore.page.txt", plain(Text(live.client.get("/").text).text, folder))
        said = plain_json(live.client.get("/api/state").json(), folder)
        same("explore.json", json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    finally:
        live.close()


def test_every_command_is_shown_and_no_file_is_left_over():
    from fairpost.cli.main import COMMANDS

    assert set(COMMANDS) == {name.partition("-")[0] for name in SHOWN}
    left = {p.name for p in HERE.iterdir() if p.suffix in (".txt", ".json")}
    stale = {name for name in left if re.split(r"-(?=80|120)|\.", name)[0] not in SHOWN}
    assert stale <= {"help.txt", "glossary.txt"}


def test_help(same):
    from support.helps import EVERY, help_of

    same("help.txt", "\n".join(f"# fairpost {' '.join(words)}\n{help_of(words)}" for words in EVERY))
