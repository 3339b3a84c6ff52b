"""A routed-expert block on one rank: how many tokens meet each expert, and grouped products over them. Estimates.

Loads of experts follow a distribution: even, or a power law cut off at every token, whose quantiles are written out. A
rank of several is the most loaded one, as the others wait for it. Experts fall into a few classes of one load each; a
class's tiles are those of a matrix product that no one splits along k, and weights that are met are read once.
"""

import numpy as np

from engine.devices.gpu.operators import slots as S
from engine.devices.gpu.operators.gemm import TILES
from engine.devices.gpu.operators.terms import answer, hit_share, overlap, regime
from engine.kernels.ir.doubles import FULL, above, alike, at_least, chosen, entry, larger, rounded_up
from engine.kernels.jit import kernel

CLASSES = 8  # of experts by load
_DEEP = 32.0
# tokens at which half of sorting many is paid: few are sorted in one block, many by a chain of kernels; assumed
_SORTED = 256.0

# a format on a part: the first three as in `gemm.FORMAT`, then the kernel's constants
FORMAT = ("flop_s", "in_bytes", "weight_bytes", "start", "share", "passes", "sort", "block", "step", "read")
FLOP_S, IN_BYTES, WEIGHT_BYTES, START, SHARE, PASSES, SORT, BLOCK, STEP, READ = range(10)


@kernel
def expert_loads(tokens, topk, experts, ranks, exponent, counts, loads):
    """Experts of one rank by class: fills ``counts`` and tokens each ``loads`` (CLASSES); returns the rank's total.

    ``exponent`` 0 deals tokens evenly; above 1, expert loads are quantiles of a density ``x ** -exponent`` between 1
    and the number of tokens, scaled to what is routed, and the rank holds the largest.
    """
    assignments = tokens * topk
    local = experts / ranks
    for c in range(CLASSES):
        counts[c], loads[c] = 0.0, 0.0
    if exponent <= 0.0:
        active = min(experts, assignments)
        counts[0], loads[0] = max(1.0, active / ranks), assignments / active
        return counts[0] * loads[0]
    reach = max(0.8 * tokens, 2.0)
    far = reach ** (1.0 - exponent)
    if exponent == 2.0:
        mean = np.log(reach) / (1.0 - far)
    else:
        mean = (exponent - 1.0) / (exponent - 2.0) * (1.0 - reach * far) / (1.0 - far)
    scale = assignments / (experts * mean)
    top = min(tokens, max(reach * scale, 1.0))  # what has all others wait has a token
    remainder = max(local - 1.0, 0.0) if ranks > 1.0 else local
    # loads are whole: below half a token none, and what rounding leaves over goes to any expert, a token each
    none = min(max((1.0 - max(0.5 / scale, 1.0) ** (1.0 - exponent)) / (1.0 - far), 0.0), 1.0)
    mean = 0.0
    for c in range(CLASSES):
        u = none + (1.0 - none) * (c + 0.5) / CLASSES
        x = (1.0 + u * (far - 1.0)) ** (1.0 / (1.0 - exponent)) * scale
        counts[c], loads[c] = remainder * (1.0 - none) / CLASSES, max(min(x, tokens), 1.0)
        mean += (1.0 - none) / CLASSES * loads[c]
    over, total = assignments / experts - mean, 0.0
    single = remainder * none * min(max(over, 0.0), 1.0)
    spare = remainder * max(-over, 0.0)  # what rounding adds too much is taken from those with least
    for c in range(CLASSES):
        loads[c] = min(loads[c] + max(over, 0.0), tokens)
        cut = min(counts[c], spare / loads[c])
        counts[c] -= cut
        spare -= cut * loads[c]
    if single > 0.0:
        loads[0] = (counts[0] * loads[0] + single) / (counts[0] + single)
        counts[0] += single
    for c in range(CLASSES):
        total += counts[c] * loads[c]
    if ranks > 1.0:
        # the largest of all joins the class it is nearest to: the last one, which quantiles leave below it
        members = counts[CLASSES - 1] + 1.0
        loads[CLASSES - 1] = (counts[CLASSES - 1] * loads[CLASSES - 1] + top) / members
        counts[CLASSES - 1] = members
        total += top
    return total


@kernel
def met_experts(tokens, topk, experts):
    """Experts that meet one of some tokens when each picks at random. [-]"""
    return experts * (1.0 - (1.0 - topk / experts) ** tokens)


@kernel
def sort_seconds(tokens, form):
    """Seconds that sorting the picks of so many tokens by expert takes beyond those of one. [s]"""
    return form[SORT] * tokens / (tokens + _SORTED)


@kernel
def grouped_seconds(classes, counts, loads, n, k, hit, machine, form):
    """Seconds of one product of every expert's tokens with its own ``(k, n)`` weights, and its regime.

    Sizes and entries of ``machine`` and ``form`` are single doubles or `LANES` side by side, of ``counts`` and
    ``loads``, so many ``classes``, as many lanes as ``n`` has.
    """
    units, room = machine[S.UNITS], machine[S.L2_SHARE] * machine[S.L2]
    best, index = alike(units, np.inf), alike(units, 0.0)
    active, total = alike(n, 0.0), alike(n, 0.0)
    for c in range(classes):
        active = active + entry(n, counts, c)
        total = total + entry(n, counts, c) * entry(n, loads, c)
    weights, inputs, outputs = active * n * k * form[WEIGHT_BYTES], total * k * form[IN_BYTES], total * n * 2.0
    near = hit_share(inputs + outputs, room)
    misses = weights * (1.0 - hit) + (inputs + outputs) * (1.0 - near)
    dram = misses / (machine[S.BANDWIDTH] * form[READ])
    for t in range(TILES.shape[0]):
        rows, columns = TILES[t, 0], TILES[t, 1]
        excess = at_least(columns, 2.0 * n) if columns > 64.0 else 0
        if excess == FULL:
            continue
        down = alike(n, 0.0)
        for c in range(classes):
            down = down + entry(n, counts, c) * rounded_up(entry(n, loads, c) / rows)
        waves = rounded_up(down * rounded_up(n / columns) / units)
        deep = rounded_up(k / _DEEP) * _DEEP
        compute = waves * 2.0 * rows * columns * deep * form[FLOP_S] * units / form[SHARE]
        feed = waves * (rows * form[IN_BYTES] + columns * form[WEIGHT_BYTES]) * deep / machine[S.FEED]
        tail = deep * form[STEP] + waves * rows * columns * 2.0 / machine[S.STORE]
        filling = larger(waves - 1.0, 0.0) * form[BLOCK]
        seconds = overlap(compute, feed, dram, filling) + tail
        better = above(best, seconds) & ~excess
        index = chosen(better, regime(compute, feed, dram, 0.0, tail), index)
        best = chosen(better, seconds, best)
    return best, index


@kernel
def block_seconds(tokens, hidden, inter, topk, experts, tensor, ranks, gated, exponent, cold, machine, form, out):
    """Seconds of routing, both grouped products, the activation and the combination on one rank; fills ``out``."""
    counts, loads = np.empty(CLASSES), np.empty(CLASSES)
    total = expert_loads(tokens, topk, experts, ranks, exponent, counts, loads)
    active = 0.0
    for c in range(CLASSES):
        active += counts[c]
    width = inter / tensor
    matrices = 2.0 + gated
    weights = active * matrices * hidden * width * form[WEIGHT_BYTES]
    warm = not cold
    hit = hit_share(weights, machine[S.L2_SHARE] * machine[S.L2]) if warm else 0.0
    first, _ = grouped_seconds(CLASSES, counts, loads, width * (1.0 + gated), hidden, hit, machine, form)
    second, index = grouped_seconds(CLASSES, counts, loads, hidden, width, hit, machine, form)
    rows = 2.0 * form[PASSES] * tokens * hidden * (2.0 + topk)  # a rank passes over all tokens' picks, not only its own
    near = hit_share(rows, 2.0 * machine[S.L2])
    stream = machine[S.BANDWIDTH] * machine[S.DRAM_SHARE]
    passing = rows * ((1.0 - near) / stream + near / (machine[S.UNITS] * machine[S.FEED]))
    compute = 2.0 * total * matrices * hidden * width * form[FLOP_S]
    memory = max(weights - (machine[S.L2] if warm else 0.0), 0.0) / machine[S.BANDWIDTH]
    start = form[START] + sort_seconds(tokens, form)
    index = float(S.AT_START) if start > first + second else index
    answer(first + second + passing + start, index, compute, memory, out)


@kernel
def block_rows(lo, hi, sizes, exponent, cold, machine, form, out):
    """`block_seconds` of the rows lo..hi, ``sizes`` columns in its order; ``out`` is (rows, `slots.ANSWER`)."""
    tokens, hidden, inter, topk, experts, tensor, ranks, gated = sizes
    for i in range(lo, hi):
        size = tokens[i], hidden[i], inter[i], topk[i], experts[i], tensor[i], ranks[i], gated[i]
        block_seconds(*size, exponent, cold, machine, form, out[i])


@kernel
def batched_rows(lo, hi, tokens, heads, n, k, cold, machine, form, out):
    """Answers to the rows lo..hi, one product ``(tokens, k) x (k, n)`` for each head; as `block_rows`. Estimate."""
    counts, loads = np.empty(1), np.empty(1)
    for i in range(lo, hi):
        counts[0], loads[0] = heads[i], tokens[i]
        weights = heads[i] * n * k * form[WEIGHT_BYTES]
        rows = heads[i] * tokens[i] * (k * form[IN_BYTES] + n * 2.0)
        hit = 0.0 if cold else hit_share(weights + rows, machine[S.L2_SHARE] * machine[S.L2])
        product, index = grouped_seconds(1, counts, loads, n, k, hit, machine, form)
        passing = rows * form[PASSES] / (machine[S.BANDWIDTH] * machine[S.DRAM_SHARE])
        compute = 2.0 * heads[i] * tokens[i] * n * k * form[FLOP_S]
        memory = max(weights + rows - machine[S.L2], weights if cold else 0.0) / machine[S.BANDWIDTH]
        index = float(S.AT_START) if form[START] > product + passing else index
        answer(product + passing + form[START], index, compute, memory, out[i])
