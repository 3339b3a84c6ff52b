"""Scenarios worth opening first: at least two per document, its headline among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError


@dataclass(frozen=True)
class Preset:
    """A named scenario: its pair and what differs from that pair's defaults."""

    id: str
    title: str
    pill: str
    document: str
    system: str
    workload: str
    headline: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    rival: str | None = None  # preset it was compared with

    @property
    def scenario(self) -> Scenario:
        """The full scenario."""
        return _scenario(self.id)


@cache
def _scenario(id: str) -> Scenario:
    p = PRESETS[id]
    changes = dict(p.changes)
    if "switches" in changes:
        base = default_scenario(p.system, p.workload)
        changes["switches"] = dict(base.switches) | changes["switches"]
    return default_scenario(p.system, p.workload, **changes)


def _catalogue(*presets: Preset) -> Mapping[str, Preset]:
    return MappingProxyType({p.id: p for p in presets})


_EAGER = {"graph": False, "fuse": False}

PRESETS = _catalogue(
    Preset("node-dlrm", "Recommendation on the six-card node", "Six-card node", "000", "fb-node", "dlrm-more-complex",
           True, {"batch": 64}),
    Preset("node-xlmr", "XLM-R, a copy on each card of the node", "XLM-R, copies", "000", "fb-node", "xlm-r-large",
           False, {"scheme": "replicas", "devices": 6, "precision": "fp16"}),
    Preset("node-text", "XLM-R in padded batches on the six-card node", "XLM-R, padded", "000", "fb-node",
           "xlm-r-large", False,
           {"scheme": "replicas", "devices": 6, "batch": 8, "inputs": 40, "switches": {"static-shapes": True}}),
    Preset("node-video", "Video decoded on the node's host", "Video, decoded", "000", "fb-node", "resnext3d-101",
           False, {"scheme": "replicas", "devices": 6, "switches": {"host-decode": True}}),
    Preset("node-detector", "A detector in two nets around the host's proposals", "Detector", "000", "fb-node",
           "fbnetv3-detection", False, {"scheme": "replicas", "devices": 6, "switches": {"two-nets": True}}),
    Preset("node-resnext", "ResNeXt-101 on one card", "ResNeXt, one card", "000", "fb-card", "resnext101-32x4d"),
    Preset("cpu-dlrm", "Recommendation on the host's CPU alone", "DLRM on Xeon D", "000", "xeon-d-2191",
           "dlrm-rmc2", False, {"batch": 64}),
    Preset("brainwave-gru", "A large GRU at batch 1 on Brainwave", "Brainwave NPU", "001", "brainwave-s10-pre",
           "gru-3200x2400", True, {"devices": 1, "scheme": "single"}),
    Preset("brainwave-tp1", "Text-processing LSTM pinned on an FPGA", "TP1 LSTM", "001", "brainwave-a10", "tp1-lstm",
           False, {"devices": 1, "scheme": "single"}),
    Preset("wide-deep-int8", "Wide & Deep in INT8 on a Xeon with VNNI", "Wide & Deep", "002", "xeon-8280l",
           "wide-deep-criteo", True, {"batch": 512, "streams": 28, "precision": "int8"}, "wide-deep-fp32"),
    Preset("wide-deep-fp32", "Wide & Deep in FP32 on the same Xeon", "Wide & Deep FP32", "002", "xeon-8280l",
           "wide-deep-criteo", False, {"batch": 512, "streams": 28, "precision": "fp32"}),
    Preset("tonic-fc", "A binary layer of 4,096 neurons on a SmartNIC", "SmartNIC", "003", "agilio-cx",
           "binary-fc-4096", True, {"precision": "binary", "scheme": "on-path"}, "bnn-exec-fc"),
    Preset("bnn-exec-fc", "The same binary layer on a Haswell Xeon", "bnn-exec", "003", "xeon-e5-1630v3",
           "binary-fc-4096", False, {"precision": "binary", "batch": 32, "streams": 4}),
    Preset("tonic-mnist", "Digits classified on the NIC, its network path included", "Digits on the NIC", "003",
           "agilio-cx", "binary-mlp-mnist", False,
           {"precision": "binary", "scheme": "on-path", "switches": {"network": True}}),
    Preset("nic-coprocessor", "VGG16's convolutions on the host, its binary layers on the NIC", "NIC as co-processor",
           "003", "xeon-agilio-coprocessor", "vgg16-cifar-binary", False,
           {"scheme": "split", "precision": "fp32", "split": 31}),
    Preset("edge-camera", "MobileNet cut between the street and the metro cabinet", "Street and metro", "003",
           "edge-tiers", "mobilenet-v1", False, {"scheme": "split", "precision": "fp32", "split": 23}),
    Preset("alexnet-split", "AlexNet split over two sockets", "AlexNet split", "003", "xeon-e5-2650-pair-qpi",
           "alexnet", False, {"scheme": "split", "precision": "fp32", "tile": (1,)}),
    Preset("dfx-1.5b", "GPT-2 1.5B on a ring of four FPGAs", "DFX, GPT-2", "004", "dfx-u280", "gpt2-1.5b", True,
           {"inputs": 64, "outputs": 64, "scheme": "tensor", "devices": 4}, "v100-1.5b"),
    Preset("v100-1.5b", "GPT-2 1.5B on four V100s, eager baseline", "GPT-2 on V100", "004", "v100-appliance",
           "gpt2-1.5b", False,
           {"inputs": 64, "outputs": 64, "scheme": "tensor", "devices": 4, "precision": "fp16", "switches": _EAGER}),
    Preset("dfx-345m", "GPT-2 345M on one FPGA", "DFX, one card", "004", "dfx-u280", "gpt2-345m", False,
           {"inputs": 64, "outputs": 64, "scheme": "tensor", "devices": 1}),
)  # fmt: skip


def preset(id: str) -> Preset:
    """Preset of that id; ScenarioError lists the known ones."""
    if id not in PRESETS:
        raise ScenarioError(f"preset {id[:60]!r} is not known; known: {', '.join(PRESETS)}")
    return PRESETS[id]
