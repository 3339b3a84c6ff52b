"""The headless face: JSON with SI keys, one sentence and exit code 2 for anything wrong."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli import bench
from engine.cli.bench import FOLDER
from engine.cli.main import main
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from tests.each import each
from tests.laws.law_grids import ONE_OF_EACH

KEYS = {
    "latency_s",
    "throughput_per_s",
    "unit",
    "power_w",
    "energy_per_unit_j",
    "throughput_per_w",
    "capex_usd",
    "throughput_per_usd",
    "bound",
    "fits",
    "error_band",
    "token",
    "ops",
    "assumptions",
}


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    done = capsys.readouterr()
    return code, done.out, done.err


@pytest.mark.parametrize("what", ["systems", "devices", "links", "nics", "workloads", "presets", "families"])
def test_list_names_ids(capsys: pytest.CaptureFixture[str], what: str) -> None:
    code, out, _ = run(capsys, "list", what, "--json")
    assert code == 0
    rows = json.loads(out)
    assert rows
    assert all(row["id"] and row["name"] for row in rows)
    code, out, _ = run(capsys, "list", what)
    assert len(out.splitlines()) == len(rows)


@each("id", ONE_OF_EACH)
def test_a_preset_its_token_and_its_address_answer_alike(capsys: pytest.CaptureFixture[str], id: str) -> None:
    code, out, err = run(capsys, "evaluate", f"preset:{id}", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert data.keys() >= KEYS
    again = json.loads(run(capsys, "evaluate", data["token"], "--json")[1])
    assert again == data
    url = json.loads(run(capsys, "evaluate", f"http://host:1/x?s={data['token']}", "--json")[1])
    assert url["latency_s"] == data["latency_s"]


def test_flags_and_settings(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    argv = ["evaluate", "--system", "v100-appliance", "--workload", "gpt2-345m", "--batch", "8", "--precision", "fp16"]
    data = json.loads(run(capsys, *argv, "--set", "devices.0.memory.hbm.bandwidth=1.8 TB/s", "--json")[1])
    assert data["scenario"]["batch"] == 8
    assert data["scenario"]["overrides"] == {"devices.0.memory.hbm.bandwidth": "1.8 TB/s"}
    file = tmp_path / "scenario.yaml"
    file.write_text("system: v100-appliance\nworkload: gpt2-345m\nbatch: 8\nprecision: fp16\n")
    from_file = json.loads(run(capsys, "evaluate", str(file), "--json")[1])
    plain = json.loads(run(capsys, *argv, "--json")[1])
    assert from_file["latency_s"] == plain["latency_s"]


def test_csv_has_units_in_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "evaluate", "preset:dfx-345m", "--csv")
    row = next(iter(csv.DictReader(io.StringIO(out))))
    assert list(row)[:2] == ["id", "token"]
    assert row["token"] == encode(PRESETS["dfx-345m"].scenario)
    assert float(row["latency_s"]) > 0


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["evaluate"], "a scenario is needed"),
        (["evaluate", "1zbroken"], "damaged"),
        (["evaluate", "preset:nope"], "known"),
        (["evaluate", "--system", "u280x", "--workload", "gpt2-345m"], "not in the catalog"),
        (["evaluate", "--system", "dfx-u280", "--workload", "resnet-5000"], "not in the catalog"),
        (["evaluate", "--system", "dfx-u280", "--workload", "resnet50"], ""),
        (["evaluate", "preset:dfx-345m", "--batch", "-1"], "batch"),
        (["evaluate", "preset:dfx-345m", "--precision", "int3"], "precision"),
        (["evaluate", "preset:dfx-345m", "--devices", "9"], "devices"),
        (["evaluate", "preset:dfx-345m", "--tile", "3x3"], "tile"),
        (["evaluate", "preset:dfx-345m", "--set", "nonsense=1"], "not a setting"),
        (["evaluate", "preset:dfx-345m", "--scheme", "pinned"], "scheme"),
        (["evaluate", "no-such-file.yaml"], "not readable"),
        (["bench", "--only", "nothing-like-it"], "no benchmark"),
    ],
)
def test_errors_are_one_sentence_and_exit_two(capsys: pytest.CaptureFixture[str], argv: list[str], word: str) -> None:
    code, out, err = run(capsys, *argv)
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert word in err


def test_a_file_with_a_strange_field_is_refused(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("system: dfx-u280\nworkload: gpt2-345m\ncolour: red\n")
    code, _, err = run(capsys, "evaluate", str(file))
    assert code == 2
    assert "colour" in err


def test_the_python_face_is_callable_in_any_import_order() -> None:
    """In a process of its own, which forgets the engine before each."""
    code = """import sys
for before in ("", "import engine.evaluate, engine.resolve.choices", "from engine.evaluate import evaluate"):
    for name in [name for name in sys.modules if name.partition(".")[0] == "engine"]:
        del sys.modules[name]
    exec(before)
    from engine import choices, default_scenario, evaluate, preset
    assert callable(evaluate) and callable(choices), before
assert choices(preset("tonic-fc").scenario).formats"""
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, env=os.environ | {"PYTHONPATH": str(root)})


def test_every_benchmark_has_rows():
    """Two that had none ended `bench` before the last file, and with it every row measured until then."""
    files = sorted(FOLDER.glob("bench_*.py"))
    assert len(files) > 8
    assert [file.name for file in files if "\ndef rows() -> " not in file.read_text()] == []


def test_a_benchmark_that_fails_is_a_row_and_the_others_stay(tmp_path, monkeypatch):
    row = '{"name": %r, "value": 1.0, "unit": "s", "against": "b", "ratio": 1.0, "goal": "reported", "met": None}'
    (tmp_path / "bench_1.py").write_text("def rows() -> list[dict]:\n    return [" + row % "first" + "]\n")
    (tmp_path / "bench_2.py").write_text(
        "def rows():\n    yield " + row % "second" + "\n    raise AssertionError('the two disagree')\n"
    )
    (tmp_path / "bench_3.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "bench_4.py").write_text("def rows() -> list[dict]:\n    return [" + row % "last" + "]\n")
    monkeypatch.setattr(bench, "FOLDER", tmp_path)
    found = bench.collect()
    assert [r["name"] for r in found] == ["first", "second", "bench_2", "bench_3", "last"]
    assert found[2]["against"] == "failed, AssertionError: the two disagree"
    assert "nothing_of_that_name" in found[3]["against"]
    assert [r["met"] for r in found] == [None, None, False, False, None]
    assert bench.markdown(found).count("| **no** |") == 2


def test_one_of_a_thing_is_said_in_the_singular(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("simulate", "preset:dfx-345m", "--clients", "1", "--requests", "1", "--outputs", "1")
    lines = run(capsys, *argv)[1].splitlines()
    assert lines[0].startswith("1 request in ")
    assert any(line.startswith("1 pass, 0 preemptions, ") for line in lines)


def test_an_id_of_a_preset_alone_is_answered_with_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "evaluate", "dfx-1.5b")[2].endswith("file is allowed; nearest: preset:dfx-1.5b\n")


def test_a_price_has_three_digits_with_their_zeros(capsys: pytest.CaptureFixture[str]) -> None:
    prices = re.findall(r"token .*, \$(\S+) per million", run(capsys, "evaluate", "preset:dfx-1.5b")[1])
    assert [len(price.replace(".", "").lstrip("0")) for price in prices] == [3, 3]


def test_a_terminal_is_shown_what_the_rows_are_ranked_by(capsys: pytest.CaptureFixture[str]) -> None:
    """For a demand the rows go by what all instances cost an hour; the cost of a million may order them otherwise."""
    _, out, _ = run(capsys, "choose", "preset:dlrm", "--systems", "a100-sxm-80gb,xeon-8380,xeon-8280")
    _, _, titles, *rows, _, _ = out.splitlines()
    start, end = titles.index("usd per hour"), titles.index("usd per million items")
    money = [float(row[start:end]) for row in rows]
    assert titles.startswith("rank  system")
    assert len(money) == 3
    assert money == sorted(money)
