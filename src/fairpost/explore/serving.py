"""The server of the live page: uvicorn, with a limit on the time that a header may take.

uvicorn gives a connection all the time in the world to send its first line, and answers 503 to everybody once there are
`limit_concurrency` connections. So whoever opens a few hundred and sends nothing would lock the owner out.
"""

from __future__ import annotations

import asyncio
import signal
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""A connection that has not sent the whole header of a request by then is closed."""
MOST_WAITING = 96
"""At most so many may be about to send one; of more, the oldest is closed. Fewer than `MOST`, so that the owner's find a place."""
MOST = 128
"""Connections, and requests at a time."""


class InTime(H11Protocol):
    """A connection whose headers come in time."""

    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It is about to send a header."""
        super().connection_made(transport)
        self.wait()
        waiting = [c for c in self.connections if isinstance(c, InTime) and c.timer is not None]
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda c: c.timer.when() if c.timer else 0.0).drop()

    def data_received(self, data: bytes) -> None:
        """A part of a header begins the time, a whole one ends it; a body may take its own."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.done()
        elif self.timer is None:
            self.wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody to wait for."""
        self.done()
        super().connection_lost(exc)

    def wait(self) -> None:
        """From now on."""
        self.timer = self.loop.call_later(HEADER_SECONDS, self.drop)

    def done(self) -> None:
        """No longer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def drop(self) -> None:
        """Too late, or too many."""
        self.done()
        self.transport.close()


class Server(uvicorn.Server):
    """A server that goes on where a signal was set to be ignored before it began (a job in the background of a script)."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.before = {number: signal.getsignal(number) for number in signal.valid_signals()}

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, unless the signal is ignored."""
        if self.before[signal.Signals(sig)] is not signal.SIG_IGN:
            super().handle_exit(sig, frame)


def server(app: Any, **more: Any) -> uvicorn.Server:
    """For one person on this machine: quiet, without web sockets, and gone a second after it was asked to."""
    usual: dict[str, Any] = {
        "http": InTime, "ws": "none", "lifespan": "on", "log_level": "warning", "access_log": False, "server_header": False,
        "date_header": False, "limit_concurrency": MOST, "timeout_keep_alive": 30, "timeout_graceful_shutdown": 1,
    }  # fmt: skip
    return Server(uvicorn.Config(app, **usual | more))
