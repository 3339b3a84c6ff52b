"""Measure kernels and networks on this host; see `engine.measure.run` and `engine.measure.network`."""

from engine.measure.cases import MeasureError
from engine.measure.kernels import KERNELS, kernel_named, shape_of
from engine.measure.network import OpRun, WorkloadRun, measure_workload
from engine.measure.run import Bounds, KernelRun, host_roofline, measure_kernel, roofs
from engine.measure.timing import Cancelled, Spread

__all__ = [
    "KERNELS",
    "Bounds",
    "Cancelled",
    "KernelRun",
    "MeasureError",
    "OpRun",
    "Spread",
    "WorkloadRun",
    "host_roofline",
    "kernel_named",
    "measure_kernel",
    "measure_workload",
    "roofs",
    "shape_of",
]
