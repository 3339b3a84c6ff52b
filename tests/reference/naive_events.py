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


def simpy_continuous(arrive, inputs, outputs, replicas, max_batch, cache, places, grid, prefill, step):
    """Instants of the first and last token of each request, nan if dropped."""
    env = simpy.Environment()
    first, done = np.full((2, len(arrive)), np.nan)
    queue = []
    asleep = {}

    def door():
        for i, t in enumerate(arrive):
            yield env.timeout(max(0.0, t - env.now))
            if cache is not None and inputs[i] + outputs[i] > cache:
                continue
            if places is not None and not asleep and len(queue) >= places:
                continue
            queue.append(i)
            if asleep:
                asleep.pop(min(asleep)).succeed()

    def replica(r):
        running = []  # [request, tokens so far]
        while True:
            if not running and not queue:
                asleep[r] = env.event()
                yield asleep[r]
            duration = 0.0
            if running:
                context = np.mean([inputs[i] + made for i, made in running])
                duration += np.interp(context, grid, step[len(running) - 1])
            joined = []
            while queue and len(running) < max_batch:
                i = queue[0]
                if cache is not None and sum(inputs[j] + outputs[j] for j in [i, *(j for j, _ in running)]) > cache:
                    break
                joined.append(queue.pop(0))
                running.append([i, 0])
                duration += np.interp(inputs[i], grid, prefill)
            yield env.timeout(duration)
            for i in joined:
                first[i] = env.now
            for sequence in running:
                sequence[1] += 1
            for i, made in running:
                if made == outputs[i]:
                    done[i] = env.now
            running = [sequence for sequence in running if sequence[1] < outputs[sequence[0]]]

    for r in range(replicas):
        env.process(replica(r))
    env.process(door())
    env.run()
    return first, done
