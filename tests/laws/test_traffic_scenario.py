"""A scenario under load is the scenario: idle it takes what `evaluate` says, and the command line says the same."""

import json

import pytest

from engine.choices import default_scenario
from engine.cli import main
from engine.evaluate import evaluate
from engine.kernels.jit import JIT_ENABLED
from engine.presets import preset
from engine.traffic import (
    ContinuousBatching,
    DynamicBatching,
    Fixed,
    NoBatching,
    Poisson,
    Sla,
    TrafficError,
    capacity,
    max_qps,
    simulate,
)
from engine.traffic.scenario_load import decoder_table, is_decoder, load_of, node_facts, service_table

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="statistics need the compiled engine's speed")

IDLE = [
    "node-dlrm",
    "node-xlmr",
    "node-resnext",
    "brainwave-gru",
    "wide-deep-int8",
    "tonic-fc",
    "dfx-345m",
    "v100-1.5b",
]


@pytest.mark.parametrize("name", IDLE)
def test_median_at_one_percent_load_is_the_latency_of_evaluate(name: str) -> None:
    scenario = preset(name).scenario
    decoder = is_decoder(scenario)
    system = load_of(scenario, ContinuousBatching(1) if decoder else NoBatching())
    sizes = {"sizes": Fixed(scenario.inputs), "outputs": Fixed(scenario.outputs)}
    top = capacity(system, **sizes)
    report = simulate(system, Poisson(0.01 * top.qps), requests=3_200, **sizes)
    answer = evaluate(scenario)
    assert report.latency.p50.value == pytest.approx(answer.latency_s, rel=0.02)
    if decoder:
        assert report.ttft.p50.value == pytest.approx(answer.ttft_s, rel=0.02)
        assert report.tpot.p50.value == pytest.approx(answer.tpot_s, rel=0.02)
        assert top.qps * scenario.outputs == pytest.approx(answer.throughput_per_s, rel=0.02)
    else:
        assert top.qps * scenario.batch == pytest.approx(answer.throughput_per_s, rel=1e-9)


def test_table_is_evaluate_at_every_batch_it_was_made_from() -> None:
    scenario = preset("node-resnext").scenario
    table = service_table(scenario, max_batch=4)
    for b in (1, 2, 4):
        assert table.latency_s[b - 1, 0] == pytest.approx(evaluate(scenario.with_(batch=b)).latency_s, rel=1e-12)
    lengths = service_table(preset("node-xlmr").scenario, sizes=(16, 32, 64))
    assert lengths.latency_s[0, 1] == pytest.approx(evaluate(preset("node-xlmr").scenario).latency_s)
    assert (lengths.hold_s[0, 1:] >= lengths.hold_s[0, :-1]).all()


def test_batching_a_gpu_decoder_carries_more_inside_the_same_limit() -> None:
    scenario = preset("v100-1.5b").scenario
    carried = []
    for batch in (1, 8):
        system = load_of(scenario, ContinuousBatching(batch))
        assert system.service.cache_tokens > scenario.inputs + scenario.outputs
        best = max_qps(
            system,
            Sla(3 * evaluate(scenario).latency_s),
            Poisson(1.0),
            sizes=Fixed(scenario.inputs),
            outputs=Fixed(scenario.outputs),
            requests=4_000,
        )
        carried.append(best.qps)
    assert carried[1] > 3 * carried[0]


def test_what_cannot_be_loaded_says_why() -> None:
    with pytest.raises(TrafficError, match="Does not fit"):
        service_table(default_scenario("xeon-d-2191", "dlrm-less-complex"))
    with pytest.raises(TrafficError, match="no tokens"):
        decoder_table(preset("node-resnext").scenario)
    with pytest.raises(TrafficError, match="continuously"):
        load_of(preset("dfx-345m").scenario, DynamicBatching(4, 0.1))
    scenario = preset("brainwave-gru").scenario
    system = load_of(scenario, NoBatching())
    best = max_qps(system, Sla(0.004), Poisson(1.0), sizes=Fixed(scenario.inputs), requests=10_000)
    with pytest.raises(TrafficError, match="no published price"):
        node_facts(scenario, best)
    node, notes = node_facts(scenario, best, capex_usd=5_000.0)
    assert node.qps == best.qps
    assert node.idle_w <= node.busy_w
    assert notes == () or "upper" in notes[0] or "always" in notes[0]


def _said(capsys, *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_commands_speak_json_and_repeat_themselves(capsys) -> None:
    ask = ("simulate", "preset:brainwave-gru", "--qps", "400", "--requests", "20000", "--seed", "3", "--json")
    code, out, _ = _said(capsys, *ask)
    assert code == 0
    assert json.loads(out)["latency_s"]["p99"]["value"] > json.loads(out)["latency_s"]["p50"]["value"]
    assert _said(capsys, *ask)[1] == out
    code, out, _ = _said(capsys, "simulate", "preset:brainwave-gru", "--qps", "4000", "--json")
    assert code == 0
    assert json.loads(out)["latency_s"] is None
    assert "grows without limit" in json.loads(out)["message"]
    code, out, _ = _said(
        capsys, "capacity", "preset:wide-deep-int8", "--demand", "1000,9000", "--sla", "p99=40ms", "--idle-w", "60",
        "--requests", "20000", "--json",
    )  # fmt: skip
    data = json.loads(out)
    assert code == 0
    assert data["plan"]["nodes"] == -(-1.2 * 9000 // data["node"]["qps"]) + 1


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("simulate", "preset:brainwave-gru", "--qps", "-1"), "qps"),
        (("simulate", "preset:brainwave-gru", "--qps", "5", "--arrivals", "gamma:x"), "arrivals"),
        (("simulate", "preset:brainwave-gru", "--qps", "5", "--arrivals", "trace:/nowhere.csv"), "trace"),
        (("capacity", "preset:brainwave-gru", "--demand", "5", "--sla", "fast"), "sla"),
        (("capacity", "preset:brainwave-gru", "--demand", "many", "--sla", "p99=5ms"), "demand"),
        (("capacity", "preset:brainwave-gru", "--demand", "5", "--sla", "p99=1us"), "No load"),
    ],
)
def test_bad_commands_get_one_sentence(capsys, argv, says) -> None:
    code, out, err = _said(capsys, *argv)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_a_trace_brings_its_own_sizes(capsys, tmp_path) -> None:
    file = tmp_path / "trace.csv"
    rows = [f"{i * 0.05:.2f},{16 if i % 2 else 60}" for i in range(200)]
    file.write_text("time_s,size\n" + "\n".join(rows))
    ask = ("simulate", "preset:node-xlmr", "--requests", "200", "--json")
    code, out, _ = _said(capsys, *ask, "--qps", "20", "--arrivals", f"trace:{file}")
    assert code == 0
    mixed = json.loads(out)["latency_s"]
    assert mixed["p95"]["value"] > 1.02 * mixed["p50"]["low"]
