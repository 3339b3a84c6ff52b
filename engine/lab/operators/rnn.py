"""One step of an LSTM or GRU cell, batch by batch, float32: gate products and activations fused per hidden block.

Weights are packed so that one tile of the implicit-GEMM generator holds every gate of the same hidden units; the gates
never leave the cache. At batch 1 the step streams the weights once: it is bound by memory. Equations and weight layout
are ONNX's LSTM (gate order i, o, f, c) and GRU (z, r, h with ``linear_before_reset = 1``), as in cuDNN and Brainwave.
[FLOP] = 2 * batch * gates * hidden * (inputs + hidden).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.conv import tile
from engine.lab.ir.lanes import lanes
from engine.lab.operators.conv import LINEAR
from engine.lab.operators.pointwise import sigmoid32, tanh32
from engine.lab.ranges import fresh, over_range, require, whole

GATES = {"lstm": 4, "gru": 3}
_ROWS = 4
"""Samples per tile: four registers of gates each. [samples]"""
_WIDTH = lanes()
_one_lstm, _four_lstm = tile(1, 4), tile(_ROWS, 4)
_one_gru, _four_gru = tile(1, 3), tile(_ROWS, 3)
_SLOTS = {gates: np.arange(_ROWS, dtype=np.int64) * (gates * _WIDTH) for gates in GATES.values()}


@dataclass(frozen=True)
class PackedCell:
    """Weights of a recurrent cell, a vector per gate and hidden block: ``[blocks, inputs + hidden, gates, lanes]``.

    The biases of an LSTM are ``[blocks, 4, lanes]``. Those of a GRU are ``[blocks, 2, 3, lanes]``, input and recurrent
    apart: the reset gate multiplies only the recurrent part of the candidate.
    """

    kind: Literal["lstm", "gru"]
    inputs: int
    hidden: int
    data: np.ndarray
    bias: np.ndarray


def pack_cell(kind: Literal["lstm", "gru"], w: np.ndarray, r: np.ndarray, bias: np.ndarray | None = None) -> PackedCell:
    """Pack ONNX weights ``w`` ``[gates * hidden, inputs]``, ``r`` ``[gates * hidden, hidden]`` and ``bias``.

    ``bias`` is ``[2 * gates * hidden]``, input biases before recurrent ones, or None for zero.
    """
    require(kind in GATES, f"kind is {kind!r}; allowed: lstm, gru")
    gates = GATES[kind]
    whole("w", w, np.float32, 2)
    whole("r", r, np.float32, 2)
    hidden, inputs = r.shape[1], w.shape[1]
    require(hidden >= 1, "r must have at least one hidden unit")
    for name, array, shape in (("w", w, (gates * hidden, inputs)), ("r", r, (gates * hidden, hidden))):
        require(array.shape == shape, f"{name} is {array.shape}; a {kind} of {hidden} units needs {shape}")
    biases = np.zeros(2 * gates * hidden, np.float32) if bias is None else whole("bias", bias, np.float32, 1)
    require(biases.size == 2 * gates * hidden, f"bias has {biases.size} values; allowed: {2 * gates * hidden}")
    weight = np.concatenate([w.reshape(gates, hidden, inputs), r.reshape(gates, hidden, hidden)], axis=2)
    shift = biases.reshape(2, gates, hidden)
    shift = shift.sum(axis=0, keepdims=True) if kind == "lstm" else shift
    blocks = -(-hidden // _WIDTH)
    padded = np.zeros((gates, blocks * _WIDTH, inputs + hidden), np.float32)
    padded[:, :hidden] = weight
    shifts = np.zeros((*shift.shape[:2], blocks * _WIDTH), np.float32)
    shifts[..., :hidden] = shift
    data = fresh((blocks, inputs + hidden, gates, _WIDTH))
    data[...] = padded.reshape(gates, blocks, _WIDTH, -1).transpose(1, 3, 0, 2)
    order = shifts.reshape(*shift.shape[:2], blocks, _WIDTH).transpose(2, 0, 1, 3)
    return PackedCell(kind, inputs, hidden, data.reshape(-1), np.ascontiguousarray(order).reshape(-1))


@kernel
def lstm_blocks(lo, hi, joined, weights, bias, h, c, h_out, c_out, samples, slots):
    """Hidden blocks ``[lo, hi)`` of every sample: gates by tile, then the cell's equations."""
    batch, depth = joined.shape
    hidden, taps = h.shape[1], np.zeros(1, np.int64)
    flat = joined.reshape(-1)
    gates = np.empty(_ROWS * 4 * _WIDTH, np.float32)
    for block in range(lo, hi):
        at, shift = block * depth * 4 * _WIDTH, block * 4 * _WIDTH
        first = block * _WIDTH
        n = 0
        while n < batch:
            rows = _ROWS if n + _ROWS <= batch else 1
            source, factors = (flat, samples, 0, taps, depth), (weights, at, bias, shift)
            if rows == _ROWS:
                _four_lstm(source, n, (0, 1), factors, True, LINEAR, (gates, slots, 0), 0)
            else:
                _one_lstm(source, n, (0, 1), factors, True, LINEAR, (gates, slots, 0), 0)
            for m in range(rows):
                a = gates[m * 4 * _WIDTH : (m + 1) * 4 * _WIDTH]
                for j in range(min(_WIDTH, hidden - first)):
                    p, q, s, t = a[j], a[_WIDTH + j], a[2 * _WIDTH + j], a[3 * _WIDTH + j]
                    unit = first + j
                    cell = np.float32(sigmoid32(s) * c[n + m, unit]) + np.float32(sigmoid32(p) * tanh32(t))
                    c_out[n + m, unit] = cell
                    h_out[n + m, unit] = sigmoid32(q) * tanh32(np.float32(cell))
            n += rows


@kernel
def gru_blocks(lo, hi, x, h, weights, bias, h_out, from_x, from_h, slots):
    """Hidden blocks ``[lo, hi)`` of every sample: both halves of the three gates by tile, then the equations."""
    batch, inputs = x.shape
    hidden, taps = h.shape[1], np.zeros(1, np.int64)
    wide = 3 * _WIDTH
    flat_x, flat_h = x.reshape(-1), h.reshape(-1)
    left, right = np.empty(_ROWS * wide, np.float32), np.empty(_ROWS * wide, np.float32)
    for block in range(lo, hi):
        at, shift = block * (inputs + hidden) * wide, 2 * block * wide
        then = at + inputs * wide
        first = block * _WIDTH
        n = 0
        while n < batch:
            rows = _ROWS if n + _ROWS <= batch else 1
            of_x, of_h = (flat_x, from_x, 0, taps, inputs), (flat_h, from_h, 0, taps, hidden)
            w_x, w_h = (weights, at, bias, shift), (weights, then, bias, shift + wide)
            if rows == _ROWS:
                _four_gru(of_x, n, (0, 1), w_x, True, LINEAR, (left, slots, 0), 0)
                _four_gru(of_h, n, (0, 1), w_h, True, LINEAR, (right, slots, 0), 0)
            else:
                _one_gru(of_x, n, (0, 1), w_x, True, LINEAR, (left, slots, 0), 0)
                _one_gru(of_h, n, (0, 1), w_h, True, LINEAR, (right, slots, 0), 0)
            for m in range(rows):
                a, b = left[m * wide : (m + 1) * wide], right[m * wide : (m + 1) * wide]
                for j in range(min(_WIDTH, hidden - first)):
                    unit = first + j
                    update = sigmoid32(np.float32(a[j] + b[j]))
                    reset = sigmoid32(np.float32(a[_WIDTH + j] + b[_WIDTH + j]))
                    candidate = tanh32(np.float32(a[2 * _WIDTH + j] + np.float32(reset * b[2 * _WIDTH + j])))
                    carry = np.float32(update * h[n + m, unit])
                    h_out[n + m, unit] = np.float32(np.float32(np.float32(1) - update) * candidate) + carry
            n += rows


def _checked(x: np.ndarray, states: tuple[tuple[str, np.ndarray], ...], packed: PackedCell, kind: str) -> None:
    require(packed.kind == kind, f"packed is a {packed.kind}; allowed: {kind}")
    whole("x", x, np.float32, 2)
    require(x.shape[1] == packed.inputs, f"x has {x.shape[1]} inputs; the cell takes {packed.inputs}")
    for name, state in states:
        shape = (x.shape[0], packed.hidden)
        require(whole(name, state, np.float32, 2).shape == shape, f"{name} is {state.shape}; allowed: {shape}")


def lstm_step(
    x: np.ndarray, h: np.ndarray, c: np.ndarray, packed: PackedCell, *, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Next ``(h, c)`` of an LSTM: ``x`` ``[batch, inputs]``, ``h`` and ``c`` ``[batch, hidden]``, all float32."""
    _checked(x, (("h", h), ("c", c)), packed, "lstm")
    joined = np.concatenate([x, h], axis=1)
    h_out, c_out = np.empty_like(h), np.empty_like(c)
    samples = np.arange(x.shape[0], dtype=np.int64) * joined.shape[1]
    arguments = (joined, packed.data, packed.bias, h, c, h_out, c_out, samples, _SLOTS[4])
    over_range(lstm_blocks, -(-packed.hidden // _WIDTH), *arguments, threads=threads, grain=2)
    return h_out, c_out


def gru_step(x: np.ndarray, h: np.ndarray, packed: PackedCell, *, threads: int | None = None) -> np.ndarray:
    """Next ``h`` of a GRU: ``x`` ``[batch, inputs]``, ``h`` ``[batch, hidden]``, float32."""
    _checked(x, (("h", h),), packed, "gru")
    h_out = np.empty_like(h)
    from_x, from_h = (np.arange(x.shape[0], dtype=np.int64) * v.shape[1] for v in (x, h))
    arguments = (x, h, packed.data, packed.bias, h_out, from_x, from_h, _SLOTS[3])
    over_range(gru_blocks, -(-packed.hidden // _WIDTH), *arguments, threads=threads, grain=2)
    return h_out
