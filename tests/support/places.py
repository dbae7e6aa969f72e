"""Where things are: the repository, its tests, what comes with them, and its tools."""

import os
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
TOOLS = ROOT / "tools"
FILES = TESTS / "support" / "files"
"""Data and schemas that come with the tests."""
DATA = (FILES, *(Path(name) for name in [os.environ.get("FAIRPOST_DATA")] if name))
"""Where real data are looked for: the extract of the tests, and the folder of whole files, which only some machines have."""


def with_tools() -> None:
    """The programs in tools can be imported."""
    if str(TOOLS) not in sys.path:
        sys.path.append(str(TOOLS))


def key(path: Path) -> str:
    """A test file as `long_tests` and the order name it: release/test_ledger."""
    return path.relative_to(TESTS).with_suffix("").as_posix()
