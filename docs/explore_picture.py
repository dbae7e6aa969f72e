"""Makes explore.png and explore-phone.png: the live page with synthetic districts, in a real browser. Needs fairpost[test]."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from fairpost.datasets import synthetic_districts

HERE = Path(__file__).parent
BROWSER = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


def serve(*words: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-u", "-m", "fairpost", "explore", *words, "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
    return server, re.search(r"http\S+", server.stdout.readline())[0]


def small(path: Path, colours: int = 160) -> None:
    """Few colours: a picture of a page needs no more."""
    Image.open(path).convert("RGB").quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    counts = synthetic_districts()
    noisy = counts.values + np.round(np.random.default_rng(0).laplace(0, 10, counts.n))
    for name, values in (("true", counts.values), ("noisy", noisy)):
        rows = (f"{i},{int(x)},{k % 51 + 1:02d}" for k, (i, x) in enumerate(zip(counts.ids, values, strict=True)))
        (folder / f"synthetic-{name}.csv").write_text("\n".join(["id,count,group", *rows]) + "\n", encoding="utf-8")
    shots = (
        (
            "explore.png",
            [
                "synthetic-true.csv",
                "--budget",
                "6.5e9",
                "--unit",
                "children",
                "--noun",
                "districts",
                "--max-relative-loss",
                "2",
            ],
            {"viewport": {"width": 1280, "height": 1000}},
            "#passing li",
        ),
        (
            "explore-phone.png",
            ["synthetic-noisy.csv", "--analyst", "--epsilon", "0.1", "--budget", "6.5e9"],
            {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
            "html.ready",
        ),
    )
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        for name, words, context, done in shots:
            server, link = serve(str(folder / words[0]), *words[1:])
            page = browser.new_context(**context).new_page()
            page.goto(link)
            page.wait_for_selector(done, state="attached", timeout=240_000)
            page.wait_for_timeout(1500)
            if name == "explore-phone.png":
                page.locator("#h-shares").scroll_into_view_if_needed()
                page.evaluate("document.getElementById('h-shares').scrollIntoView(); window.scrollBy(0, -70)")
                page.wait_for_timeout(300)
            page.screenshot(path=HERE / name)
            small(HERE / name)
            server.terminate()
            server.wait(20)
        browser.close()


if __name__ == "__main__":
    main()
