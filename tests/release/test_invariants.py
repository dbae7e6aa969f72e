"""What is exact belongs to the ledger: nothing else is kept, no row is told, and what is published depends on the noise alone."""

import itertools
import json
import re
import secrets
import shlex
import shutil
from contextlib import nullcontext

import numpy as np
import polars as pl
import pytest

import fairpost as fp
from fairpost.errors import FairpostError, ParameterError
from fairpost.release import About, Ledger, release_noisy
from support.commands import call
from support.releases import RULES, TREE_RULES, drawing

TABLE = """id,count,w1,w2,g,g2,tot,total
a,5,1,100,x,p,5,5555
b,50,1,1,x,q,50,5555
c,500,1,1,y,p,500,5555
d,5000,1,1,y,q,5000,5555
e,0,1,1,y,q,0,5555
"""
ROWS = "\n".join(",".join(line.split(",")[i] for i in (0, 4)) for line in TABLE.splitlines())
CREATE = "--dataset D --unit child --neighbours replace --measure pure --other-ledgers none"
EXACT = '--exact-source "table 3" --rows rows.csv --smallest-part 2'


@pytest.fixture
def say(tmp_path, monkeypatch):
    """A command line in a folder with the tables, with a quick sampler; a text in quotation marks is one word."""
    monkeypatch.chdir(tmp_path)
    drawing(monkeypatch)
    (tmp_path / "d.csv").write_text(TABLE)
    (tmp_path / "rows.csv").write_text(ROWS)

    def run(line):
        return call(*shlex.split(line))

    return run


def good(done):
    assert done.returncode == 0, done.stderr
    return done


NEVER = {
    "the table by single rows": ("", "--group id --by-group --exact-total --round", "column that the ledger lists as public|nothing is exact"),
    "typed totals of single rows": ("--public tot --public g", '--group g --group-total tot --total-source "a table"', "the same in all of"),
    "typed totals by id": ("--public tot", '--group id --group-total tot --total-source "a table" --round', "nothing is exact"),
    "an exact total": ("", "--exact-total", "nothing is exact"),
    "a typed total": ("", "--total 5555 --total-source s", "nothing is exact"),
    "a level": ("--public g", "--levels g --split .5,.5 --exact g", "nothing is exact"),
    "another partition": (f"--exact-by g --public g2 {EXACT}", "--group g2 --by-group --exact-total", "nothing else; got part 'p'"),
    "the total above the parts": (f"--exact-by g {EXACT}", "--exact-total", "nothing else; got the total of all rows"),
    "parts below the total": (f"--exact-total --public g {EXACT}", "--group g --by-group --exact-total", "nothing else; got part 'x'"),
    "a level below the total": (f"--exact-total --public g {EXACT}", "--levels g --split .5,.5 --exact g", "nothing else; got part 'x'"),
    "some rows": (f"--exact-by g --public g2 {EXACT}", '--group g --by-group --exact-total --where "g2 = q"', "part 'x' must have the rows"),
    "other words for the source": (f"--exact-total --public g {EXACT}", "--total 5555 --total-source elsewhere", "is the ledger's, 'table 3'"),
    "weights that are not public": ("", "--weight w1 --postprocess pos", "--weight must name a column that the ledger lists as public"),
    "weights that are the counts": ("--public count", "--weight count --postprocess pos", "the column of the counts is not public"),
    "a condition on the counts": ("--public g", '--where "count>10"', "the column of the counts is not public"),
    "in other letters": ("--public Count", '--where "Count>10"', "the column of the counts is not public"),
    "a condition on a secret": ("", '--where "w2 = 1"', "--where must name a column that the ledger lists as public"),
    "rows that lack a count": ("", "--drop-missing", "drops no row"),
    "ids that are counts": ("", "--id count", "the column of the counts is not public"),
}  # fmt: skip


@pytest.mark.parametrize("case", NEVER)
def test_what_is_never_published(say, tmp_path, case):
    create, words, rule = NEVER[case]
    good(say(f"budget create R {CREATE} --limit 1 {create}"))
    done = say(f"release d.csv --ledger R --epsilon 1e-3 {words} --out ex")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert re.search(rule, done.stderr), done.stderr
    assert not (tmp_path / "ex").exists()
    assert Ledger.open("R").spent == 0
    assert say(f"release d.csv --ledger R --epsilon 1e-3 {words} --dry-run").returncode == 2


CREATED = {
    "single rows": ("--exact-by id --exact-source s --rows ids.csv", "at least 3 rows"),
    "small parts": ("--exact-by g --exact-source s --rows rows.csv", "part 'x' has 2"),
    "parts of one": ("--exact-by g --exact-source s --rows rows.csv --smallest-part 1", "from 2, got 1"),
    "a list with counts": ("--exact-total --exact-source s --rows d.csv", "got the column 'count'"),
    "no list": ("--exact-total --exact-source s", "need `rows`"),
    "no source": ("--exact-total --rows rows.csv", "need `exact_source`"),
    "two kinds": (f"--exact-total --exact-by g {EXACT}", "one kind of exact numbers"),
    "levels without a level": (f"--levels g {EXACT}", "`levels` and `exact` together"),
    "the leaves": (f"--levels g --exact id {EXACT}", "must have noise"),
    "a list for nothing": ("--rows rows.csv", "are for exact numbers"),
    "units that come and go": (f"--exact-total {EXACT} --neighbours add-remove", "neighbours replace"),
}


@pytest.mark.parametrize("case", CREATED)
def test_what_a_ledger_never_lists(say, tmp_path, case):
    words, says = CREATED[case]
    (tmp_path / "ids.csv").write_text("id\na\nb\nc\n")
    done = say(f"budget create R {CREATE} --limit 1 {words}")
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert not (tmp_path / "R").exists()


def test_values_stay_and_rows_stay(say, tmp_path):
    """A corrected count or a row that moves would be told by two exact totals; new rows go into new parts."""
    good(say(f"budget create R {CREATE} --limit 1 --exact-by g {EXACT}"))
    words = "--ledger R --epsilon 1/100 --group g --by-group --exact-total --round"
    good(say(f"release d.csv {words} --out one"))
    (tmp_path / "more.csv").write_text(TABLE.replace("e,0", "e,1"))
    done = say(f"release more.csv {words} --out two")
    assert done.returncode == 2
    assert "the exact total of part 'y' is not the one that was fixed" in done.stderr
    assert "550" not in done.stderr
    good(
        say("release more.csv --ledger R --epsilon 1/100 --round --out noisy")
    )  # nothing exact: a charge like any other
    (tmp_path / "moved.csv").write_text(TABLE.replace("b,50,1,1,x", "b,50,1,1,y"))
    assert "part 'x' must have the rows that the ledger binds (2)" in say(f"release moved.csv {words} --out two").stderr
    (tmp_path / "new.csv").write_text(f"{ROWS}\nf,z\nh,z\n")
    bad = {
        "more rows": f"{ROWS}\nf,y\nh,y\n",
        "a part less": "id,g\na,x\nb,x\nf,z\nh,z\n",
        "new rows alone": "id,g\nf,z\nh,z\n",
        "rows of two parts": "id,g\na,z\nb,z\nf,z\n",  # with x before it, the two totals would tell f
    }
    for rows in bad.values():
        (tmp_path / "bad.csv").write_text(rows)
        done = say("budget append R --rows bad.csv --exact-by g")
        assert (done.returncode, "must be the whole one and have part" in done.stderr) == (2, True)
    assert "exact in this ledger are the totals of the parts of g" in say("budget append R --rows rows.csv").stderr
    good(say("budget append R --rows new.csv --exact-by g"))
    (tmp_path / "all.csv").write_text(TABLE + "f,7,1,1,z,p,7,1\nh,9,1,1,z,p,9,1\n")
    good(say(f"release all.csv {words} --out three"))
    good(say("budget verify R"))
    shown = good(say("budget history R")).stdout
    assert [line.split()[2] for line in shown.splitlines()] == [
        "open", "rows", "values", "charge", "done", "charge", "done", "rows", "values", "charge", "done",
    ]  # fmt: skip
    told = json.loads((tmp_path / "one" / "statement.json").read_text())
    assert told["privacy"]["sensitivity"] == {"norm": "L1", "value": "2"}
    relations = [
        json.loads((tmp_path / n / "statement.json").read_text())["privacy"]["relation"]
        for n in ("one", "noisy", "three")
    ]
    assert len(set(relations)) == 1
    assert relations[0].endswith("agree in every invariant of the ledger: the totals of the parts of g")


@pytest.mark.parametrize("seed", range(12))
def test_a_release_never_tells_a_row(tmp_path, monkeypatch, seed):
    """By listing every table of whole numbers with the exact totals: each row takes values at least 2 apart, or it is refused."""
    drawing(monkeypatch)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, 2)
    groups = [f"g{k}" for k, n in enumerate(sizes) for _ in range(n)]
    ids = [f"r{i}" for i in range(len(groups))]
    x = rng.multinomial(int(rng.integers(0, 7)), np.full(len(ids), 1 / len(ids)))
    totals = {g: int(x[[h == g for h in groups]].sum()) for g in groups}
    told = False
    for g, total in totals.items():
        tables = [t for t in itertools.product(range(total + 1), repeat=groups.count(g)) if sum(t) == total]
        told = told or any(max(column) - min(column) < 2 for column in zip(*tables, strict=True))
    terms = {
        "dataset": "D",
        "neighbours": "replace",
        "limit": "9",
        "exact_by": "g",
        "exact_source": "s",
        "smallest_part": 2,
    }
    terms["public"] = ["group"]
    book = Ledger.create(tmp_path / "l", **terms, rows={"id": ids, "g": groups})
    counts = fp.Counts(x, ids=ids, groups=groups)
    for total in ("exact", fp.PublicTotal(totals)):
        with pytest.raises(ParameterError, match="would tell the count of every row") if told else nullcontext():
            fp.release(counts, book, epsilon="1", by_group=True, total=total, again=str(type(total)))


FRAME = {"id": list("abc"), "count": [5, 50, 500], "g": list("xxy"), "secret": ["lo", "lo", "hi"], "": ["p", "q", "q"]}
LABELS = fp.Hierarchy.from_labels([FRAME["secret"]], ["secret", "leaf"], ids=FRAME["id"])
MEMORY = fp.Counts(FRAME["count"], ids=FRAME["id"], groups=FRAME["secret"])
DOORS = {
    "groups in memory under another name": (MEMORY, {"group": "g", "by_group": True}, "is for files and data frames"),
    "a condition on counts in memory": (fp.Counts([5, 6]), {"where": "g = x"}, "is for files and data frames"),
    "a condition on numbers of a tree": (FRAME["count"], {"levels": "tree", "where": "g = x"}, "is for files and data"),
    "labels of a tree in memory": (fp.Counts([5, 6, 7], ids=list("abc")), {"levels": LABELS, "split": ["1/2"] * 2}, "got 'secret'"),
    "labels of a tree in its noise": (FRAME["count"], {"noise": LABELS}, "got 'secret'"),
    "a condition beside levels of a frame": (FRAME, {"levels": ["g"], "where": "g = x", "split": ["1/2"] * 2}, "is filtered before"),
    "a column without a name": (FRAME, {"group": ""}, "got ''"),
    "ids that nobody listed": (FRAME | {"rank": [3, 2, 1]}, {"id": "rank"}, "the ids must be a column that the ledger lists"),
    "ids of a SAIPE file that are its counts": ("saipe", {"id": "poor_5_17"}, "--id names it: 'poor_5_17'"),
    "a condition on the counts of a SAIPE file": ("saipe", {"where": "poor_5_17>2"}, "--where names it: 'poor_5_17'"),
    "states of a SAIPE file": ("saipe", {}, "'state' .group., which the ledger does not list as public"),
}  # fmt: skip


@pytest.mark.parametrize("case", DOORS)
def test_no_column_comes_in_by_another_door(tmp_path, monkeypatch, case):
    drawing(monkeypatch)
    given, words, says = DOORS[case]
    public = ["g", "group", "poor_5_17", "leaid", *(["state"] if "states" not in case else [])]
    book = Ledger.create(tmp_path / "l", dataset="D", measure="zcdp", limit="9", public=public)
    words = {"epsilon": "1", **words}
    if words.get("levels") == "tree":
        words |= {"levels": fp.Hierarchy.from_geoids(FRAME["id"], {"block": 1}), "split": ["1"]}
    if "noise" in words:
        words = {"noise": fp.LevelNoise(LABELS, sigmas=["9", "9"])}
    if given == "saipe":
        lines = [
            f" {s} {d} {'Town':<72} {'330':>8} {'60':>8} {x:>8} tag" for s, d, x in ((1, "00190", 11), (2, "00005", 22))
        ]
        given = tmp_path / "s.txt"
        given.write_text("\n".join(lines))
        words |= {"format": "saipe"}
    with pytest.raises(FairpostError, match=says):
        fp.release(pl.DataFrame(given) if isinstance(given, dict) else given, book, **words)
    assert book.spent == 0


def test_a_list_of_rows_with_counts_shows_none(say, tmp_path):
    """Given by mistake, and found out by a column or by the counts themselves: neither is repeated."""
    (tmp_path / "twice.csv").write_text(TABLE.replace("b,50,", "b,5000,").replace("e,0,", "e,,"))
    for words in ("--id count", "--id count --public count", "--id w1", "--exact-by count --public w1"):
        done = say(f"budget create R {CREATE} --limit 1 --exact-total --exact-source s --rows twice.csv {words}")
        assert done.returncode == 2
        assert "500" not in done.stderr
    same = {"id": list("abcdef"), "s": ["a"] * 3 + ["a/b"] * 3, "c": ["b/c"] * 3 + ["c"] * 3}
    with pytest.raises(ParameterError, match="names that differ"):
        Ledger.create(
            "R", dataset="D", neighbours="replace", limit="1", levels=["s", "c"], exact="c", exact_source="s", rows=same
        )


def test_totals_are_fixed_with_the_charge_or_not_at_all(say, tmp_path):
    """Two tables of a plan that contradict each other, and one too many for the budget: the ledger is as it was."""
    good(say(f"budget create R {CREATE} --limit 1 --exact-total --public g {EXACT}"))
    plan = "total = 5555\nepsilon = {}\n[[table]]\nname='one'\nfile='d.csv'\n[[table]]\nname='two'\nfile='d.csv'\nagain='x'\n{}"
    cases = {"total = 5556": ("1/10", 2, "is not the one that was fixed"), "": ("2/3", 3, "must fit into what is left")}
    for last, (epsilon, code, says) in cases.items():
        (tmp_path / "plan.toml").write_text(plan.format(f"'{epsilon}'", last))
        done = say("release --plan plan.toml --ledger R --out o")
        assert (done.returncode, says in done.stderr) == (code, True), done.stderr
        assert [entry.kind for entry in Ledger.open("R").entries()] == ["open", "rows"]
    good(say("release d.csv --ledger R --epsilon 1/10 --total 5557 --out p"))
    assert [entry.kind for entry in Ledger.open("R").entries()] == ["open", "rows", "values", "charge", "done"]


def test_options_are_not_left_aside(say, tmp_path):
    """Weights beside kept noise, and a condition beside a plan, changed nothing and said nothing."""
    good(say(f"budget create R {CREATE} --limit 1 --public w1 --public w2"))
    good(say("release d.csv --ledger R --epsilon 1/10 --weight w1 --postprocess pos --out A"))
    key = next((tmp_path / "R.d").glob("*.noisy")).name[:12]
    (tmp_path / "plan.toml").write_text("epsilon = '1/10'\n[[table]]\nname = 'one'\nfile = 'd.csv'\n")
    for words, option in (
        (f"--from-noisy {key} --weight w2", "--weight"),
        (f"--from-noisy {key} --where 'w1 = 1'", "--where"),
        (f"--from-noisy {key} --accept-weak-protection", "--accept-weak-protection"),
        ("--plan plan.toml --where 'w1 = 1'", "--where"),
        ("--plan plan.toml --postprocess pos", "--postprocess"),
    ):
        done = say(f"release {words} --ledger R --out B")
        assert (done.returncode, f"{option} have no part" in done.stderr) == (2, True), done.stderr
    good(say(f"release --from-noisy {key} --postprocess baseline --ledger R --out B"))


def test_what_is_charged_can_be_published(tmp_path, monkeypatch):
    """Losses from 1e-14 to 1e25: refused before the charge, or published; little noise only where it is accepted, and said."""
    drawing(monkeypatch, lambda law, n: np.zeros(n))
    counts = fp.Counts([1, 0, 7], ids=["a", "b", "c"])
    terms = {"dataset": "D", "measure": "zcdp", "limit": "1e60"}
    book = Ledger.create(tmp_path / "l", **terms)
    amounts = [f"{m}e{k}" for k in range(-14, 26, 3) for m in ("1", "9.1")] + ["9.2e-13", "9.9e-13", "1.05", "1.15"]
    seen = set()
    for k, epsilon in enumerate(amounts):
        for accept, rule in ((False, "simplex"), (True, "pos-threshold"), (True, "simplex-threshold")):
            before = book.spent
            words = {"epsilon": epsilon, "postprocess": rule, "again": f"{k}{accept}{rule}"}
            try:
                done = fp.release(counts, book, **words, accept_weak_protection=accept)
            except ParameterError:
                seen.add((float(epsilon) > 1, "refused", accept))
                assert book.spent == before
                continue
            weak = done.statement["privacy"]["weak_protection"]
            assert (weak is not None) == (np.tanh(float(epsilon) / 2) > 0.5)
            assert accept or weak is None
            seen.add((float(epsilon) > 1, "published", accept))
    assert {(True, "refused", False), (True, "published", True), (False, "published", False)} <= seen


def test_a_tree_with_next_to_no_noise_keeps_its_sums(tmp_path, monkeypatch):
    """The variance of such noise is 0 as a float, and `joint` took every level for an exact one: charged, never published."""
    drawing(monkeypatch)
    frame = {"id": list("abcde"), "count": [5, 50, 500, 5000, 0], "g": list("xxyyy")}
    rows = pl.DataFrame(frame).drop("count")
    terms = {
        "measure": "zcdp",
        "limit": "1e30",
        "exact_total": True,
        "exact_source": "s",
        "rows": rows,
        "public": ["g"],
    }
    book = Ledger.create(tmp_path / "l", dataset="D", neighbours="replace", **terms)
    words = {"levels": ["g"], "rho": "1e6", "split": ["1/2", "1/2"], "accept_weak_protection": True}
    for rule in TREE_RULES:
        made = fp.release(
            pl.DataFrame(frame), book, **words, postprocess=rule, round=True, total=fp.PublicTotal(17)
        ).table
        sums = [made.filter(pl.col("level") == level)["count"] for level in ("all", "g", "id")]
        assert [int(part.sum()) for part in sums] == [17, 17, 17]
        assert min(made["count"]) >= 0


def test_words_that_no_file_can_have_are_refused_before_the_charge(tmp_path, monkeypatch):
    drawing(monkeypatch)
    book = Ledger.create(tmp_path / "l", dataset="D", limit="9")
    with pytest.raises(ParameterError, match="UTF-8"):
        fp.release(fp.Counts([1, 2]), book, epsilon="1", about=About(title="\ud800"), out=tmp_path / "o")
    assert book.spent == 0


def test_a_sum_that_leaves_64_bits_is_refused(tmp_path, monkeypatch):
    drawing(monkeypatch)
    book = Ledger.create(tmp_path / "l", dataset="D", limit="9")
    counts = pl.DataFrame({"id": list(map(str, range(4096))), "count": np.full(4096, 4.4e15)})
    with pytest.raises(FairpostError, match=r"below 2\^52 together"):
        fp.release(counts, book, epsilon="1/10", postprocess="simplex")
    far = fp.Counts(np.zeros(20_000), ids=list(map(str, range(20_000))))
    with pytest.raises(ParameterError, match=r"below 2\^52 over all 20,000 rows"):
        fp.release(far, book, epsilon="1e-12")
    assert book.spent == 0


def test_a_dry_run_shows_the_charge_and_no_exact_number(say, tmp_path):
    """Neither the total nor the counts of a level; nothing is charged, and the same request later is known."""
    good(say(f"budget create R {CREATE} --limit 1 --exact-total --public g {EXACT}"))
    (tmp_path / "nodes.csv").write_text("id,g\n" + "".join(f"{i},{g}\n" for i, g in zip("abcde", "xxyyy", strict=True)))
    tree = "--levels g --exact g --exact-source s --rows nodes.csv --smallest-part 2"
    good(say(f"budget create T {CREATE} --limit 1 {tree}"))
    for ledger, words in (("R", "--exact-total"), ("T", "--levels g --exact g --split 0,1 --round")):
        line = f"release d.csv --ledger {ledger} --epsilon 1/10 {words} --out {ledger}out"
        for more in ("", "--json -"):
            shown = good(say(f"{line} --dry-run {more}"))
            said = (shown.stdout + shown.stderr).replace(str(tmp_path), "")
            assert not re.search(
                r"(?<![0-9a-f])(5,?555|55|5,?500)(?![0-9a-f])", said
            )  # a key of 64 digits may have it inside
        (table,) = json.loads(shown.stdout)["tables"]
        assert (table["loss"], table["fits"], table["charged_before"]) == ("1/10", True, False)
        assert Ledger.open(ledger).spent == 0
        good(say(line))
        assert json.loads(say(f"{line} --dry-run --json -").stdout)["tables"][0]["charged_before"]


# ------------------------------------------------------------------------------------------------ non-interference

BLOCKS = ["010101", "010102", "010201", "010202", "020101", "020102", "020201"]
WORLD = {
    "w": [1, 2, 3, 1, 2, 3, 5],
    "g": ["x", "x", "x", "y", "y", "y", "y"],
    "tot": [60, 60, 60, 700, 700, 700, 700],
    "s": list("kkklkkl"),
}
TRUE = ([5, 50, 5, 200, 500, 0, 0], [60, 0, 0, 0, 1, 0, 699])
"""Two tables of counts that agree in every invariant: 60 in x, 700 in y."""
LIST = {"id": BLOCKS, "g": WORLD["g"]}
PARTS = {"exact_by": "g", "exact_source": "s", "rows": LIST, "smallest_part": 2}
FLAT = [
    f"--postprocess {rule} {more}"
    for rule in RULES
    for more in (
        "", "--round", "--group g --by-group", "--weight w", '--where "s = k"', "--group g --by-group --exact-total --round",
        "--group g --group-total tot", "--json -", "--dry-run", "--rho 1/50", "--accept-weak-protection --epsilon 8",
        "--again two --chosen-from policy",
    )
]  # fmt: skip
TREES = [
    f"--levels g,a --split .5,.2,.3 --postprocess {rule} {more}"
    for rule in TREE_RULES
    for more in ("", "--round", "--exact g", "--exact g --round", "--dry-run --exact g", "--exact all", "--exact a", "--json -")
]  # fmt: skip


def published(folder, counts, lines, ledger):
    """Everything that leaves: exit codes, screens, every file of every release, and the ledger's own entries.

    The file is sorted by its counts, as exports are.
    """
    folder.mkdir()
    header = ",".join(["id", "count", "a", *WORLD])
    rows = sorted(zip(BLOCKS, counts, [b[:4] for b in BLOCKS], *WORLD.values(), strict=True), key=lambda row: -row[1])
    (folder / "d.csv").write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    shutil.copytree(ledger, folder / "book")
    out = []
    for k, line in enumerate(lines):
        given = line if "--epsilon" in line or "--rho" in line else f"{line} --epsilon 1/10"
        words = ["release", f"{folder}/d.csv", "--ledger", f"{folder}/book/l", "--out", f"{folder}/o{k}"]
        done = call(*words, *shlex.split(given))
        out.append(
            (
                line,
                done.returncode,
                done.stdout + done.stderr,
                {p.name: p.read_bytes() for p in (folder / f"o{k}").glob("*")},
            )
        )
    entries = Ledger.open(folder / "book" / "l").entries()
    shutil.rmtree(folder)
    return out, entries


@pytest.mark.parametrize(
    ("lines", "terms"), [(FLAT, PARTS), (TREES, {"levels": ["g", "a"], "exact": "g", **PARTS})], ids=["rules", "levels"]
)
def test_what_is_published_is_a_function_of_the_noisy_counts_and_the_invariants(tmp_path, monkeypatch, lines, terms):
    """Two tables with equal invariants, and noise that makes the same noisy counts of both: every published byte is the same.

    The keyed fingerprint (an HMAC under the ledger's secret) is put at a constant: it is the one other thing that the data enter.
    """
    terms = {k: v for k, v in terms.items() if k != "exact_by" or "levels" not in terms}
    if "levels" in terms:
        terms["rows"] = LIST | {"a": [b[:4] for b in BLOCKS]}
    monkeypatch.setattr(secrets, "token_bytes", bytes)
    fixed = np.random.default_rng(3)
    made = {}

    def same(x, law, sampler):
        key = (x.size, law)
        if key not in made:
            made[key] = fixed.integers(-30, 300, x.size)
        return made[key]

    drawing(monkeypatch, add=same)
    monkeypatch.setattr(Ledger, "fingerprint", lambda self, *parts: "0" * 64)
    (tmp_path / "book").mkdir()
    public = ["w", "g", "s", "tot", "a"]
    words = {"dataset": "D", "neighbours": "replace", "measure": "zcdp", "limit": "1e4", "public": public}
    Ledger.create(tmp_path / "book" / "l", **words, **terms)
    one, two = (published(tmp_path / "here", x, lines, tmp_path / "book") for x in TRUE)
    codes = [code for _, code, _, _ in one[0]]
    assert codes.count(0) > len(lines) / 2
    assert set(codes) <= {0, 2, 3}
    for (line, *ours), (_, *theirs) in zip(one[0], two[0], strict=True):
        assert ours == theirs, line
    assert one[1] == two[1]


def test_typed_totals_of_kept_noise_are_the_ledgers_too(tmp_path, monkeypatch):
    drawing(monkeypatch)
    book = Ledger.create(
        tmp_path / "l", dataset="D", neighbours="replace", limit="9", public=["group"], **PARTS | {"rows": LIST}
    )
    counts = fp.Counts(TRUE[0], ids=BLOCKS, groups=WORLD["g"])
    done = fp.release(counts, book, epsilon="1", postprocess="none")
    right = fp.PublicTotal({"x": 60, "y": 700})
    assert release_noisy(done.key, book, by_group=True, total=right).table["count"].sum() == pytest.approx(760)
    for total, by_group, says in (
        (fp.PublicTotal({"x": 61, "y": 700}), True, "part 'x' is not the one"),
        (fp.PublicTotal(760), False, "nothing else"),
    ):
        with pytest.raises(ParameterError, match=says):
            release_noisy(done.key, book, by_group=by_group, total=total)
