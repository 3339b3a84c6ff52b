"""The server writes our style into the head of every page, whatever the browser holds or packs (no browser)."""

import gzip
import re
from pathlib import Path

import pytest
import streamlit

from app.server.guard import PageStyle
from app.shared.legible import STYLE, early
from tests.app.loops import run

PAGE = b"<html><head><title>t</title></head><body>" + b"x" * 200_000 + b"</body></html>"
STYLED = PAGE.replace(b"</head>", b"<style></style></head>")
BROWSER = {"accept": "text/html,application/xhtml+xml", "accept-encoding": "gzip", "if-none-match": "old"}


def _served(kind: str):
    """What stands behind: it packs where packing is asked for, and has nothing new where a copy is held."""

    async def app(scope, receive, send):
        asked = dict(scope["headers"])
        fresh = b"if-none-match" not in asked
        body = b"" if not fresh else gzip.compress(PAGE) if b"accept-encoding" in asked else PAGE
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        headers += [(b"set-cookie", b"one=1"), (b"set-cookie", b"two=2")]
        await send({"type": "http.response.start", "status": 200 if fresh else 304, "headers": headers})
        half = len(body) // 2
        await send({"type": "http.response.body", "body": body[:half], "more_body": True})
        await send({"type": "http.response.body", "body": body[half:]})

    return app


def _sent(kind: str, headers: dict[str, str]) -> list[dict]:
    sent: list[dict] = []

    async def ask():
        async def send(message):
            sent.append(message)

        given = [(k.encode(), v.encode()) for k, v in headers.items()]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": given}
        await PageStyle(_served(kind), "<style></style>")(scope, None, send)

    run(ask())
    return sent


def _asked(kind: str, headers: dict[str, str]) -> tuple[int, dict[bytes, bytes], bytes]:
    sent = _sent(kind, headers)
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(m.get("body", b"") for m in sent)


def test_a_page_has_the_style_in_its_head():
    status, headers, body = _asked("text/html; charset=utf-8", BROWSER)
    assert (status, body) == (200, STYLED)
    assert headers[b"content-length"] == str(len(STYLED)).encode()


def test_a_header_that_stands_twice_is_kept_twice():
    cookies = [value for key, value in _sent("text/html", BROWSER)[0]["headers"] if key == b"set-cookie"]
    assert cookies == [b"one=1", b"two=2"]


@pytest.mark.parametrize(("kind", "accept"), [("text/plain", "text/html"), ("text/html", "*/*")])
def test_what_is_no_page_passes_unchanged(kind, accept):
    assert _asked(kind, {"accept": accept})[2] == PAGE


def test_what_is_loaded_early_are_small_parts_of_the_front_end_that_exist():
    """None is one that Streamlit's page loads by itself: with another version of it, some may be."""
    static = Path(streamlit.__file__).parent / "static"
    names = re.findall(r'href="./static/js/([^"]+)"', early().removeprefix(STYLE))
    sizes = {name: (static / "static" / "js" / name).stat().st_size for name in names}
    assert any(name.startswith("Metric.") for name in names)
    assert max(sizes.values()) < 200_000
    assert not [name for name in names if name in (static / "index.html").read_text()]
