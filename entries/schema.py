"""What an entry of any catalog says: its id and name, its sources, and for each number what kind of evidence it is."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator
from pydantic.fields import FieldInfo

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
WorkloadId = Annotated[str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9.-]{0,62}|net\.[a-z2-7]{8,1596})$")]
Name = Annotated[str, StringConstraints(pattern=r"^[\w .,:;/×&+()'%-]{1,120}$")]
Alias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w .:/+-]{0,79}$")]  # a name as others write it
Text = Annotated[str, StringConstraints(min_length=1, max_length=1200)]
LISTED = "the Catalog page, or python -m engine list {},"
"""Where all ids of a section of the catalogs are listed, as `hint` says it."""
_NEAR = 0.6  # likeness from which a name is worth suggesting: a slip of a few letters [-]


class InputError(ValueError):
    """Something that can't be used: one sentence naming the field, the value and what is allowed."""

    def __init__(self, sentence: object = "") -> None:
        """The sentence on one line; what no terminal or page should be sent becomes question marks."""
        super().__init__(printable(str(sentence)))


def printable(text: str) -> str:
    """A text on one line, what no terminal or page should be sent as question marks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def hint(name: str, names: Collection[str], where: str = "") -> str:
    """What a sentence about a name that nothing has ends with: the nearest three that are known, and ``where`` all are.

    Nearest are names that contain it, then those alike but for a few letters; case and punctuation don't count. All
    are said where none is near and they are listed nowhere.
    """
    asked, bare = _bare(name[:80]), {known: _bare(known) for known in sorted(names)}
    within = sorted((known for known in bare if asked and asked in bare[known]), key=lambda known: len(bare[known]))
    alike = difflib.get_close_matches(asked, bare.values(), 3, _NEAR)
    near = list(dict.fromkeys([*within, *(known for text in alike for known in bare if bare[known] == text)]))[:3]
    nearest = f"; nearest: {', '.join(near)}" if near else ""
    if where:
        return f"{nearest}; {where} lists all {len(names)}"
    return nearest or f"; known: {', '.join(bare)}"


def _bare(name: str) -> str:
    """Letters and digits of a name, lower case."""
    return "".join(c for c in name.lower() if c.isalnum())


def _record(annotation: Any) -> type[BaseModel] | None:
    """The class inside an annotation such as ``dict[str, Source] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((result for part in get_args(annotation) if (result := _record(part))), None)


def fields_at(schema: type[BaseModel], place: Sequence[str | int]) -> tuple[FieldInfo | None, Mapping[str, FieldInfo]]:
    """The field that a complaint is about, where it is one, and all that may stand beside it."""
    fields: Mapping[str, FieldInfo] = schema.model_fields
    field = None
    for part in place:
        field = fields.get(str(part))
        inner = _record(field.annotation) if field is not None else None
        fields = inner.model_fields if inner is not None else fields
    return field, fields


def one_sentence(error: ValidationError, schema: type[BaseModel]) -> str:
    """First complaint of pydantic as `field: what is wrong and what is allowed`, without echoing whole inputs."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))[:80] or "document"
    value = first["input"]
    if first["type"] == "extra_forbidden":
        return f"{field}: unknown key; allowed here are {', '.join(fields_at(schema, first['loc'])[1])}"
    if first["type"] == "missing":
        return f"{field}: is required"
    if first["type"] == "model_type":
        names = ", ".join((*fields_at(schema, first["loc"])[1],)[:3])
        return f"{field}: must be a mapping such as {{{names}}}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] != "value_error" and isinstance(value, str | int | float):
        message = f"{message}, not {str(value)[:40]!r}"
    return f"{field}: {message}"


class Record(BaseModel):
    """Base of every entry: immutable, unknown keys refused, no inf or nan."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Source(Record):
    title: Text
    publisher: Text | None = None
    url: Text | None = None
    dated: Text | None = None
    accessed: Text | None = None
    note: Text | None = None


class Evidence(Record):
    """A value, where it was printed, and what kind of evidence it is.

    `published` (the default) and `measured` need `source` and `where`; `assumed` needs a `note`; `calibrated` names the
    `claims` it was fitted on.
    """

    value: Any
    source: str | None = None
    where: str | None = None
    basis: Literal["measured", "published", "calibrated", "assumed"] = "published"
    note: str | None = None
    claims: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _evidence(self) -> Self:
        if self.basis in ("published", "measured") and not (self.source and self.where):
            raise InputError(f"value {self.value!r} is {self.basis}: it needs `source` and `where`")
        if self.basis == "assumed" and not self.note:
            raise InputError(f"value {self.value!r} is assumed: it needs a `note` that says why")
        if self.basis == "calibrated" and not self.claims:
            raise InputError(f"value {self.value!r} is calibrated: it needs the `claims` it was fitted on")
        return self
