"""A user's measurements beside predictions: every row answered, nothing lost, a part fitted only where that helps."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.evaluate import evaluate
from engine.published.measured.compare import coverage, predict, read_measured, write_back
from engine.published.measured.serving import BenchmarkRun, under_load
from engine.published.measured.table import FIGURES
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.resolve.presets import preset
from engine.traffic.engines.scheduler import POLICIES
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.laws.cli.measured_tables import run, table

SERVING = (
    "id,source,measured,framework,version,model,system,precision,isl,osl,concurrency,batch_per_rank,gpus,tp,pp,attn_dp,"
    "moe_tp,moe_ep,spec,ttft_ms,tpot_ms,flags"
)
LLAMA = "meta-llama/Llama-3.1-70B,h100_sxm,fp8,1024,1024"


def serving(*changes: str) -> list[str]:
    """Rows in the columns of published serving tables."""
    return [SERVING, *(f"a,inferencex,2025-10-29,vllm,0.18.0,{change}" for change in changes)]


QUICK = ("node-resnext", "cpu-dlrm", "brainwave-tp1", "tonic-fc", "dfx-345m", "v100-1.5b")  # one of each family


@pytest.mark.parametrize("least", [True, False], ids=["SI", "another unit"])
def test_what_we_predict_measures_without_error(least: bool, tmp_path: Path):
    """Scenarios of every family by their token, every figure: a prediction taken for a measurement is met."""
    figures = {f.attribute: f for f in (FIGURES.values() if least else reversed(FIGURES.values()))}
    rows, expected = [",".join(["token", *(f.column for f in figures.values())])], 0
    for id in QUICK:
        report = evaluate(preset(id).scenario)
        values = [(getattr(report, name), f.scale) for name, f in figures.items()]
        rows.append(",".join([report.token, *("" if v is None else repr(v / scale) for v, scale in values)]))
        expected += sum(v is not None for v, _ in values)
    found = predict(read_measured(table(tmp_path, *rows)))
    errors = [error for row in found.rows for error in row.errors.values()]
    assert len(errors) == expected > 4 * len(QUICK)
    assert max(map(abs, errors)) < 1e-9


def test_names_of_others_are_our_own(tmp_path: Path):
    """A part, a model and a format as others write them give the row that our ids give."""
    theirs = table(tmp_path, "model,system,dtype,isl,osl,gpus,tpot_ms", "Qwen/Qwen3-32B,h100_sxm,bfloat16,512,64,2,9")
    (a,) = read_measured(theirs).rows
    ours = table(
        tmp_path, "workload,system,precision,inputs,outputs,devices,tpot_s", "qwen3-32b,h100-sxm,bf16,512,64,2,0.009"
    )
    (b,) = read_measured(ours).rows
    assert a.scenario == b.scenario is not None
    assert a.measured == pytest.approx(b.measured)


@pytest.mark.parametrize("system", ["rtx_pro_6000_server", "gb200", "GB300"])
@pytest.mark.parametrize(
    ("model", "id", "format", "given"),
    [
        ("Qwen3-235B-A22B-FP8", "qwen3-235b-a22b", "fp8", ""),
        ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b", "fp8", "fp8"),
        ("nvidia/DeepSeek-V3.1-NVFP4", "deepseek-r1", "fp4", ""),
        ("DeepSeek-V3.1-NVFP4", "deepseek-r1", "fp8", "fp8"),
        ("meta-llama/Llama-3.1-8B", "llama3.1-8b", "w4a16", "int4"),
    ],
)
def test_checkpoints_and_parts_of_todays_tables_are_found(system, model, id, format, given, tmp_path: Path):
    """A name says publisher and format, or not; what a row's own column says of its format stands."""
    theirs = table(tmp_path, "model,system,dtype,isl,osl,gpus,tpot_ms", f"{model},{system},{given},512,64,8,9")
    (row,) = predict(read_measured(theirs)).rows
    assert row.reason == ""
    assert (row.scenario.workload, row.scenario.precision) == (id, format)
    assert row.predicted["tpot_s"] > 0


@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_experts_may_be_split_part_way(parts, tmp_path: Path):
    cells = f"a,x,tpot,vllm,0.18,Qwen/Qwen3-235B-A22B,h200_sxm,fp8,1024,1024,16,,8,8,1,1,{8 // parts},{parts},,100,20,"
    (row,) = predict(read_measured(table(tmp_path, SERVING, cells))).rows
    assert row.reason == ""
    (bad,) = predict(read_measured(table(tmp_path, SERVING, cells.replace(f",{parts},,100", ",3,,100")))).rows
    assert bad.reason == "moe_ep is 3 of 8 devices: a number that divides them is modelled"


@pytest.mark.parametrize("device", ["rtx_pro_6000_server", "gb200", "gb300", "h100", "A100-SXM4-80GB"])
@pytest.mark.parametrize(("kind", "precision"), [("gemm", "int4"), ("gemm", "bfloat16"), ("all_reduce", "bfloat16")])
def test_operators_of_todays_parts_are_predicted(device, kind, precision, capsys: pytest.CaptureFixture[str]):
    shape = "4096x4096x4096" if kind == "gemm" else "8x1048576"
    assert main(["op", kind, "--device", device, "--shape", shape, "--precision", precision, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predicted_us"] > 0


def test_serving_rows_go_in_as_published_and_each_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = table(
        tmp_path,
        *serving(
            f"{LLAMA},64,64,4,4,1,1,4,1,none,300,22,",
            f"{LLAMA},,,4,4,1,1,4,1,none,300,22,concurrency_unrecorded",
            f"{LLAMA},64,64,4,4,1,1,4,1,mtp?,300,22,",
            f"{LLAMA},64,64,4,4,1,1,4,1,none,300,22,label_fixed;suspect_fast",
            f"{LLAMA},64,16,8,2,1,3,1,8,none,300,22,",
            "openai/gpt-of-nobody,h100_sxm,fp4,1024,1024,64,64,4,4,1,1,4,1,none,300,22,",
            "meta-llama/Llama-3.1-70B,part_of_nobody,fp8,1024,1024,64,64,4,4,1,1,4,1,none,300,22,",
        ),
    )
    out = tmp_path / "out.csv"
    code, told, err = run(capsys, path, "--json", "--out", out)
    assert code == 0, err
    data = json.loads(told)
    assert (data["rows"], data["predicted"], sum(data["skipped"].values())) == (7, 1, 6)
    for word in ("concurrency", "mtp?", "suspect_fast", "attn_dp", "gpt-of-nobody", "part_of_nobody"):
        assert any(word in reason for reason in data["skipped"]), word
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["predicted_tpot_ms"]) for row in rows] == [True] + [False] * 6
    assert [bool(row["reason"]) for row in rows] == [False] + [True] * 6
    assert [row["tpot_ms"] for row in rows] == ["22"] * 7, "a row comes back as it was"
    code, _, err = run(capsys, path, "--out", out)
    assert code == 2
    assert "--force" in err


def test_lengths_that_a_client_draws_below_the_nominal_count_at_their_mean(tmp_path: Path):
    (row,) = read_measured(table(tmp_path, *serving(f"{LLAMA},64,64,4,4,1,1,4,1,none,300,22,"))).rows
    assert row.scenario is not None
    assert (row.scenario.inputs, row.scenario.outputs) == (922, 922)  # 0.9 of 1024, as the client draws them


DENSE = [id for id in default_zoo().ids() if default_zoo().workload(id).family == "transformer-decoder"]


VLLM = BenchmarkRun(POLICIES["vllm"])
ROOMY = replace(VLLM, scheduler=replace(VLLM.scheduler, kv_blocks=10**9))  # laws of passes: room for all


@each("workload", DENSE[::8])  # a table of passes each
def test_tokens_under_load_take_a_decode_pass_and_the_prompts_that_come_in_between(workload: str):
    """One request alone decodes as `evaluate` has it; of many, each waits for all others' prompts at most."""
    catalog = default_catalog()
    base = default_scenario("h100-sxm", workload, devices=8)
    for concurrency, inputs, outputs in ((1, 64, 512), (32, 512, 128), (256, 900, 100)):
        at = base.with_(inputs=inputs, outputs=outputs)

        def passes(scenario):
            bound = bind(scenario, catalog)
            runs = assemble(bound, make_plan(bound)).priced[0].runs
            return {run.job.phase.name: run.cost.total_s for run in runs}

        alone, decode = (passes(at.with_(batch=batch))["decode"] for batch in (1, concurrency))
        prefill = passes(at.with_(batch=1))["prefill"]
        found = under_load(at, concurrency, ROOMY, catalog)
        assert alone * 0.95 <= found["tpot_s"] <= (decode + concurrency / (outputs - 1) * prefill) * 1.05
        assert found["ttft_s"] >= prefill * 0.9
        if concurrency == 1:
            assert found["tpot_s"] == pytest.approx(decode, rel=0.05)  # tabled at powers of four
            assert found["ttft_s"] == pytest.approx(prefill, rel=0.1)


def test_prompts_that_go_first_hold_up_unlike_requests_more_than_a_wave_of_equal_ones():
    """Of equal requests the first of a wave waits for all prompts, the last for none; unlike ones wait for all."""
    base, catalog = default_scenario("h100-sxm", "llama3.1-8b", inputs=2048, outputs=128), default_catalog()
    engine = BenchmarkRun(POLICIES["sglang"])
    wave, unlike = (under_load(base, 64, replace(engine, shortest=least), catalog) for least in (1.0, 0.8))
    assert wave["tpot_s"] < 0.8 * unlike["tpot_s"]
    assert wave["ttft_s"] > 2.0 * unlike["ttft_s"]


def test_a_host_that_works_beneath_the_device_is_waited_for_only_where_it_is_slower():
    base, catalog = default_scenario("h100-sxm", "llama3.1-8b", inputs=64, outputs=1024), default_catalog()

    def tpot(host_s: float, hidden: bool = True) -> float:
        scheduler = replace(POLICIES["vllm"], asynchronous=True, hidden=hidden, host_s=host_s)
        return under_load(base, 8, BenchmarkRun(scheduler), catalog)["tpot_s"]

    assert tpot(0.0) == tpot(1e-3)
    assert tpot(1e-3, False) == pytest.approx(tpot(0.0) + 1e-3, rel=1e-6)
    assert tpot(1.0) == pytest.approx(1.0)


def test_tokens_sent_together_arrive_with_the_last_of_them():
    base, catalog = default_scenario("h100-sxm", "llama3.1-8b", inputs=64, outputs=101), default_catalog()
    one, ten = (under_load(base, 4, replace(VLLM, streamed=many), catalog) for many in (1, 10))
    assert ten["ttft_s"] == pytest.approx(one["ttft_s"] + 9 * one["tpot_s"])
    assert ten["ttft_s"] + 100 * ten["tpot_s"] == pytest.approx(one["ttft_s"] + 100 * one["tpot_s"])


def test_requests_that_the_memory_cannot_hold_wait_for_room(tmp_path: Path):
    """A published run whose cache holds a part of its requests: their first tokens take as long as the others run."""
    qwen = "Qwen/Qwen3-32B,h100_sxm,,4096,512,128,128,2,2,1,1,2,1,none?,33494.3,64.3,"
    (row,) = predict(read_measured(table(tmp_path, SERVING, f"a,nvidia,2025-12-15,vllm,0.12.0,{qwen}"))).rows
    assert abs(row.errors["ttft_s"]) < 0.25
    assert abs(row.errors["tpot_s"]) < 0.1


def test_ranks_that_attend_apart_read_no_latent_twice(tmp_path: Path):
    """A latent is one for all heads, so devices that share the heads read it each: with much of it, ranks of their own
    make tokens faster, with none they have only weights to read again. The published run of such ranks is met."""
    catalog, base = default_catalog(), default_scenario("h200-sxm", "deepseek-r1", devices=8, precision="fp8")
    for concurrency, inputs, gains in ((8, 16, False), (512, 16000, True)):
        at = base.with_(inputs=inputs, outputs=4096)
        found = [
            under_load(each, concurrency, replace(ROOMY, requests=2), catalog)["tpot_s"]
            for each in (at, at.with_(attention_dp=8))
        ]
        assert (found[1] < found[0]) is gains
    r1 = "deepseek-ai/DeepSeek-R1,h200_sxm,fp8,8192,1024,64,8,8,1,1,8,1,8,none,4734.2,47.7915,label_fixed"
    (row,) = predict(
        read_measured(table(tmp_path, SERVING, f"a,inferencex,2025-12-15,trtllm,1.1.0rc2.post2,{r1}"))
    ).rows
    assert abs(row.errors["tpot_s"]) < 0.1
    at_once = replace(row.engine, scheduler=replace(row.engine.scheduler, balance_timeout=0))
    apart = under_load(row.scenario, row.concurrency, at_once, catalog)["ttft_s"] / row.measured["ttft_s"] - 1.0
    assert abs(row.errors["ttft_s"]) < 0.3 * abs(apart), "its prompts wait for one on every rank"


def test_published_runs_that_guess_tokens_ahead_are_met(tmp_path: Path):
    """Acceptance as DeepSeek's report has it and as many guesses as the checkpoint has layers: nothing is fitted."""
    runs = ((1024, 4, 8.58378), (1024, 32, 19.2521), (1024, 64, 23.4177), (8192, 8, 12.5086), (8192, 32, 27.971))
    head = "a,inferencex,2026-01-14,trtllm,1.1.0rc2.post2,deepseek-ai/DeepSeek-R1,h200_sxm,fp8"
    lines = [f"{head},{i},1024,{c},{c},8,8,1,1,1,8,mtp?,500,{tpot}," for i, c, tpot in runs]
    for row in predict(read_measured(table(tmp_path, SERVING, *lines))).rows:
        assert abs(row.errors["tpot_s"]) < 0.12


def test_prompts_vanish_from_long_answers_and_slow_short_ones():
    catalog = default_catalog()
    base = default_scenario("h100-sxm", "llama3.1-8b")
    many = [under_load(base.with_(inputs=i, outputs=128), 64, VLLM, catalog)["tpot_s"] for i in (128, 512, 2048, 8192)]
    assert many == sorted(many)
    bound = bind(base.with_(batch=1, inputs=16, outputs=8000), catalog)
    decode = assemble(bound, make_plan(bound)).priced[0].runs[1].cost.total_s
    alone = under_load(base.with_(inputs=16, outputs=8000), 1, VLLM, catalog)["tpot_s"]
    assert alone == pytest.approx(decode, rel=1e-2)


GOOD = "h100-sxm,llama3.1-8b,5"
BAD = {
    "unknown column": (["system,workload,latency_ms,colour", f"{GOOD},red"], "'colour' is unknown; known: att"),
    "misspelt column": (["system,workload,latency_ms,bacth", f"{GOOD},4"], "'bacth' is unknown; nearest: batch"),
    "no unit": (["system,workload,latency", GOOD], "'latency' gives no unit that is known: latency_s or latency_ms"),
    "another unit": (["system,workload,ttft_min", GOOD], "'ttft_min' gives no unit"),
    "no unit of a rate": (["system,workload,throughput", GOOD], "throughput_per_s is allowed"),
    "negative": (["system,workload,latency_ms", "h100-sxm,llama3.1-8b,-5"], "row 1: latency_ms is '-5'"),
    "zero": (["system,workload,latency_ms", GOOD, "h100-sxm,llama3.1-8b,0"], "row 2: latency_ms is '0'"),
    "no number": (["system,workload,latency_ms", "h100-sxm,llama3.1-8b,fast"], "'fast'"),
    "infinite": (["system,workload,latency_ms", "h100-sxm,llama3.1-8b,inf"], "'inf'"),
    "one figure twice": (["system,workload,latency_ms,latency_s", f"{GOOD},5"], "are both latency_s"),
    "one field twice": (["system,workload,model,latency_ms", "h100-sxm,a,b,5"], "both say workload"),
    "no figure": (["system,workload,batch", GOOD], "no column holds a measured figure"),
    "no system": (["workload,latency_ms", "llama3.1-8b,5"], "'system' is missing"),
    "no part known": (["system,workload,latency_ms", "h9000,llama3.1-8b,5"], "none of 1 rows could be predicted"),
    "no rows": (["system,workload,latency_ms"], "holds no rows"),
    "ragged": (["system,workload,latency_ms", "h100-sxm,llama3.1-8b"], "2 fields where the header has 3"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_cannot_be_used_gets_one_sentence(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lines, said = BAD[case]
    code, out, err = run(capsys, table(tmp_path, *lines))
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_bad_row_is_skipped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rows = [GOOD, "h9000,llama3.1-8b,5", "h100-sxm,a-net,5", "h100-sxm,binary-fc-4096,5", "h100-sxm,llama3.1-8b,"]
    code, out, err = run(capsys, table(tmp_path, "system,workload,latency_ms", *rows), "--json")
    data = json.loads(out)
    assert code == 0, err
    assert (data["predicted"], sum(data["skipped"].values()), len(data["skipped"])) == (1, 4, 4)


def test_what_the_bands_held_adds_up(tmp_path: Path):
    rows = ["system,workload,latency_ms"] + [f"{s},{w},5" for s in ("h100-sxm", "cerebras-wse-3", "xeon-8280l")
                                             for w in ("resnet50", "bert-base")]  # fmt: skip
    found = [row for row in predict(read_measured(table(tmp_path, *rows))).rows if row.predicted]
    held = coverage(found)
    assert held["banded"] + held["no_evidence"] == len(found)
    ends = [(r.band.around(r.predicted[name]), value) for r in found for name, value in r.measured.items()]
    assert held["held"] == sum(low is not None and low <= value <= high for (low, high), value in ends)


# a part fitted


def test_rows_of_operators_go_to_op(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "gemm.csv"
    path.write_text("device,dtype,m,n,k,time_us\nh100_sxm,bfloat16,4096,4096,4096,210\n")
    code, out, err = run(capsys, path, "--json", "--out", tmp_path / "out.csv")
    assert code == 0, err
    assert json.loads(out)["kind"] == "gemm"
    assert "predicted_us" in (tmp_path / "out.csv").read_text()
    code, _, err = run(capsys, path, "--fit")
    assert (code, "table of operators" in err) == (2, True)
    path.write_text('"device","dtype","m","n","k","time_us"\nh100_sxm,bfloat16,4096,4096,4096,210\n')
    assert run(capsys, path)[0] == 0, "a header in quotes was of no operators"


def test_a_setting_by_path_is_a_column_too(tmp_path: Path):
    path = table(tmp_path, "system,workload,switches.fuse,latency_ms", "h100-sxm,resnet50,off,5")
    (row,) = read_measured(path, ["batch=8"]).rows
    assert row.scenario is not None
    assert row.scenario.switches["fuse"] is False
    assert row.scenario.batch == 8


def test_a_field_with_a_comma_comes_back_whole(tmp_path: Path):
    path = table(tmp_path, "note,system,workload,latency_ms", '"a, b",h100-sxm,resnet50,5', '"c, d",h9,resnet50,5')
    rows = predict(read_measured(path))
    write_back(tmp_path / "out.csv", rows)
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row["note"] for row in csv.DictReader(file)] == ["a, b", "c, d"]
