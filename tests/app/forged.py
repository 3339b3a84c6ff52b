"""Tokens nobody's app would make, with a right checksum."""

import base64
import json
import zlib
from typing import Any


def forged(fields: dict[str, Any]) -> str:
    """A token over any fields at all."""
    text = json.dumps(fields).encode()
    return "1j" + base64.urlsafe_b64encode(zlib.crc32(text).to_bytes(4, "big") + text).rstrip(b"=").decode()


def bomb() -> str:
    """A short token that unpacks to a megabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(b" " * 1_000_000) + packer.flush()
    return "1z" + base64.urlsafe_b64encode(b"0000" + packed).rstrip(b"=").decode()
