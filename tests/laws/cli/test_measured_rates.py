"""Published runs at a stated rate of arrivals: each row predicted or given a reason, slower where more come."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.published.measured.compare import compared, read_measured

HEADER = (
    "version,model,scenario,accelerator,n_accel,weights,software,ttft_p50_ms,ttft_p99_ms,tpot_p50_ms,tpot_p99_ms,"
    "scheduled_sps,target_qps"
)
H200 = "NVIDIA H200-SXM-141GB,8,fp8,TensorRT 10.10,41.8,372.2,9.9,12.7,320"
ROWS = (
    f"v5.1,llama3.1-8b,Server,{H200},320",
    f"v5.1,llama3.1-8b,Server,{H200},160",
    f"v5.1,llama3.1-8b,Offline,{H200},320",
    f"v5.1,dlrm-v2-99,Server,{H200},320",
    f"v5.1,llama3.1-8b,Server,{H200.replace('H200-SXM', 'X900')},320",
    f"v5.1,llama3.1-8b,Server,{H200.replace('fp8', 'INT8')},320",
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rates") / "runs.csv"
    path.write_text("\n".join((HEADER, *ROWS)) + "\n")
    return path


def test_rows_are_predicted_at_their_rate_or_say_why_not(table: Path):
    fast, slow, *others = compared(read_measured(table)).rows
    for row in (fast, slow):
        assert row.reason == ""
        assert row.predicted.keys() == row.measured.keys()
        assert row.predicted["ttft_p50_s"] < row.predicted["ttft_p99_s"]
        assert row.predicted["tpot_p50_s"] < row.predicted["tpot_p99_s"]
    assert all(slow.predicted[name] < fast.predicted[name] for name in fast.predicted)
    for row, word in zip(others, ("Offline", "dlrm-v2-99", "X900", "INT8"), strict=True):
        assert not row.predicted
        assert word in row.reason


def test_the_table_comes_back_with_its_predictions(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.csv"
    assert main(["compare-measured", str(table), "--out", str(out)]) == 0
    assert "all ttft_p99_s: half within" in capsys.readouterr().out
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["predicted_ttft_p99_ms"]) for row in rows] == [True, True, False, False, False, False]
