"""Hostile command lines: one sentence on stderr and exit 2; nothing guessed, nothing lost after the work is done."""

import argparse
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine.cli.sweep
from engine.cli.main import build_parser, main
from engine.resolve.presets import preset
from engine.scenario import ScenarioError, decode, encode, make, token_in

PAIR = "system: xeon-8280l\nworkload: wide-deep-criteo\n"
P = "preset:wide-deep-int8"
ROOT = Path(__file__).parents[3]


def refused(capsys, *argv: str) -> str:
    """The one sentence a command line is refused with."""
    assert main(argv) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error.strip()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("twice.yaml", PAIR + "workload: resnet50\n", "key 'workload' is given twice, line 3"),
        ("twice.json", '{"system": "a", "workload": "b", "system": "c"}', "key 'system' is given twice"),
        ("anchor.yaml", "system: &a xeon-8280l\nworkload: *a\n", "anchors and aliases are not allowed"),
        ("deep.yaml", "system: " + "[" * 3000 + "]" * 3000, "nested more than 20 deep"),
        ("deep.json", '{"system": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ("long.yaml", PAIR + "#" * 9_000_000, "more than the 8388608 bytes"),
        ("tab.yaml", "system:\txeon-8280l\n\tworkload: x\n", "line 2"),
        ("truth.yaml", PAIR + "batch: yes\n", "batch is true: a number or a text is needed"),
        ("cost.yaml", PAIR + "costs: {pue: true}\n", "costs.pue is true"),
        ("none.yaml", PAIR + "batch: null\n", "batch is 'None': a whole number from 1 to 65536 is allowed"),
        ("inf.yaml", PAIR + "batch: .inf\n", "batch is 'inf': a whole number from 1 to 65536 is allowed"),
        (
            "years.yaml",
            PAIR + "costs: {years: 1.0e-320}\n",
            "costs.years is '1e-320': a number from 0.01 to 20 is allowed",
        ),
        ("list.yaml", PAIR + "switches: [a]\n", "switches: a mapping of names to values is needed"),
    ],
)
def test_scenario_files(capsys, tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    assert said in refused(capsys, "evaluate", str(path))


def test_a_scenario_file_may_be_a_whole_report(capsys, tmp_path):
    """An exported report is longer than a scenario; it was cut at 256 KiB in silence."""
    assert main(["evaluate", P, "--json"]) == 0
    report = json.loads(capsys.readouterr().out) | {"padding": "x" * 300_000}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    assert main(["evaluate", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["token"] == report["token"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--batch", "nan"], "batch is 'nan': a finite number is needed"),
        (["--devices=-inf"], "devices is '-inf': a finite number is needed"),
        (["--split", "1e400"], "split is '1e400': a finite number is needed"),
        (["--batch", "70000"], "batch is '70000': a whole number from 1 to 65536 is allowed"),
        (["--tile", "²"], "tile is '²': whole numbers joined by x are allowed"),
        (["--tile", "9" * 5000], "whole numbers joined by x are allowed"),
        (["--set", "tile.²=4"], "'tile.²' is not a setting"),
        (["--set", "devices.0.cpu.clock=1e-308"], "1e-18 to 1e+24 Hz in size is allowed"),
        (["--set", "devices.0.cpu.cores=1e12"], "at least 1 and at most 65536 is allowed"),
        (["--set", "devices.0.cpu.cores=0.5"], "at least 1 and at most 65536 is allowed"),
        (
            ["--set", "links.host.latency=1 us"],
            "is not a hardware path of this system: use devices.0.<field> or model.",
        ),
        (["--system", "nope"], "--system is 'nope' beside a scenario"),
        (["--workload", "resnet50"], "--workload is 'resnet50' beside a scenario"),
        (["--precision", "../x"], "precision is '../x': lower-case letters, digits, dots"),
        (["--batch", ""], "argument --batch: '' is not allowed: a value is"),
        (["--load-direction="], "argument --load-direction: '' is not allowed: a value is"),
        (["--batch=--"], "argument --batch: '--' is not allowed: a value is"),
        (["--set=--"], "argument --set: '--' is not allowed: a value is"),
        (["--pipeline-parallel", "two"], "pipeline_parallel is 'two': a whole number from 0 to 100000 is allowed"),
        (["--second-split=-1"], "second_split is '-1': a whole number from 0 to 100000 is allowed"),
        (["--set", "tile=4", "--tile", "a"], "tile is 'a': whole numbers joined by x are allowed"),
    ],
)
def test_settings(capsys, argv, said):
    assert said in refused(capsys, "evaluate", P, *argv)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("", "a token, a URL with ?s=, preset:ID or a .yaml, .yml or .json file is allowed"),
        ("/tmp", "scenario is '/tmp': a token, a URL"),
        ("http://[/?s=1z", "This URL can't be read: Invalid IPv6 URL"),
    ],
)
def test_targets(capsys, target, said):
    assert said in refused(capsys, "evaluate", target)


def test_a_token_with_truth_for_a_number_is_refused():
    with pytest.raises(ScenarioError, match="batch is true"):
        make(preset("wide-deep-int8").scenario.model_dump() | {"batch": True})
    token = encode(preset("wide-deep-int8").scenario)
    assert decode(token_in(f"http://host/?s={token}")) == preset("wide-deep-int8").scenario


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--timeout", "nan"], "timeout_s is nan; it must be a finite number of at least 0"),
        (["--timeout", "soon"], "argument --timeout: 'soon' is not allowed: a number is"),
        (["--services", "2.5"], "argument --services: '2.5' is not allowed: a whole number is"),
        (["--timeout=-1"], "timeout_s is -1.0"),
        (["--services", "0"], "services is 0"),
        (["--share", "nan"], "share is nan; it must be a number from 0 to 1"),
        (["--most", "5"], "most is 5"),
        (["--sizes", "lognormal:1e300:1:5"], "mean is 1e+300; it must be at most the largest size, 5"),
    ],
)
def test_what_an_arrangement_does_not_use_is_checked_all_the_same(capsys, argv, said):
    assert said in refused(capsys, "simulate", P, "--qps", "100", "--requests", "1000", *argv)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--services", "4"], "services is 4 beside one copy; give arrangement pool"),
        (["--share", "0.5"], "share is 0.5 beside requests that are no packets; give arrangement packets"),
        (["--timeout", "0.5"], "timeout-s is 0.5 beside single requests; give max-batch"),
        (["--sizes-are", "items"], "sizes-are is 'items' beside requests of one size; give sizes"),
    ],
)
def test_what_an_arrangement_does_not_use_is_refused(capsys, argv, said):
    """It was taken, and changed nothing: four copies answered as one."""
    for command in (["simulate", P, "--qps", "100"], ["capacity", P, "--demand", "9", "--sla", "p99=1s"]):
        assert said in refused(capsys, *command, "--requests", "1000", *argv)
    assert said in refused(capsys, "simulate", P, "--clients", "2", "--requests", "1000", *argv)


def test_a_load_beyond_the_clock_s_digits_is_refused(capsys):
    """At 1e-300 requests a second the clock's rounding swallowed every latency: it said 0 s."""
    said = refused(capsys, "simulate", P, "--qps", "1e-300", "--requests", "1000")
    assert "qps is 1e-300; at least" in said
    least = float(said.split("at least ")[1].split(" ")[0])
    from engine.evaluate import evaluate

    assert main(["simulate", P, "--qps", str(2 * least), "--requests", "1000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["latency_s"]
    assert found["mean"]["value"] == pytest.approx(evaluate(preset("wide-deep-int8").scenario).latency_s, rel=1e-3)


def test_demand_beyond_everything(capsys):
    said = refused(capsys, "capacity", P, "--demand", "1e300", "--sla", "p99=50ms", "--requests", "2000")
    assert said == "demand is 1e+300 QPS; at most 1e+12 is allowed"


@pytest.mark.parametrize("flag", ["--out", "--table", "--top-out"])
def test_a_sweep_finds_out_first_that_its_file_can_t_be_written(capsys, tmp_path, monkeypatch, flag):
    """The whole sweep ran, then its result was lost in a traceback."""
    space = tmp_path / "space.yaml"
    space.write_text("scenario: {system: xeon-8280l, workload: wide-deep-criteo}\naxes: {batch: [1, 2]}\n")
    monkeypatch.setattr("engine.sweep.sweep", lambda *_, **__: pytest.fail("the sweep ran"))
    assert "can't be written: No such file" in refused(capsys, "sweep", str(space), flag, str(tmp_path / "no/x.csv"))
    assert ".csv and .parquet can be written" in refused(capsys, "sweep", str(space), flag, str(tmp_path / "x.txt"))
    assert "argument --top: '-1' is not allowed: a whole number from 0" in refused(
        capsys, "sweep", str(space), "--top=-1"
    )
    kept = tmp_path / "kept.csv"
    kept.write_text("mine")
    (tmp_path / "f.csv").mkdir()
    assert "exists already: give --force" in refused(capsys, "sweep", str(space), flag, str(kept))
    assert "it is a folder" in refused(capsys, "sweep", str(space), "--force", flag, str(folder := tmp_path / "f.csv"))
    for path in (kept, tmp_path / "new.csv"):
        engine.cli.sweep.writable(path, True)
    assert kept.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == sorted([space, kept, folder])


def test_a_sweep_of_every_design_refuses_a_seed_and_a_search_an_executor(capsys, tmp_path):
    """They were taken, and did nothing."""
    space = tmp_path / "space.yaml"
    space.write_text("scenario: {system: xeon-8280l, workload: wide-deep-criteo}\naxes: {batch: [1, 2]}\n")
    assert "seed is 5 beside a sweep of every design" in refused(capsys, "sweep", str(space), "--seed", "5")
    said = refused(capsys, "sweep", str(space), "--search", "20", "--executor", "serial")
    assert "executor is 'serial' beside a search, which runs in this process" in said


def test_a_table_replaces_a_link_and_never_follows_it(capsys, tmp_path):
    """What a link led to was overwritten, without a word."""
    theirs, link = tmp_path / "theirs.txt", tmp_path / "front.csv"
    theirs.write_text("theirs")
    link.symlink_to(theirs)
    space = tmp_path / "space.yaml"
    space.write_text("scenario: {system: xeon-8280l, workload: wide-deep-criteo}\naxes: {batch: [1, 2]}\n")
    assert "exists already" in refused(capsys, "sweep", str(space), "--out", str(link))
    assert main(["sweep", str(space), "--out", str(link), "--force"]) == 0
    assert theirs.read_text() == "theirs"
    assert not link.is_symlink()
    assert "token" in link.read_text()


def test_a_full_disk_leaves_what_was_there(capsys, tmp_path):
    """It was "stdout can't be used", and a table cut in the middle of a row."""
    import resource

    space, table = tmp_path / "space.yaml", tmp_path / "table.csv"
    batches = ", ".join(map(str, range(1, 65)))
    space.write_text(f"scenario: {{system: xeon-8280l, workload: wide-deep-criteo}}\naxes: {{batch: [{batches}]}}\n")
    assert main(["sweep", str(space), "--table", str(table)]) == 0
    whole = table.read_text()
    capsys.readouterr()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        said = refused(capsys, "sweep", str(space), "--table", str(table), "--force")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "table.csv' can't be written: File too large" in said
    assert table.read_text() == whole
    assert sorted(tmp_path.iterdir()) == sorted([space, table])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("axes: {batch: [.nan, 2]}", "axis batch has the value nan: finite numbers are allowed"),
        ("axes: {batch: [1, .inf]}", "axis batch has the value inf"),
        ("axes: {batch: {from: 1, to: 8, steps: 0}}", "axis batch has 0 values: 1 to 100000 are allowed"),
        ("axes: {batch: [1]}\naxes: {batch: [2]}", "key 'axes' is given twice"),
        ("axes: " + "[" * 2000 + "]" * 2000, "nested more than 20 deep"),
    ],
)
def test_space_files(capsys, tmp_path, text, said):
    space = tmp_path / "space.yaml"
    space.write_text("scenario: {system: xeon-8280l, workload: wide-deep-criteo}\n" + text)
    assert said in refused(capsys, "sweep", str(space))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["measure", "--workload", "mlp-mnist", "--batch", "0"], "batch is 0; allowed: 1 to 65,536"),
        (["measure", "gemm", "--shape", "8x8x8", "--batch", "3"], "batch is 3 beside a kernel"),
        (["plan", "recommendation", "--repeats=-3"], "repeats is -3; allowed: 1 to 1000"),
        (["calibrate", "--out", "/dev/null/x"], "this-host.yaml' can't be written: Not a directory"),
        (["camera", ""], "workload is '': lower-case letters"),
        (["simulate", P, "--clients", "4", "--limit-ttft", "0"], "--limit-ttft: '0' is not allowed: a number above 0"),
        (["simulate", P, "--clients", "4", "--limit-tpot", "nan"], "--limit-tpot: 'nan' is not allowed: a number"),
        (["camera", "mobilenet-v1", "--precision", "?"], "precision is '?': lower-case letters"),
        (["simulate", P, "--qps", "100", "--share=--"], "argument --share: '--' is not allowed: a value is"),
        (["choose", "resnet50", "--qps", "1e-320"], "qps is '1e-320': a number from 1e-09 to 1e+12 is allowed"),
        (["choose", "resnet50", "--ttft", "1s"], "ttft_s is 1: that means nothing for ResNet-50, so leave it out"),
        (["choose", "resnet50", "--outputs", "9"], "outputs is 9: that means nothing for ResNet-50, so leave it out"),
        (["ask", "program", "show", "preset:brainwave-gru", "--part", "head"], "part is 'head'; allowed: layer, atten"),
        (["ask", "tile", "preset:node-resnext", "--cores", "2x2"], "cores is '2x2' beside a search over all blocks"),
        (["ask", "tile", "preset:node-resnext", "--op", ""], "argument --op: '' is not allowed"),
        (["choose", "resnet50", "--systems", ""], "argument --systems: '' is not allowed: a value is"),
        (["choose", "resnet50", "--systems", "t4,"], "systems.1 is '': lower-case letters, digits"),
        (["ask", "split", "preset:alexnet-split", "--scheme", "nope"], "scheme is 'nope' beside a network that is cut"),
        (["ask", "split", "preset:alexnet-split", "--split", "3"], "split is '3' beside every cut"),
        (
            ["op", "gemm", "--device", "h100-sxm", "--shape", "8x8x8", "--runtime", "x"],
            "--runtime: invalid choice: 'x'",
        ),
        (["ask", "program", "show", "preset:dfx-345m", "--seed", "5"], "seed is 5 beside show; only run draws numbers"),
        (["ask", "program", "show", "preset:dfx-345m", "--file", "x", "--part", "head"], "part is 'head' beside a pr"),
        (["evaluate", P, "--csv", "--json"], "json is on beside --csv, a row for a table: give one of the two"),
        (["measure", "gemm", "--zoo"], "kernel is 'gemm' beside --zoo, which runs every network of your folder"),
        (["measure", "gemm", "--workload", "x"], "kernel is 'gemm' beside --workload, which is a network"),
        (["measure", "wide-deep", "--shape", "8x8"], "shape is '8x8' beside wide-deep, which has its own"),
        (
            ["simulate", P, "--qps", "9", "--requests", "200"],
            "requests is 200; it must be a whole number of at least 800",
        ),
        (["simulate", P, "--qps", "9", "--requests", "3"], "requests is 3; it must be a whole number of at least 800"),
        (["bench", "--only", "gemm", "--markdown", "/nope/x.md"], "'/nope/x.md' can't be written"),
    ],
)
def test_other_verbs(capsys, monkeypatch, argv, said):
    monkeypatch.setattr("engine.lab.host.calibrate.host", lambda: pytest.fail("the host was probed"))
    monkeypatch.setattr("engine.cli.bench.collect", lambda *_: pytest.fail("the benchmarks ran"))
    assert said in refused(capsys, *argv)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
@pytest.mark.parametrize(
    ("shell", "rc", "said"),
    [
        (">/dev/full", 2, "stdout can't be used: No space left on device"),
        (">&-", 2, "stdout is closed: there is nowhere to answer"),
        ("| head -1 >/dev/null", 0, ""),
    ],
)
def test_where_the_answer_goes(shell, rc, said):
    """A full disk, a closed stdout and a reader that leaves early."""
    line = f"set -o pipefail; '{sys.executable}' -m engine list workloads {shell}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr.strip()) == (rc, said)


def test_a_terminal_of_few_letters_gets_an_answer(monkeypatch):
    screen = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(screen, encoding="ascii"))
    assert main(["evaluate", P]) == 0
    assert b"Xeon 8280L" in screen.getvalue()


def parsers(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with what one types to reach it, analyses by both of their names among them."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield path, parser
    for name, sub in (item for action in below for item in action.choices.items()):
        yield from parsers(sub, (*path, name))


PARSERS = dict(parsers(build_parser()))


@pytest.mark.parametrize("path", PARSERS, ids=" ".join)
def test_every_command_refuses_what_it_can_t_parse_in_one_sentence(capsys, path):
    """It was the usage of the command, of up to sixty lines, before the sentence."""
    needed = any(action.required for action in PARSERS[path]._actions)
    assert ("required" if needed else "--no-such-option") in refused(capsys, *path, "--no-such-option")
    for action in PARSERS[path]._actions:
        flag = (action.option_strings or [""])[-1]
        if flag and action.nargs != 0 and (action.type not in (None, Path) or action.choices):
            assert flag in refused(capsys, *path, flag, "no number\n" + "9" * 5000)
            if getattr(action.type, "args", [None])[0] is int:  # no reader takes so many digits
                assert flag in refused(capsys, *path, flag, "9" * 400)
            assert "expected one argument" in refused(capsys, *path, flag)


def test_a_command_that_is_none_is_refused_in_one_sentence(capsys):
    assert "evaluate" in refused(capsys, "oracle")
    assert "machine" in refused(capsys, "ask", "oracle")
    assert "ANALYSIS" in refused(capsys, "ask")
