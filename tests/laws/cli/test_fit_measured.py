"""Constants of a part fitted to a user's measurements: where that helps, and nowhere else."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from statistics import median

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.published.measured.compare import predict, read_measured
from engine.published.measured.fit import MIN_ROWS, ROWS_EACH, FittedConstant, FittedPart, enough, fit, write_fit
from engine.resolve.choices import default_scenario
from hardware_specs.catalog import Catalog, default_catalog
from tests.laws.cli.measured_tables import run, table

NETS = [(id, b) for id in ("resnet50", "bert-base", "shufflenet-v2", "mobilenet-v1") for b in (1, 8, 64)]
TURNED = {"gemm_efficiency": 0.35, "conv_efficiency": 0.4, "op_overhead": 8e-6}


def measurements(folder: Path, model: dict[str, float], nets: list[tuple[str, int]] = NETS) -> Path:
    """Rows as a Xeon would give them whose constants are others than the shipped ones."""
    rows = ["system,workload,batch,streams,latency_us"]
    for workload, batch in nets:
        base = default_scenario("xeon-8280l", workload).with_(batch=batch, streams=1)
        report = evaluate(base.with_(overrides={f"model.{name}": value for name, value in model.items()}))
        rows.append(f"xeon-8280l,{workload},{batch},1,{report.latency_s * 1e6!r}")
    return table(folder, *rows)


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory):
    """Rows of a Xeon of other constants, and what a fit to them says that a user's catalog beside them now has."""
    folder, said = tmp_path_factory.mktemp("turned"), io.StringIO()
    path = measurements(folder, TURNED)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setenv("INFERSCAPE_CATALOG", str(folder / "mine"))
        assert main(["compare-measured", str(path), "--fit", "--json"]) == 0
    (entry,) = json.loads(said.getvalue())["fit"]
    return path, entry


def test_a_fit_finds_a_constant_that_is_off_and_says_by_how_much(turned):
    _, entry = turned
    moved = {m["name"]: m["after"] for m in entry["moved"]}
    assert 1 <= len(moved) <= len(NETS) // ROWS_EACH
    assert entry["error_before"] > 0.25
    assert entry["error_after"] < 0.05
    assert entry["error_left_out"] < 0.7 * entry["error_before"]
    assert moved.keys() >= TURNED.keys()
    assert not any(m["alike"] for m in entry["moved"])
    assert {name: moved[name] for name in TURNED} == pytest.approx(TURNED, rel=0.15)


def test_a_fit_moves_no_setting(tmp_path: Path):
    """Calls of 28 streams take turns: half as long a call, not half an interpreter, is what such rows tell."""
    rows = ["system,workload,batch,streams,latency_us"]
    for batch in (1, 8, 32, 64, 128, 256):
        base = default_scenario("xeon-8280l", "wide-deep-criteo").with_(batch=batch, streams=28)
        report = evaluate(base.with_(overrides={"model.call_time": 2.2e-4}))
        rows.append(f"xeon-8280l,wide-deep-criteo,{batch},28,{report.latency_s * 1e6!r}")
    catalog = default_catalog()
    ((system, device, found),) = enough(predict(read_measured(table(tmp_path, *rows))).rows, catalog)
    moved = {constant.name: constant.factor for constant in fit(system, device, found, catalog).constants}
    assert moved.keys() & {"inter_op", "threads_per_core", "turbo", "shared_interpreter"} == set()
    assert moved["call_time"] == pytest.approx(0.5, rel=0.1)


def test_constants_that_rows_cannot_tell_apart_are_named(tmp_path: Path, capsys, monkeypatch):
    """Operators that start in 8 us were given to the call of an interpreter as if rows of one stream could tell."""
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path / "mine"))
    nets = [("wide-deep-criteo", batch) for batch in (1, 8, 64, 128, 256, 512)]
    path = measurements(tmp_path, {"op_overhead": 8e-6}, nets)
    code, out, err = run(capsys, path, "--fit")
    assert code == 0, err
    (line,) = (line for line in out.splitlines() if line.startswith("  call_time "))
    assert line.endswith("these rows can't tell it from op_overhead")


def test_a_fit_of_what_is_predicted_already_moves_nothing(tmp_path: Path):
    catalog = default_catalog()
    ((system, device, rows),) = enough(predict(read_measured(measurements(tmp_path, {}))).rows, catalog)
    found = fit(system, device, rows, catalog)
    assert found.constants == ()
    assert not found.helps


def test_a_fit_of_noise_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    """Times as far off upwards as downwards, with no constant behind them: rows left out are not met better."""
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path / "mine"))
    path = measurements(tmp_path, {})
    columns, *rows = path.read_text().splitlines()
    noisy = [
        f"{row.rpartition(',')[0]},{float(row.rpartition(',')[2]) * 1.3 ** (-1) ** i!r}" for i, row in enumerate(rows)
    ]
    code, out, err = run(capsys, table(tmp_path, columns, *noisy), "--fit", "--json")
    assert code == 0, err
    (entry,) = json.loads(out)["fit"]
    written = (tmp_path / "mine").exists()
    assert (
        written == ("files" in entry) == bool(entry["moved"] and entry["gain_left_out"] > entry["gain_standard_error"])
    )


def test_too_few_rows_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = measurements(tmp_path, TURNED, NETS[: MIN_ROWS - 1])
    code, out, err = run(capsys, path, "--fit")
    assert (code, out) == (2, "")
    assert f"--fit needs at least {MIN_ROWS} predicted rows of one part" in err


def test_a_fitted_part_is_a_device_of_the_users_catalog(turned, capsys: pytest.CaptureFixture[str], monkeypatch):
    path, entry = turned
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(mine := path.parent / "mine"))
    catalog = Catalog(guests=(mine,))
    assert catalog.problems == ()
    device = catalog.device("xeon-8280l-calibrated")
    assert {m["name"] for m in entry["moved"]} <= device.model.keys()
    for moved in entry["moved"]:
        number = device.model[moved["name"]]
        assert number.basis == "calibrated"
        assert number.claims == ("rows.csv",)
        assert number.si == pytest.approx(moved["after"], rel=1e-5)
    again = predict(read_measured(path, [f"system={entry['new_system']}"], catalog), catalog)
    errors = [abs(error) for row in again.rows for error in row.errors.values()]
    assert median(errors) == pytest.approx(entry["error_after"], abs=1e-4)
    code, _, err = run(capsys, path, "--fit")
    assert code == 2
    assert "--force" in err


def test_a_fitted_part_of_the_longest_id_can_be_read_back(turned, tmp_path: Path):
    """A part by itself, whose id leaves no room for a suffix."""
    id, (_, entry) = "x" * 63, turned
    text = default_catalog().path("devices", "xeon-8280l").read_text()
    (tmp_path / "mine" / "devices").mkdir(parents=True)
    (tmp_path / "mine" / "devices" / f"{id}.yaml").write_text(text.replace("id: xeon-8280l", f"id: {id}"))
    catalog = Catalog(guests=(tmp_path / "mine",))
    moved = tuple(FittedConstant(**constant) for constant in entry["moved"])
    figures = (entry[name] for name in ("error_before", "error_after", "error_left_out"))
    part = FittedPart(catalog.device(id), id, entry["rows"], moved, *figures, gain=1.0, doubt=0.0)
    called, files = write_fit(part, "rows", catalog, tmp_path / "mine", force=False)
    assert [file.stem for file in files] == [called], "a part by itself is its own system"
    again = Catalog(guests=(tmp_path / "mine",))
    assert again.problems == ()
    assert again.system(called).devices[0].device == called
