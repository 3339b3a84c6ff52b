"""What a CPU's cost model reads off a phase's graph beside its table: who rides, slides, hashes or is no product."""

import numpy as np

from engine.devices.common.counts import places
from model_zoo.ops import Op, Phase, known_ahead

F = places(
    "special inline quantise prepared binary window channels hashed free slides pools convolves narrow tiled "
    "suppresses loose powers hoists"
)
"""Columns of the flags; `suppresses` is a number of classes."""
WIDE_INPUT, STORED_NARROW = 1.0, 2.0  # values of F.quantise: an input is wide; it is where sums are stored wide
DENSE, GROUPED = 1.0, 2.0  # values of F.loose: a convolution that a normalisation follows, of all channels or of groups
FLOP_A_SCORE = 10.0  # that the graphs count for each score of a box that suppression compares

_SPECIAL = {"Softmax": 1.0, "Gelu": 1.0, "Silu": 1.0, "Swish": 1.0, "Sigmoid": 1.0, "Tanh": 1.0, "LRN": 3.0}
"""Transcendental functions an element costs: LRN raises to a power, an exponential of a product with a logarithm."""
_RIDES = frozenset(
    {"Relu", "Clip", "BatchNormalization", "Sign", "HardSwish", "Add", "Mul", "Sigmoid", "Swish", "Silu"}
)
"""Element-wise kinds a product can apply to its result before storing it; a normalisation, only right behind it."""
_NO_WORK = frozenset({"Reshape", "Split"})
"""Views of the same bytes."""
_POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool"})
_STAY_NARROW = _POOLS | {"Add", "Relu", "Clip", "Concat"}
"""Kinds that INT8 libraries compute on what quantised products stored, without widening it in memory."""
TILED_FROM = 8.0  # input channels of a 3 x 3 convolution from which on tiles of it are transformed (Winograd)
PANEL, PANEL_FILL = 64.0, 0.7  # columns of a packed panel; share of them to fill, or a convolution's blocks win


def flags_of(phase: Phase) -> np.ndarray:
    """What the table doesn't say, from the graph's edges and attributes; shape (n_ops, len(F))."""
    flags = np.zeros((len(phase.ops), len(F)))
    by_name = {op.name: op for op in phase.ops}
    riding: set[str] = set()
    narrow: set[str] = set()
    for at, (row, op) in enumerate(zip(flags, phase.ops, strict=True)):
        producers = [by_name[name] for name in op.inputs if name in by_name]
        carriers = [p for p in producers if p.contraction or p.name in riding]
        row[F.special] = _SPECIAL.get(op.kind, 0.0)
        folds = op.kind != "BatchNormalization" or (bool(carriers) and carriers[0].contraction)
        constant = op.kind == "Mul" and len(producers) == 1 and producers[0].kind == "Conv"  # no pass fuses it
        if op.kind in _RIDES and carriers and folds and not constant and op.layers == carriers[0].layers:
            row[F.inline] = 1.0
            riding.add(op.name)
        low = op.contraction and op.quantisable and op.stored > 0
        narrow_in = bool(producers) and all(p.name in narrow for p in producers)
        if low or (narrow_in and op.kind in _STAY_NARROW):
            narrow.add(op.name)
            row[F.narrow] = not low
        if low and not carriers:
            row[F.quantise] = STORED_NARROW if narrow_in else WIDE_INPUT
        row[F.convolves] = op.kind == "Conv"
        row[F.prepared] = op.group == "preprocess"
        row[F.binary] = op.kind == "BinaryGemm"
        if op.attribute("normalised") > 0.0:
            row[F.loose] = DENSE if op.attribute("groups", 1.0) == 1.0 else GROUPED
        row[F.powers] = op.kind == "LRN"
        row[F.hoists] = known_ahead(phase.ops, at)
        row[F.window] = op.kind == "Conv" and op.attribute("kernel", 1.0) > 1.0
        groups = max(op.attribute("groups", 1.0), 1.0)
        row[F.channels] = op.attribute("channels", 1e9) / groups if op.kind == "Conv" else 1e9
        row[F.hashed] = op.kind == "Gather" and any(p.kind == "Hash" for p in producers)
        square = op.attribute("kernel", 1.0) == 3.0 and op.attribute("kernel_t", 1.0) == 1.0
        row[F.tiled] = square and op.attribute("stride", 1.0) == 1.0 and groups == 1.0 and row[F.channels] >= TILED_FROM
        if op.kind == "NonMaxSuppression":
            row[F.suppresses] = op.flops.at() / (FLOP_A_SCORE * op.attribute("boxes", 1.0))
        row[F.free] = op.kind in _NO_WORK
        row[F.pools] = op.kind in _POOLS
        row[F.slides] = row[F.pools] or (op.kind == "Conv" and row[F.channels] > 1.0 and not _is_product(op))
    return flags


def sources_of(phase: Phase) -> np.ndarray:
    """Places of the operators that each reads from, shape (n_ops, most of any); -1 where it reads from fewer."""
    at = {op.name: float(place) for place, op in enumerate(phase.ops)}
    sources = [[at[name] for name in op.inputs if name in at] for op in phase.ops]
    width = max(1, *map(len, sources))
    return np.array([of + [-1.0] * (width - len(of)) for of in sources])


def _is_product(op: Op) -> bool:
    """Whether a convolution is a matrix product of its pixels: windows of one pixel, filters that fill panels."""
    if max(op.attribute(name, 1.0) for name in ("kernel", "kernel_t", "stride", "stride_t", "groups")) > 1.0:
        return False
    filters = op.n.coef
    return filters > PANEL_FILL * np.ceil(filters / PANEL) * PANEL
