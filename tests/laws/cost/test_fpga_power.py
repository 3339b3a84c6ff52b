"""Power of an FPGA's what-ifs: it follows clock, units and memory, and sweeps say the same."""

import itertools

import pytest

from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import decode, encode
from engine.scenario.overrides import apply_all
from engine.sweep import space_of, table_rows

NPU = ("devices.0.npu.clock", "devices.0.npu.tiles", "devices.0.npu.lanes", "devices.0.memory.m20k.bandwidth")
DFX = ("devices.0.dfx.clock", "devices.0.dfx.l", "devices.0.memory.hbm.bandwidth")
CASES = [
    *(
        (system, "gemv-512", path)
        for system in ("brainwave-s10", "brainwave-a10", "brainwave-sv", "npu-rtl")
        for path in NPU
    ),
    *(("dfx-u280", "gpt2-345m", path) for path in DFX),
]
UNITS = {"clock": ("50 MHz", "100 MHz", "200 MHz"), "tiles": (1, 2, 4), "lanes": (2, 5, 10), "l": (4, 8, 16)}
UNITS["bandwidth"] = ("100 GB/s", "1 TB/s", "2 TB/s")


@pytest.mark.parametrize(("system", "workload", "path"), CASES)
def test_power_follows_what_is_asked_of_the_part(system, workload, path):
    """More of a clock, of units or of bandwidth draws more; a figure of the scenario's own is what full work draws."""
    base = default_scenario(system, workload)
    asked = UNITS[path.rpartition(".")[2]]
    found = [evaluate(apply_all(base, [f"{path}={value}"])).power_w for value in asked]
    assert all(a < b for a, b in itertools.pairwise(found))
    assert found[0] > 0.1 * evaluate(base).power_w
    said = [one.text for one in evaluate(apply_all(base, [f"{path}={asked[0]}"])).assumptions]
    assert any("power of a what-if goes with its clock" in text and path in text for text in said)
    assert not any("power is that of the catalog's parts" in text for text in said)
    listed = "loaded" if bind(base).device.power.loaded else "max"
    own = [evaluate(apply_all(base, [f"{path}={v}", f"devices.0.power.{listed}=60 W"])).power_w for v in asked]
    assert all(0.45 * 60 * base.devices < watts <= 60 * base.devices for watts in own)


@pytest.mark.parametrize(("system", "workload", "path"), [CASES[0], CASES[-3]])
def test_a_sweep_draws_what_an_evaluation_draws(system, workload, path):
    base = {"scenario": encode(default_scenario(system, workload)), "axes": {path: [50e6, 75e6, 100e6, 400e6]}}
    space = space_of(base | {"objectives": ["power_w:min"]})
    for row in table_rows(space):
        assert row["power_w"] == evaluate(decode(row["token"])).power_w
