"""Measure kernels and networks on this host; see `engine.measure.run`."""

from engine.measure.cases import MeasureError
from engine.measure.kernels import KERNELS, kernel_named, shape_of
from engine.measure.run import (
    Bounds,
    KernelRun,
    OpRun,
    WorkloadRun,
    host_roofline,
    measure_kernel,
    measure_workload,
    roofs,
)
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
