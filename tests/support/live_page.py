"""The live page called in this process, as a browser calls it; served on a socket; and the command, up to where it would serve."""

import json
import socket
import threading
import time
from unittest.mock import patch

from starlette.testclient import TestClient

from fairpost import datasets
from fairpost.explore import Session, create, serving
from fairpost.explore.app import ROUTES
from fairpost.explore.safety import Keys
from support.commands import call

PORT = 8123
HOME = f"http://127.0.0.1:{PORT}"
RULES = ["baseline", "pos", "pos-threshold"]


def table(n=60, header="id,count,group,name"):
    x = datasets.synthetic_districts(n).values
    rows = [f"{i:03d},{int(v)},g{i % 4},Place {i:03d}" for i, v in enumerate(x)]
    return ("\n".join([header, *rows]) + "\n").encode()


class Live:
    """A server with its session, and a client that has entered."""

    def __init__(self, mode="officer", data=None, session=None):
        self.session, self.keys = session or Session(), Keys()
        self.app = create(self.session, self.keys, PORT)
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


class Server:
    """A real server in a thread, and its links."""

    opened = None

    def __init__(self):
        self.session, self.keys = Session(), Keys()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.home = f"http://127.0.0.1:{self.port}/"
        self.server = serving.server(create(self.session, self.keys, self.port), log_level="error")
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        wait(lambda: self.server.started)

    @property
    def link(self):
        return f"{self.home}start?token={self.keys.token}"

    def close(self):
        self.server.should_exit = True
        self.thread.join(20)
        self.socket.close()


def wait(condition, seconds=30, told=str):
    """Until it is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, told()
        time.sleep(0.02)


def session_of(*words):
    """What `fairpost explore` would serve, and what it says."""
    held = []
    with patch("fairpost.cli.exploring._serve", lambda session, *_: held.append(session)):
        done = call("explore", *words, "--no-open")
    return (held or [None])[0], done


def routes(kind="csv"):
    for route in ROUTES:
        for method in sorted(route.methods - {"HEAD"}):
            yield method, route.path.replace("{kind}", kind)
