"""Collectives inside a node, and one GPU to another: one step, a pipelined ring, or sums in the switch. Estimates.

A ring's chunks are as small as pays: seconds on the wire and the latencies of its steps add up under the root. Where
GPUs meet at a host bridge instead of a switch of their own, more than two share it.
"""

from __future__ import annotations

import numpy as np

from engine.devices.gpu.operators.slots import AT_LINK, AT_START, BOUND, BOUND_BY, REGIME, SECONDS, WIRE
from engine.kernels.jit import kernel

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND = range(5)
OPS = {
    "all_reduce": ALL_REDUCE,
    "all_gather": ALL_GATHER,
    "reduce_scatter": REDUCE_SCATTER,
    "alltoall": ALL_TO_ALL,
    "send_recv": SEND,
}

# a wire: bytes a second one way, whether a host bridge is shared, whether its switch adds; then the kind's constants
FORMAT = ("wire", "shared", "adds", "start", "hop", "share")
WIRE_BYTES, SHARED, ADDS, START, HOP, SHARE = range(6)


@kernel
def pipelined(wire, latency):
    """Seconds of a transfer cut into the best number of chunks: ``wire`` if it were free, ``latency`` of its steps."""
    root = np.sqrt(wire) + np.sqrt(latency)
    return root * root


@kernel
def collective_seconds(op, gpus, size, form, out):
    """Seconds of a collective over ``size`` bytes, counted as nccl-tests counts them; fills ``out``. Estimate."""
    rate = form[WIRE_BYTES] * form[SHARE]
    if form[SHARED] > 0.0 and gpus > 2.0:
        rate /= gpus
    others = gpus - 1.0
    if op == SEND:
        found, least = pipelined(size / rate, form[HOP]), size
    elif op == ALL_REDUCE:
        found = pipelined(2.0 * others / gpus * size / rate, 2.0 * others * form[HOP])
        found = min(found, others * size / rate + form[HOP])  # everyone sends all to all in one step
        if form[ADDS] > 0.0:
            found = min(found, pipelined((1.0 + 1.0 / gpus) * size / rate, 4.0 * form[HOP]))
        least = size if gpus > 1.0 else 0.0
    else:
        least = others / gpus * size
        found = pipelined(least / rate, others * form[HOP])
    bound = least / form[WIRE_BYTES]
    if gpus <= 1.0:
        found = 0.0
    out[BOUND], out[BOUND_BY] = bound, WIRE
    out[SECONDS] = max(found + form[START], bound)
    out[REGIME] = AT_START if form[START] >= found else AT_LINK


@kernel
def collective_rows(lo, hi, op, gpus, size, form, out):
    """`collective_seconds` of the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    for i in range(lo, hi):
        collective_seconds(op, gpus[i], size[i], form, out[i])
