"""Rows of numbers that a price is settled in: where those of a plan lie, and the names of its figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from engine.devices.common.contract import RESOURCES

N = len(RESOURCES)
M = N + 1  # rows of a run: seconds by resource, then joules of one device beside what it draws anyway
CLOCKED = tuple(RESOURCES.index(name) for name in ("compute", "onchip"))  # what stretches with a governed clock
HOST_ROW = RESOURCES.index("host")
LINKS_ROW = RESOURCES.index("links")
HOP = ("messages", "bytes", "pieces", "start_s", "rate", "hidden", "setup_s", "host_s")
HOPS = len(HOP)
MESSAGES, BYTES, PIECES, START, SPEED, HIDDEN, SETUP, COMMANDS = range(HOPS)
# globals of a plan: [-], [W], [USD], [a], [USD/kWh] and counts of cores
UNITS, UNITS_REQUEST, STREAMS, BATCHES, POWER, IDLE, PRICE, YEARS, UTILISATION, PUE, KWH = range(11)
HOST_IDLE, HOST_MAX, HOST_CORES, PARSING_CORES, CAP, FLOOR, LOWEST, SLOPE, REACH, GLOBALS = range(11, 21)
DRAWN = ("clock_low", "clock_high", "clock", "device_j", "host_s", "joules")
"""Rows before scratch: shares of a clock, the first two while it is searched; of a request [J], [core s], [J]."""
METRICS = (
    "latency_s",
    "interval_s",
    "ttft_s",
    "tpot_s",
    "latency_per_unit_s",
    "throughput_per_s",
    "power_w",
    "energy_per_unit_j",
    "throughput_per_w",
    "capex_usd",
    "throughput_per_usd",
    "usd_per_million",
    *(f"{name}_s" for name in RESOURCES),
)
"""Rows of figures, in order; a figure that does not apply or rests on something unpublished is NaN."""
(
    LATENCY,
    INTERVAL,
    TTFT,
    TPOT,
    PER_UNIT,
    RATE,
    POWER_W,
    ENERGY,
    PER_WATT,
    CAPEX,
    PER_USD,
    PER_MILLION,
    BREAKDOWN,
) = range(13)
COLUMNS = len(METRICS)


class Places(NamedTuple):
    """Where rows of a plan begin, and facts of it, as compiled functions read them. See `Layout`."""

    others: int
    watts: int
    passes: int
    fixed: int
    hops: int
    globals: int
    scratch: int
    metrics: int
    pipelined: bool
    causal: bool
    governed: bool
    replicas: float


@dataclass(frozen=True)
class Layout:
    """Where the rows of a plan with so many runs (phases of stages), stages and hops lie; fixed facts beside them.

    Rows: seconds of each run by resource as its operators add up, and joules, then those of no operator, then what a
    device draws beside its floor while a resource takes the time [W], and joules of a pass; passes; what each stage
    pays once a request; the hops (`HOP`); the globals (`GLOBALS`); what a request draws (`DRAWN`); scratch; the figures
    (`METRICS`).
    """

    stage_of: tuple[int, ...]  # of each run
    decode: tuple[float, ...]  # passes of a run for a unit of output; 0: it makes none
    copies: tuple[int, ...]  # of each stage
    wire_of: tuple[int, ...]  # of each hop: which wire it shares
    pipelined: bool
    causal: bool
    replicas: int
    alike: tuple[int, ...] = ()  # of each hop: wires that share its messages or take turns; empty: one each
    shares: tuple[bool, ...] = ()  # of each hop: whether alike wires share its messages; empty: none
    ways: tuple[int, ...] = ()  # of each run: devices that share its operators; empty: one each
    turns: tuple[int, ...] = ()  # of each stage: whether it takes turns with the one before on its devices; empty: none
    beside: tuple[int, ...] = ()  # of each stage: -1: it goes on with the one before it, h: once hop h - 1 sent a piece
    governed: tuple[bool, ...] = ()  # of each stage: whether a governor sets its clock; empty: none
    host: tuple[int, ...] = ()  # of each stage: 1: on a core of the host, 2: on all of a stream's; empty: none

    @cached_property
    def runs(self) -> int:
        """Phases of stages. [-]"""
        return len(self.stage_of)

    @cached_property
    def others(self) -> int:
        """First row of the seconds that belong to no operator."""
        return M * self.runs

    def seconds_of(self, run: int) -> slice:
        """Rows of a run's seconds by resource, as its operators add up; the row behind them holds their joules."""
        return slice(M * run, M * run + N)

    def others_of(self, run: int) -> slice:
        """Rows of a run's seconds by resource that belong to no operator; joules likewise."""
        return slice(self.others + M * run, self.others + M * run + N)

    def fixed_of(self, stage: int) -> slice:
        """Rows of what a stage pays once a request, by resource."""
        return slice(self.fixed + N * stage, self.fixed + N * (stage + 1))

    @cached_property
    def watts(self) -> int:
        """First row of what a device draws in a run beside its floor, by resource, and joules of a pass."""
        return 2 * M * self.runs

    @cached_property
    def passes(self) -> int:
        """First row of the passes."""
        return 3 * M * self.runs

    @cached_property
    def fixed(self) -> int:
        """First row of what stages pay once a request."""
        return self.passes + self.runs

    @cached_property
    def hops(self) -> int:
        """First row of the hops."""
        return self.fixed + N * len(self.copies)

    @cached_property
    def globals(self) -> int:
        """First row of the globals."""
        return self.hops + len(HOP) * len(self.wire_of)

    @cached_property
    def scratch(self) -> int:
        """First row of scratch, after what a request draws."""
        return self.drawn(DRAWN[0]) + len(DRAWN)

    def drawn(self, name: str) -> int:
        """Row of what a request draws, by its name in `DRAWN`."""
        return self.globals + GLOBALS + DRAWN.index(name)

    @cached_property
    def metrics(self) -> int:
        """First row of the figures, after busy, decode and pass times and those of each stage, hop and wire."""
        return self.scratch + 3 + (N + 1) * len(self.copies) + 2 * len(self.wire_of)

    @cached_property
    def stage_times(self) -> slice:
        """Rows of the time each stage takes within a request."""
        first = self.scratch + 3 + N * len(self.copies)
        return slice(first, first + len(self.copies))

    @cached_property
    def hop_times(self) -> slice:
        """Rows of the time each hop adds to a request."""
        return slice(self.stage_times.stop, self.stage_times.stop + len(self.wire_of))

    @cached_property
    def rows(self) -> int:
        """Rows in all. [-]"""
        return self.metrics + COLUMNS

    @cached_property
    def facts(self) -> tuple[Any, ...]:
        """The fixed facts in the order that `time_figures` takes them: where rows lie, then of runs, stages, hops."""
        where = Places(
            self.others,
            self.watts,
            self.passes,
            self.fixed,
            self.hops,
            self.globals,
            self.scratch,
            self.metrics,
            bool(self.pipelined),
            bool(self.causal),
            any(self.governed),
            float(self.replicas),
        )
        stages, hops = (0,) * len(self.copies), (1,) * len(self.wire_of)
        of_runs = (self.stage_of, self.ways or (1,) * self.runs)
        of_stages = (self.copies, *(each or stages for each in (self.beside, self.governed, self.host, self.turns)))
        of_hops = (self.wire_of, self.alike or hops, self.shares or (0,) * len(hops))
        lists = (np.array(each, dtype=np.int64) for each in (of_runs, of_stages, of_hops))
        return where, np.array(self.decode, dtype=np.float64), *lists
