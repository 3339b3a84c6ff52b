"""The knobs of a scenario, each declared once: what it is called, what it takes, and who offers it.

The sidebar, the axes of a sweep, the flags of the command line, the columns of exported rows, settings by path, the
attribution of a gain and docs/SCENARIO.md all read this table, which is fields.yaml; `Scenario` holds the values.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from entries.files import load_yaml

Kind = Literal["id", "choice", "count", "tile", "map", "record"]
"""An id of a catalog, one of a list of formats or schemes, a whole number, a tile, values by name, or fixed numbers by
name."""


@dataclass(frozen=True)
class Field:
    """One field of `engine.scenario.Scenario`; a `map` or `record` holds settings by name below its path."""

    path: str
    label: str
    help: str
    kind: Kind
    group: str  # the kind of change that a gain is attributed to; empty: it moves no figure
    offered: str = ""  # attribute of `resolve.choices.Choices` that lists its values; empty: any the schema allows
    called: str = ""  # attribute of `Choices` with the network's own name for it, None where it has no such thing
    none: str | None = None  # what it is called when nothing is set; None: it is always set
    unit: str = ""  # of its numbers, SI; empty: a count or a name
    plain: bool = False  # it sets one number and nothing else, so a sweep varies it inside a compiled loop
    flag: bool = True  # `--NAME` of the command line
    column: bool = True  # a column of exported rows
    first: bool = False  # an axis of the first sweep of a scenario

    def display(self, value: Any) -> Any:
        """A value as a user meets it: what it is called where nothing is set, else itself."""
        return self.none if self.none is not None and value in (None, (), {}) else value

    def value_of(self, text: Any) -> Any:
        """The other way for one value: None where it is called what it is when nothing is set."""
        return None if self.none is not None and text in (self.none, "none", "", None) else text


FIELDS = tuple(Field(**entry) for entry in load_yaml(Path(__file__).with_suffix(".yaml").read_bytes()))
"""In the order in which a design is thought of, which is the order of the sidebar."""

BY_FAMILY = tuple(field for field in FIELDS if field.offered == "by_family")
"""Fields that only some families price, each for the networks that it can matter for; None: not set."""

_BY_PATH = {field.path: field for field in FIELDS}

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(field.path for field in FIELDS if field.group == group)
    for group in ("workload", "hardware", "batching", "precision", "tiling", "partition", "optimisations", "costs")
}
"""Fields by what kind of change they are: all that move a figure."""


def field(path: str) -> Field:
    """The field of a path, ``batch`` or ``switches.fuse``; KeyError where none has that name."""
    return _BY_PATH[path.partition(".")[0]]


def of_kind(*kinds: Kind) -> tuple[str, ...]:
    """Paths of the fields of some kinds, in order."""
    return tuple(field.path for field in FIELDS if field.kind in kinds)
