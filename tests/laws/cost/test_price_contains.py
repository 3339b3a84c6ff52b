"""A price is that of a node: devices, switch, links, host; what nobody prices is named beside it."""

import pytest

from engine.choose import choose
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario, why_not
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each

CATALOG = default_catalog()


@each("id", CATALOG.ids("systems"))
def test_every_priced_system_says_what_its_price_contains(id: str) -> None:
    runs = (w for w in ("mlp-mnist", "binary-mlp-mnist", "gpt2-345m", *default_zoo().ids()) if why_not(id, w) is None)
    scenario = default_scenario(id, next(runs))
    report = evaluate(scenario)
    assert bool(report.price_contains) == (report.capex_usd is not None)
    assert report.to_dict()["price_contains"] == report.price_contains
    system = CATALOG.system(id)
    devices = [CATALOG.device(group.device) for group in system.devices]
    host = CATALOG.device(system.host.device) if system.host else None
    whole = any(device.cpu or device.own_cpu for device in devices)  # a processor, or a computer of its own
    if report.capex_usd is None:
        assert not report.price_of
    elif host is not None and host.price is not None:
        assert host.name in report.price_contains
        assert not report.price_lacks
    else:
        assert bool(report.price_lacks) == (not whole)
        assert ("not priced" in report.price_of) == (not whole)
        hosted = evaluate(scenario.with_(costs={"host_usd": 1000.0}))
        hosts = 0 if whole else -(-report.devices_used // 8)
        assert hosted.capex_usd == pytest.approx(report.capex_usd + 1000.0 * hosts)
        assert not hosted.price_lacks


def test_rivals_are_compared_as_nodes() -> None:
    """Every priced row of an answer buys all of a node, and opens elsewhere with that price."""
    systems = ("l4", "fb-node", "jetson-orin-nano-super", "xeon-d-2191", "h100-sxm", "rtx-4090")
    answers = {usd: choose({"workload": "resnet50", "batch": 8, "systems": systems, "costs": {"host_usd": usd}})
               for usd in (None, 1000.0)}  # fmt: skip
    for row in answers[None].rows:
        assert row.report is not None
        assert not row.report.price_lacks, row.system
        assert evaluate(row.best.scenario).capex_usd == row.report.capex_usd
    dear, cheap = ({row.system: row.report.capex_usd for row in answer.rows} for answer in answers.values())
    assert {id for id in systems if dear[id] != cheap[id]} == {"l4", "h100-sxm", "rtx-4090"}
    (rented,) = choose(
        {"workload": "resnet50", "batch": 8, "systems": ["l4"], "prices": {"l4": {"usd_per_hour": 1}}}
    ).rows
    assert rented.best.usd_per_hour == pytest.approx(1.0)


def test_a_node_names_its_host_switch_and_nic() -> None:
    names = evaluate(default_scenario("fb-node", "dlrm-more-complex")).price_contains
    parts = [CATALOG.device("m2-card"), CATALOG.device("xeon-d-2191"), CATALOG.link("pcie-switch"),
             CATALOG.link("nic-50g-shared")]  # fmt: skip
    assert names == (f"6 × {parts[0].name}", *(part.name for part in parts[1:]))
