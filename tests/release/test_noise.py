"""The noise: the right laws, a self-test that can fail, sums that cannot saturate."""

import json
import math
import os
from types import SimpleNamespace

import numpy as np
import pytest

from fairpost.errors import FairpostError, ParameterError, UnsupportedError
from fairpost.release import noise, protocol, selftest
from fairpost.release.noise import Law
from support.releases import TOWNS, as_0_14_1, ledger, quick

LAWS = [Law("discrete-laplace", 0.3), Law("discrete-laplace", 7.5), Law("discrete-laplace", 400.0), Law("discrete-gaussian", 0.6),
        Law("discrete-gaussian", 9.25), Law("discrete-gaussian", 300.0)]  # fmt: skip


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_opendp_draws_from_the_laws(law):
    assert all(t.passed for t in selftest.compare(law, noise.in_process(law, 20_000)))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_cells_have_the_masses_of_a_table(law):
    """Two ways to the same probabilities: closed forms, and sums of masses far out."""
    reach = int(60 * law.scale) + 60
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-np.abs(k) / law.scale if law.mechanism == "discrete-laplace" else -((k / law.scale) ** 2) / 2)
    mass /= mass.sum()
    some = np.arange(-5, 6.0) * max(1, int(law.scale))
    wanted = [mass[k <= m].sum() for m in some]
    assert selftest.cdf(law, some) == pytest.approx(wanted, abs=1e-12)  # a sum of at most 5e4 masses, each to 1e-16
    for modulus in (15, 16) if law.scale >= selftest.FINE else ():
        wanted = [mass[k % modulus == r].sum() for r in range(modulus)]
        assert selftest.remainders(law, modulus) == pytest.approx(wanted, abs=1e-12)


def test_the_normal_law_stands_in_for_a_wide_table():
    narrow, wide = Law("discrete-gaussian", selftest.TABLE), Law("discrete-gaussian", selftest.TABLE * 1.0001)
    m = np.arange(-3, 4) * selftest.TABLE
    from scipy.special import ndtr

    assert selftest.cdf(narrow, m) == pytest.approx(ndtr((m + 0.5) / narrow.scale), abs=1e-9)
    assert selftest.cdf(wide, m) == pytest.approx(ndtr((m + 0.5) / wide.scale), abs=1e-12)


def test_a_correct_sampler_passes_and_the_one_of_0_14_1_fails():
    """False alarms: nine tests at 1e-6 for `quick`. The biased one is 17 standard deviations out at b = 10."""
    assert all(t.passed for t in selftest.run(sampler=quick))
    tests = {
        t.law.scale: t
        for t in selftest.run(sampler=as_0_14_1)
        if t.law.mechanism == "discrete-laplace" and t.what == "values"
    }
    assert tests[10.0].p < 1e-20
    assert not tests[10.0].passed


@pytest.mark.parametrize(
    "wrong",
    [
        lambda law, n: np.abs(quick(law, n)),
        lambda law, n: quick(law, n) + 1,
        lambda law, n: 2 * quick(Law(law.mechanism, law.scale / 2), n),
        lambda law, n: quick(Law(law.mechanism, law.scale * 1.05), n),
        lambda law, n: np.zeros(n, dtype=np.int64),
    ],
)
def test_other_wrong_samplers_fail(wrong):
    """A relative error d of the scale, or a shift of d b, moves chi-squared by about 200,000 d^2: 500 at 5 percent, on 250 cells."""
    assert not all(t.passed for t in selftest.run([Law("discrete-laplace", 20.0)], wrong))
    assert not all(t.passed for t in selftest.run([Law("discrete-gaussian", 12.5)], wrong))


def test_a_failed_self_test_stops_a_release_before_the_charge(tmp_path):
    from torture import request_of

    book = ledger(tmp_path)
    record = book.folder / "selftest.json"
    record.unlink()
    job = request_of(book, TOWNS.values.astype(np.int64), "1/10", tmp_path / "out")
    with pytest.raises(FairpostError, match=r"self-test .* scale 10.* nothing was charged"):
        protocol.run(book, [job], sampler=as_0_14_1)
    assert book.spent == 0
    assert not record.exists()
    assert not list(book.folder.glob("*.tmp")) + list(book.folder.glob(".*.tmp"))
    protocol.run(book, [job], sampler=quick)
    assert book.spent == pytest.approx(0.1)
    assert ["discrete-laplace", "10"] in json.loads(record.read_text())["laws"]


def test_the_self_test_is_remembered_for_its_version_machine_and_scale(tmp_path, monkeypatch):
    record, ran = tmp_path / "r.json", []

    def spy(law, n):
        ran.append(law)
        return quick(law, n)

    assert selftest.demand(record, [], spy)
    assert set(ran) == set(selftest.LAWS)
    ran.clear()
    assert not selftest.demand(record, [Law("discrete-laplace", 10.0)], spy)
    assert selftest.demand(record, [Law("discrete-laplace", 11.0)], spy)
    assert ran == [Law("discrete-laplace", 11.0)]
    monkeypatch.setattr(selftest, "opendp_version", lambda: "0.17.0")
    assert selftest.demand(record, [], spy)
    assert oct(record.stat().st_mode)[-3:] == "600"


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


def test_scales_have_a_limit():
    for scale in (0.0, -1.0, 2.0**41, math.inf, math.nan):
        with pytest.raises(ParameterError, match="scale of the noise"):
            Law("discrete-laplace", scale)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 400.0])
def test_the_deviation_is_that_of_the_noise(scale):
    """Of discrete Laplace noise from its masses; discrete Gaussian noise has at most its sigma."""
    q = math.exp(-1 / scale)
    far = np.arange(1, 20_000)
    variance = 2 * float(np.sum(far**2 * q**far)) * (1 - q) / (1 + q)
    assert Law("discrete-laplace", scale).deviation == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert Law("discrete-gaussian", scale).deviation == scale


def test_next_to_no_noise_has_no_deviation():
    """Below a scale of 0.001 the chance of anything but 0 is e^-1000, and its sinh beyond doubles."""
    assert Law("discrete-laplace", 1e-3).deviation == 0.0
    assert Law("discrete-laplace", 2e-3).deviation == pytest.approx(math.sqrt(2) * math.exp(-250), rel=1e-12)
