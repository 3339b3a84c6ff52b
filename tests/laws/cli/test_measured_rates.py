"""Published runs at a stated rate of arrivals: each row predicted or given a reason, slower where more come."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.published.measured import arrivals
from engine.published.measured.compare import predict, read_measured
from engine.published.measured.table import system_of
from engine.scenario import ScenarioError
from hardware_specs import default_catalog

HEADER = (
    "version,model,scenario,accelerator,n_accel,weights,software,ttft_p50_ms,ttft_p99_ms,tpot_p50_ms,tpot_p99_ms,"
    "scheduled_sps,target_qps"
)
H200 = "NVIDIA H200-SXM-141GB,8,fp8,TensorRT 10.10,41.8,372.2,9.9,12.7,320"
ROWS = (
    f"v5.1,llama3.1-8b,Server,{H200},320",
    f"v5.1,llama3.1-8b,Server,{H200},160",
    f"v5.1,llama3.1-8b,Offline,{H200},320",
    f"v5.1,whisper,Server,{H200},320",
    f"v5.1,llama3.1-8b,Server,{H200.replace('H200-SXM', 'X900')},320",
    f"v5.1,llama3.1-8b,Server,{H200.replace('fp8', 'INT3')},320",
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rates") / "runs.csv"
    path.write_text("\n".join((HEADER, *ROWS)) + "\n")
    return path


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch):
    """Runs of an eighth of the requests, and fewer of a search: what a test asks for shows in them too."""
    monkeypatch.setattr(arrivals, "_REQUESTS", arrivals._REQUESTS // 8)
    monkeypatch.setattr(arrivals, "_STEPS", 3 * arrivals._STEPS // 4)
    for remembered in (arrivals._percentiles, arrivals._slowest):
        remembered.cache_clear()
    yield
    for remembered in (arrivals._percentiles, arrivals._slowest):
        remembered.cache_clear()


def test_rows_are_predicted_at_their_rate_or_say_why_not(table: Path):
    fast, slow, *others = predict(read_measured(table)).rows
    for row in (fast, slow):
        assert row.reason == ""
        assert row.predicted.keys() == row.measured.keys()
        assert row.predicted["ttft_p50_s"] < row.predicted["ttft_p99_s"]
        assert row.predicted["tpot_p50_s"] < row.predicted["tpot_p99_s"]
    assert all(slow.predicted[name] < fast.predicted[name] for name in fast.predicted)
    for row, word in zip(others, ("Offline", "whisper", "X900", "int3"), strict=True):
        assert not row.predicted
        assert word in row.reason


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("NVIDIA H100-PCIe-80GB", "h100-pcie"),
        ("NVIDIA H100-NVL-94GB", "h100-nvl"),
        ("NVIDIA A100-SXM-80GB", "a100-sxm-80gb"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GB300", "gb300-nvl72"),
        ("NVIDIA GH200 Grace Hopper Superchip 144GB", "gh200-144gb"),
        ("Virtualized NVIDIA H200-SXM-141GB", "h200-sxm"),
        ("AMD Instinct MI300X-NPS1-SPX-192GB-750W", "mi300x"),
        ("AMD Instinct MI355X 288GB HBM3e", "mi355x"),
        ("Intel(R) Xeon(R) Platinum 8592+", "xeon-8592plus"),
        ("NVIDIA H100 SXM5 80GB HBM3", "h100-sxm"),
        ("TPU-v6", "tpu-v6e"),
        ("TPU-v5p", "tpu-v5p"),
        ("NVIDIA GH200-GraceHopper-Superchip-96GB HBM3", "gh200-96gb"),
        ("NVIDIA A100-PCIe-80GB", "a100-pcie-80gb"),
        ("NVIDIA Jetson AGX Thor 128G", "jetson-agx-thor"),
        ("AMD Instinct MI350X 288GB", "mi350x"),
        ("[MAXSUN] MS-Intel Arc Pro B60 Dual 48G Turbo", "arc-pro-b60"),
    ],
)
def test_a_log_names_parts_in_words_of_its_own(text: str, system: str):
    assert system_of({"accelerator": text}, "accelerator", default_catalog()) == system


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("AMD Instinct MI300X (x32), AMD Instinct MI325X (x16)", "several of our systems; nearest: mi300x, mi325x"),
        ("NVIDIA H200", "none or several of our systems; nearest: h200-nvl, h200-sxm"),
        ("NVIDIA X900-SXM", "none or several of our systems"),
        ("", "accelerator is not given"),
    ],
)
def test_a_part_that_is_none_or_several_is_refused_with_what_is_near(text: str, why: str):
    with pytest.raises(ScenarioError, match="accelerator is") as refused:
        system_of({"accelerator": text}, "accelerator", default_catalog())
    assert str(refused.value).endswith(why)


STATED = f"{HEADER},completed_sps,tokens_s"


@pytest.mark.usefixtures("shorter")
def test_rows_of_other_rounds_are_predicted_or_refused_for_what_they_lack(tmp_path: Path):
    """Formats in words, or none; a network that no rule is known of but the row's own rates of tokens; a rate far
    beyond its devices, whose first tokens were said to come after months.
    """
    row = "v6.0,{},{},NVIDIA B200-SXM-180GB,8,{},TensorRT-LLM 1.2,300,900,20,25,{},{}"
    path = tmp_path / "rounds.csv"
    rows = [
        row.format("llama3_1-8b", "Server", weights, "320,320", ",") for weights in ("", "UNSET", "fp4", "OCP MXFP4")
    ]
    rows += [row.format("gpt-oss-120b", "Interactive", "mxfp4", "20,20", given) for given in ("19.8,19800", ",")]
    rows += [row.format("gptj-99", "Server", "fp8", "20,20", "20,1400")]
    rows += [row.format("llama3.1-405b", "Server", "fp8", "90,90", ","), row.format("", "", "fp8", "9,9", ",")]
    path.write_text("\n".join((STATED, *rows)) + "\n")
    *alike, stated, lacking, known, beyond, bare = predict(read_measured(path)).rows
    assert [(row.reason, row.scenario) for row in alike] == [("", alike[0].scenario)] * 4
    assert stated.reason == ""
    assert stated.rate.outputs.mean == pytest.approx(1000.0)
    assert lacking.reason == "model is 'gpt-oss-120b': the tokens of its requests are not known"
    assert known.reason == "", "by the name that the benchmark has for it"
    assert known.scenario.workload == "gptj-6b"
    assert "requests come a second to a replica (devices: " in beyond.reason
    come, carried = (float(part.split()[0]) for part in beyond.reason.split("carries about "))
    assert carried < 0.75 * come
    assert bare.reason == "scenario is '': only runs at a rate are predicted"


@pytest.mark.usefixtures("shorter")
def test_every_format_that_a_part_runs_is_predicted(tmp_path: Path):
    path = tmp_path / "formats.csv"
    row = "v4.1,llama3.1-8b,Server,{},8,{},TensorRT 10.2,343,1819,142.8,145.1,40,40"
    parts = ("NVIDIA A100-SXM-80GB", "INT4"), ("NVIDIA H100-SXM-80GB", "bf16"), ("NVIDIA B200-SXM-180GB", "NVFP4")
    path.write_text("\n".join((HEADER, *(row.format(*part) for part in parts))) + "\n")
    rows = predict(read_measured(path)).rows
    assert [row.reason for row in rows] == ["", "", ""]
    assert [row.scenario.precision for row in rows] == ["w4a16", "bf16", "fp4"]
    assert [row.scenario.kv_format for row in rows] == [None, "fp8", "fp8"], (
        "a part keeps 8 bits where it computes in them"
    )


@pytest.mark.usefixtures("shorter")
def test_a_board_of_two_parts_serves_as_two_do(tmp_path: Path):
    row = "v5.1,llama3.1-8b,Server,{},{},UINT4,vLLM 0.9.0,445,1934,67,78,{rate},{rate}"
    boards = row.format("[MAXSUN] MS-Intel Arc Pro B60 Dual 48G Turbo", 2, rate=21)
    path = tmp_path / "boards.csv"
    path.write_text("\n".join((HEADER, boards, row.format("Intel Arc Pro B60", 4, rate=21))) + "\n")
    dual, parts = predict(read_measured(path)).rows
    assert dual.reason == parts.reason == ""
    assert dual.rate == parts.rate
    assert dual.predicted == parts.predicted


@pytest.mark.usefixtures("shorter")
def test_a_processor_serves_a_language_model_from_each_cluster_of_its_cores(tmp_path: Path):
    row = "v5.1,llama3.1-8b,Server,,,INTEL(R) XEON(R) 6980P,2,{},PyTorch,510.6,1372.5,54.3,92.7,3.5,3.5"
    path = tmp_path / "processor.csv"
    header = HEADER.replace("n_accel", "n_accel,cpu,n_cpu")
    path.write_text("\n".join((header, row.format("INT8"), row.format("INT4"), row.format("INT3"))) + "\n")
    eight, four, none = predict(read_measured(path)).rows
    assert [(row.reason, row.scenario.streams, row.scenario.precision) for row in (eight, four)] == [
        ("", 3, "w8a16"),
        ("", 3, "w4a16"),
    ]
    assert eight.rate.per_s == pytest.approx(3.5 / 6)
    for name, value in eight.measured.items():
        assert eight.predicted[name] == pytest.approx(value, rel=0.35)
    assert "int3" in none.reason


B200 = "NVIDIA B200-SXM-180GB,8,{nodes},fp4,TensorRT 10.11,1342.3,4762.7,99.2,134.6,{rate},{rate}"
PLACED = (
    f"v5.1,llama3.1-405b,Server,{B200.format(nodes=1, rate=1.9)}",
    f"v5.1,llama3.1-405b,Server,{B200.format(nodes=2, rate=3.8)}",
    f"v5.1,deepseek-r1,Server,{B200.format(nodes=1, rate=4).replace('99.2,134.6', '62.3,65.0')}",
    f"v5.1,llama3.1-405b,Server,{B200.format(nodes=1, rate=1.9).replace('fp4', 'UNSET')}",
    "v5.1,llama2-70b-99,Server,NVIDIA H100-SXM-80GB,8,2,fp8,TensorRT 10.8,343,1819,142.8,145.1,210,210",
)


@pytest.mark.usefixtures("shorter")
def test_networks_are_placed_on_as_many_devices_as_hold_them_and_keep_the_limits(tmp_path: Path):
    path = tmp_path / "placed.csv"
    path.write_text("\n".join((HEADER.replace("n_accel,", "n_accel,nodes,"), *PLACED)) + "\n")
    rows = predict(read_measured(path)).rows
    assert [row.reason for row in rows] == [""] * len(PLACED)
    one, two, mixture, unset, small = rows
    assert one.scenario.devices > 1
    assert mixture.scenario.devices > 1
    assert small.scenario.devices > 1, "one device holds the network and too few requests for the rate"
    assert two.rate.per_s == one.rate.per_s, "twice the rate of twice the nodes"
    assert two.predicted["tpot_p50_s"] == pytest.approx(one.predicted["tpot_p50_s"], rel=0.15)
    assert unset.scenario == one.scenario, "what is not stated is the narrowest format of the part"
    for row in rows:
        assert row.predicted["tpot_p50_s"] == pytest.approx(row.measured["tpot_p50_s"], rel=0.5)


def test_a_run_of_a_benchmark_kept_its_limits(table: Path):
    """So no figure is above its limit, unless the pass times would be farther off than they are known to be."""
    fast, slow, *_ = predict(read_measured(table)).rows
    for row in (fast, slow):
        assert row.rate.limits == (2.0, 0.1)
        assert row.predicted["tpot_p99_s"] <= 0.1
        assert row.predicted["ttft_p99_s"] <= 2.0


def test_answers_are_as_long_as_the_logs_say(table: Path):
    fast, *_ = read_measured(table).rows
    assert fast.rate.outputs.draw(1000, 0, 1, 0).mean() == pytest.approx(128.4, rel=0.01)


def test_figures_are_those_of_a_run_of_hours(table: Path, monkeypatch: pytest.MonkeyPatch):
    """Near its capacity an engine takes minutes to fill: a run that begins empty shows times that are too short."""
    fast, *_ = read_measured(table).rows
    load = replace(fast.rate, limits=())
    short = arrivals.predicted_at(fast.scenario, load, default_catalog())
    monkeypatch.setattr(arrivals, "_REQUESTS", 8 * arrivals._REQUESTS)
    arrivals._percentiles.cache_clear()
    long = arrivals.predicted_at(fast.scenario, load, default_catalog())
    assert short["tpot_p50_s"] == pytest.approx(long["tpot_p50_s"], rel=0.05)


def test_a_processor_beside_the_accelerators_changes_nothing(table: Path, tmp_path: Path):
    """Logs name the host's too, with the mean time of a query: such a table is still one of runs at a rate."""
    path = tmp_path / "hosted.csv"
    path.write_text(f"{HEADER},cpu,cores,mean_ms\n{ROWS[0]},Xeon 6980P,128,5.0\n")
    hosted, plain = (predict(read_measured(p)).rows[0].predicted for p in (path, table))
    assert hosted.items() > plain.items(), "and the mean time is predicted too"


@pytest.mark.usefixtures("shorter")
def test_passes_take_the_tokens_at_which_a_run_s_rate_is_highest(tmp_path: Path):
    """Few where time between tokens is short, so that first tokens wait; a server run takes many."""
    path = tmp_path / "budgets.csv"
    h200 = "NVIDIA H200-SXM-141GB,8,fp8,TensorRT 10.11"
    runs = f"Interactive,{h200},111.2,431.5,37.1,39.6,79.3,79.3", f"Server,{h200},361,951,173,184,114.2,114.2"
    path.write_text("\n".join((HEADER, *(f"v5.1,llama2-70b-99,{run}" for run in runs))) + "\n")
    interactive, server = predict(read_measured(path)).rows
    assert interactive.rate.scheduler.budget < 512
    assert server.rate.scheduler.budget >= 2048
    for name in ("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s"):
        assert interactive.predicted[name] == pytest.approx(interactive.measured[name], rel=0.2)


@pytest.mark.usefixtures("shorter")
def test_an_engine_that_decides_for_several_passes_lets_who_comes_wait(tmp_path: Path):
    path = tmp_path / "engines.csv"
    mi300x = "v5.1,llama2-70b-99,Server,AMD Instinct MI300X 192GB HBM3,8,fp8,vLLM {},900,1900,140,190,80,80"
    path.write_text("\n".join((HEADER, mi300x.format("0.6.5"), mi300x.format("0.10.0"))) + "\n")
    older, newer = predict(read_measured(path)).rows
    assert older.rate.scheduler.steps > newer.rate.scheduler.steps == 1
    assert older.rate.cv == newer.rate.cv == 1.0, "requests are dealt to its replicas at random"
    assert older.predicted["ttft_p50_s"] > 2 * newer.predicted["ttft_p50_s"]


@pytest.mark.usefixtures("shorter")
def test_an_engine_that_forms_a_pass_while_one_runs_takes_its_overlap_more_to_a_first_token(tmp_path: Path):
    """Of a pass, a share: half of one where the C++ engine of MLPerf's logs ran, all of it elsewhere."""
    path = tmp_path / "overlap.csv"
    row = "v5.1,llama2-70b-99,Server,NVIDIA H200-SXM-141GB,8,fp8,{},360,950,173,184,114,114"
    path.write_text(
        "\n".join((HEADER, *(row.format(of) for of in ("TensorRT 10.11", "SGLang v0.4", "vLLM v0.9.2")))) + "\n"
    )
    rows = predict(read_measured(path)).rows
    assert [row.rate.scheduler.asynchronous for row in rows] == [True, True, False]
    assert [row.rate.scheduler.overlap for row in rows[:2]] == [0.5, 1.0]
    overlaid, whole = rows[0], []
    for scheduler in (replace(overlaid.rate.scheduler, **late) for late in ({"overlap": 1.0}, {"asynchronous": False})):
        load = replace(overlaid.rate, scheduler=scheduler)
        whole.append(arrivals.predicted_at(overlaid.scenario, load, default_catalog()))
    later, sooner = (figures["ttft_p50_s"] - overlaid.predicted["ttft_p50_s"] for figures in whole)
    assert later == pytest.approx(0.5 * whole[1]["tpot_p50_s"], rel=0.3)
    assert -sooner == pytest.approx(0.5 * whole[1]["tpot_p50_s"], rel=0.3)


QUERIES = "model,scenario,accelerator,n_accel,nodes,cpu,n_cpu,weights,software,mean_ms,p99_ms,samples_s,target_qps"
XEON = "INTEL(R) XEON(R) {},2,int8,PyTorch"
H200_NODE = "NVIDIA H200-SXM-141GB,8,1,Xeon,2,int8,TensorRT 10.8"
RECOMMENDERS = (
    f"dlrm-v2-99.9,Offline,,,1,{XEON.format('6980P')},,,18495.5,18500",
    f"dlrm-v2-99.9,Server,,,1,{XEON.format('6980P')},18.9,48.8,,18200",
    f"dlrm-v2-99.9,Offline,,,1,{XEON.format('6787P')},,,12274.3,12000",
    f"dlrm-v2-99.9,Server,,,1,{XEON.format('6787P')},10.7,25.9,,11800",
    f"dlrm-v2-99.9,Offline,{H200_NODE},,,389330,408000",
    f"dlrm-v2-99.9,Server,{H200_NODE},8.06,9.92,,370000",
    f"dlrm-v2-99,Offline,{H200_NODE},,,647861,720000",
    f"dlrm-v2-99.9,Server,,,1,{XEON.format('0000P')},10.7,25.9,,11800",
    f"dlrm-v2-99.9,Server,{H200_NODE},8.06,9.92,,3700000",
    f"dlrm-v2-99.9,Server,{H200_NODE},8.06,9.92,,many",
)


def test_queries_of_a_recommender_are_predicted_at_a_rate_and_all_at_once(tmp_path: Path):
    path = tmp_path / "queries.csv"
    path.write_text("\n".join((QUERIES, *RECOMMENDERS)) + "\n")
    *rows, unknown, beyond, wordy = predict(read_measured(path)).rows
    for row in rows:
        assert row.reason == ""
        assert row.predicted
        assert all(abs(error) < 0.6 for error in row.errors.values()), row.errors
    exact, plain = rows[4].predicted["samples_per_s"], rows[6].predicted["samples_per_s"]
    assert exact / plain == pytest.approx(389330 / 647861, rel=0.1), "16 bits at 99.9% of the accuracy"
    for row, most in ((rows[0], 0.03), (rows[2], 0.03), (rows[4], 0.1), (rows[6], 0.1)):
        assert abs(row.errors["samples_per_s"]) < most
    for at in (1, 3, 5):
        assert rows[at].predicted["latency_mean_s"] < rows[at].predicted["latency_p99_s"]
    assert "0000P" in unknown.reason
    assert "devices carry" in beyond.reason
    carried, sooner = (float(part.split()[0]) for part in beyond.reason.split("carry ")[1].split(", and "))
    assert sooner == pytest.approx(carried / 0.8, rel=0.01), "the rate was that of 0.8 of the estimated times"
    assert beyond.reason.endswith("if those are 0.8 of it")
    assert wordy.reason == "target_qps is 'many'; a number above 0 is needed"


def test_all_queries_at_once_go_at_the_rate_above_which_a_queue_of_them_grows(tmp_path: Path):
    """Near it the queue takes a minute to build up: a run of seconds ends before that."""
    path = tmp_path / "queries.csv"
    path.write_text("\n".join((QUERIES, RECOMMENDERS[2])) + "\n")
    most = predict(read_measured(path)).rows[0].predicted["samples_per_s"]
    rates = [
        f"dlrm-v2-99.9,Server,,,1,{XEON.format('6787P')},10.7,25.9,,{share * most}" for share in (0.5, 0.998, 1.01)
    ]
    path.write_text("\n".join((QUERIES, *rates)) + "\n")
    idle, busy, beyond = (row.predicted["latency_mean_s"] for row in predict(read_measured(path)).rows)
    assert busy > 1.5 * idle
    assert beyond < busy, "a valid run's node is at most 98% busy"


def test_the_table_comes_back_with_its_predictions(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.csv"
    assert main(["compare-measured", str(table), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "all ttft_p99_s: half within" in said
    assert "2 of them given that their run kept its benchmark's limits" in said
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["predicted_ttft_p99_ms"]) for row in rows] == [True, True, False, False, False, False]
