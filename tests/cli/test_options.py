"""Every option of every command matters: a pair of values whose outputs differ, and differ as the library says.

`TABLE` has one entry for each option of each command; a test compares it with what the commands declare, so an option
without an entry fails. Commands run in this process; exit codes and one-line errors as processes are in `test_commands.py`.
"""

import csv
import io
import json
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import fairpost as fp
from fairpost.cli import main
from fairpost.estimate import plug_in, share_interval
from support.workbooks import saipe_text, xlsx

TRUE = """id,name,count,other,weight,price,group,region
a,A,3,9,1,2,n,e
b,B,40,20,2,1,n,w
c,C,5,30,1,3,s,e
d,D,60,80,4,1,s,w
"""
NOISY = """id,name,count,other,weight,price,group,region,t,u
a,A,-3.5,9,1,2,n,e,30,31
b,B,40.25,20,2,1,n,w,30,31
c,C,5,-30,1,3,s,e,70,69
d,D,60.5,80,4,1,s,w,70,69
"""
ROWS = list(csv.DictReader(io.StringIO(TRUE)))
SEEN = list(csv.DictReader(io.StringIO(NOISY)))


def counts(count="count", weight="weight", group="group", id="id"):
    col = lambda k: [r[k] for r in ROWS]  # noqa: E731
    return fp.Counts(
        [float(v) for v in col(count)], ids=col(id), weights=[float(v) for v in col(weight)], groups=col(group)
    )


def noisy(count="count"):
    return np.array([float(r[count]) for r in SEEN])


@dataclass
class Done:
    """What one command left."""

    code: int
    screen: str
    data: dict = field(default_factory=dict)
    rows: list = field(default_factory=list)
    html: str = ""
    folder: Path = Path()

    @property
    def results(self):
        return self.data["results"]

    def column(self, name):
        return [r[name] for r in self.rows]

    def numbers(self, name):
        return [float(v) for v in self.column(name)]


OUTPUTS = {
    "audit": ("json", "csv", "html"),
    "plan": ("json", "csv", "html"),
    "sweep": ("json", "csv", "html"),
    "project": ("json", "csv", "html"),
    "allocate": ("json", "csv", "html"),
}


@pytest.fixture(scope="module")
def known_runs():
    """What the same words on the same files left before: half of every pair is a command that others have run."""
    return {}


@pytest.fixture
def run(tmp_path, monkeypatch, known_runs):
    """Run a command with all its files in a fresh folder, or take what it left when it ran before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "true.csv").write_text(TRUE)
    (tmp_path / "noisy.csv").write_text(NOISY)
    (tmp_path / "tabs.csv").write_text(TRUE.replace(",", "\t"))
    (tmp_path / "noisy_tabs.csv").write_text(NOISY.replace(",", "\t"))
    made = iter(range(100))

    def go(command, words, *, files=None, file=None):
        same = (command, *map(str, words), files)
        if file is None and same in known_runs:
            return known_runs[same]
        folder = tmp_path / f"out{next(made)}"
        folder.mkdir()
        wanted = ("json", "csv") if files is None else files  # a page takes longer than all the rest
        call = [command, file or ("noisy.csv" if command in ("project", "allocate") else "true.csv"), *map(str, words)]
        for kind in wanted:
            call += [f"--{kind}", str(folder / f"o.{kind}")]
        done = CliRunner().invoke(main, call)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        out = Done(done.exit_code, done.output, folder=folder)
        if (folder / "o.json").exists():
            out.data = json.loads((folder / "o.json").read_text())
        if (folder / "o.csv").exists():
            out.rows = list(csv.DictReader(io.StringIO((folder / "o.csv").read_text())))
        if (folder / "o.html").exists():
            out.html = (folder / "o.html").read_text()
        own = {
            "--checkpoint",
            "--round",
            *(p.name for p in tmp_path.iterdir()),
        }  # goes on, draws a seed, a test's own file
        if file is None and own.isdisjoint(same[:-1]):
            known_runs[same] = out
        return out

    return go


# -- what each option must do ----------------------------------------------------------------------------------------
# A check gets `run`, the command and the words that the command always needs; it runs the command twice or more.

AUDIT = ["--scale", 10]
SIM = ["--method", "monte-carlo", "--runs", 400]
CURVE = ["--spreads", 5, 10, "--points", 2]


def base(command, *more, how=None):
    """Words that make a command run quickly; `more` comes with them."""
    words = {
        "audit": [*AUDIT],
        "plan": ["--max-alpha", 1e9, "--any-error", *CURVE],
        "sweep": [*CURVE],
        "project": [],
        "allocate": [*AUDIT, "--replicates", 2],
    }[command]
    pi = how or {"project": "simplex", "allocate": "baseline"}.get(command, "nonnegative")
    return [*words, "--postprocess", pi, *more]


def first(done, command):
    """The first result, point or plan's first point, as JSON."""
    if command == "audit":
        return done.results[0]
    return done.data["points"][0] if command == "sweep" else done.data["plans"][0]["curve"][0]


def level(command):
    return fp.Laplace(10.0 if command == "audit" else 5.0)


def known(estimate):
    """An estimate as JSON has it."""
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "accuracy": estimate.kind}


def ids(run, command):
    one, two = (run(command, base(command, *w)) for w in ([], ["--id", "name"]))
    if command in ("plan", "sweep"):
        assert first(one, command)["alpha_pair"] == ["a", "d"]
        assert first(two, command)["alpha_pair"] == ["A", "D"]
    else:
        assert one.column("id") == ["a", "b", "c", "d"]
        assert two.column("id") == ["A", "B", "C", "D"]


def csv_safe(run, command):
    """Ids that begin like formulas, and a number below 0, which is none."""
    made = (SEEN if command in ("project", "allocate") else ROWS)[:]
    Path("formulas.csv").write_text(
        "id,count\n" + "".join(f"{mark}{r['id']},{r['count']}\n" for mark, r in zip("=+-@", made, strict=True))
    )
    one, two = (run(command, base(command, *w), file="formulas.csv") for w in ([], ["--csv-safe"]))
    names = {"loses_most", "loses_most_relatively"} if command in ("plan", "sweep") else {"id"}
    for name in names:
        assert two.column(name) == ["'" + text for text in one.column(name)]
    for other in set(one.rows[0]) - names:
        assert two.column(other) == one.column(other)


def count(run, command):
    one, two = (run(command, base(command, *w)) for w in ([], ["--count", "other"]))
    if command in ("project", "allocate"):
        assert one.numbers("noisy_count") == noisy().tolist()
        assert two.numbers("noisy_count") == noisy("other").tolist()
        return
    assert [d.data["counts"] for d in (one, two)] == [{"n": 4, "total": 108.0}, {"n": 4, "total": 139.0}]
    for done, column in ((one, "count"), (two, "other")):
        alpha = fp.audit(counts(column), level(command), "nonnegative").alpha.value
        assert first(done, command)["alpha"]["value"] == alpha


def weight(run, command):
    if command == "project":
        for w in ([], ["--weight", "price"]):
            assert run(command, base(command, *w)).code == 0
        assert run(command, base(command, "--weight", "none")).code == 2
        return
    one, two = (run(command, base(command, *w, how="baseline")) for w in ([], ["--weight", "price"]))
    if command == "allocate":
        for done, column in ((one, "weight"), (two, "price")):
            weights = [float(r[column]) for r in SEEN]
            assert done.numbers("weight") == weights
            assert done.numbers("baseline_share") == fp.allocate(noisy(), weights, "baseline").tolist()
        return
    for done, column in ((one, "weight"), (two, "price")):
        alpha = fp.audit(counts(weight=column), level(command), "baseline").alpha.value
        assert first(done, command)["alpha"]["value"] == alpha


def group(run, command):
    if command in ("project", "allocate"):
        one, two = (run(command, base(command, *w)) for w in ([], ["--group", "region"]))
        assert one.column("group") == ["n", "n", "s", "s"]
        assert two.column("group") == ["e", "w", "e", "w"]
        return
    words = base(command, "--by-group", how="sum")
    one, two = (run(command, [*words, *w]) for w in ([], ["--group", "region"]))
    words = base(command, "--by-group", how="baseline")
    one, two = (run(command, [*words, *w]) for w in ([], ["--group", "region"]))
    for done, column in ((one, "group"), (two, "region")):
        alpha = fp.audit(counts(group=column), level(command), "baseline", by_group=True).alpha.value
        assert first(done, command)["alpha"]["value"] == alpha


def format_(run, command):
    file = "noisy_tabs.csv" if command in ("project", "allocate") else "tabs.csv"
    assert run(command, base(command, "--format", "csv"), file=file).code == 2
    assert run(command, base(command, "--format", "tsv"), file=file).code == 0


def seen(done):
    """How many counts a command has read, and their sum."""
    found = done.data["counts"]
    total = found.get("total", found.get("noisy_total"))
    return found["n"], done.data["changes"]["noisy_sum"] if total is None else total


SIMPLE = [["id", "count", "v"], ["a", 3.5, "x"], ["b", 40.25, "y"], ["c", 500.0, "x"]]


def read_as(run, command, *, option, file, values):
    """A file that needs the option: for each value what is read, None where it is refused ("": without the option)."""
    name, content = file
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for given, want in values.items():
        words = [] if given == "" else [option] if given is True else [option, given]
        done = run(command, base(command, *words), file=name)
        assert (done.code, seen(done) if done.code == 0 else None) == (2 if want is None else 0, want), given


def lines(mark=",", decimal=".", digits=2):
    rows = [mark.join(v if isinstance(v, str) else f"{v:.{digits}f}".replace(".", decimal) for v in r) for r in SIMPLE]
    return "\n".join(rows) + "\n"


WHOLE = (3, 543.75)
READING = {
    "--delimiter": partial(
        read_as, option="--delimiter", file=("a.csv", lines("|")), values={"": WHOLE, "pipe": WHOLE, "comma": None}
    ),
    "--decimal": partial(
        read_as,
        option="--decimal",
        file=("a.csv", lines(";", ",", 3)),
        values={"": None, ",": WHOLE, ".": (3, 543750.0)},
    ),
    "--sheet": partial(
        read_as,
        option="--sheet",
        file=("a.xlsx", xlsx(one=SIMPLE[:2], two=SIMPLE)),
        values={"": (1, 3.5), "two": WHOLE, "1": (1, 3.5), "three": None},
    ),
    "--header": partial(
        read_as,
        option="--header",
        file=("a.xlsx", xlsx(one=[SIMPLE[0], *SIMPLE])),
        values={"": None, "2": WHOLE, "9": None},
    ),
    "--where": partial(
        read_as,
        option="--where",
        file=("a.csv", lines()),
        values={"": WHOLE, "v = x": (2, 503.5), "count < 50": (2, 43.75), "v = z": None},
    ),
    "--drop-missing": partial(
        read_as,
        option="--drop-missing",
        file=("a.csv", lines().replace("40.25", "")),
        values={"": None, True: (2, 503.5)},
    ),
}


def mechanism(run, command):
    if command in ("audit", "allocate"):
        words = ["--rho", 0.02, "--postprocess", "baseline", *(["--replicates", 2] if command == "allocate" else [])]
        for name in ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian"):
            assert run(command, [*words, "--mechanism", name]).data["mechanism"]["name"] == name
    elif command == "project":
        words = base(command, "--rho", 0.02, how="simplex-threshold")
        for name, kind in (("laplace", fp.Laplace), ("gaussian", fp.Gaussian)):
            assert run(command, [*words, "--mechanism", name]).numbers("count") == thresholded(kind.from_rho(0.02))
    else:
        for name, own in (("laplace", "scale"), ("gaussian", "sigma"), ("discrete-gaussian", "sigma")):
            found = first(run(command, base(command, "--mechanism", name)), command)["mechanism"]
            assert (found["name"], found[own]) == (name, 5.0)


def thresholded(noise):
    from fairpost.rules import POSTPROCESSINGS

    total = float(noisy().sum())
    return POSTPROCESSINGS["simplex-threshold"](total).for_mechanism(noise)(noisy()).tolist()


def noise_by(run, command, *, words, noise, other):
    """`words` give this noise, and with another number at their end another noise."""
    again = [*words[:-1], other]
    if command == "project":
        pair = [run(command, base(command, *w, how="simplex-threshold")).numbers("count") for w in (words, again)]
        assert pair[0] == thresholded(noise)
        assert pair[0] != pair[1]
        return
    tail = ["--postprocess", "baseline", *(["--replicates", 2] if command == "allocate" else [])]
    one, two = (run(command, [*w, *tail]).data["mechanism"] for w in (words, again))
    assert one[noise.parameter] == noise.spread
    assert one[noise.parameter] != two[noise.parameter]


GAUSSIAN = ["--mechanism", "gaussian", "--epsilon", 0.5]
STATEMENTS = {
    "--epsilon": partial(noise_by, words=["--epsilon", 1.0], noise=fp.Laplace(1.0), other=0.05),
    "--scale": partial(noise_by, words=["--scale", 1.0], noise=fp.Laplace(1.0), other=20),
    "--rho": partial(noise_by, words=["--rho", 0.5], noise=fp.Laplace.from_rho(0.5), other=0.001),
    "--sigma": partial(noise_by, words=["--mechanism", "gaussian", "--sigma", 1.0], noise=fp.Gaussian(1.0), other=20),
    "--delta": partial(
        noise_by, words=[*GAUSSIAN, "--delta", 0.3], noise=fp.Gaussian.from_epsilon(0.5, 0.3), other=1e-12
    ),
    "--sensitivity": partial(
        noise_by, words=["--epsilon", 1.0, "--sensitivity", 2.0], noise=fp.Laplace(2.0), other=40.0
    ),
}


def promised(run, command, *, words, noise):
    """Of levels of noise: what each promises (the levels by epsilon are in `noise/test_privacy.py`)."""
    name = "gaussian" if words == "--delta" else "laplace"
    values = (0.01, 0.02) if words == "--delta" else (1.0, 2.0)
    found = [first(run(command, base(command, "--mechanism", name, words, v)), command)["epsilon"] for v in values]
    assert found == [noise(v) for v in values]
    assert found[0] != found[1]


PROMISED = {
    "--delta": partial(promised, words="--delta", noise=lambda v: fp.Gaussian(5.0).epsilon(v)),
    "--sensitivity": partial(promised, words="--sensitivity", noise=lambda v: v / 5.0),
}


def postprocess(run, command):
    if command == "project":
        pair = [run(command, ["--postprocess", p]).numbers("count") for p in ("nonnegative", "sum", "simplex")]
        total = noisy().sum()
        assert pair[0] == np.maximum(noisy(), 0).tolist()
        assert pair[1] == pytest.approx(noisy(), abs=1e-12)  # its own total already
        assert pair[2] == fp.project_simplex(noisy(), total).tolist()
        return
    if command == "allocate":
        words = ["--scale", 10, "--replicates", 2]
        done = run(command, [*words, "--postprocess", "baseline", "--postprocess", "pos-threshold"])
        for how in ("baseline", "pos-threshold"):
            shares = fp.allocate(noisy(), [1, 2, 1, 4], how, fp.Laplace(10.0))
            assert done.numbers(f"{how.replace('-', '_')}_share") == shares.tolist()
        assert "pos_share" not in done.rows[0]
        assert {"baseline_share", "pos_share", "pos_threshold_share"} <= set(run(command, words).rows[0])
        plain = set(run(command, []).rows[0])  # without the noise
        assert {"baseline_share", "pos_share"} <= plain
        assert "pos_threshold_share" not in plain
        return
    some = {"audit": AUDIT, "sweep": CURVE, "plan": ["--max-alpha", 1e9, *CURVE]}[command]

    def names(*w):
        done = run(command, [*some, *SIM, *w])
        found = {"audit": "results", "sweep": "points", "plan": "plans"}[command]
        return list(dict.fromkeys(r["postprocess"] for r in done.data[found]))

    assert names("--postprocess", "sum", "--postprocess", "none") == ["sum", "none"]
    assert names() == ["nonnegative", "simplex", "simplex-threshold"]
    assert names("--budget", 1) == ["baseline", "pos", "pos-threshold"]


def refused(run, command, words):
    """The one line of a command that is refused; nothing is written."""
    done = run(command, words)
    assert done.code == 2
    assert not list(done.folder.iterdir())
    (line,) = done.screen.splitlines()
    return line


def total(run, command):
    if command == "project":
        pair = [run(command, ["--total", t]) for t in (50, 200)]
        for done, t in zip(pair, (50.0, 200.0), strict=True):
            assert done.numbers("count") == fp.project_simplex(noisy(), t).tolist()
            assert done.data["totals"] == {"all": t}
        return
    for t in (50.0, 200.0):
        found = first(run(command, base(command, "--total", t, how="sum-clipped")), command)["alpha"]
        assert found["value"] == fp.audit(counts(), level(command), "sum-clipped", total=t).alpha.value
    assert refused(run, command, base(command, "--total", -1, how="sum-clipped")) == (
        "fairpost: --total must be at least 0 and finite, got -1.0"
    )
    assert refused(run, command, base(command, "--total", 50)) == (
        "fairpost: --total is for post-processings that keep one, got nonnegative"
    )
    both = run(command, base(command, "--total", 50, "--postprocess", "sum-clipped"))  # one keeps it: both run
    assert both.code == 0
    assert first(both, command)["alpha"]["value"] == fp.audit(counts(), level(command), "nonnegative").alpha.value


def group_total(run, command):
    for column, totals in (("t", {"n": 30.0, "s": 70.0}), ("u", {"n": 31.0, "s": 69.0})):
        done = run(command, ["--group-total", column])
        assert done.data["totals"] == totals
        want = [fp.project_simplex(noisy()[k : k + 2], totals[g]) for k, g in ((0, "n"), (2, "s"))]
        assert done.numbers("count") == np.concatenate(want).tolist()


def budget(run, command):
    if command == "allocate":
        one, two = (run(command, base(command, *w)) for w in ([], ["--budget", 1000]))
        assert run(command, base(command, "--budget", -1)).code == 2
        assert one.data["budget"] is None
        assert two.data["budget"] == 1000.0
        assert "baseline_money" not in one.rows[0]
        share = np.array(two.numbers("baseline_share"))
        assert two.numbers("baseline_money") == (share * 1000).tolist()
        for end in ("low", "high"):
            assert two.numbers(f"true_money_{end}") == (np.array(two.numbers(f"true_share_{end}")) * 1000).tolist()
        return
    pair = [run(command, base(command, "--budget", b, how="baseline")) for b in (1000, 3000)]
    for done, b in zip(pair, (1000.0, 3000.0), strict=True):
        result = fp.audit(counts(), level(command), "baseline", budget=b)
        assert done.data["budget"] == b
        cost = first(done, command)["cost_of_privacy"]
        share, amount = result.cost_of_privacy.share, result.cost_of_privacy.amount
        intervals = {"share_interval": known(share), "amount_interval": known(amount)}
        assert cost == {"share": share.value, "amount": amount.value} | intervals
        if command == "audit":
            assert done.numbers("baseline_bias_money") == (result.bias * b).tolist()
        else:
            assert first(done, command)["largest_loss"]["value"] == result.largest_loss.value * b
            assert done.numbers("cost_money")[0] == result.cost_of_privacy.amount.value
    assert pair[0].screen != pair[1].screen
    assert "got -1.0" in refused(run, command, base(command, "--budget", -1, how="baseline"))
    line = refused(run, command, base(command, "--budget", 1000))
    assert line == "fairpost: --budget is for allocations, got nonnegative"
    words = base(command, "--budget", 1000, "--postprocess", "baseline")
    if command == "audit":  # one shares it: both run, each in its own table
        assert first(run(command, words), command)["cost_of_privacy"] is None
    else:
        assert "must be in one unit" in refused(run, command, words)


def group_budget(run, command):
    """A budget for each group; not one for all, and not without groups."""
    Path("one.csv").write_text("group,budget\ns,300\nn,100\n")
    Path("two.csv").write_text("group,budget\ns,100\nn,300\n")
    words = base(command, "--by-group", how="baseline")
    for file, budgets in (("one.csv", {"n": 100.0, "s": 300.0}), ("two.csv", {"n": 300.0, "s": 100.0})):
        done = run(command, [*words, "--group-budget", file])
        result = fp.audit(counts(), level(command), "baseline", by_group=True, budget=budgets)
        said = first(done, command) if command == "audit" else done.data
        assert said["group_budgets"]["amounts"] == budgets
        assert done.data["budget"] == 400.0
        assert first(done, command)["alpha"] == known(
            result.alpha if command == "audit" else result.alpha.scaled(400.0)
        )
        assert first(done, command)["cost_of_privacy"]["amount"] == result.cost_of_privacy.amount.value
    for more, said in (
        (["--by-group", "--budget", 5], "money is given by --budget or by --group-budget, got both"),
        ([], "--group-budget is for shares by group, got no --by-group"),
    ):
        line = refused(run, command, base(command, "--group-budget", "one.csv", *more, how="baseline"))
        assert line == f"fairpost: {said}"


def by_group(run, command):
    for how in ("baseline", "simplex"):
        for words, yes in (([], False), (["--by-group"], True)):
            found = first(run(command, base(command, *words, how=how)), command)
            assert found["alpha"]["value"] == fp.audit(counts(), level(command), how, by_group=yes).alpha.value


def programme(run, command):
    """A law without rates, from a file; the base that rates are of; and that neither is dropped in silence."""
    Path("law.toml").write_text('name = "mine"\neligible = ["count >= 12"]\n')
    Path("rate.toml").write_text('name = "rate"\neligible = ["count >= 12", "count > 1 % of base"]\n')
    words = base(command, how="as-written")
    if command == "allocate":
        done = run(command, [*words, "--programme", "law.toml"])
        y, a = noisy(), np.array([1.0, 2.0, 1.0, 4.0])
        due = np.where(y >= 12, a * y, 0.0)
        np.testing.assert_allclose(done.numbers("as_written_share"), due / due.sum(), rtol=1e-12)
    else:
        found = first(run(command, [*words, "--programme", "law.toml"]), command)
        law = fp.Programme.from_toml(Path("law.toml").read_text())
        assert found["alpha"] == known(fp.audit(counts(), level(command), "as-written", programme=law).alpha)
    assert "needs a base population (--base)" in refused(run, command, [*words, "--programme", "rate.toml"])
    run(command, [*words, "--programme", "rate.toml", "--base", "weight"])
    plain = base(command)
    assert "got no --programme" in refused(run, command, [*plain, "--base", "weight"])


def base_noise(run, command):
    """A rate whose base is noisy: the library's numbers, another for another noise, and that it is not dropped in silence."""
    Path("rate.toml").write_text('name = "rate"\neligible = ["count > 60 % of base"]\n')
    words = [*base(command, how="as-written"), "--programme", "rate.toml", "--base", "other"]
    file = None
    if command == "allocate":
        Path("seen.csv").write_text(NOISY.replace("-30", "30"))
        file = "seen.csv"
    seen = []
    for said in ("same", 3):
        done = run(command, [*words, "--base-noise", said], file=file)
        noise = level("audit" if command == "allocate" else command)
        other = "same" if said == "same" else fp.Laplace(3.0)
        known_base = fp.Counts([r["count"] for r in map(_floats, ROWS)], weights=[r["weight"] for r in map(_floats, ROWS)],
                               base=[r["other"] for r in map(_floats, ROWS)])  # fmt: skip
        law = fp.Programme.from_toml(Path("rate.toml").read_text())
        if command == "allocate":
            seen.append(done.numbers("as_written_estimated_bias"))
        else:
            seen.append(first(done, command)["alpha"])
            assert seen[-1] == known(fp.audit(known_base, noise, "as-written", programme=law, base_noise=other).alpha)
    assert seen[0] != seen[1]
    assert "got no --base" in refused(run, command, [*base(command), "--base-noise", "same"])
    assert "a number or same" in refused(run, command, [*words, "--base-noise", "some"])


def _floats(row):
    return {k: float(row[k]) for k in ("count", "weight", "other")}


def method(run, command):
    """The engine of that name: what it finds, what it refuses, and no setting that is not its own."""
    Path("many.csv").write_text("id,count\n" + "".join(f"{i},{1 + i % 40}\n" for i in range(400)))
    many = fp.Counts([1 + i % 40 for i in range(400)], ids=[str(i) for i in range(400)])
    for how, name, found in (
        ("nonnegative", "auto", "exact"),
        ("nonnegative", "exact", "exact"),
        ("nonnegative", "monte-carlo", "monte-carlo"),
        ("simplex-threshold", "auto", "conditional"),
        ("simplex-threshold", "conditional", "conditional"),
        ("simplex-threshold", "expansion", "expansion"),
        ("simplex-threshold", "monte-carlo", "monte-carlo"),
    ):
        done = run(command, base(command, "--method", name, how=how), file="many.csv")
        result = fp.audit(many, level(command), how, engine=name)
        said = first(done, command)
        assert (said["method"], said["alpha"]) == (found, known(result.alpha))
        kinds = {"exact": ("bound", "estimate"), "expansion": ("expansion",)}.get(found, ("interval",))
        assert said["accuracy"] == said["alpha"]["accuracy"]
        assert said["accuracy"] in kinds
    for how, name, line in (
        ("nonnegative", "expansion", "there is no expansion for the post-processing 'nonnegative'"),
    ):
        done = run(command, base(command, "--method", name, how=how), file="many.csv")
        assert done.code == 3
        assert line in done.screen
        assert not list(done.folder.iterdir())
    for name, option, value in (
        ("exact", "runs", 5), ("exact", "threads", 1), ("exact", "confidence", 0.9), ("exact", "seed", 0),
        ("expansion", "runs", 5), ("expansion", "rtol", 0.1),
    ):  # fmt: skip
        line = refused(run, command, base(command, "--method", name, f"--{option}", value))
        assert line == f"fairpost: --{option} is no setting of the engine '{name}'"


def simulated(run, command, *, words, engine):
    """The option's words are this engine, and the engine without them gives another number."""
    plain = first(run(command, base(command, *SIM)), command)["alpha"]
    found = first(run(command, base(command, *SIM, *words)), command)["alpha"]
    want = fp.audit(counts(), level(command), "nonnegative", engine=engine).alpha
    assert found == known(want)
    assert found != plain


def rtol(run, command):
    """Simulation stops early; conditional means end at their tolerance."""
    assert run(command, base(command, "--rtol", 0)).code == 2
    words = ["--method", "monte-carlo", "--runs", 200_000]
    few = first(run(command, base(command, *words, "--rtol", 0.5)), command)
    want = fp.audit(counts(), level(command), "nonnegative", engine=fp.MonteCarlo(200_000, rtol=0.5))
    assert want.engine.runs < 200_000
    assert few["alpha"]["value"] == want.alpha.value
    if command != "audit":  # they make their engine in the same place
        return
    rough = first(run(command, base(command, "--method", "conditional", "--rtol", 0.1, how="pos")), command)["alpha"]
    assert rough == known(fp.audit(counts(), level(command), "pos", engine=fp.Conditional(0.1)).alpha)


def threads(run, command):
    """The bits do not depend on threads, so only a wrong number of them shows."""
    one, two = (first(run(command, base(command, *SIM, "--threads", t)), command) for t in (1, 2))
    assert one == two
    bad = run(command, base(command, *SIM, "--threads", 0))
    assert bad.code == 2
    assert "--threads" in bad.screen


def device(run, command):
    """auto says where the runs were made; the numbers are the same, to rounding where that was a GPU."""
    plain, asked = (first(run(command, base(command, *SIM, *words)), command) for words in ([], ["--device", "auto"]))
    assert asked["note"].startswith(f"{plain['note']}; simulated on the ")
    assert asked["alpha"]["value"] == pytest.approx(plain["alpha"]["value"], rel=1e-9)
    bad = run(command, base(command, "--method", "exact", "--device", "cpu"))
    assert bad.code == 2
    assert "--device is for simulation" in bad.screen


def checkpoint(run, command):
    """A state is read where it is named: one that is none is refused, and not looked at otherwise."""
    Path("state").write_text("no state")
    bad = run(command, base(command, *SIM, "--checkpoint", "state"))
    assert bad.code == 2
    assert "state" in bad.screen
    assert run(command, base(command, *SIM)).code == 0


def cluster(run, command):
    done = run(command, base(command, *SIM, "--cluster", "nonsense://x"))
    assert done.code != 0
    assert "nonsense" in done.screen


def entities(run, command):
    """Every entity, with the half-width of each bias, and its standard error where it was simulated."""
    for words, engine in (([], "auto"), (SIM, fp.MonteCarlo(400))):
        one, two = (run(command, base(command, *words, *w)).results[0] for w in ([], ["--entities"]))
        assert "entities" not in one
        r = fp.audit(counts(), fp.Laplace(10.0), "nonnegative", engine=engine)
        assert (r.engine.standard_error is None) == (engine == "auto")
        assert np.isinf(r.moments.mse_accuracy.half_width).all() == (engine != "auto")  # JSON has no infinity: null
        assert two["entities"] == [
            {
                "id": r.counts.ids[i],
                "due": r.truth[i],
                "bias": r.bias[i],
                "half_width": r.half_width[i],
                "relative_bias": r.bias[i] / r.truth[i],
                # four entities: (2 * 4 + 4) eps of rounding
                "relative_half_width": r.half_width[i] / r.truth[i] + 12 * 2.0**-52 * abs(r.bias[i] / r.truth[i]),
                "accuracy": r.accuracy.kind,
                "standard_error": None if r.engine.standard_error is None else r.engine.standard_error[i],
                "standard_deviation": np.sqrt(r.moments.mse[i] - r.bias[i] ** 2),
                "mean_squared_error": r.moments.mse[i],
                "mean_squared_error_half_width": r.moments.mse_accuracy.half_width[i] if engine == "auto" else None,
                "zero": r.moments.zero[i],
                "zero_half_width": r.moments.zero_accuracy.half_width[i],
            }
            for i in range(4)
        ]


def output(run, command, *, kind):
    all_, none = (run(command, base(command), files=files) for files in (OUTPUTS[command], ()))
    assert (all_.folder / f"o.{kind}").stat().st_size > 40
    assert sorted(p.name for p in all_.folder.iterdir()) == sorted(f"o.{k}" for k in OUTPUTS[command])
    assert not list(none.folder.iterdir())
    only = run(command, base(command), files=(kind,))
    assert [p.name for p in only.folder.iterdir()] == [f"o.{kind}"]
    assert f"o.{kind}" in only.screen
    if kind == "json":
        loud = run(command, [*base(command), "--json", "-"], files=())
        assert {k: v for k, v in json.loads(loud.screen).items() if k != "command"} == {
            k: v for k, v in all_.data.items() if k != "command"
        }


def words_of_the_page(run, command, *, option, default):
    one, two = (run(command, base(command, *w), files=("html",)) for w in ([], [option, "Zqx"]))
    assert "Zqx" not in one.html
    assert "Zqx" in two.html
    if default:
        assert default in one.html


def label_of_a_projection(run, command):
    """Page, table, JSON and the remark about the largest change say what people call an entity."""
    one, two = (run(command, base(command, *w), files=("html", "csv", "json")) for w in ([], ["--label", "region"]))
    assert two.column("name") == [e["name"] for e in two.data["entities"]] == ["e", "w", "e", "w"]
    assert "name" not in one.rows[0]
    assert "name" not in one.data["entities"][0]
    names = [json.loads(re.search(r'id="data">(.*?)</script>', r.html, re.S)[1])["names"] for r in (one, two)]
    assert names == [None, ["e", "w", "e", "w"]]
    assert "region" in refused(run, command, [*base(command), "--label", "regoin"])


def map_of_the_page(run, command, *, option):
    """The areas of the file that is named, by the property that is named."""
    square = [[[0, 0], [1, 0], [1, 1], [0, 0]]]
    areas = [
        {"type": "Feature", "id": i, "properties": {"other": j}, "geometry": {"type": "Polygon", "coordinates": square}}
        for i, j in (("a", "c"), ("b", "zz"))
    ]
    Path("m.json").write_text(json.dumps({"type": "FeatureCollection", "features": areas}))
    words = {"--map": ["--map", "m.json"], "--map-key": ["--map", "m.json", "--map-key", "other"]}[option]
    one, two = (run(command, base(command, *w), files=("html",)) for w in (words[:-2], words))
    found = [json.loads(re.search(r'id="data">(.*?)</script>', r.html, re.S)[1])["map"] for r in (one, two)]
    assert [None if m is None else m["of"] for m in found] == ([None, [0, 1]] if option == "--map" else [[0, 1], [2]])


def currency(run, command):
    files = tuple(k for k in OUTPUTS[command] if k == "html")
    words = base(command, "--budget", 1e3, how="baseline")
    one, two = (run(command, [*words, *w], files=files) for w in ([], ["--currency", "Zqx"]))
    assert "$" in one.screen
    assert "Zqx" not in one.screen
    assert "Zqx" in two.screen
    assert "$" not in two.screen
    assert "Zqx" in two.html
    assert "Zqx" not in one.html


def saved(run, command):
    """The question as a file, which `fairpost run` answers with the same numbers; nothing is kept of a question that is refused."""
    one = run(command, [*base(command), "--save", "q.toml", "--force"])
    done = CliRunner().invoke(main, ["run", "q.toml", "--json", "again.json", "--force"])
    assert (one.code, done.exit_code) == (0, 0), done.output
    again = json.loads(Path("again.json").read_text())
    assert {k: v for k, v in again.items() if k != "command"} == {k: v for k, v in one.data.items() if k != "command"}
    run(command, [*base(command), "--id", "nowhere", "--save", "none.toml"])
    assert not Path("none.toml").exists()


def force(run, command):
    Path("mine.json").write_text("mine")
    stop = run(command, [*base(command), "--json", "mine.json"], files=())
    assert stop.code == 2
    assert Path("mine.json").read_text() == "mine"
    go = run(command, [*base(command), "--json", "mine.json", "--force"], files=())
    assert go.code == 0
    assert json.loads(Path("mine.json").read_text())["version"] == fp.__version__


def epsilons(run, command):
    words = ["--points", 2, "--postprocess", "nonnegative", *(["--max-alpha", 1e9] if command == "plan" else [])]
    for given, want in (([], [10.0, 0.001]), (["--epsilons", 0.1, 1], [1.0, 0.1])):
        assert run(command, [*words, *given]).numbers("epsilon") == pytest.approx(want, rel=1e-12)
    for bad in ([0, 1], [1, 1], [1, "inf"], [-1, 1]):
        assert run(command, [*words, "--epsilons", *bad]).code == 2


def spreads(run, command):
    words = ["--points", 3, "--postprocess", "nonnegative", *(["--max-alpha", 1e9] if command == "plan" else [])]
    for ends in ((5, 20), (4, 36)):
        want = [ends[0], np.sqrt(ends[0] * ends[1]), ends[1]]
        assert run(command, [*words, "--spreads", *ends]).numbers("scale") == pytest.approx(want, rel=1e-12)


def points(run, command):
    words = ["--spreads", 5, 6, "--postprocess", "nonnegative", *(["--max-alpha", 1e9] if command == "plan" else [])]
    assert [len(run(command, [*words, *w]).rows) for w in ([], ["--points", 3])] == [25, 3]


LIMITS = {
    "alpha": (20.0, 50.0), "loss": (20.0, 40.0), "relative-loss": (5.0, 9.0), "cost": (30.0, 60.0),
    "rmse": (40.0, 70.0), "relative-rmse": (16.0, 28.0),
}  # fmt: skip
"""Of `baseline` with a budget of 1000: dollars, and percent of what is due."""


def quantity(scale, name):
    r = fp.audit(counts(), fp.Laplace(scale), "baseline", budget=1000.0)
    ends = {
        "alpha": r.alpha.scaled(1000.0),
        "loss": r.largest_loss.scaled(1000.0),
        "relative-loss": r.relative.largest_loss.scaled(100.0),
        "cost": r.cost_of_privacy.amount,
        "rmse": r.moments.rmse.scaled(1000.0),
        "relative-rmse": r.moments.rmse.scaled(100.0 * counts().n),  # the mean of what is due is 1 / n of the budget
    }
    return ends[name]


def target(run, command, *, name):
    """plan: the answer meets the limit at the upper end, and 1 % more noise does not. audit: a verdict on either side."""
    key = f"max_{name.replace('-', '_')}"
    if command == "audit":
        reached = quantity(10.0, name)
        for limit, outcome in ((reached.high * 1.01, "passes"), (reached.low * 0.99, "fails")):
            done = run(command, base(command, f"--max-{name}", limit, "--budget", 1000, how="baseline"))
            assert done.code == 0  # whatever the verdict
            assert done.data["targets"] == {key: limit}
            (verdict,) = done.results[0]["verdicts"]
            assert (verdict["outcome"], verdict["limit"]) == (outcome, limit)
            assert verdict["reached"]["value"] == pytest.approx(reached.value, rel=1e-12)
            assert done.screen.startswith(f"baseline {outcome}: ")
        assert run(command, base(command, how="baseline")).results[0]["outcome"] is None
    else:
        for limit in LIMITS[name]:
            words = ["--spreads", 1, 100, "--points", 5, "--postprocess", "baseline", "--budget", 1000]
            done = run(command, [*words, f"--max-{name}", limit, *([] if "rmse" in name else ["--any-error"])])
            assert done.data["targets"] == {key: limit}
            found = done.data["plans"][0]["found"]["mechanism"]["scale"]
            assert quantity(found, name).high <= limit < quantity(1.01 * found, name).high
    assert f"--max-{name} must be > 0 and finite, got 0" in refused(run, command, base(command, f"--max-{name}", 0))


def any_error(run, command):
    """Without a limit on the error there is a usual one, and the first line says so; with the option there is none."""
    words = ["--epsilons", 0.001, 10, "--points", 5, "--postprocess", "nonnegative", "--max-relative-loss", 1]
    usual, none = run(command, words), run(command, [*words, "--any-error"])
    (kept,), (drowned,) = usual.data["plans"], none.data["plans"]
    assert (usual.data["targets"], usual.data["assumed"]) == (
        {"max_relative_loss": 1, "max_relative_rmse": 30}, ["max_relative_rmse"],
    )  # fmt: skip
    assert (none.data["targets"], none.data["assumed"]) == ({"max_relative_loss": 1}, [])
    # nobody ever loses by clipping alone: x + eta above 0 has the mean square (E (x + eta)_+ - x)^2 of 2 b^2 - b^2 e^{-x/b}
    x, b = counts().values, kept["found"]["mechanism"]["scale"]
    error = np.sqrt(np.mean(2 * b**2 - b**2 * np.exp(-x / b) - b * x * np.exp(-x / b)))
    assert error / x.mean() == pytest.approx(0.3, rel=1e-5)
    assert drowned["found"]["epsilon"] == pytest.approx(0.001)
    head = " ".join(usual.screen.split()).partition("The most noise")[0]
    off = kept["stated"]["rmse"]["value"]
    assert f"the typical error of nonnegative is {off:.5g} people, " in head
    assert "% of the mean of what is due (at most 30 % by default, which binds); all results together miss the " in head
    head = " ".join(none.screen.split()).partition("The most noise")[0]
    assert re.search(
        r"at epsilon 0\.001 .*the typical error of nonnegative is 1,000\.\d people, 3,\d00 % of the mean", head
    ), head
    assert "got one" in refused(run, command, [*words, "--any-error", "--max-rmse", 4])


def label(run, command):
    """Names on the screen (and in tables of entities); without the option the ids."""
    how = "baseline"
    plain, named = (run(command, base(command, *w, how=how)) for w in ([], ["--label", "name"]))
    if command in ("audit", "allocate"):
        assert named.column("name") == [r["name"] for r in (ROWS if command == "audit" else SEEN)]
        assert "name" not in plain.rows[0]
        assert named.column("id") == plain.column("id")
    else:
        point = first(named, command)
        assert point["names"] == {i: i.upper() for i in {*point["alpha_pair"], point["largest_relative_loss"]["id"]}}
        assert first(plain, command)["names"] == {}
    assert "D" in re.split(r"[^A-Za-z]+", named.screen)
    assert "D" not in re.split(r"[^A-Za-z]+", plain.screen)
    assert "'nom'" in refused(run, command, base(command, "--label", "nom"))


def keep(run, command):
    """Columns as they stand in the file, in CSV and JSON; one whose name is taken gets another."""
    more = ["--entities"] if command == "audit" else []
    done = run(command, base(command, "--keep", "region", "--keep", "price", "--keep", "count", *more, how="baseline"))
    rows = ROWS if command == "audit" else SEEN
    assert done.column("region") == [r["region"] for r in rows]
    assert done.column("price") == [r["price"] for r in rows]
    assert done.column("kept_count" if command == "audit" else "count") == [r["count"] for r in rows]
    assert [e["kept"] for e in done.data["entities"]] == [{k: r[k] for k in ("region", "price", "count")} for r in rows]
    assert "region" not in run(command, base(command, how="baseline")).rows[0]
    assert "'nowhere'" in refused(run, command, base(command, "--keep", "nowhere"))


def kept_by_a_projection(run, command):
    """Columns as they stand in the file, behind those that say what a row is about."""
    done = run(command, base(command, "--keep", "region", "--keep", "count", "--keep", "price"))
    assert list(done.rows[0])[:5] == ["id", "group", "region", "kept_count", "price"]
    for name, of in (("region", "region"), ("kept_count", "count"), ("price", "price")):
        assert done.column(name) == [r[of] for r in SEEN]
    assert [e["kept"] for e in done.data["entities"]] == [{k: r[k] for k in ("region", "count", "price")} for r in SEEN]
    plain = run(command, base(command))
    assert "region" not in plain.rows[0]
    assert "kept" not in plain.data["entities"][0]
    assert "'nowhere'" in refused(run, command, base(command, "--keep", "nowhere"))


def csv_groups(run, command):
    """One row per group, as the library says; not without groups."""
    run(command, base(command, "--csv-groups", "g.csv", "--budget", 1000, how="baseline"))
    rows = list(csv.DictReader(io.StringIO(Path("g.csv").read_text())))
    r = fp.audit(counts(), level(command), "baseline", budget=1000.0)
    assert [row["group"] for row in rows] == ["n", "s"]
    for row, of in zip(rows, ("n", "s"), strict=True):
        mine = np.array([g == of for g in r.counts.groups])
        assert float(row["baseline_bias_money"]) == pytest.approx(1000 * r.bias[mine].sum(), rel=1e-12)
        assert float(row["baseline_relative_bias"]) == pytest.approx(
            r.bias[mine].sum() / r.truth[mine].sum(), rel=1e-12
        )
        assert float(row["baseline_alpha"]) == pytest.approx(np.ptp(r.bias[mine]), rel=1e-12)
        assert row["baseline_loses_most"] == r.counts.ids[int(np.flatnonzero(mine)[np.argmin(r.bias[mine])])]
    Path("none.csv").write_text("id,count\na,3\nb,4\n")
    done = run(command, base(command, "--csv-groups", "h.csv"), file="none.csv")
    assert done.code == 2
    assert "counts with groups" in done.screen
    assert not Path("h.csv").exists()


def frontier(run, command):
    """The path of the threshold in the JSON; by default none. Sixty entities, for which the expansion has each point at once."""
    towns = [float(3 * k * k % 97 + 2 * k) for k in range(60)]
    Path("many.csv").write_text("id,count\n" + "".join(f"t{k},{x:g}\n" for k, x in enumerate(towns)))
    assert run(command, base(command, how="baseline")).data["frontier"] is None
    for how, rule in (("pos", "pos-threshold"), ("simplex", "simplex-threshold")):
        found = run(command, base(command, "--frontier", how=how), file="many.csv").data["frontier"]
        assert found["rule"] == rule
        assert [p["postprocess"] for p in found["named"]] == [how]
        start = fp.audit(fp.Counts(towns), level(command), how)
        assert found["path"][0]["threshold"] == 0
        assert found["path"][-1]["threshold"] == pytest.approx(level(command).best_threshold().level, rel=1e-12)
        alpha = found["path"][0]["point"]["alpha"]
        assert alpha["low"] <= start.alpha.high
        assert start.alpha.low <= alpha["high"]
        assert alpha["high"] - alpha["low"] <= 0.1 * start.alpha.value


def explain(run, command):
    """A line for each rule on the screen, and no number moves."""
    plain, told = run(command, base(command, how="simplex")), run(command, base(command, "--explain", how="simplex"))
    line = r"(?m)^\s*simplex: (few|contour|conditional)\b"
    assert re.search(line, told.screen), told.screen
    assert not re.search(line, plain.screen)
    assert told.data["results"] == plain.data["results"]


def shared_by_group(run, command):
    """allocate: shares that sum to 1 inside each group, or to each group's part of one budget."""
    y, a = noisy(), np.array([1.0, 2.0, 1.0, 4.0])
    inside = run(command, base(command, "--by-group"))
    pos = np.maximum(y, 0) * a
    groups = np.array([r["group"] for r in SEEN])
    within = np.array([pos[i] / pos[groups == groups[i]].sum() for i in range(4)])
    assert inside.numbers("baseline_share") == pytest.approx(within, rel=1e-12)
    split = run(command, base(command, "--by-group", "--budget", 1000))
    sums = {g: (a * y)[groups == g].sum() for g in ("n", "s")}
    parts = {g: 1000 * s / sum(sums.values()) for g, s in sums.items()}
    assert split.data["group_budgets"]["amounts"] == pytest.approx(parts, rel=1e-12)
    assert split.numbers("baseline_money") == pytest.approx(within * [parts[g] for g in groups], rel=1e-12)
    assert "noisy sums" in " ".join(split.screen.split())
    assert run(command, base(command)).data["by_group"] is False


def shared_group_budget(run, command):
    """allocate: a budget for each group; not one for all, and not without groups."""
    Path("one.csv").write_text("group,budget\ns,300\nn,100\n")
    plain = run(command, base(command, "--by-group")).numbers("baseline_share")
    amounts = {"n": 100.0, "s": 300.0}
    for given, wanted in (("one.csv", amounts), ("t", {"n": 30.0, "s": 70.0})):
        done = run(command, base(command, "--by-group", "--group-budget", given))
        assert done.data["group_budgets"]["amounts"] == wanted
        assert done.data["budget"] == sum(wanted.values())
        paid = [s * wanted[r["group"]] for s, r in zip(plain, SEEN, strict=True)]
        assert done.numbers("baseline_money") == pytest.approx(paid, rel=1e-12)
    assert "got both" in refused(run, command, base(command, "--by-group", "--budget", 5, "--group-budget", "t"))
    assert "got no --by-group" in refused(run, command, base(command, "--group-budget", "t"))


def round_(run, command):
    one, two = (run(command, ["--total", 100, *w]) for w in ([], ["--round", "--seed", 1]))
    assert one.data["rounding"] is None
    values = np.array(one.numbers("count"))
    assert two.numbers("before_rounding") == values.tolist()
    whole = np.array([int(v) for v in two.column("count")])
    assert whole.sum() == 100
    moved = whole - values
    assert two.data["rounding"] == {
        "seed": 1,
        "rounded_up": int((moved > 0).sum()),
        "rounded_down": int((moved < 0).sum()),
        "largest_change": np.abs(moved).max(),
        "root_mean_square_change": np.sqrt(np.mean(moved**2)),
        "sum_change": whole.sum() - values.sum(),
    }
    assert [e["count"] for e in two.data["entities"]] == whole.tolist()


def rounding_seed(run, command):
    def whole(*w):
        done = run(command, ["--total", 100, "--round", *w])
        return done.column("count"), done.data["rounding"]["seed"]

    kept = [whole("--seed", s) for s in range(6)]
    assert [seed for _, seed in kept] == list(range(6))
    assert len({tuple(v) for v, _ in kept}) > 1
    assert whole("--seed", 3) == kept[3]
    assert whole()[1] != whole()[1]  # fresh: equal with chance 2^-63
    assert run(command, ["--total", 100, "--round", "--seed", -1]).code == 2


def estimates(run, command, *, words, **changed):
    """What `allocate` says, from the library."""
    given = dict(confidence=0.95, simultaneous=False, replicates=2, seed=0)
    found = []
    for w, kept in ((["--replicates", 2], given), (["--replicates", 2, *words], given | changed)):
        done = run(command, ["--scale", 2, "--postprocess", "baseline", *w])
        a, laplace = [1.0, 2.0, 1.0, 4.0], fp.Laplace(2.0)
        interval = share_interval(noisy(), laplace, a, confidence=kept["confidence"], simultaneous=kept["simultaneous"])
        assert done.numbers("true_share_low") == interval.low.tolist()
        assert done.numbers("true_share_high") == interval.high.tolist()
        assert done.data["interval"] == {
            "confidence": kept["confidence"],
            "simultaneous": kept["simultaneous"],
            "of": "the true share",
        }
        bias = plug_in(noisy(), laplace, a, "baseline", replicates=kept["replicates"], seed=kept["seed"])
        assert done.numbers("baseline_estimated_bias") == bias.bias.tolist()
        assert done.numbers("baseline_estimated_bias_error") == bias.error.tolist()
        assert done.numbers("baseline_estimated_standard_deviation") == bias.deviation.tolist()
        assert done.data["bias"]["replicates"] == kept["replicates"]
        found.append(done)
    key = "baseline_estimated_bias_error" if {"seed", "replicates"} & set(changed) else "true_share_high"
    assert found[0].column(key) != found[1].column(key)


COLUMNS = {"--id": ids, "--count": count, "--weight": weight, "--group": group, "--format": format_} | READING
ENGINE = {
    "--method": method,
    "--runs": partial(simulated, words=["--runs", 300], engine=fp.MonteCarlo(300)),
    "--seed": partial(simulated, words=["--seed", 7], engine=fp.MonteCarlo(400, seed=7)),
    "--confidence": partial(simulated, words=["--confidence", 0.6], engine=fp.MonteCarlo(400, confidence=0.6)),
    "--rtol": rtol,
    "--threads": threads,
    "--device": device,
}
FILES = {f"--{kind}": partial(output, kind=kind) for kind in ("json", "csv", "html")} | {
    "--csv-safe": csv_safe,
    "--save": saved,
}
WORDS = {
    "--title": partial(words_of_the_page, option="--title", default=None),
    "--unit": partial(words_of_the_page, option="--unit", default="people"),
    "--currency": currency,
}
PROBLEM = {"--total": total, "--budget": budget, "--group-budget": group_budget, "--by-group": by_group} | {
    "--programme": programme, "--base": programme, "--base-noise": base_noise,
}  # fmt: skip
NOUN = {"--noun": partial(words_of_the_page, option="--noun", default="entities")}
RANGE = {"--epsilons": epsilons, "--spreads": spreads, "--points": points}
AGAINST = (
    COLUMNS | PROMISED | RANGE | PROBLEM | ENGINE | FILES | WORDS | NOUN
    | {"--mechanism": mechanism, "--postprocess": postprocess, "--force": force}
)  # fmt: skip


def of_levels(run, command, option, value):
    """A hierarchy's options are not dropped in silence; what they do is in test_hierarchy_cli."""
    assert "level" in refused(run, command, [*base(command), option, value])


def of_rhos(run, command):
    assert "--rhos needs --levels" in refused(run, command, [*base(command), "--rhos", 1, 2])


def of_tries(run, command):
    """Two tries find less than forty; what else a plan over splits does is in test_hierarchy_cli."""
    Path("tree.csv").write_text("id,count\n" + "".join(f"{k // 9}{k % 9},{k * k % 40}\n" for k in range(54)))
    words = ["--levels", "a:1,b:2", "--rho", 1, "--level-rmse", "a:9"]
    few, many = (run(command, [*words, "--tries", n], file="tree.csv").data["plans"][0] for n in (2, 40))
    assert few["tried"] == 2 < many["tried"]
    assert many["best"]["alpha"] < few["best"]["alpha"]


def statement(run, command):
    """A file that is no statement is refused by its name; what one does is in test_release_cli."""
    Path("no.json").write_text("{}")
    assert "no.json" in refused(run, command, ["--statement", "no.json"])


LEVELS = {
    option: partial(of_levels, option=option, value=value)
    for option, value in {"--levels": "state:1", "--level-sigma": "1", "--split": "1", "--exact": "state"}.items()
}

AGAINST |= LEVELS | {"--rho": partial(of_levels, option="--rho", value=1)}
HISTOGRAM = {
    "--cells": "count",
    "--total-sigma": "1",
    "--total-share": "0.5",
}  # the rest is in test_hierarchy_total_first
MOST = {f"--max-{k}": partial(target, name=k) for k in LIMITS}
TABLE = {
    "audit": COLUMNS | LEVELS
    | {option: partial(of_levels, option=option, value=value) for option, value in HISTOGRAM.items()}
    | {"--areas": partial(of_levels, option="--areas", value="id"), "--statement": statement} | STATEMENTS | PROBLEM | ENGINE | FILES | WORDS
    | {"--mechanism": mechanism, "--postprocess": postprocess, "--checkpoint": checkpoint, "--cluster": cluster}
    | {"--label": label, "--keep": keep, "--csv-groups": csv_groups, "--frontier": frontier, "--explain": explain} | MOST
    | {option: partial(map_of_the_page, option=option) for option in ("--map", "--map-key")}
    | {"--entities": entities, "--force": force} | NOUN,
    "sweep": AGAINST | {"--label": label, "--rhos": of_rhos},
    "plan": AGAINST | {"--label": label, "--any-error": any_error} | MOST
    | {"--level-rmse": partial(of_levels, option="--level-rmse", value="state:1"), "--tries": of_tries},
    "project": COLUMNS | LEVELS | STATEMENTS | FILES | NOUN | {k: v for k, v in WORDS.items() if k != "--currency"}
    | {"--label": label_of_a_projection, "--keep": kept_by_a_projection}
    | {"--mechanism": mechanism, "--postprocess": postprocess, "--total": total, "--group-total": group_total}
    | {"--round": round_, "--seed": rounding_seed, "--force": force},
    "allocate": COLUMNS | STATEMENTS | FILES | NOUN | WORDS
    | {"--mechanism": mechanism, "--postprocess": postprocess, "--budget": budget, "--force": force}
    | {"--programme": programme, "--base": programme, "--base-noise": base_noise, "--label": label, "--keep": keep}
    | {"--by-group": shared_by_group, "--group-budget": shared_group_budget}
    | {
        "--confidence": partial(estimates, words=["--confidence", 0.5], confidence=0.5),
        "--simultaneous": partial(estimates, words=["--simultaneous"], simultaneous=True),
        "--replicates": partial(estimates, words=["--replicates", 4], replicates=4),
        "--seed": partial(estimates, words=["--seed", 9], seed=9),
    },
}  # fmt: skip


def options_of(command):
    made = main.get_command(click.Context(main), command)
    return {p.opts[0] for p in made.params if isinstance(p, click.Option)} - {"--help"}


@pytest.mark.parametrize("command", TABLE)
def test_every_option_has_an_entry(command):
    assert options_of(command) == set(TABLE[command])


@pytest.mark.parametrize(("command", "option"), [(c, o) for c, table in TABLE.items() for o in table])
def test_an_option_matters(run, command, option):
    TABLE[command][option](run, command)


# -- options that meet -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["audit", "sweep", "plan", "allocate"])
def test_budgets_by_group_with_names(run, command):
    """Names change no number, and money goes by the group, not by the name."""
    Path("one.csv").write_text("group,budget\ns,300\nn,100\n")
    words = base(command, "--by-group", "--group-budget", "one.csv", how="baseline")
    plain, named = run(command, words), run(command, [*words, "--label", "name"])
    if command in ("audit", "allocate"):
        assert named.column("name") == [r["name"] for r in ROWS]
        paid = "baseline_bias_money" if command == "audit" else "baseline_money"
        assert named.column(paid) == plain.column(paid)
    else:
        point = first(named, command)
        assert point["names"] == {i: i.upper() for i in {*point["alpha_pair"], point["largest_relative_loss"]["id"]}}
        assert point["alpha"] == first(plain, command)["alpha"]
    assert named.screen != plain.screen


@pytest.mark.parametrize("command", ["audit", "sweep", "plan", "project", "allocate"])
def test_conditions_on_a_file_of_the_census(run, command):
    districts = [("15", f"0003{k}", f"District {k}", 900, 70 + k, poor) for k, poor in enumerate((40, 4, 60))]
    Path("s.txt").write_text(saipe_text([*districts, ("16", "00001", "Elsewhere", 800, 99, 20)]))
    for condition, want in (
        ([], (4, 124)),
        (["--where", "poor_5_17 > 5"], (3, 120)),
        (["--where", "state = 15"], (3, 104)),
    ):
        done = run(command, base(command, "--format", "saipe", *condition), file="s.txt")
        assert (done.code, seen(done)) == (0, want), done.screen


# -- commands without a file of counts -------------------------------------------------------------------------------


def test_the_options_of_paper_reach_the_reproduction(monkeypatch, tmp_path):
    import fairpost.paper

    seen = []

    def reproduce(out, **given):
        seen.append({"out": out} | given)
        raise fp.UnsupportedError("seen enough")

    monkeypatch.setattr(fairpost.paper, "reproduce", reproduce)
    changes = {
        "--out": ("out", "elsewhere", Path("elsewhere")), "--saipe": ("saipe", "x.txt", Path("x.txt")),
        "--format": ("format", "tsv", "tsv"), "--id": ("id", "name", "name"),
        "--column": ("column", "pop_5_17", "pop_5_17"), "--weights": ("weights", "money", "money"),
        "--quick": ("quick", None, True), "--seed": ("seed", "3", 3), "--device": ("device", "gpu", "gpu"),
        "--force": ("force", None, True),
    }  # fmt: skip
    assert options_of("paper") == set(changes)
    usual = {"out": Path("paper"), "saipe": None, "format": None, "id": "leaid", "column": "poor_5_17", "weights": "1"}
    usual |= {"quick": False, "seed": 0, "device": "cpu", "force": False}
    for option, (name, word, value) in changes.items():
        done = CliRunner().invoke(main, ["paper", option, *([] if word is None else [word])])
        assert (done.exit_code, "seen enough" in done.output) == (3, True)
        progress = seen[-1].pop("progress")
        assert callable(progress)
        assert seen[-1] == usual | {name: value}


def test_the_options_of_explore_reach_the_page(monkeypatch, tmp_path):
    pytest.importorskip("uvicorn", reason="the extra `explore` is not installed")
    from fairpost.cli import exploring

    seen = []

    def serve(session, listening, host, opened):
        data = session.data
        shown = {k: v for k, v in session.defaults.items() if v not in (None, [])}
        port, reading = listening.getsockname()[1], {k: v for k, v in session.reading.items() if k != "say"}
        seen.append((shown, data and data.columns, data and data.levels, session.mode, host, port, opened, reading))

    monkeypatch.setattr(exploring, "_serve", serve)
    (tmp_path / "t.csv").write_text(TRUE)
    (tmp_path / "t.tsv").write_text(TRUE.replace(",", "\t"))

    def look(*words, file="t.csv"):
        done = CliRunner().invoke(main, ["explore", str(tmp_path / file), *map(str, words)])
        assert done.exit_code == 0, done.output
        return seen[-1]

    usual = look()
    given = {
        "--epsilon": (0.5, "epsilon", 0.5),
        "--scale": (4.0, "epsilon", 0.25),
        "--mechanism": ("discrete-laplace", "mechanism", "discrete-laplace"),
        "--sensitivity": (2.0, "sensitivity", 2.0),
        "--budget": (7.0, "budget", 7.0),
        "--programme": ("title1-basic", "programme", "title1-basic"),
        "--postprocess": ("pos", "postprocess", ["pos"]),
        "--unit": ("cows", "unit", "cows"),
        "--noun": ("farms", "noun", "farms"),
        "--currency": ("EUR", "currency", "EUR"),
        "--max-alpha": (3.0, "max_alpha", 3.0),
        "--max-loss": (4.0, "max_loss", 4.0),
        "--max-relative-loss": (5.0, "max_relative_loss", 5.0),
        "--max-cost": (6.0, "max_cost", 6.0),
        "--max-rmse": (8.0, "max_rmse", 8.0),
        "--max-relative-rmse": (9.0, "max_relative_rmse", 9.0),
        "--delta": (1e-5, "delta", 1e-5),
    }
    for option, (word, name, value) in given.items():
        assert look(option, word)[0] == usual[0] | {name: value}, option
    assert look("--by-group")[0] == usual[0] | {"by_group": True}
    gaussian = ["--mechanism", "gaussian", "--delta", 1e-5]
    for option, word, made in (("--sigma", 3.0, fp.Gaussian(3.0)), ("--rho", 0.1, fp.Gaussian.from_promise(rho=0.1))):
        assert look(*gaussian, option, word)[0]["epsilon"] == made.promise(1.0, 1e-5).epsilon
    for option, column in (
        ("--id", "name"),
        ("--count", "other"),
        ("--weight", "price"),
        ("--group", "region"),
        ("--label", "name"),
        ("--base", "other"),
    ):
        assert look(option, column)[1] == {option[2:]: column}
    assert look("--levels", "a:1")[2] == {"a": 1}
    assert look("--analyst")[3] == "analyst"
    assert look("--format", "tsv", file="t.tsv")[1] == {}
    read = {
        "format": None, "delimiter": None, "decimal": None, "sheet": None, "header": None, "where": (),
        "drop_missing": False,
    }  # fmt: skip
    assert usual[7] == read
    for option, name, word, value in (
        ("--format", "format", "csv", "csv"),
        ("--delimiter", "delimiter", "comma", "comma"),
        ("--decimal", "decimal", ".", "."),
        ("--where", "where", "count > 0", ("count > 0",)),
    ):
        assert look(option, word)[7] == read | {name: value}
    assert look("--drop-missing")[7] == read | {"drop_missing": True}
    (tmp_path / "t.xlsx").write_bytes(xlsx(one=[line.split(",") for line in TRUE.splitlines()]))
    assert look("--sheet", "one", file="t.xlsx")[7] == read | {"sheet": "one"}
    assert look("--header", 1, file="t.xlsx")[7] == read | {"header": 1}
    assert usual[3:5] == ("officer", "127.0.0.1")
    assert look("--host", "127.0.0.2")[4] == "127.0.0.2"
    assert (usual[6], look("--no-open")[6], look("--open")[6]) == (True, False, True)
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert look("--port", port)[5] == port
    others = {
        "--by-group", "--sigma", "--rho", "--id", "--count", "--weight", "--group", "--label", "--base", "--levels",
        "--analyst", "--format", "--delimiter", "--decimal", "--sheet", "--header", "--where", "--drop-missing",
    }  # fmt: skip
    assert options_of("explore") == set(given) | others | {"--host", "--open", "--port"}


def test_the_options_of_demo(monkeypatch, tmp_path):
    import fairpost.cli.shown as demonstration
    from fairpost.datasets import synthetic_districts

    assert options_of("demo") == {"--html", "--force", "--nation"}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demonstration, "synthetic_districts", lambda: synthetic_districts(20))
    done = CliRunner().invoke(main, ["demo", "--html", "mine.html"])
    assert done.exit_code == 0
    assert "SYNTHETIC: 20 school districts share $6.5 billion at epsilon 0.01:" in done.output
    page = Path("mine.html").read_text()
    assert "Synthetic school districts at epsilon 0.01" in page
    assert "children" in page
    assert "20 districts" in page
    done = CliRunner().invoke(main, ["demo", "--html", "mine.html", "--no-force"])
    assert (done.exit_code, "mine.html" in done.output) == (2, True)


# -- the screen (all of it: tests/golden) ------------------------------------------------------------------------------


def test_what_counts_as_negative(run):
    Path("few.csv").write_text("id,count\na,0.5\nb,0\nc,-0.25\nd,9\n")
    done = run("allocate", ["--postprocess", "pos"], file="few.csv")
    assert "1 of 4 noisy counts are negative (25.00" in done.screen
    changes = run("project", [], file="few.csv").data["changes"]
    assert changes["negative_before"] == 1


def test_degenerate_draws_that_never_happen_get_no_line(run):
    """Counts 40 and 60 at scale 1: both clipped with chance e^-100 / 4, which is above 0 and far below 1e-12."""
    Path("large.csv").write_text("id,count\na,40\nb,60\n")
    done = run("audit", ["--scale", 1, "--postprocess", "baseline"], file="large.csv")
    assert 0 < done.results[0]["degenerate"] < 1e-40
    assert "of the draws are degenerate" not in done.screen
