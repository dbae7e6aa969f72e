"""Hard to break: faults, limits, hostile input."""

import contextlib
import csv
import gzip
import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fairpost as fp
from commands import call
from fairpost import whole
from fairpost.cli import main
from fairpost.engines import Exact
from fairpost.engines.base import Part, Question
from fairpost.engines.moments import Moments
from fairpost.engines.montecarlo.checkpoint import MAGIC, Checkpoint
from fairpost.engines.montecarlo.totals import Totals
from fairpost.errors import FairpostError, InputError, ParameterError, ToleranceError
from fairpost.io import decode, guarded, source, write_whole
from fairpost.noise import MECHANISMS, Threshold
from fairpost.paper import folder
from fairpost.results.audit import Audit
from fairpost.rules import POSTPROCESSINGS, PosThreshold, Simplex, SimplexThreshold
from fairpost.rules.control import Control
from fairpost.rules.rounding import round_counts

COUNTS = "id,count,group\na,3,n\nb,40,n\nc,9,s\nd,500,s\ne,0,n\n"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """Set it, and put the old one back."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.fixture
def cli(tmp_path, monkeypatch, capfd):
    """Run a command in this process, in a folder with counts.csv; the exit code, stdout and stderr."""
    from fairpost.cli import main

    monkeypatch.chdir(tmp_path)
    Path("counts.csv").write_text(COUNTS)

    def run(*words):
        words = [str(w) for w in words]
        monkeypatch.setattr(sys, "argv", ["fairpost", *words])
        with pytest.raises(SystemExit) as ended:
            main(args=words)
        out, err = capfd.readouterr()
        return ended.value.code, out, err

    return run


def refused(found, *parts):
    """One line on stderr, exit code 2."""
    code, _, err = found
    assert code == 2, found
    assert "Traceback" not in err
    assert err.strip().count("\n") == 0, err
    assert all(part in err for part in parts), err
    return True


# ---- files: whole, owner-only, swept ----


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_file_and_its_name_are_on_the_disk_before_anybody_is_told(tmp_path, monkeypatch):
    """First the content under the other name, then the rename, then the folder that has the name."""
    seen, sync, replace = [], os.fsync, Path.replace

    def synced(fd):
        seen.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd)

    def replaced(self, target):
        seen.append("renamed")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    whole.write(tmp_path / "state", "new")
    file, renamed, folder = seen
    assert file.parent == tmp_path.resolve()
    assert whole.OURS.fullmatch(file.name)
    assert (renamed, folder) == ("renamed", tmp_path.resolve())


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_confidential_files_are_owner_only_from_their_creation(tmp_path, umask, mask):
    umask(mask)
    seen = []

    def writer(file):
        seen.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        seen.extend(mode(p) for p in tmp_path.glob(".fairpost-*"))
        file.write(b"x")

    write_whole({tmp_path / "new": writer})
    whole.write(tmp_path / "state", writer)
    assert set(seen) == {0o600}
    assert len(seen) == 4
    assert mode(tmp_path / "new") == mode(tmp_path / "state") == 0o600


def test_force_does_not_copy_a_wider_mode(tmp_path, umask):
    for name in ("old", "state", "public"):
        (tmp_path / name).write_text("old")
        (tmp_path / name).chmod(0o666)
    write_whole({tmp_path / "old": "new"}, force=True)
    whole.write(tmp_path / "state", "new")
    write_whole({tmp_path / "public": "new"}, force=True, private=False)
    assert [mode(tmp_path / name) for name in ("old", "state", "public")] == [0o600, 0o600, 0o666]
    write_whole({tmp_path / "fresh": "new"}, private=False)
    assert mode(tmp_path / "fresh") == 0o644


def test_every_command_on_true_counts_writes_for_its_owner_alone(cli, tmp_path, umask):
    some = ("--postprocess", "nonnegative")
    assert (
        cli("audit", "counts.csv", "--epsilon", 1, *some, "--json", "a.json", "--csv", "a.csv", "--html", "a.html")[0]
        == 0
    )
    assert cli("sweep", "counts.csv", "--points", 2, *some, "--json", "s.json")[0] == 0
    assert cli("plan", "counts.csv", "--max-alpha", 99, "--points", 2, *some, "--json", "p.json")[0] == 0
    state = ("--method", "monte-carlo", "--runs", 20000, "--checkpoint", "state")
    assert cli("audit", "counts.csv", "--epsilon", 1, *some, *state)[0] == 0
    assert cli("project", "counts.csv", "--csv", "public.csv")[0] == 0
    made = ("a.json", "a.csv", "a.html", "s.json", "p.json", "state")
    assert {name: mode(tmp_path / name) for name in made} == dict.fromkeys(made, 0o600)
    assert mode(tmp_path / "public.csv") == 0o644
    folder.write(tmp_path / "paper", {"index.html": b"page", "tables/one.csv": b"1"}, force=False)
    assert mode(tmp_path / "paper") == mode(tmp_path / "paper" / "tables") == 0o700
    assert mode(tmp_path / "paper" / "tables" / "one.csv") == 0o600


KILLED = """
import os, signal, sys
from pathlib import Path
from fairpost import whole
def half(file):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
whole.write(Path(sys.argv[1]), half)
"""


def test_what_a_kill_leaves_is_swept_at_the_next_write_and_nothing_else_is(tmp_path):
    place = tmp_path / "state"
    place.write_text("before")
    assert subprocess.run([sys.executable, "-c", KILLED, place], check=False, timeout=60).returncode == -9
    (left,) = tmp_path.glob(".fairpost-*")
    assert (left.read_bytes(), mode(left), place.read_text()) == (b"half", 0o600, "before")
    machine, dead = left.name.split("-")[1:3]
    alive = tmp_path / f".fairpost-{machine}-{os.getpid()}-{'a' * 12}.tmp"
    far = tmp_path / f".fairpost-00000000-{dead}-{'b' * 12}.tmp"
    stale = tmp_path / f".fairpost-00000000-{dead}-{'c' * 12}.old"
    old_folder = tmp_path / f".fairpost-{machine}-{dead}-{'d' * 12}.old"
    part = tmp_path / f".fairpost-{machine}-{dead}-{'e' * 12}.part"
    other = tmp_path / ".fairpost-mine.tmp"
    for path in (alive, far, stale, other):
        path.write_text("x")
    for path in (old_folder, part):
        path.mkdir()
        (path / "inside").write_text("x")
    os.utime(stale, (1, 1))
    write_whole({tmp_path / "out": "new"})
    assert set(tmp_path.iterdir()) == {place, alive, far, old_folder, other, tmp_path / "out"}
    assert place.read_text() == "before"


def test_what_belongs_to_another_user_is_not_swept(tmp_path, monkeypatch):
    left = tmp_path / f".fairpost-00000000-1-{'a' * 12}.tmp"
    left.write_text("x")
    os.utime(left, (1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
        whole.sweep(tmp_path)
        assert left.exists()
    whole.sweep(tmp_path)
    assert not left.exists()


def test_a_written_file_is_whole_or_absent(tmp_path):
    def full(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    place = tmp_path / "a"
    place.write_text("old")
    with pytest.raises(OSError, match="No space"):
        whole.write(place, full)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]
    (tmp_path / "link").symlink_to(place)
    whole.write(tmp_path / "link", "new")
    assert (place.read_text(), (tmp_path / "link").is_symlink()) == ("new", True)


# ---- checkpoints ----


def totals():
    return Totals(4, [Control(np.zeros(4), None, np.ones(4), None)])


@pytest.fixture
def state(tmp_path):
    """A written checkpoint: the object, and the totals that it holds."""
    held = totals()
    for k, array in enumerate(held.state().values()):
        array[...] = k + np.arange(array.size).reshape(array.shape) % 7
    file = Checkpoint(tmp_path / "state", "f" * 64, 0.0)
    file.save(held, now=True)
    return file, held


def test_a_checkpoint_gives_back_what_was_saved(state):
    file, held = state
    again = totals()
    file.restore(again)
    for name, array in held.state().items():
        assert np.array_equal(again.state()[name], array)
    assert all(array.any() for array in held.state().values() if array.size)


def test_a_damaged_checkpoint_is_refused_in_one_line_whatever_the_damage(state):
    file, _ = state
    good = file.path.read_bytes()
    rng = np.random.default_rng(5)
    for case in range(300):
        data = bytearray(good)
        if case % 3 == 0:
            del data[int(rng.integers(len(data))) :]
        elif case % 3 == 1:
            for place in rng.integers(len(data), size=int(rng.integers(1, 9))):
                data[place] ^= 1 << int(rng.integers(8))
        else:
            low, high = sorted(rng.integers(len(data), size=2))
            data[low:high] = rng.bytes(int(rng.integers(64)))
        if bytes(data) == good:
            continue
        file.path.write_bytes(data)
        fresh = totals()
        with pytest.raises(ParameterError) as caught:
            file.restore(fresh)
        assert "\n" not in str(caught.value)
        assert not any(array.any() for array in fresh.state().values()), "nothing is restored of a damaged file"
    file.path.write_bytes(good + b"0")
    with pytest.raises(ParameterError, match="is damaged"):
        file.restore(totals())


def test_a_crafted_checkpoint_of_the_right_job_is_refused(state):
    file, held = state
    good = file.path.read_bytes()
    start = len(MAGIC) + 64
    zeros = bytes(len(good) - start)
    unkeyed = hashlib.sha256(zeros).digest()
    for crafted in (good[:start] + zeros, good[: start - 32] + unkeyed + zeros):
        file.path.write_bytes(crafted)
        with pytest.raises(ParameterError, match="is damaged: its contents are not what was written"):
            file.restore(totals())
    assert b"f" * 64 not in good, "the key of the seal is not in the file"
    assert held.sums.any()


@pytest.mark.parametrize("kind", ["fifo", "folder", "below a file", "long", "zero"])
def test_a_checkpoint_that_is_no_file_is_refused_in_one_line(tmp_path, kind):
    path = tmp_path / "state"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "below a file":
        path.write_text("x")
        path = path / "state"
    else:
        path = tmp_path / ("x" * 300 if kind == "long" else "a\0b")
    file = Checkpoint(path, "f" * 64, 0.0)
    said = "^the checkpoint .*(must be a file|cannot be (read|written))"
    with pytest.raises(ParameterError, match=said):
        file.restore(totals())
    if kind != "fifo":  # one could be replaced, but no job gets that far
        with pytest.raises(ParameterError, match=said):
            file.save(totals(), now=True)


# ---- rounding: large totals ----


@pytest.mark.parametrize("total", [0.0, 1e9, 1e10, 1e14, 4e15, 8e15])
@pytest.mark.parametrize("n", [1, 2, 7, 3000])
def test_rounding_keeps_the_total_of_its_own_projection(total, n):
    rng = np.random.default_rng([n, int(total)])
    for _ in range(5):
        w = rng.pareto(1.2, n) + 0.01
        v = fp.Simplex(total)(w / w.sum() * total + rng.laplace(0, total / n / 10 + 1, n))
        found = round_counts(v, rng, None, [total])
        assert sum(map(int, found)) == total  # whole numbers of any size
        assert (found >= 0).all()
        if total <= 1e14:
            assert np.abs(found - v).max() < 1


def test_rounding_refuses_what_a_float_does_not_tell_apart(cli):
    Path("big.csv").write_text("id,count\na,1e14\nb,3e14\n")
    code, out, _ = cli("project", "big.csv", "--round", "--seed", 1)
    assert code == 0
    assert [row.split(",")[2] for row in out.splitlines()[1:]] == ["100000000000000", "300000000000000"]
    with pytest.raises(ParameterError, match=r"totals below 2\*\*53 = 9007199254740992, got 2e\+19 for 'all'"):
        round_counts([1e19, 1e19], np.random.default_rng(0))
    with pytest.raises(ParameterError, match="must add up to 12, got 10 for 'all'"):
        round_counts([5.0, 5.0], np.random.default_rng(0), None, [12])
    with pytest.raises(ParameterError, match="one total per group: 1 groups, 2 totals"):
        round_counts([5.0, 5.0], np.random.default_rng(0), None, [5, 5])
    Path("big.csv").write_text("id,count\na,1e19\nb,3e19\n")
    assert refused(cli("project", "big.csv", "--round"), "2**53", "1e19")


# ---- no NaN ----


@pytest.mark.parametrize("sigma", [0.1, 0.5**0.5, 20.0])
def test_the_sum_of_few_discrete_gaussian_noises_by_hand(sigma):
    """P(entry = 0) of groups of 2 and 3 against the sum over all noises; 1e-12 is the inversion's wrap-around and rounding."""
    noise = fp.DiscreteGaussian(sigma)
    reach = int(12 * sigma) + 6
    k = np.arange(-reach, reach + 1)
    p = noise.density(k)
    counts = fp.Counts([3, 40, 9, 500, 0], groups=list("nnssn"))
    with np.errstate(all="raise", under="ignore"):
        found = fp.audit(counts, noise, "sum", by_group=True)
    assert found.method == "exact"
    pair = np.add.outer(k, k)
    for i, x in enumerate(counts.values):
        if counts.groups[i] == "s":  # y = x + (eta_1 - eta_2) / 2
            inside = k[np.abs(k + 2 * x) <= reach]
            by_hand = float(np.sum(noise.density(inside) * noise.density(inside + 2 * x)))
        else:  # y = x + (2 eta_1 - eta_2 - eta_3) / 3 = 0 where eta_2 + eta_3 = 3 x + 2 eta_1
            of_sum = np.bincount((pair + 2 * reach).ravel(), np.outer(p, p).ravel())
            at = (3 * x + 2 * k + 2 * reach).astype(int)
            fits = (at >= 0) & (at < of_sum.size)
            by_hand = float(np.sum(p[fits] * of_sum[at[fits]]))
        assert found.zero[i] == pytest.approx(by_hand, rel=1e-9, abs=1e-12)
        assert found.zero[i] >= 0


def test_the_case_that_was_nan(cli):
    given = ("--mechanism", "discrete-gaussian", "--rho", 1, "--postprocess", "sum", "--by-group")
    code, out, err = cli("audit", "counts.csv", *given)
    assert (code, "nan" in out.lower(), err) == (0, False, "")
    code, out, err = cli("audit", "counts.csv", *given, "--json", "-")
    assert (code, err) == (0, "")
    assert json.loads(out)["results"][0]["alpha"]["value"] == 0


@pytest.mark.parametrize("what", ["bias", "mse", "zero"])
def test_no_nan_leaves_an_engine_or_a_result(what):
    counts, noise, pi = fp.Counts([1.0, 2.0]), fp.Laplace(1.0), POSTPROCESSINGS["nonnegative"]()
    good = fp.audit(counts, noise, pi)
    answer = Exact().evaluate(Question.ask(counts, noise, [pi]))[0]
    assert Audit.of(counts, noise, pi, answer, good.truth).bias.tolist() == good.bias.tolist()
    broken = replace(answer, **{what: np.array([0.0, np.nan])})
    with pytest.raises(
        ToleranceError, match=r"nonnegative: the exact engine cannot hold .* of entity 1 in a float, got nan"
    ):
        Audit.of(counts, noise, pi, broken, good.truth)
    moments = Moments(bias=np.zeros(2), error=np.zeros(2), mse=np.zeros(2), zero=np.zeros(2))
    bad = replace(moments, **{what: np.array([0.0, np.inf])})
    part = Part(fp.Simplex(3.0), moments.bias, moments.bias, fp.Laplace(1.0))
    assert "got inf at position 1" in bad.answer("exact", "bound", part).reason


# ---- magnitudes ----


def test_a_magnitude_that_is_not_meant_is_refused_by_name(cli):
    for make, rule in [
        (lambda: fp.Counts([1.0, 1e16]), r"every count must be from 0 to 2\*\*53, got 1e\+16 at position 1"),
        (lambda: fp.Counts([8e15, 8e15]), r"the sum of the counts must be from 0 to 2\*\*53, got 1.6e\+16"),
        (
            lambda: fp.Counts([1.0], weights=[1e200]),
            r"every weight must be from 1e-12 to 1e\+15, got 1e\+200 at position 0",
        ),
        (lambda: fp.Counts([1.0], weights=[1e-300]), "every weight must be from 1e-12"),
        (lambda: fp.Laplace(1e-300), r"`scale` must be from 1e-06 to 1e\+12"),
        (lambda: fp.DiscreteGaussian(1e13), "`sigma` must be from"),
        (lambda: fp.Laplace.from_epsilon(1e-200), "`epsilon` must be from"),
        (lambda: fp.Laplace.from_epsilon(1.0, 1e200), "`sensitivity` must be from"),
        (lambda: fp.Simplex(1e200), "`total` must be from"),
        (lambda: fp.audit([1.0, 2.0], fp.Laplace(1.0), "pos", budget=1e200), r"`budget` must be from 0 to 1e\+18"),
    ]:
        with pytest.raises(InputError, match=rule):
            make()
    Path("big.csv").write_text("id,count\na,1\nb,-1e16\n")
    assert refused(
        cli("project", "big.csv"), "big.csv, line 3, column 'count': every count must be from -2**53 to 2**53"
    )


def test_inside_the_meant_magnitudes_there_is_an_answer_or_a_refusal():
    """Counts over 27 orders of magnitude, noise over 18 (whole-number noise over 9: its tables grow with it)."""
    rng, said = np.random.default_rng(11), []
    for case in range(120):
        n = int(rng.integers(1, 5))
        x = 10.0 ** (rng.uniform(-12, 15, n) if case % 2 else np.full(n, rng.uniform(-3, 15)))
        x = np.round(x) if case % 3 else x
        x[rng.random(n) < 0.2] = 0.0
        weights = 10.0 ** rng.uniform(-12, 15, n) if case % 5 == 0 else None
        kind = list(MECHANISMS)[case % 4]
        noise = MECHANISMS[kind](10.0 ** rng.uniform(-6, 3 if "discrete" in kind else 12))
        which = list(POSTPROCESSINGS)[int(rng.integers(len(POSTPROCESSINGS)))]
        try:
            with np.errstate(divide="raise", invalid="raise", over="raise"):
                found = fp.audit(fp.Counts(x, weights=weights), noise, which, engine="exact")
        except FairpostError as error:
            said.append(str(error))
            continue
        json.dumps(found.to_dict(entities=True), allow_nan=False)
        assert np.isfinite(found.bias).all()
    assert not any("\n" in line for line in said)
    assert len(said) < 60, "most are answered"


APART = {
    "a chance below 0": ([0, 60, 70], fp.DiscreteLaplace(0.1), "simplex", {}),
    "a chance of 1e208": ([1, 2, 0], fp.DiscreteGaussian(0.03), "simplex-threshold", {"total": 1}),
    "no variance, shares": ([0, 2, 2], fp.DiscreteGaussian(0.00112), "pos", {}),
    "no variance, all clipped": ([0, 0, 0], fp.DiscreteLaplace(1e-6), "baseline", {}),
    "no variance, a shift": ([5, 2, 7], fp.DiscreteLaplace(1e-4), "simplex-threshold", {"total": 2}),
    "no variance, no slope": ([2], fp.DiscreteLaplace(1e-3), "pos-threshold", {}),
    "no sum, one distinct count": ([0, 0], fp.DiscreteGaussian(1e-4), "baseline", {}),
    "a variance that overflows": ([60, 3], fp.DiscreteLaplace(0.00115), "nonnegative", {}),
}
"""Whole-number noise next to none: what a float makes of it ended in a traceback, or never."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", APART)
@pytest.mark.parametrize("engine", ["auto", "exact", "expansion", "monte-carlo"])
def test_noise_next_to_none_has_an_answer_or_a_refusal(case, engine):
    """Against every vector of noises up to 4, by the rule itself."""
    x, noise, rule, more = APART[case]
    counts = fp.Counts(x)
    try:
        found = fp.audit(counts, noise, rule, engine=engine, **more)
    except (fp.UnsupportedError, ToleranceError):
        assert engine != "auto"
        return
    pi = POSTPROCESSINGS[rule].from_counts(counts, more.get("total")).for_mechanism(noise)
    eta = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(-4.0, 5.0)] * counts.n)], axis=1)
    chance = np.prod(noise.density(eta), axis=1)
    away = pi(counts.values + eta) - found.truth
    if engine == "monte-carlo":  # which sees none of it
        assert np.abs(found.bias - chance @ away).max() < 1e-4
    else:
        np.testing.assert_allclose(found.bias, chance @ away, rtol=1e-6, atol=1e-14 * max(1.0, max(x)))


@pytest.mark.parametrize(
    ("x", "noise", "rule"),
    [
        ([1e12, 1e12], fp.Laplace(1e-6), "simplex"),
        ([93, 93], fp.DiscreteLaplace(1e9), "simplex"),
        ([1e12, 1], fp.Gaussian(0.2), PosThreshold(threshold=Threshold(40.0, 1 + 1e-9))),
        ([1e6, 60, 0, 0, 0, 1e12], fp.Laplace(0.01), SimplexThreshold(1.0, threshold=Threshold(0.3))),
        ([1, 1e6, 1e6, 0, 1, 1e12, 70, 0], fp.Gaussian(0.0014), Simplex(5.0)),
    ],
)
def test_counts_and_noise_far_apart_take_no_time_and_no_memory(x, noise, rule):
    """They took 400 GB, or minutes."""
    for engine in (Exact(), fp.Expansion()):
        began = time.process_time()
        with contextlib.suppress(fp.UnsupportedError, ToleranceError):
            assert np.isfinite(fp.audit(x, noise, rule, engine=engine).bias).all()
        assert time.process_time() - began < 10


def test_a_degenerate_draw_is_one_whose_sum_is_0_too():
    """Noise that leaves 70 zeros alone but for once in 10^86; and a sum of 29 noises, whose law is convolved."""
    alone = fp.audit(np.zeros(70), fp.DiscreteGaussian(0.05), "pos")
    assert alone.degenerate == pytest.approx(1.0)
    x, noise = np.floor(np.random.default_rng(3).exponential(4.0, 29)), fp.DiscreteLaplace(31.4)
    one, law = noise.density(np.arange(-700.0, 701.0)), np.ones(1)
    for _ in range(29):
        law = np.convolve(law, one)
    known = float(np.sum(law[: 29 * 700 - int(x.sum()) + 1]))
    assert fp.audit(x, noise, "pos", engine="expansion").degenerate == pytest.approx(known, rel=1e-4)


@pytest.mark.parametrize(
    ("x", "rule", "total"), [([53, 22563], "simplex", None), ([5.0 * i for i in range(9)], "simplex", 5.0)]
)
def test_the_sentence_of_a_refusal_is_about_its_interval(x, rule, total):
    with pytest.raises(ToleranceError, match="is known to") as caught:
        fp.audit(x, fp.Laplace(1.0 if total is None else 25.0), rule, total=total, engine=Exact(rtol=1e-12))
    bias, error = caught.value.reached
    slack = np.max(bias + error) - np.min(bias - error) - np.ptp(bias)
    assert f"is known to {slack:.2g} only" in str(caught.value)


# ---- decoders and inputs ----


def far_cell(path, ref="XFD1048576"):
    """A small workbook with one cell far away."""
    sheet = f'<worksheet><sheetData><row r="{ref[3:]}"><c r="{ref}"><v>1</v></c></row></sheetData></worksheet>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("[Content_Types].xml", "<Types/>")
        book.writestr("xl/workbook.xml", '<workbook><sheets><sheet name="a" sheetId="1"/></sheets></workbook>')
        book.writestr("xl/worksheets/sheet1.xml", sheet)


def test_a_far_cell_is_refused_before_the_sheet_is_laid_out(cli, tmp_path):
    far_cell(tmp_path / "far.xlsx")
    started = time.perf_counter()
    assert refused(
        cli("audit", "far.xlsx", "--format", "saipe", "--epsilon", 1),
        "at most 10,000,000 cells, got 1,048,576 rows of 16,384",
    )
    assert time.perf_counter() - started < 10


def test_a_decoder_is_held_to_its_time_and_memory(tmp_path, monkeypatch):
    fake = tmp_path / "decode.py"
    monkeypatch.setattr(guarded, "__file__", str(tmp_path / "apart.py"))
    monkeypatch.setattr(guarded, "SECONDS", 0.5)
    fake.write_text("import time\ntime.sleep(30)\n")
    with pytest.raises(InputError, match=r"book: must be read within 0.5 s, got a file that takes longer"):
        guarded.decoded("workbook", "book", b"")
    monkeypatch.setattr(guarded, "SECONDS", 30.0)
    real = Path(decode.__file__).read_text()
    fake.write_text(real.replace('"workbook": workbook}', '"workbook": lambda *_: ({}, bytes(1 << 34))}'))
    with pytest.raises(InputError, match=r"book: must be decoded in 8,589,934,592 bytes of memory, and is not"):
        guarded.decoded("workbook", "book", b"")


def test_gzip_has_a_limit(cli, monkeypatch):
    monkeypatch.setattr(source, "FREE", 1 << 16)
    Path("bomb.csv.gz").write_bytes(gzip.compress(b"id,count\na," + b"1" * (1 << 22)))
    assert refused(cli("audit", "bomb.csv.gz", "--epsilon", 1), "bomb.csv.gz: gzip data must unpack to at most")
    Path("good.csv.gz").write_bytes(gzip.compress(COUNTS.encode()))
    assert cli("audit", "good.csv.gz", "--epsilon", 1, "--postprocess", "nonnegative")[0] == 0
    monkeypatch.setattr(source, "MOST", 10)
    assert refused(
        cli("audit", "counts.csv", "--epsilon", 1), "counts.csv: an input must have at most 10 bytes, got more"
    )


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero", "folder"])
def test_an_input_is_a_regular_file(cli, kind):
    name = kind
    if kind == "fifo":
        os.mkfifo("fifo.csv")
        name = "fifo.csv"
    elif kind == "folder":
        Path("folder.csv").mkdir()
        name = "folder.csv"
    said = "must be a file, got a directory" if kind == "folder" else "must be a regular file, got a pipe or a device"
    assert refused(cli("audit", name, "--format", "csv", "--epsilon", 1), said)


# ---- the edges: terminal, pipes, arguments, clashes ----

FAIRPOST = [sys.executable, "-m", "fairpost"]
QUICK = ("--epsilon", "1", "--postprocess", "nonnegative")


def test_escapes_in_ids_do_not_reach_the_terminal(cli):
    for bad in ("\x1b[2J", "\x9b31m", "\x07", "\x7f", "\u2028"):
        Path("bad.csv").write_text(f"id,count\nx{bad}y,3\nb,40\n")
        for words in (
            ["audit", "bad.csv", *QUICK],
            ["allocate", "bad.csv"],
            ["audit", "bad.csv", "--id", f"x{bad}", *QUICK],
        ):
            _, out, err = cli(*words)
            assert out + err
            assert bad not in out + err, words


def test_formulas_are_marked_on_request_alone(cli):
    Path("f.csv").write_text("id,count\n=cmd|' /C calc'!A0,-3\n+x,40\n-5,8\nplain,1\n")
    names = ["=cmd|' /C calc'!A0", "+x", "-5", "plain"]
    for words, want in (([], names), (["--csv-safe"], ["'=cmd|' /C calc'!A0", "'+x", "-5", "plain"])):
        code, out, _ = cli("project", "f.csv", *words)
        rows = list(csv.DictReader(io.StringIO(out)))
        assert (code, [r["id"] for r in rows]) == (0, want)
        assert [float(r["noisy_count"]) for r in rows] == [-3, 40, 8, 1]


def test_outputs_that_clash_are_refused_before_the_work(cli, monkeypatch):
    from fairpost.cli import auditing

    monkeypatch.setattr(auditing, "compare", lambda *_, **__: pytest.fail("the work began"))
    sim = ("--method", "monte-carlo", *QUICK)
    assert refused(
        cli("audit", "counts.csv", *sim, "--checkpoint", "x", "--json", "x"), "a place of its own", "another output"
    )
    assert refused(
        cli("audit", "counts.csv", *sim, "--checkpoint", "counts.csv"), "a place of its own", "the input counts.csv"
    )
    assert refused(cli("audit", "counts.csv", *sim, "--checkpoint", "no/x"), "the folder of an output must exist")
    assert refused(cli("audit", "counts.csv", *sim, "--checkpoint", "."), "must be a file, got a directory")
    assert refused(cli("audit", "counts.csv", *QUICK, "--json", "no/x"), "the folder of an output must exist")
    assert sorted(p.name for p in Path().iterdir()) == ["counts.csv"]


def spawn(words, **given):
    return subprocess.run([*FAIRPOST, *words], stderr=subprocess.PIPE, check=False, timeout=100, **given)


def test_a_full_disk_behind_stdout_is_one_line(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    (tmp_path / "c.csv").write_text(COUNTS)
    with open("/dev/full", "wb") as full:
        done = spawn(["project", "c.csv"], stdout=full, cwd=tmp_path)
    last = done.stderr.decode().splitlines()[-1]
    assert (done.returncode, last) == (3, "fairpost: the system refuses to read or write: No space left on device")
    assert b"Traceback" not in done.stderr
    assert b"ignored" not in done.stderr


def test_a_closed_pipe_ends_with_141(tmp_path):
    (tmp_path / "c.csv").write_text(COUNTS)
    read, write = os.pipe()
    os.close(read)
    done = spawn(["project", "c.csv"], stdout=write, cwd=tmp_path)
    os.close(write)
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr
    assert b"ignored" not in done.stderr


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (
            [
                "sweep",
                "c.csv",
                "--epsilons",
                "0.1",
                "1",
                "--points",
                "2",
                "--postprocess",
                "simplex",
                "--html",
                "a.html",
                "--csv",
                "a.csv",
            ],
            ["a.html", "a.csv"],
        ),
        (["audit", "c.csv", *QUICK, "--json", "a.json", "--csv", "-"], ["a.json"]),
        (["project", "c.csv", "--json", "a.json"], ["a.json"]),
        (["demo", "--html", "a.html"], ["a.html"]),
        (
            ["audit", "t.csv", "--levels", "s:1,b:2", "--level-sigma", "0,1", "--runs", "50", "--csv", "a.csv"],
            ["a.csv"],
        ),
    ],
)
def test_a_closed_stdout_stops_no_file(tmp_path, monkeypatch, words, files):
    """`fairpost ... | head`: whoever reads the screen may leave; what was asked for as files is there, as without a screen."""
    (tmp_path / "c.csv").write_text(COUNTS)
    (tmp_path / "t.csv").write_text("id,count\naa,3\nab,40\nba,9\n")
    monkeypatch.chdir(tmp_path)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone, contextlib.redirect_stdout(gone), pytest.raises(SystemExit) as ended:
        main(args=words, prog_name="fairpost")
    assert ended.value.code == 141
    made = {name: Path(name).read_text(encoding="utf-8") for name in files}
    assert call(*words, "--force").returncode == 0
    for name, text in made.items():
        assert len(text.splitlines()) == len(Path(name).read_text(encoding="utf-8").splitlines()) > 1


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_narrow_terminal_gets_question_marks(tmp_path, encoding):
    (tmp_path / "c.csv").write_text("id,count\nЛондон,3\nb,40\n", encoding="utf-8")
    done = spawn(
        ["audit", "c.csv", *QUICK],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    assert "??????" in done.stdout.decode(encoding)


def test_arguments_that_are_not_utf8(tmp_path):
    (tmp_path / "c.csv").write_text(COUNTS)
    words = [b"audit", b"c.csv", *(w.encode() for w in QUICK), b"--title", b"\xff\xfe", b"--json", b"\xffo.json"]
    done = subprocess.run(
        [*map(os.fsencode, FAIRPOST), *words], capture_output=True, check=False, timeout=100, cwd=os.fsencode(tmp_path)
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    made = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xffo.json"))
    assert "udcff" in json.loads(made.read_text(encoding="utf-8"))["command"]
    done = subprocess.run(
        [*map(os.fsencode, FAIRPOST), b"audit", b"\xff.csv", b"--epsilon", b"1"],
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


PRESSED = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    pass
whole = True
"""


WAITED = """
import sys, time
from fairpost.compiled import interrupts
begun = time.monotonic()
try:
    with interrupts.noticed():
        import quick
        time.sleep(30)
except KeyboardInterrupt:
    print("interrupted", sys.modules["quick"].whole, time.monotonic() - begun < 20)
interrupts.PATIENCE = 0.3
begun = time.monotonic()
try:
    with interrupts.noticed():
        import slow
except KeyboardInterrupt:
    print("interrupted", "slow" in sys.modules, 0.3 <= time.monotonic() - begun < 20)
"""


def test_an_interrupt_waits_for_the_import_under_way(tmp_path):
    """A half-made module may turn it into another error, or never be imported again; but no import is waited for without end."""
    (tmp_path / "quick.py").write_text(PRESSED.format(seconds=0.2))
    (tmp_path / "slow.py").write_text(PRESSED.format(seconds=60))
    done = subprocess.run(
        [sys.executable, "-c", WAITED], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert done.stderr == ""
    assert done.stdout == "interrupted True True\ninterrupted False True\n"


def test_an_interrupt_that_breaks_an_import_ends_with_the_same_line():
    """Numpy cannot be imported a second time in a process; the last line needs none of it."""
    hidden = (
        "import sys\n"
        "from fairpost.cli import main\n"
        "assert 'numpy' not in sys.modules\n"
        "class Once:\n"
        "    asked = False\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy' and Once.asked:\n"
        "            raise ImportError('cannot load module more than once per process')\n"
        "        if name == 'numpy':\n"
        "            Once.asked = True\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Once())\n"
        "main(['audit', 'in.csv', '--epsilon', '1'])\n"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (130, "fairpost: interrupted, nothing was written\n")
