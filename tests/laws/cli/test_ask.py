"""``ask``: every analysis is asked by its name in both forms, and by the command of its own that it was."""

import json

import pytest

from engine.cli.command import TABLE
from engine.cli.main import main
from engine.cli.output import lines_of

ASKED = {
    "machine": ["preset:dfx-1.5b"],
    "microservice": ["preset:brainwave-tp1", "--pool", "3"],
    "program": ["time", "preset:brainwave-gru"],
    "kinds": ["preset:node-resnext"],
    "tile": ["--system", "fb-card", "--workload", "resnet50", "--op", "s4b1-conv2"],
    "split": ["preset:alexnet-split"],
    "camera": ["mobilenet-v1"],
    "forward": [],
    "host-nic": ["preset:tonic-fc"],
    "fuse": ["--system", "arm-edge", "--workload", "mobilenet-v1", "--precision", "fp32"],
}


def test_every_analysis_is_asked_here() -> None:
    assert ASKED.keys() == TABLE["analyses"].keys()


@pytest.mark.parametrize("name", ASKED)
def test_an_analysis_answers_in_both_forms_and_by_its_old_name(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["ask", name, *ASKED[name], "--json"]) == 0
    data = capsys.readouterr().out
    assert json.loads(data)
    assert main([name, *ASKED[name], "--json"]) == 0
    assert capsys.readouterr().out == data
    assert main(["ask", name, *ASKED[name]]) == 0
    text = capsys.readouterr()
    assert len(text.out.splitlines()) > 2
    assert text.err == ""
    assert not any(bad in text.out for bad in ("None", "{", "nan"))


def test_a_name_that_is_no_analysis_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "oracle"]) == 2
    assert "machine" in capsys.readouterr().err


def test_plain_data_is_told_with_the_units_of_its_keys() -> None:
    rows = [{"name": "a", "time_s": 0.0012, "share": 0.25, "sizes_bytes": [1, 2], "deep": {"x": 1}}] * 30
    lines = [*lines_of({"rate_bytes_per_s": 2e9, "fits": True, "missing": None, "count": 12_000, "rows": rows})]
    assert lines[0].split() == ["rate", "2.00", "GB/s"]
    assert lines[1].split() == ["fits", "yes"]
    assert lines[2].split() == ["count", "12,000"]
    assert lines[4].split() == ["name", "time", "share", "sizes", "bytes"]  # what is deeper is for machines
    assert lines[5].split() == ["a", "1.20", "ms", "25%", "1.00", "B,", "2.00", "B"]
    assert lines[-1].strip() == "and 6 more rows: --json holds all"
