"""What the app asks a measuring process for: a kernel or a block with what the CPU model expected of it, and a
network trained here."""

from dataclasses import dataclass

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
    """A run, this host's roofs, and the time the cost model expected; None where it prices no such operator. [s]"""

    run: KernelRun
    roofline: MeasuredRoofline
    estimate_s: float | None


def predict_op(device: Device, op: Op, precision: str, threads: int) -> float | None:
    """Time of one operator by itself, run again and again. [s] An estimate; None in formats the CPU has no rate for."""
    low = "fp32" if op.kind == "BinaryGemm" else precision
    if low not in family.formats(device) or (op.kind in ("EmbeddingBag", "Gather") and low != "fp32"):
        return None
    phase, model = Phase("kernel", (op,)), family.FAMILY.model(device)
    switches = {switch.name: switch.name not in ("cold", "network") for switch in family.FAMILY.switches}
    return family.price(
        Job(device, phase, phase.ops, Graph((phase,), "call"), 1, low, switches, model, (threads,))
    ).total_s


def kernel(
    name: str, shape: tuple[int, ...], precision: str, threads: int, repeats: int, bounds: Bounds, progress: Progress
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
    return wide_deep_study(rows, batches=(512,), held_out=rows, progress=progress)
