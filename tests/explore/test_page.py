"""The live page in a real browser: the tasks of both users, by keyboard, on a phone, in the dark, with every request looked at."""

import re
import socket
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import fairpost as fp
from fairpost import datasets
from support.browser import until

pytest.importorskip("starlette", reason="the extra `explore` is not installed")
pytest.importorskip("uvicorn", reason="the extra `explore` is not installed")
from support.live_page import Server

POINTS = 33
"""Levels that are computed behind the slider."""
MOST = 128
"""Connections that the server takes."""
HEADER_SECONDS = "fairpost.explore.serving.HEADER_SECONDS"


def lines(n=120, noise=None):
    x = datasets.synthetic_districts(n).values
    y = x if noise is None else x + np.round(np.random.default_rng(1).laplace(0, noise, n))
    rows = (f"{i // 24:02d}{i:03d},{int(v)},g{i % 5},Place <b hurt>{i:03d}</b>" for i, v in enumerate(y))
    return "\n".join(["code,poor,state,name", *rows]) + "\n"


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def enter(browser, server):
    """A page that has entered; at the end: no error in it, no element out of the table, and no request that left this server."""
    contexts, bad, asked = [], [], []

    def go(**context):
        made = browser.new_context(accept_downloads=True, **context)
        contexts.append(made)
        page = made.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda e: bad.append(str(e)))
        page.on("console", lambda m: bad.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: asked.append(r.url))
        page.on("response", lambda r: bad.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        page.on("popup", lambda p: bad.append(f"popup {p.url}"))
        page.goto(server.link)
        page.wait_for_url(server.home)
        return page

    yield go
    for context in contexts:
        bad += [page.url for page in context.pages if page.evaluate("document.querySelector('[hurt]') !== null")]
        context.close()
    assert bad == []
    outside = [u for u in asked if not u.startswith((server.home, "data:", f"blob:{server.home}"))]
    assert outside == []


def load(page, tmp_path, text, mode="officer"):
    """Upload and map, as a person does."""
    place = tmp_path / "districts.csv"
    place.write_text(text)
    if page.locator("#forget").count():
        page.click("#forget")
    page.check(f"input[name=mode][value={mode}]")
    page.set_input_files("#file", str(place))
    page.click("text=Load the table")
    page.wait_for_selector("#c-id")
    page.select_option("#c-id", "code")
    page.select_option("#c-count", "poor")
    page.select_option("#c-group", "state")
    page.select_option("#c-label", "name")


def computed(page, kind="exact"):
    page.wait_for_selector(f"html[data-kind={kind}]", timeout=60_000)


def opened(enter, server, folder, **context):
    """A page with its table and its first picture; the table is loaded where no test before has done it, or one has taken another."""
    page = enter(**context)
    if server.opened is None or server.session.data is not server.opened:
        load(page, folder, lines())
        page.click("text=Use these columns")
    computed(page)
    server.opened = server.session.data
    return page


def waited(page, condition, told=str, seconds=30):
    """Until it is so, while the page goes on."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, told()
        page.wait_for_timeout(30)


def pictures(page):
    return int(page.evaluate("document.documentElement.dataset.pictures || 0"))


def typed(page, field, value):
    page.fill(f"#{field}", value)
    page.press(f"#{field}", "Tab")


def after(page, act, kind="exact", epsilon=None):
    """Do something and wait for the picture that it makes."""
    before = pictures(page)
    act()

    def there():
        data = page.evaluate("({...document.documentElement.dataset})")
        drawn = int(data.get("pictures", 0)) > before and data.get("kind") == kind
        return drawn and epsilon in (None, float(data["epsilon"]))

    waited(page, there, seconds=60)


def serious(page):
    """axe: what is serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [(v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found if v["impact"] in ("serious", "critical")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("explore")


def test_an_officer_finds_who_pays(enter, server, folder):
    page = enter(viewport={"width": 1280, "height": 900})
    assert serious(page) == []
    load(page, folder, lines())
    assert page.locator("table.preview tbody tr").count() == 10
    assert "Place <b hurt>003</b>" in page.inner_text("table.preview")
    assert serious(page) == []
    page.click("text=Words and levels")
    page.fill("#unit", "children")
    page.fill("#noun", "districts")
    page.click("text=Use these columns")
    computed(page)
    after(page, lambda: typed(page, "budget", "6,500,000"))
    checked = page.eval_on_selector_all("input[name=rule]:checked", "all => all.map((b) => b.value)")
    assert checked == ["baseline", "pos", "pos-threshold"]
    # the numbers of the page are the library's
    counts = server.session.mapped.x
    plain = fp.audit(counts, fp.Laplace.from_epsilon(0.1), "baseline", budget=6.5e6)
    worst = int(np.argmin(plain.bias))
    row = page.inner_text("#figures tbody tr:first-child")
    assert counts.name(worst)[:12] in row
    assert f"{-plain.money[worst]:,.0f}" in row.replace("−", "").replace("$", "")
    said = page.inner_text("#sentence")
    for part in ("120 districts", "children", "epsilon 0.1", "a typical count moves by 14 children", "$6.50 million"):
        assert part in said
    assert page.locator("#plot-size .dots").count() >= 3
    # limits: the smallest epsilon that passes, for each rule, and the line in the picture
    after(page, lambda: typed(page, "max_relative_loss", "4"))
    page.wait_for_selector("#passing li", state="attached", timeout=200_000)
    told = page.inner_text("#passing")
    assert told.count("epsilon") >= 3
    for rule in checked:
        assert re.search(rf"{rule}: (epsilon [\d.]+|none)", told)
    page.click("#units >> text=% of what is due")
    assert page.locator("#plot-size .limit").count() == 1
    # search by name finds one; its group alone
    page.fill("#search", "place <b hurt>007")
    page.wait_for_selector("#one:not([hidden])")
    assert "Place <b hurt>007</b>" in page.inner_text("#one h3")
    assert "1 of 120 match" in page.inner_text("#matches")
    page.fill("#search", "")
    until(
        page, "!document.getElementById('matches').textContent.includes('1 of 120 match')"
    )  # groups come with the table
    end = time.monotonic() + 30
    while page.locator("#chip").is_hidden():  # a table that is drawn anew under the pointer takes no click
        assert time.monotonic() < end
        page.click("#group-table button[data-group='2']")
        page.wait_for_timeout(500)
    assert "24 of 120" in page.inner_text("#matches")
    page.click("#chip")
    # two scenarios side by side
    page.click("[data-pin='0']")
    after(page, lambda: typed(page, "epsilon-number", "1"), epsilon=1.0)
    page.click("[data-pin='1']")
    assert "epsilon 0.1" in page.inner_text("#pin-0")
    assert "epsilon 1 " in page.inner_text("#pin-1")
    assert page.locator("#pins .dots").count() >= 6
    # fairness against accuracy
    page.wait_for_selector("#plot-tradeoff .series", timeout=60_000)
    assert "alpha falls" in page.inner_text("#tradeoff-said")
    # the banner never scrolls away
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.wait_for_timeout(100)
    assert page.locator(".mark").first.bounding_box()["y"] >= 0
    # what is kept
    assert "fairpost audit districts.csv" in page.inner_text("#command")
    with page.expect_download() as report:
        page.click("[data-export=report]")
    text = Path(report.value.path()).read_text(encoding="utf-8")
    assert "confidential: computed from true counts" in text
    with page.expect_download() as table:
        page.click("[data-export=csv]")
    assert Path(table.value.path()).read_text(encoding="utf-8").count("\n") == 121
    assert serious(page) == []


def test_the_slider_moves_the_picture_and_the_exact_one_follows(enter, server, folder):
    page = enter(viewport={"width": 1280, "height": 900})
    if server.session.data is None or server.session.mode != "officer":
        load(page, folder, lines())
        page.click("text=Use these columns")
    computed(page)
    page.wait_for_selector(f"html[data-prepared='{POINTS}']", timeout=90_000)
    assert page.locator("#prepared").is_hidden()
    first = page.inner_text("#figures tbody")
    page.focus("#epsilon")
    seen = []
    page.expose_function("noted", lambda kind: seen.append(str(kind)))
    page.evaluate(
        "const e = document.documentElement; new MutationObserver(() => noted(e.dataset.kind)).observe(e, "
        "{attributeFilter: ['data-kind', 'data-pictures']})"
    )
    before = pictures(page)
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(40)
    assert float(page.input_value("#epsilon-number")) < 0.1
    assert page.get_attribute("#epsilon", "aria-valuetext").startswith("epsilon 0.0")
    after(page, lambda: None if pictures(page) > before else page.keyboard.press("ArrowLeft"))
    page.wait_for_selector("html[data-kind=exact]")
    waited(page, lambda: "interpolated" in seen and seen[-1] == "exact", lambda: seen)
    assert page.locator("#badge").is_hidden()
    assert page.inner_text("#figures tbody") != first


def test_keyboard_alone(enter, server, folder):
    page = opened(enter, server, folder, viewport={"width": 1100, "height": 800})
    page.wait_for_selector(f"html[data-prepared='{POINTS}']", timeout=90_000)
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    places, seen = [], set()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break  # past the last place of the page
        here = page.evaluate(
            "(e => e.id || e.name || e.dataset.pin || e.className || e.textContent.slice(0, 20) || e.tagName)(document.activeElement)"
        )
        places.append(here)
        ring = page.evaluate(
            "(e => [e, e.closest('label')].some((o) => o && getComputedStyle(o).outlineStyle !== 'none'))(document.activeElement)"
        )
        seen.add((here, ring))
    for wanted in ("forget", "epsilon", "epsilon-number", "rule", "budget", "max_loss"):
        assert wanted in places, wanted
    assert all(ring for _, ring in seen), [who for who, ring in seen if not ring]
    page.focus("#rules input[value='sum-clipped']")
    after(page, lambda: page.keyboard.press("Space"))
    assert "sum-clipped" in page.inner_text("#figures")
    page.focus("#search")
    page.keyboard.type("002")
    page.wait_for_selector("#one:not([hidden])")


def set_epsilon(page, epsilon):
    """As the field does when it is left, while the focus stays where it is."""
    set_it = "(v) => { const e = document.getElementById('epsilon-number'); e.value = v; e.dispatchEvent(new Event('change')); }"
    after(page, lambda: page.evaluate(set_it, str(epsilon)), epsilon=epsilon)
    page.wait_for_timeout(300)


@pytest.mark.parametrize("place", ["#table th[data-key='count'] button", "#table button.who", "#group-table button"])
def test_a_table_made_anew_keeps_the_focus(enter, server, folder, place):
    page = opened(enter, server, folder, viewport={"width": 1100, "height": 800})
    page.locator(place).first.focus()
    page.wait_for_timeout(300)  # what came into view has been drawn
    was = page.evaluate("(e => { e.old = true; return e.textContent })(document.activeElement)")
    set_epsilon(page, 0.11)
    old, now = page.evaluate("(e => [e.old === true, e.textContent])(document.activeElement)")
    assert not old
    assert now == was


def test_an_entity_that_leaves_the_rows_leaves_the_focus_to_the_table(enter, server, folder):
    page = opened(enter, server, folder, viewport={"width": 1100, "height": 800})
    page.locator("#table button.who").first.focus()
    page.wait_for_timeout(300)
    page.locator("#shown input").nth(1).check()
    page.click("#table th[data-key='deviation'] button")
    shown = "[...document.querySelectorAll('#table button.who')].map((b) => b.textContent)"
    first = page.evaluate(shown)
    set_epsilon(page, 0.002)
    leaving = set(first) - set(page.evaluate(shown))
    set_epsilon(page, 0.1)
    one = min(leaving)
    page.locator("#table button.who", has_text=one).focus()
    set_epsilon(page, 0.002)
    assert page.evaluate(
        "(e => e.matches('.scroll') && e.contains(document.getElementById('table')))(document.activeElement)"
    )


def test_a_phone_in_the_dark(enter, server, folder):
    phone = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True}
    page = opened(enter, server, folder, color_scheme="dark", **phone)
    page.wait_for_timeout(300)
    wide = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1]
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", paper)[:3])) < 150
    assert serious(page) == []
    box = page.locator("#epsilon").bounding_box()
    assert box["width"] > 200
    assert box["height"] >= 24


def test_a_programme_and_its_rules(enter, folder):
    page = enter(viewport={"width": 1280, "height": 900})
    rows = "\n".join(f"{i:03d},{5 + 3 * i},{60 + 20 * i},x,n{i}" for i in range(40))
    place = folder / "law.csv"
    place.write_text(f"code,poor,children,state,name\n{rows}\n")
    page.click("#forget")
    page.set_input_files("#file", str(place))
    page.click("text=Load the table")
    for role, column in (("id", "code"), ("count", "poor"), ("base", "children"), ("group", ""), ("label", "")):
        page.select_option(f"#c-{role}", column)
    page.click("text=Use these columns")
    computed(page)
    after(page, lambda: page.select_option("#programme", "title1-basic"))
    assert page.locator("#rules input:checked").evaluate_all("all => all.map((b) => b.value)") == ["as-written"]
    page.check("#rules input[value=levelled]")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "levelled is for discrete-laplace noise" in page.inner_text("#trouble")
    page.click("text=Mechanism, engine, words")
    after(page, lambda: page.select_option("#mechanism", "discrete-laplace"))
    assert page.locator("#trouble").is_hidden()
    assert "levelled" in page.inner_text("#figures")
    assert "title1-basic" in page.inner_text("#sentence")


HALF = """
const own = window.fetch;
window.half = [];
window.fetch = (path, given) => {
  if (!/^.api.(export|frontier)/.test(path)) return own(path, given);
  window.half.push(path);
  const body = new ReadableStream({ start(c) {
    c.enqueue(new TextEncoder().encode('{"event": "pro'));
    given.signal.addEventListener("abort", () => c.error(given.signal.reason));
  } });
  return Promise.resolve(new Response(body));
};
"""


def test_a_page_that_is_left_in_the_middle_of_an_answer_has_no_error(enter, server, folder):
    """Answers of which half has come when the page is left: nobody waits for their errors (`enter` looks for those)."""
    page = opened(enter, server, folder, viewport={"width": 1280, "height": 900})
    page.add_init_script(HALF)
    page.reload()
    computed(page)
    waited(page, lambda: {p.split("/")[2] for p in page.evaluate("half")} == {"export", "frontier"})
    page.wait_for_timeout(100)
    page.evaluate("document.querySelector('#forget').form.dispatchEvent(new Event('submit', { bubbles: true }))")
    page.wait_for_timeout(100)


def test_a_server_that_has_ended_is_named(enter, server, folder):
    page = opened(enter, server, folder, viewport={"width": 1280, "height": 900})
    page.add_init_script(
        "window.fetch = ((own) => (path, given) => window.ended ? Promise.reject(new TypeError('no')) : own(path, given))(window.fetch)"
    )
    page.reload()
    computed(page)
    page.evaluate("window.ended = true")
    page.locator("[data-export]").first.evaluate("(b) => b.click()")
    page.wait_for_selector("#trouble:not([hidden])")
    assert page.inner_text("#trouble") == "The server does not answer: has `fairpost explore` ended?"
    assert page.inner_text("#said") == "Not saved."
    page.fill("#epsilon-number", "0.7")
    page.keyboard.press("Enter")
    page.wait_for_selector("#said:text('Not computed.')")
    assert page.inner_text("#trouble") == "The server does not answer: has `fairpost explore` ended?"


def test_levels_are_tabs_and_a_simulation_can_be_stopped(enter, server, folder):
    page = enter(viewport={"width": 1280, "height": 900})
    load(page, folder, lines())
    page.click("text=Words and levels")
    page.fill("#levels", "county:2,tract:5")
    page.click("text=Use these columns")
    computed(page)
    page.click("text=Simulate the levels")
    page.wait_for_selector("#level-tabs [role=tab]", timeout=60_000)
    assert page.locator("#level-tabs [role=tab]").all_inner_texts() == ["county (5)", "tract (120)"]
    page.focus("#tab-0")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-1", "aria-selected") == "true"
    assert "120 units" in page.inner_text("#level-caption")
    assert page.locator("#plot-level .dots").count() == 2
    page.fill("#level-runs", "5000000")
    page.click("text=Simulate the levels")
    page.wait_for_timeout(700)
    page.click("#level-stop")
    waited(page, lambda: "Stopped" in page.inner_text("#level-said"))
    # a simulation of the picture shows progress and is stopped too
    page.click("text=Mechanism, engine, words")
    page.fill("#runs", "9000000")
    page.press("#runs", "Tab")
    page.select_option("#method", "monte-carlo")
    page.wait_for_selector("#stop:not([hidden])")
    page.wait_for_timeout(1200)
    page.click("#stop")
    ended = re.compile("Stopped|Waiting|Simulating|Computed")
    waited(page, lambda: ended.search(page.inner_text("#said")) and not page.locator("#stop").is_visible())


def test_an_analyst_tries_a_rule(enter, server, folder):
    page = enter(viewport={"width": 1280, "height": 900})
    load(page, folder, lines(60, noise=10), mode="analyst")
    page.click("text=Use these columns")
    page.wait_for_selector("html.ready", timeout=60_000)
    assert page.locator(".mark").count() == 0
    after_shares(page, lambda: typed(page, "budget", "1000000"))
    y = server.session.mapped.y
    top = int(np.argmax(y.values))
    mine = fp.allocate(y.values, y.weights, "pos", fp.Laplace(10.0), budget=1e6)
    row = page.inner_text("#table tbody tr:first-child")
    assert f"{mine.money[top]:,.0f}" in row
    assert f"{mine.interval.low[top] * 1e6:,.0f}"[:-1] in row
    assert "If I switch to pos-threshold" in page.inner_text("#findings")
    page.click("text=change by pos-threshold")
    assert "switch" in page.inner_text("#cap-size")
    after_shares(page, lambda: page.select_option("#rule", "baseline"))
    assert "baseline" in page.inner_text("#sentence")
    after_shares(page, lambda: typed(page, "group_budget", "\n".join(f"g{k}, {100 * (k + 1)}" for k in range(5))))
    assert "fairpost allocate districts.csv" in page.inner_text("#command")
    assert serious(page) == []
    page.fill("#amount", "-1")
    page.press("#amount", "Tab")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "epsilon" in page.inner_text("#trouble")


def after_shares(page, act):
    before = pictures(page)
    act()
    waited(page, lambda: pictures(page) > before, lambda: page.inner_text("#trouble"), seconds=60)


def test_forget_now(enter, server, folder):
    page = enter()
    if server.session.source is None:
        load(page, folder, lines())
        page.click("text=Use these columns")
        computed(page)
    page.click("#forget")
    page.wait_for_selector("#file")
    assert server.session.source is None
    assert "Place" not in page.content()


def test_connections_that_send_no_header_lock_nobody_out(server, monkeypatch):
    """Half a line each, more of them than the server has places; the owner enters at once, and they are gone in time."""
    monkeypatch.setattr(HEADER_SECONDS, 1.5)
    held = []
    for k in range(2 * MOST):
        held.append(socket.create_connection(("127.0.0.1", server.port), timeout=20))
        held[-1].sendall(b"GET / HTTP/1.1\r\nX: "[: k % 20])
    try:
        begun = time.monotonic()
        with urllib.request.urlopen(server.link, timeout=20) as entered:
            assert entered.status == 200
        assert time.monotonic() - begun < 1
        for one in held:  # closed, and nothing was said; what was not read makes it a reset
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""
    finally:
        for one in held:
            one.close()


def test_a_request_may_take_its_time_after_the_header(server, monkeypatch):
    monkeypatch.setattr(HEADER_SECONDS, 0.3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as one:
        one.sendall(b"POST /api/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
        assert one.recv(9) == b"HTTP/1.1 "  # refused: no key; and the connection lives on
