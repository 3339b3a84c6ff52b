"""Collectives of GPUs as they were measured: constants of a wire's kernels as forms, and many rows of them priced.

What GPUs exchange over the wire to their peers takes as long as measured collectives of such a wire. Estimates.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.devices.common.collective import (
    ALL_REDUCE,
    BEYOND,
    JOINS,
    SEND,
    WIRE,
    beyond,
    collective_seconds,
    link_form,
)
from engine.devices.common.fabric import what_if_ratio
from engine.devices.common.job import Job
from engine.devices.gpu.operators import slots as S
from engine.devices.gpu.operators.record import facts, fitted, nearest
from engine.kernels.jit import kernel


def form_of(
    wire: str,
    bandwidth: Any,
    runtime: str,
    kernels: Mapping[str, Any] | None,
    ring: Mapping[str, Any],
    beyond: Sequence[Any],
) -> tuple[Any, ...]:
    """`collective.FORMAT` of a wire by its id, its bandwidth [B/s] and the constants of a runtime's own ``kernels``,
    where it has some, and of a library's ``ring``; ``beyond`` as `collective.beyond` has it. [SI]"""
    link = facts()["wires"].get(wire, {})
    takes = facts()["own_kernels"].get(runtime.removesuffix("-eager"), {}) if kernels is not None else {"message": -1.0}
    near = [(kernels or ring)[name] for name in ("start", "hop", "share")]
    max_bytes, room = takes.get("message", np.inf), takes.get("room", np.inf)
    far = [ring[name] for name in ("start", "hop", "share")]
    return bandwidth, float(link.get("shared", False)), link.get("adds", 0.0), *near, max_bytes, room, *far, *beyond


@kernel
def collective_rows(lo, hi, op, gpus, size, form, out):
    """Answers to the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    for i in range(lo, hi):
        wire_bytes = size[i]
        if op not in (ALL_REDUCE, SEND):
            wire_bytes *= (gpus[i] - 1.0) / gpus[i]
        elif gpus[i] <= 1.0:
            wire_bytes = 0.0
        bound, start = wire_bytes / form[WIRE], collective_seconds(op, gpus[i], 0.0, form)[0]
        if gpus[i] > form[JOINS]:  # what a node needs of others comes in over all of its own ways out
            bound = max(bound, wire_bytes / form[JOINS] / form[BEYOND])
        seconds = max(collective_seconds(op, gpus[i], size[i], form)[0], bound)
        out[i, S.BOUND], out[i, S.BOUND_BY], out[i, S.SECONDS] = bound, S.WIRE, seconds
        out[i, S.REGIME] = S.AT_START if 2.0 * start >= seconds else S.AT_LINK


def engine_kernels(generation: str) -> Mapping[str, float]:
    """Constants of the all-reduce that captured graphs hold: `start` and `hop` [s], `share` of the wire [-]. Fitted."""
    table = fitted()[generation]["all_reduce"]["bfloat16"]
    return table[nearest(table, *facts()["captured"]["all_reduce"])]


def wire_form(job: Job, kind: str) -> tuple[Any, ...]:
    """`collective.FORMAT` of a kind of collective on a job's wire: as measured, or of its link's own data.

    A captured graph holds a serving engine's own all-reduce; what a framework launches is NCCL's. What starts them all
    is the model's `collective_latency`, and what NCCL's were measured to take longer.
    """
    link = job.link
    assert link is not None
    entry = facts()["wires"].get(link.id)
    if entry is None:
        return link_form(job)
    kernels, ring = engine_kernels(entry["as"]), fitted()[entry["as"]]["collectives"][kind]["nccl"]
    rate, late = what_if_ratio([link.payload]), what_if_ratio([link.latency]) * job.link_hops
    start = job.model["collective_latency"]

    def here(values: Mapping[str, float]) -> dict[str, Any]:
        return {
            "start": start + max(values["start"] - kernels["start"], 0.0),
            "hop": values["hop"] * late,
            "share": values["share"] * rate,
        }

    runtime = facts()["captured"]["all_reduce"][0]
    near = here(kernels) if job.switches["graph"] and kind == "all_reduce" else None
    return form_of(link.id, link.bandwidth.si, runtime, near, here(ring), beyond(job))
