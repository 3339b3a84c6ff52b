"""What stands before Streamlit: whose requests are answered, with which headers and style, and whether it can work.

Pure ASGI: bodies and sockets pass through unread. A page of another site can make a browser send requests here, under
a name of its own (DNS rebinding) or under ours; both are refused before Streamlit, which asks a public service for this
machine's address when it meets a foreign origin, sees them.
"""

import asyncio
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # an address holds the whole scenario
    "x-frame-options": "SAMEORIGIN",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    # Streamlit writes styles and one script into its page and makes workers of blobs; charts compile their shaders
    "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: "
    "blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'",
}
"""Sent with every answer: a page loads nothing from elsewhere and is shown inside no other site."""
_HEALTH = "/_stcore/health"
_FRESH_S = 5.0  # that an answer about health holds
_LATE_S = 30.0  # after which work that should take milliseconds counts as stuck
_END = b"</head>"
_CACHING = (b"if-none-match", b"if-modified-since", b"accept-encoding")  # a copy may hold an older style; text is read


def names() -> frozenset[str]:
    """Names this server answers to beside addresses: localhost, the machine's own, and those of INFERSCAPE_HOSTS."""
    extra = os.environ.get("INFERSCAPE_HOSTS", "").replace(",", " ").split()
    return frozenset(name.lower().rstrip(".") for name in ("localhost", socket.gethostname(), *extra))


def _is_ours(host: str, hosts: frozenset[str]) -> bool:
    """Whether a name or address is ours: no page can be rebound to an address, only to a name."""
    name = host.lower().rstrip(".")
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name in hosts or "*" in hosts


def _name(netloc: str) -> str | None:
    """The name in a Host header; None where it is none."""
    try:
        split = urlsplit(f"//{netloc}")
        _ = split.port  # raises where it is no number
    except ValueError:
        return None
    return split.hostname if split.netloc == netloc and "@" not in netloc and not split.path else None


def foreign(host: str, origin: str | None, hosts: frozenset[str]) -> str | None:
    """What is wrong with who asks: one sentence, None where it is somebody of ours."""
    name = _name(host)
    if name is None or not _is_ours(name, hosts):
        listing = ", ".join(sorted(hosts))
        return f"Host {host[:80]!r} is not this server's; allowed are addresses and {listing} (INFERSCAPE_HOSTS adds)"
    if origin is None or urlsplit(origin).netloc == host:
        return None
    sender = _name(urlsplit(origin).netloc)
    if sender is not None and sender in hosts - {"localhost"}:  # a proxy that asks under a name of its own
        return None
    return f"Origin {origin[:80]!r} is another site's; only this server's own pages may ask"


class Health:
    """Whether this server can do its work: it does some, at most once in five seconds."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._status, self._at, self._began = "starting", -_FRESH_S, 0.0

    def status(self) -> str:
        """`ok`, or one sentence that says what does not work."""
        if not self._lock.acquire(blocking=False):
            late = time.monotonic() - self._began
            return self._status if late < _LATE_S else f"one evaluation has taken {late:.0f} s and has not ended"
        try:
            self._began = time.monotonic()
            if self._began - self._at >= _FRESH_S:
                try:
                    self._work()
                    self._status = "ok"
                except Exception as error:  # whatever it is, pages meet it too
                    self._status = f"a scenario can't be evaluated: {type(error).__name__}: {error}"
                self._at = time.monotonic()
            return self._status
        finally:
            self._lock.release()


class Guard:
    """ASGI middleware: refuses strangers, adds headers, answers for the server's health."""

    def __init__(self, app: Asgi, health: Health, hosts: frozenset[str] | None = None) -> None:
        self._app = app
        self._health = health
        self._names = names() if hosts is None else hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request, code = Headers(scope=scope), 403
        wrong = foreign(request.get("host", ""), request.get("origin"), self._names)
        if wrong is None and scope["type"] == "http" and scope["path"].endswith(_HEALTH):
            code, status = 503, await asyncio.to_thread(self._health.status)
            wrong = None if status == "ok" else status
        if wrong is not None and scope["type"] == "websocket":  # one that is refused before it opens closes with 403
            await send({"type": "websocket.close", "code": 1008, "reason": wrong[:120]})
            return
        if wrong is not None:
            await PlainTextResponse(wrong, code, HEADERS)(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


class PageStyle:
    """ASGI middleware: writes `text` into the head of every page; anything else passes unread.

    A style that a page's script draws comes a second after the first paint, and what it moves counts as a shift.
    """

    def __init__(self, app: Asgi, text: str) -> None:
        self._app = app
        self._text = text.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = scope["type"] == "http" and scope["method"] == "GET"
        if not (page and Headers(scope=scope).get("accept", "").startswith("text/html")):  # as a browser's address bar
            await self._app(scope, receive, send)
            return
        start: MutableMapping[str, Any] = {}
        body = b""

        async def send_page(message: MutableMapping[str, Any]) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            headers = MutableHeaders(scope=start)
            if headers.get("content-type", "").startswith("text/html"):
                body = body.replace(_END, self._text + _END, 1)
                headers["content-length"] = str(len(body))
            await send(start)
            await send({"type": "http.response.body", "body": body})

        headers = [(key, value) for key, value in scope["headers"] if key not in _CACHING]
        await self._app({**scope, "headers": headers}, receive, send_page)
