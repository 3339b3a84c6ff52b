"""Slow twins of the DFX machine: a layer in numpy float16 as the document describes it, and a list-based scoreboard."""

import numpy as np

from engine.devices.dfx import program as isa

HALF = np.float16


def pairs(x):
    while len(x) > 1:
        x = np.array([HALF(x[i] + x[i + 1]) for i in range(0, len(x), 2)], HALF)
    return x[0]


def matvec(matrix, x, d, sums=1):
    """[inputs, outputs] fp16 times x: d products, a tree, the running sums that tiles take turns in, each rounded."""
    sums = sums(matrix.shape[1]) if callable(sums) else sums
    k, n = matrix.shape
    deep = -(-k // 128) * 128
    padded, vector = np.zeros((deep, n), HALF), np.zeros(deep, HALF)
    padded[:k], vector[:k] = matrix, x
    out = np.zeros(n, HALF)
    for j in range(n):
        total = [HALF(0)] * (1 << (sums - 1).bit_length())
        for turn, i in enumerate(range(0, deep, d)):
            total[turn % sums] = HALF(total[turn % sums] + pairs(padded[i : i + d, j] * vector[i : i + d]))
        out[j] = pairs(np.array(total, HALF))
    return out


def beats(x, lanes):
    padded = np.zeros(-(-len(x) // lanes) * lanes, HALF)
    padded[: len(x)] = x
    sums = [HALF(0)] * 11  # partial sums that circulate in the adder, one a stage
    for beat, i in enumerate(range(0, len(padded), lanes)):
        sums[beat % 11] = HALF(sums[beat % 11] + pairs(padded[i : i + lanes]))
    return pairs(np.array(sums + [HALF(0)] * 5, HALF))


def norm(x, gamma, beta, lanes):
    mean = HALF(beats(x, lanes) * HALF(1 / len(x)))
    centred = x - mean
    variance = HALF(HALF(beats(centred * centred, lanes) * HALF(1 / len(x))) + HALF(1e-5))
    return centred * HALF(1 / np.sqrt(np.float32(variance))) * gamma.astype(HALF) + beta.astype(HALF)


def rms_norm(x, gamma, lanes):
    variance = HALF(HALF(beats(x * x, lanes) * HALF(1 / len(x))) + HALF(1e-5))
    return x * HALF(1 / np.sqrt(np.float32(variance))) * gamma.astype(HALF)


def turn(x, position, head):
    """Every head of x at its position: pairs (i, i + head / 2) turned by an angle of their own."""
    out, half = np.zeros(len(x), HALF), head // 2
    for start in range(0, len(x), head):
        for i in range(half):
            angle = position * 10_000.0 ** (-i / half)
            cosine, sine = HALF(np.cos(angle)), HALF(np.sin(angle))
            a, b = x[start + i], x[start + half + i]
            out[start + i] = HALF(HALF(a * cosine) + HALF(-b * sine))
            out[start + half + i] = HALF(HALF(b * cosine) + HALF(a * sine))
    return out


def gelu(samples):
    return 0.5 * samples * (1 + np.tanh(np.sqrt(2 / np.pi) * (samples + 0.044715 * samples**3)))


def silu(samples):
    return samples / (1 + np.exp(-samples))


def by_table(x, function):
    table = function(np.arange(2049) / 128 - 8).astype(HALF)
    out = np.zeros(len(x), HALF)
    for i, value in enumerate(x):
        if value >= 8 or value <= -8:
            out[i] = max(value, HALF(0))
            continue
        place = (np.float32(value) + np.float32(8)) * np.float32(128)
        at = int(np.floor(place))
        out[i] = HALF(table[at] + HALF(HALF(place - at) * HALF(table[at + 1] - table[at])))
    return out


def half(pair):
    return pair[0].astype(HALF), pair[1].astype(HALF)


def in_groups(matrix):
    """Every 32 inputs of a column as integers of 8 bits times one fp16 scale, multiplied out in fp16."""
    out = np.zeros(matrix.shape, HALF)
    for j in range(matrix.shape[1]):
        for i in range(0, len(matrix), 32):
            part = matrix[i : i + 32, j].astype(np.float64)
            scale = HALF(max(abs(part)) / 127)
            for k, value in enumerate(part):
                out[i + k, j] = HALF(min(127, max(-127, round(value / float(scale))))) * scale
    return out


def codes(vector):
    """Integers from -127 to 127 and their float32 scale."""
    scale = np.float32(max(abs(float(v)) for v in vector) / 127)
    return [int(np.rint(np.float32(v) / scale)) for v in vector], scale


def of_codes(columns, scales, x):
    """Columns of integers times a vector that becomes integers: exact sums, scaled in float32, rounded once."""
    inputs, own = codes(x)
    sums = [sum(a * b for a, b in zip(column, inputs, strict=True)) for column in columns]
    return np.array([HALF(np.float32(s) * (scale * own)) for s, scale in zip(sums, scales, strict=True)], HALF)


def product(matrix, x, d, sums, format):
    if format == "int8":
        return of_codes(*zip(*(codes(column) for column in matrix.T), strict=True), x)
    return matvec(in_groups(matrix) if format == "w8a16" else matrix.astype(HALF), x, d, sums)


def logits(model, tokens, d=64, sums=1, format="fp16"):
    """fp16 logits of the last of `tokens`, every token through the layers in turn."""
    head, lanes = model.width // model.heads, 64
    cached = format if format == "int8" else "fp16"
    cache = [([], []) for _ in model.layers]
    x = np.zeros(0, HALF)

    def conv(pair, vector):
        return product(pair[0], vector, d, sums, format) + pair[1].astype(HALF)

    for position, token in enumerate(tokens):
        x = model.tokens[token].astype(HALF) + model.positions[position].astype(HALF)
        for layer, (keys, values) in zip(model.layers, cache, strict=True):
            normed = norm(x, layer.gamma1, layer.beta1, lanes)
            v, k, q = (conv(p, normed) for p in (layer.value, layer.key, layer.query))
            keys.append(k)
            values.append(v)
            mixed = []
            for h in range(model.heads):
                cut = slice(h * head, (h + 1) * head)
                scores = product(np.array(keys)[:, cut].T, q[cut], d, sums, cached) * HALF(1 / np.sqrt(head))
                powers = np.exp((scores - scores.max()).astype(np.float32)).astype(HALF)
                powers = powers * HALF(1 / np.float32(beats(powers, lanes)))
                held = np.array(values)[:, cut]
                if cached == "int8":
                    rows, scales = zip(*(codes(row) for row in held), strict=True)
                    powers = np.array([p * HALF(s) for p, s in zip(powers, scales, strict=True)], HALF)
                    mixed.append(of_codes(np.array(rows).T.tolist(), [np.float32(1)] * head, powers))
                else:
                    mixed.append(matvec(held, powers, d, sums))
            middle = conv(layer.out, np.concatenate(mixed)) + x
            normed = norm(middle, layer.gamma2, layer.beta2, lanes)
            x = conv(layer.fc2, by_table(conv(layer.fc1, normed), gelu)) + middle
    return product(model.tokens.T, norm(x, model.gamma, model.beta, lanes), d, sums, format)


def gated_logits(model, tokens, d=64, sums=1):
    """The same of a decoder with RMS norms, rotary positions, shared key heads and a gated feed-forward, no biases."""
    head, lanes, cache = model.width // model.heads, 64, [([], []) for _ in model.layers]
    x = np.zeros(0, HALF)
    for position, token in enumerate(tokens):
        x = model.tokens[token].astype(HALF)
        for layer, (keys, values) in zip(model.layers, cache, strict=True):
            normed = rms_norm(x, layer.gamma1, lanes)
            values.append(matvec(half(layer.value)[0], normed, d, sums))
            keys.append(turn(matvec(half(layer.key)[0], normed, d, sums), position, head))
            q, mixed = turn(matvec(half(layer.query)[0], normed, d, sums), position, head), []
            for h in range(model.heads):
                mine, its = (slice(at * head, (at + 1) * head) for at in (h, h // model.shared))
                scores = matvec(np.array(keys)[:, its].T, q[mine], d, sums) * HALF(1 / np.sqrt(head))
                powers = np.exp((scores - scores.max()).astype(np.float32)).astype(HALF)
                powers = powers * HALF(1 / np.float32(beats(powers, lanes)))
                mixed.append(matvec(np.array(values)[:, its], powers, d, sums))
            middle = matvec(half(layer.out)[0], np.concatenate(mixed), d, sums) + x
            normed = rms_norm(middle, layer.gamma2, lanes)
            wide = by_table(matvec(half(layer.fc1)[0], normed, d, sums), silu)
            wide = wide * matvec(half(layer.up)[0], normed, d, sums)
            x = matvec(half(layer.fc2)[0], wide, d, sums) + middle
    return matvec(model.tokens.T.astype(HALF), rms_norm(x, model.gamma, lanes), d, sums)


def run(code, count, chaining):
    """Cycles of a program: a ledger of every unit's bookings and of every register's use, looked up by searching it."""
    booked = {unit: [] for unit in range(len(isa.UNITS))}
    begun, ended, valid = [], [], []
    rows = code[:count].tolist()
    for i, row in enumerate(rows):
        unit, target = int(row[isa.UNIT]), int(row[isa.DST])
        earliest, follows = [0.0], []
        for source in {int(row[c]) for c in (isa.SRC1, isa.SRC2)} - {isa.NONE}:
            for s in [j for j in range(i) if int(rows[j][isa.DST]) == source][-1:]:
                if chaining and row[isa.CHAIN] and rows[s][isa.CHAIN] and int(rows[s][isa.UNIT]) == unit:
                    follows.append(s)
                    earliest.append(begun[s] + rows[s][isa.LATENCY])
                else:
                    earliest.append(valid[s] + row[isa.WAIT])
        if target != isa.NONE:
            writers = [j for j in range(i) if int(rows[j][isa.DST]) == target][-1:]
            earliest += [valid[j] for j in writers if int(rows[j][isa.UNIT]) != unit]
            readers = [j for j in range(i) if target in (int(rows[j][isa.SRC1]), int(rows[j][isa.SRC2]))]
            last = max(readers, key=lambda j: (ended[j], j), default=None)
            earliest += [ended[last]] if last is not None and int(rows[last][isa.UNIT]) != unit else []
        start = max([*earliest] + [end for _, end in booked[unit]])
        end = start + row[isa.OCCUPY]
        booked[unit].append((start, end))
        begun.append(start)
        ended.append(end)
        valid.append(max([end] + [valid[s] for s in follows]) + row[isa.LATENCY])
    return max(valid), {unit: sum(e - s for s, e in spans) for unit, spans in booked.items()}
