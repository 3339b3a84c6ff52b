"""Arithmetic that turns the parts of a plan into its figures: compiled once, for one point and for a million.

`evaluate` calls it on arrays with one column, a sweep on blocks of `WIDTH` columns; every column goes through the same
operations in the same order, so both find the same bits. Rows are laid out by `Layout`. Estimates, as their parts are.
"""

from collections.abc import Iterable

import numpy as np

from engine.cost import layout
from engine.cost.layout import M, N
from engine.devices.common.contract import HOST, LINKS
from engine.devices.common.counts import Group
from engine.kernels.jit import called_by_both, inline, kernel

_HALVINGS = 40  # of the clock's range
YEAR_S = 365.25 * 86400.0
J_PER_KWH = 3.6e6


def column_sums(seconds: np.ndarray, groups: Iterable[Group], places: np.ndarray) -> np.ndarray:
    """Columns of a pass: a group of operators after the other, each as often as there are alike. [s], [J]

    ``places`` says where in its phase each operator of ``seconds`` (n_ops, k) lies, in rising order.
    """
    out = np.zeros(seconds.shape[1])
    for group in groups:
        rows = seconds[np.searchsorted(places, group.rows)]
        out += np.cumsum(group.times[:, None] * rows, axis=0)[-1]  # first to last, as compiled code adds
    return out


@kernel
def _add(row, addend, n):
    for p in range(n):
        row[p] += addend[p]


@kernel
def _weigh(run, r, clock, on_clock, passes, ways, into, n):
    """A run's seconds of one resource, at its clock: into its stage, all passes; into the time of its pass, one.

    What all devices that share it draw beside their floor meanwhile goes to ``joules`` and to those of its stage.
    """
    total, extra, watts = run[0][r], run[1][r], run[2][r]
    stage, pass_s, joules, stage_j = into
    for p in range(n):
        seconds = total[p] + extra[p]
        if on_clock:
            seconds /= clock[p]
        stage[p] += seconds * passes[p]
        pass_s[p] += seconds
        joules[p] += seconds * watts[p] * passes[p] * ways
        stage_j[p] += seconds * watts[p] * passes[p] * ways


@kernel
def _spend(run, passes, ways, governed, glob, clock, into, n):
    """A run's joules, all passes on all devices that share it; with the square of the voltage where one is governed."""
    (total, extra, pass_j), (joules, stage_j, device_j) = (run[0][N], run[1][N], run[2][N]), into
    for p in range(n):
        energy = (total[p] + extra[p] + pass_j[p]) * passes[p] * ways
        if governed:
            slope, reach, lowest = glob[layout.SLOPE, p], glob[layout.REACH, p], glob[layout.LOWEST, p]
            level = voltage(slope, reach, lowest, clock[p])
            energy *= level * level
            device_j[p] += energy
        joules[p] += energy
        stage_j[p] += energy


@kernel
def voltage(slope, reach, lowest, clock):
    """Voltage at a share of the clock that a device may reach, over that at its listed clock: a straight line. [-]

    It goes no lower than at the lowest clock: what is taken beyond that is gaps between pulses.
    """
    return 1.0 - slope * (1.0 - reach * max(clock, lowest))


@kernel
def _on_host(rows, where, glob, host, hops, interval, host_s, n):
    """Core-seconds of the host in a request: what stages leave to it, commands for transfers, and stages on it.

    Requests finish no faster than all cores do what is left to them; stages on the host have a pace of their own.
    Several cores parse a request (row `fixed`), one core does anything else that a stage leaves to the host.
    """
    resource_s, fixed = rows[where.resource_s + HOST :], rows[where.fixed + HOST :]
    for p in range(n):
        cores, streams = glob[layout.HOST_CORES, p], glob[layout.STREAMS, p]
        for s in range(host.shape[0]):
            if host[s] == 0:
                helpers = glob[layout.PARSING_CORES, p] - 1.0
                host_s[p] += resource_s[N * s, p] + helpers * fixed[N * s, p]
        for h in range(hops):
            hop = rows[where.hops + layout.HOPS * h :]
            host_s[p] += hop[layout.MESSAGES, p] * hop[layout.COMMANDS, p]
        if cores > 0.0:
            interval[p] = max(interval[p], host_s[p] * streams * where.replicas / cores)
        for s in range(host.shape[0]):
            if host[s] != 0:
                host_s[p] += rows[where.stage_s + s, p] * (1.0 if host[s] == 1 else cores / streams)


@kernel
def _decode(pass_s, passes, per_unit, tpot, decode_s, n):
    """What a unit of output takes of so many passes ``per_unit``, NaN where no pass makes one."""
    for p in range(n):
        none, unit_s = passes[p] <= 0.0, per_unit * pass_s[p]
        tpot[p] = tpot[p] if none else (unit_s if np.isnan(tpot[p]) else tpot[p] + unit_s)
        decode_s[p] += 0.0 if none else pass_s[p] * passes[p]


@kernel
def _overlap(rows, where, beside, s, n):
    """Part of its time that a request is charged of stage ``s``, where stages before or behind it go on beside it.

    All of them together take what the slowest does, and one piece of each other one.
    """
    first, end, out = s, s + 1, rows[where.charge + s]
    while beside[first] != 0:
        first -= 1
    while end < beside.shape[0] and beside[end] != 0:
        end += 1
    for p in range(n):
        whole, longest, piece = 0.0, 0.0, 0.0
        for at in range(first, end):
            whole += rows[where.stage_s + at, p]
            longest = max(longest, rows[where.stage_s + at, p])
            if beside[at] > 0:
                piece = max(piece, 1.0 / rows[where.hops + layout.HOPS * (beside[at] - 1) + layout.PIECES, p])
        out[p] = (longest + (whole - longest) * piece) / whole if end - first > 1 and whole > 0.0 else 1.0


@kernel
def _add_part(row, addend, part, n):
    for p in range(n):
        row[p] += addend[p] * part[p]


@kernel
def _hop(hop, busy, hop_s, wire, alike, carriers, n):
    """Time that a hop adds to a request, and how long it occupies its wire.

    What comes in pieces hides behind the devices' work, but for the first. Nothing is waited for of a hidden hop, and a
    part where so many wires carry its messages at once. A wire is occupied while messages are set up and for their
    bytes, not for their way.
    """
    for p in range(n):
        size, start, rate = hop[layout.BYTES, p], hop[layout.START, p], hop[layout.SPEED, p]
        whole, first = start + size / rate, start + size / hop[layout.PIECES, p] / rate
        wait_s = hop[layout.MESSAGES, p] * (first + max(0.0, whole - first - busy[p]))
        wire[p] += hop[layout.MESSAGES, p] * (hop[layout.SETUP, p] + size / rate) / alike
        hop_s[p] = 0.0 if hop[layout.HIDDEN, p] > 0.0 else wait_s / carriers


@kernel
def _slower(pace, together, stage_s, parsed_s, copies, turns, n):
    """A stage's pace, with that of those before it (``together``) where they take turns on the same devices.

    What a host parses for a stage goes on beside the device's work on the request before.
    """
    for p in range(n):
        alone_s = (stage_s[p] - parsed_s[p]) / copies
        together[p] = together[p] + alone_s if turns else alone_s
        pace[p] = max(pace[p], together[p])


@kernel
def _busier(pace, wire_s, streams, copies, n):
    """Every stream's requests cross the wires, or are parsed by the same cores: one may start when all others' have."""
    for p in range(n):
        pace[p] = max(pace[p], wire_s[p] * streams[p] / copies)


@kernel
def _parsing(rows, pace, where, streams, copies, n):
    """What hosts parse for devices takes no time of the pace, unless their cores are slower than the devices."""
    for s in range(copies.shape[0]):
        parse_s = rows[where.fixed + N * s + HOST]
        if not where.pipelined:
            for p in range(n):
                pace[p] -= parse_s[p]
        _busier(pace, parse_s, streams, float(copies[s]), n)


@kernel
def _repeat(latency, interval, draws, breakdown, batches, n):
    """A request of several batches: they start an interval apart, and what is waited for goes by the first's shares."""
    for p in range(n):
        if batches[p] > 1.0:
            whole = latency[p] + (batches[p] - 1.0) * interval[p]
            for r in range(N):
                breakdown[r, p] *= whole / latency[p]
            latency[p] = whole
            interval[p] *= batches[p]
            for r in range(draws.shape[0]):
                draws[r, p] *= batches[p]


@kernel
def _rates(out, glob, where, decode_s, n):
    for p in range(n):
        latency, units = out[layout.LATENCY, p], glob[layout.UNITS_REQUEST, p]
        out[layout.RATE, p] = units * where.replicas * glob[layout.STREAMS, p] / out[layout.INTERVAL, p]
        out[layout.TTFT, p] = latency - decode_s[p] if where.causal else np.nan
        out[layout.PER_UNIT, p] = latency / glob[layout.UNITS, p] if where.causal else latency


@inline
def _times(rows, n, where, decode, of_runs, of_stages, of_hops):
    """Times and rate of ``n`` points at their clocks: fills the figures that need no money.

    A stage takes its passes and what it pays once a request; stages and hops follow each other, but a hidden hop only
    loads its wire. When pipelined, the slowest stage or wire sets the interval between requests, else the latency does.
    Stages that take turns on the same devices count together. Of stages that go on beside each other a request waits
    for the slowest, and for one piece of each other one where they hand on pieces; each is charged the same part of its
    time. What a host parses for a device only loads its cores, as the device works on the request before.
    """
    runs, stages, hops = of_runs.shape[1], of_stages.shape[1], of_hops.shape[1]
    copies, beside, governed = of_stages[0], of_stages[1], of_stages[2]
    wire_of, alike, shares = of_hops[0], of_hops[1], of_hops[2]
    glob, out = rows[where.globals : where.draws], rows[where.metrics : where.rows]
    latency, interval, tpot = out[layout.LATENCY], out[layout.INTERVAL], out[layout.TPOT]
    parts = out[layout.BREAKDOWN :]
    draws = rows[where.draws + layout.DEVICE_J : where.scratch]
    clock, device_j, host_s, joules = rows[where.draws + layout.CLOCK], draws[0], draws[1], draws[2]
    rows[where.draws + layout.DEVICE_J : where.rows, :n] = 0.0
    busy, decode_s, pass_s = rows[where.scratch], rows[where.scratch + 1], rows[where.scratch + 2]
    resource_s, stage_s = rows[where.resource_s : where.stage_s], rows[where.stage_s : where.stage_j]
    stage_j = rows[where.stage_j : where.charge]
    hop_s, wire_s = rows[where.hop_s : where.wire_s], rows[where.wire_s : where.metrics]
    tpot[:n] = np.nan
    for i in range(runs):
        s, ways, passes = of_runs[0, i], float(of_runs[1, i]), rows[where.passes + i]
        run = rows[M * i :], rows[where.extra + M * i :], rows[where.watts + M * i :]
        pass_s[:n] = 0.0
        for r in range(N):
            on_clock = governed[s] != 0 and (r == layout.CLOCKED[0] or r == layout.CLOCKED[1])
            into = resource_s[N * s + r], pass_s, joules, stage_j[s]
            _weigh(run, r, clock, on_clock, passes, ways, into, n)
        if of_stages[5, s] != 0:
            _spend(run, passes, ways, governed[s] != 0, glob, clock, (joules, stage_j[s], device_j), n)
        if decode[i] != 0.0:
            _decode(pass_s, passes, decode[i], tpot, decode_s, n)
    for s in range(stages):
        for r in range(N):
            _add(resource_s[N * s + r], rows[where.fixed + N * s + r], n)
            _add(stage_s[s], resource_s[N * s + r], n)
        _add(busy, stage_s[s], n)
    for s in range(stages):
        _overlap(rows, where, beside, s, n)
        for r in range(N):
            _add_part(parts[r], resource_s[N * s + r], rows[where.charge + s], n)
    for h in range(hops):
        hop, wires = rows[where.hops + layout.HOPS * h :], float(alike[h])
        _hop(hop, busy, hop_s[h], wire_s[wire_of[h]], wires, wires if shares[h] != 0 else 1.0, n)
        _add(parts[LINKS], hop_s[h], n)
    for r in range(N):
        _add(latency, parts[r], n)
    if where.pipelined:
        pass_s[:n] = 0.0
        for late in range(2):
            for s in range(stages):
                if (beside[s] != 0) == (late == 1):
                    turns, parse_s = late == 0 and of_stages[4, s] != 0, rows[where.fixed + N * s + HOST]
                    _slower(interval, pass_s, stage_s[s], parse_s, float(copies[s]), turns, n)
        for h in range(hops):
            _busier(interval, wire_s[h], glob[layout.STREAMS], 1.0, n)
    else:
        _add(interval, latency, n)
    _parsing(rows, interval, where, glob[layout.STREAMS], copies, n)
    _on_host(rows, where, glob, of_stages[3], hops, interval, host_s, n)
    _repeat(latency, interval, draws, parts, glob[layout.BATCHES], n)
    _rates(out, glob, where, decode_s, n)


@called_by_both
def time_figures(rows, n, where, decode, of_runs, of_stages, of_hops):
    """Times and rate of ``n`` points: fills the figures that need no money. Arguments: see `Layout.facts`.

    Where devices would draw more than their cap without pause, a governor takes clock and voltage down until they do
    not: arithmetic and on-chip memory stretch, the rest keeps its time. An estimate, within 1.2% of what the families
    find at that clock; below a device's lowest clock it stands for gaps. The row ``clock`` says the share that is left.
    """
    glob, out, draws = rows[where.globals : where.draws], rows[where.metrics : where.rows], rows[where.draws :]
    low, high, clock = draws[layout.CLOCK_LOW], draws[layout.CLOCK_HIGH], draws[layout.CLOCK]
    for p in range(n):
        low[p] = high[p] = 1.0
    step, over = 0, True
    while over and step <= _HALVINGS + 1:
        for p in range(n):
            clock[p] = low[p] if step > _HALVINGS and low[p] > 0.0 else (low[p] + high[p]) / 2
        _times(rows, n, where, decode, of_runs, of_stages, of_hops)
        over = False
        for p in range(n):
            requests = where.replicas * glob[layout.STREAMS, p] / out[layout.INTERVAL, p]
            watts = glob[layout.FLOOR, p] + draws[layout.DEVICE_J, p] * requests
            above = where.governed and watts > glob[layout.CAP, p]
            if step == 0:
                low[p] = 0.0 if above else 1.0
            elif low[p] < high[p] and above:
                high[p] = clock[p]
            elif low[p] < high[p]:
                low[p] = clock[p]
            over = over or low[p] < high[p]
        step += 1


@kernel
def _watts(glob, draws, rate, p):
    """What is drawn anyway, the joules of requests at their rate, and the host's share; no more than all limits. [W]"""
    watts, limit, joules = glob[layout.IDLE, p], glob[layout.POWER, p], draws[layout.JOULES, p]
    cores = glob[layout.HOST_CORES, p]
    if joules > 0.0:
        watts += joules * rate
    watts = limit if watts > limit else watts
    if cores > 0.0:
        idle, peak = glob[layout.HOST_IDLE, p], glob[layout.HOST_MAX, p]
        watts += idle + (peak - idle) * min(1.0, draws[layout.HOST_S, p] * rate / cores)
    return watts


@called_by_both
def money_figures(rows, n, where):
    """Figures that need power and price, of ``n`` points, from their rates; NaN where one is not published.

    A unit of work costs the price spread over what is made in the years of use, and the energy of that time: devices
    work for the share of it that is their utilisation, and wait for the rest.
    """
    glob, out, draws = rows[where.globals : where.draws], rows[where.metrics : where.rows], rows[where.draws :]
    for p in range(n):
        requests = where.replicas * glob[layout.STREAMS, p] / out[layout.INTERVAL, p]
        rate, price, watts = out[layout.RATE, p], glob[layout.PRICE, p], _watts(glob, draws, requests, p)
        duty, pue, kwh = glob[layout.UTILISATION, p], glob[layout.PUE, p], glob[layout.KWH, p]
        output, mean_w = rate * duty, duty * watts + (1.0 - duty) * min(glob[layout.WAITING, p], watts)
        out[layout.POWER_W, p] = watts
        out[layout.CAPEX, p] = price
        out[layout.ENERGY, p] = watts / rate if rate != 0.0 else np.nan
        out[layout.PER_WATT, p] = rate / watts if watts != 0.0 else np.nan
        out[layout.PER_USD, p] = rate / price if price != 0.0 else np.nan
        unit_usd = price / (glob[layout.YEARS, p] * YEAR_S * output) + mean_w * pue * kwh / J_PER_KWH / output
        out[layout.PER_MILLION, p] = unit_usd * 1e6
