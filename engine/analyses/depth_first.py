"""Breadth-first against depth-first execution: which operators can run as one, in which tiles, and what it saves.

A framework finishes each operator before it starts the next, so every intermediate goes to memory and back. Depth
first, a group of operators without a dense product between them runs tile by tile, each tile small enough that what
lies between its operators never leaves a core's cache (Weber et al., BrainSlug, 2018; document 003, section 4.1).
Dense products stay library calls and end a group. Bytes are exact for the graph; times come from the device family.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from types import MappingProxyType
from typing import Any

from engine.devices import family
from engine.devices.common.job import Job
from hardware_specs.schema import Device
from model_zoo.families.blocks import elementwise
from model_zoo.ops import ONE, Dim, Graph, Op, Phase, dim, readers_of

FUSABLE = frozenset({
    "Relu", "Clip", "HardSwish", "Swish", "Silu", "Sigmoid", "Tanh", "Gelu", "Add", "Mul", "BatchNormalization", "LRN",
    "MaxPool", "AveragePool", "GlobalAveragePool", "Concat", "Tile",
})  # fmt: skip
LOOPS = frozenset({"MaxPool", "AveragePool", "Conv"})  # read a window: neighbours' rows are needed too
POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool"})
EAGER = MappingProxyType({"fuse": False, "graph": False})
"""Switches that a breadth-first framework has off, where a family has them, and names no such runtime."""
ELEMENT = 4.0  # bytes of an activation: frameworks of the document's year run FP32


@dataclass(frozen=True)
class FusedChain:
    """A group of operators that run as one.

    Attributes
    ----------
    ops : names, in order.
    before : activation elements moved breadth first, as a function of the batch.
    read, written : the same depth first.
    rows, channels : extent of a tile of the group's output.
    tile_bytes : what a tile keeps between its operators. [B]
    halo : share of input rows read twice because windows of neighbouring tiles overlap. [-]
    """

    ops: tuple[str, ...]
    before: Dim
    read: Dim
    writes: Dim
    rows: int
    channels: int
    tile_bytes: float
    halo: float

    @property
    def after(self) -> Dim:
        """Activation elements moved depth first."""
        return _sum((self.read, self.writes))

    def moved_bytes(self, batch: float) -> tuple[float, float]:
        """Activation bytes moved breadth first and depth first. [B]"""
        return ELEMENT * self.before.at(batch), ELEMENT * self.after.at(batch)


@dataclass(frozen=True)
class DepthFirstComparison:
    """Both executions of a network on a device."""

    breadth_s: float
    depth_s: float
    breadth_bytes: float  # activations of the grouped operators
    depth_bytes: float
    chains: tuple[FusedChain, ...]

    @property
    def speedup(self) -> float:
        """Breadth-first over depth-first time. [-]"""
        return self.breadth_s / self.depth_s


def depthwise(op: Op) -> bool:
    """Whether an op is a convolution with one input channel a filter: a weighted pool, not a product."""
    return op.kind == "Conv" and op.g.coef > 1 and op.n.at() == 1.0 and op.attribute("kernel") > 1


def fusable(op: Op) -> bool:
    """Whether an op may join a group: a recurrence comes back to each of its steps."""
    return (op.kind in FUSABLE or depthwise(op)) and op.steps == ONE


def _sized(op: Op, length: float, context: float) -> Op:
    """An op with its counts at a pass's length and context, so that only the batch is left open."""
    counts = {name: count for name in Op.__slots__ if isinstance(count := getattr(op, name), Dim)}
    return replace(op, **{name: Dim(count.at(1.0, length, context), count.b) for name, count in counts.items()})


def eager(phase: Phase, length: float = 1.0, context: float = 1.0) -> Phase:
    """The phase as an eager framework runs it: batch normalisation as an operator of its own after its convolution, and
    counts of what may join a group at a pass's length and context.
    """
    ops: list[Op] = []
    names_after: dict[str, str] = {}
    names = {op.name for op in phase.ops}
    for op in phase.ops:
        inputs = tuple(names_after.get(name, name) for name in op.inputs)
        sized = _sized(op, length, context) if fusable(op) else op
        ops.append(replace(sized, inputs=inputs))
        if op.kind == "Conv" and op.attribute("normalised"):
            name = _free(f"{op.name}-norm", names)
            channels = op.attribute("filters")
            ops.append(
                elementwise(
                    name,
                    "BatchNormalization",
                    op.writes,
                    group=op.group,
                    inputs=(op.name,),
                    layers=op.layers,
                    stored=2.0 * channels,
                )
            )
            names_after[op.name] = name
    return replace(phase, ops=tuple(ops))


def _free(name: str, names: set[str]) -> str:
    """A name no operator has yet, added to `names`: a graph may hold one of its own called like an added one."""
    while name in names:
        name += "-added"
    names.add(name)
    return name


def _levels(ops: Sequence[Op]) -> dict[str, int]:
    """Products on the longest way to each op; ops of one level can form a group without a product in between."""
    level: dict[str, int] = {}
    dense: dict[str, bool] = {}
    for op in ops:
        level[op.name] = max((level[i] + dense[i] for i in op.inputs if i in level), default=0)
        dense[op.name] = not fusable(op)
    return level


def _groups(ops: Sequence[Op]) -> list[list[Op]]:
    """Connected fusable ops of one level, in order."""
    level = _levels(ops)
    at = {op.name: op for op in ops}
    root = {op.name: op.name for op in ops}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = name = root[root[name]]
        return name

    for op in ops:
        for name in op.inputs:
            fuses = name in at and fusable(op) and fusable(at[name]) and level[name] == level[op.name]
            if fuses and op.layers == at[name].layers:
                root[find(op.name)] = find(name)
    groups: dict[str, list[Op]] = {}
    for op in ops:
        if fusable(op):
            groups.setdefault(find(op.name), []).append(op)
    return [group for group in groups.values() if len(group) > 1]


def _sum(counts: Iterable[Dim]) -> Dim:
    return dim(sum(c.coef for c in counts), "b")


def _traffic(group: Sequence[Op], at: Mapping[str, Op], readers: Mapping[str, list[Op]]) -> tuple[Dim, Dim, Dim]:
    """Elements moved breadth first, and read and written depth first."""
    inside = {op.name for op in group}
    before = _sum(c for op in group for c in (op.reads, op.writes))
    sources = {name for op in group for name in op.inputs if name not in inside}
    read = _sum(at[name].writes for name in sources if name in at)
    read = read if sources else group[0].reads
    last = (op for op in group if op.name not in readers or any(r.name not in inside for r in readers[op.name]))
    writes = _sum(op.writes for op in last)
    return before, read, writes


def _tile(group: Sequence[Op], channels_of: Mapping[str, float], cache: float) -> tuple[int, int, float, float] | None:
    """Rows and channels of the largest tile whose intermediates fit, their bytes, and the halo; None if none fits.

    A tile is so many rows of the group's output, full width, of so many channels. All operators of a group treat
    channels apart (LRN reads two neighbours on each side), so one channel is the least, and as many as fit the most.
    `channels_of` has the channels of every operator's output.
    """
    last = group[-1]
    pixels = max(last.m.at() if last.contraction else last.writes.at() / channels_of[last.name], 1.0)
    side = max(int(sqrt(pixels)), 1)
    grow, overlap = 1.0, 0.0
    per_row = 0.0
    for op in reversed(group):  # rows an operator must make for one row of the output, and what they weigh
        width = sqrt(max(op.writes.at() / channels_of[op.name], 1.0))
        per_row += grow * width * ELEMENT
        if op.kind in LOOPS:
            stride, kernel = max(op.attribute("stride", 1.0), 1.0), op.attribute("kernel", 1.0)
            overlap += max(kernel - stride, 0.0) * grow
            grow *= stride
        elif op.kind == "GlobalAveragePool":
            grow *= max(op.attribute("height", 1.0), 1.0)
    minimum = 5 if any(op.kind == "LRN" for op in group) else 1
    extra = overlap * per_row / max(grow, 1.0)
    rows = int((cache / minimum - extra) // per_row)
    if rows < 1:
        return None
    rows = min(rows, side)
    tile = rows * per_row + extra
    channels = max(minimum, min(int(cache // tile), int(channels_of[last.name])))
    halo = overlap / (overlap + rows * grow) if rows < side else 0.0
    return rows, channels, channels * tile, halo


def _channels(ops: Sequence[Op]) -> dict[str, float]:
    """Channels of each op's output, found at the convolution it descends from. One pass, as inputs come first."""
    channels: dict[str, float] = {}
    for op in ops:
        if op.kind == "Concat":
            total = sum(channels[name] for name in op.inputs if name in channels)
            channels[op.name] = min(total, op.writes.at()) or 1.0  # a channel has an element
        else:
            channels[op.name] = op.attribute("filters") or channels.get(next(iter(op.inputs), ""), 1.0)
    return channels


def chains(phase: Phase, cache: float) -> tuple[FusedChain, ...]:
    """Groups of a phase that run depth first within `cache` bytes of one core.

    A group whose single-row tile is too large even for one channel is left to breadth-first execution.
    """
    at, readers = {op.name: op for op in phase.ops}, readers_of(phase.ops)
    result, channels_of = [], _channels(phase.ops)
    for group in _groups(phase.ops):
        tile = _tile(group, channels_of, cache)
        if tile is None:
            continue
        names = tuple(op.name for op in group)
        before, read, writes = _traffic(group, at, readers)
        chain = FusedChain(names, before, read * (1 + tile[-1]), writes, *tile)
        if chain.after.coef < before.coef:
            result.append(chain)
    return tuple(result)


def depth_first(phase: Phase, cache: float, pool_cycles: float = 1.0) -> Phase:
    """The phase with each of its chains as one operator that reads and writes what the chain does.

    `pool_cycles` is the vector work of an element of a pool's window, in that of any other operation.
    """
    at, member = {op.name: op for op in phase.ops}, dict[str, Op]()
    for chain in chains(phase, cache):
        group, inside = [at[name] for name in chain.ops], set(chain.ops)
        sources = dict.fromkeys(name for op in group for name in op.inputs if name not in inside)
        whole = Op(
            name="+".join((group[0].name, group[-1].name)),
            kind="BatchNormalization",
            group=group[0].group,
            inputs=tuple(sources),
            layers=group[0].layers,
            flops=_sum(op.flops * (pool_cycles if op.kind in POOLS else 1.0) for op in group),
            stored=sum(op.stored for op in group),
            weights=Dim(sum(op.weights.at() for op in group)),
            reads=chain.read,
            writes=chain.writes,
            shard="elements",
        )
        member |= dict.fromkeys(chain.ops, whole)
    return replace(phase, ops=tuple(_with_groups(phase.ops, member)))


def _with_groups(ops: Sequence[Op], member: Mapping[str, Op]) -> list[Op]:
    """Ops with groups in place of their members, in an order in which every input comes first."""
    last = {member[op.name].name: i for i, op in enumerate(ops) if op.name in member}
    result: list[Op] = []
    for i, op in enumerate(ops):
        whole = member.get(op.name)
        if whole is None:
            result.append(_rewire(op, member))
        elif last[whole.name] == i:
            result.append(_rewire(whole, member))
    return result


def _rewire(op: Op, member: Mapping[str, Op]) -> Op:
    names = dict.fromkeys(member[name].name if name in member else name for name in op.inputs)
    return replace(op, inputs=tuple(names))


def tile_cache(device: Device) -> float:
    """Memory one core has to itself for a tile: its private cache, else its part of a shared one. [B]"""
    private = [m.capacity.si for m in device.memory if m.role == "onchip" and m.per == "core"]
    if private:
        return max(private)
    shared = max((m.capacity.si for m in device.memory if m.role == "onchip"), default=0.0)
    return shared / device.cores


def compare(
    device: Device,
    graph: Graph,
    batch: int,
    settings: Mapping[str, float | bool] = MappingProxyType({}),
    sizes: tuple[float, float] = (1.0, 1.0),
    **layout: Any,
) -> DepthFirstComparison:
    """A network's forward pass breadth first under an eager framework, and depth first. An estimate.

    Both issue operators and multiply as the family's eager runtime does, where it has one. What a chain gains follows
    from the machine: a core's own cache sets its tile, whether lines are read before they are written, the rates of
    caches and DRAM, a window's cost and an operator's start are the family's for that part.

    Parameters
    ----------
    settings : parameters and switches of the device's model that are not its own, by name.
    sizes : tokens of the pass, and the context that they attend to. [-]
    layout : ``format`` (FP32 when left out), ``tile`` and ``streams`` as a `Job` has them.
    """
    runtime = family(device.kind).fields.get("runtime")
    if runtime is not None:
        usual = runtime.settings["eager"]
        settings = {**usual.switches, **usual.parameters, **settings}
    breadth, cache = eager(graph.phases[0], *sizes), tile_cache(device)
    pool = settings.get("pool_cycles", pool_cycles(device))
    depth, result = depth_first(breadth, cache, pool), chains(breadth, cache)
    breadth_s, depth_s = (seconds(device, graph, phase, batch, settings, sizes, **layout) for phase in (breadth, depth))
    layers = {op.name: op.layers for op in breadth.ops}
    moved = [(layers[c.ops[0]], *c.moved_bytes(batch)) for c in result]
    wide, deep = sum(n * before for n, before, _ in moved), sum(n * after for n, _, after in moved)
    return DepthFirstComparison(breadth_s, depth_s, wide, deep, result)


def pool_cycles(device: Device) -> float:
    """Vector work of an element of a pool's window, in that of any other operation. [-]"""
    return family(device.kind).model(device).get("pool_cycles", 1.0)


def seconds(
    device: Device,
    graph: Graph,
    phase: Phase,
    batch: int,
    settings: Mapping[str, float | bool] = MappingProxyType({}),
    sizes: tuple[float, float] = (1.0, 1.0),
    **layout: Any,
) -> float:
    """Time of one pass with operators issued one by one and nothing fused by the library; as in `compare`. [s]"""
    fam = family(device.kind)
    parameters = {p.name for p in fam.parameters}
    fields: dict[str, Any] = {"format": "fp32"} | layout
    job = Job(
        device=device,
        phase=phase,
        ops=phase.ops,
        graph=replace(graph, phases=(phase,)),
        batch=batch,
        length=sizes[0],
        context=sizes[1],
        max_context=sizes[1],
        switches={s.name: EAGER.get(s.name, bool(settings.get(s.name, s.default))) for s in fam.switches},
        model=fam.model(device, {name: value for name, value in settings.items() if name in parameters}),
        **fields,
    )
    return fam.price(job).total_s
