"""A serving engine's front end: one process that reads prompts on their way in and writes tokens on their way out.

First come, first served: a prompt's text becomes tokens before it waits for the engine, and a token that a pass makes
is seen once all before it are written. Each message of a stream has the answer's text so far, so that later tokens
take longer. Without seconds of its own there is none, and everything passes at once.
"""

import math

from engine.kernels.events import passes as P
from engine.kernels.events.admission import next_request, preset
from engine.kernels.jit import borrows


@borrows
def _work(state, now, seconds):
    """Gives the front end so many seconds of work; returns when it has done it. [s]"""
    state.front_end[0] = max(state.front_end[0], now) + seconds
    state.front_end[1] += seconds
    return state.front_end[0]


@borrows
def read_prompts(requests, state, sizes, clients, rules, until):
    """Reads the prompts of all ranks that have come by ``until``; returns when the next one comes. [s]"""
    while True:
        coming, rank, first = math.inf, 0, 0
        for r in range(sizes.shape[0]):
            i = next_request(requests, state, r, preset(sizes, clients, r), P.UNREAD_GIVEN, P.UNREAD_THINKING)
            if i >= 0 and requests.arrive[r, i] < coming:
                coming, rank, first = requests.arrive[r, i], r, i
        if coming > until:
            return coming
        given = first < preset(sizes, clients, rank)
        state.n[rank, P.UNREAD_GIVEN if given else P.UNREAD_THINKING] += 1
        state.ready[rank, first] = _work(state, coming, rules.read_s * requests.inputs[rank, first])


@borrows
def write_tokens(state, rules, made, tokens, now):
    """Writes a sequence's ``tokens`` after ``made``, of a pass that ends ``now``; returns when they are out. [s]"""
    if not rules.serial:
        return now
    places = tokens * made + tokens * (tokens - 1) // 2
    return _work(state, now, rules.write_s * tokens + rules.repeat_s * places)
