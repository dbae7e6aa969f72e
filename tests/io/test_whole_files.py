"""Files that are written: whole or absent, for their owner alone, on the disk before anybody is told, and swept after a kill."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fairpost import whole
from fairpost.io import write_whole
from fairpost.paper import folder


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
