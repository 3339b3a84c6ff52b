"""Run a network on this host, op by op in its order. Everything here is a **measurement** of this host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from engine.kernels import jit
from engine.lab.host.measure.cases import Case, MeasureError, relative_error, shared_activations
from engine.lab.host.measure.lowering import Piece, lower
from engine.lab.host.measure.run import Bounds, allowed_threads
from engine.lab.timing import MeasurementCancelled, Progress, Spread, clock_for
from model_zoo.catalog import Zoo, default_zoo

WEIGHT_FORMATS = ("fp32", "bf16", "fp16", "int8")
_STEPS = 24  # of a recurrence: they are alike, so more would only take longer


@dataclass(frozen=True)
class OpRun:
    """One op of a network: what ran it and how long all its executions of a request took, or why nothing ran it."""

    name: str
    kind: str
    phase: str
    kernel: str  # empty where nothing ran
    inside: str  # the op whose operator did this one, or empty
    reason: str  # why nothing ran it, or empty
    precision: str
    time_s: float | None
    error: float | None


@dataclass(frozen=True)
class WorkloadRun:
    """A network, measured op by op in its order; the time is of the ops that ran."""

    workload: str
    precision: str
    batch: int
    threads: int
    isa: str
    time: Spread
    ops: tuple[OpRun, ...]
    flops: float  # of the ops that ran
    notes: tuple[str, ...]

    @property
    def missing(self) -> tuple[OpRun, ...]:
        """Ops that no operator ran."""
        return tuple(op for op in self.ops if op.reason)

    @property
    def rate(self) -> float:
        """Achieved. [FLOP/s]"""
        return self.flops / self.time.median

    @property
    def error(self) -> float | None:
        """Largest error of an op against float64. [-]"""
        return max((op.error for op in self.ops if op.error is not None), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, SI units in the keys."""
        low, high = self.time.quartiles
        return {
            "workload": self.workload,
            "precision": self.precision,
            "batch": self.batch,
            "threads": self.threads,
            "isa": self.isa,
            "time_s": self.time.median,
            "time_q1_s": low,
            "time_q3_s": high,
            "rate_flop_per_s": self.rate,
            "flops": self.flops,
            "error_rms_worst": self.error,
            "not_run": [{"op": op.name, "kind": op.kind, "reason": op.reason} for op in self.missing],
            "ops": [asdict(op) for op in self.ops],
            "notes": list(self.notes),
        }


@dataclass
class _Loaded:
    """A piece with its buffers, how many of its layers are run, and what a run stands for."""

    piece: Piece
    case: Case
    factor: float  # executions of a request over executions of a pass here
    steps: int
    error: float | None

    @property
    def layers(self) -> int:
        """Layers run in a pass."""
        return _layers(self.piece, self.case)


def _layers(piece: Piece, case: Case) -> int:
    """Layers of a piece that are run apart: those with weights of their own, else few, as they are alike."""
    return len(case.runs) if piece.weight_bytes else min(piece.copies, 4)


def measure_workload(
    workload: str,
    precision: str = "fp32",
    batch: int | None = None,
    threads: int = 1,
    *,
    repeats: int = 7,
    bounds: Bounds | None = None,
    zoo: Zoo | None = None,
    progress: Progress | None = None,
) -> WorkloadRun:
    """Time a network of the zoo with our operators. A measurement, scaled where `notes` says so.

    Layers beyond the memory allowed, and steps of a recurrence beyond a few, are timed on as many as fit and counted
    for all. Ops without an operator are in `missing`; their time is not in `time`.
    """
    zoo, bounds = zoo or default_zoo(), bounds or Bounds()
    if precision not in WEIGHT_FORMATS:
        raise MeasureError(f"precision is {precision[:20]!r}; allowed for a workload: {', '.join(WEIGHT_FORMATS)}")
    graph, request = zoo.graph(workload), zoo.workload(workload).request
    batch = request.batch if batch is None else batch
    if not 1 <= batch <= 65536:
        raise MeasureError(f"batch is {batch}; allowed: 1 to 65,536")
    if any(op.kind == "BinaryGemm" for phase in graph.phases for op in phase.ops) and precision != "fp32":
        raise MeasureError(f"precision is {precision!r}; a binary network has bits and FP32 only")
    notes: list[str] = []
    total: list[float] = []
    ops: list[OpRun] = []
    flops = 0.0
    share = bounds.bytes / len(graph.phases)
    for index, phase in enumerate(graph.phases):
        length, context = (d.at(request.inputs, request.outputs) for d in (phase.length, phase.context))
        at = (float(batch), length, context)
        repeat = phase.repeat.at(request.inputs, request.outputs)
        if repeat <= 0:
            continue
        work = sum(op.flops.at(*at) for op in phase.ops)
        if work > bounds.flops:
            raise MeasureError(
                f"one layer of {workload} is {work / 1e9:,.3g} GFLOP; allowed: {bounds.flops / 1e9:,.3g}"
            )
        pieces = lower(phase, at, precision, allowed_threads(threads), int(share / 2 / 256))

        def stepped(done: int, wanted: int, index: int = index) -> bool | None:
            return progress(index * wanted + done, len(graph.phases) * wanted) if progress else None

        with shared_activations(share / 8):
            loaded = _load(pieces, share, repeat, notes)
            spent, sums = _timed(loaded, threads, repeats, bounds.seconds / len(graph.phases), stepped)
        total = [a + b for a, b in zip(total, sums, strict=False)] if total else sums
        at_name = {entry.piece.op.name: (entry, seconds) for entry, seconds in zip(loaded, spent, strict=True)}
        for piece in pieces:
            entry, seconds = at_name.get(piece.op.name, (None, None))
            if not piece.reason:
                op = piece.op
                flops += op.flops.at(*at) * op.layers * op.steps.at(*at) * repeat
            ops.append(
                OpRun(
                    piece.op.name,
                    piece.op.kind,
                    phase.name,
                    entry.case.kernel if entry else "",
                    piece.inside,
                    piece.reason,
                    piece.precision,
                    seconds,
                    entry.error if entry else None,
                )
            )
    lost = [op for op in ops if op.reason]
    if lost:
        notes.append(f"{len(lost)} of {len(ops)} ops have no operator here: {', '.join(op.name for op in lost[:6])}")
    return WorkloadRun(
        workload,
        precision,
        batch,
        threads,
        jit.isa(),
        Spread(tuple(total)),
        tuple(ops),
        flops,
        tuple(dict.fromkeys(notes)),
    )


def _load(pieces: Sequence[Piece], budget: float, repeat: float, notes: list[str]) -> list[_Loaded]:
    """Buffers for the pieces, with fewer layers where all of them would not fit."""
    wanted = sum(p.weight_bytes * p.copies for p in pieces if p.make)
    share = min(1.0, budget / (3.0 * max(wanted, 1.0)))  # noise, transposed and packed copies exist at once
    loaded = []
    for piece in pieces:
        if piece.make is None:
            continue
        kept = max(1, int(piece.copies * share)) if piece.weight_bytes else 1
        if 3.0 * piece.weight_bytes > budget:
            raise MeasureError(
                f"{piece.op.name} holds {piece.weight_bytes / 1e9:.3g} GB; allowed: {budget / 3e9:.3g} GB for an op"
            )
        if piece.weight_bytes and kept < piece.copies:
            notes.append(f"{kept} of {piece.copies} layers held in memory; times count for all")
        steps = min(piece.steps, _STEPS)
        if steps < piece.steps:
            notes.append(f"{steps} of {piece.steps} steps timed; times count for all")
        case = piece.make(kept)
        factor = piece.copies / _layers(piece, case) * piece.steps / steps * repeat
        loaded.append(_Loaded(piece, case, factor, steps, relative_error(case)))
    return loaded


def _timed(
    loaded: Sequence[_Loaded], threads: int, repeats: int, seconds: float, progress: Progress
) -> tuple[list[float], list[float]]:
    """Median time of each piece over passes in the network's order, and the sum of every pass; scaled to a request."""
    clock = clock_for(threads)
    blocks = [[e for _, e in group] for _, group in groupby(enumerate(loaded), key=lambda x: x[1].piece.copies)]
    index = {id(entry): i for i, entry in enumerate(loaded)}
    limit = time.perf_counter() + seconds
    passes: list[list[float]] = []
    for turn in range(-1, repeats):
        if turn >= 3 and time.perf_counter() > limit:
            break
        spent = [0.0] * len(loaded)
        for block in blocks:
            layers = max(entry.layers for entry in block)
            for layer in range(layers):
                for entry in block:
                    if layer >= entry.layers:
                        continue
                    run = entry.case.runs[layer % len(entry.case.runs)]
                    entry.case.touch()
                    started = clock()
                    for _ in range(entry.steps):
                        run()
                    spent[index[id(entry)]] += clock() - started
        if turn >= 0:  # the first pass compiled and touched the buffers
            passes.append([s * e.factor for s, e in zip(spent, loaded, strict=True)])
        if progress(max(turn, 0) + 1, repeats) is False:
            raise MeasurementCancelled
    medians = [float(sorted(p[i] for p in passes)[len(passes) // 2]) for i in range(len(loaded))]
    return medians, [sum(p) for p in passes]
