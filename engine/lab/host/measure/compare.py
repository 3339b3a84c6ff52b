"""Predicted against measured: the CPU model held against networks that ran on this host.

A network is predicted for what was run: an op whose operator is another op's adds no call of its own, one that no
operator ran is left out of both sides, and one that ran in FP32 is priced in FP32. The rates that other tenants of a
machine change (peaks, last-level cache, DRAM) are probed again beside each network.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from engine.cost.report import Report
from engine.devices.common.contract import Job, Unsupported
from engine.devices.cpu import family
from engine.evaluate import evaluate
from engine.lab.host.calibrate import HOST, device_of, write_spec
from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.measure.network import WorkloadRun, measure_workload
from engine.lab.host.measure.run import Bounds
from engine.lab.host.profile import HostProfile
from engine.lab.probe import MeasuredRoofline, Prober, compute_peak
from engine.lab.timing import Progress
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device
from model_zoo.catalog import Zoo, default_zoo
from model_zoo.ops import Graph, Op, Phase

GOAL, MOST = 0.20, 2.0  # median error wanted, and the ratio that none should be beyond
MOST_FLOPS = 4e10  # of a request: a second or so of one thread


@dataclass(frozen=True)
class Share:
    """One operator's part of a network, measured and predicted. [s]"""

    kernel: str
    measured_s: float
    predicted_s: float


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
    kernels: tuple[Share, ...] = ()

    @property
    def widest(self) -> Share | None:
        """The operator whose prediction is furthest off, in time."""
        return max(self.kernels, key=lambda k: abs(k.predicted_s - k.measured_s), default=None)

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
            "workload": self.workload,
            "precision": self.precision,
            "batch": self.batch,
            "threads": self.threads,
            "measured_s": self.measured_s,
            "measured_q1_s": self.quartiles_s[0] if self.quartiles_s else None,
            "measured_q3_s": self.quartiles_s[1] if self.quartiles_s else None,
            "predicted_s": self.predicted_s,
            "error": self.error,
            "left_out": list(self.left_out),
            "notes": list(self.notes),
            "reason": self.reason,
            "kernels": [asdict(share) for share in self.kernels],
        }


def fitting(zoo: Zoo, bounds: Bounds, most_flops: float) -> dict[str, str]:
    """Every workload, with an empty string where it fits this run's memory and time, else the reason it does not."""
    result = {}
    for id in zoo.ids():
        graph, request = zoo.graph(id), zoo.workload(id).request
        need = 3.0 * 4.0 * graph.parameters  # noise, transposed and packed weights exist at once
        work = graph.flops(request.batch, min(request.inputs, 64), min(request.outputs, 64))
        result[id] = ""
        if need > bounds.bytes:
            result[id] = (
                f"weights take {need / 1e9:,.3g} GB while they are packed; {bounds.bytes / 1e9:,.3g} GB allowed"
            )
        elif work > most_flops:
            result[id] = f"a request is {work / 1e9:,.3g} GFLOP; {most_flops / 1e9:,.3g} allowed"
    return result


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
                    precision=precision,
                    batch=run.batch,
                    tile=(run.threads,),
                    streams=1,
                    switches=base.switches | {"fuse": fused, "cold": False, "preprocess-apart": False},
                )
                known[key] = evaluate(scenario, catalog)
        return known[key]

    return report


def predict_ops(device: Device, run: WorkloadRun) -> dict[tuple[str, str], float]:
    """Time of a request that the CPU model expects for each op that ran, by name and phase. [s] An estimate."""
    report = _reports(device, run)
    rows: dict[tuple[str, bool], dict[tuple[str, str], Any]] = {}
    result: dict[tuple[str, str], float] = {}
    for op in run.ops:
        if op.reason:
            continue
        fused = bool(op.inside)
        precision = "fp32" if op.precision == "binary" else op.precision
        key = (precision, fused)
        if key not in rows:
            rows[key] = {(row.name, row.phase): row for row in report(precision, fused).ops}
        row = rows[key][op.name, op.phase]
        result[op.name, op.phase] = row.time_s - (row.resources["overhead"] if fused else 0.0)
    return result


def _kernels(run: WorkloadRun, predicted: dict[tuple[str, str], float]) -> tuple[Share, ...]:
    """Measured and predicted time of each operator that ran, an op inside another one's counted with it."""
    kernel_of = {(op.name, op.phase): re.sub(r"^\d+ x ", "", op.kernel) for op in run.ops if op.kernel}
    measured: dict[str, float] = defaultdict(float)
    expected: dict[str, float] = defaultdict(float)
    for op in run.ops:
        if op.reason:
            continue
        kernel = kernel_of[op.inside or op.name, op.phase]
        measured[kernel] += op.time_s or 0.0
        expected[kernel] += predicted[op.name, op.phase]
    return tuple(Share(kernel, measured[kernel], expected[kernel]) for kernel in measured)


def predict_op(device: Device, op: Op, precision: str, threads: int) -> float | None:
    """Time of one operator by itself, run again and again. [s] An estimate; None in formats the CPU has no rate for."""
    low = "fp32" if op.kind == "BinaryGemm" else precision
    if low not in family.formats(device) or (op.kind in ("EmbeddingBag", "Gather") and low != "fp32"):
        return None
    phase = Phase("kernel", (op,))
    job = Job(
        device,
        phase,
        phase.ops,
        Graph((phase,), "call"),
        1,
        1.0,
        1.0,
        1.0,
        1,
        1,
        low,
        (threads,),
        {switch.name: switch.name not in ("cold", "network") for switch in family.FAMILY.switches},
        family.FAMILY.model(device),
    )
    return family.price(job).total_s


class MeasuredHost:
    """This host, to hold networks against: its profile, and its roofs as they are now."""

    def __init__(self, roofline: MeasuredRoofline, profile: HostProfile) -> None:
        self._roofline, self._found = roofline, profile
        self._prober = Prober()

    def now(self) -> MeasuredRoofline:
        """The roofline with the rates that change while others use the machine, taken anew."""
        known, prober = self._roofline, self._prober
        return replace(
            known,
            fp32=compute_peak("f32", 0.005, 3),
            int8=compute_peak("u8s8", 0.005, 3) if known.isa == "avx512vnni" else known.int8,
            bf16=compute_peak("bf16", 0.005, 3) if known.bf16 is not None else None,
            l2=prober.near("l2", 3),
            l3=prober.near("l3", 3),
            dram=prober.far(1, 2),
            dram_all=prober.far(known.threads, 2),
        )

    def compared(
        self,
        workload: str,
        precision: str = "fp32",
        threads: int = 1,
        *,
        bounds: Bounds | None = None,
        zoo: Zoo | None = None,
        progress: Progress | None = None,
    ) -> Compared:
        """Measure one network and predict it from the roofs before and after; a reason where it does not run here."""
        zoo = zoo or default_zoo()
        batch = zoo.workload(workload).request.batch
        try:
            before = self.now()
            run = measure_workload(
                workload,
                precision,
                threads=threads,
                repeats=5,
                bounds=bounds or Bounds(bytes=4e9, seconds=1.0),
                zoo=zoo,
                progress=progress,
            )
            device = device_of(_mean(before, self.now()), self._found)
            predicted = predict_ops(device, run)
        except (MeasureError, Unsupported, ScenarioError) as error:
            return Compared(workload, precision, batch, threads, None, None, None, (), (), str(error))
        left = tuple(op.name for op in run.missing)
        return Compared(
            workload,
            precision,
            run.batch,
            threads,
            run.time.median,
            run.time.quartiles,
            sum(predicted.values()),
            left,
            run.notes,
            kernels=_kernels(run, predicted),
        )


def compare(
    roofline: MeasuredRoofline,
    profile: HostProfile,
    workloads: Sequence[str] | None = None,
    precision: str = "fp32",
    threads: int = 1,
    *,
    bounds: Bounds | None = None,
    most_flops: float = MOST_FLOPS,
    zoo: Zoo | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Compared]:
    """Measure the workloads that fit and predict each; a validation of the CPU model on this host."""
    zoo, bounds = zoo or default_zoo(), bounds or Bounds(bytes=4e9, seconds=1.0)
    wanted = dict.fromkeys(workloads, "") if workloads else fitting(zoo, bounds, most_flops)
    for id in wanted:
        zoo.workload(id)  # an unknown name is the caller's to hear of, before anything is measured
    host = MeasuredHost(roofline, profile)
    rows: list[Compared] = []
    for at, (id, reason) in enumerate(wanted.items()):
        if progress:
            progress(id, at, len(wanted))
        if reason:
            batch = zoo.workload(id).request.batch
            rows.append(Compared(id, precision, batch, threads, None, None, None, (), (), reason))
        else:
            rows.append(host.compared(id, precision, threads, bounds=bounds, zoo=zoo))
    return rows


def _mean(a: MeasuredRoofline, b: MeasuredRoofline) -> MeasuredRoofline:
    """Rates halfway between two probes."""
    names = ("fp32", "int8", "l2", "l3", "dram", "dram_all", *(("bf16",) if a.bf16 is not None else ()))
    return replace(a, **{name: (getattr(a, name) * getattr(b, name)) ** 0.5 for name in names})


def summary(rows: Sequence[Compared]) -> str:
    """`27 networks: median error 12%, worst 1.80× (gru-...)`, held against the goal; one sentence."""
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
        f"{len(known)} networks: median error {median(errors):.0%} (goal {GOAL:.0%}), {beyond} beyond {MOST:.0f}×, "
        f"worst {off:.2f}× ({worst.workload}); the goal is {'met' if met else 'missed'}."
    )
