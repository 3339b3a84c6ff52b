"""Which unit or memory level sets the time of each operator on a card, and the bytes that pass each. Estimates."""

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card.placement import levels, line_bytes
from engine.devices.card.supply import S
from hardware_specs.schema import Device


def _names(device: Device) -> tuple[str, str, str]:
    """Of the memory of a core, of the one that cores share, and of the one off the chip."""
    far, near = levels(device)
    own = next((m.name for m in near if m.per == "core"), "core memory")
    shared = next((m.name for m in near if m.per == "device"), "shared memory")
    return own, shared, far.name


def level_bytes(device: Device, asked: np.ndarray) -> dict[str, np.ndarray]:
    """Bytes of each op that pass each memory level of one device, all executions; arrays of (n_ops,). [B]"""
    own, shared, far = _names(device)
    runs = asked[:, D.RUNS]
    return {
        own: runs * asked[:, D.SRAM],
        shared: runs * asked[:, D.CACHE],
        far: runs * (asked[:, D.FAR] + asked[:, D.LINES] * line_bytes(levels(device)[0])),
        "nvm": runs * asked[:, D.BEYOND],
    }


def limits_of(device: Device, asked: np.ndarray, rates: np.ndarray) -> tuple[str, ...]:
    """The unit or memory level that takes each op longest, of what goes on at once: a name an op, "" where nothing."""
    own, shared, far = _names(device)
    a, s = asked.T, rates
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
    names = ("array", "lanes", "port", own, shared, far, "nvm", "start", "host", "decoder")
    most = works.max(axis=0)
    return tuple(names[at] if top > 0 else "" for at, top in zip(works.argmax(axis=0).tolist(), most.tolist()))
