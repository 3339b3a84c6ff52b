"""Measure kernels and networks on this host; see `run` and `network`."""

from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.measure.kernels import KERNELS, kernel_named, shape_of
from engine.lab.host.measure.run import Bounds, KernelRun, host_roofline, measure_kernel, roofs
from engine.lab.timing import MeasurementCancelled, Spread
