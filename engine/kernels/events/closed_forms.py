"""A closed loop of clients in front of a serving engine, in closed form: the mean of what the calendar of passes runs.

Prompts that fit a pass together are a group: a customer of two stations. One prefills group by group, in passes that
the running sequences share; the other decodes all groups at once, its passes the slower the more sequences run and the
more of the time others prefill. Both depend on the rate that they lead to, which is found by bisection. Requests of one
length come to the first station as they leave it, one group after another, so that none waits there before it has
always work (the bounds of a closed network, Denning and Buzen 1978). Where passes do not mix, all prompts are one
group. An estimate of means for requests of one length; bursts, percentiles and preemption are the calendar's. A serial
front end bounds the rate; where it does, its tokens go out in turn.
"""

from engine.kernels.events.passes import pass_seconds, prompt_seconds
from engine.kernels.jit import kernel

POINT = ("clients", "budget", "seats", "tokens", "chunked", "idle")
"""Of one rank of one engine: clients and sequences at most [-], budget and room of the cache [tokens], a flag, the
share of the other ranks that have no client."""
CLIENTS, BUDGET, SEATS, TOKENS, CHUNKED, IDLE = range(len(POINT))
ANSWER = ("requests_per_s", "ttft_s", "tpot_s")
_HALVINGS, _TURNS, _ENTRIES = 24, 24, 10


@kernel
def _group(point, rules, times, inputs, cached, batch, running):
    """Prompts of a group, passes that take it in, and seconds of all of them while so many sequences run."""
    fresh, rows = inputs - cached, running if rules.mixed else 0.0
    room = max(point[BUDGET] - rows * (1 + rules.guesses), 1.0)
    prompts = batch
    if rules.mixed:
        prompts = max(1.0, float(int(room / fresh)))
        if point[CHUNKED] > 0.0 and batch * fresh > room > fresh:
            prompts = room / fresh  # the rest of a prompt goes with the next group
    prompts = min(prompts, batch)
    passes = max(1.0, prompts * fresh / room)
    attention = prompts * prompt_seconds(times, cached, fresh)
    counts = prompts * fresh / passes, prompts / passes, attention / passes, rows, inputs
    seconds = pass_seconds(times, rules, *counts, 0, point[IDLE])
    return prompts, passes, passes * seconds


@kernel
def _in_turn(point, rules, times, inputs, cached, batch, steps, context):
    """Where passes do not mix all prompts are taken in before anybody decodes: requests a second, gap [s]."""
    _, passes, prefill = _group(point, rules, times, inputs, cached, batch, 0.0)
    alone = pass_seconds(times, rules, 0, 0, 0.0, batch, context, 0, point[IDLE])
    early = 0.5 * prefill * (1.0 - 1.0 / min(passes, batch))  # whose prompt is in waits for the rest
    return batch / (prefill + steps * alone), alone + early / max(steps, 1.0)


@kernel
def _mixed_passes(point, rules, times, inputs, cached, batch, steps, context):
    """Where prompts share passes with those that decode: requests a second, gap [s]."""
    low, high, gap, requests = 0.0, batch, 0.0, 0.0
    for _ in range(_HALVINGS):
        running = 0.5 * (low + high)
        prompts, passes, prefill = _group(point, rules, times, inputs, cached, batch, running)
        alone = pass_seconds(times, rules, 0, 0, 0.0, max(running, 1.0), context, 0, point[IDLE])
        groups, share = batch / prompts, 0.0
        peers = max(1.0 - 1.0 / groups, 0.0)
        for _ in range(_TURNS):
            gap = 1.0 / (share * passes / prefill + (1.0 - share) / alone)
            rate = min(groups / (prefill + steps * gap), 1.0 / prefill)
            share = 0.5 * (share + rate * prefill * peers)
            requests = prompts * rate
        if requests * steps * gap > running:
            low = running
        else:
            high = running
    return requests, gap


@kernel
def _passes(point, rules, times, inputs, cached, batch, steps, context):
    """Requests a second of so many at once, gap [s]."""
    if rules.mixed:
        return _mixed_passes(point, rules, times, inputs, cached, batch, steps, context)
    return _in_turn(point, rules, times, inputs, cached, batch, steps, context)


@kernel
def _written_gap(point, rules, times, inputs, cached, batch, steps, context, write):
    """Gap behind a front end that has always work, ``write`` a token. [s]

    Prompts that wait there are read before the tokens that are made meanwhile: so many sequences decode together as
    come in at that rate, and their tokens go out in turn.
    """
    reads, low, high, gap = rules.ranks * rules.read_s * inputs, 0.0, batch, 0.0
    for _ in range(_ENTRIES):
        running = 0.5 * (low + high)
        requests, gap = _passes(point, rules, times, inputs, cached, max(running, 1.0), steps, context)
        if requests * reads < 1.0:
            low = running
        else:
            high = running
    return max(gap, rules.ranks * max(high, 1.0) * write)


@kernel
def steady_point(point, rules, times, inputs, outputs, cached, makes, out):
    """Fills ``out`` with `ANSWER` for requests of ``inputs`` and ``outputs`` tokens, ``cached`` of those in the cache.

    ``makes``: tokens that a row of decoding makes in the mean, 1 without guesses. [-]
    """
    context, steps = inputs + outputs / 2.0, (outputs - 1.0) / makes
    batch = min(point[SEATS], point[CLIENTS], max(1.0, point[TOKENS] / (inputs + 0.5 * outputs)))
    if rules.mixed and point[CHUNKED] == 0.0:  # a whole prompt enters beside those that leave room for it
        batch = min(batch, 1.0 + max(point[BUDGET] - (inputs - cached), 0.0) / (1.0 + rules.guesses))
    requests, gap = _passes(point, rules, times, inputs, cached, batch, steps, context)
    if rules.serial:  # all ranks' prompts and tokens pass one front end in turn
        write = rules.write_s + 0.5 * rules.repeat_s * (outputs - 1.0)
        busy = rules.ranks * (rules.read_s * inputs + write * outputs)
        requests = 1.0 / (1.0 / requests + (rules.read_s * inputs + rules.write_s) / point[CLIENTS])
        if requests * busy > 1.0:
            requests = 1.0 / busy
            gap = _written_gap(point, rules, times, inputs, cached, batch, steps, context, write * makes)
    first = point[CLIENTS] / requests - steps * gap  # the identity of a closed loop
    out[0], out[1], out[2] = requests, first + rules.late * rules.overlap * gap, gap / makes


@kernel
def steady_points(lo, hi, points, rules, times, inputs, outputs, cached, makes, out):
    """`steady_point` of the rows lo..hi of ``points`` (n, len(`POINT`)); ``out`` is (n, len(`ANSWER`))."""
    for i in range(lo, hi):
        steady_point(points[i], rules, times, inputs, outputs, cached, makes, out[i])
