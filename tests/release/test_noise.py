"""The noise: the right laws, a self-test that can fail, sums that cannot saturate.

From inside where a release cannot be asked: the sampler alone, its processes, what it does with memory.
"""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from fairpost.errors import FairpostError, UnsupportedError
from fairpost.release import noise, selftest
from fairpost.release.noise import Law
from support.releases import as_0_14_1, ledger, quick, released

LAWS = [("discrete-laplace", 0.3), ("discrete-laplace", 7.5), ("discrete-laplace", 400.0), ("discrete-gaussian", 0.6),
        ("discrete-gaussian", 9.25), ("discrete-gaussian", 300.0)]  # fmt: skip


@pytest.mark.parametrize(("name", "scale"), LAWS)
def test_opendp_draws_from_the_laws(name, scale):
    """Chi-squared of 20,000 draws against masses written down here, on cells of 40 and more; one false alarm in 1e6 for each law.

    From inside: a release shows 20,000 draws only after its self-test, which takes longer.
    """
    drawn = noise.in_process(Law(name, scale), 20_000)
    reach = int(60 * scale) + 60
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-np.abs(k) / scale if name == "discrete-laplace" else -((k / scale) ** 2) / 2)
    cell = np.minimum(np.cumsum(mass) / mass.sum() * 300, 299).astype(int)
    wanted, seen = np.bincount(cell, mass / mass.sum() * 20_000), np.bincount(cell[drawn + reach], minlength=300)
    full = wanted >= 40
    rest = [np.append(v[full], v[~full].sum()) for v in (seen, wanted)]
    some = rest[1] > 5
    chi = np.sum((rest[0] - rest[1])[some] ** 2 / rest[1][some])
    assert stats.chi2.sf(chi, max(some.sum() - 1, 1)) > 1e-6
    assert abs(np.mean(drawn % 2) - mass[k % 2 == 1].sum() / mass.sum()) < 5 * 0.5 / np.sqrt(20_000)


def scaled(by):
    return lambda law, n: quick(type(law)(law.mechanism, law.scale * by), n)


WRONG = {
    "the one of OpenDP 0.14.1": as_0_14_1,
    "no sign": lambda law, n: np.abs(quick(law, n)),
    "shifted": lambda law, n: quick(law, n) + 1,
    "even": lambda law, n: 2 * scaled(0.5)(law, n),
    "too wide": scaled(1.05),
    "nothing": lambda law, n: np.zeros(n, dtype=np.int64),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_sampler_draws_no_noise_of_a_release(tmp_path, how):
    """A relative error d of the scale, or a shift of d b, moves chi-squared by about 200,000 d^2: 500 at 5 percent, on 250 cells.

    The one of 0.14.1 is 17 standard deviations out at b = 10, and right for Gaussian noise.
    """
    pure = ledger(tmp_path)
    with pytest.raises(FairpostError, match=r"self-test .* scale 12.* nothing was charged"):
        released(pure, sampler=WRONG[how], epsilon="1/12")
    assert pure.spent == 0
    if WRONG[how] is not as_0_14_1:
        (tmp_path / "z").mkdir()
        with pytest.raises(FairpostError, match="self-test"):
            released(ledger(tmp_path / "z", measure="zcdp"), sampler=WRONG[how], rho="1/288")


def test_a_failed_self_test_stops_a_release_before_the_charge(tmp_path):
    book = ledger(tmp_path)
    record = book.folder / "selftest.json"
    record.unlink()
    with pytest.raises(FairpostError, match=r"self-test .* scale 10.* nothing was charged"):
        released(book, sampler=as_0_14_1, epsilon="1/10")
    assert book.spent == 0
    assert not record.exists()
    assert not list(book.folder.glob("*.tmp")) + list(book.folder.glob(".*.tmp"))
    released(book, epsilon="1/10")
    assert book.spent == pytest.approx(0.1)
    assert ["discrete-laplace", "10"] in json.loads(record.read_text())["laws"]
    assert oct(record.stat().st_mode)[-3:] == "600"


def test_the_self_test_is_remembered_for_its_version_and_scale(tmp_path, monkeypatch):
    book, ran = ledger(tmp_path), []

    def spy(law, n):
        ran.append((law.mechanism, law.scale) if n > 6 else "release")
        return quick(law, n)

    released(book, sampler=spy, epsilon="1/10")
    assert ran == ["release"]
    released(book, sampler=spy, epsilon="1/11")
    released(book, sampler=spy, epsilon="1/11", again="x")
    assert ran == ["release", ("discrete-laplace", 11.0), "release", "release"]
    monkeypatch.setattr(sys.modules["fairpost.release.selftest"], "opendp_version", lambda: "0.17.0")
    released(book, sampler=spy, epsilon="1/10", again="y")
    assert len(set(ran[4:])) > 5


def test_an_old_opendp_is_refused(monkeypatch):
    import importlib.metadata

    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.14.1")
    with pytest.raises(UnsupportedError, match=r"0\.16 or later .* got 0\.14\.1"):
        noise.opendp_version()


def test_processes_share_the_draws_of_a_large_table(monkeypatch):
    monkeypatch.setattr(noise, "ALONE", 100)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    laws = [(Law("discrete-laplace", 50.0), 5000), (Law("discrete-gaussian", 3.0), 1001)]
    out = noise.sample_all(laws)
    assert [y.size for y in out] == [5000, 1001]
    for (law, _), y in zip(laws, out, strict=True):
        assert all(t.passed for t in selftest.compare(law, y))
        assert len({y[: y.size // 3].tobytes(), y[y.size // 3 : 2 * (y.size // 3)].tobytes()}) == 2


def test_a_table_longer_than_a_block_has_noise_in_every_row(monkeypatch):
    """What no draw has filled would be whatever the memory held: here a number that no draw of this scale gives."""
    never = 2**60
    filled = SimpleNamespace(empty=lambda n, dtype: np.full(n, never, dtype=dtype), int64=np.int64)
    monkeypatch.setattr(noise, "np", filled)
    monkeypatch.setattr(noise, "BLOCK", 7)
    for law in (Law("discrete-laplace", 1e6), Law("discrete-gaussian", 1e6)):
        for n in (1, 6, 7, 8, 14, 30):
            drawn = noise.in_process(law, n)
            assert drawn.shape == (n,)
            assert never not in drawn
            assert (
                len(set(drawn.tolist())) > 0.9 * n
            )  # no block is another one again: two draws agree with a chance of 1e-6


def test_a_worker_that_fails_ends_the_draw(monkeypatch):
    """Its rows would have no noise."""

    def lost(share, out):
        if share[0][1].start > 0:
            raise FairpostError("a worker is gone")
        for (_, part), y in zip(share, out, strict=True):
            y[part] = 1

    monkeypatch.setattr(noise, "ALONE", 3)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    monkeypatch.setattr(noise, "_work", lost)
    with pytest.raises(FairpostError, match="a worker is gone"):
        noise.sample_all([(Law("discrete-laplace", 2.0), 30)])


def test_noise_is_added_exactly_and_a_saturated_draw_is_an_error():
    x = np.array([0, 5, 2**52 - 1])
    law = Law("discrete-laplace", 10.0)
    drawn = np.array([-3, 4, 7])
    assert noise.add_noise(x, law, lambda law, n: drawn.copy()).tolist() == [-3, 9, 2**52 + 6]
    for far in (2**63 - 1, -(2**63), 2**52):
        with pytest.raises(FairpostError, match="saturate"):
            noise.add_noise(x, law, lambda law, n, far=far: np.array([1, 2, far]))
    with pytest.raises(FairpostError, match="one number for each count"):
        noise.add_noise(x, law, lambda law, n: drawn[:2])
