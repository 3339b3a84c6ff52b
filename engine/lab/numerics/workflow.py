"""Document 000's quantisation workflow, run: profile on kernels, lower what takes the time, raise what hurts.

The study trains a small recommendation model, observes the ranges of activations on the tuning split, times every
operator in every format on this host, and searches precisions until the service's own metric holds on held-out data.
The search lowers the fewest operators that cover a share of the time to the lowest rung of a ladder of formats; while
the metric's loss on the tuning split, and then on the held-out one, exceeds the bound, it raises the operator of
largest own error a rung. The plan it ends with names operators as the zoo does and so fits a scenario. Times and
losses are measurements.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from time import perf_counter

import numpy as np

from engine.lab.numerics.metrics import normalised_entropy, sqnr_db
from engine.lab.numerics.small_models import recommender
from engine.lab.timing import sample
from engine.numerics.formats import NumericsError
from engine.scenario import Scenario


@dataclass(frozen=True)
class Step:
    """One move of the search and what the whole network then costs and loses."""

    operator: str
    """Operator moved; ``*`` for the opening move that lowers all chosen ones."""
    precision: str
    own_error: float | None
    """Error of that operator alone in the precision it was moved out of, for which it was picked; None for the opening
    move."""
    tuning_loss: float
    held_out_loss: float | None
    """Loss on the held-out split, measured only when the tuning split met the bound."""
    time_s: float
    """Sum of the operators' times."""


@dataclass(frozen=True)
class MixedPlan:
    """The precision of every operator, the moves that led there, and whether the bound holds on held-out data."""

    precision: Mapping[str, str]
    steps: tuple[Step, ...]
    reference_time: float
    holds: bool


def search(
    times: Mapping[str, Mapping[str, float]],
    loss: Callable[[Mapping[str, str], str], float],
    own_error: Callable[[str, str], float],
    *,
    ladder: Mapping[str, Sequence[str]],
    bound: float,
    share: float = 0.95,
    always: Collection[str] = (),
) -> MixedPlan:
    """Find precisions whose loss stays within ``bound`` on tuning and held-out data.

    Parameters
    ----------
    times : seconds of each operator in each format of ``ladder``. [s]
    loss : ``loss(plan, split)`` of the whole network against the reference, split ``tuning`` or ``held_out``; lower is
        better and the reference has none.
    own_error : ``own_error(operator, format)`` with every other operator at the reference.
    ladder : two formats or more by operator, from the cheapest to the reference.
    share : part of the reference time the quantised operators must cover. [-]
    always : operators lowered whatever their time (tables are for their size).
    """
    reference, own_error = {name: rungs[-1] for name, rungs in ladder.items()}, cache(own_error)
    slowest = sorted(times, key=lambda name: -times[name][reference[name]])
    total = sum(times[name][reference[name]] for name in times)
    operators: list[str] = []
    for name in slowest:
        if sum(times[n][reference[n]] for n in operators) >= share * total:
            break
        operators.append(name)
    operators += [name for name in always if name not in operators]
    plan = {name: ladder[name][0] if name in operators else reference[name] for name in times}
    steps: list[Step] = []

    def record(operator: str, error: float | None) -> bool:
        tuning = loss(plan, "tuning")
        test = loss(plan, "held_out") if tuning <= bound else None
        seconds = sum(times[name][plan[name]] for name in times)
        precision = "/".join(dict.fromkeys(ladder[n][0] for n in operators)) if operator == "*" else plan[operator]
        steps.append(Step(operator, precision, error, tuning, test, seconds))
        return test is not None and test <= bound

    within = record("*", None)
    while not within:
        candidates = [name for name in times if plan[name] != reference[name]]
        if not candidates:
            break
        worst = max(candidates, key=lambda name: own_error(name, plan[name]))
        error = own_error(worst, plan[worst])
        plan[worst] = ladder[worst][ladder[worst].index(plan[worst]) + 1]
        within = record(worst, error)
    return MixedPlan(dict(plan), tuple(steps), total, within)


NAME, TITLE = "recommendation", "Recommendation model, trained"
METRIC, BOUND = "rise of the normalised entropy", 0.0005
"""What the study is held to, and the largest loss that document 000 allows (section V-A). [-]"""
WORKLOAD = "dlrm-more-complex"
"""What a plan is put into."""
_ROWS = 2048  # rows of a timed product, items of timed lookups
_BITS = {"int4": 4.0, "int8": 8.0, "fp16": 16.0}  # of an element of a table, by the formats tried


@dataclass(frozen=True)
class WorkflowResult:
    """The plan a study ended with, and its loss on data that no step of the search has seen."""

    plan: MixedPlan
    bound: float
    untouched_loss: float
    layers: dict[str, str]  # operators left wider than INT8: a scenario's `layers`
    table_bits: float  # of a stored table element, on average

    @property
    def holds(self) -> bool:
        """Whether the bound holds where the plan was searched and on data that no step has seen."""
        return self.plan.holds and self.untouched_loss <= self.bound


def study(name: str = NAME, bound: float = BOUND, wide: str = "fp16", repeats: int = 5) -> WorkflowResult:
    """Run the study; NumericsError in one sentence for a name or a bound that is none.

    Parameters
    ----------
    bound : largest relative rise of the normalised entropy. [-]
    wide : format that what is not lowered runs in, fp16 or bf16; losses are against FP32.
    repeats : timed runs of each operator in each format.
    """
    if name != NAME:
        raise NumericsError(f"study is {name[:40]!r}; allowed: {NAME}")
    if wide not in ("fp16", "bf16"):
        raise NumericsError(f"wide is {wide[:40]!r}; allowed: fp16, bf16")
    if not 1 <= repeats <= 1000:
        raise NumericsError(f"repeats is {repeats}; allowed: 1 to 1000")
    if not 0 < bound < 1:
        raise NumericsError(f"bound is {bound}; allowed: above 0, below 1")
    model, splits = recommender()
    inputs: dict[str, np.ndarray] = {}
    exact = {split: model.run(data, {}, inputs if split == "tuning" else None) for split, data in splits.items()}
    ladders = {op: tuple(_BITS) if op in model.bags else ("int8", wide) for op in model.names}
    for op, layer in model.layers.items():
        layer.observe(inputs[op])  # static ranges
    times = {}
    for op in model.names:
        run = partial(model.tables.bags, model.bags.index(op)) if op in model.bags else model.layers[op].run
        x = np.ascontiguousarray(inputs[op][:_ROWS])
        times[op] = {f: sample(partial(run, x, f), perf_counter, repeats).median for f in ladders[op]}

    def loss(plan: Mapping[str, str], split: str) -> float:
        labels = splits[split].labels
        return normalised_entropy(labels, model.run(splits[split], plan)) / normalised_entropy(labels, exact[split]) - 1

    def alone(op: str, format: str) -> float:
        ratio = sqnr_db(exact["tuning"], model.run(splits["tuning"], {op: format}))
        return float(10 ** (-ratio / 10))

    plan = search(times, loss, alone, ladder=ladders, bound=bound, always=model.bags)
    wider = {op: wide for op, format in plan.precision.items() if op not in model.bags and format != "int8"}
    bits = [_BITS[plan.precision[op]] for op in model.bags]
    return WorkflowResult(plan, bound, loss(plan.precision, "untouched"), wider, sum(bits) / len(bits))


def in_scenario(result: WorkflowResult, scenario: Scenario) -> Scenario:
    """The scenario in INT8 with the layers and tables as the plan has them; ScenarioError where it has none of them."""
    overrides = {**scenario.overrides, "model.table_bits": result.table_bits}
    return scenario.with_(precision="int8", layers=result.layers, overrides=overrides)
