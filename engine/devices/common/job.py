"""What one device is asked to run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine.devices.common.cached import remembered
from hardware_specs.schema import Device, Link
from model_zoo.ops import Graph, Op, Phase


@dataclass(frozen=True)
class Job:
    """What one device is asked to run: a phase of a network, or its share of one.

    `ways` devices split every shardable op between them; `streams` jobs like this run on the device at once.
    `ops` is the part of the phase this device holds (all of it unless the network is cut). `link` is the wire to its
    peers. `engine` is the serving engine whose kernels run, empty for a family's usual one. `model` holds
    the family's parameters by name, already overridden.
    """

    device: Device
    phase: Phase
    ops: tuple[Op, ...]
    graph: Graph
    batch: int
    format: str
    switches: Mapping[str, bool]
    model: Mapping[str, float]
    tile: tuple[int, ...] = ()
    length: float = 1.0
    context: float = 1.0
    max_context: float = 1.0
    ways: int = 1
    streams: int = 1
    link: Link | None = None
    link_hops: float = 1
    link_direct: bool = False  # every pair of devices has a way of its own
    link_joins: float = math.inf  # devices that the wire joins: a node
    link_beyond: Link | None = None  # each device's wire to those of other nodes
    span: float = 0.0  # tokens at contexts of their own that its passes write, `context` their mean
    engine: str = ""

    @cached_property
    def rows(self) -> np.ndarray:
        """Where its operators lie in its phase, shape (n_ops,). [-]"""
        return _rows(self)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What a job like it in all but batch and lengths has too; objects by their `id`."""
        scalars = (self.ways, self.streams, self.format, self.tile, self.engine)
        scalars += (self.link_hops, self.link_direct, self.link_joins)
        objects = (self.device, self.phase, self.ops, self.graph, self.link, self.link_beyond)
        return (*map(id, objects), *scalars, *self.switches.values(), *self.model.values())

    @cached_property
    def whole_key(self) -> tuple[Any, ...]:
        """The same, batch and lengths with it."""
        return (*self.key, *self.sizes, self.max_context)

    @property
    def sizes(self) -> tuple[float, float, float, float]:
        """Where its counts are read: `model_zoo.ops.Phase.sizes`. [-]"""
        return self.batch, self.length, self.context, self.span


@remembered(lambda job: (id(job.phase), id(job.ops)))
def _rows(job: Job) -> np.ndarray:
    if len(job.ops) == len(job.phase.ops):
        return np.arange(len(job.ops))
    at = {op.name: i for i, op in enumerate(job.phase.ops)}
    return np.array([at[op.name] for op in job.ops])
