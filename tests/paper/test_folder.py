"""The numbers of the paper's reproduction, one by one: each recomputed here by other means, and each statement made to fail.

Rules, noise and the exact engine have tests of their own; here they are inputs. A demonstration that is handed a broken rule,
or a result made by hand, must say the numbers that follow from it, and that it does not hold.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import fairpost as fp
from fairpost.accuracy import Estimate
from fairpost.paper import folder, published, tables
from fairpost.paper.published import Comparison, Computed, Published

# -- Table 2 ------------------------------------------------------------------------------------------------------------


def share(bl, pos, **given):
    """Results for every budget: alpha and cost of BL and PoS as [low, value, high]."""
    made = {}
    for epsilon in (0.1, 0.01, 0.001):
        for which, (alpha, cost) in (("baseline", bl), ("pos", pos)):
            made[epsilon, which] = SimpleNamespace(
                alpha=Estimate(alpha[1], alpha[0], alpha[2]),
                cost_of_privacy=SimpleNamespace(share=Estimate(cost[1], cost[0], cost[2])),
                bias=np.array([0.5, -2e-6, -5e-6, 0.0]),
                half_width=np.array([1.0, 2e-8, 3e-8, 5e-8]),
                truth=np.array([0.1, 0.2, 0.4, 0.3]),
                counts=SimpleNamespace(n=16_001),
                **given,
            )
    return made


FAR = share(((20.0, 21.0, 22.0), (8.0, 8.5, 9.0)), ((1.0, 1.5, 2.0), (3.0, 4.0, 5.0)))


def test_districts_statements_of_the_text():
    found = tables._statements(FAR)
    assert {key: c for key, c in found.items() if isinstance(c.value, bool)} == {
        "table2.pos_fairer": Computed(True),
        "table2.pos_cheaper": Computed(True),
        "table2.order_of_magnitude": Computed(True),
        "text.districts": Computed(True),
        "text.largest_loses": Computed(True),
    }
    assert found["text.los_angeles"].value == pytest.approx(5e-6 * 6.5e9)
    assert found["text.los_angeles"].error == pytest.approx(3e-8 * 6.5e9)
    assert found["text.los_angeles_from_table2"].value == pytest.approx((1.70e-05 - 1.75e-06) * 6.5e9)
    assert found["text.los_angeles_from_table2"].error == 0.0


def changed(epsilon, which, **given):
    other = dict(FAR)
    other[epsilon, which] = SimpleNamespace(**{**vars(FAR[epsilon, which]), **given})
    return tables._statements(other)


def costs(low, high):
    return SimpleNamespace(share=Estimate(low, low, high))


@pytest.mark.parametrize("epsilon", tables.EPSILONS)
def test_districts_statements_can_fail_at_every_budget(epsilon):
    assert not changed(epsilon, "baseline", alpha=Estimate(9.0, 2.0, 9.0))["table2.pos_fairer"].value
    assert changed(epsilon, "baseline", alpha=Estimate(9.0, 2.01, 9.0))["table2.pos_fairer"].value
    assert not changed(epsilon, "pos", cost_of_privacy=costs(3.0, 8.0))["table2.pos_cheaper"].value
    assert changed(epsilon, "pos", cost_of_privacy=costs(3.0, 7.9))["table2.pos_cheaper"].value
    last = changed(epsilon, "baseline", bias=np.array([0.5, -2e-6, -1e-6, 0.0]))
    assert not last["text.largest_loses"].value
    # an order of magnitude at one budget is enough
    near_by = {key: SimpleNamespace(**{**vars(r), "alpha": Estimate(2.0, 2.0, 2.0)}) for key, r in FAR.items()}
    near_by[epsilon, "baseline"].alpha = Estimate(30.0, 20.0, 40.0)
    near_by[epsilon, "pos"].alpha = Estimate(1.0, 1.0, 2.0)
    assert tables._statements(near_by)["table2.order_of_magnitude"].value
    near_by[epsilon, "pos"].alpha = Estimate(1.0, 1.0, 2.01)
    assert not tables._statements(near_by)["table2.order_of_magnitude"].value


def test_districts_statements_look_at_bl_and_0_01():
    assert not changed(0.01, "baseline", counts=SimpleNamespace(n=16_000))["text.districts"].value
    moved = changed(0.01, "baseline", bias=np.array([0.5, -7e-6, -5e-6, 0.0]))
    assert moved["text.los_angeles"].value == pytest.approx(7e-6 * 6.5e9)
    assert moved["text.los_angeles"].error == pytest.approx(2e-8 * 6.5e9)
    for place in ((0.1, "baseline"), (0.001, "baseline"), (0.01, "pos")):
        same = changed(*place, bias=np.array([-1.0, 0.0, 0.0, 0.0]), counts=SimpleNamespace(n=1))
        assert same["text.los_angeles"] == tables._statements(FAR)["text.los_angeles"]
        assert same["text.districts"].value


# -- published beside ours ----------------------------------------------------------------------------------------------


def record(value=4.0, half=0.5, status="agrees", reason=None, **place):
    given = {"section": "6", "item": "Table 9", **place}
    return Published("k", given, "q", "u", "4.0", value, half, status, reason)


def test_published_value_agrees_to_the_edge():
    """Half a unit 0.5, our error 0.25, and 1e-12 of the published value."""
    for ours, agrees in (
        (4.75, True),
        (3.25, True),
        (4.75 + 3e-12, True),
        (3.25 - 3e-12, True),
        (4.75 + 9e-12, False),
        (3.25 - 9e-12, False),
    ):
        one = Comparison(record(), Computed(ours, 0.25))
        assert one.agrees is agrees
        assert one.status == ("agrees" if agrees else "differs")
        assert one.as_recorded is agrees
        assert Comparison(record(status="differs"), Computed(ours, 0.25)).as_recorded is not agrees
    assert Comparison(record(0.0, 0.5), Computed(-0.5)).agrees
    assert not Comparison(record(0.0, 1e6), Computed(1e6 + 5e-7)).agrees  # of the published value, which is 0
    assert Comparison(record(half=0.0), Computed(4.0)).agrees
    assert not Comparison(record(half=0.0), Computed(4.25)).agrees
    assert Computed(4.0) == Computed(4.0, 0.0)
    assert published.ROUNDING == 1e-12


def test_published_vector_agrees_in_every_entry():
    theirs = record((1.0, -100.0, 0.0), 0.0)
    assert Comparison(theirs, Computed((1.0, -100.0, 9e-11))).agrees
    assert not Comparison(theirs, Computed((1.0, -100.0, 2e-10))).agrees
    assert not Comparison(theirs, Computed((1.0, -100.0))).agrees
    assert not Comparison(record((1.0,), 9.0), Computed((1.0, 1.0))).agrees


def test_published_statement_agrees_with_a_statement_alone():
    assert Comparison(record(True, 0.0), Computed(True)).agrees
    assert Comparison(record(False, 0.0), Computed(False)).agrees
    assert not Comparison(record(False, 9.0), Computed(True)).agrees
    assert not Comparison(record(True, 9.0), Computed(1.0)).agrees
    assert not Comparison(record(1.0, 9.0), Computed(True)).agrees


# -- the folder ---------------------------------------------------------------------------------------------------------


ABOUT = json.dumps({"made_by": "fairpost paper", "files": ["about.json", "a"]}).encode()


def test_folder_is_for_the_owner_alone(tmp_path, monkeypatch):
    place, swept = folder.check(tmp_path / "deep" / "down" / "out", force=False), []
    monkeypatch.setattr(folder.whole, "sweep", swept.append)
    folder.write(place, {"a": b"1", "t/b": b"2", "t/c": b"3"}, force=False)
    assert swept == [place.parent]
    assert {p.relative_to(place).as_posix(): p.read_bytes() for p in place.rglob("*") if p.is_file()} == {
        "a": b"1",
        "t/b": b"2",
        "t/c": b"3",
    }
    for path in (place, place / "t"):
        assert path.stat().st_mode & 0o777 == 0o700
    assert (place / "a").stat().st_mode & 0o777 == 0o600
    (place / "a").unlink()
    with pytest.raises(fp.InputError, match="must be empty, it has 2 files"):
        folder.write(place, {"a": b"1"}, force=False)  # looked at again when everything is there
    assert sorted(p.name for p in place.parent.iterdir()) == ["out"]


def test_folder_check(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from pathlib import Path

    assert folder.check(Path("new"), force=False) == tmp_path / "new"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder.check(Path("~/new"), force=True) == tmp_path / "new"
    (tmp_path / "empty" / "within").mkdir(parents=True)
    assert folder.check(tmp_path / "empty", force=False) == tmp_path / "empty"
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "loose").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link", "loose"):
        with pytest.raises(fp.InputError, match="must be a folder or not exist"):
            folder.check(tmp_path / name, force=True)
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "a").write_text("")
    for text in (
        "",
        "[]",
        "{}",
        '{"made_by": "somebody", "files": ["about.json", "a"]}',
        '{"made_by": "fairpost paper"}',
    ):
        (ours / "about.json").write_text(text)
        with pytest.raises(fp.InputError, match="got 'a' in the folder"):
            folder.check(ours, force=True)
    (ours / "about.json").write_bytes(ABOUT)
    assert folder.check(ours, force=True) == ours
    with pytest.raises(fp.InputError, match="it has 2 files"):
        folder.check(ours, force=False)
    (ours / "z").write_text("")
    with pytest.raises(fp.InputError, match="got 'z' in the folder"):
        folder.check(ours, force=True)


def test_folder_of_before_comes_back(tmp_path, monkeypatch):
    place = tmp_path / "out"
    folder.write(place, {"a": b"1", "about.json": ABOUT}, force=False)
    folder.write(place, {"a": b"2", "about.json": ABOUT}, force=True)
    assert (place / "a").read_bytes() == b"2"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    move, done = folder.os.replace, []

    def once(source, target):
        done.append(target)
        if len(done) == 2:  # the new one into its place
            raise KeyboardInterrupt
        move(source, target)

    monkeypatch.setattr(folder.os, "replace", once)
    with pytest.raises(KeyboardInterrupt):
        folder.write(place, {"a": b"3", "about.json": ABOUT}, force=True)
    assert (place / "a").read_bytes() == b"2"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]

    done[:] = ["before"]
    with pytest.raises(KeyboardInterrupt):  # nothing was there before
        folder.write(tmp_path / "new", {"a": b"3"}, force=False)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def late(source, target):
        move(source, target)
        if target == place:  # the new one is in its place
            raise KeyboardInterrupt

    monkeypatch.setattr(folder.os, "replace", late)
    with pytest.raises(KeyboardInterrupt):
        folder.write(place, {"a": b"4", "about.json": ABOUT}, force=True)
    assert (place / "a").read_bytes() == b"4"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder.os, "replace", full)
    with pytest.raises(fp.InputError, match=r"out: cannot be written: No space left on device$"):
        folder.write(place, {"a": b"3", "about.json": ABOUT}, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
