"""GPT-2 as DFX instructions: one decoder layer, the embedding and the LM head of one token on one of N cores.

Source: Hong et al., MICRO 2022, algorithm 1 and sections IV to V. An instruction is a row of a flat array: what it
does to which registers, which the functional machine executes, and how long it occupies which unit, which the
scoreboard times. Matrix instructions are priced by the beats their tiles take from HBM; d x l weights are one beat.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import kernel

__all__ = ["COLUMNS", "ROLES", "UNITS", "emit_head", "emit_layer", "emit_token"]

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

# record of the core and its network: what emit_* read
D, L, VECTOR, ADD, MUL, EXP, COMPARE, ROOT, RECIPROCAL, TABLE, BEAT, GAP, WRITE_LATENCY, DDR_RATE, DDR_LATENCY, HOP, \
    LINK_RATE, HANDOFF_CYCLES, CARDS, BYTES = range(20)  # fmt: skip
RECORD = 20


@kernel
def _put(code, at, unit, occupy, latency, dep1, dep2, chain, role, op, dst, src1, src2):
    """Append an instruction; returns the place of the next."""
    code[at, :] = 0.0
    code[at, UNIT] = unit
    code[at, OCCUPY] = occupy
    code[at, LATENCY] = latency
    code[at, DEP1] = dep1
    code[at, DEP2] = dep2
    code[at, CHAIN] = chain
    code[at, ROLE] = role
    code[at, OP] = op
    code[at, DST] = dst
    code[at, SRC1] = src1
    code[at, SRC2] = src2
    return at + 1


@kernel
def _matrix(code, at, rec, rows, cols, extra, dep1, dep2, role, handoff, op, dst, src, arg):
    """A matrix instruction over a rows x cols operand: d x l weights a beat, from HBM with a gap between bursts."""
    beats = np.ceil(rows / rec[D]) * np.ceil(cols / rec[L])
    tree = np.ceil(np.log2(rec[D]))
    latency = rec[MUL] + tree * rec[ADD] + rec[ADD] + extra  # products, tree, accumulation over tiles
    occupy = np.ceil(beats * max(1.0, rec[BEAT] + rec[GAP]))
    _put(code, at, MPU, occupy, latency, dep1, dep2, 0.0, role, op, dst, src, NONE)
    code[at, BEATS] = beats
    code[at, HBM] = rows * cols * rec[BYTES]
    code[at, HANDOFF] = handoff * rec[HANDOFF_CYCLES]
    code[at, ARG] = arg
    return at + 1


@kernel
def _vector(code, at, rec, elements, latency, dep1, dep2, chain, role, op, dst, src1, src2):
    """An element-wise vector instruction; where `chain` is set a dependent one may follow element by element."""
    return _put(code, at, VPU, np.ceil(elements / rec[VECTOR]), latency, dep1, dep2, chain, role, op, dst, src1, src2)


@kernel
def _accumulate(code, at, rec, elements, dep1, role, dst, src):
    """Sum of a vector: an adder tree, then one dependent scalar addition for each beat."""
    beats = np.ceil(elements / rec[VECTOR])
    tree = np.ceil(np.log2(rec[VECTOR])) * rec[ADD]
    return _put(code, at, VPU, beats * rec[ADD], tree, dep1, -1.0, 1.0, role, ACCUMULATE, dst, src, NONE)


@kernel
def _norm(code, at, rec, width, dep, role, source):
    """LayerNorm: mean, deviation, reciprocal root, scale and shift as vector instructions."""
    at = _accumulate(code, at, rec, width, dep, role, SUM, source)
    at = _put(code, at, VPU, 1.0, rec[MUL], at - 1, -1.0, 0.0, role, DIVIDE_BY_WIDTH, MEAN, SUM, NONE)
    at = _vector(code, at, rec, width, rec[ADD], dep, at - 1, 0.0, role, SUB_SCALAR, CENTRED, source, MEAN)
    centred = at - 1
    at = _vector(code, at, rec, width, rec[MUL], centred, -1.0, 1.0, role, MUL_OP, SQUARES, CENTRED, CENTRED)
    at = _accumulate(code, at, rec, width, at - 1, role, SUM, SQUARES)
    root = rec[MUL] + rec[ADD] + rec[ROOT]  # times 1 / width, plus epsilon, reciprocal root
    at = _put(code, at, VPU, 1.0, root, at - 1, -1.0, 0.0, role, INVERSE_DEVIATION, DEVIATION, SUM, NONE)
    at = _vector(code, at, rec, width, rec[MUL], centred, at - 1, 0.0, role, MUL_SCALAR, SCALED, CENTRED, DEVIATION)
    at = _vector(code, at, rec, width, rec[MUL], at - 1, -1.0, 1.0, role, MUL_GAMMA, SCALED, SCALED, NONE)
    return _vector(code, at, rec, width, rec[ADD], at - 1, -1.0, 1.0, role, ADD_BETA, NORMED, SCALED, NONE)


@kernel
def _sync(code, at, rec, local, dep, role, op, dst, src):
    """Ring all-gather of a vector of which each card holds `local` elements: hand-over, then cards - 1 hops."""
    beats = np.ceil(local / rec[VECTOR])
    hops = rec[CARDS] - 1.0
    sent = hops * local * rec[BYTES]
    latency = np.ceil(hops * rec[HOP] + sent / rec[LINK_RATE]) + beats
    _put(code, at, ROUTER, beats, latency, dep, -1.0, 0.0, role, op, dst, src, NONE)
    code[at, HANDOFF] = rec[HANDOFF_CYCLES]
    code[at, SENT] = sent
    return at + 1


@kernel
def _store(code, at, rec, local, latency, dep, op, src):
    """New keys or values of this card's heads written to HBM."""
    _put(code, at, WRITE, np.ceil(local / rec[VECTOR]), latency, dep, -1.0, 0.0, KV_APPEND, op, NONE, src, NONE)
    code[at, HBM] = local * rec[BYTES]
    return at + 1


@kernel
def emit_layer(code, rec, width, heads, head, ffn, context):
    """One decoder layer of one token on one card that holds `heads` heads; returns the number of instructions.

    Value comes first so that its transposition hides behind Key and Query. Heads are software pipelined: the scores
    of the next head are computed while the softmax of this one runs.
    """
    cards = rec[CARDS]
    local = heads * head
    part = np.ceil(width / cards)
    part_ffn = np.ceil(ffn / cards)
    bias = rec[ADD]
    at = _norm(code, 0, rec, width, -1.0, NORM1, X)
    normed = at - 1
    at = _matrix(code, at, rec, width, local, bias, normed, -1.0, VALUE, 1.0, CONV1D, V, NORMED, VALUE)
    at = _store(code, at, rec, local, rec[WRITE_LATENCY] + rec[D], at - 1, STORE_VALUE, V)  # transposed on the way
    value_stored = at - 1
    at = _matrix(code, at, rec, width, local, bias, normed, -1.0, KEY, 0.0, CONV1D, K, NORMED, KEY)
    at = _store(code, at, rec, local, rec[WRITE_LATENCY], at - 1, STORE_KEY, K)
    key_stored = at - 1
    at = _matrix(code, at, rec, width, local, bias, normed, -1.0, QUERY, 0.0, CONV1D, Q, NORMED, QUERY)
    query = at - 1
    # masking, scale by 1 / sqrt(head), tree of comparators for the maximum
    after = rec[MUL] + 1.0 + rec[COMPARE] * np.ceil(np.log2(rec[VECTOR]))
    at = _matrix(code, at, rec, head, context, after, query, key_stored, SCORES, 1.0, MASKED_MM, SCORE, Q, 0.0)
    scores = at - 1
    last = -1.0
    for h in range(int(heads)):
        following = -1
        if h + 1 < heads:
            at = _matrix(
                code, at, rec, head, context, after, query, key_stored, SCORES, 0.0, MASKED_MM, SCORE, Q, h + 1.0
            )
            following = at - 1
        at = _vector(code, at, rec, context, rec[ADD], scores, -1.0, 0.0, SOFTMAX, SUB_MAXIMUM, POWERS, SCORE, NONE)
        code[at - 1, ARG] = h
        at = _vector(code, at, rec, context, rec[EXP], at - 1, -1.0, 1.0, SOFTMAX, EXP_OP, POWERS, POWERS, NONE)
        powers = at - 1
        at = _accumulate(code, at, rec, context, powers, SOFTMAX, SUM, POWERS)
        at = _put(code, at, VPU, 1.0, rec[RECIPROCAL], at - 1, -1.0, 0.0, SOFTMAX, RECIPROCAL_OP, SHARE, SUM, NONE)
        at = _vector(code, at, rec, context, rec[MUL], powers, at - 1, 0.0, SOFTMAX, MUL_SCALAR, POWERS, POWERS, SHARE)
        at = _matrix(code, at, rec, context, head, 0.0, at - 1, value_stored, CONTEXT, 0.0, MM, MIXED, POWERS, h)
        last = at - 1
        scores = following
    at = _sync(code, at, rec, local, last, SYNC_ATTENTION, SYNC, GATHERED, MIXED)
    at = _matrix(
        code, at, rec, width, part, bias, at - 1, -1.0, ATTENTION_OUT, 1.0, CONV1D, PROJECTED, GATHERED, ATTENTION_OUT
    )
    at = _sync(code, at, rec, part, at - 1, SYNC_PROJECTION, SYNC, GATHERED, PROJECTED)
    at = _vector(code, at, rec, width, rec[ADD], at - 1, -1.0, 1.0, RESIDUAL1, ADD_OP, MIDDLE, GATHERED, X)
    kept = at - 1
    at = _norm(code, at, rec, width, kept, NORM2, MIDDLE)
    gelu = bias + rec[TABLE]
    at = _matrix(code, at, rec, width, part_ffn, gelu, at - 1, -1.0, FC1, 1.0, CONV1D_GELU, WIDE, NORMED, FC1)
    at = _sync(code, at, rec, part_ffn, at - 1, SYNC_FC1, SYNC, GATHERED, WIDE)
    at = _matrix(code, at, rec, ffn, part, bias, at - 1, -1.0, FC2, 1.0, CONV1D, PROJECTED, GATHERED, FC2)
    at = _sync(code, at, rec, part, at - 1, SYNC_FC2, SYNC, GATHERED, PROJECTED)
    return _vector(code, at, rec, width, rec[ADD], at - 1, kept, 1.0, RESIDUAL2, ADD_OP, X, GATHERED, MIDDLE)


@kernel
def emit_token(code, rec, width):
    """Embedding of one token: a row of WTE and one of WPE from DDR, added."""
    cycles = np.ceil(width * rec[BYTES] / rec[DDR_RATE])
    at = _put(code, 0, DDR, cycles, rec[DDR_LATENCY], -1.0, -1.0, 0.0, EMBEDDING, LOAD_TOKEN, X, NONE, NONE)
    at = _put(code, at, DDR, cycles, rec[DDR_LATENCY], -1.0, -1.0, 0.0, EMBEDDING, LOAD_POSITION, POSITION, NONE, NONE)
    return _vector(code, at, rec, width, rec[ADD], 0.0, 1.0, 0.0, EMBEDDING, ADD_OP, X, X, POSITION)


@kernel
def emit_head(code, rec, width, vocab):
    """Final norm, logits of this card's share of the vocabulary, their maximum, and the token back to DDR."""
    at = _norm(code, 0, rec, width, -1.0, FINAL_NORM, X)
    part = np.ceil(vocab / rec[CARDS])
    after = rec[COMPARE] * np.ceil(np.log2(rec[VECTOR]))
    at = _matrix(code, at, rec, width, part, after, at - 1, -1.0, LM_HEAD, 1.0, MM_ARGMAX, NEXT, NORMED, LM_HEAD)
    at = _sync(code, at, rec, 1.0, at - 1, ARGMAX, SYNC_ARGMAX, BEST, NEXT)
    return _put(code, at, DDR, 1.0, rec[DDR_LATENCY], at - 1, -1.0, 0.0, ARGMAX, STORE_TOKEN, NONE, BEST, NONE)
