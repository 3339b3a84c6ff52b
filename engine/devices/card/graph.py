"""A network as the card's compiler hands it to the cores: what rides in what, and which conversions are operators.

Rules, each one read off the operator shares document 000 prints (its Table II; the rules of `model.yaml` say which):

* An activation rides in the convolution or product before it; so does a residual sum that no activation follows.
* Kernels of 3-D convolutions take nothing along: normalisation and activation stay operators, and a depthwise one has
  its input transposed first.
* In a low format, products take and emit it, except the last product, the first convolution and a recommendation
  model's first product, which stay wide. A conversion rides in a neighbour that computes element by element; beside
  data movement, lookups and the network's edge it is an operator of its own.
* Products of two activations stay in the format their inputs come in.

Counts of the operators that were there before do not change, so FLOPs, parameters and lookups are conserved.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from engine.devices.common.column import larger
from engine.scenario import ScenarioError
from engine.scenario.formats import BITS
from hardware_specs.schema import Device
from model_zoo.families.blocks import elementwise, move
from model_zoo.ops import Dim, Graph, Op, readers_of
from model_zoo.table import CLASS_OF, LOOKUP, MOVEMENT

RIDERS = frozenset({"Relu", "Clip", "HardSwish", "Swish", "Silu", "Tanh"})
POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool"})

# attributes that `as_run` sets
RIDES = "rides"  # no kernel of its own
LOW = "low"  # computed on low-format values
LOW_IN = "low_in"  # element-wise: operands to widen
LOW_OUT = "low_out"  # element-wise: the result is narrowed
ADDED = "added"  # a residual sum rides in this convolution
RANGE = "range"  # the smallest and the largest value are searched before the conversion
HOSTED = "hosted"  # runs on the host although the card could
DECODED = "decoded"  # runs on a video decoder

CONVERT_OPERATIONS = 3.0  # scale, round or offset, convert: of one element
ASSUMED_ARRAY = 32.0 * 32.0  # multipliers that the assumed array has; fewer of them take turns
SEARCH_OPERATIONS = 2.0  # smaller and larger: of one element


def _class(op: Op) -> int:
    return CLASS_OF.get(op.kind, -1)


def _moves(op: Op) -> bool:
    return _class(op) == MOVEMENT


def _with(op: Op, **attributes: float) -> Op:
    base = tuple((k, v) for k, v in op.attributes if k not in attributes)
    return replace(op, attributes=base + tuple(attributes.items()))


def _convert(name: str, kind: str, elements: Dim, near: Op, inputs: tuple[str, ...], search: bool = False) -> Op:
    """A conversion kernel; where there is a `search` of the range, it reads everything once more first."""
    return elementwise(
        name,
        kind,
        elements,
        group=near.group,
        inputs=inputs,
        layers=near.layers,
        steps=near.steps,
        operands=2 if search else 1,
        operations=CONVERT_OPERATIONS + (SEARCH_OPERATIONS if search else 0.0),
        g=near.g if near.shard == "g" else Dim(1.0),
        shard="g" if near.shard == "g" else "elements",
        attributes=((RANGE, 1.0),) if search else (),
    )


def _unfused_clip(ops: list[Op]) -> list[Op]:
    """3-D convolutions with their normalisation and, where depthwise, a transpose as operators of their own."""
    out: list[Op] = []
    alias: dict[str, str] = {}
    for old in ops:
        op = replace(old, inputs=tuple(alias.get(name, name) for name in old.inputs))
        has_norm = op.kind == "Conv" and op.attribute("normalised") > 0
        if has_norm:
            op = _with(op, normalised=0.0)  # from here on by the operator after it
        if op.kind == "Conv" and op.attribute("kernel_t") > 1 and op.attribute("groups") > 1:
            out.append(move(f"{op.name}-transpose", "Transpose", op.reads, group=op.group, inputs=op.inputs))
            op = replace(op, inputs=(out[-1].name,))
        out.append(op)
        if has_norm:
            name = f"{op.name}-norm"
            out.append(elementwise(name, "BatchNormalization", op.writes, group=op.group, inputs=(op.name,)))
            alias[op.name] = name
    return out


def _fuse(ops: list[Op], sums: bool) -> list[Op]:
    """Marks what rides in the operator before it; with `sums`, every residual sum does, its activation behind it."""
    by, readers = {op.name: op for op in ops}, readers_of(ops)
    takes: dict[str, dict[str, float]] = {}
    for op in ops:
        first = by.get(op.inputs[0]) if op.inputs else None
        if op.kind in RIDERS and first is not None and (first.contraction or first.kind in ("Add", "Mul")):
            takes.setdefault(op.name, {})[RIDES] = 1.0
        if op.kind == "Add" and (sums or not any(reader.kind in RIDERS for reader in readers.get(op.name, []))):
            host = next((by[n] for n in op.inputs if n in by and by[n].kind == "Conv" and len(readers[n]) == 1), None)
            if host is not None:
                takes.setdefault(op.name, {})[RIDES] = 1.0
                takes.setdefault(host.name, {})[ADDED] = 1.0
    return [_with(op, **takes[op.name]) if op.name in takes else op for op in ops]


def _wide_by_rule(ops: list[Op]) -> frozenset[str]:
    """Names of the products that stay wide: the last, and the first of images and of recommendation models.

    Of the latter, document 000 says that a few do, the last among them (V-B); which others is not printed.
    """
    products = [op for op in ops if op.contraction and op.stored]
    if not products:
        return frozenset()
    names = {products[-1].name} if products[-1].layers == 1 else set()
    if products[0].kind == "Conv" or any(op.kind == "EmbeddingBag" for op in ops):
        names.add(products[0].name)
    return frozenset(names)


def _emits(ops: list[Op], wide: frozenset[str], dynamic: bool) -> dict[str, str]:
    """What each operator emits: ``low``, ``wide``, or ``any`` (an element-wise kernel that can narrow its result).

    Nobody narrows anything where ranges are `dynamic`: they are known only when all of a result is.
    """
    if dynamic:
        return {op.name: "wide" for op in ops}
    emits: dict[str, str] = {}
    for op in ops:
        into = [emits.get(name, "wide") for name in op.inputs] or ["wide"]
        if op.contraction and op.stored:
            emits[op.name] = "low" if op.quantisable and op.name not in wide else "wide"
        elif op.contraction:  # a product of activations
            emits[op.name] = "low" if "low" in into and "wide" not in into else "wide"
        elif _class(op) == LOOKUP:
            emits[op.name] = "wide"
        elif op.attribute(RIDES) and "low" in into:
            emits[op.name] = "low"
        elif _moves(op) or op.kind in POOLS or op.attribute(RIDES):
            emits[op.name] = into[0] if len(set(into)) == 1 else "low" if set(into) == {"low", "any"} else "wide"
        else:
            emits[op.name] = "any"
    return emits


def _takes_low(ops: list[Op], emits: Mapping[str, str]) -> dict[str, bool]:
    """Whether a reader wants an operator's output narrow, seen through what only passes it on."""
    readers = readers_of(ops)
    low_readers: dict[str, bool] = {}
    for op in reversed(ops):
        low_readers[op.name] = any(
            emits[r.name] == "low"
            if r.contraction
            else low_readers[r.name]
            if _moves(r) or r.kind in POOLS or r.attribute(RIDES)
            else "low" in [emits.get(n, "wide") for n in r.inputs]
            for r in readers.get(op.name, [])
        )
    return low_readers


def _with_conversions(ops: list[Op], ranges: str) -> list[Op]:
    """The operators with their formats marked and the conversions that need a kernel inserted.

    `ranges` of activations are ``known`` beforehand, ``searched`` by kernels or ``collected`` by units at run time.
    """
    stay = _wide_by_rule(ops)
    emits = _emits(ops, stay, ranges != "known")
    computes = {
        op.name: (op.quantisable and op.name not in stay) if op.contraction and op.stored else emits[op.name] == "low"
        for op in ops
    }
    low_readers = _takes_low(ops, emits)
    by = {op.name: op for op in ops}
    out: list[Op] = []
    conversions: dict[tuple[str, str], str] = {}

    def insert(source: Op, kind: str, suffix: str) -> str:
        key = (source.name, kind)
        if key not in conversions:
            conversions[key] = f"{source.name}-{suffix}"
            search = kind == "QuantizeLinear" and ranges == "searched"
            out.append(_convert(conversions[key], kind, source.writes, source, (source.name,), search))
        return conversions[key]

    for op in ops:
        low = computes[op.name]
        inputs = []
        for name in op.inputs:
            source = by.get(name)
            emit = emits.get(name, "wide")
            if source is None:
                inputs.append(name)
            elif op.contraction and low and emit == "wide":
                inputs.append(insert(source, "QuantizeLinear", "quantize"))
            elif emit == "low" and ((op.contraction and not low) or (_moves(op) and not low) or _class(op) == LOOKUP):
                inputs.append(insert(source, "DequantizeLinear", "dequantize"))
            else:
                inputs.append(name)
        if not op.inputs and op.contraction and low:
            search = ranges == "searched"
            out.append(_convert(f"{op.name}-quantize", "QuantizeLinear", op.reads, op, (), search))
            inputs = [out[-1].name]
        elif not op.inputs and op.kind == "Conv":
            out.append(_convert(f"{op.name}-convert", "Cast", op.reads, op, ()))
            inputs = [out[-1].name]
        reader = replace(op, inputs=tuple(inputs), quantisable=low if op.contraction else op.quantisable)
        marks: dict[str, float] = {}
        if low or emits[op.name] == "any":
            operands = sum(emits.get(n, "wide") == "low" for n in op.inputs)
            if not op.contraction and not _moves(op) and (op.kind == "Add" or not op.attribute(RIDES)) and operands:
                marks[LOW_IN] = float(operands)
        if emits[op.name] == "any" and low_readers[op.name]:
            marks[LOW_OUT] = 1.0
        if low or (emits[op.name] == "any" and low_readers[op.name] and marks.get(LOW_IN)):
            marks[LOW] = 1.0
        out.append(_with(reader, **marks) if marks else reader)
    return out


def _broadcast(ops: list[Op], share: float, single: bool) -> list[Op]:
    """Lookup indices of the request's user, sent once and repeated for every item on the card."""
    out: list[Op] = []
    for op in ops:
        tables = round(op.layers * share)
        if op.kind == "EmbeddingBag" and tables:
            rows, layers = (op.gather_rows * tables, 1) if single else (op.gather_rows, tables)
            copy = move(f"{op.name}-broadcast", "Tile", Dim(rows.coef), group=op.group, writes=rows, layers=layers)
            out.append(replace(copy, quantisable=False))
            out.append(replace(op, inputs=(*op.inputs, copy.name)))
        else:
            out.append(op)
    return out


_READ = ("fuse", "fuse-sums", "broadcast-on-card", "one-broadcast", "host-embedding", "hardware-decode")
_RANGES = ("dynamic-ranges", "range-units")
"""Switches that `as_run` reads."""


@lru_cache(maxsize=512)
def as_run(graph: Graph, low: bool, on: frozenset[str], share: float = 0.0, decode: float = 0.0) -> Graph:
    """The graph as the card runs it.

    Parameters
    ----------
    low : whether the scenario's precision is below 16 bits; on : switches that are on.
    share : part of the tables whose indices belong to the user. [-]
    decode : operations, or pixels where hardware decodes, that a clip takes to decode; 0: decoded elsewhere.
    """
    phases, ranges = [], "known"
    if "dynamic-ranges" in on:
        ranges = "collected" if "range-units" in on else "searched"
    for phase in graph.phases:
        ops = list(phase.ops)
        if decode > 0 and graph.unit == "clip":
            first = Op("decode", "Preprocess", "decode", flops=Dim(decode, b=1), writes=graph.input_elements)
            marks = ((DECODED, 1.0),) if "hardware-decode" in on else ()
            ops.insert(0, replace(first, quantisable=False, attributes=marks))
        if "host-embedding" in on:
            ops = [_with(op, **{HOSTED: 1.0}) if op.group == "embedding" and not op.contraction else op for op in ops]
        clip = any(op.attribute("kernel_t") > 1 for op in ops)
        if clip:
            ops = _unfused_clip(ops)
        if "broadcast-on-card" in on:
            ops = _broadcast(ops, share, "one-broadcast" in on)
        if "fuse" in on and not clip:
            ops = _fuse(ops, "fuse-sums" in on)
        if low:
            ops = _with_conversions(ops, ranges)
        phases.append(replace(phase, ops=tuple(ops)))
    return replace(graph, phases=tuple(phases))


def lower(device: Device, graph: Graph, format: str, switches: Mapping[str, bool], model: Mapping[str, float]) -> Graph:
    """`as_run` for a scenario's precision and switches; ScenarioError for a larger array than its multipliers."""
    assert device.card is not None, device.id
    macs, array = max(n.si for n in device.card.mac_per_cycle.values()), model["array_depth"] * model["array_filters"]
    if array > larger(macs, ASSUMED_ARRAY):
        raise ScenarioError(
            f"model.array_depth is {model['array_depth']:g} and model.array_filters {model['array_filters']:g}: "
            f"a core of {device.name} has {macs:g} multipliers at most, fewer than their product"
        )
    on, decode = frozenset(name for name in _READ + _RANGES if switches[name]), 0.0
    if "hardware-decode" in on:
        decode = model["clip_pixels"]
    elif switches["host-decode"]:
        decode = model["clip_pixels"] * model["decode_ops"]
    return as_run(graph, BITS[format] < 16, on, model["user_share"], decode)
