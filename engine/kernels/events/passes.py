"""What a serving engine's calendar of passes works on: rules, requests and state, and how long a pass takes. [s]"""

import math
from typing import NamedTuple

import numpy as np

from engine.kernels.jit import borrows

GIVEN = ("prefill_base", "per_token", "per_token2", "decode_base", "per_sequence", "per_context", "least")
PASS = (
    *("start_s", "duration_s", "steps", "prefill_tokens", "decode_rows", "blocks", "waiting", "preempted"),
    *("running", "refused", "host_blocks", "behind_s", "idle_s"),
)
"""Columns of the log of passes; a row is one pass, or ``steps`` of them between which nobody joined or left.
``waiting``: before the pass is formed; ``running``, ``refused``: sequences in the engine, and those that it left out,
once it is; ``host_blocks``: in the host's memory then. ``behind_s``: work that the front end has left as it starts;
``idle_s``: time before it for which the engine had none and the front end did."""
PARTS = ("linear", "decode", "head", "prompt", "attention", "linear_spared", "decode_spared")
"""Tables of a device's `Times` that hold seconds."""
COUNTS, PASS_COUNTS = 17, 9
# counts of the engine's state
FRONT, BACK, RUNNING, FREE, UNSEEN, PREEMPTED, PEAK, WAITING, GIVEN_NEXT, THINK_FRONT, THINK_BACK, STARTED = range(12)
HOST, HOST_PEAK, SWAPPED = range(12, 15)  # blocks: in the host's memory, the most of them, all that moved
UNREAD_GIVEN, UNREAD_THINKING = range(15, COUNTS)  # the first that the front end has not read, of each kind
# counts of the pass being formed
PREFILL, PROMPTS, ROWS, CONTEXT, LEFT, LOST, WAITS, JOINS, MOVED = range(PASS_COUNTS)


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
    steps: int  # passes of decoding between two looks at who has come; 1: every pass begins with one
    swaps: bool  # blocks of who is preempted move to the host's memory, and back before it runs again
    swap_s: float  # a block's seconds between a device and the host
    balance_timeout: int  # passes that ranks with prompts wait for those without; 0: none
    overlap: float = 1.0  # of a late pass: share of the one before it that is still to run when it is formed
    decodes: bool = False  # prompts come with their keys and values: their last token is a step of decoding
    ranks: int = 1  # attention ranks of the engine, those without requests too
    read_s: float = 0.0  # of the front end: of a token of a prompt,
    write_s: float = 0.0  # of a token that is made,
    repeat_s: float = 0.0  # and more of each that its answer has already
    serial: bool = False  # whether there is such a front end


class Times(NamedTuple):
    """Seconds of the parts of a pass: a given machine's coefficients (`GIVEN`), and a device's tables.

    ``tokens``, ``linear``: all of a pass but attention and head, by its tokens. ``rows``, ``decode``, ``head``: the
    same of a pass that only decodes, and the head, by sequences. ``contexts``, ``prompt``: attention of a whole prompt,
    for each of its tokens. ``attention``: of decoding, with all else that a longer context slows (rows, contexts).
    ``linear_spared``, ``decode_spared``: what of ``linear`` and ``decode`` is for the same work of all other attention
    ranks: experts and sharded layers have none of it where those are idle.
    """

    coefficients: np.ndarray
    tokens: np.ndarray
    linear: np.ndarray
    rows: np.ndarray
    decode: np.ndarray
    head: np.ndarray
    contexts: np.ndarray
    prompt: np.ndarray
    attention: np.ndarray
    linear_spared: np.ndarray = np.zeros(1)
    decode_spared: np.ndarray = np.zeros(1)


class Requests(NamedTuple):
    """What clients ask for, and the instants they see; arrays of n.

    ``arrive`` [s]: of a closed loop given for the first ``clients`` requests, and receives the others': ``think`` [s]
    after a client's answer. ``inputs``, ``outputs``, ``cached``: tokens in and out, and those of the input that are in
    the cache already. ``first``, ``finish``: receive the instants of the first and the last token [s]; nan of those
    that are turned away. ``priority``: number of its class from 0, the most urgent.
    """

    arrive: np.ndarray
    inputs: np.ndarray
    outputs: np.ndarray
    cached: np.ndarray
    think: np.ndarray
    first: np.ndarray
    finish: np.ndarray
    priority: np.ndarray


class State(NamedTuple):
    """Of each request: tokens in the cache, tokens made, blocks, instant of the last token, whether it ended unseen,
    the group of its gaps.

    ``queue`` of those that wait, ``thinking`` of those to come from clients that think, soonest first; ``run`` and
    ``share`` of those that run: who, and tokens in this pass; ``sharing``: how many of each group. Counts of the engine
    and of its pass, and the attention of its prompts [s]. ``ready``: when prompts are read; ``front_end``: when it has
    nothing left to do, and all that it had [s].
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
    part: np.ndarray
    prompt_s: np.ndarray
    ready: np.ndarray
    front_end: np.ndarray


def idle_engine(asked, seats, groups, classes=1, serial=False):
    """The state of an engine before requests (ranks, n) of so many classes, of whom at most ``seats`` run.

    Gaps are counted in groups of each class. ``serial``: prompts are read before they wait. Arrays of (ranks, n).
    """
    priority = asked.priority
    ranks, requests = shape = priority.shape
    seats = min(requests, seats)
    counts = (np.zeros(shape, np.int64) for _ in range(3))
    widths = (requests, requests, seats, seats, groups * classes, COUNTS, PASS_COUNTS)
    lines = (np.zeros((ranks, width), np.int64) for width in widths)
    group = np.arange(requests) * groups // requests + groups * priority
    ready = np.full(shape, np.inf) if serial else asked.arrive
    return State(*counts, np.zeros(shape), np.zeros(shape, bool), group, *lines, np.zeros(ranks), ready, np.zeros(2))


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
def value_at(grid, values, x):
    """``values`` at ``x``, linear between the points of ``grid``."""
    k, weight = _cell(grid, x)
    return values[k] if weight == 0.0 else values[k] * (1.0 - weight) + values[k + 1] * weight


@borrows
def prompt_seconds(times, before, tokens):
    """Attention of a prompt's next ``tokens`` after those ``before`` them. [s]"""
    after = float(before + tokens)
    whole = after * value_at(times.contexts, times.prompt, after)
    return whole - before * value_at(times.contexts, times.prompt, float(before)) if before > 0 else whole


@borrows
def attention_line(times, rows, context):
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
def decode_seconds(times, rows, context):
    """Seconds of ``rows`` that decode at ``context`` tokens in the mean, by the machine's coefficients."""
    coefficients = times.coefficients
    return max(coefficients[6], coefficients[3] + coefficients[4] * rows + coefficients[5] * context)


@borrows
def pass_seconds(times, rules, prefill, prompts, attention, rows, context, blocks=0, idle=0.0):
    """Seconds of a pass. An estimate, or as given.

    ``prefill`` tokens, of which ``prompts`` prompts end, with ``attention`` seconds of their own; ``rows`` sequences
    that decode at ``context`` tokens in the mean; ``idle``: share by which other attention ranks do less. The pass
    begins once ``blocks`` have crossed the host's link: vLLM up to 0.9 copies them on the stream that its kernels
    then run on (`Worker.execute_worker`).
    """
    coefficients, n = times.coefficients, float(rows)
    seconds = 0.0
    if prefill > 0:
        t = float(prefill)
        seconds += coefficients[0] + coefficients[1] * t + coefficients[2] * t * t
        t += n * (1 + rules.guesses)
        seconds += value_at(times.tokens, times.linear, t) + attention
        if idle > 0.0:
            seconds -= idle * value_at(times.tokens, times.linear_spared, t)
    if rows > 0:
        _, start, value, slope = attention_line(times, n, context)
        seconds += decode_seconds(times, n, context) + (value + slope * (context - start))
        if prefill == 0:
            seconds += value_at(times.rows, times.decode, n)
            if idle > 0.0:
                seconds -= idle * value_at(times.rows, times.decode_spared, n)
    if rows + prompts > 0:
        seconds += value_at(times.rows, times.head, float(rows + prompts))
    seconds += rules.swap_s * blocks
    host = rules.host_s + rules.row_s * (rows + prompts)
    return max(seconds, host) if rules.hides else seconds + host


@borrows
def blocks_of(tokens, block):
    """Blocks that hold so many tokens. [-]"""
    return tokens if block == 1 else (tokens + block - 1) // block


@borrows
def more_blocks(state, r, i, tokens, block):
    """Blocks that request ``i`` needs for so many tokens beside those it has. [-]"""
    has = state.blocks[r, i]
    return 0 if tokens <= has * block else blocks_of(tokens, block) - has  # a division takes longer than all else
