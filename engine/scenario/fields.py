"""The knobs of a scenario, each declared once: what it is called, what it takes, and who offers it.

The sidebar, the axes of a sweep, the flags of the command line, the columns of exported rows, settings by path, the
attribution of a gain and docs/SCENARIO.md all read this table; `Scenario` holds the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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

    def shown(self, value: Any) -> Any:
        """A value as a user meets it: what it is called where nothing is set, else itself."""
        return self.none if self.none is not None and value in (None, (), {}) else value

    def value_of(self, shown: Any) -> Any:
        """The other way for one value: None where it is called what it is when nothing is set."""
        return None if self.none is not None and shown in (self.none, "none", "", None) else shown


FIELDS: tuple[Field, ...] = (
    Field("system", "System", "Devices, their host and the wires between them.", "id", "hardware"),
    Field("workload", "Workload", "The network.", "id", "workload", "workloads"),
    Field(
        "inputs", "Inputs", "Tokens, steps or items of a request.", "count", "workload", called="input_label",
        plain=True,
    ),
    Field(
        "outputs", "Outputs", "Tokens that a decoder generates for a request.", "count", "workload",
        called="output_label", plain=True,
    ),
    Field(
        "params", "Network parameters", "Sizes of the network.", "map", "workload", "params", none="its own",
        flag=False, column=False,
    ),
    Field(
        "batch", "Batch", "Requests processed together; larger batches reuse each weight read.", "count", "batching",
        "batches", plain=True, first=True,
    ),
    Field(
        "streams", "Streams", "Batches in flight at once on one device.", "count", "batching", "stream_counts",
        plain=True,
    ),
    Field(
        "precision", "Precision",
        "Number format of weights and activations; accumulation may be wider. W4A16 narrows weights alone.",
        "choice", "precision", "formats", first=True,
    ),
    Field(
        "kv_format", "KV-cache format", "How a decoder's keys and values lie in memory; arithmetic stays as it is.",
        "choice", "precision", "by_family", none="as activations",
    ),
    Field(
        "layers", "Layers in another format", "Operators that stay in a wider format.", "map", "precision",
        none="none", flag=False, column=False,
    ),
    Field(
        "tile", "Tile", "Block of the operand kept on chip at once.", "tile", "tiling", "knobs", none="auto",
        first=True,
    ),
    Field(
        "load_direction", "Load direction",
        "In which order tiles of a matrix come from memory: how long inputs stay, and how many sums are kept.",
        "choice", "tiling", "by_family", none="zigzag",
    ),
    Field(
        "scheme", "Partition", "How the model lies on the devices: copies, shards, or layer ranges.", "choice",
        "partition", "schemes",
    ),
    Field(
        "host_tables", "Tables in host memory",
        "Embedding tables that the host looks up in: those that the cards can't hold, or a share of all.", "choice",
        "partition", "by_family", none="none",
    ),
    Field("devices", "Devices", "Devices of the system in use.", "count", "partition", "device_counts", first=True),
    Field(
        "pipeline_parallel", "Pipeline stages", "PP: groups of the devices that have layers of their own.",
        "choice", "partition", "by_family", none="1",
    ),
    Field(
        "attention_dp", "Attention ranks",
        "Attention DP: groups of a stage's devices with requests of their own, which share feed-forward and experts.",
        "choice", "partition", "by_family", none="1",
    ),
    Field(
        "expert_parallel", "Expert ranks",
        "EP: groups of a stage's devices that hold whole experts; tokens go to them all to all.", "choice",
        "partition", "by_family", none="1",
    ),
    Field(
        "expert_imbalance", "Expert imbalance", "Tokens of the busiest rank of experts above the mean.", "choice",
        "partition", "by_family", none="0%",
    ),
    Field(
        "redundant_experts", "Redundant experts", "Second copies of the busiest experts, over all ranks of a layer.",
        "choice", "partition", "by_family", none="0",
    ),
    Field(
        "split", "Cut before operator", "Operators before the cut run on the first executor, the rest on the second.",
        "count", "partition", "cuts", column=False,
    ),
    Field(
        "switches", "Optimisations", "What the compiler and the runtime do.", "map", "optimisations", "switches",
        flag=False, column=False,
    ),
    Field(
        "runtime", "Runtime", "What runs the network: it sets which operators are fused and how they are launched.",
        "choice", "optimisations", "by_family", none="custom",
    ),
    Field(
        "overrides", "Hardware overrides",
        "A hardware value changed by you from the catalog's; it carries its unit, as in 460 GB/s.", "map", "hardware",
        none="none", flag=False, column=False,
    ),
    Field("costs", "Costs", "Prices and lifetime that turn power and hardware into money.", "record", "costs",
          flag=False, column=False),
    Field("limits", "Limits", "What will be accepted: latency, TTFT, TPOT [s], power [W], capex [USD].", "record", "",
          none="none", flag=False, column=False),
)  # fmt: skip
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
