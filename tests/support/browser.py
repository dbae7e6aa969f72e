"""Pages in a real browser: opened offline, without an error, without a request that leaves the file."""

import shutil
import time

import pytest

BROWSER = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("no browser: chromium, chromium-browser or google-chrome")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
    with api.sync_playwright() as p:
        made = p.chromium.launch(executable_path=BROWSER, args=quiet.split())
        yield made
        made.close()


def until(page, condition, seconds=20):
    """Wait for a condition in the page, asked from outside: the page itself forbids to evaluate text."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)


@pytest.fixture(scope="module")
def visit(browser, tmp_path_factory):
    """Open a page offline; fail on any error in it and on any request that leaves the file."""
    folder, bad, contexts = tmp_path_factory.mktemp("pages"), [], []

    def go(text, **context):
        place = folder / f"{len(contexts)}.html"
        place.write_text(text, encoding="utf-8")
        made = browser.new_context(offline=True, **context)
        contexts.append(made)
        page = made.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda e: bad.append(str(e)))
        page.on("console", lambda m: bad.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else bad.append(r.url))
        page.goto(place.as_uri())
        until(page, "document.documentElement.classList.contains('ready')")
        return page

    yield go, bad
    for made in contexts:
        made.close()


def rows(page):
    return page.eval_on_selector_all(
        "#table tbody tr", "(trs) => trs.map((tr) => [...tr.children].map((c) => c.textContent))"
    )
