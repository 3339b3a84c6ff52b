"""GPT-2 as DFX instructions: one decoder layer, the embedding and the LM head of one token on one of N cores.

Source: Hong et al., MICRO 2022, algorithm 1 and sections IV to V. A program is a list of `Instruction`: what is done to
which registers, over how many rows and columns. `encode` makes rows of a flat array of it for one core: the functional
machine executes their operations, the scoreboard times them and finds what waits for what from their registers.
Matrix instructions are priced by the beats their tiles take from HBM; d x l weights are one beat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from engine.devices.common.column import exceeds, larger, one_by_one, smaller

__all__ = [
    "COLUMNS",
    "REGISTERS",
    "ROLES",
    "UNITS",
    "Instruction",
    "encode",
    "head_program",
    "layer_program",
    "partial_sums",
    "token_program",
]

UNITS: tuple[str, ...] = ("MPU + DMA read", "VPU", "router", "DMA write", "DDR")
MPU, VPU, ROUTER, WRITE, DDR = range(len(UNITS))

# columns of an instruction: timing, then meaning
UNIT, OCCUPY, LATENCY, WAIT, CHAIN, ROLE, HBM, BEATS, SENT, OP, DST, SRC1, SRC2, ARG = range(14)
COLUMNS = ARG + 1

ROLES: tuple[str, ...] = (
    "embedding", "norm1", "value", "key", "query", "kv-append", "scores", "softmax", "context", "sync-attention",
    "attention-out", "sync-projection", "residual1", "norm2", "fc1", "sync-fc1", "fc2", "sync-fc2", "residual2",
    "final-norm", "lm-head", "argmax",
)  # fmt: skip
(
    EMBEDDING, NORM1, VALUE, KEY, QUERY, KV_APPEND, SCORES, SOFTMAX, CONTEXT, SYNC_ATTENTION, ATTENTION_OUT,
    SYNC_PROJECTION, RESIDUAL1, NORM2, FC1, SYNC_FC1, FC2, SYNC_FC2, RESIDUAL2, FINAL_NORM, LM_HEAD, ARGMAX,
) = range(len(ROLES))  # fmt: skip

OPS: tuple[str, ...] = (
    "load-token", "load-position", "store-token", "add", "sub-scalar", "mul", "mul-scalar", "mul-gamma", "add-beta",
    "exp", "accum", "divide-by-width", "recip-sqrt", "recip", "conv1d", "conv1d-gelu", "masked-mm",
    "mm", "mm-argmax", "store-key", "store-value", "sync", "sync-argmax", "sub-maximum",
)  # fmt: skip
(
    LOAD_TOKEN, LOAD_POSITION, STORE_TOKEN, ADD_OP, SUB_SCALAR, MUL_OP, MUL_SCALAR, MUL_GAMMA, ADD_BETA,
    EXP_OP, ACCUMULATE, DIVIDE_BY_WIDTH, INVERSE_DEVIATION, RECIPROCAL_OP, CONV1D, CONV1D_GELU, MASKED_MM,
    MM, MM_ARGMAX, STORE_KEY, STORE_VALUE, SYNC, SYNC_ARGMAX, SUB_MAXIMUM,
) = range(len(OPS))  # fmt: skip

REGISTERS: tuple[str, ...] = (
    "-", "x", "position", "sum", "mean", "centred", "squares", "deviation", "scaled", "normed", "v", "k", "q",
    "score0", "score1", "power0", "power1", "share", "mixed", "gathered", "projected", "middle", "wide", "next", "best",
    "keys", "values",
)  # fmt: skip
(
    NONE, X, POSITION, SUM, MEAN, CENTRED, SQUARES, DEVIATION, SCALED, NORMED, V, K, Q, SCORE, SCORE1, POWERS, POWERS1,
    SHARE, MIXED, GATHERED, PROJECTED, MIDDLE, WIDE, NEXT, BEST, KEYS, VALUES,
) = range(len(REGISTERS))  # fmt: skip
"""Vectors and scalars of one token; `keys` and `values` are the cache in HBM. Scores of heads take turns in two."""

# record of the core and its network: what the programs are made for
D, L, VECTOR, ADD, MUL, EXP, COMPARE, ROOT, RECIPROCAL, TABLE, BEAT, GAP, WRITE_LATENCY, DDR_RATE, DDR_LATENCY, HOP, \
    LINK_RATE, ISSUE, ACCESS, SET_UP, CARDS, BYTES, FILL = range(23)  # fmt: skip
RECORD = FILL + 1

MATRIX = frozenset((CONV1D, CONV1D_GELU, MASKED_MM, MM, MM_ARGMAX))
SCALAR = frozenset((DIVIDE_BY_WIDTH, INVERSE_DEVIATION, RECIPROCAL_OP))
_DDR = frozenset((LOAD_TOKEN, LOAD_POSITION, STORE_TOKEN))
_STORE = frozenset((STORE_KEY, STORE_VALUE))
SYNC_OPS = frozenset((SYNC, SYNC_ARGMAX))


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: operation, registers, and the size of what it works on.

    Attributes
    ----------
    rows, columns : of a matrix operand; a vector instruction has columns only. [elements]
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


def _levels(count: float) -> int:
    """Levels of a tree over so many values. [-]"""
    return ceil(log2(count))


def partial_sums(d: Any, lanes: Any, add: Any) -> Any:
    """Partial sums a column has under way in the adder of its lane. [-] A derivation.

    The zigzag over a tile of d x d comes back to a column every d / l beats; an adder of `add` stages gives a sum back
    that many cycles later.
    """
    return ceil(add / larger(1.0, d / lanes))


def _running_sum(rec: Sequence[Any], elements: Any) -> Any:
    """Latency of a vector's sum: a tree over each beat, and a pipelined adder that takes a beat a cycle. [cycle]

    As many partial sums circulate in the adder as it has stages; they are added by pairs at the end.
    """
    add, beats = rec[ADD], ceil(elements / rec[VECTOR])
    return add * (one_by_one(_levels, rec[VECTOR]) + exceeds(beats, 1.0) + one_by_one(_levels, smaller(beats, add)))


def _latency(rec: Sequence[Any], i: Instruction) -> Any:
    """Cycles from the last beat that goes in to the last result. [cycle]"""
    if i.op in MATRIX:
        down = ceil(i.rows / rec[D])  # tiles a column is summed over
        left = one_by_one(_levels, smaller(down, partial_sums(rec[D], rec[L], rec[ADD])))
        tree = rec[MUL] + rec[ADD] * (one_by_one(_levels, rec[D]) + exceeds(down, 1.0) + left)
        maximum = one_by_one(_levels, rec[VECTOR]) * rec[COMPARE]
        behind = {
            CONV1D: rec[ADD],
            CONV1D_GELU: rec[ADD] + rec[TABLE],
            MASKED_MM: rec[MUL] + 1.0 + maximum,  # scale by 1 / sqrt(head), masking, tree of comparators
            MM: 0.0,
            MM_ARGMAX: maximum,
        }
        return tree + behind[i.op]
    if i.op in SYNC_OPS:
        hops, beats = rec[CARDS] - 1.0, ceil(i.columns / rec[VECTOR])
        return ceil(hops * rec[HOP] + hops * i.columns * rec[BYTES] / rec[LINK_RATE]) + beats
    if i.op in (ADD_OP, ADD_BETA, SUB_SCALAR, SUB_MAXIMUM):
        return rec[ADD]
    if i.op == ACCUMULATE:
        return _running_sum(rec, i.columns)
    return {
        EXP_OP: rec[EXP],
        RECIPROCAL_OP: rec[RECIPROCAL],
        INVERSE_DEVIATION: rec[MUL] + rec[ADD] + rec[ROOT],  # times 1 / width, plus epsilon, reciprocal root
        STORE_KEY: rec[WRITE_LATENCY],
        STORE_VALUE: rec[WRITE_LATENCY] + rec[D],  # transposed on the way
    }.get(i.op, rec[DDR_LATENCY] if i.op in _DDR else rec[MUL])


def encode(program: Iterable[Instruction], rec: Sequence[Any]) -> np.ndarray:
    """Rows of numbers of a program on the core of a record, (n, COLUMNS); of columns where the record holds some."""
    rows = []
    for i in program:
        unit, wait, beats, hbm, sent = VPU, rec[ISSUE], 0.0, 0.0, 0.0
        if i.op in MATRIX:
            beats = ceil(i.rows / rec[D]) * ceil(i.columns / rec[L])
            occupy = ceil(beats * larger(1.0, rec[BEAT] + rec[GAP]))
            unit, wait, hbm = MPU, rec[ISSUE] + rec[ACCESS], i.rows * i.columns * rec[BYTES]
        elif i.op in _DDR:
            unit, occupy = DDR, ceil(i.columns * rec[BYTES] / rec[DDR_RATE])
        else:
            occupy = 1.0 if i.op in SCALAR else ceil(i.columns / rec[VECTOR])
        if i.op in _STORE:
            unit, hbm = WRITE, i.columns * rec[BYTES]
        elif i.op in SYNC_OPS:
            unit, wait, sent = ROUTER, rec[ISSUE] + rec[SET_UP], (rec[CARDS] - 1.0) * i.columns * rec[BYTES]
        chain = unit == VPU and i.op not in SCALAR
        word = (i.op, i.dst, i.src1, i.src2, i.arg)
        rows.append([unit, occupy, _latency(rec, i), wait, chain, i.role, hbm, beats, sent, *word])
    return np.array(rows)


def _norm(width: float, role: int, source: int) -> list[Instruction]:
    """LayerNorm: mean, deviation, reciprocal root, scale and shift as vector instructions."""
    return [
        Instruction(ACCUMULATE, SUM, source, role, width),
        Instruction(DIVIDE_BY_WIDTH, MEAN, SUM, role, 1.0),
        Instruction(SUB_SCALAR, CENTRED, source, role, width, MEAN),
        Instruction(MUL_OP, SQUARES, CENTRED, role, width, CENTRED),
        Instruction(ACCUMULATE, SUM, SQUARES, role, width),
        Instruction(INVERSE_DEVIATION, DEVIATION, SUM, role, 1.0),
        Instruction(MUL_SCALAR, SCALED, CENTRED, role, width, DEVIATION),
        Instruction(MUL_GAMMA, SCALED, SCALED, role, width),
        Instruction(ADD_BETA, NORMED, SCALED, role, width),
    ]


def _softmax(context: Any, head: int) -> list[Instruction]:
    """Softmax of a head's scores; the maximum comes with them."""
    score, power, arg = SCORE + head % 2, POWERS + head % 2, float(head)
    return [
        Instruction(SUB_MAXIMUM, power, score, SOFTMAX, context, arg=arg),
        Instruction(EXP_OP, power, power, SOFTMAX, context),
        Instruction(ACCUMULATE, SUM, power, SOFTMAX, context),
        Instruction(RECIPROCAL_OP, SHARE, SUM, SOFTMAX, 1.0),
        Instruction(MUL_SCALAR, power, power, SOFTMAX, context, SHARE),
    ]


def layer_program(cards: float, width: float, heads: float, head: float, ffn: float, context: Any) -> list[Instruction]:
    """One decoder layer of one token on one card that holds `heads` heads; a lone card has nobody to wait for.

    Value comes first so that its transposition hides behind Key and Query. Heads run one after the other, as algorithm
    1 has them. The context in [tokens].
    """
    local, part, part_ffn = heads * head, ceil(width / cards), ceil(ffn / cards)

    def product(op: int, dst: int, src: int, role: int, rows: Any, columns: Any) -> Instruction:
        return Instruction(op, dst, src, role, columns, rows=rows, arg=float(role))

    def whole(source: int, role: int, columns: float) -> tuple[list[Instruction], int]:
        """What joins the cards' shares of a vector, and the register it is whole in."""
        return ([Instruction(SYNC, GATHERED, source, role, columns)], GATHERED) if cards > 1 else ([], source)

    program = [
        *_norm(width, NORM1, X),
        product(CONV1D, V, NORMED, VALUE, width, local),
        Instruction(STORE_VALUE, VALUES, V, KV_APPEND, local),
        product(CONV1D, K, NORMED, KEY, width, local),
        Instruction(STORE_KEY, KEYS, K, KV_APPEND, local),
        product(CONV1D, Q, NORMED, QUERY, width, local),
    ]
    for h in range(int(heads)):
        program.append(Instruction(MASKED_MM, SCORE + h % 2, Q, SCORES, context, KEYS, head, float(h)))
        program += _softmax(context, h)
        program.append(Instruction(MM, MIXED, POWERS + h % 2, CONTEXT, head, VALUES, context, float(h)))
    joined, at = whole(MIXED, SYNC_ATTENTION, local)
    program += [*joined, product(CONV1D, PROJECTED, at, ATTENTION_OUT, width, part)]
    joined, at = whole(PROJECTED, SYNC_PROJECTION, part)
    program += [*joined, Instruction(ADD_OP, MIDDLE, at, RESIDUAL1, width, X), *_norm(width, NORM2, MIDDLE)]
    program.append(product(CONV1D_GELU, WIDE, NORMED, FC1, width, part_ffn))
    joined, at = whole(WIDE, SYNC_FC1, part_ffn)
    program += [*joined, product(CONV1D, PROJECTED, at, FC2, ffn, part)]
    joined, at = whole(PROJECTED, SYNC_FC2, part)
    return [*program, *joined, Instruction(ADD_OP, X, at, RESIDUAL2, width, MIDDLE)]


def token_program(width: float) -> list[Instruction]:
    """Embedding of one token: a row of WTE and one of WPE from DDR, added. The width in [elements]."""
    return [
        Instruction(LOAD_TOKEN, X, NONE, EMBEDDING, width),
        Instruction(LOAD_POSITION, POSITION, NONE, EMBEDDING, width),
        Instruction(ADD_OP, X, X, EMBEDDING, width, POSITION),
    ]


def head_program(cards: float, width: float, vocab: float) -> list[Instruction]:
    """Final norm, logits of this card's share of the vocabulary, their maximum, and the token back to DDR.

    Width and vocabulary in [elements].
    """
    best = [Instruction(SYNC_ARGMAX, BEST, NEXT, ARGMAX, 1.0)] if cards > 1 else []
    return [
        *_norm(width, FINAL_NORM, X),
        Instruction(MM_ARGMAX, NEXT, NORMED, LM_HEAD, ceil(vocab / cards), rows=width, arg=float(LM_HEAD)),
        *best,
        Instruction(STORE_TOKEN, NONE, BEST if best else NEXT, ARGMAX, 0.5),
    ]
