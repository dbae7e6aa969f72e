"""The exception tree.

    FairpostError
    ├── InputError (ValueError)       what was handed in breaks a rule: rule, value, place
    │   ├── CountsError               counts, weights, ids or groups
    │   ├── ParameterError            a number or a name: epsilon, sigma, total, runs, a method
    │   └── InfeasibleError           no v satisfies A v = b (with v >= 0)
    ├── UnsupportedError              an engine or mechanism cannot do this, and says why
    ├── ToleranceError                an engine's own error estimate stays above the tolerance
    ├── LostError                     a cluster that computed is gone; a checkpoint keeps what was done
    ├── Cancelled                     the caller withdrew the question; `reached` is what was found
    ├── BudgetError                   a release does not fit into its budget; nothing was charged
    ├── UnfinishedError               a release was charged and is not finished
    └── LedgerError                   a privacy-budget ledger fails its check

A caller who wants one net catches `FairpostError`. Every message is one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LONGEST = 60
"""A value longer than this is shortened in a message."""


def value(given: object) -> str:
    """A value as it stands in a message: quoted where it is text, shortened, on one line."""
    text = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class FairpostError(Exception):
    """Anything that fairpost raises on purpose."""


class InputError(FairpostError, ValueError):
    """The input breaks a rule; the message names the rule, the value and the place."""


class CountsError(InputError):
    """Counts, weights, ids or groups are not valid."""


class ParameterError(InputError):
    """A parameter is outside its range or a name is not known."""


class InfeasibleError(InputError):
    """The constraints have no solution."""


class UnsupportedError(FairpostError):
    """The engine or mechanism does not cover this case; the message says why."""


class ToleranceError(FairpostError):
    """The result's own error estimate does not reach the tolerance asked for; `reached` is what it had found."""

    def __init__(self, message: str, reached: Any = None) -> None:
        super().__init__(message)
        self.reached = reached


class LostError(FairpostError):
    """The scheduler or every worker of a cluster is gone; what was done until then is in the checkpoint, where there is one."""


class Cancelled(FairpostError):
    """The caller withdrew the question (`cancel.Token`).

    `reached` is what had been found by then, or None: for an engine one entry per post-processing (None where there is
    nothing), for `audit` and `compare` the same as results, for `sweep` and `plan` the curve so far. It is made when it is
    asked for, so that nobody waits for it who does not want it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self._make: Callable[[], Any] = lambda: None

    @property
    def reached(self) -> Any:
        """What had been found."""
        found = self._make()
        self._make = lambda: found
        return found

    def reaching(self, make: Callable[[Any], Any]) -> None:
        """From here on `reached` is `make` of what it was."""
        before = self._make
        self._make = lambda: make(before())


class BudgetError(FairpostError):
    """A release does not fit into its budget; the message names limit, spent, asked and the entries. Nothing charged."""


class UnfinishedError(FairpostError):
    """A release was charged and is not finished; the message says whether the noise is kept."""


class LedgerError(FairpostError):
    """A privacy-budget ledger fails its check: an entry was edited, deleted or cut, or an old copy was restored."""
