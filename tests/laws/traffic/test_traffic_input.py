"""Bad loads, policies, traces and plans get one sentence that names what is wrong; plans add up."""

import io
from dataclasses import replace

import numpy as np
import pytest

from engine.traffic import (
    Bursty,
    DecoderServer,
    Demand,
    Diurnal,
    DynamicBatching,
    Fixed,
    Gamma,
    Mixed,
    NoBatching,
    NodeFacts,
    Poisson,
    Service,
    SiteFacts,
    Sla,
    Station,
    TandemQueue,
    Trace,
    TrafficError,
    capacity_plan,
    max_qps,
    read_trace,
    simulate,
    single,
)
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.serving import Serving
from tests.each import each
from tests.laws.traffic.queues import decoder

NODE = NodeFacts(qps=400.0, full_qps=500.0, idle_w=200.0, busy_w=600.0, capex_usd=20_000.0, cards=6)
TWO = Service(np.array([[1e-3, 2e-3]]), sizes=(1, 8))

BAD = {
    "qps": lambda: Poisson(0.0),
    "cv": lambda: Gamma(1.0, float("nan")),
    "peak": lambda: Bursty(10.0, 5.0, 0.5, 1.0),
    "shape": lambda: Diurnal(1.0, (0.0, 0.0)),
    "instants": lambda: Trace.of([3.0, 1.0]),
    "hold_s": lambda: Service(np.array([[0.0]])),
    "latency_s": lambda: Service(np.ones((2, 1)), np.ones((1, 1))),
    "size": lambda: Fixed(float("nan")),
    "sizes": lambda: Service(np.ones((1, 2)), sizes=(4, 4)),
    "batches": lambda: Service.from_points([2, 4], [1.0, 2.0]),
    "servers": lambda: Service.constant(1.0, servers=0),
    "longest is 0": lambda: DecoderServer(decoder((1, 8), np.ones(2), np.ones((1, 2))).times, Scheduler(), 0),
    "places": lambda: DynamicBatching(8, 0.0, places=4),
    "timeout_s": lambda: DynamicBatching(8, float("inf")),
    "edges": lambda: DynamicBatching(4, 0.0, edges=(8, 8)),
    "max_batch": lambda: single(Service.constant(1.0), DynamicBatching(2, 0.1)),
    "share": lambda: Serving(share=1.5),
    "weights": lambda: Mixed((1, 2), (0.0, 0.0)),
    "station names": lambda: TandemQueue((Station(TWO), Station(TWO))),
    "largest in the service table, 8": lambda: simulate(single(TWO), Poisson(1.0), sizes=Fixed(9), requests=1000),
    "requests": lambda: simulate(single(TWO), Poisson(1.0), requests=3),
    "requests is 1000000000000": lambda: simulate(single(TWO), Poisson(1.0), requests=10**12),
    "every launch": lambda: Service(np.array([[0.0, 1.0], [1.0, 1.0]]), sizes=(1, 2)),
    "a size takes both or neither": lambda: Service(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]]), sizes=(1, 2)),
    "sla": lambda: Sla.parse("p99=20 parsecs"),
    "metric": lambda: Sla.parse("p98=20ms"),
    "time": lambda: max_qps(single(TWO), Sla.parse("ttft:p99=20ms"), Poisson(1.0)),
    "demand": lambda: Demand((0.0,)),
    "full_qps": lambda: NodeFacts(2.0, 1.0, 1.0, 1.0, 1.0),
    "busy_w": lambda: NodeFacts(1.0, 1.0, 2.0, 1.0, 1.0),
    "pue": lambda: SiteFacts(pue=0.9),
    "rack_w": lambda: capacity_plan(Demand((1.0,)), NODE, SiteFacts(rack_w=100.0)),
    "survives": lambda: capacity_plan(Demand((1.0,)), NODE, survives="meteor"),
    "longest": lambda: simulate(
        decoder((1, 8), np.ones(2), np.ones((1, 2))),
        Poisson(0.01),
        sizes=Fixed(8),
        outputs=Fixed(8),
        requests=1000,
    ),
}


@each("field", BAD)
def test_bad_input_is_one_sentence_that_names_the_field(field: str) -> None:
    with pytest.raises(TrafficError) as caught:
        BAD[field]()
    text = str(caught.value)
    assert field in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "in time_s; two or more are needed"),
        ("when\n1\n2\n", "time_s is needed"),
        ("time_s,colour\n1,2\n", "allowed"),
        ("time_s\n1\n", "two or more are needed"),
        ('"time_s\n1\n2\n', "line 1"),
        ("time_s\n1\nsoon\n", "line 3: time_s is 'soon'"),
        ("time_s\n2\n1\n", "line 3"),
        ("time_s\n1\nnan\n", "line 3"),
        ("time_s,size\n1,2\n2,0\n", "line 3: size is '0'"),
        ("time_s,size\n1,2\n2,1.5\n", "line 3: size is '1.5'"),
        ("time_s,size\n1,2\n2\n", "line 3: it has 1 cells"),
        ("time_s\n1\n1\n", "duration"),
        ("time_s\n1\n2" + "0" * 200_000, "line 3"),
        ("time_s\n1\n\0\n", "line 3"),
        ('time_s\n1\n"2', "line 3"),
        ("time_s,size\n1,2\n2,1e300\n", "line 3: size is '1e300'"),
        ("time_s,time_s\n1,2\n", "line 1: a column is there twice"),
        ("x" * 100_000, "in time_s; two or more are needed"),
        ("time_s\n1\n" + "9" * 400 + "\n", "line 3"),
        ("time_s\n1\n=HYPERLINK(1)\n", "line 3: time_s is '=HYPER"),
    ],
)
def test_bad_trace_names_its_line(text: str, says: str) -> None:
    with pytest.raises(TrafficError, match=says) as caught:
        read_trace(io.StringIO(text))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_trace_that_is_no_text_is_refused(tmp_path) -> None:
    for name, content in {"bytes": bytes(range(256)), "utf16": "time_s\n1\n2\n".encode("utf-16")}.items():
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(TrafficError, match="trace"):
            read_trace(file)
    with pytest.raises(TrafficError, match="can't be read"):
        read_trace(tmp_path)


def test_trace_file_is_read(tmp_path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("\ufefftime_s,size,output\n10,3,7\n10.5,4,8\n\n12,5,9\n", encoding="utf-8")
    trace, sizes, outputs = read_trace(file)
    assert trace.times(3, 0, 0).tolist() == [0.0, 0.5, 2.0]
    assert trace.qps == pytest.approx(1.0)
    assert sizes.draw(4, 0, 0, 0).tolist() == [3, 4, 5, 3]
    assert outputs.values.tolist() == [7, 8, 9]
    with pytest.raises(TrafficError, match="can't be read"):
        read_trace(tmp_path / "none.csv")


def test_sla_is_read() -> None:
    assert Sla.parse("p99=20ms") == Sla(0.02)
    assert Sla.parse(" latency:p95 <= 0.3s ") == Sla(0.3, "p95")
    assert Sla.parse("mean=1.5e2us").seconds == pytest.approx(1.5e-4)


@each("survives", ["none", "card", "node", "rack"])
@each("peak", [10.0, 399.0, 400.0, 5_000.0, 123_456.0])
def test_plan_is_the_least_that_survives(survives: str, peak: float) -> None:
    demand = Demand((0.3 * peak, peak, 0.5 * peak))
    site = SiteFacts(slots=10, rack_w=4_000.0, rack_usd=3_000.0, pue=1.4, usd_per_kwh=0.2, years=4.0)
    plan = capacity_plan(demand, NODE, site, headroom=0.1, survives=survives)
    assert plan.nodes_per_rack == 6  # power, not slots
    need = 1.1 * peak * (1 - 1e-9)
    lost = {"none": 0.0, "card": 1 / 6, "node": 1.0, "rack": min(6, plan.nodes)}[survives]
    assert plan.degraded_qps == pytest.approx((plan.nodes - lost) * 400.0)
    assert plan.degraded_qps >= need
    fewer = plan.nodes - 1
    lost_of_fewer = min(6, fewer) if survives == "rack" else lost
    assert fewer < 1 or (fewer - lost_of_fewer) * 400.0 < need
    assert plan.racks == -(-plan.nodes // 6)


def test_plan_money_and_power_add_up() -> None:
    site = SiteFacts(pue=1.25, usd_per_kwh=0.1, years=3.0, rack_usd=1_000.0)
    plan = capacity_plan(Demand((500.0, 1500.0)), NODE, site, headroom=0.0, survives="none")
    assert plan.nodes == 4
    assert plan.mean_w == pytest.approx(4 * (200 + 400 * 0.5) * 1.25)
    assert plan.peak_w == pytest.approx(4 * (200 + 400 * 0.75) * 1.25)
    assert plan.capex_usd == 81_000.0
    assert plan.energy_usd_per_year == pytest.approx(2.0 * 24 * 365.25 * 0.1)
    assert plan.usd_per_million == pytest.approx((27_000 + plan.energy_usd_per_year) / (1000 * 365.25 * 86_400) * 1e6)
    assert plan.energy_j_per_inference == pytest.approx(2.0)
    many = capacity_plan(Demand((500.0, 1500.0)), replace(NODE, inferences=50), site, headroom=0.0, survives="none")
    assert many.usd_per_million == pytest.approx(plan.usd_per_million / 50)
    assert many.inferences_per_joule == pytest.approx(50 * plan.inferences_per_joule)
    idle = capacity_plan(Demand((1.0,)), NODE, site, survives="none")
    assert idle.energy_j_per_inference == pytest.approx((200 + 400 / 500) * 1.25)  # idle power is not free


def test_finite_buffer_smaller_than_a_batch_is_refused_but_zero_places_are_a_loss_system() -> None:
    assert NoBatching(0).places == 0
    with pytest.raises(TrafficError):
        DynamicBatching(8, 0.0, places=7, edges=(4,))
