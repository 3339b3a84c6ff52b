"""Who runs in a pass of a serving engine, and for how many tokens.

Every pass has a budget of tokens. Running sequences come first, in the order of their admission: one that decodes takes
one token (and one for each token guessed ahead), one whose prompt is not in yet the rest of it or what the budget has
left. Waiting requests follow, the smallest priority number first and first come first served in each, while there is a
seat, budget and cache. A prompt's first token comes with the pass that ends its prefill and costs no row of decoding
there. The cache is given in blocks, as tokens are written; where none is free the latest admitted sequence of the
largest priority number gives its blocks back, waits first of its number, and is prefilled again with what it had
generated (Kwon et al., PagedAttention, SOSP 2023; priorities as vLLM's policy of that name). An engine that swaps
moves its blocks to the host's memory instead, and back before it runs again. Whole prompts (not chunked) enter where
the budget left takes all of them.
"""

import math

from engine.kernels.events import passes as P
from engine.kernels.events.passes import blocks_of, more_blocks, prompt_seconds
from engine.kernels.jit import borrows


@borrows
def _queue_last(requests, state, r, i):
    """Queues request ``i`` behind all of its priority and of those more urgent."""
    n, queue, priority, at = state.n[r], state.queue[r], requests.priority[r], state.n[r, P.BACK]
    while at > n[P.FRONT] and priority[queue[at - 1]] > priority[i]:
        queue[at] = queue[at - 1]
        at -= 1
    queue[at] = i
    n[P.BACK] += 1


@borrows
def _queue_first(requests, state, r, i):
    """Queues request ``i`` before all of its priority and of those less urgent."""
    n, queue, priority = state.n[r], state.queue[r], requests.priority[r]
    n[P.FRONT] -= 1
    at = n[P.FRONT]
    while at + 1 < n[P.BACK] and priority[queue[at + 1]] < priority[i]:
        queue[at] = queue[at + 1]
        at += 1
    queue[at] = i


@borrows
def queue_arrivals(requests, state, r, rules, arrivals, seen):
    """Queues who has come by ``seen``: arrivals given, and requests of clients that have thought."""
    n, ready = state.n[r], state.ready[r]
    while n[P.GIVEN_NEXT] < arrivals and ready[n[P.GIVEN_NEXT]] <= seen:
        i = n[P.GIVEN_NEXT]
        n[P.GIVEN_NEXT] += 1
        idle = n[P.RUNNING] == 0 and ready[i] >= seen
        if rules.places >= 0 and n[P.BACK] - n[P.FRONT] - idle >= rules.places:
            requests.first[r, i] = requests.finish[r, i] = math.nan
            continue
        _queue_last(requests, state, r, i)
    while n[P.THINK_FRONT] < n[P.THINK_BACK] and ready[state.thinking[r, n[P.THINK_FRONT]]] <= seen:
        _queue_last(requests, state, r, state.thinking[r, n[P.THINK_FRONT]])
        n[P.THINK_FRONT] += 1


@borrows
def preset(sizes, clients, rank):
    """Requests of a rank whose arrivals are given: all, or of a closed loop the first of its clients. [-]"""
    return sizes[rank] if clients[rank] == 0 else min(sizes[rank], clients[rank])


@borrows
def add_thinking(requests, state, r, i):
    """Puts request ``i`` among those to come, by its arrival."""
    n, at = state.n[r], state.n[r, P.THINK_BACK]
    while at > n[P.THINK_FRONT] and requests.arrive[r, state.thinking[r, at - 1]] > requests.arrive[r, i]:
        state.thinking[r, at] = state.thinking[r, at - 1]
        at -= 1
    state.thinking[r, at] = i
    n[P.THINK_BACK] += 1


@borrows
def next_request(requests, state, r, arrivals, given, thinking):
    """The next request from places ``given`` and ``thinking`` on to come; -1 where none is known. [-]"""
    n, i = state.n[r], -1
    if n[given] < arrivals:
        i = n[given]
    if n[thinking] < n[P.THINK_BACK]:
        j = state.thinking[r, n[thinking]]
        i = j if i < 0 or requests.arrive[r, j] < requests.arrive[r, i] else i
    return i


@borrows
def next_arrival(requests, state, r, arrivals):
    """When the next request reaches the engine; infinity where none is known. [s]"""
    i = next_request(requests, state, r, arrivals, P.GIVEN_NEXT, P.THINK_FRONT)
    return math.inf if i < 0 else state.ready[r, i]


@borrows
def _prefix_tokens(requests, state, r, i):
    """Tokens of request ``i`` that need no prefill: in the cache, or in the host's memory. [-]"""
    return max(state.computed[r, i], requests.cached[r, i])


@borrows
def _decodes(requests, state, r, i):
    """Whether request ``i`` has but its next token to make."""
    steps = state.made[r, i]
    return steps > 0 and requests.inputs[r, i] + steps - _prefix_tokens(requests, state, r, i) == 1


@borrows
def _row_tokens(i, requests, state, r, rules):
    """Tokens that a row of decoding may write: its own and those guessed ahead, up to the end of the request. [-]"""
    left = requests.inputs[r, i] + requests.outputs[r, i] - _prefix_tokens(requests, state, r, i)
    return min(1 + rules.guesses, left)


@borrows
def _admits(i, requests, state, r, rules, budget):
    """Whether the cache has room for request ``i``: what it prefills before others decode, and all that run reserve."""
    inputs, outputs, steps = requests.inputs[r], requests.outputs[r], state.made[r]
    whole = inputs[i] + steps[i]
    if _decodes(requests, state, r, i):
        whole += _row_tokens(i, requests, state, r, rules) - 1
    tokens = min(whole, _prefix_tokens(requests, state, r, i) + budget) if rules.mixed else whole
    fits = blocks_of(tokens, rules.block) <= state.n[r, P.FREE]
    if not fits or rules.reserve <= 0.0:
        return fits
    reserve = blocks_of(inputs[i] + steps[i] + math.ceil(rules.reserve * (outputs[i] - steps[i])), rules.block)
    for k in range(state.n[r, P.RUNNING]):
        j = state.run[r, k]
        reserve += blocks_of(inputs[j] + steps[j] + math.ceil(rules.reserve * (outputs[j] - steps[j])), rules.block)
    return reserve <= rules.blocks


@borrows
def prefills(requests, state, r, rules):
    """Whether there is a prompt to take in, of those that run or of the first that waits."""
    n = state.n[r]
    for k in range(n[P.RUNNING]):
        i = state.run[r, k]
        if not state.over[r, i] and state.computed[r, i] < requests.inputs[r, i] + state.made[r, i] - 1:
            return True
    if n[P.FRONT] == n[P.BACK] or n[P.RUNNING] == state.run.shape[1]:
        return False
    i = state.queue[r, n[P.FRONT]]
    if _decodes(requests, state, r, i):
        return False
    need = requests.inputs[r, i] + state.made[r, i] - _prefix_tokens(requests, state, r, i)
    return (rules.chunked or need <= rules.budget) and _admits(i, requests, state, r, rules, rules.budget)


@borrows
def _victim(requests, state, r):
    """Place of the latest admitted of the least urgent that run. [-]"""
    run, priority, at = state.run[r], requests.priority[r], state.n[r, P.RUNNING] - 1
    for k in range(at - 1, -1, -1):
        if priority[run[k]] > priority[run[at]]:
            at = k
    return at


@borrows
def _swap(state, r, part, blocks, way):
    """Moves blocks to the host's memory, or back where ``way`` is -1."""
    n = state.n[r]
    n[P.HOST] += way * blocks
    n[P.HOST_PEAK] = max(n[P.HOST_PEAK], n[P.HOST])
    n[P.SWAPPED] += blocks
    part[P.MOVED] += blocks


@borrows
def _preempt(requests, state, r, rules, part, place):
    """Sends the sequence at a place back to the queue: its blocks are free, and those behind it move up."""
    n, run, i = state.n[r], state.run[r], state.run[r, place]
    n[P.RUNNING] -= 1
    for k in range(place, n[P.RUNNING]):
        run[k] = run[k + 1]
        state.share[r, k] = state.share[r, k + 1]
    n[P.FREE] += state.blocks[r, i]
    state.blocks[r, i] = 0
    if state.over[r, i]:
        state.over[r, i] = False
        n[P.UNSEEN] -= 1
    else:
        if rules.swaps:
            _swap(state, r, part, blocks_of(state.computed[r, i], rules.block), 1)
        else:
            state.computed[r, i] = 0
        _queue_first(requests, state, r, i)
        part[P.LOST] += 1


@borrows
def _goes_on(requests, state, r, rules, part, at, only):
    """Gives the sequence at place ``at`` its tokens of the pass; returns the place of who is next.

    Where the cache is full it may be sent back itself; one that has its tokens already gives them back to the budget.
    """
    n, i = state.n[r], state.run[r, at]
    need = 1 if state.over[r, i] else requests.inputs[r, i] + state.made[r, i] - state.computed[r, i]
    decodes = need == 1 and state.made[r, i] > 0
    state.share[r, at] = 0
    if part[P.LEFT] <= 0 or (only and decodes):
        return at + 1
    tokens = _row_tokens(i, requests, state, r, rules) if decodes else min(need, part[P.LEFT])
    blocks = 0 if state.over[r, i] else more_blocks(state, r, i, state.computed[r, i] + tokens, rules.block)
    while blocks > n[P.FREE]:
        place = _victim(requests, state, r)
        part[P.LEFT] += state.share[r, place] if place < at else 0
        _preempt(requests, state, r, rules, part, place)
        if place == at:
            return at
        at -= place < at
    n[P.FREE] -= blocks
    state.blocks[r, i] += blocks
    state.share[r, at] = tokens
    part[P.LEFT] -= tokens
    return at + 1


@borrows
def _enters(requests, state, r, rules, part, only):
    """Admits the first that waits and gives it tokens, or counts that it waits on."""
    n, i = state.n[r], state.queue[r, state.n[r, P.FRONT]]
    prefix, decodes = _prefix_tokens(requests, state, r, i), _decodes(requests, state, r, i)
    prompt = requests.inputs[r, i] + state.made[r, i] - prefix
    need = _row_tokens(i, requests, state, r, rules) if decodes else prompt
    apart = not rules.mixed and decodes == only  # it decodes in a pass of prefill, or the other way round
    if apart or (need > part[P.LEFT] and not rules.chunked) or not _admits(i, requests, state, r, rules, part[P.LEFT]):
        part[P.WAITS] = 1
        return
    tokens = min(need, part[P.LEFT])
    n[P.FRONT] += 1
    if state.computed[r, i] > 0:
        _swap(state, r, part, blocks_of(prefix, rules.block), -1)
    state.computed[r, i] = prefix
    state.blocks[r, i] = blocks_of(prefix + tokens, rules.block)
    n[P.FREE] -= state.blocks[r, i]
    state.run[r, n[P.RUNNING]] = i
    state.share[r, n[P.RUNNING]] = tokens
    n[P.RUNNING] += 1
    part[P.LEFT] -= tokens
    part[P.JOINS] += 1


@borrows
def _count_pass(requests, state, r, rules, times, part):
    """Counts in ``part`` what each sequence does in the pass; returns prompts' attention [s]."""
    attention, as_decoding = 0.0, rules.decodes or times.coefficients[0] + times.coefficients[1] == 0.0
    for k in range(state.n[r, P.RUNNING]):
        i, tokens = state.run[r, k], state.share[r, k]
        if tokens == 0:
            continue
        context, start = requests.inputs[r, i] + state.made[r, i], state.computed[r, i]
        need = 1 if state.over[r, i] else context - start
        if need == 1 and (state.made[r, i] > 0 or (as_decoding and 0 < start == requests.cached[r, i])):
            part[P.ROWS] += 1  # it decodes, or all but its last token is in the cache, which costs a device as much
            part[P.CONTEXT] += context
        else:
            part[P.PREFILL] += tokens
            part[P.PROMPTS] += tokens == need
            attention += prompt_seconds(times, start, tokens)
    return attention


@borrows
def form_pass(requests, state, r, rules, times, part, entry):
    """Decides who runs in the pass and for how many tokens, counted in ``part``; returns prompts' attention [s].

    ``entry``: whether who waits may enter.
    """
    n = state.n[r]
    for k in range(part.shape[0]):
        part[k] = 0
    part[P.LEFT] = rules.budget
    only = not rules.mixed and entry and prefills(requests, state, r, rules)
    at = 0
    while at < n[P.RUNNING]:
        at = _goes_on(requests, state, r, rules, part, at, only)
    n[P.PREEMPTED] += part[P.LOST]
    waits = n[P.FRONT] < n[P.BACK] and not _decodes(requests, state, r, state.queue[r, n[P.FRONT]])
    part[P.WAITS] = not rules.mixed and not only and waits
    while (
        entry
        and n[P.FRONT] < n[P.BACK]
        and n[P.RUNNING] < state.run.shape[1]
        and part[P.LEFT] > 0
        and part[P.LOST] + part[P.WAITS] == 0
    ):
        _enters(requests, state, r, rules, part, only)
    n[P.PEAK] = max(n[P.PEAK], rules.blocks - n[P.FREE])
    return _count_pass(requests, state, r, rules, times, part)
