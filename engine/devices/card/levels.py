"""Which unit or memory level sets the time of each operator on a card, and the bytes that pass each. Estimates."""

from __future__ import annotations

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card import rates as R
from engine.devices.card.placement import levels, line_bytes
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
    arrays = (a[D.MACS_LOW] * s[R.LOW_S] + a[D.MACS_WIDE] * s[R.WIDE_S]) * spread
    lanes = (a[D.LANE_OPS] * s[R.LANE_S] + a[D.CYCLES] * s[R.CYCLE_S]) * spread
    works = np.stack(
        [
            arrays,
            lanes,
            a[D.PORT] * s[R.PORT_S] * spread,
            a[D.SRAM] * s[R.SRAM_S] * spread,
            a[D.CACHE] * s[R.CACHE_S],
            a[D.FAR] * s[R.FAR_S] + a[D.LINES] * s[R.LINE_S],
            a[D.BEYOND] * s[R.BEYOND_S],
            a[D.STARTS] * s[R.START_S] + a[D.SOLO] * s[R.SOLO_S],
            a[D.HOST_OPS] * s[R.HOST_OP_S],
            a[D.PIXELS] * s[R.PIXEL_S],
        ]
    )
    names = ("array", "lanes", "port", own, shared, far, "nvm", "start", "host", "decoder")
    most = works.max(axis=0)
    return tuple(names[at] if top > 0 else "" for at, top in zip(works.argmax(axis=0).tolist(), most.tolist()))
