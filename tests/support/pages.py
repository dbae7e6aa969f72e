"""Pages without a browser: their words, their data, and points and plans to make pages of."""

import html
import json
import re
from html.parser import HTMLParser

import fairpost as fp
from fairpost.accuracy import Estimate
from fairpost.report.shapes import Shapes
from fairpost.results import Basis, Extreme, Plan, Plans, Point


class Outside(HTMLParser):
    """Everything a page could fetch, and what it runs; the text that a reader sees."""

    def __init__(self, page):
        super().__init__()
        self.fetched, self.scripts, self.text, self.inside = [], 0, [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.inside.append(tag)
        if tag == "script" and named.get("type") != "application/json":
            self.scripts += 1
        if tag in ("link", "iframe", "object", "embed", "img", "base", "form") and tag != "form":
            self.fetched.append((tag, named))
        for key, value in attrs:
            assert not key.startswith("on"), f"an event handler in <{tag}>"
            if key in ("src", "href", "action") and not (value or "").startswith("#"):
                self.fetched.append((tag, value))

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.inside):
            self.text.append(data)


def words(page):
    return re.sub(r"\s+", " ", "".join(Outside(page).text).replace("\u00a0", " "))


def payload(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(found[1])


def attained(est, factor):
    """What the entity b attains."""
    scaled = est.scaled(factor)
    return Extreme(scaled.value, scaled.low, scaled.high, scaled.kind, id="b")


def points(names=("baseline", "pos"), method="exact"):
    out = []
    for name in names:
        for epsilon in (0.01, 0.1, 1.0):
            value = 10 / epsilon * (1 + (name == "baseline"))
            ends = (value, value * 0.9, value * 1.1) if method != "exact" else (value, value, value)
            est = Estimate(*ends, "bound" if method == "exact" else "interval")
            cost = fp.audit(fp.Counts([1, 9]), fp.Laplace(1 / epsilon), "baseline", budget=1e6).cost_of_privacy
            out.append(
                Point(
                    mechanism=fp.Laplace(1 / epsilon), epsilon=epsilon, postprocess=name, task="allocation", method=method,
                    accuracy=est.kind, unit="money", alpha=est, alpha_pair=("a", "b"), cost=cost, loss=attained(est, 2.0),
                    relative_loss=attained(est, 1e-5), rmse=est.scaled(3.0), zero=Estimate(0.2, 0.2, 0.2), note=None,
                    names={"b": "<b>Bee</b>"},
                )
            )  # fmt: skip
    return out


def plans(found, limit=500.0):
    """Of two rules one meets the target at 0.1, the other nowhere."""
    targets = fp.Targets(max_loss=limit)
    basis = Basis(2, 10.0, 1e6, None, "$", ("row 7 is the sum of the others",))
    return Plans(
        (
            Plan(targets, None, None, tuple(found[:3]), (), "none", basis=basis),
            Plan(targets, found[4], found[4], tuple(found[3:]), (), "found", basis=basis),
        )
    )


def text(made):
    """What a reader sees of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", str(made))).replace("\u00a0", " ")


def collection(labels, key="GEOID", side=0.5):
    """A square of a degree for each label, in rows of ten; neighbours share their borders."""
    features = []
    for k, label in enumerate(labels):
        x, y = -100 + (k % 10) * side, 30 + (k // 10) * side
        ring = [[x, y], [x + side / 2, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]
        shape = {"type": "Polygon", "coordinates": [ring]}
        features.append({"type": "Feature", "properties": {key: label}, "geometry": shape})
    return {"type": "FeatureCollection", "features": features}


def squares(counts):
    """A map of all of them."""
    return Shapes.of_data(collection(counts.ids)).of(counts)
