"""The highest rate at which a serving engine keeps several limits at once, from the command line."""

import json

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import decode, encode
from engine.traffic import Poisson, Sla, max_qps
from engine.traffic.serving import Serving
from tests.each import each

TARGET = ("--system", "h100-sxm", "--workload", "llama3.1-8b", "--inputs", "512", "--outputs", "64", "--demand", "20")


def carried(capsys, sla: str, *more: str) -> dict:
    assert main(["capacity", *TARGET, "--sla", sla, *more, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_limits_together_carry_no_more_than_the_tightest_alone(capsys) -> None:
    both = carried(capsys, "ttft:p99=300ms,tpot:p50=20ms")
    first, token = (carried(capsys, sla, "--policy", "vllm") for sla in ("ttft:p99=300ms", "tpot:p50=20ms"))
    assert both["node"]["qps"] == pytest.approx(min(first["node"]["qps"], token["node"]["qps"]), rel=0.03)
    at = both["at_limit"]
    assert at["ttft_s"]["p99"] <= 0.3
    assert at["tpot_s"]["p50"] <= 0.02
    assert 0 < at["goodput_per_s"] <= at["requests_per_s"] * (1 + 1e-9)
    assert both["node"]["nearest"] in ("ttft:p99", "tpot:p50")
    assert both["node"]["limit"] in both["shares"]
    assert both["node"]["tokens_per_s_per_device"] == pytest.approx(at["output_tokens_per_s"])  # of one device
    assert both["plan"]["nodes"] >= 1


def test_one_limit_on_a_time_of_tokens_is_the_engine_s(capsys) -> None:
    """A second limit that binds nowhere must not change the answer: alone it was that of one sequence at a time."""
    alone, both = (carried(capsys, sla) for sla in ("ttft:p99=300ms", "ttft:p99=300ms,e2e:p99=1000s"))
    assert alone["node"]["qps"] == both["node"]["qps"]
    assert alone["plan"] == both["plan"]
    late = carried(capsys, "ttft:p95=300ms")
    assert late["at_limit"]["ttft_s"]["p90"] <= late["at_limit"]["ttft_s"]["p95"] <= 0.3
    assert late["node"]["qps"] >= alone["node"]["qps"]


def test_requests_and_seed_reach_the_runs(capsys) -> None:
    few = carried(capsys, "ttft:p99=300ms", "--requests", "700", "--seed", "4")["at_limit"]
    assert few["requests"] == 700
    assert few["ttft_s"] != carried(capsys, "ttft:p99=300ms", "--requests", "700")["at_limit"]["ttft_s"]


def test_another_system_is_asked_for_the_same_tokens(capsys) -> None:
    other = "preset:v100-1.5b"
    data = carried(capsys, "ttft:p99=1s", "--against", other)["against"]
    assert [row["scenario"] for row in data] == [other]
    assert data[0]["plan"]["nodes"] >= 2
    assert main(["capacity", other, "--sla", "ttft:p99=1s", "--demand", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"] == data[0]["plan"]


def test_every_combination_says_what_it_is_of(capsys) -> None:
    """Devices that vary stood under the name of the plan's devices, which was all a row told."""
    tried = carried(capsys, "ttft:p99=1s", "--vary", "scheme=tensor", "--vary", "devices=1,2,4")["tried"]
    assert sorted(row["devices"] for row in tried) == [1, 2, 4]
    assert all(row["total_devices"] == row["nodes"] * row["devices"] for row in tried)


def test_levers_of_every_kind_vary(capsys) -> None:
    """A number with a point ended the command, and `false` was read as on."""
    rates = {}
    for lever in ("prefix_hit=0,0.5", "chunked=true,false", "chunked=on,off", "host_s=0.0,0.02"):
        name = f"serving.{lever.partition('=')[0]}"
        tried = carried(capsys, "ttft:p99=300ms", "--vary", f"serving.{lever}")["tried"]
        rates[lever] = {str(row[name]): row["qps"] for row in tried}
    assert rates["prefix_hit=0,0.5"]["0.5"] > 1.2 * rates["prefix_hit=0,0.5"]["0"]
    assert rates["host_s=0.0,0.02"]["0.02"] < 0.95 * rates["host_s=0.0,0.02"]["0.0"]
    plain, words = rates["chunked=on,off"], rates["chunked=true,false"]
    assert (words["true"], words["false"]) == (plain["on"], plain["off"])
    assert plain["on"] != plain["off"]


def test_an_engine_s_plan_has_power_money_and_its_error_band(capsys) -> None:
    data = carried(capsys, "ttft:p99=1s")
    assert data["error_band"]["why"]
    assert main(["capacity", *TARGET, "--sla", "ttft:p99=1s", "--node-usd", "30000"]) == 0
    said = capsys.readouterr().out
    for part in ("error band of service times", "power ", "perf/W ", "capex ", "energy "):
        assert f"\n{part}" in said


def said(capsys, *asked: str) -> dict:
    """What a command answers."""
    assert main([*asked, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_door_serves_a_language_model_by_one_calendar(capsys) -> None:
    """A queue took in no more sequences than the scenario's batch, and carried a fortieth of what the engine does."""
    ask = ["simulate", *TARGET[:-2], "--qps", "20", "--requests", "4000"]
    queue, engine = said(capsys, *ask), said(capsys, *ask, "--policy", "vllm")
    for ours, theirs in (("latency_s", "e2e_s"), ("ttft_s", "ttft_s"), ("tpot_s", "tpot_s")):
        assert queue[ours]["p50"]["value"] == pytest.approx(engine[theirs]["p50"], rel=0.03)
    ask = ["capacity", *TARGET, "--sla", "p99=10s"]
    alone, named = said(capsys, *ask), said(capsys, *ask, "--policy", "vllm")
    assert alone == named  # it took 30 times as long, of 200,000 requests at each rate, and had another error band
    assert alone == said(capsys, *ask[:-1], "e2e:p99=10s")
    system, inputs, outputs = Serving().of(default_scenario("h100-sxm", "llama3.1-8b", inputs=512, outputs=64))
    best = max_qps(system, Sla(10.0), Poisson(1.0), sizes=inputs, outputs=outputs, requests=4000)
    assert best.qps == pytest.approx(alone["node"]["qps"], rel=0.05)


def test_a_language_model_that_does_not_batch_says_so(capsys) -> None:
    for ask in (("capacity", *TARGET, "--sla", "p99=60s"), ("simulate", *TARGET[:-2], "--qps", "0.1")):
        for max_batch, how in ((256, "at most 256 sequences at once"), (1, "one request at a time")):
            more = ["--requests", "2000", *(["--max-batch", "1"] if max_batch == 1 else [])]
            assert main([*ask, *more]) == 0
            assert f"serving engine vllm: {how}" in capsys.readouterr().out
            assert said(capsys, *ask, *more)["engine"] == {
                "policy": "vllm",
                "max_seqs": max_batch,
                "memory_share": 0.9,
                "free_share": 1.0,
            }
    assert main(["simulate", *TARGET[:-2], "--qps", "0.1", "--policy", "sglang", "--requests", "100"]) == 0
    assert "serving engine sglang: at most 1,024 sequences at once" in capsys.readouterr().out


def test_a_run_says_its_tokens_a_second_per_device_and_per_user(capsys) -> None:
    target = [*TARGET[:-2], "--devices", "2", "--scheme", "tensor", "--clients", "4", "--json"]
    assert main(["simulate", *target]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["output_tokens_per_s_per_device"] == pytest.approx(data["output_tokens_per_s"] / 2)
    assert data["output_tokens_per_s_per_user"] == pytest.approx(1 / data["tpot_s"]["p50"])


MIXTURE = (
    "--system",
    "h200-sxm",
    "--workload",
    "qwen3-30b-a3b",
    "--devices",
    "8",
    "--inputs",
    "512",
    "--outputs",
    "64",
)


def test_what_may_vary_is_tried_and_the_cheapest_that_carries_the_demand_is_taken(capsys) -> None:
    asked = ["capacity", *MIXTURE, "--demand", "300", "--sla", "ttft:p99=500ms,tpot:p50=10ms", "--node-usd", "300000"]
    varied = ("--vary", "attention_dp=1,8", "--vary", "serving.budget=1024,8192", "--vary", "expert_parallel=1,3")
    assert main([*asked, *varied, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["tried"]) == 8
    priced = [row["usd_per_year"] for row in data["tried"] if "problem" not in row]
    assert priced == sorted(priced)
    assert len(priced) == 4
    assert all("expert_parallel is 3" in row["problem"] for row in data["tried"] if row["expert_parallel"] == 3)
    best = {name: value for name, value in data["tried"][0].items() if name in ("attention_dp", "expert_parallel")}
    assert {name: getattr(decode(data["token"]), name) for name in best} == best
    budget = ("--set", f"attention_dp={best['attention_dp']}", "--set", f"expert_parallel={best['expert_parallel']}")
    only = f"serving.budget={data['tried'][0]['serving.budget']}"
    assert main([*asked, *budget, "--vary", only, "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["node"]["qps"] == data["node"]["qps"]
    assert alone["plan"] == data["plan"]


def test_a_plan_prices_tokens_read_and_written_apart_and_together(capsys) -> None:
    plan = carried(capsys, "ttft:p99=1s,tpot:p50=30ms", "--node-usd", "30000")["plan"]
    read, written = (plan[f"usd_per_million_{name}_tokens"] for name in ("input", "output"))
    assert 0 < read < written
    assert 512 * read + 64 * written == pytest.approx(plan["usd_per_million"])
    assert plan["usd_per_million_tokens"] == pytest.approx(plan["usd_per_million"] / 576)


def test_a_domain_down_takes_all_nodes_that_its_switch_joins(capsys) -> None:
    """Eight devices of an NVLink switch are eight nodes of one device each."""
    node, domain = (carried(capsys, "ttft:p99=1s,tpot:p50=30ms", "--survives", s)["plan"] for s in ("node", "domain"))
    assert domain["nodes"] == node["nodes"] + 7
    assert domain["degraded_qps"] == pytest.approx(node["degraded_qps"])
    assert "with one domain down" in domain["message"]


REFUSED = {
    "axis serving.clients: serving has policy, budget": (
        "ttft:p99=1s,tpot:p50=20ms",
        "--vary",
        "serving.clients=3",
    ),
    "no combination of --vary carries the demand: attention_dp": (
        "ttft:p99=1s",
        "--policy",
        "vllm",
        "--vary",
        "attention_dp=3",
    ),
    "policy is 'vllm' beside vary serving.policy": (
        "ttft:p99=1s",
        "--policy",
        "vllm",
        "--vary",
        "serving.policy=vllm,sglang",
    ),
    "No load keeps the limits": ("ttft:p99=1ns,tpot:p50=20ms",),
    "a serving engine has ttft, tpot, itl and e2e": ("ttft:p96=1s,tpot:p50=20ms",),
    "sla has ttft:p99 twice": ("ttft:p99=1s,ttft:p99=2s",),
    "serving.block is 'x'; it must be a whole number": ("ttft:p99=1s", "--vary", "serving.block=x"),
    "serving.budget is '3.5'; it must be a whole number": ("ttft:p99=1s", "--vary", "serving.budget=3.5"),
    "serving.chunked is 'perhaps'; it must be on or off": ("ttft:p99=1s", "--vary", "serving.chunked=perhaps"),
    "timeout-s is 3 beside limits": ("ttft:p99=1s", "--timeout", "3"),
    "sla is 'soon'": ("soon,tpot:p50=20ms",),
    "places is 3 beside limits of a serving engine": ("ttft:p99=1s,tpot:p50=20ms", "--places", "3"),
    "policy is 'orca'": ("ttft:p99=1s,tpot:p50=20ms", "--policy", "orca"),
}


@each("sentence", REFUSED)
def test_what_has_no_answer_is_refused_in_a_sentence(capsys, sentence: str) -> None:
    sla, *more = REFUSED[sentence]
    assert main(["capacity", *TARGET, "--sla", sla, *more]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_a_plan_s_power_is_of_the_sequences_that_run_together(capsys) -> None:
    """At the highest load inside its limits an engine runs dozens of sequences: it was billed the power of one."""
    scenario = default_scenario("h100-sxm", "llama3.1-8b", devices=1, scheme="single", inputs=512, outputs=64)
    asked = ["capacity", encode(scenario), "--demand", "50", "--sla", "ttft:p99=1s,tpot:p50=30ms", "--survives", "none"]
    assert main([*asked, "--headroom", "0", "--idle-w", "0", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    busy_w = plan["peak_w"] / (plan["nodes"] * plan["peak_use"] * scenario.costs.pue)
    alone, some, many = (evaluate(scenario.with_(batch=batch)).power_w for batch in (1, 32, 256))
    assert alone < some < busy_w < many
