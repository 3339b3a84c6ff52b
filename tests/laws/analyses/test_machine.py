"""What a machine with an instruction set shows of itself: units that re-sum, fabric within the part, tiles, formats."""

import itertools
import json

import pytest

from engine.analyses.machine import generations, machine, machine_of, part_fits, parts, tile_map, units
from engine.cli.main import main
from engine.devices.common.contract import Unsupported
from engine.devices.dfx.fabric import PLATFORM
from engine.devices.npu.density import FORMATS, densities, fabric, packing
from engine.devices.npu.family import peak
from engine.evaluate import evaluate
from engine.resolve.presets import preset
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply_all
from hardware_specs.catalog import default_catalog

DFX, GRU = preset("dfx-1.5b").scenario, preset("brainwave-gru").scenario
PARTS = [
    default_catalog().device(id)
    for id in (
        "stratix-v-d5-brainwave",
        "arria-10-1150-brainwave",
        "stratix-10-280-brainwave-pre",
        "stratix-10-280-brainwave",
    )
]


def _asked(what: str, scenario: Scenario):
    """What the scenario's machine answers."""
    job, answers = machine_of(scenario)
    return getattr(answers, what)(job)


@pytest.mark.parametrize("scenario", [DFX, GRU])
def test_busy_and_stalled_time_of_every_unit_make_the_whole(scenario):
    bars = evaluate(scenario).timeline
    end = max(bar.start_s + bar.duration_s for bar in bars)
    found = units(evaluate(scenario))
    assert len(found) >= 2
    for unit in found:
        assert unit.busy_s + unit.stall_s == pytest.approx(end, rel=1e-12)
        assert 0 < unit.busy_s <= end * (1 + 1e-9)
        mine = sorted((b.start_s, b.start_s + b.duration_s) for b in bars if b.unit == unit.name)
        assert all(later[0] >= earlier[1] - 1e-15 for earlier, later in itertools.pairwise(mine))


@pytest.mark.parametrize("scenario", [DFX, GRU])
def test_parts_add_up_to_the_latency(scenario):
    found = parts(evaluate(scenario))
    assert sum(part.time_s for part in found) == pytest.approx(evaluate(scenario).latency_s, rel=1e-9)
    assert sum(part.share for part in found) == pytest.approx(1.0)


def test_the_latency_split_of_the_core_is_the_published_one():
    share = {part.name: part.share for part in parts(evaluate(DFX))}
    assert share["self-attention"] + share["feed-forward"] == pytest.approx(0.726, rel=0.1)
    assert share["synchronisation"] == pytest.approx(0.173, rel=0.2)
    assert share["layer-norm+residual"] > 0.02


def test_fabric_of_the_core_follows_its_tile_and_fits_the_part():
    def slices(scenario):
        return next(u for u in _asked("uses", scenario) if u.name == "DSP, whole core")

    assert slices(DFX).used == 3523
    assert slices(DFX).share == pytest.approx(0.3904, abs=1e-4)
    assert slices(DFX.with_(tile=(64, 32))).used > 1.8 * slices(DFX).used
    counted = {u.name: u.share for u in _asked("uses", DFX) if u.basis.endswith("% counted, the rest as printed")}
    assert counted == pytest.approx({"LUT": 0.3993, "FF": 0.4252, "BRAM": 0.5913, "URAM": 0.1083}, abs=5e-5)


def test_the_published_tile_takes_the_least_of_every_resource_as_figure_8_b_shows():
    inner = [_asked("demand", DFX.with_(tile=tile)) for tile in ((16, 64), (32, 32), (64, 16))]
    for resource in ("lut", "ff", "dsp", "bram36"):
        totals = [sum(one[resource].values()) for one in inner]
        assert totals[0] > totals[1] > totals[2], resource
        counted = 1 - inner[2][resource].get(PLATFORM, 0.0) / totals[2]
        assert 0.5 < counted <= 1  # most of it is counted, not the rest that the printed total leaves


@pytest.mark.parametrize(
    ("scenario", "change", "said"),
    [
        (
            DFX,
            "fpga.lut=600000",
            r"^A tile of 64 x 16 takes 520,559 LUT; .* has 600,000, 80% of which can be routed\.$",
        ),
        (DFX, "fpga.bram36=1000", r"^A tile of 64 x 16 takes 1,[0-9]{3} BRAM; .* has 1,000\.$"),
        (GRU, "fpga.m20k=5000", r"^5 tile engines of 400 x 40 in ms-fp8 takes? 6,754 M20K; .* has 5,000\.$"),
        (GRU, "npu.native_dim=2000", r"multipliers of ms-fp8"),
    ],
)
def test_a_design_that_does_not_fit_its_fabric_is_refused_in_one_sentence(scenario, change, said):
    with pytest.raises(Unsupported, match=said) as error:
        evaluate(apply_all(scenario, [f"devices.0.{change}"]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("scenario", [DFX, GRU])
def test_the_parts_of_the_catalog_are_told_once_and_the_own_one_fits(scenario):
    found = {fit.part: fit for fit in part_fits(scenario)}
    assert len(found) == 5
    own = {"dfx-u280": "Alveo U280", "brainwave-s10-pre": "Stratix 10 280"}[scenario.system]
    assert found[own].fits is True
    assert found["Stratix V D5"].fits is (None if scenario is DFX else False)
    assert found["Alveo U280"].fits is (True if scenario is DFX else None)
    assert "\n" not in "".join(fit.said for fit in found.values())


def test_blocks_of_memory_meet_the_three_instances_recalled():
    recalled = {
        "stratix-v-d5-brainwave": 1192,
        "arria-10-1150-brainwave": 2171,
        "stratix-10-280-brainwave-isca18": 8192,
    }
    for id, blocks in recalled.items():
        part = default_catalog().device(id)
        assert sum(fabric(part, next(iter(part.peak)))["m20k"].values()) == pytest.approx(blocks, rel=0.035)


def test_the_tile_map_is_evaluate_and_picks_the_published_tile():
    grid = tile_map(DFX)
    assert grid.best == grid.now == (64, 16)
    for row, values in zip(grid.rows, grid.seconds, strict=True):
        for column, seconds in zip(grid.columns, values, strict=True):
            if seconds is not None:
                assert seconds == evaluate(DFX.with_(tile=(row, column))).latency_s
    assert grid.seconds[grid.rows.index(128)][grid.columns.index(128)] is None


@pytest.mark.parametrize("bits", range(1, 17))
def test_packed_products_do_not_overlap(bits):
    assert packing(bits) >= 1
    assert packing(bits) * 2 * bits <= 36  # what comes out of an 18 x 18 multiplier
    assert packing(bits) >= packing(bits + 1)


def test_narrower_formats_hold_more_and_every_instance_fits_its_part():
    for part in PARTS:
        held = densities(part)
        assert [d.format for d in held] == list(FORMATS)
        rates = [d.flops_per_s for d in held]
        assert rates == sorted(rates)
        format = next(iter(part.peak))
        most = next(d for d in held if d.format == format)
        npu = part.npu
        assert npu.native_dim.si * npu.lanes.si * npu.tiles.si <= most.hard + most.soft
        assert peak(part, format) <= most.flops_per_s
    top = densities(PARTS[-1])[-1].flops_per_s
    assert top == pytest.approx(90e12, rel=0.05)  # what the document prints for ms-fp8 on a Stratix 10 280
    assert densities(PARTS[0])[-1].flops_per_s < densities(PARTS[1])[-1].flops_per_s < top


def test_generations_are_one_of_each_part_the_device_first():
    names = [g.name for g in generations(PARTS[1])]
    assert names[0] == "Arria 10 1150"
    assert len(names) == len(set(names)) == 3


def test_arithmetic_is_run_in_the_scenarios_machine():
    (one,) = _asked("errors", DFX)
    assert 0 < one.relative < 0.03
    assert one.note.startswith("16 of 16 tokens")
    shared = _asked("errors", GRU)
    assert [row.note for row in shared[:2]] == ["an exponent a value", "an exponent for 400 values"]
    assert shared[0].relative < shared[1].relative
    for rows in (shared[0::2], shared[1::2]):  # each bit of mantissa about halves the error
        found = [row.relative for row in rows]
        assert len(found) == 4
        assert all(0.3 * a < b < 0.75 * a for a, b in itertools.pairwise(found))
    fine = _asked("errors", apply_all(GRU, ["devices.0.npu.block=16"]))
    assert all(b.relative < 0.9 * a.relative for a, b in zip(shared[1::2], fine[1::2], strict=True))


def test_other_devices_are_refused_in_one_sentence(capsys):
    other = preset("v100-1.5b").scenario
    with pytest.raises(ScenarioError, match=r"runs no program of its own instructions$"):
        machine(other)
    assert main(["machine", "preset:v100-1.5b"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_line_prints_all_of_it(capsys):
    assert main(["machine", "preset:dfx-1.5b"]) == 0
    text = capsys.readouterr().out
    assert "best 64 x 16" in text
    assert "DSP, whole core" in text
    assert main(["machine", "preset:brainwave-gru", "--set", "system.devices.0.npu.tiles=6", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["uses"][0]["used"] == 96_000
    assert data["units"][0]["busy_s"] > 0


def test_units_shrink_with_an_override():
    faster = apply_all(GRU, ["devices.0.npu.clock=600 MHz"])
    assert units(evaluate(faster))[0].busy_s == pytest.approx(units(evaluate(GRU))[0].busy_s / 2)
