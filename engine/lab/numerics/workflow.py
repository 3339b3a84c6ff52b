"""Document 000's quantisation workflow, run: profile on kernels, lower what takes the time, raise what hurts.

A study trains or seeds a small network, observes the ranges of activations on the tuning split, times every operator in
every format on this host, and searches precisions until the service's own metric holds on held-out data. The plan it
ends with names operators as the zoo does and so fits a scenario. Times and losses are measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from engine.lab.numerics.metrics import cosine, normalised_entropy, sqnr_db
from engine.lab.numerics.mixed import MixedPlan, profile, search
from engine.lab.numerics.small_models import Data, encoder, recommender
from engine.numerics.formats import NumericsError
from engine.scenario import Scenario

_ROWS = 2048  # rows of a timed product, items of timed lookups
_TABLES = ("int4", "int8", "fp16")
_BITS = {"int4": 4.0, "int8": 8.0, "fp16": 16.0}


@dataclass(frozen=True)
class Study:
    """A small network, the metric it is held to, and the workloads its plan fits."""

    title: str
    metric: str
    bound: float  # largest loss allowed, as a share
    build: Callable[[], tuple[Any, dict[str, Data]]]
    loss: Callable[[Data, np.ndarray, np.ndarray], float]  # (data, reference answer, answer)
    workloads: tuple[str, ...]


def _entropy_loss(data: Data, exact: np.ndarray, values: np.ndarray) -> float:
    """Relative rise of the normalised entropy. [-]"""
    return normalised_entropy(data.labels, values) / normalised_entropy(data.labels, exact) - 1


def _cosine_loss(_: Data, exact: np.ndarray, values: np.ndarray) -> float:
    """One minus the smallest cosine of an embedding with its exact self. [-]"""
    return 1 - min(cosine(a, b) for a, b in zip(exact, values, strict=True))


STUDIES: dict[str, Study] = {
    "recommendation": Study(
        "Recommendation model, trained",
        "rise of the normalised entropy",
        0.0005,
        recommender,
        _entropy_loss,
        ("dlrm-more-complex", "dlrm-less-complex"),
    ),
    "text": Study("Text encoder, seeded", "1 - cosine of the embedding", 0.02, encoder, _cosine_loss, ("xlm-r-large",)),
}
"""Studies by name; their bounds are those of document 000, section V-A."""


@dataclass(frozen=True)
class WorkflowResult:
    """The plan a study ended with, and its loss on data that no step of the search has seen."""

    name: str
    plan: MixedPlan
    bound: float
    untouched_loss: float
    layers: dict[str, str]  # operators left wider than INT8: a scenario's `layers`
    table_bits: float | None  # of a stored table element, on average; None: no tables

    @property
    def met(self) -> bool:
        """Whether the bound holds where the plan was searched and on data that no step has seen."""
        return self.plan.met and self.untouched_loss <= self.bound


def study(name: str, bound: float | None = None, wide: str = "fp16", repeats: int = 5) -> WorkflowResult:
    """Run a study; NumericsError in one sentence for a name or a bound that is none.

    Parameters
    ----------
    bound : largest loss of the metric; the document's where left out. [-]
    wide : format that what is not lowered runs in, fp16 or bf16; losses are against FP32.
    repeats : timed runs of each operator in each format.
    """
    if name not in STUDIES:
        raise NumericsError(f"study is {name[:40]!r}; allowed: {', '.join(STUDIES)}")
    if wide not in ("fp16", "bf16"):
        raise NumericsError(f"wide is {wide[:40]!r}; allowed: fp16, bf16")
    if not 1 <= repeats <= 1000:
        raise NumericsError(f"repeats is {repeats}; allowed: 1 to 1000")
    kind = STUDIES[name]
    bound = kind.bound if bound is None else bound
    if not 0 < bound < 1:
        raise NumericsError(f"bound is {bound}; allowed: above 0, below 1")
    model, splits = kind.build()
    inputs: dict[str, np.ndarray] = {}
    exact = {split: model.run(data, {}, inputs if split == "tuning" else None) for split, data in splits.items()}
    ladders = {op: _TABLES if op.startswith("table") else ("int8", wide) for op in model.names}
    stacks = model.stacks if hasattr(model, "stacks") else [getattr(model, "layers", {})]
    for layers in stacks:
        for op, layer in layers.items():
            layer.limits = None
            if len(stacks) == 1:
                layer.observe(inputs[op])  # static ranges; layers that share a name take each batch's own
    times = {op: _times(model, op, inputs[op], ladders[op], repeats) for op in model.names}

    def loss(plan: Mapping[str, str], split: str) -> float:
        return kind.loss(splits[split], exact[split], model.run(splits[split], plan))

    def alone(op: str, format: str) -> float:
        ratio = sqnr_db(exact["tuning"], model.run(splits["tuning"], {op: format}))
        return float(10 ** (-ratio / 10))

    tables = [op for op in model.names if op.startswith("table")]
    plan = search(times, loss, alone, ladder=ladders, bound=bound, always=tables)
    wider = {op: wide for op, format in plan.precision.items() if not op.startswith("table") and format != "int8"}
    bits = [_BITS[format] for op, format in plan.precision.items() if op.startswith("table")]
    mean = sum(bits) / len(bits) if bits else None
    return WorkflowResult(name, plan, bound, loss(plan.precision, "untouched"), wider, mean)


def _times(model: Any, op: str, x: np.ndarray, ladder: tuple[str, ...], repeats: int) -> dict[str, float]:
    """Seconds of an operator on some rows in each format, on this host."""
    if op.startswith("table"):
        runs = {format: partial(model.tables.bags, int(op[5:]) - 1, x[:_ROWS], format) for format in ladder}
    else:
        layers = [stack[op] for stack in model.stacks] if hasattr(model, "stacks") else [model.layers[op]]
        rows = np.ascontiguousarray(x[:_ROWS])
        runs = {format: partial(_all, layers, rows, format) for format in ladder}
    return profile(runs, repeats)


def _all(layers: list[Any], x: np.ndarray, format: str) -> None:
    for layer in layers:
        layer.run(x, format)


def in_scenario(result: WorkflowResult, scenario: Scenario) -> Scenario:
    """The scenario in INT8 with the layers and tables as the plan has them; ScenarioError where it has none of them."""
    changed = scenario.with_(precision="int8", layers=result.layers)
    if result.table_bits is None:
        return changed
    return changed.with_(overrides={**scenario.overrides, "model.table_bits": result.table_bits})
