"""How one published figure is predicted.

A claim's entry says under `prediction` which scenario a reader may open, the device family and what a reader must know.
Where the prediction is a figure of that scenario's report, it names the `figure`. Where it is a `product` of numbers
`over` others, it lists them; a number is

- the id of a claim, whose prediction it is, or a plain number;
- ``{figure: latency_s, with: {batch: 4}}``: a figure of the scenario's report with those fields changed, or of another
  `scenario` that it names;
- ``{share: [self-attention]}``: the part of that report's latency that operators of those groups take;
- ``{network: resnet50, count: operations, inputs: 1}``: of one request, a multiply-add counted as two, `parameters`,
  `weights` and `activations` of products, elements of `state` a token, or `bytes` with products in a `format` and the
  rest in FP32; of a ``batch``, and with `params` of its own;
- ``{network: alexnet, operator: conv2, count: results}``: elements that an operator puts out, or its `weights`;
- ``{device: alveo-u280-dfx, number: dfx.clock}``: a number of a device's file, or its `peak` in a format;
- ``{bits: fp16}``: bits of a value in a format;
- ``{sum: [...]}`` of such numbers, or another ``{product: [...], over: [...]}``.

A `scale` turns the result into the printed unit; a ratio that is printed as a gain has `less: 1` taken off before. A
`range` lists both ends of a predicted range, each an entry.
What is none of this is a function in ``VALUES`` of the module of its document. A claim without a prediction stays in
the list with its `reason`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod
from typing import Any

from engine.devices import family
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from engine.scenario.formats import BITS
from hardware_specs.catalog import default_catalog, numbers
from model_zoo.catalog import default_zoo


@dataclass(frozen=True)
class Prediction:
    """A prediction of one claim.

    Attributes
    ----------
    value : called with the predictions of the claims in `of`; returns the prediction in the claim's printed unit (a
        number, a (low, high) pair for a published range, or True/False for a claim about an order).
    scenario : the scenario a reader may open to see it, where there is one.
    family : device family whose error band this figure informs, where it is a performance figure.
    note : the assumption a reader must know, or what is inconsistent in the source.
    of : claims of whose predictions this one is a function: it is derived, and no evidence of its own.
    naive : the alternative that the claim must rule out and what it predicts; None: the roofline of the data sheet.
    """

    value: Callable[..., Any]
    scenario: Callable[[], Scenario] | None = None
    family: str | None = None
    note: str = ""
    of: tuple[str, ...] = ()
    naive: tuple[str, Any] | None = None


def prediction_of(entry: Mapping[str, Any], value: Callable[..., Any] | None) -> Prediction:
    """The prediction that an entry describes, its value computed where a function is given."""
    maker = partial(default_scenario, **entry["scenario"]) if "scenario" in entry else None
    of = entry.get("of", ())
    if value is None:
        of = list(dict.fromkeys(_claims(entry)))
        value = partial(_predicted, entry, maker, of)
    naive = (entry["naive"]["name"], entry["naive"]["value"]) if "naive" in entry else None
    return Prediction(value, maker, entry.get("family"), entry.get("note", ""), tuple(of), naive)


_PARTS = ("product", "over", "sum", "range")  # lists of numbers in an entry


def _claims(number: Any) -> Iterator[str]:
    """Claims that a number is made of."""
    if isinstance(number, str):
        yield number
    elif isinstance(number, Mapping):
        for part in _PARTS:
            for item in number.get(part, ()):
                yield from _claims(item)


def _predicted(entry: Mapping[str, Any], maker: Any, of: Sequence[str], *of_claims: Any) -> Any:
    """What an entry comes to with the predictions of the claims in it."""
    claims = dict(zip(of, of_claims, strict=True))

    def number(item: Any) -> Any:
        if isinstance(item, str):
            return claims[item]
        if not isinstance(item, Mapping):
            return item
        if "range" in item:
            return tuple(map(number, item["range"]))
        if "sum" in item:
            return sum(map(number, item["sum"]))
        if not item.keys() & {"product", "over"}:
            return _number(maker, **item)
        ratio = prod(map(number, item.get("product", ()))) / prod(map(number, item.get("over", ())))
        return item.get("scale", 1.0) * (ratio - item.get("less", 0.0))

    return number({"product": [{"figure": entry["figure"]}], **entry} if "figure" in entry else entry)


def _count(of: Mapping[str, Any]) -> float:
    """A count of a network as an entry names it. [-], [FLOP], [B]"""
    name, batch = of["network"], of.get("batch", 1)
    graph, request = default_zoo().graph(name, of.get("params")), default_zoo().workload(name).request
    products = [op for op in graph.ops if op.contraction]
    if "operator" in of:
        op = next(op for op in graph.ops if op.name == of["operator"])
        return op.writes.at() if of["count"] == "results" else op.g.at() * op.n.at() * op.k.at()
    match of["count"]:
        case "parameters":
            return graph.parameters
        case "state":
            return graph.state_elements.at()
        case "weights":
            return sum(op.stored * op.layers for op in products)
        case "activations":
            return sum((op.reads.at(batch) + op.writes.at(batch)) * op.layers for op in products)
        case "bytes":
            low = BITS[of["format"]] / 8
            return sum(op.stored * op.layers * (low if op.contraction and op.quantisable else 4.0) for op in graph.ops)
    return 2 * graph.macs(batch, of.get("inputs", request.inputs), request.outputs)


def _number(maker: Any, **of: Any) -> float:
    """A number as an entry names it, in SI: a figure of a report, a count of a network or a fact of a device."""
    if "network" in of:
        return _count(of)
    if "bits" in of:
        return BITS[of["bits"]]
    if "device" in of:
        device = default_catalog().device(of["device"])
        return family(device.kind).peak(device, of["peak"]) if "peak" in of else dict(numbers(device))[of["number"]].si
    scenario = default_scenario(**of["scenario"]) if "scenario" in of else maker()
    changes = dict(of.get("with", {}))
    switches = {**scenario.switches, **changes.pop("switches", {})}
    report = evaluate(scenario.with_(switches=switches, **changes))
    if "share" in of:
        return sum(op.time_s for op in report.ops if op.group in of["share"]) / report.latency_s
    return _at(report, of["figure"])


def _at(thing: Any, path: str) -> Any:
    """What lies at a path of attributes and places in a list."""
    return reduce(lambda at, name: at[int(name)] if name.isdigit() else getattr(at, name), path.split("."), thing)


def value_of(predictions: Mapping[str, Prediction], id: str) -> Any:
    """The prediction of a claim, from those of others where it is derived, in its printed unit."""
    return predictions[id].value(*(value_of(predictions, part) for part in predictions[id].of))
