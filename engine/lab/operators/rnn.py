"""One step of an LSTM or GRU cell, batch by batch, float32: the products of all gates, then one pass of activations.

At batch 1 the step streams the weights once: it is bound by memory, and the gates never leave the cache. Equations and
weight layout are ONNX's LSTM (gate order i, o, f, c) and GRU (z, r, h with ``linear_before_reset = 1``), as in cuDNN
and Brainwave. [FLOP] = 2 * batch * gates * hidden * (inputs + hidden).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.operators.gemm import Packed, gemm_f32, pack_f32
from engine.lab.operators.pointwise import sigmoid32, tanh32
from engine.lab.ranges import require, whole

GATES = {"lstm": 4, "gru": 3}


@dataclass(frozen=True)
class PackedCell:
    """Weights of a recurrent cell: of an LSTM one product of inputs and state together, of a GRU one of each.

    The reset gate of a GRU multiplies only the recurrent part of the candidate, so its products stay apart.
    """

    kind: Literal["lstm", "gru"]
    inputs: int
    hidden: int
    products: tuple[Packed, ...]


def pack_cell(kind: Literal["lstm", "gru"], w: np.ndarray, r: np.ndarray) -> PackedCell:
    """Pack ONNX weights ``w`` ``[gates * hidden, inputs]`` and ``r`` ``[gates * hidden, hidden]``."""
    require(kind in GATES, f"kind is {kind!r}; allowed: lstm, gru")
    gates = GATES[kind]
    whole("w", w, np.float32, 2)
    whole("r", r, np.float32, 2)
    hidden, inputs = r.shape[1], w.shape[1]
    require(hidden >= 1, "r must have at least one hidden unit")
    for name, array, shape in (("w", w, (gates * hidden, inputs)), ("r", r, (gates * hidden, hidden))):
        require(array.shape == shape, f"{name} is {array.shape}; a {kind} of {hidden} units needs {shape}")
    matrices = (np.concatenate([w, r], axis=1),) if kind == "lstm" else (w, r)
    return PackedCell(kind, inputs, hidden, tuple(pack_f32(np.ascontiguousarray(m.T)) for m in matrices))


@kernel
def _lstm_units(gates, c, h_out, c_out):
    """Next state of every unit from its gates ``[batch, 4 * hidden]``, in ONNX's order."""
    units = c.shape[1]
    for n in range(c.shape[0]):
        row = gates[n].reshape(4, units)
        i, o, f, g = row[0], row[1], row[2], row[3]
        for u in range(units):
            cell = np.float32(sigmoid32(f[u]) * c[n, u]) + np.float32(sigmoid32(i[u]) * tanh32(g[u]))
            c_out[n, u] = cell
            h_out[n, u] = sigmoid32(o[u]) * tanh32(np.float32(cell))


@kernel
def _gru_units(lhs, rhs, h, h_out):
    """Next state of every unit from both halves of its gates ``[batch, 3 * hidden]``."""
    units = h.shape[1]
    for n in range(h.shape[0]):
        a, b = lhs[n], rhs[n]
        for u in range(units):
            update = sigmoid32(np.float32(a[u] + b[u]))
            reset = sigmoid32(np.float32(a[units + u] + b[units + u]))
            candidate = tanh32(np.float32(a[2 * units + u] + np.float32(reset * b[2 * units + u])))
            carry = np.float32(update * h[n, u])
            h_out[n, u] = np.float32(np.float32(np.float32(1) - update) * candidate) + carry


def _check(x: np.ndarray, states: tuple[tuple[str, np.ndarray], ...], packed: PackedCell, kind: str) -> None:
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
    _check(x, (("h", h), ("c", c)), packed, "lstm")
    gates = gemm_f32(np.concatenate([x, h], axis=1), packed.products[0], threads=threads)
    h_out, c_out = np.empty_like(h), np.empty_like(c)
    _lstm_units(gates, c, h_out, c_out)
    return h_out, c_out


def gru_step(x: np.ndarray, h: np.ndarray, packed: PackedCell, *, threads: int | None = None) -> np.ndarray:
    """Next ``h`` of a GRU: ``x`` ``[batch, inputs]``, ``h`` ``[batch, hidden]``, float32."""
    _check(x, (("h", h),), packed, "gru")
    halves = [gemm_f32(v, p, threads=threads) for v, p in zip((x, h), packed.products, strict=True)]
    h_out = np.empty_like(h)
    _gru_units(*halves, h, h_out)
    return h_out
