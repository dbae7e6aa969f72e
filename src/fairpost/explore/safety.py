"""Who may talk to the live page. True counts are on it, so every request passes here first.

- The server listens on the loopback address alone; another one is refused before it starts (`loopback`).
- A link with a one-time token is printed on the terminal. It is exchanged for a cookie (SameSite=Strict, HttpOnly), and the
  token is worth nothing from then on. Without the cookie there is no data, no script and no list of routes.
- DNS rebinding: a foreign name that resolves to 127.0.0.1 still says itself in `Host`, which must be ours.
- Other sites: their requests carry a foreign `Origin` or `Sec-Fetch-Site`, and no cookie, and are refused by each of these.
- The page may load its own script and style and talk to its own server, nothing else (`POLICY`); nothing is kept by the
  browser (`no-store`), framed, or handed to another origin.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fairpost.errors import ParameterError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

START = "/start"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # "no-referrer" would make the Origin of our own forms "null"
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), clipboard-read=()",
}
BODY = 256 << 10
"""Bytes of a request that is no upload."""


def loopback(host: str) -> str:
    """The address, if no other machine can reach it."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        found = None
    if found is None or not found.is_loopback:
        raise ParameterError(
            f"--host must be a loopback address such as 127.0.0.1, got {host!r}: the page shows true counts and has no "
            f"encryption and no accounts, so no other machine may reach it (use an SSH tunnel: ssh -L PORT:127.0.0.1:PORT)"
        )
    return host


class Keys:
    """The one-time token of the link, and the secret that the cookie holds."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)

    def exchange(self, token: str) -> str | None:
        """The secret for the token, which is replaced by a new one; None for any other text."""
        if not hmac.compare_digest(token.encode(errors="replace"), self.token.encode()):
            return None
        self.token = secrets.token_urlsafe(32)
        return self._secret

    def known(self, secret: str | None) -> bool:
        """Whether a cookie holds the secret."""
        return secret is not None and hmac.compare_digest(secret.encode(errors="replace"), self._secret.encode())


class Refused(Exception):
    """A request that is not answered: the status and one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


class Guard:
    """Around the application: refuses, and puts the headers on whatever is answered."""

    def __init__(self, app: Asgi, keys: Keys, port: int, upload: int, host: str = "127.0.0.1") -> None:
        self.app, self.keys, self.upload = app, keys, upload
        names = ("127.0.0.1", "localhost", f"[{host}]" if ":" in host else host)
        self.hosts = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())
        self.cookie = f"fairpost-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        try:
            self._check(scope)
            limit = self.upload if scope["path"] == "/api/upload" else BODY
            await self.app(scope, _limited(scope, receive, limit), _with_headers(send))
        except Refused as error:
            await _say(send, error)

    def _check(self, scope: Scope) -> None:
        given: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = given.get("host", [])
        if len(host) != 1 or host[0].lower() not in self.hosts:
            raise Refused(421, "this server answers to 127.0.0.1 alone, and the request names another host")
        if any(origin.lower() != f"http://{host[0].lower()}" for origin in given.get("origin", [])):
            raise Refused(403, "the request comes from another site")
        if scope["path"] == START and scope["method"] == "GET":
            return  # a link may be followed from anywhere; it needs its token
        if any(site not in ("same-origin", "none") for site in given.get("sec-fetch-site", [])):
            raise Refused(403, "the request comes from another site")
        if not self.keys.known(_cookie(given.get("cookie", []), self.cookie)):
            raise Refused(401, "open the link that `fairpost explore` has printed: this request has no valid cookie")


def _cookie(lines: list[str], name: str) -> str | None:
    for line in lines:
        for part in line.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value
    return None


def _limited(scope: Scope, receive: Receive, limit: int) -> Receive:
    """The body, refused as soon as it is longer than it may be."""
    said = next((v for k, v in scope["headers"] if k.lower() == b"content-length"), b"0")
    if not said.isdigit() or int(said) > limit:
        raise Refused(413, f"a request of this kind must have at most {limit:,} bytes")
    seen = 0

    async def body() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise Refused(413, f"a request of this kind must have at most {limit:,} bytes")
        return message

    return body


def _with_headers(send: Send) -> Send:
    async def out(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(k, v) for k, v in message.get("headers", []) if k.decode("latin-1").lower() not in HEADERS]
            message = {**message, "headers": kept + [(k.encode(), v.encode()) for k, v in HEADERS.items()]}
        await send(message)

    return out


async def _say(send: Send, error: Refused) -> None:
    """A refusal as text; it names no data and no route."""
    text = f"{error}\n".encode()
    head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    closing = [(b"connection", b"close")] if error.status == 413 else []
    full = [*head, *closing, *((k.encode(), v.encode()) for k, v in HEADERS.items())]
    await send({"type": "http.response.start", "status": error.status, "headers": full})
    await send({"type": "http.response.body", "body": text})
