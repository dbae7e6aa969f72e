"""Random requests to every route of the live page."""

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the extra `explore` is not installed")
pytest.importorskip("httpx2", reason="httpx2 is not installed")
from support.live_page import RULES, Live, routes

MANY = int(os.environ.get("FAIRPOST_FUZZ", "12"))
"""Random requests to every route; 1,000 in `make attack-explore`."""


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
SENSIBLE = {
    "epsilon": st.sampled_from([0.1, 1, 1e-300, 1e300, 0, -1]),
    "mechanism": st.sampled_from(["laplace", "gaussian", "discrete-laplace", "x"]),
    "postprocess": st.lists(st.sampled_from([*RULES, "simplex", "sum", "as-written", "x"]), max_size=3),
    "budget": st.sampled_from([1e6, 0, -1, 1e308]),
    "delta": st.sampled_from([1e-6, 2]),
    "by_group": st.booleans(),
    "method": st.sampled_from(["auto", "exact", "monte-carlo", "x"]),
    "targets": st.dictionaries(
        st.sampled_from(["max_loss", "max_relative_loss", "x"]), st.sampled_from([1.0, -1, 1e300]), max_size=2
    ),
    "total": st.sampled_from([0, 10.5, -3, 1e18]),
    "sensitivity": st.sampled_from([1, 0, 1e-12]),
    "programme": st.sampled_from(["title1-basic", "house-seats", "x"]),
    "quick": st.booleans(),
    "entities": st.booleans(),
    "lane": st.text(max_size=5),
    "id": st.sampled_from(["id", "count", "x"]),
    "count": st.sampled_from(["count", "name"]),
    "levels": st.sampled_from(["a:2", "a:1,b:3", ""]),
    "rho": st.sampled_from([1, 0, 1e-9]),
    "split": st.lists(st.floats(0, 1), max_size=3),
    "seed": st.integers(0, 5),
    "confidence": st.sampled_from([0.5, 0, 1]),
    "most": st.integers(0, 3),
}
STRANGE = st.dictionaries(st.sampled_from(sorted(SENSIBLE)) | st.text(max_size=5), ANY, max_size=4)
CALM = st.fixed_dictionaries({"runs": st.integers(0, 60)}, optional=SENSIBLE).map(lambda d: json.dumps(d).encode())
FEW = {"runs": st.integers(0, 20), "method": st.just("monte-carlo")}
BRIEF = st.fixed_dictionaries(FEW, optional={k: v for k, v in SENSIBLE.items() if k not in FEW}).map(
    lambda d: json.dumps(d).encode()
)
LONG = ("/api/sweep", "/api/plan", "/api/frontier")
"""Routes where a sensible request makes many audits: few runs each."""


def bodies(path):
    brief = {"runs": 2, "method": "monte-carlo"} if path in LONG else {}
    strange = STRANGE.map(lambda d: json.dumps(brief | d).encode())
    return st.one_of(BRIEF if path in LONG else CALM, strange, st.binary(max_size=60))


KINDS = st.sampled_from(
    [
        "application/json",
        "text/plain",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
        "",
    ]
)
HEADS = st.dictionaries(
    st.sampled_from(["accept", "x-fairpost-tab", "x-forwarded-host", "range", "if-none-match"]),
    st.text("abcxyz/,*;=0-9-", max_size=20),
    max_size=2,
)


@pytest.fixture(scope="module")
def small():
    made = Live(data=b"id,count,group,name\n001,5,a,x\n002,17,a,y\n003,90,b,z\n004,0,b,w\n")
    yield made
    made.close()


@pytest.mark.parametrize(("method", "path"), list(routes()))
def test_random_requests_never_break_it(small, method, path):
    """No 500 (the client raises whatever the server does), one line of error, and nothing without the cookie."""
    held = b"id,count,group,name\n001,5,a,x\n002,17,a,y\n003,90,b,z\n004,0,b,w\n"

    @settings(
        max_examples=MANY, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(
        body=bodies(path),
        kind=KINDS,
        heads=HEADS,
        query=st.text(max_size=6),
        verb=st.sampled_from([method, method, method, "PUT", "HEAD", "DELETE", "OPTIONS"]),
    )
    def one(body, kind, heads, query, verb):
        if small.session.data is None:  # a request has made it forget
            small.upload("table.csv", held)
            small.post("columns", {"id": "id", "count": "count", "group": "group", "label": "name"})
        asked = {
            "content": body if verb in ("POST", "PUT") else None,
            "headers": heads | {"content-type": kind},
            "params": {"q": query},
        }
        answer = small.client.request(verb, path, follow_redirects=False, **asked)
        assert answer.status_code < 500, (answer.status_code, answer.text[:300])
        if answer.status_code >= 400 and verb != "HEAD":
            assert answer.text.strip().count("\n") <= 60
        none = small.bare().request(verb, path, follow_redirects=False, **asked)
        assert none.status_code in (401, 413), none.status_code
        assert "table.csv" not in none.text

    one()
