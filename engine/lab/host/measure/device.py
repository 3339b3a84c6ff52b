"""A kernel of this host on any other device: what the operator model of `op`, or the CPU model, predicts for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.devices.common.contract import Job
from engine.devices.cpu import family
from engine.devices.gpu.operators.kinds import KINDS
from engine.devices.gpu.operators.predict import Answers, predict
from engine.devices.gpu.operators.record import NoModel, part_of
from engine.devices.gpu.operators.rows import RowsError, checked
from engine.lab.host.measure.kernels import kernel_named
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.schema import Device
from model_zoo.ops import Graph, Op, Phase

_EIGHT = ("sq", "fp8")  # the operator tables' formats of 8 bits, first what a host's INT8 is
_STREAMED = {"layer-norm": "norm", "gelu": "act"}


@dataclass(frozen=True)
class OperatorPrediction:
    """One operator on one device: an estimate with its 90% band, and the data sheet's bound; else why there is none."""

    device: str
    seconds: float | None  # [s]
    low: float | None = None  # [s]
    high: float | None = None  # [s]
    bound: float | None = None  # [s]
    format: str = ""
    reason: str = ""


def devices_with_operators(catalog: Catalog | None = None) -> dict[str, str]:
    """Devices that operators are predicted on, by id with their name."""
    catalog = catalog or default_catalog()
    names = {}
    for id in catalog.ids("devices"):
        device = catalog.device(id)
        try:
            if device.cpu is None:
                part_of(device, catalog)
        except NoModel:
            continue
        names[id] = device.name
    return names


def _predicted(kind: str, row: dict[str, str]) -> Answers:
    return predict(KINDS[kind], *checked(KINDS[kind], {name: [value] for name, value in row.items()}))


def _row(kernel: str, shape: Sequence[int]) -> tuple[str, dict[str, str]]:
    """The kind of operator a kernel is, and a row of its table; NoModel where it is of none."""
    if kernel in ("gemm", "gemv"):
        m, k, n = (1, *shape) if kernel == "gemv" else shape
        return "gemm", {"m": str(m), "n": str(n), "k": str(k), "dtype": "bfloat16"}
    if kernel in _STREAMED:
        rows, columns = shape
        return "elementwise", {"op": _STREAMED[kernel], "tokens": str(rows), "width": str(columns), "dtype": "float16"}
    raise NoModel(f"no operators like {kernel_named(kernel).title.lower()} were measured on other devices")


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


def predict_elsewhere(
    kernel: str, shape: tuple[int, ...], precision: str, device: str, catalog: Catalog | None = None
) -> OperatorPrediction:
    """What a kernel of this host takes on a device of the catalog, with weights in its caches as measured here. [s]"""
    catalog = catalog or default_catalog()
    spec = catalog.device(device)
    entry = kernel_named(kernel)
    try:
        if spec.cpu is not None:
            cores = max(1, int(spec.cpu.cores.si))
            if entry.op is None:
                raise NoModel(f"the CPU model prices no {entry.title.lower()} by itself")
            seconds = predict_op(spec, entry.op(shape), precision, cores)
            if seconds is None:
                raise NoModel(f"{spec.name} has no rate for {precision}")
            return OperatorPrediction(spec.name, seconds, format=precision, reason="no evidence for a band")
        kind, row = _row(kernel, shape)
        wanted = _EIGHT if precision == "int8" and kind == "gemm" else (row["dtype"],)
        tried = [_predicted(kind, row | {"device": device, "dtype": format}) for format in wanted]
        at = next((i for i, one in enumerate(tried) if not one.why[0]), len(tried) - 1)
        attempt = tried[at]
        if attempt.why[0]:
            raise NoModel(attempt.reasons[attempt.why[0]])
    except (NoModel, RowsError) as error:
        return OperatorPrediction(spec.name, None, reason=str(error))
    low, high = (float(column[0]) if math.isfinite(column[0]) else None for column in (attempt.low, attempt.high))
    return OperatorPrediction(spec.name, float(attempt.seconds[0]), low, high, float(attempt.bound[0]), wanted[at])
