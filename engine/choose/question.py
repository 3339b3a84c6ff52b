"""What is asked: a workload, its request, limits, a demand, candidates and prices; and the text in which it travels."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from engine.scenario.scenario import (
    ChoiceRecord,
    Costs,
    Finite,
    Id,
    Path,
    Printed,
    ScenarioError,
    WorkloadId,
    one_sentence,
)
from engine.scenario.token import boundary, brief, token_of, unpack
from engine.traffic.engines.operating_points import about, limits_of
from engine.traffic.plan import FailureDomain, SiteFacts, failing
from entries.files import read_plain
from hardware_specs.quantity import SpecError, parse

LOAD = 0.8
"""Share of its capacity that an instance is planned to carry at most where requests come by themselves. [-]"""

_TOKEN = "1q"
_TOKEN_LIMIT = 16_384
_JSON_LIMIT = 1 << 18


class Price(ChoiceRecord):
    """The user's own price of one device: bought [USD], or rented with its energy and its host [USD/h].

    A rent counts as what it comes to in the years of use, with energy free.
    """

    usd: float | None = Field(default=None, ge=0, le=1e12)
    usd_per_hour: float | None = Field(default=None, ge=0, le=1e9)


class WhatIf(ChoiceRecord):
    """A system with hardware values of the user's own: never ranked among real ones."""

    system: Id
    overrides: dict[Path, Finite | Printed] = Field(min_length=1, max_length=64)


class Question(ChoiceRecord):
    """What should carry a workload? SI units; None where nothing is asked.

    Limits hold under load: `latency_s` and `ttft_s` for 99% of requests, `tpot_s` for half of them, at the concurrency
    that is answered with; `sla` has further ones of a language model by the names of a serving engine, as
    ``ttft:p90``. `qps` is a demand of requests a second, `users` one of requests in flight, each user sending the next
    when the last is answered; without either, an instance is used to its limits. A demand is met with what `survives`
    names down: a node is a host with all instances that share it, `rack_slots` hosts at most stand in a rack that feeds
    `rack_w`. `bits` is the fewest of a weight that is tried; a format that the network itself was made for always is.
    `evidence` measured leaves out what has no error band.
    """

    workload: WorkloadId
    inputs: int | None = Field(default=None, ge=1, le=1_048_576)
    outputs: int | None = Field(default=None, ge=1, le=1_048_576)
    latency_s: float | None = Field(default=None, gt=0, le=1e6)
    ttft_s: float | None = Field(default=None, gt=0, le=1e6)
    tpot_s: float | None = Field(default=None, gt=0, le=1e6)
    sla: dict[str, Annotated[float, Field(gt=0, le=1e6)]] = Field(default={}, max_length=20)
    power_w: float | None = Field(default=None, gt=0, le=1e9)
    qps: float | None = Field(default=None, ge=1e-9, le=1e12)
    users: int | None = Field(default=None, ge=1, le=1_000_000_000)
    survives: FailureDomain = "none"
    rack_slots: int = Field(default=SiteFacts.slots, ge=1, le=1000)
    rack_w: float = Field(default=SiteFacts.rack_w, gt=0, le=1e9)
    batch: int | None = Field(default=None, ge=1, le=65536)
    bits: Literal[4, 8, 16, 32] = 8
    evidence: Literal["any", "measured"] = "any"
    systems: tuple[Id, ...] = Field(default=(), max_length=1000)
    prices: dict[Id, Price] = Field(default={}, max_length=1000)
    what_ifs: tuple[WhatIf, ...] = Field(default=(), max_length=8)
    costs: Costs = Costs()

    @property
    def demands(self) -> bool:
        """Whether it asks for so many requests a second or users, rather than for one instance used to its limits."""
        return self.qps is not None or self.users is not None

    @property
    def limits(self) -> dict[str, float | None]:
        """The limits as a scenario has them."""
        return {name: getattr(self, name) for name in ("latency_s", "ttft_s", "tpot_s", "power_w")}

    @property
    def serving_limits(self) -> dict[str, float]:
        """Limits on times of a language model's requests, as a serving engine has them. [s]"""
        asked = {"ttft_s": self.ttft_s, "tpot_s": self.tpot_s, "e2e_s": self.latency_s} | self.sla
        return {name: limit for name, limit in asked.items() if limit is not None}

    @property
    def token(self) -> str:
        """The question as text for a link; ScenarioError where it is too long for one."""
        return token_of(_TOKEN, self.model_dump(mode="json", exclude_defaults=True), "question", _TOKEN_LIMIT)

    def with_(self, **changes: Any) -> "Question":
        """A copy with fields changed and everything validated again; ScenarioError in one sentence."""
        return question_of(self.model_dump() | changes)


READABLE = {
    "inputs": "inputs", "outputs": "outputs", "latency": "latency_s", "ttft": "ttft_s", "tpot": "tpot_s",
    "sla": "sla", "power": "power_w", "qps": "qps", "users": "users", "survives": "survives",
    "rack_slots": "rack_slots", "rack_w": "rack_w", "batch": "batch", "bits": "bits",
}  # fmt: skip
"""Fields as people write them, on the command line and in an address: ``tpot=25ms``."""


def read_number(name: str, text: str) -> float | int:
    """A number that somebody typed; ScenarioError where it is none. In the field's own unit, as [QPS]."""
    try:
        value = float(text)
        return int(value) if value.is_integer() else value
    except (ValueError, OverflowError):
        raise ScenarioError(f"{name} is {brief(text)}: a number is needed") from None


def _seconds(name: str, text: str) -> float:
    """`25ms` -> 0.025."""
    try:
        value, dimension = parse(text)
    except SpecError:
        value, dimension = 0.0, ""
    if dimension not in ("s", "1"):
        raise ScenarioError(f"{name} is {brief(text)}: a time such as 25ms is needed")
    return value


def read_fields(texts: Mapping[str, str]) -> dict[str, Any]:
    """Fields of a question from texts by their readable names; ScenarioError in one sentence. [SI]"""

    def read(name: str, text: str) -> Any:
        if name in ("sla", "survives"):
            return limits_of(text) if name == "sla" else text
        return (_seconds if READABLE[name].endswith("_s") else read_number)(name, text)

    return {READABLE[name]: read(name, text) for name, text in texts.items()}


def question_of(fields: Any) -> Question:
    """A question from a mapping or a token; ScenarioError names the field, the value and what is allowed."""
    with boundary("a question that can't be read: a mapping of its fields or a token is needed"):
        if isinstance(fields, Question):
            return fields
        if isinstance(fields, str):
            if len(fields) > _TOKEN_LIMIT or fields[:2] != _TOKEN:
                raise ScenarioError(f"this is not a question: a token that begins with {_TOKEN} is needed")
            fields = unpack(fields[2:], "question", _JSON_LIMIT)
        if not isinstance(fields, Mapping):
            raise ScenarioError("a question is a mapping with a workload")
        try:
            result = Question.model_validate(dict(fields))
        except ValidationError as error:
            raise ScenarioError(one_sentence(error, Question)) from None
    for name in result.sla:
        about(name)
    failing(result.survives, 1, 1, 1, 1)
    if result.qps is not None and result.users is not None:
        raise ScenarioError(f"qps is {result.qps:g} beside {result.users} users: a demand is one of the two")
    return result


@dataclass(frozen=True)
class PresetQuestion:
    """A named question; `document` is the one whose workload it asks about, empty for today's."""

    id: str
    title: str
    document: str
    fields: Mapping[str, Any]

    @property
    def question(self) -> Question:
        """The full question."""
        return question_of(self.fields)


QUESTIONS: Mapping[str, PresetQuestion] = {
    id: PresetQuestion(id, **row) for id, row in read_plain(FilePath(__file__).with_name("presets.yaml")).items()
}
"""Questions worth asking first by id, one for each document and today's, as `presets.yaml` lists them."""
