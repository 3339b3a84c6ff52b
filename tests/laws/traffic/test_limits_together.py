"""The highest rate at which a serving engine keeps several limits at once, from the command line."""

import json

import pytest

from engine.cli.main import main
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


def test_a_run_says_its_tokens_a_second_per_device_and_per_user(capsys) -> None:
    target = [*TARGET[:-2], "--devices", "2", "--scheme", "tensor", "--clients", "4", "--json"]
    assert main(["simulate", *target]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["output_tokens_per_s_per_device"] == pytest.approx(data["output_tokens_per_s"] / 2)
    assert data["output_tokens_per_s_per_user"] == pytest.approx(1 / data["tpot_s"]["p50"])


REFUSED = {
    "No load keeps the limits": ("ttft:p99=1ns,tpot:p50=20ms",),
    "several together are of ttft, tpot, itl and e2e": ("ttft:p95=1s,tpot:p50=20ms",),
    "sla is 'soon'": ("soon,tpot:p50=20ms",),
    "places is 3 beside limits of a serving engine": ("ttft:p99=1s,tpot:p50=20ms", "--places", "3"),
    "against is 'preset:v100-1.5b' beside": ("ttft:p99=1s,tpot:p50=20ms", "--against", "preset:v100-1.5b"),
    "policy is 'orca'": ("ttft:p99=1s,tpot:p50=20ms", "--policy", "orca"),
}


@each("sentence", REFUSED)
def test_what_has_no_answer_is_refused_in_a_sentence(capsys, sentence: str) -> None:
    sla, *more = REFUSED[sentence]
    assert main(["capacity", *TARGET, "--sla", sla, *more]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
