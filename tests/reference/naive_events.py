"""Slow twins of the queueing engines: processes in SimPy, one step per token, plain lists. Nothing shared with them."""

from dataclasses import dataclass, field

import numpy as np
import simpy

ROUNDING = 1e-12  # a timer's now + (due - now) may fall short of due by this [s]


@dataclass
class TwinStation:
    """As the engine's station: tables are nested lists [batch][row], buckets a list of queue numbers per row."""

    servers: int
    max_batch: int
    timeout: float
    places: int | None
    hop: float
    hold: list
    latency: list
    bucket: list
    waiting: list = field(default_factory=list)  # (request, since), all queues together, oldest first
    idle: int = 0


def simpy_chain(arrive, rows, scale, stations, return_hop):
    """Instants of the answers, nan if dropped."""
    env = simpy.Environment()
    done = np.full(len(arrive), np.nan)
    changed = [env.event() for _ in stations]

    def ring(s):
        old, changed[s] = changed[s], env.event()
        old.succeed()

    def enter(s, group):
        station = stations[s]
        for request in group:
            if station.hold[0][rows[request]] == 0.0:
                after = stations[s + 1].hop if s + 1 < len(stations) else return_hop
                env.process(travel(s + 1, [request], after))
                continue
            spare = station.idle if station.max_batch == 1 else 0
            if station.places is None or len(station.waiting) < station.places + spare:
                station.waiting.append((request, env.now))
        ring(s)

    def door():
        for i, t in enumerate(arrive):
            yield env.timeout(max(0.0, t - env.now))
            env.process(travel(0, [i], stations[0].hop))

    def travel(s, group, delay):
        yield env.timeout(delay)
        if s < len(stations):
            enter(s, group)
        else:
            for i in group:
                done[i] = env.now

    def ready(station):
        """The batch to launch now, or None and the instant of the next timer."""
        due = np.inf
        for request, since in station.waiting:  # oldest first: the first ready queue met is the right one
            queue = [w for w in station.waiting if station.bucket[rows[w[0]]] == station.bucket[rows[request]]]
            if queue[0][0] != request:
                continue
            if len(queue) >= station.max_batch or env.now >= since + station.timeout - ROUNDING:
                return [w[0] for w in queue[: station.max_batch]], None
            due = min(due, since + station.timeout)
        return None, due

    def server(s):
        station = stations[s]
        station.idle += 1
        while True:
            batch, due = ready(station)
            if batch is None:
                wake = [changed[s]]
                if due < np.inf:
                    wake.append(env.timeout(max(0.0, due - env.now)))
                yield simpy.AnyOf(env, wake)
                continue
            station.waiting = [w for w in station.waiting if w[0] not in batch]
            station.idle -= 1
            row = max(rows[i] for i in batch)
            factor = scale[s][batch[0]]
            hold = station.hold[len(batch) - 1][row] * factor
            after = station.latency[len(batch) - 1][row] * factor
            env.process(travel(s + 1, batch, after + (stations[s + 1].hop if s + 1 < len(stations) else return_hop)))
            yield env.timeout(hold)
            station.idle += 1

    for s, station in enumerate(stations):
        for _ in range(station.servers):
            env.process(server(s))
    env.process(door())
    env.run()
    return done
