"""Arithmetic that turns the parts of a plan into its figures: compiled once, for one point and for a million.

`evaluate` calls it on arrays with one column, a sweep on blocks of `WIDTH` columns; every column goes through the same
operations in the same order, so both find the same bits. Rows are laid out by `Layout`. Estimates, as their parts are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.devices.common.contract import RESOURCES
from engine.devices.common.counts import Group
from engine.kernels.jit import kernel

N = len(RESOURCES)
M = N + 1  # rows of a run: seconds by resource, then joules of one device beside what it draws anyway
LINKS_ROW = RESOURCES.index("links")
HOP = ("messages", "bytes", "pieces", "start_s", "rate", "hidden", "setup_s")
HOPS = len(HOP)
PIECES = HOP.index("pieces")
GLOBALS = (
    "units",
    "units_request",
    "streams",
    "batches",
    "power",
    "idle",
    "price",
    "years",
    "utilisation",
    "pue",
    "kwh",
)
UNITS, UNITS_REQUEST, STREAMS, BATCHES, POWER, IDLE, PRICE, YEARS, UTILISATION, PUE, KWH = range(11)
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
_YEAR_S = 365.25 * 86400.0
J_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Layout:
    """Where the rows of a plan with so many runs (phases of stages), stages and hops lie; fixed facts beside them.

    Rows: seconds of each run by resource as its operators add up, and joules, then those of no operator, then passes;
    what each stage pays once a request; the hops (`HOP`); the globals (`GLOBALS`); joules of a request; scratch; the
    figures (`METRICS`).
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
    turns: bool = False  # whether its stages take turns on the same devices
    beside: tuple[int, ...] = ()  # of each stage: -1: it goes on with the one before it, h: once hop h - 1 sent a piece

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
    def passes(self) -> int:
        """First row of the passes."""
        return 2 * M * self.runs

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
        """First row of scratch, after the joules of a request beside what is drawn anyway."""
        return self.globals + len(GLOBALS) + 1

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
    def facts(self) -> tuple[np.ndarray, ...]:
        """The fixed facts as arrays, in the order that `time_figures` takes them."""
        shape = (self.runs, len(self.copies), len(self.wire_of))
        where = (
            self.others,
            self.passes,
            self.fixed,
            self.hops,
            self.globals,
            self.scratch,
            self.metrics,
            int(self.pipelined),
            int(self.causal),
            self.replicas,
            int(self.turns),
        )
        alike = self.alike or (1,) * len(self.wire_of)
        shares = self.shares or (False,) * len(self.wire_of)
        ways = self.ways or (1,) * self.runs
        beside = self.beside or (0,) * len(self.copies)
        lists = (shape, where, self.stage_of, self.copies, self.wire_of, alike, shares, ways, beside)
        arrays = [np.array(values, dtype=np.int64) for values in lists]
        return (*arrays[:3], np.array(self.decode, dtype=np.float64), *arrays[3:])


@kernel
def column_totals(seconds, rows, times, out):
    """Adds those rows of seconds by resource and joules (n_ops, k), so many times each, first to last, to ``out``."""
    for i in range(rows.shape[0]):
        for r in range(seconds.shape[1]):
            out[r] += times[i] * seconds[rows[i], r]


def column_sums(seconds: np.ndarray, groups: Iterable[Group], places: np.ndarray) -> np.ndarray:
    """Columns of a pass: a group of operators after the other, each as often as there are alike. [s], [J]

    ``places`` says where in its phase each operator of ``seconds`` (n_ops, k) lies, in rising order.
    """
    out = np.zeros(seconds.shape[1])
    for group in groups:
        part = np.zeros(seconds.shape[1])
        column_totals(seconds, np.searchsorted(places, group.rows), group.times, part)
        out += part
    return out


@kernel
def _over(a, b):
    """a / b, NaN where there is nothing to divide by."""
    return a / b if b != 0.0 else np.nan


@kernel
def _hop_s(messages, size, pieces, start_s, rate, busy):
    """Time a message adds to a request: what comes in pieces hides behind the devices' work, but for the first. [s]"""
    whole = start_s + size / rate
    first = start_s + size / pieces / rate
    return messages * (first + max(0.0, whole - first - busy))


@kernel
def _unit_cost(price, power, made, years, pue, kwh):
    """Cost of a unit of work: the price spread over what is made, and energy. [USD]"""
    return price / (years * _YEAR_S * made) + power * pue * kwh / J_PER_KWH / made


@kernel
def _zero(row, n):
    for p in range(n):
        row[p] = 0.0


@kernel
def _add(row, more, n):
    for p in range(n):
        row[p] += more[p]


@kernel
def _weigh(total, other, passes, stage, pass_s, n):
    """A run's seconds of one resource: into its stage, all passes; into the time of its pass, one."""
    for p in range(n):
        one = total[p] + other[p]
        stage[p] += one * passes[p]
        pass_s[p] += one


@kernel
def _spend(total, other, passes, ways, joules, n):
    """A run's joules, all passes on all devices that share it."""
    for p in range(n):
        joules[p] += (total[p] + other[p]) * passes[p] * ways


@kernel
def _decode(pass_s, passes, each, tpot, decode_s, n):
    """What a unit of output takes of so many passes ``each``, NaN where no pass makes one."""
    for p in range(n):
        none, own = passes[p] <= 0.0, each * pass_s[p]
        tpot[p] = tpot[p] if none else (own if np.isnan(tpot[p]) else tpot[p] + own)
        decode_s[p] += 0.0 if none else pass_s[p] * passes[p]


@kernel
def overlapped(rows, stage_t, hop0, beside, s, n, out):
    """Part of its time that a request is charged of stage ``s``, where stages before or behind it go on beside it.

    All of them together take what the slowest does, and one piece of each other one.
    """
    first, end = s, s + 1
    while beside[first] != 0:
        first -= 1
    while end < beside.shape[0] and beside[end] != 0:
        end += 1
    for p in range(n):
        whole, most, piece = 0.0, 0.0, 0.0
        for at in range(first, end):
            whole += rows[stage_t + at, p]
            most = max(most, rows[stage_t + at, p])
            if beside[at] > 0:
                piece = max(piece, 1.0 / rows[hop0 + HOPS * (beside[at] - 1) + PIECES, p])
        out[p] = (most + (whole - most) * piece) / whole if end - first > 1 and whole > 0.0 else 1.0


@kernel
def _add_part(row, more, part, n):
    for p in range(n):
        row[p] += more[p] * part[p]


@kernel
def _hop(messages, size, pieces, start_s, rate, busy, out, n):
    for p in range(n):
        out[p] = _hop_s(messages[p], size[p], pieces[p], start_s[p], rate[p], busy[p])


@kernel
def _load(wire, messages, size, rate, setup_s, alike, n):
    """How long a hop occupies its wire: setting up each message and its bytes, not its way; alike wires share it."""
    for p in range(n):
        wire[p] += messages[p] * (setup_s[p] + size[p] / rate[p]) / alike


@kernel
def _waited(hop_s, hidden, alike, n):
    """What is waited for: nothing of a hidden hop, a part where so many wires carry its messages at once."""
    for p in range(n):
        hop_s[p] = 0.0 if hidden[p] > 0.0 else hop_s[p] / alike


@kernel
def _slower(pace, stage_s, copies, turns, n):
    for p in range(n):
        own = stage_s[p] / copies
        pace[p] = pace[p] + own if turns else max(pace[p], own)


@kernel
def _busier(pace, wire_s, streams, n):
    """Every stream's requests cross the wires: a request of one stream may start only when all others' have passed."""
    for p in range(n):
        pace[p] = max(pace[p], wire_s[p] * streams[p])


@kernel
def _repeat(latency, interval, joules, breakdown, batches, n):
    """A request of several batches: they start an interval apart, and what is waited for goes by the first's shares."""
    for p in range(n):
        if batches[p] > 1.0:
            whole = latency[p] + (batches[p] - 1.0) * interval[p]
            for r in range(N):
                breakdown[r, p] *= whole / latency[p]
            latency[p] = whole
            interval[p] *= batches[p]
            joules[p] *= batches[p]


@kernel
def _rates(interval, units, units_request, streams, latency, decode_s, replicas, causal, rate, ttft, per_unit, n):
    for p in range(n):
        rate[p] = units_request[p] * replicas * streams[p] / interval[p]
        ttft[p] = latency[p] - decode_s[p] if causal else np.nan
        per_unit[p] = latency[p] / units[p] if causal else latency[p]


@kernel
def time_figures(rows, n, shape, where, stage_of, decode, copies, wire_of, alike, shares, ways, beside):
    """Times and rate of ``n`` points: fills the figures that need no money. Arguments: see `Layout.facts`.

    A stage takes its passes and what it pays once a request; stages and hops follow each other, but a hidden hop only
    loads its wire. When pipelined, the
    slowest stage or wire sets the interval between requests, else the latency does. Stages that take turns on the same
    devices count together. Of stages that go on beside each other a request waits for the slowest, and for one piece of
    each other one where they hand on pieces; each is charged the same part of its time.
    """
    runs, stages, hops = shape[0], shape[1], shape[2]
    others, passes, fixed, hop0, glob, scratch, metrics = (
        where[0],
        where[1],
        where[2],
        where[3],
        where[4],
        where[5],
        where[6],
    )
    pipelined, causal, replicas = where[7] != 0, where[8] != 0, float(where[9])
    busy, decode_s, pass_s = rows[scratch], rows[scratch + 1], rows[scratch + 2]
    spent = scratch + 3  # of each stage by resource, then whole stages, hops, wires
    stage_t = spent + N * stages
    hop_t = stage_t + stages
    wire_t = hop_t + hops
    latency, interval, tpot = rows[metrics + LATENCY], rows[metrics + INTERVAL], rows[metrics + TPOT]
    for row in range(scratch - 1, metrics + COLUMNS):
        _zero(rows[row], n)
    for p in range(n):
        tpot[p] = np.nan
    for i in range(runs):
        s = stage_of[i]
        _zero(pass_s, n)
        for r in range(N):
            _weigh(rows[M * i + r], rows[others + M * i + r], rows[passes + i], rows[spent + N * s + r], pass_s, n)
        _spend(rows[M * i + N], rows[others + M * i + N], rows[passes + i], float(ways[i]), rows[scratch - 1], n)
        if decode[i] != 0.0:
            _decode(pass_s, rows[passes + i], decode[i], tpot, decode_s, n)
    for s in range(stages):
        for r in range(N):
            _add(rows[spent + N * s + r], rows[fixed + N * s + r], n)
            _add(rows[stage_t + s], rows[spent + N * s + r], n)
        _add(busy, rows[stage_t + s], n)
    for s in range(stages):
        overlapped(rows, stage_t, hop0, beside, s, n, pass_s)
        for r in range(N):
            _add_part(rows[metrics + BREAKDOWN + r], rows[spent + N * s + r], pass_s, n)
    for h in range(hops):
        a = hop0 + HOPS * h
        _hop(rows[a], rows[a + 1], rows[a + 2], rows[a + 3], rows[a + 4], busy, rows[hop_t + h], n)
        _load(rows[wire_t + wire_of[h]], rows[a], rows[a + 1], rows[a + 4], rows[a + 6], float(alike[h]), n)
        _waited(rows[hop_t + h], rows[a + 5], float(alike[h]) if shares[h] != 0 else 1.0, n)
        _add(rows[metrics + BREAKDOWN + LINKS_ROW], rows[hop_t + h], n)
    for r in range(N):
        _add(latency, rows[metrics + BREAKDOWN + r], n)
    if pipelined:
        for s in range(stages):
            if beside[s] == 0:
                _slower(interval, rows[stage_t + s], float(copies[s]), where[10] != 0, n)
        for s in range(stages):
            if beside[s] != 0:
                _slower(interval, rows[stage_t + s], float(copies[s]), False, n)
        for h in range(hops):
            _busier(interval, rows[wire_t + h], rows[glob + STREAMS], n)
    else:
        _add(interval, latency, n)
    breakdown = rows[metrics + BREAKDOWN : metrics + BREAKDOWN + N]
    _repeat(latency, interval, rows[scratch - 1], breakdown, rows[glob + BATCHES], n)
    _rates(
        interval,
        rows[glob + UNITS],
        rows[glob + UNITS_REQUEST],
        rows[glob + STREAMS],
        latency,
        decode_s,
        replicas,
        causal,
        rows[metrics + RATE],
        rows[metrics + TTFT],
        rows[metrics + PER_UNIT],
        n,
    )


@kernel
def _drawn(limit, idle, joules, interval, streams, replicas, out, n):
    """What is drawn anyway, and the joules of requests at their rate; no more than the limits of the boards. [W]"""
    for p in range(n):
        watts = idle[p]
        if joules[p] > 0.0:
            watts += joules[p] * replicas * streams[p] / interval[p]
        out[p] = limit[p] if watts > limit[p] else watts


@kernel
def _money(rate, power, price, energy, per_watt, per_usd, n):
    for p in range(n):
        energy[p] = _over(power[p], rate[p])
        per_watt[p] = _over(rate[p], power[p])
        per_usd[p] = _over(rate[p], price[p])


@kernel
def _costs(rate, power, price, years, utilisation, pue, kwh, per_million, n):
    for p in range(n):
        made = rate[p] * utilisation[p]
        per_million[p] = _unit_cost(price[p], power[p], made, years[p], pue[p], kwh[p]) * 1e6


@kernel
def money_figures(rows, n, where):
    """Figures that need power and price, of ``n`` points, from their rates; NaN where one is not published."""
    glob, metrics = where[4], where[6]
    rate, power, price = rows[metrics + RATE], rows[metrics + POWER_W], rows[glob + PRICE]
    joules, streams, replicas = rows[where[5] - 1], rows[glob + STREAMS], float(where[9])
    _drawn(rows[glob + POWER], rows[glob + IDLE], joules, rows[metrics + INTERVAL], streams, replicas, power, n)
    _zero(rows[metrics + CAPEX], n)
    _add(rows[metrics + CAPEX], price, n)
    _money(rate, power, price, rows[metrics + ENERGY], rows[metrics + PER_WATT], rows[metrics + PER_USD], n)
    _costs(
        rate,
        power,
        price,
        rows[glob + YEARS],
        rows[glob + UTILISATION],
        rows[glob + PUE],
        rows[glob + KWH],
        rows[metrics + PER_MILLION],
        n,
    )
