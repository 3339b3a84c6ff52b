"""A GPU draws what its operations and bytes take: more with more work, never more than its board may."""

import pytest

from engine import default_scenario, evaluate
from engine.cost.best_plan import make_plan
from engine.cost.power_and_price import account
from engine.evaluate import bind
from hardware_specs import default_catalog
from tests.each import each

GPUS = [id for id in default_catalog().ids("systems")
        if default_catalog().device(default_catalog().system(id).devices[0].device).kind == "gpu"]  # fmt: skip


def _report(system: str, workload: str, **fields):
    return evaluate(default_scenario(system, workload, **fields))


@each("system", GPUS)
def test_power_grows_with_the_work_up_to_the_limit(system: str) -> None:
    """A token at a time draws less than many at once; both lie between what is drawn anyway and the limit."""
    power = default_catalog().device(default_catalog().system(system).devices[0].device).power
    if power.max is None or power.loaded is not None:  # nothing is published, or it was measured
        return
    watts, joules = {}, {}
    for batch in (1, 64):
        scenario = default_scenario(system, "llama3.1-8b", batch=batch, inputs=512, outputs=64)
        bound = bind(scenario)
        drawn = account(bound, make_plan(bound))
        limit, idle = drawn.limit_w, drawn.idle_w
        report = evaluate(scenario)
        watts[batch], joules[batch] = report.power_w, report.energy_per_output_token_j
        assert idle < report.power_w <= limit * (1 + 1e-12)
        assert report.energy_per_unit_j == pytest.approx(report.power_w / report.throughput_per_s)
    if system != "h20":  # its memory outdraws a sixth of the arithmetic of its kin
        assert watts[1] <= watts[64] * (1 + 1e-12)
    assert watts[1] < 0.75 * limit or system not in ("a100-sxm-80gb", "h100-sxm", "b200-sxm", "l4", "l40s")
    assert joules[64] < joules[1] / 4


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_large_products_draw_what_the_board_may(precision: str) -> None:
    """A prompt of large products meets the limit of the board that its arithmetic was priced under."""
    report = _report("h100-sxm", "llama2-70b", precision=precision, batch=32, inputs=4096, outputs=1)
    assert 0.7 * 700.0 < report.power_w <= 700.0


def test_counted_energy_is_what_is_drawn_beside_the_rest() -> None:
    """Joules by part and what is drawn anyway make the power; of many devices those of all."""
    for devices in (1, 8):
        scenario = default_scenario("h100-sxm", "llama3.1-8b", batch=8, devices=devices,
                                    scheme="tensor" if devices > 1 else "single")  # fmt: skip
        bound, report = bind(scenario), evaluate(scenario)
        idle = account(bound, make_plan(bound)).idle_w
        interval = 8 * scenario.outputs / report.throughput_per_s
        links = report.power_w - idle - sum(report.energy.values()) / interval
        assert links == pytest.approx(0.0, abs=1e-6) if devices == 1 else 0.0 < links < 0.1 * report.power_w


@pytest.mark.parametrize("fields", [{}, {"batch": 32}, {"devices": 4, "scheme": "tensor"}])
def test_tokens_read_and_written_take_what_a_request_takes(fields: dict) -> None:
    """Energy and cost of input and output tokens add up to the request's; a written one takes more."""
    r = _report("h100-sxm", "llama3.1-8b", **fields)
    s = r.scenario
    for read, written, total in (
        (r.energy_per_input_token_j, r.energy_per_output_token_j, r.energy_per_unit_j),
        (r.usd_per_million_input, r.usd_per_million_output, r.usd_per_million),
    ):
        assert read * s.inputs + written * s.outputs == pytest.approx(total * s.outputs, rel=1e-9)
        assert 0.0 < read < written


def test_what_reads_no_tokens_has_no_cost_of_them() -> None:
    assert _report("h100-sxm", "resnet50").energy_per_input_token_j is None
    assert _report("xeon-8280l", "llama3.1-8b").energy_per_output_token_j is not None
