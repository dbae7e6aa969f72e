"""What several files of results look at."""

import pytest

import fairpost as fp
from support.six_districts import MONEY, NOISE, X


@pytest.fixture(scope="module")
def found():
    return fp.compare(X, NOISE, ["baseline", "pos"], budget=MONEY, targets={"max_loss": 200, "max_relative_loss": 4})
