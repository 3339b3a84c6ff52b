"""A network on this host: its ONNX file run by onnxruntime beside the CPU model's prediction, or why neither."""

import json

import numpy as np
import pytest

from engine.cli.main import main
from engine.lab.host.calibrate import device_of
from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.measure.network import measure_workload, predict
from engine.lab.host.measure.run import Bounds
from engine.lab.timing import MeasurementCancelled
from hardware_specs.catalog import default_catalog
from model_zoo import default_zoo
from tests.catalog.onnx_files import FLOAT, INT64, conv, model, node
from tests.each import each
from tests.laws.lab.test_calibrate import HABITS, ROOFLINE

BOUNDS = Bounds(seconds=0.1)
DEVICE = device_of(ROOFLINE, HABITS)


def wide() -> bytes:
    """One product of 1,024 x 1,024, heavy enough to be timed."""
    weights = {"w": np.ones((1024, 1024), np.float32)}
    return model(
        [node("MatMul", ["x", "w"], ["y"], name="up")],
        [("x", FLOAT, ["batch", 1024])],
        [("y", FLOAT, ["batch", 1024])],
        weights,
    )


def table() -> bytes:
    """A lookup, whose input is whole numbers, and a sum that only rows of the table's own count run."""
    nodes = [node("Gather", ["w", "ids"], ["y"], name="look")]
    weights = {"w": np.ones((7, 5), np.float32)}
    return model(nodes, [("ids", INT64, ["N", 3])], [("y", FLOAT, ["N", 3, 5])], weights)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path))
    (tmp_path / "workloads").mkdir()
    for name, data in (("my-net", conv()), ("wide", wide()), ("table", table())):
        (tmp_path / "workloads" / f"{name}.onnx").write_bytes(data)
    default_zoo.cache_clear()
    default_catalog.cache_clear()
    yield tmp_path / "workloads"
    default_zoo.cache_clear()
    default_catalog.cache_clear()


@each("name", ["my-net", "wide", "table"])
def test_a_file_of_the_users_folder_runs_and_is_predicted(name, folder):
    run = measure_workload(name, batch=4, repeats=3, bounds=BOUNDS, device=lambda: DEVICE)
    assert len(run.time.samples) == 3
    assert run.time.best > 0
    assert run.runtime.startswith("onnxruntime 1.")
    assert run.predicted_s is not None
    assert run.predicted_s > 0
    assert 0 < run.predicted_counters["instructions_per_cycle"] <= 4
    assert run.counts.reason or run.counts.events["instructions"] > 0
    assert run.to_dict()["error"] == pytest.approx(run.predicted_s / run.time.median - 1)


def test_more_requests_take_longer_measured_and_predicted(folder):
    few, many = (measure_workload("wide", batch=n, repeats=5, bounds=BOUNDS, device=lambda: DEVICE) for n in (8, 512))
    assert many.time.median > 8 * few.time.median
    assert many.predicted_s > 8 * few.predicted_s


def test_the_prediction_is_the_cpu_models_own(folder):
    flops = 2 * 64 * 1024 * 1024
    seconds = predict(DEVICE, "wide", 64, 1).latency_s
    assert flops / ROOFLINE.fp32 < seconds < 3 * flops / ROOFLINE.fp32


@each(
    ("workload", "asked", "sentence"),
    [
        ("resnet50", {}, "workload is 'resnet50', counts without weights, which nothing can run"),
        ("resnet51", {}, "workload 'resnet51' is not in the catalog"),
        ("my-net", {"precision": "int8"}, "precision is 'int8'; a file runs in its own"),
        ("my-net", {"batch": 0}, "batch is 0; allowed: 1 to 65,536"),
        ("my-net", {"threads": 4096}, "threads is 4096; allowed on this host"),
        ("wide", {"bounds": Bounds(flops=1e3)}, "a request of wide is 0.0021 GFLOP; allowed: 1e-06"),
    ],
)
def test_what_cannot_run_is_one_sentence(workload, asked, sentence, folder):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as refused:
        measure_workload(workload, **({"repeats": 1, "bounds": BOUNDS} | asked))
    assert str(refused.value).startswith(sentence)


def test_a_file_that_the_library_refuses_is_one_sentence(folder):
    default_zoo().workload("wide")
    (folder / "wide.onnx").write_bytes(b"no network")
    with pytest.raises(MeasureError, match=r"^wide\.onnx can't be run by onnxruntime: [^\n]+$"):
        measure_workload("wide", repeats=1, bounds=BOUNDS)


def test_a_file_that_the_zoo_leaves_out_is_not_measured_and_stops_no_other(folder, monkeypatch, capsys):
    (folder / "resnet50.onnx").write_bytes(conv())  # its counts would be those of the catalog's network
    (folder / "broken.onnx").write_bytes(b"no network")
    default_zoo.cache_clear()
    monkeypatch.setattr("engine.lab.host.calibrate.host", lambda: (ROOFLINE, HABITS))
    assert main(["measure", "--zoo", "--seconds", "0.1", "--repeats", "3", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["workload"] for row in data["rows"]} == {"my-net", "table", "wide"}
    assert data["not_measured"]["resnet50"].startswith("resnet50.onnx: id 'resnet50' is already taken")
    assert data["not_measured"]["broken"].startswith("broken.onnx: ")


def test_a_run_can_be_given_up(folder):
    with pytest.raises(MeasurementCancelled):
        measure_workload("wide", repeats=5, bounds=BOUNDS, progress=lambda *_: False)


def test_without_the_library_the_command_says_what_to_install(folder, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    assert main(["measure", "--workload", "wide"]) == 2
    assert "onnxruntime is not installed, which runs networks: pip install" in capsys.readouterr().err


def test_the_commands_keep_their_keys(folder, monkeypatch, capsys):
    monkeypatch.setattr("engine.lab.host.calibrate.host", lambda: (ROOFLINE, HABITS))
    assert main(["measure", "--workload", "wide", "--seconds", "0.1", "--repeats", "3", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert {"workload", "precision", "batch", "threads", "time_s", "time_q1_s", "time_q3_s"} <= alone.keys()
    assert main(["measure", "--zoo", "--seconds", "0.1", "--repeats", "3", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["workload"] for row in data["rows"]} == {"my-net", "table", "wide"}
    assert data["summary"].startswith("3 networks: median error ")
    (folder / "wide.onnx").rename(folder / "moved.txt")
    for path in folder.glob("*.onnx"):
        path.unlink()
    assert main(["measure", "--zoo"]) == 2
    assert "networks of the catalog are counts without weights" in capsys.readouterr().err
