"""Physics on every (system, workload) pair: an answer or one sentence, parts that sum, and nothing above a peak."""

import json
import math
from functools import cache

import pytest

from engine.cost.report import Report
from engine.devices import family
from engine.devices.common.contract import RESOURCES, Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario, why_not
from engine.scenario import ScenarioError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.effort import share

SYSTEMS = default_catalog().ids("systems")
WORKLOADS = default_zoo().ids()


@cache
def tried(system: str) -> tuple[str, ...]:
    """A share of a share of the networks, another for each system; more where it refuses all of those."""
    at = SYSTEMS.index(system)
    several = share(WORKLOADS, at)
    wider = (share(several, at // 5), several, WORKLOADS)
    return tuple(next(few for few in wider if few is WORKLOADS or any(not why_not(system, id) for id in few)))


@cache
def answer(system: str, workload: str, precision: str | None = None) -> Report | str:
    """The pair's report, or the sentence that says why there is none."""
    try:
        scenario = default_scenario(system, workload)
        return evaluate(scenario.with_(precision=precision) if precision else scenario)
    except (ScenarioError, Unsupported) as error:
        return str(error)


def is_sentence(text: str) -> bool:
    return bool(text) and "\n" not in text and "Traceback" not in text and len(text) < 400


def check_report(report: Report) -> None:
    """The laws one report must obey."""
    parts = sum(op.time_s for op in report.ops) + sum(row.time_s for row in report.other)
    assert math.isfinite(report.latency_s)
    assert report.latency_s > 0
    assert parts == pytest.approx(report.latency_s, rel=1e-9)
    assert sum(report.breakdown.values()) == pytest.approx(report.latency_s, rel=1e-9)
    assert report.throughput_per_s > 0
    roofs = {line.device: line for line in report.rooflines}
    assert roofs
    for op in report.ops:
        assert op.time_s >= 0, op.name
        assert math.isclose(sum(op.resources[r] for r in RESOURCES), op.time_s, rel_tol=1e-9, abs_tol=1e-30), op.name
        assert op.peak_used <= 1 + 1e-9, (op.name, op.peak_used)
        assert math.isfinite(op.intensity or 0.0), op.name
    for row in report.links:
        assert 0 <= row.utilisation <= 1
    if report.power_w is not None:
        assert report.energy_per_unit_j == pytest.approx(report.power_w / report.throughput_per_s)
        assert report.throughput_per_w * report.energy_per_unit_j == pytest.approx(1)
    assert report.verdict
    read = {"ops": report.ops, "timeline": report.timeline, "times": None}
    json.dumps(vars(report) | read, default=vars, allow_nan=False)  # every number is one


@each("system", SYSTEMS)
def test_every_pair_answers_or_says_why(system: str) -> None:
    answered = 0
    for workload in tried(system):
        found = answer(system, workload)
        if isinstance(found, str):
            assert is_sentence(found), (workload, found)
        else:
            check_report(found)
            if not answered:
                json.dumps(found.to_dict(), allow_nan=False)
            answered += 1
    assert answered > 0, f"{system} runs nothing"


@each("system", SYSTEMS)
def test_every_format_that_is_offered_answers_or_says_why(system: str) -> None:
    """What a part's sheet names alone, as INT4 on cards whose generation was measured without, is priced too."""
    runs = [w for w in tried(system) if isinstance(answer(system, w), Report)]
    workload = "resnet50" if "resnet50" in runs else runs[0]
    for precision in choices(default_scenario(system, workload)).formats:
        found = answer(system, workload, precision)
        if isinstance(found, str):
            assert is_sentence(found), (workload, precision, found)
        else:
            check_report(found)


@each("system", SYSTEMS)
def test_why_not_agrees_with_evaluate(system: str) -> None:
    for workload in tried(system):
        reason = why_not(system, workload)
        assert (reason is None) == isinstance(answer(system, workload), Report), (workload, reason)


@each("system", SYSTEMS)
def test_offchip_traffic_stays_under_the_memory_roof(system: str) -> None:
    for workload in tried(system):
        found = answer(system, workload)
        if isinstance(found, str):
            continue
        device_bandwidth = {
            line.device: sum(b for _, role, b in line.levels if role == "offchip") for line in found.rooflines
        }
        if len(device_bandwidth) > 1:
            continue
        bandwidth = next(iter(device_bandwidth.values()))
        moved = sum(op.offchip_bytes for op in found.ops)
        if bandwidth:
            assert moved <= found.latency_s * bandwidth * (1 + 1e-9), (workload, moved / found.latency_s / bandwidth)


EXERCISED = {
    "cpu": (("xeon-8280l", "resnet50"), ("xeon-8280l", "wide-deep-criteo"), ("xeon-e5-1630v3", "binary-fc-4096")),
    "gpu": (("h100-sxm", "llama3.2-1b"), ("trainium-2", "resnet50"), ("v100-appliance", "gpt2-345m")),
    "card": (("fb-node", "dlrm-less-complex"), ("fb-node", "xlm-r-large"), ("fb-node", "fbnetv3-detection")),
    "npu": (("brainwave-a10", "resnet50"),),
    "dfx": (("dfx-u280", "gpt2-345m"),),
    "smartnic": (("agilio-cx", "binary-fc-4096"),),
}


@pytest.mark.parametrize("kind", sorted(EXERCISED))
def test_parameters_at_their_limits_give_times(kind):
    """Whatever a scenario may set a model parameter to, the answer is a time under the peak, or one sentence."""
    for parameter in family(kind).parameters:
        for value in {parameter.low, parameter.high}:
            if math.isinf(value):
                continue
            for system, workload in EXERCISED[kind]:
                scenario = default_scenario(system, workload).with_(overrides={f"model.{parameter.name}": value})
                told = parameter.name, value, system, workload
                if parameter.unit == "element" and value == parameter.high:  # more silicon than the device has
                    with pytest.raises(ScenarioError, match=f"model.{parameter.name} (is )?{value:g}.* at most"):
                        evaluate(scenario)
                    continue
                report = evaluate(scenario)
                assert 0 < report.latency_s < math.inf, told
                assert 0 < report.throughput_per_s < math.inf, told
                assert max(op.peak_used for op in report.ops) <= 1 + 1e-9, told
