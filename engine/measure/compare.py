"""Predicted against measured: the CPU model held against networks that ran on this host.

A network is predicted for what was run: an op whose operator is another op's adds no call of its own, one that no
operator ran is left out of both sides, and one that ran in FP32 is priced in FP32. The rates that other tenants of a
machine change (peaks, last-level cache, DRAM) are probed again beside each network.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from engine.calibrate import HOST, Habits, device_of, write_spec
from engine.choices import default_scenario
from engine.devices import cpu
from engine.devices.family import Job, Unsupported
from engine.evaluate import evaluate
from engine.kernels.probe import Roofline, compute_peak, stream_read
from engine.measure.cases import MeasureError
from engine.measure.run import Bounds, WorkloadRun, measure_workload
from engine.report import Report
from engine.scenario import ScenarioError
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device
from model_zoo.catalog import Zoo, default_zoo
from model_zoo.ops import Graph, Op, Phase

__all__ = ["GOAL", "MOST", "Compared", "compare", "fitting", "predict", "predict_op", "summary"]

GOAL, MOST = 0.20, 2.0  # median error wanted, and the ratio that none should be beyond


@dataclass(frozen=True)
class Compared:
    """One network: the measured and predicted time of the ops that ran, or why it was not run."""

    workload: str
    precision: str
    batch: int
    threads: int
    measured_s: float | None
    quartiles_s: tuple[float, float] | None
    predicted_s: float | None
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """Predicted over measured. [-]"""
        return self.predicted_s / self.measured_s if self.predicted_s and self.measured_s else None

    @property
    def error(self) -> float | None:
        """Signed relative error of the prediction. [-]"""
        return None if self.ratio is None else self.ratio - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, SI units in the keys."""
        return {
            "workload": self.workload, "precision": self.precision, "batch": self.batch, "threads": self.threads,
            "measured_s": self.measured_s, "measured_q1_s": self.quartiles_s[0] if self.quartiles_s else None,
            "measured_q3_s": self.quartiles_s[1] if self.quartiles_s else None, "predicted_s": self.predicted_s,
            "error": self.error, "left_out": list(self.left_out), "notes": list(self.notes), "reason": self.reason,
        }  # fmt: skip


def fitting(zoo: Zoo, bounds: Bounds, most_flops: float) -> dict[str, str]:
    """Every workload, with an empty string where it fits this run's memory and time, else the reason it does not."""
    found = {}
    for id in zoo.ids():
        graph, request = zoo.graph(id), zoo.workload(id).request
        need = 3.0 * 4.0 * graph.parameters  # noise, transposed and packed weights exist at once
        work = graph.flops(request.batch, min(request.inputs, 64), min(request.outputs, 64))
        found[id] = ""
        if need > bounds.bytes:
            found[id] = f"weights take {need / 1e9:,.3g} GB while they are packed; {bounds.bytes / 1e9:,.3g} GB allowed"
        elif work > most_flops:
            found[id] = f"a request is {work / 1e9:,.3g} GFLOP; {most_flops / 1e9:,.3g} allowed"
    return found


def _reports(device: Device, run: WorkloadRun) -> Callable[[str, bool], Report]:
    """Report of the workload on the device in a precision, with operators fused or each apart; remembered."""
    known: dict[tuple[str, bool], Report] = {}

    def report(precision: str, fused: bool) -> Report:
        key = (precision, fused)
        if key not in known:
            with tempfile.TemporaryDirectory() as folder:
                write_spec(device, Path(folder))
                catalog = Catalog().with_guest(Path(folder))
                base = default_scenario(HOST, run.workload, catalog)
                scenario = base.with_(
                    precision=precision, batch=run.batch, tile=(run.threads,), streams=1,
                    switches=base.switches | {"fuse": fused, "cold": False, "preprocess-apart": False},
                )  # fmt: skip
                known[key] = evaluate(scenario, catalog)
        return known[key]

    return report


def predict(device: Device, run: WorkloadRun) -> float:
    """Time of a request that the CPU model expects for the ops that ran. [s] An estimate."""
    report = _reports(device, run)
    rows: dict[tuple[str, bool], dict[tuple[str, str], Any]] = {}
    total = 0.0
    for op in run.ops:
        if op.reason:
            continue
        fused = bool(op.inside)
        precision = "fp32" if op.precision == "binary" else op.precision
        key = (precision, fused)
        if key not in rows:
            rows[key] = {(row.name, row.phase): row for row in report(precision, fused).ops}
        row = rows[key][op.name, op.phase]
        total += row.time_s - (row.resources["overhead"] if fused else 0.0)
    return total


def predict_op(device: Device, op: Op, precision: str, threads: int) -> float | None:
    """Time of one operator by itself, run again and again. [s] An estimate; None in formats the CPU has no rate for."""
    low = "fp32" if op.kind == "BinaryGemm" else precision
    if low not in cpu.formats(device) or (op.kind in ("EmbeddingBag", "Gather") and low != "fp32"):
        return None
    phase = Phase("kernel", (op,))
    job = Job(
        device, phase, phase.ops, Graph((phase,), "call"), 1, 1.0, 1.0, 1.0, 1, 1, low, (threads,),
        {switch.name: switch.name not in ("cold", "network") for switch in cpu.FAMILY.switches},
        cpu.FAMILY.model(device),
    )  # fmt: skip
    return cpu.price(job).total_s


def _beside(roofline: Roofline) -> Roofline:
    """The roofline with the rates that change while others use the machine, as they are now."""
    l3 = min(roofline.caches.l3 // 2, 4 * roofline.caches.l2)
    memory = 8 * roofline.caches.l3
    return replace(
        roofline,
        fp32=compute_peak("f32", 0.005),
        int8=compute_peak("u8s8", 0.005) if roofline.isa == "avx512vnni" else roofline.int8,
        l2=stream_read(roofline.caches.l2 // 2, 0.01, rounds=3),
        l3=stream_read(l3, 0.005, rounds=3),
        dram=stream_read(memory, 0.005, rounds=2),
        dram_all=stream_read(memory, 0.005, threads=roofline.threads, rounds=2),
    )


def compare(
    roofline: Roofline,
    found: Habits,
    workloads: Sequence[str] | None = None,
    precision: str = "fp32",
    threads: int = 1,
    *,
    bounds: Bounds | None = None,
    most_flops: float = 4e10,
    zoo: Zoo | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Compared]:
    """Measure the workloads that fit and predict each; a validation of the CPU model on this host."""
    zoo, bounds = zoo or default_zoo(), bounds or Bounds(bytes=4e9, seconds=1.0)
    offered = fitting(zoo, bounds, most_flops)
    wanted = list(workloads) if workloads else list(offered)
    rows: list[Compared] = []
    for at, id in enumerate(wanted):
        if progress:
            progress(id, at, len(wanted))
        zoo.workload(id)  # an unknown name is the caller's to hear of
        reason = offered.get(id, "") if workloads is None else ""
        batch = zoo.workload(id).request.batch
        nothing = (id, precision, batch, threads, None, None, None, (), ())
        if reason:
            rows.append(Compared(*nothing, reason=reason))
            continue
        try:
            before = _beside(roofline)
            run = measure_workload(id, precision, threads=threads, repeats=5, bounds=bounds, zoo=zoo)
            now = _mean(before, _beside(roofline))
            predicted = predict(device_of(now, found), run)
        except (MeasureError, Unsupported, ScenarioError) as error:
            rows.append(Compared(*nothing, reason=str(error)))
            continue
        left = tuple(op.name for op in run.missing)
        rows.append(
            Compared(id, precision, run.batch, threads, run.time.median, run.time.quartiles, predicted, left, run.notes)
        )
    return rows


def _mean(a: Roofline, b: Roofline) -> Roofline:
    """Rates halfway between two probes."""
    names = ("fp32", "int8", "l2", "l3", "dram", "dram_all")
    return replace(a, **{name: (getattr(a, name) * getattr(b, name)) ** 0.5 for name in names})


def summary(rows: Sequence[Compared]) -> str:
    """`27 networks: median error 12%, worst 1.8x (gru-...)`, held against the goal; one sentence."""
    known = [row for row in rows if row.ratio is not None]
    if not known:
        return "No network was compared."
    errors = [abs(row.error) for row in known if row.error is not None]
    worst = max(known, key=lambda row: max(row.ratio, 1 / row.ratio) if row.ratio else 0.0)
    assert worst.ratio is not None
    off = max(worst.ratio, 1 / worst.ratio)
    beyond = sum(max(row.ratio, 1 / row.ratio) > MOST for row in known if row.ratio)
    met = median(errors) <= GOAL and off <= MOST
    return (
        f"{len(known)} networks: median error {median(errors):.0%} (goal {GOAL:.0%}), {beyond} beyond {MOST:.0f}x, "
        f"worst {off:.2f}x ({worst.workload}); the goal is {'met' if met else 'missed'}."
    )
