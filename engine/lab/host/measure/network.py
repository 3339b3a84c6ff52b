"""A network on this host: an ONNX file run by onnxruntime, beside what the CPU model expects of the same file.

Operators are the library's, which people run; a network of the catalog that is counts without weights is not run.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.cost.report import Report
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.lab.counters import Counts, counted
from engine.lab.host.calibrate import HOST, write_spec
from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.measure.run import Bounds, allowed_threads
from engine.lab.timing import Progress, Spread, clock_for, sample
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device
from model_zoo.catalog import Zoo, default_zoo, own_folder

_BATCH = {"batch", "batch_size", "n"}  # what files call their open axis of requests, in lower case
_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
_WHOLE = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}


@dataclass(frozen=True)
class NetworkRun:
    """One network: measured [s], and predicted [s], [1/cycle], [-] where the CPU model prices its operators."""

    workload: str
    batch: int
    threads: int
    runtime: str
    time: Spread
    counts: Counts
    predicted: Report | None = None
    reason: str = ""  # why there is no prediction

    @property
    def predicted_s(self) -> float | None:
        """Time of a request that the model expects. [s] An estimate."""
        return self.predicted.latency_s if self.predicted else None

    @property
    def predicted_counters(self) -> dict[str, float]:
        """Instructions a cycle of a core and cache lines from DRAM of a request. [1/cycle], [-] Estimates."""
        if self.predicted is None:
            return {}
        ops = self.predicted.ops
        issued = sum(op.counters["instructions_per_cycle"] * op.duration_s for op in ops)
        lines = sum(op.counters["dram_lines"] * op.count for op in ops)
        return {"instructions_per_cycle": issued / self.predicted.latency_s, "dram_lines": lines}

    @property
    def error(self) -> float | None:
        """Signed relative error of the prediction. [-]"""
        return None if self.predicted_s is None else self.predicted_s / self.time.median - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, SI units in the keys."""
        low, high = self.time.quartiles
        return {
            "workload": self.workload,
            "precision": "fp32",
            "batch": self.batch,
            "threads": self.threads,
            "runtime": self.runtime,
            "time_s": self.time.median,
            "time_q1_s": low,
            "time_q3_s": high,
            "counters": self.counts.to_dict(),
            "predicted_s": self.predicted_s,
            "predicted_counters": self.predicted_counters,
            "error": self.error,
            "reason": self.reason,
        }


def files() -> dict[str, Path]:
    """The ONNX files of the user's folder of networks, by the id of their workload."""
    return {path.stem: path for path in sorted(own_folder().glob("*.onnx"))}


def _file(workload: str, zoo: Zoo) -> Path:
    path = files().get(workload)
    if path is None:
        zoo.workload(workload)  # an unknown name is refused with the nearest
        raise MeasureError(
            f"workload is {workload[:60]!r}, counts without weights, which nothing can run; allowed: a network whose "
            f"ONNX file lies in {own_folder()} ({', '.join(files()) or 'none does'})"
        )
    for problem in zoo.problems:  # nothing says what it computes, or another network has its name
        if problem.startswith(f"{path.name}: "):
            raise MeasureError(problem)
    return path


def _session(path: Path, threads: int) -> tuple[Any, str]:
    """The file loaded by onnxruntime, and the library's name and version."""
    try:
        import onnxruntime
    except ImportError:
        raise MeasureError(
            "onnxruntime is not installed, which runs networks: pip install 'inferscape[measure]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever the file holds
        raise MeasureError(f"{path.name} can't be run by onnxruntime: {_line(error)}") from None
    return session, f"onnxruntime {onnxruntime.__version__}"


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _feeds(session: Any, batch: int, length: int) -> dict[str, np.ndarray]:
    """Noise for every input, 0 for whole numbers; an open axis is the batch by its name or place, else the length."""
    rng, feeds = np.random.default_rng(7), {}
    inputs = session.get_inputs()
    for feed in inputs:
        hints = any(str(axis).lower() in _BATCH for peer in inputs for axis in peer.shape)
        shape = [
            axis if isinstance(axis, int) else batch if (str(axis).lower() in _BATCH if hints else at == 0) else length
            for at, axis in enumerate(feed.shape)
        ]
        if feed.type in _FLOATS:
            feeds[feed.name] = rng.standard_normal(shape).astype(_FLOATS[feed.type])
        elif feed.type in _WHOLE:
            feeds[feed.name] = np.zeros(shape, _WHOLE[feed.type])
        else:
            raise MeasureError(f"input {feed.name[:40]!r} is a {feed.type}; allowed: {', '.join(_FLOATS | _WHOLE)}")
    return feeds


def predict(device: Device, workload: str, batch: int, threads: int, zoo: Zoo | None = None) -> Report:
    """What the CPU model expects of a request on a device. An estimate.

    Unsupported or ScenarioError where it prices no such network.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_spec(device, Path(folder))
        catalog = Catalog(guests=(Path(folder),))
        scenario = default_scenario(HOST, workload, catalog, zoo)
        return evaluate(scenario.with_(precision="fp32", batch=batch, tile=(threads,), streams=1), catalog, zoo)


def measure_workload(
    workload: str,
    precision: str = "fp32",
    batch: int | None = None,
    threads: int = 1,
    *,
    repeats: int = 7,
    bounds: Bounds | None = None,
    zoo: Zoo | None = None,
    device: Callable[[], Device] | None = None,
    progress: Progress | None = None,
) -> NetworkRun:
    """Time a network of the user's folder; `device` is this host, where a prediction is wanted. A measurement.

    MeasureError in one sentence for a network without an ONNX file, one that the library refuses, and a precision
    other than the file's own.
    """
    zoo, bounds = zoo or default_zoo(), bounds or Bounds()
    if precision != "fp32":
        raise MeasureError(f"precision is {precision[:20]!r}; a file runs in its own: leave it out, or give fp32")
    if batch is not None and not 1 <= batch <= 65536:
        raise MeasureError(f"batch is {batch}; allowed: 1 to 65,536")
    path = _file(workload, zoo)
    request = zoo.workload(workload).request
    batch = request.batch if batch is None else batch
    work = zoo.graph(workload).flops(batch, request.inputs, request.outputs)
    if work > bounds.flops:
        raise MeasureError(f"a request of {workload} is {work / 1e9:,.3g} GFLOP; allowed: {bounds.flops / 1e9:,.3g}")
    session, runtime = _session(path, allowed_threads(threads))
    run = partial(session.run, None, _feeds(session, batch, request.inputs))
    try:
        run()
    except Exception as error:  # the library's, whatever the file asks of it
        raise MeasureError(f"{path.name} stopped: {_line(error)}") from None
    spread = sample(run, clock_for(threads), repeats, bounds.seconds, progress)
    estimate, reason = None, ""
    try:
        estimate = predict(device(), workload, batch, threads, zoo) if device else None
    except (Unsupported, ScenarioError) as error:
        reason = str(error)
    counts = counted(run, threads, spread.median)
    return NetworkRun(workload, batch, threads, runtime, spread, counts, estimate, reason)
