"""A many-core array of one's own is one YAML: cores, array, levels, bandwidths and energies; any network runs on it."""

import json
from pathlib import Path

import pytest

from engine.analyses.node.tilings import pinned, products
from engine.cli.main import main
from engine.devices.card.tiling import PIECES
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.sweep import FIGURES, figures_of, space_of, sweep
from hardware_specs import default_catalog
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo, default_zoo
from tests.catalog.onnx_files import conv

ARRAY = """
schema_version: 1
id: my-array
name: My array
vendor: Me
kind: card
summary: Sixteen cores of 16 x 16 x 4 multipliers.
sources:
  me: {title: Notes on an array, publisher: Me}
peak:
  int8: {value: 32.768 TOPS, source: me, where: row 1}
memory:
  - name: dram
    role: offchip
    capacity: {value: 8 GB, source: me, where: row 2}
    bandwidth: {value: 50 GB/s, source: me, where: row 3}
  - name: shared
    role: onchip
    capacity: {value: 8 MiB, source: me, where: row 4}
    bandwidth: {value: 400 GB/s, source: me, where: row 5}
  - name: local
    role: onchip
    per: core
    capacity: {value: 512 KiB, source: me, where: row 6}
    bandwidth: {value: 128 GB/s, source: me, where: row 7}
power:
  max: {value: 15 W, source: me, where: row 8}
card:
  cores: {value: 16, source: me, where: row 9}
  mac_per_cycle:
    int8: {value: 1024, source: me, where: row 10}
  vector_bits: {value: 256, source: me, where: row 11}
  clock:
    max: {value: 1 GHz, source: me, where: row 12}
model:
  array_depth: {value: 16, source: me, where: row 13}
  array_filters: {value: 16, source: me, where: row 14}
  array_low_j: {value: 0.5 pJ, source: me, where: row 15}
  far_byte_j: {value: 60 pJ, source: me, where: row 16}
"""


def _catalog(folder: Path, text: str = ARRAY) -> Catalog:
    at = folder / "devices" / "me"
    at.mkdir(parents=True, exist_ok=True)
    (at / "my-array.yaml").write_text(text)
    return Catalog(*default_catalog().roots, folder)


def test_its_energies_levels_and_array_are_what_is_priced(tmp_path: Path) -> None:
    catalog = _catalog(tmp_path)
    report = evaluate(default_scenario("my-array", "resnet50", catalog, precision="int8"), catalog)
    assert report.fits
    levels = {level for op in report.ops for level, size in op.levels.items() if size}
    assert levels == {"local", "shared", "dram"}
    dram = sum(op.levels["dram"] for op in report.ops)
    assert report.energy["LPDDR"] == pytest.approx(60e-12 * dram)
    # stage 2 of ResNet-50 has 64 filters and depths: 48 wide, its array leaves a third of two tiles idle
    times = {}
    for filters in (16.0, 48.0):
        what = {"model.array_filters": filters}
        one = evaluate(default_scenario("my-array", "resnet50", catalog, precision="int8", overrides=what), catalog)
        times[filters] = one.energy["arrays"]
    assert times[48.0] > 1.1 * times[16.0]


def test_blocks_are_whole_passes_of_the_array_as_deep_as_it_is() -> None:
    base = default_scenario("fb-card", "resnet50")
    for depth, block in ((32.0, 48), (48.0, 64)):
        rows = products(base.with_(overrides={"model.array_depth": depth, "model.array_filters": 16.0}))
        side = next(row for _, op, row in rows if op.name == "s4b1-conv2")
        cores = (int(side[PIECES]), 1)
        assert pinned(side, (32, 32, int(depth)), cores).seconds > 0
        with pytest.raises(ScenarioError, match=f"depth of a block are {block}"):
            pinned(side, (32, 32, block), cores)


def test_a_sweep_of_the_array_is_evaluate() -> None:
    axes = {"model.array_filters": [8.0, 32.0, 256.0], "devices.0.card.cores": [4, 12], "batch": [1, 4]}
    result = sweep({"scenario": {"system": "fb-card", "workload": "resnet50"}, "axes": axes})
    assert result.counts.refused == 4  # 256 filters of 32 deep are more than 4,096 multipliers
    latency = result.cloud[FIGURES.index("latency_s")]
    for number in range(0, result.space.size, 3):
        scenario = result.space.scenario(number)
        if scenario.overrides["model.array_filters"] < 256:
            assert latency[number] == evaluate(scenario).latency_s


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("value: 50 GB/s", "value: 0 GB/s", "memory.0.bandwidth: value '0 GB/s' is out of range"),
        ("value: 128 GB/s", "value: 0 GB/s", "memory.2.bandwidth: value '0 GB/s' is out of range"),
        ("role: offchip", "role: onchip", "memory has no level with role 'offchip'"),
        ("array_depth: {value: 16", "array_depth: {value: 128", "1024 multipliers at most, fewer than their product"),
        ("array_depth: {value: 16", "array_depth: {value: 0.5", "model.array_depth is 0.5: 1 to 4096 is allowed"),
        ("0.5 pJ", "0.5 W", "model.array_low_j is '0.5 W': it needs J"),
        ("0.5 pJ", "-1 pJ", "model.array_low_j is -1e-12: 0 or more is allowed"),
        ("array_low_j", "array_lowest_j", "model.array_lowest_j: card has no such parameter"),
    ],
)
def test_what_no_array_can_be_gets_one_sentence(tmp_path: Path, old: str, new: str, told: str) -> None:
    """A file without memory off the chip ended in a traceback, wrong units and energies below nothing were taken."""
    assert old in ARRAY
    catalog = _catalog(tmp_path, ARRAY.replace(old, new))
    with pytest.raises(ScenarioError) as caught:
        evaluate(default_scenario("my-array", "resnet50", catalog, precision="int8"), catalog)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("512 KiB", "1 KiB", "Does not fit: core memory on My array is 1.02 kB short"),
        ("8 GB", "1 MB", "Does not fit: DRAM on My array is"),
    ],
)
def test_what_does_not_fit_says_where_and_by_how_much(tmp_path: Path, old: str, new: str, told: str) -> None:
    catalog = _catalog(tmp_path, ARRAY.replace(old, new))
    report = evaluate(default_scenario("my-array", "resnet50", catalog, precision="int8"), catalog)
    assert not report.fits
    assert report.problems[0].startswith(told)


def test_an_onnx_file_runs_on_it_from_the_command_line(tmp_path: Path, monkeypatch, capsys) -> None:
    _catalog(tmp_path)
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "my-net.onnx").write_bytes(conv())
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path))
    default_zoo.cache_clear()
    default_catalog.cache_clear()
    try:
        pair = ["--system", "my-array", "--workload", "my-net", "--json"]
        assert main(["evaluate", *pair]) == 0
        assert json.loads(capsys.readouterr().out)["latency_s"] > 0
        assert main(["tile", *pair]) == 0
        assert {one["name"] for one in json.loads(capsys.readouterr().out)["products"]} == {"c1", "fc"}
    finally:
        default_zoo.cache_clear()
        default_catalog.cache_clear()


def test_a_catalog_and_a_zoo_of_ones_own_are_swept_as_they_are_evaluated(tmp_path: Path) -> None:
    catalog = _catalog(tmp_path)
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "my-net.onnx").write_bytes(conv())
    zoo = Zoo(guests=(tmp_path / "workloads",))
    given = {
        "scenario": {"system": "my-array", "workload": "my-net"},
        "axes": {"system": ["my-array", "a100-sxm-80gb"], "batch": [1, 2, 4]},
    }
    space = space_of(given, catalog, zoo)
    result = sweep(space)
    assert (result.counts.done, result.counts.refused) == (6, 0)
    named = sweep(given, catalog=catalog, zoo=zoo)
    assert named.front.values.tobytes() == result.front.values.tobytes()
    plain = space_of({"scenario": "preset:dfx-1.5b", "axes": {"batch": [1]}})
    assert space_of(plain, catalog).catalog is catalog, "a space takes a catalog that it is given"
    for number in range(6):
        report = evaluate(space.scenario(number), catalog, zoo)
        assert figures_of(space, number)["latency_s"] == report.latency_s
