"""Kinds of operators: the columns a row of each needs, and the compiled model that answers many rows of one part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.devices.gpu.operators import gemm
from engine.devices.gpu.operators.record import NoModel, Part, fitted, format_named, format_record, layers, machine
from engine.devices.gpu.operators.slots import ANSWER
from engine.kernels.jit import run_chunks

__all__ = ["KINDS", "Kind", "Numbers", "Texts", "constants_of", "runtime_of"]

Texts = Mapping[str, str]
Numbers = Mapping[str, np.ndarray]
Model = Callable[[Part, Texts, Numbers, bool, Mapping[str, Any] | None], np.ndarray]

_CHUNK = 8192  # rows one thread takes at a time


@dataclass(frozen=True)
class Kind:
    """One kind of operator: columns of text, numbers from 1, numbers from 0, all by name, and its model."""

    name: str
    title: str
    shape: tuple[str, ...]  # numbers that --shape gives, in this order
    model: Model
    texts: Mapping[str, str | None]  # columns that choose the format or the variant, with their default; None: required
    format: str  # which of them --precision sets
    grows: tuple[str, ...]  # numbers that are amounts of work
    zeros: frozenset[str] = frozenset()  # numbers that may be 0
    defaults: Mapping[str, float] = field(default_factory=dict)  # numbers that may be left out


def constants_of(part: Part, kind: str, format: str, runtime: str, given: Mapping[str, Any] | None = None) -> Any:
    """Constants of a kind and format on a part's generation: the runtime's own, else the first one's that has any."""
    if given is not None:
        return given["kind"]
    table = fitted()[part.generation].get(kind, {}).get(format)
    if table is None:
        raise NoModel(f"no {kind} in {format} was measured on generation {part.generation}")
    return table.get(runtime) or next(iter(table.values()))


def runtime_of(texts: Texts) -> str:
    """Runtime a row names, trtllm where it names none."""
    return texts.get("framework") or "trtllm"


def _machine(part: Part, given: Mapping[str, Any] | None) -> np.ndarray:
    return machine(part, given["machine"] if given is not None else None)


def spread(rows: int, work: Callable[[int, int], None]) -> None:
    """Runs a range kernel over all rows on the process-wide threads."""
    if rows <= _CHUNK:
        work(0, rows)
        return
    spans: Iterator[tuple[int, int]] = ((lo, min(lo + _CHUNK, rows)) for lo in range(0, rows, _CHUNK))
    for _ in run_chunks(lambda span: work(*span), spans):
        pass


def _gemm(part: Part, texts: Texts, numbers: Numbers, cold: bool, given: Mapping[str, Any] | None) -> np.ndarray:
    format, runtime = format_named(texts["dtype"]), runtime_of(texts)
    form = format_record(part, format, constants_of(part, "gemm", format, runtime, given))
    m, n, k = (numbers[name] for name in ("m", "n", "k"))
    held = layers(n * k * form[gemm.WEIGHT_BYTES], part.l2, runtime, texts.get("version", ""), format)
    held = np.zeros_like(m) if cold else held
    out, rig = np.empty((m.shape[0], ANSWER)), _machine(part, given)
    spread(m.shape[0], lambda lo, hi: gemm.product_rows(lo, hi, m, n, k, held, rig, form, out))
    return out


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("gemm", "one linear layer, no bias", ("m", "n", "k"), _gemm, {"dtype": None}, "dtype", ("m", "n", "k")),
    )
}
"""Every kind by its name, which is the name of the file that holds such rows."""
