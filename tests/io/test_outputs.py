"""Files that are written: whole or absent, for their owner alone, on the disk before anybody is told, swept after a kill; their tables."""

import csv
import io
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fairpost as fp
from fairpost import whole
from fairpost.errors import FairpostError, InputError
from fairpost.io import check_free, entities_csv, read_counts, write_whole
from support.tables import put


def test_outputs_are_free(tmp_path):
    taken = put(tmp_path, "a.csv", "old")
    with pytest.raises(InputError, match=r"a.csv: nothing is overwritten without --force, and the file exists$"):
        check_free([taken])
    check_free([taken, tmp_path / "b.csv"], force=True)
    (tmp_path / "link.csv").symlink_to(taken)
    for outputs in ([tmp_path / "b", tmp_path / "." / "b"], [taken, tmp_path / "link.csv"]):
        with pytest.raises(InputError, match="an output must have a place of its own, got that of another output"):
            check_free(outputs, force=True)
    with pytest.raises(InputError, match="an output must have a place of its own, got that of the input"):
        check_free([tmp_path / "link.csv"], force=True, inputs=[taken])
    with pytest.raises(InputError, match="the folder of an output must exist"):
        check_free([tmp_path / "no" / "b.csv"])
    with pytest.raises(InputError, match="an output must be a file, got a directory"):
        check_free([tmp_path], force=True)
    with pytest.raises(InputError, match="an output must be a file, got a device or a pipe"):
        check_free(["/dev/null"], force=True)
    for strange in ("a\0b", str(taken / "x"), "x" * 5000):
        with pytest.raises(InputError) as caught:
            check_free([strange])
        assert len(str(caught.value).splitlines()) == 1


def test_outputs_are_written_whole(tmp_path):
    old = put(tmp_path, "old.csv", "old")
    old.chmod(0o640)
    (tmp_path / "link").symlink_to(old)
    outputs = {tmp_path / "a": b"\0\1", str(tmp_path / "b"): "é\n", tmp_path / "link": lambda file: file.write(b"new")}
    with pytest.raises(InputError, match="nothing is overwritten"):
        write_whole(outputs)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "old.csv"]
    write_whole(outputs, force=True, private=False)
    assert (tmp_path / "a").read_bytes() == b"\0\1"
    assert (tmp_path / "b").read_bytes() == "é\n".encode()
    assert (old.read_bytes(), (tmp_path / "link").is_symlink()) == (b"new", True)
    assert old.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "link", "old.csv"]


def full(file):
    file.write(b"half")
    raise OSError(28, "No space left on device")


def interrupt(file):
    file.write(b"half")
    raise KeyboardInterrupt


def broken(file):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("writer", "kind"), [(full, FairpostError), (interrupt, KeyboardInterrupt), (broken, ZeroDivisionError)]
)
def test_a_failure_half_way_leaves_nothing(tmp_path, writer, kind):
    old = put(tmp_path, "old", "old")
    with pytest.raises(kind) as caught:
        write_whole({tmp_path / "a": "first", old: "second", tmp_path / "c": writer}, force=True)
    assert kind is not FairpostError or str(caught.value).endswith("c: cannot be written: No space left on device")
    assert old.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("kind", [PermissionError, KeyboardInterrupt])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("links", [True, False])
def test_a_failure_between_two_renames_takes_the_first_back(tmp_path, monkeypatch, kind, when, links):
    old = put(tmp_path, "old", "old")
    done = []
    real = Path.replace

    def replace(self, target):
        done.append(self.suffix)
        if len(done) == 3:
            if when == "after":
                real(self, target)
            raise kind(13, "Permission denied")
        return real(self, target)

    def no_link(*_):
        raise OSError("no links here")

    monkeypatch.setattr(Path, "replace", replace)
    if not links:
        monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(FairpostError if kind is PermissionError else kind):
        write_whole({tmp_path / "a": "first", old: "second", tmp_path / "c": "third"}, force=True)
    assert done == [".tmp", ".tmp", ".tmp", ".old"]
    assert old.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    place = tmp_path / "a"
    with pytest.raises(InputError, match="nothing is overwritten"):
        write_whole({place: lambda file: place.write_text("other")})
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "other")]


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """Set it, and put the old one back."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


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


def test_where_there_are_no_links_the_copy_of_an_old_file_is_never_wider(tmp_path, monkeypatch, umask):
    umask(0)
    seen, copystat, old = [], shutil.copystat, put(tmp_path, "old", "confidential")
    old.chmod(0o600)

    def no_link(*_):
        raise OSError("no links here")

    def copied(source, target):
        seen.append((mode(Path(target)), Path(target).read_text()))
        copystat(source, target)

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(shutil, "copystat", copied)
    write_whole({old: "new"}, force=True)
    assert seen == [(0o600, "confidential")]
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


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


# ---- tables ----


def test_the_table_of_audits_has_a_column_for_what_each_knows_and_is_read_back(tmp_path):
    """Exact: a bound, an estimate or an expansion's error; simulated: a standard error too, and which is which."""
    counts = fp.Counts(
        [3, 40, 0.5] * 20, ids=[f"0{i}" for i in range(60)], weights=[1, 2, 1] * 20, groups=["x", "", "x"] * 20
    )
    noise, shares = fp.Laplace(5.0), {"budget": 1e6}
    results = [
        fp.audit(counts, noise, "simplex", engine="monte-carlo", runs=500),
        fp.audit(counts, noise, "pos", **shares),
    ]
    results += [fp.audit(counts, noise, "pos-threshold", engine=fp.Expansion())]
    text = entities_csv(results)
    rows = list(csv.DictReader(io.StringIO(text)))
    parts = ["bias", "half_width", "accuracy", "standard_deviation", "zero"]
    due, drawn = ["relative_bias", "relative_half_width"], [*parts[:3], "standard_error", *parts[3:]]
    tail = [f"simplex_{p}" for p in [*drawn, *due]] + [f"pos_{p}" for p in [*parts, "bias_money", *due]]
    tail += [f"pos_threshold_{p}" for p in [*parts, *due]]
    assert list(rows[0]) == ["id", "count", "weight", "group", "true_count", "true_share", *tail, "confidential"]
    assert {row["confidential"] for row in rows} == {"computed from true counts"}
    kinds = ("interval", "estimate", "expansion")
    for name, kind, result in zip(("simplex", "pos", "pos_threshold"), kinds, results, strict=True):
        assert {row[f"{name}_accuracy"] for row in rows} == {kind}
        numbers = {"bias": result.bias, "half_width": result.half_width, "standard_deviation": result.deviation}
        for part, values in (numbers | {"zero": result.zero}).items():
            assert [float(row[f"{name}_{part}"]) for row in rows] == values.tolist()
    assert [float(row["pos_bias_money"]) for row in rows] == results[1].money.tolist()
    assert [float(row["true_share"]) for row in rows] == results[1].truth.tolist()
    sample = results[0].sample
    assert [float(row["simplex_standard_error"]) for row in rows] == sample.standard_error.tolist()
    assert sample.half_width.max() > 2 * sample.standard_error.max()
    entities = [r.to_dict(entities=True)["entities"][3] for r in (results[2], results[0])]
    assert [(e["accuracy"], e["standard_error"] is None) for e in entities] == [
        ("expansion", True),
        ("interval", False),
    ]
    for groups in (["n", "s", "n"], None):
        some = fp.Counts([3, 40, 0.5], ids=["01", "b", "c"], weights=[1, 2, 1], groups=groups)
        again = read_counts(put(tmp_path, "a.csv", entities_csv([fp.audit(some, noise, "nonnegative")])))
        assert (again.ids, again.groups) == (some.ids, some.groups)
        assert np.array_equal([again.values, again.weights], [some.values, some.weights])


def test_the_limits_of_a_table():
    def result(x, ids=None):
        return fp.audit(fp.Counts(x, ids=ids), fp.Laplace(2.0), "sum-clipped", engine="exact")

    (row, other) = csv.DictReader(io.StringIO(entities_csv([result([3, 40])] * 2)))
    assert list(row)[:5] == ["id", "count", "weight", "true_count", "sum_clipped_bias"]
    assert row["sum_clipped_bias"] == row["sum_clipped_2_bias"]
    assert (other["count"], other["true_count"]) == ("40", "40")
    for others, says in (([], "at least one result"), ([result([3, 41])], "have the same true_counts"),
                         ([result([3, 40], ["a", "b"])], "about the same entities")):  # fmt: skip
        with pytest.raises(InputError, match=says):
            entities_csv([result([3, 40]), *others] if others else [])


def test_a_table_that_a_spreadsheet_takes_for_no_formula(cli):
    ids = ["=1+2", "-3", "@x", "+a", "+5"]
    Path("n.csv").write_text(
        "id,count\n" + "".join(f"{i},{x}\n" for i, x in zip(ids, (0.1, 2, 1e15, 4, 0), strict=True))
    )
    plain, safe = (cli("project", "n.csv", "--postprocess", "none", *more)[1] for more in ((), ("--csv-safe",)))
    rows = [list(csv.reader(io.StringIO(text)))[1:] for text in (plain, safe)]
    assert [row[0] for row in rows[0]] == ids
    assert [row[0] for row in rows[1]] == ["'=1+2", "-3", "'@x", "'+a", "+5"]
    assert [row[1:] for row in rows[0]] == [row[1:] for row in rows[1]]
    assert [float(row[1]) for row in rows[1]] == [0.1, 2.0, 1e15, 4.0, 0.0]
