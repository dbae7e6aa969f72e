"""Checkpoints of a simulation: what was saved comes back, and whatever is damaged, crafted or no file is refused in one line."""

import hashlib
import os

import numpy as np
import pytest

from fairpost.engines.montecarlo.checkpoint import HEAD, Checkpoint
from fairpost.engines.montecarlo.totals import Totals
from fairpost.errors import ParameterError
from fairpost.rules.control import Control


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
    start = len(HEAD) + 64
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
