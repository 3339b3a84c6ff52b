"""What a host does before an accelerator can run a network that hashes raw features itself: finds, parses, hashes them.

The same work that the CPU family charges its own cores for. Estimates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.devices.common.contract import Job, Parameter
from hardware_specs.schema import Device
from model_zoo.ops import Op

_CLOCK = 2.5e9  # of the host whose times these are [Hz]

FEATURE_OVERHEAD = Parameter("feature_overhead", 0.29923e-6, "s", "calibrated",
    "Core time of the framework for a raw feature of a sample: a field of its record found, parsed and put into a "
    "tensor. Networks that take tensors have none.", ("WD-010", "WD-011"))  # fmt: skip
HASH_CYCLES = Parameter("hash_cycles", 300.0, "cycle", "assumed", "A string hashed to a bucket by the framework.")
PARSING: tuple[Parameter, ...] = (
    replace(FEATURE_OVERHEAD, of_host=True),
    Parameter("feature_hash", HASH_CYCLES.value / _CLOCK, "s", "assumed",
              "Core time of the host for a string hashed to a bucket: the CPU family's 300 cycles at 2.5 GHz.",
              of_host=True),
    Parameter("feature_bytes", 20.0, "B", "assumed",
              "A raw feature as it comes over the network, in a record with its name: 17 B of a number, 21 B of a "
              "category of eight characters in the protocol buffers that a framework parses. 8 to 40.", low=1.0),
    Parameter("parsing_cores", 8.0, "1", "assumed",
              "Cores of the host that feed a device: 16 devices behind 128 cores, or three behind 24. 2 to 32.",
              low=1.0),
)  # fmt: skip
"""Constants of a device's host; `parsing_cores` of each device."""


def own_parsing(device: Device) -> dict[str, float]:
    """`PARSING` of a device with a processor of its own: as many cycles on those cores. [s], [-] An estimate."""
    own = device.own_cpu
    if own is None:
        return {}
    slower = _CLOCK / own.clock.si
    times = {p.name: p.value * slower for p in PARSING if p.unit == "s"}
    return times | {"parsing_cores": own.cores.si}


def hashes(ops: Iterable[Op]) -> bool:
    """Whether operators take raw features and hash them."""
    return any(op.kind == "Hash" for op in ops)


def raw_features(job: Job) -> float:
    """Raw features of a sample: all that enters a network that is hashed by this job, else none. [-]"""
    return job.graph.input_elements.at() if hashes(job.ops) else 0.0


def parsed_on_host(job: Job) -> tuple[tuple[str, str, float], ...]:
    """Features that the host parses and hashes for a request, as (name, resource, seconds). [s] An estimate.

    A request waits for them; meanwhile the device works on the one before.
    """
    features = raw_features(job)
    if not features:
        return ()
    hashed = sum(op.writes.at() for op in job.ops if op.kind == "Hash")
    each = features * job.model["feature_overhead"] + hashed * job.model["feature_hash"]
    return (("features parsed and hashed by the host", "host", job.batch * each / job.model["parsing_cores"]),)
