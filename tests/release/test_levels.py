"""A release of all levels: one charge, ratios that add up, the hierarchy's rules, sums kept, nothing exact by silence."""

import json
from fractions import Fraction

import jsonschema
import numpy as np
import polars as pl
import pytest
import yaml
from scipy.optimize import nnls

import fairpost as fp
from fairpost.errors import CountsError, FairpostError, ParameterError, UnsupportedError
from fairpost.hierarchy import Hierarchy, LevelNoise, Unclipped
from fairpost.release import release_noisy
from support.commands import call
from support.places import FILES
from support.releases import SCHEMA, TREE_RULES, drawing

LEVELS = {"state": 2, "county": 4, "block": 6}
IDS = ["020102", "010101", "010102", "010201", "020101", "010202"]
"""Not in the order of the tree; state 01 has counties of two blocks, state 02 one county."""
X = np.array([70, 0, 5, 10, 3, 41])
BLOCKS = fp.Counts(X, ids=IDS)
SPLIT = ["1/10", "2/5", "1/2"]
WORDS = {"levels": LEVELS, "rho": "1/2", "split": SPLIT}
TOTAL = fp.PublicTotal(130, "Yearbook of blocks, 2020")
REGISTRY = yaml.safe_load((FILES / "registry_schema.yaml").read_text())


@pytest.fixture(autouse=True)
def no_self_test(monkeypatch):
    """The self-test has tests of its own, and the scales here are many."""
    drawing(monkeypatch)


def keeping(exact="state", **more):
    """Terms of a ledger whose releases keep the levels down to one of them, or the total."""
    given = {"exact_source": TOTAL.source, "rows": {"id": IDS}, "smallest_part": 2}
    return given | ({"exact_total": True} if exact == "all" else {"levels": LEVELS, "exact": exact}) | more


def ledger(folder, **terms):
    given = {"dataset": "Blocks", "measure": "zcdp", "limit": "2", "neighbours": "replace"} | terms
    return fp.Ledger.create(folder / "l", **given)


def part(table, level, column="count"):
    return table.filter(pl.col("level") == level)[column].to_list()


def check_sums(table):
    """Every parent the sum of its children, by the ids alone."""
    count = dict(zip(table["id"], table["count"], strict=True))
    assert min(count.values()) >= 0
    for id, value in count.items():
        below = [v for k, v in count.items() if len(k) == (2 if id == "all" else len(id) + 2) and k != "all"]
        named = [v for k, v in count.items() if k.startswith(id) and len(k) == len(id) + 2]
        children = below if id == "all" else named
        if len(id) < 6:
            assert value == sum(children), id


TOTALS = {
    "the noisy sum": {},
    "public": {"total": TOTAL},
    "measured": {"split": ["1/10", "1/10", "2/5", "2/5"]},
    "exact": {"exact": ["state"]},
}


@pytest.mark.parametrize("rule", TREE_RULES)
@pytest.mark.parametrize("kind", TOTALS)
def test_a_release_of_levels_from_start_to_statement(tmp_path, kind, rule):
    exact = {"exact": keeping(), "public": keeping("all")}.get(kind, {})
    book = ledger(tmp_path, limit_delta="1e-10", limit="10", **exact)
    words = WORDS | TOTALS[kind]
    done = fp.release(BLOCKS, book, **words, postprocess=rule, round=True, chosen_from="policy", out=tmp_path / "o")
    assert done.fresh
    assert part(done.table, "block", "id") == sorted(
        IDS
    )  # not in the order of the input, which may come from the counts
    check_sums(done.table)
    text = (tmp_path / "o" / "statement.json").read_text()
    assert json.loads(text) == done.statement
    assert not book.verify({"s": text}).problems + book.verify().notes
    assert pl.read_csv(tmp_path / "o" / "table.csv", schema_overrides={"id": pl.String}).equals(done.table)
    jsonschema.Draft202012Validator(SCHEMA).validate(done.statement)
    record = yaml.safe_load((tmp_path / "o" / "registry.yaml").read_text())
    jsonschema.Draft7Validator(REGISTRY, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER).validate(record)
    privacy, spent = done.statement["privacy"], Fraction(1, 2) * (1 if kind != "exact" else Fraction(9, 10))
    assert book.spent == Fraction(done.statement["budget"]["loss"]) == Fraction(privacy["rho"]) == spent
    assert sum(Fraction(level["loss"]) for level in privacy["levels"]) == spent
    assert [level["name"] for level in privacy["levels"]] == {
        "measured": ["all", "state", "county", "block"],
        "exact": ["county", "block"],
    }.get(kind, ["state", "county", "block"])
    assert {s["total"] for s in done.statement["postprocessing"]} == {kind}
    assert done.statement["postprocessing"][0]["total_value"] == str(part(done.table, "all")[0])
    unprotected = [item["what"] for item in done.statement["unprotected"]]
    assert ("the exact true counts of level state" in unprotected) == (kind == "exact")
    assert kind != "public" or part(done.table, "all") == [130]
    if kind == "exact":
        assert part(done.table, "state") == part(done.table, "state", "noisy_count") == [56, 73]
        assert privacy["relation"].endswith(
            "agree in every invariant of the ledger: the levels of the tree down to state (state)"
        )
        assert "state" in record["deployment"]["dp_variant"]["unprotected_quantities"]


@pytest.mark.parametrize("seed", range(6))
def test_the_published_counts_are_the_rules_of_the_noisy_ones(tmp_path, seed):
    """Least squares over the leaves, plain and with v >= 0, by SciPy: 1e-9 of numbers up to 100. A root that is not measured has no row."""
    book, root = ledger(tmp_path, limit="100"), seed % 2 == 0
    words = {"levels": LEVELS, "sigmas": ["3", "1.5", "2", "4"][0 if root else 1 :]}
    done = fp.release(BLOCKS, book, **words, postprocess="joint", again=str(seed))
    tree = Hierarchy.from_geoids(sorted(IDS), LEVELS)
    noise = LevelNoise(tree, sigmas=np.array([3 if root else np.inf, 1.5, 2, 4]))
    seen = [part(done.table, name, "noisy_count") for name in tree.names]
    assert root or seen[0] == [None]
    y = np.array([0.0 if v is None else v for level in seen for v in level])
    variances = [3.0**2 if root else np.inf, *noise.variances[1:]]  # of the discrete law, 1e-7 below sigma^2 at 1
    weight = np.repeat(1 / np.sqrt(variances), [tree.size(k) for k in range(4)])
    A = np.array([tree.sums(e) for e in np.eye(tree.n)]).T
    free = A @ np.linalg.lstsq(A * weight[:, None], y * weight, rcond=None)[0]
    held = A @ nnls(A * weight[:, None], y * weight)[0]
    assert tree.join([part(done.table, name) for name in tree.names]) == pytest.approx(held, abs=1e-9)
    assert Unclipped(tree).apply(y, noise) == pytest.approx(free, abs=1e-9)
    for rule in TREE_RULES:
        table = release_noisy(done.key[:9], book, postprocess=rule).table
        assert tree.join([part(table, name, "unclipped") for name in tree.names]) == pytest.approx(free, abs=1e-9)
        assert [part(table, name, "noisy_count") for name in tree.names] == seen
    assert book.spent == sum(Fraction(2) / (2 * Fraction(s) ** 2) for s in words["sigmas"])
    if not root:
        with pytest.raises(UnsupportedError, match="known or measured"):
            fp.audit_hierarchy(X, noise, "top-down", method="mean-field")


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("measure", "loss"), [("zcdp", "rho"), ("pure", "epsilon"), ("zcdp", "epsilon")])
def test_losses_are_ratios_and_every_sigma_keeps_its_share(tmp_path, measure, loss, neighbours):
    """D^2 / (2 sigma^2) <= rho p and D / b <= epsilon p, as ratios of the very floats, for c leaves a unit and both relations."""
    rng, two = np.random.default_rng(5), 2 if neighbours == "replace" else 1
    book = ledger(tmp_path, measure=measure, neighbours=neighbours, limit="9999")
    for _ in range(6):
        parts = rng.integers(1, 50, 3)
        split = [Fraction(int(p), int(parts.sum())) for p in parts]
        whole, c = Fraction(int(rng.integers(1, 1000)), 997), int(rng.integers(1, 5))
        words = {loss: str(whole), "split": [str(p) for p in split], "entities_per_person": c}
        spent, done = book.spent, fp.release(BLOCKS, book, levels=LEVELS, **words, accept_weak_protection=True)
        for level, p in zip(done.statement["privacy"]["levels"], split, strict=True):
            scale = Fraction(level["scale"])
            if loss == "rho":
                D2 = two * (c if level["name"] == "block" else c * c)
                assert D2 / (2 * scale**2) <= whole * p == Fraction(level["loss"])
                assert D2 / (2 * (scale * Fraction(1 - 1e-12)) ** 2) > whole * p  # and no noise is wasted
            else:
                assert two * c / scale <= whole * p == Fraction(level["epsilon"])
                assert two * c / (scale * Fraction(1 - 1e-12)) > whole * p
        squares = sum((whole * p) ** 2 / 2 for p in split)
        assert book.spent - spent == (squares if measure == "zcdp" and loss == "epsilon" else whole)


def test_sigmas_that_are_typed_are_charged_as_they_are_typed(tmp_path):
    for name, measure, neighbours, typed, more, losses in (
        (
            "a",
            "zcdp",
            "add-remove",
            ("1.894", "2", "1/3"),
            {},
            [1 / (2 * Fraction(s) ** 2) for s in ("1.894", "2", "1/3")],
        ),
        (
            "b",
            "pure",
            "replace",
            ("4", "2", "3"),
            {"mechanism": "discrete-laplace"},
            [Fraction(2, 4), 1, Fraction(2, 3)],
        ),
    ):
        (tmp_path / name).mkdir()
        book = ledger(tmp_path / name, measure=measure, neighbours=neighbours, limit="99")
        words = {"levels": LEVELS, "sigmas": list(typed), "accept_weak_protection": True, **more}
        levels = fp.release(BLOCKS, book, **words).statement["privacy"]["levels"]
        assert [Fraction(level["loss"]) for level in levels] == losses
        assert all(Fraction(level["scale"]) >= Fraction(s) for level, s in zip(levels, typed, strict=True))


def test_what_the_key_depends_on(tmp_path):
    """Every change of what the noise depends on is another request; the name, the rule and the total are not."""
    book = ledger(tmp_path, limit="99", **keeping(exact="county", smallest_part=2) | {"rows": {"id": IDS}})

    def key(counts=BLOCKS, **words):
        return fp.release(counts, book, **WORDS | {"accept_weak_protection": True} | words).key

    base = key()
    assert key(postprocess="joint", round=True, name="other") == base
    changes = (
        {"rho": "1/3"},
        {"split": ["1/10", "1/2", "2/5"]},
        {"split": ["1/10", "1/10", "2/5", "2/5"]},
        {"levels": {"state": 1, "county": 4, "block": 6}},
        {"levels": {"State": 2, "county": 4, "block": 6}},
        {"entities_per_person": 2},
        {"again": "x"},
    )
    moved, more = fp.Counts(X, ids=[*IDS[1:], IDS[0]]), fp.Counts(X + 1, ids=IDS)
    keys = [key(**change) for change in changes] + [key(moved), key(more)]
    assert len({base, *keys}) == len(keys) + 1


def test_levels_by_columns_and_by_paths(tmp_path):
    book = ledger(tmp_path, public=["state", "county"])
    frame = pl.DataFrame({"id": IDS, "count": X, "state": [i[:2] for i in IDS], "county": [i[2:4] for i in IDS]})
    frame.write_csv(tmp_path / "blocks.csv")
    words = {"rho": "1/5", "split": SPLIT, "round": True}
    done = fp.release(tmp_path / "blocks.csv", book, levels=["state", "county"], **words)
    assert part(done.table, "id", "id") == sorted(IDS)
    assert part(done.table, "county", "id") == ["01/01", "01/02", "02/01"]
    again = fp.release(frame, book, levels=["state", "county"], **words)
    assert not again.fresh
    assert again.table.equals(done.table)
    tree = Hierarchy.from_labels([frame["state"], frame["county"], [i[4:] for i in IDS]], ["state", "county", "block"])
    third = fp.release(X, book, levels=tree, **words)
    assert part(third.table, "block", "id") == sorted(tree.ids("block"))
    made = fp.release(X, book, levels=tree, **words)
    assert not made.fresh
    assert made.table.equals(third.table)
    assert not fp.release(fp.Counts(X), book, levels=tree, **words).fresh
    with pytest.raises(FairpostError, match="must be those of the hierarchy, in its order"):
        fp.release(BLOCKS, book, levels=tree, **words)
    counts = dict(zip(third.table["id"], third.table["count"], strict=True))
    assert counts["01"] == counts["01/01"] + counts["01/02"]
    assert counts["01/01"] == counts["01/01/01"] + counts["01/01/02"]


def test_strange_ids_come_back(tmp_path):
    """From the file with the noise, too."""
    ids, words = ['"a\n', '"b"', "c\nd"], {"rho": "1/2", "split": ["1/2", "1/2"]}
    book = ledger(tmp_path, limit="9")
    made = fp.release(fp.Counts([1, 2, 3], ids=ids), book, levels={"first": 1, "all of it": 3}, **words)
    for table in (made.table, release_noisy(made.key, book).table):
        assert part(table, "all of it", "id") == ids
        assert part(table, "first", "id") == ['"', "c"]
    for strange in (["", "a\nb", '"q"', "é\u2028", "x\r"], ['"q"', "r"]):
        plain = fp.release(fp.Counts(range(len(strange)), ids=strange), book, rho="1/2")
        assert release_noisy(plain.key, book).table["id"].to_list() == plain.table["id"].to_list() == sorted(strange)


def test_the_noise_of_an_audit_is_the_noise_of_a_release(tmp_path):
    book, tree = ledger(tmp_path), Hierarchy.from_geoids(IDS, LEVELS)
    made = LevelNoise(tree, rho="1/2", split=SPLIT, sensitivity=2**0.5)
    done = fp.release(BLOCKS, book, noise=made, round=True)
    assert [float(v["scale"]) for v in done.statement["privacy"]["levels"]] == pytest.approx(made.spreads[1:].tolist())
    assert not fp.release(BLOCKS, book, **WORDS, round=True).fresh
    with pytest.raises(ParameterError, match="must be exact: a text"):
        fp.release(BLOCKS, book, noise=LevelNoise(tree, rho=0.5, split=[0.1, 0.4, 0.5], sensitivity=2**0.5))
    with pytest.raises(ParameterError, match="made for a sensitivity of 1,"):
        fp.release(BLOCKS, book, noise=LevelNoise(tree, rho="1/2", split=SPLIT))
    with pytest.raises(ParameterError, match="by `noise` or by `levels`"):
        fp.release(BLOCKS, book, noise=made, levels=LEVELS)
    with pytest.raises(ParameterError, match="by `noise` or by `rho`"):
        fp.release(BLOCKS, book, noise=made, rho="1")


REFUSED = {
    "a share of 0 would be exact": ({"split": ["0", "1/2", "1/2"]}, "level 'state' would be published without noise"),
    "a sigma of 0 too": ({"rho": None, "split": None, "sigmas": ["1", "0", "1"]}, "level 'county' would be published"),
    "a level left out": ({"split": {"state": "1/2", "block": "1/2"}}, "level 'county' would be published without noise"),
    "below an exact level too": ({"exact": "state", "split": ["1/2", "0", "1/2"]}, "level 'county' would be published without"),
    "exact leaves": ({"exact": "block"}, "must have noise, got it as exact"),
    "floats": ({"rho": 0.5}, "`rho` must be exact"),
    "a float share": ({"split": [0.1, "2/5", "1/2"]}, "`split of state` must be exact"),
    "shares above 1": ({"split": ["1/2", "1/2", "1/100"]}, "got a sum of 101/100"),
    "no split": ({"split": None}, r"the share of each of state, county, block \(--split\)"),
    "both ways": ({"sigmas": ["1", "1", "1"]}, "got both"),
    "too many shares": ({"split": ["1/9"] * 5}, "got 5"),
    "a table's rule": ({"postprocess": "simplex"}, "`postprocess` of levels must be one of top-down"),
    "groups": ({"by_group": True}, "`by_group` has no part"),
    "the exact total as a word": ({"total": "exact"}, 'by `exact` \\("all" or a level\\)'),
    "two totals": ({"total": TOTAL, "exact": "county"}, "level 'county' is exact, so the total is known"),
    "an unknown level": ({"exact": "tract"}, "must be one of all, state, county, block, got 'tract'"),
    "levels that make no sense": ({"levels": "state:2,state:4"}, "with names that differ"),
    "a split without levels": ({"levels": None}, "needs `levels`"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_before_anything_is_charged(tmp_path, case):
    book, (change, says) = ledger(tmp_path), REFUSED[case]
    with pytest.raises(ParameterError, match=says) as refused:
        fp.release(BLOCKS, book, **WORDS | change)
    assert "\n" not in str(refused.value)
    assert book.spent == 0
    assert not list(book.folder.glob("*.noisy"))


def test_exact_levels_need_neighbours_that_replace(tmp_path):
    with pytest.raises(ParameterError, match=r"adds or removes a unit: they need neighbours replace, got add-remove"):
        ledger(tmp_path, neighbours="add-remove", **keeping())
    assert not list(tmp_path.iterdir())


def test_errors_of_the_reading_name_a_row_and_no_value(tmp_path):
    book = ledger(tmp_path, public=["state"])
    bad = {
        "short": ("id,count\n010101,7391846\n0102,8264917\n", "row 2: every id must have the 6 ASCII characters"),
        "real": ("id,count\n010101,7391846.5\n", "row 1: every count must be a whole number"),
        "twice": ("id,count\n010101,7391846\n010101,3\n", "ids must be unique"),
        "text": ("id,count\n010101,7391846x\n", "every count must be a number"),
        "sly": ("id,count\n010101,7391846 2^52 (the value is not shown)\n", "line 2: every count must be a number"),
        "large": (f"id,count\n010101,{2**51}\n010102,{2**51}\n", r"below 2\^52 together"),
    }
    for name, (text, says) in bad.items():
        (tmp_path / f"{name}.csv").write_text(text)
        with pytest.raises(FairpostError, match=says) as refused:
            fp.release(tmp_path / f"{name}.csv", book, **WORDS)
        assert not any(v in str(refused.value) for v in ("7391846", "8264917", "0102", str(2**51)))
    (tmp_path / "c.csv").write_text("id,count,state\na,1,x\nb,2,\n")
    with pytest.raises(FairpostError, match="row 2: every leaf must have a label on level 'state'"):
        fp.release(tmp_path / "c.csv", book, levels=["state"], rho="1", split=["1/2", "1/2"])
    with pytest.raises(CountsError, match="every count"):
        fp.release(fp.Counts([0.5], ids=["010101"]), book, **WORDS)
    assert book.spent == 0


def test_a_statement_of_levels_is_audited_without_retyping(tmp_path):
    book = ledger(tmp_path, limit="9", **keeping(public=["geoid"]))
    pl.DataFrame({"geoid": IDS, "pop": X}).write_csv(tmp_path / "blocks.csv")
    columns = {"id": "geoid", "count": "pop"}
    words = {"levels": LEVELS, "sigmas": ["3", "1.5", "2"], "exact": "state", "postprocess": "top-down", "round": True}
    done = fp.release(tmp_path / "blocks.csv", book, **words, **columns, out=tmp_path / "o")
    asked = ["audit", "blocks.csv", "--id", "geoid", "--count", "pop", "--runs", "2000", "--json", "-"]
    for part_of in ("composition", "hierarchy"):
        less = done.statement | {"privacy": {k: v for k, v in done.statement["privacy"].items() if k != part_of}}
        (tmp_path / "less.json").write_text(json.dumps(less))
        refused = call(*asked, "--statement", "less.json", cwd=tmp_path)
        assert refused.returncode == 2
        assert "a hierarchy must have its composition, got one of them - at" in refused.stderr
    by = call(*asked, "--statement", "o/statement.json", cwd=tmp_path)
    assert by.returncode == 0, by.stderr
    data = json.loads(by.stdout)
    assert data["mechanism"]["name"] == "discrete-gaussian"
    assert [v["sigma"] for v in data["mechanism"]["levels"]] == [0, 0, 1.5, 2]
    result = data["results"][0]
    assert result["postprocess"] == "top-down"
    typed = ["--levels", "state:2,county:4,block:6", "--level-sigma", "0,0,1.5,2", "--postprocess", "top-down"]
    plain = json.loads(call(*asked, *typed, cwd=tmp_path).stdout)["results"][0]
    for ours, theirs in zip(result["levels"], plain["levels"], strict=True):
        assert ours["alpha"]["value"] == pytest.approx(theirs["alpha"]["value"], abs=0.1)
    assert result["levels"][-1]["root_mean_squared_error"] > plain["levels"][-1]["root_mean_squared_error"]  # rounding
    both = call(*asked, "--statement", "o/statement.json", "--levels", "a:1", cwd=tmp_path)
    assert (both.returncode, "got both" in both.stderr) == (2, True)


def test_every_noisy_level_has_noise_of_its_law(tmp_path):
    """2,000 noisy nodes: the mean square of each level against its variance, 5 standard errors of a fourth moment below 3."""
    ids = [f"{s:03d}{c}{b}" for s in range(200) for c in range(3) for b in range(2)]
    shape = {"state": 3, "county": 4, "block": 5}
    book = ledger(tmp_path, limit="1000", exact_total=True, exact_source="s", rows={"id": ids})
    x = np.random.default_rng(1).integers(0, 500, len(ids))
    words = {"levels": shape, "sigmas": ["2", "4", "6"], "exact": "all"}
    table = fp.release(fp.Counts(x, ids=ids), book, **words).table
    tree = Hierarchy.from_geoids(ids, shape)
    assert part(table, "all", "noisy_count") == [x.sum()]
    for name, truth, sigma in zip(tree.names[1:], tree.split(tree.sums(x))[1:], (2, 4, 6), strict=True):
        errors = np.array(part(table, name, "noisy_count")) - truth
        assert np.mean(errors**2) == pytest.approx(sigma**2, abs=5 * sigma**2 * np.sqrt(2 / errors.size))
