"""Scenario: the whole choice a user makes, and the token in which it travels.

The app's URL, a CSV row, the command line and the Python API all speak this token: two characters (schema version,
encoding: z, or j of links of before), then base64url of a 4-byte CRC-32 and the JSON of *every* field, deflated where
it is z. A link therefore keeps its meaning when a default changes. Only a field that may be set to nothing, and is, is
left out: that means the same for ever, and a token older than the field stays as it is.
"""

import json
import pathlib
from collections.abc import Iterable
from typing import Annotated, Any, get_args
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, ValidationError, model_validator

from engine.scenario.token import ScenarioError, boundary, brief, pack, unpack
from entries.files import read_plain
from entries.schema import Id, Record, WorkloadId, fields_at

VERSION = 1
TOKEN_LIMIT = 4096  # characters; proxies, mail and chat cut longer links
_JSON_LIMIT = 64 * 1024  # bytes after inflating
_TEXTS: dict[str, dict[str, str]] = read_plain(pathlib.Path(__file__).with_name("texts.yaml"))

Path = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,80}$")]
Share = Annotated[str, StringConstraints(pattern=r"^(by-capacity|[0-9]{1,3}%)$")]
Percent = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}%$")]
OpName = Annotated[str, StringConstraints(pattern=r"^[\w][\w.-]{0,80}$")]
Printed = Annotated[str, StringConstraints(pattern=r"^[\w .,+%/µ-]{1,40}$")]
Ways = Annotated[int | None, Field(ge=0, le=100_000)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
OnOff = Annotated[Id | None, BeforeValidator(lambda value: ("off", "on")[value] if isinstance(value, bool) else value)]
"""What a file writes as `on` is the truth there."""


class ChoiceRecord(Record):
    """What a user sets, immutable; unknown fields, inf and nan are refused."""

    @model_validator(mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, data: Any) -> Any:
        """True is not 1 and yes is not a batch: only switches are on or off."""
        if isinstance(data, dict):
            for key, value in data.items():
                inner = value.items() if isinstance(value, dict) and key != "switches" else ((None, value),)
                for part, item in inner:
                    if isinstance(item, bool) and key != "turbo":
                        where = key if part is None else f"{key}.{part}"
                        raise ValueError(f"{str(where)[:80]} is {str(item).lower()}: a number or a text is needed")
        return data


def _unset(value: Any) -> bool:
    """Whether a field younger than links that were given out is not set: it is left out then, so their tokens stay."""
    return value is None


class Costs(ChoiceRecord):
    """Prices that turn power and hardware into money.

    `host_usd` buys the host of up to eight devices where the catalog has no price of one; None: it is not counted.
    """

    energy_usd_per_kwh: float = Field(default=0.10, ge=0, le=10)
    pue: float = Field(default=1.2, ge=1, le=3)
    years: float = Field(default=3.0, ge=0.01, le=20)
    utilisation: float = Field(default=0.6, gt=0, le=1)
    host_usd: float | None = Field(default=None, ge=0, le=1e9, exclude_if=_unset)


class Limits(ChoiceRecord):
    """What the user will accept; a report says which limit is missed and by how much. None = no limit.

    `ttft_s` and `tpot_s` hold for a sequence under continuous batching (`engine.cost.continuous`), the rest for the
    figures of a report.
    """

    latency_s: float | None = Field(default=None, gt=0, le=1e6)
    ttft_s: float | None = Field(default=None, gt=0, le=1e6, exclude_if=_unset)
    tpot_s: float | None = Field(default=None, gt=0, le=1e6, exclude_if=_unset)
    power_w: float | None = Field(default=None, gt=0, le=1e9)
    capex_usd: float | None = Field(default=None, gt=0, le=1e12)

    @property
    def of_figures(self) -> dict[str, float]:
        """Those that are set on figures of a report, by name. SI."""
        limits = self.model_dump(exclude={"ttft_s", "tpot_s"}, exclude_none=True)
        return {name: float(value) for name, value in limits.items()}


class Scenario(ChoiceRecord):
    """System, workload, batching, precision, tiling, partition, optimisations and what-ifs.

    `layers` names operators that stay in a wider format than `precision`: the per-layer plan of a mixed-precision
    network. `tile` is empty for the family's own choice: DFX takes the best tile the model finds, a CPU all cores of
    the stream. `split` is the number of operators that stay on the first executor, `second_split` of those on the first
    two of three. `overrides` maps a hardware path such as ``devices.0.npu.tiles`` to a printed quantity.
    """

    version: int = Field(default=VERSION, ge=1, le=VERSION)
    system: Id
    workload: WorkloadId
    batch: int = Field(default=1, ge=1, le=65536)
    streams: int = Field(default=1, ge=1, le=4096)  # batches in flight at once on one device
    inputs: int = Field(default=1, ge=1, le=1_048_576)
    outputs: int = Field(default=1, ge=1, le=1_048_576)
    params: dict[Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,40}$")], int | Finite] = Field(default={})
    turbo: OnOff = None  # on
    threads_per_core: Ways = None  # 1
    inter_op_threads: Ways = None  # 1
    numa: Id | None = None  # local
    precision: Id
    kv_format: Id | None = None  # as activations
    runtime: Id | None = None  # as the switches say
    layers: dict[OpName, Id] = Field(default={}, max_length=512)
    tile: tuple[Annotated[int, Field(ge=1, le=65536)], ...] = Field(default=(), max_length=4)
    load_direction: Id | None = None  # zigzag
    scheme: Id = "single"
    host_tables: Share | None = None  # on the cards
    devices: int = Field(default=1, ge=1, le=100_000)
    pipeline_parallel: Ways = None  # 1
    attention_dp: Ways = None  # 1
    context_parallel: Ways = None  # 1
    expert_parallel: Ways = None  # 1
    expert_imbalance: Percent | None = None  # none
    redundant_experts: Ways = None  # none
    split: int = Field(default=0, ge=0, le=100_000)
    second_split: Ways = None  # all behind the first cut on the second executor
    switches: dict[Path, bool] = Field(default={})
    overrides: dict[Path, Finite | Printed] = Field(default={}, max_length=64)
    costs: Costs = Costs()
    limits: Limits = Limits()

    def with_(self, **changes: Any) -> "Scenario":
        """A copy with fields changed and everything validated again; ScenarioError in one sentence."""
        return make(self.model_dump() | changes)


def make(fields: Any) -> Scenario:
    """Validated Scenario from plain fields; ScenarioError names the field, the value and what is allowed."""
    with boundary("scenario: a mapping of fields to numbers and texts is needed"):
        try:
            return Scenario.model_validate(fields)
        except ValidationError as error:
            raise ScenarioError(one_sentence(error, Scenario)) from None


def one_sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """The first complaint of pydantic about such settings as field, value and what is allowed."""
    first = error.errors(include_url=False)[0]
    kind, message, value = first["type"], first["msg"].removeprefix("Value error, "), first.get("input")
    parts = [str(p) for p in first["loc"] if p not in ("int", "float", "[key]") and "constrained-" not in str(p)]
    field = ".".join(parts)[:60]
    if kind == "value_error":
        return f"{field}: {message}" if field else message
    info, fields = fields_at(model, parts)
    text = "" if isinstance(value, dict | list) or kind == "missing" else f" is {brief(value)}"
    if kind in ("too_long", "too_short"):
        bound, key = ("at most", "max_length") if kind == "too_long" else ("at least", "min_length")
        return f"{field}: {bound} {first['ctx'][key]} of them are allowed, not {first['ctx']['actual_length']}"
    return f"{field or model.__name__.lower()}{text}: {_rule(kind, info, message, fields)}"


def _rule(kind: str, info: Any, message: str, fields: Iterable[str]) -> str:
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return f"no such field; fields are {', '.join(fields)}"
    if kind == "string_pattern_mismatch":
        return next(text for part, text in _TEXTS["patterns"].items() if part in message)
    if info is not None and any(hasattr(m, "ge") or hasattr(m, "gt") for m in info.metadata):
        low = next((m.ge for m in info.metadata if hasattr(m, "ge")), None)
        above = next((m.gt for m in info.metadata if hasattr(m, "gt")), None)
        high = next((m.le for m in info.metadata if hasattr(m, "le")), None)
        number = "a whole number" if int in (info.annotation, *get_args(info.annotation)) else "a number"
        start = f"from {low}" if above is None else f"above {above}"
        return f"{number} {start} {'to' if above is None else 'and up to'} {high:,.12g} is allowed".replace(",", "")
    text = _TEXTS["mistakes"].get(kind, f"{message.removeprefix('Input should be ')} is needed")
    return text.replace("{limit}", message.rpartition(" ")[2])


def encode(scenario: Scenario) -> str:
    """Token of a scenario, e.g. ``1z...``."""
    fields = {name: value for name, value in scenario.model_dump(mode="json").items() if value is not None}
    return f"{VERSION}z" + pack(json.dumps(fields, separators=(",", ":"), sort_keys=True).encode())


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
    fields = unpack(token[2:], "link", _JSON_LIMIT, plain=token[1] == "j")
    if isinstance(fields, dict) and fields.get("scheme") != "split":
        fields["split"] = 0  # links of before kept the place of a cut that nothing made
    return make(fields)


def token_in(text: str) -> str:
    """The token in a bare token or in a URL whose query has ``s=``."""
    text = text.strip()
    if "s=" in text and ("?" in text or "://" in text):
        try:
            values = parse_qs(urlsplit(text).query).get("s")
        except ValueError as error:
            raise ScenarioError(f"This URL can't be read: {error}") from None
        if not values:
            raise ScenarioError("This URL has no scenario: `s=` is missing from its query")
        return values[0]
    return text
