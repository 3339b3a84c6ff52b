"""Adding an accelerator of a known family is one YAML: it appears in every picker and evaluates."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.choose import choose
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario
from engine.scenario import ScenarioError, decode, encode
from engine.sweep import FIGURES, inverse, space_of, sweep, table_rows
from engine.sweep.goals import limits_of
from hardware_specs import default_catalog
from hardware_specs.catalog import Catalog

GPU = """
schema_version: 1
id: acme-one
name: ACME One
vendor: ACME
kind: gpu
summary: An accelerator nobody has heard of.
sources:
  ds: {title: ACME One datasheet, publisher: ACME}
peak:
  fp16: {value: 100 TFLOP/s, source: ds, where: row 1}
  fp32: {value: 10 TFLOP/s, source: ds, where: row 2}
memory:
  - name: hbm
    role: offchip
    capacity: {value: 32 GB, source: ds, where: row 3}
    bandwidth: {value: 1 TB/s, source: ds, where: row 4}
power:
  max: {value: 200 W, source: ds, where: row 5}
price: {value: 1000 USD, source: ds, where: row 6}
gpu:
  units: {value: 64, source: ds, where: row 7}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    folder = tmp_path / "devices" / "acme"
    folder.mkdir(parents=True)
    (folder / "acme-one.yaml").write_text(GPU)
    return Catalog(*default_catalog().roots, tmp_path)


def test_one_yaml_is_a_system_at_once(catalog: Catalog) -> None:
    assert "acme-one" in catalog.ids("systems")
    scenario = default_scenario("acme-one", "gpt2-345m", catalog)
    assert choices(scenario, catalog).workloads["gpt2-345m"] is None
    report = evaluate(scenario, catalog)
    assert report.capex_usd == 1000
    assert 0.2 * 200 < report.power_w < 0.5 * 200  # a memory at its end and idle units draw a part of the board's limit
    # 345M in fp16 is 0.7 GB a token: no faster than 1 TB/s allows, no slower than three times that
    bound = 0.7e9 / 1e12
    assert bound < report.tpot_s < 3 * bound
    assert decode(encode(scenario)) == scenario


def test_twice_the_bandwidth_is_faster(catalog: Catalog) -> None:
    base = default_scenario("acme-one", "gpt2-345m", catalog)
    fast = base.with_(overrides={"devices.0.memory.hbm.bandwidth": "2 TB/s"})
    assert evaluate(fast, catalog).latency_s < evaluate(base, catalog).latency_s


def test_a_sweep_over_systems_takes_it(catalog: Catalog) -> None:
    base = default_scenario("a100-sxm-80gb", "gpt2-345m")
    given = {"scenario": base.model_dump(), "axes": {"system": ["acme-one", "a100-sxm-80gb"], "batch": [1, 2]}}
    result = sweep(space_of(given, catalog))
    assert result.counts.refused == 0
    assert not np.isnan(result.cloud[FIGURES.index("latency_s")]).any()
    assert [result.space.scenario(n).system for n in (0, 3)] == ["acme-one", "a100-sxm-80gb"]
    space = replace(result.space, limits=limits_of("power_w <= 100")[1])
    nearest = inverse(space, {"system": "a100-sxm-80gb", "batch": 1})
    assert (nearest.met, nearest.scenario.system) == (True, "acme-one")
    assert {row["system"] for row in table_rows(result.space) if row["token"]} == {"acme-one", "a100-sxm-80gb"}


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("devices.0.memory.hbm.bandwidth", "2 TB", "B/s"),
        ("devices.0.memory.hbm.bandwidth", -1.0, "out of range"),
        ("devices.0.memory.nvm.bandwidth", "1 GB/s", "nvm"),
        ("devices.0.name", "x", "not a number"),
        ("devices.1.price", "1 USD", "not a hardware path"),
        ("host.cpu.cores", 3.0, "not a hardware path"),
        ("model.nonsense", 1.0, "nonsense"),
        ("devices.0.gpu.units", "12 kg", "kg"),
    ],
)
def test_a_bad_what_if_gets_one_sentence(catalog: Catalog, path: str, value: float | str, word: str) -> None:
    scenario = default_scenario("acme-one", "gpt2-345m", catalog).with_(overrides={path: value})
    with pytest.raises(ScenarioError, match=word) as caught:
        evaluate(scenario, catalog)
    assert "\n" not in str(caught.value)


def test_no_limit_on_power_holds_where_none_is_published(tmp_path: Path) -> None:
    """Such a system met every limit on it."""
    folder = tmp_path / "devices"
    folder.mkdir()
    text = re.sub(r"\n  max: \{.*", " {}", GPU)
    (folder / "acme-one.yaml").write_text(text)
    catalog = Catalog(*default_catalog().roots, tmp_path)
    limited = default_scenario("acme-one", "gpt2-345m", catalog).with_(limits={"power_w": 1.0})
    assert evaluate(limited, catalog).without_effect[-1] == (
        "Not checked: the limit on power, as no power is known of this system."
    )
    question = {"workload": "gpt2-345m", "systems": ["acme-one"], "power_w": 1.0}
    (row,) = choose(question, catalog).rows
    assert row.best is None
    assert row.reason == "no power is known of it, so no limit on power holds"
    assert choose(question | {"power_w": None}, catalog).rows[0].best is not None
