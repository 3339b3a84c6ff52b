"""Measure kernels and networks on this host; see `engine.host.measure.run` and `engine.host.measure.network`."""

from engine.host.measure.cases import MeasureError
from engine.host.measure.kernels import KERNELS, kernel_named, shape_of
from engine.host.measure.network import OpRun, WorkloadRun, measure_workload
from engine.host.measure.run import Bounds, KernelRun, host_roofline, measure_kernel, roofs
from engine.kernels.timing import MeasurementCancelled, Spread
