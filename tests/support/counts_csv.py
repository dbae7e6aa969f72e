"""A command called in a folder of its own that holds counts.csv."""

import sys
from pathlib import Path

import pytest

COUNTS = "id,count,group\na,3,n\nb,40,n\nc,9,s\nd,500,s\ne,0,n\n"


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
