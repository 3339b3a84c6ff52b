"""Published traces: Mooncake's with prefix hashes, Azure's, and files that benchmarks send, to the last token."""

import json
import time

import numpy as np
import pytest

from engine.cli.main import main
from engine.kernels.jit import JIT_ENABLED
from engine.traffic import TrafficError
from engine.traffic.engines.calendar import serve
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.traces.requests import HASHED, read_requests
from tests.each import each
from tests.laws.traffic.test_calendar import GPU, PASSES

MOONCAKE = (
    '{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}\n'
    '{"timestamp": 2000, "input_length": 1536, "output_length": 7, "hash_ids": [0, 1, 3]}\n'
    '{"timestamp": 3000, "input_length": 600, "output_length": 3, "hash_ids": [4, 1]}\n'
    '{"timestamp": 3000, "input_length": 1024, "output_length": 3, "hash_ids": [0, 1]}\n'
)
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
BENCHMARK = '{"prompt": "a", "prompt_len": 20, "output_len": 9}\n\n{"prompt_len": 30, "output_len": 4}\n'


def written(tmp_path, text: str):
    file = tmp_path / "trace"
    file.write_text(text)
    return file


def test_public_formats_are_read(tmp_path) -> None:
    file = read_requests(written(tmp_path, MOONCAKE))
    assert file.instants.tolist() == [0.0, 2.0, 3.0, 3.0]
    assert file.arrivals(2.0).times(4, 0, 0).tolist() == [0.0, 1.0, 1.5, 1.5]
    assert (file.inputs.values.tolist(), file.outputs.values.tolist()) == ([1100, 1536, 600, 1024], [5, 7, 3, 3])
    azure = read_requests(written(tmp_path, AZURE))
    assert azure.instants.tolist() == pytest.approx([0.0, 4.314579], abs=1e-6)
    assert azure.inputs.values.tolist() == [374, 396]
    assert azure.hashes is None
    plain = read_requests(written(tmp_path, BENCHMARK))
    assert plain.arrivals() is None
    assert plain.outputs.values.tolist() == [9, 4]


def test_a_prompt_hits_what_earlier_ones_began_with(tmp_path) -> None:
    """A hash stands for its tokens and all before them: what follows the first miss is missed."""
    file = read_requests(written(tmp_path, MOONCAKE))
    assert file.cached(None, 16).tolist() == [0, 1024, 0, 1024]
    assert file.cached(None, 1000).tolist() == [0, 1000, 0, 1000]  # whole blocks
    assert file.cached(2 * HASHED // 16, 16).tolist() == [0, 0, 0, 0]  # two hashes at a time: others put them out
    assert file.cached(None, 16, replicas=2).tolist() == [0, 0, 0, 1024]  # the other replica saw the first


BROKEN = {
    "line 2: timestamp is '-5', before the line above": MOONCAKE.replace("2000", "-5"),
    "line 2: input_length is '-3'; it must be a whole number from 1": MOONCAKE.replace("1536", "-3"),
    "line 3: output_length is 'True'": MOONCAKE.replace(
        '"output_length": 3, "hash_ids": [4', '"output_length": true, "hash_ids": [4'
    ),
    "line 2: it must be one JSON object": MOONCAKE.replace('{"timestamp": 2000', '{"timestamp" 2000'),
    "line 2: hash_ids is": MOONCAKE.replace("[0, 1, 3]", '"0 1 3"'),
    "line 4: it has fields": MOONCAKE.replace('"input_length": 1024', '"length": 1024'),
    "hash_ids is given for 3 of 4 rows": MOONCAKE.replace(', "hash_ids": [0, 1]}', "}"),
    "line 3: GeneratedTokens is 'many'": AZURE.replace("109", "many"),
    "line 3: TIMESTAMP is 'noon'": AZURE.replace("2023-11-16 18:15:50.9951690", "noon"),
    "line 3: TIMESTAMP is '2022": AZURE.replace("2023-11-16 18:15:50", "2022-11-16 18:15:50"),
    "line 3: it has 2 cells": AZURE.replace(",109", ""),
    "line 2: it has fields": "when,what\n1,2\n",
    "has no requests": "",
}


@each("sentence", BROKEN)
def test_a_broken_line_is_named_in_a_sentence(tmp_path, sentence: str) -> None:
    with pytest.raises(TrafficError) as caught:
        read_requests(written(tmp_path, BROKEN[sentence]))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def said(capsys, *arguments: str) -> dict:
    assert main(["simulate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_trace_runs_to_its_last_token_and_hashes_shorten_the_first(capsys, tmp_path) -> None:
    (tmp_path / "passes.yaml").write_text(PASSES)
    given = ("--passes", str(tmp_path / "passes.yaml"), "--kv-blocks", "16384", "--trace")
    trace = str(written(tmp_path, MOONCAKE))
    hits, fast, misses = (
        said(capsys, *given, trace, *more) for more in ((), ("--speed", "1000"), ("--prefix-hit", "0"))
    )
    assert hits["requests"] == 4
    assert 3.0 < hits["duration_s"] < 3.5
    assert fast["duration_s"] < 0.5
    assert hits["prefix_hit"] == pytest.approx((1024 + 1023) / (1100 + 1536 + 600 + 1024))
    assert misses["prefix_hit"] == 0.0
    assert hits["ttft_s"]["mean"] < misses["ttft_s"]["mean"]
    loop = said(capsys, *given, trace, "--clients", "2")
    assert loop["requests"] == 4
    assert loop["identity_s"] is not None


def test_a_trace_is_served_by_a_scenario(capsys, tmp_path) -> None:
    target = ("--system", "h100-sxm", "--workload", "llama3.1-8b", "--trace", str(written(tmp_path, AZURE)))
    data = said(capsys, *target, "--policy", "trtllm")
    assert data["requests"] == 2
    assert data["output_tokens_per_s"] == pytest.approx((44 + 109) / data["duration_s"])


REFUSED = {
    "qps is 3 beside a trace that has its own arrivals": (MOONCAKE, ("--qps", "3")),
    "requests is 9; the trace has 4": (MOONCAKE, ("--requests", "9")),
    "speed is -1": (MOONCAKE, ("--speed", "-1")),
    "clients or qps is needed": (BENCHMARK, ()),
    "sizes is 'fixed:9' beside a trace": (MOONCAKE, ("--sizes", "fixed:9")),
    "accept is '2'": (MOONCAKE, ("--accept", "2")),
}


@each("sentence", REFUSED)
def test_the_command_refuses_in_a_sentence(capsys, tmp_path, sentence: str) -> None:
    (tmp_path / "passes.yaml").write_text(PASSES)
    text, more = REFUSED[sentence]
    trace = str(written(tmp_path, text))
    assert main(["simulate", "--passes", str(tmp_path / "passes.yaml"), "--trace", trace, *more]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_guesses_are_a_knob_of_the_command(capsys, tmp_path) -> None:
    (tmp_path / "passes.yaml").write_text(PASSES)
    lengths = ("--inputs", "64", "--outputs", "64", "--clients", "1")
    plain, guessed = (
        said(capsys, "--passes", str(tmp_path / "passes.yaml"), *lengths, *more)
        for more in ((), ("--accept", "0.8,0.6"))
    )
    assert guessed["tpot_s"]["mean"] < 0.5 * plain["tpot_s"]["mean"]


def test_guesses_of_a_network_that_has_no_layer_for_them_are_refused(capsys) -> None:
    target = ("--system", "h100-sxm", "--workload", "llama3.1-8b", "--clients", "4", "--accept", "0.5,0.5")
    assert main(["simulate", *target]) == 2
    told = capsys.readouterr().err
    assert "the network has no layer that guesses" in told
    assert told.count("\n") == 1


@pytest.mark.skipif(not JIT_ENABLED, reason="a time of the compiled engine")
def test_twelve_thousand_requests_take_a_moment() -> None:
    """The size of Mooncake's trace; the bound is ten times what a quiet core takes."""
    n, rng = 12_000, np.random.default_rng(1)
    from engine.traffic.arrivals import Trace
    from engine.traffic.sizes import Listed

    prompt, output = rng.integers(1_000, 16_000, n), rng.integers(20, 700, n)
    trace = Trace(np.sort(rng.uniform(0, 3600, n)), n / 3600)
    rules = Scheduler(kv_blocks=60_000, block=16)
    serve(GPU, rules, trace, Listed(prompt[:50]), Listed(output[:50]), 50)
    began = time.thread_time()
    report = serve(GPU, rules, trace, Listed(prompt), Listed(output), n)
    took = time.thread_time() - began
    print(f"{n} requests, {report.passes} passes in {took:.3f} s")
    assert np.isfinite(report.finish).all()
    assert took < 3.0
