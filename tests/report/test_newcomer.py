"""The pages as a newcomer uses them, in a real browser: find a district by name, read its loss in money and percent, see which
rule passes, keep the numbers. And what is around them: maps, pages of noisy counts, the lines that make a page again."""

import base64
import csv
import dataclasses
import html
import io
import json
import re

import numpy as np
import pytest

import fairpost as fp
from fairpost import errors, palette
from fairpost.report import allocation_page, audit_page, check_page, curves_page, levels_page, projection_page
from support.browser import rows, until
from support.commands import call as fairpost
from support.pages import collection, payload, plans, points, squares, words

NAMES = ["Sandy Flats", "Old Mill", "Port Ellis", "Great Harbour", "Upper Ferry", "Lower Ferry"]
LIMITS = {"max_loss": 20_000, "max_relative_loss": 10.0}


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(4)
    values = np.concatenate([[3, 0, 40, 90_000, 700, 700], np.round(np.exp(rng.normal(4, 1.5, 194)))])
    names = NAMES + [f"District {k}" for k in range(6, 200)]
    groups = ["North" if k % 3 else "South" for k in range(200)]
    return fp.Counts(values, ids=[f"{k:05d}" for k in range(200)], names=names, groups=groups)


@pytest.fixture(scope="module")
def results(counts):
    rules = ["baseline", "pos", "pos-threshold"]
    return fp.compare(counts, fp.Laplace(scale=50.0), rules, budget=1e8, targets=LIMITS)


@pytest.fixture(scope="module")
def page(results):
    return audit_page(
        results, unit="children", noun="districts", source="districts.csv", command="fairpost audit x", lines="print(1)"
    )


@pytest.fixture(scope="module")
def desk(visit, page):
    return visit[0](page, viewport={"width": 1200, "height": 900}, accept_downloads=True)


# ---- the first screen ---------------------------------------------------------------------------------------------


def test_a_law_that_decides_tells_its_wrong_decisions(visit):
    counts = fp.Counts([40.0, 300.0, 900.0, 12_000.0], base=[4000.0, 5000.0, 9000.0, 100_000.0])
    result = fp.audit(counts, fp.DiscreteLaplace(30.0), "as-written", programme="section-203")
    page = audit_page([result], noun="counties")
    first, *heads = re.findall(r"<li><h3>([^<]+)</h3>", page)[:3]
    assert (first in ("Who pays", "Who gains"), heads) == (True, ["Wrong decisions", "What does better"])
    assert f"as-written: Of {np.count_nonzero(result.truth)} eligible counties" in words(page)
    opened = visit[0](page, viewport={"width": 1200, "height": 900})
    assert opened.locator("#plot-size .ytitle").text_content() == "change of the chance to be let in"
    assert "of what is due" not in opened.locator("#table").text_content()
    assert visit[1] == []


def test_the_first_screen_has_verdicts_findings_and_the_picture(desk, results):
    inside = "(e) => { const b = e.getBoundingClientRect(); return b.top >= 0 && b.top < innerHeight; }"
    desk.evaluate("scrollTo(0, 0)")
    for part in (".verdicts", ".findings", "#plot-size svg.drawn"):
        assert desk.locator(part).first.evaluate(inside), part
    lines = desk.locator(".verdicts li").all_text_contents()
    assert [line.split()[0] for line in lines] == [r.postprocess for r in results]
    assert desk.locator(".verdicts li").evaluate_all("(all) => all.map((e) => e.className)") == [
        r.outcome for r in results
    ]
    assert len({r.outcome for r in results}) == 2  # the example tells rules apart
    assert desk.locator(".findings li").count() == 3


# ---- a newcomer's tasks -------------------------------------------------------------------------------------------


def test_find_a_district_by_name_and_read_its_loss(desk, results, visit):
    desk.fill("#search", "great harb")
    until(desk, "document.getElementById('matches').textContent === '1 of 200 match'")
    one = desk.locator("#one")
    assert one.locator("h3").text_content() == "Great Harbour"
    assert "id 00003" in one.text_content()
    cells = one.locator("tbody tr").evaluate_all("(trs) => trs.map((tr) => [...tr.children].map((c) => c.textContent))")
    i = 3
    for r, row in zip(results, cells, strict=True):
        assert row[0] == r.postprocess
        amount = float(row[1].replace("−", "-").replace("$", "").replace(",", ""))
        assert amount == pytest.approx(r.money[i], abs=max(0.5, r.half_width[i] * 1e8))
        part = float(row[2].replace("−", "-").rstrip("\u00a0%"))
        assert part == pytest.approx(100 * r.bias[i] / r.truth[i], rel=5e-3)
        lost = -r.money[i] > LIMITS["max_loss"] or -100 * r.relative[i] > LIMITS["max_relative_loss"]
        assert row[4] == ("no" if lost else "yes")
    assert {row[4] for row in cells} == {"yes", "no"}
    assert rows(desk)[0][:2] == ["Great Harbour", "00003"]
    desk.fill("#search", "00001")  # by id too
    until(desk, "document.querySelector('#one h3').textContent === 'Old Mill'")
    assert "nothing due" in desk.locator("#one").text_content()
    desk.fill("#search", "")
    until(desk, "document.getElementById('one').hidden")
    assert visit[1] == []


def test_save_what_is_shown(desk, results):
    desk.fill("#search", "ferry")
    until(desk, "document.getElementById('matches').textContent === '2 of 200 match'")
    with desk.expect_download() as saved:
        desk.click("#save-table")
    found = list(csv.DictReader(io.StringIO(saved.value.path().read_text())))
    assert sorted(r["name"] for r in found) == ["Lower Ferry", "Upper Ferry"]
    for row in found:
        i = results[0].counts.ids.index(row["id"])
        assert float(row["pos_threshold_bias_money"]) == results[2].money[i]  # every rule, to the last bit
        assert float(row["baseline_relative"]) == results[0].bias[i] / results[0].truth[i]
        assert row["confidential"] == "confidential"
    desk.fill("#search", "")
    for button, words_ in (("Save the command", "fairpost audit x\n"), ("Save the Python lines", "print(1)\n")):
        with desk.expect_download() as saved:
            desk.get_by_text(button).click()
        assert saved.value.path().read_text() == words_


def test_a_group_is_linked_to_picture_and_table(desk, counts, results):
    south = sum(g == "South" for g in counts.groups)
    desk.locator("#groups .panel:visible button[data-group]").first.click()
    until(desk, f"document.getElementById('matches').textContent === '{south} of 200 match'")
    assert desk.locator("#groups .panel:visible button[aria-pressed=true]").text_content() == "South"
    assert {r[2] for r in rows(desk)} == {"South"}
    assert desk.locator("#plot-size .series").count() == 6  # every rule, and its part of the group
    cells = desk.locator("#groups .panel:visible tbody tr").first.locator("td").all_text_contents()
    inside = np.array(counts.groups) == "South"
    part = 100 * results[0].bias[inside].sum() / results[0].truth[inside].sum()
    assert float(cells[3].replace("−", "-").rstrip("\u00a0%")) == pytest.approx(part, rel=5e-3)
    desk.click("#chip")
    until(desk, "document.getElementById('matches').textContent === '200 districts'")
    assert desk.locator("#plot-size .series").count() == 3


# ---- the picture --------------------------------------------------------------------------------------------------

PLAIN = re.compile(r"^[+−]?\$?[\d,]+(\.\d+)?(\u00a0%)?$")
POWERS = re.compile(r"^[+−]?\$?(\d(\.\d+)? × )?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+(\u00a0%)?$")


def one_notation(texts):
    some = [t for t in texts if t != "0"]
    return all(PLAIN.match(t) for t in some) or all(POWERS.match(t) for t in some)


def test_ticks_have_one_notation_and_stay_when_zoomed(desk):
    for unit in ("money", "% of what is due", "share of the budget"):
        desk.get_by_label(unit, exact=True).check(force=True)
        for _ in range(6):
            for axis in ("xtick", "ytick"):
                texts = desk.locator(f"#plot-size .{axis}").all_text_contents()
                assert len(texts) >= 3, (unit, axis, texts)
                assert len(set(texts)) == len(texts)
                assert one_notation(texts), texts
                inside = """(all) => { const f = all[0].closest('svg'); return all.every((t) => {
                    const x = Number(t.getAttribute('x')), y = Number(t.getAttribute('y'));
                    return x >= 0 && x <= f.width.baseVal.value && y >= 20 && y <= f.height.baseVal.value; }); }"""
                assert desk.locator(f"#plot-size .{axis}").evaluate_all(inside), (unit, axis, texts)
            desk.locator("#plot-size").get_by_text("Zoom in").click()
        desk.locator("#plot-size").get_by_text("Whole picture").click()
    desk.get_by_label("money", exact=True).check(force=True)


def test_dots_stand_where_their_numbers_are(desk, results):
    """Read back through the ticks: places are affine in sign(v) log10(1 + |v| / c), c the power of ten that fits the ticks."""
    desk.uncheck("#together")
    found = desk.locator("#plot-size .ytick").evaluate_all(
        "(all) => all.map((t) => [t.textContent, Number(t.getAttribute('y'))])"
    )
    ticks = {float(re.sub("[+$,]", "", t).replace("−", "-")): y for t, y in found}
    size = float(desk.locator("#plot-size svg").get_attribute("font-size"))

    def place(v, c):
        return np.sign(v) * np.log10(1 + np.abs(v) / c)

    def fit(c):
        at = np.array(list(ticks))
        return np.polyfit(place(at, c), np.array(list(ticks.values())) - 0.35 * size, 1, full=True)[:2]

    left = {k: float(np.sum(fit(10.0**k)[1])) for k in range(-2, 6)}
    c = 10.0 ** min(left, key=left.get)
    assert left[np.log10(c)] < 0.2  # pixels squared: ticks are written to a tenth
    assert desk.locator("#plot-size .dots").count() == 1
    drawn = desk.locator("#plot-size .dots").get_attribute("d")
    seen = np.array([float(y) + float(w) / 2 for y, w in re.findall(r"M[-\d.]+ ([-\d.]+)h([\d.]+)v", drawn)])  # squares
    wanted = np.polyval(fit(c)[0], place(results[0].money, c))
    far = np.abs(wanted[:, None] - seen[None, :]).min(axis=1)
    assert far.max() < 0.6  # drawn to half a pixel
    assert np.ptp(wanted) > 200
    notes = desk.locator("#plot-size .pointed").all_text_contents()
    assert any(t.endswith(f"−${-results[0].money.min():,.0f}") for t in notes)
    desk.check("#together")


# ---- accessibility ------------------------------------------------------------------------------------------------


NOISY = np.random.default_rng(1).normal(50, 60, 80)
PARTS = ["a", "b"] * 40


def shared(how):
    return fp.allocate(
        NOISY, how=how, mechanism=fp.Laplace(10.0), budget=1e6, groups=PARTS, estimate_bias=True, replicates=2
    )


PAGES = {
    "audit": lambda r, t: audit_page(r, command="fairpost", lines="print()", shapes=squares(r[0].counts)),
    "sweep": lambda r, t: curves_page(points(), x="epsilon"),
    "plan": lambda r, t: curves_page(points(), x="epsilon", plans=plans(points())),
    "allocate": lambda r, t: allocation_page([shared("baseline"), shared("pos")]),
    "project": lambda r, t: projection_page(fp.project(NOISY, groups=PARTS)),
    "levels": lambda r, t: levels_page(t),
    "check": lambda r, t: check_page(fp.check(r[0].counts, r[0].counts.values + NOISY[:40], fp.Laplace(60.0))),
}


@pytest.fixture(scope="module")
def pages(counts, tree_results):
    """Each page by its name, made once; an audit of forty, for what is looked at is every kind of thing on a page, not every district."""
    some = fp.Counts(counts.values[:40], ids=counts.ids[:40], names=counts.names[:40], groups=counts.groups[:40])
    made = {}
    results = fp.compare(some, fp.Laplace(50.0), ["baseline", "pos", "pos-threshold"], budget=1e8, targets=LIMITS)

    def page(kind):
        if kind not in made:
            made[kind] = PAGES[kind](results, tree_results)
        return made[kind]

    return page


@pytest.mark.parametrize("kind", PAGES)
def test_axe_finds_nothing_serious(visit, pages, kind):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = visit[0](pages(kind), viewport={"width": 1200, "height": 900}, color_scheme="light")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    # the dark page differs from the light one in its colours, so in these rules
    colour = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
    for scheme, options in (("light", None), ("dark", colour)):
        page.emulate_media(color_scheme=scheme)
        found = axe.Axe().run(page, options=options).response["violations"]
        assert [(scheme, v["id"], v["impact"], v["nodes"][0]["html"][:90]) for v in found] == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert visit[1] == []


@pytest.mark.parametrize("kind", PAGES)
def test_a_phone_scrolls_down_only(visit, pages, kind):
    page = visit[0](pages(kind), viewport={"width": 390, "height": 844}, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    apart = """() => [...document.querySelectorAll('.plot')].every((p) => {
        const bar = p.querySelector('.toolbar'), legend = p.querySelector('.legend');
        return !bar || !legend || bar.getBoundingClientRect().top >= legend.getBoundingClientRect().bottom; })"""
    assert page.evaluate(apart)
    assert visit[1] == []


TOOLBAR = ["Zoom in", "Zoom out", "Whole picture", "Save PNG", "Save SVG"]
"""Every button that a figure may have: all of them stay on this machine."""


@pytest.mark.parametrize("kind", PAGES)
def test_no_button_leaves_the_page(browser, tmp_path, pages, kind):
    """With a network that answers nothing and counts everything: whatever is clicked, no request and no window."""
    (tmp_path / "page.html").write_text(pages(kind), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    asked, windows = [], []

    def refuse(route):
        asked.append(route.request.url)
        route.abort()

    context.route(lambda url: not url.startswith(("file:", "data:", "blob:")), refuse)
    page = context.new_page()
    context.on("page", lambda opened: windows.append(opened))  # noqa: PLW0108 (a bound method of a list is refused)
    page.goto((tmp_path / "page.html").as_uri())
    until(page, "document.documentElement.classList.contains('ready')")
    page.evaluate(
        "() => { window.sent = []; for (const m of ['submit', 'requestSubmit']) HTMLFormElement.prototype[m] = () => sent.push(m); }"
    )
    for figure in page.locator(".plot").all():
        assert figure.locator("button").all_text_contents() in ([], TOOLBAR)
    saved = {"PNG": b"\x89PNG", "SVG": b"<svg"}
    for button in page.locator("button:visible").all():
        if not button.is_visible() or not button.is_enabled():
            continue
        name = button.text_content()
        if name.startswith("Save"):
            with page.expect_download() as one:
                button.dispatch_event("click")
            assert one.value.url.startswith("blob:")
            if name in TOOLBAR:
                assert one.value.path().read_bytes().startswith(saved[name.split()[1]])
        else:
            button.dispatch_event("click")
    assert page.locator(".plot button").count() >= len(TOOLBAR)
    assert page.locator("text=/cloud|chart studio|share chart/i").count() == 0
    assert (asked, windows, page.evaluate("window.sent")) == ([], [], [])
    context.close()


# ---- maps ---------------------------------------------------------------------------------------------------------


GRID = 2400
"""The widest side of a map, in steps."""


def drawn(folder, shapes, ids=("a", "b", "c", "d"), *more):
    """What the page of an audit has of a map, and what it says of it."""
    (folder / "t.csv").write_text("id,count\n" + "".join(f"{i},{k}\n" for k, i in enumerate(ids)))
    (folder / "m.geojson").write_text(json.dumps(shapes))
    done = fairpost("audit", "t.csv", "--scale", 5, "--map", "m.geojson", *more, "--html", "-", cwd=folder)
    return (payload(done.stdout)["map"], words(done.stdout)) if done.returncode == 0 else (None, done.stderr)


def test_shapes_become_small_paths_without_gaps(tmp_path):
    data, said = drawn(tmp_path, collection(["b", "a", "zz"]))
    assert data["of"] == [1, 0]
    assert "2 of 4 entities have no area in it. 1 of its areas belong to none of them and are not drawn." in said
    # two squares side by side: together GRID wide, the point in the middle of an edge is gone, the border is shared
    assert max(data["width"], data["height"]) == GRID + 1
    corner = [tuple(map(int, re.match(r"M(-?\d+) (-?\d+)", p).groups())) for p in data["paths"]]
    steps = [[tuple(map(int, s)) for s in re.findall(r"(-?\d+) (-?\d+)", p.split("l")[1])] for p in data["paths"]]
    assert [len(s) for s in steps] == [3, 3]
    assert corner[1][0] == corner[0][0] + steps[0][0][0]
    assert steps[0][0][0] == GRID // 2
    assert steps[0][0][0] / -steps[0][1][1] == pytest.approx(
        np.cos(np.radians(30.25)), rel=2e-3
    )  # a degree is shorter up there


def test_the_date_line_does_not_tear_a_map_apart(tmp_path):
    east = [[[179, 50], [180, 50], [180, 51], [179, 51], [179, 50]]]
    west = [[[-180, 50], [-179, 50], [-179, 51], [-180, 51], [-180, 50]]]
    features = [
        {"type": "Feature", "id": k, "properties": {}, "geometry": {"type": "Polygon", "coordinates": c}}
        for k, c in enumerate((east, west))
    ]
    data, _ = drawn(tmp_path, {"type": "FeatureCollection", "features": features}, "01")
    assert [re.match(r"M(\d+)", p)[1] for p in data["paths"]] == ["0", str(GRID // 2)]


def of_features(*features):
    return {"type": "FeatureCollection", "features": list(features)}


@pytest.mark.parametrize(
    ("shapes", "more", "says"),
    [
        ({"type": "Topology"}, (), "must be a GeoJSON FeatureCollection, got 'Topology'"),
        ([1], (), "got list"),
        (of_features(), (), "must have polygons with ids, got none"),
        (collection(["a"]), ("--map-key", "NAME"), "feature 0 has no property 'NAME', it has GEOID"),
        (of_features(7), (), "feature 0 must be an object, got int"),
        (of_features({"id": 1, "geometry": {"type": "Polygon", "coordinates": [[["x", 1]]]}}), (), "feature 0 has bad coordinates"),
        (collection(["0a"]), (), "got '0a' for such as 'a'"),
    ],
)  # fmt: skip
def test_bad_maps_are_named(tmp_path, shapes, more, says):
    data, said = drawn(tmp_path, shapes, ("a", "b"), *more)
    assert (data, said.count("\n")) == (None, 1)
    assert says in said


def test_a_map_shows_who_gains_and_who_loses(visit, results):
    page = visit[0](audit_page(results, shapes=squares(results[0].counts)), viewport={"width": 1200, "height": 900})
    fills = page.locator("#map path[data-k]").evaluate_all("(all) => all.map((p) => p.getAttribute('fill'))")
    loss, gain = {"#b35806", "#e08214", "#fdb863", "#fee0b6"}, {"#d8daeb", "#b2abd2", "#8073ac", "#542788"}
    for fill, bias in zip(fills, results[0].bias, strict=True):
        assert fill in (loss if bias < 0 else gain)
    deepest = int(np.argmin(results[0].bias))
    assert fills[deepest] == "#b35806"
    page.get_by_label("pos-threshold", exact=True).check(force=True)
    again = page.locator("#map path[data-k]").evaluate_all("(all) => all.map((p) => p.getAttribute('fill'))")
    assert again != fills
    assert visit[1] == []


# ---- noisy counts alone -------------------------------------------------------------------------------------------


def test_pages_of_noisy_counts_are_not_confidential_and_say_what_they_found(visit):
    noisy, ids = [-4.0, 12.5, 300.25, 41.0], ["n", "e", "s", "w"]
    noise = fp.Laplace(scale=3.0)
    given = {"mechanism": noise, "budget": 1e4, "ids": ids, "names": ["North", "East", "South", "<b>West</b>"]}
    found = [fp.allocate(noisy, how=h, estimate_bias=True, **given) for h in ("baseline", "pos")]
    page = allocation_page(found, source="noisy.csv", noun="towns")
    said = words(page)
    assert "confidential: " not in said
    assert "noisy.csv · 4 towns · $10,000 · laplace noise: a typical count moved by 4.24 people" in said
    assert "Under baseline South gets $8,488" in said  # 300.25 / 353.75
    assert "1 of 4 noisy counts are negative. 1 towns get nothing under baseline." in said
    assert "estimated from noisy counts" in said
    assert "<b>West</b>" not in page
    opened = visit[0](page, viewport={"width": 1200, "height": 900})
    assert opened.locator(".plot svg.drawn").count() == 2
    opened.fill("#search", "south")
    until(opened, "document.getElementById('matches').textContent === '1 of 4 match'")
    assert rows(opened)[0][:3] == ["South", "s", "300.25"]
    projected = fp.project(noisy, "simplex", 340.0, ids=ids)
    page = projection_page(projected, unit="pupils")
    said = words(page)
    assert "It went from 349.75 to 340 pupils." in said
    assert "1 counts were negative, 0 are; 1 are 0." in said
    assert "It is 349.75 people, as before." in words(projection_page(fp.project(noisy, ids=ids)))
    assert visit[0](page).locator("#plot-0 svg.drawn").count() == 1
    switched = words(allocation_page([fp.allocate(noisy, how=h, budget=1e4) for h in ("baseline", "pos")]))
    # pos: 300.25 / 349.75 less a third of 4 / 349.75; baseline: 300.25 / 353.75. The others lose what it gains: 0.005894 of 10,000
    assert "pos in place of baseline moves $58.9 in all, most of all for 2: +$58.9." in switched
    assert visit[1] == []


def test_a_frontier_is_drawn(visit, results):
    path = fp.frontier(results[0].counts, fp.Laplace(scale=50.0), points=5, beside=list(results), budget=1e8)
    made = audit_page(dataclasses.replace(results, frontier=path))
    data = payload(made)["tradeoff"]
    assert [(p["x"], p["y"]) for p in data["path"]] == [(t.point.rmse.value, t.point.alpha.value) for t in path.path]
    assert [(p["name"], p["y"]) for p in data["named"]] == [(r.postprocess, r.alpha.value * 1e8) for r in results]
    assert visit[0](made).locator("#plot-tradeoff .series").count() == 4
    assert visit[1] == []


# ---- hierarchies --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree_results():
    rng = np.random.default_rng(6)
    ids = [f"{s}{c}{b:02d}" for s in "AB" for c in "123" for b in range(12)]
    people = rng.choice([0, 1, 3, 20, 400], len(ids)).astype(float)
    tree = fp.Hierarchy.from_geoids(ids, {"state": 1, "county": 2, "block": 4})
    noise = fp.LevelNoise(tree, sigmas=[0, 2.0, 3.0])
    areas = ["west" if i[1] == "1" else "<b>east</b>" for i in ids]
    return [
        fp.audit_hierarchy(people, noise, rule, runs=300, areas=areas) for rule in ("top-down", "blue-down-threshold")
    ]


def test_a_page_of_a_hierarchy_has_every_level(visit, tree_results):
    page = levels_page(tree_results, source="tree.csv", unit="pupils")
    said, data = words(page), payload(page)
    assert "confidential: computed from true counts" in said
    assert "tree.csv · 72 leaves (block)" in said
    assert "noise by level: state exact, county 2, block 3" in said
    assert [(level["name"], level["n"], len(level["ids"])) for level in data["levels"]] == [
        ("state", 2, 2),
        ("county", 6, 6),
        ("block", 72, 72),
    ]
    for k, level in enumerate(data["levels"], 1):
        for r, sent in zip(tree_results, level["results"], strict=True):
            assert np.array_equal(np.frombuffer(base64.b64decode(sent["bias"]), "<f8"), r.level(k).bias)
            assert (np.frombuffer(base64.b64decode(sent["half"]), "<f4") >= r.level(k).half_width).all()
    worst = max(tree_results, key=lambda r: r.alpha.value)
    assert f"Under {worst.postprocess} block {worst.alpha_pair[1]} loses" in said
    assert "<b>east</b>" not in page
    opened = visit[0](page, viewport={"width": 1200, "height": 900}, accept_downloads=True)
    assert opened.locator("#plot-level .series").count() == 2
    assert opened.locator("#matches").text_content() == "72 rows of 72"
    opened.get_by_label(re.compile("county")).check(force=True)
    assert opened.locator("#matches").text_content() == "6 rows of 6"
    assert sorted(r[0] for r in rows(opened)) == ["A1", "A2", "A3", "B1", "B2", "B3"]
    opened.fill("#search", "b2")
    until(opened, "document.getElementById('matches').textContent === '1 of 6 match'")
    with opened.expect_download() as saved:
        opened.click("#save-table")
    (row,) = csv.DictReader(io.StringIO(saved.value.path().read_text()))
    level = tree_results[0].level("county")
    assert float(row["top_down_bias"]) == level.bias[level.ids.index("B2")]
    opened.get_by_label("% of the true count").check(force=True)
    assert "in % of the true count" in opened.locator("#plot-level .ytitle").text_content()
    assert visit[1] == []
    with pytest.raises(errors.ParameterError, match="at least one result"):
        levels_page([])


def test_a_page_of_levels_says_how_each_rule_was_computed(tree_results):
    """Two rules, two methods, two numbers of runs: each stands beside its own rule."""
    formula = dataclasses.replace(tree_results[0], postprocess="by-formula", method="mean-field", runs=None)
    simulated = dataclasses.replace(tree_results[1], postprocess="by-runs", method="monte-carlo", runs=4321, seed=9)
    page = words(levels_page([formula, simulated]))
    assert re.search("Method, by-formula *mean-field", page)
    assert re.search("Method, by-runs *monte-carlo, 4,321 runs, seed 9", page)


def test_an_audit_of_levels_writes_its_page(tmp_path, monkeypatch, capsys):
    lines = ["id,count,zone", *(f"{s}{c}{b},{(b * 7) % 5},z{b % 2}" for s in "AB" for c in "12" for b in range(4))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    words_ = (
        "audit t.csv --levels s:1,c:2,b:3 --level-sigma 0,1,2 --runs 50 --postprocess top-down --areas zone --seed 4"
    )
    page, wanted, space = again(words_.split(), tmp_path, monkeypatch)
    assert [level["name"] for level in payload(page)["levels"]] == ["s", "c", "b"]
    assert [r.alpha.value for r in space["results"]] == [r["alpha"]["value"] for r in wanted["results"]]
    assert [a.bias for a in space["results"][0].areas] == [a["bias"] for a in wanted["results"][0]["areas"]]


# ---- the palette --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules",
    ["pos baseline", "pos my-own baseline another pos", "none nonnegative sum sum-clipped simplex simplex-threshold",
     "as-written levelled signed no-loss"],
)  # fmt: skip
def test_one_rule_one_colour(rules):
    """One that comes again, and one's own, have colours of their own."""
    found = palette.slots(rules.split())
    assert len(set(found)) == len(rules.split())
    assert found[0] == palette.slots(rules.split()[:1])[0]
    assert f"--s{palette.slots(['pos'])[0]}: {palette.look('pos').light};" in palette.sheet()


# ---- the lines that make a page again -----------------------------------------------------------------------------


def lines_of(page):
    return html.unescape(re.search(r'<pre id="python"[^>]*>(.*?)</pre>', page, re.S)[1])


def again(args, folder, monkeypatch):
    """The page of a command, its JSON, and what the Python lines of the page make; its owner alone may read a confidential one."""
    done = fairpost(*args, "--html", "r.html", "--json", "r.json", "--force", cwd=folder)
    assert done.returncode == 0, done.stderr
    page, space = (folder / "r.html").read_text(), {}
    private = "confidential: computed from true counts" in words(page)
    assert private == (args[0] not in ("allocate", "project")) == ((folder / "r.html").stat().st_mode & 0o077 == 0)
    monkeypatch.chdir(folder)
    exec(lines_of(page), space)
    return page, json.loads((folder / "r.json").read_text()), space


@pytest.fixture
def folder(tmp_path, counts):
    with open(tmp_path / "d.csv", "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["leaid", "kids", "state", "who"])
        out.writerows(zip(counts.ids, counts.values.astype(int), counts.groups, counts.names, strict=True))
    (tmp_path / "m.geojson").write_text(json.dumps(collection(counts.ids, "LEA")))
    return tmp_path


COLUMNS = ("--id", "leaid", "--count", "kids", "--group", "state", "--label", "who")


def test_the_lines_of_an_audit_find_its_numbers(folder, monkeypatch, capsys):
    args = ("audit", "d.csv", *COLUMNS, "--scale", "50", "--budget", "1e8", "--max-loss", "500", "--seed", "3")
    page, wanted, space = again((*args, "--map", "m.geojson", "--map-key", "LEA"), folder, monkeypatch)
    found = space["results"]
    assert [r.alpha.value for r in found] == [r["alpha"]["value"] for r in wanted["results"]]
    assert [r.overall.outcome for r in found] == [r["outcome"] for r in wanted["results"]]
    assert found[0].counts.names[3] == "Great Harbour"
    assert len(payload(page)["map"]["paths"]) == 200


@pytest.mark.parametrize("command", ["sweep", "plan"])
def test_the_lines_of_a_curve_find_its_numbers(folder, monkeypatch, capsys, command):
    limits = ("--max-loss", "5000", "--max-relative-loss", "5") if command == "plan" else ()
    args = (command, "d.csv", *COLUMNS, "--budget", "1e8", "--epsilons", "0.01", "1", "--points", "4", *limits)
    _, wanted, space = again((*args, "--postprocess", "baseline", "--postprocess", "pos"), folder, monkeypatch)
    if command == "sweep":
        assert [p.alpha.value for p in space["curve"].points] == [p["alpha"]["value"] for p in wanted["points"]]
    else:
        scales = [p["found"]["mechanism"]["scale"] for p in wanted["plans"]]
        assert [p.found.mechanism.spread for p in space["plans"]] == scales


def test_the_lines_of_noisy_counts_find_their_numbers(folder, monkeypatch, capsys):
    few = ("--replicates", "2", "--postprocess", "baseline", "--postprocess", "pos")  # the same numbers, however many
    args = ("allocate", "d.csv", *COLUMNS, "--scale", "50", "--budget", "1e8", "--by-group", *few)
    _, wanted, space = again(args, folder, monkeypatch)
    pos = space["found"][1]
    assert pos.shares.tolist() == [e["pos_share"] for e in wanted["entities"]]
    assert pos.bias.bias.tolist() == [e["pos_estimated_bias"] for e in wanted["entities"]]
    args = ("project", "d.csv", *COLUMNS, "--total", "100000", "--round", "--csv", "r.csv")
    _, wanted, space = again(args, folder, monkeypatch)
    assert space["found"].counts.tolist() == [e["count"] for e in wanted["entities"]]  # with the seed that was drawn


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--map", "m.geojson"), "--map is for the report, got no --html"),
        (("--map-key", "X"), "--map-key is for --map, got no --map"),
        (("--html", "r.html", "--map", "none.geojson"), "no such file: none.geojson"),
        (("--html", "r.html", "--map", "d.csv"), "d.csv must be GeoJSON"),
        (("--html", "m.geojson", "--map", "m.geojson", "--force"), "m.geojson"),
    ],
)
def test_bad_options_of_maps_end_with_one_line(folder, more, said):
    before = (folder / "m.geojson").read_bytes()
    done = fairpost("audit", "d.csv", *COLUMNS, "--scale", "50", *more, cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (folder / "r.html").exists()
    assert (folder / "m.geojson").read_bytes() == before


def test_a_page_with_fewer_rows_than_entities_says_how_many_are_left(monkeypatch):
    noisy = [3.5, -2.0, 40.0, 7.25, 11.0]
    assert "are not in this file" not in projection_page(fp.project(noisy, total=60.0))
    monkeypatch.setattr("fairpost.report.entities.MOST", 3)
    page = projection_page(fp.project(noisy, total=60.0), noun="towns")
    assert "2 more towns with smaller numbers are not in this file" in page
    assert len(payload(page)["ids"]) == 3
