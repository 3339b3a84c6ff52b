"""What a pass on a card spends by part, and which unit or memory level sets the time of each operator. Estimates.

Operations by format, bytes by memory level; leakage is apart. Every constant is assumed, within a range its note
states; together they let an array full of INT8 draw the published 13 W at the published 30 TOPS, and one full of FP16
at 4 TFLOPS.
"""

from collections.abc import Mapping

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card.demand import F
from engine.devices.card.placement import levels, line_bytes
from engine.devices.card.supply import S
from engine.devices.common.job import Job
from engine.devices.common.offer import Governor
from engine.kernels.jit import kernel
from engine.scenario import ScenarioError
from hardware_specs.schema import Device


def _names(device: Device) -> tuple[str, str, str]:
    """Of the memory of a core, of the one that cores share, and of the one off the chip."""
    far, near = levels(device)
    core = next((m.name for m in near if m.per == "core"), "core memory")
    cache = next((m.name for m in near if m.per == "device"), "shared memory")
    return core, cache, far.name


def level_bytes(device: Device, demand: np.ndarray) -> dict[str, np.ndarray]:
    """Bytes of each op that pass each memory level of one device, all executions; arrays of (n_ops,). [B]"""
    core, cache, far = _names(device)
    runs = demand[:, D.RUNS]
    return {
        core: runs * demand[:, D.SRAM],
        cache: runs * demand[:, D.CACHE],
        far: runs * (demand[:, D.FAR] + demand[:, D.LINES] * line_bytes(levels(device)[0])),
        "nvm": runs * demand[:, D.BEYOND],
    }


def limits_of(device: Device, demand: np.ndarray, rates: np.ndarray) -> tuple[str, ...]:
    """The unit or memory level that takes each op longest, of what goes on at once: a name an op, "" where nothing."""
    core, cache, far = _names(device)
    a, s = demand.T, rates
    spread = a[D.SKEW] / np.maximum(a[D.PIECES], 1.0)
    arrays = (a[D.MACS_LOW] * s[S.low_s] + a[D.MACS_WIDE] * s[S.wide_s]) * spread
    lanes = (a[D.LANE_OPS] * s[S.lane_s] + a[D.CYCLES] * s[S.cycle_s]) * spread
    works = np.stack(
        [
            arrays,
            lanes,
            a[D.PORT] * s[S.port_s] * spread,
            a[D.SRAM] * s[S.sram_s] * spread,
            a[D.CACHE] * s[S.cache_s],
            a[D.FAR] * s[S.far_s] + a[D.LINES] * s[S.line_s],
            a[D.BEYOND] * s[S.beyond_s],
            a[D.STARTS] * s[S.start_s] + a[D.SOLO] * s[S.solo_s],
            a[D.HOST_OPS] * s[S.host_op_s],
            a[D.PIXELS] * s[S.pixel_s],
        ]
    )
    names = ("array", "lanes", "port", core, cache, far, "nvm", "start", "host", "decoder")
    highest = works.max(axis=0)
    return tuple(names[at] if top > 0 else "" for at, top in zip(works.argmax(axis=0).tolist(), highest.tolist()))


def joules(job: Job, demand: np.ndarray) -> dict[str, float]:
    """What a pass on one card spends beside leakage, by part, at the highest clock and its voltage. [J]

    ``demand`` is an operator a row, see `engine.devices.card.demand`. An estimate.
    """
    model, runs = job.model, demand[:, D.RUNS]
    core, cache, far, behind = level_bytes(job.device, demand).values()
    return {
        "arrays": float(
            runs @ (demand[:, D.MACS_LOW] * model["array_low_j"] + demand[:, D.MACS_WIDE] * model["array_wide_j"])
        ),
        "lanes": float(runs @ (demand[:, D.LANE_OPS] + demand[:, D.CYCLES]) * model["lane_j"]),
        "core memory": float(core.sum() * model["core_byte_j"]),
        "shared cache": float(cache.sum() * model["cache_byte_j"]),
        "LPDDR": float((far + behind).sum() * model["far_byte_j"]),
    }


@kernel
def spend(demand, rec, out):
    """Fills ``out`` (n_ops,) with the same of each op, all parts together, from a record and its demands. [J]"""
    for j in range(demand.shape[0]):
        a = demand[j]
        near = a[D.SRAM] * rec[F.core_j] + a[D.CACHE] * rec[F.cache_j]
        far = (a[D.FAR] + a[D.LINES] * rec[F.far_line] + a[D.BEYOND]) * rec[F.far_j]
        lanes = (a[D.LANE_OPS] + a[D.CYCLES]) * rec[F.lane_j]
        out[j] = a[D.RUNS] * (a[D.MACS_LOW] * rec[F.low_j] + a[D.MACS_WIDE] * rec[F.wide_j] + lanes + near + far)


def idles(device: Device, model: Mapping[str, float]) -> float | None:
    """What one card draws while it does nothing. [W] ScenarioError where its limit leaves nothing for work."""
    limit = device.power.max
    if limit is not None and limit.si <= model["leakage_w"]:
        raise ScenarioError(
            f"power.max of {device.name} is {limit.si:g} W: it draws {model['leakage_w']:g} W while it does nothing "
            "(model.leakage_w), so more than that is allowed"
        )
    return model["leakage_w"]


def governs(device: Device, model: Mapping[str, float]) -> Governor:
    """How the card's clock gives way to its power limit. Assumed, within the range of `voltage_slope`."""
    assert device.card is not None
    clock = device.card.clock
    lowest = clock.min.si / clock.max.si if clock.min is not None else 1.0
    return Governor(lowest, model["voltage_slope"], clock.max.si / clock.max.catalog_si)
