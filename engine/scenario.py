"""Scenario: the whole choice a user makes, and the token in which it travels.

The app's URL, a CSV row, the command line and the Python API all speak this token: two characters (schema version,
encoding), then base64url of a 4-byte CRC-32 and the JSON of *every* field, deflated where that is shorter. A link
therefore keeps its meaning when a default changes.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

__all__ = ["TOKEN_LIMIT", "VERSION", "Costs", "Limits", "Scenario", "ScenarioError", "decode", "encode", "token_in"]

VERSION = 1
TOKEN_LIMIT = 4096  # characters; proxies, mail and chat cut longer links
_JSON_LIMIT = 64 * 1024  # bytes after inflating

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
Path = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,80}$")]
OpName = Annotated[str, StringConstraints(pattern=r"^[\w][\w.-]{0,80}$")]
Printed = Annotated[str, StringConstraints(pattern=r"^[\w .,+%/µ-]{1,40}$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class ScenarioError(ValueError):
    """A scenario that can't be used: one sentence naming the field, the value and what is allowed."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Costs(_Frozen):
    """Prices that turn power and hardware into money."""

    energy_usd_per_kwh: float = Field(default=0.10, ge=0, le=10)
    pue: float = Field(default=1.2, ge=1, le=3)
    years: float = Field(default=3.0, gt=0, le=20)
    utilisation: float = Field(default=0.6, gt=0, le=1)


class Limits(_Frozen):
    """What the user will accept; a report says which limit is missed and by how much. None = no limit."""

    latency_s: float | None = Field(default=None, gt=0, le=1e6)
    power_w: float | None = Field(default=None, gt=0, le=1e9)
    capex_usd: float | None = Field(default=None, gt=0, le=1e12)


class Scenario(_Frozen):
    """System, workload, batching, precision, tiling, partition, optimisations and what-ifs.

    `layers` names operators that stay in a wider format than `precision`: the per-layer plan of a mixed-precision
    network. `tile` is empty for the best tile the model finds. `split` is the number of operators that stay on the
    first executor. `overrides` maps a hardware path such as ``devices.0.npu.tiles`` to a printed quantity.
    """

    version: int = Field(default=VERSION, ge=1, le=VERSION)
    system: Id
    workload: Id
    batch: int = Field(default=1, ge=1, le=65536)
    streams: int = Field(default=1, ge=1, le=4096)  # batches in flight at once on one device
    inputs: int = Field(default=1, ge=1, le=1_048_576)
    outputs: int = Field(default=1, ge=1, le=1_048_576)
    params: dict[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,40}$")], int | Finite] = {}
    precision: Id
    layers: dict[OpName, Id] = Field(default={}, max_length=512)
    tile: tuple[Annotated[int, Field(ge=1, le=65536)], ...] = Field(default=(), max_length=4)
    scheme: Id = "single"
    devices: int = Field(default=1, ge=1, le=100_000)
    split: int = Field(default=0, ge=0, le=100_000)
    switches: dict[Path, bool] = {}
    overrides: dict[Path, Finite | Printed] = Field(default={}, max_length=64)
    costs: Costs = Costs()
    limits: Limits = Limits()

    def with_(self, **changes: Any) -> Scenario:
        """A copy with fields changed and everything validated again; ScenarioError in one sentence."""
        return make(self.model_dump() | changes)


def make(fields: Any) -> Scenario:
    """Validated Scenario from plain fields; ScenarioError names the field, the value and what is allowed."""
    try:
        return Scenario.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])[:80] or "scenario"
        value = first.get("input")
        shown = "" if isinstance(value, dict | list) or first["type"] == "missing" else f" is {str(value)[:40]!r}"
        raise ScenarioError(f"{field}{shown}: {first['msg'].removeprefix('Value error, ')}") from None


def encode(scenario: Scenario) -> str:
    """Token of a scenario, e.g. ``1z...``."""
    text = json.dumps(scenario.model_dump(mode="json"), separators=(",", ":"), sort_keys=True).encode()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(text) + packer.flush()
    kind, body = ("z", packed) if len(packed) < len(text) else ("j", text)
    check = zlib.crc32(text).to_bytes(4, "big")
    return f"{VERSION}{kind}" + base64.urlsafe_b64encode(check + body).rstrip(b"=").decode()


def decode(token: str) -> Scenario:
    """Scenario of a token; ScenarioError in one sentence for anything that is not one."""
    if len(token) > TOKEN_LIMIT:
        raise ScenarioError(f"This link has {len(token)} characters; at most {TOKEN_LIMIT} are allowed")
    if len(token) < 3 or not token.isascii():
        raise ScenarioError("This link is damaged: it is not a scenario")
    if not token[0].isdigit() or token[1] not in "jz":
        raise ScenarioError("This link is damaged: it does not begin like a scenario")
    if int(token[0]) > VERSION:
        raise ScenarioError(f"This link was made by a newer version ({token[0]}; this server reads up to {VERSION})")
    if int(token[0]) < 1:
        raise ScenarioError("This link is damaged: version 0 does not exist")
    try:
        raw = base64.b64decode(token[2:] + "=" * (-(len(token) - 2) % 4), altchars=b"-_", validate=True)
        check, body = raw[:4], raw[4:]
        text = body
        if token[1] == "z":
            unpacker = zlib.decompressobj(-15)
            text = unpacker.decompress(body, _JSON_LIMIT)
            if unpacker.unconsumed_tail:
                raise ScenarioError(f"This link unpacks to more than {_JSON_LIMIT} bytes, which is not allowed")
    except (binascii.Error, zlib.error, ValueError) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError("This link is damaged: it can't be unpacked") from None
    if zlib.crc32(text).to_bytes(4, "big") != check:
        raise ScenarioError("This link is damaged: its checksum does not match")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ScenarioError("This link is damaged: it does not hold a scenario") from None
    return make(fields)


def token_in(text: str) -> str:
    """The token in a bare token or in a URL whose query has ``s=``."""
    text = text.strip()
    if "s=" in text and ("?" in text or "://" in text):
        values = parse_qs(urlsplit(text).query).get("s")
        if not values:
            raise ScenarioError("This URL has no scenario: `s=` is missing from its query")
        return values[0]
    return text
