"""A question that can be withdrawn: whoever asks holds a token, and every engine looks at it between its steps.

    token = cancel.Token()
    with cancel.by(token):
        fp.audit(...)          # another thread calls token.cancel(): this raises errors.Cancelled

The token travels with the context of the call (`contextvars`), not through the signatures: what is asked does not change
because somebody may lose interest, and neither does one bit of the answer. `parallel` hands the context to its threads.
Looking costs a dictionary lookup, so it may stand inside any loop whose steps take a microsecond or more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fairpost.errors import Cancelled


class Token:
    """Set once, from any thread; `reason` is what the error says."""

    def __init__(self) -> None:
        self._set, self._reason = threading.Event(), "cancelled by the caller"

    def cancel(self, reason: str | None = None) -> None:
        """Withdraw the question. The first reason stays."""
        if not self._set.is_set():
            self._reason = reason or self._reason
            self._set.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was withdrawn."""
        return self._set.is_set()

    @property
    def reason(self) -> str:
        """Why, in one line."""
        return self._reason


_current: ContextVar[Token | None] = ContextVar("fairpost-cancel", default=None)


@contextmanager
def by(token: Token | None) -> Iterator[Token | None]:
    """What is asked meanwhile, in this thread or task, ends with `Cancelled` once the token is set."""
    before = _current.set(token)
    try:
        yield token
    finally:
        _current.reset(before)


def requested() -> bool:
    """Whether the question under way was withdrawn."""
    token = _current.get()
    return token is not None and token.cancelled


def check() -> None:
    """Raise `Cancelled` if the question under way was withdrawn: the place for it is between two steps."""
    token = _current.get()
    if token is not None and token.cancelled:
        raise Cancelled(token.reason)
