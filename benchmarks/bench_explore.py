"""`fairpost explore` in a real browser: start, epsilon to new picture, memory, four tabs at once. Prints one table.

The picture is measured in the page: from the key press on the slider to the drawn picture (`performance.measure` around it), first
interpolated between computed levels, then exact. Data: SAIPE 2019 in the folder FAIRPOST_DATA, else synthetic districts of that size.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

BARS = {"picture": 0.3, "start": 2.0, "memory": 600.0}
BROWSER = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


def data() -> list[str]:
    """The file and its columns."""
    place = Path(os.environ.get("FAIRPOST_DATA", "")) / "saipe_2019.csv"
    if place.exists():
        return [str(place), "--id", "leaid", "--count", "poor_5_17", "--group", "state", "--label", "name"]
    from fairpost.datasets import synthetic_districts

    counts, made = synthetic_districts(), Path(tempfile.mkdtemp()) / "synthetic.csv"
    rows = (f"{i},{int(x)},g{k % 51}\n" for k, (i, x) in enumerate(zip(counts.ids, counts.values, strict=True)))
    made.write_text("id,count,group\n" + "".join(rows), encoding="utf-8")
    return [str(made)]


def started(more: list[str]) -> tuple[subprocess.Popen[str], str, float]:
    """The server, its link, and the seconds until it was printed (the socket listens by then)."""
    command = [sys.executable, "-m", "fairpost", "explore", *more, "--budget", "6.5e9", "--no-open"]
    begin = time.perf_counter()
    server = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert server.stdout is not None
    link = re.search(r"http\S+", server.stdout.readline())
    assert link is not None
    return server, link[0], time.perf_counter() - begin


def resident(pid: int) -> float:
    """Megabytes."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def ready(page: Page) -> None:
    page.wait_for_selector("html[data-kind=exact]", timeout=120_000)
    page.wait_for_selector("html[data-prepared='33']", timeout=300_000)


def moved(page: Page, steps: int, pause: float = 0.18) -> None:
    """The slider, key by key; every tenth time the reader waits for the exact picture."""
    page.focus("#epsilon")
    for k in range(steps):
        page.keyboard.press("ArrowLeft" if (k // 40) % 2 == 0 else "ArrowRight")
        page.wait_for_timeout(1000 * pause)
        if k % 10 == 9:
            page.wait_for_selector("html[data-kind=exact]", timeout=60_000)


def measured(page: Page, name: str) -> np.ndarray:
    return np.array(page.evaluate(f"performance.getEntriesByName('{name}').map((m) => m.duration)"))


def line(what: str, value: str, bar: str, passed: bool | None) -> None:
    print(f"{what:<58}{value:>22}   {bar:<14}{'' if passed is None else 'pass' if passed else 'FAIL'}", flush=True)


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--interactions", type=int, default=500)
    steps = given.parse_args().interactions
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before the start{' (others use this machine)' if load > 1 else ''}")
    more = data()
    first, _, _ = started(more)  # whatever is cold is warm now
    first.terminate()
    first.wait(20)
    server, link, begun = started(more)
    line("start, warm: command to link", f"{begun:.2f} s", f"<= {BARS['start']:g} s", begun <= BARS["start"])
    try:
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.goto(link)
            at = time.perf_counter()
            ready(page)
            line("slider prepared (33 levels, 3 rules)", f"{time.perf_counter() - at:.1f} s", "", None)
            page.evaluate("performance.clearMeasures()")
            moved(page, steps)
            quick, exact = measured(page, "fairpost-interpolated") / 1e3, measured(page, "fairpost-exact") / 1e3
            for name, some, bar in (
                ("epsilon to new picture", quick, BARS["picture"]),
                ("epsilon to exact picture", exact, None),
            ):
                if some.size:
                    high = float(np.percentile(some, 95))
                    text = f"{np.median(some):.3f} / {high:.3f} s"
                    line(
                        f"{name}, median / 95th percentile of {some.size}",
                        text,
                        "" if bar is None else f"<= {bar:g} s",
                        None if bar is None else high <= bar,
                    )
            used = resident(server.pid)
            line(
                f"memory of the server after {steps} interactions",
                f"{used:.0f} MB",
                f"< {BARS['memory']:g} MB",
                used < BARS["memory"],
            )
            tabs = [page, *(context.new_page() for _ in range(3))]
            for tab in tabs[1:]:
                tab.goto(link.split("/start")[0])
                ready(tab)
            for tab in tabs:
                tab.evaluate("performance.clearMeasures()")
            for k in range(20):
                for tab in tabs:
                    tab.focus("#epsilon")
                    tab.keyboard.press("ArrowRight" if k < 10 else "ArrowLeft")
                tabs[0].wait_for_timeout(600)
            for tab in tabs:
                tab.wait_for_selector("html[data-kind=exact]", timeout=120_000)
            all_tabs = np.concatenate([measured(tab, "fairpost-interpolated") for tab in tabs]) / 1e3
            high = float(np.percentile(all_tabs, 95))
            line(
                f"four tabs, each moved every 0.6 s, 95th percentile of {all_tabs.size}",
                f"{high:.3f} s",
                f"<= {BARS['picture']:g} s",
                high <= BARS["picture"],
            )
            line(
                "memory of the server with four tabs",
                f"{resident(server.pid):.0f} MB",
                f"< {BARS['memory']:g} MB",
                resident(server.pid) < BARS["memory"],
            )
            browser.close()
    finally:
        server.terminate()
        server.wait(20)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
