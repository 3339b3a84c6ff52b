"""Event engine for a serving engine of language models: a calendar of passes, each for a mix of prefill and decode.

`engine.kernels.events.admission` says who runs in a pass. An engine that does not mix runs a pass of prefill wherever
one is possible and decodes otherwise. Passes between which nobody can join or leave are run in one go, their times
added one by one. Ties: ends of passes, then arrivals.
"""

import math

from engine.kernels.events import passes as P
from engine.kernels.events.admission import add_thinking, form_pass, next_arrival, prefills, preset, queue_arrivals
from engine.kernels.events.front_end import read_prompts, write_tokens
from engine.kernels.events.passes import attention_line, decode_seconds, more_blocks, pass_seconds, value_at
from engine.kernels.events.rng import uniform
from engine.kernels.jit import borrows

BINS = 5200
_LEAST_GAP, _BINS_PER_E = 1e-8, 200.0  # bins of half a per cent, from 10 ns to 2,000 s


@borrows
def gap_bin(seconds):
    """Bin of a gap. [-]"""
    return 0 if seconds <= _LEAST_GAP else min(BINS - 1, int(_BINS_PER_E * math.log(seconds / _LEAST_GAP)))


@borrows
def _count(gaps, sums, group, seconds, count):
    """Counts ``count`` gaps of so many seconds."""
    at = gap_bin(seconds)
    gaps[group, at] += count
    sums[group, at] += count * seconds


@borrows
def count_gaps(gaps, sums, groups, seconds):
    """Counts a gap of each group given, of so many seconds."""
    for k in range(groups.shape[0]):
        _count(gaps, sums, groups[k], seconds[k], 1)


@borrows
def _steps(requests, state, r, rules, part):
    """Passes of decoding alone until one of those that run ends, if nobody can join before; 1 elsewhere. [-]"""
    n = state.n[r]
    if (
        part[P.PREFILL] + part[P.JOINS] > 0
        or part[P.ROWS] < n[P.RUNNING]
        or n[P.UNSEEN] > 0
        or rules.guesses > 0
        or rules.serial
    ):
        return 1
    if n[P.FRONT] < n[P.BACK] and not (part[P.WAITS] > 0 or n[P.RUNNING] == state.run.shape[1] or part[P.LEFT] <= 0):
        return 1
    count, blocks = requests.outputs[r, state.run[r, 0]] - state.made[r, state.run[r, 0]], 0
    for k in range(n[P.RUNNING]):
        i = state.run[r, k]
        count = min(count, requests.outputs[r, i] - state.made[r, i])
    for k in range(n[P.RUNNING]):
        i = state.run[r, k]
        blocks += more_blocks(state, r, i, requests.inputs[r, i] + state.made[r, i] + count - 1, rules.block)
    return count if blocks <= n[P.FREE] else 1


@borrows
def _seen(rules, began, now):
    """Who has come by when is in the pass that follows one from ``began`` to ``now``. [s]"""
    return began + (1.0 - rules.overlap) * (now - began) if rules.late else now


@borrows
def _flush(gaps, sums, sharing, at, count, seconds):
    """Counts ``count`` gaps of a bin, ``seconds`` together, for every sequence of a group. [s]"""
    for group in range(sharing.shape[0]):
        gaps[group, at] += count * sharing[group]
        sums[group, at] += seconds * sharing[group]


@borrows
def _decode_on(requests, state, r, rules, times, part, count, began, now, until, gaps, sums):
    """Runs up to ``count`` - 1 more passes of the sequences that decode, before ``until``; their number, began, now."""
    n, rows, context, steps = state.n[r], part[P.ROWS], part[P.CONTEXT], 1
    sharing = state.sharing[r]
    sharing[:] = 0
    for k in range(n[P.RUNNING]):
        i = state.run[r, k]
        sharing[state.group[r, i]] += 1
        _count(gaps, sums, state.group[r, i], now - state.last[r, i], 1)
    pending, total_s, low, high, at = 0, 0.0, 0.0, 0.0, 0  # gaps of one bin, not yet counted
    upto, start, value, slope = 0.0, 0.0, 0.0, 0.0
    base = value_at(times.rows, times.decode, float(rows)) + value_at(times.rows, times.head, float(rows))
    if rules.ranks > 1:  # the others are idle
        base -= value_at(times.rows, times.decode_spared, float(rows))
    host = rules.host_s + rules.row_s * rows
    while steps < count and until > _seen(rules, began, now):
        context += rows
        mean = context / rows
        if mean > upto:
            upto, start, value, slope = attention_line(times, float(rows), mean)
        seconds = decode_seconds(times, float(rows), mean) + (value + slope * (mean - start)) + base
        began = now
        now += max(seconds, host) if rules.hides else seconds + host
        gap = now - began
        if gap < low or gap >= high:
            _flush(gaps, sums, sharing, at, pending, total_s)
            at, pending, total_s = gap_bin(gap), 0, 0.0
            low, high = _LEAST_GAP * math.exp(at / _BINS_PER_E), _LEAST_GAP * math.exp((at + 1) / _BINS_PER_E)
        pending += 1
        total_s += gap
        steps += 1
    _flush(gaps, sums, sharing, at, pending, total_s)
    for k in range(n[P.RUNNING]):
        i = state.run[r, k]
        state.computed[r, i] += steps - 1
        state.made[r, i] += steps - 1
        blocks = more_blocks(state, r, i, state.computed[r, i] + 1, rules.block)
        state.blocks[r, i] += blocks
        n[P.FREE] -= blocks
    n[P.PEAK] = max(n[P.PEAK], rules.blocks - n[P.FREE])
    return steps, began, now


@borrows
def _row_tokens(i, requests, state, r, rules, accept, key):
    """Tokens that a row of decoding makes: one, and those guessed ahead up to the first that is wrong. [-]"""
    tokens = 1
    while tokens <= rules.guesses and uniform(key, i * 2097152 + state.made[r, i] + tokens) < accept[tokens - 1]:
        tokens += 1
    return min(tokens, requests.outputs[r, i] - state.made[r, i])


@borrows
def _ask(requests, state, r, asks, answered):
    """A client that is ``answered`` then [s] thinks about its next request, if ``asks`` leaves it one. [-]"""
    i = state.n[r, P.STARTED]
    if i < asks:
        requests.arrive[r, i] = answered + requests.think[r, i]
        add_thinking(requests, state, r, i)
        state.n[r, P.STARTED] += 1


@borrows
def _settle(requests, state, r, asks, rules, accept, key, steady, now, gaps, sums):
    """Books the tokens of a pass that ends ``now``; up to ``asks`` clients that are answered ask again. [-]"""
    n, stays = state.n[r], 0
    for k in range(n[P.RUNNING]):
        i, leaves = state.run[r, k], False
        if state.over[r, i]:
            leaves = state.share[r, k] > 0
            n[P.UNSEEN] -= leaves
        elif state.share[r, k] > 0:
            decodes = state.made[r, i] > 0 and state.computed[r, i] == requests.inputs[r, i] + state.made[r, i] - 1
            tokens = _row_tokens(i, requests, state, r, rules, accept, key) if decodes else 1
            state.computed[r, i] += tokens if decodes else state.share[r, k]
            if decodes or state.computed[r, i] == requests.inputs[r, i] + state.made[r, i]:
                out = write_tokens(state, rules, state.made[r, i], tokens, now)
                if state.made[r, i] == 0:
                    requests.first[r, i] = out
                elif not steady:
                    _count(gaps, sums, state.group[r, i], out - state.last[r, i], 1)
                    if tokens > 1:
                        _count(gaps, sums, state.group[r, i], 0.0, tokens - 1)
                state.made[r, i] += tokens
                state.last[r, i] = out
                if state.made[r, i] == requests.outputs[r, i]:
                    requests.finish[r, i] = out
                    _ask(requests, state, r, asks, out)
                    leaves = not rules.late
                    state.over[r, i] = rules.late
                    n[P.UNSEEN] += rules.late
        if leaves:
            n[P.FREE] += state.blocks[r, i]
            state.blocks[r, i] = 0
            state.over[r, i] = False
        else:
            state.run[r, stays] = i
            stays += 1
    n[P.RUNNING] = stays


@borrows
def _total(counts, at):
    """A count of all ranks together. [-]"""
    total = 0
    for r in range(counts.shape[0]):
        total += counts[r, at]
    return total


@borrows
def _come(requests, state, sizes, clients, rules, seen, now):
    """Queues who has come by ``seen``; returns when there is work next: -inf where there is some. [s]"""
    coming = read_prompts(requests, state, sizes, clients, rules, now) if rules.serial else math.inf
    for r in range(sizes.shape[0]):
        n, count = state.n[r], preset(sizes, clients, r)
        queue_arrivals(requests, state, r, rules, count, seen)
        n[P.WAITING] = n[P.BACK] - n[P.FRONT]
        coming = min(coming, -math.inf if n[P.RUNNING] + n[P.WAITING] > 0 else next_arrival(requests, state, r, count))
    return coming


@borrows
def _form(requests, state, rules, times, wait):
    """Every rank's part of a pass is formed; returns what the slowest takes [s], and passes since prompts last entered.

    Ranks that balance let prompts enter where each has one and after so many passes, or where one has nothing to decode
    (TensorRT-LLM's ``_balance_adp_requests``).
    """
    longest, ready, decoding, tokens, ranks = 0.0, 0, 0, 0, state.part.shape[0]
    if rules.balance_timeout > 0 and ranks > 1:
        for r in range(ranks):
            ready += prefills(requests, state, r, rules)
            decoding += state.n[r, P.RUNNING] > 0
        wait = 0 if ready == ranks or decoding < ranks or wait + 1 >= rules.balance_timeout else wait + 1
    for r in range(ranks):
        part = state.part[r]
        state.prompt_s[r] = form_pass(requests, state, r, rules, times, part, wait == 0)
        tokens += part[P.PREFILL] + part[P.ROWS] * (1 + rules.guesses)
    for r in range(ranks):
        part, peers = state.part[r], rules.ranks - 1
        mean = part[P.CONTEXT] / max(1, part[P.ROWS])
        load = part[P.PREFILL] + part[P.ROWS] * (1 + rules.guesses)
        idle = max(0.0, 1.0 - (tokens - load) / (peers * load)) if peers * load > 0 else 0.0
        counts = part[P.PREFILL], part[P.PROMPTS], state.prompt_s[r], part[P.ROWS], mean, part[P.MOVED], idle
        longest = max(longest, pass_seconds(times, rules, *counts))
    return longest, wait


@borrows
def _settle_ranks(requests, state, sizes, clients, rules, accept, key, steady, now, gaps, sums):
    """Books the tokens of a pass that ends ``now`` for every rank, behind the prompts that have come."""
    if rules.serial:
        read_prompts(requests, state, sizes, clients, rules, now)
    for r in range(sizes.shape[0]):
        asks = sizes[r] if clients[r] > 0 else 0
        _settle(requests, state, r, asks, rules, accept, key, steady, now, gaps, sums)


@borrows
def _log(log, at, start, seconds, steps, blocks, counts, parts, behind, idle):
    """Writes a row of the log: a pass, what the ranks did in it; ``behind``, ``idle``: of the front end. [s]"""
    log[at, :] = 0.0
    log[at, 0], log[at, 1], log[at, 2] = start, seconds, steps
    log[at, 11], log[at, 12] = behind, idle
    for r in range(counts.shape[0]):
        n, part = counts[r], parts[r]
        log[at, 3] += part[P.PREFILL]
        log[at, 4] += part[P.ROWS]
        log[at, 5] += blocks - n[P.FREE]
        log[at, 6] += n[P.WAITING]
        log[at, 7] += part[P.LOST]
        log[at, 8] += n[P.RUNNING]
        log[at, 9] += n[P.BACK] - n[P.FRONT]
        log[at, 10] += n[P.HOST]


@borrows
def calendar(requests, state, sizes, clients, rules, times, accept, key, gaps, sums, log):
    """Run to the last token; returns passes, rows of the log and busy seconds; -1 passes where nobody can ever enter.

    Ranks step together: each forms its part of a pass, and all take what the slowest does. ``times`` are of a rank
    where all others do the same; layers that ranks share have the tokens that there are, none of padding, and take less
    where others have fewer. A rank without work waits along.

    Parameters
    ----------
    requests, state
        Of each rank a row; the state of `idle_engine`. Its counts `PREEMPTED` and `PEAK` (of blocks in use) say what
        the run was.
    sizes, clients : (ranks,)
        Requests of each rank, and those in flight of a closed loop; 0: all arrivals are given.
    accept : (guesses,)
        Chance that the guess at a place is right where all before it are. [-]
    key : int
        Of the random stream that decides it.
    gaps, sums : (groups, `BINS`)
        Receive how many gaps between tokens lie in a bin and their sum [s], by the groups of `idle_engine`.
    log : (rows, len(`PASS`))
        Receives the first passes.
    """
    for r in range(sizes.shape[0]):
        state.n[r, P.FREE], state.n[r, P.STARTED] = rules.blocks, preset(sizes, clients, r)
    n, part = state.n[0], state.part[0]
    passes, rows, alone, ahead, wait = 0, 0, sizes.shape[0] == 1, 0, 0
    now = began = ended = busy = done = 0.0
    while True:
        if ahead <= 0 or _total(state.n, P.RUNNING) == 0:
            coming = _come(requests, state, sizes, clients, rules, _seen(rules, began, now), now)
            if coming == math.inf:
                return passes, rows, busy
            if coming > -math.inf:
                now = began = max(now, coming)
                continue
            ahead = rules.steps
        start = began = now
        behind, idle = max(0.0, state.front_end[0] - now), min(now - ended, state.front_end[1] - done)
        seconds, wait = _form(requests, state, rules, times, wait)
        now += seconds
        if _total(state.n, P.RUNNING) + _total(state.part, P.LOST) == 0:
            return -1, rows, busy
        count = _steps(requests, state, 0, rules, part) if alone else 1
        if rules.steps > 1:
            count = min(count, ahead)
        steps = 1
        if count > 1:
            joins = n[P.RUNNING] < state.run.shape[1] and part[P.LEFT] > 0 and part[P.WAITS] == 0
            until = (
                next_arrival(requests, state, 0, preset(sizes, clients, 0)) if joins and rules.steps == 1 else math.inf
            )
            steps, began, now = _decode_on(requests, state, 0, rules, times, part, count, began, now, until, gaps, sums)
        passes += steps
        ahead -= steps if rules.steps == 1 or _total(state.part, P.ROWS) > 0 else 0
        busy += now - start
        if rows < log.shape[0]:
            _log(log, rows, start, now - start, steps, rules.blocks, state.n, state.part, behind, idle)
            rows += 1
        _settle_ranks(requests, state, sizes, clients, rules, accept, key, count > 1, now, gaps, sums)
        ended, done = now, state.front_end[1] - max(0.0, state.front_end[0] - now)  # what it has worked by then
