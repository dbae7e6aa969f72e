"""`fairpost explore`: the live page on this machine."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import cache
from typing import Any, cast

import click

from fairpost.cli import options as o
from fairpost.cli.screen import remark
from fairpost.errors import ParameterError, UnsupportedError
from fairpost.io.reading import Options
from fairpost.results.targets import Targets
from fairpost.study import parts
from fairpost.study.true import AuditStudy


@click.command()
@click.argument("file", type=click.Path(path_type=str), required=False)
@o.options(parts.Table)
@o.options(parts.Reading)
@click.option("--analyst", is_flag=True, help="FILE has noisy counts, which were published: nothing is confidential.")
@o.options(parts.Levels, "levels")
@o.options(parts.Noise)
@o.options(AuditStudy, "rules")
@o.options(parts.Problem, "programme", "base", "budget", "by_group")
@o.options(Targets)
@o.options(parts.MoneyWords, "unit", "noun", "currency")
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address; any other is refused.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0: a free one.  [default: 0]")
@click.option("--open/--no-open", "open_", default=True, show_default=True, help="Open the page in the browser.")
def explore(file: str | None, **given: Any) -> int:
    """A page on this machine: move epsilon and see who pays; try rules on noisy counts.

    The page is served on 127.0.0.1, behind a link that works once. The table stays in memory; nothing is sent or written.
    Without FILE, or without its columns, the page asks for them. Ctrl-C ends it.

    \b
    Example: school districts, with everything mapped
      fairpost explore districts.csv --id leaid --count poor_5_17 \\
          --label name --budget 6.5e9
    """
    from fairpost.explore.safety import loopback

    host = loopback(given["host"])
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise UnsupportedError("the live page needs starlette and uvicorn: install fairpost[explore]") from None
    session = _session(file, given)
    listening = _listening(host, given["port"])
    try:
        _serve(session, listening, host, given["open_"])
    finally:
        listening.close()
    return 0


def _session(file: str | None, given: o.Given) -> Any:
    """What is held at the start: nothing, a table, or a table with its columns."""
    from fairpost.explore.choices import Choices
    from fairpost.explore.session import ROLES, Session
    from fairpost.explore.tables import preview

    session = Session()
    if file is None:
        return session
    reading = cast(
        Options, o.reading(given) | {"say": cache(_say)}
    )  # each note once, and at once: this command does not end
    session.hold(file, "analyst" if given["analyst"] else "officer", **reading)
    typed = o.typed(given)
    noise, words = parts.Noise.from_flat(typed), parts.MoneyWords.from_flat(typed)
    names = ("epsilon", "scale", "sigma", "rho", "delta", "budget", "by_group", "programme")
    defaults = {"mechanism": noise.name, "sensitivity": noise.sensitivity} | {k: typed[k] for k in names if k in typed}
    defaults |= {"unit": words.unit, "noun": words.noun, "currency": words.currency}
    defaults |= {"postprocess": list(typed.get("rules", ()))}
    limits = Targets.from_flat(typed).to_dict()
    choices = Choices.of(defaults | {"targets": limits})
    if not given["analyst"] and noise.given:
        defaults = {k: v for k, v in defaults.items() if k not in ("scale", "sigma", "rho")}
        defaults["epsilon"] = choices.neighbours.epsilon(choices.noise)  # the slider's
        if defaults["epsilon"] is None:
            raise ParameterError("the page shows epsilon, which needs a --delta for the Gaussian pair, got none")
    columns = {role: given[role] for role in ROLES if given.get(role) is not None}
    if "count" in columns or not {"id", "count"} - set(preview(file, **reading)["columns"]):
        session.map(columns | ({"levels": given["levels"]} if given["levels"] else {}))
    session.defaults = defaults | limits | columns
    return session


def _say(line: str) -> None:
    remark(f"note: {line}")


def _listening(host: str, port: int) -> socket.socket:
    """The socket, bound before anything is printed: the address in the link is ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise ParameterError(f"--port must be free, got {port}: {error.strerror}") from None
    return made


def _few_arenas() -> None:
    """Where the C library is glibc: threads share two heaps, and arrays of a megabyte go back to the system when they are
    dropped. Each thread's own heap would keep what it once needed.
    """
    import ctypes

    with suppress(AttributeError, OSError):
        for setting, value in ((-8, 2), (-3, 1 << 20)):  # M_ARENA_MAX, M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(setting, value)


def _serve(session: Any, listening: socket.socket, host: str, opened: bool) -> None:
    import webbrowser

    from fairpost.explore.app import create
    from fairpost.explore.safety import START, Keys
    from fairpost.explore.serving import server

    _few_arenas()
    port, keys = listening.getsockname()[1], Keys()
    place = f"[{host}]" if ":" in host else host

    def link(token: str) -> str:
        return f"http://{place}:{port}{START}?token={token}"

    app = create(
        session,
        keys,
        port,
        host=host,
        told=lambda token: click.echo(f"For another browser, once: {link(token)}", err=True),
    )
    click.echo(f"fairpost explore, on this machine alone: {link(keys.token)}")
    click.echo("The link works once. Ctrl-C ends it.", err=True)
    if opened:
        webbrowser.open(link(keys.token))
    server(app).run(sockets=[listening])
