"""One decode step of a GPT-2 style transformer in one compiled call: every layer, one token, a key/value cache.

Weights and caches are read once, in their stored format, and all sums are float32: the bound is the memory stream. A
layer is five phases (query, key and value; attention; projection; up with GELU; down), each dealt to the threads in
pieces as they become free (:mod:`engine.kernels.ir.phases`), so no thread goes back to Python between them. What a
piece computes does not depend on who takes it: the result is the same for any number of threads.
[FLOP] = 2 * layers * (4 D^2 + 2 D F) + 4 * layers * (length + 1) * D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.kernels import jit
from engine.kernels.ir.attention import CACHED, store_value
from engine.kernels.ir.dot import ROWS, SPAN, STORED, dot_tile
from engine.kernels.ir.phases import counters, job_done, take_job, wait_for
from engine.kernels.jit import inner, kernel
from engine.kernels.operators.attention import ask_ahead, attend_head
from engine.kernels.operators.pointwise import gelu_tanh32
from engine.kernels.operators.softmax import row_sum
from engine.kernels.threads.ranges import fresh, over_range, require, whole

__all__ = ["DecoderWeights", "decode_step"]

_PIECE_BYTES = 256 * 1024  # weights of one job: long enough a stream, short enough to share out evenly
_PHASES = 5
_EPSILON = np.float32(1e-5)
_dot = dot_tile(1)


@dataclass(frozen=True, eq=False)
class DecoderWeights:
    """Weights of the layers, matrices ``[layers, outputs, inputs]`` float32 or uint16 patterns as ``stored``.

    ``qkv`` has 3 D outputs (queries, keys, values), ``project`` D, ``up`` F, ``down`` D; ``bias`` float32
    ``[layers, 5 D + F]`` in that order; ``norms`` float32 ``[layers, 4, D]``: gain and shift before attention, then
    before the feed-forward part.
    """

    stored: Literal["f32", "bf16", "fp16"]
    heads: int
    qkv: np.ndarray
    project: np.ndarray
    up: np.ndarray
    down: np.ndarray
    bias: np.ndarray
    norms: np.ndarray

    def __post_init__(self) -> None:
        require(self.stored in CACHED, f"stored is {self.stored!r}; allowed: {', '.join(CACHED)}")
        kind = np.float32 if self.stored == "f32" else np.uint16
        whole("norms", self.norms, np.float32, 3)
        layers, _, width = self.norms.shape
        require(self.norms.shape[1] == 4, f"norms is {self.norms.shape}; allowed: [layers, 4, width]")
        require(self.heads >= 1 and width % self.heads == 0, f"heads is {self.heads}; allowed: divisors of {width}")
        inside = whole("up", self.up, kind, 3).shape[1]
        for name, array, shape in (
            ("qkv", self.qkv, (layers, 3 * width, width)),
            ("project", self.project, (layers, width, width)),
            ("up", self.up, (layers, inside, width)),
            ("down", self.down, (layers, width, inside)),
        ):
            require(whole(name, array, kind, 3).shape == shape, f"{name} is {array.shape}; allowed: {shape}")
        shape = (layers, 5 * width + inside)
        require(whole("bias", self.bias, np.float32, 2).shape == shape, f"bias is {self.bias.shape}; allowed: {shape}")

    @property
    def nbytes(self) -> int:
        """Weights that a step reads. [B]"""
        arrays = (self.qkv, self.project, self.up, self.down, self.bias, self.norms)
        return sum(array.nbytes for array in arrays)


@inner
def _normalised(x, gain, shift, out):
    """Layer normalisation of a vector into the first values of ``out``."""
    width = x.size
    mean = np.float32(row_sum(x) / np.float32(width))
    for i in range(width):
        d = np.float32(x[i] - mean)
        out[i] = d * d
    rate = np.float32(np.float32(1) / np.sqrt(np.float32(row_sum(out[:width]) / np.float32(width)) + _EPSILON))
    for i in range(width):
        out[i] = np.float32(np.float32(np.float32(x[i] - mean) * rate) * gain[i]) + shift[i]


@inner
def _piece(job, piece, outputs, w, layer, inputs, x, zero, out):
    """Rows of one matrix of a layer times ``x``: the first and the last of the job, and the products in ``out``."""
    first, last = job * piece, min(outputs, (job + 1) * piece)
    base = layer * outputs * inputs
    for row in range(first, last, ROWS):
        _dot(w, base + row * inputs, inputs, last - row, x, 0, inputs, inputs, zero, 0, out, row, 1, 1)
    return first, last


@inner
def _next_job(counts, phase, w, base, size):
    """A job of a phase, whose first weights are asked for: jobs of ``size`` weights each lie from ``base`` on."""
    job = take_job(counts, phase)
    ask_ahead(w, base + job * size)
    return job


@kernel
def decode_worker(
    lo,
    hi,
    counts,
    pieces,
    x,
    middle,
    qkv,
    mixed,
    hidden,
    w_qkv,
    w_project,
    w_up,
    w_down,
    bias,
    norms,
    keys,
    values,
    length,
    heads,
    rate,
    stored,
):
    """One thread's share of a step; ``lo`` and ``hi`` only tell threads apart. Arrays are flat but ``x`` and norms.

    The first job of a phase is taken before the phase ahead of it is waited for: its weights come meanwhile.
    """
    layers, width = norms.shape[0], norms.shape[2]
    inside = bias.shape[1] - 5 * width
    depth, capacity = width // heads, keys.size // (layers * width)
    zero, ready = np.zeros(1, np.float32), np.zeros(x.size, np.float32)
    query, scores = np.zeros(depth + 64, np.float32), np.empty(length + 1 + ROWS, np.float32)
    head, square, broad = capacity * depth, width * width, width * inside
    job = _next_job(counts, 0, w_qkv, 0, pieces[0] * width)
    for layer in range(layers):
        phase, add = layer * _PHASES, bias[layer]
        jobs, known = (3 * width + pieces[0] - 1) // pieces[0], False
        while job < jobs:
            if not known:  # only once a job is held: until it is done nobody writes x
                _normalised(x[:width], norms[layer, 0], norms[layer, 1], ready)
                known = True
            first, last = _piece(job, pieces[0], 3 * width, w_qkv, layer, width, ready, zero, qkv)
            to, part = qkv[first:last], add[first:last]  # slices: an index that may be negative is never vectorised
            for i in range(to.size):
                to[i] += part[i]
            job_done(counts, phase)
            job = take_job(counts, phase)
        job = _next_job(counts, phase + 1, keys, layer * heads * head, head)
        wait_for(counts, phase, jobs)
        phase += 1
        while job < heads:
            start, column = (layer * heads + job) * head, job * depth
            for d in range(depth):
                store_value(keys, start + length * depth + d, qkv[width + column + d], stored)
                store_value(values, start + length * depth + d, qkv[2 * width + column + d], stored)
                query[d] = qkv[column + d] * rate
            attend_head(query, 0, keys, values, start, length + 1, depth, zero, scores, mixed, column)
            job_done(counts, phase)
            job = _next_job(counts, phase, keys, layer * heads * head, head)
        job = _next_job(counts, phase + 1, w_project, layer * square, pieces[1] * width)
        wait_for(counts, phase, heads)
        phase += 1
        jobs = (width + pieces[1] - 1) // pieces[1]
        while job < jobs:
            first, last = _piece(job, pieces[1], width, w_project, layer, width, mixed, zero, middle)
            to, part, old = middle[first:last], add[3 * width + first : 3 * width + last], x[first:last]
            for i in range(to.size):
                to[i] += np.float32(part[i] + old[i])
            job_done(counts, phase)
            job = take_job(counts, phase)
        job = _next_job(counts, phase + 1, w_up, layer * broad, pieces[1] * width)
        wait_for(counts, phase, jobs)
        phase += 1
        jobs, known = (inside + pieces[1] - 1) // pieces[1], False
        while job < jobs:
            if not known:
                _normalised(middle[:width], norms[layer, 2], norms[layer, 3], ready)
                known = True
            first, last = _piece(job, pieces[1], inside, w_up, layer, width, ready, zero, hidden)
            to, part = hidden[first:last], add[4 * width + first : 4 * width + last]
            for i in range(to.size):
                to[i] = gelu_tanh32(np.float32(to[i] + part[i]))
            job_done(counts, phase)
            job = take_job(counts, phase)
        job = _next_job(counts, phase + 1, w_down, layer * broad, pieces[2] * inside)
        wait_for(counts, phase, jobs)
        phase += 1
        jobs = (width + pieces[2] - 1) // pieces[2]
        while job < jobs:
            first, last = _piece(job, pieces[2], width, w_down, layer, inside, hidden, zero, x)
            begin = 4 * width + inside
            to, part, old = x[first:last], add[begin + first : begin + last], middle[first:last]
            for i in range(to.size):
                to[i] += np.float32(part[i] + old[i])
            job_done(counts, phase)
            job = take_job(counts, phase)
        if layer + 1 < layers:
            job = _next_job(counts, phase + 1, w_qkv, 3 * (layer + 1) * square, pieces[0] * width)
        wait_for(counts, phase, jobs)


def decode_step(
    x: np.ndarray, model: DecoderWeights, keys: np.ndarray, values: np.ndarray, length: int, threads: int | None = None
) -> np.ndarray:
    """Residual stream of one token after every layer; its keys and values are written behind ``length`` cached rows.

    ``x`` float32 ``[D]``; caches ``[layers, heads, capacity, D / heads]`` in the model's format. Returns float32
    ``[D]``. Error to first order that of float32 sums of ``max(F, length)`` terms in each layer.
    """
    layers, _, width = model.norms.shape
    require(whole("x", x, np.float32, 1).size == width, f"x has {x.size} values; allowed: {width}")
    depth, kind = width // model.heads, np.float32 if model.stored == "f32" else np.uint16
    whole("keys", keys, kind, 4)
    whole("values", values, kind, 4)
    shape = (layers, model.heads, keys.shape[2], depth)
    require(keys.shape == values.shape == shape, f"keys are {keys.shape} and values {values.shape}; allowed: {shape}")
    require(0 <= length < shape[2], f"length is {length}; allowed: 0 to {shape[2] - 1}")
    inside, size = model.up.shape[1], np.dtype(kind).itemsize
    pieces = [max(ROWS, _PIECE_BYTES // (size * k) // ROWS * ROWS) for k in (width, width, inside)]
    span = SPAN["f32"]
    deep, broad = -(-width // span) * span, -(-inside // span) * span
    state, middle, mixed = (fresh((deep,), zero=True) for _ in range(3))
    state[:width] = x
    view = STORED[model.stored]
    flat = [a.reshape(-1).view(view) for a in (model.qkv, model.project, model.up, model.down)]
    caches = [a.reshape(-1) if model.stored == "f32" else a.reshape(-1).view(view) for a in (keys, values)]
    count = threads or jit.pool_size()
    over_range(
        decode_worker,
        count,
        counters(layers * _PHASES),
        tuple(pieces),
        state,
        middle,
        fresh((3 * width,)),
        mixed,
        fresh((broad,), zero=True),
        *flat,
        model.bias,
        model.norms,
        *caches,
        length,
        model.heads,
        np.float32(1 / math.sqrt(depth)),
        CACHED.index(model.stored),
        threads=count,
    )
    return state[:width]
