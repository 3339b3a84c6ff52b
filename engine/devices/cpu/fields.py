"""Fields that a CPU prices: hyper-threads of a core, operators side by side, and on which socket memory lies."""

from __future__ import annotations

from engine.devices.common.contract import PricedField, Setting

HYPER_THREADS = PricedField(
    needs="hyper-threads",
    offers=lambda graph, scenario: (2,),
    available=lambda device, system: device.cpu is not None and device.cpu.threads_per_core is not None,
    assumption="Two threads of a core share its units, its caches and its lines in flight: one computes while the "
    "other waits, at the odds of a queue of two (exact mean-value analysis), and neither gains anything else.",
    sets=lambda value: Setting(parameters={"threads_per_core": float(value)}),
)

INTER_OP = PricedField(
    needs="core for each of its threads while threads_per_core is set",
    offers=lambda graph, scenario: () if scenario.threads_per_core else (2, 3, 4, 6, 8),
    assumption="Each operator starts when its inputs are there and one of the inter-op threads is free, in the order "
    "of the graph, on an equal share of the stream's cores; those side by side share DRAM, and all cores draw power.",
    sets=lambda value: Setting(parameters={"inter_op": float(value)}),
)
_AWAY = {"local": 0.0, "interleaved": 0.5, "remote": 1.0}
NUMA = PricedField(
    needs="second socket that it loads from",
    offers=lambda graph, scenario: tuple(_AWAY)[1:],
    available=lambda device, system: system.coherent,
    assumption="Pages are interleaved over both sockets, or all lie on the other one, which is as busy: their lines "
    "wait for the link and pass through it, and caches hold them as they hold the socket's own.",
    sets=lambda value: Setting(parameters={"remote_pages": _AWAY[value]}),
)
