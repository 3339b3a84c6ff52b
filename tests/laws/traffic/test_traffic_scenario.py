"""A scenario under load is the scenario: idle it takes what `evaluate` says, and the command line says the same."""

import json

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.kernels.jit import JIT_ENABLED
from engine.resolve.choices import default_scenario
from engine.resolve.presets import preset
from engine.traffic import (
    Demand,
    DynamicBatching,
    Fixed,
    NoBatching,
    Poisson,
    SiteFacts,
    Sla,
    TrafficError,
    capacity,
    capacity_plan,
    max_qps,
    simulate,
)
from engine.traffic.engines.pass_times import decoder_of
from engine.traffic.scenario_load import is_decoder, load_of, node_facts, service_table
from engine.traffic.serving import Serving

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
    system = decoder_of(scenario) if decoder else load_of(scenario, NoBatching())
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
        system = decoder_of(scenario, batch)
        assert system.scheduler.kv_blocks * system.scheduler.block > scenario.inputs + scenario.outputs
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
        decoder_of(preset("node-resnext").scenario)
    with pytest.raises(TrafficError, match="continuously"):
        load_of(preset("dfx-345m").scenario, DynamicBatching(4, 0.1))
    scenario = preset("brainwave-gru").scenario
    system = load_of(scenario, NoBatching())
    best = max_qps(system, Sla(0.004), Poisson(1.0), sizes=Fixed(scenario.inputs), requests=10_000)
    node, notes = node_facts(scenario, best)
    assert node.capex_usd is None
    assert "No price is published" in notes[0]
    node, notes = node_facts(scenario, best, capex_usd=5_000.0)
    assert node.qps == best.qps
    assert 0.5 * 125.0 <= node.idle_w < node.busy_w  # no idle power is published for it: its clock tree and leakage
    assert "draws 62 W when idle: that part of its power follows no work" in notes[0]
    node, notes = node_facts(scenario, best, idle_w=20.0, capex_usd=5_000.0)
    assert (node.idle_w, notes) == (20.0, ())


def test_published_idle_power_counts() -> None:
    scenario = default_scenario("tpu-v3", "bert-large")
    system = load_of(scenario, NoBatching())
    best = max_qps(system, Sla(1.0), Poisson(1.0), sizes=Fixed(scenario.inputs), requests=10_000)
    node, notes = node_facts(scenario, best)
    assert node.idle_w == pytest.approx(123.0)
    assert not any("idle" in note for note in notes)


@pytest.mark.parametrize(("devices", "scheme"), [(1, "single"), (8, "replicas"), (8, "tensor")])
def test_every_gpu_that_waits_draws_what_it_draws_at_any_work(devices: int, scheme: str) -> None:
    """A fifth of each board's limit, not what it draws when busy: joules an inference grow with idleness by that."""
    scenario = default_scenario("h100-sxm", "bert-large", devices=devices).with_(scheme=scheme)
    best = max_qps(load_of(scenario, NoBatching()), Sla(1.0), Poisson(1.0), sizes=Fixed(128), requests=10_000)
    node, notes = node_facts(scenario, best)
    assert node.idle_w == pytest.approx(devices * 0.2 * 700.0)
    assert node.idle_w < node.busy_w
    assert any("that part of its power follows no work" in note for note in notes)
    full, tenth = (
        capacity_plan(Demand((share * best.qps,)), node, headroom=0.0, survives="none") for share in (1.0, 0.1)
    )
    assert tenth.nodes == 1
    rest = node.idle_w * SiteFacts().pue / (0.1 * best.qps)  # joules of a request that go by while it waits
    work = tenth.energy_j_per_inference * node.inferences - rest
    assert 0.0 < work < full.energy_j_per_inference * node.inferences


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
        capsys,
        "capacity",
        "preset:wide-deep-int8",
        "--demand",
        "1000,9000",
        "--sla",
        "p99=40ms",
        "--idle-w",
        "60",
        "--requests",
        "20000",
        "--json",
    )
    data = json.loads(out)
    assert code == 0
    assert data["plan"]["nodes"] == -(-1.2 * 9000 // data["node"]["qps"]) + 1


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("simulate", "preset:brainwave-gru", "--qps", "-1"), "qps"),
        (("simulate", "preset:brainwave-gru", "--qps", "5", "--arrivals", "gamma:x"), "arrivals"),
        (("simulate", "preset:brainwave-gru", "--qps", "5", "--arrivals", "trace:/nowhere.csv"), "trace"),
        (("simulate", "preset:brainwave-gru", "--qps", "5", "--arrivals", "diurnal:60"), "arrivals"),
        (("simulate", "preset:node-xlmr", "--qps", "5", "--sizes", "uniform:70:20"), "high"),
        (("simulate", "preset:node-xlmr", "--qps", "5", "--sizes", "mixed:8"), "sizes"),
        (("simulate", "preset:node-xlmr", "--qps", "5", "--arrangement", "pool"), "network"),
        (("simulate", "preset:node-xlmr", "--qps", "5", "--requests", "10000000000"), "requests"),
        (("capacity", "preset:brainwave-gru", "--demand", "5", "--sla", "p99=5ms", "--against", "preset:x"), "preset"),
        (("capacity", "preset:brainwave-gru", "--demand", "5", "--sla", "fast"), "sla"),
        (("capacity", "preset:brainwave-gru", "--demand", "-1", "--sla", "p99=5ms"), "demand is '-1.0'; it needs"),
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


def test_help_shows_commands_that_run(capsys, tmp_path, monkeypatch) -> None:
    """Every example of --help is parsed, and the cheap ones are run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "passes.yaml").write_text("prefill: {base_ms: 12}\ndecode: {base_ms: 2.5}\n")
    for command in ("simulate", "capacity"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
        examples = [line.split("#")[0].split()[3:] for line in lines if line.startswith("python -m engine")]
        assert len(examples) >= 3
        for argv in examples:
            if any("trace:" in arg or "dfx" in arg or "v100" in arg for arg in argv):
                continue
            code, out, err = _said(capsys, *argv, "--requests", "1000")
            assert (code, err) == (0, ""), argv
            assert out


def test_loads_of_every_kind_from_the_command_line(capsys) -> None:
    ask = ("simulate", "preset:node-dlrm", "--json", "--requests", "20000", "--qps", "3000")
    seen = {}
    for name, more in {
        "stages": ("--arrangement", "stages", "--max-batch", "2", "--timeout", "0.0005"),
        "day": ("--arrivals", "diurnal:2:1,3,2"),
        "items": ("--sizes", "mixed:16=1,96=1", "--sizes-are", "items"),
        "lookups": ("--sizes", "lognormal:8:0.5:40", "--sizes-are", "lookups", "--max-batch", "4", "--buckets", "2"),
    }.items():
        code, out, err = _said(capsys, *ask, *more)
        assert code == 0, err
        seen[name] = json.loads(out)
    assert {"sparse", "dense", "PCIe 3.0 x4, in"} <= seen["stages"]["use"].keys()
    assert seen["items"]["latency_s"]["p95"]["value"] > seen["items"]["latency_s"]["p50"]["low"]


def test_capacity_compares_systems(capsys) -> None:
    ask = ("capacity", "preset:wide-deep-int8", "--demand", "2000", "--sla", "p99=50ms", "--requests", "20000")
    code, out, _ = _said(capsys, *ask, "--against", "preset:wide-deep-fp32", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["against"][0]["plan"]["nodes"] > data["plan"]["nodes"]
    code, out, _ = _said(capsys, *ask, "--against", "preset:dfx-345m")
    assert code == 0
    assert "perf/W" in out
    assert "against preset:dfx-345m: " in out


def test_a_trace_brings_its_own_sizes(capsys, tmp_path) -> None:
    file = tmp_path / "trace.csv"
    rows = [f"{i * 0.05:.2f},{16 if i % 2 else 60}" for i in range(200)]
    file.write_text("time_s,size\n" + "\n".join(rows))
    ask = ("simulate", "preset:node-xlmr", "--requests", "200", "--json")
    code, out, _ = _said(capsys, *ask, "--qps", "20", "--arrivals", f"trace:{file}")
    assert code == 0
    mixed = json.loads(out)["latency_s"]
    assert mixed["p95"]["value"] > 1.02 * mixed["p50"]["low"]


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_a_batched_decoder_carries_what_its_report_says(batch: int) -> None:
    """Tokens a second of a full node, and so their cost, are those of continuous batching at the scenario's batch."""
    scenario = default_scenario("h100-sxm", "llama3.1-70b", devices=4, scheme="tensor").with_(
        batch=batch, inputs=1024, outputs=1024, precision="fp8"
    )
    queue, sizes, outputs = Serving(max_batch=batch).of(scenario)
    joined = evaluate(scenario).continuous
    assert joined is not None
    tokens = capacity(queue, sizes, outputs).qps * scenario.outputs
    print(f"batch {batch}: {tokens:.0f} tokens/s carried, {joined.throughput_per_s:.0f} reckoned")
    assert tokens == pytest.approx(joined.throughput_per_s, rel=0.06)
