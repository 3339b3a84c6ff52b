"""Rows of numbers that a price is settled in: where those of a plan lie, and the names of its figures."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from engine.devices.common.contract import COMPUTE, ONCHIP, RESOURCES

N = len(RESOURCES)
M = N + 1  # rows of a run: seconds by resource, then joules of one device beside what it draws anyway
CLOCKED = COMPUTE, ONCHIP  # what stretches with a governed clock
HOP = ("messages", "bytes", "pieces", "start_s", "rate", "hidden", "setup_s", "host_s")
HOPS = len(HOP)
MESSAGES, BYTES, PIECES, START, SPEED, HIDDEN, SETUP, COMMANDS = range(HOPS)
# globals of a plan: [-], [W], [USD], [a], [USD/kWh] and counts of cores
UNITS, UNITS_REQUEST, STREAMS, BATCHES, POWER, IDLE, PRICE, YEARS, UTILISATION, PUE, KWH, WAITING = range(12)
HOST_IDLE, HOST_MAX, HOST_CORES, PARSING_CORES, CAP, FLOOR, LOWEST, SLOPE, REACH, GLOBALS = range(12, 22)
DRAWN = ("clock_low", "clock_high", "clock", "device_j", "host_s", "joules")
"""Rows of what a request draws: shares of a clock, the first two while it is searched; [J], [core s], [J]."""
CLOCK_LOW, CLOCK_HIGH, CLOCK, DEVICE_J, HOST_S, JOULES = range(len(DRAWN))
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
LATENCY, INTERVAL, TTFT, TPOT, PER_UNIT, RATE, POWER_W, ENERGY, PER_WATT, CAPEX, PER_USD, PER_MILLION, BREAKDOWN = (
    range(13)
)
COLUMNS = len(METRICS)


class Places(NamedTuple):
    """Where rows of a plan begin, in order, and facts of it, as compiled functions read them. See `Layout`."""

    extra: int
    watts: int
    passes: int
    fixed: int
    hops: int
    globals: int
    draws: int
    scratch: int
    resource_s: int
    stage_s: int
    stage_j: int
    charge: int
    hop_s: int
    wire_s: int
    metrics: int
    rows: int  # in all
    pipelined: bool
    causal: bool
    governed: bool
    replicas: float


@dataclass(frozen=True)
class Layout:
    """Where the rows of a plan with so many runs (phases of stages), stages and hops lie; fixed facts beside them.

    Rows: seconds of each run by resource as its operators add up, and joules, then those of no operator, then what a
    device draws beside its floor while a resource takes the time [W], and joules of a pass; passes; what each stage
    pays once a request; the hops (`HOP`); the globals (`GLOBALS`); what a request draws (`DRAWN`); busy, decode and
    pass times; seconds of each stage by resource, whole, its joules, and the share of them that a request is charged;
    of each hop, and of each wire; the figures (`METRICS`).
    """

    stage_of: tuple[int, ...]  # of each run
    decode: tuple[float, ...]  # passes of a run for a unit of output; 0: it makes none
    copies: tuple[int, ...]  # of each stage
    wire_of: tuple[int, ...]  # of each hop: which wire it shares
    pipelined: bool
    causal: bool
    replicas: int
    alike: tuple[int, ...]  # of each hop: wires that share its messages or take turns
    shares: tuple[bool, ...]  # of each hop: whether alike wires share its messages
    ways: tuple[int, ...]  # of each run: devices that share its operators
    turns: tuple[int, ...]  # of each stage: whether it takes turns with the one before on its devices
    beside: tuple[int, ...]  # of each stage: -1: it goes on with the one before it, h: once hop h - 1 sent a piece
    governed: tuple[bool, ...]  # of each stage: whether a governor sets its clock
    spends: tuple[bool, ...]  # of each stage: whether its operators add to what its devices draw at any work
    host: tuple[int, ...]  # of each stage: 1: on a core of the host, 2: on all of a stream's

    @cached_property
    def runs(self) -> int:
        """Phases of stages. [-]"""
        return len(self.stage_of)

    @cached_property
    def where(self) -> Places:
        """Where each kind of row begins."""
        runs, stages, hops = self.runs, len(self.copies), len(self.wire_of)
        sizes = (*[M * runs] * 3, runs, N * stages, HOPS * hops, GLOBALS, len(DRAWN), 3, N * stages)
        begins = accumulate((*sizes, stages, stages, stages, hops, hops, COLUMNS))
        governed, replicas = any(self.governed), float(self.replicas)
        return Places(*begins, bool(self.pipelined), bool(self.causal), governed, replicas)

    def of_run(self, first: int, run: int) -> range:
        """Rows of a run by resource, then the one of its joules, of those that begin at ``first``."""
        return range(first + M * run, first + M * (run + 1))

    @cached_property
    def facts(self) -> tuple[Any, ...]:
        """The fixed facts in the order that `time_figures` takes them: where rows lie, then of runs, stages, hops."""
        of_runs, of_hops = (self.stage_of, self.ways), (self.wire_of, self.alike, self.shares)
        of_stages = (self.copies, self.beside, self.governed, self.host, self.turns, self.spends)
        lists = (np.array(rows, dtype=np.int64) for rows in (of_runs, of_stages, of_hops))
        return self.where, np.array(self.decode, dtype=np.float64), *lists
