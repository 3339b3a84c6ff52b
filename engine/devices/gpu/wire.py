"""What GPUs exchange over the wire to their peers, as measured collectives of such a wire take it. Estimates."""

from collections.abc import Mapping
from typing import Any

from engine.devices.common.collective import beyond, link_form
from engine.devices.common.contract import Job
from engine.devices.common.fabric import what_if_ratio
from engine.devices.gpu.operators.collective import form_of
from engine.devices.gpu.operators.record import facts, fitted


def _own(generation: str) -> Mapping[str, float]:
    """Constants of the all-reduce that captured graphs hold."""
    measured = fitted()[generation]["all_reduce"]["bfloat16"]
    return next(measured[runtime] for runtime in facts()["captured"]["all_reduce"] if runtime in measured)


def start_of(generation: str) -> float:
    """What such an all-reduce starts with. [s] Fitted."""
    return _own(generation)["start"]


def wired(job: Job, kind: str) -> tuple[Any, ...]:
    """`collective.FORMAT` of a kind of collective on a job's wire: as measured, or of its link's own data.

    A captured graph holds a serving engine's own all-reduce; what a framework launches is NCCL's. What starts them all
    is the model's `collective_latency`, and what NCCL's were measured to take longer.
    """
    link = job.link
    assert link is not None
    measured = facts()["wires"].get(link.id)
    if measured is None:
        return link_form(job)
    own, ring = _own(measured["as"]), fitted()[measured["as"]]["collectives"][kind]["nccl"]
    rate, late = what_if_ratio([link.payload]), what_if_ratio([link.latency]) * job.link_hops
    start = job.model["collective_latency"]

    def here(values: Mapping[str, float]) -> dict[str, Any]:
        return {
            "start": start + max(values["start"] - own["start"], 0.0),
            "hop": values["hop"] * late,
            "share": values["share"] * rate,
        }

    runtime = facts()["captured"]["all_reduce"][0]
    near = here(own) if job.switches["graph"] and kind == "all_reduce" else None
    return form_of(link.id, link.bandwidth.si, runtime, near, here(ring), beyond(job))
