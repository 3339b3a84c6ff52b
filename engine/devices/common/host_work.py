"""What a host does before an accelerator can run a network that hashes raw features itself: finds, parses, hashes them.

The same work that the CPU family charges its own cores for. Estimates.
"""

from collections.abc import Iterable
from pathlib import Path

from engine.devices.common.job import Job
from engine.devices.common.model_file import parameters_of
from hardware_specs.schema import Device
from model_zoo.ops import Op

_CLOCK = 2.5e9  # of the host whose times these are [Hz]

_PARAMETERS = parameters_of(Path(__file__).with_name("host.yaml"))
ON_CORES, PARSING = _PARAMETERS[:4], _PARAMETERS[3:]
"""Constants of a device that parses on its own cores, and of a device's host; `parsing_cores` of each device."""


def own_parsing(device: Device) -> dict[str, float]:
    """`PARSING` of a device with a processor of its own: as many cycles on those cores. [s], [-] An estimate."""
    processor = device.own_cpu
    if processor is None:
        return {}
    times = {p.name: p.value * _CLOCK / processor.clock.si for p in PARSING if p.unit == "s"}
    return times | {"parsing_cores": processor.cores.si}


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
    hash_count = sum(op.writes.at() for op in job.ops if op.kind == "Hash")
    feature_s = job.model["feature_time"] + job.model["feature_bytes"] * job.model["byte_time"]
    sample_s = features * feature_s + hash_count * job.model["hash_time"]
    return (("features parsed and hashed by the host", "host", job.batch * sample_s / job.model["parsing_cores"]),)
