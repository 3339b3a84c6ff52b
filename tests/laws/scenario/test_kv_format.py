"""A KV cache in a format of its own: half the bits are half the bytes, never slower, more room, and old links stand."""

import csv

import pytest

from engine.cli.main import main
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.plan.jobs import job_of
from engine.resolve.bind import bind
from engine.resolve.choices import choices, default_scenario, why_not
from engine.scenario import ScenarioError, decode, encode
from engine.scenario.fields import field
from engine.sweep.attribution import attribute
from engine.traffic.engines.pass_times import decoder_of
from engine.traffic.scenario_load import priced
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.effort import share

CATALOG, ZOO = default_catalog(), default_zoo()
OF = field("kv_format")
SYSTEMS = ("h100-sxm", "a100-sxm-80gb", "tpu-v5e", "xeon-8480plus", "apple-m1-max")
CACHED = [id for id in ZOO.ids() if ZOO.workload(id).family == "transformer-decoder"]
OLD = (  # of the default scenario of two pairs, before the field was there
    "1z4VOaOjVQ226DMAz9Fz-nCJjWTfzKNKEQXLCahChOShHqv8-B9c2Xc7N3GHQyM3SNArNwYuh2QI9x2vrMYx8w9vdV9nUliJBRkFWrICeyxDrR4svuqmB"
    "DHYX9UdUvBSM-yCAfsuRDLrqfjfCs3rDAdgFZcnQaGh3wWfyg89naAkvozdbzexCWVZKsZyvcJadTtWm_pXtgjDTiv3DQUbt3HdEQHzFhuDVXUMBmRieHAJ"
    "OfLJZJsJTkDqlSxIMrwXklec0hCrfMwkgxo4Ip6jCfjRjwxgmdqM1NXV_46URPniPon18FEuw0F711iXe7aDkSrNVOt5evAV5_"
)


def state_of(scenario) -> tuple[float, float]:
    """Bytes of state that the report's memory holds, and bytes that all operators move off chip. [B]"""
    _, _, times = priced(scenario)
    kept = sum(fit.state_bytes for part in times.priced for fit in part.fits)
    return kept, sum(float(run.cost.offchip.sum()) * run.passes for part in times.priced for run in part.runs)


@each(("system", "workload"), lambda: share([(s, w) for s in SYSTEMS for w in CACHED if why_not(s, w) is None]))
def test_half_the_bits_are_half_the_bytes_and_never_slower(system, workload):
    base = default_scenario(system, workload, batch=4, inputs=256, outputs=8)
    report, eight = evaluate(base), evaluate(base.with_(kv_format="fp8"))
    (kept, moved), (kept_8, moved_8) = state_of(base), state_of(base.with_(kv_format="fp8"))
    if base.precision in ("bf16", "fp16"):  # a state that does not grow is no cache and keeps its bits
        terms = ZOO.graph(workload).state_elements.terms
        held = [(term.c, term.at(base.batch, 1, base.inputs + base.outputs - 1)) for term in terms]
        cache = sum(size for grows, size in held if grows) / sum(size for _, size in held)
        assert kept_8 == pytest.approx(kept * (1 - cache / 2), rel=1e-3 if cache < 1 else 1e-12)
    assert 0 < kept_8 <= kept
    assert moved_8 <= moved
    assert eight.latency_s <= report.latency_s
    assert evaluate(base.with_(kv_format="int8")).latency_s == eight.latency_s


@each("workload", CACHED)
def test_what_a_gpu_moves_less_is_half_of_its_state(workload):
    """Every byte of state lies off chip there: a pass reads and writes half of it, and nothing else changes."""
    base = default_scenario("h100-sxm", workload, batch=4, inputs=256, outputs=8, precision="bf16")
    bound = bind(base)
    state = 0.0
    for phase in bound.graph.phases:
        passes = phase.repeat.at(base.inputs, base.outputs)
        (stage,) = priced(base)[1].stages
        job = job_of(bound, stage, family("gpu"), phase)
        at = (job.batch, job.length, job.context)
        caches = [o for o in job.ops if o.state_reads.c or not o.state_reads.coef]
        elements = sum((o.state_reads.at(*at) + o.state_writes.at(*at)) * o.layers * o.steps.at(*at) for o in caches)
        state += 2.0 * passes * elements
    _, moved = state_of(base)
    _, moved_8 = state_of(base.with_(kv_format="fp8"))
    assert moved - moved_8 == pytest.approx(state / 2, rel=1e-9)


@pytest.mark.parametrize("system", ["h100-sxm", "xeon-8480plus"])
def test_the_cache_holds_twice_the_tokens(system):
    base = default_scenario(system, "gpt2-1.5b", precision="bf16")
    plain, eight = (decoder_of(s, 1, 64) for s in (base, base.with_(kv_format="fp8")))
    assert plain.scheduler.kv_blocks is not None
    assert eight.scheduler.kv_blocks is not None
    assert abs(eight.scheduler.kv_blocks - 2 * plain.scheduler.kv_blocks) <= 2
    assert (eight.times.attention <= plain.times.attention).all()


def test_links_of_before_open_and_stay_as_they_are():
    old = decode(OLD)
    assert old.kv_format is None
    assert old == default_scenario("h100-sxm", "llama2-7b")
    assert encode(old) == OLD
    assert decode(encode(old.with_(kv_format="fp8"))).kv_format == "fp8"


@each("system", CATALOG.ids("systems"))
def test_it_is_offered_where_it_is_priced_and_refused_in_a_sentence_elsewhere(system):
    kind = CATALOG.device(CATALOG.system(system).devices[0].device).kind
    for workload in ("gpt2-345m", "resnet50", "dlrm-less-complex"):
        if why_not(system, workload):
            continue
        scenario = default_scenario(system, workload)
        if scenario.scheme == "split":
            scenario = scenario.with_(scheme="single", devices=1) if "single" in choices(scenario).schemes else scenario
        offered = choices(scenario).of(OF)
        assert bool(offered) == (
            kind in ("gpu", "cpu", "dfx") and workload == "gpt2-345m" and scenario.scheme != "split"
        )
        if offered:
            assert offered[0] == "as activations"
            evaluate(scenario.with_(kv_format=offered[-1]))
            continue
        with pytest.raises((ScenarioError, Unsupported), match="kv_format is 'fp8'; allowed here: as activations"):
            evaluate(scenario.with_(kv_format="fp8"))
    with pytest.raises(ScenarioError, match="kv_format is 'int3'; allowed: as activations, fp16, fp8, int8"):
        evaluate(default_scenario("h100-sxm", "gpt2-345m", kv_format="int3"))


@pytest.mark.parametrize(("precision", "own"), [("fp16", "fp16"), ("w8a16", "fp16"), ("int8", "int8")])
def test_a_core_names_the_format_its_multipliers_take(precision, own):
    """Its own format by name changes nothing; another one is refused."""
    base = default_scenario("dfx-u280", "gpt2-345m", precision=precision)
    assert evaluate(base.with_(kv_format=own)).latency_s == evaluate(base).latency_s
    other = {"fp16": "int8", "int8": "fp16"}[own]
    for value in (other, "fp8"):
        with pytest.raises(ScenarioError, match=f"kv_format is '{value}'; allowed: as activations, {own}$"):
            evaluate(base.with_(kv_format=value))


def test_a_gain_of_it_is_one_of_precision():
    base = default_scenario("h100-sxm", "llama2-7b", batch=16)
    attribution = attribute(base, base.with_(kv_format="fp8"))
    assert set(attribution.shares) == {"precision"}
    assert attribution.shares["precision"] == attribution.target - attribution.base < 0
    mixed = attribute(base.with_(kv_format="fp8"), default_scenario("dfx-u280", "gpt2-345m"))
    assert set(mixed.shares) >= {"precision"}


def test_the_command_line_takes_it_and_exports_it(capsys):
    pair = ["evaluate", "--system", "h100-sxm", "--workload", "gpt2-345m"]
    assert main([*pair, "--kv-format", "fp8", "--csv"]) == 0
    (row,) = csv.DictReader(capsys.readouterr().out.splitlines())  # a sentence in it may hold commas
    assert row["kv_format"] == "fp8"
    assert main([*pair, "--kv-format", "as activations", "--csv"]) == 0
    assert ",as activations," in capsys.readouterr().out
