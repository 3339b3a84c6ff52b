"""What the app asks a measuring process for: a kernel or a block with what the CPU model expected of it, and a
network trained here."""

from dataclasses import dataclass
from typing import Any

from engine.devices.common.contract import PhaseCost
from engine.devices.common.job import Job
from engine.devices.cpu import family
from engine.lab.host.calibrate import device_of, host
from engine.lab.host.measure.fused import FusedRun, measure_block
from engine.lab.host.measure.run import Bounds, KernelRun, kernel_for, measure_kernel
from engine.lab.numerics.trained import WideDeepStudy, wide_deep_study
from engine.lab.probe import MeasuredRoofline
from engine.lab.timing import Progress
from hardware_specs.schema import Device
from model_zoo.ops import Graph, Op, Phase


@dataclass(frozen=True)
class KernelShown:
    """A run, this host's roofs, and what the cost model expected; None where it prices no such operator."""

    run: KernelRun
    roofline: MeasuredRoofline
    estimate: PhaseCost | None

    @property
    def estimate_s(self) -> float | None:
        """Time of a call. [s] An estimate."""
        return self.estimate.total_s if self.estimate else None

    @property
    def estimated_counters(self) -> dict[str, float]:
        """Instructions a cycle, lines from DRAM and shares of issue slots. [1/cycle], [-] Estimates."""
        return {name: float(value[0]) for name, value in self.estimate.counters.items()} if self.estimate else {}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, SI units in the keys: the run and what was expected of it."""
        expected = {"predicted_s": self.estimate_s, "predicted_counters": self.estimated_counters}
        return self.run.to_dict() | expected


def predict_op(device: Device, op: Op, precision: str, threads: int) -> PhaseCost | None:
    """One operator by itself, run again and again. An estimate; None in formats the CPU has no rate for."""
    low = "fp32" if op.kind == "BinaryGemm" else precision
    if low not in family.formats(device) or (op.kind in ("EmbeddingBag", "Gather") and low != "fp32"):
        return None
    phase, model = Phase("kernel", (op,)), family.FAMILY.model(device)
    switches = {switch.name: switch.name not in ("cold", "network") for switch in family.FAMILY.switches}
    return family.price(Job(device, phase, phase.ops, Graph((phase,), "call"), 1, low, switches, model, (threads,)))


def kernel(
    name: str,
    shape: tuple[int, ...],
    precision: str,
    threads: int,
    repeats: int,
    bounds: Bounds,
    progress: Progress | None,
) -> KernelShown:
    """One kernel, the host probed first (once a process). A measurement beside an estimate."""
    entry = kernel_for(name, shape, precision, threads, bounds)  # before a probe that takes seconds
    roofline, profile = host()
    run = measure_kernel(
        name, shape, precision, threads, repeats=repeats, bounds=bounds, roofline=roofline, progress=progress
    )
    estimate = None
    if entry.op is not None:
        estimate = predict_op(device_of(roofline, profile), entry.op(shape), precision, threads)
    return KernelShown(run, roofline, estimate)


def block(name: str, bounds: Bounds, progress: Progress) -> FusedRun:
    """One block of a network breadth first and depth first. A measurement beside an estimate."""
    return measure_block(name, device_of(*host()), limit_s=bounds.seconds, progress=progress)


def wide_deep(rows: int, progress: Progress) -> WideDeepStudy:
    """Wide & Deep trained on so many rows, in FP32 and INT8. A measurement."""
    return wide_deep_study(rows, held_out=rows, progress=progress)
