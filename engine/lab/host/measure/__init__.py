"""Measure kernels and networks on this host; see `run` and `network`."""

from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.measure.run import (
    KERNELS,
    Bounds,
    KernelRun,
    kernel_named,
    measure_kernel,
    roofs,
    shape_of,
)
from engine.lab.timing import MeasurementCancelled, Spread
