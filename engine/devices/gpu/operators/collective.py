"""Collectives of GPUs as they were measured: constants of a wire's kernels as forms, and many rows of them priced."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.devices.common.collective import ALL_REDUCE, ALONE, BEYOND, JOINS, SEND, WIRE, collective_seconds
from engine.devices.gpu.operators import slots as S
from engine.devices.gpu.operators.record import facts
from engine.kernels.jit import kernel


def form_of(
    wire: str,
    bandwidth: Any,
    runtime: str,
    own: Mapping[str, Any] | None,
    ring: Mapping[str, Any],
    beyond: Sequence[Any] = ALONE,
) -> tuple[Any, ...]:
    """`collective.FORMAT` of a wire by its id, its bandwidth [B/s] and the constants of a runtime's ``own`` kernels,
    where it has some, and of a library's ``ring``; ``beyond`` as `collective.beyond` has it. [SI]"""
    link = facts()["wires"].get(wire, {})
    takes = facts()["own_kernels"].get(runtime.removesuffix("-eager"), {}) if own is not None else {"message": -1.0}
    near = [(own or ring)[name] for name in ("start", "hop", "share")]
    most, room = takes.get("message", np.inf), takes.get("room", np.inf)
    far = [ring[name] for name in ("start", "hop", "share")]
    return bandwidth, float(link.get("shared", False)), link.get("adds", 0.0), *near, most, room, *far, *beyond


@kernel
def collective_rows(lo, hi, op, gpus, size, form, out):
    """Answers to the rows lo..hi; ``out`` is (rows, `slots.ANSWER`)."""
    for i in range(lo, hi):
        least = size[i]
        if op not in (ALL_REDUCE, SEND):
            least *= (gpus[i] - 1.0) / gpus[i]
        elif gpus[i] <= 1.0:
            least = 0.0
        bound, start = least / form[WIRE], collective_seconds(op, gpus[i], 0.0, form)[0]
        if gpus[i] > form[JOINS]:  # what a node needs of others comes in over all of its own ways out
            bound = max(bound, least / form[JOINS] / form[BEYOND])
        seconds = max(collective_seconds(op, gpus[i], size[i], form)[0], bound)
        out[i, S.BOUND], out[i, S.BOUND_BY], out[i, S.SECONDS] = bound, S.WIRE, seconds
        out[i, S.REGIME] = S.AT_START if 2.0 * start >= seconds else S.AT_LINK
