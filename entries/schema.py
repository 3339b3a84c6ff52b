"""What an entry of any catalog says: its id and name, its sources, and for each number what kind of evidence it is."""

import difflib
from collections.abc import Collection
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[\w .,:;/×&+()'%-]{1,120}$")]
Alias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w .:/+-]{0,79}$")]  # a name as others write it
Text = Annotated[str, StringConstraints(min_length=1, max_length=1200)]
_NEAR = 0.6  # likeness from which a name is worth suggesting: a slip of a few letters [-]


class InputError(ValueError):
    """Something that can't be used: one sentence naming the field, the value and what is allowed."""

    def __init__(self, sentence: object = "") -> None:
        """The sentence on one line; what no terminal or page should be sent becomes question marks."""
        super().__init__(printable(str(sentence)))


def printable(text: str) -> str:
    """A text on one line, what no terminal or page should be sent as question marks."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def hint(name: str, known: Collection[str]) -> str:
    """What a sentence about a name that nothing has ends with: the nearest that is known, or all of them."""
    near = difflib.get_close_matches(name[:80], known, 1, _NEAR)
    return f"; nearest: {near[0]}" if near else f"; known: {', '.join(sorted(known))}"


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
