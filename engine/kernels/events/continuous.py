"""Event engine for continuous batching: requests join and leave a running batch between iterations.

Requests join and leave between iterations of a replica (Yu et al., Orca, OSDI 2022). An iteration runs the prefill of
those just admitted, which gives their first token, and one decode step of those admitted earlier, which gives their
next. Admission is first come, first served from one queue, at iteration boundaries, while the batch has a seat and the
replica's cache has room for the whole of the request (input + output tokens, reserved at once, hence never evicted).
Iterations between which nobody can join or leave are summed in one go, so work goes by requests, not by tokens.
An arrival wakes an idle replica at once, so nobody waits beside one. Ties: arrivals, then ends of iterations.
"""

import math

import numpy as np

from engine.kernels.jit import kernel


@kernel
def _cell(grid, x):
    """Lower index and weight of the upper neighbour for linear interpolation on an increasing grid. [-]"""
    last = grid.shape[0] - 1
    if x <= grid[0] or last == 0:
        return 0, 0.0
    if x >= grid[last]:
        return last - 1, 1.0
    lo, hi = 0, last
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if grid[mid] <= x:
            lo = mid
        else:
            hi = mid
    return lo, (x - grid[lo]) / (grid[hi] - grid[lo])


@kernel
def _stretch(grid, step, used, running, context, count, until):
    """Decode steps of a batch that nobody joins or leaves: how many run, and how long [s].

    ``count`` steps at most, and no more than pass ``until`` [s]; their mean context [tokens] grows by one a step, and
    durations are linear in it within a cell of ``grid``, so each cell is a sum in closed form. ``used`` receives how
    often each entry of the table was used.
    """
    mean = context / running
    upper = 1 if grid.shape[0] > 1 else 0
    ran = 0
    passed = 0.0
    while ran < count and passed < until:
        at = mean + ran
        k, weight = _cell(grid, at)
        low, high = step[running - 1, k], step[running - 1, k + upper]
        many = count - ran
        slope = 0.0
        if upper and grid[0] < at < grid[-1]:
            slope = 1.0 / (grid[k + 1] - grid[k])
            many = min(many, max(1, math.ceil(grid[k + 1] - at)))
        elif upper and at <= grid[0]:
            many = min(many, max(1, math.ceil(grid[0] - at)))
        first = low * (1.0 - weight) + high * weight
        each = 0.5 * (high - low) * slope
        if passed + many * (first + each * (many - 1)) >= until:
            least, most = 0, many  # the fewest steps that reach it
            while most - least > 1:
                middle = (least + most) // 2
                if passed + middle * (first + each * (middle - 1)) >= until:
                    most = middle
                else:
                    least = middle
            many = most
        passed += many * (first + each * (many - 1))
        share = many * weight + 0.5 * slope * many * (many - 1)
        used[running - 1, k] += many - share
        used[running - 1, k + upper] += share
        ran += many
    return ran, passed


@kernel
def continuous(
    arrive,
    inputs,
    outputs,
    replicas,
    max_batch,
    cache,
    places,
    grid,
    prefill,
    step,
    prefills,
    steps,
    first,
    finish,
):
    """Run to the last token; returns (events processed, busy seconds summed over replicas).

    Parameters
    ----------
    arrive, inputs, outputs : (n,)
        Arrival instants, increasing [s]; tokens in and out of each request [tokens].
    cache, places
        Tokens a replica's cache holds, waiting places of the queue; negative: unlimited.
    grid : (points,)
        Context lengths of the tables; linear between them, constant outside. [tokens]
    prefill : (points,)
        Seconds to take in a prompt of that length.
    step : (max_batch, points)
        Seconds of one decode step of b+1 sequences at that mean context.
    prefills, steps
        Receive how often each table entry was used (interpolation weights), in the tables' shapes.
    first, finish : (n,)
        Receive the instants of the first and the last token, nan if dropped. [s]
    """
    n = arrive.shape[0]
    queue = np.empty(n, np.int64)
    front = 0
    back = 0
    upcoming = 0
    ends = np.full(replicas, math.inf)  # end of the running iteration; inf when idle
    turn = np.zeros(replicas, np.int64)  # iterations run
    going = np.ones(replicas, np.int64)  # of them, those that end next
    active = np.zeros(replicas, np.int64)
    context = np.zeros(replicas, np.int64)  # tokens in the caches of the active sequences
    reserved = np.zeros(replicas, np.int64)
    leave = np.zeros((replicas, max_batch), np.int64)  # heap by turn of departure, and who departs
    who = np.zeros((replicas, max_batch), np.int64)
    idle = replicas
    events = 0
    busy = 0.0
    upper = 1 if grid.shape[0] > 1 else 0
    for i in range(n):
        finish[i] = math.nan
        first[i] = math.nan
    while True:
        r = 0
        for candidate in range(1, replicas):
            if ends[candidate] < ends[r]:
                r = candidate
        now = ends[r]
        if upcoming < n and arrive[upcoming] <= now:
            now = arrive[upcoming]
            i = upcoming
            upcoming += 1
            events += 1
            fits = cache < 0 or inputs[i] + outputs[i] <= cache
            if not fits or (places >= 0 and idle == 0 and back - front >= places):
                continue
            queue[back] = i
            back += 1
            if idle == 0:
                continue
            r = 0
            while ends[r] < math.inf:
                r += 1
            idle -= 1
        else:
            if now == math.inf:
                break
            events += going[r]
            turn[r] += going[r]
            context[r] += active[r] * going[r]
            while active[r] > 0 and leave[r, 0] == turn[r]:
                i = who[r, 0]
                finish[i] = now
                context[r] -= inputs[i] + outputs[i]
                reserved[r] -= inputs[i] + outputs[i]
                active[r] -= 1
                last = active[r]  # the heap's last entry moves to the hole at the top and sinks
                key = leave[r, last]
                item = who[r, last]
                hole = 0
                while 2 * hole + 1 < last:
                    child = 2 * hole + 1
                    if child + 1 < last and leave[r, child + 1] < leave[r, child]:
                        child += 1
                    if leave[r, child] >= key:
                        break
                    leave[r, hole] = leave[r, child]
                    who[r, hole] = who[r, child]
                    hole = child
                leave[r, hole] = key
                who[r, hole] = item
        running, before = active[r], context[r]
        joined = front
        duration = 0.0
        while front < back and active[r] < max_batch:
            i = queue[front]
            need = inputs[i] + outputs[i]
            if cache >= 0 and reserved[r] + need > cache:
                break
            front += 1
            k, weight = _cell(grid, np.float64(inputs[i]))
            duration += prefill[k] * (1.0 - weight) + prefill[k + upper] * weight
            prefills[k] += 1.0 - weight
            prefills[k + upper] += weight
            reserved[r] += need
            context[r] += inputs[i]
            key = turn[r] + outputs[i]
            hole = active[r]
            while hole > 0 and leave[r, (hole - 1) >> 1] > key:
                leave[r, hole] = leave[r, (hole - 1) >> 1]
                who[r, hole] = who[r, (hole - 1) >> 1]
                hole = (hole - 1) >> 1
            leave[r, hole] = key
            who[r, hole] = i
            active[r] += 1
        if active[r] == 0:
            ends[r] = math.inf
            idle += 1
            continue
        going[r] = 1
        if running > 0:
            count, until = 1, math.inf
            full = active[r] == max_batch or (replicas == 1 and front < back)
            if joined == front and (full or front == back):
                count = leave[r, 0] - turn[r]
                if not full and upcoming < n:
                    until = arrive[upcoming] - now
            going[r], seconds = _stretch(grid, step, steps, running, before, count, until)
            duration += seconds
        busy += duration
        ends[r] = now + duration
        for j in range(joined, front):
            first[queue[j]] = now + duration
    return events, busy
