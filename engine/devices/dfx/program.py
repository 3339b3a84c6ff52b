"""GPT-2 as DFX instructions: one decoder layer, the embedding and the LM head of one token on one of N cores.

Source: Hong et al., MICRO 2022, algorithm 1 and sections IV to V. An instruction is a row of a flat array: what it
does to which registers, which the functional machine executes, and how long it occupies which unit, which the
scoreboard times. Matrix instructions are priced by the beats their tiles take from HBM; d x l weights are one beat.
Vectors are d wide: so are the vector unit, the register file and the words of the router.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

import numpy as np

from engine.devices.common.column import exceeds, larger, one_by_one, smaller

__all__ = ["COLUMNS", "ROLES", "UNITS", "head_program", "layer_program", "token_program"]

UNITS: tuple[str, ...] = ("MPU + DMA read", "VPU", "router", "DMA write", "DDR")
MPU, VPU, ROUTER, WRITE, DDR = range(5)

# columns of an instruction: timing, then meaning
UNIT, OCCUPY, LATENCY, DEP1, DEP2, CHAIN, ROLE, HBM, BEATS, HANDOFF, SENT, OP, DST, SRC1, SRC2, ARG = range(16)
COLUMNS = 16

ROLES: tuple[str, ...] = (
    "embedding", "norm1", "value", "key", "query", "kv-append", "scores", "softmax", "context", "sync-attention",
    "attention-out", "sync-projection", "residual1", "norm2", "fc1", "sync-fc1", "fc2", "sync-fc2", "residual2",
    "final-norm", "lm-head", "argmax",
)  # fmt: skip
(
    EMBEDDING, NORM1, VALUE, KEY, QUERY, KV_APPEND, SCORES, SOFTMAX, CONTEXT, SYNC_ATTENTION, ATTENTION_OUT,
    SYNC_PROJECTION, RESIDUAL1, NORM2, FC1, SYNC_FC1, FC2, SYNC_FC2, RESIDUAL2, FINAL_NORM, LM_HEAD, ARGMAX,
) = range(22)  # fmt: skip

OPS: tuple[str, ...] = (
    "load-token", "load-position", "store-token", "add", "sub-scalar", "mul", "mul-scalar", "mul-gamma", "add-beta",
    "exp", "accumulate", "divide-by-width", "inverse-deviation", "reciprocal", "conv1d", "conv1d-gelu", "masked-mm",
    "mm", "mm-argmax", "store-key", "store-value", "sync", "sync-argmax", "sub-maximum",
)  # fmt: skip
(
    LOAD_TOKEN, LOAD_POSITION, STORE_TOKEN, ADD_OP, SUB_SCALAR, MUL_OP, MUL_SCALAR, MUL_GAMMA, ADD_BETA,
    EXP_OP, ACCUMULATE, DIVIDE_BY_WIDTH, INVERSE_DEVIATION, RECIPROCAL_OP, CONV1D, CONV1D_GELU, MASKED_MM,
    MM, MM_ARGMAX, STORE_KEY, STORE_VALUE, SYNC, SYNC_ARGMAX, SUB_MAXIMUM,
) = range(24)  # fmt: skip

# registers: vectors and scalars of one token; NONE where an operand is not one
(
    NONE, X, POSITION, SUM, MEAN, CENTRED, SQUARES, DEVIATION, SCALED, NORMED, V, K, Q, SCORE, POWERS, SHARE, MIXED,
    GATHERED, PROJECTED, MIDDLE, WIDE, NEXT, BEST,
) = range(23)  # fmt: skip

# record of the core and its network: what the programs are made for
D, L, VECTOR, ADD, MUL, EXP, COMPARE, ROOT, RECIPROCAL, TABLE, BEAT, GAP, WRITE_LATENCY, DDR_RATE, DDR_LATENCY, HOP, \
    LINK_RATE, HANDOFF_CYCLES, CARDS, BYTES, FILL = range(21)  # fmt: skip
RECORD = 21


def _levels(count: float) -> int:
    """Levels of a tree over so many values. [-]"""
    return ceil(log2(count))


class _Program:
    """Instructions being written; every method appends one and returns its place."""

    def __init__(self, record: Sequence[float]) -> None:
        self.rec = record
        self.rows: list[list[float]] = []
        self.tree = one_by_one(_levels, record[D]) * record[ADD]  # depth of the adder tree behind the multipliers
        self.maximum = one_by_one(_levels, record[VECTOR]) * record[COMPARE]

    def code(self) -> np.ndarray:
        """The program as rows of numbers, (n, COLUMNS); of columns where the record holds some."""
        return np.array(self.rows)

    def put(
        self,
        unit: int,
        occupy: float,
        latency: float,
        after: tuple[int, int],
        chain: bool,
        role: int,
        word: tuple[int, int, int, int],
        *,
        hbm: float = 0.0,
        beats: float = 0.0,
        handoff: bool = False,
        sent: float = 0.0,
        arg: float = 0.0,
    ) -> int:
        """An instruction after two others: ``word`` is its operation, target and sources. Returns its number."""
        wait = self.rec[HANDOFF_CYCLES] if handoff else 0.0
        self.rows.append([unit, occupy, latency, *after, chain, role, hbm, beats, wait, sent, *word, arg])
        return len(self.rows) - 1

    def matrix(
        self,
        rows: float,
        cols: float,
        extra: float,
        dep1: int,
        dep2: int,
        role: int,
        op: int,
        dst: int,
        src: int,
        arg: float,
        *,
        handoff: bool = False,
    ) -> int:
        """A matrix instruction over a rows x cols operand: d x l weights a beat, from HBM with a gap between bursts."""
        rec = self.rec
        beats = ceil(rows / rec[D]) * ceil(cols / rec[L])
        latency = rec[MUL] + self.tree + rec[ADD] + extra  # products, tree, accumulation over tiles
        occupy = ceil(beats * larger(1.0, rec[BEAT] + rec[GAP]))
        return self.put(
            MPU,
            occupy,
            latency,
            (dep1, dep2),
            False,
            role,
            (op, dst, src, NONE),
            hbm=rows * cols * rec[BYTES],
            beats=beats,
            handoff=handoff,
            arg=arg,
        )

    def vector(
        self,
        elements: float,
        latency: float,
        dep1: int,
        dep2: int,
        chain: bool,
        role: int,
        op: int,
        dst: int,
        src1: int,
        src2: int = NONE,
        arg: float = 0.0,
    ) -> int:
        """An element-wise vector instruction; where `chain` is set a dependent one may follow element by element."""
        beats = ceil(elements / self.rec[VECTOR])
        return self.put(VPU, beats, latency, (dep1, dep2), chain, role, (op, dst, src1, src2), arg=arg)

    def accumulate(self, elements: float, dep: int, role: int, dst: int, src: int) -> int:
        """Sum of a vector: a tree over each beat, and a pipelined adder that takes a beat a cycle.

        As many partial sums circulate in the adder as it has stages; they are added by pairs at the end.
        """
        add, lanes = self.rec[ADD], self.rec[VECTOR]
        beats = ceil(elements / lanes)
        levels = one_by_one(_levels, lanes) + exceeds(beats, 1.0) + one_by_one(_levels, smaller(beats, add))
        return self.put(VPU, beats, levels * add, (dep, -1), True, role, (ACCUMULATE, dst, src, NONE))

    def norm(self, width: float, dep: int, role: int, source: int) -> int:
        """LayerNorm: mean, deviation, reciprocal root, scale and shift as vector instructions."""
        add, mul = self.rec[ADD], self.rec[MUL]
        total = self.accumulate(width, dep, role, SUM, source)
        mean = self.put(VPU, 1.0, mul, (total, -1), False, role, (DIVIDE_BY_WIDTH, MEAN, SUM, NONE))
        centred = self.vector(width, add, dep, mean, False, role, SUB_SCALAR, CENTRED, source, MEAN)
        squares = self.vector(width, mul, centred, -1, True, role, MUL_OP, SQUARES, CENTRED, CENTRED)
        total = self.accumulate(width, squares, role, SUM, SQUARES)
        root = mul + add + self.rec[ROOT]  # times 1 / width, plus epsilon, reciprocal root
        deviation = self.put(VPU, 1.0, root, (total, -1), False, role, (INVERSE_DEVIATION, DEVIATION, SUM, NONE))
        scaled = self.vector(width, mul, centred, deviation, False, role, MUL_SCALAR, SCALED, CENTRED, DEVIATION)
        scaled = self.vector(width, mul, scaled, -1, True, role, MUL_GAMMA, SCALED, SCALED)
        return self.vector(width, add, scaled, -1, True, role, ADD_BETA, NORMED, SCALED)

    def sync(self, local: float, dep: int, role: int, op: int, dst: int, src: int) -> int:
        """Ring all-gather of a vector of which each card holds `local` elements: hand-over, then cards - 1 hops."""
        rec = self.rec
        beats = ceil(local / rec[VECTOR])
        hops = rec[CARDS] - 1.0
        sent = hops * local * rec[BYTES]
        latency = ceil(hops * rec[HOP] + sent / rec[LINK_RATE]) + beats
        return self.put(ROUTER, beats, latency, (dep, -1), False, role, (op, dst, src, NONE), handoff=True, sent=sent)

    def store(self, local: float, latency: float, dep: int, op: int, src: int) -> int:
        """New keys or values of this card's heads written to HBM."""
        beats = ceil(local / self.rec[VECTOR])
        word, sent = (op, NONE, src, NONE), local * self.rec[BYTES]
        return self.put(WRITE, beats, latency, (dep, -1), False, KV_APPEND, word, hbm=sent)


def layer_program(
    rec: Sequence[float], width: float, heads: float, head: float, ffn: float, context: float
) -> np.ndarray:
    """One decoder layer of one token on one card that holds `heads` heads, (instructions, COLUMNS).

    Value comes first so that its transposition hides behind Key and Query. Heads are software pipelined: the scores
    of the next head are computed while the softmax of this one runs. The context in [tokens].
    """
    p = _Program(rec)
    local = heads * head
    part, part_ffn = ceil(width / rec[CARDS]), ceil(ffn / rec[CARDS])
    bias = rec[ADD]
    normed = p.norm(width, -1, NORM1, X)
    value = p.matrix(width, local, bias, normed, -1, VALUE, CONV1D, V, NORMED, VALUE, handoff=True)
    value_stored = p.store(local, rec[WRITE_LATENCY] + rec[D], value, STORE_VALUE, V)  # transposed on the way
    key = p.matrix(width, local, bias, normed, -1, KEY, CONV1D, K, NORMED, KEY)
    key_stored = p.store(local, rec[WRITE_LATENCY], key, STORE_KEY, K)
    query = p.matrix(width, local, bias, normed, -1, QUERY, CONV1D, Q, NORMED, QUERY)
    after = rec[MUL] + 1.0 + p.maximum  # scale by 1 / sqrt(head), masking, tree of comparators

    def scores_of(h: int) -> int:
        return p.matrix(head, context, after, query, key_stored, SCORES, MASKED_MM, SCORE, Q, float(h), handoff=h == 0)

    scores, last = scores_of(0), -1
    for h in range(int(heads)):
        following = scores_of(h + 1) if h + 1 < heads else -1
        lowered = p.vector(context, rec[ADD], scores, -1, False, SOFTMAX, SUB_MAXIMUM, POWERS, SCORE, arg=float(h))
        powers = p.vector(context, rec[EXP], lowered, -1, True, SOFTMAX, EXP_OP, POWERS, POWERS)
        total = p.accumulate(context, powers, SOFTMAX, SUM, POWERS)
        share = p.put(VPU, 1.0, rec[RECIPROCAL], (total, -1), False, SOFTMAX, (RECIPROCAL_OP, SHARE, SUM, NONE))
        powers = p.vector(context, rec[MUL], powers, share, False, SOFTMAX, MUL_SCALAR, POWERS, POWERS, SHARE)
        last = p.matrix(context, head, 0.0, powers, value_stored, CONTEXT, MM, MIXED, POWERS, float(h))
        scores = following
    at = p.sync(local, last, SYNC_ATTENTION, SYNC, GATHERED, MIXED)
    at = p.matrix(width, part, bias, at, -1, ATTENTION_OUT, CONV1D, PROJECTED, GATHERED, ATTENTION_OUT, handoff=True)
    at = p.sync(part, at, SYNC_PROJECTION, SYNC, GATHERED, PROJECTED)
    kept = p.vector(width, rec[ADD], at, -1, True, RESIDUAL1, ADD_OP, MIDDLE, GATHERED, X)
    at = p.norm(width, kept, NORM2, MIDDLE)
    gelu = bias + rec[TABLE]
    at = p.matrix(width, part_ffn, gelu, at, -1, FC1, CONV1D_GELU, WIDE, NORMED, FC1, handoff=True)
    at = p.sync(part_ffn, at, SYNC_FC1, SYNC, GATHERED, WIDE)
    at = p.matrix(ffn, part, bias, at, -1, FC2, CONV1D, PROJECTED, GATHERED, FC2, handoff=True)
    at = p.sync(part, at, SYNC_FC2, SYNC, GATHERED, PROJECTED)
    p.vector(width, rec[ADD], at, kept, True, RESIDUAL2, ADD_OP, X, GATHERED, MIDDLE)
    return p.code()


def token_program(rec: Sequence[float], width: float) -> np.ndarray:
    """Embedding of one token: a row of WTE and one of WPE from DDR, added; (instructions, COLUMNS).

    The context in [tokens].
    """
    p = _Program(rec)
    cycles = ceil(width * rec[BYTES] / rec[DDR_RATE])
    token = p.put(DDR, cycles, rec[DDR_LATENCY], (-1, -1), False, EMBEDDING, (LOAD_TOKEN, X, NONE, NONE))
    place = p.put(DDR, cycles, rec[DDR_LATENCY], (-1, -1), False, EMBEDDING, (LOAD_POSITION, POSITION, NONE, NONE))
    p.vector(width, rec[ADD], token, place, False, EMBEDDING, ADD_OP, X, X, POSITION)
    return p.code()


def head_program(rec: Sequence[float], width: float, vocab: float) -> np.ndarray:
    """Final norm, logits of this card's share of the vocabulary, their maximum, and the token back to DDR.

    Shape (instructions, COLUMNS). The context in [tokens].
    """
    p = _Program(rec)
    at = p.norm(width, -1, FINAL_NORM, X)
    part = ceil(vocab / rec[CARDS])
    at = p.matrix(width, part, p.maximum, at, -1, LM_HEAD, MM_ARGMAX, NEXT, NORMED, LM_HEAD, handoff=True)
    at = p.sync(1.0, at, ARGMAX, SYNC_ARGMAX, BEST, NEXT)
    p.put(DDR, 1.0, rec[DDR_LATENCY], (at, -1), False, ARGMAX, (STORE_TOKEN, NONE, BEST, NONE))
    return p.code()
