"""Options of a serving engine on the command line: what none acts on is refused, and a rate stands beside the most."""

import json
import re
from dataclasses import asdict

import pytest

from engine import default_scenario, evaluate
from engine.cli.main import main
from engine.scenario import encode
from engine.scenario.sentences import amount
from tests.each import each

LLAMA = encode(default_scenario("h100-sxm", "llama3.1-8b", inputs=256, outputs=32))
PASSES = (
    "prefill: {base_ms: 12, per_token_ms: 0.016, per_token2_ms: 5.0e-7}\n"
    "decode: {base_ms: 2.5, per_sequence_ms: 0.05, per_context_ms: 0.001, least_ms: 1}\n"
)


@pytest.fixture
def passes(tmp_path) -> str:
    file = tmp_path / "passes.yaml"
    file.write_text(PASSES)
    return str(file)


def said(capsys, *arguments: str) -> dict:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_power_of_ten_is_a_number_in_a_file(capsys, tmp_path, passes) -> None:
    """YAML 1.1 reads 5e-7 as text, so that times of passes as people write them were refused."""
    asked = ("--inputs", "1024", "--outputs", "8", "--clients", "2")
    found = [said(capsys, "simulate", "--passes", passes, *asked)]
    for text in ("5e-7", "5E-7", ".5e-6", "5.e-7", "+0.5e-06"):
        file = tmp_path / "written.yaml"
        file.write_text(PASSES.replace("5.0e-7", text))
        found.append(said(capsys, "simulate", "--passes", str(file), *asked))
    assert all(data == found[0] for data in found)


@each(
    "command",
    [
        "simulate preset:wide-deep-int8 --clients 4",
        "simulate preset:wide-deep-int8 --qps 4",
        "simulate {llama} --clients 4",
        "simulate {llama} --qps 4 --policy vllm",
        "capacity preset:wide-deep-int8 --demand 4 --sla p99=50ms",
        "capacity {llama} --demand 4 --sla tpot:p50=50ms",
    ],
)
def test_no_request_is_no_run(capsys, command: str) -> None:
    """--requests 0 was taken as not said, and hundreds of requests were run."""
    assert main([*command.format(llama=LLAMA).split(), "--requests", "0"]) != 0
    assert "requests is 0; it must be a whole number of at least " in capsys.readouterr().err


def test_clients_without_a_request_are_none_of_the_loop(capsys, passes) -> None:
    """The identity of one request of 64 clients was 64 times as long as its time to the first token."""
    asked = ("--inputs", "1024", "--outputs", "128", "--clients", "64", "--requests", "1")
    data = said(capsys, "simulate", "--passes", passes, *asked)
    assert data["identity_s"] == pytest.approx(data["ttft_s"]["mean"])


def test_times_in_words_have_their_intervals(capsys, passes) -> None:
    """--help says that every figure has one; only --json did."""
    asked = ("simulate", "--passes", passes, "--inputs", "1024", "--outputs", "128", "--clients", "8")
    ttft = said(capsys, *asked)["ttft_s"]
    assert main([*asked]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("ttft "))
    for metric in ("mean", "p50", "p99"):
        half = amount(ttft[f"{metric}_high"] - ttft[metric], "s")
        assert f"{metric} {amount(ttft[metric], 's')} ±{half}" in line
    assert main([*asked, "--requests", "1"]) == 0
    assert "±" not in capsys.readouterr().out


def test_a_rate_stands_beside_the_most_that_the_engine_carries(capsys, passes) -> None:
    asked = ("simulate", "--passes", passes, "--inputs", "1024", "--outputs", "128", "--max-seqs", "128")
    most = said(capsys, *asked, "--clients", "128")["requests_per_s"]
    quiet = said(capsys, *asked, "--qps", "10")
    assert quiet["capacity_qps"] == pytest.approx(most, rel=0.02)
    assert "capacity_qps" not in said(capsys, *asked, "--clients", "4")
    assert sum(quiet["shares"].values()) == pytest.approx(1.0)
    for qps, sentence in (
        ("10", "10 requests/s is 32% of the 31"),
        ("50", "the queue grows as long as the load lasts"),
    ):
        assert main([*asked, "--qps", qps]) == 0
        assert sentence in capsys.readouterr().out


def test_sizes_alone_are_the_lengths_of_given_passes(capsys, passes) -> None:
    asked = ("simulate", "--passes", passes, "--clients", "4")
    drawn = said(capsys, *asked, "--sizes", "fixed:100", "--output-sizes", "fixed:20")
    assert drawn == said(capsys, *asked, "--inputs", "100", "--outputs", "20")


def test_prices_of_tokens_are_of_the_requests_that_came(capsys) -> None:
    asked = ("capacity", LLAMA, "--demand", "20", "--sla", "ttft:p99=1s,tpot:p50=30ms")
    plan = said(capsys, *asked, "--sizes", "fixed:512", "--output-sizes", "fixed:64")["plan"]
    assert plan["usd_per_million_tokens"] == pytest.approx(plan["usd_per_million"] / 576)


def test_clients_that_take_the_requests_of_a_trace_say_so(capsys, passes, tmp_path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,size,output\n1,10,3\n2,10,3\n")
    assert main(["simulate", "--passes", passes, "--trace", str(trace), "--clients", "2"]) == 0
    assert "when it asked for them is left out" in capsys.readouterr().out


def test_a_closed_loop_of_whole_answers_has_its_error_band(capsys) -> None:
    data = said(capsys, "simulate", "preset:node-dlrm", "--clients", "3", "--limit-e2e", "1")
    assert data["error_band"] == said(capsys, "simulate", "preset:node-dlrm", "--qps", "9")["error_band"]
    assert data["goodput_per_s"] == pytest.approx(data["requests_per_s"])


REFUSED = {
    "inputs is '9' beside sizes of requests": (LLAMA, "--clients", "2", "--sizes", "fixed:5", "--inputs", "9"),
    "outputs is '9' beside output sizes": (LLAMA, "--qps", "2", "--output-sizes", "fixed:5", "--outputs", "9"),
    "the load lasts 5e+299 s, beyond the digits": (LLAMA, "--clients", "2", "--ramp", "1e300", "--requests", "4"),
    "batch is '8' beside a serving engine": (LLAMA, "--clients", "2", "--batch", "8"),
    "batch is '8' beside requests of a language model": (LLAMA, "--qps", "2", "--batch", "8"),
    "trace is 'none.csv' beside dlrm-more-complex, which makes no tokens": ("preset:node-dlrm", "--trace", "none.csv"),
    "policy is 'vllm' beside dlrm-more-complex": ("preset:node-dlrm", "--qps", "9", "--policy", "vllm"),
    "limit-e2e is 1 beside arrivals at a rate": ("preset:node-dlrm", "--qps", "9", "--limit-e2e", "1"),
    "limit-ttft is 1 beside dlrm-more-complex, which makes no tokens one by one": (
        *("preset:node-dlrm", "--clients", "9", "--limit-ttft", "1"),
    ),
}


@each("sentence", REFUSED)
def test_an_option_that_nothing_acts_on_is_refused(capsys, sentence: str) -> None:
    assert main(["simulate", *REFUSED[sentence]]) == 2
    assert sentence in capsys.readouterr().err


def test_a_port_that_carries_nothing_is_refused(capsys, passes) -> None:
    lengths = ("--inputs", "100", "--outputs", "20", "--clients", "2")
    assert main(["simulate", "--passes", passes, *lengths, "--pools", "1:1", "--port", "1e9"]) == 2
    assert "port is 1000000000 beside keys and values of 0 B; give token-bytes" in capsys.readouterr().err


def test_a_rate_of_tokens_keeps_its_prefix_with_the_number(capsys) -> None:
    assert main(["evaluate", LLAMA, "--batch", "64"]) == 0
    assert re.search(r"^throughput  \d+\.\d+ k token/s$", capsys.readouterr().out, re.MULTILINE)


def test_the_error_band_is_of_the_sequences_that_run_together(capsys) -> None:
    """That of one request alone, which some parts have, stood beside times of 64."""
    served = default_scenario("a100-sxm-80gb", "llama3.1-8b", inputs=256, outputs=32)
    alone, joined = (asdict(evaluate(served.with_(batch=batch)).error_band) for batch in (1, 48))
    assert alone != joined
    for clients, band in (("1", alone), ("64", joined)):
        assert said(capsys, "simulate", encode(served), "--clients", clients)["error_band"] == band
    assert said(capsys, "simulate", encode(served), "--qps", "1", "--requests", "2000")["error_band"] == alone
    assert said(capsys, "simulate", encode(served), "--qps", "50", "--requests", "2000")["error_band"] == joined
    limits = ("--demand", "20", "--sla", "ttft:p99=1s,tpot:p50=30ms")
    assert said(capsys, "capacity", encode(served), *limits)["error_band"] != alone
