"""Arithmetic that turns the parts of a plan into its figures: compiled once, for one point and for a million.

`evaluate` calls it on arrays with one column, a sweep on blocks of `WIDTH` columns; every column goes through the same
operations in the same order, so both find the same bits. Rows are laid out by `Layout`. Estimates, as their parts are.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.cost.layout import (
    BATCHES,
    BREAKDOWN,
    BYTES,
    CAP,
    CAPEX,
    CLOCKED,
    COLUMNS,
    COMMANDS,
    ENERGY,
    FLOOR,
    HIDDEN,
    HOPS,
    HOST_CORES,
    HOST_IDLE,
    HOST_MAX,
    HOST_ROW,
    IDLE,
    INTERVAL,
    KWH,
    LATENCY,
    LINKS_ROW,
    LOWEST,
    MESSAGES,
    PARSING_CORES,
    PER_MILLION,
    PER_UNIT,
    PER_USD,
    PER_WATT,
    PIECES,
    POWER,
    POWER_W,
    PRICE,
    PUE,
    RATE,
    REACH,
    SETUP,
    SLOPE,
    SPEED,
    START,
    STREAMS,
    TPOT,
    TTFT,
    UNITS,
    UNITS_REQUEST,
    UTILISATION,
    YEARS,
    M,
    N,
)
from engine.devices.common.counts import Group
from engine.kernels.jit import inlined, kernel

_HALVINGS = 40  # of the clock's range
_YEAR_S = 365.25 * 86400.0
J_PER_KWH = 3.6e6


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
def _zero(row, n):
    for p in range(n):
        row[p] = 0.0


@kernel
def _add(row, more, n):
    for p in range(n):
        row[p] += more[p]


@kernel
def _take(row, less, n):
    for p in range(n):
        row[p] -= less[p]


@kernel
def _weigh(total, other, clock, clocked, watts, passes, ways, stage, pass_s, joules, n):
    """A run's seconds of one resource, at its clock: into its stage, all passes; into the time of its pass, one.

    What all devices that share it draw beside their floor meanwhile goes to ``joules``.
    """
    for p in range(n):
        one = total[p] + other[p]
        if clocked:
            one /= clock[p]
        stage[p] += one * passes[p]
        pass_s[p] += one
        joules[p] += one * watts[p] * passes[p] * ways


@kernel
def _spend(total, other, each, passes, ways, governed, rows, glob, clock, joules, device_j, n):
    """A run's joules, all passes on all devices that share it; with the square of the voltage where one is governed."""
    for p in range(n):
        spent = (total[p] + other[p] + each[p]) * passes[p] * ways
        if governed:
            spent *= voltage(rows[glob + SLOPE, p], rows[glob + REACH, p], rows[glob + LOWEST, p], clock[p]) ** 2
            device_j[p] += spent
        joules[p] += spent


@kernel
def voltage(slope, reach, lowest, clock):
    """Voltage at a share of the clock that a device may reach, over that at its listed clock: a straight line. [-]

    It goes no lower than at the lowest clock: what is taken beyond that is gaps between pulses.
    """
    return 1.0 - slope * (1.0 - reach * max(clock, lowest))


@kernel
def _on_host(rows, stage_t, spent, fixed, hops, hop0, glob, host, replicas, interval, host_s, n):
    """Core-seconds of the host in a request: what stages leave to it, commands for transfers, and stages on it.

    Requests finish no faster than all cores do what is left to them; stages on the host have a pace of their own.
    Several cores parse a request (row `fixed`), one core does anything else that a stage leaves to the host.
    """
    for p in range(n):
        cores, streams = rows[glob + HOST_CORES, p], rows[glob + STREAMS, p]
        for s in range(host.shape[0]):
            if host[s] == 0:
                more = rows[glob + PARSING_CORES, p] - 1.0
                host_s[p] += rows[spent + N * s + HOST_ROW, p] + more * rows[fixed + N * s + HOST_ROW, p]
        for h in range(hops):
            host_s[p] += rows[hop0 + HOPS * h + MESSAGES, p] * rows[hop0 + HOPS * h + COMMANDS, p]
        if cores > 0.0:
            interval[p] = max(interval[p], host_s[p] * streams * replicas / cores)
        for s in range(host.shape[0]):
            if host[s] != 0:
                host_s[p] += rows[stage_t + s, p] * (1.0 if host[s] == 1 else cores / streams)


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
def _hop(rows, a, busy, hop_s, wire, alike, shared, n):
    """Time that a hop adds to a request, and how long it occupies its wire.

    What comes in pieces hides behind the devices' work, but for the first. Nothing is waited for of a hidden hop, and a
    part where so many wires carry its messages at once. A wire is occupied while messages are set up and for their
    bytes, not for their way.
    """
    for p in range(n):
        size, start, rate = rows[a + BYTES, p], rows[a + START, p], rows[a + SPEED, p]
        whole, first = start + size / rate, start + size / rows[a + PIECES, p] / rate
        waited = rows[a + MESSAGES, p] * (first + max(0.0, whole - first - busy[p]))
        wire[p] += rows[a + MESSAGES, p] * (rows[a + SETUP, p] + size / rate) / alike
        hop_s[p] = 0.0 if rows[a + HIDDEN, p] > 0.0 else waited / shared


@kernel
def _slower(pace, together, stage_s, parsed_s, copies, turns, n):
    """A stage's pace, with that of those before it (``together``) where they take turns on the same devices.

    What a host parses for a stage goes on beside the device's work on the request before.
    """
    for p in range(n):
        own = (stage_s[p] - parsed_s[p]) / copies
        together[p] = together[p] + own if turns else own
        pace[p] = max(pace[p], together[p])


@kernel
def _busier(pace, wire_s, streams, copies, n):
    """Every stream's requests cross the wires, or are parsed by the same cores: one may start when all others' have."""
    for p in range(n):
        pace[p] = max(pace[p], wire_s[p] * streams[p] / copies)


@kernel
def _parsing(rows, pace, where, copies, n):
    """What hosts parse for devices takes no time of the pace, unless their cores are slower than the devices."""
    for s in range(copies.shape[0]):
        parsed = rows[where.fixed + N * s + HOST_ROW]
        if not where.pipelined:
            _take(pace, parsed, n)
        _busier(pace, parsed, rows[where.globals + STREAMS], float(copies[s]), n)


@kernel
def _repeat(latency, interval, drawn, breakdown, batches, n):
    """A request of several batches: they start an interval apart, and what is waited for goes by the first's shares."""
    for p in range(n):
        if batches[p] > 1.0:
            whole = latency[p] + (batches[p] - 1.0) * interval[p]
            for r in range(N):
                breakdown[r, p] *= whole / latency[p]
            latency[p] = whole
            interval[p] *= batches[p]
            for r in range(drawn.shape[0]):
                drawn[r, p] *= batches[p]


@kernel
def _rates(rows, where, decode_s, n):
    glob, metrics, causal = where.globals, where.metrics, where.causal
    for p in range(n):
        latency, answered = rows[metrics + LATENCY, p], rows[glob + UNITS_REQUEST, p]
        rows[metrics + RATE, p] = answered * where.replicas * rows[glob + STREAMS, p] / rows[metrics + INTERVAL, p]
        rows[metrics + TTFT, p] = latency - decode_s[p] if causal else np.nan
        rows[metrics + PER_UNIT, p] = latency / rows[glob + UNITS, p] if causal else latency


@inlined
def _times(rows, n, where, decode, of_runs, of_stages, of_hops):
    """Times and rate of ``n`` points at their clocks: fills the figures that need no money.

    A stage takes its passes and what it pays once a request; stages and hops follow each other, but a hidden hop only
    loads its wire. When pipelined, the
    slowest stage or wire sets the interval between requests, else the latency does. Stages that take turns on the same
    devices count together. Of stages that go on beside each other a request waits for the slowest, and for one piece of
    each other one where they hand on pieces; each is charged the same part of its time. What a host parses for a
    device only loads its cores, as the device works on the request before.
    """
    runs, stages, hops = of_runs.shape[1], of_stages.shape[1], of_hops.shape[1]
    copies, beside, governed = of_stages[0], of_stages[1], of_stages[2]
    wire_of, alike, shares = of_hops[0], of_hops[1], of_hops[2]
    others, passes, fixed, hop0 = where.others, where.passes, where.fixed, where.hops
    glob, scratch, metrics = where.globals, where.scratch, where.metrics
    busy, decode_s, pass_s = rows[scratch], rows[scratch + 1], rows[scratch + 2]
    spent = scratch + 3  # of each stage by resource, then whole stages, hops, wires
    stage_t = spent + N * stages
    hop_t = stage_t + stages
    wire_t = hop_t + hops
    latency, interval, tpot = rows[metrics + LATENCY], rows[metrics + INTERVAL], rows[metrics + TPOT]
    drawn = rows[scratch - 3 : scratch]
    clock, device_j, host_s, joules = rows[scratch - 4], drawn[0], drawn[1], drawn[2]
    for row in range(scratch - 3, metrics + COLUMNS):
        _zero(rows[row], n)
    for p in range(n):
        tpot[p] = np.nan
    for i in range(runs):
        s, ways = of_runs[0, i], float(of_runs[1, i])
        _zero(pass_s, n)
        watts = where.watts + M * i
        for r in range(N):
            a, b, w = M * i + r, others + M * i + r, watts + r
            clocked = governed[s] != 0 and (r == CLOCKED[0] or r == CLOCKED[1])
            into = rows[spent + N * s + r]
            _weigh(rows[a], rows[b], clock, clocked, rows[w], rows[passes + i], ways, into, pass_s, joules, n)
        a, b, each = rows[M * i + N], rows[others + M * i + N], rows[watts + N]
        _spend(a, b, each, rows[passes + i], ways, governed[s] != 0, rows, glob, clock, joules, device_j, n)
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
        wires = float(alike[h])
        _hop(rows, a, busy, rows[hop_t + h], rows[wire_t + wire_of[h]], wires, wires if shares[h] != 0 else 1.0, n)
        _add(rows[metrics + BREAKDOWN + LINKS_ROW], rows[hop_t + h], n)
    for r in range(N):
        _add(latency, rows[metrics + BREAKDOWN + r], n)
    if where.pipelined:
        _zero(pass_s, n)
        for late in range(2):
            for s in range(stages):
                if (beside[s] != 0) == (late == 1):
                    turns, parsed = late == 0 and of_stages[4, s] != 0, rows[fixed + N * s + HOST_ROW]
                    _slower(interval, pass_s, rows[stage_t + s], parsed, float(copies[s]), turns, n)
        for h in range(hops):
            _busier(interval, rows[wire_t + h], rows[glob + STREAMS], 1.0, n)
    else:
        _add(interval, latency, n)
    _parsing(rows, interval, where, copies, n)
    _on_host(rows, stage_t, spent, fixed, hops, hop0, glob, of_stages[3], where.replicas, interval, host_s, n)
    _repeat(latency, interval, drawn, rows[metrics + BREAKDOWN : metrics + BREAKDOWN + N], rows[glob + BATCHES], n)
    _rates(rows, where, decode_s, n)


@inlined
def _over_cap(rows, p, glob, metrics, device_j, replicas):
    """Whether governed devices draw more than they may, at their clock and rate."""
    requests = replicas * rows[glob + STREAMS, p] / rows[metrics + INTERVAL, p]
    return rows[glob + FLOOR, p] + device_j[p] * requests > rows[glob + CAP, p]


@kernel
def time_figures(rows, n, where, decode, of_runs, of_stages, of_hops):
    """Times and rate of ``n`` points: fills the figures that need no money. Arguments: see `Layout.facts`.

    Where devices would draw more than their cap without pause, a governor takes clock and voltage down until they do
    not: arithmetic and on-chip memory stretch, the rest keeps its time. An estimate, within 1.2% of what the families
    find at that clock; below a device's lowest clock it stands for gaps. The row ``clock`` says the share that is left.
    """
    glob, scratch, metrics, replicas = where.globals, where.scratch, where.metrics, where.replicas
    clock, device_j = rows[scratch - 4], rows[scratch - 3]
    low, high = rows[scratch - 6], rows[scratch - 5]
    for p in range(n):
        low[p] = high[p] = 1.0
    step, over = 0, True
    while over and step <= _HALVINGS + 1:
        for p in range(n):
            clock[p] = low[p] if step > _HALVINGS and low[p] > 0.0 else (low[p] + high[p]) / 2
        _times(rows, n, where, decode, of_runs, of_stages, of_hops)
        over = False
        for p in range(n):
            above = where.governed and _over_cap(rows, p, glob, metrics, device_j, replicas)
            if step == 0:
                low[p] = 0.0 if above else 1.0
            elif low[p] < high[p] and above:
                high[p] = clock[p]
            elif low[p] < high[p]:
                low[p] = clock[p]
            over = over or low[p] < high[p]
        step += 1


@kernel
def _watts(rows, p, where):
    """What is drawn anyway, the joules of requests at their rate, and the host's share; no more than all limits. [W]"""
    glob = where.globals
    requests = where.replicas * rows[glob + STREAMS, p] / rows[where.metrics + INTERVAL, p]
    watts, limit, joules = rows[glob + IDLE, p], rows[glob + POWER, p], rows[where.scratch - 1, p]
    if joules > 0.0:
        watts += joules * requests
    watts = limit if watts > limit else watts
    if rows[glob + HOST_CORES, p] > 0.0:
        idle, most = rows[glob + HOST_IDLE, p], rows[glob + HOST_MAX, p]
        watts += idle + (most - idle) * min(1.0, rows[where.scratch - 2, p] * requests / rows[glob + HOST_CORES, p])
    return watts


@kernel
def money_figures(rows, n, where):
    """Figures that need power and price, of ``n`` points, from their rates; NaN where one is not published.

    A unit of work costs the price spread over what is made in the years of use, and its energy.
    """
    glob, metrics = where.globals, where.metrics
    for p in range(n):
        rate, price, watts = rows[metrics + RATE, p], rows[glob + PRICE, p], _watts(rows, p, where)
        made, pue, kwh = rate * rows[glob + UTILISATION, p], rows[glob + PUE, p], rows[glob + KWH, p]
        rows[metrics + POWER_W, p] = watts
        rows[metrics + CAPEX, p] = price
        rows[metrics + ENERGY, p] = watts / rate if rate != 0.0 else np.nan
        rows[metrics + PER_WATT, p] = rate / watts if watts != 0.0 else np.nan
        rows[metrics + PER_USD, p] = rate / price if price != 0.0 else np.nan
        each = price / (rows[glob + YEARS, p] * _YEAR_S * made) + watts * pue * kwh / J_PER_KWH / made
        rows[metrics + PER_MILLION, p] = each * 1e6
