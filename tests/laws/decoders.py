"""Hostile inputs for every decoder of text from outside: each must answer, or refuse in one printable sentence.

A million of them, in all decoders, with seconds and outcomes:

    PYTHONPATH=. nice -n 19 .venv/bin/python -m tests.laws.decoders 1000000 [scenario space ...]
"""

import base64
import json
import random
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from app.shared import comparison
from app.views.sweep import spaces
from engine.cli.traffic import _arrivals, _law
from engine.devices.common.contract import Unsupported
from engine.resolve.presets import PRESETS
from engine.scenario import decode, encode, make, token_in
from engine.scenario.overrides import apply, parse_setting
from engine.scenario.token import ScenarioError
from engine.sweep import space_of
from engine.traffic import Demand, Sla
from hardware_specs.quantity import SpecError, parse
from model_zoo.schema import WorkloadError

OURS = (ScenarioError, SpecError, WorkloadError, Unsupported)
LONGEST = 1500  # characters of a sentence; some list every known workload

BASES = [preset.scenario for preset in PRESETS.values()]
TOKENS = [encode(base) for base in BASES]
TEXTS = [
    "", " ", "a", "batch", "xeon-8280l", "wide-deep-criteo", "fp16", "1e999", "-1e999", "nan", "inf", "0x10", "1_0",
    "\ud800", "a\nb", "\x1b[31mred", "\u202eabc", "\u2060", "²", "٣", "x" * 400, "9" * 5000, "1" * 400, "900 GB/s",
    "1e-320 W", "../x", "<img src=x>", "=cmd()", "%s%n", "{0}", "null", "true", "latency_s", "latency_s <= 0.1",
    "fits", "latency_s:min", "devices.0.cpu.clock", "links.host.bandwidth", "model.x", "tile.0", "16x16", "params.x",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 1.5, 0.0, -0.0, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, -(2**64), 10**18, 10**400]
NUMBERS += [float("inf"), float("-inf"), float("nan"), True, False]
PATHS = ["batch", "streams", "inputs", "tile", "tile.0", "params.x", "switches.x", "layers.x", "costs.pue", "limits.x"]
PATHS += ["devices", "devices.0.cpu.cores", "system.host.x", "model.overhead", "links.peer.latency", "precision", "set"]


class _Raw(str):
    """JSON as it is written: what no number or text of Python turns into."""


RAW = [_Raw(text) for text in ("1e999", "-1e999", "NaN", "Infinity", '"\\ud800"', '"\\udfff\\ud800"', "1" * 400)]


def value(r: random.Random, depth: int = 0) -> Any:
    """Any value, now and then a container of others; keys need not be text."""
    kind = r.random()
    if depth < 4 and kind < 0.12:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    if depth < 4 and kind < 0.24:
        keys = [*PATHS, *TEXTS, "from", "to", "steps", "by", "scale", "whole", 5, None, 1.5, True, 2**64]
        return {r.choice(keys): value(r, depth + 1) for _ in range(r.randrange(4))}
    if kind < 0.3:
        return None
    if kind < 0.35:
        return r.choice(RAW)
    return r.choice(NUMBERS) if kind < 0.65 else r.choice(TEXTS)


def plain(found: Any) -> Any:
    """A value without raw JSON: what the Python interface or a YAML file hands over."""
    if isinstance(found, _Raw):
        return float("inf")
    if isinstance(found, dict):
        return {key: plain(part) for key, part in found.items()}
    return [plain(part) for part in found] if isinstance(found, list) else found


def written(found: Any) -> str:
    """JSON of a value, with raw parts as they are and keys of any kind."""
    if isinstance(found, _Raw):
        return str(found)
    if isinstance(found, dict):
        keys = [(str(key) if not isinstance(key, str) else key, part) for key, part in found.items()]
        return "{" + ",".join(f"{json.dumps(key)}:{written(part)}" for key, part in keys) + "}"
    if isinstance(found, list):
        return "[" + ",".join(map(written, found)) + "]"
    return json.dumps(found)


def token(head: str, text: bytes, r: random.Random) -> str:
    """A token of such a text whose checksum is right, most of the time."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    body = text if head[1:] == "j" else packer.compress(text) + packer.flush()
    check = zlib.crc32(text) if r.random() < 0.95 else r.getrandbits(32)
    return head + base64.urlsafe_b64encode(check.to_bytes(4, "big") + body).rstrip(b"=").decode()


def bent(r: random.Random, text: str) -> str:
    """A text with some characters changed, cut or doubled."""
    at = r.randrange(len(text) + 1)
    return r.choice(
        [
            text[:at],
            text[:at] + chr(r.choice([0, 33, 65, 126, 200, 0xD800, 0x1F600])) + text[at + 1 :],
            text[:at] + text,
            text[at:],
        ]
    )


def _fields(r: random.Random) -> dict[Any, Any]:
    fields: dict[Any, Any] = r.choice(BASES).model_dump(mode="json")
    for _ in range(r.randrange(1, 4)):
        key = r.choice([*fields, r.choice(TEXTS)])
        inner = fields.get(key)
        if isinstance(inner, dict) and r.random() < 0.7:
            fields[key] = {**inner, r.choice([*inner, *PATHS, *TEXTS]): value(r)}
        elif r.random() < 0.1:
            fields.pop(key, None)
        else:
            fields[key] = value(r)
    return fields


def scenario(r: random.Random) -> Callable[[], Any]:
    """A scenario's token, or its fields as a file has them."""
    kind = r.random()
    if kind < 0.15:
        text = bent(r, r.choice(TOKENS))
        return lambda: decode(token_in(text))
    fields = _fields(r) if kind < 0.9 else value(r)
    if kind < 0.5:
        data = plain(fields)
        return lambda: make(data)
    text = token(r.choice(["1z", "1j"]), written(fields).encode(), r)
    return lambda: decode(text)


def _space(r: random.Random) -> Any:
    base: Any = r.choice([r.choice(TOKENS), {"system": "xeon-8280l", "workload": "wide-deep-criteo"}, value(r)])
    if isinstance(base, dict) and r.random() < 0.5:
        base = base | {r.choice([*PATHS, *TEXTS, 5]): value(r)}
    ends = {"from": r.choice([1, 2.5, value(r)]), "to": r.choice([8, 64, value(r)])}
    ends |= {r.choice(["steps", "by", "scale", "whole", "x"]): r.choice([1, 3, value(r)]) for _ in range(2)}
    axes = {r.choice([*PATHS, *TEXTS, 5]): r.choice([[1, 2], ends, value(r)]) for _ in range(r.randrange(4))}
    result: dict[Any, Any] = {"scenario": base, "axes": r.choice([axes, axes, axes, value(r)])}
    for key in ("objectives", "constraints", r.choice([*TEXTS, 5])):
        if r.random() < 0.3:
            result[key] = value(r)
    return result


def space(r: random.Random) -> Callable[[], Any]:
    """A space's token or plain data, of the engine or of the page."""
    kind = r.random()
    if kind < 0.4:
        data = plain(_space(r))
        return lambda: space_of(data)
    if kind < 0.6:
        text = token("1s", written(_space(r)).encode(), r)
        return lambda: space_of(text)
    ends = {"from": r.choice(["1", value(r)]), "to": r.choice(["9", value(r)]), "log": value(r)}
    ends["steps"] = r.choice([3, value(r)])
    rows = [[r.choice([*PATHS, value(r)]), r.choice([[1, 2], ends, value(r)])] for _ in range(r.randrange(4))]
    page = {"axes": r.choice([rows, rows, value(r)]), "objectives": r.choice([["latency_s"], value(r)])}
    text = token("1z", written(r.choice([page, page, page, value(r)])).encode(), r)
    if kind > 0.95:
        text = bent(r, text)
    return lambda: spaces.read(text)


def compared(r: random.Random) -> Callable[[], Any]:
    """A comparison: tokens with notes, some damaged."""
    notes = ["", ".aGk", ".\ud800", "." + "A" * 300, ".@", ".gICA"]
    parts = []
    for _ in range(r.randrange(1, 12)):
        kind = r.random()
        text = token("1z", written(_fields(r)).encode(), r) if kind < 0.25 else r.choice(TOKENS)
        parts.append((bent(r, text) if kind > 0.5 else text) + r.choice(notes))
    text = r.choice(["10", "17", "99", "1", "", "1²"]) + "~" + "~".join(parts)
    return lambda: comparison.read(text[: r.choice([9999, len(text), 200])])


def setting(r: random.Random) -> Callable[[], Any]:
    """``path=value`` of a command line, or a path and a value of an axis."""
    base = r.choice(BASES)
    path = r.choice([*PATHS, *TEXTS, f"overrides.{r.choice(TEXTS)}"])
    if r.random() < 0.5:
        text = f"{path}={r.choice([*TEXTS, *map(str, NUMBERS)])}"
        return lambda: apply(base, *parse_setting(text))
    given = plain(value(r))
    return lambda: apply(base, path, given)


def traffic(r: random.Random) -> Callable[[], Any]:
    """Arrivals, sizes, agreements, demands and quantities as a command line spells them."""
    digits = [*map(str, NUMBERS), *TEXTS, "0.1", "4", "20", "1e-300", "1e300"]
    part = partial(r.choice, digits)
    kind = r.randrange(5)
    if kind == 0:
        head = r.choice(["poisson", "deterministic", "gamma", "bursty", "diurnal", "trace", part()])
        text = ":".join([head, *(r.choice([part(), f"{part()},{part()}"]) for _ in range(r.randrange(4)))])
        qps = r.choice([1.0, 1e6, 1e-9])
        return lambda: _arrivals(text, qps)
    if kind == 1:
        head = r.choice(["fixed", "uniform", "lognormal", "mixed", part()])
        pairs = ",".join(f"{part()}={part()}" for _ in range(r.randrange(3)))
        text = ":".join([head, *(r.choice([part(), pairs]) for _ in range(r.randrange(4)))])
        return lambda: _law("sizes", text)
    if kind == 2:
        time_of, metric, unit = (r.choice([*some, part()]) for some in (["", "ttft:"], ["p99", "mean"], ["ms", "s"]))
        text = f"{time_of}{metric}={part()}{unit}"
        return lambda: Sla.parse(text)
    if kind == 3:
        numbers = [float(n) for n in NUMBERS if not 10**308 < n < float("inf")]
        loads = tuple(r.choice(numbers) for _ in range(r.randrange(4)))
        return lambda: Demand(loads)
    text = r.choice([part(), f"{part()} {r.choice(['GB/s', 'W', 'EB', 'm', part()])}"])
    return lambda: parse(text)


DECODERS = {"scenario": scenario, "space": space, "comparison": compared, "setting": setting, "traffic": traffic}


def outcome(call: Callable[[], Any]) -> str:
    """``read`` or ``refused``; AssertionError where a refusal is no sentence, and whatever else escapes."""
    try:
        call()
    except OURS as error:
        said = str(error)
        assert said, "a refusal without words"
        assert said.isprintable(), said
        assert len(said) <= LONGEST, said
        return "refused"
    return "read"


def run(kind: str, count: int, seed: int = 0) -> Counter[str]:
    """Outcomes of that many inputs of one decoder; the first wrong one is raised with the number that makes it."""
    result: Counter[str] = Counter()
    for number in range(count):
        call = DECODERS[kind](random.Random(f"{kind}.{seed}.{number}"))
        begun = time.perf_counter()
        try:
            result[outcome(call)] += 1
        except Exception as error:
            said = f"{kind} input {seed}.{number}: {type(error).__name__}: {error!s:.200}"
            raise AssertionError(said) from None
        if time.perf_counter() - begun > 1.0:
            result["over a second"] += 1
    return result


if __name__ == "__main__":
    kinds = sys.argv[2:] or [*DECODERS]
    each = int(sys.argv[1]) // len(kinds) if len(sys.argv) > 1 else 1000
    for name in kinds:
        begun = time.perf_counter()
        sys.stdout.write(f"{name:12} {each:,}: {dict(run(name, each))} in {time.perf_counter() - begun:.0f} s\n")
        sys.stdout.flush()
