"""Fields that a CPU prices: what runs a network, its turbo, threads of a core, operators side by side, its memory."""

from engine.devices.common.model_file import runtimes
from engine.devices.common.setting import PricedField, Setting, traits

_RUNTIMES = runtimes(__file__)
RUNTIME = PricedField(
    needs="operators",
    settings=_RUNTIMES,
    offers=lambda graph, _: () if "BinaryGemm" in traits(graph) else tuple(_RUNTIMES),
    assumption="The runtime sets what an operator, a fork of threads and a call cost, and how its library multiplies.",
)
"""`runtimes.yaml` says which of what it sets was fitted, and on what."""
TURBO = PricedField(
    needs="base clock in its file",
    settings={"off": Setting(parameters={"turbo": 0.0})},
    available=lambda device, system: device.cpu is not None and device.cpu.base_clock is not None,
    assumption="All cores keep to the base clock, or to the share of it that a licence leaves; power falls with it.",
)
HYPER_THREADS = PricedField(
    needs="hyper-threads",
    settings={2: Setting(parameters={"threads_per_core": 2.0})},
    available=lambda device, system: device.cpu is not None and device.cpu.threads_per_core is not None,
    assumption="Two threads of a core share its units, its caches and its lines in flight: one computes while the "
    "other waits, at the odds of a queue of two (exact mean-value analysis), and neither gains anything else.",
)
_EXECUTORS = {n: Setting(parameters={"inter_op": float(n)}) for n in (2, 3, 4, 6, 8)}
INTER_OP = PricedField(
    needs="core for each of its threads while threads_per_core is set",
    settings=_EXECUTORS,
    offers=lambda graph, scenario: () if scenario.threads_per_core else tuple(_EXECUTORS),
    assumption="Each operator starts when its inputs are there and one of the inter-op threads is free, in the order "
    "of the graph, on an equal share of the stream's cores; those side by side share DRAM, and all cores draw power.",
)
NUMA = PricedField(
    needs="second socket that it loads from",
    settings={at: Setting(parameters={"remote_pages": away}) for at, away in (("interleaved", 0.5), ("remote", 1.0))},
    available=lambda device, system: system.coherent,
    assumption="Pages are interleaved over both sockets, or all lie on the other one, which is as busy: their lines "
    "wait for the link and pass through it, and caches hold them as they hold the socket's own.",
)
