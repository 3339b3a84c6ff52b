"""GPT-2 as DFX instructions: one decoder layer, the embedding and the LM head of one token on one of N cores.

Source: Hong et al., MICRO 2022, algorithm 1 and sections IV to V. An instruction is a row of a flat array, so that
generating and timing a program are both compiled. Matrix instructions are priced by the beats their tiles take from
HBM; d x l weights are one beat.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import kernel

__all__ = ["COLUMNS", "ROLES", "UNITS", "emit_head", "emit_layer", "emit_token"]

UNITS: tuple[str, ...] = ("MPU + DMA read", "VPU", "router", "DMA write", "DDR")
MPU, VPU, ROUTER, WRITE, DDR = range(5)

# columns of an instruction
UNIT, OCCUPY, LATENCY, DEP1, DEP2, CHAIN, ROLE, HBM, BEATS, HANDOFF, SENT = range(11)
COLUMNS = 11

ROLES: tuple[str, ...] = (
    "embedding", "norm1", "value", "key", "query", "kv-append", "scores", "softmax", "context", "sync-attention",
    "attention-out", "sync-projection", "residual1", "norm2", "fc1", "sync-fc1", "fc2", "sync-fc2", "residual2",
    "final-norm", "lm-head", "argmax",
)  # fmt: skip
(
    EMBEDDING, NORM1, VALUE, KEY, QUERY, KV_APPEND, SCORES, SOFTMAX, CONTEXT, SYNC_ATTENTION, ATTENTION_OUT,
    SYNC_PROJECTION, RESIDUAL1, NORM2, FC1, SYNC_FC1, FC2, SYNC_FC2, RESIDUAL2, FINAL_NORM, LM_HEAD, ARGMAX,
) = range(22)  # fmt: skip

# record of the core and its network: what emit_* read
D, L, VECTOR, ADD, MUL, EXP, COMPARE, ROOT, RECIPROCAL, TABLE, BEAT, GAP, WRITE_LATENCY, DDR_RATE, DDR_LATENCY, HOP, \
    LINK_RATE, HANDOFF_CYCLES, CARDS, BYTES = range(20)  # fmt: skip
RECORD = 20


@kernel
def _put(code, at, unit, occupy, latency, dep1, dep2, chain, role):
    """Append an instruction; returns its index."""
    code[at, UNIT] = unit
    code[at, OCCUPY] = occupy
    code[at, LATENCY] = latency
    code[at, DEP1] = dep1
    code[at, DEP2] = dep2
    code[at, CHAIN] = chain
    code[at, ROLE] = role
    code[at, HBM] = 0.0
    code[at, BEATS] = 0.0
    code[at, HANDOFF] = 0.0
    code[at, SENT] = 0.0
    return at


@kernel
def _matrix(code, at, rec, rows, cols, extra, dep1, dep2, role, handoff):
    """A matrix instruction over a rows x cols operand: d x l weights a beat, from HBM with a gap between bursts."""
    beats = np.ceil(rows / rec[D]) * np.ceil(cols / rec[L])
    tree = np.ceil(np.log2(rec[D]))
    latency = rec[MUL] + tree * rec[ADD] + rec[ADD] + extra  # products, tree, accumulation over tiles
    _put(code, at, MPU, np.ceil(beats * max(1.0, rec[BEAT] + rec[GAP])), latency, dep1, dep2, 0.0, role)
    code[at, BEATS] = beats
    code[at, HBM] = rows * cols * rec[BYTES]
    code[at, HANDOFF] = handoff * rec[HANDOFF_CYCLES]
    return at + 1


@kernel
def _vector(code, at, rec, elements, latency, dep1, dep2, role):
    """An element-wise vector instruction; a dependent one may follow element by element."""
    _put(code, at, VPU, np.ceil(elements / rec[VECTOR]), latency, dep1, dep2, 1.0, role)
    return at + 1


@kernel
def _accumulate(code, at, rec, elements, dep1, role):
    """Sum of a vector: an adder tree, then one dependent scalar addition for each beat."""
    beats = np.ceil(elements / rec[VECTOR])
    tree = np.ceil(np.log2(rec[VECTOR])) * rec[ADD]
    _put(code, at, VPU, beats * rec[ADD], tree, dep1, -1.0, 1.0, role)
    return at + 1


@kernel
def _norm(code, at, rec, width, source, role):
    """LayerNorm: mean, deviation, reciprocal root, scale and shift as vector instructions."""
    at = _accumulate(code, at, rec, width, source, role)
    mean = at
    _put(code, mean, VPU, 1.0, rec[MUL], at - 1, -1.0, 0.0, role)  # times 1 / width
    at = _vector(code, mean + 1, rec, width, rec[ADD], source, mean, role)  # x - mean
    code[at - 1, CHAIN] = 0.0  # waits for the scalar
    centred = at - 1
    at = _vector(code, at, rec, width, rec[MUL], centred, -1.0, role)  # squares
    at = _accumulate(code, at, rec, width, at - 1, role)
    _put(code, at, VPU, 1.0, rec[MUL] + rec[ADD] + rec[ROOT], at - 1, -1.0, 0.0, role)  # variance to 1 / deviation
    at = _vector(code, at + 1, rec, width, rec[MUL], centred, at, role)
    code[at - 1, CHAIN] = 0.0
    at = _vector(code, at, rec, width, rec[MUL], at - 1, -1.0, role)  # gamma
    return _vector(code, at, rec, width, rec[ADD], at - 1, -1.0, role)  # beta


@kernel
def _sync(code, at, rec, local, dep, role):
    """Ring all-gather of a vector of which each card holds `local` elements: hand-over, then cards - 1 hops."""
    beats = np.ceil(local / rec[VECTOR])
    hops = rec[CARDS] - 1.0
    sent = hops * local * rec[BYTES]
    _put(code, at, ROUTER, beats, np.ceil(hops * rec[HOP] + sent / rec[LINK_RATE]) + beats, dep, -1.0, 0.0, role)
    code[at, HANDOFF] = rec[HANDOFF_CYCLES]
    code[at, SENT] = sent
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
    at = _norm(code, 0, rec, width, -1.0, NORM1)
    normed = at - 1
    at = _matrix(code, at, rec, width, local, rec[ADD], normed, -1.0, VALUE, 1.0)
    value = at - 1
    _put(code, at, WRITE, np.ceil(local / rec[VECTOR]), rec[WRITE_LATENCY] + rec[D], value, -1.0, 0.0, KV_APPEND)
    code[at, HBM] = local * rec[BYTES]
    value_stored = at
    at = _matrix(code, at + 1, rec, width, local, rec[ADD], normed, -1.0, KEY, 0.0)
    _put(code, at, WRITE, np.ceil(local / rec[VECTOR]), rec[WRITE_LATENCY], at - 1, -1.0, 0.0, KV_APPEND)
    code[at, HBM] = local * rec[BYTES]
    key_stored = at
    at = _matrix(code, at + 1, rec, width, local, rec[ADD], normed, -1.0, QUERY, 0.0)
    query = at - 1
    # masking, scale by 1 / sqrt(head), tree of comparators for the maximum
    after_scores = rec[MUL] + 1.0 + rec[COMPARE] * np.ceil(np.log2(rec[VECTOR]))
    at = _matrix(code, at, rec, head, context, after_scores, query, key_stored, SCORES, 1.0)
    scores = at - 1
    last = -1.0
    for h in range(int(heads)):
        following = -1
        if h + 1 < heads:
            at = _matrix(code, at, rec, head, context, after_scores, query, key_stored, SCORES, 0.0)
            following = at - 1
        at = _vector(code, at, rec, context, rec[ADD], scores, -1.0, SOFTMAX)  # minus the maximum
        code[at - 1, CHAIN] = 0.0
        at = _vector(code, at, rec, context, rec[EXP], at - 1, -1.0, SOFTMAX)
        powers = at - 1
        at = _accumulate(code, at, rec, context, powers, SOFTMAX)
        _put(code, at, VPU, 1.0, rec[RECIPROCAL], at - 1, -1.0, 0.0, SOFTMAX)
        at = _vector(code, at + 1, rec, context, rec[MUL], powers, at, SOFTMAX)
        code[at - 1, CHAIN] = 0.0
        at = _matrix(code, at, rec, context, head, 0.0, at - 1, value_stored, CONTEXT, 0.0)
        last = at - 1
        scores = following
    at = _sync(code, at, rec, local, last, SYNC_ATTENTION)
    at = _matrix(code, at, rec, width, part, rec[ADD], at - 1, -1.0, ATTENTION_OUT, 1.0)
    at = _sync(code, at, rec, part, at - 1, SYNC_PROJECTION)
    at = _vector(code, at, rec, width, rec[ADD], at - 1, -1.0, RESIDUAL1)
    kept = at - 1
    at = _norm(code, at, rec, width, kept, NORM2)
    at = _matrix(code, at, rec, width, part_ffn, rec[ADD] + rec[TABLE], at - 1, -1.0, FC1, 1.0)
    at = _sync(code, at, rec, part_ffn, at - 1, SYNC_FC1)
    at = _matrix(code, at, rec, ffn, part, rec[ADD], at - 1, -1.0, FC2, 1.0)
    at = _sync(code, at, rec, part, at - 1, SYNC_FC2)
    return _vector(code, at, rec, width, rec[ADD], at - 1, kept, RESIDUAL2)


@kernel
def emit_token(code, rec, width):
    """Embedding of one token: a row of WTE and one of WPE from DDR, added."""
    cycles = np.ceil(width * rec[BYTES] / rec[DDR_RATE])
    _put(code, 0, DDR, cycles, rec[DDR_LATENCY], -1.0, -1.0, 0.0, EMBEDDING)
    _put(code, 1, DDR, cycles, rec[DDR_LATENCY], -1.0, -1.0, 0.0, EMBEDDING)
    _put(code, 2, VPU, np.ceil(width / rec[VECTOR]), rec[ADD], 0.0, 1.0, 0.0, EMBEDDING)
    return 3


@kernel
def emit_head(code, rec, width, vocab):
    """Final norm, logits of this card's share of the vocabulary, their maximum, and the token back to DDR."""
    at = _norm(code, 0, rec, width, -1.0, FINAL_NORM)
    part = np.ceil(vocab / rec[CARDS])
    maximum = rec[COMPARE] * np.ceil(np.log2(rec[VECTOR]))
    at = _matrix(code, at, rec, width, part, maximum, at - 1, -1.0, LM_HEAD, 1.0)
    at = _sync(code, at, rec, 1.0, at - 1, ARGMAX)
    _put(code, at, DDR, 1.0, rec[DDR_LATENCY], at - 1, -1.0, 0.0, ARGMAX)
    return at + 1
