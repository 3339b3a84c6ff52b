"""Event engine for a serving engine of language models: a calendar of passes, each for a mix of prefill and decode.

Every pass has a budget of tokens. Running sequences come first, in the order of their admission: one that decodes takes
one token (and one for each token guessed ahead), one whose prompt is not in yet the rest of it or what the budget has
left. Waiting requests follow, first come first served, while there is a seat, budget and cache. A prompt's first token
comes with the pass that ends its prefill and costs no row of decoding there. The cache is given in blocks, as tokens
are written; where none is free the latest admitted sequence gives its blocks back, waits first in the queue, and is
prefilled again with what it had generated (Kwon et al., PagedAttention, SOSP 2023). Whole prompts (not chunked) enter
where the budget left takes all of them. An engine that does not mix runs a pass of prefill wherever one is possible and
decodes otherwise. Passes between which nobody can join or leave are run in one go, their times added one by one.
Ties: ends of passes, then arrivals.
"""

import math
from typing import NamedTuple

import numpy as np

from engine.kernels.events.rng import uniform
from engine.kernels.jit import borrows

GIVEN = ("prefill_base", "per_token", "per_token2", "decode_base", "per_sequence", "per_context", "least")
PASS = (
    *("start_s", "duration_s", "steps", "prefill_tokens", "decode_rows", "blocks", "waiting", "preempted"),
    *("running", "refused"),
)
"""Columns of the log of passes; a row is one pass, or ``steps`` of them between which nobody joined or left.
``waiting``: before the pass is formed; ``running``, ``refused``: sequences in the engine, and those that it left out,
once it is."""
BINS = 5200
_LEAST_GAP, _BINS_PER_E = 1e-8, 200.0  # bins of half a per cent, from 10 ns to 2,000 s

COUNTS, PASS_COUNTS = 12, 8
# counts of the engine's state
FRONT, BACK, RUNNING, FREE, UNSEEN, PREEMPTED, PEAK, WAITING, GIVEN_NEXT, THINK_FRONT, THINK_BACK, STARTED = range(
    COUNTS
)
# counts of the pass being formed
PREFILL, PROMPTS, ROWS, CONTEXT, LEFT, LOST, WAITS, JOINS = range(PASS_COUNTS)


class Rules(NamedTuple):
    """How passes are formed: tokens, blocks and sequences; flags; the host's seconds."""

    budget: int
    chunked: bool
    mixed: bool
    reserve: float  # share of the output still to come that admission keeps free for every sequence
    blocks: int
    block: int
    seats: int
    late: bool  # a pass is formed while the one before it runs: arrivals and ends are seen one pass later
    host_s: float
    row_s: float
    hides: bool  # the host works beside the device: the longer of both counts, not their sum
    guesses: int  # tokens guessed ahead in a pass
    places: int  # of the queue: who finds them taken while the engine works is turned away; below 0: no limit
    steps: int  # passes of decoding between two looks at who has come


class Times(NamedTuple):
    """Seconds of the parts of a pass: a given machine's coefficients (`GIVEN`), and a device's tables.

    ``tokens``, ``linear``: all of a pass but attention and head, by its tokens. ``rows``, ``decode``, ``head``: the
    same of a pass that only decodes, and the head, by sequences. ``contexts``, ``prompt``: attention of a whole prompt,
    for each of its tokens. ``attention``: of decoding (rows, contexts).
    """

    given: np.ndarray
    tokens: np.ndarray
    linear: np.ndarray
    rows: np.ndarray
    decode: np.ndarray
    head: np.ndarray
    contexts: np.ndarray
    prompt: np.ndarray
    attention: np.ndarray


class Requests(NamedTuple):
    """What clients ask for, and the instants they see; arrays of n.

    ``arrive`` [s]: of a closed loop given for the first ``clients`` requests, and receives the others': ``think`` [s]
    after a client's answer. ``inputs``, ``outputs``, ``cached``: tokens in and out, and those of the input that are in
    the cache already. ``first``, ``finish``: receive the instants of the first and the last token [s]; nan of those
    that are turned away.
    """

    arrive: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray
    cached: np.ndarray
    think: np.ndarray
    first: np.ndarray
    finish: np.ndarray


class State(NamedTuple):
    """Of each request: tokens in the cache, tokens made, blocks, instant of the last token, whether it ended unseen,
    the group of its gaps.

    ``queue`` of those that wait, ``thinking`` of those to come from clients that think, soonest first; ``run`` and
    ``share`` of those that run: who, and tokens in this pass; ``sharing``: how many of each group. Counts of the engine
    and of its pass.
    """

    computed: np.ndarray
    made: np.ndarray
    blocks: np.ndarray
    last: np.ndarray
    over: np.ndarray
    group: np.ndarray
    queue: np.ndarray
    thinking: np.ndarray
    run: np.ndarray
    share: np.ndarray
    sharing: np.ndarray
    n: np.ndarray
    this: np.ndarray


def idle_engine(requests, seats, groups, ranks=1):
    """The state of an engine before so many requests of each rank; at most ``seats`` run, gaps are counted in groups.

    Arrays of (ranks, n).
    """
    at, seats, each = np.arange(requests), min(requests, seats), (ranks, requests)
    counts = (np.zeros(each, np.int64) for _ in range(3))
    widths = (requests, requests, seats, seats, groups, COUNTS, PASS_COUNTS)
    lines = (np.zeros((ranks, width), np.int64) for width in widths)
    return State(*counts, np.zeros(each), np.zeros(each, bool), np.tile(at * groups // requests, (ranks, 1)), *lines)


@borrows
def _cell(grid, x):
    """Lower index and weight of the upper neighbour on an increasing grid, constant outside. [-]"""
    last = grid.shape[0] - 1
    if last == 0 or x <= grid[0]:
        return 0, 0.0
    if x >= grid[last]:
        return last - 1, 1.0
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if grid[middle] <= x:
            low = middle
        else:
            high = middle
    return low, (x - grid[low]) / (grid[high] - grid[low])


@borrows
def _at(grid, values, x):
    """``values`` at ``x``, linear between the points of ``grid``."""
    k, weight = _cell(grid, x)
    return values[k] if weight == 0.0 else values[k] * (1.0 - weight) + values[k + 1] * weight


@borrows
def prompt_seconds(times, before, tokens):
    """Attention of a prompt's next ``tokens`` after those ``before`` them. [s]"""
    after = float(before + tokens)
    whole = after * _at(times.contexts, times.prompt, after)
    return whole - before * _at(times.contexts, times.prompt, float(before)) if before > 0 else whole


@borrows
def _attends(times, rows, context):
    """Attention of ``rows`` that decode, as a line: valid up to a context, its start, value there [s], slope [s]."""
    k, weight = _cell(times.rows, rows)
    j, share = _cell(times.contexts, context)
    inside = share > 0.0 and share < 1.0
    right = j + 1 if share > 0.0 else j
    low, high = times.attention[k, j], times.attention[k, right]
    if weight > 0.0:
        low = low * (1.0 - weight) + times.attention[k + 1, j] * weight
        high = high * (1.0 - weight) + times.attention[k + 1, right] * weight
    if inside:
        start, end = times.contexts[j], times.contexts[right]
        return end, start, low, (high - low) / (end - start)
    beyond = share > 0.0 or times.contexts.shape[0] == 1
    return (math.inf if beyond else max(context, times.contexts[0])), context, high, 0.0


@borrows
def _decodes(times, rows, context):
    """Seconds of ``rows`` that decode at ``context`` tokens in the mean, by the machine's coefficients."""
    given = times.given
    return max(given[6], given[3] + given[4] * rows + given[5] * context)


@borrows
def pass_seconds(times, rules, prefill, prompts, attention, rows, context):
    """Seconds of a pass. An estimate, or as given.

    ``prefill`` tokens, of which ``prompts`` prompts end, with ``attention`` seconds of their own; ``rows`` sequences
    that decode at ``context`` tokens in the mean.
    """
    given, n = times.given, float(rows)
    seconds = 0.0
    if prefill > 0:
        t = float(prefill)
        seconds += given[0] + given[1] * t + given[2] * t * t
        seconds += _at(times.tokens, times.linear, t + n * (1 + rules.guesses)) + attention
    if rows > 0:
        _, start, value, slope = _attends(times, n, context)
        seconds += _decodes(times, n, context) + (value + slope * (context - start))
        if prefill == 0:
            seconds += _at(times.rows, times.decode, n)
    if rows + prompts > 0:
        seconds += _at(times.rows, times.head, float(rows + prompts))
    host = rules.host_s + rules.row_s * (rows + prompts)
    return max(seconds, host) if rules.hides else seconds + host


@borrows
def gap_bin(seconds):
    """Bin of a gap. [-]"""
    return 0 if seconds <= _LEAST_GAP else min(BINS - 1, int(_BINS_PER_E * math.log(seconds / _LEAST_GAP)))


@borrows
def _count(gaps, sums, group, seconds, many):
    """Counts ``many`` gaps of so many seconds."""
    at = gap_bin(seconds)
    gaps[group, at] += many
    sums[group, at] += many * seconds


@borrows
def _blocks(tokens, block):
    """Blocks that hold so many tokens. [-]"""
    return tokens if block == 1 else (tokens + block - 1) // block


@borrows
def _more(state, r, i, tokens, block):
    """Blocks that request ``i`` needs for so many tokens beside those it has. [-]"""
    has = state.blocks[r, i]
    return 0 if tokens <= has * block else _blocks(tokens, block) - has  # a division takes longer than all else


@borrows
def _arrivals(requests, state, r, rules, known, seen):
    """Queues who has come by ``seen``: arrivals given, and requests of clients that have thought."""
    n, arrive = state.n[r], requests.arrive[r]
    while n[GIVEN_NEXT] < known and arrive[n[GIVEN_NEXT]] <= seen:
        i = n[GIVEN_NEXT]
        n[GIVEN_NEXT] += 1
        idle = n[RUNNING] == 0 and arrive[i] >= seen
        if rules.places >= 0 and n[BACK] - n[FRONT] - idle >= rules.places:
            requests.first[r, i] = requests.finish[r, i] = math.nan
            continue
        state.queue[r, n[BACK]] = i
        n[BACK] += 1
    while n[THINK_FRONT] < n[THINK_BACK] and arrive[state.thinking[r, n[THINK_FRONT]]] <= seen:
        state.queue[r, n[BACK]] = state.thinking[r, n[THINK_FRONT]]
        n[BACK] += 1
        n[THINK_FRONT] += 1


@borrows
def _thinks(requests, state, r, i):
    """Puts request ``i`` among those to come, by its arrival."""
    n, at = state.n[r], state.n[r, THINK_BACK]
    while at > n[THINK_FRONT] and requests.arrive[r, state.thinking[r, at - 1]] > requests.arrive[r, i]:
        state.thinking[r, at] = state.thinking[r, at - 1]
        at -= 1
    state.thinking[r, at] = i
    n[THINK_BACK] += 1


@borrows
def _next(requests, state, r, known):
    """The next arrival; infinity where none is known. [s]"""
    n, coming = state.n[r], math.inf
    if n[GIVEN_NEXT] < known:
        coming = requests.arrive[r, n[GIVEN_NEXT]]
    if n[THINK_FRONT] < n[THINK_BACK]:
        coming = min(coming, requests.arrive[r, state.thinking[r, n[THINK_FRONT]]])
    return coming


@borrows
def _admits(i, requests, state, r, rules, left):
    """Whether the cache has room for request ``i``: what it prefills now, and the reserve of all that run."""
    inputs, outputs, made = requests.inputs[r], requests.outputs[r], state.made[r]
    tokens = min(inputs[i] + made[i], requests.cached[r, i] + left)
    if rules.reserve <= 0.0:
        return _blocks(tokens, rules.block) <= state.n[r, FREE]
    expected = _blocks(inputs[i] + made[i] + math.ceil(rules.reserve * (outputs[i] - made[i])), rules.block)
    for k in range(state.n[r, RUNNING]):
        j = state.run[r, k]
        expected += _blocks(inputs[j] + made[j] + math.ceil(rules.reserve * (outputs[j] - made[j])), rules.block)
    return expected <= rules.blocks


@borrows
def _prefills(requests, state, r, rules):
    """Whether an engine that does not mix has a prompt to take in, of those that run or of the first that waits."""
    n = state.n[r]
    for k in range(n[RUNNING]):
        i = state.run[r, k]
        if not state.over[r, i] and state.computed[r, i] < requests.inputs[r, i] + state.made[r, i] - 1:
            return True
    if n[FRONT] == n[BACK] or n[RUNNING] == state.run.shape[1]:
        return False
    i = state.queue[r, n[FRONT]]
    need = requests.inputs[r, i] + state.made[r, i] - requests.cached[r, i]
    return (rules.chunked or need <= rules.budget) and _admits(i, requests, state, r, rules, rules.budget)


@borrows
def _preempt(state, r, at, wanted):
    """Sends the latest admitted back to the queue until ``wanted`` blocks are free, ``at`` itself at the last."""
    n, lost = state.n[r], 0
    while wanted > n[FREE] and n[RUNNING] > at:
        n[RUNNING] -= 1
        j = state.run[r, n[RUNNING]]
        n[FREE] += state.blocks[r, j]
        state.blocks[r, j] = 0
        state.computed[r, j] = 0
        if state.over[r, j]:
            state.over[r, j] = False
            n[UNSEEN] -= 1
        else:
            n[FRONT] -= 1
            state.queue[r, n[FRONT]] = j
            lost += 1
    return lost


@borrows
def _goes_on(requests, state, r, rules, times, this, at, only):
    """Gives the sequence at place ``at`` its tokens of the pass; returns its prompt's attention [s], 0 if it decodes.

    It may be sent back itself where the cache is full: then nobody runs at its place.
    """
    n, i = state.n[r], state.run[r, at]
    need = 1 if state.over[r, i] else requests.inputs[r, i] + state.made[r, i] - state.computed[r, i]
    decodes = need == 1 and state.made[r, i] > 0
    state.share[r, at] = 0
    if this[LEFT] <= 0 or (only and decodes):
        return 0.0
    tokens = 1 + rules.guesses if decodes else min(need, this[LEFT])
    wanted = 0 if state.over[r, i] else _more(state, r, i, state.computed[r, i] + tokens, rules.block)
    this[LOST] += _preempt(state, r, at, wanted)
    if at >= n[RUNNING]:
        return 0.0
    n[FREE] -= wanted
    state.blocks[r, i] += wanted
    state.share[r, at] = tokens
    this[LEFT] -= tokens
    if decodes:
        this[ROWS] += 1
        this[CONTEXT] += requests.inputs[r, i] + state.made[r, i]
        return 0.0
    this[PREFILL] += tokens
    this[PROMPTS] += tokens == need
    return prompt_seconds(times, state.computed[r, i], tokens)


@borrows
def _enters(requests, state, r, rules, times, this):
    """Admits the first that waits and gives it tokens, or counts that it waits on; returns its attention [s]."""
    n, i = state.n[r], state.queue[r, state.n[r, FRONT]]
    need = requests.inputs[r, i] + state.made[r, i] - requests.cached[r, i]
    if (need > this[LEFT] and not rules.chunked) or not _admits(i, requests, state, r, rules, this[LEFT]):
        this[WAITS] = 1
        return 0.0
    tokens = min(need, this[LEFT])
    n[FRONT] += 1
    state.computed[r, i] = requests.cached[r, i]
    state.blocks[r, i] = _blocks(requests.cached[r, i] + tokens, rules.block)
    n[FREE] -= state.blocks[r, i]
    state.run[r, n[RUNNING]] = i
    state.share[r, n[RUNNING]] = tokens
    n[RUNNING] += 1
    this[LEFT] -= tokens
    this[JOINS] += 1
    if need == 1 and requests.cached[r, i] > 0:  # all but its last token is in the cache: a step of decoding
        this[ROWS] += 1
        this[CONTEXT] += requests.inputs[r, i] + state.made[r, i]
        return 0.0
    this[PREFILL] += tokens
    this[PROMPTS] += tokens == need
    return prompt_seconds(times, requests.cached[r, i], tokens)


@borrows
def _form(requests, state, r, rules, times, this):
    """Decides who runs in the pass and for how many tokens, counted in ``this``; returns prompts' attention [s]."""
    n, attention = state.n[r], 0.0
    for k in range(this.shape[0]):
        this[k] = 0
    this[LEFT] = rules.budget
    only = not rules.mixed and _prefills(requests, state, r, rules)
    at = 0
    while at < n[RUNNING]:
        attention += _goes_on(requests, state, r, rules, times, this, at, only)
        at += 1
    n[PREEMPTED] += this[LOST]
    this[WAITS] = not rules.mixed and not only and n[FRONT] < n[BACK]
    while n[FRONT] < n[BACK] and n[RUNNING] < state.run.shape[1] and this[LEFT] > 0 and this[LOST] + this[WAITS] == 0:
        attention += _enters(requests, state, r, rules, times, this)
    n[PEAK] = max(n[PEAK], rules.blocks - n[FREE])
    return attention


@borrows
def _steps(requests, state, r, rules, this):
    """Passes of decoding alone until one of those that run ends, if nobody can join before; 1 elsewhere. [-]"""
    n = state.n[r]
    if this[PREFILL] + this[JOINS] > 0 or this[ROWS] < n[RUNNING] or n[UNSEEN] > 0 or rules.guesses > 0:
        return 1
    if n[FRONT] < n[BACK] and not (this[WAITS] > 0 or n[RUNNING] == state.run.shape[1] or this[LEFT] <= 0):
        return 1
    count, wanted = requests.outputs[r, state.run[r, 0]] - state.made[r, state.run[r, 0]], 0
    for k in range(n[RUNNING]):
        i = state.run[r, k]
        count = min(count, requests.outputs[r, i] - state.made[r, i])
    for k in range(n[RUNNING]):
        i = state.run[r, k]
        wanted += _more(state, r, i, requests.inputs[r, i] + state.made[r, i] + count - 1, rules.block)
    return count if wanted <= n[FREE] else 1


@borrows
def _flush(gaps, sums, sharing, at, many, seconds):
    """Counts ``many`` gaps of a bin, ``seconds`` together, for every sequence of a group. [s]"""
    for group in range(sharing.shape[0]):
        gaps[group, at] += many * sharing[group]
        sums[group, at] += seconds * sharing[group]


@borrows
def _decode_on(requests, state, r, rules, times, this, count, began, now, until, gaps, sums):
    """Runs up to ``count`` - 1 more passes of the sequences that decode, before ``until``; their number, began, now."""
    n, rows, context, steps = state.n[r], this[ROWS], this[CONTEXT], 1
    sharing = state.sharing[r]
    sharing[:] = 0
    for k in range(n[RUNNING]):
        i = state.run[r, k]
        sharing[state.group[r, i]] += 1
        _count(gaps, sums, state.group[r, i], now - state.last[r, i], 1)
    many, total_s, low, high, at = 0, 0.0, 0.0, 0.0, 0  # gaps of one bin, not yet counted
    upto, start, value, slope = 0.0, 0.0, 0.0, 0.0
    fixed = _at(times.rows, times.decode, float(rows)) + _at(times.rows, times.head, float(rows))
    host = rules.host_s + rules.row_s * rows
    while steps < count and until > (began if rules.late else now):
        context += rows
        mean = context / rows
        if mean > upto:
            upto, start, value, slope = _attends(times, float(rows), mean)
        seconds = _decodes(times, float(rows), mean) + (value + slope * (mean - start)) + fixed
        began = now
        now += max(seconds, host) if rules.hides else seconds + host
        gap = now - began
        if gap < low or gap >= high:
            _flush(gaps, sums, sharing, at, many, total_s)
            at, many, total_s = gap_bin(gap), 0, 0.0
            low, high = _LEAST_GAP * math.exp(at / _BINS_PER_E), _LEAST_GAP * math.exp((at + 1) / _BINS_PER_E)
        many += 1
        total_s += gap
        steps += 1
    _flush(gaps, sums, sharing, at, many, total_s)
    for k in range(n[RUNNING]):
        i = state.run[r, k]
        state.computed[r, i] += steps - 1
        state.made[r, i] += steps - 1
        wanted = _more(state, r, i, state.computed[r, i] + 1, rules.block)
        state.blocks[r, i] += wanted
        n[FREE] -= wanted
    n[PEAK] = max(n[PEAK], rules.blocks - n[FREE])
    return steps, began, now


@borrows
def _made(i, requests, state, r, rules, accept, key):
    """Tokens that a row of decoding makes: one, and those guessed ahead up to the first that is wrong. [-]"""
    made = 1
    while made <= rules.guesses and uniform(key, i * 2097152 + state.made[r, i] + made) < accept[made - 1]:
        made += 1
    return min(made, requests.outputs[r, i] - state.made[r, i])


@borrows
def _settle(requests, state, r, rules, accept, key, steady, now, gaps, sums):
    """Books the tokens of a pass that ends ``now``; returns how many requests end."""
    n, stays, ends = state.n[r], 0, 0
    for k in range(n[RUNNING]):
        i, leaves = state.run[r, k], False
        if state.over[r, i]:
            leaves = state.share[r, k] > 0
            n[UNSEEN] -= leaves
        elif state.share[r, k] > 0:
            decodes = state.made[r, i] > 0 and state.computed[r, i] == requests.inputs[r, i] + state.made[r, i] - 1
            made = _made(i, requests, state, r, rules, accept, key) if decodes else 1
            state.computed[r, i] += made if decodes else state.share[r, k]
            if decodes or state.computed[r, i] == requests.inputs[r, i] + state.made[r, i]:
                if state.made[r, i] == 0:
                    requests.first[r, i] = now
                elif not steady:
                    _count(gaps, sums, state.group[r, i], now - state.last[r, i], 1)
                    if made > 1:
                        _count(gaps, sums, state.group[r, i], 0.0, made - 1)
                state.made[r, i] += made
                state.last[r, i] = now
                if state.made[r, i] == requests.outputs[r, i]:
                    requests.finish[r, i] = now
                    ends += 1
                    leaves = not rules.late
                    state.over[r, i] = rules.late
                    n[UNSEEN] += rules.late
        if leaves:
            n[FREE] += state.blocks[r, i]
            state.blocks[r, i] = 0
            state.over[r, i] = False
        else:
            state.run[r, stays] = i
            stays += 1
    n[RUNNING] = stays
    return ends


@borrows
def _total(counts, at):
    """A count of all ranks together. [-]"""
    total = 0
    for r in range(counts.shape[0]):
        total += counts[r, at]
    return total


@borrows
def _known(many, clients, rank):
    """Requests of a rank whose arrivals are given: all, or of a closed loop the first of its clients. [-]"""
    return many[rank] if clients[rank] == 0 else min(many[rank], clients[rank])


@borrows
def _come(requests, state, many, clients, rules, seen):
    """Queues who has come by ``seen``; returns when there is work next: -inf where there is some. [s]"""
    coming = math.inf
    for r in range(many.shape[0]):
        n, known = state.n[r], _known(many, clients, r)
        _arrivals(requests, state, r, rules, known, seen)
        n[WAITING] = n[BACK] - n[FRONT]
        coming = min(coming, -math.inf if n[RUNNING] + n[WAITING] > 0 else _next(requests, state, r, known))
    return coming


@borrows
def _formed(requests, state, rules, times):
    """Every rank's part of a pass is formed; returns what the slowest takes. [s]"""
    longest = 0.0
    for r in range(state.this.shape[0]):
        this = state.this[r]
        attention = _form(requests, state, r, rules, times, this)
        mean = this[CONTEXT] / max(1, this[ROWS])
        seconds = pass_seconds(times, rules, this[PREFILL], this[PROMPTS], attention, this[ROWS], mean)
        longest = max(longest, seconds)
    return longest


@borrows
def _settled(requests, state, many, clients, rules, accept, key, steady, now, gaps, sums):
    """Books the tokens of a pass that ends ``now`` for every rank; clients that are answered ask again."""
    for r in range(many.shape[0]):
        n = state.n[r]
        ends = _settle(requests, state, r, rules, accept, key, steady, now, gaps, sums)
        for _ in range(ends if clients[r] > 0 else 0):
            if n[STARTED] < many[r]:
                requests.arrive[r, n[STARTED]] = now + requests.think[r, n[STARTED]]
                _thinks(requests, state, r, n[STARTED])
                n[STARTED] += 1


@borrows
def _log(log, at, start, seconds, steps, blocks, counts, parts):
    """Writes a row of the log: a pass, what the ranks did in it together."""
    log[at, :] = 0.0
    log[at, 0], log[at, 1], log[at, 2] = start, seconds, steps
    for r in range(counts.shape[0]):
        n, this = counts[r], parts[r]
        log[at, 3] += this[PREFILL]
        log[at, 4] += this[ROWS]
        log[at, 5] += blocks - n[FREE]
        log[at, 6] += n[WAITING]
        log[at, 7] += this[LOST]
        log[at, 8] += n[RUNNING]
        log[at, 9] += n[BACK] - n[FRONT]


@borrows
def calendar(requests, state, many, clients, rules, times, accept, key, gaps, sums, log):
    """Run to the last token; returns passes, rows of the log and busy seconds.

    Ranks step together: each forms its part of a pass, and all take what the slowest does, as those with fewer tokens
    are padded to the fullest. ``times`` are of a rank where all others do the same. A rank without work waits along.

    Parameters
    ----------
    requests, state
        Of each rank a row; the state of `idle_engine`. Its counts `PREEMPTED` and `PEAK` (of blocks in use) say what
        the run was.
    many, clients : (ranks,)
        Requests of each rank, and those in flight of a closed loop; 0: all arrivals are given.
    accept : (guesses,)
        Chance that the guess at a place is right where all before it are. [-]
    key : int
        Of the random stream that decides it.
    gaps, sums : (groups, `BINS`)
        Receive how many gaps between tokens lie in a bin and their sum [s]; request i is of group i * groups // n.
    log : (rows, len(`PASS`))
        Receives the first passes.
    """
    for r in range(many.shape[0]):
        state.n[r, FREE], state.n[r, STARTED] = rules.blocks, _known(many, clients, r)
    n, this = state.n[0], state.this[0]
    passes, logged, alone, ahead = 0, 0, many.shape[0] == 1, 0
    now = began = busy = 0.0
    while True:
        if ahead <= 0 or _total(state.n, RUNNING) == 0:
            coming = _come(requests, state, many, clients, rules, began if rules.late else now)
            if coming == math.inf:
                return passes, logged, busy
            if coming > -math.inf:
                now = began = max(now, coming)
                continue
            ahead = rules.steps
        start = began = now
        now += _formed(requests, state, rules, times)
        count = _steps(requests, state, 0, rules, this) if alone else 1
        if rules.steps > 1:
            count = min(count, ahead)
        steps = 1
        if count > 1:
            joins = n[RUNNING] < state.run.shape[1] and this[LEFT] > 0 and this[WAITS] == 0
            until = _next(requests, state, 0, _known(many, clients, 0)) if joins and rules.steps == 1 else math.inf
            steps, began, now = _decode_on(requests, state, 0, rules, times, this, count, began, now, until, gaps, sums)
        passes += steps
        ahead = 0 if _total(state.this, PREFILL) > 0 else ahead - steps
        busy += now - start
        if logged < log.shape[0]:
            _log(log, logged, start, now - start, steps, rules.blocks, state.n, state.this)
            logged += 1
        _settled(requests, state, many, clients, rules, accept, key, count > 1, now, gaps, sums)
