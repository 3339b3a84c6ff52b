"""Instructions of the DFX core and what each takes: units, registers, cycles.

Source: Hong et al., MICRO 2022, sections IV to V. A program is a list of `Instruction`: what is done to which
registers, over how many rows and columns. The functional machine executes it; `encode` makes rows of a flat array of it
for one core, which the scoreboard times, finding what waits for what from their registers.
Matrix instructions are priced by the beats their tiles take from HBM; d x l FP16 weights are one beat, with 8-bit ones
about as many more come. A load of weights fills a buffer of the DMA while the core waits for something else; the
product that names it streams only the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from engine.devices.common.column import exceeds, larger, one_by_one, smaller
from model_zoo.ops import Phase

UNITS: tuple[str, ...] = ("MPU + DMA read", "VPU", "router", "DMA write", "DDR")
MPU, VPU, ROUTER, WRITE, DDR = range(len(UNITS))

# columns of an encoded instruction: its timing, then its registers
UNIT, OCCUPY, LATENCY, WAIT, CHAIN, ROLE, HBM, BEATS, SENT, DST, SRC1, SRC2 = range(12)
COLUMNS = SRC2 + 1

ROLES: tuple[str, ...] = (
    "embedding", "norm1", "value", "key", "query", "kv-append", "scores", "softmax", "context", "sync-attention",
    "attention-out", "sync-projection", "residual1", "norm2", "fc1", "sync-fc1", "fc2", "sync-fc2", "residual2",
    "final-norm", "lm-head", "argmax", "rotary", "gate", "up", "gated", "down", "handover",
)  # fmt: skip
(
    EMBEDDING, NORM1, VALUE, KEY, QUERY, KV_APPEND, SCORES, SOFTMAX, CONTEXT, SYNC_ATTENTION, ATTENTION_OUT,
    SYNC_PROJECTION, RESIDUAL1, NORM2, FC1, SYNC_FC1, FC2, SYNC_FC2, RESIDUAL2, FINAL_NORM, LM_HEAD, ARGMAX,
    ROTARY, GATE, UP, GATED, DOWN, HANDOVER,
) = range(len(ROLES))  # fmt: skip

# what instructions do
MNEMONICS: tuple[str, ...] = (
    "load.token", "load.position", "store.token", "add", "sub", "mul", "mul.s", "load.gamma", "load.beta", "exp",
    "accum", "mul.width", "recip_sqrt", "recip", "Conv1D", "Conv1D.gelu", "MaskedMM", "MM", "MM.argmax", "store.key",
    "store.value", "sync", "sync.argmax", "sub.max", "load.weights", "load.cos", "load.sin", "rotate", "mul.head",
    "Conv1D.silu", "send",
)  # fmt: skip
(
    LOAD_TOKEN, LOAD_POSITION, STORE_TOKEN, ADD_OP, SUB_SCALAR, MUL_OP, MUL_SCALAR, LOAD_GAMMA, LOAD_BETA,
    EXP_OP, ACCUMULATE, DIVIDE_BY_WIDTH, INVERSE_DEVIATION, RECIPROCAL_OP, CONV1D, CONV1D_GELU, MASKED_MM,
    MM, MM_ARGMAX, STORE_KEY, STORE_VALUE, SYNC, SYNC_ARGMAX, SUB_MAXIMUM,
    LOAD_WEIGHTS, LOAD_COSINE, LOAD_SINE, ROTATE, MUL_HEAD, CONV1D_SILU, SEND,
) = range(len(MNEMONICS))  # fmt: skip

REGISTERS: tuple[str, ...] = (
    "-", "x", "position", "sum", "mean", "centred", "squares", "deviation", "scaled", "normed", "v", "k", "q",
    "score0", "score1", "power0", "power1", "share", "mixed", "gathered", "projected", "middle", "wide", "next", "best",
    "keys", "values", "gamma", "beta", "tile0", "tile1", "cosine", "sine", "turned", "up",
)  # fmt: skip
(
    NONE, X, POSITION, SUM, MEAN, CENTRED, SQUARES, DEVIATION, SCALED, NORMED, V, K, Q, SCORE, SCORE1, POWERS, POWERS1,
    SHARE, MIXED, GATHERED, PROJECTED, MIDDLE, WIDE, NEXT, BEST, KEYS, VALUES,
    GAMMA, BETA, TILE, TILE1, COSINE, SINE, TURNED, UPPER,
) = range(len(REGISTERS))  # fmt: skip
"""Vectors and scalars of one token; `keys` and `values` are the cache in HBM; scores of heads take turns in two.
`tile0` and `tile1` are the double buffer of weights in the DMA.
"""

BUFFER = 512.0
"""Beats that each half of the DMA's double buffer holds: blocks of BRAM, 72 bits wide, are 512 words deep. [-]"""

# record of the core and its network: what the programs are made for
D, L, VECTOR, ADD, MUL, EXP, COMPARE, ROOT, RECIPROCAL, TABLE, BEAT, WRITE_LATENCY, DDR_RATE, DDR_LATENCY, HOP, \
    LINK_RATE, ISSUE, ACCESS, SET_UP, CARDS, BYTES, FILL, PREFETCH, KEPT_BEATS, READ, \
    WEIGHT, CACHED, PRODUCT, TREE, SCALE, QUANTISE = range(31)  # fmt: skip
RECORD = QUANTISE + 1

PROJECTIONS = frozenset((CONV1D, CONV1D_GELU, CONV1D_SILU))
MATRIX = PROJECTIONS | {MASKED_MM, MM, MM_ARGMAX}
SIZED = MATRIX | {LOAD_WEIGHTS, ROTATE}  # those that have rows beside their columns
SCALAR = frozenset((DIVIDE_BY_WIDTH, INVERSE_DEVIATION, RECIPROCAL_OP))
_DDR = frozenset((LOAD_TOKEN, LOAD_POSITION, STORE_TOKEN, LOAD_GAMMA, LOAD_BETA, LOAD_COSINE, LOAD_SINE))
_STORE = frozenset((STORE_KEY, STORE_VALUE))
SYNC_OPS = frozenset((SYNC, SYNC_ARGMAX))
_ROUTED = SYNC_OPS | {SEND}
_CACHED = frozenset((MASKED_MM, MM))  # their matrix is the cache of keys or values


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: operation, registers, and the size of what it works on.

    Attributes
    ----------
    rows, columns : of a matrix operand; a vector instruction has columns only, a turn of heads their size as rows.
        [elements]
    arg : head of an attention product, or role of the weights of another one.
    """

    op: int
    dst: int
    src1: int
    role: int
    columns: Any
    src2: int = NONE
    rows: Any = 1.0
    arg: float = 0.0


@dataclass(frozen=True)
class LayerSizes:
    """Sizes of the decoder a core runs. [elements]

    `shared` query heads read one key head. A `gated` one has RMS norms, rotary positions and two matrices before
    the feed-forward's product; else it is GPT-2.
    """

    width: float
    heads: float
    head: float
    ffn: float
    layers: int
    vocab: float
    shared: float = 1.0
    gated: bool = False

    @classmethod
    def of(cls, phase: Phase) -> "LayerSizes":
        """Sizes read off the ops of a phase."""
        ops = {op.name: op for op in phase.ops}
        scores, gated = ops["scores"], "gate-up" in ops
        ffn = ops["gate-up"].n.coef / 2 if gated else ops["fc1"].n.coef
        width, layers, vocab = ops["qkv"].k.coef, ops["qkv"].layers, ops["lm-head"].n.coef
        return cls(width, scores.g.coef * scores.m.coef, scores.k.coef, ffn, layers, vocab, scores.m.coef, gated)

    def on(self, cards: float) -> tuple[float, float]:
        """Query heads and key heads of the fullest of so many cards: key heads are never cut. [-] A bound."""
        keys = ceil(self.heads / self.shared / cards)
        return keys * self.shared, keys


def _levels(count: float) -> int:
    """Levels of a tree over so many values. [-]"""
    return ceil(log2(count))


def kept_beats(rec: Sequence[Any], columns: Any) -> Any:
    """Beats for which d inputs stay at the multipliers, as the load direction has it. [beat] A derivation.

    The zigzag goes over d columns of a tile of d x d before the tile below, the horizontal direction over all columns,
    the vertical one straight to the tile below. So many columns of each lane have partial sums, too.
    """
    return smaller(rec[KEPT_BEATS], larger(rec[D] / rec[L], ceil(columns / rec[L])))


def partial_sums(rec: Sequence[Any], columns: Any) -> Any:
    """Partial sums a column has under way in the adder of its lane. [-] A derivation.

    An adder of so many stages gives a sum back that many cycles later; columns take turns in it.
    """
    return ceil(rec[TREE] / kept_beats(rec, columns))


def _hops(rec: Sequence[Any], i: Instruction) -> Any:
    """How often a card passes something on: round the whole ring, or to the next card alone. [-]"""
    return 1.0 if i.op == SEND else rec[CARDS] - 1.0


def _latency(rec: Sequence[Any], i: Instruction) -> Any:
    """Cycles from the last beat that goes in to the last result. [cycle]"""
    if i.op in MATRIX:
        down = ceil(i.rows / rec[D])  # tiles a column is summed over
        levels = one_by_one(_levels, smaller(down, partial_sums(rec, i.columns)))
        tree = rec[PRODUCT] + rec[TREE] * (one_by_one(_levels, rec[D]) + exceeds(down, 1.0) + levels) + rec[SCALE]
        maximum = one_by_one(_levels, rec[VECTOR]) * rec[COMPARE]
        behind = {
            CONV1D: rec[ADD],
            CONV1D_GELU: rec[ADD] + rec[TABLE],
            CONV1D_SILU: rec[ADD] + rec[TABLE],
            MASKED_MM: rec[MUL] + 1.0 + maximum,  # scale by 1 / sqrt(head), masking, tree of comparators
            MM: 0.0,
            MM_ARGMAX: maximum,
        }
        return tree + behind[i.op]
    if i.op in _ROUTED:
        hops, beats = _hops(rec, i), ceil(i.columns / rec[VECTOR])
        return ceil(hops * rec[HOP] + hops * i.columns * rec[BYTES] / rec[LINK_RATE]) + beats
    if i.op in (ADD_OP, SUB_SCALAR, SUB_MAXIMUM):
        return rec[ADD]
    if i.op == ACCUMULATE:  # a tree over each beat, then an adder that takes a beat a cycle, whose sums pair at the end
        add, beats = rec[ADD], ceil(i.columns / rec[VECTOR])
        return add * (one_by_one(_levels, rec[VECTOR]) + exceeds(beats, 1.0) + one_by_one(_levels, smaller(beats, add)))
    return {
        EXP_OP: rec[EXP],
        RECIPROCAL_OP: rec[RECIPROCAL],
        INVERSE_DEVIATION: rec[MUL] + rec[ADD] + rec[ROOT],  # times 1 / width, plus epsilon, reciprocal root
        ROTATE: ceil(i.rows / rec[VECTOR]),  # past the operators; the other half of a head must have come in
        LOAD_WEIGHTS: rec[ACCESS],
        STORE_KEY: rec[WRITE_LATENCY],
        STORE_VALUE: rec[WRITE_LATENCY] + rec[D],  # transposed on the way
    }.get(i.op, rec[DDR_LATENCY] if i.op in _DDR else rec[MUL])


def tile_beats(rec: Sequence[Any], rows: Any, columns: Any) -> Any:
    """Beats of d x l weights that a matrix is. [-] A derivation."""
    return ceil(rows / rec[D]) * ceil(columns / rec[L])


def _multiply_cycles(rec: Sequence[Any], rows: Any, columns: Any) -> Any:
    """Cycles in which the multipliers take a matrix that is there: inputs come by whole words of registers. [cycle]"""
    words = rec[D] / rec[VECTOR] / kept_beats(rec, columns)
    return ceil(tile_beats(rec, rows, columns) * larger(1.0, rec[READ] * words))


def _stream_cycles(rec: Sequence[Any], rows: Any, columns: Any, size: Any) -> Any:
    """Cycles in which a matrix comes from HBM, elements of `size` bytes packed into its port. [cycle]"""
    return ceil(tile_beats(rec, rows, columns) * rec[BEAT] * (size / rec[BYTES]))


def _quantise_cycles(rec: Sequence[Any], i: Instruction) -> Any:
    """Cycles before a vector is there in INT8: its largest magnitude, the reciprocal, a multiplication. [cycle]

    Scores take the scales of their values with them first.
    """
    largest = ceil(i.rows / rec[VECTOR]) + one_by_one(_levels, rec[VECTOR]) * rec[COMPARE]
    return rec[QUANTISE] * (largest + rec[RECIPROCAL] + rec[MUL] * (1.0 + (i.op == MM)))


def encode(program: Iterable[Instruction], rec: Sequence[Any]) -> np.ndarray:
    """Rows of numbers of a program on the core of a record, (n, COLUMNS); of columns where the record holds some."""
    rows, tiles, timings = [], {NONE: None}, {}
    program = list(program)  # whose sizes live as long as their `id` is a key: each head is the last one again
    for i in program:
        ahead = tiles.get(i.src2) if i.op in PROJECTIONS else None
        key = i.op, id(i.rows), id(i.columns), id(ahead), i.src2 in (TILE, TILE1)
        if key not in timings:
            timings[key] = _timing(rec, i, ahead)
        unit, occupy, latency, wait, chain, *traffic = timings[key]
        if i.op == LOAD_WEIGHTS:
            tiles[i.dst] = i.columns
        rows.append([unit, occupy, latency, wait, chain, i.role, *traffic, i.dst, i.src1, i.src2])
    return np.array(rows)


def _timing(rec: Sequence[Any], i: Instruction, ahead: Any) -> tuple[Any, ...]:
    """Unit, occupancy, latency, wait, whether it chains, bytes of HBM, beats and bytes sent of an instruction.

    So many columns of its matrix as are `ahead` are in its buffer.
    """
    unit, wait, beats, hbm, bytes_out = VPU, rec[ISSUE], 0.0, 0.0, 0.0
    if i.op == LOAD_WEIGHTS:
        unit, wait, hbm = MPU, 0.0, i.rows * i.columns * rec[WEIGHT]
        occupy = _stream_cycles(rec, i.rows, i.columns, rec[WEIGHT])
    elif i.op in MATRIX:
        ready = 0.0 if ahead is None else smaller(ahead, i.columns)
        beats, to_load = tile_beats(rec, i.rows, i.columns), i.columns - ready
        size, issue = rec[CACHED if i.op in _CACHED else WEIGHT], rec[ISSUE] + _quantise_cycles(rec, i)
        unit, hbm, wait = MPU, i.rows * to_load * size, issue + rec[ACCESS]
        occupy = larger(_stream_cycles(rec, i.rows, to_load, size), _multiply_cycles(rec, i.rows, to_load))
        if i.src2 in (TILE, TILE1):  # what is there is multiplied while the rest is on its way
            multiply = _multiply_cycles(rec, i.rows, ready)
            occupy, wait = occupy + larger(multiply, rec[ACCESS] * exceeds(to_load, 0.0)), issue
    elif i.op in _DDR:
        unit, occupy = DDR, ceil(i.columns * rec[BYTES] / rec[DDR_RATE])
    else:
        occupy = 1.0 if i.op in SCALAR else ceil(i.columns / rec[VECTOR])
    if i.op in _STORE:
        unit, hbm = WRITE, i.columns * rec[CACHED]
    elif i.op in _ROUTED:
        unit, wait, bytes_out = ROUTER, rec[ISSUE] + rec[SET_UP], _hops(rec, i) * i.columns * rec[BYTES]
    return unit, occupy, _latency(rec, i), wait, unit == VPU and i.op not in SCALAR, hbm, beats, bytes_out
