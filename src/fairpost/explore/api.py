"""The routes under /api: JSON in, the documents of `--json` out; long ones as a stream of lines where that is asked for.

Whoever sends `Accept: application/x-ndjson` gets one JSON object per line: `interpolated` (the picture, until the exact one is
there), `progress` (done, of), and at the end `done` (result), `cancelled` (reason) or `error`. Everybody else gets the result.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from fairpost import cancel
from fairpost.documents import json_of
from fairpost.errors import Cancelled, InputError, ParameterError
from fairpost.explore import export, openapi, tables, work
from fairpost.explore.choices import Choices, flag, keys, text, whole
from fairpost.explore.jobs import event
from fairpost.explore.session import Session
from fairpost.explore.uploads import upload_of
from fairpost.io import entities_csv
from fairpost.io.files import columns_csv
from fairpost.report import allocation_page
from fairpost.results.allocation import allocation_columns

STREAM = "application/x-ndjson"
TAB = "x-fairpost-tab"
GONE = "the reader has gone"
Work = Callable[[work.Tell], dict[str, Any]]


def dumps(data: object) -> bytes:
    """Full precision, no infinities; what cannot be written as UTF-8 is written by number."""
    made = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return made.encode(errors="backslashreplace")


def reply(data: object, status: int = 200) -> Response:
    """JSON."""
    return Response(dumps(data), status, media_type="application/json")


def session_of(request: Request) -> Session:
    """What the server holds."""
    found: Session = request.app.state.session
    found.touch()
    return found


async def body(request: Request) -> dict[str, Any]:
    """The JSON object of a request."""
    try:
        found = json_of(await request.body())
    except ValueError:
        raise ParameterError("the body must be JSON, got something else") from None
    return keys(found, set(found) if isinstance(found, dict) else set())


def tab_of(request: Request) -> str:
    """Which tab asks; requests without the header share one."""
    return request.headers.get(TAB, "")[:64]


async def answered(
    request: Request, lane: str, task: Work, early: Callable[[], dict[str, Any] | None] | None = None
) -> Response:
    """Begin a task in a lane of this tab, and answer as the reader wants it."""
    session, loop, token = session_of(request), asyncio.get_running_loop(), cancel.Token()
    if STREAM not in request.headers.get("accept", ""):
        done = await asyncio.wrap_future(
            session.jobs.submit(tab_of(request), lane, lambda: dumps(task(work.silent)), token)
        )
        return Response(done, media_type="application/json")
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def put(line: bytes | None) -> None:
        try:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        except RuntimeError:  # the server has ended
            token.cancel(GONE)

    def tell(count: int, of: int) -> None:
        put(dumps(event("progress", done=count, of=of)))

    def run() -> bytes:
        if early is not None and (found := early()) is not None:
            put(dumps(event("interpolated", result=found)))
        return dumps(task(tell))

    future = session.jobs.submit(tab_of(request), lane, run, token)
    future.add_done_callback(lambda _: put(None))

    async def stream() -> AsyncIterator[bytes]:
        try:
            while (line := await lines.get()) is not None:
                yield line + b"\n"
            yield _last(future) + b"\n"
        finally:
            token.cancel(GONE)

    return StreamingResponse(stream(), media_type=STREAM)


def _last(future: Future[bytes]) -> bytes:
    try:
        return b'{"event":"done","result":' + future.result() + b"}"
    except Cancelled as error:
        return dumps(event("cancelled", reason=str(error)))
    except Exception as error:
        known = known_error(error)
        return dumps(event("error", error=known[1] if known else "this could not be computed"))


def known_error(error: BaseException) -> tuple[int, str] | None:
    """The status and the line of an error that is the user's to know; None for any other."""
    from fairpost.errors import FairpostError
    from fairpost.report.text import clean

    if isinstance(error, Cancelled):
        return 409, clean(error)
    if isinstance(error, InputError):
        return 400, clean(error)
    if isinstance(error, FairpostError):
        return 422, clean(error)
    if isinstance(error, MemoryError):
        return 422, "this needs more memory than there is"
    return None


# ---- data
async def get_state(request: Request) -> Response:
    """What is held."""
    return reply(work.state(session_of(request)))


async def get_openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return reply(openapi.document())


async def post_upload(request: Request) -> Response:
    """A table, as a form; back to the page."""
    session = session_of(request)
    source, mode, format = await upload_of(request)
    await asyncio.to_thread(tables.preview, source, format=format)  # what cannot be read is not held
    session.hold(source, mode, format=format)
    return RedirectResponse("/", 303)


async def get_preview(request: Request) -> Response:
    """The columns and ten rows."""
    session = session_of(request)
    return reply(await asyncio.to_thread(tables.preview, session.table, **session.reading))


async def post_columns(request: Request) -> Response:
    """What the columns mean: JSON, or the form of the page."""
    session = session_of(request)
    form = "json" not in request.headers.get("content-type", "")
    if form:
        async with request.form(max_files=0, max_fields=20) as sent:
            given: dict[str, Any] = {k: v for k, v in sent.items() if v != ""}
    else:
        given = await body(request)
    words: dict[str, Any] = {k: text(k, given.pop(k)) for k in ("unit", "noun", "currency") if k in given}
    await asyncio.to_thread(session.map, given)
    session.defaults |= words
    return RedirectResponse("/", 303) if form else reply(work.state(session))


async def post_forget(request: Request) -> Response:
    """Drop everything now."""
    session_of(request).forget()
    return reply({"forgotten": True}) if "json" in request.headers.get("accept", "") else RedirectResponse("/", 303)


async def post_stop(request: Request) -> Response:
    """End what this tab has under way; a simulation answers with what it has."""
    given = keys(await body(request), {"lane"})
    lane = None if given.get("lane") is None else text("lane", given["lane"])
    return reply({"stopped": session_of(request).jobs.stop(tab_of(request), lane)})


# ---- the officer
async def post_audit(request: Request) -> Response:
    """The JSON of `fairpost audit`."""
    session, given = session_of(request), await body(request)
    entities = flag("entities", given.pop("entities", False))
    choices = Choices.of(given)
    return await answered(request, "audit", lambda tell: work.audit_document(session, choices, entities, tell))


async def post_picture(request: Request) -> Response:
    """The picture of the page: interpolated at once where the sweep has come that far, then exact."""
    session, given = session_of(request), await body(request)
    have = given.pop("have", None)
    quick = flag("quick", given.pop("quick", False))
    known = None if have is None else text("have", have)
    choices = Choices.of(given)
    work.check(session, choices)

    def early() -> dict[str, Any] | None:
        return work.quick_picture(session, choices, known)

    def task(tell: work.Tell) -> dict[str, Any]:
        found = early() if quick else None
        return work.picture_of(session, choices, known, tell) if found is None else found

    return await answered(request, "picture", task, None if quick else early)


async def post_plan(request: Request) -> Response:
    """The JSON of `fairpost plan`."""
    session, choices = session_of(request), Choices.of(await body(request))
    return await answered(request, "plan", lambda tell: work.plan_document(session, choices, tell))


async def post_sweep(request: Request) -> Response:
    """The JSON of `fairpost sweep`."""
    session, choices = session_of(request), Choices.of(await body(request))
    return await answered(request, "sweep", lambda tell: work.sweep_document(session, choices, tell))


async def post_frontier(request: Request) -> Response:
    """Fairness against accuracy."""
    session, choices = session_of(request), Choices.of(await body(request))
    return await answered(request, "frontier", lambda tell: work.frontier_document(session, choices))


async def post_levels(request: Request) -> Response:
    """The JSON of `fairpost audit --levels`."""
    session, given = session_of(request), await body(request)
    entities = flag("entities", given.pop("entities", False))
    most = whole("most", given.pop("most", 0))
    chosen = work.LevelChoices.of(given)
    return await answered(request, "levels", lambda tell: work.levels_document(session, chosen, entities, most, tell))


# ---- the analyst
async def post_allocate(request: Request) -> Response:
    """The JSON of `fairpost allocate`."""
    session, chosen = session_of(request), work.ShareChoices.of(await body(request))
    return await answered(request, "allocate", lambda tell: work.shares_document(session, chosen, tell))


# ---- files
async def post_export(request: Request) -> Response:
    """A file to keep: report, csv, json, command or python."""
    session, given = session_of(request), await body(request)
    kind = request.path_params["kind"]
    if kind not in export.KINDS:
        raise ParameterError(f"an export must be one of {', '.join(export.KINDS)}, got {kind[:40]!r}")
    if session.mode == "analyst":
        chosen = work.ShareChoices.of(given)
        made = await asyncio.to_thread(_shares_exported, session, chosen, kind)
    else:
        choices = Choices.of(given)
        made = await asyncio.to_thread(_exported, session, choices, kind)
    name, media = export.NAMES[kind]
    head = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(made, media_type=media, headers=head)


def _exported(session: Session, choices: Choices, kind: str) -> bytes:
    data = session.mapped
    if kind == "command":
        lines = [export.command(data, choices, outputs=("--html", "report.html", "--csv", "biases.csv"))]
        lines += [export.command(data, choices, "plan")] if choices.targets else []
        return ("\n".join(lines) + "\n").encode(errors="backslashreplace")
    if kind == "python":
        return export.python(data, choices).encode(errors="backslashreplace")
    results = work.audits(session, choices)
    if kind == "json":
        return dumps(work.audit_document(session, choices, True))
    if kind == "csv":
        return entities_csv(results).encode(errors="backslashreplace")
    return export.report(data, choices, results, now()).encode(errors="backslashreplace")


def now() -> str:
    """The date and the time to the minute."""
    return datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")


def _shares_exported(session: Session, chosen: work.ShareChoices, kind: str) -> bytes:
    data, outputs = session.mapped, ("--html", "shares.html", "--csv", "shares.csv")
    _ = data.y
    if kind in ("command", "python"):
        made = (
            export.share_command(data, chosen, outputs) + "\n"
            if kind == "command"
            else export.share_python(data, chosen)
        )
        return made.encode(errors="backslashreplace")
    if kind == "json":
        return dumps(work.shares_document(session, chosen))
    found = work.shares(session, chosen)
    if kind == "csv":
        return columns_csv(allocation_columns(found)).encode(errors="backslashreplace")
    words: Any = {k: v for k, v in session.defaults.items() if k in ("unit", "noun", "currency")}
    page = allocation_page(
        found, command=export.share_command(data, chosen, outputs), made=now(), source=data.name,
        lines=export.share_python(data, chosen), **words,
    )  # fmt: skip
    return page.encode(errors="backslashreplace")
