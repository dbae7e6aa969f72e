"""The live page without a browser: who may talk to it, what it computes, that the latest request wins."""

import base64
import gzip
import io
import itertools
import json
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

import jsonschema
import numpy as np
import polars as pl
import pytest

import fairpost as fp
from fairpost import datasets
from fairpost.results import schema
from support.commands import call

pytest.importorskip("starlette", reason="the extra `explore` is not installed")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

from fairpost.explore import Session
from fairpost.explore.choices import Choices
from support.live_page import HOME, PORT, RULES, Live, routes, session_of, table, wait

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
IDLE = 30 * 60.0


@pytest.fixture(scope="module")
def live():
    made = Live(data=table())
    yield made
    made.close()


@pytest.fixture(scope="module")
def analyst():
    rng = np.random.default_rng(3)
    noisy = datasets.synthetic_districts(40).values + np.round(rng.laplace(0, 10, 40))
    rows = "\n".join(f"{i:03d},{int(v)},g{i % 2},Place {i:03d}" for i, v in enumerate(noisy))
    made = Live("analyst", f"id,count,group,name\n{rows}\n".encode())
    yield made
    made.close()


def counts_of(live):
    return live.session.mapped.x


@pytest.mark.parametrize(("method", "path"), list(routes()))
def test_without_a_token_there_is_nothing(live, method, path):
    for client in (live.bare(), live.bare(cookie=f"fairpost-{PORT}=wrong"), live.bare(cookie="fairpost-1=x; other=y")):
        answer = client.request(method, path, json={"epsilon": 0.1} if method == "POST" else None)
        assert answer.status_code == 401, (path, answer.text)
        assert "Place" not in answer.text
        assert answer.headers["content-security-policy"] == POLICY or path == "/start"


def test_a_token_works_once_and_only_itself(live):
    old = live.keys.token
    fresh = live.bare()
    assert fresh.get("/start?token=wrong").status_code == 401
    assert fresh.get("/start").status_code == 401
    entered = fresh.get(f"/start?token={old}")
    assert entered.status_code == 200
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert live.bare().get(f"/start?token={old}").status_code == 401
    assert live.keys.token != old
    assert fresh.get("/api/state").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1:{PORT}.evil.example", "", "[::1]:1"]
)  # fmt: skip
def test_a_foreign_host_is_refused(live, host):
    answer = live.client.get("/api/state", headers={"host": host})
    assert answer.status_code == 421
    assert "table.csv" not in answer.text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8123", f"http://127.0.0.1:{PORT + 1}"]
)
def test_a_foreign_origin_is_refused(live, origin):
    for send in (live.client.get("/api/state", headers={"origin": origin}), live.post("audit", {}, origin=origin)):
        assert send.status_code == 403


def test_the_pages_own_origin_and_name_are_welcome(live):
    assert live.client.get("/api/state", headers={"origin": HOME}).status_code == 200
    known = {"host": f"localhost:{PORT}", "origin": f"http://localhost:{PORT}", "sec-fetch-site": "same-origin"}
    assert live.client.get("/api/state", headers=known).status_code == 200


def test_a_form_of_another_site_is_refused(live):
    """A cross-site form carries a foreign Origin and Sec-Fetch-Site; a strict cookie would not even come along."""
    foreign = ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"})
    for headers in foreign:
        answer = live.client.post("/api/forget", data={}, headers=headers)
        assert answer.status_code == 403
    assert live.session.data is not None


def test_every_answer_has_the_headers(live):
    for path in ("/", "/page.js", "/page.css", "/api/state", "/nothing", "/api/export/csv"):
        head = live.client.get(path).headers
        assert head["cache-control"] == "no-store"
        assert head["content-security-policy"] == POLICY
        assert head["x-content-type-options"] == "nosniff"
        assert head["referrer-policy"] == "same-origin"
        assert "server" not in head
        assert "access-control-allow-origin" not in head


@pytest.mark.parametrize(
    "path",
    ["/../etc/passwd", "/page.js/../../x", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/static/../../x", "/files/live.html",
     "/api/export/..%2f..%2fetc%2fpasswd", "/api/export/%00", "/%7f"],
)  # fmt: skip
def test_paths_lead_nowhere(live, path):
    for method in ("GET", "POST"):
        answer = live.client.request(method, path, json={} if method == "POST" else None)
        assert answer.status_code in (400, 404, 405), (path, answer.status_code)
        assert "root:" not in answer.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "127.0.0.1.evil.example", ""])
def test_another_address_is_refused_with_the_reason(host):
    held, done = session_of("--host", host)
    assert (held, done.returncode, done.stderr.count("\n")) == (None, 2, 1)
    assert "no other machine may reach it" in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.5.5.5"])
def test_loopback_addresses_are_taken(host):
    held, done = session_of("--host", host)
    assert done.returncode == 0, done.stderr
    assert held is not None


# ---- uploads ---------------------------------------------------------------------------------------------------------------


def test_an_upload_that_is_too_long_is_refused(live, monkeypatch):
    before = live.session.data
    monkeypatch.setattr(live.app, "upload", 1000)
    assert live.upload("a.csv", b"x" * 5000).status_code == 413
    assert live.client.post("/api/audit", content=b"[" * ((256 << 10) + 1)).status_code == 413

    def chunks():  # no length is said
        for _ in range(40):
            yield b"y" * 100

    answer = live.client.post(
        "/api/upload", content=chunks(), headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert answer.status_code == 413
    assert live.session.data is before


def test_an_upload_stays_in_memory(monkeypatch):
    """Starlette would put a form of more than a megabyte into a temporary file."""

    def no(*_, **__):
        raise AssertionError("an upload went to disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", no)
    made = Live()
    rows = b"".join(b"%06d,%d\n" % (i, i % 500) for i in range(200_000))
    assert made.upload("big.csv", b"id,count\n" + rows).status_code == 303
    assert made.client.get("/api/preview").json()["height"] == 200_000
    made.close()


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", b"", "empty"), ("a.csv", b"id,count\n", "at least one row"), ("a.csv", b"\x00\xff\xfe" * 50, ""),
        ("a.csv", b"PK\x03\x04rest", "zip archive"), ("a.exe", b"id,count\n1,2\n", "must end in"), ("a.csv.gz", b"not gzip", "gzip"),
        ("a.csv.gz", gzip.compress(b"0" * 10_000_000, 9), "could not be read"),
        ("a.parquet", b"PAR1" + b"\x00" * 40 + b"PAR1", "Parquet"), ("../../a.csv", b"id,id\n1,2\n", "unique"),
    ],
)  # fmt: skip
def test_a_bad_table_is_one_line_and_nothing_is_held(name, data, said):
    made = Live()
    answer = made.upload(name, data)
    error = answer.json()["error"]
    assert (answer.status_code, "\n" in error, ".." in error, made.session.source) == (400, False, False, None)
    assert said in error
    made.close()


def test_a_file_that_kills_its_decoder_leaves_the_server_alive(live, tmp_path, monkeypatch):
    out = io.BytesIO()
    pl.DataFrame({"id": ["1", "2"], "count": [1, 2]}).write_parquet(out)
    (tmp_path / "decode.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr("fairpost.io.source.__file__", str(tmp_path / "guarded.py"))
    before = live.session.data
    answer = live.upload("deadly.parquet", out.getvalue())
    assert answer.status_code == 400
    assert "must be" in answer.json()["error"]
    assert live.session.data is before
    assert live.client.get("/api/state").status_code == 200


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("id", "id geoid leaid code fips geoid20 key"), ("label", "name label district place"), ("base", "base pop_5_17 children"),
        ("count", "count counts poor_5_17 noisy_count value pop population n total"), ("weight", "weight weights exp_pp"),
        ("group", "group state region county"),
    ],
)  # fmt: skip
def test_of_several_usual_names_the_most_usual_is_guessed(role, names):
    made = Live()
    for first, second in itertools.pairwise(names.split()):
        assert made.upload("t.csv", f"{second},else, {first.upper()}\n1,2,3\n".encode()).status_code == 303
        assert made.client.get("/api/preview").json()["guess"][role].strip() == first.upper()
    made.close()


def test_parquet_and_tabs_are_read_and_columns_guessed():
    made, out = Live(), io.BytesIO()
    pl.DataFrame({"leaid": ["01", "02"], "poor_5_17": [5, 7], "state": ["AL", "AK"], "name": ["a", "b"]}).write_parquet(
        out
    )
    assert made.upload("d.parquet", out.getvalue()).status_code == 303
    seen = made.client.get("/api/preview").json()
    assert seen["guess"] == {"id": "leaid", "count": "poor_5_17", "group": "state", "label": "name"}
    assert seen["rows"] == [["01", "5", "AL", "a"], ["02", "7", "AK", "b"]]
    page = made.client.get("/", headers={"accept": "text/html"}).text
    assert '<option value="poor_5_17" selected>' in page
    wrong = made.post("columns", {"id": "leaid", "count": "nothing"})
    assert wrong.status_code == 400
    assert "must be one of" in wrong.json()["error"]
    form = {"id": "leaid", "count": "poor_5_17", "unit": "children"}
    assert made.client.post("/api/columns", data=form, follow_redirects=False).status_code == 303
    assert made.session.mapped.x.ids == ("01", "02")
    assert made.session.defaults["unit"] == "children"
    made.close()


# ---- forgetting ------------------------------------------------------------------------------------------------------------


def test_forget_now_drops_everything():
    made = Live(data=table())
    made.post("picture", {"epsilon": 0.1})
    assert made.session.memory.size > 0
    assert made.post("forget", {}, accept="application/json").json() == {"forgotten": True}
    s = made.session
    assert (s.source, s.data, s.defaults, s.memory.size, s._sweeps) == (None, None, {}, 0, {})
    assert made.post("audit", {"epsilon": 0.1}).status_code == 400
    assert "Place" not in made.client.get("/").text
    made.close()


def test_idle_data_are_dropped_and_used_ones_stay():
    now = [0.0]
    session = Session(clock=lambda: now[0])
    session.hold("x.csv", "officer")
    now[0] = IDLE - 1
    assert not session.expire()
    session.touch()
    now[0] = 2 * IDLE - 2
    assert not session.expire()
    now[0] = 2 * IDLE
    assert session.expire()
    assert session.source is None
    assert not session.expire()


# ---- what it computes ------------------------------------------------------------------------------------------------------


def test_the_audit_is_that_of_the_command(live, tmp_path):
    body = {"epsilon": 0.05, "budget": 1e6, "postprocess": RULES, "targets": {"max_loss": 10.0, "max_relative_loss": 3}}
    found = live.post("audit", body | {"entities": True}).json()
    jsonschema.validate(found, schema("audit"))
    plain = fp.compare(counts_of(live), fp.Laplace.from_epsilon(0.05), RULES, budget=1e6, targets=body["targets"])
    assert found["results"] == json.loads(json.dumps(plain.to_dict(entities=True)["results"]))
    assert live.post("audit", body | {"entities": True}).json()["results"] == found["results"]  # kept, to the last bit


def test_the_picture_has_the_same_numbers(live):
    body = {"epsilon": 0.05, "budget": 1e6, "postprocess": RULES}
    found = live.post("picture", body).json()
    plain = fp.compare(counts_of(live), fp.Laplace.from_epsilon(0.05), RULES, budget=1e6)
    of = unpack(found["base"]["of"], "<i4")
    for r, result in zip(plain, found["results"], strict=True):
        assert np.array_equal(unpack(result["bias"], "<f8")[of], r.bias)
        assert np.array_equal(unpack(result["truth"], "<f8")[of], r.truth)
    worst = int(np.argmin(plain[0].bias))
    assert found["figures"][0]["loss"]["id"] == plain[0].counts.ids[worst]
    assert found["figures"][0]["loss"]["value"] == pytest.approx(-plain[0].bias[worst] * 1e6)
    assert found["figures"][1]["rmse"]["value"] == pytest.approx(plain[1].moments.rmse.value * 1e6, rel=1e-12)
    again = live.post("picture", body | {"have": found["key"]}).json()
    assert again["base"] is None
    assert again["results"] == found["results"]
    assert "a typical count moves by 28 people" in found["sentence"]


def unpack(text, kind):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def test_the_page_says_how_far_results_and_totals_are_off(live):
    """The plan has a usual limit on the error, which it names; clipping adds (b / 2) e^{-x / b} to each count."""
    body = {"postprocess": ["nonnegative", "simplex"], "targets": {"max_relative_loss": 50.0}}
    found = live.post("plan", body).json()
    assert (found["targets"]["max_relative_rmse"], found["assumed"]) == (30.0, ["max_relative_rmse"])
    assert "% of the mean of what is due (at most 30 % by default)" in found["verdict"]
    assert live.post("plan", body | {"any_error": True}).json()["assumed"] == []
    shown = live.post("picture", {"epsilon": 0.05, "postprocess": ["nonnegative", "simplex"]}).json()["figures"]
    off = {f["rule"]: f["total"]["value"] for f in shown}
    added = float(np.sum(10 * np.exp(-counts_of(live).values / 20)))
    assert off == {"nonnegative": pytest.approx(added, rel=1e-9), "simplex": 0.0}


@pytest.mark.parametrize("route", ["picture", "plan", "audit"])
def test_one_limit_for_dollars_and_people_is_refused(live, route):
    """In pictures between two levels too, which no engine judges."""
    body = {"epsilon": 0.05, "budget": 1e6, "postprocess": ["pos", "simplex"]}
    assert live.post("picture", body).status_code == 200
    answer = live.post(route, body | {"targets": {"max_loss": 10.0}})
    assert answer.status_code == 400
    said = "must be in one unit, got pos in money and simplex in people: ask for them apart"
    assert answer.json()["error"].endswith(said)


def test_the_sentence_repeats_every_choice(live):
    body = {
        "epsilon": 0.5, "delta": 1e-6, "mechanism": "gaussian", "budget": 2e6, "postprocess": ["pos"], "by_group": True,
        "unit": "children", "noun": "districts", "currency": "€", "targets": {"max_loss": 50.0, "max_relative_loss": 2.5},
    }  # fmt: skip
    parts = (
        "60 districts", "children", "gaussian", "epsilon 0.5", "delta 1e-06", "pos", "€2.00 million", "each group by itself",
        "€50", "relative to what is due at most 2.5 %", "table.csv",
    )  # fmt: skip
    said = live.post("picture", body).json()["sentence"]
    assert [part for part in parts if part not in said] == []


def test_limits_are_judged_and_drawn(live):
    body = {"epsilon": 0.05, "budget": 1e6, "postprocess": ["baseline"]}
    loss = live.post("picture", body).json()["figures"][0]["loss"]["value"]
    for limit, verdict in ((loss * 1.01, "passes"), (loss * 0.99, "fails")):
        found = live.post("picture", body | {"targets": {"max_loss": limit}}).json()
        assert found["figures"][0]["verdict"] == verdict
        assert found["limits"] == [{"key": "money", "value": limit, "text": found["limits"][0]["text"]}]


def test_the_plan_is_the_librarys(live):
    body = {"budget": 1e6, "postprocess": ["pos", "baseline"], "targets": {"max_relative_loss": 5.0}, "any_error": True}
    found = live.post("plan", body).json()
    jsonschema.validate(found, schema("plan"))
    for p in found["plans"]:
        for epsilon, outcome in ((p["stated"]["epsilon"], "passes"), (p["found"]["epsilon"] * 0.999, "fails")):
            noise = fp.Laplace.from_epsilon(epsilon)
            r = fp.audit(counts_of(live), noise, p["postprocess"], budget=1e6, targets=body["targets"])
            assert [v.outcome for v in r.overall.verdicts] == [outcome]
    jsonschema.validate(live.post("sweep", body | {"targets": {}}).json(), schema("sweep"))
    assert live.post("plan", {"budget": 1e6}).status_code == 400


def test_fairness_against_accuracy(live):
    found = live.post("frontier", {"epsilon": 0.05, "budget": 1e6}).json()
    alphas = [t["point"]["alpha"]["value"] for t in found["path"]]
    assert found["rule"] == "pos-threshold"
    assert alphas[-1] < alphas[0]
    assert {p["postprocess"] for p in found["named"]} == set(RULES)
    law = {"epsilon": 0.05, "programme": "title1-basic", "postprocess": ["as-written"]}
    assert live.post("frontier", law).status_code == 400


def test_streams_tell_progress_and_end_with_the_result(live):
    body = {"epsilon": 0.2, "postprocess": ["simplex"], "method": "monte-carlo", "runs": 40_000, "seed": 5}
    events = live.lines("audit", body)
    assert [e["event"] for e in events][-1] == "done"
    steps = [e for e in events if e["event"] == "progress"]
    assert steps
    assert steps[-1]["done"] == steps[-1]["of"] == 40_000
    assert events[-1]["result"]["results"] == live.post("audit", body).json()["results"]
    failed = live.lines("picture", {"epsilon": 0.2, "postprocess": ["pos"], "total": 3.0, "method": "expansion"})
    assert [e["event"] for e in failed] == ["error"]
    assert "expansion" in failed[0]["error"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"epsilon": -1}, "epsilon"), ({"epsilon": "1"}, "`epsilon` must be a number"), ({"epsilon": 1, "scale": 2}, "exactly one"),
        ({"epsilon": 1, "nothing": 2}, "a key must be one of"), ({"epsilon": 1, "postprocess": ["magic"]}, "must be one of"),
        ({"epsilon": 1, "targets": {"max_luck": 3}}, "a target must be"), ([1], "JSON object"), ({"epsilon": True}, "number"),
        ({"epsilon": 1, "runs": 10**9, "method": "monte-carlo"}, "at most"), ({"epsilon": 1, "mechanism": "gaussian"}, "delta"),
        ({"epsilon": 1, "programme": "../x"}, "`programme` must be one of"),
    ],
)  # fmt: skip
def test_a_wrong_choice_is_one_line(live, body, said):
    answer = live.post("audit", body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    "text",
    ["{", "NaN", '{"epsilon":NaN}', '{"epsilon":1e999}', "[" * 100_000, '{"epsilon":' + "9" * 400 + "}",
     "\ud800".encode("utf-8", "surrogatepass"), b"\xff\xfe"],
)  # fmt: skip
def test_what_is_no_json_is_refused(live, text):
    assert live.client.post("/api/audit", content=text).status_code == 400


# ---- between two levels -----------------------------------------------------------------------------------------------------


def test_an_interpolated_picture_is_marked_near_and_replaced(live):
    body = {"epsilon": 0.0371, "budget": 1e6, "postprocess": RULES}
    live.session.swept(Choices.of(body), lambda done, of: None)  # as the page has it prepared in the background
    events = live.lines("picture", body)
    assert [e["event"] for e in events] == ["interpolated", "done"]
    guess, exact = events[0]["result"], events[1]["result"]
    assert guess["interpolated"]
    assert not exact["interpolated"]
    assert {f["method"] for f in guess["figures"]} == {"interpolated"}
    assert {f["method"] for f in exact["figures"]} <= {"exact", "expansion", "conditional"}
    assert guess["findings"] is None
    for a, b in zip(guess["results"], exact["results"], strict=True):
        for name, kind in (("bias", "<f8"), ("deviation", "<f4"), ("zero", "<f4")):
            near, true = unpack(a[name], kind), unpack(b[name], kind)
            # eight levels per decade: they follow powers of the noise, and a monotone cubic is within a few percent of these
            assert np.max(np.abs(near - true)) <= 0.05 * np.max(np.abs(true)), name
    quick = live.post("picture", body | {"quick": True, "epsilon": 0.0372}).json()
    assert quick["interpolated"]


def test_what_is_interpolated_overshoots_nothing_and_is_exact_at_the_levels():
    """By the function itself: no page could show all of it."""
    from fairpost.explore.between import _cubic

    y = list(np.random.default_rng(2).normal(size=(4, 500)))
    low, high = np.minimum(y[1], y[2]), np.maximum(y[1], y[2])
    for u in np.linspace(0, 1, 21):
        for near in (y, [None, *y[1:]], [*y[:3], None]):
            found = _cubic(near, u)
            assert ((low - 1e-12 <= found) & (found <= high + 1e-12)).all()
    for u, end in ((0.0, y[1]), (1.0, y[2])):
        assert _cubic(y, u) == pytest.approx(end, rel=0, abs=1e-15)


def test_the_memory_of_answers_has_an_end():
    made = Live(data=table(8))
    made.session.memory._most = 5000
    for k in range(1, 30):
        assert made.post("audit", {"epsilon": k / 10, "postprocess": ["simplex"]}).status_code == 200
    assert 0 < made.session.memory.size <= 5000
    made.close()


# ---- the latest wins --------------------------------------------------------------------------------------------------------

ENDLESS = {"epsilon": 0.2, "postprocess": ["simplex", "nonnegative"], "method": "monte-carlo", "runs": 8_000_000}


def asking(live, tab):
    """A long simulation under way for a tab, and where its answer will be."""
    found = []
    ask = lambda: found.append(live.post("audit", ENDLESS, **{"x-fairpost-tab": tab}))  # noqa: E731
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, found


def test_a_newer_request_of_a_tab_withdraws_the_older(live):
    """Not that of another tab, nor one of another kind."""
    thread, found = asking(live, "tab")
    small = {"epsilon": 0.2, "postprocess": ["simplex"]}
    time.sleep(0.5)
    assert live.post("audit", small, **{"x-fairpost-tab": "other"}).status_code == 200
    assert live.post("picture", small, **{"x-fairpost-tab": "tab"}).status_code == 200
    assert found == []
    assert live.post("audit", small, **{"x-fairpost-tab": "tab"}).status_code == 200
    thread.join(60)
    (answer,) = found
    if answer.status_code == 200:  # blocks were done: they are the answer
        assert all(r["interrupted"] for r in answer.json()["results"])
    else:
        assert answer.json()["error"] == "a newer request of this tab took its place"


def test_a_simulation_that_is_stopped_answers_with_what_it_has(live):
    thread, found = asking(live, "s")
    stop = lambda: live.client.post("/api/stop", json={"lane": "audit"}, headers={"x-fairpost-tab": "s"}).json()  # noqa: E731
    wait(lambda: stop()["stopped"] or time.sleep(0.3))
    thread.join(60)
    answer = found[0]
    if answer.status_code == 409:  # stopped before the first block was done
        assert "stopped" in answer.json()["error"]
        return
    assert answer.status_code == 200
    assert all(r["interrupted"] and 2 <= r["runs"] < 8_000_000 for r in answer.json()["results"])


# ---- files ------------------------------------------------------------------------------------------------------------------


BODY = {
    "epsilon": 0.07,
    "budget": 1e6,
    "postprocess": ["pos", "baseline"],
    "targets": {"max_loss": 40},
    "by_group": True,
}


def results_of(command, folder):
    """What the command of a page computes; its outputs replaced by one (the server's threads share this process's stdout)."""
    words = shlex.split(command)
    first = min(words.index(w) for w in ("--html", "--json", "--csv") if w in words)
    done = call(*words[1:first], "--json", "numbers.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "numbers.json").read_text())


def test_what_is_kept_has_the_same_numbers(live, tmp_path, monkeypatch):
    """The command, the Python lines, the table, the report, the JSON."""
    (tmp_path / "table.csv").write_bytes(table())
    monkeypatch.chdir(tmp_path)
    ours, space = live.post("audit", BODY | {"entities": True}).json(), {}
    first, plan = live.post("export/command", BODY).text.splitlines()
    assert plan.startswith("fairpost plan ")
    exec(live.post("export/python", BODY).text, space)
    for found in (results_of(first, tmp_path), json.loads(json.dumps(space["results"].to_dict()))):
        assert found["results"] == live.post("audit", BODY).json()["results"]
    answer = live.post("export/csv", BODY)
    assert answer.text == space["results"].to_csv()
    assert "attachment" in answer.headers["content-disposition"]
    page = live.post("export/report", BODY).text
    assert "confidential: computed from true counts" in page
    assert "fairpost audit table.csv" in page
    assert live.post("export/json", BODY).json() == ours
    assert live.post("export/passwords", BODY).status_code == 400


# ---- the analyst --------------------------------------------------------------------------------------------------------------


def test_an_analyst_sees_shares_and_no_banner(analyst):
    body = {"epsilon": 0.1, "budget": 1e6, "postprocess": ["pos", "baseline"], "estimate": False}
    found = analyst.post("allocate", body).json()
    jsonschema.validate(found, schema("allocate"))
    y = analyst.session.mapped.y
    plain = fp.allocate(y.values, y.weights, "pos", fp.Laplace(10.0))
    assert [e["pos_share"] for e in found["entities"]] == list(plain)
    assert found["entities"][3]["name"] == "Place 003"
    page = analyst.client.get("/", headers={"accept": "text/html"}).text
    assert "confidential: computed" not in page
    assert analyst.post("audit", {"epsilon": 0.1}).status_code == 400
    by_group = analyst.post("allocate", body | {"budget": None, "group_budget": {"g0": 1000.0, "g1": 500.0}}).json()
    money = sum(e["pos_money"] for e in by_group["entities"] if e["group"] == "g1")
    assert money == pytest.approx(500.0)
    assert analyst.post("allocate", body | {"budget": None, "group_budget": {"g0": 1.0}}).status_code == 400
    seeded = {"epsilon": 0.1, "postprocess": ["baseline"]}
    drawn = [analyst.post("allocate", seeded | {"seed": k}).json()["entities"] for k in (0, 1, 1)]
    assert drawn[0] != drawn[1] == drawn[2]
    for kind in ("report", "csv", "json", "command", "python"):
        assert analyst.post(f"export/{kind}", body).status_code == 200
    assert "confidential" not in analyst.post("export/csv", body).text


def test_an_analyst_shares_budgets_of_groups_under_a_law(tmp_path, monkeypatch, capsys):
    from fairpost.allocate import by_law

    rows = "\n".join(f"{i:03d},{5 + 3 * i},{40 + 9 * i},g{i % 2},P{i}" for i in range(30))
    table = f"id,count,base,group,name\n{rows}\n"
    made = Live("analyst", table.encode())
    try:
        made.post("columns", {"id": "id", "count": "count", "base": "base", "group": "group"})
        y, purse = made.session.mapped.y, {"g0": 1000.0, "g1": 500.0}
        body = {"scale": 2.0, "programme": "title1-targeted", "group_budget": purse}
        found = made.post("allocate", body).json()["entities"]
        law = fp.Programme.named("title1-targeted")
        known = by_law(y, law, "as-written", fp.Laplace(2.0), budget=purse, by_group=True)
        assert [e["as_written_money"] for e in found] == known.money.tolist()
        assert made.post("allocate", body | {"budget": 3.0}).json()["error"].endswith("got both")
        assert "fairpost allocate --programme FILE.toml" in made.client.get("/", headers={"accept": "text/html"}).text
        monkeypatch.chdir(tmp_path)
        lines = made.post("export/python", body).text
        (tmp_path / re.search(r"read_rows\('([^']+)'", lines)[1]).write_text(table)
        exec(lines, {})
        assert capsys.readouterr().out.startswith("Allocation by as-written: 30 entities, laplace noise, scale 2")
    finally:
        made.close()


def test_an_officers_data_are_no_analysts(live):
    assert live.post("allocate", {"epsilon": 0.1}).status_code == 400


# ---- levels --------------------------------------------------------------------------------------------------------------------


def test_levels_are_simulated_level_by_level():
    rows = "\n".join(f"{i // 8:02d}{i:03d},{(7 * i) % 31},x,y" for i in range(64))
    made = Live()
    made.upload("t.csv", f"id,count,group,name\n{rows}\n".encode())
    mapped = made.post("columns", {"id": "id", "count": "count", "levels": "county:2,tract:5"})
    assert mapped.json()["levels"] == ["county", "tract"]
    events = made.lines("levels", {"rho": 0.5, "postprocess": ["top-down"], "runs": 128, "most": 5})
    assert [e["event"] for e in events].count("progress") == 2
    result = events[-1]["result"]["results"][0]
    assert [level["name"] for level in result["levels"]] == ["county", "tract"]
    assert [level["n"] for level in result["levels"]] == [8, 64]
    assert len(result["levels"][1]["entities"]) == 5
    sizes = [abs(e["bias"]) for e in result["levels"][1]["entities"]]
    assert sizes == sorted(sizes, reverse=True)
    assert made.post("levels", {"split": [0.5, 0.7]}).status_code == 400
    seeds = [
        made.post("levels", {"postprocess": ["top-down"], "runs": 128, "seed": k}).json()["results"][0]
        for k in (0, 1, 1)
    ]
    assert [one["seed"] for one in seeds] == [0, 1, 1]
    assert seeds[0]["alpha"] != seeds[1]["alpha"] == seeds[2]["alpha"]
    assert made.post("columns", {"id": "id", "count": "count", "levels": "county"}).status_code == 400
    made.close()


# ---- the document, and random requests -------------------------------------------------------------------------------------------


def test_the_document_names_every_route_and_no_other(live):
    served = live.client.get("/api/openapi.json").json()
    ours = {(path, method.lower()) for method, path in routes("{kind}") if path.startswith("/api/")}
    assert {(path, method) for path, item in served["paths"].items() for method in item} == ours
    known, told = served["components"]["schemas"], r"a key must be one of (.*), got 'nothing'"
    for name, route, more in (
        ("Choices", "audit", set()), ("ShareChoices", "allocate", set()), ("LevelChoices", "levels", {"entities", "most"})
    ):  # fmt: skip
        takes = re.search(told, live.post(route, {"nothing": 1}).json()["error"])[1].split(", ")
        assert set(known[name]["properties"]) - {"entities"} == set(takes) | more - {"entities"}


def test_the_command_needs_the_extra():
    """In a process of its own: here the extra is loaded already."""
    hidden = (
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('starlette', 'uvicorn'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "sys.argv = ['fairpost', 'explore', '--no-open']\n"
        "from fairpost.__main__ import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3
    assert done.stderr == "fairpost: the live page needs starlette and uvicorn: install fairpost[explore]\n"


def test_how_a_file_is_read_is_kept_and_handed_out(tmp_path, monkeypatch):
    rows = ["id;count;kind"] + [f"{k};{k + 3},5;{'town' if k % 2 else 'farm'}" for k in range(20)] + ["x;;town"]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    where = ("--where", "kind = town", "--where", "id != 1", "--drop-missing")
    found, _ = session_of("t.csv", "--delimiter", "semicolon", "--decimal", ",", *where)
    values = [6.5, *(k + 3.5 for k in range(5, 20, 2))]
    made = Live(session=found)
    assert list(found.mapped.x.values) == values
    body = {"epsilon": 0.5, "postprocess": ["simplex"]}
    command = made.post("export/command", body).text.splitlines()[0]
    assert results_of(command, tmp_path)["counts"]["total"] == sum(values)
    space = {}
    exec(made.post("export/python", body).text, space)
    assert list(space["counts"].values) == values
    made.close()
    found.forget()
    assert found.reading == {}


def test_a_file_of_the_command_line_is_mapped_or_asked_about(tmp_path):
    (tmp_path / "t.csv").write_bytes(table())
    found, _ = session_of(tmp_path / "t.csv", "--label", "name", "--budget", 5, "--max-loss", 2)
    assert (found.mapped.x.n, found.mapped.x.name(3)) == (60, "Place 003")
    assert (found.defaults["budget"], found.defaults["max_loss"]) == (5.0, 2.0)
    (tmp_path / "u.csv").write_bytes(table(header="code,poor,group,name"))
    assert session_of(tmp_path / "u.csv")[0].data is None
    held, done = session_of(tmp_path / "u.csv", "--count", "nothing")
    assert (held, done.returncode, done.stderr.count("\n")) == (None, 2, 1)
