"""Plain data as text for an address, and back: base64url of a 4-byte CRC-32 and JSON, deflated.

What is read back was written by anybody. `boundary` stands around every decoder: whatever escapes it is one sentence.
"""

import base64
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from entries.schema import InputError, printable


class ScenarioError(InputError):
    """A scenario that can't be used: one sentence naming the field, the value and what is allowed."""


class NotThereError(ScenarioError):
    """A setting of something that this system or network has none of, whatever the value."""


def brief(value: object, limit: int = 40) -> str:
    """A value as a sentence may hold it: quoted, printable, at most so many characters."""
    try:
        text = str(value)
    except ValueError:  # Python does not print integers of more than 4300 digits
        text = "an integer of thousands of digits"
    return repr(printable(text[:limit]))


@contextmanager
def boundary(refusal: str) -> Iterator[None]:
    """Around a decoder: InputError passes, anything else that what is read provokes is that refusal."""
    try:
        yield
    except InputError:
        raise
    except Exception:  # what is read was written by anybody: a list of types is never whole
        raise ScenarioError(refusal) from None


def pack(text: bytes) -> str:
    """Checksum of a text and the text deflated, without a header, as base64url."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = zlib.crc32(text).to_bytes(4, "big") + packer.compress(text) + packer.flush()
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def token_of(head: str, data: Any, noun: str, limit: int) -> str:
    """Plain data as a token that begins with ``head``; ScenarioError where it has more than so many characters."""
    text = json.dumps(data, separators=(",", ":")).encode()
    token = head + pack(text)
    if len(token) > limit:
        raise ScenarioError(f"this {noun} makes a token of {len(token)} characters: {limit} are allowed")
    return token


def unpack(body: str, noun: str, limit: int, plain: bool = False) -> Any:
    """What `pack` was given, of at most so many bytes; ScenarioError in one sentence about ``noun`` otherwise."""
    with boundary(f"This {noun} is damaged: it can't be unpacked"):
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        text = raw[4:]
        if not plain:
            unpacker = zlib.decompressobj(-15)
            text = unpacker.decompress(text, limit)
            if unpacker.unconsumed_tail:
                raise ScenarioError(f"This {noun} unpacks to more than {limit} bytes, which is not allowed")
    if zlib.crc32(text).to_bytes(4, "big") != raw[:4]:
        raise ScenarioError(f"This {noun} is damaged: its checksum does not match")
    with boundary(f"This {noun} is damaged: it does not hold a {noun.replace('link', 'scenario')}"):
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return value
