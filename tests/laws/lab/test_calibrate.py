"""This host as a device: a valid spec of measured figures that evaluates, and a catalog that survives a broken file."""

import json

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.kernels.jit import JIT_ENABLED
from engine.lab.host.calibrate import HOST, device_of, write_spec
from engine.lab.host.measure.jobs import predict_op
from engine.lab.host.measure.run import KERNELS
from engine.lab.probe import CacheSizes, MeasuredRoofline, far_bytes
from engine.resolve.choices import default_scenario
from hardware_specs.catalog import Catalog, default_catalog, quantities, spec_text, user_root
from hardware_specs.quantity import SpecError
from model_zoo.catalog import default_zoo

pytestmark = pytest.mark.timeout(400)  # the first probe compiles its kernels
ROOFLINE = MeasuredRoofline(
    isa="avx512vnni",
    threads=4,
    caches=CacheSizes(32768, 1 << 20, 32 << 20),
    fp32=1e11,
    int8=4e11,
    bf16=None,
    l1=2e11,
    l2=1e11,
    l3=2.5e10,
    dram=1e10,
    dram_all=2.5e10,
    triad=1e10,
    gather=5e7,
    launch=5e-7,
    dispatch=4e-5,
)
HABITS = {
    "clock": 2.5e9,
    "issue_width": 4.0,
    "gemm": 0.8,
    "short_row": 3.0,
    "thin_input": 0.8,
    "lone_vector": 0.7,
    "exposed": 0.5,
    "call": 1e-5,
    "window_call": 5e-6,
    "step_call": 4e-6,
    "special": 20.0,
    "pool": 5.0,
    "row": 50.0,
    "hash": 6.0,
    "popcount": 6e11,
    "resident": 16e6,
    "near_stream": 0.7,
    "far_stream": 8e9,
}


@pytest.fixture
def device():
    return device_of(ROOFLINE, HABITS)


@pytest.fixture
def catalog(device, tmp_path):
    write_spec(device, tmp_path)
    return Catalog(guests=(tmp_path,))


def test_every_figure_is_measured_or_says_why_not(device):
    found = quantities(device)
    assert len(found) > 20
    assert {q.basis for q in found} == {"measured", "assumed"}
    assumed = {name for name, q in device.model.items() if q.basis == "assumed"}
    assert all(
        q.basis == "measured" for q in quantities(device.cpu) + [q for m in device.memory for q in quantities(m)]
    )
    assert assumed == {
        "efficiency_ceiling",
        "width_exponent",
        "binary_efficiency",
        "call_time",
        "dram_efficiency",
        "tile_rows",
        "tile_columns",
        "requantise_cycles",
    }


def test_the_spec_says_what_the_probe_saw(device):
    assert device.peak["fp32"].si == pytest.approx(4e11)
    assert device.cpu.clock.si * device.cpu.flop_per_cycle["int8"].si == pytest.approx(4e11, rel=1e-4)
    assert {m.name: m.bandwidth.si for m in device.memory if m.bandwidth} == {"dram": 2.5e10, "l3": 1e11}
    assert "bf16" not in device.peak


def test_the_file_reads_back_as_the_same_device(device, catalog):
    assert catalog.device(HOST) == device
    assert catalog.problems == ()
    assert "&" not in spec_text(device).replace("&amp", "")  # an anchor would be refused


def test_the_host_is_a_system_like_any_other(catalog):
    assert HOST in catalog.ids("systems")
    scenario = default_scenario(HOST, "resnet50", catalog)
    slow = evaluate(scenario.with_(precision="fp32", tile=(1,)), catalog)
    fast = evaluate(scenario.with_(precision="fp32", tile=(4,)), catalog)
    assert slow.fits
    flops = default_zoo().graph("resnet50").flops(1)
    assert slow.latency_s > flops / 1e11  # never above one core's peak
    assert slow.latency_s < 4 * flops / 1e11
    assert fast.latency_s < slow.latency_s


def test_the_default_catalog_has_the_users_folder(device, tmp_path, monkeypatch):
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path))
    write_spec(device)
    assert user_root() == tmp_path
    default_catalog.cache_clear()
    try:
        assert HOST in default_catalog().ids("devices")
        assert "v100-32gb" in default_catalog().ids("devices")
    finally:
        default_catalog.cache_clear()


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("broken.yaml", "id: [", "broken.yaml: not readable as YAML"),
        ("empty.yaml", "", "empty.yaml: document"),
        ("odd.yaml", "schema_version: 1\nid: odd\nwheels: 4", "odd.yaml: "),
        ("v100-32gb.yaml", "id: v100-32gb", "v100-32gb.yaml: id 'v100-32gb' is already taken in devices"),
    ],
)
def test_a_broken_user_file_is_one_sentence_and_the_rest_lives(name, text, sentence, device, tmp_path):
    write_spec(device, tmp_path)
    (tmp_path / "devices" / name).write_text(text)
    catalog = Catalog(guests=(tmp_path,))
    assert len(catalog.problems) == 1
    assert catalog.problems[0].startswith(sentence)
    assert "\n" not in catalog.problems[0]
    assert HOST in catalog.ids("devices")
    assert name == "v100-32gb.yaml" or name.removesuffix(".yaml") not in catalog.ids("devices")
    assert catalog.system("dfx-u280").id == "dfx-u280"


def test_a_broken_file_of_our_own_is_still_an_error(tmp_path):
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "v100-32gb.yaml").write_text("id: v100-32gb")
    with pytest.raises(SpecError, match="already taken"):
        Catalog(*Catalog().roots, tmp_path).ids("devices")


def test_one_operator_is_priced_within_its_roofs(device):
    op = KERNELS["gemm"].op((512, 512, 512))
    cost = predict_op(device, op, "fp32", 1)
    seconds = cost.total_s
    assert 0.5 < cost.counters["instructions_per_cycle"][0] <= HABITS["issue_width"]
    bound = 2 * 512**3 / 1e11
    assert bound < seconds < 2.5 * bound
    assert predict_op(device, op, "int8", 1).total_s < seconds
    assert predict_op(device, op, "ms-fp8", 1) is None


@pytest.mark.parametrize("megabytes", [2, 32, 96, 480, 1152])
def test_a_probe_of_memory_leaves_the_caches_and_takes_no_more_than_it_needs(megabytes):
    size = far_bytes(megabytes << 20)
    assert size >= 2 * megabytes << 20
    assert size <= max(2 * megabytes << 20, 1 << 30)


@pytest.mark.skipif(not JIT_ENABLED, reason="the probe needs compiled code")
def test_calibrate_writes_this_host(tmp_path, capsys):
    assert main(["calibrate", "--out", str(tmp_path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    device = Catalog(guests=(tmp_path,)).device(HOST)
    assert data["spec"]["peak"]["fp32"]["value"] == device.peak["fp32"].value


@pytest.mark.skipif(not JIT_ENABLED, reason="the probe needs compiled code")
def test_measure_on_the_command_line(capsys):
    assert main(["measure", "gemm", "--shape", "64x64x64", "--repeats", "3", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["shape"] == [64, 64, 64]
    assert 0 < data["roof_share"] < 1.5
    assert main(["measure", "gemm", "--shape", "64"]) == 2
    assert capsys.readouterr().err.startswith("shape is '64'; gemm takes MxKxN")
    assert main(["measure"]) == 2
    assert "kernel is missing" in capsys.readouterr().err
