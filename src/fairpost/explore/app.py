"""The application: pages, files of the page, the API, and the guard around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from fairpost import __version__
from fairpost.errors import FairpostError
from fairpost.explore import api, pages
from fairpost.explore.safety import START, Guard, Keys, Refused
from fairpost.explore.session import Session
from fairpost.explore.uploads import MOST
from fairpost.report.page import SCRIPTS, file, style

OURS = ("explore.js", "live.js", "analyst.js", "levels.js")


def own(name: str) -> str:
    """A file of this package as text."""
    return resources.files("fairpost.explore").joinpath("files").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def program() -> str:
    """The script of the live page: the pieces of the report's, and ours, in one scope."""
    parts = [*(file(name) for name in SCRIPTS), *(own(name) for name in OURS)]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


@lru_cache(maxsize=1)
def sheet() -> str:
    """The style of the live page."""
    return style() + own("explore.css")


async def page_script(request: Request) -> Response:
    """The script."""
    return Response(program(), media_type="text/javascript")


async def page_style(request: Request) -> Response:
    """The style."""
    return Response(sheet(), media_type="text/css")


async def home(request: Request) -> Response:
    """The page: an upload, a mapping, or the live page."""
    session = api.session_of(request)
    return HTMLResponse(await asyncio.to_thread(pages.page, session))


async def start(request: Request) -> Response:
    """The link of the terminal: its token becomes a cookie, once."""
    keys: Keys = request.app.state.keys
    guard: dict[str, Any] = request.app.state.about
    if (secret := keys.exchange(request.query_params.get("token", ""))) is None:
        if keys.known(request.cookies.get(guard["cookie"])):
            return RedirectResponse("/", 303)
        return HTMLResponse(pages.used(), 401)
    if guard["told"] is not None:
        guard["told"](keys.token)
    # not a redirect: a link that was followed from elsewhere would not carry a strict cookie through one
    out = HTMLResponse(pages.entered())
    out.set_cookie(guard["cookie"], secret, httponly=True, samesite="strict", path="/")
    return out


ROUTES = [
    Route("/", home, methods=["GET"]),
    Route(START, start, methods=["GET"]),
    Route("/page.js", page_script, methods=["GET"]),
    Route("/page.css", page_style, methods=["GET"]),
    Route("/api/state", api.get_state, methods=["GET"]),
    Route("/api/openapi.json", api.get_openapi, methods=["GET"]),
    Route("/api/preview", api.get_preview, methods=["GET"]),
    Route("/api/upload", api.post_upload, methods=["POST"]),
    Route("/api/columns", api.post_columns, methods=["POST"]),
    Route("/api/forget", api.post_forget, methods=["POST"]),
    Route("/api/stop", api.post_stop, methods=["POST"]),
    Route("/api/audit", api.post_audit, methods=["POST"]),
    Route("/api/picture", api.post_picture, methods=["POST"]),
    Route("/api/plan", api.post_plan, methods=["POST"]),
    Route("/api/sweep", api.post_sweep, methods=["POST"]),
    Route("/api/frontier", api.post_frontier, methods=["POST"]),
    Route("/api/levels", api.post_levels, methods=["POST"]),
    Route("/api/allocate", api.post_allocate, methods=["POST"]),
    Route("/api/export/{kind}", api.post_export, methods=["POST"]),
]


async def _said(request: Request, error: Exception) -> Response:
    """One line: as a page to a form, as JSON to a script."""
    known = api.known_error(error)
    assert known is not None
    return _line(request, *known)


async def _refused(request: Request, error: Exception) -> Response:
    """A body that turned out too long."""
    assert isinstance(error, Refused)
    return Response(f"{error}\n", error.status, media_type="text/plain", headers={"connection": "close"})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _line(request, error.status_code, str(error.detail))


def _line(request: Request, status: int, line: str) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(pages.failed(line), status)
    return api.reply({"error": line}, status)


LOOK = 20.0
"""Seconds between two looks at whether everybody has gone."""


def create(
    session: Session, keys: Keys, port: int, *, upload: int = MOST, host: str = "127.0.0.1",
    told: Callable[[str], None] | None = None,
) -> Guard:  # fmt: skip
    """The guarded application; `told` is called with the next token whenever one was used."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(LOOK)
                session.expire()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            session.forget()
            session.jobs.close()

    handlers: Any = {Refused: _refused, FairpostError: _said, MemoryError: _said, HTTPException: _http}
    app = Starlette(routes=ROUTES, exception_handlers=handlers, lifespan=life)
    app.router.redirect_slashes = False
    app.state.session, app.state.keys = session, keys
    guard = Guard(app, keys, port, upload, host)
    app.state.about = {"cookie": guard.cookie, "told": told, "version": __version__}
    return guard
