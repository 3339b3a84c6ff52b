"""Threads as people set them on a CPU: hyper-threads of a core."""

from __future__ import annotations

from engine.devices.common.contract import PricedField, Setting

HYPER_THREADS = PricedField(
    needs="hyper-threads",
    offers=lambda graph, scenario: (2,),
    there=lambda device: device.cpu is not None and device.cpu.threads_per_core is not None,
    assumption="Two threads of a core share its units, its caches and its lines in flight: one computes while the "
    "other waits, at the odds of a queue of two (exact mean-value analysis), and neither gains anything else.",
    sets=lambda value: Setting(parameters={"threads_per_core": float(value)}),
)
