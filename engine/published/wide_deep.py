"""Predictions of the figures in document 002: Wide & Deep on one Cascade Lake socket."""

from __future__ import annotations

from functools import cache, partial

from engine.cost.report import Report
from engine.evaluate import evaluate
from engine.published.prediction import Prediction
from engine.scenario import Scenario
from model_zoo.catalog import default_zoo

WORKLOAD = "wide-deep-criteo"
SAMPLES = 2e6  # of the evaluation set


def scenario(framework: str, precision: str) -> Scenario:
    """TensorFlow: 28 batches of 512 in flight, one a core. MXNet: one batch of 1024 over all cores."""
    batch, streams = (512, 28) if framework == "tensorflow" else (1024, 1)
    return Scenario(system="xeon-8280l", workload=WORKLOAD, batch=batch, streams=streams, precision=precision)


@cache
def report(framework: str, precision: str) -> Report:
    """Evaluation of one bar of figure 6."""
    return evaluate(scenario(framework, precision))


def rate(framework: str, precision: str) -> float:
    """Samples a second. [1/s]"""
    return report(framework, precision).throughput_per_s


def model_bytes(precision: str) -> float:
    """Size of the stored model: products in the precision, tables and the wide part in FP32. [MB]"""
    size = 0.0
    for phase in default_zoo().graph(WORKLOAD).phases:
        for op in phase.ops:
            low = op.contraction and precision == "int8" and op.group != "wide"
            size += op.stored * op.layers * (1 if low else 4)
    return size / 1e6


def _rate(framework: str, precision: str, note: str = "", naive: tuple[str, float] | None = None) -> Prediction:
    return Prediction(
        partial(rate, framework, precision), partial(scenario, framework, precision), "cpu", note, naive=naive
    )


def _speedup(framework: str, fp32: str, int8: str, note: str = "") -> Prediction:
    """INT8 over FP32. [-]"""
    return Prediction(lambda slow, fast: fast / slow, partial(scenario, framework, "int8"), "cpu", note, (fp32, int8))


_ONE_BATCH = (
    "The document names concurrent batches for TensorFlow only: MXNet runs one batch over all 28 cores here. Its "
    "executor differs from TensorFlow's in nothing the model knows, so most of the printed difference is missed."
)

PREDICTIONS: dict[str, Prediction] = {
    "WD-008": _speedup(
        "tensorflow", "WD-010", "WD-011", "The printed gain of 200 % is the ratio of the two rates, as figure 6 shows."
    ),
    "WD-010": _rate("tensorflow", "fp32"),
    "WD-011": _rate("tensorflow", "int8"),
    "WD-012": _rate("mxnet", "fp32", _ONE_BATCH, ("TensorFlow's printed rate", 562_780.0)),
    "WD-013": _rate("mxnet", "int8", _ONE_BATCH, ("TensorFlow's printed rate", 1_210_949.0)),
    "WD-014": _speedup("tensorflow", "WD-010", "WD-011"),
    "WD-015": _speedup("mxnet", "WD-012", "WD-013"),
    "WD-017": Prediction(
        lambda rate: SAMPLES / rate,
        lambda: scenario("tensorflow", "int8"),
        None,
        "Two million samples at the predicted rate.",
        ("WD-011",),
    ),
    "WD-021": Prediction(lambda: model_bytes("fp32"), note="Biases and the wide part included."),
    "WD-022": Prediction(lambda: model_bytes("int8"), note="Lookups and the wide part stay in FP32."),
}

REASONS: dict[str, str] = {
    "WD-009": "The loss belongs to the trained network and the Criteo data, which the document's model file "
    "holds; a cost model has no accuracy. `python -m engine measure wide-deep` measures the same scheme "
    "on synthetic clicks, which is no evidence for Criteo's.",
}
