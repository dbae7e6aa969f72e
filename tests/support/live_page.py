"""The live page called in this process, as a browser calls it."""

import json

from starlette.testclient import TestClient

from fairpost import datasets
from fairpost.explore import app as application
from fairpost.explore.safety import Keys
from fairpost.explore.session import Session

PORT = 8123
HOME = f"http://127.0.0.1:{PORT}"
RULES = ["baseline", "pos", "pos-threshold"]


def table(n=60, header="id,count,group,name"):
    x = datasets.synthetic_districts(n).values
    rows = [f"{i:03d},{int(v)},g{i % 4},Place {i:03d}" for i, v in enumerate(x)]
    return ("\n".join([header, *rows]) + "\n").encode()


class Live:
    """A server with its session, and a client that has entered."""

    def __init__(self, mode="officer", data=None, **more):
        self.session, self.keys = Session(**more), Keys()
        self.app = application.create(self.session, self.keys, PORT)
        self.client = TestClient(self.app, base_url=HOME, headers={"host": f"127.0.0.1:{PORT}"})
        self.client.__enter__()
        assert self.client.get(f"/start?token={self.keys.token}").status_code == 200
        if data is not None:
            sent = self.upload("table.csv", data, mode)
            assert sent.status_code == 303, sent.text
            mapped = self.post("columns", {"id": "id", "count": "count", "group": "group", "label": "name"})
            assert mapped.status_code == 200, mapped.text

    def upload(self, name, data, mode="officer", **more):
        form = {"mode": mode} | more
        return self.client.post("/api/upload", data=form, files={"file": (name, data)}, follow_redirects=False)

    def post(self, route, body, **headers):
        return self.client.post(f"/api/{route}", json=body, headers=headers)

    def lines(self, route, body, tab="t"):
        found = self.post(route, body, accept="application/x-ndjson", **{"x-fairpost-tab": tab})
        return [json.loads(line) for line in found.text.splitlines()]

    def bare(self, **headers):
        """A client that has not entered."""
        return TestClient(self.app, base_url=HOME, headers={"host": f"127.0.0.1:{PORT}"} | headers)

    def close(self):
        self.client.__exit__(None, None, None)


def routes():
    for route in application.ROUTES:
        for method in sorted(route.methods - {"HEAD"}):
            yield method, route.path.replace("{kind}", "csv")
