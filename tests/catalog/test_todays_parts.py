"""Parts of today from their data sheets: what must hold between one part and its kin, and who predicts them."""

import pytest

from engine.devices.common.contract import Unsupported
from engine.devices.gpu.operators.record import part_of
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from hardware_specs.catalog import default_catalog

CATALOG = default_catalog()
GENERATIONS = {
    "h100-pcie": "hopper", "h100-nvl": "hopper", "h200-nvl": "hopper", "gh200-144gb": "hopper", "h20": "hopper",
    "gb200": "blackwell", "b300-sxm": "blackwell",
    "gb300": "blackwell", "rtx-pro-6000": "blackwell", "rtx-5090": "blackwell", "a30": "ampere", "a10": "ampere",
    "gh200-96gb": "hopper", "a100-pcie-80gb": "ampere", "jetson-agx-thor": "blackwell",
}  # fmt: skip
OTHERS = ("mi325x", "mi350x", "arc-pro-b60", "tpu-v5p", "tpu-v7", "trainium-3", "xeon-6980p")
KIN = [  # part, kin, what is larger on the first: (path, at least, at most)
    ("h100-nvl", "h100-pcie", "bandwidth", 1.9, 2.0),
    ("h200-nvl", "h100-nvl", "capacity", 1.49, 1.51),
    ("h200-nvl", "h200-sxm", "fp8", 0.84, 0.85),
    ("gh200-144gb", "h200-sxm", "bandwidth", 1.01, 1.03),
    ("gh200-144gb", "gh200-96gb", "capacity", 1.49, 1.51),
    ("a100-sxm-80gb", "a100-pcie-80gb", "bandwidth", 1.05, 1.06),
    ("jetson-agx-thor", "jetson-agx-orin-64gb", "bandwidth", 1.3, 1.35),
    ("mi355x", "mi350x", "fp16", 1.08, 1.1),
    ("tpu-v5p", "tpu-v5e", "bf16", 2.3, 2.4),
    ("rtx-4090", "l40s", "fp8", 0.44, 0.46),
    ("h20", "h100-sxm", "fp16", 0.14, 0.16),
    ("h20", "h100-sxm", "bandwidth", 1.15, 1.25),
    ("gb200", "b200-sxm", "fp16", 1.1, 1.12),
    ("b300-sxm", "b200-sxm", "fp4", 1.49, 1.51),
    ("gb300", "gb200", "capacity", 1.49, 1.51),
    ("rtx-5090", "rtx-4090", "bandwidth", 1.75, 1.8),
    ("a30", "a100-sxm-80gb", "fp16", 0.52, 0.54),
    ("mi325x", "mi300x", "capacity", 1.3, 1.34),
    ("tpu-v7", "tpu-v6e", "bandwidth", 4.4, 4.6),
    ("trainium-3", "trainium-2", "fp8", 1.9, 2.0),
]


def figure(id: str, what: str) -> float:
    device = CATALOG.device(id)
    level = max(device.memory, key=lambda m: m.capacity.si)
    if what == "bandwidth":
        assert level.bandwidth is not None
        return level.bandwidth.si
    return level.capacity.si if what == "capacity" else device.peak[what].si


@pytest.mark.parametrize("id", GENERATIONS)
def test_its_operators_take_the_constants_of_its_generation(id: str) -> None:
    part = part_of(CATALOG.device(id), CATALOG)
    assert part.generation == GENERATIONS[id]
    assert not part.is_measured, "predicted from its data sheet"


@pytest.mark.parametrize(("id", "kin", "what", "least", "most"), KIN)
def test_ratios_that_the_vendors_print(id: str, kin: str, what: str, least: float, most: float) -> None:
    assert least <= figure(id, what) / figure(kin, what) <= most


@pytest.mark.parametrize("id", [*GENERATIONS, *OTHERS])
def test_a_number_that_is_only_recalled_says_so(id: str) -> None:
    device = CATALOG.device(id)
    numbers = [*device.peak.values(), *(m.capacity for m in device.memory)]
    for number in numbers:
        assert (number.basis == "assumed" and number.note) or number.source


@pytest.mark.parametrize("system", ["gb200-nvl72", "gb300-nvl72"])
def test_a_rack_is_one_domain(system: str) -> None:
    """More than eight GPUs hold a model that eight hold, at a step no slower than a longer ring would make it."""
    entry = CATALOG.system(system)
    assert max(entry.devices[0].counts) == 72
    assert entry.topology == "all-to-all"
    times = {}
    for count in (4, 8, 32):
        scenario = default_scenario(system, "deepseek-r1", devices=count, batch=256)
        times[count] = evaluate(scenario).latency_s
    assert times[32] < times[8] < times[4]


@pytest.mark.parametrize(
    "system",
    [
        *("h100-pcie", "h20", "b300-sxm", "rtx-5090", "a30", "mi325x", "tpu-v7", "trainium-3"),
        *("gh200-96gb", "a100-pcie-80gb", "mi350x", "arc-pro-b60", "tpu-v5p"),
    ],
)
def test_a_system_of_it_runs_a_language_model(system: str) -> None:
    count = max(CATALOG.system(system).devices[0].counts)
    try:
        report = evaluate(default_scenario(system, "llama3.1-8b", devices=count))
    except Unsupported as error:
        pytest.fail(str(error))
    assert 0 < report.latency_s < 60
