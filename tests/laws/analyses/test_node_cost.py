"""What a node costs: every part has a price with its range, every price can be set, and work has a cost."""

import pytest

from engine.cost.power_and_price import waiting
from engine.cost.report import Report
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.traffic.scenario_load import priced
from hardware_specs.catalog import default_catalog

PRICES = {
    "devices.0.price": 6,  # of a node of six cards
    "host.price": 1,
    "links.switch.price": 1,
    "links.network.price": 1,
}


def _node(**changes) -> Report:
    return evaluate(default_scenario("fb-node", "dlrm-more-complex", **changes))


def test_a_node_costs_the_sum_of_its_parts():
    catalog = default_catalog()
    card, host = catalog.device("m2-card").price, catalog.device("xeon-d-2191").price
    switch, nic = catalog.link("pcie-switch").price, catalog.link("nic-50g-shared").price
    for one in (card, host, switch, nic):
        assert one is not None
        assert one.basis == "assumed"
        assert one.note.startswith("assumed, ")  # the range stands in the note
    assert _node().capex_usd == pytest.approx(6 * card.si + host.si + switch.si + nic.si)
    assert _node(devices=3, scheme="tables").capex_usd == pytest.approx(3 * card.si + host.si + switch.si + nic.si)
    one = evaluate(default_scenario("fb-card", "resnet50"))
    assert one.capex_usd == pytest.approx(card.si + host.si)


@pytest.mark.parametrize(("path", "count"), PRICES.items())
def test_every_price_can_be_set_and_counts_as_often_as_the_part_is_there(path, count):
    base = _node()
    low, high = (_node(overrides={path: f"{usd} USD"}).capex_usd for usd in (100, 1100))
    assert high - low == pytest.approx(1000 * count)
    assert _node(overrides={path: 0.0}).usd_per_million < base.usd_per_million


def test_a_million_items_cost_price_and_energy():
    found = _node()
    costs = found.scenario.costs
    made = found.throughput_per_s * costs.utilisation
    seconds = costs.years * 365.25 * 86400
    bound, plan, _ = priced(found.scenario)
    waits, _ = waiting(bound, plan, found.power_w)
    drawn = costs.utilisation * found.power_w + (1.0 - costs.utilisation) * waits
    each = found.capex_usd / (seconds * made) + drawn * costs.pue * costs.energy_usd_per_kwh / 3.6e6 / made
    assert found.usd_per_million == pytest.approx(1e6 * each)


def test_a_what_if_that_changes_the_card_needs_its_price():
    path = "devices.0.memory.lpddr.bandwidth"
    assert _node(overrides={path: 134.4e9}).capex_usd is None
    assert _node(overrides={path: 134.4e9, "devices.0.price": 900.0, "host.price": 1600.0}).capex_usd is not None
