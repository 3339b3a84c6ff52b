"""Every field is an axis, left out where a system has none of it; what no design can do is one sentence."""

import csv

import numpy as np
import pytest

from engine.cli.main import main
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError, decode
from engine.scenario.fields import FIELDS
from engine.sweep import FIGURES, figures_of, price, space_of, sweep, table_rows
from engine.traffic.engines.serving_sweep import serving_sweep
from tests.each import each

SYSTEMS = ["h100-sxm", "dfx-u280", "xeon-8480plus"]
BASE = {"system": "h100-sxm", "workload": "gpt2-345m", "batch": 2}
AXES = {
    "system": SYSTEMS,
    "workload": ["gpt2-345m", "resnet50"],
    "inputs": [16, 32],
    "outputs": [1, 8],
    "params": ("params.layers", [2, 4]),
    "batch": [1, 4],
    "streams": [1, 2],
    "turbo": ["on", "off"],
    "threads_per_core": [1, 2],
    "inter_op_threads": [1, 2],
    "numa": ["local", "remote"],
    "precision": ["fp16", "fp32"],
    "kv_format": ["as activations", "fp8"],
    "layers": ("layers.qkv", ["fp32", "bf16"]),
    "tile": ["auto", "64x16"],
    "load_direction": ["zigzag", "vertical"],
    "scheme": ["single", "tensor"],
    "host_tables": ["none", "by-capacity"],
    "devices": [1, 2, 4],
    "pipeline_parallel": [1, 2],
    "attention_dp": [1, 2],
    "context_parallel": [1, 2],
    "expert_parallel": [1, 2],
    "expert_imbalance": ["0%", "20%"],
    "redundant_experts": [0, 8],
    "split": [0, 3],
    "second_split": ["none", 8],
    "switches": ("switches.fuse", ["on", "off"]),
    "runtime": ["custom", "native"],
    "overrides": ("devices.0.dfx.clock", [1.5e8, 2e8]),
    "costs": ("costs.pue", [1.1, 1.5]),
    "limits": ("limits.power_w", [1000, 2000]),
}
"""For each field an axis, where its path is not the field's own."""


def test_every_field_has_an_axis_here() -> None:
    assert set(AXES) == {field.path for field in FIELDS}


def agree(space) -> tuple[int, int]:
    """Every design of a space priced at once and one by one: the same bits; how many ran and how many are skipped."""
    values, bad, _ = price(space)
    ran = skipped = 0
    for number in range(space.size):
        try:
            figures = figures_of(space, number)
        except (ScenarioError, Unsupported) as refused:
            assert bad[number], space.values(number)
            skipped += str(refused).endswith("left out here, as it has none")
            continue
        same = [np.float64(figures[name]).tobytes() for name in FIGURES]
        assert same == [np.float64(v).tobytes() for v in values[:, number]], space.values(number)
        ran += 1
    return ran, skipped


@pytest.mark.parametrize("field", AXES)
def test_a_field_is_an_axis_beside_every_system(field: str) -> None:
    given = AXES[field]
    path, values = given if isinstance(given, tuple) else (field, given)
    axes = {"system": SYSTEMS, "batch": [1, 2], path: values}
    space = space_of({"scenario": BASE, "axes": axes, "constraints": []})
    ran, skipped = agree(space)
    result = sweep(space)
    assert ran > 0
    assert result.counts.skipped == skipped == space.skipped
    assert result.counts.done == space.size == ran + skipped + result.counts.refused
    assert bool(result.counts.refused) == bool(result.counts.sentences)
    expected = {"tile": 2, "overrides": 4, "kv_format": 0}.get(field)  # a Xeon has a tile of another kind
    assert expected is None or skipped == expected
    assert field != "kv_format" or result.counts.refused == 2  # DFX names its own format and refuses FP8


def test_an_axis_that_a_system_has_none_of_leaves_its_one_design_as_it_is() -> None:
    space = space_of(
        {
            "scenario": BASE,
            "axes": {
                "system": ["h100-sxm", "a100-sxm-80gb", "dfx-u280"],
                "devices.0.dfx.clock": [1e8, 2e8],
                "tile": ["64x16", "32x32"],
            },
        }
    )
    result = sweep(space)
    assert result.counts.skipped == 6
    assert result.counts.refused == 0
    ran = {(s.system, s.tile, len(s.overrides)) for s in map(space.scenario, (0, 4, 8, 9, 10, 11))}
    assert ran == {("h100-sxm", (), 0), ("a100-sxm-80gb", (), 0), ("dfx-u280", (64, 16), 1), ("dfx-u280", (32, 32), 1)}
    with pytest.raises(ScenarioError, match=r"devices\.0\.dfx\.clock, tile: left out here"):
        space.scenario(1)
    whole = evaluate(default_scenario("a100-sxm-80gb", "gpt2-345m", batch=2))
    assert figures_of(space, 4)["latency_s"] == whole.latency_s


def test_values_are_set_together_and_only_where_they_are_named() -> None:
    platforms = [{"system": "h100-sxm", "precision": "fp8"}, {"system": "dfx-u280", "tile": "64x16", "devices": 4}]
    space = space_of({"scenario": BASE, "axes": {"platform": platforms, "batch": [1, 8]}})
    assert agree(space) == (4, 0)
    assert [space.scenario(n).tile for n in (0, 2)] == [(), (64, 16)]


def test_a_what_if_and_a_tile_hold_for_every_network_of_an_axis() -> None:
    """Both are of the part, which is one: a row of another network is no row of the catalog's own hardware."""
    bandwidth = {"devices.0.memory.hbm.bandwidth": 9.2e11}
    base = {"system": "dfx-u280", "workload": "gpt2-1.5b", "tile": (64, 16), "set": bandwidth}
    space = space_of({"scenario": base, "axes": {"workload": ["gpt2-1.5b", "gpt2-345m"]}, "constraints": []})
    assert agree(space) == (2, 0)
    assert [space.scenario(n).overrides for n in (0, 1)] == [bandwidth, bandwidth]
    assert [space.scenario(n).tile for n in (0, 1)] == [(64, 16), (64, 16)]
    assert space.without_price, "no list has that part, whatever it runs"
    there = space_of({"scenario": base, "axes": {"system": ["dfx-u280", "h100-sxm"]}, "constraints": []})
    assert (there.scenario(1).overrides, there.scenario(1).tile, there.without_price) == ({}, (), ())


@pytest.mark.parametrize(
    ("axes", "goals", "words"),
    [
        ({"precision": ["fp7"]}, "latency_s:min", ("precision", "fp7", "fp16")),
        ({"batch": [0, -1]}, "latency_s:min", ("batch", "0", "from 1 to 65536")),
        ({"tile": ["64x16", "32x32"]}, "latency_s:min", ("tile", "no tiling knob")),
        ({"devices.0.dfx.clock": [1e8]}, "latency_s:min", ("devices.0.dfx.clock", "not set there")),
        ({"batch": []}, "latency_s:min", ("batch", "0 values")),
        (
            {"workload": ["resnet50", "vgg16"]},
            "ttft_s:min,latency_s:min",
            ("objective ttft_s", "no design", "latency_s"),
        ),
        (
            {n: {"from": 1, "to": 22000, "steps": 22000} for n in ("batch", "inputs", "outputs")},
            "latency_s:min",
            ("1.06e+13 designs", "1e+12", "--search"),
        ),
        (
            {n: {"from": 1, "to": 100000, "steps": 100000} for n in ("batch", "inputs", "outputs", "streams")},
            "latency_s:min",
            ("1.00e+20 designs", "1e+15"),
        ),
    ],
)
def test_what_no_design_can_do_is_one_sentence(axes, goals, words, tmp_path, capsys) -> None:
    space = {"scenario": BASE, "axes": axes, "objectives": goals}
    with pytest.raises(ScenarioError) as error:
        sweep(space)
    said = str(error.value)
    assert all(word in said for word in words), said
    assert "\n" not in said


def test_exported_rows_say_what_made_them(tmp_path) -> None:
    file, out, table, top = (tmp_path / name for name in ("space.yaml", "front.csv", "all.csv", "top.csv"))
    file.write_text(
        "scenario: {system: h100-sxm, workload: gpt2-345m}\n"
        "axes: {system: [h100-sxm, dfx-u280, agilio-cx], batch: [1, 8], precision: [fp16, fp32]}\n"
    )
    assert main(["sweep", str(file), "--out", str(out), "--table", str(table), "--top-out", str(top)]) == 0
    for path in (out, table, top):
        with path.open() as lines:
            rows = list(csv.DictReader(lines))
        assert rows
        for row in rows:
            assert row["engine_version"]
            assert row["catalog_version"]
            assert row["zoo_version"]
            if row["token"]:
                report = evaluate(decode(row["token"]))
                assert row["error_band"] == str(report.error_band.relative or "")
                assert {k: row[f"{k}_version"] for k in report.versions} == report.versions
    assert len(list(table_rows(space_of(file)))) == 12


def test_the_page_exports_what_the_command_exports() -> None:
    rows = list(sweep({"scenario": BASE, "axes": {"batch": [1, 2]}}).front.rows())
    named = ("token", "error_band", "engine_version", "catalog_version", "zoo_version")
    assert [name for name in rows[0] if name in named] == list(named)


@each("path", ["batchh", "devices.0.memory.hbm.bandwith", "model.foo"])
@each("lever", [{}, {"serving.clients": [1, 2]}])
def test_a_wrong_path_is_refused_before_anything_is_priced(path, lever, monkeypatch) -> None:
    """A space of serving priced every other axis first, and one of designs was compiled for."""
    monkeypatch.setattr("engine.sweep.run.blocks", None)
    monkeypatch.setattr("engine.traffic.engines.serving_sweep.engine", None)
    space = {"scenario": {"system": "h100-sxm", "workload": "llama3.1-8b"}, "axes": {path: [1, 2]} | lever}
    with pytest.raises(ScenarioError, match=f"axis '?{path.rpartition('.')[0]}"):
        (serving_sweep if lever else sweep)(space)


def test_values_that_only_another_axis_allows_are_no_wrong_path() -> None:
    space = {"scenario": {"system": "h100-sxm", "workload": "llama3.1-8b", "scheme": "tensor", "devices": 1},
             "axes": {"devices": [8], "attention_dp": [2]}}  # fmt: skip
    assert sweep(space).counts.done == 1


def test_a_choice_that_a_file_writes_as_on_is_named_as_every_other_choice():
    """YAML's `on` is the truth: rows said `true` beside `local`, and the design had another token than its default."""
    space = space_of({"scenario": {"system": "xeon-8380", "workload": "alexnet"}, "axes": {"turbo": [True, False]}})
    assert space.axes[0].values == ("on", "off")
    assert space.scenario(0) == space.base
    assert space.scenario(1).turbo == "off"


@pytest.mark.parametrize(
    ("scenario", "axes", "money"),
    [
        ("preset:brainwave-gru", {"batch": [1, 2]}, False),
        ({"system": "tpu-v4", "workload": "resnet50"}, {"system": ["tpu-v4", "tpu-v5e"]}, False),
        ({"system": "tpu-v4", "workload": "resnet50"}, {"system": ["tpu-v4", "t4"]}, True),
        ({"system": "tpu-v4", "workload": "resnet50"}, {"devices.0.price": [1000, 2000]}, True),
    ],
)
def test_a_space_that_names_no_objectives_asks_for_no_price_that_no_design_has(scenario, axes, money) -> None:
    """Every such sweep of a part without a price was refused for an objective that nobody had asked for."""
    result = sweep(space_of({"scenario": scenario, "axes": axes}))
    assert len(result.front)
    assert ("capex_usd" in [goal.figure for goal in result.space.objectives]) == money
