"""What a workload YAML may say: a family, that family's parameters with their sources, and figures to re-derive."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from entries.schema import Alias, Evidence, Id, InputError, Name, Record, Source, Text, WorkloadId

CARRIED, LONGEST_CARRIED = "net.", 1600  # how the id of a network begins that travels in its link; characters
Key = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,40}$")]


class WorkloadError(InputError):
    """A workload that can't be read or built: one sentence naming the field, the value and what is allowed."""


class Number(Evidence):
    """A plain count, ratio, list of counts or word, with its evidence (the same rules as for hardware)."""

    value: int | float | str | tuple[int, ...] | tuple[tuple[int, ...], ...]


class Request(Record):
    """What one request looks like unless the user turns it."""

    batch: int = Field(default=1, ge=1, le=65536)
    inputs: int = Field(default=1, ge=1, le=1_048_576)  # tokens, steps or frames that enter
    outputs: int = Field(default=1, ge=1, le=1_048_576)  # tokens generated


class Check(Record):
    """A published figure that tests re-derive: parameters, flops (one request, MAC = 2), macs, bytes."""

    metric: Literal["parameters", "flops", "macs", "activations"]
    value: Number
    tolerance: float = Field(default=0.01, ge=0, le=0.5)
    explained: Text | None = None  # required where the figure is missed by more than 1%


class Workload(Record):
    schema_version: Literal[1]
    id: WorkloadId
    name: Name
    family: Id
    aliases: tuple[Alias, ...] = ()  # what others call it in their tables
    document: Literal["000", "001", "002", "003", "004"] | None = None
    summary: Text
    sources: dict[str, Source]
    params: dict[Key, Number]
    request: Request = Request()
    precision: str | None = None  # the one its document ran it in
    limit_s: Number | None = None  # latency its document allows a request [s]
    checks: tuple[Check, ...] = ()
    notes: tuple[Text, ...] = ()
