"""Collectives among devices on a wire: one step, two steps, a pipelined ring, or sums in the switch. Estimates.

An engine's own kernels send every device's data to all others at once, or each its part there and back; they take what
fits their buffers. What is longer goes round a ring in chunks as small as pays: seconds on the wire and the latencies
of its steps add up under the root. Beyond the devices that a wire joins, each node adds up within, every device of it
its part with those of other nodes, and shares it out within again; chunks do so at once. One compiled function prices
a single operator, a network's exchanges and a sweep's.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.devices.common.column import Column, together
from engine.devices.common.job import Job
from engine.kernels.jit import for_points, kernel

OPS = {name: at for at, name in enumerate(("all_reduce", "all_gather", "reduce_scatter", "alltoall", "send_recv"))}
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND = OPS.values()

FORMAT = (
    "wire",  # bytes a second one way
    "shared",  # whether more than two devices share it: they meet at a host bridge
    "adds",  # of the wire's rate that sums in its switch reach, over a ring's; 0: it adds nothing
    "start",  # seconds to the first byte of an engine's own kernels,
    "hop",  # one step of theirs to all others [s],
    "share",  # of the wire's rate that they reach;
    "most",  # bytes of a message that they take,
    "room",  # and of all devices' messages together, a pair's twice
    "ring_start",  # the same three of a library's ring
    "ring_hop",
    "ring_share",
    "joins",  # devices that the wire joins: a node
    "beyond",  # bytes a second of each device's way to other nodes
    "beyond_hop",  # and one step of its ring [s]
)
WIRE, SHARED, ADDS, START, HOP, SHARE, MAX_BYTES, ROOM, RING_START, RING_HOP, RING_SHARE = range(11)
JOINS, BEYOND, BEYOND_HOP = range(11, len(FORMAT))
ALONE = (np.inf, np.inf, 0.0)  # the last three where a wire joins all there are

RECEIVED = 0.3
"""Time of a ring's step that only receives, over that of one that sends: the last of a chunk's 2 n - 1 steps. Read off
nccl-tests on A100, H100 and B200: the rate of 2 devices is 0.83 to 0.91 of that of 4, which 0.2 to 0.4 give; of
8 it is that of 4 within 3%. Assumed to be the same everywhere."""


@kernel
def pipeline_seconds(wire, latency):
    """Seconds of a transfer cut into the best number of chunks: ``wire`` if it were free, ``latency`` of its steps."""
    root = np.sqrt(wire) + np.sqrt(latency)
    return root * root


@kernel
def _round(op, gpus, size):
    """A ring among devices: bytes that its time goes by, bytes a device sends, and steps."""
    peers = gpus - 1.0
    if op == SEND:
        return size, size, 1.0
    if peers <= 0.0:
        return 0.0, 0.0, 0.0
    bytes_out = peers / gpus * size
    if op != ALL_REDUCE:
        return bytes_out, bytes_out, peers
    return 2.0 * bytes_out + RECEIVED * size / gpus, 2.0 * bytes_out, 2.0 * peers


@kernel
def _ring(op, gpus, nodes, size, rate, form):
    """Seconds of a library's collective after its start, and bytes a device sends; all nodes have as many ``gpus``.

    A device's part of what its node adds up, or of all that is gathered, goes to its peers of other nodes while the
    next chunk goes round its own: the slower of both wires sets the pace, and all steps are taken.
    """
    ring, bytes_out, steps = _round(op, gpus, size)
    around, far_bytes, far = _round(op, nodes, size if op == ALL_TO_ALL else size / gpus)
    away, late = (around / form[BEYOND], far * form[BEYOND_HOP]) if nodes > 1.0 else (0.0, 0.0)
    far_bytes = far_bytes if nodes > 1.0 else 0.0
    hop = form[RING_HOP]
    result = pipeline_seconds(max(ring / rate, away), steps * hop + late)
    if op == ALL_REDUCE and form[ADDS] > 0.0 and gpus > 1.0:
        sum_bytes = (1.0 + 1.0 / gpus) * size
        in_switch = pipeline_seconds(max(sum_bytes / (rate * form[ADDS]), away), 4.0 * hop + late)
        if in_switch < result:
            return in_switch, sum_bytes + far_bytes
    return result, bytes_out + far_bytes


@kernel
def collective_seconds(op, gpus, size, form):
    """Seconds of a collective over ``size`` bytes, counted as nccl-tests counts them, and bytes a device sends.

    An estimate. ``form`` is as `FORMAT` names it.
    """
    if gpus <= 1.0:
        return form[START], 0.0
    nodes = np.ceil(gpus / form[JOINS]) if gpus > form[JOINS] else 1.0
    gpus = gpus / nodes
    contention = form[SHARED] > 0.0 and gpus > 2.0
    rate = form[WIRE] / (gpus if contention else 1.0)
    room = form[ROOM] * (2.0 if gpus <= 2.0 else 1.0)
    if op != ALL_REDUCE or nodes > 1.0 or contention or size > form[MAX_BYTES] or size * gpus > room:
        seconds, bytes_out = _ring(op, gpus, nodes, size, rate * form[RING_SHARE], form)
        return form[RING_START] + seconds, bytes_out
    once, twice = (gpus - 1.0) * size, 2.0 * (gpus - 1.0) / gpus * size
    rate *= form[SHARE]
    direct, two_step = once / rate + form[HOP], twice / rate + 2.0 * form[HOP]
    return form[START] + min(direct, two_step), once if direct <= two_step else twice


@kernel
def collective_points(op, gpus, sizes, forms, out):
    """`collective_seconds` of ``sizes`` with the form of each in a row of ``forms``; fills ``out`` (2, n)."""
    for i in range(sizes.shape[0]):
        out[0, i], out[1, i] = collective_seconds(op, gpus, sizes[i], forms[i])


def collective_time(op: int, devices: float, size: Any, form: Sequence[Any]) -> tuple[Any, Any]:
    """`collective_seconds` of numbers or columns. [s], [B]"""
    if not any(isinstance(value, Column) for value in (size, *form)):
        of_size = for_points(collective_seconds)
        seconds, bytes_out = of_size(op, devices, float(size), np.array(form, dtype=np.float64))
        return float(seconds), float(bytes_out)
    sizes, *forms = together(size, *form)
    out = np.empty((2, sizes.size))
    collective_points(op, devices, sizes.ravel(), np.stack([value.ravel() for value in forms], axis=-1), out)
    return Column(out[0].reshape(sizes.shape)), Column(out[1].reshape(sizes.shape))


def sent_beyond(op: int, devices: float, size: float, joins: float) -> float:
    """Bytes of what a device sends in `collective_seconds` that go to other nodes, each of ``joins`` devices. [B]"""
    nodes = math.ceil(devices / joins)
    return _round(op, float(nodes), size if op == ALL_TO_ALL else size * nodes / devices)[1] if nodes > 1 else 0.0


def link_form(job: Job) -> tuple[Any, ...]:
    """`FORMAT` of a wire whose collectives nobody measured: its link's latency, and its rate after headers. [SI]

    Where every pair of devices has a way of its own, they need no ring.
    """
    link = job.link
    assert link is not None
    start, hop = job.model.get("collective_latency", 0.0), link.latency.si * job.link_hops
    share = link.payload.si if link.payload else 1.0
    max_bytes = np.inf if job.link_direct else -1.0
    return link.bandwidth.si, 0.0, 0.0, start, hop, share, max_bytes, np.inf, start, hop, share, *beyond(job)


def beyond(job: Job) -> tuple[Any, ...]:
    """The last of `FORMAT`: devices that a job's wire joins, and its way to other nodes. [-], [B/s], [s]"""
    far = job.link_beyond
    return (job.link_joins, far.usable, far.latency.si) if far is not None else ALONE
