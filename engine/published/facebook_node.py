"""Predictions of the figures in document 000: the six-card node, its models and what each optimisation bought."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from engine.analyses.node.at_work import on_links
from engine.cost.assemble import Schedule, assemble
from engine.cost.best_plan import make_plan
from engine.devices.card import family as card
from engine.devices.card.graph import ADDED
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from entries.files import read_plain

NODE, CARD = "fb-node", "fb-card"
COMPLEX = "dlrm-more-complex"
RESNEXT, REGNET, FBNET = "resnext101-32x4d", "regnety-128gf", "fbnetv3-detection"
RESNEXT3D, XLMR = "resnext3d-101", "xlm-r-large"


def _node() -> Scenario:
    return default_scenario(NODE, COMPLEX)


# --- times: switches thrown one at a time ----------------------------------------------------------------------------


def without(scenario: Scenario, *switches: str) -> Scenario:
    """The scenario with those switches off."""
    return scenario.with_(switches={**scenario.switches, **dict.fromkeys(switches, False)})


def _times(scenario: Scenario) -> Schedule:
    bound = bind(scenario)
    return assemble(bound, make_plan(bound))


def sparse_cores(scenario: Scenario) -> int:
    """Cores for lookups that let requests follow each other fastest. [-]"""
    return dict(evaluate(scenario).tile)["sparse-cores"]


def lookup_s(scenario: Scenario) -> float:
    """Time of the lookup partition of a request on its slowest card. [s]"""
    return next(p.time_s for p in _times(scenario).priced if p.stage.name == "sparse")


def saved_on_pcie(scenario: Scenario, between_cards: bool) -> float:
    """Share of the bytes on PCIe links that card-to-card transfers save, each link a byte crosses counted. [-]"""

    def link_bytes(scenario: Scenario) -> float:
        return sum(on_links(scenario, between_cards).values())

    return 1 - link_bytes(scenario) / link_bytes(without(scenario, "peer-to-peer"))


def _balanced_gain() -> float:
    """Latency the lookup partition loses by knowing expected lengths, same cores. [%]"""
    node = _node().with_(tile=(sparse_cores(_node()),))
    return 100 * (1 - lookup_s(node) / lookup_s(without(node, "length-aware")))


def resident_bytes(scenario: Scenario) -> float:
    """Distinct dense weights that all cards together keep on chip between requests. [B]"""
    dense = _times(scenario).priced[-1]
    return sum(card.resident(run.job) for run in dense.runs) * dense.stage.ways


def _resident_gain() -> float:
    """How many times the distinct weights that stay on chip when XLM-R's layers are sharded over six cards. [-]

    Its FP16 weights are larger than the on-chip memory of all six; the recommendation model's fit one card.
    """
    copies = default_scenario(NODE, XLMR, scheme="replicas", devices=6, precision="fp16")
    return resident_bytes(copies.with_(scheme="tensor")) / resident_bytes(copies)


# --- shares of Table II ----------------------------------------------------------------------------------------------

_LABELS: dict[str, dict[str, str]] = read_plain(Path(__file__).with_name("operator-labels.yaml"))


@cache
def shares(workload: str) -> dict[str, float]:
    """Share of the cards' core time that each operator of the document's Table II takes. [%]

    Core time counts an operator by the cores of its partition, on every card that runs it; on one card with all
    cores it is plain time. What the host runs is left out.
    """
    times = _times(default_scenario(NODE if workload == COMPLEX else CARD, workload))
    seconds_by_label: dict[str, float] = defaultdict(float)
    for stage in times.priced:
        for run in stage.runs:
            weight = card.cores_of(run.job) * stage.stage.ways
            for op, seconds in zip(run.job.ops, run.cost.seconds, strict=True):
                label = _LABELS[workload].get(op.kind, "Others")
                if workload == FBNET and (op.attribute(ADDED) or op.kind == "Add"):
                    label = "Fused Conv_Add"
                if label == "Convolution" and max(op.attribute("kernel_t"), op.attribute("frames")) > 1:
                    label = "Convolution3D"
                seconds_by_label[label] += (seconds.sum() - seconds[4]) * run.passes * weight
    total = sum(seconds_by_label.values())
    return {label: float(100 * t / total) for label, t in seconds_by_label.items()}


def _table(first: int, workload: str, *labels: str) -> dict[str, Callable[..., float]]:
    """A column of Table II: claims from FB-`first` on, the last of which is what the others leave of 100%. [%]"""
    values: dict[str, Callable[..., float]] = {
        f"FB-{first + at:03}": lambda label=label: shares(workload).get(label, 0.0) for at, label in enumerate(labels)
    }
    return values | {f"FB-{first + len(labels):03}": lambda *shares: 100 - sum(shares)}


VALUES: Mapping[str, Callable[..., Any]] = {
    "FB-072": lambda: card.utilisation(next(p for p in _times(_node()).priced if p.stage.name == "dense").runs[0].job),
    "FB-079": _balanced_gain,
    "FB-080": lambda: saved_on_pcie(_node(), True),
    "FB-088": _resident_gain,
    **_table(90, COMPLEX, "FC", "SLS", "BatchMatMul", "Transpose", "Quantize", "Dequantize"),
    "FB-095": lambda: shares(COMPLEX)["Dequantize"],
    **_table(97, RESNEXT, "ChannelwiseQuantizedConv", "Add", "ConvertTo", "Quantize", "AdaptiveAvgPool"),
    **_table(103, FBNET, "ChannelwiseQuantizedConv", "Fused Conv_Add", "ROIAlign", "ConvertTo", "Quantize"),
    **_table(109, REGNET, "ChannelwiseQuantizedConv", "Tile", "AdaptiveAvgPool", "Add", "Mul"),
    **_table(115, RESNEXT3D, "Convolution3D", "MatMul", "Convolution", "Add", "Transpose", "MaxPool"),
    **_table(122, XLMR, "MatMul", "Add", "Concat", "Transpose", "Gelu", "Softmax"),
}
